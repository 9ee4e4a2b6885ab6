"""A buffer of known size comes back as a burst and as a time, within a step."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.procedures.support import CEILING, Dut, drive, inputs
from tests.texts import Texts
from vnetperf.analysis.metrics import compared_metrics_of
from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import BackToBack
from vnetperf.model.parameters import BackToBackTest
from vnetperf.model.result import Result
from vnetperf.model.trial import Gaps, TrialGaps, TrialOutcome, TrialRequest, Verdict
from vnetperf.plugin.procedure import KnownThroughput
from vnetperf.procedures.back_to_back import back_to_back
from vnetperf.statistics.difference import Measurand
from vnetperf.testing.sim import DutOverTime, run

TEN_G = 14_880_952.38
#: What a calibration says of bursts at the ceiling.
GAP_NS = 1e9 / CEILING


def longest(buffer: int, capacity: float, rate: float) -> int:
    """The longest burst that a buffer holds while it is emptied."""
    frames = int(buffer / (1 - capacity / rate))
    while frames <= int(capacity * frames / rate) + buffer:
        frames += 1
    while frames > int(capacity * frames / rate) + buffer:
        frames -= 1
    return frames


@settings(deadline=None)
@given(st.integers(1, 20_000), st.sampled_from([1, 7, 64]), st.floats(0.05, 0.9))
def test_a_known_buffer_comes_back_within_a_step(buffer: int, step: int, share: float) -> None:
    capacity = share * CEILING
    known = KnownThroughput(load_fps=capacity, search=1, goal="ndr")
    asked = BackToBackTest(searches=3, max_burst_s=0.5, idle_s=0, step_frames=step)
    dut = Dut(capacity, buffer=lambda _: buffer)
    given_ = inputs(asked, throughput=known, burst_gap_ns=GAP_NS)
    found, seen = drive(back_to_back(given_), dut)
    truth = longest(buffer, capacity, CEILING)
    assert truth - step - 1 <= found.frames.mean <= truth + 1  # a frame for rounding
    assert found.frames.values == (found.frames.mean,) * 3
    assert found.frames.stdev == 0
    if truth >= 2 * step:  # a single frame has no gap
        assert found.gap_ns == pytest.approx(1e9 / CEILING, rel=1e-6)
    assert found.max_rate_fps == pytest.approx(CEILING, rel=1e-6)
    assert found.implied_s == pytest.approx(found.frames.mean / CEILING, rel=1e-6)
    # What is held while frames leave at the throughput is the buffer itself.
    assert found.corrected_s == pytest.approx(buffer / CEILING, abs=(step + 2) / CEILING)
    assert not found.capped
    assert found.trials == tuple(one.number for one in seen)


@pytest.mark.slow
def test_searches_are_independent_and_all_are_told() -> None:
    sizes = iter([900, 1100] * 500)
    current = {"search": 0, "size": 0}

    def buffer(trial: int) -> int:
        search = (trial - 1) // 15  # halvings of 20000 steps
        if search != current["search"] or not current["size"]:
            current.update(search=search, size=next(sizes))
        return current["size"]

    asked = BackToBackTest(searches=10, max_burst_s=0.01, idle_s=0)
    found, seen = drive(
        back_to_back(inputs(asked, throughput=KnownThroughput(load_fps=1.0, search=1, goal="n"))),
        Dut(0.0, buffer=buffer),
    )
    assert len(seen) == len(found.trials)
    assert found.frames.n == 10
    assert {round(v, -2) for v in found.frames.values} == {900, 1100}


def test_the_longest_burst_that_comes_through_is_no_result() -> None:
    asked = BackToBackTest(searches=2, max_burst_s=0.001, idle_s=0)
    found, _ = drive(back_to_back(inputs(asked)), Dut(buffer=lambda _: 10**9))
    assert found.capped
    assert found.corrected_s is None
    assert found.frames.mean == found.max_burst_frames == 2000
    assert "raise max_burst_s" in found.note


def partly_capped() -> BackToBack:
    """Eight searches, five of which never lose a frame."""
    asked = BackToBackTest(searches=8, max_burst_s=0.001, idle_s=0)
    given_ = inputs(asked, burst_gap_ns=GAP_NS)
    buffer = Dut(0.0, buffer=lambda trial: 100 if trial < 30 else 10**9)
    found, _ = drive(back_to_back(given_), buffer)
    assert isinstance(found, BackToBack)
    return found


def test_a_search_that_reached_the_longest_burst_leaves_no_mean(texts: Texts) -> None:
    """The mean of the others is that of the short bursts."""
    found = partly_capped()
    assert (found.frames.n, found.frames.minimum, found.frames.maximum) == (8, 100, 2000)
    assert found.capped
    assert 1 < found.full_bursts < 8
    assert found.undecided == 0
    assert (found.implied_s, found.corrected_s) == (None, None)
    texts.check(found.note)
    result = Result(scenario="pvp_dpdk", test="back_to_back", frame_size=64, back_to_back=found)
    (burst,) = [m for m in compared_metrics_of(result) if m.label == "burst"]
    assert burst.censored == "at least"
    assert burst.measured == Measurand(100, 100, inf)
    assert burst.repeats == ()


def test_bursts_near_the_longest_one_are_no_result(texts: Texts) -> None:
    asked = BackToBackTest(searches=2, max_burst_s=0.001, idle_s=0)
    found, _ = drive(back_to_back(inputs(asked)), Dut(0.0, buffer=lambda _: 1850))
    assert (found.capped, found.is_limit) == (False, True)
    assert (found.implied_s, found.corrected_s) == (None, None)
    texts.check(found.note)
    result = Result(scenario="pvp_dpdk", test="back_to_back", frame_size=64, back_to_back=found)
    (burst,) = [m for m in compared_metrics_of(result) if m.label == "burst"]
    assert (burst.censored, burst.spread) == ("at least", None)
    assert burst.measured == Measurand(found.frames.minimum, found.frames.minimum, inf)


def test_even_the_smallest_burst_may_be_too_long(texts: Texts) -> None:
    asked = BackToBackTest(searches=2, max_burst_s=0.001, idle_s=0, step_frames=10)
    found, _ = drive(back_to_back(inputs(asked)), Dut(0.0, buffer=lambda _: 5))
    assert found.frames.maximum == 0
    texts.check(found.note)


def test_a_burst_that_lost_is_tried_again_where_that_is_asked_for() -> None:
    def flaky(trial: int) -> int:
        return 0 if trial % 2 else 1000  # every first try loses

    asked = BackToBackTest(searches=1, max_burst_s=0.01, idle_s=0)
    once, _ = drive(back_to_back(inputs(asked)), Dut(0.0, buffer=flaky))
    twice, _ = drive(
        back_to_back(inputs(asked.model_copy(update={"repeats_after_loss": 1}))),
        Dut(0.0, buffer=flaky),
    )
    assert once.frames.mean < 1000
    assert twice.frames.mean == 1000


def test_the_wait_is_no_shorter_than_the_burst() -> None:
    asked = BackToBackTest(searches=1, max_burst_s=5, idle_s=2)
    dut = Dut(buffer=lambda _: 10**9)
    drive(back_to_back(inputs(asked)), dut)
    assert min(a.idle_s for a in dut.asked) >= 2
    assert max(a.idle_s for a in dut.asked) == pytest.approx(5)
    assert all(a.histogram_up_to_loss < 0 for a in dut.asked)


@pytest.mark.parametrize(
    ("throughput", "nominal", "why"),
    [
        (KnownThroughput(load_fps=TEN_G, search=1, goal="n"), False, "medium's largest rate"),
        (
            KnownThroughput(load_fps=CEILING, search=1, goal="n", qualifier="at least", note="ha"),
            True,
            "at least the largest load that can be offered.*ha",
        ),
    ],
)
def test_no_buffer_fills_below_the_largest_rate(
    throughput: KnownThroughput, nominal: bool, why: str
) -> None:
    given_ = inputs(BackToBackTest(), throughput=throughput, nominal=nominal)
    with pytest.raises(NoResultError, match=why):
        next(back_to_back(given_))


def test_a_medium_has_its_own_rate_and_a_slow_generator_is_told(texts: Texts) -> None:
    asked = BackToBackTest(searches=1, max_burst_s=0.001, idle_s=0)
    given_ = inputs(asked, nominal=False, burst_gap_ns=1e9 / TEN_G)
    found, _ = drive(back_to_back(given_), Dut(burst_fps=TEN_G))
    assert found.max_rate_fps == TEN_G
    assert found.max_burst_frames == 14880
    assert found.note == ""
    given_ = inputs(asked, nominal=False, burst_gap_ns=2e9 / TEN_G)
    slow, _ = drive(back_to_back(given_), Dut(burst_fps=TEN_G / 2))
    texts.check(slow.note)


def test_bursts_no_faster_than_the_throughput_correct_nothing(texts: Texts) -> None:
    asked = BackToBackTest(searches=1, max_burst_s=0.001, idle_s=0)
    given_ = inputs(asked, burst_gap_ns=1e9 / 500e3)
    found, _ = drive(back_to_back(given_), Dut(0.0, burst_fps=500e3, buffer=lambda _: 100))
    assert found.frames.mean == 100
    assert found.rfc9004_corrected_s is None
    texts.check(found.note)


def test_bursts_as_slow_as_the_dut_forwards_are_given_up_after_a_search() -> None:
    """All of them come through: longer ones (max_burst_s) would, too."""
    asked = BackToBackTest(searches=5, max_burst_s=0.01, idle_s=0)
    given_ = inputs(asked, burst_gap_ns=1e9 / 500e3)
    dut = Dut(0.0, burst_fps=500e3, buffer=lambda _: 10**9)
    with pytest.raises(NoResultError, match=r"leave at 500000 .* no faster"):
        drive(back_to_back(given_), dut)


@pytest.mark.parametrize(("most_s", "searches"), [(None, 3), (3.0, 1), (0.5, 0)])
def test_no_search_begins_when_the_time_is_used_up(most_s: float | None, searches: int) -> None:
    class Lasting(DutOverTime):
        def measure(self, request: TrialRequest) -> TrialOutcome:
            seen = DutOverTime.measure(self, request)
            result = seen.result.model_copy(update={"wall_s": 0.2})
            return TrialOutcome.of(seen.request, result, number=seen.number)

    asked = BackToBackTest(searches=3, max_burst_s=0.01, idle_s=0, max_s=most_s)
    known = KnownThroughput(load_fps=0.5e6, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    dut = Lasting(0.5e6, burst_gaps_s=(GAP_NS / 1e9,))
    dut.buffer_frames = 512
    if not searches:
        with pytest.raises(NoResultError, match=r"after 0\.5 s \(back_to_back\.max_s\)"):
            run(back_to_back(given_), dut)
        return
    found = run(back_to_back(given_), dut)[0]
    assert found.frames.n == searches
    assert ("max_s" in found.note) == (most_s is not None)


def stumbling(gaps_ns: tuple[float, ...], **changes: Any) -> BackToBack:
    """A DUT of 700 kfps and a buffer of 512 frames, a tester whose bursts have one of some gaps."""
    asked = BackToBackTest(searches=4, max_burst_s=0.002, idle_s=0).model_copy(update=changes)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    gaps_s = tuple(gap / 1e9 for gap in gaps_ns)
    dut = DutOverTime(700e3, buffer_frames=512, burst_gaps_s=gaps_s, seed=7)
    return run(back_to_back(given_), dut)[0]


def test_a_burst_that_a_stalled_tester_stretched_does_not_count(texts: Texts) -> None:
    """At twice the gap the DUT forwards what arrives: every burst would come through."""
    truth = longest(512, 700e3, CEILING)
    found = stumbling((GAP_NS, GAP_NS, 2 * GAP_NS))
    assert found.frames.minimum == found.frames.maximum == pytest.approx(truth, abs=1)
    assert found.slow_bursts
    texts.check(found.note)
    assert found.undecided == 0
    assert (found.calibrated_gap_ns, found.max_rate_fps) == (GAP_NS, CEILING)
    # Of the gap of the bursts that count: 512 frames at the largest rate.
    assert found.gap_ns == pytest.approx(GAP_NS)
    assert found.implied_s == pytest.approx(truth / CEILING, rel=0.01)
    assert found.corrected_s == pytest.approx(512 / CEILING, rel=0.01)


def test_a_gap_within_five_percent_counts() -> None:
    assert stumbling((GAP_NS * 1.049,)).slow_bursts == 0
    assert stumbling((GAP_NS * 0.5,)).slow_bursts == 0  # of refused frames


def test_times_are_of_the_bursts_own_gap_and_those_of_the_rfc_beside_them() -> None:
    """A loop had left at 500 ns: with a DUT behind it the tester is 2.2 times as slow."""
    found = stumbling((2.2 * GAP_NS,), max_burst_s=0.01)
    truth = longest(512, 700e3, CEILING / 2.2)
    assert found.frames.mean == pytest.approx(truth, abs=2)
    assert (found.slow_bursts, found.undecided) == (0, 0)
    assert found.gap_ns == pytest.approx(2.2 * GAP_NS)
    assert found.implied_s == pytest.approx(truth * 2.2 / CEILING, rel=0.01)
    assert found.forwarded_fps == pytest.approx(700e3, rel=0.01)
    assert found.corrected_s == pytest.approx(512 * 2.2 / CEILING, rel=0.02)
    assert found.rfc9004_implied_s == pytest.approx(truth / CEILING, rel=0.01)
    assert found.rfc9004_corrected_s == pytest.approx(truth / CEILING * (1 - 0.35), rel=0.01)


@pytest.mark.parametrize("capacity", [700e3, 2e6])
@pytest.mark.parametrize("calibrated_ns", [225.7, 354.6])
def test_a_calibration_that_was_slower_lets_no_slow_burst_through(
    capacity: float, calibrated_ns: float
) -> None:
    """Half of the bursts leave as fast as they can, the others up to 64 % slower."""
    gaps_s = tuple(gap / 1e9 for gap in (225.7,) * 10 + (300.0,) * 5 + (370.0,) * 5)
    asked = BackToBackTest(searches=20, max_burst_s=0.02, idle_s=0, repeats_after_loss=1)
    known = KnownThroughput(load_fps=capacity, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=calibrated_ns)
    found = run(
        back_to_back(given_), DutOverTime(capacity, buffer_frames=512, burst_gaps_s=gaps_s, seed=2)
    )[0]
    truth = longest(512, capacity, 1e9 / 225.7)
    assert found.frames.minimum == found.frames.maximum == pytest.approx(truth, abs=2)
    assert found.frames.n == 20
    assert (found.usual_gap_ns, found.gap_ns) == pytest.approx((225.7, 225.7))
    assert found.corrected_s == pytest.approx(512 * 225.7e-9, rel=0.03)


def test_a_search_of_slow_bursts_gives_way_to_one_of_quick_ones(texts: Texts) -> None:
    """What gap is usual is known only when a tester that was held back is well again."""

    class HeldBack(DutOverTime):
        def measure(self, request: TrialRequest) -> TrialOutcome:
            self.burst_gaps_s = (GAP_NS / 1e9 * (2 if self.trials < 13 else 1),)
            return DutOverTime.measure(self, request)

    asked = BackToBackTest(searches=4, max_burst_s=0.002, idle_s=0)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    found = run(back_to_back(given_), HeldBack(700e3, buffer_frames=512))[0]
    truth = longest(512, 700e3, CEILING)
    assert found.frames.values == pytest.approx((truth,) * 4, abs=1)
    assert found.undecided == 0
    texts.check(found.note)


class BeforeARing(DutOverTime):
    """A DUT that waits for the tester's processor, behind a ring of the wire."""

    def measure(self, request: TrialRequest) -> TrialOutcome:
        seen = DutOverTime.measure(self, request)
        none = Gaps(max_s=0.0)
        gaps = TrialGaps(poll=none, send=none, catch_up_frames=1024, ring_frames=2048)
        return replace(seen, result=seen.result.model_copy(update={"gaps": gaps}))


