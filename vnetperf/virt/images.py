"""Guest images: found, built, and kept by the hash of what they are made of."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.host.linux import (
    parse_json,
    read_file,
)
from vnetperf.host.paths import cache_directory, check_private, make_cache
from vnetperf.model.errors import HostError
from vnetperf.virt import image_build, tools
from vnetperf.virt.recipe import recipe

#: Its place in the cache.
FOLDER = "images"
MANIFEST = "image.json"
#: Version of the manifest's form.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """An image in the store, not looked into yet; its directory is ``NAME-KEY``."""

    folder: Path
    name: str
    key: str
    built: float


def store_dir() -> Path:
    """Where images are kept, ``$XDG_CACHE_HOME/vnetperf/images``."""
    return cache_directory() / FOLDER


def make_store() -> Path:
    """The store, made when it is missing, mode 0700."""
    return make_cache(FOLDER, "guest images")


def list_entries(name: str | None = None) -> list[ImageEntry]:
    """What is in the store, the newest first."""
    entries = []
    root = store_dir()
    try:
        check_private(root)
    except FileNotFoundError:
        return []
    for folder in root.glob("[!.]*-*/"):
        image_name, _, key = folder.name.rpartition("-")
        if name in (None, image_name):
            entries.append(ImageEntry(folder, image_name, key, folder.stat().st_mtime))
    return sorted(
        entries, key=lambda image_entry: (image_entry.built, image_entry.key), reverse=True
    )


def add_entry(folder: Path, name: str, key: str, content: dict[str, Any]) -> ImageEntry:
    """Take a finished image into the store, in one step."""
    files = {path.name: tools.hash_file(path) for path in sorted(folder.iterdir())}
    content = {"architecture": platform.machine(), "files": files, **content}
    content = {"format": FORMAT, "name": name, "key": key, **content}
    (folder / MANIFEST).write_text(json.dumps({**content, "check": _checksum(content)}, indent=1))
    for path in folder.iterdir():
        path.chmod(0o400)
    target = store_dir() / f"{name}-{key}"
    if target.exists():  # damaged; guests that run keep the files they have opened
        target.rename(folder.with_name("damaged"))
    folder.chmod(0o700)
    os.utime(folder)
    folder.rename(target)
    return ImageEntry(target, name, key, target.stat().st_mtime)


def packages_dir() -> Path:
    """Where downloaded packages are kept, made when it is missing."""
    path = make_store() / "packages"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def remove_old() -> list[ImageEntry]:
    """Remove each image that is not the newest of its name.

    A newest one that is damaged, or for another processor, goes too: it cannot be used. Of the
    downloaded packages those stay that an image is made of, so that it can be built again at once.
    """
    removed, kept = [], set()
    with tools.work_dir(make_store()):
        for image_entry in list_entries():
            if image_entry.name not in kept and not _problem(image_entry):
                kept.add(image_entry.name)
                continue
            shutil.rmtree(image_entry.folder)
            removed.append(image_entry)
        used = {
            file
            for image_entry in list_entries()
            for file in verified_manifest(image_entry)["package_files"]
        }
        for path in packages_dir().iterdir():
            if path.name not in used:
                path.unlink()
    return removed


def _problem(image_entry: ImageEntry) -> str:
    """What keeps an image from being used; "" for nothing."""
    try:
        verified_manifest(image_entry)
    except HostError as error:
        return str(error)
    return ""


def verified_manifest(image_entry: ImageEntry) -> dict[str, Any]:
    """An image's manifest, after each of its files was read and found as it was built."""
    manifest = _manifest(image_entry)
    if manifest["architecture"] != platform.machine():
        raise HostError(
            f"this image was built for processors {manifest['architecture']}",
            where=str(image_entry.folder),
            accepted=f"one for {platform.machine()}, which this machine is",
            cure=f"vnetperf image build {image_entry.name}",
        )
    for name, expected in manifest["files"].items():
        path = image_entry.folder / name
        try:
            digest = tools.hash_file(path)
        except OSError as error:
            raise _damaged(path, error.strerror or str(error), image_entry) from error
        if digest != expected:
            raise _damaged(path, "its content is not what was built", image_entry)
    return manifest


