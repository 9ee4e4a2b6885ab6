"""Loss that is usual at a load, and when a DUT to which something happened is back to it.

Frames that are lost for another reason are lost before the event and after it alike. So what is
usual is measured in the same trial before the event, and the DUT is well again when it loses no
more than that, not when it has lost its last frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from math import ceil
from operator import sub

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
        """Loss that is usual in the bins before `end`."""
        window = max(1, min(round(QUIET_S / timeline.bin_s), end))
        # Where the tester stood still nothing was offered, and nothing shows what is usual.
        windows = _all_ratios(timeline, end, window)
        bins = sorted(windows if window == 1 else _all_ratios(timeline, end, 1))
        if not bins:
            return cls(window)
        of_bin = bins[ceil(_USUAL_BINS * len(bins)) - 1]
        return cls(window, max(windows, default=0.0), of_bin)

    def back(self, timeline: Timeline, places: Iterable[int]) -> int | None:
        """The first of some bins from which on no more is lost than usual; None: there is none."""
        ratio = _loss_ratios(timeline)
        return next((place for place in places if self._is_usual(ratio, place)), None)

    def _is_usual(self, ratio: Callable[[int, int], float | None], place: int) -> bool:
        window, first_bin = (ratio(place, count) for count in (self.window, 1))
        if window is None or first_bin is None:
            return False
        return window <= self.most and first_bin <= self.of_bin


def _loss_ratios(timeline: Timeline) -> Callable[[int, int], float | None]:
    """What tells the share of the frames offered in so many bins from one on that were lost.

    It is None where none was offered.
    """
    sent, received = (list(accumulate(n, initial=0)) for n in (timeline.sent, timeline.received))
    sends, receives = len(sent) - 1, len(received) - 1

    def ratio(begin: int, count: int) -> float | None:
        end = begin + count
        offered = sent[min(end, sends)] - sent[min(begin, sends)]
        arrived = received[min(end, receives)] - received[min(begin, receives)]
        return (offered - arrived) / offered if offered else None

    return ratio


def _all_ratios(timeline: Timeline, end: int, count: int) -> list[float]:
    """The shares of each so many bins in a row before one, where any frame was offered."""
    sent, received = (_sums(n, end, count) for n in (timeline.sent, timeline.received))
    pairs = zip(sent, received, strict=True)
    return [(offered - arrived) / offered for offered, arrived in pairs if offered]


def _sums(bins: Sequence[int], end: int, count: int) -> list[int]:
    """What is in each so many bins in a row before one; there is nothing in any that lack."""
    recorded = bins[: max(0, end)]
    upto = list(accumulate((*recorded, *repeat(0, end - len(recorded))), initial=0))
    return list(map(sub, upto[count:], upto))
