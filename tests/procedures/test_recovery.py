"""Recovery and reset on DUTs whose recovery is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.procedures.support import Dut, drive, inputs, limited, spec_of
from tests.texts import Texts
from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import Recovery, Reset
from vnetperf.model.parameters import RecoveryTest, ResetTest
from vnetperf.model.trial import (
    DirectionCounts,
    EventTimes,
    Gaps,
    Timeline,
    TrialGaps,
    TrialOutcome,
    TrialRequest,
    TrialResult,
)
from vnetperf.plugin.procedure import RULES, KnownThroughput
from vnetperf.procedures.base import MOST_BINS, build_curve
from vnetperf.procedures.recovery import recovery
from vnetperf.procedures.reset import ResetInputs, name_events, reset
from vnetperf.procedures.usual_loss import UsualLoss
from vnetperf.search import replay

THROUGHPUT = 100_000.0


@dataclass
class OverTime(Dut):
    """A DUT that loses a share of the frames sent in some stretches of a trial.

    Attributes:
        origin_s: Moment of a trial that stretches are counted from.
        lossy: Number of a trial and direction -> stretches as start, end, share lost.
        silent: Number of a trial and direction -> a stretch without arrivals.
        event: Number of a trial -> when its event happened.
        stood_still: Number of a trial -> seconds that the tester neither polled nor sent.
        unsent: Number of a trial -> stretches in which nothing was offered.
    """

    origin_s: float = 0.0
    lossy: Callable[[int, int], list[tuple[float, float, float]]] = lambda n, d: []
    silent: Callable[[int, int], tuple[float, float]] = lambda n, d: (0.0, 0.0)
    event: Callable[[int], EventTimes | None] = lambda n: None
    stood_still: Callable[[int], tuple[float, float]] = lambda n: (0.0, 0.0)
    unsent: Callable[[int], list[tuple[float, float]]] = lambda n: []
    seen: list[TrialOutcome] = field(default_factory=list)

    def run(self, ask: TrialRequest) -> TrialOutcome:
        """One trial."""
        self.asked.append(ask)
        number = len(self.asked)
        timelines = tuple(self._timeline(ask, number, d) for d in (0, 1))
        result = TrialResult(
            directions=tuple(_counts(t) for t in timelines),
            timelines=timelines,
            event=self.event(number),
            gaps=_gaps(*self.stood_still(number)),
        )
        self.seen.append(TrialOutcome.of(spec_of(ask), result, number=number))
        return self.seen[-1]

    def _timeline(self, ask: TrialRequest, number: int, direction: int) -> Timeline:
        bins = round(ask.duration_s / ask.bin_s)
        origin = self.origin_s
        stretches = [(origin + a, origin + b, s) for a, b, s in self.lossy(number, direction)]
        sent, received = [], []
        for n in range(bins):
            begin, end = n * ask.bin_s, (n + 1) * ask.bin_s
            still = any(a <= begin < b for a, b in self.unsent(number))
            frames = 0 if still else round(_load(ask, begin) * ask.bin_s)
            share = sum(
                max(0.0, min(end, b) - max(begin, a)) / ask.bin_s * s for a, b, s in stretches
            )
            sent.append(frames)
            received.append(frames - ceil(frames * share - 1e-6))
        lost = any(s > r for s, r in zip(sent, received, strict=True))
        silent = self.silent(number, direction)
        return Timeline(
            direction=direction,
            bin_s=ask.bin_s,
            sent=tuple(sent),
            received=tuple(received),
            arrived=tuple(received),
            last_lost_s=max(b for _, b, _ in stretches) if lost else None,
            gap_s=silent[1] - silent[0],
            gap_from_s=silent[0],
        )


def _gaps(poll: float, send: float) -> TrialGaps:
    def gaps(over: float) -> Gaps:
        return Gaps(max_s=max(over, 1e-5), hold_s=1e-3, over_s=over)

    return TrialGaps(poll=gaps(poll), send=gaps(send), catch_up_frames=1024)


def _load(ask: TrialRequest, at: float) -> float:
    until = 0.0
    for step in ask.steps:
        until += step.duration_s
        if at < until - 1e-9:
            return step.load_fps
    return ask.load_fps


def _counts(timeline: Timeline) -> DirectionCounts:
    frames = sum(timeline.sent)
    return DirectionCounts(
        direction=timeline.direction,
        intended=frames,
        sent=frames,
        refused=0,
        unsent=0,
        received=sum(timeline.received),
    )


KNOWN = KnownThroughput(load_fps=THROUGHPUT, search=1, goal="ndr")
RECOVERY = RecoveryTest(overload_s=2.0, relaxed_s=3.0, repeats=2, bin_s=0.01)


def recovered(dut: OverTime, parameters: RecoveryTest = RECOVERY, **changes: object) -> Recovery:
    """What is found; stretches count from the begin of the overload."""
    dut.origin_s = parameters.relaxed_s if changes.get("rules", RULES) == RULES else 0.0
    given_ = inputs(parameters, **{"throughput": KNOWN} | changes)
    found, seen = drive(recovery(given_), dut)
    assert replay(recovery(given_), seen).outcome == found  # a log gives it again
    assert isinstance(found, Recovery)
    return found


@given(after=st.floats(0.02, 2.9), other=st.floats(0.0, 2.9))
def test_without_other_loss_recovery_is_from_the_drop_to_the_last_lost_frame(
    after: float, other: float
) -> None:
    dut = OverTime(lossy=lambda n, d: [(0.5, 2.0 + (other if d else after), 0.2)])
    found = recovered(dut)
    assert found.seconds is not None
    for value in found.seconds.values:
        assert value == pytest.approx(max(after, other), abs=1e-9)
    assert found.last_lost_s == found.seconds
    assert (found.note, found.why, found.usual_loss) == ("", "", 0.0)
    assert found.curves[0].marks["load drops"] == 5.0


def test_the_loads_are_those_of_the_clause() -> None:
    dut = OverTime(lossy=lambda n, d: [(0.5, 2.1, 0.2)])
    found = recovered(dut)
    ask = dut.asked[0]
    assert [s.load_fps for s in ask.steps] == pytest.approx([55_000, 110_000, 55_000])
    assert [s.duration_s for s in ask.steps] == [3.0, 2.0, 3.0]
    assert (ask.duration_s, len(dut.asked)) == (8.0, 2)
    assert (found.overload_fps, found.relaxed_fps) == pytest.approx((220_000, 110_000))
    assert found.throughput_fps == 200_000


def test_the_overload_is_above_what_any_round_found_to_be_too_much() -> None:
    """110 % of the least lower bound of several rounds may be carried."""
    ranged = KNOWN.model_copy(update={"upper_fps": 1.4 * THROUGHPUT})
    procedure = recovery(inputs(RECOVERY, throughput=ranged))
    assert next(procedure).load_fps == pytest.approx(1.1 * 1.4 * THROUGHPUT)
    procedure = recovery(inputs(RECOVERY, throughput=KNOWN))
    assert next(procedure).load_fps == pytest.approx(1.1 * THROUGHPUT)


def test_an_overload_that_cannot_be_offered_is_said(texts: Texts) -> None:
    dut = OverTime(lossy=lambda n, d: [(0.5, 2.1, 0.2)])
    found = recovered(dut, ceiling_fps=105_000.0)
    assert found.overload_fps == 210_000
    texts.check(found.note)


OVERLOADED = (0.5, 2.0, 0.2)
NOTHING_TO_RECOVER_FROM = (
    "not measured: the DUT was not overloaded when the load dropped, so that there was nothing to "
    "recover from"
)


def test_an_overload_without_loss_has_no_time(texts: Texts) -> None:
    found = recovered(OverTime())
    assert (found.seconds, found.why) == (None, NOTHING_TO_RECOVER_FROM)
    assert found.not_overloaded == (1, 2)
    one = recovered(OverTime(lossy=lambda n, d: [OVERLOADED] if n == 1 else []))
    assert one.seconds is not None
    assert (one.seconds.values, one.not_overloaded) == ((0.0,), (2,))
    texts.check(one.note)


@pytest.mark.parametrize(
    "stray",
    [
        [(0.05, 0.06, 0.1)],  # long before the drop
        [(1.995, 1.999, 0.1)],  # one bin of the last ones
        [(0.0, 1.85, 0.2)],  # an overload that the DUT overcame
        [(0.05, 0.06, 0.1), (2.3, 2.4, 0.1)],  # and loss of another cause after it
    ],
)
def test_loss_that_is_no_overload_at_the_drop_gives_no_time(
    stray: list[tuple[float, float, float]],
) -> None:
    found = recovered(OverTime(lossy=lambda n, d: stray))
    assert (found.seconds, found.why) == (None, NOTHING_TO_RECOVER_FROM)
    assert all(list(curve.marks) == ["load drops"] for curve in found.curves)


def test_loss_that_the_throughput_may_have_is_no_overload() -> None:
    known = KNOWN.model_copy(update={"loss_ratio": 0.05})
    tolerated = recovered(OverTime(lossy=lambda n, d: [(0.0, 2.0, 0.04)]), throughput=known)
    assert tolerated.seconds is None
    more = recovered(OverTime(lossy=lambda n, d: [(0.0, 2.0, 0.2)]), throughput=known)
    assert more.seconds is not None


def test_an_overload_that_leaves_nothing_behind_takes_no_time() -> None:
    """One direction suffices, and bins between losses."""
    bursts = [(n / 50, n / 50 + 0.01, 0.2) for n in range(100)]
    found = recovered(OverTime(lossy=lambda n, d: bursts if d else []))
    assert found.seconds is not None
    assert (found.seconds.values, found.why, found.note) == ((0.0, 0.0), "", "")


def test_loss_to_the_end_is_at_least_and_in_no_mean(texts: Texts) -> None:
    found = recovered(OverTime(lossy=lambda n, d: [(0.5, 5.0, 0.2)]))
    assert (found.seconds, found.censored, found.at_least_s) == (None, (1, 2), 3.0)
    texts.check(found.why, "all trials")
    mixed = OverTime(lossy=lambda n, d: [(0.5, 5.0 if n == 1 else 2.5, 0.2)])
    one = recovered(mixed)
    assert (one.seconds, one.censored) == (None, (1,))
    assert one.at_least_s == pytest.approx((3.0 + 0.5) / 2)
    texts.check(one.why, "one trial")


@pytest.mark.parametrize("relaxed_s", [3.0, 10.0])
def test_loss_of_another_cause_is_no_recovery_however_long_the_trial(
    relaxed_s: float, texts: Texts
) -> None:
    """3 ms of all frames are lost once in each second, before the overload and after it."""
    test = RECOVERY.model_copy(update={"relaxed_s": relaxed_s})
    stray = [(n + 0.501, n + 0.504, 1.0) for n in range(round(-relaxed_s), round(relaxed_s) + 2)]
    dut = OverTime(lossy=lambda n, d: [(0.0, 2.02, 0.1), *stray])
    found = recovered(dut, test)
    assert found.seconds is not None
    assert found.seconds.values == pytest.approx((0.02, 0.02), abs=found.curves[0].bin_s)
    assert found.last_lost_s is not None
    assert found.last_lost_s.mean == pytest.approx(relaxed_s - 0.496)
    assert found.usual_loss == pytest.approx(0.03, rel=0.15)
    texts.check(found.note)
    marks = found.curves[0].marks
    assert marks["recovered"] == pytest.approx(relaxed_s + 2 + found.seconds.mean)
    assert marks["last lost frame"] == pytest.approx(2 * relaxed_s + 1.504)


@given(after=st.floats(0.0, 2.0), level=st.floats(0.01, 0.08))
def test_a_load_that_always_loses_a_little_is_recovered_at_that(after: float, level: float) -> None:
    lossy = [(-3.0, 5.0, level), (0.0, 2.0 + after, 0.2)]
    found = recovered(OverTime(lossy=lambda n, d: lossy if d else []))
    assert found.seconds is not None
    for value in found.seconds.values:  # to a bin
        assert after - 0.001 <= value <= after + 0.0101
    assert found.last_lost_s is None
    assert found.lost_at_end == (1, 2)
    assert "trials 1, 2" in found.note


def test_a_relaxed_load_that_loses_as_much_as_the_overload_shows_no_recovery() -> None:
    found = recovered(OverTime(lossy=lambda n, d: [(-3.0, 5.0, 0.2)]))
    assert (found.seconds, found.why) == (None, NOTHING_TO_RECOVER_FROM)


def test_frequent_losses_of_another_cause_do_not_hide_an_overload() -> None:
    """Two bins of ten lose more before the overload than all of them do in it, and after it."""
    stray = [(n / 10, n / 10 + 0.02, 0.3) for n in range(-30, 50)]
    found = recovered(OverTime(lossy=lambda n, d: [(0.0, 2.28, 0.1), *stray]))
    assert (found.not_overloaded, found.why) == ((), "")
    assert found.seconds is not None
    assert found.seconds.values == pytest.approx((0.28, 0.28))


def test_a_recovery_that_is_shorter_than_a_usual_loss_is_seen() -> None:
    """Before the overload 20 ms of all frames are lost at once; after it half of them in 20 ms."""
    dut = OverTime(lossy=lambda n, d: [(-2.0, -1.98, 1.0), (0.0, 2.0, 0.1), (2.0, 2.02, 0.5)])
    found = recovered(dut)
    assert found.seconds is not None
    assert found.seconds.values == pytest.approx((0.02, 0.02))


def test_an_older_log_has_its_trials_and_no_usual_loss(texts: Texts) -> None:
    dut = OverTime(lossy=lambda n, d: [(0.5, 2.1, 0.2), (4.0, 4.5, 0.1)])
    found = recovered(dut, rules=1)
    assert [s.load_fps for s in dut.asked[0].steps] == pytest.approx([110_000, 55_000])
    assert found.seconds is not None
    assert found.seconds.values == pytest.approx((0.1, 0.1))
    assert found.last_lost_s is not None
    assert found.last_lost_s.values == pytest.approx((2.5, 2.5))
    assert found.usual_loss is None
    texts.check(found.note)


@pytest.mark.parametrize("stall", [(0.005, 0.0), (0.0, 0.005)])
def test_a_loss_that_may_be_the_testers_is_no_recovery(
    stall: tuple[float, float], texts: Texts
) -> None:
    """Most of the frames were lost in the overload, so that the trial itself is valid."""
    dut = OverTime(
        lossy=lambda n, d: [(0.5, 2.1, 0.2), *([(4.0, 4.01, 0.5)] if n == 1 else [])],
        stood_still=lambda n: stall if n == 1 else (0.0, 0.0),
    )
    one = recovered(dut)
    assert one.seconds is not None
    assert one.seconds.values == pytest.approx((0.1,))
    assert (one.disturbed, one.censored, one.why) == ((1,), (), "")
    texts.check(one.note, "one trial")
    every = recovered(OverTime(lossy=lambda n, d: [(0.5, 5.0, 0.2)], stood_still=lambda n: stall))
    assert (every.seconds, every.disturbed, every.censored) == (None, (1, 2), ())
    texts.check(every.why, "every trial")


def test_a_stalled_trial_is_left_out_whatever_its_time() -> None:
    """Half of the trials take no time, half 0.1 s; a choice by the loss would keep the short."""
    many = RECOVERY.model_copy(update={"repeats": 12})
    dut = OverTime(
        lossy=lambda n, d: [OVERLOADED if n % 2 else (0.5, 2.1, 0.2)],
        stood_still=lambda n: (0.005, 0.0) if n % 3 == 0 else (0.0, 0.0),
    )
    found = recovered(dut, many)
    assert found.disturbed == (3, 6, 9, 12)
    assert found.seconds is not None
    assert found.seconds.values == pytest.approx((0.0, 0.1, 0.1, 0.0) * 2)


@pytest.mark.parametrize("stall", [(0.3, 0.0), (0.0, 0.3)])
def test_a_stall_of_the_tester_is_no_reset_time(stall: tuple[float, float], texts: Texts) -> None:
    """Shortly after a reset of 20 ms the tester stands still for 300 ms."""

    def lossy(n: int, direction: int) -> list[tuple[float, float, float]]:
        stalled = [(2.05, 2.35, 0.95)] if n == 2 else []
        return [(2.0, 2.02, 1.0), *stalled]

    dut = OverTime(
        lossy=lossy,
        silent=lambda n, d: (2.05, 2.35) if n == 2 else (2.0, 2.02),
        event=lambda n: event(2.0, 2.02),
        stood_still=lambda n: stall if n == 2 else (0.0, 0.0),
    )
    (one,) = resets(dut)
    assert one.disturbed == (2,)
    assert one.by_loss_s is not None
    assert one.by_time_s is not None
    assert one.by_loss_s.values == pytest.approx((0.02, 0.02), abs=0.001)
    assert one.by_time_s.values == pytest.approx((0.02, 0.02), abs=0.001)
    texts.check(one.note, "one trial")
    dut.stood_still = lambda n: stall
    (every,) = resets(dut)
    assert (every.by_loss_s, every.by_time_s) == (None, None)
    texts.check(every.why, "every trial")


def test_a_stall_that_is_little_of_a_reset_time_is_its_bound(texts: Texts) -> None:
    """2 ms of 300: on shared cores each trial has such a gap, and the test had no result."""
    dut = OverTime(
        lossy=lambda n, d: [(2.0, 2.3, 1.0)],
        silent=lambda n, d: (2.0, 2.3),
        event=lambda n: event(2.0, 2.3),
        stood_still=lambda n: (0.002 * n, 0.0),
    )
    (one,) = resets(dut)
    assert (one.why, one.disturbed) == ("", ())
    assert one.by_loss_s is not None
    assert one.by_loss_s.values == pytest.approx((0.3,) * 3, abs=0.001)
    texts.check(one.note)


def test_a_shortfall_is_said_and_counts(texts: Texts) -> None:
    class Late(OverTime):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            return limited(super().run(ask))

    dut = Late(lossy=lambda n, d: [(0.5, 2.1, 0.2)])
    texts.check(recovered(dut).note)
    assert len(dut.asked) == 2


def test_curves_have_few_bins() -> None:
    dut = OverTime(lossy=lambda n, d: [(0.5, 62.0, 0.2)])
    long = RecoveryTest(overload_s=60.0, relaxed_s=10.0, repeats=1, bin_s=0.001)
    curve = recovered(dut, long).curves[0]
    assert len(curve.offered) <= MOST_BINS
    assert sum(curve.offered) == sum(d.sent for d in dut.seen[0].result.directions)
    assert sum(curve.lost) == sum(d.sent - d.received for d in dut.seen[0].result.directions)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=4000))
def test_merged_bins_hold_the_same_frames(bins: list[tuple[int, int]]) -> None:
    sent = tuple(a + b for a, b in bins)
    received = tuple(a for a, _ in bins)
    short = Timeline(direction=1, bin_s=0.01, sent=(5,), received=(4,), arrived=(4, 1))
    long = Timeline(direction=0, bin_s=0.01, sent=sent, received=received, arrived=received)
    result = TrialResult(directions=(), timelines=(long, short))
    ask = TrialRequest(load_fps=1000, duration_s=1)
    curve = build_curve(TrialOutcome.of(spec_of(ask), result, number=3), {"it": 0.5})
    assert curve is not None
    assert len(curve.offered) <= MOST_BINS
    assert curve.bin_s * len(curve.offered) >= 0.01 * len(bins)
    assert sum(curve.offered) == sum(sent) + 5
    assert sum(curve.lost) == sum(sent) - sum(received) + 1
    assert sum(curve.arrived) == sum(received) + 5


def event(began: float, ended: float, failure: str = "") -> EventTimes:
    return EventTimes(what="vswitch", began_s=began, ended_s=ended, failure=failure)


RESET = ResetTest(what=("vswitch",), before_s=2.0, after_s=3.0, repeats=3, bin_s=0.01)


def resets(
    dut: OverTime,
    parameters: ResetTest = RESET,
    impossible: dict[str, str] | None = None,
    ends: tuple[str, str] = ("phy0", "phy1"),
) -> tuple[Reset, ...]:
    given_ = ResetInputs(
        parameters=parameters,
        frame_size=64,
        ceiling_fps=2e6,
        media_fps=14.8e6,
        throughput=KNOWN,
        ends=ends,
        impossible=impossible or {},
    )
    read_back = ResetInputs.model_validate(given_.model_dump(mode="json"))
    found, seen = drive(reset(given_), dut)
    assert replay(reset(read_back), seen).outcome == found
    assert isinstance(found, tuple)
    return found


@given(
    outage=st.floats(0.03, 2.5),
    longer=st.floats(1.0, 1.15),
    earlier=st.booleans(),
)
def test_both_methods_find_the_outage(outage: float, longer: float, earlier: bool) -> None:
    """Within a bin; of the two directions the longer one counts."""

    def stretch(number: int, direction: int) -> tuple[float, float]:
        return 2.0, 2.0 + outage * (longer if direction == int(earlier) else 1.0)

    dut = OverTime(
        lossy=lambda n, d: [(*stretch(n, d), 1.0)],
        silent=stretch,
        event=lambda n: event(2.0, 2.0 + outage / 2),
    )
    (one,) = resets(dut)
    assert (one.why, one.note, one.what, one.type) == ("", "", "vswitch", "software")
    assert one.by_loss_s is not None
    assert one.by_time_s is not None
    assert one.event_s is not None
    assert one.by_loss_s.n == one.by_time_s.n == 3
    assert one.by_time_s.mean == pytest.approx(outage * longer, abs=1e-6)
    assert one.by_loss_s.mean == pytest.approx(outage * longer, abs=0.01)
    assert one.event_s.mean == pytest.approx(outage / 2, abs=1e-6)
    assert one.curves[2].marks == {"vswitch reset": 2.0, "ready": round(2.0 + outage / 2, 6)}


def test_loss_before_the_reset_is_not_its(texts: Texts) -> None:
    dut = OverTime(
        lossy=lambda n, d: [(0.5, 1.5, 0.5)],
        silent=lambda n, d: (0.5, 1.5),
        event=lambda n: event(2.0, 2.1),
    )
    (one,) = resets(dut)
    assert (one.by_loss_s, one.by_time_s) == (None, None)
    texts.check(one.why)


def test_loss_after_the_recovery_is_not_its() -> None:
    dut = OverTime(
        lossy=lambda n, d: [(2.0, 2.3, 1.0), (4.0, 4.5, 0.3)],
        silent=lambda n, d: (2.0, 2.3),
        event=lambda n: event(2.0, 2.2),
    )
    (one,) = resets(dut)
    assert one.by_loss_s is not None
    assert one.by_loss_s.mean == pytest.approx(0.3, abs=0.001)
    lost = round(0.3 * 0.5 * THROUGHPUT)
    assert f"{3 * 2 * lost} frames lost" in one.note


@pytest.mark.slow
@given(every=st.floats(0.15, 0.9), share=st.floats(0.05, 0.6))
def test_loss_that_comes_and_goes_all_the_time_is_not_its(every: float, share: float) -> None:
    """Stalls in the whole of the trial; the reset takes 0.5 s beside them."""
    stalls = [(at, at + 0.03, share) for at in (every * n for n in range(1, 40)) if at < 4.9]
    dut = OverTime(
        lossy=lambda n, d: [s for s in stalls if not 1.95 < s[0] < 2.5] + [(2.0, 2.5, 1.0)],
        silent=lambda n, d: (2.0, 2.5),
        event=lambda n: event(2.0, 2.4),
    )
    (one,) = resets(dut)
    assert one.by_loss_s is not None
    assert one.by_loss_s.mean == pytest.approx(0.5, abs=0.1)


def test_loss_all_the_time_hides_no_recovery_but_what_the_reset_adds_is_its() -> None:
    dut = OverTime(
        lossy=lambda n, d: [(0.0, 2.0, 0.1), (2.0, 2.5, 1.0), (2.5, 5.0, 0.1)],
        silent=lambda n, d: (2.0, 2.5),
        event=lambda n: event(2.0, 2.4),
    )
    (one,) = resets(dut)
    assert one.by_loss_s is not None
    assert one.by_loss_s.mean == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("pause", [(0.5, 1.5), (4.0, 4.9)])
def test_a_longer_pause_before_or_after_leaves_no_time_by_stamps(
    pause: tuple[float, float], texts: Texts
) -> None:
    """A tester that stood still: not 0 s, nor the pause's length."""
    dut = OverTime(
        lossy=lambda n, d: [(2.0, 2.3, 1.0)],
        silent=lambda n, d: pause,
        event=lambda n: event(2.0, 2.2),
    )
    (one,) = resets(dut)
    assert one.by_loss_s is not None
    assert one.by_loss_s.mean == pytest.approx(0.3, abs=0.001)
    assert one.by_time_s is None
    texts.check(one.note)


