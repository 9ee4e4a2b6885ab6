"""Virtual functions of a NIC: create, configure, read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.host import links
from vnetperf.host.journal import Journal
from vnetperf.host.kernel import write_value
from vnetperf.host.linux import netlink, run_in
from vnetperf.host.nic import eswitch as devlink
from vnetperf.host.nic import pci, usage
from vnetperf.host.nic.pci import USER_DRIVERS
from vnetperf.model.errors import HostError

LINK_STATES = {"auto": 0, "enable": 1, "disable": 2}


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A virtual function as its physical one has it.

    Attributes:
        number: 0-based number.
        mac: Address that the physical function gave it; zeros for none.
        vlan: VLAN that it is in, 0 for none.
        rate_mbps: Highest rate of sending, Mbit/s; 0 for any.
        spoof_check: Frames with another source address are dropped; None when not reported.
        trusted: It may become promiscuous; None when not reported.
        rx: Frames it received; None when the driver does not count.
        tx: Frames it sent.
        rx_dropped: Frames for it that were dropped.
        tx_dropped: Frames of it that were dropped.
    """

    number: int
    mac: str
    vlan: int
    rate_mbps: int
    spoof_check: bool | None
    trusted: bool | None
    rx: int | None = None
    tx: int | None = None
    rx_dropped: int = 0
    tx_dropped: int = 0


def vf_addresses(physical: str, *, sys: Path = pci.SYS) -> tuple[str, ...]:
    """PCI addresses of the virtual functions of a NIC, by number."""
    links = (sys / "bus/pci/devices" / physical).glob("virtfn*")
    ordered = sorted(links, key=lambda link: int(link.name.removeprefix("virtfn")))
    return tuple(link.resolve().name for link in ordered)


def why_in_use(
    physical: str, uses: dict[str, usage.InterfaceUse] | None = None, *, sys: Path = pci.SYS
) -> str:
    """Why the virtual functions that a NIC has already must not be taken away."""
    functions = vf_addresses(physical, sys=sys)
    if functions and uses is None:
        uses = usage.interface_uses()
    for address in functions:
        function = pci.nic(address, sys=sys)
        name = f"its virtual function {address}"
        if function.driver in USER_DRIVERS:
            return f"{name} is given to {function.driver}"
        if function.driver and not function.interfaces:
            return f"{name} has its interface in another network namespace"
        for interface in function.interfaces:
            if use := (uses or {}).get(interface):
                return f"{name} is in use: {use.reason}"
    return ""


def create_vfs(
    journal: Journal, physical: str, count: int, *, eswitch: str = "", sys: Path = pci.SYS
) -> tuple[str, ...]:
    """Make virtual functions that no driver takes by itself; undoing brings the earlier number.

    Drivers read the address of a virtual function once, when they take it: it must be set before.
    """
    if reason := why_in_use(physical, sys=sys):
        raise HostError(
            f"the NIC has virtual functions already, and {reason}",
            where=physical,
            cure="end what uses them, or name another NIC in the testbed file",
        )
    if vf_addresses(physical, sys=sys):
        # Those that were there had drivers: undone last, they are made anew when drivers may take
        # them again.
        pci.set_vfs(journal, physical, 0, sys=sys)
    autoprobe = sys / "bus/pci/devices" / physical / "sriov_drivers_autoprobe"
    if autoprobe.exists():  # since Linux 4.12
        write_value(journal, autoprobe, "0")
    if eswitch:
        # Between the two: drivers change it only while there are no functions, when undone too.
        devlink.set_mode(journal, physical, eswitch)
    pci.set_vfs(journal, physical, count, sys=sys)
    found = vf_addresses(physical, sys=sys)
    if len(found) != count:
        raise HostError(
            f"{count} virtual functions were requested and {len(found)} are there",
            where=physical,
            cure="see dmesg; the bus may have no room for them (pci=realloc)",
        )
    return found


def configure_vf(name: str, number: int, netns: Path | None = None, **settings: Any) -> None:
    """Set a virtual function up."""
    cure = "see dmesg; leave the option out where the NIC does not have it"

    def configure() -> None:
        index = links.get(name).index
        for key, value in settings.items():
            what = f"set {key} = {value} of virtual function {number}"
            with netlink(what, f"link {name}", cure) as route:
                route.link("set", index=index, vf={"vf": number, **_VF_ATTRIBUTES[key](value)})

    run_in(netns, configure)


def try_configure_vf(name: str, number: int, netns: Path | None = None, **settings: Any) -> bool:
    """Set what not every driver knows."""
    with contextlib.suppress(HostError):
        configure_vf(name, number, netns, **settings)
        return True
    return False


def read_vfs(name: str, netns: Path | None = None) -> tuple[VirtualFunction, ...]:
    """Virtual functions as the driver of the physical one has them."""

    def read() -> tuple[VirtualFunction, ...]:
        with netlink("list virtual functions", f"link {name}") as route:
            (message,) = route.link("get", ifname=name, ext_mask=1)
        functions = message.get_attr("IFLA_VFINFO_LIST")
        found = [_parse_vf(m) for m in functions.get_attrs("IFLA_VF_INFO")] if functions else []
        return tuple(sorted(found, key=lambda function: function.number))

    return run_in(netns, read)


def _parse_vf(message: Any) -> VirtualFunction:
    def value(attribute: str, field: str) -> Any:
        found = message.get_attr(attribute)
        return found[field] if found is not None else None

    stats = message.get_attr("IFLA_VF_STATS")

    def count(name: str) -> int:
        return int(stats.get_attr(f"IFLA_VF_STATS_{name}") or 0) if stats else 0

    rx, tx = count("RX_PACKETS"), count("TX_PACKETS")
    dropped = count("RX_DROPPED"), count("TX_DROPPED")
    # The kernel answers with zeros for drivers that do not count.
    counts = any((rx, tx, *dropped))
    spoof, trust = value("IFLA_VF_SPOOFCHK", "spoofchk"), value("IFLA_VF_TRUST", "trust")
    return VirtualFunction(
        number=value("IFLA_VF_MAC", "vf"),
        mac=value("IFLA_VF_MAC", "mac"),
        vlan=value("IFLA_VF_VLAN", "vlan") or 0,
        rate_mbps=value("IFLA_VF_RATE", "max_tx_rate") or 0,
        spoof_check=None if spoof in (None, 0xFFFFFFFF) else bool(spoof),
        trusted=None if trust in (None, 0xFFFFFFFF) else bool(trust),
        rx=rx if counts else None,
        tx=tx if counts else None,
        rx_dropped=dropped[0],
        tx_dropped=dropped[1],
    )


_VF_ATTRIBUTES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "mac": lambda mac: {"mac": mac},
    "vlan": lambda vlan: {"vlan": {"vlan": vlan, "qos": 0}},
    "rate_mbps": lambda rate: {"rate": {"min_tx_rate": 0, "max_tx_rate": rate}},
    "spoof_check": lambda on: {"spoofchk": int(on)},
    "trust": lambda on: {"trust": int(on)},
    "link": lambda state: {"link_state": LINK_STATES[state]},
}
