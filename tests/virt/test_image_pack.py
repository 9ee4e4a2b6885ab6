"""The same files give the same bytes, and the kernel's form of an initramfs is kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.virt.image_build import Cpio, squashfs
from vnetperf.virt.kernel import module_name


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
