"""From a traffic profile to the engine's streams and loads, and from its counts to a result.

Where the sender chooses the receiver's queue (memif, virtio) the engine does what a NIC's hash
would: every flow stays on one queue, and flows are dealt out to the queues in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from vnetperf.host.wait import patient
from vnetperf.model import frames as tunnel
from vnetperf.model import trial as model
from vnetperf.model.deployment import Deployment, port_mac, tester_mac
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.options import GN_TESTER
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import Timeline, TrialResult, TrialSpec
from vnetperf.statistics.histogram import encode_hdr, latency_percentiles
from vnetperf.traffic.frames import IPV4_LEN, Checksum, CompiledFrame, VariedField, compile_traffic
from vnetperf.traffic.loadgen import engine, telemetry
from vnetperf.traffic.loadgen import engine as engine_spec
from vnetperf.traffic.loadgen import telemetry as engine_results
from vnetperf.traffic.loadgen.engine import (
    DelayDifferences,
    Engine,
    NeighbourSpec,
    StreamTimeline,
    ipdv_of,
    timeline_of,
)

ETH_SRC, ETH_TYPE, ETH_LEN, TAG_LEN, MAC_LEN = 6, 12, 14, 4, 6
VLANS = (0x8100, 0x88A8)
#: Ethertype -> (offset of source, offset of destination, octets of an address).
ADDRESSES = {0x0800: (12, 16, 4), 0x86DD: (8, 24, 16)}
#: Octets of an address whose low part can vary.
LOW = 8


def neighbours_of(
    frames: Sequence[CompiledFrame], deployment: Deployment
) -> tuple[NeighbourSpec, ...]:
    """Addresses that each of the tester's ports has for those around it.

    A port has the outermost source addresses of what it sends, the innermost destination addresses
    of what it receives, and the tester's end of a tunnel. Where several chains have one address,
    the first one's MAC address is told.
    """
    found: dict[tuple[int, bytes], NeighbourSpec] = {}
    for entry in (*_endpoints(deployment), *_of_frames(frames, deployment)):
        held = found.setdefault((entry.port, entry.address), entry)
        if entry.count > held.count:
            found[entry.port, entry.address] = entry
    return tuple(found.values())


def macs_of(deployment: Deployment) -> dict[int, bytes]:
    """MAC address of each of the tester's ports."""
    ends = enumerate(deployment.ends)
    return {port: _mac_octets(port_mac(deployment, end, 0)) for port, end in ends}


def _endpoints(deployment: Deployment) -> Iterator[NeighbourSpec]:
    for port, end in enumerate(deployment.ends):
        if end in deployment.tunnelled:
            address = IPv4Address(tunnel.TESTER_ADDRESS).packed
            yield NeighbourSpec(port, address, _mac_octets(tester_mac(port, 0)))
        if end in deployment.gtp:
            address = IPv4Address(GN_TESTER).packed
            yield NeighbourSpec(port, address, _mac_octets(port_mac(deployment, end, 0)))


def _of_frames(frames: Sequence[CompiledFrame], deployment: Deployment) -> Iterator[NeighbourSpec]:
    for frame in frames:
        stream = frame.stream
        if place := _address(frame, 0, source=True):
            mac = frame.template[ETH_SRC : ETH_SRC + MAC_LEN]
            yield _entry(frame, stream.tx_port, place, mac, ETH_SRC)
        # GTP-U carries no Ethernet: the packet's destination is behind the one Ethernet header.
        inner = 0 if stream.tunnel == tunnel.GTPU else tunnel.overhead(stream.tunnel)
        end = deployment.ends[stream.rx_port]
        if place := _address(frame, inner, source=False):
            mac = _mac_octets(port_mac(deployment, end, stream.chain))
            yield _entry(frame, stream.rx_port, place, mac, inner)


