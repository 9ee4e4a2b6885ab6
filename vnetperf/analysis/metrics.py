"""The metrics of results: name, unit, value with interval, and the direction that is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite
from typing import Any, Literal, TypeAlias, get_args

from vnetperf.model.figures import Outcome
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
        has_value = self.measured is None or self.measured.value is not None
        return "" if has_value and "at most" not in self.qualifiers else "at most"

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


def repeated_number(label: str, metrics: Mapping[int, Metric]) -> RepeatedNumber:
    """One number of several deployments, by their rounds; each of them has measured it."""
    first = next(iter(metrics.values()))
    observations = tuple(_observation(n, metric) for n, metric in metrics.items())
    values = [
        observation.value
        for observation in observations
        if observation.value is not None and not observation.qualifier
    ]
    spread_ = None
    if len(values) == len(observations):
        spread_ = spread(values, resolution=max(metric.resolution for metric in metrics.values()))
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
    metrics = metrics_of(result)  # without a result one of them has neither label nor name
    return (metric for metric in metrics if metric.label or (metric.why and not metric.name))


def named_metrics_of(result: Result) -> Iterator[Metric]:
    """What of a result is in files for programs, besides the numbers of goals."""
    return (metric for metric in metrics_of(result) if metric.name and not metric.goal)


def goal_metrics_of(result: Result, goal: GoalResult) -> Iterator[Metric]:
    """What of a goal is in files for programs."""
    return (metric for metric in metrics_of(result) if metric.goal == goal.name)


def why_no_number(result: Result) -> str:
    """Why a result has no number of what its test is for; "" where it has one, compared or not."""
    metrics = list(metrics_of(result))
    meant = [metric for metric in metrics if metric.main] or [
        metric for metric in metrics if metric.label
    ]
    if any(metric.measured is not None or metric.over is not None for metric in meant):
        return ""
    return next(
        (reason for metric in meant if (reason := metric.why or metric.note)),
        _describe_reason(result),
    )


def metrics_of(result: Result) -> Iterator[Metric]:
    """Every number of a result, with what other deployments gave for it."""
    deployments = result.deployments
    over = {shown.label: shown for shown in deployments.numbers} if deployments is not None else {}
    if deployments is not None:
        counts = (
            ("attempted", deployments.attempted),
            ("measured", deployments.measured),
            ("failed", len(deployments.failures)),
        )
        for count_name, count in counts:
            yield Metric(
                **_case(result), name=f"deployments_{count_name}", unit="", value=float(count)
            )
    for shown in _list_shown_metrics(result):
        repeated = over.get(shown.label) if shown.label else None
        metric = shown
        if shown.label and deployments is not None and deployments.measured:
            n = len(repeated.observations) if repeated is not None else deployments.measured
            metric = replace(shown, partial=partial_mark(n, deployments.attempted))
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


def _describe_reason(result: Result) -> str:
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
        why=_describe_reason(result),
    )


def _list_shown_metrics(result: Result) -> Iterator[Metric]:
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
        yield _not_measured(result) or make(
            "", "fps", None, main=True, why=_describe_reason(result)
        )
    for name, count in result.faults:
        if count is not None:
            yield make(f"frames_{name}", "frames", float(count))
    if result.status != "measured":
        return
    if result.discarded is not None:
        yield make("discarded_trials", "trials", float(result.discarded))
    for goal in result.goals:
        yield from _list_goal_metrics(make, goal, result)
    for latency in result.latency_at:
        yield from _list_latency_metrics(make, latency, curve=result.test == "latency_load")
    if result.test == "latency" and not any(latency.mean_ns for latency in result.latency_at):
        # Every load was above the largest one, or nothing came back.
        reasons = (latency.note.removeprefix("not measured: ") for latency in result.latency_at)
        reason = "; ".join(dict.fromkeys(filter(None, reasons))) or "no frame was timed"
        yield make("", "ns", None, main=True, why=reason)
    for field_, make_metrics in _OF_TESTS.items():
        if outcome := getattr(result, field_):
            yield from make_metrics(make, result, outcome)


def _list_goal_marks(goal: GoalResult) -> tuple[str, ...]:
    """What a reader must see beside the number of a goal."""
    if goal.repeatable is False:
        return ("not repeatable",)
    mark = goal.qualifier or goal.mark
    open_ = goal.upper_bound_fps is None and goal.lower_bound_fps is not None
    # Without a qualifier the search ended before it found what is too much.
    marks = ("at least", mark) if open_ and not goal.qualifier else (mark,)
    return tuple(filter(None, marks))


def _list_goal_metrics(make: _Make, goal: GoalResult, result: Result) -> Iterator[Metric]:
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
        qualifiers=_list_goal_marks(goal),
        given=conditions,
    )
    for direction, latency in goal.latency.items():
        for percentile in COMPARED_PERCENTILES:
            value = latency.percentiles.get(percentile)
            label = f"{goal.name} latency p{percentile} {direction}"
            about = {"given": conditions, "load_fps": low}
            yield make("", "ns", value, less=label, **about)
    make_of_goal = partial(make, goal=goal.name)
    yield make_of_goal("lower_bound", "fps", low)
    yield make_of_goal("upper_bound", "fps", high)
    yield make_of_goal("conditional_throughput", "fps", goal.conditional_throughput_fps)
    yield make_of_goal("lower_bound_l1", "bit/s", goal.throughput_l1_bps)
    yield make_of_goal("loss_free", "fps", goal.loss_free_fps)
    yield make_of_goal("loss_at_lower_bound", "ratio", goal.loss_at_lower_bound)
    yield make_of_goal("regular", "", goal.regular)
    if goal.repeatable is not None:
        yield make_of_goal("repeatable", "", goal.repeatable)
        yield make_of_goal("rounds", "", float(len(goal.rounds)))
        yield make_of_goal("least_lower_bound", "fps", goal.least_fps)
        yield make_of_goal("largest_upper_bound", "fps", goal.most_fps)
    for side, bound_trials in (("lower", goal.at_lower_bound), ("upper", goal.at_upper_bound)):
        if bound_trials is not None:
            yield make_of_goal(
                f"trials_at_{side}_bound",
                "trials",
                float(bound_trials.valid + bound_trials.discarded),
            )
            yield make_of_goal(
                f"discarded_at_{side}_bound", "trials", float(bound_trials.discarded)
            )
    yield from _list_gaps_metrics(make_of_goal, goal.gaps)
    for bound in goal.per_direction:
        yield make_of_goal("lower_bound", "fps", bound.lower_bound_fps, direction=bound.direction)
        yield make_of_goal("upper_bound", "fps", bound.upper_bound_fps, direction=bound.direction)
    for direction, latency in goal.latency.items():
        for level, value in latency.percentiles.items():
            yield make_of_goal(f"latency_p{level}", "ns", value, direction=direction)
        for part in ("min", "mean", "max"):
            value = getattr(latency, f"{part}_ns")
            yield make_of_goal(f"latency_{part}", "ns", value, direction=direction)
        yield from _list_untimed_metrics(partial(make_of_goal, direction=direction), latency)


def _list_gaps_metrics(make: _Make, gaps: TrialGaps | None) -> Iterator[Metric]:
    """The tester's own wait, which stands beside every latency."""
    if gaps is None:
        return
    for level, value in gaps.poll.percentiles.items():
        yield make(f"tester_poll_gap_p{level}", "s", value)
    yield make("tester_poll_gap_max", "s", gaps.poll.max_s)
    yield make("tester_send_gap_max", "s", gaps.send.max_s)


