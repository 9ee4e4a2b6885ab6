"""The metrics of results: name, unit, value with interval, and the direction that is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeAlias

from vnetperf.model.outcomes import Spread, Transfer
from vnetperf.model.result import GoalResult, Result, RunResults
from vnetperf.statistics.difference import Measurand

Unit: TypeAlias = Literal["frames/s", "frames", "ns", "s", "ratio", "addresses", "bit/s", "1/s"]
#: What tells the numbers of one scenario apart: test, frame size, name.
Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number.

    Attributes:
        scenario: "pvp_dpdk".
        test: "throughput" ...
        size: Frame size as a table names it: "64", "imix"; "" for none.
        name: What it is: the goal's name, "ndr latency p99 phy0->phy1" ...
        unit: What `value` is in.
        better: Whether more or less of it is better; "" where neither is.
        measured: The number with its bounds; None when it was not measured.
        repeats: Every repeat within the result, in order; empty for a single one.
        main: False for what stands beside the number that the test is for.
        marks: What a reader must see beside it: "at least", "irregular", "two modes" ...
        why: Why it was not measured.
        asked: What it was asked for; numbers of other conditions are not comparable.
    """

    scenario: str
    test: str
    size: str
    name: str
    unit: Unit
    better: Literal["more", "less", ""]
    measured: Measurand | None
    repeats: tuple[float, ...] = ()
    main: bool = True
    marks: tuple[str, ...] = ()
    why: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """What tells it apart from others of its scenario."""
        return self.test, self.size, self.name

    @property
    def value(self) -> float | None:
        """The number; None when there is none."""
        return self.measured.value if self.measured else None


def measured_of_spread(spread: Spread) -> tuple[Measurand, tuple[float, ...], tuple[str, ...]]:
    """A quantity that was measured several times within a result."""
    marks = []
    if spread.modes:
        marks.append("two modes")
    if spread.outliers:
        marks.append(f"{len(spread.outliers)} outliers")
    low = spread.mean if spread.low is None else spread.low
    high = spread.mean if spread.high is None else spread.high
    repeats = spread.values if spread.n > 1 else ()
    return Measurand(spread.mean, low, high), repeats, tuple(marks)


def measured_of_bounds(value: float | None, upper: float | None, qualifier: str = "") -> Measurand:
    """A number that a search enclosed."""
    low = 0.0 if value is None else value
    high = inf if upper is None or qualifier == "at least" else max(low, upper)
    return Measurand(value, low, high)


TRANSFERS_TEST = "transfers"


def transfer_metrics(results: RunResults) -> Iterator[Metric]:
    """Every number of every transfer of a run."""
    for found in results.transfers:
        for transfer in found.transfers:
            yield from _transfer_metrics(found.scenario, transfer)


def _transfer_metrics(scenario: str, transfer: Transfer) -> Iterator[Metric]:
    spec = transfer.spec
    name = f"{spec.kind} {spec.way}"
    asked: dict[str, Any] = {
        "seconds": spec.duration_s,
        "instances": spec.instances,
        "tool": transfer.version.partition(" ")[0],
    }

    def make(
        what: str,
        unit: Unit,
        better: Literal["more", "less"],
        value: float | None,
        *,
        main: bool,
    ) -> Metric:
        return Metric(
            scenario=scenario,
            test=TRANSFERS_TEST,
            size="" if spec.message_size is None else str(spec.message_size),
            name=what,
            unit=unit,
            better=better,
            measured=None if value is None else Measurand.exact(value),
            main=main,
            why="the tool does not tell",
            asked=asked,
        )

    if spec.is_stream:
        yield make(name, "bit/s", "more", transfer.bits_per_second, main=True)
    else:
        yield make(name, "1/s", "more", transfer.transactions_per_second, main=True)
    for percentile in ("50", "99"):
        microseconds = transfer.round_trip_us.get(percentile)
        if microseconds is not None:
            yield make(
                f"{name} round trip p{percentile}", "ns", "less", microseconds * 1e3, main=False
            )
    if transfer.loss_ratio is not None:
        yield make(f"{name} loss", "ratio", "less", transfer.loss_ratio, main=False)


#: Percentiles of latency that are compared; others move with single frames.
_PERCENTILES = ("50", "99")


def all_metrics(results: RunResults) -> Iterator[Metric]:
    """Every number of a run, or of a round of it."""
    for result in results.results:
        yield from metrics_of(result)
    yield from transfer_metrics(results)


def metrics_of(result: Result) -> Iterator[Metric]:
    """Every number of a result."""
    number = _MetricsOfResult(result)
    if result.status != "measured":
        yield number.missing(result.why)
        return
    for goal in result.goals:
        yield from _of_goal(number, goal)
    yield from _of_latency(number)
    for step in result.loss_steps:
        name = f"loss at {step.input_ratio:.4g} of the largest load"
        if result.test == "loss_profile":
            name = f"loss at step {result.loss_steps.index(step) + 1}"
        # Not a load of its own: the largest one can differ a little from run to run.
        yield number.single(name, "ratio", "less", step.loss_ratio)
    yield from _of_bursts(number)
    yield from _of_interruptions(number)
    for rate in result.rates:
        yield number.spread(f"forwarded at {rate.of}", "frames/s", "more", rate.forwarded_fps)
        yield number.spread(f"loss at {rate.of}", "ratio", "less", rate.loss_ratio, main=False)
    yield from _of_long_runs(number)