@pytest.mark.parametrize("buffer", [2048, 3000])
def test_what_is_found_may_be_the_ring_of_the_wire(buffer: int, texts: Texts) -> None:
    """2065 frames lose exactly 17: none was forwarded meanwhile, and nothing is to correct."""
    asked = BackToBackTest(searches=3, max_burst_s=0.02, idle_s=0)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=354.6)
    dut = BeforeARing(
        700e3, buffer_frames=buffer, burst_gaps_s=(225.7e-9,), forwards_in_bursts=False
    )
    dut.refuses = True
    found = run(back_to_back(given_), dut)[0]
    assert found.frames.mean == buffer
    assert (found.ring_frames, found.is_ring) == (2048, buffer == 2048)
    texts.check(found.note)
    assert found.forwarded_fps == 0
    assert found.corrected_s == found.implied_s == pytest.approx(buffer * 225.7e-9)
    assert found.rfc9004_corrected_s == pytest.approx(buffer * 354.6e-9 * (1 - 0.7 * 0.3546))


@pytest.mark.parametrize("gap_ns", [480.0, 510.0])
def test_a_dut_as_fast_as_the_bursts_shows_no_buffer(gap_ns: float, texts: Texts) -> None:
    """A tester that is slower than the DUT fills no buffer; what bursts lose has another cause."""

    class Stumbles(DutOverTime):
        def measure(self, request: TrialRequest) -> TrialOutcome:
            seen = DutOverTime.measure(self, request)
            (counts,) = seen.result.directions
            lost = 9 if request.burst > 5000 else 0
            counts = counts.model_copy(update={"received": counts.received - lost})
            result = seen.result.model_copy(update={"directions": (counts,)})
            return TrialOutcome.of(seen.request, result, number=seen.number)

    asked = BackToBackTest(searches=3, max_burst_s=0.02, idle_s=0)
    known = KnownThroughput(load_fps=1.9e6, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    dut = Stumbles(2e6 if gap_ns == 510 else 2.08e6, burst_gaps_s=(gap_ns / 1e9,))
    dut.buffer_frames = 512
    found = run(back_to_back(given_), dut)[0]
    assert found.frames.mean == 5000
    assert found.corrected_s is None
    assert found.implied_s == pytest.approx(5000 * gap_ns / 1e9)
    texts.check(found.note)


def test_an_older_log_is_read_by_the_gap_of_its_calibration(texts: Texts) -> None:
    gaps_s = tuple(gap * GAP_NS / 1e9 for gap in (1.0, 1.04, 2.0))
    asked = BackToBackTest(searches=4, max_burst_s=0.002, idle_s=0)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS, rules=1)
    found, seen = run(
        back_to_back(given_), DutOverTime(700e3, buffer_frames=512, burst_gaps_s=gaps_s, seed=3)
    )
    slow = [one for one in seen if one.result.directions[0].tx_seconds > one.request.burst * 8e-7]
    assert found.slow_bursts == len(slow) > 0  # those that lost frames, too
    texts.check(found.note)
    older = DutOverTime(700e3, buffer_frames=512, burst_gaps_s=(2.2 * GAP_NS / 1e9,))
    with pytest.raises(NoResultError, match=r"\d+ left at 1100 ns .* \(at most 525 ns count\)"):
        run(back_to_back(given_), older)


