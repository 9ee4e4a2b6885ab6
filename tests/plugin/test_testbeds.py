"""Several testbeds at once: `--testbed lab1,lab2 -n 2`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.plugin.conftest import Site
from tests.texts import Texts, lines_with
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import read_run
from vnetperf.pytest_plugin.xdist import WorkerProgress

LAB = """
isolation = "simulated"
"""
SCENARIOS = ("phy2phy_dpdk", "pvp_dpdk", "pvvp_dpdk", "pvpv_dpdk")
SELECT = ("-k", " or ".join(SCENARIOS), "--frame-sizes", "64,1518")


@pytest.fixture
def labs(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name in ("lab1", "lab2", "lab3"):
        (site.path / f"{name}.toml").write_text(LAB)
    speeds = {f"lab{n}": {"duts": [1e5 * n, 1e5 * n], "kernel": f"6.6.{n}"} for n in (1, 2, 3)}
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"testbeds": speeds}))
    return site


def wish(monkeypatch: pytest.MonkeyPatch, name: str, **wishes: Any) -> None:
    """Shape the host of one testbed."""
    held = {f"lab{n}": {"kernel": f"6.6.{n}"} for n in (1, 2, 3)}
    held[name] |= wishes
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"testbeds": held}))


def at(*numbers: int) -> tuple[str, ...]:
    return ("--testbed", ",".join(f"./lab{n}.toml" for n in numbers), "-n", str(len(numbers)))


@pytest.mark.slow
def test_each_worker_has_a_testbed_and_no_number_is_of_two(labs: Site) -> None:
    expected = {"lab1": "at_most = 2.1e5", "lab2": "at_least = 3.5e5"}
    (labs.path / "expect.toml").write_text(
        "\n".join(
            f'[[expect]]\nscenario = "*,testbed={lab}"\n{bound}' for lab, bound in expected.items()
        )
    )
    run = labs.run(*at(1, 2), *SELECT, "--expect", "expect.toml")
    run.assert_outcomes(passed=8)
    for lab in expected:
        run.stdout.fnmatch_lines([f"met: *,testbed={lab}, throughput, *"])
    (folder,) = labs.folders
    assert {p.name for p in folder.glob("*.jsonl")} == {"trials@lab1.jsonl", "trials@lab2.jsonl"}
    content = labs.results()
    assert content["testbeds"] == ["lab1", "lab2"]
    assert content["run"]["testbed"] == "lab1, lab2"
    beds: dict[str, set[str]] = {}
    for one in content["results"]:
        plain, _, bed = one["scenario"].rpartition(",testbed=")
        beds.setdefault(plain, set()).add(bed)
        (ndr,) = (g for g in one["goals"] if g["name"] == "ndr")
        # each way of the simulated DUT forwards so much
        limit = 2e5 * int(bed[-1])
        assert 0.9 * limit < ndr["lower_bound_fps"] <= limit
    assert sorted(beds) == sorted(SCENARIOS)
    assert {len(found) for found in beds.values()} == {1}  # a scenario's cases stay together
    assert set.union(*beds.values()) == {"lab1", "lab2"}
    assert {name: e["kernel"] for name, e in content["environment"].items()} == {
        "lab1": {"release": "6.6.1"},
        "lab2": {"release": "6.6.2"},
    }
    assert {c["testbed"] for c in content["calibrations"]} == {"lab1", "lab2"}
    numbers = [t["number"] for t in content["trials"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert any("measured on 2 testbeds at once" in w for w in content["warnings"])
    assert not any("interrupted" in w for w in content["warnings"])
    lines = [line for line in run.outlines if "so far" in line]
    assert any(" lab1: test_throughput[" in line for line in lines)
    assert any(" lab2: test_throughput[" in line for line in lines)
    derived = derive(read_run(folder)).model_dump(mode="json")
    for result in derived["results"]:
        assert result.pop("outcome") is None  # which results.json has of tests of plugins
    assert derived == content
    _is_resumed_where_it_was(labs, folder)


def _is_resumed_where_it_was(labs: Site, folder: Path) -> None:
    before = labs.results()["results"]
    log = folder / "trials@lab2.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    ends = [n for n, line in enumerate(lines) if b'"type":"search-end"' in line]
    log.write_bytes(b"".join(lines[: ends[-2] + 1]))
    labs.calls_file.unlink()
    labs.run("--resume", "results/latest", "-n", "2").assert_outcomes(passed=8)
    assert len(labs.folders) == 1
    assert labs.calls("deploy").total() == 1
    after = labs.results()["results"]
    assert [(r["scenario"], r["frame_size"]) for r in after] == [
        (r["scenario"], r["frame_size"]) for r in before
    ]


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_each_testbed_is_planned(labs: Site, workers: tuple[str, ...]) -> None:
    (labs.path / "lab2.toml").write_text(LAB + "[media]\nbits_per_second = 1e9\n")
    beds = ("--testbed", "./lab1.toml,./lab2.toml", "--frame-sizes", "64")
    text = labs.run(*beds, *workers, "-k", "phy2phy_dpdk", "--plan").stdout.str()
    titles = [line.strip("= ") for line in text.splitlines() if " on lab" in line]
    assert titles == [
        f"{what} on lab{n}"
        for n in (1, 2)
        for what in ("plan of phy2phy_dpdk", "time of all plans")
    ]
    assert text.count("tests       throughput") == 2
    assert not labs.folders


@pytest.mark.daily  # what has no testbed of its own is calibrated as often: test_running.py
@pytest.mark.slow
def test_testbeds_are_calibrated_at_once_and_once_each(
    labs: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None waits for another, and no size, of a mark either, costs a deployment."""
    labs.pytester.makepyfile(
        test_marked="""
        import pytest

        @pytest.mark.vnetperf(frame_sizes=(128, 256))
        def test_throughput_of_a_mark(bench, frame_size):
            bench.search_throughput(frame_size).check_expectations()
        """
    )
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"calibrates_beside": 2}))
    result = labs.run(*at(1, 2), "-k", " or ".join(SCENARIOS))
    result.assert_outcomes(passed=len(SCENARIOS) * 4)
    calibrated = labs.calls("calibrate")
    assert calibrated.pop("calibrate 64") == 2  # looked at again when all is measured
    assert calibrated == {"calibrate 64,128,256,1518": 2}
    assert labs.calls("deploy") == {f"deploy {name}": 1 for name in SCENARIOS}


