"""The cgnat backend: each of its modes is a class of its own."""

from __future__ import annotations

from typing import Any

from vnetperf.host.machine import Machine
from vnetperf.model.scenario import NicUse, Placement, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.vswitches.base import VSwitch
from vnetperf.vswitches.cgnat.base import NatSwitch
from vnetperf.vswitches.cgnat.dpdk import ENGINE, DpdkNat, DpdkNatOptions
from vnetperf.vswitches.cgnat.kernel import KernelNat, KernelNatOptions
from vnetperf.vswitches.cgnat.xdp import XdpNat
from vnetperf.vswitches.kernelports import KernelSwitch

#: Mode -> its class; the first is the default. A new one is a line here, its name in `modes` of
#: the capabilities, and its wires and options there.
MODES: dict[str, type[VSwitch]] = {
    "nft": KernelNat,
    "iptables": KernelNat,
    "xdp": XdpNat,
    "rtc": DpdkNat,
    "pipeline": DpdkNat,
}


class CgnatOptions(DpdkNatOptions, KernelNatOptions):
    """Options of all modes."""


class Cgnat(NatSwitch):
    """Carrier-grade NAT: the kernel's by nftables or iptables, or our own in XDP or on DPDK.

    What is registered: it hands everything on to the class of the scenario's mode.
    """

    Options = CgnatOptions
    programs = tuple({p.name: p for mode in MODES.values() for p in mode.programs}.values())

    def __new__(cls, machine: Machine, plan: Plan) -> Any:
        """The mode that a plan requests."""
        return mode_of(plan.scenario)(machine, plan)

    @classmethod
    def look(cls, testbed: Testbed) -> str:
        """Why the modes on DPDK cannot be built on a machine; "" when they can."""
        del testbed
        return ENGINE.problem()

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What the mode lacks."""
        mode = mode_of(scenario)
        for name in scenario.options.given():
            if name in cls.Options.model_fields and name not in mode.Options.model_fields:
                return f"the mode has no option {name}; leave it out, or choose another mode"
        if scenario.options.napi and not issubclass(mode, KernelSwitch):
            return "napi is of modes nft, iptables and xdp: on DPDK the NAT's own threads receive"
        return mode.missing(facts, scenario)

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What the NICs lack for the mode."""
        return mode_of(scenario).nics_missing(nics, facts, scenario)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Threads of the mode."""
        return mode_of(scenario).roles(scenario)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Hugepages of the mode."""
        return mode_of(scenario).hugepage_mib(scenario)

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """Queues that the mode sends on."""
        return mode_of(scenario).tx_queues(scenario, placement)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What the mode shows in `--plan`."""
        return mode_of(plan.scenario).launch_lines(plan, facts)


def mode_of(scenario: Scenario) -> type[VSwitch]:
    """The class of a scenario's mode; an unknown mode is refused by its capabilities."""
    return MODES.get(scenario.options.mode, next(iter(MODES.values())))
