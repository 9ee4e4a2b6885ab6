"""Pods that have their host's network, as with hostNetwork: the baseline of all others."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.host import ethtool, links
from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost


class HostNetwork(Network):
    """A pod has its host's interfaces: nothing is added to the path."""

    name: ClassVar[str] = "host"
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="host", frames=("other",), agents=True
    )
    path: ClassVar[str] = "hosts' link"

    def netdev(self, number: int) -> str:
        """The interface of the pod's host."""
        return self.machine.interface_name(f"u{number}")

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """Move the host's interface to where pods' interfaces are; on one host nothing moves."""
        if not self.has_ports:
            if not self.offloads:
                ethtool.disable_offloads(pod.netdev, netns=host.netns)
            mtu = links.get(pod.netdev, host.netns).mtu
            return PodPort(pod=pod, host=host.number, kind="loopback", mtu=mtu)
        if not self.is_plugged(pod):
            links.move(host.uplink, self.machine.netns, netns=host.netns)
        links.make_ready(host.uplink, self.machine.netns, mtu=self.mtu, offloads=self.offloads)
        self.machine.set_link(host.uplink, mac=pod.mac)
        return PodPort(pod=pod, host=host.number, kind="veth", mtu=self.mtu)

    def detach(self, host: PodHost, port: PodPort) -> None:
        """Give the host its interface back."""
        if self.has_ports:
            links.move(host.uplink, host.netns, netns=self.machine.netns)
