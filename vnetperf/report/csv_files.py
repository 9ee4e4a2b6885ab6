"""The CSV files: results, trials, outcomes, curves, transfers; units are in the header."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from vnetperf.analysis.metrics import list_named_metrics
from vnetperf.analysis.transport import ip_capacity, tcp_quality
from vnetperf.model.outcomes import Curve, Spread
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.result import Result, RunResults
from vnetperf.model.transfer import Transfer
from vnetperf.plugin.procedure import find_outcome
from vnetperf.report import summary
from vnetperf.report.goal_text import rate_rows

#: What a row is made of: "result", "rate", "trial" ... -> the object.
Row = Mapping[str, Any]
#: A file's columns in order: name -> path of its value in a row, or what makes it of the row.
Columns = Mapping[str, str | Callable[[Row], object]]
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def _value(node: object, names: Sequence[tuple[str, str]]) -> object:
    """What is below a row's object; None below anything that is None."""
    for name, rest in names:
        if node is None:
            return None
        if isinstance(node, dict):
            return node.get(rest)
        node = getattr(node, name)
    return node


def _names(path: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The first name of a path, and each later one with all that follows it."""
    first, *names = path.split(".")
    return first, tuple((name, ".".join(names[n:])) for n, name in enumerate(names))


def _cell(value: object) -> object:
    """A value as a cell: no spreadsheet may take a name for a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


#: Characters of a file that are written at once.
_AT_ONCE = 2**16


class CsvFile:
    """One of the files.

    Args:
        columns: Its columns.
        rows: What makes the rows of a run; each has besides its own what holds for the whole run.
    """

    def __init__(self, columns: Columns, rows: Callable[[RunResults], Iterable[Row]]) -> None:
        self._columns = columns
        self._rows = rows
        #: Of rows one after the other many are of the same object: its cells are made once.
        self._paths: dict[str, list[tuple[int, tuple[tuple[str, str], ...]]]] = {}
        self._makers: list[tuple[int, Callable[[Row], object]]] = []
        for place, source in enumerate(columns.values()):
            if callable(source):
                self._makers.append((place, source))
            else:
                first, names = _names(source)
                self._paths.setdefault(first, []).append((place, names))

    def __call__(self, results: RunResults) -> str:
        """The file of a run."""
        return "".join(self.parts(results))

    def parts(self, results: RunResults) -> Iterator[str]:
        """The same part by part."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self._columns)
        lab = results.virtual_lab
        run = SimpleNamespace(benchmark=summary.is_benchmark(results), virtual_lab=lab)
        cells: list[object] = [""] * len(self._columns)
        before: dict[str, object] = {}
        for row in self._rows(results):
            full_row = {**row, "run": run}
            for first, places in self._paths.items():
                part = full_row[first]
                if first in before and before[first] is part:
                    continue
                before[first] = part
                for place, names in places:
                    cells[place] = _cell(_value(part, names))
            for place, make in self._makers:
                cells[place] = _cell(make(full_row))
            writer.writerow(cells)
            if out.tell() > _AT_ONCE:
                yield out.getvalue()
                out.seek(0)
                out.truncate()
        yield out.getvalue()


def _case(owner: str) -> dict[str, str]:
    """Columns of what a row is about."""
    names = {"scenario": "scenario", "test": "test", "frame_size_octets": "frame_size"}
    return {column: f"{owner}.{name}" for column, name in names.items()}


def _direction(row: Row) -> object:
    return (row["rate"].direction or "aggregate") if row["rate"] else None


def _lower_bound_loss(row: Row) -> object:
    """Known of directions only."""
    bound = row["rate"] and row["rate"].bound
    return getattr(bound, "loss_ratio_at_lower_bound", None)


_BOUNDS = ("lower_bound_fps", "upper_bound_fps", "conditional_throughput_fps")
_LATENCIES = {
    **{name: f"rate.latency.{name}_ns" for name in ("min", "mean")},
    **{f"p{level}": f"rate.latency.percentiles.{level}" for level in ("50", "90", "99", "99.9")},
    "max": "rate.latency.max_ns",
}
_ATTRIBUTES = ("loss_ratio", "exceed_ratio", "final_trial_s", "duration_sum_s", "width")
_RESULTS: Columns = {
    **_case("result"),
    "status": "result.status",
    "why": "result.why",
    "benchmark": "run.benchmark",
    "goal": "rate.goal.name",
    "direction": _direction,
    "qualifier": "rate.goal.qualifier",
    "regular": "rate.goal.regular",
    "irregular_reason": "rate.goal.reason",
    "repeatable": "sum.repeatable",
    "meaning": "rate.goal.caveat",
    "loss_free_fps": "sum.loss_free_fps",
    "loss_ratio_of_all_trials_there": "sum.loss_at_lower_bound",
    "least_lower_bound_fps": "sum.least_fps",
    "largest_upper_bound_fps": "sum.most_fps",
    **{name: f"rate.bound.{name}" for name in _BOUNDS},
    "lower_bound_l1_bps": "sum.throughput_l1_bps",
    "loss_ratio_at_lower_bound": _lower_bound_loss,
    "media_max_fps": "result.media_max_fps",
    "generator_max_fps": "result.generator_max_fps",
    **{f"latency_{name}_ns": path for name, path in _LATENCIES.items()},
    **{f"goal_{name}": f"rate.goal.{name}" for name in _ATTRIBUTES},
    "min_load_fps_per_interface": "result.min_load_fps",
    "max_load_fps_per_interface": "result.max_load_fps",
    "sending_interfaces": "result.directions",
    "imix": "result.imix",
    "algorithm": "result.algorithm",
    "trials": "result.trial_count",
    "trial_seconds": "result.trial_seconds",
    "wall_seconds": "result.wall_seconds",
    "virtual_lab": "run.virtual_lab",
    "discarded_trials": "result.discarded",
    **{
        f"{kind}_trials_at_{bound}_bound": f"rate.goal.at_{bound}_bound.{kind}"
        for bound in ("lower", "upper")
        for kind in ("valid", "discarded")
    },
    **{
        f"tester_poll_gap_{name}_s": f"rate.goal.gaps.poll.{path}"
        for name, path in (
            *((f"p{level}", f"percentiles.{level}") for level in ("50", "99", "99.9")),
            ("max", "max_s"),
        )
    },
    "frames_before_departure": "rate.latency.before_departure",
    "frames_above_range": "rate.latency.above_range",
    "of": "result.of",
}


def _result_rows(results: RunResults) -> Iterator[Row]:
    for result in results.results:
        for rate in rate_rows(result) if result.goals else (None,):
            aggregate = None if not rate or rate.direction else rate.goal
            yield {"result": result, "rate": rate, "sum": aggregate}


#: results.csv: a row per goal and direction, "aggregate" being their sum.
results_csv = CsvFile(_RESULTS, _result_rows)


def _phase(row: Row) -> object:
    """What a trial of a search was for."""
    return row["trial"].phase or ("search" if row["trial"].test == THROUGHPUT else None)


_TRIALS: Columns = {
    "number": "trial.number",
    "search": "trial.search",
    **_case("trial"),
    "load_fps_per_interface": "trial.load_fps",
    "duration_s": "trial.duration_s",
    "loss_ratio_worse_direction": "trial.loss_ratio",
    "forwarded_fps_aggregate": "trial.forwarded_fps",
    "offered_ratio": "trial.offered_ratio",
    "verdict": "trial.verdict.value",
    "reason": "trial.reason",
    "lost_at": lambda row: json.dumps(row["trial"].lost_at) if row["trial"].lost_at else "",
    "virtual_lab": "run.virtual_lab",
    "burst_frames": lambda row: row["trial"].burst or None,
    "unsent_frames": "trial.unsent",
    "tester_poll_gap_s": "trial.poll_gap_s",
    "tester_send_gap_s": "trial.send_gap_s",
    "late_frames": "trial.late",
    "disturbed": lambda row: "; ".join(row["trial"].disturbed),
    "phase": _phase,
    "offered_ratio_worse_direction": "trial.least_offered_ratio",
}


#: trials.csv: every trial in order.
trials_csv = CsvFile(_TRIALS, lambda results: ({"trial": trial} for trial in results.trials))


_CPU: Columns = {
    "trial": "trial.number",
    **_case("trial"),
    "load_fps_per_interface": "trial.load_fps",
    "role": "use.role",
    "processors": lambda row: " ".join(map(str, row["use"].processors)),
    **{f"{name}_cores": f"use.{name}" for name in ("user", "system", "softirq", "guest", "steal")},
    **{f"{name}_cores": f"use.{name}" for name in ("busy", "waiting")},
    "switches_per_s": "use.switches_per_s",
    **{name: f"use.{name}" for name in ("backlog_dropped", "backlog_squeezed")},
    "shared_with": lambda row: " ".join(row["use"].shared_with),
    "verdict": "trial.verdict.value",
    "virtual_lab": "run.virtual_lab",
}


def _cpu_rows(results: RunResults) -> Iterator[Row]:
    return ({"trial": trial, "use": use} for trial in results.trials for use in trial.cpu)


#: cpu.csv: processor use, a row for each role of each trial; empty cells are not recorded.
cpu_csv = CsvFile(_CPU, _cpu_rows)


def _confidence(row: Row) -> object:
    spread = row["spread"]
    return spread.confidence if spread and spread.method else None


def _modes(row: Row) -> str:
    spread = row["spread"]
    return " ".join(f"{mode:g}" for mode in spread.modes) if spread else ""


def _outliers(row: Row) -> str:
    spread = row["spread"]
    if spread is None:
        return ""
    return " ".join(f"{spread.values[place]:g}" for place in spread.outliers if place < spread.n)


_OUTCOMES: Columns = {
    **_case("result"),
    "imix": "result.imix",
    "item": "metric.item",
    "direction": "metric.direction",
    "quantity": "metric.name",
    "unit": "metric.unit",
    "value": "metric.number",
    "n": "spread.n",
    "interval_low": "spread.low",
    "interval_high": "spread.high",
    "confidence": _confidence,
    "interval_method": "spread.method",
    **{name: f"spread.{name}" for name in ("stdev", "median", "minimum", "maximum")},
    "modes": _modes,
    "outliers": _outliers,
    "note": "metric.note",
    "benchmark": "run.benchmark",
    "virtual_lab": "run.virtual_lab",
}


def _outcome_rows(results: RunResults) -> Iterator[Row]:
    for result in results.results:
        for metric in list_named_metrics(result):
            # What the value is the mean of: that of deployments has a row of its own.
            spread = metric.value if isinstance(metric.value, Spread) else None
            yield {"result": result, "metric": metric, "spread": spread}


#: outcomes.csv: the value of a spread is its mean; of two modes there is none.
outcomes_csv = CsvFile(_OUTCOMES, _outcome_rows)


_CURVES: Columns = {
    **_case("result"),
    "item": "item",
    "trial": "curve.trial",
    "from_s": lambda row: round(row["bin"] * row["curve"].bin_s, 9),
    "bin_s": "curve.bin_s",
    "offered_frames": lambda row: row["curve"].offered[row["bin"]],
    "lost_frames": lambda row: row["curve"].lost[row["bin"]],
    "arrived_frames": lambda row: row["curve"].arrived[row["bin"]],
}


def _list_curves(result: Result) -> Iterable[tuple[str, Curve]]:
    """Every curve over time of a result, with what it is of."""
    if result.outcome is not None:
        return ((of, curve) for of, curves in result.outcome.curves.items() for curve in curves)
    if (measured := find_outcome(result)) is None:
        return ()
    test, outcome = measured
    return test.list_curves(outcome)


def _curve_rows(results: RunResults) -> Iterator[Row]:
    return (
        {"result": result, "item": item, "curve": curve, "bin": index}
        for result in results.results
        for item, curve in _list_curves(result)
        for index in range(min(map(len, (curve.offered, curve.lost, curve.arrived))))
    )


#: curves.csv: a row for each bin of each curve.
curves_csv = CsvFile(_CURVES, _curve_rows)


def _message_rate(row: Row) -> object:
    spec = row["transfer"].spec
    return spec.message_rate if spec.kind.endswith("_LOAD") else None


def _end(name: str) -> dict[str, str]:
    """Columns of the client or the server; only the figures are those of single instances."""
    facts = {"place": "place", "address": "address", "processors": "cpus"}
    facts |= {"tool_version": "version", "user_s": "user_s", "system_s": "system_s"}
    columns = {f"{name}_{column}": f"whole.{name}.{fact}" for column, fact in facts.items()}
    return columns | {f"{name}_cpu_percent_by_tool": f"figures.{name}_cpu_percent"}


_TIMES = {"min": "min", "mean": "mean", "p50": "50", "p90": "90", "p99": "99"}
_TIMES |= {"p99.9": "99.9", "max": "max"}
_TRANSFERS: Columns = {
    "scenario": "scenario",
    "kind": "transfer.spec.kind",
    "way": "way",
    "instance": "instance",
    "tool": "transfer.spec.tool",
    "version": "transfer.version",
    "notes": lambda row: "; ".join(row["figures"].notes or row["transfer"].notes),
    "message_size_octets": "transfer.spec.message_size",
    "instances": "transfer.spec.instances",
    "pods": lambda row: row["transfer"].spec.pods or None,
    "ranks_in_each_pod": lambda row: row["transfer"].spec.ranks or None,
    "duration_s": "transfer.spec.duration_s",
    "warmup_s": "transfer.spec.warmup_s",
    "offered_bps_per_instance": lambda row: row["transfer"].spec.rate_bps or None,
    "offered_messages_per_s": _message_rate,
    "arrived_bps": "figures.bits_per_second",
    "sent_bps": "figures.sent_bits_per_second",
    "loss_ratio": "figures.loss_ratio",
    "retransmitted_segments": "figures.retransmits",
    "jitter_ms": "figures.jitter_ms",
    "transactions_per_s": "figures.transactions_per_second",
    **{f"round_trip_{name}_us": f"figures.round_trip_us.{key}" for name, key in _TIMES.items()},
    **{f"operation_{name}_us": f"figures.operation_us.{key}" for name, key in _TIMES.items()},
    "operations": "figures.operations",
    "flop_per_s": "figures.flops",
    "events_per_s": "figures.events_per_second",
    "memory_octets_per_s": "figures.octets_per_second",
    "tlb_misses_per_s": "figures.tlb_misses_per_second",
    "steal_ratio": "figures.steal",
    "host_events_per_s": "whole.on_host.events_per_second",
    "host_memory_octets_per_s": "whole.on_host.octets_per_second",
    "host_tlb_misses_per_s": "whole.on_host.tlb_misses_per_second",
    "contents_checked": "figures.contents_checked",
    "sent_octets": "figures.sent_octets",
    "tcp_segment_octets": "figures.segment_octets",
    **{f"tcp_rtt_{n}_us": f"figures.tcp_round_trip_us.{n}" for n in ("min", "mean", "max")},
    "tcp_efficiency": "tcp.efficiency",
    "tcp_buffer_delay": "tcp.buffer_delay",
    "tcp_transfer_time_ratio": "tcp.time_ratio",
    "ip_capacity_bps": "capacity.bits_per_second",
    "ip_capacity_loss_ratio": "capacity.loss_ratio",
    "elapsed_s": "whole.elapsed_s",
    **_end("client"),
    **_end("server"),
    "machine_busy_s": "whole.machine_busy_s",
    "machine_interrupts_s": "whole.machine_interrupts_s",
    "fragments": "whole.fragments",
    "attach_s": "whole.attach_s",
    "benchmark": "run.benchmark",
    "virtual_lab": "run.virtual_lab",
    "round": "round",
}


def _transfer_rows(results: RunResults) -> Iterator[Row]:
    """All instances of a transfer together, then each, which has no ends of its own."""
    for scenario in results.transfers:
        for repeats in scenario.rounds:
            for number, (transfer, others) in enumerate(repeats, 1):
                yield from _instance_rows(scenario.scenario, number, transfer, others)


def _instance_rows(
    scenario: str, round_: int, transfer: Transfer, others: Sequence[Transfer]
) -> Iterator[Row]:
    row = {"scenario": scenario, "transfer": transfer, "whole": None, "round": round_}
    row |= {"tcp": None, "capacity": None}
    overall = {"whole": transfer, "figures": transfer, "instance": "all"}
    spec = transfer.spec
    overall["tcp"] = overall["capacity"] = None
    if spec.kind == "TCP_STREAM":
        overall["tcp"] = tcp_quality(transfer, others)
    if spec.kind == "UDP_STREAM" and len(spec.ways) == 1:
        overall["capacity"] = ip_capacity(transfer, spec.ways[0])
    yield row | overall | {"way": transfer.spec.way}
    for number, flow in enumerate(transfer.flows, 1):
        yield row | {"figures": flow.figures, "way": flow.way, "instance": number}


#: transfers.csv: rows of the instance "all" are sums, the others are numbered from 1.
transfers_csv = CsvFile(_TRANSFERS, _transfer_rows)
