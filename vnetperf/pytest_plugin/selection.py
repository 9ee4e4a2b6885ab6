"""Which collected cases run: those of the tests that the preset or --tests names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from vnetperf.model.parameters import TestName
from vnetperf.pytest_plugin.cases import Selected, names_of_settings, selected_of
from vnetperf.runner.scenarios import scenario_ids

if TYPE_CHECKING:
    from vnetperf.config import Configuration

_NAME = re.compile(r"\w+")


def test_of(item: pytest.Item) -> str | None:
    """The test that a case runs."""
    mark = item.get_closest_marker("measures")
    if mark is None:
        return None
    known = get_args(TestName)
    if len(mark.args) != 1 or mark.kwargs or mark.args[0] not in known:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.measures takes the name of one test: {', '.join(known)}"
        )
    name: str = mark.args[0]
    return name


test_of.__test__ = False  # type: ignore[attr-defined]  # pytest would collect the name


def drop_other_tests(
    config: pytest.Config, configuration: Configuration, items: list[pytest.Item]
) -> str:
    """Take cases of tests that are not to be run out of a session.

    Without --tests, a case whose function is named, after :: or in -k, is asked for.
    """
    tests = {item: test_of(item) for item in items}
    names = {test for test in tests.values() if test is not None}
    unchosen = names - set(configuration.preset.tests)
    if configuration.sources["tests"] == "default":
        unchosen -= _tests_named(config, {i: t for i, t in tests.items() if t in unchosen}, items)
    dropped = [item for item, test in tests.items() if test in unchosen]
    if not dropped:
        return ""
    gone = set(dropped)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=dropped)
    there = [test for test in get_args(TestName) if test in unchosen]
    chosen_by = configuration.sources["tests"]
    whose = f"preset {configuration.preset.name}" if chosen_by == "default" else chosen_by
    if chosen_by == "command line":
        whose = "--tests"
    return (
        f"vnetperf: {len(dropped)} cases left out of tests that {whose} does not name "
        f"({', '.join(there)}); --tests {there[0]} or --tests all runs them"
    )


def _tests_named(
    config: pytest.Config, tests: dict[pytest.Item, str | None], items: Iterable[pytest.Item]
) -> set[str]:
    """Tests of which a function is named on the command line."""
    after = {_function(arg.partition("[")[0]) for arg in config.args if "::" in arg}
    words = {word.lower() for word in _NAME.findall(config.getoption("keyword", "") or "")}
    # A word that also chooses other cases, as part of their function's or file's name, or of a
    # scenario's, asks for none of these.
    others = {name for i in items if i not in tests and _is_usual(i) for name in _names(i)}
    words = {w for w in words if not any(w in name for name in others)}
    return {
        test
        for item, test in tests.items()
        if test is not None
        and (
            _own_name(item) in after
            or any(word in _own_name(item) for word in words if not _in_parameters(word, item))
        )
    }


def _is_usual(item: pytest.Item) -> bool:
    """Whether a case runs without being asked for (see asked.py)."""
    return not (item.get_closest_marker("when_asked") or item.get_closest_marker("vary"))


def _function(nodeid: str) -> str:
    return nodeid.rpartition("::")[2]


def _own_name(item: pytest.Item) -> str:
    name: str = getattr(item, "originalname", item.name)
    return name


def _names(item: pytest.Item) -> set[str]:
    return {_own_name(item), item.path.name}


def _in_parameters(word: str, item: pytest.Item) -> bool:
    return word in item.name.partition("[")[2]


_WORD = re.compile(r"[\w:.+\[\]\\/-]+")


class CommandLineNames:
    """What the command line names."""

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
        """Whether a comparison is asked for."""
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
    """Names of a test case, without its parameters."""
    return {Path(item.path).name, getattr(item, "originalname", item.name)}


def drop_comparisons(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Take tests of comparisons and marked ones that nobody asked for out of a session."""
    found = {item: selected_of(item) for item in items}
    compared = {
        item: s
        for item, s in found.items()
        if s is not None and (s.variant or item.get_closest_marker("when_asked"))
    }
    if not compared:
        return []
    plain = {n for item, s in found.items() if s and item not in compared for n in names_in(item)}
    asked = CommandLineNames(config, plain)
    dropped = [item for item, selected in compared.items() if not asked.for_(item, selected)]
    if dropped:
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)
    return dropped


def how_to_select(dropped: list[pytest.Item], start: Path) -> str:
    """What was left out, and how to have it."""
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
