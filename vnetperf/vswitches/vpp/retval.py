"""What VPP's return values mean, and what a user can do about those that have a cure.

Numbers are the binary API's (src/vnet/error.h), the same from 23.06 to 26.06.
"""

from __future__ import annotations

TEXTS = {
    -1: "unspecified error",
    -2: "invalid interface index",
    -3: "no such routing table",
    -6: "no such entry",
    -7: "invalid value",
    -8: "invalid value (the second)",
    -9: "not implemented",
    -10: "invalid interface index (the second)",
    **{-n: f"system call error {n - 10}" for n in range(11, 21)},
    -30: "feature disabled by configuration",
    -31: "invalid registration",
    -50: "next hop not in the routing table",
    -52: "route without a path",
    -57: "invalid source address",
    -58: "invalid destination address",
    -59: "address length mismatch",
    -60: "address not found for the interface",
    -63: "no such graph node",
    -68: "sub-interface, or interface of this number, already exists",
    -70: "invalid memory size",
    -71: "invalid interface",
    -73: "invalid argument",
    -74: "unexpected interface state",
    -75: "tunnel already exists",
    -79: "interface already exists",
    -81: "value already exists",
    -82: "source and destination are the same",
    -89: "invalid worker thread",
    -97: "invalid address family",
    -99: "table too big",
    -100: "cannot enable or disable the feature",
    -105: "address in use",
    -107: "queue full",
    -116: "entry already exists",
    -119: "bridge domain already exists",
    -125: "invalid queue",
    -126: "unsupported",
    -144: "initialization failed",
    -145: "netlink error",
    -147: "instance in use",
    -150: "invalid value (the third)",
    -151: "not an Ethernet interface",
    -155: "resource in use",
    -162: "limit exceeded",
    -164: "UDP port already taken",
    -166: "invalid value (the fourth)",
    -167: "busy",
    -171: "invalid prefix length",
}
KERNEL = "the kernel refused, often for want of rights or memory: see the end of VPP's log"
CURES = {
    -9: "this VPP cannot do it: use a newer one, or leave the option out",
    -70: "ask for less memory or fewer descriptors",
    -89: "ask for a worker that there is: see `workers` in conf/switch",
    -99: "ask for fewer flows",
    -126: "this VPP or this kind of port cannot do it: leave the option out",
    -162: "ask for fewer queues, ports or flows",
    **dict.fromkeys((-145, *range(-20, -10)), KERNEL),
}


def text_of(retval: int) -> str:
    """What a return value means.

    Args:
        retval: A negative number.

    Returns:
        A few words.
    """
    return TEXTS.get(retval, "see src/vnet/error.h of VPP")


def cure_of(retval: int) -> str:
    """What a user can do about a return value.

    Args:
        retval: A negative number.

    Returns:
        A sentence; "" when nothing general can be said.
    """
    return CURES.get(retval, "")
