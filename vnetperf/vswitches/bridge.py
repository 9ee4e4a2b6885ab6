"""The Linux bridge backend: one bridge for each broadcast domain of the deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Deployment, Port, VnfPort
from vnetperf.model.errors import DutError
from vnetperf.model.frames import TUNNELS, overhead
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.plugin.backend import TUNNEL_MODULES, optional
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.vswitches.kernelports import (
    KernelSwitch,
    give_underlay_address,
    netlink,
    tunnel_link,
    tunnel_modules,
)


class PortSettings(NamedTuple):
    """Settings of a bridge's port: whether it learns, and is flooded with unknown addresses."""

    learning: bool
    flood: bool


class FdbEntry(NamedTuple):
    """A static entry of a bridge's forwarding database."""

    mac: str
    port: Port


def port_settings(deployment: Deployment, port: Port, *, learns: bool) -> PortSettings:
    """Settings of a port.

    A bridge of two ports that learns nothing floods every frame to the other one: it forwards by
    port. Where there are more, VNFs join two bridges several times over, and what is flooded to
    them would go round for ever; static entries say where frames go then.
    """
    segment = next((s for s in deployment.segments() if port in s), ())
    loops = len(segment) > 2 and isinstance(port, VnfPort)
    return PortSettings(learning=learns, flood=learns or not loops)


def fdb_entries(scenario: Scenario) -> tuple[FdbEntry, ...]:
    """Static entries that keep parallel chains apart; none where two ports are all there are."""
    if scenario.rules == "learning":
        return ()
    segments = scenario.deployment.segments()
    crowded = {port for segment in segments if len(segment) > 2 for port in segment}
    hops = scenario.hop_addresses()
    entries = (FdbEntry(hop.eth_dst, hop.dst) for hop in hops if hop.dst in crowded)
    return tuple(dict.fromkeys(entries))


#: Entries of the forwarding database (linux/neighbour.h): NTF_MASTER is the port's bridge,
#: NUD_NOARP is what iproute2 calls "static". Without NUD_REACHABLE pyroute2 adds NUD_PERMANENT,
#: which makes the address one of the bridge's own.
NTF_MASTER, NUD_REACHABLE, NUD_NOARP = 0x04, 0x02, 0x40
#: Frames of a bridge go through the machine's packet filters unless these are 0.
NETFILTER_SYSCTLS = (
    "bridge-nf-call-iptables",
    "bridge-nf-call-ip6tables",
    "bridge-nf-call-arptables",
)
BRIDGE_SYSCTLS = Path("/proc/sys/net/bridge")
#: What a result holds of a bridge and of its ports.
BRIDGE_FACTS = {
    "IFLA_BR_STP_STATE": "stp",
    "IFLA_BR_MCAST_SNOOPING": "multicast snooping",
    "IFLA_BR_VLAN_FILTERING": "vlan filtering",
    "IFLA_BR_AGEING_TIME": "ageing time (1/100 s)",
}
PORT_FACTS = {
    "IFLA_BRPORT_STATE": "state",
    "IFLA_BRPORT_LEARNING": "learning",
    "IFLA_BRPORT_UNICAST_FLOOD": "unicast flood",
    "IFLA_BRPORT_BCAST_FLOOD": "broadcast flood",
}


def bypass_packet_filters() -> None:
    """Keep frames away from iptables and ebtables, where br_netfilter is there."""
    for name in NETFILTER_SYSCTLS:
        if (BRIDGE_SYSCTLS / name).exists():
            (BRIDGE_SYSCTLS / name).write_text("0\n")


def add_bridge_port(bridge: str, netdev: str, settings: PortSettings) -> None:
    """Make an interface a port of a bridge."""
    flood = int(settings.flood)
    with netlink(f"make {netdev} a port of {bridge}", "bridge") as (route, indexes):
        port = indexes[netdev]
        route.link("set", index=port, master=indexes[bridge])
        route.brport(
            "set",
            index=port,
            learning=int(settings.learning),
            unicast_flood=flood,
            mcast_flood=flood,
            bcast_flood=flood,
        )


def remove_bridge_port(netdev: str) -> None:
    """Take an interface out of its bridge."""
    with netlink(f"take {netdev} out of its bridge", "bridge") as (route, indexes):
        route.link("set", index=indexes[netdev], master=0)


