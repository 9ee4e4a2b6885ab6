"""Pktgen's process: command line, terminal, and the Lua prompt on its socket.

The socket is a Lua prompt without prompt or echo; only what is written to standard output and
flushed comes back. Each connection therefore defines a helper first (helper.lua).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import Any

from vnetperf.host import threads
from vnetperf.host.linux import (
    parse_json,
    python_argv,
    read_file,
)
from vnetperf.host.machine import Machine
from vnetperf.host.threads import list_threads
from vnetperf.host.wait import wait_at_most, wait_for
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Plan
from vnetperf.plugin.generator import host_failures, server_address
from vnetperf.traffic.devices import dpdk_device, memif_ring
from vnetperf.traffic.pktgen.streams import PortTraffic

WIRES = ("memif", "veth", "nic")
PORT = 22022
#: Pktgen reads lines into a buffer of 8 KiB and takes what is beyond for a line of its own.
MAX_LINE = 8191
#: Longest wait for one answer, seconds: a clearing of statistics waits for the statistics' thread.
ANSWER_S = 8.0
#: Longest wait for its exit once it has closed its socket, seconds.
EXIT_S = 5.0
#: Time between two looks at that limit, seconds.
RECEIVE_S = 0.1
MARK = b"@vp "
#: Functions that end Pktgen when they are called from its socket.
FATAL_CALLS = ("pktgen.load", "pktgen.quit")


def helper_line() -> str:
    """The helper as one line of Lua."""
    text = files("vnetperf.traffic.pktgen").joinpath("helper.lua").read_text(encoding="ascii")
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("--"))


class LuaClient:
    """A connection to Pktgen."""

    def __init__(
        self, connection: socket.socket, where: str, failure: Callable[[bool], str] = lambda _: ""
    ) -> None:
        self.where = where
        self._failure = failure
        self._rest = b""
        self._tag = 0
        self._socket = connection
        try:
            self._send(helper_line())
            self.call("return 1")
        except GeneratorError as error:
            self.close()
            if "no answer" not in error.what:
                raise
            raise GeneratorError(
                "Pktgen takes connections but does not answer",
                where=where,
                cure="it serves one client at a time: end the other one, or restart Pktgen",
            ) from None

    def call(self, source: str, timeout_s: float = ANSWER_S) -> Any:
        """Run Lua and wait for what it returns."""
        self._tag += 1
        if any(word in source for word in FATAL_CALLS):
            raise GeneratorError(
                f"{' and '.join(FATAL_CALLS)} end Pktgen when its socket calls them",
                where=self.where,
            )
        self._send(f"vp({self._tag}, [==[{source}]==])")
        answer = self._answer(timeout_s)
        if "error" in answer:
            raise GeneratorError(f"Pktgen reports: {answer['error']}", where=source[:120])
        return answer.get("ok")

    def close(self) -> None:
        """Hang up; Lua's variables stay, and so does traffic."""
        self._socket.close()

    def _send(self, line: str) -> None:
        octets = line.encode() + b"\n"
        if len(octets) > MAX_LINE or octets.count(b"\n") > 1:
            raise GeneratorError(
                f"a line of {len(octets)} octets for Pktgen",
                where=line[:60],
                accepted=f"one line of at most {MAX_LINE} octets",
            )
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.sendall(octets)
        except OSError as error:
            raise self._gone(str(error), has_ended=True) from None

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        """The object in the line with the last tag; lines of earlier calls are passed over."""
        mark = MARK + f"{self._tag} ".encode()

        def answer() -> dict[str, Any] | None:
            *lines, self._rest = (self._rest + self._received()).split(b"\n")
            for line in lines:
                if line.startswith(mark):
                    try:
                        reply = parse_json(line[len(mark) :])
                    except ValueError:
                        message = f"an answer that is no JSON: {line[:80]!r}"
                        raise GeneratorError(message, where=self.where) from None
                    if isinstance(reply, dict):
                        return reply
            return None

        def late() -> GeneratorError:
            return self._gone("no answer in time")

        return wait_for(answer, timeout_s, "an answer of Pktgen", poll_s=0.0, error=late)

    def _received(self) -> bytes:
        """What has come, after a short wait for it."""
        try:
            self._socket.settimeout(RECEIVE_S)
            if received := self._socket.recv(65536):
                return received
        except TimeoutError:
            return b""
        except OSError as error:
            raise self._gone(str(error), has_ended=True) from None
        raise self._gone("it closed the connection", has_ended=True)

    def _gone(self, symptom: str, *, has_ended: bool = False) -> GeneratorError:
        message = self._failure(has_ended) or f"Pktgen is gone or stuck: {symptom}"
        return GeneratorError(message, where=self.where)


