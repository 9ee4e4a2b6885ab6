"""What the inventory says of programs that run elsewhere, and of builds that tell no version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vnetperf import registry
from vnetperf.agent.inventory import take_inventory
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import KernelModule, Program, Testbed
from vnetperf.vswitches.base import VSwitch


def program(directory: Path, text: str) -> str:
    path = directory / "program"
    path.write_text(text)
    path.chmod(0o700)
    os.utime(path, (1_000, 1_000))
    return str(path)


def test_servers_of_others_need_no_program_here() -> None:
    testbed = Testbed(trex={"server": "192.0.2.1"}, pktgen={"server": "192.0.2.2"})
    facts = take_inventory(testbed)
    assert facts.programs["pktgen"] == "at 192.0.2.2"
    assert facts.programs["trex"]  # one that is installed has the client beside it
    assert facts.versions["pktgen"] == "at 192.0.2.2"


def test_another_build_of_a_generator_has_another_version(tmp_path: Path) -> None:
    def version(text: str) -> str:
        path = program(tmp_path, text)
        return take_inventory(Testbed(programs={"trex": path})).versions["trex"]

    one = version("#!/bin/sh\n")
    assert version("#!/bin/sh\n") == one
    assert version("#!/bin/sh\ntrue\n") != one


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
