"""The metrics of results: name, unit, value with interval, and the direction that is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite
from typing import Any, Literal, TypeAlias, get_args

from vnetperf.model.outcomes import (
    MOST_FORWARDED,
    VSWITCH,
    AddressTable,
    BackToBack,
    CpuLoad,
    ForwardingRate,
    LatencyAt,
    LossStep,
    NatSessions,
    OverTrials,
    Recovery,
    Reset,
    Service,
    Soak,
    Spread,
)
from vnetperf.model.parameters import ADDRESSES_RESOLUTION, LEARNING_RESOLUTION
from vnetperf.model.result import (
    MACHINE,
    OTHERS,
    GoalResult,
    Observation,
    RepeatedNumber,
    Result,
)
from vnetperf.model.transfer import MPI_PAIRS, Kind
from vnetperf.model.trial import Latency, TrialGaps
from vnetperf.model.units import Unit, fps, percent
from vnetperf.statistics import clopper_pearson, spread
from vnetperf.statistics.difference import Measurand

#: Key of a metric within its scenario: test, frame size, label.
Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of one test."""

    scenario: str  # "pvp_dpdk"
    test: str  # "throughput" ...
    size: str  # Frame size as a table names it: "64", "imix"; "" for none
    name: str = ""  # Its name in files for programs: "latency_mean"; "" where it is not in them
    goal: str = ""  # The goal of a search that it belongs to; "" for what other tests measured
    item: str = ""  # What it is of, where a test has several: "90 % of throughput", "link phy0"
    direction: str = ""  # "phy0->phy1"; "" for all of them together
    #: Its name where runs are compared: "mean at 90 % of throughput phy0->phy1"; "" where it is not
    #: compared.
    label: str = ""
    of: str = ""  # What a run may have several of with one label: "8 instances"
    unit: Unit  # What `value` is in
    #: The number, or the spread whose mean it is; None: not measured.
    value: float | bool | Spread | None
    #: What a search or an interval leaves open; None: nothing, or what the spread does.
    bounds: tuple[float, float] | None = None
    resolution: float = 0.0  # Smallest difference that the test can tell, in `unit`; 0: not limited
    #: Load that it was measured at, aggregate frames/s (of transfers bit/s); None where it is a
    #: load itself. Numbers at different loads are not comparable.
    load_fps: float | None = None
    finds_load: bool = False  # True where the load is an outcome as the number is
    #: What other deployments of the run gave for it; None for a single one.
    over: RepeatedNumber | None = None
    #: Whether more or less of it is better; "" where neither is.
    better: Literal["more", "less", ""] = ""
    main: bool = False  # False for what stands beside the number that the test is for
    note: str = ""  # What keeps it from being a result; ""
    qualifiers: tuple[str, ...] = ()  # "at least", "irregular" ...
    partial: str = ""  # "measured in 2 of 3 deployments"; "" where each of them gave it
    why: str = ""  # Why it was not measured
    #: What it was measured for; numbers of other conditions are not comparable.
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Its key among the metrics of its scenario."""
        return self.test, self.size, self.title

    @property
    def title(self) -> str:
        """Its label, with what tells numbers of one label apart."""
        return f"{self.label}, {self.of}" if self.of else self.label

    @property
    def offered_fps(self) -> float | None:
        """The load as far as it is a condition: only numbers at the same one are comparable."""
        return None if self.finds_load else self.load_fps

    @property
    def spread(self) -> Spread | None:
        """Its repeats: over deployments where there are several, else within the only one."""
        if self.over is not None:
            return self.over.spread
        return self.value if isinstance(self.value, Spread) else None

    @property
    def number(self) -> float | bool | None:
        """The number alone: of a spread its mean, of two modes none."""
        if isinstance(self.value, Spread):
            return None if len(self.value.modes) > 1 else self.value.mean
        return self.value

    @property
    def measured(self) -> Measurand | None:
        """The number with what it leaves open; of two modes their mean, which `marks` shows.

        One that is not repeatable has no value: it may be anything that it leaves open.
        """
        value = self.value
        if self.is_range and self.bounds is not None:
            return Measurand(None, *self.bounds)
        if isinstance(value, Spread):
            low = value.mean if value.low is None else value.low
            high = value.mean if value.high is None else value.high
            return Measurand(value.mean, low, high)
        if self.bounds is not None:
            return Measurand(value, *self.bounds)
        if value is not None and "at least" in self.qualifiers:
            return Measurand(value, value, inf)
        return None if value is None else Measurand.exact(value)

    @property
    def censored(self) -> Literal["", "at least", "at most"]:
        """Which way it is open, where it is a bound only: it enters no mean."""
        if self.is_range:
            return ""
        if "at least" in self.qualifiers:
            return "at least"
        known = self.measured is None or self.measured.value is not None
        return "" if known and "at most" not in self.qualifiers else "at most"

    @property
    def is_range(self) -> bool:
        """Whether rounds of it found a range, and no number that repeats: no mean has it."""
        return "not repeatable" in self.qualifiers

    @property
    def mean(self) -> float | None:
        """The measured number: of a spread its mean, of two modes too."""
        return self.measured.value if self.measured else None

    @property
    def repeats(self) -> tuple[float, ...]:
        """Every repeat within the result, in order; empty for a single one."""
        return self.spread.values if self.spread and self.spread.n > 1 else ()

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must see beside it: "at least", "irregular", "two modes" ..."""
        spread = self.spread
        modes = ("two modes",) if spread and spread.modes else ()
        far = (f"{len(spread.outliers)} outliers",) if spread and spread.outliers else ()
        partial = (self.partial,) if self.partial else ()
        return (*self.qualifiers, *partial, *modes, *far)


