"""Hosts that are namespaces of one machine: directories of their own, and the machine's lock."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from vnetperf.host import session
from vnetperf.host.journal import Journal
from vnetperf.host.kernel import write_value
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun, restore
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError, TestbedBusyError

MACHINE = "machine"


def test_directories_are_beside_the_machines() -> None:
    east = HostRoots.for_host("east")
    assert (east.state, east.run) == (Path("/var/lib/vnetperf-east"), Path("/run/vnetperf-east"))
    assert east.machine == HostRoots() == HostRoots.for_host("")
    assert east.last.parent == HostRoots().last.parent


def test_the_first_host_holds_the_machine_and_the_next_ones_do_not_want_it(
    roots: HostRoots,
) -> None:
    east, west = roots.host_roots("east"), roots.host_roots("west")
    with HostRun.open(testbed=MACHINE, roots=east):
        with HostRun.open(testbed=MACHINE, roots=west, follows=True):
            pass
        for other in (roots, west):  # a run of the machine itself, and another pair of hosts
            with pytest.raises(TestbedBusyError):
                HostRun.open(testbed=MACHINE, roots=other)
    with HostRun.open(testbed=MACHINE, roots=roots):
        pass
    assert not any(path.exists() for one in (east, west) for path in (one.state, one.run))


def test_a_machine_that_is_held_keeps_no_lock_of_a_host(roots: HostRoots) -> None:
    east = roots.host_roots("east")
    with HostRun.open(testbed=MACHINE, roots=roots), pytest.raises(TestbedBusyError):
        HostRun.open(testbed=MACHINE, roots=east)
    assert not east.state.exists()
    with HostRun.open(testbed=MACHINE, roots=east):
        pass


@pytest.mark.slow
def test_a_machine_is_not_free_while_a_host_measures_whose_first_one_died(
    roots: HostRoots,
) -> None:
    east, west = roots.host_roots("east"), roots.host_roots("west")
    first = HostRun.open(testbed=MACHINE, roots=east)
    second = HostRun.open(testbed=MACHINE, roots=west, follows=True)
    first.close()
    for other in (roots, east, roots.host_roots("north")):
        with pytest.raises(TestbedBusyError):
            HostRun.open(testbed=MACHINE, roots=other)
    second.close()
    for other in (roots, east):
        with HostRun.open(testbed=MACHINE, roots=other):
            assert not west.state.exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["restore", "machine", "east", "west"])
def test_what_a_host_left_is_restored_with_the_machine(
    how: str, roots: HostRoots, tmp_path: Path
) -> None:
    value = tmp_path / "value"
    value.write_text("usual\n")
    west = roots.host_roots("west")
    with Journal.create(west, "dead", testbed=MACHINE) as journal:
        write_value(journal, value, "changed")
    if how == "restore":
        report = restore(roots)
    else:
        place = roots if how == "machine" else roots.host_roots(how)
        with HostRun.open(testbed=MACHINE, roots=place) as run:
            report = run.restored
    assert [one.run_id for one in report.restored] == ["dead"]
    assert report.complete
    assert value.read_text() == "usual\n"
    assert not west.state.exists()


def test_the_agent_of_a_host_restores_its_own(roots: HostRoots) -> None:
    for host in ("east", "west"):
        Journal.create(roots.host_roots(host), host, testbed=MACHINE).close()
    assert [one.run_id for one in restore(roots.host_roots("east")).restored] == ["east"]


def test_the_next_host_is_compared_as_far_as_it_is_its_own(roots: HostRoots) -> None:
    east, west = roots.host_roots("east"), roots.host_roots("west")
    with HostRun.open(testbed=MACHINE, roots=east) as first:
        run = HostRun.open(testbed=MACHINE, roots=west, follows=True)
        first.rundir.subdir("made meanwhile")
        found = run.close()
    assert found.differences == ()


#: An agent of a host within a machine that is killed in the middle of its run.
KILLED = """
import os, sys
from pathlib import Path
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
state, run, machine_state, machine_run = map(Path, sys.argv[1:])
machine = HostRoots(machine_state, machine_run)
HostRun.open(testbed="machine", roots=HostRoots(state, run, machine))
assert machine.lock("machine").exists()
os.kill(os.getpid(), 9)
"""


def test_the_guardian_gives_the_machine_back_too(roots: HostRoots) -> None:
    east = roots.host_roots("east")
    places = [str(path) for path in (east.state, east.run, roots.state, roots.run)]
    done = subprocess.run([sys.executable, "-c", KILLED, *places], check=False)
    assert done.returncode == -9
    left = (east.state, east.run, roots.state)
    wait_for(lambda: not any(path.exists() for path in left), 60, "the guardian's end")


@pytest.mark.parametrize("held", [True, False])
def test_the_first_hosts_restorer_gives_the_machine_back(roots: HostRoots, held: bool) -> None:
    """Its guardian may have died with it: nobody else would look at the machine's lock."""
    dead = roots.lock(MACHINE)
    dead.parent.mkdir(parents=True, mode=0o700)
    dead.write_text("")
    with dead.open("r+") as file:
        if held:
            fcntl.flock(file, fcntl.LOCK_EX)
        restore(roots.host_roots("east"))
        assert dead.exists() is held
    assert roots.state.exists() is held


def test_a_guardian_that_dies_while_it_starts_leaves_no_log(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(journal: Path, *_: object) -> None:
        journal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        journal.with_suffix(".log").write_text("")
        raise HostError("the guardian that would restore this machine did not start")

    monkeypatch.setattr(session.GuardianClient, "start", dies)
    with pytest.raises(HostError, match="did not start"):
        HostRun.open(testbed=MACHINE, roots=roots.host_roots("east"))
    assert not roots.host_roots("east").state.exists()
