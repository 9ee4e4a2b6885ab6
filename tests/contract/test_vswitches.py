"""Every registered vSwitch keeps the contract, as far as this machine can carry it."""

from __future__ import annotations

import pytest

from vnetperf.plugin import registry
from vnetperf.testing import VSwitchContract

#: What a backend is known not to do, and whose doing it is.
AF_PACKET = {
    "test_vlan_tags_pass[phy2phy_veth-802.1ad]": (
        "DPDK's af_packet driver puts a VLAN tag back as 0x8100, whatever it was"
    ),
}
ROUTED_BROADCAST = (
    "VPP routes a packet that came in a broadcast frame, which RFC 1812 5.3.4 forbids"
)
KNOWN = {
    "cgnat": {
        f"test_frames_for_nobody[phy2phy_l3_{mode}-broadcast]": ROUTED_BROADCAST
        for mode in ("vpp-det44", "vpp-nat44")
    },
    "dpdk": AF_PACKET,
    "testpmd": AF_PACKET,
    "vpp": {
        "test_vlan_tags_pass[phy2phy_veth-802.1ad]": (
            "VPP's af_packet interface puts a VLAN tag back as 0x8100, whatever it was"
        ),
        "test_frames_for_nobody[phy2phy_l3-broadcast]": ROUTED_BROADCAST,
        "[phy2phy_stream": "VPP's rule for a flow is a route; the kit asks for it at layer 2",
        "test_it_comes_back_after_a_restart[pvp]": (
            "VPP starts a vhost-user ring at its first kick, and virtio-user does not kick anew"
        ),
    },
}

for _name in registry.names("vswitches"):
    _members = {"vswitch": _name, "known_failures": KNOWN.get(_name, {}), "__module__": __name__}
    globals()[f"Test_{_name}"] = pytest.mark.real(
        type(f"Test_{_name}", (VSwitchContract,), _members)
    )
