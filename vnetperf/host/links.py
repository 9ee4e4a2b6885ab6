"""Network namespaces and links: create, change, move and count them through netlink."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import secrets
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vnetperf.host import ethtool, linux
from vnetperf.host.files import mounts_below
from vnetperf.host.journal import Change, Journal, UndoData
from vnetperf.host.linux import (
    netlink,
    parse_count,
    parse_json,
    parse_number,
    read_file,
    read_process_times,
    run_in,
)
from vnetperf.host.threads import pin_thread
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import HostError

log = logging.getLogger(__name__)


def create_netns(journal: Journal, path: Path) -> Change:
    """Create a network namespace that lives until the run is undone; its loopback is up."""
    if path.exists():
        raise HostError("it exists already", where=str(path), cure="choose another name")

    def make() -> None:
        linux.unshare_network()
        linux.bind_mount(Path("/proc/thread-self/ns/net"), path)

    with journal.changing("netns", f"network namespace {path}", {"path": str(path)}) as change:
        with HostError.explain_os_error(
            "the network namespace could not be made",
            where=str(path),
            cure="run as root, outside containers without CAP_SYS_ADMIN",
        ):
            path.touch(mode=0o600, exist_ok=False)
            linux.call_in_thread(make)

        set_up("lo", netns=path)
    return change


def undo_netns(data: UndoData) -> str:
    """Remove a namespace's name; the kernel ends it with its last process."""
    path = Path(data["path"])
    outcome = "already gone"
    if str(path) in mounts_below(path):
        try:
            linux.unmount(path)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: somebody unmounted it just now
                raise
        outcome = "removed"
    if path.exists():
        path.unlink()
        outcome = "removed"
    return outcome


#: The calling thread's namespace.
OWN_NETNS = Path("/proc/thread-self/ns/net")
MAX_NAME = 15  # IFNAMSIZ without the final NUL
IFF_UP, IFF_NOARP, IFF_MULTICAST = 0x1, 0x80, 0x1000
ADDR_GEN_NONE = 1


@dataclass(frozen=True, slots=True)
class Link:
    """A network link as the kernel has it.

    Attributes:
        kind: ``veth``, ``bridge`` ... or empty for a device.
        mac: Ethernet address, lower case with colons; empty when it has none.
        mtu: Largest packet in bytes, without Ethernet header and FCS.
        carrier: The other end is there.
        carrier_changes: Times that its carrier has come or gone; None: the kernel keeps no count.
        queue_length: Frames that its transmit queue holds; 0: it has none, or it is not known.
    """

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    carrier: bool
    carrier_changes: int | None = None
    queue_length: int = 0


def links(netns: Path | None = None) -> tuple[Link, ...]:
    """All links of a namespace; None is the caller's."""
    return run_in(netns, _read_links)


def find(name: str, netns: Path | None = None) -> Link | None:
    """A link by name, or None."""
    can_be = 0 < len(name.encode()) <= MAX_NAME
    return run_in(netns, lambda: _read_link(name)) if can_be else None


def get(name: str, netns: Path | None = None) -> Link:
    """A link by name."""
    link = find(name, netns)
    if link is None:
        names = ", ".join(sorted(other.name for other in links(netns)))
        raise HostError(
            f"there is no network link {name!r}",
            where=f"namespace {netns}" if netns else "this machine",
            accepted=names,
            cure="correct the name in the testbed's configuration",
        )
    return link


#: Indices of our links are drawn from these. DPDK's af_packet driver names a group of packet
#: sockets (PACKET_FANOUT) by the lower 16 bits of pid XOR index, and the kernel refuses a group
#: that is another interface's in the namespace (EINVAL). Indices that follow each other, in
#: processes whose pids do as well, gave now and then the same name, and a testpmd without a port.
#: Open MPI 5 (PRRTE) keeps an index in 16 bits with a sign: it sees no interface above 32767.
INDICES = range(0x1000, 0x8000)


def _free_index(netns: Path | None, *others: int) -> int:
    """An index at random that no link of a namespace has."""

    def draw() -> int:
        while True:
            index = secrets.choice(INDICES)
            try:
                socket.if_indextoname(index)
            except OSError:
                if index not in others:
                    return index

    return run_in(netns, draw)


