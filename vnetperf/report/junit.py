"""Writes junit.xml for CI systems: a suite per scenario, a case per test and frame size."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator

from vnetperf.model.outcomes import Spread
from vnetperf.model.result import GoalResult, Result, RunResults, ScenarioFacts
from vnetperf.report import goal_text, outcomes, summary
from vnetperf.results.metrics import Metric, named_metrics_of

#: Everything XML 1.0 has no place for, surrogates included.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(value: object) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _properties(parent: ET.Element, values: Iterator[tuple[str, object]]) -> None:
    known = [(name, value) for name, value in values if value not in (None, "")]
    if not known:
        return
    holder = ET.SubElement(parent, "properties")
    for name, value in known:
        text = str(value).lower() if isinstance(value, bool) else value
        ET.SubElement(holder, "property", name=_clean(name), value=_clean(text))


def _goal_numbers(goal: GoalResult) -> Iterator[tuple[str, object]]:
    name = goal.name
    yield f"{name}.lower_bound_fps", goal.lower_bound_fps
    yield f"{name}.upper_bound_fps", goal.upper_bound_fps
    yield f"{name}.conditional_throughput_fps", goal.conditional_throughput_fps
    yield f"{name}.lower_bound_l1_bps", goal.throughput_l1_bps
    yield f"{name}.qualifier", goal.qualifier
    yield f"{name}.regular", goal.regular
    yield f"{name}.irregular_reason", goal.reason
    yield f"{name}.goal_loss_ratio", goal.loss_ratio
    for bound in goal.per_direction:
        yield f"{name}.{bound.direction}.lower_bound_fps", bound.lower_bound_fps
        yield f"{name}.{bound.direction}.upper_bound_fps", bound.upper_bound_fps
    for direction, latency in goal.latency.items():
        for percentile in ("50", "99"):
            value = latency.percentiles.get(percentile)
            yield f"{name}.{direction}.latency_p{percentile}_ns", value
        yield f"{name}.{direction}.latency_max_ns", latency.max_ns


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
        yield from _goal_numbers(goal)
    for metric in named_metrics_of(result):
        yield from _metric(metric)


def _metric(found: Metric) -> Iterator[tuple[str, object]]:
    """A number under the names of what it is of; of a spread its interval and n besides."""
    parts = (found.item, found.direction, found.name)
    path = ".".join(part for part in parts if part)
    name = f"{path}_{found.unit}" if found.unit else path
    yield name, found.number
    if isinstance(found.value, Spread):
        yield f"{name}.n", found.value.n
        yield f"{name}.low", found.value.low
        yield f"{name}.high", found.value.high
        yield f"{name}.stdev", found.value.stdev
        yield f"{name}.modes", " ".join(f"{mode:.6g}" for mode in found.value.modes)
    if found.note:
        yield f"{path}.note", found.note


def _outcome(result: Result) -> str:
    """Which count of its suite a case belongs to; "" for one that passed."""
    if result.status == "not measured":
        return "errors" if result.failed else "skipped"
    return "failures" if any(g.lower_bound_fps is None for g in result.goals) else ""


def _case(suite: ET.Element, result: Result) -> None:
    case_element = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(result.scenario),
        name=_clean(f"{result.test}[{result.scenario}-{result.size_name}]"),
        time=f"{result.wall_seconds:.3f}",
    )
    _properties(case_element, _numbers(result))
    why = result.why or "no reason was recorded"
    match _outcome(result):
        case "errors":
            ET.SubElement(case_element, "error", type="not measured", message=_clean(why))
        case "skipped":
            ET.SubElement(case_element, "skipped", type="not measured", message=_clean(why))
        case "failures":
            names = ", ".join(g.name for g in result.goals if g.lower_bound_fps is None)
            said = f"{goal_text.NO_LOAD_MET}: {names}"
            ET.SubElement(case_element, "failure", type=goal_text.NO_LOAD_MET, message=_clean(said))
    for goal in result.goals:
        out = ET.SubElement(case_element, "system-out")
        out.text = _clean(
            f"{goal.name}: {goal_text.headline(goal)}, aggregate of {result.directions} sending "
            f"interface(s); {goal_text.flag_with_reason(goal)}"
        )
    number, more = outcomes.headline(result)
    if number:
        out = ET.SubElement(case_element, "system-out")
        out.text = _clean("; ".join([f"{result.test}: {number}".replace("\n", "; "), more]))


def _deploy_error(suite: ET.Element, facts: ScenarioFacts) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(facts.scenario),
        name=_clean(f"deploy[{facts.scenario}]"),
        time=f"{facts.deploy_s:.3f}",
    )
    ET.SubElement(case, "error", type="not deployed", message=_clean(facts.error))


def _suite(
    root: ET.Element,
    name: str,
    members: list[Result],
    facts: ScenarioFacts | None,
    results: RunResults,
) -> None:
    failed = facts is not None and bool(facts.error)
    outcomes = Counter(map(_outcome, members))
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_clean(name),
        tests=str(len(members) + failed),
        failures=str(outcomes["failures"]),
        errors=str(outcomes["errors"] + failed),
        skipped=str(outcomes["skipped"]),
        time=f"{sum(r.wall_seconds for r in members):.3f}",
        timestamp=_clean(results.run.started),
    )
    facts_of_run = {
        "tool": results.run.tool,
        "preset": results.preset,
        "benchmark": summary.is_benchmark(results),
        "virtual_lab": summary.in_lab(results),
        "note": summary.first_line(results),
        "testbed": results.run.testbed,
    }
    _properties(suite, iter(facts_of_run.items()))
    for result in members:
        _case(suite, result)
    if facts is not None and facts.error:
        _deploy_error(suite, facts)


def junit_xml(results: RunResults) -> str:
    """junit.xml of a run."""
    suites: dict[str, list[Result]] = defaultdict(list)
    for result in results.results:
        suites[result.scenario].append(result)
    facts = {s.scenario: s for s in results.scenarios}
    for name, found in facts.items():
        if found.error:
            suites.setdefault(name, [])
    root = ET.Element("testsuites", name="vnetperf")
    for name, members in suites.items():
        _suite(root, name, members, facts.get(name), results)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="utf-8"?>\n', "\n")
    )
