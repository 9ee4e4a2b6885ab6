"""sysbench: processors and memory of the place that it runs in."""

from __future__ import annotations

import re
from typing import ClassVar

from vnetperf.model.testbed import Program
from vnetperf.model.transfer import Figures, Kind, TransferSpec
from vnetperf.plugin.endpoint_tool import (
    COUNT,
    NUMBER,
    EndpointTool,
    Sockets,
    ToolOutput,
    figure_or_none,
)

#: A block that is read or written from end to end is larger than most caches; in random places,
#: where each access takes its time, larger than what a TLB reaches with pages of 4 KiB.
_BLOCKS = {"seq": "64M", "rnd": "16M"}
_MEMORY: dict[Kind, tuple[str, str]] = {
    "GUEST_READ": ("read", "seq"),
    "GUEST_WRITE": ("write", "seq"),
    "GUEST_RANDOM_READ": ("read", "rnd"),
}
#: It ends by its time, not by what it has transferred.
_ENDLESS = "1024T"
_EVENTS = re.compile(rf"events per second:\s*{NUMBER}")
_MEBIBYTES = re.compile(rf"MiB transferred \({NUMBER} MiB/sec\)")
#: Units of work that its threads have finished, and in which time.
_DONE = re.compile(rf"total number of events:\s*{COUNT}")
_SECONDS = re.compile(rf"total time:\s*{NUMBER}s")
_OPERATIONS = re.compile(rf"Total operations: \d+ \(\s*{NUMBER} per second\)")
#: By how much its rate may differ from these, as a share, besides a unit of each thread.
_APART = 0.05
_THREADS = re.compile(rf"Number of threads: {COUNT}")


class Sysbench(EndpointTool):
    """sysbench 1.0 and later."""

    name: ClassVar[str] = "sysbench"
    programs: ClassVar[tuple[Program, ...]] = (
        Program(name="sysbench", package="sysbench", version_args=("--version",), by_make=True),
    )
    kinds: ClassVar[tuple[Kind, ...]] = ("GUEST_CPU", *_MEMORY)
    version_argv: ClassVar[tuple[str, ...]] = ("sysbench", "--version")
    alone: ClassVar[bool] = True

    def server(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def client(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """All threads compute, or use one block of memory."""
        argv = ["sysbench", f"--threads={spec.instances}", f"--time={spec.duration_s}"]
        if spec.kind == "GUEST_CPU":
            return (*argv, "cpu", "run")
        operation, order = _MEMORY[spec.kind]
        argv += ["memory", f"--memory-oper={operation}", f"--memory-access-mode={order}"]
        argv += [f"--memory-block-size={_BLOCKS[order]}", f"--memory-total-size={_ENDLESS}"]
        return (*argv, "run")

    def read(self, output: ToolOutput, spec: TransferSpec) -> Figures:
        """Events/s, or octets/s of memory, of all threads together."""
        text = output.client
        threads = self.figure(
            output, "number of threads", lambda: float(_match_figure(_THREADS, text))
        )
        if threads != spec.instances:
            raise self.unreadable(output, f"it ran {threads:g} threads, not {spec.instances}")
        if spec.kind == "GUEST_CPU":
            label, pattern, unit = "events per second", _EVENTS, 1
        else:
            label, pattern, unit = "MiB/sec", _MEBIBYTES, 1 << 20
        rate = self.figure(output, label, lambda: float(_match_figure(pattern, text))) * unit
        if not rate:
            raise self.unreadable(output, "not one unit of work was done in its time")
        if spec.kind == "GUEST_CPU":
            return Figures(events_per_second=rate, notes=_notes(_EVENTS, text, spec.instances))
        notes = _notes(_OPERATIONS, text, spec.instances)
        return Figures(octets_per_second=rate, notes=notes)


def _notes(pattern: re.Pattern[str], text: str, threads: int) -> tuple[str, ...]:
    """Where its rate is not that of the work that it counts in its time."""
    rate, done, seconds = (
        figure_or_none(match[1] if (match := expression.search(text)) else None)
        for expression in (pattern, _DONE, _SECONDS)
    )
    if rate is None or done is None or seconds is None:
        return ()
    if abs(rate * seconds - done) <= threads + _APART * done:
        return ()
    return (f"it reports {rate:g} events/s, but {done:.0f} events in {seconds:g} s",)


def _match_figure(pattern: re.Pattern[str], text: str) -> str:
    if match := pattern.search(text):
        return match[1]
    raise ValueError("it is not there")
