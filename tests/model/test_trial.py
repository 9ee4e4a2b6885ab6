"""Trials, and how long the tester stood still in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.trial import DirectionCounts, Gaps, Latency, TrialGaps, TrialResult

FRAMES = st.integers(0, 10**9)


@st.composite
def counts(draw: st.DrawFn, direction: int = 0) -> DirectionCounts:
    """A direction whose counts add up."""
    sent, refused, unsent = draw(FRAMES), draw(FRAMES), draw(FRAMES)
    return DirectionCounts(
        direction=direction,
        intended=sent + refused + unsent,
        sent=sent,
        refused=refused,
        unsent=unsent,
        received=draw(st.integers(0, sent)),
    )


def direction(
    number: int = 0, *, sent: int, received: int, refused: int = 0, unsent: int = 0
) -> DirectionCounts:
    return DirectionCounts(
        direction=number,
        intended=sent + refused + unsent,
        sent=sent,
        refused=refused,
        unsent=unsent,
        received=received,
    )


def test_refused_frames_are_lost_where_the_far_end_is_the_dut() -> None:
    d = direction(sent=900, refused=100, received=900)
    dut = TrialResult(directions=(d,), refusal_is_loss=True)
    assert (dut.offered(d), dut.lost(d), dut.loss_ratio(d)) == (1000, 100, 0.1)
    tester = TrialResult(directions=(d,), refusal_is_loss=False)
    assert (tester.offered(d), tester.lost(d), tester.loss_ratio(d)) == (900, 0, 0.0)


def test_unsent_frames_are_never_lost_frames() -> None:
    d = direction(sent=10, unsent=90, received=10)
    for refusal_is_loss in (True, False):
        result = TrialResult(directions=(d,), refusal_is_loss=refusal_is_loss)
        assert result.offered(d) == 10
        assert result.lost(d) == 0


def test_the_worse_direction_is_not_hidden_by_the_better() -> None:
    good, bad = direction(0, sent=1000, received=1000), direction(1, sent=1000, received=750)
    for directions in ((good, bad), (bad, good)):
        assert TrialResult(directions=directions).worst_loss_ratio() == 0.25


def test_nothing_offered_is_no_loss_and_no_division() -> None:
    d = direction(sent=0, received=0)
    assert TrialResult(directions=(d,)).loss_ratio(d) == 0.0
    assert TrialResult(directions=()).worst_loss_ratio() == 0.0


@given(counts(0), counts(1), st.booleans())
def test_loss_and_forwarding_make_up_what_was_offered(
    a: DirectionCounts, b: DirectionCounts, refusal_is_loss: bool
) -> None:
    result = TrialResult(directions=(a, b), refusal_is_loss=refusal_is_loss)
    for d in result.directions:
        assert result.lost(d) + d.received == result.offered(d)
        assert 0.0 <= result.loss_ratio(d) <= 1.0
        assert result.offered(d) <= d.intended
    assert result.worst_loss_ratio() == max(map(result.loss_ratio, result.directions))


@given(counts(0), counts(1))
def test_a_result_survives_the_way_through_the_log(a: DirectionCounts, b: DirectionCounts) -> None:
    result = TrialResult(directions=(a, b), foreign={"0": 3}, failure="ä\n")
    assert TrialResult.model_validate_json(result.model_dump_json()) == result


def test_values_cannot_be_changed_or_extended() -> None:
    d = direction(sent=1, received=1)
    with pytest.raises(ValueError, match="frozen"):
        d.sent = 2  # type: ignore[misc]  # it is frozen, which is what is tried
    with pytest.raises(ValueError, match="Extra inputs"):
        DirectionCounts.model_validate({**d.model_dump(), "lost": 1})


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


def test_both_ends_have_waited_in_a_round_trip() -> None:
    waits = gaps(3, 13, 250, 999)
    assert waits.bounds(LATENCY, "phy0->phy1") == ()
    assert waits.bounds(LATENCY, "phy0->phy1->phy0") == ("50", "99", "99.9")


def test_levels_that_are_not_known_are_not_bound() -> None:
    short = LATENCY.model_copy(update={"percentiles": {}})
    assert gaps(40, 60, 900, 5000).bounds(short) == ("max",)
