"""The contract of a vSwitch backend: a DUT that forwards between ports that others plug in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from vnetperf.model.deployment import Attachment, VnfPort
from vnetperf.model.scenario import Scenario
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

    Its methods are those of `Dut` (`vnetperf/plugin/dut.py`). `facts` of `Backend` has to be
    written too, and `missing` if this machine may lack more than the declared programs.

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
