"""pytest in a checkout, as who only measures types it there: without what our own tests need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT

MISSING = "raise ModuleNotFoundError(\"No module named 'hypothesis'\")\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files that pytest finds in a checkout."""
    top = tmp_path / "checkout"
    top.mkdir()
    for name in ("setup.cfg", "tests", "testcases", "vnetperf"):
        (top / name).symlink_to(ROOT / name)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "hypothesis.py").write_text(MISSING)
    return top


def run(checkout: Path, *args: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
    """Run pytest where Hypothesis is missing, on a testbed that there is not."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (checkout.parent / "without", ROOT))),
        "VNETPERF_TESTBED": "none-so-that-nothing-is-measured",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *args],
        cwd=checkout / folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_a_misspelt_path_is_named(checkout: Path) -> None:
    result = run(checkout, "testcase/", "-k", "pvp_dpdk")
    assert result.returncode == 4
    assert "not found: testcase/" in result.stderr
    assert "hypothesis" not in result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--resume={}",), ("--resume", "{}")])
def test_results_elsewhere_are_found_by_resume(
    checkout: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = run(checkout, *(word.format(elsewhere) for word in words))
    assert result.returncode == 4
    assert "there is no run to resume here" in result.stderr  # it was looked for


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "typed"),
    [(".", ()), (".", ("-n", "2")), ("testcases/comparisons", ("--preset", "smoke"))],
)
def test_nothing_chosen_measures_nothing(
    checkout: Path, folder: str, typed: tuple[str, ...]
) -> None:
    result = run(checkout, *typed, folder=folder)
    assert result.returncode == 4
    for command in ("-k phy2phy_bridge", "--preset smoke", "--plan", "vnetperf doctor"):
        assert command in result.stderr


#: Options that say how scenarios are measured: with each alone there are thousands of cases.
HOW = {
    "--tests": "throughput",
    "--frame-sizes": "64",
    "--preset": "smoke",
    "--vnf": "vloop",
    "--testbed": "mine",
    "--traffic": "bidirectional",
    "--repeat": "2",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "typed",
    [*((name, value) for name, value in HOW.items()), ("--tests=throughput", "--vnf=vloop")],
)
def test_how_to_measure_is_no_choice_of_what(checkout: Path, typed: tuple[str, ...]) -> None:
    result = run(checkout, *typed)
    assert result.returncode == 4
    command = next(line for line in result.stderr.splitlines() if "-k phy2phy_bridge" in line)
    assert " ".join(typed) in command  # with what was typed, so that it can be copied
    assert command.count("--preset") == 1
    assert typed[0].partition("=")[0] in result.stderr.partition("try one of")[0]
    chosen = run(checkout, *typed, "-k", "pvp_dpdk")
    assert "try one of" not in chosen.stderr


@pytest.mark.slow
@pytest.mark.parametrize("typed", [("testcases",), ("-k", "pvp_dpdk")])
def test_what_is_chosen_is_measured(checkout: Path, typed: tuple[str, ...]) -> None:
    result = run(checkout, *typed)
    assert "none-so-that-nothing-is-measured" in result.stderr  # it was about to


COUNT = """
import sys
import pytest
status = pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *sys.argv[1:]])
ours = [module for name, module in sys.modules.items() if name.startswith("vnetperf")]
rewritten = [m for m in ours if "Rewriting" in type(getattr(m, "__loader__", 0)).__name__]
print(int(status), len(rewritten), *(module.__name__ for module in ours))
"""


@pytest.mark.slow
def test_a_selection_imports_what_it_needs_and_rewrites_no_asserts(
    checkout: Path, tmp_path: Path
) -> None:
    """As installed from a wheel, and with the egg-info of a checkout in the current folder."""
    installed = tmp_path / "installed"
    record = installed / "vnetperf-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: vnetperf\nVersion: 1.0\n")
    points = metadata.distribution("vnetperf").read_text("entry_points.txt") or ""
    (record / "entry_points.txt").write_text(points)
    (record / "RECORD").write_text("vnetperf/__init__.py,,\nvnetperf/runner/run.py,,\n")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (installed, ROOT))),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-c", COUNT, "testcases", "-k", "pvp_dpdk"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    status, rewritten, *loaded = done.stdout.splitlines()[-1].split()
    assert (status, done.stderr) == ("0", "")
    assert int(rewritten) <= 2  # the package itself, and that of the plugin, which ends it
    assert "vnetperf.vswitches.dpdk" in loaded  # it is there for pvp_dpdk
    others = ("runner.conductor", "networks.base", "procedures", "report", "vswitches.vpp", "agent")
    assert not {f"vnetperf.{name}" for name in others} & {*loaded}


WHOLE = {"type": "run", "version": 1, "identity": {"command": "pytest -k pvp_dpdk"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (WHOLE | {"version": 999}, "another version of vnetperf wrote this log"),
        (WHOLE | {"identity": {}}, "trials.jsonl:1"),
        (WHOLE | {"settings": ["a"]}, "trials.jsonl:1"),
        (WHOLE | {"settings": {"preset": "smoke"}}, "trials.jsonl:1"),
        ({"type": "trial"}, "trials.jsonl:1"),
        ([], "trials.jsonl:1"),
        (None, "is a link"),
        ("", "--resume names no folder"),
    ],
    ids=["newer", "no command", "list", "no source", "no run", "no record", "link", "no name"],
)
def test_a_log_that_cannot_be_continued_is_refused_before_collection(
    line: object, words: str, checkout: Path
) -> None:
    folder = checkout / "run"
    folder.mkdir()
    log = folder / ("other.jsonl" if line is None else "trials.jsonl")
    log.write_text(json.dumps(line) + "\n")
    if line is None:
        (folder / "trials.jsonl").symlink_to(log)
    result = run(checkout, "--resume=" if line == "" else "--resume=run")
    assert result.returncode == 4
    assert words in result.stderr
    assert "collected" not in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
