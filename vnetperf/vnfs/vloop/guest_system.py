"""What a guest runs, told by itself: its system for the environment record."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, Protocol

from vnetperf.host import bootline
from vnetperf.host.fact import attempt, is_unknown, unknown
from vnetperf.host.facts_system import release_of
from vnetperf.images.image import Image
from vnetperf.launchers.vm.domain import Domain

#: Larger disk images take too long to read for a hash.
MOST_HASHED: Final = 8 << 30
BLOCK: Final = 1 << 20
CLOCK: Final = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#: Beginnings of the names of packages that decide the speed of a guest.
MAIN: Final = ("linux-image", "dpdk", "libc6", "busybox", "iproute2")
NO_AGENT: Final = unknown("nothing in the guest answers: it is used as its disk image is")


class Reader(Protocol):
    """Reads files of the guest."""

    def read(self, path: str) -> str:
        """The text of a file of the guest."""
        ...


def system(agent: Reader | None, image: Image | None = None) -> dict[str, Any]:
    """Distribution, kernel and what they were told, from inside.

    Args:
        agent: Reads files in the guest; None where nothing does.
        image: The built image it booted; None for a disk of the user's.

    Returns:
        JSON values; what cannot be had says why.
    """

    def text(path: str) -> Any:
        if agent is None:
            return NO_AGENT
        return attempt(lambda: agent.read(path).strip() or unknown(f"{path} is empty"))

    release = release_of(text("/etc/os-release"))["name"]
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
        "boot options": bootline.options(cmdline),
        "processors online": text("/sys/devices/system/cpu/online"),
        "memory, kB": memory if is_unknown(memory) else attempt(lambda: int(memory.split()[1])),
        "clock source": text(CLOCK),
    }


def image_facts(image: Image | None, disk: Path) -> dict[str, Any]:
    """Which image was booted, so that a reader can have the same.

    Args:
        image: A built one; None for a disk of the user's.
        disk: That disk.

    Returns:
        "name", "hash" and what it is over, and packages of a built one.
    """
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
        "packages": _main_packages(image) or unknown("the image does not say"),
    }


def _main_packages(image: Image) -> dict[str, str]:
    """Versions of what decides speed; the hash is over all of them."""
    packages: dict[str, str] = image.facts.get("packages", {})
    return {name: version for name, version in packages.items() if name.startswith(MAIN)}


def node_asked(domain: Domain) -> str:
    """The node of the host that a guest's memory is to be on; where it is, is read back.

    Args:
        domain: The guest.

    Returns:
        Its number, or that none was asked for.
    """
    nodes = [str(cell.host_node) for cell in domain.cells if cell.host_node is not None]
    return ", ".join(nodes) or "none: the machine has one, or its processors decide"


def disk_hash(disk: Path, most: int = MOST_HASHED) -> str:
    """SHA-256 of a file.

    Args:
        disk: The file.
        most: Largest size that is read, octets.

    Returns:
        Hexadecimal digits; of a larger file why it has none, with size and age in their place.
    """
    state = disk.stat()
    if state.st_size > most:
        return unknown(f"{state.st_size} octets are too many to read; changed {state.st_mtime:.0f}")
    digest = hashlib.sha256()
    with disk.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
