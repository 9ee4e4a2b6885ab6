"""From a traffic profile to the engine's streams and loads, and from its counts to a result.

Where the sender chooses the receiver's queue (memif, virtio) the engine does what a NIC's hash
would: every flow stays on one queue, and flows are dealt out to the queues in turn.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from vnetperf.host.wait import patient
from vnetperf.model.errors import GeneratorError, HostError, TrialTimeoutError
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import (
    DirectionCounts,
    Gaps,
    Latency,
    PartResult,
    PortCounts,
    QueueGaps,
    TesterTurns,
    Timeline,
    TrialGaps,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.plugin.compiled_frames import (
    IPV4_LEN,
    Checksum,
    CompiledFrame,
    VariedField,
    compile_traffic,
    split_by_share,
)
from vnetperf.plugin.generator import sleep_watching
from vnetperf.statistics.histogram import encode_hdr, latency_percentiles
from vnetperf.traffic.loadgen.engine import (
    MAX_STREAMS,
    EchoRole,
    Engine,
    EngineTrial,
    FieldSpec,
    StreamLoad,
    StreamSpec,
)
from vnetperf.traffic.loadgen.telemetry import (
    FRAME_COUNTS,
    DelayDifferences,
    Echoes,
    EngineQueue,
    EngineResult,
    NumberPairs,
    StreamResult,
    StreamTimeline,
)

log = logging.getLogger(__name__)

#: Flows of each letter of a genome from which on one more or less makes no difference.
MANY = 64


@dataclass(frozen=True)
class StreamPart:
    """The frames of a stream that one transmit queue sends.

    Attributes:
        stream: The stream.
        share: Its share of the stream's frames, 0..1.
        spec: The engine's stream; its id is the part's own.
        broadcast: Its frames go to everybody, and are counted apart.
        first: It sends frames `first`, `first` + `step`, ... of its kind of frame.
        step: See there.
    """

    stream: Stream
    share: float
    spec: StreamSpec
    broadcast: bool = False
    first: int = 0
    step: int = 1


@dataclass(frozen=True)
class _MixTurn:
    """Frames `first`, `first` + `step`, ... of one kind, with their place among a stream's."""

    frame: CompiledFrame
    share: float
    first: int = 0
    step: int = 1


def compile_parts(
    streams: Sequence[Stream],
    profile: TrafficProfile,
    frame_size: int,
    queues: Mapping[int, int],
    away: Sequence[int] = (),
) -> tuple[StreamPart, ...]:
    """What the engine sends for a profile's streams, but for those of ports that are away."""
    parts: list[StreamPart] = []
    for turn in _mix_turns(compile_traffic(streams, profile, frame_size), profile, queues):
        frame = turn.frame
        number = queues.get(frame.stream.tx_port, 1)
        expected = _queue_shares(turn, number, expected=frame.expected) if frame.expected else []
        for place, (queue, share, fields) in enumerate(_queue_shares(turn, number)):
            spec = _spec(len(parts), frame, fields, queue, away=frame.stream.tx_port in away)
            if expected:
                spec = replace(spec, expected=expected[place][2])
            parts.append(
                StreamPart(
                    frame.stream,
                    share * turn.share,
                    spec,
                    broadcast=frame.broadcast,
                    first=turn.first,
                    step=turn.step,
                )
            )
    if len(parts) > MAX_STREAMS:
        raise GeneratorError(
            f"{len(streams)} streams over several queues, in several sizes, or of sessions that "
            f"are not in order, make {len(parts)}",
            accepted=f"at most {MAX_STREAMS}",
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
        or any(len(stream_frames) != kinds for stream_frames in by_stream.values())
        or len(by_stream) * len(sequence) > MAX_STREAMS
        or any(_favours_flows(field, sequence) for frame in frames for field in frame.fields)
    ):
        return plain
    turns: list[_MixTurn] = []
    for stream_frames in by_stream.values():
        of_size = dict(zip(sorted(set(sequence)), stream_frames, strict=True))
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
        quotient, remainder = divmod(count, len(parts))
        return tuple(quotient + (number < remainder) for number in range(len(parts)))
    return split_by_share(count, [part.share for part in parts])


