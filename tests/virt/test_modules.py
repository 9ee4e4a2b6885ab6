"""Which modules come along, and in which order they are loaded."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.model.errors import HostError
from vnetperf.virt.kernel import Modules

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
