"""Whatever dies, and whenever: the machine is as it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.agents import is_held
from vnetperf.host import guardian, hugepages, locks, snapshot
from vnetperf.host.linux import ProcessId
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import find_processes
from vnetperf.host.session import HostRun, restore
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import TestbedBusyError

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("hugepages_to_ourselves")]

#: Raise for a soak: TEST_GUARDIAN_KILLS=200.
KILLS = int(os.environ.get("TEST_GUARDIAN_KILLS", "30"))
GIB_KB = 1048576
# One page is reserved at most once by each of up to 15 changes: only where memory is plenty.
MEMORY_KB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
USE_HUGEPAGES = MEMORY_KB > 12 * GIB_KB and any(
    pool.size_kb == GIB_KB for pool in hugepages.pools()
)


def kills(numbers: range, *, of_each_merge: int) -> list[Any]:
    """Numbers of random moments: some for every merge, all of them daily."""
    rest = [pytest.param(n, marks=pytest.mark.daily) for n in numbers[of_each_merge:]]
    return [*numbers[:of_each_merge], *rest]


class Agents:
    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "agents.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, **request: Any) -> ProcessId:
        pid = int(self._ask(json.dumps(request)))
        identity = ProcessId.of(pid)
        assert identity is not None
        return identity

    def kill(self, agent: ProcessId) -> None:
        os.kill(agent.pid, signal.SIGKILL)
        assert self._ask("reap") == "reaped"

    def _ask(self, line: str) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(line + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline().strip()

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    agents = Agents()
    yield agents
    agents.close()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "machine"
    path.mkdir()
    for name in ("value-a", "value-b", "file"):
        (path / name).write_text("1\n")
    return path


class Witness:
    """Compares the machine before and after, as far as these tests change it."""

    def __init__(self, roots: HostRoots, run_id: str, machine: Path) -> None:
        self._roots, self._run_id, self._machine = roots, run_id, machine
        self._before = self._look()

    def _look(self) -> tuple[snapshot.Snapshot, dict[str, str]]:
        marks = (self._run_id[:9], str(self._machine.parent), f"{GIB_KB} kB")
        areas = ("hugepages", "processes", "mounts", "links", "files")
        content = {path.name: path.read_text() for path in self._machine.iterdir()}
        return snapshot.take_snapshot(self._roots, areas).only(areas, marks), content

    def problems(self) -> list[str]:
        (before, content_before), (after, content_after) = self._before, self._look()
        problems = list(snapshot.compare_snapshots(before, after))
        if content_before != content_after:
            problems.append(f"content was {content_before}, is {content_after}")
        return problems + [f"process {pid} lives" for pid in find_processes(self._run_id)]


@pytest.mark.parametrize("seed", kills(range(KILLS), of_each_merge=12))
def test_an_agent_killed_at_any_moment(
    agents: Agents, roots: HostRoots, run_id: str, machine: Path, seed: int
) -> None:
    chance = random.Random(seed)
    witness = Witness(roots, run_id, machine)
    agent = agents.start(
        seed=seed,
        base=str(machine.parent),
        run_id=run_id,
        changes=chance.randrange(1, 15),
        close=chance.random() < 0.3,
        hugepages=USE_HUGEPAGES,
    )
    time.sleep(chance.random() * 0.5)
    agents.kill(agent)
    _until(lambda: not is_held(roots.lock("bed")), 20, lambda: _log(roots))
    if roots.state.exists():  # killed before its guardian was there: nothing else was changed
        assert not list(roots.journals.glob("*.jsonl")), _log(roots)
        assert restore(roots).complete
    _until(lambda: not witness.problems(), 20, lambda: str(witness.problems()))
    assert not roots.state.exists()
    assert not roots.run.exists()


@pytest.mark.parametrize("seed", kills(range(100, 108), of_each_merge=3))
def test_agent_and_guardian_killed_then_restored(
    agents: Agents, roots: HostRoots, run_id: str, machine: Path, seed: int
) -> None:
    chance = random.Random(seed)
    witness = Witness(roots, run_id, machine)
    agent = agents.start(
        seed=seed,
        base=str(machine.parent),
        run_id=run_id,
        changes=chance.randrange(5, 15),
        close=False,
        hugepages=USE_HUGEPAGES,
    )
    _until(lambda: roots.journal(run_id).exists(), 10)
    time.sleep(chance.random() * 0.4)
    guardian = _guardian_of(roots)
    os.kill(guardian, signal.SIGKILL)
    agents.kill(agent)
    _until(lambda: not is_held(roots.lock("bed")))
    report = restore(roots)
    assert [run.run_id for run in report.restored] == [run_id]
    assert report.complete, report
    _until(lambda: not witness.problems(), 20, lambda: str(witness.problems()))
    assert not roots.state.exists()


def test_a_guardian_killed_while_it_restores(
    agents: Agents, roots: HostRoots, run_id: str, machine: Path
) -> None:
    witness = Witness(roots, run_id, machine)
    request = {"base": str(machine.parent), "run_id": run_id, "close": False, "seed": 7}
    agent = agents.start(changes=12, hugepages=False, **request)
    guardian = _guardian_of(roots)
    time.sleep(0.3)
    agents.kill(agent)
    time.sleep(0.05)
    os.kill(guardian, signal.SIGKILL)
    _until(lambda: not is_held(roots.lock("bed")))
    assert restore(roots).complete
    _until(lambda: not witness.problems(), 20, lambda: str(witness.problems()))


def test_the_guardian_cannot_be_talked_out_of_it(roots: HostRoots) -> None:
    with HostRun.open(roots=roots):
        holder = locks.read_holder(next(roots.locks.iterdir()))
        assert holder is not None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(holder.guardian, number)
        time.sleep(0.1)
        assert ProcessId.of(holder.guardian) is not None
    guardian = ProcessId.of(holder.guardian)
    assert guardian is None


def test_a_guardian_that_still_undoes_keeps_the_testbed(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of its lock was removed: the next run took a lock of its own."""
    monkeypatch.setattr(guardian, "DISMISS_S", 0.2)
    run = HostRun.open(roots=roots, testbed="bed")
    pid = _guardian_of(roots)
    os.kill(pid, signal.SIGSTOP)
    try:
        run.close()
        with pytest.raises(TestbedBusyError, match=run.run_id):
            HostRun.open(roots=roots, testbed="bed")
    finally:
        os.kill(pid, signal.SIGCONT)
    _until(lambda: not roots.lock("bed").exists())
    HostRun.open(roots=roots, testbed="bed", timeout_s=30).close()
    assert not roots.state.exists()


