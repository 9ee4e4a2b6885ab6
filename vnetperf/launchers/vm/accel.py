"""Hardware acceleration of guests, used only where a kernel was seen to boot with it.

`/dev/kvm` can be there, can be opened, and the guest then hangs or dies. So the kernel that guests
boot is booted once with it, within a time limit, as far as it comes without a file system. What
came of it is remembered until the machine boots again, or QEMU or the kernel is another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from vnetperf.host.facts_cpu import has_flag
from vnetperf.host.facts_system import lab_takes_guests, virtual_lab
from vnetperf.host.identity import boot_id
from vnetperf.host.machine import Machine
from vnetperf.host.paths import cache_directory, make_cache
from vnetperf.host.patience import patient
from vnetperf.model.errors import HostError

DEVICE = Path("/dev/kvm")
#: What the CPU calls its virtualisation -> KVM's module for it.
MODULES = {"svm": "kvm_amd", "vmx": "kvm_intel"}
FOLDER = "vm"
#: With working acceleration a kernel comes to its end without a root within two seconds.
LIMIT_S = 10.0
#: In the lab it takes 15 to 40 s.
LIMIT_IN_THE_LAB_S = 120.0
#: What a kernel without a root file system says last.
WORD = "Unable to mount root fs"


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of the attempt.

    Attributes:
        works: Whether a kernel booted.
        why: What happened, for people.
    """

    works: bool
    why: str


def proof(machine: Machine, qemu: str, kernel: Path | None) -> Proof:
    """Whether acceleration works; tried once per boot of the machine.

    Args:
        machine: The machine.
        qemu: Path of QEMU.
        kernel: The kernel to boot; None when guests boot from a disk of their own.

    Returns:
        What came of it.
    """
    if virtual_lab() is True:
        if not lab_takes_guests():
            return Proof(False, "one thread emulates all processors of this lab")
        _load(machine)
    if not DEVICE.exists():
        return Proof(False, f"there is no {DEVICE}")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Proof(False, f"{DEVICE} may not be used")
    if kernel is None:
        return Proof(False, "there is no kernel to prove it with")
    file = _file(qemu, kernel)
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Proof(**json.loads(file.read_text()))
    found = _try(machine, qemu, kernel)
    with contextlib.suppress(OSError, HostError):
        make_cache(FOLDER, "what guests need")
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as part:
            part.write(json.dumps(asdict(found)))
        Path(part.name).rename(file)
    return found


def _load(machine: Machine) -> None:
    """Load KVM's module, which the lab starts without; real machines have it or have not."""
    with contextlib.suppress(HostError):
        for flag, module in MODULES.items():
            if has_flag(flag):
                machine.load_module(module)


def _try(machine: Machine, qemu: str, kernel: Path) -> Proof:
    limit_s = LIMIT_IN_THE_LAB_S if virtual_lab() is True else LIMIT_S
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
        return WORD in seen

    try:
        process.wait_for(said, limit_s / patient(1.0), "a kernel's last word", poll_s=0.05)
        return Proof(True, "a kernel booted with it")
    except HostError:
        if said():
            return Proof(True, "a kernel booted with it")
        how = "said nothing" if not seen else "did not come to its end"
        if not process.alive():
            last = process.log_tail(1)
            return Proof(False, f"QEMU ended with status {process.returncode}: {last}")
        return Proof(False, f"a kernel booted with it {how} within {limit_s:g} s")
    finally:
        process.signal(9)
        with contextlib.suppress(HostError):
            process.stop(1.0)


def _file(qemu: str, kernel: Path) -> Path:
    stamps = [f"{path}:{Path(path).stat().st_mtime_ns}" for path in (qemu, kernel)]
    key = hashlib.sha256(" ".join([boot_id(), *stamps]).encode()).hexdigest()[:16]
    return cache_directory() / FOLDER / f"kvm-{key}.json"
