"""Hardware acceleration, used only where a kernel was seen to boot with it.

`/dev/kvm` can exist and can be opened, and the guest then hangs or dies. So a kernel is booted
once, within a time limit; the outcome is kept until the machine reboots, or QEMU or the kernel
changes. Not so where QEMU ended by itself, which is soon seen again: memory may have been short,
or another hypervisor have had the processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from vnetperf.host.facts.system import has_flag
from vnetperf.host.linux import (
    boot_id,
    parse_json,
    read_file,
)
from vnetperf.host.machine import Machine
from vnetperf.host.paths import cache_directory, make_cache
from vnetperf.host.programs import kvm_facts
from vnetperf.host.wait import lab_takes_guests, patient, virtual_lab, wait_at_most
from vnetperf.model.errors import HostError
from vnetperf.virt.tools import leashed

log = logging.getLogger(__name__)

DEVICE = Path("/dev/kvm")
#: What the CPU calls its virtualisation -> KVM's module for it.
KVM_MODULES = {"svm": "kvm_amd", "vmx": "kvm_intel"}
FOLDER = "vm"
#: With working acceleration a kernel comes to its end without a root within two
#: seconds; in the lab, where this limit is 120 s, it takes 15 to 40 s.
LIMIT_S = 24.0
#: The last message of a kernel without a root file system.
LAST_MESSAGE = "Unable to mount root fs"


@dataclass(frozen=True, slots=True)
class KvmProof:
    """The outcome of the attempt.

    Attributes:
        passing: The next attempt may have another: QEMU ended by itself.
    """

    works: bool
    why: str
    passing: bool = False


def guest_kvm_proof(machine: Machine, qemu: str, kernel: Path | None) -> KvmProof:
    """Whether guests of a run can use acceleration; in the lab KVM's module is loaded for it."""
    if virtual_lab() is True:
        if not lab_takes_guests():
            return KvmProof(False, "one thread emulates all processors of this lab")
        with contextlib.suppress(HostError):
            for flag, module in KVM_MODULES.items():
                if has_flag(flag):
                    machine.load_module(module)
    return kvm_proof(qemu, kernel)


def kvm_proof(qemu: str, kernel: Path | None) -> KvmProof:
    """Whether acceleration works; what an attempt took long to find is kept until a reboot."""
    usable = kvm_facts(dev=DEVICE.parent)["usable"]
    if usable.startswith("no: "):
        return KvmProof(False, usable.removeprefix("no: "))
    if kernel is None:
        return KvmProof(False, "there is no kernel to prove it with")
    file = _proof_file(qemu, kernel)
    with contextlib.suppress(OSError, ValueError, TypeError):
        return KvmProof(**parse_json(read_file(file)))
    log.info("booting %s with KVM, to see whether it works", kernel)
    proof = boot_with_kvm(qemu, kernel)
    log.info("KVM %s: %s", "works" if proof.works else "does not work", proof.why)
    if proof.passing:
        return proof
    with contextlib.suppress(OSError, HostError):
        make_cache(FOLDER, "what guests need")
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as part:
            part.write(json.dumps(asdict(proof)))
        Path(part.name).rename(file)
    return proof


def _proof_file(qemu: str, kernel: Path) -> Path:
    stamps = [f"{path}:{Path(path).stat().st_mtime_ns}" for path in (qemu, kernel)]
    key = hashlib.sha256(" ".join([boot_id(), str(os.geteuid()), *stamps]).encode()).hexdigest()
    return cache_directory() / FOLDER / f"kvm-{key[:16]}.json"


def boot_with_kvm(qemu: str, kernel: Path) -> KvmProof:
    """Boot a kernel with KVM, and return how far it came."""
    with tempfile.TemporaryDirectory(prefix="vnetperf-kvm-") as directory:
        console, output = Path(directory, "console"), Path(directory, "output")
        console.touch()
        argv = [qemu, "-machine", "q35,kernel-irqchip=split", "-accel", "kvm", "-cpu", "host"]
        argv += ["-m", "256M", "-nodefaults", "-display", "none", "-no-reboot"]
        argv += ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"]
        argv += ["-serial", f"file:{console}", "-kernel", str(kernel)]
        argv += ["-append", "console=ttyS0 panic=-1"]
        with leashed(argv, output, end_s=5) as process:  # it may be stuck in the very device
            description = "a kernel to boot with KVM"
            proof = wait_at_most(lambda: _outcome(process, console, output), LIMIT_S, description)
        symptom = "did not come to its end" if console.read_bytes() else "printed nothing"
        late = f"a kernel booted with it {symptom} within {patient(LIMIT_S):g} s"
        return proof or KvmProof(False, late)


def _outcome(process: subprocess.Popen[bytes], console: Path, output: Path) -> KvmProof | None:
    """The outcome; None while the kernel boots."""
    status = process.poll()  # before its console is read for the last time
    if LAST_MESSAGE in read_file(console):
        return KvmProof(True, "a kernel booted with it")
    if status is None:
        return None
    ending = f"signal {-status}" if status < 0 else f"status {status}"
    last = read_file(output).strip().splitlines()[-1:]
    return KvmProof(False, ": ".join([f"QEMU ended with {ending}", *last]), passing=True)
