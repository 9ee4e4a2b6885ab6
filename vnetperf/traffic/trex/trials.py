"""What TRex sends in a trial (templates, field engine, counts, latency probes).

And its counts as a trial's result.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts, Latency, TrialResult
from vnetperf.plugin.compiled_frames import (
    IPV4_LEN,
    Checksum,
    CompiledFrame,
    VariedField,
    split_by_share,
)
from vnetperf.plugin.generator import NUMBERED
from vnetperf.statistics import histogram
from vnetperf.statistics.histogram import decode_hdr, encode_hdr, latency_percentiles

#: What one instruction of the field engine writes under a mask, octets, and the largest value.
WORD = 4
FCS_OCTETS = 4
FULL = (1 << (8 * WORD)) - 1
SIZES = (1, 2, 4)
#: Octets without FCS: frames up to COPIED are changed in a copy of the whole, longer ones in
#: pieces; where the last octet that is written is not far from the end, again in a copy. It can be
#: at FARTHEST at most, so frames up to WHOLE can be kept in one piece.
COPIED, NOT_FAR, FARTHEST = 128, 64, 512
WHOLE = FARTHEST + NOT_FAR
#: TRex's own trailer in a probe: sequence number and time; it needs the room behind the headers.
PROBE_OCTETS = 16
#: Probes of latency: frames/s of each direction at most, share of its frames at most, and the
#: least number of use.
PROBE_FPS, PROBE_SHARE, FEWEST_PROBES = 1000.0, 0.1, 10
#: Ethernet types behind which TRex finds the field it marks its probes in.
PROBED_TYPES = (b"\x08\x00", b"\x86\xdd", b"\x81\x00")


@dataclass(frozen=True)
class Variable:
    """A variable of the field engine and where it is written.

    Attributes:
        size: Octets of the variable: 1, 2, 4 or 8.
        first: First value.
        last: Value that it does not exceed; the next one after it is the first again.
        step: What is added from frame to frame.
        random: True picks values uniformly.
        offset: Where it is written in the frame.
        mask: None writes all of it; otherwise four octets are read, changed under it, and written.
        shift: How many bits to the left it is moved before it is written under a mask.
    """

    size: int
    first: int
    last: int
    step: int
    random: bool
    offset: int
    mask: int | None
    shift: int = 0


@dataclass(frozen=True)
class SentStream:
    """What one stream of TRex sends in a trial.

    Attributes:
        after_us: When its first frame follows the start, microseconds.
        probe: Number of the probe; None for load.
    """

    frame: CompiledFrame
    frames: int
    fps: float
    after_us: float = 0.0
    probe: int | None = None


@dataclass(frozen=True)
class TrialPlan:
    """What all ports send in a trial; `unprobed` is why latency is not measured, "" when it is."""

    sent: tuple[SentStream, ...] = ()
    unprobed: str = ""

    def intended(self, direction: int) -> int:
        """Frames of a direction."""
        return sum(s.frames for s in self.sent if s.frame.stream.direction == direction)

    def probes(self, direction: int | None = None) -> tuple[int, ...]:
        """Numbers of the probes."""
        return tuple(
            s.probe
            for s in self.sent
            if s.probe is not None and direction in (None, s.frame.stream.direction)
        )

    def describe(self) -> list[dict[str, Any]]:
        """The streams for the client's process."""
        return [describe_stream(stream) for stream in self.sent]


def plan_trial(
    frames: Sequence[CompiledFrame],
    load_fps: float,
    duration_s: float,
    short: Mapping[int, CompiledFrame] | None = None,
) -> TrialPlan:
    """Deal a load out to the frames."""
    by_direction: dict[int, list[CompiledFrame]] = {}
    for frame in frames:
        by_direction.setdefault(frame.stream.direction, []).append(frame)
    sent: list[SentStream] = []
    unprobed = ""
    for direction_frames in by_direction.values():
        load = _deal(direction_frames, load_fps, duration_s)
        load, reason = _with_probe(load, duration_s, len(sent), short or {})
        unprobed = unprobed or reason
        sent += load
    return TrialPlan(sent=tuple(sent), unprobed=unprobed)


def _deal(frames: Sequence[CompiledFrame], load_fps: float, duration_s: float) -> list[SentStream]:
    """What the streams of one direction send; they begin one after the other, evenly."""
    total_share = sum(frame.share for frame in frames)
    counts = split_by_share(
        round(load_fps * total_share * duration_s), [f.share / total_share for f in frames]
    )
    gap_us = 1e6 / (load_fps * total_share * len(frames))
    return [
        SentStream(frame, count, load_fps * frame.share, after_us=number * gap_us)
        for number, (frame, count) in enumerate(zip(frames, counts, strict=True))
        if count
    ]


