from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.texts import Texts
from vnetperf.model.machine_load import MachineLoad
from vnetperf.model.trial import (
    NUMBER_SHORTFALL,
    DirectionCounts,
    EventTimes,
    Gaps,
    PortCounts,
    QueueGaps,
    TrialGaps,
    TrialRequest,
    TrialResult,
    Verdict,
)
from vnetperf.runner.verdict import is_finding, judge, offerable_load
from vnetperf.testing.sim import SimulatedDut

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
    got, why = verdict(counts(0), counts(1, sent=9_800, unsent=200))
    assert got is Verdict.GENERATOR_LIMITED
    assert why.startswith("direction 1:")


@pytest.mark.parametrize(
    ("unsent", "classifies", "expected", "said"),
    [
        (10, (0.0,), Verdict.VALID, False),
        (11, (0.0,), Verdict.GENERATOR_LIMITED, True),
        (11, (0.0, 0.01), Verdict.VALID, True),  # carried, as far as 1 % goes
        (10, (), Verdict.VALID, False),
        (11, (), Verdict.VALID, True),  # a number is that of its load, and the shortfall is noted
        (100, (), Verdict.VALID, True),
        (101, (), Verdict.GENERATOR_LIMITED, True),
    ],
)
def test_a_shortfall_matters_where_it_may_change_what_is_said(
    *, unsent: int, classifies: tuple[float, ...], expected: Verdict, said: bool
) -> None:
    result = TrialResult(directions=(counts(sent=10_000 - unsent, unsent=unsent),))
    got, why = judge(result, TOLERANCE, classifies)
    assert got is expected
    assert (f"{unsent / 10_000:.2%}" in why) is said


@pytest.mark.parametrize(
    ("lost", "expected"),
    [(301, Verdict.VALID), (300, Verdict.GENERATOR_LIMITED), (0, Verdict.GENERATOR_LIMITED)],
)
def test_an_overload_counts_where_the_dut_lost_more_than_was_not_offered(
    lost: int, expected: Verdict
) -> None:
    result = TrialResult(directions=(counts(sent=9_700, unsent=300, received=9_700 - lost),))
    assert judge(result, TOLERANCE, overload=True)[0] is expected
    assert judge(result, TOLERANCE)[0] is Verdict.GENERATOR_LIMITED


def test_a_trial_short_by_a_little_classifies_what_it_can_and_says_what(texts: Texts) -> None:
    result = TrialResult(directions=(counts(sent=9_935, unsent=65, received=9_925),))
    got, why = judge(result, TOLERANCE, (0.0, 0.01))
    assert got is Verdict.VALID
    texts.check(why, "all losses")
    got, why = judge(result, TOLERANCE, (0.0, 0.005))
    assert got is Verdict.VALID
    texts.check(why, "one loss ratio")
    assert judge(result, TOLERANCE, (0.005,))[0] is Verdict.GENERATOR_LIMITED


def test_the_cause_that_alone_makes_a_loss_straddle_is_named() -> None:
    short = counts(sent=990_000, unsent=10_000, received=989_000)
    both = TrialResult(directions=(short,), gaps=stood_still(poll_s=0.005))
    # Up to 4950 frames may be the tester's: without a loss ratio of 0 that decides nothing.
    assert judge(both, TOLERANCE, (0.005,))[0] is Verdict.GENERATOR_LIMITED
    assert judge(both, TOLERANCE, (0.0,))[0] is Verdict.TESTER_STALLED
    assert judge(both, TOLERANCE, (0.02,))[0] is Verdict.VALID


def test_more_received_than_offered_is_inconsistent_and_not_zero_loss(texts: Texts) -> None:
    got, why = verdict(counts(), counts(1, sent=100, received=101))
    assert got is Verdict.INCONSISTENT
    texts.check(why)


def test_refused_frames_do_not_hide_frames_that_came_from_nowhere(texts: Texts) -> None:
    got, why = verdict(counts(sent=500, refused=500, received=700))
    assert got is Verdict.INCONSISTENT
    texts.check(why)


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
    elif offered < d.intended * (1 - NUMBER_SHORTFALL):
        assert got is Verdict.GENERATOR_LIMITED
    else:
        assert got is Verdict.VALID
        assert bool(why) is (offered < d.intended * (1 - TOLERANCE))
        assert 0 <= result.worst_loss_ratio() <= 1


