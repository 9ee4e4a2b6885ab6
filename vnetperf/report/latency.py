"""Tables of latency: at the loads of a throughput, over absolute loads, by RFC 8219."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from vnetperf.model import units
from vnetperf.model.outcomes import DelayVariation, LatencyAt, OverTrials, Spread
from vnetperf.model.result import Result
from vnetperf.model.trial import Latency, RoundTrip
from vnetperf.model.units import nanoseconds, percent, seconds
from vnetperf.procedures.latency import latency_directions
from vnetperf.report import goal_text, text
from vnetperf.report.summary import Group, medium_share
from vnetperf.report.table import NOT_MEASURED, Column, Table, group_sentences

LATENCY_LOAD = "latency_load"


@dataclass(frozen=True, slots=True)
class _Direction:
    """Latency of one direction at one load."""

    result: Result
    load: LatencyAt
    name: str

    @property
    def mean(self) -> Spread | None:
        return self.load.mean_ns.get(self.name)

    @property
    def latency(self) -> Latency | None:
        return self.load.latency.get(self.name)

    @property
    def variation(self) -> DelayVariation | None:
        return self.load.variation.get(self.name)

    def varied(self, part: str) -> str:
        return text.single_or_none(getattr(self.variation, part), "ns") or NOT_MEASURED

    def extreme(self, part: str) -> str:
        shown = text.single_or_none(getattr(self.latency, part), "ns") if self.latency else None
        return shown or NOT_MEASURED

    def percentile(self, level: str) -> str:
        value = self.latency.percentiles.get(level) if self.latency else None
        return text.single_or_none(value, "ns") or NOT_MEASURED


_LATENCY: tuple[Column[_Direction], ...] = (
    Column("size", lambda d: d.result.size_name, words=True),
    Column("load", lambda d: d.load.of, words=True),
    Column("direction", lambda d: d.name, words=True),
    Column(
        "latency, mean of the trials",
        lambda d: text.mean_with_n(d.mean, "ns") if d.mean else NOT_MEASURED,
        bold=True,
    ),
    Column("least", lambda d: d.extreme("min_ns"), brief=False),
    Column("median", lambda d: d.percentile("50")),
    Column("99 %", lambda d: d.percentile("99")),
    Column("99.9 %", lambda d: d.percentile("99.9"), brief=False),
    Column("largest", lambda d: d.extreme("max_ns")),
    Column("tester's poll gaps", lambda d: goal_text.gaps_text(d.load.gaps), brief=False),
    Column("loss", lambda d: percent(d.load.loss_ratio), brief=False),
    Column("rate, aggregate", lambda d: units.fps(d.load.load_fps), brief=False),
    Column(
        "of the medium",
        lambda d: medium_share(d.load.load_fps, d.result),
        brief=False,
        optional=True,
    ),
)


#: What a latency is that has the names of both ends, and the first one again.
ROUND_TRIP_NOTE = (
    "A way there and back is a round trip through the DUT: of frames that asked for an answer, "
    "without the time in which the tester's other host held them. No half of it is a latency."
)


def _load_text(entry: _Direction) -> str:
    """What became of a load that is the same for every DUT."""
    load = entry.load
    if not load.trials:
        return "not measured"
    lost = "carried" if load.loss_ratio <= 0 else f"not carried: {percent(load.loss_ratio, 3)} lost"
    bad = f"; irregular: {load.discarded} trials discarded" if load.is_selection else ""
    bound = goal_text.tester_bound_text(load.gaps, entry.latency, entry.name)
    return f"{lost}{bad}" + (f"; {goal_text.TESTER_BOUND} at {bound}" if bound else "")


#: The latency curve: a row for each load, whether it could be measured or not.
_CURVE: tuple[Column[_Direction], ...] = (
    Column("size", lambda d: d.result.size_name, words=True),
    Column("load", lambda d: d.load.of, words=True),
    Column("direction", lambda d: d.name or None, words=True),
    Column("median", lambda d: d.percentile("50")),
    Column("99 %", lambda d: d.percentile("99"), bold=True),
    Column("99.9 %", lambda d: d.percentile("99.9")),
    Column("largest", lambda d: d.extreme("max_ns"), brief=False),
    Column("tester's poll gap, 99 %", lambda d: _curve_gap(d.load), brief=False),
    Column("loss", lambda d: percent(d.load.loss_ratio) if d.load.trials else None),
    Column(
        "forwarded, aggregate",
        lambda d: text.single_or_none(d.load.forwarded_fps, "fps"),
        brief=False,
    ),
    Column("trials", lambda d: _curve_trials(d.load), brief=False),
    Column("the load", _load_text, words=True),
)


def _curve_gap(load: LatencyAt) -> str | None:
    if not load.trials:
        return None
    gap_s = load.gaps.poll.percentiles.get("99") if load.gaps is not None else None
    return "not recorded" if gap_s is None else nanoseconds(gap_s * 1e9)


def _curve_trials(load: LatencyAt) -> str:
    return f"{len(load.trials)}" + (f", {load.discarded} discarded" if load.discarded else "")


def _curve_notes(directions: list[_Direction]) -> Iterator[str]:
    yield (
        "The loads are absolute, the same for every DUT: at one of them switches can be compared. "
        "Percentiles are of all frames of its trials; frames that were lost are in none."
    )
    for definition in dict.fromkeys(d.load.definition for d in directions):
        yield f"Latency as RFC 1242 section 3.8 defines it for {definition} devices."
    if any(RoundTrip.is_name(d.name) for d in directions):
        yield ROUND_TRIP_NOTE
    yield from group_sentences(
        (f"{d.result.size_name} at {d.load.of}", d.load.note) for d in directions
    )
    tags = sorted({d.load.tag_at_s for d in directions} - {0.0})
    if tags:
        yield f"Frames of the first {' or '.join(map(seconds, tags))} of a trial are not in it."
    yield from goal_text.merged_notes(_direction_notes(directions, bounds=False))


def _trial_median(over_trials: OverTrials | None) -> str | None:
    if over_trials is None:
        return None
    low, high = over_trials.p1_ns, over_trials.p99_ns
    return f"{text.by_spread(over_trials.median_ns, low, high, 'ns')} (n {over_trials.n})"


def _trial_range(over_trials: OverTrials | None) -> str | None:
    if over_trials is None:
        return None
    return text.range_text(over_trials.p1_ns, over_trials.p99_ns, "ns")


_RFC8219: tuple[Column[_Direction], ...] = (
    *_LATENCY[:3],
    Column("typical latency", lambda d: _trial_median(d.load.typical.get(d.name)), bold=True),
    Column("1st to 99th %", lambda d: _trial_range(d.load.typical.get(d.name)), brief=False),
    Column("worst-case latency", lambda d: _trial_median(d.load.worst_case.get(d.name))),
    Column("its 1st to 99th %", lambda d: _trial_range(d.load.worst_case.get(d.name)), brief=False),
    Column("PDV", lambda d: _trial_median(d.variation.pdv if d.variation else None)),
    Column(
        "PDV, 1st to 99th %",
        lambda d: _trial_range(d.variation.pdv if d.variation else None),
        brief=False,
    ),
)
#: Trials from which on RFC 8219 has a median of them.
_RFC8219_TRIALS = 20
_VARIATION: tuple[Column[_Direction], ...] = (
    *_LATENCY[:3],
    Column("PDV, D(99.9) - Dmin", lambda d: d.varied("pdv_ns")),
    Column("IPDV least", lambda d: d.varied("ipdv_min_ns"), brief=False),
    Column("IPDV median", lambda d: d.varied("ipdv_median_ns")),
    Column("IPDV largest", lambda d: d.varied("ipdv_max_ns"), brief=False),
    Column("IPDV resolution", lambda d: d.varied("ipdv_resolution_ns"), brief=False),
    Column(
        "frames with a shared stamp",
        lambda d: text.single_or_none(d.variation.shared_stamps if d.variation else None, "ratio"),
        brief=False,
    ),
)


def _direction_notes(
    directions: list[_Direction], *, bounds: bool = True
) -> Iterator[tuple[str, str, str, str]]:
    """What is to be known of single directions, with size and load; a curve has bounds itself."""
    for d in directions:
        place = d.result.size_text, f"at {d.load.of}", d.name
        bound = goal_text.tester_bound_text(d.load.gaps, d.latency, d.name)
        if bounds and bound:
            yield *place, f"{goal_text.tester_bound_note(bound)}."
        if d.latency is not None and (untimed := goal_text.untimed_text(d.latency)):
            yield *place, f"{untimed}."


def _latency_notes(directions: list[_Direction], group: Group) -> Iterator[str]:
    loads = group.entries(lambda r: r.latency_at)
    yield text.interval_note([s for e in loads for s in e.outcome.mean_ns.values()])
    for definition in dict.fromkeys(e.outcome.definition for e in loads):
        ends = {"store-and-forward": "last bit in to first bit out"}
        interval = ends.get(definition, "first bit in to first bit out")
        yield f"Latency as RFC 1242 section 3.8 defines it for {definition} devices: {interval}."
    tags = sorted({e.outcome.tag_at_s for e in loads})
    if any(RoundTrip.is_name(d.name) for d in directions):
        yield ROUND_TRIP_NOTE
    if any(tags):
        shown = " or ".join(seconds(tag) for tag in tags)
        yield f"Frames of the first {shown} of a trial are not in it; every later one is."
    means = ((f"{d.result.size_text}, {d.load.of}, {d.name}", d.mean) for d in directions if d.mean)
    yield from text.list_remarks(means, "ns")
    yield from group_sentences(
        (f"{e.result.size_text} at {e.outcome.of}", e.outcome.note) for e in loads
    )
    yield from goal_text.merged_notes(_direction_notes(directions))
    lossy = {f"{e.result.size_name} at {e.outcome.of}" for e in loads if e.outcome.loss_ratio > 0}
    if lossy:
        yield f"Frames were lost; their latency is unknown: {', '.join(sorted(lossy))}."


def _with_typical(directions: list[_Direction]) -> list[_Direction]:
    return [d for d in directions if d.name in d.load.typical]


def _rfc8219_notes(directions: list[_Direction]) -> Iterator[str]:
    yield (
        "Typical latency is the median of a trial's frames, worst-case latency their 99.9th "
        "percentile, PDV that less the smallest; of each the median over the trials, and the 1st "
        "and 99th percentile of the trials."
    )
    fewest = min((d.load.typical[d.name].n for d in _with_typical(directions)), default=0)
    if fewest < _RFC8219_TRIALS:
        yield f"RFC 8219 requires {_RFC8219_TRIALS} trials or more; here are {fewest}."


def tables(group: Group) -> Iterator[Table]:
    """Latency by load and direction, RFC 8219's figures, and delay variation."""
    rows = [
        _Direction(e.result, e.outcome, name)
        for e in group.entries(lambda r: r.latency_at)
        for name in latency_directions(e.outcome) or ("",)
    ]
    directions = [d for d in rows if d.name]
    if group.test == LATENCY_LOAD:
        yield Table.from_items("Latency by load", _CURVE, rows, _curve_notes(rows))
    else:
        yield Table.from_items("Latency", _LATENCY, directions, _latency_notes(directions, group))
    yield Table.from_items(
        "Latency (RFC 8219)", _RFC8219, _with_typical(directions), _rfc8219_notes(directions)
    )
    varied = [(d, d.variation) for d in directions if d.variation is not None]
    reasons = [(f"{d.result.size_text} at {d.load.of}", variation.why) for d, variation in varied]
    notes = [
        "The largest of all trials. PDV: RFC 5481 section 4.2; IPDV: RFC 8219 section 7.3.2, of "
        "frames that have a stamp of departure of their own; its resolution is the mean time "
        "between polls that found frames.",
        *group_sentences(reasons),
    ]
    yield Table.from_items("Delay variation", _VARIATION, [d for d, _ in varied], notes)


