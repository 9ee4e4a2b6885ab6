"""Users' traffic: what keeps it away is noted, and what it ends is not measured again."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.fakes.agent import machine_with_others
from tests.fakes.machine import facts as machine
from tests.texts import Texts
from vnetperf import config
from vnetperf.analysis.results_from_log import merge_transfers
from vnetperf.analysis.transport import CpuPerGigabit, cpu_per_gigabit
from vnetperf.model.errors import CapabilityError, ConfigError, DutError, NoResultError
from vnetperf.model.scenario import Plan, Scenario, Variant
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import EndFacts, Kind, Transfer, Transfers, TransferSpec
from vnetperf.model.trial import TrialResult
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.endpoint_tool import choose_tool
from vnetperf.runner import transfers
from vnetperf.runner.bench import Bench
from vnetperf.runner.resume import ResumedRun
from vnetperf.runner.scenarios import make_scenario


def scenario(scenario_id: str = "vepc_bridge", **settings: str) -> Scenario:
    return make_scenario(scenario_id, config.load(settings, environment={}))


def run_of(scenario: Scenario, wire: str = "veth") -> MagicMock:
    run = MagicMock()
    run.resumed = ResumedRun(Path())
    run.configuration = config.load({}, environment={})
    run.spent = {}
    run.plan.return_value = Plan.model_construct(scenario=scenario, wire=wire)
    programs = {"iperf3": "/usr/bin/iperf3", "sgsnemu": "/usr/bin/sgsnemu"}
    run.facts.return_value = MachineFacts.model_construct(programs=programs, program_troubles={})
    spec = TransferSpec(kind="TCP_STREAM", duration_s=1)
    run.client.call.return_value = [Transfer(spec=spec, bits_per_second=1e6).model_dump()]
    return run


@pytest.mark.parametrize(("vnf", "ends"), [("vepc", False), ("vepc:vm", True)])
def test_a_core_whose_sessions_end_is_deployed_again(vnf: str, ends: bool) -> None:
    wanted = scenario(vnf=vnf)
    run = run_of(wanted)
    assert transfers.measure_users_traffic(run, run, wanted).transfers[0].bits_per_second == 1e6
    assert run.forget_deployment.called == ends
    run.log.append.assert_called_once()


def test_a_transfer_begins_once_others_are_gone() -> None:
    wanted = scenario()
    run = run_of(wanted)
    run.spend = lambda what, seconds: run.spent.update({what: seconds})
    looks = [TrialResult(directions=(), **machine_with_others(taken)) for taken in (0.4, 0.0)]
    run.client.watch.side_effect = looks
    run.client.call.side_effect = lambda *_, **__: (
        [(Transfer(spec=TransferSpec(kind="TCP_STREAM", duration_s=1)).model_dump())]
        * (run.client.watch.call_count == 2)
    )
    assert len(transfers.measure_users_traffic(run, run, wanted).transfers) == 1
    assert "calm" in run.spent


def test_what_failed_is_deployed_again_and_told_in_the_log() -> None:
    wanted = scenario()
    run = run_of(wanted)
    run.client.call.side_effect = DutError("gone")
    with pytest.raises(DutError):
        transfers.measure_users_traffic(run, run, wanted)
    run.forget_deployment.assert_called_once()
    told = [call.args[0] for call in run.log.append.call_args_list]
    assert [record.test for record in told] == [
        *("TCP_STREAM forth", "TCP_STREAM back", "UDP_STREAM forth", "UDP_STREAM back")
    ]
    assert {(record.scenario, record.why) for record in told} == {(wanted.id, "gone")}


def test_a_deployment_that_fails_is_told_in_the_log_of_each_transfer() -> None:
    wanted = scenario()
    run = run_of(wanted)
    run.deploy.side_effect = DutError("no way through")
    with pytest.raises(DutError):
        transfers.measure_users_traffic(run, run, wanted)
    told = [call.args[0] for call in run.log.append.call_args_list]
    assert [(record.why, record.kind) for record in told] == [("no way through", "failed")] * 4


def test_what_was_measured_before_the_run_was_interrupted_is_not_measured_again() -> None:
    wanted = scenario()
    run = run_of(wanted)
    specs = transfers.users_specs(run)
    rates = [spec.model_copy(update={"rate_bps": 1e6}) for spec in specs]  # what TCP gave
    done = tuple(Transfer(spec=spec, bits_per_second=2e6) for spec in rates)
    held = Transfers(scenario=wanted.id, transfers=done)
    # Programs in its VNF are deployed otherwise, under the same name.
    inside = wanted.model_copy(update={"vnf_mode": "route"})
    resumed = ResumedRun(Path(), moved={1: (held,)}, scenarios={wanted.id: [wanted, inside]})
    run.resumed = resumed
    assert transfers.measure_users_traffic(run, run, wanted) == held
    run.deploy.assert_not_called()
    run.log.append.assert_not_called()
    run.resumed = resumed.select_round(2)  # another deployment measures them itself
    assert transfers.measure_users_traffic(run, run, wanted) != held
    run.resumed = resumed
    with pytest.raises(ConfigError, match="other settings"):
        transfers.measure_users_traffic(run, run, wanted.model_copy(update={"vnf_mode": "macswap"}))


def test_what_keeps_users_away_is_noted() -> None:
    wanted = scenario()
    run = run_of(wanted)
    assert transfers.find_users_problem(run, wanted) == ""
    run.note_skipped.assert_not_called()
    run = run_of(wanted, "memif")
    assert "--wire veth" in transfers.find_users_problem(run, wanted)
    ((where, why), _) = run.note_skipped.call_args
    assert where == "vepc_bridge, traffic of users"
    assert "memif" in why
    run.deploy.assert_not_called()


def test_a_tool_that_is_not_here_keeps_users_away() -> None:
    wanted = scenario()
    run = run_of(wanted)
    run.facts().programs.pop("iperf3")
    assert "install the package iperf3" in transfers.find_users_problem(run, wanted)


def test_endpoints_are_deployed_on_wires_of_the_kernel_under_a_name_of_their_own() -> None:
    plain = scenario("phy2phy_dpdk")
    deployed = transfers.endpoint_scenario(config.load({}, environment={}), plain)
    assert (deployed.id, deployed.wire) == ("phy2phy_dpdk,endpoints", "veth")
    asked = plain.model_copy(update={"wire": "nic"})
    assert transfers.endpoint_scenario(config.load({}, environment={}), asked).wire == "nic"


def test_a_vnf_with_an_endpoint_in_it_routes_and_has_tools(texts: Texts) -> None:
    plain = scenario("pvp_bridge", vnf="vloop:vm")
    run = run_of(plain)
    run.configuration = config.load({"vnf": "vloop:vm", "endpoint_server": "vnf"}, environment={})
    deployed = transfers.endpoint_scenario(run.configuration, plain)
    assert (deployed.vnf_mode, deployed.addressing, deployed.guest.image) == (
        *("route", "port"),
        "endpoint",
    )
    assert transfers.find_endpoint_traffic_problem(run, plain, "TCP_STREAM", 64) == ""
    io = deployed.model_copy(update={"vnf_mode": "io"})
    run.configuration = config.load(
        {"vnf": "vloop:vm", "vnf_mode": "io", "endpoint_server": "vnf"}, environment={}
    )
    texts.check(transfers.find_endpoint_traffic_problem(run, io, "TCP_STREAM", 64), "mode io")
    assert run.note_skipped.called
    alone = scenario("phy2phy_bridge")
    texts.check(transfers.find_endpoint_traffic_problem(run, alone, "TCP_STREAM", 64), "no VNF")


def test_a_vnf_that_refuses_programs_by_an_error_is_a_noted_skip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(facts: MachineFacts, scenario: Scenario) -> str:
        raise CapabilityError("it has no kernel", where="vloop", cure="choose another")

    plain = scenario("pvp_bridge", vnf="vloop:container")
    monkeypatch.setattr(transfers.registry.load_vnf(plain.vnf), "no_inside", refuse)
    run = run_of(plain)
    run.configuration = config.load({"endpoint_server": "vnf"}, environment={})
    for kind, why in (
        ("TCP_STREAM", transfers.find_endpoint_traffic_problem(run, plain, "TCP_STREAM", 64)),
        ("GUEST_CPU", transfers.find_workload_problem(run, plain, "GUEST_CPU", None)),
    ):
        assert "it has no kernel" in why
        assert "\n" not in why
        run.note_skipped.assert_any_call("pvp_bridge,endpoints", f"{kind}: {why}")
    run.deploy.assert_not_called()


@pytest.mark.parametrize("name", ["v2c2v_dpdk", "v2c2v_bridge"])
def test_endpoints_of_two_hosts_are_in_guests_with_the_tools(name: str) -> None:
    asked = config.load({"vnf": "vloop:vm"}, environment={})
    deployed = transfers.endpoint_scenario(asked, scenario(name, vnf="vloop:vm"))
    assert (deployed.sockets, deployed.vnf_mode, deployed.guest.image) == (
        True,
        "route",
        "endpoint",
    )
    at_wires = transfers.endpoint_scenario(asked, scenario("p2c2p_dpdk", vnf="vloop:vm"))
    assert (at_wires.sockets, at_wires.vnf_mode) == (True, "io")
    # netperf is here, and no guest image has it.
    run = run_of(deployed)
    programs = {"netperf": "/x", "netserver": "/x", "sockperf": "/x"}
    facts = MachineFacts.model_construct(programs=programs, program_troubles={})
    run.facts.return_value = facts
    run.configuration = asked
    assert transfers.endpoint_spec(run, deployed, "TCP_RR", 64).tool == "sockperf"
    assert transfers.endpoint_spec(run, at_wires, "TCP_RR", 64).tool == "netperf"
    # No program runs on a machine whose guests have both ends.
    run.facts.return_value = MachineFacts.model_construct(programs={}, program_troubles={})
    assert transfers.endpoint_spec(run, deployed, "TCP_RR", 64).tool == "sockperf"
    with pytest.raises(CapabilityError, match="install the package netperf"):
        transfers.endpoint_spec(run, at_wires, "TCP_RR", 64)
    of_guests = TransferSpec(kind="GUEST_CPU", duration_s=1)
    with pytest.raises(CapabilityError, match="install the package sysbench"):
        choose_tool(of_guests, "auto", run.facts(), deployed)


def test_endpoints_take_no_tester_that_is_on_two_hosts(texts: Texts) -> None:
    plain = scenario("phy2phy_bridge")
    run = run_of(plain)
    parts = [
        Plan.model_construct(host=host, parts=("tester",), ends=(number,))
        for number, host in enumerate(("east", "north"))
    ]
    run.plan.return_value = Plan.model_construct(scenario=plain, hosts=tuple(parts))
    why = transfers.find_endpoint_traffic_problem(run, plain, "TCP_STREAM", 64)
    texts.check(why)


@pytest.mark.parametrize(
    ("kind", "wanted", "here", "chosen"),
    [
        ("TCP_STREAM", "auto", ("iperf3", "netperf", "netserver", "sockperf"), "iperf3"),
        ("TCP_RR", "auto", ("iperf3", "netperf", "netserver", "sockperf"), "netperf"),
        ("TCP_RR", "auto", ("iperf3", "sockperf"), "sockperf"),
        ("UDP_STREAM", "sockperf", ("iperf3", "sockperf"), "sockperf"),
    ],
)
def test_a_tool_is_the_first_that_is_here_and_can(
    kind: Kind, wanted: str, here: tuple[str, ...], chosen: str
) -> None:
    facts = MachineFacts.model_construct(programs=dict.fromkeys(here, "/x"), program_troubles={})
    assert choose_tool(TransferSpec(kind=kind, duration_s=1), wanted, facts) == chosen


def test_a_tool_is_one_that_a_guest_has_too() -> None:
    every = ("iperf3", "netperf", "netserver", "sockperf")
    facts = MachineFacts.model_construct(programs=dict.fromkeys(every, "/x"), program_troubles={})
    asked = TransferSpec(kind="TCP_RR", duration_s=1)
    guest = scenario("pvp_bridge", vnf="vloop:vm")

    def chosen(image: str, wanted: str = "auto") -> str:
        options = guest.guest.model_copy(update={"image": image})
        deployed = guest.model_copy(update={"guest": options})
        return choose_tool(asked, wanted, facts, deployed)

    assert chosen(transfers.IMAGE) == "sockperf"
    assert chosen("/disks/own.qcow2") == "netperf"
    with pytest.raises(CapabilityError, match="image endpoint has no netperf"):
        chosen(transfers.IMAGE, "netperf")
    with pytest.raises(CapabilityError, match="image vloop has no sockperf"):
        chosen("vloop")
    container = scenario("pvp_bridge", vnf="vloop:container")
    assert choose_tool(asked, "auto", facts, container) == "netperf"


def test_where_no_tool_can_each_says_why() -> None:
    facts = MachineFacts.model_construct(programs={"iperf3": "/x"}, program_troubles={})
    with pytest.raises(CapabilityError) as caught:
        choose_tool(TransferSpec(kind="TCP_RR", duration_s=1), "auto", facts)
    for why in ("iperf3 cannot do TCP_RR", "package netperf", "package sockperf"):
        assert why in str(caught.value)


def test_a_case_asks_for_what_settings_say_without_a_calibration() -> None:
    plain = scenario("phy2phy_bridge")
    run = run_of(plain)
    run.configuration = config.load({"instances": 4, "preset": "quick"}, environment={})
    planner = transfers.Planner(run.configuration, run.facts, run.plan)
    transfers.measure_endpoints(run, planner, plain, "UDP_STREAM", 512, way="both")
    (spec,) = run.client.call.call_args.kwargs["specs"]
    assert (spec["instances"], spec["message_size"], spec["way"]) == (4, 512, "both")
    assert (spec["rate_bps"], spec["rate_of_tcp"]) == (0, False)
    assert run.client.call.call_args.kwargs["server"] == "far"
    assert run.deploy.call_args.kwargs == {"calibrated": False}


def test_a_variant_has_instances_and_a_server_of_its_own() -> None:
    plain = scenario("phy2phy_bridge")
    for instances in (2, 8):
        run = run_of(plain)
        run.configuration = config.load({"instances": 4, "preset": "quick"}, environment={})
        bench = Bench(run, plain, Variant(settings=(("instances", instances),)))
        bench.between_endpoints("TCP_STREAM", 512)
        (spec,) = run.client.call.call_args.kwargs["specs"]
        assert spec["instances"] == instances
    run = run_of(plain)
    bench = Bench(run, plain, Variant(settings=(("endpoint_server", "vnf"),)))
    with pytest.raises(NoResultError, match="has no VNF to be in"):
        bench.between_endpoints("TCP_STREAM", 512)


def test_a_variants_settings_are_those_of_users_and_of_a_case_with_other_traffic() -> None:
    wanted = scenario()
    run = run_of(wanted)
    run.configuration = config.load({"preset": "quick"}, environment={})
    bench = Bench(run, wanted, Variant(id="x", settings=(("preset", "smoke"),)))
    with pytest.raises(ConfigError, match="preset belongs"):  # it is laid over
        bench.users_traffic()
    bench = Bench(
        run, scenario("phy2phy_bridge", rules="learning"), Variant(settings=(("instances", 3),))
    )
    with pytest.raises(NoResultError, match="instances = 3 changes nothing"):
        bench.with_addresses().measure("address_caching", 64)


def test_a_variant_has_a_program_of_mpi_of_its_own() -> None:
    plain = scenario("bmp2bmp_bridge")
    run = run_of(plain)
    run.facts().programs.update(dict.fromkeys(("mpirun", "mpicc", "hpcc", "osu_latency"), "/x"))
    run.configuration = config.load({"mpi_program": "hpcc"}, environment={})
    bench = Bench(run, plain, Variant(settings=(("mpi_program", "osu"),)))
    bench.run_workload("MPI_LATENCY", 64)
    run.note_skipped.assert_not_called()
    (spec,) = run.client.call.call_args.kwargs["specs"]
    assert spec["tool"] == "osu"
    with pytest.raises(NoResultError, match="hpcc cannot do MPI_LATENCY"):
        Bench(run, plain).run_workload("MPI_LATENCY", 64)


def test_a_variant_has_threads_and_a_tool_in_vnfs_of_its_own() -> None:
    plain = scenario("pvp_bridge", vnf="vloop:container")
    run = run_of(plain)
    run.facts().programs["sysbench"] = "/usr/bin/sysbench"
    run.configuration = config.load({"instances": 4}, environment={})
    bench = Bench(run, plain, Variant(settings=(("instances", 2),)))
    bench.run_workload("GUEST_CPU")
    run.note_skipped.assert_not_called()
    (spec,) = run.client.call.call_args.kwargs["specs"]
    assert (spec["tool"], spec["instances"]) == ("sysbench", 2)
    # How many threads there are keeps nothing from being measured; which tool does.
    bench = Bench(run, plain, Variant(settings=(("endpoint_tool", "iperf3"),)))
    with pytest.raises(NoResultError, match="iperf3 cannot do GUEST_CPU") as skipped:
        bench.run_workload("GUEST_CPU")
    run.note_skipped.assert_called_once_with("pvp_bridge,endpoints", f"GUEST_CPU: {skipped.value}")


def test_processor_time_is_for_each_gigabit_of_a_stream() -> None:
    spec = TransferSpec(kind="TCP_STREAM", duration_s=5)
    end = EndFacts(user_s=1.0, system_s=2.0)
    whole = Transfer(
        spec=spec,
        bits_per_second=2e9,
        client=end,
        server=end,
        machine_busy_s=8.0,
        machine_interrupts_s=1.0,
    )
    assert cpu_per_gigabit(whole) == CpuPerGigabit(0.6, 0.8, 0.1)
    older = whole.model_copy(update={"server": EndFacts(), "machine_busy_s": None})
    assert cpu_per_gigabit(older) == CpuPerGigabit(None, None, 0.1)
    trips = spec.model_copy(update={"kind": "TCP_RR"})
    assert cpu_per_gigabit(whole.model_copy(update={"spec": trips})) == CpuPerGigabit()


def test_what_was_run_again_is_as_it_was_the_last_time() -> None:
    udp = TransferSpec(kind="UDP_STREAM", duration_s=1, rate_of_tcp=True)

    def one(spec: TransferSpec, rate: float) -> Transfers:
        return Transfers(scenario="a", transfers=(Transfer(spec=spec, bits_per_second=rate),))

    other = TransferSpec(kind="TCP_STREAM", duration_s=1)
    (found,) = merge_transfers(
        [
            one(udp.model_copy(update={"rate_bps": 5.0}), 1.0),
            one(other, 2.0),
            one(udp.model_copy(update={"rate_bps": 6.0}), 3.0),
        ]
    )
    last = found.transfers[0]
    assert [transfer.bits_per_second for transfer in found.transfers] == [3.0, 2.0]
    assert [one.bits_per_second for one in found.list_rounds(last)] == [1.0, 3.0]


def test_without_a_vnf_there_are_no_users() -> None:
    plain = scenario("phy2phy_bridge")
    assert "no VNF" in transfers.find_users_problem(run_of(plain), plain)


def test_a_host_without_an_endpoint_needs_no_tool() -> None:
    loaded = config.load({"testbed": "two-hosts"}, environment={})
    whole = machine()
    whole = whole.model_copy(update={"programs": {**whole.programs, "iperf3": "/usr/bin/iperf3"}})
    without = whole.model_copy(update={"programs": {**whole.programs, "iperf3": ""}})
    facts = whole.model_copy(update={"hosts": {"east": whole, "west": without}})
    plain = make_scenario("phy2phy_bridge", loaded)
    run = run_of(plain)
    run.configuration, run.facts = loaded, lambda: facts
    run.plan = lambda deployed: make_plan(deployed, loaded.testbed, facts)
    assert transfers.find_endpoint_traffic_problem(run, plain, "TCP_STREAM", 64) == ""
    apart = make_scenario("p2c2p_bridge", loaded)
    why = transfers.find_endpoint_traffic_problem(run, apart, "TCP_STREAM", 64)
    assert "iperf3" in why


@pytest.mark.parametrize(
    ("east", "west", "chosen"),
    [
        (("netperf", "netserver", "sockperf"), ("sockperf",), "sockperf"),
        (("iperf3", "sockperf"), ("netperf", "netserver", "sockperf"), "sockperf"),
        (("netperf", "netserver"), ("sockperf",), ""),
    ],
)
def test_a_tool_is_the_first_that_both_hosts_have(
    east: tuple[str, ...], west: tuple[str, ...], chosen: str
) -> None:
    loaded = config.load({"testbed": "two-hosts"}, environment={})
    whole = machine()
    facts = whole.model_copy(
        update={
            "hosts": {
                host: machine(programs=whole.programs | dict.fromkeys(names, "/usr/bin/it"))
                for host, names in (("east", east), ("west", west))
            }
        }
    )
    apart = make_scenario("p2c2p_bridge", loaded)
    run = run_of(apart)
    run.configuration, run.facts = loaded, lambda: facts
    run.plan = lambda deployed: make_plan(deployed, loaded.testbed, facts)
    deployed = transfers.endpoint_scenario(loaded, apart)
    if chosen:
        assert transfers.endpoint_spec(run, deployed, "TCP_RR", 64).tool == chosen
        return
    with pytest.raises(CapabilityError, match=r"hosts .* netperf or sockperf"):
        transfers.endpoint_spec(run, deployed, "TCP_RR", 64)


def test_without_a_cluster_no_tool_is_asked_for(texts: Texts) -> None:
    loaded = config.load({}, environment={})
    facts = machine()
    plain = make_scenario("bmp2bmp_kubernetes", loaded)
    run = run_of(plain)
    run.configuration, run.facts = loaded, lambda: facts
    run.plan = lambda deployed: make_plan(deployed, loaded.testbed, facts)
    why = transfers.find_endpoint_traffic_problem(run, plain, "TCP_STREAM", 64)
    texts.check(why)
