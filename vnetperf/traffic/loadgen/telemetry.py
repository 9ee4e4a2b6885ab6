"""The engine's process, DPDK's telemetry socket that it answers on, and its answers as values.

Times in answers are nanoseconds after the trial's start.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from vnetperf.host.dpdk import MAX_TELEMETRY_REQUEST, DpdkTelemetry
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import patient
from vnetperf.model.errors import GeneratorError, HostError

REQUEST_MAX = MAX_TELEMETRY_REQUEST
_PATH_MAX = 107  # sun_path, without its terminator


class TelemetryClient:
    """One connection to a DPDK process, usable from one thread."""

    def __init__(self, path: Path, *, timeout_s: float = 30.0) -> None:
        self.path = path
        if len(str(path).encode()) > _PATH_MAX:
            raise GeneratorError(
                f"path of {len(str(path))} characters is too long for a socket",
                where=str(path),
                accepted=f"at most {_PATH_MAX} characters",
                cure="use a shorter run directory",
            )
        try:
            self._telemetry = DpdkTelemetry(path, timeout_s)
        except (OSError, ValueError) as error:
            raise _nobody(path, error) from error
        try:
            greeting = self._telemetry.greeting
            self.pid = int(greeting["pid"])
            """Process that answers."""
            self.version = str(greeting["version"])
            """Its DPDK version, as it says: ``DPDK 22.11.0``."""
        except (ValueError, KeyError, TypeError) as error:
            self.close()
            raise _nobody(path, error) from error

    def call(self, command: str, **parameters: object) -> Any:
        """Run one command and return the value of its answer."""
        return self.raw(_request(command, parameters))

    def call_all(self, command: str, parameters: Sequence[Mapping[str, object]]) -> list[Any]:
        """Run one command several times; all of them, also when one is refused."""
        if not parameters:
            return []
        try:
            values = self._telemetry.ask_all([_request(command, one) for one in parameters])
        except HostError as error:
            raise GeneratorError(error.what, where=command, accepted=error.accepted) from error
        return [_accepted(command, value) for value in values]

    def raw(self, request: str) -> Any:
        """Send a whole request as it is; see `call`."""
        command = request.partition(",")[0]
        try:
            value = self._telemetry.ask(request)
        except HostError as error:
            raise GeneratorError(error.what, where=command, accepted=error.accepted) from error
        return _accepted(command, value)

    def close(self) -> None:
        """Close the connection; may be called again."""
        self._telemetry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _request(command: str, parameters: Mapping[str, object]) -> str:
    given = (f"{key}={_text(v)}" for key, v in parameters.items() if v is not None)
    return ",".join([command, *given])


def _accepted(command: str, value: Any) -> Any:
    """An answer that is no refusal."""
    if value is None:
        raise GeneratorError("the command is unknown or failed", where=command)
    if isinstance(value, dict) and "error" in value:
        raise GeneratorError(
            str(value["error"]), where=command, accepted=str(value.get("accepted", ""))
        )
    return value


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _nobody(path: Path, error: Exception) -> GeneratorError:
    return GeneratorError(f"no DPDK telemetry: {error or type(error).__name__}", where=str(path))


_TAIL_LINES = 15
_POLL_S = 0.002
#: Longer than the engine gives its workers (worker.c), so that its own message arrives.
_CALL_TIMEOUT_S = 30.0


class EngineProcess(Protocol):
    """What the engine needs of a process; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Process id."""

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raises `subprocess.TimeoutExpired` after timeout seconds."""

    def kill(self) -> None:
        """End it at once."""


Spawn = Callable[[Sequence[str], Mapping[str, str], Path], EngineProcess]
"""Starts a command (argv, environment, log file for its output) as a process."""


def spawn_child(argv: Sequence[str], env: Mapping[str, str], log: Path) -> EngineProcess:
    """Start the command as a plain child process."""
    with log.open("wb") as output:
        return subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def connect_telemetry(
    process: EngineProcess, run_dir: Path, log: Path, timeout_s: float
) -> TelemetryClient:
    """Wait for the socket of this very process to answer."""
    timeout_s = patient(timeout_s)
    deadline = time.monotonic() + timeout_s
    reason = "no telemetry socket"
    while time.monotonic() < deadline:
        status = process.poll()
        if status is not None:
            raise exit_error(status, log)
        # EAL adds ":1" and so on to the name when it finds it taken.
        for path in (run_dir / "dpdk").rglob("dpdk_telemetry.v2*"):
            try:
                client = TelemetryClient(path, timeout_s=_CALL_TIMEOUT_S)
            except GeneratorError as error:
                reason = str(error)
                continue
            if client.pid == process.pid and _answers(client):
                return client
            client.close()
        time.sleep(_POLL_S)
    raise GeneratorError(
        f"the engine does not answer after {timeout_s:g} s ({reason}){_tail(log)}",
        where=str(run_dir),
    )


