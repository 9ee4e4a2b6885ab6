"""The engine's telemetry socket, and its replies as values.

Times in replies are nanoseconds after the trial's start.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar

from vnetperf.host.dpdk import DpdkTelemetry
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts, Gaps, Latency, LiveCounts, QueueGaps
from vnetperf.plugin.compiled_frames import PCAP_END_NS, pcap_file
from vnetperf.plugin.generator import host_failures

log = logging.getLogger(__name__)
#: Requests that change nothing, many a second while a trial runs: records of them would disturb.
QUERIES = tuple(f"/loadgen/{name}" for name in ("info", "worker", "port", "trial"))
CHANGES = ("/loadgen/port/", "/loadgen/trial/start", "/loadgen/trial/stop")

_PATH_MAX = 107  # sun_path, without its terminator
#: Longer than the engine gives its workers (worker.c), so that its own message arrives.
REPLY_TIMEOUT_S = 30.0
POLL_S = 0.002


def _no_telemetry(path: Path, error: Exception) -> GeneratorError:
    reason = error if str(error) else type(error).__name__
    return GeneratorError(f"no DPDK telemetry: {reason}", where=str(path))


class EngineSocket(DpdkTelemetry):
    """DPDK's telemetry socket of one process, for use from one thread."""

    def __init__(self, path: Path) -> None:
        if len(str(path).encode()) > _PATH_MAX:
            raise GeneratorError(
                f"path of {len(str(path))} characters is too long for a socket",
                where=str(path),
                accepted=f"at most {_PATH_MAX} characters",
                cure="use a shorter run directory",
            )
        try:
            super().__init__(path, REPLY_TIMEOUT_S)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _no_telemetry(path, error) from error
        try:
            self.pid = int(self.greeting["pid"])
            """Process that replies."""
        except (ValueError, KeyError, TypeError) as error:
            self.close()
            raise _no_telemetry(path, error) from error

    def ask(self, command: str, **parameters: object) -> Any:
        """Run one command and return its value."""
        return self.ask_rows(command, (parameters,))[0]

    def ask_rows(self, command: str, rows: Sequence[Mapping[str, object]]) -> list[Any]:
        """Run one command with each row of parameters; all of them, also when one is refused."""
        requests = [_render(command, row) for row in rows]
        if requests and (command.startswith(CHANGES) or not command.startswith(QUERIES)):
            log.debug("%s, %d times", requests[0], len(requests))
        with host_failures():
            values = self.ask_all(requests)
        return [_accepted(command.partition(",")[0], value) for value in values]


def _render(command: str, parameters: Mapping[str, object]) -> str:
    pairs = (
        f"{key}={value!r}" if isinstance(value, float) else f"{key}={value}"
        for key, value in parameters.items()
        if value is not None
    )
    return ",".join([command, *pairs])


def _accepted(command: str, value: Any) -> Any:
    """Return the reply, or raise if the engine refused the command."""
    if value is None:
        raise GeneratorError("the command is unknown or failed", where=command)
    if isinstance(value, dict) and "error" in value:
        raise GeneratorError(
            str(value["error"]), where=command, accepted=str(value.get("accepted", ""))
        )
    return value


def connect_engine(process: ManagedProcess, run_dir: Path, timeout_s: float) -> EngineSocket:
    """Wait for the socket of this very process to reply."""
    sockets: list[EngineSocket] = []

    def connected() -> bool:
        # EAL adds ":1" and so on to the name when it finds it taken.
        for path in (run_dir / "dpdk").rglob("dpdk_telemetry.v2*"):
            with contextlib.suppress(GeneratorError):
                socket = EngineSocket(path)
                # DPDK opens the socket before the ports are up and the workers run.
                if socket.pid == process.pid and _works(socket):
                    sockets.append(socket)
                    return True
                socket.close()
        return False

    began = time.monotonic()
    with host_failures():
        process.wait_for(connected, timeout_s, "its telemetry socket", POLL_S)
    log.info("engine %d replies after %.2f s", process.pid, time.monotonic() - began)
    return sockets[0]


def _works(socket: EngineSocket) -> bool:
    try:
        return bool(socket.ask("/loadgen/worker", worker=0)["tid"])
    except GeneratorError:
        return False


ReplyType = TypeVar("ReplyType")


def parse_reply(kind: type[ReplyType], reply: Mapping[str, Any], **field_values: Any) -> ReplyType:
    """Make a value of a reply; a field that may be None may be missing in it."""
    with _complete(reply):
        for field in fields(kind):  # type: ignore[arg-type]  # only dataclasses are given
            if field.name not in field_values:
                optional = "None" in str(field.type)
                name = field.name
                field_values[name] = reply.get(name) if optional else reply[name]
    return kind(**field_values)


