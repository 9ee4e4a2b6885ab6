"""A guest image, as those that start guests see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.images import apt, building, store
from vnetperf.images.recipe import recipe
from vnetperf.model.errors import HostError

DEFAULT = "vloop"


@dataclass(frozen=True)
class Image:
    """What a guest boots. No file of it is ever written to: a guest's changes are in its memory.

    Attributes:
        name: What it was built for, e.g. "vloop".
        key: Hash over everything that it was made of: recipe and exact package versions.
        kernel: Bootable kernel, for QEMU's ``-kernel`` (libvirt's ``<kernel>``).
        initrd: First file system, for ``-initrd``; None when it needs none.
        disk: Root file system, to be attached read-only as a virtio-blk disk; the guest finds it
            among others by the image's key. None when all is in `initrd`.
        disk_format: "raw" or "qcow2"; "" without a disk.
        cmdline: Kernel command line; more may be appended, after a space.
        facts: For results and people: packages with their versions, kernel release, size in bytes.
    """

    name: str
    key: str
    kernel: Path
    initrd: Path | None
    disk: Path | None
    disk_format: str
    cmdline: str
    facts: dict[str, Any]


def find(name: str = DEFAULT) -> Image | None:
    """The newest image of a name, if it is what was built.

    Args:
        name: Name of the image.

    Returns:
        The image; None when none of that name has been built.

    Raises:
        HostError: It is damaged, or was built for another processor.
    """
    found = store.entries(name)
    return _image(found[0]) if found else None


def look() -> dict[str, str]:
    """Whether what was built here can be booted here: each file of it is read.

    Returns:
        Name of an image -> "" or what is wrong with the newest of that name, with the cure.
    """
    found: dict[str, str] = {}
    try:
        entries = store.entries()
    except HostError as error:
        return {DEFAULT: str(error)}
    for entry in entries:
        if entry.name not in found:
            try:
                store.checked(entry)
            except HostError as error:
                found[entry.name] = str(error)
            else:
                found[entry.name] = ""
    return found


def build(name: str, tell: Callable[[str], None]) -> Image:
    """Build an image, unless the very same is there.

    Args:
        name: Name of the image.
        tell: Told what is being done.

    Returns:
        The image, which `find` returns from now on.

    Raises:
        ConfigError: There is no recipe of that name.
        HostError: It could not be built.
    """
    wanted = recipe(name)
    with store.work_dir() as work:
        tell("asking the distribution for its packages")
        made_of = building.inputs(wanted, work)
        there = _the_same(name, made_of.key)
        if there is not None:
            tell("it is there already, of these very packages")
            return there
        packages = store.packages_dir()
        apt.download(made_of.everything, packages, tell)
        out = work / "image"
        out.mkdir(mode=0o700)
        facts = building.build(made_of, packages, work, out, tell)
        files = [package.file for package in made_of.everything]
        content = {"cmdline": wanted.cmdline, "facts": facts, "package_files": files}
        entry = store.put(out, name, made_of.key, content)
    return _image(entry)


def _the_same(name: str, key: str) -> Image | None:
    """The image of a key, made the newest; None when it is not there, or damaged."""
    for entry in store.entries(name):
        if entry.key == key:
            try:
                image = _image(entry)
            except HostError:
                return None  # built again
            store.touch(entry)
            return image
    return None


def _image(entry: store.Entry) -> Image:
    said = store.checked(entry)
    return Image(
        name=entry.name,
        key=entry.key,
        kernel=entry.folder / building.KERNEL,
        initrd=entry.folder / building.INITRD,
        disk=entry.folder / building.DISK,
        disk_format="raw",
        cmdline=f"{said['cmdline']} vnetperf.image={entry.key}",
        facts=dict(said["facts"]),
    )
