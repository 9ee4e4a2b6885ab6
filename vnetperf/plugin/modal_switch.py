"""A vSwitch each of whose modes is a class of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.scenario import NicUse, Placement, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.backend import optional
from vnetperf.plugin.vswitch import VSwitch


class ModalSwitch(VSwitch):
    """A vSwitch each of whose modes is a class of its own: what is registered hands on to it.

    Attributes:
        modes: Mode -> its class; the first is the default. A new one is a line there, and its name
            in `modes` of the capabilities. Programs and modules of each mode are optional ones of
            the whole, beside those that the class itself declares.
    """

    modes: ClassVar[Mapping[str, type[VSwitch]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        classes = getattr(cls, "modes", {}).values()  # a base of others has none yet
        programs = {
            requirement.name: requirement
            for mode in classes
            for requirement in optional(*mode.programs)
        }
        modules = {
            requirement.name: requirement
            for mode in classes
            for requirement in optional(*mode.kernel_modules)
        }
        programs |= {
            requirement.name: requirement for requirement in cls.__dict__.get("programs", ())
        }
        modules |= {
            requirement.name: requirement for requirement in cls.__dict__.get("kernel_modules", ())
        }
        cls.programs, cls.kernel_modules = tuple(programs.values()), tuple(modules.values())

    def __new__(cls, machine: Machine, plan: Plan) -> Any:
        """The mode that a plan requests."""
        return cls.mode_class(plan.scenario)(machine, plan)

    @classmethod
    def mode_class(cls, scenario: Scenario) -> type[VSwitch]:
        """The class of a scenario's mode; an unknown mode is refused by its capabilities."""
        return cls.modes.get(scenario.options.mode, next(iter(cls.modes.values())))

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario as the mode has it."""
        return cls.mode_class(scenario).adapted(scenario, testbed)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What the mode lacks, or an option of another one."""
        mode = cls.mode_class(scenario)
        for name in scenario.options.given():
            if name in cls.Options.model_fields and name not in mode.Options.model_fields:
                return f"the mode has no option {name}; leave it out, or choose another mode"
        return mode.missing(facts, scenario)

    @classmethod
    def sends_native_xdp(cls, scenario: Scenario) -> bool:
        """Whether the mode is one of native XDP."""
        return cls.mode_class(scenario).sends_native_xdp(scenario)

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What the NICs lack for the mode."""
        return cls.mode_class(scenario).nics_missing(nics, facts, scenario)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """Threads of the mode."""
        return cls.mode_class(scenario).roles(scenario)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Hugepages of the mode."""
        return cls.mode_class(scenario).hugepage_mib(scenario)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """Hugepages of the mode that are on certain nodes."""
        return cls.mode_class(scenario).fixed_mib(scenario, kinds)

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """Queues that the mode sends on."""
        return cls.mode_class(scenario).tx_queues(scenario, placement)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """What the mode shows in `--plan`."""
        return cls.mode_class(plan.scenario).launch_lines(plan, facts)
