"""How the virtual lab is laid out, started and left."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.conftest import Programs
from vnetperf import config
from vnetperf.cli import lab as command
from vnetperf.cli import main
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.model.testbed import Testbed
from vnetperf.virt import kernel, kvm, lab_boot, lab_guest, tools
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.lab_boot import NICS, LabMachine
from vnetperf.virt.lab_guest import LabGuest, Relay, Task


def devices(machine: LabMachine, kind: str) -> list[dict[str, str]]:
    """Properties of each device of a kind, in order."""
    options = machine.qemu_options()
    found = [options[n + 1] for n, option in enumerate(options) if option == "-device"]
    return [
        dict(part.split("=") for part in text.split(",")[1:])
        for text in found
        if text.split(",")[0] == kind
    ]


def test_every_nic_has_a_port_of_its_own_on_a_bus_of_its_node() -> None:
    machine = LabMachine()
    buses = {bus["id"]: bus for bus in devices(machine, "pxb-pcie")}
    ports = {port["id"]: port for port in devices(machine, "pcie-root-port")}
    assert len({port["chassis"] for port in ports.values()}) == len(NICS)
    for nic, device in zip(NICS, devices(machine, "igb"), strict=True):
        port = ports[device["bus"]]
        bus = buses[port["bus"]]
        assert int(bus["numa_node"]) == nic.node
        # Firmware numbers the buses behind a bus's ports in the order of their slots.
        expected = int(bus["bus_nr"], 16) + 1 + int(port["addr"], 16)
        assert nic.pci == f"0000:{expected:02x}:00.0"


def test_cables_join_a_tester_and_a_dut() -> None:
    options = " ".join(LabMachine().qemu_options())
    ends: dict[str, list[str]] = {}
    for name, hub in re.findall(r"hubport,id=cable-(\w+),hubid=(\d+)", options):
        ends.setdefault(hub, []).append(name)
    assert ends == {"0": ["tester0", "dut0"], "1": ["tester1", "dut1"]}
    assert len({nic.mac for nic in NICS}) == len(NICS)


def test_the_testbed_file_names_the_nics_of_the_layout() -> None:
    testbed = config.load_model(Testbed, config.find_file("testbeds", "lab"))
    named = [(wire.tester, wire.dut) for wire in testbed.nics]
    by_cable = {(nic.cable, nic.side): nic.pci for nic in NICS}
    assert named == [(by_cable[n, "tester"], by_cable[n, "dut"]) for n in range(2)]


def test_processors_and_memory_are_spread_over_the_nodes() -> None:
    assert LabMachine(cpus=8, memory_mib=6144).numa() == ("3072M,cpus=0-3", "3072M,cpus=4-7")


def test_emulation_unless_told_otherwise() -> None:
    assert "kvm" not in " ".join(LabMachine().qemu_options())
    assert LabMachine(accelerator="kvm").qemu_options()[:2] == ["-accel", "kvm"]


@pytest.mark.parametrize(
    ("cpus", "memory", "where"), [(3, 4096, "--cpus"), (0, 4096, "--cpus"), (4, 512, "--memory")]
)
def test_a_machine_that_cannot_be_is_refused(cpus: int, memory: int, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LabMachine(cpus=cpus, memory_mib=memory)
    assert caught.value.where == where
    assert caught.value.accepted


def test_guests_of_the_lab_need_a_thread_for_each_processor_or_hardware() -> None:
    assert not LabMachine().takes_guests
    several = LabMachine(threads="multi")
    assert several.takes_guests
    assert several.qemu_options()[:2] == ["-accel", "tcg,thread=multi"]
    assert LabMachine(accelerator="kvm").takes_guests


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Task, LabMachine]]:
    """What the guest would have been asked to do; it returns status 3."""
    tasks: list[tuple[Task, LabMachine]] = []

    def run(task: Task, _kernel: Kernel, machine: LabMachine, _tell: object) -> int:
        tasks.append((task, machine))
        return 3

    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("VNETPERF_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(lab_guest, "run", run)
    monkeypatch.setattr(kernel, "cached", lambda: Kernel("x", Path("/x"), Path("/x")))
    monkeypatch.setattr(tools, "need_qemu", lambda: "qemu")
    monkeypatch.setattr(tools, "need_virtme", lambda: (9,))
    monkeypatch.setattr(lab_guest, "choose_accelerator", lambda machine, *_: machine)
    return tasks


def test_the_command_its_place_and_its_python(
    asked: list[tuple[Task, LabMachine]], tmp_path: Path
) -> None:
    assert main(["lab", "run", "--cpus", "8", "--", "pytest", "-k", "x", "--", "y"]) == 3
    ((task, machine),) = asked
    assert list(task.argv) == ["pytest", "-k", "x", "--", "y"]
    assert task.cwd == tmp_path
    assert task.shares == (tmp_path,)
    assert task.environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert machine.cpus == 8
    assert not task.raw


def test_the_lab_is_the_testbed_unless_the_user_names_one(
    asked: list[tuple[Task, LabMachine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["lab", "run", "true"])
    monkeypatch.setenv("VNETPERF_TESTBED", "local")
    main(["lab", "run", "true"])
    monkeypatch.delenv("VNETPERF_TESTBED")
    (tmp_path / "vnetperf.toml").write_text('testbed = "local"\n')
    main(["lab", "run", "true"])
    named = [task.environment.get("VNETPERF_TESTBED") for task, _ in asked]
    assert named == ["lab", "local", None]


def test_folders_and_variables_that_are_named_go_in(
    asked: list[tuple[Task, LabMachine]],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other, results = tmp_path_factory.mktemp("other"), tmp_path_factory.mktemp("results")
    monkeypatch.setenv("VNETPERF_RESULTS_DIR", str(results))
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    argv = ["--share", str(other), "--env", "MINE", "--env", "A=b=c"]
    main(["lab", "run", *argv, "true"])
    ((task, _),) = asked
    assert task.shares == (tmp_path, results, other)
    assert task.environment["MINE"] == "1"
    assert task.environment["A"] == "b=c"
    assert "SOME_TOKEN" not in task.environment


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run"], "there is no command to run"),
        (["run", "--"], "there is no command to run"),
        (["run", "--memory", "much", "true"], "--memory: 'much' is no amount"),
        (["run", "--cpus", "3", "true"], "--cpus: 3 processors"),
        (["run", "--share", "nowhere", "true"], "nowhere is no directory"),
        (["run", "--share", "/", "true"], "whole of this machine"),
        (["run", "--timeout", "0", "true"], "--timeout"),
        (["shell"], "a shell needs a terminal"),
    ],
)
def test_wrong_use_is_one_message(
    asked: list[tuple[Task, LabMachine]],
    argv: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lab", *argv]) == 1
    assert words in capsys.readouterr().err
    assert asked == []


def test_memory_has_units() -> None:
    assert [command.memory_mib(text) for text in ("5G", "2048M", "4096")] == [5120, 2048, 4096]
    assert [command.memory_mib(text) for text in ("2GiB", "512MiB")] == [2048, 512]
    for odd in ("9" * 5000, "\u0663G", "1e3", "2.5G", "-1G", "G", "2iB"):
        with pytest.raises(ConfigError, match="no amount of memory"):
            command.memory_mib(odd)


@pytest.mark.usefixtures("lab_home")
def test_doctor_names_what_is_missing_and_its_cure(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vnetperf.virt.tools.EXTRA_PATH", "")
    programs({})
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("vnetperf.virt.tools.virtme_version", lambda: None)
    assert main(["lab", "doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["qemu", "NO:"]
    assert "'qemu-system-x86_64'" in lines[2]
    assert "install-deps lab" in lines[3]
    assert any("pip install 'vnetperf[lab]'" in line for line in lines)
    assert any("busybox-static" in line for line in lines)
    assert lines[-1] == "the lab cannot start"


@pytest.mark.usefixtures("lab_home")
def test_doctor_says_why_acceleration_is_not_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Kernel("6.12.0", Path("/x"), Path("/x"))
    monkeypatch.setattr(kernel, "cached", lambda: found)
    monkeypatch.setattr("vnetperf.virt.tools.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("vnetperf.virt.tools.qemu_version", lambda _: (10, 0))
    monkeypatch.setattr("vnetperf.virt.tools.virtme_version", lambda: (1, 42))
    monkeypatch.setattr(kvm, "kvm_proof", lambda *_: kvm.KvmProof(False, "it hung"))
    assert main(["lab", "doctor", "--memory", "2G"]) == 0
    assert "it hung; the lab is emulated" in capsys.readouterr().out
    assert main(["lab", "doctor", "--accel", "kvm", "--memory", "2G"]) == 1
    assert "NO: not proved" in capsys.readouterr().out


def test_a_lab_that_cannot_be_made_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(HostError) as caught:
        kernel.cached()
    assert "XDG_CACHE_HOME" in caught.value.cure


def test_a_qemu_that_ends_with_our_word_unread_is_an_end() -> None:
    pairs = {name: socket.socketpair() for name in ("in", "out", "err", "ctl")}
    relay = Relay({name: ours for name, (ours, _) in pairs.items()})
    relay.send("INT")
    pairs["ctl"][1].close()  # unread: the kernel calls that a reset
    assert list(relay.turn(1.0)) == []
    assert relay.closed
    for ends in pairs.values():
        for end in ends:
            end.close()


def test_a_command_is_known_to_run_before_its_output_is_shown() -> None:
    pairs = {name: socket.socketpair() for name in ("in", "out", "err", "ctl")}
    read, write = os.pipe()
    os.set_blocking(read, False)
    relay = Relay({name: ours for name, (ours, _) in pairs.items()}, out=write)
    pairs["out"][1].sendall(b"running\n")
    pairs["ctl"][1].sendall(b"ready\n")
    words = relay.turn(1.0)
    assert next(words) == ("ready", "")
    with pytest.raises(BlockingIOError):
        os.read(read, 100)
    assert list(words) == []
    assert os.read(read, 100) == b"running\n"
    for end in (*(one for ends in pairs.values() for one in ends),):
        end.close()
    os.close(read)
    os.close(write)


def test_an_end_that_was_said_before_the_machine_went_off_is_the_end(tmp_path: Path) -> None:
    pairs = {name: socket.socketpair() for name in ("in", "out", "err", "ctl")}
    relay = Relay({name: ours for name, (ours, _) in pairs.items()})
    said = [b"exit 0\n"]

    class Qemu:
        pid = os.getpid()
        returncode = 0

        def poll(self) -> int:  # our output was read slowly: all of it has happened meanwhile
            while said:
                pairs["ctl"][1].sendall(said.pop())
            return 0

    guest = LabGuest(cast("subprocess.Popen[bytes]", Qemu()), relay, tmp_path, ready=True)
    assert next(guest.turn(0)) == ("exit", "0")
    with pytest.raises(HostError, match="ended while the command ran"):
        list(guest.turn(0))
    for ends in pairs.values():
        for end in ends:
            end.close()


HOSTILE = 'it\'s $(touch /tmp/no) @CWD@; "x"'


def written(tmp_path: Path, terminal: tuple[int, int] | None) -> tuple[str, dict[str, str]]:
    command = lab_boot.write_scripts(
        tmp_path,
        modules=Path("/modules/of this"),
        shares=[Path("/data") / HOSTILE],
        kept=[Path("/data/package")],
        cwd=Path("/data") / HOSTILE,
        environment={"NOTES": HOSTILE},
        argv=["prog", HOSTILE],
        terminal=terminal,
    )
    return command, {name: (tmp_path / name).read_text() for name in ("prepare.sh", "run.sh")}


@pytest.mark.parametrize("terminal", [None, (50, 120)])
def test_the_scripts_are_well_formed(tmp_path: Path, terminal: tuple[int, int] | None) -> None:
    command, texts = written(tmp_path, terminal)
    for text in (command, *texts.values()):
        done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    filled = "".join(texts.values()).replace(HOSTILE, "").replace("@CWD@", "")
    assert not re.search(r"@[A-Z]+@", filled)
    # It goes on the kernel's command line in base64, and that line ends at 2048 characters.
    assert len(command) < 400 + len(str(tmp_path))


def test_arguments_and_environment_arrive_as_they_are(tmp_path: Path) -> None:
    _, texts = written(tmp_path, None)
    (line,) = [line for line in texts["run.sh"].splitlines() if line.startswith("env -i")]
    shown = line.partition(" </dev/virtio-ports")[0].replace("/run/lab.pid", str(tmp_path / "pid"))
    script = shown.replace("sh prog", "sh printf '%s\\n'")
    done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=False)
    assert done.stdout == f"{HOSTILE}\n", done.stderr
    script = shown.replace("sh prog", "sh printenv NOTES")
    done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=False)
    assert done.stdout.startswith(f"{HOSTILE}\n"), done.stderr
