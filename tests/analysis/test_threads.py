"""Busy threads at a lower bound, from the log."""

from __future__ import annotations

import pytest

from vnetperf.analysis.goals import datapath_usage, thread_usage, uncollected_figures
from vnetperf.log.records import TrialRecord
from vnetperf.model.machine_load import (
    DatapathWork,
    MachineLoad,
    NodeWork,
    ProcessorLoad,
    ThreadEvents,
    ThreadLoad,
)
from vnetperf.model.trial import DirectionCounts, TrialResult, TrialSpec, Verdict
from vnetperf.procedures.cpu_load import cpu_by_role


def trial(
    seconds: float,
    *,
    received: int = 1000,
    dtlb: tuple[int, ...] = (50, 500),
    why: str = "",
    watched_s: float = 0.0,
) -> TrialRecord:
    """Two workers of one name, of which the second may not have been counted."""
    counts = DirectionCounts(
        direction=0, intended=1000, sent=1000, refused=0, unsent=0, received=received
    )
    loads = [ThreadLoad(role="vnf0", thread="worker", cpu=c, user=0.5, system=0.1) for c in (2, 3)]
    loads[0] = loads[0].model_copy(update={"involuntary_switches": 8})
    events = [
        ThreadEvents(role="vnf0", thread="worker", counts={"dTLB load misses": n} if n else {})
        for n in dtlb
    ]
    return TrialRecord(
        number=1,
        search=1,
        spec=TrialSpec(frame_size=64, load_fps=1000.0, duration_s=seconds),
        result=TrialResult(
            directions=(counts,) if received else (),
            threads=tuple(loads),
            events=tuple(events),
            uncollected={"events": why} if why else {},
            collected_s=watched_s,
        ),
        verdict=Verdict.VALID,
        started="2025-01-01T00:00:00Z",
    )


def test_switches_and_waiting_are_of_the_time_that_was_watched() -> None:
    record = trial(2.0)
    loads = list(record.result.threads)
    loads[0] = loads[0].model_copy(
        update={"voluntary_switches": 6, "wait_s": 0.5, "watched_s": 2.0}
    )
    result = record.result.model_copy(update={"threads": tuple(loads)})
    first, second = thread_usage([record.model_copy(update={"result": result})])
    assert (first.voluntary_switches_per_s, first.involuntary_switches_per_s) == (3.0, 4.0)
    assert first.waited == 0.25
    assert (second.voluntary_switches_per_s, second.waited) == (None, None)  # not recorded: no 0
    uses = {one.role: one for one in cpu_by_role(result)}
    assert uses["vnf0"].switches_per_s is None  # of a thread that is not known


def test_the_middle_of_the_longest_trials_tells_by_second_and_frame() -> None:
    first, second = thread_usage(
        [
            trial(2.0, dtlb=(1, 1), received=999),
            trial(2.0),
            trial(2.0, dtlb=(3, 3), received=998),
            trial(1.0, dtlb=(9, 9)),
        ]
    )
    assert first.events_per_s == {"dTLB load misses": pytest.approx(0.5)}  # 0.1 % lost, of 0 to 0.2
    first, second = thread_usage([trial(2.0), trial(1.0, dtlb=(9, 9))])
    assert (first.cpu, second.cpu) == (2, 3)
    assert first.involuntary_switches_per_s == pytest.approx(4.0)
    assert first.events_per_s == {"dTLB load misses": pytest.approx(25.0)}
    assert second.events_per_s == {"dTLB load misses": pytest.approx(250.0)}
    assert second.events_per_frame == {"dTLB load misses": pytest.approx(0.5)}


def test_rates_are_of_the_time_in_which_threads_were_watched() -> None:
    first, _ = thread_usage([trial(2.0, watched_s=4.0)])
    assert first.involuntary_switches_per_s == pytest.approx(2.0)
    assert first.events_per_s == {"dTLB load misses": pytest.approx(12.5)}
    assert first.events_per_frame == {"dTLB load misses": pytest.approx(0.05)}


def test_what_was_not_counted_is_not_nought() -> None:
    first, second = thread_usage([trial(1.0, dtlb=(0, 7), received=0)])
    assert first.events_per_s == {}
    assert second.events_per_s == {"dTLB load misses": pytest.approx(7.0)}
    assert second.events_per_frame == {}
    assert thread_usage([trial(1.0, dtlb=())])[0].events_per_s == {}
    assert uncollected_figures([trial(1.0, why="not measured: no")]) == {
        "events": "not measured: no"
    }


def test_threads_of_the_kernel_are_no_busy_threads() -> None:
    record = trial(1.0)
    kernel = [_load(role, 2) for role in ("kernel", "west:kernel")]
    result = record.result.model_copy(update={"threads": (*record.result.threads, *kernel)})
    uses = thread_usage([record.model_copy(update={"result": result})])
    # Events are counted on busy threads alone: beside others they would seem to be of a part.
    assert [use.role for use in uses] == ["vnf0", "vnf0"]


def test_without_a_lower_bound_there_is_nothing_to_tell() -> None:
    assert thread_usage([]) == ()
    assert uncollected_figures([]) == {}


