"""The contract of a container network: a DUT that makes its own ends, which are pods.

A backend gives `prepare` for each host, `attach` for each pod, `join` once, `detach` and `remove`.
What a deployment calls (`start`, `add_vnf_port`, `connect` ...) is here: hosts are made, pods are
attached and joined, and packets are seen to pass between them. Every change goes through the
`Machine`, or a function of `vnetperf/host/` with that machine's journal.
"""

from __future__ import annotations

import platform
import time
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from vnetperf.host import links, tc_redirect
from vnetperf.host.linux import read_file, run_in
from vnetperf.host.machine import Machine
from vnetperf.host.probe import LEAST_PACKET, largest_packet, probe_frame, send_until_arrival
from vnetperf.host.wait import patient
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import (
    Attachment,
    Deployment,
    PhyPort,
    Port,
    VnfPort,
    WireEnd,
    dut_mac,
    vnf_mac,
)
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import ETHERNET_OCTETS, Plan, PodHosts, Scenario
from vnetperf.model.testbed import MachineFacts, Program, Testbed
from vnetperf.model.traffic import Addressing, Stream
from vnetperf.model.transfer import OCTETS_ADDED, POD_ATTACHED, POD_FIRST_PACKET, POD_REMOVED
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.dut import JUMBO_FRAME_SIZE, Dut, DutCapabilities, NicDriver
from vnetperf.virt.pod_host import FarHost, PodHost, lay_uplinks
from vnetperf.virt.pods import POD_PROGRAMS, missing_for_pods

#: Prefix length of a pod's own network.
POD_PREFIX = 16
#: That of each pod beside the first two, within a network of theirs.
MORE_PODS_PREFIX = 24
#: Addresses of pods: those of the traffic (RFC 2544 appendix C.2.2), of the first two and of those
#: beside them in their networks.
POD_ADDRESS = "198.{}.{}.1"
#: A VLAN's tag, octets.
TAG_OCTETS = 4
LOOPBACK = "lo"
#: What a pod in a VM plugs into; frames are redirected between it and the pod's interface.
GUEST_KIND = "tap"
#: Kinds of socket that pods with DPDK applications have.
SOCKETS = ("vhost-user", "memif")
#: Longest wait for the first packet from pod to pod, for one of the pods' MTU, and where that does
#: not come for each of those by which the largest that does is found out, seconds.
FIRST_S, PROBE_S, HALVING_S = 10.0, 1.0, 0.2
#: Of pods with sockets.
NO_FIRST_PACKET = (
    "not measured: nothing has the pods' sockets before the tester, whose own start would be in it"
)


class NetworkCapabilities(DutCapabilities):
    """What a network can do. What each DUT states follows from this, unless it is stated as well.

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
        overhead: Octets that frames between hosts are longer by, at the cost of the pods' MTU.
        tag: Octets that they are longer by at no such cost (IEEE 802.1Q).
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
    overhead: int = 0
    tag: int = 0
    shares_mac: bool = False
    most_on_host: int | None = None
    agents: bool = False
    wires: tuple[str, ...] = ()
    attachments: tuple[str, ...] = ()
    chains: bool = False
    max_frame_size: int = JUMBO_FRAME_SIZE
    addressing: Addressing = "port"
    nic_drivers: tuple[NicDriver, ...] = ("kernel",)

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, fields: dict[str, Any]) -> dict[str, Any]:
        port = fields.get("port", "")
        options = ("mtu",) if port in SOCKETS else () if port == "cluster" else ("mtu", "offloads")
        return {
            # What the tester is calibrated over.
            "wires": ("memif", "veth") if port in SOCKETS else (fields.get("link", "veth"),),
            "attachments": ("veth" if port in ("host", "cluster") else port,),
            "forwarding": ("l2", "l3") if fields.get("routed") else ("l2",),
            "options": options,
            **fields,
        }

    @property
    def by_socket(self) -> bool:
        """True where pods have sockets for DPDK applications, and no interfaces of the kernel."""
        return self.port in SOCKETS

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


def pod_count(scenario: Scenario) -> int:
    """Pods that are deployed: two for frames, and for programs as many as they need."""
    return max(2, scenario.pods) if scenario.sockets else 2


def host_number(scenario: Scenario, pod: int) -> int:
    """Number of the host that a pod is on, by the number of the pod."""
    return pod % 2 if scenario.pod_hosts == "other" else 0


def graph_port(pod: int) -> VnfPort:
    """The port of a pod in the deployment's graph, by the number of the pod."""
    return VnfPort(vnf=pod, index=0)