@pytest.mark.daily  # each merge resumes one run of testbeds: the first test
@pytest.mark.slow
def test_a_scenario_is_resumed_where_it_was_finished(
    labs: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish(monkeypatch, "lab2", lost_after=3)
    labs.run(*at(1, 2), *SELECT).assert_outcomes(passed=8)
    before = labs.results()["results"]
    assert {r["scenario"].rpartition("=")[2] for r in before} == {"lab1"}
    wish(monkeypatch, "lab2")
    labs.calls_file.unlink()
    labs.run("--resume", "results/latest", "-n", "2").assert_outcomes(passed=8)
    assert labs.calls("deploy").total() == 0
    assert labs.results()["results"] == before


def refused(labs: Site, *options: str) -> str:
    """What a usage error of a run of workers says."""
    result = labs.run(*options)
    text = result.stderr.str() + result.stdout.str()
    assert result.ret == 4, text
    assert "INTERNALERROR" not in text
    return text


@pytest.mark.daily  # each merge resumes one run of testbeds: the first test
@pytest.mark.slow
def test_a_run_goes_on_with_the_testbeds_it_had(labs: Site, texts: Texts) -> None:
    select = ("-k", "pvp_dpdk or phy2phy_dpdk", "--frame-sizes", "64")
    resume = ("--resume", "results/latest")
    labs.run("--testbed", "./lab1.toml", *select).assert_outcomes(passed=2)
    text = refused(labs, *resume, *at(1, 2))
    texts.check(lines_with(text, "ERROR: --resume"))
    (folder,) = labs.folders
    assert [p.name for p in folder.glob("*.jsonl")] == ["trials.jsonl"]
    (labs.path / "results" / "latest").unlink()
    labs.run(*at(1, 2), *select).assert_outcomes(passed=2)
    cure = "name the testbeds of that run: --testbed ./lab1.toml,./lab2.toml and -n 2"
    for workers in ((), ("-n", "1"), ("-n", "2")):
        text = refused(labs, *resume, "--testbed", "./lab1.toml", *workers)
        several = lines_with(text, "is one on several")
        assert "names 1" in several[0]
        assert cure in text
    assert "has logs of 2 testbeds" in refused(labs, *resume, "-n", "1")


@pytest.mark.slow
@pytest.mark.parametrize("lost_after", [pytest.param(0, marks=pytest.mark.daily), 3])
def test_a_lost_testbed_is_taken_out_and_its_cases_go_to_another(
    labs: Site, monkeypatch: pytest.MonkeyPatch, lost_after: int
) -> None:
    wish(monkeypatch, "lab1", lost_after=lost_after)
    result = labs.run(*at(1, 2), *SELECT)
    result.assert_outcomes(passed=8)
    content = labs.results()
    measured = [r for r in content["results"] if r["status"] == "measured"]
    assert len(content["results"]) == len(measured) == 8
    assert {r["scenario"].rpartition("=")[2] for r in measured} == {"lab2"}
    assert any(
        "lab1: the testbed was lost: " in w and "cannot be reached" in w
        for w in content["warnings"]
    )
    assert result.stdout.str().count("testbed lab1 is lost") == 1
    (folder,) = labs.folders
    assert {p.name for p in folder.glob("*.jsonl")} == {"trials@lab1.jsonl", "trials@lab2.jsonl"}


@pytest.mark.slow
def test_what_one_testbed_cannot_carry_another_does(
    labs: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish(monkeypatch, "lab1", no_programs=True)
    labs.run(*at(1, 2), *SELECT).assert_outcomes(passed=8)
    assert {r["scenario"].rpartition("=")[2] for r in labs.results()["results"]} == {"lab2"}
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"no_programs": True}))
    result = labs.run(*at(1, 2), "-k", "pvp_dpdk")
    result.assert_outcomes(skipped=2)
    assert "lab1.toml: " in result.stdout.str()