def plan_burst(frames: Sequence[CompiledFrame], count: int, fps: float) -> TrialPlan:
    """A number of frames of each stream, without probes."""
    sent: list[SentStream] = []
    for number in dict.fromkeys(f.stream.id for f in frames):
        stream_frames = [f for f in frames if f.stream.id == number]
        counts = split_by_share(count, [f.weight for f in stream_frames])
        sent += [
            SentStream(f, n, fps * f.weight)
            for f, n in zip(stream_frames, counts, strict=True)
            if n
        ]
    return TrialPlan(sent=tuple(sent), unprobed="no latency is measured in bursts")


def _with_probe(
    load: list[SentStream], duration_s: float, number: int, short: Mapping[int, CompiledFrame]
) -> tuple[list[SentStream], str]:
    """Let some frames of a direction's largest share be probes; the load stays what it is."""
    if not load:
        return load, ""
    carrier = max(load, key=lambda s: s.frames)
    frame = carrier.frame
    if len(frame.template) > WHOLE:
        frame = short.get(frame.stream.id, frame)
    if reason := probe_problem(frame):
        return load, reason
    probes = int(min(PROBE_FPS * duration_s, PROBE_SHARE * carrier.frames))
    if probes < FEWEST_PROBES:
        return load, f"too few frames for probes of latency ({carrier.frames})"
    share = probes / carrier.frames
    rest = replace(carrier, frames=carrier.frames - probes, fps=carrier.fps * (1 - share))
    probe = replace(carrier, frame=frame, frames=probes, fps=carrier.fps * share, probe=number + 1)
    return [*(rest if s is carrier else s for s in load), probe], ""


def probe_problem(frame: CompiledFrame) -> str:
    """Whether TRex can measure latency with a frame."""
    if frame.stream.tunnel:
        return "TRex's mark of a probe is in the outer header, which a tunnel's end takes away"
    if frame.template[12:14] not in PROBED_TYPES:
        return "TRex finds its mark of a probe behind Ethernet and one VLAN tag only"
    if len(frame.template) < frame.header_octets + PROBE_OCTETS:
        return (
            f"frames of {frame.size} octets have no room for TRex's {PROBE_OCTETS} behind headers"
        )
    return ""


def describe_stream(sent: SentStream) -> dict[str, Any]:
    """One stream for the client's process."""
    frame = sent.frame
    # Probes are of the first flow: they are to see one path, and no flow is to be theirs alone.
    variables = [] if sent.probe is not None else field_variables(frame.fields)
    touched = [(v.offset, v.offset + (WORD if v.mask is not None else v.size)) for v in variables]
    fixes = [
        checksum
        for checksum in frame.checksums
        if _covers_any(checksum, touched, len(frame.template))
    ]
    if COPIED < len(frame.template) <= WHOLE and (variables or sent.probe is not None):
        variables.append(_force_copy(frame.template))
    return {
        "port": frame.stream.tx_port,
        "template": base64.b64encode(frame.template).decode(),
        "frames": sent.frames,
        "pps": sent.fps,
        "after_us": round(sent.after_us, 3),
        "probe": sent.probe,
        "variables": [{"name": f"v{number}"} | asdict(v) for number, v in enumerate(variables)],
        "ipv4": [checksum.offset for checksum in fixes if checksum.kind == "ipv4"],
        "layer4": [
            [checksum.kind, checksum.ip_offset, checksum.offset]
            for checksum in fixes
            if checksum.kind != "ipv4"
        ],
    }


def field_variables(fields: Iterable[VariedField]) -> list[Variable]:
    """Varied fields as variables of the field engine."""
    return [_variable(field) for field in fields if field.count > 1]


