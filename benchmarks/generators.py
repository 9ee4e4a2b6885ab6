"""What the generators that are here can do, each looped to itself over the same wire.

    python -m benchmarks.generators [--rounds 3] [--sizes 64,1518] [--seconds 0.5]
                                    [--generators loadgen,trex,pktgen] [--plot FILE] [--json FILE]

Same kind of wire, same processors, same frames (equal octets but for the stamp), one flow each way.
Generators take turns in every round, so that a slow moment of the machine hits all of them; figures
are medians over rounds, with their range. They are driven as in a run, through their contract:

* ceiling: frames/s that came back, both ports together, when far too many are asked for;
* clean: the greatest load of a bisection at which every frame due was sent and came back;
* pacing: relative difference of the rate frames left at to the load, at several loads;
* floor: latency at 1000 frames/s, shortest and middle (mean, where there is no histogram);
* processors: processor time of all its threads by wall time, idle and at the clean rate.

A generator that is not here is left out, with the reason. VNETPERF_TESTBED names a testbed file
with paths of programs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bars, drawn
from vnetperf.model.errors import VnetperfError
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.plugin import registry
from vnetperf.plugin.generator import TrafficGenerator
from vnetperf.testing.generator import looped, prepare

FLOOD_FPS, FLOOR_FPS = 40e6, 1000.0
#: Loads of each port at which pacing is looked at, and shares of the clean rate.
PACED = (1e3, 1e5, 1e6)
SHARE_OF_CLEAN = 0.8
STEPS, SHARES = 5, (1.0, 0.9, 0.8, 0.65, 0.5, 0.3, 0.1)
DRAIN_S, IDLE_S = 0.05, 1.0
TICKS = os.sysconf("SC_CLK_TCK")
#: Of the issue's figures: loadgen's ceiling at 64 octets over another's.
WANTED = {"trex": 2.0, "pktgen": 2.5}


@dataclass
class Figures:
    """What was seen of one generator at one frame size; one entry for each round."""

    ceiling_fps: list[float] = field(default_factory=list)
    clean_fps: list[float] = field(default_factory=list)
    pacing_error: dict[str, list[float]] = field(default_factory=dict)
    floor_min_ns: list[float] = field(default_factory=list)
    floor_middle_ns: list[float] = field(default_factory=list)
    idle_processors: list[float] = field(default_factory=list)
    busy_processors: list[float] = field(default_factory=list)


@dataclass
class Seen:
    """One generator.

    Attributes:
        version: What it says it is.
        cores: Processors of its sending threads.
        sizes: Octets including FCS -> figures.
        trouble: Why it is not here, or why a round failed.
    """

    version: str = ""
    cores: tuple[int, ...] = ()
    sizes: dict[int, Figures] = field(default_factory=dict)
    trouble: str = ""


class Bench:
    """Measures one generator that is connected to itself.

    Args:
        generator: The generator.
        frame_size: Octets including FCS.
        seconds: Length of a trial.
    """

    def __init__(self, generator: TrafficGenerator, frame_size: int, seconds: float) -> None:
        self.generator = generator
        self.frame_size = frame_size
        self.seconds = seconds
        prepare(generator, frame_size)
        generator.learn(64)
        self.trial(FLOOR_FPS)  # the first frames also wake the wire's two ends

    def trial(self, fps: float) -> TrialResult:
        """One trial at a load of each port."""
        spec = TrialSpec(
            frame_size=self.frame_size, load_fps=fps, duration_s=self.seconds, drain_s=DRAIN_S
        )
        return self.generator.run(spec, lambda: None)

    def measure(self, into: Figures) -> None:
        """All figures, once."""
        with self.processors(into.idle_processors):
            time.sleep(IDLE_S)
        flood = self.trial(FLOOD_FPS)
        into.ceiling_fps.append(sum(d.received / d.tx_seconds for d in flood.directions))
        clean = self.clean(min(d.sent / d.tx_seconds for d in flood.directions))
        into.clean_fps.append(2 * clean)
        for name, fps in (*((f"{p:.0f}", p) for p in PACED), ("80 %", SHARE_OF_CLEAN * clean)):
            if 0 < fps <= clean:
                worst = max(
                    abs(d.sent / d.tx_seconds / fps - 1) for d in self.trial(fps).directions
                )
                into.pacing_error.setdefault(name, []).append(worst)
        with self.processors(into.busy_processors):
            self.trial(clean)
        found = [d.latency for d in self.trial(FLOOR_FPS).directions if d.latency is not None]
        if found:
            into.floor_min_ns.append(min(one.min_ns for one in found))
            middle = max(one.percentiles.get("50", one.mean_ns) for one in found)
            into.floor_middle_ns.append(middle)

    def clean(self, highest: float) -> float:
        """Greatest load of each port at which every frame due was sent and came back."""
        good, bad = 0.0, highest
        for share in SHARES:
            if _clean(self.trial(highest * share)):
                good = highest * share
                break
            bad = highest * share
        for _ in range(STEPS if good < highest else 0):
            middle = (good + bad) / 2
            if _clean(self.trial(middle)):
                good = middle
            else:
                bad = middle
        return good

    @contextmanager
    def processors(self, into: list[float]) -> Iterator[None]:
        """Processor time of its processes by wall time."""
        pids = {poller.pid for poller in self.generator.pollers()}
        began, used = time.monotonic(), sum(map(_cpu_s, pids))
        yield
        into.append((sum(map(_cpu_s, pids)) - used) / (time.monotonic() - began))


def _clean(result: TrialResult) -> bool:
    return all(d.received == d.sent == d.intended > 0 for d in result.directions)


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def one_round(name: str, wire: str, sizes: Sequence[int], seconds: float, seen: Seen) -> None:
    """Measure a generator once at every frame size; what goes wrong is noted."""
    try:
        with looped(name, wire) as loop:
            seen.cores = loop.generator.plan.placement.cores.get("tester", ())
            for size in sizes:
                bench = Bench(loop.generator, size, seconds)
                bench.measure(seen.sizes.setdefault(size, Figures()))
                seen.version = str(loop.generator.facts()["version"])
    except (VnetperfError, pytest.skip.Exception) as error:
        seen.trouble = str(error).splitlines()[0]


def _said(values: Sequence[float], unit: Callable[[float], str]) -> str:
    if not values:
        return "-"
    middle = unit(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({unit(min(values))}..{unit(max(values))})"


def _millions(value: float) -> str:
    return f"{value / 1e6:.2f}"


def _microseconds(value: float) -> str:
    return f"{value / 1e3:.2f}"


def _share(value: float) -> str:
    return f"{value:.2%}"


def table_of(found: dict[str, Seen], size: int) -> Table:
    """All figures of one frame size."""
    table = Table(title=f"{size} octets, both ports together; medians (ranges)")
    table.add_column("")
    here = {name: seen.sizes[size] for name, seen in found.items() if size in seen.sizes}
    for name in here:
        table.add_column(name, justify="right")
    rows: list[tuple[str, Callable[[Figures], str]]] = [
        ("ceiling (M frames/s)", lambda f: _said(f.ceiling_fps, _millions)),
        ("clean (M frames/s)", lambda f: _said(f.clean_fps, _millions)),
        ("latency floor, shortest (us)", lambda f: _said(f.floor_min_ns, _microseconds)),
        ("latency floor, middle (us)", lambda f: _said(f.floor_middle_ns, _microseconds)),
        ("processors, idle", lambda f: _said(f.idle_processors, "{:.2f}".format)),
        ("processors, at the clean rate", lambda f: _said(f.busy_processors, "{:.2f}".format)),
    ]
    for load in dict.fromkeys(name for f in here.values() for name in f.pacing_error):
        said = f"pacing error at {load} of clean" if "%" in load else f"pacing error at {load}/s"
        rows.append((said, lambda f, load=load: _said(f.pacing_error.get(load, ()), _share)))
    for name, value in rows:
        table.add_row(name, *(value(figures) for figures in here.values()))
    return table


def comparison(found: dict[str, Seen]) -> Iterator[str]:
    """The issue's figures: loadgen's ceiling over the others', at 64 octets, in this run."""
    ceilings = {
        name: statistics.median(seen.sizes[64].ceiling_fps)
        for name, seen in found.items()
        if 64 in seen.sizes and seen.sizes[64].ceiling_fps
    }
    for name, wanted in WANTED.items():
        if name in ceilings and "loadgen" in ceilings:
            ratio = ceilings["loadgen"] / ceilings[name]
            yield f"loadgen's ceiling is {ratio:.2f} x that of {name} (wanted: {wanted:g} x)"


