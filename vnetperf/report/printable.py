"""Names come from machines and users: no control character of theirs reaches a reader."""

from __future__ import annotations

#: Layout that text may carry besides printable characters.
_LAYOUT = frozenset("\n\t\N{NO-BREAK SPACE}")


def printable(said: str) -> str:
    """Text without control, escape and direction-changing characters.

    Args:
        said: Any text.

    Returns:
        The text; each such character has become the replacement character.
    """
    if said.isprintable():
        return said
    return "".join(
        c if c.isprintable() or c in _LAYOUT else "\N{REPLACEMENT CHARACTER}" for c in said
    )
