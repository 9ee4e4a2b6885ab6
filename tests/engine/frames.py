"""Headers and streams for the tests."""

from __future__ import annotations

import struct

from vnetperf.traffic.loadgen.engine import FieldSpec, StreamSpec

SRC_IP, DST_IP = 0xC6120001, 0xC6130001


def udp_header(frame_size: int, udp_checksum: int = 0) -> bytes:
    """Ethernet, IPv4 (without its checksum), UDP for a frame of this size with FCS."""
    octets = frame_size - 4
    ethernet = bytes.fromhex("0200000000020200000000010800")
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, octets - 14, 0, 0x4000, 64, 17, 0, SRC_IP, DST_IP)
    return ethernet + ip + struct.pack("!HHHH", 1024, 2048, octets - 34, udp_checksum)


def stream(
    number: int = 0,
    tx: int = 0,
    rx: int = 1,
    *,
    size: int = 64,
    udp: bool = False,
    fields: tuple[FieldSpec, ...] = (),
) -> StreamSpec:
    """A UDP stream."""
    return StreamSpec(
        id=number,
        tx_port=tx,
        rx_port=rx,
        frame_size=size,
        header=udp_header(size),
        l3_offset=14,
        udp_offset=34 if udp else None,
        fields=fields,
    )
