"""The Linux bridge backend: one bridge for each broadcast domain of the deployment."""

from __future__ import annotations

import platform
from functools import partial
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.ports import Attachment, PhyPort, Port, VnfPort, WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches import kernelports
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities
from vnetperf.vswitches.bridge import layout, netlink

#: Frames of an MTU of 9000, what the kernel's drivers have in common.
JUMBO_FRAME_SIZE = 9018


class LinuxBridge(VSwitch):
    """Bridges of the kernel in the run's namespace: veth and NIC wires, taps and veth for VNFs."""

    name: ClassVar[str] = "bridge"
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic"),
        attachments=("veth", "tap"),
        max_frame_size=JUMBO_FRAME_SIZE,
        rules=("port", "learning"),
        options=("rx_queues", "mtu", "offloads"),
        nic_drivers=("kernel",),
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.bridges: tuple[str, ...] = ()
        self.netdevs: dict[Port, str] = {}
        self.made: dict[Port, Attachment] = {}
        self.entries: tuple[layout.Entry, ...] = ()

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps bridges from carrying the scenario here."""
        if trouble := facts.missing_module("bridge", "a Linux bridge"):
            return trouble
        if scenario.deployment.chains == 1:
            return ""
        if scenario.vnf_swaps:
            return (
                "parallel chains are told apart by destination MAC, and a VNF that swaps addresses "
                "sends frames back where they come from; choose --vnf-mode io or mac"
            )
        if scenario.rules == "learning" and len(scenario.traffic.directions) < 2:
            return (
                "a bridge learns a VNF's address from what the VNF sends back, and this traffic "
                "has one direction only; send both ways, or choose --rules port"
            )
        if "eth_dst" in scenario.traffic.vary:
            return (
                "parallel chains are told apart by destination MAC, which this traffic varies; "
                "vary another field than eth_dst"
            )
        return ""

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The bridges that `--plan` can show."""
        del facts
        deployment, learns = plan.scenario.deployment, plan.scenario.rules == "learning"
        lines = {}
        for number, segment in enumerate(deployment.segments()):
            ports = []
            for port in segment:
                how = layout.settings(deployment, port, learns=learns)
                ports.append(
                    f"{port} (learning {_on(how.learning)}, flooding {_on(how.flood)}, "
                    f"MTU {plan.scenario.mtu})"
                )
            lines[f"bridge {number}"] = "STP off, multicast snooping off; " + ", ".join(ports)
        static = layout.entries(plan.scenario, plan.scenario.streams)
        if static:
            lines["static entries"] = ", ".join(f"{e.mac} -> {e.port}" for e in static)
        return lines

    def start(self) -> None:
        """Make the bridges, without ports."""
        self.machine.load_module("bridge")
        self.machine.in_netns(netlink.without_filters)
        names = []
        for number, _ in enumerate(self.plan.scenario.deployment.segments()):
            name = self.machine.interface_name(f"br{number}")
            self.machine.create_link(name, "bridge", br_stp_state=0, br_mcast_snooping=0)
            names.append(name)
            self.bridges = tuple(names)

    def add_phy_port(self, end: WireEnd) -> None:
        """Make a wire's end a port of its bridge."""
        if end.netdev is None:
            raise DutError(
                f"cannot plug a {end.kind} wire in", where=self.name, accepted="veth, nic"
            )
        self._plug(PhyPort(index=end.wire), end.netdev)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A tap, or one end of a veth pair."""
        if kind not in self.capabilities.attachments:
            raise self.no_attachment(kind)
        return kernelports.offer(self.machine, port, kind, queues)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the tap or pair, and the switch's side of it a port of its bridge."""
        scenario = self.plan.scenario
        offloads = bool(scenario.options.offloads)
        netdev = kernelports.make(self.machine, attachment, scenario.mtu, offloads=offloads)
        self.made[attachment.port] = attachment
        self._plug(attachment.port, netdev)

    def _plug(self, port: Port, netdev: str) -> None:
        deployment = self.plan.scenario.deployment
        learns = self.plan.scenario.rules == "learning"
        how = layout.settings(deployment, port, learns=learns)
        for bridge, segment in zip(self.bridges, deployment.segments(), strict=False):
            if port in segment:
                self.machine.in_netns(partial(netlink.plug, bridge, netdev, how))
                self.netdevs[port] = netdev
                return
        raise DutError(f"no bridge has a port {port}", where=self.name)

    def remove_port(self, port: Port) -> None:
        """Take a port out of its bridge; what was made for a VNF is deleted."""
        netdev = self.netdevs.pop(port, None)
        if netdev is None:
            there = ", ".join(map(str, self.netdevs)) or "none"
            raise DutError(f"there is no port {port}", where=self.name, accepted=there)
        self.machine.in_netns(lambda: netlink.unplug(netdev))
        if attachment := self.made.pop(port, None):
            kernelports.remove(self.machine, attachment)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Add the static entries that keep parallel chains apart; two ports need none."""
        self.entries = layout.entries(self.plan.scenario, streams)
        rows = [(entry.mac, self.netdevs[entry.port]) for entry in self.entries]
        self.machine.in_netns(lambda: netlink.add_entries(rows))

    def links_down(self) -> tuple[str, ...]:
        """Ports without carrier: a tap has none until a VNF opens it."""
        up = {link.name for link in self.machine.all_links() if link.up and link.carrier}
        return tuple(str(port) for port, netdev in self.netdevs.items() if netdev not in up)

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port, by the kernel's statistics of its interface."""
        netdevs = {str(port): netdev for port, netdev in self.netdevs.items()}
        return kernelports.counters(self.machine, netdevs)

    def check_alive(self) -> None:
        """Raise when a bridge or an interface is gone."""
        there = self.machine.link_statistics()
        wanted = dict.fromkeys(self.bridges, "a bridge")
        wanted |= {netdev: f"the interface of port {port}" for port, netdev in self.netdevs.items()}
        gone = [f"{what} ({name})" for name, what in wanted.items() if name not in there]
        if gone:
            raise DutError(f"gone: {', '.join(gone)}", where=self.name)

    def facts(self) -> dict[str, Any]:
        """Kernel, rules, and the settings of bridges and ports as the kernel has them."""
        described: dict[str, Any] = {}
        self.machine.in_netns(lambda: described.update(netlink.describe(self.bridges)))
        return {
            "backend": self.name,
            "version": f"Linux {platform.release()}",
            "launch line": "none: it is in the kernel",
            "rules": self.plan.scenario.rules,
            "bridges": described,
            "ports": {str(port): netdev for port, netdev in self.netdevs.items()},
            "attachments": {str(port): made.kind for port, made in self.made.items()},
            "queues of each VNF port": self.plan.scenario.options.rx_queues or 1,
            "offloads of VNF ports": _on(bool(self.plan.scenario.options.offloads)),
            "static entries": [f"{entry.mac} -> {entry.port}" for entry in self.entries],
        }

    def stop(self) -> None:
        """Delete the bridges; VNF ports stay, since VNFs that live on have them open."""
        for bridge in self.bridges:
            self.machine.delete_link(bridge)
        self.bridges, self.netdevs, self.entries = (), {}, ()


def _on(value: bool) -> str:
    return "on" if value else "off"
