"""Rates as Pktgen has them: percent of the link's speed, and whole cycles between bursts.

Pktgen makes of percent a number of frames/s, and of that the processor's cycles from one frame to
the next, and cuts the fraction off both times. What it made of a wish is read back from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.model.errors import GeneratorError

#: Frames handed over at once are those of this time, so that low rates are not sent in clumps.
CLUMP_S = 8e-6
MAX_BURST = 64
#: Beyond this difference from what was asked for, the read-back rate is not what was set.
STRANGE = 0.05


@dataclass(frozen=True)
class Link:
    """What Pktgen's rates of one port are made of.

    Attributes:
        full_fps: Frames/s that it takes for all of the link, at the frame size that is loaded.
        hz: Cycles of its clock in a second.
    """

    full_fps: int
    hz: int

    def percent(self, fps: float) -> float:
        """What to set for a load.

        Args:
            fps: Frames/s; more than the link is all of it.

        Returns:
            Percent that come closest when fractions have been cut off.
        """
        whole = self.frames(fps)
        return min(100.0, 100.0 * (whole + 0.5) / self.full_fps)

    def frames(self, fps: float) -> int:
        """Frames/s to ask for, whose whole cycles come closest to a load.

        Args:
            fps: Frames/s.

        Returns:
            Frames/s, at least 1 and at most the link's.
        """
        gap = max(1, round(self.hz / fps))
        return max(1, min(self.full_fps, self.hz // gap))

    def effective(self, tx_pps: int) -> float:
        """Frames/s that leave when Pktgen says it paces for so many.

        Args:
            tx_pps: `tx_debug.tx_pps`, read back.

        Returns:
            Frames/s.
        """
        return self.hz / (self.hz // tx_pps) if 0 < tx_pps <= self.hz else 0.0


def burst_for(fps: float) -> int:
    """Frames in one transmit call.

    Args:
        fps: Load, frames/s.

    Returns:
        1..64.
    """
    return max(1, min(MAX_BURST, int(fps * CLUMP_S)))


def check_read_back(asked: float, effective: float, full_fps: int) -> None:
    """Refuse a rate that Pktgen silently made another of.

    Args:
        asked: Frames/s.
        effective: What it will send, from what was read back.
        full_fps: All of the link; more is not a mistake of Pktgen's.

    Raises:
        GeneratorError: It differs by more than cutting fractions off explains.
    """
    expected = min(asked, full_fps)
    if effective <= 0 or abs(effective - expected) > STRANGE * expected + 1:
        raise GeneratorError(
            f"Pktgen was asked for {asked:.0f} frames/s and paces for {effective:.0f}",
            where="rate, read back from tx_debug.tx_pps",
            cure="another client may have changed it: Pktgen must be ours alone",
        )
