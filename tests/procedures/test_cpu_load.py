"""Processors by role, and against load, on a machine whose costs are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.procedures.support import (
    CEILING,
    Dut,
    SimulatedProcessors,
    asks,
    drive,
    inputs,
    limited,
)
from tests.texts import Texts
from vnetperf.model.machine_load import (
    DatapathWork,
    EnergyUse,
    MachineLoad,
    ProcessorLoad,
    ThreadEvents,
    ThreadLoad,
)
from vnetperf.model.outcomes import CpuLoad
from vnetperf.model.parameters import CpuLoadTest
from vnetperf.model.trial import TrialOutcome, TrialRequest, TrialResult
from vnetperf.procedures.cpu_load import cpu_by_role, cpu_load
from vnetperf.procedures.rates import forwarded_fps

COSTS = SimulatedProcessors(
    idle={"tester": 0.2, "kernel": 0.01, "pmd": 1.0, "others": 0.05},
    ns_per_frame={"tester": 100.0, "kernel": 300.0, "vnf0": 250.0},
    watched_s=0.5,
)


@dataclass
class Watched:
    """A DUT whose processors are watched."""

    dut: Dut
    costs: SimulatedProcessors = COSTS
    more: dict[str, object] = field(default_factory=dict)

    def run(self, ask: TrialRequest) -> TrialOutcome:
        """One trial."""
        seen = self.dut.run(ask)
        result = self.costs.watch(seen.result, ask.duration_s).model_copy(update=self.more)
        return TrialOutcome.of(seen.request, result, number=seen.number)


def measured(dut: Dut | Watched, **test: object) -> tuple[CpuLoad, list[TrialOutcome]]:
    """By shares alone; `test_relative_cost` has the other loads."""
    return drive(cpu_load(inputs(CpuLoadTest(duration_s=2.0, loads_fps=(), **test))), dut)


@pytest.mark.parametrize("apart", [False, True])
def test_roles_add_up_to_the_machine_and_no_time_counts_twice(apart: bool) -> None:
    costs = SimulatedProcessors(COSTS.idle, COSTS.ns_per_frame, interrupts_apart=apart)
    seen = Watched(Dut(), costs).run(TrialRequest(load_fps=500e3, duration_s=1.0))
    uses = {use.role: use for use in cpu_by_role(seen.result)}
    assert list(uses) == ["tester", "pmd", "vnf0", "kernel", "others", "machine"]
    busy = {role: use.busy for role, use in uses.items()}
    assert busy == pytest.approx(
        {
            "tester": 0.2 + 1e6 * 100e-9,
            "pmd": 1.0,
            "vnf0": 1e6 * 250e-9,
            "kernel": 0.01 + 1e6 * 300e-9,
            "others": 0.05,
            "machine": 0.2 + 0.1 + 1.0 + 0.25 + 0.01 + 0.3 + 0.05,
        },
        abs=1e-3,
    )
    assert (uses["tester"].waiting, uses["others"].waiting) == (0.0, None)
    # Their parts in user mode and in the kernel are not known, which is not 0.
    assert (uses["kernel"].user, uses["others"].user, uses["others"].system) == (None, None, None)


def test_where_it_is_not_known_whose_time_interrupts_are_in_a_thread_beside_them_has_none() -> None:
    costs = SimulatedProcessors(COSTS.idle, COSTS.ns_per_frame, interrupts_apart=None)
    seen = Watched(Dut(), costs).run(TrialRequest(load_fps=500e3, duration_s=1.0))
    busy = _busy(seen.result)
    assert (busy["tester"], busy["others"]) == (None, None)
    # No interrupt came upon these two; what interrupts took themselves is counted either way.
    assert (busy["pmd"], busy["vnf0"]) == (1.0, 0.25)
    assert busy["kernel"] == pytest.approx(0.31, abs=1e-3)
    assert busy["machine"] == pytest.approx(1.91, abs=1e-3)
    found, _ = measured(Watched(Dut(), costs))
    assert sorted(found.at[-1].roles) == ["kernel", "machine", "pmd", "vnf0"]


def test_threads_of_the_kernel_count_once_beside_soft_interrupts() -> None:
    result = COSTS.watch(Dut().run(TrialRequest(load_fps=1e5, duration_s=1.0)).result, 1.0)
    before = {use.role: use.busy for use in cpu_by_role(result)}
    # ksoftirqd's time is among the soft interrupts; a vhost thread's is not.
    more = tuple(
        ThreadLoad(role="kernel", thread=name, cpu=3, user=0.0, system=0.1, run_s=0.15)
        for name in ("ksoftirqd/3", "vhost-77")
    )
    result = result.model_copy(update={"threads": (*result.threads, *more)})
    after = {use.role: use.busy for use in cpu_by_role(result)}
    assert after["kernel"] == pytest.approx(before["kernel"] + 0.1)
    assert after["tester"] == before["tester"]


def test_each_host_of_a_testbed_has_its_roles() -> None:
    here = COSTS.watch(Dut().run(TrialRequest(load_fps=1e5, duration_s=1.0)).result, 1.0)
    assert here.machine is not None
    there = tuple(t.model_copy(update={"role": f"west:{t.role}"}) for t in here.threads)
    both = here.model_copy(
        update={
            "threads": (*here.threads, *there),
            "machines": {"west": here.machine},
            "collected_at": {"west": here.collected_s},
        }
    )
    uses = cpu_by_role(both)
    own = cpu_by_role(here)
    assert [use.role for use in uses] == [
        *(use.role for use in own),
        *(f"west:{use.role}" for use in own),
    ]
    assert [use.busy for use in uses] == [use.busy for use in own] * 2
    assert not any(use.shared_with for use in uses)  # processors of one number are two machines'


def _processor(cpu: int, **shares: float) -> ProcessorLoad:
    """One that does nothing but `shares`, whose idle time is known."""
    whole = {"user": 0.0, "system": 0.0, "irq": 0.0, "softirq": 0.0, **shares}
    idle = 1.0 - sum(whole.values())
    return ProcessorLoad(cpu=cpu, guest=0.0, steal=0.0, idle=idle, **whole)


def _busy(result: TrialResult) -> dict[str, float | None]:
    return {use.role: use.busy for use in cpu_by_role(result)}


def test_a_host_whose_kernel_forwards_has_its_time_without_a_poller() -> None:
    machine = MachineLoad(by_processor=(_processor(0, softirq=0.6, user=0.1),))
    here = COSTS.watch(Dut().run(TrialRequest(load_fps=1e5, duration_s=1.0)).result, 1.0)
    there = here.model_copy(update={"machines": {"west": machine}, "collected_at": {"west": 1.0}})
    found = _busy(there)
    assert found["west:kernel"] == pytest.approx(0.6)
    assert found["west:others"] == pytest.approx(0.1)
    assert found["west:machine"] == pytest.approx(0.7)
    alone = TrialResult(directions=(), machine=machine, collected_s=1.0)
    assert _busy(alone) == pytest.approx({"kernel": 0.6, "others": 0.1, "machine": 0.7})
    failed = there.model_copy(update={"uncollected": {"west: cpu": "not measured: gone"}})
    assert _busy(failed)["west:machine"] is None  # no thread is known there, nor its time
    assert "west:others" not in _busy(failed)


def test_interrupts_upon_threads_of_the_kernel_count_once() -> None:
    kernel = {"role": "kernel", "cpu": 0, "user": 0.0, "watched_s": 1.0}
    threads = (
        ThreadLoad(role="vnf0", thread="vcpu", cpu=1, user=0.5, system=0.0, run_s=0.5),
        ThreadLoad(thread="vhost-77", system=0.6, run_s=0.6, **kernel),
        ThreadLoad(thread="napi/x-1", system=0.2, run_s=0.2, **kernel),
        ThreadLoad(thread="ksoftirqd/0", system=0.1, run_s=0.1, **kernel),
    )
    # 0.1 of the soft interrupts in ksoftirqd, 0.4 upon the other two by their 0.6 and 0.2.
    cpus = (_processor(0, system=0.4, softirq=0.5), _processor(1, user=0.5))
    machine = MachineLoad(by_processor=cpus, interrupts_apart=False)
    result = TrialResult(directions=(), threads=threads, machine=machine, collected_s=1.0)
    assert _busy(result) == pytest.approx(
        {"vnf0": 0.5, "kernel": 0.9, "others": 0.0, "machine": 1.4}, abs=1e-9
    )


@pytest.mark.parametrize(("user", "others"), [(0.995, 0.0), (0.991, 0.0), (0.9, None)])
def test_what_is_left_for_others_is_never_below_nothing(user: float, others: float | None) -> None:
    """The machine's time is known to a tick of 10 ms: of more than that nothing is known."""
    tester = ThreadLoad(role="tester", thread="t", cpu=0, user=1.0, system=0.0, run_s=1.0)
    machine = MachineLoad(by_processor=(_processor(0, user=user),))
    result = TrialResult(directions=(), threads=(tester,), machine=machine, collected_s=1.0)
    busy = _busy(result)
    assert busy["others"] == others
    assert busy["machine"] == pytest.approx(user)