def _list_untimed_metrics(make: _Make, latency: Latency) -> Iterator[Metric]:
    """Frames that are received and not, or not fully, in a latency."""
    for name in ("before_departure", "above_range"):
        count = getattr(latency, name)
        if count is not None:
            yield make(f"frames_{name}", "frames", float(count))


def latency_directions(latency: LatencyAt) -> tuple[str, ...]:
    """The directions of which anything is known."""
    return tuple(dict.fromkeys([*latency.mean_ns, *latency.latency, *latency.variation]))


def _list_latency_metrics(
    make: _Make, latency: LatencyAt, *, curve: bool = False
) -> Iterator[Metric]:
    """Latency at one load; curve: of loads that are the same for every DUT."""
    marks = _list_load_marks(latency) if curve else ()
    about: dict[str, Any] = {
        "given": {"definition": latency.definition, "tagged from, s": latency.tag_at_s},
        "load_fps": latency.load_fps,
        "qualifiers": marks,
    }
    yield make("load", "fps", latency.load_fps, latency.of)
    lost = {"less": f"loss at {latency.of}", **about} if curve else {}
    if latency.trials:
        yield make("loss_ratio", "ratio", latency.loss_ratio, latency.of, main=curve, **lost)
    elif curve:  # the tester cannot offer it: that is no failure of the DUT
        reason = latency.note.removeprefix("not measured: ")
        yield make("loss_ratio", "ratio", None, latency.of, why=reason, **lost)
    if latency.forwarded_fps is not None:
        yield make("forwarding_rate", "fps", latency.forwarded_fps, latency.of)
    if latency.discarded is not None:
        yield make("discarded_at_load", "trials", float(latency.discarded), latency.of)
    yield from _list_gaps_metrics(partial(make, item=latency.of), latency.gaps)
    for direction in latency_directions(latency):
        place = (latency.of, direction)
        yield from _list_direction_metrics(make, latency, direction, about, curve=curve)
        for name, trials_by_direction in (
            ("typical", latency.typical),
            ("worst_case", latency.worst_case),
        ):
            if direction in trials_by_direction:
                yield from _over_trials(
                    partial(make, **about), f"latency_{name}", trials_by_direction[direction], place
                )
        varied = latency.variation.get(direction)
        if varied is not None:
            if varied.pdv is not None:
                yield from _over_trials(make, "pdv", varied.pdv, place)
            for part in ("pdv", "ipdv_min", "ipdv_median", "ipdv_max"):
                number = getattr(varied, f"{part}_ns")
                yield make(part, "ns", number, *place, note=varied.why if number is None else "")
            yield make("ipdv_resolution", "ns", varied.ipdv_resolution_ns, *place)
            yield make("shared_stamps", "ratio", varied.shared_stamps, *place)


