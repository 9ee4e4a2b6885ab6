"""The embedded switch of a NIC: its mode (devlink), uplink and representors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vnetperf.host import links
from vnetperf.host.journal import Change, Journal, UndoData
from vnetperf.host.linux import netlink, read_file, run_in
from vnetperf.host.nic import pci, users
from vnetperf.host.nic.netdev import PROMISCUOUS, UP, request_link
from vnetperf.model.errors import HostError

#: enum devlink_eswitch_mode of the kernel.
ESWITCH_MODES = {"legacy": 0, "switchdev": 1}
ESWITCH_GET, ESWITCH_SET = 29, 30
#: NLM_F_REQUEST and NLM_F_ACK.
DEVLINK_FLAGS = 0x1 | 0x4
#: Errors of the kernel for a NIC that is no switch for devlink: its driver has none, the NIC is not
#: in devlink, the kernel has no devlink.
NO_ESWITCH = (errno.EOPNOTSUPP, errno.ENODEV, errno.ENOENT)


def read_mode(address: str) -> str:
    """Mode of the switch in a NIC."""
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s to import

    try:
        mode_number = request_eswitch(address)
    except (NetlinkError, OSError) as error:
        if _error_number(error) in NO_ESWITCH:
            return ""
        raise _driver_refuses(address, "report its eswitch mode", error) from error
    return next((name for name, number in ESWITCH_MODES.items() if number == mode_number), "")


def set_mode(journal: Journal, address: str, mode: str) -> Change | None:
    """Set the mode of the switch in a NIC; undoing brings the former one back.

    Drivers change it only while the NIC has no virtual functions, undoing included.
    """
    before = read_mode(address)
    if not before:
        raise HostError(
            f"its driver {pci.nic(address).driver or '(none)'} has no {mode} mode",
            where=address,
            accepted="a NIC whose driver offers an eswitch by devlink, e.g. mlx5_core or ice",
            cure="leave the mode out, or name another NIC in the testbed file",
        )
    if before == mode:
        return None
    data = {"pci": address, "previous": before}
    description = f"eswitch mode of {address}: {before} -> {mode}"
    with journal.changing("eswitch", description, data) as change:
        _set_mode(address, mode)
    return change


def undo_mode(data: UndoData) -> str:
    """Bring the former mode of a switch back."""
    address, previous = str(data["pci"]), str(data["previous"])
    if not pci.exists(address):
        return "gone with its device"
    now = read_mode(address)
    if now == previous:
        return f"already {previous}"
    _set_mode(address, previous)
    return f"{now or 'unknown'} -> {previous}"


#: linux/devlink.h.
PORT_GET, PHYSICAL_FLAVOUR, VF_FLAVOUR = 5, 0, 4
BUS_NAME, DEV_NAME, NETDEV_NAME, FLAVOUR = 1, 2, 7, 77
PF_NUMBER, VF_NUMBER, EXTERNAL = 127, 128, 149


def representors(address: str, number: int, *, bus: str = "pci") -> dict[int, str]:
    """Interfaces that stand for a virtual function of this host, whatever they are called.

    Returns:
        Number of the physical function -> name; empty where the driver tells devlink nothing.
    """
    return {
        users.number(port.get(PF_NUMBER, b"")): name
        for name, port in _ports(address, bus)
        if _flavour(port) == VF_FLAVOUR and users.number(port.get(VF_NUMBER, b"")) == number
        # A port beyond the card's processor is another host's.
        if not users.number(port.get(EXTERNAL, b""))
    }


def uplinks(address: str, *, bus: str = "pci") -> tuple[str, ...]:
    """Interfaces of the wires of a device; none where the driver tells devlink nothing."""
    return tuple(name for name, port in _ports(address, bus) if _flavour(port) == PHYSICAL_FLAVOUR)


def _ports(address: str, bus: str) -> Iterator[tuple[str, Mapping[int, bytes]]]:
    """Ports of a device that have an interface here, with what devlink tells of each."""
    device = (bus.encode() + b"\0", address.encode() + b"\0")
    for port in users.dump_generic("devlink", PORT_GET):
        name = port.get(NETDEV_NAME, b"").rstrip(b"\0")
        if name and (port.get(BUS_NAME), port.get(DEV_NAME)) == device:
            yield os.fsdecode(name), port


def _flavour(port: Mapping[int, bytes]) -> int | None:
    return users.number(port[FLAVOUR]) if FLAVOUR in port else None


def devlink_attributes(address: str, number: int | None) -> list[tuple[str, object]]:
    """Attributes of a message about a switch."""
    attributes: list[tuple[str, object]] = [
        ("DEVLINK_ATTR_BUS_NAME", "pci"),
        ("DEVLINK_ATTR_DEV_NAME", address),
    ]
    return attributes if number is None else [*attributes, ("DEVLINK_ATTR_ESWITCH_MODE", number)]


def _set_mode(address: str, mode: str) -> None:
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415 - takes 0.2 s to import

    try:
        request_eswitch(address, ESWITCH_MODES[mode])
    except (NetlinkError, OSError) as error:
        raise _driver_refuses(address, f"change its eswitch mode to {mode}", error) from error
    if (now := read_mode(address)) != mode:
        raise HostError(
            f"its eswitch mode was set to {mode} and is {now or 'unknown'}",
            where=address,
            cure="see dmesg for messages of the driver",
        )


def request_eswitch(address: str, number: int | None = None) -> int | None:
    """Ask for a switch's mode, or set it; pyroute2 knows the messages and has no call for them."""
    from pyroute2 import DL  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.devlink import devlinkcmd  # noqa: PLC0415

    message: Any = devlinkcmd()
    message["cmd"] = ESWITCH_GET if number is None else ESWITCH_SET
    message["attrs"] = devlink_attributes(address, number)
    with DL() as socket:
        answers: Any = tuple(
            socket.nlm_request(message, msg_type=socket.prid, msg_flags=DEVLINK_FLAGS)
        )
    modes = (answer.get_attr("DEVLINK_ATTR_ESWITCH_MODE") for answer in answers)
    return next((mode for mode in modes if mode is not None), None)