#: Makes a metric of one result.
_Make: TypeAlias = Callable[..., Metric]
#: Percentiles of latency that are compared; others move with single frames.
COMPARED_PERCENTILES = ("50", "99")
#: Those of the latency curve, whose loads are the same in every run; the second is what it is for.
CURVE_PERCENTILES, _CURVE_MAIN = ("50", "99", "99.9"), "99"
_RESET_METHODS = {"loss": "loss", "time": "time stamps"}
TRANSFERS_TEST, PODS_TEST = "transfers", "pods"


def repeated_number(label: str, found: Mapping[int, Metric]) -> RepeatedNumber:
    """One number of several deployments, by their rounds; each of them has measured it."""
    first = next(iter(found.values()))
    observations = tuple(_observation(n, metric) for n, metric in found.items())
    known = [one.value for one in observations if one.value is not None and not one.qualifier]
    spread_ = None
    if len(known) == len(observations):
        spread_ = spread(known, resolution=max(metric.resolution for metric in found.values()))
    return RepeatedNumber(
        label=label, unit=first.unit, main=first.main, observations=observations, spread=spread_
    )


def _observation(number: int, metric: Metric) -> Observation:
    measured = metric.measured
    assert measured is not None  # noqa: S101 - for the type checker: callers have looked
    return Observation(
        round=number,
        value=measured.value,
        low=measured.low if isfinite(measured.low) else None,
        high=measured.high if isfinite(measured.high) else None,
        qualifier=metric.censored or ("not repeatable" if metric.is_range else ""),
        load_fps=metric.load_fps,
    )


def partial_mark(measured: int, attempted: int) -> str:
    """The mark of a number that not every deployment gave; "" of one that each did."""
    return "" if measured == attempted else f"measured in {measured} of {attempted} deployments"


def main_number(kind: str, way: str) -> tuple[str, Unit, Literal["more", "less"]]:
    """Label and unit of the number that a transfer is for, and whether more of it is better."""
    if kind.startswith("GUEST_"):
        return kind, "1/s" if kind == "GUEST_CPU" else "octet/s", "more"
    if kind == "MPI_HPL":
        return "MPI_HPL flop/s", "1/s", "more"
    if kind.startswith("MPI_"):
        is_rate = kind in MPI_PAIRS and kind != "MPI_LATENCY"
        return (kind, "bit/s", "more") if is_rate else (f"{kind} time", "ns", "less")
    return f"{kind} {way}", "bit/s" if kind.endswith("_STREAM") else "1/s", "more"


def compared_metrics_of(result: Result) -> Iterator[Metric]:
    """What of a result is compared; where it was not measured, one metric that has the reason."""
    every = metrics_of(result)  # without a result one of them has neither label nor name
    return (metric for metric in every if metric.label or (metric.why and not metric.name))


def named_metrics_of(result: Result) -> Iterator[Metric]:
    """What of a result is in files for programs, besides the numbers of goals."""
    return (metric for metric in metrics_of(result) if metric.name and not metric.goal)


def goal_metrics_of(result: Result, goal: GoalResult) -> Iterator[Metric]:
    """What of a goal is in files for programs."""
    return (metric for metric in metrics_of(result) if metric.goal == goal.name)


def why_no_number(result: Result) -> str:
    """Why a result has no number of what its test is for; "" where it has one, compared or not."""
    found = list(metrics_of(result))
    meant = [one for one in found if one.main] or [one for one in found if one.label]
    if any(one.measured is not None or one.over is not None for one in meant):
        return ""
    return next((why for one in meant if (why := one.why or one.note)), _why(result))