def create_link(
    journal: Journal, name: str, kind: str, *, netns: Path | None = None, **options: Any
) -> Change:
    """Create a virtual link of any kind (``bridge``, ``dummy``, ``macvtap`` ...) for this run."""
    check_new_name(name, netns)
    data = {"ends": [[name, str(netns) if netns else None]], "kind": kind}
    with journal.changing("link", f"create {kind} {name}", data) as change:
        attributes = {"index": _free_index(netns), **options}
        request(name, netns, "add", ifname=name, kind=kind, **attributes)
    return change


def create_veth(
    journal: Journal,
    names: tuple[str, str],
    *,
    netns: tuple[Path | None, Path | None] = (None, None),
    mtu: int = 1500,
    offloads: bool = False,
    queues: int | None = None,
) -> Change:
    """Create a veth pair with its ends where they belong from the first, and bring both up."""
    for name, where in zip(names, netns, strict=True):
        check_new_name(name, where)
    ends = [[name, str(where) if where else None] for name, where in zip(names, netns, strict=True)]
    description = f"create veth pair {names[0]} - {names[1]}"
    with journal.changing("link", description, {"ends": ends, "kind": "veth"}) as change:
        queue_counts = {"num_tx_queues": queues, "num_rx_queues": queues} if queues else {}
        with (netns[1] or OWN_NETNS).open("rb") as other:
            first = _free_index(netns[0])
            second = _free_index(netns[1], first)
            attributes = {"ifname": names[1], "net_ns_fd": other.fileno(), **queue_counts}
            # pyroute2's own word for it, `peer`, gives it no index.
            peer = {
                "index": second,
                "attrs": [[f"IFLA_{key.upper()}", value] for key, value in attributes.items()],
            }
            ours: dict[str, Any] = {"ifname": names[0], "index": first, "VETH_INFO_PEER": peer}
            request(names[0], netns[0], "add", kind="veth", **ours, **queue_counts)
        for name, where in zip(names, netns, strict=True):
            prepare(name, where, mtu=mtu, offloads=offloads)
        for name, where in zip(names, netns, strict=True):
            set_up(name, netns=where)
    return change


def delete(name: str, *, netns: Path | None = None) -> None:
    """Delete a link that this run created; that it is gone is not an error."""
    link = find(name, netns)
    if link is not None:
        request(name, netns, "del", index=link.index)


def set_up(name: str, *, up: bool = True, netns: Path | None = None) -> None:
    """Bring a link that this run created up or down."""
    _set_link(name, netns, flags=IFF_UP if up else 0, change=IFF_UP)


def set_mtu(name: str, mtu: int, *, netns: Path | None = None) -> None:
    """Set the MTU, in bytes, of a link that this run created."""
    _set_link(name, netns, mtu=mtu)


def set_address(name: str, mac: str, *, netns: Path | None = None) -> None:
    """Set the MAC address of a link that this run created."""
    _set_link(name, netns, address=mac)


def move(name: str, target: Path, *, netns: Path | None = None) -> None:
    """Move a link of this run into another namespace; it is down then."""
    check_new_name(name, target)
    with target.open("rb") as namespace:
        _set_link(name, netns, net_ns_fd=namespace.fileno())


def lend(journal: Journal, name: str, target: Path, *, home: Path) -> Change:
    """Move a link that is the machine's own into a namespace that may end with what it has."""
    data = {"name": name, "netns": str(target), "home": str(home)}
    with journal.changing("moved", f"interface {name} in {target}", data) as change:
        move(name, target, netns=home)
    return change


def undo_move(data: UndoData) -> str:
    """Bring a link back before the namespace that it was lent to ends."""
    name, target, home = str(data["name"]), Path(data["netns"]), Path(data["home"])
    if str(target) not in mounts_below(target) or find(name, target) is None:
        return "not there"
    move(name, home, netns=target)
    return "moved back"


