"""Whether the kernel gives this process a real-time priority, asked of the kernel itself.

An engine under test must not be the one to say so: one that never asks would pass for a refusal.
"""

from __future__ import annotations

import subprocess
import sys

_ASK = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"


def real_time_allowed() -> bool:
    """Whether a process started here gets SCHED_FIFO, as its engines would."""
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, check=False)
    return asked.returncode == 0
