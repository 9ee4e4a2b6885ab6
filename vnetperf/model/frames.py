"""Ethernet frames.

Sizes and what they take on a medium, header stacks, tunnels, and the fields that can be set or
varied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

FCS_BYTES = 4
#: Preamble 7, start-of-frame delimiter 1, inter-frame gap 12 (IEEE 802.3).
L1_OVERHEAD_BYTES = 20
#: Octets at a frame's end, before the FCS, that are the traffic generator's own.
STAMP_OCTETS = 18
MIN_FRAME_SIZE = 64
MAX_FRAME_SIZE = 9216
#: RFC 2544 section 9.1, Ethernet.
RFC2544_FRAME_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """A medium's speed: its L1 bit rate, e.g. 10e9 for 10 GbE."""

    bits_per_second: float

    def max_frame_rate(self, frame_size: float) -> float:
        """Maximum frame rate of the medium (RFC 2544 section 20), frames/s, one direction.

        Args:
            frame_size: Octets including FCS; the mean of a mix.

        Returns:
            Frames per second, e.g. 14_880_952.38 for 64 octets at 10 Gbit/s.
        """
        return self.bits_per_second / l1_bits_per_frame(frame_size)


def l1_bits_per_frame(frame_size: float) -> float:
    """Bits one frame occupies on the medium: frame with FCS, preamble, SFD and gap."""
    return (frame_size + L1_OVERHEAD_BYTES) * 8


def driver_length(frame_size: int) -> int:
    """Octets handed to a driver: the frame without its FCS."""
    return frame_size - FCS_BYTES


HeaderKind = Literal[
    "ethernet", "qinq", "vlan", "mpls", "ipv4", "ipv6", "udp", "tcp", "raw",
    "vxlan", "gre", "geneve", "gtpu",
]  # fmt: skip
HEADERS: tuple[HeaderKind, ...] = get_args(HeaderKind)
#: What frames have unless a profile says otherwise.
PLAIN: tuple[HeaderKind, ...] = ("ethernet", "ipv4", "udp")
#: Headers that carry another frame or packet.
CARRIERS: tuple[HeaderKind, ...] = ("vxlan", "gre", "geneve", "gtpu")
#: Octets of each header; a tag of 802.1Q and of 802.1ad adds four to Ethernet's fourteen.
OCTETS: dict[HeaderKind, int] = {
    "ethernet": 14, "qinq": 4, "vlan": 4, "mpls": 4, "ipv4": 20, "ipv6": 40, "udp": 8, "tcp": 20,
    "raw": 0, "vxlan": 8, "gre": 4, "geneve": 8, "gtpu": 8,
}  # fmt: skip
_IP: tuple[HeaderKind, ...] = ("ipv4", "ipv6")
#: What may come after a header.
FOLLOWS: dict[HeaderKind, tuple[HeaderKind, ...]] = {
    "ethernet": ("qinq", "vlan", "mpls", *_IP, "raw"),
    "qinq": ("vlan", "mpls", *_IP, "raw"),
    "vlan": ("mpls", *_IP, "raw"),
    "mpls": ("mpls", *_IP, "raw"),
    "ipv4": ("udp", "tcp", "gre", "raw"),
    "ipv6": ("udp", "tcp", "raw"),
    "udp": ("vxlan", "geneve", "gtpu", "raw"),
    "tcp": ("raw",),
    "raw": (),
    "vxlan": ("ethernet",),
    "geneve": ("ethernet",),
    "gre": ("ethernet",),
    "gtpu": _IP,
}
#: Headers that a frame may end with.
LAST: tuple[HeaderKind, ...] = ("ipv4", "ipv6", "udp", "tcp", "raw")
#: More labels than this are no use to anybody.
MOST_LABELS = 4


