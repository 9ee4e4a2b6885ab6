"""Verdicts on trials, the load that a generator can offer, and the files of captured frames."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vnetperf.model.errors import LogError
from vnetperf.model.trial import DirectionCounts, Gaps, QueueGaps, TrialGaps, TrialResult, Verdict

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
    loss_ratios: Sequence[float] = (),
    loss_limits: Sequence[float] = (),
) -> tuple[Verdict, str]:
    """Judge a trial, each direction by itself: the verdict, and why it is not VALID.

    `tolerance` is the share of the intended frames that may be missing from the offered ones,
    `loss_ratios` are those of the goals that it classifies a load for (none where the loss is
    itself the number), `loss_limits` those that such a number is held against.
    """
    if result.failed:
        return _VERDICT_OF_FAILURE[result.failed], result.failure
    if why := _inconsistency(result):
        return Verdict.INCONSISTENT, why
    if why := _shortfall(result, tolerance):
        return Verdict.GENERATOR_LIMITED, why
    for counts in result.directions:
        if why := _own_loss(result, counts, loss_ratios, loss_limits):
            return Verdict.TESTER_STALLED, f"direction {counts.direction}: {why}"
    return Verdict.VALID, ""


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
    for counts in result.directions:
        offered = result.offered(counts)
        if offered < counts.intended * (1 - tolerance):
            return (
                f"direction {counts.direction}: offered {1 - offered / counts.intended:.2%} less "
                f"than intended ({counts.unsent} frames unsent, {counts.refused} refused)"
            )
    return ""


def _own_loss(
    result: TrialResult,
    counts: DirectionCounts,
    loss_ratios: Sequence[float],
    loss_limits: Sequence[float],
) -> str:
    """Why a loss may be the tester's, by its gaps or its port's drops; "" where it cannot be."""
    lost, gaps = result.lost(counts), result.gaps
    if lost <= 0 or not _matters(result, counts, loss_ratios, loss_limits):
        return ""
    whys = []
    if gaps is not None and gaps.most_lost(counts.direction, 1.0) > 0:
        kinds = ("poll", "send") if counts.sent > counts.received else ("send",)
        whys += _queue_stalls(gaps.of_direction(counts.direction), kinds) or _stalls(gaps, kinds)
    port = result.receiver(counts)
    if port is not None and port.dropped:
        whys.append(str(port))
    return f"{lost} frames lost, and {' and '.join(whys)}"


_RINGS = {"poll": "the tester's receive ring", "send": "the DUT's receive ring"}


def _stalls(gaps: TrialGaps, kinds: Sequence[str]) -> list[str]:
    found = {"poll": gaps.poll, "send": gaps.send}
    return [_stall_text(kind, "", found[kind]) for kind in kinds if found[kind].over_s > 0]


def _queue_stalls(queues: Sequence[QueueGaps], kinds: Sequence[str]) -> list[str]:
    """The worst queue of each kind."""
    found = []
    for kind in kinds:
        mine = [one for one in queues if one.kind == kind]
        if mine:
            worst = max(mine, key=lambda one: one.share * one.over_s)
            found.append(_stall_text(kind, f" queue {worst.queue} of port {worst.port}", worst))
    return found


def _stall_text(kind: str, at: str, gaps: Gaps | QueueGaps) -> str:
    holds = "is taken to hold" if gaps.assumed else "holds"
    return (
        f"the tester did not {kind}{at} for {gaps.max_s * 1e3:.3g} ms ({_RINGS[kind]} {holds} "
        f"{(gaps.hold_s or 0.0) * 1e3:.3g} ms of this load)"
    )


def _matters(
    result: TrialResult,
    counts: DirectionCounts,
    loss_ratios: Sequence[float],
    loss_limits: Sequence[float],
) -> bool:
    """Whether a loss without what the tester may have lost would be judged otherwise."""
    if any(result.is_in_doubt(counts, ratio) for ratio in (*loss_ratios, *loss_limits)):
        return True
    return not loss_ratios and result.most_lost_by_tester(counts) > STALL_SHARE * result.lost(
        counts
    )


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


#: A new maximum stays below what the generator was just seen to offer ...
OFFERED_MARGIN = 0.9
#: ... and a search need not begin far above what the DUT forwarded: on shared cores an overload
#: also takes the DUT's processor away, so leave room for it to forward more at a lower load.
FORWARDED_ROOM = 2.5


def offerable_load(
    result: TrialResult, loads: tuple[float, ...] = ()
) -> tuple[float, float] | None:
    """What a trial shows that the generator could not offer: a limit of load, and a hint.

    The limit is the generator's, by what it did offer. The hint is by what came back: a search
    begins there, and goes on above it where the DUT carries that.
    """
    shares = {c.direction: loads[c.direction] if loads else 1.0 for c in result.directions}
    counted = [c for c in result.directions if c.tx_seconds > 0]
    if not counted:
        return None
    limit = min(result.offered(c) / c.tx_seconds / shares[c.direction] for c in counted)
    came = min(max(c.received, 1) / c.tx_seconds / shares[c.direction] for c in counted)
    return OFFERED_MARGIN * limit, FORWARDED_ROOM * came


CAPTURES_FOLDER = "captures"


def write_captures(log: Path, trial: int, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write what was captured in a trial; frames may be anybody's, so only the user reads them."""
    folder = log.parent / CAPTURES_FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        names = [f"{log.stem}-{trial:05d}-{name}" for name in files]
        for name, octets in zip(names, files.values(), strict=True):
            _write_private(folder / name, octets)
    except OSError as error:
        raise LogError(
            f"captured frames cannot be written: {error.strerror}",
            where=str(folder),
            cure="make room, or leave --pcap out",
        ) from error
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
