"""Takes out of unpacked packages what a guest needs, libraries included, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vnetperf.images.elf import needed
from vnetperf.model.errors import HostError

#: Releases differ in whether packages say /bin or /usr/bin; the guest has both as the same.
MERGED = ("bin", "sbin", "lib", "lib32", "lib64")


class Tree:
    """A guest's root directory that grows out of unpacked packages.

    Args:
        source: Where the packages are unpacked.
        root: The new root directory; made here.
    """

    def __init__(self, source: Path, root: Path) -> None:
        self._source = source
        self._root = root
        self._taken: set[Path] = set()
        self._libraries: dict[str, Path] = {}
        for base in ("lib", "usr/lib"):
            for folder in sorted((source / base).glob("*-linux-gnu*")):
                self._libraries.update({p.name: p for p in folder.iterdir() if ".so" in p.name})
        root.mkdir()
        for name in MERGED:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        for name in ("dev", "etc", "proc", "run", "sys", "tmp", "root", "var"):
            (root / name).mkdir()
        (root / "var/run").symlink_to("/run")
        (root / "var/tmp").symlink_to("/tmp")  # noqa: S108 - the guest's

    def find(self, pattern: str) -> list[Path]:
        """Paths in the packages.

        Args:
            pattern: Path below the root, e.g. ``usr/sbin/tc``; may have wildcards.

        Returns:
            Those that are there, wherever the release has them (/bin or /usr/bin, sbin or bin).
        """
        found: list[Path] = []
        names = [pattern, pattern.replace("/sbin/", "/bin/"), pattern.replace("/bin/", "/sbin/")]
        for name in dict.fromkeys(names):
            for choice in (name, name.removeprefix("usr/")):
                found += sorted(self._source.glob(choice))
        return found

    def take(self, pattern: str, *, must: bool = True) -> None:
        """Take files, the links on the way to them, and the libraries they need.

        Args:
            pattern: As for `find`.
            must: Whether something must be there.

        Raises:
            HostError: Nothing is there, or a library is in no package.
        """
        found = self.find(pattern)
        if must and not found:
            raise HostError(
                "no package of this release brings it",
                where=pattern,
                accepted="Debian 12, Debian 13 or Ubuntu 24.04",
            )
        for path in found:
            if not path.is_dir() or path.is_symlink():
                self._take(path)

    def _take(self, path: Path) -> None:
        if path in self._taken:
            return
        self._taken.add(path)
        target = self._root / merged(path.relative_to(self._source))
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            link = path.readlink()
            base = self._source if link.is_absolute() else path.parent
            beyond = base / str(link).lstrip("/")
            target.symlink_to(link)
            self._take(self._inside(Path(os.path.normpath(beyond)), path))
            return
        shutil.copyfile(path, target)
        target.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)
        for name in needed(path):
            self._take(self._library(name, path))

    def _inside(self, path: Path, user: Path) -> Path:
        """A path of the packages, on whichever side of /usr it is."""
        relative = merged(path.relative_to(self._source))
        for choice in (relative, Path(*relative.parts[1:])):
            if os.path.lexists(self._source / choice):
                return self._source / choice
        raise _lacking(str(relative), user)

    def _library(self, name: str, user: Path) -> Path:
        if name.startswith("/"):
            return self._inside(self._source / name.lstrip("/"), user)
        if name not in self._libraries:
            raise _lacking(name, user)
        return self._libraries[name]


def merged(path: Path) -> Path:
    """Where a file of a package is in the guest.

    Args:
        path: Path relative to the root, as the package has it.

    Returns:
        The path, below usr/ when it may be there too.
    """
    return Path("usr", path) if path.parts[0] in MERGED else path


def _lacking(name: str, user: Path) -> HostError:
    return HostError(
        f"{name} is needed and in no package of the image",
        where=user.name,
        cure="this is a fault of the recipe in vnetperf/images/recipe.py: report it",
    )
