"""Pods on a bridge of Open vSwitch on each host, joined by the hosts' link, a VLAN or a tunnel.

The datapath is of threads of the daemon's own ("userspace", without DPDK), or the kernel's. Each
host has its own database and daemon, in its namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from vnetperf.host.machine import Machine
from vnetperf.model.frames import OVERHEAD
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts, Program
from vnetperf.networks.vlan import VLAN_ID
from vnetperf.networks.vxlan import VNI
from vnetperf.openvswitch.private import PrivateOvs, tunnel_settings
from vnetperf.openvswitch.programs import DAEMON, DATAPATH, OVS_TOOLS, ovs_version_problem
from vnetperf.plugin.backend import TUNNEL_MODULES, optional
from vnetperf.plugin.network import TAG_OCTETS, Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost

#: Bridge of the pods, bridge of the hosts' link under a tunnel, and the tunnel's port.
BRIDGE, UNDERLAY, TUNNEL = "br-pods", "br-link", "tunnel0"
USERSPACE, KERNEL = MODES = ("userspace", "kernel")


class OvsFlatNetwork(Network):
    """The hosts' link is a port of the pods' bridges: one broadcast domain."""

    name: ClassVar[str] = "ovs_flat"
    daemon: ClassVar[Program] = DAEMON
    #: Kind of tunnel between hosts; "" for none.
    tunnel: ClassVar[str] = ""
    #: Settings of a pod's port.
    pod_port: ClassVar[str] = ""
    programs: ClassVar[tuple[Program, ...]] = (*Network.programs, DAEMON, *OVS_TOOLS)
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = optional(DATAPATH)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(port="veth", modes=MODES)
    path: ClassVar[str] = "veth, OVS, hosts' link, OVS, veth"

    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(machine, plan)
        #: The Open vSwitch of each host with pods, by the host's number.
        self.switches: dict[int, PrivateOvs] = {}
        #: Whether hosts are joined, which more pods change nothing of.
        self._joined = False

    @property
    def userspace(self) -> bool:
        """Whether the datapath is the daemon's own."""
        return self.mode == USERSPACE

    @property
    def offloads(self) -> bool:
        """Off in the daemon's own datapath, which takes frames with their checksums as they are."""
        return not self.userspace and super().offloads

    @classmethod
    def modules(cls) -> tuple[KernelModule, ...]:
        """Modules of the kernel's datapath."""
        return (DATAPATH, *((TUNNEL_MODULES[cls.tunnel],) if cls.tunnel else ()))

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the daemons from running, or from having their datapath."""
        options = scenario.options
        if options.mode != KERNEL and options.offloads:
            return (
                "the daemon's own datapath takes no frames whose checksums are left to an "
                "interface; leave offloads out, or choose --set mode=kernel"
            )
        needs = cls.modules() if options.mode == KERNEL else ()
        lacks = next((text for module in needs if (text := facts.missing_module(module))), "")
        return lacks or cls.missing_requirement(facts) or ovs_version_problem(facts, DAEMON)

    def prepare(self, host: PodHost) -> None:
        """Start the host's daemons, and make the pods' bridge."""
        self.machine.load_module("veth")
        if not self.userspace:
            for module in self.modules():
                self.machine.load_module(module)
        programs = self.machine.facts.programs
        switch = PrivateOvs(
            self.machine,
            programs[self.daemon.name],
            programs["ovsdb-server"],
            name=f"ovs{host.number}",
            netns=host.netns,
        )
        self.switches[host.number] = switch
        switch.start_database()
        self.launch(host, switch)
        self._add_bridge(switch, BRIDGE)

    def launch(self, host: PodHost, switch: PrivateOvs) -> None:
        """Start a host's daemon and wait until it is ready."""
        switch.start_switch(switch.answers, "the daemon", cure="see the log above")

    def add_uplink(self, host: PodHost, switch: PrivateOvs, bridge: str) -> None:
        """Make the hosts' link a port of a bridge."""
        switch.add_interface(bridge, host.uplink)

    def _add_bridge(self, switch: PrivateOvs, name: str, *settings: str) -> None:
        kind = "netdev" if self.userspace else "system"
        of_bridge = (f"datapath_type={kind}", "fail-mode=standalone", *settings)
        mtu = f"mtu_request={self.plan.scenario.mtu}"
        switch.vsctl(
            *("add-br", name, "--", "set", "Bridge", name, *of_bridge),
            *("--", "set", "Interface", name, mtu),
        )
        switch.check_port(name)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """A veth pair, the host's end at the bridge."""
        port = self.attach_veth(host, pod)
        self.switches[host.number].add_interface(BRIDGE, port.far, port=self.pod_port)
        return port

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Take the pod's port out of the bridge, and its interface away."""
        self.switches[host.number].vsctl("del-port", port.far)
        super().detach(host, port)

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """Add the hosts' link, or the tunnel over it, to the bridge of each host with pods."""
        if self.place == "same" or self._joined:
            return
        self._joined = True
        if self.tunnel and self.userspace:
            # All before the first neighbour: an address of a bridge is its link's.
            macs = {host.number: host.uplink_mac for host in hosts}
            for host in hosts:
                self._add_underlay(host, hosts[1 - host.number], macs)
        for host in hosts:
            switch = self.switches[host.number]
            if not self.tunnel:
                self.add_uplink(host, switch, BRIDGE)
                continue
            far = hosts[1 - host.number].address
            switch.add_interface(
                BRIDGE, TUNNEL, *tunnel_settings(self.tunnel, host.address, far, VNI)
            )

    def _add_underlay(self, host: PodHost, far: PodHost, macs: dict[int, str]) -> None:
        """The daemon sends what is in a tunnel by a bridge with the host's address."""
        switch = self.switches[host.number]
        self._add_bridge(switch, UNDERLAY, f'other_config:hwaddr="{macs[host.number]}"')
        self.add_uplink(host, switch, UNDERLAY)
        host.move_address(host.uplink, UNDERLAY)
        switch.appctl("tnl/arp/set", UNDERLAY, far.address, macs[far.number])

    def check_alive(self) -> None:
        """Raise when a daemon has ended."""
        for switch in self.switches.values():
            switch.check_alive()
        super().check_alive()

    def describe(self) -> dict[str, Any]:
        """Version, datapath, and the ports of each host's switch."""
        version = self.machine.facts.versions.get(self.daemon.name, "")
        columns = ("name", "type", "options", "mtu", "link_state")
        return {
            **super().describe(),
            "version": version.splitlines()[0] if version else "unknown",
            "forwarded by": "the daemon's own datapath (netdev)"
            if self.userspace
            else "the kernel's datapath (system)",
            "launch line": {
                f"host{n}": " ".join(switch.switch_argv()) for n, switch in self.switches.items()
            },
            "ports": {
                f"host{n}": switch.interfaces(*columns)
                for n, switch in self.switches.items()
                if switch.switch_process is not None
            },
        }

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """End the daemons, which takes bridges and tunnels along."""
        self._joined = False
        while self.switches:
            number, switch = self.switches.popitem()
            switch.stop()
            hosts[number].give_address()


