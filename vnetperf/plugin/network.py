"""The contract of a container network, and what its backends do with a host of pods.

The deployment makes the hosts, then `prepare` on each, `attach` for each pod, `join` once; it reads
counters around trials, and ends with `detach` and `stop`. Every change goes through the `Machine`
it is given, or a function of `vnetperf/host/` with that machine's journal.
"""

from __future__ import annotations

import platform
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any, ClassVar, Literal

from vnetperf.host import links
from vnetperf.host.linux import RTNH_F_ONLINK, netlink, run_in
from vnetperf.host.machine import Machine
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import VnfPort
from vnetperf.model.scenario import PodHosts, Scenario
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.transfer import OCTETS_ADDED
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.backend import Datapath
from vnetperf.virt.endpoint import EndpointPair
from vnetperf.virt.pods import POD_PROGRAMS

#: Frames of an MTU of 9000, what virtual links have in common.
JUMBO_FRAME_SIZE = 9018
#: Prefix length of a pod's own network, and of the link between hosts.
POD_PREFIX, LINK_PREFIX = 16, 24
#: That of each pod beside the first two, within a network of theirs.
MORE_PODS_PREFIX = 24
#: Hosts on their link (TEST-NET-1, RFC 5737).
HOST_ADDRESS = "192.0.2.{}"
#: A VLAN's tag, octets.
TAG_OCTETS = 4
#: Settings of a host's network namespace: it forwards, takes packets by any way, and a bridge with
#: an address does not report that it listens for other snoopers (RFC 4286).
SYSCTLS = {
    "net/ipv4/igmp_link_local_mcast_reports": "0",
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
}
PROC_SYS = Path("/proc/sys")


class NetworkCapabilities(Frozen):
    """What a network can do; the planner compares it with what a scenario needs.

    Attributes:
        port: What a pod is given: one end of a veth pair, an interface on the host's (macvlan,
            vlan), a virtual function of its NIC, the host's own, or a socket for a DPDK application
            (vhost-user, memif); of a cluster that exists, what is not known here.
        link: What joins the hosts: a veth pair, or the cable between two NICs of the testbed. It is
            also what the tester is calibrated over.
        places: Where the second of two pods may be.
        frames: Where pods have ports of their own, so that a tester can send frames between them;
            elsewhere they have the loopback interface of their host.
        routed: Where packets are routed between two pods: frames are then addressed to a gateway,
            and have a TTL less by one or more.
        modes: Names of its modes, the first being the default; empty when it has but one.
        overhead: Octets that frames between hosts are longer by, at the cost of the pods' MTU.
        tag: Octets that they are longer by at no such cost (IEEE 802.1Q).
        max_frame_size: Largest frame it carries from pod to pod, octets including FCS.
        shares_mac: True when all pods of a host have its interface's MAC address.
        most_on_host: Most pods that one host can have; None for any number.
        agents: True where each of two hosts makes its part by itself, so that they can be hosts of
            a testbed, with an agent each.
    """

    port: Literal[
        "veth", "macvlan", "ipvlan", "vlan", "vf", "host", "vhost-user", "memif", "cluster"
    ]
    link: Literal["veth", "nic"] = "veth"
    places: tuple[PodHosts, ...] = ("same", "other")
    frames: tuple[PodHosts, ...] = ("same", "other")
    routed: tuple[PodHosts, ...] = ()
    modes: tuple[str, ...] = ()
    overhead: int = 0
    tag: int = 0
    max_frame_size: int = JUMBO_FRAME_SIZE
    shares_mac: bool = False
    most_on_host: int | None = None
    agents: bool = False

    @property
    def by_socket(self) -> bool:
        """True where pods have sockets for DPDK applications, and no interfaces of the kernel."""
        return self.port in ("vhost-user", "memif")

    @property
    def elsewhere(self) -> bool:
        """Whether pods, and their hosts, are a cluster's, and nothing of them is made here."""
        return self.port == "cluster"


class Pod(Frozen):
    """A pod that a network is to have.

    Attributes:
        port: Its port in the deployment's graph; `port.vnf` is the number of the pod.
        netdev: Name of its interface, in the run's network namespace; "" for a socket, and of a
            pod of a cluster.
        socket: Path of the socket that its application listens at (vhost-user), or connects to
            (memif); "" for an interface.
        mac: Address of its interface.
        address: Its IPv4 address.
        gateway_mac: Address of its gateway, where the network routes.
    """

    port: VnfPort
    netdev: str
    socket: str = ""
    mac: str
    address: str
    gateway_mac: str

    @property
    def network(self) -> str:
        """The network of its address, "198.18.0.0/16"; of one beside the first two a /24 in it."""
        prefix = MORE_PODS_PREFIX if self.port.vnf > 1 else POD_PREFIX
        return str(IPv4Interface(f"{self.address}/{prefix}").network)


