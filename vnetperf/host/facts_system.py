"""Facts about kernel, distribution, firmware and virtualisation."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from vnetperf.host import bootline
from vnetperf.host.fact import attempt, file_text, is_unknown, unknown
from vnetperf.host.facts_cpu import is_virtual

#: On the kernel's command line in the virtual lab.
LAB_MARK = "vnetperf.lab=1"
#: On the command line of a lab whose own guests get their timers' interrupts.
LAB_GUESTS_MARK = "vnetperf.lab.guests=1"

# What firmware calls itself, in the order in which systemd-detect-virt looks too.
_DMI_HYPERVISORS = (
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek GmbH", "virtualbox"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
    ("Google Compute Engine", "google"),
    ("Firecracker", "firecracker"),
    ("BHYVE", "bhyve"),
)


def kernel_facts(*, sys: Path, proc: Path) -> dict[str, Any]:
    """Release, command line, mitigations, clock."""
    clock = sys / "devices/system/clocksource/clocksource0"
    return {
        "release": file_text(proc / "sys/kernel/osrelease"),
        "version": file_text(proc / "sys/kernel/version"),
        "compiler": _compiler(file_text(proc / "version")),
        "cmdline": file_text(proc / "cmdline"),
        "boot_options": bootline.options(file_text(proc / "cmdline")),
        "vulnerabilities": attempt(lambda: _vulnerabilities(sys)),
        "clocksource": file_text(clock / "current_clocksource"),
        "clocksources": file_text(clock / "available_clocksource"),
        "preempt": attempt(lambda: _preempt(sys, proc)),
        "transparent_hugepages": file_text(sys / "kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": file_text(proc / "sys/kernel/numa_balancing"),
        "iommu_groups": attempt(lambda: len(list((sys / "kernel/iommu_groups").glob("*")))),
    }


def distribution_facts(*, etc: Path) -> dict[str, Any]:
    """Name and version of the distribution, from os-release."""
    return release_of(file_text(etc / "os-release"))


def release_of(text: str) -> dict[str, Any]:
    """Name and version of a distribution.

    Args:
        text: Content of os-release, or why it is unknown.

    Returns:
        "name", "id" and "version".
    """
    if is_unknown(text):
        return {"name": text, "id": text, "version": text}
    entries = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    missing = unknown("os-release does not say")
    return {
        name: entries.get(key, missing).strip('"') or missing
        for name, key in (("name", "PRETTY_NAME"), ("id", "ID"), ("version", "VERSION_ID"))
    }


def firmware_facts(*, sys: Path) -> dict[str, Any]:
    """Board and BIOS, from DMI."""
    dmi = sys / "class/dmi/id"
    names = {
        "system_vendor": "sys_vendor",
        "product": "product_name",
        "serial": "product_serial",
        "board_vendor": "board_vendor",
        "board": "board_name",
        "board_version": "board_version",
        "bios_vendor": "bios_vendor",
        "bios_version": "bios_version",
        "bios_release": "bios_release",
        "bios_date": "bios_date",
    }
    there = dmi.is_dir()
    why = unknown("the firmware gives no DMI tables")
    facts = {name: file_text(dmi / file) if there else why for name, file in names.items()}
    changed = unknown("no file tells the settings of the firmware: put changed ones into the notes")
    return facts | {"bios_changes": changed}


def virtual_lab(*, proc: Path = Path("/proc")) -> bool | str:
    """Whether this is a guest of `vnetperf lab`, whose speeds mean nothing."""
    cmdline = file_text(proc / "cmdline")
    return cmdline if is_unknown(cmdline) else LAB_MARK in cmdline.split()


def lab_takes_guests(*, proc: Path = Path("/proc")) -> bool:
    """Whether a guest of `vnetperf lab` can have guests of its own."""
    return LAB_GUESTS_MARK in file_text(proc / "cmdline").split()


def virtualisation(*, sys: Path, proc: Path) -> str:
    """``none``, or what runs this machine, as far as CPU and firmware tell."""
    container = _container(proc)
    if container:
        return container
    dmi = sys / "class/dmi/id"
    names = " ".join(
        file_text(dmi / name)
        for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
        if (dmi / name).exists()
    )
    for mark, hypervisor in _DMI_HYPERVISORS:
        if mark in names:
            return hypervisor
    if (sys / "hypervisor/type").exists():
        return file_text(sys / "hypervisor/type")
    if is_virtual(proc=proc):
        return "a hypervisor that does not say its name"
    return "none"


def _container(proc: Path) -> str:
    """Name of the container engine when process 1 says that it runs in one."""
    try:
        environment = (proc / "1/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    for entry in environment:
        if entry.startswith(b"container="):
            return f"container {entry.partition(b'=')[2].decode(errors='replace')}"
    return ""


def _vulnerabilities(sys: Path) -> Any:
    directory = sys / "devices/system/cpu/vulnerabilities"
    found = {path.name: file_text(path) for path in sorted(directory.glob("*"))}
    return found or unknown(f"{directory} is empty")


def _compiler(version: str) -> str:
    """What built the kernel; who did, and on which machine, is nobody's business."""
    if is_unknown(version):
        return version
    found = re.search(r"\(((?:[\w-]*gcc|clang)[^(),]*(?:\([^()]*\))?[^(),]*)", version)
    return found[1].strip() if found else unknown("/proc/version does not say")


def _preempt(sys: Path, proc: Path) -> str:
    text = file_text(sys / "kernel/debug/sched/preempt")
    if not is_unknown(text):
        return text
    version = file_text(proc / "sys/kernel/version")
    words = [word for word in version.split() if word.startswith("PREEMPT")]
    return words[0] if words else "PREEMPT_NONE or PREEMPT_VOLUNTARY"


def hostname() -> str:
    """Name of this machine."""
    return os.uname().nodename


def uptime(*, proc: Path) -> float | str:
    """Seconds since the machine was started."""
    text = file_text(proc / "uptime")
    return text if is_unknown(text) else round(float(text.split()[0]), 1)
