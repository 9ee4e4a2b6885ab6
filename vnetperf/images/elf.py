"""Reads from a program or library which other libraries it needs."""

from __future__ import annotations

import struct
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_DYNAMIC, _LOAD, _INTERPRETER = 2, 1, 3
_NEEDED, _STRTAB = 1, 5


def needed(path: Path) -> list[str]:
    """Names of the libraries that a file is linked to, and the path of its loader.

    Args:
        path: Any file.

    Returns:
        Names as in ``libc.so.6``; the loader as an absolute path; none when it is no such file.
    """
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return []
        file.seek(0)
        data = file.read()
    (table,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    found: list[str] = []
    for kind, _, offset, _, _, length in headers:
        if kind == _INTERPRETER:
            found.append(data[offset : offset + length].rstrip(b"\0").decode())
        elif kind == _DYNAMIC:
            entries = list(struct.iter_unpack("<QQ", data[offset : offset + length - length % 16]))
            address = next((value for tag, value in entries if tag == _STRTAB), 0)
            strings = _in_file(headers, address)
            for tag, value in entries:
                if tag == _NEEDED:
                    end = data.index(b"\0", strings + value)
                    found.append(data[strings + value : end].decode())
    return found


def _in_file(headers: list[tuple[int, ...]], address: int) -> int:
    """Offset in the file of an address in memory."""
    for kind, _, offset, start, _, length in headers:
        if kind == _LOAD and start <= address < start + length:
            return offset + address - start
    return address
