"""What follows an unknown name."""

import pytest

from vnetperf.model.errors import did_you_mean

SCENARIOS = ["phy2phy_dpdk", "pvp_bridge", "pvp_dpdk", "pvp_ovs", "pvp_vpp", "pvp_xdp"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("pvp_dkdp", "pvp_dpdk"),  # two letters swapped, where another name is alike as a whole
        ("pvp_dpd", "pvp_dpdk"),
        ("pvp_brigde", "pvp_bridge"),
        ("phy2phy-dpdk", "phy2phy_dpdk"),
        ("-json", "--json"),
    ],
)
def test_the_name_that_was_meant(name: str, near: str) -> None:
    assert did_you_mean(name, [*SCENARIOS, "--json"]) == f", did you mean '{near}'?"


@pytest.mark.parametrize("name", ["pvp_dpdk", "quantum"])
def test_neither_a_known_name_nor_one_like_no_other(name: str) -> None:
    assert did_you_mean(name, SCENARIOS) == ""
