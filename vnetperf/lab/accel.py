"""Hardware acceleration, used only where it was proved to work.

A device file `/dev/kvm` can be there, can even be opened, and the guest then hangs or dies. So
the lab's own kernel is booted once with acceleration, within a time limit, until its first
program has said a word. What came of it is remembered until the machine boots again, or QEMU or
the kernel is another one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.lab import boot
from vnetperf.lab.kernel import Kernel
from vnetperf.lab.layout import Machine
from vnetperf.lab.place import make_lab_dir, run_dir
from vnetperf.lab.programs import dotted, leashed, qemu_version
from vnetperf.model.errors import HostError

DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: With working acceleration the word comes within two seconds.
LIMIT_S = 20.0
WORD = "acceleration-works"
_LAST_WORDS = f'-- -c "echo {WORD}; while :; do /bin/sleep 9; done"'


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of the attempt.

    Attributes:
        works: Whether the guest came as far as its first program.
        why: What happened, for people.
    """

    works: bool
    why: str


def chosen(
    machine: Machine, asked: str, qemu: str, kernel: Kernel, tell: Callable[[str], None]
) -> Machine:
    """The machine with the accelerator that was asked for, or the best proved one.

    Args:
        machine: The machine.
        asked: "auto", "kvm" or "tcg".
        qemu: Path of QEMU.
        kernel: What is booted as the proof.
        tell: Told what is being done.

    Returns:
        The machine.

    Raises:
        HostError: "kvm" was asked for and does not work.
    """
    if asked == "tcg":
        return machine
    proof = remembered(qemu, kernel) or prove(qemu, kernel, tell)
    if proof.works:
        return dataclasses.replace(machine, accelerator="kvm")
    if asked == "kvm":
        raise HostError(
            f"hardware acceleration does not work: {proof.why}",
            where=str(DEVICE),
            cure="use --accel auto, or see `vnetperf lab doctor`",
        )
    return machine


def remembered(qemu: str, kernel: Kernel) -> Proof | None:
    """What came of an attempt since this machine booted; None when there was none."""
    try:
        content = json.loads(_file(qemu, kernel).read_text())
        return Proof(bool(content["works"]), str(content["why"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def prove(qemu: str, kernel: Kernel, tell: Callable[[str], None]) -> Proof:
    """Try it, and remember what came of it.

    Args:
        qemu: Path of QEMU.
        kernel: What is booted.
        tell: Told what is being done.

    Returns:
        What came of it.
    """
    if not DEVICE.exists():
        return Proof(False, "there is no such device")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Proof(False, "you may not use it: join group kvm, or be root")
    tell(f"trying hardware acceleration, {LIMIT_S:g} s at most (once per boot)")
    with run_dir() as directory:
        proof = _try(qemu, kernel, directory)
    with contextlib.suppress(OSError):
        path = _file(qemu, kernel)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(dataclasses.asdict(proof)))
        part.rename(path)
    tell("it works" if proof.works else f"it does not work ({proof.why}): emulating instead")
    return proof


def _try(qemu: str, kernel: Kernel, directory: Path) -> Proof:
    initramfs = boot.initramfs(kernel, directory)
    console, said = directory / "proof.console", directory / "proof.log"
    argv = [
        qemu,
        "-machine",
        "q35,kernel-irqchip=split",
        "-accel",
        "kvm",
        "-cpu",
        "max",
        "-m",
        "512M",
    ]
    argv += ["-smp", "2", "-nodefaults", "-display", "none", "-no-reboot"]
    argv += ["-chardev", f"file,id=c,path={str(console).replace(',', ',,')}"]
    argv += ["-serial", "chardev:c", "-kernel", str(kernel.image), "-initrd", str(initramfs)]
    argv += ["-append", f"console=ttyS0 quiet panic=-1 rdinit=/bin/sh {_LAST_WORDS}"]
    with said.open("wb") as log:
        process = subprocess.Popen(
            leashed(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        for _ in range(int(LIMIT_S * 10)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
                return Proof(False, _ending(process.returncode, said))
            if console.exists() and WORD in console.read_text(errors="replace"):
                return Proof(True, "a kernel booted with it")
        return Proof(False, f"a kernel booted with it said nothing within {LIMIT_S:g} s")
    finally:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)  # it may be stuck in the very device


def _ending(code: int, said: Path) -> str:
    lines = said.read_text(errors="replace").strip().splitlines()
    ending = f"signal {-code}" if code < 0 else f"status {code}"
    return f"QEMU ended with {ending}" + (f": {lines[-1]}" if lines else "")


def _file(qemu: str, kernel: Kernel) -> Path:
    boot_id = BOOT_ID.read_text().strip()
    parts = (boot_id, dotted(qemu_version(qemu)), kernel.release, str(os.geteuid()))
    key = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
    return make_lab_dir() / f"proof-{key}.json"
