"""Kernels: the distribution's own, downloaded and unpacked, not installed; and their modules.

The newest that apt knows is taken: backports have a scheduler with short slices, which pollers on
shared cores need.
"""

from __future__ import annotations

import dataclasses
import gzip
import lzma
import os
import platform
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.paths import cache_directory, make_cache
from vnetperf.model.errors import HostError
from vnetperf.virt.tools import need_program, run_tool


def lab_dir() -> Path:
    """The lab's directory in the cache; all in it can be made again."""
    return cache_directory() / "lab"


def make_lab_dir() -> Path:
    """The lab's directory, made when it is missing."""
    return make_cache("lab", "the lab")


@contextmanager
def run_dir() -> Iterator[Path]:
    """A private directory for one run of the lab, removed at its end."""
    path = make_lab_dir() / "runs" / f"{os.getpid()}-{secrets.token_hex(3)}"
    try:
        path.parent.mkdir(exist_ok=True)
        remove_stale(path.parent)
        path.mkdir(mode=0o700)
    except OSError as error:
        raise HostError(
            f"a directory for this run cannot be made: {error.strerror}",
            where=str(path),
            accepted="a disk with room that you may write to",
            cure="set XDG_CACHE_HOME to a directory on one",
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Remove what processes that were killed have left."""
    for path in folder.iterdir():
        named = re.match(r"(\d+)-|\.(\d+)\.", path.name)
        if named and not Path(f"/proc/{named[1] or named[2]}").exists():
            shutil.rmtree(path, ignore_errors=True)


#: Distribution -> package that depends on its current kernel with all drivers.
META_PACKAGES = {"debian": "linux-image-amd64", "ubuntu": "linux-image-generic"}
DOWNLOAD_S = 600
TOOLS = {"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "depmod": "kmod"}


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel.

    Attributes:
        release: What `uname -r` says in it.
        image: Its bootable image.
        modules: Directory of its modules, with their dependencies worked out.
    """

    release: str
    image: Path
    modules: Path


def cached() -> Kernel | None:
    """The kernel that is there already, the latest unpacked when there are several."""
    root = make_lab_dir() / "kernel"
    done = sorted(root.glob("*/.complete"), key=lambda path: path.stat().st_mtime)
    for mark in reversed(done):
        found = find_in(mark.parent)
        if found is not None:
            return found
    return None


def fetch(tell: Callable[[str], None]) -> Kernel:
    """Download and unpack the distribution's kernel."""
    wanted = packages()
    root = make_lab_dir() / "kernel"
    target = root / wanted[0]
    work = root / f".{os.getpid()}.part"
    root.mkdir(exist_ok=True)
    remove_stale(root)
    shutil.rmtree(work, ignore_errors=True)
    tree = work / "tree"
    tree.mkdir(parents=True)
    try:
        tell(f"fetching {' '.join(wanted)} (once)")
        _run_apt(["apt-get", "download", "-q", *wanted], cwd=work, timeout_s=DOWNLOAD_S)
        tell("unpacking it")
        for package in sorted(work.glob("*.deb")):
            _run_apt(["dpkg-deb", "-x", str(package), str(tree)])
            package.unlink()
        made = find_in(tree)
        if made is None:
            raise HostError(
                "the kernel's packages hold no kernel with modules",
                where=" ".join(wanted),
                cure="apt-get update, then try again",
            )
        _run_apt(["depmod", "-b", str(_modules_root(made)), made.release])
        (tree / ".complete").touch()
        if not (target / ".complete").exists() or find_in(target) is None:
            # Else another process has it by now, and its lab may run on it.
            shutil.rmtree(target, ignore_errors=True)
            tree.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return dataclasses.replace(
        made,
        image=target / made.image.relative_to(tree),
        modules=target / made.modules.relative_to(tree),
    )


def find_in(tree: Path) -> Kernel | None:
    """The kernel of an unpacked package."""
    for image in sorted((tree / "boot").glob("vmlinuz-*")):
        release = image.name.removeprefix("vmlinuz-")
        for base in ("lib", "usr/lib"):
            modules = tree / base / "modules" / release
            if (modules / "kernel").is_dir():
                return Kernel(release, image, modules)
    return None


def _modules_root(kernel: Kernel) -> Path:
    """Directory that depmod takes for the root: the one with ``lib/modules`` in it."""
    return kernel.modules.parents[2]


def packages() -> list[str]:
    """Names of the packages with image and modules, the image first."""
    system = platform.freedesktop_os_release()
    names = [system.get("ID", ""), *system.get("ID_LIKE", "").split()]
    meta = next((META_PACKAGES[name] for name in names if name in META_PACKAGES), None)
    if meta is None or platform.machine() != "x86_64":
        raise HostError(
            "the lab does not know how to get a kernel of this distribution",
            where=f"{system.get('PRETTY_NAME', 'this system')} on {platform.machine()}",
            accepted=f"{' or '.join(META_PACKAGES)} on x86_64",
        )
    known = _run_apt(["apt-cache", "show", meta])
    versions = re.findall(r"^Version: (\S+)$", known, re.MULTILINE)
    depends = re.findall(r"^Depends: (.*)$", known, re.MULTILINE)
    if not versions or len(versions) != len(depends):
        raise HostError(
            "apt knows no kernel package",
            where=meta,
            cure="apt-get update, with a mirror of the distribution configured",
        )
    newest = max(range(len(versions)), key=lambda n: _Version(versions[n]))
    found = re.findall(r"linux-(?:image|modules)[\w.+-]*", depends[newest])
    extra = [n.replace("-image-", "-modules-extra-") for n in found if meta.endswith("generic")]
    modules = [n.replace("-image-", "-modules-") for n in found if meta.endswith("generic")]
    return list(dict.fromkeys([*found[:1], *modules, *extra]))


class _Version:
    """A package version, ordered as dpkg orders it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Version) -> bool:
        argv = [need_program("dpkg", "dpkg"), "--compare-versions", self.text, "lt", other.text]
        return subprocess.run(argv, check=False, timeout=20).returncode == 0


def _run_apt(argv: list[str], *, cwd: Path | None = None, timeout_s: float = 120) -> str:
    command = [need_program(argv[0], TOOLS[argv[0]]), *argv[1:]]
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(
            f"did not end within {timeout_s:g} s", where=" ".join(argv), cure="try again"
        ) from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise HostError(
            f"failed: {' / '.join(last)}",
            where=" ".join(argv),
            cure="apt-get update, with a mirror of the distribution configured, then try again",
        )
    return done.stdout


class Modules:
    """The modules of an unpacked kernel."""

    def __init__(self, modules: Path) -> None:
        self._folder = modules
        base = modules.parents[2]
        run_tool(["depmod", "-b", str(base), modules.name])
        self._needs: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        for line in (modules / "modules.dep").read_text().splitlines():
            path, _, others = line.partition(":")
            self._paths[module_name(path)] = path
            self._needs[path] = others.split()
        builtin = (modules / "modules.builtin").read_text().split()
        self._builtin = {module_name(path) for path in builtin}

    def closure(self, names: Iterable[str]) -> list[str]:
        """Modules and those they need."""
        found: dict[str, None] = {}
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
            found.update(dict.fromkeys([*reversed(self._needs[path]), path]))
        return list(found)

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
    """Name of a module, as the kernel says it."""
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
