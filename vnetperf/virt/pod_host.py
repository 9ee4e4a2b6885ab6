"""Hosts of pods: network namespaces of the run with a link between them, or those of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vnetperf.host import links
from vnetperf.host.linux import RTNH_F_ONLINK, netlink, run_in
from vnetperf.host.machine import Machine

#: Prefix length of the link between hosts.
LINK_PREFIX = 24
#: Hosts on their link (TEST-NET-1, RFC 5737).
HOST_ADDRESS = "192.0.2.{}"
#: Settings of a host's network namespace: it forwards, takes packets by any way, and a bridge with
#: an address does not report that it listens for other snoopers (RFC 4286).
SYSCTLS = {
    "net/ipv4/igmp_link_local_mcast_reports": "0",
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
}
PROC_SYS = Path("/proc/sys")


def change(netns: Path, action: str, where: str, request: Callable[[Any], object]) -> None:
    """Make a netlink request in a namespace."""

    def send() -> None:
        with netlink(action, where) as route:
            request(route)

    run_in(netns, send)


def add_address(netns: Path, name: str, address: str) -> None:
    """Give an interface an address, "192.0.2.1/24", unless it has it."""
    index, (ip, _, length) = links.get(name, netns).index, address.partition("/")
    change(
        netns,
        f"give {name} the address {address}",
        str(netns),
        lambda route: route.addr("replace", index=index, address=ip, prefixlen=int(length)),
    )


class PodHost:
    """A host of pods: a network namespace of the run with an interface towards the other host."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.netns = machine.subdir(f"host{number}") / "netns"
        self.uplink = machine.interface_name(f"u{number}")
        self.address = HOST_ADDRESS.format(number + 1)

    def create(self) -> None:
        """Make the namespace, which forwards packets; it ends with the run."""
        self.machine.create_netns(self.netns)

        def write() -> None:
            for name, value in SYSCTLS.items():
                (PROC_SYS / name).write_text(f"{value}\n")

        run_in(self.netns, write)

    @property
    def uplink_mac(self) -> str:
        """Address of its interface towards the other host."""
        return links.get(self.uplink, self.netns).mac

    def has(self, name: str) -> bool:
        """Whether it has an interface."""
        return links.find(name, self.netns) is not None

    def add_link(self, name: str, kind: str, mtu: int, *, offloads: bool, **options: Any) -> None:
        """Make an interface: quiet, and up."""
        links.create_link(self.machine.journal, name, kind, netns=self.netns, **options)
        links.make_ready(name, self.netns, mtu=mtu, offloads=offloads)

    def add_bridge(self, name: str, mtu: int, *, offloads: bool) -> None:
        """Make a bridge that neither filters nor talks."""
        quiet = {"br_stp_state": 0, "br_mcast_snooping": 0}
        self.add_link(name, "bridge", mtu, offloads=offloads, **quiet)

    def index(self, name: str) -> int:
        """Number of an interface in its namespace."""
        return links.get(name, self.netns).index

    def take_cable(self, name: str, mtu: int, mac: str, *, offloads: bool) -> None:
        """Have the end of a cable in the run's namespace as interface towards the other host."""
        links.move(name, self.netns, netns=self.machine.netns)
        index = self.index(name)
        self.change(
            f"call {name} {self.uplink}",
            lambda route: route.link("set", index=index, ifname=self.uplink),
        )
        links.make_ready(self.uplink, self.netns, mtu=mtu, offloads=offloads)
        self.set_mac(self.uplink, mac)

    def delete(self, name: str) -> None:
        """Delete an interface; that it is gone is not an error."""
        links.delete(name, netns=self.netns)

    def change(self, action: str, request: Callable[[Any], object]) -> None:
        """Make a netlink request in its namespace."""
        change(self.netns, action, f"host {self.number} of pods", request)

    def set_mac(self, name: str, mac: str) -> None:
        """Set the MAC address of an interface, unless it has it: neighbours would be gone."""
        if links.get(name, self.netns).mac != mac:
            links.set_address(name, mac, netns=self.netns)

    def add_port(self, bridge: str, name: str) -> None:
        """Make an interface a port of a bridge."""
        port, master = self.index(name), self.index(bridge)
        self.change(
            f"make {name} a port of {bridge}",
            lambda route: route.link("set", index=port, master=master),
        )

    def give_address(self, name: str = "") -> None:
        """Give an interface the host's address; "" for the one towards the other host."""
        add_address(self.netns, name or self.uplink, f"{self.address}/{LINK_PREFIX}")

    def move_address(self, source: str, target: str) -> None:
        """Give the host's address to another interface, which is brought up."""
        index = self.index(source)
        self.change(f"take the address of {source}", lambda route: route.flush_addr(index=index))
        self.give_address(target)
        links.make_ready(target, self.netns, offloads=True)

    def add_neighbour(self, name: str, address: str, mac: str) -> None:
        """Set the MAC address of a neighbour, so that none is requested."""
        index = self.index(name)
        self.change(
            f"set the neighbour {address}",
            lambda route: route.neigh(
                "replace", dst=address, lladdr=mac, ifindex=index, state="permanent"
            ),
        )

    def add_route(self, network: str, name: str, gateway: str) -> None:
        """Route a network through a neighbour at an interface."""
        index = self.index(name)
        self.change(
            f"route {network} via {gateway}",
            lambda route: route.route(
                "replace", dst=network, gateway=gateway, oif=index, flags=RTNH_F_ONLINK
            ),
        )

    def add_forwarding(self, name: str, mac: str, host: str) -> None:
        """Send what a tunnel's interface has for a MAC address to a host."""
        index = self.index(name)
        self.change(
            f"forward {mac} to {host}",
            lambda route: route.fdb("append", ifindex=index, lladdr=mac, dst=host),
        )


class FarHost(PodHost):
    """The other host of pods where another agent, or a cluster, has it: nothing of it is made here.

    Args:
        machine: The machine of this host.
        number: Number of the other.
        uplink_mac: Address of its interface towards this one.
    """

    def __init__(self, machine: Machine, number: int, uplink_mac: str) -> None:
        super().__init__(machine, number)
        self._uplink_mac = uplink_mac

    @property
    def uplink_mac(self) -> str:
        """As the plan has it."""
        return self._uplink_mac

    def create(self) -> None:
        """It is made there."""

    def has(self, name: str) -> bool:
        """Nothing of it is here."""
        return False

    def index(self, name: str) -> int:
        """Of what `change` leaves alone."""
        return 0

    def add_link(self, name: str, kind: str, mtu: int, *, offloads: bool, **options: Any) -> None:
        """It is made there."""

    def delete(self, name: str) -> None:
        """It is deleted there."""

    def change(self, action: str, request: Callable[[Any], object]) -> None:
        """It is changed there."""


def lay_uplinks(hosts: Sequence[PodHost], mtu: int, *, offloads: bool) -> None:
    """Join two hosts by a veth pair, with addresses and neighbours: the link that networks use."""
    near, other = hosts
    near.machine.load_module("veth")
    links.create_veth(
        near.machine.journal,
        (near.uplink, other.uplink),
        netns=(near.netns, other.netns),
        mtu=mtu,
        offloads=offloads,
    )
    for host in hosts:
        host.give_address()
    for host, far in ((near, other), (other, near)):
        host.add_neighbour(host.uplink, far.address, far.uplink_mac)
