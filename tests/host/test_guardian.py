"""Whatever dies, and whenever: the machine is as it was."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.agents import is_held
from vnetperf.host import files, guardian, hugepages, linux, locks, snapshot
from vnetperf.host.linux import ProcessId
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import find_processes
from vnetperf.host.session import HostRun, restore
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError, TestbedBusyError

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
        identity = ProcessId.read(pid)
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
    _kill_both(agents, agent, roots)
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
        assert ProcessId.read(holder.guardian) is not None
    guardian = ProcessId.read(holder.guardian)
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
    _kill_both(agents, agent, roots)
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


def test_a_dead_guardian_is_replaced(roots: HostRoots, tmp_path: Path) -> None:
    told: list[str] = []
    with HostRun.open(roots=roots, testbed="bed", on_notice=told.append) as host:
        files.create_tree(host.journal, tmp_path / "left")
        first = _guardian_of(roots)
        second = _kill_guardian(roots)
        assert second != first
        assert ProcessId.read(second) is not None
        assert ["by signal 9" in text for text in told] == [True]
        host.require_guard()
        header_says = restore(roots).live[0]
        assert header_says.role == "agent"
    assert ProcessId.read(second) is None
    assert not (tmp_path / "left").exists()
    assert not roots.state.exists()


#: How much longer than the end of another process the death of a guardian may take to be told of,
#: where the machine is so busy that a second is not enough for either.
_AS_LONG_AS_ANOTHERS = 10


def test_the_death_of_a_guardian_is_told_within_a_second(roots: HostRoots) -> None:
    """Not after another one was started, which takes Python's start; by the middle of three."""
    told: list[float] = []
    delays: list[float] = []
    with HostRun.open(
        roots=roots, testbed="bed", on_notice=lambda _: told.append(time.monotonic())
    ) as host:
        for number in range(guardian.REPLACEMENTS):
            usual_s = _until_another_ends_s()
            killed = time.monotonic()
            _kill_guardian(roots)
            host.require_guard()
            usual_s = max(usual_s, _until_another_ends_s())
            delays.append((told[number] - killed) / max(1.0, _AS_LONG_AS_ANOTHERS * usual_s))
    assert len(told) == guardian.REPLACEMENTS
    assert sorted(delays)[len(delays) // 2] <= 1.0, delays


def _until_another_ends_s() -> float:
    """Seconds from a signal to a process until a thread of ours that waits for its end has run."""
    ended: list[float] = []
    with subprocess.Popen(["sleep", "60"]) as process:

        def watch() -> None:
            process.wait()
            ended.append(time.monotonic())

        watcher = threading.Thread(target=watch)
        watcher.start()
        killed = time.monotonic()
        process.kill()
        watcher.join()
    return ended[0] - killed


def _kill_guardian(roots: HostRoots) -> int:
    """Kill a run's guardian; pid of the one that has taken its place."""
    first = _guardian_of(roots)
    os.kill(first, signal.SIGKILL)
    _until(lambda: _guardian_of(roots) != first)
    return _guardian_of(roots)


def test_the_guardian_in_place_of_a_dead_one_restores_the_machine(
    agents: Agents, roots: HostRoots, run_id: str, machine: Path
) -> None:
    witness = Witness(roots, run_id, machine)
    request = {"base": str(machine.parent), "run_id": run_id, "close": False, "seed": 11}
    agent = agents.start(changes=12, hugepages=False, **request)
    first = _guardian_of(roots)
    _until(lambda: roots.journal(run_id).exists())
    time.sleep(0.3)
    os.kill(first, signal.SIGKILL)
    _until(lambda: _guardian_of(roots) != first)
    agents.kill(agent)
    _until(lambda: not is_held(roots.lock("bed")))
    assert not list(roots.journals.glob("*.jsonl"))
    _until(lambda: not witness.problems(), 20, lambda: str(witness.problems()))


def test_a_run_ends_that_nobody_would_restore(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    with HostRun.open(roots=roots, testbed="bed", on_notice=told.append) as host:
        files.create_tree(host.journal, tmp_path / "left")
        monkeypatch.setattr(guardian, "python_argv", lambda module: ["/bin/false", module])
        os.kill(_guardian_of(roots), signal.SIGKILL)
        _until(lambda: len(told) == 2)  # that it died, and that no other one is started
        with pytest.raises(HostError, match="nobody would restore"):
            host.require_guard()
    assert not (tmp_path / "left").exists()
    assert not roots.state.exists()


def test_guardians_that_are_killed_again_and_again_are_not_started_for_ever(
    roots: HostRoots,
) -> None:
    told: list[str] = []
    with HostRun.open(roots=roots, testbed="bed", on_notice=told.append) as host:
        for _ in range(guardian.REPLACEMENTS):
            _kill_guardian(roots)
        os.kill(_guardian_of(roots), signal.SIGKILL)
        _until(lambda: len(told) == guardian.REPLACEMENTS + 1)
        with pytest.raises(HostError, match="died"):
            host.require_guard()


#: Where root may not raise limits, in some containers.
CAN_RAISE = bool(
    int(re.findall(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())[0], 16) >> 24 & 1
)
HAND_ON = """
import os, resource, subprocess, sys
for word in sys.argv[1].split(","):
    limit, most = word.split("=")
    resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (int(most), int(most)))
sys.exit(subprocess.run([sys.executable, *sys.argv[2:]]).returncode)
"""
OPEN_RUN = """
import sys, time
from pathlib import Path
from vnetperf.host import locks
from vnetperf.host.linux import raise_limits
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
top = Path(sys.argv[1])
roots = HostRoots(state=top / "state", run=top / "run")
raise_limits()
with HostRun.open(roots=roots, testbed="bed") as host:
    pid = locks.read_holder(roots.lock("bed")).guardian
    print(Path(f"/proc/{pid}/limits").read_text(), flush=True)
"""


def _open_with(limits: str, top: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HAND_ON, limits, "-c", OPEN_RUN, str(top)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not CAN_RAISE, reason="no right to raise limits (CAP_SYS_RESOURCE)")
def test_a_guardian_has_no_limits_of_the_shell(tmp_path: Path) -> None:
    done = _open_with("CPU=2,NOFILE=64,AS=1073741824,STACK=1048576", tmp_path)
    limits = {line[:25].strip(): line[25:].split()[:2] for line in done.stdout.splitlines()}
    assert limits["Max cpu time"] == ["unlimited", "unlimited"]
    assert limits["Max address space"] == ["unlimited", "unlimited"]
    assert int(limits["Max open files"][0]) >= 1024
    assert int(limits["Max stack size"][0]) >= 8 << 20


@pytest.mark.skipif(CAN_RAISE, reason="has the right to raise limits")
def test_nothing_begins_whose_end_the_kernel_would_not_wait_for(tmp_path: Path) -> None:
    done = _open_with("CPU=1000", tmp_path)
    assert done.returncode
    assert "1000 s of processor time" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("may_raise", [True, False])
def test_limits_are_raised_as_far_as_they_may_be(
    monkeypatch: pytest.MonkeyPatch, may_raise: bool
) -> None:
    none, mib = resource.RLIM_INFINITY, 1 << 20
    limits = dict.fromkeys(linux._LEAST_LIMITS, (none, none)) | {
        resource.RLIMIT_CPU: (2, none),
        resource.RLIMIT_FSIZE: (9000, 9000),
        resource.RLIMIT_NOFILE: (64, 2048),
        resource.RLIMIT_STACK: (16 * mib, 16 * mib),
    }

    def set_limit(limit: int, wanted: tuple[int, int]) -> None:
        soft, hard = (one % (1 << 64) for one in wanted)
        if soft > hard or (hard > limits[limit][1] % (1 << 64) and not may_raise):
            raise ValueError("not allowed")
        limits[limit] = wanted

    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    linux.raise_limits()
    assert limits[resource.RLIMIT_CPU] == (none, none)
    assert limits[resource.RLIMIT_FSIZE] == ((none, none) if may_raise else (9000, 9000))
    assert limits[resource.RLIMIT_NOFILE] == ((4096, 524288) if may_raise else (2048, 2048))
    assert limits[resource.RLIMIT_STACK] == (16 * mib, none if may_raise else 16 * mib)
    assert limits[resource.RLIMIT_AS] == (none, none)


def _kill_both(agents: Agents, agent: ProcessId, roots: HostRoots) -> None:
    """Kill an agent with its guardian: one that lives on starts another guardian."""
    guardian = _guardian_of(roots)
    os.kill(agent.pid, signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    agents.kill(agent)


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
