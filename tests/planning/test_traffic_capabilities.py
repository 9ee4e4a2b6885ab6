"""What a profile asks for and a deployment or a generator cannot do is refused with its cure."""

from __future__ import annotations

from typing import Any

import pytest

from vnetperf.config.files import available, find_file, load_model
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import CapabilityError
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.capability_check import deployment_errors, generator_errors, require_size
from vnetperf.plugin.generator import GeneratorCapabilities
from vnetperf.traffic.loadgen.driver import Loadgen

PLAIN = GeneratorCapabilities(
    wires=("memif",),
    headers=frozenset({"ethernet", "ipv4", "udp"}),
    vary=frozenset({"ipv4_src"}),
    random_fields=False,
    max_flows=1000,
    imix=False,
)


def scenario(traffic: dict[str, Any], deployment: str = "phy2phy", **wishes: Any) -> Scenario:
    return Scenario(
        deployment=make_deployment(deployment),
        vswitch="switch",
        traffic=TrafficProfile.model_validate({"name": "mine", **traffic}),
        generator="weak",
        **wishes,
    )


@pytest.mark.parametrize(
    ("traffic", "said", "accepted"),
    [
        ({"headers": ["ethernet", "vlan", "ipv4", "tcp"]}, "header vlan, tcp", "ethernet, ipv4"),
        ({"flows": 9, "vary": ["udp_src"]}, "vary udp_src", "ipv4_src"),
        ({"flows": 9, "vary": ["ipv4_src"], "vary_mode": "random"}, "at random", "inc"),
        ({"flows": 1001, "vary": ["ipv4_src"]}, "send 1001 flows", "up to 1000"),
        ({"imix": "aag"}, "a mix of frame sizes", "one size"),
        ({"loads": [1.0, 0.5]}, "different loads", "equal loads"),
        ({"broadcast": 0.01}, "broadcast frames", "broadcast = 0"),
        ({"burst": 64}, "bursts of 64 frames", "burst = 1"),
    ],
)
def test_what_a_generator_cannot_is_told_with_what_it_can(
    traffic: dict[str, Any], said: str, accepted: str
) -> None:
    (error,) = generator_errors(scenario(traffic), PLAIN)
    assert isinstance(error, CapabilityError)
    assert "weak cannot" in str(error)
    assert said in str(error)
    assert accepted in str(error)
    assert "traffic profile mine" in str(error)
    assert "--generator" in str(error)


@pytest.mark.parametrize(
    ("mode", "flows", "told"),
    [
        ("inc", 999, "63936 flows, as fields out of step make of 999"),
        ("random", 40, "1600 flows, as fields at random make of 40"),
    ],
)
def test_flows_of_fields_out_of_step_are_counted(mode: str, flows: int, told: str) -> None:
    """999 values of one field and 64 of another are 63,936 flows."""
    more = {"vary": frozenset({"ipv4_src", "ipv4_dscp"}), "random_fields": True}
    can = PLAIN.model_copy(update=more)
    asked = scenario({"flows": flows, "vary": ["ipv4_src", "ipv4_dscp"], "vary_mode": mode})
    (error,) = generator_errors(asked, can)
    assert f"send {told}" in str(error)
    assert "up to 1000" in str(error)
    assert not [*generator_errors(asked, can.model_copy(update={"max_flows": None}))]


def test_fields_of_a_single_flow_are_not_varied() -> None:
    assert not [*generator_errors(scenario({"vary": ["udp_src"], "vary_mode": "random"}), PLAIN)]


def test_loadgen_carries_every_profile_that_is_shipped() -> None:
    for name in available("traffic"):
        profile = load_model(TrafficProfile, find_file("traffic", name)).model_dump()
        deployment = {"vepc": "vepc", "overlay-flows": "op2p"}.get(name, "phy2phy")
        asked = scenario(profile, deployment)
        assert not [*generator_errors(asked, Loadgen.capabilities)], name
        assert not [*deployment_errors(asked)], name


TAGGED = ["ethernet", "vlan", "ipv4", "udp"]
OWN_TUNNEL = ["ethernet", "ipv4", "udp", "vxlan", "ethernet", "ipv4", "udp"]