def _list_direction_metrics(
    make: _Make, latency: LatencyAt, direction: str, about: Mapping[str, Any], *, curve: bool
) -> Iterator[Metric]:
    """The latency of one direction: a curve is compared by its percentiles."""
    place, label_end = (latency.of, direction), f"at {latency.of} {direction}"
    mean, times = latency.mean_ns.get(direction), latency.latency.get(direction)
    if mean is not None:
        label = "" if curve else f"mean {label_end}"
        yield make("latency_mean", "ns", mean, *place, less=label, main=not curve, **about)
    if times is None:
        return
    compared = CURVE_PERCENTILES if curve else COMPARED_PERCENTILES
    bound = latency.gaps.bounds(times, direction) if curve and latency.gaps is not None else ()
    yield make("latency_min", "ns", times.min_ns, *place)
    for level, value in times.percentiles.items():
        label = f"p{level} {label_end}" if level in compared else ""
        marks = (*about["qualifiers"], *(["tester-bound"] * (level in bound)))
        main = curve and level == _CURVE_MAIN
        shown = {**about, "qualifiers": marks, "main": main}
        yield make(f"latency_p{level}", "ns", value, *place, less=label, **shown)
    yield make("latency_max", "ns", times.max_ns, *place)
    yield from _list_untimed_metrics(partial(make, item=latency.of, direction=direction), times)


