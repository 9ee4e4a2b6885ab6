"""The NAT in XDP: programs at both ports translate, and the kernel's stack sees no frame."""

from __future__ import annotations

import re
import struct
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from vnetperf.host.linux import read_file
from vnetperf.host.machine import Machine
from vnetperf.host.xdp import ATOMIC, CLANG, BpfObject, compile_program
from vnetperf.model.deployment import Port, dut_mac, port_mac
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.nat import Nat, NatBehaviour
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.cgnat.base import (
    COMPUTED_BLOCKS,
    INSIDE,
    OUTSIDE,
    NatOptions,
    NatSwitch,
    find_nat,
)
from vnetperf.vswitches.xdp.switch import INDEX, Xdp

PROGRAMS = Path(__file__).with_name("bpf")
#: Maps that the programs of both ports and the timer have in common (bpf/nat.h).
SHARED = ("insides", "places", "second", "tallies", "target")
#: Places in `tallies`.
MADE, ENDED = 0, 1
#: Causes of drops that only these programs have, in their order.
OWN_CAUSES = ("no target", "mapping that is ending")
#: UDP, TCP and ICMP have ports, or identifiers, of their own.
KINDS = 3
#: Octets of a public port of a kind, and most of these: 1 GiB.
PLACE_OCTETS, MOST_PLACES = 8, 1 << 27
#: Places that are looked at in one call: the kernel runs a loop of no more than 2^23.
AT_ONCE: Final = 1 << 20
_SPAN = struct.Struct("=4I")


def numbers(nat: Nat, options: NatOptions, room: int, macs: dict[str, str]) -> dict[str, int | str]:
    """Macros of the programs' sources: `room` is the mappings at most, `macs` are by macro."""
    return {
        "INSIDE_FIRST": f"{int(nat.first_inside)}u",
        "SUBSCRIBERS": f"{nat.subscribers}u",
        "POOL": f"{int(nat.pool.network_address)}u",
        "ADDRESSES": f"{nat.public_addresses}u",
        "BLOCK": f"{nat.block_size}u",
        "PER_ADDRESS": f"{nat.per_address}u",
        "ROOM": room,
        "UDP_S": options.udp_timeout,
        "TCP_S": options.tcp_timeout,
        "TCP_TRANSITORY_S": options.tcp_transitory_timeout,
        "ICMP_S": options.icmp_timeout,
        **{name: f"0x{mac.replace(':', '')}ULL" for name, mac in macs.items()},
    }


@cache
def counted_names() -> tuple[str, ...]:
    """What a port's program counts, in its order: frames taken, and drops by cause."""
    text = read_file(PROGRAMS.parent / "engine/types.h")
    _, *causes = re.findall(r'X\(\w+, "([^"]+)"\)', text)
    return ("taken", *causes, *OWN_CAUSES)


