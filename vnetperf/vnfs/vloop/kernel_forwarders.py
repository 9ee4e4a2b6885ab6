"""Modes of vloop in which the kernel forwards: bridge, route, xdp.

A form is a list of commands, the same in containers and guests. A form that routes can also hold an
address, for programs that run inside the VNF.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from vnetperf.host.xdp import CLANG, compile_program
from vnetperf.model.addresses import TEST_ADDRESSES
from vnetperf.model.deployment import Deployment, VnfPort
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.virt.endpoint import PRIVATE_MOUNTS, Endpoint, Place
from vnetperf.virt.recipe import RECIPES


@dataclass(frozen=True)
class FormPort:
    """A port of the VNF, as it is inside.

    Attributes:
        peer_mac: Address that frames it sends must carry, where they are written anew; "" where
            nothing is sent.
        network: Test network beyond it, "198.19.0.0/16".
    """

    netdev: str
    index: int
    peer_mac: str
    network: str


@dataclass(frozen=True)
class PutProgram:
    """The XDP program that sends every frame to one interface, for the next command.

    It is compiled where the agent is: a guest has no compiler.

    Attributes:
        name: Name of its object file; the place decides the directory, and `FILE_WORD` stands for
            the path in the next command.
        target: Index of the interface.
    """

    name: str
    target: int


#: Stands in a command for the path of the file that was written before.
FILE_WORD = "{file}"


@dataclass(frozen=True)
class TurnOff:
    """Settings that are to be 0 where the kernel has them at all.

    No option of sysctl's does that everywhere: BusyBox' `-e` fails, silently.

    Attributes:
        folder: Their folder below net: "bridge".
    """

    folder: str
    names: tuple[str, ...]


#: A program, settings, or a command line in which no word has a blank.
Step = PutProgram | TurnOff | str
FormPorts = tuple[FormPort, FormPort]


@dataclass(frozen=True)
class Form:
    """One way in which the kernel forwards between two interfaces.

    Attributes:
        name: The mode that users choose.
        attachments: Kinds of attachment whose interfaces it works on.
        steps: What sets it up, once both interfaces are there and up.
        modules: Kernel modules it needs.
        keeps_own_mac: True where an interface must not have the address that frames carry: they
            are to go through, and the kernel would keep them.
        interfaces: Names of the interfaces that it makes.
    """

    name: str
    attachments: tuple[str, ...]
    steps: Callable[[FormPorts], list[Step]]
    modules: tuple[KernelModule, ...] = ()
    keeps_own_mac: bool = False
    interfaces: tuple[str, ...] = ()


XDP_MODE = "xdp"
#: Its program, and the section of it that is one.
XDP_SOURCE, XDP_SECTION = Path(__file__).with_name("forward.c"), "xdp"


def xdp_problem(facts: MachineFacts, mode: str) -> str:
    """What keeps the program of mode xdp from being compiled."""
    return facts.missing_program(CLANG) if mode == XDP_MODE else ""


BRIDGE = "vloop"
PACKET_FILTERS = TurnOff(
    "bridge", tuple(f"bridge-nf-call-{tables}" for tables in ("iptables", "ip6tables", "arptables"))
)
BRIDGE_MODULE = KernelModule(name="bridge", symbol="br_handle_frame", optional=True)


def _bridge_steps(ports: FormPorts) -> list[Step]:
    """A bridge that learns nothing: whatever a frame is addressed to, it goes through."""
    names = [port.netdev for port in ports]
    # Flooding to the one other port is forwarding by port; a learned address could only
    # send a frame back to where it came from.
    return [
        # Not through iptables, where br_netfilter is there: no other form goes that way.
        PACKET_FILTERS,
        f"ip link add {BRIDGE} type bridge stp_state 0 mcast_snooping 0",
        f"ip link set dev {BRIDGE} multicast off arp off addrgenmode none",
        *(f"ip link set dev {name} master {BRIDGE}" for name in names),
        *(f"bridge link set dev {name} learning off flood on" for name in names),
        f"ip link set dev {BRIDGE} up",
    ]


#: Test networks beyond the tester's ports 0 and 1 (RFC 2544 appendix C.2.2).
NETWORKS = tuple(map(str, TEST_ADDRESSES.networks))
#: Next hop of each port; a link-local address that is never resolved.
NEXT_HOPS = ("169.254.0.1", "169.254.0.2")


def network_beyond(deployment: Deployment, port: VnfPort) -> str:
    """The test network that lies beyond a port of a VNF."""
    chain = port.vnf if deployment.chains > 1 else 0
    for number, end in enumerate(deployment.ends):
        path = deployment.path(end, chain) if number in deployment.directions else ()
        if port in path[2::2]:  # where it enters the vSwitch again
            return NETWORKS[1 - number]
    return NETWORKS[port.index]


def _route_steps(ports: FormPorts) -> list[Step]:
    """IPv4 forwarding: a frame for the port's address leaves with new addresses and a lower TTL.

    Neighbours and routes are static: nothing is resolved by ARP.
    """
    steps: list[Step] = [
        "sysctl -q -w net.ipv4.ip_forward=1",
        # A frame's source lies beyond the port it comes from; checking that costs a look-up.
        "sysctl -q -w net.ipv4.conf.all.rp_filter=0",
    ]
    for port, hop in zip(ports, NEXT_HOPS, strict=True):
        name = port.netdev
        steps += [
            f"sysctl -q -w net.ipv4.conf.{name}.rp_filter=0",
            f"sysctl -q -w net.ipv4.conf.{name}.send_redirects=0",
        ]
        if port.peer_mac:
            steps += [
                f"ip neigh replace {hop} lladdr {port.peer_mac} dev {name} nud permanent",
                f"ip route replace {port.network} via {hop} dev {name} onlink",
            ]
    return steps


#: ip mounts a bpf file system on /sys/fs/bpf where there is none, and leaves it there: in a mount
#: namespace of its own that is gone when it ends. The program stays, the interface holds it.
IP_PRIVATELY = " ".join((*PRIVATE_MOUNTS, "ip"))


def _xdp_steps(ports: FormPorts) -> list[Step]:
    """XDP_REDIRECT in generic mode: before the kernel's network stack, after its buffers.

    Each port has a program with the other's index in it. Native mode on veth requires a program,
    or GRO, on the peer too, which is the vSwitch's.
    """
    steps: list[Step] = []
    for number, port in enumerate(ports):
        steps += [
            PutProgram(f"forward{number}.o", ports[1 - number].index),
            f"{IP_PRIVATELY} link set dev {port.netdev} "
            f"xdpgeneric object {FILE_WORD} section {XDP_SECTION}",
        ]
    return steps


#: A form in which the kernel has addresses of its own.
ROUTE_MODE = "route"
FORMS = {
    form.name: form
    for form in (
        Form(
            "bridge",
            ("veth", "virtio"),
            _bridge_steps,
            modules=(BRIDGE_MODULE,),
            keeps_own_mac=True,
            interfaces=(BRIDGE,),
        ),
        Form(ROUTE_MODE, ("veth", "macvlan", "vf", "virtio"), _route_steps),
        Form(XDP_MODE, ("veth", "macvlan", "virtio"), _xdp_steps),
    )
}


class KernelForwarder:
    """What forwards between two interfaces of a place without a process of its own."""

    def __init__(
        self, place: Place, form: Form, role: str, ports: FormPorts, facts: MachineFacts
    ) -> None:
        self.clang = facts.programs.get(CLANG.name) or CLANG.name
        self.place = place
        self.form = form
        self.role = role
        self.ports = ports
        self.lines: list[str] = []

    def set_up(self) -> None:
        """Run the form's commands."""
        file = ""
        try:
            for step in self.form.steps(self.ports):
                if isinstance(step, PutProgram):
                    program = compile_program(self.clang, XDP_SOURCE, TARGET=step.target)
                    file = self.place.write(step.name, program)
                    continue
                if isinstance(step, TurnOff):
                    self._turn_off(step)
                    continue
                argv = [file if word == FILE_WORD else word for word in step.split()]
                self.place.run(argv)
                self.lines.append(" ".join(argv))
        except HostError as error:
            raise DutError(
                f"the form {self.form.name} could not be set up: {error}", where=self.role
            ) from error

    def _turn_off(self, step: TurnOff) -> None:
        if step.folder in self.place.run(["ls", "/proc/sys/net"]).split():
            settings = [f"net.{step.folder}.{name}=0" for name in step.names]
            self.place.run(["sysctl", "-q", "-w", *settings])
            self.lines.append(" ".join(settings))

    def counters(self) -> tuple[HopCounters, ...]:
        """What the kernel counted at each port, from the VNF's side: rx is what came in."""
        table = self.place.statistics()
        self._check(set(table))
        return tuple(
            HopCounters(port=f"{self.role}.{number} (inside)", **asdict(table[port.netdev]))
            for number, port in enumerate(self.ports)
        )

    def check_alive(self) -> None:
        """Raise when what forwards is gone."""
        try:
            netdevs = set(self.place.statistics())
        except HostError as error:
            raise DutError(f"its place is gone: {error}", where=self.role) from error
        self._check(netdevs)

    def _check(self, netdevs: set[str]) -> None:
        required = (*(port.netdev for port in self.ports), *self.form.interfaces)
        gone = [name for name in required if name not in netdevs]
        if gone:
            raise DutError(
                f"gone: the interface {', '.join(gone)} of form {self.form.name}", where=self.role
            )

    def facts(self) -> dict[str, Any]:
        """How it was set up."""
        return {"application": f"Linux, form {self.form.name}", "set up by": self.lines}


