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


class Turns(NamedTuple):
    """How a forwarding thread shares its processor.

    Attributes:
        turn_us: It sleeps until multiples of this, microseconds.
        phase_us: Its turns begin so much later than multiples of that.
        priority: Of SCHED_FIFO; 0 for a normal thread.
    """

    turn_us: int
    phase_us: int
    priority: int


def turns_of(plan: Plan, role: str) -> Turns | None:
    """How a VNF's thread takes turns; None where testpmd may poll all the time.

    In the virtual lab every processor is emulated in turn, and testpmd stays.
    """
    placement = plan.placement
    if placement.emulated or not placement.takes_turns(role) or not placement.turn_us:
        return None
    return Turns(placement.turn_of(role), placement.phase_of(role), placement.priority_of(role))


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
            "turn-us": self.turns.turn_us,
            "phase-us": self.turns.phase_us,
            "priority": self.turns.priority,
            **peers,
        }
        return [f"--{name}={value}" for name, value in values.items()]


def forwarder_path() -> str:
    """The executable, built unless it has been before."""
    return str(ENGINE.executable(default_variant()))
