"""Carries bytes between this process's standard streams and the guest's ports."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Iterator, Mapping

CHUNK = 65536


class Relay:
    """The host's ends of the guest's ports.

    Args:
        ends: ``in``, ``out``, ``err`` and ``ctl``: a connected socket each.

    Attributes:
        closed: Whether the guest's machine has hung up.
    """

    def __init__(self, ends: Mapping[str, socket.socket]) -> None:
        self._ends = ends
        self._selector = selectors.DefaultSelector()
        self._targets = {"out": 1, "err": 2}
        self._heard = b""
        self.closed = False
        for name in ("out", "err", "ctl"):
            self._selector.register(ends[name], selectors.EVENT_READ, name)

    def turn(self, timeout_s: float) -> Iterator[tuple[str, str]]:
        """Carry what is there.

        Args:
            timeout_s: Seconds to wait when there is nothing.

        Yields:
            First word and rest of each line that the guest said on its control port.
        """
        for key, _ in self._selector.select(timeout_s):
            end = self._ends[key.data]
            try:
                data = end.recv(CHUNK)
            except ConnectionResetError:  # QEMU ended with something of ours unread
                data = b""
            if not data:
                self._selector.unregister(end)
                self.closed = self.closed or key.data == "ctl"
            elif key.data == "ctl":
                *lines, self._heard = (self._heard + data).split(b"\n")
                for line in lines:
                    word, _, rest = line.decode(errors="replace").partition(" ")
                    yield word, rest
            else:
                _write(self._targets[key.data], data)

    def drain(self, quiet_s: float = 0.2, limit_s: float = 10.0) -> None:
        """Carry what is still on its way, until nothing has come for a moment."""
        end = time.monotonic() + limit_s
        while self._selector.get_map() and time.monotonic() < end:
            if not self._selector.select(quiet_s):
                return
            for _ in self.turn(0):
                pass

    def tell(self, word: str) -> None:
        """Say a line to the guest on its control port."""
        with contextlib.suppress(OSError):
            self._ends["ctl"].sendall(word.encode() + b"\n")

    def feed(self, source: int) -> None:
        """Carry a file descriptor's content to the command's standard input, to its end.

        Args:
            source: The descriptor; reading it may block for ever.
        """
        try:
            while data := os.read(source, CHUNK):
                self._ends["in"].sendall(data)
            self._ends["in"].shutdown(socket.SHUT_WR)
        except OSError:
            return  # the lab has ended


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]
