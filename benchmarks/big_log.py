"""Memory and time of a large trial log, from its lines to results and reports.

    python -m benchmarks.big_log [MIB ...]      logs of so many MiB; 5 and 20 if none are named

A recorded run again and again, with other frame sizes and numbers. Each of three steps is a process
of its own: `json.loads` of all lines, which is what the times are held against, reading the log
record by record without keeping any, and what `vnetperf report` does, of which each part is named:
the log read, results derived from it, printed, and each file written. Printed are processor time,
its ratio to that of `json.loads`, and the most memory that the process had until then.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import read_run
from vnetperf.log.trial_log import LOG_NAME, iter_log, seal, unseal
from vnetperf.report import READ, REPORTS, write_atomically
from vnetperf.report.summary import shown_part
from vnetperf.report.terminal import print_results

RECORDED = Path(__file__).parents[1] / "tests/recorded/pvp_dpdk_quick.tar.xz"
#: Records that a log has once.
ONCE = ("run", "environment", "calibration", "scenario", "end")
#: Copies differ by their frame sizes, of which there are no more.
SIZES = range(64, 1464)
USUAL_MIB = (5.0, 20.0)


def recorded() -> list[dict[str, Any]]:
    """The records of a run that was recorded."""
    with tarfile.open(RECORDED) as archive:
        (member,) = (one for one in archive.getmembers() if one.name.endswith(LOG_NAME))
        file = archive.extractfile(member)
        lines = file.read().splitlines() if file is not None else []
    return [json.loads(unseal(line)[0]) for line in lines]


def copies(body: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records of cases again and again, with the numbers that a log would give them."""
    searches = max(one.get("search", 0) for one in body)
    trials = max(one["number"] for one in body if one["type"] == "trial")
    copy = 0
    while True:
        size = SIZES[copy % len(SIZES)]
        for one in body:
            made = dict(one)
            if "search" in made:
                made["search"] += copy * searches
            if made["type"] == "trial":
                made |= {"number": made["number"] + copy * trials}
                made["spec"] = {**made["spec"], "frame_size": size}
            elif "frame_size" in made:
                made["frame_size"] = size
            yield made
        copy += 1


def write(folder: Path, mib: float) -> int:
    """Write a log of a size, whole copies only; how many trials it has."""
    every = recorded()
    body = [one for one in every if one["type"] not in ONCE]
    written, trials, before = 0, 0, ""
    with (folder / LOG_NAME).open("wb") as file:

        def put(record: dict[str, Any]) -> None:
            nonlocal written, before
            text = json.dumps(record, separators=(",", ":")).encode()
            line, before = seal(text, before)
            written += file.write(line + b"\n")

        for one in every:
            if one["type"] in ONCE[:-1]:
                put(one)
        source = copies(body)
        while written < mib * 2**20:
            for _ in body:
                record = next(source)
                trials += record["type"] == "trial"
                put(record)
        for one in every:
            if one["type"] == ONCE[-1]:
                put(one)
    return trials


def load(log: Path) -> None:
    """What every time is held against."""
    with log.open("rb") as file:
        for line in file:
            json.loads(unseal(line.rstrip(b"\n"))[0])


def stream(log: Path) -> None:
    """Read a log without keeping a record."""
    for _ in iter_log(log):
        pass


def report(log: Path) -> Iterator[str]:
    """What `vnetperf report` does, step by step: the name of each once it is done."""
    records = read_run(log.parent)
    yield "read"
    results = derive(records)
    del records
    yield "derived"
    shown = shown_part(results)
    with Path(os.devnull).open("w") as nowhere:
        print_results(shown, Console(file=nowhere, width=80))
    yield "printed"
    for name, parts in REPORTS.items():
        write_atomically(log.with_name(name), parts(shown if name in READ else results))
        yield name


#: What is a process of its own.
STEPS: dict[str, Callable[[Path], Iterable[str] | None]] = {
    "json.loads": load,
    "streamed": stream,
    "report": report,
}


def run_step(name: str, log: Path) -> None:
    """Print of a step and its parts: processor seconds, and the most memory so far, MiB."""
    began = time.process_time()

    def put(part: str, since: float) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{part} {time.process_time() - since:.3f} {peak:.1f}")

    before = began
    for part in STEPS[name](log) or ():
        put(part, before)
        before = time.process_time()
    put(name, began)


def measured(step: str, log: Path) -> Iterator[tuple[str, float, float]]:
    """Name, processor seconds, and memory of the parts of a step in a process, itself the last."""
    argv = [sys.executable, "-m", "benchmarks.big_log", "--step", step, str(log)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        name, seconds, mib = line.split()
        yield name, float(seconds), float(mib)


def main(arguments: list[str]) -> None:
    """Measure logs of the sizes that are named; of the process of a step, that step."""
    if arguments[:1] == ["--step"]:
        step, log = arguments[1:]
        run_step(step, Path(log))
        return
    print(f"{'log':>9} {'trials':>7} {'step':>13} {'seconds':>9} {'ratio':>7} {'peak MiB':>9}")
    for mib in map(float, arguments or USUAL_MIB):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            trials = write(Path(place), mib)
            least = 0.0
            for step in STEPS:
                for name, seconds, peak in measured(step, Path(place) / LOG_NAME):
                    least = least or seconds
                    print(
                        f"{mib:5g} MiB {trials:7} {name:>13} {seconds:9.2f} "
                        f"{seconds / least:7.1f} {peak:9.0f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main(sys.argv[1:])
