"""Traffic as every generator sends it: whole frames, varied fields, checksums to keep right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vnetperf.model import tunnel
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.model.units import driver_length
from vnetperf.traffic.frames import (
    ETH_LEN,
    VariedField,
    compile_frame_header,
    compile_sent_varied,
    sent_size,
)

#: Octets at a frame's end that are the generator's own: loadgen stamps each frame there, others
#: send zeros or a trailer that measures latency.
STAMP_OCTETS = 18


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
        checksums: Those to keep right. A UDP checksum of zero is none (RFC 768), not listed here.
    """

    stream: Stream
    size: int
    weight: float
    template: bytes
    header_octets: int
    fields: tuple[VariedField, ...] = ()
    checksums: tuple[Checksum, ...] = ()

    @property
    def headers(self) -> bytes:
        """The frame's headers, without its payload."""
        return self.template[: self.header_octets]


def compile_traffic(
    streams: Sequence[Stream], profile: TrafficProfile, frame_size: int
) -> tuple[CompiledFrame, ...]:
    """The frames of a profile's streams.

    Args:
        streams: The streams.
        profile: Flows and the fields that vary.
        frame_size: Octets of the plain frame including FCS; a tunnel of the deployment adds to it.

    Returns:
        In the streams' order; the weights of each stream's frames add up to 1.
    """
    return tuple(
        _compile(one, profile, frame_size, weight)
        for stream in streams
        for one, weight in _by_run(stream)
    )


def _by_run(stream: Stream) -> list[tuple[Stream, float]]:
    """The stream with one run of sessions each, and their share of the frames."""
    total = sum(run.count for run in stream.bearers)
    runs = [(stream.of(run), run.count / total) for run in stream.bearers]
    return runs or [(stream, 1.0)]


def _compile(
    stream: Stream, profile: TrafficProfile, frame_size: int, weight: float
) -> CompiledFrame:
    size = sent_size(stream, frame_size)
    headers = compile_frame_header(stream, frame_size)
    return CompiledFrame(
        stream=stream,
        size=size,
        weight=weight,
        template=headers.ljust(driver_length(size), b"\0"),
        header_octets=len(headers),
        fields=compile_sent_varied(stream, profile),
        checksums=_checksums(stream),
    )


def _checksums(stream: Stream) -> tuple[Checksum, ...]:
    inner = ETH_LEN + tunnel.overhead(stream.tunnel)
    own = Checksum("ipv4", inner, inner)
    return (Checksum("ipv4", ETH_LEN, ETH_LEN), own) if stream.tunnel else (own,)