@contextlib.contextmanager
def _complete(reply: object) -> Iterator[None]:
    """Read a reply; where something is missing in it, the engine is at fault."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise GeneratorError(f"a reply without {error}: {reply!r}"[:300], where="loadgen") from None


@dataclass(frozen=True)
class PortInfo:
    """One port of the engine."""

    number: int
    name: str
    driver: str
    mac: str
    link_up: bool
    mtu: int
    """As the driver has it; those that take frames of any size leave it at 1500."""
    rx_queues: int
    tx_queues: int
    nic_time: bool
    """Whether frames come with the NIC's own time, as precisely as both clocks can be compared."""
    nic_time_error_ns: int
    """How far that may be off, by the last reading of both clocks."""
    answers: int
    """Frames sent to neighbours since the start: answers and announcements."""
    rx_descriptors: int | None = None
    """Frames of each receive ring, as the driver has set it up."""
    rx_missed: int | None = None
    """Frames since the start that the receive ring had no room for, as the driver counts them;
    None: it keeps no statistics. So do the next two."""
    rx_errors: int | None = None
    rx_no_mbufs: int | None = None
    """Times that no buffer was free for a received frame."""


@dataclass(frozen=True)
class WorkerInfo:
    """One thread that sends and receives."""

    number: int
    cpu: int
    numa_node: int
    tid: int
    """Thread id, for affinity and scheduling."""
    rx_queues: int
    tx_queues: int
    clock_exchanges: int | None = None
    """Comparisons of its processor's TSC with that of the main thread's when the engine started; 0:
    the same processor, or none in time."""
    clock_least_ns: int | None = None
    """That TSC is ahead of the main thread's by this at least, by the exchanges; and by
    `clock_most_ns` at most."""
    clock_most_ns: int | None = None


@dataclass(frozen=True)
class EngineInfo:
    """The engine, its ports and workers."""

    version: str
    protocol: int
    dpdk: str
    pid: int
    tsc_hz: int
    largest_frame: int
    """Octets including FCS."""
    ports: tuple[PortInfo, ...]
    workers: tuple[WorkerInfo, ...]


@dataclass(frozen=True)
class EngineStatus:
    """A look at the engine."""

    state: Literal["idle", "armed", "running", "draining", "done", "learning"]
    live: LiveCounts | None
    """Of the trial that runs, or is done; None: none has begun."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any]) -> EngineStatus:
        """From the reply about the trial; its time is its whole length once it is done."""
        with _complete(reply):
            if "intended" not in reply or "elapsed_ns" not in reply:
                return cls(reply["state"], None)
            counts = {name: reply[name] for name in ("sent", "refused", "received")}
            return cls(reply["state"], LiveCounts(elapsed_s=reply["elapsed_ns"] / 1e9, **counts))


#: Counts of a stream's frames that a reply has under the names of `DirectionCounts`. Frames are
#: `reordered` within one receive queue.
FRAME_COUNTS = (
    *("intended", "sent", "refused", "unsent", "received"),
    *("duplicated", "reordered", "late", "misrouted", "altered"),
)


@dataclass(frozen=True)
class StreamResult:
    """One stream in a finished trial."""

    stream: int
    counts: DirectionCounts
    """Of this stream alone; ``intended == sent + refused + unsent`` once a trial is done."""
    latency: Latency
    """From handing a frame to the driver to receiving it, over every frame received."""
    tx_first_ns: int | None
    """When the first frame was offered; None: never."""
    tx_last_ns: int | None
    rx_first_ns: int | None
    rx_last_ns: int | None

    @classmethod
    def parse(cls, stream: int, direction: int, reply: Mapping[str, int]) -> StreamResult:
        """From the reply about a stream that the port of a direction sends."""
        with _complete(reply):
            counts = DirectionCounts(
                direction=direction, **{name: reply[name] for name in FRAME_COUNTS}
            )
            frames = reply["latency_count"]
            latency = Latency(
                count=frames,
                min_ns=reply["latency_min_ns"],
                mean_ns=reply["latency_sum_ns"] / frames if frames else 0.0,
                max_ns=reply["latency_max_ns"],
                before_departure=reply["bad_latency"],
                above_range=reply["latency_over"],
            )
        return parse_reply(cls, reply, stream=stream, counts=counts, latency=latency)


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
    verified: int
    """Frames whose payload was compared: the first of each receive call."""
    answered: int
    """Requests of neighbours for addresses of ours."""
    nic_timed: int
    """Frames whose arrival the NIC's clock gave."""
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
    no_mbufs: int
    """Times that no buffer was free."""
    turns: int
    """Turns in which frames left, of all queues; of a worker that never sleeps transmit calls."""
    most_in_turn: int
    """Most frames that left a queue in one of them."""

    @property
    def lag_mean_ns(self) -> float | None:
        """Mean pacing error: how far behind schedule frames left; None: not paced."""
        return self.lag_sum_ns / self.lag_frames if self.lag_frames else None


