"""The lb backend: each of its modes is a class of its own."""

from __future__ import annotations

from typing import Any

from vnetperf.host.machine import Machine
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.vswitches.kernelports import KernelSwitch
from vnetperf.vswitches.lb.base import BalancingSwitch
from vnetperf.vswitches.lb.programs import ProgramBalancer
from vnetperf.vswitches.lb.rules import RuleBalancer

#: Mode -> its class; the first is the default. A new one is a line here, and its name in `modes`
#: of the capabilities.
MODES: dict[str, type[RuleBalancer | ProgramBalancer]] = {
    "nft": RuleBalancer,
    "iptables": RuleBalancer,
    "tc": ProgramBalancer,
    "xdp": ProgramBalancer,
}


class ServiceBalancer(BalancingSwitch, KernelSwitch):
    """Load balancing of services by the kernel: kube-proxy's rules of nftables or iptables, eBPF.

    What is registered: it hands on to the class of the scenario's mode.
    """

    programs = tuple({p.name: p for mode in MODES.values() for p in mode.programs}.values())

    def __new__(cls, machine: Machine, plan: Plan) -> Any:
        """The mode that a plan requests."""
        return _mode_of(plan.scenario)(machine, plan)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What the mode lacks."""
        return _mode_of(scenario).missing(facts, scenario)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What the mode shows in `--plan`."""
        return _mode_of(plan.scenario).launch_lines(plan, facts)


def _mode_of(scenario: Scenario) -> type[RuleBalancer | ProgramBalancer]:
    """The class of a scenario's mode; an unknown mode is refused by its capabilities."""
    return MODES.get(scenario.options.mode, next(iter(MODES.values())))
