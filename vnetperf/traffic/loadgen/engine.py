"""The engine: its command line, its streams and trials, and the object that runs them."""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from vnetperf.host.dpdk import eal_memory
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.errors import GeneratorError, HostError, TrialTimeoutError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.trial import CaptureWhat, Gaps, QueueGaps
from vnetperf.plugin.backend import IS_STOPPED
from vnetperf.plugin.generator import host_failures
from vnetperf.traffic.loadgen.build import ENGINE
from vnetperf.traffic.loadgen.telemetry import (
    POLL_S,
    CapturedFrame,
    DelayDifferences,
    Echoes,
    EngineInfo,
    EngineQueue,
    EngineResult,
    EngineSocket,
    EngineStatus,
    NumberPairs,
    PortInfo,
    PortResult,
    StreamResult,
    StreamTimeline,
    WorkerInfo,
    WorkerTurns,
    connect_engine,
    parse_gaps,
    parse_reply,
    read_capture,
    read_pairs,
)

log = logging.getLogger(__name__)

PROTOCOL = 1
MAX_STREAMS = 256
MAX_WORKERS = 64
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
    turn_us: int = 0
    """Turns for CPUs that are shared: what is due is sent when one begins, then the worker sleeps;
    0: it polls without sleeping."""
    priority: int = 0
    """Of SCHED_FIFO while a trial is paced, with turns; 0: none."""
    share: int = 100
    """Percent of its CPU that a worker with such a priority takes, at most."""
    nic_time: bool = False
    """Arrivals by a NIC's own clock, where its driver gives it to each frame and lets it be read;
    else by the processor's (TSC), when the frame is found."""
    queue_map: tuple[QueueMap, ...] = ()

    def argv(self, executable: str) -> list[str]:
        """The whole command line."""
        argv = [executable, f"--lcores={self._lcores()}"]
        if self.hugepages:
            argv += eal_memory(self.node, self.memory_mb, self.devices)
        else:
            argv += ["--no-huge", "-m", str(self.memory_mb)]
        argv += [] if self.pci else ["--no-pci"]
        probed = self._probed_in_order()
        argv += self.devices[:probed]
        if self.pci and not any(_pci_address(device) for device in self.devices[:probed]):
            argv.append(f"-a{_NO_DEVICE}")  # with none named EAL takes all that a driver fits
        argv.append("--")
        argv += [
            f"--attach={device.removeprefix('--vdev=').removeprefix('-a').strip()}"
            for device in self.devices[probed:]
        ]
        argv += [f"--rx-queues={_list(self.rx_queues)}", f"--tx-queues={_list(self.tx_queues)}"]
        argv += [f"--rx-desc={self.rx_descriptors}", f"--tx-desc={self.tx_descriptors}"]
        argv += [f"--mbufs={self.mbufs}", f"--rx-burst={self.rx_burst}"]
        argv += [f"--turn-us={self.turn_us}"] if self.turn_us else []
        argv += [f"--priority={self.priority}", f"--share={self.share}"] if self.priority else []
        argv += [f"--room={self.room}"] if self.room else []
        argv += ["--nic-time=1"] if self.nic_time else []
        argv += [] if self.mtu is None else [f"--mtu={self.mtu}"]
        argv += [f"--map={','.join(m.render() for m in self.queue_map)}"] if self.queue_map else []
        return argv

    def _probed_in_order(self) -> int:
        """How many of the devices, from the first on, have their numbers by EAL alone.

        It numbers PCI devices by address, and all others behind them.
        """
        for count in range(len(self.devices), 0, -1):
            some = self.devices[:count]
            numbered = sorted(
                some, key=lambda device: (not _pci_address(device), _pci_address(device))
            )
            if [*some] == numbered:
                return count
        return 0

    def _lcores(self) -> str:
        """One lcore for each worker.

        DPDK takes a thread's node from the processor that has its lcore's number, so a single one
        gets its own.
        """
        if len(self.cpus) == 1 and self.cpus[0] < MAX_LCORE:
            return f"{self.cpus[0]}@{self.cpus[0]}"
        return ",".join(f"{number}@{cpu}" for number, cpu in enumerate(self.cpus))


