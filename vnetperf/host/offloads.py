"""Offloads of a link that this run created: frames are to cross it as they were sent."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
from pathlib import Path

from vnetperf.host.netns import run_in
from vnetperf.model.errors import HostError

SIOCETHTOOL = 0x8946
# ETHTOOL_S* commands that take one value; checksums last, since others depend on them.
SETTERS = {
    "gro": 0x2C,
    "gso": 0x24,
    "tso": 0x1F,
    "scatter-gather": 0x19,
    "tx-checksum": 0x17,
    "rx-checksum": 0x15,
}
NOT_THERE = frozenset({errno.EOPNOTSUPP, errno.EINVAL})


def disable_offloads(name: str, *, netns: Path | None = None) -> tuple[str, ...]:
    """Turn off all offloads that the link can do without.

    Args:
        name: A link that this run created (its settings end with it, so nothing is journaled).
        netns: Its namespace; None is the caller's.

    Returns:
        The offloads that the driver cannot turn off.

    Raises:
        HostError: There is no such link, or not root.
    """
    return run_in(netns, lambda: _disable(name))


def _disable(name: str) -> tuple[str, ...]:
    stuck = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for offload, command in SETTERS.items():
            value = array.array("B", struct.pack("=II", command, 0))
            address, _ = value.buffer_info()
            # struct ifreq: name, then a pointer to struct ethtool_value, padded to 40 bytes.
            request = struct.pack("16sP16x", name.encode(), address)
            try:
                fcntl.ioctl(handle, SIOCETHTOOL, request)
            except OSError as error:
                if error.errno not in NOT_THERE:
                    raise HostError(
                        f"offload {offload} cannot be turned off: {error.strerror}",
                        where=f"link {name}",
                        cure="run as root, with a link that exists",
                    ) from error
                stuck.append(offload)
    return tuple(stuck)
