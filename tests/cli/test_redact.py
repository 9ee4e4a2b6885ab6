"""A redacted copy of a run: no planted name survives in any file, and the numbers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runner.support import Bench
from vnetperf import cli
from vnetperf.analysis.results_from_log import derive
from vnetperf.model.result import RunResults
from vnetperf.results.folder import read_run
from vnetperf.results.log import LOG_NAME, lines_of, read_log
from vnetperf.results.records import (
    EnvironmentRecord,
    NotMeasuredRecord,
    Record,
    RunRecord,
    ScenarioRecord,
    TrialRecord,
)

HOST, USER, TESTBED = "qx7-node3", "alicem", "acme-rack9"
MAC, ADDRESS, SERIAL, COMPANY = "3c:fd:fe:9e:7a:01", "10.20.30.40", "CZJ0450QWE", "Quixotech"
NOTES = f"measured by {USER}@acme.example in room 4.17"
PLANTED = (HOST, USER, TESTBED, MAC, ADDRESS, SERIAL, COMPANY, "room 4.17", "acme.example")


def with_names(record: Record) -> Record:
    """The record as a machine with names would have made it."""
    if isinstance(record, RunRecord):
        testbed = record.testbed.model_copy(
            update={"name": TESTBED, "isolation": f"the lab network of {COMPANY} has no uplink"}
        )
        identity = record.identity.model_copy(
            update={
                "command": f"/home/{USER}/venv/bin/pytest --notes '{NOTES}' --testbed {TESTBED}",
                "notes": NOTES,
                "testbed": TESTBED,
                "isolation": testbed.isolation,
            }
        )
        settings = record.settings | {
            "testbed": {"value": TESTBED, "source": f"/home/{USER}/vnetperf.toml"},
            "notes": {"value": NOTES, "source": "command line"},
        }
        return record.model_copy(
            update={"testbed": testbed, "identity": identity, "settings": settings}
        )
    if isinstance(record, EnvironmentRecord):
        facts: dict[str, Any] = {
            "hostname": HOST,
            "firmware": {"serial": SERIAL},
            "kernel": {"cmdline": f"root=/dev/{HOST}-vg/root ip={ADDRESS}", "release": "6.1.0.44"},
            "nics": [{"pci": "0000:3b:00.0", "mac": MAC, "firmware": "218.0.152.0"}],
        }
        return record.model_copy(update={"facts": facts})
    if isinstance(record, ScenarioRecord):
        launch = f"ovs --db /home/{USER}/run --remote {ADDRESS}:6640 --host {HOST}"
        facts = {"vswitch": {"launch line": launch, "ports": {MAC: "phy0"}}}
        plan = record.facts.plan | {"testbed": {"name": TESTBED, "description": COMPANY}}
        told = record.facts.model_copy(update={"facts": facts, "plan": plan})
        return record.model_copy(update={"facts": told})
    if isinstance(record, TrialRecord) and record.number == 2:
        result = record.result.model_copy(update={"failure": f"{HOST}: no answer from {ADDRESS}"})
        update = {"result": result, "reason": f"{USER} was there", "captures": ("captures/a.pcap",)}
        return record.model_copy(update=update)
    return record


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    bench = Bench(folder)
    bench.throughput(64, "pvp_dpdk")
    bench.run.close()
    log = folder / LOG_NAME
    told = f"{HOST} refuses {MAC}"
    error = NotMeasuredRecord(scenario="pvp_vpp", test="throughput", frame_size=64, why=told)
    records = [*map(with_names, read_log(log)), error]
    log.write_bytes(b"".join(lines_of(records)))
    (folder / "captures").mkdir()
    (folder / "captures/a.pcap").write_bytes(b"frames")
    (folder / f"{HOST}.txt").write_text("a file of the user's")
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.rglob("*") if p.is_file()}


def redact(run: Path, *options: str) -> Path:
    copy = run.parent / "copy"
    assert cli.main(["redact", str(run), "-o", str(copy), *options]) == 0
    return copy


def numbers(results: RunResults) -> Any:
    return [
        (r.scenario, r.frame_size, [(g.lower_bound_fps, g.upper_bound_fps) for g in r.goals])
        for r in results.results
    ], [(t.number, t.load_fps, t.loss_ratio, t.verdict) for t in results.trials]


def test_no_planted_name_survives_in_any_file(run: Path) -> None:
    copy = redact(run, "--word", COMPANY)
    written = texts(copy)
    assert {"trials.jsonl", "results.json", "report.html", "report.md", "junit.xml"} <= set(written)
    for name, text in written.items():
        assert [p for p in PLANTED if p.casefold() in text.casefold()] == [], name
    assert not (copy / "captures").exists()
    assert not [name for name in written if HOST in name]


def test_planted_names_are_in_the_run_itself(run: Path) -> None:
    text = (run / LOG_NAME).read_text()
    assert all(planted in text for planted in PLANTED)


def test_the_same_name_has_the_same_token_and_group_10_tells(run: Path) -> None:
    copy = redact(run, "--word", COMPANY)
    results = RunResults.model_validate_json((copy / "results.json").read_text())
    host = results.environment["hostname"]
    assert host.startswith("host-")
    assert host in results.environment["kernel"]["cmdline"]
    assert host in results.scenarios[0].facts["vswitch"]["launch line"]
    assert results.redacted is not None
    assert results.redacted.values["MAC address"] == 1
    assert {"captures/a.pcap", f"{host}.txt"} <= set(results.redacted.dropped)
    assert "removed by redaction" in (copy / "report.md").read_text()


def test_versions_and_numbers_stay(run: Path) -> None:
    copy = redact(run)
    records = read_run(copy)  # its checksums hold
    assert numbers(derive(records)) == numbers(derive(read_run(run)))
    [environment] = [r for r in records if isinstance(r, EnvironmentRecord)]
    assert environment.facts["nics"][0]["firmware"] == "218.0.152.0"
    assert environment.facts["kernel"]["release"] == "6.1.0.44"


def test_what_is_kept_stays(run: Path) -> None:
    copy = redact(run, "--keep", "macs", "--keep", "hosts")
    text = (copy / LOG_NAME).read_text()
    assert MAC in text
    assert HOST in text
    assert USER not in text


def test_a_name_that_is_a_word_of_the_log_does_not_break_it(run: Path) -> None:
    log = run / LOG_NAME
    records = read_log(log)
    for n, record in enumerate(records):
        if isinstance(record, EnvironmentRecord):
            records[n] = record.model_copy(update={"facts": record.facts | {"hostname": "dpdk"}})
    log.write_bytes(b"".join(lines_of(records)))
    results = RunResults.model_validate_json((redact(run) / "results.json").read_text())
    assert results.environment["hostname"] == "host-1"
    assert results.results[0].scenario == "pvp_dpdk"
    assert results.redacted is not None
    assert results.redacted.limited


def test_a_copy_is_not_continued_and_keeps_its_folder_private(run: Path) -> None:
    copy = redact(run)
    [opening] = [r for r in read_log(copy / LOG_NAME) if isinstance(r, RunRecord)]
    assert opening.fingerprint == "redacted"
    assert copy.stat().st_mode & 0o777 == 0o700


def test_a_folder_in_use_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redact", str(run), "-o", str(run)]) == 1
    assert "in use" in capsys.readouterr().err


def test_an_edited_log_is_not_given_away(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = run / LOG_NAME
    log.write_text(log.read_text().replace('"received":', '"received":1', 1))
    assert cli.main(["redact", str(run), "-o", str(run.parent / "copy")]) == 1
    assert "checksum" in capsys.readouterr().err
    assert not (run.parent / "copy").exists()
