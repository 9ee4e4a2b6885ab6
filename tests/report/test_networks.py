"""Transfers between pods in every report: beside the hosts' own network, by message size."""

from __future__ import annotations

import pytest

from vnetperf.analysis.metrics import PODS_TEST
from vnetperf.analysis.results_from_log import merge_transfers
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.analysis.transport import cpu_per_gigabit
from vnetperf.model.result import (
    ComparedVariant,
    ComparisonResult,
    RunIdentity,
    RunResults,
    ScenarioFacts,
)
from vnetperf.model.transfer import (
    OCTETS_ADDED,
    POD_ATTACHED,
    POD_FIRST_PACKET,
    POD_REMOVED,
    EndFacts,
    Transfer,
    Transfers,
    TransferSpec,
)
from vnetperf.report import transfers
from vnetperf.report.comparison import list_comparisons, variant_transfers
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.terminal import terminal_text

BUSY = EndFacts(place="namespace", address="198.18.0.1", cpus="1", user_s=0.5, system_s=1.0)


def trip(median_us: float, size: int = 64) -> Transfer:
    spec = TransferSpec(kind="UDP_RR", tool="sockperf", message_size=size, duration_s=1)
    return Transfer(
        spec=spec, transactions_per_second=1e4, round_trip_us={"50": median_us, "99": 40.0}
    )


def stream(rate: float) -> Transfer:
    spec = TransferSpec(kind="TCP_STREAM", message_size=1024, duration_s=2)
    return Transfer(
        spec=spec,
        bits_per_second=rate,
        client=BUSY,
        server=BUSY,
        machine_busy_s=4.0,
        machine_interrupts_s=0.5,
    )


def facts(
    network: str, place: str = "other", mtu: int | None = None, pod: str = "netns"
) -> ScenarioFacts:
    scenario = {"vswitch": network, "deployment": {"pods": True}, "pod_hosts": place}
    scenario |= {"options": {"mtu": mtu, "name": ""}, "pod": pod}
    mark = "" if mtu is None and pod == "netns" else f",{mtu}{pod}"
    return ScenarioFacts(
        scenario=f"bmp2bmp_{network}{mark},endpoints",
        plan={"scenario": scenario},
        facts={"vswitch": {"baseline": network == "host"}},
    )


def results(**rounds: tuple[Transfer, ...]) -> RunResults:
    identity = RunIdentity(tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00")
    every = [
        Transfers(scenario=f"bmp2bmp_{network},endpoints", transfers=(one,))
        for network, found in rounds.items()
        for one in found
    ]
    return RunResults(
        run=identity,
        preset="quick",
        scenarios=tuple(map(facts, rounds)),
        transfers=merge_transfers(every),
    )


def test_each_network_stands_beside_the_hosts_own() -> None:
    run = results(host=(trip(20.0), stream(2e9)), vxlan=(trip(40.0), stream(1e9)))
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=400)):
        for shown in (transfers.NETWORKS_TITLE, "2.00", "0.50", "baseline"):
            assert shown in text.replace("\\", ""), shown
    rows = {(r.network, r.transfer.spec.kind): r for r in transfers.pod_transfers(run)}
    assert rows["vxlan", "UDP_RR"].ratio == pytest.approx((2.0, None, None), nan_ok=True)
    assert cpu_per_gigabit(rows["vxlan", "TCP_STREAM"].transfer).tools_s == pytest.approx(3.0 / 2.0)
    cost = cpu_per_gigabit(rows["vxlan", "TCP_STREAM"].transfer)
    assert (cost.machine_s, cost.interrupts_s) == pytest.approx((2.0, 0.25))
    assert "2.000 (0.2500)" in html_report(run)
    assert cpu_per_gigabit(rows["vxlan", "UDP_RR"].transfer).tools_s is None


