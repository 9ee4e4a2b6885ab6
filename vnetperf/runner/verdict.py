"""Verdicts on trials, the load that a generator can offer, and the files of captured frames."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vnetperf.model.errors import LogError
from vnetperf.model.trial import (
    NUMBER_SHORTFALL,
    DirectionCounts,
    Gaps,
    LossInterval,
    QueueGaps,
    TrialGaps,
    TrialResult,
    Verdict,
)

_VERDICT_OF_FAILURE = {
    "dut": Verdict.DUT_FAILED,
    "timeout": Verdict.TIMED_OUT,
    "generator": Verdict.GENERATOR_LIMITED,
}


#: Of a loss that is itself the number, no more than this share may be the tester's.
STALL_SHARE = 0.1


def judge(
    result: TrialResult,
    tolerance: float,
    classifies: Sequence[float] = (),
    loss_limits: Sequence[float] = (),
    *,
    overload: bool = False,
) -> tuple[Verdict, str]:
    """Judge a trial: the verdict, and why it is not VALID or what a reader of it has to know.

    A trial that is to classify its load is VALID where it does so for at least one loss ratio: the
    loss is an interval, and only what straddles all of them classifies nothing. One whose counts
    are the number is VALID where load and loss are what they are taken for.

    `tolerance` is the accuracy of the load; the others are as in `TrialRequest`.
    """
    if result.failed:
        return _VERDICT_OF_FAILURE[result.failed], result.failure
    if reason := _inconsistency(result):
        return Verdict.INCONSISTENT, reason
    if classifies:
        return _judge_class(result, tolerance, classifies)
    return _judge_number(result, tolerance, loss_limits, overload=overload)


def _judge_class(
    result: TrialResult, tolerance: float, classifies: Sequence[float]
) -> tuple[Verdict, str]:
    loss = result.load_loss(tolerance)
    short = _shortfall(result, tolerance)
    decided = [ratio for ratio in classifies if loss.decides(ratio)]
    if len(decided) == len(classifies):
        return Verdict.VALID, f"{short}; {_loss_text(loss)}" if short else ""
    reasons = [short, *(_explain_tester_loss(result, counts) for counts in result.directions)]
    text = "; ".join([*filter(None, reasons), _loss_text(loss)])
    if decided:
        named = ", ".join(f"{ratio:.4g}" for ratio in dict.fromkeys(decided))
        return Verdict.VALID, f"{text}: classifies the load for a loss ratio of {named} only"
    offered = result.load_loss(1.0)  # had the load been what was offered
    is_stalled = not any(offered.decides(ratio) for ratio in classifies)
    return Verdict.TESTER_STALLED if is_stalled else Verdict.GENERATOR_LIMITED, text


def _loss_text(loss: LossInterval) -> str:
    return f"the DUT's loss is {loss}"


def _judge_number(
    result: TrialResult, tolerance: float, loss_limits: Sequence[float], *, overload: bool
) -> tuple[Verdict, str]:
    largest = max(tolerance, NUMBER_SHORTFALL)
    short = [counts for counts in result.directions if result.is_short(counts, largest)]
    if overload:
        short = [counts for counts in short if not _is_overloaded(result, counts)]
    if short:
        return Verdict.GENERATOR_LIMITED, _shortfall_text(result, short[0])
    for counts in result.directions:
        if _matters(result, counts, loss_limits):
            return Verdict.TESTER_STALLED, _explain_tester_loss(result, counts)
    return Verdict.VALID, _shortfall(result, tolerance)


def _is_overloaded(result: TrialResult, counts: DirectionCounts) -> bool:
    """Whether the DUT lost more than was not offered: a larger load would be lost as well."""
    lost = result.lost(counts) - result.most_lost_by_tester(counts)
    return lost > counts.intended - result.offered(counts)


def _inconsistency(result: TrialResult) -> str:
    if not result.directions:
        return "no direction was counted"
    for counts in result.directions:
        if reason := _contradiction(counts):
            return f"direction {counts.direction}: {reason}"
    if reason := _changed_underway(result):
        return reason
    if result.corrupted:
        return f"{result.corrupted} frames came back with a stream or number that was never sent"
    return ""


def _changed_underway(result: TrialResult) -> str:
    """What the counts are of before and not after, so that their sum is of neither.

    What a trial's event does to links is its purpose.
    """
    if result.event is None:
        changes = [f"that of tester port {p.port}" for p in result.tester if p.carrier_changes]
        if links := [*changes, *result.links_down]:
            return f"a link went down or came up during the trial: {', '.join(links)}"
    return result.machine.clock_change if result.machine is not None else ""


def _shortfall(result: TrialResult, tolerance: float) -> str:
    """The first direction that offered less than its load; "" for none."""
    short = (counts for counts in result.directions if result.is_short(counts, tolerance))
    return next((_shortfall_text(result, counts) for counts in short), "")


def _shortfall_text(result: TrialResult, counts: DirectionCounts) -> str:
    return (
        f"direction {counts.direction}: offered {result.shortfall(counts):.2%} less than intended "
        f"({counts.unsent} frames unsent, {counts.refused} refused)"
    )


def _explain_tester_loss(result: TrialResult, counts: DirectionCounts) -> str:
    """Why a loss may be the tester's, by its gaps or its port's drops; "" where it cannot be."""
    lost, gaps = result.lost(counts), result.gaps
    if lost <= 0 or not result.most_lost_by_tester(counts):
        return ""
    reasons = []
    if gaps is not None and gaps.most_lost(counts.direction, 1.0) > 0:
        kinds = ("poll", "send") if counts.sent > counts.received else ("send",)
        reasons += _queue_stalls(gaps.direction_queues(counts.direction), kinds) or _stalls(
            gaps, kinds
        )
    port = result.receiver(counts)
    if port is not None and port.dropped:
        reasons.append(str(port))
    return f"direction {counts.direction}: {lost} frames lost, and {' and '.join(reasons)}"


_RINGS = {"poll": "the tester's receive ring", "send": "the DUT's receive ring"}


def _stalls(gaps: TrialGaps, kinds: Sequence[str]) -> list[str]:
    gaps_by_kind = {"poll": gaps.poll, "send": gaps.send}
    return [
        _stall_text(kind, "", gaps_by_kind[kind]) for kind in kinds if gaps_by_kind[kind].over_s > 0
    ]


def _queue_stalls(queues: Sequence[QueueGaps], kinds: Sequence[str]) -> list[str]:
    """The worst queue of each kind."""
    stalls = []
    for kind in kinds:
        queues_of_kind = [queue for queue in queues if queue.kind == kind]
        if queues_of_kind:
            worst = max(queues_of_kind, key=lambda queue: queue.share * queue.over_s)
            stalls.append(_stall_text(kind, f" queue {worst.queue} of port {worst.port}", worst))
    return stalls


def _stall_text(kind: str, place: str, gaps: Gaps | QueueGaps) -> str:
    holds = "is taken to hold" if gaps.assumed else "holds"
    return (
        f"the tester did not {kind}{place} for {gaps.max_s * 1e3:.3g} ms ({_RINGS[kind]} {holds} "
        f"{(gaps.hold_s or 0.0) * 1e3:.3g} ms of this load)"
    )


def _matters(result: TrialResult, counts: DirectionCounts, loss_limits: Sequence[float]) -> bool:
    """Whether a loss that is the number would be another without what the tester may have lost."""
    lost = result.lost(counts)
    if lost <= 0:
        return False
    of_offered = result.loss_interval(counts, 1.0)
    if not all(of_offered.decides(limit) for limit in loss_limits):
        return True
    return result.most_lost_by_tester(counts) > STALL_SHARE * lost


def _contradiction(counts: DirectionCounts) -> str:
    if counts.intended <= 0:
        return "no frame was intended"
    accounted = counts.sent + counts.refused + counts.unsent
    if accounted != counts.intended:
        return f"{counts.intended} frames intended but {accounted} accounted for"
    if counts.received > counts.sent:  # what the wire refused cannot have come back
        return f"{counts.received - counts.sent} more frames received than sent"
    if counts.late:
        return (
            f"{counts.late} frames came back too late to tell a copy from a new frame: they are "
            "neither received nor lost"
        )
    if counts.misrouted:
        return f"{counts.misrouted} frames came back at the wrong port"
    return ""


def is_finding(result: TrialResult) -> bool:
    """Whether an inconsistent trial shows what the DUT did, and not the tester's own miscount."""
    return bool(result.corrupted) or any(
        d.misrouted or 0 < d.sent < d.received for d in result.directions
    )


