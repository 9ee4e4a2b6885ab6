"""Guest images: recipe, tree, archive, and the command that builds them."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Programs
from tests.virt.conftest import Distribution, package
from vnetperf.cli import main
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.virt import image_build
from vnetperf.virt.image_build import Cpio, Tree, needed_libraries, squashfs
from vnetperf.virt.kernel import module_name
from vnetperf.virt.recipe import RECIPES, VLOOP, recipe
from vnetperf.virt.tools import Package

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


def unpacked(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Name -> mode and content, read as the kernel's documentation describes the form."""
    found, at = {}, 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + length - 1].decode()
        at += (110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, data[at : at + size])
        at += (size + 3) // 4 * 4


@given(st.dictionaries(st.text("abc/.", min_size=1), st.binary(max_size=40), max_size=6))
def test_what_is_packed_can_be_unpacked(files: dict[str, bytes]) -> None:
    cpio = Cpio()
    cpio.directory("dev")
    cpio.device("dev/console", 5, 1)
    for name, data in files.items():
        cpio.file(name, data, executable=name.startswith("a"))
    found = unpacked(cpio.packed())
    assert found.pop("dev") == (0o040755, b"")
    assert found.pop("dev/console") == (0o020600, b"")
    modes = {name: 0o100755 if name.startswith("a") else 0o100644 for name in files}
    assert found == {name: (modes[name], data) for name, data in files.items()}


@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="there is no mksquashfs")
def test_a_disk_is_the_same_whenever_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "77")

    def disk(number: int, order: list[str], mask: int) -> bytes:
        before = os.umask(mask)
        root = tmp_path / f"root{number}"
        root.mkdir()
        for name in order:
            (root / name).write_text(name * 1000)
            os.utime(root / name, (number, number))
        os.umask(before)
        os.utime(root, (number, number))
        squashfs(root, tmp_path / f"disk{number}")
        return (tmp_path / f"disk{number}").read_bytes()

    assert disk(1, ["a", "b", "c"], 0o022) == disk(500_000, ["c", "a", "b"], 0o077)


@pytest.mark.parametrize("path", ["kernel/vfio-pci.ko.xz", "a/vfio-pci.ko", "vfio_pci.ko.zst"])
def test_modules_are_called_as_the_kernel_calls_them(path: str) -> None:
    assert module_name(path) == "vfio_pci"


LIBRARIES = "usr/lib/x86_64-linux-gnu"


def put(source: Path, path: str, text: str = "x", mode: int = 0o644) -> Path:
    target = source / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)
    return target


def link(source: Path, path: str, to: str) -> None:
    (source / path).parent.mkdir(parents=True, exist_ok=True)
    (source / path).symlink_to(to)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def test_the_libraries_of_a_program_are_read() -> None:
    found = needed_libraries(Path("/bin/sh").resolve())
    assert "libc.so.6" in found
    assert any(name.startswith("/lib") and "ld-linux" in name for name in found)


def test_what_is_no_program_needs_nothing(source: Path) -> None:
    assert needed_libraries(put(source, "a", "#!/bin/sh\n")) == []
    assert needed_libraries(put(source, "b", "")) == []


@pytest.mark.parametrize("place", ["bin/ip", "usr/bin/ip", "sbin/ip", "usr/sbin/ip"])
def test_a_program_is_found_where_the_release_has_it(
    tmp_path: Path, source: Path, place: str
) -> None:
    put(source, place, mode=0o755)
    tree = Tree(source, tmp_path / "root")
    tree.take("usr/bin/ip")
    found = tmp_path / "root" / place
    assert found.read_text() == "x"
    assert os.access(found, os.X_OK)
    assert (tmp_path / "root/usr" / place.removeprefix("usr/")).exists()


def test_a_program_comes_with_libraries_of_either_side(tmp_path: Path, source: Path) -> None:
    sh = put(source, "bin/dash")
    shutil.copyfile("/bin/sh", sh)
    loader = next(name for name in needed_libraries(sh) if name.startswith("/"))
    put(source, "lib/x86_64-linux-gnu/libc.so.6")
    link(source, loader.lstrip("/"), "/lib/x86_64-linux-gnu/ld-2.so")
    put(source, f"{LIBRARIES}/ld-2.so")
    for name in needed_libraries(sh):
        if name not in (loader, "libc.so.6"):
            put(source, f"{LIBRARIES}/{name}")
    put(source, f"{LIBRARIES}/libunused.so.1")
    root = tmp_path / "root"
    Tree(source, root).take("usr/bin/dash")
    assert (root / LIBRARIES / "libc.so.6").is_file()
    assert (root / LIBRARIES / "ld-2.so").is_file()
    assert os.path.lexists(root / "usr" / loader.lstrip("/"))
    assert not (root / LIBRARIES / "libunused.so.1").exists()