def _variable(field: VariedField) -> Variable:
    width, offset = field.width, field.offset
    first, last = field.base, field.base + field.step * (field.count - 1)
    if width > WORD and first >> (8 * WORD) == last >> (8 * WORD):
        # Only octets that change are written: addresses are longer than any variable.
        offset, width = offset + width - WORD, WORD
        first, last = first & FULL, last & FULL
    step, shift = field.step, 0
    if field.random and step > 1:  # picked from all values between first and last, steps or not
        shift, step = step.bit_length() - 1, 1
        first, last = first >> shift, last >> shift
    last += step - 1  # a whole cycle: the next step is the first again
    if width > WORD or (width < WORD and offset < WORD - width) or field.step % (1 << shift):
        raise GeneratorError(
            f"a field of {field.width} octets that takes {field.count} values",
            where="trex",
            accepted="values that differ in their last four octets",
            cure="use fewer flows, or vary another field",
        )
    if width in SIZES and not shift and not last >> (8 * width):
        return Variable(width, first, last, step, field.random, offset, None)
    mask = (1 << (8 * width)) - (1 << shift)
    size = WORD if last <= FULL else 2 * WORD
    return Variable(size, first, last, step, field.random, offset - (WORD - width), mask, shift)


def _force_copy(template: bytes) -> Variable:
    """Writes an octet near the end as it is, so that the server changes a copy of the whole frame.

    It would send a changed beginning with a shared rest behind it otherwise, and DPDK's memif does
    not forget which of its descriptors had something behind them (seen in 25.03): frames are then
    joined, and come again and again.
    """
    place = min(len(template) - 1, FARTHEST - 1)
    octet = template[place]
    return Variable(1, octet, octet, 1, random=False, offset=place, mask=None)


def refuse_segmented(frames: Sequence[CompiledFrame]) -> None:
    """Refuse frames that can only be sent in pieces, for a port that must not send any."""
    for frame in frames:
        if len(frame.template) > WHOLE and field_variables(frame.fields):
            raise GeneratorError(
                f"several flows of frames of {frame.size} octets over memif",
                where="trex",
                accepted=f"up to {WHOLE + FCS_OCTETS} octets",
                cure="use another wire (--wire veth), shorter frames, or a single flow",
            )


def _covers_any(checksum: Checksum, touched: Sequence[tuple[int, int]], octets: int) -> bool:
    """Whether a checksum covers anything that varies."""
    if checksum.kind == "ipv4":
        begins, ends = checksum.offset, checksum.offset + IPV4_LEN
    else:
        begins, ends = checksum.ip_offset, octets
    return any(first < ends and last > begins for first, last in touched)


NO_NUMBERS = "not measured: TRex does not number the frames of a load"
#: What a result of TRex cannot have; "misrouted" and the like are None, and here is why.
UNCOLLECTED = {
    **dict.fromkeys(NUMBERED, NO_NUMBERS),
    **dict.fromkeys(
        ("foreign", "stale"), "not measured: TRex counts every frame that a port takes in"
    ),
    **dict.fromkeys(
        ("max_burst", "max_lag_s", "mean_lag_s"),
        "not measured: TRex keeps no account of when frames left",
    ),
    "gaps": "not recorded: TRex keeps no account of when it stood still",
}
#: What of latency is not known, of a server that keeps coarse buckets.
COARSE = (
    "not measured: the TRex server was started without --hdrh and keeps nine buckets a decade: "
    "percentiles are their upper edges, up to twice the time, and the first ten probes are not in "
    "its maximum"
)
#: Where the first of them ends, microseconds.
FIRST_BUCKET_US = 10
NS_PER_US = 1000
WHERE = "trex"


def to_trial_result(
    plan: TrialPlan,
    counted: Mapping[str, Any],
    duration_s: float,
    *,
    refusal_is_loss: bool = True,
    histogram_up_to_loss: float = 1.0,
    no_probe: str = "",
) -> TrialResult:
    """Counts of each direction; `no_probe` is why no probe might come back here."""
    directions = sorted({s.frame.stream.direction for s in plan.sent})
    ports = {int(number): counts for number, counts in counted["ports"].items()}
    short = {d: plan.intended(d) - ports[d]["sent"] for d in directions}
    check_counters(plan, ports, short)
    refused = _share_refused(int(counted["dropped"]), short)
    counts = tuple(_direction(d, plan, counted, refused[d], duration_s) for d in directions)
    unprobed = plan.unprobed
    if plan.probes() and all(d.latency is None for d in counts):
        unprobed = f"no probe was seen to come back{': ' * bool(no_probe)}{no_probe}"
    untold = {"latency": f"not measured: {unprobed}"} if unprobed else {}
    if any(d.latency for d in counts) and not all(
        p.get("hdrh") for p in _list_returned(plan, counted)
    ):
        untold["latency within a bucket"] = COARSE
    result = TrialResult(
        directions=counts, refusal_is_loss=refusal_is_loss, uncollected=UNCOLLECTED | untold
    )
    if result.worst_loss_ratio() > histogram_up_to_loss:
        bare = tuple(_without_histogram(d) for d in counts)
        result = result.model_copy(update={"directions": bare})
    return result


