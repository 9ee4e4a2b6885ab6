"""Pods each on a veth pair that the host routes to: CNI's ptp plugin and calico have this path."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost


class PtpNetwork(Network):
    """No bridge: every packet of a pod is routed, to a pod on the same host too."""

    name: ClassVar[str] = "ptp"
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", routed=("same", "other"), agents=True
    )
    path: ClassVar[str] = "veth, route, hosts' link, route, veth"

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """A veth pair; the host's end is the pod's gateway."""
        port = self.attach_veth(host, pod, mac=pod.gateway_mac)
        self.route_pod(host, port, port.far)
        return port
