"""Rules that join the ports of a NIC's switch in switchdev mode: pure."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.addresses import dut_mac, vnf_mac
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Hop
from vnetperf.model.machine import MachineFacts
from vnetperf.model.ports import PhyPort, Port
from vnetperf.model.scenario import Scenario

#: Where a rule is to be: in the NIC alone, or in the kernel alone.
SKIP_HW, SKIP_SW = 1, 2
#: Settings of virtual functions that the kernel's drivers refuse in switchdev mode, and why.
LEGACY_ONLY = {
    "vlan": "there a VLAN is pushed by rules on representors and not set on the virtual function",
    "trust": "there rules and not the virtual function's own wishes say what it receives",
    "spoof_check": "there rules say what it may send",
}


class Rule(Frozen):
    """What comes in by one port leaves by another.

    Attributes:
        src: Port frames come in by.
        dst: Port they leave by.
        eth_dst: Destination address that they are known to have; "" when it is not.
        only: True when frames with another address belong to another rule.
        prio: Its place among the rules, and with `prio + 1` that of its second half.
    """

    src: Port
    dst: Port
    eth_dst: str = ""
    only: bool = False
    prio: int = 1

    def __str__(self) -> str:
        return f"{self.src} -> {self.dst}"


class Part(Frozen):
    """One filter of a rule.

    Attributes:
        flags: SKIP_SW or SKIP_HW.
        eth_dst: Destination address to match; "" for every frame.
        prio: Its place; the lowest that matches is taken.
    """

    flags: int
    eth_dst: str
    prio: int


def rules(scenario: Scenario) -> tuple[Rule, ...]:
    """Rules of a scenario, one for each hop.

    Args:
        scenario: The scenario.

    Returns:
        Rules in the order of the hops.
    """
    hops = scenario.deployment.hops
    return tuple(
        Rule(
            src=hop.src,
            dst=hop.dst,
            eth_dst=_address(hop, scenario),
            only=sum(other.src == hop.src for other in hops) > 1,
            prio=2 * number + 1,
        )
        for number, hop in enumerate(hops)
    )


def attempts(rule: Rule) -> Iterator[tuple[Part, ...]]:
    """Ways to make a rule, the better first: the NIC may know fewer filters than the kernel.

    All forward the same frames. What the NIC does not take goes through the kernel.

    Args:
        rule: The rule.

    Yields:
        Filters that make it together.
    """
    if rule.only:
        yield (Part(flags=SKIP_SW, eth_dst=rule.eth_dst, prio=rule.prio),)
        yield (Part(flags=SKIP_HW, eth_dst=rule.eth_dst, prio=rule.prio),)
        return
    rest = Part(flags=SKIP_HW, eth_dst="", prio=rule.prio + 1)
    yield (Part(flags=SKIP_SW, eth_dst="", prio=rule.prio),)
    if rule.eth_dst:
        yield (Part(flags=SKIP_SW, eth_dst=rule.eth_dst, prio=rule.prio), rest)
    yield (rest,)


def refusal(scenario: Scenario) -> str:
    """What of a scenario does not go with switchdev mode.

    Args:
        scenario: The scenario.

    Returns:
        "" or why not, with the cure.
    """
    for option, reason in LEGACY_ONLY.items():
        if getattr(scenario.options, option) is not None:
            return (
                f"{option} cannot be set in switchdev mode: {reason}; leave it out, or choose "
                "mode legacy"
            )
    return ""


def missing(facts: MachineFacts) -> str:
    """What keeps this kernel from having the rules.

    Args:
        facts: The machine.

    Returns:
        "" or what is missing with its cure.
    """
    needed = ("sch_ingress", "cls_flower", "act_mirred")
    troubles = (facts.missing_module(module, "mode switchdev") for module in needed)
    return next((trouble for trouble in troubles if trouble), "")


def _address(hop: Hop, scenario: Scenario) -> str:
    """Destination address of frames of a hop; "" when the VNF before it leaves it as it is."""
    writes = scenario.vnf_addresses or hop.src in scenario.deployment.ends
    if isinstance(hop.src, PhyPort):
        return dut_mac(hop.src) if isinstance(hop.dst, PhyPort) else vnf_mac(hop.dst)
    if not writes:
        return ""
    if isinstance(hop.dst, PhyPort):
        # Where the tester sends to a wire in a VNF's place, the streams say the address.
        return "" if hop.src in scenario.deployment.ends else scenario.peer_mac(hop.src)
    return vnf_mac(hop.dst)