def _address(frame: CompiledFrame, start: int, *, source: bool) -> tuple[int, int] | None:
    """Offset and octets of the IP address behind the Ethernet header at an offset."""
    at = start + ETH_TYPE
    while (kind := int.from_bytes(frame.template[at : at + 2])) in VLANS:
        at += TAG_LEN
    if kind not in ADDRESSES:
        return None
    from_, to, width = ADDRESSES[kind]
    skip = tunnel.GTPU_OVERHEAD if frame.stream.tunnel == tunnel.GTPU and not source else 0
    return at + 2 + skip + (from_ if source else to), width


def _entry(
    frame: CompiledFrame, port: int, place: tuple[int, int], mac: bytes, mac_at: int
) -> NeighbourSpec:
    offset, width = place
    values = _count_values(frame, offset, width)
    steps = (
        values > 1
        and _count_values(frame, mac_at, MAC_LEN) == values
        and frame.template[mac_at : mac_at + MAC_LEN] == mac
    )
    address = frame.template[offset : offset + width]
    return NeighbourSpec(port, address, mac, count=values, mac_steps=steps)


def _count_values(frame: CompiledFrame, offset: int, width: int) -> int:
    """How many consecutive values the address at an offset takes, at least."""
    for field in frame.fields:
        ends_with_it = field.offset + field.width == offset + width
        if ends_with_it and field.offset >= offset and field.width <= LOW:
            return (field.count - 1) * field.step + 1
    return 1


def _mac_octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


#: Flows of each letter of a genome from which on one more or less makes no difference.
MANY = 64


@dataclass(frozen=True)
class StreamPart:
    """The frames of a stream that one transmit queue sends.

    Attributes:
        stream: The stream.
        share: Its share of the stream's frames, 0..1.
        spec: What the engine is told; its id is the part's own.
        broadcast: Its frames go to everybody, and are counted apart.
        first: It sends frames `first`, `first` + `every`, ... of its kind of frame.
        every: See there.
    """

    stream: Stream
    share: float
    spec: engine.StreamSpec
    broadcast: bool = False
    first: int = 0
    every: int = 1


@dataclass(frozen=True)
class _MixTurn:
    """Frames of one kind that have their own place among all of a stream's.

    Attributes:
        frame: The kind.
        share: Their share of the stream's frames.
        first: They are frames `first`, `first` + `every`, ... of the kind.
        every: See there.
    """

    frame: CompiledFrame
    share: float
    first: int = 0
    every: int = 1


def parts_of(
    streams: Sequence[Stream],
    profile: TrafficProfile,
    frame_size: int,
    queues: Mapping[int, int],
) -> tuple[StreamPart, ...]:
    """What the engine sends for a profile's streams."""
    parts: list[StreamPart] = []
    for turn in _mix_turns(compile_traffic(streams, profile, frame_size), profile, queues):
        frame = turn.frame
        for queue, share, fields in _queue_shares(turn, queues.get(frame.stream.tx_port, 1)):
            part = StreamPart(
                frame.stream,
                share * turn.share,
                _spec(len(parts), frame, fields, queue),
                broadcast=frame.broadcast,
                first=turn.first,
                every=turn.every,
            )
            parts.append(part)
    if len(parts) > engine.MAX_STREAMS:
        raise GeneratorError(
            f"{len(streams)} streams over several queues, in several sizes, or of sessions that "
            f"are not in order, make {len(parts)}",
            accepted=f"at most {engine.MAX_STREAMS}",
            cure="use fewer chains, queues, sizes in the mix, or sessions",
        )
    return tuple(parts)


