"""ITU-T Y.1564: steps up to a committed rate, each held against limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.procedures.support import Dut, drive, inputs, latency_of, limited
from tests.texts import Texts
from vnetperf.model.outcomes import Service, ServiceFlow
from vnetperf.model.parameters import ServiceTest
from vnetperf.model.trial import (
    Gaps,
    PortCounts,
    TrialGaps,
    TrialOutcome,
    TrialRequest,
    Verdict,
)
from vnetperf.procedures.service import exceeded, service, unmeasured

CIR = 600e3
BRIEF = ServiceTest(cir_fps=CIR, step_s=1.0, performance_s=3.0, trial_s=1.0)


def of(dut: Any, test: ServiceTest = BRIEF, **changes: Any) -> tuple[Service, list[TrialOutcome]]:
    found, seen = drive(service(inputs(test, **changes)), dut)
    assert isinstance(found, Service)
    return found, seen


LATENCY = latency_of({2_000: 98, 4_000: 2})


def timed(**more: Any) -> Dut:
    return Dut(delay=lambda n, d: LATENCY, **more)


def test_steps_lead_to_the_committed_rate_and_then_it_is_held() -> None:
    found, seen = of(timed())
    assert [step.of for step in found.steps] == [f"{n} % of CIR" for n in (25, 50, 75, 100)]
    assert [trial.load_fps for trial in seen] == [CIR * s for s in (0.25, 0.5, 0.75, *[1.0] * 4)]
    assert found.met is True
    assert found.performance is not None
    assert (found.performance.seconds, len(found.performance.trials)) == (3.0, 3)
    first = found.steps[0].flows[0]
    assert first.rate_bps == pytest.approx(CIR / 4 * 64 * 8)
    assert (first.delay_min_ns, first.delay_max_ns) == (2_000, 4_000)
    assert first.delay_mean_ns == pytest.approx(2_040)
    assert first.variation_ns == 2_000
    assert found.cir_fps == 2 * CIR


def test_the_rate_of_a_mix_is_that_of_its_mean() -> None:
    found, _ = of(timed(), frame_size=357, mean_size=357.25)
    assert found.steps[0].flows[0].rate_bps == pytest.approx(CIR / 4 * 357.25 * 8)


def test_the_first_step_that_is_not_met_ends_the_test(texts: Texts) -> None:
    found, seen = of(timed(capacity_fps=400e3))
    assert [step.met for step in found.steps] == [True, True, False]
    assert len(seen) == 3
    assert (found.met, found.performance) == (False, None)
    texts.check(found.steps[-1].why)


def test_one_direction_that_fails_is_enough() -> None:
    found, _ = of(timed(share=(1.0, 0.5)))
    assert found.met is False
    assert [flow.loss_ratio > 0 for flow in found.steps[-1].flows] == [False, True]
    assert "phy1->phy0" in found.steps[-1].why
    assert "phy0->phy1" not in found.steps[-1].why


def test_a_delay_that_is_limited_and_was_not_measured_leaves_no_verdict(texts: Texts) -> None:
    found, seen = of(Dut())
    assert found.met is None
    texts.check(found.steps[0].why)
    assert len(seen) == 1
    free = BRIEF.model_copy(update={"delay_ms": 0.0, "variation_ms": 0.0})
    assert of(Dut(), free)[0].met is True


def test_the_rate_is_taken_of_the_throughput_where_none_is_given() -> None:
    found, seen = of(timed(), BRIEF.model_copy(update={"cir_fps": 0.0, "cir_share": 0.5}))
    assert (found.of, found.cir_fps) == ("50 % of throughput", 700e3)
    assert seen[-1].load_fps == 350e3


class Stalls(Dut):
    """The tester stood still in the last trial of the performance test."""

    def run(self, ask: TrialRequest) -> TrialOutcome:
        seen = super().run(ask)
        return replace(seen, verdict=Verdict.TESTER_STALLED) if len(self.asked) == 7 else seen


def test_a_tester_that_stood_still_gives_no_verdict_of_the_performance_test(texts: Texts) -> None:
    found, seen = of(Stalls(delay=timed().delay))
    assert [step.met for step in found.steps] == [True] * 4
    assert found.performance is not None
    assert found.performance.met is None
    texts.check(found.performance.why)
    assert found.met is None
    assert seen[-1].verdict is Verdict.TESTER_STALLED
    assert limited(seen[-1]).answers(TrialRequest(load_fps=1, duration_s=1, when_limited="count"))


class Waits(Dut):
    """The tester did not poll for 5 ms a time, in 1 % of the time."""

    def run(self, ask: TrialRequest) -> TrialOutcome:
        seen = super().run(ask)
        waits = Gaps(max_s=0.005, percentiles={"50": 1e-6, "99": 0.005, "99.9": 0.005})
        gaps = TrialGaps(poll=waits, send=Gaps(max_s=0.0), catch_up_frames=1024)
        return replace(seen, result=seen.result.model_copy(update={"gaps": gaps}))


def test_a_variation_that_the_testers_own_wait_explains_is_not_the_duts(texts: Texts) -> None:
    slow = latency_of({2_000: 980, 5_000_000: 20})
    found, _ = of(Waits(delay=lambda n, d: slow))
    assert found.met is None
    texts.check(found.steps[0].why)
    assert of(Dut(delay=lambda n, d: slow))[0].met is False
    lossy, _ = of(Waits(delay=lambda n, d: slow, capacity_fps=1e3))
    assert lossy.met is False  # a loss is the DUT's whatever its delay


def waits(p999_s: float, max_s: float) -> TrialGaps:
    levels = {"50": 1e-6, "99": p999_s, "99.9": p999_s}
    poll = Gaps(max_s=max_s, percentiles=levels)
    return TrialGaps(poll=poll, send=Gaps(max_s=0.0), catch_up_frames=1024)


@dataclass
class Each(Dut):
    """Trials of which each has gaps, frames that are lost, and a verdict of its own."""

    gaps: Callable[[int], TrialGaps | None] = lambda n: None
    lost: Callable[[int], int] = lambda n: 0
    missed: int = 0
    verdict: Callable[[int], Verdict] = lambda n: Verdict.VALID

    def run(self, ask: TrialRequest) -> TrialOutcome:
        """One trial."""
        seen = super().run(ask)
        number = len(self.asked)
        less = self.lost(number)
        directions = tuple(
            d.model_copy(update={"received": d.received - less}) for d in seen.result.directions
        )
        ports = tuple(PortCounts(port=n, missed=self.missed) for n in range(2))
        update = {"directions": directions, "gaps": self.gaps(number), "tester": ports}
        result = seen.result.model_copy(update=update)
        return replace(TrialOutcome.of(seen.request, result, self.verdict(number), number))


SPREAD = ServiceTest(cir_fps=CIR, steps=(1.0,), step_s=1.0, performance_s=2.0, trial_s=1.0)


@pytest.mark.parametrize("slow_trial", [2, 3])
@pytest.mark.parametrize(
    ("slow_ns", "gap_s", "expected"),
    [
        (5_000_000, 2.45e-3, None),  # 2.55 ms without the gap: within 3 ms
        (100_000_000, 51e-3, False),  # 49 ms are the DUT's
        (50_000_000, 1e-5, False),
        (2_900_000, 1e-3, True),
    ],
)
def test_a_variation_is_judged_less_the_gap_of_its_own_trial(
    slow_ns: int, gap_s: float, expected: bool | None, slow_trial: int
) -> None:
    """Whichever trial it is, the other's gap excuses nothing."""
    quiet, slow = latency_of({2_000: 1000}), latency_of({2_000: 980, slow_ns: 20})
    test = SPREAD.model_copy(update={"delay_ms": 0.0})
    dut = Each(
        delay=lambda n, d: slow if n == slow_trial else quiet,
        gaps=lambda n: waits(gap_s if n == slow_trial else 0.06, 0.06),
    )
    found, _ = of(dut, test)
    assert found.steps[0].met is True
    assert found.performance is not None
    assert found.performance.met is expected


