from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.machine import PROGRAMS, facts
from vnetperf.host.programs import (
    EXTRA_PATH,
    FoundProgram,
    find_programs,
    printed_object,
    python_distributions,
    trust_programs,
)
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Program, Testbed
from vnetperf.openvswitch.programs import DAEMON_WITH_DPDK
from vnetperf.vswitches.dpdk import OvsDpdk

DAEMON = "ovs-vswitchd-dpdk"


def daemon(directory: Path, version: str, mode: int = 0o755) -> str:
    path = directory / "sbin/ovs-vswitchd"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\nprintf '{version}'\n")
    path.chmod(mode)
    return str(path)


def trouble(path: str) -> str:
    found = find_programs((DAEMON_WITH_DPDK,), {"ovs_vswitchd": path})[DAEMON]
    assert found.path == ""
    assert path in found.problem
    assert "[programs]" in found.problem
    return found.problem


def test_the_configured_program_is_taken(tmp_path: Path) -> None:
    path = daemon(tmp_path, "ovs-vswitchd (Open vSwitch) 3.3.0\\nDPDK 23.11")
    found = find_programs((DAEMON_WITH_DPDK,), {"ovs_vswitchd": path})[DAEMON]
    assert found.path == path
    assert "DPDK 23.11" in found.version
    assert found.problem == ""


def test_tools_are_those_built_with_the_configured_daemon(tmp_path: Path) -> None:
    path = daemon(tmp_path, "ovs-vswitchd (Open vSwitch) 3.3.0\\nDPDK 23.11")
    tool = tmp_path / "bin/ovs-vsctl"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    found = find_programs(OvsDpdk.programs, {"ovs_vswitchd": path})
    assert found["ovs-vsctl"].path == str(tool)


def test_whatever_backends_declare_is_found_in_its_places(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\necho mine 1.0\n")
    mine.chmod(0o755)
    declared = Program(name="my-switch", places=("no-such", str(mine)), version_args=("-V",))
    assert find_programs([declared])["my-switch"] == FoundProgram(str(mine), "mine 1.0")
    assert find_programs([Program(name="no-such")])["no-such"] == FoundProgram()


def test_a_warning_is_no_part_of_a_version(tmp_path: Path) -> None:
    """It may differ each time, as one with a process id does."""
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\n[ $1 = -V ] && echo mine 1.0\necho mine $$ warns >&2\n")
    mine.chmod(0o755)
    declared = Program(name="mine", places=(str(mine),), version_args=("-V",))
    assert find_programs([declared])["mine"].version == "mine 1.0"
    other = declared.model_copy(update={"version_args": ("-W",)})
    assert "warns" in find_programs([other])["mine"].version


def test_what_is_wrong_with_a_configured_program_is_told(tmp_path: Path) -> None:
    assert "is not there" in trouble(str(tmp_path / "nowhere/ovs-vswitchd"))
    assert "is a directory" in trouble(str(tmp_path))
    path = daemon(tmp_path, "ovs-vswitchd (Open vSwitch) 3.3.0", mode=0o644)
    assert "is not executable" in trouble(path)
    Path(path).chmod(0o755)
    assert "no DPDK" in trouble(path)
    assert "(Open vSwitch) 3.3.0" in trouble(path)


def test_the_backend_passes_it_on() -> None:
    machine = facts(
        programs={**PROGRAMS, DAEMON: ""}, program_troubles={DAEMON: "/opt/x is not there; do y"}
    )
    text = OvsDpdk.missing(machine, Scenario.model_construct())
    assert text.startswith(f"{DAEMON} ")
    assert text.endswith("/opt/x is not there; do y")


def test_only_absolute_paths_are_accepted() -> None:
    assert Testbed(programs={"testpmd": "/opt/dpdk/testpmd"}).programs["testpmd"]
    with pytest.raises(ValueError, match="absolute path"):
        Testbed(programs={"testpmd": "testpmd"})


def test_what_an_egg_requires_is_in_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's packages have it so."""
    egg = tmp_path / "laid-1.0.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: laid\nVersion: 1.0\n")
    (egg / "requires.txt").write_text("pydantic>=2\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = python_distributions("laid")
    assert found["laid"] == "1.0"
    assert "pydantic" in found


def plant(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\ntouch {folder}/ran\necho {says}\n")
    program.chmod(0o755)
    return program


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: os.chown(folder, 65534, -1),
        lambda folder: folder.chmod(0o777),
        lambda folder: os.chown(folder / "mine", 65534, -1),
        lambda folder: (folder / "mine").chmod(0o757),
    ],
    ids=["folder's owner", "folder's mode", "owner", "mode"],
)
def test_root_runs_no_program_of_path_that_others_could_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    theirs, ours = (
        plant(tmp_path / "theirs", "mine", "9.9"),
        plant(tmp_path / "ours", "mine", "1.0"),
    )
    spoil(theirs.parent)
    declared = Program(name="mine", version_args=("-V",))
    monkeypatch.setenv("PATH", f"{theirs.parent}:{ours.parent}")
    assert find_programs([declared])["mine"] == FoundProgram(str(ours), "1.0")
    monkeypatch.setenv("PATH", str(theirs.parent))
    only = find_programs([declared])["mine"]
    assert not only.path
    assert str(theirs) in only.problem
    named = find_programs([declared], {declared.setting: str(theirs)})["mine"]
    assert not named.path
    assert not (theirs.parent / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_an_agent_of_root_has_no_folder_of_others_on_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o777)
    monkeypatch.setenv("PATH", f"{tmp_path}/theirs:.::{tmp_path}/none:/usr/bin")
    trust_programs()
    assert os.environ["PATH"] == "/usr/bin"
    monkeypatch.setenv("PATH", f"{tmp_path}/theirs")
    trust_programs()
    assert os.environ["PATH"] == EXTRA_PATH


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}\r\n', {"a": 1}),
        ('warning: {x} is old\n  {"a": {"b": 2}}\n{"c": 3}', {"a": {"b": 2}}),
        ('W1201 10:00:00 plugin.go:7] {\n{"a": 1} and more', {"a": 1}),
        ("{x}\n", None),
        ('{\n "items": [\n  {"metadata": {"name": "x"}},\n  {"cut', None),
        ("[1]", None),
        ('"{"', None),
        ("", None),
        ("{" * 100_000, None),
        ('{"a": ' + "9" * 5000 + "}", None),
    ],
)
def test_an_object_is_found_between_what_others_print(text: str, found: object) -> None:
    assert printed_object(text) == found


def test_a_line_of_a_log_is_no_answer() -> None:
    text = '{"level": "warn", "msg": "old"}\n{"kind": "Pod", "metadata": {}}\n'
    assert printed_object(text, ["kind"]) == {"kind": "Pod", "metadata": {}}
    assert printed_object('{"level": "warn"}\n', ["kind"]) is None