class PodPort(Frozen):
    """What a pod was given.

    Attributes:
        pod: The pod.
        host: Number of its host.
        kind: Kind of interface.
        mtu: Largest packet, octets without Ethernet header and FCS.
        gateway: Address that frames to pods on other hosts carry; "" where they carry the pod's.
        far: The host's end of a veth pair, or the port of a switch that has the socket; "" for
            none.
        place: What it is in, for the report.
    """

    pod: Pod
    host: int
    kind: str
    mtu: int
    gateway: str = ""
    far: str = ""
    place: str = "the host"


def change(netns: Path, action: str, where: str, request: Callable[[Any], object]) -> None:
    """Make a netlink request in a namespace."""

    def send() -> None:
        with netlink(action, where) as route:
            request(route)

    run_in(netns, send)


def add_address(netns: Path, name: str, address: str) -> None:
    """Give an interface an address, "192.0.2.1/24", unless it has it."""
    index, (ip, _, length) = links.get(name, netns).index, address.partition("/")
    change(
        netns,
        f"give {name} the address {address}",
        str(netns),
        lambda route: route.addr("replace", index=index, address=ip, prefixlen=int(length)),
    )


def pod_count(scenario: Scenario) -> int:
    """Pods that are deployed: two for frames, and for programs as many as they need."""
    return max(2, scenario.pods) if scenario.sockets else 2


def host_number(scenario: Scenario, pod: int) -> int:
    """Number of the host that a pod is on, by the number of the pod."""
    return pod % 2 if scenario.pod_hosts == "other" else 0


def graph_port(pod: int) -> VnfPort:
    """The port of a pod in the deployment's graph, by the number of the pod."""
    return VnfPort(vnf=pod, index=0)


class PodHost:
    """A host of pods: a network namespace of the run with an interface towards the other host."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.netns = machine.subdir(f"host{number}") / "netns"
        self.uplink = machine.interface_name(f"u{number}")
        self.address = HOST_ADDRESS.format(number + 1)

    def create(self) -> None:
        """Make the namespace, which forwards packets; it ends with the run."""
        self.machine.create_netns(self.netns)

        def write() -> None:
            for name, value in SYSCTLS.items():
                (PROC_SYS / name).write_text(f"{value}\n")

        run_in(self.netns, write)

    @property
    def uplink_mac(self) -> str:
        """Address of its interface towards the other host."""
        return links.get(self.uplink, self.netns).mac

    def has(self, name: str) -> bool:
        """Whether it has an interface."""
        return links.find(name, self.netns) is not None

    def add_link(self, name: str, kind: str, mtu: int, *, offloads: bool, **options: Any) -> None:
        """Make an interface: quiet, and up."""
        links.create_link(self.machine.journal, name, kind, netns=self.netns, **options)
        links.make_ready(name, self.netns, mtu=mtu, offloads=offloads)

    def add_bridge(self, name: str, mtu: int, *, offloads: bool) -> None:
        """Make a bridge that neither filters nor talks."""
        quiet = {"br_stp_state": 0, "br_mcast_snooping": 0}
        self.add_link(name, "bridge", mtu, offloads=offloads, **quiet)

    def index(self, name: str) -> int:
        """Number of an interface in its namespace."""
        return links.get(name, self.netns).index

    def take_cable(self, name: str, mtu: int, mac: str, *, offloads: bool) -> None:
        """Have the end of a cable in the run's namespace as interface towards the other host."""
        links.move(name, self.netns, netns=self.machine.netns)
        index = self.index(name)
        self.change(
            f"call {name} {self.uplink}",
            lambda route: route.link("set", index=index, ifname=self.uplink),
        )
        links.make_ready(self.uplink, self.netns, mtu=mtu, offloads=offloads)
        self.set_mac(self.uplink, mac)

    def delete(self, name: str) -> None:
        """Delete an interface; that it is gone is not an error."""
        links.delete(name, netns=self.netns)

    def change(self, action: str, request: Callable[[Any], object]) -> None:
        """Make a netlink request in its namespace."""
        change(self.netns, action, f"host {self.number} of pods", request)

    def set_mac(self, name: str, mac: str) -> None:
        """Set the MAC address of an interface, unless it has it: neighbours would be gone."""
        if links.get(name, self.netns).mac != mac:
            links.set_address(name, mac, netns=self.netns)

    def add_port(self, bridge: str, name: str) -> None:
        """Make an interface a port of a bridge."""
        port, master = self.index(name), self.index(bridge)
        self.change(
            f"make {name} a port of {bridge}",
            lambda route: route.link("set", index=port, master=master),
        )

    def give_address(self, name: str = "") -> None:
        """Give an interface the host's address; "" for the one towards the other host."""
        add_address(self.netns, name or self.uplink, f"{self.address}/{LINK_PREFIX}")

    def move_address(self, source: str, target: str) -> None:
        """Give the host's address to another interface, which is brought up."""
        index = self.index(source)
        self.change(f"take the address of {source}", lambda route: route.flush_addr(index=index))
        self.give_address(target)
        links.make_ready(target, self.netns, offloads=True)

    def add_neighbour(self, name: str, address: str, mac: str) -> None:
        """Set the MAC address of a neighbour, so that none is requested."""
        index = self.index(name)
        self.change(
            f"set the neighbour {address}",
            lambda route: route.neigh(
                "replace", dst=address, lladdr=mac, ifindex=index, state="permanent"
            ),
        )

    def add_route(self, network: str, name: str, gateway: str) -> None:
        """Route a network through a neighbour at an interface."""
        index = self.index(name)
        self.change(
            f"route {network} via {gateway}",
            lambda route: route.route(
                "replace", dst=network, gateway=gateway, oif=index, flags=RTNH_F_ONLINK
            ),
        )

    def add_forwarding(self, name: str, mac: str, host: str) -> None:
        """Send what a tunnel's interface has for a MAC address to a host."""
        index = self.index(name)
        self.change(
            f"forward {mac} to {host}",
            lambda route: route.fdb("append", ifindex=index, lladdr=mac, dst=host),
        )


