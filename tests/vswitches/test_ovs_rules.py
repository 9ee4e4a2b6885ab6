"""A deployment's hops as OpenFlow rules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vswitches.openflow import Frame, Switch
from vnetperf.model import deployment
from vnetperf.model.deployment import (
    DEPLOYMENTS,
    PHY_PORTS,
    Port,
    VnfPort,
    dut_mac,
    make_deployment,
    vnf_mac,
)
from vnetperf.model.frames import VaryField
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import flows
from vnetperf.vswitches.openvswitch.openflow import (
    TUNNEL_OFPORT,
    UNDERLAY,
    bridge_rules,
    bridges,
    ofport,
    rule_count,
    rules_problem,
)


def scenario(name: str = "pvp", vnfs: int | None = None, **changes: Any) -> Scenario:
    traffic = changes.pop("traffic", TrafficProfile())
    return Scenario(
        deployment=make_deployment(name, vnfs), vswitch="dpdk", traffic=traffic, **changes
    )


def switch(wanted: Scenario) -> Switch:
    return Switch(bridge_rules(wanted, bridges(wanted)[0]))


def number(wanted: Scenario, port: Port) -> int:
    return TUNNEL_OFPORT if port in wanted.deployment.tunnelled else ofport(port)


def through_vnf(wanted: Scenario, frame: Frame, out: VnfPort) -> Frame:
    """What a VNF makes of a frame."""
    if wanted.vnf_mode == "io":
        return frame
    if wanted.vnf_mode == "macswap":
        return Frame(**{**frame.__dict__, "dl_src": frame.dl_dst, "dl_dst": frame.dl_src})
    macs = {"dl_src": vnf_mac(out), "dl_dst": wanted.peer_mac(out)}
    return Frame(**{**frame.__dict__, **macs})


def travel(wanted: Scenario, table: Switch, path: Sequence[Port], frame: Frame) -> Frame:
    """Send a frame along a path; it must take it."""
    for src, dst in zip(path[0::2], path[1::2], strict=True):
        if isinstance(src, VnfPort) and src not in wanted.deployment.ends:
            frame = through_vnf(wanted, frame, src)
        forwarded = table.forward(number(wanted, src), frame)
        assert forwarded is not None, f"dropped at {src}: {frame}"
        out, frame = forwarded
        assert out == number(wanted, dst)
    return frame


FIELDS: tuple[tuple[VaryField, ...], ...] = (
    *((), ("udp_src",), ("ipv4_dst",), ("eth_src",), ("eth_dst",), ("ipv4_src", "udp_dst")),
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    vary, mode = draw(st.sampled_from(FIELDS)), draw(st.sampled_from(["io", "mac", "macswap"]))
    both = draw(st.booleans())
    return scenario(
        draw(st.sampled_from(list(DEPLOYMENTS))),
        draw(st.integers(1, 5)),
        traffic=TrafficProfile(bidirectional=both, flows=3 if vary else 1, vary=vary),
        rules=draw(st.sampled_from(["port", "stream"])),
        vnf_mode=mode,
        forwarding=draw(st.sampled_from(["l2", "l3"])),
        addressing="port" if mode == "mac" else "far",
    )


@pytest.mark.slow
@settings(max_examples=400)
@given(scenarios().filter(lambda wanted: not rules_problem(wanted)))
def test_every_flow_takes_its_path(wanted: Scenario) -> None:
    table, graph = switch(wanted), wanted.deployment
    assert len(table.table) <= rule_count(wanted)
    for stream in wanted.streams:
        path = graph.path(graph.ends[stream.direction], stream.chain)
        for flow in flows(stream, wanted.traffic):
            got = travel(wanted, table, path, Frame.of(flow))
            assert got.ttl == 64 - wanted.routed * len(path) // 2
            if wanted.routed:
                assert got.dl_src == dut_mac(path[-1])
                far = 1 - stream.direction
                last = path[-1]
                assert got.dl_dst == (
                    vnf_mac(last)
                    if isinstance(last, VnfPort)
                    else deployment.tester_mac(far, stream.chain)
                )


def test_there_is_a_rule_for_each_flow_and_no_other_passes() -> None:
    traffic = TrafficProfile(flows=10, vary=("udp_src",))
    table = switch(scenario("phy2phy", rules="stream", traffic=traffic))
    assert len(table.table) == 20
    (first, *_) = flows(scenario("phy2phy").streams[0], traffic)
    assert table.forward(1, Frame.of(first)) is not None
    assert table.forward(1, Frame.of(first._replace(udp_src=first.udp_src + 10))) is None
    assert table.forward(2, Frame.of(first)) is None


def test_flows_that_a_vnf_makes_one_have_one_rule_behind_it() -> None:
    traffic = TrafficProfile(flows=10, vary=("eth_src",), bidirectional=False)
    rules = list(
        bridge_rules(
            wanted := scenario(rules="stream", traffic=traffic, vnf_mode="mac", addressing="port"),
            bridges(wanted)[0],
        )
    )
    into, out_of = ofport(PHY_PORTS[0]), ofport(VnfPort(vnf=0, index=1))
    assert sum(rule.startswith(f"in_port={into},") for rule in rules) == 10
    assert sum(rule.startswith(f"in_port={out_of},") for rule in rules) == 1
    assert not any("dl_" in r.partition("actions")[0] for r in rules if f"in_port={out_of}," in r)


def test_a_frame_of_no_chain_is_dropped_where_chains_are_told_apart() -> None:
    table = switch(scenario("pvpv"))
    stranger = Frame("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "1.1.1.1", "2.2.2.2", "1", "2")
    assert table.forward(ofport(PHY_PORTS[0]), stranger) is None


def test_a_router_drops_what_is_not_addressed_to_it() -> None:
    wanted = scenario("phy2phy", forwarding="l3")
    (flow, *_) = flows(wanted.streams[0], wanted.traffic)
    assert flow.eth_dst == dut_mac(PHY_PORTS[0])
    table = switch(wanted)
    assert table.forward(1, Frame.of(flow)) is not None
    assert table.forward(1, Frame.of(flow._replace(eth_dst=deployment.tester_mac(1, 0)))) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "pvpv", "traffic": TrafficProfile(flows=2, vary=("eth_dst",))}, "eth_dst"),
        (
            {
                "name": "phy2phy",
                "forwarding": "l3",
                "traffic": TrafficProfile(flows=2, vary=("eth_dst",)),
            },
            "addressed to it",
        ),
        ({"forwarding": "l3", "vnf_mode": "macswap"}, "not in macswap; leave --vnf-mode out"),
        ({"name": "pvpv", "rules": "learning"}, "loops"),
        ({"name": "pvpv", "rules": "learning", "addressing": "port"}, "loops"),
        (
            {
                "rules": "stream",
                "traffic": TrafficProfile(flows=9, vary=("udp_src", "udp_dst"), vary_mode="random"),
            },
            "cannot be enumerated",
        ),
        (
            {
                "name": "pvpv",
                "forwarding": "l3",
                "vnf_mode": "mac",
                "traffic": TrafficProfile(flows=9, vary=("eth_src", "udp_src")),
            },
            "source MAC or source port",
        ),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(changes: dict[str, Any], says: str) -> None:
    reason = rules_problem(scenario(changes.pop("name", "pvp"), **changes))
    assert says in reason
    assert ";" in reason
    assert "\n" not in reason


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 1)), unique=True))
def test_ports_have_numbers_of_their_own(ports: list[tuple[int, int]]) -> None:
    numbers = [TUNNEL_OFPORT, *(ofport(p) for p in PHY_PORTS)]
    numbers += [ofport(VnfPort(vnf=v, index=i)) for v, i in ports]
    assert len(set(numbers)) == len(numbers)
    assert all(0 < n < 0xFF00 for n in numbers)


@given(st.sampled_from(list(DEPLOYMENTS)), st.sampled_from(["port", "learning"]))
def test_every_port_is_on_one_bridge(name: str, by: Any) -> None:
    wanted = scenario(name, rules=by)
    made = bridges(wanted)
    ports = [port for bridge in made for port in bridge.ports]
    assert sorted(map(str, ports)) == sorted(map(str, wanted.deployment.ports))
    assert len({bridge.name for bridge in made}) == len(made)
    assert sum(len(bridge.tunnels) for bridge in made) == (1 if wanted.deployment.tunnelled else 0)


def test_a_learning_switch_has_a_bridge_for_each_segment() -> None:
    made = bridges(scenario("pvvp", rules="learning"))
    assert [[str(p) for p in b.ports] for b in made] == [
        ["phy0", "vnf0.0"],
        ["vnf0.1", "vnf1.0"],
        ["phy1", "vnf1.1"],
    ]
    wanted = scenario("pvvp", rules="learning")
    assert set(itertools.chain(*(bridge_rules(wanted, b) for b in made))) == {"actions=NORMAL"}


@pytest.mark.parametrize(("name", "port"), [("encap", 2), ("decap", 1), ("op2p", 2)])
def test_tunnelled_frames_meet_the_tunnel_s_end(name: str, port: int) -> None:
    wanted = scenario(name)
    above, below = bridges(wanted)
    assert below.name == f"{UNDERLAY}0"
    assert list(bridge_rules(wanted, below)) == [
        f"in_port={port},actions=LOCAL",
        f"in_port=LOCAL,actions=output:{port}",
    ]
    assert [ofport(port) for port in above.tunnels] == [port]
    assert any(f"{TUNNEL_OFPORT}" in rule for rule in bridge_rules(wanted, above))


def test_each_cable_between_vswitches_has_a_tunnel_of_its_own() -> None:
    whole = make_deployment("v2p2v").in_tunnels()
    wanted = scenario().model_copy(update={"deployment": whole.site(0)})
    _, *below = bridges(wanted)
    assert [(bridge.name, *map(str, bridge.ports)) for bridge in below] == [
        *(("under0", "phy0"), ("under1", "phy1")),
    ]
    assert [next(bridge_rules(wanted, bridge)) for bridge in below] == [
        *("in_port=1,actions=LOCAL", "in_port=2,actions=LOCAL"),
    ]
    switched = switch(wanted)
    frame = Frame.of(next(flows(wanted.streams[0], wanted.traffic)))
    vm = VnfPort(vnf=1, index=0), VnfPort(vnf=1, index=1)
    for field_number, port in enumerate(vm):
        tunnel = TUNNEL_OFPORT - field_number
        assert switched.forward(ofport(port), frame) == (tunnel, frame)
        assert switched.forward(tunnel, frame) == (ofport(port), frame)
