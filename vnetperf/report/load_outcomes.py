"""Results of tests at given loads: repetitions, latency, frame loss, forwarding rate, soak."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.outcomes import ForwardingRate, LatencyAt, LossStep, Soak, Spread
from vnetperf.model.result import Result
from vnetperf.report import text
from vnetperf.report.summary import Group
from vnetperf.report.table import NONE, Table, distinct_sentences, group_sentences
from vnetperf.results.metrics import latency_directions

_REPETITION_HEAD = (
    "size",
    "goal",
    "lower bound, aggregate",
    "std. dev.",
    "least",
    "most",
    "rounds",
)


def repeated_goals(group: Group) -> Iterator[tuple[Result, str, Spread]]:
    """Goals that were searched for several times."""
    for result in group.measured:
        for goal in result.goals:
            if goal.repeats is not None:
                yield result, goal.name, goal.repeats


def _repetition_notes(every: list[tuple[Result, str, Spread]]) -> Iterator[str]:
    yield text.interval_note([found for _, _, found in every])
    yield "All other figures are of the round whose lower bound is in the middle."
    for result, name, found in every:
        for remark in text.remarks(found, "fps"):
            yield f"{result.size_text}, {name}: {remark}."


def repetition_tables(group: Group) -> tuple[Table, ...]:
    """Rounds by frame size and goal."""
    every = list(repeated_goals(group))
    rows = tuple(
        (
            result.size_name,
            name,
            text.mean_interval(found, "fps"),
            text.stdev(found, "fps"),
            text.fps(found.minimum),
            text.fps(found.maximum),
            str(found.n),
        )
        for result, name, found in every
    )
    said = distinct_sentences(_repetition_notes(every)) if every else ()
    return (Table("Rounds", _REPETITION_HEAD, rows, said, words=frozenset({0, 1}), bold=2),)


def repetition_headline(result: Result) -> tuple[str, str]:
    """Nothing: the goal's own number is the answer."""
    del result
    return "", ""