class _MetricsOfResult:
    """Makes quantities of one result."""

    def __init__(self, result: Result) -> None:
        self.result = result
        asked: dict[str, Any] = {
            "directions": result.directions,
            "loads": list(result.loads),
        }
        if result.imix:
            asked["imix"] = result.imix
        self._asked = asked

    def make(
        self,
        name: str,
        unit: Unit,
        better: Literal["more", "less", ""],
        measured: Measurand | None,
        *,
        asked: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Metric:
        return Metric(
            scenario=self.result.scenario,
            test=self.result.test,
            size=self.result.size_name,
            name=name,
            unit=unit,
            better=better,
            measured=measured,
            asked={**self._asked, **(asked or {})},
            **more,
        )

    def missing(self, why: str) -> Metric:
        return self.make("", "frames/s", "", None, why=why)

    def single(
        self,
        name: str,
        unit: Unit,
        better: Literal["more", "less", ""],
        value: float | None,
        **more: Any,
    ) -> Metric:
        return self.make(
            name, unit, better, None if value is None else Measurand.exact(value), **more
        )

    def spread(
        self,
        name: str,
        unit: Unit,
        better: Literal["more", "less", ""],
        spread: Spread | None,
        why: str = "",
        **more: Any,
    ) -> Metric:
        if spread is None:
            return self.make(name, unit, better, None, why=why, **more)
        measured, repeats, marks = measured_of_spread(spread)
        marks = (*more.pop("marks", ()), *marks)
        return self.make(name, unit, better, measured, repeats=repeats, marks=marks, **more)


def _of_goal(number: _MetricsOfResult, goal: GoalResult) -> Iterator[Metric]:
    asked = {
        "loss ratio": goal.loss_ratio,
        "exceed ratio": goal.exceed_ratio,
        "final trial, s": goal.final_trial_s,
        "duration sum, s": goal.duration_sum_s,
        "width": goal.width,
    }
    marks: list[str] = [goal.qualifier] if goal.qualifier else []
    if not goal.regular and not goal.qualifier:
        marks.append("irregular")
    measured = measured_of_bounds(goal.lower_bound_fps, goal.upper_bound_fps, goal.qualifier)
    repeats = goal.repeats
    if repeats is not None and repeats.n > 1:
        _, values, more = measured_of_spread(repeats)
        yield number.make(
            goal.name,
            "frames/s",
            "more",
            measured,
            asked=asked,
            repeats=values,
            marks=(*marks, *more),
        )
    else:
        yield number.make(goal.name, "frames/s", "more", measured, asked=asked, marks=tuple(marks))
    for direction, latency in goal.latency.items():
        for percentile in _PERCENTILES:
            yield number.single(
                f"{goal.name} latency p{percentile} {direction}",
                "ns",
                "less",
                latency.percentiles.get(percentile),
                asked=asked,
                main=False,
            )


def _of_latency(number: _MetricsOfResult) -> Iterator[Metric]:
    for at in number.result.latency_at:
        asked = {"definition": at.definition, "tagged from, s": at.tag_at_s}
        for direction, spread in at.mean_ns.items():
            yield number.spread(f"mean at {at.of} {direction}", "ns", "less", spread, asked=asked)
        for direction, latency in at.latency.items():
            for percentile in _PERCENTILES:
                yield number.single(
                    f"p{percentile} at {at.of} {direction}",
                    "ns",
                    "less",
                    latency.percentiles.get(percentile),
                    asked=asked,
                    main=False,
                )


def _of_bursts(number: _MetricsOfResult) -> Iterator[Metric]:
    found = number.result.back_to_back
    if found is None:
        return
    asked = {"step, frames": found.step_frames}
    marks = ("at least",) if found.capped else ()
    yield number.spread("burst", "frames", "more", found.frames, asked=asked, marks=marks)
    yield number.single(
        "corrected buffer time",
        "s",
        "more",
        found.corrected_s,
        main=False,
        why=found.note or "no throughput to correct with",
        marks=marks,
    )


def _of_interruptions(number: _MetricsOfResult) -> Iterator[Metric]:
    recovery = number.result.recovery
    if recovery is not None:
        marks = (recovery.note,) if recovery.note else ()
        yield number.spread("recovery", "s", "less", recovery.seconds, marks=marks)
    for reset in number.result.resets:
        of = f"{reset.what} ({reset.type})"
        yield number.spread(f"{of} by loss", "s", "less", reset.by_loss_s, reset.why)
        yield number.spread(
            f"{of} by time stamps", "s", "less", reset.by_time_s, reset.why, main=False
        )


def _of_long_runs(number: _MetricsOfResult) -> Iterator[Metric]:
    soak, table = number.result.soak, number.result.addresses
    if soak is not None:
        yield number.make(
            f"loss at {soak.of}",
            "ratio",
            "less",
            Measurand(soak.loss_ratio, soak.loss_low, soak.loss_high),
        )
    if table is not None:
        marks = ("at least",) if table.capped else ()
        learning = number.result.test == "address_learning"
        addresses = number.single(
            "addresses", "addresses", "more", table.addresses, marks=marks, main=not learning
        )
        rate = number.single(
            "learning rate", "frames/s", "more", table.learning_fps, marks=marks, main=learning
        )
        yield from (rate, addresses) if learning else (addresses, rate)
