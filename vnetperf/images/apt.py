"""Asks the distribution's package manager what is needed, and gets it; installs nothing."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from vnetperf.images.tools import run
from vnetperf.model.errors import HostError

DOWNLOAD_S = 1800
_URIS = ["--print-uris", "-qq", "-o", "Acquire::ForceHash=SHA256"]
_LINE = re.compile(r"^'[^']+' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sum>[0-9a-f]{64})$")
_CURE = "apt-get update, with a mirror of the distribution configured, then try again"


@dataclass(frozen=True, slots=True)
class Package:
    """One package of the distribution, of one version.

    Attributes:
        name: Its name.
        version: Its whole version.
        file: Name of its file as apt stores it.
        size: Bytes of that file.
        sha256: Hash of that file, as the distribution has signed it.
    """

    name: str
    version: str
    file: str
    size: int
    sha256: str


def resolve(wanted: Sequence[str], unwanted: Sequence[str], work: Path) -> list[Package]:
    """Find a set of packages that is complete by itself, as apt would install on an empty machine.

    Args:
        wanted: Names of packages.
        unwanted: Patterns of names to leave out, unless wanted by name.
        work: Private directory for files of apt.

    Returns:
        The packages, sorted by name, of the versions that apt prefers.

    Raises:
        HostError: apt knows no such packages.
    """
    status = work / "status"  # nothing is installed on the machine that this is for
    status.touch()
    options = [f"Dir::State::status={status}", f"Dir::Cache::archives={work / 'none'}"]
    options = [word for option in [*options, "Debug::NoLocking=1"] for word in ("-o", option)]
    said = run(["apt-get", "install", "-y", "--no-install-recommends", *_URIS, *options, *wanted])
    found = _complete(_packages(said), wanted)

    def kept(package: Package) -> bool:
        name = package.name
        return name in wanted or not any(fnmatch.fnmatchcase(name, p) for p in unwanted)

    return sorted((p for p in found if kept(p)), key=lambda package: package.name)


def exactly(names: Sequence[str], work: Path) -> list[Package]:
    """Find packages without what they depend on.

    Args:
        names: Their names.
        work: Private directory without packages: apt says nothing of those that are there.

    Returns:
        The packages, of the versions that apt prefers.

    Raises:
        HostError: apt knows no such packages.
    """
    return _complete(_packages(run(["apt-get", "download", *_URIS, *names], cwd=work)), names)


def download(packages: Iterable[Package], folder: Path, tell: Callable[[str], None]) -> None:
    """Get the packages that are not in a folder; apt checks what it gets.

    Args:
        packages: What is needed.
        folder: Where packages are kept, by their files' names.
        tell: Told what is being done.

    Raises:
        HostError: A package cannot be had.
    """
    needed = [package for package in packages if not _there(folder, package)]
    if not needed:
        return
    size_mb = sum(package.size for package in needed) / 1e6
    tell(f"fetching {len(needed)} packages, {size_mb:.0f} MB (once)")
    for package in needed:
        (folder / package.file).unlink(missing_ok=True)
    names = [f"{package.name}={package.version}" for package in needed]
    run(["apt-get", "download", "-qq", *names], cwd=folder, timeout_s=DOWNLOAD_S)
    for package in needed:
        if not _there(folder, package):
            raise HostError(
                "apt did not bring what it had promised",
                where=package.file,
                cure=_CURE,
            )


def _there(folder: Path, package: Package) -> bool:
    path = folder / package.file
    if not path.is_file() or path.stat().st_size != package.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == package.sha256


def _complete(found: list[Package], wanted: Sequence[str]) -> list[Package]:
    missing = set(wanted) - {package.name for package in found}
    if missing:
        raise HostError(
            "apt does not say where to get what is needed",
            where=" ".join(sorted(missing)),
            cure=_CURE,
        )
    return found


def _packages(said: str) -> list[Package]:
    found = []
    for line in said.splitlines():
        match = _LINE.match(line)
        if match:
            file = match["file"]
            name, version = file.split("_")[:2]
            found.append(Package(name, unquote(version), file, int(match["size"]), match["sum"]))
    return found
