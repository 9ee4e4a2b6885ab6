"""The lanes of tests: what they collect, and that none waits for ever."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import run
from vnetperf.host.wait import wait_for

TOP = Path(__file__).parents[2]


def test_every_folder_with_tests_is_in_a_lane_of_each_kind() -> None:
    every = {f"tests/{path.parent.relative_to(run.TESTS).parts[0]}" for path in files()}
    assert {*run.folders(real=False), "tests/real", "tests/contract"} == every
    assert {*run.folders(real=True)} < every
    for path in files():  # by the mark itself, in whatever form it stands
        if "pytest.mark.real" in path.read_text():
            assert f"tests/{path.relative_to(run.TESTS).parts[0]}" in run.folders(real=True)
    assert {"tests/contract", "tests/real", "tests/virt"} <= {*run.folders(real=True)}


def test_what_a_parallel_part_leaves_out_has_only_real_tests() -> None:
    left_out = {path.name for path in run.real_files()}
    assert {"test_answers.py", "test_guardian.py"} <= left_out
    assert "test_lab_real.py" not in left_out
    for path in run.real_files():
        assert re.search(r"^pytestmark\b", path.read_text(), re.M)
        assert f"tests/{path.relative_to(run.TESTS).parts[0]}" in run.folders(real=True)


def files() -> list[Path]:
    return list(run.TESTS.rglob("test_*.py"))


def test_every_test_of_the_lanes_own_has_a_limit() -> None:
    parts = [part for rounds in run.LANES.values() for parts in rounds for part in parts]
    assert all(any(word.startswith("--timeout=") for word in part) for part in parts)
    lanes = {lane: len(run.LANES[lane]) * run.LIMITS[lane] for lane in run.LANES}
    assert max(seconds for lane, seconds in lanes.items() if lane != "daily") < 5400


def test_a_part_that_does_not_end_is_ended() -> None:
    hangs = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(hangs) as process:
        assert run.end_within(time.monotonic() + 0.1, process) == run.TIMED_OUT


@pytest.mark.slow  # pytest with a worker in a process of its own
def test_a_part_that_hangs_ends_with_the_stacks_of_its_workers(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
import pathlib, time

def hang(config):
    pathlib.Path("hangs-in-a-worker").touch()
    time.sleep(300)

def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        hang(session.config)
"""
    )
    pytester.makepyfile("def test_passes(): pass")
    command = [sys.executable, "-m", "pytest", "-p", "no:vnetperf", "-n", "1"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        hangs = (pytester.path / "hangs-in-a-worker").exists
        wait_for(hangs, 120.0, "the worker")
        (worker,) = run.children(process.pid)
        run.end_with_stacks(process)
        assert process.stderr is not None
        stacks = process.stderr.read().decode()
    assert process.returncode == -signal.SIGABRT
    assert run._has_ended(worker)
    of_worker, _, of_distributor = stacks.partition("dsession.py")
    assert re.search(r'conftest.py", line \d+ in hang\b', of_worker)
    assert "in loop_once" in of_distributor


@pytest.mark.slow
def test_a_test_that_hangs_fails_by_its_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import time\n\ndef test_hangs():\n    time.sleep(60)\n")
    result = pytester.runpytest_subprocess("-p", "no:vnetperf", "-n", "1", "--timeout=0.5")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAILED*test_hangs*Time*"])
