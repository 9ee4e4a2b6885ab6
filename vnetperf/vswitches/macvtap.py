"""The macvtap backend: the kernel steers frames by MAC address between a NIC and VNFs."""

from __future__ import annotations

import platform
import zlib
from typing import Any, ClassVar

from vnetperf.host import tc_redirect
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import (
    Attachment,
    Deployment,
    PhyPort,
    Port,
    VnfPort,
    dut_mac,
    vnf_mac,
)
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.vswitches.kernelports import KernelSwitch, hop_counters

#: What macvtap's modes do with a frame from one macvtap to another on the same device: "bridge"
#: hands it over, "vepa" leaves it to the switch outside, "private" drops what comes back as well,
#: "passthru" has the device to itself.
MODES = ("bridge", "vepa", "private", "passthru")

#: A physical port, or the number of a segment that has none: VNFs among themselves.
LowerDevice = PhyPort | int


def lower_device(deployment: Deployment, port: Port) -> LowerDevice:
    """The device under a port's macvtap."""
    if isinstance(port, PhyPort):
        return port
    for number, segment in enumerate(deployment.segments()):
        if port in segment:
            return next((p for p in segment if isinstance(p, PhyPort)), number)
    raise ValueError(f"{deployment.name}: no hop touches {port}")


def vnf_only_segments(deployment: Deployment) -> tuple[int, ...]:
    """Segments between VNFs alone, which need a device of their own."""
    segments = enumerate(deployment.segments())
    return tuple(n for n, s in segments if not any(isinstance(p, PhyPort) for p in s))


def macvtap_mode(scenario: Scenario) -> str:
    """The mode of a scenario's macvtaps: "passthru" where none is addressed by anybody."""
    return scenario.options.mode or (
        "passthru" if tc_redirect.joins_cable(scenario.deployment) else MODES[0]
    )


def macvtap_problem(scenario: Scenario) -> str:
    """What the scenario's mode and traffic cannot do on macvtaps."""
    deployment, mode = scenario.deployment, macvtap_mode(scenario)
    if mode != "passthru" and tc_redirect.joins_cable(deployment):
        return (
            f"macvtap in mode {mode} takes frames by their destination MAC, and nothing between "
            "the vSwitches of two hosts writes the next one's; choose the mode passthru, or none"
        )
    between = bool(vnf_only_segments(deployment))
    vnf_to_vnf = any(
        isinstance(hop.src, VnfPort) and isinstance(hop.dst, VnfPort) for hop in deployment.hops
    )
    if between and mode != "bridge":
        return (
            f"macvtap in mode {mode} passes nothing from VNF to VNF on its own; choose the mode "
            "bridge, or a deployment without links between VNFs"
        )
    crowded = any(
        sum(isinstance(port, VnfPort) for port in segment) > 1 for segment in deployment.segments()
    )
    if crowded and mode == "passthru":
        return (
            "macvtap in mode passthru has a physical port to itself, and this deployment puts "
            "several VNFs on one; choose another mode"
        )
    if vnf_to_vnf and deployment.vnf_count and not scenario.vnf_addresses:
        return (
            "between VNFs macvtap finds the next one by destination MAC, which a VNF in mode "
            f"{scenario.vnf_mode} does not write; choose --vnf-mode mac"
        )
    if "eth_dst" in scenario.traffic.vary and mode != "passthru":
        return (
            "macvtap takes frames by their destination MAC, which this traffic varies; vary "
            "another field than eth_dst"
        )
    return ""


#: A macvlan is the interface alone, for containers; a macvtap has a file besides, for VMs.
KINDS = ("macvtap", "macvlan")

MACVTAP_MODULE = KernelModule(name="macvtap", purpose="macvtap", symbol="macvtap_newlink")


