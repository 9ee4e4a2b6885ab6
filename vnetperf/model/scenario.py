"""A scenario: deployment x vSwitch x VNF x traffic."""

from __future__ import annotations

from typing import Literal

from vnetperf.model.addresses import peer_mac
from vnetperf.model.base import Frozen
from vnetperf.model.core import CoreOptions, Stack
from vnetperf.model.deployment import Deployment, make_deployment
from vnetperf.model.errors import ConfigError
from vnetperf.model.guest import GuestOptions
from vnetperf.model.options import SwitchOptions
from vnetperf.model.ports import VnfPort
from vnetperf.model.traffic import Addressing, Stream, TrafficProfile, make_streams
from vnetperf.model.tunnel import GTPU, TunnelKind, overhead

Forwarding = Literal["l2", "l3"]
Rules = Literal["port", "stream", "learning"]
VnfPlacement = Literal["auto", "local", "remote", "unpinned"]

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
        vnf_placement: Where VNFs' processors and memory are: "local" on the pollers' NUMA node,
            "remote" on another, "unpinned" where the kernel likes, "auto" where there is room.
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
        core: What is asked of a mobile core, where the VNF is one.
        stack: Which core that is; None where the VNF is none.
        max_frame_size: Largest frame that is to be measured, octets including FCS.
        variant: What tells it from others in a comparison, "rx_queues=2"; "" outside of one.
    """

    deployment: Deployment
    vswitch: str
    vnf: str = "vloop"
    vnf_mode: str = "io"
    vnf_placement: VnfPlacement = "auto"
    traffic: TrafficProfile
    generator: str = "loadgen"
    wire: str = "auto"
    forwarding: Forwarding = "l2"
    rules: Rules = "port"
    addressing: Addressing = "far"
    tunnel: TunnelKind = "vxlan"
    options: SwitchOptions = SwitchOptions()
    guest: GuestOptions = GuestOptions()
    core: CoreOptions = CoreOptions()
    stack: Stack | None = None
    max_frame_size: int = STANDARD_FRAME_SIZE
    variant: str = ""

    @property
    def id(self) -> str:
        """Name as it stands in results: "pvp_dpdk", "pvp_dpdk,rx_queues=2"."""
        return variant_id(f"{self.deployment.name}_{self.vswitch}", self.variant)

    @property
    def routed(self) -> bool:
        """True when the vSwitch routes."""
        return self.forwarding == "l3"

    @property
    def has_guests(self) -> bool:
        """True when VNFs run in VMs."""
        return self.deployment.vnf_count > 0 and self.vnf.endswith(":vm")

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
        return self.max_frame_size + overhead(self.encapsulation)

    @property
    def encapsulation(self) -> str:
        """What frames are in at some of the ports: kind of tunnel, "gtpu", or "" for nothing."""
        if self.deployment.gtp:
            return GTPU
        return self.tunnel if self.deployment.tunnelled else ""

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
        if self.deployment.gtp and self.stack is not None:
            sessions = f"{self.core.sessions} session" + ("s" if self.core.sessions > 1 else "")
            found.append(
                f"{self.stack.name} (gtpu_mode {self.core.gtpu_mode}), {sessions}, "
                f"GTP-U at port 0 (+{overhead(GTPU)} octets a frame)"
            )
        found += self.traffic.conditions
        if self.vnf_placement != "auto" and self.deployment.vnf_count:
            found.append(f"VNFs {self.vnf_placement}")
        if self.options.mode:
            found.append(f"mode {self.options.mode}")
        found += [f"{key} = {value}" for key, value in self.options.given().items()]
        if self.has_guests:
            found += [f"guest {key} = {value}" for key, value in self.guest.given().items()]
        return tuple(found)

    def peer_mac(self, port: VnfPort) -> str:
        """Address that a VNF's port must send to, when the VNF writes addresses.

        Args:
            port: Port of a VNF.

        Returns:
            Six hexadecimal octets.
        """
        chain = port.vnf if self.deployment.chains > 1 else 0
        return peer_mac(self.deployment, port, chain, routed=self.routed)


def variant_id(scenario_id: str, variant: str) -> str:
    """Name of a scenario's variant.

    Args:
        scenario_id: "pvp_dpdk".
        variant: "rx_queues=2"; "" for the scenario itself.

    Returns:
        "pvp_dpdk,rx_queues=2".
    """
    return f"{scenario_id},{variant}" if variant else scenario_id


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