def metrics_of(result: Result) -> Iterator[Metric]:
    """Every number of a result, with what other deployments gave for it."""
    found = result.deployments
    over = {one.label: one for one in found.numbers} if found is not None else {}
    if found is not None:
        counts = (
            ("attempted", found.attempted),
            ("measured", found.measured),
            ("failed", len(found.failures)),
        )
        for what, count in counts:
            yield Metric(**_case(result), name=f"deployments_{what}", unit="", value=float(count))
    for one in _metrics_of_shown(result):
        repeated = over.get(one.label) if one.label else None
        metric = one
        if one.label and found is not None and found.measured:
            n = len(repeated.observations) if repeated is not None else found.measured
            metric = replace(one, partial=partial_mark(n, found.attempted))
        if repeated is None:
            yield metric
            continue
        yield replace(metric, over=repeated)
        name = metric.name or ("lower_bound" if metric.main else "")
        if name and repeated.spread is not None:
            yield Metric(
                scenario=metric.scenario,
                test=metric.test,
                size=metric.size,
                name=f"{name}_of_rounds",
                item=metric.item or metric.label,
                direction=metric.direction,
                unit=metric.unit,
                value=repeated.spread,
                conditions=metric.conditions,
            )


def _case(result: Result) -> dict[str, Any]:
    return {"scenario": result.scenario, "test": result.test, "size": result.size_name}


def _why(result: Result) -> str:
    return result.why or "no reason was recorded"


def _not_measured(result: Result) -> Metric | None:
    """Of a transfer that failed, in the place of its number; None of a test of frames."""
    kind, _, way = result.test.partition(" ")
    if kind not in get_args(Kind):
        return None
    label, unit, better = main_number(kind, way)
    return Metric(
        scenario=result.scenario,
        test=TRANSFERS_TEST,
        size=str(result.frame_size or ""),
        label=label,
        of=result.of,
        unit=unit,
        better=better,
        value=None,
        main=True,
        why=_why(result),
    )


def _metrics_of_shown(result: Result) -> Iterator[Metric]:
    """Every number of the deployment that a result is of."""
    conditions: dict[str, Any] = {
        "directions": result.directions,
        "loads": list(result.loads),
        **result.test_inputs,
    }
    if result.imix:
        conditions["imix"] = result.imix
    if result.of_other_deployment:
        conditions["throughput"] = "that of another deployment"
    irregular = "irregular" if result.irregular else ""

    def make(
        name: str,
        unit: Unit,
        value: float | bool | Spread | None,
        item: str = "",
        direction: str = "",
        *,
        more: str = "",
        less: str = "",
        given: Mapping[str, Any] | None = None,
        **other: Any,
    ) -> Metric:
        """More, less: the label where runs are compared; given: conditions besides the result's."""
        if other.get("main") and irregular:
            other["qualifiers"] = (*other.get("qualifiers", ()), irregular)
        return Metric(
            **_case(result),
            name=name,
            unit=unit,
            value=value,
            item=item,
            direction=direction,
            label=more or less,
            better="more" if more else "less" if less else "",
            conditions={**conditions, **(given or {})},
            **other,
        )

    if result.status != "measured":
        yield _not_measured(result) or make("", "fps", None, main=True, why=_why(result))
    for name, count in result.faults:
        if count is not None:
            yield make(f"frames_{name}", "frames", float(count))
    if result.status != "measured":
        return
    if result.discarded is not None:
        yield make("discarded_trials", "trials", float(result.discarded))
    for goal in result.goals:
        yield from _of_goal(make, goal, result)
    for at in result.latency_at:
        yield from _of_latency(make, at, curve=result.test == "latency_load")
    if result.test == "latency" and not any(at.mean_ns for at in result.latency_at):
        # Every load was above the largest one, or nothing came back.
        whys = (at.note.removeprefix("not measured: ") for at in result.latency_at)
        why = "; ".join(dict.fromkeys(filter(None, whys))) or "no frame was timed"
        yield make("", "ns", None, main=True, why=why)
    for field_, of in _OF_TESTS.items():
        if held := getattr(result, field_):
            yield from of(make, result, held)


def _marks_of(goal: GoalResult) -> tuple[str, ...]:
    """What a reader must see beside the number of a goal."""
    if goal.repeatable is False:
        return ("not repeatable",)
    mark = goal.qualifier or goal.mark
    open_ = goal.upper_bound_fps is None and goal.lower_bound_fps is not None
    # Without a qualifier the search ended before it found what is too much.
    marks = ("at least", mark) if open_ and not goal.qualifier else (mark,)
    return tuple(filter(None, marks))


