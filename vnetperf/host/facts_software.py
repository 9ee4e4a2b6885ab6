"""Versions of the software under and around a test, without starting any of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from vnetperf.host.fact import unknown

DPKG_STATUS = Path("/var/lib/dpkg/status")
# Name in the result -> packages that carry it, the first installed one counts.
PACKAGES = {
    "dpdk": ("dpdk", "libdpdk-dev"),
    "ovs": ("openvswitch-switch", "openvswitch-common"),
    "ovs-dpdk": ("openvswitch-switch-dpdk",),
    "qemu": ("qemu-system-x86", "qemu-system-arm"),
    "libvirt": ("libvirt-daemon", "libvirt0"),
    "vpp": ("vpp",),
    "iproute2": ("iproute2",),
    "gcc": ("gcc",),
}
PROGRAMS = {
    "dpdk": "dpdk-testpmd",
    "ovs": "ovs-vswitchd",
    "ovs-dpdk": "ovs-vswitchd-dpdk",
    "qemu": "qemu-system-x86_64",
    "libvirt": "libvirtd",
    "vpp": "vpp",
    "iproute2": "ip",
    "gcc": "gcc",
}
NOT_INSTALLED = "not installed"


def software_facts(*, dpkg_status: Path = DPKG_STATUS) -> dict[str, Any]:
    """Version of each program that matters, or ``not installed``."""
    packages = _debian_packages(dpkg_status)
    facts: dict[str, Any] = {"python": platform.python_version()}
    for name, candidates in PACKAGES.items():
        versions = [packages[package] for package in candidates if package in packages]
        if versions:
            facts[name] = versions[0]
        elif _in_path(PROGRAMS[name]):
            facts[name] = unknown("installed, but not by a Debian package")
        else:
            facts[name] = NOT_INSTALLED
    return facts


def kvm_facts(*, dev: Path = Path("/dev")) -> dict[str, str]:
    """Whether KVM is there, and whether it is known to work.

    The device can be there and not work, so only booting something proves it. That takes
    seconds: who has done it puts the outcome in place of ``usable``.
    """
    device = dev / "kvm"
    if not device.exists():
        return {"present": "no", "usable": "no: there is no /dev/kvm"}
    if not os.access(device, os.R_OK | os.W_OK):
        return {"present": "yes", "usable": "no: this user may not open /dev/kvm"}
    return {"present": "yes", "usable": "not proved: nothing was booted with it"}


def _debian_packages(status: Path) -> dict[str, str]:
    """Installed packages of interest with version, read from dpkg's own list (it is fast)."""
    wanted = {package for candidates in PACKAGES.values() for package in candidates}
    found: dict[str, str] = {}
    try:
        text = status.read_text(errors="replace")
    except OSError:
        return found
    for package in wanted:
        start = (
            0 if text.startswith(f"Package: {package}\n") else text.find(f"\nPackage: {package}\n")
        )
        if start < 0:
            continue
        entry = text[start : text.find("\n\n", start + 1)]
        fields = dict(line.partition(": ")[::2] for line in entry.splitlines() if ": " in line)
        if fields.get("Status") == "install ok installed" and "Version" in fields:
            found[package] = fields["Version"]
    return found


def _in_path(program: str) -> bool:
    directories = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/usr/local/sbin"]
    return any(directory and (Path(directory) / program).exists() for directory in directories)
