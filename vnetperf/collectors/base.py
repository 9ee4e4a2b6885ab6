"""The contract of a collector: what it samples around a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from vnetperf.host.threads import Thread, list_threads
from vnetperf.model.plan import Pollers
from vnetperf.model.trial import ThreadEvents, ThreadLoad

#: What it tells of a thread.
Told = TypeVar("Told", ThreadLoad, ThreadEvents)


class Collector(ABC, Generic[Told]):
    """Samples the threads of a deployment from `start` to `stop`. One is made for each trial.

    Args:
        pollers: Where the deployment's busy threads are.

    Attributes:
        name: Its name in the registry, and in results.
        why: "not measured: " and the reason when it has nothing to tell; "".
    """

    name: ClassVar[str]

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        self.pollers = pollers
        self.why = ""

    @abstractmethod
    def start(self) -> None:
        """Take the first sample."""

    @abstractmethod
    def stop(self) -> tuple[Told, ...]:
        """Take the second sample.

        Returns:
            What was between the samples, by thread; a thread that ended meanwhile may be left out.
        """


def busy_threads(pollers: tuple[Pollers, ...]) -> Iterator[tuple[Pollers, Thread]]:
    """Find the busy threads of a deployment.

    Args:
        pollers: Where they are.

    Yields:
        Each with whose it is.
    """
    for poller in pollers:
        for thread in list_threads(poller.pid):
            if thread.name.startswith(poller.thread_prefix):
                yield poller, thread
