"""What the contracts of all plugin families have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar, TypeVar

from vnetperf.host.cpu import format_cpus
from vnetperf.host.links import napi_thread_prefix, napi_threads
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.threads import list_threads
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan, Pollers, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.plugin.requirements import Requirements

Needed = TypeVar("Needed", KernelModule, Program)
LOG_LINES = 15
#: Modules of the kernel by kind of tunnel.
TUNNEL_MODULES: dict[str, KernelModule] = {
    kind: KernelModule(name=name, purpose="the tunnel", symbol=symbol)
    for kind, name, symbol in (
        ("vxlan", "vxlan", "vxlan_xmit"),
        ("geneve", "geneve", "geneve_xmit"),
        ("gre", "ip_gre", "gre_tap_xmit"),
    )
}
#: What is wrong with a process that lives and does nothing.
IS_STOPPED = "is stopped: it got SIGSTOP or SIGTSTP, or a debugger holds it"


def check_process(process: ManagedProcess | None, program: str) -> None:
    """Raise when a process of the DUT has ended, or is stopped.

    Args:
        process: The process; None when it has not been started, or was stopped.
        program: What it is called in the message.

    Raises:
        DutError: With the log's tail.
    """
    if process is not None and not process.alive():
        code = process.returncode
        raise DutError(
            f"{program} has ended (status {'not known yet' if code is None else code}); "
            "log ends with:\n" + process.log_tail(LOG_LINES),
            where=program,
        )
    if process is not None and process.stopped:
        raise DutError(f"{program} (pid {process.pid}) {IS_STOPPED}", where=program)


class NapiThreads:
    """The kernel's receive work at veth ends of one part, in threads that are placed.

    Nothing is done unless the scenario requests it (`napi=threaded`).

    Args:
        machine: The machine.
        plan: The plan; it has processors for the role.
        role: Role of the threads.
    """

    def __init__(self, machine: Machine, plan: Plan, role: str) -> None:
        self._machine = machine
        self._plan = plan
        self._role = role
        self._places: dict[str, tuple[int, ...]] = {}

    def start(self, netdev: str) -> None:
        """Give an interface its threads; anew where it had some, which end when it goes down.

        Args:
            netdev: The interface, in a namespace of the run.

        Raises:
            HostError: When the kernel has no such threads, or they cannot be seen.
        """
        if not threaded_napi(self._plan.scenario):
            return
        placement = self._plan.placement
        processors = placement.cores.get(self._role) or placement.housekeeping
        turn = len(self._places) % len(processors)  # each end begins at another of the processors
        cpus = self._places.setdefault(netdev, (*processors[turn:], *processors[:turn]))
        self._machine.start_napi_threads(netdev, cpus)

    def forget(self, netdev: str) -> None:
        """Forget an interface that is taken away.

        Args:
            netdev: The interface.
        """
        self._places.pop(netdev, None)

    def pollers(self) -> tuple[Pollers, ...]:
        """Find the threads that there are now.

        Returns:
            An entry for each thread: each is a process of its own.
        """
        return tuple(
            Pollers(role=self._role, pid=thread, thread_prefix=napi_thread_prefix(netdev))
            for netdev in self._places
            for thread in napi_threads(netdev)
        )

    def facts(self) -> dict[str, Any]:
        """The threads of each interface, for the result.

        Returns:
            JSON values; empty where none were requested.
        """
        thread_cpus = {
            netdev: {str(thread.tid): format_cpus(thread.cpus) for thread in threads}
            for netdev in self._places
            if (threads := [t for tid in napi_threads(netdev) for t in list_threads(tid)])
        }
        return (
            {"NAPI threads and their processors (GRO is on)": thread_cpus} if self._places else {}
        )


def threaded_napi(scenario: Scenario) -> bool:
    """Whether the kernel's receive work is to be in threads of its own.

    Args:
        scenario: The scenario.

    Returns:
        True for `napi=threaded`.
    """
    return scenario.options.napi == "threaded"


def optional(*needed: Needed) -> tuple[Needed, ...]:
    """The same programs or modules, without which only some scenarios cannot run."""
    return tuple(requirement.model_copy(update={"optional": True}) for requirement in needed)


class Backend(Requirements, ABC):
    """A part of one deployment: a vSwitch, a VNF, a traffic generator.

    Args:
        machine: The machine it runs on; every lasting change goes through it.
        plan: The plan it belongs to.

    Attributes:
        far_mib: Hugepages that a thread of it needs on its own node when that is not the node of
            its memory, MiB.
    """

    far_mib: ClassVar[int] = 0

    def __init__(self, machine: Machine, plan: Plan) -> None:
        self.machine = machine
        self.plan = plan

    @property
    def section(self) -> Any:
        """Its table of the testbed file, a `Section`."""
        return self.read_section(self.plan.testbed)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """Hugepages that it takes on certain nodes, wherever its threads are placed.

        Args:
            scenario: The scenario.
            kinds: Kinds of wire and attachment its ports plug into.

        Returns:
            NUMA node -> MiB, beside what it needs elsewhere; empty for none.
        """
        return {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the backend from carrying the scenario on this machine.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" when nothing does; otherwise what is missing and the cure, in one sentence. By
            default what is missing of the programs and modules that it declares.
        """
        return cls.missing_requirement(facts)

    @classmethod
    def sends_native_xdp(cls, scenario: Scenario) -> bool:
        """Whether its frames leave by native XDP: a veth takes them only if it is told to.

        Args:
            scenario: The scenario.

        Returns:
            True when the other ends of its wires have to be told.
        """
        return False

    def pollers(self) -> tuple[Pollers, ...]:
        """Where its busy threads are, for placement and processor accounting.

        Returns:
            One entry per role; empty when it has none.
        """
        return ()

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Version, launch lines, effective configuration, for the result.

        Returns:
            JSON values.
        """
