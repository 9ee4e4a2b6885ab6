"""The lb backend: each of its modes is a class of its own."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.scenario import Scenario
from vnetperf.plugin.modal_switch import ModalSwitch
from vnetperf.vswitches.lb.base import BalancingSwitch
from vnetperf.vswitches.lb.ipvs import IpvsBalancer
from vnetperf.vswitches.lb.programs import ProgramBalancer
from vnetperf.vswitches.lb.rules import RuleBalancer


class ServiceBalancer(ModalSwitch, BalancingSwitch):
    """Load balancing of services by the kernel: kube-proxy's rules, IPVS, eBPF.

    Clients and backends are where `BalancingSwitch` has them.
    """

    modes: ClassVar[dict[str, type[RuleBalancer | ProgramBalancer]]] = {
        "nft": RuleBalancer,
        "iptables": RuleBalancer,
        "ipvs": IpvsBalancer,
        "tc": ProgramBalancer,
        "xdp": ProgramBalancer,
    }

    @classmethod
    def session_timeout_s(cls, scenario: Scenario) -> float | None:
        """How long the mode holds a session."""
        return cls.modes.get(scenario.options.mode, RuleBalancer).session_timeout_s(scenario)
