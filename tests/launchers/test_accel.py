"""Acceleration is used where it was proved, and with what its kernel has to be told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vnetperf.host.machine import Machine
from vnetperf.launchers.vm import accel
from vnetperf.model.errors import HostError


class Kernel:
    """A QEMU whose guest says something, or nothing."""

    returncode: int | None = None

    def __init__(self, console: Path, says: str) -> None:
        console.write_text(says)

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float, what: str, poll_s: float
    ) -> None:
        if not condition():
            raise HostError(f"no {what} within {timeout_s:g} s", where="kvm-proof")

    def alive(self) -> bool:
        return True

    def signal(self, number: int) -> None:
        assert number == 9

    def stop(self, timeout_s: float) -> None:
        return


class Bench(Machine):
    """A machine that starts `Kernel`s and remembers with what."""

    def __init__(self, directory: Path, says: str) -> None:
        self.directory, self.says = directory, says
        self.argv: list[str] = []
        self.modules: list[str] = []

    def subdir(self, name: str) -> Path:
        del name
        return self.directory

    def spawn(self, name: str, argv: list[str], **options: object) -> Kernel:  # type: ignore[override]
        del name, options
        self.argv = argv
        return Kernel(self.directory / "console", self.says)

    def load_module(self, name: str) -> None:
        self.modules.append(name)


@pytest.fixture
def prove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, bool], tuple[accel.Proof, Bench]]:
    def run(says: str, lab: bool) -> tuple[accel.Proof, Bench]:
        device, kernel = tmp_path / "kvm", tmp_path / "vmlinuz"
        device.touch()
        if not kernel.exists():
            kernel.touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(accel, "DEVICE", device)
        monkeypatch.setattr(accel, "virtual_lab", lambda: lab)
        monkeypatch.setattr(accel, "has_flag", lambda flag: flag == "svm")
        bench = Bench(tmp_path, says)
        return accel.proof(bench, str(kernel), kernel), bench

    return run


def test_a_kernel_that_boots_is_the_proof(
    prove: Callable[[str, bool], tuple[accel.Proof, Bench]],
) -> None:
    proof, bench = prove(f"...\nKernel panic: VFS: {accel.WORD}", False)
    assert (proof.works, proof.cmdline, bench.modules) == (True, "", [])
    again, other = prove("", False)  # remembered
    assert (again, other.argv) == (proof, [])


def test_in_the_lab_guests_are_timed_by_the_board(
    prove: Callable[[str, bool], tuple[accel.Proof, Bench]],
) -> None:
    proof, bench = prove(accel.WORD, True)
    assert bench.modules == ["kvm_amd"]
    assert (proof.works, proof.cmdline) == (True, accel.IN_THE_LAB)
    assert bench.argv[-1].endswith(accel.IN_THE_LAB)


@pytest.mark.parametrize(
    ("says", "why"), [("", "said nothing"), ("[ 0.1] Linux", "did not come to its end")]
)
def test_a_kernel_that_stands_still_is_no_proof(
    prove: Callable[[str, bool], tuple[accel.Proof, Bench]], says: str, why: str
) -> None:
    proof, _ = prove(says, False)
    assert not proof.works
    assert why in proof.why
