"""Pods with an address of their own on the host's interface: no bridge and no veth pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from vnetperf.host import links
from vnetperf.model.testbed import KernelModule
from vnetperf.networks.base import Network, NetworkCapabilities, Pod, PodHost, PodPort

MACVLAN_MODULE = KernelModule(name="macvlan", purpose="macvlan", symbol="macvlan_common_newlink")


class MacvlanNetwork(Network):
    """A macvlan for each pod on its host's interface; mode bridge joins those of one host."""

    name: ClassVar[str] = "macvlan"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (MACVLAN_MODULE,)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="macvlan", needs_parent=True
    )
    path: ClassVar[str] = "macvlan, hosts' link, macvlan"

    def prepare(self, host: PodHost) -> None:
        """The host's interface is all that pods share."""
        del host
        self.machine.load_module(MACVLAN_MODULE)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """A macvlan, made at its host and moved to the pod as a runtime does."""
        port = PodPort(pod=pod, host=host.number, kind="macvlan", mtu=self.mtu)
        if self.is_there(pod):
            return port
        options = {
            "link": host.index(host.uplink),
            "macvlan_mode": "bridge",
            "address": pod.mac,
        }
        links.create_link(self.machine.journal, pod.netdev, "macvlan", netns=host.netns, **options)
        links.move(pod.netdev, self.machine.netns, netns=host.netns)
        links.make_ready(pod.netdev, self.machine.netns, mtu=self.mtu, offloads=self.offloads)
        return port

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """The hosts' link is one broadcast domain."""

    def stop(self, hosts: Sequence[PodHost]) -> None:
        """Nothing but pods' interfaces was made."""
