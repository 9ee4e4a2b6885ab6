"""The generator's calibrations of a run, put together, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from vnetperf.log.records import CalibrationRecord
from vnetperf.model.calibration import MOST_SPREAD, Calibration, CalibrationPoint
from vnetperf.model.units import fps


def merge_calibrations(records: Sequence[CalibrationRecord]) -> tuple[Calibration, ...]:
    """One for each kind of wire: the newest, with the frame sizes of all (a run may be resumed)."""
    calibrations = [r.calibration for r in records if not r.at_end]
    ends = {
        (r.calibration.wire, p.frame_size): p.max_clean_values
        for r in records
        if r.at_end
        for p in r.calibration.points
    }
    merged = []
    for wire, newest in {c.wire: c for c in calibrations}.items():
        by_size = {p.frame_size: p for c in calibrations if c.wire == wire for p in c.points}
        points = tuple(
            by_size[size].model_copy(update={"checked_values": ends.get((wire, size), ())})
            for size in sorted(by_size)
        )
        merged.append(newest.model_copy(update={"points": points}))
    return tuple(merged)


def calibration_warnings(calibrations: Iterable[Calibration]) -> Iterator[str]:
    """Where the clean maximum is not known, has changed over the run, or may have."""
    for calibration in calibrations:
        if doubtful := [point for point in calibration.points if point.is_uncertain]:
            yield _uncertain_text(calibration.wire, doubtful)
        for point in calibration.points:
            wire, size = calibration.wire, point.frame_size
            where = f"the generator's clean maximum over {wire} at {size} octets"
            if point.drift_verdict == "drifted":
                yield (
                    f"{where} was {fps(point.max_clean_fps)} when it was calibrated and "
                    f"{fps(median(point.checked_values))} after the run ({point.drift:+.1%}): the "
                    "machine has changed, or others use it"
                )
            elif point.drift_verdict == "cannot tell" and not point.is_uncertain:
                first = point.max_clean_values or (point.max_clean_fps,)
                yield (
                    f"whether {where} changed over the run cannot be told: it was "
                    f"{range_text(first)} when it was calibrated and "
                    f"{range_text(point.checked_values)} after the run"
                )


def _uncertain_text(wire: str, points: Sequence[CalibrationPoint]) -> str:
    ranges = ", ".join(f"{range_text(p.max_clean_values)} at {p.frame_size} octets" for p in points)
    unknown = any(point.drift_verdict == "cannot tell" for point in points)
    over_run = "; whether it changed over the run cannot be told" if unknown else ""
    return (
        f"the generator's clean maximum over {wire} is uncertain, since it was found more than "
        f"{MOST_SPREAD - 1:.0%} apart: {ranges}. The median limits the loads, no rate is given as "
        f"a share of it, and it is not kept for the next run{over_run}"
    )


def range_text(values: Sequence[float]) -> str:
    """Smallest to largest of a few values."""
    if len(values) == 1:
        return fps(values[0])
    return f"{fps(min(values))} to {fps(max(values))} (n {len(values)})"
