"""A profile's streams as the engine's: headers, varied fields, and one part for each queue.

Where the sender chooses the receiver's queue (memif, virtio) the engine does what a NIC's hash
would: every flow stays on one queue, and flows are dealt out to the queues in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetperf.model.errors import GeneratorError
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.traffic.compiled import Checksum, CompiledFrame, compile_traffic
from vnetperf.traffic.frames import IPV4_LEN, VariedField
from vnetperf.traffic.loadgen import spec as engine

#: Flows of each letter of a genome from which on one more or less makes no difference.
MANY = 64


@dataclass(frozen=True)
class Part:
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
class _Turn:
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
) -> tuple[Part, ...]:
    """What the engine sends for a profile's streams.

    Args:
        streams: The streams.
        profile: Flows and the fields that vary.
        frame_size: Octets of the plain frame including FCS.
        queues: Tester port -> transmit queues.

    Returns:
        Parts with ids 0..n-1; one for each stream where ports have one queue.

    Raises:
        GeneratorError: More parts than the engine has streams.
    """
    parts: list[Part] = []
    for turn in _turns(compile_traffic(streams, profile, frame_size), profile, queues):
        frame = turn.frame
        for queue, share, fields in _dealt(turn, queues.get(frame.stream.tx_port, 1)):
            part = Part(
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


def _turns(
    frames: Sequence[CompiledFrame], profile: TrafficProfile, queues: Mapping[int, int]
) -> list[_Turn]:
    """Kinds of frame; those of a genome once for each letter, so that they leave in its order.

    Streams of equal rates take turns in the order of their numbers (engine/pacing.h).
    """
    plain = [_Turn(frame, frame.weight) for frame in frames]
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
        or any(_uneven(field, sequence) for frame in frames for field in frame.fields)
    ):
        return plain
    turns: list[_Turn] = []
    for mine in by_stream.values():
        of_size = dict(zip(sorted(set(sequence)), mine, strict=True))
        for place, size in enumerate(sequence):
            before, all_of_it = sequence[:place].count(size), sequence.count(size)
            turns.append(_Turn(of_size[size], 1 / len(sequence), before, all_of_it))
    return turns


def _uneven(field: VariedField, sequence: Sequence[int]) -> bool:
    """Whether some flows would come noticeably more often if each letter had its own."""
    return any(
        field.count % sequence.count(size) and field.count < MANY * sequence.count(size)
        for size in sequence
    )


def split(count: int, parts: Sequence[Part]) -> tuple[int, ...]:
    """Frames of one stream, dealt out to its parts.

    Args:
        count: Frames of the stream.
        parts: All its parts.

    Returns:
        Frames of each part; together exactly `count`.
    """
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


def _dealt(
    turn: _Turn, queues: int
) -> list[tuple[int | None, float, tuple[engine.FieldSpec, ...]]]:
    """Queue, share of the frames, and fields of each part of one kind of frame."""
    frame, varied = turn.frame, turn.frame.fields
    if queues == 1:
        fields = tuple(_every(field, turn.first, turn.every) for field in varied)
        return [(None, 1.0, fields)]
    flows = max((field.count for field in varied), default=1)
    if flows == 1:  # one flow stays on one queue; those of several chains are dealt out
        return [(frame.stream.chain % queues, 1.0, tuple(_field(field) for field in varied))]
    used = min(queues, flows)
    dealt: list[tuple[int | None, float, tuple[engine.FieldSpec, ...]]] = []
    for queue in range(used):
        mine = len(range(queue, flows, used))
        fields = tuple(_every(field, queue, used) for field in varied)
        dealt.append((queue, mine / flows, fields))
    return dealt


def _every(field: VariedField, first: int, step: int) -> engine.FieldSpec:
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
    return _every(field, 0, 1)


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
        outer_offset=_outer(packets, inner, frame.fields),
        fields=fields,
        queue=queue,
    )


def _outer(
    packets: Sequence[Checksum], inner: int | None, fields: Sequence[VariedField]
) -> int | None:
    """Offset of an IPv4 header outside the tunnel, if fields in it vary: else it stays right."""
    for packet in packets:
        end = packet.offset + IPV4_LEN
        if packet.offset != inner and any(packet.offset <= f.offset < end for f in fields):
            return packet.offset
    return None
