"""Thresholds of a TOML file, held against the results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from vnetperf.analysis.comparison import describe_incomparability
from vnetperf.analysis.environment import ABSENT, comparability
from vnetperf.analysis.metrics import PODS_TEST, TRANSFERS_TEST, Key, Metric, compared_metrics_of
from vnetperf.analysis.run_metrics import compared_metrics, metrics_over_deployments
from vnetperf.analysis.runs import find_run, load_results
from vnetperf.config.files import load_model
from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError, VnetperfError, did_you_mean
from vnetperf.model.outcomes import Spread
from vnetperf.model.profile import IMIX
from vnetperf.model.result import Result, RunResults
from vnetperf.model.scenario import is_called, on_testbed, without_testbed
from vnetperf.model.units import Unit, parse_quantity, value_text
from vnetperf.plugin import registry
from vnetperf.statistics.difference import Measurand


def _require_test(test: str) -> str:
    names = (*registry.test_names(), TRANSFERS_TEST, PODS_TEST)
    if test not in names:
        raise ValueError(f"{test!r} is not a test{did_you_mean(test, names)}: {', '.join(names)}")
    return test


class Expectation(Frozen):
    """One threshold; numbers are in the unit of the result: frames/s, ns, s, or a ratio."""

    model_config = ConfigDict(allow_inf_nan=False)

    scenario: str = Field(min_length=1)  # "pvp_dpdk", or a pattern: "pvp_*"
    #: Test whose number it is; or what sockets, ranks and guests did, or the lives of pods.
    test: Annotated[str, AfterValidator(_require_test)] = "throughput"
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
        parsed_values, units = dict(values), set()
        for key in ("at_least", "at_most"):
            if not isinstance(text := values.get(key), str):
                continue
            parsed = parse_quantity(text)
            if parsed is not None and parsed[1] != "octets":  # else it is refused as no number
                parsed_values[key], unit = parsed
                units.add(unit)
        if len(units) > 1 or (
            units and (parsed_values.get("of_run") or parsed_values.get("of_scenario"))
        ):
            raise ValueError("at_least and at_most are of one unit, and multiples have none")
        return parsed_values | {"unit": units.pop()} if units else parsed_values

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
    def is_judged_last(self) -> bool:
        """Whether it needs more than one case, so that it is judged at the end of the run."""
        of_run = bool(self.of_scenario) and not self.of_run
        return of_run or self.test in (TRANSFERS_TEST, PODS_TEST)


class ExpectationFile(Frozen):
    """What a file of expectations holds."""

    name: str = ""
    expect: tuple[Expectation, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Judgement:
    """The verdict on one number."""

    where: str  # "expectations.toml: expect.0"
    met: bool | None  # Whether it is met; None when it could not be judged for want of a number
    text: str  # Number, interval and bound, in one sentence

    def __str__(self) -> str:
        return f"{self.text} ({self.where})"


def judge_metric(
    expected: Expectation, metric: Metric, where: str, base: Metric | None = None
) -> Judgement:
    """Compare a number with an expectation."""
    name = _metric_text(metric)
    if base is None:
        try:
            expected = expected.in_unit(metric.unit)
        except ValueError as error:
            return Judgement(where, False, f"{name} cannot be held against it: {error}")
    if metric.measured is None:
        return Judgement(where, False, f"{name} was not measured: {_first_line(metric.why)}")
    number, n = average_repeats(metric)
    value = _measured_text(number, n, metric.unit, metric.marks)
    if base is not None:
        if base.measured is None or not average_repeats(base)[0].high > 0:
            reason = _first_line(base.why) if base.measured is None else "it is 0"
            return Judgement(where, False, f"{name} has nothing to be a multiple of: {reason}")
        base_number, m = average_repeats(base)
        base_text = _measured_text(base_number, m, base.unit, base.marks)
        value = f"{value}, that of {_metric_text(base)} {base_text}"
        number = _ratio(number, base_number)
        value = f"{value}, ratio {_ratio_text(number)}"
    is_limit = "at least" in metric.marks
    if expected.irregular != "allow" and (
        reason := _describe_doubt(expected, metric, number, base)
    ):
        return Judgement(where, False, f"{name} is {value}, and not judged: {reason}")
    failures = _failures(
        expected, number, is_limit=is_limit, relative=base is not None, unit=metric.unit
    )
    if expected.certain and metric.over is None:
        failures.append("not certain, it is of one deployment (--repeat 3)")
    elif expected.certain and metric.partial:
        failures.append(f"not certain, {metric.partial}")
    if not failures:
        return Judgement(where, True, f"{name} is {value}: {_bounds_text(expected, metric, base)}")
    reason = f"; {expected.why}" if expected.why else ""
    return Judgement(where, False, f"{name} is {value}: {' and '.join(failures)}{reason}")


#: Marks of a throughput whose number alone says too little.
_UNSURE = ("irregular", "not repeatable")


def _describe_doubt(
    expected: Expectation, metric: Metric, number: Measurand, base: Metric | None
) -> str:
    """Describe why a number may be on either side of a bound; "" if its side is certain."""
    marks = [mark for mark in _UNSURE if mark in metric.marks]
    crossed = [
        bound
        for bound in (expected.at_least, expected.at_most)
        if bound is not None and number.low < bound <= number.high
    ]
    if not marks or not crossed:
        return ""
    unit = "times it" if base is not None else ""
    text = f"{crossed[0]:g} {unit}" if unit else _value_text(crossed[0], metric.unit)
    return f"it is {marks[0]}, and what it leaves open reaches across {text}"


def average_repeats(metric: Metric) -> tuple[Measurand, int]:
    """A number with its interval, by its repeats where it has some; of two modes there is none."""
    number = metric.measured
    assert number is not None  # noqa: S101 - for the type checker: callers have looked
    if metric.over is not None and metric.over.spread is None:  # with a limit there is no mean
        observations = metric.over.observations
        lows = [0.0 if observation.low is None else observation.low for observation in observations]
        highs = [
            inf if observation.high is None else observation.high for observation in observations
        ]
        return Measurand(None, min(lows), max(highs)), len(observations)
    if len(metric.repeats) < 2:
        return number, 1
    spread = metric.spread
    assert spread is not None  # noqa: S101 - for the type checker: it has repeats
    open_ = 0.0 if isinstance(metric.value, Spread) else _open_above(metric)
    # Of few repeats there is no interval, and what was seen is the least that can be expected.
    low = spread.minimum if spread.low is None else max(spread.low, 0.0)  # none of them is below 0
    high = spread.maximum if spread.high is None else spread.high
    if len(spread.modes) > 1:
        most = spread.maximum + open_
        return Measurand(None, spread.minimum, most), spread.n
    return Measurand(spread.mean, low, high + open_), spread.n


def _open_above(metric: Metric) -> float:
    """What a search leaves open above the mean: of a round that was cut off more than of others."""
    observations = metric.over.observations if metric.over is not None else ()
    if any(observation.high is None for observation in observations):
        return inf
    # How rounds differ holds an interval of repeats already.
    if not (observations and metric.resolution):
        return metric.resolution
    return fmean(
        max(metric.resolution, (observation.high or 0.0) - (observation.value or 0.0))
        for observation in observations
    )


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


def _ratio(number: Measurand, base: Measurand) -> Measurand:
    low = number.low / base.high if isfinite(base.high) else 0.0
    high = number.high / base.low if base.low > 0 else inf
    has_values = number.value is not None and base.value is not None and base.value > 0
    value = (
        number.value / base.value
        if has_values and number.value is not None and base.value
        else None
    )
    return Measurand(value, low, high)


def _bounds_text(expected: Expectation, metric: Metric, base: Metric | None) -> str:
    def text(bound: float) -> str:
        return f"{bound:g} times it" if base is not None else _value_text(bound, metric.unit)

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


def _first_line(reason: str) -> str:
    return reason.splitlines()[0] if reason else ""


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
        expectations = load_model(ExpectationFile, path)
        baselines: dict[str, RunResults] = {}
        for number, expectation in enumerate(expectations.expect):
            where = f"{path}: expect.{number}"
            _require_scenario(expectation.scenario, scenarios, f"{where}.scenario")
            if expectation.of_scenario:
                _require_scenario(expectation.of_scenario, scenarios, f"{where}.of_scenario")
            if expectation.of_run and expectation.of_run not in baselines:
                baselines[expectation.of_run] = _baseline(
                    expectation.of_run, path, f"{where}.of_run"
                )
        return cls(path, expectations.expect, baselines)

    def judge_run(self, run: RunResults, *, cases_too: bool = False) -> list[Judgement]:
        """Judge the expectations that need several scenarios, at the end of a run."""
        judgements: list[Judgement] = []
        metrics = _read_metrics(run)
        for number, expectation in enumerate(self.expected):
            if apart := list(self._not_comparable(number, expectation, run, metrics)):
                judgements += apart
                continue
            judged = list(self._judge(number, expectation, metrics))
            if expectation.is_judged_last or cases_too:
                judgements += judged
            if not judged:
                text = (
                    f"{_expectation_text(expectation)}: {_describe_missing(expectation, metrics)}"
                )
                judgements.append(Judgement(self._where(number), None, text))
        return judgements

    def check(self, result: Result) -> None:
        """Fail a case whose result is not as expected, as soon as it is there."""
        __tracebackhide__ = True  # pytest shows the case, and not the code that judges it
        failed = [
            str(judged)
            for number, expectation in enumerate(self.expected)
            if not expectation.is_judged_last
            for judged in self._judge(number, expectation, list(compared_metrics_of(result)))
            if judged.met is False
        ]
        if failed:
            raise AssertionError("\n".join(failed))

    def _judge(
        self, number: int, expectation: Expectation, metrics: Sequence[Metric]
    ) -> Iterator[Judgement]:
        where = self._where(number)
        for metric in _metrics_for(expectation, metrics):
            if not (expectation.of_run or expectation.of_scenario):
                yield judge_metric(expectation, metric, where)
                continue
            among = self._baseline_metrics(expectation.of_run) if expectation.of_run else metrics
            base, reason = _base_metric(expectation, metric, among)
            if base is not None:
                yield judge_metric(expectation, metric, where, base)
            else:
                other = expectation.of_scenario or metric.scenario
                source = expectation.of_run or "this run"
                size = f", {metric.size}" if metric.size else ""
                none = f"{source} has no such number of {other}"
                text = f"{_expectation_text(expectation)}{size}: {reason or none}"
                yield Judgement(where, False if expectation.of_run else None, text)

    def _baseline_metrics(self, name: str) -> list[Metric]:
        if name not in self._measured:
            self._measured[name] = _read_metrics(self.baselines[name])
        return self._measured[name]

    def _not_comparable(
        self, number: int, expectation: Expectation, run: RunResults, metrics: Iterable[Metric]
    ) -> Iterator[Judgement]:
        """Fail expectations whose stored run is not comparable with this run."""
        if not expectation.of_run or expectation.across:
            return
        base = self.baselines[expectation.of_run]
        scenarios = {metric.scenario for metric in self._baseline_metrics(expectation.of_run)}
        for scenario in dict.fromkeys(
            metric.scenario for metric in _metrics_for(expectation, metrics)
        ):
            other = expectation.of_scenario or scenario
            differences = _key_differences(run, scenario, base, other) if other in scenarios else ""
            if differences:
                text = (
                    f"{_expectation_text(expectation)}: {scenario} is not comparable with "
                    f"{expectation.of_run}: {differences}"
                )
                yield Judgement(self._where(number), False, text)

    def _where(self, number: int) -> str:
        return f"{self.path}: expect.{number}"


def _describe_missing(expectation: Expectation, metrics: Sequence[Metric]) -> str:
    others = _metrics_for(expectation.model_copy(update={"number": "*"}), metrics)
    called = list(dict.fromkeys(metric.title for metric in others if metric.label))
    if not called:
        return "this run has no result"
    near = did_you_mean(expectation.number, called)
    return f"no number is called {expectation.number!r}{near}; there are {', '.join(called)}"


def _require_scenario(pattern: str, scenarios: Sequence[str], where: str) -> None:
    """Refuse a scenario that cannot be: a threshold that never applies guards nothing."""
    if not scenarios or any(fnmatchcase(name, pattern.partition(",")[0]) for name in scenarios):
        return
    raise ConfigError(
        f"no scenario is called {pattern!r}{did_you_mean(pattern, scenarios)}",
        where=where,
        accepted=f"a scenario such as {scenarios[0]}, or a pattern such as pvp_*",
    )


def _baseline(name: str, file: Path, where: str) -> RunResults:
    relative = file.parent / name
    try:
        run_path = relative if relative.exists() else find_run(name)
        return load_results(run_path)
    except VnetperfError as error:
        raise ConfigError(f"the stored run cannot be read: {error}", where=where) from None


def _key_differences(run: RunResults, scenario: str, base: RunResults, other: str) -> str:
    """Keys of comparability in which a run and a stored one differ, in words."""
    run_keys, base_keys = comparability(run, scenario), comparability(base, other)
    return "; ".join(
        f"{key} is {run_keys.get(key, ABSENT)} here, {base_keys.get(key, ABSENT)} there"
        for key in dict.fromkeys([*run_keys, *base_keys])
        if run_keys.get(key) != base_keys.get(key)
    )


def _metrics_for(expectation: Expectation, metrics: Iterable[Metric]) -> list[Metric]:
    """The numbers that an expectation is for, on any testbed if it names none."""
    by_case: dict[Key, list[Metric]] = {}
    for metric in metrics:
        if metric.test != expectation.test or not is_called(metric.scenario, expectation.scenario):
            continue
        if expectation.frame_sizes and metric.size not in map(str, expectation.frame_sizes):
            continue
        unmeasured = not (metric.label or metric.name)  # what has no result has no number's name
        if not expectation.number or unmeasured or _matches_number(metric, expectation.number):
            by_case.setdefault((metric.scenario, metric.test, metric.size), []).append(metric)
    if expectation.number:
        return [metric for case_metrics in by_case.values() for metric in case_metrics]
    return [
        next((m for m in case_metrics if m.main), case_metrics[0])
        for case_metrics in by_case.values()
    ]


def _matches_number(metric: Metric, number: str) -> bool:
    """Whether a name or pattern matches a metric's label or title."""
    return fnmatchcase(metric.label, number) or fnmatchcase(metric.title, number)


