"""Streams of a deployment.

What the generator sends from each tester port, their header stacks and their flows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from typing import Any, Literal, NamedTuple

from pydantic import (
    SerializationInfo,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from vnetperf.model import frames
from vnetperf.model.addresses import TEST_ADDRESSES
from vnetperf.model.balancing import Services
from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Deployment, peer_mac, port_mac
from vnetperf.model.frame_change import SERVER_PORT, FrameChange
from vnetperf.model.frames import (
    FIELDS,
    GTPU,
    MAX_FRAME_SIZE,
    MIN_FRAME_SIZE,
    PLAIN,
    HeaderKind,
    VaryField,
    index_of,
)
from vnetperf.model.nat import Nat
from vnetperf.model.options import Bearers
from vnetperf.model.profile import TrafficProfile

#: Whom frames are addressed to: "far" is the tester's port at the other end; "port" is what takes
#: them in at each step, as NICs with virtual functions, macvtap and routers need.
Addressing = Literal["far", "port"]

#: Values a field can take from its first, unless that was set.
VALUES: dict[str, int] = {name: place.values for name, place in FIELDS.items()}


#: Every kind of change that a DUT makes to frames, by its key. A new one is named here.
CHANGES: dict[str, type[FrameChange]] = {kind.key: kind for kind in (Nat, Services)}


class ChangedFrames(Frozen):
    """Frames that come out of the DUT with other addresses and ports than they went in with.

    JSON has a key for each kind of change, that of the kind that is made with its fields.

    Attributes:
        change: What the DUT does to them; None where it changes neither addresses nor ports.
    """

    change: SerializeAsAny[FrameChange] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_change(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        fields = dict(fields)
        changes = {key: fields.pop(key, None) for key in CHANGES}
        present = [key for key, change in changes.items() if change is not None]
        if len(present) > 1:
            raise ValueError(f"frames are changed in one way, by {' or '.join(present)}")
        for key in present:
            fields["change"] = CHANGES[key].model_validate(changes[key])
        return fields

    @model_serializer(mode="wrap")
    def _write_change(
        self, serialize: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        has_change = "change" in fields
        change = fields.pop("change", None)
        partial = info.exclude_none or info.exclude_defaults or info.exclude_unset
        for key, kind in CHANGES.items() if has_change else ():
            is_made = isinstance(self.change, kind)
            if is_made or not partial:
                fields[key] = change if is_made else None
        return fields


class Stream(ChangedFrames):
    """One stream: what the generator sends from one tester port for one chain.

    Attributes:
        id: Number of the stream, stamped into every frame.
        direction: Number of the tester port that sends it; the other port receives.
        chain: Number of the deployment's chain it travels.
        eth_dst: Destination MAC address; tells chains apart at the vSwitch.
        ipv4_src: Source address, from 198.18.0.0/15 (RFC 2544 appendix C).
        udp_src: Source port, of TCP too.
        udp_dst: Destination port, of TCP too.
        ipv6_src: Source address, from 2001:2::/48 (RFC 5180 section 8).
        load: Its direction's load as a share of the trial's load per interface.
        tunnel: Kind of tunnel the frames are sent in, from the tester to the DUT; "" for none.
        tunnel_back: Kind of tunnel they come back in, from the DUT to the tester; "" for none.
        bearers: Sessions of UEs whose packets these are, known once UEs have attached; empty where
            there are none.
        change: What the DUT does to its frames: direction 0 comes from clients, direction 1 goes to
            them, with the addresses and ports that they have behind the DUT.
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
    tunnel_back: str = ""
    bearers: tuple[Bearers, ...] = ()

    @property
    def tx_port(self) -> int:
        """Tester port that sends."""
        return self.direction

    @property
    def rx_port(self) -> int:
        """Tester port that must receive."""
        return 1 - self.direction

    def through(self, change: FrameChange) -> Stream:
        """The frames of flows through a DUT that changes them, as the tester sends them."""
        side = change.sides()[self.direction]
        unknown = IPv4Address(0)  # until it is learnt, and then no frame is sent there
        ends = {
            "client": (side.client[:4] or unknown.packed, side.client_port[:2] or b"\0\0"),
            "server": (side.server[:4], side.server_port[:2]),
        }
        source, target = ends if self.direction == 0 else tuple(ends)[::-1]
        update: dict[str, Any] = {"change": change}
        for way, end in (("src", source), ("dst", target)):
            address, port = ends[end]
            update |= {f"ipv4_{way}": str(IPv4Address(address)), f"udp_{way}": int.from_bytes(port)}
        return self.model_copy(update=update)

    def of(self, run: Bearers) -> Stream:
        """The frames of some of its sessions: uplink comes from their UEs, downlink goes there."""
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
                    ipv4_src=str(TEST_ADDRESSES.host(direction)),
                    ipv4_dst=str(TEST_ADDRESSES.host(1 - direction)),
                    udp_src=1024 + chain,
                    udp_dst=SERVER_PORT,
                    ipv6_src=str(TEST_ADDRESSES.host_ipv6(direction)),
                    ipv6_dst=str(TEST_ADDRESSES.host_ipv6(1 - direction)),
                    load=profile.loads[direction],
                    tunnel=kinds.get(src, ""),
                    tunnel_back=kinds.get(far, ""),
                )
            )
    return tuple(streams)


