"""What the contracts of all plugin families have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan, Pollers, Scenario
from vnetperf.model.testbed import MachineFacts

LOG_LINES = 15


def check_process(process: ManagedProcess | None, program: str) -> None:
    """Raise when a process of the DUT has ended.

    Args:
        process: The process; None when it has not been started, or was stopped.
        program: What it is called in the message.

    Raises:
        DutError: With the log's tail.
    """
    if process is not None and not process.alive():
        raise DutError(
            f"{program} has ended (status {process.returncode}); log ends with:\n"
            + process.log_tail(LOG_LINES),
            where=program,
        )


class Backend(ABC):
    """A part of one deployment: a vSwitch, a VNF, a traffic generator.

    Args:
        machine: The machine it runs on; every lasting change goes through it.
        plan: The plan it belongs to.

    Attributes:
        name: What users call it.
        far_mib: Hugepages that a thread of it needs on its own node when that is not the node of
            its memory, MiB.
    """

    name: ClassVar[str]
    far_mib: ClassVar[int] = 0

    def __init__(self, machine: Machine, plan: Plan) -> None:
        self.machine = machine
        self.plan = plan

    @classmethod
    @abstractmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the backend from carrying the scenario on this machine.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" when nothing does; otherwise what is missing and the cure, in one sentence.
        """

    def pollers(self) -> tuple[Pollers, ...]:
        """Where its busy threads are, for placement and processor accounting.

        Returns:
            One entry per role; empty when it has none.
        """
        return ()

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Version, launch lines, effective configuration, for the result.

        Returns:
            JSON values.
        """
