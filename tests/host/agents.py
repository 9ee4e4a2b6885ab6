"""Agents to be killed: reads one request a line, forks an agent that changes the machine.

Forking from a process that has everything imported makes dozens of kills affordable.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyroute2  # noqa: F401 - imported here once for all forks

from vnetperf.host import files, hugepages, kernel, links
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun
from vnetperf.model.errors import HostError

GIB_KB = 1048576


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock of this file."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def misbehave(request: dict[str, Any]) -> None:
    """Change everything that can be changed, in random order, until killed."""
    chance = random.Random(request["seed"])
    base = Path(request["base"])
    machine = base / "machine"
    run_id = request["run_id"]
    roots = HostRoots(base / "state", base / "run")
    host = HostRun.open(roots=roots, run_id=run_id, testbed="bed")
    spaces: list[Path] = []
    changes: list[Any] = []

    def change(number: int) -> Any:  # noqa: PLR0911 - one for each kind
        kind = chance.randrange(8)
        if kind == 0:
            return host.processes.spawn("sleeper", ["sleep", "71"])
        if kind == 1:
            host.processes.spawn("family", ["sh", "-c", "setsid sleep 72 & sleep 73"])
            return None
        if kind == 2:
            return files.create_tree(host.journal, machine / f"new{number}")
        if kind == 3:
            return files.ensure_directory(host.journal, machine / "shared")
        if kind == 4:
            return links.create_veth(
                host.journal,
                (f"{run_id[:9]}{number}a", f"{run_id[:9]}{number}b"),
                netns=(None, chance.choice([None, *spaces])),
            )
        if kind == 5:
            path = host.rundir.subdir("netns") / f"{number}"
            made = links.create_netns(host.journal, path)
            spaces.append(path)
            return made
        if kind == 6:
            value = machine / chance.choice(["value-a", "value-b"])
            return kernel.write_value(host.journal, value, str(chance.randrange(100)))
        if request["hugepages"]:
            free = hugepages.pool(0, GIB_KB).free
            with contextlib.suppress(HostError):  # the machine has no more memory in one piece
                return hugepages.reserve(host.journal, 0, GIB_KB, free + 1)
        return None

    for number in range(request["changes"]):
        changes.append(change(number))
    time.sleep(0.02)
    if request["close"]:
        host.close()
    time.sleep(60)


def main() -> None:
    """Serve requests: ``{...}`` forks an agent and prints its pid, ``reap`` waits for it."""
    pid = 0
    for line in sys.stdin:
        if line.strip() == "reap":
            os.waitpid(pid, 0)
            print("reaped", flush=True)  # noqa: T201 - an answer
            continue
        pid = os.fork()
        if pid == 0:
            try:
                misbehave(json.loads(line))
            finally:
                os._exit(1)
        print(pid, flush=True)  # noqa: T201 - an answer


if __name__ == "__main__":
    main()
