"""Pods whose applications are DPDK programs: sockets of an OVS-DPDK on each host.

Nothing between a pod and its host's switch is the kernel's. The hosts' link is: each switch has its
end by DPDK's af_packet driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host import dpdk
from vnetperf.host.dpdk import af_packet_devargs, memif_devargs
from vnetperf.host.machine import Machine
from vnetperf.model.deployment import VnfPort
from vnetperf.model.frames import OVERHEAD
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.scenario import Placement, Plan, Pollers, RoleDemand, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.model.trial import HopCounters
from vnetperf.networks.ovs import BRIDGE, OvsFlatNetwork
from vnetperf.openvswitch.dpdk import DEFAULT_DESCRIPTORS, dpdk_config, dpdk_memory_mib
from vnetperf.openvswitch.private import PrivateOvs
from vnetperf.openvswitch.programs import DAEMON_WITH_DPDK, OVS_TOOLS, ovs_version_problem
from vnetperf.plugin.network import NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost

#: MTU of DPDK's af_packet driver, by which the hosts' link is plugged in.
LINK_MTU = 1500
#: The hosts' link in a switch.
LINK = "link0"
#: Ports of a switch: the pod's and the link; queues that it sends on: its thread's and one more.
PORTS, SENDERS = 2, 2


class VhostUserNetwork(OvsFlatNetwork):
    """A pod's DPDK application on an OVS-DPDK, whose bridge has the hosts' link as a port."""

    name: ClassVar[str] = "vhost_user"
    daemon: ClassVar[Program] = DAEMON_WITH_DPDK
    programs: ClassVar[tuple[Program, ...]] = (DAEMON_WITH_DPDK, *OVS_TOOLS)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = ()
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(port="vhost-user")
    path: ClassVar[str] = "vhost-user, OVS-DPDK, hosts' link, OVS-DPDK, vhost-user"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        self._plugged: set[VnfPort] = set()

    @property
    def userspace(self) -> bool:
        """The datapath is the daemon's own."""
        return True

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the daemons from running, or from having the hosts' link."""
        if scenario.pod_hosts == "other" and (scenario.options.mtu or 0) > LINK_MTU:
            return (
                f"the hosts' link is plugged in by DPDK's af_packet driver, whose MTU is "
                f"{LINK_MTU}, not {scenario.options.mtu}; leave mtu out, or choose --hosts same"
            )
        return cls.missing_requirement(facts) or ovs_version_problem(facts, cls.daemon)

    @classmethod
    def pod_mtu(cls, scenario: Scenario) -> int:
        """That of the hosts' link less the tunnel, or on one host whatever frames need."""
        mtu = scenario.mtu if scenario.pod_hosts == "same" else min(scenario.mtu, LINK_MTU)
        return mtu - cls.capabilities.overhead

    @classmethod
    def roles(cls, scenario: Scenario) -> tuple[RoleDemand, ...]:
        """A poll-mode thread of each host's daemon; two daemons can share a processor."""
        hosts = _hosts(scenario)
        return (RoleDemand(role="pmd", threads=hosts, group="switch", sleeps=True),)

    @classmethod
    def hugepage_mib(cls, scenario: Scenario) -> int:
        """Memory of all daemons."""
        return _hosts(scenario) * _memory_mib(scenario)

    @classmethod
    def fixed_mib(cls, scenario: Scenario, kinds: Collection[str]) -> dict[int, int]:
        """Buffers of ports whose driver names no node, where OVS has them then."""
        return {dpdk.MEMIF_NODE: cls.hugepage_mib(scenario)} if cls._has_memif() else {}

    @classmethod
    def _has_memif(cls) -> bool:
        return cls.capabilities.port == "memif"

    @classmethod
    def _config(cls, plan: Plan, facts: MachineFacts | None, number: int) -> dict[str, str]:
        """The other_config of a host's daemon."""
        cores, mib = plan.placement.cores["pmd"], _memory_mib(plan.scenario)
        pmds = (cores[number % len(cores)],)
        return dpdk_config(plan, facts, pmds, mib, memif=cls._has_memif())

    @classmethod
    def launch_lines(cls, plan: Plan, facts: MachineFacts | None = None) -> dict[str, str]:
        """Hosts and pods, and the configuration of each host's daemon."""
        return super().launch_lines(plan, facts) | {
            f"ovs-vswitchd of host{number}": f"ovs-vswitchd unix:RUN_DIR/ovs{number}/db.sock; "
            "other_config "
            + " ".join(f"{k}={v}" for k, v in cls._config(plan, facts, number).items())
            for number in range(_hosts(plan.scenario))
        }

    def launch(self, host: PodHost, switch: PrivateOvs) -> None:
        """Start a host's daemon with DPDK."""
        switch.configure(self._config(self.plan, self.machine.facts, host.number))
        switch.start_dpdk()

    def add_uplink(self, host: PodHost, switch: PrivateOvs, bridge: str) -> None:
        """Make the hosts' link a port of a bridge, by a DPDK device."""
        mtu = min(self.plan.scenario.mtu, LINK_MTU)
        device = af_packet_devargs(host.number, host.uplink, mtu)
        settings = ("type=dpdk", f'options:dpdk-devargs="{device}"', f"mtu_request={mtu}")
        switch.add_interface(bridge, LINK, *settings)

    def is_plugged(self, pod: Pod) -> bool:
        """Whether a pod has had its socket: its application may listen there."""
        return pod.port in self._plugged

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """A port of the bridge that has the pod's socket."""
        name, mtu = str(pod.port), f"mtu_request={self.mtu}"
        self.switches[host.number].add_interface(BRIDGE, name, *self.socket_settings(pod), mtu)
        self._plugged.add(pod.port)
        kind = self.capabilities.port
        return PodPort(pod=pod, host=host.number, kind=kind, mtu=self.mtu, far=name)

    def socket_settings(self, pod: Pod) -> tuple[str, ...]:
        """Settings of the port that has a pod's socket: a client of the pod's application."""
        return "type=dpdkvhostuserclient", f"options:vhost-server-path={pod.socket}"

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Take the pod's port out of the bridge."""
        super().detach(host, port)
        self._plugged.discard(port.pod.port)

    def counters(self) -> tuple[HopCounters, ...]:
        """Frames that passed pods' ports, as the switches count them."""
        return tuple(
            counters for switch, names in self._by_switch() for counters in switch.counters(names)
        )

    def links_down(self) -> tuple[str, ...]:
        """Pods whose application is not connected."""
        return tuple(
            name for switch, names in self._by_switch() for name in switch.links_down(names)
        )

    def _by_switch(self) -> Iterator[tuple[PrivateOvs, dict[str, str]]]:
        """Each host's switch with the pods' ports that it has, by their names there."""
        for number, switch in self.switches.items():
            yield switch, {p.far: str(port) for port, p in self.ports.items() if p.host == number}

    def pollers(self) -> tuple[Pollers, ...]:
        """Poll-mode threads of all daemons."""
        return tuple(poller for switch in self.switches.values() for poller in switch.pollers())

    def datapath_work(self) -> tuple[DatapathWork, ...]:
        """What each poll-mode thread has counted."""
        return tuple(
            work.model_copy(update={"thread": f"host{number}, {work.thread}"})
            for number, switch in self.switches.items()
            for work in switch.pmd_work()
        )

    def describe(self) -> dict[str, Any]:
        """What networks of OVS state, and what DPDK is and which thread polls which queue."""
        return {
            **super().describe(),
            "forwarded by": "poll-mode threads of the daemons, by DPDK (netdev)",
            "other_config": {
                f"host{number}": self._config(self.plan, self.machine.facts, number)
                for number in self.switches
            },
            "DPDK": {f"host{n}": switch.dpdk_facts() for n, switch in self.switches.items()},
        }