def _list_load_marks(latency: LatencyAt) -> tuple[str, ...]:
    """What must stand beside latencies at a load that not every DUT carries."""
    lost = (f"{percent(latency.loss_ratio, 2)} lost",) if latency.loss_ratio > 0 else ()
    return (*lost, *(["irregular"] if latency.is_selection else []))


def _over_trials(
    make: _Make, name: str, figures: OverTrials, place: tuple[str, str]
) -> Iterator[Metric]:
    """A number of each trial as RFC 8219 sums it up."""
    for part in ("median", "p1", "p99"):
        yield make(f"{name}_{part}_of_trials", "ns", getattr(figures, f"{part}_ns"), *place)


def _list_loss_steps_metrics(
    make: _Make, result: Result, steps: tuple[LossStep, ...]
) -> Iterator[Metric]:
    for number, step in enumerate(steps, 1):
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


def _list_bursts_metrics(make: _Make, _: Result, bursts: BackToBack) -> Iterator[Metric]:
    capped = ""
    if bursts.capped:
        share = f"{bursts.at_longest} of {bursts.frames.n} searches"
        capped = f"every burst up to the longest one tried came through in {share}"
    note = "; ".join(filter(None, (capped, bursts.note)))
    rate = 1e9 / bursts.gap_ns if bursts.gap_ns else bursts.max_rate_fps
    about = {"qualifiers": ("at least",) if bursts.is_limit else (), "note": note}
    burst: dict[str, Any] = {
        "more": "burst",
        "main": True,
        "given": {"step, frames": bursts.step_frames},
        "resolution": float(bursts.step_frames),
        # A longer gap fills a buffer later.
        "load_fps": rate,
    }
    if bursts.undecided:  # the mean of those that were decided is that of the shorter bursts
        reason = f"not compared: {bursts.undecided} searches were not decided; {bursts.note}"
        conditions = burst.pop("given")
        yield make(
            "", "frames", None, more=burst.pop("more"), main=True, why=reason, given=conditions
        )
    # With a search that came near the longest burst the mean is that of no burst: a limit is left.
    frames = bursts.frames.minimum if bursts.is_limit else bursts.frames
    yield make("back_to_back_frames", "frames", frames, **burst, **about)
    yield make("searches_at_longest_burst", "", float(bursts.at_longest))
    yield make("searches_undecided", "", float(bursts.undecided))
    yield make("slow_bursts", "", _or_none(bursts.slow_bursts))
    yield make("burst_gap_calibrated", "ns", bursts.calibrated_gap_ns)
    yield make("burst_gap_usual", "ns", bursts.usual_gap_ns)
    yield make("capped", "", bursts.capped)
    yield make("step", "frames", float(bursts.step_frames))
    yield make("longest_burst_tried", "frames", float(bursts.max_burst_frames))
    yield make("implied_buffer_time", "s", bursts.implied_s, note=note)
    reason = bursts.note or "no burst tells what was forwarded meanwhile"
    label = "" if bursts.undecided else "corrected buffer time"
    yield make(
        "corrected_buffer_time",
        "s",
        bursts.corrected_s,
        more=label,
        why=reason,
        load_fps=rate,
        **about,
    )
    yield make("implied_buffer_time_rfc9004", "s", bursts.rfc9004_implied_s)
    yield make("corrected_buffer_time_rfc9004", "s", bursts.rfc9004_corrected_s)
    yield make("forwarded_in_bursts_per_interface", "fps", bursts.forwarded_fps)
    yield make("ring", "frames", _or_none(bursts.ring_frames))
    yield make("throughput_used", "fps", bursts.throughput_fps)
    yield make("theoretical_rate_per_interface", "fps", bursts.max_rate_fps)
    yield make("burst_gap_mean", "ns", bursts.gap_ns)


