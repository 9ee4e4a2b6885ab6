"""Framed JSON over a Unix socket, for both ends: a length of four octets, then the text."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")
#: Longer messages are a mistake: a thousand streams of jumbo frames take 15 MB.
LONGEST = 64 << 20


def send(sock: socket.socket, message: dict[str, Any]) -> None:
    """Send one message whole.

    Args:
        sock: A connected stream socket.
        message: JSON values.
    """
    text = json.dumps(message, separators=(",", ":")).encode()
    sock.sendall(_LENGTH.pack(len(text)) + text)


def receive(sock: socket.socket) -> dict[str, Any] | None:
    """Wait for one message, for as long as the socket's timeout lets each part of it take.

    Args:
        sock: A connected stream socket.

    Returns:
        The message; None when the other end has closed.

    Raises:
        ValueError: What came is no message.
    """
    head = _exactly(sock, _LENGTH.size)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LONGEST:
        raise ValueError(f"a message of {length} octets")
    text = _exactly(sock, length)
    message = json.loads(text) if text else None
    if message is not None and not isinstance(message, dict):
        raise ValueError(f"a message that is no object: {text[:60]!r}")
    return message


def _exactly(sock: socket.socket, octets: int) -> bytes:
    """So many octets; none when the other end has closed."""
    parts = []
    while octets:
        part = sock.recv(min(octets, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        octets -= len(part)
    return b"".join(parts)
