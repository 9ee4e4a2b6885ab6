"""A DUT that somebody else runs: its testbed file, its frames, and what cannot be done with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.config import Configuration
from vnetperf.deployment.events import find_event_problem
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.plugin import registry
from vnetperf.runner.scenarios import make_scenario, scenario_ids

DUT = """
isolation = "a test"
[external]
name = "somebody's switch"
version = "1.2"
[[external.ports]]
tester = "tv0"
{first}
[[external.ports]]
tester = "tv1"
{second}
"""


def configured(tmp_path: Any, first: str = "", second: str = "", **settings: Any) -> Configuration:
    path = tmp_path / "lab.toml"
    path.write_text(DUT.format(first=first, second=second))
    return config.load({"testbed": str(path), **settings}, environment={}, directory=tmp_path)


def test_it_stands_for_one_deployment() -> None:
    assert [name for name in scenario_ids() if name.endswith("_external")] == ["phy2phy_external"]


def test_it_is_planned_with_the_testers_interfaces_and_calibrated_on_the_like(
    tmp_path: Any,
) -> None:
    loaded = configured(tmp_path)
    scenario = make_scenario("phy2phy_external", loaded)
    plan = make_plan(scenario, loaded.testbed, facts())
    assert plan.wire == "external"
    assert not plan.refusal_is_loss
    assert set(plan.placement.cores) == {"tester"}
    assert make_loop_plan(scenario, loaded.testbed, facts()).wire == "veth"


def test_frames_are_addressed_as_the_testbed_file_has_it(tmp_path: Any) -> None:
    macs = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
    loaded = configured(tmp_path, *(f'mac = "{mac}"\nvlan = 7' for mac in macs))
    scenario = make_scenario("phy2phy_external", loaded)
    assert tuple(stream.eth_dst for stream in scenario.streams) == macs
    assert scenario.traffic.headers[:2] == ("ethernet", "vlan")
    assert scenario.traffic.value("vlan_id", 0) == 7
    plain = make_scenario("phy2phy_external", configured(tmp_path))
    assert [s.eth_dst for s in plain.streams] == [s.eth_src for s in reversed(plain.streams)]


@pytest.mark.parametrize("traffic", ["vlan", "vlan-many", "qinq"])
def test_tags_that_are_not_the_ports_are_refused(traffic: str, tmp_path: Any) -> None:
    loaded = configured(tmp_path, "vlan = 7", "vlan = 7", traffic=traffic)
    with pytest.raises(CapabilityError, match=r"tags of their own.* VLAN 7"):
        make_scenario("phy2phy_external", loaded)
    untagged = configured(tmp_path, traffic=traffic)
    assert make_scenario("phy2phy_external", untagged).traffic == untagged.traffic


def test_a_profile_that_has_the_ports_tag_is_sent_as_it_is(tmp_path: Any) -> None:
    loaded = configured(tmp_path, "vlan = 100", "vlan = 100", traffic="vlan")
    assert make_scenario("phy2phy_external", loaded).traffic == loaded.traffic


def test_what_is_missing_is_named_with_its_cure(tmp_path: Any) -> None:
    bare = config.load({}, environment={}, directory=tmp_path)
    with pytest.raises(CapabilityError, match="describes no external DUT; add "):
        make_plan(make_scenario("phy2phy_external", bare), bare.testbed, facts())
    apart = configured(tmp_path, "vlan = 7", "vlan = 8")
    with pytest.raises(CapabilityError, match="have different VLANs"):
        make_plan(make_scenario("phy2phy_external", apart), apart.testbed, facts())
    routed = configured(tmp_path, 'mac = "02:00:00:00:00:0a"', forwarding="l3")
    with pytest.raises(CapabilityError, match=r"external\.ports\[1\]\.mac"):
        make_scenario("phy2phy_external", routed)
    with pytest.raises(ConfigError, match=r"external\.ports\.0\.vlan"):
        configured(tmp_path, "vlan = 4095")


def test_nothing_of_it_is_reset(tmp_path: Any) -> None:
    loaded = configured(tmp_path)
    plan = make_plan(make_scenario("phy2phy_external", loaded), loaded.testbed, facts())
    for what in ("vswitch", "link phy0"):
        assert "somebody else runs the external DUT" in find_event_problem(plan, what)


def test_its_facts_are_those_of_the_testbed_file(tmp_path: Any) -> None:
    loaded = configured(tmp_path)
    plan = make_plan(make_scenario("phy2phy_external", loaded), loaded.testbed, facts())
    backend = registry.load("vswitches", "external")(None, plan)
    found = backend.facts()
    assert (found["name"], found["version"]) == ("somebody's switch", "1.2")
    assert [port["tester"] for port in found["ports"]] == ["tv0", "tv1"]
    assert backend.counters() == backend.links_down() == ()
