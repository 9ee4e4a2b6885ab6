"""Writes junit.xml for CI systems: a suite per scenario, a case per test and size."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from vnetperf.analysis.metrics import (
    Metric,
    explain_missing_number,
    list_goal_metrics,
    list_named_metrics,
)
from vnetperf.analysis.run_metrics import OtherCase, other_cases
from vnetperf.model.outcomes import Spread
from vnetperf.model.result import GoalResult, Result, RunResults
from vnetperf.model.units import value_text
from vnetperf.report import goal_text, outcomes, summary

#: Everything XML 1.0 has no place for, surrogates included.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: How transfers of several instances are told apart.
_INSTANCES = re.compile("^([0-9]+) instances")


def _clean(value: object) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _properties(parent: ET.Element, values: Iterable[tuple[str, object]]) -> None:
    nonempty = [(name, value) for name, value in values if value not in (None, "")]
    if not nonempty:
        return
    holder = ET.SubElement(parent, "properties")
    for name, value in nonempty:
        text = str(value).lower() if isinstance(value, bool) else value
        ET.SubElement(holder, "property", name=_clean(name), value=_clean(text))


#: Units that have another name in the name of a property.
_UNITS = {"bit/s": "bps"}
#: Percentiles and extremes of a goal's latency that are properties; OpenMetrics has them all.
_LATENCIES = ("latency_p50", "latency_p99", "latency_max")


def _goal_numbers(result: Result, goal: GoalResult) -> Iterator[tuple[str, object]]:
    metrics = list(list_goal_metrics(result, goal))
    sums = {
        "_".join(filter(None, (m.name, _UNITS.get(m.unit, m.unit)))): m.number
        for m in metrics
        if not m.direction
    }
    regular = sums.pop("regular")
    texts = {"qualifier": goal.qualifier, "regular": regular, "irregular_reason": goal.reason}
    texts["meaning"] = goal.caveat or "no loss in trials of 60 s"
    for name, value in (sums | texts | {"goal_loss_ratio": goal.loss_ratio}).items():
        yield f"{goal.name}.{name}", value
    for m in metrics:
        if m.direction and (m.unit == "fps" or m.name in _LATENCIES):
            yield f"{goal.name}.{m.direction}.{m.name}_{m.unit}", m.number


def _numbers(result: Result) -> Iterator[tuple[str, object]]:
    yield "frame_size_octets", result.frame_size
    if result.imix:
        yield "imix", result.imix
    yield "algorithm", result.algorithm
    yield "sending_interfaces", result.directions
    yield "media_max_fps", result.media_max_fps
    yield "generator_max_fps", result.generator_max_fps
    yield "trials", result.trial_count
    yield "trial_seconds", result.trial_seconds
    for goal in result.goals:
        yield from _goal_numbers(result, goal)
    for metric in list_named_metrics(result):
        yield from _metric(metric)


def _metric(metric: Metric) -> Iterator[tuple[str, object]]:
    """A number under the names of what it is of; of a spread its interval and n besides."""
    parts = (metric.item, metric.direction, metric.name)
    path = ".".join(part for part in parts if part)
    name = f"{path}_{metric.unit}" if metric.unit else path
    yield name, metric.number
    if isinstance(metric.value, Spread):
        yield f"{name}.n", metric.value.n
        yield f"{name}.low", metric.value.low
        yield f"{name}.high", metric.value.high
        yield f"{name}.stdev", metric.value.stdev
        yield f"{name}.modes", " ".join(f"{mode:.6g}" for mode in metric.value.modes)
    if metric.note:
        yield f"{path}.note", metric.note


def _outcome(result: Result) -> str:
    """Which count of its suite a case belongs to; "" for one that passed."""
    if result.status == "not measured":
        return "errors" if result.failed else "skipped"
    if any(g.lower_bound_fps is None for g in result.goals):
        return "failures"
    return "skipped" if explain_missing_number(result) else ""


def _testcase(suite: ET.Element, scenario: str, name: str, seconds: float) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        classname=_clean(scenario),
        name=_clean(name),
        time=f"{seconds:.3f}",
    )


def _name(case: Result | OtherCase) -> str:
    """A case's name, which no other has: "TCP_STREAM forth[v2v_ovs,endpoints-64-x8]"."""
    size = case.size if isinstance(case, OtherCase) else case.size_name
    parts = (case.scenario, size, *filter(None, _INSTANCES.sub(r"x\1", case.of).split(", ")))
    return f"{case.test}[{'-'.join(parts)}]"


def _case(suite: ET.Element, result: Result, other: OtherCase | None) -> None:
    """A result; `other` is the same transfer, where another deployment of it was measured."""
    seconds = result.wall_seconds + (other.seconds if other else 0.0)
    case = _testcase(suite, result.scenario, _name(result), seconds)
    _properties(case, chain(_numbers(result), _other_numbers(other) if other else ()))
    outcome = _outcome(result)
    if outcome == "failures":
        names = ", ".join(g.name for g in result.goals if g.lower_bound_fps is None)
        words = _clean(f"{goal_text.NO_LOAD_MET}: {names}")
        ET.SubElement(case, "failure", type=goal_text.NO_LOAD_MET, message=words)
    elif outcome:
        reason = _clean(explain_missing_number(result))
        kind = "error" if outcome == "errors" else "skipped"
        ET.SubElement(case, kind, type="not measured", message=reason)
    for goal in result.goals:
        ET.SubElement(case, "system-out").text = _clean(
            f"{goal.name}: {goal_text.headline(goal)}, aggregate of {result.directions} sending "
            f"interface(s); {goal_text.flag_with_reason(goal)}"
        )
    number, conditions = outcomes.headline(result)
    if number:
        words = "; ".join([f"{result.test}: {number}".replace("\n", "; "), conditions])
        ET.SubElement(case, "system-out").text = _clean(words)
    if other:
        _main_number(case, other)


