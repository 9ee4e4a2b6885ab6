"""What the tests of images share: a store of their own, and a builder that takes no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetperf.images import apt, building, image
from vnetperf.images.apt import Package
from vnetperf.images.recipe import VLOOP


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

    def inputs(self, *_: object) -> building.Inputs:
        packages = (package("dpdk-dev", self.release), package("busybox-static"))
        return building.Inputs(VLOOP, (package("linux-image"),), packages)

    def build(self, made_of: building.Inputs, *folders: Any) -> dict[str, Any]:
        out = folders[2]
        for name in (building.KERNEL, building.INITRD, building.DISK):
            (out / name).write_bytes(f"{name} of {self.release}".encode() * 100)
        self.built.append(made_of.key)
        versions = {p.name: p.version for p in made_of.everything}
        return {"kernel_release": "6.12", "size": 3000, "packages": versions}

    def download(self, packages: tuple[Package, ...], folder: Path, _: object) -> None:
        for each in packages:
            (folder / each.file).touch()

    def image(self) -> image.Image:
        return image.build("vloop", lambda _: None)


@pytest.fixture
def distribution(store_home: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    made = Distribution()
    monkeypatch.setattr(building, "inputs", made.inputs)
    monkeypatch.setattr(building, "build", made.build)
    monkeypatch.setattr(apt, "download", made.download)
    return made
