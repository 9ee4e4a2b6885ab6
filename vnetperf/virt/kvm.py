"""Hardware acceleration, used only where a kernel was seen to boot with it.

`/dev/kvm` can exist and can be opened, and the guest then hangs or dies. So a kernel is booted
once, within a time limit; the outcome is kept until the machine reboots, or QEMU or the kernel
changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from vnetperf.host.facts.system import has_flag
from vnetperf.host.linux import boot_id
from vnetperf.host.machine import Machine
from vnetperf.host.paths import cache_directory, make_cache
from vnetperf.host.wait import lab_takes_guests, patient, virtual_lab
from vnetperf.model.errors import HostError
from vnetperf.virt import lab_boot
from vnetperf.virt.kernel import Kernel, make_lab_dir, run_dir
from vnetperf.virt.lab_boot import LabMachine
from vnetperf.virt.tools import format_version, qemu_version, with_pdeathsig

DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: With working acceleration the word comes within two seconds.
LAB_KERNEL_LIMIT_S = 20.0
LAB_WORD = "acceleration-works"
_LAB_SHELL_ARGS = f'-- -c "echo {LAB_WORD}; while :; do /bin/sleep 9; done"'


@dataclass(frozen=True, slots=True)
class LabProof:
    """What came of the attempt.

    Attributes:
        works: Whether the guest came as far as its first program.
        why: What happened, for people.
    """

    works: bool
    why: str


def choose_accelerator(
    machine: LabMachine, asked: str, qemu: str, kernel: Kernel, tell: Callable[[str], None]
) -> LabMachine:
    """The machine with the accelerator that was asked for, or the best proved one."""
    if asked == "tcg":
        return machine
    proof = remembered_proof(qemu, kernel) or prove_kvm(qemu, kernel, tell)
    if proof.works:
        return dataclasses.replace(machine, accelerator="kvm")
    if asked == "kvm":
        raise HostError(
            f"hardware acceleration does not work: {proof.why}",
            where=str(DEVICE),
            cure="use --accel auto, or see `vnetperf lab doctor`",
        )
    return machine


def remembered_proof(qemu: str, kernel: Kernel) -> LabProof | None:
    """What came of an attempt since this machine booted; None when there was none."""
    try:
        content = json.loads(_lab_proof_file(qemu, kernel).read_text())
        return LabProof(bool(content["works"]), str(content["why"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def prove_kvm(qemu: str, kernel: Kernel, tell: Callable[[str], None]) -> LabProof:
    """Try it, and remember what came of it."""
    if not DEVICE.exists():
        return LabProof(False, "there is no such device")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return LabProof(False, "you may not use it: join group kvm, or be root")
    tell(f"trying hardware acceleration, {LAB_KERNEL_LIMIT_S:g} s at most (once per boot)")
    with run_dir() as directory:
        proof = _boot_lab_kernel(qemu, kernel, directory)
    with contextlib.suppress(OSError):
        path = _lab_proof_file(qemu, kernel)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(dataclasses.asdict(proof)))
        part.rename(path)
    tell("it works" if proof.works else f"it does not work ({proof.why}): emulating instead")
    return proof


def _boot_lab_kernel(qemu: str, kernel: Kernel, directory: Path) -> LabProof:
    initramfs = lab_boot.lab_initramfs(kernel, directory)
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
    argv += ["-append", f"console=ttyS0 quiet panic=-1 rdinit=/bin/sh {_LAB_SHELL_ARGS}"]
    with said.open("wb") as log:
        process = subprocess.Popen(
            with_pdeathsig(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        for _ in range(int(LAB_KERNEL_LIMIT_S * 10)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
                return LabProof(False, _ending(process.returncode, said))
            if console.exists() and LAB_WORD in console.read_text(errors="replace"):
                return LabProof(True, "a kernel booted with it")
        return LabProof(
            False, f"a kernel booted with it said nothing within {LAB_KERNEL_LIMIT_S:g} s"
        )
    finally:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)  # it may be stuck in the very device


def _ending(code: int, said: Path) -> str:
    lines = said.read_text(errors="replace").strip().splitlines()
    ending = f"signal {-code}" if code < 0 else f"status {code}"
    return f"QEMU ended with {ending}" + (f": {lines[-1]}" if lines else "")


def _lab_proof_file(qemu: str, kernel: Kernel) -> Path:
    boot_id = BOOT_ID.read_text().strip()
    parts = (boot_id, format_version(qemu_version(qemu)), kernel.release, str(os.geteuid()))
    key = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
    return make_lab_dir() / f"proof-{key}.json"


#: What the CPU calls its virtualisation -> KVM's module for it.
KVM_MODULES = {"svm": "kvm_amd", "vmx": "kvm_intel"}
PROOF_FOLDER = "vm"
#: With working acceleration a kernel comes to its end without a root within two seconds.
LIMIT_S = 10.0
#: In the lab it takes 15 to 40 s.
LAB_LIMIT_S = 120.0
#: What a kernel without a root file system says last.
LAST_MESSAGE = "Unable to mount root fs"


@dataclass(frozen=True, slots=True)
class KvmProof:
    """What came of the attempt.

    Attributes:
        works: Whether a kernel booted.
        why: What happened, for people.
    """

    works: bool
    why: str


def kvm_proof(machine: Machine, qemu: str, kernel: Path | None) -> KvmProof:
    """Whether acceleration works; tried once per boot of the machine."""
    if virtual_lab() is True:
        if not lab_takes_guests():
            return KvmProof(False, "one thread emulates all processors of this lab")
        _load_kvm(machine)
    if not DEVICE.exists():
        return KvmProof(False, f"there is no {DEVICE}")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return KvmProof(False, f"{DEVICE} may not be used")
    if kernel is None:
        return KvmProof(False, "there is no kernel to prove it with")
    file = _proof_file(qemu, kernel)
    with contextlib.suppress(OSError, ValueError, TypeError):
        return KvmProof(**json.loads(file.read_text()))
    found = _boot_with_kvm(machine, qemu, kernel)
    with contextlib.suppress(OSError, HostError):
        make_cache(PROOF_FOLDER, "what guests need")
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as part:
            part.write(json.dumps(asdict(found)))
        Path(part.name).rename(file)
    return found


def _load_kvm(machine: Machine) -> None:
    """Load KVM's module, which the lab starts without; real machines have it or have not."""
    with contextlib.suppress(HostError):
        for flag, module in KVM_MODULES.items():
            if has_flag(flag):
                machine.load_module(module)


