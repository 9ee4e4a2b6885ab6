"""Tests of a kit that the merge lane leaves to the daily one: each goes a way that another goes."""

from __future__ import annotations

import re

import pytest

#: Of ids of tests. OVS-DPDK keeps each deployment, and it and the bridges each step at which one
#: fails; the bridge, macvtap, testpmd and XDP keep one way through the switch and one through a
#: VNF, each in its first mode. VLAN tags pass each kind of wire. A container network is tried
#: between hosts, and the bridge within one, too.
DAILY = re.compile(
    r"Test_(bridge|macvtap|testpmd|xdp)::.*\[(p2v|v2p|v2v|pvvp|pvpv)\]"
    r"|Test_(?!dpdk)\w+::test_(counters_agree|it_comes_back|frames_come_out|stopped_twice)\w*\[pvp\]"
    r"|Test_(?!dpdk|bridge)\w+::test_a_deployment_that_fails\w*"
    r"\[(start|add_\w+|attach|prepare)\]"
    r"|test_vlan_tags_pass\[phy2phy_(learning|macswap)\b"
    r"|test_networks.py::Test_(?!bridge)\w+::\w*\[same\]"
    r"|\[phy2phy_(private|vepa|passthru|mac|generic)\b"
)


@pytest.hookimpl(tryfirst=True)  # before tests of a lane are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if DAILY.search(item.nodeid):
            item.add_marker(pytest.mark.daily)
