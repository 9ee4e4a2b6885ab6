"""Builds an image out of packages, in a directory of its own."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.images import apt
from vnetperf.images.modules import Modules, module_name, plain, unpack
from vnetperf.images.pack import Cpio, squashfs
from vnetperf.images.recipe import SCRIPTS, Recipe
from vnetperf.images.tools import run
from vnetperf.images.tree import Tree
from vnetperf.lab import kernel
from vnetperf.model.errors import HostError

KERNEL, INITRD, DISK = "vmlinuz", "initrd", "root.squashfs"


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that an image is made of.

    Attributes:
        recipe: How it is made.
        kernel: The kernel's packages.
        packages: The other packages.
    """

    recipe: Recipe
    kernel: tuple[apt.Package, ...]
    packages: tuple[apt.Package, ...]

    @property
    def everything(self) -> tuple[apt.Package, ...]:
        """All packages."""
        return (*self.kernel, *self.packages)

    @property
    def key(self) -> str:
        """Hash over all of it."""
        return self.recipe.key(self.everything, platform.machine())


def inputs(recipe: Recipe, work: Path) -> Inputs:
    """Ask the distribution what an image would be made of today.

    Args:
        recipe: How it is made.
        work: Private empty directory.

    Returns:
        The inputs.
    """
    return Inputs(
        recipe=recipe,
        kernel=tuple(apt.exactly(kernel.packages(), work)),
        packages=tuple(apt.resolve(recipe.packages, recipe.unwanted, work)),
    )


def build(
    made_of: Inputs, packages: Path, work: Path, out: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Make an image's files.

    Args:
        made_of: What it is made of.
        packages: Where the packages' files are.
        work: Private directory, for what is not kept.
        out: Private directory that gets `KERNEL`, `INITRD` and `DISK`.
        tell: Told what is being done.

    Returns:
        Facts about it: the kernel's release, packages, size.

    Raises:
        HostError: The packages are not what the recipe expects.
    """
    recipe, key = made_of.recipe, made_of.key
    tell("unpacking")
    source = _unpack(made_of.packages, packages, work / "packages")
    booted = _unpack(made_of.kernel, packages, work / "kernel")
    found = kernel.inside(booted)
    if found is None:
        raise HostError("the kernel's packages hold no kernel", where=made_of.kernel[0].name)
    tell("choosing what a guest needs")
    root = work / "root"
    tree = Tree(source, root)
    for pattern in recipe.programs:
        tree.take(pattern)
    for pattern in recipe.extras:
        tree.take(pattern, must=False)
    modules = Modules(found.modules)
    modules.take([*recipe.modules, *recipe.boot_modules], root)
    _own_files(root, key)
    _applets(root)
    tell("packing")
    shutil.copyfile(found.image, out / KERNEL)
    (out / INITRD).write_bytes(_initramfs(recipe, modules, found.modules, root, work))
    squashfs(root, out / DISK)
    size = sum(path.stat().st_size for path in out.iterdir())
    if size > recipe.limit_mib << 20:
        raise HostError(
            f"the image has {size >> 20} MiB",
            where=recipe.name,
            accepted=f"at most {recipe.limit_mib} MiB",
            cure="this is a fault of the recipe in vnetperf/images/recipe.py: report it",
        )
    return {
        "kernel_release": found.release,
        "size": size,
        "packages": {package.name: package.version for package in made_of.everything},
    }


def _unpack(found: tuple[apt.Package, ...], packages: Path, target: Path) -> Path:
    target.mkdir()
    for package in found:
        run(["dpkg-deb", "-x", str(packages / package.file), str(target)])
    return target


def _own_files(root: Path, key: str) -> None:
    for name in ("init", "shutdown"):
        target = root / "usr/sbin" / name
        shutil.copyfile(SCRIPTS / name, target)
        target.chmod(0o755)
    etc = root / "etc"
    (etc / "vnetperf-image").write_text(f"{key}\n")
    (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\n")
    (etc / "hostname").write_text("vnetperf\n")
    (etc / "mtab").symlink_to("/proc/self/mounts")
    for name in ("modprobe", "insmod", "rmmod", "lsmod", "modinfo", "depmod"):
        (root / "usr/sbin" / name).symlink_to("../bin/kmod")
    sh = root / "usr/bin/sh"
    sh.unlink(missing_ok=True)  # a release's dash may bring it
    sh.symlink_to("dash")


def _applets(root: Path) -> None:
    """Links for busybox's programs, where there is no better one of that name."""
    busybox = root / "usr/bin/busybox"
    names = subprocess.run(
        [str(busybox), "--list"], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    for name in names:
        if not any((root / "usr" / folder / name).exists() for folder in ("bin", "sbin")):
            (root / "usr/bin" / name).symlink_to("busybox")


def _initramfs(recipe: Recipe, modules: Modules, folder: Path, root: Path, work: Path) -> bytes:
    """What the kernel unpacks into memory at its start: just enough to find the disk."""
    cpio = Cpio()
    for name in ("bin", "dev", "modules", "proc", "root", "sys"):
        cpio.directory(name)
    cpio.device("dev/console", 5, 1)
    cpio.file("bin/busybox", (root / "usr/bin/busybox").read_bytes(), executable=True)
    cpio.file("init", (SCRIPTS / "boot").read_bytes(), executable=True)
    order = []
    for path in modules.closure(recipe.boot_modules):
        unpack(folder / path, work / Path(path).name)
        name = f"{module_name(path)}.ko"
        cpio.file(f"modules/{name}", (work / plain(Path(path).name)).read_bytes())
        order.append(f"{name}\n")
    cpio.file("modules/order", "".join(order).encode())
    return cpio.packed()
