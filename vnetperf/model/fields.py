"""Fields of headers that can be set and varied: where they are, and what values they have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Literal, NamedTuple, get_args

from vnetperf.model.headers import HeaderKind, carrier_of
from vnetperf.model.tunnel import UDP_PORT, UDP_SOURCE

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
        headers: Headers that have it.
        offset: Octets from the start of the header to the first octet that is rewritten.
        width: Octets that are rewritten.
        shift: Bits below the field in those octets.
        bits: Bits of the field itself.
        values: Values it can take from its first one, at most, as it is by default.
    """

    headers: tuple[HeaderKind, ...]
    offset: int
    width: int
    shift: int
    bits: int
    values: int


#: MAC addresses vary in their low three octets, of which the first values say port and chain
#: (model/addresses.py), and IPv6 addresses in their low four; IPv4 addresses within 198.18.0.0/15
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
#: First values outside of a tunnel (model/tunnel.py); those of other addresses leave room.
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
    """A field's name without "outer_".

    Args:
        name: "outer_udp_src", "udp_src".

    Returns:
        "udp_src".
    """
    return name.removeprefix(OUTER)


def place_of(name: str) -> FieldPlace:
    """Where a field is in its header.

    Args:
        name: Its name, with or without "outer_".

    Returns:
        The place.
    """
    return FIELDS[plain_name(name)]


def number_of(name: str, value: int | str) -> int:
    """A field's value as the number that its octets say.

    Args:
        name: Its name.
        value: A number, or an address as text.

    Returns:
        The number; of an address all its bits.

    Raises:
        ValueError: It is no value of that field.
    """
    plain, place = plain_name(name), place_of(name)
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


def room_of(name: str, first: int | None = None) -> int:
    """How many values a field can take.

    Args:
        name: Its name.
        first: The first one where it was set; None for the default.

    Returns:
        Number of values.
    """
    plain, place = plain_name(name), place_of(name)
    usual = place.values
    if first is None:
        first = FIRST_OUTSIDE.get(name, DEFAULTS.get(plain, 0))
    elif place.bits == 32 or plain.startswith("eth_"):
        usual = MOST_VALUES
    low = first & ((1 << place.bits) - 1)
    return min(usual, LARGEST.get(plain, (1 << place.bits) - 1) - low + 1)


def in_direction(name: str, direction: int) -> str:
    """The field that a profile sets for a field of a direction.

    Args:
        name: Field of a frame.
        direction: Number of the tester port that sends it.

    Returns:
        The same; in direction 1 that of the other end for addresses.
    """
    plain = plain_name(name)
    if direction == 0 or not plain.startswith(("eth_", "ipv4_", "ipv6_")):
        return name
    swapped = {"src": "dst", "dst": "src"}
    stem, _, end = name.rpartition("_")
    return f"{stem}_{swapped[end]}" if end in swapped else name


def index_of(name: str, headers: Sequence[HeaderKind]) -> int | None:
    """Which of a stack's headers a field is in.

    Args:
        name: The field; "outer_..." looks outside the tunnel, others inside first.
        headers: A stack.

    Returns:
        Place in the stack; None where no header has it.
    """
    kinds = place_of(name).headers
    found = [number for number, kind in enumerate(headers) if kind in kinds]
    if name.startswith(OUTER):
        carrier = carrier_of(headers)
        end = headers.index(carrier) if carrier else 0
        found = [number for number in found if number < end]
        return found[0] if found else None
    if not found:
        return None
    # Of several labels the first is the one that is switched by.
    inner = found[-1]
    while inner - 1 in found and headers[inner] == "mpls":
        inner -= 1
    return inner


def same_octets(names: Iterable[VaryField], headers: Sequence[HeaderKind]) -> str:
    """Two fields that are the same octets of a frame.

    A plain name is that of the innermost header, which may be one outside the tunnel: where the
    packet inside has no UDP, udp_src and outer_udp_src are one.

    Args:
        names: Fields.
        headers: A stack.

    Returns:
        "udp_src and outer_udp_src"; "" where all differ.
    """
    seen: dict[tuple[int, str], str] = {}
    for name in names:
        place, plain = index_of(name, headers), plain_name(name)
        if place is None:
            continue
        key = place, NETWORKS.get(plain, plain)
        if key in seen:
            return f"{seen[key]} and {name}"
        seen[key] = name
    return ""
