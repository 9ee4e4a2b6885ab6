"""Back-to-back frames, RFC 9004: the longest burst without loss, and the buffer that implies.

Each search is a binary search over multiples of a step (TST009 section 12.3.2), or with loss
verification (12.3.3) where a burst that lost frames is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import BackToBack
from vnetperf.model.parameters import BackToBackTest
from vnetperf.model.trial import TrialOutcome, TrialRequest
from vnetperf.procedures.base import ProcedureInputs
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: A throughput this near to the largest rate leaves nothing over that would fill a buffer.
_FULL_RATE = 0.999
#: Bursts that leave more slowly than this share of a medium's rate have no minimum gap.
_MINIMUM_GAP = 0.99


@dataclass
class _Bursts:
    """What all bursts of a test came to."""

    per_interface: float = 1.0
    frames: float = 0.0
    seconds: float = 0.0
    trials: list[int] = field(default_factory=list)

    def add(self, outcome: TrialOutcome) -> bool:
        """Take a burst."""
        self.trials.append(outcome.number)
        came_through = outcome.result.worst_loss_ratio() == 0
        for counts in outcome.result.directions:
            self.per_interface = max(self.per_interface, counts.intended / outcome.request.burst)
            # A frame that the far end refuses leaves the generator faster than any other.
            if came_through and counts.intended > 1 and counts.tx_seconds > 0:
                self.frames += counts.intended - 1
                self.seconds += counts.tx_seconds
        return came_through

    @property
    def gap_s(self) -> float | None:
        """Mean time between frames of those that came through, seconds."""
        return self.seconds / self.frames if self.frames and self.seconds else None


def back_to_back(inputs: ProcedureInputs[BackToBackTest]) -> Procedure[BackToBack]:
    """Run the test."""
    test = inputs.parameters
    _require_room(inputs)
    # A wire without a speed has no largest rate: what the generator can offer stands for it.
    rate = inputs.ceiling_fps if inputs.nominal else inputs.media_fps
    steps = max(1, int(test.max_burst_s * rate / test.step_frames))
    bursts, found, capped = _Bursts(), [], False
    for _ in range(test.searches):
        longest = yield from _search(test, steps, rate, bursts)
        capped = capped or longest == steps
        found.append(longest * test.step_frames)
    return _outcome(inputs, found, steps * test.step_frames, bursts, capped=capped)


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


def _search(test: BackToBackTest, steps: int, rate: float, bursts: _Bursts) -> Procedure[int]:
    """One search; returns the longest burst that came through, in steps."""
    passed, failed = 0, steps + 1
    while failed - passed > 1:
        middle = (passed + failed) // 2
        frames = middle * test.step_frames
        for _ in range(test.repeats_after_loss + 1):
            came_through = bursts.add((yield _burst(test, frames, rate)))
            if came_through:
                break
        if came_through:
            passed = middle
        else:
            failed = middle
    return passed


def _burst(test: BackToBackTest, frames: int, rate: float) -> TrialRequest:
    seconds = frames / rate
    return TrialRequest(
        load_fps=rate,
        duration_s=seconds,
        burst=frames,
        histogram_up_to_loss=-1.0,
        # A longer burst may have filled a buffer that takes longer to drain (RFC 9004).
        idle_s=max(test.idle_s, seconds),
    )


def _outcome(
    inputs: ProcedureInputs[BackToBackTest],
    found: Sequence[int],
    longest: int,
    bursts: _Bursts,
    *,
    capped: bool,
) -> BackToBack:
    test, known, gap = inputs.parameters, inputs.known, bursts.gap_s
    times = bursts.per_interface
    frames = spread([n * times for n in found], resolution=test.step_frames * times)
    rate = inputs.media_fps
    if inputs.nominal:
        rate = inputs.ceiling_fps if gap is None else 1 / gap
    implied = frames.mean / rate
    left = 1 - known.load_fps / rate
    notes = [known.note] if known.note else []
    if capped:
        notes.append("no result: the longest burst that is tried came through; raise max_burst_s")
    if left <= 0:
        notes.append(
            "no corrected buffer time: bursts leave the generator no faster than the throughput"
        )
    if not inputs.nominal and gap is not None and gap * rate * _MINIMUM_GAP > 1:
        notes.append(f"frames left {gap * rate:.2f} times as far apart as the medium allows")
    if frames.maximum == 0:
        notes.append(f"even bursts of {test.step_frames} frames lost some")
    return BackToBack(
        frames=frames,
        step_frames=test.step_frames,
        max_burst_frames=round(longest * times),
        gap_ns=None if gap is None else 1e9 * gap,
        throughput_fps=known.load_fps * inputs.in_sum,
        implied_s=implied,
        corrected_s=implied * left if left > 0 and not capped else None,
        max_rate_fps=rate,
        capped=capped,
        note="; ".join(notes),
        trials=tuple(bursts.trials),
    )