def test_threads_without_a_run_time_are_not_recorded() -> None:
    thread = ThreadLoad(role="pmd", thread="pmd", cpu=0, user=0.9, system=0.0)
    old = TrialResult(directions=(), threads=(thread,), machine=MachineLoad(), collected_s=1.0)
    (pmd,) = cpu_by_role(old)
    assert (pmd.busy, pmd.waiting, pmd.backlog_dropped) == (None, None, None)


@given(st.floats(0.0, 2000.0), st.floats(0.0, 0.9))
def test_what_a_further_frame_takes_is_found(each_ns: float, idle: float) -> None:
    costs = SimulatedProcessors({"tester": 0.2, "pmd": idle}, {"pmd": each_ns}, watched_s=0.5)
    found, seen = measured(Watched(Dut(), costs))
    loads = [700e3 * share for share in (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)]
    assert asks(seen) == pytest.approx([*loads] * 3)  # in turn, and again
    fit = found.fits["pmd"]
    if fit.ns_per_frame is None:  # less than what rounding scatters
        assert each_ns < 1
    else:
        assert fit.ns_per_frame == pytest.approx(each_ns, rel=1e-3, abs=1)
        assert fit.idle == pytest.approx(idle, abs=1e-3)
    last = found.at[-1]
    assert (last.of, last.roles["pmd"].processors.n) == ("throughput", 3)
    assert last.forwarded_fps.mean == pytest.approx(1.4e6, rel=1e-3)


