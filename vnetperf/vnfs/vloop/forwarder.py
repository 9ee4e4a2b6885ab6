"""Our own forwarder on DPDK, which sleeps in turns: where it takes testpmd's place, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from vnetperf.host.build import DpdkProgram, default_variant
from vnetperf.host.dpdk import ForwarderCommand, mbuf_room
from vnetperf.model.scenario import Plan

ENGINE = DpdkProgram("vloop", Path(__file__).with_name("engine"))
PROTOCOL = 1
#: A ring of 1024 frames holds what comes in between at 10 million frames/s.
TURN_US = 100
#: SCHED_FIFO: as the tester's, which wakes at the same time.
PRIORITY = 2


class Turns(NamedTuple):
    """How a forwarding thread shares its processor.

    Attributes:
        turn_us: It sleeps until multiples of this, microseconds.
        priority: Of SCHED_FIFO; 0 for a normal thread.
    """

    turn_us: int
    priority: int

    def options(self) -> list[str]:
        """The same as options of the forwarder."""
        return [f"--turn-us={self.turn_us}", f"--priority={self.priority}"]


def turns_of(plan: Plan, role: str) -> Turns | None:
    """How a VNF's thread takes turns; None where testpmd may poll all the time.

    In the virtual lab every processor is emulated in turn, and testpmd stays.
    """
    placement = plan.placement
    if placement.emulated or not placement.takes_turns(role):
        return None
    return Turns(TURN_US, PRIORITY)


@dataclass(frozen=True, kw_only=True)
class VloopCommand(ForwarderCommand):
    """A launch of our forwarder between two ports, of which each is the other's pair."""

    application: ClassVar[str] = "vnetperf forwarder"
    threads: ClassVar[tuple[str, ...]] = ("vloop-",)
    turns: Turns

    def options(self) -> list[str]:
        """Its own options."""
        peers = {f"peer{port}": mac for port, mac in self.peers.items() if self.mode == "mac"}
        values = {
            "mode": self.mode,
            "queues": self.queues,
            "rx-desc": self.rx_descriptors,
            "tx-desc": self.tx_descriptors,
            "buffers": self.buffers,
            "room": mbuf_room(self.mtu),
            "max-frame": self.max_frame,
            "node": self.node,
            **peers,
        }
        return [*(f"--{name}={value}" for name, value in values.items()), *self.turns.options()]


def forwarder_path() -> str:
    """The executable, built unless it has been before."""
    return str(ENGINE.executable(default_variant()))
