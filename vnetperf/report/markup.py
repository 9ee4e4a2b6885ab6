"""Builds HTML and SVG in which text is always escaped: only Markup passes as it is."""

from __future__ import annotations

import html
from collections.abc import Iterable

from vnetperf.report.printable import printable

_VOID = frozenset({"meta", "br", "hr", "col", "wbr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def render(child: object) -> Markup:
    """A child as HTML.

    Args:
        child: Markup, text or numbers (escaped), None (nothing) or an iterable of these.

    Returns:
        HTML.
    """
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, Iterable) and not isinstance(child, str):
        return Markup("".join(render(item) for item in child))
    return Markup(html.escape(printable(str(child)), quote=True))


def el(tag: str, *children: object, **attributes: object) -> Markup:
    """An element.

    Args:
        tag: Name of the element.
        *children: Its content, see :func:`render`.
        **attributes: A trailing "_" is dropped and "_" becomes "-"; None and False leave the
            attribute out, True gives it no value.

    Returns:
        HTML.
    """
    parts = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        parts.append(name if value is True else f'{name}="{render(value)}"')
    opened = f"<{' '.join(parts)}>"
    if tag in _VOID:
        return Markup(opened)
    return Markup(f"{opened}{''.join(render(c) for c in children)}</{tag}>")