@dataclass(frozen=True)
class WorkerTurns:
    """How one worker took turns in a finished trial."""

    sleeps: int
    """Turns that ended with a sleep."""
    forced: int
    """Of these, turns that ended because the worker had used up its share of its processor."""
    slept_ns: int
    time_ns: int
    """From the order to run to the worker's end of the trial."""
    prompt: int
    """Whether it was under SCHED_FIFO."""
    refused: str
    """The kernel's reason why it was not; "" where it was not to be."""


#: Percentile of `Gaps` -> its name in the engine's reply.
_GAP_PERCENTILES = {"50": "p50", "99": "p99", "99.9": "p999"}


def parse_gaps(reply: Mapping[str, int], kind: Literal["poll", "send"]) -> Gaps:
    """Gaps of one kind of all workers in a finished trial (engine/gaps.h)."""
    with _complete(reply):
        return Gaps(
            max_s=reply[f"{kind}_max_ns"] / 1e9,
            percentiles={
                level: reply[f"{kind}_{name}_ns"] / 1e9 for level, name in _GAP_PERCENTILES.items()
            },
        )


@dataclass(frozen=True)
class EngineQueue:
    """A queue whose gaps are looked up."""

    way: Literal["rx", "tx"]
    port: int
    queue: int
    rate: float
    """Frames/s through all of the port's queues of this kind."""
    ring: int | None = None
    """Frames that its ring holds; None: not known."""
    direction: int = 0
    """Direction whose frames go through it."""
    assumed: bool = False
    """Whether the ring's size is assumed."""

    def parameters(self) -> dict[str, Any]:
        """What ``trial/queue`` takes."""
        names = ("way", "port", "queue", "rate", "ring")
        return {name: getattr(self, name) for name in names}

    def parse_gaps(self, reply: Mapping[str, int]) -> QueueGaps:
        """Gaps of its worker in a finished trial; those of sending are of the queue alone."""
        with _complete(reply):
            return QueueGaps(
                direction=self.direction,
                kind="poll" if self.way == "rx" else "send",
                port=self.port,
                queue=self.queue,
                worker=reply["worker"],
                share=reply["share_ppm"] / 1e6,
                max_s=reply["max_ns"] / 1e9,
                hold_s=None if self.ring is None else round(reply["hold_ns"] / 1e9, 9),
                over_s=reply["over_ns"] / 1e9,
                assumed=self.assumed,
            )


@dataclass(frozen=True)
class EngineResult:
    """A finished trial."""

    epoch: int
    aborted: bool
    elapsed_ns: int
    """From the common start to the end of draining."""
    tx_end_ns: int | None
    """When the last worker had nothing more to send; None: aborted before."""
    streams: tuple[StreamResult, ...]
    ports: tuple[PortResult, ...]
    wall_error_ns: int | None = None
    """Most that the machine's time of day went from what frames were stamped by; None: they were
    stamped by the processors' counter."""

    def stream(self, stream_id: int) -> StreamResult:
        """The result of one stream."""
        for result in self.streams:
            if result.stream == stream_id:
                return result
        raise KeyError(stream_id)


#: Numbers in a row of a timeline's file.
_TIMELINE_COLUMNS = 5
NumberPairs = tuple[tuple[int, int], ...]


def read_pairs(typecode: Literal["Q", "q"], octets: bytes) -> NumberPairs:
    """Value (ns) and frames, by rising value."""
    numbers = array(typecode, octets)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


