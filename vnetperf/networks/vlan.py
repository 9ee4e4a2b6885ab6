"""Pods on a VLAN of the host's interface (IEEE 802.1Q), each the only one of its host there."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.testbed import KernelModule
from vnetperf.plugin.network import TAG_OCTETS, Network, NetworkCapabilities, Pod, PodPort
from vnetperf.virt.pod_host import PodHost

VLAN_MODULE = KernelModule(name="8021q", purpose="VLANs", symbol="vlan_dev_hard_start_xmit")
#: The VLAN of all pods.
VLAN_ID = 10


class VlanNetwork(Network):
    """A VLAN's interface for the pod; frames have a tag on the hosts' link, of 4 octets more."""

    name: ClassVar[str] = "vlan"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (VLAN_MODULE,)
    #: A VLAN is one interface on a parent, so that one host has no second pod in it.
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="vlan",
        places=("other",),
        frames=("other",),
        tag=TAG_OCTETS,
        most_on_host=1,
        agents=True,
    )
    path: ClassVar[str] = "VLAN, hosts' link, VLAN"

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """The VLAN's interface."""
        return self.attach_child(host, pod, "vlan", vlan_id=VLAN_ID)
