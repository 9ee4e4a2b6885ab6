"""The kernel's filter "flower", which pyroute2 does not know; import it late, it loads pyroute2."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import tcmsg
from pyroute2.netlink.rtnl.tcmsg import cls_matchall

from vnetperf.model.errors import DutError
from vnetperf.vswitches.sriov.rules import Part, Rule, attempts

INGRESS, ETH_P_ALL = 0xFFFF0000, 0x0003
#: TCA_CLS_FLAGS_IN_HW.
IN_HW = 4
EVERY_BIT = "ff:ff:ff:ff:ff:ff"


class Options(nla):  # type: ignore[misc]  # pyroute2 has no types
    """Attributes of <linux/pkt_cls.h> up to the flags, in its order."""

    prefix = "TCA_FLOWER_"
    nla_map = (
        ("TCA_FLOWER_UNSPEC", "none"),
        ("TCA_FLOWER_CLASSID", "uint32"),
        ("TCA_FLOWER_INDEV", "asciiz"),
        ("TCA_FLOWER_ACT", "tca_act_prio"),
        ("TCA_FLOWER_KEY_ETH_DST", "l2addr"),
        ("TCA_FLOWER_KEY_ETH_DST_MASK", "l2addr"),
        ("TCA_FLOWER_KEY_ETH_SRC", "l2addr"),
        ("TCA_FLOWER_KEY_ETH_SRC_MASK", "l2addr"),
        ("TCA_FLOWER_KEY_ETH_TYPE", "be16"),
        ("TCA_FLOWER_KEY_IP_PROTO", "uint8"),
        *((f"TCA_FLOWER_KEY_{n}", "hex") for n in range(10, 22)),  # IP addresses and ports
        ("TCA_FLOWER_FLAGS", "uint32"),
    )
    tca_act_prio = cls_matchall.options.tca_act_prio


def parameters(wanted: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a filter as pyroute2 sends them.

    Args:
        wanted: Keywords of the request: ``flags``, ``eth_dst`` ("" for every frame), ``action``.

    Returns:
        Options of the request.
    """
    actions = cls_matchall.get_parameters({"action": wanted["action"]})["attrs"][0][1]
    keys = []
    if wanted["eth_dst"]:
        keys = [
            ["TCA_FLOWER_KEY_ETH_DST", wanted["eth_dst"]],
            ["TCA_FLOWER_KEY_ETH_DST_MASK", EVERY_BIT],
        ]
    return {
        "attrs": [*keys, ["TCA_FLOWER_ACT", actions], ["TCA_FLOWER_FLAGS", wanted["flags"]]],
    }


PLUGIN = SimpleNamespace(
    options=Options, get_parameters=parameters, fix_request=cls_matchall.fix_request
)
tcmsg.plugins.setdefault("flower", PLUGIN)


def install(rule: Rule, source: str, target: str) -> tuple[tuple[Part, ...], str]:
    """Make a rule, in the NIC where it takes it; interfaces are in this namespace.

    Args:
        rule: The rule.
        source: Interface of the port frames come in by.
        target: Interface of the port they leave by.

    Returns:
        Filters that make it, and what the NIC said of those that it refused.

    Raises:
        DutError: The kernel does not take it either.
    """
    refused: list[str] = []
    for parts in attempts(rule):
        try:
            with IPRoute() as route:
                _add(route, parts, source, target)
        except (NetlinkError, OSError, IndexError) as error:
            refused.append(str(error))
            continue
        return parts, "; ".join(dict.fromkeys(refused))
    raise DutError(
        f"cannot forward {rule} ({source} to {target}): {refused[-1]}",
        where="tc flower",
        cure="the kernel may lack sch_ingress, cls_flower or act_mirred; see dmesg",
    )


def _add(route: Any, parts: tuple[Part, ...], source: str, target: str) -> None:
    index = route.link_lookup(ifname=source)[0]
    action = {"kind": "mirred", "direction": "egress", "action": "redirect"}
    action["ifindex"] = route.link_lookup(ifname=target)[0]
    for number, part in enumerate(parts):
        try:
            route.tc(
                "add-filter",
                "flower",
                index,
                parent=INGRESS,
                protocol=ETH_P_ALL,
                prio=part.prio,
                flags=part.flags,
                eth_dst=part.eth_dst,
                action=dict(action),
            )
        except (NetlinkError, OSError):
            for made in parts[:number]:
                _remove(route, index, made)
            raise


def remove(parts: tuple[Part, ...], source: str) -> None:
    """Take filters away.

    Args:
        parts: As `install` has returned them.
        source: Interface they are on.

    Raises:
        DutError: The kernel refuses.
    """
    try:
        with IPRoute() as route:
            for part in parts:
                _remove(route, route.link_lookup(ifname=source)[0], part)
    except (NetlinkError, OSError, IndexError) as error:
        raise DutError(f"cannot take rules off {source}: {error}", where="tc flower") from error


def _remove(route: Any, index: int, part: Part) -> None:
    # Without a handle: all filters of this place.
    route.tc("del-filter", index=index, parent=INGRESS, info=part.prio << 16)


def in_hardware(source: str) -> dict[int, bool]:
    """Where the filters of an interface are.

    Args:
        source: Interface name.

    Returns:
        Place of a filter -> True when the NIC has it.

    Raises:
        DutError: The kernel cannot be asked.
    """
    try:
        with IPRoute() as route:
            index = route.link_lookup(ifname=source)[0]
            return read(route.get_filters(index=index, parent=INGRESS))
    except (NetlinkError, OSError, IndexError) as error:
        raise DutError(f"cannot read rules of {source}: {error}", where="tc flower") from error


def read(messages: Any) -> dict[int, bool]:
    """Where filters are.

    Args:
        messages: The kernel's list of them; each place has one entry more, without options.

    Returns:
        Place of a filter -> True when the NIC has it.
    """
    found = {}
    for message in messages:
        options = message.get_attr("TCA_OPTIONS")
        if message.get_attr("TCA_KIND") == "flower" and options is not None:
            flags = options.get_attr("TCA_FLOWER_FLAGS") or 0
            found[message["info"] >> 16] = bool(flags & IN_HW)
    return found