@dataclass(frozen=True)
class StreamTimeline:
    """One stream over time; the bins begin with the trial's start."""

    bin_ns: int
    sent: Sequence[int]
    """Frames taken by the driver, by the bin of their stamp."""
    refused: Sequence[int]
    received: Sequence[int]
    """Distinct frames that came, by the bin in which they were sent."""
    arrived: Sequence[int]
    """The same by the bin in which they came."""
    hole_ns: Sequence[int]
    """When the last frame was sent that is missing before one that came, ns; 0: none. A frame that
    others have overtaken is missing before them, though it comes: look at `received` first."""
    gap_ns: int
    """Longest time between two arrivals of all streams of the sending port."""
    gap_from_ns: int
    tail_ns: int | None
    """When the last frame was sent, if it never came."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any], octets: bytes) -> StreamTimeline:
        """From the reply and the file it names."""
        numbers = array("Q", octets)
        names = ("sent", "refused", "received", "arrived", "hole_ns")
        columns: dict[str, Any] = {
            name: numbers[column::_TIMELINE_COLUMNS] for column, name in enumerate(names)
        }
        return parse_reply(cls, reply, **columns)

    def offered(self, *, refusal_is_loss: bool) -> list[int]:
        """Frames that were put to the DUT in each bin."""
        if not refusal_is_loss:
            return list(self.sent)
        return [s + r for s, r in zip(self.sent, self.refused, strict=True)]

    def last_lost_ns(self, *, refusal_is_loss: bool) -> int | None:
        """When the last frame was sent that never came."""
        offered = self.offered(refusal_is_loss=refusal_is_loss)
        lossy = [n for n, frames in enumerate(offered) if frames > self.received[n]]
        if not lossy:
            return None
        last = lossy[-1]
        # The width is in whole ns, and may be up to one more. What a late tester sent after the
        # last bin is in that one.
        is_final = last == len(self.sent) - 1
        begin, end = last * self.bin_ns, inf if is_final else (last + 1) * (self.bin_ns + 1)
        times_ns = [
            time_ns
            for time_ns in (self.hole_ns[last], self.tail_ns)
            if time_ns and begin <= time_ns <= end
        ]
        return max(times_ns, default=(last + 1) * self.bin_ns)


@dataclass(frozen=True)
class DelayDifferences:
    """Differences of the delays of successive frames of one stream, ns.

    Frames that left in one transmit call have one stamp, and none.
    """

    count: int
    min_ns: int
    max_ns: int
    pairs: NumberPairs
    """Difference and how often, by rising difference."""
    shared: int = 0
    """Successive frames with one stamp of departure."""
    poll_ns: int = 0
    """Mean time from a poll of the receiving port to the next one that found frames."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any], octets: bytes) -> DelayDifferences:
        """From the reply and the file it names."""
        rising, falling = reply["rising"], reply["falling"]
        return cls(
            count=rising + falling,
            min_ns=-reply["falling_max_ns"] if falling else reply["rising_min_ns"],
            max_ns=reply["rising_max_ns"] if rising else -reply["falling_min_ns"],
            pairs=read_pairs("q", octets),
            shared=reply["shared"],
            poll_ns=reply["poll_ns"],
        )


@dataclass(frozen=True)
class Echoes:
    """Round trips as one of two engines knows them."""

    marks: int
    """Frames that asked, or answered."""
    rows: tuple[tuple[int, int, int], ...]
    """Of who answers: stamp of the frame that asked, that of the answer, and the time between the
    frame's arrival and that, ns; of who asks: 0, stamp of the answer, and when it came, ns."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any], octets: bytes) -> Echoes:
        """From the reply and the file it names."""
        return cls(marks=reply["marks"], rows=tuple(struct.iter_unpack("=3Q", octets)))


CaptureKind = Literal["sent", "received", "stray"]
_RECORD = struct.Struct("=QIIHHI")
_KINDS: dict[int, CaptureKind] = {1: "sent", 2: "received", 3: "stray"}
_NO_STREAM = 256


@dataclass(frozen=True)
class CapturedFrame:
    """A frame as it was handed to the driver, or came from it."""

    wall_ns: int
    """Nanoseconds since 1970, UTC."""
    port: int
    stream: int | None
    """Engine's id; None: of no stream of the trial."""
    kind: CaptureKind
    """stray: received, and not of the trial."""
    octets: bytes
    """From the first on; fewer than `length` when the engine had no room for all."""
    length: int
    """Octets of the whole frame without FCS."""


def read_capture(data: bytes) -> tuple[CapturedFrame, ...]:
    """Read the engine's file."""
    frames = []
    offset = 0
    while offset < len(data):
        wall_ns, length, kept, port, stream, kind = _RECORD.unpack_from(data, offset)
        offset += _RECORD.size
        number = None if stream == _NO_STREAM else stream
        octets = data[offset : offset + kept]
        if len(octets) < kept or wall_ns >= PCAP_END_NS:
            raise ValueError(f"octets {offset} to {offset + kept} are no frame")
        frames.append(CapturedFrame(wall_ns, port, number, _KINDS[kind], octets, length))
        offset += kept
    return tuple(sorted(frames, key=lambda frame: frame.wall_ns))


def pcap_files(frames: Iterable[CapturedFrame]) -> dict[str, bytes]:
    """One pcap file for each port and way, as tcpdump and Wireshark read them."""
    files: dict[str, list[CapturedFrame]] = {}
    for frame in frames:
        way = "sent" if frame.kind == "sent" else "received"
        files.setdefault(f"port{frame.port}-{way}.pcap", []).append(frame)
    return {
        name: pcap_file((f.wall_ns, f.octets, f.length) for f in port_frames)
        for name, port_frames in sorted(files.items())
    }