def _of_goal(make: _Make, goal: GoalResult, result: Result) -> Iterator[Metric]:
    conditions: dict[str, Any] = {
        "loss ratio": goal.loss_ratio,
        "exceed ratio": goal.exceed_ratio,
        "final trial, s": goal.final_trial_s,
        "duration sum, s": goal.duration_sum_s,
        "width": goal.width,
    }
    if result.algorithm == "tst009" and "z" in result.search_inputs:
        # The width is that of the step at its bounds, and differs with them. StepSize is none
        # either: a share of the largest load differs with that. Each number leaves its step open.
        del conditions["width"]
        conditions["z"] = result.search_inputs["z"]
    low, high = goal.lower_bound_fps, goal.upper_bound_fps
    most = goal.most_fps
    open_above = most is None or goal.qualifier == "at least"
    yield make(
        "",
        "fps",
        low,
        bounds=None
        if low is None and high is None
        else (goal.least_fps or 0.0, inf if open_above or most is None else most),
        why=goal.reason if low is None and high is None else "",
        resolution=max(goal.width * (low or 0.0), (high or 0.0) - (low or 0.0) if high else 0.0),
        more=goal.name,
        main=True,
        qualifiers=_marks_of(goal),
        given=conditions,
    )
    for direction, latency in goal.latency.items():
        for percentile in COMPARED_PERCENTILES:
            value = latency.percentiles.get(percentile)
            label = f"{goal.name} latency p{percentile} {direction}"
            about = {"given": conditions, "load_fps": low}
            yield make("", "ns", value, less=label, **about)
    of = partial(make, goal=goal.name)
    yield of("lower_bound", "fps", low)
    yield of("upper_bound", "fps", high)
    yield of("conditional_throughput", "fps", goal.conditional_throughput_fps)
    yield of("lower_bound_l1", "bit/s", goal.throughput_l1_bps)
    yield of("loss_free", "fps", goal.loss_free_fps)
    yield of("loss_at_lower_bound", "ratio", goal.loss_at_lower_bound)
    yield of("regular", "", goal.regular)
    if goal.repeatable is not None:
        yield of("repeatable", "", goal.repeatable)
        yield of("rounds", "", float(len(goal.rounds)))
        yield of("least_lower_bound", "fps", goal.least_fps)
        yield of("largest_upper_bound", "fps", goal.most_fps)
    for side, at in (("lower", goal.at_lower_bound), ("upper", goal.at_upper_bound)):
        if at is not None:
            yield of(f"trials_at_{side}_bound", "trials", float(at.valid + at.discarded))
            yield of(f"discarded_at_{side}_bound", "trials", float(at.discarded))
    yield from _of_gaps(of, goal.gaps)
    for bound in goal.per_direction:
        yield of("lower_bound", "fps", bound.lower_bound_fps, direction=bound.direction)
        yield of("upper_bound", "fps", bound.upper_bound_fps, direction=bound.direction)
    for direction, latency in goal.latency.items():
        for level, value in latency.percentiles.items():
            yield of(f"latency_p{level}", "ns", value, direction=direction)
        for part in ("min", "mean", "max"):
            value = getattr(latency, f"{part}_ns")
            yield of(f"latency_{part}", "ns", value, direction=direction)
        yield from _of_untimed(partial(of, direction=direction), latency)


def _of_gaps(make: _Make, gaps: TrialGaps | None) -> Iterator[Metric]:
    """The tester's own wait, which stands beside every latency."""
    if gaps is None:
        return
    for level, value in gaps.poll.percentiles.items():
        yield make(f"tester_poll_gap_p{level}", "s", value)
    yield make("tester_poll_gap_max", "s", gaps.poll.max_s)
    yield make("tester_send_gap_max", "s", gaps.send.max_s)


def _of_untimed(make: _Make, latency: Latency) -> Iterator[Metric]:
    """Frames that are received and not, or not fully, in a latency."""
    for name in ("before_departure", "above_range"):
        count = getattr(latency, name)
        if count is not None:
            yield make(f"frames_{name}", "frames", float(count))


def latency_directions(at: LatencyAt) -> tuple[str, ...]:
    """The directions of which anything is known."""
    return tuple(dict.fromkeys([*at.mean_ns, *at.latency, *at.variation]))


