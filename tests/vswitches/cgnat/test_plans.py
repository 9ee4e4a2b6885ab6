"""What the NAT on DPDK is planned with: wires, threads, memory, command line."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from tests.fakes.machine import cpus, facts
from vnetperf.deployment.trial import counter_difference
from vnetperf.model.deployment import PHY_PORTS, WireEnd, dut_mac, make_deployment, port_mac
from vnetperf.model.errors import CapabilityError
from vnetperf.model.nat import Nat
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import CoresConfig, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import HopCounters
from vnetperf.planning.planner import make_plan
from vnetperf.vswitches.cgnat import dpdk
from vnetperf.vswitches.cgnat.dpdk import STAGES, DpdkNat, nat_arguments
from vnetperf.vswitches.cgnat.switch import Cgnat


def scenario(
    nat: Nat | None = None, wire: str = "", traffic: TrafficProfile | None = None, **options: Any
) -> Scenario:
    return Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="cgnat",
        traffic=traffic or TrafficProfile(),
        options=SwitchOptions(**options),
        forwarding="l3",
        change=nat or Nat(),
        **({"wire": wire} if wire else {}),
    )


def planned(cpus: int = 8, **asked: Any) -> Plan:
    return make_plan(scenario(**asked), Testbed(), facts(cores=cpus))


def given(plan: Plan) -> dict[str, str]:
    pairs = (a.removeprefix("--").partition("=") for a in nat_arguments(plan))
    return {name: value for name, _, value in pairs}


def test_modes_on_dpdk_take_memif_and_the_kernels_do_not() -> None:
    assert planned(mode="rtc").wire == "memif"
    assert planned(mode="pipeline", wire="veth").wire == "veth"
    for mode in ("nft", "iptables", "xdp", ""):
        with pytest.raises(CapabilityError):
            planned(mode=mode, wire="memif")


@pytest.mark.parametrize("mode", ["rtc", "pipeline"])
def test_the_main_thread_is_where_its_memory_is(mode: str) -> None:
    """It makes buffers and tables, on its own node."""
    there = facts(16, nodes=2)
    there = there.model_copy(update={"cpus": cpus(16, nodes=2, isolated=range(8, 15))})
    bed = Testbed(cores=CoresConfig(housekeeping=(0,)))
    plan = make_plan(scenario(mode=mode), bed, there)
    assert plan.placement.node == 1
    line = plan.commands["cgnat"]
    main = re.search(r"--main-lcore=(\d+)", line)
    assert main is not None
    assert there.cpus[int(main[1])].node == 1
    assert int(main[1]) not in plan.placement.pollers
    of_stages = re.search(r"--lcores-of-stages=(\S+)", line)
    assert of_stages is not None
    assert {*map(int, of_stages[1].split(","))} < {*plan.placement.pollers}


def test_run_to_completion_is_one_thread() -> None:
    plan = planned(mode="rtc")
    assert set(plan.placement.cores) == {"pmd", "tester"}
    assert given(plan)["stages"] == "rx+val+nat+ct+tx"


def test_each_group_of_stages_is_a_role_with_a_core_of_its_own() -> None:
    plan = planned(mode="pipeline")
    roles = ("rx+val", "nat", "ct+tx")
    assert set(roles) < set(plan.placement.cores)
    cpus = [plan.placement.cores[role] for role in roles]
    assert len({cpu for of in cpus for cpu in of}) == 3
    words = given(plan)
    assert words["stages"] == "rx+val/nat/ct+tx"
    assert words["lcores-of-stages"] == ",".join(str(cpu) for (cpu,) in cpus)


def test_stages_are_the_users_to_group() -> None:
    plan = planned(mode="pipeline", stages="rx/val+nat+ct/tx")
    assert [d.role for d in DpdkNat.roles(plan.scenario)] == ["rx", "val+nat+ct", "tx"]
    with pytest.raises(ValidationError, match="in this order"):
        planned(mode="pipeline", stages="rx+nat+val+ct+tx")
    with pytest.raises(CapabilityError, match="stages are those of a pipeline"):
        planned(mode="rtc", stages="rx/val+nat+ct+tx")
    with pytest.raises(CapabilityError, match="the mode has no option stages"):
        planned(mode="nft", stages="rx/val+nat+ct+tx")


def test_the_engine_has_the_subscribers_of_the_scenario() -> None:
    nat = Nat(subscribers=4096, ports=10, block=63)
    plan = planned(nat=nat, mode="rtc", blocks="dynamic", filtering="address-and-port")
    words = given(plan)
    assert words["inside"] == "100.64.0.1"
    assert (words["pool"], words["addresses"], words["block"]) == ("198.18.0.0", "4", "63")
    assert int(words["sessions"]) >= nat.sessions
    assert (words["blocks"], words["filtering"]) == ("dynamic", "address-and-port")
    assert words["own"] == ",".join(dut_mac(port) for port in PHY_PORTS)
    graph = plan.scenario.deployment
    assert words["next-hop"] == ",".join(port_mac(graph, port, 0) for port in PHY_PORTS)


def test_a_machine_without_compiler_is_refused_with_the_cure() -> None:
    bare = facts(programs={k: v for k, v in facts().programs.items() if k != "gcc"})
    assert "gcc" in DpdkNat.missing(bare, scenario(mode="rtc"))


def test_options_that_would_do_nothing_are_refused() -> None:
    for option in ("rx_descriptors", "tx_descriptors"):
        with pytest.raises(CapabilityError, match=option):
            planned(mode="rtc", **{option: 512})
    for mode in ("rtc", "pipeline"):
        with pytest.raises(CapabilityError, match="napi in mode nft, iptables, xdp"):
            planned(mode=mode, wire="veth", napi="threaded")


def test_a_record_is_refused_where_blocks_are_computed() -> None:
    assert given(planned(mode="rtc", blocks="dynamic", block_log="ipfix"))["log-form"] == "ipfix"
    for option, value in (("block_log", "ipfix"), ("max_blocks", 2), ("block_hold", 0)):
        with pytest.raises(CapabilityError, match=f"computed blocks have no {option}"):
            planned(mode="rtc", **{option: value})


def test_strict_tcp_is_refused_for_segments_that_open_no_connection() -> None:
    tcp = TrafficProfile(headers=("ethernet", "ipv4", "tcp"))
    assert planned(mode="rtc", traffic=tcp).scenario.traffic == tcp
    assert planned(mode="rtc", tcp="strict")
    with pytest.raises(CapabilityError, match=r"tcp=strict refuses .*without --traffic tcp"):
        planned(mode="rtc", tcp="strict", traffic=tcp)


class Told:
    """Telemetry of an engine that says what is asked of it."""

    def __init__(self, down: int = 0) -> None:
        self.down, self.asked = down, list[str]()

    def ask(self, command: str) -> dict[str, int]:
        self.asked.append(command)
        if command.startswith("/cgnat/drops,"):
            return {"no_mapping": 3, "fragment": 0, "transmit_ring_full": 2}
        return {"rx": 10, "tx": 5} if "port" in command else {}

    def close(self) -> None: ...

    def link_up(self, _: int) -> bool:
        self.asked.append("link")
        self.down -= 1
        return self.down < 0

    def counters(self, _: int, port: str) -> HopCounters:
        return HopCounters(port=port, rx_dropped=1)


def running(told: Told) -> DpdkNat:
    process = SimpleNamespace(stop=lambda **_: 0, wait_for=lambda *_, **__: None)
    machine = SimpleNamespace(subdir=Path, spawn=lambda *_, **__: process, facts=facts(6))
    switch = DpdkNat(cast("Any", machine), planned(mode="rtc"))
    switch.telemetry = cast("Any", told)
    switch.process = cast("Any", process)
    cast("Any", switch).check_alive = lambda: None
    return switch


def test_a_trial_has_its_own_drops_by_cause() -> None:
    before, _ = running(Told()).counters()
    assert before.causes == {"no mapping": 3}
    assert (before.rx_dropped, before.tx_dropped) == (4, 2)
    more = before.model_copy(update={"causes": {"no mapping": 8, "filtered": 1}, "rx_dropped": 10})
    found, none = counter_difference(before, more), counter_difference(before, before)
    assert found is not None
    assert none is not None
    assert found.causes == {"no mapping": 5, "filtered": 1}
    assert none.causes == {}


def test_turns_without_packets_are_empty_polls() -> None:
    class Works(Told):
        def ask(self, command: str) -> dict[str, int]:
            assert command == "/cgnat/worker,worker=0"
            stages = {f"{s}_{what}": 7 for s in STAGES for what in ("packets", "cycles")}
            return {"turns": 1000, "empty": 900, "busy": 30, "idle": 70, **stages}

    (work,) = running(Works()).datapath_work()
    assert (work.polls, work.empty_polls) == (1000, 900)
    assert (work.busy_cycles, work.idle_cycles, work.packets) == (30, 70, 7)
    assert {node.calls for node in work.nodes.values()} == {100}


def test_frames_are_forwarded_when_the_peers_are_there_also_after_a_port_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(down=3)
    switch = running(told)
    end = WireEnd(kind="memif", wire=0, side="dut", role="server", socket=str(tmp_path / "w0"))
    switch.ends = dict.fromkeys(PHY_PORTS, end)
    monkeypatch.setattr(dpdk, "ENGINE", SimpleNamespace(executable=lambda _: "cgnat"))
    switch.remove_port(PHY_PORTS[1])
    assert told.asked[-2:] == ["link", "/cgnat/forward"]
    assert told.asked.count("link") == 4
    assert "--vdev=net_null1,no-rx=1" in switch.argv


def test_a_host_without_dpdks_headers_is_refused_by_its_own_inventory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pkg-config").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "pkg-config").chmod(0o755)
    with monkeypatch.context() as there:  # on that host
        there.setenv("PATH", str(tmp_path), prepend=":")
        seen = Cgnat.look(Testbed())
    assert "libdpdk-dev" in seen
    host = facts().model_copy(update={"seen": {"cgnat": seen}})
    monkeypatch.setenv("PATH", str(tmp_path))  # where it is planned, nothing is looked for
    assert Cgnat.missing(host, scenario(mode="rtc")) == seen
    assert Cgnat.missing(facts(), scenario(mode="rtc")) == ""


def test_a_table_is_as_large_as_requested() -> None:
    assert given(planned(mode="rtc", max_sessions=1000))["sessions"] == "1000"


def test_memory_grows_with_sessions() -> None:
    few = DpdkNat.hugepage_mib(scenario(mode="rtc"))
    many = DpdkNat.hugepage_mib(scenario(nat=Nat(subscribers=16384), mode="rtc"))
    # 40 octets of a mapping and of a session each, two tables at half load, 16 addresses.
    assert 100 < many - few < 260
