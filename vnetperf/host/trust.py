"""Files and directories that others than those who are trusted could change.

A process of root that has called `watch_starts` starts no program of that kind, whoever in it asks
for one: a library, a backend, code that has a name from a testbed file.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import stat
import struct
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vnetperf.host.command_lines import StartPlace, list_programs
from vnetperf.model.errors import UntrustedProgramError

#: Number of /dev/null (the kernel's Documentation/admin-guide/devices.txt).
_NULL_DEVICE = os.makedev(1, 3)
#: POSIX ACLs as the kernel has them (include/uapi/linux/posix_acl_xattr.h, posix_acl.h).
_ACL, _ACL_VERSION = "system.posix_acl_access", 2
_ACL_USER, _ACL_GROUP_OWNER, _ACL_GROUP, _ACL_WRITE = 0x02, 0x04, 0x08, 0x02


def explain_distrust(
    path: Path, *, only_root: bool = False, also: Collection[int] = (), may_miss: bool = False
) -> str:
    """How others could replace a file, or put something into a directory; "" when they cannot.

    The user, root and whoever called sudo count as oneself. Links are followed. A directory on the
    way that anybody may write to counts unless it is sticky (/tmp): there, nobody replaces another
    user's entries. `only_root` refuses what any other user than root owns or a group may write to.
    Users and groups to whom a POSIX ACL gives the right to write always count. `also` are users who
    are trusted besides; `may_miss` trusts what does not exist as far as nobody else could make it.
    """
    users = {0, *also} if only_root else {0, os.geteuid(), *_sudo_caller(), *also}
    explain = functools.partial(explain_distrust, only_root=only_root, also=also, may_miss=may_miss)
    end = path.absolute()
    try:
        with contextlib.suppress(*([FileNotFoundError] if may_miss else [])):
            end.stat()  # no link below leads to itself
        for place in (*reversed(end.parents), end):
            try:
                status = place.lstat()
            except FileNotFoundError:
                if may_miss:
                    return explain(place.parent)  # as the end of the way: sticky is no excuse
                raise
            if status.st_uid not in users:
                return f"{place} belongs to user {status.st_uid}"
            if stat.S_ISLNK(status.st_mode):
                if reason := explain(place.parent / place.readlink()):
                    return reason
                continue
            sticky = place != end and status.st_mode & stat.S_ISVTX
            if not sticky and (
                writers := _other_writers(place, status, users, only_root=only_root)
            ):
                return f"{place} may be written to by others ({writers})"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _other_writers(
    place: str | Path, status: os.stat_result, users: Collection[int], *, only_root: bool
) -> str:
    """Who else may write: anybody, with `only_root` a group but root's, or whom an ACL names.

    What is written to a socket's file or to /dev/null, nobody can read there.
    """
    null = stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL_DEVICE
    mode = f"mode {status.st_mode & 0o7777:04o}"
    # The group's bits are the mask of an ACL, where there is one: without w it lets nobody write.
    if null or stat.S_ISSOCK(status.st_mode) or not status.st_mode & 0o022:
        return ""
    writers = [mode] if status.st_mode & 0o002 else []
    for tag, number in _writers_by_acl(place) if not writers else ():
        if tag == _ACL_USER and number not in users:
            writers.append(f"{mode}, an ACL with user {number}")
        elif tag == _ACL_GROUP and number:
            writers.append(f"{mode}, an ACL with group {number}")
        elif tag == _ACL_GROUP_OWNER and only_root and status.st_gid:
            writers.append(mode)
    return next(iter(writers), "")


def _writers_by_acl(place: str | Path) -> list[tuple[int, int]]:
    """Tag and number of each entry of a file's ACL that may write; without one, its group."""
    try:
        data = os.getxattr(place, _ACL, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return [(_ACL_GROUP_OWNER, 0)]
        raise
    if len(data) % 8 != 4 or struct.unpack_from("<I", data) != (_ACL_VERSION,):
        raise OSError(errno.EINVAL, "its ACL cannot be read", str(place))
    entries = struct.iter_unpack("<HHI", data[4:])
    return [(tag, number) for tag, rights, number in entries if rights & _ACL_WRITE]


def explain_distrust_below(*tops: Path) -> str:
    """How another user than root could change a directory or anything below it; "" when none can.

    Links are followed, also to directories elsewhere, and to what does not exist.
    """
    pending, visited = [top.absolute() for top in tops], set[str]()
    while pending:
        top = pending.pop()
        if reason := explain_distrust(top, only_root=True, may_miss=True):
            return reason
        if (real := os.path.realpath(top)) in visited:  # if on another way
            continue
        visited.add(real)
        directories = [real] if top.is_dir() else []
        while directories:
            for path, status in _entries(directories.pop()):
                if stat.S_ISLNK(status.st_mode):
                    pending.append(Path(path))
                elif (status.st_uid or status.st_mode & 0o022) and (
                    reason := explain_distrust(Path(path), only_root=True, may_miss=True)
                ):
                    return reason
                if stat.S_ISDIR(status.st_mode):
                    directories.append(path)
    return ""


def _entries(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of what is in a directory, of links their own; what vanishes is left out."""
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(directory)  # noqa: PTH208 - a hundred thousand names
    for name in names:
        path = f"{directory}/{name}"
        with contextlib.suppress(FileNotFoundError):
            yield path, os.lstat(path)


def _sudo_caller() -> tuple[int, ...]:
    user = os.environ.get("SUDO_UID", "") if os.getuid() == 0 else ""
    return (int(user),) if user.isdecimal() else ()


#: Most octets that the kernel reads of a script's first line (include/uapi/linux/binfmts.h).
_FIRST_LINE = 256


def explain_root_refusal(path: str, search: str | None = None) -> str:
    """Why root does not run a program, or one of a folder; "" when it does, and for other users.

    The interpreter that a script names is run as well as the script; `search` is the PATH that env
    looks for it on, None for this process's.
    """
    if os.geteuid():
        return ""
    if not path.startswith("/"):
        return f"{path or '.'} is whatever directory it is started in"
    if reason := explain_distrust(Path(path)):
        return reason
    for interpreter in _interpreters(path, search):
        if interpreter.startswith("/") and (
            reason := explain_distrust(Path(interpreter), may_miss=True)
        ):
            return f"it is run by {interpreter}, and {reason}"
    return ""


def _interpreters(path: str, search: str | None) -> list[str]:
    """What the first line of a script names: a program, and for env the one that PATH has."""
    if not Path(path).is_file():  # a folder; a FIFO is never written to
        return []
    try:
        with Path(path).open("rb") as file:
            first = file.read(_FIRST_LINE)
    except OSError:  # may be executed all the same, from another machine's file system
        return []
    if not first.startswith(b"#!"):
        return []
    words = os.fsdecode(first[2:].partition(b"\n")[0]).split()
    if words[1:] and Path(words[0]).name == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        words[1:] = [shutil.which(names[0], path=search) or ""] if names else []
        return words
    return words[:1]


@functools.cache  # a hook is for ever, so one is enough
def watch_starts() -> None:
    """Have this process, if it is root's, start no program that others could have written.

    From then on, for its whole life: the interpreter itself reports each start before it happens.
    """
    if os.geteuid() == 0:
        sys.addaudithook(_check_start)


def _check_start(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook (PEP 578), called for every event of the interpreter: the rest returns fast."""
    if event == "subprocess.Popen":
        executable, argv, cwd, environment = args
    elif event in {"os.exec", "os.posix_spawn"}:
        (executable, argv, environment), cwd = args, None
    elif event == "os.system":
        executable, argv, cwd, environment = "/bin/sh", ["sh", "-c", *args], None, None
    else:
        return
    # What is no command line at all is refused by the start itself.
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        line = [os.fsdecode(word) for word in ([argv] if isinstance(argv, str | bytes) else argv)]
        if isinstance(executable, int):  # an open file
            program = os.path.realpath(f"/proc/self/fd/{executable}")
        else:
            program = os.fsdecode(executable)
        if event == "os.exec" and "/" not in program:
            program = f"./{program}"  # exec itself knows no PATH
        refuse_untrusted(
            [program, *line[1:]], environment, None if cwd is None else os.fsdecode(cwd)
        )


def refuse_untrusted(
    argv: Sequence[str], environment: Mapping[Any, Any] | None = None, cwd: str | None = None
) -> None:
    """Raise where a command line starts a program that root does not run, also by env or a shell.

    Args:
        argv: The program, by its path or a name on PATH, and its arguments.
        environment: Its variables; None are this process's.
        cwd: The directory that it starts in; None is this process's.

    Raises:
        UntrustedProgramError: A program or script of it could be another user's.
    """
    if os.geteuid():
        return
    place = StartPlace(_search_path(environment), _directory(cwd))
    for path, start in list_programs(argv, place):
        if reason := _explain_not_started(path, start.folders):
            raise UntrustedProgramError(
                f"{path} is not run as root: {reason}",
                where=" ".join(argv)[:200],
                cure="give it to root, or remove it",
                filename=path,
            )


def _directory(cwd: str | None) -> str:
    try:
        return os.path.abspath(cwd or "")  # noqa: PTH100 - it may be gone
    except FileNotFoundError:  # this process's is gone, and with it what was there
        return os.devnull


def _search_path(environment: Mapping[Any, Any] | None) -> str:
    """PATH of a program's variables, which may be octets; of this process without any."""
    variables: Mapping[Any, Any] = os.environ if environment is None else environment
    for key in ("PATH", b"PATH"):
        with contextlib.suppress(TypeError):  # os.environ takes no octets
            if (value := variables.get(key)) is not None:
                return os.fsdecode(value)
    return os.defpath


#: Programs that were found trusted with their interpreters, each file and link as it was then: it
#: is not another since. Whoever could change the folders above is trusted.
_trusted: set[tuple[tuple[str, int, int, int], ...]] = set()


def _explain_not_started(path: str, search: str) -> str:
    identities = []
    for file in (path, *_interpreters(path, search)):
        with contextlib.suppress(OSError):  # gone, so that it will not start
            for status in (os.lstat(file), os.stat(file)):  # noqa: PTH116 - before every start
                identities.append((file, status.st_dev, status.st_ino, status.st_ctime_ns))
    if not identities or (files := tuple(identities)) in _trusted:
        return ""
    if not (reason := explain_root_refusal(path, search)):
        _trusted.add(files)
    return reason