def test_a_mean_is_judged_less_what_the_gaps_may_have_added() -> None:
    slow = latency_of({1_000_000: 900, 110_000_000: 100})  # 11.9 ms of 10 ms
    test = SPREAD.model_copy(update={"variation_ms": 0.0})
    assert of(Each(delay=lambda n, d: slow, gaps=lambda n: waits(0.2, 0.2)), test)[0].met is None
    assert of(Each(delay=lambda n, d: slow, gaps=lambda n: waits(1e-3, 0.2)), test)[0].met is False


def test_what_a_clean_trial_lost_is_not_met_whatever_the_others_are() -> None:
    dut = Each(
        delay=lambda n, d: LATENCY,
        lost=lambda n: 300_000 if n == 2 else 0,
        verdict=lambda n: Verdict.TESTER_STALLED if n == 3 else Verdict.VALID,
    )
    found, _ = of(dut, SPREAD)
    assert found.performance is not None
    assert found.performance.met is False
    assert "FLR 0.25 is above" in found.performance.why


@pytest.mark.parametrize(("missed", "expected"), [(0, False), (4, False), (5, None), (60, None)])
def test_a_loss_that_the_testers_drops_explain_judges_nothing(
    missed: int, expected: bool | None
) -> None:
    found, _ = of(Each(delay=lambda n, d: LATENCY, lost=lambda n: 65, missed=missed), SPREAD)
    assert found.steps[0].met is expected


