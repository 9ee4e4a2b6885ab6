"""Comparisons, and what is marked so, run only when they are asked for: they take their time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vnetperf.bench.scenarios import scenario_ids
from vnetperf.pytest_plugin.variants import Selected, names_of_settings, selected_of

_WORD = re.compile(r"[\w:.+\[\]\\/-]+")


class Asked:
    """What the command line names.

    Args:
        config: pytest's configuration.
        plain: Names of files and functions that measure without comparing; a word that is part of
            them, or of a scenario's name, asks for no comparison.
    """

    def __init__(self, config: pytest.Config, plain: set[str]) -> None:
        start = config.invocation_params.dir
        given = (start / arg.partition("::")[0].partition("[")[0] for arg in config.args)
        self._files = {path.resolve() for path in given if path.is_file()}
        known = {name.lower() for name in (*plain, *scenario_ids())}
        self._words = {
            word
            for word in _words(config.getoption("keyword", ""))
            if not any(word in name for name in known)
        }
        self._marks = _words(config.getoption("markexpr", ""))

    def for_(self, item: pytest.Item, selected: Selected) -> bool:
        """Whether a comparison is asked for.

        Args:
            item: One of its tests.
            selected: What it measures.

        Returns:
            True when its file stands on the command line, or its name or that of what it varies
            in -k, or a mark of it in -m.
        """
        if item.path.resolve() in self._files:
            return True
        names = {name.lower() for name in names_in(item)}
        settings = names_of_settings(selected.variant)
        return (
            any(word in name for word in self._words for name in names)
            or any(part in settings for word in self._words for part in re.split("[-:,]", word))
            or any(mark.name.lower() in self._marks for mark in item.iter_markers())
        )


def _words(expression: str) -> set[str]:
    words = {word.lower() for word in _WORD.findall(expression or "")} - {"and", "or", "not"}
    return {word for word in words if not word.isdigit()}  # frame sizes


def names_in(item: pytest.Item) -> set[str]:
    """Names of a test case, without its parameters.

    Args:
        item: The test.

    Returns:
        Names of its file and function.
    """
    return {Path(item.path).name, getattr(item, "originalname", item.name)}


def drop_unasked(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Take tests of comparisons and marked ones that nobody asked for out of a session.

    Args:
        config: pytest's configuration.
        items: Tests that other selections left; changed in place.

    Returns:
        Those taken out.
    """
    found = {item: selected_of(item) for item in items}
    compared = {
        item: s
        for item, s in found.items()
        if s is not None and (s.variant or item.get_closest_marker("when_asked"))
    }
    if not compared:
        return []
    plain = {n for item, s in found.items() if s and item not in compared for n in names_in(item)}
    asked = Asked(config, plain)
    dropped = [item for item, selected in compared.items() if not asked.for_(item, selected)]
    if dropped:
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)
    return dropped


def how_to_ask(dropped: list[pytest.Item], start: Path) -> str:
    """What was left out, and how to have it.

    Args:
        dropped: Tests that were left out.
        start: Directory that the user is in.

    Returns:
        One line.
    """
    paths = list(dict.fromkeys(item.path for item in dropped))
    first = paths[0]
    shown = first.relative_to(start) if first.is_relative_to(start) else first
    files = ", ".join(path.name for path in paths)
    of = (
        ""
        if any(not selected.variant for selected in map(selected_of, dropped) if selected)
        else (" of comparisons")
    )
    return (
        f"vnetperf: {len(dropped)} cases{of} left out ({files}); "
        f"name the file to run them, e.g. pytest {shown}"
    )
