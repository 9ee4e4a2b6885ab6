from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vnetperf.model.trial import DirectionCounts, Gaps, TrialGaps, TrialResult, Verdict
from vnetperf.runner.verdict import is_finding, judge, offerable_load

TOLERANCE = 0.001
FRAMES = st.integers(0, 10**7)


def counts(
    direction: int = 0,
    *,
    sent: int = 10_000,
    refused: int = 0,
    unsent: int = 0,
    received: int | None = None,
    **more: int | float,
) -> DirectionCounts:
    return DirectionCounts.model_validate(
        {
            "direction": direction,
            "intended": sent + refused + unsent,
            "sent": sent,
            "refused": refused,
            "unsent": unsent,
            "received": sent if received is None else received,
            "tx_seconds": 1.0,
            **more,
        }
    )


def verdict(*directions: DirectionCounts, refusal_is_loss: bool = True) -> tuple[Verdict, str]:
    return judge(TrialResult(directions=directions, refusal_is_loss=refusal_is_loss), TOLERANCE)


def test_a_trial_that_adds_up_is_valid_whatever_was_lost() -> None:
    assert verdict(counts(), counts(1, received=0)) == (Verdict.VALID, "")


def test_refused_frames_are_the_duts_loss_or_the_generators_limit() -> None:
    refused = counts(sent=9_000, refused=1_000)
    assert verdict(refused)[0] is Verdict.VALID
    got, why = verdict(refused, refusal_is_loss=False)
    assert got is Verdict.GENERATOR_LIMITED
    assert "10.00% less" in why
    assert "1000 refused" in why


def test_one_direction_that_falls_short_spoils_the_trial_and_is_named() -> None:
    got, why = verdict(counts(0), counts(1, sent=9_900, unsent=100))
    assert got is Verdict.GENERATOR_LIMITED
    assert why.startswith("direction 1:")


@pytest.mark.parametrize(("unsent", "expected"), [(10, "VALID"), (11, "GENERATOR_LIMITED")])
def test_the_tolerance_is_the_presets(unsent: int, expected: str) -> None:
    assert verdict(counts(sent=10_000 - unsent, unsent=unsent))[0] == expected


def test_more_received_than_offered_is_inconsistent_and_not_zero_loss() -> None:
    got, why = verdict(counts(), counts(1, sent=100, received=101))
    assert got is Verdict.INCONSISTENT
    assert why == "direction 1: 1 more frames received than sent"


def test_refused_frames_do_not_hide_frames_that_came_from_nowhere() -> None:
    got, why = verdict(counts(sent=500, refused=500, received=700))
    assert got is Verdict.INCONSISTENT
    assert "200 more frames received than sent" in why


def test_frames_at_the_wrong_port_are_inconsistent() -> None:
    assert verdict(counts(misrouted=3))[0] is Verdict.INCONSISTENT


def test_nothing_intended_or_counted_is_inconsistent() -> None:
    assert verdict()[0] is Verdict.INCONSISTENT
    assert verdict(counts(sent=0))[0] is Verdict.INCONSISTENT


@pytest.mark.parametrize(
    ("failed", "expected"),
    [("dut", "DUT_FAILED"), ("timeout", "TIMED_OUT"), ("generator", "GENERATOR_LIMITED")],
)
def test_a_failure_is_a_verdict_with_its_message(failed: str, expected: str) -> None:
    result = TrialResult(directions=(counts(),), failed=failed, failure="pmd: segfault")
    assert judge(result, TOLERANCE) == (expected, "pmd: segfault")


@given(
    intended=FRAMES,
    sent=FRAMES,
    refused=FRAMES,
    unsent=FRAMES,
    received=FRAMES,
    refusal_is_loss=st.booleans(),
)
def test_frames_that_are_not_accounted_for_are_inconsistent(
    *, intended: int, sent: int, refused: int, unsent: int, received: int, refusal_is_loss: bool
) -> None:
    assume(intended != sent + refused + unsent)
    d = DirectionCounts(
        direction=0,
        intended=intended,
        sent=sent,
        refused=refused,
        unsent=unsent,
        received=received,
    )
    assert verdict(d, refusal_is_loss=refusal_is_loss)[0] is Verdict.INCONSISTENT


@given(st.integers(1, 10**7), FRAMES, FRAMES, FRAMES, st.booleans())
def test_a_valid_trial_offered_nearly_all_and_lost_no_less_than_nothing(
    sent: int, refused: int, unsent: int, received: int, refusal_is_loss: bool
) -> None:
    d = counts(sent=sent, refused=refused, unsent=unsent, received=received)
    result = TrialResult(directions=(d,), refusal_is_loss=refusal_is_loss)
    got, why = judge(result, TOLERANCE)
    offered = result.offered(d)
    if received > sent:
        assert got is Verdict.INCONSISTENT
    elif offered < d.intended * (1 - TOLERANCE):
        assert got is Verdict.GENERATOR_LIMITED
    else:
        assert (got, why) == (Verdict.VALID, "")
        assert 0 <= result.worst_loss_ratio() <= 1