def _list_recovery_metrics(make: _Make, _: Result, recovery: Recovery) -> Iterator[Metric]:
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


def _list_resets_metrics(make: _Make, _: Result, resets: tuple[Reset, ...]) -> Iterator[Metric]:
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
            reason = reset.why or ("" if took else reset.note)
            yield make(f"reset_time_by_{method}", "s", took, reset.what, why=reason, **about)
        yield make("trials_disturbed", "", float(len(reset.disturbed)), reset.what)
        yield make("event_took", "s", reset.event_s, reset.what)
        yield make("load", "fps", reset.load_fps, reset.what)


def _list_rates_metrics(
    make: _Make, _: Result, rates: tuple[ForwardingRate, ...]
) -> Iterator[Metric]:
    for rate in rates:
        label = f"forwarded at {rate.of}"
        yield make("load", "fps", rate.load_fps, rate.of)
        # The load that most is forwarded at is found, too, by chance one of several on a plateau.
        about = {"more": label, "main": True, "load_fps": rate.load_fps}
        about["finds_load"] = rate.of == MOST_FORWARDED
        yield make("forwarding_rate", "fps", rate.forwarded_fps, rate.of, **about)
        about = {"less": f"loss at {rate.of}", "load_fps": rate.load_fps}
        yield make("loss_ratio", "ratio", rate.loss_ratio, rate.of, **about)
        yield make("trial_duration", "s", rate.duration_s, rate.of)


def _list_soak_metrics(make: _Make, _: Result, soak: Soak) -> Iterator[Metric]:
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


def _list_service_metrics(make: _Make, _: Result, service: Service) -> Iterator[Metric]:
    """ITU-T Y.1564; frame loss, delay and its variation as Y.1563 defines them."""
    yield make("committed_rate", "fps", service.cir_fps, service.of)
    yield make("service_met", "", service.met, service.of, note=service.note)
    for step in service.every_step:
        yield make("load", "fps", step.load_fps, step.of)
        yield make("service_met", "", step.met, step.of, note=step.why)
        for flow in step.flows:
            step_keys = {"item": step.of, "direction": flow.direction, "load_fps": step.load_fps}
            about = f"at {step.of} {flow.direction}"
            yield make("information_rate", "bit/s", flow.rate_bps, **step_keys)
            main: dict[str, Any] = {"main": True, "less": f"frame loss ratio {about}"}
            less = [f"mean frame transfer delay {about}", f"frame delay variation {about}"]
            if step.met is None:  # not judged there, nor here: it may be the tester's
                yield make("", "ratio", None, **step_keys, **main, why=f"not compared: {step.why}")
                main, less = {"main": True}, ["", ""]
            yield make("frame_loss_ratio", "ratio", flow.loss_ratio, **step_keys, **main)
            yield make("frame_delay_mean", "ns", flow.delay_mean_ns, **step_keys, less=less[0])
            yield make("frame_delay_min", "ns", flow.delay_min_ns, **step_keys)
            yield make("frame_delay_max", "ns", flow.delay_max_ns, **step_keys)
            yield make("frame_delay_variation", "ns", flow.variation_ns, **step_keys, less=less[1])


