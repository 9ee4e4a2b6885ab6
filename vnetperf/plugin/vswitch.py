"""The contract of a vSwitch backend: a DUT that forwards between ports that others plug in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vnetperf.host.machine import Machine
from vnetperf.model.deployment import Attachment, VnfPort
from vnetperf.model.scenario import NicUse, Placement, Plan, RoleDemand, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.plugin.backend import optional
from vnetperf.plugin.dut import Dut, DutCapabilities


class VSwitchCapabilities(DutCapabilities):
    """What a vSwitch can do beyond what each DUT states.

    Attributes:
        wire_frame_sizes: Largest frame by kind of wire, where that is less.
        mode_frame_sizes: Largest frame by mode, where that is less.
        mode_wires: Mode -> wires it takes, where not all do.
        rewriting_modes: Those of its modes in which it writes other MAC addresses into frames.
    """

    wire_frame_sizes: dict[str, int] = Field(default_factory=dict)
    mode_frame_sizes: dict[str, int] = Field(default_factory=dict)
    mode_wires: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    rewriting_modes: tuple[str, ...] = ()


class VSwitch(Dut):
    """A vSwitch of one deployment.

    Attributes:
        capabilities: What it can do.
        deployments: Those that it can be in; empty for all that its capabilities allow.
    """

    deployments: ClassVar[tuple[str, ...]] = ()
    capabilities: ClassVar[VSwitchCapabilities]

    @classmethod
    def largest_frame(cls, scenario: Scenario) -> int:
        """The largest frame that it carries over its wire and in its mode, octets with FCS."""
        can = cls.capabilities
        return min(
            can.wire_frame_sizes.get(scenario.wire, can.max_frame_size),
            can.mode_frame_sizes.get(scenario.options.mode, can.max_frame_size),
        )

    def socket_attachment(
        self, port: VnfPort, kind: str, queues: int, directory: Path
    ) -> Attachment:
        """A socket: of vhost-user one that the VNF listens at, else the switch's in `directory`."""
        listens = kind == "vhost-user"
        socket = self.machine.vnf_socket(str(port)) if listens else str(directory / f"{port}.sock")
        return Attachment(port=port, kind=kind, socket=socket, vnf_is_server=listens, queues=queues)


class HasSessions(ABC):
    """What a vSwitch with connection tracking has besides: a table of sessions."""

    @classmethod
    def session_timeout_s(cls, scenario: Scenario) -> float | None:
        """How long a session is held of which no frame comes after its first.

        Args:
            scenario: The scenario.

        Returns:
            Seconds; None where time ends none.
        """
        return None

    @abstractmethod
    def sessions(self) -> int:
        """Count the sessions that its table holds now.

        Returns:
            Their number.
        """

    @abstractmethod
    def end_sessions(self) -> None:
        """Forget all sessions, as if it had just started.

        Raises:
            DutError: When some are left.
        """


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


def rxq_affinity_problem(scenario: Scenario) -> str:
    """Why the pins of a scenario cannot be applied.

    Args:
        scenario: The scenario.

    Returns:
        "" when they can; otherwise the reason and the cure.
    """
    names = [str(port) for port in scenario.deployment.ports]
    strangers = [pin.port for pin in scenario.options.rxq_affinity if pin.port not in names]
    if not strangers:
        return ""
    return (
        f"rxq_affinity names port {strangers[0]}, which {scenario.deployment.name} has not; "
        f"name one of {', '.join(names)}"
    )
