"""Writes results.csv and trials.csv: one tidy row per number's owner, units in the header."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from vnetperf.model.result import DirectionBound, GoalResult, Result, RunResults
from vnetperf.report import opening

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PERCENTILES = ("50", "90", "99", "99.9")

RESULT_COLUMNS = (
    "scenario",
    "test",
    "frame_size_octets",
    "status",
    "why",
    "benchmark",
    "goal",
    "direction",
    "qualifier",
    "regular",
    "irregular_reason",
    "lower_bound_fps",
    "upper_bound_fps",
    "conditional_throughput_fps",
    "lower_bound_l1_bps",
    "loss_ratio_at_lower_bound",
    "media_max_fps",
    "generator_max_fps",
    "latency_min_ns",
    "latency_mean_ns",
    *(f"latency_p{p}_ns" for p in _PERCENTILES),
    "latency_max_ns",
    "goal_loss_ratio",
    "goal_exceed_ratio",
    "goal_final_trial_s",
    "goal_duration_sum_s",
    "goal_width",
    "min_load_fps_per_interface",
    "max_load_fps_per_interface",
    "sending_interfaces",
    "imix",
    "algorithm",
    "trials",
    "trial_seconds",
    "wall_seconds",
    "virtual_lab",
)
TRIAL_COLUMNS = (
    "number",
    "scenario",
    "test",
    "frame_size_octets",
    "load_fps_per_interface",
    "duration_s",
    "loss_ratio_worse_direction",
    "forwarded_fps_aggregate",
    "offered_ratio",
    "verdict",
    "reason",
    "lost_at",
    "virtual_lab",
    "burst_frames",
)


def cell(value: object) -> object:
    """A value as a cell: no spreadsheet may take a name for a formula.

    Args:
        value: A text, a number, a truth value, or None.

    Returns:
        What is written.
    """
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _case_columns(result: Result, *, benchmark: bool) -> dict[str, object]:
    return {
        "scenario": result.scenario,
        "test": result.test,
        "frame_size_octets": result.frame_size,
        "status": result.status,
        "why": result.why,
        "benchmark": benchmark,
        "media_max_fps": result.media_max_fps,
        "generator_max_fps": result.generator_max_fps,
        "min_load_fps_per_interface": result.min_load_fps,
        "max_load_fps_per_interface": result.max_load_fps,
        "sending_interfaces": result.directions,
        "imix": result.imix,
        "algorithm": result.algorithm,
        "trials": result.trial_count,
        "trial_seconds": result.trial_seconds,
        "wall_seconds": result.wall_seconds,
    }


def _goal_columns(goal: GoalResult) -> dict[str, object]:
    return {
        "goal": goal.name,
        "qualifier": goal.qualifier,
        "regular": goal.regular,
        "irregular_reason": goal.reason,
        "goal_loss_ratio": goal.loss_ratio,
        "goal_exceed_ratio": goal.exceed_ratio,
        "goal_final_trial_s": goal.final_trial_s,
        "goal_duration_sum_s": goal.duration_sum_s,
        "goal_width": goal.width,
    }


def _bound_columns(bound: GoalResult | DirectionBound) -> dict[str, object]:
    return {
        "lower_bound_fps": bound.lower_bound_fps,
        "upper_bound_fps": bound.upper_bound_fps,
        "conditional_throughput_fps": bound.conditional_throughput_fps,
    }


def _latency_columns(goal: GoalResult, direction: str) -> dict[str, object]:
    latency = goal.latency.get(direction)
    if latency is None:
        return {}
    columns: dict[str, object] = {
        "latency_min_ns": latency.min_ns,
        "latency_mean_ns": latency.mean_ns,
        "latency_max_ns": latency.max_ns,
    }
    return columns | {f"latency_p{p}_ns": latency.percentiles.get(p) for p in _PERCENTILES}


def _goal_rows(goal: GoalResult) -> Iterator[dict[str, object]]:
    aggregate: dict[str, object] = {
        "direction": "aggregate",
        "lower_bound_l1_bps": goal.throughput_l1_bps,
    }
    yield _goal_columns(goal) | _bound_columns(goal) | aggregate
    bounds = {b.direction: b for b in goal.per_direction}
    for direction in dict.fromkeys([*bounds, *goal.latency]):
        row = _goal_columns(goal) | {"direction": direction} | _latency_columns(goal, direction)
        if direction in bounds:
            bound = bounds[direction]
            row |= _bound_columns(bound)
            row["loss_ratio_at_lower_bound"] = bound.loss_ratio_at_lower_bound
        yield row


def results_csv(results: RunResults) -> str:
    """results.csv: a row per goal and direction, "aggregate" being their sum.

    Args:
        results: The run.

    Returns:
        CSV text; a size that was not measured is one row with its reason.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, RESULT_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for result in results.results:
        case = _case_columns(result, benchmark=opening.is_benchmark(results))
        case["virtual_lab"] = opening.in_lab(results)
        rows = [row for goal in result.goals for row in _goal_rows(goal)] or [{}]
        for row in rows:
            writer.writerow({key: cell(value) for key, value in (case | row).items()})
    return out.getvalue()


def trials_csv(results: RunResults) -> str:
    """trials.csv: every trial in order.

    Args:
        results: The run.

    Returns:
        CSV text; ``lost_at`` is a JSON object of hop -> frames.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(TRIAL_COLUMNS)
    for trial in results.trials:
        row = (
            trial.number,
            trial.scenario,
            trial.test,
            trial.frame_size,
            trial.load_fps,
            trial.duration_s,
            trial.loss_ratio,
            trial.forwarded_fps,
            trial.offered_ratio,
            trial.verdict.value,
            trial.reason,
            json.dumps(trial.lost_at) if trial.lost_at else "",
            opening.in_lab(results),
            trial.burst or None,
        )
        writer.writerow([cell(value) for value in row])
    return out.getvalue()