def test_pods_in_vms_are_not_held_against_those_beside_them() -> None:
    run = results(host=(trip(20.0),), vxlan=(trip(40.0),))
    host, vxlan = run.scenarios
    of_vm = {"scenario": {**vxlan.plan["scenario"], "deployment": {"pods": True, "guests": [1]}}}
    there = vxlan.model_copy(update={"plan": of_vm})
    run = run.model_copy(update={"scenarios": (host, there)})
    (row,) = [r for r in transfers.pod_transfers(run) if not r.is_baseline]
    assert row.network == "vxlan, pod 1 in a VM"
    assert row.ratio is None


def test_pods_of_a_cluster_have_its_own_baseline_and_not_this_machine_s() -> None:
    run = results(host=(trip(20.0),), kubernetes=(trip(40.0),))
    host, cluster = run.scenarios
    there = cluster.model_copy(update={"facts": {"vswitch": {"cluster": {}, "baseline": False}}})
    run = run.model_copy(update={"scenarios": (host, there)})
    (row,) = [r for r in transfers.pod_transfers(run) if not r.is_baseline]
    assert row.ratio is None
    note = "Pods of a cluster: processor time is not measured"
    assert note in markdown_report(run)
    assert note not in markdown_report(results(host=(trip(20.0),)))
    of_node = host.model_copy(update={"facts": {"vswitch": {"cluster": {}, "baseline": True}}})
    run = run.model_copy(update={"scenarios": (of_node, there)})
    (row,) = [r for r in transfers.pod_transfers(run) if not r.is_baseline]
    assert row.ratio is not None
    assert row.ratio[0] == pytest.approx(2.0)


def test_rounds_give_an_interval() -> None:
    run = results(
        host=(trip(20.0), trip(20.2), trip(19.8)), vxlan=(trip(40.0), trip(40.8), trip(39.5))
    )
    (vxlan,) = [r for r in transfers.pod_transfers(run) if r.network == "vxlan"]
    assert len(vxlan.rounds) == 3
    value, low, high = vxlan.ratio or (0.0, 0.0, 0.0)
    assert low is not None
    assert high is not None
    assert 1.9 < low < value < high < 2.1
    assert value == pytest.approx(2.0, rel=0.01)


def test_without_the_baseline_there_is_no_ratio() -> None:
    run = results(vxlan=(trip(40.0),))
    assert transfers.pod_transfers(run)[0].ratio is None
    assert transfers.network_sentences(run) == []
    assert "40.00" in markdown_report(run)


def test_a_place_has_its_own_baseline() -> None:
    run = results(host=(trip(20.0),), vxlan=(trip(40.0),))
    same = run.model_copy(update={"scenarios": (facts("host", "same"), facts("vxlan"))})
    assert [row.ratio for row in transfers.pod_transfers(same)] == [None, None]


def test_a_baseline_has_the_link_and_the_pods_of_what_it_stands_beside() -> None:
    scenarios = [
        facts(network, mtu=mtu, pod=pod)
        for mtu, pod in ((1500, "netns"), (9000, "netns"), (1500, "runc"))
        for network in ("host", "bridge")
    ]
    medians = (100.0, 150.0, 50.0, 75.0, 200.0, 400.0)
    found = [
        Transfers(scenario=one.scenario, transfers=(trip(median),))
        for one, median in zip(scenarios, medians, strict=True)
    ]
    update = {"scenarios": tuple(scenarios), "transfers": merge_transfers(found)}
    rows = transfers.pod_transfers(results().model_copy(update=update))
    ratios = {row.network: row.ratio[0] for row in rows if row.ratio}
    assert ratios == {
        "bridge, mtu = 1500": 1.5,
        "bridge, mtu = 9000": 1.5,
        "bridge, mtu = 1500, pods by runc": 2.0,
    }


def test_plots_have_a_line_for_each_network() -> None:
    run = results(
        host=(trip(20.0), trip(24.0, 1024), stream(2e9)),
        vxlan=(trip(40.0), trip(48.0, 1024), stream(1e9)),
    )
    trips, rates = transfers.network_plots(run)
    assert trips.x.names == ["64", "1024"]
    assert [one.name for one in trips.series] == ["host", "vxlan"]
    assert [point.y for point in trips.series[1].points] == [40e3, 48e3]
    assert [point.y for one in rates.series for point in one.points] == [2.0, 1.0]
    assert "Gbit/s" in rates.y.name


