"""Streams: what the generator sends from each tester port, made of a deployment and a profile."""

from __future__ import annotations

from typing import Literal

from vnetperf.model.addresses import peer_mac, port_mac
from vnetperf.model.base import Frozen
from vnetperf.model.core import Bearers
from vnetperf.model.deployment import Deployment
from vnetperf.model.fields import FIELDS, VaryField
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.tunnel import GTPU
from vnetperf.model.units import MAX_FRAME_SIZE, MIN_FRAME_SIZE

__all__ = [
    "VALUES",
    "Addressing",
    "Stream",
    "TrafficProfile",
    "VaryField",
    "check_frame_size",
    "make_streams",
]

#: Whom frames are addressed to: "far" is the tester's port at the other end; "port" is what takes
#: them in at each step, as NICs with virtual functions, macvtap and routers need.
Addressing = Literal["far", "port"]

#: Values a field can take from its first, unless that was set.
VALUES: dict[str, int] = {name: place.values for name, place in FIELDS.items()}


class Stream(Frozen):
    """One stream: what the generator sends from one tester port for one chain.

    Attributes:
        id: Number of the stream, stamped into every frame.
        direction: Number of the tester port that sends it; the other port receives.
        chain: Number of the deployment's chain it travels.
        eth_src: Source MAC address.
        eth_dst: Destination MAC address; tells chains apart at the vSwitch.
        ipv4_src: Source address, from 198.18.0.0/15 (RFC 2544 appendix C).
        ipv4_dst: Destination address.
        udp_src: Source port, of TCP too.
        udp_dst: Destination port, of TCP too.
        ipv6_src: Source address, from 2001:2::/48 (RFC 5180 section 8).
        ipv6_dst: Destination address.
        load: Its direction's load as a share of the trial's load per interface.
        tunnel: Kind of tunnel the frames are sent in, from the tester to the DUT; "" for none.
        bearers: Sessions of UEs whose packets these are, known once UEs have attached; empty where
            there are none.
    """

    id: int
    direction: int
    chain: int
    eth_src: str
    eth_dst: str
    ipv4_src: str
    ipv4_dst: str
    udp_src: int
    udp_dst: int
    ipv6_src: str = "2001:2::1"
    ipv6_dst: str = "2001:2::2"
    load: float = 1.0
    tunnel: str = ""
    bearers: tuple[Bearers, ...] = ()

    @property
    def tx_port(self) -> int:
        """Tester port that sends."""
        return self.direction

    @property
    def rx_port(self) -> int:
        """Tester port that must receive."""
        return 1 - self.direction

    def of(self, run: Bearers) -> Stream:
        """The frames of some of its sessions: uplink comes from their UEs, downlink goes there.

        Args:
            run: The sessions.

        Returns:
            A stream with the first one's addresses.
        """
        end = "ipv4_src" if self.tunnel == GTPU else "ipv4_dst"
        return self.model_copy(update={"bearers": (run,), end: run.ue})


def make_streams(
    deployment: Deployment,
    profile: TrafficProfile,
    *,
    addressing: Addressing = "far",
    routed: bool = False,
    tunnel: str = "",
) -> tuple[Stream, ...]:
    """Streams of a deployment: one for each chain and direction.

    Args:
        deployment: The graph.
        profile: The traffic profile.
        addressing: Whom frames are addressed to.
        routed: True when the vSwitch routes: it is addressed then, whatever `addressing` says.
        tunnel: Kind of tunnel of the deployment's tunnelled ports.

    Returns:
        Streams with ids 0..n-1, by direction, then chain.
    """
    streams: list[Stream] = []
    kinds = dict.fromkeys(deployment.tunnelled, tunnel) | dict.fromkeys(deployment.gtp, GTPU)
    for direction in profile.directions:
        if direction not in deployment.directions:
            continue
        src, far = deployment.ends[direction], deployment.ends[1 - direction]
        for chain in range(deployment.chains):
            src_net, dst_net = (18, 19) if direction == 0 else (19, 18)
            by_port = addressing == "port" or routed
            streams.append(
                Stream(
                    id=len(streams),
                    direction=direction,
                    chain=chain,
                    eth_src=port_mac(deployment, src, chain),
                    eth_dst=peer_mac(deployment, src, chain, routed=routed)
                    if by_port
                    else port_mac(deployment, far, chain),
                    ipv4_src=f"198.{src_net}.0.1",
                    ipv4_dst=f"198.{dst_net}.0.1",
                    udp_src=1024 + chain,
                    udp_dst=7,  # UDP echo, RFC 2544 appendix C.2.6.2
                    ipv6_src=f"2001:2:0:{src_net}::1",
                    ipv6_dst=f"2001:2:0:{dst_net}::1",
                    load=profile.loads[direction],
                    tunnel=kinds.get(src, ""),
                )
            )
    return tuple(streams)


def check_frame_size(size: int) -> int:
    """Reject a frame size that no Ethernet carries.

    Args:
        size: Octets including FCS.

    Returns:
        The size.

    Raises:
        ValueError: When the size is out of range.
    """
    if not MIN_FRAME_SIZE <= size <= MAX_FRAME_SIZE:
        raise ValueError(
            f"frame size {size} is not between {MIN_FRAME_SIZE} and {MAX_FRAME_SIZE} octets "
            "(sizes include the 4-octet FCS)"
        )
    return size
