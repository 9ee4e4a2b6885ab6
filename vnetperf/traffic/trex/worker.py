"""The process that TRex's Python client runs in, under whatever interpreter that client requires.

This file imports the standard library only: TRex's client replaces scapy, yaml and zmq in the
process that imports it, and an older interpreter has neither pydantic nor this project.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

#: Longer messages are a mistake: a thousand streams of jumbo frames take 15 MB.
MAX_MESSAGE = 64 << 20


def send_message(connection: Connection, message: dict[str, Any]) -> None:
    """Send one message whole."""
    connection.send_bytes(json.dumps(message, separators=(",", ":")).encode())


def receive_message(connection: Connection) -> dict[str, Any] | None:
    """Wait for one message; None when the other end has closed."""
    try:
        message = json.loads(connection.recv_bytes(MAX_MESSAGE))
    except EOFError:
        return None
    if not isinstance(message, dict):
        raise ValueError(f"a message that is no object: {str(message)[:60]}")
    return message


#: Kinds of error that the driver has messages for (client.py).
MISSING, BROKEN, TOO_OLD = "missing", "broken", "too-old"


class WorkerError(Exception):
    """The reply to an order instead of a result."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


class AbortedError(Exception):
    """The other end has gone, or wants the trial to end."""


@contextlib.contextmanager
def translated(translate: Callable[[BaseException], WorkerError]) -> Iterator[None]:
    """Raise what the client raises as a `WorkerError`; its own classes have too little detail.

    Its thread interrupts us when the connection is lost: that is an error of the client as well.
    """
    try:
        yield
    except (WorkerError, AbortedError):
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the client raises anything
        raise translate(error) from None


def import_client(place: str) -> Any:
    """Import the client's stateless API."""
    if place:
        sys.path.insert(0, place)
        directory = Path(place)
        if (directory / "trex_stl_lib").is_dir() and not (directory / "trex").is_dir():
            raise WorkerError(TOO_OLD, "trex-stl-lib uses a protocol that no server of today knows")
    with translated(_cannot_import):
        return importlib.import_module("trex.stl.api")


def _cannot_import(error: BaseException) -> WorkerError:
    nowhere = isinstance(error, ImportError) and (error.name or "").split(".")[0] == "trex"
    return WorkerError(MISSING if nowhere else BROKEN, f"{type(error).__name__}: {error}")


#: Parts of messages of client and server -> kind of error.
_ERROR_TEXTS = (
    ("version", ("version mismatch", "mismatch between client and server")),
    ("mode", ("configuration mismatch",)),
    ("restarted", ("api verification failed",)),
    ("owned", ("owned by", "already taken", "is owned", "not owned", "acquire")),
    (
        "gone",
        (
            "failed to get server response",
            "failed to send message",
            "connection to the server",
            "subscriber timeout",
            "not connected",
            "is not valid while disconnected",
            "failed to establish",
        ),
    ),
)
#: Kinds that no waiting ends.
LASTING = ("version", "mode")
#: In the client's message when it takes a port to be in the wrong state for a step.
WRONG_STATE = "on current state"
SETTLING_S = 3.0


def classify_error(error: BaseException) -> WorkerError:
    """The kind of a client's exception."""
    text = strip_escapes(str(error))
    if not text or isinstance(error, LookupError):  # whose text alone is "0"
        text = f"{type(error).__name__} {text}".strip()
    low = text.lower()
    kind = next((kind for kind, words in _ERROR_TEXTS if any(w in low for w in words)), "refused")
    return WorkerError(kind, text)


def _not_acquired(error: BaseException) -> WorkerError:
    trouble = classify_error(error)
    return WorkerError("owned" if trouble.kind == "refused" else trouble.kind, trouble.text)


def strip_escapes(text: str) -> str:
    """Text without escape sequences, on one line."""
    return " ".join(re.sub("\x1b[^A-Za-z]*[A-Za-z]?", "", text).split())