@pytest.mark.slow
def test_testbeds_that_are_all_lost_fail_each_case(
    labs: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", json.dumps({"lost_after": 0}))
    result = labs.run(*at(1, 2), "-k", "pvp_dpdk")
    result.assert_outcomes(errors=2)
    assert "the host cannot be reached" in result.stdout.str()


BEDS = "./lab1.toml,./lab2.toml"
WRONG = {
    "one process": ((BEDS,), "names 2 testbeds"),
    "too many workers": ((BEDS, "-n", "3"), "-n 3, and testbed (command line) names 2"),
    "twins": (("./lab1.toml,./twin.toml", "-n", "1"), "two testbeds are called 'lab1'"),
    "one log": (("./blank.toml,./dash.toml", "-n", "1"), "would have one log, trials@lab_1"),
    "no file": (("./lab1.toml,./lab9.toml", "-n", "1"), "lab9"),
    "twice": (("./lab1.toml,./lab1.toml", "-n", "1"), "names ./lab1.toml twice"),
}
#: Each merge has workers that are refused before they measure, and one process.
EACH_MERGE = ("one process", "too many workers", "twins")


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [n if n in EACH_MERGE else pytest.param(n, marks=pytest.mark.daily) for n in WRONG],
)
def test_a_wrong_use_is_one_usage_error(labs: Site, use: str) -> None:
    for file, name in (("twin", "lab1"), ("blank", "lab 1"), ("dash", "lab_1")):
        (labs.path / f"{file}.toml").write_text(LAB + f'name = "{name}"\n')
    options, message = WRONG[use]
    assert message in refused(labs, "--testbed", *options, "-k", "pvp_dpdk")
    assert labs.folders == []


def test_a_worker_that_waits_says_so_once() -> None:
    sent: list[object] = []
    config: Any = SimpleNamespace(workerinput={"vnetperf_cases": SimpleNamespace(send=sent.append)})
    progress = WorkerProgress(config)
    waits = "waiting for the testbed: run 7 holds it"
    for _ in range(3):
        progress.say(waits)
        progress.say("deploying pvp_dpdk")
    progress.trial_begins(None, None)
    assert sent == [waits]
