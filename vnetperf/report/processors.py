"""Tables of what the processors did against load, and of energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vnetperf.model import units
from vnetperf.model.outcomes import (
    VSWITCH,
    CpuAt,
    CpuFit,
    CpuLoad,
    EnergyCost,
    RelativeCost,
    RoleCost,
)
from vnetperf.model.result import MACHINE, Result
from vnetperf.model.units import nanoseconds, percent
from vnetperf.report import text
from vnetperf.report.summary import Entry, Group
from vnetperf.report.table import Column, Table, group_sentences


@dataclass(frozen=True, slots=True)
class _Role:
    """What a role took at one load."""

    result: Result
    load: CpuAt
    name: str
    cost: RoleCost

    def counted(self, event: str) -> str | None:
        value = getattr(self.cost, f"{event}_per_frame")
        return None if value is None else units.significant(value, 3)


def _instructions_per_cycle(role: _Role) -> str | None:
    cycles, instructions = role.cost.cycles_per_frame, role.cost.instructions_per_frame
    return units.significant(instructions / cycles, 3) if cycles and instructions else None


_CPU_LOAD: tuple[Column[_Role], ...] = (
    Column("size", lambda r: r.result.size_name, words=True),
    Column("load", lambda r: r.load.of, words=True),
    Column("forwarded, aggregate", lambda r: units.fps(r.load.forwarded_fps.mean), brief=False),
    Column("role", lambda r: r.name, words=True),
    Column("processors", lambda r: units.significant(r.cost.processors.mean, 3)),
    Column(
        "time per frame",
        lambda r: text.mean_interval(r.cost.ns_per_frame, "ns") if r.cost.ns_per_frame else None,
        bold=True,
    ),
)
_CPU_EVENTS: tuple[Column[_Role], ...] = (
    Column("cycles per frame", lambda r: r.counted("cycles")),
    Column("instructions per cycle", _instructions_per_cycle),
    Column("LLC misses per frame", lambda r: r.counted("cache_misses"), brief=False),
    Column("dTLB misses per frame", lambda r: r.counted("tlb_misses"), brief=False),
)


@dataclass(frozen=True, slots=True)
class _Energy:
    """What a metered part of the machine took at one load."""

    result: Result
    load: CpuAt
    part: str
    cost: EnergyCost


_ENERGY: tuple[Column[_Energy], ...] = (
    Column("size", lambda e: e.result.size_name, words=True),
    Column("load", lambda e: e.load.of, words=True),
    Column("part", lambda e: e.part, words=True),
    Column("mean power", lambda e: f"{units.significant(e.cost.watts.mean, 3)} W"),
    Column(
        "energy per frame",
        lambda e: (
            f"{units.significant(e.cost.nj_per_frame.mean, 3)} nJ" if e.cost.nj_per_frame else None
        ),
        bold=True,
    ),
)
_ENERGY_NOTE = (
    "All that the part of the machine took over the trials, with what it takes without frames, "
    "for each frame that came back. RAPL meters processors and memory alone."
)


@dataclass(frozen=True, slots=True)
class _Relative:
    """What a part of the DUT took at one load, over what the tester took."""

    result: Result
    load: CpuAt
    part: str
    cost: RelativeCost


_RELATIVE: tuple[Column[_Relative], ...] = (
    Column("size", lambda e: e.result.size_name, words=True),
    Column("load", lambda e: e.load.of, words=True),
    Column("part", lambda e: e.part, words=True),
    Column("work over the tester's", lambda e: relative_text(e.cost), bold=True),
    Column("trials", lambda e: str(len(e.cost.values)) if e.cost.values else None),
    Column("by", lambda e: e.cost.by or None, words=True, brief=False),
)
#: What the number means.
RELATIVE_MEANS = (
    "What a frame costs, lower is cheaper: the tester's own work on the same frames in the same "
    "trials is 1"
)


def relative_text(cost: RelativeCost) -> str:
    """A cost with the range of its trials, "1.42 (1.39 to 1.47)", or why there is none."""
    if cost.value is None or cost.least is None or cost.most is None:
        return cost.why
    value, least, most = (units.significant(n, 3) for n in (cost.value, cost.least, cost.most))
    return f"{value} ({least} to {most})"


def _load_text(load: CpuAt, result: Result) -> str:
    interfaces = sum(result.loads) or result.directions
    return f"{units.fps(load.load_fps / interfaces)} an interface"


def _shown_load(cpu_load: CpuLoad) -> CpuAt | None:
    """The load that stands for the costs: the middle one of those that are no shares."""
    loads = [load for load in cpu_load.at if load.share is None and load.relative]
    return loads[len(loads) // 2] if loads else None


def cost_text(result: Result) -> str:
    """What a frame costs relative to the tester, in a line; "" where that is not recorded."""
    load = _shown_load(result.cpu_load) if result.cpu_load is not None else None
    if load is None:
        return ""
    costs = ", ".join(f"{part} {relative_text(cost)}" for part, cost in load.relative.items())
    return f"{costs} at {_load_text(load, result)}"


_CPU_FITS: tuple[Column[Entry[CpuFit]], ...] = (
    Column("size", lambda e: e.result.size_name, words=True),
    Column("role", lambda e: e.label, words=True),
    Column(
        "time of a further frame",
        lambda e: text.text_or_none(e.outcome.ns_per_frame, nanoseconds) or "not measured",
        bold=True,
    ),
    Column(
        "standard error", lambda e: text.text_or_none(e.outcome.error_ns, nanoseconds), brief=False
    ),
    Column(
        "processors without frames",
        lambda e: text.text_or_none(e.outcome.idle, lambda value: units.significant(value, 3)),
    ),
)


#: Ratio of the time in which threads were watched to that of sending from which on it is stated.
_WATCHED_LONGER = 1.05


def _cpu_notes(group: Group, rows: Sequence[_Role]) -> Iterator[str]:
    yield (
        "Processors that were kept busy: 1 is all the time of one; the roles add up to the "
        "machine's. Time per frame: processor time for each frame that came back, of a thread that "
        "polls with its empty polls. kernel: interrupts, soft interrupts and its own threads, for "
        "the tester's frames too; others: programs that are no part of the deployment."
    )
    loads = [(r, load) for r in group.measured if r.cpu_load is not None for load in r.cpu_load.at]
    yield from group_sentences(
        (f"{r.size_text} at {load.of}", f"{polls}.")
        for r, load in loads
        if (polls := polls_text(load))
    )
    yield from group_sentences(
        (
            f"{r.size_text} at {load.of}",
            f"in trial {', '.join(map(str, load.disturbed))} the generator offered less than the "
            "load, or the tester stood still.",
        )
        for r, load in loads
        if load.disturbed
    )
    yield from group_sentences(
        (
            f"{r.size_text} at {load.of}{f', {host}' if host else ''}",
            f"threads were watched for {units.significant(seconds, 3)} s, of which frames were "
            f"sent in {load.duration_s:g} s. Processors are means over all of it, and the time per "
            "frame of a thread that polls has the rest in it.",
        )
        for r, load in loads
        for host, seconds in load.watched_s.items()
        if seconds > _WATCHED_LONGER * load.duration_s
    )
    yield from _watching_text([load for _, load in loads])
    if rows and not any(row.cost.cycles_per_frame for row in rows):
        yield "Cycles and misses were not counted; the busy threads' notes have the reason."


def _watching_text(loads: Sequence[CpuAt]) -> Iterator[str]:
    """What watching took: about the same in each trial, so the less of a longer one."""
    watched = [(load.watched_share, load.watched_s.get("")) for load in loads if load.watched_share]
    if not watched:
        return
    share, seconds = max(watched)
    if seconds is None:
        yield f"Watching itself took {percent(share, 2)} of a processor at most."
        return
    yield (
        f"Watching itself took at most {nanoseconds(share * seconds * 1e9)} of a processor in each "
        f"trial, {percent(share, 2)} of {units.significant(seconds, 3)} s: it is before and after "
        "the traffic, whatever the trial's length."
    )


def polls_text(load: CpuAt) -> str:
    """What the vSwitch's threads did by their own count; "" where they keep none."""
    parts = []
    if load.in_work is not None:
        parts.append(
            f"{percent(load.in_work, 3)} of the vSwitch's TSC cycles, which are wall time, were in "
            "rounds with packets"
        )
    if load.empty_polls is not None:
        parts.append(f"{percent(load.empty_polls, 3)} of its polls found none")
    return ", ".join(parts)


