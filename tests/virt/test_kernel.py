"""Kernels of guests and their modules."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.model.errors import HostError
from vnetperf.virt import kernel
from vnetperf.virt.kernel import Modules

SHOW = """printf '%s\\n' 'Version: 6.1.9-1' 'Depends: linux-image-6.1-amd64 (= 6.1.9-1)' '' \
    'Version: 6.12.3-1~bpo12+1' 'Depends: linux-image-6.12-amd64 (= 6.12.3)'"""
FILE = "linux-image-6.12-amd64_1_amd64.deb"
SUM = hashlib.sha256(b"a kernel").hexdigest()
#: Names the package's file and its sum, or brings it.
APT = f"""case "$*" in
indextargets*) printf 'mirror:/\tmirror:/d/\t%s/x\tyes\tDebian\t-\t-\n' "$LISTS";;
*--print-uris*) echo "'mirror:/{FILE}' {FILE} 8 SHA256:{SUM}";;
*) printf 'a kernel' >{FILE};;
esac"""
UNPACK = 'mkdir -p "$3/boot" "$3/lib/modules/6.12/kernel"; touch "$3/boot/vmlinuz-6.12"'
DEPMOD = 'touch "$2/lib/modules/$3/modules.dep"'


def trees(lab_home: Path) -> list[str]:
    return [path.name for path in (lab_home / "kernel").iterdir() if path.name != "lock"]


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("LISTS", str(tmp_path))
    (tmp_path / "mirror:_d_InRelease").write_text("signed")


@pytest.mark.usefixtures("debian")
def test_the_newest_known_is_fetched_once(lab_home: Path, programs: Programs) -> None:
    programs({"apt-cache": SHOW, "apt-get": APT, "dpkg-deb": UNPACK, "depmod": DEPMOD})
    assert kernel.cached() is None
    told: list[str] = []
    found = kernel.fetch(told.append)
    assert found.release == "6.12"
    assert found.image.is_file()
    assert (found.modules / "modules.dep").is_file()
    assert found.image.is_relative_to(lab_home)
    assert "fetching 1 packages" in told[0]
    assert kernel.cached() == found
    assert trees(lab_home) == ["linux-image-6.12-amd64"]


@pytest.mark.usefixtures("debian")
def test_a_fetch_that_fails_says_why_and_leaves_nothing(lab_home: Path, programs: Programs) -> None:
    programs({"apt-cache": SHOW, "apt-get": "echo 'E: no network' >&2; exit 100"})
    with pytest.raises(HostError, match="no network") as caught:
        kernel.fetch(lambda _: None)
    assert "apt-get update" in caught.value.cure
    assert trees(lab_home) == []


@pytest.mark.usefixtures("debian")
def test_what_a_killed_fetch_has_left_is_removed(lab_home: Path, programs: Programs) -> None:
    programs({"apt-cache": SHOW, "apt-get": APT, "dpkg-deb": UNPACK, "depmod": DEPMOD})
    (lab_home / "kernel" / ".77.part" / "tree").mkdir(parents=True)
    kernel.fetch(lambda _: None)
    assert trees(lab_home) == ["linux-image-6.12-amd64"]


@pytest.mark.usefixtures("debian")
def test_a_kernel_that_another_has_fetched_meanwhile_is_left(
    lab_home: Path, programs: Programs
) -> None:
    other = lab_home / "kernel" / "linux-image-6.12-amd64"
    (other / "boot").mkdir(parents=True)
    (other / "lib/modules/6.12/kernel").mkdir(parents=True)
    (other / "boot/vmlinuz-6.12").touch()
    programs({"apt-cache": SHOW, "apt-get": "exit 1"})
    assert kernel.fetch(pytest.fail).image == other / "boot/vmlinuz-6.12"


@pytest.mark.usefixtures("lab_home")
def test_what_was_left_half_unpacked_is_not_taken(lab_home: Path) -> None:
    tree = lab_home / "kernel" / "linux-image-6.12-amd64"
    (tree / "boot").mkdir(parents=True)
    (tree / "boot/vmlinuz-6.12").touch()
    assert kernel.cached() is None


def test_an_unknown_distribution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "platform.freedesktop_os_release", lambda: {"ID": "x", "PRETTY_NAME": "X 1"}
    )
    with pytest.raises(HostError) as caught:
        kernel.packages()
    assert "X 1" in caught.value.where
    assert "debian" in caught.value.accepted


# Of what a module needs, depmod says last what must be loaded first.
DEP = """kernel/a.ko.xz: kernel/b.ko.xz kernel/c.ko.xz
kernel/b.ko.xz: kernel/c.ko.xz
kernel/c.ko.xz:
kernel/unused.ko.xz:
"""


@pytest.fixture
def modules(tmp_path: Path, programs: Programs) -> Modules:
    programs({"depmod": f'echo "$@" >>{tmp_path}/depmod'})
    folder = tmp_path / "tree/lib/modules/6.12"
    (folder / "kernel").mkdir(parents=True)
    (folder / "modules.dep").write_text(DEP)
    (folder / "modules.builtin").write_text("kernel/virtio-pci.ko\n")
    for name in "abc":
        (folder / f"kernel/{name}.ko.xz").write_bytes(lzma.compress(name.encode()))
    return Modules(folder)


def test_what_a_module_needs_is_loaded_before_it(modules: Modules) -> None:
    expected = ["kernel/c.ko.xz", "kernel/b.ko.xz", "kernel/a.ko.xz"]
    assert modules.closure(["virtio_pci", "a"]) == expected
    assert modules.closure(["b", "a"]) == expected


def test_modules_are_taken_unpacked(modules: Modules, tmp_path: Path) -> None:
    modules.take(["b"], tmp_path / "root")
    target = tmp_path / "root/usr/lib/modules/6.12"
    assert (target / "kernel/b.ko").read_text() == "b"
    assert sorted(path.name for path in (target / "kernel").iterdir()) == ["b.ko", "c.ko"]
    called = (tmp_path / "depmod").read_text().splitlines()
    assert called == [f"-b {tmp_path}/root 6.12"]


def test_a_module_that_the_kernel_does_not_have_is_an_error(modules: Modules) -> None:
    with pytest.raises(HostError, match="no module e1000"):
        modules.closure(["a", "e1000"])