class Noisy(Watched):
    """One whose polling thread has 0.02 processors less and more in turn."""

    turn = 0
    pmd_ns = 0.0

    def run(self, ask: TrialRequest) -> TrialOutcome:
        self.turn += 1
        self.costs = SimulatedProcessors(
            {"pmd": 0.9 + 0.02 * (-1) ** self.turn, "tester": 0.2},
            {"tester": 100.0, "pmd": self.pmd_ns},
        )
        return super().run(ask)


def test_a_slope_has_its_standard_error() -> None:
    # The polling thread's processors at 6 loads, twice: 0.02 below and above in turn.
    found, seen = measured(Noisy(Dut()), repeats=2)
    rates = [forwarded_fps(one) for one in seen]
    middle = sum(rates) / 12
    width = sum((rate - middle) ** 2 for rate in rates)
    pmd, tester = found.fits["pmd"], found.fits["tester"]
    assert pmd.error_ns == pytest.approx(1e9 * (12 * 0.02**2 / 10 / width) ** 0.5, rel=0.1)
    assert not pmd.is_clear
    assert tester.error_ns == pytest.approx(0.0, abs=0.1)
    assert tester.is_clear


@pytest.mark.parametrize("each_ns", [0.0, 5.0, -5.0, -200.0])
def test_a_thread_that_takes_no_more_has_no_time_of_a_further_frame(
    each_ns: float, texts: Texts
) -> None:
    """One that polls takes all it gets, and less where the kernel's work takes its processor."""
    dut = Noisy(Dut())
    dut.pmd_ns = each_ns
    found, _ = measured(dut, repeats=2)
    pmd = found.fits["pmd"]
    assert (pmd.ns_per_frame, pmd.idle, pmd.is_clear) == (None, None, False)
    texts.check(pmd.why)
    assert found.fits["tester"].ns_per_frame == pytest.approx(100, rel=0.01)


def test_no_processor_is_busy_for_less_than_nothing_without_frames() -> None:
    """A frame costs more the more there are, so that a straight line begins below 0."""

    class Dearer(Watched):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            self.costs = SimulatedProcessors({"pmd": 0.0}, {"pmd": 1e-3 * ask.load_fps})
            return super().run(ask)

    fit = measured(Dearer(Dut()))[0].fits["pmd"]
    assert fit.idle == 0
    assert fit.ns_per_frame is not None
    assert fit.ns_per_frame > 0


def test_other_programs_take_nothing_for_a_frame() -> None:
    found, _ = measured(Watched(Dut()))
    assert "others" not in found.fits
    others = found.at[-1].roles["others"]
    assert others.processors.mean == pytest.approx(0.05, abs=1e-3)
    assert others.ns_per_frame is None


def test_a_host_that_is_watched_for_longer_has_the_same_line() -> None:
    class Both(Watched):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            longer = SimulatedProcessors(self.costs.idle, self.costs.ns_per_frame, watched_s=2.0)
            there = longer.watch(seen.result, ask.duration_s)
            west = [one.model_copy(update={"role": f"west:{one.role}"}) for one in there.threads]
            update = {
                "threads": (*seen.result.threads, *west),
                "machines": {"west": there.machine},
                "collected_at": {"west": there.collected_s},
            }
            result = seen.result.model_copy(update=update)
            return TrialOutcome.of(seen.request, result, number=seen.number)

    found, _ = measured(Both(Dut()))
    assert found.at[-1].watched_s == {"": 2.5, "west": 4.0}
    for role in ("vnf0", "kernel", "tester"):
        here, there = found.fits[role], found.fits[f"west:{role}"]
        assert there.ns_per_frame == pytest.approx(here.ns_per_frame, rel=1e-2)
        assert there.idle == pytest.approx(here.idle, abs=1e-3)
    frame = found.at[-1].roles["west:vnf0"].ns_per_frame
    assert frame is not None
    assert frame.mean == pytest.approx(250, rel=1e-2)


