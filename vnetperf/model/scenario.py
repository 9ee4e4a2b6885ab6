"""A scenario: deployment x vSwitch x VNF x traffic."""

from __future__ import annotations

from typing import Literal

from vnetperf.model.addresses import peer_mac
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Deployment, make_deployment
from vnetperf.model.errors import ConfigError
from vnetperf.model.guest import GuestOptions
from vnetperf.model.options import SwitchOptions
from vnetperf.model.ports import VnfPort
from vnetperf.model.traffic import Addressing, Stream, TrafficProfile, make_streams
from vnetperf.model.tunnel import TunnelKind, overhead

Forwarding = Literal["l2", "l3"]
Rules = Literal["port", "stream", "learning"]

#: Largest frame of an MTU of 1500, and what Ethernet adds to an MTU (header 14, FCS 4).
STANDARD_FRAME_SIZE, ETHERNET_OCTETS = 1518, 18


#: Modes in which a VNF addresses frames to whoever takes them in next, and in which it addresses
#: them back to where they came from.
ADDRESSING_MODES, SWAPPING_MODES = ("mac", "route"), ("macswap", "5tswap")


class Scenario(Frozen):
    """What is deployed and measured.

    Attributes:
        deployment: The graph.
        vswitch: Registered name of the vSwitch.
        vnf: Registered name of the VNF loader.
        vnf_mode: The VNF's forwarding mode: "io", "mac", "macswap", "5tswap", "bridge", "route",
            "xdp"; not every VNF has every mode.
        traffic: The traffic profile.
        generator: Registered name of the traffic generator.
        wire: Kind of wire, or "auto" for the best both ends accept.
        forwarding: "l2" switches frames, "l3" routes packets (new MAC addresses, TTL less one).
        rules: What forwarding goes by: "port" one rule per port, "stream" one rule per flow,
            "learning" addresses that the vSwitch learns.
        addressing: Whom frames are addressed to.
        tunnel: Kind of tunnel of an overlay deployment.
        options: What is asked of the vSwitch.
        guest: What is asked of guests, where VNFs run in VMs.
        max_frame_size: Largest frame that is to be measured, octets including FCS.
    """

    deployment: Deployment
    vswitch: str
    vnf: str = "vloop"
    vnf_mode: str = "io"
    traffic: TrafficProfile
    generator: str = "loadgen"
    wire: str = "auto"
    forwarding: Forwarding = "l2"
    rules: Rules = "port"
    addressing: Addressing = "far"
    tunnel: TunnelKind = "vxlan"
    options: SwitchOptions = SwitchOptions()
    guest: GuestOptions = GuestOptions()
    max_frame_size: int = STANDARD_FRAME_SIZE

    @property
    def id(self) -> str:
        """Name as it stands in test ids and results: "pvp_dpdk"."""
        return f"{self.deployment.name}_{self.vswitch}"

    @property
    def routed(self) -> bool:
        """True when the vSwitch routes."""
        return self.forwarding == "l3"

    @property
    def vnf_addresses(self) -> bool:
        """True when VNFs write the address of whoever takes a frame in next."""
        return self.vnf_mode in ADDRESSING_MODES

    @property
    def vnf_swaps(self) -> bool:
        """True when VNFs address a frame to where it came from."""
        return self.vnf_mode in SWAPPING_MODES

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Streams of the scenario's traffic."""
        return make_streams(
            self.deployment,
            self.traffic,
            addressing=self.addressing,
            routed=self.routed,
            tunnel=self.tunnel,
        )

    @property
    def largest_on_wire(self) -> int:
        """Largest frame at any port, its tunnel's headers included; octets including FCS."""
        tunnel = self.tunnel if self.deployment.tunnelled else ""
        return self.max_frame_size + overhead(tunnel)

    @property
    def mtu(self) -> int:
        """MTU that every port must have: octets without Ethernet header and FCS."""
        if self.options.mtu is not None:
            return self.options.mtu
        return max(STANDARD_FRAME_SIZE, self.largest_on_wire) - ETHERNET_OCTETS

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is asked for beyond the backend's own way, as a reader should see it.

        Returns:
            Texts such as "l3 forwarding", "a rule for each flow", "mtu = 9000"; empty when nothing.
        """
        found = []
        if self.routed:
            found.append("l3 forwarding")
        if self.rules != "port":
            found.append("a rule for each flow" if self.rules == "stream" else "learned addresses")
        if self.deployment.tunnelled:
            found.append(f"{self.tunnel} tunnel (+{overhead(self.tunnel)} octets a frame)")
        if self.options.mode:
            found.append(f"mode {self.options.mode}")
        found += [f"{key} = {value}" for key, value in self.options.given().items()]
        return (*found, *(f"guest {key} = {value}" for key, value in self.guest.given().items()))

    def peer_mac(self, port: VnfPort) -> str:
        """Address that a VNF's port must send to, when the VNF writes addresses.

        Args:
            port: Port of a VNF.

        Returns:
            Six hexadecimal octets.
        """
        chain = port.vnf if self.deployment.chains > 1 else 0
        return peer_mac(self.deployment, port, chain, routed=self.routed)


def split_id(scenario_id: str) -> tuple[str, str]:
    """Split "pvp_dpdk" into deployment and vSwitch.

    Args:
        scenario_id: Name of a scenario.

    Returns:
        Deployment name, vSwitch name.

    Raises:
        ConfigError: When it has no underscore or names an unknown deployment.
    """
    deployment, _, vswitch = scenario_id.partition("_")
    if not vswitch:
        raise ConfigError(
            f"{scenario_id!r} names no vSwitch", where="scenario", accepted="DEPLOYMENT_VSWITCH"
        )
    make_deployment(deployment)
    return deployment, vswitch