def test_a_live_run_is_left_alone_and_named(roots: HostRoots) -> None:
    with HostRun.open(roots=roots, testbed="bed") as host:
        process = host.processes.spawn("x", ["sleep", "60"])
        report = restore(roots)
        assert report.restored == ()
        assert f"run {host.run_id} of" in report.live[0].describe()
        assert "is running" in report.live[0].describe()
        assert process.alive()
        with pytest.raises(TestbedBusyError, match=host.run_id):
            HostRun.open(roots=roots, testbed="bed")
        assert process.alive()
    assert not process.alive()
    assert not roots.state.exists()
    assert not roots.run.exists()


def test_a_run_restores_what_a_dead_one_left(
    agents: Agents, roots: HostRoots, run_id: str, machine: Path
) -> None:
    request = {"base": str(machine.parent), "run_id": run_id, "close": False, "seed": 3}
    agent = agents.start(changes=8, hugepages=False, **request)
    time.sleep(0.4)
    guardian = _guardian_of(roots)
    os.kill(guardian, signal.SIGKILL)
    agents.kill(agent)
    _until(lambda: not is_held(roots.lock("bed")))  # a killed guardian may take a while to end
    with HostRun.open(roots=roots, testbed="bed") as host:
        assert [run.run_id for run in host.restored.restored] == [run_id]
        assert host.restored.complete
    assert not roots.state.exists()


def test_an_error_in_a_run_is_kept_and_the_machine_restored(roots: HostRoots) -> None:
    def fail() -> None:
        with HostRun.open(roots=roots) as host:
            host.processes.spawn("x", ["sleep", "60"])
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        fail()
    assert not roots.state.exists()
    assert not roots.run.exists()


def _guardian_of(roots: HostRoots) -> int:
    """Pid of the run's guardian; 0, which the lock names before, would be our own group."""

    def named() -> int:
        holder = locks.read_holder(roots.lock("bed"))
        return holder.guardian if holder is not None else 0

    return wait_for(named, 30.0, "the guardian")


def _log(roots: HostRoots) -> str:
    return "\n".join(path.read_text() for path in roots.journals.glob("*.log"))


def _until(
    condition: Callable[[], bool], timeout_s: float = 30, why: Callable[[], str] = str
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)
