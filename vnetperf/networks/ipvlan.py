"""Pods with an address of their own on the host's interface, whose MAC address they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from vnetperf.host import links
from vnetperf.model.deployment import VnfPort, vnf_mac
from vnetperf.model.frames import index_of, plain_name
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost, add_address

IPVLAN_MODULE = KernelModule(name="ipvlan", purpose="ipvlan", symbol="ipvlan_queue_xmit")
#: Where what a pod sends is sent on: "l2" by its MAC address, on the parent; "l3" by the routes of
#: the host; "l3s" likewise, and through the host's netfilter. The kernel's numbers are in order.
MODES = ("l2", "l3", "l3s")


class IpvlanNetwork(Network):
    """An ipvlan for each pod on its host's interface: the kernel distinguishes them by address."""

    name: ClassVar[str] = "ipvlan"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (IPVLAN_MODULE,)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="ipvlan", modes=MODES, shares_mac=True, agents=True
    )
    path: ClassVar[str] = "ipvlan, hosts' link, ipvlan"

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps ipvlans from joining the pods."""
        problem = ""
        if not scenario.sockets:
            problem = cls._address_problem(scenario) or cls._frame_problem(scenario)
        return problem or cls.missing_requirement(facts)

    @classmethod
    def _address_problem(cls, scenario: Scenario) -> str:
        """What of a tester's frames leads to no pod: ipvlan looks at their first IPv4 header."""
        profile, mode = scenario.traffic, scenario.options.mode or MODES[0]
        headers, first = profile.headers, 1
        # A tag is off before ipvlan has what arrives; modes that route send no frame with one.
        if mode == "l2" and headers[first] in ("qinq", "vlan"):
            first += 1
        if headers[first] != "ipv4":
            return (
                f"ipvlan in mode {mode} finds pods by their IPv4 addresses, and none in frames of "
                f"{', '.join(headers)}; choose a --traffic that has IPv4 after Ethernet"
            )
        fields = (*profile.values, *(profile.vary if profile.flows > 1 else ()))
        if any(
            plain_name(name).startswith(("ipv4_src", "ipv4_dst"))
            and index_of(name, headers) == first
            for name in fields
        ):
            return (
                "ipvlan hands packets to pods by the addresses that they have, one each; choose a "
                "profile with --traffic that sets and varies no addresses"
            )
        return ""

    @classmethod
    def _frame_problem(cls, scenario: Scenario) -> str:
        """What keeps frames from passing between the pods, where sockets reach each other."""
        mode, sockets = scenario.options.mode or MODES[0], "or testcases/test_endpoints.py"
        if scenario.pod_hosts == "other":
            return (
                "ipvlan in mode l3s hands what comes from another host to a pod's sockets, and its "
                f"interface never has it; choose --set mode=l3, {sockets}"
                if mode == "l3s"
                else ""
            )
        if mode == "l2":
            return (
                "two pods of one host have one MAC address, and ipvlan in mode l2 passes between "
                f"them what carries it as source and destination; choose --hosts other, {sockets}"
            )
        return (
            f"between two pods of one host ipvlan in mode {mode} looks for the address beyond what "
            "the kernel has in one piece of a frame that a tester sends through a packet ring; "
            f"choose --hosts other, {sockets}"
        )

    @property
    def passes_interfaces(self) -> bool:
        """Not in mode l3s from another host: packets change over to a pod above its interface."""
        return self.mode != "l3s" or self.place == "same"

    def prepare(self, host: PodHost) -> None:
        """The host's interface is all that pods share: it has their MAC address."""
        self.machine.load_module(IPVLAN_MODULE)
        mac = vnf_mac(VnfPort(vnf=host.number, index=0))
        links.set_address(host.uplink, mac, netns=host.netns)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """An ipvlan with the pod's address, by which it is found."""
        shared = pod.model_copy(update={"mac": ""})
        number = MODES.index(self.mode)
        port = self.attach_child(host, shared, "ipvlan", ipvlan_mode=number)
        add_address(self.machine.netns, pod.netdev, f"{pod.address}/32")
        configured_pod = pod.model_copy(update={"mac": self.machine.link(pod.netdev).mac})
        return port.model_copy(update={"pod": configured_pod})

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """Each host knows the other's address; in mode l3 its routes lead to the other's pods."""
        for host in hosts:
            far = hosts[1 - host.number]
            host.add_neighbour(host.uplink, far.address, far.uplink_mac)
        if self.mode != MODES[0]:
            self.route_far_pods(hosts, ports)