#: Pktgen makes a pool of 24576 buffers of 10 KiB for each receive queue of a port, and for each of
#: its four ways of sending, whether they are used or not.
POOL_MIB, WAYS, BASE_MIB = 259, 4, 480
#: A frame from a file beside its octets: the buffer's header, headroom, the pool's own.
FRAME_OVERHEAD = 128 + 128 + 128
#: The last logical core; with two digits its number fits into the name of its thread.
MAX_LCORE = 99


@dataclass(frozen=True)
class PktgenCommand:
    """A launch of Pktgen.

    Attributes:
        sockets: Sockets that it listens on and leaves behind.
        workers: Logical cores that send and receive.
    """

    argv: tuple[str, ...]
    sockets: tuple[Path, ...]
    workers: tuple[int, ...]


def pktgen_command(
    program: str,
    plan: Plan,
    ends: Sequence[WireEnd],
    files: Mapping[int, tuple[Path, PortTraffic]],
    prefix: str,
) -> PktgenCommand:
    """The command that starts Pktgen."""
    placement = plan.placement
    (core, *_) = placement.cores["tester"]
    others = [cpu for cpu in placement.housekeeping if cpu != core] or [core]
    # The statistics' thread is put on the processor that has the main logical core's number.
    main = others[0]
    scenario = plan.scenario
    devices = [
        dpdk_device(number, end, scenario.mtu, WIRES, memif_frames=memif_ring(scenario, number))
        for number, end in enumerate(ends)
    ]
    # A kernel interface is one receive queue, whatever the vSwitch sends on.
    queues = 1 if any(device.netdev for device in devices) else plan.tester_rx_queues
    workers = tuple(range(MAX_LCORE, MAX_LCORE - queues, -1))
    lcores = ",".join([f"{main}@{main}", *(f"{worker}@{core}" for worker in workers)])
    argv = [program, f"--lcores={lcores}", f"--main-lcore={main}", f"--file-prefix={prefix}"]
    argv += [f"-m{pktgen_memory_mib(len(ends), queues, list(files.values()))}", "--no-telemetry"]
    argv += ["--in-memory"] if any(device.pci for device in devices) else ["--no-huge", "--no-pci"]
    argv += [
        *(device.argument for device in devices),
        "--",
        "-g",
        f"127.0.0.1:{PORT}",
        "-m",
        _matrix(len(ends), workers),
    ]
    argv += [f"-s{port}:{path}" for port, (path, _) in sorted(files.items())]
    sockets = tuple(Path(end.socket) for end in ends if end.socket and end.role == "server")
    return PktgenCommand(tuple(argv), sockets, workers)


def pktgen_memory_mib(
    ports: int, queues: int, files: Sequence[tuple[Path, PortTraffic]] = ()
) -> int:
    """Memory to give Pktgen; without hugepages only what is used is taken."""
    buffers = sum(t.frames * (t.octets + FRAME_OVERHEAD) for _, t in files) * 1.1
    return BASE_MIB + ports * POOL_MIB * (queues + WAYS) + ceil(buffers / (1 << 20))


def port_list(ports: int) -> str:
    """All ports, as Pktgen's commands take them."""
    return f"0-{ports - 1}" if ports > 1 else "0"


def _matrix(ports: int, workers: Sequence[int]) -> str:
    """Which logical core serves which port: the first sends, all of them receive."""
    receive = "/".join(str(worker) for worker in workers)
    cores = f"{workers[0]}" if len(workers) == 1 else f"[{receive}:{workers[0]}]"
    return ",".join(f"{cores}.{port}" for port in range(ports))


START_S, STOP_S = 30.0, 3.0
LOG_LINES = 12
#: Begins the codes that draw its screen.
ESCAPE = "\x1b"
#: Niceness of the thread that makes statistics.
STATISTICS_NICE = 10


