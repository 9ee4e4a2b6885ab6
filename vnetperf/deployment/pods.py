"""Pods and their network in the place of a vSwitch: the tester, or endpoints, are the pods."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from vnetperf import registry
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import (
    Attachment,
    Deployment,
    Port,
    VnfPort,
    WireEnd,
    dut_mac,
    vnf_mac,
)
from vnetperf.model.errors import DutError, NoResultError
from vnetperf.model.scenario import Plan, PodHosts, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.networks.base import Network, Pod, PodHost, PodPort, lay_uplinks
from vnetperf.virt.oci import RUNC
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities

LOOPBACK = "lo"
#: Fact of a pod: how long the network took to give it its interface, seconds.
ATTACHED = "attached in, s"
#: Addresses of pods: those of the traffic (RFC 2544 appendix C.2.2), of the first two and of those
#: beside them in their networks.
POD_ADDRESS = "198.{}.{}.1"


def switch_class(graph: Deployment, name: str) -> type[VSwitch]:
    """The class of what joins a deployment's ports: a vSwitch, or a network of pods."""
    found: type[VSwitch] = _in_place(name) if graph.pods else registry.load("vswitches", name)
    return found


def no_frames(scenario: Scenario) -> str:
    """Why no tester can send frames between a scenario's pods; "" where it can."""
    if not scenario.deployment.pods or scenario.sockets:
        return ""
    if scenario.pod != "netns":
        return "frames of a tester are sent from no container; leave --pod out"
    network: type[Network] = registry.load("networks", scenario.vswitch)
    places = network.capabilities.frames
    if scenario.pod_hosts in places:
        return ""
    return (
        f"pods on the {scenario.pod_hosts} host have no ports of their own on network "
        f"{network.name}, and frames need them; choose --hosts {places[0]}, or "
        "testcases/test_endpoints.py"
    )


def require_frames(scenario: Scenario) -> None:
    """Refuse pods between which no frames can be sent."""
    if why := no_frames(scenario):
        raise NoResultError(why, where=scenario.id)


@cache
def _in_place(name: str) -> type[VSwitch]:
    network: type[Network] = registry.load("networks", name)
    can = network.capabilities
    kind = can.port if can.needs_parent and can.port != "host" else "veth"
    own = {
        "__doc__": network.__doc__,
        "network": network,
        "name": name,
        "programs": network.programs,
        "kernel_modules": network.kernel_modules,
        "capabilities": VSwitchCapabilities(
            wires=("veth",),  # what the tester is calibrated over
            attachments=(kind,),
            chains=False,
            max_frame_size=can.max_frame_size,
            forwarding=("l2", "l3") if can.routed else ("l2",),
            modes=can.modes,
            options=("mtu", "offloads"),
            addressing="port",
        ),
    }
    return type(f"{network.__name__}InPlace", (PodNetwork,), own)