def repeat(
    step: Callable[[], None], limit_s: float, passing: Callable[[WorkerError], bool], pause_s: float
) -> None:
    """Take a step until it succeeds; an error that is not passing, or the last one, is raised."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            with translated(classify_error):
                return step()
        except WorkerError as error:
            if not passing(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause_s)


def _repeat_in_wrong_state(step: Callable[[], None]) -> None:
    """The client refuses a step while messages of the ports' state are under way."""
    repeat(step, SETTLING_S, lambda error: WRONG_STATE in error.text, pause_s=0.01)


class ServerSession:
    """A connected client with its ports."""

    def __init__(self, api: Any, where: dict[str, Any]) -> None:
        self.api = api
        self.ports: list[int] = []
        self._address = (where["server"], where["sync"])
        self.client = api.STLClient(
            username=where["user"],
            server=where["server"],
            sync_port=where["sync"],
            async_port=where["publisher"],
            verbose_level="none",
            sync_timeout=where["sync_timeout"],
            async_timeout=where["async_timeout"],
        )

    def connect(self, patience_s: float) -> dict[str, Any]:
        """Connect; a server that is just starting is waited for."""
        repeat(self._connect, patience_s, lambda error: error.kind not in LASTING, pause_s=0.05)
        return self.describe()

    def _connect(self) -> None:
        try:  # the client itself would try for seconds before it reports that nobody listens
            socket.create_connection(self._address, timeout=1.0).close()
        except OSError:
            refused = "connection to {}:{} refused".format(*self._address)
            raise WorkerError("gone", refused) from None
        self.client.connect()

    def describe(self) -> dict[str, Any]:
        """Versions, and the server's ports."""
        ports = []
        for number in self.client.get_all_ports():
            attributes = self.client.get_port_attr(number)
            keys = ("driver", "speed", "src_mac")
            ports.append({"port": number, **{key: attributes.get(key) for key in keys}})
        return {
            "python": ".".join(map(str, sys.version_info[:3])),
            "client": str(Path(self.api.__file__).parents[2]),
            "version": self.client.get_server_version().get("version", "unknown"),
            "ports": ports,
        }

    def acquire(self, ports: list[int], force: bool) -> None:
        """Take ports, and stop what a client that vanished has left running on them."""
        with translated(_not_acquired):
            self.client.acquire(ports=ports, force=force)
        self.ports = list(ports)
        self.clear(everything=True)
        with contextlib.suppress(self.api.TRexError):  # virtual ports take frames for any address
            self.client.set_port_attr(ports=self.ports, promiscuous=True)

    def clear(self, everything: bool = False) -> None:
        """Stop traffic and take the streams away."""
        which = [f"{port}.*" for port in self.ports] if everything else self.ports
        self.stop(which)
        _repeat_in_wrong_state(lambda: self.client.remove_all_streams(ports=which))

    def stop(self, ports: list[Any]) -> None:
        """Stop traffic."""
        _repeat_in_wrong_state(lambda: self.client.stop(ports=ports, rx_delay_ms=0))

    def links_down(self) -> list[int]:
        """Ports without a link."""
        attributes = {port: self.client.get_port_attr(port) for port in self.ports}
        return [port for port, it in attributes.items() if str(it.get("link")).upper() != "UP"]

    def counters(self) -> dict[int, tuple[int, int]]:
        """Frames of our ports since the server began."""
        return {port: self.read_counters(port) for port in self.ports}

    def read_counters(self, port: int) -> tuple[int, int]:
        """Frames of one port since the server began."""
        stats = self.request("get_port_stats", {"port_id": port})
        return int(stats["opackets"]), int(stats["ipackets"])

    def dropped(self) -> int:
        """Frames that the server dropped since it began because a port took no more."""
        return int(self.request("get_global_stats").get("m_total_queue_drop", 0))

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request to the server.

        The client's own counters are relative to when it last cleared them.
        """
        reply = self.client.conn.rpc.transmit(method, params or {})
        if not reply:
            raise classify_error(RuntimeError(str(reply.err())))
        data: dict[str, Any] = reply.data()
        return data

    def close(self) -> None:
        """Stop, let go of the ports, disconnect."""
        if self.client.is_connected():
            self.client.disconnect(stop_traffic=True, release_ports=True)


#: Octets of a variable and of what is written into the frame, at most, by one instruction.
WORD = 4


def build_stream(api: Any, stream: dict[str, Any]) -> Any:
    """One stream."""
    probe = stream.get("probe")
    # Whole frames are given, so nothing is to be put in for their addresses, nor their FCS cut.
    packet = api.STLPktBuilder(
        pkt_buffer=base64.b64decode(stream["template"]),
        vm=api.STLScVmRaw(build_instructions(api, stream)) if stream["variables"] else None,
        remove_fcs=False,
    )
    return api.STLStream(
        packet=packet,
        mode=api.STLTXSingleBurst(total_pkts=stream["frames"], pps=stream["pps"]),
        flow_stats=None if probe is None else api.STLFlowLatencyStats(pg_id=probe),
        isg=stream.get("after_us", 0.0),
        mac_src_override_by_pkt=True,
        mac_dst_override_mode=api.STLStreamDstMAC_PKT,
    )


def build_instructions(api: Any, stream: dict[str, Any]) -> list[Any]:
    """What changes a frame before it is sent."""
    instructions: list[Any] = []
    for variable in stream["variables"]:
        name = variable["name"]
        instructions.append(
            api.STLVmFlowVar(
                name=name,
                size=variable["size"],
                min_value=variable["first"],
                init_value=variable["first"],
                max_value=variable["last"],
                step=variable["step"],
                op="random" if variable["random"] else "inc",
            )
        )
        if variable["mask"] is None:
            instructions.append(api.STLVmWrFlowVar(fv_name=name, pkt_offset=variable["offset"]))
        else:
            instructions.append(
                api.STLVmWrMaskFlowVar(
                    fv_name=name,
                    pkt_offset=variable["offset"],
                    pkt_cast_size=WORD,
                    mask=variable["mask"],
                    shift=variable["shift"],
                )
            )
    instructions += [api.STLVmFixIpv4(offset=offset) for offset in stream["ipv4"]]
    instructions += [_layer4(api, *checksum) for checksum in stream["layer4"]]
    return instructions


def _layer4(api: Any, kind: str, l3_offset: int, l4_offset: int) -> Any:
    fix = api.CTRexVmInsFixHwCs
    l4_type = fix.L4_TYPE_TCP if kind == "tcp" else fix.L4_TYPE_UDP
    return api.STLVmFixChecksumHw(l3_offset=l3_offset, l4_offset=l4_offset, l4_type=l4_type)


#: Seconds between two looks while little happens, and when the end is near.
SELDOM_S, OFTEN_S = 0.2, 0.002
#: How long before the end it is near, seconds.
NEAR_S = 0.004
#: Share of the time at which the first sample is taken: the pace is measured from there on.
EARLY = 0.1
#: Longest wait for the counters to stand still before they are read, seconds.
STILL_S = 0.5
#: Time between two looks at the links in a trial.
LINKS_EVERY_S = 1.0


class WorkerTrial:
    """One trial."""

    def __init__(
        self, session: ServerSession, order: dict[str, Any], look: Callable[[], None]
    ) -> None:
        self.session = session
        self.order = order
        self.look = look
        self.planned = dict.fromkeys(session.ports, 0)
        for stream in order["streams"]:
            self.planned[stream["port"]] += stream["frames"]
        self.senders = [port for port, frames in self.planned.items() if frames]
        #: When, frames sent by then, and how long the reply took (`when` is its middle).
        self.samples: dict[int, list[tuple[float, int, float]]] = {p: [] for p in self.senders}
        self.base: dict[int, tuple[int, int]] = {}
        self.dropped_before = 0
        self.sent: dict[int, int] = {}
        self.received: dict[int, int] = {}
        #: Ports that were seen without a link; who waits for the trial cannot ask meanwhile.
        self.down: dict[int, None] = {}
        self._links_next = time.monotonic() + LINKS_EVERY_S

    def run(self) -> dict[str, Any]:
        """Send, drain, count; nothing is being sent afterwards, whatever happens."""
        with translated(classify_error):
            return self._run()

    def _run(self) -> dict[str, Any]:
        self.session.clear()
        for port in self.senders:
            streams = [
                build_stream(self.session.api, s)
                for s in self.order["streams"]
                if s["port"] == port
            ]
            self.session.client.add_streams(streams, ports=[port])
        self._remember()
        try:
            # By force: a virtual port's speed is invented, and so is "too little bandwidth".
            self.session.client.start(
                ports=self.senders, force=True, core_mask=self.order["core_mask"]
            )
            started = time.monotonic()
            in_time = self._watch(started)
            latency = {} if in_time else self._latency()
            if not in_time:
                self._stop()
            stopped = time.monotonic()
            self._drain(stopped)
            latency = latency or self._latency()
        except BaseException as error:
            self._stop_after(error)
            raise
        self._stop()
        ended = time.monotonic()
        self._check_links()
        return {
            "ports": {
                str(port): {
                    "sent": self.sent[port],
                    "received": self.received[port],
                    "samples": self.samples.get(port, []),
                }
                for port in self.session.ports
            },
            "dropped": self.session.dropped() - self.dropped_before,
            "latency": latency,
            "down": list(self.down),
            "started": started,
            "stopped": stopped,
            "drained": round(ended - stopped, 6),
        }

    def _stop_after(self, error: BaseException) -> None:
        """Stop, unless the server is gone; the first error is the one to report."""
        failure = error if isinstance(error, WorkerError) else classify_error(error)
        if failure.kind != "gone":
            with contextlib.suppress(WorkerError):
                self._stop()

    def _stop(self) -> None:
        self.session.stop(self.senders)

    def _remember(self) -> None:
        """Counters before the start; they must stand still, or frames of before are counted."""
        deadline = time.monotonic() + STILL_S
        now = self.session.counters()
        while True:
            before, now = now, self.session.counters()
            if before == now or time.monotonic() > deadline:
                break
            time.sleep(OFTEN_S)
        self.base, self.dropped_before = now, self.session.dropped()

    def _read(self) -> float:
        """Read all counters: each is of a time between request and reply."""
        for port in self.session.ports:
            begin = time.monotonic()
            now = self.session.read_counters(port)
            end = time.monotonic()
            self.sent[port], self.received[port] = self._since(port, now)
            if port in self.samples:
                self.samples[port].append(((begin + end) / 2, self.sent[port], end - begin))
        return time.monotonic()

    def _since(self, port: int, now: tuple[int, int]) -> tuple[int, int]:
        base = self.base[port]
        sent, received = now[0] - base[0], now[1] - base[1]
        if sent < 0 or received < 0:
            raise WorkerError(
                "counters",
                f"the counters of port {port} went back: {base} before the trial, {now} in it",
            )
        return sent, received

    def _watch(self, started: float) -> bool:
        """Wait until all frames have been sent; False when the time is over before."""
        duration = self.order["duration"]
        due = started + duration
        last = due + self.order["slack"]
        until = min(started + EARLY * duration, due - NEAR_S)
        while True:
            self._sleep(until)
            when = self._read()
            if all(self.sent[port] >= self.planned[port] for port in self.senders):
                return True
            if self._dropped_the_rest():
                return True
            if when >= last:
                return False
            until = min(when + SELDOM_S, due - NEAR_S) if when < due - NEAR_S else when + OFTEN_S

    def _dropped_the_rest(self) -> bool:
        """Whether what has not been sent was offered, and not taken."""
        short = sum(self.planned[port] - self.sent[port] for port in self.senders)
        return self.session.dropped() - self.dropped_before >= short > 0

    def _drain(self, stopped: float) -> None:
        """Wait for frames on their way; counters have been read after it."""
        last = stopped + self.order["drain"]
        while True:
            when = self._read()
            if when >= last:
                return
            if not self.order["full_drain"] and self._all_back():
                return
            self._sleep(min(last, when + OFTEN_S))

    def _all_back(self) -> bool:
        pairs = ((port, port ^ 1) for port in self.senders)
        return all(self.received.get(far, 0) >= self.sent[port] for port, far in pairs)

    def _sleep(self, until: float) -> None:
        """Sleep, but look up often: the trial may be given up."""
        while (remaining_s := until - time.monotonic()) > 0:
            self.look()
            if time.monotonic() >= self._links_next:
                self._check_links()
            time.sleep(min(remaining_s, SELDOM_S))
        self.look()

    def _check_links(self) -> None:
        self.down.update(dict.fromkeys(self.session.links_down()))
        self._links_next = time.monotonic() + LINKS_EVERY_S

    def _latency(self) -> dict[str, Any]:
        probes = self.order["probes"]
        if not probes:
            return {}
        stats = self.session.client.get_pgid_stats(probes)
        flows, times = stats.get("flow_stats", {}), stats.get("latency", {})
        latencies = {probe: times[probe]["latency"] for probe in probes if probe in times}
        return {
            str(probe): {
                "histogram": {str(k): v for k, v in latency.get("histogram", {}).items()},
                "hdrh": latency.get("hdrh", ""),
                "received": flows.get(probe, {}).get("rx_pkts", {}).get("total"),
                **{key: latency[key] for key in SUMMARY if key in latency},
            }
            for probe, latency in latencies.items()
        }


#: What the server tells of all probes of a stream besides its histograms, microseconds.
SUMMARY = ("average", "total_min", "total_max")
#: Changes with the orders and answers; both ends are of one version of this project.
PROTOCOL = 4


class Worker:
    """Carries out orders."""

    def __init__(self, connection: Connection, place: str) -> None:
        self._connection = connection
        self._place = place
        self._session: ServerSession | None = None

    def serve(self) -> None:
        """Reply until the order to end; when the other end has vanished, release the ports."""
        try:
            while (order := receive_message(self._connection)) is not None:
                if order["do"] == "end":
                    return
                if order["do"] != "give-up":  # one that crossed the reply to what it was for
                    send_message(
                        self._connection, {"number": order["number"], **self._reply(order)}
                    )
        finally:
            # Ports of someone else's server could not be taken by anybody otherwise.
            if order is None or sys.exc_info()[0] is not None:
                self._release_quietly()

    def _release_quietly(self) -> None:
        if self._session is not None:
            with contextlib.suppress(Exception):
                self._session.close()

    def _reply(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            with translated(classify_error):
                return {"result": self._obey(order)}
        except WorkerError as error:
            return {"trouble": error.kind, "text": error.text}
        except AbortedError:
            return {"trouble": "aborted", "text": "aborted"}

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        do = order["do"]
        if do == "open":
            api = import_client(self._place)
            self._session = ServerSession(api, order)
            return self._session.connect(order["patience"])
        if self._session is None:
            raise WorkerError("gone", "not connected to a server")
        if do == "acquire":
            self._session.acquire(order["ports"], order["force"])
        elif do == "links":
            return {"down": self._session.links_down()}
        elif do == "run":
            return WorkerTrial(self._session, order, self._look).run()
        elif do == "release":
            self._session.close()
        return {}

    def _look(self) -> None:
        """Abort the trial when the other end sends anything before it has its reply."""
        if self._connection.poll(0):
            receive_message(self._connection)
            raise AbortedError


def main(path: str, place: str) -> int:
    """Connect to who started us, and serve."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    connection = Connection(sock.detach())
    send_message(connection, {"protocol": PROTOCOL})
    worker = Worker(connection, place)
    try:
        worker.serve()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the other end: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
