"""The numbers of results, one by one: for all that compares, judges and follows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from vnetperf.bench.quantity import Quantity, Unit, bounded, of_spread
from vnetperf.bench.transfer_quantities import transfer_quantities
from vnetperf.model.outcomes import Spread
from vnetperf.model.result import GoalResult, Result, RunResults
from vnetperf.statistics.difference import Measured

#: Percentiles of latency that are compared; others move with single frames.
_PERCENTILES = ("50", "99")


def all_quantities(results: RunResults) -> Iterator[Quantity]:
    """Every number of a run, or of a round of it.

    Args:
        results: The run.

    Yields:
        By result, then those of users' own traffic.
    """
    for result in results.results:
        yield from quantities(result)
    yield from transfer_quantities(results)


def quantities(result: Result) -> Iterator[Quantity]:
    """Every number of a result.

    Args:
        result: The result.

    Yields:
        The numbers the test is for first; of one that was not measured a single quantity without.
    """
    number = _Numbers(result)
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


class _Numbers:
    """Makes quantities of one result.

    Args:
        result: The result.
    """

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
        measured: Measured | None,
        *,
        asked: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Quantity:
        return Quantity(
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

    def missing(self, why: str) -> Quantity:
        return self.make("", "frames/s", "", None, why=why)

    def single(
        self,
        name: str,
        unit: Unit,
        better: Literal["more", "less", ""],
        value: float | None,
        **more: Any,
    ) -> Quantity:
        return self.make(
            name, unit, better, None if value is None else Measured.exact(value), **more
        )

    def spread(
        self,
        name: str,
        unit: Unit,
        better: Literal["more", "less", ""],
        spread: Spread | None,
        why: str = "",
        **more: Any,
    ) -> Quantity:
        if spread is None:
            return self.make(name, unit, better, None, why=why, **more)
        measured, repeats, marks = of_spread(spread)
        marks = (*more.pop("marks", ()), *marks)
        return self.make(name, unit, better, measured, repeats=repeats, marks=marks, **more)


def _of_goal(number: _Numbers, goal: GoalResult) -> Iterator[Quantity]:
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
    measured = bounded(goal.lower_bound_fps, goal.upper_bound_fps, goal.qualifier)
    repeats = goal.repeats
    if repeats is not None and repeats.n > 1:
        _, values, more = of_spread(repeats)
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


def _of_latency(number: _Numbers) -> Iterator[Quantity]:
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


def _of_bursts(number: _Numbers) -> Iterator[Quantity]:
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


def _of_interruptions(number: _Numbers) -> Iterator[Quantity]:
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


def _of_long_runs(number: _Numbers) -> Iterator[Quantity]:
    soak, table = number.result.soak, number.result.addresses
    if soak is not None:
        yield number.make(
            f"loss at {soak.of}",
            "ratio",
            "less",
            Measured(soak.loss_ratio, soak.loss_low, soak.loss_high),
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
