"""The metrics of results: name, unit, value with interval, and the direction that is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite
from typing import Any, Literal, TypeAlias

from vnetperf.model.figures import Figure
from vnetperf.model.outcomes import (
    Spread,
)
from vnetperf.model.result import (
    GoalResult,
    Observation,
    RepeatedNumber,
    Result,
)
from vnetperf.model.units import Unit
from vnetperf.plugin.procedure import find_outcome
from vnetperf.plugin.workload import find_workload_report
from vnetperf.procedures.latency import (
    COMPARED_PERCENTILES,
    list_gap_figures,
    list_untimed_figures,
)
from vnetperf.statistics import spread
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
    if workload := find_workload_report(kind):
        return workload.main_figure(kind)
    return f"{kind} {way}", "bit/s" if kind.endswith("_STREAM") else "1/s", "more"


def compared_metrics_of(result: Result) -> Iterator[Metric]:
    """What of a result is compared; where it was not measured, one metric that has the reason."""
    metrics = metrics_of(result)  # without a result one of them has neither label nor name
    return (metric for metric in metrics if metric.label or (metric.why and not metric.name))


def list_named_metrics(result: Result) -> Iterator[Metric]:
    """What of a result is in files for programs, besides the numbers of goals."""
    return (metric for metric in metrics_of(result) if metric.name and not metric.goal)


def list_goal_metrics(result: Result, goal: GoalResult) -> Iterator[Metric]:
    """What of a goal is in files for programs."""
    return (metric for metric in metrics_of(result) if metric.goal == goal.name)


def explain_missing_number(result: Result) -> str:
    """Why a result has no number of what its test is for; "" where it has one, compared or not."""
    metrics = list(metrics_of(result))
    meant = [metric for metric in metrics if metric.main] or [
        metric for metric in metrics if metric.label
    ]
    if result.outcome is not None:  # whose figures may all be only shown
        meant = meant or metrics
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
    if not kind.isupper():  # as the name of a test of frames
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
    for figure in _list_figures(result):
        label: dict[str, Any] = {figure.better: figure.full_label} if figure.better else {}
        yield make(
            *(figure.name, figure.unit, figure.value, figure.of, figure.direction),
            **label,
            bounds=_ends(figure.bounds),
            given=figure.conditions,
            main=figure.main,
            load_fps=figure.load_fps,
            finds_load=figure.finds_load,
            resolution=figure.resolution,
            qualifiers=figure.qualifiers,
            note=figure.note,
            why=figure.why,
        )


def _ends(bounds: tuple[float | None, float | None] | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = bounds
    return -inf if low is None else low, inf if high is None else high


def _list_figures(result: Result) -> Iterable[Figure]:
    """The figures of a test; of one that describes them itself, those of the log."""
    if result.outcome is not None:
        return result.outcome.figures
    if (measured := find_outcome(result)) is None:
        return ()
    test, outcome = measured
    return test.list_figures(result, outcome)


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
    yield from list_gap_figures(make_of_goal, goal.gaps)
    for bound in goal.per_direction:
        yield make_of_goal("lower_bound", "fps", bound.lower_bound_fps, direction=bound.direction)
        yield make_of_goal("upper_bound", "fps", bound.upper_bound_fps, direction=bound.direction)
    for direction, latency in goal.latency.items():
        for level, value in latency.percentiles.items():
            yield make_of_goal(f"latency_p{level}", "ns", value, direction=direction)
        for part in ("min", "mean", "max"):
            value = getattr(latency, f"{part}_ns")
            yield make_of_goal(f"latency_{part}", "ns", value, direction=direction)
        yield from list_untimed_figures(partial(make_of_goal, direction=direction), latency)