def _of_latency(make: _Make, at: LatencyAt, *, curve: bool = False) -> Iterator[Metric]:
    """Latency at one load; curve: of loads that are the same for every DUT."""
    marks = _marks_of_load(at) if curve else ()
    about: dict[str, Any] = {
        "given": {"definition": at.definition, "tagged from, s": at.tag_at_s},
        "load_fps": at.load_fps,
        "qualifiers": marks,
    }
    yield make("load", "fps", at.load_fps, at.of)
    lost = {"less": f"loss at {at.of}", **about} if curve else {}
    if at.trials:
        yield make("loss_ratio", "ratio", at.loss_ratio, at.of, main=curve, **lost)
    elif curve:  # the tester cannot offer it: that is no failure of the DUT
        why = at.note.removeprefix("not measured: ")
        yield make("loss_ratio", "ratio", None, at.of, why=why, **lost)
    if at.forwarded_fps is not None:
        yield make("forwarding_rate", "fps", at.forwarded_fps, at.of)
    if at.discarded is not None:
        yield make("discarded_at_load", "trials", float(at.discarded), at.of)
    yield from _of_gaps(partial(make, item=at.of), at.gaps)
    for direction in latency_directions(at):
        of = (at.of, direction)
        yield from _of_direction(make, at, direction, about, curve=curve)
        for name, each in (("typical", at.typical), ("worst_case", at.worst_case)):
            if direction in each:
                yield from _over_trials(
                    partial(make, **about), f"latency_{name}", each[direction], of
                )
        varied = at.variation.get(direction)
        if varied is not None:
            if varied.pdv is not None:
                yield from _over_trials(make, "pdv", varied.pdv, of)
            for part in ("pdv", "ipdv_min", "ipdv_median", "ipdv_max"):
                number = getattr(varied, f"{part}_ns")
                yield make(part, "ns", number, *of, note=varied.why if number is None else "")
            yield make("ipdv_resolution", "ns", varied.ipdv_resolution_ns, *of)
            yield make("shared_stamps", "ratio", varied.shared_stamps, *of)


def _of_direction(
    make: _Make, at: LatencyAt, direction: str, about: Mapping[str, Any], *, curve: bool
) -> Iterator[Metric]:
    """The latency of one direction: a curve is compared by its percentiles."""
    of, there = (at.of, direction), f"at {at.of} {direction}"
    mean, found = at.mean_ns.get(direction), at.latency.get(direction)
    if mean is not None:
        label = "" if curve else f"mean {there}"
        yield make("latency_mean", "ns", mean, *of, less=label, main=not curve, **about)
    if found is None:
        return
    compared = CURVE_PERCENTILES if curve else COMPARED_PERCENTILES
    bound = at.gaps.bounds(found, direction) if curve and at.gaps is not None else ()
    yield make("latency_min", "ns", found.min_ns, *of)
    for level, value in found.percentiles.items():
        label = f"p{level} {there}" if level in compared else ""
        marks = (*about["qualifiers"], *(["tester-bound"] * (level in bound)))
        main = curve and level == _CURVE_MAIN
        shown = {**about, "qualifiers": marks, "main": main}
        yield make(f"latency_p{level}", "ns", value, *of, less=label, **shown)
    yield make("latency_max", "ns", found.max_ns, *of)
    yield from _of_untimed(partial(make, item=at.of, direction=direction), found)


def _marks_of_load(at: LatencyAt) -> tuple[str, ...]:
    """What must stand beside latencies at a load that not every DUT carries."""
    lost = (f"{percent(at.loss_ratio, 2)} lost",) if at.loss_ratio > 0 else ()
    return (*lost, *(["irregular"] if at.is_selection else []))


def _over_trials(
    make: _Make, name: str, found: OverTrials, of: tuple[str, str]
) -> Iterator[Metric]:
    """A number of each trial as RFC 8219 sums it up."""
    for part in ("median", "p1", "p99"):
        yield make(f"{name}_{part}_of_trials", "ns", getattr(found, f"{part}_ns"), *of)


def _of_loss_steps(make: _Make, result: Result, found: tuple[LossStep, ...]) -> Iterator[Metric]:
    for number, step in enumerate(found, 1):
        # Not a load of its own: the largest one can differ a little from run to run.
        label = f"loss at {step.input_ratio:.4g} of the largest load"
        if result.test == "loss_profile":
            label = f"loss at step {number}"
        item = fps(step.load_fps)
        if step.input_ratio:
            item = f"{percent(step.input_ratio)} of {fps(step.load_fps / step.input_ratio)}"
        yield make("load", "fps", step.load_fps, item)
        yield make("input_ratio", "ratio", step.input_ratio, item)
        about = {"less": label, "main": True, "load_fps": step.load_fps}
        yield make("loss_ratio", "ratio", step.loss_ratio, item, **about)
        yield make("forwarded", "fps", step.forwarded_fps, item)
        for direction, value in step.per_direction.items():
            yield make("loss_ratio", "ratio", value, item, direction)


