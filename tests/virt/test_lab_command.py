"""`vnetperf lab` as a user types it, without starting anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.cli import lab as command
from vnetperf.cli import main
from vnetperf.model.errors import HostError
from vnetperf.virt import kernel, kvm, lab_guest, tools
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.lab_boot import LabMachine
from vnetperf.virt.lab_guest import Task


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


@pytest.mark.usefixtures("lab_home")
def test_doctor_names_what_is_missing_and_its_cure(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vnetperf.virt.tools.SBIN", "")
    programs({})
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("vnetperf.virt.tools.virtme_version", lambda: None)
    assert main(["lab", "doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "qemu           NO: program 'qemu-system-x86_64' is not installed" in lines[2]
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
