"""What the engine tells of a trial.  Times are ns after the trial's start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["idle", "armed", "running", "draining", "done", "learning"]
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Counts:
    """Frames; ``intended == sent + refused + unsent`` once a trial is done."""

    intended: int
    sent: int
    """Taken by the driver."""
    refused: int
    """Offered at their time, but the driver's ring was full."""
    unsent: int
    """Given up because the generator was too slow, retried in vain, or the trial was aborted."""
    received: int
    """Unique frames that arrived where they should."""
    duplicated: int
    reordered: int
    """RFC 4737: behind a later frame of the stream, judged within one receive queue; part of
    received."""
    late: int
    """Too old to tell a duplicate from a new frame; not part of received."""
    misrouted: int
    """Arrived at another port than the stream's."""
    bad_latency: int
    """Arrived before departure (clocks disagree); received, but in no latency."""

    @property
    def lost(self) -> int:
        """Sent and not received; negative if more came than was sent, which is a fault."""
        return self.sent - self.received

    @classmethod
    def parse(cls, reply: Mapping[str, int]) -> Counts:
        """From the reply of the engine."""
        return cls(**{name: int(reply[name]) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Status:
    """A look at the engine; counts are live while a trial runs."""

    state: State
    elapsed_s: float | None
    """Seconds since the trial's start, or its whole length once done."""
    counts: Counts | None
    """Sums over all streams; None: no trial yet."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any]) -> Status:
        """From the reply of the engine."""
        elapsed = reply.get("elapsed_ns")
        return cls(
            state=reply["state"],
            elapsed_s=None if elapsed is None else elapsed / _NS_PER_S,
            counts=Counts.parse(reply) if "intended" in reply else None,
        )


@dataclass(frozen=True)
class Latency:
    """From handing a frame to the driver to receiving it, over every frame received."""

    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    over: int
    """Frames above 10 s: in the sum and the maximum, not in the histogram."""

    @classmethod
    def parse(cls, reply: Mapping[str, int]) -> Latency:
        """From the reply of the engine."""
        return cls(**{name: int(reply[f"latency_{name}"]) for name in cls.__dataclass_fields__})

    @property
    def mean_ns(self) -> float | None:
        """None: no frame."""
        return self.sum_ns / self.count if self.count else None


@dataclass(frozen=True)
class StreamResult:
    """One stream in a finished trial."""

    stream: int
    counts: Counts
    latency: Latency
    tx_first_ns: int | None
    """When the first frame was offered; None: never."""
    tx_last_ns: int | None
    rx_first_ns: int | None
    rx_last_ns: int | None

    @classmethod
    def parse(cls, stream: int, reply: Mapping[str, int]) -> StreamResult:
        """From the reply of the engine about a stream."""
        return cls(
            stream=stream,
            counts=Counts.parse(reply),
            latency=Latency.parse(reply),
            tx_first_ns=reply.get("tx_first_ns"),
            tx_last_ns=reply.get("tx_last_ns"),
            rx_first_ns=reply.get("rx_first_ns"),
            rx_last_ns=reply.get("rx_last_ns"),
        )

    @property
    def offered_rate(self) -> float | None:
        """Frames/s offered to the driver (sent and refused), from first to last frame."""
        if self.tx_first_ns is None or self.tx_last_ns is None:
            return None
        span = self.tx_last_ns - self.tx_first_ns
        frames = self.counts.sent + self.counts.refused
        return (frames - 1) * _NS_PER_S / span if span > 0 and frames > 1 else None


@dataclass(frozen=True)
class PortResult:
    """One port in a finished trial."""

    port: int
    rx_frames: int
    """Everything received, whosever it was."""
    rx_octets: int
    """With FCS."""
    foreign: int
    """Frames without a trailer of ours."""
    foreign_octets: int
    stale: int
    """Frames of an earlier trial."""
    learning: int
    corrupted: int
    """Frames of this trial with a stream or sequence number that was never sent."""
    answered: int
    """Requests of neighbours for addresses of ours."""
    nic_timed: int
    """Frames whose arrival was told by the NIC's clock."""
    unanswered: int
    """Likewise, when they came faster than answers leave."""
    tx_frames: int
    tx_calls: int
    max_burst: int
    """Frames in one transmit call, at most."""
    lag_frames: int
    """Frames that the lag is taken of; 0 at rate "max"."""
    lag_sum_ns: int
    lag_max_ns: int
    """Furthest behind schedule that a frame left."""
    retries: int
    no_mbufs: int
    """Times that no buffer was free."""

    @property
    def lag_mean_ns(self) -> float | None:
        """Mean pacing error: how far behind schedule frames left; None: not paced."""
        return self.lag_sum_ns / self.lag_frames if self.lag_frames else None


@dataclass(frozen=True)
class TrialResult:
    """A finished trial."""

    epoch: int
    aborted: bool
    elapsed_ns: int
    """From the common start to the end of draining."""
    tx_end_ns: int | None
    """When the last worker had nothing more to send; None: aborted before."""
    streams: tuple[StreamResult, ...]
    ports: tuple[PortResult, ...]

    def stream(self, stream_id: int) -> StreamResult:
        """The result of one stream.

        Args:
            stream_id: Id of the stream.

        Returns:
            Its counts.

        Raises:
            KeyError: The trial did not send this stream.
        """
        for result in self.streams:
            if result.stream == stream_id:
                return result
        raise KeyError(stream_id)


@dataclass(frozen=True)
class LearnResult:
    """Frames of a learning phase."""

    sent: int
    refused: int
    unsent: int
