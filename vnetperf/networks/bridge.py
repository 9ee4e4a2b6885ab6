"""Pods on a bridge of their host, hosts joined by routes: the path of flannel's host-gw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from vnetperf.model.testbed import KernelModule
from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost

#: The bridge that pods of a host have, as CNI's bridge plugin calls it.
BRIDGE = "cni0"
BRIDGE_MODULE = KernelModule(name="bridge", purpose="pods' bridge", symbol="br_handle_frame")


class BridgeNetwork(Network):
    """A bridge on each host with an end of each pod's veth pair; routes to the other's pods."""

    name: ClassVar[str] = "bridge"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (BRIDGE_MODULE,)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", routed=("other",), agents=True
    )
    path: ClassVar[str] = "veth, bridge, route, hosts' link, route, bridge, veth"

    def prepare(self, host: PodHost) -> None:
        """Make the bridge; it has the address that the pod sends routed packets to."""
        self.machine.load_module(BRIDGE_MODULE)
        host.add_bridge(BRIDGE, self.mtu, offloads=self.offloads)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """A veth pair, the host's end at the bridge."""
        port = self.attach_veth(host, pod)
        host.add_port(BRIDGE, port.far)
        if self.routes:
            host.set_mac(BRIDGE, pod.gateway_mac)
            self.route_pod(host, port, BRIDGE)
        return port

    def describe(self) -> dict[str, Any]:
        """The settings of the bridge."""
        return {**super().describe(), "bridge": f"{BRIDGE}, STP off, multicast snooping off"}

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """Delete the bridges; routes over the hosts' link go with the link's next use."""
        for host in hosts:
            host.delete(BRIDGE)
