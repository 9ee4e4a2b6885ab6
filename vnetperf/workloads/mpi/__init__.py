"""Ranks of MPI in pods: messages between two of them, and collectives of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from vnetperf.model.errors import CapabilityError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import AUTO, MPI_PAIRS, MPI_WITHOUT_SIZE, TransferSpec
from vnetperf.plugin import registry
from vnetperf.plugin.network import Network
from vnetperf.plugin.workload import Workload, WorkloadRequest
from vnetperf.workloads.mpi.program import MpiProgram, guest_rank_problem

#: The image whose guests have what ranks need.
_IMAGE = "mpi"


class Mpi(Workload):
    """Programs of MPI whose ranks are in pods."""

    name: ClassVar[str] = "mpi"
    variant: ClassVar[str] = "mpi"
    tool_setting: ClassVar[str] = "mpi_program"
    runner: ClassVar[str] = "vnetperf.workloads.mpi.ranks:run_ranks"
    ends: ClassVar[str] = "the ranks are in the pods"

    def adapt(self, scenario: Scenario) -> Scenario:
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


def _load_program(name: str) -> MpiProgram:
    program: MpiProgram = registry.load("mpi", name)()
    return program
