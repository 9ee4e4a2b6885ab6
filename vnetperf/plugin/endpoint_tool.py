"""The contract of an endpoint tool: its command lines, and how its output is read.

One that is `alone` measures the place that it runs in, and has no server.

A tool runs nothing. The caller starts a server, waits until it listens, starts a client, waits for
its end, ends the server, and hands over the output of both. Each instance of
a transfer has a server and a client of its own, and payload of a stream goes from client to server.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import AUTO, MAX_DATAGRAM, MAX_MESSAGE, Figures, Kind, TransferSpec
from vnetperf.plugin import registry
from vnetperf.plugin.requirements import Requirements
from vnetperf.plugin.vnf import EndpointHost, Vnf
from vnetperf.statistics.samples import contradiction

#: A decimal number of a tool's text, whole: of "1,5" or "1.5e+03" it is not the 1.
NUMBER = r"(\d{1,20}(?:\.\d{0,20})?)(?!\d|[.,eE][\d+-])"
#: A count of a tool's text.
COUNT = r"(\d{1,20})(?!\d|[.,]\d)"
#: What stands for "not counted" besides what is negative: -1 in 32 bits or 64 without a sign.
_NOT_COUNTED = (2.0**32 - 1, 2.0**64)
#: Share that a receiver counts more than its sender although nothing came twice: what was under way
#: when they looked.
_MORE = 1e-3
#: By how much two figures of one rate may differ, as a share of it: digits, and moments of a look.
_RATE_APART, _LOCKSTEP_APART = 0.01, 0.05


@dataclass(frozen=True, slots=True)
class Sockets:
    """Addresses and ports of one instance.

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
    """Output of one instance.

    Attributes:
        client: Output of the client.
        server: Output of the server.
        version: Output of `EndpointTool.version_argv` at the client.
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
        programs: Programs of the client and of the server.
        kinds: What it can do.
        version_argv: Command line that prints the version of its client.
        ports: Ports that one server takes.
        end_server_by: Signal by which a server ends in order.
        reports_machine_cpu: True when the processor use in its output is the whole machine's.
        alone: True when it has no server: it measures processors and memory (kinds GUEST_).
    """

    kinds: ClassVar[tuple[Kind, ...]]
    version_argv: ClassVar[tuple[str, ...]]
    ports: ClassVar[int] = 1
    end_server_by: ClassVar[signal.Signals] = signal.SIGTERM
    reports_machine_cpu: ClassVar[bool] = False
    alone: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Refuse the bare name of a program, which nobody would look for."""
        super().__init_subclass__()
        if any(isinstance(program, str) for program in cls.programs):
            raise TypeError(f"{cls.__name__}.programs: each is a vnetperf.plugin.backend.Program")

    def missing(self, facts: MachineFacts) -> str:
        """What keeps it from running on the machine.

        Args:
            facts: The machine.

        Returns:
            "" when nothing does; otherwise what is missing and the cure.
        """
        return self.missing_requirement(facts)

    def cannot(self, spec: TransferSpec) -> str:
        """Why it cannot run a transfer.

        Args:
            spec: The transfer.

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
        if spec.message_size is not None and spec.message_size > (most := self.most_message(spec)):
            return (
                f"{self.name} sends messages of {most} octets at most in {spec.kind}, "
                f"not of {spec.message_size}"
            )
        if spec.rate_bps and not self.paces(spec):
            return f"{self.name} cannot send {spec.kind} at a rate"
        return ""

    def most_message(self, spec: TransferSpec) -> int:
        """The largest message it sends, octets.

        Args:
            spec: The transfer.

        Returns:
            That of a datagram for UDP, by default.
        """
        return MAX_DATAGRAM if spec.is_udp else MAX_MESSAGE

    def least_message(self, kind: Kind) -> int:
        """The smallest message it sends, octets."""
        return 1

    def paces(self, spec: TransferSpec) -> bool:
        """Whether it can offer a stream at a given rate."""
        return False

    def listens_by_udp(self, spec: TransferSpec) -> bool:
        """Whether its server waits at a UDP port, and not at a TCP port."""
        return False

    @abstractmethod
    def server(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """Command line of a server that serves one client in the foreground.

        Args:
            sockets: Addresses and port.
            spec: The transfer.

        Returns:
            Program and arguments.
        """

    @abstractmethod
    def client(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """Command line of the client.

        Args:
            sockets: Addresses and port.
            spec: The transfer; its way does not matter.

        Returns:
            Program and arguments.
        """

    @abstractmethod
    def read(self, output: ToolOutput, spec: TransferSpec) -> Figures:
        """What one instance measured.

        Args:
            output: What both ends have written.
            spec: The transfer.

        Returns:
            Figures, without those that the tool does not report.

        Raises:
            UnreadableError: It failed, or its output lacks what must be there.
        """

    def version(self, output: ToolOutput) -> str:
        """Name and version for the report.

        Args:
            output: Of an instance.

        Returns:
            "iperf 3.12".
        """
        return output.version.partition("\n")[0].strip()

    def unreadable(self, output: ToolOutput, reason: str) -> UnreadableError:
        """The error for an output without a result.

        Args:
            output: Of an instance.
            reason: What is wrong with it.

        Returns:
            To be raised.
        """
        tail = " / ".join(output.client.strip().splitlines()[-3:])[-500:]
        return UnreadableError(
            f"{self.name} ({self.version(output) or 'version unknown'}): {reason}; "
            f"its output ends with: {tail or '(nothing)'}"
        )

    def figure(self, output: ToolOutput, label: str, get: Callable[[], float]) -> float:
        """One figure that must be there, finite and not negative.

        Args:
            output: Of an instance.
            label: Its name in the output.
            get: Reads it.

        Returns:
            The figure.

        Raises:
            UnreadableError: It is not there, or no such number.
        """
        try:
            value = float(get())
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise self.unreadable(output, f"its output lacks {label}") from error
        if not 0 <= value < float("inf"):
            raise self.unreadable(output, f"{label} is {value:g}, which cannot be")
        return value


def figure_or_none(value: object) -> float | None:
    """A figure that may lack: of what tools print where they have none, and of no number.

    Args:
        value: As it stands in the output. Where a kernel or a version does not count, tools leave
            it out, or print -1 with or without a sign, the least integer, null or NaN.

    Returns:
        The figure, finite and not negative; otherwise None.
    """
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < float("inf") and number not in _NOT_COUNTED else None


def consistent_times(
    times: Mapping[str, float], label: str, slack: float = 0.0
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Times of one distribution, unless they contradict each other.

    Args:
        times: "min", "mean", "max" and percentiles "50" ..., microseconds.
        label: What they are of, for the note.
        slack: Share by which one may be off, where it comes from coarse buckets.

    Returns:
        The times without notes; or none of them, and a note with the reason.
    """
    if reason := contradiction(times, slack):
        return {}, (f"{label} are not measured, since they contradict each other: {reason} us",)
    return {**times}, ()


def note_rate(
    label: str, bps: float, octets: float, seconds: float, digit_bps: float = 0.0
) -> tuple[str, ...]:
    """What to say where a rate is not that of its own octets and seconds.

    Args:
        label: Name of the rate in the output.
        bps: The rate, bit/s.
        octets: What was counted.
        seconds: In which time.
        digit_bps: What the last digit of the printed rate stands for, bit/s.

    Returns:
        A note where they differ; otherwise none.
    """
    by_octets = octets * 8 / seconds if seconds else 0.0
    if not by_octets or abs(bps - by_octets) <= _RATE_APART * by_octets + digit_bps / 2:
        return ()
    return (
        f"its {label} has {bps:g} bit/s, but {octets:.0f} octets in {seconds:g} s are "
        f"{by_octets:g}",
    )


def note_lockstep(rate: float, mean_us: float) -> tuple[str, ...]:
    """What to say where round trips that follow each other take more than all the time.

    Args:
        rate: Round trips in a second.
        mean_us: How long one takes, microseconds.

    Returns:
        A note where it is more; otherwise none.
    """
    if rate * mean_us / 1e6 <= 1 + _LOCKSTEP_APART:
        return ()
    return (
        f"{rate:g} round trips/s of {mean_us:g} us each take more than all the time, although one "
        "follows the other",
    )


def note_surplus(sent: float, arrived: float, unit: str) -> tuple[str, ...]:
    """What to say where more arrived than was sent.

    Args:
        sent: What the sender counted.
        arrived: What the receiver counted.
        unit: What is counted: "octets", "messages".

    Returns:
        A note where it is more; otherwise none.
    """
    if arrived <= sent * (1 + _MORE):
        return ()
    return (
        f"{arrived:.0f} {unit} arrived of {sent:.0f} sent: some arrived twice, or the two ends do "
        "not count the same",
    )


def choose_tool(
    spec: TransferSpec,
    requested: str,
    facts: MachineFacts,
    inside: Scenario | None = None,
    of_image: Sequence[str] | None = None,
) -> str:
    """The tool for a transfer.

    Args:
        spec: The transfer.
        requested: Name of the tool; `AUTO` for the first that can.
        facts: The machine.
        inside: The scenario, where an end is in a VNF or a guest.
        of_image: Tools of pods that are not on a machine.

    Returns:
        Its name.

    Raises:
        CapabilityError: None can.
    """
    reasons = []
    for name in tool_names(spec, requested):
        problem = find_tool_problem(spec, name, facts, inside, of_image)
        if not problem:
            return name
        reasons.append(problem)
    raise CapabilityError("; ".join(reasons), where=f"endpoint tool for {spec.kind}")


def tool_names(spec: TransferSpec, requested: str) -> Sequence[str]:
    """Tools to choose among.

    Args:
        spec: The transfer.
        requested: Name of the tool, or `AUTO`.

    Returns:
        Names in their order: of `AUTO` those that are made for such a transfer.
    """
    if requested != AUTO:
        return (requested,)
    names = registry.names("endpoints")
    return [name for name in names if registry.load("endpoints", name).alone is spec.is_alone]


def find_tool_problem(
    spec: TransferSpec,
    name: str,
    facts: MachineFacts,
    inside: Scenario | None,
    of_image: Sequence[str] | None,
) -> str:
    """What keeps a tool from a transfer on a machine, or where its programs are.

    Args:
        spec: The transfer.
        name: Name of the tool.
        facts: The machine.
        inside: The scenario, where an end is in a VNF or a guest.
        of_image: Tools of pods that are not on a machine.

    Returns:
        "" when nothing does; otherwise what and the cure.
    """
    tool: EndpointTool = registry.load("endpoints", name)()
    # Where both ends are in guests, no program runs on the machine.
    in_guests = inside is not None and not spec.is_alone and len(inside.ends_in_guests) == 2
    on_machine = of_image is None and not in_guests
    problem = tool.cannot(spec) or (tool.missing(facts) if on_machine else "")
    if of_image is not None and name not in of_image:
        problem = problem or f"{name} is not among the tools of the pods' image"
    if not problem and inside is not None:
        names = [program.name for program in tool.programs]
        vnf: type[Vnf] = registry.load_vnf(inside.vnf)
        problem = vnf.lacks_inside(inside, names) if issubclass(vnf, EndpointHost) else ""
    return problem
