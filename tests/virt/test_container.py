"""A container's processes are where its cpuset is; without one, where its affinity is."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

from vnetperf.host import cpu
from vnetperf.model.errors import HostError
from vnetperf.virt.container import Container

GROUPS = "vnetperf.virt.container.cpu.explain_no_cpusets"


def mounts(tmp_path: Path, *, controllers: str = "cpuset cpu", given: str = "cpuset") -> Path:
    """A table of mounts with a cgroup file system that has and hands on some controllers."""
    top = tmp_path / "cgroup"
    top.mkdir()
    (top / "cgroup.controllers").write_text(controllers + "\n")
    (top / "cgroup.subtree_control").write_text(given + "\n")
    table = tmp_path / "mounts"
    table.write_text(f"proc /proc proc rw 0 0\ncgroup2 {top} cgroup2 rw 0 0\n")
    return table


@pytest.mark.parametrize(
    ("controllers", "given", "says"),
    [
        ("cpuset memory", "cpuset memory", ""),
        ("memory", "memory", "has no cpuset controller"),
        ("cpuset memory", "memory", "does not hand cpuset on"),
    ],
)
def test_what_the_machine_has_is_told(
    tmp_path: Path, controllers: str, given: str, says: str
) -> None:
    found = cpu.explain_no_cpusets(mounts(tmp_path, controllers=controllers, given=given))
    assert says in found
    assert bool(found) == bool(says)


def test_no_cgroup_file_system_is_told(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text("cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n")
    assert cpu.explain_no_cpusets(table) == "no cgroup v2 file system is mounted"
    with pytest.raises(HostError, match="no cgroup v2"):
        cpu.create_cpuset(MagicMock(), "x", [1], mounts=table)


def test_a_process_joins_before_it_becomes_the_program(tmp_path: Path) -> None:
    python, *_, procs, program, argument = cpu.join_cpuset(tmp_path, ["prog", "arg"])
    assert Path(python).exists()
    assert (procs, program, argument) == (str(tmp_path / "cgroup.procs"), "prog", "arg")


def made(tmp_path: Path, why: str) -> tuple[Container, MagicMock]:
    machine = MagicMock()
    machine.subdir.return_value = tmp_path
    machine.create_cpuset.return_value = tmp_path / "group"
    container = Container(machine, "ct0", (3, 1, 3))
    with patch(GROUPS, return_value=why):
        container.create()
    return container, machine


def test_with_cpusets_its_processes_are_in_one(tmp_path: Path) -> None:
    container, machine = made(tmp_path, "")
    machine.create_cpuset.assert_called_once_with("ct0", (1, 3))
    container.spawn("vnf0", ["prog"], env={}, keep_stdin_open=True)
    (_, argv), options = machine.spawn.call_args
    assert str(tmp_path / "group/cgroup.procs") in argv
    assert options["cpus"] is None
    assert options["netns"] == tmp_path / "netns"
    assert "cgroup v2 cpuset" in container.facts()["processors"]
    container.spawn("vnf0", ["prog"], env={}, keep_stdin_open=True, cpus=(3,))
    (_, argv), _ = machine.spawn.call_args
    assert argv[-4:] == ["taskset", "-c", "3", "prog"]  # once it is in the group


def test_without_cpusets_they_have_an_affinity_and_the_result_says_why(tmp_path: Path) -> None:
    container, machine = made(tmp_path, "it is Tuesday")
    machine.create_cpuset.assert_not_called()
    container.spawn("vnf0", ["prog"], env={}, keep_stdin_open=True)
    (_, argv), options = machine.spawn.call_args
    assert (argv, options["cpus"]) == (["prog"], (1, 3))
    container.spawn("vnf0", ["prog"], env={}, keep_stdin_open=True, cpus=(3,))
    assert machine.spawn.call_args.kwargs["cpus"] == (3,)
    processors = container.facts()["processors"]
    assert processors.startswith("1,3, ")
    assert "(it is Tuesday)" in processors


def test_nothing_can_be_run_in_a_container_that_is_not_there(tmp_path: Path) -> None:
    machine = MagicMock()
    machine.subdir.return_value = tmp_path
    with pytest.raises(HostError, match="has not been made"):
        Container(machine, "ct0", (1,)).run(["ip", "link"])