def test_a_frame_takes_what_the_role_took_while_it_was_watched() -> None:
    found, _ = measured(Watched(Dut()))
    last = found.at[-1].roles
    assert last["vnf0"].ns_per_frame is not None
    assert last["vnf0"].ns_per_frame.mean == pytest.approx(250, rel=1e-2)
    assert found.at[-1].watched_s == {"": 2.5}
    assert last["pmd"].ns_per_frame is not None  # it polls all the while, waits included
    assert last["pmd"].ns_per_frame.mean == pytest.approx(1e9 * 2.5 / 2.8e6, rel=1e-2)


def test_counters_of_processor_and_vswitch_stand_beside_it() -> None:
    work = DatapathWork(
        thread="core 1", packets=5, busy_cycles=30, idle_cycles=70, polls=50, empty_polls=45
    )
    counts = {"cycles": 7_000_000, "instructions": 14_000_000, "cache misses": 1400}
    events = (ThreadEvents(role="pmd", thread="pmd", counts=counts),)
    energy = (
        EnergyUse(part="package-0", joules=70.0, source="RAPL", watched_s=2.0),
        EnergyUse(part="Server, hwmon1", joules=500.0, source="power meter"),
    )
    more = {"datapath": (work,), "events": events, "energy": energy, "watched_cpu_s": 0.005}
    found, _ = measured(Watched(Dut(), more=more), shares=(0.5,), repeats=1)
    (at,) = found.at
    assert (at.in_work, at.empty_polls) == (0.3, 0.9)
    assert at.watched_share == pytest.approx(0.002)
    package, server = at.energy["package-0"], at.energy["Server, hwmon1"]
    assert (package.watts.mean, server.watts.mean) == (35.0, 200.0)  # over 2.0 s, and over 2.5 s
    assert package.nj_per_frame is not None
    assert package.nj_per_frame.mean == pytest.approx(70e9 / 1.4e6, rel=1e-3)
    pmd, tester = at.roles["pmd"], at.roles["tester"]
    assert pmd.cycles_per_frame == pytest.approx(5.0)
    assert pmd.instructions_per_frame == pytest.approx(10.0)
    assert pmd.tlb_misses_per_frame is None
    assert tester.cycles_per_frame is None


def test_events_of_some_trials_are_not_divided_by_the_frames_of_all() -> None:
    """A trial whose counters could not be opened has frames, and no cycles."""
    counts = {"cycles": 7_000_000}

    class OnceUncounted(Watched):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            missing = len(self.dut.asked) == 1
            events = () if missing else (ThreadEvents(role="pmd", thread="pmd", counts=counts),)
            self.more = {"events": events}
            return super().run(ask)

    found, _ = measured(OnceUncounted(Dut()), shares=(0.5,), repeats=3)
    assert found.at[0].roles["pmd"].cycles_per_frame is None


def test_where_nothing_is_watched_there_is_nothing_to_tell() -> None:
    found, _ = measured(Dut(), repeats=1)
    assert found.fits == {}
    assert all(at.roles == {} and at.in_work is None and at.empty_polls is None for at in found.at)


def test_a_load_that_was_not_offered_counts_at_what_came_back_and_is_named() -> None:
    class Late(Watched):
        def run(self, ask: TrialRequest) -> TrialOutcome:
            seen = super().run(ask)
            return limited(seen) if ask.load_fps > 600e3 else seen

    found, seen = measured(Late(Dut(capacity_fps=400e3)), shares=(0.5, 1.0), repeats=2)
    assert len(seen) == 4
    assert [at.disturbed for at in found.at] == [(), (2, 4)]
    assert found.at[-1].forwarded_fps.mean == pytest.approx(800e3, rel=1e-3)
    assert found.at[-1].loss_ratio > 0.4


def test_loads_stay_within_what_can_be_offered() -> None:
    found, seen = measured(Dut(), shares=(0.0001, 1.0, 5.0, 6.0), repeats=1)
    assert asks(seen) == pytest.approx([1000.0, 700e3, CEILING])
    # Each is called what it was: its name is what runs are compared by.
    names = ["1000 frames/s per interface", "throughput", f"{CEILING:.0f} frames/s per interface"]
    assert [at.of for at in found.at] == names
    assert [at.share for at in found.at] == pytest.approx([1000 / 700e3, 1.0, CEILING / 700e3])
