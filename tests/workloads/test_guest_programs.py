"""What VNFs did at once, and what the host counted meanwhile."""

from __future__ import annotations

import pytest

from vnetperf.model.machine_load import ThreadEvents
from vnetperf.workloads.guest_speed.programs import compute_misses

MISSES = "dTLB load misses"


def events(role: str, count: int | None) -> ThreadEvents:
    return ThreadEvents(role=role, thread=role, counts={} if count is None else {MISSES: count})


def test_misses_are_those_of_the_time_in_which_each_program_ran() -> None:
    """The watch goes on until the last one ends, and a program that has ended misses nothing."""
    sampled = {
        "events": [events("vnf0", 600), events("vnf0", 400), events("vnf1", 1000)],
        "collected_s": 10.0,
    }
    found = compute_misses(sampled, {"vnf0": 2.0, "vnf1": 10.0})
    assert found == {"vnf0": pytest.approx(500.0), "vnf1": pytest.approx(100.0)}


@pytest.mark.parametrize(
    ("count", "worked_s"), [(None, {"vnf0": 2.0}), (5, {}), (5, {"vnf0": 0.0})]
)
def test_a_thread_without_a_count_or_a_time_gives_no_misses(
    count: int | None, worked_s: dict[str, float]
) -> None:
    sampled = {"events": [events("vnf0", 7), events("vnf0", count)], "collected_s": 10.0}
    assert compute_misses(sampled, worked_s) == {}