#: A PCI address that no machine has.
_NO_DEVICE = "ffff:ff:1f.7"


def _pci_address(device: str) -> str:
    """The address in an argument of EAL; "" for a device that is not PCI."""
    return device[2:].strip() if device.startswith("-a") else ""


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
    mode: Literal["inc", "carry", "random", "table"] = "inc"
    """inc: the next value with each frame; carry: each time the field before wraps around (so that
    the numbers of values multiply); random: evenly among the values; table: the next of those
    that are listed."""
    seed: int | None = None
    """Of mode random; None: one that depends on stream and field only."""
    table: bytes = b""
    """Of mode table: `count` values of `width` octets, big endian."""

    def parameters(self, file: str) -> dict[str, Any]:
        """What ``stream/field`` and ``stream/expect`` take, besides the stream."""
        field_values = asdict(self)
        del field_values["table"]
        return field_values | ({"file": file} if file else {})


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
    rx_size: int | None = None
    """Octets including FCS that a frame must have when it comes back, between headers and trailer
    the zeros that it left with; None: neither is looked at."""
    away: bool = False
    """Whether another engine sends its frames, of a trial of the same epoch: they are counted where
    they are received, and such a trial waits its whole drain."""
    fields: tuple[FieldSpec, ...] = ()
    expected: tuple[FieldSpec, ...] = ()
    """What frames must have when they come back, by the number that they were sent with; others
    count as altered."""

    def parameters(self) -> dict[str, Any]:
        """What ``stream/add`` takes."""
        return {
            "id": self.id,
            "tx_port": self.tx_port,
            "rx_port": self.rx_port,
            "size": self.frame_size,
            "rx_size": self.rx_size,
            "header": self.header.hex(),
            "l3": self.l3_offset,
            "udp": self.udp_offset,
            "tcp": self.tcp_offset,
            "outer": self.outer_offset,
            "queue": self.queue,
            "away": 1 if self.away else None,
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


EchoRole = Literal["none", "ask", "answer"]


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
    catch_up: int = 0
    """Overdue frames of each queue that are sent after a stall, at most: the others are given up
    as unsent; 0: those that are less than `max_lag_s` late."""
    max_lag_s: float = 0.01
    """Seconds behind schedule (or of retrying) after which frames are given up as unsent."""
    turn_us: int | None = None
    """Turns of an engine that takes turns, for this trial; None: its own."""
    policy: Literal["drop", "retry"] = "drop"
    """What happens to frames the driver does not take: counted as refused, or offered again."""
    bin_s: float = 0.0
    """Width of a timeline's bins; 0: no timelines."""
    tag_at_s: float = 0.0
    """Frames sent before are in no latency."""
    event_at_s: float = 0.0
    """Gaps between arrivals that end before do not count."""
    ipdv: bool = False
    """Whether differences of successive frames' delays are kept."""
    clock: Literal["tsc", "wall"] = "tsc"
    """What frames are stamped by: the processors' counter, or the machine's time of day."""
    echo: EchoRole = "none"
    """Its part in round trips with another engine, of stamps by the time of day: some of its frames
    ask, or the next one that leaves answers each that asked."""
    echo_every_s: float = 0.001
    """Seconds between frames that ask."""

    def parameters(self) -> dict[str, Any]:
        """What ``trial/start`` takes, besides the epoch and the loads."""
        return {
            "duration": None if self.duration_s is None else float(self.duration_s),
            "delay": float(self.delay_s),
            "drain": float(self.drain_s),
            "burst": self.burst,
            "group": self.group,
            "catch_up": self.catch_up or None,
            "max_lag": float(self.max_lag_s),
            "policy": self.policy,
            "steps": "/".join(f"{share!r}@{seconds!r}" for share, seconds in self.steps) or None,
            "bin": self.bin_s or None,
            "tag": self.tag_at_s or None,
            "event": self.event_at_s or None,
            "turn": self.turn_us,
            "ipdv": 1 if self.ipdv else None,
            "clock": None if self.clock == "tsc" else self.clock,
            **self._echo_parameters(),
        }

    def _echo_parameters(self) -> dict[str, Any]:
        if self.echo == "none":
            return {}
        return {"echo": self.echo, "every": float(self.echo_every_s)}


#: States in which the engine sends nothing of a trial, and takes another.
AT_REST = ("idle", "done")
#: Longest that workers take to follow an order, seconds, as the engine has it for a trial's start.
REST_S = 20.0
#: Starts a command with additions to the environment.
Spawn = Callable[[list[str], dict[str, str]], ManagedProcess]
Record = TypeVar("Record")


class Engine:
    """A running engine; made by `Engine.open`.

    Every method raises `GeneratorError` when the engine refuses (the message has what it accepts),
    does not reply, or has exited (the message ends with its log).
    """

    def __init__(self, process: ManagedProcess, socket: EngineSocket) -> None:
        self.process = process
        self._socket = socket
        self._epoch = 0
        self._senders: dict[int, int] = {}  # stream that is set -> port that sends it
        self._trial_senders: dict[int, int] = {}  # the same of what the last trial knew
        self._loaded: frozenset[int] = frozenset()

    @classmethod
    def open(
        cls,
        config: EngineConfig,
        *,
        run_dir: Path,
        spawn: Spawn,
        executable: Path | None = None,
        timeout_s: float = 30.0,
    ) -> Engine:
        """Start the engine and wait until it replies; one that does not is stopped."""
        argv = config.argv(str(executable or ENGINE.executable()))
        process = spawn(argv, {"RUNTIME_DIRECTORY": str(run_dir)})
        with contextlib.ExitStack() as undo_on_error:
            undo_on_error.callback(process.stop, 0.0)
            socket = connect_engine(process, run_dir, timeout_s)
            undo_on_error.callback(socket.close)
            engine = cls(process, socket)
            socket.check = engine.expect_running
            protocol = engine._ask("info")["protocol"]
            if protocol != PROTOCOL:
                raise GeneratorError(
                    f"the engine uses protocol {protocol}",
                    where="/loadgen/info",
                    accepted=f"protocol {PROTOCOL}",
                    cure="use the engine that this version builds",
                )
            undo_on_error.pop_all()
        return engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def _ask(self, command: str, **parameters: object) -> Any:
        return self._ask_all(command, (parameters,))[0]

    def _ask_all(self, command: str, rows: Sequence[Mapping[str, object]]) -> list[Any]:
        """Run a command with each row of parameters, without waiting for each reply."""
        if not rows:
            return []
        if self.process.stopped:  # no need to wait for an answer
            self.expect_running()
        try:
            return self._socket.ask_rows(f"/loadgen/{command}", rows)
        except GeneratorError as error:
            if not error.accepted:  # not a refusal: the connection or the process
                self._expect_alive(error)
            raise

    def _expect_alive(self, cause: Exception) -> None:
        # The socket closes a moment before the process can be waited for.
        wait_at_most(lambda: not self.process.alive(), 1.0, "the engine's exit", poll_s=POLL_S)
        try:
            self.process.expect_alive()
        except HostError as error:
            raise GeneratorError(error.what, where=error.where, cure=error.cure) from cause

    def expect_running(self) -> None:
        """Raise `GeneratorError` when the engine has ended, or is stopped by a signal."""
        with host_failures():
            self.process.expect_alive()
        if self.process.stopped:
            raise GeneratorError(f"the engine (pid {self.pid}) {IS_STOPPED}", where="loadgen")

    def info(self) -> EngineInfo:
        """Describe the engine, its ports and workers, as they are now."""
        reply = self._ask("info")
        workers = [{"worker": number} for number in range(reply["workers"])]
        return parse_reply(
            EngineInfo,
            reply,
            ports=self.ports(reply["ports"]),
            workers=tuple(
                parse_reply(WorkerInfo, worker, number=number)
                for number, worker in enumerate(self._ask_all("worker", workers))
            ),
        )

    def ports(self, count: int) -> tuple[PortInfo, ...]:
        """Describe the first ports, as they are now."""
        replies = self._ask_all("port", [{"port": number} for number in range(count)])
        return tuple(parse_reply(PortInfo, r, number=n) for n, r in enumerate(replies))

    def wait_links(self, timeout_s: float = 10.0) -> None:
        """Wait until the links of all ports are up."""
        for port in self.info().ports:
            self._wait_link(port.number, timeout_s)

    def _wait_link(self, port: int, timeout_s: float) -> None:
        def is_up() -> bool:
            return parse_reply(PortInfo, self._ask("port", port=port), number=port).link_up

        with host_failures():
            self.process.wait_for(is_up, timeout_s, f"the link of port {port}", POLL_S)

    def unplug(self, port: int) -> None:
        """Let go of a port whose far end is about to go; a trial that is running goes on.

        What is to be sent there is refused until `plug`.
        """
        log.info("unplug port %d", port)
        self._ask("port/unplug", port=port)

    def plug(self, port: int, timeout_s: float = 10.0) -> None:
        """Take a port up again once its far end is there."""
        log.info("plug in port %d", port)
        refused: list[GeneratorError] = []

        def plugged() -> bool:
            try:
                self._ask("port/plug", port=port)
            except GeneratorError as error:
                if not error.accepted.startswith("a far end"):
                    raise
                refused.append(error)
                return False
            return True

        wait_for(
            plugged, timeout_s, f"the far end of port {port}", poll_s=POLL_S, error=refused.pop
        )
        self._wait_link(port, timeout_s)

    def set_streams(self, streams: Iterable[StreamSpec]) -> None:
        """Replace all streams.  When one is refused, none is left."""
        streams = tuple(streams)
        self._ask("stream/clear")
        self._senders, self._loaded = {}, frozenset()
        try:
            self._ask_all("stream/add", [stream.parameters() for stream in streams])
            self._add_fields("stream/field", [(s.id, s.fields) for s in streams])
            self._add_fields("stream/expect", [(s.id, s.expected) for s in streams])
        except GeneratorError:
            if self.process.alive():
                self._ask("stream/clear")
            raise
        self._senders = {stream.id: stream.tx_port for stream in streams}

    def _add_fields(
        self, command: str, fields: Sequence[tuple[int, tuple[FieldSpec, ...]]]
    ) -> None:
        """Add fields to streams; what is listed is handed over in files beside the socket."""
        tables = dict.fromkeys(
            field.table for _, stream_fields in fields for field in stream_fields if field.table
        )
        names = {table: f"table{number}" for number, table in enumerate(tables)}
        directory = self._socket.path.parent
        try:
            for table, name in names.items():
                (directory / name).write_bytes(table)
            rows = [
                {"stream": stream, **field.parameters(names.get(field.table, ""))}
                for stream, stream_fields in fields
                for field in stream_fields
            ]
            self._ask_all(command, rows)
        except OSError as error:
            raise GeneratorError(
                f"values of fields cannot be handed to the engine: {error.strerror}",
                where=str(error.filename),
            ) from error
        finally:
            for name in names.values():
                (directory / name).unlink(missing_ok=True)

    def set_neighbours(
        self, entries: Iterable[NeighbourSpec], any_macs: Mapping[int, bytes] | None = None
    ) -> None:
        """Replace the addresses that the ports answer ARP and neighbour discovery for."""
        self._ask("neighbour/clear")
        self._ask_all("neighbour/add", [entry.parameters() for entry in entries])
        for port, mac in (any_macs or {}).items():
            self._ask("neighbour/any", port=port, mac=mac.hex())

    def announce(self) -> int:
        """Send gratuitous ARP requests and unsolicited advertisements for those addresses."""
        return int(self._ask("neighbour/announce")["announced"])

    def start(self, trial: EngineTrial) -> int:
        """Start a trial; returns as soon as its common start has been fixed."""
        for stream_id in self._loaded.intersection(self._senders) - trial.loads.keys():
            self._ask("stream/load", stream=stream_id, rate=0)
        self._loaded = frozenset(trial.loads)
        loads = [
            {"stream": stream_id, **load.parameters()} for stream_id, load in trial.loads.items()
        ]
        self._ask_all("stream/load", loads)
        epoch = self._epoch % 255 + 1 if trial.epoch is None else trial.epoch
        self._ask_all("trial/start", ({"epoch": epoch, **trial.parameters()},))
        self._epoch, self._trial_senders = epoch, self._senders
        return epoch

    def status(self) -> EngineStatus:
        """Look at the engine; works at any time, also while a trial runs."""
        return EngineStatus.parse(self._ask("trial/status"))

    def stop(self) -> None:
        """Abort the trial or learning that is going on; what was not sent counts as unsent.

        No more frame is sent once it returns.
        """
        self._ask("trial/stop")
        description = "the engine's workers to stop"
        with host_failures():
            wait_for(lambda: self.status().state in AT_REST, REST_S, description, poll_s=POLL_S)

    def wait(self, timeout_s: float) -> EngineResult:
        """Wait for the end of the trial and return its result."""
        self._wait_state(("done",), timeout_s)
        return self.result()

    def _wait_state(self, states: Sequence[str], timeout_s: float) -> Mapping[str, Any]:
        reply: dict[str, Any] = {}

        def has_state() -> bool:
            reply.update(self._ask("trial/status"))
            return reply["state"] in states

        if not wait_at_most(has_state, timeout_s, "the engine to be done", poll_s=POLL_S):
            with contextlib.suppress(GeneratorError):  # it has just ended, or does not follow
                self.stop()
            raise TrialTimeoutError(f"the engine is still {reply['state']} after {timeout_s} s")
        return reply

    def result(self) -> EngineResult:
        """Return the result of the last trial; it stays until the next one starts."""
        status = self._ask("trial/status")
        ports = [{"port": number} for number in range(self._ask("info")["ports"])]
        senders = self._trial_senders
        streams = [{"stream": stream_id} for stream_id in senders]
        replies = self._ask_all("trial/result", streams)
        return EngineResult(
            epoch=status["epoch"],
            aborted=bool(status["aborted"]),
            elapsed_ns=status.get("elapsed_ns", 0),
            tx_end_ns=status.get("tx_end_ns"),
            wall_error_ns=status.get("wall_error_ns"),
            streams=tuple(map(StreamResult.parse, senders, senders.values(), replies)),
            ports=tuple(
                parse_reply(PortResult, reply, port=number)
                for number, reply in enumerate(self._ask_all("trial/port", ports))
            ),
        )

    def turns(self, workers: int) -> tuple[WorkerTurns, ...]:
        """Return how each worker took turns in the last trial."""
        rows = [{"worker": number} for number in range(workers)]
        return tuple(parse_reply(WorkerTurns, r) for r in self._ask_all("trial/turns", rows))

    def work(self, workers: int) -> tuple[DatapathWork, ...]:
        """Return what each worker did in the rounds of the last trial."""
        rows = [{"worker": number} for number in range(workers)]
        return tuple(
            DatapathWork(
                thread=f"loadgen-{number}",
                packets=reply["frames"],
                busy_cycles=reply["busy_cycles"],
                idle_cycles=reply["idle_cycles"],
                polls=reply["rounds"],
                empty_polls=reply["rounds"] - reply["busy_rounds"],
                still_cycles=reply["still_cycles"],
                still_polls=reply["still_rounds"],
            )
            for number, reply in enumerate(self._ask_all("trial/work", rows))
        )

    def gaps(self) -> tuple[Gaps, Gaps]:
        """Return the gaps of polling and of sending of all workers in the last trial."""
        reply = self._ask("trial/gaps")
        return parse_gaps(reply, "poll"), parse_gaps(reply, "send")

    def queue_gaps(self, queues: Sequence[EngineQueue]) -> tuple[QueueGaps, ...]:
        """Return the gaps at each of some queues in the last trial, in their order."""
        replies = self._ask_all("trial/queue", [queue.parameters() for queue in queues])
        return tuple(map(EngineQueue.parse_gaps, queues, replies))

    def histograms(self, stream_ids: Sequence[int]) -> dict[int, NumberPairs]:
        """Return the latency histograms of streams in the last trial."""
        return self._recorded(
            "trial/histogram", stream_ids, lambda _, octets: read_pairs("Q", octets)
        )

    def timelines(self, stream_ids: Sequence[int]) -> dict[int, StreamTimeline]:
        """Return how streams of the last trial went on, if it had bins."""
        return self._recorded("trial/timeline", stream_ids, StreamTimeline.parse)

    def differences(self, stream_ids: Sequence[int]) -> dict[int, DelayDifferences]:
        """Return the differences of successive frames' delays, if the last trial kept them."""
        return self._recorded("trial/ipdv", stream_ids, DelayDifferences.parse)

    def echoes(self) -> Echoes:
        """Return what this side knows of the last trial's round trips."""
        reply = self._ask("trial/echoes")
        return self._read(reply["file"], partial(Echoes.parse, reply))

    def _recorded(
        self,
        command: str,
        stream_ids: Sequence[int],
        parse: Callable[[Mapping[str, Any], bytes], Record],
    ) -> dict[int, Record]:
        replies = self._ask_all(command, [{"stream": stream_id} for stream_id in stream_ids])
        return {
            stream_id: self._read(reply["file"], partial(parse, reply))
            for stream_id, reply in zip(stream_ids, replies, strict=True)
        }

    def capture(self, frames: int, selection: CaptureWhat = "first") -> None:
        """Keep frames of the trials to come."""
        self._ask("capture", frames=frames, what=selection)

    def captured(self) -> tuple[CapturedFrame, ...]:
        """Return the frames that were kept of the last trial."""
        return self._read(self._ask("trial/capture")["file"], read_capture)

    def _read(self, name: str, parse: Callable[[bytes], Record]) -> Record:
        """What the engine has written beside its socket."""
        file = self._socket.path.parent / name
        try:
            return parse(file.read_bytes())
        except OSError as error:
            raise GeneratorError(
                f"what the engine wrote cannot be read: {error.strerror}", where=str(file)
            ) from error
        except (ValueError, LookupError, TypeError, struct.error) as error:
            raise GeneratorError(
                f"what the engine wrote is not whole: {error}", where=str(file)
            ) from error

    def learn(
        self,
        count: int,
        *,
        stream_id: int | None = None,
        rate: float = 10_000.0,
        drain_s: float = 0.0,
        timeout_s: float = 30.0,
    ) -> int:
        """Send frames that fill tables on the way and count for no trial; returns how many.

        The last trial's result stays.
        """
        self._ask("learn", stream=stream_id, count=count, rate=float(rate), drain=float(drain_s))
        return int(self._wait_state(AT_REST, timeout_s)["learned"])

    def learn_bindings(self, stream_id: int, *, address: int, port: int, count: int) -> None:
        """Note what address and port each of a stream's flows has when it comes out.

        They are noted of the learning frames to come; `address` and `port` are their places in
        the frame.
        """
        self._ask("stream/bind", stream=stream_id, address=address, port=port, count=count)

    def bindings(self, stream_id: int) -> bytes:
        """Learnt bindings of a stream: 64 bits each in the machine's byte order, 0 for none yet.

        The address is above the 16 bits of the port.
        """
        return self._read(self._ask("stream/bindings", stream=stream_id)["file"], bytes)

    def xstats(self, port: int) -> dict[str, int]:
        """The driver's own counters of a port, since its start."""
        stats: dict[str, int] = {}
        offset = 0
        while offset >= 0:
            reply = self._ask("xstats", port=port, offset=offset)
            offset = reply.pop("next")
            stats.update(reply)
        return stats

    def close(self, timeout_s: float = 10.0) -> None:
        """End the engine; may be called again.  One that does not end by itself is killed."""
        self._socket.close()
        self.process.stop(timeout_s)
