"""Pods and their network in the place of a vSwitch: the tester, or endpoints, are the pods."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import links, tc_redirect
from vnetperf.host.linux import read_file, run_in
from vnetperf.host.machine import Machine
from vnetperf.host.wait import patient
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
from vnetperf.model.errors import DutError, NoResultError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import (
    ETHERNET_OCTETS,
    NicUse,
    Placement,
    Plan,
    PodHosts,
    Pollers,
    RoleDemand,
    Scenario,
)
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.transfer import POD_ATTACHED, POD_FIRST_PACKET, POD_REMOVED
from vnetperf.model.trial import HopCounters
from vnetperf.plugin import registry
from vnetperf.plugin.network import (
    FarHost,
    Network,
    Pod,
    PodHost,
    PodPort,
    graph_port,
    host_number,
    pod_count,
)
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities
from vnetperf.virt.endpoint import EndpointPair
from vnetperf.virt.pods import missing_for_pods

LOOPBACK = "lo"
#: What a pod in a VM plugs into; frames are redirected between it and the pod's interface.
GUEST_KIND = "tap"
#: Longest wait for the first packet from pod to pod, for one of the pods' MTU, and where that does
#: not come for each of those by which the largest that does is found out, seconds.
FIRST_S, PROBE_S, HALVING_S = 10.0, 1.0, 0.2
#: Time between two packets until the first arrives, seconds.
PROBE_EVERY_S = 0.001
#: Of pods with sockets.
NO_FIRST_PACKET = (
    "not measured: nothing has the pods' sockets before the tester, whose own start would be in it"
)
#: What tells such packets from others: the payload's first octets. Their UDP port is "discard".
PROBE_MARK, PROBE_PORT = b"vnetperf-probe", 9
#: Protocol UDP; don't fragment; every Ethernet type (linux/if_ether.h).
UDP, DONT_FRAGMENT, ETH_P_ALL = 17, 0x4000, 3
#: Type of a packet that the interface itself sent (linux/if_packet.h).
OUTGOING = 4
IPV4_HEADER, UDP_HEADER, LEAST_PACKET = 20, 8, 46
#: Addresses of pods: those of the traffic (RFC 2544 appendix C.2.2), of the first two and of those
#: beside them in their networks.
POD_ADDRESS = "198.{}.{}.1"


def switch_class(graph: Deployment, name: str) -> type[VSwitch]:
    """The class of what joins a deployment's ports: a vSwitch, or a network of pods."""
    in_vms = bool(graph.guests)
    switch: type[VSwitch] = (
        _adapt_network(name, in_vms=in_vms) if graph.pods else registry.load("vswitches", name)
    )
    return switch


def find_frames_problem(scenario: Scenario) -> str:
    """Why no tester can send frames between a scenario's pods; "" where it can."""
    if not scenario.deployment.pods or scenario.sockets:
        return ""
    if scenario.deployment.guests and (problem := _find_guest_frames_problem(scenario)):
        return problem
    if scenario.pod != "netns":
        return "frames of a tester are sent from no container; leave --pod out"
    network: type[Network] = registry.load("networks", scenario.vswitch)
    places = network.capabilities.frames
    if scenario.pod_hosts in places:
        return ""
    if network.capabilities.elsewhere:
        return (
            f"pods of network {network.name} are a cluster's, between which a tester here sends no "
            "frames; choose testcases/test_endpoints.py"
        )
    return (
        f"pods on the {scenario.pod_hosts} host have no ports of their own on network "
        f"{network.name}, and frames need them; choose --hosts {places[0]}, or "
        "testcases/test_endpoints.py"
    )


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


def find_network(scenario: Scenario) -> type[Network] | None:
    """The container network of a scenario; None where it has no pods."""
    if not scenario.deployment.pods:
        return None
    network: type[Network] = registry.load("networks", scenario.vswitch)
    return network


def require_frames(scenario: Scenario) -> None:
    """Refuse pods between which no frames can be sent."""
    if problem := find_frames_problem(scenario):
        raise NoResultError(problem, where=scenario.id)


