"""Hands all that comes in by one interface out by another, by the kernel's traffic control."""

from __future__ import annotations

from typing import Any

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Deployment
from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.ports import PhyPort

#: Handle of the ingress queueing discipline; ETH_P_ALL takes frames of every protocol.
INGRESS, ETH_P_ALL = 0xFFFF0000, 0x0003
#: Filters that can match every frame, the simpler one first; u32 is in every kernel.
MATCHERS = {"matchall": "cls_matchall", "u32": "cls_u32"}
#: A u32 key that masks everything away. No class: the action decides.
EVERYTHING = {"matchall": {}, "u32": {"keys": ["0x0/0x0+0"], "target": 0}}


def joined(deployment: Deployment) -> tuple[tuple[PhyPort, PhyPort], ...]:
    """Physical ports that frames pass between without a VNF.

    Args:
        deployment: The graph.

    Returns:
        Port frames come in by, port they leave by.
    """
    return tuple(
        (hop.src, hop.dst)
        for hop in deployment.hops
        if isinstance(hop.src, PhyPort) and isinstance(hop.dst, PhyPort)
    )


def missing(facts: MachineFacts) -> str:
    """What keeps this kernel from redirecting.

    Args:
        facts: The machine.

    Returns:
        "" or what is missing with its cure.
    """
    purpose = "handing frames from one physical port to the other"
    for module in ("sch_ingress", "act_mirred"):
        if trouble := facts.missing_module(module, purpose):
            return trouble
    if matcher(facts) is None:
        return facts.missing_module(MATCHERS["u32"], purpose)
    return ""


def matcher(facts: MachineFacts) -> str | None:
    """The filter to use.

    Args:
        facts: The machine.

    Returns:
        Its name, or None when the kernel has none.
    """
    return next((name for name, module in MATCHERS.items() if not facts.modules.get(module)), None)


def redirect(machine: Machine, pairs: dict[str, str]) -> str:
    """Redirect what comes in by interfaces.

    Args:
        machine: The machine.
        pairs: Interface frames come in by -> interface they leave by; both in the run's namespace.

    Returns:
        Name of the filter in use.

    Raises:
        DutError: The kernel refuses.
    """
    kind = matcher(machine.facts) or "u32"
    for module in ("sch_ingress", MATCHERS[kind], "act_mirred"):
        machine.load_module(module)
    machine.in_netns(lambda: _add(kind, pairs))
    return kind


def _add(kind: str, pairs: dict[str, str]) -> None:
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    try:
        with IPRoute() as route:
            indexes = {m.get_attr("IFLA_IFNAME"): m["index"] for m in route.get_links()}
            for source, target in pairs.items():
                action: dict[str, Any] = {"kind": "mirred", "direction": "egress"}
                action |= {"action": "redirect", "ifindex": indexes[target]}
                route.tc("add", "ingress", indexes[source])
                where = {"parent": INGRESS, "protocol": ETH_P_ALL, "prio": 1}
                more = EVERYTHING[kind]
                route.tc("add-filter", kind, indexes[source], **where, action=action, **more)
    except (NetlinkError, OSError, KeyError) as error:
        raise DutError(
            f"cannot redirect from {', '.join(pairs)}: {error}",
            where="tc redirect",
            cure="the kernel may lack sch_ingress, cls_u32 or act_mirred",
        ) from error
