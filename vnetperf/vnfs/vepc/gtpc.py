"""GTPv1-C (3GPP TS 29.060): echo, and requests for PDP contexts; messages as octets."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

PORT_C = 2123
ECHO_REQUEST, ECHO_RESPONSE = 1, 2
CREATE_REQUEST, CREATE_RESPONSE = 16, 17
#: Version 1, protocol type GTP, a sequence number follows.
FLAGS, FLAG_SEQUENCE, FLAG_NEXT, FLAGS_OPTIONAL = 0x32, 0x02, 0x04, 0x07
HEADER, OPTIONAL = 8, 4
#: Causes: up to 191 a request was accepted (clause 7.7.1).
ACCEPTED = range(128, 192)
CAUSES = {
    192: "non-existent",
    193: "invalid message format",
    199: "no resources available",
    200: "service not supported",
    201: "mandatory IE incorrect",
    202: "mandatory IE missing",
    204: "system failure",
    208: "no memory is available",
    209: "user authentication failed",
    211: "all dynamic PDP addresses are occupied",
    219: "missing or unknown APN",
    220: "unknown PDP address or PDP type",
}
#: Information elements of fixed length (type below 128): type -> octets after the type.
FIXED = {1: 1, 2: 8, 3: 6, 4: 4, 5: 4, 8: 1, 11: 1, 12: 3, 13: 1, 14: 1, 15: 1, 16: 4, 17: 4}
FIXED |= {18: 5, 19: 1, 20: 1, 21: 1, 22: 1, 23: 1, 24: 1, 25: 2, 26: 2, 27: 2, 28: 2, 29: 1}
FIXED |= {127: 4}
TLV = 128
CAUSE, IMSI, RECOVERY, SELECTION = 1, 2, 14, 15
TEID_DATA, TEID_CONTROL, NSAPI = 16, 17, 20
END_USER_ADDRESS, APN, GSN_ADDRESS, MSISDN, QOS = 128, 131, 133, 134, 135
#: PDP type organisation IETF, number IPv4.
IPV4 = b"\xf1\x21"
#: Best effort: interactive class, no reliability requested (TS 24.008 clause 10.5.6.5).
BEST_EFFORT = bytes.fromhex("020b921f7396404074f9ffff")


class GtpError(ValueError):
    """Octets that are no GTPv1-C message."""


@dataclass(frozen=True)
class Message:
    """A message; its tunnel endpoint is 0 where the peer's is not known yet."""

    kind: int
    teid: int
    sequence: int
    elements: tuple[tuple[int, bytes], ...] = ()

    def encode(self) -> bytes:
        """The message as octets."""
        body = b"".join(_element(kind, content) for kind, content in self.elements)
        length = OPTIONAL + len(body)
        head = struct.pack("!BBHI", FLAGS, self.kind, length, self.teid)
        return head + struct.pack("!HBB", self.sequence, 0, 0) + body

    def first(self, kind: int) -> bytes | None:
        """Content of the first element of a type."""
        return next(
            (content for element_kind, content in self.elements if element_kind == kind), None
        )


def _element(kind: int, content: bytes) -> bytes:
    if kind >= TLV:
        return struct.pack("!BH", kind, len(content)) + content
    return bytes((kind,)) + content


def decode(octets: bytes) -> Message:
    """Read a message."""
    if len(octets) < HEADER:
        raise GtpError(f"{len(octets)} octets are no GTP header")
    flags, kind, length, teid = struct.unpack_from("!BBHI", octets)
    if flags >> 4 != FLAGS >> 4:
        raise GtpError(f"first octet {flags:#04x}: not version 1 of GTP")
    if length > len(octets) - HEADER:
        raise GtpError(f"{length} octets announced, {len(octets) - HEADER} are there")
    body, sequence = octets[HEADER : HEADER + length], 0
    if flags & FLAGS_OPTIONAL:
        if len(body) < OPTIONAL:
            raise GtpError("the optional part of the header is cut short")
        if flags & FLAG_SEQUENCE:
            sequence = int.from_bytes(body[:2], "big")
        if flags & FLAG_NEXT and body[3]:
            raise GtpError(f"extension header {body[3]:#04x}")
        body = body[OPTIONAL:]
    return Message(kind, teid, sequence, tuple(_elements(body)))


