"""The CSV files: results, trials, outcomes, curves, transfers; units are in the header."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from vnetperf.model.outcomes import Curve, Figures, Spread, Transfer
from vnetperf.model.result import GoalResult, Result, RunResults, TrialPoint
from vnetperf.model.trial import Latency
from vnetperf.report import summary
from vnetperf.report.goal_text import RateRow, rate_rows
from vnetperf.results.metrics import Metric, named_metrics_of

Row = TypeVar("Row")
#: A file's columns in order: name, and its value in a row.
Columns = Mapping[str, Callable[[Row], object]]
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: object) -> object:
    """A value as a cell: no spreadsheet may take a name for a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _csv(columns: Columns[Row], rows: Iterable[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(of(row)) for of in columns.values()])
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class _ResultRow:
    """A goal or one of its directions; no rate where a result has no goal."""

    results: RunResults
    result: Result
    rate: RateRow | None = None


def _of_goal(get: Callable[[GoalResult], object]) -> Callable[[_ResultRow], object]:
    return lambda row: get(row.rate.goal) if row.rate else None


def _of_bound(name: str) -> Callable[[_ResultRow], object]:
    return lambda row: getattr(row.rate.bound, name, None) if row.rate else None


def _of_latency(get: Callable[[Latency], object]) -> Callable[[_ResultRow], object]:
    return lambda row: get(row.rate.latency) if row.rate and row.rate.latency else None


def _l1_of_sum(row: _ResultRow) -> float | None:
    return None if row.rate is None or row.rate.direction else row.rate.goal.throughput_l1_bps


_RESULTS: Columns[_ResultRow] = {
    "scenario": lambda row: row.result.scenario,
    "test": lambda row: row.result.test,
    "frame_size_octets": lambda row: row.result.frame_size,
    "status": lambda row: row.result.status,
    "why": lambda row: row.result.why,
    "benchmark": lambda row: summary.is_benchmark(row.results),
    "goal": _of_goal(lambda goal: goal.name),
    "direction": lambda row: (row.rate.direction or "aggregate") if row.rate else None,
    "qualifier": _of_goal(lambda goal: goal.qualifier),
    "regular": _of_goal(lambda goal: goal.regular),
    "irregular_reason": _of_goal(lambda goal: goal.reason),
    "lower_bound_fps": _of_bound("lower_bound_fps"),
    "upper_bound_fps": _of_bound("upper_bound_fps"),
    "conditional_throughput_fps": _of_bound("conditional_throughput_fps"),
    "lower_bound_l1_bps": _l1_of_sum,
    "loss_ratio_at_lower_bound": _of_bound("loss_ratio_at_lower_bound"),
    "media_max_fps": lambda row: row.result.media_max_fps,
    "generator_max_fps": lambda row: row.result.generator_max_fps,
    "latency_min_ns": _of_latency(lambda latency: latency.min_ns),
    "latency_mean_ns": _of_latency(lambda latency: latency.mean_ns),
    "latency_p50_ns": _of_latency(lambda latency: latency.percentiles.get("50")),
    "latency_p90_ns": _of_latency(lambda latency: latency.percentiles.get("90")),
    "latency_p99_ns": _of_latency(lambda latency: latency.percentiles.get("99")),
    "latency_p99.9_ns": _of_latency(lambda latency: latency.percentiles.get("99.9")),
    "latency_max_ns": _of_latency(lambda latency: latency.max_ns),
    "goal_loss_ratio": _of_goal(lambda goal: goal.loss_ratio),
    "goal_exceed_ratio": _of_goal(lambda goal: goal.exceed_ratio),
    "goal_final_trial_s": _of_goal(lambda goal: goal.final_trial_s),
    "goal_duration_sum_s": _of_goal(lambda goal: goal.duration_sum_s),
    "goal_width": _of_goal(lambda goal: goal.width),
    "min_load_fps_per_interface": lambda row: row.result.min_load_fps,
    "max_load_fps_per_interface": lambda row: row.result.max_load_fps,
    "sending_interfaces": lambda row: row.result.directions,
    "imix": lambda row: row.result.imix,
    "algorithm": lambda row: row.result.algorithm,
    "trials": lambda row: row.result.trial_count,
    "trial_seconds": lambda row: row.result.trial_seconds,
    "wall_seconds": lambda row: row.result.wall_seconds,
    "virtual_lab": lambda row: summary.in_lab(row.results),
}


