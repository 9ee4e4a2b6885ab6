"""Rules of a NIC's switch (switchdev mode), and the filters of the kernel that make one."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Port

#: Where a filter is to be: in the kernel alone, or in the NIC alone (<linux/pkt_cls.h>).
SKIP_HW, SKIP_SW = 1, 2


class SwitchRule(Frozen):
    """What comes in by one port leaves by another.

    Attributes:
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


class RuleFilter(Frozen):
    """One filter of a rule: SKIP_SW or SKIP_HW; of those that match the lowest `prio` is taken."""

    flags: int
    eth_dst: str
    prio: int


def filter_attempts(rule: SwitchRule) -> Iterator[tuple[RuleFilter, ...]]:
    """Ways to make a rule, the better first: the NIC may know fewer filters than the kernel.

    All forward the same frames. What the NIC does not take goes through the kernel.
    """
    if rule.only:
        yield (RuleFilter(flags=SKIP_SW, eth_dst=rule.eth_dst, prio=rule.prio),)
        yield (RuleFilter(flags=SKIP_HW, eth_dst=rule.eth_dst, prio=rule.prio),)
        return
    rest = RuleFilter(flags=SKIP_HW, eth_dst="", prio=rule.prio + 1)
    yield (RuleFilter(flags=SKIP_SW, eth_dst="", prio=rule.prio),)
    if rule.eth_dst:
        yield (RuleFilter(flags=SKIP_SW, eth_dst=rule.eth_dst, prio=rule.prio), rest)
    yield (rest,)