def pod_address(port: VnfPort) -> str:
    """IPv4 address of a pod."""
    return POD_ADDRESS.format(18 + port.vnf % 2, port.vnf // 2)


class Network(Dut):
    """A container network of one deployment: two hosts with a link, and pods on one or on both.

    After `stop` pods keep their interfaces and sockets, since programs in them have them open, but
    of a network whose daemon ends them with itself, or whose pods are a cluster's; `prepare` begins
    anew, and `attach` plugs in what is there.

    Args:
        machine: The machine; what is made on it goes through it.
        plan: The plan of this host.

    Attributes:
        capabilities: What it can do.
        path: What a packet passes between two pods on two hosts, for `--plan` and the report.
        hosts: The two hosts, by number.
        ports: What pods were given: the first two, then those beside them with ports of their own.
    """

    programs: ClassVar[tuple[Program, ...]] = POD_PROGRAMS
    capabilities: ClassVar[NetworkCapabilities]
    path: ClassVar[str]

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self.hosts = [
            FarHost(machine, number, "")
            if self.capabilities.elsewhere
            else PodHost(machine, number)
            for number in (0, 1)
        ]
        self.ports: dict[VnfPort, PodPort] = {}
        #: The pod on another host of the testbed, which that host's agent makes.
        self._far: PodPort | None = None
        if plan.scenario.deployment.cables:
            self._leave_to_others(plan.scenario.deployment)
        self._created = self._cable_plugged = False
        #: Where guests of pods plug in.
        self._taps: dict[VnfPort, Attachment] = {}
        #: Of each pod, how long what was done to it took.
        self._times: dict[VnfPort, dict[str, float]] = {}

    def _leave_to_others(self, graph: Deployment) -> None:
        """Of two hosts of a testbed this one makes its own part, with what the plan has of both."""
        ((near, _),), (cable,), (local,) = graph.beyond, graph.cables, graph.tester_vnf_ports
        (far,) = (port for port in cable if port != near)
        other = graph_port(1 - local.vnf)
        mac = vnf_mac(other) if self.capabilities.shares_mac else dut_mac(far)
        self.hosts[other.vnf] = FarHost(self.machine, other.vnf, mac)
        pod = self._pod(other, "")
        self._far = PodPort(pod=pod, host=other.vnf, kind="", mtu=self.mtu)

    @property
    def place(self) -> PodHosts:
        """Where the second pod is."""
        return self.plan.scenario.pod_hosts

    @property
    def routes(self) -> bool:
        """Whether it routes between the pods."""
        return self.place in self.routed_places(self.plan.scenario)

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
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps this network from joining a scenario's pods, wherever these may be.

        Args:
            facts: The machine.
            scenario: The scenario.

        Returns:
            "" when nothing does; otherwise what is missing and the cure, in one sentence. By
            default what is missing of the programs and modules that it declares.
        """
        return cls.missing_requirement(facts)

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

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Take a pod's interface away, or what its host has of its socket.

        Args:
            host: Its host.
            port: What it was given.
        """
        if port.pod.netdev:
            self.machine.delete_link(port.pod.netdev)

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """Take away what `prepare` and `join` made. Idempotent; by default nothing is left.

        Args:
            hosts: The two hosts.
        """

    def describe(self) -> dict[str, Any]:
        """What the network is, for the result; by default what all of the kernel have in common.

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

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """Frames are addressed to the gateway where the network routes; hosts are the testbed's."""
        if testbed.hosts and scenario.pod_hosts == "other":
            graph = scenario.deployment.over_hosts()
            scenario = scenario.model_copy(update={"deployment": graph, "tunnel": "none"})
        if cls.capabilities.shares_mac and scenario.pod_hosts == "same":
            mac = vnf_mac(scenario.deployment.tester_vnf_ports[0])
            return scenario.model_copy(update={"dut_macs": (mac, mac)})
        if scenario.pod_hosts not in cls.routed_places(scenario):
            return scenario
        return scenario.model_copy(update={"forwarding": "l3"})

    @classmethod
    def list_attachments(cls, scenario: Scenario) -> tuple[str, ...]:
        """The kind of port that pods have, and a tap for those in VMs."""
        in_vms = (GUEST_KIND,) if scenario.deployment.guests else ()
        return (*cls.capabilities.attachments, *in_vms)

    @classmethod
    def largest_frame(cls, scenario: Scenario) -> int:
        """What fits into the MTU of pods; the hosts' link has the one that frames need."""
        can, most = cls.capabilities, super().largest_frame(scenario)
        if scenario.options.mtu is None and not can.overhead:
            scenario = scenario.model_copy(update={"max_frame_size": most})
        return min(most, cls.pod_mtu(scenario) + ETHERNET_OCTETS)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the network from carrying the scenario here."""
        can = cls.capabilities
        place = scenario.pod_hosts
        if place not in can.places:
            return f"network {cls.name} has no pods on the {place} host; --hosts {can.places[0]}"
        if scenario.routed and place not in cls.routed_places(scenario):
            return (
                f"network {cls.name} does not route between pods on the {scenario.pod_hosts} host; "
                "leave --forwarding out"
            )
        problem = (
            cls._find_host_problem(scenario)
            or cls._find_program_problem(scenario)
            or cls._find_guest_problem(facts, scenario)
            or missing_for_pods(scenario.pod, facts)
        )
        if problem:
            return problem
        hosts = 2 if place == "other" else 1
        if can.most_on_host is not None and pod_count(scenario) > can.most_on_host * hosts:
            most = can.most_on_host
            return f"network {cls.name} has {most} pod on a host; choose --pods {most * hosts}"
        return cls.find_problem(facts, scenario)

    @classmethod
    def _find_host_problem(cls, scenario: Scenario) -> str:
        """What keeps the hosts of pods from being those of a testbed; "" where they are not."""
        can = cls.capabilities
        if not scenario.deployment.cables or can.agents:
            return ""
        if can.elsewhere:
            return (
                f"pods of network {cls.name}, and their hosts, are a cluster's; choose a testbed "
                "without hosts of its own"
            )
        return (
            f"network {cls.name} is made by one agent for both hosts of pods; choose a testbed of "
            "one host, where each is a namespace"
        )

    @classmethod
    def _find_program_problem(cls, scenario: Scenario) -> str:
        """What keeps pods from having programs with sockets; "" where they have none."""
        can = cls.capabilities
        if not (can.by_socket and scenario.sockets):
            return ""
        return (
            f"pods of network {cls.name} have {can.port} sockets, for DPDK applications, and no "
            "interfaces for programs: it carries frames alone (testcases/test_rfc2544.py); choose "
            "a network whose pods have interfaces"
        )

    @classmethod
    def _find_guest_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps pods in VMs from having a port of the network; "" where there are none."""
        if not scenario.deployment.guests:
            return ""
        can = cls.capabilities
        if can.port == "host" or scenario.pod_hosts not in can.frames:
            return f"a pod in a VM has a port of its own, and network {cls.name} gives it none here"
        if can.by_socket:
            return (
                f"frames are handed to a guest that is a pod by an interface, and network "
                f"{cls.name} gives pods {can.port} sockets; -k pvp has guests at vhost-user sockets"
            )
        if can.port == "vf":
            return (
                f"pods of network {cls.name} have virtual functions, of which a guest is given a "
                "whole one: -k pvp_sriov --vnf vloop:vm has such guests; choose macvlan here"
            )
        if can.shares_mac:
            return (
                f"pods of network {cls.name} have the MAC address of their host's interface, which "
                "a guest's NIC cannot have as well; choose macvlan"
            )
        return tc_redirect.missing_modules(facts, "handing frames to a guest and back")

    @classmethod
    def find_frames_problem(cls, scenario: Scenario) -> str:
        """Why no tester can send frames between the pods."""
        if scenario.sockets:
            return ""
        if scenario.deployment.guests and (problem := _find_guest_frames_problem(scenario)):
            return problem
        if scenario.pod != "netns":
            return "frames of a tester are sent from no container; leave --pod out"
        places = cls.capabilities.frames
        if scenario.pod_hosts in places:
            return ""
        if cls.capabilities.elsewhere:
            return (
                f"pods of network {cls.name} are a cluster's, between which a tester here sends no "
                "frames; choose testcases/test_endpoints.py"
            )
        return (
            f"pods on the {scenario.pod_hosts} host have no ports of their own on network "
            f"{cls.name}, and frames need them; choose --hosts {places[0]}, or "
            "testcases/test_endpoints.py"
        )

    @classmethod
    def find_restart_problem(cls, scenario: Scenario) -> str:
        """Not in a trial by this version."""
        return f"network {cls.name} of pods is not restarted in a trial by this version"

    @classmethod
    def offloads_cables(cls, scenario: Scenario) -> bool:
        """Whether the hosts' link has its offloads, as usual for pods."""
        return scenario.options.offloads is not False

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """Hosts, pods and the path between them, for `--plan`, and what the network starts."""
        scenario = plan.scenario
        if cls.capabilities.elsewhere:
            place = "one node" if scenario.pod_hosts == "same" else "two nodes"
            return {"pods": f"two of a cluster, on {place}", "network": cls.path}
        way = "routed" if scenario.routed else "switched"
        mtu = cls.pod_mtu(scenario)
        lines = {
            f"pod{port.vnf}": f"on host{host_number(scenario, port.vnf)}, "
            f"address {pod_address(port)}, MAC {vnf_mac(port)}, MTU {mtu}"
            for port in map(graph_port, range(pod_count(scenario)))
            if port in scenario.deployment.ends or not scenario.deployment.cables
        }
        hosts = "one host" if scenario.pod_hosts == "same" else "two hosts"
        lines["network"] = f"{cls.name}, {way} between pods on {hosts}"
        if scenario.pod_hosts == "other":
            lines["network"] += f": {cls.path}"
        if problem := cls.find_frames_problem(scenario):
            lines["frames"] = f"none: {problem}"
        return lines

    def start(self) -> None:
        """Make the hosts, and what each that has pods has of the network."""
        if not self._created:
            self._created = True
            if self.plan.scenario.deployment.guests:  # filters go with the pods' interfaces
                tc_redirect.load_modules(self.machine)
            for host in self.hosts:
                host.create()
            if self._far is None:
                self.lay_link(self.hosts)
        scenario = self.plan.scenario
        if self._far is not None and not self._cable_plugged:
            return  # until the cable is there
        ends = scenario.deployment.tester_vnf_ports
        for number in sorted({host_number(scenario, port.vnf) for port in ends}):
            self.prepare(self.hosts[number])

    def add_phy_port(self, end: WireEnd) -> None:
        """The cable to another host of the testbed is the link; else pods are all there is."""
        if self._far is None or end.netdev is None:
            raise self.cannot_plug(end)
        if self._cable_plugged:
            return
        far = self.hosts[self._far.host]
        host = self.hosts[1 - far.number]
        mac, mtu = dut_mac(PhyPort(index=end.wire)), self.plan.scenario.mtu
        host.take_cable(end.netdev, mtu, mac, offloads=self.offloads)
        host.give_address()
        host.add_neighbour(host.uplink, far.address, far.uplink_mac)
        self._cable_plugged = True
        self.prepare(host)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Where a pod's interface or socket will be."""
        self.check_kind(kind)
        if self.capabilities.by_socket:
            socket = self.machine.vnf_socket(str(port))
            listens = kind == "vhost-user"
            return Attachment(
                port=port, kind=kind, socket=socket, vnf_is_server=listens, queues=queues
            )
        if kind == GUEST_KIND:
            of_network = {"mtu": self.mtu, "offloads": self.offloads}
            tap = self.machine.interface_name(f"{'b' if port.index else 't'}{port.vnf}")
            return Attachment(port=port, kind=kind, netdev=tap, queues=queues, **of_network)
        if self.has_ports:
            netdev = self.netdev(port.vnf)
            return Attachment(port=port, kind=kind, netdev=netdev, queues=queues)
        netns = str(self._find_host(port).netns)
        return Attachment(port=port, kind="loopback", netdev=LOOPBACK, netns=netns)

    def _find_host(self, port: VnfPort) -> PodHost:
        return self.hosts[host_number(self.plan.scenario, port.vnf)]

    def _pod(self, port: VnfPort, netdev: str, socket: str = "") -> Pod:
        return Pod(
            port=port,
            netdev=netdev,
            socket=socket,
            mac=vnf_mac(port),
            address=pod_address(port),
            gateway_mac=dut_mac(graph_port(port.vnf % 2)),  # one for all pods of a host
        )

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Give a pod its interface or socket; the last is seen to reach the other."""
        port, by_socket = attachment.port, self.capabilities.by_socket
        if by_socket:
            pod = self._pod(port, "", attachment.require("socket"))
        elif attachment.kind == GUEST_KIND:
            self._taps[port] = attachment
            pod = self._pod(port, self.netdev(port.vnf))
        else:
            pod = self._pod(port, attachment.require("netdev"))
        host, new = self._find_host(port), not self.is_plugged(pod)
        self._attach(host, pod)
        if len(self.ports) < len(self.plan.scenario.deployment.tester_vnf_ports):
            return
        if new:  # nobody has it open yet: removed, and attached to what other pods have by now
            began = time.monotonic()
            self.detach(host, self.ports.pop(port))
            removed_s = time.monotonic() - began
            self._attach(host, pod)
            self._times[port][POD_REMOVED] = removed_s
        began = time.monotonic()
        elsewhere = () if self._far is None else (self._far,)
        self.join(self.hosts, (*self.ports.values(), *elsewhere))
        # At sockets nobody is yet: the tester is a pod's application, and connects later.
        testable = self.has_ports and self.passes_interfaces
        if new and testable and not elsewhere:
            self.require_packets_pass(port, began)

    def _attach(self, host: PodHost, pod: Pod) -> None:
        began, new = time.monotonic(), not self.is_plugged(pod)
        self.ports[pod.port] = self.attach(host, pod)
        self._times[pod.port] = {POD_ATTACHED: time.monotonic() - began}
        if new and (tap := self._taps.get(pod.port)) is not None:
            self._lead_to_guest(pod.netdev, tap)

    def _lead_to_guest(self, netdev: str, tap: Attachment) -> None:
        """Hand all that comes in by a pod's interface to its guest, and back."""
        name = tap.require("netdev")
        taps = [name]
        if tap.port.vnf in self.plan.scenario.through_guests:
            taps.append(self.offer_vnf_port(tap.port.opposite, GUEST_KIND).require("netdev"))
        for tap_name in taps:
            self.machine.delete_link(tap_name)  # with what led to an interface before this one
            self.machine.create_tap(
                tap_name,
                self.mtu,
                offloads=self.offloads,
                multi_queue=tap.multi_queue,
            )
        tc_redirect.redirect(self.machine, {netdev: name, name: netdev})

    def require_packets_pass(self, to: VnfPort, began: float) -> None:
        """Wait for the first packet to a pod, and see that one of the pods' MTU passes."""
        (sender,) = (port for port in self.ports if port != to)
        ends = self.plan.scenario.deployment.ends
        forth = next(s for s in self.plan.scenario.streams if ends[s.direction] == sender)
        link = [self.ports[port].pod.netdev for port in (sender, to)]

        def passes(packet: int, limit_s: float) -> bool:
            frame = probe_frame(forth, packet)
            return self.machine.in_netns(
                lambda: send_until_arrival(frame, link[0], link[1], limit_s)
            )

        if not passes(LEAST_PACKET, patient(FIRST_S)):
            raise DutError(
                f"no packet passes from pod{sender.vnf} to pod{to.vnf} within {FIRST_S:g} s",
                where=f"network {self.name}",
                cure="see the counters of the hosts' interfaces and, of a conflist, its addresses, "
                "routes and firewall",
            )
        times = self._times[to]
        times[POD_FIRST_PACKET] = times[POD_ATTACHED] + time.monotonic() - began
        mtus = [self.ports[port].mtu for port in (sender, to)]
        most = min(mtus)
        if not passes(most, patient(PROBE_S)):
            most = largest_packet(lambda packet: passes(packet, patient(HALVING_S)), most)
        if most == max(mtus):
            return
        raise DutError(
            f"the pods' interfaces have an MTU of {' and '.join(map(str, dict.fromkeys(mtus)))}, "
            f"and packets of up to {most} octets pass between them: longer ones are lost",
            where=f"network {self.name}",
            accepted=f"pods with an MTU of {most} or less, on a link of the hosts with "
            f"{self.plan.scenario.mtu}",
            cure="give the network that MTU (mtu in a conflist), or the hosts' link a larger one "
            "(--set mtu=)",
        )

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Let the pods beside the first two, which do since both are there, be reached as well."""
        if self._far is not None or self.capabilities.port == "host":
            return
        first = len(self.ports)
        for port in map(graph_port, range(first, pod_count(self.plan.scenario))):
            self._attach(self._find_host(port), self._pod(port, self.netdev(port.vnf)))
        if len(self.ports) > first:
            self.join(self.hosts, tuple(self.ports.values()))

    @property
    def pods(self) -> tuple[PodPort, ...]:
        """What each pod has, by number; on the hosts' own network pods of a host share a port."""
        numbers = range(pod_count(self.plan.scenario))
        shared = self.capabilities.port == "host"
        return tuple(self.ports[graph_port(n % 2 if shared else n)] for n in numbers)

    def find_netns(self, pod: PodPort) -> Path:
        """Network namespace of a pod's host."""
        return self.hosts[pod.host].netns

    def next_hop(self, pod: PodPort, far: PodPort) -> str:
        """MAC address that a pod's frames to another carry: its gateway's, or the other's own."""
        place: PodHosts = "same" if pod.host == far.host else "other"
        routed = place in self.routed_places(self.plan.scenario)
        return pod.pod.gateway_mac if routed else far.pod.mac

    def remove_port(self, port: Port) -> None:
        """Take a pod's interface away, or its socket's port."""
        if not isinstance(port, VnfPort) or port not in self.ports:
            raise self.no_port(port, self.ports)
        pod_port = self.ports.pop(port)
        self.detach(self.hosts[pod_port.host], pod_port)

    def links_down(self) -> tuple[str, ...]:
        """Pods whose interface has no carrier, or whose socket nobody is connected to."""
        up = {link.name for link in self.machine.all_links() if link.up and link.carrier}
        return tuple(
            str(port) for port, pod_port in self.ports.items() if pod_port.pod.netdev not in up
        )

    def counters(self) -> tuple[HopCounters, ...]:
        """What passed pods' interfaces, and the cable to another host of the testbed.

        Of a pod what it sends is received. One whose interface is gone has no entry.
        """
        interfaces = self.machine.link_statistics()
        counters = [
            HopCounters(
                port=str(port),
                rx=statistics.tx,
                tx=statistics.rx,
                rx_dropped=statistics.tx_dropped,
                tx_dropped=statistics.rx_dropped,
            )
            for port, pod_port in self.ports.items()
            if (statistics := interfaces.get(pod_port.pod.netdev)) is not None
        ]
        if self._far is None:
            return tuple(counters)
        host = self.hosts[1 - self._far.host]
        uplink = (links.statistics(host.netns) | interfaces).get(host.uplink)
        if uplink is not None:
            ((port, _),) = self.plan.scenario.deployment.beyond
            counters.append(
                HopCounters(
                    port=str(port),
                    rx=uplink.rx,
                    tx=uplink.tx,
                    rx_dropped=uplink.rx_dropped,
                    tx_dropped=uplink.tx_dropped,
                )
            )
        return tuple(counters)

    def fragments(self) -> int | None:
        """Those that the hosts have made, of packets that they routed and of a tunnel's."""
        if self.capabilities.elsewhere:
            return None
        snmp = Path("/proc/thread-self/net/snmp")
        local_hosts = (host for host in self.hosts if not isinstance(host, FarHost))
        return links.sum_counts(
            links.count_fragments(run_in(host.netns, partial(read_file, snmp)))
            for host in local_hosts
        )

    def check_alive(self) -> None:
        """Raise when a pod's interface is gone, or what the network runs has ended."""
        if self.capabilities.elsewhere:
            return
        netdevs = self.machine.link_statistics()
        gone = [
            f"the interface of pod{port.vnf} ({pod_port.pod.netdev})"
            for port, pod_port in self.ports.items()
            if pod_port.pod.netdev and pod_port.pod.netdev not in netdevs
        ]
        if gone:
            raise DutError(f"gone: {', '.join(gone)}", where=self.name)

    def facts(self) -> dict[str, Any]:
        """The network, and what each pod was given."""
        # What a plugin gave may not be what was planned.
        mtu = min((pod_port.mtu for pod_port in self.ports.values()), default=self.mtu)
        return {
            **self.describe(),
            "MTU of pods": mtu,
            **({"first packet": NO_FIRST_PACKET} if self.capabilities.by_socket else {}),
            "pods": {
                f"pod{port.vnf}": {
                    "host": pod_port.host,
                    "interface": f"{pod_port.kind} {pod_port.pod.netdev or pod_port.pod.socket}",
                    "in": "a VM, by tc redirect to its tap"
                    if port in self._taps
                    else pod_port.place,
                    "address": pod_port.pod.address,
                    "MAC": pod_port.pod.mac,
                    "gateway": pod_port.gateway or "none: frames carry the other pod's address",
                    "MTU": pod_port.mtu,
                    **{name: round(spent, 4) for name, spent in self._times[port].items()},
                }
                for port, pod_port in self.ports.items()
            },
        }

    def stop(self) -> None:
        """Take the network away; hosts and pods' interfaces stay until the run ends."""
        self.ports = {}
        if self._created:
            self.remove(self.hosts)


def _find_guest_frames_problem(scenario: Scenario) -> str:
    """Why frames do not pass pods that are in VMs; "" where they do."""
    if scenario.vnf_addresses or scenario.vnf_swaps:
        return (
            "a guest that is a pod passes frames on as they are, and mode "
            f"{scenario.vnf_mode} changes their addresses; choose --vnf-mode io or bridge"
        )
    if scenario.deployment.cables:
        return "frames pass guests on a testbed of one host only, where hosts are namespaces"
    return ""
