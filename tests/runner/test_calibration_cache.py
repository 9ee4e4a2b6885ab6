"""Calibrations that are kept for the next run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.machine import facts
from vnetperf.model.calibration import Calibration, CalibrationPoint
from vnetperf.model.deployment import make_deployment
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
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


def test_an_uncertain_calibration_is_told_and_not_stored(tmp_path: Path) -> None:
    store = CalibrationCache(tmp_path)
    found = calibration(LATER, s64=7.6e6, s1518=2e5)
    first, second = found.points
    doubtful = first.model_copy(update={"max_clean_values": (2.4e6, 7.6e6, 9.4e6)})
    found = found.model_copy(update={"points": (doubtful, second)})
    assert store.add("key", found) == found
    stored = store.load("key")
    assert stored is not None
    assert [p.frame_size for p in stored.points] == [1518]
    again = store.add("key", calibration(LATER, s64=7.5e6))
    assert store.load("key") == again
    assert [p.frame_size for p in again.points] == [64, 1518]


def key(**testbed: Any) -> str:
    """Of a calibration of pktgen."""
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="",
        traffic=TrafficProfile(),
        generator="pktgen",
    )
    placement = Placement(mode="dedicated", reason="", cores={"tester": (1,)}, housekeeping=(0,))
    plan = Plan(
        scenario=scenario,
        testbed=Testbed(**testbed),
        wire="nic",
        placement=placement,
        memory=(),
    )
    return CalibrationCache().key(plan, facts())


@pytest.mark.parametrize(
    ("testbed", "same"),
    [
        ({"pktgen": {"server": "10.0.0.1"}}, False),
        ({"hugepage_kb": 1048576}, False),
        ({"pktgen": {"server": ""}}, True),  # the default, written out
        ({"trex": {"server": "10.0.0.1"}}, True),  # another generator's
    ],
)
def test_a_calibration_is_of_its_generators_section_and_pages(
    testbed: dict[str, Any], same: bool
) -> None:
    assert (key(**testbed) == key()) is same
    assert key(pktgen={"server": "10.0.0.1"}) != key(pktgen={"server": "10.0.0.2"})
