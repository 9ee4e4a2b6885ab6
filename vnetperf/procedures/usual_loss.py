"""Loss that is usual at a load, and when a DUT to which something happened is back to it.

Frames that are lost for another reason are lost before the event and after it alike. So what is
usual is measured in the same trial before the event, and the DUT is well again when it loses no
more than that, not when it has lost its last frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from vnetperf.model.trial import Timeline

#: Time without more loss than usual that shows that a DUT is well, seconds; less where the stretch
#: before was shorter.
QUIET_S = 0.1
#: Share of the bins before that lost no more than the bin that a recovery ends with. With the worst
#: of them an interruption could hide behind losses of another cause that few bins have.
_USUAL_BINS = 0.75


@dataclass(frozen=True, slots=True)
class UsualLoss:
    """Loss of one direction before something happens to the DUT."""

    window: int  # Bins in `QUIET_S`
    most: float = 0.0  # Largest loss ratio in a window, 0..1
    of_bin: float = 0.0  # Loss ratio that three of four bins did not exceed, 0..1

    @classmethod
    def none(cls, timeline: Timeline) -> UsualLoss:
        """No loss is usual, or nobody looked."""
        return cls(max(1, round(QUIET_S / timeline.bin_s)))

    @classmethod
    def before(cls, timeline: Timeline, end: int) -> UsualLoss:
        """Of all bins before one."""
        window = max(1, min(round(QUIET_S / timeline.bin_s), end))
        # Where the tester stood still nothing was offered, and nothing shows what is usual.
        windows = _known(_loss_ratio(timeline, n, window) for n in range(end - window + 1))
        bins = sorted(_known(_loss_ratio(timeline, n, 1) for n in range(end)))
        if not bins:
            return cls(window)
        of_bin = bins[ceil(_USUAL_BINS * len(bins)) - 1]
        return cls(window, max(windows, default=0.0), of_bin)

    def back(self, timeline: Timeline, places: Iterable[int]) -> int | None:
        """The first of some bins from which on no more is lost than usual; None: there is none."""
        return next((place for place in places if self._is_usual(timeline, place)), None)

    def _is_usual(self, timeline: Timeline, place: int) -> bool:
        window, own = (_loss_ratio(timeline, place, count) for count in (self.window, 1))
        if window is None or own is None:
            return False
        return window <= self.most and own <= self.of_bin


def _loss_ratio(timeline: Timeline, begin: int, count: int) -> float | None:
    """Share of the frames offered in some bins that were lost; None where none was offered."""
    offered = sum(timeline.sent[begin : begin + count])
    received = sum(timeline.received[begin : begin + count])
    return (offered - received) / offered if offered else None


def _known(values: Iterable[float | None]) -> Sequence[float]:
    return [value for value in values if value is not None]
