"""The contract of wires between tester and DUT."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import WireEnd
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.requirements import Requirements


class Wire(Requirements, ABC):
    """A wire of one deployment.

    Args:
        machine: The machine; what is made on it goes through it.
        plan: The plan it belongs to: its testbed's NICs, the MTU of its scenario.
        index: 0-based number of the wire, equal to its physical port's.
    """

    #: True when the far end is the DUT's own receive ring: a frame the wire refuses is then one
    #: that the DUT dropped, as a NIC drops when its ring is full.
    refusal_is_loss: ClassVar[bool]
    #: True when its ends are the testbed's NICs: the planner then chooses their drivers.
    takes_nics: ClassVar[bool] = False
    #: Kind of wire whose tester's end its own is like: generators know that one, and are calibrated
    #: on it. "" for its own kind.
    like: ClassVar[str] = ""

    def __init__(self, machine: Machine, plan: Plan, index: int) -> None:
        self.machine = machine
        self.plan = plan
        self.index = index

    @classmethod
    @abstractmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """What keeps this machine from having such wires.

        Args:
            facts: The machine.
            scenario: What is to be deployed; without a vSwitch the tester looped to itself.
            testbed: Names NICs.

        Returns:
            "" when nothing does; otherwise what is missing and the cure.
        """

    @abstractmethod
    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Make the wire.

        Returns:
            The tester's end and the DUT's end.

        Raises:
            HostError: When the machine refuses.
        """