def _mix_turns(
    frames: Sequence[CompiledFrame], profile: TrafficProfile, queues: Mapping[int, int]
) -> list[_MixTurn]:
    """Kinds of frame; those of a genome once for each letter, so that they leave in its order.

    Streams of equal rates take turns in the order of their numbers (engine/pacing.h).
    """
    plain = [_MixTurn(frame, frame.weight) for frame in frames]
    sequence = profile.mix.sequence if profile.mix is not None else ()
    by_stream: dict[int, list[CompiledFrame]] = {}
    for frame in frames:
        by_stream.setdefault(frame.stream.id, []).append(frame)
    alone = all(queues.get(f.stream.tx_port, 1) == 1 or not f.fields for f in frames)
    kinds = len(set(sequence))
    if (
        not sequence
        or not alone
        or any(len(mine) != kinds for mine in by_stream.values())
        or len(by_stream) * len(sequence) > engine.MAX_STREAMS
        or any(_favours_flows(field, sequence) for frame in frames for field in frame.fields)
    ):
        return plain
    turns: list[_MixTurn] = []
    for mine in by_stream.values():
        of_size = dict(zip(sorted(set(sequence)), mine, strict=True))
        for place, size in enumerate(sequence):
            before, all_of_it = sequence[:place].count(size), sequence.count(size)
            turns.append(_MixTurn(of_size[size], 1 / len(sequence), before, all_of_it))
    return turns


def _favours_flows(field: VariedField, sequence: Sequence[int]) -> bool:
    """Whether some flows would come noticeably more often if each letter had its own."""
    return any(
        field.count % sequence.count(size) and field.count < MANY * sequence.count(size)
        for size in sequence
    )


def split_frames(count: int, parts: Sequence[StreamPart]) -> tuple[int, ...]:
    """Frames of one stream, dealt out to its parts."""
    if len({part.share for part in parts}) == 1:  # in turn, so that an order is kept to the end
        each, more = divmod(count, len(parts))
        return tuple(each + (number < more) for number in range(len(parts)))
    shares, given, so_far = [], 0, 0.0
    for part in parts:
        so_far += part.share
        upto = round(count * so_far) if part is not parts[-1] else count
        shares.append(upto - given)
        given = upto
    return tuple(shares)


def _queue_shares(
    turn: _MixTurn, queues: int
) -> list[tuple[int | None, float, tuple[engine.FieldSpec, ...]]]:
    """Queue, share of the frames, and fields of each part of one kind of frame."""
    frame, varied = turn.frame, turn.frame.fields
    if queues == 1:
        fields = tuple(_every_nth_value(field, turn.first, turn.every) for field in varied)
        return [(None, 1.0, fields)]
    flows = max((field.count for field in varied), default=1)
    if flows == 1:  # one flow stays on one queue; those of several chains are dealt out
        return [(frame.stream.chain % queues, 1.0, tuple(_field(field) for field in varied))]
    used = min(queues, flows)
    dealt: list[tuple[int | None, float, tuple[engine.FieldSpec, ...]]] = []
    for queue in range(used):
        mine = len(range(queue, flows, used))
        fields = tuple(_every_nth_value(field, queue, used) for field in varied)
        dealt.append((queue, mine / flows, fields))
    return dealt


def _every_nth_value(field: VariedField, first: int, step: int) -> engine.FieldSpec:
    """Every step-th value of a field, from one on."""
    values = len(range(first, field.count, step))
    if not values:  # fewer values than queues: this field does not tell the flows apart
        return _field(field)
    return engine.FieldSpec(
        offset=field.offset,
        width=field.width,
        base=field.base + first * field.step,
        count=values,
        step=step * field.step,
        mode="random" if field.random else "inc",
    )


def _field(field: VariedField) -> engine.FieldSpec:
    return _every_nth_value(field, 0, 1)


def _spec(
    number: int, frame: CompiledFrame, fields: tuple[engine.FieldSpec, ...], queue: int | None
) -> engine.StreamSpec:
    own = frame.checksums[-1] if frame.checksums else None
    packets = [c for c in frame.checksums if c.kind == "ipv4"]
    inner = own.ip_offset if own else None
    return engine.StreamSpec(
        id=number,
        tx_port=frame.stream.tx_port,
        rx_port=frame.stream.rx_port,
        frame_size=frame.size,
        header=frame.headers,
        l3_offset=inner,
        udp_offset=own.offset if own and own.kind == "udp" else None,
        tcp_offset=own.offset if own and own.kind == "tcp" else None,
        outer_offset=_outer_ipv4(packets, inner, frame.fields),
        fields=fields,
        queue=queue,
    )


