"""Who uses an interface that has neither an address nor a route: sockets, programs, rules."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import platform
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Any

from vnetperf.host.linux import PROC, list_open_files, parse_number, raw_syscall, read_file

#: linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, linux/xdp_diag.h.
_NLMSG_ERROR, _NLMSG_DONE, _REQUEST, DUMP = 2, 3, 0x1, 0x300
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_AF_XDP, _XDP_SHOW_INFO, _XDP_DIAG_INFO = 44, 1, 1
#: linux/genetlink.h, linux/netdev.h.
_GENERIC, _GENL_CTRL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 16, 3, 1, 2
_GET_QUEUES, _QUEUE_INTERFACE = 10, 2
_HIDDEN_XDP = (
    "may be used by a program by AF_XDP: the kernel does not tell of its socket which interface it "
    "is on (`modprobe xsk_diag` lets it)"
)
_QUEUE_USERS = {5: "TCP into memory of a device", 6: "io_uring", 7: "AF_XDP"}
#: linux/netfilter/nf_tables.h.
_NETFILTER, _NFT_TABLE, _NFT_GET_CHAIN, _NFT_GET_FLOWTABLE = 12, 1, 10 << 8 | 4, 10 << 8 | 23
_NFT_CHAIN_HOOK, _NFT_HOOK_DEVICE, _NFT_HOOK_DEVICES = 4, 3, 4
_NFT_FLOWTABLE_HOOK, _NFT_FLOWTABLE_DEVICES, _NFT_DEVICE_PREFIX = 3, 3, 2
#: linux/if.h: what somebody has set on the interface.
_PROMISCUOUS, _ALL_MULTICAST = 0x100, 0x200
_RULES_OF = (socket.AF_INET, socket.AF_INET6)
_NUD_PERMANENT = 0x80
#: linux/neighbour.h.
_GET_NEIGHBOUR, _NTF_PROXY, _NDA_DST = 30, 0x08, 1
#: linux/rtnetlink.h, linux/mroute.h.
_GET_LINK, _FAMILY_IPMR, _AF_SPEC, _IPMR_TABLE_VIFS, _IPMR_VIF_IFINDEX = 18, 128, 26, 6, 1
_ROUTES_GROUPS = "is an interface of multicast routing"
#: Groups that every interface with an address joins by itself: those of IPv4 and of IPv6.
_MULTICAST_OF_IP = ("01005e", "3333")


@dataclass(frozen=True, slots=True)
class OtherUse:
    """What else uses an interface.

    Attributes:
        reason: A verb and its object, e.g. "has the XDP program 12".
        lost: The kernel drops it when the interface leaves its namespace or its driver.
    """

    reason: str
    lost: bool = True


def other_uses(route: Any, links: Iterable[Any]) -> dict[int, tuple[OtherUse, ...]]:
    """Index of a link -> what else uses it in the calling thread's namespace."""
    links = list(links)
    indices = {link.get_attr("IFLA_IFNAME"): link["index"] for link in links}
    named = [*_rules(route), *read_listed_uses(PROC / "thread-self/net")]
    filtered = [*_packet_filters()]
    uses = [
        *_multicast_routers(),
        *_programs(links),
        *_sockets(),
        *_permanent_neighbours(route),
        *_neighbours_answered_for(),
        *((indices[name], use) for name, use in named if name in indices),
        *((indices[n], use) for pattern, use in filtered for n in indices if fnmatch(n, pattern)),
        *_queues(links),
        *_listeners(links),  # last, as it may follow from others: the first is told
    ]
    grouped: dict[int, tuple[OtherUse, ...]] = {}
    for index, use in uses:
        grouped[index] = (*grouped.get(index, ()), use)
    return grouped


def _programs(links: Iterable[Any]) -> Iterator[tuple[int, OtherUse]]:
    """BPF programs at interfaces."""
    for link in links:
        index = link["index"]
        if (xdp := link.get_attr("IFLA_XDP")) is not None and xdp.get_attr("IFLA_XDP_ATTACHED"):
            number = xdp.get_attr("IFLA_XDP_PROG_ID") or "of several modes"
            yield index, OtherUse(f"has the XDP program {number}")
        for direction, kind in (("ingress", _TCX_INGRESS), ("egress", _TCX_EGRESS)):
            if numbers := tcx_programs(index, kind):
                yield index, OtherUse(f"has the BPF program {numbers[0]} at tcx {direction}")


