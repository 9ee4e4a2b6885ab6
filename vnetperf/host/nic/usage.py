"""Who uses a network interface: addresses, routes, bridges, SSH sessions, VFIO holders."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vnetperf.host.linux import netlink

PROC = Path("/proc")
SSH_PORT = 22
ESTABLISHED = "01"
AF_INET, AF_INET6 = 2, 10


@dataclass(frozen=True, slots=True)
class UsageInterface:
    """A network link as far as its use matters.

    Attributes:
        index: Interface index.
        name: Interface name.
        master: Index of the bridge, bond or OVS datapath that has it as a port; 0 for none.
        lower: Index of the link below it in this namespace (of a VLAN, macvlan ...); 0 for none.
    """

    index: int
    name: str
    master: int = 0
    lower: int = 0


@dataclass(frozen=True, slots=True)
class NetworkState:
    """What a namespace has configured.

    Attributes:
        interfaces: Its links.
        addresses: Index of a link -> its addresses without prefix length, link-local ones left out.
        routes: Index of a link -> destinations of routes over it ("default", "192.0.2.0/24").
    """

    interfaces: tuple[UsageInterface, ...] = ()
    addresses: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    routes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InterfaceUse:
    """Why an interface must not be taken.

    Attributes:
        reason: What it carries.
        session: True when a login to this machine goes over it.
    """

    reason: str
    session: bool = False


def interface_uses() -> dict[str, InterfaceUse]:
    """Uses of the interfaces of the caller's namespace."""
    return find_uses(read_network(), ssh_addresses())


def find_uses(network: NetworkState, sessions: Iterable[str]) -> dict[str, InterfaceUse]:
    """Why interfaces must not be taken; what is stacked on an interface counts as its own."""
    sessions = set(sessions)
    found = {}
    for interface in network.interfaces:
        reasons: list[InterfaceUse] = []
        for level in _stack(interface, network.interfaces):
            via = "it" if level is interface else f"{level.name} on top of it"
            addresses = network.addresses.get(level.index, ())
            if carried := sorted(set(addresses) & sessions):
                session = f"an SSH session of this machine goes over {carried[0]}"
                reasons.append(InterfaceUse(f"{session}, which {via} carries", session=True))
            elif addresses:
                reasons.append(InterfaceUse(f"{via} carries the address {addresses[0]}"))
            if routes := network.routes.get(level.index, ()):
                reasons.append(InterfaceUse(f"{via} carries the route {routes[0]}"))
        if interface.master:
            above = next((i.name for i in network.interfaces if i.index == interface.master), "?")
            reasons.append(InterfaceUse(f"it is a port of {above}"))
        if reasons:
            found[interface.name] = max(reasons, key=lambda use: use.session)
    return found


def _stack(interface: UsageInterface, interfaces: Iterable[UsageInterface]) -> list[UsageInterface]:
    """An interface and all that is on top of it, by being its master or a link over it."""
    stack = [interface]
    for level in stack:  # grows while it is walked
        for other in interfaces:
            on_top = other.index == level.master or other.lower == level.index
            if on_top and other not in stack:
                stack.append(other)
    return stack


def read_network() -> NetworkState:
    """What the caller's namespace has configured."""
    with netlink("list links, addresses and routes") as route:
        links: list[Any] = list(route.get_links())
        addresses: list[Any] = list(route.get_addr())
        routes: list[Any] = [
            message for family in (AF_INET, AF_INET6) for message in route.get_routes(family=family)
        ]
    return NetworkState(
        interfaces=tuple(
            UsageInterface(
                index=link["index"],
                name=link.get_attr("IFLA_IFNAME"),
                master=link.get_attr("IFLA_MASTER") or 0,
                # With a namespace of its own the index is another namespace's.
                lower=0
                if link.get_attr("IFLA_LINK_NETNSID") is not None
                else link.get_attr("IFLA_LINK") or 0,
            )
            for link in links
        ),
        addresses=_grouped(
            (message["index"], message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS"))
            for message in addresses
        ),
        routes=_grouped(
            (message.get_attr("RTA_OIF"), _destination(message))
            for message in routes
            if message["type"] == 1  # unicast: the others belong to the kernel's own tables
        ),
    )


def _destination(message: Any) -> str:
    target = message.get_attr("RTA_DST")
    return f"{target}/{message['dst_len']}" if target else "default"


def _grouped(pairs: Iterable[tuple[int | None, str | None]]) -> dict[int, tuple[str, ...]]:
    """Values by index, without those that every interface has by itself."""
    found: dict[int, tuple[str, ...]] = {}
    for index, value in pairs:
        if index and value and not _is_automatic(value):
            found[index] = (*found.get(index, ()), value)
    return found


def _is_automatic(value: str) -> bool:
    """Whether an address or destination is link-local or multicast."""
    if value == "default":
        return False
    network = ipaddress.ip_network(value, strict=False)
    return network.is_link_local or network.is_multicast


def ssh_addresses() -> set[str]:
    """Local addresses that logins to this machine go over."""
    found = set()
    ports = {SSH_PORT}
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) == 4:  # client, its port, server, its port
        found.add(_unmapped(connection[2]))
        ports.add(int(connection[3]))
    for table in ("tcp", "tcp6"):
        try:
            text = (PROC / "net" / table).read_text()
        except OSError:
            continue
        found |= established_addresses(text, ports)
    return found


def established_addresses(text: str, ports: Iterable[int]) -> set[str]:
    """Local addresses of established connections to ports of this machine."""
    found = set()
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 4 or words[3] != ESTABLISHED:
            continue
        address, _, port = words[1].partition(":")
        if int(port, 16) in ports:
            # Words of 32 bits, each in the order of the processor: little endian.
            octets = b"".join(
                bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)
            )
            found.add(_unmapped(str(ipaddress.ip_address(octets))))
    return found


def _unmapped(text: str) -> str:
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def holder_of_vfio(group: int) -> str:
    """The process that has the devices of an IOMMU group."""
    wanted = f"/dev/vfio/{group}"
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            if any(_points_to(link, wanted) for link in (process / "fd").iterdir()):
                name = (process / "comm").read_text().strip()
                return f"process {process.name} ({name})"
    return ""


def _points_to(link: Path, target: str) -> bool:
    try:
        return str(link.readlink()) == target
    except OSError:  # closed meanwhile
        return False