def _of_bursts(make: _Make, _: Result, found: BackToBack) -> Iterator[Metric]:
    capped = ""
    if found.capped:
        of = f"{found.at_longest} of {found.frames.n} searches"
        capped = f"every burst up to the longest one tried came through in {of}"
    note = "; ".join(filter(None, (capped, found.note)))
    rate = 1e9 / found.gap_ns if found.gap_ns else found.max_rate_fps
    about = {"qualifiers": ("at least",) if found.is_limit else (), "note": note}
    burst: dict[str, Any] = {
        "more": "burst",
        "main": True,
        "given": {"step, frames": found.step_frames},
        "resolution": float(found.step_frames),
        # A longer gap fills a buffer later.
        "load_fps": rate,
    }
    if found.undecided:  # the mean of those that were decided is that of the shorter bursts
        why = f"not compared: {found.undecided} searches were not decided; {found.note}"
        given = burst.pop("given")
        yield make("", "frames", None, more=burst.pop("more"), main=True, why=why, given=given)
    # With a search that came near the longest burst the mean is that of no burst: a limit is left.
    frames = found.frames.minimum if found.is_limit else found.frames
    yield make("back_to_back_frames", "frames", frames, **burst, **about)
    yield make("searches_at_longest_burst", "", float(found.at_longest))
    yield make("searches_undecided", "", float(found.undecided))
    yield make("slow_bursts", "", _or_none(found.slow_bursts))
    yield make("burst_gap_calibrated", "ns", found.calibrated_gap_ns)
    yield make("burst_gap_usual", "ns", found.usual_gap_ns)
    yield make("capped", "", found.capped)
    yield make("step", "frames", float(found.step_frames))
    yield make("longest_burst_tried", "frames", float(found.max_burst_frames))
    yield make("implied_buffer_time", "s", found.implied_s, note=note)
    why = found.note or "no burst tells what was forwarded meanwhile"
    label = "" if found.undecided else "corrected buffer time"
    yield make(
        "corrected_buffer_time", "s", found.corrected_s, more=label, why=why, load_fps=rate, **about
    )
    yield make("implied_buffer_time_rfc9004", "s", found.rfc9004_implied_s)
    yield make("corrected_buffer_time_rfc9004", "s", found.rfc9004_corrected_s)
    yield make("forwarded_in_bursts_per_interface", "fps", found.forwarded_fps)
    yield make("ring", "frames", _or_none(found.ring_frames))
    yield make("throughput_used", "fps", found.throughput_fps)
    yield make("theoretical_rate_per_interface", "fps", found.max_rate_fps)
    yield make("burst_gap_mean", "ns", found.gap_ns)


def _of_recovery(make: _Make, _: Result, recovery: Recovery) -> Iterator[Metric]:
    note = recovery.why or recovery.note
    about: dict[str, Any] = {"note": note, "load_fps": recovery.overload_fps}
    compared: dict[str, Any] = {"less": "recovery", "main": True, **about}
    if recovery.at_least_s is None:
        about |= {**compared, "qualifiers": (note,) if note else ()}
    else:  # no number, but it is long: the mean of other deployments alone would be too short
        yield make("", "s", recovery.at_least_s, qualifiers=("at least",), **compared)
    yield make("recovery_time", "s", recovery.seconds, why=recovery.why, **about)
    yield make("time_to_last_lost_frame", "s", recovery.last_lost_s, why=recovery.why)
    yield make("usual_loss_ratio", "ratio", recovery.usual_loss)
    for name, trials in (
        ("trials_not_overloaded", recovery.not_overloaded),
        ("trials_disturbed", recovery.disturbed),
        ("trials_not_recovered", recovery.censored),
        ("trials_with_loss_at_end", recovery.lost_at_end),
    ):
        yield make(name, "", float(len(trials)))
    yield make("throughput_used", "fps", recovery.throughput_fps)
    yield make("overload", "fps", recovery.overload_fps)
    yield make("load_after", "fps", recovery.relaxed_fps)
    yield make("overload_duration", "s", recovery.overload_s)


def _of_resets(make: _Make, _: Result, resets: tuple[Reset, ...]) -> Iterator[Metric]:
    for reset in resets:
        methods = (
            ("loss", reset.by_loss_s, reset.at_least_s),
            ("time", reset.by_time_s, None),
        )
        for method, took, least in methods:
            label = f"{reset.what} ({reset.type}) by {_RESET_METHODS[method]}"
            note = reset.why or reset.note
            about: dict[str, Any] = {"note": note, "load_fps": reset.load_fps}
            compared: dict[str, Any] = {"less": label, "main": method == "loss", **about}
            if least is None:
                about = compared
            else:
                yield make("", "s", least, reset.what, qualifiers=("at least",), **compared)
            why = reset.why or ("" if took else reset.note)
            yield make(f"reset_time_by_{method}", "s", took, reset.what, why=why, **about)
        yield make("trials_disturbed", "", float(len(reset.disturbed)), reset.what)
        yield make("event_took", "s", reset.event_s, reset.what)
        yield make("load", "fps", reset.load_fps, reset.what)