def _listeners(links: Iterable[Any]) -> Iterator[tuple[int, OtherUse]]:
    """Interfaces that hear more than what is sent to them."""
    for link in links:
        index, flags = link["index"], link["flags"]
        if link.get_attr("IFLA_MASTER"):
            continue  # a bridge's port hears all because of the bridge, which is told
        if flags & _PROMISCUOUS or link.get_attr("IFLA_PROMISCUITY"):
            yield index, OtherUse("is promiscuous: a program listens to all frames", lost=False)
        elif flags & _ALL_MULTICAST:
            yield index, OtherUse("receives all multicast frames, as somebody has set", lost=False)
        elif link.get_attr("IFLA_ALLMULTI"):  # the flag tells what users have set, and no others
            yield index, OtherUse("receives all multicast frames, as routers of groups do")


def _multicast_routers() -> Iterator[tuple[int, OtherUse]]:
    """Interfaces that groups of IPv4 are routed over, of all tables: /proc lists those of one."""
    header = struct.pack("=BxHiII", _FAMILY_IPMR, 0, 0, 0, 0)
    for answer in ask_kernel(_GET_LINK, DUMP, header):
        if answer[:1] != bytes([_FAMILY_IPMR]):  # a kernel without it lists all links
            continue
        table = dict(attributes(dict(attributes(answer[16:])).get(_AF_SPEC, b"")))
        for _, vif in attributes(table.get(_IPMR_TABLE_VIFS, b"")):
            fields = dict(attributes(vif))
            if _IPMR_VIF_IFINDEX in fields:
                yield number(fields[_IPMR_VIF_IFINDEX]), OtherUse(_ROUTES_GROUPS)


def _rules(route: Any) -> Iterator[tuple[str, OtherUse]]:
    """Interfaces that rules of policy routing name."""
    for family in _RULES_OF:
        for rule in route.get_rules(family=family):
            for word, attribute in (("iif", "FRA_IIFNAME"), ("oif", "FRA_OIFNAME")):
                if name := rule.get_attr(attribute):
                    number = rule.get_attr("FRA_PRIORITY") or 0
                    yield name, OtherUse(f"is named by the rule {number} ({word})", lost=False)


def _permanent_neighbours(route: Any) -> Iterator[tuple[int, OtherUse]]:
    for neighbour in route.get_neighbours():
        if neighbour["state"] & _NUD_PERMANENT:
            address = neighbour.get_attr("NDA_DST") or neighbour.get_attr("NDA_LLADDR")
            yield neighbour["ifindex"], OtherUse(f"has the permanent neighbour {address}")


def _neighbours_answered_for() -> Iterator[tuple[int, OtherUse]]:
    """Interfaces on which the kernel answers for others (`ip neigh add proxy`)."""
    for family in _RULES_OF:
        header = struct.pack("=BxxxiHBB", family, 0, 0, _NTF_PROXY, 0)
        for answer in ask_kernel(_GET_NEIGHBOUR, DUMP, header):
            _, index, _, flags, _ = struct.unpack_from("=BxxxiHBB", answer)
            if flags & _NTF_PROXY:
                octets = dict(attributes(answer[12:])).get(_NDA_DST, b"")
                size = 4 if family == socket.AF_INET else 16
                whose = socket.inet_ntop(family, octets) if len(octets) == size else "another"
                yield index, OtherUse(f"answers for the neighbour {whose}")


def read_listed_uses(net: Path) -> Iterator[tuple[str, OtherUse]]:
    """Read who uses interfaces that a namespace's /proc/net lists by name."""
    for words in _rows(net / "dev_mcast", 5):
        _, name, _, static, address = words[:5]
        if static != "0" or not address.startswith(_MULTICAST_OF_IP):
            yield name, OtherUse(f"receives the multicast group {address}, as somebody has set")
    for file in ("ip_mr_vif", "ip6_mr_vif"):
        for words in _rows(net / file, 2):
            yield words[1], OtherUse(_ROUTES_GROUPS)
    with contextlib.suppress(OSError):
        for entry in sorted(net.glob("pktgen/*")):  # "eth0", or "eth0@1" of one thread of several
            name = entry.name.partition("@")[0]
            yield name, OtherUse("is sent on by the kernel's packet generator")
    for words in _rows(net / "pppoe", 3):
        yield words[2], OtherUse("carries a PPPoE session")


def _packet_filters() -> Iterator[tuple[str, OtherUse]]:
    """Patterns of interfaces that chains and flow tables of nftables are hooked to.

    These leave with them.
    """
    for message, hook, devices, hook_kind in (
        (_NFT_GET_CHAIN, _NFT_CHAIN_HOOK, _NFT_HOOK_DEVICES, "chain"),
        (_NFT_GET_FLOWTABLE, _NFT_FLOWTABLE_HOOK, _NFT_FLOWTABLE_DEVICES, "flow table"),
    ):
        answers: list[bytes] = []
        with contextlib.suppress(OSError):  # a kernel without nftables
            answers = ask_kernel(message, DUMP, bytes(4), protocol=_NETFILTER)
        for answer in answers:
            listed = dict(attributes(answer[4:]))
            table = _text(listed.get(_NFT_TABLE, b""))
            hooked = dict(attributes(listed.get(hook, b"")))
            hooked_devices = [*attributes(hooked.get(devices, b""))]
            if not hooked_devices and message == _NFT_GET_CHAIN and _NFT_HOOK_DEVICE in hooked:
                hooked_devices = [(0, hooked[_NFT_HOOK_DEVICE])]
            for kind, name in hooked_devices:
                pattern = glob.escape(_text(name)) + "*" * (kind == _NFT_DEVICE_PREFIX)
                yield pattern, OtherUse(f"has a {hook_kind} of nftables, of the table {table}")


