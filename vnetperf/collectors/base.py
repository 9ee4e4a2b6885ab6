"""The contract of a collector: what it samples around a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from vnetperf.model.plan import Pollers
from vnetperf.model.trial import ThreadLoad


class Collector(ABC):
    """Samples the threads of a deployment from `start` to `stop`.

    Args:
        pollers: Where the deployment's busy threads are.
    """

    name: ClassVar[str]

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        self.pollers = pollers

    @abstractmethod
    def start(self) -> None:
        """Take the first sample."""

    @abstractmethod
    def stop(self) -> tuple[ThreadLoad, ...]:
        """Take the second sample.

        Returns:
            Loads between the samples; a thread that ended meanwhile is left out.
        """
