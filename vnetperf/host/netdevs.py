"""Kernel interfaces of PCI devices, lent to a run: moved into its namespace, or gone with a driver.

An interface is put back by its device, since neither its name nor its place can be relied upon: a
driver that is bound anew makes a new interface, and the kernel sends the interfaces of a namespace
that ends back to the first one, down.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vnetperf.host import ethtool, links, offloads, pci
from vnetperf.host.journal import Change, Journal
from vnetperf.host.netns import run_in
from vnetperf.host.patience import patient
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

#: Longest wait for the interface of a driver that was just bound, seconds.
APPEARS_S = 10.0
#: Flags of an interface that a run may change: NOARP, PROMISC, ALLMULTI, MULTICAST.
UP, PROMISCUOUS = 0x1, 0x100
FLAGS = 0x80 | PROMISCUOUS | 0x200 | 0x1000
AF_INET, AF_INET6, LINK_SCOPE, PERMANENT, UNICAST, BY_KERNEL = 2, 10, 253, 0x80, 1, 2
OWN_NETNS = Path("/proc/thread-self/ns/net")
_ROUTE = ("RTA_DST", "RTA_GATEWAY", "RTA_PRIORITY", "RTA_PREFSRC")


def keep(journal: Journal, address: str, *, netns: Path | None = None) -> Change | None:
    """Write down the interface of a device before it is moved, changed, or lost to a driver.

    Args:
        journal: The run's journal; undoing puts the interface back as it was.
        address: PCI address.
        netns: Namespace that it will be moved to, if any.

    Returns:
        Handle to undo it before the run ends; None when the device has no interface here.

    Raises:
        HostError: No such device, or the journal cannot be written.
    """
    name = interface_of(address)
    if not name:
        return None
    data = {"pci": address, "netns": str(netns) if netns else "", **_state(name)}
    return journal.intend("netdev", f"interface {name} of {address}", data)


def interface_of(address: str, *, wait_s: float = 0.0) -> str:
    """The interface of a device in the caller's namespace.

    Args:
        address: PCI address.
        wait_s: Longest wait for it, seconds.

    Returns:
        Its name; "" when there is none.

    Raises:
        HostError: No such device.
    """
    deadline = time.monotonic() + wait_s
    while True:
        names = pci.nic(address).interfaces
        if names or time.monotonic() >= deadline:
            return names[0] if names else ""
        time.sleep(0.02)


def move(address: str, netns: Path, *, name: str = "") -> str:
    """Move the interface of a device into a namespace; the caller has written it down.

    Args:
        address: PCI address.
        netns: Where to.
        name: New name; "" keeps it.

    Returns:
        Its name there.

    Raises:
        HostError: The driver made no interface in time, or the kernel refuses.
    """
    # udev may rename an interface while we look: the index stays.
    deadline = time.monotonic() + patient(APPEARS_S)
    while True:
        here = interface_of(address, wait_s=max(0.0, deadline - time.monotonic()))
        link = links.find(here) if here else None
        if link is not None:
            break
        if time.monotonic() >= deadline:
            raise HostError(
                f"its driver {pci.nic(address).driver or '(none)'} made no network interface "
                f"within {APPEARS_S:.0f} s",
                where=address,
                cure="see dmesg for what the driver says of the device",
            )
    with netns.open("rb") as target:
        _request("set", index=link.index, flags=0, change=UP)
        _request("set", index=link.index, net_ns_fd=target.fileno(), ifname=name or link.name)
    return name or link.name


def prepare(
    name: str, *, netns: Path, mtu: int, promiscuous: bool, mac: str = "", offload: bool = False
) -> None:
    """Make an interface in a run's namespace carry test frames and nothing else, and bring it up.

    Args:
        name: Interface name.
        netns: Its namespace.
        mtu: MTU, octets.
        promiscuous: Take frames for all addresses.
        mac: MAC address; "" leaves it.
        offload: True leaves checksum and segmentation offloads on.

    Raises:
        HostError: The driver refuses.
    """
    if mac and links.get(name, netns).mac != mac:
        links.set_address(name, mac, netns=netns)
    if links.get(name, netns).mtu != mtu:
        try:
            links.set_mtu(name, mtu, netns=netns)
        except HostError as error:
            raise HostError(
                f"the driver refuses an MTU of {mtu}: {error.what}",
                where=f"link {name}",
                cure="measure smaller frames, or leave mtu out of the options",
            ) from error
    if not offload:
        offloads.disable_offloads(name, netns=netns)
    links.silence(name, netns=netns)
    index = links.get(name, netns).index
    flags = (PROMISCUOUS if promiscuous else 0) | UP
    run_in(netns, lambda: _request("set", index=index, flags=flags, change=PROMISCUOUS | UP))


def undo_netdev(data: Data) -> str:
    """Put an interface back: into this namespace, with its name, settings, addresses, routes."""
    address, wanted = str(data["pci"]), str(data["name"])
    if not pci.exists(address):
        return "gone with its device"
    name = interface_of(address)
    if not name and data["netns"] and Path(data["netns"]).exists():
        _fetch(address, wanted, Path(data["netns"]))
    name = interface_of(address, wait_s=APPEARS_S)
    if not name:
        raise HostError(
            f"interface {wanted} did not come back",
            where=address,
            cure=f"see dmesg; its driver is {pci.nic(address).driver or 'none'}",
        )
    return _put_back(name, data)


def _fetch(address: str, name: str, netns: Path) -> None:
    """Bring the interface of a device back from a namespace."""
    with OWN_NETNS.open("rb") as home:

        def send() -> None:
            found = [m for m in _dump() if _device(m) == address]
            found = found or [m for m in _dump() if m.get_attr("IFLA_IFNAME") == name]
            for message in found:
                _request("set", index=message["index"], flags=0, change=UP)
                _request("set", index=message["index"], net_ns_fd=home.fileno())

        run_in(netns, send)


def _put_back(name: str, data: Data) -> str:
    done = []
    index = links.get(name).index
    now = _state(name)
    if name != data["name"]:
        _request("set", index=index, flags=0, change=UP)
        _request("set", index=index, ifname=str(data["name"]))
        name = str(data["name"])
        done.append("name")
    for what in ("mac", "mtu"):
        if now[what] != data[what]:
            key = "address" if what == "mac" else what
            _request("set", index=index, **{key: data[what]})
            done.append(what)
    differing = {k: v for k, v in data["offloads"].items() if now["offloads"].get(k) != v}
    if differing:
        ethtool.set_offloads(name, differing)
        done.append("offloads")
    flags = _state(name)["flags"]
    if flags != data["flags"]:
        _request("set", index=index, flags=data["flags"], change=FLAGS | UP)
        done.append("flags")
    if _put_addresses_back(index, data):
        done.append("addresses")
    return "put back: " + ", ".join(done) if done else "already as before"


def _put_addresses_back(index: int, data: Data) -> bool:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    changed = False
    with IPRoute() as route:
        there = {(a.get_attr("IFA_ADDRESS"), a["prefixlen"]) for a in route.get_addr(index=index)}
        for entry in data["addresses"]:
            if (entry["address"], entry["prefixlen"]) not in there:
                with contextlib.suppress(NetlinkError):  # a DHCP client was faster
                    route.addr("add", index=index, **entry)
                changed = True
        for entry in data["routes"]:
            with contextlib.suppress(NetlinkError):  # it is there already
                route.route("add", oif=index, **entry)
                changed = True
    return changed


def _state(name: str) -> dict[str, Any]:
    """All of an interface that is put back, as JSON values."""
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import

    link = links.get(name)
    with IPRoute() as route:
        (message,) = route.get_links(link.index)
        addresses: list[Any] = [a for a in route.get_addr(index=link.index) if _is_kept(a)]
        routes: list[Any] = [
            r
            for family in (AF_INET, AF_INET6)
            for r in route.get_routes(family=family)
            if r.get_attr("RTA_OIF") == link.index and _is_somebodys(r)
        ]
    return {
        "name": name,
        "mac": link.mac,
        "mtu": link.mtu,
        "flags": message["flags"] & (FLAGS | UP),
        "offloads": ethtool.offloads(name),
        "addresses": [_address(a) for a in addresses],
        "routes": [_route(r) for r in routes],
    }


def _is_kept(message: Any) -> bool:
    """Whether an address would not come back by itself: link-local and autoconfigured ones do."""
    permanent = bool((message.get_attr("IFA_FLAGS") or message["flags"]) & PERMANENT)
    return bool(message["scope"] != LINK_SCOPE) and (permanent or message["family"] == AF_INET)


def _is_somebodys(message: Any) -> bool:
    """Whether a route was set: those of the kernel come back with the addresses."""
    return bool(message["type"] == UNICAST and message["proto"] != BY_KERNEL)


def _address(message: Any) -> dict[str, Any]:
    entry = {
        "family": message["family"],
        "address": message.get_attr("IFA_ADDRESS"),
        "local": message.get_attr("IFA_LOCAL"),
        "broadcast": message.get_attr("IFA_BROADCAST"),
        "prefixlen": message["prefixlen"],
        "scope": message["scope"],
    }
    return {key: value for key, value in entry.items() if value is not None}


def _route(message: Any) -> dict[str, Any]:
    entry = {key.removeprefix("RTA_").lower(): message.get_attr(key) for key in _ROUTE}
    if entry["dst"] is not None:
        entry["dst"] = f"{entry['dst']}/{message['dst_len']}"
    fields = {key: message[key] for key in ("family", "proto", "scope")}
    table = message.get_attr("RTA_TABLE")
    found = {**fields, "table": table, **entry}
    return {key: value for key, value in found.items() if value is not None}


def _device(message: Any) -> str:
    return str(message.get_attr("IFLA_PARENT_DEV_NAME") or "")


def _dump() -> list[Any]:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import

    with IPRoute() as route:
        return list(route.get_links())


def _request(command: str, **attributes: Any) -> None:
    """One link request in the calling thread's namespace."""
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    _retried(lambda: _send(IPRoute, NetlinkError, command, attributes))


def _send(route_class: Any, refusal: Any, command: str, attributes: dict[str, Any]) -> None:
    try:
        with route_class() as route:
            route.link(command, **attributes)
    except (refusal, OSError) as error:
        raise HostError(
            f"the kernel refused to {command} the link: {error}",
            where=f"link {attributes.get('ifname') or attributes['index']}",
            cure="see dmesg for what the driver says",
        ) from error


def _retried(call: Callable[[], None], attempts: int = 3) -> None:
    """Drivers are busy for a moment after they were bound."""
    for attempt in range(attempts):
        try:
            call()
            return
        except HostError:
            if attempt + 1 == attempts:
                raise
            time.sleep(0.1)
