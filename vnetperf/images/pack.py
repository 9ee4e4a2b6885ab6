"""Packs a guest's files so that the same files give the same bytes."""

from __future__ import annotations

from pathlib import Path

from vnetperf.images.tools import run

#: Every file is from this second, whenever it was made.
EPOCH = 1_000_000_000
_DIRECTORY, _FILE, _DEVICE = 0o040000, 0o100000, 0o020000


class Cpio:
    """An initramfs, in the kernel's own format ("newc"), not compressed."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._number = 0

    def directory(self, name: str) -> None:
        """Add a directory.

        Args:
            name: Its path, without a slash in front.
        """
        self._add(name, _DIRECTORY | 0o755, b"")

    def file(self, name: str, data: bytes, *, executable: bool = False) -> None:
        """Add a file.

        Args:
            name: Its path, without a slash in front.
            data: What is in it.
            executable: Whether it can be run.
        """
        self._add(name, _FILE | (0o755 if executable else 0o644), data)

    def device(self, name: str, major: int, minor: int) -> None:
        """Add a character device.

        Args:
            name: Its path, without a slash in front.
            major: Number of its driver.
            minor: Number of it at its driver.
        """
        self._add(name, _DEVICE | 0o600, b"", (major, minor))

    def packed(self) -> bytes:
        """The whole archive."""
        self._add("TRAILER!!!", 0, b"")
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._number += 1
        path = name.encode() + b"\0"
        fields = (self._number, mode, 0, 0, 1, EPOCH, len(data), 0, 0, *device, len(path), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
        self._parts += [head, bytes(-len(head) % 4), data, bytes(-len(data) % 4)]


def squashfs(root: Path, target: Path) -> None:
    """Pack a directory as a read-only file system.

    Args:
        root: The directory; all in it will belong to root.
        target: The file to make.
    """
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():  # whatever the umask was
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
    # Small blocks: a guest reads pieces of large libraries. zstd is quick to unpack.
    options = "-noappend -no-progress -quiet -comp zstd -b 64K -all-root -no-xattrs -no-exports"
    times = f"-mkfs-time {EPOCH} -all-time {EPOCH}"
    # It refuses these when the variable says the same.
    run(
        ["mksquashfs", str(root), str(target), *options.split(), *times.split()],
        without=("SOURCE_DATE_EPOCH",),
    )
