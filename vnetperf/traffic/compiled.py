"""Traffic as every generator sends it: whole frames, varied fields, checksums to keep right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.units import STAMP_OCTETS
from vnetperf.traffic.frames import (
    VariedField,
    compile_fields,
    compile_frame,
    layers_of,
    sent_size,
)
from vnetperf.traffic.layers import Layer, correct, has_checksum

__all__ = ["STAMP_OCTETS", "Checksum", "CompiledFrame", "VariedField", "compile_traffic"]

#: STAMP_OCTETS at a frame's end are the generator's own: loadgen stamps each frame there, others
#: send zeros or a trailer that measures latency.


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum that has to be kept right when a field that it covers varies.

    Attributes:
        kind: "ipv4" is the header's own; "udp" and "tcp" cover addresses, header and payload.
        offset: Octets from the start of the frame to the header that has the checksum.
        ip_offset: Octets to the IP header that it belongs to; `offset` again for "ipv4".
    """

    kind: Literal["ipv4", "udp", "tcp"]
    offset: int
    ip_offset: int


@dataclass(frozen=True, slots=True)
class CompiledFrame:
    """One kind of frame of a stream, as every generator sends it: equal octets, whichever sends.

    Frame i has the value ``base + step * (i % count)`` in each of its fields: all step together.

    Attributes:
        stream: The stream, with at most one run of bearers.
        size: Octets as sent, including FCS.
        weight: Share of the stream's frames, 0..1.
        template: The whole frame of the first flow without FCS: headers, then zeros.
        header_octets: How many of them are headers.
        fields: What differs from frame to frame.
        checksums: Those to keep right, from the outermost header. A UDP checksum of zero is none
            (RFC 768), not listed here.
        share: Its frames/s are this share of a trial's load per interface (`TrialSpec.load_fps`).
        broadcast: True for frames to the broadcast address, which are no frames of the stream:
            neither counted as received nor as lost.
    """

    stream: Stream
    size: int
    weight: float
    template: bytes
    header_octets: int
    fields: tuple[VariedField, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    share: float = 1.0
    broadcast: bool = False

    @property
    def headers(self) -> bytes:
        """The frame's headers, without its payload."""
        return self.template[: self.header_octets]

    def nth(self, number: int) -> bytes:
        """A frame as it is sent, but for the stamp: what any generator's must equal.

        Args:
            number: Which one, from 0; of random fields it takes the values in order.

        Returns:
            Octets without FCS, with right checksums.
        """
        frame = bytearray(self.template)
        for field in self.fields:
            value = field.base + field.step * (number % field.count)
            frame[field.offset : field.offset + field.width] = value.to_bytes(field.width, "big")
        for checksum in reversed(self.checksums):
            correct(frame, checksum.kind, checksum.offset, checksum.ip_offset)
        return bytes(frame)


def compile_traffic(
    streams: Sequence[Stream], profile: TrafficProfile, frame_size: int
) -> tuple[CompiledFrame, ...]:
    """The frames of a profile's streams.

    Args:
        streams: The streams.
        profile: Headers, flows and the fields that vary.
        frame_size: Octets of the frame including FCS, a tunnel of the deployment not counted;
            looked at only where the profile has no mix of sizes.

    Returns:
        In the streams' order; the weights of each stream's frames add up to 1.

    Raises:
        ConfigError: The headers do not fit the frames.
    """
    senders = Counter(stream.direction for stream in streams)
    return tuple(
        _compile(one, profile, kind, stream.load / senders[stream.direction])
        for stream in streams
        for one, kind in _kinds(stream, profile, frame_size)
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    size: int
    weight: float
    broadcast: bool


def _kinds(
    stream: Stream, profile: TrafficProfile, frame_size: int
) -> Iterator[tuple[Stream, _Kind]]:
    """What a stream's frames differ in, beside their fields: session, size, whom they go to."""
    mix = profile.mix
    sizes = mix.shares() if mix is not None else ((frame_size, 1.0),)
    ways = [(False, 1.0 - profile.broadcast), (True, profile.broadcast)]
    for one, of_runs in _by_run(stream):
        for size, of_sizes in sizes:
            for broadcast, of_ways in ways:
                if of_ways:
                    yield one, _Kind(size, of_runs * of_sizes * of_ways, broadcast)


def _by_run(stream: Stream) -> list[tuple[Stream, float]]:
    """The stream with one run of sessions each, and their share of the frames."""
    total = sum(run.count for run in stream.bearers)
    runs = [(stream.of(run), run.count / total) for run in stream.bearers]
    return runs or [(stream, 1.0)]


def _compile(stream: Stream, profile: TrafficProfile, kind: _Kind, of_load: float) -> CompiledFrame:
    template = compile_frame(stream, profile, kind.size, broadcast=kind.broadcast)
    layers = layers_of(stream, profile)
    return CompiledFrame(
        stream=stream,
        size=sent_size(stream, kind.size),
        weight=kind.weight,
        template=template,
        header_octets=layers[-1].end,
        fields=compile_fields(stream, profile, template, broadcast=kind.broadcast),
        checksums=tuple(_checksums(layers)),
        share=of_load * kind.weight,
        broadcast=kind.broadcast,
    )


def _checksums(layers: Sequence[Layer]) -> Iterator[Checksum]:
    for place, layer in enumerate(layers):
        if not has_checksum(layers, place):
            continue
        if layer.kind == "ipv4":
            yield Checksum("ipv4", layer.offset, layer.offset)
        else:
            kind: Literal["udp", "tcp"] = "udp" if layer.kind == "udp" else "tcp"
            yield Checksum(kind, layer.offset, layers[place - 1].offset)
