"""Tests of a kit that the merge lane leaves to the daily one: each goes a way that another goes."""

from __future__ import annotations

import re

import pytest

#: Of ids of tests. OVS-DPDK keeps deployments with VNFs, and it and the bridges each step at which
#: one fails; the others keep one way through the switch, one through a VNF, and their own modes.
#: VLAN tags pass each kind of wire. A container network is tried between hosts, and the hosts' own
#: and the bridge within one, too.
DAILY = re.compile(
    r"Test_(bridge|macvtap|testpmd|xdp)::.*\[(p2v|v2p|v2v|pvvp|pvpv)\]"
    r"|Test_dpdk::test_every_frame_is_forwarded\w*\[(p2v|v2p)\]"
    r"|Test_(?!dpdk)\w+::test_(counters_agree|it_comes_back|frames_come_out|stopped_twice)\w*\[pvp\]"
    r"|Test_(?!dpdk|bridge)\w+::test_a_deployment_that_fails\w*"
    r"\[(start|add_\w+|attach|prepare)\]"
    r"|test_vlan_tags_pass\[phy2phy_(learning|macswap)\b"
    r"|test_networks.py::Test_(?!bridge|host)\w+::\w*\[same\]"
    r"|\[phy2phy_(private|vepa|passthru|mac|generic)\b"
)


@pytest.hookimpl(tryfirst=True)  # before tests of a lane are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if DAILY.search(item.nodeid):
            item.add_marker(pytest.mark.daily)
