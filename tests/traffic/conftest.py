"""Read before the tests are: scapy warns about the machine when it is imported."""

from __future__ import annotations

import logging
import random
import socket
from contextlib import suppress

logging.getLogger("scapy").setLevel(logging.CRITICAL)


def free_port() -> int:
    """A TCP port that nobody listens on, of those that the kernel gives to no connection."""
    for port in random.sample(range(20000, 32000), 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