@st.composite
def trials(draw: st.DrawFn) -> TrialResult:
    """Any two directions that add up, with stalls and drops of the tester."""
    directions = []
    for direction in (0, 1):
        sent, refused, unsent = (draw(st.integers(0, 10**6)) for _ in range(3))
        received = draw(st.integers(0, sent))
        assume(sent + refused + unsent)
        directions.append(
            counts(direction, sent=sent, refused=refused, unsent=unsent, received=received)
        )
    gaps = draw(st.none() | st.builds(stood_still, st.floats(0, 0.1), st.floats(0, 0.1)))
    ports = draw(st.sampled_from([(), (PortCounts(port=1, missed=draw(st.integers(0, 999))),)]))
    return TrialResult(
        directions=tuple(directions),
        gaps=gaps,
        tester=ports,
        refusal_is_loss=draw(st.booleans()),
    )


RATIOS = st.floats(0, 0.99)


@given(trials(), st.floats(0, 1))
def test_the_interval_of_a_loss_holds_what_was_lost_of_what_was_offered(
    result: TrialResult, tolerance: float
) -> None:
    for d in result.directions:
        found = result.loss_interval(d, tolerance)
        assert 0 <= found.least <= result.loss_ratio(d) <= found.most * (1 + 1e-9) <= 1 + 1e-6
        # What came back of the load is no less than what is claimed of it ...
        if result.is_short(d, tolerance):
            assert d.received >= d.intended * (1 - found.most) * (1 - 1e-9) - 1e-6
        # ... and what the DUT lost for certain no more than that without the tester's share.
        certain = result.lost(d) - result.most_lost_by_tester(d)
        assert found.least * result.offered(d) <= max(0, certain) + 1e-6
    whole = result.load_loss(tolerance)
    of_each = [result.loss_interval(d, tolerance) for d in result.directions]
    assert 0 <= whole.least <= whole.most * (1 + 1e-9) <= 1 + 1e-6
    assert min(one.least for one in of_each) <= whole.least * (1 + 1e-9) + 1e-12
    assert whole.least <= max(one.least for one in of_each) * (1 + 1e-9) + 1e-12
    # What came back in all is no less than what is claimed of the loads together.
    intended = sum(d.intended for d in result.directions)
    if any(result.is_short(d, tolerance) for d in result.directions):
        claimed = intended * (1 - whole.most)
        assert result.received >= claimed * (1 - 1e-9) - 1e-6


@given(trials(), RATIOS)
def test_no_load_is_low_and_high_and_more_tolerated_loss_never_makes_it_high(
    result: TrialResult, ratio: float
) -> None:
    loss = result.load_loss(TOLERANCE)
    assert not (loss.is_low(ratio) and loss.is_high(ratio))
    assert loss.decides(ratio) is (loss.is_low(ratio) or loss.is_high(ratio))
    more = (ratio + 1) / 2
    assert loss.is_low(more) >= loss.is_low(ratio)
    assert loss.is_high(more) <= loss.is_high(ratio)


@given(trials(), st.lists(RATIOS, min_size=1, max_size=3))
def test_a_trial_is_valid_exactly_where_it_classifies_something(
    result: TrialResult, ratios: list[float]
) -> None:
    got, why = judge(result, TOLERANCE, ratios)
    known = [result.load_loss(TOLERANCE).decides(ratio) for ratio in ratios]
    assert (got is Verdict.VALID) is any(known)
    assert got in (Verdict.VALID, Verdict.GENERATOR_LIMITED, Verdict.TESTER_STALLED)
    assert why or all(known)
    if got is Verdict.GENERATOR_LIMITED:
        assert any(result.is_short(d, TOLERANCE) for d in result.directions)
    if got is Verdict.TESTER_STALLED:
        assert any(result.most_lost_by_tester(d) for d in result.directions)


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