def stood_still(
    poll_s: float = 0.0, send_s: float = 0.0, hold_s: float | None = 0.002
) -> TrialGaps:
    poll, send = (
        Gaps(max_s=longest, hold_s=hold_s, over_s=longest if hold_s and longest > hold_s else 0.0)
        for longest in (poll_s, send_s)
    )
    return TrialGaps(poll=poll, send=send, catch_up_frames=1024)


def stalled(gaps: TrialGaps | None, *directions: DirectionCounts) -> tuple[Verdict, str]:
    return judge(TrialResult(directions=directions, gaps=gaps), TOLERANCE)


#: A million frames in a second: a ring of 2048 holds 2 ms of them.
LOSSY = counts(sent=1_000_000, received=998_967)


def test_loss_beside_a_stall_that_overflows_the_ring_is_the_testers() -> None:
    got, why = stalled(stood_still(poll_s=0.005), counts(sent=1_000_000), LOSSY)
    assert got is Verdict.TESTER_STALLED
    assert "1033 frames lost" in why
    assert "did not poll for 5 ms (the tester's receive ring holds 2 ms" in why
    got, why = stalled(stood_still(send_s=0.005), LOSSY)
    assert got is Verdict.TESTER_STALLED
    assert "did not send for 5 ms (the DUT's receive ring holds 2 ms" in why


def test_a_stall_that_the_rings_bridge_or_that_cost_nothing_is_none() -> None:
    assert stalled(stood_still(poll_s=0.0019, send_s=0.0019), LOSSY)[0] is Verdict.VALID
    assert stalled(stood_still(poll_s=0.5), counts(sent=1_000_000))[0] is Verdict.VALID


def test_gaps_that_were_not_recorded_or_rings_that_are_not_known_condemn_nothing() -> None:
    assert stalled(None, LOSSY)[0] is Verdict.VALID
    assert stalled(stood_still(poll_s=0.5, hold_s=None), LOSSY)[0] is Verdict.VALID


def test_a_loss_far_beyond_what_the_stall_may_have_cost_is_the_duts() -> None:
    half = counts(sent=1_000_000, received=500_000)
    assert stalled(stood_still(poll_s=0.005), half)[0] is Verdict.VALID
    assert stalled(stood_still(poll_s=0.06), half)[0] is Verdict.TESTER_STALLED


@pytest.mark.parametrize(
    ("lost", "loss_ratios", "expected"),
    [
        # 5 ms of a million frames/s: at most 5000 frames.
        (5_000, [0.0], Verdict.TESTER_STALLED),
        (5_001, [0.0], Verdict.VALID),  # a frame at the least is the DUT's
        (9_000, [0.005], Verdict.TESTER_STALLED),
        (9_000, [0.0], Verdict.VALID),
        (9_000, [0.01], Verdict.VALID),  # low loss with the stall, too
        (9_000, [0.0, 0.005], Verdict.TESTER_STALLED),
        (100_000, [0.0, 0.005], Verdict.VALID),
        (20_000, [], Verdict.TESTER_STALLED),  # the loss is the number: a quarter may be wrong
        (100_000, [], Verdict.VALID),
    ],
)
def test_a_stall_condemns_a_trial_where_it_may_change_the_class_of_its_load(
    lost: int, loss_ratios: list[float], expected: Verdict
) -> None:
    lossy = counts(sent=1_000_000, received=1_000_000 - lost)
    result = TrialResult(directions=(lossy,), gaps=stood_still(poll_s=0.005))
    assert judge(result, TOLERANCE, loss_ratios)[0] is expected


def test_corrupted_frames_are_a_finding() -> None:
    result = TrialResult(directions=(counts(),), corrupted=2)
    assert judge(result, TOLERANCE)[0] is Verdict.INCONSISTENT
    assert is_finding(result)
    assert is_finding(TrialResult(directions=(counts(misrouted=1),)))
    assert is_finding(TrialResult(directions=(counts(sent=100, received=101),)))
    assert not is_finding(TrialResult(directions=()))


@given(FRAMES, FRAMES, st.floats(0.01, 100))
def test_a_new_maximum_is_below_what_was_offered(sent: int, unsent: int, seconds: float) -> None:
    d = counts(sent=sent, unsent=unsent, tx_seconds=seconds)
    found = offerable_load(TrialResult(directions=(d,)))
    assert found is not None
    assert found == (pytest.approx(0.9 * sent / seconds), found[1])
    assert found[1] >= 0


def test_the_weaker_direction_sets_the_new_maximum() -> None:
    strong, weak = counts(0, sent=1_000), counts(1, sent=100, unsent=900)
    limit, hint = offerable_load(TrialResult(directions=(strong, weak))) or (0.0, 0.0)
    assert limit == pytest.approx(90)
    assert hint == pytest.approx(2.5 * 100)  # what came back limits nothing


def test_nothing_sent_gives_no_new_maximum() -> None:
    assert offerable_load(TrialResult(directions=(counts(sent=0, tx_seconds=0.0),))) is None
