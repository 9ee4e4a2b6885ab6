"""TRex's field engine in a few lines: what its instructions make of a template, frame by frame."""

from __future__ import annotations

import base64
import struct
from typing import Any

from vnetperf.plugin.frame_layers import internet_checksum


def frame(stream: dict[str, Any], number: int) -> bytes:
    """The frame that a described stream sends as number so and so.

    Args:
        stream: What `describe` made.
        number: 0 for the first.

    Returns:
        Octets without FCS.
    """
    octets = bytearray(base64.b64decode(stream["template"]))
    for variable in stream["variables"]:
        value = value_at(variable, number)
        offset, mask = variable["offset"], variable["mask"]
        assert offset >= 0
        if mask is None:
            octets[offset : offset + variable["size"]] = value.to_bytes(variable["size"], "big")
            continue
        (there,) = struct.unpack_from("!I", octets, offset)
        written = ((value & 0xFFFFFFFF) << variable["shift"]) & mask
        struct.pack_into("!I", octets, offset, (there & ~mask & 0xFFFFFFFF) | written)
    for offset in reversed(stream["ipv4"]):
        octets[offset + 10 : offset + 12] = b"\0\0"
        header = bytes(octets[offset : offset + 20])
        struct.pack_into("!H", octets, offset + 10, internet_checksum(header))
    return bytes(octets)


def value_at(variable: dict[str, Any], number: int) -> int:
    """A variable's value; each step beyond the last goes on from the first, as TRex's does."""
    value, first, last, step = (variable[k] for k in ("first", "first", "last", "step"))
    assert 0 <= first <= last < 1 << (8 * variable["size"])
    for _ in range(number):
        value = first + (step - (last - value) - 1) if value > last - step else value + step
    return int(value)