@pytest.mark.parametrize(
    ("deployment", "wishes", "traffic", "said"),
    [
        ("op2p", {}, {"headers": OWN_TUNNEL}, "one tunnel at most"),
        ("phy2phy", {"forwarding": "l3"}, {"headers": TAGGED}, "right behind Ethernet"),
        ("vepc", {}, {"headers": ["ethernet", "ipv6", "udp"]}, "right behind Ethernet"),
        (
            "pvpv",
            {"forwarding": "l3"},
            {"headers": ["ethernet", "ipv4", "tcp"]},
            "distinguished by the UDP port",
        ),
        ("phy2phy", {"forwarding": "l3"}, {"values": {"ipv4_src": "10.0.0.1"}}, "no way to 10.0"),
        ("phy2phy", {"rules": "stream"}, {"headers": TAGGED}, "rules for each flow"),
        ("phy2phy", {"rules": "stream"}, {"values": {"udp_dst": 9}}, "rules for each flow"),
        ("pvpv", {}, {"broadcast": 0.01}, "would circle"),
        ("decap", {}, {"loads": [0.5, 1.0]}, "decap sends one way"),
        ("pvpv", {}, {"values": {"eth_dst": "02:00:00:00:00:01"}}, "sets or varies eth_dst"),
        ("pvpv", {}, {"flows": 2, "vary": ["eth_dst"]}, "sets or varies eth_dst"),
        (
            "pvpv",
            {},
            {"headers": OWN_TUNNEL, "flows": 2, "vary": ["outer_eth_dst"]},
            "sets or varies outer_eth_dst",
        ),
        ("phy2phy", {"forwarding": "l3"}, {"flows": 2, "vary": ["eth_dst"]}, "varies eth_dst"),
        ("pvpv", {}, {"values": {"eth_src": "02:00:00:00:00:01"}}, "sets or varies eth_src"),
        (
            "phy2phy",
            {"rules": "learning"},
            {"flows": 65_537, "vary": ["eth_src"]},
            "would find 02:76:65:01:00:00 on both sides",
        ),
        (
            "pvp",
            {"addressing": "port"},
            {"values": {"eth_dst": "02:00:00:00:00:01"}},
            "have to be addressed",
        ),
        ("phy2phy", {}, {"flows": 5, "vary": ["outer_udp_src"]}, "has outer_udp_src"),
        ("decap", {"tunnel": "gre"}, {"flows": 5, "vary": ["outer_udp_src"]}, "outer_udp_src"),
    ],
)
def test_what_a_deployment_cannot_do_is_told(
    deployment: str, wishes: dict[str, Any], traffic: dict[str, Any], said: str
) -> None:
    error, *_ = deployment_errors(scenario(traffic, deployment, **wishes))
    assert said in str(error)
    assert "traffic profile mine" in str(error)


@pytest.mark.parametrize(
    ("deployment", "wishes", "traffic"),
    [
        ("phy2phy", {"rules": "learning"}, {"flows": 65_536, "vary": ["eth_src"]}),
        ("phy2phy", {"rules": "learning"}, {"values": {"eth_src": "02:00:00:00:00:01"}}),
        ("phy2phy", {"rules": "port"}, {"flows": 70_000, "vary": ["eth_src"]}),
        ("phy2phy", {}, {"flows": 4096, "vary": ["eth_dst"]}),
        ("pvpv", {}, {"vary": ["eth_dst"]}),
        # Inside of a tunnel of the frames' own nobody looks at it.
        ("pvpv", {}, {"headers": OWN_TUNNEL, "values": {"eth_dst": "02:00:00:00:00:01"}}),
    ],
)
def test_what_a_deployment_can_do_is_not_refused(
    deployment: str, wishes: dict[str, Any], traffic: dict[str, Any]
) -> None:
    assert not [*deployment_errors(scenario(traffic, deployment, **wishes))]


def test_sizes_have_room_for_the_headers_and_fit_the_path() -> None:
    tagged = scenario({"headers": TAGGED})
    require_size(tagged, 68, 1518)
    with pytest.raises(CapabilityError, match=r"42|46 octets.*need 68"):
        require_size(tagged, 67, 1518)
    with pytest.raises(CapabilityError, match="no frames of 1519 octets"):
        require_size(tagged, 1519, 1518)
    mixed = scenario({"imix": "ai"})
    with pytest.raises(CapabilityError, match="no frames of 9000 octets"):
        require_size(mixed, 4532, 1518)
    require_size(mixed, 4532, 9018)
