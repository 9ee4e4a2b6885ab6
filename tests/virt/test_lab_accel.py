"""Acceleration is used only where it was proved; QEMU is a script here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.model.errors import HostError
from vnetperf.virt import kvm, lab_boot
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.lab_boot import LabMachine
from vnetperf.virt.tools import QEMU

VERSION = 'case "$1" in --version) echo QEMU emulator version 10.0.2; exit;; esac\n'
#: Writes to the file that the console goes to, as QEMU would.
SAYS = 'for a; do case "$a" in *path=*) echo "$WORD" >"${a##*path=}";; esac; done; sleep 60'

Attempt = Callable[[str], kvm.LabProof]


@pytest.fixture
def attempt(
    tmp_path: Path,
    lab_home: Path,
    programs: Programs,
    kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> Attempt:
    """Try with a QEMU that does what a script says."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "DEVICE", device)
    monkeypatch.setattr(kvm, "LAB_KERNEL_LIMIT_S", 1.0)
    monkeypatch.setattr(
        lab_boot, "lab_initramfs", lambda _kernel, directory: directory / "initramfs"
    )
    monkeypatch.setenv("WORD", kvm.LAB_WORD)
    del lab_home

    def run(script: str) -> kvm.LabProof:
        folder = programs({QEMU: VERSION + script})
        return kvm.prove_kvm(str(folder / QEMU), kernel, lambda _: None)

    return run


def test_a_guest_that_speaks_is_the_proof(attempt: Attempt, kernel: Kernel, tmp_path: Path) -> None:
    assert attempt(SAYS).works
    qemu = str(tmp_path / "bin" / QEMU)
    assert (
        kvm.choose_accelerator(LabMachine(), "auto", qemu, kernel, lambda _: None).accelerator
        == "kvm"
    )
    assert (
        kvm.choose_accelerator(LabMachine(), "tcg", qemu, kernel, lambda _: None).accelerator
        == "tcg"
    )


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 60", "said nothing within 1 s"),
        ("echo 'failed to initialize kvm' >&2; exit 1", "status 1: failed to initialize kvm"),
        ("kill -ABRT $$", "signal 6"),
    ],
)
def test_a_device_that_is_there_is_no_proof(
    attempt: Attempt, kernel: Kernel, tmp_path: Path, script: str, why: str
) -> None:
    proof = attempt(script)
    assert not proof.works
    assert why in proof.why
    qemu = str(tmp_path / "bin" / QEMU)
    # Remembered: nothing is tried again.
    assert kvm.remembered_proof(qemu, kernel) == proof
    assert (
        kvm.choose_accelerator(LabMachine(), "auto", qemu, kernel, pytest.fail).accelerator == "tcg"
    )
    with pytest.raises(HostError, match="does not work") as caught:
        kvm.choose_accelerator(LabMachine(), "kvm", qemu, kernel, pytest.fail)
    assert "--accel auto" in caught.value.cure


def test_a_proof_is_of_this_boot_alone(
    attempt: Attempt, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(SAYS)
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(kvm, "BOOT_ID", tmp_path / "boot_id")
    assert kvm.remembered_proof(str(tmp_path / "bin" / QEMU), kernel) is None


def test_no_device_needs_no_attempt(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "none")
    assert "no such device" in kvm.prove_kvm("qemu", kernel, pytest.fail).why
