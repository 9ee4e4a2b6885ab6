from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from vnetperf.deployment import deploy
from vnetperf.host import threads
from vnetperf.host.cpu import join_cpuset, parse_cpus, read_topology, undo_cgroup
from vnetperf.host.linux import cgroup_root
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Placement, Pollers

THREADED = """
import threading, time
for n in range(5):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    """2 sockets of 2 cores of 2 threads; siblings are 4 apart; cpu7 offline; 2,6 isolated."""
    cpu = tmp_path / "sys/devices/system/cpu"
    for number in range(8):
        topology = cpu / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        core = number % 4
        (topology / "core_id").write_text(f"{core % 2}\n")
        (topology / "physical_package_id").write_text(f"{core // 2}\n")
        (topology / "core_cpus_list").write_text(f"{core},{core + 4}\n")
    (cpu / "online").write_text("0-6\n")
    (cpu / "isolated").write_text("2,6\n")
    for node, cpus in ((0, "0-1,4-5"), (1, "2-3,6-7")):
        path = tmp_path / f"sys/devices/system/node/node{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(f"{cpus}\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("Name:\tx\nCpus_allowed_list:\t1-6\n")
    return tmp_path


def test_topology_of_two_sockets(two_sockets: Path) -> None:
    topology = read_topology(sys=two_sockets / "sys", proc=two_sockets / "proc", as_root=False)
    assert [cpu.number for cpu in topology.cpus] == list(range(7))
    assert topology.nodes == (0, 1)
    assert topology.smt
    assert [cpu.number for cpu in topology.cpus if cpu.isolated] == [2, 6]
    assert [cpu.number for cpu in topology.allowed] == [1, 2, 3, 4, 5, 6]
    assert [cpu.number for cpu in topology.cpus if cpu.node == 1] == [2, 3, 6]
    siblings = {cpu.number: cpu.siblings for cpu in topology.cpus}
    assert siblings == {
        **dict.fromkeys((0, 4), (0, 4)),
        **dict.fromkeys((1, 5), (1, 5)),
        **dict.fromkeys((2, 6), (2, 6)),
        3: (3,),
    }, "the sibling of 3 is offline"
    assert topology.cpus[2].package == 1


@pytest.mark.parametrize(
    ("group", "file", "cpus", "allowed"),
    [
        ("0::/a/b", "a/b/cpuset.cpus.effective", "0-3", [0, 1, 2, 3]),
        ("0::/a/b", "a/cpuset.cpus.effective", "2,6-7", [2, 6]),  # 7 is offline
        ("2:cpu:/x\n1:cpuset:/c\n0::/", "cpuset/c/cpuset.effective_cpus", "1-2", [1, 2]),
        ("1:cpuset:/elsewhere", "cpuset/cpuset.cpus", "2", [2]),
        ("0::/a", "other", "1", list(range(7))),
        ("", "other", "1", list(range(7))),
    ],
)
def test_root_may_use_isolated_cpus_that_the_cgroup_allows(
    two_sockets: Path, group: str, file: str, cpus: str, allowed: list[int]
) -> None:
    (two_sockets / "proc/self/cgroup").write_text(f"{group}\n")
    (two_sockets / "proc/self/status").write_text("Cpus_allowed_list:\t0\n")
    path = two_sockets / "sys/fs/cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{cpus}\n")
    topology = read_topology(sys=two_sockets / "sys", proc=two_sockets / "proc", as_root=True)
    assert [cpu.number for cpu in topology.allowed] == allowed


def test_a_name_in_brackets_hides_no_processors(two_sockets: Path) -> None:
    roots = {"sys": two_sockets / "sys", "proc": two_sockets / "proc"}
    own = two_sockets / "proc/self"
    (own / "status").write_text("Name:\t[x]\nCpus_allowed_list:\t1-2\n")
    topology = read_topology(**roots, as_root=False)
    assert [cpu.number for cpu in topology.allowed] == [1, 2]
    (own / "cgroup").write_text("1:name=y:/ [x] \n0::/a\n")
    group = two_sockets / "sys/fs/cgroup/a"
    group.mkdir(parents=True)
    (group / "cpuset.cpus.effective").write_text("3\n")
    topology = read_topology(**roots, as_root=True)
    assert [cpu.number for cpu in topology.allowed] == [3]


def test_this_machine() -> None:
    topology = read_topology(as_root=False)
    assert {cpu.number for cpu in topology.allowed} == os.sched_getaffinity(0)
    online = parse_cpus(Path("/sys/devices/system/cpu/online").read_text())
    assert tuple(cpu.number for cpu in topology.cpus) == online


@pytest.mark.parametrize("text", ["3-1", "0,7-4", "1-", "-2", "a"])
def test_what_names_no_processors_is_refused(text: str) -> None:
    with pytest.raises(HostError, match="is not a list of CPUs"):
        parse_cpus(text)
    with pytest.raises(ValidationError):
        GuestOptions(emulator_pin=text)


@pytest.fixture
def threaded() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", THREADED],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as processes of a run are
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_every_thread_is_bound(threaded: subprocess.Popen[str]) -> None:
    cpu = max(os.sched_getaffinity(0))
    assert threads.pin_process(threaded.pid, [cpu]) == 6
    found = threads.list_threads(threaded.pid)
    assert len(found) == 6
    assert all(thread.cpus == {cpu} for thread in found)
    assert found[0].name.startswith("python")
    with pytest.raises(HostError, match="cannot be bound to CPUs"):
        threads.pin_process(threaded.pid, [100_000])


def test_a_process_that_ended_cannot_be_bound(threaded: subprocess.Popen[str]) -> None:
    threaded.kill()
    threaded.wait()
    with pytest.raises(HostError, match="has ended"):
        threads.pin_process(threaded.pid, [0])
    assert threads.list_threads(threaded.pid) == ()
    assert "no threads" in threads.set_slice(threaded.pid)


def test_slices_are_read_back(threaded: subprocess.Popen[str]) -> None:
    os.setpriority(os.PRIO_PROCESS, threaded.pid, 5)
    report = threads.set_slice(threaded.pid, 200_000)
    why = threads.explain_no_slices()
    if why:
        assert why in report
        return
    assert report == "200 us on 6 threads"
    attributes = threads.read_sched_attributes(threaded.pid)
    assert (attributes.slice_ns, attributes.nice) == (200_000, 5)


def test_a_refused_slice_says_why(
    threaded: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threads.read_sched_attributes(threaded.pid)
    monkeypatch.setattr(
        threads, "set_sched_attributes", lambda *_: None
    )  # as a kernel before 6.12: ignored
    report = threads.set_slice(threaded.pid, before.slice_ns + 1000)
    assert report.startswith("not available: ")


def test_niceness_is_set_on_every_thread(threaded: subprocess.Popen[str]) -> None:
    assert threads.set_nice(threaded.pid, 7) == "nice 7"
    found = [threads.read_sched_attributes(tid).nice for tid in threads.thread_ids(threaded.pid)]
    assert found == [7] * 6


def test_without_the_right_to_niceness_the_slice_is_still_taken(
    threaded: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "setpriority", refuse)
    untaken = threads.set_nice(threaded.pid, -10)
    assert untaken.startswith("nice -10 ")
    assert "Permission denied" in untaken
    pollers = (Pollers(role="pmd", pid=threaded.pid, thread_prefix="pmd"),)
    taken = deploy.set_slices_and_nice(pollers, 200)["pmd"]
    assert untaken in taken
    assert threads.explain_no_slices() or taken.startswith("200 us on 6 threads")


@pytest.mark.parametrize("mode", ["dedicated", "shared"])
def test_pollers_have_one_priority_when_calibrated_and_when_they_measure(
    threaded: subprocess.Popen[str], mode: Literal["dedicated", "shared"]
) -> None:
    """A core is dedicated by plan alone: other programs do not know of it."""
    pollers = (Pollers(role="tester", pid=threaded.pid, thread_prefix=""),)
    slice_us = 200 if mode == "shared" else 0
    placement = Placement(
        mode=mode, reason="", cores={"tester": (1,)}, housekeeping=(0,), slice_us=slice_us
    )
    plan = SimpleNamespace(placement=placement, follows="")
    deployed: Any = SimpleNamespace(plan=plan, pollers=lambda: pollers)
    taken = deploy.LiveDeployment.prefer_pollers(deployed)
    assert taken == deploy.set_slices_and_nice(pollers, slice_us)  # as the calibration does
    assert "nice -10" in taken["tester"]


def test_the_session_of_the_caller_is_never_preferred(threaded: subprocess.Popen[str]) -> None:
    mine = Path("/proc/self/autogroup")
    before = mine.read_text() if mine.exists() else ""
    with subprocess.Popen(["sleep", "60"]) as process:
        assert "left as it is" in threads.set_autogroup_nice(process.pid, -10)
        process.kill()
    assert not before or mine.read_text() == before
    assert not before or threads.set_autogroup_nice(threaded.pid, 3).endswith("nice 3")


def test_threads_that_end_meanwhile_are_no_error(
    threaded: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    monkeypatch.setattr(os, "setpriority", gone)
    assert "no threads" in threads.set_nice(threaded.pid, 1)


def test_asking_for_slices_does_not_change_the_caller() -> None:
    before = threads.read_sched_attributes(0)
    threads.explain_no_slices()
    assert threads.read_sched_attributes(0) == before


def test_groups_of_all_hierarchies_are_removed_with_those_that_an_engine_made_in_them(
    tmp_path: Path,
) -> None:
    for hierarchy in ("cpu", "pids"):
        (tmp_path / hierarchy / "pod" / "libpod-1").mkdir(parents=True)
    paths = [str(tmp_path / hierarchy / "pod") for hierarchy in ("cpu", "pids", "memory")]
    assert undo_cgroup({"paths": paths}) == "removed, already gone"
    assert not list(tmp_path.rglob("pod*"))
    (tmp_path / "cpu/pod").mkdir()
    assert undo_cgroup({"path": paths[0]}) == "removed"


@pytest.mark.real
def test_a_daemon_that_cleared_its_environment_does_not_keep_the_group() -> None:
    top = cgroup_root()
    if top is None or not (top / "cgroup.procs").exists():
        pytest.skip("no cgroup v2 is mounted")
    group = top / f"vnetperf-test-{os.getpid()}"
    group.mkdir()
    daemon = subprocess.Popen(join_cpuset(group, ["sleep", "600"]), env={}, start_new_session=True)
    try:
        wait_for((group / "cgroup.procs").read_text, 10, "the daemon in its group")
        assert undo_cgroup({"path": str(group)}) == "removed"
        assert daemon.wait(timeout=10) == -signal.SIGKILL
        assert not group.exists()
    finally:
        daemon.kill()
        daemon.wait()
        undo_cgroup({"path": str(group)})