class FarHost(PodHost):
    """The other host of pods where another agent, or a cluster, has it: nothing of it is made here.

    Args:
        machine: The machine of this host.
        number: Number of the other.
        uplink_mac: Address of its interface towards this one.
    """

    def __init__(self, machine: Machine, number: int, uplink_mac: str) -> None:
        super().__init__(machine, number)
        self._uplink_mac = uplink_mac

    @property
    def uplink_mac(self) -> str:
        """As the plan has it."""
        return self._uplink_mac

    def create(self) -> None:
        """It is made there."""

    def has(self, name: str) -> bool:
        """Nothing of it is here."""
        return False

    def index(self, name: str) -> int:
        """Of what `change` leaves alone."""
        return 0

    def add_link(self, name: str, kind: str, mtu: int, *, offloads: bool, **options: Any) -> None:
        """It is made there."""

    def delete(self, name: str) -> None:
        """It is deleted there."""

    def change(self, action: str, request: Callable[[Any], object]) -> None:
        """It is changed there."""


def lay_uplinks(hosts: Sequence[PodHost], mtu: int, *, offloads: bool) -> None:
    """Join two hosts by a veth pair, with addresses and neighbours: the link that networks use."""
    near, other = hosts
    near.machine.load_module("veth")
    links.create_veth(
        near.machine.journal,
        (near.uplink, other.uplink),
        netns=(near.netns, other.netns),
        mtu=mtu,
        offloads=offloads,
    )
    for host in hosts:
        host.give_address()
    for host, far in ((near, other), (other, near)):
        host.add_neighbour(host.uplink, far.address, far.uplink_mac)


