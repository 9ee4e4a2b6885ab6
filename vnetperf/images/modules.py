"""Takes kernel modules out of the kernel's package, with those they need."""

from __future__ import annotations

import gzip
import lzma
import shutil
from collections.abc import Iterable
from pathlib import Path

from vnetperf.images.tools import run
from vnetperf.model.errors import HostError


class Modules:
    """The modules of an unpacked kernel.

    Args:
        modules: Its directory of modules, ``.../lib/modules/RELEASE``.
    """

    def __init__(self, modules: Path) -> None:
        self._folder = modules
        base = modules.parents[2]
        run(["depmod", "-b", str(base), modules.name])
        self._needs: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        for line in (modules / "modules.dep").read_text().splitlines():
            path, _, others = line.partition(":")
            self._paths[module_name(path)] = path
            self._needs[path] = others.split()
        builtin = (modules / "modules.builtin").read_text().split()
        self._builtin = {module_name(path) for path in builtin}

    def closure(self, names: Iterable[str]) -> list[str]:
        """Modules and those they need.

        Args:
            names: Names of modules; those built into the kernel are left out.

        Returns:
            Paths relative to the directory of modules, in an order in which they can be loaded.

        Raises:
            HostError: The kernel has no such module.
        """
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
        """Copy modules into a guest's root, unpacked: unpacking at each start takes longer.

        Args:
            names: Names of modules.
            root: The root directory.
        """
        release = self._folder.name
        target = root / "usr/lib/modules" / release
        for path in self.closure(names):
            unpack(self._folder / path, target / path)
        for name in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, target / name)
        run(["depmod", "-b", str(root), release])


def module_name(path: str) -> str:
    """Name of a module, as the kernel says it.

    Args:
        path: Its path.

    Returns:
        E.g. "vfio_pci" of ``kernel/drivers/vfio/pci/vfio-pci.ko.xz``.
    """
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def plain(path: str | Path) -> str:
    """A module's path without the ending of a compression that `unpack` undoes."""
    return str(path).removesuffix(".xz").removesuffix(".gz")


def unpack(source: Path, target: Path) -> None:
    """Copy a module, unpacked when Python can do that; the guest's kmod unpacks the others.

    Args:
        source: The module.
        target: Where it goes; loses the ending of the compression.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".xz":
        Path(plain(target)).write_bytes(lzma.decompress(source.read_bytes()))
    elif source.suffix == ".gz":
        Path(plain(target)).write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copyfile(source, target)