def _manifest(image_entry: ImageEntry) -> dict[str, Any]:
    path = image_entry.folder / MANIFEST
    try:
        manifest = parse_json(read_file(path))
        check = manifest.pop("check")
    except OSError as error:
        raise _damaged(path, error.strerror or str(error), image_entry) from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(path, "it cannot be read", image_entry) from error
    if manifest.get("format") != FORMAT:
        raise _damaged(path, "it was built by another version of vnetperf", image_entry)
    if check != _checksum(manifest) or (manifest["name"], manifest["key"]) != (
        image_entry.name,
        image_entry.key,
    ):
        raise _damaged(path, "its content is not what was built", image_entry)
    return dict(manifest)


def _damaged(path: Path, reason: str, image_entry: ImageEntry) -> HostError:
    return HostError(
        f"the guest image is damaged: {reason}",
        where=str(path),
        cure=f"vnetperf image build {image_entry.name}",
    )


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


DEFAULT_IMAGE = "vloop"


@dataclass(frozen=True)
class Image:
    """What a guest boots. No file of it is ever written to: a guest's changes are in its memory.

    Attributes:
        key: Hash over everything that it was made of: recipe and exact package versions.
        disk: Root file system, to be attached read-only as a virtio-blk disk; the guest finds it
            among others by the image's key.
        facts: For results and people: packages with their versions, kernel release, size in bytes.
    """

    name: str
    key: str
    kernel: Path
    initrd: Path
    disk: Path
    cmdline: str
    facts: dict[str, Any]


def find(name: str = DEFAULT_IMAGE) -> Image | None:
    """The newest image of a name, if it is what was built."""
    entries = list_entries(name)
    return _load(entries[0]) if entries else None


def problems() -> dict[str, str]:
    """Whether what was built here can be booted here: each file of it is read."""
    try:
        newest = {image_entry.name: image_entry for image_entry in reversed(list_entries())}
    except HostError as error:
        return {DEFAULT_IMAGE: str(error)}
    return {name: _problem(image_entry) for name, image_entry in newest.items()}


def build(name: str, tell: Callable[[str], None]) -> Image:
    """Build an image, unless the very same is there."""
    image_recipe = recipe(name)
    with tools.work_dir(make_store()) as work:
        tell("querying the distribution for its packages")
        made_of = image_build.image_inputs(image_recipe, work)
        if existing := _same_image(name, made_of.key):
            tell("it is there already, of these very packages")
            return existing
        packages = packages_dir()
        tools.download_packages(made_of.everything, packages, tell)
        out = work / "image"
        out.mkdir(mode=0o700)
        facts = image_build.build_files(made_of, packages, work, out, tell)
        files = [package.file for package in made_of.everything]
        content = {"cmdline": image_recipe.cmdline, "facts": facts, "package_files": files}
        image_entry = add_entry(out, name, made_of.key, content)
    return _load(image_entry)


def _same_image(name: str, key: str) -> Image | None:
    """The image of a key, made the newest; None when it is not there, or damaged."""
    for image_entry in list_entries(name):
        if image_entry.key == key:
            try:
                image = _load(image_entry)
            except HostError:
                return None  # built again
            os.utime(image_entry.folder)
            return image
    return None


def _load(image_entry: ImageEntry) -> Image:
    manifest = verified_manifest(image_entry)
    return Image(
        name=image_entry.name,
        key=image_entry.key,
        kernel=image_entry.folder / image_build.KERNEL,
        initrd=image_entry.folder / image_build.INITRD,
        disk=image_entry.folder / image_build.DISK,
        cmdline=f"{manifest['cmdline']} vnetperf.image={image_entry.key}",
        facts=dict(manifest["facts"]),
    )