def test_what_does_not_come_back_has_no_number_and_is_not_tried_again(texts: Texts) -> None:
    failed = event(2.0, 9.0, "vswitch does not come back: its log ends")
    dut = OverTime(lossy=lambda n, d: [(2.0, 5.0, 1.0)], event=lambda n: failed)
    (one,) = resets(dut)
    texts.check(one.why)
    assert (one.by_loss_s, one.by_time_s, one.event_s) == (None, None, None)
    assert len(dut.asked) == len(one.curves) == 1


def test_loss_to_the_end_has_no_number(texts: Texts) -> None:
    dut = OverTime(lossy=lambda n, d: [(2.0, 5.0, 1.0)], event=lambda n: event(2.0, 2.5))
    (one,) = resets(dut)
    texts.check(one.why)
    assert one.at_least_s == pytest.approx(3.0, abs=0.01)


def test_a_stall_before_the_reset_hides_no_outage() -> None:
    """Where nothing was offered, nothing shows what is lost usually."""
    stalled = [(1.7, 1.9)]
    dut = OverTime(
        lossy=lambda n, d: [(2.0, 3.0, 1.0)],
        silent=lambda n, d: (2.0, 3.0),
        event=lambda n: event(2.0, 2.5),
        unsent=lambda n: stalled if n == 2 else [],
    )
    (one,) = resets(dut)
    assert one.why == ""
    assert one.by_loss_s is not None
    assert one.by_loss_s.minimum == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("ready", [4.95, 5.5])