def test_loss_beside_a_stall_that_overflows_the_ring_is_the_testers(texts: Texts) -> None:
    got, why = stalled(stood_still(poll_s=0.005), counts(sent=1_000_000), LOSSY)
    assert got is Verdict.TESTER_STALLED
    texts.check(why, "poll")
    got, why = stalled(stood_still(send_s=0.005), LOSSY)
    assert got is Verdict.TESTER_STALLED
    texts.check(why, "send")


def test_a_stall_that_the_rings_bridge_or_that_cost_nothing_is_none() -> None:
    assert stalled(stood_still(poll_s=0.0019, send_s=0.0019), LOSSY)[0] is Verdict.VALID
    assert stalled(stood_still(poll_s=0.5), counts(sent=1_000_000))[0] is Verdict.VALID


def test_gaps_that_were_not_recorded_or_rings_that_are_not_known_condemn_nothing() -> None:
    assert stalled(None, LOSSY)[0] is Verdict.VALID
    assert stalled(stood_still(poll_s=0.5, hold_s=None), LOSSY)[0] is Verdict.VALID


def away(direction: int, worker: int, seconds: float, **more: Any) -> QueueGaps:
    return QueueGaps(
        **{
            "direction": direction,
            "kind": "poll",
            "port": 1 - direction,
            "queue": worker,
            "worker": worker,
            "share": 0.25,
            "max_s": seconds,
            "hold_s": 0.008,
            "over_s": seconds,
            **more,
        }
    )


def of_queues(*queues: QueueGaps) -> TrialGaps:
    longest = max(one.over_s for one in queues)
    gaps = Gaps(max_s=longest, hold_s=0.008, over_s=longest)
    return TrialGaps(poll=gaps, send=Gaps(max_s=0.0), queues=queues, catch_up_frames=1024)


def test_a_thread_that_stood_still_condemns_only_what_its_queues_carry(texts: Texts) -> None:
    other = counts(1, sent=1_000_000)
    assert stalled(of_queues(away(1, 0, 0.5)), LOSSY, other)[0] is Verdict.VALID
    got, why = stalled(of_queues(away(0, 2, 0.5), away(1, 0, 0.5)), LOSSY, other)
    assert got is Verdict.TESTER_STALLED
    texts.check(why)


def test_a_stall_of_one_queue_costs_no_more_than_its_share_of_the_frames() -> None:
    lost = counts(sent=1_000_000, received=970_000)
    # A quarter of the frames of 11 ms: 2750, less than a tenth of what was lost.
    assert stalled(of_queues(away(0, 0, 0.011)), lost)[0] is Verdict.VALID
    assert stalled(stood_still(poll_s=0.011), lost)[0] is Verdict.TESTER_STALLED


def test_what_the_duts_ring_refused_is_not_lost_by_a_tester_that_did_not_poll() -> None:
    """Of a burst longer than the DUT's ring: all that was sent came back."""
    refused = counts(sent=2048, received=2048, refused=5122, tx_seconds=0.0004)
    got, why = stalled(of_queues(away(0, 0, 0.0019)), refused)
    assert (got, why) == (Verdict.VALID, "")
    few = counts(sent=2048, received=2040, refused=10, tx_seconds=0.0001)
    got, why = stalled(of_queues(away(0, 0, 0.0019)), few)
    assert got is Verdict.TESTER_STALLED
    both = (away(0, 0, 0.0019), away(0, 0, 0.0019, kind="send", port=0))
    got, why = stalled(of_queues(*both), refused)
    assert got is Verdict.TESTER_STALLED
    assert "did not send" in why
    assert "did not poll" not in why


def test_stalls_of_several_threads_add_up_and_one_of_both_kinds_counts_once() -> None:
    both = away(0, 0, 0.02, kind="send", port=0)
    assert of_queues(away(0, 0, 0.02), both).most_lost(0, 1e6) == pytest.approx(5_000)
    two = of_queues(away(0, 0, 0.02), away(0, 1, 0.01), both)
    assert two.most_lost(0, 1e6) == pytest.approx(7_500)
    assert two.most_lost(1, 1e6) == 0


