"""Interfaces of a NIC's switch in switchdev mode: its uplink, and one for each virtual function.

They are all in the namespace of the NIC's devlink instance, the first one. Drivers refuse to change
the mode while the physical function's interface is elsewhere, and to move it afterwards.
"""

from __future__ import annotations

from pathlib import Path

from vnetperf.host import links
from vnetperf.host.journal import Change, Journal
from vnetperf.host.netdev_state import PROMISCUOUS, UP, request
from vnetperf.host.netns import run_in
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

IPV6 = Path("/proc/sys/net/ipv6/conf")
#: Flag NOARP, and with it MULTICAST as what is changed: the kernel sends nothing of its own.
NOARP, QUIET = 0x80, 0x80 | 0x1000
HW_TC = "hw-tc-offload"
OWN_NETNS = Path("/proc/thread-self/ns/net")


def bring_home(name: str, netns: Path) -> None:
    """Move an interface from a run's namespace into this one; the run has written it down.

    Args:
        name: Interface name.
        netns: Where it is.

    Raises:
        HostError: There is no such interface, or the kernel refuses.
    """
    index = links.get(name, netns).index
    with OWN_NETNS.open("rb") as home:
        number = home.fileno()

        def send() -> None:
            request("set", index=index, flags=0, change=UP)
            request("set", index=index, net_ns_fd=number)

        run_in(netns, send)


def take_uplink(journal: Journal, name: str, *, mtu: int, promiscuous: bool = False) -> Change:
    """Make an uplink ready for rules: quiet, up, with an ingress queue and rules in hardware.

    Address, MTU and flags are put back with the interface itself, which was written down when it
    was borrowed; what is not part of that is put back by this.

    Args:
        journal: The run's journal.
        name: Interface name, in this namespace.
        mtu: MTU, octets.
        promiscuous: Take frames for all addresses.

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: Somebody's rules are on it already, or the kernel refuses.
    """
    link = links.get(name)
    if has_ingress(link.index):
        raise HostError(
            "it has an ingress queue already, with rules of somebody else",
            where=f"link {name}",
            cure=f"end who set it, e.g. Open vSwitch with hw-offload, or `tc qdisc del dev {name} "
            "ingress`",
        )
    data = {"index": link.index, "tc": hardware_rules(name), "ipv6": _no_ipv6(name)}
    with journal.changing("uplink", f"rules of uplink {name}", data) as change:
        _ready(name, link.index, mtu, PROMISCUOUS if promiscuous else 0)
    return change


def take_representor(name: str, mtu: int) -> None:
    """Make a representor ready for rules, as `take_uplink`; it goes with its virtual function.

    Args:
        name: Interface name, in this namespace.
        mtu: MTU, octets.

    Raises:
        HostError: The kernel refuses.
    """
    _ready(name, links.get(name).index, mtu, 0)


def undo_uplink(data: Data) -> str:
    """Take the rules off an uplink; IPv6 and rules in hardware are as they were."""
    index = int(data["index"])
    name = next((link.name for link in links.links() if link.index == index), "")
    if not name:
        return "gone with its device"
    done = []
    if has_ingress(index):
        _tc("del", index)
        done.append("rules gone")
    if data["tc"] is not None and hardware_rules(name) != data["tc"]:
        hardware_rules(name, bool(data["tc"]))
        done.append(f"{HW_TC} {'on' if data['tc'] else 'off'}")
    if data["ipv6"] is not None and _no_ipv6(name) != data["ipv6"]:
        _no_ipv6(name, str(data["ipv6"]))
        done.append("IPv6")
    return ", ".join(done) or "already as before"


def has_ingress(index: int) -> bool:
    """Whether an interface has an ingress (or clsact) queue, which rules hang on.

    Args:
        index: Interface index.

    Returns:
        True when it has.
    """
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import

    with IPRoute() as route:
        kinds = {m.get_attr("TCA_KIND") for m in route.get_qdiscs(index=index)}
    return bool(kinds & {"ingress", "clsact"})


def hardware_rules(name: str, wanted: bool | None = None) -> bool | None:
    """Whether a driver takes rules into hardware (hw-tc-offload), after it was told to.

    Args:
        name: Interface name.
        wanted: What it is told; None only asks.

    Returns:
        As it is; None when the driver does not know it.
    """
    from pyroute2.ethtool import Ethtool  # noqa: PLC0415 - takes 0.2 s to import

    with Ethtool() as tool:
        try:
            known = tool.get_features(name)
            feature = known.features.get(HW_TC)
            if feature is None:
                return None
            if wanted is not None and bool(feature.enable) != wanted:
                feature.enable = wanted
                tool.set_features(name, known)
                feature = tool.get_features(name).features[HW_TC]
        except (OSError, KeyError):
            return None
        return bool(feature.enable)


def _ready(name: str, index: int, mtu: int, flags: int) -> None:
    if links.get(name).mtu != mtu:
        request("set", index=index, mtu=mtu)
    _no_ipv6(name, "1")
    hardware_rules(name, True)
    _tc("add", index)
    request("set", index=index, flags=NOARP | flags | UP, change=QUIET | PROMISCUOUS | UP)


def _no_ipv6(name: str, wanted: str = "") -> str | None:
    """Whether IPv6 is off on an interface, after it was told; None where the kernel has none."""
    path = IPV6 / name / "disable_ipv6"
    if not path.exists():
        return None
    if wanted:
        path.write_text(f"{wanted}\n")
    return path.read_text().strip()


def _tc(command: str, index: int) -> None:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    try:
        with IPRoute() as route:
            route.tc(command, "ingress", index)
    except (NetlinkError, OSError) as error:
        raise HostError(
            f"the kernel refused to {command} its ingress queue: {error}",
            where=f"link {index}",
            cure="the kernel may lack sch_ingress",
        ) from error
