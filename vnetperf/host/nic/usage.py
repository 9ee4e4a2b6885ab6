"""Who uses a network interface: addresses, routes, bridges, logins, processes that drive it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from vnetperf.host.linux import (
    PROC,
    close_after,
    list_open_files,
    netlink,
    network_namespaces,
    read_file,
    read_octets,
    run_in,
)
from vnetperf.host.nic.users import (
    DUMP,
    OtherUse,
    ask_kernel,
    attributes,
    lower_link,
    number,
    other_uses,
)
from vnetperf.model.errors import HostError

SSH_PORT = 22
ESTABLISHED = "01"
AF_INET, AF_INET6 = 2, 10


@dataclass(frozen=True, slots=True)
class UsageInterface:
    """A network link as far as its use matters.

    Attributes:
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
        addresses: Index of a link -> its addresses without prefix length, without those that the
            kernel gives every interface (link-local ones of IPv6).
        routes: Index of a link -> destinations of routes over it ("default", "192.0.2.0/24").
        shared: Likewise of those with several next hops or a nexthop object: the kernel drops the
            whole route, or the object, with one of its links.
        automatic: Index of a link -> its link-local addresses, which count when a login uses them.
        elsewhere: Index of a link -> what is on top of it in other network namespaces.
        disciplines: Index of a link -> queueing disciplines that somebody set ("htb 1:", "clsact").
        others: Index of a link -> what else uses it: sockets, BPF programs, rules.
    """

    interfaces: tuple[UsageInterface, ...] = ()
    addresses: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    routes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    shared: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    automatic: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    elsewhere: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    disciplines: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    others: Mapping[int, tuple[OtherUse, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InterfaceUse:
    """Why an interface must not be taken.

    Attributes:
        session: A login to this machine goes over it.
        lost: What uses it would not come back: the kernel takes ports out of bridges and bonds,
            links away from what they are on, and queueing disciplines and routes of several next
            hops away, when an interface leaves its namespace or its driver.
    """

    reason: str
    session: bool = False
    lost: bool = False

    @property
    def never(self) -> bool:
        """Whether it must not be taken in an isolated environment either."""
        return self.session or self.lost


def interface_uses() -> dict[str, InterfaceUse]:
    """Uses of the interfaces of the caller's namespace."""
    return find_uses(read_network(), ssh_addresses())


def find_uses(network: NetworkState, sessions: Iterable[str]) -> dict[str, InterfaceUse]:
    """Why interfaces must not be taken; what is stacked on an interface counts as its own."""
    uses = {}
    for interface in network.interfaces:
        if reasons := list(_find_interface_uses(interface, network, set(sessions))):
            uses[interface.name] = max(reasons, key=lambda use: (use.session, use.lost))
    return uses


def _find_interface_uses(
    interface: UsageInterface, network: NetworkState, sessions: set[str]
) -> Iterator[InterfaceUse]:
    taken_away = _stack(interface, network.interfaces, beyond_pairs=False)
    for level in _stack(interface, network.interfaces):
        via = "it" if level is interface else f"{level.name} on top of it"
        lost = level is not interface and level in taken_away
        addresses = network.addresses.get(level.index, ())
        automatic = network.automatic.get(level.index, ())
        if carried := sorted({*addresses, *automatic} & sessions):
            session = f"an SSH session of this machine goes over {carried[0]}"
            yield InterfaceUse(f"{session}, which {via} carries", session=True)
        elif addresses:
            yield InterfaceUse(f"{via} carries the address {addresses[0]}", lost=lost)
        if routes := network.routes.get(level.index, ()):
            yield InterfaceUse(f"{via} carries the route {routes[0]}", lost=lost)
        if level in taken_away and (routes := network.shared.get(level.index, ())):
            yield InterfaceUse(f"{via} carries the route {routes[0]}", lost=True)
        for other in network.others.get(level.index, ()) if level in taken_away else ():
            yield InterfaceUse(f"{via} {other.reason}", lost=lost or other.lost)
        if above := network.elsewhere.get(level.index, ()):
            yield InterfaceUse(f"{above[0]} is on top of {via}", lost=level in taken_away)
    yield from _list_direct_uses(interface, network)


