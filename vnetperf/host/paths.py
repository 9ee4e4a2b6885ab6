"""Where this machine keeps what vnetperf must remember; tests give other roots."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.linux import close_after
from vnetperf.host.trust import explain_distrust
from vnetperf.model.errors import HostError


@dataclass(frozen=True, slots=True)
class HostRoots:
    """The directories of vnetperf on a machine. All of them are root's, mode 0700.

    Attributes:
        state: Survives a reboot: journals and locks.
        run: Parent of the run directories; short, since sockets live below it.
        machine: The machine's own, where these are those of a host within it.
    """

    state: Path = Path("/var/lib/vnetperf")
    run: Path = Path("/run/vnetperf")
    machine: HostRoots | None = None

    @classmethod
    def for_host(cls, name: str) -> HostRoots:
        """Those of a host that is network namespaces of this machine; "" is the machine itself."""
        machine = cls()
        return machine.host_roots(name) if name else machine

    def host_roots(self, name: str) -> HostRoots:
        """Those of a host that is network namespaces of the machine that these are of."""
        state, run = (p.with_name(f"{p.name}-{name}") for p in (self.state, self.run))
        return HostRoots(state, run, machine=self)

    @property
    def on_machine(self) -> tuple[HostRoots, ...]:
        """The machine's own, then those of each host within it that keeps something."""
        machine = self.machine or self
        mark = f"{machine.state.name}-"
        folders = sorted(p for p in machine.state.parent.glob(f"{mark}*") if p.is_dir())
        return (machine, *(machine.host_roots(path.name.removeprefix(mark)) for path in folders))

    @property
    def journals(self) -> Path:
        """Directory of the journals, ``<run_id>.jsonl``."""
        return self.state / "journal"

    @property
    def locks(self) -> Path:
        """Directory of the testbed locks, ``<testbed>.lock``."""
        return self.state / "lock"

    @property
    def last(self) -> Path:
        """What was found on the machine after the last run; it stays, beside the state."""
        return self.state.with_name(f"{self.state.name}.last-restore.json")

    def journal(self, run_id: str) -> Path:
        """Path of one run's journal."""
        return self.journals / f"{run_id}.jsonl"

    def lock(self, testbed: str) -> Path:
        """Path of one testbed's lock file."""
        return self.locks / f"{testbed}.lock"


#: A disk with less is full for a journal, a log, or what a program maps, octets.
SPARE_OCTETS = 1 << 20


def is_full(place: Path) -> bool:
    """Whether a directory, or the first above it that is there, is on a disk without room."""
    existing = next(path for path in (place, *place.parents) if path.exists())
    try:
        disk = shutil.disk_usage(existing)
        return disk.total > 0 and disk.free < SPARE_OCTETS  # ramfs states no size
    except OSError:  # it has gone meanwhile
        return False


def cache_directory() -> Path:
    """Where what can be built again is kept: ``$XDG_CACHE_HOME/vnetperf`` or ``~/.cache/vnetperf``.

    Root with another user's HOME (``sudo -E``), or a folder that others could change, keeps them in
    its own: what another user can write must not be run as root, nor should that user's directory
    get files of root.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    if os.geteuid() == 0 and explain_distrust(root, only_root=True, may_miss=True):
        root = Path(pwd.getpwuid(0).pw_dir) / ".cache"
    return root / "vnetperf"


def make_cache(name: str, purpose: str) -> Path:
    """A directory of the cache, made when it is missing, mode 0700."""
    path = cache_directory() / name
    with HostError.explain_os_error(
        f"the directory for {purpose} cannot be made",
        where=str(path),
        accepted="a directory that you may write to",
        cure="set XDG_CACHE_HOME to one",
    ):
        make_private(path)
    return path


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, each mode 0700.

    Another run that ends at this moment removes the parents when they are empty, so a vanished
    parent is made again.
    """
    while True:
        try:
            directory.mkdir(mode=0o700)
            return
        except FileNotFoundError:
            make_private(directory.parent)
        except FileExistsError:
            try:
                check_private(directory)
                return
            except FileNotFoundError:
                continue  # it went away before it could be looked at


_CURE = "look at what is in it, and remove it; nothing of it was used"


def open_private(path: Path, flags: int) -> int:
    """Open a file in a private directory, which is made when it is missing."""
    while True:
        make_private(path.parent)
        with contextlib.suppress(FileNotFoundError):  # a run that ended just now removed it
            return open_trusted(path, flags)


def open_trusted(path: Path, flags: int) -> int:
    """Open a regular file that nobody else could have written, by no link; mode 0600 if made."""
    fd = open_regular(path, flags)
    if wrong := _explain_foreign(os.fstat(fd), "regular file", is_kind=True):
        os.close(fd)
        raise _untrusted(path, wrong, "regular file", _CURE)
    return fd


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, by no link, without waiting for a pipe's other end; 0600 if made."""
    wrong = "is no regular file, or a link to one"
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a pipe that nobody reads, a socket
            raise _untrusted(path, wrong, "regular file", _CURE) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _untrusted(path, wrong, "regular file", _CURE)
    return fd


def check_private(directory: Path) -> None:
    """Make sure that nobody else can put anything into a directory that is there."""
    status = directory.lstat()
    if wrong := _explain_foreign(status, "directory", is_kind=stat.S_ISDIR(status.st_mode)):
        cure = "look at what is in it, and remove it; it will be made again"
        raise _untrusted(directory, wrong, "directory", cure)


def check_state(roots: HostRoots) -> None:
    """Make sure that nobody else could have put a journal or a lock where these are kept.

    What is not there is not looked at, but nobody else may be able to make it.
    """
    above = roots.state.parent
    if reason := explain_distrust(above, only_root=True, also=(os.geteuid(),), may_miss=True):
        raise HostError(
            f"others could put journals of their own in place of this machine's: {reason}",
            where=str(roots.state),
            accepted=f"directories above it that only user {os.geteuid()} and root may write to",
            cure=f"give {above} to root, and take the others' right to write away",
        )
    for directory in (roots.state, roots.journals, roots.locks):
        with contextlib.suppress(FileNotFoundError):
            check_private(directory)


def _explain_foreign(status: os.stat_result, kind: str, *, is_kind: bool) -> str:
    """Why others could have written a file or directory; an ACL's rights are in the mode too."""
    if not is_kind:
        return f"is no {kind}, or a link to one"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & 0o022:
        return f"may be written to by others (mode {status.st_mode & 0o7777:04o})"
    return ""


def _untrusted(path: Path, wrong: str, kind: str, cure: str) -> HostError:
    return HostError(
        f"what is there already {wrong}: it cannot be trusted",
        where=str(path),
        accepted=f"a {kind} of user {os.geteuid()} that only this user may write to",
        cure=cure,
    )


def list_files(directory: Path, pattern: str) -> list[Path]:
    """Files of a directory, by name; none of one that another run removes at this moment."""
    try:
        return sorted(directory.glob(pattern))
    except FileNotFoundError:
        return []


def remove_if_empty(*directories: Path) -> None:
    """Remove each directory, in the order given, that is there and empty."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


def read_end(file: Path, most: int) -> str:
    """The last `most` octets of a file in a directory that others write to; "" where unreadable.

    They could have put something else in its place, or in the directory's: a link, a pipe that
    nobody writes to.
    """
    try:
        folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        with close_after(folder) as parent:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(file.name, flags, dir_fd=parent)
        with os.fdopen(fd, "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return ""
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - most))
            return opened.read(most).decode(errors="replace")
    except OSError:
        return ""