def _text(octets: bytes) -> str:
    return os.fsdecode(octets.partition(b"\0")[0])


def _rows(file: Path, columns: int) -> Iterator[list[str]]:
    """The rows of a table that have at least so many columns; none of one that is not there."""
    with contextlib.suppress(OSError):
        for line in read_file(file).splitlines():
            if len(words := line.split()) >= columns:
                yield words


# Sockets that are bound to an interface.


def _sockets() -> Iterator[tuple[int, OtherUse]]:
    """Sockets of raw frames (AF_PACKET, AF_XDP), and of IP that are bound to an interface."""
    sockets: list[tuple[int, int, str]] = []
    for words in _rows(PROC / "thread-self/net/packet", 9):
        with contextlib.suppress(ValueError):  # the heading
            sockets.append((int(words[4]), int(words[8]), "packet (AF_PACKET)"))
    sockets += ((index, inode, "AF_XDP") for index, inode in xdp_sockets())
    sockets += ((index, inode, "IP") for index, inode in inet_sockets())
    sockets = [row for row in sockets if row[0] > 0]  # 0 is on all interfaces, and on none of them
    owners = find_socket_owners({inode for _, inode, _ in sockets}) if sockets else {}
    for index, inode, kind in sockets:
        lost = kind == "AF_XDP"
        owner = owners.get(inode, "a program")
        yield index, OtherUse(f"is used by {owner} with a socket of {kind}", lost=lost)


def xdp_sockets() -> list[tuple[int, int]]:
    """Interface and inode of each AF_XDP socket in the calling thread's namespace."""
    request = struct.pack("=BBHIIII", _AF_XDP, 0, 0, 0, _XDP_SHOW_INFO, 0, 0)
    sockets = []
    for answer in _diagnosed(request):
        inode = struct.unpack_from("=I", answer, 4)[0]
        info = dict(attributes(answer[16:])).get(_XDP_DIAG_INFO, b"")
        if len(info) >= 4:
            sockets.append((number(info), inode))
    return sockets


def _queues(links: Iterable[Any]) -> Iterator[tuple[int, OtherUse]]:
    """Queues that programs have; where AF_XDP's are hidden, any interface may have one."""
    program_queues = list_program_queues()
    for index, user in program_queues:
        yield index, OtherUse(f"has a queue that a program uses by {user}")
    visible = max(len(xdp_sockets()), sum(user == "AF_XDP" for _, user in program_queues))
    sockets_by_protocol = {
        words[0]: words[2] for words in _rows(PROC / "thread-self/net/protocols", 3)
    }
    if (parse_number(sockets_by_protocol.get("XDP", "")) or 0) > visible:
        for link in links:
            yield link["index"], OtherUse(_HIDDEN_XDP)


def list_program_queues() -> list[tuple[int, str]]:
    """Interface and user of each receive queue whose memory is a program's (from Linux 6.12 on).

    Of AF_XDP it tells what kernels without XDP_SOCKETS_DIAG do not; of TCP into memory of a device
    and of io_uring nothing else tells.
    """
    queues: list[tuple[int, str]] = []
    for queue in dump_generic("netdev", _GET_QUEUES):
        for attribute, user in _QUEUE_USERS.items():
            if attribute in queue and _QUEUE_INTERFACE in queue:
                queues.append((number(queue[_QUEUE_INTERFACE]), user))
    return queues


def inet_sockets() -> list[tuple[int, int]]:
    """Interface and inode of each socket of TCP, UDP and raw IP that is bound to an interface."""
    sockets = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_RAW):
            request = struct.pack("=BBBBI48x", family, protocol, 0, 0, 0xFFFFFFFF)
            for answer in _diagnosed(request):
                if len(answer) >= 72:  # struct inet_diag_msg
                    index, inode = (
                        struct.unpack_from("=I", answer, offset)[0] for offset in (40, 68)
                    )
                    sockets.append((index, inode))
    return [row for row in sockets if row[0] and row[1]]


def _diagnosed(request: bytes) -> list[bytes]:
    with contextlib.suppress(OSError):
        return ask_kernel(_SOCK_DIAG_BY_FAMILY, DUMP, request, protocol=_NETLINK_SOCK_DIAG)
    return []


