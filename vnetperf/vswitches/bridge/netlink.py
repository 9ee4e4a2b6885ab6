"""What the bridge backend asks of the kernel; each function runs in the run's namespace.

pyroute2 takes some 20 ms to open a socket, so that each function does all it can with one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vnetperf.model.errors import DutError
from vnetperf.vswitches.bridge.layout import PortSettings

#: Entries of the forwarding database (linux/neighbour.h): NTF_MASTER asks the port's bridge,
#: NUD_NOARP is what iproute2 calls "static". Without NUD_REACHABLE pyroute2 adds NUD_PERMANENT,
#: which makes the address one of the bridge's own.
NTF_MASTER, NUD_REACHABLE, NUD_NOARP = 0x04, 0x02, 0x40
#: Frames of a bridge go through the machine's packet filters unless these are 0.
FILTERS = ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables")
SYSCTLS = Path("/proc/sys/net/bridge")
#: What a result says of a bridge and of its ports.
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


def without_filters() -> None:
    """Keep frames away from iptables and ebtables, where br_netfilter is there."""
    for name in FILTERS:
        if (SYSCTLS / name).exists():
            (SYSCTLS / name).write_text("0\n")


def plug(bridge: str, netdev: str, settings: PortSettings) -> None:
    """Make an interface a port of a bridge.

    Args:
        bridge: Name of the bridge.
        netdev: Name of the interface.
        settings: How it behaves.

    Raises:
        DutError: The kernel refuses.
    """

    def do(route: Any, indexes: Mapping[str, int]) -> None:
        port = indexes[netdev]
        route.link("set", index=port, master=indexes[bridge])
        flood = int(settings.flood)
        route.brport(
            "set",
            index=port,
            learning=int(settings.learning),
            unicast_flood=flood,
            mcast_flood=flood,
            bcast_flood=flood,
        )

    _with_route(f"make {netdev} a port of {bridge}", do)


def unplug(netdev: str) -> None:
    """Take an interface out of its bridge.

    Args:
        netdev: Name of the interface.

    Raises:
        DutError: The kernel refuses, or it is gone.
    """
    _with_route(
        f"take {netdev} out of its bridge",
        lambda route, indexes: route.link("set", index=indexes[netdev], master=0),
    )


def add_entries(entries: Sequence[tuple[str, str]]) -> None:
    """Add static entries to the forwarding databases of bridges.

    Args:
        entries: MAC address, name of the port's interface.

    Raises:
        DutError: The kernel refuses.
    """

    def do(route: Any, indexes: Mapping[str, int]) -> None:
        for mac, netdev in entries:
            where = {"ifindex": indexes[netdev], "lladdr": mac}
            route.fdb("add", **where, flags=NTF_MASTER, state=NUD_NOARP | NUD_REACHABLE)

    if entries:
        _with_route("add static entries", do)


def describe(bridges: Sequence[str]) -> dict[str, Any]:
    """Settings of bridges and their ports as the kernel has them.

    Args:
        bridges: Names.

    Returns:
        Bridge -> its settings, its ports' among them.

    Raises:
        DutError: The kernel refuses.
    """
    found: dict[str, Any] = {}

    def do(route: Any, indexes: Mapping[str, int]) -> None:
        names = {index: name for name, index in indexes.items()}
        for message in sorted(route.get_links(), key=lambda m: int(m["index"])):
            name, info = names.get(message["index"], ""), message.get_attr("IFLA_LINKINFO")
            if name in bridges:
                settings = _settings(info.get_attr("IFLA_INFO_DATA"), BRIDGE_FACTS)
                found.setdefault(name, {}).update(settings)
            master = names.get(message.get_attr("IFLA_MASTER") or 0, "")
            if master in bridges:
                settings = _settings(info.get_attr("IFLA_INFO_SLAVE_DATA"), PORT_FACTS)
                settings["mtu"] = message.get_attr("IFLA_MTU")
                found.setdefault(master, {}).setdefault("ports", {})[name] = settings

    _with_route("read the settings of bridges", do)
    return found


def _settings(data: Any, wanted: Mapping[str, str]) -> dict[str, Any]:
    return {} if data is None else {name: data.get_attr(key) for key, name in wanted.items()}


def _with_route(what: str, do: Any) -> None:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    try:
        with IPRoute() as route:
            indexes = {m.get_attr("IFLA_IFNAME"): m["index"] for m in route.get_links()}
            do(route, indexes)
    except KeyError as error:
        raise DutError(f"cannot {what}: there is no interface {error}", where="bridge") from error
    except (NetlinkError, OSError) as error:
        raise DutError(f"cannot {what}: {error}", where="bridge") from error
