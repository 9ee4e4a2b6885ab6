"""Decides whether a trial's counts are a measurement of the DUT."""

from __future__ import annotations

from vnetperf.model.trial import DirectionCounts, TrialResult, Verdict

_FAILURES = {
    "dut": Verdict.DUT_FAILED,
    "timeout": Verdict.TIMED_OUT,
    "generator": Verdict.GENERATOR_LIMITED,
}


def judge(result: TrialResult, tolerance: float) -> tuple[Verdict, str]:
    """Judge a trial, each direction by itself.

    Args:
        result: What was counted.
        tolerance: Accepted shortfall of offered against intended load, ratio.

    Returns:
        The verdict, and why it is not VALID ("" when it is).
    """
    if result.failed:
        return _FAILURES[result.failed], result.failure
    if not result.directions:
        return Verdict.INCONSISTENT, "no direction was counted"
    for counts in result.directions:
        if reason := _inconsistency(result, counts):
            return Verdict.INCONSISTENT, f"direction {counts.direction}: {reason}"
    for counts in result.directions:
        offered = result.offered(counts)
        if offered < counts.intended * (1 - tolerance):
            shortfall = 1 - offered / counts.intended
            return (
                Verdict.GENERATOR_LIMITED,
                f"direction {counts.direction}: offered {shortfall:.2%} less than intended "
                f"({counts.unsent} frames unsent, {counts.refused} refused)",
            )
    return Verdict.VALID, ""


def _inconsistency(result: TrialResult, counts: DirectionCounts) -> str:
    if counts.intended <= 0:
        return "no frame was intended"
    accounted = counts.sent + counts.refused + counts.unsent
    if accounted != counts.intended:
        return f"{counts.intended} frames intended but {accounted} accounted for"
    if counts.received > counts.sent:  # what the wire refused cannot have come back
        return f"{counts.received - counts.sent} more frames received than sent"
    if counts.misrouted:
        return f"{counts.misrouted} frames came back at the wrong port"
    return ""


#: A new maximum stays below what the generator was just seen to offer ...
OFFERED_MARGIN = 0.9
#: ... and need not be far above what the DUT forwarded: on shared cores an overload also takes the
#: DUT's processor away, so leave room for it to forward more at a lower load.
FORWARDED_ROOM = 2.5


def offerable_load(result: TrialResult, loads: tuple[float, ...] = ()) -> float | None:
    """A maximum load for the next search, after the generator could not offer one.

    Args:
        result: What was counted.
        loads: Each direction's load as a share of a trial's; empty for 1 each.

    Returns:
        Frames/s per interface, by the weaker direction; None when nothing was sent.
    """
    found = [
        min(
            OFFERED_MARGIN * result.offered(counts) / counts.tx_seconds,
            FORWARDED_ROOM * max(counts.received, 1) / counts.tx_seconds,
        )
        / (loads[counts.direction] if loads else 1.0)
        for counts in result.directions
        if counts.tx_seconds > 0
    ]
    return min(found) if found else None
