"""Acceleration is used where it was proved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host.machine import Machine
from vnetperf.model.errors import HostError
from vnetperf.virt import kvm


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

    def subdir(self, name: str) -> Path:
        del name
        return self.directory

    def spawn(self, name: str, argv: Sequence[str], **options: Any) -> Any:
        del name, options
        self.argv = list(argv)
        return Kernel(self.directory / "console", self.says)


@pytest.fixture
def prove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[kvm.KvmProof, Bench]]:
    def run(says: str) -> tuple[kvm.KvmProof, Bench]:
        device, kernel = tmp_path / "kvm", tmp_path / "vmlinuz"
        device.touch()
        if not kernel.exists():
            kernel.touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(kvm, "DEVICE", device)
        bench = Bench(tmp_path, says)
        return kvm.kvm_proof(bench, str(kernel), kernel), bench

    return run


def test_a_kernel_that_boots_is_the_proof(
    prove: Callable[[str], tuple[kvm.KvmProof, Bench]],
) -> None:
    proof, _ = prove(f"...\nKernel panic: VFS: {kvm.LAST_MESSAGE}")
    assert proof == kvm.KvmProof(True, "a kernel booted with it")
    again, other = prove("")  # remembered
    assert (again, other.argv) == (proof, [])


@pytest.mark.parametrize(
    ("says", "why"), [("", "said nothing"), ("[ 0.1] Linux", "did not come to its end")]
)
def test_a_kernel_that_stands_still_is_no_proof(
    prove: Callable[[str], tuple[kvm.KvmProof, Bench]], says: str, why: str
) -> None:
    proof, _ = prove(says)
    assert not proof.works
    assert why in proof.why


@pytest.mark.parametrize(("takes", "loaded"), [(False, []), (True, ["kvm_amd"])])
def test_in_the_lab_kvm_is_loaded_where_guests_would_not_stand_still(
    prove: Callable[[str], tuple[kvm.KvmProof, Bench]],
    monkeypatch: pytest.MonkeyPatch,
    takes: bool,
    loaded: list[str],
) -> None:
    modules: list[str] = []
    monkeypatch.setattr(kvm, "virtual_lab", lambda: True)
    monkeypatch.setattr(kvm, "lab_takes_guests", lambda: takes)
    monkeypatch.setattr(kvm, "has_flag", lambda flag: flag == "svm")
    monkeypatch.setattr(Bench, "load_module", lambda _, name: modules.append(name))
    proof, bench = prove(kvm.LAST_MESSAGE)
    assert proof.works is takes
    assert modules == loaded
    assert bool(bench.argv) is takes
    assert takes or "one thread" in proof.why
