"""All collectors around one trial. One that fails costs what it would have told, not the trial."""

from __future__ import annotations

import time
from typing import Any

from vnetperf import registry
from vnetperf.collectors.base import Collector
from vnetperf.model.errors import VnetperfError
from vnetperf.model.plan import Pollers
from vnetperf.model.trial import ThreadEvents, ThreadLoad


class Collecting:
    """Every registered collector, for one trial.

    Args:
        pollers: Where the deployment's busy threads are.
    """

    def __init__(self, pollers: tuple[Pollers, ...]) -> None:
        self._collectors: list[Collector[Any]] = [
            registry.load("collectors", name)(pollers) for name in registry.names("collectors")
        ]
        self._failed: dict[str, str] = {}
        self._began = 0.0

    def start(self) -> None:
        """Take the first samples."""
        for collector in self._collectors:
            try:
                collector.start()
            except (VnetperfError, OSError) as error:
                self._fail(collector, error)
        self._began = time.monotonic()

    def stop(self) -> dict[str, Any]:
        """Take the second samples.

        Returns:
            Fields of a `TrialResult`: threads, events, uncollected, collected_s.
        """
        collected_s = time.monotonic() - self._began
        loads: list[ThreadLoad] = []
        events: list[ThreadEvents] = []
        for collector in self._collectors:
            try:
                for told in collector.stop():
                    if isinstance(told, ThreadLoad):
                        loads.append(told)
                    else:
                        events.append(told)
            except (VnetperfError, OSError) as error:
                self._fail(collector, error)
        said = {c.name: c.why for c in self._collectors if c.why}
        return {
            "threads": tuple(loads),
            "events": tuple(events),
            "uncollected": said | self._failed,
            "collected_s": collected_s,
        }

    def _fail(self, collector: Collector[Any], error: Exception) -> None:
        self._failed.setdefault(collector.name, f"not measured: {error}")
