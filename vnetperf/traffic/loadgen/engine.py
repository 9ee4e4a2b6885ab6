"""The engine: its command line, its streams and trials, and the object that runs them."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from vnetperf.host.wait import patient
from vnetperf.model.errors import GeneratorError, TrialTimeoutError
from vnetperf.model.trial import CaptureWhat, Timeline
from vnetperf.traffic.loadgen.build import engine_executable
from vnetperf.traffic.loadgen.telemetry import (
    CapturedFrame,
    EngineConnection,
    EngineInfo,
    EngineResult,
    EngineStatus,
    LearnResult,
    PortInfo,
    PortResult,
    Spawn,
    StreamResult,
    WorkerInfo,
    read_capture,
    spawn_child,
)

MAX_STREAMS = 256
MAX_HEADER = 440
MAX_WORKERS = 64
TRAILER_OCTETS = 18
#: RTE_MAX_LCORE of distributions' builds.
MAX_LCORE = 128


@dataclass(frozen=True)
class QueueMap:
    """One queue given to one worker, instead of the usual turn."""

    direction: Literal["rx", "tx"]
    port: int
    queue: int
    worker: int
    """Number of the worker: the place of its CPU in `EngineConfig.cpus`."""

    def render(self) -> str:
        """The item as ``--map`` takes it."""
        return f"{self.direction}{self.port}.{self.queue}@{self.worker}"


@dataclass(frozen=True)
class EngineConfig:
    """How the engine is started; renders its command line."""

    devices: tuple[str, ...]
    """EAL arguments that make the ports, in port order: ``--vdev=...``, ``-a 0000:...``."""
    cpus: tuple[int, ...] = (0,)
    """CPUs of the workers, one worker each; the same CPU twice makes two workers share it."""
    hugepages: bool = True
    """False: ordinary memory (``--no-huge``); memif and kernel interfaces lose nothing by it."""
    memory_mb: int = 512
    """Memory that DPDK takes, MiB."""
    node: int = 0
    """NUMA node of the hugepages."""
    pci: bool = False
    """Whether EAL looks for PCI devices; without it ``--no-pci``."""
    eal: tuple[str, ...] = ()
    """Further EAL arguments."""
    rx_queues: int | tuple[int, ...] = 1
    """Receive queues of every port, or by port; all are polled."""
    tx_queues: int | tuple[int, ...] = 1
    """Transmit queues of every port, or by port; each counts its own sequence numbers."""
    rx_descriptors: int = 1024
    tx_descriptors: int = 1024
    mbufs: int = 0
    """Buffers per pool; 0: enough for the rings."""
    mtu: int | None = None
    """Octets; None: 1500, left to the driver."""
    room: int = 0
    """Octets of frame that a buffer holds; 0: enough for the MTU."""
    rx_burst: int = 32
    """Frames per receive call."""
    sleep_us: int = 0
    """Sleep when idle, for CPUs that are shared; 0: poll without sleeping."""
    nic_time: bool = False
    """Arrivals by a NIC's own clock, where its driver gives it to each frame and lets it be read;
    else by the processor's (TSC), when the frame is found."""
    queue_map: tuple[QueueMap, ...] = ()

    def argv(self, executable: str) -> list[str]:
        """The whole command line."""
        argv = [executable, f"--lcores={self._lcores()}"]
        if self.hugepages:
            memory = ",".join(["0"] * self.node + [str(self.memory_mb)])
            argv += ["--in-memory", "--single-file-segments", "--socket-mem", memory]
        else:
            argv += ["--no-huge", "-m", str(self.memory_mb)]
        argv += [] if self.pci else ["--no-pci"]
        argv += [*self.devices, *self.eal, "--"]
        argv += [f"--rx-queues={_list(self.rx_queues)}", f"--tx-queues={_list(self.tx_queues)}"]
        argv += [f"--rx-desc={self.rx_descriptors}", f"--tx-desc={self.tx_descriptors}"]
        argv += [f"--mbufs={self.mbufs}", f"--rx-burst={self.rx_burst}"]
        argv += [f"--sleep-us={self.sleep_us}"]
        argv += [f"--room={self.room}"] if self.room else []
        argv += ["--nic-time=1"] if self.nic_time else []
        argv += [] if self.mtu is None else [f"--mtu={self.mtu}"]
        argv += [f"--map={','.join(m.render() for m in self.queue_map)}"] if self.queue_map else []
        return argv

    def _lcores(self) -> str:
        """One lcore for each worker.

        DPDK takes a thread's node from the processor that has its lcore's number, so a single one
        gets its own.
        """
        if len(self.cpus) == 1 and self.cpus[0] < MAX_LCORE:
            return f"{self.cpus[0]}@{self.cpus[0]}"
        return ",".join(f"{number}@{cpu}" for number, cpu in enumerate(self.cpus))


