"""What is taken out of packages: programs, links, libraries, wherever the release has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from vnetperf.model.errors import HostError
from vnetperf.virt.image_build import Tree, needed_libraries

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
