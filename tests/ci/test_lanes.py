"""The lanes of tests: what they collect, and that none waits for ever."""

from __future__ import annotations

import os
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
    assert {*run.folders("not real"), "tests/real", "tests/contract"} == every
    assert {*run.folders("real")} < every
    for path in files():  # by the mark itself, in whatever form it stands
        for mark in ("real", "isolated"):
            if f"pytest.mark.{mark}" in path.read_text():
                assert folder_of(path) in run.folders(mark)
    assert run.folders("isolated") == ["tests/virt"]
    assert {"tests/contract", "tests/real", "tests/virt"} <= {*run.folders("real")}


def test_what_a_parallel_part_leaves_out_has_only_real_tests() -> None:
    left_out = {path.name for path in run.real_files()}
    assert {"test_answers.py", "test_guardian.py", "test_lab_real.py"} <= left_out
    for path in run.real_files():
        assert re.search(r"^pytestmark\b", path.read_text(), re.M)
        assert folder_of(path) in run.folders("real")


def folder_of(path: Path) -> str:
    return f"tests/{path.relative_to(run.TESTS).parts[0]}"


def files() -> list[Path]:
    return list(run.TESTS.rglob("test_*.py"))


def test_every_test_of_the_lanes_own_has_a_limit() -> None:
    every = [part for rounds in run.LANES.values() for together in rounds for part in together]
    assert all(any(word.startswith("--timeout=") for word in part) for part in every)
    for lane, rounds in run.LANES.items():
        if lane != "daily":  # parts of a round run at the same time
            assert len(rounds) * max(run.LIMITS[lane]) < 5400


def test_a_part_that_does_not_end_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    hangs = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(hangs) as process:
        assert run.end_within(0.1, process, "no end of it") == run.TIMED_OUT
    assert "no end of it" in capfd.readouterr().err


def parts(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> list[list[str]]:
    """Parts that are scripts instead of pytest; the first is a parallel one."""
    commands = {script: [sys.executable, "-S", "-c", script] for script in scripts}
    monkeypatch.setattr(run, "command_of", lambda part: commands[part[-1]])
    return [["-n", "2", scripts[0]], *([script] for script in scripts[1:])]


#: A part that waits for a file of the other one.
MEETS = """
import pathlib, sys, time
pathlib.Path({mine!r}).touch()
while not pathlib.Path({other!r}).exists():
    time.sleep(0.01)
print({name!r})
sys.exit({status})
"""


@pytest.mark.parametrize(("beside", "last"), [(0, 0), (1, 0), (0, 2), (3, 4)])
def test_parts_run_side_by_side_and_each_status_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    beside: int,
    last: int,
) -> None:
    """What runs beside is printed after the last one."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    scripts = (
        MEETS.format(mine=a, other=b, name="beside", status=beside),
        MEETS.format(mine=b, other=a, name="last", status=last),
    )
    assert run.side_by_side(parts(monkeypatch, *scripts), 1, (60, 60)) == [beside, last]
    assert capfd.readouterr().out.split() == ["last", "beside"]


def test_a_part_beside_is_ended_and_printed_when_another_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    scripts = ("print('beside')", "import time; time.sleep(60)")
    assert run.side_by_side(parts(monkeypatch, *scripts), 1, (60, 0.2)) == [0, run.TIMED_OUT]
    told = capfd.readouterr()
    assert told.out.split() == ["beside"]
    assert "within 0.2 s" in told.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_a_lane_ends_its_parts_and_sees_what_they_printed(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A part beside is in a session of its own, which no terminal's signal reaches."""
    beside = "import time\nprint('beside', flush=True)\ntime.sleep(60)"
    last = "import pathlib, time\npathlib.Path('on').touch()\ntime.sleep(60)"
    lane = f"""
import sys
from tests import run
run.IMAGES, run.EXAMPLES, run.LIMITS = {{"x": ()}}, {{"x": 1}}, {{"x": (60, 60)}}
run.LANES = {{"x": [[["-n", "b"], ["t"]]]}}
scripts = {{"b": {beside!r}, "t": {last!r}}}
run.command_of = lambda part: [sys.executable, "-S", "-c", scripts[part[-1]]]
run.main("x")
"""
    env = {**os.environ, "PYTHONPATH": str(TOP)}
    process = subprocess.Popen(
        [sys.executable, "-c", lane],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    with process:
        wait_for((tmp_path / "on").exists, 60.0, "the parts")
        time.sleep(0.5)  # until the part beside has printed
        started = run.children(process.pid)
        assert len(started) == 2
        os.killpg(process.pid, number)  # as a terminal, or who cancels a job
        out, _ = process.communicate(timeout=60)
    assert out.startswith("beside\n")
    assert out.endswith("KeyboardInterrupt\n")  # of the part beside: pytest would end in order
    assert all(run.has_ended(one) for one in started)


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
    assert run.has_ended(worker)
    of_worker, _, of_distributor = stacks.partition("dsession.py")
    assert re.search(r'conftest.py", line \d+ in hang\b', of_worker)
    assert "in loop_once" in of_distributor


@pytest.mark.slow
def test_a_test_that_hangs_fails_by_its_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import time\n\ndef test_hangs():\n    time.sleep(60)\n")
    result = pytester.runpytest_subprocess("-p", "no:vnetperf", "-n", "1", "--timeout=0.5")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAILED*test_hangs*Time*"])
