"""Single frames in and out of a kernel interface, with every octet they had."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Final

from vnetperf.host.machine import Machine
from vnetperf.model.errors import GeneratorError

ETH_P_ALL: Final = 0x0003
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
#: struct tpacket_auxdata: status, len, snaplen, mac, net, VLAN tag, VLAN protocol.
AUXDATA: Final = struct.Struct("IIIHHHH")
VLAN_VALID, VLAN_PROTOCOL_VALID = 0x10, 0x40
ADDRESSES: Final = 12
LARGEST: Final = 65_535
RECEIVE_OCTETS: Final = 8 << 20


class NetdevPort:
    """A raw socket on an interface in the run's network namespace.

    Args:
        machine: The machine.
        netdev: Name of the interface.

    Raises:
        GeneratorError: There is no such interface.
    """

    def __init__(self, machine: Machine, netdev: str) -> None:
        self.netdev = netdev
        try:
            self._socket = machine.in_netns(self._open)
        except OSError as error:
            raise GeneratorError(f"cannot be opened: {error.strerror}", where=netdev) from error

    def _open(self) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_OCTETS)
        opened.setblocking(False)
        opened.bind((self.netdev, ETH_P_ALL))
        return opened

    @property
    def connected(self) -> bool:
        """Whether the interface is there and up."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0

    def send(self, frame: bytes) -> bool:
        """Send a frame.

        Args:
            frame: Octets without FCS.

        Returns:
            False when the interface does not take it now.

        Raises:
            GeneratorError: The interface will not take it: it is down, or the frame too long.
        """
        try:
            return self._socket.send(frame) == len(frame)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise GeneratorError(
                f"does not take a frame of {len(frame)} octets: {error.strerror}",
                where=self.netdev,
            ) from error

    def receive(self) -> list[bytes]:
        """Take what has come.

        Returns:
            Frames without FCS, with the VLAN tag that the kernel keeps beside them.
        """
        frames = []
        with contextlib.suppress(OSError):  # nothing more, or the interface has gone
            while True:
                data, notes, _, _ = self._socket.recvmsg(LARGEST, 256)
                frames.append(_with_tag(data, notes))
        return frames

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def _with_tag(data: bytes, notes: list[tuple[int, int, bytes]]) -> bytes:
    """The kernel takes the outer tag out of a frame before a socket sees it."""
    for level, kind, content in notes:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tag, protocol = AUXDATA.unpack_from(content)
            if status & VLAN_VALID:
                protocol = protocol if status & VLAN_PROTOCOL_VALID else 0x8100
                return data[:ADDRESSES] + struct.pack("!HH", protocol, tag) + data[ADDRESSES:]
    return data
