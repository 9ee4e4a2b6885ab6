"""What the inventory says of programs that run elsewhere, and of builds that tell no version."""

from __future__ import annotations

import errno
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vnetperf
from tests.fakes import odd
from tests.fakes.machine import forget_cached
from vnetperf.agent import inventory
from vnetperf.agent.inventory import take_inventory
from vnetperf.host import kernel, linux
from vnetperf.host.clock import read_sync
from vnetperf.host.facts.hardware import collect
from vnetperf.host.programs import find_programs, owning_packages
from vnetperf.model.scenario import RoleDemand, Scenario
from vnetperf.model.testbed import CoresConfig, KernelModule, MachineFacts, Program, Testbed
from vnetperf.planning.placement import place_roles
from vnetperf.plugin import registry
from vnetperf.plugin.vswitch import VSwitch

DEMANDS = RoleDemand(role="tester", group="tester"), RoleDemand(role="pmd", group="switch")


def program(directory: Path, text: str) -> str:
    path = directory / "program"
    path.write_text(text)
    path.chmod(0o700)
    os.utime(path, (1_000, 1_000))
    return str(path)


@pytest.mark.slow
def test_servers_of_others_need_no_program_here() -> None:
    testbed = Testbed(trex={"server": "192.0.2.1"}, pktgen={"server": "192.0.2.2"})
    facts = take_inventory(testbed)
    assert facts.programs["pktgen"] == "at 192.0.2.2"
    assert facts.programs["trex"]  # one that is installed has the client beside it
    assert facts.versions["pktgen"] == "at 192.0.2.2"


@pytest.mark.slow
def test_another_build_of_a_generator_has_another_version(tmp_path: Path) -> None:
    def version_of(text: str) -> str:
        path = program(tmp_path, text)
        return take_inventory(Testbed(programs={"trex": path})).versions["trex"]

    one = version_of("#!/bin/sh\n")
    assert version_of("#!/bin/sh\n") == one
    assert version_of("#!/bin/sh\ntrue\n") != one


def test_an_optional_program_is_listed_only_where_it_is_found() -> None:
    facts = take_inventory(Testbed())
    missing = [name for name, program in registry.programs().items() if program.optional]
    assert missing
    assert all(facts.programs.get(name, "found") for name in missing)
    assert "osmo-ggsn" in facts.programs  # whose absence keeps a scenario from running


def test_what_a_backend_declares_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(VSwitch):
        programs = (Program(name="sh", version_args=("-c", "echo mine 1")),)
        kernel_modules = (KernelModule(name="no-such-module"),)

    monkeypatch.setattr(registry, "backends", lambda: {"vswitches mine": Mine})
    facts = take_inventory(Testbed())
    assert facts.programs["sh"].endswith("/sh")
    assert facts.versions["sh"] == "mine 1"
    problem = Mine.missing(facts, Scenario.model_construct())
    assert "no module no-such-module" in problem


@pytest.mark.slow
def test_what_runs_as_root_is_listed_with_versions() -> None:
    record = take_inventory(Testbed()).record["runs as root"]
    packages = record["python package versions"]
    assert packages["vnetperf"] == vnetperf.__version__
    assert {"pydantic", "pydantic_core", "execnet", "pyroute2"} <= set(packages)  # also indirectly
    assert packages["pydantic"] == version("pydantic")
    assert platform.python_version() in record["python"]
    assert record["kernel"] == platform.release()
    assert "loadgen" in record["built here with versions"]
    found = take_inventory(Testbed()).programs
    listed = record["programs with versions"]
    assert set(listed) == {name for name, path in found.items() if path.startswith("/")}
    assert listed["ip"].startswith(found["ip"])


def test_packages_that_own_files(tmp_path: Path) -> None:
    info, status = tmp_path / "info", tmp_path / "status"
    info.mkdir()
    (info / "iproute2.list").write_text("/.\n/sbin/ip\n")
    (info / "libx:amd64.list").write_text("/usr/lib/x\n")
    status.write_text("Package: iproute2\nStatus: install ok installed\nVersion: 6.1.0-3\n\n")
    found = owning_packages(["/usr/sbin/ip", "/usr/lib/x", "/opt/y"], info=info, status=status)
    assert found == {"/usr/sbin/ip": "iproute2 6.1.0-3", "/usr/lib/x": "libx"}


@pytest.fixture(scope="module")
def files_read() -> list[str]:
    """Files of the kernel and of other tools that an inventory reads here."""
    paths: set[str] = set()
    read = linux.read_octets

    def note(path: Path) -> bytes:
        paths.add(str(path))
        return read(path)

    with pytest.MonkeyPatch.context() as patch:
        no_programs(patch)
        patch.setattr(linux, "read_octets", note)
        take_inventory(Testbed())
    return sorted(path for path in paths if path.startswith(("/sys/", "/proc/", "/etc/", "/var/")))


def no_programs(patch: pytest.MonkeyPatch) -> None:
    """No program is started, and no folder of packages searched for their owners."""
    patch.setattr(registry, "programs", dict)
    patch.setattr(registry, "backends", dict)
    patch.setattr(inventory, "COMMON_PROGRAMS", ())
    patch.setattr(inventory, "owning_packages", lambda _: {})