def test_what_is_ready_at_the_end_only_is_too_late_to_tell(ready: float) -> None:
    dut = OverTime(lossy=lambda n, d: [(2.0, 4.8, 1.0)], event=lambda n: event(2.0, ready))
    (one,) = resets(dut)
    assert f"{ready - 2:.3g} s after the reset" in one.why
    assert "raise after_s, 3 s (trial 1)" in one.why
    assert (one.by_loss_s, one.by_time_s, one.event_s) == (None, None, None)


def test_what_is_impossible_is_said_and_the_rest_measured() -> None:
    dut = OverTime(
        lossy=lambda n, d: [(2.0, 2.4, 1.0)],
        silent=lambda n, d: (2.0, 2.4),
        event=lambda n: event(2.0, 2.4),
    )
    every = ResetTest(before_s=2.0, after_s=2.0, repeats=1, link_down_s=0.4)
    names = name_events(every, ("phy0", "phy1"))
    assert names == ("vswitch", "vnf0", "link phy0")
    assert name_events(every, ("vnf1.0", "vnf1.1"), ("east", "west"), "phy0") == (
        *("vswitch on east", "vswitch on west"),
        *("vnf0", "link phy0"),
    )
    no_vnf, no_switch = "there is no vnf0", "the tester's end connects but once"
    found = resets(dut, every, {"vnf0": no_vnf, "vswitch": no_switch})
    assert [one.why for one in found] == [no_switch, no_vnf, ""]
    assert [one.type for one in found] == ["software", "software", "hardware: interface"]
    (ask,) = dut.asked
    assert ask.event is not None
    assert (ask.event.what, ask.event.at_s, ask.event.down_s) == ("link phy0", 2.0, 0.4)
    assert ask.duration_s == pytest.approx(4.4)


