"""Rates and losses at loads that are not searched, on a DUT whose capacity is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.procedures.support import CEILING, Dut, asks, drive, inputs, latency_of, limited
from tests.texts import Texts
from vnetperf.model.outcomes import ForwardingRate, LossStep, Soak
from vnetperf.model.parameters import LossProfileTest, MrrTest, Rfc2889Test, SoakTest
from vnetperf.model.trial import TrialOutcome, TrialRequest, Verdict
from vnetperf.plugin.procedure import KnownThroughput
from vnetperf.procedures.rates import forwarding_rate, loss_profile, mrr
from vnetperf.procedures.soak import soak
from vnetperf.report.outcomes import soak_verdict
from vnetperf.search import replay
from vnetperf.statistics import clopper_pearson
from vnetperf.testing.sim import DutOverTime, run


@given(st.floats(1e4, 3e6))
def test_mrr_is_what_is_forwarded_at_the_largest_load(capacity: float) -> None:
    (rate,), seen = drive(mrr(inputs(MrrTest(repeats=4))), Dut(capacity))
    assert asks(seen) == [CEILING] * 4
    assert isinstance(rate, ForwardingRate)
    assert (rate.load_fps, rate.forwarded_fps.n) == (2 * CEILING, 4)
    assert rate.forwarded_fps.mean == pytest.approx(2 * min(capacity, CEILING), rel=1e-4)
    assert rate.loss_ratio.mean == pytest.approx(max(0.0, 1 - capacity / CEILING), abs=1e-4)
    assert rate.trials == (1, 2, 3, 4)


def test_a_load_that_cannot_be_offered_is_no_maximum() -> None:
    assert next(mrr(inputs(MrrTest()))).when_limited == "lower"


@given(st.floats(1e4, 3e6), st.lists(st.floats(0.01, 3.0), min_size=1, max_size=6))
def test_a_loss_profile_is_the_loss_at_each_load(capacity: float, shares: list[float]) -> None:
    test = LossProfileTest(shares=tuple(shares), repeats=2)
    steps, seen = drive(loss_profile(inputs(test)), Dut(capacity))
    loads = [step.load_fps / 2 for step in steps]
    assert loads == sorted(set(loads))
    assert max(loads) <= CEILING
    assert asks(seen) == pytest.approx([*loads, *loads])  # in turn, and again
    for step, load in zip(steps, loads, strict=True):
        assert isinstance(step, LossStep)
        assert step.input_ratio == pytest.approx(load / CEILING)
        assert step.loss_ratio == pytest.approx(max(0.0, 1 - capacity / load), abs=1e-3)
        assert len(step.trials) == 2


#: Forwards 1 Mfps, and half a frame less for each offered beyond it.
LIVELOCKED = {"capacity_fps": 1e6, "livelock": 0.5, "livelock_floor_fps": 0.2e6}


def forwarding(throughput_fps: float, ceiling_fps: float = 4e6) -> tuple[ForwardingRate, ...]:
    """RFC 2889 section 5.6 on a DUT that livelocks, whose throughput is taken for something."""
    known = KnownThroughput(load_fps=throughput_fps, search=1, goal="ndr")
    given_ = inputs(Rfc2889Test(), throughput=known, directions=1, ceiling_fps=ceiling_fps)
    return run(forwarding_rate(given_), DutOverTime(**LIVELOCKED))[0]


@given(st.floats(0.2e6, 1e6))
def test_a_livelocked_dut_is_found_at_its_best(throughput_fps: float) -> None:
    """Of shares of the largest load it was 0.5 of 1 Mfps, half the largest load."""
    most, best = forwarding(throughput_fps)
    assert "maximum offered" in most.of
    assert "largest forwarding" in best.of
    assert (most.load_fps, most.forwarded_fps.mean) == pytest.approx((4e6, 0.2e6))
    assert best.forwarded_fps.mean >= 0.96e6
    assert best.load_fps == pytest.approx(1e6, abs=0.02 * 4e6)
    assert (best.forwarded_fps.n, most.forwarded_fps.n) == (3, 3)


def test_a_throughput_at_the_largest_load_is_the_forwarding_rate() -> None:
    for ceiling in (1e6, 1.01e6):
        most, best = forwarding(1e6, ceiling)
        assert most.load_fps == ceiling
        assert best.forwarded_fps.mean == pytest.approx(1e6, rel=0.01)


def test_a_forwarding_rate_without_a_throughput_is_replayed_as_it_was_measured() -> None:
    """Logs of earlier versions: shares of the largest load, a trial each."""
    given_ = inputs(Rfc2889Test(shares=(0.9, 0.5)), throughput=None)
    (most, best), seen = drive(forwarding_rate(given_), Dut(0.6 * CEILING))
    assert asks(seen) == pytest.approx([CEILING * s for s in (1.0, 0.9, 0.5)])
    assert not most.searched
    assert best.forwarded_fps.n == 1


class Drops(Dut):
    """Loses a number of frames of direction 1 in a trial, whatever the load."""

    lost: tuple[int, ...] = ()

    def run(self, ask: TrialRequest) -> TrialOutcome:
        seen = super().run(ask)
        first, second = seen.result.directions
        lost = self.lost[seen.number - 1] if seen.number <= len(self.lost) else 0
        second = second.model_copy(update={"received": second.received - lost})
        directions = {"directions": (first, second)}
        result = seen.result.model_copy(update=directions)
        return TrialOutcome.of(seen.request, result, number=seen.number)


def soaked(dut: Dut, **changes: float) -> tuple[Soak, list[float]]:
    test = SoakTest(duration_s=60.0, trial_s=10.0, **changes)
    found, seen = drive(soak(inputs(test)), dut)
    return found, asks(seen)


def test_a_soak_is_the_loss_of_the_worse_direction_with_its_interval() -> None:
    dut = Drops(delay=lambda _t, _d: latency_of({1000: 90, 5000: 10}))
    dut.lost = (0, 3, 0, 0, 4, 0)
    found, loads = soaked(dut)
    assert loads == [700e3] * 6
    assert (found.of, found.seconds, found.goal) == ("throughput", 60.0, 1e-7)
    assert (found.lost, found.offered) == (7, 2 * 6 * 7_000_000)
    assert found.loss_ratio == pytest.approx(7 / 42e6)
    assert found.loss_high is not None
    assert found.loss_low < 7 / 42e6 < found.loss_high < 6 * found.loss_ratio
    assert (found.lossy_trials, found.intended) == (2, found.offered)
    assert (found.largest_event, found.longest_event_s) == (None, None)  # without bins
    assert found.curve is not None
    assert found.curve.lost == (0, 3, 0, 0, 4, 0)
    assert (found.curve.bin_s, len(found.curve.offered)) == (10.0, 6)
    assert set(found.variation) == {"phy0->phy1", "phy1->phy0"}
    assert found.note == ""


def test_a_soak_without_loss_says_how_little_that_proves(texts: Texts) -> None:
    found, _ = soaked(Dut())
    assert (found.lost, found.loss_ratio, found.loss_low, found.loss_high) == (0, 0.0, 0.0, None)
    # Of 42 million frames 4.2 may be lost; 3.7 events may have happened to be unseen.
    assert found.goal_holds_to == 1
    texts.check(soak_verdict(found), "met")
    short = found.model_copy(update={"goal_holds_to": 0})
    texts.check(soak_verdict(short), "undecided")


class Less(Dut):
    """Half of the frames in the second direction."""

    def run(self, ask: TrialRequest) -> TrialOutcome:
        seen = super().run(ask)
        first, second = seen.result.directions
        half = dict.fromkeys(("intended", "sent", "received"), second.sent // 2)
        directions = {"directions": (first, second.model_copy(update=half))}
        return TrialOutcome.of(
            seen.request, seen.result.model_copy(update=directions), number=seen.number
        )


def test_without_loss_the_direction_of_fewest_frames_shows_least() -> None:
    found, _ = soaked(Less())
    assert (found.lost, found.offered) == (0, 3 * 6 * 3_500_000)
    assert found.goal_holds_to == 0


STALLS = {"stall_every_s": 100.0, "stall_s": 0.005}
HALF_AN_HOUR = SoakTest(duration_s=1800.0, trial_s=60.0)


def stalling(seed: int, *, timelines: bool = False, test: SoakTest = HALF_AN_HOUR) -> Soak:
    """A soak at 1 Mfps on a DUT that stands still for 5 ms each 100 s."""
    known = KnownThroughput(load_fps=1e6, search=1, goal="ndr")
    given_ = inputs(test, throughput=known, directions=1, timelines=timelines)
    return run(soak(given_), DutOverTime(2e6, seed=seed, **STALLS))[0]


def test_the_interval_of_a_soak_covers_what_stalls_take() -> None:
    """The truth is 5000 frames each 100 s; of frames alone the interval covers it in 8 %."""
    truth, covered, of_frames = 5e-5, 0, 0
    for seed in range(200):
        found = stalling(seed)
        assert found.loss_high is not None
        covered += found.loss_low <= truth <= found.loss_high
        low, high = clopper_pearson(found.lost, found.offered)
        of_frames += low <= truth <= high
    assert covered >= 0.95 * 200
    assert of_frames < 0.2 * 200


def test_events_are_told_with_their_size_and_length() -> None:
    found = stalling(3, timelines=True, test=SoakTest(duration_s=400.0, trial_s=100.0))
    assert found.lossy_trials
    assert found.largest_event in range(4990, 5011)
    assert found.longest_event_s in (pytest.approx(0.105, abs=0.01), pytest.approx(0.21, abs=0.02))
    none = stalling(3, timelines=True, test=SoakTest(duration_s=1.0, trial_s=1.0))
    assert (none.largest_event, none.longest_event_s, none.lossy_trials) == (0, 0.0, 0)


def test_bins_are_requested_of_a_generator_that_has_them() -> None:
    assert next(soak(inputs(HALF_AN_HOUR))).bin_s == 0
    assert next(soak(inputs(HALF_AN_HOUR))).loss_limits == (HALF_AN_HOUR.loss_ratio,)
    assert next(soak(inputs(HALF_AN_HOUR, timelines=True))).bin_s == 0.1


@pytest.mark.parametrize(
    ("low", "high", "offered", "verdict"),
    [
        (1e-9, 9e-8, 9900, "met"),
        (2e-7, 9e-7, 9900, "not met"),
        (2e-8, 2e-7, 9900, "undecided: the interval holds the limit"),
        (1e-9, 9e-8, 9899, "not judged: 98.99 % of the load was offered"),
        (2e-7, 9e-7, 9000, "not judged: 90 % of the load was offered"),
    ],
)
def test_a_soak_is_judged_only_if_its_load_was_offered(
    low: float, high: float, offered: int, verdict: str
) -> None:
    found = stalling(1).model_copy(
        update={"loss_low": low, "loss_high": high, "offered": offered, "intended": 10_000}
    )
    assert soak_verdict(found) == verdict
    old = found.model_copy(update={"intended": None})
    assert "intended frames" in soak_verdict(old)


def test_a_direction_that_was_not_offered_is_not_hidden_by_the_other(texts: Texts) -> None:
    class Short(Dut):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            first, second = seen.result.directions
            lacking = second.intended * 15 // 1_000  # of both directions together 0.75 %
            fewer = dict.fromkeys(("sent", "received"), second.sent - lacking)
            second = second.model_copy(update={**fewer, "unsent": lacking})
            result = seen.result.model_copy(update={"directions": (first, second)})
            return TrialOutcome.of(
                seen.request, result, Verdict.GENERATOR_LIMITED, number=seen.number
            )

    found, _ = soaked(Short())
    assert found.intended is not None
    assert found.offered > 0.99 * found.intended
    texts.check(soak_verdict(found))


def test_a_share_and_a_doubtful_throughput_are_said() -> None:
    known = KnownThroughput(load_fps=1e6, search=1, goal="ndr", qualifier="at least", note="at l.")
    procedure = soak(inputs(SoakTest(share=0.9, duration_s=1, trial_s=1), throughput=known))
    found, seen = drive(procedure, Dut(2e6))
    assert asks(seen) == [0.9e6]
    assert (found.of, found.note) == ("90 % of throughput", "at l.")


def test_a_trial_in_which_the_tester_stumbled_counts_and_is_said(texts: Texts) -> None:
    procedure = soak(inputs(SoakTest(duration_s=20, trial_s=10)))
    dut = Dut()
    seen = dut.run(next(procedure))
    procedure.send(limited(seen))
    with pytest.raises(StopIteration) as end:
        procedure.send(dut.run(dut.asked[0]))
    found = end.value.value
    texts.check(found.note)
    assert found.stalled_trials == ()


@pytest.mark.parametrize("stalled", [{2}, {2, 5}])
def test_a_loss_that_may_be_the_testers_is_not_judged(stalled: set[int], texts: Texts) -> None:
    class Stalls(Drops):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            if seen.number not in stalled:
                return seen
            return replace(seen, verdict=Verdict.TESTER_STALLED)

    dut = Stalls()
    dut.lost = (0, 3000, 0, 0, 4000, 0)
    found, _ = soaked(dut)
    assert found.stalled_trials == tuple(sorted(stalled))
    texts.check(found.note, "note")
    texts.check(soak_verdict(found), "verdict")
    old = found.model_copy(update={"stalled_trials": ()})
    assert not soak_verdict(old).startswith("not judged")


@pytest.mark.parametrize(
    ("test", "parameters"),
    [
        (mrr, MrrTest(repeats=3)),
        (loss_profile, LossProfileTest(repeats=1)),
        (soak, SoakTest(duration_s=3, trial_s=1)),
        (forwarding_rate, Rfc2889Test()),
    ],
)
def test_a_log_gives_the_same_again(test, parameters) -> None:  # type: ignore[no-untyped-def]
    found, seen = drive(test(inputs(parameters)), Dut())
    assert replay(test(inputs(parameters)), seen).outcome == found
    assert replay(test(inputs(parameters)), seen[:1]).next_request is not None
