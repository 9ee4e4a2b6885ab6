"""A memif client in a page of Python: single frames in and out of a shared-memory wire.

The generator's engine sends millions of frames and counts them; a contract check sends a handful
and looks at every octet. Protocol version 2.0 as VPP and DPDK speak it: the client owns the shared
memory, rings and buffers, and hands it to the server over the socket.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
from typing import Final

from vnetperf.host.wait import wait_for
from vnetperf.model.errors import GeneratorError

MESSAGE_OCTETS: Final = 128
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
VERSION: Final = 0x0200
COOKIE: Final = 0x3E31F20
CLIENT_TO_SERVER: Final = 1
#: A ring: cookie, flags, head; tail in a cache line of its own; then descriptors.
RING_LOG2, RING_FLAGS, RING_HEAD, RING_TAIL, RING_DESCRIPTORS = 7, 4, 6, 64, 128
DESCRIPTOR: Final = struct.Struct("<HHIII")  # flags, region, length, offset, metadata
MORE: Final = 1
NO_INTERRUPT: Final = 1
#: A whole jumbo frame fits one buffer, so that chains need only be read, never written.
BUFFER_OCTETS: Final = 10240
SLOTS: Final = 1 << RING_LOG2
#: Longest wait for the server, seconds.
TIMEOUT_S: Final = 10.0


class _Ring:
    """One ring in the shared memory, seen from the client."""

    def __init__(self, memory: mmap.mmap, base: int, buffers: int) -> None:
        self.memory, self.base, self.buffers = memory, base, buffers
        # struct.pack_into clears before it writes, and the server would see a head of 0.
        self._words = memoryview(memory).cast("H")
        self.event = os.eventfd(0, os.EFD_NONBLOCK)
        self.read_index = 0
        struct.pack_into("<IHH", memory, base, COOKIE, 0, 0)
        for slot in range(SLOTS):
            self.describe(slot, BUFFER_OCTETS)

    def counter(self, place: int) -> int:
        return self._words[(self.base + place) // 2]

    def set_head(self, value: int) -> None:
        self._words[(self.base + RING_HEAD) // 2] = value & 0xFFFF
        if not self.counter(RING_FLAGS) & NO_INTERRUPT:
            os.eventfd_write(self.event, 1)

    def buffer(self, slot: int) -> int:
        return self.buffers + slot * BUFFER_OCTETS

    def describe(self, slot: int, length: int) -> None:
        place = self.base + RING_DESCRIPTORS + slot * DESCRIPTOR.size
        DESCRIPTOR.pack_into(self.memory, place, 0, 0, length, self.buffer(slot), 0)

    def descriptor(self, slot: int) -> tuple[int, int, int]:
        place = self.base + RING_DESCRIPTORS + slot * DESCRIPTOR.size
        flags, _, length, offset, _ = DESCRIPTOR.unpack_from(self.memory, place)
        return flags, length, offset


class MemifPort:
    """The client's end of a memif wire.

    Args:
        path: Socket the server listens on.
        number: Identity of the interface on that socket.
        rx_queues: Queues that the server may send on.

    Raises:
        GeneratorError: Nobody listens, or the server refuses.
    """

    def __init__(self, path: str, number: int, rx_queues: int) -> None:
        self._path = path
        self._control = _connect(path)
        try:
            self._shake_hands(number, rx_queues)
        except OSError as error:
            self.close()
            raise GeneratorError(f"the memif server hung up: {error}", where=path) from error
        except GeneratorError:
            self.close()
            raise

    def _shake_hands(self, number: int, rx_queues: int) -> None:
        self._expect(HELLO)
        ring = RING_DESCRIPTORS + SLOTS * DESCRIPTOR.size
        count = 1 + rx_queues
        size = count * (ring + SLOTS * BUFFER_OCTETS)
        region = os.memfd_create("vnetperf-memif", os.MFD_ALLOW_SEALING)
        os.ftruncate(region, size)
        memory = mmap.mmap(region, size)
        first_buffer = count * ring
        rings = [
            _Ring(memory, n * ring, first_buffer + n * SLOTS * BUFFER_OCTETS) for n in range(count)
        ]
        self._send, self._receive = rings[0], rings[1:]
        for queue in self._receive:
            queue.set_head(SLOTS)
        self._ask(INIT, struct.pack("<HIB24s32s", VERSION, number, 0, b"", b"vnetperf"))
        self._ask(ADD_REGION, struct.pack("<HQ", 0, size), region)
        os.close(region)
        for n, queue in enumerate(rings):
            flags, index = (CLIENT_TO_SERVER, 0) if n == 0 else (0, n - 1)
            body = struct.pack("<HHHIBH", flags, index, 0, queue.base, RING_LOG2, 0)
            self._ask(ADD_RING, body, queue.event)
        self._tell(CONNECT, b"vnetperf")
        self._expect(CONNECTED)

    def _tell(self, kind: int, body: bytes, fd: int = -1) -> None:
        message = (struct.pack("<H", kind) + body).ljust(MESSAGE_OCTETS, b"\0")
        socket.send_fds(self._control, [message], [fd] if fd >= 0 else [])

    def _ask(self, kind: int, body: bytes, fd: int = -1) -> None:
        self._tell(kind, body, fd)
        self._expect(ACK)

    def _expect(self, kind: int) -> bytes:
        message = self._control.recv(MESSAGE_OCTETS)
        got = int.from_bytes(message[:2], "little") if message else 0
        if got == DISCONNECT:
            reason = message[6:].rstrip(b"\0").decode(errors="replace")
            raise GeneratorError(f"the memif server refuses: {reason}", where=self._path)
        if got != kind:
            raise GeneratorError(f"memif message {got} instead of {kind}", where=self._path)
        return message[2:]

    @property
    def connected(self) -> bool:
        """Whether the server is still there."""
        readable, _, _ = select.select([self._control], [], [], 0)
        return not readable  # its only message from now on is DISCONNECT

    def send(self, frame: bytes) -> bool:
        """Put a frame into the ring.

        Args:
            frame: Octets without FCS.

        Returns:
            False when the ring is full.
        """
        ring, head = self._send, self._send.counter(RING_HEAD)
        if (head - ring.counter(RING_TAIL)) & 0xFFFF >= SLOTS:
            return False
        slot = head % SLOTS
        start = ring.buffer(slot)
        ring.memory[start : start + len(frame)] = frame
        ring.describe(slot, len(frame))
        ring.set_head(head + 1)
        return True

    def receive(self) -> list[bytes]:
        """Take what has come.

        Returns:
            Frames without FCS.
        """
        return [frame for ring in self._receive for frame in self._drain(ring)]

    def _drain(self, ring: _Ring) -> list[bytes]:
        frames, frame = [], b""
        tail = ring.counter(RING_TAIL)
        while ring.read_index != tail:
            slot = ring.read_index % SLOTS
            flags, length, offset = ring.descriptor(slot)
            frame += ring.memory[offset : offset + length]
            if not flags & MORE:
                frames.append(frame)
                frame = b""
            ring.describe(slot, BUFFER_OCTETS)
            ring.read_index = (ring.read_index + 1) & 0xFFFF
        ring.set_head(ring.read_index + SLOTS)
        return frames

    def close(self) -> None:
        """Hang up. Idempotent; the memory goes with the last process that maps it."""
        with contextlib.suppress(OSError):
            self._control.close()
        for ring in (*getattr(self, "_receive", ()), *filter(None, [getattr(self, "_send", None)])):
            with contextlib.suppress(OSError):
                os.close(ring.event)
        self._receive = []


def _connect(path: str) -> socket.socket:
    def connected() -> socket.socket | None:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(TIMEOUT_S)
        try:
            control.connect(path)
        except OSError:
            control.close()
            return None
        return control

    return wait_for(
        connected,
        TIMEOUT_S,
        f"the memif server of {path}",
        error=lambda: GeneratorError("no memif server answers", where=path),
    )
