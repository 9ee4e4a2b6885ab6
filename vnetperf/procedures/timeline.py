"""Course of a trial over time, both directions together, in at most a thousand bins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import ceil

from vnetperf.model.outcomes import Curve
from vnetperf.model.trial import TrialOutcome

#: Most bins of a curve: more are merged.
MOST_BINS = 1000
#: Share of them that the sending fills: frames still come when it is over.
FILLED = 0.95


def bin_width(asked_s: float, total_s: float) -> float:
    """Width of a trial's bins: no narrower than a curve of it can show."""
    return max(asked_s, total_s / (MOST_BINS * FILLED))


def curve_of(outcome: TrialOutcome, marks: Mapping[str, float]) -> Curve | None:
    """The curve of a trial."""
    timelines = outcome.result.timelines
    if not timelines:
        return None
    offered = _sums(one.sent for one in timelines)
    received = _sums(one.received for one in timelines)
    arrived = _sums(one.arrived for one in timelines)
    together = ceil(max(len(offered), len(arrived)) / MOST_BINS) or 1
    lost = [o - r for o, r in zip_longest(offered, received, fillvalue=0)]
    return Curve(
        trial=outcome.number,
        bin_s=timelines[0].bin_s * together,
        offered=_merged(offered, together),
        lost=_merged(lost, together),
        arrived=_merged(arrived, together),
        marks={what: round(at, 6) for what, at in marks.items()},
    )


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip_longest(*rows, fillvalue=0)]


def _merged(bins: Sequence[int], together: int) -> tuple[int, ...]:
    return tuple(sum(bins[n : n + together]) for n in range(0, len(bins), together))
