"""Virtual functions of a NIC: create, configure, read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from vnetperf.host import links
from vnetperf.host.journal import Journal
from vnetperf.host.kernel import write_value
from vnetperf.host.linux import netlink, run_in
from vnetperf.host.nic import eswitch as devlink
from vnetperf.host.nic import netdev, pci, usage
from vnetperf.host.nic.pci import USER_DRIVERS
from vnetperf.model.base import Frozen
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import VFS_CURE, MachineFacts, vfs_kept

LINK_STATES = {"auto": 0, "enable": 1, "disable": 2}


class VfOptions(Frozen):
    """Options of virtual functions.

    Attributes:
        vlan: 1 to 4093: VLAN of VNF ports, or of pods, that meet only each other (`sriov`).
        rate_mbps: Highest rate at which a VNF port, or a pod, sends, Mbit/s; 0 for any (`sriov`).
        trust: A virtual function may become promiscuous and change its address. Left out: true
            where the NIC knows it; of pods as the driver has it.
        spoof_check: What a virtual function sends with another source address is dropped. Left out:
            false where the NIC knows it; of pods as the driver has it.
    """

    vlan: Annotated[int, Field(ge=1, le=4093)] | None = None
    rate_mbps: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    trust: bool | None = None
    spoof_check: bool | None = None


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A virtual function as its physical one has it.

    Attributes:
        mac: Address that the physical function gave it; zeros for none.
        vlan: VLAN that it is in, 0 for none.
        rate_mbps: Highest rate of sending, Mbit/s; 0 for any.
        spoof_check: Frames with another source address are dropped; None when not reported.
        trusted: It may become promiscuous; None when not reported.
        rx: Frames it received; None when the driver does not count.
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


def explain_no_vfs(facts: MachineFacts) -> str:
    """Why no NIC of a machine can have virtual functions; "" where one can."""
    if any(nic.max_vfs for nic in facts.nics):
        return ""
    return (
        "no NIC of this machine has SR-IOV; turn it on in the firmware, or run in the "
        "virtual lab: `vnetperf lab run -- ...`"
    )


def explain_too_few_vfs(
    facts: MachineFacts, address: str, count: int, *, subject: str, cure: str
) -> str:
    """Why a NIC cannot have the functions that a deployment needs of it; "" where it can.

    Those that it has are taken away first.
    """
    nic = facts.nic(address)
    most = nic.max_vfs if nic else 0
    if not most:
        return f"{address} has no SR-IOV; turn it on in the firmware, or name another NIC"
    if nic and (reason := vfs_kept(nic.vfs_in_use)):
        return f"{address}: {reason}; {VFS_CURE}"
    if count > most:
        return (
            f"{subject} needs {count} virtual functions of {address}, which can have {most}; "
            f"{cure}, or name another NIC"
        )
    return ""


def explain_vf_use(
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


def end_vfs(journal: Journal, physical: str, *, sys: Path = pci.SYS) -> None:
    """Take away the virtual functions that a NIC has; undoing makes as many anew, set as before."""
    if reason := vfs_kept(explain_vf_use(physical, sys=sys)):
        raise HostError(reason, where=physical, cure=VFS_CURE)
    if vf_addresses(physical, sys=sys):
        # The journal has the settings of a borrowed interface already.
        with netdev.interface_noted(journal, physical, sys=sys):
            pci.set_vfs(journal, physical, 0, sys=sys)


def create_vfs(
    journal: Journal, physical: str, count: int, *, eswitch: str = "", sys: Path = pci.SYS
) -> tuple[str, ...]:
    """Make virtual functions that no driver takes by itself; undoing brings the earlier number.

    Drivers read the address of a virtual function once, when they take it: it must be set before.
    """
    # Those that were there had drivers: undone last, they are made anew when drivers may take them
    # again.
    end_vfs(journal, physical, sys=sys)
    autoprobe = sys / "bus/pci/devices" / physical / "sriov_drivers_autoprobe"
    if autoprobe.exists():  # since Linux 4.12
        write_value(journal, autoprobe, "0")
    if eswitch:
        # Between the two: drivers change it only while there are no functions, when undone too.
        devlink.set_mode(journal, physical, eswitch)
    pci.set_vfs(journal, physical, count, sys=sys)
    functions = vf_addresses(physical, sys=sys)
    if len(functions) != count:
        raise HostError(
            f"{count} virtual functions were requested and {len(functions)} are there",
            where=physical,
            cure="see dmesg; the bus may have no room for them (pci=realloc)",
        )
    return functions


def configure_vf(name: str, number: int, netns: Path | None = None, **settings: Any) -> None:
    """Set a virtual function up."""
    cure = "see dmesg; leave the option out where the NIC does not have it"

    def configure() -> None:
        index = links.get(name).index
        for key, value in settings.items():
            description = f"set {key} = {value} of virtual function {number}"
            with netlink(description, f"link {name}", cure) as route:
                route.link("set", index=index, vf={"vf": number, **_VF_ATTRIBUTES[key](value)})

    run_in(netns, configure)


def try_configure_vf(name: str, number: int, netns: Path | None = None, **settings: Any) -> bool:
    """Set what not every driver knows."""
    with contextlib.suppress(HostError):
        configure_vf(name, number, netns, **settings)
        return True
    return False


def set_up_vf(
    name: str,
    number: int,
    netns: Path | None,
    options: VfOptions,
    *,
    mac: str,
    vlan: int = 0,
    usual: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Give a virtual function its address and settings, before a driver has it.

    Returned are the settings of `usual`, for what the options leave open, that its driver refused.
    """
    settings: dict[str, Any] = {"mac": mac, **({"vlan": vlan} if vlan else {})}
    for key in ("rate_mbps", "spoof_check", "trust"):
        if (value := getattr(options, key)) is not None:
            settings[key] = value
    configure_vf(name, number, netns, **settings)
    return tuple(
        key
        for key, value in (usual or {}).items()
        if key not in settings and not try_configure_vf(name, number, netns, **{key: value})
    )


def read_vfs(name: str, netns: Path | None = None) -> tuple[VirtualFunction, ...]:
    """Virtual functions as the driver of the physical one has them."""

    def read() -> tuple[VirtualFunction, ...]:
        with netlink("list virtual functions", f"link {name}") as route:
            (message,) = route.link("get", ifname=name, ext_mask=1)
        functions = message.get_attr("IFLA_VFINFO_LIST")
        vfs = [_parse_vf(m) for m in functions.get_attrs("IFLA_VF_INFO")] if functions else []
        return tuple(sorted(vfs, key=lambda function: function.number))

    return run_in(netns, read)


def describe(
    state: VirtualFunction, address: str, netdev: str = "", refused: Sequence[str] = ()
) -> str:
    """A virtual function for the facts of a run, with the settings that its driver refused."""
    flags = {"spoof check": state.spoof_check, "trusted": state.trusted}
    parts = [
        f"number {state.number} ({address})",
        f"MAC {state.mac}",
        f"driver {pci.nic(address).driver}" + f" ({netdev})" * bool(netdev),
        f"VLAN {state.vlan or 'none'}",
        f"rate {f'{state.rate_mbps} Mbit/s at most' if state.rate_mbps else 'not limited'}",
        *(f"{name} {'on' if on else 'off'}" for name, on in flags.items() if on is not None),
    ]
    parts += [f"not taken by the driver: {', '.join(refused)}"] if refused else []
    return ", ".join(parts)


def _parse_vf(message: Any) -> VirtualFunction:
    def value(attribute: str, field: str) -> Any:
        fields = message.get_attr(attribute)
        return fields[field] if fields is not None else None

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
