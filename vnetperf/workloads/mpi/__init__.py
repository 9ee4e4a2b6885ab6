"""Ranks of MPI in pods: messages between two of them, and collectives of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vnetperf.model.errors import CapabilityError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import AUTO, Transfer, TransferSpec
from vnetperf.model.units import Unit, nanoseconds
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
from vnetperf.workloads.mpi.kinds import MPI_PAIRS, MPI_WITHOUT_SIZE

if TYPE_CHECKING:
    from vnetperf.plugin.network import Network
    from vnetperf.workloads.mpi.program import MpiProgram

#: The image whose guests have what ranks need.
_IMAGE = "mpi"
#: Percentiles of times that runs are compared by.
_PERCENTILES = ("50", "99")


def _times_text(row: MeasuredTransfer, *names: str) -> str | None:
    """Times of an operation by their names: "10 us to 20 us"; None where one is not known."""
    times = row.transfer.operation_us
    if any(name not in times for name in names):
        return None
    return " to ".join(nanoseconds(times[name] * 1e3) for name in names)


class Mpi(Workload):
    """Programs of MPI whose ranks are in pods."""

    name = "mpi"
    variant = "mpi"
    tool_setting = "mpi_program"
    runner = "vnetperf.workloads.mpi.ranks:run_ranks"
    ends = "the ranks are in the pods"
    title = "MPI"
    settings = (
        WorkloadColumn("benchmark", lambda row: row.transfer.spec.kind, words=True),
        WorkloadColumn("octets", lambda row: str(row.transfer.spec.message_size or "") or None),
        WorkloadColumn("pods", lambda row: str(row.transfer.spec.pods)),
        WorkloadColumn("ranks in each", lambda row: str(row.transfer.spec.ranks)),
    )
    value_title = "time, or rate"
    details = (
        WorkloadColumn("least to most", lambda row: _times_text(row, "min", "max")),
        WorkloadColumn("99 %", lambda row: _times_text(row, "99")),
        WorkloadColumn(
            "contents checked", lambda row: "yes" if row.transfer.contents_checked else None
        ),
    )
    notes = (
        "Time: of MPI_LATENCY a message one way (half a round trip), of a collective the mean over "
        "all ranks of each rank's mean; least and most are the extremes of what is averaged. "
        "Rates: of windows of 64 messages. Of HPL the rate, its times are those of ping-pong "
        "between ranks.",
        "Of the host's: value over that of pods with their hosts' network, in the same place; "
        "above 1 is slower where it is a time, and faster where it is a rate.",
        "Contents checked: what arrived was compared with what was sent; a difference is an error.",
    )
    axes = (
        WorkloadAxis("pods", "pods", "{} pods", lambda row: row.transfer.spec.pods),
        WorkloadAxis(
            "ranks",
            "ranks in each pod",
            "ranks in each pod: {}",
            lambda row: row.transfer.spec.ranks,
        ),
        WorkloadAxis(
            "message_size",
            "message size, octets (equal steps)",
            "{} octets",
            lambda row: row.transfer.spec.message_size or 0,
        ),
    )

    def adapt(self, scenario: Scenario, vnf_mode: str) -> Scenario:
        """Pods for programs; those in VMs with the library and its daemon."""
        changes: dict[str, object] = {"sockets": True}
        if scenario.deployment.guests:
            changes["vnf_mode"] = "route"  # the kernel, with an address
            if scenario.guest.image == GuestOptions().image:
                changes["guest"] = scenario.guest.model_copy(update={"image": _IMAGE})
        return scenario.model_copy(update=changes)

    def refusals(self, request: WorkloadRequest) -> Iterator[str]:
        """Where there are no pods, or none that the launcher can enter."""
        scenario = request.scenario
        graph = scenario.deployment
        if not graph.pods:
            yield f"{graph.name} has no pods for ranks of MPI; choose bmp2bmp"
        if 0 in graph.guests:
            yield "ranks are launched in the network of the first pod, on its host; choose bmp2vmp"
        if request.facts.hosts:
            yield "ranks run in pods on one machine; choose a testbed of one host"
        network: type[Network] = registry.load("networks", scenario.vswitch)
        if network.capabilities.elsewhere:
            yield (
                "no ranks of MPI are launched in pods of a cluster; choose another than "
                f"{network.name}"
            )
        last = max(graph.guests, default=-1)
        if scenario.pods <= last:
            yield f"no rank would be in the VM, which is pod {last}; choose --pods {last + 1}"

    def specify(self, request: WorkloadRequest) -> TransferSpec:
        """Between two ranks one in each of two pods, or both in the only one."""
        from vnetperf.workloads.mpi.program import guest_rank_problem

        scenario, kind = request.scenario, request.kind
        pods, ranks = scenario.pods, scenario.ranks
        if kind in MPI_PAIRS:
            pods, ranks = (2, 1) if pods > 1 else (1, 2)
        size = None if kind in MPI_WITHOUT_SIZE else request.message_size
        spec = request.make_spec(message_size=size, pods=pods, ranks=ranks)
        reasons = []
        for name in registry.names("mpi") if request.tool == AUTO else (request.tool,):
            program = _load_program(name)
            if request.tool == AUTO and kind not in program.kinds:
                continue
            problem = program.cannot(spec) or program.missing(request.facts, spec)
            if not problem and scenario.deployment.guests and not program.in_guests:
                problem = f"{name} needs libraries that guests do not have; choose bmp2bmp for it"
            if not problem and scenario.deployment.guests:
                problem = guest_rank_problem(request.facts)
            if not problem:
                return spec.model_copy(update={"tool": name})
            reasons.append(problem)
        raise CapabilityError("; ".join(dict.fromkeys(reasons)), where=f"program for {kind}")

    def describe(self, spec: TransferSpec) -> str:
        """The program and its ranks."""
        return f"{spec.kind} by {spec.tool}, {spec.pods} pods with {spec.ranks} rank(s) each"

    def longest_s(self, spec: TransferSpec) -> float:
        """The time of the program's start and end besides."""
        return spec.length_s + _load_program(spec.tool).longest_s

    def main_figure(self, kind: str) -> tuple[str, Unit, Better]:
        """HPL's rate, or that of messages in windows, or the time of an operation."""
        if kind == "MPI_HPL":
            return "MPI_HPL flop/s", "1/s", "more"
        if kind in MPI_PAIRS and kind != "MPI_LATENCY":
            return kind, "bit/s", "more"
        return f"{kind} time", "ns", "less"

    def figures(self, transfer: Transfer) -> Iterator[Figure]:
        """The rate, or the times of an operation; of HPL both."""
        yield from super().figures(transfer)
        kind, times = transfer.spec.kind, transfer.operation_us
        label, unit, _ = self.main_figure(kind)
        if kind == "MPI_HPL":
            label, unit = "MPI_HPL ping-pong time", "ns"
            mean_ns = times["mean"] * 1e3 if "mean" in times else None
            yield Figure(label=label, unit=unit, better="less", value=mean_ns)
        for percentile in _PERCENTILES if unit == "ns" else ():
            if percentile in times:
                of_percentile, nanos = f"{label} p{percentile}", times[percentile] * 1e3
                yield Figure(label=of_percentile, unit="ns", better="less", value=nanos)

    def conditions(self, spec: TransferSpec) -> dict[str, Any]:
        """The program, and how many ranks are where."""
        return {"tool": spec.tool, "pods": spec.pods, "ranks": spec.ranks}

    def remarks(self, rows: Sequence[MeasuredTransfer]) -> Iterator[str]:
        """The programs with how ranks exchanged messages, and where they ran."""
        transfers = [row.transfer for row in rows]
        versions = dict.fromkeys(transfer.version for transfer in transfers)
        cpus = {transfer.client.cpus for transfer in transfers}
        yield (
            f"Measured by {'; '.join(versions)}, transports self and tcp, within pods as well; "
            f"ranks on processors {', '.join(sorted(cpus))}."
        )

    def describe_means(self, rows: Sequence[MeasuredTransfer]) -> Iterator[str]:
        """Told by the remarks already."""
        yield from ()

    def summarize(self, row: MeasuredTransfer) -> str:
        """The benchmark with its ranks."""
        spec = row.transfer.spec
        size = f", {spec.message_size} octets" if spec.message_size else ""
        return f"{spec.kind}{size}, {spec.pods} x {spec.ranks} ranks"

    def picture_words(self, scenario: Mapping[str, Any]) -> str:
        """How many ranks are in how many pods."""
        ranks = f"{scenario.get('pods', 2)} x {scenario.get('ranks', 1)}"
        return f"ranks of MPI in pods: {ranks}"


def _load_program(name: str) -> MpiProgram:
    program: MpiProgram = registry.load("mpi", name)()
    return program
