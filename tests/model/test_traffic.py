from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vnetperf.model.deployment import DEPLOYMENTS, make_deployment
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams

BENCHMARK_NETWORK = IPv4Network("198.18.0.0/15")  # RFC 2544 appendix C.2.2


@st.composite
def stream_sets(draw: st.DrawFn) -> tuple[int, bool, tuple[Stream, ...]]:
    deployment = make_deployment(draw(st.sampled_from(list(DEPLOYMENTS))), draw(st.integers(1, 64)))
    both = draw(st.booleans())
    streams = make_streams(deployment, TrafficProfile(bidirectional=both))
    return deployment.chains, both, streams


@given(stream_sets())
def test_one_stream_for_each_chain_and_direction(
    made: tuple[int, bool, tuple[Stream, ...]],
) -> None:
    chains, both, streams = made
    assert [s.id for s in streams] == list(range(chains * (2 if both else 1)))
    wanted = {(d, c) for d in ((0, 1) if both else (0,)) for c in range(chains)}
    assert {(s.direction, s.chain) for s in streams} == wanted
    assert all({s.tx_port, s.rx_port} == {0, 1} for s in streams)


@given(stream_sets())
def test_streams_can_be_told_apart_and_are_local_unicast(
    made: tuple[int, bool, tuple[Stream, ...]],
) -> None:
    streams = made[2]
    macs = [mac for s in streams for mac in (s.eth_src, s.eth_dst)]
    assert len(set(macs)) == len(macs)
    for mac in macs:
        octets = bytes.fromhex(mac.replace(":", ""))
        assert len(octets) == 6
        assert octets[0] & 0b11 == 0b10  # locally administered, not multicast


@given(stream_sets())
def test_addresses_are_those_set_aside_for_benchmarks_and_answer_each_other(
    made: tuple[int, bool, tuple[Stream, ...]],
) -> None:
    for s in made[2]:
        assert IPv4Address(s.ipv4_src) in BENCHMARK_NETWORK
        assert IPv4Address(s.ipv4_dst) in BENCHMARK_NETWORK
        for other in made[2]:
            if other.direction != s.direction:
                assert (other.ipv4_src, other.ipv4_dst) == (s.ipv4_dst, s.ipv4_src)


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
