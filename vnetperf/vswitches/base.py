"""The contract of a vSwitch backend.

A backend is a class; the agent makes one instance for each deployment, calls `start`, adds ports,
connects them, reads counters around trials, and calls `stop`. What it changes on the machine goes
through the `Machine` it is given, so that everything is undone whatever happens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.base import Frozen
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Placement, Plan, Pollers, RoleDemand
from vnetperf.model.ports import Attachment, VnfPort, WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters


class VSwitchCapabilities(Frozen):
    """What a vSwitch can do; the planner compares it with what a scenario needs.

    Attributes:
        wires: Kinds of wire its physical ports accept, in order of preference.
        attachments: Kinds of attachment it offers to VNF ports.
        chains: True when it can tell parallel chains apart at a physical port.
        multiqueue: True when ports can have more than one queue pair.
        max_frame_size: Largest frame it carries, octets including FCS.
    """

    wires: tuple[str, ...]
    attachments: tuple[str, ...]
    chains: bool = True
    multiqueue: bool = False
    max_frame_size: int = 1518


class VSwitch(ABC):
    """A vSwitch of one deployment.

    Args:
        machine: The machine it runs on; every lasting change goes through it.
        plan: The plan it belongs to.
    """

    name: ClassVar[str]
    capabilities: ClassVar[VSwitchCapabilities]

    def __init__(self, machine: Machine, plan: Plan) -> None:
        self.machine = machine
        self.plan = plan

    @classmethod
    @abstractmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps this vSwitch from carrying the scenario on this machine.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" when nothing does; otherwise what is missing and the cure, in one sentence.
        """

    @classmethod
    @abstractmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Poll-mode threads it would run.

        Args:
            scenario: The scenario.

        Returns:
            Demands; empty for a vSwitch in the kernel.
        """

    @classmethod
    @abstractmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Hugepage memory it needs.

        Args:
            scenario: The scenario.

        Returns:
            MiB; 0 for none.
        """

    @classmethod
    def tx_queues(cls, placement: Placement) -> int:
        """Queues it sends on at a physical port; the tester polls as many.

        Args:
            placement: Cores.

        Returns:
            Number of queues.
        """
        del placement
        return 1

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """Launch lines for `--plan`, as far as they are known before deployment.

        Args:
            plan: The plan without commands.
            facts: The machine, for the version of what is installed.

        Returns:
            Program -> command line.
        """
        del plan, facts
        return {}

    @abstractmethod
    def start(self) -> None:
        """Start the switch, without ports.

        Raises:
            DutError: With the log's tail, when it does not come up.
        """

    @abstractmethod
    def add_phy_port(self, end: WireEnd) -> None:
        """Plug in the DUT's end of a wire as physical port `end.wire`.

        Args:
            end: The wire's end.

        Raises:
            DutError: When the switch refuses the port.
        """

    @abstractmethod
    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Say where a VNF port will be, before the switch runs.

        A VNF that listens on the attachment's socket is started beside the switch, so that both
        find each other at once.

        Args:
            port: Name of the port in the deployment's graph.
            kind: One of the capabilities' attachments.
            queues: Queue pairs.

        Returns:
            Where the VNF plugs in.

        Raises:
            DutError: When there is no such attachment.
        """

    @abstractmethod
    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make a port that was offered.

        Args:
            attachment: As offered.

        Raises:
            DutError: When the switch refuses the port.
        """

    @abstractmethod
    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Install the forwarding of the plan's deployment; nothing else is forwarded.

        Args:
            streams: Streams of the traffic; a hop with a chain takes that chain's only.

        Raises:
            DutError: When the switch refuses the rules.
        """

    @abstractmethod
    def links_down(self) -> tuple[str, ...]:
        """Ports whose link is not up yet.

        Returns:
            Names of the ports; empty when every port is up.
        """

    @abstractmethod
    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port since it was made.

        Returns:
            One entry per port of the deployment.
        """

    @abstractmethod
    def pollers(self) -> tuple[Pollers, ...]:
        """Where its busy threads are, for placement and processor accounting.

        Returns:
            One entry per role; empty when it has none.
        """

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Version, launch lines, effective configuration, ports and rules, for the result.

        Returns:
            JSON values.
        """

    @abstractmethod
    def check_alive(self) -> None:
        """Raise when a process of the switch has ended.

        Raises:
            DutError: With the log's tail.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop it. Idempotent."""
