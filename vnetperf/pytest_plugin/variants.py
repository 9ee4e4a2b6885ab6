"""`@pytest.mark.vary(KEY, VALUES)`: the variants that a test case asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from vnetperf.model.scenario import variant_id
from vnetperf.model.variant import Comparison, Value, Variant

#: What an id may hold: it stands in test ids, where brackets and blanks have a meaning.
_ID = re.compile(r"[\w=:.,+%/-]+", re.ASCII)
#: Wishes that are no setting of a variant.
_OWN = ("frame_sizes",)
_PARAM = type(pytest.param())
_HOW = (
    '@pytest.mark.vary takes the name of a setting and a list of its values: vary("set", '
    '["rx_queues=1", "rx_queues=2"]), each a text, a tuple of texts, or a pytest.param of one'
)


@dataclass(frozen=True)
class Selected:
    """What `bench` is parametrised with: a scenario, or a variant of it.

    Attributes:
        scenario: "pvp_dpdk".
        variant: What it has besides; of no id outside of a comparison.
        round: Number of the round, from 1, where cases are repeated; 0 where they are not.
    """

    scenario: str
    variant: Variant = field(default_factory=Variant)
    round: int = 0

    @property
    def id(self) -> str:
        """Name as it stands in results: "pvp_dpdk,rx_queues=2"."""
        return variant_id(self.scenario, self.variant.id)

    @property
    def in_test_id(self) -> str:
        """Name as it stands in test ids, where a hyphen parts parameters."""
        round_ = f"round{self.round}" if self.round else ""
        return "-".join(part for part in (self.scenario, self.variant.id, round_) if part)


def variants_of(node: Any, sources: Mapping[str, str]) -> list[tuple[Variant, tuple[Any, ...]]]:
    """All combinations of what a test case varies.

    Args:
        node: The test function, or its definition; None for one that varies nothing.
        sources: Where the user's settings come from: a test case's own wishes, in
            `@pytest.mark.vnetperf(traffic="multi-flow")`, hold for those left at their default.

    Returns:
        Each with the marks of its values, the first mark's values changing last; one without an
        id when nothing is varied.

    Raises:
        UsageError: A mark that does not say what to vary.
    """
    marks = (
        list(node.iter_markers("vary"))[::-1] if node else []
    )  # the first written is the last applied
    wishes = _wishes(node, sources) if marks else ()
    found = []
    for combination in product(*(list(_values(mark, node.nodeid)) for mark in marks)):
        variant, decorations = Variant(settings=wishes), ()
        for one, more in combination:
            variant, decorations = variant.and_also(one), (*decorations, *more)
        found.append((variant, decorations))
    ids = [variant.id for variant, _ in found]
    twice = next((one for one in ids if ids.count(one) > 1), None)
    if twice is not None:
        raise pytest.UsageError(
            f"{node.nodeid}: two variants are called {twice!r}; give pytest.param(..., id=...)"
        )
    return found


def _wishes(node: Any, sources: Mapping[str, str]) -> tuple[tuple[str, Value], ...]:
    mark = node.get_closest_marker("vnetperf")
    asked = mark.kwargs if mark is not None else {}
    wrong = next(
        (key for key, value in asked.items() if key not in _OWN and not _is_value(value)), ""
    )
    if wrong:
        raise pytest.UsageError(f"{node.nodeid}: @pytest.mark.vnetperf: {wrong} is no text")
    return tuple(
        (key, value)
        for key, value in asked.items()
        if key not in _OWN and sources.get(key, "default") == "default"
    )


def _values(mark: pytest.Mark, where: str) -> Iterator[tuple[Variant, tuple[Any, ...]]]:
    if len(mark.args) != 2 or mark.kwargs or not isinstance(mark.args[0], str):
        raise pytest.UsageError(f"{where}: {_HOW}")
    key, values = mark.args
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise pytest.UsageError(f"{where}: {_HOW}; {values!r} is no list")
    values = list(values)
    if not values:
        raise pytest.UsageError(f"{where}: {_HOW}; the list is empty")
    for value in values:
        yield _variant(key, value, where)


def _variant(key: str, value: Any, where: str) -> tuple[Variant, tuple[Any, ...]]:
    is_param = isinstance(value, _PARAM)
    given: Any = value.values if is_param else (value,)
    name: Any = value.id if is_param else None
    if len(given) != 1 or not _is_value(given[0]):
        raise pytest.UsageError(f"{where}: {_HOW}; {given!r} is none")
    setting: Value = tuple(given[0]) if isinstance(given[0], list) else given[0]
    texts = setting if isinstance(setting, tuple) else (str(setting),)
    if name is None:
        name = ",".join(text if "=" in text else f"{key}={text}" for text in texts)
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise pytest.UsageError(
            f"{where}: {name!r} cannot be the id of a variant; use letters, digits and =:.,+%/-"
            " in pytest.param(..., id=...)"
        )
    variant = Variant(id=name, settings=((key, setting),))
    return variant, tuple(value.marks) if is_param else ()


def _is_value(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def names_of_settings(variant: Variant) -> set[str]:
    """What a variant varies, by the names that users know.

    Args:
        variant: The variant.

    Returns:
        "rx_queues" of `--set rx_queues=2`, "wire" of `--wire veth`.
    """
    found = set()
    for key, value in variant.settings:
        texts = value if isinstance(value, tuple) else (str(value),)
        found |= {text.partition("=")[0] if "=" in text else key for text in texts}
    return found


def comparisons_of(items: Iterable[pytest.Item], sources: Mapping[str, str]) -> list[Comparison]:
    """The comparisons that tests belong to.

    Args:
        items: Tests that will be run.
        sources: Where the user's settings come from.

    Returns:
        One for each test case and scenario, with all variants of the test case.

    Raises:
        UsageError: Two test cases call different variants by one name.
    """
    found: dict[tuple[str, str], Comparison] = {}
    meant: dict[str, tuple[Variant, str]] = {}
    for item in items:
        selected = selected_of(item)
        if selected is None or not selected.variant:
            continue
        before, where = meant.setdefault(selected.id, (selected.variant, item.nodeid))
        if before != selected.variant:
            raise pytest.UsageError(
                f"{where} and {item.nodeid} call different variants {selected.variant.id!r}; "
                "give one another id: pytest.param(..., id=...)"
            )
        function = getattr(item, "originalname", item.name)
        name = f"{item.path.stem}::{function}"
        if (name, selected.scenario) not in found:
            said = getattr(getattr(item, "function", None), "__doc__", None) or ""
            found[name, selected.scenario] = Comparison(
                name=name,
                title=" ".join(said.strip().partition("\n\n")[0].split()),
                scenario=selected.scenario,
                variants=tuple(variant for variant, _ in variants_of(item, sources)),
            )
    return list(found.values())


def selected_of(item: pytest.Item) -> Selected | None:
    """What a test measures.

    Args:
        item: The test.

    Returns:
        Scenario and variant; None for a test that measures nothing.
    """
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    selected = params.get("bench")
    return selected if isinstance(selected, Selected) else None
