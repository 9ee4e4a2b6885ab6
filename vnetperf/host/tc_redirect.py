"""Redirects every frame from one kernel interface to another by tc (ingress, mirred)."""

from __future__ import annotations

from typing import Any

from vnetperf.host import links
from vnetperf.host.linux import netlink
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Deployment, PhyPort
from vnetperf.model.testbed import KernelModule, MachineFacts

#: Handle of the ingress queueing discipline; ETH_P_ALL takes frames of every protocol.
INGRESS, ETH_P_ALL = 0xFFFF0000, 0x0003
SCH_INGRESS, ACT_MIRRED, CLS_MATCHALL, CLS_U32, CLS_FLOWER = (
    KernelModule(name=name, symbol=symbol, optional=True)
    for name, symbol in (
        ("sch_ingress", "ingress_init"),
        ("act_mirred", "tcf_mirred_act"),
        ("cls_matchall", "mall_classify"),
        ("cls_u32", "u32_classify"),
        ("cls_flower", "fl_classify"),
    )
)
MODULES = (SCH_INGRESS, ACT_MIRRED, CLS_MATCHALL, CLS_U32)
#: Filters that can match every frame, the simpler one first; u32 is in every kernel.
MATCHERS = {"matchall": CLS_MATCHALL, "u32": CLS_U32}
#: A u32 key that masks everything away. No class: the action decides.
EVERYTHING = {"matchall": {}, "u32": {"keys": ["0x0/0x0+0"], "target": 0}}


def joined_phy_ports(deployment: Deployment) -> tuple[tuple[PhyPort, PhyPort], ...]:
    """Physical ports that frames pass between without a VNF."""
    return tuple(
        (hop.src, hop.dst)
        for hop in deployment.hops
        if isinstance(hop.src, PhyPort) and isinstance(hop.dst, PhyPort)
    )


def joins_cable(deployment: Deployment) -> bool:
    """Whether frames pass on to another host's vSwitch without a VNF that addresses them there."""
    joined = {port for pair in joined_phy_ports(deployment) for port in pair}
    return not joined.isdisjoint((*deployment.trunks, *dict(deployment.beyond)))


def redirect_problem(facts: MachineFacts, deployment: Deployment) -> str:
    """What keeps this kernel from joining the physical ports of a deployment, if any are."""
    if not joined_phy_ports(deployment):
        return ""
    return missing_modules(facts, "handing frames from one physical port to the other")


def missing_modules(facts: MachineFacts, purpose: str) -> str:
    """What this kernel lacks for redirecting frames, "" for nothing."""
    for module in (SCH_INGRESS, ACT_MIRRED):
        if trouble := facts.missing_module(module, purpose):
            return trouble
    if available_matcher(facts) is None:
        return facts.missing_module(MATCHERS["u32"], purpose)
    return ""


def available_matcher(facts: MachineFacts) -> str | None:
    """The filter to use."""
    return next(
        (name for name, module in MATCHERS.items() if not facts.modules.get(module.name)), None
    )


def load_modules(machine: Machine) -> str:
    """Load what redirects, and return the filter to use.

    What is loaded last is unloaded first, and a module is in use for as long as there are filters:
    those that go only with their interfaces want it loaded before these are made.
    """
    kind = available_matcher(machine.facts) or "u32"
    for module in (SCH_INGRESS, MATCHERS[kind], ACT_MIRRED):
        machine.load_module(module)
    return kind


def redirect(machine: Machine, pairs: dict[str, str]) -> str:
    """Redirect what comes in by interfaces."""
    kind = load_modules(machine)
    machine.in_netns(lambda: _add_filters(machine, kind, pairs))
    return kind


def _add_filters(machine: Machine, kind: str, pairs: dict[str, str]) -> None:
    cure = "the kernel may lack sch_ingress, cls_u32 or act_mirred"
    with netlink(f"redirect from {', '.join(pairs)}", "tc redirect", cure) as route:
        for ends in pairs.items():
            source, target = (links.get(name, machine.netns).index for name in ends)
            route.tc("add", "ingress", source)
            add_redirect(route, kind, source, target)


def mirred(target: int) -> dict[str, Any]:
    """The action that sends a frame out by an interface."""
    return {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": target}


def add_redirect(route: Any, kind: str, source: int, target: int, prio: int = 1) -> None:
    """Add a filter that sends every frame coming in by one interface out by another."""
    where = {"parent": INGRESS, "protocol": ETH_P_ALL, "prio": prio}
    route.tc("add-filter", kind, source, **where, action=mirred(target), **EVERYTHING[kind])
