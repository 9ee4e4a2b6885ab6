from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.deployment import (
    DEPLOYMENTS,
    PHY_PORTS,
    Deployment,
    Hop,
    VnfPort,
    make_deployment,
)
from vnetperf.model.errors import ConfigError
from vnetperf.model.scenario import split_id

COUNTS = st.integers(1, 8)
ANY = st.builds(make_deployment, st.sampled_from(list(DEPLOYMENTS)), st.one_of(st.none(), COUNTS))


def names(deployment: Deployment, source: int, chain: int = 0) -> list[str]:
    return [str(port) for port in deployment.path(PHY_PORTS[source], chain)]


def test_phy2phy_forwards_between_the_physical_ports() -> None:
    assert names(make_deployment("phy2phy"), 0) == ["phy0", "phy1"]
    assert names(make_deployment("phy2phy"), 1) == ["phy1", "phy0"]


def test_pvp_passes_its_vnf() -> None:
    assert names(make_deployment("pvp"), 0) == ["phy0", "vnf0.0", "vnf0.1", "phy1"]
    assert names(make_deployment("pvp"), 1) == ["phy1", "vnf0.1", "vnf0.0", "phy0"]


def test_pvvp_is_two_vnfs_in_a_row_unless_told_otherwise() -> None:
    forth = ["phy0", "vnf0.0", "vnf0.1", "vnf1.0", "vnf1.1", "phy1"]
    assert names(make_deployment("pvvp"), 0) == forth
    assert names(make_deployment("pvvp"), 1) == forth[::-1]


def test_pvpv_has_a_vnf_in_each_chain() -> None:
    pvpv = make_deployment("pvpv")
    assert pvpv.chains == 2
    assert names(pvpv, 0, 1) == ["phy0", "vnf1.0", "vnf1.1", "phy1"]
    assert names(pvpv, 1, 0) == ["phy1", "vnf0.1", "vnf0.0", "phy0"]


@given(COUNTS)
def test_a_serial_chain_passes_every_vnf_once_in_order(count: int) -> None:
    deployment = make_deployment("pvvp", count)
    path = deployment.path(PHY_PORTS[0], 0)
    assert path[1:-1] == deployment.vnf_ports()
    assert len(deployment.vnf_ports()) == 2 * count


@given(COUNTS)
def test_parallel_chains_pass_exactly_their_own_vnf(count: int) -> None:
    deployment = make_deployment("pvpv", count)
    assert deployment.chains == deployment.vnf_count == count
    for chain in range(count):
        passed = {p.vnf for p in deployment.path(PHY_PORTS[0], chain) if isinstance(p, VnfPort)}
        assert passed == {chain}


@given(ANY)
def test_every_sending_end_reaches_the_other_and_back_the_same_way(
    deployment: Deployment,
) -> None:
    for chain in range(deployment.chains):
        paths = {d: deployment.path(deployment.ends[d], chain) for d in deployment.directions}
        for direction, path in paths.items():
            assert path[0] == deployment.ends[direction]
            assert path[-1] == deployment.ends[1 - direction]
        if len(paths) == 2:
            assert paths[0] == paths[1][::-1]


@given(ANY)
def test_hops_go_where_traffic_goes_and_every_port_is_used(deployment: Deployment) -> None:
    cables = {(h.src, h.dst) for h in deployment.hops}
    assert len(cables) == len(deployment.hops)
    if deployment.directions == (0, 1):
        assert cables == {(dst, src) for src, dst in cables}
    assert {port for cable in cables for port in cable} == {*deployment.ports}


@given(ANY)
def test_segments_are_the_ports_that_hops_join(deployment: Deployment) -> None:
    segments = deployment.segments()
    ports = [port for segment in segments for port in segment]
    assert sorted(map(str, ports)) == sorted({str(port) for port in deployment.ports})
    of = {port: n for n, segment in enumerate(segments) for port in segment}
    assert all(of[hop.src] == of[hop.dst] for hop in deployment.hops)
    # A chain's two sides are never in one: a frame that a VNF sends back must not meet itself.
    for vnf in range(deployment.vnf_count):
        assert of[VnfPort(vnf=vnf, index=0)] != of[VnfPort(vnf=vnf, index=1)]


def test_the_tester_takes_the_place_of_vnfs() -> None:
    p2v, v2p, v2v = (make_deployment(name) for name in ("p2v", "v2p", "v2v"))
    vnf0, vnf1 = VnfPort(vnf=0, index=0), VnfPort(vnf=1, index=0)
    assert p2v.path(PHY_PORTS[0], 0) == (PHY_PORTS[0], vnf0)
    assert v2p.path(vnf0, 0) == (vnf0, PHY_PORTS[0])
    assert v2v.path(vnf1, 0) == (vnf1, vnf0)
    assert [d.vnf_count for d in (p2v, v2p, v2v)] == [0, 0, 0]
    assert [len(d.phy_ports) for d in (p2v, v2p, v2v)] == [1, 1, 0]
    assert [d.tester_vnf_ports for d in (p2v, v2p, v2v)] == [(vnf0,), (vnf0,), (vnf0, vnf1)]
    assert [d.directions for d in (p2v, v2p, v2v)] == [(0,), (0,), (0, 1)]


def test_overlays_have_a_tunnel_on_one_side() -> None:
    encap, decap, both = (make_deployment(name) for name in ("encap", "decap", "op2p"))
    assert encap.tunnelled == both.tunnelled == (PHY_PORTS[1],)
    assert decap.tunnelled == (PHY_PORTS[0],)
    assert make_deployment("pvp").tunnelled == ()
    assert str(encap.hops[0]) == "phy0->phy1 (encap)"


@given(ANY)
def test_no_two_hops_take_the_same_frame(deployment: Deployment) -> None:
    for chain in range(deployment.chains):
        taken = [h.src for h in deployment.hops if h.chain in (None, chain)]
        assert len(taken) == len(set(taken))


def test_a_graph_that_loops_or_ends_nowhere_is_refused() -> None:
    phy0 = PHY_PORTS[0]
    vnf = VnfPort(vnf=0, index=0)
    back = VnfPort(vnf=0, index=1)
    dead_end = Deployment(name="x", vnf_count=1, chains=1, hops=(Hop(src=phy0, dst=vnf),))
    with pytest.raises(ValueError, match=r"no hop leads on from vnf0\.1"):
        dead_end.path(phy0, 0)
    loop = dead_end.model_copy(update={"hops": (*dead_end.hops, Hop(src=back, dst=vnf))})
    with pytest.raises(ValueError, match="loop"):
        loop.path(phy0, 0)


def test_the_number_of_vnfs_is_fixed_where_the_name_says_it() -> None:
    assert make_deployment("phy2phy", 5).vnf_count == 0
    assert make_deployment("pvp", 5).vnf_count == 1
    assert make_deployment("pvvp", 5).vnf_count == 5


@pytest.mark.parametrize(("name", "count"), [("pvxp", None), ("pvvp", 0), ("pvpv", -1)])
def test_an_impossible_deployment_says_what_would_be_possible(name: str, count: int | None) -> None:
    with pytest.raises(ConfigError) as caught:
        make_deployment(name, count)
    assert caught.value.accepted


def test_ids_split_at_the_first_underscore() -> None:
    assert split_id("pvp_my_switch") == ("pvp", "my_switch")
    for wrong in ("pvp", "pvp_", "nope_dpdk"):
        with pytest.raises(ConfigError):
            split_id(wrong)