def _answers(client: TelemetryClient) -> bool:
    """Whether it works: DPDK opens the socket before the ports are up and the workers run."""
    try:
        return bool(client.call("/loadgen/worker", worker=0)["tid"])
    except GeneratorError:
        return False


def exit_error(status: int, log: Path) -> GeneratorError:
    """The error for an engine that has ended, with its log's last lines."""
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return GeneratorError(f"the engine has ended {how}{_tail(log)}", where=str(log))


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        return ""
    return "".join(f"\n  | {line}" for line in lines)


PROTOCOL = 1
EXIT_POLL_S = 0.002


class EngineConnection:
    """A running engine that answers; made by `Connection.open`.

    Attributes:
        ports: How many ports it has.
    """

    def __init__(self, process: EngineProcess, client: TelemetryClient, log: Path) -> None:
        self._process = process
        self._client = client
        self._log = log
        self.ports = 0

    @classmethod
    def open(
        cls, argv: list[str], run_dir: Path, spawn: Spawn, timeout_s: float
    ) -> EngineConnection:
        """Start the engine and wait until it answers; what does not is killed."""
        log = run_dir / "loadgen.log"
        process = spawn(argv, {**os.environ, "RUNTIME_DIRECTORY": str(run_dir)}, log)
        with contextlib.ExitStack() as undo_on_error:
            undo_on_error.callback(_kill, process)
            client = connect_telemetry(process, run_dir, log, timeout_s)
            undo_on_error.callback(client.close)
            made = cls(process, client, log)
            made._greet()
            undo_on_error.pop_all()
        return made

    def _greet(self) -> None:
        info = self.call("info")
        if info["protocol"] != PROTOCOL:
            raise GeneratorError(
                f"the engine speaks protocol {info['protocol']}",
                where="/loadgen/info",
                accepted=f"protocol {PROTOCOL}",
                cure="use the engine that this version builds",
            )
        self.ports = int(info["ports"])

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def directory(self) -> Path:
        """Where the engine puts its files."""
        return self._client.path.parent

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def call(self, command: str, **parameters: object) -> Any:
        """Ask the engine."""
        return self._told(lambda: self._client.call(f"/loadgen/{command}", **parameters))

    def call_all(self, command: str, parameters: Sequence[Mapping[str, object]]) -> list[Any]:
        """Ask the engine the same several times over, without waiting for each answer."""
        answers: list[Any] = self._told(
            lambda: self._client.call_all(f"/loadgen/{command}", parameters)
        )
        return answers

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except GeneratorError as error:
            if not error.accepted:  # not a refusal: the connection or the process
                self._check_alive(error)
            raise

    def _check_alive(self, cause: Exception) -> None:
        # The socket closes a moment before the process can be waited for.
        deadline = time.monotonic() + 1.0
        while self.alive and time.monotonic() < deadline:
            time.sleep(EXIT_POLL_S)
        status = self._process.poll()
        if status is not None:
            raise exit_error(status, self._log) from cause

    def close(self, timeout_s: float) -> None:
        """End the engine; may be called again.  A dead or deaf engine is killed, not complained of."""
        if self.alive:
            try:
                self._client.call("/loadgen/quit")
                self._process.wait(timeout_s)
            except (GeneratorError, subprocess.TimeoutExpired):
                self._process.kill()
        self._client.close()
        self._process.wait(timeout_s)


def _kill(process: EngineProcess) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


class SpawnedEngine:
    """A process of the run in the shape the engine's wrapper wants."""

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Look whether it has ended."""
        return self._process.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        deadline = time.monotonic() + (timeout if timeout is not None else 3600.0)
        while (status := self._process.returncode) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
            time.sleep(0.005)
        return status

    def kill(self) -> None:
        """End it at once."""
        self._process.stop(timeout_s=0.0)


def spawn_in_run(
    machine: Machine, argv: Sequence[str], env: Mapping[str, str], log: Path
) -> SpawnedEngine:
    """Start the engine as a process of the run."""
    process = machine.spawn("loadgen", list(argv), env=env, isolated=True)
    log.unlink(missing_ok=True)
    log.symlink_to(process.log)
    return SpawnedEngine(process)


@dataclass(frozen=True)
class PortInfo:
    """One port of the engine."""

    number: int
    name: str
    driver: str
    mac: str
    link_up: bool
    link_speed_mbps: int | None
    """Mbit/s; None: the driver cannot tell."""
    numa_node: int | None
    mtu: int
    """As the driver has it; those that take frames of any size leave it at 1500."""
    rx_queues: int
    tx_queues: int
    nic_time: bool
    """Whether frames come with the NIC's own time, as clocks can be told from each other."""
    nic_time_error_ns: int
    """How far that may be off, by the last reading of both clocks."""
    answers: int
    """Frames sent to neighbours since the start: answers and announcements."""

    @classmethod
    def parse(cls, number: int, reply: Mapping[str, Any]) -> PortInfo:
        """From the reply of the engine about a port."""
        return cls(
            number=number,
            name=reply["name"],
            driver=reply["driver"],
            mac=reply["mac"],
            link_up=bool(reply["link_up"]),
            link_speed_mbps=reply["link_speed"] or None,
            numa_node=reply["numa_node"] if reply["numa_node"] >= 0 else None,
            mtu=reply["mtu"],
            rx_queues=reply["rx_queues"],
            tx_queues=reply["tx_queues"],
            answers=reply["answers"],
            nic_time=bool(reply["nic_time"]),
            nic_time_error_ns=reply["nic_time_error_ns"],
        )