def _queue_shares(
    turn: _MixTurn, queues: int, *, expected: tuple[VariedField, ...] = ()
) -> list[tuple[int | None, float, tuple[FieldSpec, ...]]]:
    """Queue, share of the frames, and fields of each part of one kind of frame.

    Those of what is sent, or other ones that go with them (`expected`).
    """
    frame, varied = turn.frame, expected or turn.frame.fields
    if queues == 1:
        fields = tuple(_stride_field(field, turn.first, turn.step) for field in varied)
        return [(None, 1.0, fields)]
    flows = max((field.count for field in varied), default=1)
    if flows == 1:  # one flow stays on one queue; those of several chains are dealt out
        return [(frame.stream.chain % queues, 1.0, tuple(_field(field) for field in varied))]
    used = min(queues, flows)
    dealt: list[tuple[int | None, float, tuple[FieldSpec, ...]]] = []
    for queue in range(used):
        flow_count = len(range(queue, flows, used))
        fields = tuple(_stride_field(field, queue, used) for field in varied)
        dealt.append((queue, flow_count / flows, fields))
    return dealt


def _stride_field(field: VariedField, first: int, step: int) -> FieldSpec:
    """Every step-th value of a field, from one on."""
    values = len(range(first, field.count, step))
    if not values:  # fewer values than queues: this field does not distinguish the flows
        return _field(field)
    if field.table:
        width = field.width
        places = range(first * width, len(field.table), step * width)
        return FieldSpec(
            offset=field.offset,
            width=width,
            base=0,
            count=values,
            mode="table",
            table=field.table
            if step == 1
            else b"".join(field.table[place : place + width] for place in places),
        )
    return FieldSpec(
        offset=field.offset,
        width=field.width,
        base=field.base + first * field.step,
        count=values,
        step=step * field.step,
        mode="random" if field.random else "inc",
    )


def _field(field: VariedField) -> FieldSpec:
    return _stride_field(field, 0, 1)


