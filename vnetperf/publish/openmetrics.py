"""The numbers of a run as OpenMetrics text, without time stamps, which file collectors refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from vnetperf.model.outcomes import Spread
from vnetperf.model.result import GoalResult, Result, RunResults
from vnetperf.report.outcomes import quantities

#: Ends every text, so that a cut one is known.
END: Final = "# EOF\n"
_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
Labels = Mapping[str, str]


@dataclass
class Family:
    """Samples of one name.

    Attributes:
        name: "vnetperf_throughput_fps".
        kind: "gauge" or "info".
        text: What it is.
        samples: Labels and value.
    """

    name: str
    kind: str
    text: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float | None) -> None:
        """Add a sample; nothing where there is no number.

        Args:
            labels: Label -> text; empty ones are left out.
            value: The number; None for none.
        """
        if value is not None:
            self.samples.append(({k: v for k, v in labels.items() if v}, float(value)))

    def lines(self) -> Iterator[str]:
        """The text of the family, without ends of lines; none without samples."""
        if not self.samples:
            return
        yield f"# TYPE {self.name} {self.kind}"
        yield f"# HELP {self.name} {_escaped(self.text)}"
        suffix = "_info" if self.kind == "info" else ""
        for labels, value in self.samples:
            inside = ",".join(f'{_NAME.sub("_", k)}="{_escaped(v)}"' for k, v in labels.items())
            yield f"{self.name}{suffix}{{{inside}}} {value:.10g}"


def openmetrics(results: RunResults) -> str:
    """The numbers of a run.

    Args:
        results: The run.

    Returns:
        OpenMetrics 1.0 text. A case without a number has `vnetperf_case_measured` 0 and no other
        sample: what was not measured is not there, and never 0.
    """
    families = {
        name: Family(f"vnetperf_{name}", kind, text)
        for name, kind, text in (
            ("run", "info", "The run that these numbers are of."),
            ("run_start_time_seconds", "gauge", "When the run began, seconds since 1970."),
            ("run_end_time_seconds", "gauge", "When it ended; absent when it was interrupted."),
            ("case_measured", "gauge", "1 where a case has a result, 0 where it has none."),
            ("case_trial_seconds", "gauge", "Seconds of traffic."),
            ("case_trials", "gauge", "Trials run."),
            ("throughput_fps", "gauge", "Load of a bound, aggregate frames/s (RFC 2544 26.1)."),
            ("throughput_direction_fps", "gauge", "The same for each direction."),
            ("throughput_regular", "gauge", "0 where a bound is missing or the width not met."),
            ("latency_seconds", "gauge", "Latency at the lower bound."),
            ("quantity", "gauge", "What other tests found, with the unit as a label."),
        )
    }
    _run(families, results)
    for result in results.results:
        _result(families, result)
    lines = [line for family in families.values() for line in family.lines()]
    return "\n".join(lines) + f"\n{END}"


def _run(families: Mapping[str, Family], results: RunResults) -> None:
    run = results.run
    told = {
        "tool": run.tool,
        "git": run.git,
        "preset": results.preset,
        "benchmark": "yes" if results.benchmark else "no",
        "testbed": run.testbed,
        "virtual_lab": "yes" if results.environment.get("virtual_lab") is True else "no",
        "redacted": "yes" if results.redacted else "no",
    }
    families["run"].add(told, 1)
    families["run_start_time_seconds"].add({}, _seconds(run.started))
    families["run_end_time_seconds"].add({}, _seconds(run.ended))


def _seconds(when: str) -> float | None:
    return datetime.fromisoformat(when).timestamp() if when else None


def _result(families: Mapping[str, Family], result: Result) -> None:
    labels = {"scenario": result.scenario, "test": result.test, "frame_size": result.size_name}
    families["case_measured"].add(labels, result.status == "measured")
    if result.status != "measured":
        return
    families["case_trials"].add(labels, result.trial_count)
    families["case_trial_seconds"].add(labels, result.trial_seconds)
    for goal in result.goals:
        _goal(families, labels | {"goal": goal.name}, goal)
    for found in quantities(result):
        told = labels | {
            "item": found.item,
            "direction": found.direction,
            "name": found.name,
            "unit": found.unit,
        }
        families["quantity"].add(told, found.number)
        if isinstance(found.value, Spread):
            for end in ("low", "high"):
                families["quantity"].add(told | {"interval": end}, getattr(found.value, end))


def _goal(families: Mapping[str, Family], labels: Labels, goal: GoalResult) -> None:
    numbers = {
        "lower": goal.lower_bound_fps,
        "upper": goal.upper_bound_fps,
        "conditional": goal.conditional_throughput_fps,
    }
    for bound, number in numbers.items():
        told = {**labels, "bound": bound, "qualifier": goal.qualifier}
        families["throughput_fps"].add(told, number)
    families["throughput_regular"].add(labels, goal.regular)
    for direction in goal.per_direction:
        told = {**labels, "direction": direction.direction, "bound": "lower"}
        families["throughput_direction_fps"].add(told, direction.lower_bound_fps)
    for direction_name, latency in goal.latency.items():
        told = {**labels, "direction": direction_name}
        for percentile, nanoseconds in latency.percentiles.items():
            quantile = {"percentile": percentile}
            families["latency_seconds"].add({**told, **quantile}, nanoseconds / 1e9)
        for name in ("min", "mean", "max"):
            value = getattr(latency, f"{name}_ns") / 1e9
            families["latency_seconds"].add({**told, "statistic": name}, value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