def plot_of(found: dict[str, Seen]) -> str:
    """A picture of ceilings, clean rates and latency floors, as an SVG file."""

    def median(values: Sequence[float], scale: float) -> float | None:
        return statistics.median(values) * scale if values else None

    here = {name: seen for name, seen in found.items() if seen.sizes}
    sizes = sorted({size for seen in here.values() for size in seen.sizes})
    panels = []
    for title, unit, of in (
        ("ceiling", "M frames/s", lambda f: median(f.ceiling_fps, 1e-6)),
        ("clean rate", "M frames/s", lambda f: median(f.clean_fps, 1e-6)),
        ("latency floor, shortest", "us", lambda f: median(f.floor_min_ns, 1e-3)),
    ):
        groups = {
            f"{size} octets": {n: of(s.sizes[size]) for n, s in here.items() if size in s.sizes}
            for size in sizes
        }
        panels.append(Bars(title, unit, groups))
    return drawn("Generators, each looped to itself", panels)


def main() -> int:
    """Measure and print.

    Returns:
        0 when at least one generator was measured.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="64,1518", help="octets including FCS, with commas")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each trial")
    parser.add_argument("--generators", default=",".join(registry.names("traffic")))
    parser.add_argument("--wire", default="memif")
    parser.add_argument("--plot", type=Path, help="SVG file")
    parser.add_argument("--json", type=Path, help="all figures")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    found = {name: Seen() for name in args.generators.split(",")}
    console = Console()
    console.print(f"load of this machine before: {os.getloadavg()[0]:.1f} processes")
    for number in range(args.rounds):
        for name, seen in found.items():
            if not seen.trouble:
                console.print(f"round {number + 1}: {name}")
                one_round(name, args.wire, sizes, args.seconds, seen)
    for size in sizes:
        console.print(table_of(found, size))
    for name, seen in found.items():
        cores = ", ".join(map(str, seen.cores))
        console.print(seen.trouble or f"{seen.version}, processor {cores}", style="dim", end="\n")
        if seen.trouble:
            console.print(f"  {name}: {'stopped' if seen.sizes else 'left out'}", style="dim")
    for line in comparison(found):
        console.print(line)
    if (os.cpu_count() or 1) < 3:
        console.print(
            "Fewer than three processors: threads that only spin, statistics and this script ran "
            "beside the generators, so the figures say less than on dedicated ones."
        )
    if args.json:
        args.json.write_text(json.dumps({n: asdict(s) for n, s in found.items()}, indent=1))
    if args.plot:
        args.plot.write_text(plot_of(found))
    return 0 if any(seen.sizes for seen in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
