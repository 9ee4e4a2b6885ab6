"""`@pytest.mark.measures(TEST)`: a case runs when the preset, or --tests, names its test."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

import pytest

from vnetperf.model.procedures import TestName

if TYPE_CHECKING:
    from vnetperf.config import Configuration

_WORD = re.compile(r"\w+")


def test_of(item: pytest.Item) -> str | None:
    """The test that a case runs.

    Args:
        item: The case.

    Returns:
        "latency" ...; None for one that does not say, and is always run.

    Raises:
        UsageError: It names none that there is.
    """
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


def drop_unchosen(
    config: pytest.Config, configuration: Configuration, items: list[pytest.Item]
) -> str:
    """Take cases of tests that are not to be run out of a session.

    Without --tests, a case whose function is named, after :: or in -k, is asked for.

    Args:
        config: pytest's configuration.
        configuration: Names the tests.
        items: Cases that other selections left; changed in place.

    Returns:
        One line that says what was left out and how to have it; "" when nothing was.
    """
    tests = {item: test_of(item) for item in items}
    names = {test for test in tests.values() if test is not None}
    unchosen = names - set(configuration.preset.tests)
    if configuration.sources["tests"] == "default":
        unchosen -= _named(config, {i: t for i, t in tests.items() if t in unchosen}, items)
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


def _named(
    config: pytest.Config, tests: dict[pytest.Item, str | None], items: Iterable[pytest.Item]
) -> set[str]:
    """Tests of which a function is named on the command line."""
    after = {_function(arg.partition("[")[0]) for arg in config.args if "::" in arg}
    words = {word.lower() for word in _WORD.findall(config.getoption("keyword", "") or "")}
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
