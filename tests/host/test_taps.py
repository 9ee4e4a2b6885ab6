from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import pytest

from vnetperf.host import links
from vnetperf.host.journal import Journal
from vnetperf.model.errors import HostError

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not links.TUN_DEVICE.exists(), reason="the kernel has no /dev/net/tun"),
]


def open_queue(name: str, flags: int) -> int:
    device = os.open(links.TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, links.TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    except OSError:
        os.close(device)
        raise
    return device


def test_it_outlives_who_made_it_and_can_be_opened_twice(journal: Journal, run_id: str) -> None:
    links.create_tap(journal, f"{run_id}t")
    assert links.get(f"{run_id}t").kind == "tun"
    flags = links.IFF_TAP | links.IFF_NO_PI | links.IFF_MULTI_QUEUE
    queues = [open_queue(f"{run_id}t", flags) for _ in range(2)]
    links.set_up(f"{run_id}t")
    assert links.get(f"{run_id}t").carrier
    for queue in queues:
        os.close(queue)
    assert links.find(f"{run_id}t") is not None
    assert journal.undo().complete
    assert links.find(f"{run_id}t") is None


def test_one_of_a_single_queue_refuses_a_second(journal: Journal, run_id: str) -> None:
    links.create_tap(journal, f"{run_id}t", multi_queue=False)
    first = open_queue(f"{run_id}t", links.IFF_TAP | links.IFF_NO_PI)
    with pytest.raises(OSError, match="busy"):
        open_queue(f"{run_id}t", links.IFF_TAP | links.IFF_NO_PI)
    os.close(first)


def test_a_taken_name_is_told(journal: Journal, run_id: str) -> None:
    links.create_tap(journal, f"{run_id}t")
    with pytest.raises(HostError, match="exists already"):
        links.create_tap(journal, f"{run_id}t")


def test_no_device_names_the_cure(
    journal: Journal, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "TUN_DEVICE", tmp_path / "tun")
    with pytest.raises(HostError, match="modprobe tun"):
        links.create_tap(journal, f"{run_id}t")
    assert journal.undo().complete