def _spec(
    number: int,
    frame: CompiledFrame,
    fields: tuple[FieldSpec, ...],
    queue: int | None,
    *,
    away: bool = False,
) -> StreamSpec:
    checksum = frame.checksums[-1] if frame.checksums else None
    packets = [c for c in frame.checksums if c.kind == "ipv4"]
    inner = checksum.ip_offset if checksum else None
    return StreamSpec(
        id=number,
        tx_port=frame.stream.tx_port,
        rx_port=frame.stream.rx_port,
        frame_size=frame.size,
        rx_size=frame.returned_size,
        header=frame.headers,
        l3_offset=inner,
        udp_offset=checksum.offset if checksum and checksum.kind == "udp" else None,
        tcp_offset=checksum.offset if checksum and checksum.kind == "tcp" else None,
        outer_offset=_outer_ipv4(packets, inner, frame.fields),
        fields=fields,
        queue=queue,
        away=away,
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


#: Frames in one transmit call, and back to back after a stall.
BURST = 32
#: Overdue frames that a transmit queue sends after a stall, at most, where the size of the DUT's
#: receive ring is not known: no DUT here has a smaller one.
CATCH_UP = 1024
#: Share of the DUT's receive ring that frames of a turn take, at most, and the shortest turn,
#: microseconds: a sleep costs some of them.
RING_SHARE, LEAST_TURN_US = 1 / 4, 10
#: A frame that is later than this is given up at any load.
MAX_LAG_S = 0.01
#: Longest wait for the engine beyond the trial's own length, seconds.
GRACE_S = 10.0
#: Time between frames that ask for the round trip, seconds, at least; and how many do so in a
#: trial, at most: ten of them are slower than the 99.9th percentile.
ROUND_TRIP_S = 0.0005
ROUND_TRIPS = 10_000
#: Slowest that a burst leaves, frames/s: through af_packet on a busy machine.
SLOWEST_BURST_FPS = 50_000.0


@dataclass(frozen=True)
class PortRings:
    """What the rings at one of the tester's ports hold, frames; None: not known.

    Attributes:
        tester: The receive ring of each of the tester's queues.
        dut: The DUT's receive ring that each of the port's transmit queues sends into.
        rx_queues: Receive queues of the port.
        tx_queues: Transmit queues.
    """

    tester: int | None = None
    dut: int | None = None
    rx_queues: int = 1
    tx_queues: int = 1


@dataclass(frozen=True)
class PreparedStreams:
    """Streams that the engine has.

    Attributes:
        group: Frames of each queue that are sent back to back; 1 sends evenly.
        away: Ports that are on another host.
        turn_us: Length of the engine's turns, microseconds; 0 where it never sleeps.
        share: Percent of their processors that its workers take, at most.
        workers: Their number.
    """

    parts: tuple[StreamPart, ...] = ()
    group: int = 1
    rings: tuple[PortRings, ...] = ()
    away: tuple[int, ...] = ()
    turn_us: int = 0
    share: int = 100
    workers: int = 1

    @property
    def catch_up(self) -> int:
        """Overdue frames that a transmit queue sends after a stall, at most.

        As many as the DUT's receive ring holds, so that catching up does not overflow the ring of
        a DUT that keeps up with the load. All others are given up, which keeps the load constant
        (RFC 1242 section 3.4) but for such bursts.
        """
        return min((ring.dut or CATCH_UP for ring in self.rings), default=CATCH_UP)

    @property
    def dut_ring(self) -> int | None:
        """What the DUT's receive rings at a port that is here hold together, the smaller port's."""
        local_rings = [ring for port, ring in enumerate(self.rings) if port not in self.away]
        capacities = [
            None if ring.dut is None else ring.dut * ring.tx_queues for ring in local_rings
        ]
        reported = [frames for frames in capacities if frames is not None]
        return min(reported) if reported and len(reported) == len(capacities) else None

    def choose_turn_us(self, loads: Mapping[int, StreamLoad]) -> int:
        """Length of the engine's turns at certain loads, microseconds; 0: it never sleeps.

        After a stall frames of two turns leave at once: half of the DUT's receive ring holds them.
        """
        if not self.turn_us:
            return 0
        rates: dict[int, float] = {}
        for part in self.parts:
            load = loads.get(part.spec.id)
            rate = load.rate if load is not None else None
            rates[part.spec.tx_port] = rates.get(part.spec.tx_port, 0.0) + (rate or 0.0)
        turn_us = float(self.turn_us)
        for port, rate in rates.items():
            ring = self.ring(port)
            if rate and port not in self.away:
                held_s = (ring.dut or CATCH_UP) * ring.tx_queues / rate
                turn_us = min(turn_us, RING_SHARE * held_s * 1e6)
        return max(min(self.turn_us, LEAST_TURN_US), int(turn_us))

    def ring(self, port: int) -> PortRings:
        """The rings at a port of the tester."""
        return self.rings[port] if port < len(self.rings) else PortRings()

    def loads(self, trial: TrialSpec) -> dict[int, StreamLoad]:
        """What each part sends, so that each direction has the load of the trial or its burst."""
        streams: dict[int, list[StreamPart]] = {}
        for part in self.parts:
            streams.setdefault(part.stream.id, []).append(part)
        senders = Counter(parts[0].stream.direction for parts in streams.values())
        loads = {}
        for parts in streams.values():
            sender = parts[0].stream
            rate = trial.load_fps * sender.load / senders[sender.direction]
            counts = split_frames(trial.burst or round(rate * trial.duration_s), parts)
            for part, count in zip(parts, counts, strict=True):
                if count and trial.burst:
                    loads[part.spec.id] = StreamLoad(rate=None, count=count)
                elif count:
                    exact = None if trial.steps else count
                    loads[part.spec.id] = StreamLoad(rate=rate * part.share, count=exact)
        return loads


def run_part(
    engine: Engine,
    prepared: PreparedStreams,
    trial: TrialSpec,
    watch: Callable[[], None],
    *,
    window: TrialWindow | None = None,
    receives: Callable[[], None] = lambda: None,
    on_sent: Callable[[], None] = lambda: None,
    refusal_is_loss: bool,
) -> PartResult:
    """Send, drain, count at the ports that are here; whatever happens, traffic has stopped after.

    `window` is of a tester that has its other port on another host.
    """
    spec = engine_trial(prepared, trial, refusal_is_loss=refusal_is_loss, window=window)
    began = time.monotonic()
    try:
        engine.start(spec)
        receives()
        sleep_watching(began + spec.delay_s + trial.duration_s, watch)
        burst = _burst_frames(spec.loads)
        if not burst:  # whose end is known once the engine has answered
            on_sent()
        result = engine.wait(spec.drain_s + GRACE_S + burst / SLOWEST_BURST_FPS)
    except TrialTimeoutError:  # it has been stopped, as far as it follows
        raise
    except BaseException:
        with contextlib.suppress(GeneratorError, HostError):  # it exited, or had nothing to stop
            engine.stop()
        raise
    if window is None and trial.full_drain and not result.aborted:
        sleep_watching(began + _sent_s(trial, result) + trial.drain_s, watch)
    counts = read_counts(engine, prepared, trial, result, refusal_is_loss=refusal_is_loss)
    echoes = engine.echoes() if spec.echo != "none" else Echoes(0, ())
    return PartResult(
        result=counts,
        marks=echoes.marks,
        echoes=echoes.rows,
        sent_s=(result.tx_end_ns or 0) / 1e9,
        open_s=result.elapsed_ns / 1e9,
        drift_s=None if result.wall_error_ns is None else result.wall_error_ns / 1e9,
    )


def _sent_s(trial: TrialSpec, result: EngineResult) -> float:
    """How long was sent, seconds."""
    return result.tx_end_ns / 1e9 if trial.burst and result.tx_end_ns else trial.duration_s


def read_counts(
    engine: Engine,
    prepared: PreparedStreams,
    trial: TrialSpec,
    result: EngineResult,
    *,
    refusal_is_loss: bool,
) -> TrialResult:
    """Make a trial's result of what the engine counted in it, and of what it is asked after it."""
    if result.aborted:
        raise GeneratorError("the engine ended the trial before its time", where="loadgen")
    drained = max(0.0, result.elapsed_ns / 1e9 - _sent_s(trial, result))
    timelines = _timelines(engine, prepared, trial, refusal_is_loss=refusal_is_loss)
    grouped_s = trial.duration_s if prepared.group > 1 and not trial.burst else None
    directions = tally(prepared.parts, result, grouped_s=grouped_s)
    counts = TrialResult(
        directions=directions,
        gaps=read_gaps(engine, prepared, directions, trial),
        turns=_turns(engine, prepared, trial, result),
        tester_work=engine.work(prepared.workers),
        foreign={str(p.port): p.foreign for p in result.ports},
        corrupted=sum(p.corrupted for p in result.ports),
        verified=sum(p.verified for p in result.ports),
        answered=sum(p.answered for p in result.ports),
        stale=sum(p.stale for p in result.ports),
        tester=tuple(PortCounts(port=p.port, no_send_buffers=p.no_mbufs) for p in result.ports),
        max_burst=max((p.max_burst for p in result.ports), default=0),
        max_lag_s=max((p.lag_max_ns for p in result.ports), default=0) / 1e9,
        mean_lag_s=max((p.lag_mean_ns or 0.0 for p in result.ports), default=0.0) / 1e9,
        refusal_is_loss=refusal_is_loss,
        drain_s=trial.drain_s if trial.full_drain else round(drained, 4),
        timelines=timelines,
    )
    log.debug("trial %d: %s", result.epoch, _summary(counts))
    # Of a port alone there is no loss to know.
    loss_ratio = counts.worst_loss_ratio() if not prepared.away else 0.0
    if loss_ratio > trial.histogram_up_to_loss:
        return counts
    stream_results = [result.stream(part.spec.id) for part in prepared.parts if not part.broadcast]
    histograms = engine.histograms([s.stream for s in stream_results if s.latency.count])
    received = [s.stream for s in stream_results if s.counts.received]
    differences = engine.differences(received) if trial.ipdv else {}
    timed = tally(prepared.parts, result, histograms, differences, grouped_s=grouped_s)
    return counts.model_copy(update={"directions": timed})


def _turns(
    engine: Engine, prepared: PreparedStreams, trial: TrialSpec, result: EngineResult
) -> TesterTurns | None:
    """How the workers took turns; None where they have processors of their own."""
    if not prepared.turn_us:
        return None
    workers = engine.turns(prepared.workers)
    busiest = min(workers, key=lambda worker: worker.slept_ns)
    turns = sum(port.turns for port in result.ports)
    time_s = max(busiest.time_ns, 1) / 1e9
    return TesterTurns(
        length_us=prepared.choose_turn_us(prepared.loads(trial)),
        per_s=round(busiest.sleeps / time_s, 1),
        asleep=round(min(1.0, busiest.slept_ns / 1e9 / time_s), 4),
        prompt=all(worker.prompt for worker in workers),
        refused=next((worker.refused for worker in workers if worker.refused), ""),
        held_back=max(worker.forced for worker in workers),
        share=prepared.share / 100,
        group_frames=round(sum(p.tx_frames for p in result.ports) / turns, 2) if turns else None,
        most_frames=max((port.most_in_turn for port in result.ports), default=0),
    )


def read_gaps(
    engine: Engine,
    prepared: PreparedStreams,
    directions: Sequence[DirectionCounts],
    trial: TrialSpec,
) -> TrialGaps:
    """How long the workers stood still, and at which queues that is more than a ring bridges.

    A burst has no load that a worker would catch up with: where it stood still, the DUT had time.
    """
    poll, send = engine.gaps()
    engine_queues = _list_queues(prepared, directions, trial)
    queues = engine.queue_gaps([q for q in engine_queues if not trial.burst or q.way == "rx"])
    return TrialGaps(
        poll=_worst_gaps(poll, [queue_gaps for queue_gaps in queues if queue_gaps.kind == "poll"]),
        send=_worst_gaps(send, [queue_gaps for queue_gaps in queues if queue_gaps.kind == "send"]),
        queues=tuple(queue_gaps for queue_gaps in queues if queue_gaps.over_s > 0),
        catch_up_frames=prepared.catch_up,
        ring_frames=prepared.dut_ring,
    )


def _list_queues(
    prepared: PreparedStreams, directions: Sequence[DirectionCounts], trial: TrialSpec
) -> list[EngineQueue]:
    """The queues that each direction's frames leave by and come back to, with their load.

    A ring of the DUT whose size is not known is taken to hold what is sent after a stall at most:
    of a longer one the rest is given up.
    """
    rates = {d.direction: (d.sent + d.refused) / d.tx_seconds for d in directions if d.tx_seconds}
    if prepared.away:  # what another host sends: the load of it, of a burst what came
        paced = prepared.loads(trial)
        for d in directions:
            stream_ids = [p.spec.id for p in prepared.parts if p.stream.direction == d.direction]
            planned = sum(
                paced[stream_id].rate or 0.0 for stream_id in stream_ids if stream_id in paced
            )
            rates.setdefault(d.direction, planned or d.received / (trial.duration_s or 1.0))
        rates = {direction: rate for direction, rate in rates.items() if rate > 0}
    sides = {
        p.stream.direction: (p.stream.tx_port, p.stream.rx_port)
        for p in prepared.parts
        if p.stream.direction in rates
    }
    comes: dict[int, float] = {}
    for direction, (_, rx) in sides.items():
        comes[rx] = comes.get(rx, 0.0) + rates[direction]
    engine_queues = []
    for direction, (tx, rx) in sides.items():
        near, far = prepared.ring(tx), prepared.ring(rx)
        ring, assumed = near.dut or prepared.catch_up, near.dut is None
        engine_queues += [
            EngineQueue("tx", tx, queue, rates[direction], ring, direction, assumed)
            for queue in range(near.tx_queues if tx not in prepared.away else 0)
        ]
        engine_queues += [
            EngineQueue("rx", rx, queue, comes[rx], far.tester, direction)
            for queue in range(far.rx_queues if rx not in prepared.away else 0)
        ]
    return engine_queues


def _worst_gaps(gaps: Gaps, queues: Sequence[QueueGaps]) -> Gaps:
    """Gaps of one kind, with the ring that they overflow for the longest time."""
    ring_gaps = [queue for queue in queues if queue.hold_s is not None]
    worst = max(ring_gaps, key=lambda queue: (queue.over_s, -(queue.hold_s or 0.0)), default=None)
    if worst is None:
        return gaps
    return gaps.model_copy(
        update={"hold_s": worst.hold_s, "over_s": worst.over_s, "assumed": worst.assumed}
    )


def _summary(counts: TrialResult) -> str:
    return "; ".join(
        f"direction {d.direction}: {d.intended} intended, {d.sent} sent, {d.refused} refused, "
        f"{d.unsent} unsent, {d.received} received"
        for d in counts.directions
    )


def engine_trial(
    prepared: PreparedStreams,
    trial: TrialSpec,
    *,
    refusal_is_loss: bool,
    window: TrialWindow | None = None,
) -> EngineTrial:
    """A trial as the engine runs it.

    A burst whose frames are refused where that is the DUT's loss goes on: trying them again would
    give the DUT time.
    """
    steps = tuple((step.load_fps / trial.load_fps, step.duration_s) for step in trial.steps)
    two_clocks = window is not None and window.two_clocks
    role: EchoRole = "answer" if 0 in prepared.away else "ask"
    loads, drain_s = prepared.loads(trial), trial.drain_s
    if window is not None:  # the other one may begin as much later, and send a burst more slowly
        drain_s += window.lead_s + _burst_frames(loads) / SLOWEST_BURST_FPS
    return EngineTrial(
        loads=loads,
        duration_s=None if trial.burst or steps else trial.duration_s,
        steps=() if trial.burst else steps,
        epoch=None if window is None else window.number,
        delay_s=0.0 if window is None else window.lead_s,
        drain_s=drain_s,
        burst=BURST,
        group=1 if trial.burst else prepared.group,
        catch_up=prepared.catch_up,
        turn_us=prepared.choose_turn_us(loads) or None,
        max_lag_s=patient(MAX_LAG_S),
        policy="retry" if trial.burst and not refusal_is_loss else "drop",
        bin_s=trial.bin_s,
        tag_at_s=trial.tag_at_s,
        event_at_s=0.0 if trial.event is None else trial.event.at_s,
        ipdv=trial.ipdv,
        clock="wall" if two_clocks else "tsc",
        echo=role if two_clocks else "none",
        echo_every_s=max(ROUND_TRIP_S, trial.duration_s / ROUND_TRIPS),
    )


def _burst_frames(loads: Mapping[int, StreamLoad]) -> int:
    return sum(load.count or 0 for load in loads.values() if load.rate is None)


def tally(
    parts: Sequence[StreamPart],
    result: EngineResult,
    histograms: Mapping[int, NumberPairs] | None = None,
    differences: Mapping[int, DelayDifferences] | None = None,
    *,
    grouped_s: float | None = None,
) -> tuple[DirectionCounts, ...]:
    """Add the streams of each direction up; percentiles are there where histograms are given.

    `grouped_s`: the trial's length where frames leave in groups; None where they leave evenly.
    """

    def direction_counts(direction: int) -> DirectionCounts:
        part_results = [
            (p, result.stream(p.spec.id)) for p in parts if p.stream.direction == direction
        ]
        unicast = [stream for part, stream in part_results if not part.broadcast]
        broadcast = [stream.counts for part, stream in part_results if part.broadcast]
        sums = {name: sum(getattr(s.counts, name) for s in unicast) for name in FRAME_COUNTS}
        if not all(part.spec.rx_size for part, _ in part_results):
            del sums["altered"]  # not verified
        return DirectionCounts(
            direction=direction,
            **sums,
            tx_seconds=_tx_seconds(unicast, grouped_s),
            latency=_latency(unicast, histograms, differences or {}),
            broadcast_sent=sum(counts.sent for counts in broadcast),
            broadcast_received=sum(counts.received for counts in broadcast),
        )

    return tuple(map(direction_counts, sorted({part.stream.direction for part in parts})))


def _tx_seconds(streams: Iterable[StreamResult], grouped_s: float | None) -> float:
    """Seconds the offered frames took at the rate they were seen to leave at.

    n frames span n - 1 gaps; one more gap makes frames / seconds the rate. A group leaves at the
    start of its time, of which the first and the last frame of all groups do not tell the end; one
    that left late does.
    """
    spans = []
    for s in streams:
        if s.tx_first_ns is not None and s.tx_last_ns is not None:
            offered, span_s = s.counts.sent + s.counts.refused, (s.tx_last_ns - s.tx_first_ns) / 1e9
            if grouped_s is not None:
                spans.append(max(grouped_s, span_s))
            else:
                spans.append(offered * span_s / (offered - 1) if offered > 1 else 0.0)
    return round(max(spans, default=0.0), 9)


def _latency(
    streams: Sequence[StreamResult],
    histograms: Mapping[int, NumberPairs] | None,
    differences: Mapping[int, DelayDifferences],
) -> Latency | None:
    timed = [s for s in streams if s.latency.count]
    if not timed:
        return None
    count = sum(s.latency.count for s in timed)
    summary = Latency(
        count=count,
        min_ns=min(s.latency.min_ns for s in timed),
        mean_ns=sum(s.latency.mean_ns * s.latency.count for s in timed) / count,
        max_ns=max(s.latency.max_ns for s in timed),
        before_departure=sum(s.latency.before_departure or 0 for s in streams),
        above_range=sum(s.latency.above_range or 0 for s in streams),
    )
    if histograms is None:
        return summary
    frames: Counter[int] = Counter()  # streams share most buckets
    for s in timed:
        for value, number in histograms[s.stream]:
            frames[value] += number
    pairs = sorted(frames.items())
    distribution = {
        "percentiles": latency_percentiles(pairs),
        "hdr": encode_hdr(pairs),
        "ipdv": compute_ipdv(differences[s.stream] for s in timed if s.stream in differences),
    }
    return summary.model_copy(update=distribution)


def _timelines(
    engine: Engine, prepared: PreparedStreams, trial: TrialSpec, *, refusal_is_loss: bool
) -> tuple[Timeline, ...]:
    """One timeline for each direction that sent."""
    if not trial.bin_s:
        return ()
    parts = [part for part in prepared.parts if not part.broadcast]
    streams = engine.timelines([part.spec.id for part in parts])
    directions: dict[int, list[StreamTimeline]] = {}
    for part in parts:
        directions.setdefault(part.stream.direction, []).append(streams[part.spec.id])
    return tuple(
        merge_timelines(direction, stream_timelines, trial, refusal_is_loss=refusal_is_loss)
        for direction, stream_timelines in sorted(directions.items())
    )


def merge_timelines(
    direction: int, streams: Sequence[StreamTimeline], trial: TrialSpec, *, refusal_is_loss: bool
) -> Timeline:
    """The timelines of a direction's streams as one."""
    sent = _column_sums(s.offered(refusal_is_loss=refusal_is_loss) for s in streams)
    received = _column_sums(s.received for s in streams)
    arrived = _column_sums(s.arrived for s in streams)
    used = max((n for n, (a, b) in enumerate(zip(sent, arrived, strict=True)) if a or b), default=0)
    lost = [s.last_lost_ns(refusal_is_loss=refusal_is_loss) for s in streams]
    last_lost_ns = max((time_ns for time_ns in lost if time_ns is not None), default=None)
    longest = max(streams, key=lambda s: s.gap_ns)
    return Timeline(
        direction=direction,
        bin_s=trial.bin_s,
        sent=tuple(sent[: used + 1]),
        received=tuple(received[: used + 1]),
        arrived=tuple(arrived[: used + 1]),
        last_lost_s=None if last_lost_ns is None else last_lost_ns / 1e9,
        gap_s=longest.gap_ns / 1e9,
        gap_from_s=longest.gap_from_ns / 1e9,
        gap_since_s=0.0 if trial.event is None else trial.event.at_s,
    )


def _column_sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def compute_ipdv(streams: Iterable[DelayDifferences]) -> dict[str, float]:
    """Delay variation of a direction, RFC 8219 section 7.3.2.

    With its resolution, and the share of successive frames that have one stamp of departure.
    """
    all_streams = list(streams)
    sampled = [s for s in all_streams if s.count]
    if not sampled:
        return {"shared": 1.0} if any(s.shared for s in all_streams) else {}
    pairs = sorted(pair for s in sampled for pair in s.pairs)
    half = (sum(count for _, count in pairs) + 1) // 2
    upto = accumulate(count for _, count in pairs)
    median = next(
        (v for (v, _), n in zip(pairs, upto, strict=True) if n >= half), sampled[0].max_ns
    )
    counted, shared = sum(s.count for s in sampled), sum(s.shared for s in all_streams)
    return {
        "min": float(min(s.min_ns for s in sampled)),
        "median": float(median),
        "max": float(max(s.max_ns for s in sampled)),
        "resolution": float(max(s.poll_ns for s in sampled)),
        "shared": shared / (counted + shared),
    }
