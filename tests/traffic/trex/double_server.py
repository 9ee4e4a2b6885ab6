"""A server that counts as TRex's does, quirks included, for the double of its client.

It is started in place of `_t-rex-64`, by a script that names this file; `double.json` beside the
script says which port it listens on and what is wrong with it. Requests and answers are JSON lines.
It sends nothing: what a stream would have sent by now is worked out when somebody asks.
"""

from __future__ import annotations

import json
import math
import os
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

RPC_VERSION = "5.1"
PORTS = (0, 1)


class Running:
    """A stream that was started.

    Above the ceiling all frames are sent, but that takes longer; that is what TRex does.
    """

    def __init__(self, stream: dict[str, Any], pace: float) -> None:
        self.frames = stream["frames"]
        self.pps = stream["pps"] * pace
        self.probe = stream["probe"]
        self.began = time.monotonic() + stream["isg"] / 1e6
        self.ended: float | None = None

    def sent(self) -> int:
        until = self.ended if self.ended is not None else time.monotonic()
        due = math.floor(max(0.0, until - self.began) * self.pps + 1e-6)
        return min(self.frames, due + (1 if until >= self.began else 0))

    def running(self) -> bool:
        return self.ended is None and self.sent() < self.frames


class Port:
    def __init__(self) -> None:
        self.owner: dict[str, str] | None = None
        self.streams: list[dict[str, Any]] = []
        self.running: list[Running] = []
        self.sent_before = 1_000_000  # counters go on from whoever was here before
        self.link = "UP"

    def sent(self) -> int:
        return self.sent_before + sum(r.sent() for r in self.running)

    def halt(self) -> None:
        for one in self.running:
            one.ended = one.ended or time.monotonic()

    def forget(self) -> None:
        self.halt()
        self.sent_before, self.running = self.sent(), []

    def busy(self) -> bool:
        return any(r.running() for r in self.running)


