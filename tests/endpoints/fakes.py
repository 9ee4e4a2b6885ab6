"""Ends of transfers without a machine: scripted programs, and what goes wrong with them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vnetperf.model.errors import HostError
from vnetperf.virt.endpoint import CpuTime, Endpoint, EndpointPair


@dataclass
class FakeProgram:
    """A program that ends after a while, with a text."""

    text: str = ""
    lasts_s: float = 0.0
    code: int = 0
    began: float = field(default_factory=time.monotonic)
    ended_by: signal.Signals | None = None

    def ended(self) -> int | None:
        """Its code once its time is over, or it was ended."""
        if self.ended_by is not None:
            return 0
        return self.code if time.monotonic() >= self.began + self.lasts_s else None

    def output(self) -> str:
        """Its text, once it has ended."""
        return self.text if self.ended() is not None else ""

    def cpu(self) -> CpuTime | None:
        """Always the same."""
        return CpuTime(0.25, 0.5)

    def end(self, by: signal.Signals) -> None:
        """End it."""
        if self.ended() is None:
            self.ended_by = by


@dataclass
class FakePlace:
    """A place whose programs are scripted.

    Attributes:
        client: Makes a client, by its command line.
        listens: What a server that was started does: it listens, or does not.
        server_lasts_s: Seconds until a server ends by itself.
        taken: Ports that others listen at.
        arrives: Packets that arrive between two looks.
        missing: True where tools are not installed.
        version: What its tools say of themselves, after their name.
    """

    client: Callable[[Sequence[str]], FakeProgram]
    listens: bool = True
    server_lasts_s: float = 1e9
    taken: set[int] = field(default_factory=set)
    arrives: int = 1
    missing: bool = False
    version: str = "1.0"
    started: list[tuple[str, tuple[str, ...], FakeProgram]] = field(default_factory=list)
    packets: int = 0

    @property
    def processors(self) -> str:
        """Always the same."""
        return "3"

    def run(self, argv: Sequence[str]) -> str:
        """Its sockets, or a version."""
        if argv[0] != "cat":
            if self.missing:
                raise HostError(f"{argv[0]} is not installed")
            return f"{argv[0]} {self.version}\n"
        open_ports = set(self.taken)
        for name, argv_of, program in self.started:
            if "server" in name and self.listens and program.ended() is None:
                open_ports.add(int(argv_of[-1]))
        rows = [f"0: 0100007F:{port:04X} 00000000:0000 0A 0" for port in open_ports]
        return "\n".join(["head", *rows])

    def start(self, name: str, argv: Sequence[str]) -> FakeProgram:
        """Start a server that stays, or a client by its script."""
        program = (
            FakeProgram("bad luck", self.server_lasts_s) if "server" in name else self.client(argv)
        )
        self.started.append((name, tuple(argv), program))
        return program

    def received(self, netdev: str) -> int:
        """Packets until now."""
        del netdev
        self.packets += self.arrives
        return self.packets


def ends(client: FakePlace, server: FakePlace) -> EndpointPair:
    """Two ends."""
    return EndpointPair(
        Endpoint("namespace at port 0", client, "198.18.0.1", "a"),
        Endpoint("namespace at port 1", server, "198.19.0.1", "b"),
    )