def _list_cpu_load_metrics(make: _Make, _: Result, cpu_load: CpuLoad) -> Iterator[Metric]:
    """Processor time by role and load; what a further frame takes is of all loads together."""
    for load in cpu_load.at:
        yield make("load", "fps", load.load_fps, load.of)
        yield make("forwarding_rate", "fps", load.forwarded_fps, load.of)
        yield make("loss_ratio", "ratio", load.loss_ratio, load.of)
        yield make("datapath_in_work", "ratio", load.in_work, load.of)
        yield make("datapath_empty_polls", "ratio", load.empty_polls, load.of)
        yield make("watching_processors", "", load.watched_share, load.of)
        for part, cost in load.relative.items():
            label = f"{part}'s work per frame over the tester's at {load.of}"
            about = {
                "main": part == VSWITCH and load.share is None,
                "load_fps": load.load_fps,
                "given": {
                    f"tester's {name}": description for name, description in load.tester.items()
                },
                "why": cost.why.removeprefix("not measured: "),
            }
            yield make("relative_cost", "", cost.value, load.of, part, less=label, **about)
        for part, energy in load.energy.items():
            yield make("power", "W", energy.watts, load.of, part)
            label = f"energy per frame of {part} at {load.of}"
            about = {"less": label, "load_fps": load.load_fps}
            yield make("energy_per_frame", "nJ", energy.nj_per_frame, load.of, part, **about)
        for role, times in load.roles.items():
            place = (load.of, role)
            yield make("processors", "", times.processors, *place)
            about = {"main": role == MACHINE and load.share == 1, "load_fps": load.load_fps}
            if role.rpartition(":")[2] != OTHERS:  # no part of the deployment
                label = f"processor time per frame of {role} at {load.of}"
                yield make("time_per_frame", "ns", times.ns_per_frame, *place, less=label, **about)
            for event in ("cycles", "instructions", "cache_misses", "tlb_misses"):
                yield make(f"{event}_per_frame", "", getattr(times, f"{event}_per_frame"), *place)
    for role, fit in cpu_load.fits.items():
        judged = role.rpartition(":")[2] not in ("tester", OTHERS) and fit.is_clear
        label = f"processor time of a further frame, {role}" if judged else ""
        about = {"less": label, "why": fit.why}
        yield make("time_of_further_frame", "ns", fit.ns_per_frame, "", role, **about)
        yield make("processors_without_frames", "", fit.idle, "", role)


def _list_addresses_metrics(make: _Make, result: Result, table: AddressTable) -> Iterator[Metric]:
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


def _list_sessions_metrics(
    make: _Make, result: Result, nat_sessions: NatSessions
) -> Iterator[Metric]:
    about: dict[str, Any] = {
        "qualifiers": ("at least",) if nat_sessions.capped else (),
        "note": nat_sessions.note,
    }
    rate, count = result.test == "connection_rate", float(nat_sessions.sessions)
    label = "connection establishment rate"
    yield make("sessions", "sessions", count, more="sessions", main=not rate, **about)
    about["resolution"] = result.test_inputs.get("resolution", 0.0) * (
        nat_sessions.rate_per_s or 0.0
    )
    yield make("connection_rate", "1/s", nat_sessions.rate_per_s, more=label, main=rate, **about)
    reason, label = "no time of ending sessions was recorded", "connection tear-down rate"
    yield make("tear_down_rate", "1/s", nat_sessions.ended_per_s, more=label, why=reason)
    yield make("capped", "", nat_sessions.capped)


def _list_figures(make: _Make, _: Result, outcome: Outcome) -> Iterator[Metric]:
    for figure in outcome.figures:
        label = {figure.better: figure.label} if figure.better else {}
        yield make(
            *(figure.name, figure.unit, figure.value, figure.of, figure.direction),
            **label,
            main=figure.main,
            load_fps=figure.load_fps,
            resolution=figure.resolution,
            qualifiers=(figure.qualifier,) if figure.qualifier else (),
            note=figure.note,
            why=figure.why,
        )


#: Where a result has what a test found -> its numbers.
_OF_TESTS: dict[str, Callable[[_Make, Result, Any], Iterator[Metric]]] = {
    "loss_steps": _list_loss_steps_metrics,
    "back_to_back": _list_bursts_metrics,
    "recovery": _list_recovery_metrics,
    "resets": _list_resets_metrics,
    "rates": _list_rates_metrics,
    "soak": _list_soak_metrics,
    "addresses": _list_addresses_metrics,
    "sessions": _list_sessions_metrics,
    "service": _list_service_metrics,
    "cpu_load": _list_cpu_load_metrics,
    "outcome": _list_figures,
}
