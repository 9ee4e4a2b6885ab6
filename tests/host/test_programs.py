from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.machine import PROGRAMS, facts
from vnetperf.host.programs import find_programs
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import ProgramsConfig
from vnetperf.vswitches.dpdk import OvsDpdk

DAEMON = "ovs-vswitchd-dpdk"


def daemon(directory: Path, version: str, mode: int = 0o755) -> str:
    path = directory / "sbin/ovs-vswitchd"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\nprintf '{version}'\n")
    path.chmod(mode)
    return str(path)


def trouble(path: str) -> str:
    paths, _, troubles = find_programs({DAEMON: path}, (DAEMON,))
    assert paths == {DAEMON: ""}
    assert path in troubles[DAEMON]
    assert "[programs]" in troubles[DAEMON]
    return troubles[DAEMON]


def test_the_configured_program_is_taken(tmp_path: Path) -> None:
    path = daemon(tmp_path, "ovs-vswitchd (Open vSwitch) 3.3.0\\nDPDK 23.11")
    paths, versions, troubles = find_programs({DAEMON: path}, (DAEMON,))
    assert paths == {DAEMON: path}
    assert "DPDK 23.11" in versions[DAEMON]
    assert troubles == {}


def test_what_is_wrong_with_a_configured_program_is_told(tmp_path: Path) -> None:
    assert "is not there" in trouble(str(tmp_path / "nowhere/ovs-vswitchd"))
    assert "is a directory" in trouble(str(tmp_path))
    path = daemon(tmp_path, "ovs-vswitchd (Open vSwitch) 3.3.0", mode=0o644)
    assert "is not executable" in trouble(path)
    Path(path).chmod(0o755)
    assert "has no DPDK (ovs-vswitchd (Open vSwitch) 3.3.0)" in trouble(path)


def test_the_backend_passes_it_on() -> None:
    machine = facts(
        programs={**PROGRAMS, DAEMON: ""}, program_troubles={DAEMON: "/opt/x is not there; do y"}
    )
    text = OvsDpdk.missing(machine, Scenario.model_construct())
    assert text == f"{DAEMON} cannot be used: /opt/x is not there; do y"


def test_only_absolute_paths_are_accepted() -> None:
    assert ProgramsConfig(testpmd="/opt/dpdk/testpmd").testpmd
    with pytest.raises(ValueError, match="absolute path"):
        ProgramsConfig(testpmd="testpmd")
