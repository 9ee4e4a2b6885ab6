"""Calibrations that are kept for the next run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from vnetperf.model.result import Calibration, CalibrationPoint
from vnetperf.runner.calibration_cache import CalibrationCache

NOW = datetime.now(UTC)
EARLIER, LATER = ((NOW - timedelta(hours=h)).isoformat(timespec="seconds") for h in (2, 1))


def calibration(when: str, **rates: float) -> Calibration:
    """Frame sizes and rates, s64=1e6."""
    points = (
        CalibrationPoint(
            frame_size=int(name[1:]),
            max_clean_fps=fps,
            latency_ns=900.0,
            latency_min_ns=700.0,
            pacing_error=0.0,
            max_burst=1,
        )
        for name, fps in rates.items()
    )
    return Calibration(generator="x 1", wire="veth", cores=(1,), when=when, points=tuple(points))


def test_sizes_that_are_added_are_kept_with_the_age_of_the_oldest(tmp_path: Path) -> None:
    store = CalibrationCache(tmp_path)
    store.add("key", calibration(EARLIER, s64=1e6))
    held = store.add("key", calibration(LATER, s1518=2e5))
    assert store.load("key") == held
    assert ([p.frame_size for p in held.points], held.when) == ([64, 1518], EARLIER)


def test_a_calibration_of_every_size_is_as_old_as_itself(tmp_path: Path) -> None:
    store = CalibrationCache(tmp_path)
    store.add("key", calibration(EARLIER, s64=1e6))
    held = store.add("key", calibration(LATER, s64=9e5, s512=5e5))
    assert ([p.max_clean_fps for p in held.points], held.when) == ([9e5, 5e5], LATER)
