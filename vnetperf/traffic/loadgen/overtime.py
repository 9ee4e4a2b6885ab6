"""How a trial went on over time, as the engine tells it, and as results hold it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from vnetperf.model.trial import Timeline

#: Numbers in a row of a timeline's file.
COLUMNS = 5
NS = 1e9


@dataclass(frozen=True)
class StreamTimeline:
    """One stream over time; the bins begin with the trial's start."""

    bin_ns: int
    sent: Sequence[int]
    """Frames taken by the driver, by the bin of their stamp."""
    refused: Sequence[int]
    received: Sequence[int]
    """Distinct frames that came, by the bin in which they were sent."""
    arrived: Sequence[int]
    """The same by the bin in which they came."""
    hole_ns: Sequence[int]
    """When the last frame was sent that is missing before one that came, ns; 0: none. A frame that
    others have overtaken is missing before them, though it comes: look at `received` first."""
    gap_ns: int
    """Longest time between two arrivals of all streams of the sending port."""
    gap_from_ns: int
    tail_ns: int | None
    """When the last frame was sent, if it never came."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any], rows: bytes) -> StreamTimeline:
        """From the reply of the engine and the file it names."""
        numbers = array("Q", rows)
        sent, refused, received, arrived, hole_ns = (
            numbers[column::COLUMNS] for column in range(COLUMNS)
        )
        return cls(
            bin_ns=reply["bin_ns"],
            sent=sent,
            refused=refused,
            received=received,
            arrived=arrived,
            hole_ns=hole_ns,
            gap_ns=reply["gap_ns"],
            gap_from_ns=reply["gap_from_ns"],
            tail_ns=reply.get("tail_ns"),
        )

    def offered(self, *, refusal_is_loss: bool) -> list[int]:
        """Frames that were put to the DUT in each bin.

        Args:
            refusal_is_loss: Whether refused frames were.

        Returns:
            Frames.
        """
        if not refusal_is_loss:
            return list(self.sent)
        return [s + r for s, r in zip(self.sent, self.refused, strict=True)]

    def last_lost_ns(self, *, refusal_is_loss: bool) -> int | None:
        """When the last frame was sent that never came.

        Args:
            refusal_is_loss: Whether refused frames are lost ones.

        Returns:
            Ns after the start: of the frame where its number tells, else the end of its bin; None
            when no frame was lost.
        """
        offered = self.offered(refusal_is_loss=refusal_is_loss)
        lossy = [n for n, frames in enumerate(offered) if frames > self.received[n]]
        if not lossy:
            return None
        last = lossy[-1]
        # The width is told in whole ns, and is up to one more.
        begin, end = last * self.bin_ns, (last + 1) * (self.bin_ns + 1)
        told = [at for at in (self.hole_ns[last], self.tail_ns) if at and begin <= at <= end]
        return max(told, default=(last + 1) * self.bin_ns)


@dataclass(frozen=True)
class DelayDifferences:
    """Differences of the delays of successive frames of one stream, ns."""

    count: int
    min_ns: int
    max_ns: int
    pairs: Sequence[tuple[int, int]]
    """Difference and how often, by rising difference."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any], octets: bytes) -> DelayDifferences:
        """From the reply of the engine and the file it names."""
        numbers = array("q", octets)
        rising, falling = reply["rising"], reply["falling"]
        return cls(
            count=rising + falling,
            min_ns=-reply["falling_max_ns"] if falling else reply["rising_min_ns"],
            max_ns=reply["rising_max_ns"] if rising else -reply["falling_min_ns"],
            pairs=tuple(zip(numbers[::2], numbers[1::2], strict=True)),
        )


def timeline_of(
    direction: int, streams: Sequence[StreamTimeline], bin_s: float, *, refusal_is_loss: bool
) -> Timeline:
    """The timelines of a direction's streams as one.

    Args:
        direction: Number of the sending port.
        streams: Its streams, at least one; all have the same bins.
        bin_s: Width of a bin as it was asked for, seconds.
        refusal_is_loss: Whether refused frames were offered to the DUT.

    Returns:
        The timeline, without the empty bins at its end.
    """
    sent = _sums(s.offered(refusal_is_loss=refusal_is_loss) for s in streams)
    received, arrived = _sums(s.received for s in streams), _sums(s.arrived for s in streams)
    used = max((n for n, (a, b) in enumerate(zip(sent, arrived, strict=True)) if a or b), default=0)
    lost = [
        at
        for at in (s.last_lost_ns(refusal_is_loss=refusal_is_loss) for s in streams)
        if at is not None
    ]
    longest = max(streams, key=lambda s: s.gap_ns)
    return Timeline(
        direction=direction,
        bin_s=bin_s,
        sent=tuple(sent[: used + 1]),
        received=tuple(received[: used + 1]),
        arrived=tuple(arrived[: used + 1]),
        last_lost_s=max(lost) / NS if lost else None,
        gap_s=longest.gap_ns / NS,
        gap_from_s=longest.gap_from_ns / NS,
    )


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def ipdv_of(streams: Iterable[DelayDifferences]) -> dict[str, float]:
    """Delay variation of a direction, RFC 8219 section 7.3.2.

    Args:
        streams: Differences of each of its streams.

    Returns:
        "min", "median", "max", nanoseconds; empty where no two successive frames came.
    """
    told = [s for s in streams if s.count]
    if not told:
        return {}
    pairs = sorted(pair for s in told for pair in s.pairs)
    half = (sum(count for _, count in pairs) + 1) // 2
    upto = accumulate(count for _, count in pairs)
    median = next((v for (v, _), n in zip(pairs, upto, strict=True) if n >= half), told[0].max_ns)
    return {
        "min": float(min(s.min_ns for s in told)),
        "median": float(median),
        "max": float(max(s.max_ns for s in told)),
    }
