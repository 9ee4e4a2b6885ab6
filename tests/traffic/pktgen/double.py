"""A double of Pktgen-DPDK 23.06, as it was seen: real Lua, invented frames.

Its two ports are looped to each other. What it does as the program does:

* wants a terminal; listens with a Lua prompt that neither prompts nor echoes; one client at a time;
  Lua state outlives connections; lines of more than 8191 octets fall apart; `print`, values of
  expressions and errors go to the terminal only;
* ends when `pktgen.load` or `pktgen.quit` is called from the socket;
* takes unknown ports, sizes and rates silently: sizes and rates are clamped, rates cut to whole
  frames/s and those to whole cycles;
* refreshes counters now and then, from a base that `clear` sets; probes are counted with frames;
* keeps to the time of its first burst, set when it started;
* leaves the sockets that it listened on, and does not start where one is left.

PKTGEN_DOUBLE names faults, "name=value,...": see FAULTS.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lupa.lua54 import LuaError, LuaRuntime

HZ, LINK, LINE = 2_600_000_000, 100_000_000_000, 8191
PROBE, FIRST_BURST_S = 72, 0.2
#: Fault -> what it is without one.
FAULTS = {
    "refresh": 0.2,  # seconds between two refreshes of the counters
    "loss": 0.0,  # share of frames that do not come back
    "frozen": 0.0,  # 1: counters stay as they are
    "negative": 0.0,  # 1: the base of counters is ahead of them
    "ceiling": 1e6,  # frames/s that a port can send
    "down": 0.0,  # 1: port 1 has no link
    "mute": 0.0,  # 1: takes connections and does not answer
    "foreign": 0.0,  # ARP frames that each port receives in a trial
    "ports": 2.0,
}


@dataclass
class Port:
    """A port."""

    number: int
    octets: float = 60.0
    rate: float = 100.0
    burst: int = 64
    count: int = 0
    began: float | None = None
    left: int = 0
    probing: bool = False
    probe_us: int = 10_000
    # Counted by now, and as it was last refreshed.
    live: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    base: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    probes: int = 0
    arp: int = 0

    @property
    def pps(self) -> int:
        return int(LINK // int((self.octets + 24) * 8) * self.rate / 100)

    @property
    def gap(self) -> int:
        return HZ // self.pps if self.pps else HZ


NAMES = ("opackets", "ipackets", "obytes", "ibytes", "oerrors", "ierrors", "imissed", "rx_nombuf")


class Pktgen:
    """The program behind its Lua functions."""

    def __init__(self, faults: dict[str, float], files: dict[int, float]) -> None:
        self.faults = faults
        self.ports = [Port(n, files.get(n, 60.0)) for n in range(int(faults["ports"]))]
        self.ready = time.monotonic() + FIRST_BURST_S
        self.lock = threading.Lock()
        self.lua: Any = None

    def chosen(self, text: Any) -> list[Port]:
        """Ports of a list such as "0-1" or "0,1" or "all"; unknown ones are left out silently."""
        numbers: set[int] = set()
        for part in str(text).split(","):
            first, _, last = part.partition("-")
            if part == "all":
                numbers |= set(range(len(self.ports)))
            else:
                numbers |= set(range(int(first), int(last or first) + 1))
        return [port for port in self.ports if port.number in numbers]

    def advance(self) -> None:
        """Send what is due by now, into the other port."""
        now = time.monotonic()
        for port in self.ports:
            if port.began is None or now < self.ready:
                continue
            fps = min(HZ / port.gap, self.faults["ceiling"])
            due = int((now - max(port.began, self.ready)) * fps)
            sent = min(due, port.count or due) - (port.count - port.left if port.count else 0)
            sent = max(0, min(sent, port.left) if port.count else sent)
            port.left -= sent
            probes = int(sent / fps * 1e6 / port.probe_us) + 1 if port.probing and sent else 0
            self.carry(port, sent, probes)
            if port.count and port.left <= 0:
                port.began = None
            elif not port.count:
                port.began = now

    def carry(self, port: Port, frames: int, probes: int) -> None:
        far = self.ports[1 - port.number]
        back = frames - int(frames * self.faults["loss"])
        port.live["opackets"] += frames + probes
        port.live["obytes"] += int(frames * port.octets) + probes * PROBE
        far.live["ipackets"] += back + probes
        far.live["ibytes"] += int(back * port.octets) + probes * PROBE
        far.probes += probes

    def refresh(self) -> None:
        while True:
            time.sleep(self.faults["refresh"])
            with self.lock:
                self.advance()
                if not self.faults["frozen"]:
                    for port in self.ports:
                        port.seen = {n: port.live[n] - port.base[n] for n in NAMES}

    # What Lua calls.

    def set(self, ports: Any, what: str, value: Any) -> None:
        for port in self.chosen(ports):
            if what == "count":
                port.count = int(value) & 0xFFFFFFFF
            elif what == "rate":
                port.rate = min(100.0, float(value) or 0.01)
            elif what in ("burst", "txburst"):
                port.burst = max(1, min(128, int(value)))
            elif what == "size":
                port.octets = max(64, min(1518, int(value))) - 4
            elif what not in ("sport", "dport", "ttl", "seq_cnt", "rxburst"):
                raise ValueError(f"set does not support {what}")

    def start(self, ports: Any) -> None:
        for port in self.chosen(ports):
            port.began, port.left = time.monotonic(), port.count

    def stop(self, ports: Any) -> None:
        self.advance()
        for port in self.chosen(ports):
            port.began = None

    def clear(self, ports: Any) -> None:
        self.advance()
        for port in self.chosen(ports):
            port.base = dict(port.live)
            if self.faults["negative"]:
                port.base["opackets"] += 10**6
            port.seen = dict.fromkeys(NAMES, 0)
            port.probes = 0
            port.arp = int(self.faults["foreign"])
            port.live["ipackets"] += port.arp

    def latency(self, ports: Any, what: str, value: Any = None) -> None:
        for port in self.chosen(ports):
            if what == "rate":
                port.probe_us = min(1_000_000, int(value) or 10_000)
            else:
                port.probing = what in ("on", "enable")

    def is_sending(self, ports: Any) -> Any:
        self.advance()
        found = {p.number: "n" if p.began is None else "y" for p in self.chosen(ports)}
        return self.table({**found, "n": len(found)})

    def link_state(self, ports: Any) -> Any:
        found = {
            p.number: "<--Down-->" if self.faults["down"] and p.number else "<UP-100000-FD>"
            for p in self.chosen(ports)
        }
        return self.table({**found, "n": len(found)})

    def port_stats(self, ports: Any, kind: str) -> Any:
        assert kind == "port"
        return self.table({p.number: self.table(p.seen) for p in self.chosen(ports)})

    def pkt_stats(self, ports: Any) -> Any:
        found = {}
        for p in self.chosen(ports):
            times = {"min_cycles": 500, "avg_cycles": 2600, "max_cycles": 52_000}
            latency = {"num_pkts": p.probes, "num_skipped": 0, **(times if p.probes else {})}
            found[p.number] = self.table({"arp_pkts": p.arp, "latency": self.table(latency)})
        return self.table(found)

    def port_info(self, ports: Any) -> Any:
        found = {}
        for p in self.chosen(ports):
            debug = self.table({"tx_pps": p.pps, "tx_cycles": p.gap * p.burst})
            found[p.number] = self.table({"info": self.table({"tx_debug": debug})})
        return self.table(found)

    def table(self, items: dict[Any, Any]) -> Any:
        made = self.lua.table()
        for key, value in items.items():
            made[key] = value
        return made


def say(*values: Any) -> None:
    """To the terminal, as `print` of Lua."""
    sys.stdout.write(" ".join(map(str, values)) + "\n")
    sys.stdout.flush()


def crash(*ignored: Any) -> None:
    del ignored
    say("====== Pktgen got a Segment Fault")
    os.kill(os.getpid(), signal.SIGSEGV)


class Prompt:
    """The Lua prompt at the socket."""

    def __init__(self, pktgen: Pktgen) -> None:
        self.lua = LuaRuntime(unpack_returned_tuples=True)
        self.pktgen = pktgen
        pktgen.lua = self.lua
        self.client: socket.socket | None = None
        known: dict[str, Any] = {
            "set": pktgen.set,
            "start": pktgen.start,
            "stop": pktgen.stop,
            "clear": pktgen.clear,
            "latency": pktgen.latency,
            "isSending": pktgen.is_sending,
            "linkState": pktgen.link_state,
            "portStats": pktgen.port_stats,
            "pktStats": pktgen.pkt_stats,
            "portInfo": pktgen.port_info,
            "portCount": lambda: len(pktgen.ports),
            "load": crash,
            "quit": crash,
        }
        silent = ("screen", "set_mac", "set_ipaddr", "set_proto", "set_type", "pattern", "pcap")
        known |= dict.fromkeys((*silent, "set_range"), lambda *ignored: None)
        table = pktgen.table(known)
        table["info"] = pktgen.table(
            {"Pktgen_Version": "Pktgen 23.06.1", "DPDK_Version": "DPDK 22.11.11"}
        )
        self.lua.globals().pktgen = table
        self.lua.globals().print = say
        self.lua.globals().io = pktgen.table({"write": self.write, "flush": lambda: None})

    def write(self, *values: Any) -> None:
        text = "".join(
            f"{value:.14g}" if isinstance(value, float) else f"{value}" for value in values
        )
        if self.client is not None:
            self.client.sendall(text.encode())

    def serve(self, listener: socket.socket) -> None:
        while True:
            self.client, _ = listener.accept()
            if self.pktgen.faults["mute"]:
                time.sleep(3600)
            with self.client, self.client.makefile("rb") as lines:
                # As fgets reads: what is beyond a buffer is a line of its own.
                while line := lines.readline(LINE):
                    self.line(line.decode(errors="replace").rstrip("\n"), lines)

    def line(self, text: str, lines: Any) -> None:
        say(text)
        try:
            chunk = self.compiled(f"return {text};") or self.compiled(text)
            while chunk is None:
                more = lines.readline(LINE)
                if not more:
                    return
                text += "\n" + more.decode(errors="replace").rstrip("\n")
                chunk = self.compiled(text)
            with self.pktgen.lock:
                chunk()
        except LuaError as error:
            say(f"lua: {error}")
        except (ValueError, TypeError) as error:
            say(f"lua: {error}")

    def compiled(self, text: str) -> Any:
        found = self.lua.globals().load(text, "=stdin")
        chunk, trouble = found if isinstance(found, tuple) else (found, None)
        if chunk is None and not text.startswith("return ") and not str(trouble).endswith("<eof>"):
            raise LuaError(trouble)
        return chunk


def arguments(argv: list[str]) -> tuple[int, dict[int, float]]:
    """Port to listen on, and mean octets of the frames in each port's file."""
    listen, files = 22022, {}
    for number, word in enumerate(argv):
        if word == "-g":
            listen = int(argv[number + 1].rpartition(":")[2])
        elif word.startswith("-s"):
            port, _, path = word[2:].partition(":")
            files[int(port)] = mean_octets(Path(path).read_bytes())
        elif word.startswith("--vdev=") and "role=server" in word:
            settings = dict(part.split("=", 1) for part in word.split(",") if "=" in part)
            path = Path(settings["socket"])
            if path.exists():
                sys.exit(f"!PANIC!: memif_socket_create(): {path}: Address already in use")
            socket.socket(socket.AF_UNIX).bind(str(path))
    return listen, files


def mean_octets(pcap: bytes) -> float:
    if pcap[:4] != b"\xd4\xc3\xb2\xa1":
        sys.exit("Invalid PCAP file")
    at, sizes = 24, []
    while at < len(pcap):
        length = int.from_bytes(pcap[at + 8 : at + 12], "little")
        sizes.append(max(60, length))
        at += 16 + length
    return sum(sizes) / len(sizes)


def main() -> None:
    if not os.isatty(0) or not os.isatty(1):
        sys.exit("no terminal")
    faults = dict(FAULTS)
    for part in filter(None, os.environ.get("PKTGEN_DOUBLE", "").split(",")):
        name, _, value = part.partition("=")
        faults[name] = float(value or 1)
    say("*** Pktgen (a double)")
    port, files = arguments(sys.argv[1:])
    pktgen = Pktgen(faults, files)
    listener = socket.create_server(("127.0.0.1", port), backlog=5)
    threading.Thread(target=pktgen.refresh, daemon=True).start()
    threading.Thread(target=Prompt(pktgen).serve, args=(listener,), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *ignored: os._exit(241))
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