class Disturbing(DutOverTime):
    """A tester that stands still, or sends too little, in some of the bursts that are lost."""

    verdict: Verdict = Verdict.TESTER_STALLED
    every: int = 2

    def measure(self, request: TrialRequest) -> TrialOutcome:
        seen = DutOverTime.measure(self, request)
        if seen.result.worst_loss_ratio() > 0 and self.trials % self.every == 0:
            return replace(seen, verdict=self.verdict)
        return seen


@pytest.mark.parametrize("verdict", [Verdict.TESTER_STALLED, Verdict.GENERATOR_LIMITED])
def test_a_burst_that_the_tester_may_have_lost_is_sent_again(verdict: Verdict) -> None:
    asked = BackToBackTest(searches=4, max_burst_s=0.002, idle_s=0)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    dut = Disturbing(700e3, buffer_frames=512, burst_gaps_s=(GAP_NS / 1e9,))
    dut.verdict = verdict
    found = run(back_to_back(given_), dut)[0]
    truth = longest(512, 700e3, CEILING)
    assert found.frames.minimum == found.frames.maximum == pytest.approx(truth, abs=1)
    assert (found.undecided, found.slow_bursts) == (0, 0)
    assert "may itself have lost" in found.note


def test_a_tester_that_disturbs_every_burst_has_no_result() -> None:
    asked = BackToBackTest(searches=4, max_burst_s=0.002, idle_s=0)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    dut = Disturbing(700e3, buffer_frames=0, burst_gaps_s=(GAP_NS / 1e9,))
    dut.every = 1
    with pytest.raises(NoResultError, match=r"too few bursts counted of \d+: \d+ were not sent"):
        run(back_to_back(given_), dut)


