"""A UE and a server in place of the tester: the UE attaches over the vSwitch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count

from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import VnfPort, WireEnd, tester_mac, vnf_mac
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.options import (
    GN_CORE,
    GN_PREFIX,
    GN_TESTER,
    SERVER_NETWORK,
    UE_NETWORK,
    MobileCore,
    StackProgram,
)
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.virt.container import Container
from vnetperf.virt.endpoint import Endpoint, EndpointPair
from vnetperf.vnfs.base import Vnf
from vnetperf.vnfs.vepc import stack

#: Longest wait for a UE's attach, seconds.
ATTACH_S = 20.0
#: IPv4, UDP and a GTP header with a sequence number, which sgsnemu sends.
LONGEST_GTPU = 40
SGI_HOP = "169.254.0.1"
#: Namespaces stay until the run ends: those of one call are not those of the next.
_NUMBERS = count()


class UeAndServer:
    """What plugs in at both of the tester's places while the tester is away."""

    def __init__(self, vnf: Vnf, what: MobileCore) -> None:
        self.vnf, self.machine, self.stack = vnf, vnf.machine, what
        unique = next(_NUMBERS)
        cpus = vnf.plan.placement.cores.get("tester", ())
        self.radio = Container(self.machine, f"ue{vnf.number}-{unique}", cpus)
        self.sgi = Container(self.machine, f"sgi{vnf.number}-{unique}", cpus)
        self._running: list[ManagedProcess] = []

    @contextmanager
    def attached(self, ends: tuple[WireEnd, ...]) -> Iterator[EndpointPair]:
        """Attach a UE, and give the wires back in the end."""
        problem = ue_problem(self.machine.facts, self.vnf.plan.scenario, self.vnf.plan.wire)
        if problem or self.stack.ue is None:
            raise CapabilityError(problem, where="users' traffic")
        netdevs = _veth_netdevs(ends)
        macs = {netdev: self.machine.link(netdev).mac for netdev in netdevs}
        try:
            self._plug_in(netdevs)
            ue, attach_s = self._attach(self.stack.ue, netdevs)
            yield EndpointPair(
                client=Endpoint("UE", self.radio, ue, stack.UE_TUN),
                server=Endpoint("server", self.sgi, stack.SERVER, netdevs[1]),
                attach_s=round(attach_s, 3),
            )
        finally:
            self._unplug(macs)

    def _plug_in(self, netdevs: tuple[str, str]) -> None:
        macs = [vnf_mac(VnfPort(vnf=self.vnf.number, index=index)) for index in (0, 1)]
        radio, server = netdevs
        lines: dict[Container, tuple[str, ...]] = {
            self.radio: (
                f"ip address replace {GN_TESTER}/{GN_PREFIX} dev {radio}",
                f"ip neigh replace {GN_CORE} lladdr {macs[0]} dev {radio} nud permanent",
            ),
            self.sgi: (
                f"ip address replace {stack.SERVER}/{SERVER_NETWORK.partition('/')[2]} "
                f"dev {server}",
                f"ip neigh replace {SGI_HOP} lladdr {macs[1]} dev {server} nud permanent",
                f"ip route replace {UE_NETWORK} via {SGI_HOP} dev {server} onlink",
            ),
        }
        for number, (place, commands) in enumerate(lines.items()):
            place.create(cpuset=False)
            place.take(netdevs[number], mac=tester_mac(number, 0))
            for line in ("sysctl -q -w net.ipv4.conf.all.rp_filter=0", *commands):
                place.run(line.split())

    def _attach(self, program: StackProgram, netdevs: tuple[str, str]) -> tuple[str, float]:
        """Start the UE; its address, and how long it took."""
        known = stack.ue_values(self.stack, netdevs[0], self.radio.directory)
        began = time.monotonic()
        argv = stack.program_argv(program, known, self.stack)
        process = self.radio.spawn("ue", argv)
        self._running.append(process)
        try:
            process.wait_for(
                lambda: program.ready in process.log_text() and bool(self._address()),
                timeout_s=ATTACH_S,
                what=f"the address of its interface {stack.UE_TUN}",
            )
        except HostError as error:
            self.vnf.check_alive()
            raise DutError(f"the UE does not attach: {error}", where=self.stack.name) from error
        attach_s = time.monotonic() - began
        # A full packet in the longest GTP-U header goes in one frame.
        room = self.machine.link(netdevs[0]).mtu - LONGEST_GTPU
        self.radio.run(["ip", "link", "set", "dev", stack.UE_TUN, "mtu", str(room)])
        return self._address(), attach_s

    def _address(self) -> str:
        """Address of the UE, "" while it has none."""
        for line in self.radio.run(["ip", "-4", "-o", "address", "show"]).splitlines():
            words = line.split()
            if words[1] == stack.UE_TUN:
                return words[3].partition("/")[0]
        return ""

    def _unplug(self, macs: Mapping[str, str]) -> None:
        """Give the wires back, whatever a process does."""
        with ExitStack() as last:
            for netdev, mac in macs.items():
                last.callback(self.machine.set_link, netdev, mac=mac)
            last.callback(self.sgi.give_back)
            last.callback(self.radio.give_back)
            for process in self._running:
                last.callback(process.stop, timeout_s=3.0)
            self._running = []


def _veth_netdevs(ends: tuple[WireEnd, ...]) -> tuple[str, str]:
    names = [end.netdev for end in ends if end.kind == "veth" and end.netdev]
    if len(names) != 2:
        kinds = ", ".join(sorted({end.kind for end in ends}))
        raise CapabilityError(
            f"a UE and a server plug into veth wires; these are {kinds}",
            where="users' traffic",
            cure="--wire veth, on a vSwitch that takes them",
        )
    return names[0], names[1]


def ue_problem(facts: MachineFacts, scenario: Scenario, wire: str) -> str:
    """What keeps users' traffic from being measured."""
    what = scenario.stack
    if what is None or what.ue is None:
        name = what.name if what else "no mobile core"
        return f"{name} names no program for a UE; describe one under [ue] of its stack file"
    if wire != "veth":
        return (
            f"a UE and a server plug into veth wires; these are {wire}: choose --wire veth, on a "
            "vSwitch that takes them"
        )
    return stack.missing_stack_program(facts, what.ue)