class Server:
    """What requests do.

    Attributes:
        wrong: What is wrong with it: "ceiling" frames/s of a port, "loss" share of frames,
            "dropped", "frozen", "back", "slow" seconds, "owner", "leftover", "link_down",
            "version", "mode", "restarted" after so many reads of counters, "die_after" seconds of
            traffic, "foreign" frames.
    """

    def __init__(self, wrong: dict[str, Any]) -> None:
        self.wrong = wrong
        self.lock = threading.Lock()
        self.ports = {number: Port() for number in PORTS}
        self.reads = 0
        if owner := wrong.get("owner"):
            for port in self.ports.values():
                port.owner = {"user": owner, "session": "another"}
        if wrong.get("leftover"):
            endless = {"frames": 10**12, "pps": 1000.0, "probe": None, "isg": 0}
            for port in self.ports.values():
                port.running = [Running(endless, 1.0)]
        for number in wrong.get("link_down", ()):
            self.ports[number].link = "DOWN"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(self.wrong.get("slow", 0.0))
        with self.lock:
            try:
                return {"result": getattr(self, f"do_{request['method']}")(request["params"])}
            except RuntimeError as error:
                return {"error": str(error)}

    def do_api_sync_v2(self, params: dict[str, Any]) -> Any:
        if mode := self.wrong.get("mode"):
            raise RuntimeError(
                f"RPC configuration mismatch - server RPC configuration: '{mode}', "
                "client RPC configuration: 'STL'"
            )
        if params["version"] != self.wrong.get("version", RPC_VERSION):
            raise RuntimeError(
                "\x1b[1mVersion mismatch\x1b[0m: server: "
                f"'{self.wrong.get('version', RPC_VERSION)}', client: '{params['version']}'"
            )
        return {"api_h": "handle"}

    def do_get_version(self, params: dict[str, Any]) -> Any:
        return {"version": "v3.08-double", "mode": "STL"}

    def do_get_system_info(self, params: dict[str, Any]) -> Any:
        return {"dp_core_count": 1, "port_count": len(self.ports)}

    def do_get_port_attr(self, params: dict[str, Any]) -> Any:
        port = self.ports[params["port_id"]]
        return {
            "driver": "net_double",
            "speed": 100.0,
            "src_mac": "02:00:00:00:00:01",
            "link": port.link,
            "owner": port.owner and port.owner["user"],
            "status": "TRANSMITTING" if port.busy() else "IDLE",
            "description": "double",
        }

    def _owned(self, params: dict[str, Any]) -> Port:
        port = self.ports[params["port_id"]]
        if port.owner is None or port.owner["session"] != params["session"]:
            who = port.owner["user"] if port.owner else "nobody"
            raise RuntimeError(f"port {params['port_id']} is owned by '{who}'")
        return port

    def do_acquire(self, params: dict[str, Any]) -> Any:
        port = self.ports[params["port_id"]]
        taken = port.owner is not None and port.owner["session"] != params["session"]
        if taken and not params["force"]:
            assert port.owner is not None
            raise RuntimeError(f"port is already taken by '{port.owner['user']}'")
        port.owner = {"user": params["user"], "session": params["session"]}
        return {}

    def do_release(self, params: dict[str, Any]) -> Any:
        self._owned(params).owner = None
        return {}

    def do_add_stream(self, params: dict[str, Any]) -> Any:
        port = self._owned(params)
        if port.busy():
            raise RuntimeError("port is transmitting")
        port.streams.append(params["stream"])
        return {}

    def do_remove_all_streams(self, params: dict[str, Any]) -> Any:
        port = self._owned(params)
        if port.busy():
            raise RuntimeError("cannot be executed on current state: 'TRANSMITTING'")
        port.streams = []
        return {}

    def do_start_traffic(self, params: dict[str, Any]) -> Any:
        port = self._owned(params)
        port.forget()
        # Probes keep their own pace whatever the load's is.
        load = sum(s["pps"] for s in port.streams if s["probe"] is None)
        pace = min(1.0, self.wrong.get("ceiling", 1e9) / load) if load else 1.0
        port.running = [Running(s, pace if s["probe"] is None else 1.0) for s in port.streams]
        if (after := self.wrong.get("die_after")) is not None:
            threading.Timer(after, os._exit, (9,)).start()
        return {}

    def do_stop_traffic(self, params: dict[str, Any]) -> Any:
        self._owned(params).halt()
        return {}

    def do_get_port_stats(self, params: dict[str, Any]) -> Any:
        self.reads += 1
        if self.wrong.get("restarted", self.reads) < self.reads:
            raise RuntimeError(
                "API verification failed - API handler provided mismatch for class: 'STL'"
            )
        number = params["port_id"]
        sent, far = self.ports[number].sent(), self.ports[number ^ 1].sent()
        kept = 1.0 - self.wrong.get("loss", 0.0)
        received = 5_000_000 + math.floor((far - 1_000_000) * kept)
        if self.wrong.get("frozen"):
            sent, received = 1_000_000, 5_000_000
        if self.wrong.get("back") and self.reads > self.wrong["back"]:
            sent = 10
        if self.wrong.get("foreign") and self.ports[number ^ 1].running:
            received += self.wrong["foreign"]
        return {
            "opackets": sent,
            "ipackets": received,
            "obytes": sent * 64,
            "ibytes": received * 64,
            # Smoothed over seconds: no use for anything.
            "m_total_tx_pps": 17.0,
            "m_total_rx_pps": 17.0,
        }

    def do_get_global_stats(self, params: dict[str, Any]) -> Any:
        return {"m_total_queue_drop": 7, "m_total_queue_full": 0}

    def do_get_pgid_stats(self, params: dict[str, Any]) -> Any:
        found = {}
        for number, port in self.ports.items():
            for one in port.running:
                if one.probe in params["pgids"]:
                    found[str(one.probe)] = {"frames": one.sent(), "port": number}
        return found


class Handler(socketserver.StreamRequestHandler):
    """One client; when it vanishes its traffic goes on, and its ports stay its own."""

    def handle(self) -> None:
        server = cast("Listener", self.server)
        for line in self.rfile:
            answer = server.double.answer(json.loads(line))
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    double: Server


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    say("Starting  TRex v3.08 please wait  ... " + " ".join(sys.argv[2:]))
    if settings["wrong"].get("refuses"):
        say("ERROR in configuration file")
        raise SystemExit(1)
    time.sleep(settings["wrong"].get("starts_after", 0.05))
    listener = Listener(("127.0.0.1", settings["sync"]), Handler)
    listener.double = Server(settings["wrong"])
    listener.serve_forever()


if __name__ == "__main__":
    main()