class PktgenProcess:
    """A Pktgen of this run, in the run's own network namespace: no one else reaches its socket."""

    def __init__(self, machine: Machine, launch: PktgenCommand) -> None:
        self._machine = machine
        self._launch = launch
        self._remove_sockets()  # it does not replace one that a predecessor left
        argv = python_argv("vnetperf.traffic.pktgen.tty", *launch.argv)
        # DPDK leaves files there; they go with the run's directory.
        env = {"TERM": "xterm", "RUNTIME_DIRECTORY": str(machine.subdir("pktgen"))}
        with host_failures():
            self._process = machine.spawn("pktgen", argv, env=env)

    def connect(self) -> LuaClient:
        """Wait until it listens, and connect."""
        address = ("127.0.0.1", PORT)

        def opened() -> socket.socket | None:
            with contextlib.suppress(OSError):
                return self._machine.in_netns(lambda: socket.create_connection(address, 2.0))
            return None

        def failed(message: str) -> GeneratorError:
            return GeneratorError(message, where=" ".join(self._launch.argv))

        def check() -> None:
            if failure := self.failure():
                raise failed(failure)

        silent = f"Pktgen does not listen after {START_S:g} s"
        connection = wait_for(
            opened,
            START_S,
            "Pktgen's Lua socket",
            check=check,
            error=lambda: failed(f"{silent}; its terminal ends with:\n{self.log_tail()}"),
        )
        return LuaClient(connection, f"127.0.0.1:{PORT}", self.failure)

    @property
    def pid(self) -> int:
        """Process id of Pktgen itself, 0 when it has ended."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            terminal_pid = self._process.pid
            children = read_file(Path(f"/proc/{terminal_pid}/task/{terminal_pid}/children")).split()
            return int(children[0])
        return 0

    def worker_prefix(self) -> str:
        """What the names of its sending and receiving threads begin with."""
        names = {thread.name for thread in list_threads(self.pid)}
        prefixes = ("lcore-worker", "rte-worker", "dpdk-worker")
        return next((k for k in prefixes if any(name.startswith(k) for name in names)), prefixes[0])

    def deprioritise_helper_threads(self) -> None:
        """Let the threads that only spin come last wherever they run.

        The first one asks its terminal for keys, without a pause; the one of the statistics must
        run now and then, or counters are frozen.
        """
        pid = self.pid
        for thread in list_threads(pid) if pid else ():
            with contextlib.suppress(OSError):
                if thread.tid == pid:
                    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
                elif thread.name == "pktgen":
                    os.setpriority(os.PRIO_PROCESS, thread.tid, STATISTICS_NICE)

    def set_slices_and_nice(self, nice: int, slice_us: int) -> None:
        """Let it go first on shared cores, as the deployment does with what it starts."""
        pid = self.pid
        threads.set_nice(pid, nice)
        if slice_us:
            threads.set_slice(pid, slice_us * 1000)
        threads.set_autogroup_nice(pid, nice)

    def failure(self, has_ended: bool = False) -> str:
        """How it exited; "" while it runs, which it does not with its socket closed."""
        # Its child ends a moment before it does, and the socket before both.
        wait_at_most(
            lambda: bool(self.pid and not has_ended) or not self._process.alive(),
            EXIT_S if has_ended else 0.2,
            "Pktgen's exit",
        )
        if self._process.alive():
            return ""
        status = self._process.returncode
        return f"Pktgen exited (status {status}); its terminal ends with:\n{self.log_tail()}"

    def log_tail(self) -> str:
        """What it wrote last, without the drawing."""
        lines = (line.strip() for line in self._process.log_tail(200).splitlines())
        text = [line for line in lines if line and not line.startswith("vp(")]
        return "\n".join(line.replace(ESCAPE, "") for line in text[-LOG_LINES:])

    def stop(self) -> None:
        """End it; its sockets are removed."""
        self._process.stop(timeout_s=STOP_S)
        self._remove_sockets()

    def _remove_sockets(self) -> None:
        for path in self._launch.sockets:
            path.unlink(missing_ok=True)


def connect_server(server: str) -> LuaClient:
    """Connect to a Pktgen that another program has started."""
    host, (port,) = server_address(server, "HOST:PORT", PORT)
    where = f"{host}:{port}"
    try:
        return LuaClient(socket.create_connection((host, port), timeout=5.0), where)
    except OSError as error:
        raise GeneratorError(
            f"cannot connect: {error}",
            where=where,
            cure="start Pktgen with -G, or correct `server` under [pktgen] of the testbed file",
        ) from None
