"""Values in /proc and /sys that are changed for a run: sysctl, numvfs, IRQ affinity, governor."""

from __future__ import annotations

import os
import re
from pathlib import Path

from vnetperf.host.journal import Change, Journal
from vnetperf.host.undo import Data
from vnetperf.model.errors import HostError

SYSCTL = Path("/proc/sys")

# A CPU mask is padded and split into groups of eight by the kernel; a CPU list ("0,2") is not one.
_MASK = re.compile(r"[0-9a-f]{1,8}(,[0-9a-f]{8})*")


def read_value(path: Path) -> str:
    """The value of a proc or sysfs file, without surrounding white space.

    Where a file lists choices with the current one in brackets (``always [madvise] never``), the
    current one is returned, which is what can be written back.

    Args:
        path: The file, below /proc or /sys.

    Returns:
        The value.

    Raises:
        HostError: It cannot be read.
    """
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(
            f"cannot be read: {error}",
            where=str(path),
            cure="check that this kernel has the feature and that you are root",
        ) from error
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(chosen) == 1 and len(words) > 1 else text


def write_value(journal: Journal, path: Path, value: str, *, zero_first: bool = False) -> Change:
    """Set a proc or sysfs value for this run; undoing writes the previous one back.

    Args:
        journal: The run's journal.
        path: The file, below /proc or /sys.
        value: What to write.
        zero_first: The kernel accepts another number only after 0 (``sriov_numvfs``).

    Returns:
        Handle to undo it before the run ends.

    Raises:
        HostError: It cannot be read, or the kernel refused or did not take the value. The
            previous value is then back.
    """
    previous = read_value(path)
    data = {"path": str(path), "previous": previous, "zero_first": zero_first}
    with journal.changing("value", f"{path}: {previous} -> {value}", data) as change:
        if not _same(previous, value):
            _write(path, value, zero_first=zero_first and previous != "0")
        now = read_value(path)
        if not _same(now, value):
            raise HostError(
                f"the kernel was given {value!r} and says {now!r}",
                where=str(path),
                accepted="a value that reads back as written",
                cure="see dmesg for why the kernel did not take it",
            )
    return change


def set_sysctl(journal: Journal, name: str, value: str, *, root: Path = SYSCTL) -> Change:
    """Set a sysctl such as ``vm.max_map_count`` for this run; see `write_value`.

    A dot inside an interface's name is written as ``/``, as sysctl(8) has it.
    """
    return write_value(journal, root / name.translate(str.maketrans("./", "/.")), value)


def undo_value(data: Data) -> str:
    """Write the previous value back, if it is not there already."""
    path, previous = Path(data["path"]), str(data["previous"])
    if not path.exists():
        return "gone with its device"
    now = read_value(path)
    if _same(now, previous):
        return f"already {previous}"
    _write(path, previous, zero_first=bool(data["zero_first"]) and now != "0" and previous != "0")
    after = read_value(path)
    if not _same(after, previous):
        raise HostError(f"was {previous!r}, is still {after!r} after writing it", where=str(path))
    return f"{now} -> {previous}"


def _write(path: Path, value: str, *, zero_first: bool) -> None:
    for text in ("0", value) if zero_first else (value,):
        try:
            # No O_CREAT: a misspelt name must not become a regular file.
            fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(fd, (text + "\n").encode())
            finally:
                os.close(fd)
        except OSError as error:
            raise HostError(
                f"the kernel refused {text!r}: {error.strerror}",
                where=str(path),
                cure="check the value and that you are root; dmesg may say more",
            ) from error


def _same(left: str, right: str) -> bool:
    """Whether two values mean the same: spacing, and hex masks padded by the kernel, differ."""
    return _normal(left) == _normal(right)


def _normal(value: str) -> str:
    words = " ".join(value.split())
    if _MASK.fullmatch(words):
        return words.replace(",", "").lstrip("0") or "0"
    return words
