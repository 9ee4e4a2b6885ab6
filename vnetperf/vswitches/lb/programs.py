"""Services by eBPF: a program at each port, at traffic control or in XDP's native mode."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.host.xdp import CLANG, BpfObject, compile_program
from vnetperf.model.balancing import BACKEND_PORT, SERVICE_PORT
from vnetperf.model.deployment import PHY_PORTS, Port
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.vswitches.lb.base import BalancingSwitch
from vnetperf.vswitches.xdp import Xdp

SOURCE = Path(__file__).parent / "lb.c"
PROTOCOLS: dict[str, int] = {"udp": socket.IPPROTO_UDP, "tcp": socket.IPPROTO_TCP}
#: What ports have in common, and octets of the keys and values of lb.c.
SHARED = ("services", "backends", "flows")
FLOW_OCTETS, END_OCTETS, DIRECTION_AT = 24, 8, 20
_END, _CHOICE, _PLACE = struct.Struct("!IHxx"), struct.Struct("=II"), struct.Struct("=I")
_PROTOCOL = struct.Struct("=H")
#: Entries of a flow, one for each direction, and room for as many again: the kernel forgets the
#: least recently used ones of a processor's share before the whole table is full.
ENTRIES_OF_FLOW, FEWEST_ENTRIES = 4, 1 << 16


class ProgramBalancer(BalancingSwitch, Xdp):
    """Our own eBPF: a flow's backend is in a table that forgets the least recently used ones."""

    does_it: ClassVar[str] = f"{SOURCE.stem} at both ports,"
    instead: ClassVar[str] = "--set mode=tc"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._of_direction: tuple[bytes, bytes] = (b"", b"")

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps programs from being compiled or loaded."""
        trouble = facts.missing_program(CLANG) or facts.bpf
        if not trouble and scenario.options.mode == "tc":
            trouble = facts.tcx
        return trouble or super(Xdp, cls).missing(facts, scenario)

    @classmethod
    def source(cls, scenario: Scenario) -> Path:
        """The program."""
        return SOURCE

    @property
    def hook(self) -> str:
        """Where programs are attached: "native" for XDP's mode, "tc"."""
        return "tc" if self.mode == "tc" else "native"

    @property
    def entries(self) -> int:
        """Room of the table of flows."""
        return max(FEWEST_ENTRIES, ENTRIES_OF_FLOW * self.services.flows)

    def prepare(self) -> None:
        """Compile a program for each port, and make the maps that they have in common."""
        service_set = self.services
        numbers = {
            "SERVICES": service_set.services,
            "BACKENDS": service_set.services * service_set.backends,
            "ENTRIES": self.entries,
            **({"TC": 1} if self.hook == "tc" else {}),
        }
        towards, back = (
            compile_program(self.clang, SOURCE, (), DIRECTION=way, **numbers) for way in (0, 1)
        )
        self._of_direction = towards, back
        self.objects["tables"] = BpfObject("services", towards)
        services, backends = (self.loaded("tables").map(n) for n in ("services", "backends"))
        protocol = PROTOCOLS[self.protocol]
        for number in range(service_set.services):
            first = number * service_set.backends
            key = _END.pack(int(service_set.virtual(number)), SERVICE_PORT)[:6] + _PROTOCOL.pack(
                protocol
            )
            services.update(key, _CHOICE.pack(first, service_set.backends))
            for index, backend in enumerate(service_set.service_backends(number), first):
                backends.update(_PLACE.pack(index), _END.pack(int(backend), BACKEND_PORT))

    def load(self, port: Port) -> BpfObject:
        """The program of a port's direction, with the maps of both."""
        code = self._of_direction[port == PHY_PORTS[1]]
        shared = {name: self.loaded("tables").map(name) for name in SHARED}
        return self.addressed(BpfObject(f"lb at {port}", code, shared), port)

    def attach(self, code: BpfObject, netdev: str) -> None:
        """Attach a port's program."""
        if self.hook == "tc":
            code.attach_to_traffic_control("forward", netdev)
        else:
            super().attach(code, netdev)

    def hooks(self) -> dict[str, str]:
        """Where the kernel has the programs of the ports."""
        if self.hook != "tc":
            return super().hooks()
        return {
            str(port): "tc" for port, program in self.ports.items() if program.code.is_attached()
        }

    def sessions(self) -> int:
        """Flows that the table has."""
        flows = self.loaded("tables").map("flows").entries(FLOW_OCTETS, END_OCTETS)
        return sum(keys[DIRECTION_AT::FLOW_OCTETS].count(0) for keys in flows)

    def end_sessions(self) -> None:
        """Empty the table of flows."""
        for _ in self.loaded("tables").map("flows").entries(FLOW_OCTETS, END_OCTETS, delete=True):
            pass
        if remaining := self.sessions():
            raise DutError(f"{remaining} flows are left", where=self.name)

    def facts(self) -> dict[str, Any]:
        """Programs, where they are, and what they dropped by cause."""
        return {
            **super().facts(),
            "services": str(self.services),
            "room for entries of flows": self.entries,
        }
