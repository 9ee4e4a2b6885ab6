"""The lab's kernel: the distribution's own, downloaded and unpacked, not installed.

The newest that apt knows is taken: with backports configured that is the one whose scheduler
gives short slices, which pollers on shared cores need.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vnetperf.lab.place import make_lab_dir, remove_dead
from vnetperf.lab.programs import need
from vnetperf.model.errors import HostError

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
        found = inside(mark.parent)
        if found is not None:
            return found
    return None


def fetch(tell: Callable[[str], None]) -> Kernel:
    """Download and unpack the distribution's kernel.

    Args:
        tell: Told what is being done.

    Returns:
        The kernel.

    Raises:
        HostError: This is no distribution the lab knows, or it could not be had.
    """
    wanted = packages()
    root = make_lab_dir() / "kernel"
    target = root / wanted[0]
    work = root / f".{os.getpid()}.part"
    root.mkdir(exist_ok=True)
    remove_dead(root)
    shutil.rmtree(work, ignore_errors=True)
    tree = work / "tree"
    tree.mkdir(parents=True)
    try:
        tell(f"fetching {' '.join(wanted)} (once)")
        _run(["apt-get", "download", "-q", *wanted], cwd=work, timeout_s=DOWNLOAD_S)
        tell("unpacking it")
        for package in sorted(work.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(tree)])
            package.unlink()
        made = inside(tree)
        if made is None:
            raise HostError(
                "the kernel's packages hold no kernel with modules",
                where=" ".join(wanted),
                cure="apt-get update, then try again",
            )
        _run(["depmod", "-b", str(_modules_root(made)), made.release])
        (tree / ".complete").touch()
        if not (target / ".complete").exists() or inside(target) is None:
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


def inside(tree: Path) -> Kernel | None:
    """The kernel of an unpacked package.

    Args:
        tree: Where it is unpacked.

    Returns:
        The kernel; None when there is none with modules.
    """
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
    """Names of the packages with image and modules, the image first.

    Returns:
        One name, or several where the distribution splits them.

    Raises:
        HostError: This is no distribution the lab knows, or apt has no lists.
    """
    system = platform.freedesktop_os_release()
    names = [system.get("ID", ""), *system.get("ID_LIKE", "").split()]
    meta = next((META_PACKAGES[name] for name in names if name in META_PACKAGES), None)
    if meta is None or platform.machine() != "x86_64":
        raise HostError(
            "the lab does not know how to get a kernel of this distribution",
            where=f"{system.get('PRETTY_NAME', 'this system')} on {platform.machine()}",
            accepted=f"{' or '.join(META_PACKAGES)} on x86_64",
        )
    known = _run(["apt-cache", "show", meta])
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
        argv = [need("dpkg", "dpkg"), "--compare-versions", self.text, "lt", other.text]
        return subprocess.run(argv, check=False, timeout=20).returncode == 0


def _run(argv: list[str], *, cwd: Path | None = None, timeout_s: float = 120) -> str:
    command = [need(argv[0], TOOLS[argv[0]]), *argv[1:]]
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
