"""Loss at loads: frame loss rate (RFC 2544 section 26.3), and loss around the throughput."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import LossStep
from vnetperf.model.result import Result
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import Table


def largest_clean(result: Result) -> LossStep | None:
    """The largest load at and below which no frame was lost.

    Args:
        result: One result.

    Returns:
        The step; None when the smallest load lost frames already.
    """
    found = None
    for step in sorted(result.loss_steps, key=lambda s: s.load_fps):
        if step.loss_ratio > 0:
            break
        found = step
    return found


def _rows(group: Group, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        for step in result.loss_steps:
            each = step.per_direction
            yield (
                result.size_name,
                text.percent(step.input_ratio),
                text.fps(step.load_fps),
                text.percent(step.loss_ratio),
                *(text.percent(each[n]) if n in each else "not told" for n in names),
                text.fps(step.forwarded_fps),
                str(len(step.trials)),
            )


def tables(group: Group) -> tuple[Table, ...]:
    """Loss at each load.

    Args:
        group: Results of one scenario and test.

    Returns:
        One table; without rows when none was measured.
    """
    names = tuple(
        dict.fromkeys(n for r in group.measured for s in r.loss_steps for n in s.per_direction)
    )
    head = ("size", "input rate", "load, aggregate", "loss, worse direction")
    rows = tuple(_rows(group, names))
    said = (
        "Input rate: share of the largest load that was offered. Loss: (input - output) / input, "
        "the mean of the trials at a load.",
    )
    return (
        Table(
            "Loss by load",
            (*head, *(f"loss {n}" for n in names), "forwarded, aggregate", "trials"),
            rows,
            said,
            brief=(0, 1, 2, 3, 4 + len(names), 5 + len(names)),
            bold=3,
        ),
    )


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        Up to which load nothing was lost, and how much at the largest.
    """
    if not result.loss_steps:
        return "", ""
    clean = largest_clean(result)
    top = max(result.loss_steps, key=lambda s: s.load_fps)
    lost = f"{text.percent(top.loss_ratio, 3)} lost at {text.short_fps(top.load_fps)}"
    if clean is None:
        return "loss at every load", lost
    return f"no loss to {text.short_fps(clean.load_fps)}", lost


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers; each load is an item.
    """
    for step in result.loss_steps:
        item = (
            f"{text.percent(step.input_ratio)} of {text.fps(step.load_fps / step.input_ratio)}"
            if (step.input_ratio)
            else text.fps(step.load_fps)
        )
        yield Quantity("load", "fps", step.load_fps, item)
        yield Quantity("input_ratio", "ratio", step.input_ratio, item)
        yield Quantity("loss_ratio", "ratio", step.loss_ratio, item)
        yield Quantity("forwarded", "fps", step.forwarded_fps, item)
        for name, value in step.per_direction.items():
            yield Quantity("loss_ratio", "ratio", value, item, name)
