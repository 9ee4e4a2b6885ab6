"""Processors that are kept free for a run: of real threads, and put back."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host.affinity import free_processors, undo_affinity
from vnetperf.host.cpu import read_topology
from vnetperf.host.journal import Journal, pending_changes, read_journal

CPUS = [cpu.number for cpu in read_topology().allowed]
#: A run beside would move these threads as well: those on real software go one after the other.
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two processors"),
]

#: Answers each line with the processors of a child that it starts then.
PROGRAM = (
    "import os,subprocess,sys\n"
    "print('up', flush=True)\n"
    "for line in sys.stdin:\n"
    "    code = 'import os,sys;print(*sorted(os.sched_getaffinity(0)), flush=True);"
    "sys.stdin.read()'\n"
    "    child = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE)\n"
)


@contextlib.contextmanager
def program(cpus: set[int]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True
    ) as process:
        os.sched_setaffinity(process.pid, cpus)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A view of processes that has only some of the machine's: others are not moved by tests."""
    (tmp_path / "proc").mkdir()
    return tmp_path / "proc"


def show(proc: Path, pid: int) -> None:
    (proc / str(pid)).symlink_to(f"/proc/{pid}")


def announced(journal: Journal) -> list[dict[str, Any]]:
    """What is to be undone, as it is read after a kill."""
    changes = pending_changes(read_journal(journal.path).records)
    return [change["data"] for change in changes if change["kind"] == "affinity"]


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_threads_leave_processors_and_come_back(journal: Journal, proc: Path) -> None:
    first, second = CPUS[:2]
    with program({first, second}) as one, program({first}) as pinned, program({second}) as away:
        for process in (one, pinned, away):
            show(proc, process.pid)
        assert free_processors(journal, {first}, proc=proc) == 1
        assert os.sched_getaffinity(one.pid) == {second}
        assert os.sched_getaffinity(pinned.pid) == {first}  # it may run nowhere else
        assert os.sched_getaffinity(away.pid) == {second}
        # Of the journal's data, as after a kill.
        (data,) = announced(journal)
        assert "1 threads" in undo_affinity(data, proc=proc)
        assert os.sched_getaffinity(one.pid) == {first, second}
        assert os.sched_getaffinity(pinned.pid) == {first}
        assert os.sched_getaffinity(away.pid) == {second}


def test_what_is_started_meanwhile_gets_its_processors_too(journal: Journal, proc: Path) -> None:
    first, second = CPUS[:2]
    with program({first, second}) as one:
        show(proc, one.pid)
        free_processors(journal, {first}, proc=proc)
        assert one.stdin is not None
        assert one.stdout is not None
        print("go", file=one.stdin, flush=True)
        assert one.stdout.readline() == f"{second}\n"
        (child,) = children(one.pid)
        show(proc, child)
        (data,) = announced(journal)
        undo_affinity(data, proc=proc)
        assert os.sched_getaffinity(child) == {first, second}
        os.kill(child, 9)


def test_those_that_stay_stay_and_whom_somebody_else_moved_is_left_alone(
    journal: Journal, proc: Path
) -> None:
    first, second = CPUS[:2]
    with program({first, second}) as kept, program({first, second}) as moved:
        show(proc, kept.pid)
        show(proc, moved.pid)
        assert free_processors(journal, {first}, {kept.pid}, proc=proc) == 1
        assert os.sched_getaffinity(kept.pid) == {first, second}
        os.sched_setaffinity(moved.pid, {first})  # its owner's wish
        (data,) = announced(journal)
        undo_affinity(data, proc=proc)
        assert os.sched_getaffinity(moved.pid) == {first}


def test_a_newcomer_of_somebody_else_is_left_alone(journal: Journal, proc: Path) -> None:
    """Its processors are those that are left by its own wish; no moved thread has started it."""
    first, second = CPUS[:2]
    with program({first, second}) as moved:
        show(proc, moved.pid)
        free_processors(journal, {first}, proc=proc)
        with program({second}) as pinned:
            show(proc, pinned.pid)
            (data,) = announced(journal)
            undo_affinity(data, proc=proc)
            assert os.sched_getaffinity(moved.pid) == {first, second}
            assert os.sched_getaffinity(pinned.pid) == {second}
