"""What a DUT does to the frames of each flow: with which addresses and ports they come out."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

from vnetperf.model.addresses import AddressPlan
from vnetperf.model.base import Frozen
from vnetperf.model.profile import TrafficProfile

#: Ports below are never given out (RFC 6056 section 3.2).
FIRST_PORT = 1024
#: Ports of an address that can be given out: 63 for each of 1024 subscribers, as CSIT has it.
PORTS_OF_ADDRESS = (1 << 16) - FIRST_PORT
#: UDP echo (RFC 2544 appendix C.2.6.2).
SERVER_PORT = 7
#: Variant of a scenario whose trials begin without sessions and make them.
NEW_SESSIONS = "new sessions"


class FlowEnds(NamedTuple):
    """Addresses and ports of all flows as they are on one side of what changes them.

    Values stand one after the other, each big endian; flow `i` has number `i` of each, modulo as
    many as there are: one is for all flows, and none is not known.

    Attributes:
        client: Address of the end that is behind phy0, four octets.
        client_port: Its port, two octets.
        server: Address of the end that is behind phy1, `server_octets` octets.
        server_port: Its port, two octets.
        server_octets: How many octets of the server's address are known: a checker compares these.
    """

    client: bytes
    client_port: bytes
    server: bytes
    server_port: bytes
    server_octets: int = 4


class FrameChange(Frozen):
    """What a DUT does to the frames of a scenario, and the flows that its tester sends through it.

    A class for each kind of DUT; `CHANGES` of vnetperf/model/traffic.py has all of them. A vSwitch
    names the one that it makes in its capabilities.

    Attributes:
        key: Where scenarios and streams have it in their JSON.
        middlebox: What a DUT is that makes it, in a sentence: "a NAT".
        condition: What a scenario's conditions call it: "NAT".
        options_title: What a comparison calls its options: "sessions of the NAT".
        missing_part: What a vSwitch lacks that does not make it: "is no NAT".
    """

    key: ClassVar[str]
    middlebox: ClassVar[str]
    condition: ClassVar[str]
    options_title: ClassVar[str]
    missing_part: ClassVar[str]

    @property
    def learns_ends(self) -> bool:
        """Whether the flows as they come out are learnt from frames before each trial."""
        return False

    @property
    @abstractmethod
    def sessions(self) -> int:
        """Number of flows; the DUT holds a session of each."""

    @property
    @abstractmethod
    def addresses(self) -> AddressPlan:
        """Where clients and servers are: behind phy0 and phy1."""

    @abstractmethod
    def sides(self) -> tuple[FlowEnds, FlowEnds]:
        """List both ends of every flow: at phy0, before the DUT, and at phy1, behind it."""

    def with_learnt_clients(self, addresses: bytes, ports: bytes) -> Self:
        """The same with the clients that were seen behind the DUT.

        Args:
            addresses: Of each flow, in order, four octets.
            ports: Of each flow, in order, two octets.

        Returns:
            The change.

        Raises:
            TypeError: Nothing is learnt of this kind of DUT.
        """
        raise TypeError(f"the flows through {self.middlebox} are known before")

    def find_profile_problem(self, profile: TrafficProfile) -> str:
        """Why a profile's frames cannot be sent through the DUT.

        Args:
            profile: The traffic profile.

        Returns:
            The reason, with the cure; "" when they can.
        """
        return ""
