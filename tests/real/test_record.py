"""A real run has its whole environment, can be given away, and can be published."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import TOP, UserRun
from tests.report.publish_server import serve
from vnetperf.analysis.checklist import checklist
from vnetperf.analysis.environment import environment_differences
from vnetperf.cli import main
from vnetperf.model.result import RunResults

pytestmark = pytest.mark.daily

Start = Callable[..., UserRun]
Unchanged = Callable[[], tuple[str, ...]]
#: Fields that no program tells; everything else must come from somewhere, or say what was tried.
NOBODY_TELLS = {"build flags", "descriptors", "offloads"}
MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.I)
ONE = ("--tests=throughput", "--frame-sizes=64")


def results_of(folder: Path) -> RunResults:
    return RunResults.model_validate_json((folder / "results.json").read_text())


def test_record_redaction_and_publishing(
    start: Start, unchanged: Unchanged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = "measured by alice.m@acme-labs.example"
    run = start(*ONE, "-k", "pvp_dpdk", "--pcap=5", f"--notes={notes}")
    assert run.finish() == 0, run.output
    assert unchanged() == ()
    folder = (run.results / "latest").resolve()
    results = results_of(folder)
    for item in checklist(results):
        if item.name not in NOBODY_TELLS:
            assert not re.search("did not record|does not tell", item.reason), item
    copy = tmp_path / "copy"
    assert main(["redact", str(folder), "-o", str(copy)]) == 0
    told = capsys.readouterr().out
    assert "captured frames hold addresses" in told
    for path in copy.rglob("*"):
        text = path.read_text()
        assert "alice" not in text
        assert "acme-labs" not in text
        made = {mac.lower() for mac in MAC.findall(text)}
        assert not [m for m in made if not m.startswith(("02:76:", "02:5e:53:"))], path
    redacted = results_of(copy)
    assert [r.goals for r in redacted.results] == [r.goals for r in results.results]
    with serve() as api:
        assert main(["publish", str(copy), "--testapi", api.url]) == 0
    assert [d["case_name"] for d in api.documents] == ["pvp_dpdk_throughput"]
    assert main(["publish", str(folder), "--openmetrics", "-"]) == 0
    assert 'vnetperf_throughput_fps{scenario="pvp_dpdk"' in capsys.readouterr().out


def test_two_runs_in_a_row_have_the_same_environment(start: Start) -> None:
    runs = []
    for _ in range(2):
        run = start(*ONE, "-k", "phy2phy_testpmd")
        assert run.finish() == 0, run.output
        runs.append(results_of((run.results / "latest").resolve()))
    # Whoever else uses the machine may reserve hugepages between them.
    found = [d for d in environment_differences(*runs) if "hugepages" not in d.path]
    assert [d for d in found if d.path != "run.git"] == []


def test_merge_on_real_backends(tmp_path: Path, unchanged: Unchanged) -> None:
    argv = ["ci/merge", "--artefacts", str(tmp_path), "phy2phy_testpmd"]
    done = subprocess.run(
        ["env", "DEPS=no", *argv], cwd=TOP, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert unchanged() == ()
    measured = {r.scenario for r in results_of(tmp_path / "run").results if r.goals}
    assert measured == {"phy2phy_testpmd"}
