"""Differences of two runs' environments: named, and only those that mean something."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vnetperf.analysis.environment import (
    ABSENT,
    VOLATILE,
    FactDifference,
    comparability,
    environment_differences,
    scenario_differences,
    tree_differences,
    volatility_reason,
)
from vnetperf.model.calibration import Calibration, CalibrationPoint
from vnetperf.model.deployment import make_deployment
from vnetperf.model.nat import Nat
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.result import RunIdentity, RunResults, ScenarioFacts
from vnetperf.model.scenario import Scenario

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
TREES = st.recursive(
    LEAVES, lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text("ab", max_size=2), t)
)


def run(environment: dict[str, Any] | None = None, **changed: Any) -> RunResults:
    identity = RunIdentity(tool="vnetperf 1", git="abc", command="pytest", started="now")
    values: dict[str, Any] = {"run": identity, "preset": "quick"}
    return RunResults(**{**values, "environment": environment or {}, **changed})


@given(TREES)
def test_a_tree_does_not_differ_from_itself(tree: Any) -> None:
    assert tree_differences(tree, json.loads(json.dumps(tree))) == ()


@given(TREES, TREES)
def test_trees_that_differ_are_told_apart_both_ways(a: Any, b: Any) -> None:
    there, back = tree_differences(a, b), tree_differences(b, a)
    assert {(d.path, repr(d.a), repr(d.b)) for d in there} == {
        (d.path, repr(d.b), repr(d.a)) for d in back
    }


def test_the_kernel_is_named_and_free_memory_is_not() -> None:
    then = {"kernel": {"release": "6.1"}, "memory": {"available_kb": 1}, "collected": "a"}
    now = {"kernel": {"release": "6.12"}, "memory": {"available_kb": 2}, "collected": "b"}
    assert environment_differences(run(then), run(now)) == (
        FactDifference("environment.kernel.release", "6.1", "6.12"),
    )


def test_one_nic_more_is_one_difference() -> None:
    def nics(*addresses: str) -> dict[str, Any]:
        return {"nics": [{"pci": a, "driver": "igb"} for a in addresses]}

    [found] = environment_differences(run(nics("b", "c")), run(nics("a", "b", "c")))
    assert (found.path, found.a) == ("environment.nics[a]", ABSENT)


def test_hugepages_are_told_apart_by_node_and_size() -> None:
    def pools(free: int, total: int) -> dict[str, Any]:
        pool = {"node": 1, "size_kb": 2048, "total": total, "free": free}
        return {"memory": {"hugepages": [pool]}}

    [found] = environment_differences(run(pools(0, 8)), run(pools(4, 16)))
    total = "environment.memory.hugepages[1 2048].total"
    assert found == FactDifference(total, 8, 16)


def of_hosts(east: str, west: str, **more: Any) -> RunResults:
    """A run with the tester on one host and the DUT on another, by their serial numbers."""

    def machine(serial: str) -> dict[str, Any]:
        return {"hostname": "lab", "firmware": {"serial": serial}, "uptime_s": len(serial)}

    environment = {**machine(west), "host": "west", "other hosts": {"east": machine(east)}, **more}
    plan = {"hosts": [{"host": "east", "parts": ["tester"]}, {"host": "west", "parts": ["dut"]}]}
    return run(environment, scenarios=[ScenarioFacts(scenario="pvp_dpdk", plan=plan)])


def test_results_are_of_one_machine_only_where_all_hosts_are() -> None:
    def machine(results: RunResults) -> str:
        return comparability(results, "pvp_dpdk")["machine"]

    same = of_hosts("A", "B")
    assert machine(same) == machine(of_hosts("A", "B")) == "tester on A; dut on B"
    assert machine(of_hosts("C", "B")) != machine(same)
    assert machine(of_hosts("B", "A")) != machine(same)
    assert machine(run({"firmware": {"serial": "B"}})) == "B" != machine(same)


def test_rates_of_other_numbers_of_sessions_are_not_compared() -> None:
    def sessions(nat: Nat | None) -> str | None:
        scenario = Scenario(
            deployment=make_deployment("phy2phy"),
            vswitch="cgnat",
            traffic=TrafficProfile(),
            change=nat,
        )
        plan = {"scenario": scenario.model_dump(mode="json")}
        results = run({}, scenarios=[ScenarioFacts(scenario="phy2phy_cgnat", plan=plan)])
        return comparability(results, "phy2phy_cgnat").get("sessions of the NAT")

    assert sessions(None) is None  # of a vSwitch that is no NAT
    few, many = sessions(Nat(subscribers=16)), sessions(Nat(subscribers=1024))
    assert few is not None
    assert "subscribers = 16" in few
    assert few != many == sessions(Nat())


def test_what_is_volatile_is_so_on_every_host() -> None:
    clocks = {"clocks at the end": {"east": {"offset_s": 1.0, "bound_s": 0.1}}}
    found = environment_differences(of_hosts("A", "B"), of_hosts("AAA", "B", **clocks))
    path = "environment.other hosts.east.firmware.serial"
    assert [difference.path for difference in found] == [path]


def test_what_is_volatile_is_so_on_every_testbed() -> None:
    def both(serial: str, offset_s: float) -> RunResults:
        clock = {"clock at the end": {"offset_s": offset_s, "bound_s": 0.1}}
        labs = {name: {**of_hosts(serial, "B").environment, **clock} for name in ("lab.1", "lab2")}
        return run(labs, testbeds=tuple(labs))

    found = environment_differences(both("A", 1.0), both("AAA", 2.0))
    assert [one.path for one in found] == [
        "environment.lab.1.other hosts.east.firmware.serial",
        "environment.lab2.other hosts.east.firmware.serial",
    ]


def test_another_build_of_the_tester_begins_a_new_series() -> None:
    def build(digest: str, *, sockets: bool = False) -> str | None:
        scenario = Scenario(
            deployment=make_deployment("pvp"),
            vswitch="dpdk",
            traffic=TrafficProfile(),
            sockets=sockets,
        )
        plan = {"scenario": scenario.model_dump(mode="json")}
        built = {"runs as root": {"built here with versions": {"loadgen": digest}}}
        results = run(built, scenarios=[ScenarioFacts(scenario="pvp_dpdk", plan=plan)])
        return comparability(results, "pvp_dpdk").get("tester's build")

    assert build("DPDK 22.11, abc") != build("DPDK 22.11, def")
    assert build("DPDK 22.11, abc", sockets=True) is None
    hosts = of_hosts("A", "B")
    east = {"runs as root": {"built here with versions": {"loadgen": "abc"}}}
    plan = {**hosts.scenarios[0].plan, "scenario": {"generator": "loadgen"}}
    both = hosts.environment | {"other hosts": {"east": east}}
    told = run(both, scenarios=[hosts.scenarios[0].model_copy(update={"plan": plan})])
    assert comparability(told, "pvp_dpdk")["tester's build"] == "abc"


def test_a_faster_tester_is_named_and_one_whose_values_scatter_is_not() -> None:
    def calibrated(*values: float) -> RunResults:
        point = CalibrationPoint(
            frame_size=64,
            max_clean_fps=sorted(values)[1],
            max_clean_values=values,
            latency_ns=1,
            latency_min_ns=1,
            pacing_error=0,
            max_burst=1,
        )
        one = Calibration(generator="g", wire="memif", cores=(1,), when="", points=(point,))
        return run(calibrations=[one])

    slow, fast = calibrated(7.5e6, 7.6e6, 7.7e6), calibrated(9.5e6, 9.6e6, 9.7e6)
    assert environment_differences(slow, fast) == (
        FactDifference("calibrations.memif.64 octets.max_clean_fps", 7.6e6, 9.6e6),
    )
    assert environment_differences(slow, calibrated(7.4e6, 7.7e6, 7.8e6)) == ()
    assert environment_differences(slow, calibrated(2.4e6, 9.6e6, 9.7e6)) == ()


def test_settings_count_and_where_results_go_does_not() -> None:
    def settings(rules: str, folder: str) -> dict[str, dict[str, Any]]:
        return {"rules": {"value": rules, "source": folder}, "results_dir": {"value": folder}}

    [found] = environment_differences(
        run(settings=settings("port", "/a")), run(settings=settings("stream", "/b"))
    )
    assert found == FactDifference("settings.rules", "port", "stream")


def deployed(number: str, version: str = "3.1") -> ScenarioFacts:
    line = f"ovs unix:/run/vnetperf/20261122-05512{number[0]}-{number}/ovs/db.sock"
    vswitch = {"version": version, "launch line": line, "ports": [{"name": f"vp{number}v0a"}]}
    return ScenarioFacts(scenario="pvp_ovs", facts={"vswitch": vswitch})


def test_the_number_of_a_run_in_paths_and_links_is_no_difference() -> None:
    assert scenario_differences(deployed("0280"), deployed("1731")) == ()
    bridges = [
        ScenarioFacts(scenario="x", facts={"vswitch": {f"vp{n}br0": mac, "group": group}})
        for n, mac, group in (
            ("0e64", "52:47:74:b0:32:21", "/autogroup-19961 nice -10"),
            ("1f7a", "3a:bd:3e:c4:55:75", "/autogroup-77 nice -10"),
        )
    ]
    assert scenario_differences(*bridges) == ()
    [found] = environment_differences(
        run(scenarios=(deployed("0280"),)), run(scenarios=(deployed("1731", "3.3"),))
    )
    version = "scenarios.pvp_ovs.facts.vswitch.version"
    assert found == FactDifference(version, "3.1", "3.3")


def test_a_scenario_that_only_one_run_has_is_no_difference_of_environments() -> None:
    assert environment_differences(run(scenarios=(deployed("0280"),)), run()) == ()


def test_every_volatile_field_has_its_reason_and_the_rest_none() -> None:
    assert all(len(why.split()) > 2 for why in VOLATILE.values())
    pool = "environment.memory.hugepages[0 2048]"
    assert volatility_reason(f"{pool}.free")
    assert not volatility_reason(f"{pool}.total")
    assert not volatility_reason("environment.kernel.cmdline")
    no_fact = "scenarios.pvp_dpdk.facts.vnfs[0].turns until then"
    assert not volatility_reason(no_fact)


def test_what_only_a_newer_tool_recorded_is_no_difference_of_machines() -> None:
    nic = {"pci": "a", "driver": "igb"}
    old = {"cpu": {"model": "x"}, "nics": [nic], "kernel": {"boot_options": {"idle": "not given"}}}
    new = {
        "cpu": {"model": "x", "energy": "power"},
        "interrupts": {"affinity": {}},
        "nics": [nic | {"slot": "3"}],
        "kernel": {"boot_options": {"idle": "not given", "nosmt": "yes"}},
    }
    found = environment_differences(run(old), run(new))
    assert [(d.path, d.a, d.b) for d in found] == [
        ("environment.kernel.boot_options.nosmt", ABSENT, "yes")
    ]


def test_unknown_for_another_reason_is_no_difference_and_unknown_now_is_one() -> None:
    one, other = ({"cpu": {"turbo": f"unknown: {why}"}} for why in ("no file", "no driver"))
    assert environment_differences(run(one), run(other)) == ()
    assert len(environment_differences(run(one), run({"cpu": {"turbo": "on"}}))) == 1