def test_a_search_that_slow_bursts_end_has_no_value(texts: Texts) -> None:
    """Long bursts are stretched: above them nothing is known."""

    class Descheduled(DutOverTime):
        shorter: int = 10**9

        def measure(self, request: TrialRequest) -> TrialOutcome:
            slow = request.burst > 400 and self.trials > self.shorter
            self.burst_gaps_s = (2 * GAP_NS / 1e9,) if slow else (GAP_NS / 1e9,)
            return DutOverTime.measure(self, request)

    asked = BackToBackTest(searches=4, max_burst_s=0.002, idle_s=0)
    known = KnownThroughput(load_fps=700e3, search=1, goal="ndr")
    given_ = inputs(asked, throughput=known, directions=1, burst_gap_ns=GAP_NS)
    dut = Descheduled(700e3, buffer_frames=512)
    dut.shorter = 24  # after two searches
    found = run(back_to_back(given_), dut)[0]
    assert (found.frames.n, found.undecided) == (2, 2)
    assert found.frames.minimum == pytest.approx(longest(512, 700e3, CEILING), abs=1)
    texts.check(found.note, "note")
    result = Result(
        scenario="pvp_dpdk", test="back_to_back", frame_size=64, status="measured"
    ).model_copy(update={"back_to_back": found})
    (burst,) = [m for m in compared_metrics_of(result) if m.label == "burst"]
    assert burst.measured is None
    texts.check(burst.why, "not compared")


def test_without_a_calibrated_gap_there_is_no_time_by_the_rfc(texts: Texts) -> None:
    asked = BackToBackTest(searches=2, max_burst_s=0.001, idle_s=0)
    found, _ = drive(back_to_back(inputs(asked)), Dut(0.0))
    assert found.implied_s == pytest.approx(1000 / CEILING)
    assert (found.rfc9004_implied_s, found.rfc9004_corrected_s) == (None, None)
    texts.check(found.note, "no gap")
    older, _ = drive(back_to_back(inputs(asked, rules=1)), Dut(0.0))
    assert older.slow_bursts is None
    texts.check(older.note, "older rules")
    assert older.frames == found.frames
