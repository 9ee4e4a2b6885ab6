"""Facts of a machine; one that cannot be read is the text `unknown: <reason>`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vnetperf.host.linux import parse_number, read_file
from vnetperf.model.errors import VnetperfError

UNKNOWN = "unknown: "
#: Characters of a value that are shown where it is not what was expected.
SHOWN = 40


#: What firmware and drivers write where nobody has filled in a name or a number, in lower case.
_PLACEHOLDERS = frozenset(
    {
        *("", "not specified", "unspecified", "unknown", "undefined", "invalid", "none", "null"),
        *("n/a", "na", "not applicable", "not available", "empty", "no dimm", "(null)", "oem"),
        *("to be filled by o.e.m.", "to be filled by oem", "o.e.m.", "default", "default string"),
        *("system serial number", "system product name", "system manufacturer", "system version"),
        *("base board serial number", "chassis serial number", "serial number", "type1sku0"),
    }
)
_FILLER = re.compile(r"0+(?:[.:-]0+)*|x+(?:\.x+)*|0?123456789\d*|\.+|-+|f{8,}", re.IGNORECASE)


def is_placeholder(text: str) -> bool:
    """Whether a name or number of the firmware's stands for none: many machines have the same."""
    plain = text.strip()
    return plain.lower() in _PLACEHOLDERS or bool(_FILLER.fullmatch(plain))


def unknown(reason: object) -> str:
    """The fact that could not be read."""
    text = str(reason).split("\n", maxsplit=1)[0].strip()
    return UNKNOWN + (text or "no reason given")


def is_unknown(value: object) -> bool:
    """Whether a fact could not be read."""
    return isinstance(value, str) and value.startswith(UNKNOWN)


def file_text(path: Path) -> str:
    """Content of a file in one line, or why it is unknown."""
    try:
        text = read_file(path).strip(" \n\0")
    except OSError as error:
        return unknown(f"{path}: {error.strerror}")
    return text or unknown(f"{path} is empty")


def file_number(path: Path) -> int | str:
    """Number in a file, or why it is unknown."""
    text = file_text(path)
    if (number := parse_number(text)) is not None:
        return number
    return text if is_unknown(text) else unknown(f"{path} has {text[:SHOWN]!r}")


def read_meminfo(file: Path) -> dict[str, int]:
    """Figures in KiB of the machine's memory or of a node's, whose lines begin with its name."""
    figures = re.findall(r"(\w+(?:\(\w+\))?):\s+([0-9]{1,18})\b", file_text(file))
    return {name: int(number) for name, number in figures}


def attempt(function: Callable[[], Any]) -> Any:
    """What a function finds, or why it could not: one missing fact must not cost the others."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - foreign files can hold anything
        return unknown(describe_error(error))


def describe_error(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, VnetperfError):
        return f"{error.where}: {error.what}" if error.where else error.what
    return f"{type(error).__name__}: {error}"