def results_csv(results: RunResults) -> str:
    """results.csv: a row per goal and direction, "aggregate" being their sum."""
    return _csv(
        _RESULTS,
        (
            _ResultRow(results, result, rate)
            for result in results.results
            for rate in (rate_rows(result) if result.goals else (None,))
        ),
    )


_TRIALS: Columns[tuple[RunResults, TrialPoint]] = {
    "number": lambda of: of[1].number,
    "scenario": lambda of: of[1].scenario,
    "test": lambda of: of[1].test,
    "frame_size_octets": lambda of: of[1].frame_size,
    "load_fps_per_interface": lambda of: of[1].load_fps,
    "duration_s": lambda of: of[1].duration_s,
    "loss_ratio_worse_direction": lambda of: of[1].loss_ratio,
    "forwarded_fps_aggregate": lambda of: of[1].forwarded_fps,
    "offered_ratio": lambda of: of[1].offered_ratio,
    "verdict": lambda of: of[1].verdict.value,
    "reason": lambda of: of[1].reason,
    "lost_at": lambda of: json.dumps(of[1].lost_at) if of[1].lost_at else "",
    "virtual_lab": lambda of: summary.in_lab(of[0]),
    "burst_frames": lambda of: of[1].burst or None,
}


def trials_csv(results: RunResults) -> str:
    """trials.csv: every trial in order."""
    return _csv(_TRIALS, ((results, trial) for trial in results.trials))


_MetricRow = tuple[RunResults, Result, Metric]


def _of_spread(get: Callable[[Spread], object]) -> Callable[[_MetricRow], object]:
    return lambda of: get(of[2].value) if isinstance(of[2].value, Spread) else None


_OUTCOMES: Columns[_MetricRow] = {
    "scenario": lambda of: of[1].scenario,
    "test": lambda of: of[1].test,
    "frame_size_octets": lambda of: of[1].frame_size,
    "imix": lambda of: of[1].imix,
    "item": lambda of: of[2].item,
    "direction": lambda of: of[2].direction,
    "quantity": lambda of: of[2].name,
    "unit": lambda of: of[2].unit,
    "value": lambda of: of[2].number,
    "n": _of_spread(lambda found: found.n),
    "interval_low": _of_spread(lambda found: found.low),
    "interval_high": _of_spread(lambda found: found.high),
    "confidence": _of_spread(lambda found: found.confidence if found.method else None),
    "interval_method": _of_spread(lambda found: found.method),
    "stdev": _of_spread(lambda found: found.stdev),
    "median": _of_spread(lambda found: found.median),
    "minimum": _of_spread(lambda found: found.minimum),
    "maximum": _of_spread(lambda found: found.maximum),
    "modes": _of_spread(lambda found: " ".join(f"{mode:g}" for mode in found.modes)),
    "outliers": _of_spread(
        lambda found: " ".join(f"{found.values[i]:g}" for i in found.outliers if i < found.n)
    ),
    "note": lambda of: of[2].note,
    "benchmark": lambda of: summary.is_benchmark(of[0]),
    "virtual_lab": lambda of: summary.in_lab(of[0]),
}


def outcomes_csv(results: RunResults) -> str:
    """outcomes.csv: the value of a spread is its mean; of two modes there is none."""
    return _csv(
        _OUTCOMES,
        (
            (results, result, metric)
            for result in results.results
            for metric in named_metrics_of(result)
        ),
    )


_CurveRow = tuple[Result, str, Curve, int]
_CURVES: Columns[_CurveRow] = {
    "scenario": lambda of: of[0].scenario,
    "test": lambda of: of[0].test,
    "frame_size_octets": lambda of: of[0].frame_size,
    "item": lambda of: of[1],
    "trial": lambda of: of[2].trial,
    "from_s": lambda of: round(of[3] * of[2].bin_s, 9),
    "bin_s": lambda of: of[2].bin_s,
    "offered_frames": lambda of: of[2].offered[of[3]],
    "lost_frames": lambda of: of[2].lost[of[3]],
    "arrived_frames": lambda of: of[2].arrived[of[3]],
}


def _curves_of(result: Result) -> Iterator[tuple[str, Curve]]:
    """Every curve over time of a result."""
    if result.recovery is not None:
        yield from (("recovery", curve) for curve in result.recovery.curves)
    for found in result.resets:
        yield from ((found.what, curve) for curve in found.curves)
    if result.soak is not None and result.soak.curve is not None:
        yield "soak", result.soak.curve