def _read_metrics(run: RunResults) -> list[Metric]:
    """Read the metrics of a run; those of transfers are over all deployments."""
    moved = [metric for _, _, metrics in metrics_over_deployments(run) for metric in metrics]
    # A deployment that failed is in the mark of the others' number.
    merged = {(metric.scenario, metric.key) for metric in moved if metric.partial}
    others = compared_metrics(run.model_copy(update={"transfers": ()}))
    return [*(metric for metric in others if (metric.scenario, metric.key) not in merged), *moved]


def _base_metric(
    expectation: Expectation, judged: Metric, among: Iterable[Metric]
) -> tuple[Metric | None, str]:
    """The number that another is to be a multiple of; or None, and why, where there is a reason."""
    scenario, testbed = without_testbed(judged.scenario)
    # A ratio is of two numbers of one testbed.
    scenario = on_testbed(expectation.of_scenario or scenario, testbed)
    reason = ""
    for metric in among:
        if metric.scenario != scenario or metric.key != judged.key:
            continue
        # What two scenarios of one run differ by over frames is what they are compared for.
        apart = expectation.of_run or judged.test == TRANSFERS_TEST
        reason = (
            describe_incomparability([judged], [metric])
            if apart and judged.measured is not None
            else ""
        )
        if not reason:
            return metric, ""
        source = expectation.of_run or "this run"
        reason = f"{reason}; A is {judged.scenario} here, B {scenario} of {source}"
    return None, reason


def _expectation_text(expectation: Expectation) -> str:
    base = f" against {expectation.of_scenario}" if expectation.of_scenario else ""
    return f"{expectation.scenario}, {expectation.test}{base}"
