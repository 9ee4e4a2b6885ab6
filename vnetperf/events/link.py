"""The link of a physical port goes down and comes up."""

from __future__ import annotations

import time
from typing import ClassVar

from vnetperf.host.nic.switchdev import SWITCHDEV, nic_mode
from vnetperf.model.deployment import Deployment, PhyPort
from vnetperf.model.scenario import Plan
from vnetperf.plugin.event import Event, EventTarget


class LinkDown(Event):
    """A link that goes down for a time: "link phy0", "link phy1" ...

    Args:
        port: Name of the physical port.
    """

    name: ClassVar[str] = "link"
    pattern: ClassVar[str] = r"link (\S+)"
    resets_counters: ClassVar[bool] = False

    def __init__(self, port: str) -> None:
        self._port = port

    @classmethod
    def choices(cls, graph: Deployment) -> tuple[str, ...]:
        """Each of its physical ports."""
        return tuple(f"link {port}" for port in graph.phy_ports)

    def __str__(self) -> str:
        """As it was requested."""
        return f"link {self._port}"

    @property
    def part(self) -> str:
        """The port."""
        return f"physical port {self._port}"

    def host(self, plan: Plan) -> str:
        """The host of the port."""
        return plan.port_hosts.get(self._port, "")

    def problem(self, plan: Plan) -> str:
        """The DUT's end has to be an interface of the kernel, in the run's namespace."""
        if nic_mode(plan.scenario) == SWITCHDEV:
            return (
                "in mode switchdev a physical port's interface is back in the machine's own "
                "namespace, maybe by another name, and is not taken down there; --set mode=legacy"
            )
        dut = [n for n in plan.nics if n.side == "dut" and f"phy{n.wire}" == self._port]
        if plan.wire == "veth" or (dut and all(nic.kernel for nic in dut)):
            return ""
        if plan.wire == "nic":
            return (
                "a NIC that the vSwitch drives itself has no interface to be taken down; give it "
                "to its kernel driver, where the vSwitch takes that"
            )
        return f"a {plan.wire} wire has no link that can be taken down; --wire veth has one"

    def act(self, dut: EventTarget, down_s: float) -> None:
        """Take the DUT's end down for a time."""
        netdev = dut.dut_netdev(self._port)
        dut.machine.set_link(netdev, up=False)
        try:
            time.sleep(down_s)
        finally:
            dut.machine.set_link(netdev, up=True)
            dut.vswitch.link_came_up(PhyPort(index=int(self._port.removeprefix("phy"))))
