"""Several machines of the lab: cables, keys and testbed file, and every way for them to end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.virt.test_lab_guest import guests, nothing_left, wait_for
from vnetperf.cli.lab import memory_mib
from vnetperf.config.settings import read_testbed
from vnetperf.model.errors import ConfigError
from vnetperf.virt import lab_machines
from vnetperf.virt.lab_boot import LabMachine

TOP = Path(__file__).parents[2]
#: Stands in for ssh: a master makes its socket and waits; anything else prints.
FAKE_SSH = """#!/bin/sh
case "$*" in
    *ControlMaster=yes*) for name; do :; done; touch "$(dirname "$2")/$name.ctl"; exec sleep 60 ;;
esac
"""
Start = Callable[..., subprocess.Popen[str]]


def test_cables_have_both_ends_and_nics_places_of_their_own(tmp_path: Path) -> None:
    for count in (2, 3):
        lab = lab_machines.machines(count, LabMachine(), tmp_path)
        wires = [nic.wire for machine in lab.values() for nic in machine.nics]
        assert len(wires) == 2 * len(lab_machines.CABLES[count])
        assert {wire[::-1] for wire in wires if wire} == set(wires)
        macs = [nic.mac for machine in lab.values() for nic in machine.nics]
        assert len(set(macs)) == len(macs)
        for machine in lab.values():
            assert len({nic.pci for nic in machine.nics}) == len(machine.nics)
            options = " ".join(machine.qemu_options())
            found = re.findall(
                r"dgram,id=cable-\w+,local.type=unix,local.path=\S+,remote.type=unix,remote.path=",
                options,
            )
            assert len(found) == len(machine.nics)
            assert "hubport" not in options


def test_the_testbed_file_is_one_of_machines_behind_ssh(tmp_path: Path) -> None:
    lab = lab_machines.machines(3, LabMachine(), tmp_path)
    file = tmp_path / "lab-3.toml"
    file.write_text(lab_machines.testbed_file(lab, tmp_path / "ssh_config"))
    testbed = read_testbed(str(file))
    assert {name: host.role for name, host in testbed.hosts.items()} == {
        "m1": "tester",
        "m2": "dut",
        "m3": "dut",
    }
    assert testbed.hosts["m2"].transport == (
        f"ssh=-F {tmp_path}/ssh_config m2//python={sys.executable} -I"
    )
    assert [cable.ends for cable in testbed.cables] == [
        ("m1:0000:21:00.0", "m2:0000:21:00.0"),
        ("m1:0000:22:00.0", "m2:0000:22:00.0"),
        ("m2:0000:23:00.0", "m3:0000:21:00.0"),
        ("m1:0000:23:00.0", "m3:0000:22:00.0"),
    ]


def test_three_machines_fit_eight_gib() -> None:
    assert 3 * memory_mib(lab_machines.MEMORY) <= 8 * 1024


def test_keys_are_of_the_run_and_known_on_both_sides(tmp_path: Path) -> None:
    lab = lab_machines.machines(2, LabMachine(), tmp_path)
    config = lab_machines.write_keys(tmp_path, lab)
    shown = subprocess.run(
        ["ssh", "-G", "-F", str(config), "m2"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    settings = dict(line.partition(" ")[::2] for line in shown)
    assert settings["stricthostkeychecking"] == "true"
    assert settings["userknownhostsfile"] == str(tmp_path / "known_hosts")
    assert settings["globalknownhostsfile"] == "none"
    assert settings["controlpath"] == str(tmp_path / "m2.ctl")
    assert settings["proxyusefdpass"] == "yes"
    assert settings["batchmode"] == "yes"
    known = (tmp_path / "known_hosts").read_text().splitlines()
    for name, line in zip(("m1", "m2"), known, strict=True):
        assert line == f"{name} {(tmp_path / name / 'host.pub').read_text().strip()}"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_sockets_whose_names_are_too_long_are_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    lab = lab_machines.machines(2, LabMachine(), deep)
    with pytest.raises(lab_machines.HostError, match="cannot be there"):
        lab_machines.require_place(deep, lab)


def test_four_machines_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        lab_machines.machines(4, LabMachine(), Path("/x"))
    assert refused.value.where == "--machines"


@pytest.fixture
def home() -> Iterator[Path]:
    """A cache whose name is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="vp") as path:
        yield Path(path)


@pytest.fixture
def start(tmp_path: Path, home: Path) -> Iterator[Start]:
    """Start `vnetperf lab run --machines 2` with a play of fake_qemu for each machine."""
    started: list[subprocess.Popen[str]] = []
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(FAKE_SSH)
    (programs / "ssh").chmod(0o755)

    def begin(play: str, *command: str, timeout: float = 0) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "tests.virt.drive", str(home), str(timeout)]
        argv += [*play.split(), "--machines", "2", "--", *command]
        pipe = subprocess.PIPE
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        started.append(
            subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=TOP, env=environment
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_command_runs_here_with_the_testbed_of_the_machines(start: Start, home: Path) -> None:
    process = start("stay", "sh", "-c", 'cat "$VNETPERF_TESTBED"; pwd; exit 7')
    out, err = process.communicate(timeout=120)
    assert process.returncode == 7, err
    assert "[hosts.m2]" in out
    assert out.splitlines()[-1] == str(TOP)
    for words in (r"lab: m1, m2 ", r"testbed /\S+/lab-2.toml,", r"ssh -F /\S+ m1"):
        assert re.search(words, err)
    assert nothing_left(home)


@pytest.mark.slow
def test_a_machine_that_ends_is_reported_and_the_command_goes_on(start: Start) -> None:
    process = start("last 3", "sleep", "6")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    for name in ("m1", "m2"):
        assert re.search(rf"lab: {name}: .* ended", err)


@pytest.mark.slow
def test_a_qemu_that_crashes_at_its_start_is_started_again(start: Start, tmp_path: Path) -> None:
    process = start(f"crash {tmp_path / 'crashed'}", "true")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "qemu: Assertion failed" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    # SIGTERM is handled as SIGINT is.
    [pytest.param(signal.SIGTERM, marks=pytest.mark.daily), signal.SIGKILL, signal.SIGINT],
)
def test_nothing_is_left_whatever_ends_it(start: Start, home: Path, number: int) -> None:
    process = start("stay", "sh", "-c", "echo begun; exec sleep 54321")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    machines = guests(process.pid)
    assert len(machines) == 2
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in machines))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended meanwhile
            assert b"54321" not in path.read_bytes()
    if number == signal.SIGKILL:  # its directory is removed by the next start
        start("stay", "true").communicate(timeout=120)
    assert nothing_left(home)


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_ended(start: Start) -> None:
    began = time.monotonic()
    process = start("stay", "sleep", "60", timeout=2)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 124, err
    assert "did not end within 2 s" in err
    assert time.monotonic() - began < 40


@pytest.mark.slow
def test_a_command_that_is_not_there_is_one_error(start: Start) -> None:
    process = start("stay", "no-such-command")
    _, err = process.communicate(timeout=120)
    assert process.returncode
    assert "no-such-command" in err
    assert "Traceback" not in err