@cache
def _adapt_network(name: str, *, in_vms: bool) -> type[VSwitch]:
    network: type[Network] = registry.load("networks", name)
    can = network.capabilities
    kind = "veth" if can.port == "host" or can.elsewhere else can.port
    options = ("mtu",) if can.by_socket else () if can.elsewhere else ("mtu", "offloads")
    attributes = {
        "__doc__": network.__doc__,
        "network": network,
        "name": name,
        "programs": network.programs,
        "kernel_modules": (*network.kernel_modules, *(tc_redirect.MODULES if in_vms else ())),
        "Options": network.Options,
        "capabilities": VSwitchCapabilities(
            # What the tester is calibrated over.
            wires=("memif", "veth") if can.by_socket else (can.link,),
            attachments=(kind, GUEST_KIND) if in_vms else (kind,),
            chains=False,
            max_frame_size=can.max_frame_size,
            forwarding=("l2", "l3") if can.routed else ("l2",),
            modes=can.modes,
            options=options,
            addressing="port",
            nic_drivers=("kernel",),
        ),
    }
    return type(f"{network.__name__}InPlace", (PodNetwork,), attributes)


class PodNetwork(VSwitch):
    """Two hosts with a link, pods on one or on both, and the network that joins them.

    Attributes:
        network: The class of the network.
    """

    network: ClassVar[type[Network]]

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._network = self.network(machine, plan)
        self.hosts = [
            FarHost(machine, number, "")
            if self.network.capabilities.elsewhere
            else PodHost(machine, number)
            for number in (0, 1)
        ]
        self._far: PodPort | None = None
        if plan.scenario.deployment.cables:
            self._leave_to_others(plan.scenario.deployment)
        self._created = self._plugged = False
        #: Ports of the first two pods, then of those beside them that have ports of their own.
        self._ports: dict[VnfPort, PodPort] = {}
        #: Where guests of pods plug in.
        self._taps: dict[VnfPort, Attachment] = {}
        #: Facts of each pod, with how long what was done to it took.
        self._times: dict[VnfPort, dict[str, float]] = {}

    def _leave_to_others(self, graph: Deployment) -> None:
        """Of two hosts of a testbed this one makes its own part, with what the plan has of both."""
        ((near, _),), (cable,), (local,) = graph.beyond, graph.cables, graph.tester_vnf_ports
        (far,) = (port for port in cable if port != near)
        other = graph_port(1 - local.vnf)
        mac = vnf_mac(other) if self.network.capabilities.shares_mac else dut_mac(far)
        self.hosts[other.vnf] = FarHost(self.machine, other.vnf, mac)
        pod = self._pod(other, "")
        self._far = PodPort(pod=pod, host=other.vnf, kind="", mtu=self._network.mtu)

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """Frames are addressed to the gateway where the network routes; hosts are the testbed's."""
        if testbed.hosts and scenario.pod_hosts == "other":
            graph = scenario.deployment.over_hosts()
            scenario = scenario.model_copy(update={"deployment": graph, "tunnel": "none"})
        if cls.network.capabilities.shares_mac and scenario.pod_hosts == "same":
            mac = vnf_mac(scenario.deployment.tester_vnf_ports[0])
            return scenario.model_copy(update={"dut_macs": (mac, mac)})
        if scenario.pod_hosts not in cls.network.routed_places(scenario):
            return scenario
        return scenario.model_copy(update={"forwarding": "l3"})

    @classmethod
    def largest_frame(cls, scenario: Scenario) -> int:
        """What fits into the MTU of pods; the hosts' link has the one that frames need."""
        can, most = cls.network.capabilities, super().largest_frame(scenario)
        if scenario.options.mtu is None and not can.overhead:
            scenario = scenario.model_copy(update={"max_frame_size": most})
        return min(most, cls.network.pod_mtu(scenario) + ETHERNET_OCTETS)

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the network from carrying the scenario here."""
        can = cls.network.capabilities
        place = scenario.pod_hosts
        if place not in can.places:
            return f"network {cls.name} has no pods on the {place} host; --hosts {can.places[0]}"
        if scenario.routed and place not in cls.network.routed_places(scenario):
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
        return cls.network.missing(facts, scenario)

    @classmethod
    def _find_host_problem(cls, scenario: Scenario) -> str:
        """What keeps the hosts of pods from being those of a testbed; "" where they are not."""
        can = cls.network.capabilities
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
        can = cls.network.capabilities
        if not (can.by_socket and scenario.sockets):
            return ""
        return (
            f"pods of network {cls.name} have {can.port} sockets, for DPDK applications, and no "
            "interfaces for programs: it carries frames alone (testcases/test_rfc2544.py); choose "
            "a network whose pods have interfaces"
        )

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """What the NICs lack whose cable is the hosts' link."""
        return cls.network.nics_missing(nics, facts, scenario)

    @classmethod
    def _find_guest_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps pods in VMs from having a port of the network; "" where there are none."""
        if not scenario.deployment.guests:
            return ""
        can = cls.network.capabilities
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
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """Hosts, pods and the path between them, for `--plan`, and what the network starts."""
        scenario = plan.scenario
        if cls.network.capabilities.elsewhere:
            place = "one node" if scenario.pod_hosts == "same" else "two nodes"
            return {"pods": f"two of a cluster, on {place}", "network": cls.network.path}
        way = "routed" if scenario.routed else "switched"
        mtu = cls.network.pod_mtu(scenario)
        lines = {
            f"pod{port.vnf}": f"on host{host_number(scenario, port.vnf)}, "
            f"address {_address(port)}, MAC {vnf_mac(port)}, MTU {mtu}"
            for port in map(graph_port, range(pod_count(scenario)))
            if port in scenario.deployment.ends or not scenario.deployment.cables
        }
        hosts = "one host" if scenario.pod_hosts == "same" else "two hosts"
        lines["network"] = f"{cls.name}, {way} between pods on {hosts}"
        if scenario.pod_hosts == "other":
            lines["network"] += f": {cls.network.path}"
        if problem := find_frames_problem(scenario):
            lines["frames"] = f"none: {problem}"
        return lines | cls.network.launch_lines(plan, facts)

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """The network's poll-mode threads."""
        return cls.network.roles(scenario)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """The network's memory."""
        return cls.network.hugepage_mib(scenario)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """The network's memory on certain nodes."""
        return cls.network.fixed_mib(scenario, kinds)

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """Queues of the network to a pod."""
        return cls.network.tx_queues(scenario, placement)

    def start(self) -> None:
        """Make the hosts, and what each that has pods has of the network."""
        if not self._created:
            self._created = True
            if self.plan.scenario.deployment.guests:  # filters go with the pods' interfaces
                tc_redirect.load_modules(self.machine)
            for host in self.hosts:
                host.create()
            if self._far is None:
                self._network.lay_link(self.hosts)
        scenario = self.plan.scenario
        if self._far is not None and not self._plugged:
            return  # until the cable is there
        ends = scenario.deployment.tester_vnf_ports
        for number in sorted({host_number(scenario, port.vnf) for port in ends}):
            self._network.prepare(self.hosts[number])

    def add_phy_port(self, end: WireEnd) -> None:
        """The cable to another host of the testbed is the link; else pods are all there is."""
        if self._far is None or end.netdev is None:
            raise self.cannot_plug(end)
        if self._plugged:
            return
        far = self.hosts[self._far.host]
        host = self.hosts[1 - far.number]
        mac, mtu = dut_mac(PhyPort(index=end.wire)), self.plan.scenario.mtu
        host.take_cable(end.netdev, mtu, mac, offloads=self._network.offloads)
        host.give_address()
        host.add_neighbour(host.uplink, far.address, far.uplink_mac)
        self._plugged = True
        self._network.prepare(host)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Where a pod's interface or socket will be."""
        self.check_kind(kind)
        if self.network.capabilities.by_socket:
            socket = self.machine.vnf_socket(str(port))
            listens = kind == "vhost-user"
            return Attachment(
                port=port, kind=kind, socket=socket, vnf_is_server=listens, queues=queues
            )
        if kind == GUEST_KIND:
            of_network = {"mtu": self._network.mtu, "offloads": self._network.offloads}
            tap = self.machine.interface_name(f"{'b' if port.index else 't'}{port.vnf}")
            return Attachment(port=port, kind=kind, netdev=tap, queues=queues, **of_network)
        if self._network.has_ports:
            netdev = self._network.netdev(port.vnf)
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
            address=_address(port),
            gateway_mac=dut_mac(graph_port(port.vnf % 2)),  # one for all pods of a host
        )

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Give a pod its interface or socket; the last is seen to reach the other."""
        port, by_socket = attachment.port, self.network.capabilities.by_socket
        if by_socket:
            pod = self._pod(port, "", attachment.require("socket"))
        elif attachment.kind == GUEST_KIND:
            self._taps[port] = attachment
            pod = self._pod(port, self._network.netdev(port.vnf))
        else:
            pod = self._pod(port, attachment.require("netdev"))
        host, new = self._find_host(port), not self._network.is_plugged(pod)
        self._attach(host, pod)
        if len(self._ports) < len(self.plan.scenario.deployment.tester_vnf_ports):
            return
        if new:  # nobody has it open yet: removed, and attached to what other pods have by now
            began = time.monotonic()
            self._network.detach(host, self._ports.pop(port))
            removed_s = time.monotonic() - began
            self._attach(host, pod)
            self._times[port][POD_REMOVED] = removed_s
        began = time.monotonic()
        elsewhere = () if self._far is None else (self._far,)
        self._network.join(self.hosts, (*self._ports.values(), *elsewhere))
        # At sockets nobody is yet: the tester is a pod's application, and connects later.
        testable = self._network.has_ports and self._network.passes_interfaces
        if new and testable and not elsewhere:
            self.require_packets_pass(port, began)

    def _attach(self, host: PodHost, pod: Pod) -> None:
        began, new = time.monotonic(), not self._network.is_plugged(pod)
        self._ports[pod.port] = self._network.attach(host, pod)
        self._times[pod.port] = {POD_ATTACHED: time.monotonic() - began}
        if new and (tap := self._taps.get(pod.port)) is not None:
            self._lead_to_guest(pod.netdev, tap)

    def _lead_to_guest(self, netdev: str, tap: Attachment) -> None:
        """Hand all that comes in by a pod's interface to its guest, and back."""
        name = tap.require("netdev")
        taps = [name]
        if tap.port.vnf in self.plan.scenario.through_guests:
            taps.append(self.offer_vnf_port(far_side(tap.port), GUEST_KIND).require("netdev"))
        for tap_name in taps:
            self.machine.delete_link(tap_name)  # with what led to an interface before this one
            self.machine.create_tap(
                tap_name,
                self._network.mtu,
                offloads=self._network.offloads,
                multi_queue=tap.multi_queue,
            )
        tc_redirect.redirect(self.machine, {netdev: name, name: netdev})

    def require_packets_pass(self, to: VnfPort, began: float) -> None:
        """Wait for the first packet to a pod, and see that one of the pods' MTU passes."""
        (sender,) = (port for port in self._ports if port != to)
        ends = self.plan.scenario.deployment.ends
        forth = next(s for s in self.plan.scenario.streams if ends[s.direction] == sender)
        link = [self._ports[port].pod.netdev for port in (sender, to)]

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
        mtus = [self._ports[port].mtu for port in (sender, to)]
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
        if self._far is not None or self.network.capabilities.port == "host":
            return
        first = len(self._ports)
        for port in map(graph_port, range(first, pod_count(self.plan.scenario))):
            self._attach(self._find_host(port), self._pod(port, self._network.netdev(port.vnf)))
        if len(self._ports) > first:
            self._network.join(self.hosts, tuple(self._ports.values()))

    @property
    def pods(self) -> tuple[PodPort, ...]:
        """What each pod has, by number; on the hosts' own network pods of a host share a port."""
        numbers = range(pod_count(self.plan.scenario))
        shared = self.network.capabilities.port == "host"
        return tuple(self._ports[graph_port(n % 2 if shared else n)] for n in numbers)

    def find_netns(self, pod: PodPort) -> Path:
        """Network namespace of a pod's host."""
        return self.hosts[pod.host].netns

    def next_hop(self, pod: PodPort, far: PodPort) -> str:
        """MAC address that a pod's frames to another carry: its gateway's, or the other's own."""
        place: PodHosts = "same" if pod.host == far.host else "other"
        routed = place in self.network.routed_places(self.plan.scenario)
        return pod.pod.gateway_mac if routed else far.pod.mac

    def remove_port(self, port: Port) -> None:
        """Take a pod's interface away, or its socket's port."""
        if not isinstance(port, VnfPort) or port not in self._ports:
            raise self.no_port(port, self._ports)
        pod_port = self._ports.pop(port)
        self._network.detach(self.hosts[pod_port.host], pod_port)

    def links_down(self) -> tuple[str, ...]:
        """Pods whose interface has no carrier, or whose socket nobody is connected to."""
        return self._network.links_down(self._ports)

    def pollers(self) -> tuple[Pollers, ...]:
        """The network's poll-mode threads."""
        return self._network.pollers()

    def before_trial(self) -> None:
        """Let the network get ready."""
        self._network.before_trial()

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """What the network's threads have counted."""
        return self._network.datapath_work()

    def counters(self) -> tuple[HopCounters, ...]:
        """What passed pods' interfaces, and the cable to another host of the testbed."""
        pod_counters = self._network.counters(self._ports)
        if self._far is None:
            return pod_counters
        host = self.hosts[1 - self._far.host]
        table = links.statistics(host.netns) | self.machine.link_statistics()
        if (uplink := table.get(host.uplink)) is None:
            return pod_counters
        ((port, _),) = self.plan.scenario.deployment.beyond
        return (
            *pod_counters,
            HopCounters(
                port=str(port),
                rx=uplink.rx,
                tx=uplink.tx,
                rx_dropped=uplink.rx_dropped,
                tx_dropped=uplink.tx_dropped,
            ),
        )

    def endpoints(self) -> EndpointPair | None:
        """Pods that are not on this machine."""
        return self._network.endpoints()

    def fragments(self) -> int | None:
        """Those that the hosts have made, of packets that they routed and of a tunnel's."""
        if self.network.capabilities.elsewhere:
            return None
        snmp = Path("/proc/thread-self/net/snmp")
        local_hosts = (host for host in self.hosts if not isinstance(host, FarHost))
        return links.sum_counts(
            links.count_fragments(run_in(host.netns, partial(read_file, snmp)))
            for host in local_hosts
        )

    def check_alive(self) -> None:
        """Raise when a pod's interface is gone, or what the network runs has ended."""
        self._network.check_alive()
        if self.network.capabilities.elsewhere:
            return
        netdevs = self.machine.link_statistics()
        gone = [
            f"the interface of pod{port.vnf} ({pod_port.pod.netdev})"
            for port, pod_port in self._ports.items()
            if pod_port.pod.netdev and pod_port.pod.netdev not in netdevs
        ]
        if gone:
            raise DutError(f"gone: {', '.join(gone)}", where=self.name)

    def facts(self) -> dict[str, Any]:
        """The network, and what each pod was given."""
        # What a plugin gave may not be what was planned.
        mtu = min((pod_port.mtu for pod_port in self._ports.values()), default=self._network.mtu)
        return {
            **self._network.facts(),
            "MTU of pods": mtu,
            **({"first packet": NO_FIRST_PACKET} if self.network.capabilities.by_socket else {}),
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
                for port, pod_port in self._ports.items()
            },
        }

    def stop(self) -> None:
        """Take the network away; hosts and pods' interfaces stay until the run ends."""
        self._ports = {}
        if self._created:
            self._network.stop(self.hosts)


