"""Which latencies a tester's own wait may explain."""

from __future__ import annotations

from vnetperf.model.trial import Gaps, Latency, TrialGaps

LATENCY = Latency(
    count=1000,
    min_ns=900.0,
    mean_ns=20_000.0,
    max_ns=4_000_000.0,
    percentiles={"50": 10_000.0, "90": 20_000.0, "99": 50_000.0, "99.9": 1_000_000.0},
)


def gaps(p50: float, p99: float, p999: float, longest: float) -> TrialGaps:
    """Percentiles in us."""
    levels = {"50": p50 / 1e6, "99": p99 / 1e6, "99.9": p999 / 1e6}
    poll = Gaps(max_s=longest / 1e6, percentiles=levels)
    return TrialGaps(poll=poll, send=Gaps(max_s=0.0), catch_up_frames=2048)


def test_a_latency_is_tester_bound_where_the_gap_is_half_of_it_or_more() -> None:
    assert gaps(1, 5, 100, 500).bounds(LATENCY) == ()
    assert gaps(5, 24, 499, 1999).bounds(LATENCY) == ("50",)
    assert gaps(40, 60, 900, 5000).bounds(LATENCY) == ("50", "99", "99.9", "max")


def test_levels_that_are_not_known_are_not_bound() -> None:
    short = LATENCY.model_copy(update={"percentiles": {}})
    assert gaps(40, 60, 900, 5000).bounds(short) == ("max",)
