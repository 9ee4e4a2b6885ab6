"""The contract kit of collectors.

A plugin's tests name the backend once: `class TestMine(CollectorContract): collector = "mine"`.
Nothing is deployed: the busy thread is one of a process that the kit starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.linux import read_file
from vnetperf.host.wait import wait_for
from vnetperf.model.machine_load import EnergyUse, ThreadEvents, ThreadLoad
from vnetperf.model.scenario import Pollers
from vnetperf.plugin import registry
from vnetperf.plugin.collector import Collector

#: What a busy process does, and what it is called.
_BUSY = "while True: pass"
ROLE = "pmd"


@contextmanager
def busy_process() -> Iterator[Pollers]:
    """A process with one thread that never sleeps.

    Yields:
        How it is found.
    """
    with subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) as process:
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            wait_for(lambda: read_file(comm).startswith("python"), 10.0, "the busy process")
            yield Pollers(role=ROLE, pid=process.pid, thread_prefix=read_file(comm).strip())
        finally:
            process.kill()


class CollectorContract:
    """What any collector must do in a trial, whatever it measures.

    Attributes:
        collector: Registered name of the collector.
    """

    collector: ClassVar[str] = ""

    @property
    def backend(self) -> type[Collector[Any]]:
        """The class under test."""
        collector: type[Collector[Any]] = registry.load("collectors", self.collector)
        return collector

    def test_has_its_registered_name(self) -> None:
        """A collector of that name, which is made of pollers alone."""
        assert issubclass(self.backend, Collector)
        assert self.backend.name == self.collector, "its name is the one it is registered by"

    def test_measures_a_busy_thread_or_gives_a_reason(self) -> None:
        """Values of the known kinds, finite and not negative, of threads that were asked for."""
        with busy_process() as pollers:
            collector = self.backend((pollers,))
            collector.start()
            readings = collector.stop()
        assert readings or collector.reason.startswith("not measured: "), (
            "without a value `reason` says the reason"
        )
        for use in readings:
            assert isinstance(use, ThreadLoad | ThreadEvents | EnergyUse)
            assert all(isfinite(number) and number >= 0 for number in _numbers(use)), use
            if not isinstance(use, EnergyUse):
                assert use.role in (ROLE, "kernel"), "a thread that was not asked for"

    def test_a_thread_that_ends_meanwhile_costs_no_other(self) -> None:
        """The trial goes on: what is left is measured, and nothing is raised."""
        with busy_process() as survivor:
            with busy_process() as gone:
                collector = self.backend((gone, survivor))
                collector.start()
            collector.stop()

    def test_without_busy_threads_it_is_quiet(self) -> None:
        """A kernel's datapath has none."""
        collector = self.backend(())
        collector.start()
        for use in collector.stop():
            assert isinstance(use, ThreadLoad | ThreadEvents | EnergyUse)

    def test_collectors_in_turn_share_nothing(self) -> None:
        """One is made for each trial: nothing of the first is left in the second."""
        with busy_process() as pollers:
            first, second = self.backend((pollers,)), self.backend((pollers,))
            for collector in (first, second):
                collector.start()
                collector.stop()
        assert first.reason == second.reason

    def test_leaves_no_file_open_and_no_process(self) -> None:
        """Some hundred trials follow each other."""
        with busy_process() as pollers:
            self._once(pollers)  # what is kept for all trials is made now
            before = _files(), _children()
            for _ in range(3):
                self._once(pollers)
            assert (_files(), _children()) == before

    def _once(self, pollers: Pollers) -> None:
        collector = self.backend((pollers,))
        collector.start()
        collector.stop()


def _numbers(value: ThreadLoad | ThreadEvents | EnergyUse) -> Iterator[float]:
    for figure in dict(value).values():
        counts = figure.values() if isinstance(figure, dict) else (figure,)
        yield from (number for number in counts if isinstance(number, int | float))


def _files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def _children() -> list[str]:
    return sorted(read_file(Path(f"/proc/self/task/{os.getpid()}/children")).split())