@given(
    st.lists(
        st.builds(
            away,
            st.integers(0, 1),
            st.integers(0, 3),
            st.floats(0.009, 1.0),
            kind=st.sampled_from(("poll", "send")),
        ),
        min_size=1,
    ),
    st.floats(1, 1e8),
)
def test_what_queues_cost_is_never_more_than_all_frames_of_all_their_gaps(
    queues: list[QueueGaps], rate: float
) -> None:
    for direction in (0, 1):
        mine = [one for one in queues if one.direction == direction]
        most = sum(one.share * one.over_s for one in mine) * rate
        assert 0 <= of_queues(*queues).most_lost(direction, rate) <= most * (1 + 1e-9)
        if mine:
            one = max(one.share * one.over_s for one in mine) * rate
            assert of_queues(*queues).most_lost(direction, rate) >= one * (1 - 1e-9)


def test_a_simulated_tester_of_four_threads_loses_no_more_trials_than_its_stalls_cost() -> None:
    """Each stall of 5 ms overflows the ring of one thread that carries all, and none of four."""
    for threads, expected in ((1, Verdict.TESTER_STALLED), (4, Verdict.VALID)):
        dut = SimulatedDut(
            1e6,
            drop_probability=0.001,
            stall_s=0.005,
            tester_threads=threads,
            catch_up_frames=10**6,
        )
        result = dut.count(TrialRequest(load_fps=900e3, duration_s=10.0))
        assert judge(result, TOLERANCE)[0] is expected
        assert result.gaps is not None
        assert bool(result.gaps.poll.over_s) is (threads == 1)


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
        (9_000, [0.0, 0.005], Verdict.VALID),  # for one of two it is decided
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


def test_a_loss_that_is_held_against_a_limit_is_in_doubt_around_it_too() -> None:
    lossy = counts(sent=1_000_000, received=1_000_000 - 105)
    gaps = stood_still(poll_s=1e-5, hold_s=1e-6)  # at most 10 frames: less than a tenth
    result = TrialResult(directions=(lossy,), gaps=gaps)
    assert judge(result, TOLERANCE)[0] is Verdict.VALID
    assert judge(result, TOLERANCE, (), [1e-4])[0] is Verdict.TESTER_STALLED
    assert judge(result, TOLERANCE, (), [5e-5])[0] is Verdict.VALID


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
    assert offerable_load(TrialResult(directions=(d,))) == pytest.approx(0.9 * sent / seconds)


def test_the_weaker_direction_sets_the_new_maximum() -> None:
    strong, weak = counts(0, sent=1_000), counts(1, sent=100, unsent=900)
    assert offerable_load(TrialResult(directions=(strong, weak))) == pytest.approx(90)


def test_nothing_sent_gives_no_new_maximum() -> None:
    assert offerable_load(TrialResult(directions=(counts(sent=0, tx_seconds=0.0),))) is None


# --- what the tester and the machine did to the counts ---------------------------------------


def test_frames_that_came_too_late_to_be_told_from_copies_are_no_loss(texts: Texts) -> None:
    got, why = verdict(counts(sent=1000, received=900, late=100))
    assert got is Verdict.INCONSISTENT
    texts.check(why)


TENTH_LOST = TrialResult(directions=(counts(sent=10_000, received=9_000), counts(1)))


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (PortCounts(port=1, missed=900), Verdict.TESTER_STALLED),
        (PortCounts(port=1, missed=60, errors=60), Verdict.TESTER_STALLED),
        (PortCounts(port=1, missed=100), Verdict.VALID),  # a tenth: the rest is the DUT's
        (PortCounts(port=1, missed=0), Verdict.VALID),
        (PortCounts(port=1), Verdict.VALID),
        (PortCounts(port=1, no_buffers=9), Verdict.VALID),
        (PortCounts(port=1, no_buffers=900), Verdict.TESTER_STALLED),
        (PortCounts(port=1, no_send_buffers=900), Verdict.VALID),  # these were not sent
    ],
)
def test_a_loss_that_the_testers_own_ports_dropped_is_not_the_duts(
    port: PortCounts, expected: Verdict, texts: Texts
) -> None:
    result = TENTH_LOST.model_copy(update={"tester": (PortCounts(port=0, missed=0), port)})
    got, why = judge(result, TOLERANCE)
    assert got is expected
    assert bool(why) is (expected is not Verdict.VALID)
    if why:
        texts.check(why)
    # Whatever the verdict, a reader learns of it.
    assert bool(result.disturbed_by(0.05)) == bool(port.dropped or port.no_send_buffers)


