"""Ranks in guests: how the launcher's daemon is started there, and what is run."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import facts
from tests.networks.test_plans import configured
from vnetperf.host.linux import ProcessId
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import DutError
from vnetperf.model.transfer import TransferSpec
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.transfers import find_workload_problem, workload_scenario
from vnetperf.virt.endpoint import GuestPlace
from vnetperf.workloads.mpi import Mpi
from vnetperf.workloads.mpi.ranks import IN_GUEST, GuestDaemon, MpiPod, MpiRun, end_daemon

SPEC = TransferSpec(kind="MPI_ALLTOALL", message_size=64, duration_s=1, pods=2, ranks=2)


class Guest(GuestPlace):
    """A guest that notes what it is to do."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []
        self.program = MagicMock()
        self.program.ended.return_value = None
        self.program.output.return_value = "of orted\n"

    def start(self, name: str, argv: Any) -> Any:
        del name
        self.lines.append(list(argv))
        return self.program

    def run(self, argv: Any) -> str:
        self.lines.append(list(argv))
        return ""

    def write(self, name: str, content: bytes) -> str:
        self.lines.append(["write", name, str(len(content))])
        return f"/run/{name}"


def test_the_daemon_of_a_guest_is_started_when_the_launcher_asks(tmp_path: Path) -> None:
    guest = Guest()
    daemon = GuestDaemon(guest)
    script = daemon.expect(tmp_path, "pod1")
    daemon.serve()
    assert guest.lines == []  # nobody has asked
    asking = subprocess.Popen(["sh", "-c", script, "enter", "orted", "-mca ess env"])
    try:
        wait_for((tmp_path / "pod1.asks").exists, 5, "the launcher's wish")
        daemon.serve()
        assert guest.lines == [["sh", "-c", IN_GUEST.format("orted -mca ess env")]]
        daemon.serve()
        assert asking.poll() is None  # as long as the daemon runs
        guest.program.ended.return_value = 7
        daemon.serve()
        assert asking.wait(5) == 7
    finally:
        asking.kill()
    assert daemon.end() == "of orted\n"
    guest.program.end.assert_called_once_with(signal.SIGTERM)
    (tmp_path / "next").mkdir()
    daemon.expect(tmp_path / "next", "pod1")
    assert daemon.end() == ""  # nothing was started for the next run


@pytest.mark.parametrize("held_up", ["", " & wait $!; :"])  # once it has started the daemon
def test_the_daemon_ends_with_its_shell_which_tells_of_its_end(held_up: str) -> None:
    line = IN_GUEST.format(f"X=3; export X; sh -c 'echo $$; exec sleep 60'{held_up}")
    shell = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
    try:
        assert shell.stdout is not None
        daemon = ProcessId.read(int(shell.stdout.readline()))
        assert daemon is not None
        shell.terminate()
        assert shell.wait(30) != 0
        wait_for(lambda: not daemon.alive(), 30, "the daemon's end")
    finally:
        shell.kill()
    told = subprocess.run(["sh", "-c", IN_GUEST.format("sh -c 'exit 7'")], check=False)
    assert told.returncode == 7


@pytest.mark.parametrize("started", [True, False])
def test_the_launchers_agent_ends_with_the_daemon(tmp_path: Path, started: bool) -> None:
    guest = Guest()
    daemon = GuestDaemon(guest)
    asking = subprocess.Popen(["sh", "-c", daemon.expect(tmp_path, "pod1"), "enter", "orted"])
    try:
        if started:
            wait_for((tmp_path / "pod1.asks").exists, 5, "the launcher's wish")
            daemon.serve()
        guest.program.end.side_effect = DutError("the agent does not answer")
        assert end_daemon(daemon) == ""  # which is no reason to leave other daemons running
        assert asking.wait(5) == 1
    finally:
        asking.kill()


def test_a_guest_has_a_copy_of_the_executable(tmp_path: Path) -> None:
    loops = tmp_path / "loops-1"
    loops.write_bytes(b"\x7fELF")
    guest = Guest()
    pods = (
        MpiPod("pod0", cast("Any", None), MagicMock()),
        MpiPod("pod1", cast("Any", None), guest, GuestDaemon(guest)),
    )
    machine = MagicMock()
    machine.facts.versions = {"mpirun": "mpirun (Open MPI) 4.1.4"}
    run = MpiRun(machine, MagicMock(), pods, lambda: None, MagicMock())
    found = " ".join(run.make_rank_words(SPEC, ["--wdir", "/run/own"], [str(loops), "alltoall"]))
    assert found == (
        f"-np 2 --host pod0 --wdir /run/own {loops} alltoall : "
        "-np 2 --host pod1 --wdir /run/own /run/loops-1 alltoall"
    )
    assert ["write", "loops-1", "4"] in guest.lines
    assert ["mkdir", "-p", "/run/own"] in guest.lines
    alone = MpiRun(machine, MagicMock(), pods[:1], lambda: None, MagicMock())
    plain = alone.make_rank_words(SPEC.model_copy(update={"pods": 1}), ["--wdir", "/d"], ["/loops"])
    assert plain == ["-np", "2", "--map-by", "slot", "--wdir", "/d", "/loops"]


@pytest.mark.parametrize(
    ("name", "wishes", "why"),
    [
        ("bmp2vmp_vxlan", {}, ""),
        ("bmp2vmp_vxlan", {"mpi_program": "hpcc"}, "libraries that guests do not have"),
        ("vmp2vmp_vxlan", {}, "on its host; choose bmp2vmp"),
        ("bmp2vmp_vxlan", {"open_mpi": "5.0.7"}, "Open MPI 4"),
        ("bmp2vmp_vxlan", {"pods": 1}, "no rank would be in the VM, which is pod 1; choose --pods"),
    ],
)
def test_ranks_in_guests_are_planned_with_their_image(
    name: str, wishes: dict[str, Any], why: str
) -> None:
    library = wishes.pop("open_mpi", "4.1.4")
    run = MagicMock(configuration=configured(**wishes))
    programs = dict.fromkeys(("mpirun", "mpicc", "hpcc"), "/usr/bin/it")
    versions = {"mpirun": f"mpirun (Open MPI) {library}\n\nReport bugs to"}
    machine = facts().model_copy(
        update={"programs": {**facts().programs, **programs}, "versions": versions}
    )
    run.facts.return_value = machine
    scenario = make_scenario(name, run.configuration)
    kind: Any = "MPI_HPL" if "mpi_program" in wishes else "MPI_ALLTOALL"
    found = find_workload_problem(run, scenario, kind, 64)
    assert why in found
    assert bool(found) == bool(why)
    if not why:
        asked = workload_scenario(Mpi(), scenario)
        assert (asked.guest.image, asked.vnf_mode) == ("mpi", "route")
