"""The kernel's NAT by nftables or iptables, with the sessions in conntrack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from vnetperf.model.base import Frozen
from vnetperf.model.errors import DutError
from vnetperf.model.nat import Nat, NatBehaviour
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.vswitches.cgnat.base import (
    COMPUTED_BLOCKS,
    NatOptions,
    NatSwitch,
    find_nat,
)
from vnetperf.vswitches.conntrack import (
    MAX,
    TrackingRouter,
    count_all_sessions,
    show_limit,
)

PROTOCOLS = ("udp", "tcp", "icmp")
TABLE = "cgnat"


def ruleset(nat: Nat, *, random_ports: bool = False) -> str:
    """Rules of nftables: one look-up of a subscriber's block in a map, whoever it is."""
    blocks = ", ".join(
        f"{nat.first_inside + n} : {block.address} . {block.first}-{block.last}"
        for n in range(nat.subscribers)
        for block in (nat.subscriber_block(n),)
    )
    return (
        f"table ip {TABLE} {{\n"
        "  map blocks {\n"
        "    type ipv4_addr : interval ipv4_addr . inet_service\n"
        "    flags interval\n"
        f"    elements = {{ {blocks} }}\n"
        "  }\n"
        "  chain outbound {\n"
        "    type nat hook postrouting priority srcnat; policy accept;\n"
        f"    meta l4proto {{ {', '.join(PROTOCOLS)} }} snat ip to ip saddr map @blocks"
        f"{' fully-random' * random_ports}\n"
        "  }\n"
        "}\n"
    )


def restore_lines(nat: Nat, *, random_ports: bool = False) -> Iterator[str]:
    """Rules of iptables, as iptables-restore reads them: one for each subscriber and protocol."""
    yield "*nat"
    for number in range(nat.subscribers):
        block, source = nat.subscriber_block(number), nat.first_inside + number
        for protocol in PROTOCOLS:
            yield (
                f"-A POSTROUTING -s {source}/32 -p {protocol} -j SNAT "
                f"--to-source {block.address}:{block.first}-{block.last}"
                f"{' --random-fully' * random_ports}"
            )
    yield "COMMIT\n"


class KernelNatOptions(NatOptions):
    """Options that the modes nft and iptables have besides.

    Attributes:
        random_ports: `cgnat`, modes `nft` and `iptables`: a port of the subscriber's block at
            random for each session (RFC 6056); requires `--nat mapping=learnt`.
    """

    random_ports: bool = False


class KernelNat(NatSwitch, TrackingRouter):
    """nft or iptables: source NAT to each subscriber's block of ports, sessions in conntrack."""

    Options: ClassVar[type[Frozen]] = KernelNatOptions
    tables: ClassVar[tuple[str, ...]] = ("nat",)
    fewer_sessions: ClassVar[str] = "--nat subscribers=N,ports=M"

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the kernel from translating here."""
        nat = find_nat(scenario)
        if scenario.options.own(KernelNatOptions).random_ports and nat.mapping != "learnt":
            return "with random_ports no mapping is known before; add --nat mapping=learnt"
        return super().missing(facts, scenario)

    def new_limit(self, limit: float) -> int | None:
        """Lowered besides, for a table that is to be full, where nobody else has sessions.

        Every namespace has the machine's room.
        """
        sessions = self.max_sessions
        if self.options.max_sessions is None or sessions >= limit:
            return super().new_limit(limit)
        tracked = count_all_sessions()
        if tracked == 0:
            return sessions
        others = "an unknown number of" if tracked is None else tracked
        raise DutError(
            f"max_sessions={sessions} would lower {MAX} from {show_limit(limit)} for all network "
            f"namespaces of the machine, which hold {others} sessions",
            where=self.name,
            cure="leave max_sessions out, choose a machine without other sessions, or "
            "--set mode=rtc, whose table is its own",
        )

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The rule, for `--plan`."""
        nat = find_nat(plan.scenario)
        first, last = nat.subscriber_block(0), nat.subscriber_block(nat.subscribers - 1)
        return {
            plan.scenario.options.mode or cls.capabilities.modes[0]: (
                f"snat of {nat.first_inside}..{nat.first_inside + nat.subscribers - 1} to "
                f"{first.address}:{first.first}..{last.address}:{last.last}, {nat}"
            )
        }

    def rules(self) -> str:
        """What the mode's program reads."""
        at_random = self.options.random_ports
        if self.mode == "nft":
            return ruleset(self.nat, random_ports=at_random)
        return "\n".join(restore_lines(self.nat, random_ports=at_random))

    @classmethod
    def behaviour(cls, scenario: Scenario, **extra_fields: Any) -> NatBehaviour:
        """Of conntrack: who was sent to may answer, fragments are reassembled first."""
        options = scenario.options.own(KernelNatOptions)
        return super().behaviour(
            scenario,
            filtering="address-and-port",
            fragments=True,
            reset_s=options.tcp_transitory_timeout,
            session_limit=0,
            random_ports=options.random_ports,
            **COMPUTED_BLOCKS,
            **extra_fields,
        )

    def facts(self) -> dict[str, Any]:
        """Besides: its blocks, and what it does of what RFCs on NATs ask."""
        return {
            **super().facts(),
            "nat": str(self.nat),
            "behaviour": self.behaviour_facts(),
        }
