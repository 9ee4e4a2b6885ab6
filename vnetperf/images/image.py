"""A guest image, as those that start guests see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.model.errors import HostError

DEFAULT = "vloop"


@dataclass(frozen=True)
class Image:
    """What a guest boots. No file of it is ever written to: a guest's changes are in its memory.

    Attributes:
        name: What it was built for, e.g. "vloop".
        key: Hash over everything that it was made of: recipe and exact package versions.
        kernel: Bootable kernel, for QEMU's ``-kernel`` (libvirt's ``<kernel>``).
        initrd: First file system, for ``-initrd``; None when it needs none.
        disk: Root file system, to be attached read-only as a virtio disk with the serial number
            "vnetperf-root"; None when all is in `initrd`.
        disk_format: "raw" or "qcow2"; "" without a disk.
        cmdline: Kernel command line; more may be appended, after a space.
        facts: For results and people: packages with their versions, kernel release, size in bytes.
    """

    name: str
    key: str
    kernel: Path
    initrd: Path | None
    disk: Path | None
    disk_format: str
    cmdline: str
    facts: dict[str, Any]


def find(name: str = DEFAULT) -> Image | None:
    """The newest image of a name, if it is what was built.

    Args:
        name: Name of the image.

    Returns:
        The image; None when none of that name has been built.

    Raises:
        HostError: It is damaged, or was built for another processor.
    """
    del name
    return None


def build(name: str, tell: Callable[[str], None]) -> Image:
    """Build an image, unless the very same is there.

    Args:
        name: Name of the image.
        tell: Told what is being done.

    Returns:
        The image.

    Raises:
        HostError: It could not be built.
    """
    del tell
    raise HostError("images are not built yet", where=f"vnetperf image build {name}")