class PodNetwork(VSwitch):
    """Two hosts with a link, pods on one or on both, and the network that joins them.

    Attributes:
        network: The class of the network.
    """

    network: ClassVar[type[Network]]

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._network = self.network(machine, plan)
        self._hosts = [PodHost(machine, number) for number in (0, 1)]
        self._made = False
        #: Ports of the first two pods, then of those beside them that have ports of their own.
        self._ports: dict[VnfPort, PodPort] = {}
        self._took_s: dict[VnfPort, float] = {}

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """Frames are addressed to the gateway where the network routes."""
        del testbed
        if scenario.pod_hosts not in cls.network.capabilities.routed:
            return scenario
        return scenario.model_copy(update={"forwarding": "l3"})

    @classmethod
    def missing(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the network from carrying the scenario here."""
        can = cls.network.capabilities
        place = scenario.pod_hosts
        if place not in can.places:
            return f"network {cls.name} has no pods on the {place} host; --hosts {can.places[0]}"
        if scenario.routed and scenario.pod_hosts not in can.routed:
            return (
                f"network {cls.name} does not route between pods on the {scenario.pod_hosts} host; "
                "leave --forwarding out"
            )
        if scenario.pod == "runc" and (why := facts.missing_program(RUNC)):
            return why
        hosts = 2 if place == "other" else 1
        if can.most_on_host is not None and pod_count(scenario) > can.most_on_host * hosts:
            most = can.most_on_host
            return f"network {cls.name} has {most} pod on a host; choose --pods {most * hosts}"
        return cls.network.missing(facts, scenario)

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """Hosts, pods and the path between them, for `--plan`."""
        del facts
        scenario, can = plan.scenario, cls.network.capabilities
        way = "routed" if scenario.routed else "switched"
        mtu = scenario.mtu - can.overhead
        lines = {
            f"pod{port.vnf}": f"on host{_host_of(scenario, port)}, address {_address(port)}, "
            f"MAC {vnf_mac(port)}, MTU {mtu}"
            for port in map(_port_of, range(pod_count(scenario)))
        }
        hosts = "one host" if scenario.pod_hosts == "same" else "two hosts"
        lines["network"] = f"{cls.name}, {way} between pods on {hosts}"
        if scenario.pod_hosts == "other":
            lines["network"] += f": {cls.network.path}"
        if why := no_frames(scenario):
            lines["frames"] = f"none: {why}"
        return lines

    def start(self) -> None:
        """Make the hosts, and what each that has pods has of the network."""
        if not self._made:
            self._made = True
            for host in self._hosts:
                host.create()
            mtu = self.plan.scenario.mtu
            lay_uplinks(self._hosts, mtu, offloads=self._network.offloads)
        scenario = self.plan.scenario
        ends = scenario.deployment.tester_vnf_ports
        for number in sorted({_host_of(scenario, port) for port in ends}):
            self._network.prepare(self._hosts[number])

    def add_phy_port(self, end: WireEnd) -> None:
        """Pods are all that there is."""
        raise self.cannot_plug(end)

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Where a pod's interface will be."""
        self.check_kind(kind)
        if self._network.has_ports:
            netdev = self._network.netdev(port.vnf)
            return Attachment(port=port, kind=kind, netdev=netdev, queues=queues)
        netns = str(self._host_of(port).netns)
        return Attachment(port=port, kind="loopback", netdev=LOOPBACK, netns=netns)

    def _host_of(self, port: VnfPort) -> PodHost:
        return self._hosts[_host_of(self.plan.scenario, port)]

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Give a pod its interface."""
        self._attach(attachment.port, attachment.require("netdev"))

    def _attach(self, port: VnfPort, netdev: str) -> None:
        pod = Pod(
            port=port,
            netdev=netdev,
            mac=vnf_mac(port),
            address=_address(port),
            gateway_mac=dut_mac(_port_of(port.vnf % 2)),  # one for all pods of a host
        )
        began = time.monotonic()
        self._ports[port] = self._network.attach(self._host_of(port), pod)
        self._took_s[port] = time.monotonic() - began

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Let the pods reach each other, those beside the first two as well."""
        del streams
        if self.network.capabilities.port != "host":
            for port in map(_port_of, range(len(self._ports), pod_count(self.plan.scenario))):
                self._attach(port, self._network.netdev(port.vnf))
        self._network.join(self._hosts, tuple(self._ports.values()))

    @property
    def pods(self) -> tuple[PodPort, ...]:
        """What each pod has, by number; on the hosts' own network pods of a host share a port."""
        numbers = range(pod_count(self.plan.scenario))
        shared = self.network.capabilities.port == "host"
        return tuple(self._ports[_port_of(n % 2 if shared else n)] for n in numbers)

    def netns_of(self, pod: PodPort) -> Path:
        """Network namespace of a pod's host."""
        return self._hosts[pod.host].netns

    def next_hop(self, pod: PodPort, far: PodPort) -> str:
        """MAC address that a pod's frames to another carry: its gateway's, or the other's own."""
        place: PodHosts = "same" if pod.host == far.host else "other"
        routed = place in self.network.capabilities.routed
        return pod.pod.gateway_mac if routed else far.pod.mac

    def remove_port(self, port: Port) -> None:
        """Take a pod's interface away."""
        if not isinstance(port, VnfPort) or port not in self._ports:
            raise self.no_port(port, self._ports)
        given = self._ports.pop(port)
        self._network.detach(self._hosts[given.host], given)

    def links_down(self) -> tuple[str, ...]:
        """Pods whose interface has no carrier."""
        up = {link.name for link in self.machine.all_links() if link.up and link.carrier}
        return tuple(str(p) for p, given in self._ports.items() if given.pod.netdev not in up)

    def counters(self) -> tuple[HopCounters, ...]:
        """What passed pods' interfaces."""
        return self._network.counters(self._ports)

    def check_alive(self) -> None:
        """Raise when a pod's interface is gone."""
        there = self.machine.link_statistics()
        gone = [
            f"the interface of pod{port.vnf} ({given.pod.netdev})"
            for port, given in self._ports.items()
            if given.pod.netdev not in there
        ]
        if gone:
            raise DutError(f"gone: {', '.join(gone)}", where=self.name)

    def facts(self) -> dict[str, Any]:
        """The network, and what each pod was given."""
        return {
            **self._network.facts(),
            "pods": {
                f"pod{port.vnf}": {
                    "host": given.host,
                    "interface": f"{given.kind} {given.pod.netdev}",
                    "address": given.pod.address,
                    "MAC": given.pod.mac,
                    "gateway": given.gateway or "none: frames carry the other pod's address",
                    "MTU": given.mtu,
                    ATTACHED: round(self._took_s[port], 4),
                }
                for port, given in self._ports.items()
            },
        }

    def stop(self) -> None:
        """Take the network away; hosts and pods' interfaces stay until the run ends."""
        self._ports = {}
        if self._made:
            self._network.stop(self._hosts)


def _host_of(scenario: Scenario, port: VnfPort) -> int:
    """Number of the host that a pod is on."""
    return port.vnf % 2 if scenario.pod_hosts == "other" else 0


def _port_of(number: int) -> VnfPort:
    return VnfPort(vnf=number, index=0)


def _address(port: VnfPort) -> str:
    return POD_ADDRESS.format(18 + port.vnf % 2, port.vnf // 2)


def pod_count(scenario: Scenario) -> int:
    """Pods that are deployed: two for frames, and for programs as many as they need."""
    return max(2, scenario.pods) if scenario.sockets else 2