def check_frame_size(size: int) -> int:
    """The size, octets including FCS; `ValueError` for one that no Ethernet carries."""
    if not MIN_FRAME_SIZE <= size <= MAX_FRAME_SIZE:
        raise ValueError(
            f"frame size {size} is not between {MIN_FRAME_SIZE} and {MAX_FRAME_SIZE} octets "
            "(sizes include the 4-octet FCS)"
        )
    return size


def header_stack(stream: Stream, profile: TrafficProfile) -> tuple[HeaderKind, ...]:
    """Headers of a stream's frames as the tester sends them, from the outermost.

    The stream's tunnel comes before the profile's. GTP-U carries a packet without Ethernet, so
    that the profile's own stays in front.
    """
    headers = profile.headers
    if stream.tunnel == frames.GTPU:
        cut = next((n for n, kind in enumerate(headers) if kind in ("ipv4", "ipv6")), len(headers))
        return (*headers[:cut], "ipv4", "udp", "gtpu", *headers[cut:])
    kind = next((kind for kind in frames.TUNNELS if kind == stream.tunnel), None)
    if kind is None:
        return headers
    carried: tuple[HeaderKind, ...] = ("gre",) if kind == "gre" else ("udp", kind)
    return ("ethernet", "ipv4", *carried, *headers)


def profile_ethernet(stream: Stream, profile: TrafficProfile) -> int:
    """Place among the layers of the profile's Ethernet header, not the deployment's tunnel's."""
    if stream.tunnel == frames.GTPU:
        return 0
    return len(header_stack(stream, profile)) - len(profile.headers)


def fields_sent_by(stream: Stream, profile: TrafficProfile) -> frozenset[VaryField]:
    """Those fields of a profile's `vary` and `values` that a stream's frames have."""
    stack = header_stack(stream, profile)
    named = {*profile.vary, *profile.values}
    return frozenset(name for name in named if index_of(name, stack) is not None)


MAC_BITS, PORT_BITS, ADDRESS_BITS = 24, 16, 32


class FlowKey(NamedTuple):
    """Addresses and ports of one flow."""

    eth_src: str
    eth_dst: str
    ipv4_src: str
    ipv4_dst: str
    udp_src: int
    udp_dst: int


def explain_uncountable(profile: TrafficProfile) -> str:
    """Why the flows of a profile cannot be enumerated, with the cure; "" when they can."""
    if profile.headers != PLAIN:
        return (
            f"flows of frames of {', '.join(profile.headers)} cannot be enumerated, those of "
            f"{', '.join(PLAIN)} can; choose another traffic profile, or other rules"
        )
    unknown = [name for name in profile.vary if name not in FlowKey._fields]
    if unknown and profile.flows > 1:
        return (
            f"flows that differ in {', '.join(unknown)} cannot be enumerated; "
            f"vary fields among {', '.join(FlowKey._fields)}"
        )
    if profile.flow_count <= profile.flows:
        return ""
    fields = ", ".join(profile.vary)
    if profile.vary_mode == "random":
        return (
            f"fields that are varied at random and together ({fields}) give flows that cannot be "
            'enumerated; vary one field, or set vary_mode = "inc"'
        )
    fewest = min(map(profile.room, profile.vary))
    return (
        f"{profile.flows} flows of {fields} cannot be enumerated: one of them has only {fewest} "
        f"values and falls out of step; set flows to {fewest} or fewer, or vary eth_src alone"
    )


def flows(stream: Stream, profile: TrafficProfile) -> Iterator[FlowKey]:
    """Every flow of a stream once, in the order in which an incrementing generator sends them.

    `ValueError` where they cannot be enumerated; see `explain_uncountable`.
    """
    if reason := explain_uncountable(profile):
        raise ValueError(reason)
    values = [_field_values(name, stream, profile) for name in FlowKey._fields]
    for number in range(profile.flow_count):
        yield FlowKey._make(value(number) for value in values)


def _field_values(name: str, stream: Stream, profile: TrafficProfile) -> Callable[[int], str | int]:
    """Flow number -> value of a field."""
    setting = profile.value(name, stream.direction)
    first: str | int = getattr(stream, name) if setting is None else setting
    varied = next((field for field in profile.vary if field == name), None)
    if varied is None or profile.flows == 1:
        return lambda number: first
    count = min(profile.flows, profile.room(varied))
    if isinstance(first, int):
        port = first
        return lambda number: (port + number % count) % (1 << PORT_BITS)
    if name.startswith("eth"):
        fixed, base = first[:9], int(first[9:].replace(":", ""), 16)
        return lambda number: fixed + _three_octets((base + number % count) % (1 << MAC_BITS))
    start = int(IPv4Address(first))
    return lambda number: _dotted_address((start + number % count) % (1 << ADDRESS_BITS))


def _three_octets(value: int) -> str:
    return f"{value >> 16:02x}:{value >> 8 & 255:02x}:{value & 255:02x}"


def _dotted_address(value: int) -> str:
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"


__all__ = ["TrafficProfile", "VaryField"]