def test_parallel_instances_are_drawn_apart() -> None:
    lone, four = stream(2e9), stream(4e9)
    four = four.model_copy(update={"spec": four.spec.model_copy(update={"instances": 4})})
    one, several = transfers.network_plots(results(host=(lone, four)))
    assert [point.y for line in one.series for point in line.points] == [2.0]
    assert [point.y for line in several.series for point in line.points] == [4.0]
    assert "4 instances" in several.caption


def test_other_transfers_are_no_networks() -> None:
    run = results().model_copy(
        update={"transfers": (Transfers(scenario="v2v_bridge,endpoints", transfers=(trip(9.0),)),)}
    )
    assert transfers.pod_transfers(run) == []
    assert transfers.NETWORKS_TITLE not in html_report(run)


def test_a_pod_s_life_is_timed_in_every_report() -> None:
    pods = {
        "pod0": {POD_ATTACHED: 0.02},
        "pod1": {POD_ATTACHED: 0.03, POD_REMOVED: 0.01, POD_FIRST_PACKET: 0.045},
    }
    own = {"MTU of pods": 1450, OCTETS_ADDED: 50, "pods": pods}
    one = facts("vxlan")
    run = results(vxlan=(trip(40.0),)).model_copy(
        update={"scenarios": (one.model_copy(update={"facts": {"vswitch": own}}),)}
    )
    found = {m.label: m.value for m in compared_metrics(run) if m.test == PODS_TEST}
    assert found == {"pod start": 0.03, "first packet": 0.045, "pod removal": 0.01}
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=400)):
        assert "45.00 ms" in text
        assert transfers.PODS_TITLE in text
    assert "1450" in markdown_report(run)


def test_pods_without_times_have_no_rows() -> None:
    one = facts("vxlan").model_copy(update={"facts": {"vswitch": {"pods": {"pod0": {}}}}})
    run = results(vxlan=(trip(40.0),)).model_copy(update={"scenarios": (one,)})
    assert not [m for m in compared_metrics(run) if m.test == PODS_TEST]
    assert transfers.PODS_TITLE not in markdown_report(run)


def test_round_trips_under_load_are_compared_by_their_tail() -> None:
    alone = trip(20.0)
    times = {"50": 20.0, "99": 40.0, "99.9": 90.0}
    spec = alone.spec.model_copy(update={"kind": "UDP_LOAD"})
    loaded = alone.model_copy(update={"spec": spec, "round_trip_us": times, "fragments": 7})
    run = results(host=(alone, loaded))
    labels = {m.label: m.value for m in compared_metrics(run)}
    assert labels["UDP_LOAD forth round trip p99.9"] == 90e3
    assert "UDP_RR forth round trip p99.9" not in labels
    (row,) = [r for r in transfers.networks_table(run).texts if "UDP_LOAD" in r[1]]
    assert "7" in row


def compared(modes: dict[str, tuple[Transfer, ...]], **skipped: str) -> RunResults:
    """A comparison of modes, of which nothing but transfers was measured."""
    variants = tuple(
        ComparedVariant(
            variant=f"mode={mode}",
            scenario=f"bmp2bmp_macvlan,mode={mode}",
            typed=(f"--set mode={mode}",),
            skipped=skipped.get(mode, ""),
        )
        for mode in (*modes, *skipped)
    )
    every = [
        Transfers(scenario=f"bmp2bmp_macvlan,mode={mode},endpoints", transfers=(one,))
        for mode, found in modes.items()
        for one in found
    ]
    comparison = ComparisonResult(
        name="test_networks::test_modes",
        title="Modes",
        scenario="bmp2bmp_macvlan",
        variants=variants,
    )
    update = {"comparisons": (comparison,), "transfers": merge_transfers(every)}
    return results().model_copy(update=update)


