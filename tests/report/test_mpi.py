"""Ranks of MPI in every report: beside the hosts' own network, and curves over pods."""

from __future__ import annotations

from typing import Any

from vnetperf.analysis.metrics import Metric
from vnetperf.analysis.results_from_log import merge_transfers
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.model.result import RunIdentity, RunResults, ScenarioFacts
from vnetperf.model.transfer import Kind, Transfer, Transfers, TransferSpec
from vnetperf.report import transfers, workloads
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.table import NONE
from vnetperf.report.terminal import terminal_text
from vnetperf.workloads.mpi import Mpi


def ran(kind: Kind, pods: int = 2, ranks: int = 2, **figures: Any) -> Transfer:
    size = None if kind in ("MPI_BARRIER", "MPI_HPL") else 16384
    spec = TransferSpec(
        kind=kind, tool="loops", message_size=size, duration_s=1, pods=pods, ranks=ranks
    )
    return Transfer(spec=spec, version="loops, Open MPI 4.1.4", contents_checked=True, **figures)


def alltoall(mean_us: float, pods: int = 2, ranks: int = 2) -> Transfer:
    times = {"mean": mean_us, "min": mean_us - 1, "max": mean_us + 1}
    return ran("MPI_ALLTOALL", pods, ranks, operation_us=times)


def results(**found: tuple[Transfer, ...]) -> RunResults:
    identity = RunIdentity(tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00")
    every = [
        Transfers(scenario=f"bmp2bmp_{network},mpi", transfers=(one,))
        for network, ones in found.items()
        for one in ones
    ]
    facts = tuple(
        ScenarioFacts(
            scenario=f"bmp2bmp_{network},mpi",
            plan={
                "scenario": {
                    "vswitch": network,
                    "deployment": {"pods": True},
                    "pod_hosts": "other",
                }
            },
            facts={"vswitch": {"baseline": network == "host"}},
        )
        for network in found
    )
    return RunResults(
        run=identity, preset="quick", scenarios=facts, transfers=merge_transfers(every)
    )


def metrics(run: RunResults) -> dict[str, Metric]:
    return {one.label: one for one in compared_metrics(run)}


def test_each_benchmark_stands_beside_the_hosts_own() -> None:
    run = results(host=(alltoall(400.0),), vxlan=(alltoall(600.0),))
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=400)):
        for shown in ("MPI", "1.50", "baseline", "600.0"):
            assert shown in text.replace("\\", ""), shown
        assert transfers.TRANSFERS_TITLE not in text
        assert transfers.NETWORKS_TITLE not in text


def test_rounds_give_an_interval() -> None:
    run = results(
        host=tuple(map(alltoall, (400.0, 404.0, 396.0))),
        vxlan=tuple(map(alltoall, (600.0, 606.0, 594.0))),
    )
    _, vxlan = workloads.workload_table(run, Mpi()).texts
    assert vxlan[7].startswith("1.50 (1.4")
    assert vxlan[-1] == "3"


def test_curves_are_over_pods_and_over_ranks_with_a_line_for_each_network() -> None:
    run = results(
        host=tuple(alltoall(100.0 * pods, pods) for pods in (1, 2, 4, 8)),
        vxlan=(*(alltoall(150.0 * pods, pods) for pods in (1, 2, 4, 8)), alltoall(90.0, 2, 1)),
    )
    pods, ranks = workloads.workload_plots(run, Mpi())
    assert pods.x.names == ["1", "2", "4", "8"]
    assert [one.name for one in pods.series] == ["host", "vxlan"]
    assert [point.y for point in pods.series[1].points] == [150e3, 300e3, 600e3, 1200e3]
    assert (ranks.x.names, ranks.x.name) == (["1", "2"], "ranks in each pod")
    assert [point.y for point in ranks.series[-1].points] == [90e3, 300e3]


def test_what_was_measured_twice_is_one_point() -> None:
    run = results(host=(alltoall(100.0, 1), alltoall(200.0, 2)))
    again = run.model_copy(update={"transfers": (*run.transfers, *run.transfers)})
    (plot,) = workloads.workload_plots(again, Mpi())
    assert len(plot.series[0].points) == 2


def test_one_point_is_no_curve() -> None:
    assert list(workloads.workload_plots(results(host=(alltoall(100.0),)), Mpi())) == []


def test_metrics_are_in_the_one_table_with_what_they_were_measured_for() -> None:
    run = results(
        host=(
            alltoall(400.0, 8),
            ran("MPI_PUT", 2, 1, bits_per_second=1e9),
            ran("MPI_LATENCY", 2, 1, operation_us={"mean": 20.0, "50": 19.0, "99": 40.0}),
            ran("MPI_HPL", flops=2e9, operation_us={"mean": 11.0}, bits_per_second=4e9),
        )
    )
    found = metrics(run)
    assert {(label, one.unit, one.better, one.value) for label, one in found.items()} == {
        ("MPI_ALLTOALL time", "ns", "less", 400e3),
        ("MPI_PUT", "bit/s", "more", 1e9),
        ("MPI_LATENCY time", "ns", "less", 20e3),
        ("MPI_LATENCY time p50", "ns", "less", 19e3),
        ("MPI_LATENCY time p99", "ns", "less", 40e3),
        ("MPI_HPL flop/s", "1/s", "more", 2e9),
        ("MPI_HPL ping-pong time", "ns", "less", 11e3),
    }
    conditions = found["MPI_ALLTOALL time"].conditions
    assert (conditions["pods"], conditions["ranks"], conditions["tool"]) == (8, 2, "loops")
    assert [one.label for one in found.values() if one.main] == [
        *("MPI_ALLTOALL time", "MPI_PUT", "MPI_LATENCY time", "MPI_HPL flop/s")
    ]


def test_hpl_is_a_rate() -> None:
    run = results(host=(ran("MPI_HPL", flops=2e9, operation_us={"mean": 11.0}),))
    (row,) = workloads.workload_table(run, Mpi()).texts
    assert row[6] == "2.000 Gflop/s"
    assert row[2] == NONE


def test_other_transfers_are_no_mpi() -> None:
    spec = TransferSpec(kind="UDP_RR", tool="sockperf", message_size=64, duration_s=1)
    one = Transfer(spec=spec, transactions_per_second=1e4, round_trip_us={"50": 20.0})
    run = results(host=(one,))
    assert not workloads.workload_table(run, Mpi())
    assert len(transfers.pod_transfers(run)) == 1
    assert "Traffic between sockets" in markdown_report(run)


def test_the_first_lines_of_the_page_tell_ranks_from_sockets() -> None:
    page = html_report(results(host=(alltoall(400.0),)))
    assert "MPI of bmp2bmp_host,mpi" in page
    assert "traffic between sockets of" not in page
    assert "MPI_ALLTOALL 400.0 µs" in page