def endpoint_problem(scenario: Scenario, name: str) -> str:
    """What keeps a VNF of the kernel from being an endpoint."""
    if scenario.vnf_mode == ROUTE_MODE:
        return ""
    return (
        f"{name} in mode {scenario.vnf_mode} has no kernel with an address of its own; leave "
        f"--vnf-mode out or make it {ROUTE_MODE}, or --endpoint-server far"
    )


def missing_in_image(image: str, programs: Sequence[str]) -> str:
    """Which programs a guest image has not."""
    recipe = RECIPES.get(image)
    if recipe is None:
        return ""
    patterns = (*recipe.programs, *recipe.extras)
    missing = [
        name
        for name in programs
        if not any(
            fnmatch(f"usr/{place}/{name}", pattern)
            for place in ("bin", "sbin")
            for pattern in patterns
        )
    ]
    if not missing:
        return ""
    return (
        f"the guest image {image} has no {missing[0]}; choose another tool, or --guest "
        "image=/path/NAME.qcow2 with a disk that has it"
    )


def give_address(description: str, place: Place, netdev: str, address: str) -> Endpoint:
    """Give an interface of a VNF an address, which it keeps until the VNF ends.

    The kernel drops all routes by an interface when its last address goes, and a VNF that routes
    has no other.
    """
    place.run(["ip", "address", "replace", f"{address}/32", "dev", netdev])
    return Endpoint(description, place, address, netdev)
