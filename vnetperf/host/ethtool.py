"""Offloads, queues and driver statistics of a link (ETHTOOL ioctl)."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
from collections.abc import Collection
from pathlib import Path

from vnetperf.host.linux import run_in
from vnetperf.model.errors import HostError

SIOCETHTOOL = 0x8946
# ETHTOOL_S* commands that take one value; checksums last, since others depend on them.
OFFLOAD_SETTERS = {
    "gro": 0x2C,
    "gso": 0x24,
    "tso": 0x1F,
    "scatter-gather": 0x19,
    "tx-checksum": 0x17,
    "rx-checksum": 0x15,
}
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL})


def disable_offloads(name: str, *, netns: Path | None = None) -> tuple[str, ...]:
    """Turn off all offloads that the link can do without."""
    return run_in(netns, lambda: _disable_offloads(name))


def _disable_offloads(name: str) -> tuple[str, ...]:
    return tuple(
        offload
        for offload, command in OFFLOAD_SETTERS.items()
        if _ethtool_ioctl(name, struct.pack("=II", command, 0), UNSUPPORTED) is None
    )


GET_SET_INFO, GET_STRINGS, GET_STATS = 0x37, 0x1B, 0x1D
GET_DRIVER_INFO = 0x03
GET_CHANNELS, SET_CHANNELS = 0x3C, 0x3D
STRING_SET_STATS = 1  # ETH_SS_STATS
STRING_LENGTH = 32  # ETH_GSTRING_LEN
#: ETHTOOL_G* of what SETTERS sets.
OFFLOAD_GETTERS = {
    "gro": 0x2B,
    "gso": 0x23,
    "tso": 0x1E,
    "scatter-gather": 0x18,
    "tx-checksum": 0x16,
    "rx-checksum": 0x14,
}


def statistics(name: str, *, netns: Path | None = None) -> dict[str, int]:
    """Counters that the driver of an interface keeps, by the driver's names."""
    return run_in(netns, lambda: _read_statistics(name))


def offloads(name: str, *, netns: Path | None = None) -> dict[str, int]:
    """Offloads of an interface as they are."""

    def read() -> dict[str, int]:
        found = {}
        for offload, command in OFFLOAD_GETTERS.items():
            answer = _ethtool_ioctl(name, struct.pack("=II", command, 0))
            if answer is not None:
                found[offload] = struct.unpack("=II", answer)[1]
        return found

    return run_in(netns, read)


def set_offloads(name: str, values: dict[str, int], *, netns: Path | None = None) -> None:
    """Set offloads, those that others depend on first; what the driver refuses is left."""

    def write() -> None:
        for offload in reversed(OFFLOAD_SETTERS):
            if offload in values:
                _ethtool_ioctl(name, struct.pack("=II", OFFLOAD_SETTERS[offload], values[offload]))

    run_in(netns, write)


def set_queues(name: str, count: int, *, netns: Path | None = None) -> None:
    """Set the number of queue pairs of an interface."""

    def write() -> None:
        # struct ethtool_channels: command; most rx, tx, other, combined; now, in the same order.
        answer = _ethtool_ioctl(name, struct.pack("=9I", GET_CHANNELS, *[0] * 8))
        _, rx, tx, other, both, *now = struct.unpack("=9I", answer) if answer else [0] * 9
        wanted = [0, 0, now[2], count] if both else [count, count, now[2], 0]
        if count > (both or min(rx, tx) or 1):
            raise HostError(
                f"{count} queue pairs are asked for",
                where=f"link {name}",
                accepted=f"up to {both or min(rx, tx) or 1}",
                cure="ask for fewer rx_queues",
            )
        if answer and list(now) != wanted:
            _ethtool_ioctl(name, struct.pack("=9I", SET_CHANNELS, rx, tx, other, both, *wanted))

    run_in(netns, write)


def channels(name: str, *, netns: Path | None = None) -> list[int]:
    """Queues of an interface as they are."""

    def read() -> list[int]:
        answer = _ethtool_ioctl(name, struct.pack("=9I", GET_CHANNELS, *[0] * 8))
        return list(struct.unpack("=9I", answer)[5:]) if answer else []

    return run_in(netns, read)


def set_channels(name: str, counts: list[int], *, netns: Path | None = None) -> None:
    """Bring an interface's queues to what `channels` has told."""
    run_in(
        netns,
        lambda: (
            _ethtool_ioctl(name, struct.pack("=9I", SET_CHANNELS, 0, 0, 0, 0, *counts)) and None
        ),
    )


def firmware_version(name: str) -> str:
    """Firmware of an interface in the caller's namespace; empty when the driver reports none."""
    # struct ethtool_drvinfo: command, then driver, version and fw_version of 32 bytes each.
    answer = _ethtool_ioctl(name, struct.pack("=I", GET_DRIVER_INFO) + bytes(192))
    return (answer or b"")[68:100].partition(b"\0")[0].decode(errors="replace").strip()


def _read_statistics(name: str) -> dict[str, int]:
    # struct ethtool_sset_info: command, reserved, mask of sets asked for, then their sizes.
    answer = _ethtool_ioctl(name, struct.pack("=IIQI", GET_SET_INFO, 0, 1 << STRING_SET_STATS, 0))
    if answer is None or not struct.unpack("=IIQI", answer)[2]:
        return {}
    count = struct.unpack("=IIQI", answer)[3]
    head = struct.pack("=III", GET_STRINGS, STRING_SET_STATS, count)
    strings = _ethtool_ioctl(name, head + bytes(count * STRING_LENGTH))
    values = _ethtool_ioctl(name, struct.pack("=II", GET_STATS, count) + bytes(count * 8))
    if strings is None or values is None:
        return {}
    names = [strings[12 + i * STRING_LENGTH : 12 + (i + 1) * STRING_LENGTH] for i in range(count)]
    numbers = struct.unpack_from(f"={count}Q", values, 8)
    return {
        text.partition(b"\0")[0].decode(errors="replace").strip(): number
        for text, number in zip(names, numbers, strict=True)
    }


def _ethtool_ioctl(
    name: str, request: bytes, tolerated: Collection[int] = UNSUPPORTED | {errno.EPERM}
) -> bytes | None:
    """One ioctl; None when the driver does not know the command."""
    buffer = array.array("B", request)
    address, _ = buffer.buffer_info()
    # struct ifreq: name, then a pointer to the command's own structure, padded to 40 bytes.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            fcntl.ioctl(handle, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
        except OSError as error:
            if error.errno in tolerated:
                return None
            raise HostError(
                f"the driver refuses the request: {error.strerror}",
                where=f"link {name}",
                cure="run as root, with a link that exists",
            ) from error
    return buffer.tobytes()
