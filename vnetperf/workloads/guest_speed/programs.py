"""The speed of VNFs' processors and memory: a tool in all of them at once, then on the host.

The host's programs run on the processors that the VNFs have, so that the difference is what a
VNF's own kernel, virtual processors and page tables cost.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from vnetperf.host.threads import list_threads
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.errors import CapabilityError, GeneratorError
from vnetperf.model.scenario import Pollers
from vnetperf.model.transfer import EndFacts, Figures, Flow, Transfer, TransferSpec
from vnetperf.plugin.endpoint_tool import EndpointTool, Sockets, ToolOutput, UnreadableError
from vnetperf.plugin.site import INSIDE_ADDRESS, POLL_S, ProcessorWatch, WorkloadSite
from vnetperf.plugin.tool_runs import (
    load_tool,
    processor_seconds,
    quote_tail,
    read_tool_version,
    sum_cpu_times,
    sum_figures,
)
from vnetperf.plugin.vnf import EndpointHost
from vnetperf.virt.container import Container, ContainerProgram
from vnetperf.virt.endpoint import CpuTime, EndpointProgram, GuestPlace

#: Longest waits: beyond the time of a tool, whose last block of memory takes seconds where it is
#: emulated, and for its threads, seconds.
GRACE_S, THREADS_S = 60.0, 2.0
#: Event of the collector `events`.
_TLB_MISSES = "dTLB load misses"
#: What a tool that is alone is given for addresses.
_NOWHERE = Sockets(server="", client="", port=0)


@dataclass(frozen=True, slots=True)
class _Seat:
    """Where one program runs.

    Attributes:
        label: For messages and the report: "vnf0 (VM)".
        number: Of the VNF.
        place: Where it is started.
        cpus: Processors of the machine that its work runs on.
    """

    label: str
    number: int
    place: Container | GuestPlace
    cpus: tuple[int, ...]

    def pollers(self, program: EndpointProgram) -> Pollers:
        """Threads of the machine that the work is done by."""
        role = f"vnf{self.number}"
        if isinstance(program, ContainerProgram):
            return Pollers(role=role, pid=program.pid, thread_prefix="")
        pid = self.place.guest.pid if isinstance(self.place, GuestPlace) else 0
        return Pollers(role=role, pid=pid, thread_prefix="CPU ")


@dataclass(frozen=True, slots=True)
class _Work:
    """What all programs came to that ran at once."""

    flows: tuple[Flow, ...]
    version: str
    elapsed_s: float
    at_once: float | None
    spent: CpuTime | None
    events_why: str
    machine: dict[str, Any]  # What the machine did meanwhile: fields of a transfer

    @property
    def figures(self) -> Figures:
        """All together."""
        total = sum_figures([flow.figures for flow in self.flows])
        return total.model_copy(update={"at_once": self.at_once})


def run_in_guests(site: WorkloadSite, specs: Sequence[TransferSpec]) -> tuple[Transfer, ...]:
    """Measure one kind after the other: in all VNFs at once, then on the host."""
    vnfs = [vnf for vnf in site.vnfs if isinstance(vnf, EndpointHost)]
    if not vnfs or len(vnfs) < len(site.vnfs):
        where = site.plan.scenario.id
        raise CapabilityError("it has no VNFs that programs can run in", where=where)
    machine = site.machine
    allowed = site.plan.testbed.cores.allowed or [cpu.cpu for cpu in machine.facts.cpus]
    with ExitStack() as undo:
        inside, outside = [], []
        for vnf in vnfs:
            end = undo.enter_context(vnf.inside(INSIDE_ADDRESS))
            place = end.place
            if not isinstance(place, Container | GuestPlace):
                raise CapabilityError("it runs no programs that can be measured", where=end.what)
            cpus = place.cpus or tuple(allowed)
            inside.append(_Seat(end.what, vnf.number, place, cpus))
            host_place = Container(machine, f"beside-vnf{vnf.number}", cpus)
            host_place.enter(machine.netns)
            outside.append(_Seat(f"host beside {end.what}", vnf.number, host_place, cpus))
        return tuple(_measure(spec, inside, outside, site) for spec in specs)


def _measure(
    spec: TransferSpec,
    inside: Sequence[_Seat],
    outside: Sequence[_Seat],
    site: WorkloadSite,
) -> Transfer:
    processors = site.watch_processors([seat.place for seat in inside])
    tool = load_tool(spec)
    if spec.warmup_s:
        before = spec.model_copy(update={"duration_s": spec.warmup_s})
        for seats in (inside, outside):
            _run_programs(tool, before, seats, site, processors)
    work = _run_programs(tool, spec, inside, site, processors)
    host = _run_programs(tool, spec, outside, site, processors)
    versions = dict.fromkeys((work.version, host.version))
    notes = [*work.figures.notes, *(f"on the host {text}" for text in host.figures.notes)]
    if len(versions) > 1:
        notes.append(
            f"{tool.name} is of two versions, whose figures are not comparable: {work.version} in "
            f"VNFs, {host.version} on the host"
        )
    return Transfer(
        spec=spec,
        **work.figures.model_dump() | {"notes": tuple(notes)},
        flows=work.flows,
        version=" in VNFs, on the host ".join(versions),
        elapsed_s=round(work.elapsed_s, 3),
        client=EndFacts(
            place=", ".join(seat.label for seat in inside),
            cpus="; ".join(seat.place.processors for seat in inside),
            **processor_seconds(work.spent),
        ),
        on_host=host.figures,
        events_why=work.events_why or host.events_why,
        **work.machine | _most(work.machine, host.machine),
    )


def _most(inside: Mapping[str, float], outside: Mapping[str, float]) -> dict[str, float]:
    """What others took where they took more: their ratio is of both."""
    return {
        name: max(inside[name], outside[name])
        for name in ("others", "stolen")
        if name in inside and name in outside
    }


def _run_programs(
    tool: EndpointTool,
    spec: TransferSpec,
    seats: Sequence[_Seat],
    site: WorkloadSite,
    processors: ProcessorWatch,
) -> _Work:
    """Run a program at each seat at once."""
    where = f"{tool.name} {spec.kind}"
    versions = [read_tool_version(tool, seat.place, seat.label) for seat in seats]
    stolen = [_processor_times(seat.place) for seat in seats]
    programs: list[EndpointProgram] = []
    began = time.monotonic()
    ran: list[list[float]] = []
    try:
        for seat in seats:
            programs.append(seat.place.start(tool.name, tool.client(_NOWHERE, spec)))
            ran.append([time.monotonic()])
        _wait_for_threads(programs, spec.instances)
        pairs = tuple(zip(seats, programs, strict=True))
        collectors = site.watch_threads(tuple(seat.pollers(program) for seat, program in pairs))
        collectors.start()
        watched = time.monotonic()
        processors.start()
        limit_s = spec.duration_s + GRACE_S
        running = list(zip(seats, programs, ran, strict=True))

        def all_ended() -> bool:
            site.watch()
            for seat, program, times in tuple(running):
                if code := program.ended():
                    text = f"it has ended with status {code} in {seat.label}"
                    raise GeneratorError(text, where=where, cure=quote_tail(program))
                if code is not None:
                    times.append(time.monotonic())
                    running.remove((seat, program, times))
            return not running

        wait_for(
            all_ended,
            limit_s,
            f"the end of {tool.name}",
            poll_s=POLL_S,
            error=lambda: GeneratorError(
                f"it does not end within {limit_s:g} s in {running[0][0].label}", where=where
            ),
        )
        elapsed_s = time.monotonic() - began
        spent = processors.stop()
        sampled = collectors.stop()
    finally:
        for program in programs:
            program.end(signal.SIGKILL)
    # The watch goes on while others still run, and a program at its end misses nothing.
    worked_s = {
        f"vnf{seat.number}": last - max(first, watched)
        for seat, (first, last) in zip(seats, ran, strict=True)
    }
    misses = compute_misses(sampled, worked_s)
    flows = []
    for (seat, program), version, before in zip(pairs, versions, stolen, strict=True):
        try:
            figures = tool.read(ToolOutput(program.output(), "", version), spec)
        except UnreadableError as error:
            raise GeneratorError(f"{seat.label}: {error}", where=where) from error
        counted = {
            "steal": _share_stolen(before, _processor_times(seat.place)),
            "tlb_misses_per_second": misses.get(f"vnf{seat.number}"),
        }
        figures = figures.model_copy(update=counted)
        flows.append(Flow(way="forth", port=seat.number, figures=figures))
    return _Work(
        flows=tuple(flows),
        version=" and ".join(dict.fromkeys(tool.version(ToolOutput("", "", v)) for v in versions)),
        elapsed_s=elapsed_s,
        at_once=compute_overlap([(first, last) for first, last in ran]),
        spent=sum_cpu_times([program.cpu() for program in programs]),
        events_why=_explain_misses(seats, misses, sampled),
        machine=spent,
    )


def compute_overlap(ran: Sequence[tuple[float, float]]) -> float | None:
    """The share of the longest run in which all of them ran; None of a single one."""
    if len(ran) < 2:
        return None
    together = min(last for _, last in ran) - max(first for first, _ in ran)
    longest = max(last - first for first, last in ran)
    return round(max(0.0, together) / longest, 3) if longest > 0 else 0.0


def _wait_for_threads(programs: Sequence[EndpointProgram], count: int) -> None:
    """Until the host's programs have their threads: collectors look for them once."""
    on_host = [program for program in programs if isinstance(program, ContainerProgram)]

    def have_threads() -> bool:
        return all(
            program.ended() is not None or len(list(list_threads(program.pid))) > count
            for program in on_host
        )

    wait_at_most(have_threads, THREADS_S, "threads of a tool", poll_s=0.005)


