"""What these tests share: a cache of their own, a builder that takes no time, made-up programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetperf.virt import image_build, images, tools
from vnetperf.virt.kernel import Kernel
from vnetperf.virt.recipe import VLOOP
from vnetperf.virt.tools import Package


@pytest.fixture
def store_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vnetperf" / "images"


def package(name: str, version: str = "1.0-1", sha256: str = "0" * 64) -> Package:
    return Package(name, version, f"{name}_{version}_amd64.deb", 10, sha256)


class Distribution:
    """A distribution whose packages are made up; `release` is what testpmd's version is today."""

    def __init__(self) -> None:
        self.release = "22.11"
        self.built: list[str] = []

    def inputs(self, *_: object) -> image_build.ImageInputs:
        packages = (package("dpdk-dev", self.release), package("busybox-static"))
        return image_build.ImageInputs(VLOOP, (package("linux-image"),), packages)

    def build(self, made_of: image_build.ImageInputs, *folders: Any) -> dict[str, Any]:
        out = folders[2]
        for name in (image_build.KERNEL, image_build.INITRD, image_build.DISK):
            (out / name).write_bytes(f"{name} of {self.release}".encode() * 100)
        self.built.append(made_of.key)
        versions = {p.name: p.version for p in made_of.everything}
        return {"kernel_release": "6.12", "size": 3000, "packages": versions}

    def download(self, packages: tuple[Package, ...], folder: Path, _: object) -> None:
        for each in packages:
            (folder / each.file).touch()

    def image(self) -> images.Image:
        return images.build("vloop", lambda _: None)


@pytest.fixture
def distribution(store_home: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    made = Distribution()
    monkeypatch.setattr(image_build, "image_inputs", made.inputs)
    monkeypatch.setattr(image_build, "build_files", made.build)
    monkeypatch.setattr(tools, "download_packages", made.download)
    return made


@pytest.fixture
def lab_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lab's directory, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vnetperf" / "lab"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A kernel that nothing boots."""
    return Kernel("6.1.0-test", tmp_path / "vmlinuz", tmp_path / "modules")