def silence(name: str, *, netns: Path | None = None) -> None:
    """Keep the kernel from sending frames of its own on a link that this run created."""
    _set_link(name, netns, flags=IFF_NOARP, change=IFF_NOARP | IFF_MULTICAST)
    run_in(netns, lambda: _disable_ipv6(name))


def prepare(
    name: str, netns: Path | None, *, mtu: int | None = None, offloads: bool = False
) -> None:
    """Set a link of this run up to carry test frames alone; it stays down."""
    if mtu is not None:
        set_mtu(name, mtu, netns=netns)
    if not offloads:
        ethtool.disable_offloads(name, netns=netns)
    silence(name, netns=netns)


def make_ready(
    name: str, netns: Path | None, *, mtu: int | None = None, offloads: bool = False
) -> None:
    """Set a link of this run up to carry test frames alone, and bring it up."""
    prepare(name, netns, mtu=mtu, offloads=offloads)
    set_up(name, netns=netns)


#: The kernel's threads have names of this many octets where it does not keep longer ones.
_THREAD_NAME = 15
#: Longest wait for the kernel to start a thread, seconds.
_THREAD_S = 2.0


def start_napi_threads(name: str, cpus: Sequence[int], *, netns: Path) -> tuple[int, ...]:
    """Let threads of the kernel do the receive work of a link of this run, and place them.

    A veth end has such work of its own (NAPI) with GRO or a native XDP program; without, whoever
    sends does it. The threads end with the link, and there are others after it was down. Returns
    their ids, one for each receive queue.
    """
    run_in(netns, lambda: ethtool.set_features(name, {"rx-gro": 1}))
    file = Path(f"/sys/class/net/{name}/threaded")

    def switch_on() -> str:
        file.write_text("1\n")
        return read_file(file).strip()

    where = f"link {name}"
    cure = "Linux 5.12 or newer has threaded NAPI; leave --set napi=threaded out"
    with HostError.explain_os_error("the kernel gives no threads to NAPI", where=where, cure=cure):
        now = linux.run_in_sysfs(netns, switch_on)
    threads = wait_at_most(lambda: napi_threads(name), _THREAD_S, f"NAPI threads of {name}")
    if now == "0" or not threads:
        raise HostError(
            f"threaded NAPI reads back {now}, and {len(threads or ())} threads are seen",
            where=where,
            cure=cure + "; in a container with PIDs of its own, the kernel's threads are not seen",
        )
    for place, thread in enumerate(threads):
        pin_thread(thread, (cpus[place % len(cpus)],))
    log.info("link %s: NAPI threads %s on processors %s", name, threads, list(cpus))
    return threads


def napi_threads(name: str) -> tuple[int, ...]:
    """Ids of the kernel's threads that do the receive work of a link, in order."""
    begins = napi_thread_prefix(name)
    thread_ids = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        # A process may end while we look.
        with contextlib.suppress(OSError, ValueError, IndexError):
            # Anybody may call a process so, but only the kernel's threads are kthreadd's.
            called = read_file(comm)
            times = read_process_times(pid := int(comm.parent.name))
            if called.startswith(begins) and times and times.parent == _KTHREADD:
                thread_ids.append(pid)
    return tuple(sorted(thread_ids))


_KTHREADD = 2


def napi_thread_prefix(name: str) -> str:
    """What the names of a link's NAPI threads begin with."""
    return f"napi/{name}-"[:_THREAD_NAME]


def undo_link(data: UndoData) -> str:
    """Delete a link that the run created; deleting one end of a pair deletes both."""
    outcome = "already gone"
    for name, where in data["ends"]:
        # Only where it was made: one of that name elsewhere is somebody else's.
        path = Path(where) if where else None
        if path is not None and not path.exists():
            continue
        link = find(name, path)
        if link is not None and link.kind == data["kind"]:
            request(name, path, "del", index=link.index)
            outcome = "deleted"
    return outcome


def _disable_ipv6(name: str) -> None:
    conf = Path("/proc/sys/net/ipv6/conf") / name
    if not conf.is_dir():  # this kernel has no IPv6, or it is off: silent already
        return
    family = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", ADDR_GEN_NONE)]})]}
    _set_link(name, None, IFLA_AF_SPEC=family)
    (conf / "disable_ipv6").write_text("1\n")


