"""What the traffic generator can do by itself, how sure that is, and whether it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log1p
from statistics import median
from typing import Literal

from vnetperf.model.base import Frozen

#: What ended the rates at which a generator sent and received every frame: frames that did not come
#: back, that the wire did not take, or that the generator was late with. "": nothing did.
EndedBy = Literal["", "loss", "refusal", "own stall"]


#: Values of a clean maximum agree where the largest of those that are judged is no more than this
#: multiple of the least.
MOST_SPREAD = 1.1
#: Values of which the smallest and the largest are not judged: the second to the eighth of nine
#: hold their median with a confidence of 96 %. Of fewer only all of them hold it with 95 %.
MOST_VALUES = 9
#: A change that is reported, relative, up or down.
DRIFT = 0.05
#: What became of a clean maximum; "": it was not looked at again.
Drift = Literal["", "held", "drifted", "cannot tell"]


def _judged(values: Sequence[float]) -> list[float]:
    """Values in order, of nine or more without one stray at each end."""
    stray = int(len(values) >= MOST_VALUES)
    return sorted(values)[stray : len(values) - stray]


def agree(values: Sequence[float]) -> bool:
    """Whether several values of a maximum agree.

    Args:
        values: Frames/s, each found by itself; two or more, for nobody knows the spread of one.

    Returns:
        True if the largest is no more than `MOST_SPREAD` times the least.
    """
    least, *_, most = _judged(values)
    return most <= MOST_SPREAD * least


def detect_drift(before: Sequence[float], after: Sequence[float]) -> Drift:
    """Whether a clean maximum has changed.

    It has where every value of a side is more than `DRIFT` beyond all of the other side. It has not
    where the medians are closer than that and the values of each side agree. Else nobody can tell:
    values that are far apart excuse nothing, and prove nothing.

    Args:
        before: Frames/s, each found by itself.
        after: Likewise, found later or in another run.

    Returns:
        "held", "drifted" or "cannot tell"; "" without a value on a side.
    """
    if not before or not after:
        return ""
    if min(len(before), len(after)) < 2:
        return "cannot tell"
    first, again = _judged(before), _judged(after)
    if max(again[0] / first[-1], first[0] / again[-1]) > 1 + DRIFT:
        return "drifted"
    is_close = abs(log(median(after) / median(before))) <= log1p(DRIFT)
    return "held" if is_close and agree(before) and agree(after) else "cannot tell"


class CalibrationPoint(Frozen):
    """The generator looped to itself over one kind of wire, at one frame size.

    Attributes:
        frame_size: Octets including FCS.
        max_clean_fps: Highest rate with every frame sent and received, both ports, frames/s; the
            median of `max_clean_values`.
        max_clean_values: That rate as often as it was found, by trials of 1 s: three times, and up
            to nine where these do not agree. One by short trials where the calibration was brief;
            empty where they were not recorded.
        ended_by: What the trials just above it met; "" where that was not recorded.
        checked_values: The same found again when the run had ended; empty where it was not.
        brief: Found once, by trials of 0.15 s, as for a preset that is no benchmark; None: not
            recorded.
        latency_ns: Median latency at 1 % of that rate, nanoseconds.
        latency_min_ns: Smallest latency, nanoseconds.
        pacing_error: Largest relative difference of offered to intended rate over the rates tried.
        max_burst: Most frames handed over in one call at 10 % of the maximum.
        smallest_burst_gap_ns: Mean gap of an exact-count burst at full rate, nanoseconds; the
            median of three bursts, where it is not brief.
    """

    frame_size: int
    max_clean_fps: float
    latency_ns: float
    latency_min_ns: float
    pacing_error: float
    max_burst: int
    smallest_burst_gap_ns: float | None = None
    max_clean_values: tuple[float, ...] = ()
    ended_by: EndedBy = ""
    checked_values: tuple[float, ...] = ()
    brief: bool | None = None

    @property
    def drift(self) -> float | None:
        """Relative change of the clean maximum over the run; None where it was not checked."""
        if not self.checked_values:
            return None
        return median(self.checked_values) / self.max_clean_fps - 1.0

    @property
    def is_uncertain(self) -> bool:
        """Whether its values do not agree; of one, as a brief calibration has, nobody knows."""
        return len(self.max_clean_values) > 1 and not agree(self.max_clean_values)

    @property
    def drift_verdict(self) -> Drift:
        """Whether it changed over the run."""
        return detect_drift(self.max_clean_values or (self.max_clean_fps,), self.checked_values)


class Calibration(Frozen):
    """A calibration of the generator on a testbed.

    Attributes:
        generator: Name and version.
        wire: Kind of wire.
        cores: Processors the generator used.
        when: UTC time, ISO 8601.
        points: One for each frame size.
        testbed: Name of the testbed, of a run on several; else "".
    """

    generator: str
    wire: str
    testbed: str = ""
    cores: tuple[int, ...]
    when: str
    points: tuple[CalibrationPoint, ...]

    def at(self, frame_size: int) -> CalibrationPoint | None:
        """The point of a frame size; None when that size was not calibrated."""
        return next((p for p in self.points if p.frame_size == frame_size), None)

    def joined(self, newer: Calibration) -> Calibration:
        """With the points of a newer one, which replace its own; as old as its oldest point."""
        kept = [point for point in self.points if newer.at(point.frame_size) is None]
        points = sorted((*kept, *newer.points), key=lambda point: point.frame_size)
        when = min(self.when, newer.when) if kept else newer.when
        return newer.model_copy(update={"points": tuple(points), "when": when})
