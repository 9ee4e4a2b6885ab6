"""Header stacks that frames can have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, get_args

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
    """Refuse headers that cannot follow each other.

    Args:
        headers: From the outermost.

    Raises:
        ValueError: What is wrong, and what is accepted.
    """
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


def carrier_of(headers: Sequence[HeaderKind]) -> HeaderKind | None:
    """The tunnel's own header.

    Args:
        headers: A stack.

    Returns:
        "vxlan" ...; None without a tunnel.
    """
    return next((kind for kind in headers if kind in CARRIERS), None)