def _of_rates(make: _Make, _: Result, found: tuple[ForwardingRate, ...]) -> Iterator[Metric]:
    for rate in found:
        label = f"forwarded at {rate.of}"
        yield make("load", "fps", rate.load_fps, rate.of)
        # The load that most is forwarded at is found, too, by chance one of several on a plateau.
        about = {"more": label, "main": True, "load_fps": rate.load_fps}
        about["finds_load"] = rate.of == MOST_FORWARDED
        yield make("forwarding_rate", "fps", rate.forwarded_fps, rate.of, **about)
        about = {"less": f"loss at {rate.of}", "load_fps": rate.load_fps}
        yield make("loss_ratio", "ratio", rate.loss_ratio, rate.of, **about)
        yield make("trial_duration", "s", rate.duration_s, rate.of)


def _of_soak(make: _Make, _: Result, soak: Soak) -> Iterator[Metric]:
    yield make("load", "fps", soak.load_fps, soak.of)
    yield make("duration", "s", soak.seconds, soak.of)
    yield make("offered", "frames", float(soak.offered), soak.of)
    yield make("lost", "frames", float(soak.lost), soak.of)
    # Without an event nothing shows how many frames one takes: there is no upper end.
    high = inf if soak.loss_high is None else soak.loss_high
    about: dict[str, Any] = {"bounds": (soak.loss_low, high), "note": soak.note}
    compared = {"less": f"loss at {soak.of}", "main": True, "load_fps": soak.load_fps}
    if soak.not_judged:  # here neither: it may be the tester's
        yield make("", "ratio", None, soak.of, why=f"not compared: {soak.not_judged}", **compared)
        about["main"] = True
    else:
        about |= compared
    yield make("loss_ratio", "ratio", soak.loss_ratio, soak.of, **about)
    yield make("loss_ratio_low", "ratio", soak.loss_low, soak.of)
    yield make("loss_ratio_high", "ratio", soak.loss_high, soak.of)
    yield make("loss_ratio_goal", "ratio", soak.goal, soak.of)
    if soak.lossy_trials is not None and soak.trials:
        count = len(soak.trials)
        yield make(
            "lossy_trials",
            "ratio",
            soak.lossy_trials / count,
            soak.of,
            less="" if soak.not_judged else f"trials with loss at {soak.of}",
            bounds=clopper_pearson(soak.lossy_trials, count),
            given={"trial, s": soak.seconds / count},
        )
    yield make("largest_loss_event", "frames", _or_none(soak.largest_event), soak.of)
    yield make("longest_loss_event", "s", soak.longest_event_s, soak.of)
    for direction, varied in soak.variation.items():
        yield make("pdv", "ns", varied.pdv_ns, soak.of, direction, note=varied.why)


def _or_none(count: int | None) -> float | None:
    return None if count is None else float(count)


def _of_service(make: _Make, _: Result, service: Service) -> Iterator[Metric]:
    """ITU-T Y.1564; frame loss, delay and its variation as Y.1563 defines them."""
    yield make("committed_rate", "fps", service.cir_fps, service.of)
    yield make("service_met", "", service.met, service.of, note=service.note)
    for step in service.every_step:
        yield make("load", "fps", step.load_fps, step.of)
        yield make("service_met", "", step.met, step.of, note=step.why)
        for flow in step.flows:
            at = {"item": step.of, "direction": flow.direction, "load_fps": step.load_fps}
            about = f"at {step.of} {flow.direction}"
            yield make("information_rate", "bit/s", flow.rate_bps, **at)
            main: dict[str, Any] = {"main": True, "less": f"frame loss ratio {about}"}
            less = [f"mean frame transfer delay {about}", f"frame delay variation {about}"]
            if step.met is None:  # not judged there, nor here: it may be the tester's
                yield make("", "ratio", None, **at, **main, why=f"not compared: {step.why}")
                main, less = {"main": True}, ["", ""]
            yield make("frame_loss_ratio", "ratio", flow.loss_ratio, **at, **main)
            yield make("frame_delay_mean", "ns", flow.delay_mean_ns, **at, less=less[0])
            yield make("frame_delay_min", "ns", flow.delay_min_ns, **at)
            yield make("frame_delay_max", "ns", flow.delay_max_ns, **at)
            yield make("frame_delay_variation", "ns", flow.variation_ns, **at, less=less[1])


