"""The CSV files: results, trials, outcomes, curves, transfers; units are in the header."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from vnetperf.model.outcomes import Curve, Figures, Spread, Transfer
from vnetperf.model.result import DirectionBound, GoalResult, Result, RunResults
from vnetperf.report import summary
from vnetperf.results.metrics import Metric, named_metrics_of

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
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


def csv_cell(value: object) -> object:
    """A value as a cell: no spreadsheet may take a name for a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
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
    """results.csv: a row per goal and direction, "aggregate" being their sum."""
    out = io.StringIO()
    writer = csv.DictWriter(out, RESULT_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for result in results.results:
        case = _case_columns(result, benchmark=summary.is_benchmark(results))
        case["virtual_lab"] = summary.in_lab(results)
        rows = [row for goal in result.goals for row in _goal_rows(goal)] or [{}]
        for row in rows:
            writer.writerow({key: csv_cell(value) for key, value in (case | row).items()})
    return out.getvalue()


def trials_csv(results: RunResults) -> str:
    """trials.csv: every trial in order."""
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
            summary.in_lab(results),
            trial.burst or None,
        )
        writer.writerow([csv_cell(value) for value in row])
    return out.getvalue()


OUTCOME_COLUMNS = (
    "scenario",
    "test",
    "frame_size_octets",
    "imix",
    "item",
    "direction",
    "quantity",
    "unit",
    "value",
    "n",
    "interval_low",
    "interval_high",
    "confidence",
    "interval_method",
    "stdev",
    "median",
    "minimum",
    "maximum",
    "modes",
    "outliers",
    "note",
    "benchmark",
    "virtual_lab",
)
CURVE_COLUMNS = (
    "scenario",
    "test",
    "frame_size_octets",
    "item",
    "trial",
    "from_s",
    "bin_s",
    "offered_frames",
    "lost_frames",
    "arrived_frames",
)


def _spread_columns(found: Spread) -> dict[str, object]:
    return {
        "n": found.n,
        "interval_low": found.low,
        "interval_high": found.high,
        "confidence": found.confidence if found.method else None,
        "interval_method": found.method,
        "stdev": found.stdev,
        "median": found.median,
        "minimum": found.minimum,
        "maximum": found.maximum,
        "modes": " ".join(f"{mode:g}" for mode in found.modes),
        "outliers": " ".join(f"{found.values[i]:g}" for i in found.outliers if i < found.n),
    }


def _outcome_row(result: Result, found: Metric) -> dict[str, object]:
    more = _spread_columns(found.value) if isinstance(found.value, Spread) else {}
    return more | {
        "scenario": result.scenario,
        "test": result.test,
        "frame_size_octets": result.frame_size,
        "imix": result.imix,
        "item": found.item,
        "direction": found.direction,
        "quantity": found.name,
        "unit": found.unit,
        "value": found.number,
        "note": found.note,
    }


