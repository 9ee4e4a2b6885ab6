"""The build id of a program: which build of a version it is, to the bit."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_HEADER: Final = 64
_NOTE: Final = 4  # PT_NOTE
_BUILD_ID: Final = 3  # NT_GNU_BUILD_ID
#: No table of segments and no note is larger in a program that somebody linked.
_MOST: Final = 1 << 16


def build_id(path: Path) -> str:
    """The id that the linker gave a program.

    Args:
        path: The program.

    Returns:
        Hexadecimal digits; "" for one without, and for a script.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER or not header.startswith(_MAGIC):
            return ""
        (table,) = struct.unpack_from("<Q", header, 0x20)
        size, count = struct.unpack_from("<HH", header, 0x36)
        file.seek(table)
        segments = file.read(min(size * count, _MOST))
        for start in range(0, len(segments) - 55, size or 56):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", segments, start)
            if kind == _NOTE:
                file.seek(offset)
                if found := _in_notes(file.read(min(length, _MOST))):
                    return found
    return ""


def _in_notes(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_length, length, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        content = name + -(-name_length // 4) * 4
        if kind == _BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[content : content + length].hex()
        at = content + -(-length // 4) * 4
    return ""