class OvsVlanNetwork(OvsFlatNetwork):
    """Pods' ports are in a VLAN, whose tag frames have on the hosts' link."""

    name: ClassVar[str] = "ovs_vlan"
    pod_port: ClassVar[str] = f"tag={VLAN_ID}"
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", modes=MODES, tag=TAG_OCTETS
    )
    path: ClassVar[str] = "veth, OVS, VLAN on the hosts' link, OVS, veth"

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps the daemons, or the traffic, from it: a pod's port is no trunk."""
        if not scenario.sockets and scenario.traffic.headers[1] in ("qinq", "vlan"):
            return (
                f"pods' ports are in VLAN {VLAN_ID}, where OVS drops frames that have a tag "
                "already; choose a profile with --traffic without one, or network ovs_flat"
            )
        return super().find_problem(facts, scenario)


class OvsVxlanNetwork(OvsFlatNetwork):
    """A VXLAN tunnel is a port of the pods' bridges."""

    name: ClassVar[str] = "ovs_vxlan"
    tunnel: ClassVar[str] = "vxlan"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = optional(DATAPATH, TUNNEL_MODULES["vxlan"])
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", modes=MODES, overhead=OVERHEAD["vxlan"]
    )
    path: ClassVar[str] = "veth, OVS, VXLAN, hosts' link, VXLAN, OVS, veth"


class OvsGreNetwork(OvsFlatNetwork):
    """A GRE tunnel of Ethernet frames is a port of the pods' bridges."""

    name: ClassVar[str] = "ovs_gre"
    tunnel: ClassVar[str] = "gre"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = optional(DATAPATH, TUNNEL_MODULES["gre"])
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", modes=MODES, overhead=OVERHEAD["gre"]
    )
    path: ClassVar[str] = "veth, OVS, GRE, hosts' link, GRE, OVS, veth"


class OvsGeneveNetwork(OvsFlatNetwork):
    """A Geneve tunnel is a port of the pods' bridges."""

    name: ClassVar[str] = "ovs_geneve"
    tunnel: ClassVar[str] = "geneve"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = optional(
        DATAPATH, TUNNEL_MODULES["geneve"]
    )
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", modes=MODES, overhead=OVERHEAD["geneve"]
    )
    path: ClassVar[str] = "veth, OVS, Geneve, hosts' link, Geneve, OVS, veth"
