"""Builds a guest image.

Chooses files and libraries out of packages, and packs them reproducibly.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnetperf.host.linux import run_program
from vnetperf.model.errors import HostError
from vnetperf.virt import kernel, tools
from vnetperf.virt.kernel import Modules, module_name, uncompressed, unpack_module
from vnetperf.virt.recipe import SCRIPTS, Recipe
from vnetperf.virt.tools import run_tool

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_DYNAMIC, _LOAD, _INTERPRETER = 2, 1, 3
_NEEDED, _STRTAB = 1, 5


def needed_libraries(path: Path) -> list[str]:
    """Names of the libraries that a file is linked to, and the path of its loader."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return []
        file.seek(0)
        data = file.read()
    (table,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    names: list[str] = []
    for kind, _, offset, _, _, length in headers:
        if kind == _INTERPRETER:
            names.append(data[offset : offset + length].rstrip(b"\0").decode())
        elif kind == _DYNAMIC:
            entries = list(struct.iter_unpack("<QQ", data[offset : offset + length - length % 16]))
            address = next((value for tag, value in entries if tag == _STRTAB), 0)
            strings = _in_file(headers, address)
            for tag, value in entries:
                if tag == _NEEDED:
                    end = data.index(b"\0", strings + value)
                    names.append(data[strings + value : end].decode())
    return names


def _in_file(headers: list[tuple[int, ...]], address: int) -> int:
    """Offset in the file of an address in memory."""
    for kind, _, offset, start, _, length in headers:
        if kind == _LOAD and start <= address < start + length:
            return offset + address - start
    return address


#: Packages have /bin or /usr/bin, by release; the guest has both as the same.
MERGED = ("bin", "sbin", "lib", "lib32", "lib64")


class Tree:
    """A guest's root directory that grows out of unpacked packages."""

    def __init__(self, source: Path, root: Path) -> None:
        self._source = source
        self._root = root
        self._copied: set[Path] = set()
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
        """Paths in the packages."""
        paths: list[Path] = []
        names = [pattern, pattern.replace("/sbin/", "/bin/"), pattern.replace("/bin/", "/sbin/")]
        for name in dict.fromkeys(names):
            for choice in (name, name.removeprefix("usr/")):
                paths += sorted(self._source.glob(choice))
        return paths

    def take(self, pattern: str, *, must: bool = True) -> None:
        """Take files, the links on the way to them, and the libraries they need."""
        paths = self.find(pattern)
        if must and not paths:
            raise HostError(
                "no package of this release brings it",
                where=pattern,
                accepted="Debian 12, Debian 13 or Ubuntu 24.04",
            )
        for path in paths:
            if not path.is_dir() or path.is_symlink():
                self._take(path)

    def _take(self, path: Path) -> None:
        if path in self._copied:
            return
        self._copied.add(path)
        target = self._root / merged_path(path.relative_to(self._source))
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
        for name in needed_libraries(path):
            self._take(self._library(name, path))

    def _inside(self, path: Path, user: Path) -> Path:
        """A path of the packages, on whichever side of /usr it is."""
        relative = merged_path(path.relative_to(self._source))
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


def merged_path(path: Path) -> Path:
    """Where a file of a package is in the guest."""
    return Path("usr", path) if path.parts[0] in MERGED else path


def _lacking(name: str, user: Path) -> HostError:
    return HostError(
        f"{name} is needed and in no package of the image",
        where=user.name,
        cure="this is a fault of the recipe in vnetperf/virt/recipe.py: report it",
    )


#: Every file is from this second, whenever it was made.
EPOCH = 1_000_000_000
_DIRECTORY, _FILE, _DEVICE = 0o040000, 0o100000, 0o020000


class Cpio:
    """An initramfs, in the kernel's own format ("newc"), not compressed."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._number = 0

    def directory(self, name: str) -> None:
        """Add a directory."""
        self._add(name, _DIRECTORY | 0o755, b"")

    def file(self, name: str, data: bytes, *, executable: bool = False) -> None:
        """Add a file."""
        self._add(name, _FILE | (0o755 if executable else 0o644), data)

    def device(self, name: str, major: int, minor: int) -> None:
        """Add a character device."""
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
    """Pack a directory as a read-only file system."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():  # whatever the umask was
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
    # Small blocks: a guest reads pieces of large libraries. zstd is quick to unpack.
    options = "-noappend -no-progress -quiet -comp zstd -b 64K -all-root -no-xattrs -no-exports"
    times = f"-mkfs-time {EPOCH} -all-time {EPOCH}"
    # It refuses these beside the variable.
    run_tool(
        ["mksquashfs", str(root), str(target), *options.split(), *times.split()],
        without=("SOURCE_DATE_EPOCH",),
    )


KERNEL, INITRD, DISK = "vmlinuz", "initrd", "root.squashfs"


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """All that an image is made of."""

    recipe: Recipe
    kernel: tuple[tools.Package, ...]
    packages: tuple[tools.Package, ...]
    repositories: tuple[dict[str, str], ...] = ()

    @property
    def everything(self) -> tuple[tools.Package, ...]:
        """All packages."""
        return (*self.kernel, *self.packages)

    @property
    def key(self) -> str:
        """Hash over all of it."""
        return self.recipe.key(self.everything, platform.machine())


def image_inputs(recipe: Recipe, work: Path) -> ImageInputs:
    """What an image would be made of today, by the distribution."""
    of_kernel = tools.exact_packages(kernel.packages(), work)
    packages = tools.resolve_packages(recipe.packages, recipe.unwanted, work)
    return ImageInputs(
        recipe=recipe,
        kernel=tuple(of_kernel),
        packages=tuple(packages),
        repositories=tuple(tools.signed_repositories([*of_kernel, *packages])),
    )


def build_files(
    made_of: ImageInputs, packages: Path, work: Path, out: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Make an image's files."""
    recipe, key = made_of.recipe, made_of.key
    tell("unpacking")
    source = tools.unpack_packages(made_of.packages, packages, work / "packages")
    unpacked_kernel = kernel.unpack_kernel(made_of.kernel, packages, work / "kernel")
    tell("choosing what a guest needs")
    root = work / "root"
    tree = Tree(source, root)
    for pattern in recipe.programs:
        tree.take(pattern)
    for pattern in recipe.extras:
        tree.take(pattern, must=False)
    modules = Modules(unpacked_kernel.modules)
    modules.take([*recipe.modules, *recipe.boot_modules], root)
    _write_identity_files(root, key)
    _applets(root)
    tell("packing")
    shutil.copyfile(unpacked_kernel.image, out / KERNEL)
    (out / INITRD).write_bytes(_initramfs(recipe, modules, unpacked_kernel.modules, root, work))
    squashfs(root, out / DISK)
    size = sum(path.stat().st_size for path in out.iterdir())
    if size > recipe.limit_mib << 20:
        raise HostError(
            f"the image has {size >> 20} MiB",
            where=recipe.name,
            accepted=f"at most {recipe.limit_mib} MiB",
            cure="this is a fault of the recipe in vnetperf/virt/recipe.py: report it",
        )
    return {
        "kernel_release": unpacked_kernel.release,
        "size": size,
        "packages": {package.name: package.version for package in made_of.everything},
        "repositories": list(made_of.repositories),
    }


def _write_identity_files(root: Path, key: str) -> None:
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
    for name in run_program([str(busybox), "--list"], 60, check=True).stdout.split():
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
        unpack_module(folder / path, work / Path(path).name)
        name = f"{module_name(path)}.ko"
        cpio.file(f"modules/{name}", (work / uncompressed(Path(path).name)).read_bytes())
        order.append(f"{name}\n")
    cpio.file("modules/order", "".join(order).encode())
    return cpio.packed()