def tables(group: Group) -> Iterator[Table]:
    """Each role's share by load, energy, and what a further frame takes."""
    cpu_loads = [(r, r.cpu_load) for r in group.measured if r.cpu_load is not None]
    rows = [
        _Role(r, load, name, cost)
        for r, cpu_load in cpu_loads
        for load in cpu_load.at
        for name, cost in load.roles.items()
    ]
    events = [column for column in _CPU_EVENTS if any(column.cell(row) for row in rows)]
    yield Table.from_items(
        "Processors by role", (*_CPU_LOAD, *events), rows, _cpu_notes(group, rows)
    )
    relative = [
        _Relative(r, load, part, cost)
        for r, cpu_load in cpu_loads
        for load in cpu_load.at
        for part, cost in load.relative.items()
    ]
    notes = [f"{RELATIVE_MEANS}. The range is that of the trials."] if relative else []
    yield Table.from_items("Work for a frame over the tester's", _RELATIVE, relative, notes)
    metered = [
        _Energy(r, load, part, cost)
        for r, cpu_load in cpu_loads
        for load in cpu_load.at
        for part, cost in load.energy.items()
    ]
    yield Table.from_items("Energy by part of the machine", _ENERGY, metered, [_ENERGY_NOTE])
    fits = [Entry(r, fit, name) for r, cpu_load in cpu_loads for name, fit in cpu_load.fits.items()]
    notes = [
        "The straight line (least squares) of processors over frames that came back, all trials.",
        *group_sentences(
            (f"{e.label} at {e.result.size_text}", f"{e.outcome.why}.")
            for e in fits
            if e.outcome.why
        ),
    ]
    yield Table.from_items("What a further frame takes", _CPU_FITS, fits, notes)


def headline(result: Result, cpu_load: CpuLoad) -> tuple[str, str]:
    """The answer in few words, and what it was found with."""
    load = _shown_load(cpu_load)
    if load is not None and VSWITCH in load.relative:
        cost, words = load.relative[VSWITCH], _load_text(load, result)
        if cost.value is None:
            return cost.why, words
        return f"{relative_text(cost)} of the tester's work", words
    last = cpu_load.at[-1]
    machine = last.roles.get(MACHINE)
    if machine is None or machine.ns_per_frame is None:
        return "not recorded", ""
    per_frame = text.mean_interval(machine.ns_per_frame, "ns")
    return f"{per_frame} per frame", f"{units.significant(machine.processors.mean, 3)} processors"
