"""Network links, through netlink: veth pairs of a run, and settings of links that were there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.host.journal import Change, Journal
from vnetperf.host.netns import run_in
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

MAX_NAME = 15  # IFNAMSIZ without the final NUL
IFF_UP, IFF_NOARP, IFF_PROMISC, IFF_MULTICAST = 0x1, 0x80, 0x100, 0x1000
ADDR_GEN_NONE = 1


@dataclass(frozen=True, slots=True)
class Link:
    """A network link as the kernel has it.

    Attributes:
        name: Interface name.
        index: Interface index in its namespace.
        kind: ``veth``, ``bridge`` ... or empty for a device.
        mac: Ethernet address, lower case with colons; empty when it has none.
        mtu: Largest packet in bytes, without Ethernet header and FCS.
        up: Administratively up.
        carrier: The other end is there.
        promiscuous: Takes frames for all addresses.
    """

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    carrier: bool
    promiscuous: bool


def links(netns: Path | None = None) -> tuple[Link, ...]:
    """All links of a namespace; None is the caller's.

    Args:
        netns: File that names the namespace.

    Returns:
        The links.

    Raises:
        HostError: The namespace or netlink refuses.
    """
    return run_in(netns, _dump)


def find(name: str, netns: Path | None = None) -> Link | None:
    """A link by name, or None."""
    return next((link for link in links(netns) if link.name == name), None)


def get(name: str, netns: Path | None = None) -> Link:
    """A link by name.

    Args:
        name: Interface name.
        netns: Namespace to look in; None is the caller's.

    Returns:
        The link.

    Raises:
        HostError: There is none.
    """
    link = find(name, netns)
    if link is None:
        there = ", ".join(sorted(other.name for other in links(netns)))
        raise HostError(
            f"there is no network link {name!r}",
            where=f"namespace {netns}" if netns else "this machine",
            accepted=there,
            cure="correct the name in the testbed's configuration",
        )
    return link


def create_link(
    journal: Journal, name: str, kind: str, *, netns: Path | None = None, **options: Any
) -> Change:
    """Create a virtual link of any kind (``bridge``, ``dummy``, ``macvtap`` ...) for this run.

    Args:
        journal: The run's journal; undoing deletes the link.
        name: Interface name, not in use.
        kind: The kernel's name of the link type.
        netns: Namespace to create it in; None is the caller's.
        **options: More attributes as pyroute2 names them, e.g. ``link=<index>``.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: The name is taken or too long, or the kernel refused.
    """
    must_be_new(name, netns)
    data = {"ends": [[name, str(netns) if netns else None]], "kind": kind}
    with journal.changing("link", f"create {kind} {name}", data) as change:
        _request(name, netns, "add", ifname=name, kind=kind, **options)
    return change


def create_veth(
    journal: Journal,
    names: tuple[str, str],
    *,
    netns: tuple[Path | None, Path | None] = (None, None),
    mtu: int = 1500,
    quiet: bool = True,
    offloads: bool = False,
    queues: int | None = None,
) -> Change:
    """Create a veth pair, move its ends where they belong, and bring both up.

    Args:
        journal: The run's journal; undoing deletes the pair.
        names: Interface names of the two ends.
        netns: Namespace of each end; None is the caller's.
        mtu: MTU of both ends in bytes.
        quiet: Keep the kernel from sending frames of its own on it (ARP, IPv6, multicast), so
            that only test traffic is counted.
        offloads: Leave checksum and segmentation offloads on. Test frames are to cross the pair
            as they are, so the default is off.
        queues: Queues of both ends, each way; None for the kernel's own number.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: A name is taken, or the kernel refused; nothing is left then.
    """
    from vnetperf.host import offloads as ethtool  # noqa: PLC0415 - only needed here

    for name, where in zip(names, netns, strict=True):
        must_be_new(name, where)
        must_be_new(name, None)  # both are born in the caller's namespace
    ends = [[name, str(where) if where else None] for name, where in zip(names, netns, strict=True)]
    what = f"create veth pair {names[0]} - {names[1]}"
    with journal.changing("link", what, {"ends": ends, "kind": "veth"}) as change:
        own = {"num_tx_queues": queues, "num_rx_queues": queues} if queues else {}
        peer = {"ifname": names[1], **own}
        _request(names[0], None, "add", ifname=names[0], kind="veth", peer=peer, **own)
        for name, where in zip(names, netns, strict=True):
            if where is not None:
                _move(name, where)
            set_mtu(name, mtu, netns=where)
            if not offloads:
                ethtool.disable_offloads(name, netns=where)
            if quiet:
                silence(name, netns=where)
        for name, where in zip(names, netns, strict=True):
            set_up(name, netns=where)
    return change


def delete(name: str, *, netns: Path | None = None) -> None:
    """Delete a link that this run created; that it is gone is not an error."""
    link = find(name, netns)
    if link is not None:
        _request(name, netns, "del", index=link.index)


def set_up(name: str, *, up: bool = True, netns: Path | None = None) -> None:
    """Bring a link that this run created up or down."""
    _set(name, netns, flags=IFF_UP if up else 0, change=IFF_UP)


def set_mtu(name: str, mtu: int, *, netns: Path | None = None) -> None:
    """Set the MTU, in bytes, of a link that this run created."""
    _set(name, netns, mtu=mtu)


def set_address(name: str, mac: str, *, netns: Path | None = None) -> None:
    """Set the MAC address of a link that this run created."""
    _set(name, netns, address=mac)


def move(name: str, target: Path, *, netns: Path | None = None) -> None:
    """Move a link that this run created, or has written down, into another namespace; it is down.

    Args:
        name: Interface name; it keeps it.
        target: File that names the namespace it goes to.
        netns: Namespace it is in; None is the caller's.

    Raises:
        HostError: There is no such link, its name is taken there, or the kernel refuses.
    """
    must_be_new(name, target)
    with target.open("rb") as namespace:
        _set(name, netns, net_ns_fd=namespace.fileno())


def silence(name: str, *, netns: Path | None = None) -> None:
    """Keep the kernel from sending frames of its own on a link that this run created."""
    _set(name, netns, flags=IFF_NOARP, change=IFF_NOARP | IFF_MULTICAST)
    run_in(netns, lambda: _disable_ipv6(name))


def set_existing(
    journal: Journal,
    name: str,
    *,
    up: bool | None = None,
    mtu: int | None = None,
    promiscuous: bool | None = None,
) -> Change:
    """Change settings of a link that was there before; undoing puts the previous ones back.

    Args:
        journal: The run's journal.
        name: Interface name, in the caller's namespace.
        up: Whether it is up; None leaves it.
        mtu: MTU in bytes; None leaves it.
        promiscuous: Whether it takes all frames; None leaves it.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: There is no such link, or the driver refused.
    """
    before = get(name)
    data = {"name": name, "up": before.up, "mtu": before.mtu, "promiscuous": before.promiscuous}
    with journal.changing("link-state", f"settings of {name}", data) as change:
        _apply_state(name, up=up, mtu=mtu, promiscuous=promiscuous)
    return change


def undo_link(data: Data) -> str:
    """Delete a link that the run created; deleting one end of a pair deletes both."""
    outcome = "already gone"
    for name, where in data["ends"]:
        # It may still be where it was born, or already where it was to go.
        for netns in {None, where}:
            path = Path(netns) if netns else None
            if path is not None and not path.exists():
                continue
            link = find(name, path)
            if link is not None and link.kind == data["kind"]:
                _request(name, path, "del", index=link.index)
                outcome = "deleted"
    return outcome


def undo_link_state(data: Data) -> str:
    """Put the previous settings of a link back."""
    name = data["name"]
    now = find(name)
    if now is None:
        return "gone with its device"
    before = {key: data[key] for key in ("up", "mtu", "promiscuous")}
    changed = {key: value for key, value in before.items() if getattr(now, key) != value}
    if not changed:
        return "already as before"
    _apply_state(name, **changed)
    return "put back: " + ", ".join(sorted(changed))


def _apply_state(
    name: str, up: bool | None = None, mtu: int | None = None, promiscuous: bool | None = None
) -> None:
    if mtu is not None:
        _set(name, None, mtu=mtu)
    if promiscuous is not None:
        _set(name, None, flags=IFF_PROMISC if promiscuous else 0, change=IFF_PROMISC)
    if up is not None:
        _set(name, None, flags=IFF_UP if up else 0, change=IFF_UP)


def _move(name: str, netns: Path) -> None:
    with netns.open("rb") as namespace:
        _set(name, None, net_ns_fd=namespace.fileno())


def _disable_ipv6(name: str) -> None:
    conf = Path("/proc/sys/net/ipv6/conf") / name
    if not conf.is_dir():  # this kernel has no IPv6, or it is off: silent already
        return
    family = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", ADDR_GEN_NONE)]})]}
    _set(name, None, IFLA_AF_SPEC=family)
    (conf / "disable_ipv6").write_text("1\n")


def _set(name: str, netns: Path | None, **attributes: Any) -> None:
    _request(name, netns, "set", index=get(name, netns).index, **attributes)


def _request(name: str, netns: Path | None, command: str, **attributes: Any) -> None:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    def send() -> None:
        try:
            with IPRoute() as route:
                route.link(command, **attributes)
        except (NetlinkError, OSError) as error:
            raise HostError(
                f"the kernel refused to {command} the link: {error}",
                where=f"link {name}" + (f" in namespace {netns}" if netns else ""),
                cure="run as root; the kernel may lack this link type (see dmesg)",
            ) from error

    run_in(netns, send)


def _dump() -> tuple[Link, ...]:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import

    with IPRoute() as route:
        messages: Sequence[Any] = list(route.get_links())
    return tuple(
        Link(
            name=message.get_attr("IFLA_IFNAME"),
            index=message["index"],
            kind=message.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") or "",
            mac=message.get_attr("IFLA_ADDRESS") or "",
            mtu=message.get_attr("IFLA_MTU"),
            up=bool(message["flags"] & IFF_UP),
            carrier=bool(message.get_attr("IFLA_CARRIER")),
            promiscuous=bool(message["flags"] & IFF_PROMISC),
        )
        for message in messages
    )


def must_be_new(name: str, netns: Path | None) -> None:
    """Refuse a name that no new link can have.

    Args:
        name: Interface name.
        netns: Namespace; None is the caller's.

    Raises:
        HostError: It is too long, or taken.
    """
    if not 0 < len(name.encode()) <= MAX_NAME or "/" in name or " " in name:
        raise HostError(
            f"{name!r} cannot name a network link",
            accepted=f"1 to {MAX_NAME} bytes without blanks and slashes",
            cure="choose a shorter name",
        )
    if find(name, netns) is not None:
        raise HostError(
            "a network link of this name exists already and is not ours to replace",
            where=f"link {name}",
            cure="choose another name, or delete it if it is a leftover",
        )
