"""Gathers everything a run could not measure or find out, with the place it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vnetperf.model.result import Result, RunResults
from vnetperf.results.checklist import Item, lacking

_INDEX = re.compile(r"\[\d+\]")
_MARK = re.compile(r"(unknown|not measured)\s*(:|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Unknown:
    """One thing a reader might look for and will not find.

    Attributes:
        where: Path of the value, e.g. "environment.cpu.microcode".
        what: "unknown: why" or "not measured: why".
    """

    where: str
    what: str


def is_unknown(value: object) -> bool:
    """Tell whether a value says that it is none.

    Args:
        value: Any value.

    Returns:
        True for the strings "unknown...", "not measured...".
    """
    return isinstance(value, str) and _MARK.match(value.strip()) is not None


def _walk(value: Any, path: str) -> Iterator[Unknown]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
    elif is_unknown(value):
        yield Unknown(path, value.strip())


def _missing_of_run(results: RunResults) -> Iterator[Unknown]:
    for name in ("ended", "isolation", "testbed"):
        if not getattr(results.run, name):
            yield Unknown(f"run.{name}", "unknown: the run did not record it")
    if not results.environment:
        yield Unknown("environment", "unknown: the run recorded none")
    if not results.calibrations:
        yield Unknown("calibrations", "not measured: the run holds no calibration of its generator")
    for calibration in results.calibrations:
        for point in calibration.points:
            if point.smallest_burst_gap_ns is None:
                where = f"calibrations[{calibration.wire}][{point.frame_size}]"
                said = "not measured: no reason was recorded"
                yield Unknown(f"{where}.smallest_burst_gap_ns", said)


def _missing_of_result(result: Result) -> Iterator[Unknown]:
    where = f"{result.scenario}.{result.test}[{result.frame_size}]"
    if result.status == "not measured":
        yield Unknown(where, f"not measured: {result.why or 'no reason was recorded'}")
        return
    if result.generator_max_fps is None:
        yield Unknown(f"{where}.generator_max_fps", "not measured: size not calibrated")
    if result.media_max_fps is None:
        yield Unknown(f"{where}.media_max_fps", "unknown: no reference medium was recorded")
    said = {name: why for goal in result.goals for name, why in goal.uncollected.items()}
    for collector, why in said.items():
        yield Unknown(f"{where}.{collector}", why)
    for goal in result.goals:
        if goal.lower_bound_fps is not None and not goal.latency:
            yield Unknown(
                f"{where}.{goal.name}.latency",
                "not measured: no latency was recorded at the lower bound",
            )


def gather(results: RunResults) -> tuple[Unknown, ...]:
    """Everything unknown or not measured.

    Args:
        results: The run.

    Returns:
        In the order of results.json, then what is missing altogether, and what the checklist of
        fields that a report must have does not find; what a redacted copy lacks last.
    """
    run = results.run.model_dump()
    found = list(_walk(run, "run"))
    found += _walk(results.settings, "settings")
    found += _walk(results.environment, "environment")
    for scenario in results.scenarios:
        found += _walk(scenario.plan, f"{scenario.scenario}.plan")
        found += _walk(scenario.facts, f"{scenario.scenario}.facts")
        found += _walk(scenario.path_check, f"{scenario.scenario}.path_check")
    for entry in results.ledger:
        found += _walk([entry.value, entry.reason], f"ledger {entry.clause}")
    found += _missing_of_run(results)
    for result in results.results:
        found += _missing_of_result(result)
    for scenario in results.scenarios:
        if scenario.error:
            said = f"not measured: not deployed: {scenario.error}"
            found.append(Unknown(scenario.scenario, said))
    known = {_INDEX.sub(".*", unknown.where) for unknown in found}
    found += [
        _of_checklist(item)
        for item in lacking(results)
        if _INDEX.sub(".*", item.where) not in known
    ]
    return tuple(found)


def _of_checklist(item: Item) -> Unknown:
    """A field that reports must have and this one has not: by its name, which says more."""
    return Unknown(item.title, item.said)