@pytest.mark.parametrize(
    ("lost", "missed", "poll_s", "loss_ratios", "expected"),
    [
        (5_400, 500, 0.0, [0.005], Verdict.TESTER_STALLED),  # without them it would be carried
        (500_000, 60_000, 0.0, [0.0, 0.005], Verdict.VALID),  # lossy with and without them
        (350, 34, 0.0003, [0.0], Verdict.VALID),
        (350, 50, 0.0003, [0.0], Verdict.TESTER_STALLED),  # gaps and drops together explain it
    ],
)
def test_drops_of_the_receiving_port_are_judged_with_the_gaps_by_the_class_of_the_load(
    lost: int, missed: int, poll_s: float, loss_ratios: list[float], expected: Verdict
) -> None:
    result = TrialResult(
        directions=(counts(sent=1_000_000, received=1_000_000 - lost),),
        gaps=stood_still(poll_s=poll_s, hold_s=0.0001),
        tester=(PortCounts(port=1, missed=missed),),
    )
    assert judge(result, TOLERANCE, loss_ratios)[0] is expected


def test_drops_of_one_port_explain_no_loss_of_the_other_direction() -> None:
    result = TENTH_LOST.model_copy(update={"tester": (PortCounts(port=0, missed=900),)})
    assert judge(result, TOLERANCE, [0.0]) == (Verdict.VALID, "")


def test_drops_of_the_tester_without_a_loss_spoil_nothing() -> None:
    """What it dropped was not of the trial: a DUT's chatter."""
    whole = TrialResult(directions=(counts(),), tester=(PortCounts(port=0, missed=5),))
    assert judge(whole, TOLERANCE) == (Verdict.VALID, "")


FLAPS = [{"tester": (PortCounts(port=1, carrier_changes=2),)}, {"links_down": ("tester port 1",)}]


@pytest.mark.parametrize("update", FLAPS)
def test_a_link_that_went_down_during_a_trial_makes_it_inconsistent(
    update: dict[str, object],
) -> None:
    got, why = judge(TENTH_LOST.model_copy(update=update), TOLERANCE)
    assert got is Verdict.INCONSISTENT
    assert "tester port 1" in why
    assert not is_finding(TENTH_LOST.model_copy(update=update))
    event = EventTimes(what="link phy0", began_s=1, ended_s=2)
    of_purpose = TENTH_LOST.model_copy(update={**update, "event": event})
    assert judge(of_purpose, TOLERANCE)[0] is Verdict.VALID


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ((), "VALID"),
        (("tsc", "tsc"), "VALID"),
        (("kvm-clock", "kvm-clock"), "VALID"),
        (("tsc", "hpet"), "INCONSISTENT"),
    ],
)
def test_a_clock_source_that_changed_makes_a_trial_inconsistent(
    sources: tuple[str, ...], expected: str
) -> None:
    machine = MachineLoad(clock_sources=sources)
    got, why = judge(TENTH_LOST.model_copy(update={"machine": machine}), TOLERANCE)
    assert got == expected
    assert ("from tsc to hpet" in why) == (expected == "INCONSISTENT")


def test_counts_of_a_port_are_those_since_the_trial_began() -> None:
    before = PortCounts(port=0, missed=5, carrier_changes=2)
    now = PortCounts(port=0, missed=9, errors=1, carrier_changes=2)
    assert now.since(before) == PortCounts(port=0, missed=4, carrier_changes=0)
    assert PortCounts(port=0, missed=1) + now == PortCounts(
        port=0, missed=10, errors=1, carrier_changes=2
    )
