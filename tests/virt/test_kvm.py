"""Acceleration is used only where a kernel booted with it; QEMU is a script here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.conftest import Programs
from vnetperf.host.wait import LAB_TIME_FACTOR
from vnetperf.model.errors import HostError
from vnetperf.virt import kvm, lab_guest
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.lab_boot import LabMachine
from vnetperf.virt.tools import QEMU

#: Writes to the file that the console goes to, as QEMU would.
PRINTS = 'for a; do case "$a" in file:*) echo "{}" >"${{a#file:}}";; esac; done; '
BOOTS = PRINTS.format(f"Kernel panic: VFS: {kvm.LAST_MESSAGE}")

Attempt = Callable[[str], kvm.KvmProof]


@pytest.fixture
def attempt(
    tmp_path: Path, programs: Programs, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> Attempt:
    """Try with a QEMU that does what a script says."""
    (tmp_path / "kvm").touch()
    kernel.image.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "kvm")
    monkeypatch.setattr(kvm, "LIMIT_S", 1.0)

    def run(script: str) -> kvm.KvmProof:
        folder = programs({QEMU: script})
        return kvm.kvm_proof(str(folder / QEMU), kernel.image)

    return run


def accelerator(wanted: str, kernel: Kernel, tmp_path: Path) -> str:
    qemu = str(tmp_path / "bin" / QEMU)
    return lab_guest.choose_accelerator(LabMachine(), wanted, qemu, kernel).accelerator


@pytest.mark.parametrize("then", ["sleep 60", "exit 0"])
def test_a_kernel_that_boots_is_the_proof(
    attempt: Attempt, kernel: Kernel, tmp_path: Path, then: str
) -> None:
    assert attempt(BOOTS + then) == kvm.KvmProof(True, "a kernel booted with it")
    assert accelerator("auto", kernel, tmp_path) == "kvm"
    assert accelerator("tcg", kernel, tmp_path) == "tcg"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 60", "printed nothing within 1 s"),
        (PRINTS.format("[ 0.1] Linux") + "sleep 60", "did not come to its end within 1 s"),
        ("echo 'failed to initialize kvm' >&2; exit 1", "status 1: failed to initialize kvm"),
        ("kill -ABRT $$", "signal 6"),
    ],
)
def test_a_device_that_is_there_is_no_proof(
    attempt: Attempt,
    kernel: Kernel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    script: str,
    why: str,
) -> None:
    proof = attempt(script)
    assert not proof.works
    assert why in proof.why
    assert accelerator("auto", kernel, tmp_path) == "tcg"
    with pytest.raises(HostError, match="does not work") as caught:
        accelerator("kvm", kernel, tmp_path)
    assert "--accel auto" in caught.value.cure


@pytest.mark.slow
@pytest.mark.parametrize(("script", "kept"), [("sleep 60", True), ("exit 1", False)])
def test_only_what_took_long_to_find_is_remembered(
    attempt: Attempt,
    kernel: Kernel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    script: str,
    kept: bool,
) -> None:
    """QEMU ends at once where hugepages have the memory, or another hypervisor the processor."""
    first, again = attempt(script), kvm.KvmProof(True, "it was tried again")
    monkeypatch.setattr(kvm, "boot_with_kvm", lambda *_: again)
    qemu = str(tmp_path / "bin" / QEMU)
    assert kvm.kvm_proof(qemu, kernel.image) == (first if kept else again)
    monkeypatch.setattr(kvm, "boot_with_kvm", pytest.fail)
    assert kvm.kvm_proof(qemu, kernel.image) == (first if kept else again)


def test_a_proof_is_of_this_boot_alone(
    attempt: Attempt, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt(BOOTS).works
    monkeypatch.setattr(kvm, "boot_id", lambda: "another")
    again = kvm.KvmProof(False, "it was tried again")
    monkeypatch.setattr(kvm, "boot_with_kvm", lambda *_: again)
    assert kvm.kvm_proof(str(tmp_path / "bin" / QEMU), kernel.image) == again


def test_no_device_and_no_kernel_need_no_attempt(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del attempt
    assert "no kernel" in kvm.kvm_proof("qemu", None).why
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "nowhere" / "kvm")
    assert "/dev/kvm" in kvm.kvm_proof("qemu", tmp_path).why


def test_the_lab_has_two_minutes_for_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetperf.host.wait.time_factor", lambda: LAB_TIME_FACTOR)
    assert kvm.patient(kvm.LIMIT_S) == 120


@pytest.mark.parametrize(("takes", "loaded"), [(False, []), (True, ["kvm_amd"])])
def test_in_the_lab_kvm_is_loaded_where_guests_would_not_stand_still(
    attempt: Attempt,
    kernel: Kernel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    takes: bool,
    loaded: list[str],
) -> None:
    assert attempt(BOOTS).works
    machine = MagicMock()
    monkeypatch.setattr(kvm, "virtual_lab", lambda: True)
    monkeypatch.setattr(kvm, "lab_takes_guests", lambda: takes)
    monkeypatch.setattr(kvm, "has_flag", lambda flag: flag == "svm")
    proof = kvm.guest_kvm_proof(machine, str(tmp_path / "bin" / QEMU), kernel.image)
    assert proof.works is takes
    assert [call.args[0] for call in machine.load_module.call_args_list] == loaded
    assert takes or "one thread" in proof.why
