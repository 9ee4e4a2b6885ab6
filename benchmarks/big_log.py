"""Memory and time of a large trial log, from its lines to results and reports.

    python -m benchmarks.big_log [MIB ...]      logs of so many MiB; 5 and 20 if none are named

A recorded run again and again, with other frame sizes and numbers. Each step is a process of its
own: `json.loads` of all lines, which is what the times are held against, reading the log record by
record without keeping any, reading it whole, and `vnetperf report`. Printed are processor time, its
ratio to that of `json.loads`, and the most memory that the process had.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vnetperf import cli
from vnetperf.results.log import LOG_NAME, iter_log, read_log, seal, unseal

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


def read(log: Path) -> None:
    """Read a log whole."""
    read_log(log)


def report(log: Path) -> None:
    """Derive the results and write every report."""
    cli.main(["report", str(log.parent)])


STEPS = {"json.loads": load, "streamed": stream, "read": read, "report": report}


def measured(step: str, log: Path) -> tuple[float, float]:
    """Processor seconds of a step in a process of its own, and the most memory, MiB."""
    argv = [sys.executable, "-m", "benchmarks.big_log", "--step", step, str(log)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    seconds, mib = done.stdout.split()[-2:]
    return float(seconds), float(mib)


def main(arguments: list[str]) -> None:
    """Measure logs of the sizes that are named; of the process of a step, that step."""
    if arguments[:1] == ["--step"]:
        step, log = arguments[1:]
        began = time.process_time()
        STEPS[step](Path(log))
        took = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{took:.3f} {peak:.1f}")
        return
    print(f"{'log':>9} {'trials':>7} {'step':>11} {'seconds':>9} {'ratio':>7} {'peak MiB':>9}")
    for mib in map(float, arguments or USUAL_MIB):
        with tempfile.TemporaryDirectory() as place:
            trials = write(Path(place), mib)
            least = 0.0
            for step in STEPS:
                seconds, peak = measured(step, Path(place) / LOG_NAME)
                least = least or seconds
                print(
                    f"{mib:5g} MiB {trials:7} {step:>11} {seconds:9.2f} {seconds / least:7.1f} "
                    f"{peak:9.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
