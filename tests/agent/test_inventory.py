"""What the inventory says of programs that run elsewhere, and of builds that tell no version."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import pytest

import vnetperf
from vnetperf import registry
from vnetperf.agent.inventory import take_inventory
from vnetperf.host.programs import owning_packages
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import KernelModule, Program, Testbed
from vnetperf.vswitches.base import VSwitch


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
    assert Mine.missing(facts, Scenario.model_construct()).startswith(
        "the kernel has no module no-such-module"
    )


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
