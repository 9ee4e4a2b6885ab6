"""`vnetperf lab doctor`.

What the lab requires, line by line, with the cure of what is missing.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.facts import read_meminfo
from vnetperf.model.errors import VnetperfError
from vnetperf.virt import kernel, kvm, tools
from vnetperf.virt.kernel import lab_dir

DISK_MIB = 1024
#: Programs of the host that also work in the guest, and the package of each.
TOOLS = {
    "busybox": "busybox-static",
    "depmod": "kmod",
    "modprobe": "kmod",
    "dpkg-deb": "dpkg",
    "file": "file",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "pivot_root": "util-linux",
    "script": "bsdutils",
    "udevadm": "udev",
}
#: What several machines need on top.
SSH_TOOLS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server"}
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor; `fatal`: the lab cannot start without it."""

    name: str
    says: str
    cure: str = ""
    fatal: bool = True

    @property
    def prevents(self) -> bool:
        """Whether the lab cannot start because of it."""
        return bool(self.cure) and self.fatal


def checks(accel: str, memory_mib: int) -> Iterator[Check]:
    """Look at everything."""
    yield _machine()
    yield _tried("qemu", _qemu)
    yield _tried("virtme-ng", lambda: tools.format_version(tools.need_virtme()))
    yield _tools("tools", TOOLS)
    yield _tools("--machines", SSH_TOOLS, fatal=False)
    yield _kernel()
    yield _accelerator(accel)
    yield check_memory(memory_mib)
    yield _disk()


def _tried(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, look())
    except VnetperfError as error:
        says = f"{error.what}; accepted: {error.accepted}" if error.accepted else error.what
        return Check(name, says, error.cure or "see docs/machines.md")


def _machine() -> Check:
    architecture = platform.machine()
    if architecture != "x86_64":
        return Check(
            "machine", f"{architecture}, and the lab emulates x86_64 NICs", "use an x86_64 host"
        )
    return Check("machine", f"{architecture}, {len(os.sched_getaffinity(0))} processors")


def _qemu() -> str:
    path = tools.need_qemu()
    return f"{tools.format_version(tools.qemu_version(path))} ({path}), its igb has SR-IOV"


def _tools(name: str, packages_by_tool: dict[str, str], *, fatal: bool = True) -> Check:
    missing = [tool for tool in packages_by_tool if tools.which(tool) is None]
    if not missing:
        return Check(name, ", ".join(packages_by_tool))
    packages = ", ".join(sorted({packages_by_tool[tool] for tool in missing}))
    says = f"missing: {', '.join(missing)} (of {packages})"
    return Check(name, says, tools.INSTALL_CURE, fatal=fatal)


def _kernel() -> Check:
    cached_kernel = kernel.cached()
    if cached_kernel is not None:
        return Check("kernel", f"{cached_kernel.release}, in {lab_dir()}")
    try:
        packages = kernel.packages()
    except VnetperfError as error:
        return Check("kernel", error.what, error.cure or error.accepted)
    return Check("kernel", f"none yet: the first start fetches {' '.join(packages)}")


def _accelerator(accel: str) -> Check:
    name = "acceleration"
    if accel == "tcg":
        return Check(name, "not requested: emulated")
    cached_kernel = kernel.cached()
    qemu = tools.which(tools.QEMU)
    if cached_kernel is None or qemu is None:
        return Check(name, "will be tried at the first start")
    proof = kvm.kvm_proof(qemu, cached_kernel.image)
    if proof.works:
        return Check(name, f"proved: {proof.why}")
    cure = "enable virtualisation in the firmware, or nested virtualisation in the hypervisor"
    says = f"not proved: {kvm.DEVICE}: {proof.why}; the lab is emulated"
    return Check(name, says, cure, fatal=accel == "kvm")


def check_memory(wanted_mib: int) -> Check:
    """Check whether the machine has the memory that a lab wants, in MiB."""
    available_kb = read_meminfo(MEMINFO).get("MemAvailable")
    if available_kb is None:
        return Check("memory", "this kernel does not report what is free")
    free = available_kb // 1024
    if free < wanted_mib:
        says = f"{free} MiB free, {wanted_mib} MiB wanted"
        return Check("memory", says, "free some, or give a smaller --memory", fatal=False)
    return Check("memory", f"{free} MiB free, {wanted_mib} MiB wanted")


def _disk() -> Check:
    place = lab_dir()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free // 2**20
    writable = os.access(place, os.W_OK)
    if not writable or free < DISK_MIB:
        says = f"{free} MiB free in {place}" if writable else f"{place} cannot be written"
        return Check("disk", says, f"set XDG_CACHE_HOME to a place with {DISK_MIB} MiB")
    return Check("disk", f"{free} MiB free in {place}")