def test_a_variant_that_was_not_deployed_is_called_so() -> None:
    run = compared({"bridge": (trip(20.0),), "vepa": ()}, private="it is refused")
    name, why = "bmp2bmp_macvlan,mode=vepa,endpoints", "the machine is held by another run"
    failed = ScenarioFacts(scenario=name, error=why)
    (one,) = list_comparisons(run.model_copy(update={"scenarios": (failed,)}))
    words = [row[3] for row in variant_transfers(one).texts]
    assert words == ["20.00 \u00b5s", "not deployed", "skipped"]
    absent = dict(part.split(": ", 1) for part in one.absent_variants)
    assert absent == {"mode=vepa": "not deployed", "mode=private": "skipped: it is refused"}


def test_variants_of_which_transfers_were_measured_stand_side_by_side() -> None:
    run = compared(
        {
            "bridge": (trip(20.0), trip(20.0, 1024), stream(2e9)),
            "vepa": (trip(30.0), stream(1e9)),
        },
        private="mode = private is refused",
    )
    (one,) = list_comparisons(run)
    assert list(variant_transfers(one).texts) == [
        ("UDP_RR 0 \u2192 1, 64 octets, 1 s", "mode=bridge", "sockperf", "20.00 \u00b5s", "\u2013"),
        (
            "UDP_RR 0 \u2192 1, 64 octets, 1 s",
            "mode=vepa",
            "sockperf",
            "30.00 \u00b5s",
            "1.50\u00d7",
        ),
        ("UDP_RR 0 \u2192 1, 64 octets, 1 s", "mode=private", "\u2013", "skipped", "\u2013"),
        (
            "UDP_RR 0 \u2192 1, 1024 octets, 1 s",
            "mode=bridge",
            "sockperf",
            "20.00 \u00b5s",
            "\u2013",
        ),
        ("UDP_RR 0 \u2192 1, 1024 octets, 1 s", "mode=vepa", "\u2013", "not run", "\u2013"),
        ("UDP_RR 0 \u2192 1, 1024 octets, 1 s", "mode=private", "\u2013", "skipped", "\u2013"),
        (
            "TCP_STREAM 0 \u2192 1, 1024 octets, 2 s",
            "mode=bridge",
            "iperf3",
            "2000 Mbit/s",
            "\u2013",
        ),
        (
            "TCP_STREAM 0 \u2192 1, 1024 octets, 2 s",
            "mode=vepa",
            "iperf3",
            "1000 Mbit/s",
            "0.500\u00d7",
        ),
        ("TCP_STREAM 0 \u2192 1, 1024 octets, 2 s", "mode=private", "\u2013", "skipped", "\u2013"),
    ]
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=200)):
        assert "1.50\u00d7" in text
        assert "refused" in text
        assert "Lower bounds" not in text
        assert "lower bound, aggregate" not in text


def test_transfers_of_variants_have_intervals_over_rounds() -> None:
    run = compared(
        {
            "bridge": (trip(20.0), trip(20.2), trip(19.8)),
            "vepa": (trip(40.0), trip(40.8), trip(39.5)),
        }
    )
    (one,) = list_comparisons(run)
    table = variant_transfers(one)
    (ratio,) = [row[4] for row in table.texts if row[1] == "mode=vepa"]
    assert ratio.startswith("2.00\u00d7 (1.9")
    assert ratio.endswith("; n 3)")
    assert any("95 % interval" in note for note in table.notes)


def test_instances_are_what_variants_differ_by_and_a_tool_of_one_alone_is_no_baseline() -> None:
    def flows(count: int, rate: float, tool: str = "iperf3") -> Transfer:
        one = stream(rate)
        changed = {"instances": count, "tool": tool}
        return one.model_copy(update={"spec": one.spec.model_copy(update=changed)})

    run = compared({"1": (flows(1, 1e9),), "2": (flows(2, 3e9),), "4": (flows(4, 4e9, "netperf"),)})
    rows = list(variant_transfers(list_comparisons(run)[0]).texts)
    assert [row[2:] for row in rows] == [
        ("iperf3", "1000 Mbit/s", "\u2013"),
        ("iperf3", "3000 Mbit/s", "3.00\u00d7"),
        ("netperf", "4000 Mbit/s", "\u2013"),
    ]
