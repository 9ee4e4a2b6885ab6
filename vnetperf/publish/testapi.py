"""Results as OPNFV's TestAPI takes them: one document for each scenario and test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vnetperf.model.outcomes import Spread
from vnetperf.model.result import Result, RunResults
from vnetperf.report.outcomes import quantities

_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Names:
    """What results are filed under; the endpoint must know project, case and pod.

    Attributes:
        project: Project.
        pod: The machines; "" for the testbed's name.
        build_tag: The job that made the run; "" for the time it began.
        installer: What installed the DUT.
    """

    project: str = "vnetperf"
    pod: str = ""
    build_tag: str = ""
    installer: str = "none"


def documents(results: RunResults, names: Names) -> Iterator[dict[str, Any]]:
    """The documents of a run.

    Args:
        results: The run.
        names: What they are filed under.

    Yields:
        JSON values with the fields that TestAPI's results have. ``criteria`` is FAIL where any
        frame size has no number, or no load met a goal.
    """
    cases: dict[tuple[str, str], list[Result]] = {}
    for result in results.results:
        cases.setdefault((result.scenario, result.test), []).append(result)
    run = results.run
    for (scenario, test), members in cases.items():
        yield {
            "project_name": names.project,
            "case_name": _PLAIN.sub("_", f"{scenario}_{test}"),
            "pod_name": names.pod or run.testbed or "none",
            "installer": names.installer,
            "version": run.tool,
            "scenario": scenario,
            "build_tag": names.build_tag or run.started,
            "start_date": _date(run.started),
            "stop_date": _date(run.ended),
            "criteria": "PASS" if all(map(_passed, members)) else "FAIL",
            "details": {
                "preset": results.preset,
                "benchmark": results.benchmark,
                "virtual_lab": results.environment.get("virtual_lab") is True,
                "git": run.git,
                "warnings": list(results.warnings),
                "frame_sizes": {result.size_name: _details(result) for result in members},
            },
        }


def _date(when: str) -> str:
    """A time as TestAPI has it, "2026-11-22 05:50:51"; UTC."""
    return when[:19].replace("T", " ")


def _passed(result: Result) -> bool:
    missed = any(goal.lower_bound_fps is None for goal in result.goals)
    return result.status == "measured" and not missed


def _details(result: Result) -> dict[str, Any]:
    if result.status != "measured":
        return {"status": result.status, "why": result.why}
    goals = {
        goal.name: {
            "lower_bound_fps": goal.lower_bound_fps,
            "upper_bound_fps": goal.upper_bound_fps,
            "conditional_throughput_fps": goal.conditional_throughput_fps,
            "loss_ratio": goal.loss_ratio,
            "qualifier": goal.qualifier,
            "regular": goal.regular,
            "reason": goal.reason,
        }
        for goal in result.goals
    }
    found: list[dict[str, Any]] = []
    for quantity in quantities(result):
        told = {
            "item": quantity.item,
            "direction": quantity.direction,
            "name": quantity.name,
            "unit": quantity.unit,
            "value": quantity.number,
            "note": quantity.note,
        }
        if isinstance(quantity.value, Spread):
            told |= {key: getattr(quantity.value, key) for key in ("n", "low", "high", "stdev")}
        found.append({key: value for key, value in told.items() if value not in (None, "")})
    return {
        "status": result.status,
        "trials": result.trial_count,
        "trial_seconds": result.trial_seconds,
        **({"goals": goals} if goals else {}),
        **({"found": found} if found else {}),
    }