def test_a_step_at_which_the_tester_always_stands_still_costs_no_step_before_it(
    texts: Texts,
) -> None:
    dut = Each(
        delay=lambda n, d: LATENCY,
        verdict=lambda n: Verdict.TESTER_STALLED if n > 1 else Verdict.VALID,
    )
    found, seen = of(dut)
    assert [step.met for step in found.steps] == [True, None]
    texts.check(found.steps[1].why)
    assert [one.number for one in seen] == [1, 2, 3, 4, 5]
    assert found.steps[1].trials == (5,)


def test_what_was_certainly_not_met_is_not_made_good_by_another_trial() -> None:
    dut = Each(
        delay=lambda n, d: LATENCY,
        lost=lambda n: 10_000 if n == 2 else 0,
        missed=1,
        verdict=lambda n: Verdict.TESTER_STALLED if n == 2 else Verdict.VALID,
    )
    found, seen = of(dut)
    assert [step.met for step in found.steps] == [True, False]
    assert found.steps[1].trials == (2,)
    assert [one.number for one in seen] == [1, 2, 3]


MAYBE = st.none() | st.floats(0, 1e9)


@given(
    st.builds(
        ServiceTest,
        loss_ratio=st.floats(0, 0.999),
        delay_ms=st.floats(0, 1e3),
        variation_ms=st.floats(0, 1e3),
    ),
    st.floats(0, 1),
    MAYBE,
    MAYBE,
)
def test_limits_are_kept_or_exceeded_or_nothing_was_measured(
    test: ServiceTest, loss: float, delay: float | None, variation: float | None
) -> None:
    flow = ServiceFlow(
        direction="a->b",
        rate_bps=1.0,
        loss_ratio=loss,
        delay_mean_ns=delay,
        variation_ns=variation,
    )
    over = [why for _, why in exceeded(test, flow)]
    missing = unmeasured(test, flow)
    assert any("FLR" in why for why in over) == (loss > test.loss_ratio)
    for name, value, limit in (
        ("FTD", delay, test.delay_ms),
        ("FDV", variation, test.variation_ms),
    ):
        above = value is not None and limit > 0 and value / 1e6 > limit
        assert any(name in why for why in over) == above
        assert any(name in why for why in missing) == (value is None and limit > 0)
    # What a service kept it keeps with less loss and less delay.
    better = flow.model_copy(update={"loss_ratio": loss / 2})
    assert len(exceeded(test, better)) <= len(over)


@given(st.floats(0.05, 1.5), st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5))
def test_a_service_is_met_where_the_dut_carries_every_step(
    capacity: float, steps: list[float]
) -> None:
    test = BRIEF.model_copy(update={"steps": tuple(steps), "loss_ratio": 0.0})
    found, seen = of(timed(capacity_fps=capacity * CIR), test)
    carried = [round(s * CIR) <= round(capacity * CIR) for s in steps]
    until = carried.index(False) + 1 if False in carried else len(steps)
    assert [step.met for step in found.steps] == carried[:until]
    assert (found.performance is not None) == all(carried)
    assert len(seen) == until + (3 if all(carried) else 0)
    assert (found.met is True) == (all(carried) and round(capacity * CIR) >= CIR)
