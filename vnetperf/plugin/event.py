"""The contract of events: what happens to a part of the DUT in the middle of a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Deployment
from vnetperf.model.scenario import Plan
from vnetperf.plugin.dut import Dut
from vnetperf.plugin.requirements import Requirements


class EventTarget(Protocol):
    """What an event acts on: the parts of a deployment that are on one host.

    Attributes:
        plan: The plan of that host.
        machine: The host.
        vswitch: Its vSwitch.
        generator: The tester, which is on that host if `plan.has_tester`.
    """

    plan: Plan
    machine: Machine
    vswitch: Dut
    generator: Any

    def restart_vswitch(self) -> None:
        """Stop the vSwitch, and start it with the same ports and rules.

        Raises:
            VnetperfError: It does not start.
        """

    def restart_vnf(self, number: int) -> None:
        """Stop a VNF, and start it at the same attachments.

        Args:
            number: 0-based number of the VNF.

        Raises:
            VnetperfError: It does not start.
        """

    def dut_netdev(self, port: str) -> str:
        """Name the kernel's interface at a physical port.

        Args:
            port: The port, such as "phy0".

        Returns:
            Name of the interface, in the run's network namespace.

        Raises:
            CapabilityError: The kernel has no interface there.
        """


class Event(Requirements, ABC):
    """One event, made of the text that a test requests it by (`EventSpec.what`).

    By default it happens to the whole DUT of one host.

    Attributes:
        name: Its name in the registry.
        pattern: Regular expression of such a text as a whole. The class is called with its groups.
        resets_counters: Whether the DUT's counters begin anew.
    """

    name: ClassVar[str]
    pattern: ClassVar[str]
    resets_counters: ClassVar[bool] = True

    @classmethod
    def choices(cls, graph: Deployment) -> tuple[str, ...]:
        """List the events of this kind that the parts of a deployment allow.

        Args:
            graph: The deployment, on one host.

        Returns:
            Their texts, without a host.
        """
        return (cls.name,)

    def __str__(self) -> str:
        """Its text, without a host."""
        return self.name

    @property
    def part(self) -> str:
        """Name of the part that it happens to, such as "physical port phy0"."""
        return str(self)

    def host(self, plan: Plan) -> str:
        """Find the host that has the part.

        Args:
            plan: The plan of all hosts.

        Returns:
            Name of the host; "" if none of them has it, or if several have one.
        """
        hosts = {*plan.port_hosts.values()}
        return hosts.pop() if len(hosts) == 1 else ""

    def problem(self, plan: Plan) -> str:
        """Say why it cannot happen, before anything is deployed.

        Args:
            plan: The plan of the host that has the part.

        Returns:
            The reason and a cure in one sentence; "" if it can happen.
        """
        return ""

    @abstractmethod
    def act(self, dut: EventTarget, down_s: float) -> None:
        """Let it happen, and return when the part is ready again.

        Args:
            dut: The parts on the host.
            down_s: How long a link is to stay down, seconds.

        Raises:
            VnetperfError: The part does not come back.
        """
