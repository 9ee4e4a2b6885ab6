"""Who is who on a machine: this boot, a process that cannot be mistaken for another, the user."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from vnetperf.model.errors import HostError

PROC = Path("/proc")
RUN_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process for all of one boot: a pid alone is reused, with its start time it is not.

    Attributes:
        pid: Process id.
        start: Start time in clock ticks since boot (field 22 of /proc/pid/stat).
    """

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Identity of a living process, or None when there is none (a zombie counts as dead)."""
        stat = _stat_fields(pid)
        return None if stat is None or stat[0] in "ZX" else cls(pid, int(stat[19]))

    @classmethod
    def me(cls) -> ProcessId:
        """Identity of the calling process."""
        own = cls.of(os.getpid())
        if own is None:
            raise HostError("cannot read /proc/self/stat", cure="mount /proc")
        return own

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessId.of(self.pid) == self


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name is in parentheses and may itself hold spaces and parentheses.
    return text.rpartition(")")[2].split()


def boot_id() -> str:
    """Identity of this boot of the kernel."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def user_name() -> str:
    """Who runs this, for "who holds the testbed": the user behind sudo, else the account."""
    behind_sudo = os.environ.get("SUDO_USER")
    if behind_sudo:
        return behind_sudo
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def check_run_id(run_id: str) -> str:
    """Return the id when it can name files and be found in an environment, else refuse it.

    Args:
        run_id: What a caller proposes.

    Returns:
        The same id.

    Raises:
        HostError: The id is empty, too long or holds other characters.
    """
    if not RUN_ID_PATTERN.fullmatch(run_id):
        raise HostError(
            f"run id {run_id!r} cannot name a run",
            accepted="1 to 40 letters, digits, dots, dashes and underscores",
            cure="leave it out, one is made",
        )
    return run_id
