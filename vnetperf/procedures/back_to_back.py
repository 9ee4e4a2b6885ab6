"""Back-to-back frames, RFC 9004: the longest burst without loss, and the buffer that implies.

Each search is a binary search over multiples of a step (TST009 section 12.3.2), or with loss
verification (12.3.3) where a burst that lost frames is tried again.

A burst counts only if it left at the minimum gap, which a wire without a speed has from the
generator's calibration: while a tester is kept from running, the DUT empties its buffer. Nor does
one count that the tester did not send whole, or whose loss may be the tester's own.

A search that reached the longest burst has a lower limit only. Without it the mean would be that
of the shorter bursts, so with one of them there is a limit and no mean; nor is there one near it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import NEAR_LONGEST, BackToBack
from vnetperf.model.parameters import BackToBackTest
from vnetperf.model.trial import TrialOutcome, TrialRequest, Verdict
from vnetperf.procedures.base import ProcedureInputs
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: A throughput this near to the largest rate leaves nothing over that would fill a buffer.
_FULL_RATE = 0.999
#: Bursts that leave more slowly than this share of a medium's rate have no minimum gap.
_MINIMUM_GAP = 0.99


#: A burst whose mean gap is longer than this multiple of the calibrated one does not count.
SLOWEST = 1.05
#: Times that such a burst is sent, at most.
ATTEMPTS = 5
#: Searches without a value that end the test where none before them had one.
_HOPELESS = 3


class _Burst(Enum):
    """What a burst shows, or is an upper limit for."""

    PASSED = "came through"
    LOST = "lost frames"
    UNCOUNTED = "left too slowly, or was disturbed by the tester"
    LONGEST = "would be longer than any"


@dataclass
class _Bursts:
    """What all bursts of a test came to."""

    slowest_s: float | None  # Longest mean gap that counts, seconds; None: any does
    per_interface: float = 1.0  # Frames of an interface for each of a stream
    frames: float = 0.0  # Of the bursts that came through
    seconds: float = 0.0  # What these bursts took
    slow: int = 0  # Bursts that did not count by their gap
    slow_gap_s: float = inf  # Shortest mean gap of these, seconds
    disturbed: int = 0  # Bursts that did not count by their verdict
    trials: list[int] = field(default_factory=list)  # Numbers of all

    def add(self, outcome: TrialOutcome) -> _Burst:
        """Take a burst."""
        self.trials.append(outcome.number)
        timed = [
            (counts.sent + counts.refused, counts.tx_seconds)
            for counts in outcome.result.directions
            # The gap of a single frame is none.
            if counts.intended > 1 and counts.tx_seconds > 0
        ]
        for counts in outcome.result.directions:
            self.per_interface = max(self.per_interface, counts.intended / outcome.request.burst)
        gap_s = max((seconds / frames for frames, seconds in timed if frames), default=0.0)
        if self.slowest_s is not None and gap_s > self.slowest_s:
            self.slow, self.slow_gap_s = self.slow + 1, min(self.slow_gap_s, gap_s)
            return _Burst.UNCOUNTED
        if outcome.verdict is not Verdict.VALID:
            self.disturbed += 1
            return _Burst.UNCOUNTED
        if outcome.result.worst_loss_ratio() > 0:
            return _Burst.LOST
        # A frame that the far end refuses leaves the generator faster than any other.
        self.frames += sum(frames for frames, _ in timed)
        self.seconds += sum(seconds for _, seconds in timed)
        return _Burst.PASSED

    @property
    def gap_s(self) -> float | None:
        """Mean time between frames of those that came through, seconds."""
        return self.seconds / self.frames if self.frames and self.seconds else None


def back_to_back(inputs: ProcedureInputs[BackToBackTest]) -> Procedure[BackToBack]:
    """Run the test."""
    test = inputs.parameters
    _require_room(inputs)
    rate = _largest_rate(inputs)
    steps = max(1, int(test.max_burst_s * rate / test.step_frames))
    calibrated_s = None if inputs.burst_gap_ns is None else inputs.burst_gap_ns / 1e9
    bursts = _Bursts(None if calibrated_s is None else SLOWEST * calibrated_s)
    found: list[int] = []
    limits: list[_Burst] = []
    for _ in range(test.searches):
        passed, limit = yield from _search(test, steps, rate, bursts)
        if limit is not _Burst.UNCOUNTED:
            found.append(passed * test.step_frames)
        limits.append(limit)
        if not found and limits.count(_Burst.UNCOUNTED) >= _HOPELESS:
            break
    if not found:
        raise _never_sent(inputs, bursts)
    return _outcome(inputs, found, limits, steps * test.step_frames, bursts)


def _largest_rate(inputs: ProcedureInputs[BackToBackTest]) -> float:
    """The medium's; without one that of the calibrated gap, or else the largest load."""
    if not inputs.nominal:
        return inputs.media_fps
    return 1e9 / inputs.burst_gap_ns if inputs.burst_gap_ns else inputs.ceiling_fps