def _elements(body: bytes) -> list[tuple[int, bytes]]:
    elements, offset = [], 0
    while offset < len(body):
        kind, offset = body[offset], offset + 1
        if kind >= TLV:
            if offset + 2 > len(body):
                raise GtpError(f"element {kind} is cut short")
            length, offset = int.from_bytes(body[offset : offset + 2], "big"), offset + 2
        elif kind in FIXED:
            length = FIXED[kind]
        else:
            break
        if offset + length > len(body):
            raise GtpError(f"element {kind} is cut short")
        elements.append((kind, body[offset : offset + length]))
        offset += length
    return elements


def encode_bcd(digits: str, octets: int = 0) -> bytes:
    """Digits two to an octet, the first in the low half, filled up with 0xf."""
    padded = digits.ljust(max(2 * octets, len(digits) + len(digits) % 2), "f")
    return bytes(int(padded[n + 1] + padded[n], 16) for n in range(0, len(padded), 2))


def encode_apn(name: str) -> bytes:
    """An access point name as labels with their lengths."""
    return b"".join(bytes((len(part),)) + part.encode() for part in name.split("."))


def echo_request(sequence: int) -> Message:
    """An echo request."""
    return Message(ECHO_REQUEST, 0, sequence)


@dataclass(frozen=True)
class Subscriber:
    """Who attaches; `teid` is the SGSN's, alike for control and data."""

    imsi: str
    msisdn: str
    apn: str
    teid: int


def create_request(sequence: int, subscriber: Subscriber, control: str, user: str) -> Message:
    """A request for a PDP context."""
    teid = struct.pack("!I", subscriber.teid)
    return Message(
        CREATE_REQUEST,
        0,
        sequence,
        (
            (IMSI, encode_bcd(subscriber.imsi, 8)),
            (RECOVERY, b"\0"),
            (SELECTION, b"\xfc"),  # subscribed; the other bits are spare ones
            (TEID_DATA, teid),
            (TEID_CONTROL, teid),
            (NSAPI, b"\x05"),
            (END_USER_ADDRESS, IPV4),
            (APN, encode_apn(subscriber.apn)),
            (GSN_ADDRESS, IPv4Address(control).packed),
            (GSN_ADDRESS, IPv4Address(user).packed),
            (MSISDN, b"\x91" + encode_bcd(subscriber.msisdn)),
            (QOS, BEST_EFFORT),
        ),
    )


@dataclass(frozen=True)
class Context:
    """A PDP context: the mobile core's tunnel endpoints and address, and the UE's address."""

    teid_data: int
    teid_control: int
    ue: str
    gateway: str


def refusal_cause(message: Message) -> str:
    """Why a request was refused."""
    content = message.first(CAUSE)
    if content is None:
        return "the response has no cause"
    number = content[0]
    return "" if number in ACCEPTED else f"{CAUSES.get(number, 'refused')} (cause {number})"


def parse_context(message: Message) -> Context:
    """The PDP context in a response."""
    addresses = [content for kind, content in message.elements if kind == GSN_ADDRESS]
    data, control = message.first(TEID_DATA), message.first(TEID_CONTROL)
    user = message.first(END_USER_ADDRESS)
    if data is None or control is None or user is None or not addresses:
        raise GtpError("the response lacks a tunnel endpoint or an address")
    if user[:2] != IPV4 or len(user) != len(IPV4) + 4 or len(addresses[-1]) != 4:
        raise GtpError(f"the address {user.hex()} is not one of IPv4")
    return Context(
        teid_data=int.from_bytes(data, "big"),
        teid_control=int.from_bytes(control, "big"),
        ue=str(IPv4Address(user[2:])),
        gateway=str(IPv4Address(addresses[-1])),
    )
