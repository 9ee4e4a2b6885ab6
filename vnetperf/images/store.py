"""Keeps images: one directory for each key, complete or not there."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vnetperf.host.paths import cache_directory, check_private, make_cache
from vnetperf.model.errors import HostError

#: Its place in the cache.
FOLDER = "images"
MANIFEST = "image.json"
#: Version of the manifest's form.
FORMAT = 1
#: Another process that builds has this long, seconds.
PATIENCE_S = 1800.0


@dataclass(frozen=True, slots=True)
class Entry:
    """An image in the store, not looked into yet.

    Attributes:
        folder: Its directory; the name is ``NAME-KEY``.
        name: Name of the image.
        key: Hash over what it was made of.
        built: When it was built, seconds since 1970.
    """

    folder: Path
    name: str
    key: str
    built: float


def store_dir() -> Path:
    """Where images are kept, ``$XDG_CACHE_HOME/vnetperf/images``.

    Returns:
        Its path; it may not exist yet.
    """
    return cache_directory() / FOLDER


def make_store() -> Path:
    """The store, made when it is missing, mode 0700.

    Returns:
        Its path.

    Raises:
        HostError: It cannot be made, or others may write to it.
    """
    return make_cache(FOLDER, "guest images")


@contextmanager
def work_dir() -> Iterator[Path]:
    """A private directory to build in; nobody else builds or clears up meanwhile.

    What builds that were killed have left is removed first.

    Yields:
        Its path, in the store.

    Raises:
        HostError: Another build does not come to an end.
    """
    root = make_store()
    try:
        with FileLock(root / "lock", timeout=PATIENCE_S):
            for left in root.glob(".*.part"):
                shutil.rmtree(left)  # its maker cannot live: it would hold the lock
            work = root / f".{os.getpid()}.part"
            work.mkdir(mode=0o700)
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except Timeout as error:
        raise HostError(
            f"another process has kept the store for {PATIENCE_S / 60:.0f} minutes",
            where=str(root / "lock"),
            cure="see which `vnetperf image` still runs",
        ) from error


def entries(name: str | None = None) -> list[Entry]:
    """What is in the store, the newest first.

    Args:
        name: Only images of this name; None for all.

    Returns:
        The entries, damaged ones too.

    Raises:
        HostError: Others may write to the store.
    """
    found = []
    root = store_dir()
    try:
        check_private(root)
    except FileNotFoundError:
        return []
    for folder in root.glob("[!.]*-*/"):
        own, _, key = folder.name.rpartition("-")
        if name in (None, own):
            found.append(Entry(folder, own, key, folder.stat().st_mtime))
    return sorted(found, key=lambda entry: (entry.built, entry.key), reverse=True)


def put(folder: Path, name: str, key: str, content: dict[str, Any]) -> Entry:
    """Take a finished image into the store, in one step.

    Args:
        folder: Directory of its files, in the store's file system; moved from there.
        name: Name of the image.
        key: Hash over what it was made of.
        content: What else the manifest says.

    Returns:
        The entry.
    """
    files = {path.name: _hash(path) for path in sorted(folder.iterdir())}
    content = {"architecture": platform.machine(), "files": files, **content}
    content = {"format": FORMAT, "name": name, "key": key, **content}
    (folder / MANIFEST).write_text(json.dumps({**content, "check": _check(content)}, indent=1))
    for path in folder.iterdir():
        path.chmod(0o400)
    target = store_dir() / f"{name}-{key}"
    if target.exists():  # damaged; guests that run keep the files they have opened
        target.rename(folder.with_name("damaged"))
    folder.chmod(0o700)
    now = time.time()
    os.utime(folder, (now, now))
    folder.rename(target)
    return Entry(target, name, key, target.stat().st_mtime)


def touch(entry: Entry) -> None:
    """Make an image the newest of its name.

    Args:
        entry: The image.
    """
    os.utime(entry.folder)


def packages_dir() -> Path:
    """Where downloaded packages are kept, made when it is missing.

    Returns:
        Its path.
    """
    path = make_store() / "packages"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def remove_old() -> list[Entry]:
    """Remove each image that is not the newest of its name.

    A newest one that is damaged, or for another processor, goes too: it cannot be used. Of the
    downloaded packages those stay that an image is made of, so that it can be built again at once.

    Returns:
        What was removed.
    """
    removed, kept = [], set()
    with work_dir():
        for entry in entries():
            if entry.name not in kept and _usable(entry):
                kept.add(entry.name)
                continue
            shutil.rmtree(entry.folder)
            removed.append(entry)
        used = {file for entry in entries() for file in checked(entry)["package_files"]}
        for path in packages_dir().iterdir():
            if path.name not in used:
                path.unlink()
    return removed


def _usable(entry: Entry) -> bool:
    try:
        checked(entry)
    except HostError:
        return False
    return True


def checked(entry: Entry) -> dict[str, Any]:
    """What an image's manifest says, after each of its files was read and found as it was built.

    Args:
        entry: The image.

    Returns:
        The manifest.

    Raises:
        HostError: A file is not what was built, or it is for another processor.
    """
    said = _manifest(entry)
    if said["architecture"] != platform.machine():
        raise HostError(
            f"this image was built for processors {said['architecture']}",
            where=str(entry.folder),
            accepted=f"one for {platform.machine()}, which this machine is",
            cure=f"vnetperf image build {entry.name}",
        )
    for name, expected in said["files"].items():
        path = entry.folder / name
        try:
            found = _hash(path)
        except OSError as error:
            raise _damaged(path, error.strerror or str(error), entry) from error
        if found != expected:
            raise _damaged(path, "its content is not what was built", entry)
    return said


def _manifest(entry: Entry) -> dict[str, Any]:
    path = entry.folder / MANIFEST
    try:
        said = json.loads(path.read_text())
        check = said.pop("check")
    except OSError as error:
        raise _damaged(path, error.strerror or str(error), entry) from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(path, "it cannot be read", entry) from error
    if said.get("format") != FORMAT:
        raise _damaged(path, "it was built by another version of vnetperf", entry)
    if check != _check(said) or (said["name"], said["key"]) != (entry.name, entry.key):
        raise _damaged(path, "its content is not what was built", entry)
    return dict(said)


def _damaged(path: Path, why: str, entry: Entry) -> HostError:
    return HostError(
        f"the guest image is damaged: {why}",
        where=str(path),
        cure=f"vnetperf image build {entry.name}",
    )


def _check(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
