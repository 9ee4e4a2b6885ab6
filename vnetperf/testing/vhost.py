"""A virtio driver in a page of Python: single frames in and out of a vhost-user socket.

It listens, as the application in a VNF's or a pod's place does, and hands the switch that connects
its memory over. Split rings of virtio 1.0 without any feature beyond: a header of 12 octets, and a
descriptor for each frame.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
from pathlib import Path
from typing import Final

from vnetperf.host.wait import wait_for
from vnetperf.model.errors import GeneratorError

GET_FEATURES, SET_FEATURES, SET_OWNER = 1, 2, 3
SET_MEM_TABLE, SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE = 5, 8, 9, 10
SET_VRING_KICK, SET_VRING_CALL = 12, 13
HEADER: Final = struct.Struct("<III")  # request, flags, octets that follow
VERSION, REPLY = 1, 4
#: VIRTIO_F_VERSION_1, which all that speak vhost-user have; without protocol features a ring works
#: as soon as it has its event.
FEATURES: Final = 1 << 32
#: virtio_net_hdr with the number of buffers, all zero.
NET_HEADER: Final = bytes(12)
SLOTS: Final = 128
DESCRIPTOR: Final = struct.Struct("<QIHH")  # address, length, flags, next
DEVICE_WRITES: Final = 2
#: A whole jumbo frame fits one buffer, so that chains need be neither read nor written.
BUFFER_OCTETS: Final = 10240
#: Parts of a ring, each on pages of its own, then its buffers.
AVAIL, USED, BUFFERS = 4096, 8192, 12288
RING_OCTETS: Final = BUFFERS + SLOTS * BUFFER_OCTETS
#: Where the memory is by the addresses of this side; the switch looks it up in what it is given.
ADDRESS: Final = 1 << 32
RECEIVE, SEND = 0, 1
TIMEOUT_S: Final = 10.0


class _Ring:
    """A split ring with its buffers, in memory that the switch maps too."""

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self.memory, self.number, self.base = memory, number, number * RING_OCTETS
        self.kick, self.call = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
        # struct.pack_into clears before it writes, and the switch would see an index of 0.
        self._words = memoryview(memory).cast("H")
        self.offered = self.read_index = 0
        for slot in range(SLOTS):
            self._words[(self.base + AVAIL) // 2 + 2 + slot] = slot

    def buffer(self, slot: int) -> int:
        return self.base + BUFFERS + slot * BUFFER_OCTETS

    def describe(self, slot: int, length: int, flags: int) -> None:
        place = self.base + slot * DESCRIPTOR.size
        DESCRIPTOR.pack_into(self.memory, place, self.buffer(slot), length, flags, 0)

    def offer(self, count: int = 1) -> None:
        self.offered = (self.offered + count) & 0xFFFF
        self._words[(self.base + AVAIL) // 2 + 1] = self.offered
        os.eventfd_write(self.kick, 1)

    @property
    def used(self) -> int:
        return self._words[(self.base + USED) // 2 + 1]

    def take_used(self) -> tuple[int, int]:
        """Slot of the next used buffer, and octets written there."""
        place = self.base + USED + 4 + self.read_index % SLOTS * 8
        slot, length = struct.unpack_from("<II", self.memory, place)
        self.read_index = (self.read_index + 1) & 0xFFFF
        return slot, length

    def close(self) -> None:
        for event in (self.kick, self.call):
            with contextlib.suppress(OSError):
                os.close(event)


class VhostUserPort:
    """The application's end of a vhost-user port.

    Args:
        path: Socket to listen at; the switch connects.

    Raises:
        GeneratorError: Nobody connects, or speaks otherwise than vhost-user.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        Path(path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(1)
        self._listener.setblocking(False)
        self._control: socket.socket | None = None
        self._rings: tuple[_Ring, ...] = ()
        try:
            wait_for(
                lambda: self.connected,
                TIMEOUT_S,
                f"a vhost-user client of {path}",
                error=lambda: GeneratorError("no vhost-user client connects", where=path),
            )
        except GeneratorError:
            self.close()
            raise

    @property
    def connected(self) -> bool:
        """Whether the switch is there; one that has come back is answered anew."""
        if self._control is not None and _hung_up(self._control):
            self._forget()
        if self._control is None:
            with contextlib.suppress(BlockingIOError):
                self._control, _ = self._listener.accept()
                self._control.settimeout(TIMEOUT_S)
                self._shake_hands(self._control)
        return self._control is not None

    def _shake_hands(self, control: socket.socket) -> None:
        """Hand the memory over, with every buffer of the receiving ring offered."""
        region = os.memfd_create("vnetperf-vhost")
        os.ftruncate(region, 2 * RING_OCTETS)
        memory = mmap.mmap(region, 2 * RING_OCTETS)
        self._rings = receive, send = _Ring(memory, RECEIVE), _Ring(memory, SEND)
        for slot in range(SLOTS):
            receive.describe(slot, BUFFER_OCTETS, DEVICE_WRITES)
            send.memory[send.buffer(slot) : send.buffer(slot) + len(NET_HEADER)] = NET_HEADER
        receive.offer(SLOTS)
        try:
            _tell(control, SET_OWNER)
            offered = _ask(control, GET_FEATURES, self._path)
            if not offered & FEATURES:
                raise GeneratorError(f"the switch offers features {offered:#x}", where=self._path)
            _tell(control, SET_FEATURES, struct.pack("<Q", FEATURES))
            table = struct.pack("<IIQQQQ", 1, 0, 0, 2 * RING_OCTETS, ADDRESS, 0)
            _tell(control, SET_MEM_TABLE, table, region)
            for ring in self._rings:
                address = ADDRESS + ring.base
                places = struct.pack(
                    "<IIQQQQ", ring.number, 0, address, address + USED, address + AVAIL, 0
                )
                _tell(control, SET_VRING_NUM, struct.pack("<II", ring.number, SLOTS))
                _tell(control, SET_VRING_BASE, struct.pack("<II", ring.number, 0))
                _tell(control, SET_VRING_ADDR, places)
                _tell(control, SET_VRING_CALL, struct.pack("<Q", ring.number), ring.call)
                _tell(control, SET_VRING_KICK, struct.pack("<Q", ring.number), ring.kick)
        except OSError as error:
            self._forget()
            raise GeneratorError(f"the switch hung up: {error}", where=self._path) from error
        except GeneratorError:
            self._forget()
            raise
        finally:
            os.close(region)

    def send(self, frame: bytes) -> bool:
        """Put a frame into the ring.

        Args:
            frame: Octets without FCS.

        Returns:
            False when the ring is full, or the switch is not there.
        """
        if not self.connected:
            return False
        ring = self._rings[SEND]
        if (ring.offered - ring.used) & 0xFFFF >= SLOTS:
            return False
        slot = ring.offered % SLOTS
        start = ring.buffer(slot) + len(NET_HEADER)
        ring.memory[start : start + len(frame)] = frame
        ring.describe(slot, len(NET_HEADER) + len(frame), 0)
        ring.offer()
        return True

    def receive(self) -> list[bytes]:
        """Take what has come.

        Returns:
            Frames without FCS.
        """
        frames: list[bytes] = []
        if not self.connected:
            return frames
        ring = self._rings[RECEIVE]
        used = ring.used
        while ring.read_index != used:
            slot, length = ring.take_used()
            start = ring.buffer(slot)
            frames.append(ring.memory[start + len(NET_HEADER) : start + length])
            ring.offer()  # in the order they were taken in: the ring's entries stay as they are
        return frames

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        for ring in self._rings:
            ring.close()
        self._rings = ()

    def close(self) -> None:
        """Hang up. Idempotent; the memory goes with the last process that maps it."""
        self._forget()
        self._listener.close()
        Path(self._path).unlink(missing_ok=True)


def _hung_up(control: socket.socket) -> bool:
    readable, _, _ = select.select([control], [], [], 0)
    return bool(readable)  # the switch says nothing by itself


def _tell(control: socket.socket, request: int, body: bytes = b"", fd: int = -1) -> None:
    message = HEADER.pack(request, VERSION, len(body)) + body
    socket.send_fds(control, [message], [fd] if fd >= 0 else [])


def _ask(control: socket.socket, request: int, path: str) -> int:
    """A request whose answer is a number."""
    _tell(control, request)
    answer = control.recv(HEADER.size + 8, socket.MSG_WAITALL)
    if len(answer) < HEADER.size + 8 or HEADER.unpack_from(answer)[:2] != (
        request,
        VERSION | REPLY,
    ):
        raise GeneratorError(f"{answer.hex()} is no answer to request {request}", where=path)
    return int.from_bytes(answer[HEADER.size :], "little")
