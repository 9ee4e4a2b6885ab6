"""Load balancing of services: virtual addresses, the backends behind each, and clients' flows.

Addresses are as a Kubernetes cluster has them: services in 10.96.0.0/12, pods elsewhere in
10.0.0.0/8. Clients are pods, so that a cluster's rules leave their source addresses as they are.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network
from typing import ClassVar

from pydantic import Field, model_validator

from vnetperf.model.addresses import AddressPlan
from vnetperf.model.frame_change import FIRST_PORT, PORTS_OF_ADDRESS, FlowEnds, FrameChange
from vnetperf.model.profile import MOST_FLOWS, TrafficProfile

#: Where services, clients and backends are; the last two are pods of the cluster.
VIRTUAL = IPv4Network("10.96.0.0/12")
CLIENTS = IPv4Network("10.64.0.0/12")
BACKENDS = IPv4Network("10.128.0.0/9")
CLUSTER = IPv4Network("10.0.0.0/8")
#: A network of its own for the backends of each service: whose it is shows in three octets.
BACKENDS_OF_SERVICE = 254
MOST_SERVICES = BACKENDS.num_addresses >> 8
#: Ports of the services, and of their backends.
SERVICE_PORT, BACKEND_PORT = 80, 8080


class Services(FrameChange):
    """Services that a load balancer has, and the flows that the tester sends to them.

    Flow `i` goes to service ``i % services``, so that successive frames are for different ones.

    Attributes:
        services: Virtual addresses.
        backends: Of each service. Of one alone it is known beforehand which one a flow gets: with
            more, frames go from clients alone, and any backend of the service is right.
        clients: Addresses that flows come from, each from many ports.
    """

    key: ClassVar[str] = "services"
    middlebox: ClassVar[str] = "a load balancer"
    condition: ClassVar[str] = "load balancing"
    options_title: ClassVar[str] = "services"
    missing_part: ClassVar[str] = "does not balance the load of services"

    services: int = Field(default=100, ge=1, le=MOST_SERVICES)
    backends: int = Field(default=1, ge=1, le=BACKENDS_OF_SERVICE)
    flows: int = Field(default=50_000, ge=1, le=MOST_FLOWS)
    clients: int = Field(default=100, ge=1, le=CLIENTS.num_addresses - 2)

    @model_validator(mode="after")
    def _fits(self) -> Services:
        if self.flows < self.services:
            raise ValueError(
                f"{self.flows} flows leave some of {self.services} services without any: flows is "
                "services at least"
            )
        room = self.clients * PORTS_OF_ADDRESS * self.services
        if self.flows > room:
            raise ValueError(
                f"{self.clients} clients have {room} flows to {self.services} services at most, "
                f"and {self.flows} are requested: more clients, or fewer flows"
            )
        return self

    @property
    def sessions(self) -> int:
        """Flows, by the name that translators have for them."""
        return self.flows

    def virtual(self, service: int) -> IPv4Address:
        """Virtual address of a service, by its number from 0."""
        return VIRTUAL.network_address + 1 + service

    def service_backends(self, service: int) -> tuple[IPv4Address, ...]:
        """Addresses of the backends of a service, by its number from 0."""
        network = BACKENDS.network_address + (service << 8)
        return tuple(network + 1 + number for number in range(self.backends))

    def sides(self) -> tuple[FlowEnds, FlowEnds]:
        """Both ends of every flow: at phy0, before the load balancer, and at phy1, behind it."""
        return _sides(self)

    @property
    def addresses(self) -> AddressPlan:
        """Clients behind phy0, backends behind phy1, virtual addresses are nobody's."""
        return AddressPlan((CLIENTS, BACKENDS), unrouted=VIRTUAL)

    def find_profile_problem(self, profile: TrafficProfile) -> str:
        """Why answers cannot be sent, where it is not known which backend a flow has."""
        if self.backends == 1 or 1 not in profile.directions:
            return ""
        return (
            f"which of {self.backends} backends a flow has is the load balancer's choice, so that "
            "answers cannot be sent; backends=1, or a profile with bidirectional = false"
        )

    def __str__(self) -> str:
        return (
            f"{self.services} service{'s' * (self.services > 1)} with {self.backends} "
            f"{'backend' if self.backends == 1 else 'backends'} each, {self.flows} flows of "
            f"{self.clients} clients"
        )


@lru_cache(maxsize=4)
def _sides(balancing: Services) -> tuple[FlowEnds, FlowEnds]:
    turns = range(-(-balancing.flows // balancing.services))  # flows of a service
    first, services = int(CLIENTS.network_address) + 1, range(balancing.services)
    clients = (first + turn % balancing.clients for turn in turns for _ in services)
    ports = (FIRST_PORT + turn // balancing.clients for turn in turns for _ in services)
    ends = _octets("I", clients, balancing), _octets("H", ports, balancing)
    start = int(VIRTUAL.network_address) + 1
    virtual = _octets(
        "I", array("I", range(start, start + balancing.services)) * len(turns), balancing
    )
    start = int(BACKENDS.network_address) + 1
    behind = array("I", range(start, start + (balancing.services << 8), 1 << 8)) * len(turns)
    backends = _octets("I", behind, balancing)
    address_octets = 4
    if balancing.backends > 1:
        address_octets = 3
        backends = b"".join(
            backends[start : start + address_octets] for start in range(0, len(backends), 4)
        )
    return (
        FlowEnds(*ends, virtual, SERVICE_PORT.to_bytes(2, "big")),
        FlowEnds(*ends, backends, BACKEND_PORT.to_bytes(2, "big"), address_octets),
    )


def _octets(kind: str, values: Iterable[int], balancing: Services) -> bytes:
    """Values of the flows, big endian."""
    numbers = array(kind, values)
    del numbers[balancing.flows :]
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()
