"""The way to an external DUT, which somebody else has cabled."""

from __future__ import annotations

from typing import Any, ClassVar

from vnetperf.model.deployment import WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin import registry
from vnetperf.plugin.wire import Wire

#: What a VLAN tag adds to a frame, octets (IEEE 802.1Q).
VLAN_OCTETS = 4


class ToExternal(Wire):
    """The tester's interface that is cabled to a DUT which somebody else runs."""

    name: ClassVar[str] = "external"
    refusal_is_loss: ClassVar[bool] = False
    like: ClassVar[str] = "veth"

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario, testbed: Testbed) -> str:
        """Needs `[external]` of the testbed file."""
        problem = cls._section(testbed).problem
        return problem or (
            "" if facts.is_root else f"interfaces need root to be taken; {facts.root_cure}"
        )

    @classmethod
    def _section(cls, testbed: Testbed) -> Any:
        """The section of the testbed file, which is that of the vSwitch of the same name."""
        return registry.load("vswitches", cls.name).read_section(testbed)

    def lay(self) -> tuple[WireEnd, WireEnd]:
        """Take the tester's interface into the run's namespace; it is back with the run's end."""
        testbed = self.plan.testbed
        port = self._section(testbed).ports[self.index]
        self.machine.borrow_interface(
            port.tester,
            mtu=self.plan.scenario.mtu + (VLAN_OCTETS if port.vlan else 0),
            isolated=testbed.isolated,
        )
        return (
            WireEnd(wire=self.index, kind=self.like, side="tester", netdev=port.tester),
            WireEnd(wire=self.index, kind=self.name, side="dut", netdev=port.dut or None),
        )
