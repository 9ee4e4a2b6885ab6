"""The contract of an endpoint tool: its command lines, and what its output means.

A tool runs nothing. Whoever has the two ends starts a server, waits until it listens, starts a
client, waits for its end, ends the server, and hands over what both have written. Each instance of
a transfer has a server and a client of its own, and payload of a stream goes from client to server.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from vnetperf.backend import Requirements
from vnetperf.model.outcomes import Figures, Kind, TransferSpec
from vnetperf.model.testbed import MachineFacts, Program


@dataclass(frozen=True, slots=True)
class Sockets:
    """Where one instance talks.

    Attributes:
        server: IPv4 address of the server.
        client: IPv4 address of the client.
        port: First port of the server; a tool has `ports` of them.
    """

    server: str
    client: str
    port: int


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What one instance has written.

    Attributes:
        client: Output of the client.
        server: Output of the server.
        version: What the client's end says its version is.
    """

    client: str
    server: str
    version: str


class UnreadableError(ValueError):
    """A tool's output is no result: which tool, of which version, and what is missing."""


class EndpointTool(Requirements, ABC):
    """A tool that measures between two sockets.

    Attributes:
        name: What users call it.
        package: The package that has it.
        programs: Programs of the client and of the server; a name alone is a program of `package`.
        kinds: What it can do.
        version_argv: How its client is asked for its version.
        ports: Ports that one server takes.
        end_server_by: Signal by which a server ends in order.
        tells_machines_cpu: True when the processor use that it tells is that of the whole machine.
    """

    package: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]
    version_argv: ClassVar[tuple[str, ...]]
    ports: ClassVar[int] = 1
    end_server_by: ClassVar[signal.Signals] = signal.SIGTERM
    tells_machines_cpu: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        named: tuple[Program | str, ...] = cls.programs
        cls.programs = tuple(
            Program(name=one, package=cls.package) if isinstance(one, str) else one for one in named
        )

    def missing(self, facts: MachineFacts) -> str:
        """What keeps it from running on the machine.

        Args:
            facts: The machine.

        Returns:
            "" when nothing does; otherwise what is missing and the cure.
        """
        return self.missing_requirement(facts)

    def cannot(self, spec: TransferSpec) -> str:
        """Why it cannot do what is asked.

        Args:
            spec: What is asked.

        Returns:
            "" when it can; otherwise why not and what is accepted.
        """
        if spec.kind not in self.kinds:
            return f"{self.name} cannot do {spec.kind}; it can do {', '.join(self.kinds)}"
        least = self.least_message(spec.kind)
        if spec.message_size is not None and spec.message_size < least:
            return (
                f"{self.name} sends messages of {least} octets and more in {spec.kind}, "
                f"not of {spec.message_size}"
            )
        if spec.rate_bps and not self.paces(spec):
            return f"{self.name} cannot send {spec.kind} at a rate"
        return ""

    def least_message(self, kind: Kind) -> int:
        """The smallest message it sends, octets."""
        del kind
        return 1

    def paces(self, spec: TransferSpec) -> bool:
        """Whether it can offer a stream at a given rate."""
        del spec
        return False

    def listens_by_udp(self, spec: TransferSpec) -> bool:
        """Whether its server waits at a UDP port, and not at a TCP port."""
        del spec
        return False

    @abstractmethod
    def server(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """Command line of a server that serves one client in the foreground.

        Args:
            at: Addresses and port.
            spec: What is asked.

        Returns:
            Program and arguments.
        """

    @abstractmethod
    def client(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """Command line of the client.

        Args:
            at: Addresses and port.
            spec: What is asked; its way does not matter.

        Returns:
            Program and arguments.
        """

    @abstractmethod
    def read(self, said: ToolOutput, spec: TransferSpec) -> Figures:
        """What one instance measured.

        Args:
            said: What both ends have written.
            spec: What was asked.

        Returns:
            Figures; none that the tool does not tell.

        Raises:
            UnreadableError: It failed, or its output lacks what must be there.
        """

    def version(self, said: ToolOutput) -> str:
        """Name and version for the report.

        Args:
            said: What an instance has written.

        Returns:
            "iperf 3.12".
        """
        return said.version.partition("\n")[0].strip()

    def unreadable(self, said: ToolOutput, what: str) -> UnreadableError:
        """The one error of an output that is no result.

        Args:
            said: What was written.
            what: What is wrong with it.

        Returns:
            To be raised.
        """
        tail = " / ".join(said.client.strip().splitlines()[-3:])[-500:]
        return UnreadableError(
            f"{self.name} ({self.version(said) or 'version unknown'}): {what}; "
            f"its output ends with: {tail or '(nothing)'}"
        )

    def figure(self, said: ToolOutput, what: str, get: Callable[[], float]) -> float:
        """One figure that must be there, finite and not negative.

        Args:
            said: What was written.
            what: What the figure is called in the output.
            get: Reads it.

        Returns:
            The figure.

        Raises:
            UnreadableError: It is not there, or no such number.
        """
        try:
            value = float(get())
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise self.unreadable(said, f"its output lacks {what}") from error
        if not 0 <= value < float("inf"):
            raise self.unreadable(said, f"{what} is {value:g}, which cannot be")
        return value
