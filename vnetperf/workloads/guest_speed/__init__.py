"""What processors and memory of VNFs do, beside the host's on the same processors.

Computation (GUEST_CPU), memory read and written from end to end (GUEST_READ, GUEST_WRITE), and read
in random places (GUEST_RANDOM_READ), which pages and TLBs matter for. There is no traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import AUTO, Figures, Transfer, TransferSpec
from vnetperf.model.units import Unit, percent, short_fps
from vnetperf.plugin import registry
from vnetperf.plugin.workload import (
    Better,
    Figure,
    MeasuredTransfer,
    Workload,
    WorkloadAxis,
    WorkloadColumn,
    WorkloadRequest,
)

#: Wires that VNFs are at, where a user names none, and the image whose guests have the tool.
_WIRE, _IMAGE = "veth", "endpoint"
#: Share of their runs in which all VNFs have to run, so that their sum counts as what they reach.
AT_ONCE = 0.9


def ran_apart(figures: Figures) -> bool:
    """Whether programs in several VNFs did not run at once, as far as it is known."""
    return figures.at_once is not None and figures.at_once < AT_ONCE


def _misses_text(figures: Figures) -> str | None:
    """Misses by the work that was done: a quicker VNF has more of them a second."""
    misses, events, octets = (
        figures.tlb_misses_per_second,
        figures.events_per_second,
        figures.octets_per_second,
    )
    if misses is None or not (events or octets):
        return None
    if events:
        return f"{short_fps(misses / events)} an event"
    return f"{short_fps(misses / (octets or 1) * (1 << 20))} a MiB"


def _steal_text(row: MeasuredTransfer) -> str | None:
    return None if row.transfer.steal is None else percent(row.transfer.steal)


def _vnfs_text(row: MeasuredTransfer) -> str:
    return " x ".join(filter(None, (str(len(row.transfer.flows)), row.vnfs)))


class GuestSpeed(Workload):
    """A tool in all VNFs at once, then as many of it on the host."""

    name = "guest"
    runner = "vnetperf.workloads.guest_speed.programs:run_in_guests"
    ends = "the programs are in the VNFs"
    # The last unit of work of a tool is not cut short.
    grace_s = 120.0
    title = "Speed of guests"
    subject = "speed of guests"
    anchor = "guests"
    baseline = "host"
    settings = (
        WorkloadColumn("work", lambda row: row.transfer.spec.kind, words=True),
        WorkloadColumn("VNFs", _vnfs_text, words=True),
        WorkloadColumn("threads in each", lambda row: str(row.transfer.spec.instances)),
    )
    value_title = "in VNFs"
    details = (
        WorkloadColumn("TLB misses in VNFs", lambda row: _misses_text(row.transfer)),
        WorkloadColumn(
            "TLB misses on the host", lambda row: _misses_text(row.transfer.on_host or Figures())
        ),
        WorkloadColumn("stolen", _steal_text),
        WorkloadColumn("processors", lambda row: row.transfer.client.cpus, words=True),
    )
    notes = (
        "Work of all threads of all VNFs at once: of GUEST_CPU the tool's events (each the primes "
        "up to 10000), of GUEST_READ and GUEST_WRITE blocks of 64 MiB from end to end, of "
        "GUEST_RANDOM_READ words in random places of 16 MiB.",
        "Of the host's: value over that of the same programs on the host afterwards, as many at "
        "once, on the processors of the VNFs; below 1 is slower. With --repeat its 95 % interval.",
        "Stolen: the largest share of its processors' time that a VNF itself counts as taken from "
        "it.",
    )
    axes = (
        WorkloadAxis(
            "instances",
            "threads in each VNF",
            "{} thread(s) in each",
            lambda row: row.transfer.spec.instances,
        ),
        WorkloadAxis("vnfs", "VNFs at once", "{} VNF(s)", lambda row: len(row.transfer.flows)),
    )

    def adapt(self, scenario: Scenario, vnf_mode: str) -> Scenario:
        """VNFs with a kernel of their own, and the tool in the image of guests."""
        changes: dict[str, object] = {}
        if scenario.wire == AUTO:
            changes["wire"] = _WIRE
        if vnf_mode == AUTO:
            changes |= {"vnf_mode": "route", "addressing": "port"}
        if scenario.guest.image == GuestOptions().image:
            changes["guest"] = scenario.guest.model_copy(update={"image": _IMAGE})
        return scenario.model_copy(update=changes)

    def refusals(self, request: WorkloadRequest) -> Iterator[str]:
        """Where there is no VNF, or none that programs run in."""
        from vnetperf.plugin.vnf import EndpointHost

        scenario = request.scenario
        if not scenario.deployment.vnf_count:
            yield f"{scenario.deployment.name} has no VNF; choose pvp, pvvp or pvpv"
        vnf = registry.load_vnf(scenario.vnf)
        if not issubclass(vnf, EndpointHost):
            yield (
                f"{scenario.vnf} is no place for programs; choose --vnf vloop:vm or vloop:container"
            )
        if request.facts.hosts:
            yield "VNFs are measured on one host; choose a testbed of one"
        yield vnf.no_inside(request.facts, self.adapt(scenario, request.vnf_mode))

    def specify(self, request: WorkloadRequest) -> TransferSpec:
        """What is run in each VNF."""
        from vnetperf.plugin.endpoint_tool import choose_tool

        spec = request.make_spec(instances=request.instances, warmup_s=request.warmup_s)
        deployed = self.adapt(request.scenario, request.vnf_mode)
        tool = choose_tool(spec, request.tool, request.facts, deployed)
        return spec.model_copy(update={"tool": tool})

    def describe(self, spec: TransferSpec) -> str:
        """The tool and its threads."""
        return (
            f"{spec.kind} by {spec.tool}, {spec.instances} thread(s) in each VNF, then on the host"
        )

    def main_figure(self, kind: str) -> tuple[str, Unit, Better]:
        """What was done in a second."""
        return kind, "1/s" if kind == "GUEST_CPU" else "octet/s", "more"

    def figures(self, transfer: Transfer) -> Iterator[Figure]:
        """What VNFs did, its ratio to the host's, and misses of the TLB."""
        host = transfer.on_host or Figures()
        label, unit, better = self.main_figure(transfer.spec.kind)
        is_cpu = unit == "1/s"
        value, host_value = (
            figures.events_per_second if is_cpu else figures.octets_per_second
            for figures in (transfer, host)
        )
        # Each counted its own run: the sum is more than they reach together.
        limit = ("at most",) if ran_apart(transfer) else ()
        yield Figure(
            label=label, unit=unit, better=better, value=value, main=True, qualifiers=limit
        )
        if value is not None and host_value:
            ratio, of_host = value / host_value, f"{label} of the host's"
            yield Figure(label=of_host, unit="ratio", better="more", value=ratio, qualifiers=limit)
        if transfer.tlb_misses_per_second is not None and value:
            work, per = ("event", 1) if is_cpu else ("MiB", 1 << 20)
            misses = transfer.tlb_misses_per_second / value * per
            label = f"{label} TLB misses per {work}"
            yield Figure(label=label, unit="", better="less", value=misses)

    def remarks(self, rows: Sequence[MeasuredTransfer]) -> Iterator[str]:
        """Which VNFs did not run at once."""
        for row in rows:
            if row.transfer.at_once is not None and ran_apart(row.transfer):
                yield (
                    f"{row.scenario}, {row.transfer.spec.kind}: all of them ran at once for "
                    f"{percent(row.transfer.at_once)} of their runs, and each counts its own: "
                    "together they reach less than this sum. Longer runs overlap more."
                )

    def describe_means(self, rows: Sequence[MeasuredTransfer]) -> Iterator[str]:
        """The tools, why misses are not counted, and whether guests are emulated."""
        for version in dict.fromkeys(row.transfer.version for row in rows):
            yield f"Measured by {version}."
        for reason in dict.fromkeys(row.transfer.events_why for row in rows):
            if reason:
                yield f"TLB misses (of loads): {reason}."
        if any("emulated" in row.vnfs for row in rows):
            yield (
                "Emulated: another program executes the guest's instructions one by one, so that "
                "the ratio is that of the emulator and says nothing of virtual machines."
            )

    def missing_numbers(self, rows: Sequence[MeasuredTransfer]) -> list[str]:
        """Why misses of the TLB are not counted."""
        reasons = {row.transfer.events_why for row in rows}
        return [f"TLB misses: {reason}" for reason in sorted(reasons) if reason]

    def summarize(self, row: MeasuredTransfer) -> str:
        """The work with its VNFs and threads."""
        spec = row.transfer.spec
        return f"{spec.kind}, {_vnfs_text(row)}, threads in each: {spec.instances}"

    def add_words(self, row: MeasuredTransfer) -> str:
        """What of the processors' time something else took."""
        return f", {_steal_text(row)} stolen" if row.transfer.steal else ""
