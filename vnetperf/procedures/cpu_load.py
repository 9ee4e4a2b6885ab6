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
from typing import Any

from vnetperf.model.errors import NoResultError
from vnetperf.model.figures import Figure, figure
from vnetperf.model.machine_load import (
    KERNEL,
    SOFTIRQ_THREAD,
    MachineLoad,
    ProcessorLoad,
    ThreadLoad,
)
from vnetperf.model.outcomes import VSWITCH, CpuAt, CpuFit, CpuLoad, EnergyCost, RoleCost
from vnetperf.model.parameters import CpuLoadTest
from vnetperf.model.result import MACHINE, OTHERS, Result, RoleUse, total_if_known
from vnetperf.model.trial import SAME_RTOL, TrialOutcome, TrialRequest, TrialResult, Verdict
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs, equal_trials
from vnetperf.procedures.base import (
    name_share,
    per_interface,
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
    uses: list[RoleUse] = []
    for host, loads in of_host.items():
        machine = result.machines.get(host, result.machine)
        if loads or not (result.machines and not host):
            unknown = (f"{host}: cpu" if host else "cpu") in result.uncollected
            seconds = 0.0 if unknown else result.watch_time(f"{host}:" if host else "")
            uses += _list_uses(f"{host}:" if host else "", loads, machine, seconds)
    return tuple(uses)


def _list_uses(
    prefix: str, loads: Sequence[ThreadLoad], machine: MachineLoad | None, seconds: float
) -> Iterator[RoleUse]:
    by_number = {
        processor.cpu: processor
        for processor in (machine.by_processor if machine is not None else ())
    }
    kernel = [load for load in loads if load.role == prefix + KERNEL]
    deployed = [load for load in loads if load.role != prefix + KERNEL]
    cpus = {
        role: {load.cpu for load in deployed if load.role == role}
        for role in dict.fromkeys(load.role for load in deployed)
    }
    apart = [load for load in kernel if not load.thread.startswith(SOFTIRQ_THREAD)]
    recorded = machine is not None and _is_recorded(loads, machine, seconds)
    times: list[float | None] = [None] * (len(deployed) + len(apart))
    if machine is not None and recorded:
        upon = {} if machine.interrupts_apart else _interrupts_by_cpu(kernel, machine, seconds)
        surely = machine.interrupts_apart is not None
        times = _subtract_interrupts([*deployed, *apart], upon, seconds, surely=surely)
    busy = {
        role: _sum(
            [time for load, time in zip(deployed, times, strict=False) if load.role == role], 9
        )
        for role in cpus
    }
    for role, numbers in cpus.items():
        of_role = [load for load in deployed if load.role == role]
        processors = [by_number[cpu] for cpu in sorted(numbers) if cpu in by_number]
        is_complete = len(processors) == len(numbers)
        yield RoleUse(
            role=role,
            user=round(sum(load.user for load in of_role), 3),
            system=round(sum(load.system for load in of_role), 3),
            softirq=round(sum(processor.softirq for processor in processors), 4)
            if is_complete
            else None,
            guest=_sum([load.guest for load in of_role], 3),
            steal=round(sum(processor.steal for processor in processors), 4)
            if is_complete
            else None,
            processors=tuple(sorted(numbers)),
            shared_with=tuple(
                other for other, used in cpus.items() if other != role and used & numbers
            ),
            busy=_rounded(busy[role]),
            waiting=_waiting(of_role, seconds),
            switches_per_s=_switches(of_role, seconds),
        )
    if not by_number:
        return
    all_processors = list(by_number.values())
    all_numbers = tuple(sorted(by_number))
    interrupts = fsum(processor.irq + processor.softirq for processor in all_processors)
    used = fsum(processor.busy for processor in all_processors)
    if recorded:
        forwarding = _sum([interrupts, *times[len(deployed) :]], 9)
        yield RoleUse(
            role=prefix + KERNEL,
            system=round(sum(load.system for load in kernel), 3),
            softirq=round(sum(processor.softirq for processor in all_processors), 3),
            processors=all_numbers,
            busy=_rounded(forwarding),
            waiting=_waiting(kernel, seconds),
            switches_per_s=_switches(kernel, seconds),
        )
        named = _sum([forwarding, *busy.values()], 9)
        rest = (
            None if named is None else _rest(used - named, len(all_processors) * _TICK_S / seconds)
        )
        yield RoleUse(role=prefix + OTHERS, processors=all_numbers, busy=_rounded(rest))
    names = ("user", "system", "softirq", "guest", "steal")
    yield RoleUse(
        role=prefix + MACHINE,
        processors=all_numbers,
        busy=round(used, 4) if recorded else None,
        backlog_dropped=total_if_known(processor.backlog_dropped for processor in all_processors),
        backlog_squeezed=total_if_known(processor.backlog_squeezed for processor in all_processors),
        **{
            name: round(sum(getattr(processor, name) for processor in all_processors), 3)
            for name in names
        },
    )


def _rest(processors: float, resolution: float) -> float | None:
    """What is left of a time; None where more was taken from it than it can be wrong by."""
    return max(0.0, processors) if processors >= -resolution else None


def _subtract_interrupts(
    loads: Sequence[ThreadLoad], upon_any: Mapping[int, float], seconds: float, *, surely: bool
) -> list[float | None]:
    """Processors that each thread kept busy itself, without the interrupts that came upon it.

    None where they may have come upon it, but it is not known whether (`surely`) they count there.
    """
    in_kernel: dict[int, float] = {}
    for load in loads:
        in_kernel[load.cpu] = in_kernel.get(load.cpu, 0.0) + load.system
    times: list[float | None] = []
    for load in loads:
        part = load.system / in_kernel[load.cpu] if in_kernel[load.cpu] else 0.0
        upon = min(load.system, part * upon_any.get(load.cpu, 0.0))
        unknown = upon > 0 and not surely
        times.append(None if unknown else max(0.0, _ran(load, seconds) - upon))
    return times


def vswitch_run_share(thread: str, result: TrialResult) -> float | None:
    """Share of a trial in which a thread of the vSwitch had a processor, 0..1; None: not known.

    Args:
        thread: Its name as the vSwitch has it: the kernel's, or "core 1". A name that stands for
            all threads gives the mean of their shares.
        result: The trial.
    """
    host, _, name = thread.rpartition(": ")
    of_switch = []
    for load in result.threads:
        load_host, _, role = load.role.rpartition(":")
        if load_host == host and role not in (TESTER, KERNEL) and not role.startswith("vnf"):
            of_switch.append(load)
    named = [
        load
        for load in of_switch
        if load.thread.rpartition(": ")[2] == name or name == f"core {load.cpu}"
    ]
    shares = []
    for load in named or of_switch:
        seconds = load.watched_s or result.watch_time(load.role)
        if load.run_s is None or seconds <= 0:
            return None
        shares.append(min(1.0, load.run_s / seconds))
    return fmean(shares) if shares else None


def _is_recorded(loads: Sequence[ThreadLoad], machine: MachineLoad | None, seconds: float) -> bool:
    """Whether the time of all threads that matter is known."""
    if machine is None or not machine.by_processor or seconds <= 0:
        return False
    return all(processor.run_s is not None for processor in loads)


def _interrupts_by_cpu(
    kernel: Sequence[ThreadLoad], machine: MachineLoad, seconds: float
) -> dict[int, float]:
    """Interrupts and soft interrupts of each processor that came upon some other thread."""

    def unattributed(processor: ProcessorLoad) -> float:
        threads = (
            _ran(load, seconds)
            for load in kernel
            if load.cpu == processor.cpu and load.thread.startswith(SOFTIRQ_THREAD)
        )
        return max(0.0, processor.irq + processor.softirq - fsum(threads))

    return {processor.cpu: unattributed(processor) for processor in machine.by_processor}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sum(values: Sequence[float | None], digits: int) -> float | None:
    numbers = [value for value in values if value is not None]
    return round(fsum(numbers), digits) if len(numbers) == len(values) else None


def _waiting(loads: Sequence[ThreadLoad], seconds: float) -> float | None:
    if seconds <= 0 or any(load.wait_s is None for load in loads):
        return None
    return round(fsum((load.wait_s or 0.0) / (load.watched_s or seconds) for load in loads), 4)


def _switches(loads: Sequence[ThreadLoad], seconds: float) -> float | None:
    if seconds <= 0 or any(load.voluntary_switches is None for load in loads):
        return None
    rates = (
        (load.involuntary_switches + (load.voluntary_switches or 0)) / (load.watched_s or seconds)
        for load in loads
    )
    return round(fsum(rates), 1)


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
    outcomes = [outcome for repeats in trials.values() for outcome in repeats]
    notes = (inputs.required_throughput.note if test.shares else "", _above_ceiling(inputs))
    return CpuLoad(
        at=tuple(
            _merge_trials(inputs, share, load_name, trials[load])
            for load, (share, load_name) in loads.items()
        ),
        fits=_fits(outcomes),
        note="; ".join(filter(None, (*notes, shortfall_note(outcomes)))),
    )


def _loads(inputs: ProcedureInputs[CpuLoadTest]) -> dict[float, tuple[float | None, str]]:
    """Load -> its share of the throughput, and what it is called; rising."""
    loads: dict[float, tuple[float | None, str]] = {}
    for share in sorted(set(inputs.parameters.shares)):
        throughput = inputs.required_throughput
        load = min(inputs.ceiling_fps, max(inputs.min_load_fps, share * throughput.load_fps))
        if isclose(load, share * throughput.load_fps):
            loads.setdefault(load, (share, name_share(share)))
        else:  # no such share was run
            loads.setdefault(load, (load / throughput.load_fps, per_interface(load)))
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


def _merge_trials(
    inputs: ProcedureInputs[CpuLoadTest],
    share: float | None,
    load_name: str,
    trials: Sequence[TrialOutcome],
) -> CpuAt:
    uses = [{use.role: use for use in cpu_by_role(trial.result)} for trial in trials]
    work = [thread for trial in trials for thread in trial.result.datapath]
    polls = total_if_known(thread.polls for thread in work)
    empty = total_if_known(thread.empty_polls for thread in work)
    busy = sum(thread.busy_cycles for thread in work)
    idle = total_if_known(thread.idle_cycles for thread in work)
    return CpuAt(
        load_fps=trials[0].load_fps * inputs.in_sum,
        of=load_name,
        share=share,
        duration_s=trials[0].duration_s,
        forwarded_fps=spread([forwarded_fps(trial) for trial in trials]),
        loss_ratio=max(trial.result.worst_loss_ratio() for trial in trials),
        roles={
            role: cost
            for role in dict.fromkeys(role for by_role in uses for role in by_role)
            if (cost := _cost(role, uses, trials)) is not None
        },
        in_work=busy / (busy + idle) if idle is not None and busy + idle else None,
        empty_polls=empty / polls if polls and empty is not None else None,
        watched_share=_watched(trials),
        watched_s=_watched_s(trials),
        energy=_energy(trials),
        relative=relative_costs(trials),
        tester=sending_conditions(trials),
        trials=tuple(trial.number for trial in trials),
        disturbed=tuple(trial.number for trial in trials if trial.verdict is not Verdict.VALID),
    )


def _cost(
    role: str, uses: Sequence[Mapping[str, RoleUse]], trials: Sequence[TrialOutcome]
) -> RoleCost | None:
    """What a role took in trials at one load; None where some did not record it."""
    busy = [by_role[role].busy for by_role in uses if role in by_role]
    measured = [processors for processors in busy if processors is not None]
    if len(measured) < len(trials):
        return None
    # Other programs have no part in a frame.
    ns_per_frame = [
        processors * trial.result.watch_time(role) * 1e9 / frames
        for processors, trial in zip(measured, trials, strict=True)
        if (frames := trial.result.received) and not _is_others(role)
    ]
    return RoleCost(
        processors=spread(measured),
        ns_per_frame=spread(ns_per_frame) if ns_per_frame else None,
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
    watts = [mean_power(trial.result) for trial in trials]
    joules = [{use.part: use.joules for use in trial.result.energy} for trial in trials]
    frames = [trial.result.received for trial in trials]
    return {
        part: EnergyCost(
            watts=spread([by_part[part] for by_part in watts]),
            nj_per_frame=spread(
                [by_part[part] * 1e9 / count for by_part, count in zip(joules, frames, strict=True)]
            )
            if all(frames)
            else None,
        )
        for part in watts[0]
        if all(part in by_part for by_part in watts)
    }


def _events_per_frame(role: str, event: str, trials: Sequence[TrialOutcome]) -> float | None:
    """Events of a role's threads for each frame that came back; None where one has no count.

    A trial without any count of the role, while its frames are in the sum, is one too.
    """
    by_trial = [
        [events.counts.get(event) for events in trial.result.events if events.role == role]
        for trial in trials
    ]
    total = total_if_known(count for counts in by_trial for count in counts)
    frames = sum(trial.result.received for trial in trials)
    return total / frames if all(by_trial) and total is not None and frames else None


def _watched(trials: Sequence[TrialOutcome]) -> float | None:
    """Share of a processor that watching took itself, the mean of the trials."""
    shares = [
        trial.result.watched_cpu_s / trial.result.collected_s
        for trial in trials
        if trial.result.watched_cpu_s is not None and trial.result.collected_s
    ]
    return fmean(shares) if shares else None


def _watched_s(trials: Sequence[TrialOutcome]) -> dict[str, float]:
    """How long the threads of each host were watched, the mean of the trials."""
    seconds_by_host = [
        {"": trial.result.collected_s, **trial.result.collected_at} for trial in trials
    ]
    return {
        host: fmean(seconds[host] for seconds in seconds_by_host)
        for host in seconds_by_host[0]
        if all(seconds.get(host) for seconds in seconds_by_host)
    }


#: Trials from which on a line is laid through them: with fewer it passes through all of them.
_LEAST_TRIALS = 3
#: Standard errors above 0 that a slope is at least, or it is scatter and no time.
_SURE_ERRORS = 2.0


def _fits(trials: Sequence[TrialOutcome]) -> dict[str, CpuFit]:
    """The straight line of processors over what was forwarded, of each role: least squares."""
    watched = [trial for trial in trials if trial.result.collected_s]
    uses = [{use.role: use.busy for use in cpu_by_role(trial.result)} for trial in trials]
    if len(watched) < max(len(trials), _LEAST_TRIALS):
        return {}
    fits: dict[str, CpuFit] = {}
    for role in dict.fromkeys(role for by_role in uses for role in by_role):
        processors = [value for by_role in uses if (value := by_role.get(role)) is not None]
        if len(processors) < len(trials) or _is_others(role):
            continue
        # Frames in the time that the role's processors are of.
        rates = [trial.result.received / trial.result.watch_time(role) for trial in trials]
        if len(set(rates)) > 1:
            fits[role] = _fit(rates, processors)
    return fits


def _fit(rates: Sequence[float], processors: Sequence[float]) -> CpuFit:
    """The line of one role. Neither a frame nor the time without any can take less than nothing."""
    middle, mean = fmean(rates), fmean(processors)
    pairs = list(zip(rates, processors, strict=True))
    width = fsum((rate - middle) ** 2 for rate in rates)
    slope = fsum((x - middle) * (y - mean) for x, y in pairs) / width
    idle = mean - slope * middle
    if idle < 0:
        slope, idle = fsum(x * y for x, y in pairs) / fsum(x * x for x in rates), 0.0
    residual = fsum((y - idle - slope * x) ** 2 for x, y in pairs)
    error = sqrt(residual / (len(rates) - 2) / width)
    if slope > _SURE_ERRORS * error:
        return CpuFit(ns_per_frame=slope * 1e9, idle=idle, error_ns=error * 1e9)
    took = "less" if slope < -_SURE_ERRORS * error else "no more"
    reason = (
        f"not measured: it took {took} of its processor when more was forwarded, as far as the "
        "scatter of the trials tells: a thread that polls takes all that it gets"
    )
    return CpuFit(ns_per_frame=None, idle=None, error_ns=error * 1e9, why=reason)


def _list_figures(_: Result, cpu_load: CpuLoad) -> Iterator[Figure]:
    """Processor time by role and load; what a further frame takes is of all loads together."""
    for load in cpu_load.at:
        yield figure("load", "fps", load.load_fps, load.of)
        yield figure("forwarding_rate", "fps", load.forwarded_fps, load.of)
        yield figure("loss_ratio", "ratio", load.loss_ratio, load.of)
        yield figure("datapath_in_work", "ratio", load.in_work, load.of)
        yield figure("datapath_empty_polls", "ratio", load.empty_polls, load.of)
        yield figure("watching_processors", "", load.watched_share, load.of)
        for part, cost in load.relative.items():
            label = f"{part}'s work per frame over the tester's at {load.of}"
            about: dict[str, Any] = {
                "main": part == VSWITCH and load.share is None,
                "load_fps": load.load_fps,
                "conditions": {
                    f"tester's {name}": description for name, description in load.tester.items()
                },
                "why": cost.why.removeprefix("not measured: "),
            }
            yield figure("relative_cost", "", cost.value, load.of, part, less=label, **about)
        for part, energy in load.energy.items():
            yield figure("power", "W", energy.watts, load.of, part)
            label = f"energy per frame of {part} at {load.of}"
            about = {"less": label, "load_fps": load.load_fps}
            yield figure("energy_per_frame", "nJ", energy.nj_per_frame, load.of, part, **about)
        for role, times in load.roles.items():
            place = (load.of, role)
            yield figure("processors", "", times.processors, *place)
            about = {"main": role == MACHINE and load.share == 1, "load_fps": load.load_fps}
            if role.rpartition(":")[2] != OTHERS:  # no part of the deployment
                label = f"processor time per frame of {role} at {load.of}"
                yield figure(
                    "time_per_frame", "ns", times.ns_per_frame, *place, less=label, **about
                )
            for event in ("cycles", "instructions", "cache_misses", "tlb_misses"):
                yield figure(f"{event}_per_frame", "", getattr(times, f"{event}_per_frame"), *place)
    for role, fit in cpu_load.fits.items():
        judged = role.rpartition(":")[2] not in ("tester", OTHERS) and fit.is_clear
        label = f"processor time of a further frame, {role}" if judged else ""
        about = {"less": label, "why": fit.why}
        yield figure("time_of_further_frame", "ns", fit.ns_per_frame, "", role, **about)
        yield figure("processors_without_frames", "", fit.idle, "", role)


class CpuLoadProcedure(FrameTest):
    """Processors by role against load."""

    name = "cpu_load"
    run = staticmethod(cpu_load)
    list_figures = staticmethod(_list_figures)
    section = "cpu_load"
    fills = "cpu_load"
    takes_shares = True
    needs_carried = True

    @staticmethod
    def estimate(parameters: CpuLoadTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        loads = len(set(parameters.shares)) + len(set(parameters.loads_fps))
        return equal_trials(loads * parameters.repeats, parameters.duration_s)