def _outer_ipv4(
    packets: Sequence[Checksum], inner: int | None, fields: Sequence[VariedField]
) -> int | None:
    """Offset of an IPv4 header outside the tunnel, if fields in it vary: else it stays right."""
    for packet in packets:
        end = packet.offset + IPV4_LEN
        if packet.offset != inner and any(packet.offset <= f.offset < end for f in fields):
            return packet.offset
    return None


Histogram = Callable[[int], tuple[tuple[int, int], ...]]


def to_trial_result(
    streams: Sequence[Stream],
    result: telemetry.EngineResult,
    histogram: Histogram | None,
    *,
    apart: frozenset[int] = frozenset(),
    differences: Mapping[int, DelayDifferences] | None = None,
) -> model.TrialResult:
    """Add the streams of each direction up."""
    directions = sorted({stream.direction for stream in streams})

    def of(direction: int, *, to_all: bool) -> list[telemetry.StreamResult]:
        mine = (s.id for s in streams if s.direction == direction and (s.id in apart) == to_all)
        return [result.stream(number) for number in mine]

    return model.TrialResult(
        directions=tuple(
            _direction(d, of(d, to_all=False), of(d, to_all=True), histogram, differences or {})
            for d in directions
        ),
        foreign={str(p.port): p.foreign + p.corrupted for p in result.ports},
        answered=sum(p.answered for p in result.ports),
        stale=sum(p.stale for p in result.ports),
        max_burst=max((p.max_burst for p in result.ports), default=0),
        max_lag_s=max((p.lag_max_ns for p in result.ports), default=0) / 1e9,
        mean_lag_s=max((p.lag_mean_ns or 0.0 for p in result.ports), default=0.0) / 1e9,
    )


def _direction(
    direction: int,
    streams: Sequence[telemetry.StreamResult],
    broadcast: Sequence[telemetry.StreamResult],
    histogram: Histogram | None,
    differences: Mapping[int, DelayDifferences],
) -> model.DirectionCounts:
    def total(name: str) -> int:
        return sum(getattr(s.counts, name) for s in streams)

    return model.DirectionCounts(
        direction=direction,
        intended=total("intended"),
        sent=total("sent"),
        refused=total("refused"),
        unsent=total("unsent"),
        received=total("received"),
        duplicated=total("duplicated"),
        reordered=total("reordered"),
        late=total("late"),
        misrouted=total("misrouted"),
        tx_seconds=_tx_seconds(streams),
        latency=_latency(streams, histogram, differences),
        broadcast_sent=sum(s.counts.sent for s in broadcast),
        broadcast_received=sum(s.counts.received for s in broadcast),
    )


def _tx_seconds(streams: Iterable[telemetry.StreamResult]) -> float:
    """Seconds the offered frames took at the rate they were seen to leave at.

    n frames span n - 1 gaps; one more gap makes frames / seconds the rate.
    """
    spans = []
    for s in streams:
        if s.tx_first_ns is not None and s.tx_last_ns is not None:
            offered = s.counts.sent + s.counts.refused
            gap = (s.tx_last_ns - s.tx_first_ns) / (offered - 1) if offered > 1 else 0.0
            spans.append(offered * gap / 1e9)
    return round(max(spans, default=0.0), 9)


def _latency(
    streams: Sequence[telemetry.StreamResult],
    histogram: Histogram | None,
    differences: Mapping[int, DelayDifferences],
) -> model.Latency | None:
    timed = [s for s in streams if s.latency.count]
    if not timed:
        return None
    count = sum(s.latency.count for s in timed)
    summary = model.Latency(
        count=count,
        min_ns=min(s.latency.min_ns for s in timed),
        mean_ns=sum(s.latency.sum_ns for s in timed) / count,
        max_ns=max(s.latency.max_ns for s in timed),
    )
    if histogram is None:
        return summary
    pairs = _merged(histogram(s.stream) for s in timed)
    more = {
        "percentiles": latency_percentiles(pairs),
        "hdr": encode_hdr(pairs),
        "ipdv": ipdv_of(differences[s.stream] for s in timed if s.stream in differences),
    }
    return summary.model_copy(update=more)


