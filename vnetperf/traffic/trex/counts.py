"""What TRex counted, as the family's counts of each direction."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hdrh.histogram import HdrHistogram

from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts, Latency, TrialResult
from vnetperf.traffic.histogram import encode_hdr, percentiles
from vnetperf.traffic.trex.streams import TrialPlan

NO_NUMBERS = "not measured: TRex does not number the frames of a load"
#: What a result of TRex cannot have; "misrouted" and the like are None, and here is why.
UNCOLLECTED = {
    **dict.fromkeys(("duplicated", "reordered", "late", "misrouted"), NO_NUMBERS),
    **dict.fromkeys(
        ("foreign", "stale"), "not measured: TRex counts every frame that a port takes in"
    ),
    **dict.fromkeys(
        ("max_burst", "max_lag_s", "mean_lag_s"),
        "not measured: TRex keeps no account of when frames left",
    ),
}
NS_PER_US = 1000
WHERE = "trex"


def to_trial_result(
    plan: TrialPlan, said: Mapping[str, Any], *, histogram_up_to_loss: float = 1.0
) -> TrialResult:
    """Counts of each direction.

    Args:
        plan: What was to be sent.
        said: What the client's process answered.
        histogram_up_to_loss: As in `TrialSpec`.

    Returns:
        The result, without hops and threads.

    Raises:
        GeneratorError: The counters cannot be true.
    """
    directions = sorted({s.frame.stream.direction for s in plan.sent})
    ports = {int(number): counts for number, counts in said["ports"].items()}
    short = {d: plan.intended(d) - ports[d]["sent"] for d in directions}
    check(plan, ports, short)
    refused = _dealt(int(said["dropped"]), short)
    counts = tuple(_direction(d, plan, ports, refused[d], said["latency"]) for d in directions)
    result = TrialResult(directions=counts, uncollected=dict(UNCOLLECTED))
    unprobed = plan.unprobed
    if plan.probes() and all(d.latency is None for d in counts):
        unprobed = "no probe was seen to come back (TRex with several workers on memif sees none)"
    if unprobed:
        why = {"latency": f"not measured: {unprobed}"}
        result = result.model_copy(update={"uncollected": result.uncollected | why})
    if result.worst_loss_ratio() > histogram_up_to_loss:
        result = result.model_copy(update={"directions": tuple(_summary(d) for d in counts)})
    return result


def check(
    plan: TrialPlan, ports: Mapping[int, Mapping[str, Any]], short: Mapping[int, int]
) -> None:
    """Refuse counters that cannot be true.

    Args:
        plan: What was to be sent.
        ports: Counts by port.
        short: Direction -> frames that were not sent.

    Raises:
        GeneratorError: More was sent than was to be, or nothing at all.
    """
    for direction, missing in short.items():
        if missing < 0:
            raise GeneratorError(
                f"port {direction} sent {-missing} frames more than it was told to",
                where=WHERE,
                cure="somebody else sends from this server's ports: use one of your own",
            )
    if all(ports[d]["sent"] == 0 for d in short) and any(plan.intended(d) for d in short):
        raise GeneratorError(
            "the counters stand still: not one frame was sent",
            where=WHERE,
            cure="see whether the ports' links are up, and the server's log",
        )


def _dealt(dropped: int, short: Mapping[int, int]) -> dict[int, int]:
    """What ports refused: TRex counts it for all ports together, so by what each is short of."""
    total = sum(short.values())
    if not total:
        return dict.fromkeys(short, 0)
    dropped = min(dropped, total)
    dealt, given, so_far = {}, 0, 0
    for direction, missing in short.items():
        so_far += missing
        upto = round(dropped * so_far / total)
        dealt[direction] = upto - given
        given = upto
    return dealt


def _direction(
    direction: int,
    plan: TrialPlan,
    ports: Mapping[int, Mapping[str, Any]],
    refused: int,
    latency: Mapping[str, Any],
) -> DirectionCounts:
    intended, sent = plan.intended(direction), ports[direction]["sent"]
    refused = min(refused, intended - sent)
    return DirectionCounts(
        direction=direction,
        intended=intended,
        sent=sent,
        refused=refused,
        unsent=intended - sent - refused,
        received=ports[1 - direction]["received"],
        duplicated=None,
        reordered=None,
        late=None,
        misrouted=None,
        tx_seconds=ports[direction]["seconds"],
        latency=latency_of([latency[str(n)] for n in plan.probes(direction) if str(n) in latency]),
    )


def latency_of(probes: Sequence[Mapping[str, Any]]) -> Latency | None:
    """Latency of a direction's probes.

    Args:
        probes: What the server said of each: microseconds, and a histogram.

    Returns:
        Nanoseconds; None when no probe came back.
    """
    pairs = sorted(pair for probe in probes for pair in _pairs(probe))
    count = sum(frames for _, frames in pairs)
    if not count:
        return None
    mean = sum(value * frames for value, frames in pairs) / count
    return Latency(
        count=count,
        min_ns=float(pairs[0][0]),
        mean_ns=mean,
        max_ns=float(pairs[-1][0]),
        percentiles=percentiles(pairs),
        hdr=encode_hdr(pairs),
    )


def _pairs(probe: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
    """A probe's histogram: nanoseconds, and frames.

    A server that was started without --hdrh keeps ten buckets a decade only.
    """
    if text := probe.get("hdrh"):
        return decode_hdr(text)
    coarse = probe.get("histogram") or {}
    return [(int(value) * NS_PER_US, int(frames)) for value, frames in coarse.items()]


def decode_hdr(text: str) -> list[tuple[int, int]]:
    """A histogram that a server kept with --hdrh.

    Args:
        text: HdrHistogram V2, compressed, base64; microseconds.

    Returns:
        Nanoseconds and frames, by rising value.

    Raises:
        GeneratorError: It is no such histogram.
    """
    try:
        histogram = HdrHistogram.decode(text)
        items = histogram.get_recorded_iterator()
        return [
            (int(item.value_iterated_to) * NS_PER_US, int(item.count_at_value_iterated_to))
            for item in items
        ]
    except (ValueError, IndexError, TypeError, zlib.error) as error:
        what = f"a latency histogram that cannot be read: {error}"
        raise GeneratorError(what, where=WHERE) from None


def _summary(counts: DirectionCounts) -> DirectionCounts:
    if counts.latency is None:
        return counts
    bare = counts.latency.model_copy(update={"percentiles": {}, "hdr": ""})
    return counts.model_copy(update={"latency": bare})
