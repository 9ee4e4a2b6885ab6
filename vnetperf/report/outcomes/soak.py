"""A long run at one load, held against a loss ratio."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import Soak
from vnetperf.model.result import Result
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import NONE, Table, clean, grouped

_HEAD = (
    "size",
    "load, aggregate",
    "which is",
    "traffic",
    "loss, worse direction",
    "95 % interval",
    "held against",
    "so",
    "lost, frames",
    "offered, frames",
    "PDV, worse direction",
)


def judgement(found: Soak) -> str:
    """Whether the loss ratio that it is held against was met, as far as can be told.

    Args:
        found: What was found.

    Returns:
        "met", "not met", or that the run was too short to tell.
    """
    if found.loss_high <= found.goal:
        return "met"
    if found.loss_low > found.goal:
        return "not met"
    return "cannot be told: the interval holds it"


def _row(result: Result, found: Soak) -> tuple[str, ...]:
    pdv = [v.pdv_ns for v in found.variation.values() if v.pdv_ns is not None]
    return (
        result.size_name,
        text.fps(found.load_fps),
        found.of,
        text.seconds(found.seconds),
        text.percent(found.loss_ratio),
        f"{text.percent(found.loss_low, 3)} to {text.percent(found.loss_high, 3)}",
        text.percent(found.goal),
        judgement(found),
        text.frames(found.lost),
        text.frames(found.offered),
        text.nanoseconds(max(pdv)) if pdv else NONE,
    )


def _said(known: list[tuple[Result, Soak]]) -> Iterator[str]:
    if known:
        yield "Interval of the loss ratio: Clopper-Pearson, as if frames were lost independently."
    yield from grouped((result.size_text, found.note) for result, found in known)
    yield from grouped((r.size_text, v.why) for r, f in known for v in f.variation.values())


def tables(group: Group) -> tuple[Table, ...]:
    """Soaks by frame size.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when none was measured.
    """
    known = [(r, r.soak) for r in group.measured if r.soak]
    rows = tuple(_row(*pair) for pair in known)
    words = frozenset({0, 2, 7})
    brief = (0, 2, 3, 4, 5, 6, 7)
    return (Table("Soak", _HEAD, rows, clean(_said(known)), words=words, brief=brief, bold=4),)


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        The loss ratio, and how it stands to the goal.
    """
    found = result.soak
    if found is None:
        return "", ""
    said = judgement(found).partition(":")[0]
    high = text.percent(found.loss_high, 3)
    return f"{text.percent(found.loss_ratio, 3)} lost", f"below {high}; {said}"


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers.
    """
    found = result.soak
    if found is None:
        return
    yield Quantity("load", "fps", found.load_fps, found.of)
    yield Quantity("duration", "s", found.seconds, found.of)
    yield Quantity("offered", "frames", float(found.offered), found.of)
    yield Quantity("lost", "frames", float(found.lost), found.of)
    yield Quantity("loss_ratio", "ratio", found.loss_ratio, found.of, note=found.note)
    yield Quantity("loss_ratio_low", "ratio", found.loss_low, found.of)
    yield Quantity("loss_ratio_high", "ratio", found.loss_high, found.of)
    yield Quantity("loss_ratio_goal", "ratio", found.goal, found.of)
    for name, varied in found.variation.items():
        yield Quantity("pdv", "ns", varied.pdv_ns, found.of, name, varied.why)
