"""Writes outcomes.csv and curves.csv: what tests besides a search found, a row for each number."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from vnetperf.model.outcomes import Curve, Spread
from vnetperf.model.result import Result, RunResults
from vnetperf.report import opening
from vnetperf.report.csvfile import cell
from vnetperf.report.outcomes import quantities
from vnetperf.report.outcomes.quantity import Quantity

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


def _spread(found: Spread) -> dict[str, object]:
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


def _row(result: Result, found: Quantity) -> dict[str, object]:
    more = _spread(found.value) if isinstance(found.value, Spread) else {}
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
    """outcomes.csv: the value of a spread is its mean; of two modes there is none.

    Args:
        results: The run.

    Returns:
        CSV text; the head alone when only throughput was measured.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, OUTCOME_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    about = {"benchmark": opening.is_benchmark(results), "virtual_lab": opening.in_lab(results)}
    for result in results.results:
        for found in quantities(result):
            row = about | _row(result, found)
            writer.writerow({key: cell(value) for key, value in row.items()})
    return out.getvalue()


def curves(result: Result) -> Iterator[tuple[str, Curve]]:
    """Every curve over time of a result.

    Args:
        result: One result.

    Yields:
        What it is of, and the curve.
    """
    if result.recovery is not None:
        yield from (("recovery", curve) for curve in result.recovery.curves)
    for found in result.resets:
        yield from ((found.what, curve) for curve in found.curves)
    if result.soak is not None and result.soak.curve is not None:
        yield "soak", result.soak.curve


def curves_csv(results: RunResults) -> str:
    """curves.csv: a row for each bin of each curve.

    Args:
        results: The run.

    Returns:
        CSV text; the head alone when there is no curve.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CURVE_COLUMNS)
    for result in results.results:
        for item, curve in curves(result):
            head = (result.scenario, result.test, result.frame_size, item, curve.trial)
            counts = zip(curve.offered, curve.lost, curve.arrived, strict=False)
            for number, bin_of in enumerate(counts):
                start = round(number * curve.bin_s, 9)
                writer.writerow([cell(v) for v in (*head, start, curve.bin_s, *bin_of)])
    return out.getvalue()
