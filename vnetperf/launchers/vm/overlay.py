"""An empty qcow2 image over another one: what a guest writes goes there, the other stays as it is.

https://www.qemu.org/docs/master/interop/qcow2.html
"""

from __future__ import annotations

import struct
from pathlib import Path

from vnetperf.model.errors import HostError

MAGIC = b"QFI\xfb"
CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
#: Guest octets that one entry of the first table stands for.
REACH = CLUSTER * (CLUSTER // 8)
HEADER = ">4sIQIIQIIQQIIQ"
#: Header extension that names the format of the other image.
BACKING_FORMAT = 0xE2792ACA


def disk_size(image: Path, disk_format: str) -> int:
    """Size of the disk that an image holds.

    Args:
        image: The image.
        disk_format: "raw" or "qcow2".

    Returns:
        Octets.

    Raises:
        HostError: It cannot be read, or is no qcow2 image.
    """
    try:
        if disk_format == "raw":
            return image.stat().st_size
        with image.open("rb") as file:
            header = file.read(struct.calcsize(HEADER))
    except OSError as error:
        raise HostError(f"cannot be read: {error.strerror}", where=str(image)) from error
    if header[:4] != MAGIC or len(header) < struct.calcsize(HEADER):
        raise HostError(
            "is no qcow2 image", where=str(image), cure="a raw disk image is called NAME.img"
        )
    return int(struct.unpack(HEADER, header)[5])


def make_overlay(overlay: Path, base: Path, base_format: str) -> None:
    """Write an overlay that holds nothing yet.

    Args:
        overlay: Where.
        base: The image beneath, which is never written to.
        base_format: "raw" or "qcow2".

    Raises:
        HostError: The image beneath cannot be read.
    """
    size, name = disk_size(base, base_format), str(base).encode()
    entries = -(-size // REACH)
    clusters = -(-entries * 8 // CLUSTER)  # of the first table, which is the last thing in it
    said = base_format.encode()
    extension = struct.pack(">II", BACKING_FORMAT, len(said)) + said.ljust(-(-len(said) // 8) * 8)
    start = struct.calcsize(HEADER)
    version, tables, blocks = 2, CLUSTER, 1
    backing_at = start + len(extension) + 8
    header = struct.pack(
        HEADER,
        *(MAGIC, version, backing_at, len(name), CLUSTER_BITS, size, 0),
        *(entries, 3 * CLUSTER, tables, blocks, 0, 0),
    )
    counts = b"".join(struct.pack(">H", 1) for _ in range(3 + clusters))
    overlay.write_bytes(
        (header + extension + bytes(8) + name).ljust(CLUSTER, b"\0")
        + struct.pack(">Q", 2 * CLUSTER).ljust(CLUSTER, b"\0")
        + counts.ljust(CLUSTER, b"\0")
        + bytes(clusters * CLUSTER)
    )