def _curve_headline(loads: tuple[LatencyAt, ...]) -> tuple[str, str]:
    """The latency at the largest load up to which none was lost, which is no throughput."""
    tried = sorted(
        (load for load in loads if load.trials and load.latency), key=lambda load: load.load_fps
    )
    clean = list(takewhile(lambda load: load.loss_ratio <= 0, tried))
    if not tried:
        return "not measured", next(
            (load.note for load in loads if load.note), "no load was offered"
        )
    if not clean:
        return "not measured", f"frames were lost at the smallest load, {tried[0].of}"
    load = clean[-1]
    # Where trials at one load have the one or the other, one way is the answer.
    both_ways = all(map(RoundTrip.is_name, load.latency))
    latencies = [
        latency for name, latency in load.latency.items() if RoundTrip.is_name(name) is both_ways
    ]
    worst = [
        max(latency.percentiles.get(level, 0.0) for latency in latencies) for level in ("50", "99")
    ]
    conditions = f"median {nanoseconds(worst[0])}, at {load.of}"
    return f"99 %: {nanoseconds(worst[1])}", conditions + ", round trip" * both_ways


def headline(result: Result, loads: tuple[LatencyAt, ...]) -> tuple[str, str]:
    """The answer in few words, and what it was found with."""
    if result.test == LATENCY_LOAD:
        return _curve_headline(loads)
    load = loads[0]
    name = max(load.mean_ns, key=lambda direction: load.mean_ns[direction].mean, default=None)
    if name is None:
        return "not measured", load.note or f"no frame arrived at {load.of}"
    worst = max((v.percentiles.get("99", 0.0) for v in load.latency.values()), default=0.0)
    tail = f"99 %: {nanoseconds(worst)}, " if worst else ""
    conditions = f"{tail}at {load.of}" + (", round trip" if RoundTrip.is_name(name) else "")
    return text.mean_with_n(load.mean_ns[name], "ns"), conditions
