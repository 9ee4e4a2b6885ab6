"""What all modes have in common: capabilities, and where services, clients and backends are."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.balancing import Services
from vnetperf.model.base import Frozen
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE
from vnetperf.plugin.vswitch import HasSessions, VSwitch, VSwitchCapabilities


def find_services(scenario: Scenario) -> Services:
    """Services and flows of a scenario, or the usual ones."""
    return scenario.change if isinstance(scenario.change, Services) else Services()


class BalancingSwitch(HasSessions, VSwitch):
    """A mode of the load balancer: clients at phy0, backends at phy1.

    A frame to a virtual address comes out with the address and port of a backend, an answer with
    those of its service.
    """

    name: ClassVar[str] = "lb"
    deployments: ClassVar[tuple[str, ...]] = ("phy2phy",)
    Options: ClassVar[type[Frozen]] = Frozen
    #: What does it, for `--plan`; the services follow.
    does_it: ClassVar[str]
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("veth", "nic"),
        attachments=(),
        chains=False,
        max_frame_size=JUMBO_FRAME_SIZE,
        modes=("nft", "iptables", "ipvs", "tc", "xdp"),
        forwarding=("l3",),
        frame_change=Services.key,
        options=("mtu", "napi"),
        nic_drivers=("kernel",),
    )

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario routed: a node of a cluster is a router."""
        return scenario.model_copy(update={"forwarding": "l3"})

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What does it and for which services, for `--plan`."""
        mode = plan.scenario.options.mode or cls.capabilities.modes[0]
        return {mode: f"{cls.does_it} {find_services(plan.scenario)}"}

    @property
    def services(self) -> Services:
        """Services and flows of the scenario."""
        return find_services(self.plan.scenario)

    @property
    def protocol(self) -> str:
        """Of all services: "udp" or "tcp"."""
        return self.plan.scenario.traffic.headers[-1]