def curves_csv(results: RunResults) -> str:
    """curves.csv: a row for each bin of each curve."""
    return _csv(
        _CURVES,
        (
            (result, item, curve, index)
            for result in results.results
            for item, curve in _curves_of(result)
            for index in range(min(map(len, (curve.offered, curve.lost, curve.arrived))))
        ),
    )


@dataclass(frozen=True, slots=True)
class _TransferRow:
    """All instances of a transfer together, or one of them, which has no ends of its own."""

    results: RunResults
    scenario: str
    transfer: Transfer
    figures: Figures
    way: str
    instance: int | None = None


def _of_whole(get: Callable[[Transfer], object]) -> Callable[[_TransferRow], object]:
    return lambda row: get(row.transfer) if row.instance is None else None


def _round_trip(name: str) -> Callable[[_TransferRow], object]:
    return lambda row: row.figures.round_trip_us.get(name)


def _message_rate(row: _TransferRow) -> float | None:
    spec = row.transfer.spec
    return spec.message_rate if spec.kind.endswith("_LOAD") else None


_TRANSFERS: Columns[_TransferRow] = {
    "scenario": lambda row: row.scenario,
    "kind": lambda row: row.transfer.spec.kind,
    "way": lambda row: row.way,
    "instance": lambda row: row.instance or "all",
    "tool": lambda row: row.transfer.spec.tool,
    "version": lambda row: row.transfer.version,
    "message_size_octets": lambda row: row.transfer.spec.message_size,
    "instances": lambda row: row.transfer.spec.instances,
    "duration_s": lambda row: row.transfer.spec.duration_s,
    "warmup_s": lambda row: row.transfer.spec.warmup_s,
    "offered_bps_per_instance": lambda row: row.transfer.spec.rate_bps or None,
    "offered_messages_per_s": _message_rate,
    "arrived_bps": lambda row: row.figures.bits_per_second,
    "sent_bps": lambda row: row.figures.sent_bits_per_second,
    "loss_ratio": lambda row: row.figures.loss_ratio,
    "retransmitted_segments": lambda row: row.figures.retransmits,
    "jitter_ms": lambda row: row.figures.jitter_ms,
    "transactions_per_s": lambda row: row.figures.transactions_per_second,
    "round_trip_min_us": _round_trip("min"),
    "round_trip_mean_us": _round_trip("mean"),
    "round_trip_p50_us": _round_trip("50"),
    "round_trip_p90_us": _round_trip("90"),
    "round_trip_p99_us": _round_trip("99"),
    "round_trip_p99.9_us": _round_trip("99.9"),
    "round_trip_max_us": _round_trip("max"),
    "elapsed_s": _of_whole(lambda transfer: transfer.elapsed_s),
    "client_place": _of_whole(lambda transfer: transfer.client.place),
    "client_address": _of_whole(lambda transfer: transfer.client.address),
    "client_processors": _of_whole(lambda transfer: transfer.client.cpus),
    "client_user_s": _of_whole(lambda transfer: transfer.client.user_s),
    "client_system_s": _of_whole(lambda transfer: transfer.client.system_s),
    "client_cpu_percent_by_tool": lambda row: row.figures.client_cpu_percent,
    "server_place": _of_whole(lambda transfer: transfer.server.place),
    "server_address": _of_whole(lambda transfer: transfer.server.address),
    "server_processors": _of_whole(lambda transfer: transfer.server.cpus),
    "server_user_s": _of_whole(lambda transfer: transfer.server.user_s),
    "server_system_s": _of_whole(lambda transfer: transfer.server.system_s),
    "server_cpu_percent_by_tool": lambda row: row.figures.server_cpu_percent,
    "attach_s": _of_whole(lambda transfer: transfer.attach_s),
    "benchmark": lambda row: summary.is_benchmark(row.results),
    "virtual_lab": lambda row: summary.in_lab(row.results),
}


def _transfer_rows(results: RunResults) -> Iterator[_TransferRow]:
    for one in results.transfers:
        for transfer in one.transfers:
            of = (results, one.scenario, transfer)
            yield _TransferRow(*of, transfer, transfer.spec.way)
            for number, flow in enumerate(transfer.flows, 1):
                yield _TransferRow(*of, flow.figures, flow.way, number)


def transfers_csv(results: RunResults) -> str:
    """transfers.csv: rows of the instance "all" are sums, the others are numbered from 1."""
    return _csv(_TRANSFERS, _transfer_rows(results))
