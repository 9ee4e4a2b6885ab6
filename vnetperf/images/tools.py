"""Runs the system's own tools that images are made with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from vnetperf.model.errors import HostError

#: Tool -> package that brings it.
TOOLS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "depmod": "kmod",
    "mksquashfs": "squashfs-tools",
}
_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_UPDATE = "apt-get update, with a mirror of the distribution configured, then try again"


def run(
    argv: list[str],
    *,
    cwd: Path | None = None,
    timeout_s: float = 300,
    environment: dict[str, str] | None = None,
) -> str:
    """Run a tool to its end.

    Args:
        argv: Program, one of `TOOLS`, and arguments.
        cwd: Where it runs.
        timeout_s: Seconds it may take.
        environment: Variables besides those of this process.

    Returns:
        What it printed.

    Raises:
        HostError: It is not installed, fails, or does not end.
    """
    program = shutil.which(argv[0], path=f"{os.environ.get('PATH', '')}:{_PATH}")
    if program is None:
        raise HostError(
            f"program {argv[0]!r} is not installed",
            where="vnetperf image",
            accepted=f"the one of package {TOOLS[argv[0]]}",
            cure="run scripts/install-deps lab (as root)",
        )
    told = " ".join(argv[:8]) + (" ..." if len(argv) > 8 else "")
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
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
