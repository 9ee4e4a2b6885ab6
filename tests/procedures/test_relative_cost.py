"""What a frame costs relative to the tester: which counts, and when there is no number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.procedures.support import CEILING, Dut, asks, drive, inputs
from tests.texts import Texts
from vnetperf.model.errors import NoResultError
from vnetperf.model.machine_load import DatapathWork, MachineLoad, ThreadLoad
from vnetperf.model.outcomes import CpuLoad, RelativeCost
from vnetperf.model.parameters import CpuLoadTest
from vnetperf.model.trial import (
    HopCounters,
    TesterTurns,
    TrialGaps,
    TrialOutcome,
    TrialRequest,
)
from vnetperf.procedures.cpu_load import cpu_load
from vnetperf.procedures.relative_cost import (
    BY_CYCLES,
    BY_ROUNDS,
    BY_RUN_TIME,
    relative_costs,
    sending_conditions,
)

ASK = TrialRequest(load_fps=1e5, duration_s=1.0)
HOP = HopCounters(port="phy0", rx=1, tx=1)


def thread(role: str, run_s: float, *, polls: bool = False) -> ThreadLoad:
    """A thread that has a processor as often as it wants one, for a second."""
    return ThreadLoad(
        role=role,
        thread=role,
        cpu=0,
        user=run_s,
        system=0.0,
        run_s=run_s,
        wait_s=1.0 - run_s if polls else 0.0,
        watched_s=1.0,
        voluntary_switches=0 if polls else 9000,
    )


def polling(busy: int, empty: int) -> DatapathWork:
    """A thread that polls: an empty round takes so many cycles."""
    return DatapathWork(
        thread="core 1",
        packets=100,
        busy_cycles=busy,
        idle_cycles=9000 * empty,
        polls=10_000,
        empty_polls=9000,
    )


def sender(busy: int, still: int) -> DatapathWork:
    """The tester, which sleeps: most of its empty rounds come right after a sleep."""
    return DatapathWork(
        thread="loadgen-0",
        packets=200,
        busy_cycles=busy,
        idle_cycles=50_000,
        polls=200,
        empty_polls=100,
        still_cycles=80 * still,
        still_polls=80,
    )


def trial(*, capacity: float = CEILING, number: int = 1, **found: Any) -> TrialOutcome:
    """A trial in which threads and counts were so."""
    seen = Dut(capacity_fps=capacity).run(ASK)
    threads = found.pop("threads", (thread("tester", 0.2),))
    more = {"threads": threads, "collected_s": 1.0, **found}
    return replace(seen, number=number, result=seen.result.model_copy(update=more))


def cost_of(part: str, *trials: TrialOutcome) -> RelativeCost:
    return relative_costs(trials)[part]


PMD = (thread("tester", 0.2), thread("pmd", 0.7, polls=True))


def test_work_in_empty_rounds_of_each_side_does_not_know_how_fast_its_processor_was() -> None:
    trials = [
        trial(threads=PMD, datapath=(polling(8000, empty),), tester_work=(sender(busy, still),))
        for empty, busy, still in ((400, 1000, 100), (800, 1000, 100), (400, 2000, 100))
    ]
    found = cost_of("vSwitch", *trials)
    assert (found.by, found.why) == (BY_ROUNDS, "")
    assert found.values == (2.0, 1.0, 1.0)
    assert (found.value, found.least, found.most) == (1.0, 1.0, 2.0)
    slow = trial(threads=PMD, datapath=(polling(16_000, 800),), tester_work=(sender(1000, 100),))
    assert cost_of("vSwitch", slow).value == 2.0


def test_each_thread_counts_in_empty_rounds_of_its_own() -> None:
    work = (polling(8000, 400), polling(8000, 800))
    found = cost_of("vSwitch", trial(datapath=work, tester_work=(sender(1000, 100),)))
    assert found.value == pytest.approx((20 + 10) / 10)


def test_without_empty_rounds_of_its_own_cycles_are_counted() -> None:
    untold = DatapathWork(thread="vpp_wk_0", packets=1, busy_cycles=3000, idle_cycles=None)
    asleep = polling(3000, 400).model_copy(update={"empty_polls": 5000, "polls": 10_000})
    for work in (untold, asleep):
        found = cost_of("vSwitch", trial(datapath=(work,), tester_work=(sender(1000, 100),)))
        assert (found.value, found.by) == (3.0, BY_CYCLES)


def test_vswitch_and_vnf_are_two_numbers() -> None:
    vnf = DatapathWork(thread="vnf0", packets=1, busy_cycles=1500, idle_cycles=None)
    both = trial(
        threads=(*PMD, thread("vnf0", 0.2)),
        datapath=(polling(8000, 400),),
        vnf_work=(vnf,),
        tester_work=(sender(1000, 100),),
    )
    found = relative_costs([both])
    assert {part: cost.value for part, cost in found.items()} == {"vSwitch": 2.0, "VNF": 1.5}
    assert found["VNF"].by == BY_CYCLES


def test_run_time_counts_of_threads_that_sleep() -> None:
    one = trial(threads=(thread("tester", 0.2), thread("napi", 0.5)), hops=(HOP,))
    assert cost_of("vSwitch", one) == RelativeCost(
        value=2.5, least=2.5, most=2.5, values=(2.5,), by=BY_RUN_TIME
    )


@pytest.mark.parametrize(
    ("found", "part", "why"),
    [
        ({"threads": (*PMD, thread("vnf0", 0.5, polls=True))}, "VNF", "vnf0 polls"),
        (
            {"threads": (thread("tester", 0.9, polls=True),), "tester_work": ()},
            "vSwitch",
            "tester polls",
        ),
        ({"hops": (HOP,)}, "vSwitch", "forwards in the tester's context"),
        ({}, "vSwitch", "the work of vSwitch is not recorded"),
        (
            {"threads": PMD, "datapath": (polling(8000, 400),), "tester_work": ()},
            "vSwitch",
            "the tester counted no rounds",
        ),
        (
            {"machines": {"west": MachineLoad()}},
            "vSwitch",
            "tester and DUT are on several hosts",
        ),
        ({"capacity": 97e3}, "vSwitch", "3.0% of the frames were lost in trial 4"),
    ],
)
def test_without_a_number_there_is_a_reason(found: dict[str, Any], part: str, why: str) -> None:
    given = {"tester_work": (sender(1000, 100),), **found}
    cost = cost_of(part, trial(number=4, **given))
    assert (cost.value, cost.values, cost.why) == (None, (), f"not measured: {why}")


def test_a_loss_below_two_percent_is_measured() -> None:
    given: dict[str, Any] = {"datapath": (polling(8000, 400),), "tester_work": (sender(1000, 100),)}
    assert cost_of("vSwitch", trial(capacity=98.1e3, **given)).value == 2.0
    assert cost_of("vSwitch", trial(**given), trial(capacity=98e3, **given)).value is None


def test_a_load_that_was_not_sent_is_not_measured() -> None:
    whole = trial(datapath=(polling(8000, 400),), tester_work=(sender(1000, 100),))
    directions = tuple(
        one.model_copy(
            update={"sent": one.sent - 3000, "unsent": 3000, "received": one.sent - 3000}
        )
        for one in whole.result.directions
    )
    short = replace(whole, result=whole.result.model_copy(update={"directions": directions}))
    why = "not measured: 3.0% of the load was not sent in trial 1"
    assert cost_of("vSwitch", short).why == why


def test_old_trials_have_nothing() -> None:
    assert relative_costs([Dut().run(ASK)]) == {}
    assert sending_conditions([Dut().run(ASK)]) == {}


def test_how_the_tester_sent_is_told() -> None:
    turns = TesterTurns(length_us=100, per_s=9000, asleep=0.8, prompt=True)
    gaps = Dut().run(ASK).result.gaps or TrialGaps.model_construct(ring_frames=2048)
    fifo = trial(turns=turns, gaps=gaps)
    assert sending_conditions([fifo]) == {
        "ring": "2048 frames",
        "turn": "100 us",
        "priority": "SCHED_FIFO",
    }
    refused = turns.model_copy(update={"prompt": False, "refused": "EPERM"})
    both = [fifo, trial(turns=refused)]
    assert sending_conditions(both)["priority"] == "SCHED_FIFO, ordinary: EPERM"


def loads_of(dut: Dut, test: CpuLoadTest, **changes: Any) -> tuple[CpuLoad, Sequence[TrialOutcome]]:
    return drive(cpu_load(inputs(test, **changes)), dut)


def test_absolute_loads_need_no_throughput() -> None:
    test = CpuLoadTest(shares=(), loads_fps=(2e5, 5e4), duration_s=1.0, repeats=2)
    assert test.has_loads
    found, seen = loads_of(Dut(), test, throughput=None)
    assert asks(seen) == [5e4, 2e5, 5e4, 2e5]
    assert [(at.of, at.share, at.load_fps) for at in found.at] == [
        ("50000 frames/s per interface", None, 1e5),
        ("200000 frames/s per interface", None, 4e5),
    ]


def test_absolute_loads_stand_beside_shares(texts: Texts) -> None:
    test = CpuLoadTest(shares=(0.5, 1.0), loads_fps=(1e5, 3e6), duration_s=1.0, repeats=1)
    found, seen = loads_of(Dut(), test)
    assert asks(seen) == [1e5, 350e3, 700e3]
    assert [at.share for at in found.at] == [None, 0.5, 1.0]
    texts.check(found.note)


def test_earlier_logs_asked_for_shares_alone() -> None:
    test = CpuLoadTest(shares=(0.5,), duration_s=1.0, repeats=1)
    _, seen = loads_of(Dut(), test, rules=2)
    assert asks(seen) == [350e3]


def test_a_test_without_loads_is_refused() -> None:
    with pytest.raises(ValueError, match="neither shares nor loads_fps"):
        CpuLoadTest(shares=(), loads_fps=())


def test_no_load_that_can_be_offered_is_no_result() -> None:
    """Of large frames a slow medium carries none of the loads."""
    given_ = inputs(CpuLoadTest(shares=(), loads_fps=(50e3, 100e3)), ceiling_fps=13.8e3)
    with pytest.raises(NoResultError, match=r"cpu_load\.loads_fps"):
        next(cpu_load(given_))