def compute_misses(sampled: dict[str, Any], worked_s: Mapping[str, float]) -> dict[str, float]:
    """Misses of the TLB by role, each second in which its program was watched and ran.

    Not of a role one of whose threads has no count.
    """
    counts_by_role: dict[str, list[int | None]] = {}
    for sample in sampled["events"]:
        counts_by_role.setdefault(sample.role, []).append(sample.counts.get(_TLB_MISSES))
    return {
        role: sum(measured) / worked_s[role]
        for role, counts in counts_by_role.items()
        if worked_s.get(role, 0.0) > 0
        and len(measured := [count for count in counts if count is not None]) == len(counts)
    }


def _explain_misses(
    seats: Sequence[_Seat], misses: Mapping[str, float], sampled: dict[str, Any]
) -> str:
    """Why there are no misses of all VNFs together; "" where there are."""
    if all(f"vnf{seat.number}" in misses for seat in seats):
        return ""
    no_turn = "not measured: a counter of some thread had no turn"
    reason: str = sampled["uncollected"].get("events", no_turn)
    return reason


def _processor_times(place: Container | GuestPlace) -> tuple[int, ...]:
    """Times of all processors there, proc(5): user nice system idle iowait irq softirq steal."""
    head, *values = place.run(["cat", "/proc/stat"]).partition("\n")[0].split()
    return tuple(map(int, values[:8])) if head == "cpu" else ()


def _share_stolen(before: Sequence[int], after: Sequence[int]) -> float | None:
    """The share of all processors' time that something under them took."""
    spent = [now - earlier for earlier, now in zip(before, after, strict=False)]
    return round(spent[7] / sum(spent), 4) if len(spent) > 7 and sum(spent) > 0 else None
