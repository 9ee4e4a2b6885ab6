"""Switches in the kernel: their ports are interfaces in the run's network namespace.

VNF ports are taps and veth pairs.

A tap is one device: the switch has the device, the VNF opens it as a file (/dev/net/tun). A veth
pair has two ends, one for each. Seen from the switch both count alike: what the VNF sends is
received (rx), what the switch puts out is sent (tx).
"""

from __future__ import annotations

import platform
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from vnetperf.host.links import LinkStatistics
from vnetperf.host.linux import PROC, RTNH_F_ONLINK
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Attachment, PhyPort, Port, VnfPort, WireEnd
from vnetperf.model.errors import DutError
from vnetperf.model.frames import UDP_PORT
from vnetperf.model.scenario import NicUse, Plan, Pollers, RoleDemand, Scenario, TunnelEnd
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import TUNNEL_MODULES, NapiThreads, threaded_napi
from vnetperf.plugin.vswitch import VSwitch

#: Role of the kernel's receive threads, and how not to have them.
NAPI, NOT_THREADED = "napi", "leave --set napi=threaded out"
#: Kinds of attachment made here, a VM's first.
KINDS = ("tap", "veth")


def hop_counters(port: str, link: LinkStatistics, *, from_vnf: bool = False) -> HopCounters:
    """Counters of an interface as the switch sees them; one of the VNF's counts the other way."""
    rx, tx, rx_dropped, tx_dropped = link.rx, link.tx, link.rx_dropped, link.tx_dropped
    if from_vnf:
        rx, tx, rx_dropped, tx_dropped = tx, rx, tx_dropped, rx_dropped
    return HopCounters(port=port, rx=rx, tx=tx, rx_dropped=rx_dropped, tx_dropped=tx_dropped)


@contextmanager
def netlink(action: str, where: str, cure: str = "") -> Iterator[tuple[Any, dict[str, int]]]:
    """A netlink socket of this thread's namespace, and the index of each interface there.

    A refusal becomes one `DutError`: "cannot WHAT: ...".
    """
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    try:
        with IPRoute() as route:
            yield route, {m.get_attr("IFLA_IFNAME"): m["index"] for m in route.get_links()}
    except KeyError as error:
        text = f"cannot {action}: there is no interface {error}"
        raise DutError(text, where=where, cure=cure) from error
    except (NetlinkError, OSError) as error:
        raise DutError(f"cannot {action}: {error}", where=where, cure=cure) from error


IPV6_SETTINGS = Path("/proc/sys/net/ipv6/conf")


def tunnel_modules(scenario: Scenario) -> tuple[KernelModule, ...]:
    """Modules that the tunnels of a scenario need."""
    return (TUNNEL_MODULES[scenario.tunnel],) if scenario.deployment.tunnelled else ()


def tunnel_link(kind: str, end: TunnelEnd) -> tuple[str, dict[str, Any]]:
    """A tunnel's interface: its kind among the kernel's links, and its settings.

    Frames have no UDP checksum (RFC 7348), and no other end is ever learned.
    """
    if kind == "vxlan":
        ends = {"vxlan_local": end.local, "vxlan_group": end.remote}
        flags = {"vxlan_learning": 0, "vxlan_udp_csum": 0}
        return kind, {"vxlan_id": end.vni, "vxlan_port": UDP_PORT[kind], **ends, **flags}
    if kind == "geneve":
        return kind, {
            "geneve_id": end.vni,
            "geneve_remote": end.remote,
            "geneve_port": UDP_PORT[kind],
        }
    return "gretap", {"gre_local": end.local, "gre_remote": end.remote}