def _never_sent(inputs: ProcedureInputs[BackToBackTest], bursts: _Bursts) -> NoResultError:
    whys = []
    if bursts.slow:
        whys.append(
            f"{bursts.slow} left at {1e9 * bursts.slow_gap_s:.4g} ns a frame or more (calibrated: "
            f"{inputs.burst_gap_ns:g} ns), while the DUT can empty its buffer"
        )
    if bursts.disturbed:
        whys.append(
            f"{bursts.disturbed} were not sent whole, or the tester itself may have lost what was "
            "lost"
        )
    return NoResultError(
        f"too few bursts counted of {len(bursts.trials)}: {'; '.join(whys)}",
        where=f"back-to-back frames of {inputs.frame_size} octets",
        cure="give the tester a core of its own, or set back_to_back.max_burst_s lower",
    )


def _require_room(inputs: ProcedureInputs[BackToBackTest]) -> None:
    known = inputs.known
    where = f"back-to-back frames of {inputs.frame_size} octets"
    if not inputs.nominal and known.load_fps >= _FULL_RATE * inputs.media_fps:
        raise NoResultError(
            "the throughput is the medium's largest rate, so that no buffer can fill (RFC 9004)",
            where=where,
        )
    if known.qualifier == "at least":
        raise NoResultError(
            "the throughput is at least the largest load that can be offered, so that nothing "
            f"tells whether a buffer fills (RFC 9004); {known.note}",
            where=where,
        )


def _search(
    test: BackToBackTest, steps: int, rate: float, bursts: _Bursts
) -> Procedure[tuple[int, _Burst]]:
    """One search; returns the longest burst that came through, in steps, and what is above it."""
    passed, above, limit = 0, steps + 1, _Burst.LONGEST
    while above - passed > 1:
        middle = (passed + above) // 2
        shown = yield from _shown(test, middle * test.step_frames, rate, bursts)
        if shown is _Burst.PASSED:
            passed = middle
        else:
            above, limit = middle, shown
    return passed, limit


def _shown(test: BackToBackTest, frames: int, rate: float, bursts: _Bursts) -> Procedure[_Burst]:
    """What bursts of a length show: one that comes through decides, an uncounted is repeated."""
    lossy = uncounted = 0
    while lossy <= test.repeats_after_loss and uncounted < ATTEMPTS:
        shown = bursts.add((yield _burst(test, frames, rate)))
        if shown is _Burst.PASSED:
            return shown
        lossy, uncounted = lossy + (shown is _Burst.LOST), uncounted + (shown is not _Burst.LOST)
    return _Burst.LOST if lossy > test.repeats_after_loss else _Burst.UNCOUNTED