def check_stack(headers: Sequence[HeaderKind]) -> None:
    """Refuse headers, from the outermost, that cannot follow each other: `ValueError` has why."""
    if not headers or headers[0] != "ethernet":
        raise ValueError(f'headers begin with "ethernet", not {headers[0] if headers else "none"}')
    for before, after in pairwise(headers):
        if after not in FOLLOWS[before]:
            accepted = ", ".join(FOLLOWS[before]) or "nothing"
            raise ValueError(f"{after} cannot follow {before}; accepted: {accepted}")
    if headers[-1] not in LAST:
        raise ValueError(f"headers cannot end with {headers[-1]}; accepted: {', '.join(LAST)}")
    carriers = [kind for kind in headers if kind in CARRIERS]
    if len(carriers) > 1:
        raise ValueError(f"one tunnel at most, not {' in '.join(reversed(carriers))}")
    if carriers and "ipv6" in headers[: headers.index(carriers[0])]:
        raise ValueError(f"{carriers[0]} is carried over ipv4 only")
    if headers.count("mpls") > MOST_LABELS:
        raise ValueError(f"at most {MOST_LABELS} mpls labels, not {headers.count('mpls')}")


def find_carrier(headers: Sequence[HeaderKind]) -> HeaderKind | None:
    """The tunnel's own header in a stack, "vxlan" ...; None without a tunnel."""
    return next((kind for kind in headers if kind in CARRIERS), None)


TunnelKind = Literal["vxlan", "gre", "geneve"]
TUNNELS: tuple[TunnelKind, ...] = get_args(TunnelKind)
#: A kind, or what a deployment has by itself.
AutoTunnel = Literal["auto", "vxlan", "gre", "geneve"]
#: What carries users' packets between a radio network and a mobile core (3GPP TS 29.281). Its ends
#: are the tester and a VNF, and not the vSwitch as those of the overlays.
GTPU: Literal["gtpu"] = "gtpu"
Encapsulation = Literal["vxlan", "gre", "geneve", "gtpu"]

#: Octets that encapsulation adds to a frame: outer Ethernet 14, IPv4 20, then UDP 8 and VXLAN 8
#: (RFC 7348), UDP 8 and Geneve 8 without options (RFC 8926), or GRE 4 without a key (RFC 2784).
#: GTP-U adds IPv4 20, UDP 8, GTP 8 without options to a packet, which is in it without Ethernet, so
#: that a frame has one Ethernet header on either side.
OVERHEAD: dict[str, int] = {"vxlan": 50, "gre": 38, "geneve": 50, GTPU: 36}

#: Ends of the tunnel, from TEST-NET-1 (RFC 5737): test streams use 198.18.0.0/15.
DUT_ADDRESS, TESTER_ADDRESS, PREFIX = "192.0.2.1", "192.0.2.2", 24
#: Network identifier of VXLAN and Geneve; GRE carries Ethernet (protocol 0x6558) without a key.
VNI = 42
#: Tunnels over cables between vSwitches have a network of four addresses each, from the first on.
CABLE_PREFIX = 30
UDP_PORT: dict[str, int] = {"vxlan": 4789, "geneve": 6081}
#: Source port of the tester's tunnelled frames, whatever flow they carry: one outer flow, the
#: hardest case for a DUT that spreads load by outer headers.
UDP_SOURCE = 49152
#: Both ports of GTP-U (3GPP TS 29.281 section 4.4.2).
GTP_PORT = 2152


def carrier_ports(carrier: str) -> dict[str, int]:
    """UDP ports of a tunnel's frames, unless a profile sets them; GRE has none."""
    if carrier == GTPU:
        return {"udp_src": GTP_PORT, "udp_dst": GTP_PORT}
    port = UDP_PORT.get(carrier)
    return {} if port is None else {"udp_src": UDP_SOURCE, "udp_dst": port}


def overhead(kind: str) -> int:
    """Octets that a tunnel adds to a frame; 0 for "", which is none."""
    return OVERHEAD.get(kind, 0)


VaryField = Literal[
    "eth_src", "eth_dst", "qinq_id", "vlan_id", "mpls_label",
    "ipv4_src", "ipv4_dst", "ipv4_src_net", "ipv4_dst_net", "ipv4_dscp", "ipv4_ttl",
    "ipv6_src", "ipv6_dst", "ipv6_flow",
    "udp_src", "udp_dst", "tcp_src", "tcp_dst", "vni", "teid",
    "outer_eth_src", "outer_eth_dst", "outer_qinq_id", "outer_vlan_id", "outer_mpls_label",
    "outer_ipv4_src", "outer_ipv4_dst", "outer_ipv4_dscp", "outer_ipv4_ttl",
    "outer_udp_src", "outer_udp_dst",
]  # fmt: skip
FIELD_NAMES: tuple[VaryField, ...] = get_args(VaryField)
OUTER = "outer_"