class Network(Datapath):
    """A container network of one deployment.

    After `stop` pods keep their interfaces and sockets, since programs in them have them open, but
    of a network whose daemon ends them with itself, or whose pods are a cluster's; `prepare` begins
    anew, and `attach` plugs in what is there.

    Attributes:
        capabilities: What it can do.
        path: What a packet passes between two pods on two hosts, for `--plan` and the report.
        starts_s: Longest that a deployment may wait for its pods to start, seconds.
    """

    programs: ClassVar[tuple[Program, ...]] = POD_PROGRAMS
    capabilities: ClassVar[NetworkCapabilities]
    path: ClassVar[str]
    starts_s: ClassVar[float] = 0.0

    @property
    def place(self) -> PodHosts:
        """Where the second pod is."""
        return self.plan.scenario.pod_hosts

    @property
    def routes(self) -> bool:
        """Whether it routes between the pods."""
        return self.place in self.routed_places(self.plan.scenario)

    @classmethod
    def routed_places(cls, scenario: Scenario) -> tuple[PodHosts, ...]:
        """Where it routes packets between two pods.

        Args:
            scenario: The scenario.

        Returns:
            By default those of its capabilities.
        """
        return cls.capabilities.routed

    @classmethod
    def pod_mtu(cls, scenario: Scenario) -> int:
        """MTU of pods.

        Args:
            scenario: The scenario.

        Returns:
            By default that of the hosts' link without what the network adds to a frame, octets. A
            packet of this size is sent between the pods before the first trial.
        """
        return scenario.mtu - cls.capabilities.overhead

    @classmethod
    def tools(cls, facts: MachineFacts) -> tuple[str, ...] | None:
        """Endpoint tools that its pods have, where these are not the machine's.

        Args:
            facts: The machine.

        Returns:
            Their names; None, by default, where programs are the machine's.
        """
        return None

    @property
    def has_ports(self) -> bool:
        """Whether pods have ports of their own."""
        return self.place in self.capabilities.frames

    @property
    def passes_interfaces(self) -> bool:
        """Whether what comes from another pod passes a pod's interface, where it can be seen."""
        return not self.capabilities.by_socket

    @property
    def offloads(self) -> bool:
        """Whether its interfaces have checksum and segmentation offloads, as usual for pods."""
        return self.plan.scenario.options.offloads is not False

    @property
    def mtu(self) -> int:
        """MTU of pods, octets."""
        return self.pod_mtu(self.plan.scenario)

    def netdev(self, number: int) -> str:
        """Name of a pod's interface.

        Args:
            number: Number of the pod.

        Returns:
            A name that is unique in the run.
        """
        return self.machine.interface_name(f"p{number}")

    def lay_link(self, hosts: Sequence[PodHost]) -> None:
        """Join the hosts, before any has something of the network; by default with a veth pair.

        Args:
            hosts: The two hosts, by number.

        Raises:
            VnetperfError: When the kernel refuses.
        """
        lay_uplinks(hosts, self.plan.scenario.mtu, offloads=self.offloads)

    def prepare(self, host: PodHost) -> None:
        """Make what a host has of the network before any pod.

        By default load its modules, but for optional ones: which scenario needs these it knows.

        Args:
            host: One of the hosts with pods.

        Raises:
            VnetperfError: When the kernel refuses.
        """
        for module in self.kernel_modules:
            if not module.optional:
                self.machine.load_module(module)

    @abstractmethod
    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """Give a pod its interface, in the run's network namespace, or its socket.

        The last pod is detached and attached once more before the tester has it.

        Args:
            host: Its host.
            pod: The pod.

        Returns:
            What it was given.

        Raises:
            VnetperfError: When the kernel refuses.
        """

    def is_plugged(self, pod: Pod) -> bool:
        """Whether a pod has its interface or socket, of before the network was stopped.

        Args:
            pod: The pod.

        Returns:
            True when there is nothing to be made.
        """
        return pod.netdev in self.machine.link_statistics()

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """Let pods of all hosts reach each other; called once more when others have come.

        By default each host routes the other's pods through it, or the hosts' link joins them.

        Args:
            hosts: The two hosts, by number.
            ports: What the pods were given, all of them.

        Raises:
            VnetperfError: When the kernel refuses.
        """
        if self.routes:
            self.route_far_pods(hosts, ports)

    def endpoints(self) -> EndpointPair | None:
        """The pods as ends of transfers, where they are not on this machine.

        Returns:
            None, by default, where endpoints take the pods' interfaces over.
        """
        return None

    def counters(self, ports: Mapping[VnfPort, PodPort]) -> tuple[HopCounters, ...]:
        """Frames that passed pods' ports since they were made, as the network sees them.

        Args:
            ports: What the pods were given.

        Returns:
            One entry per pod whose interface is there: what the pod sends is received.
        """
        table = self.machine.link_statistics()
        return tuple(
            HopCounters(
                port=str(port),
                rx=statistics.tx,
                tx=statistics.rx,
                rx_dropped=statistics.tx_dropped,
                tx_dropped=statistics.rx_dropped,
            )
            for port, pod_port in ports.items()
            if (statistics := table.get(pod_port.pod.netdev)) is not None
        )

    def links_down(self, ports: Mapping[VnfPort, PodPort]) -> tuple[str, ...]:
        """Pods whose interface has no carrier, or whose socket nobody is connected to.

        Args:
            ports: What the pods were given.

        Returns:
            Names of the pods' ports.
        """
        up = {link.name for link in self.machine.all_links() if link.up and link.carrier}
        return tuple(str(port) for port, pod_port in ports.items() if pod_port.pod.netdev not in up)

    def check_alive(self) -> None:
        """Raise when something that the network runs has ended; by default nothing runs.

        Raises:
            DutError: With the tail of its log.
        """

    def facts(self) -> dict[str, Any]:
        """What all networks of the kernel have in common.

        Returns:
            JSON values.
        """
        return {
            "backend": self.name,
            "version": f"Linux {platform.release()}",
            "launch line": "none: it is in the kernel",
            "path between hosts": self.path,
            "baseline": self.capabilities.port == "host",
            "MTU between hosts": self.plan.scenario.mtu,
            OCTETS_ADDED: self.capabilities.overhead + self.capabilities.tag,
            "offloads": "on" if self.offloads else "off",
        }

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Take a pod's interface away, or what its host has of its socket.

        Args:
            host: Its host.
            port: What it was given.
        """
        if port.pod.netdev:
            self.machine.delete_link(port.pod.netdev)

    def stop(self, hosts: Sequence[PodHost]) -> None:
        """Take away what `prepare` and `join` made. Idempotent; by default nothing is left.

        Args:
            hosts: The two hosts.
        """

    def attach_veth(self, host: PodHost, pod: Pod, *, mac: str = "") -> PodPort:
        """Give a pod one end of a veth pair whose other end is at its host.

        Args:
            host: Its host.
            pod: The pod.
            mac: Address of the host's end; "" for one that the kernel makes up.

        Returns:
            What it was given.
        """
        self.machine.load_module("veth")
        far = f"veth{pod.port.vnf}"
        if not self.is_plugged(pod):
            links.create_veth(
                self.machine.journal,
                (pod.netdev, far),
                netns=(self.machine.netns, host.netns),
                mtu=self.mtu,
                offloads=self.offloads,
            )
        self.machine.set_link(pod.netdev, mac=pod.mac)
        if mac:
            links.set_address(far, mac, netns=host.netns)
        gateway = pod.gateway_mac if self.routes else ""
        return PodPort(
            pod=pod, host=host.number, kind="veth", mtu=self.mtu, gateway=gateway, far=far
        )

    def attach_child(self, host: PodHost, pod: Pod, kind: str, **options: Any) -> PodPort:
        """Give a pod an interface on its host's: made there and moved, as a runtime does.

        Args:
            host: Its host.
            pod: The pod.
            kind: Kind of interface.
            **options: What the kernel is told besides.

        Returns:
            What it was given.
        """
        if not self.is_plugged(pod):
            attributes = {"link": host.index(host.uplink), **options}
            if pod.mac:
                attributes["address"] = pod.mac
            links.create_link(
                self.machine.journal, pod.netdev, kind, netns=host.netns, **attributes
            )
            links.move(pod.netdev, self.machine.netns, netns=host.netns)
            links.make_ready(pod.netdev, self.machine.netns, mtu=self.mtu, offloads=self.offloads)
        return PodPort(pod=pod, host=host.number, kind=kind, mtu=self.mtu)

    def route_pod(self, host: PodHost, port: PodPort, netdev: str) -> None:
        """Route a pod's packets on its own host to an interface there.

        Args:
            host: The pod's host.
            port: What the pod was given.
            netdev: Interface that leads to it.
        """
        host.add_neighbour(netdev, port.pod.address, port.pod.mac)
        host.add_route(port.pod.network, netdev, port.pod.address)

    def route_far_pods(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """Route the pods of each host through it on the other.

        Args:
            hosts: The two hosts, by number.
            ports: What the pods were given.
        """
        for host in hosts:
            for port in self.far_ports(host, ports):
                host.add_route(port.pod.network, host.uplink, hosts[port.host].address)

    @staticmethod
    def far_ports(host: PodHost, ports: Sequence[PodPort]) -> list[PodPort]:
        """Ports of pods that are on the other host.

        Args:
            host: A host.
            ports: What all pods were given.

        Returns:
            Those that are not on it.
        """
        return [port for port in ports if port.host != host.number]
