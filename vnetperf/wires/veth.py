"""Veth pairs: wires of the kernel."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.deployment import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.wire import Wire


class Veth(Wire):
    """A veth pair with offloads off and without the kernel's own frames."""

    name: ClassVar[str] = "veth"
    #: A frame that af_packet cannot queue waits in the tester's own ring.
    refusal_is_loss: ClassVar[bool] = False

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Veth needs the right to make interfaces."""
        return "" if facts.is_root else f"veth needs root to make interfaces; {facts.root_cure}"

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Make the pair and bring both ends up."""
        tester, dut = (self.machine.interface_name(f"{side}{self.index}") for side in "td")
        self.machine.create_veth(tester, dut, mtu=self.plan.scenario.mtu)
        return (
            WireEnd(wire=self.index, kind=self.name, side="tester", netdev=tester),
            WireEnd(wire=self.index, kind=self.name, side="dut", netdev=dut),
        )
