"""`make test`: the whole suite in the order that suits a small machine.

Tests that need no real software go first and in parallel, the slow ones and those in a browser too;
those that drive real software own the machine's cores and hugepages and go one after the other. The
exit status is pytest's own.
"""

from __future__ import annotations

import os
import subprocess
import sys

SERIAL = "real"


def main() -> int:
    """Run both halves; the first failure's status is the result, but both are run.

    Returns:
        pytest's exit status.
    """
    pytest = [sys.executable, "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider"]
    workers = str(min(4, os.cpu_count() or 1))
    halves = [
        [*pytest, "-n", workers, "-m", f"not {SERIAL}"],
        [*pytest, "-m", SERIAL, "--durations=10"],
    ]
    statuses = [subprocess.run(argv, check=False).returncode for argv in halves]
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main())
