"""Pods with a virtual function each: the NIC of their host switches between them and the cable.

It does so by MAC address, or in switchdev mode by rules between its wire and representors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import links
from vnetperf.host.machine import Machine
from vnetperf.host.nic import pci, switchdev, vfs
from vnetperf.host.nic.switch_rules import SwitchRule
from vnetperf.host.nic.switchdev import SWITCHDEV, Switchdev, nic_mode
from vnetperf.host.nic.vfs import VfOptions
from vnetperf.host.wait import wait_for
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import PhyPort, Port, vnf_mac
from vnetperf.model.errors import DutError
from vnetperf.model.scenario import NicUse, Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.model.transfer import OCTETS_ADDED
from vnetperf.plugin.backend import optional
from vnetperf.plugin.network import (
    TAG_OCTETS,
    Network,
    NetworkCapabilities,
    Pod,
    PodPort,
    graph_port,
    host_number,
    pod_count,
)
from vnetperf.virt.pod_host import PodHost

#: Longest wait for pods' links, which rise with that of the NIC, seconds.
CARRIER_S = 20.0


def pods_on(scenario: Scenario, host: int) -> list[int]:
    """Numbers of the pods on a host."""
    return [pod for pod in range(pod_count(scenario)) if host_number(scenario, pod) == host]


def pod_rules(scenario: Scenario) -> tuple[SwitchRule, ...]:
    """Rules of switches that do not go by address: from each pod to each, and from the cable.

    A NIC's wire is the physical port of its host's number.
    """
    pods = range(pod_count(scenario))
    hops: list[tuple[Port, Port, str]] = []
    for pod in pods:
        host = host_number(scenario, pod)
        wire = PhyPort(index=host)
        if scenario.pod_hosts == "other":
            hops.append((wire, graph_port(pod), vnf_mac(graph_port(pod))))
        for far in (other for other in pods if other != pod):
            same_host = host_number(scenario, far) == host
            hops.append(
                (graph_port(pod), graph_port(far) if same_host else wire, vnf_mac(graph_port(far)))
            )
    sources = [source for source, _, _ in hops]
    return tuple(
        SwitchRule(
            src=source, dst=to, eth_dst=mac, only=sources.count(source) > 1, prio=2 * number + 1
        )
        for number, (source, to, mac) in enumerate(hops)
    )


def map_host_nics(nics: tuple[NicUse, ...], scenario: Scenario) -> dict[int, NicUse]:
    """The NIC of each host that has pods, by its number: of one host that of the DUT."""
    ends = {nic.side: nic for nic in nics}
    host_nics = [ends["dut"]] if scenario.pod_hosts == "same" else [ends["tester"], ends["dut"]]
    return dict(enumerate(host_nics))


class SriovNetwork(Network):
    """A virtual function of the host's NIC for each pod; the NIC switches."""

    name: ClassVar[str] = "sriov"
    Options: ClassVar[type[Frozen]] = VfOptions
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = optional(*switchdev.MODULES)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="vf", link="nic", modes=switchdev.MODES
    )
    path: ClassVar[str] = "virtual function, NIC, cable, NIC, virtual function"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._nics = map_host_nics(plan.nics, plan.scenario)
        self._hosts: dict[int, PodHost] = {}
        self._switch = Switchdev(machine, plan.scenario.mtu) if self.mode == SWITCHDEV else None
        #: PCI addresses of virtual functions by the pod, and what their drivers refused.
        self._functions: dict[int, str] = {}
        self._refused: dict[int, tuple[str, ...]] = {}

    @property
    def _options(self) -> VfOptions:
        return self.plan.scenario.options.own(VfOptions)

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps this machine, or the traffic, from virtual functions of pods."""
        profile, options = scenario.traffic, scenario.options.own(VfOptions)
        sources = {*profile.values, *(profile.vary if profile.flows > 1 else ())}
        if nic_mode(scenario) == SWITCHDEV:
            if reason := switchdev.explain_switchdev_conflict(facts, scenario):
                return reason
        elif "eth_src" in sources and options.spoof_check is not False and not scenario.sockets:
            return (
                "a NIC drops what a pod sends with another source address than its own; choose "
                "--set spoof_check=false, or a profile with --traffic that leaves eth_src alone"
            )
        return vfs.explain_no_vfs(facts) or cls.missing_requirement(facts)

    @classmethod
    def nics_missing(cls, nics: tuple[NicUse, ...], facts: MachineFacts, scenario: Scenario) -> str:
        """Whether the NIC of each host can have a virtual function for each of its pods."""
        deployment_name, cure = scenario.deployment.name, "choose fewer --pods"
        for host, use in map_host_nics(nics, scenario).items():
            count = len(pods_on(scenario, host))
            if reason := vfs.explain_too_few_vfs(
                facts, use.pci, count, subject=deployment_name, cure=cure
            ):
                return reason
            if nic_mode(scenario) == SWITCHDEV and (reason := switchdev.explain_no_switchdev(use)):
                return reason
        return ""

    def lay_link(self, hosts: Sequence[PodHost]) -> None:
        """Give each host its NIC; the cable between them is there."""
        for number, use in self._nics.items():
            self._hosts[number] = hosts[number]
            # Before the virtual functions are there, or their drivers find it resetting. It keeps
            # its name: udev makes that an alternative one, which no other name gives way to.
            hosts[number].uplink = self.machine.borrow_nic(
                use.pci,
                mtu=self.plan.scenario.mtu,
                isolated=self.plan.testbed.isolated,
                netns=hosts[number].netns,
            )

    def prepare(self, host: PodHost) -> None:
        """Make a virtual function for each pod of the host, under the kernel's driver there."""
        pods = self._pods(host)
        if pods[0] in self._functions:  # pods hold on to them while the network is stopped
            self._bring(host, up=True)
            return
        nic = self._nics[host.number].pci
        if self._switch is None:
            addresses = self.machine.make_vfs(nic, len(pods))
        else:
            addresses = self._switch.make(host.number, nic, [graph_port(pod) for pod in pods])
        self._bring(host, up=True)
        parent, netns = self._parent(host)
        for number, (pod, address) in enumerate(zip(pods, addresses, strict=True)):
            mac = vnf_mac(graph_port(pod))
            self._refused[pod] = vfs.set_up_vf(
                parent,
                number,
                netns,
                self._options,
                mac=mac,
                vlan=self._options.vlan or 0,
                usual={"link": "auto"} if self._switch is None else {},
            )
            self.machine.borrow_nic(
                address,
                mtu=self.mtu,
                mac=mac,
                netns=host.netns,
                name=self.netdev(pod),
                offloads=self.offloads,
            )
            self._functions[pod] = address

    def _pods(self, host: PodHost) -> list[int]:
        return pods_on(self.plan.scenario, host.number)

    def _parent(self, host: PodHost) -> tuple[str, Path | None]:
        """The interface of a host's NIC, and its namespace; switchdev's are the machine's own."""
        if self._switch is None:
            return host.uplink, host.netns
        return self._switch.name(f"phy{host.number}"), None

    def _bring(self, host: PodHost, *, up: bool) -> None:
        """Bring a host's NIC up or down, and with it the links of its virtual functions."""
        if self._switch is None:
            links.set_up(host.uplink, up=up, netns=host.netns)
            return
        for name in (f"phy{host.number}", *map(str, map(graph_port, self._pods(host)))):
            self._switch.bring(name, up=up)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """Move the interface of the pod's virtual function, as CNI's host-device does."""
        if not self.is_plugged(pod):
            links.move(pod.netdev, self.machine.netns, netns=host.netns)
            links.make_ready(pod.netdev, self.machine.netns, mtu=self.mtu, offloads=self.offloads)
            if self._switch is not None:
                self._switch.bring(pod.port, up=True)
        return PodPort(pod=pod, host=host.number, kind="vf", mtu=self.mtu)

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """The NICs join them, once their links are up; in switchdev mode by rules."""
        if self._switch is not None:
            attached = {str(port.pod.port) for port in ports}
            pods = map(graph_port, range(pod_count(self.plan.scenario)))
            without = [str(port) for port in pods if str(port) not in attached]
            self._switch.connect(pod_rules(self.plan.scenario), without)
        names = [port.pod.netdev for port in ports]

        def down() -> list[str]:
            return [name for name in names if not self.machine.link(name).carrier]

        wait_for(
            lambda: not down(),
            CARRIER_S,
            "links of pods",
            poll_s=0.02,
            error=lambda: DutError(
                f"no link on {' and '.join(down())} after {CARRIER_S:.0f} s",
                where=f"network {self.name}",
                cure="see whether the cable joins the two NICs, and dmesg",
            ),
        )

    def check_alive(self) -> None:
        """Raise when a representor is gone, and the mode with it; pods' interfaces others see."""
        if self._switch is not None:
            self._switch.representors()
        super().check_alive()

    def describe(self) -> dict[str, Any]:
        """As of every network; NICs and their virtual functions, as they are."""
        facts = super().describe()
        nics, functions = {}, {}
        for host, use in self._nics.items():
            nic, (parent, netns) = pci.nic(use.pci), self._parent(self._hosts[host])
            nics[f"host{host}"] = (
                f"{nic.address}, {nic.driver}, {nic.vfs} of {nic.max_vfs} virtual functions, MTU "
                f"{links.get(parent, netns).mtu}"
            )
            states = vfs.read_vfs(parent, netns)
            for state, pod in zip(states, self._pods(self._hosts[host]), strict=True):
                address, netdev = self._functions[pod], self.netdev(pod)
                functions[f"pod{pod}"] = vfs.describe(state, address, netdev, self._refused[pod])
        return {
            **facts,
            "launch line": "none: it is in the NIC",
            OCTETS_ADDED: facts[OCTETS_ADDED] + (TAG_OCTETS if self._options.vlan else 0),
            "mode": self.mode,
            "switch": "the NIC's own, by MAC address (legacy mode)",
            "NICs": nics,
            "virtual functions": functions,
            **(self._switch.facts() if self._switch is not None else {}),
        }

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Give the host the interface back."""
        if self._switch is not None:
            self._switch.cut_off(port.pod.port)
        links.move(port.pod.netdev, host.netns, netns=self.machine.netns)

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """Bring the NICs down, and with them pods' links; the run's end takes functions away."""
        for host in self._hosts.values():
            # Where laying the link or making functions has failed there is nothing to bring down.
            if self._pods(host)[0] in self._functions:
                self._bring(host, up=False)
