"""`vnetperf launcher`: lets users measure who may not become root, by one program and sudo."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from vnetperf.model.errors import HostError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--install", action="store_true", help="write both files, as root")
    parser.add_argument("--remove", action="store_true", help="remove both files, as root")
    parser.add_argument(
        "--who", default="%vnetperf", help="a user, or a group with %% (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show, write or remove the launcher and its line for sudo."""
    from vnetperf.agent import launcher
    from vnetperf.agent.client import LAUNCHER

    files = {
        LAUNCHER: (0o755, launcher.script(sys.executable)),
        launcher.SUDOERS: (0o440, launcher.sudoers(LAUNCHER, arguments.who)),
    }
    if (arguments.install or arguments.remove) and os.geteuid():
        raise HostError("only root may install or remove it", where=str(LAUNCHER), cure="use sudo")
    if arguments.remove:
        for path in reversed(files):
            path.unlink(missing_ok=True)
            print(f"removed {path}")
        return 0
    problem = launcher.installation_problem(LAUNCHER)
    if arguments.install and problem:
        raise HostError(
            f"what it would run as root is not root's alone: {problem}",
            where=sys.prefix,
            accepted="a Python and packages that only root may write to",
            cure="as root: `python3 -m venv /opt/vnetperf`, install vnetperf there (not editable), "
            "and call /opt/vnetperf/bin/vnetperf launcher --install",
        )
    for path, (mode, text) in files.items():
        if arguments.install:
            _write(path, mode, text)
            print(f"wrote {path}")
        else:
            print(f"--- {path} (root, mode {mode:04o})\n{text}", end="")
    if closed := launcher.closed_to_users(Path(sys.executable)):
        print(
            f"users cannot start this installation, for its Python is below {closed}, which is "
            "closed to them: their controllers need one of their own, of the same version",
            file=sys.stderr,
        )
    if problem:
        print(f"not yet possible from here: {problem}", file=sys.stderr)
    return 0


def _write(path: Path, mode: int, text: str) -> None:
    """Write a file that is whole whenever it can be seen; sudo reads no name with a point."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    part.rename(path)
