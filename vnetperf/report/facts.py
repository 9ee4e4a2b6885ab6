"""Flattens nested facts (environment, plans, launch lines) into rows a reader can scan."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any


def scalar(value: Any) -> str:
    """A single JSON value as text.

    Args:
        value: String, number, boolean or None.

    Returns:
        "yes"/"no" for booleans, "none" for None and empty values.
    """
    if value is None or value in ("", [], {}, ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _is_command(items: list[Any]) -> bool:
    return (
        len(items) > 1
        and all(isinstance(i, str) for i in items)
        and not items[0].startswith("-")
        and any(i.startswith("-") for i in items[1:])
    )


def _join(items: list[Any]) -> str:
    if _is_command(items):
        return shlex.join(items)
    long = any(isinstance(i, str) and len(i) > 24 for i in items)
    return ("\n" if long else ", ").join(scalar(i) for i in items)


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Turn a tree of JSON values into rows.

    Args:
        value: The tree.
        path: Path of the tree itself.

    Yields:
        Path ("ports.phy0.wire") and text; a list of scalars is one row, an argv a command line.
    """
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        items = list(value)
        if any(isinstance(i, dict | list | tuple) for i in items):
            for index, item in enumerate(items):
                yield from flatten(item, f"{path}[{index}]")
        else:
            yield path, _join(items)
    else:
        yield path, scalar(value)