def _set_link(name: str, netns: Path | None, **attributes: Any) -> None:
    def send() -> None:
        # A deployment sets many links: a system call is quick. It knows other names too.
        index = _index(name)
        if not index or socket.if_indextoname(index) != name:
            index = get(name, netns).index  # an error that names those that are there
        _request(name, netns, "set", index=index, **attributes)

    run_in(netns, send)


def request(name: str, netns: Path | None, command: str, **attributes: Any) -> None:
    """Make one request about a link in a namespace."""
    run_in(netns, lambda: _request(name, netns, command, **attributes))


def _request(name: str, netns: Path | None, command: str, **attributes: Any) -> None:
    """The same from a thread that is in the namespace."""
    where = f"link {name}" + (f" in namespace {netns}" if netns else "")
    cure = "run as root; the kernel may lack this link type (see dmesg)"
    with netlink(f"{command} the link", where, cure) as route:
        route.link(command, **attributes)
    log.debug("link %s: %s %s", name, command, attributes)


def _index(name: str) -> int:
    """The index of a link in the calling thread's namespace; 0: there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0


def _read_links() -> tuple[Link, ...]:
    with netlink("list the links") as route:
        return tuple(map(_parse_link, route.get_links()))


def _read_link(name: str) -> Link | None:
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s to import

    with netlink(f"look for link {name}") as route:
        try:
            link = _parse_link(*route.link("get", ifname=name))
        except NetlinkError as error:
            if error.code != errno.ENODEV:
                raise
            return None
    return link if link.name == name else None  # the kernel looks among other names, too


def altnames() -> dict[str, tuple[str, ...]]:
    """Other names of the links in the calling thread's namespace, of those that have some."""
    with netlink("list the links") as route:
        names_by_link = {
            message.get_attr("IFLA_IFNAME"): _altnames(message) for message in route.get_links()
        }
    return {name: others for name, others in names_by_link.items() if others}


def _altnames(message: Any) -> tuple[str, ...]:
    listed = message.get_attr("IFLA_PROP_LIST")
    return tuple(listed.get_attrs("IFLA_ALT_IFNAME")) if listed is not None else ()


def _parse_link(message: Any) -> Link:
    return Link(
        name=message.get_attr("IFLA_IFNAME"),
        index=message["index"],
        kind=message.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") or "",
        mac=message.get_attr("IFLA_ADDRESS") or "",
        mtu=message.get_attr("IFLA_MTU"),
        up=bool(message["flags"] & IFF_UP),
        carrier=bool(message.get_attr("IFLA_CARRIER")),
        carrier_changes=message.get_attr("IFLA_CARRIER_CHANGES"),
        queue_length=message.get_attr("IFLA_TXQLEN") or 0,
    )


def check_new_name(name: str, netns: Path | None) -> None:
    """Refuse a name that no new link can have."""
    if not 0 < len(name.encode()) <= MAX_NAME or "/" in name or " " in name:
        raise HostError(
            f"{name!r} cannot name a network link",
            accepted=f"1 to {MAX_NAME} bytes without blanks and slashes",
            cure="choose a shorter name",
        )
    if run_in(netns, lambda: _index(name)):
        raise HostError(
            "a network link of this name exists already and is not ours to replace",
            where=f"link {name}",
            cure="choose another name, or delete it if it is a leftover",
        )


#: The calling thread's namespace, unlike /proc/net, which is that of the process's main thread.
PROC_NET_DEV = Path("/proc/thread-self/net/dev")


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """Frames of a link, as the kernel received (rx) and sent (tx) them."""

    rx: int
    tx: int
    rx_dropped: int
    tx_dropped: int


def statistics(netns: Path | None = None) -> dict[str, LinkStatistics]:
    """Statistics of all links of a namespace."""
    return parse_statistics(run_in(netns, lambda: read_file(PROC_NET_DEV)))