def _error_number(error: Exception) -> int:
    return int(getattr(error, "code", 0) or getattr(error, "errno", 0) or 0)


def _driver_refuses(address: str, operation: str, error: Exception) -> HostError:
    return HostError(
        f"its driver {pci.nic(address).driver or '(none)'} refuses to {operation}: {error}",
        where=address,
        cure="see dmesg; nothing may use its virtual functions, and the firmware must allow it",
    )


IPV6 = Path("/proc/sys/net/ipv6/conf")
#: Flag NOARP, and with it MULTICAST as what is changed: the kernel sends nothing of its own.
NOARP, QUIET_FLAGS = 0x80, 0x80 | 0x1000
HW_TC = "hw-tc-offload"


def return_uplink(name: str, netns: Path) -> None:
    """Move an interface from a run's namespace into this one; the run has written it down."""
    index = links.get(name, netns).index
    with links.OWN_NETNS.open("rb") as home:
        number = home.fileno()

        def send() -> None:
            request_link("set", index=index, flags=0, change=UP)
            request_link("set", index=index, net_ns_fd=number)

        run_in(netns, send)


def take_uplink(journal: Journal, name: str, *, mtu: int, promiscuous: bool = False) -> Change:
    """Make an uplink ready for rules: quiet, up, with an ingress queue and rules in hardware.

    Address, MTU and flags are put back with the interface itself, which was written down when it
    was borrowed; what is not part of that is put back by this.
    """
    link = links.get(name)
    if has_ingress(link.index):
        raise HostError(
            "it has an ingress queue already, with rules of somebody else",
            where=f"link {name}",
            cure=f"end who set it, e.g. Open vSwitch with hw-offload, or `tc qdisc del dev {name} "
            "ingress`",
        )
    data = {"index": link.index, "tc": hw_tc_offload(name), "ipv6": _disable_ipv6(name)}
    with journal.changing("uplink", f"rules of uplink {name}", data) as change:
        _prepare(name, link.index, mtu, PROMISCUOUS if promiscuous else 0)
    return change


def take_representor(name: str, mtu: int) -> None:
    """Make a representor ready for rules, as `take_uplink`; it goes with its virtual function."""
    _prepare(name, links.get(name).index, mtu, 0)


def undo_uplink(data: UndoData) -> str:
    """Take the rules off an uplink; IPv6 and rules in hardware are as they were."""
    index = int(data["index"])
    name = next((link.name for link in links.links() if link.index == index), "")
    if not name:
        return "gone with its device"
    done = []
    if has_ingress(index):
        change_ingress_qdisc("del", index)
        done.append("rules gone")
    if data["tc"] is not None and hw_tc_offload(name) != data["tc"]:
        hw_tc_offload(name, bool(data["tc"]))
        done.append(f"{HW_TC} {'on' if data['tc'] else 'off'}")
    if data["ipv6"] is not None and _disable_ipv6(name) != data["ipv6"]:
        _disable_ipv6(name, str(data["ipv6"]))
        done.append("IPv6")
    return ", ".join(done) or "already as before"


def has_ingress(index: int) -> bool:
    """Whether an interface has an ingress (or clsact) queue, which rules hang on."""
    with netlink("list its queues", f"link {index}") as route:
        kinds = {m.get_attr("TCA_KIND") for m in route.get_qdiscs(index=index)}
    return bool(kinds & {"ingress", "clsact"})


def hw_tc_offload(name: str, enabled: bool | None = None) -> bool | None:
    """Whether a driver takes rules into hardware (hw-tc-offload), after it was set."""
    from pyroute2.ethtool import Ethtool  # noqa: PLC0415 - takes 0.2 s to import

    with Ethtool() as tool:
        try:
            features = tool.get_features(name)
            feature = features.features.get(HW_TC)
            if feature is None:
                return None
            if enabled is not None and bool(feature.enable) != enabled:
                feature.enable = enabled
                tool.set_features(name, features)
                feature = tool.get_features(name).features[HW_TC]
        except (OSError, KeyError):
            return None
        return bool(feature.enable)


def _prepare(name: str, index: int, mtu: int, flags: int) -> None:
    if links.get(name).mtu != mtu:
        request_link("set", index=index, mtu=mtu)
    _disable_ipv6(name, "1")
    hw_tc_offload(name, True)
    change_ingress_qdisc("add", index)
    request_link(
        "set", index=index, flags=NOARP | flags | UP, change=QUIET_FLAGS | PROMISCUOUS | UP
    )


def _disable_ipv6(name: str, setting: str = "") -> str | None:
    """Whether IPv6 is off on an interface, after it was set; None where the kernel has none."""
    path = IPV6 / name / "disable_ipv6"
    if not path.exists():
        return None
    if setting:
        path.write_text(f"{setting}\n")
    return read_file(path).strip()


def change_ingress_qdisc(command: str, index: int) -> None:
    """Make ("add") or delete ("del") the ingress queueing discipline of an interface."""
    cure = "the kernel may lack sch_ingress"
    with netlink(f"{command} its ingress queue", f"link {index}", cure) as route:
        route.tc(command, "ingress", index)