class XdpNat(NatSwitch, Xdp):
    """Mode xdp: mappings in maps of the kernel, made and looked up by a program in the driver.

    A session is a mapping: what an endpoint outside does has no state of its own.
    """

    instead: ClassVar[str] = "--set mode=nft"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._code: dict[Port, bytes] = {}

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps programs from being compiled, loaded, or from holding the blocks."""
        nat = find_nat(scenario)
        places = KINDS * nat.subscribers * nat.block_size
        if places > MOST_PLACES:
            return (
                f"mode xdp has {PLACE_OCTETS} octets for each public port of UDP, TCP and ICMP, "
                f"and {nat.subscribers} blocks of {nat.block_size} ports are {places}: at most "
                f"{MOST_PLACES}; give fewer or smaller blocks with --nat, or another mode"
            )
        return facts.missing_program(CLANG) or facts.bpf or super(Xdp, cls).missing(facts, scenario)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """The programs, for `--plan`."""
        nat = find_nat(plan.scenario)
        return {"XDP": f"translate at {INSIDE} and {OUTSIDE}, native, {nat}"}

    @property
    def hook(self) -> str:
        """Always in drivers: a NAT behind the kernel's buffers is what mode nft is."""
        return "native"

    @property
    def counted(self) -> tuple[str, ...]:
        """Frames taken, and the causes of drops."""
        return counted_names()

    @property
    def tables(self) -> BpfObject:
        """What has the maps, and the timer that ends mappings."""
        return self.loaded("tables")

    def prepare(self) -> None:
        """Compile the programs of both ports; load the tables, and start their timer."""
        graph = self.plan.scenario.deployment
        ends = tuple(enumerate((INSIDE, OUTSIDE)))
        macs = {f"OWN_{n}": dut_mac(port) for n, port in ends}
        macs |= {f"HOP_{n}": port_mac(graph, port, 0) for n, port in ends}
        values = numbers(self.nat, self.options, self.max_sessions, macs)
        source = PROGRAMS / "translate.c"
        self._code = {
            p: compile_program(self.clang, source, ATOMIC, FROM=n, **values) for n, p in ends
        }
        code = compile_program(self.clang, PROGRAMS / "sessions.c", ATOMIC, **values)
        self.objects["tables"] = BpfObject("tables of the NAT", code)
        if self.tables.run("begin")[0]:
            raise HostError("the timer that ends mappings cannot be started", where="mode xdp")

    def load(self, port: Port) -> BpfObject:
        """A port's program, by the common tables."""
        shared = {name: self.tables.map(name) for name in SHARED}
        return BpfObject(f"NAT at {port}", self._code[port], shared)

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Tell the programs where frames go."""

        def direct() -> None:
            for number, port in enumerate((INSIDE, OUTSIDE)):
                if port in self.ports:
                    index = INDEX.pack(self.ports[port].index)
                    self.tables.map("target").update(INDEX.pack(number), index)

        self.in_namespace(direct)

    def forget(self, port: Port) -> None:
        """Send nothing to a port any more."""
        self.tables.map("target").delete(INDEX.pack((INSIDE, OUTSIDE).index(port)))

    def link_came_up(self, port: Port) -> None:
        """Start the port's threads anew; there are no routes."""
        super(Xdp, self).link_came_up(port)

    def counters(self) -> tuple[HopCounters, ...]:
        """What both ports took, sent and dropped, by cause."""
        causes = {str(port): self.causes(port) for port in self.ports}
        return tuple(
            hop.model_copy(update={"causes": causes[hop.port]}) for hop in super().counters()
        )

    def sessions(self) -> int:
        """Mappings that there are."""
        return self._tally(MADE) - self._tally(ENDED)

    def _tally(self, index: int) -> int:
        return int(self.tables.map("tallies").sums(INDEX.pack(index))[0])

    def end_sessions(self) -> None:
        """End all mappings."""
        places = KINDS * self.nat.subscribers * self.nat.block_size
        for first in range(0, places, AT_ONCE):
            self.tables.run("look", _SPAN.pack(first, min(AT_ONCE, places - first), 0, 1))
        if remaining := self.sessions():
            raise DutError(f"{remaining} sessions are left", where=self.name)

    @classmethod
    def behaviour(cls, scenario: Scenario, **extra_fields: Any) -> NatBehaviour:
        """Of its programs: fragments are dropped, a session is a mapping."""
        return super().behaviour(
            scenario,
            mapping="endpoint-independent",
            filtering="endpoint-independent",
            hairpinning=True,
            fragments=False,
            reset_s=scenario.options.own(NatOptions).tcp_transitory_timeout,
            session_limit=0,
            random_ports=False,
            **COMPUTED_BLOCKS,
            **extra_fields,
        )

    def facts(self) -> dict[str, Any]:
        """Programs, the mode that was read back, tables, and drops by cause."""
        return {
            **super().facts(),
            "program": "translate",
            "mode": self.mode,
            "nat": str(self.nat),
            "behaviour": self.behaviour_facts(),
            "room for sessions": self.max_sessions,
            "mappings made and ended": [self._tally(MADE), self._tally(ENDED)],
            "timeouts": self.options.model_dump(exclude={"max_sessions"}),
        }