def _burst(test: BackToBackTest, frames: int, rate: float) -> TrialRequest:
    seconds = frames / rate
    return TrialRequest(
        load_fps=rate,
        duration_s=seconds,
        burst=frames,
        histogram_up_to_loss=-1.0,
        when_limited="count",
        classifies=(0.0,),  # it comes through whole or not: how much it loses is no number
        # A longer burst may have filled a buffer that takes longer to drain (RFC 9004).
        idle_s=max(test.idle_s, seconds),
    )


def _outcome(
    inputs: ProcedureInputs[BackToBackTest],
    found: Sequence[int],
    limits: Sequence[_Burst],
    longest: int,
    bursts: _Bursts,
) -> BackToBack:
    test, known, times = inputs.parameters, inputs.known, bursts.per_interface
    frames = spread([n * times for n in found], resolution=test.step_frames * times)
    rate, gap_s = _largest_rate(inputs), bursts.gap_s
    # Without a medium and without a calibrated gap there is no rate that bursts left at.
    has_rate = not inputs.nominal or inputs.burst_gap_ns is not None
    left = 1 - known.load_fps / rate
    result = BackToBack(
        frames=frames,
        step_frames=test.step_frames,
        max_burst_frames=round(longest * times),
        gap_ns=None if gap_s is None else 1e9 * gap_s,
        calibrated_gap_ns=inputs.burst_gap_ns,
        slow_bursts=None if bursts.slowest_s is None else bursts.slow,
        undecided=limits.count(_Burst.UNCOUNTED),
        throughput_fps=known.load_fps * inputs.in_sum,
        max_rate_fps=rate if has_rate else None,
        capped=_Burst.LONGEST in limits,
        note="; ".join(_notes(inputs, frames.maximum, round(longest * times), limits, bursts)),
        trials=tuple(bursts.trials),
    )
    if result.is_limit or not has_rate:
        return result
    implied = frames.mean / rate
    corrected = implied * left if left > 0 else None
    return result.model_copy(update={"implied_s": implied, "corrected_s": corrected})


def _notes(
    inputs: ProcedureInputs[BackToBackTest],
    most: float,
    longest: float,
    limits: Sequence[_Burst],
    bursts: _Bursts,
) -> list[str]:
    test, known, rate, gap_s = inputs.parameters, inputs.known, _largest_rate(inputs), bursts.gap_s
    notes = [known.note] if known.note else []
    if capped := limits.count(_Burst.LONGEST):
        notes.append(
            f"no result: the longest burst that is tried came through in {capped} of {len(limits)} "
            "searches; raise max_burst_s"
        )
    elif most >= NEAR_LONGEST * longest:
        notes.append(
            f"no result: bursts within {1 - NEAR_LONGEST:.0%} of the longest one that is tried "
            "came through (RFC 9004); raise max_burst_s"
        )
    if undecided := limits.count(_Burst.UNCOUNTED):
        notes.append(
            f"{undecided} of {len(limits)} searches are not in it: no burst above the longest one "
            "that came through counted"
        )
    if bursts.slow:
        notes.append(
            f"{bursts.slow} of {len(bursts.trials)} bursts did not count: their frames left over "
            f"{SLOWEST - 1:.0%} further apart than calibrated"
        )
    if bursts.disturbed:
        notes.append(
            f"{bursts.disturbed} of {len(bursts.trials)} bursts did not count: the tester did not "
            "send them whole, or may itself have lost what was lost"
        )
    if inputs.burst_gap_ns is None:
        notes.append("no calibrated gap is recorded: every burst counted, however slowly it left")
    if known.load_fps >= rate:
        notes.append(
            "no corrected buffer time: bursts leave the generator no faster than the throughput"
        )
    if not inputs.nominal and gap_s is not None and gap_s * rate * _MINIMUM_GAP > 1:
        notes.append(f"frames left {gap_s * rate:.2f} times as far apart as the medium allows")
    if most == 0:
        notes.append(f"even bursts of {test.step_frames} frames lost some")
    return notes
