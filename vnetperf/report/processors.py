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
    at: CpuAt
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
    Column("load", lambda r: r.at.of, words=True),
    Column("forwarded, aggregate", lambda r: units.fps(r.at.forwarded_fps.mean), brief=False),
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
    at: CpuAt
    part: str
    cost: EnergyCost


_ENERGY: tuple[Column[_Energy], ...] = (
    Column("size", lambda e: e.result.size_name, words=True),
    Column("load", lambda e: e.at.of, words=True),
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
    at: CpuAt
    part: str
    cost: RelativeCost


_RELATIVE: tuple[Column[_Relative], ...] = (
    Column("size", lambda e: e.result.size_name, words=True),
    Column("load", lambda e: e.at.of, words=True),
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


def _load_text(at: CpuAt, result: Result) -> str:
    interfaces = sum(result.loads) or result.directions
    return f"{units.fps(at.load_fps / interfaces)} an interface"


def _shown_load(found: CpuLoad) -> CpuAt | None:
    """The load that stands for the costs: the middle one of those that are no shares."""
    at = [one for one in found.at if one.share is None and one.relative]
    return at[len(at) // 2] if at else None


def cost_text(result: Result) -> str:
    """What a frame costs relative to the tester, in a line; "" where that is not recorded."""
    at = _shown_load(result.cpu_load) if result.cpu_load is not None else None
    if at is None:
        return ""
    costs = ", ".join(f"{part} {relative_text(cost)}" for part, cost in at.relative.items())
    return f"{costs} at {_load_text(at, result)}"


_CPU_FITS: tuple[Column[Entry[CpuFit]], ...] = (
    Column("size", lambda e: e.result.size_name, words=True),
    Column("role", lambda e: e.of, words=True),
    Column(
        "time of a further frame",
        lambda e: text.known(e.found.ns_per_frame, nanoseconds) or "not measured",
        bold=True,
    ),
    Column("standard error", lambda e: text.known(e.found.error_ns, nanoseconds), brief=False),
    Column(
        "processors without frames",
        lambda e: text.known(e.found.idle, lambda value: units.significant(value, 3)),
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
    known = [(r, at) for r in group.measured if r.cpu_load is not None for at in r.cpu_load.at]
    yield from group_sentences(
        (f"{r.size_text} at {at.of}", f"{polls}.") for r, at in known if (polls := polls_text(at))
    )
    yield from group_sentences(
        (
            f"{r.size_text} at {at.of}",
            f"in trial {', '.join(map(str, at.disturbed))} the generator offered less than the "
            "load, or the tester stood still.",
        )
        for r, at in known
        if at.disturbed
    )
    yield from group_sentences(
        (
            f"{r.size_text} at {at.of}{f', {host}' if host else ''}",
            f"threads were watched for {units.significant(seconds, 3)} s, of which frames were "
            f"sent in {at.duration_s:g} s. Processors are means over all of it, and the time per "
            "frame of a thread that polls has the rest in it.",
        )
        for r, at in known
        for host, seconds in at.watched_s.items()
        if seconds > _WATCHED_LONGER * at.duration_s
    )
    yield from _watching_text([at for _, at in known])
    if rows and not any(row.cost.cycles_per_frame for row in rows):
        yield "Cycles and misses were not counted; the busy threads' notes have the reason."


def _watching_text(known: Sequence[CpuAt]) -> Iterator[str]:
    """What watching took: about the same in each trial, so the less of a longer one."""
    watched = [(at.watched_share, at.watched_s.get("")) for at in known if at.watched_share]
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


def polls_text(at: CpuAt) -> str:
    """What the vSwitch's threads did by their own count; "" where they keep none."""
    found = []
    if at.in_work is not None:
        found.append(
            f"{percent(at.in_work, 3)} of the vSwitch's TSC cycles, which are wall time, were in "
            "rounds with packets"
        )
    if at.empty_polls is not None:
        found.append(f"{percent(at.empty_polls, 3)} of its polls found none")
    return ", ".join(found)


def tables(group: Group) -> Iterator[Table]:
    """Each role's share by load, energy, and what a further frame takes."""
    known = [(r, r.cpu_load) for r in group.measured if r.cpu_load is not None]
    rows = [
        _Role(r, at, name, cost)
        for r, found in known
        for at in found.at
        for name, cost in at.roles.items()
    ]
    events = [column for column in _CPU_EVENTS if any(column.cell(row) for row in rows)]
    yield Table.of("Processors by role", (*_CPU_LOAD, *events), rows, _cpu_notes(group, rows))
    relative = [
        _Relative(r, at, part, cost)
        for r, found in known
        for at in found.at
        for part, cost in at.relative.items()
    ]
    notes = [f"{RELATIVE_MEANS}. The range is that of the trials."] if relative else []
    yield Table.of("Work for a frame over the tester's", _RELATIVE, relative, notes)
    metered = [
        _Energy(r, at, part, cost)
        for r, found in known
        for at in found.at
        for part, cost in at.energy.items()
    ]
    yield Table.of("Energy by part of the machine", _ENERGY, metered, [_ENERGY_NOTE])
    fits = [Entry(r, fit, name) for r, found in known for name, fit in found.fits.items()]
    notes = [
        "The straight line (least squares) of processors over frames that came back, all trials.",
        *group_sentences(
            (f"{e.of} at {e.result.size_text}", f"{e.found.why}.") for e in fits if e.found.why
        ),
    ]
    yield Table.of("What a further frame takes", _CPU_FITS, fits, notes)


def headline(result: Result, found: CpuLoad) -> tuple[str, str]:
    """The answer in few words, and what it was found with."""
    at = _shown_load(found)
    if at is not None and VSWITCH in at.relative:
        if at.relative[VSWITCH].value is None:
            return at.relative[VSWITCH].why, _load_text(at, result)
        return f"{relative_text(at.relative[VSWITCH])} of the tester's work", _load_text(at, result)
    last = found.at[-1]
    machine = last.roles.get(MACHINE)
    if machine is None or machine.ns_per_frame is None:
        return "not recorded", ""
    each = text.mean_interval(machine.ns_per_frame, "ns")
    return f"{each} per frame", f"{units.significant(machine.processors.mean, 3)} processors"