def test_links_bring_what_they_point_to(tmp_path: Path, source: Path) -> None:
    put(source, f"{LIBRARIES}/dpdk/pmds-23.0/librte_a.so.23.0")
    link(source, f"{LIBRARIES}/librte_a.so.23", "dpdk/pmds-23.0/librte_a.so.23")
    link(source, f"{LIBRARIES}/dpdk/pmds-23.0/librte_a.so.23", "librte_a.so.23.0")
    root = tmp_path / "root"
    Tree(source, root).take("usr/lib/*/librte_a.so.*")
    assert (root / LIBRARIES / "librte_a.so.23").resolve().read_text() == "x"


def test_a_library_in_no_package_is_an_error(tmp_path: Path, source: Path) -> None:
    shutil.copyfile("/bin/sh", put(source, "bin/dash"))
    with pytest.raises(HostError, match=r"dash: .* is needed and in no package"):
        Tree(source, tmp_path / "root").take("usr/bin/dash")


def test_what_no_package_brings_is_an_error_unless_it_may_be_missing(
    tmp_path: Path, source: Path
) -> None:
    tree = Tree(source, tmp_path / "root")
    tree.take("usr/sbin/xdp-bench", must=False)
    with pytest.raises(HostError, match="usr/sbin/xdp-bench"):
        tree.take("usr/sbin/xdp-bench")


names = st.text("abcdefgh-123", min_size=1, max_size=12)
packages = st.lists(
    st.builds(package, names, names), min_size=1, max_size=8, unique_by=lambda p: p.name
)


@given(packages, st.randoms())
def test_the_order_of_packages_does_not_matter(found: list[Package], order: Random) -> None:
    shuffled = list(found)
    order.shuffle(shuffled)
    assert VLOOP.key(found, "x86_64") == VLOOP.key(shuffled, "x86_64")


@given(packages, st.sampled_from(["version", "sha256", "name"]), st.data())
def test_any_other_package_is_another_key(
    found: list[Package], field: str, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(found) - 1))
    changed = list(found)
    other = getattr(found[index], field) + "x"
    changed[index] = dataclasses.replace(found[index], **{field: other})
    assert VLOOP.key(found, "x86_64") != VLOOP.key(changed, "x86_64")


def test_recipe_and_processor_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [package("dpdk-dev")]
    own = VLOOP.key(found, "x86_64")
    assert own != VLOOP.key(found, "aarch64")
    for field in dataclasses.fields(VLOOP):
        value = getattr(VLOOP, field.name)
        other = value + 1 if isinstance(value, int) else value + value[:1]
        changed = dataclasses.replace(VLOOP, **{field.name: other})
        assert changed.key(found, "x86_64") != own, field.name
    monkeypatch.setattr("vnetperf.virt.recipe.METHOD", 99)
    assert VLOOP.key(found, "x86_64") != own


def test_the_guest_s_scripts_are_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = VLOOP.key([], "x86_64")
    (tmp_path / "init").write_text("#!/bin/sh\n")
    monkeypatch.setattr("vnetperf.virt.recipe.SCRIPTS", tmp_path)
    assert VLOOP.key([], "x86_64") != own


def test_an_unknown_image_is_refused() -> None:
    with pytest.raises(ConfigError, match="accepted: endpoint, mpi, vepc, vloop"):
        recipe("vlop")
    assert all(name == each.name for name, each in RECIPES.items())


def test_build_list_verify_gc(
    distribution: Distribution, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "list"]) == 0
    assert "vnetperf image build vloop" in capsys.readouterr().err
    assert main(["image", "build", "vloop"]) == 0
    key = distribution.built[0]
    assert f"vloop {key}" in capsys.readouterr().out
    assert main(["image", "list"]) == 0
    assert key in capsys.readouterr().out
    assert main(["image", "verify"]) == 0
    assert "as it was built" in capsys.readouterr().out
    assert main(["image", "gc"]) == 0
    assert capsys.readouterr().out == ""


def test_verify_names_what_is_damaged(
    distribution: Distribution, store_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = distribution.image().kernel.parent
    (folder / "root.squashfs").unlink()
    assert main(["image", "verify"]) == 1
    said = capsys.readouterr().out
    assert "root.squashfs" in said
    assert "cure: vnetperf image build vloop" in said
    assert main(["image", "gc"]) == 0
    assert str(distribution.built[0]) in capsys.readouterr().out
    assert not folder.exists()


def test_an_unknown_name_is_refused(
    distribution: Distribution, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "build", "vlop"]) == 1
    assert "endpoint, mpi, vepc, vloop" in capsys.readouterr().err
