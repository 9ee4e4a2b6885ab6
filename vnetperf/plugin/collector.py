"""The contract of collectors: what samples a deployment's threads, or its machine, over a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from vnetperf.host.proc import busy_threads
from vnetperf.model.machine_load import EnergyUse, ThreadEvents, ThreadLoad
from vnetperf.model.scenario import Pollers
from vnetperf.plugin.requirements import Requirements

__all__ = ["Collector", "SampleT", "busy_threads"]

#: What it measures of a thread, or of the machine.
SampleT = TypeVar("SampleT", ThreadLoad, ThreadEvents, EnergyUse)


class Collector(Requirements, ABC, Generic[SampleT]):
    """Samples a deployment's threads, or its machine, from `start` to `stop`; made for each trial.

    Args:
        pollers: Where the deployment's busy threads are.

    Attributes:
        name: Its name in the registry, and in results.
        stops_last: Its second sample takes a while, so that it is the last to be stopped.
        reason: "not measured: " and the reason when it has no measurement; "".
    """

    name: ClassVar[str]
    stops_last: ClassVar[bool] = False

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        self.pollers = pollers
        self.reason = ""

    @abstractmethod
    def start(self) -> None:
        """Take the first sample."""

    @abstractmethod
    def stop(self) -> tuple[SampleT, ...]:
        """Take the second sample.

        Returns:
            What was between the samples, by thread; a thread that ended meanwhile may be left out.
            Events may have names of a plugin's own.
        """