_LATENCY_HEAD = (
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
_VARIATION_HEAD = (
    "size",
    "load",
    "direction",
    "PDV, D(99.9) - Dmin",
    "IPDV least",
    "IPDV median",
    "IPDV largest",
)


def _ns_or_none(value: float | None) -> str:
    return NONE if value is None else text.nanoseconds(value)


def _latency_row(result: Result, at: LatencyAt, name: str) -> tuple[str, ...]:
    mean, all_of = at.mean_ns.get(name), at.latency.get(name)
    found = all_of.percentiles if all_of else {}
    medium = result.media_max_fps
    return (
        result.size_name,
        at.of,
        name,
        text.mean_with_n(mean, "ns") if mean else NONE,
        _ns_or_none(all_of.min_ns if all_of else None),
        *(_ns_or_none(found.get(p)) for p in ("50", "99", "99.9")),
        _ns_or_none(all_of.max_ns if all_of else None),
        text.percent(at.loss_ratio),
        text.fps(at.load_fps),
        NONE if not medium else text.percent(at.load_fps / medium, 3),
    )


def _latency_loads(group: Group) -> Iterator[tuple[Result, LatencyAt, str]]:
    for result in group.measured:
        for at in result.latency_at:
            for name in latency_directions(at):
                yield result, at, name


def _latency_notes(group: Group) -> Iterator[str]:
    every = [at for result in group.measured for at in result.latency_at]
    yield text.interval_note([s for at in every for s in at.mean_ns.values()])
    for definition in dict.fromkeys(at.definition for at in every):
        ends = {"store-and-forward": "last bit in to first bit out"}
        how = ends.get(definition, "first bit in to first bit out")
        yield f"Latency as RFC 1242 section 3.8 defines it for {definition} devices: {how}."
    tags = sorted({at.tag_at_s for at in every})
    if any(tags):
        shown = " or ".join(text.seconds(tag) for tag in tags)
        yield f"Frames of the first {shown} of a trial are not in it; every later one is."
    for result, at, name in _latency_loads(group):
        if name in at.mean_ns:
            for remark in text.remarks(at.mean_ns[name], "ns"):
                yield f"{result.size_text}, {at.of}, {name}: {remark}."
    yield from group_sentences(
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


def _variation_rows(group: Group) -> Iterator[tuple[str, ...]]:
    for result, at, name in _latency_loads(group):
        found = at.variation.get(name)
        if found is not None:
            parts = (found.pdv_ns, found.ipdv_min_ns, found.ipdv_median_ns, found.ipdv_max_ns)
            yield result.size_name, at.of, name, *map(_ns_or_none, parts)


def _variation_notes(group: Group) -> Iterator[str]:
    yield "The largest of all trials. PDV: RFC 5481 section 4.2; IPDV: RFC 8219 section 7.3.2."
    yield from group_sentences(
        (f"{result.size_text} at {at.of}", at.variation[name].why)
        for result, at, name in _latency_loads(group)
        if name in at.variation
    )


def latency_tables(group: Group) -> tuple[Table, ...]:
    """Latency and delay variation of one scenario."""
    return (
        Table(
            "Latency",
            _LATENCY_HEAD,
            tuple(_latency_row(*one) for one in _latency_loads(group)),
            distinct_sentences(_latency_notes(group)),
            words=frozenset({0, 1, 2}),
            brief=(0, 1, 2, 3, 5, 6, 8),
            bold=3,
        ),
        Table(
            "Delay variation",
            _VARIATION_HEAD,
            tuple(_variation_rows(group)),
            distinct_sentences(_variation_notes(group)),
            words=frozenset({0, 1, 2}),
            brief=(0, 1, 2, 3, 5),
        ),
    )


def latency_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    if not result.latency_at:
        return "", ""
    at = result.latency_at[0]
    slowest = max(at.mean_ns.values(), key=lambda s: s.mean, default=None)
    if slowest is None:
        return "not measured", at.note or f"no frame arrived at {at.of}"
    worst = max((v.percentiles.get("99", 0.0) for v in at.latency.values()), default=0.0)
    tail = f"99 %: {text.nanoseconds(worst)}, " if worst else ""
    return text.mean_with_n(slowest, "ns"), f"{tail}at {at.of}"


def largest_clean(result: Result) -> LossStep | None:
    """The largest load at and below which no frame was lost."""
    found = None
    for step in sorted(result.loss_steps, key=lambda s: s.load_fps):
        if step.loss_ratio > 0:
            break
        found = step
    return found


def _loss_rows(group: Group, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
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


def loss_tables(group: Group) -> tuple[Table, ...]:
    """Loss at each load."""
    names = tuple(
        dict.fromkeys(n for r in group.measured for s in r.loss_steps for n in s.per_direction)
    )
    head = ("size", "input rate", "load, aggregate", "loss, worse direction")
    rows = tuple(_loss_rows(group, names))
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


def loss_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    if not result.loss_steps:
        return "", ""
    clean = largest_clean(result)
    top = max(result.loss_steps, key=lambda s: s.load_fps)
    lost = f"{text.percent(top.loss_ratio, 3)} lost at {text.short_fps(top.load_fps)}"
    if clean is None:
        return "loss at every load", lost
    return f"no loss to {text.short_fps(clean.load_fps)}", lost


_RATE_HEAD = (
    "size",
    "load",
    "forwarding rate, aggregate",
    "std. dev.",
    "least",
    "most",
    "trials",
    "of",
    "loss, worse direction, mean",
    "of the medium",
    "load, aggregate",
)


def _rate_row(result: Result, found: ForwardingRate) -> tuple[str, ...]:
    rate, medium = found.forwarded_fps, result.media_max_fps
    return (
        result.size_name,
        found.of,
        text.mean_interval(rate, "fps"),
        text.stdev(rate, "fps"),
        text.fps(rate.minimum),
        text.fps(rate.maximum),
        str(rate.n),
        text.seconds(found.duration_s),
        text.percent(found.loss_ratio.mean),
        text.percent(rate.mean / medium, 3) if medium else "not measured",
        text.fps(found.load_fps),
    )


def _rate_notes(group: Group) -> Iterator[str]:
    every = [(r, found) for r in group.measured for found in r.rates]
    yield text.interval_note([found.forwarded_fps for _, found in every])
    for result, found in every:
        for remark in text.remarks(found.forwarded_fps, "fps"):
            yield f"{result.size_text}, {found.of}: {remark}."


def rate_tables(group: Group) -> tuple[Table, ...]:
    """Forwarding rates."""
    rows = tuple(_rate_row(r, found) for r in group.measured for found in r.rates)
    words = frozenset({0, 1})
    brief = (0, 1, 10, 2, 3, 6, 8)
    said = distinct_sentences(_rate_notes(group))
    return (Table("Forwarding rate", _RATE_HEAD, rows, said, words=words, brief=brief, bold=2),)


def rate_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    if not result.rates:
        return "", ""
    best = max(result.rates, key=lambda found: found.forwarded_fps.mean)
    said = f"at {text.short_fps(best.load_fps)}, {text.percent(best.loss_ratio.mean, 3)} lost"
    return text.mean_with_n(best.forwarded_fps, "fps"), said


_SOAK_HEAD = (
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


def soak_verdict(found: Soak) -> str:
    """Whether the loss ratio that it is held against was met, as far as can be told."""
    if found.loss_high <= found.goal:
        return "met"
    if found.loss_low > found.goal:
        return "not met"
    return "cannot be told: the interval holds it"


def _soak_row(result: Result, found: Soak) -> tuple[str, ...]:
    pdv = [v.pdv_ns for v in found.variation.values() if v.pdv_ns is not None]
    return (
        result.size_name,
        text.fps(found.load_fps),
        found.of,
        text.seconds(found.seconds),
        text.percent(found.loss_ratio),
        f"{text.percent(found.loss_low, 3)} to {text.percent(found.loss_high, 3)}",
        text.percent(found.goal),
        soak_verdict(found),
        text.frames(found.lost),
        text.frames(found.offered),
        text.nanoseconds(max(pdv)) if pdv else NONE,
    )


def _soak_notes(known: list[tuple[Result, Soak]]) -> Iterator[str]:
    if known:
        yield "Interval of the loss ratio: Clopper-Pearson, as if frames were lost independently."
    yield from group_sentences((result.size_text, found.note) for result, found in known)
    yield from group_sentences((r.size_text, v.why) for r, f in known for v in f.variation.values())


def soak_tables(group: Group) -> tuple[Table, ...]:
    """Soaks by frame size."""
    known = [(r, r.soak) for r in group.measured if r.soak]
    rows = tuple(_soak_row(*pair) for pair in known)
    words = frozenset({0, 2, 7})
    brief = (0, 2, 3, 4, 5, 6, 7)
    return (
        Table(
            "Soak",
            _SOAK_HEAD,
            rows,
            distinct_sentences(_soak_notes(known)),
            words=words,
            brief=brief,
            bold=4,
        ),
    )


def soak_headline(result: Result) -> tuple[str, str]:
    """The answer in few words."""
    found = result.soak
    if found is None:
        return "", ""
    said = soak_verdict(found).partition(":")[0]
    high = text.percent(found.loss_high, 3)
    return f"{text.percent(found.loss_ratio, 3)} lost", f"below {high}; {said}"
