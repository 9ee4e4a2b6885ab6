"""Whether anything arrives at two ends while a tool runs, and who listens there."""

from __future__ import annotations

import time

from vnetperf.host.patience import patient
from vnetperf.launchers.endpoint import Ends, Place
from vnetperf.model.errors import DutError

#: Longest time without a packet, and between two looks, seconds.
STALL_S, LOOK_S = 5.0, 0.5
_LISTEN = "0A"


class Arrivals:
    """Packets that arrive at either end.

    Args:
        ends: The ends.
    """

    def __init__(self, ends: Ends) -> None:
        self._ends = (ends.client, ends.server)
        self._first = self._last = self._counts()
        self._changed = self._looked = time.monotonic()

    def _counts(self) -> tuple[int, ...]:
        return tuple(end.place.received(end.netdev) for end in self._ends)

    def expect_some(self, where: str) -> None:
        """Look now and then; nothing for a while is an error.

        Args:
            where: The transfer, for the message.

        Raises:
            DutError: Nothing has arrived for STALL_S.
        """
        now = time.monotonic()
        if now < self._looked + LOOK_S:
            return
        self._looked, counts = now, self._counts()
        if counts != self._last:
            self._last, self._changed = counts, now
        elif now > self._changed + patient(STALL_S):
            raise self._nothing(where, f"for {STALL_S:g} s")

    def expect_any(self, where: str) -> None:
        """Look once, when a client has failed.

        Args:
            where: The transfer, for the message.

        Raises:
            DutError: Nothing has arrived at the server's end since the beginning, or at either for
                a while: that is why it has failed.
        """
        counts, quiet_s = self._counts(), time.monotonic() - self._changed
        stalled = counts == self._last and quiet_s > patient(STALL_S) / 2
        self._last = counts
        if counts[1] == self._first[1]:
            raise self._nothing(where, "at the server's end")
        if stalled:
            raise self._nothing(where, f"for {quiet_s:.1f} s")

    def _nothing(self, where: str, how: str) -> DutError:
        came = ", ".join(
            f"{now - first} packets at the {end.what}"
            for end, first, now in zip(self._ends, self._first, self._last, strict=True)
        )
        return DutError(
            f"nothing has arrived {how} (since its begin {came}): the path is down",
            where=where,
            cure="the path check of the deployment had passed; see whether the vSwitch, a VNF or a "
            "link has failed since",
        )


def listening(place: Place, *, udp: bool) -> set[int]:
    """Ports at which something waits.

    Args:
        place: Where.
        udp: True for UDP, False for TCP.

    Returns:
        Port numbers, of IPv4.
    """
    text = place.run(["cat", "/proc/net/udp" if udp else "/proc/net/tcp"])
    rows = [line.split() for line in text.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if udp or row[3] == _LISTEN}