def _list(numbers: int | tuple[int, ...]) -> str:
    return str(numbers) if isinstance(numbers, int) else ",".join(map(str, numbers))


@dataclass(frozen=True)
class FieldSpec:
    """A header field that varies: ``base + step * i`` for i in 0..count-1, big endian."""

    offset: int
    """Octets from the start of the frame."""
    width: int
    """Octets, 1..8."""
    base: int
    count: int
    """Number of values."""
    step: int = 1
    mode: Literal["inc", "carry", "random"] = "inc"
    """inc: the next value with each frame; carry: each time the field before wraps around (so that
    the numbers of values multiply); random: evenly among the values."""
    seed: int | None = None
    """Of mode random; None: one that depends on stream and field only."""

    def parameters(self) -> dict[str, Any]:
        """What ``stream/field`` takes, besides the stream."""
        return asdict(self)


@dataclass(frozen=True)
class StreamSpec:
    """Frames of one kind, sent by one port, expected at another."""

    id: int
    """0..255."""
    tx_port: int
    rx_port: int
    frame_size: int
    """Octets including FCS, 64..9216."""
    header: bytes
    """The frame's first octets, at most 440; zeros and the trailer follow."""
    l3_offset: int | None = None
    """Of an IPv4 header whose checksum is to be kept right (or an IPv6 header, for UDP)."""
    udp_offset: int | None = None
    """Of a UDP header whose checksum is to be kept right; None: left as in the template."""
    tcp_offset: int | None = None
    """The same of a TCP header; not both."""
    outer_offset: int | None = None
    """Of a further IPv4 header whose checksum is to be kept right, before that at `l3_offset`."""
    queue: int | None = None
    """Transmit queue of all its frames; None: shared out over all of the port's."""
    fields: tuple[FieldSpec, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """What ``stream/add`` takes."""
        return {
            "id": self.id,
            "tx_port": self.tx_port,
            "rx_port": self.rx_port,
            "size": self.frame_size,
            "header": self.header.hex(),
            "l3": self.l3_offset,
            "udp": self.udp_offset,
            "tcp": self.tcp_offset,
            "outer": self.outer_offset,
            "queue": self.queue,
        }


@dataclass(frozen=True)
class NeighbourSpec:
    """Addresses that a port answers ARP requests and neighbour solicitations for."""

    port: int
    address: bytes
    """The first: four octets of IPv4, or sixteen of IPv6."""
    mac: bytes
    """Six octets."""
    count: int = 1
    """Addresses from there on."""
    mac_steps: bool = False
    """True: the MAC address rises with the address, in its low three octets."""

    def parameters(self) -> dict[str, Any]:
        """What ``neighbour/add`` takes."""
        return {
            "port": self.port,
            "address": self.address.hex(),
            "mac": self.mac.hex(),
            "count": self.count,
            "mac_steps": int(self.mac_steps),
        }


@dataclass(frozen=True)
class StreamLoad:
    """What a trial sends of one stream."""

    rate: float | None
    """Frames/s; None: as fast as they go, then `count` is needed."""
    count: int | None = None
    """Exact number of frames; None: ``round(rate * duration)``."""

    def parameters(self) -> dict[str, Any]:
        """What ``stream/load`` takes, besides the stream."""
        return {"rate": "max" if self.rate is None else float(self.rate), "count": self.count}


@dataclass(frozen=True)
class EngineTrial:
    """One trial."""

    loads: Mapping[int, StreamLoad] = field(default_factory=dict)
    """By stream id; a stream that is not named rests."""
    duration_s: float | None = None
    """Seconds; None: every load has a count, or there are steps."""
    steps: tuple[tuple[float, float], ...] = ()
    """Loads one after the other: share of each stream's rate, 0..1, and seconds."""
    epoch: int | None = None
    """1..255, not the last trial's; None: the next one."""
    delay_s: float = 0.0
    """Seconds before the common start."""
    drain_s: float = 1.0
    """Seconds to wait for frames under way, at most."""
    burst: int = 32
    """Frames per transmit call at most, and back to back after a stall, 1..256."""
    group: int = 1
    """Frames of each queue that leave back to back, then none until the rate is met, 1..65536."""
    max_lag_s: float = 0.01
    """Seconds behind schedule (or of retrying) after which frames are given up as unsent."""
    policy: Literal["drop", "retry"] = "drop"
    """What happens to frames the driver does not take: counted as refused, or offered again."""
    bin_s: float = 0.0
    """Width of a timeline's bins; 0: no timelines."""
    tag_at_s: float = 0.0
    """Frames sent before are in no latency."""
    ipdv: bool = False
    """Whether differences of successive frames' delays are kept."""

    def parameters(self) -> dict[str, Any]:
        """What ``trial/start`` takes, besides the epoch and the loads."""
        return {
            "duration": None if self.duration_s is None else float(self.duration_s),
            "delay": float(self.delay_s),
            "drain": float(self.drain_s),
            "burst": self.burst,
            "group": self.group,
            "max_lag": float(self.max_lag_s),
            "policy": self.policy,
            "steps": "/".join(f"{share!r}@{seconds!r}" for share, seconds in self.steps) or None,
            "bin": self.bin_s or None,
            "tag": self.tag_at_s or None,
            "ipdv": 1 if self.ipdv else None,
        }


#: Numbers in a row of a timeline's file.
TIMELINE_COLUMNS = 5
NS = 1e9


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
    def parse(cls, reply: Mapping[str, Any], rows: bytes) -> StreamTimeline:
        """From the reply of the engine and the file it names."""
        numbers = array("Q", rows)
        sent, refused, received, arrived, hole_ns = (
            numbers[column::TIMELINE_COLUMNS] for column in range(TIMELINE_COLUMNS)
        )
        return cls(
            bin_ns=reply["bin_ns"],
            sent=sent,
            refused=refused,
            received=received,
            arrived=arrived,
            hole_ns=hole_ns,
            gap_ns=reply["gap_ns"],
            gap_from_ns=reply["gap_from_ns"],
            tail_ns=reply.get("tail_ns"),
        )

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
        # The width is told in whole ns, and is up to one more.
        begin, end = last * self.bin_ns, (last + 1) * (self.bin_ns + 1)
        told = [at for at in (self.hole_ns[last], self.tail_ns) if at and begin <= at <= end]
        return max(told, default=(last + 1) * self.bin_ns)


@dataclass(frozen=True)
class DelayDifferences:
    """Differences of the delays of successive frames of one stream, ns."""

    count: int
    min_ns: int
    max_ns: int
    pairs: Sequence[tuple[int, int]]
    """Difference and how often, by rising difference."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any], octets: bytes) -> DelayDifferences:
        """From the reply of the engine and the file it names."""
        numbers = array("q", octets)
        rising, falling = reply["rising"], reply["falling"]
        return cls(
            count=rising + falling,
            min_ns=-reply["falling_max_ns"] if falling else reply["rising_min_ns"],
            max_ns=reply["rising_max_ns"] if rising else -reply["falling_min_ns"],
            pairs=tuple(zip(numbers[::2], numbers[1::2], strict=True)),
        )


def timeline_of(
    direction: int, streams: Sequence[StreamTimeline], bin_s: float, *, refusal_is_loss: bool
) -> Timeline:
    """The timelines of a direction's streams as one."""
    sent = _column_sums(s.offered(refusal_is_loss=refusal_is_loss) for s in streams)
    received, arrived = (
        _column_sums(s.received for s in streams),
        _column_sums(s.arrived for s in streams),
    )
    used = max((n for n, (a, b) in enumerate(zip(sent, arrived, strict=True)) if a or b), default=0)
    lost = [
        at
        for at in (s.last_lost_ns(refusal_is_loss=refusal_is_loss) for s in streams)
        if at is not None
    ]
    longest = max(streams, key=lambda s: s.gap_ns)
    return Timeline(
        direction=direction,
        bin_s=bin_s,
        sent=tuple(sent[: used + 1]),
        received=tuple(received[: used + 1]),
        arrived=tuple(arrived[: used + 1]),
        last_lost_s=max(lost) / NS if lost else None,
        gap_s=longest.gap_ns / NS,
        gap_from_s=longest.gap_from_ns / NS,
    )


def _column_sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def ipdv_of(streams: Iterable[DelayDifferences]) -> dict[str, float]:
    """Delay variation of a direction, RFC 8219 section 7.3.2."""
    told = [s for s in streams if s.count]
    if not told:
        return {}
    pairs = sorted(pair for s in told for pair in s.pairs)
    half = (sum(count for _, count in pairs) + 1) // 2
    upto = accumulate(count for _, count in pairs)
    median = next((v for (v, _), n in zip(pairs, upto, strict=True) if n >= half), told[0].max_ns)
    return {
        "min": float(min(s.min_ns for s in told)),
        "median": float(median),
        "max": float(max(s.max_ns for s in told)),
    }


_POLL_S = 0.002


class Engine:
    """A running engine; made by `Engine.open`.

    Every method raises `GeneratorError` when the engine refuses (the message says what it accepts),
    does not answer, or has died (the message ends with its log).
    """

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._call = connection.call
        self._call_all = connection.call_all
        self._epoch = 0
        self._ids: tuple[int, ...] = ()  # of the streams that are set
        self._sent: tuple[int, ...] = ()  # of the streams that the last trial knew
        self._loaded: frozenset[int] = frozenset()

    @classmethod
    def open(
        cls,
        config: EngineConfig,
        *,
        run_dir: Path,
        executable: Path | None = None,
        spawn: Spawn = spawn_child,
        timeout_s: float = 30.0,
    ) -> Engine:
        """Start the engine and wait until it answers."""
        argv = config.argv(str(executable or engine_executable()))
        return cls(EngineConnection.open(argv, run_dir, spawn, timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._connection.pid

    def info(self) -> EngineInfo:
        """Describe the engine, its ports and workers, as they are now."""
        reply = self._call("info")
        return EngineInfo(
            version=reply["version"],
            protocol=reply["protocol"],
            dpdk=reply["dpdk"],
            pid=reply["pid"],
            tsc_hz=reply["tsc_hz"],
            largest_frame=reply["largest_frame"],
            window=reply["window"],
            ports=tuple(map(self._port_info, range(reply["ports"]))),
            workers=tuple(
                WorkerInfo(number=number, **self._call("worker", worker=number))
                for number in range(reply["workers"])
            ),
        )

    def _port_info(self, number: int) -> PortInfo:
        return PortInfo.parse(number, self._call("port", port=number))

    def wait_links(self, timeout_s: float = 10.0) -> None:
        """Wait until the links of all ports are up."""
        deadline = time.monotonic() + patient(timeout_s)
        while True:
            down = [p for p in map(self._port_info, range(self._connection.ports)) if not p.link_up]
            if not down:
                return
            if time.monotonic() > deadline:
                names = ", ".join(f"{p.number} ({p.name})" for p in down)
                raise GeneratorError(
                    f"no link on port {names} after {timeout_s} s",
                    cure="see whether the other end is plugged in and up",
                )
            time.sleep(_POLL_S)

    def unplug(self, port: int) -> None:
        """Let go of a port whose far end is about to go; a trial that is running goes on.

        What is to be sent there is refused until `plug`.
        """
        self._call("port/unplug", port=port)

    def plug(self, port: int, timeout_s: float = 10.0) -> None:
        """Take a port up again once its far end is there."""
        deadline = time.monotonic() + patient(timeout_s)
        while True:
            try:
                self._call("port/plug", port=port)
                break
            except GeneratorError as error:
                if not error.accepted.startswith("a far end") or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)
        while not self._port_info(port).link_up:
            if time.monotonic() > deadline + patient(timeout_s):
                raise GeneratorError(f"no link on port {port} after it was plugged in")
            time.sleep(_POLL_S)

    def set_streams(self, streams: Iterable[StreamSpec]) -> None:
        """Replace all streams.  When one is refused, none is left."""
        streams = tuple(streams)
        self._call("stream/clear")
        self._ids, self._loaded = (), frozenset()
        try:
            self._call_all("stream/add", [stream.parameters() for stream in streams])
            self._call_all(
                "stream/field",
                [{"stream": s.id, **field.parameters()} for s in streams for field in s.fields],
            )
        except GeneratorError:
            if self._connection.alive:
                self._call("stream/clear")
            raise
        self._ids = tuple(stream.id for stream in streams)

    def set_neighbours(
        self, entries: Iterable[NeighbourSpec], any_macs: Mapping[int, bytes] | None = None
    ) -> None:
        """Replace the addresses that the ports answer ARP and neighbour discovery for."""
        self._call("neighbour/clear")
        self._call_all("neighbour/add", [entry.parameters() for entry in entries])
        for port, mac in (any_macs or {}).items():
            self._call("neighbour/any", port=port, mac=mac.hex())

    def announce(self) -> int:
        """Send gratuitous ARP requests and unsolicited advertisements for those addresses."""
        return int(self._call("neighbour/announce")["announced"])

    def start(self, trial: EngineTrial) -> int:
        """Start a trial; returns as soon as its common start has been fixed."""
        for stream_id in self._loaded.intersection(self._ids) - trial.loads.keys():
            self._call("stream/load", stream=stream_id, rate=0)
        self._loaded = frozenset(trial.loads)
        self._call_all(
            "stream/load",
            [{"stream": one, **load.parameters()} for one, load in trial.loads.items()],
        )
        epoch = self._epoch % 255 + 1 if trial.epoch is None else trial.epoch
        self._call("trial/start", epoch=epoch, **trial.parameters())
        self._epoch = epoch
        self._sent = self._ids
        return epoch

    def status(self) -> EngineStatus:
        """Look at the engine; works at any time, also while a trial runs."""
        return EngineStatus.parse(self._call("trial/status"))

    def stop(self) -> None:
        """Abort the trial or learning that is going on; what was not sent counts as unsent."""
        self._call("trial/stop")

    def wait(self, timeout_s: float) -> EngineResult:
        """Wait for the end of the trial and return its result."""
        self._wait_state({"done"}, timeout_s)
        return self.result()

    def _wait_state(self, states: set[str], timeout_s: float) -> Mapping[str, Any]:
        deadline = time.monotonic() + patient(timeout_s)
        while True:
            reply: Mapping[str, Any] = self._call("trial/status")
            if reply["state"] in states:
                return reply
            if time.monotonic() > deadline:
                if reply["state"] != "idle":
                    self.stop()
                raise TrialTimeoutError(f"the engine is still {reply['state']} after {timeout_s} s")
            time.sleep(_POLL_S)

    def result(self) -> EngineResult:
        """Return the result of the last trial; it stays until the next one starts."""
        status = self._call("trial/status")
        ports = tuple(
            PortResult(port=number, **self._call("trial/port", port=number))
            for number in range(self._connection.ports)
        )
        replies = self._call_all("trial/result", [{"stream": one} for one in self._sent])
        return EngineResult(
            epoch=status["epoch"],
            aborted=bool(status["aborted"]),
            elapsed_ns=status.get("elapsed_ns", 0),
            tx_end_ns=status.get("tx_end_ns"),
            streams=tuple(map(StreamResult.parse, self._sent, replies)),
            ports=ports,
        )

    def histogram(self, stream_id: int) -> tuple[tuple[int, int], ...]:
        """Return the latency histogram of a stream in the last trial."""
        return self.histograms((stream_id,))[stream_id]

    def histograms(self, stream_ids: Sequence[int]) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the latency histograms of several streams in the last trial."""
        replies = self._call_all("trial/histogram", [{"stream": one} for one in stream_ids])
        found = {}
        for stream_id, reply in zip(stream_ids, replies, strict=True):
            numbers = array("Q", self._read(reply["file"]))
            found[stream_id] = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        return found

    def timelines(self, stream_ids: Sequence[int]) -> dict[int, StreamTimeline]:
        """Return how several streams of the last trial went on, if it was asked for bins."""
        replies = self._call_all("trial/timeline", [{"stream": one} for one in stream_ids])
        return {
            one: StreamTimeline.parse(reply, self._read(reply["file"]))
            for one, reply in zip(stream_ids, replies, strict=True)
        }

    def differences(self, stream_ids: Sequence[int]) -> dict[int, DelayDifferences]:
        """Return the differences of successive frames' delays, if the last trial kept them."""
        replies = self._call_all("trial/ipdv", [{"stream": one} for one in stream_ids])
        return {
            one: DelayDifferences.parse(reply, self._read(reply["file"]))
            for one, reply in zip(stream_ids, replies, strict=True)
        }

    def capture(self, frames: int, what: CaptureWhat = "first") -> None:
        """Keep frames of the trials to come."""
        self._call("capture", frames=frames, what=what)

    def captured(self) -> tuple[CapturedFrame, ...]:
        """Return the frames that were kept of the last trial."""
        reply = self._call("trial/capture")
        return read_capture(self._read(reply["file"]))

    def _read(self, name: str) -> bytes:
        """What the engine has written beside its socket."""
        file = self._connection.directory / name
        try:
            return file.read_bytes()
        except OSError as error:
            raise GeneratorError(
                f"what the engine wrote cannot be read: {error.strerror}", where=str(file)
            ) from error

    def learn(
        self,
        count: int,
        *,
        stream_id: int | None = None,
        rate: float = 10_000.0,
        timeout_s: float = 30.0,
    ) -> LearnResult:
        """Send frames that fill tables on the way and count for no trial.

        The last trial's result stays.
        """
        self._call("learn", stream=stream_id, count=count, rate=float(rate))
        reply = self._wait_state({"idle", "done"}, timeout_s)
        return LearnResult(
            sent=reply["learned"], refused=reply["learn_refused"], unsent=reply["learn_unsent"]
        )

    def xstats(self, port: int) -> dict[str, int]:
        """Return the driver's own counters of a port, since its start."""
        stats: dict[str, int] = {}
        offset = 0
        while offset >= 0:
            reply = self._call("xstats", port=port, offset=offset)
            offset = reply.pop("next")
            stats.update(reply)
        return stats

    def close(self, timeout_s: float = 10.0) -> None:
        """End the engine; may be called again.  A dead or deaf engine is killed, not complained of."""
        self._connection.close(timeout_s)
