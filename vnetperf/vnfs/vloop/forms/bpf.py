"""A BPF program as an object file, written instruction by instruction: nothing is compiled.

iproute2 loads it (through libbpf, or by its own loader before 5.11). The program needs no map and
no relocation, so that a table of three sections and two symbols is all there is.
"""

from __future__ import annotations

import struct

#: Instructions (linux/bpf.h): class, operation and source of the operand; the helper's number.
MOV32_IMM, CALL, EXIT = 0xB4, 0x85, 0x95
FUNC_REDIRECT = 23
SECTION, LICENSE, FUNCTION = "xdp", "GPL", "forward"
#: ELF: header's and section header's sizes, machine, section types and flags, symbol kinds.
HEADER, SECTION_HEADER, EM_BPF = 64, 64, 247
PROGBITS, SYMTAB, STRTAB = 1, 2, 3
WRITE, ALLOC, EXEC = 1, 2, 4
SECTION_SYMBOL, GLOBAL_FUNCTION, GLOBAL_OBJECT = 0x03, 0x12, 0x11
ALIGN = 8


def redirect(index: int) -> bytes:
    """The program: `return bpf_redirect(index, 0);`.

    Args:
        index: Index of the interface that frames are sent out of, in the namespace of the one
            that receives them.

    Returns:
        Its instructions.
    """
    return b"".join(
        (
            _instruction(MOV32_IMM, register=1, value=index),
            _instruction(MOV32_IMM, register=2, value=0),
            _instruction(CALL, value=FUNC_REDIRECT),
            _instruction(EXIT),
        )
    )


def _instruction(code: int, *, register: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, register, 0, value)


def object_file(program: bytes) -> bytes:
    """An ELF object with a program in section "xdp".

    Args:
        program: Instructions.

    Returns:
        The file's content, little-endian.
    """
    names, name_at = _strings("", FUNCTION, "_license", SECTION, "license", ".symtab", ".strtab")
    code, license_text = program, LICENSE.encode() + b"\0"
    symbols = b"".join(
        (
            bytes(24),
            _symbol(0, SECTION_SYMBOL, 1, 0),
            _symbol(name_at[FUNCTION], GLOBAL_FUNCTION, 1, len(code)),
            _symbol(name_at["_license"], GLOBAL_OBJECT, 2, len(license_text)),
        )
    )
    body, offsets = b"", []
    for part in (code, license_text, symbols, names):
        offsets.append(HEADER + len(body))
        body += part + bytes(-len(part) % ALIGN)
    sections = (
        bytes(SECTION_HEADER),
        _section(name_at[SECTION], PROGBITS, ALLOC | EXEC, offsets[0], code),
        _section(name_at["license"], PROGBITS, ALLOC | WRITE, offsets[1], license_text),
        # Strings are section 4; symbols before number 2 are local; an entry has 24 octets.
        _section(name_at[".symtab"], SYMTAB, 0, offsets[2], symbols, link=4, info=2, entry=24),
        _section(name_at[".strtab"], STRTAB, 0, offsets[3], names),
    )
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH",
        *(1, EM_BPF, 1, 0, 0, HEADER + len(body), 0),
        *(HEADER, 0, 0, SECTION_HEADER, len(sections), len(sections) - 1),
    )
    return head + body + b"".join(sections)


def _strings(*texts: str) -> tuple[bytes, dict[str, int]]:
    """A table of strings, and where each begins."""
    table, places = b"", {}
    for text in texts:
        places[text] = len(table)
        table += text.encode() + b"\0"
    return table, places


def _symbol(name: int, kind: int, section: int, size: int) -> bytes:
    return struct.pack("<IBBHQQ", name, kind, 0, section, 0, size)


def _section(name: int, kind: int, flags: int, offset: int, content: bytes, **more: int) -> bytes:
    return struct.pack(
        "<IIQQQQIIQQ",
        *(name, kind, flags, 0, offset, len(content)),
        *(more.get("link", 0), more.get("info", 0), ALIGN, more.get("entry", 0)),
    )