class VhostUserVxlanNetwork(VhostUserNetwork):
    """The same with a VXLAN tunnel between the bridges of the hosts."""

    name: ClassVar[str] = "vhost_user_vxlan"
    tunnel: ClassVar[str] = "vxlan"
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="vhost-user", overhead=OVERHEAD["vxlan"]
    )
    path: ClassVar[str] = "vhost-user, OVS-DPDK, VXLAN, hosts' link, VXLAN, OVS-DPDK, vhost-user"


class MemifNetwork(VhostUserNetwork):
    """The same with memif sockets, at which the daemons listen."""

    name: ClassVar[str] = "memif"
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(port="memif")
    path: ClassVar[str] = "memif, OVS-DPDK, hosts' link, OVS-DPDK, memif"

    @classmethod
    def tx_queues(cls, scenario: Scenario, placement: Placement) -> int:
        """One for the poll-mode thread and one for the others, whatever they send."""
        return SENDERS

    def socket_settings(self, pod: Pod) -> tuple[str, ...]:
        """A memif device that listens at the pod's socket."""
        Path(pod.socket).unlink(missing_ok=True)  # of a daemon that was killed
        device = memif_devargs(
            pod.port.vnf, role="server", identity=0, socket=pod.socket, mtu=self.mtu
        )
        return "type=dpdk", f'options:dpdk-devargs="{device}"'


def _hosts(scenario: Scenario) -> int:
    """Hosts that have pods, and a daemon each."""
    return 2 if scenario.pod_hosts == "other" else 1


def _memory_mib(scenario: Scenario) -> int:
    """Hugepages of one daemon."""
    descriptors = PORTS * (1 + SENDERS) * DEFAULT_DESCRIPTORS
    return dpdk_memory_mib(descriptors, VhostUserNetwork.pod_mtu(scenario))