class FieldPlace(NamedTuple):
    """Where a field is in its header.

    Attributes:
        offset: Octets from the start of the header to the first octet that is rewritten.
        width: Octets that are rewritten.
        shift: Bits below the field in those octets.
        values: Values it can take from its first one, at most, as it is by default.
    """

    headers: tuple[HeaderKind, ...]
    offset: int
    width: int
    shift: int
    bits: int
    values: int


#: MAC addresses vary in their low three octets, of which the first values say port and chain
#: (model/deployment.py), and IPv6 addresses in their low four; IPv4 addresses within 198.18.0.0/15
#: (RFC 2544 appendix C.2.2), ports above the well-known ones.
MAC_VALUES = (1 << 24) - (1 << 17)
FIELDS: dict[str, FieldPlace] = {
    "eth_dst": FieldPlace(("ethernet",), 3, 3, 0, 24, MAC_VALUES),
    "eth_src": FieldPlace(("ethernet",), 9, 3, 0, 24, MAC_VALUES),
    "qinq_id": FieldPlace(("qinq",), 0, 2, 0, 12, 4094),
    "vlan_id": FieldPlace(("vlan",), 0, 2, 0, 12, 4094),
    "mpls_label": FieldPlace(("mpls",), 0, 3, 4, 20, 1 << 20),
    "ipv4_src": FieldPlace(("ipv4",), 12, 4, 0, 32, 65_534),
    "ipv4_dst": FieldPlace(("ipv4",), 16, 4, 0, 32, 65_534),
    "ipv4_src_net": FieldPlace(("ipv4",), 14, 1, 0, 8, 256),
    "ipv4_dst_net": FieldPlace(("ipv4",), 18, 1, 0, 8, 256),
    "ipv4_dscp": FieldPlace(("ipv4",), 1, 1, 2, 6, 64),
    "ipv4_ttl": FieldPlace(("ipv4",), 8, 1, 0, 8, 255),
    "ipv6_src": FieldPlace(("ipv6",), 20, 4, 0, 32, 1 << 24),
    "ipv6_dst": FieldPlace(("ipv6",), 36, 4, 0, 32, 1 << 24),
    "ipv6_flow": FieldPlace(("ipv6",), 1, 3, 0, 20, 1 << 20),
    "udp_src": FieldPlace(("udp",), 0, 2, 0, 16, 64_000),
    "udp_dst": FieldPlace(("udp",), 2, 2, 0, 16, 64_000),
    "tcp_src": FieldPlace(("tcp",), 0, 2, 0, 16, 64_000),
    "tcp_dst": FieldPlace(("tcp",), 2, 2, 0, 16, 64_000),
    "vni": FieldPlace(("vxlan", "geneve"), 4, 3, 0, 24, 1 << 24),
    "teid": FieldPlace(("gtpu",), 4, 4, 0, 32, 1 << 24),
}
#: Values that a field has in every first flow unless it is set; others come from the stream.
DEFAULTS: dict[str, int] = {
    "qinq_id": 200, "vlan_id": 100, "mpls_label": 16, "ipv4_dscp": 0, "ipv4_ttl": 64,
    "ipv6_flow": 0, "vni": 42, "teid": 1,
}  # fmt: skip
#: First values outside of a deployment's tunnel, whichever it is; those of other addresses leave
#: room.
FIRST_OUTSIDE: dict[str, int] = {
    "outer_udp_src": UDP_SOURCE,
    "outer_udp_dst": max(UDP_PORT.values()),
}
#: The third octet of an address, by which networks are told apart (RFC 2544 section 12); it is set
#: with the address.
NETWORKS: dict[str, VaryField] = {"ipv4_src_net": "ipv4_src", "ipv4_dst_net": "ipv4_dst"}
#: Values of a field of a few bits that are none: 4095 is reserved (IEEE 802.1Q 9.6).
LARGEST: dict[str, int] = {"qinq_id": 4094, "vlan_id": 4094}
#: Values at most of an address that was set, and need no longer be of 198.18.0.0/15.
MOST_VALUES = 1 << 24
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