def largest_packet(passes: Callable[[int], bool], most: int) -> int:
    """The largest packet that passes, octets, by halving.

    `most`, which is tried first, is not ruled out when it does not pass: it may have been late.
    """
    if passes(most):
        return most
    least = LEAST_PACKET
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if passes(middle) else (least, middle - 1)
    return least


def probe_frame(stream: Stream, packet: int) -> bytes:
    """A frame of UDP as a stream's, without FCS; its IPv4 packet is `packet` octets long."""
    macs = bytes.fromhex((stream.eth_dst + stream.eth_src).replace(":", ""))
    ends = socket.inet_aton(stream.ipv4_src) + socket.inet_aton(stream.ipv4_dst)
    head = struct.pack("!BBHHHBBH", 0x45, 0, packet, 0, DONT_FRAGMENT, 64, UDP, 0) + ends
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    datagram = packet - IPV4_HEADER
    udp = struct.pack("!HHHH", PROBE_PORT, PROBE_PORT, datagram, 0)
    return macs + b"\x08\x00" + head + udp + PROBE_MARK.ljust(datagram - UDP_HEADER, b"\0")


def send_until_arrival(frame: bytes, sender: str, receiver: str, limit_s: float) -> bool:
    """Send a frame until it arrives at another interface; return whether it has in time.

    Its packet is compared from the mark on: routers change what is before.
    """
    end, size = time.monotonic() + limit_s, len(frame)
    kind = socket.AF_PACKET, socket.SOCK_RAW
    with socket.socket(*kind, 0) as out, socket.socket(*kind, socket.htons(ETH_P_ALL)) as into:
        out.bind((sender, 0))
        into.bind((receiver, ETH_P_ALL))
        into.settimeout(PROBE_EVERY_S)
        while time.monotonic() < end:
            try:
                out.send(frame)
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    return False
                raise DutError(
                    f"takes no frame of {size} octets: {error.strerror}", where=sender
                ) from error
            again = time.monotonic() + PROBE_EVERY_S
            with suppress(TimeoutError):
                while time.monotonic() < again:  # other traffic may never let it time out
                    packet, origin = into.recvfrom(size + 4)
                    if len(packet) == size and PROBE_MARK in packet and origin[2] != OUTGOING:
                        return True
    return False


def far_side(port: VnfPort) -> VnfPort:
    """The other port of a guest that is a pod: the tester is there, beyond its forwarding."""
    return port.model_copy(update={"index": 1 - port.index})


def _address(port: VnfPort) -> str:
    return POD_ADDRESS.format(18 + port.vnf % 2, port.vnf // 2)
