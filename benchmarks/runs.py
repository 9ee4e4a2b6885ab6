"""Figures of whole runs: overhead, set-up, collection.

Run as root: `python -m benchmarks.runs [--repeats N]`. It takes some minutes; everything is
measured by running pytest as a user does, and read from the logs it leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def measure(results: Path, *options: str) -> list[dict[str, Any]]:
    """Run pytest and read its log.

    Args:
        results: Folder for the run.
        options: Options.

    Returns:
        The log's records.
    """
    argv = [sys.executable, "-m", "pytest", "testcases", "-q", f"--results-dir={results}"]
    # Without the operator's own settings: figures must not depend on them.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
    done = subprocess.run(
        [*argv, "-p", "no:cacheprovider", *options],
        cwd=HERE.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return [json.loads(line) for line in (results / "latest/trials.jsonl").open()]


def overhead(scratch: Path) -> None:
    """Share of a quick run that is neither traffic nor a wait that the preset asks for.

    Args:
        scratch: Folder for the run.
    """
    began = time.monotonic()
    records = measure(scratch / "quick", "-k", "pvp_dpdk")
    wall = time.monotonic() - began
    spent = next(r["overhead"] for r in reversed(records) if r["type"] == "end")
    rest = wall - spent["trial"] - spent["wait"]
    print(
        f"quick run of pvp_dpdk: {wall:.0f} s, of it traffic {spent['trial']:.0f} s, waits "
        f"{spent['wait']:.0f} s; the rest is {rest / wall:.1%} "
        f"(around trials {spent['around trials']:.1f} s, deploy {spent['deploy']:.1f} s, calibrate "
        f"{spent.get('calibrate', 0.0):.1f} s, teardown {spent['teardown']:.1f} s)"
    )


def deploy(scratch: Path, repeats: int) -> None:
    """Deployment and teardown of PVP.

    Args:
        scratch: Folder for runs.
        repeats: Runs.
    """
    times = []
    for number in range(repeats):
        folder = scratch / f"deploy-{number}"
        records = measure(folder, "-k", "pvp_dpdk", "--preset=smoke", "--frame-sizes=64")
        spent = next(r["overhead"] for r in reversed(records) if r["type"] == "end")
        times.append(spent["deploy"] + spent["teardown"])
    print(
        f"deploy + teardown of PVP: median {statistics.median(times):.2f} s, max {max(times):.2f} s"
    )


def collect(repeats: int) -> None:
    """`pytest --collect-only testcases/`.

    Args:
        repeats: Runs.
    """
    times = []
    for _ in range(repeats):
        began = time.monotonic()
        argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "testcases/"]
        subprocess.run(argv, cwd=HERE.parent, check=True, capture_output=True)
        times.append(time.monotonic() - began)
    print(f"pytest --collect-only testcases/: median {statistics.median(times):.2f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("only", nargs="*", choices=["overhead", "deploy", "collect", []])
    arguments = parser.parse_args()
    wanted = set(arguments.only) or {"overhead", "deploy", "collect"}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if "collect" in wanted:
            collect(5)
        if "deploy" in wanted:
            deploy(scratch, arguments.repeats)
        if "overhead" in wanted:
            overhead(scratch)


if __name__ == "__main__":
    main()
