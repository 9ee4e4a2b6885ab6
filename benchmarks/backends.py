"""Figures of every vSwitch this machine can carry: set-up, and what it forwards.

Run as root: `python -m benchmarks.backends [--repeats N] [--deployment phy2phy] [VSWITCH ...]`.
Each round measures all vSwitches in turn, so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.runs import measure
from vnetperf.plugin import registry


class Seen:
    """What was seen of one vSwitch.

    Args:
        name: Its registered name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.wire = ""
        self.setup_s: list[float] = []
        self.rates: list[float] = []
        self.shares: list[float] = []
        self.skipped = ""

    def add(self, folder: Path, records: list[dict[str, Any]]) -> None:
        """Read one run.

        Args:
            folder: Folder of the run.
            records: Its log.
        """
        spent = next((r["overhead"] for r in reversed(records) if r["type"] == "end"), {})
        self.setup_s.append(spent.get("deploy", 0.0) + spent.get("teardown", 0.0))
        result = json.loads((folder / "latest/results.json").read_text())["results"][0]
        goal = result["goals"][0]
        rate = goal["lower_bound_fps"] or 0.0
        self.rates.append(rate)
        self.shares.append(rate / result["generator_max_fps"])
        self.wire = next(r["facts"]["plan"]["wire"] for r in records if r["type"] == "scenario")

    def row(self) -> str:
        """A row of the table."""
        if self.skipped:
            return f"{self.name:<10} {self.skipped}"
        return (
            f"{self.name:<10} {self.wire:<6} {statistics.median(self.setup_s):>6.2f} "
            f"{max(self.setup_s):>6.2f} {statistics.median(self.rates) / 1e3:>9.0f} "
            f"{min(self.rates) / 1e3:>6.0f}..{max(self.rates) / 1e3:<6.0f} "
            f"{statistics.median(self.shares):>6.0%}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--deployment", default="phy2phy")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--frame-size", type=int, default=64)
    parser.add_argument("--wire", default="auto")
    parser.add_argument("vswitches", nargs="*")
    arguments = parser.parse_args()
    seen = [Seen(name) for name in arguments.vswitches or registry.names("vswitches")]
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.repeats):
            for vswitch in (s for s in seen if not s.skipped):
                folder = Path(scratch) / f"{vswitch.name}-{number}"
                records = measure(
                    folder,
                    *("-k", f"{arguments.deployment}_{vswitch.name}", f"--wire={arguments.wire}"),
                    *(f"--preset={arguments.preset}", "--tests=throughput"),
                    f"--frame-sizes={arguments.frame_size}",
                )
                if any(r["type"] == "scenario" for r in records):
                    vswitch.add(folder, records)
                else:
                    vswitch.skipped = "this machine cannot carry it: see `vnetperf doctor`"
    size = f"{arguments.deployment}, {arguments.frame_size} octets"
    print(f"{size}, preset {arguments.preset}, {arguments.repeats} rounds")
    print("vSwitch    wire   deploy+teardown  lower bound, both ways  of the")
    print("                  median    max s  k frames/s  range       generator's limit")
    for vswitch in seen:
        print(vswitch.row())


if __name__ == "__main__":
    main()
