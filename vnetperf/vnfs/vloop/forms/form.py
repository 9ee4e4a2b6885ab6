"""What a form of the kernel is: steps that tools of the distribution take, whatever place it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from vnetperf.host.linkstats import LinkStatistics


@dataclass(frozen=True)
class Port:
    """A port of the VNF, as it is inside.

    Attributes:
        netdev: Name of the interface there.
        index: Its index there.
        peer_mac: Address that frames it sends must carry, where they are written anew; "" where
            nothing is sent.
        network: Test network beyond it, "198.19.0.0/16".
    """

    netdev: str
    index: int
    peer_mac: str
    network: str


@dataclass(frozen=True)
class Run:
    """A tool that is run to its end.

    Attributes:
        argv: Program and arguments.
    """

    argv: tuple[str, ...]


def tool(line: str) -> Run:
    """A tool by its command line, in which no word has a blank."""
    return Run(tuple(line.split()))


@dataclass(frozen=True)
class Put:
    """A file that later steps read.

    Attributes:
        name: Its name; the place says where it is, and `FILE` stands for that in the next step.
        content: What it holds.
    """

    name: str
    content: bytes


#: Stands in a step's arguments for the path of the file that was put before.
FILE = "{file}"
Step = Run | Put


class Place(Protocol):
    """Where a form is set up: a container, a guest."""

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end; its output."""

    def write(self, name: str, content: bytes) -> str:
        """Write a file; its path there."""

    def statistics(self) -> dict[str, LinkStatistics]:
        """Statistics of all interfaces there."""


class Form(ABC):
    """One way in which the kernel forwards between two interfaces.

    Attributes:
        name: The mode that users ask for.
        attachments: Kinds of attachment whose interfaces it works on.
        modules: Kernel modules it needs.
        keeps_own_mac: True where an interface must not have the address that frames carry: they
            are to go through, and the kernel would keep them.
        made: Names of the interfaces that it makes.
    """

    name: ClassVar[str]
    attachments: ClassVar[tuple[str, ...]]
    modules: ClassVar[tuple[str, ...]] = ()
    keeps_own_mac: ClassVar[bool] = False
    made: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def steps(cls, ports: tuple[Port, Port]) -> tuple[Step, ...]:
        """What sets it up, once both interfaces are there and up.

        Args:
            ports: Ports 0 and 1.

        Returns:
            Steps in order.
        """


def follow(place: Place, steps: Sequence[Step]) -> list[str]:
    """Take the steps of a form.

    Args:
        place: Where.
        steps: Which.

    Returns:
        Command lines that were run, for the result.

    Raises:
        HostError: One failed, with what it said.
    """
    lines, file = [], ""
    for step in steps:
        if isinstance(step, Put):
            file = place.write(step.name, step.content)
            continue
        argv = [file if word == FILE else word for word in step.argv]
        place.run(argv)
        lines.append(" ".join(argv))
    return lines