def _list_returned(
    plan: TrialPlan, counted: Mapping[str, Any], direction: int | None = None
) -> list[Mapping[str, Any]]:
    """What the server has of the probes of a direction, or of all, that came back."""
    latency = counted["latency"]
    return [latency[str(n)] for n in plan.probes(direction) if str(n) in latency]


def check_counters(
    plan: TrialPlan, ports: Mapping[int, Mapping[str, Any]], short: Mapping[int, int]
) -> None:
    """Refuse counters that cannot be true."""
    for direction, missing in short.items():
        if missing < 0:
            raise GeneratorError(
                f"port {direction} sent {-missing} frames more than it was to",
                where=WHERE,
                cure="another client sends from this server's ports: use one of your own",
            )
    if all(ports[d]["sent"] == 0 for d in short) and any(plan.intended(d) for d in short):
        raise GeneratorError(
            "the counters do not change: not one frame was sent",
            where=WHERE,
            cure="see whether the ports' links are up, and the server's log",
        )


def _share_refused(dropped: int, short: Mapping[int, int]) -> dict[int, int]:
    """What ports refused: TRex counts it for all ports together, so by what each is short of."""
    total = sum(short.values())
    if not total:
        return dict.fromkeys(short, 0)
    dealt = split_by_share(min(dropped, total), [missing / total for missing in short.values()])
    return dict(zip(short, dealt, strict=True))


def _direction(
    direction: int, plan: TrialPlan, counted: Mapping[str, Any], refused: int, duration_s: float
) -> DirectionCounts:
    port, far = (counted["ports"][str(number)] for number in (direction, 1 - direction))
    intended, sent = plan.intended(direction), port["sent"]
    refused = min(refused, intended - sent)
    probes = _list_returned(plan, counted, direction)
    # On the clock of the trial's start.
    started, stopped = counted["started"], counted["stopped"]
    samples = [CounterSample(when - started, *rest) for when, *rest in port["samples"]]
    return DirectionCounts(
        direction=direction,
        intended=intended,
        sent=sent,
        refused=refused,
        unsent=intended - sent - refused,
        received=far["received"],
        **dict.fromkeys(NUMBERED),
        tx_seconds=sending_seconds(samples, intended, stopped - started, SPAN * duration_s),
        latency=compute_latency(probes),
    )


#: Least share of the time that lies between the two samples which the pace is measured by.
SPAN = 0.3


class CounterSample(NamedTuple):
    """Frames that a port had sent.

    Attributes:
        when: Seconds after the trial's start.
        sent: Frames since the start.
        reply_s: How long the reply took, seconds: `when` is its middle.
    """

    when: float
    sent: int
    reply_s: float


def sending_seconds(
    samples: Sequence[CounterSample], planned: int, stopped: float, span: float
) -> float:
    """Time that the frames took which were sent, at the pace they were seen to leave at.

    It lies between the last sample at which some were missing and the first at which none were;
    the pace is that between two samples that are at least `span` apart.
    """
    sent = min(planned, max((sample.sent for sample in samples), default=0))
    most = min((sample.when for sample in samples if sample.sent >= sent), default=stopped)
    least = max((sample.when for sample in samples if sample.sent < sent), default=0.0)
    pace = _pace([s for s in samples if 0 < s.sent < planned and s.when <= stopped], span)
    return round(min(max(sent / pace, least), most) if pace else most, 9)


def _pace(samples: Sequence[CounterSample], span: float) -> float:
    """Frames/s between the two samples that show it best; 0 when none are far enough apart."""
    best, pace = 0.0, 0.0
    for last in samples:
        for first in samples:
            apart = last.when - first.when
            if first.when - samples[0].when > span or apart < span or last.sent <= first.sent:
                continue
            worth = apart / (first.reply_s + last.reply_s + 1e-9)
            if worth > best:
                best, pace = worth, (last.sent - first.sent) / apart
    return pace


