"""Acceleration is used only where it was proved; QEMU is a script here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.lab import accel, boot
from vnetperf.lab.kernel import Kernel
from vnetperf.lab.layout import Machine
from vnetperf.lab.programs import QEMU
from vnetperf.model.errors import HostError

VERSION = 'case "$1" in --version) echo QEMU emulator version 10.0.2; exit;; esac\n'
#: Writes to the file that the console goes to, as QEMU would.
SAYS = 'for a; do case "$a" in *path=*) echo "$WORD" >"${a##*path=}";; esac; done; sleep 60'

Attempt = Callable[[str], accel.Proof]


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
    monkeypatch.setattr(accel, "DEVICE", device)
    monkeypatch.setattr(accel, "LIMIT_S", 1.0)
    monkeypatch.setattr(boot, "initramfs", lambda _kernel, directory: directory / "initramfs")
    monkeypatch.setenv("WORD", accel.WORD)
    del lab_home

    def run(script: str) -> accel.Proof:
        folder = programs({QEMU: VERSION + script})
        return accel.prove(str(folder / QEMU), kernel, lambda _: None)

    return run


def test_a_guest_that_speaks_is_the_proof(attempt: Attempt, kernel: Kernel, tmp_path: Path) -> None:
    assert attempt(SAYS).works
    qemu = str(tmp_path / "bin" / QEMU)
    assert accel.chosen(Machine(), "auto", qemu, kernel, lambda _: None).accelerator == "kvm"
    assert accel.chosen(Machine(), "tcg", qemu, kernel, lambda _: None).accelerator == "tcg"


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
    assert accel.remembered(qemu, kernel) == proof
    assert accel.chosen(Machine(), "auto", qemu, kernel, pytest.fail).accelerator == "tcg"
    with pytest.raises(HostError, match="does not work") as caught:
        accel.chosen(Machine(), "kvm", qemu, kernel, pytest.fail)
    assert "--accel auto" in caught.value.cure


def test_a_proof_is_of_this_boot_alone(
    attempt: Attempt, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(SAYS)
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(accel, "BOOT_ID", tmp_path / "boot_id")
    assert accel.remembered(str(tmp_path / "bin" / QEMU), kernel) is None


def test_no_device_needs_no_attempt(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accel, "DEVICE", tmp_path / "none")
    assert "no such device" in accel.prove("qemu", kernel, pytest.fail).why
