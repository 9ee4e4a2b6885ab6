"""Thresholds of a TOML file, held against the results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from vnetperf.analysis.comparison import describe_incomparability
from vnetperf.analysis.runs import find_run, load_results
from vnetperf.config.files import load_model
from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError, VnetperfError, did_you_mean
from vnetperf.model.outcomes import Spread
from vnetperf.model.parameters import TestName
from vnetperf.model.profile import IMIX
from vnetperf.model.result import Result, RunResults
from vnetperf.model.scenario import is_called, on_testbed, without_testbed
from vnetperf.model.units import Unit, parse_quantity, value_text
from vnetperf.results.environment import ABSENT, comparability
from vnetperf.results.metrics import PODS_TEST, TRANSFERS_TEST, Key, Metric, compared_metrics_of
from vnetperf.results.run_metrics import compared_metrics, metrics_over_deployments
from vnetperf.statistics.difference import Measurand


class Expectation(Frozen):
    """One threshold; numbers are in the unit of the result: frames/s, ns, s, or a ratio."""

    model_config = ConfigDict(allow_inf_nan=False)

    scenario: str = Field(min_length=1)  # "pvp_dpdk", or a pattern: "pvp_*"
    #: Test whose number it is; or what sockets, ranks and guests did, or the lives of pods.
    test: Literal[TestName, "transfers", "pods"] = "throughput"
    #: Octets including FCS, or "imix"; of transfers those of a message. Empty for all that are
    #: measured.
    frame_sizes: tuple[int | str, ...] = ()
    #: What the test's number is called, or a pattern: a goal's name for throughput. "" is the first
    #: one.
    number: str = ""
    at_least: float | None = None  # Smallest number that is good
    at_most: float | None = None  # Largest number that is good
    #: Of bounds that are written with a unit, "2 Mfps": what they are of; "" for the result's own.
    unit: Unit = ""
    of_run: str = ""  # Results folder, relative to the file: the bounds are multiples of its number
    #: Scenario of the same run (or of `of_run`): they are multiples of its number.
    of_scenario: str = ""
    #: True to hold it against a stored run that differs in traffic, wire, options, machine or
    #: another key of comparability.
    across: bool = False
    #: True when the whole interval of the number must keep to the bounds, over several deployments.
    certain: bool = False
    #: "allow" judges a throughput that is irregular or not repeatable by its number alone; else it
    #: is not judged where what it leaves open reaches across a bound, which is no better than not
    #: met.
    irregular: Literal["refuse", "allow"] = "refuse"
    why: str = ""  # Added to the message when it is not met

    @model_validator(mode="before")
    @classmethod
    def _without_units(cls, values: Any) -> Any:
        """Bounds as numbers, where they are written as reports print them."""
        if not isinstance(values, dict):
            return values
        found, units = dict(values), set()
        for key in ("at_least", "at_most"):
            if not isinstance(text := values.get(key), str):
                continue
            parsed = parse_quantity(text)
            if parsed is not None and parsed[1] != "octets":  # else it is refused as no number
                found[key], unit = parsed
                units.add(unit)
        if len(units) > 1 or (units and (found.get("of_run") or found.get("of_scenario"))):
            raise ValueError("at_least and at_most are of one unit, and multiples have none")
        return found | {"unit": units.pop()} if units else found

    def in_unit(self, unit: Unit) -> Self:
        """The expectation with its bounds in the unit of a result.

        Raises:
            ValueError: They are of another unit.
        """
        if self.unit in ("", unit):
            return self
        if (self.unit, unit) != ("s", "ns"):
            raise ValueError(f"its bounds are in {self.unit}, and the number is in {unit}")
        bounds = {
            key: None if (bound := getattr(self, key)) is None else bound * 1e9
            for key in ("at_least", "at_most")
        }
        return self.model_copy(update={**bounds, "unit": unit})

    @model_validator(mode="after")
    def _has_bounds(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("at_least or at_most is missing: nothing is expected")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        wrong = [s for s in self.frame_sizes if isinstance(s, str) and s != IMIX]
        if wrong:
            raise ValueError(f"frame_sizes has {wrong[0]!r}: octets, or {IMIX!r}")
        if self.test in (TRANSFERS_TEST, PODS_TEST):
            if not self.number:
                raise ValueError(f"number is missing: {self.test} have several, and no first one")
            if self.frame_sizes and (self.test == PODS_TEST or IMIX in self.frame_sizes):
                raise ValueError(f"{self.test} have no frames: frame_sizes would never apply")
        return self

    @property
    def of_whole_run(self) -> bool:
        """Whether the result of one case does not show it: it is judged when the run is over."""
        of_run = bool(self.of_scenario) and not self.of_run
        return of_run or self.test in (TRANSFERS_TEST, PODS_TEST)


class ExpectationFile(Frozen):
    """What a file of expectations holds."""

    name: str = ""
    expect: tuple[Expectation, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Judgement:
    """What came of an expectation for one number."""

    where: str  # "expectations.toml: expect.0"
    met: bool | None  # Whether it is met; None when it could not be judged for want of a number
    text: str  # Number, interval and bound, in one sentence

    def __str__(self) -> str:
        return f"{self.text} ({self.where})"


def judge_metric(
    expected: Expectation, found: Metric, where: str, base: Metric | None = None
) -> Judgement:
    """Hold a number against an expectation."""
    name = _metric_text(found)
    if base is None:
        try:
            expected = expected.in_unit(found.unit)
        except ValueError as error:
            return Judgement(where, False, f"{name} cannot be held against it: {error}")
    if found.measured is None:
        return Judgement(where, False, f"{name} was not measured: {_first_line(found.why)}")
    number, n = mean_of_repeats(found)
    value = _measured_text(number, n, found.unit, found.marks)
    if base is not None:
        if base.measured is None or not mean_of_repeats(base)[0].high > 0:
            why = _first_line(base.why) if base.measured is None else "it is 0"
            return Judgement(where, False, f"{name} has nothing to be a multiple of: {why}")
        of, m = mean_of_repeats(base)
        value = (
            f"{value}, that of {_metric_text(base)} {_measured_text(of, m, base.unit, base.marks)}"
        )
        number = _ratio(number, of)
        value = f"{value}, ratio {_ratio_text(number)}"
    is_limit = "at least" in found.marks
    if expected.irregular != "allow" and (why := _why_unsure(expected, found, number, base)):
        return Judgement(where, False, f"{name} is {value}, and not judged: {why}")
    failures = _failures(
        expected, number, is_limit=is_limit, relative=base is not None, unit=found.unit
    )
    if expected.certain and found.over is None:
        failures.append("not certain, it is of one deployment (--repeat 3)")
    elif expected.certain and found.partial:
        failures.append(f"not certain, {found.partial}")
    if not failures:
        return Judgement(where, True, f"{name} is {value}: {_bounds_text(expected, found, base)}")
    why = f"; {expected.why}" if expected.why else ""
    return Judgement(where, False, f"{name} is {value}: {' and '.join(failures)}{why}")


#: Marks of a throughput whose number alone says too little.
_UNSURE = ("irregular", "not repeatable")


def _why_unsure(
    expected: Expectation, found: Metric, number: Measurand, base: Metric | None
) -> str:
    """Why a doubtful number cannot be held against a bound: it may be on either side; ""."""
    marks = [mark for mark in _UNSURE if mark in found.marks]
    crossed = [
        bound
        for bound in (expected.at_least, expected.at_most)
        if bound is not None and number.low < bound <= number.high
    ]
    if not marks or not crossed:
        return ""
    unit = "times it" if base is not None else ""
    text = f"{crossed[0]:g} {unit}" if unit else _value_text(crossed[0], found.unit)
    return f"it is {marks[0]}, and what it leaves open reaches across {text}"


def mean_of_repeats(metric: Metric) -> tuple[Measurand, int]:
    """A number with its interval, by its repeats where it has some; of two modes there is none."""
    number = metric.measured
    assert number is not None  # noqa: S101 - for the type checker: callers have looked
    if metric.over is not None and metric.over.spread is None:  # with a limit there is no mean
        every = metric.over.observations
        lows = [0.0 if one.low is None else one.low for one in every]
        highs = [inf if one.high is None else one.high for one in every]
        return Measurand(None, min(lows), max(highs)), len(every)
    if len(metric.repeats) < 2:
        return number, 1
    found = metric.spread
    assert found is not None  # noqa: S101 - for the type checker: it has repeats
    open_ = 0.0 if isinstance(metric.value, Spread) else _open_above(metric)
    # Of few repeats there is no interval, and what was seen is the least that can be expected.
    low = found.minimum if found.low is None else max(found.low, 0.0)  # none of them is below 0
    high = found.maximum if found.high is None else found.high
    if len(found.modes) > 1:
        most = found.maximum + open_
        return Measurand(None, found.minimum, most), found.n
    return Measurand(found.mean, low, high + open_), found.n


def _open_above(metric: Metric) -> float:
    """What a search leaves open above the mean: of a round that was cut off more than of others."""
    each = metric.over.observations if metric.over is not None else ()
    if any(one.high is None for one in each):
        return inf
    if not (each and metric.resolution):  # an interval of repeats is in how rounds differ already
        return metric.resolution
    return fmean(max(metric.resolution, (one.high or 0.0) - (one.value or 0.0)) for one in each)


def _failures(
    expected: Expectation, number: Measurand, *, is_limit: bool, relative: bool, unit: Unit
) -> list[str]:
    def text(bound: float) -> str:
        return f"{bound:g} times it" if relative else _value_text(bound, unit)

    failures = []
    # What proves "at least" is the lower end where no single value does, and the other way round.
    least = number.low if expected.certain or number.value is None else number.value
    most = number.high if expected.certain or number.value is None else number.value
    if expected.at_least is not None and least < expected.at_least and number.high == inf:
        failures.append(
            f"open above, and not shown to reach the expected {text(expected.at_least)}"
        )
    elif expected.at_least is not None and least < expected.at_least:
        failures.append(f"below the expected {text(expected.at_least)}")
    elif expected.at_least is not None and relative and number.low <= 0.0 < expected.at_least:
        failures.append(f"not shown to be {text(expected.at_least)}: the other is a lower bound")
    if expected.at_most is not None and most > expected.at_most:
        failures.append(f"above the allowed {text(expected.at_most)}")
    elif (
        expected.at_most is not None
        and not isfinite(number.high)
        # A loss of nothing is open above too, and is judged by its value as a loss of little is.
        and (is_limit or relative or expected.certain)
    ):
        failures.append(f"not shown to be no more than the allowed {text(expected.at_most)}")
    return failures


def _ratio(number: Measurand, of: Measurand) -> Measurand:
    low = number.low / of.high if isfinite(of.high) else 0.0
    high = number.high / of.low if of.low > 0 else inf
    known = number.value is not None and of.value is not None and of.value > 0
    value = number.value / of.value if known and number.value is not None and of.value else None
    return Measurand(value, low, high)


def _bounds_text(expected: Expectation, found: Metric, base: Metric | None) -> str:
    def text(bound: float) -> str:
        return f"{bound:g} times it" if base is not None else _value_text(bound, found.unit)

    parts = [
        f"{word} {text(bound)}"
        for word, bound in (("at least", expected.at_least), ("at most", expected.at_most))
        if bound is not None
    ]
    return f"as expected, {' and '.join(parts)}"


def _measured_text(number: Measurand, n: int, unit: Unit, marks: tuple[str, ...]) -> str:
    value = "no number" if number.value is None else _value_text(number.value, unit)
    qualifiers = [mark for mark in marks if mark in ("at least", "at most", "two modes")]
    interval = ""
    if number.low != number.high:
        interval = f" [{_value_text(number.low, unit)} .. {_value_text(number.high, unit)}]"
    repeated = f", n = {n}" if n > 1 else ""
    return f"{' '.join([*qualifiers, value])}{interval}{repeated}"


def _ratio_text(number: Measurand) -> str:
    value = "no number" if number.value is None else f"{number.value:.4g}"
    high = f"{number.high:.4g}" if isfinite(number.high) else "open"
    return f"{value} [{number.low:.4g} .. {high}]"


def _value_text(value: float, unit: Unit) -> str:
    return value_text(value, unit) if isfinite(value) else "open"


def _metric_text(metric: Metric) -> str:
    size = f"{metric.size} octets" if metric.size.isdecimal() else metric.size
    parts = (metric.scenario, metric.test, size, metric.title)
    return ", ".join(part for part in parts if part)


def _first_line(why: str) -> str:
    return why.splitlines()[0] if why else ""


@dataclass(frozen=True)
class Expectations:
    """What is expected of a run."""

    path: Path
    expected: tuple[Expectation, ...]  # The expectations, in its order
    #: Stored runs, by the name that the file gives them.
    baselines: dict[str, RunResults] = field(default_factory=dict)
    #: What they measured, by the same name.
    _measured: dict[str, list[Metric]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, scenarios: Sequence[str] = ()) -> Expectations:
        """Read a file, and the runs that it names."""
        held = load_model(ExpectationFile, path)
        baselines: dict[str, RunResults] = {}
        for number, one in enumerate(held.expect):
            where = f"{path}: expect.{number}"
            _require_known(one.scenario, scenarios, f"{where}.scenario")
            if one.of_scenario:
                _require_known(one.of_scenario, scenarios, f"{where}.of_scenario")
            if one.of_run and one.of_run not in baselines:
                baselines[one.of_run] = _baseline(one.of_run, path, f"{where}.of_run")
        return cls(path, held.expect, baselines)

    def of_run(self, run: RunResults, *, cases_too: bool = False) -> list[Judgement]:
        """Judge what needs several scenarios of a run, when all are there."""
        found: list[Judgement] = []
        every = _numbers_of(run)
        for number, one in enumerate(self.expected):
            if apart := list(self._not_comparable(number, one, run, every)):
                found += apart
                continue
            judged = list(self._judge(number, one, every))
            if one.of_whole_run or cases_too:
                found += judged
            if not judged:
                text = f"{_expectation_text(one)}: {_why_unjudged(one, every)}"
                found.append(Judgement(self._where(number), None, text))
        return found

    def check(self, result: Result) -> None:
        """Fail a case whose result is not as expected, as soon as it is there."""
        __tracebackhide__ = True  # pytest shows the case, and not the code that judges it
        failed = [
            str(judged)
            for number, one in enumerate(self.expected)
            if not one.of_whole_run
            for judged in self._judge(number, one, list(compared_metrics_of(result)))
            if judged.met is False
        ]
        if failed:
            raise AssertionError("\n".join(failed))

    def _judge(
        self, number: int, one: Expectation, metrics: Sequence[Metric]
    ) -> Iterator[Judgement]:
        where = self._where(number)
        for found in _metrics_for(one, metrics):
            if not (one.of_run or one.of_scenario):
                yield judge_metric(one, found, where)
                continue
            among = self._of_baseline(one.of_run) if one.of_run else metrics
            base, why = _base_metric(one, found, among)
            if base is not None:
                yield judge_metric(one, found, where, base)
            else:
                other = one.of_scenario or found.scenario
                of = one.of_run or "this run"
                size = f", {found.size}" if found.size else ""
                none = f"{of} has no such number of {other}"
                text = f"{_expectation_text(one)}{size}: {why or none}"
                yield Judgement(where, False if one.of_run else None, text)

    def _of_baseline(self, name: str) -> list[Metric]:
        if name not in self._measured:
            self._measured[name] = _numbers_of(self.baselines[name])
        return self._measured[name]

    def _not_comparable(
        self, number: int, one: Expectation, run: RunResults, metrics: Iterable[Metric]
    ) -> Iterator[Judgement]:
        """Stored runs that a run cannot be held against, as failures."""
        if not one.of_run or one.across:
            return
        base = self.baselines[one.of_run]
        there = {metric.scenario for metric in self._of_baseline(one.of_run)}
        for scenario in dict.fromkeys(metric.scenario for metric in _metrics_for(one, metrics)):
            other = one.of_scenario or scenario
            why = _key_differences(run, scenario, base, other) if other in there else ""
            if why:
                text = f"{_expectation_text(one)}: {scenario} is not comparable with {one.of_run}"
                yield Judgement(self._where(number), False, f"{text}: {why}")

    def _where(self, number: int) -> str:
        return f"{self.path}: expect.{number}"


def _why_unjudged(one: Expectation, metrics: Sequence[Metric]) -> str:
    others = _metrics_for(one.model_copy(update={"number": "*"}), metrics)
    called = list(dict.fromkeys(metric.title for metric in others if metric.label))
    if not called:
        return "this run has no result"
    near = did_you_mean(one.number, called)
    return f"no number is called {one.number!r}{near}; there are {', '.join(called)}"


def _require_known(pattern: str, known: Sequence[str], where: str) -> None:
    """Refuse a scenario that cannot be: a threshold that never applies guards nothing."""
    if not known or any(fnmatchcase(name, pattern.partition(",")[0]) for name in known):
        return
    raise ConfigError(
        f"no scenario is called {pattern!r}{did_you_mean(pattern, known)}",
        where=where,
        accepted=f"a scenario such as {known[0]}, or a pattern such as pvp_*",
    )


def _baseline(name: str, file: Path, where: str) -> RunResults:
    beside = file.parent / name
    try:
        found = beside if beside.exists() else find_run(name)
        return load_results(found)
    except VnetperfError as error:
        raise ConfigError(f"the stored run cannot be read: {error}", where=where) from None


def _key_differences(run: RunResults, scenario: str, base: RunResults, other: str) -> str:
    """Keys of comparability in which a run and a stored one differ, in words."""
    ours, theirs = comparability(run, scenario), comparability(base, other)
    return "; ".join(
        f"{key} is {ours.get(key, ABSENT)} here, {theirs.get(key, ABSENT)} there"
        for key in dict.fromkeys([*ours, *theirs])
        if ours.get(key) != theirs.get(key)
    )


def _metrics_for(one: Expectation, metrics: Iterable[Metric]) -> list[Metric]:
    """The numbers that an expectation is for, on any testbed if it names none."""
    found: dict[Key, list[Metric]] = {}
    for metric in metrics:
        if metric.test != one.test or not is_called(metric.scenario, one.scenario):
            continue
        if one.frame_sizes and metric.size not in map(str, one.frame_sizes):
            continue
        unmeasured = not (metric.label or metric.name)  # what has no result has no number's name
        if not one.number or unmeasured or _is_of(metric, one.number):
            found.setdefault((metric.scenario, metric.test, metric.size), []).append(metric)
    if one.number:
        return [metric for each in found.values() for metric in each]
    return [next((m for m in each if m.main), each[0]) for each in found.values()]


def _is_of(metric: Metric, number: str) -> bool:
    """Whether a number is meant: by its label, or by the title that tells it from others."""
    return fnmatchcase(metric.label, number) or fnmatchcase(metric.title, number)


def _numbers_of(run: RunResults) -> list[Metric]:
    """What a run measured; of transfers in several deployments what all of them gave."""
    moved = [one for _, _, metrics in metrics_over_deployments(run) for one in metrics]
    # A deployment that failed is in the mark of the others' number.
    known = {(one.scenario, one.key) for one in moved if one.partial}
    others = compared_metrics(run.model_copy(update={"transfers": ()}))
    return [*(one for one in others if (one.scenario, one.key) not in known), *moved]


def _base_metric(
    one: Expectation, found: Metric, among: Iterable[Metric]
) -> tuple[Metric | None, str]:
    """The number that another is to be a multiple of; or None, and why, where there is a reason."""
    scenario, testbed = without_testbed(found.scenario)
    scenario = on_testbed(one.of_scenario or scenario, testbed)  # two testbeds make no ratio
    why = ""
    for metric in among:
        if metric.scenario != scenario or metric.key != found.key:
            continue
        # What two scenarios of one run differ by over frames is what they are compared for.
        apart = one.of_run or found.test == TRANSFERS_TEST
        why = (
            describe_incomparability([found], [metric])
            if apart and found.measured is not None
            else ""
        )
        if not why:
            return metric, ""
        why = f"{why}; A is {found.scenario} here, B {scenario} of {one.of_run or 'this run'}"
    return None, why


def _expectation_text(one: Expectation) -> str:
    of = f" against {one.of_scenario}" if one.of_scenario else ""
    return f"{one.scenario}, {one.test}{of}"