def _other(suite: ET.Element, other: OtherCase) -> None:
    """A transfer that was measured, or the lives of pods."""
    case = _testcase(suite, other.scenario, _name(other), other.seconds)
    _properties(case, _other_numbers(other))
    _main_number(case, other)


def _other_numbers(other: OtherCase) -> Iterator[tuple[str, object]]:
    yield "message_size_octets", None if other.size == "-" else other.size
    yield from other.conditions.items()
    for metric in other.metrics:
        yield from _metric(metric)


def _main_number(case: ET.Element, other: OtherCase) -> None:
    main = next((metric for metric in other.metrics if metric.main), None)
    if main is not None and isinstance(main.number, float):
        text = f"{other.test}: {value_text(main.number, main.unit)}"
        ET.SubElement(case, "system-out").text = _clean(text)


class _Suite:
    """The cases of one scenario, each made text when it is met."""

    def __init__(self, name: str, others: Iterable[OtherCase], results: RunResults) -> None:
        self._name = name
        self._results = results
        self._other_cases = [*others]
        self._others = {_name(other): other for other in self._other_cases}
        self._joined: set[str] = set()  # Names of others that are in the case of a result
        self._counts: Counter[str] = Counter()
        self._tests = 0
        self._result_s: list[float] = []
        self.texts: list[str] = []

    def add(self, result: Result) -> None:
        """Write the case of a result."""
        name = _name(result)
        if name in self._others:
            self._joined.add(name)
        self._tests += 1
        self._counts[_outcome(result)] += 1
        self._result_s.append(result.wall_seconds)
        holder = ET.Element("testsuite")
        _case(holder, result, self._others.get(name))
        self._take(holder)

    def _take(self, holder: ET.Element) -> None:
        """Note the text of a case, as it stands two levels deep."""
        (case,) = holder
        ET.indent(case, level=2)
        self.texts.append(ET.tostring(case, encoding="unicode"))

    def element(self, root: ET.Element) -> None:
        """The suite, with one mark in the place of all cases."""
        results = self._results
        facts = next(
            (scenario for scenario in results.scenarios if scenario.scenario == self._name), None
        )
        failed = facts is not None and bool(facts.error)
        joined = [self._others[name] for name in self._joined]
        alone = [other for other in self._other_cases if other not in joined]
        seconds = sum(self._result_s) + sum(other.seconds for other in self._other_cases)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(self._name),
            tests=str(self._tests + len(alone) + failed),
            failures=str(self._counts["failures"]),
            errors=str(self._counts["errors"] + failed),
            skipped=str(self._counts["skipped"]),
            time=f"{seconds:.3f}",
            timestamp=_clean(results.run.started),
        )
        facts_of_run = {
            "tool": results.run.tool,
            "preset": results.preset,
            "benchmark": summary.is_benchmark(results),
            "virtual_lab": results.virtual_lab,
            "note": summary.first_line(results),
            "testbed": results.run.testbed,
        }
        _properties(suite, facts_of_run.items())
        for other in alone:
            holder = ET.Element("testsuite")
            _other(holder, other)
            self._take(holder)
        if facts is not None and facts.error:
            holder = ET.Element("testsuite")
            case = _testcase(holder, facts.scenario, f"deploy[{facts.scenario}]", facts.deploy_s)
            ET.SubElement(case, "error", type="not deployed", message=_clean(facts.error))
            self._take(holder)
        if self.texts:
            ET.SubElement(suite, _MARK)


#: What stands for all cases of a suite until they are written.
_MARK = "cases"


def junit_xml(results: RunResults) -> str:
    """junit.xml of a run."""
    return "".join(junit_parts(results))


def junit_parts(results: RunResults) -> Iterator[str]:
    """The same part by part."""
    others: dict[str, list[OtherCase]] = defaultdict(list)
    for other in other_cases(results):
        others[other.scenario].append(other)
    suites: dict[str, _Suite] = {}

    def find_suite(name: str) -> _Suite:
        if name not in suites:
            suites[name] = _Suite(name, others.get(name, ()), results)
        return suites[name]

    for result in results.results:
        find_suite(result.scenario).add(result)
    for name in (*others, *(scenario.scenario for scenario in results.scenarios if scenario.error)):
        find_suite(name)
    root = ET.Element("testsuites", name="vnetperf")
    for suite in suites.values():
        suite.element(root)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in root)))
    ET.indent(root)
    yield '<?xml version="1.0" encoding="utf-8"?>\n'
    rest = ET.tostring(root, encoding="unicode", xml_declaration=False)
    for suite in suites.values():
        if suite.texts:
            before, _, rest = rest.partition(f"<{_MARK} />")
            yield before
            yield "\n    ".join(suite.texts)
    yield f"{rest}\n"
