"""Pods in VXLAN tunnels between their hosts (RFC 7348), bridged or routed into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from vnetperf.model.frames import OVERHEAD, UDP_PORT
from vnetperf.model.testbed import KernelModule
from vnetperf.networks.bridge import BRIDGE, BRIDGE_MODULE, BridgeNetwork
from vnetperf.plugin.backend import TUNNEL_MODULES
from vnetperf.plugin.network import Network, NetworkCapabilities, PodPort
from vnetperf.virt.pod_host import PodHost

VXLAN_MODULE = TUNNEL_MODULES["vxlan"]
#: The tunnel's interface on each host, and its VXLAN network identifier.
TUNNEL, VNI = "vxlan1", 1
_TUNNEL_FACT = f"VXLAN, VNI {VNI}, UDP port {UDP_PORT['vxlan']}"
#: Tunnel ends of the routed network: address by host, and MAC address.
VTEP_ADDRESS, VTEP_MAC = "192.0.3.{}", "02:76:78:00:00:{:02x}"


def add_tunnel(network: Network, host: PodHost, far: PodHost | None, mac: str = "") -> None:
    """Make a host's end of a tunnel; without `far` it sends nothing that no entry leads on."""
    network.machine.load_module(VXLAN_MODULE)
    options: dict[str, Any] = {
        "vxlan_id": VNI,
        "vxlan_link": host.index(host.uplink),
        "vxlan_local": host.address,
        "vxlan_port": UDP_PORT["vxlan"],
        "vxlan_learning": int(far is not None),
    }
    if far is not None:
        options["vxlan_group"] = far.address
    if mac:
        options["address"] = mac
    host.add_link(TUNNEL, "vxlan", network.mtu, offloads=network.offloads, **options)


class VxlanNetwork(BridgeNetwork):
    """The tunnel is a port of the pods' bridge: docker's overlay and weave have this path."""

    name: ClassVar[str] = "vxlan"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (BRIDGE_MODULE, VXLAN_MODULE)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", overhead=OVERHEAD["vxlan"], agents=True
    )
    path: ClassVar[str] = "veth, bridge, VXLAN, hosts' link, VXLAN, bridge, veth"

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """Make the tunnel a port of the bridge of each host with pods."""
        for host in hosts:
            if host.has(BRIDGE) and not host.has(TUNNEL):
                add_tunnel(self, host, hosts[1 - host.number])
                host.add_port(BRIDGE, TUNNEL)

    def describe(self) -> dict[str, Any]:
        """The settings of the tunnel."""
        return {**Network.describe(self), "tunnel": _TUNNEL_FACT}

    def remove(self, hosts: Sequence[PodHost]) -> None:
        """Delete tunnels and bridges."""
        for host in hosts:
            host.delete(TUNNEL)
        super().remove(hosts)


class VxlanRoutedNetwork(VxlanNetwork):
    """Packets are routed into the tunnel: flannel's vxlan has this path."""

    name: ClassVar[str] = "vxlan_routed"
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="veth", routed=("other",), overhead=OVERHEAD["vxlan"], agents=True
    )
    path: ClassVar[str] = "veth, bridge, route, VXLAN, hosts' link, VXLAN, route, bridge, veth"

    def join(self, hosts: Sequence[PodHost], ports: Sequence[PodPort]) -> None:
        """Make tunnels' ends, and route the other host's pods through them."""
        if not self.routes:
            return
        new = [host for host in hosts if not host.has(TUNNEL)]
        for host in new:
            add_tunnel(self, host, None, VTEP_MAC.format(host.number))
        for host, far in zip(hosts, hosts[::-1], strict=True):
            address, mac = VTEP_ADDRESS.format(far.number + 1), VTEP_MAC.format(far.number)
            if host in new:
                host.add_neighbour(TUNNEL, address, mac)
                host.add_forwarding(TUNNEL, mac, far.address)
            for port in self.far_ports(host, ports):
                host.add_route(port.pod.network, TUNNEL, address)

    def describe(self) -> dict[str, Any]:
        """The settings of the bridge and of the tunnel."""
        return {**BridgeNetwork.describe(self), "tunnel": _TUNNEL_FACT}