def give_underlay_address(machine: Machine, netdev: str, end: TunnelEnd) -> None:
    """Give a tunnel's underlay interface its address, and name the other end as its neighbour.

    The interface is in the run's network namespace, and goes with the switch or the run.
    """

    def give() -> None:
        with netlink("give the tunnel's interface its address", netdev) as (route, indexes):
            ipv6 = IPV6_SETTINGS / netdev / "disable_ipv6"
            if ipv6.exists():  # its own neighbour discovery would leave by the wire
                ipv6.write_text("1\n")
            index = indexes[netdev]
            route.addr("replace", index=index, address=end.local, prefixlen=end.prefix)
            route.link("set", index=index, state="up")
            neighbour = {"dst": end.remote, "lladdr": end.peer_mac, "state": "permanent"}
            route.neigh("replace", ifindex=index, **neighbour)

    machine.in_netns(give)


#: Next hops at ports of a router: link-local addresses, which are never resolved.
NEXT_HOPS = IPv4Address("169.254.0.1")
IPV4_SETTINGS = PROC / "sys/net/ipv4/conf"
MAIN_TABLE = 254  # linux/rtnetlink.h


def add_way(
    route: Any, network: str, out: int, *, number: int, mac: str, table: int = MAIN_TABLE
) -> None:
    """A route to a network by an interface, whose neighbour `number` has this MAC address."""
    via = str(NEXT_HOPS + number)
    route.neigh("replace", ifindex=out, dst=via, lladdr=mac, state="permanent")
    way = {"dst": network, "gateway": via, "oif": out, "flags": RTNH_F_ONLINK}
    route.route("replace", table=table, **way)


class KernelAttachments(VSwitch):
    """A switch that offers taps and veth pairs."""

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.attachments: dict[Port, Attachment] = {}

    @property
    def _offloads(self) -> bool:
        return bool(self.plan.scenario.options.offloads)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """A tap, or one end of a veth pair.

        Offloads are for what plugs in as well: what a guest sends into a tap, the tap's do not
        rule.
        """
        self.check_kind(kind)
        netdev = _name(self.machine, port, "v")
        return Attachment(
            port=port, kind=kind, netdev=netdev, queues=queues, offloads=self._offloads
        )

    def make_attachment(self, attachment: Attachment) -> str:
        """Make the tap or the pair, up and quiet; return the switch's interface of it.

        A switch that restarts finds it as it left it.
        """
        vnf_side, switch_side = _sides(self.machine, attachment)
        mtu, offloads = self.plan.scenario.mtu, self._offloads
        if switch_side in self.machine.link_statistics():
            pass  # a VNF has it open
        elif attachment.kind == "tap":
            multi_queue = attachment.multi_queue
            self.machine.create_tap(switch_side, mtu, offloads=offloads, multi_queue=multi_queue)
        else:
            queues = attachment.queues
            self.machine.create_veth(vnf_side, switch_side, mtu, offloads=offloads, queues=queues)
        self.attachments[attachment.port] = attachment
        return switch_side

    def delete_attachment(self, port: Port) -> None:
        """Delete what was made for a VNF's port, if it is one; that it is gone is no error."""
        if attachment := self.attachments.pop(port, None):
            # A pair's other end goes with it.
            self.machine.delete_link(_sides(self.machine, attachment)[1])


def queues_problem(scenario: Scenario) -> str:
    """Why `rx_queues` would change nothing: the tester decides on the queues of wires."""
    if scenario.options.rx_queues is None or scenario.deployment.vnf_ports():
        return ""
    return (
        f"rx_queues are those of VNF ports here, and {scenario.deployment.name} has none: leave "
        "rx_queues out, or choose a deployment with VNFs"
    )


