"""The CI scripts, run with a Python that only writes down what it is asked."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vnetperf.log.trial_log import LOG_NAME
from vnetperf.report import REPORTS

#: Each runs a script that starts Python several times.
pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]
SCRIPTS = ("verify", "merge", "daily")
TOKEN = "s3cret-t0ken"  # noqa: S105 - made up
Done = subprocess.CompletedProcess[str]


class Ci:
    """Runs a script of ci/ in an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.artefacts = folder / "artefacts"
        self.history = folder / "history"
        self.log = folder / "calls"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "DEPS": "no",
            "VNETCI_PYTHON": str(TOP / "tests/ci/fake_python"),
            "VNETCI_HISTORY": str(self.history),
            "FAKE_LOG": str(self.log),
            "FAKE_MEASURED": "phy2phy_testpmd phy2phy_bridge pvp_bridge pvp_dpdk phy2phy_dpdk",
        }

    def __call__(self, script: str, *options: str, **environment: str) -> Done:
        argv = [str(TOP / "ci" / script), "--artefacts", str(self.artefacts), *options]
        return subprocess.run(
            argv,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            timeout=60,
        )

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def said(self) -> str:
        return "".join(path.read_text() for path in self.artefacts.rglob("*.log"))


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_dry_run_prints_commands_and_does_nothing(ci: Ci, script: str) -> None:
    done = ci(script, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "pytest" in done.stdout
    assert not ci.calls
    assert not ci.artefacts.exists()
    assert not ci.history.exists()


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_and_wrong_options(ci: Ci, script: str) -> None:
    assert f"ci/{script} [--dry-run]" in ci(script, "--help").stdout
    wrong = ci(script, "--no-such")
    assert wrong.returncode == 2
    assert "unknown option '--no-such'; try --help" in wrong.stderr


def test_merge_measures_what_is_named_and_keeps_the_run(ci: Ci) -> None:
    done = ci("merge", "phy2phy_testpmd", "phy2phy_bridge")
    assert done.returncode == 0, done.stdout + done.stderr
    [smoke] = [call for call in ci.calls if "-m pytest" in call]
    assert "-k phy2phy_testpmd or phy2phy_bridge " in smoke
    assert "--preset smoke" in smoke
    kept = ci.artefacts / "run/trials.jsonl"
    assert kept.stat().st_mode & 0o777 == 0o644
    assert (ci.artefacts / "run/junit.xml").exists()
    assert not [p for p in ci.artefacts.parent.iterdir() if p.name.startswith("vnetperf-merge")]


def test_every_report_of_a_run_is_kept(tmp_path: Path) -> None:
    run, kept = tmp_path / "run", tmp_path / "kept"
    run.mkdir()
    for name in (*REPORTS, LOG_NAME, "run.log"):
        (run / name).touch()
    subprocess.run([TOP / "ci/keep_run", run, kept], check=True, capture_output=True)
    # The page has links to all files of numbers.
    assert {path.name for path in kept.iterdir()} == {*REPORTS, LOG_NAME, "run.log"}


def test_a_scenario_that_was_skipped_fails_merge(ci: Ci) -> None:
    done = ci("merge", "phy2phy_testpmd", "pvp_sriov")
    assert done.returncode == 1
    assert "pvp_sriov has no number" in ci.said()
    assert "failed: measured" in done.stderr


def test_every_failure_is_told_and_the_rest_still_runs(ci: Ci) -> None:
    done = ci("merge", FAKE_FAILS="pytest testcases", FAKE_NO_RUN="yes")
    assert done.returncode == 1
    assert re.search(r"failed: smoke began", done.stderr)
    steps = (ci.artefacts / "steps.tsv").read_text()
    assert "smoke\t1\t" in steps


def test_the_first_day_has_nothing_to_be_compared_with(ci: Ci) -> None:
    done = ci("daily")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to compare it with" in done.stdout
    assert not [call for call in ci.calls if " compare " in call]


def test_a_day_is_compared_with_the_days_before(ci: Ci) -> None:
    for _ in range(5):
        assert ci("daily").returncode == 0
    compared = [call for call in ci.calls if " compare " in call]
    assert len(compared) == 4
    _, sides = compared[-1].split(" compare ")
    before, now = sides.split()  # one run out of turn: nothing that a gate could judge
    days = ("2026112", "-010203")
    assert before.split("+") == [f"{ci.history}/{days[0]}{n}{days[1]}" for n in (1, 2, 3)]
    assert now == f"{ci.history}/latest"
    [trend] = [call for call in ci.calls if " trend " in call][-1:]
    assert trend.partition(" trend ")[2].startswith(f"{ci.history} ")
    for option in ("--preset quick", "--fail-if-worse"):
        assert option in trend


def test_a_worse_number_fails_the_day_unless_it_is_only_told(ci: Ci) -> None:
    ci("daily")
    done = ci("daily", FAKE_FAILS="--fail-if-worse")
    assert done.returncode == 1
    assert "failed: trend" in done.stderr
    assert (ci.artefacts / "run/results.json").exists()
    assert ci("daily", "--tell-only", FAKE_FAILS="--fail-if-worse").returncode == 0


def test_a_day_without_a_run_is_not_judged_by_yesterdays(ci: Ci) -> None:
    assert ci("daily").returncode == 0
    ci.log.unlink()
    done = ci("daily", FAKE_NO_RUN="yes")
    assert done.returncode == 1
    assert "failed: measure began" in done.stderr
    assert not [call for call in ci.calls if "compare" in call or "measured" in call]


def test_old_runs_are_removed_and_the_newest_kept(ci: Ci) -> None:
    for _ in range(4):
        ci("daily", VNETCI_KEEP="2")
    kept = sorted(path.parent.name for path in ci.history.glob("*/results.json"))
    assert len([name for name in kept if name != "latest"]) == 2


def test_results_are_published_only_if_wanted_and_the_token_is_nowhere(ci: Ci) -> None:
    ci("daily", TESTAPI_TOKEN=TOKEN)
    assert not [call for call in ci.calls if " publish " in call]
    url = "https://results.example/api/v1/results"
    done = ci("daily", TESTAPI_TOKEN=TOKEN, VNETCI_TESTAPI=url)
    [call] = [call for call in ci.calls if " publish " in call]
    assert call.endswith(f"--testapi {url}")
    assert TOKEN not in done.stdout + done.stderr + ci.said() + "".join(ci.calls)


def test_where_artefacts_are_public_a_redacted_copy_is_kept(ci: Ci) -> None:
    ci("merge", VNETCI_REDACT="yes")
    [call] = [call for call in ci.calls if " redact " in call]
    assert call.endswith(f"-o {ci.artefacts}/run")
    assert not (ci.artefacts / "run/trials.jsonl").exists()
    refused = ci("merge", VNETCI_REDACT="yes", FAKE_FAILS="cli redact")
    assert refused.returncode == 1
    assert not (ci.artefacts / "run").exists()


def test_verify_runs_lint_and_the_fast_tests(ci: Ci, programs: Callable[..., Path]) -> None:
    folder = programs({"make": 'echo make "$@"'})
    done = ci("verify", PATH=f"{folder}:{os.environ['PATH']}", JOBS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    (make,) = (line for line in ci.said().splitlines() if line.startswith("make "))
    assert make.endswith(" check DEPS=no")
    [tests] = [call for call in ci.calls if "pytest tests" in call]
    for words in ("not real", "not slow", "not browser", "-n 1"):
        assert words in tests
    broken = ci("verify", PATH=f"{folder}:{os.environ['PATH']}", FAKE_FAILS="pytest tests")
    assert broken.returncode == 1
    assert "failed: tests" in broken.stderr
