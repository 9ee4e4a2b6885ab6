"""Files and directories that others than those who are trusted could change."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

#: Number of /dev/null (the kernel's Documentation/admin-guide/devices.txt).
_NULL_DEVICE = os.makedev(1, 3)


def why_untrusted(
    path: Path, *, only_root: bool = False, also: Collection[int] = (), may_miss: bool = False
) -> str:
    """How others could replace a file, or put something into a directory; "" when they cannot.

    The user, root and whoever called sudo count as oneself. Links are followed. A directory on the
    way that anybody may write to counts unless it is sticky (/tmp): there, nobody replaces another
    user's entries. `only_root` refuses what any other user than root owns or a group may write to;
    `also` are users who are trusted besides; `may_miss` trusts what does not exist as far as nobody
    else could make it.
    """
    users = {0, *also} if only_root else {0, os.geteuid(), *_caller_of_sudo(), *also}
    why = functools.partial(why_untrusted, only_root=only_root, also=also, may_miss=may_miss)
    end = path.absolute()
    try:
        with contextlib.suppress(*([FileNotFoundError] if may_miss else [])):
            end.stat()  # no link below leads to itself
        for place in (*reversed(end.parents), end):
            try:
                found = place.lstat()
            except FileNotFoundError:
                if may_miss:
                    return why(place.parent)  # as the end of the way: sticky is no excuse
                raise
            if found.st_uid not in users:
                return f"{place} belongs to user {found.st_uid}"
            if stat.S_ISLNK(found.st_mode):
                if reason := why(place.parent / place.readlink()):
                    return reason
                continue
            sticky = place != end and found.st_mode & stat.S_ISVTX
            if not sticky and _has_other_writers(found, only_root=only_root):
                return f"{place} may be written to by others (mode {found.st_mode & 0o7777:04o})"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _has_other_writers(found: os.stat_result, *, only_root: bool) -> bool:
    """Whether the mode lets others write: anybody, and with `only_root` a group but root's.

    What is written to a socket's file or to /dev/null, nobody can read there.
    """
    null = stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL_DEVICE
    if null or stat.S_ISSOCK(found.st_mode):
        return False
    return bool(found.st_mode & (0o022 if only_root and found.st_gid else 0o002))


def why_untrusted_below(*tops: Path) -> str:
    """How another user than root could change a directory or anything below it; "" when none can.

    Links are followed, also to directories elsewhere, and to what does not exist.
    """
    left, seen = [top.absolute() for top in tops], set[str]()
    while left:
        top = left.pop()
        if why := why_untrusted(top, only_root=True, may_miss=True):
            return why
        if (real := os.path.realpath(top)) in seen:  # if on another way
            continue
        seen.add(real)
        directories = [real] if top.is_dir() else []
        while directories:
            for path, found in _entries(directories.pop()):
                if stat.S_ISLNK(found.st_mode):
                    left.append(Path(path))
                elif found.st_uid or _has_other_writers(found, only_root=True):
                    if why := why_untrusted(Path(path), only_root=True, may_miss=True):
                        return why
                elif stat.S_ISDIR(found.st_mode):
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


def _caller_of_sudo() -> tuple[int, ...]:
    user = os.environ.get("SUDO_UID", "") if os.getuid() == 0 else ""
    return (int(user),) if user.isdecimal() else ()
