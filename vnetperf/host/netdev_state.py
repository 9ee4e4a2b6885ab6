"""All of a network interface that is brought back after a run: read, and put back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from vnetperf.host import ethtool, links
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

#: Flags of an interface that a run may change: NOARP, PROMISC, ALLMULTI, MULTICAST.
UP, PROMISCUOUS = 0x1, 0x100
FLAGS = 0x80 | PROMISCUOUS | 0x200 | 0x1000
AF_INET, AF_INET6, LINK_SCOPE, PERMANENT, UNICAST, BY_KERNEL = 2, 10, 253, 0x80, 1, 2
_ROUTE = ("RTA_DST", "RTA_GATEWAY", "RTA_PRIORITY", "RTA_PREFSRC")


def read(name: str) -> dict[str, Any]:
    """All of an interface that is put back.

    Args:
        name: Interface name.

    Returns:
        JSON values.

    Raises:
        HostError: There is no such interface.
    """
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
        "queues": ethtool.channels(name),
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


def put_back(name: str, data: Data) -> str:
    """Bring an interface to what was read of it.

    Args:
        name: Its name now.
        data: What `read` has returned.

    Returns:
        What differed, in a few words.

    Raises:
        HostError: The kernel refuses.
    """
    done = []
    index = links.get(name).index
    now = read(name)
    if name != data["name"]:
        request("set", index=index, flags=0, change=UP)
        request("set", index=index, ifname=str(data["name"]))
        name = str(data["name"])
        done.append("name")
    for what in ("mac", "mtu"):
        if now[what] != data[what]:
            key = "address" if what == "mac" else what
            request("set", index=index, **{key: data[what]})
            done.append(what)
    differing = {k: v for k, v in data["offloads"].items() if now["offloads"].get(k) != v}
    if differing:
        ethtool.set_offloads(name, differing)
        done.append("offloads")
    if data.get("queues") and now["queues"] != data["queues"]:
        ethtool.set_channels(name, data["queues"])
        done.append("queues")
    flags = read(name)["flags"]
    if flags != data["flags"]:
        request("set", index=index, flags=data["flags"], change=FLAGS | UP)
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


def request(command: str, **attributes: Any) -> None:
    """Make one link request in the calling thread's namespace.

    Args:
        command: "set", "add" ...
        **attributes: As pyroute2 names them; ``index`` or ``ifname`` says which link.

    Raises:
        HostError: The kernel refuses, for longer than a driver is busy after it was bound.
    """
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