def _of_cpu_load(make: _Make, _: Result, found: CpuLoad) -> Iterator[Metric]:
    """Processor time by role and load; what a further frame takes is of all loads together."""
    for at in found.at:
        yield make("load", "fps", at.load_fps, at.of)
        yield make("forwarding_rate", "fps", at.forwarded_fps, at.of)
        yield make("loss_ratio", "ratio", at.loss_ratio, at.of)
        yield make("datapath_in_work", "ratio", at.in_work, at.of)
        yield make("datapath_empty_polls", "ratio", at.empty_polls, at.of)
        yield make("watching_processors", "", at.watched_share, at.of)
        for part, cost in at.relative.items():
            label = f"{part}'s work per frame over the tester's at {at.of}"
            about = {
                "main": part == VSWITCH and at.share is None,
                "load_fps": at.load_fps,
                "given": {f"tester's {what}": how for what, how in at.tester.items()},
                "why": cost.why.removeprefix("not measured: "),
            }
            yield make("relative_cost", "", cost.value, at.of, part, less=label, **about)
        for part, energy in at.energy.items():
            yield make("power", "W", energy.watts, at.of, part)
            label = f"energy per frame of {part} at {at.of}"
            about = {"less": label, "load_fps": at.load_fps}
            yield make("energy_per_frame", "nJ", energy.nj_per_frame, at.of, part, **about)
        for role, taken in at.roles.items():
            of = (at.of, role)
            yield make("processors", "", taken.processors, *of)
            about = {"main": role == MACHINE and at.share == 1, "load_fps": at.load_fps}
            if role.rpartition(":")[2] != OTHERS:  # no part of the deployment
                label = f"processor time per frame of {role} at {at.of}"
                yield make("time_per_frame", "ns", taken.ns_per_frame, *of, less=label, **about)
            for event in ("cycles", "instructions", "cache_misses", "tlb_misses"):
                yield make(f"{event}_per_frame", "", getattr(taken, f"{event}_per_frame"), *of)
    for role, fit in found.fits.items():
        judged = role.rpartition(":")[2] not in ("tester", OTHERS) and fit.is_clear
        label = f"processor time of a further frame, {role}" if judged else ""
        about = {"less": label, "why": fit.why}
        yield make("time_of_further_frame", "ns", fit.ns_per_frame, "", role, **about)
        yield make("processors_without_frames", "", fit.idle, "", role)


def _of_addresses(make: _Make, result: Result, table: AddressTable) -> Iterator[Metric]:
    about: dict[str, Any] = {
        "qualifiers": ("at least",) if table.capped else (),
        "note": table.note,
    }
    learning, label = result.test == "address_learning", "learning rate"
    count = float(table.addresses)
    about["resolution"] = max(1.0, count * ADDRESSES_RESOLUTION)
    yield make("addresses", "addresses", count, more="addresses", main=not learning, **about)
    # The caching test was given its rate.
    about["resolution"] = (table.learning_fps or 0.0) * LEARNING_RESOLUTION * learning
    yield make("learning_rate", "fps", table.learning_fps, more=label, main=learning, **about)
    yield make("capped", "", table.capped)


def _of_sessions(make: _Make, result: Result, found: NatSessions) -> Iterator[Metric]:
    about: dict[str, Any] = {
        "qualifiers": ("at least",) if found.capped else (),
        "note": found.note,
    }
    rate, count = result.test == "connection_rate", float(found.sessions)
    label = "connection establishment rate"
    yield make("sessions", "sessions", count, more="sessions", main=not rate, **about)
    about["resolution"] = result.test_inputs.get("resolution", 0.0) * (found.rate_per_s or 0.0)
    yield make("connection_rate", "1/s", found.rate_per_s, more=label, main=rate, **about)
    why, label = "no time of ending sessions was recorded", "connection tear-down rate"
    yield make("tear_down_rate", "1/s", found.ended_per_s, more=label, why=why)
    yield make("capped", "", found.capped)


#: Where a result has what a test found -> its numbers.
_OF_TESTS: dict[str, Callable[[_Make, Result, Any], Iterator[Metric]]] = {
    "loss_steps": _of_loss_steps,
    "back_to_back": _of_bursts,
    "recovery": _of_recovery,
    "resets": _of_resets,
    "rates": _of_rates,
    "soak": _of_soak,
    "addresses": _of_addresses,
    "sessions": _of_sessions,
    "service": _of_service,
    "cpu_load": _of_cpu_load,
}