def _boot_with_kvm(machine: Machine, qemu: str, kernel: Path) -> KvmProof:
    limit_s = LAB_LIMIT_S if virtual_lab() is True else LIMIT_S
    directory = machine.subdir("kvm-proof")
    console = directory / "console"
    argv = [qemu, "-machine", "q35,kernel-irqchip=split", "-accel", "kvm", "-cpu", "host"]
    argv += ["-m", "256M", "-nodefaults", "-display", "none", "-no-reboot"]
    argv += ["-serial", f"file:{console}", "-kernel", str(kernel)]
    argv += ["-append", "console=ttyS0 panic=-1"]
    process = machine.spawn("kvm-proof", argv)
    seen = ""

    def said() -> bool:
        nonlocal seen
        with contextlib.suppress(OSError):
            seen = console.read_text(errors="replace")
        return LAST_MESSAGE in seen

    try:
        process.wait_for(said, limit_s / patient(1.0), "a kernel's last word", poll_s=0.05)
        return KvmProof(True, "a kernel booted with it")
    except HostError:
        if said():
            return KvmProof(True, "a kernel booted with it")
        how = "said nothing" if not seen else "did not come to its end"
        if not process.alive():
            last = process.log_tail(1)
            return KvmProof(False, f"QEMU ended with status {process.returncode}: {last}")
        return KvmProof(False, f"a kernel booted with it {how} within {limit_s:g} s")
    finally:
        process.signal(9)
        with contextlib.suppress(HostError):
            process.stop(1.0)


def _proof_file(qemu: str, kernel: Path) -> Path:
    stamps = [f"{path}:{Path(path).stat().st_mtime_ns}" for path in (qemu, kernel)]
    key = hashlib.sha256(" ".join([boot_id(), *stamps]).encode()).hexdigest()[:16]
    return cache_directory() / PROOF_FOLDER / f"kvm-{key}.json"
