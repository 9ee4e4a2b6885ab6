"""Images in the store: found, checked, replaced, cleared up."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.virt.conftest import Distribution
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.virt import images

FILES = ["vmlinuz", "initrd", "root.squashfs", "image.json"]


def older(entry: Path, seconds: int) -> None:
    then = entry.stat().st_mtime - seconds
    os.utime(entry, (then, then))


def spoil(path: Path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


def test_there_is_none_before_one_is_built(store_home: Path) -> None:
    assert images.find() is None
    assert images.list_entries() == []
    assert images.remove_old() == []
    assert not any(store_home.glob(".*.part"))


def test_the_same_packages_are_built_once(distribution: Distribution, store_home: Path) -> None:
    made = distribution.image()
    assert images.find("vloop") == made
    assert distribution.image() == made
    assert distribution.built == [made.key]
    assert stat.S_IMODE(store_home.stat().st_mode) == 0o700
    assert stat.S_IMODE(made.kernel.parent.stat().st_mode) == 0o700
    assert made.cmdline.endswith(f" vnetperf.image={made.key}")
    assert made.facts["packages"]["dpdk-dev"] == "22.11"
    assert not any(store_home.glob(".*.part"))


def test_the_newest_built_is_the_one(distribution: Distribution) -> None:
    first = distribution.image()
    older(first.kernel.parent, 100)
    distribution.release = "23.11"
    second = distribution.image()
    assert second.key != first.key
    assert images.find() == second
    older(second.kernel.parent, 50)
    distribution.release = "22.11"  # back again: asked for last, so it is the one
    assert distribution.image() == first
    assert images.find() == first
    assert len(distribution.built) == 2


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_damaged_image_is_one_error_and_is_built_again(
    distribution: Distribution, name: str, damage: str
) -> None:
    made = distribution.image()
    path = made.kernel.parent / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        spoil(path, content[:-7] if damage == "cut" else content.replace(b"6", b"7").swapcase())
    with pytest.raises(HostError) as caught:
        images.find()
    assert str(path) in str(caught.value)
    assert caught.value.cure == "vnetperf image build vloop"
    assert distribution.image() == made
    assert path.read_bytes() == content
    assert images.find() == made


def test_what_the_manifest_says_cannot_be_changed_unseen(distribution: Distribution) -> None:
    made = distribution.image()
    path = made.kernel.parent / "image.json"
    said = json.loads(path.read_text())
    spoil(path, json.dumps({**said, "cmdline": "init=/bin/sh"}).encode())
    with pytest.raises(HostError, match="not what was built"):
        images.find()


def test_an_image_under_another_key_is_damaged(distribution: Distribution) -> None:
    folder = distribution.image().kernel.parent
    folder.rename(folder.with_name("vloop-0123456789"))
    with pytest.raises(HostError, match="not what was built"):
        images.find()


def test_an_image_for_another_processor_is_one_error(
    distribution: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("platform.machine", lambda: "aarch64")
        distribution.image()
    with pytest.raises(HostError) as caught:
        images.find()
    assert "built for processors aarch64" in str(caught.value)
    assert caught.value.cure == "vnetperf image build vloop"


def test_the_newest_stays_with_its_packages(distribution: Distribution, store_home: Path) -> None:
    first = distribution.image()
    older(first.kernel.parent, 100)
    distribution.release = "23.11"
    second = distribution.image()
    assert len(list((store_home / "packages").iterdir())) == 4
    assert [entry.key for entry in images.remove_old()] == [first.key]
    assert images.find() == second
    assert not first.kernel.exists()
    left = sorted(path.name for path in (store_home / "packages").iterdir())
    assert left == [f"{n}_amd64.deb" for n in ("busybox-static_1.0-1", "dpdk-dev_23.11")] + [
        "linux-image_1.0-1_amd64.deb"
    ]


def test_a_damaged_one_goes_and_the_next_newest_stays(distribution: Distribution) -> None:
    first = distribution.image()
    older(first.kernel.parent, 100)
    distribution.release = "23.11"
    second = distribution.image()
    spoil(second.kernel, b"")
    assert [entry.key for entry in images.remove_old()] == [second.key]
    assert images.find() == first


def test_a_build_that_fails_leaves_the_former_image(
    distribution: Distribution, store_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = distribution.image()

    def fail(*_: object) -> None:
        raise HostError("the disk is full")

    monkeypatch.setattr("vnetperf.virt.image_build.build_files", fail)
    distribution.release = "23.11"
    with pytest.raises(HostError, match="disk is full"):
        distribution.image()
    assert images.find() == made
    assert not any(store_home.glob(".*.part"))


def test_an_unknown_image_is_not_built(distribution: Distribution) -> None:
    with pytest.raises(ConfigError, match="vlop"):
        images.build("vlop", lambda _: None)


def test_a_store_that_others_can_write_to_is_not_trusted(
    distribution: Distribution, store_home: Path
) -> None:
    distribution.image()
    store_home.chmod(0o777)
    with pytest.raises(HostError, match="cannot be trusted"):
        images.find()


def test_a_look_tells_of_each_name_whether_it_can_be_booted(
    distribution: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert images.problems() == {}
    made = distribution.image()
    assert images.problems() == {"vloop": ""}
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("platform.machine", lambda: "riscv64")
        assert "for riscv64, which this machine is" in images.problems()["vloop"]
    spoil(made.kernel, b"not a kernel")
    assert "the guest image is damaged" in images.problems()["vloop"]
    made.kernel.parent.parent.chmod(0o777)
    assert "may be written to by others" in images.problems()["vloop"]
