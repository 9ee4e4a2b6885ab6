"""The engine as a Python object: started, told what to send, asked what came back."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from vnetperf.host.patience import patient
from vnetperf.model.capture import CaptureWhat
from vnetperf.model.errors import GeneratorError, TrialTimeoutError
from vnetperf.traffic.loadgen.build import engine_executable
from vnetperf.traffic.loadgen.captured import CapturedFrame, parse_capture
from vnetperf.traffic.loadgen.connection import Connection
from vnetperf.traffic.loadgen.info import EngineInfo, PortInfo, WorkerInfo
from vnetperf.traffic.loadgen.overtime import DelayDifferences, StreamTimeline
from vnetperf.traffic.loadgen.process import Spawn, plain_spawn
from vnetperf.traffic.loadgen.results import (
    LearnResult,
    PortResult,
    Status,
    StreamResult,
    TrialResult,
)
from vnetperf.traffic.loadgen.spec import EngineConfig, NeighbourSpec, StreamSpec, TrialSpec

_POLL_S = 0.002


class Engine:
    """A running engine; made by `Engine.open`.

    Every method raises `GeneratorError` when the engine refuses (the message says what it accepts),
    does not answer, or has died (the message ends with its log).
    """

    def __init__(self, connection: Connection) -> None:
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
        spawn: Spawn = plain_spawn,
        timeout_s: float = 30.0,
    ) -> Engine:
        """Start the engine and wait until it answers.

        Args:
            config: Ports, CPUs, queues.
            run_dir: An existing private directory for its socket and its log ``loadgen.log``; its
                path must be short (a socket's path has at most 107 characters).
            executable: The engine (default: built on first use).
            spawn: How to start it.
            timeout_s: Seconds until it must answer.

        Returns:
            The engine; links may need a moment more, see `wait_links`.

        Raises:
            GeneratorError: It does not start; the message ends with its log.
            HostError: It cannot be built here.
        """
        argv = config.argv(str(executable or engine_executable()))
        return cls(Connection.open(argv, run_dir, spawn, timeout_s))

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
        """Wait until the links of all ports are up.

        Args:
            timeout_s: Seconds.

        Raises:
            GeneratorError: A link stays down; the message names it.
        """
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

        Args:
            port: Its number.
        """
        self._call("port/unplug", port=port)

    def plug(self, port: int, timeout_s: float = 10.0) -> None:
        """Take a port up again once its far end is there.

        Args:
            port: Its number.
            timeout_s: Seconds to wait for the far end, and again for the link.

        Raises:
            GeneratorError: The far end does not come.
        """
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
        """Replace all streams.  When one is refused, none is left.

        Args:
            streams: Their ids must differ.
        """
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
        """Replace the addresses that the ports answer ARP and neighbour discovery for.

        Args:
            entries: The addresses; none answers nobody.
            any_macs: Port -> MAC address with which it answers for all other addresses too.
        """
        self._call("neighbour/clear")
        self._call_all("neighbour/add", [entry.parameters() for entry in entries])
        for port, mac in (any_macs or {}).items():
            self._call("neighbour/any", port=port, mac=mac.hex())

    def announce(self) -> int:
        """Send gratuitous ARP requests and unsolicited advertisements for those addresses.

        Returns:
            How many were given to the ports: 1024 of each entry at most.
        """
        return int(self._call("neighbour/announce")["announced"])

    def start(self, trial: TrialSpec) -> int:
        """Start a trial; returns as soon as its common start has been fixed.

        Args:
            trial: What to send, for how long.

        Returns:
            The trial's epoch.

        Raises:
            GeneratorError: A value is refused, or a trial is going on.
        """
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

    def status(self) -> Status:
        """Look at the engine; works at any time, also while a trial runs."""
        return Status.parse(self._call("trial/status"))

    def stop(self) -> None:
        """Abort the trial or learning that is going on; what was not sent counts as unsent."""
        self._call("trial/stop")

    def wait(self, timeout_s: float) -> TrialResult:
        """Wait for the end of the trial and return its result.

        Args:
            timeout_s: Seconds.

        Returns:
            As `result`.

        Raises:
            GeneratorError: It does not end in time (it is aborted then), or the engine dies.
        """
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

    def result(self) -> TrialResult:
        """Return the result of the last trial; it stays until the next one starts.

        Returns:
            Counts and times of every stream.

        Raises:
            GeneratorError: No trial is done.
        """
        status = self._call("trial/status")
        ports = tuple(
            PortResult(port=number, **self._call("trial/port", port=number))
            for number in range(self._connection.ports)
        )
        replies = self._call_all("trial/result", [{"stream": one} for one in self._sent])
        return TrialResult(
            epoch=status["epoch"],
            aborted=bool(status["aborted"]),
            elapsed_ns=status.get("elapsed_ns", 0),
            tx_end_ns=status.get("tx_end_ns"),
            streams=tuple(map(StreamResult.parse, self._sent, replies)),
            ports=ports,
        )

    def histogram(self, stream_id: int) -> tuple[tuple[int, int], ...]:
        """Return the latency histogram of a stream in the last trial.

        Args:
            stream_id: Its id.

        Returns:
            Pairs of value (ns, the lowest of its HdrHistogram bucket) and number of frames, by
            rising value; empty buckets are left out.  Buckets are those of an HdrHistogram of
            1 ns..10 s with 3 significant digits.
        """
        return self.histograms((stream_id,))[stream_id]

    def histograms(self, stream_ids: Sequence[int]) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the latency histograms of several streams in the last trial.

        Args:
            stream_ids: Their ids.

        Returns:
            Id -> as `histogram`.
        """
        replies = self._call_all("trial/histogram", [{"stream": one} for one in stream_ids])
        found = {}
        for stream_id, reply in zip(stream_ids, replies, strict=True):
            numbers = array("Q", self._read(reply["file"]))
            found[stream_id] = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        return found

    def timelines(self, stream_ids: Sequence[int]) -> dict[int, StreamTimeline]:
        """Return how several streams of the last trial went on, if it was asked for bins.

        Args:
            stream_ids: Their ids.

        Returns:
            Id -> its timeline.
        """
        replies = self._call_all("trial/timeline", [{"stream": one} for one in stream_ids])
        return {
            one: StreamTimeline.parse(reply, self._read(reply["file"]))
            for one, reply in zip(stream_ids, replies, strict=True)
        }

    def differences(self, stream_ids: Sequence[int]) -> dict[int, DelayDifferences]:
        """Return the differences of successive frames' delays, if the last trial kept them.

        Args:
            stream_ids: Ids of streams.

        Returns:
            Id -> its differences.
        """
        replies = self._call_all("trial/ipdv", [{"stream": one} for one in stream_ids])
        return {
            one: DelayDifferences.parse(reply, self._read(reply["file"]))
            for one, reply in zip(stream_ids, replies, strict=True)
        }

    def capture(self, frames: int, what: CaptureWhat = "first") -> None:
        """Keep frames of the trials to come.

        Args:
            frames: Frames of each group, 0..10000; 0 keeps none.
            what: "first": the first of each port, each way; "streams": the first of each stream,
                sent and received; "gaps": received ones before which some are missing, of each
                port; "foreign": received ones that are not of the trial, of each port.
        """
        self._call("capture", frames=frames, what=what)

    def captured(self) -> tuple[CapturedFrame, ...]:
        """Return the frames that were kept of the last trial.

        Returns:
            Frames, by rising time.
        """
        reply = self._call("trial/capture")
        return parse_capture(self._read(reply["file"]))

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

        Args:
            count: Frames of each stream.
            stream_id: One stream, or None: all.
            rate: Frames/s of each stream.
            timeout_s: Seconds to wait for the end.

        Returns:
            How many frames were sent, refused and unsent.
        """
        self._call("learn", stream=stream_id, count=count, rate=float(rate))
        reply = self._wait_state({"idle", "done"}, timeout_s)
        return LearnResult(
            sent=reply["learned"], refused=reply["learn_refused"], unsent=reply["learn_unsent"]
        )

    def xstats(self, port: int) -> dict[str, int]:
        """Return the driver's own counters of a port, since its start.

        Args:
            port: Its number.

        Returns:
            By name; signs other than letters and digits are underscores.
        """
        stats: dict[str, int] = {}
        offset = 0
        while offset >= 0:
            reply = self._call("xstats", port=port, offset=offset)
            offset = reply.pop("next")
            stats.update(reply)
        return stats

    def close(self, timeout_s: float = 10.0) -> None:
        """End the engine; may be called again.  A dead or deaf engine is killed, not complained of.

        Args:
            timeout_s: Seconds that it gets to end by itself.
        """
        self._connection.close(timeout_s)
