"""From packages to an image's files, with made-up tools and packages."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.conftest import Programs
from tests.virt.conftest import package
from tests.virt.test_image_pack import unpacked
from vnetperf.model.errors import HostError
from vnetperf.virt import image_build
from vnetperf.virt.recipe import VLOOP

#: Every package has all of this in it.
UNPACK = """cd "$3" || exit 1
mkdir -p boot lib/modules/6.12/kernel usr/bin usr/sbin
touch boot/vmlinuz-6.12 lib/modules/6.12/modules.builtin
for name in virtio_blk squashfs e1000; do
    echo $name >lib/modules/6.12/kernel/$name.ko
    echo kernel/$name.ko:
done >lib/modules/6.12/modules.dep
printf '#!/bin/sh\\necho ls ip sh kmod\\n' >usr/bin/busybox
chmod 755 usr/bin/busybox
touch usr/bin/dash usr/bin/kmod usr/sbin/ip"""
#: The disk is a list of what is in it.
SQUASHFS = '(cd "$1" && find . -name "[a-z]*" | sort) >"$2"'
RECIPE = dataclasses.replace(
    VLOOP,
    programs=("usr/bin/busybox", "usr/bin/dash", "usr/bin/kmod", "usr/sbin/ip"),
    extras=("usr/bin/none",),
    modules=("e1000",),
    boot_modules=("virtio_blk", "squashfs"),
)


@pytest.fixture
def folders(tmp_path: Path, programs: Programs) -> tuple[Path, Path, Path]:
    programs({"dpkg-deb": UNPACK, "depmod": "true", "mksquashfs": SQUASHFS})
    made = (tmp_path / "packages", tmp_path / "work", tmp_path / "out")
    for folder in made:
        folder.mkdir()
    return made


def made_of(limit_mib: int = 200) -> image_build.ImageInputs:
    recipe = dataclasses.replace(RECIPE, limit_mib=limit_mib)
    return image_build.ImageInputs(recipe, (package("linux-image"),), (package("busybox-static"),))


def test_an_image_has_what_the_recipe_says(folders: tuple[Path, Path, Path]) -> None:
    packages, work, out = folders
    facts = image_build.build_files(made_of(), packages, work, out, lambda _: None)
    assert facts["kernel_release"] == "6.12"
    assert facts["packages"] == {"linux-image": "1.0-1", "busybox-static": "1.0-1"}
    assert facts["size"] == sum(path.stat().st_size for path in out.iterdir())
    first = unpacked((out / image_build.INITRD).read_bytes())
    assert first["modules/order"][1] == b"virtio_blk.ko\nsquashfs.ko\n"
    assert first["modules/squashfs.ko"][1] == b"squashfs\n"
    assert first["init"][0] == 0o100755
    assert "modules/e1000.ko" not in first
    disk = (out / image_build.DISK).read_text().split()
    assert "./usr/lib/modules/6.12/kernel/e1000.ko" in disk
    assert {"./usr/sbin/init", "./usr/bin/sh", "./usr/sbin/modprobe", "./usr/bin/ls"} <= set(disk)
    assert "./usr/bin/ip" not in disk  # busybox's own would hide the real one
    root = work / "root"
    assert (root / "usr/bin/sh").readlink() == Path("dash")
    assert (root / "etc/vnetperf-image").read_text() == made_of().key + "\n"


def test_an_image_that_is_too_large_is_refused(folders: tuple[Path, Path, Path]) -> None:
    packages, work, out = folders
    with pytest.raises(HostError, match="accepted: at most 0 MiB"):
        image_build.build_files(made_of(limit_mib=0), packages, work, out, lambda _: None)


def test_a_kernel_that_is_none_is_an_error(
    folders: tuple[Path, Path, Path], programs: Programs
) -> None:
    programs({"dpkg-deb": 'mkdir -p "$3/usr/bin"'})
    packages, work, out = folders
    with pytest.raises(HostError, match="no kernel"):
        image_build.build_files(made_of(), packages, work, out, lambda _: None)


def test_a_tool_that_is_missing_is_named_with_its_package(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vnetperf.virt.tools.shutil.which", lambda *_, **__: None)
    packages, work, out = folders
    with pytest.raises(HostError, match="dpkg") as caught:
        image_build.build_files(made_of(), packages, work, out, lambda _: None)
    assert "install-deps" in caught.value.cure