def outcomes_csv(results: RunResults) -> str:
    """outcomes.csv: the value of a spread is its mean; of two modes there is none."""
    out = io.StringIO()
    writer = csv.DictWriter(out, OUTCOME_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    about = {"benchmark": summary.is_benchmark(results), "virtual_lab": summary.in_lab(results)}
    for result in results.results:
        for found in named_metrics_of(result):
            row = about | _outcome_row(result, found)
            writer.writerow({key: csv_cell(value) for key, value in row.items()})
    return out.getvalue()


def curves_of(result: Result) -> Iterator[tuple[str, Curve]]:
    """Every curve over time of a result."""
    if result.recovery is not None:
        yield from (("recovery", curve) for curve in result.recovery.curves)
    for found in result.resets:
        yield from ((found.what, curve) for curve in found.curves)
    if result.soak is not None and result.soak.curve is not None:
        yield "soak", result.soak.curve


def curves_csv(results: RunResults) -> str:
    """curves.csv: a row for each bin of each curve."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CURVE_COLUMNS)
    for result in results.results:
        for item, curve in curves_of(result):
            head = (result.scenario, result.test, result.frame_size, item, curve.trial)
            counts = zip(curve.offered, curve.lost, curve.arrived, strict=False)
            for number, bin_of in enumerate(counts):
                start = round(number * curve.bin_s, 9)
                writer.writerow([csv_cell(v) for v in (*head, start, curve.bin_s, *bin_of)])
    return out.getvalue()


_ROUND_TRIP_TIMES = ("min", "mean", "50", "90", "99", "99.9", "max")
TRANSFER_COLUMNS = (
    "scenario",
    "kind",
    "way",
    "instance",
    "tool",
    "version",
    "message_size_octets",
    "instances",
    "duration_s",
    "warmup_s",
    "offered_bps_per_instance",
    "offered_messages_per_s",
    "arrived_bps",
    "sent_bps",
    "loss_ratio",
    "retransmitted_segments",
    "jitter_ms",
    "transactions_per_s",
    *(
        f"round_trip_{name if name in ('min', 'mean', 'max') else 'p' + name}_us"
        for name in _ROUND_TRIP_TIMES
    ),
    "elapsed_s",
    *(
        f"{end}_{what}"
        for end in ("client", "server")
        for what in ("place", "address", "processors", "user_s", "system_s", "cpu_percent_by_tool")
    ),
    "attach_s",
    "benchmark",
    "virtual_lab",
)


def transfers_csv(results: RunResults) -> str:
    """transfers.csv: rows of the instance "all" are sums, the others are numbered from 1."""
    out = io.StringIO()
    writer = csv.DictWriter(out, TRANSFER_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    about = {
        "benchmark": summary.is_benchmark(results),
        "virtual_lab": summary.in_lab(results),
    }
    for one in results.transfers:
        for transfer in one.transfers:
            asked = about | {"scenario": one.scenario} | _request_columns(transfer)
            rows = [
                asked | _end_columns(transfer) | _figure_columns(transfer) | {"instance": "all"}
            ]
            rows += [
                asked | _figure_columns(flow.figures) | {"instance": number, "way": flow.way}
                for number, flow in enumerate(transfer.flows, 1)
            ]
            for row in rows:
                writer.writerow({key: csv_cell(value) for key, value in row.items()})
    return out.getvalue()


def _request_columns(transfer: Transfer) -> dict[str, object]:
    spec = transfer.spec
    return {
        "kind": spec.kind,
        "way": spec.way,
        "tool": spec.tool,
        "version": transfer.version,
        "message_size_octets": spec.message_size,
        "instances": spec.instances,
        "duration_s": spec.duration_s,
        "warmup_s": spec.warmup_s,
        "offered_bps_per_instance": spec.rate_bps or None,
        "offered_messages_per_s": spec.message_rate if spec.kind.endswith("_LOAD") else None,
    }


def _figure_columns(found: Figures) -> dict[str, object]:
    times = {
        f"round_trip_{name if name in ('min', 'mean', 'max') else 'p' + name}_us": (
            found.round_trip_us.get(name)
        )
        for name in _ROUND_TRIP_TIMES
    }
    return {
        "arrived_bps": found.bits_per_second,
        "sent_bps": found.sent_bits_per_second,
        "loss_ratio": found.loss_ratio,
        "retransmitted_segments": found.retransmits,
        "jitter_ms": found.jitter_ms,
        "transactions_per_s": found.transactions_per_second,
        "client_cpu_percent_by_tool": found.client_cpu_percent,
        "server_cpu_percent_by_tool": found.server_cpu_percent,
        **times,
    }


def _end_columns(transfer: Transfer) -> dict[str, object]:
    found: dict[str, object] = {"elapsed_s": transfer.elapsed_s, "attach_s": transfer.attach_s}
    for name, end in (("client", transfer.client), ("server", transfer.server)):
        found |= {
            f"{name}_place": end.place,
            f"{name}_address": end.address,
            f"{name}_processors": end.cpus,
            f"{name}_user_s": end.user_s,
            f"{name}_system_s": end.system_s,
        }
    return found
