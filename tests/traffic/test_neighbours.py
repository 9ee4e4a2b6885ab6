"""Whose addresses the tester's ports answer for."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from vnetperf.model import deployment as addresses
from vnetperf.model.deployment import make_deployment
from vnetperf.model.frames import TESTER_ADDRESS
from vnetperf.model.options import GN_TESTER, Bearers
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.plugin.compiled_frames import compile_traffic
from vnetperf.traffic.loadgen.driver import list_neighbours, map_port_macs
from vnetperf.traffic.loadgen.engine import NeighbourSpec


def known(
    deployment: str, profile: TrafficProfile, tunnel: str = ""
) -> dict[tuple[int, str], NeighbourSpec]:
    graph = make_deployment(deployment)
    streams = make_streams(graph, profile, tunnel=tunnel)
    found = list_neighbours(compile_traffic(streams, profile, 256), graph)
    return {(n.port, str(ip_address(n.address))): n for n in found}


def mac(entry: NeighbourSpec) -> str:
    return entry.mac.hex(":")


def test_each_port_has_what_it_sends_from() -> None:
    found = known("pvp", TrafficProfile())
    assert set(found) == {(0, "198.18.0.1"), (1, "198.19.0.1")}
    for port, address in ((0, "198.18.0.1"), (1, "198.19.0.1")):
        assert mac(found[port, address]) == addresses.tester_mac(port, 0)
        assert found[port, address].count == 1


def test_a_port_that_only_receives_has_what_is_sent_to_it() -> None:
    found = known("phy2phy", TrafficProfile(bidirectional=False))
    assert mac(found[1, "198.19.0.1"]) == addresses.tester_mac(1, 0)


def test_all_flows_are_there() -> None:
    profile = TrafficProfile(flows=1000, vary=("ipv4_src",))
    found = known("phy2phy", profile)
    assert found[0, "198.18.0.1"].count == 1000
    assert not found[0, "198.18.0.1"].mac_steps
    # Direction 0 sends to one of those that direction 1 sends from.
    assert found[1, "198.19.0.1"].count == 1000


@pytest.mark.parametrize("flows", [(300, 300), (65_535, 65_535)])
def test_addresses_of_flows_with_their_own_stations(flows: tuple[int, int]) -> None:
    profile = TrafficProfile(flows=flows[0] - 1, vary=("ipv4_src", "eth_src"))
    entry = known("phy2phy", profile)[0, "198.18.0.1"]
    assert entry.mac_steps
    assert entry.count == flows[1] - 1


def test_ipv6_behind_a_tag() -> None:
    profile = TrafficProfile(headers=("ethernet", "vlan", "ipv6", "udp"))
    found = known("phy2phy", profile)
    assert len(found) == 2
    assert {len(n.address) for n in found.values()} == {16}


def test_labels_and_raw_frames_have_no_addresses() -> None:
    raw = TrafficProfile(headers=("ethernet", "raw"), raw="88b5")
    assert known("phy2phy", raw) == {}


@pytest.mark.parametrize("deployment", ["encap", "decap"])
def test_the_testers_end_of_a_tunnel(deployment: str) -> None:
    for both in (True, False):
        found = known(deployment, TrafficProfile(bidirectional=both), "vxlan")
        (port,) = [port for port, address in found if address == TESTER_ADDRESS]
        assert mac(found[port, TESTER_ADDRESS]) == addresses.tester_mac(port, 0)
        assert len(found) > 1


def test_a_radio_network_and_its_servers() -> None:
    graph, profile = make_deployment("vepc"), TrafficProfile()
    run = Bearers(teid=1, ue="198.18.0.2", count=20)
    streams = [
        s.model_copy(update={"bearers": (run,)}) for s in make_streams(graph, profile, tunnel="")
    ]
    found = list_neighbours(compile_traffic(streams, profile, 256), graph)
    by_address = {(n.port, str(ip_address(n.address))): n for n in found}
    radio = graph.ends.index(next(end for end in graph.ends if end in graph.gtp))
    assert (radio, GN_TESTER) in by_address
    assert (1 - radio, "198.19.0.1") in by_address


def test_every_port_has_a_station() -> None:
    graph = make_deployment("pvp")
    assert {port: m.hex(":") for port, m in map_port_macs(graph).items()} == {
        0: addresses.tester_mac(0, 0),
        1: addresses.tester_mac(1, 0),
    }


def test_who_answers_nobody_announces_nothing() -> None:
    with pytest.raises(ValueError, match="announce = true"):
        TrafficProfile(announce=True, answers="none")
