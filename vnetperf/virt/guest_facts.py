"""A guest as seen from inside: its system, image, NIC offloads and virtio features."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from vnetperf.host import kernel
from vnetperf.host.facts import attempt, is_unknown, unknown
from vnetperf.host.facts.system import parse_release
from vnetperf.model.options import GuestOptions
from vnetperf.virt.domain import Domain, on_off
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest_agent import GuestAgent
from vnetperf.virt.images import Image
from vnetperf.virt.tools import hash_file

#: Names of ethtool's features in results, in their order there.
ETHTOOL_FEATURES = {
    "rx-checksumming": "rx checksum",
    "tx-checksumming": "tx checksum",
    "tcp-segmentation-offload": "TSO",
    "generic-segmentation-offload": "GSO",
    "generic-receive-offload": "GRO",
    "large-receive-offload": "LRO",
}
#: Bits of virtio's features, https://docs.oasis-open.org/virtio/virtio/v1.2/virtio-v1.2.html
VIRTIO_BITS = {
    "checksum": 0,
    "checksum in": 1,
    "TSO": 11,
    "TSO in": 7,
    "mergeable buffers": 15,
    "several queues": 22,
    "packed rings": 34,
}
ETHTOOL_LINE = re.compile(r"^(\S+): (on|off)( \[fixed\])?", re.MULTILINE)


def configure_nics(guest: Guest, options: GuestOptions) -> None:
    """Turn what the guest's own kernel does on or off, and let it take every frame.

    A vSwitch that forwards by port sends frames for others, which a NIC keeps from its kernel.
    """
    for nic in guest.domain.nics:
        name = guest.interface(nic.mac)
        guest.agent.run(["ip", "link", "set", "dev", name, "promisc", "on"])
        if options.gro is not None:
            guest.agent.run(["ethtool", "-K", name, "gro", on_off(options.gro)])


def virtio_features(guest: Guest) -> dict[str, str]:
    """What virtio NICs and the guest's kernel have agreed on, before a program takes them."""
    features = {}
    for nic in guest.domain.nics:
        if nic.model == "virtio" and nic.backing.kind != "vf":
            name = guest.interface(nic.mac)
            bits = guest.agent.read(f"/sys/class/net/{name}/device/features").strip()
            features[name] = f"virtio: {parse_virtio_bits(bits)}"
    return features


def parse_virtio_bits(bits: str) -> str:
    """Virtio's features by their string of bits."""
    return ", ".join(
        f"{name} {on_off(bits[bit : bit + 1] == '1')}" for name, bit in VIRTIO_BITS.items()
    )


def nic_features(guest: Guest) -> dict[str, str]:
    """Driver and offloads of each NIC, as the guest's kernel has them."""
    nics, agreed = {}, virtio_features(guest)
    for nic in guest.domain.nics:
        name = guest.interface(nic.mac)
        path = guest.agent.run(["readlink", f"/sys/class/net/{name}/device/driver"])
        features = parse_ethtool(guest.agent.run(["ethtool", "-k", name]))
        text = ", ".join(f"{shown} {features[key]}" for key, shown in ETHTOOL_FEATURES.items())
        nics[name] = f"{path.strip().rpartition('/')[2]}: {text}"
        nics[name] += f"; {agreed[name]}" if name in agreed else ""
    return nics


def parse_ethtool(text: str) -> dict[str, str]:
    """Features by the output of `ethtool -k`."""
    features = {m[1]: m[2] + (" (fixed)" if m[3] else "") for m in ETHTOOL_LINE.finditer(text)}
    return dict.fromkeys(ETHTOOL_FEATURES, "unknown") | features


#: Larger disk images take too long to read for a hash.
MAX_HASHED: Final = 8 << 30
CLOCKSOURCE: Final = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#: Beginnings of the names of packages that decide the speed of a guest.
SPEED_PACKAGES: Final = ("linux-image", "dpdk", "libc6", "busybox", "iproute2")
NO_AGENT: Final = unknown("nothing in the guest answers: it is used as its disk image is")


def guest_system(agent: GuestAgent | None, image: Image | None = None) -> dict[str, Any]:
    """Distribution, kernel and its settings, from inside."""

    def text(path: str) -> Any:
        if agent is None:
            return NO_AGENT
        return attempt(lambda: agent.read(path).strip() or unknown(f"{path} is empty"))

    release = parse_release(text("/etc/os-release"))["name"]
    if is_unknown(release) and image is not None and "packages" in image.facts:
        # A built image is a few packages without the files of a whole distribution.
        libc = image.facts["packages"].get("libc6", "?")
        release = f"packages of this machine's distribution, libc6 {libc}"
    cmdline, memory = text("/proc/cmdline"), text("/proc/meminfo")
    return {
        "distribution": release,
        "kernel": text("/proc/sys/kernel/osrelease"),
        "kernel built": text("/proc/sys/kernel/version"),
        "cmdline": cmdline,
        "boot options": kernel.boot_options(cmdline),
        "processors online": text("/sys/devices/system/cpu/online"),
        "memory, kB": memory if is_unknown(memory) else attempt(lambda: int(memory.split()[1])),
        "clock source": text(CLOCKSOURCE),
    }


def image_facts(image: Image | None, disk: Path) -> dict[str, Any]:
    """Which image was booted, so that a reader can have the same."""
    if image is None:
        return {
            "name": str(disk),
            "hash": attempt(lambda: disk_hash(disk)),
            "hash over": "SHA-256 of the disk image",
        }
    return {
        "name": image.name,
        "hash": image.key,
        "hash over": "the recipe and the exact versions of its packages",
        "packages": _main_packages(image) or unknown("the image has no record"),
    }


def _main_packages(image: Image) -> dict[str, str]:
    """Versions of what decides speed; the hash is over all of them."""
    packages: dict[str, str] = image.facts.get("packages", {})
    return {name: version for name, version in packages.items() if name.startswith(SPEED_PACKAGES)}


def memory_node(domain: Domain) -> str:
    """The node of the host that a guest's memory is to be on; where it is, is read back."""
    if domain.node is None:
        return "none: the machine has one, or its processors decide"
    return str(domain.node)


def disk_hash(disk: Path, most: int = MAX_HASHED) -> str:
    """SHA-256 of a file."""
    state = disk.stat()
    if state.st_size > most:
        return unknown(f"{state.st_size} octets are too many to read; changed {state.st_mtime:.0f}")
    return hash_file(disk)