def find_socket_owners(inodes: Iterable[int]) -> Mapping[int, str]:
    """The process that has each socket, as far as they may be looked at."""
    inode_by_link = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, str] = {}
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            for file in inode_by_link.keys() & set(list_open_files(process)):
                name = read_file(process / "comm").strip()
                owners.setdefault(inode_by_link[file], f"process {process.name} ({name})")
    return owners


# BPF programs at tcx, which no message of rtnetlink lists (from Linux 6.6 on).

_BPF_PROG_QUERY, _TCX_INGRESS, _TCX_EGRESS = 16, 46, 47
#: Number of bpf(2) by processor (arch/*/include); all others have the generic one.
_BPF = {"x86_64": 321, "ppc64le": 361, "ppc64": 361, "s390x": 351}
_MOST_PROGRAMS = 64


def tcx_programs(index: int, kind: int) -> list[int]:
    """Numbers of the programs at an interface; none where the kernel knows no tcx."""
    numbers = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    query = bytearray(struct.pack("=IIIIQII32x", index, kind, 0, 0, 0, _MOST_PROGRAMS, 0))
    struct.pack_into("=Q", query, 16, ctypes.addressof(numbers))
    buffer = (ctypes.c_char * len(query)).from_buffer(query)
    try:
        raw_syscall(
            _BPF.get(platform.machine(), 280),
            *(ctypes.c_long(_BPF_PROG_QUERY), ctypes.byref(buffer), ctypes.c_long(len(query))),
        )
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return []
    count = struct.unpack_from("=I", query, 24)[0]
    return [program_id for program_id in numbers[: min(count, _MOST_PROGRAMS)] if program_id]


# Netlink messages that pyroute2 lacks.


def ask_kernel(
    kind: int, flags: int, body: bytes, *, protocol: int = socket.NETLINK_ROUTE
) -> list[bytes]:
    """Send a request to the kernel; what its messages hold, none when it does not know it."""
    messages: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as kernel:
        kernel.settimeout(5.0)
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | flags, 1, 0) + body)
        while True:
            octets = kernel.recv(1 << 18)
            while octets:
                length, got = struct.unpack_from("=IH", octets)
                if got in (_NLMSG_ERROR, _NLMSG_DONE):
                    return messages
                messages.append(octets[16:length])
                octets = octets[(length + 3) & ~3 :]
            if not flags & DUMP:
                return messages


def dump_generic(family: str, command: int) -> list[dict[int, bytes]]:
    """The attributes of each thing that a family of generic netlink lists; none without it."""
    name = family.encode() + b"\0"
    family_request = struct.pack("=BBHHH", _GET_FAMILY, 1, 0, 4 + len(name), _FAMILY_NAME) + name
    family_request += bytes(-len(family_request) % 4)
    with contextlib.suppress(OSError):
        answers = ask_kernel(_GENL_CTRL, 0, family_request, protocol=_GENERIC)
        family_id = dict(attributes(answers[0][4:])).get(_FAMILY_ID, b"") if answers else b""
        if kind := int.from_bytes(family_id, sys.byteorder):
            request = struct.pack("=BBH", command, 1, 0)
            listed = ask_kernel(kind, DUMP, request, protocol=_GENERIC)
            return [dict(attributes(answer[4:])) for answer in listed]
    return []


def number(octets: bytes) -> int:
    """An attribute of 8, 16 or 32 bits."""
    return int.from_bytes(octets[:4], sys.byteorder)


def attributes(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each attribute of a message."""
    while len(octets) >= 4:
        length, kind = struct.unpack_from("=HH", octets)
        yield kind & 0x3FFF, octets[4:length]
        octets = octets[max(4, (length + 3) & ~3) :]


#: Tunnels that are on a link only where their own attribute names it: the IFLA_LINK of one that was
#: moved to another namespace is its own number.
_TUNNELS = ("amt", "bareudp", "geneve", "gtp", "vxlan", "wireguard")


def lower_link(link: Any) -> int:
    """Index of the link below one: of a VLAN, or of a tunnel that is bound to a link; 0 for none.

    Where it is of another namespace, the link's IFLA_LINK_NETNSID names that.
    """
    kind = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND")
    data = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA")
    below = [value for name, value in _named(data) if re.fullmatch(r"IFLA_[A-Z0-9]+_LINK", name)]
    usual = None if kind in _TUNNELS else link.get_attr("IFLA_LINK")
    return next((n for n in (*below, usual) if isinstance(n, int) and n), 0)


def _named(data: Any) -> list[tuple[str, Any]]:
    pairs = data.get("attrs", ()) if hasattr(data, "get") else ()
    return [(str(pair[0]), pair[1]) for pair in pairs]