@dataclass(frozen=True)
class WorkerInfo:
    """One thread that sends and receives."""

    number: int
    lcore: int
    cpu: int
    numa_node: int
    tid: int
    """Thread id, for affinity and scheduling."""
    rx_queues: int
    tx_queues: int


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
    window: int
    """Frames within which a duplicate is told from a new frame."""
    ports: tuple[PortInfo, ...]
    workers: tuple[WorkerInfo, ...]


EngineState = Literal["idle", "armed", "running", "draining", "done", "learning"]
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class FrameCounts:
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
    def parse(cls, reply: Mapping[str, int]) -> FrameCounts:
        """From the reply of the engine."""
        return cls(**{name: int(reply[name]) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class EngineStatus:
    """A look at the engine; counts are live while a trial runs."""

    state: EngineState
    elapsed_s: float | None
    """Seconds since the trial's start, or its whole length once done."""
    counts: FrameCounts | None
    """Sums over all streams; None: no trial yet."""

    @classmethod
    def parse(cls, reply: Mapping[str, Any]) -> EngineStatus:
        """From the reply of the engine."""
        elapsed = reply.get("elapsed_ns")
        return cls(
            state=reply["state"],
            elapsed_s=None if elapsed is None else elapsed / _NS_PER_S,
            counts=FrameCounts.parse(reply) if "intended" in reply else None,
        )


@dataclass(frozen=True)
class LatencySum:
    """From handing a frame to the driver to receiving it, over every frame received."""

    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    over: int
    """Frames above 10 s: in the sum and the maximum, not in the histogram."""

    @classmethod
    def parse(cls, reply: Mapping[str, int]) -> LatencySum:
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
    counts: FrameCounts
    latency: LatencySum
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
            counts=FrameCounts.parse(reply),
            latency=LatencySum.parse(reply),
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

    def stream(self, stream_id: int) -> StreamResult:
        """The result of one stream."""
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


CaptureKind = Literal["sent", "received", "stray"]

_RECORD = struct.Struct("=QIIHHI")
_KINDS: dict[int, CaptureKind] = {1: "sent", 2: "received", 3: "stray"}
_NO_STREAM = 256
CAPTURE_NS_PER_S = 1_000_000_000
#: pcap with times in nanoseconds, version 2.4, UTC, Ethernet without FCS.
_MAGIC, _MAJOR, _MINOR, _SNAPLEN, _ETHERNET = 0xA1B23C4D, 2, 4, 262_144, 1


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
    at = 0
    while at < len(data):
        wall_ns, length, kept, port, stream, kind = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        frames.append(
            CapturedFrame(
                wall_ns=wall_ns,
                port=port,
                stream=None if stream == _NO_STREAM else stream,
                kind=_KINDS[kind],
                octets=data[at : at + kept],
                length=length,
            )
        )
        at += kept
    return tuple(sorted(frames, key=lambda frame: frame.wall_ns))


def pcap_files(frames: Iterable[CapturedFrame]) -> dict[str, bytes]:
    """One pcap file for each port and way, as tcpdump and Wireshark read them."""
    files: dict[str, bytearray] = {}
    for frame in frames:
        way = "sent" if frame.kind == "sent" else "received"
        name = f"port{frame.port}-{way}.pcap"
        if name not in files:
            header = (_MAGIC, _MAJOR, _MINOR, 0, 0, _SNAPLEN, _ETHERNET)
            files[name] = bytearray(struct.pack("=IHHiIII", *header))
        seconds, ns = divmod(frame.wall_ns, CAPTURE_NS_PER_S)
        files[name] += struct.pack("=IIII", seconds, ns, len(frame.octets), frame.length)
        files[name] += frame.octets
    return {name: bytes(octets) for name, octets in sorted(files.items())}
