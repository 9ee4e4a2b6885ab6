"""Runs the system's own tools that images are made with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from vnetperf.lab.programs import leashed, need
from vnetperf.model.errors import HostError

#: Tool -> package that brings it.
TOOLS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "depmod": "kmod",
    "mksquashfs": "squashfs-tools",
}
_UPDATE = "apt-get update, with a mirror of the distribution configured, then try again"


def run(
    argv: list[str],
    *,
    cwd: Path | None = None,
    timeout_s: float = 300,
    without: tuple[str, ...] = (),
) -> str:
    """Run a tool to its end; it dies with this process.

    Args:
        argv: Program, one of `TOOLS`, and arguments.
        cwd: Where it runs.
        timeout_s: Seconds it may take.
        without: Variables of this process that it does not get.

    Returns:
        What it printed.

    Raises:
        HostError: It is not installed, fails, or does not end.
    """
    command = [need(argv[0], TOOLS[argv[0]]), *argv[1:]]
    kept = {name: value for name, value in os.environ.items() if name not in without}
    told = " ".join(argv[:8]) + (" ..." if len(argv) > 8 else "")
    try:
        done = subprocess.run(
            leashed(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**kept, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(
            f"did not end within {timeout_s:g} s", where=told, cure="try again"
        ) from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise HostError(
            f"failed: {' / '.join(last) or f'status {done.returncode}'}",
            where=told,
            cure=_UPDATE if argv[0] == "apt-get" else "see what it says; is the disk full?",
        )
    return done.stdout
