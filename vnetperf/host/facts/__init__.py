"""Facts of a machine; one that cannot be read is the text `unknown: <reason>`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vnetperf.model.errors import VnetperfError

UNKNOWN = "unknown: "


def unknown(why: object) -> str:
    """The fact that could not be read."""
    text = str(why).split("\n", maxsplit=1)[0].strip()
    return UNKNOWN + (text or "no reason given")


def is_unknown(value: object) -> bool:
    """Whether a fact could not be read."""
    return isinstance(value, str) and value.startswith(UNKNOWN)


def file_text(path: Path) -> str:
    """Content of a file in one line, or why it is unknown."""
    try:
        text = path.read_text(errors="replace").strip(" \n\0")
    except OSError as error:
        return unknown(f"{path}: {error.strerror}")
    return text or unknown(f"{path} is empty")


def file_number(path: Path) -> int | str:
    """Number in a file, or why it is unknown."""
    text = file_text(path)
    try:
        return int(text)
    except ValueError:
        return text if is_unknown(text) else unknown(f"{path} has {text!r}")


def attempt(function: Callable[[], Any]) -> Any:
    """What a function finds, or why it could not: one missing fact must not cost the others."""
    try:
        return function()
    except VnetperfError as error:
        return unknown(f"{error.where}: {error.what}" if error.where else error.what)
    except Exception as error:  # noqa: BLE001 - foreign files can hold anything
        return unknown(f"{type(error).__name__}: {error}")