def _list_direct_uses(interface: UsageInterface, network: NetworkState) -> Iterator[InterfaceUse]:
    """What an interface is a part of, and what is set on it alone."""
    if interface.master:
        above = next((i.name for i in network.interfaces if i.index == interface.master), "?")
        yield InterfaceUse(f"it is a port of {above}", lost=True)
    if set_ := network.disciplines.get(interface.index, ()):
        reason = f"it has the queueing discipline {set_[0]}, which `tc qdisc del` takes away"
        yield InterfaceUse(reason, lost=True)
    for other in network.interfaces:
        if other.lower == interface.index and not _are_peers(other, interface):
            yield InterfaceUse(f"{other.name} is on top of it", lost=True)


def _are_peers(first: UsageInterface, second: UsageInterface) -> bool:
    """Whether they are the two ends of a veth pair, which nothing takes apart."""
    return first.lower == second.index and second.lower == first.index


def _stack(
    interface: UsageInterface, interfaces: Iterable[UsageInterface], *, beyond_pairs: bool = True
) -> list[UsageInterface]:
    """An interface and all that is on top of it, by being its master or a link over it.

    The two ends of a pair are on top of each other, unless what is beyond pairs is not wanted.
    """
    stack = [interface]
    for level in stack:  # grows while it is walked
        for other in interfaces:
            on_top = other.index == level.master or other.lower == level.index
            on_top = on_top and (beyond_pairs or not _are_peers(level, other))
            if on_top and other not in stack:
                stack.append(other)
    return stack


