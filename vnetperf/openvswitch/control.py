"""The control socket of Open vSwitch's daemons, and what its commands report."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vnetperf.host.linux import parse_count, parse_json
from vnetperf.host.wait import patient, receive
from vnetperf.model.errors import DutError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.trial import HopCounters

log = logging.getLogger(__name__)


class UnixCtl:
    """A connection to a control socket (JSON-RPC 1.0 over a stream)."""

    def __init__(self, path: str, timeout_s: float = 10.0) -> None:
        self.path = path
        self.timeout_s = timeout_s
        #: Called every `CHECK_S` while an answer is waited for; raises when none will come.
        self.check: Callable[[], None] = lambda: None
        self._socket: socket.socket | None = None
        self._number = 0

    def call(self, command: str, *parameters: str) -> str:
        """Run a command."""
        try:
            answer = self._exchange(command, parameters)
        except (OSError, ValueError) as error:
            self.close()
            raise DutError(f"no answer to {command}: {error}", where=self.path) from error
        except DutError:  # of the check: a late answer would be taken for the next one
            self.close()
            raise
        log.debug("%s: %s %s", Path(self.path).name, command, " ".join(parameters))
        if answer.get("error"):
            raise DutError(f"{command}: {answer['error']}", where=self.path)
        return str(answer["result"])

    def _exchange(self, command: str, parameters: tuple[str, ...]) -> dict[str, Any]:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(patient(self.timeout_s))
            self._socket.connect(self.path)
        self._number += 1
        request = {"id": self._number, "method": command, "params": list(parameters)}
        self._socket.sendall(json.dumps(request).encode())
        text = b""
        while True:
            piece = receive(self._socket, 65536, patient(self.timeout_s), self.check)
            if not piece:
                raise OSError("the daemon closed the connection")
            text += piece
            with contextlib.suppress(ValueError):  # not whole yet
                answer: dict[str, Any] = parse_json(text)
                return answer

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


#: Lines of "dpif-netdev/pmd-stats-show", and of "pmd-perf-show", with a count: OVS 2.17 to 4.0.
_PMD = re.compile(r"^pmd thread numa_id \d+ core_id (\d+):$", re.MULTILINE)
_PMD_ITERATIONS = re.compile(
    r"^pmd thread numa_id \d+ core_id (\d+):\n\s+Iterations: +(\d+) .*\n(?: +- (?!idle).*\n)*"
    r" +- idle iterations: +(\d+) ",
    re.MULTILINE,
)
_PMD_COUNT = re.compile(r"^  ([a-z][a-z ]*): (\d{1,20})(?: \([^()]*%\))?\r?$", re.MULTILINE)
LOOKUPS = {
    "phwol hits": "hardware offload",
    "simple match hits": "simple match",
    "emc hits": "exact match cache",
    "smc hits": "signature match cache",
    "megaflow hits": "megaflow",
    "miss with success upcall": "upcall",
    "miss with failed upcall": "failed upcall",
}


def parse_pmd_stats(text: str, perf: str = "") -> tuple[DatapathWork, ...]:
    """What PMD threads have counted, from the commands' texts; the main thread is left out."""
    rounds = {core: (int(a), int(b)) for core, a, b in _PMD_ITERATIONS.findall(perf)}
    text = text.partition("main thread:")[0]
    pieces = _PMD.split(text)
    work = []
    for core, block in zip(pieces[1::2], pieces[2::2], strict=True):
        counts = {name: int(count) for name, count in _PMD_COUNT.findall(block)}
        try:
            work.append(
                DatapathWork(
                    thread=f"core {core}",
                    packets=counts["packets received"],
                    busy_cycles=counts.get("processing cycles", 0),
                    idle_cycles=counts.get("idle cycles", 0),
                    polls=rounds[core][0] if core in rounds else None,
                    empty_polls=rounds[core][1] if core in rounds else None,
                    lookups={LOOKUPS[n]: count for n, count in counts.items() if n in LOOKUPS},
                )
            )
        except KeyError:
            raise DutError(
                f"no count of packets of the PMD thread on core {core}",
                where="dpif-netdev/pmd-stats-show",
            ) from None
    return tuple(work)


_PORT_LINE = re.compile(r"^\s*port \d+: (\S+)", re.MULTILINE)
_COUNTERS_LINE = re.compile(r"\b(RX|TX) packets:(\d+|\?).*?dropped:(\d+|\?)")


def parse_dpctl_show(text: str, names: Mapping[str, str]) -> tuple[HopCounters, ...]:
    """Counters from the command's text."""
    pieces = _PORT_LINE.split(text)
    hops = []
    for interface, block in zip(pieces[1::2], pieces[2::2], strict=True):
        if interface not in names:
            continue
        counts = {
            side: (parse_count(packets), parse_count(dropped))
            for side, packets, dropped in _COUNTERS_LINE.findall(block)
        }
        none = (None, None)
        (rx, rx_dropped), (tx, tx_dropped) = (counts.get(side, none) for side in ("RX", "TX"))
        if rx is None or tx is None:
            continue  # a port that is not counted is unknown, not empty
        hops.append(
            HopCounters(
                port=names[interface],
                rx=rx,
                tx=tx,
                rx_dropped=rx_dropped or 0,
                tx_dropped=tx_dropped or 0,
            )
        )
    return tuple(sorted(hops, key=lambda counters: counters.port))
