"""The kit's end of a vhost-user socket, at a switch that sends each frame back."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vnetperf.host.wait import wait_for
from vnetperf.model.errors import GeneratorError
from vnetperf.testing import vhost
from vnetperf.testing.vhost import SLOTS, VhostUserPort


class Switch(threading.Thread):
    """A vhost-user client, as a switch is: it maps what it is given, by what it is told of it."""

    def __init__(self, path: Path, features: int = vhost.FEATURES) -> None:
        super().__init__(daemon=True)
        self.path, self.features = path, features
        self.told: dict[tuple[int, int], bytes] = {}
        self.memory: mmap.mmap | None = None
        self.ready, self.hang_up = threading.Event(), threading.Event()
        self.taken = self.given = 0
        self.start()

    def run(self) -> None:
        with socket.socket(socket.AF_UNIX) as control:
            wait_for(lambda: control.connect_ex(str(self.path)) == 0, 10, "the socket")
            while (vhost.SET_VRING_KICK, vhost.SEND) not in self.told:
                head, files, _, _ = control.recvmsg(vhost.HEADER.size, 64)
                if not head:
                    return
                request, _, length = vhost.HEADER.unpack(head)
                self._take(control, request, control.recv(length) if length else b"", files)
            self.ready.set()
            self.hang_up.wait(30)

    def _take(self, control: socket.socket, request: int, body: bytes, files: list[object]) -> None:
        if request == vhost.GET_FEATURES:
            flags = vhost.VERSION | vhost.REPLY
            control.send(vhost.HEADER.pack(request, flags, 8) + self.features.to_bytes(8, "little"))
        given = [fd for _, _, data in files for fd in array.array("i", data)]
        if request == vhost.SET_MEM_TABLE:
            _, _, _, size, self.address, _ = struct.unpack("<IIQQQQ", body)
            self.memory = mmap.mmap(given[0], size)
        for fd in given:
            os.close(fd)
        self.told[request, int.from_bytes(body[:4], "little")] = body

    def ring(self, number: int) -> tuple[int, int, int]:
        """Where descriptors, the used and the available part of a ring are in the memory."""
        body = self.told[vhost.SET_VRING_ADDR, number]
        return tuple(a - self.address for a in struct.unpack("<IIQQQQ", body)[2:5])

    def reflect(self) -> None:
        """Send back what has been sent since the last time."""
        assert self.memory is not None
        out, into = self.ring(vhost.SEND), self.ring(vhost.RECEIVE)
        while self.taken != struct.unpack_from("<H", self.memory, out[2] + 2)[0]:
            slot = self._slot(out, self.taken)
            at, length, _, _ = vhost.DESCRIPTOR.unpack_from(self.memory, out[0] + slot * 16)
            frame = self.memory[at : at + length]
            self.taken = self._used(out, slot, 0, self.taken)
            slot = self._slot(into, self.given)
            at, room, flags, _ = vhost.DESCRIPTOR.unpack_from(self.memory, into[0] + slot * 16)
            assert flags == vhost.DEVICE_WRITES
            assert room >= length
            self.memory[at : at + length] = frame
            self.given = self._used(into, slot, length, self.given)

    def _slot(self, ring: tuple[int, int, int], index: int) -> int:
        assert self.memory is not None
        found: int = struct.unpack_from("<H", self.memory, ring[2] + 4 + index % SLOTS * 2)[0]
        return found

    def _used(self, ring: tuple[int, int, int], slot: int, length: int, index: int) -> int:
        assert self.memory is not None
        struct.pack_into("<II", self.memory, ring[1] + 4 + index % SLOTS * 8, slot, length)
        struct.pack_into("<H", self.memory, ring[1] + 2, index + 1 & 0xFFFF)
        return index + 1 & 0xFFFF


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pod.sock"


@pytest.fixture
def switch(path: Path) -> Iterator[Switch]:
    made = Switch(path)
    yield made
    made.hang_up.set()
    made.join(10)


def opened(path: Path, switch: Switch) -> VhostUserPort:
    port = VhostUserPort(str(path))
    assert switch.ready.wait(10)
    return port


def test_frames_come_back_as_they_went_round_the_rings(path: Path, switch: Switch) -> None:
    port = opened(path, switch)
    for number in range(2 * SLOTS + 3):
        frames = [bytes([number % 256, size % 256]) * (size // 2) for size in (60, 9014)]
        assert all(port.send(frame) for frame in frames)
        switch.reflect()
        assert port.receive() == frames
    assert port.receive() == []
    port.close()
    assert not path.exists()


def test_a_full_ring_takes_no_more_until_the_switch_has_emptied_it(
    path: Path, switch: Switch
) -> None:
    port = opened(path, switch)
    assert [port.send(bytes(60)) for _ in range(SLOTS + 1)] == [True] * SLOTS + [False]
    switch.reflect()
    assert len(port.receive()) == SLOTS
    assert port.send(bytes(60))
    port.close()


def test_a_switch_that_comes_back_is_answered_anew(path: Path, switch: Switch) -> None:
    port = opened(path, switch)
    assert port.send(b"lost".ljust(60))
    switch.hang_up.set()
    switch.join(10)
    assert not port.connected
    assert not port.send(bytes(60))
    again = Switch(path)
    wait_for(lambda: port.connected, 10, "the switch")
    assert again.ready.wait(10)
    assert port.send(b"anew".ljust(60))
    again.reflect()
    assert port.receive() == [b"anew".ljust(60)]
    port.close()
    again.hang_up.set()


def test_a_switch_without_virtio_1_is_refused(path: Path) -> None:
    Switch(path, features=1 << 15)
    with pytest.raises(GeneratorError, match="offers features 0x8000"):
        VhostUserPort(str(path))
    assert not path.exists()


def test_a_switch_that_comes_back_as_another_is_not_there(path: Path, switch: Switch) -> None:
    port = opened(path, switch)
    switch.hang_up.set()
    switch.join(10)
    Switch(path, features=1 << 15)
    with pytest.raises(GeneratorError, match="offers features 0x8000"):
        wait_for(lambda: port.connected, 10, "the switch")
    assert not port.connected
    assert port.receive() == []
    assert not port.send(bytes(60))
    port.close()


def test_nobody_who_connects_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vhost, "TIMEOUT_S", 0.05)
    with pytest.raises(GeneratorError, match="no vhost-user client connects"):
        VhostUserPort(str(path))
    assert not path.exists()
