"""The programs that the lab stands on: QEMU, virtme-ng, and the system's own tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from vnetperf.model.errors import HostError

QEMU = "qemu-system-x86_64"
QEMU_LEAST = (8, 0)
VIRTME_LEAST = (1, 33)
SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
CURE_SYSTEM = "run scripts/install-deps lab (as root)"
#: The very Python that runs this, so that a virtual environment's virtme-ng is found.
VIRTME_RUN = (sys.executable, "-m", "virtme.commands.run")


def which(name: str) -> str | None:
    """Path of a program, looked for where root's programs are too."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")


def need(name: str, package: str) -> str:
    """Path of a program.

    Args:
        name: The program.
        package: What brings it, for the message.

    Returns:
        Its path.

    Raises:
        HostError: It is not installed.
    """
    path = which(name)
    if path is None:
        raise HostError(
            f"program {name!r} is not installed",
            where="vnetperf lab",
            accepted=f"the one of package {package}",
            cure=CURE_SYSTEM,
        )
    return path


def leashed(argv: Sequence[str]) -> list[str]:
    """A command that the kernel kills when this process ends, however that comes about.

    It does not even begin when this process has ended before the kernel was asked to.

    Args:
        argv: Program and arguments.

    Returns:
        The command to start, whose process becomes the program.

    Raises:
        HostError: There is no setpriv.
    """
    leash = [need("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"]
    return [*leash, "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid()), *argv]


def qemu_version(path: str) -> tuple[int, ...]:
    """Version of a QEMU.

    Args:
        path: The program.

    Returns:
        Its numbers, e.g. (10, 0, 2).

    Raises:
        HostError: It does not say.
    """
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"does not run: {error}", where=path, cure=CURE_SYSTEM) from error
    found = re.search(r"version (\d+(?:\.\d+)*)", done.stdout)
    if found is None:
        raise HostError("does not say its version", where=path, cure=CURE_SYSTEM)
    return tuple(int(part) for part in found[1].split("."))


def need_qemu() -> str:
    """A QEMU whose igb has SR-IOV.

    Returns:
        Its path.

    Raises:
        HostError: There is none, or an older one.
    """
    path = need(QEMU, "qemu-system-x86")
    found = qemu_version(path)
    if found < QEMU_LEAST:
        raise HostError(
            f"QEMU {dotted(found)} has no NIC with SR-IOV",
            where=path,
            accepted=f"QEMU {dotted(QEMU_LEAST)} or newer",
            cure=f"{CURE_SYSTEM}: it takes a newer one from the distribution's backports",
        )
    return path


def virtme_version() -> tuple[int, ...] | None:
    """Version of virtme-ng in this Python, None when it is not there."""
    if find_spec("virtme") is None:
        return None
    try:
        text = version("virtme-ng")
    except PackageNotFoundError:
        return None
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def need_virtme() -> tuple[int, ...]:
    """virtme-ng.

    Returns:
        Its version.

    Raises:
        HostError: It is not there, or too old.
    """
    found = virtme_version()
    if found is None or found < VIRTME_LEAST:
        raise HostError(
            f"virtme-ng {dotted(found)} is too old" if found else "virtme-ng is not installed",
            where=sys.executable,
            accepted=f"virtme-ng {dotted(VIRTME_LEAST)} or newer in this Python",
            cure="pip install 'vnetperf[lab]' with this Python",
        )
    return found


def dotted(numbers: tuple[int, ...]) -> str:
    """A version as text."""
    return ".".join(map(str, numbers))