def plain_name(name: str) -> str:
    """A field's name without "outer_"."""
    return name.removeprefix(OUTER)


def field_place(name: str) -> FieldPlace:
    """Where a field is in its header; its name may begin with "outer_"."""
    return FIELDS[plain_name(name)]


def field_number(name: str, value: int | str) -> int:
    """A field's value as the number that its octets say: of an address, given as text, all bits.

    `ValueError` says that it is no value of that field.
    """
    plain, place = plain_name(name), field_place(name)
    if isinstance(value, str):
        if plain.startswith("eth_"):
            if not _MAC.fullmatch(value):
                raise ValueError(f"{name}: {value!r} is no MAC address such as 02:00:00:00:00:01")
            return int(value.replace(":", ""), 16)
        if plain.startswith("ipv4_") and place.bits == 32:
            return int(IPv4Address(value))
        if plain.startswith("ipv6_") and place.bits == 32:
            return int(IPv6Address(value))
        raise ValueError(f"{name} is a number, not {value!r}")
    largest = LARGEST.get(plain, (1 << place.bits) - 1)
    if place.bits == 32 and plain != "teid":
        raise ValueError(f'{name} is an address, written as text in "", not {value!r}')
    if plain.startswith("eth_"):
        raise ValueError(f'{name} is a MAC address, written as text in "", not {value!r}')
    if not 0 <= value <= largest:
        raise ValueError(f"{name} is 0..{largest}, not {value}")
    return value


def count_field_values(name: str, first: int | None = None) -> int:
    """How many values a field can take, from `first` on where one was set."""
    plain, place = plain_name(name), field_place(name)
    usual = place.values
    if first is None:
        first = FIRST_OUTSIDE.get(name, DEFAULTS.get(plain, 0))
    elif place.bits == 32 or plain.startswith("eth_"):
        usual = MOST_VALUES
    low = first & ((1 << place.bits) - 1)
    return min(usual, LARGEST.get(plain, (1 << place.bits) - 1) - low + 1)


def in_direction(name: str, direction: int) -> str:
    """The field that a profile sets for a field of a direction: in 1 addresses change ends."""
    plain = plain_name(name)
    if direction == 0 or not plain.startswith(("eth_", "ipv4_", "ipv6_")):
        return name
    swapped = {"src": "dst", "dst": "src"}
    stem, _, end = name.rpartition("_")
    return f"{stem}_{swapped[end]}" if end in swapped else name


def index_of(name: str, headers: Sequence[HeaderKind]) -> int | None:
    """Place in the stack of the header that a field is in, None where no header has it.

    "outer_..." looks outside the tunnel, other names inside first.
    """
    kinds = field_place(name).headers
    places = [number for number, kind in enumerate(headers) if kind in kinds]
    if name.startswith(OUTER):
        carrier = find_carrier(headers)
        end = headers.index(carrier) if carrier else 0
        places = [number for number in places if number < end]
        return places[0] if places else None
    if not places:
        return None
    # Of several labels the first is the one that is switched by.
    inner = places[-1]
    while inner - 1 in places and headers[inner] == "mpls":
        inner -= 1
    return inner


def first_outside(name: str, headers: Sequence[HeaderKind]) -> int | None:
    """First value of a field of the headers' own tunnel that the tunnel sets; None: it does not.

    A plain name may be outside the tunnel too, where no header inside has the field.
    """
    carrier, place = find_carrier(headers), index_of(name, headers)
    if carrier is None or place is None or place > headers.index(carrier):
        return None
    return carrier_ports(carrier).get(plain_name(name))


def same_octets(names: Iterable[VaryField], headers: Sequence[HeaderKind]) -> str:
    """Two fields that are the same octets: "udp_src and outer_udp_src"; "" where all differ.

    A plain name is that of the innermost header, which may be one outside the tunnel: where the
    packet inside has no UDP, udp_src and outer_udp_src are one.
    """
    name_by_place: dict[tuple[int, str], str] = {}
    for name in names:
        place, plain = index_of(name, headers), plain_name(name)
        if place is None:
            continue
        key = place, NETWORKS.get(plain, plain)
        if key in name_by_place:
            return f"{name_by_place[key]} and {name}"
        name_by_place[key] = name
    return ""
