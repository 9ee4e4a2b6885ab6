"""The kernel's filter "flower", which pyroute2 does not know; import it late, it loads pyroute2."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import tcmsg
from pyroute2.netlink.rtnl.tcmsg import cls_matchall

from vnetperf.host.nic.switch_rules import RuleFilter, SwitchRule, filter_attempts
from vnetperf.host.tc_redirect import ETH_P_ALL, INGRESS, mirred
from vnetperf.model.errors import DutError

#: TCA_CLS_FLAGS_IN_HW.
IN_HW = 4
EVERY_BIT = "ff:ff:ff:ff:ff:ff"


class FlowerOptions(nla):  # type: ignore[misc]  # pyroute2 has no types
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


def flower_parameters(filter_spec: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a filter as pyroute2 sends them."""
    actions = cls_matchall.get_parameters({"action": filter_spec["action"]})["attrs"][0][1]
    attributes = {"TCA_FLOWER_ACT": actions, "TCA_FLOWER_FLAGS": filter_spec["flags"]}
    if mac := filter_spec["eth_dst"]:
        keys = {"TCA_FLOWER_KEY_ETH_DST": mac, "TCA_FLOWER_KEY_ETH_DST_MASK": EVERY_BIT}
        attributes = keys | attributes
    return {"attrs": [list(item) for item in attributes.items()]}


FLOWER_PLUGIN = SimpleNamespace(
    options=FlowerOptions, get_parameters=flower_parameters, fix_request=cls_matchall.fix_request
)
tcmsg.plugins.setdefault("flower", FLOWER_PLUGIN)


def install_rule(rule: SwitchRule, source: str, target: str) -> tuple[tuple[RuleFilter, ...], str]:
    """Make a rule, in the NIC where it takes it; interfaces are in this namespace."""
    refused: list[str] = []
    for parts in filter_attempts(rule):
        try:
            with IPRoute() as route:
                _add_filters(route, parts, source, target)
        except (NetlinkError, OSError, IndexError) as error:
            refused.append(str(error))
            continue
        return parts, "; ".join(dict.fromkeys(refused))
    raise DutError(
        f"cannot forward {rule} ({source} to {target}): {refused[-1]}",
        where="tc flower",
        cure="the kernel may lack sch_ingress, cls_flower or act_mirred; see dmesg",
    )


def _add_filters(route: Any, parts: tuple[RuleFilter, ...], source: str, target: str) -> None:
    index, out = (route.link_lookup(ifname=name)[0] for name in (source, target))
    for number, part in enumerate(parts):
        try:
            where = {"parent": INGRESS, "protocol": ETH_P_ALL, "prio": part.prio}
            match = {"flags": part.flags, "eth_dst": part.eth_dst}
            route.tc("add-filter", "flower", index, **where, **match, action=mirred(out))
        except (NetlinkError, OSError):
            for added in parts[:number]:
                _remove_filter(route, index, added)
            raise


def remove_filters(parts: tuple[RuleFilter, ...], source: str) -> None:
    """Take filters away."""
    try:
        with IPRoute() as route:
            for part in parts:
                _remove_filter(route, route.link_lookup(ifname=source)[0], part)
    except (NetlinkError, OSError, IndexError) as error:
        raise DutError(f"cannot take rules off {source}: {error}", where="tc flower") from error


def _remove_filter(route: Any, index: int, part: RuleFilter) -> None:
    # Without a handle: all filters of this place.
    route.tc("del-filter", index=index, parent=INGRESS, info=part.prio << 16)


def in_hardware(source: str) -> dict[int, bool]:
    """Where the filters of an interface are."""
    try:
        with IPRoute() as route:
            index = route.link_lookup(ifname=source)[0]
            return parse_filters(route.get_filters(index=index, parent=INGRESS))
    except (NetlinkError, OSError, IndexError) as error:
        raise DutError(f"cannot read rules of {source}: {error}", where="tc flower") from error


def parse_filters(messages: Any) -> dict[int, bool]:
    """Where filters are."""
    hardware_by_prio = {}
    for message in messages:
        options = message.get_attr("TCA_OPTIONS")
        if message.get_attr("TCA_KIND") == "flower" and options is not None:
            flags = options.get_attr("TCA_FLOWER_FLAGS") or 0
            hardware_by_prio[message["info"] >> 16] = bool(flags & IN_HW)
    return hardware_by_prio
