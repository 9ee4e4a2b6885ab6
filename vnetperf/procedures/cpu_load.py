"""Processors against offered load, and what a trial shows of them: time by role, cost of a frame.

Where the kernel does not keep the time of interrupts apart, it is part of the time of the threads
they come upon, of the kernel's own threads too. It is taken from them here, each processor's from
those that last ran on it, in proportion to their time in the kernel, so that no time counts twice.
What is left of the machine's time is other programs'. The machine's time is known to a tick of each
processor and the threads' to nanoseconds, so what is left may come out below 0: within ticks that
is nothing, and beyond them the sources contradict each other and nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum, isclose, sqrt
from statistics import fmean

from vnetperf.model.errors import NoResultError
from vnetperf.model.machine_load import (
    KERNEL,
    SOFTIRQ_THREAD,
    MachineLoad,
    ProcessorLoad,
    ThreadLoad,
)
from vnetperf.model.outcomes import CpuAt, CpuFit, CpuLoad, EnergyCost, RoleCost
from vnetperf.model.parameters import CpuLoadTest
from vnetperf.model.result import MACHINE, OTHERS, RoleUse, total_if_known
from vnetperf.model.trial import SAME_RTOL, TrialOutcome, TrialRequest, TrialResult, Verdict
from vnetperf.procedures.base import (
    ProcedureInputs,
    per_interface,
    share_of_throughput,
    shortfall_note,
)
from vnetperf.procedures.rates import forwarded_fps
from vnetperf.procedures.relative_cost import TESTER, relative_costs, sending_conditions
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: Resolution of a processor's time in /proc/stat, seconds.
_TICK_S = 0.01


def cpu_by_role(result: TrialResult) -> tuple[RoleUse, ...]:
    """Processor use of a trial, by role and of the whole machine, of each host."""
    of_host: dict[str, list[ThreadLoad]] = {"": [], **{host: [] for host in result.machines}}
    for load in result.threads:
        host = load.role.partition(":")[0]
        of_host[host if host in result.machines else ""].append(load)
    found: list[RoleUse] = []
    for host, loads in of_host.items():
        machine = result.machines.get(host, result.machine)
        if loads or not (result.machines and not host):
            unknown = (f"{host}: cpu" if host else "cpu") in result.uncollected
            seconds = 0.0 if unknown else result.watched_at(f"{host}:" if host else "")
            found += _of_host(f"{host}:" if host else "", loads, machine, seconds)
    return tuple(found)


def _of_host(
    prefix: str, loads: Sequence[ThreadLoad], machine: MachineLoad | None, seconds: float
) -> Iterator[RoleUse]:
    by_number = {one.cpu: one for one in (machine.by_processor if machine is not None else ())}
    kernel = [load for load in loads if load.role == prefix + KERNEL]
    own = [load for load in loads if load.role != prefix + KERNEL]
    cpus = {
        role: {load.cpu for load in own if load.role == role}
        for role in dict.fromkeys(load.role for load in own)
    }
    apart = [load for load in kernel if not load.thread.startswith(SOFTIRQ_THREAD)]
    recorded = machine is not None and _is_recorded(loads, machine, seconds)
    times: list[float | None] = [None] * (len(own) + len(apart))
    if machine is not None and recorded:
        upon = {} if machine.interrupts_apart else _interrupts_by_cpu(kernel, machine, seconds)
        surely = machine.interrupts_apart is not None
        times = _own_time([*own, *apart], upon, seconds, surely=surely)
    busy = {
        role: _sum([time for load, time in zip(own, times, strict=False) if load.role == role], 9)
        for role in cpus
    }
    for role, mine in cpus.items():
        of_role = [load for load in own if load.role == role]
        theirs = [by_number[cpu] for cpu in sorted(mine) if cpu in by_number]
        known = len(theirs) == len(mine)
        yield RoleUse(
            role=role,
            user=round(sum(load.user for load in of_role), 3),
            system=round(sum(load.system for load in of_role), 3),
            softirq=round(sum(one.softirq for one in theirs), 4) if known else None,
            guest=_sum([load.guest for load in of_role], 3),
            steal=round(sum(one.steal for one in theirs), 4) if known else None,
            processors=tuple(sorted(mine)),
            shared_with=tuple(
                other for other, used in cpus.items() if other != role and used & mine
            ),
            busy=_rounded(busy[role]),
            waiting=_waiting(of_role, seconds),
            switches_per_s=_switches(of_role, seconds),
        )
    if not by_number:
        return
    every = list(by_number.values())
    whole = tuple(sorted(by_number))
    interrupts = fsum(one.irq + one.softirq for one in every)
    used = fsum(one.busy for one in every)
    if recorded:
        forwarding = _sum([interrupts, *times[len(own) :]], 9)
        yield RoleUse(
            role=prefix + KERNEL,
            system=round(sum(load.system for load in kernel), 3),
            softirq=round(sum(one.softirq for one in every), 3),
            processors=whole,
            busy=_rounded(forwarding),
            waiting=_waiting(kernel, seconds),
            switches_per_s=_switches(kernel, seconds),
        )
        named = _sum([forwarding, *busy.values()], 9)
        rest = None if named is None else _rest(used - named, len(every) * _TICK_S / seconds)
        yield RoleUse(role=prefix + OTHERS, processors=whole, busy=_rounded(rest))
    names = ("user", "system", "softirq", "guest", "steal")
    yield RoleUse(
        role=prefix + MACHINE,
        processors=whole,
        busy=round(used, 4) if recorded else None,
        backlog_dropped=total_if_known(one.backlog_dropped for one in every),
        backlog_squeezed=total_if_known(one.backlog_squeezed for one in every),
        **{name: round(sum(getattr(one, name) for one in every), 3) for name in names},
    )


def _rest(processors: float, resolution: float) -> float | None:
    """What is left of a time; None where more was taken from it than it can be wrong by."""
    return max(0.0, processors) if processors >= -resolution else None


def _own_time(
    loads: Sequence[ThreadLoad], upon_any: Mapping[int, float], seconds: float, *, surely: bool
) -> list[float | None]:
    """Processors that each thread kept busy itself, without the interrupts that came upon it.

    None where they may have come upon it, but it is not known whether (`surely`) they count there.
    """
    in_kernel: dict[int, float] = {}
    for load in loads:
        in_kernel[load.cpu] = in_kernel.get(load.cpu, 0.0) + load.system
    found: list[float | None] = []
    for load in loads:
        part = load.system / in_kernel[load.cpu] if in_kernel[load.cpu] else 0.0
        upon = min(load.system, part * upon_any.get(load.cpu, 0.0))
        unknown = upon > 0 and not surely
        found.append(None if unknown else max(0.0, _ran(load, seconds) - upon))
    return found


def ran_of_switch(thread: str, result: TrialResult) -> float | None:
    """Share of a trial in which a thread of the vSwitch had a processor, 0..1; None: not known.

    Args:
        thread: Its name as the vSwitch has it: the kernel's, or "core 1". Of a name that stands for
            all of them the share is their mean.
        result: The trial.
    """
    host, _, name = thread.rpartition(": ")
    of_switch = []
    for load in result.threads:
        at, _, role = load.role.rpartition(":")
        if at == host and role not in (TESTER, KERNEL) and not role.startswith("vnf"):
            of_switch.append(load)
    named = [
        load
        for load in of_switch
        if load.thread.rpartition(": ")[2] == name or name == f"core {load.cpu}"
    ]
    shares = []
    for load in named or of_switch:
        seconds = load.watched_s or result.watched_at(load.role)
        if load.run_s is None or seconds <= 0:
            return None
        shares.append(min(1.0, load.run_s / seconds))
    return fmean(shares) if shares else None


def _is_recorded(loads: Sequence[ThreadLoad], machine: MachineLoad | None, seconds: float) -> bool:
    """Whether the time of all threads that matter is known."""
    if machine is None or not machine.by_processor or seconds <= 0:
        return False
    return all(load.run_s is not None for load in loads)


def _interrupts_by_cpu(
    kernel: Sequence[ThreadLoad], machine: MachineLoad, seconds: float
) -> dict[int, float]:
    """Interrupts and soft interrupts of each processor that came upon some other thread."""

    def left(one: ProcessorLoad) -> float:
        threads = (
            _ran(load, seconds)
            for load in kernel
            if load.cpu == one.cpu and load.thread.startswith(SOFTIRQ_THREAD)
        )
        return max(0.0, one.irq + one.softirq - fsum(threads))

    return {one.cpu: left(one) for one in machine.by_processor}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sum(values: Sequence[float | None], digits: int) -> float | None:
    known = [value for value in values if value is not None]
    return round(fsum(known), digits) if len(known) == len(values) else None


def _waiting(loads: Sequence[ThreadLoad], seconds: float) -> float | None:
    if seconds <= 0 or any(load.wait_s is None for load in loads):
        return None
    return round(fsum((load.wait_s or 0.0) / (load.watched_s or seconds) for load in loads), 4)


def _switches(loads: Sequence[ThreadLoad], seconds: float) -> float | None:
    if seconds <= 0 or any(load.voluntary_switches is None for load in loads):
        return None
    each = (
        (load.involuntary_switches + (load.voluntary_switches or 0)) / (load.watched_s or seconds)
        for load in loads
    )
    return round(fsum(each), 1)


def _ran(load: ThreadLoad, seconds: float) -> float:
    """The share of its own samples' time that a thread ran; its host's where that is unknown."""
    return (load.run_s or 0.0) / (load.watched_s or seconds)


def cpu_load(inputs: ProcedureInputs[CpuLoadTest]) -> Procedure[CpuLoad]:
    """Run the test: all loads in turn, and again, so that a drift is in all of them alike.

    A trial whose load the generator could not offer counts as well: processor use stands against
    what was forwarded.
    """
    test, loads = inputs.parameters, _loads(inputs)
    if not loads:
        raise NoResultError(
            f"none of the loads can be offered: at most {inputs.ceiling_fps:.0f} frames/s per "
            "interface",
            where=f"processors against load, {inputs.frame_size} octets",
            cure="set cpu_load.loads_fps in the preset lower",
        )
    trials: dict[float, list[TrialOutcome]] = {load: [] for load in loads}
    for _ in range(test.repeats):
        for load in loads:
            request = TrialRequest(
                load_fps=load,
                duration_s=test.duration_s,
                histogram_up_to_loss=-1.0,
                when_limited="count",
            )
            trials[load].append((yield request))
    every = [outcome for each in trials.values() for outcome in each]
    notes = (inputs.known.note if test.shares else "", _above_ceiling(inputs))
    return CpuLoad(
        at=tuple(_at(inputs, *of, trials[load]) for load, of in loads.items()),
        fits=_fits(every),
        note="; ".join(filter(None, (*notes, shortfall_note(every)))),
    )


def _loads(inputs: ProcedureInputs[CpuLoadTest]) -> dict[float, tuple[float | None, str]]:
    """Load -> its share of the throughput, and what it is called; rising."""
    loads: dict[float, tuple[float | None, str]] = {}
    for share in sorted(set(inputs.parameters.shares)):
        known = inputs.known
        load = min(inputs.ceiling_fps, max(inputs.min_load_fps, share * known.load_fps))
        if isclose(load, share * known.load_fps):
            loads.setdefault(load, (share, share_of_throughput(share)))
        else:  # no such share was run
            loads.setdefault(load, (load / known.load_fps, per_interface(load)))
    for load in _absolute(inputs):
        if load <= inputs.ceiling_fps * (1 + SAME_RTOL):
            loads[load] = (loads[load][0] if load in loads else None, per_interface(load))
    return dict(sorted(loads.items()))


def _absolute(inputs: ProcedureInputs[CpuLoadTest]) -> tuple[float, ...]:
    """Loads that are no shares, rising; by earlier rules there were none."""
    return tuple(sorted(set(inputs.parameters.loads_fps))) if inputs.rules > 2 else ()


def _above_ceiling(inputs: ProcedureInputs[CpuLoadTest]) -> str:
    """Which loads the generator cannot offer; "" for none."""
    above = [load for load in _absolute(inputs) if load > inputs.ceiling_fps * (1 + SAME_RTOL)]
    if not above:
        return ""
    named = ", ".join(per_interface(load) for load in above)
    return f"not measured at {named}: at most {inputs.ceiling_fps:.0f} can be offered"


def _at(
    inputs: ProcedureInputs[CpuLoadTest],
    share: float | None,
    of: str,
    trials: Sequence[TrialOutcome],
) -> CpuAt:
    uses = [{use.role: use for use in cpu_by_role(one.result)} for one in trials]
    work = [each for one in trials for each in one.result.datapath]
    polls = total_if_known(each.polls for each in work)
    empty = total_if_known(each.empty_polls for each in work)
    busy = sum(each.busy_cycles for each in work)
    idle = total_if_known(each.idle_cycles for each in work)
    return CpuAt(
        load_fps=trials[0].load_fps * inputs.in_sum,
        of=of,
        share=share,
        duration_s=trials[0].duration_s,
        forwarded_fps=spread([forwarded_fps(one) for one in trials]),
        loss_ratio=max(one.result.worst_loss_ratio() for one in trials),
        roles={
            role: cost
            for role in dict.fromkeys(role for each in uses for role in each)
            if (cost := _cost(role, uses, trials)) is not None
        },
        in_work=busy / (busy + idle) if idle is not None and busy + idle else None,
        empty_polls=empty / polls if polls and empty is not None else None,
        watched_share=_watched(trials),
        watched_s=_watched_s(trials),
        energy=_energy(trials),
        relative=relative_costs(trials),
        tester=sending_conditions(trials),
        trials=tuple(one.number for one in trials),
        disturbed=tuple(one.number for one in trials if one.verdict is not Verdict.VALID),
    )


def _cost(
    role: str, uses: Sequence[Mapping[str, RoleUse]], trials: Sequence[TrialOutcome]
) -> RoleCost | None:
    """What a role took in trials at one load; None where some did not record it."""
    busy = [each[role].busy for each in uses if role in each]
    known = [one for one in busy if one is not None]
    if len(known) < len(trials):
        return None
    # Other programs have no part in a frame.
    each = [
        value * one.result.watched_at(role) * 1e9 / frames
        for value, one in zip(known, trials, strict=True)
        if (frames := one.result.received) and not _is_others(role)
    ]
    return RoleCost(
        processors=spread(known),
        ns_per_frame=spread(each) if each else None,
        cycles_per_frame=_events_per_frame(role, "cycles", trials),
        instructions_per_frame=_events_per_frame(role, "instructions", trials),
        cache_misses_per_frame=_events_per_frame(role, "cache misses", trials),
        tlb_misses_per_frame=_events_per_frame(role, "dTLB load misses", trials),
    )


def _is_others(role: str) -> bool:
    return role.rpartition(":")[2] == OTHERS


def mean_power(result: TrialResult) -> dict[str, float]:
    """Mean power of each metered part of the machine over a trial, watts."""
    return {
        use.part: use.joules / seconds
        for use in result.energy
        if (seconds := use.watched_s or result.collected_s)
    }


def _energy(trials: Sequence[TrialOutcome]) -> dict[str, EnergyCost]:
    """What each part took that was metered in all trials at one load."""
    watts = [mean_power(one.result) for one in trials]
    joules = [{use.part: use.joules for use in one.result.energy} for one in trials]
    frames = [one.result.received for one in trials]
    return {
        part: EnergyCost(
            watts=spread([each[part] for each in watts]),
            nj_per_frame=spread(
                [each[part] * 1e9 / count for each, count in zip(joules, frames, strict=True)]
            )
            if all(frames)
            else None,
        )
        for part in watts[0]
        if all(part in each for each in watts)
    }


def _events_per_frame(role: str, event: str, trials: Sequence[TrialOutcome]) -> float | None:
    """Events of a role's threads for each frame that came back; None where one has no count.

    A trial without any count of the role, while its frames are in the sum, is one too.
    """
    each = [[one.counts.get(event) for one in t.result.events if one.role == role] for t in trials]
    whole = total_if_known(count for counts in each for count in counts)
    frames = sum(one.result.received for one in trials)
    return whole / frames if all(each) and whole is not None and frames else None


def _watched(trials: Sequence[TrialOutcome]) -> float | None:
    """Share of a processor that watching took itself, the mean of the trials."""
    shares = [
        one.result.watched_cpu_s / one.result.collected_s
        for one in trials
        if one.result.watched_cpu_s is not None and one.result.collected_s
    ]
    return fmean(shares) if shares else None


def _watched_s(trials: Sequence[TrialOutcome]) -> dict[str, float]:
    """How long the threads of each host were watched, the mean of the trials."""
    each = [{"": one.result.collected_s, **one.result.collected_at} for one in trials]
    return {
        host: fmean(seconds[host] for seconds in each)
        for host in each[0]
        if all(seconds.get(host) for seconds in each)
    }


#: Trials from which on a line is laid through them: with fewer it passes through all of them.
_LEAST_TRIALS = 3
#: Standard errors above 0 that a slope is at least, or it is scatter and no time.
_SURE_ERRORS = 2.0


def _fits(trials: Sequence[TrialOutcome]) -> dict[str, CpuFit]:
    """The straight line of processors over what was forwarded, of each role: least squares."""
    watched = [one for one in trials if one.result.collected_s]
    uses = [{use.role: use.busy for use in cpu_by_role(one.result)} for one in trials]
    if len(watched) < max(len(trials), _LEAST_TRIALS):
        return {}
    found: dict[str, CpuFit] = {}
    for role in dict.fromkeys(role for each in uses for role in each):
        known = [value for each in uses if (value := each.get(role)) is not None]
        if len(known) < len(trials) or _is_others(role):
            continue
        # Frames in the time that the role's processors are of.
        rates = [one.result.received / one.result.watched_at(role) for one in trials]
        if len(set(rates)) > 1:
            found[role] = _fit(rates, known)
    return found


def _fit(rates: Sequence[float], processors: Sequence[float]) -> CpuFit:
    """The line of one role. Neither a frame nor the time without any can take less than nothing."""
    middle, mean = fmean(rates), fmean(processors)
    pairs = list(zip(rates, processors, strict=True))
    width = fsum((rate - middle) ** 2 for rate in rates)
    slope = fsum((x - middle) * (y - mean) for x, y in pairs) / width
    idle = mean - slope * middle
    if idle < 0:
        slope, idle = fsum(x * y for x, y in pairs) / fsum(x * x for x in rates), 0.0
    beside = fsum((y - idle - slope * x) ** 2 for x, y in pairs)
    error = sqrt(beside / (len(rates) - 2) / width)
    if slope > _SURE_ERRORS * error:
        return CpuFit(ns_per_frame=slope * 1e9, idle=idle, error_ns=error * 1e9)
    took = "less" if slope < -_SURE_ERRORS * error else "no more"
    why = (
        f"not measured: it took {took} of its processor when more was forwarded, as far as the "
        "scatter of the trials tells: a thread that polls takes all that it gets"
    )
    return CpuFit(ns_per_frame=None, idle=None, error_ns=error * 1e9, why=why)