def add_fdb_entries(entries: Sequence[tuple[str, str]]) -> None:
    """Add static entries to the forwarding databases of bridges."""
    if not entries:
        return
    with netlink("add static entries", "bridge") as (route, indexes):
        for mac, netdev in entries:
            where = {"ifindex": indexes[netdev], "lladdr": mac}
            route.fdb("add", **where, flags=NTF_MASTER, state=NUD_NOARP | NUD_REACHABLE)


def describe_bridges(bridges: Sequence[str]) -> dict[str, Any]:
    """Settings of bridges and their ports as the kernel has them."""
    bridge_facts: dict[str, Any] = {}
    with netlink("read the settings of bridges", "bridge") as (route, indexes):
        names = {index: name for name, index in indexes.items()}
        for message in sorted(route.get_links(), key=lambda m: int(m["index"])):
            name, info = names.get(message["index"], ""), message.get_attr("IFLA_LINKINFO")
            if name in bridges:
                settings = _named_attributes(info.get_attr("IFLA_INFO_DATA"), BRIDGE_FACTS)
                bridge_facts.setdefault(name, {}).update(settings)
            master = names.get(message.get_attr("IFLA_MASTER") or 0, "")
            if master in bridges:
                settings = _named_attributes(info.get_attr("IFLA_INFO_SLAVE_DATA"), PORT_FACTS)
                settings["mtu"] = message.get_attr("IFLA_MTU")
                bridge_facts.setdefault(master, {}).setdefault("ports", {})[name] = settings
    return bridge_facts


def _named_attributes(data: Any, names: Mapping[str, str]) -> dict[str, Any]:
    return {} if data is None else {name: data.get_attr(key) for key, name in names.items()}


def _chains_problem(scenario: Scenario) -> str:
    """What keeps bridges from telling parallel chains apart."""
    if scenario.rules == "learning" and not scenario.vnf_addresses:
        # What is sent to an address that nobody sends from is flooded for ever.
        return (
            "parallel chains are a loop to a bridge that learns, unless VNFs write their own "
            f"addresses, which mode {scenario.vnf_mode} does not; leave --vnf-mode out, or "
            "choose --rules port"
        )
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


BRIDGE_MODULE = KernelModule(name="bridge", purpose="a Linux bridge", symbol="br_handle_frame")