class KernelSwitch(KernelAttachments):
    """A switch whose ports are kernel interfaces: wires' ends, taps and veth pairs of VNFs."""

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.netdevs: dict[Port, str] = {}
        self.threads = NapiThreads(machine, plan, NAPI)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What it lacks, or NAPI threads where an interface has none."""
        if threaded_napi(scenario) and scenario.has_guests:
            return f"a guest's tap has no NAPI: {NOT_THREADED}, or choose VNFs in containers"
        return queues_problem(scenario) or super().missing(facts, scenario)

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """NAPI threads are given to veth ends, which go with the run."""
        if nics and threaded_napi(scenario):
            return f"threads of NAPI are given to veth ends, not to NICs: {NOT_THREADED}"
        return ""

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """The kernel's threads: one for each receive queue of its ports; none in softirq."""
        graph = scenario.deployment
        queues = scenario.options.rx_queues or 1
        count = sum(queues if isinstance(port, VnfPort) else 1 for port in graph.ports)
        demand = RoleDemand(role=NAPI, threads=count, group="switch", sleeps=True)
        return (demand,) if threaded_napi(scenario) and count else ()

    @abstractmethod
    def plug(self, port: Port, netdev: str) -> None:
        """Make an interface a port of the switch; it is in the run's namespace."""

    @abstractmethod
    def unplug(self, port: Port, netdev: str) -> None:
        """Take an interface out of the switch, and what is forwarded to it."""

    def add_phy_port(self, end: WireEnd) -> None:
        """Make a wire's end a port."""
        if end.netdev is None:
            raise self.cannot_plug(end)
        self._add(PhyPort(index=end.wire), end.netdev)

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Make the tap or the pair, and the switch's side of it a port."""
        self._add(attachment.port, self.make_attachment(attachment))

    def _add(self, port: Port, netdev: str) -> None:
        self.plug(port, netdev)
        self.netdevs[port] = netdev
        self.threads.start(netdev)

    def remove_port(self, port: Port) -> None:
        """Take a port out of the switch; what was made for a VNF is deleted."""
        if port not in self.netdevs:
            raise self.no_port(port, self.netdevs)
        netdev = self.netdevs.pop(port)
        self.threads.forget(netdev)
        self.unplug(port, netdev)
        self.delete_attachment(port)

    def link_came_up(self, port: Port) -> None:
        """Start the port's threads anew: they have ended with its link."""
        if port in self.netdevs:
            self.threads.start(self.netdevs[port])

    def pollers(self) -> tuple[Pollers, ...]:
        """The kernel's threads, where it has been given some."""
        return self.threads.pollers() if self.netdevs else ()

    def links_down(self) -> tuple[str, ...]:
        """Ports without carrier: a tap has none until a VNF opens it."""
        up = {link.name for link in self.machine.all_links() if link.up and link.carrier}
        return tuple(str(port) for port, netdev in self.netdevs.items() if netdev not in up)

    def counters(self) -> tuple[HopCounters, ...]:
        """Counters of every port, by the kernel's statistics of its interface."""
        table = self.machine.link_statistics()
        return tuple(
            hop_counters(str(port), table[name])
            for port, name in self.netdevs.items()
            if name in table
        )

    def parts(self) -> dict[str, str]:
        """Interfaces that must be there while it runs, and what each is."""
        return {name: f"the interface of port {port}" for port, name in self.netdevs.items()}

    def check_alive(self) -> None:
        """Raise when an interface is gone."""
        statistics = self.machine.link_statistics()
        gone = [f"{part} ({name})" for name, part in self.parts().items() if name not in statistics]
        if gone:
            raise DutError(f"gone: {', '.join(gone)}", where=self.name)

    def facts(self) -> dict[str, Any]:
        """What all switches of the kernel have in common."""
        return {
            "backend": self.name,
            "version": f"Linux {platform.release()}",
            "launch line": "none: it is in the kernel",
            "ports": {str(port): netdev for port, netdev in self.netdevs.items()},
            "attachments": {
                str(port): attachment.kind for port, attachment in self.attachments.items()
            },
            **self.threads.facts(),
        }


def _sides(machine: Machine, attachment: Attachment) -> tuple[str, str]:
    """Names of the VNF's interface and the switch's."""
    vnf_side = str(attachment.netdev)
    if attachment.kind == "tap":
        return vnf_side, vnf_side
    return vnf_side, _name(machine, attachment.port, "s")


def _name(machine: Machine, port: VnfPort, side: str) -> str:
    return machine.interface_name(f"{side}{port.vnf}{'ab'[port.index]}")
