"""Frame sizes and rates, typed so that L1, L2 and frames/s are never confused.

Frame size always includes the 4-octet FCS (RFC 1242 section 3.5): 64 means that 60 octets are
handed to a driver.
"""

from __future__ import annotations

from dataclasses import dataclass

FCS_BYTES = 4
#: Preamble 7, start-of-frame delimiter 1, inter-frame gap 12 (IEEE 802.3).
L1_OVERHEAD_BYTES = 20
#: Octets at a frame's end, before the FCS, that are the traffic generator's own.
STAMP_OCTETS = 18
MIN_FRAME_SIZE = 64
MAX_FRAME_SIZE = 9216
#: RFC 2544 section 9.1, Ethernet.
RFC2544_FRAME_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """A medium's speed.

    Attributes:
        bits_per_second: L1 bit rate, e.g. 10e9 for 10 GbE.
    """

    bits_per_second: float

    def max_frame_rate(self, frame_size: float) -> float:
        """Maximum frame rate of the medium (RFC 2544 section 20), frames/s, one direction.

        Args:
            frame_size: Octets including FCS; the mean of a mix.

        Returns:
            Frames per second, e.g. 14_880_952.38 for 64 octets at 10 Gbit/s.
        """
        return self.bits_per_second / l1_bits_per_frame(frame_size)


def l2_bits_per_frame(frame_size: float) -> float:
    """Bits of one frame on layer 2, FCS included.

    Args:
        frame_size: Octets including FCS.

    Returns:
        Bits.
    """
    return frame_size * 8


def l1_bits_per_frame(frame_size: float) -> float:
    """Bits one frame occupies on the medium: frame, preamble, SFD and gap.

    Args:
        frame_size: Octets including FCS.

    Returns:
        Bits.
    """
    return (frame_size + L1_OVERHEAD_BYTES) * 8


def driver_length(frame_size: int) -> int:
    """Octets handed to a driver: the frame without its FCS.

    Args:
        frame_size: Octets including FCS.

    Returns:
        Octets.
    """
    return frame_size - FCS_BYTES