class Macvtap(KernelSwitch):
    """Macvtaps on wires' ends, one for each VNF port; on both ends where there is no VNF."""

    name: ClassVar[str] = "macvtap"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (MACVTAP_MODULE, *tc_redirect.MODULES)
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic"),
        attachments=KINDS,
        max_frame_size=JUMBO_FRAME_SIZE,
        modes=MODES,
        options=("rx_queues", "mtu", "offloads"),
        addressing="port",
        nic_drivers=("kernel",),
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.deployment = plan.scenario.deployment
        #: Devices under macvtaps of segments of VNFs alone: one end of a pair.
        self.inner: dict[int, str] = {}
        #: Macvtaps of physical ports that are joined to another.
        self.joined: dict[PhyPort, str] = {}
        self.macvtap_facts: dict[str, dict[str, Any]] = {}
        self.matcher = ""

    @property
    def mode(self) -> str:
        """Mode of all macvtaps."""
        return macvtap_mode(self.plan.scenario)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps macvtap from carrying the scenario here."""
        return (
            cls.missing_requirement(facts)
            or tc_redirect.redirect_problem(facts, scenario.deployment)
            or macvtap_problem(scenario)
        )

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The macvtaps that `--plan` can show."""
        deployment, scenario = plan.scenario.deployment, plan.scenario
        mode = macvtap_mode(scenario)
        lines = {}
        for port in deployment.vnf_ports():
            lower = lower_device(deployment, port)
            on = str(lower) if isinstance(lower, PhyPort) else f"a veth pair ({lower})"
            lines[f"macvtap {port}"] = f"on {on}, mode {mode}, MAC {vnf_mac(port)}"
        for source, target in tc_redirect.joined_phy_ports(deployment):
            kind = tc_redirect.available_matcher(facts) if facts else "matchall or u32"
            lines[f"macvtap {source}"] = (
                f"on {source}, mode {mode}, MAC {dut_mac(source)}; tc ingress filter {kind}: "
                f"redirect to the macvtap on {target}"
            )
        return lines

    def start(self) -> None:
        """Make what VNFs among themselves sit on; macvtaps come with their ports."""
        self.machine.load_module(MACVTAP_MODULE)
        mtu = self.plan.scenario.mtu
        statistics = self.machine.link_statistics()
        for number in vnf_only_segments(self.deployment):
            # Both ends are up, or macvtaps on it had no carrier; what leaves it meets nobody.
            lower, end = (self.machine.interface_name(f"{c}{number}") for c in ("in", "out"))
            if lower not in statistics:
                self.machine.create_veth(lower, end, mtu)
            self.inner[number] = lower

    def plug(self, port: Port, netdev: str) -> None:
        """Take a wire's end as the device under macvtaps."""
        self.machine.set_link(netdev, up=True)  # it may have been removed

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A macvtap, with /dev/tapN of the same device for a VM, or a macvlan for a container."""
        self.check_kind(kind)
        return Attachment(
            port=port,
            kind=kind,
            netdev=self._name(port),
            queues=queues,
            mac=vnf_mac(port),
            offloads=bool(self.plan.scenario.options.offloads),
        )

    def _name(self, port: Port) -> str:
        if isinstance(port, PhyPort):
            return self.machine.interface_name(f"m{port.index}")
        return self.machine.interface_name(f"m{port.vnf}{'ab'[port.index]}")

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the macvtap on the device of the port's segment."""
        port = attachment.port
        queues = attachment.queues
        self.netdevs[port] = self._make(port, vnf_mac(port), queues, attachment.kind)

    def _make(self, port: Port, mac: str, queues: int, kind: str = KINDS[0]) -> str:
        device = lower_device(self.deployment, port)
        lower = self.inner.get(device) if isinstance(device, int) else self.netdevs.get(device)
        if lower is None:
            raise DutError(f"there is nothing under {port} yet", where=self.name)
        name, mtu = self._name(port), self.plan.scenario.mtu
        if name in self.machine.link_statistics():  # a VNF has had it open since before a restart
            self.machine.set_link(name, up=True)
        else:
            self.machine.create_link(
                name,
                kind,
                mtu=mtu,
                offloads=bool(self.plan.scenario.options.offloads),
                index=make_interface_index(name),
                link=self.machine.link(lower).index,
                **{f"{kind}_mode": self.mode},
                address=mac,
                num_tx_queues=queues,
                num_rx_queues=queues,
            )
        link = self.machine.link(name)
        self.macvtap_facts[str(port)] = {
            "interface": name,
            "on": lower,
            "mode": self.mode,
            "mac": link.mac,
            "mtu": link.mtu,
            "queues": queues,
            "tap": f"/dev/tap{link.index}" if link.kind == "macvtap" else "none: a macvlan",
        }
        return name

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Join physical ports that have no VNF between them; the rest goes by addresses."""
        pairs = tc_redirect.joined_phy_ports(self.deployment)
        for source, _ in pairs:
            queues = self.plan.scenario.options.rx_queues or 1
            self.joined[source] = self._make(source, dut_mac(source), queues)
        if pairs:
            names = {self.joined[a]: self.joined[b] for a, b in pairs}
            self.matcher = tc_redirect.redirect(self.machine, names)

    def unplug(self, port: Port, netdev: str) -> None:
        """Delete a port's macvtap; a wire's end is taken down, with the macvtaps that are on it."""
        macvtap = self.joined.pop(port, None) if isinstance(port, PhyPort) else netdev
        if macvtap is not None:
            self.machine.delete_link(macvtap)
            del self.macvtap_facts[str(port)]
        if isinstance(port, PhyPort):
            self.machine.set_link(netdev, up=False)

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of wires' ends and of macvtaps.

        A macvtap's interface is the VNF's: what it sends, the switch takes in.
        """
        table = self.machine.link_statistics()
        hops = [
            hop_counters(str(port), table[name], from_vnf=isinstance(port, VnfPort))
            for port, name in self.netdevs.items()
            if name in table
        ]
        hops += [
            hop_counters(f"{port} (macvtap)", table[name])
            for port, name in self.joined.items()
            if name in table
        ]
        return tuple(hops)

    def parts(self) -> dict[str, str]:
        """Macvtaps, and the devices under them."""
        wires = {p: n for p, n in self.netdevs.items() if isinstance(p, PhyPort)}
        vnfs = {p: n for p, n in self.netdevs.items() if isinstance(p, VnfPort)}
        parts = {name: f"the macvtap of {port}" for port, name in (self.joined | vnfs).items()}
        for port, name in (*self.inner.items(), *wires.items()):
            parts[name] = f"the device under macvtaps at {port}"
        return parts

    def facts(self) -> dict[str, Any]:
        """Kernel, mode, and each macvtap as the kernel has it."""
        return {
            "backend": self.name,
            "version": f"Linux {platform.release()}",
            "launch line": "none: it is in the kernel",
            "mode": self.mode,
            "ports": {str(port): name for port, name in self.netdevs.items()},
            "macvtaps": self.macvtap_facts,
            "offloads": "on" if self.plan.scenario.options.offloads else "off",
            "physical ports are joined by": f"tc ingress, {self.matcher}, mirred redirect"
            if self.matcher
            else "nothing: VNFs are between them",
        }

    def stop(self) -> None:
        """Delete what joins physical ports, and take VNFs' macvtaps down; VNFs have them open."""
        statistics = self.machine.link_statistics() if self.netdevs else {}
        for name in self.joined.values():
            self.machine.delete_link(name)
        for port, name in self.netdevs.items():
            if isinstance(port, VnfPort) and name in statistics:
                self.machine.set_link(name, up=False)
        self.netdevs, self.joined, self.inner, self.macvtap_facts, self.matcher = {}, {}, {}, {}, ""


def make_interface_index(name: str) -> int:
    """An interface index of its own: /dev/tapN has one N for all namespaces of the machine."""
    return 0x40000000 | zlib.crc32(name.encode()) & 0x3FFFFFFF
