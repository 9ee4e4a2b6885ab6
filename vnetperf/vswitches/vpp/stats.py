"""Reads counters from VPP's statistics segment: shared memory, no question asked of VPP.

The layout is version 2 of the segment (VPP 20.09 and later). VPP changes the directory under an
optimistic lock: a read that overlaps a change is repeated, and given up after a while, since a
VPP that was killed may have left the lock taken.
"""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from vnetperf.model.errors import DutError

T = TypeVar("T")

HEADER: Final = struct.Struct("=QQQQQ")  # version, base address, epoch, in progress, directory
ENTRY: Final = struct.Struct("=I4xQ128s")  # type, value or address, name
VERSION: Final = 2
SIMPLE, COMBINED, SYMLINK = 2, 3, 6
GIVE_UP_S = 2.0


class _TornError(Exception):
    """What was read changed meanwhile."""


class StatsSegment:
    """A mapped statistics segment.

    Args:
        memory: The segment.
    """

    def __init__(self, memory: mmap.mmap | bytes) -> None:
        self._memory = memory
        self._epoch = -1
        self._directory: dict[str, tuple[int, int]] = {}
        self._names: list[str] = []

    @classmethod
    def open(cls, path: Path) -> StatsSegment:
        """Map the segment of a running VPP.

        Args:
            path: The statistics socket.

        Returns:
            The segment.

        Raises:
            DutError: VPP does not hand it out, or it has another layout.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(5.0)
                connection.connect(str(path))
                _, fds, _, _ = socket.recv_fds(connection, 1, 1)
        except OSError as error:
            raise DutError(
                f"VPP does not hand out its counters: {error}", where=str(path)
            ) from error
        if not fds:
            raise DutError("VPP does not hand out its counters", where=str(path))
        try:
            memory = mmap.mmap(fds[0], 0, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fds[0])
        segment = cls(memory)
        if segment._header()[0] != VERSION:
            raise DutError(
                f"the statistics segment has layout {segment._header()[0]}",
                where=str(path),
                accepted=str(VERSION),
            )
        return segment

    def close(self) -> None:
        """Unmap it."""
        if isinstance(self._memory, mmap.mmap):
            with contextlib.suppress(BufferError):
                self._memory.close()

    def by_index(self, name: str) -> list[int]:
        """A counter of every interface, or of whatever else it is indexed by.

        Args:
            name: E.g. "/if/rx"; of a counter of packets and octets, the packets are taken.

        Returns:
            Sums over all threads; empty when there is no such counter.
        """
        return self._consistently(lambda: self._sums(name))

    def errors(self, node: str) -> dict[str, int]:
        """Error counters of a graph node.

        Args:
            node: Name of the node, e.g. "memif1/0-tx".

        Returns:
            Error -> sum over all threads.
        """
        return self._consistently(lambda: self._errors(f"/err/{node}/"))

    def _consistently(self, read: Callable[[], T]) -> T:
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            _, _, epoch, in_progress, _ = self._header()
            if not in_progress:
                with contextlib.suppress(_TornError, struct.error):
                    if epoch != self._epoch:
                        self._read_directory()
                        self._epoch = epoch
                    found = read()
                    if self._header()[2:4] == (epoch, 0):
                        return found
                self._epoch = -1
            if time.monotonic() > deadline:
                raise DutError(
                    f"VPP's counters did not hold still for {GIVE_UP_S:g} s",
                    where="statistics segment",
                    cure="VPP may have died while it changed them; see its log",
                )
            time.sleep(0.001)

    def _header(self) -> tuple[int, int, int, int, int]:
        version, base, epoch, in_progress, directory = HEADER.unpack_from(self._memory, 0)
        return version, base, epoch, in_progress, directory

    def _vector(self, address: int) -> tuple[int, int]:
        """Offset and length of one of VPP's vectors; its length stands before it."""
        offset = address - self._header()[1]
        if not 8 <= offset < len(self._memory):
            raise _TornError
        (length,) = struct.unpack_from("=I", self._memory, offset - 8)
        return offset, length

    def _read_directory(self) -> None:
        offset, length = self._vector(self._header()[4])
        directory, names = {}, []
        for kind, value, raw in ENTRY.iter_unpack(
            self._memory[offset : offset + length * ENTRY.size]
        ):
            name = raw.partition(b"\0")[0].decode("ascii", "replace")
            directory[name] = (kind, value)
            names.append(name)
        self._directory, self._names = directory, names

    def _sums(self, name: str) -> list[int]:
        kind, value = self._directory.get(name, (0, 0))
        if kind not in (SIMPLE, COMBINED) or not value:
            return []
        words = 2 if kind == COMBINED else 1
        offset, threads = self._vector(value)
        sums: list[int] = []
        for (address,) in struct.iter_unpack("=Q", self._memory[offset : offset + 8 * threads]):
            if not address:
                continue
            start, length = self._vector(address)
            numbers = array.array("Q")
            numbers.frombytes(self._memory[start : start + 8 * words * length])
            column = numbers[::words]
            sums += [0] * (len(column) - len(sums))
            for index, number in enumerate(column):
                sums[index] += number
        return sums

    def _errors(self, prefix: str) -> dict[str, int]:
        found = {}
        columns: dict[int, list[int]] = {}
        for name, (kind, value) in self._directory.items():
            if not name.startswith(prefix) or kind != SYMLINK:
                continue
            entry, column = value & 0xFFFFFFFF, value >> 32
            if entry not in columns:
                columns[entry] = self._sums(self._names[entry]) if entry < len(self._names) else []
            numbers = columns[entry]
            found[name.removeprefix(prefix)] = numbers[column] if column < len(numbers) else 0
        return found