def read_network() -> NetworkState:
    """What the caller's namespace has configured."""
    with netlink("list links, addresses, routes and queueing disciplines") as route:
        links: list[Any] = list(route.get_links())
        disciplines: list[Any] = list(route.get_qdiscs())
        addresses: list[Any] = list(route.get_addr())
        routes: list[Any] = [
            message for family in (AF_INET, AF_INET6) for message in route.get_routes(family=family)
        ]
        others = other_uses(route, links)
    address_pairs = [
        (message["index"], message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS"))
        for message in addresses
    ]
    over = [
        (index, _destination(message), len(hops) > 1)
        for message in routes
        if message["type"] == 1  # unicast: the others belong to the kernel's own tables
        if not _is_automatic(_destination(message))
        for hops in [_hops(message)]
        for index in hops
    ]
    # Where routes name a nexthop object, they need not name its interface.
    over += [(index, f"of nexthop {count}", True) for count, index in read_nexthops()]
    over += [(index, f"of MPLS label {label}", True) for label, index in read_labels()]
    return NetworkState(
        interfaces=tuple(
            UsageInterface(
                index=link["index"],
                name=link.get_attr("IFLA_IFNAME"),
                master=link.get_attr("IFLA_MASTER") or 0,
                # With a namespace of its own the index is another namespace's.
                lower=0 if link.get_attr("IFLA_LINK_NETNSID") is not None else lower_link(link),
            )
            for link in links
        ),
        addresses=_grouped(pair for pair in address_pairs if not _is_the_kernels(pair[1])),
        routes=_grouped((index, route) for index, route, _ in over),
        shared=_grouped((index, route) for index, route, shared in over if shared),
        automatic=_grouped(pair for pair in address_pairs if _is_the_kernels(pair[1])),
        elsewhere=_grouped(links_elsewhere()),
        disciplines=_grouped(
            (message["index"], f"{message.get_attr('TCA_KIND')} {message['handle'] >> 16:x}:")
            for message in disciplines
            if message["handle"]  # those of the kernel have none
        ),
        others=others,
    )


def _hops(message: Any) -> list[int]:
    """Interfaces that a route leaves by: several with ECMP."""
    several = [hop["oif"] for hop in message.get_attr("RTA_MULTIPATH") or ()]
    return several or [message.get_attr("RTA_OIF")]


#: linux/rtnetlink.h, linux/nexthop.h and linux/net_namespace.h; pyroute2 lacks these messages.
_GET_NEXTHOP, _NHA_ID, _NHA_OIF = 106, 1, 5
_GET_NSID, _NETNSA_NSID, _NETNSA_PID, _NETNSA_FD = 90, 1, 2, 3


def read_nexthops() -> list[tuple[int, int]]:
    """Nexthop objects of the caller's namespace that have an interface: number and index."""
    header = struct.pack("=BBBxI", 0, 0, 0, 0)
    answers = [dict(attributes(a[8:])) for a in ask_kernel(_GET_NEXTHOP, DUMP, header)]
    return [(number(a[_NHA_ID]), number(a[_NHA_OIF])) for a in answers if _NHA_OIF in a]


#: linux/rtnetlink.h: struct rtmsg has 12 octets, struct rtnexthop 8.
_GET_ROUTE, _AF_MPLS, _RTA_DST, _RTA_OIF, _RTA_MULTIPATH = 26, 28, 1, 4, 9


def read_labels() -> list[tuple[int, int]]:
    """Routes of MPLS of the caller's namespace that have an interface: label and index."""
    labels = []
    header = struct.pack("=BBBBBBBBI", _AF_MPLS, 0, 0, 0, 0, 0, 0, 0, 0)
    for answer in ask_kernel(_GET_ROUTE, DUMP, header):
        route = dict(attributes(answer[12:]))
        if answer[:1] != bytes([_AF_MPLS]):  # a kernel without MPLS lists all others
            continue
        label = int.from_bytes(route.get(_RTA_DST, b"")[:3], "big") >> 4
        hops = [number(route[_RTA_OIF])] if _RTA_OIF in route else []
        rest = route.get(_RTA_MULTIPATH, b"")
        while len(rest) >= 8:
            length, _, _, index = struct.unpack_from("=HBBi", rest)
            hops.append(index)
            rest = rest[max(8, (length + 3) & ~3) :]
        labels += [(label, index) for index in hops]
    return labels


def find_namespace_id(namespace: int, *, is_pid: bool = False) -> int:
    """How links of the calling thread's namespace name another one; -1 when none does.

    `namespace` is an open file of it, or a process in it.
    """
    kind = _NETNSA_PID if is_pid else _NETNSA_FD
    request = struct.pack("=BxxxHHI", 0, 8, kind, namespace)
    answers = [dict(attributes(a[4:])) for a in ask_kernel(_GET_NSID, 0, request)]
    namespace_id = number(answers[0][_NETNSA_NSID]) if answers else -1
    return -1 if namespace_id == 0xFFFFFFFF else namespace_id


#: A cable of two ends: one of them elsewhere is no link on top of the other.
_PEERS = ("veth", "netkit")


def links_elsewhere() -> list[tuple[int, str]]:
    """Links in other network namespaces that are on top of one of the caller's.

    From its parent's namespace a container's macvlan is not seen in any other way. Only root may
    look there; for others there are none.
    """
    stacked: list[tuple[int, str]] = []
    try:
        fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return stacked
    with close_after(fd) as own_namespace:
        for place, owner in find_other_namespaces(os.fstat(own_namespace).st_ino).items():
            with contextlib.suppress(HostError):  # it has gone, or we are not root
                stacked += run_in(place, partial(_links_over, own_namespace, owner))
    return stacked


def _links_over(namespace: int, owner: str) -> list[tuple[int, str]]:
    known_as = find_namespace_id(namespace)
    if known_as < 0:
        return []
    with netlink("list links") as route:
        return [
            (lower_link(link), f"{link.get_attr('IFLA_IFNAME')} of {owner}")
            for link in route.get_links()
            if link.get_attr("IFLA_LINK_NETNSID") == known_as
            if (link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") or "") not in _PEERS
        ]


def find_other_namespaces(own_inode: int) -> dict[Path, str]:
    """Find network namespaces of processes and mounted ones, without the one of an inode."""
    others = (p for name, p in network_namespaces(PROC).items() if name != f"net:[{own_inode}]")
    return {
        place: f"process {place.parts[-3]} in a network namespace of its own"
        if place.is_relative_to(PROC)
        else f"the network namespace {place.name}"
        for place in others
    }


def _destination(message: Any) -> str:
    target = message.get_attr("RTA_DST")
    return f"{target}/{message['dst_len']}" if target else "default"


def _grouped(pairs: Iterable[tuple[int | None, str | None]]) -> dict[int, tuple[str, ...]]:
    grouped: dict[int, tuple[str, ...]] = {}
    for index, value in pairs:
        if index and value:
            grouped[index] = (*grouped.get(index, ()), value)
    return grouped


def _is_the_kernels(address: str | None) -> bool:
    """Whether the kernel gives such an address to every interface: nobody else needs have done so.

    Link-local ones of IPv4 are always somebody's: of a cluster, of a daemon that found no server.
    """
    return address is not None and ":" in address and _is_automatic(address)


def _is_automatic(value: str | None) -> bool:
    """Whether an address or destination is one that every interface has: link-local, multicast."""
    if value is None or value == "default":
        return False
    network = ipaddress.ip_network(value, strict=False)
    return network.is_link_local or network.is_multicast


#: The address in SSH_CONNECTION of an sshd whose connection is no network's: a pipe, a serial port.
_NO_NETWORK = "UNKNOWN"
#: Programs that a login of somebody else's is a connection of, whatever their port.
_LOGIN_SERVERS = ("sshd", "sshd-session", "sshd-auth", "dropbear")


def ssh_addresses() -> set[str]:
    """Local addresses that logins to this machine go over."""
    addresses, ports = set(), {SSH_PORT}
    # sudo takes the variable away: the processes above it still have it.
    for text in [os.environ.get("SSH_CONNECTION", ""), *_ancestors_connections()]:
        words = text.split()
        # Client, its port, server, its port.
        if len(words) == 4 and words[2] != _NO_NETWORK:
            with contextlib.suppress(ValueError):  # a variable can hold anything
                addresses.add(_plain_address(words[2]))
                ports.add(int(words[3]))
    sockets = _find_sockets(_LOGIN_SERVERS)
    for table in ("tcp", "tcp6"):
        try:
            text = read_file(PROC / "net" / table)
        except OSError:
            continue
        addresses |= established_addresses(text, ports, sockets)
    return addresses


def _ancestors_connections() -> Iterator[str]:
    """SSH_CONNECTION of the processes above this one, as far as they may be read."""
    pid = os.getppid()
    while pid > 1:
        try:
            for variable in read_octets(PROC / str(pid) / "environ").split(b"\0"):
                if variable.startswith(b"SSH_CONNECTION="):
                    yield variable.partition(b"=")[2].decode(errors="replace")
            stat = read_file(PROC / str(pid) / "stat")
            pid = int(stat.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _find_sockets(programs: Iterable[str]) -> set[str]:
    """Find the inodes of the sockets that programs of these names have."""
    inodes: set[str] = set()
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            if read_file(process / "comm").strip() in programs:
                sockets = (f for f in list_open_files(process) if f.startswith("socket:["))
                inodes |= {file[8:-1] for file in sockets}
    return inodes


def established_addresses(text: str, ports: Iterable[int], sockets: Iterable[str] = ()) -> set[str]:
    """Local addresses of established connections to ports of this machine, or of given sockets."""
    addresses = set()
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 4 or words[3] != ESTABLISHED:
            continue
        address, _, port = words[1].partition(":")
        if int(port, 16) in ports or (words[9:10] and words[9] in sockets):
            # Words of 32 bits, each in the order of the processor: little endian.
            octets = b"".join(
                bytes.fromhex(address[offset : offset + 8])[::-1]
                for offset in range(0, len(address), 8)
            )
            addresses.add(_plain_address(str(ipaddress.ip_address(octets))))
    return addresses


def _plain_address(text: str) -> str:
    """An address without its zone, as IPv4 where it is one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def device_files(address: str, group: int | None, *, sys: Path = Path("/sys")) -> tuple[str, ...]:
    """Files by which programs drive a PCI device, or its clock: VFIO, UIO, verbs, PTP.

    Of VFIO groups, devices without an IOMMU, and those of iommufd.
    """
    device = sys / "bus/pci/devices" / address
    groups = () if group is None else (f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}")
    kinds = (
        ("vfio-dev", "/dev/vfio/devices"),
        ("uio", "/dev"),
        ("infiniband_verbs", "/dev/infiniband"),
        ("ptp", "/dev"),
    )
    return (
        *groups,
        *(
            f"{folder}/{f.name}"
            for kind, folder in kinds
            for f in sorted((device / kind).glob("*"))
        ),
    )


def find_holder(files: Iterable[str]) -> str:
    """The process that has one of the files open."""
    paths = set(files)
    for process in PROC.glob("[0-9]*") if paths else ():
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            if not paths.isdisjoint(list_open_files(process)):
                name = read_file(process / "comm").strip()
                return f"process {process.name} ({name})"
    return ""
