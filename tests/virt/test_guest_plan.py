"""Overlays: as large as what is beneath, which is named in them, and nothing in them yet."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from vnetperf.model.errors import HostError
from vnetperf.virt.guest_plan import CLUSTER, QCOW2_HEADER, QCOW2_MAGIC, disk_size, make_overlay


@pytest.mark.parametrize("mib", [1, 512, 513, 5 << 20])
def test_an_overlay_is_as_large_as_what_is_beneath(tmp_path: Path, mib: int) -> None:
    base, overlay = tmp_path / "base.img", tmp_path / "overlay.qcow2"
    with base.open("wb") as file:
        file.truncate(mib << 20)
    make_overlay(overlay, base, "raw")
    assert disk_size(overlay, "qcow2") == mib << 20
    again = tmp_path / "again.qcow2"
    make_overlay(again, overlay, "qcow2")
    assert disk_size(again, "qcow2") == mib << 20
    content = overlay.read_bytes()
    fields = struct.unpack(QCOW2_HEADER, content[: struct.calcsize(QCOW2_HEADER)])
    at, length, entries, table = fields[2], fields[3], fields[7], fields[8]
    assert content[at : at + length].decode() == str(base)
    assert entries * 512 >= mib  # an entry stands for 512 MiB
    assert len(content) >= table + entries * 8
    used = len(content) // CLUSTER
    assert content[2 * CLUSTER : 2 * CLUSTER + 2 * used] == b"\0\1" * used


def test_what_is_no_image_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.qcow2").write_text("hello")
    with pytest.raises(HostError, match="is no qcow2 image"):
        make_overlay(tmp_path / "o", tmp_path / "text.qcow2", "qcow2")
    (tmp_path / "short.qcow2").write_bytes(QCOW2_MAGIC)
    with pytest.raises(HostError, match="is no qcow2 image"):
        disk_size(tmp_path / "short.qcow2", "qcow2")
    with pytest.raises(HostError, match="cannot be read"):
        make_overlay(tmp_path / "o", tmp_path / "none.img", "raw")
