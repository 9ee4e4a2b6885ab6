"""Kernels: the distribution's own, downloaded and unpacked, not installed; and their modules.

The newest that apt knows is taken: backports have a scheduler with short slices, which pollers on
shared cores need.
"""

from __future__ import annotations

import gzip
import lzma
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.linux import read_file
from vnetperf.host.paths import cache_directory, make_cache
from vnetperf.model.errors import HostError
from vnetperf.virt.tools import (
    APT_CURE,
    Package,
    download_packages,
    exact_packages,
    need_program,
    run_tool,
    signed_repositories,
    unpack_packages,
    work_dir,
)


def lab_dir() -> Path:
    """The lab's directory in the cache; all in it can be made again."""
    return cache_directory() / "lab"


def make_lab_dir() -> Path:
    """The lab's directory, made when it is missing."""
    return make_cache("lab", "the lab")


#: Distribution -> package that depends on its current kernel with all drivers.
META_PACKAGES = {"debian": "linux-image-amd64", "ubuntu": "linux-image-generic"}


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel; its release is that of `uname -r`."""

    release: str
    image: Path
    modules: Path


def cached() -> Kernel | None:
    """The lab's kernel, the latest unpacked when there are several."""
    trees = (make_lab_dir() / "kernel").glob("[!.]*/")
    newest_first = sorted(trees, key=lambda path: path.stat().st_mtime, reverse=True)
    return next((kernel for tree in newest_first if (kernel := find_in(tree))), None)


def fetch(tell: Callable[[str], None]) -> Kernel:
    """Download and unpack the distribution's kernel, unless another process just has."""
    names = packages()
    root = make_lab_dir() / "kernel"
    root.mkdir(exist_ok=True)
    target = root / names[0]
    with work_dir(root) as work:
        if kernel := find_in(target):
            return kernel
        kernel_packages = exact_packages(names, work)
        signed_repositories(kernel_packages)
        download_packages(kernel_packages, work, tell)
        tell("unpacking it")
        kernel = unpack_kernel(kernel_packages, work, work / "tree")
        os.utime(work / "tree")  # the package's own is the day on which it was built
        shutil.rmtree(target, ignore_errors=True)
        (work / "tree").rename(target)
    return Kernel(
        kernel.release,
        target / kernel.image.relative_to(work / "tree"),
        target / kernel.modules.relative_to(work / "tree"),
    )


def unpack_kernel(kernel_packages: Sequence[Package], folder: Path, tree: Path) -> Kernel:
    """Unpack a kernel's packages out of a folder, and resolve what its modules need."""
    unpack_packages(kernel_packages, folder, tree)
    kernel = find_in(tree)
    if kernel is None:
        raise HostError(
            "the kernel's packages hold no kernel with modules",
            where=" ".join(package.name for package in kernel_packages),
            cure=APT_CURE,
        )
    # depmod takes the directory with lib/modules in it for the root.
    run_tool(["depmod", "-b", str(kernel.modules.parents[2]), kernel.release])
    return kernel


def find_in(tree: Path) -> Kernel | None:
    """The kernel of an unpacked package."""
    for image in sorted((tree / "boot").glob("vmlinuz-*")):
        release = image.name.removeprefix("vmlinuz-")
        for base in ("lib", "usr/lib"):
            modules = tree / base / "modules" / release
            if (modules / "kernel").is_dir():
                return Kernel(release, image, modules)
    return None


def packages() -> list[str]:
    """Names of the packages with image and modules, the image first."""
    system = platform.freedesktop_os_release()
    names = [system.get("ID", ""), *system.get("ID_LIKE", "").split()]
    meta = next((META_PACKAGES[name] for name in names if name in META_PACKAGES), None)
    if meta is None or platform.machine() != "x86_64":
        raise HostError(
            "kernels of this distribution are not supported",
            where=f"{system.get('PRETTY_NAME', 'this system')} on {platform.machine()}",
            accepted=f"{' or '.join(META_PACKAGES)} on x86_64",
        )
    description = run_tool(["apt-cache", "show", meta])
    versions = re.findall(r"^Version: (\S+)$", description, re.MULTILINE)
    depends = re.findall(r"^Depends: (.*)$", description, re.MULTILINE)
    if not versions or len(versions) != len(depends):
        raise HostError("apt has no kernel package", where=meta, cure=APT_CURE)
    newest = max(range(len(versions)), key=lambda n: _Version(versions[n]))
    dependencies = re.findall(r"linux-(?:image|modules)[\w.+-]*", depends[newest])
    extra = [
        n.replace("-image-", "-modules-extra-") for n in dependencies if meta.endswith("generic")
    ]
    modules = [n.replace("-image-", "-modules-") for n in dependencies if meta.endswith("generic")]
    return list(dict.fromkeys([*dependencies[:1], *modules, *extra]))


class _Version:
    """A package version, ordered as dpkg orders it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Version) -> bool:
        argv = [need_program("dpkg", "dpkg"), "--compare-versions", self.text, "lt", other.text]
        return subprocess.run(argv, check=False, timeout=20).returncode == 0


class Modules:
    """The modules of an unpacked kernel."""

    def __init__(self, modules: Path) -> None:
        self._folder = modules
        self._needs: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        for line in read_file(modules / "modules.dep").splitlines():
            path, _, others = line.partition(":")
            self._paths[module_name(path)] = path
            self._needs[path] = others.split()
        builtin = read_file(modules / "modules.builtin").split()
        self._builtin = {module_name(path) for path in builtin}

    def closure(self, names: Iterable[str]) -> list[str]:
        """Modules and those they need."""
        modules: dict[str, None] = {}
        for name in names:
            if name in self._builtin:
                continue
            if name not in self._paths:
                raise HostError(
                    f"this kernel has no module {name}",
                    where=self._folder.name,
                    accepted="a kernel of Debian 12, Debian 13 or Ubuntu 24.04",
                )
            path = self._paths[name]
            # Of what it needs, depmod names last what must be loaded first.
            modules.update(dict.fromkeys([*reversed(self._needs[path]), path]))
        return list(modules)

    def take(self, names: Iterable[str], root: Path) -> None:
        """Copy modules into a guest's root, unpacked: unpacking at each start takes longer."""
        release = self._folder.name
        target = root / "usr/lib/modules" / release
        for path in self.closure(names):
            unpack_module(self._folder / path, target / path)
        for name in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, target / name)
        run_tool(["depmod", "-b", str(root), release])


def module_name(path: str) -> str:
    """Name of a module, as the kernel writes it."""
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def uncompressed(path: str | Path) -> str:
    """A module's path without the ending of a compression that `unpack` undoes."""
    return str(path).removesuffix(".xz").removesuffix(".gz")


def unpack_module(source: Path, target: Path) -> None:
    """Copy a module, unpacked when Python can do that; the guest's kmod unpacks the others."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".xz":
        Path(uncompressed(target)).write_bytes(lzma.decompress(source.read_bytes()))
    elif source.suffix == ".gz":
        Path(uncompressed(target)).write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copyfile(source, target)
