"""The IP addresses of a scenario: which network is behind which end of a deployment."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple


class AddressPlan(NamedTuple):
    """Networks of a scenario; routers have routes to them, and testers send from them.

    Attributes:
        networks: Behind the deployment's ends 0 and 1.
        unrouted: What is sent there without a session is dropped; None for no such network.
        networks_ipv6: The same as `networks`, of IPv6.
    """

    networks: tuple[IPv4Network, IPv4Network]
    unrouted: IPv4Network | None = None
    networks_ipv6: tuple[IPv6Network, IPv6Network] = (
        IPv6Network("2001:2:0:18::/64"),
        IPv6Network("2001:2:0:19::/64"),
    )

    def host(self, end: int) -> IPv4Address:
        """The first address behind an end."""
        return self.networks[end].network_address + 1

    def host_ipv6(self, end: int) -> IPv6Address:
        """The first IPv6 address behind an end."""
        return self.networks_ipv6[end].network_address + 1

    @property
    def whole(self) -> IPv4Network:
        """The smallest network that both ends are in."""
        network, other = self.networks
        while not other.subnet_of(network):
            network = network.supernet()
        return network


#: The test networks of RFC 2544 (appendix C.2.2) and RFC 5180 (section 8).
TEST_ADDRESSES = AddressPlan((IPv4Network("198.18.0.0/16"), IPv4Network("198.19.0.0/16")))