def _merged(histograms: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Histograms of a direction's streams as one, by rising value; they share most buckets."""
    frames_at: dict[int, int] = {}
    for pairs in histograms:
        for value, frames in pairs:
            frames_at[value] = frames_at.get(value, 0) + frames
    return sorted(frames_at.items())


#: Frames in one transmit call, and back to back after a stall.
BURST = 32
#: A frame that is later than this is given up; a scheduler slice of another poller is far shorter.
MAX_LAG_S = 0.01
#: Longest wait for the engine beyond the trial's own length, seconds.
GRACE_S = 10.0
BURST_DRAIN_S = 0.2
WATCH_S = 0.25
#: Slowest that a burst leaves, frames/s: through af_packet on a busy machine.
SLOWEST_BURST_FPS = 50_000.0

Watch = Callable[[], None]


@dataclass(frozen=True)
class PreparedStreams:
    """Streams that the engine has been told.

    Attributes:
        parts: What the engine sends, by queue.
        group: Frames of each queue that are sent back to back; 1 sends evenly.
    """

    parts: tuple[StreamPart, ...] = ()
    group: int = 1

    @property
    def apart(self) -> frozenset[int]:
        """Ids of the parts that are no frames of their stream: broadcast."""
        return frozenset(part.spec.id for part in self.parts if part.broadcast)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The stream of each part, with the part's id."""
        return tuple(part.stream.model_copy(update={"id": part.spec.id}) for part in self.parts)

    def by_stream(self) -> list[tuple[StreamPart, ...]]:
        """Parts of each stream."""
        ids = dict.fromkeys(part.stream.id for part in self.parts)
        return [tuple(p for p in self.parts if p.stream.id == number) for number in ids]

    def loads(
        self, load_fps: float, duration_s: float, *, counted: bool = True
    ) -> dict[int, engine_spec.StreamLoad]:
        """What each part sends, so that each direction has the load of the trial."""
        loads = {}
        streams = self.by_stream()
        senders = [parts[0].stream.direction for parts in streams]
        for parts in streams:
            sender = parts[0].stream
            rate = load_fps * sender.load / senders.count(sender.direction)
            counts = split_frames(round(rate * duration_s), parts)
            for part, count in zip(parts, counts, strict=True):
                if count:
                    exact = count if counted else None
                    load = engine_spec.StreamLoad(rate=rate * part.share, count=exact)
                    loads[part.spec.id] = load
        return loads

    def bursts(self, frames: int) -> dict[int, engine_spec.StreamLoad]:
        """What each part sends of an exact number of frames, back to back."""
        return {
            part.spec.id: engine_spec.StreamLoad(rate=None, count=count)
            for parts in self.by_stream()
            for part, count in zip(parts, split_frames(frames, parts), strict=True)
            if count
        }


def run_trial(
    engine: Engine,
    prepared: PreparedStreams,
    trial: TrialSpec,
    watch: Watch,
    *,
    refusal_is_loss: bool,
) -> TrialResult:
    """Send, drain, count."""
    spec = _to_engine_trial(prepared, trial, refusal_is_loss=refusal_is_loss)
    began = time.monotonic()
    result = _run_to_end(engine, spec, trial.duration_s, watch)
    sent_s = result.tx_end_ns / 1e9 if trial.burst and result.tx_end_ns else trial.duration_s
    if trial.full_drain:
        _sleep_watching(began + sent_s + trial.drain_s, watch)
    drained = max(0.0, result.elapsed_ns / 1e9 - sent_s)
    own = [s for s in result.streams if s.stream not in prepared.apart]
    timelines: tuple[Timeline, ...] = ()
    if trial.bin_s:
        timelines = _timelines(engine, prepared, own, trial.bin_s, refusal_is_loss=refusal_is_loss)
    more = {
        "refusal_is_loss": refusal_is_loss,
        "drain_s": trial.drain_s if trial.full_drain else round(drained, 4),
        "timelines": timelines,
    }
    counts = to_trial_result(prepared.streams, result, None, apart=prepared.apart)
    counts = counts.model_copy(update=more)
    if counts.worst_loss_ratio() > trial.histogram_up_to_loss:
        return counts
    timed = [s.stream for s in own if s.latency.count]
    held = engine.histograms(timed)
    differ = engine.differences([s.stream for s in own if s.counts.received]) if trial.ipdv else {}
    whole = to_trial_result(
        prepared.streams, result, held.__getitem__, apart=prepared.apart, differences=differ
    )
    return whole.model_copy(update=more)


def _to_engine_trial(
    prepared: PreparedStreams, trial: TrialSpec, *, refusal_is_loss: bool
) -> engine_spec.EngineTrial:
    """A trial as the engine is told it.

    A burst whose frames are refused where that is the DUT's loss goes on: trying them again would
    give the DUT time.
    """
    largest = trial.load_fps
    loads = prepared.loads(largest, trial.duration_s, counted=not trial.steps)
    common = engine_spec.EngineTrial(
        loads=prepared.bursts(trial.burst) if trial.burst else loads,
        drain_s=trial.drain_s,
        burst=BURST,
        max_lag_s=patient(MAX_LAG_S),
        bin_s=trial.bin_s,
        tag_at_s=trial.tag_at_s,
        ipdv=trial.ipdv,
    )
    if trial.burst:
        return replace(common, policy="drop" if refusal_is_loss else "retry")
    steps = tuple((step.load_fps / largest, step.duration_s) for step in trial.steps)
    return replace(
        common,
        duration_s=None if steps else trial.duration_s,
        steps=steps,
        group=prepared.group,
    )


def _timelines(
    engine: Engine,
    prepared: PreparedStreams,
    own: Sequence[engine_results.StreamResult],
    bin_s: float,
    *,
    refusal_is_loss: bool,
) -> tuple[Timeline, ...]:
    """One timeline for each direction that sent."""
    told = engine.timelines([s.stream for s in own])
    directions: dict[int, list[StreamTimeline]] = {}
    for part in prepared.parts:
        if part.spec.id in told:
            directions.setdefault(part.stream.direction, []).append(told[part.spec.id])
    return tuple(
        timeline_of(direction, streams, bin_s, refusal_is_loss=refusal_is_loss)
        for direction, streams in sorted(directions.items())
    )


def run_burst(engine: Engine, prepared: PreparedStreams, frames: int, watch: Watch) -> TrialResult:
    """Send an exact number of frames back to back; a full ring is tried again."""
    spec = engine_spec.EngineTrial(
        loads=prepared.bursts(frames),
        drain_s=BURST_DRAIN_S,
        burst=BURST,
        policy="retry",
        max_lag_s=patient(MAX_LAG_S),
    )
    done = _run_to_end(engine, spec, 0.0, watch)
    return to_trial_result(prepared.streams, done, None, apart=prepared.apart)


def _run_to_end(
    engine: Engine, spec: engine_spec.EngineTrial, length_s: float, watch: Watch
) -> engine_results.EngineResult:
    """Start a trial and wait for its end; whatever happens, traffic has stopped after."""
    began = time.monotonic()
    try:
        engine.start(spec)
        _sleep_watching(began + length_s, watch)
        return engine.wait(spec.drain_s + GRACE_S + _longest_burst_s(spec))
    except BaseException:
        _stop_quietly(engine)
        raise


def _longest_burst_s(spec: engine_spec.EngineTrial) -> float:
    """Seconds that a burst may take to leave; 0 for paced traffic."""
    loads = spec.loads.values()
    return sum(load.count or 0 for load in loads if load.rate is None) / SLOWEST_BURST_FPS


def _sleep_watching(until: float, watch: Watch) -> None:
    """Sleep, but look up now and then: the core may be the engine's."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, WATCH_S))
        if left > WATCH_S:
            watch()


def _stop_quietly(engine: Engine) -> None:
    try:
        engine.stop()
    except (GeneratorError, HostError):
        return  # it has died, or had nothing to stop