#: A new maximum stays below what the generator was just seen to offer.
OFFERED_MARGIN = 0.9


def offerable_load(result: TrialResult, loads: tuple[float, ...] = ()) -> float | None:
    """The largest load that a trial shows the generator to be able to offer, frames/s."""
    shares = {c.direction: loads[c.direction] if loads else 1.0 for c in result.directions}
    offered = (
        result.offered(c) / c.tx_seconds / shares[c.direction]
        for c in result.directions
        if c.tx_seconds > 0
    )
    limit = min(offered, default=None)
    return None if limit is None else OFFERED_MARGIN * limit


CAPTURES_FOLDER = "captures"


def write_captures(log: Path, trial: int, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write what was captured in a trial; frames may be anybody's, so only the user reads them."""
    folder = log.parent / CAPTURES_FOLDER
    with LogError.explain_os_error(
        "captured frames cannot be written",
        where=str(folder),
        cure="make room, or leave --pcap out",
    ):
        folder.mkdir(mode=0o700, exist_ok=True)
        names = [f"{log.stem}-{trial:05d}-{name}" for name in files]
        for name, octets in zip(names, files.values(), strict=True):
            _write_private(folder / name, octets)
    return tuple(f"{CAPTURES_FOLDER}/{name}" for name in names)


def _write_private(path: Path, octets: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(octets)
    except OSError:
        path.unlink(missing_ok=True)  # half a file would be read as all that was captured
        raise


def captures_summary(folder: Path) -> str:
    """A line about a run's captures; "" without any."""
    files = sorted((folder / CAPTURES_FOLDER).glob("*.pcap"))
    return f"captures: {len(files)} pcap files in {folder / CAPTURES_FOLDER}" if files else ""