def parse_statistics(text: str) -> dict[str, LinkStatistics]:
    """Read the table of /proc/net/dev."""
    by_link = {}
    for line in text.splitlines()[2:]:
        name, _, numbers = line.rpartition(":")  # an alias such as eth0:1 has a colon of its own
        counters = [
            number for word in numbers.split() if (number := parse_number(word)) is not None
        ]
        fields = counters if len(counters) == len(numbers.split()) else []
        if len(fields) < 12:
            continue  # of what is no table of counters nothing is known
        by_link[name.strip()] = LinkStatistics(
            rx=fields[1], rx_dropped=fields[3], tx=fields[9], tx_dropped=fields[11]
        )
    return by_link


#: Prints what `count_fragments` reads.
SHOW_IP = ("cat", "/proc/net/snmp")


def count_fragments(snmp: str) -> int | None:
    """IPv4 fragments that a namespace has made (FragCreates of RFC 1213); None: not told."""
    return protocol_counters(snmp, "Ip").get("FragCreates")


def protocol_counters(snmp: str, protocol: str) -> dict[str, int]:
    """Counters of a protocol in /proc/net/snmp, by name: without those that are no numbers."""
    rows = [line.split()[1:] for line in snmp.splitlines() if line.startswith(f"{protocol}: ")]
    named = zip(*rows[:2], strict=False) if len(rows) > 1 else ()
    counts = ((name, parse_number(text)) for name, text in named)
    return {name: count for name, count in counts if count is not None}


def sum_counts(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None where one of them is not known."""
    all_counts = list(counts)
    numbers = [count for count in all_counts if count is not None]
    return sum(numbers) if len(numbers) == len(all_counts) else None


TUN_DEVICE = Path("/dev/net/tun")
TUNSETIFF, TUNSETPERSIST = 0x400454CA, 0x400454CB
IFF_TAP, IFF_MULTI_QUEUE, IFF_NO_PI = 0x0002, 0x0100, 0x1000


def create_tap(
    journal: Journal, name: str, *, netns: Path | None = None, multi_queue: bool = True
) -> Change:
    """Create a persistent tap device; it is down, and nobody has it open.

    A program that opens it must request IFF_MULTI_QUEUE exactly when it was made so, as DPDK's
    tap driver always does; the kernel answers "Invalid argument" otherwise.
    """
    check_new_name(name, netns)
    flags = IFF_TAP | IFF_NO_PI | (IFF_MULTI_QUEUE if multi_queue else 0)

    def make() -> None:
        with HostError.explain_os_error(
            "cannot be opened",
            where=str(TUN_DEVICE),
            cure="load the module tun (modprobe tun) and run as root",
        ):
            device = os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC)
        with (
            linux.close_after(device),
            HostError.explain_os_error(
                "the kernel refused to make the tap device",
                where=f"link {name}",
                cure="run as root, with a name that nothing else has",
            ),
        ):
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
            fcntl.ioctl(device, TUNSETPERSIST, 1)

    # The kernel calls the kind of a tap's link "tun".
    data = {"ends": [[name, str(netns) if netns else None]], "kind": "tun"}
    with journal.changing("link", f"create tap {name}", data) as change:
        run_in(netns, make)
    return change


#: Prints what `joined` reads.
SHOW_QDISCS = ("tc", "-s", "-j", "qdisc", "show")


def add_qdisc_counters(
    links: Mapping[str, LinkStatistics], shown: str
) -> dict[str, LinkStatistics]:
    """Add what queueing disciplines know to the statistics of links.

    A discipline's drops are in no statistics of its link. And virtio-net counts a frame as sent
    when the ring's slot is cleaned, which may be seconds later; the discipline, when the driver
    takes it. A `tc` that has no JSON, as an image's may, adds nothing.
    """
    by_link = dict(links)
    try:
        disciplines = parse_json(shown or "[]")
    except ValueError:
        return by_link
    for entry in disciplines if isinstance(disciplines, list) else ():
        name = str(entry.get("dev")) if isinstance(entry, dict) else ""
        if name in by_link and entry.get("root"):
            link = by_link[name]
            packets, drops = (parse_count(entry.get(key)) or 0 for key in ("packets", "drops"))
            by_link[name] = replace(
                link, tx=max(link.tx, packets), tx_dropped=link.tx_dropped + drops
            )
    return by_link
