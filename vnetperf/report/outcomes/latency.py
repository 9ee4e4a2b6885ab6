"""Latency at loads (RFC 2544 section 26.2), and delay variation (RFC 5481, RFC 8219)."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import LatencyAt
from vnetperf.model.result import Result
from vnetperf.report import spreads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group
from vnetperf.report.outcomes.quantity import Quantity
from vnetperf.report.tabular import NONE, Table, clean, grouped

_HEAD = (
    "size",
    "load",
    "direction",
    "latency, mean of the trials",
    "least",
    "median",
    "99 %",
    "99.9 %",
    "largest",
    "loss",
    "rate, aggregate",
    "of the medium",
)
_VARIATION = (
    "size",
    "load",
    "direction",
    "PDV, D(99.9) - Dmin",
    "IPDV least",
    "IPDV median",
    "IPDV largest",
)


def _ns(value: float | None) -> str:
    return NONE if value is None else text.nanoseconds(value)


def _directions(at: LatencyAt) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*at.mean_ns, *at.latency, *at.variation]))


def _row(result: Result, at: LatencyAt, name: str) -> tuple[str, ...]:
    mean, all_of = at.mean_ns.get(name), at.latency.get(name)
    found = all_of.percentiles if all_of else {}
    medium = result.media_max_fps
    return (
        result.size_name,
        at.of,
        name,
        spreads.with_n(mean, "ns") if mean else NONE,
        _ns(all_of.min_ns if all_of else None),
        *(_ns(found.get(p)) for p in ("50", "99", "99.9")),
        _ns(all_of.max_ns if all_of else None),
        text.percent(at.loss_ratio),
        text.fps(at.load_fps),
        NONE if not medium else text.percent(at.load_fps / medium, 3),
    )


def _loads(group: Group) -> Iterator[tuple[Result, LatencyAt, str]]:
    for result in group.measured:
        for at in result.latency_at:
            for name in _directions(at):
                yield result, at, name


def _said(group: Group) -> Iterator[str]:
    every = [at for result in group.measured for at in result.latency_at]
    yield spreads.interval_note([s for at in every for s in at.mean_ns.values()])
    for definition in dict.fromkeys(at.definition for at in every):
        ends = {"store-and-forward": "last bit in to first bit out"}
        how = ends.get(definition, "first bit in to first bit out")
        yield f"Latency as RFC 1242 section 3.8 defines it for {definition} devices: {how}."
    tags = sorted({at.tag_at_s for at in every})
    if any(tags):
        shown = " or ".join(text.seconds(tag) for tag in tags)
        yield f"Frames of the first {shown} of a trial are not in it; every later one is."
    for result, at, name in _loads(group):
        if name in at.mean_ns:
            for remark in spreads.remarks(at.mean_ns[name], "ns"):
                yield f"{result.size_text}, {at.of}, {name}: {remark}."
    yield from grouped(
        (f"{result.size_text} at {at.of}", at.note)
        for result in group.measured
        for at in result.latency_at
    )
    lossy = {
        f"{r.size_name} at {at.of}"
        for r in group.measured
        for at in r.latency_at
        if at.loss_ratio > 0
    }
    if lossy:
        yield f"Frames were lost, whose latency nobody knows: {', '.join(sorted(lossy))}."


def _variation(group: Group) -> Iterator[tuple[str, ...]]:
    for result, at, name in _loads(group):
        found = at.variation.get(name)
        if found is not None:
            parts = (found.pdv_ns, found.ipdv_min_ns, found.ipdv_median_ns, found.ipdv_max_ns)
            yield result.size_name, at.of, name, *map(_ns, parts)


def _said_of_variation(group: Group) -> Iterator[str]:
    yield "The largest of all trials. PDV: RFC 5481 section 4.2; IPDV: RFC 8219 section 7.3.2."
    yield from grouped(
        (f"{result.size_text} at {at.of}", at.variation[name].why)
        for result, at, name in _loads(group)
        if name in at.variation
    )


def tables(group: Group) -> tuple[Table, ...]:
    """Latency and delay variation of one scenario.

    Args:
        group: Its results.

    Returns:
        Two tables; without rows when no latency was measured.
    """
    return (
        Table(
            "Latency",
            _HEAD,
            tuple(_row(*one) for one in _loads(group)),
            clean(_said(group)),
            words=frozenset({0, 1, 2}),
            brief=(0, 1, 2, 3, 5, 6, 8),
            bold=3,
        ),
        Table(
            "Delay variation",
            _VARIATION,
            tuple(_variation(group)),
            clean(_said_of_variation(group)),
            words=frozenset({0, 1, 2}),
            brief=(0, 1, 2, 3, 5),
        ),
    )


def headline(result: Result) -> tuple[str, str]:
    """The answer in few words.

    Args:
        result: One result.

    Returns:
        The slower direction's mean at the first load, and at which that is.
    """
    if not result.latency_at:
        return "", ""
    at = result.latency_at[0]
    slowest = max(at.mean_ns.values(), key=lambda s: s.mean, default=None)
    if slowest is None:
        return "not measured", at.note or f"no frame arrived at {at.of}"
    worst = max((v.percentiles.get("99", 0.0) for v in at.latency.values()), default=0.0)
    tail = f"99 %: {text.nanoseconds(worst)}, " if worst else ""
    return spreads.with_n(slowest, "ns"), f"{tail}at {at.of}"


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number.

    Args:
        result: One result.

    Yields:
        The numbers.
    """
    for at in result.latency_at:
        yield Quantity("load", "fps", at.load_fps, at.of)
        yield Quantity("loss_ratio", "ratio", at.loss_ratio, at.of)
        for name in _directions(at):
            mean, found = at.mean_ns.get(name), at.latency.get(name)
            if mean is not None:
                yield Quantity("latency_mean", "ns", mean, at.of, name)
            if found is not None:
                yield Quantity("latency_min", "ns", found.min_ns, at.of, name)
                for level, value in found.percentiles.items():
                    yield Quantity(f"latency_p{level}", "ns", value, at.of, name)
                yield Quantity("latency_max", "ns", found.max_ns, at.of, name)
            varied = at.variation.get(name)
            if varied is not None:
                for part in ("pdv", "ipdv_min", "ipdv_median", "ipdv_max"):
                    value = getattr(varied, f"{part}_ns")
                    yield Quantity(part, "ns", value, at.of, name, varied.why)
