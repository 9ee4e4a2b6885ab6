"""Timelines and differences of delays, from what the engine writes."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.trial import EventSpec, LoadStep, TrialSpec
from vnetperf.plugin.registry import load
from vnetperf.traffic.loadgen.telemetry import DelayDifferences, StreamTimeline
from vnetperf.traffic.loadgen.trials import compute_ipdv, merge_timelines

FINE = TrialSpec(frame_size=64, load_fps=1000, duration_s=1, bin_s=1e-6)
REPLY = {"bin_ns": 1000, "gap_ns": 300, "gap_from_ns": 500}


def timeline(*rows: tuple[int, int, int, int, int], tail: int | None = None) -> StreamTimeline:
    """Rows of sent, refused, received, arrived, hole."""
    reply = REPLY | ({} if tail is None else {"tail_ns": tail})
    return StreamTimeline.parse(reply, array("Q", [n for row in rows for n in row]).tobytes())


def test_the_last_lost_frame_is_told_by_its_number() -> None:
    one = timeline((10, 0, 8, 10, 700), (10, 0, 7, 5, 1999), (10, 0, 10, 10, 0))
    assert one.last_lost_ns(refusal_is_loss=False) == 1999


def test_a_hole_where_nothing_was_lost_is_frames_that_were_overtaken() -> None:
    one = timeline((10, 0, 8, 8, 0), (10, 0, 10, 10, 1500))
    assert one.last_lost_ns(refusal_is_loss=False) == 1000  # the end of the bin


def test_the_end_of_a_late_bin_is_found_though_its_width_is_rounded() -> None:
    rows = [(1, 0, 1, 1, 0)] * 499 + [(2, 0, 1, 1, 499_999)]
    assert timeline(*rows).last_lost_ns(refusal_is_loss=False) == 499_999
    rows[-1] = (2, 0, 1, 1, 500_400)  # 500 bins of 1000.8 ns
    assert timeline(*rows).last_lost_ns(refusal_is_loss=False) == 500_400


def test_the_last_frame_of_all() -> None:
    one = timeline((10, 0, 8, 8, 100), (10, 0, 9, 9, 1100), tail=1900)
    assert one.last_lost_ns(refusal_is_loss=False) == 1900


def test_what_a_late_tester_sent_after_the_last_bin_was_lost_then() -> None:
    one = timeline((10, 0, 10, 10, 0), (10, 0, 9, 9, 0), tail=6275)
    assert one.last_lost_ns(refusal_is_loss=False) == 6275
    one = timeline((10, 0, 9, 9, 0), (10, 0, 10, 10, 0), tail=6275)
    assert one.last_lost_ns(refusal_is_loss=False) == 1000  # it came after all


def test_refused_frames_are_lost_where_they_were_the_switchs() -> None:
    one = timeline((10, 0, 10, 10, 0), (5, 5, 5, 5, 0), (0, 0, 0, 0, 0))
    assert one.last_lost_ns(refusal_is_loss=False) is None
    assert one.last_lost_ns(refusal_is_loss=True) == 2000
    assert merge_timelines(0, [one], FINE, refusal_is_loss=True).sent == (10, 10)
    assert merge_timelines(0, [one], FINE, refusal_is_loss=False).sent == (10, 5)


def test_streams_of_a_direction_add_up() -> None:
    a, b = timeline((5, 0, 5, 4, 0), (5, 0, 4, 5, 1600)), timeline((3, 0, 3, 3, 0), (3, 0, 3, 3, 0))
    both = merge_timelines(1, [a, b], FINE, refusal_is_loss=False)
    assert (both.sent, both.received, both.arrived) == ((8, 8), (8, 7), (7, 8))
    assert both.last_lost_s == 1600e-9
    assert (both.direction, both.gap_s, both.gap_from_s) == (1, 300e-9, 500e-9)


def parsed(values: list[int], shared: int = 0) -> DelayDifferences:
    """As the engine writes small differences, whose buckets are exact."""
    rising, falling = [v for v in values if v >= 0], [-v for v in values if v < 0]
    pairs = sorted((v, values.count(v)) for v in set(values))
    reply = {
        "rising": len(rising),
        "rising_min_ns": min(rising, default=0),
        "rising_max_ns": max(rising, default=0),
        "falling": len(falling),
        "falling_min_ns": min(falling, default=0),
        "falling_max_ns": max(falling, default=0),
        "shared": shared,
        "poll_ns": 400,
    }
    return DelayDifferences.parse(reply, array("q", [n for p in pairs for n in p]).tobytes())


@given(st.lists(st.lists(st.integers(-999, 999), min_size=1, max_size=20), min_size=1, max_size=4))
def test_differences_of_all_streams_together(streams: list[list[int]]) -> None:
    values = sorted(v for s in streams for v in s)
    found = compute_ipdv([*map(parsed, streams), parsed([])])
    assert (found["min"], found["max"]) == (values[0], values[-1])
    assert found["median"] == values[(len(values) - 1) // 2]


def test_no_differences_are_said_as_none() -> None:
    assert compute_ipdv([]) == {}
    assert compute_ipdv([parsed([])]) == {}


def test_the_share_of_frames_without_stamps_of_their_own_is_told() -> None:
    found = compute_ipdv([parsed([1, 2, 3], shared=6), parsed([], shared=3)])
    assert (found["shared"], found["resolution"]) == (0.75, 400)
    assert compute_ipdv([parsed([], shared=5)]) == {"shared": 1.0}


SPEC = TrialSpec(frame_size=64, load_fps=1000, duration_s=1)
ASKED = {
    "exact length": SPEC.model_copy(update={"burst": 10}),
    "change the load": SPEC.model_copy(update={"steps": (LoadStep(load_fps=1000, duration_s=1),)}),
    "over time": SPEC.model_copy(
        update={"bin_s": 0.1, "event": EventSpec(what="vswitch", at_s=0.1)}
    ),
    "while the DUT is restarted": SPEC.model_copy(
        update={"event": EventSpec(what="vswitch", at_s=0.1)}
    ),
    "after a moment": SPEC.model_copy(update={"tag_at_s": 0.5}),
}


@pytest.mark.parametrize("words", ASKED)
def test_what_a_generator_cannot_do_is_said_before(words: str) -> None:
    assert load("traffic", "loadgen").lacks(ASKED[words]) == ""
    for other in ("trex", "pktgen"):
        assert words in load("traffic", other).lacks(ASKED[words])
        assert load("traffic", other).lacks(SPEC) == ""
