"""Frames that the engine kept of a trial, and pcap files of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["sent", "received", "stray"]

_RECORD = struct.Struct("=QIIHHI")
_KINDS: dict[int, Kind] = {1: "sent", 2: "received", 3: "stray"}
_NO_STREAM = 256
_NS_PER_S = 1_000_000_000
#: pcap with times in nanoseconds, version 2.4, UTC, Ethernet without FCS.
_MAGIC, _MAJOR, _MINOR, _SNAPLEN, _ETHERNET = 0xA1B23C4D, 2, 4, 262_144, 1


@dataclass(frozen=True)
class CapturedFrame:
    """A frame as it was handed to the driver, or came from it."""

    wall_ns: int
    """Nanoseconds since 1970, UTC."""
    port: int
    stream: int | None
    """Engine's id; None: of no stream of the trial."""
    kind: Kind
    """stray: received, and not of the trial."""
    octets: bytes
    """From the first on; fewer than `length` when the engine had no room for all."""
    length: int
    """Octets of the whole frame without FCS."""


def parse_capture(data: bytes) -> tuple[CapturedFrame, ...]:
    """Read the engine's file.

    Args:
        data: Its octets.

    Returns:
        Frames, by rising time.
    """
    frames = []
    at = 0
    while at < len(data):
        wall_ns, length, kept, port, stream, kind = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        frames.append(
            CapturedFrame(
                wall_ns=wall_ns,
                port=port,
                stream=None if stream == _NO_STREAM else stream,
                kind=_KINDS[kind],
                octets=data[at : at + kept],
                length=length,
            )
        )
        at += kept
    return tuple(sorted(frames, key=lambda frame: frame.wall_ns))


def pcap_files(frames: Iterable[CapturedFrame]) -> dict[str, bytes]:
    """One pcap file for each port and way, as tcpdump and Wireshark read them.

    Args:
        frames: By rising time.

    Returns:
        Name such as "port0-sent.pcap" -> octets, times in nanoseconds.
    """
    files: dict[str, bytearray] = {}
    for frame in frames:
        way = "sent" if frame.kind == "sent" else "received"
        name = f"port{frame.port}-{way}.pcap"
        if name not in files:
            header = (_MAGIC, _MAJOR, _MINOR, 0, 0, _SNAPLEN, _ETHERNET)
            files[name] = bytearray(struct.pack("=IHHiIII", *header))
        seconds, ns = divmod(frame.wall_ns, _NS_PER_S)
        files[name] += struct.pack("=IIII", seconds, ns, len(frame.octets), frame.length)
        files[name] += frame.octets
    return {name: bytes(octets) for name, octets in sorted(files.items())}
