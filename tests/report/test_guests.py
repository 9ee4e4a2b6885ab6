"""The speed of guests in every report: beside the host's, and curves over threads and guests."""

from __future__ import annotations

from typing import Any

from tests.texts import Texts, lines_with
from vnetperf.analysis.results_from_log import merge_transfers
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.model.machine_load import ThreadEvents
from vnetperf.model.result import RunIdentity, RunResults, ScenarioFacts
from vnetperf.model.transfer import Figures, Flow, Kind, Transfer, Transfers, TransferSpec
from vnetperf.report import transfers, workloads
from vnetperf.report.csv_files import transfers_csv
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.table import NONE
from vnetperf.report.terminal import terminal_text
from vnetperf.workloads.guest_speed import GuestSpeed
from vnetperf.workloads.guest_speed.programs import compute_misses, compute_overlap

EMULATED = {"launcher": "VM", "acceleration": "none: /dev/kvm does not work"}
WHY = "not measured: nobody counts them"


def did(
    kind: Kind,
    rate: float,
    host: float,
    *,
    threads: int = 1,
    vnfs: int = 1,
    misses: float | None = None,
) -> Transfer:
    field = "events_per_second" if kind == "GUEST_CPU" else "octets_per_second"
    figures: dict[str, Any] = {field: rate, "tlb_misses_per_second": misses, "steal": 0.02}
    each = Figures(**{**figures, field: rate / vnfs})
    return Transfer(
        spec=TransferSpec(kind=kind, tool="sysbench", duration_s=1, instances=threads),
        **figures,
        flows=tuple(Flow(way="forth", port=n, figures=each) for n in range(vnfs)),
        version="sysbench 1.0.20",
        on_host=Figures(**{field: host}),
        events_why="" if misses else WHY,
    )


