from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vnetperf.model.deployment import (
    DEPLOYMENTS,
    PHY_PORTS,
    Deployment,
    VnfPort,
    dut_mac,
    make_deployment,
    vnf_mac,
)
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams

BENCHMARK_NETWORK = IPv4Network("198.18.0.0/15")  # RFC 2544 appendix C.2.2


@st.composite
def stream_sets(draw: st.DrawFn) -> tuple[Deployment, bool, tuple[Stream, ...]]:
    deployment = make_deployment(draw(st.sampled_from(list(DEPLOYMENTS))), draw(st.integers(1, 64)))
    both = draw(st.booleans())
    streams = make_streams(
        deployment,
        TrafficProfile(bidirectional=both),
        addressing=draw(st.sampled_from(["far", "port"])),
        routed=draw(st.booleans()),
    )
    return deployment, both, streams


@given(stream_sets())
def test_one_stream_for_each_chain_and_direction(
    made: tuple[Deployment, bool, tuple[Stream, ...]],
) -> None:
    deployment, both, streams = made
    sending = [d for d in ((0, 1) if both else (0,)) if d in deployment.directions]
    assert [s.id for s in streams] == list(range(deployment.chains * len(sending)))
    wanted = {(d, c) for d in sending for c in range(deployment.chains)}
    assert {(s.direction, s.chain) for s in streams} == wanted
    assert all({s.tx_port, s.rx_port} == {0, 1} for s in streams)


@given(stream_sets())
def test_streams_can_be_told_apart_and_are_local_unicast(
    made: tuple[Deployment, bool, tuple[Stream, ...]],
) -> None:
    streams = made[2]
    assert len({(s.eth_src, s.eth_dst) for s in streams}) == len(streams)
    for mac in (mac for s in streams for mac in (s.eth_src, s.eth_dst)):
        octets = bytes.fromhex(mac.replace(":", ""))
        assert len(octets) == 6
        assert octets[0] & 0b11 == 0b10  # locally administered, not multicast


@given(stream_sets())
def test_nobody_is_addressed_by_two_ports_of_one_segment(
    made: tuple[Deployment, bool, tuple[Stream, ...]],
) -> None:
    deployment, _, streams = made
    for direction in (0, 1):
        sources = {s.eth_src for s in streams if s.direction == direction}
        others = {s.eth_src for s in streams if s.direction != direction}
        assert not sources & others
    assert all(s.eth_src != s.eth_dst for s in streams)
    assert len(deployment.segments()) >= 1


@given(stream_sets())
def test_addresses_are_those_set_aside_for_benchmarks_and_answer_each_other(
    made: tuple[Deployment, bool, tuple[Stream, ...]],
) -> None:
    for s in made[2]:
        assert IPv4Address(s.ipv4_src) in BENCHMARK_NETWORK
        assert IPv4Address(s.ipv4_dst) in BENCHMARK_NETWORK
        for other in made[2]:
            if other.direction != s.direction:
                assert (other.ipv4_src, other.ipv4_dst) == (s.ipv4_dst, s.ipv4_src)


def test_frames_are_addressed_to_the_far_tester_or_to_the_next_taker() -> None:
    pvp, phy2phy = make_deployment("pvp"), make_deployment("phy2phy")
    profile = TrafficProfile()
    forth, back = make_streams(pvp, profile)
    assert (forth.eth_dst, back.eth_dst) == (back.eth_src, forth.eth_src)
    forth, back = make_streams(pvp, profile, addressing="port")
    assert forth.eth_dst == vnf_mac(VnfPort(vnf=0, index=0))
    assert back.eth_dst == vnf_mac(VnfPort(vnf=0, index=1))
    for streams in (
        make_streams(phy2phy, profile, addressing="port"),
        make_streams(pvp, profile, routed=True),
    ):
        assert [s.eth_dst for s in streams] == [dut_mac(port) for port in PHY_PORTS]


def test_a_tester_in_a_vnfs_place_has_the_vnfs_address() -> None:
    (stream,) = make_streams(make_deployment("v2p"), TrafficProfile())
    assert stream.eth_src == vnf_mac(VnfPort(vnf=0, index=0))


def test_frames_go_into_the_dut_in_a_tunnel_where_it_takes_them_out() -> None:
    for name, tunnels in (("encap", [""]), ("decap", ["gre"]), ("op2p", ["", "gre"])):
        streams = make_streams(make_deployment(name), TrafficProfile(), tunnel="gre")
        assert [s.tunnel for s in streams] == tunnels


def test_more_flows_than_one_need_a_field_that_differs() -> None:
    with pytest.raises(ValidationError, match="vary"):
        TrafficProfile(flows=2)
    assert TrafficProfile(flows=2, vary=("ipv4_src",)).flows == 2


def test_ports_alone_do_not_make_more_flows_than_there_are_ports() -> None:
    with pytest.raises(ValidationError, match="at most 64000 flows"):
        TrafficProfile(flows=65_537, vary=("udp_src", "udp_dst"))
    assert TrafficProfile(flows=64_000, vary=("udp_src",))
    assert TrafficProfile(flows=65_537, vary=("udp_src", "eth_src"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"flows": 0},
        {"flows": 16_777_217, "vary": ("ipv4_src",)},
        {"vary": ("ttl",)},
        {"vary_mode": "shuffle"},
        {"learning_frames": -1},
        {"flowz": 1},
    ],
)
def test_impossible_traffic_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TrafficProfile.model_validate(wrong)


def test_unidirectional_traffic_is_sent_from_port_0_only() -> None:
    assert TrafficProfile(bidirectional=False).directions == (0,)
    assert TrafficProfile().directions == (0, 1)
