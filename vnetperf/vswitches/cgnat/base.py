"""What all modes of the NAT have in common: capabilities, options, where subscribers are."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import PhyPort
from vnetperf.model.nat import Nat, NatBehaviour
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.plugin.vswitch import HasSessions, VSwitch, VSwitchCapabilities
from vnetperf.vswitches.conntrack import TimerOptions, session_timeout_s

#: Ports of the deployment: subscribers are at the first, public addresses at the second.
INSIDE, OUTSIDE = PhyPort(index=0), PhyPort(index=1)


#: Behaviour of a NAT that computes the block of a subscriber (RFC 7422): all of one address.
COMPUTED_BLOCKS = {"paired": True, "port_limit": True, "computed_blocks": True}


class NatOptions(TimerOptions):
    """Options that only the NAT has.

    Attributes:
        max_sessions: 1 or more, `cgnat`: sessions that its table has room for (of each worker in
            mode vpp-nat44; not of vpp-det44). Left out: as many as `--nat` has, or more. The
            kernel's is all namespaces' of the machine, and is [lowered](cgnat.md) only where none
            holds sessions.
    """

    max_sessions: int | None = Field(default=None, ge=1, le=1 << 28)


def find_nat(scenario: Scenario) -> Nat:
    """Subscribers, pool and blocks of a scenario, or the usual ones."""
    return scenario.change if isinstance(scenario.change, Nat) else Nat()


class NatSwitch(HasSessions, VSwitch):
    """A mode of the NAT: subscribers at phy0, public addresses at phy1.

    A source port that lies in the subscriber's block and is free is kept; another gets one of the
    block's that is free.
    """

    name: ClassVar[str] = "cgnat"
    deployments: ClassVar[tuple[str, ...]] = ("phy2phy",)
    Options: ClassVar[type[Frozen]] = NatOptions
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic", "memif"),
        attachments=(),
        chains=False,
        modes=("nft", "iptables", "xdp", "rtc", "pipeline", "vpp-det44", "vpp-nat44"),
        mode_wires={
            "nft": ("veth", "nic"),
            "iptables": ("veth", "nic"),
            "xdp": ("veth", "nic"),
            "rtc": ("memif", "veth"),
            "pipeline": ("memif", "veth"),
            "vpp-det44": ("memif", "veth"),
            "vpp-nat44": ("memif", "veth"),
        },
        forwarding=("l3",),
        frame_change=Nat.key,
        options=("mtu", "napi", "workers", "placement"),
        option_modes={
            "napi": ("nft", "iptables", "xdp"),
            "workers": ("vpp-det44", "vpp-nat44"),
            "placement": ("pipeline", "vpp-det44", "vpp-nat44"),
        },
        nic_drivers=("kernel",),
    )

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario routed: a NAT is a router."""
        return scenario.model_copy(update={"forwarding": "l3"})

    @classmethod
    def session_timeout_s(cls, scenario: Scenario) -> float | None:
        """The timer of its protocol."""
        return session_timeout_s(scenario)

    @classmethod
    def behaviour(cls, scenario: Scenario, **extra_fields: Any) -> NatBehaviour:
        """What it does of what the RFCs on NATs ask: its timers, and what a mode knows besides."""
        options = scenario.options.own(NatOptions)
        return NatBehaviour(
            udp_s=options.udp_timeout,
            tcp_s=options.tcp_timeout,
            tcp_transitory_s=options.tcp_transitory_timeout,
            icmp_s=options.icmp_timeout,
            **extra_fields,
        )

    def behaviour_facts(self) -> dict[str, Any]:
        """The same for the facts of a result, from which the ledger has it."""
        return self.behaviour(self.plan.scenario).model_dump(exclude_none=True)

    @property
    def nat(self) -> Nat:
        """Subscribers, pool and blocks of the scenario."""
        return find_nat(self.plan.scenario)

    @property
    def max_sessions(self) -> int:
        """Sessions that its table has room for."""
        limit: int | None = self.options.max_sessions
        return limit or self.nat.sessions
