"""Kernel wire: a veth pair, for DUTs and testers that speak to kernel interfaces."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.machine import MachineFacts
from vnetperf.model.ports import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.wires.base import Wire


class Veth(Wire):
    """A veth pair with offloads off and the kernel's own chatter silenced."""

    name: ClassVar[str] = "veth"
    #: A frame that af_packet cannot queue waits in the tester's own ring.
    refusal_is_loss: ClassVar[bool] = False

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Veth needs the right to make interfaces."""
        del scenario, testbed
        return "" if facts.is_root else "veth needs root to make interfaces; run with sudo"

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Make the pair and bring both ends up."""
        tester, dut = (self.machine.interface_name(f"{side}{self.index}") for side in "td")
        self.machine.create_veth(tester, dut, mtu=self.plan.scenario.mtu)
        return (
            WireEnd(wire=self.index, kind=self.name, side="tester", netdev=tester),
            WireEnd(wire=self.index, kind=self.name, side="dut", netdev=dut),
        )