def results(*found: Transfer, facts: dict[str, str] | None = None) -> RunResults:
    identity = RunIdentity(tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00")
    every = [Transfers(scenario="pvp_bridge,endpoints", transfers=(one,)) for one in found]
    deployed = ScenarioFacts(scenario="pvp_bridge,endpoints", facts={"vnfs": [facts or EMULATED]})
    return RunResults(
        run=identity, preset="quick", scenarios=(deployed,), transfers=merge_transfers(every)
    )


def test_a_guest_stands_beside_the_host_and_says_that_it_is_emulated(texts: Texts) -> None:
    run = results(did("GUEST_CPU", 500.0, 1500.0), did("GUEST_READ", 2.0**30, 2.0**31))
    cpu, read = workloads.workload_table(run, GuestSpeed()).texts
    assert cpu[:7] == (
        *("pvp_bridge", "GUEST_CPU", "1 x VM, emulated", "1"),
        *("500.0 events/s", "1500 events/s", "0.33"),
    )
    assert read[4:7] == ("1024 MiB/s", "2048 MiB/s", "0.50")
    assert cpu[7:9] == (NONE, NONE)
    for text in (markdown_report(run), html_report(run), terminal_text(run)):
        assert GuestSpeed.title in text
        assert "nobody counts them" in text
    texts.check(lines_with(markdown_report(run), "virtual machines"))
    assert "Traffic between sockets" not in markdown_report(run)
    assert transfers.transfers_by_scenario(run) == []


def test_a_real_guest_is_no_emulation_and_its_misses_are_counted() -> None:
    run = results(
        did("GUEST_RANDOM_READ", 2.0**27, 2.0**28, misses=12_800.0), facts={"launcher": "VM"}
    )
    (row,) = workloads.workload_table(run, GuestSpeed()).texts
    assert (row[2], row[7]) == ("1 x VM", "100.0 a MiB")
    assert "emulat" not in " ".join(workloads.workload_sentences(run, GuestSpeed()))
    assert "TLB" not in " ".join(workloads.workload_sentences(run, GuestSpeed()))


def test_repeated_rounds_give_the_ratio_an_interval() -> None:
    rounds = [did("GUEST_CPU", rate, 1000.0 + n) for n, rate in enumerate((400.0, 410.0, 420.0))]
    (row,) = workloads.workload_table(results(*rounds), GuestSpeed()).texts
    assert row[4] == "410.0 events/s"
    assert row[6].startswith("0.41 (0.")
    assert row[11] == "3"


def test_curves_are_over_threads_and_over_guests() -> None:
    many = [did("GUEST_CPU", 100.0 * n, 300.0 * n, threads=n) for n in (1, 2, 4)]
    (plot,) = workloads.workload_plots(results(*many), GuestSpeed())
    assert plot.x.names == ["1", "2", "4"]
    assert [one.name for one in plot.series] == ["in VNFs", "on the host"]
    assert [point.y for point in plot.series[1].points] == [300.0, 600.0, 1200.0]
    assert GuestSpeed.title in html_report(results(*many))
    assert not list(workloads.workload_plots(results(many[0]), GuestSpeed()))


def test_curves_join_what_is_alike_but_for_their_axis() -> None:
    names = ("pvp_bridge,instances=1", "pvp_bridge,instances=2", "pvp_xdp", "pvp_bridge,napi=on")
    threads = (1, 2, 2, 4)
    run = results()
    every = tuple(
        Transfers(
            scenario=f"{name},endpoints",
            transfers=(did("GUEST_CPU", 1.0, 1.0, threads=number),),
        )
        for name, number in zip(names, threads, strict=True)
    )
    (plot,) = workloads.workload_plots(
        run.model_copy(update={"transfers": merge_transfers([*every])}), GuestSpeed()
    )
    assert plot.x.names == ["1", "2"]
    assert plot.caption.startswith("pvp_bridge, GUEST_CPU")


def test_metrics_and_csv_have_work_ratio_and_misses() -> None:
    run = results(did("GUEST_READ", 2.0**30, 2.0**31, misses=10.0))
    found = {(m.label, m.unit, m.better, m.value) for m in compared_metrics(run)}
    assert found == {
        ("GUEST_READ", "octet/s", "more", 2.0**30),
        ("GUEST_READ of the host's", "ratio", "more", 0.5),
        ("GUEST_READ TLB misses per MiB", "", "less", 10.0 / 1024),
    }
    head, whole, each = (line.split(",") for line in transfers_csv(run).splitlines())
    at = head.index("host_memory_octets_per_s")
    assert float(whole[at + 1]) == 2.0**31  # the scenario's name has a comma
    assert each[head.index("instance") + 1] == "1"


def test_vnfs_that_did_not_run_at_once_reach_less_than_their_sum(texts: Texts) -> None:
    apart, together = (
        did("GUEST_CPU", 900.0, 1000.0, vnfs=4).model_copy(update={"at_once": share})
        for share in (0.4, 0.95)
    )
    texts.check(lines_with(markdown_report(results(apart)), "of their runs"))
    assert "40 % of their runs" in " ".join(terminal_text(results(apart)).split())
    assert "at once for" not in markdown_report(results(together))
    marks = {m.label: m.marks for m in compared_metrics(results(apart))}
    assert marks == {"GUEST_CPU": ("at most",), "GUEST_CPU of the host's": ("at most",)}
    assert not any(m.marks for m in compared_metrics(results(together)))


def test_the_share_in_which_all_ran_is_that_of_the_longest_run() -> None:
    assert compute_overlap([(0.0, 5.0)]) is None
    assert compute_overlap([(0.0, 10.0), (1.0, 11.0), (0.5, 10.5)]) == 0.9
    assert compute_overlap([(0.0, 1.0), (2.0, 3.0)]) == 0.0


def test_misses_of_some_virtual_processors_are_not_those_of_a_vnf() -> None:
    """A counter that had no turn has no count, and the others are not all of it."""
    names = ("vnf0", "vnf0", "vnf1", "vnf1")
    counts = ({"dTLB load misses": 100}, {}, {"dTLB load misses": 100}, {"dTLB load misses": 20})
    events = tuple(
        ThreadEvents(role=role, thread="CPU 0/KVM", counts=counted)
        for role, counted in zip(names, counts, strict=True)
    )
    worked_s = {"vnf0": 2.0, "vnf1": 2.0}
    assert compute_misses({"events": events}, worked_s) == {"vnf1": 60.0}