class LinuxBridge(KernelSwitch):
    """Bridges of the kernel in the run's namespace: veth and NIC wires, taps and veth for VNFs."""

    name: ClassVar[str] = "bridge"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (
        BRIDGE_MODULE,
        *optional(*TUNNEL_MODULES.values()),
    )
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic"),
        attachments=("veth", "tap"),
        max_frame_size=JUMBO_FRAME_SIZE,
        rules=("port", "learning"),
        tunnels=TUNNELS,
        options=("rx_queues", "mtu", "offloads", "napi"),
        nic_drivers=("kernel",),
    )

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.bridges: tuple[str, ...] = ()
        self.entries: tuple[FdbEntry, ...] = ()
        #: Interfaces of tunnels, which are ports of bridges in place of those below them.
        self.tunnels: dict[Port, str] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps bridges from carrying the scenario here."""
        troubles = [facts.missing_module(module) for module in tunnel_modules(scenario)]
        if trouble := super().missing(facts, scenario) or next(filter(None, troubles), ""):
            return trouble
        return _chains_problem(scenario) if scenario.deployment.chains > 1 else ""

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The bridges that `--plan` can show."""
        deployment, learns = plan.scenario.deployment, plan.scenario.rules == "learning"

        def described(port: Port) -> str:
            bridge_port = port_settings(deployment, port, learns=learns)
            flags = (
                f"learning {_on_off(bridge_port.learning)}, flooding {_on_off(bridge_port.flood)}"
            )
            return f"{port} ({flags}, MTU {plan.scenario.mtu})"

        lines = {
            f"bridge {number}": "STP off, multicast snooping off; "
            + ", ".join(map(described, segment))
            for number, segment in enumerate(deployment.segments())
        }
        for end in plan.scenario.tunnel_ends:
            kind, settings = tunnel_link(plan.scenario.tunnel, end)
            shown = " ".join(f"{key} {value}" for key, value in settings.items())
            lines[f"{kind} at {end.port}"] = f"{shown}; {end.local}/{end.prefix} at {end.port}"
        if static := fdb_entries(plan.scenario):
            lines["static entries"] = ", ".join(f"{e.mac} -> {e.port}" for e in static)
        return lines

    def start(self) -> None:
        """Make the bridges, without ports."""
        for module in (BRIDGE_MODULE, *tunnel_modules(self.plan.scenario)):
            self.machine.load_module(module)
        self.machine.in_netns(bypass_packet_filters)
        for number, _ in enumerate(self.plan.scenario.deployment.segments()):
            name = self.machine.interface_name(f"br{number}")
            self.machine.create_link(name, "bridge", br_stp_state=0, br_mcast_snooping=0)
            self.bridges = (*self.bridges, name)

    def plug(self, port: Port, netdev: str) -> None:
        """Make an interface a port of its bridge."""
        deployment = self.plan.scenario.deployment
        learns = self.plan.scenario.rules == "learning"
        bridge_port = port_settings(deployment, port, learns=learns)
        for bridge, segment in zip(self.bridges, deployment.segments(), strict=False):
            if port in segment:
                member = self._tunnel(port, netdev) or netdev
                self.machine.in_netns(partial(add_bridge_port, bridge, member, bridge_port))
                return
        raise DutError(f"no bridge has a port {port}", where=self.name)

    def _tunnel(self, port: Port, netdev: str) -> str:
        """Make the tunnel at a port, on top of its interface; "" where frames are in none."""
        scenario = self.plan.scenario
        end = next((end for end in scenario.tunnel_ends if end.port == port), None)
        if end is None:
            return ""
        kind, settings = tunnel_link(scenario.tunnel, end)
        self.machine.set_link(netdev, mac=end.mac)
        give_underlay_address(self.machine, netdev, end)
        name = self.machine.interface_name(f"tun{end.number}")
        mtu = scenario.mtu - overhead(scenario.tunnel)
        self.machine.create_link(name, kind, mtu=mtu, **settings)
        self.tunnels[port] = name
        return name

    def link_came_up(self, port: Port) -> None:
        """Name a tunnel's other end anew: neighbours, static ones too, go with the link."""
        super().link_came_up(port)
        if port in self.tunnels:
            end = next(end for end in self.plan.scenario.tunnel_ends if end.port == port)
            give_underlay_address(self.machine, self.netdevs[port], end)

    def unplug(self, port: Port, netdev: str) -> None:
        """Take an interface out of its bridge; a tunnel on top of it is deleted."""
        if tunnel := self.tunnels.pop(port, ""):
            self.machine.delete_link(tunnel)
            return
        self.machine.in_netns(lambda: remove_bridge_port(netdev))

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Add the static entries that keep parallel chains apart; two ports need none."""
        self.entries = fdb_entries(self.plan.scenario)
        rows = [(entry.mac, self.netdevs[entry.port]) for entry in self.entries]
        self.machine.in_netns(lambda: add_fdb_entries(rows))

    def parts(self) -> dict[str, str]:
        """Bridges and interfaces."""
        tunnels = {name: f"the tunnel at {port}" for port, name in self.tunnels.items()}
        return dict.fromkeys(self.bridges, "a bridge") | tunnels | super().parts()

    def facts(self) -> dict[str, Any]:
        """Kernel, rules, and the settings of bridges and ports as the kernel has them."""
        options = self.plan.scenario.options
        return {
            **super().facts(),
            "rules": self.plan.scenario.rules,
            "bridges": self.machine.in_netns(lambda: describe_bridges(self.bridges)),
            "queues of each VNF port": options.rx_queues or 1,
            "offloads of VNF ports": _on_off(bool(options.offloads)),
            "tunnels": {str(port): name for port, name in self.tunnels.items()},
            "static entries": [f"{entry.mac} -> {entry.port}" for entry in self.entries],
        }

    def stop(self) -> None:
        """Delete the bridges; VNF ports stay, since VNFs that live on have them open."""
        for link in (*self.tunnels.values(), *self.bridges):
            self.machine.delete_link(link)
        self.bridges, self.netdevs, self.entries, self.tunnels = (), {}, (), {}


def _on_off(value: bool) -> str:
    return "on" if value else "off"
