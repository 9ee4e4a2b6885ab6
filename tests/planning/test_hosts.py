"""Plans over several hosts: who has what, which cables, cores and memory of one machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.fakes.machine import facts
from tests.fakes.nics import DUT0, DUT1, TESTER0, TESTER1, with_nics
from vnetperf import config
from vnetperf.config import Configuration
from vnetperf.deployment.deploy import dedicate_cores
from vnetperf.deployment.endpoints import processors_apart
from vnetperf.host import cpu
from vnetperf.model.deployment import PhyPort
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import CableConfig, ClockSync, HostConfig, MachineFacts, Testbed
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.plugin import registry
from vnetperf.pytest_plugin.plans import describe
from vnetperf.runner.calibration_cache import CalibrationCache
from vnetperf.runner.conductor import require_generator
from vnetperf.runner.scenarios import make_scenario, scenario_ids, session_scenario
from vnetperf.runner.transfers import Planner

if TYPE_CHECKING:
    from vnetperf.host.machine import Machine


THREE = ("east", "north", "west")


def loaded(**settings: str) -> Configuration:
    return config.load({"testbed": "two-hosts", "preset": "smoke", **settings})


def machine(cores: int = 8) -> MachineFacts:
    one = facts(cores)
    return one.model_copy(update={"hosts": dict.fromkeys(THREE, one)})


def plan_of(
    name: str,
    cores: int = 8,
    testbed: Testbed | None = None,
    *,
    sockets: bool = False,
    **settings: str,
) -> Plan:
    configuration = loaded(**settings)
    scenario = make_scenario(name, configuration).model_copy(update={"sockets": sockets})
    return make_plan(scenario, testbed or configuration.testbed, machine(cores))


def by_host(plan: Plan) -> dict[str, Plan]:
    return {part.host: part for part in plan.hosts}


def test_the_tester_is_alone_on_the_first_host_where_all_ends_are_wires() -> None:
    plan = by_host(plan_of("pvp_dpdk"))
    east, west = plan["east"], plan["west"]
    assert (east.parts, west.parts) == (("tester",), ("dut",))
    assert [(use.port, use.side, use.nic, use.far) for use in east.cables] == [
        (0, "tester", "c0", "west:c0"),
        (1, "tester", "c1", "west:c1"),
    ]
    assert [(use.port, use.side) for use in west.cables] == [(0, "dut"), (1, "dut")]
    assert set(east.commands) == set()
    assert "ovs-vswitchd" in west.commands


def test_a_spanning_deployment_has_a_vswitch_on_each_host() -> None:
    plan = plan_of("v2p2v_bridge")
    east, west = by_host(plan)["east"], by_host(plan)["west"]
    assert (east.parts, west.parts) == (("tester", "dut"), ("dut",))
    assert [use.port for use in east.cables] == [0, 1]
    assert [use.port for use in west.cables] == [2, 3]
    assert (east.scenario.deployment.vnf_count, west.scenario.deployment.vnf_count) == (0, 1)
    assert {plan.port_hosts[port] for port in ("phy0", "vnf1.1")} == {"east"}
    assert {plan.port_hosts[port] for port in ("phy3", "vnf0.0")} == {"west"}


def of_three(*cables: tuple[str, str], **roles: str) -> Testbed:
    """Three hosts, north besides the two, with cables."""
    hosts = {n: {"transport": "netns", "role": roles.get(n, "")} for n in THREE}
    file = {"name": "three", "hosts": hosts, "cables": [{"ends": ends} for ends in cables]}
    return Testbed.model_validate(file)


def test_a_chain_over_two_vswitches_ends_at_the_tester_beside_the_first() -> None:
    plan = plan_of("pvp2pvp_bridge")
    east, west = by_host(plan)["east"], by_host(plan)["west"]
    assert (east.parts, west.parts) == (("tester", "dut"), ("dut",))
    # Port 0 of the tester is on its own host, port 1 at the other end of a cable.
    assert {(use.port, use.side) for use in east.cables} == {(3, "tester"), (1, "dut")}
    assert {(use.port, use.side) for use in west.cables} == {(3, "dut"), (2, "dut")}
    assert {use.cable for use in east.cables} == {0, 1}
    assert [[*p.scenario.deployment.vnf_numbers] for p in (east, west)] == [[0], [1]]
    assert plan.port_hosts["phy3"] == plan.port_hosts["vnf1.0"] == "west"
    assert plan.port_hosts["phy1"] == plan.port_hosts["vnf0.0"] == "east"
    assert [str(end) for end in east.for_tester.scenario.deployment.ends] == ["phy0", "phy3"]
    assert "vnf1" in by_host(plan_of("pvp2pvp_dpdk"))["west"].placement.cores


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("p2c2p_bridge", "ew"),
        ("v2c2v_dpdk", "ew"),
        ("v2c2v_macvtap", "ew"),
        ("p2c2p_macvtap", "ew"),
        ("p2v_bridge", "ew"),
        ("v2p_bridge", "we"),
    ],
)
def test_a_deployment_between_two_hosts_has_a_port_of_the_tester_on_each(
    name: str, ports: str
) -> None:
    plan = plan_of(name)
    assert [part.host[0] for part in plan.testers] == [*ports]
    assert [part.ends for part in plan.testers] == [(0,), (1,)]
    for part in plan.testers:  # each needs the streams of both
        assert part.for_tester.scenario.deployment == plan.scenario.deployment
        assert "tester" in part.placement.cores


def in_a_row(**roles: str) -> Testbed:
    return of_three(("east:a", "west:a"), ("west:b", "north:b"), **roles)


@pytest.mark.parametrize("name", ["phy2phy_bridge", "pvp_dpdk", "pvvp_bridge"])
def test_two_hosts_with_the_role_have_one_port_of_the_tester_each(name: str) -> None:
    plan = by_host(plan_of(name, testbed=in_a_row(east="tester", north="tester")))
    assert {host: part.parts for host, part in plan.items()} == {
        **{"east": ("tester",), "north": ("tester",), "west": ("dut",)},
    }
    assert (plan["east"].own_ends, plan["north"].own_ends) == ((0,), (1,))
    assert [(use.port, use.side) for use in plan["north"].cables] == [(1, "tester")]
    loop = make_loop_plan(
        plan_of(name).scenario, in_a_row(east="tester", north="tester"), machine()
    )
    assert loop.host == "east"  # calibrated with both ports of its own
    assert loop.own_ends == (0, 1)


def no_memif_at(monkeypatch: pytest.MonkeyPatch, *boots: str) -> MachineFacts:
    """Hosts of boots "east", "north", "west", of which some have a generator without memif."""

    def cannot_plug(wire: str, _: int, *, facts: MachineFacts, **__: object) -> str:
        return "its program has no memif" if wire == "memif" and facts.boot in boots else ""

    generator = registry.load("traffic", "loadgen")
    monkeypatch.setattr(generator, "cannot_plug", staticmethod(cannot_plug))
    found = machine()
    hosts = {name: one.model_copy(update={"boot": name}) for name, one in found.hosts.items()}
    return found.model_copy(update={"hosts": hosts})


@pytest.mark.parametrize("without", ["east", "west"])
def test_a_wire_is_chosen_that_each_host_of_the_tester_can_have(
    without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = loaded()
    testbed = configuration.testbed.model_copy(update={"wires": ("memif", "veth")})
    scenario = make_scenario("v2c2v_dpdk", configuration)
    assert make_plan(scenario, testbed, machine()).wire == "memif"
    found = no_memif_at(monkeypatch, without)
    plan = make_plan(scenario, testbed, found)
    assert [part.host for part in plan.testers] == ["east", "west"]
    assert plan.wire == "veth"
    one = testbed.model_copy(update={"wires": ("memif",)})
    with pytest.raises(CapabilityError, match=f"{without}.*no memif|its program has no memif"):
        make_plan(scenario, one, found)
    # One that was asked for is not replaced.
    named = scenario.model_copy(update={"wire": "memif"})
    with pytest.raises(CapabilityError, match="its program has no memif"):
        make_plan(named, testbed, found)


def test_a_tester_that_one_host_cannot_plug_in_is_refused_with_that_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cannot_plug(wire: str, _: int, *, facts: MachineFacts, **__: object) -> str:
        return "its program has no veth" if facts.boot == "north" else ""

    found = no_memif_at(monkeypatch)
    generator = registry.load("traffic", "loadgen")
    monkeypatch.setattr(generator, "cannot_plug", staticmethod(cannot_plug))
    scenario = make_scenario("phy2phy_bridge", loaded())
    with pytest.raises(CapabilityError, match=r"host north: its program has no veth"):
        make_plan(scenario, in_a_row(east="tester", north="tester"), found)


def test_a_chain_begins_at_one_tester_and_ends_at_the_other() -> None:
    roles = in_a_row(east="tester", north="tester")
    plan = by_host(plan_of("pvp2pvp_bridge", testbed=roles))
    assert {host: part.parts for host, part in plan.items()} == {
        **{"east": ("tester", "dut"), "north": ("tester",), "west": ("dut",)},
    }


@pytest.mark.parametrize(("boots", "bound_s"), [("aa", 0.0), ("ab", None), (("", ""), None)])
def test_clocks_are_one_where_the_kernels_are(boots: Sequence[str], bound_s: float | None) -> None:
    found = machine()
    hosts = {
        name: facts.model_copy(update={"boot": boot})
        for (name, facts), boot in zip(
            [(n, found.hosts[n]) for n in ("east", "west")], boots, strict=True
        )
    }
    configuration = loaded()
    scenario = make_scenario("p2c2p_bridge", configuration)
    plan = make_plan(scenario, configuration.testbed, found.model_copy(update={"hosts": hosts}))
    assert {plan.clock_bound_s, *(part.clock_bound_s for part in plan.hosts)} == {bound_s}
    assert ("latency is the round trip" in plan.tester_text) == (bound_s is None)
    assert "port 0 on east, port 1 on west" in plan.tester_text
    assert plan_of("v2p2v_bridge").clock_bound_s == 0.0


def test_clocks_of_two_machines_are_apart_by_what_their_services_state() -> None:
    found, clock = machine(), ClockSync(service="chrony", reference="UTC", bound_s=2e-5)
    hosts = {
        name: found.hosts[name].model_copy(update={"boot": name, "clock": clock})
        for name in ("east", "west")
    }
    configuration = loaded()
    scenario = make_scenario("p2c2p_bridge", configuration)
    plan = make_plan(scenario, configuration.testbed, found.model_copy(update={"hosts": hosts}))
    assert {plan.clock_bound_s, *(part.clock_bound_s for part in plan.hosts)} == {4e-5}
    for words in ("latency is one way", "4e-05 s"):
        assert words in plan.tester_text


def test_counters_of_two_sockets_are_compared_by_nobody_where_engines_are_two() -> None:
    found = machine()
    west = found.hosts["west"]
    other = tuple(cpu.model_copy(update={"node": 1}) for cpu in west.cpus)
    hosts = {
        "east": found.hosts["east"].model_copy(update={"boot": "a"}),
        "west": west.model_copy(update={"boot": "a", "cpus": other}),
    }
    configuration = loaded()
    scenario = make_scenario("p2c2p_bridge", configuration)
    plan = make_plan(scenario, configuration.testbed, found.model_copy(update={"hosts": hosts}))
    assert plan.clock_bound_s is None


def test_endpoints_leave_each_machine_the_processors_that_it_has() -> None:
    one, other = (with_nics(facts(cores=cores, nodes=1)) for cores in (8, 2))
    both = one.model_copy(update={"hosts": {"a": one, "b": other}})
    scenario = make_scenario("p2c2p_dpdk", loaded(set="workers=2"))
    scenario = scenario.model_copy(update={"sockets": True})
    with pytest.raises(CapabilityError) as refused:
        make_plan(scenario, of_machines(), both)
    assert "processor 2 is not there" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"generator": "trex"}, "both its ports in one process"),
        ({"set": ("rx_queues=2",)}, "queues of a port are not told apart"),
    ],
)
def test_a_tester_that_cannot_be_on_two_hosts_is_refused(
    settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(CapabilityError, match=says):
        plan_of("p2c2p_dpdk", **settings)


@pytest.mark.parametrize("name", ["p2c2p_bridge", "pvp_bridge"])
@pytest.mark.parametrize("test", ["reset", "recovery", "frame_loss"])
def test_counts_over_time_need_both_ports_of_the_tester_on_one_host(name: str, test: str) -> None:
    """It is refused before anything is deployed, and `--plan` shows it."""
    scenario = make_scenario(name, loaded())
    planner = Planner(loaded(), machine, lambda one: make_plan(one, loaded().testbed, machine()))
    if test == "frame_loss" or name == "pvp_bridge":
        require_generator(planner, scenario, test)
        return
    with pytest.raises(CapabilityError, match="does not count frames over time"):
        require_generator(planner, scenario, test)


@pytest.mark.parametrize("generator", ["trex", "pktgen", "xdpgen", "loadgen"])
@pytest.mark.parametrize("test", ["address_caching", "address_learning"])
@pytest.mark.parametrize("ageing_s", [0.0, 30.0])
def test_a_trial_that_comes_later_is_refused_before_the_first(
    generator: str, test: str, ageing_s: float
) -> None:
    """A switch is made to forget by its link, which only some generators outlive."""
    configuration = loaded()
    rfc2889 = configuration.preset.rfc2889.model_copy(update={"ageing_s": ageing_s})
    preset = configuration.preset.model_copy(update={"rfc2889": rfc2889})
    configuration = dataclasses.replace(configuration, preset=preset)
    scenario = make_scenario("phy2phy_bridge", configuration)
    scenario = scenario.model_copy(update={"generator": generator})
    planner = Planner(configuration, facts, lambda one: plan_of(one.id))
    able = registry.load("traffic", generator).capabilities.outlives_switch
    if able or ageing_s:
        require_generator(planner, scenario, test)
        return
    with pytest.raises(CapabilityError, match="go on while the DUT is restarted"):
        require_generator(planner, scenario, test)


def test_sessions_of_a_nat_on_another_host_are_not_tested() -> None:
    there = machine()
    hosts = {
        host: part.model_copy(update={"programs": {**part.programs, "nft": "/usr/sbin/nft"}})
        for host, part in there.hosts.items()
    }
    configuration = loaded()
    scenario = make_scenario("phy2phy_cgnat", configuration)
    facts_with_nft = there.model_copy(update={"hosts": hosts})
    assert make_plan(scenario, configuration.testbed, facts_with_nft).hosts
    with pytest.raises(CapabilityError, match="neither counted nor ended"):
        make_plan(session_scenario(scenario), configuration.testbed, facts_with_nft)


def test_with_a_third_host_the_tester_is_there() -> None:
    ring = of_three(
        ("east:a", "west:a"), ("west:b", "north:b"), ("east:c", "north:c"), east="tester"
    )
    plan = by_host(plan_of("pvp2pvp_dpdk", testbed=ring))
    assert {host: part.parts for host, part in plan.items()} == {
        **{"east": ("tester",), "north": ("dut",), "west": ("dut",)},
    }
    (wire,) = (use for use in plan["north"].cables if use.far == "east:c")
    assert (wire.port, wire.side) == (0, "dut")
    assert {str(use) for use in plan["west"].cables} == {
        *("phy3: a to east:a", "phy2: b to north:b"),
    }


def test_hosts_in_a_row_have_the_tester_beside_a_vswitch() -> None:
    row = of_three(("east:a", "west:a"), ("east:b", "west:b"), ("west:c", "north:c"))
    plan = by_host(plan_of("pvp2pvp_dpdk", testbed=row))
    assert {*plan} == {"east", "west"}


def test_the_tester_of_a_far_port_needs_to_plug_cables_in() -> None:
    with pytest.raises(CapabilityError, match="is no cable between hosts"):
        plan_of("pvp2pvp_dpdk", wire="memif")
    assert plan_of("v2p2v_dpdk", wire="memif").hosts


@pytest.mark.parametrize("kind", ["vxlan", "gre", "geneve"])
@pytest.mark.parametrize("name", ["v2p2v_bridge", "v2p2v_dpdk", "v2p2v_ovs", "pvp2pvp_dpdk"])
def test_a_tunnel_is_on_the_cables_between_vswitches_and_nowhere_else(name: str, kind: str) -> None:
    plan = plan_of(name, tunnel=kind, frame_sizes="64")
    octets = 38 if kind == "gre" else 50
    (tunnel,) = (text for text in plan.scenario.conditions if "tunnel" in text)
    assert tunnel.startswith(f"{kind} ")
    assert f"+{octets} octets" in tunnel
    assert plan.scenario.mtu == 1500  # frames of 64 octets leave room for it
    large = plan_of(name.replace("dpdk", "bridge"), tunnel=kind, frame_sizes="1518")
    assert {p.scenario.mtu for p in large.hosts} == {1500 + octets}
    for part in plan.hosts:
        cabled = {use.port for use in part.cables if use.side == "dut"}
        of_tester = {end.index for end in plan.scenario.deployment.ends if isinstance(end, PhyPort)}
        tunnelled = {p.index for p in part.scenario.deployment.tunnelled if isinstance(p, PhyPort)}
        assert tunnelled == cabled - of_tester
    assert all(not stream.tunnel for stream in plan.testers[0].for_tester.scenario.streams)


def test_without_a_tunnel_frames_are_in_none_over_hosts() -> None:
    plan = plan_of("v2p2v_bridge")
    assert (plan.scenario.tunnel, plan.scenario.encapsulation) == ("none", "")
    assert plan_of("encap_bridge").scenario.tunnel == "vxlan"


@pytest.mark.parametrize("name", ["p2c2p_bridge", "v2c2v_bridge"])
def test_endpoints_on_two_hosts_talk_through_a_tunnel(name: str) -> None:
    plan = plan_of(name, sockets=True, tunnel="vxlan")
    for part in plan.hosts:
        cables = [PhyPort(index=use.port) for use in part.cables]
        assert [*part.scenario.deployment.tunnelled] == cables
        assert part.scenario.mtu == 1550
    assert plan_of(name, sockets=True).scenario.encapsulation == ""


@pytest.mark.parametrize("cores", [2, 8])
def test_hosts_of_one_machine_share_out_its_cores(cores: int) -> None:
    plan = by_host(plan_of("v2p2v_dpdk", cores))
    east, west = plan["east"].placement, plan["west"].placement
    assert east.cores["pmd"] == west.cores["east:pmd"]
    assert east.mode == west.mode == ("dedicated" if cores == 8 else "shared")
    mine = [*east.cores["tester"], *east.cores["pmd"], *west.cores["pmd"], *west.cores["vnf0"]]
    if cores == 8:
        assert len(set(mine)) == len(mine)
    else:
        assert west.takes_turns("pmd")


def test_a_host_with_processors_of_its_own_is_placed_on_them() -> None:
    testbed = loaded().testbed
    hosts = {
        name: HostConfig.model_validate({"transport": "netns", "cores": {"allowed": cpus}})
        for name, cpus in (("east", (0, 1, 2)), ("west", (4, 5, 6)))
    }
    own = testbed.model_copy(update={"hosts": hosts})
    plan = by_host(plan_of("v2p2v_dpdk", testbed=own))
    for host, allowed in (("east", {0, 1, 2}), ("west", {4, 5, 6})):
        cores = plan[host].placement.cores
        assert {c for role, cpus in cores.items() if ":" not in role for c in cpus} <= allowed
        assert {c for role, cpus in cores.items() if ":" in role for c in cpus}.isdisjoint(allowed)


def with_cores(**cores: dict[str, Any]) -> Testbed:
    testbed = loaded().testbed
    hosts = {
        name: HostConfig.model_validate({"transport": "netns", "cores": cores.get(name)})
        for name in ("east", "west")
    }
    return testbed.model_copy(update={"hosts": hosts})


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("key", [{"tester": 2}, {"slice_us": 50}, {"policy": "dedicated"}])
def test_no_processor_is_two_hosts_own(key: dict[str, Any], both: bool) -> None:
    own = with_cores(east=key, west=key) if both else with_cores(east=key)
    if not both and "tester" not in key:
        with pytest.raises(ConfigError) as refused:
            plan_of("pvp_dpdk", testbed=own)
        assert refused.value.where == "hosts.east.cores.allowed"
        return
    plan = by_host(plan_of("pvp_dpdk", testbed=own))
    east, west = plan["east"].placement, plan["west"].placement
    assert len(east.cores["tester"]) == key.get("tester", 1)
    assert east.cores["tester"] == west.cores["east:tester"]
    mine = [*east.cores["tester"], *west.cores["pmd"], *west.cores["vnf0"]]
    assert len(set(mine)) == len(mine)


@pytest.mark.parametrize(
    ("east", "west", "where", "what"),
    [
        ({"allowed": (0, 1, 2)}, {"allowed": (2, 3, 4)}, "west.cores.allowed", "2 is host east's"),
        ({"allowed": (0, 1, 2)}, None, "west.cores.allowed", "processors of their own"),
        ({"allowed": (0, 1)}, {"allowed": (2, 3), "irqs": "off-pollers"}, "west.cores.irqs", "dif"),
    ],
)
def test_hosts_that_are_apart_only_half_are_refused(
    east: dict[str, Any], west: dict[str, Any], where: str, what: str
) -> None:
    with pytest.raises(ConfigError, match=what) as refused:
        plan_of("pvp_dpdk", testbed=with_cores(east=east, west=west))
    assert refused.value.where == f"hosts.{where}"


@pytest.mark.parametrize("apart", [True, False])
def test_the_first_host_sets_the_processors_of_all(
    apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"governor": "", "irqs": "off-pollers"}
    own = with_cores(
        east={**settings, "allowed": (0, 1, 2, 3) if apart else ()},
        west={**settings, "allowed": (4, 5, 6, 7) if apart else ()},
    )
    written: list[tuple[str, set[int]]] = []
    monkeypatch.setattr(cpu, "move_interrupts", lambda host, cpus: written.append((host, {*cpus})))
    plans = plan_of("v2p2v_dpdk", testbed=own).hosts
    for plan in plans:
        dedicate_cores(cast("Machine", SimpleNamespace(journal=plan.host)), plan)
    mine = {c for p in plans for on in p.placement.cores.values() for c in on}
    assert written == [("east", mine)]
    assert len(mine) == len(plans[0].placement.cores)
    key = f"processors {', '.join(map(str, sorted(mine)))}"
    assert [key in plan.commands for plan in plans] == [True, False]


def test_memory_of_the_next_host_is_beside_that_of_those_before_it() -> None:
    plan = by_host(plan_of("v2p2v_dpdk"))
    ((first,), (second,)) = plan["east"].memory, plan["west"].memory
    assert set(first.users) == {"loadgen", "dpdk"}
    assert set(second.users) == {"east:loadgen", "east:dpdk", "dpdk", "vnf0"}
    assert second.pages > first.pages


def test_the_machine_is_held_by_the_first_host() -> None:
    assert [part.follows for part in plan_of("v2p2v_bridge").hosts] == [False, True]


def test_the_generator_is_calibrated_on_the_testers_host() -> None:
    configuration = loaded()
    scenario = make_scenario("phy2phy_bridge", configuration)
    plan = make_loop_plan(
        scenario.model_copy(update={"wire": "veth"}), configuration.testbed, machine()
    )
    assert (plan.host, plan.wire, plan.testbed.agent.netns_host) == ("east", "veth", "east")


@pytest.mark.parametrize(("changed", "same"), [("east", False), ("west", True)])
def test_a_stored_calibration_is_of_the_testers_host(changed: str, same: bool) -> None:
    configuration = loaded()
    scenario = make_scenario("phy2phy_bridge", configuration)
    before = machine()
    plan = make_loop_plan(
        scenario.model_copy(update={"wire": "veth"}), configuration.testbed, before
    )
    other = before.hosts[changed].model_copy(update={"versions": {"loadgen": "another build"}})
    hosts = {**before.hosts, changed: other}
    # The facts beside those of the hosts are of the one with the DUT.
    after = before.model_copy(update={"hosts": hosts, "versions": hosts["west"].versions})
    store = CalibrationCache()
    assert (store.key(plan, before) == store.key(plan, after)) is same


def test_a_role_in_the_file_decides_which_host_has_the_tester() -> None:
    testbed = loaded().testbed
    west = testbed.hosts["west"].model_copy(update={"role": "tester"})
    other = testbed.model_copy(update={"hosts": {**testbed.hosts, "west": west}})
    assert by_host(plan_of("phy2phy_bridge", testbed=other))["west"].parts == ("tester",)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("v2p2v_macvtap", {"tunnel": "vxlan"}, "macvtap cannot do tunnel = vxlan"),
        ("v2p2v_testpmd", {"tunnel": "gre"}, "testpmd cannot do tunnel = gre"),
        ("v2p2v_dpdk", {"tunnel": "gre", "frame_sizes": "1518"}, "frames of up to 1518 octets"),
        ("v2v_bridge", {}, "with nothing that another host could have"),
        ("v2p2v_sriov", {}, "sriov cannot plug it in"),
        ("v2p2v_vpp", {"forwarding": "l3"}, "forwarded by port"),
        ("v2p2v_macvtap", {"vnf_mode": "io"}, "choose --vnf-mode mac"),
        ("v2p2v_bridge", {"rules": "learning"}, "forwarded by port"),
        ("phy2phy_dpdk", {"wire": "memif"}, "is no cable between hosts"),
    ],
)
def test_what_is_not_carried_over_hosts_is_refused(
    name: str, settings: dict[str, str], says: str
) -> None:
    with pytest.raises(CapabilityError, match=says):
        plan_of(name, **settings)


def of_machines(**host: Any) -> Testbed:
    """Two machines behind ssh, cabled by two NICs of each."""
    cables = [{"ends": [f"a:{TESTER0}", f"b:{DUT0}"]}, {"ends": [f"a:{TESTER1}", f"b:{DUT1}"]}]
    hosts = {"a": {"transport": "ssh=a", "role": "tester"}, "b": {"transport": "ssh=b", **host}}
    return Testbed.model_validate({"name": "lab", "hosts": hosts, "cables": cables})


def plan_of_machines(
    name: str, testbed: Testbed | None = None, change: Any = None, **settings: str
) -> Plan:
    one = with_nics(facts(nodes=2), **(change or {}))
    other = with_nics(facts(cores=4, nodes=2))
    both = one.model_copy(update={"hosts": {"a": one, "b": other, "c": other}})
    scenario = make_scenario(name, loaded(**settings))
    scenario = scenario.model_copy(update={"sockets": scenario.deployment.apart})
    return make_plan(scenario, testbed or of_machines(), both)


def test_a_tester_and_a_dut_on_machines_of_their_own_take_the_nics_of_their_cables() -> None:
    plan = plan_of_machines("phy2phy_bridge")
    a, b = plan.hosts
    assert (a.wire, b.wire) == ("nic", "nic")
    assert [(n.wire, n.side, n.pci, n.driver) for n in a.nics] == [
        (0, "tester", TESTER0, "vfio-pci"),
        (1, "tester", TESTER1, "vfio-pci"),
    ]
    assert [(n.wire, n.side, n.pci, n.kernel) for n in b.nics] == [
        (0, "dut", DUT0, True),
        (1, "dut", DUT1, True),
    ]
    assert not any(use.in_kernel for part in plan.hosts for use in part.cables)
    assert not a.refusal_is_loss  # what a NIC does not take has not left the tester
    # Each machine has a lock, memory and processors of its own, near its NICs.
    assert not a.follows
    assert not b.follows
    assert [*b.placement.cores] == [r for r in b.placement.cores if ":" not in r]
    assert {"tester"} <= {*plan.placement.cores}
    assert all(":" in user for memory in plan.memory for user in memory.users)
    # The NICs' cables lead away: what can be looped here is a wire within the machine.
    assert plan.wire == "veth"


def test_a_tester_on_two_machines_has_one_nic_of_each() -> None:
    """Each by its own address on its own machine, with memory and a processor for one port."""
    cables = [{"ends": [f"a:{TESTER0}", f"b:{DUT0}"]}, {"ends": [f"c:{TESTER0}", f"b:{DUT1}"]}]
    hosts: dict[str, Any] = {n: {"transport": f"ssh={n}", "role": "tester"} for n in ("a", "c")}
    hosts["b"] = {"transport": "ssh=b", "role": "dut"}
    testbed = Testbed.model_validate({"name": "lab", "hosts": hosts, "cables": cables})
    plan = plan_of_machines("phy2phy_bridge", testbed)
    a, b, c = plan.hosts
    assert [(part.host, part.parts, part.ends) for part in plan.testers] == [
        ("a", ("tester",), (0,)),
        ("c", ("tester",), (1,)),
    ]
    assert [[(n.wire, n.side, n.pci, n.driver) for n in part.nics] for part in (a, c)] == [
        [(0, "tester", TESTER0, "vfio-pci")],
        [(1, "tester", TESTER0, "vfio-pci")],
    ]
    assert [(n.pci, n.kernel) for n in b.nics] == [(DUT0, True), (DUT1, True)]
    for part in (a, c):
        assert {user for memory in part.memory for user in memory.users} == {"loadgen"}
        assert "tester" in part.placement.cores
    assert plan.clock_bound_s is None


def test_the_plan_of_machines_shows_each_nic_and_its_driver() -> None:
    shown = "\n".join(describe(plan_of_machines("phy2phy_bridge")))
    for words in (f"phy0: {TESTER0} to b:{DUT0}", f"{DUT0} (enp65s0) through igb, node 1"):
        assert words in shown
    (wires,) = (line for line in shown.splitlines() if line.startswith("wires "))
    assert wires.split()[1] == "nic,"
    assert wires.endswith("veth")


def test_a_link_that_both_kernels_drive_is_waited_for() -> None:
    plan = plan_of_machines("v2p2v_bridge")
    assert [use.in_kernel for part in plan.hosts for use in part.cables] == [True] * 4
    assert {n.side for part in plan.hosts for n in part.nics} == {"dut"}
    assert [(n.wire, n.pci) for n in plan.hosts[1].nics] == [(2, DUT0), (3, DUT1)]


def test_a_poll_mode_vswitch_has_memory_on_the_machine_it_is_on() -> None:
    a, b = plan_of_machines("phy2phy_dpdk").hosts
    assert {user for memory in a.memory for user in memory.users} == {"loadgen"}
    assert {user for memory in b.memory for user in memory.users} == {"dpdk"}
    assert {n.driver for n in b.nics} == {"vfio-pci"}


@pytest.mark.parametrize(
    ("name", "change", "settings", "says"),
    [
        ("phy2phy_bridge", {"tester0": {"in_use": "a route"}}, {}, "is in use: a route"),
        ("phy2phy_dpdk", {}, {"wire": "veth"}, "between machines is nic: --wire veth"),
    ],
)
def test_what_machines_do_not_carry_is_refused_with_the_cable(
    name: str, change: Any, settings: dict[str, str], says: str
) -> None:
    with pytest.raises(CapabilityError, match=says):
        plan_of_machines(name, change=change, **settings)


def test_endpoints_on_two_machines_have_a_wire_within_and_a_nic_between() -> None:
    plan = plan_of_machines("p2c2p_bridge", wire="veth")  # as endpoints plan it
    assert [part.ends for part in plan.hosts] == [(0,), (1,)]
    assert [[n.pci for n in part.nics] for part in plan.hosts] == [[TESTER0], [DUT0]]
    assert all(use.in_kernel for part in plan.hosts for use in part.cables)
    assert {*plan.placement.cores} == set()


def test_a_nic_that_a_machine_does_not_have_is_named_with_those_it_has() -> None:
    testbed = of_machines()
    wrong = CableConfig(ends=("a:0000:99:00.0", f"b:{DUT0}"))
    testbed = testbed.model_copy(update={"cables": (wrong, testbed.cables[1])})
    with pytest.raises(CapabilityError, match=f"there is no such NIC.* of a: {TESTER0}"):
        plan_of_machines("phy2phy_bridge", testbed)


def test_a_chain_beside_the_tester_has_a_wire_within_its_machine() -> None:
    plan = plan_of_machines("pvp2pvp_bridge")
    a = plan.hosts[0]
    assert {(n.wire, n.side) for n in a.nics} == {(3, "tester"), (1, "dut")}
    assert a.wire == "nic"
    with pytest.raises(CapabilityError, match="sriov cannot plug in the veth"):
        plan_of_machines("pvp2pvp_sriov", vnf_mode="mac")


def test_a_tester_at_functions_of_a_cables_nic_is_calibrated_over_a_wire_within() -> None:
    plan = plan_of_machines("v2p2v_sriov", vnf_mode="mac")
    assert plan.wire == "veth"
    assert [part.wire for part in plan.hosts] == ["nic", "nic"]
    assert [part.parts for part in plan.hosts] == [("tester", "dut"), ("dut",)]


def test_frames_in_a_tunnel_over_hosts_are_as_long_as_those_that_are_measured() -> None:
    assert plan_of("encap_dpdk", frame_sizes="64").scenario.largest_on_wire == 1518
    with pytest.raises(CapabilityError, match="frames of up to 1518 octets"):
        plan_of("encap_dpdk", frame_sizes="1518")


def test_too_few_cables_are_named() -> None:
    testbed = loaded().testbed
    one = testbed.model_copy(update={"cables": testbed.cables[:1]})
    with pytest.raises(CapabilityError, match="needs two hosts with 2 cables"):
        plan_of("pvp_bridge", testbed=one)


def test_one_host_carries_no_deployment_over_two() -> None:
    configuration = config.load({"preset": "smoke"})
    with pytest.raises(CapabilityError, match="--testbed two-hosts"):
        make_plan(make_scenario("v2p2v_bridge", configuration), configuration.testbed, facts())
    assert "v2p2v_bridge" in scenario_ids()


@pytest.mark.parametrize("name", ["p2c2p_bridge", "v2c2v_bridge"])
def test_endpoints_on_two_hosts_need_nothing_of_the_generator(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = registry.load("traffic", "pktgen")
    able = {"wires": ("memif",), "attachments": (), "headers": frozenset()}
    monkeypatch.setattr(generator, "capabilities", generator.capabilities.model_copy(update=able))
    monkeypatch.setattr(generator, "cannot_send", lambda *_: "it sends nothing")
    plan = plan_of(name, generator="pktgen", sockets=True)
    assert [part.parts for part in plan.hosts] == [("dut",), ("dut",)]
    with pytest.raises(CapabilityError):
        plan_of("v2p2v_bridge", generator="pktgen")


@pytest.mark.parametrize("name", ["p2c2p_dpdk", "p2c2p_testpmd"])
def test_endpoints_have_a_processor_that_no_poller_has(name: str) -> None:
    plan = by_host(plan_of(name, 2, sockets=True))
    for number, host in enumerate(("east", "west")):  # both pollers take turns on the first
        placed = plan[host].placement
        assert set(placed.cores.values()) == {(0,)}
        assert all(placed.takes_turns(role) for role in placed.cores)
        assert "endpoints have" in placed.reason
        assert processors_apart(plan[host], facts(2), number) == (1,)
    assert "endpoints have" not in plan_of(name, 3, sockets=True).placement.reason
    assert "endpoints have" not in plan_of("p2c2p_bridge", 1, sockets=True).placement.reason
    with pytest.raises(CapabilityError, match="and there is one alone") as refused:
        plan_of(name, 1, sockets=True)
    assert "a vSwitch in the kernel" in refused.value.cure
    narrow = with_cores(east={"allowed": (0,)}, west={"allowed": (1, 2)})
    with pytest.raises(CapabilityError, match="and there is one alone"):
        plan_of(name, testbed=narrow, sockets=True)
    narrow = with_cores(east={"allowed": (0, 1)}, west={"allowed": (2, 3)})
    own = by_host(plan_of(name, testbed=narrow, sockets=True))
    # Those are the system's.
    assert [processors_apart(own[host], facts(4), 0) for host in own] == [(0,), (2,)]


IN_GUESTS = {"vnf": "vloop:vm", "vnf_mode": "route"}


@pytest.mark.parametrize(
    ("name", "cores"), [("v2c2v_dpdk", 8), ("v2c2v_dpdk", 2), ("v2c2v_ovs", 8)]
)
def test_endpoints_in_the_places_of_vms_are_in_guests(
    name: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.load_vnf("vloop:vm"), "missing", lambda *_: "")
    plan = by_host(plan_of(name, cores, sockets=True, **IN_GUESTS))
    for number, host in enumerate(("east", "west")):
        placed, role = plan[host].placement, f"vnf{number}"
        assert {n: str(port) for n, port in plan[host].guest_ends.items()} == {number: f"{role}.0"}
        polled = {cpu for cpus in placed.cores.values() for cpu in cpus}
        assert placed.unpinned[role]
        assert not polled & {*placed.unpinned[role]}
        assert f"guest {role}" in plan[host].commands
        assert [m.users[role] for m in plan[host].memory if role in m.users] == [512]
    tester = plan_of(name, cores, **IN_GUESTS)
    assert not any(part.guest_ends for part in tester.hosts)  # a tester takes their place
    assert not any(p.guest_ends for p in plan_of("p2c2p_bridge", sockets=True, **IN_GUESTS).hosts)


def test_endpoints_that_fit_no_guest_are_refused() -> None:
    with pytest.raises(CapabilityError, match="a namespace") as refused:
        plan_of("v2c2v_dpdk", sockets=True)
    assert "--vnf vloop:vm has them in guests" in refused.value.cure
    with pytest.raises(CapabilityError, match="in a guest, which takes"):
        plan_of("v2c2v_dpdk", sockets=True, guest="rtl8139", **IN_GUESTS)
