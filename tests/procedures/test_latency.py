"""Latency of a DUT whose delays are known comes back, with its spread and variation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.procedures.support import Dut, asks, drive, inputs, latency_of
from tests.texts import Texts
from vnetperf.model.parameters import LatencyLoadTest, LatencyTest
from vnetperf.model.trial import Latency, TrialOutcome, TrialRequest, Verdict
from vnetperf.plugin.procedure import KnownThroughput
from vnetperf.procedures.latency import (
    delay_variation,
    latency,
    latency_load,
    merge_latencies,
)

TEST = LatencyTest(duration_s=120, tag_at_s=60, repeats=20)


def test_the_clause_as_it_stands_is_twenty_trials_at_the_throughput() -> None:
    dut = Dut(delay=lambda n, d: latency_of({1000 + 10 * n + d: 100}))
    (at,), seen = drive(latency(inputs(TEST)), dut)
    assert asks(seen) == [700e3] * 20
    assert all(one.request.tag_at_s == 60 and one.duration_s == 120 for one in seen)
    assert (at.of, at.load_fps, at.repeats, at.tag_at_s) == ("throughput", 1.4e6, 20, 60)
    assert at.definition == "store-and-forward"
    forth, back = at.mean_ns["phy0->phy1"], at.mean_ns["phy1->phy0"]
    assert forth.mean == pytest.approx(1105)
    assert back.mean == pytest.approx(1106)
    assert forth.values == tuple(1000.0 + 10 * n for n in range(1, 21))
    assert forth.low is not None
    assert forth.low < 1105 < (forth.high or 0)
    assert at.latency["phy0->phy1"].count == 2000
    assert (at.loss_ratio, at.trials, at.note) == (0, tuple(range(1, 21)), "")


def test_rfc8219_takes_percentiles_of_each_trial_and_then_of_the_trials() -> None:
    # One frame in a hundred is slow, in every other trial more so: no mean shows that.
    dut = Dut(delay=lambda n, d: latency_of({1000 + n: 990, (50_000 if n % 2 else 80_000) + d: 10}))
    (at,), _ = drive(latency(inputs(TEST)), dut)
    typical, worst = at.typical["phy0->phy1"], at.worst_case["phy0->phy1"]
    assert (typical.n, typical.median_ns) == (20, 1010.5)
    assert (typical.p1_ns, typical.p99_ns) == (1001, 1020)
    assert worst.median_ns == pytest.approx(65_000)
    assert (worst.p1_ns, worst.p99_ns) == pytest.approx((50_000, 80_000))
    pdv = at.variation["phy0->phy1"].pdv
    assert pdv is not None
    assert pdv.median_ns == pytest.approx(65_000 - 1010.5, abs=11)
    assert pdv.p99_ns == at.variation["phy0->phy1"].pdv_ns


def test_without_percentiles_there_is_no_latency_by_rfc8219() -> None:
    one = Latency(count=9, min_ns=1, mean_ns=2, max_ns=3)
    (at,), _ = drive(latency(inputs(LatencyTest(repeats=2))), Dut(delay=lambda n, d: one))
    assert (at.typical, at.worst_case) == ({}, {})
    assert at.variation["phy0->phy1"].pdv is None


def test_loads_are_shares_of_the_throughput_and_rates(texts: Texts) -> None:
    asked = LatencyTest(shares=(1, 0.9), loads_fps=(1000.0, 3e6), repeats=2)
    note = KnownThroughput(load_fps=700e3, search=1, goal="pdr", note="that of goal pdr")
    found, seen = drive(latency(inputs(asked, throughput=note)), Dut())
    assert asks(seen) == pytest.approx([700e3, 700e3, 630e3, 630e3, 1000, 1000])
    assert [at.of for at in found] == [
        "throughput",
        "90 % of throughput",
        "1000 frames/s per interface",
        "3e+06 frames/s per interface",
    ]
    assert [at.note for at in found[:3]] == ["that of goal pdr", "that of goal pdr", ""]
    assert found[3].trials == ()
    texts.check(found[3].note)


def test_a_direction_without_a_frame_has_no_latency_and_loss_is_told() -> None:
    dut = Dut(share=(1.0, 0.0), delay=lambda n, d: None if d else latency_of({5000: 9}))
    (at,), _ = drive(latency(inputs(LatencyTest(repeats=3))), dut)
    assert set(at.mean_ns) == set(at.latency) == set(at.variation) == {"phy0->phy1"}
    assert at.loss_ratio == 1


frames_by_delay = st.dictionaries(
    st.integers(100, 10_000_000), st.integers(1, 1000), min_size=1, max_size=20
)


@given(st.lists(frames_by_delay, min_size=1, max_size=6))
@example(
    [
        {942: 290, 760: 205, 1870: 319, 687567: 6, 319: 451, 714: 498, 8044266: 2},
        {1007838: 664, 5633: 273, 18709: 193, 8003: 858, 5263302: 492, 9989190: 1},
    ]
)
@settings(max_examples=20)
def test_trials_together_are_as_if_all_frames_were_of_one(trials: list[dict[int, int]]) -> None:
    merged: dict[int, int] = {}
    for trial in trials:
        for ns, frames in trial.items():
            merged[ns] = merged.get(ns, 0) + frames
    found, whole = merge_latencies([latency_of(trial) for trial in trials]), latency_of(merged)
    assert (found.count, found.min_ns, found.max_ns) == (whole.count, whole.min_ns, whole.max_ns)
    assert found.mean_ns == pytest.approx(whole.mean_ns)
    assert found.percentiles.keys() == whole.percentiles.keys()
    for p, ns in whole.percentiles.items():  # a bucket is a thousandth wide
        assert found.percentiles[p] == pytest.approx(ns, rel=0.002)


def test_without_a_histogram_there_are_no_percentiles_of_all() -> None:
    bare = Latency(count=10, min_ns=1, mean_ns=2, max_ns=3)
    found = merge_latencies([bare, latency_of({1000: 30})])
    assert (found.percentiles, found.hdr) == ({}, "")
    assert (found.count, found.min_ns, found.max_ns) == (40, 1, 1000)
    assert found.mean_ns == pytest.approx(750.5)


def test_variation_is_the_widest_of_all_trials() -> None:
    one = latency_of({1000: 9989, 3000: 11}, {"min": -50, "median": 1, "max": 70, "shared": 0})
    two = latency_of({1500: 9900, 9500: 100}, {"min": -90, "median": 3, "max": 60, "shared": 0})
    found = delay_variation([one, two])
    assert found.pdv_ns == pytest.approx(8000, rel=0.002)
    assert (found.ipdv_min_ns, found.ipdv_median_ns, found.ipdv_max_ns) == (-90, 2, 70)
    assert found.why == ""
    alike = one.model_copy(update={"min_ns": 3001.0})  # above a bucket's own value
    assert delay_variation([alike]).pdv_ns == 0


@pytest.mark.parametrize(
    ("ipdv", "why"),
    [
        ({"shared": 0.02, "resolution": 300.0}, ""),
        ({"shared": 0.5, "resolution": 300.0}, "over 10% of successive frames left in one call"),
        ({}, "the log does not say which frames have stamps of their own"),
    ],
)
def test_differences_of_delays_need_a_stamp_for_each_frame(
    ipdv: dict[str, float], why: str
) -> None:
    told = {"min": -50.0, "median": 0.0, "max": 60.0} | ipdv
    found = delay_variation([latency_of({1000: 1000}, told)] * 2)
    assert found.ipdv_median_ns == (None if why else 0.0)
    assert found.ipdv_resolution_ns == ipdv.get("resolution")
    assert found.shared_stamps == ipdv.get("shared")
    assert why in found.why
    assert found.pdv_ns == 0


def test_variation_that_was_not_told_is_said(texts: Texts) -> None:
    found = delay_variation([Latency(count=1, min_ns=1, mean_ns=1, max_ns=1)])
    assert (found.pdv_ns, found.ipdv_max_ns) == (None, None)
    texts.check(found.why)
    assert "PDV: no" not in delay_variation([latency_of({1000: 5})]).why


CURVE = LatencyLoadTest(loads_fps=(1e6, 100e3, 3e6), duration_s=2, tag_at_s=0.5, repeats=3)


def test_a_curve_is_measured_at_absolute_loads_in_turn_without_a_throughput(texts: Texts) -> None:
    dut = Dut(delay=lambda n, d: latency_of({1000 * n + d: 990, 50_000 * n: 10}))
    found, seen = drive(latency_load(inputs(CURVE, throughput=None)), dut)
    assert asks(seen) == [100e3, 1e6] * 3
    assert all(one.request.tag_at_s == 0.5 and one.duration_s == 2 for one in seen)
    low, high, beyond = found
    assert [at.of for at in found] == [
        "100000 frames/s per interface",
        "1000000 frames/s per interface",
        "3000000 frames/s per interface",
    ]
    assert (low.load_fps, low.trials, low.discarded, low.loss_ratio) == (200e3, (1, 3, 5), 0, 0)
    assert low.forwarded_fps == 200e3
    assert low.latency["phy0->phy1"].count == 3000
    assert low.typical["phy0->phy1"].median_ns == 3000
    # More than the DUT carries is shown with its loss, more than can be offered with the reason.
    assert high.loss_ratio == pytest.approx(0.3)
    assert high.forwarded_fps == pytest.approx(1.4e6)
    assert high.latency["phy1->phy0"].max_ns == pytest.approx(300_000, rel=0.002)
    assert (beyond.trials, beyond.forwarded_fps, beyond.latency) == ((), None, {})
    texts.check(beyond.note)


@dataclass
class Stage:
    """A DUT before a tester of which trials of some loads are no measurement.

    Attributes:
        dut: The DUT.
        verdict: Load and number of the trial -> verdict.
    """

    dut: Dut
    verdict: Callable[[float, int], Verdict]

    def run(self, ask: TrialRequest) -> TrialOutcome:
        """One trial."""
        outcome = self.dut.run(ask)
        verdict = self.verdict(ask.load_fps, outcome.number)
        if verdict is not Verdict.GENERATOR_LIMITED:
            return replace(outcome, verdict=verdict)
        halves = tuple(
            d.model_copy(
                update={"sent": d.sent // 2, "received": d.sent // 2, "unsent": d.sent // 2}
            )
            for d in outcome.result.directions
        )
        result = outcome.result.model_copy(update={"directions": halves})
        return TrialOutcome.of(outcome.request, result, verdict, outcome.number)


def test_a_load_that_the_tester_could_not_offer_is_told_and_tried_no_further(texts: Texts) -> None:
    tester = Stage(
        Dut(delay=lambda n, d: latency_of({1000: 9})),
        lambda load, _: Verdict.GENERATOR_LIMITED if load == 1e6 else Verdict.VALID,
    )
    (low, high, _), seen = drive(latency_load(inputs(CURVE)), tester)
    assert asks(seen) == [100e3, 1e6, 1e6, 100e3, 100e3]
    assert (low.trials, low.discarded) == ((1, 4, 5), 0)
    assert (high.trials, high.discarded, high.latency) == ((), 2, {})
    texts.check(high.note)


def test_a_throughput_that_the_tester_offers_no_more_costs_the_other_loads_nothing(
    texts: Texts,
) -> None:
    # "At least" this was found in a good minute; in the next one the generator falls short of it.
    tester = Stage(
        Dut(delay=lambda n, d: latency_of({1000: 9})),
        lambda load, n: Verdict.GENERATOR_LIMITED if load == 700e3 else Verdict.VALID,
    )
    asked = LatencyTest(shares=(1.0, 0.5), repeats=3)
    (whole, half), seen = drive(latency(inputs(asked)), tester)
    assert asks(seen) == [700e3] * 4 + [350e3] * 3
    assert (whole.trials, whole.discarded, whole.latency) == ((), 4, {})
    texts.check(whole.note)
    assert (half.trials, half.discarded, half.note) == ((5, 6, 7), 0, "")
    once = inputs(asked).model_copy(update={"tries": 1})
    assert asks(drive(latency(once), tester)[1]) == [700e3] + [350e3] * 3


def test_a_later_trial_that_is_no_measurement_is_counted(texts: Texts) -> None:
    tester = Stage(
        Dut(delay=lambda n, d: latency_of({1000: 9})),
        lambda load, n: Verdict.VALID if n in (1, 6) else Verdict.GENERATOR_LIMITED,
    )
    (at,), seen = drive(latency(inputs(LatencyTest(repeats=3))), tester)
    assert [one.number for one in seen] == [1, 2, 3, 4, 5, 6]
    assert (at.trials, at.discarded, at.is_selection) == ((1, 6), 4, True)
    texts.check(at.note)


def test_trials_in_which_the_tester_stood_still_are_repeated_once_and_counted() -> None:
    tester = Stage(
        Dut(delay=lambda n, d: latency_of({1000: 9})),
        lambda load, n: Verdict.TESTER_STALLED if n in (1, 5, 6) else Verdict.VALID,
    )
    asked = LatencyLoadTest(loads_fps=(100e3, 1e6), duration_s=1, tag_at_s=0, repeats=2)
    (low, high), seen = drive(latency_load(inputs(asked)), tester)
    assert asks(seen) == [100e3, 100e3, 1e6, 100e3, 1e6, 1e6]
    assert (low.trials, low.discarded) == ((2, 4), 1)
    assert (high.trials, high.discarded) == ((3,), 2)


def test_a_load_of_which_no_trial_is_a_measurement_has_no_number(texts: Texts) -> None:
    tester = Stage(Dut(), lambda load, n: Verdict.TESTER_STALLED)
    asked = LatencyLoadTest(loads_fps=(100e3,), duration_s=1, tag_at_s=0, repeats=1)
    (at,), _ = drive(latency_load(inputs(asked)), tester)
    assert (at.trials, at.forwarded_fps, at.discarded) == ((), None, 2)
    texts.check(at.note)