def test_own_counters_of_the_vswitch_become_costs_and_shares() -> None:
    work = DatapathWork(
        thread="core 1",
        packets=1000,
        busy_cycles=400_000,
        idle_cycles=100_000,
        lookups={"exact match cache": 900, "upcall": 0, "megaflow": 100},
    )
    idle = DatapathWork(thread="core 2", packets=0, busy_cycles=0, idle_cycles=0)
    record = trial(1.0)
    counted = record.result.model_copy(update={"datapath": (work, idle)})
    first, second = datapath_usage([record.model_copy(update={"result": counted})])
    assert (first.packets, first.cycles_per_packet, first.busy) == (1000, 400.0, 0.8)
    assert first.lookups == {"exact match cache": 0.9, "megaflow": 0.1}
    assert (first.ran, second.ran) == (None, None)  # no thread's time is known
    assert (second.cycles_per_packet, second.busy, second.lookups) == (None, None, {})
    assert datapath_usage([]) == ()


def test_wall_cycles_stand_beside_the_share_of_time_that_the_thread_ran() -> None:
    def ran(role: str, thread: str, cpu: int, seconds: float) -> ThreadLoad:
        known = {"run_s": seconds, "watched_s": 2.0, "user": 0.1, "system": 0.0}
        return ThreadLoad.model_validate({"role": role, "thread": thread, "cpu": cpu} | known)

    def shares(*names: str) -> list[float | None]:
        work = (DatapathWork(thread=n, packets=1, busy_cycles=9, idle_cycles=0) for n in names)
        record = trial(1.0)
        update = {"threads": threads, "datapath": tuple(work)}
        counted = record.result.model_copy(update=update)
        return [use.ran for use in datapath_usage([record.model_copy(update={"result": counted})])]

    threads = (
        ran("tester", "loadgen", 1, 2.0),
        ran("vnf0", "vloop", 1, 2.0),
        ran("pmd", "pmd-c01/id:8", 1, 1.34),
        ran("pmd", "pmd-c02/id:9", 2, 0.4),
        ran("west:pmd", "west: pmd-c01/id:8", 1, 0.2),
    )
    assert shares("core 1", "core 2", "west: core 1") == [0.67, 0.2, 0.1]  # OVS
    assert shares("pmd-c02/id:9") == [0.2]  # VPP: as the kernel calls it
    assert shares("forwarding threads") == [pytest.approx(0.435)]  # testpmd: all of them


def _load(role: str, cpu: int, guest: float | None = 0.0) -> ThreadLoad:
    return ThreadLoad(role=role, thread="t", cpu=cpu, user=0.4, system=0.1, guest=guest)


def _processor(cpu: int, softirq: float, steal: float) -> ProcessorLoad:
    return ProcessorLoad(
        cpu=cpu, user=0.5, system=0.2, irq=0.0, softirq=softirq, guest=0.3, steal=steal
    )


def test_processor_use_by_role_has_the_soft_interrupts_of_its_processors() -> None:
    threads = (_load("tester", 0), _load("pmd", 0), _load("vnf0", 1, 0.2), _load("vnf0", 2, 0.3))
    machine = MachineLoad(by_processor=tuple(_processor(n, n / 10, 0.01) for n in range(4)))
    result = TrialResult(directions=(), threads=threads, machine=machine)
    tester, pmd, vnf, whole = cpu_by_role(result)
    assert (tester.processors, tester.shared_with) == ((0,), ("pmd",))
    assert (pmd.processors, pmd.shared_with) == ((0,), ("tester",))
    assert (vnf.user, vnf.system, vnf.guest) == (0.8, 0.2, 0.5)
    assert (vnf.softirq, vnf.steal, vnf.shared_with) == (pytest.approx(0.3), 0.02, ())
    assert (whole.role, whole.user, whole.guest) == ("machine", 2.0, 1.2)
    assert (whole.softirq, whole.steal) == (pytest.approx(0.6), 0.04)


def test_processor_use_that_an_older_log_has_not_is_unknown() -> None:
    result = TrialResult(directions=(), threads=(_load("pmd", 0, None),), machine=MachineLoad())
    (pmd,) = cpu_by_role(result)
    assert (pmd.user, pmd.system) == (0.4, 0.1)
    assert (pmd.softirq, pmd.guest, pmd.steal) == (None, None, None)
    assert cpu_by_role(TrialResult(directions=())) == ()


def test_nodes_of_a_graph_have_clocks_for_each_packet_and_vector_sizes() -> None:
    nodes = {
        "l2-output": NodeWork(calls=10, packets=300, clocks=4500.0),
        "memif-input": NodeWork(calls=1000, packets=300, clocks=90_000.0, input=True),
        "error-drop": NodeWork(calls=0, packets=0, clocks=0.0),
    }
    work = DatapathWork(
        thread="vpp_wk_0", packets=300, busy_cycles=4500, idle_cycles=None, nodes=nodes
    )
    one = trial(1.0)
    result = one.result.model_copy(update={"datapath": (work,)})
    (use,) = datapath_usage([one.model_copy(update={"result": result})])
    assert (use.cycles_per_packet, use.busy) == (15.0, None)
    first, second = use.nodes  # the most expensive first, and none without packets
    assert (first.name, first.clocks_per_packet, first.input) == ("memif-input", 300.0, True)
    assert (second.name, second.clocks_per_packet) == ("l2-output", 15.0)
    assert (first.packets_per_call, second.packets_per_call) == (0.3, 30.0)