def compute_latency(probes: Sequence[Mapping[str, Any]]) -> Latency | None:
    """Latency of a direction's probes.

    A server that was started without --hdrh keeps nine buckets a decade only. No probe took longer
    than its bucket's upper edge: these are what percentiles are of.
    """
    buckets = sorted(bucket for probe in probes for bucket in _buckets(probe))
    count = sum(bucket.frames for bucket in buckets)
    if not count:
        return None
    most = _read_server_ns(probes, "total_max", bucket=buckets[-1])
    pairs = [(min(bucket.upper, most or bucket.upper), bucket.frames) for bucket in buckets]
    in_range = [pair for pair in pairs if pair[0] <= histogram.HIGHEST_NS]
    return Latency(
        count=count,
        min_ns=float(_read_server_ns(probes, "total_min", bucket=buckets[0]) or buckets[0].lower),
        mean_ns=_mean_ns(probes, buckets),
        max_ns=float(pairs[-1][0]),
        percentiles=latency_percentiles(in_range),
        hdr=encode_hdr(in_range),
        above_range=sum(frames for _, frames in pairs[len(in_range) :]),
    )


class Bucket(NamedTuple):
    """Probes that took from `lower` to `upper` nanoseconds; with --hdrh the two are as one."""

    lower: int
    upper: int
    frames: int


def _buckets(probe: Mapping[str, Any]) -> Iterable[Bucket]:
    """A probe's histogram."""
    if text := probe.get("hdrh"):
        return [Bucket(value, value, frames) for value, frames in recorded(text)]
    coarse = probe.get("histogram") or {}
    try:
        frames_at = {int(value): int(frames) for value, frames in coarse.items()}
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise _no_histogram(error) from None
    for value, frames in frames_at.items():
        if not 0 <= value <= MOST_US or not 0 <= frames <= histogram.MOST_FRAMES:
            raise _no_histogram(f"{frames} probes of {value} us")
    if isinstance(received := probe.get("received"), int):
        # The server keeps what the first bucket had in trials of before, and begins to tell it with
        # its next sample; all other probes that came back are in the others.
        others = sum(frames for value, frames in frames_at.items() if value)
        frames_at[0] = max(0, received - others)
    return [
        Bucket(value * NS_PER_US, _upper_us(value) * NS_PER_US, frames)
        for value, frames in frames_at.items()
        if frames
    ]


#: Longest time that a coarse bucket can begin at, microseconds: longer than any trial.
MOST_US = 10**10


def _no_histogram(reason: object) -> GeneratorError:
    return GeneratorError(
        f"a latency histogram that cannot be read: {reason}",
        where=WHERE,
        cure="another client may have cleared the server's counters meanwhile",
    )


def _upper_us(lower: int) -> int:
    """Where a coarse bucket ends: 200 of 100, 30 of 20; the first one, 0, at 10."""
    return lower + 10 ** (len(str(lower)) - 1) if lower else FIRST_BUCKET_US


def _read_server_ns(probes: Sequence[Mapping[str, Any]], key: str, bucket: Bucket) -> int | None:
    """The least or largest time that the server kept by itself, where its bucket agrees."""
    times_us = [probe[key] for probe in probes if isinstance(probe.get(key), int | float)]
    if len(times_us) != len(probes) or bucket.lower == bucket.upper:
        return None
    time_ns = (max if key == "total_max" else min)(times_us) * NS_PER_US
    return round(time_ns) if bucket.lower <= time_ns <= bucket.upper else None


def _mean_ns(probes: Sequence[Mapping[str, Any]], buckets: Sequence[Bucket]) -> float:
    """The mean of the histogram's times; of coarse buckets the server's average where it can be.

    That is smoothed, so that it may be one that no times of these buckets have.
    """
    count = sum(bucket.frames for bucket in buckets)
    least, most = (
        sum(edge * bucket.frames for bucket, edge in zip(buckets, edges, strict=True)) / count
        for edges in ([bucket.lower for bucket in buckets], [bucket.upper for bucket in buckets])
    )
    average = probes[0].get("average") if len(probes) == 1 else None
    if isinstance(average, int | float) and least <= average * NS_PER_US <= most:
        return float(average * NS_PER_US)
    return (least + most) / 2


def recorded(text: str) -> list[tuple[int, int]]:
    """A histogram that a server kept with --hdrh: nanoseconds, and frames."""
    try:
        hdr = decode_hdr(text)
        return [
            (hdr.get_highest_equivalent_value(least) * NS_PER_US, frames)
            for least, frames in histogram.recorded(hdr)
        ]
    except (ValueError, IndexError) as error:
        raise _no_histogram(error) from None


def _without_histogram(counts: DirectionCounts) -> DirectionCounts:
    if counts.latency is None:
        return counts
    bare = counts.latency.model_copy(update={"percentiles": {}, "hdr": ""})
    return counts.model_copy(update={"latency": bare})
