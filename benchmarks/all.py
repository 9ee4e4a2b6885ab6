"""`make bench`: every figure of docs/performance.md, one script after the other."""

from __future__ import annotations

import subprocess
import sys

SCRIPTS = (
    ("benchmarks.engine",),
    ("benchmarks.search", "20"),
    ("benchmarks.coverage",),
    ("benchmarks.procedures",),
    ("benchmarks.rounds", "50"),
    ("benchmarks.stalls", "200"),
    ("benchmarks.turns", "pvp_dpdk", "--deployments", "3", "--brief"),
    ("benchmarks.runs",),
    ("benchmarks.backends",),
    ("benchmarks.generators",),
    ("benchmarks.xdp",),
    ("benchmarks.cgnat",),
)


def main() -> int:
    """Run the scripts.

    Returns:
        0 when every script ended well.
    """
    statuses = []
    for module, *arguments in SCRIPTS:
        print(f"== {module}", flush=True)
        argv = [sys.executable, "-m", module, *arguments]
        statuses.append(subprocess.run(argv, check=False).returncode)
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