def test_a_generator_without_timelines_has_no_reset_time(texts: Texts) -> None:
    class Plain(OverTime):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            return TrialOutcome.of(
                seen.request, seen.result.model_copy(update={"timelines": ()}), number=seen.number
            )

    (one,) = resets(Plain(event=lambda n: event(2.0, 2.1)))
    texts.check(one.why)


def test_where_nothing_can_be_reset_there_is_no_result() -> None:
    whys = {"vswitch": "it connects but once", "vnf0": "there is none", "link phy0": "memif"}
    with pytest.raises(NoResultError, match=r"vswitch: .*; vnf0: "):
        resets(OverTime(), ResetTest(), impossible=whys)


_BINS = st.lists(st.integers(0, 50), max_size=40)


@given(_BINS, _BINS, st.integers(0, 45), st.sampled_from((0.01, 0.03, 0.2)))
def test_what_is_usual_is_the_worst_of_all_windows_before(
    sent: list[int], received: list[int], end: int, bin_s: float
) -> None:
    timeline = Timeline(direction=0, bin_s=bin_s, sent=sent, received=received, arrived=())

    def ratio(begin: int, count: int) -> float | None:
        offered = sum(sent[begin : begin + count])
        return (offered - sum(received[begin : begin + count])) / offered if offered else None

    usual = UsualLoss.before(timeline, end)
    each = [ratio(n, usual.window) for n in range(end - usual.window + 1)]
    known = [one for one in each if one is not None]
    assert usual.most == max(known, default=0.0)
    single = sorted(one for n in range(end) if (one := ratio(n, 1)) is not None)
    assert usual.of_bin == (single[ceil(0.75 * len(single)) - 1] if single else 0.0)
    places = range(end, len(sent) + 2)
    back = [
        place
        for place in places
        if (window := ratio(place, usual.window)) is not None
        and (own := ratio(place, 1)) is not None
        and window <= usual.most
        and own <= usual.of_bin
    ]
    assert usual.back(timeline, places) == (back[0] if back else None)


@given(_BINS, _BINS, st.integers(1, 3))
def test_a_curve_has_the_sums_of_its_bins(sent: list[int], received: list[int], n: int) -> None:
    sent = sent + [1] * (n - 1) * MOST_BINS
    rows = Timeline(direction=0, bin_s=0.01, sent=sent, received=received, arrived=received)
    outcome = SimpleNamespace(number=1, result=SimpleNamespace(timelines=(rows, rows)))
    curve = build_curve(outcome, {})  # type: ignore[arg-type]  # a double
    assert curve is not None
    together = round(curve.bin_s / 0.01)
    assert curve.offered == tuple(
        2 * sum(sent[at : at + together]) for at in range(0, max(len(sent), 0), together)
    )
    assert sum(curve.lost) == 2 * (sum(sent) - sum(received))
