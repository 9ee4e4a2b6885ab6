"""A vSwitch of one rule a port: the kernel's traffic control redirects every frame to another."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, ClassVar

from pyroute2 import IPRoute, NetlinkError

from vnetperf.model.deployment import Attachment, PhyPort, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches import kernelports
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities

#: Where filters on what comes in live (TC_H_INGRESS), and "frames of any protocol" (ETH_P_ALL).
INGRESS, ANY_PROTOCOL = 0xFFFF0000, 0x0003
EVERY_FRAME = ["0x0/0x0+0"]


class TcSwitch(VSwitch):
    """Filters that redirect: veth wires, veth pairs for VNFs, no processes."""

    name: ClassVar[str] = "tcswitch"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth",), attachments=("veth",), chains=False, max_frame_size=9018, options=("mtu",)
    )

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What this machine lacks, with the cure."""
        for module in ("sch_ingress", "cls_u32", "act_mirred"):
            if trouble := facts.missing_module(module, "redirecting frames with tc"):
                return trouble
        return ""

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What `--plan` shows."""
        return {
            f"tc on {hop.src}": f"redirect to {hop.dst}" for hop in plan.scenario.deployment.hops
        }

    def start(self) -> None:
        """Nothing runs: the switch begins with its first port."""
        for module in ("sch_ingress", "cls_u32", "act_mirred"):
            self.machine.load_module(module)
        self.netdevs: dict[Port, str] = {}

    def add_phy_port(self, end: WireEnd) -> None:
        """The wire's end is the port."""
        self._add(PhyPort(index=end.wire), str(end.netdev))

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """One end of a veth pair."""
        if kind not in self.capabilities.attachments:
            raise self.no_attachment(kind)
        return kernelports.offer(self.machine, port, kind, queues)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the pair; our end is the port."""
        netdev = kernelports.make(self.machine, attachment, self.plan.scenario.mtu)
        self._add(attachment.port, netdev)

    def _add(self, port: Port, netdev: str) -> None:
        self._tc(lambda route, index: route.tc("add", "ingress", index[netdev], INGRESS))
        self.netdevs[port] = netdev

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """One filter for each hop."""
        for hop in self.plan.scenario.deployment.hops:
            self._redirect(self.netdevs[hop.src], self.netdevs[hop.dst])

    def _redirect(self, src: str, dst: str) -> None:
        def add(route: Any, index: dict[str, int]) -> None:
            route.tc(
                "add-filter",
                "u32",
                index[src],
                parent=INGRESS,
                prio=1,
                protocol=ANY_PROTOCOL,
                target=0x10000,
                keys=EVERY_FRAME,
                action={
                    "kind": "mirred",
                    "direction": "egress",
                    "action": "redirect",
                    "ifindex": index[dst],
                },
            )

        self._tc(add)

    def remove_port(self, port: Port) -> None:
        """Take the filters away that lead to the port, and its own."""
        if port not in self.netdevs:
            raise DutError(f"there is no port {port}", where=self.name)
        for hop in self.plan.scenario.deployment.hops:
            if port in (hop.src, hop.dst) and hop.src in self.netdevs:
                netdev = self.netdevs[hop.src]
                self._tc(
                    lambda route, index, n=netdev: [
                        route.tc(order, "ingress", index[n], INGRESS) for order in ("del", "add")
                    ]
                )
        del self.netdevs[port]

    def _tc(self, do: Callable[..., Any]) -> None:
        """Speak netlink in the run's namespace, where the interfaces are."""

        def speak() -> None:
            try:
                with IPRoute() as route:
                    do(route, {m.get_attr("IFLA_IFNAME"): m["index"] for m in route.get_links()})
            except (KeyError, NetlinkError, OSError) as error:
                raise DutError(
                    f"the kernel refused a tc request: {error}", where=self.name
                ) from error

        self.machine.in_netns(speak)

    def links_down(self) -> tuple[str, ...]:
        """Ports whose interface has no carrier yet."""
        up = {link.name for link in self.machine.all_links() if link.up and link.carrier}
        return tuple(str(port) for port, netdev in self.netdevs.items() if netdev not in up)

    def counters(self) -> tuple[HopCounters, ...]:
        """The kernel's statistics of each port's interface."""
        return kernelports.counters(self.machine, {str(p): n for p, n in self.netdevs.items()})

    def check_alive(self) -> None:
        """A kernel switch is dead when its interfaces are gone."""
        there = self.machine.link_statistics()
        if gone := [netdev for netdev in self.netdevs.values() if netdev not in there]:
            raise DutError(f"interfaces are gone: {', '.join(gone)}", where=self.name)

    def facts(self) -> dict[str, Any]:
        """What the result says of it."""
        return {
            "version": f"Linux {platform.release()}",
            "mtu": self.plan.scenario.mtu,
            "filters": [f"{hop.src} -> {hop.dst}" for hop in self.plan.scenario.deployment.hops],
        }

    def stop(self) -> None:
        """Take the filters away; interfaces go with the run, and VNFs may have them open."""
        for netdev in getattr(self, "netdevs", {}).values():
            self._tc(lambda route, index, n=netdev: route.tc("del", "ingress", index[n], INGRESS))
        self.netdevs = {}