REFUSED = OSError(errno.EACCES, "Permission denied"), OSError(errno.EIO, "Input/output error")
faults = st.one_of(odd.contents, st.sampled_from((*REFUSED, FileNotFoundError(2, "not there"))))


@given(data=st.data())
def test_no_file_of_the_machine_ends_the_inventory(
    files_read: list[str], data: st.DataObject
) -> None:
    """Some of the files that it reads, or all below a folder, are not as anybody expected."""
    assert len(files_read) > 50
    some = data.draw(st.dictionaries(st.sampled_from(files_read), faults, max_size=8))
    folder = data.draw(st.sampled_from(("/sys/", "/proc/", "/etc/", "/sys/devices/system/", "-")))
    every = data.draw(faults)
    read = linux.read_octets

    def fail(path: Path) -> bytes:
        content = some.get(str(path), every if str(path).startswith(folder) else None)
        if isinstance(content, Exception):
            raise content
        return read(path) if content is None else content

    with pytest.MonkeyPatch.context() as patch:
        no_programs(patch)
        patch.setattr(linux, "read_octets", fail)
        forget_cached(kernel)
        try:
            facts = take_inventory(Testbed())
        finally:
            forget_cached(kernel)
    assert facts.cpus
    assert {c.cpu for c in facts.cpus} <= set(range(os.cpu_count() or 1))
    assert MachineFacts.model_validate_json(facts.model_dump_json()) == facts
    assert set(place_roles(DEMANDS, CoresConfig(), facts).pollers) <= {c.cpu for c in facts.cpus}
    assert facts.record.keys() - {"unreadable"} == collect().keys() | {
        "software",
        "programs",
        "variables",
        "limits",
        "runs as root",
    }


def test_all_of_this_machine_can_be_read() -> None:
    assert "unreadable" not in take_inventory(Testbed()).record


def test_what_fails_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise ValueError("odd")

    class Mine(VSwitch):
        programs = ()

        @classmethod
        def look(cls, testbed: Testbed) -> object:
            fail()

    no_programs(monkeypatch)
    monkeypatch.setattr(registry, "backends", lambda: {"vswitches mine": Mine})
    monkeypatch.setattr(inventory, "boot_id", fail)
    monkeypatch.setattr(inventory, "explain_no_slices", fail)
    monkeypatch.setattr(inventory.cpu, "read_topology", fail)
    monkeypatch.setattr(inventory.nic.usage, "interface_uses", fail)
    facts = take_inventory(Testbed())
    unreadable = facts.record["unreadable"]
    assert isinstance(unreadable, dict)
    assert unreadable["processors"] == "unknown: ValueError: odd"
    assert unreadable["what vswitches mine looks at"] == "unknown: ValueError: odd"
    assert {cpu.cpu for cpu in facts.cpus} == os.sched_getaffinity(0)
    assert facts.slices == "unknown: ValueError: odd"
    assert facts.boot == ""
    # Nobody takes a NIC of which it is not known who uses it.
    assert all(nic.never and "odd" in nic.in_use for nic in facts.nics)


PRINTED = {
    "any octets": r"printf '\377\376\200\033[2J'",
    "nothing": "true",
    "much": "yes 0123456789 & yes >&2",
    "numbers": "echo version 99999999999999999999999999; echo -1; echo '(null)'",
    "a warning and a failure": "echo broken >&2; exit 255",
    "a signal": "kill -SEGV $$",
    "what it reads": "cat; echo done",
    "a daemon that stays": "sleep 30 & echo 1.2",
}


@pytest.mark.parametrize("kind", PRINTED)
def test_no_output_of_a_program_ends_the_search(tmp_path: Path, kind: str) -> None:
    path = program(tmp_path, f"#!/bin/sh\n{PRINTED[kind]}\n")
    declared = Program(name="x", version_args=("--version",))
    begin = time.monotonic()
    found = find_programs([declared], {"x": path})["x"]
    assert time.monotonic() - begin < 15
    assert found.path == path
    assert found.version
    assert len(found.version) < 1000
    assert all(line.isprintable() for line in found.version.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["any octets", "nothing", "numbers", "a signal"])
def test_no_output_of_any_program_ends_the_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """All programs that are declared, and those that ask for time and power, print the same."""
    names = {one.name for one in registry.programs().values()} | {"chronyc", "pmc", "ipmitool"}
    for name in names:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{PRINTED[kind]}\n")
        path.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    facts = take_inventory(Testbed())
    assert facts.cpus
    assert MachineFacts.model_validate_json(facts.model_dump_json()) == facts
    assert read_sync().bound_s is None


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("[none] integrity confidentiality", ""),
        ("none [integrity] confidentiality", "integrity"),
        ("none integrity [confidentiality]", "confidentiality"),
        ("none", ""),
        ("", ""),
        ("[odd]", ""),
        (None, ""),
    ],
)
def test_lockdown_is_what_the_kernel_says_it_is(
    text: str | None, mode: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kernel/security"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / "lockdown").write_text(f"{text}\n")
    assert inventory.read_lockdown(sys=tmp_path) == mode
