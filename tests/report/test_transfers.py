"""Transfers between sockets in every report: users of a core, and endpoints."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET

from tests.texts import Texts
from vnetperf.analysis.compliance.rfc8219 import transport
from vnetperf.analysis.run_metrics import compared_metrics
from vnetperf.analysis.run_warnings import transfer_warnings
from vnetperf.model.result import Result, RunIdentity, RunResults
from vnetperf.model.transfer import EndFacts, Figures, Flow, Transfer, Transfers, TransferSpec
from vnetperf.report import transfers
from vnetperf.report.csv_files import transfers_csv
from vnetperf.report.junit import junit_xml
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.publish import TestApiNames, documents_for_testapi, openmetrics
from vnetperf.report.terminal import terminal_text

WHY = "others took 12.0% of the processors that its programs and the pollers run on"
UE = EndFacts(place="UE", address="198.18.0.2", cpus="1", user_s=0.25, system_s=0.5)
SERVER = EndFacts(place="server", address="198.19.0.1", cpus="1", user_s=0.0, system_s=0.125)
USERS = (
    Transfer(
        spec=TransferSpec(kind="TCP_STREAM", duration_s=2),
        bits_per_second=123_456_789.0,
        retransmits=3,
        version="iperf 3.12",
        elapsed_s=2.0,
        client=UE,
        server=SERVER,
        attach_s=0.5,
    ),
    Transfer(
        spec=TransferSpec(kind="UDP_STREAM", way="back", duration_s=2, rate_of_tcp=True),
        bits_per_second=1e6,
        loss_ratio=0.125,
        jitter_ms=0.25,
        attach_s=0.5,
    ),
)
ENDPOINTS = (
    Transfer(
        spec=TransferSpec(
            kind="TCP_RR", tool="sockperf", way="both", message_size=64, instances=2, duration_s=5
        ),
        transactions_per_second=50_000.0,
        round_trip_us={"min": 4.0, "50": 7.5, "99": 20.25, "max": 900.0},
        flows=(
            Flow(way="forth", port=5201, figures=Figures(transactions_per_second=30_000.0)),
            Flow(way="back", port=5202, figures=Figures(transactions_per_second=20_000.0)),
        ),
        version="sockperf 3.7",
        elapsed_s=7.25,
        client=UE.model_copy(update={"place": "namespace at port 0", "cpus": "2,4"}),
        server=SERVER.model_copy(update={"place": "vnf0 (VM)", "cpus": "2 vCPU on 3,5"}),
    ),
)


def results(**found: tuple[Transfer, ...]) -> RunResults:
    identity = RunIdentity(tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00")
    every = tuple(Transfers(scenario=name, transfers=some) for name, some in found.items())
    return RunResults(run=identity, preset="quick", transfers=every)


def test_files_for_programs_have_transfers() -> None:
    twice = ENDPOINTS[0].model_copy(update={"transactions_per_second": 40_000.0})
    failed = Result(
        scenario="pvp_bridge",
        test="TCP_RR both",
        frame_size=1024,
        status="not measured",
        why="no route",
        failed=True,
    )
    run = results(vepc_bridge=USERS, pvp_bridge=ENDPOINTS).model_copy(update={"results": (failed,)})
    held = Transfers(scenario="pvp_bridge", transfers=ENDPOINTS, earlier=(twice,))
    run = run.model_copy(update={"transfers": (run.transfers[0], held)})
    root = ET.fromstring(junit_xml(run))  # noqa: S314 - our own text
    assert (root.get("tests"), root.get("errors")) == ("4", "1")
    case = next(
        c for c in root.iter("testcase") if c.get("name") == "TCP_RR both[pvp_bridge-64-x2]"
    )
    values = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert values["message_size_octets"] == "64"
    assert values["instances"] == "2"
    assert values["rate_1/s"] == "45000.0"  # of two deployments
    assert values["rate_1/s.n"] == "2"
    assert values["round_trip_p99_ns"] == "20250.0"
    text = openmetrics(run)
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
    of_case = 'scenario="pvp_bridge",test="TCP_RR both",frame_size="64"'
    case_measured = f"vnetperf_case_measured{{{of_case}}}"
    assert f"{case_measured} 1" in text
    assert f"{case_measured.replace('64', '1024')} 0" in text
    assert f"vnetperf_quantity{{{of_case}," in text
    assert 'test="UDP_STREAM back",frame_size="-"' in text
    made = {d["case_name"]: d for d in documents_for_testapi(run, TestApiNames())}
    assert made["vepc_bridge_TCP_STREAM_forth"]["criteria"] == "PASS"
    document = made["pvp_bridge_TCP_RR_both"]
    assert document["criteria"] == "FAIL"
    assert document["details"]["frame_sizes"]["1024"]["why"] == "no route"
    [rate, *_] = document["details"]["frame_sizes"]["64"]["found"]
    assert (rate["name"], rate["value"], rate["n"]) == ("rate", 45_000.0, 2)
    assert rate["conditions"]["seconds"] == 5


def test_a_transfer_that_failed_in_one_deployment_is_one_case() -> None:
    """Another deployment of it was measured: two cases of one name were an error and a success."""
    failed = Result(
        scenario="pvp_bridge",
        test="TCP_RR both",
        frame_size=64,
        of="2 instances",
        status="not measured",
        why="no route",
        failed=True,
    )
    run = results(pvp_bridge=ENDPOINTS).model_copy(update={"results": (failed,)})
    root = ET.fromstring(junit_xml(run))  # noqa: S314 - our own text
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    (case,) = root.iter("testcase")
    assert case.get("name") == "TCP_RR both[pvp_bridge-64-x2]"
    values = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert values["rate_1/s"] == "50000.0"
    assert case.find("error").get("message") == "no route"


def test_a_number_of_several_deployments_is_that_of_all_in_every_report() -> None:
    rates = (5.0e9, 5.1e9, 5.2e9, 4.9e9, 1.0e9)
    *earlier, last = (USERS[0].model_copy(update={"bits_per_second": rate}) for rate in rates)
    held = Transfers(scenario="vepc_bridge", transfers=(last,), earlier=tuple(earlier))
    run = results().model_copy(update={"transfers": (held,)})
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=400)):
        assert "4.2" in text
        assert "n 5" in text
        assert "of the last" in text
    rows = [*csv.DictReader(io.StringIO(transfers_csv(run)))]
    whole = [row for row in rows if row["instance"] == "all"]
    assert [(row["round"], float(row["arrived_bps"])) for row in whole] == [
        (str(n), rate) for n, rate in enumerate(rates, 1)
    ]


def test_every_report_has_the_figures() -> None:
    run = results(vepc_bridge=USERS, pvp_bridge=ENDPOINTS)
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=400)):
        assert transfers.TRANSFERS_TITLE in text
        for figure in (
            *("123.5", "3 segments again", "12.5", "TCP_STREAM uplink", "UDP_STREAM downlink"),
            *("0.75 + 0.12 s of 2.00 s", "TCP_RR both ways, 64 octets, 2 instances, 5 s"),
            *("50", "7.500", "20.25"),
        ):
            assert figure in text.replace("\\", ""), figure
    for text in (markdown_report(run), html_report(run)):
        for said in (
            "Programs of UE (198.18.0.2) and server (198.19.0.1) share cores 1; the UE "
            "attached in 0.5 s.",
            "and vnf0 (VM) (198.19.0.1) are on cores 2,4 and 2 vCPU on 3,5.",
        ):
            assert said in text
        assert "percentiles the largest" in text


def test_a_run_without_transfers_says_nothing_of_them() -> None:
    run = results()
    for text in (markdown_report(run), html_report(run), terminal_text(run)):
        assert transfers.TRANSFERS_TITLE not in text
    assert len(transfers_csv(run).splitlines()) == 1


def test_the_csv_has_sums_and_each_instance() -> None:
    rows = list(csv.DictReader(io.StringIO(transfers_csv(results(pvp_bridge=ENDPOINTS)))))
    assert [(row["instance"], row["way"]) for row in rows] == [
        ("all", "both"),
        ("1", "forth"),
        ("2", "back"),
    ]
    assert [float(row["transactions_per_s"]) for row in rows] == [50_000, 30_000, 20_000]
    assert rows[0]["round_trip_p99_us"] == "20.25"
    assert rows[0]["client_user_s"] == "0.25"
    assert rows[0]["arrived_bps"] == ""  # not told, and so not 0


#: A stream whose mean round trip is twice its least, and one of which nothing of the kind is known.
STREAMS = (
    Transfer(
        spec=TransferSpec(kind="TCP_STREAM", duration_s=2),
        bits_per_second=8e6,
        sent_octets=1_000_000.0,
        segment_octets=1000,
        retransmits=250,
        tcp_round_trip_us={"min": 100.0, "mean": 200.0},
    ),
    Transfer(spec=TransferSpec(kind="TCP_STREAM", way="back", duration_s=2), bits_per_second=1e6),
)


def test_efficiency_and_buffer_delay_are_plotted_by_stream() -> None:
    run = results(pvp_bridge=STREAMS)
    rows = transfers.tcp_streams(run)
    efficiency, delay = transfers.tcp_plots(rows)
    assert (efficiency.caption, delay.caption) == ("TCP efficiency", "Buffer delay")
    assert [point.x for point in efficiency.series[0].points] == [0.8]
    assert [point.x for point in delay.series[0].points] == [1.0]
    assert delay.y.names == [name for name, _ in rows]
    assert [(note.text, note.category) for note in delay.notes] == [("not measured", 1)]
    page = html_report(run)
    assert all(plot.title in page for plot in (efficiency, delay))
    assert "<svg" not in html_report(results(pvp_bridge=ENDPOINTS))


def test_the_ledger_lists_what_was_done_of_rfc_6349_and_9097(texts: Texts) -> None:
    found = {e.clause: e for e in transport(results(pvp_bridge=(*STREAMS, *USERS)).transfers)}
    assert all("from a secondary source" in clause for clause in found)
    metrics = found["RFC 6349 section 4 (from a secondary source)"]
    assert metrics.status == "deviated"
    texts.check(metrics.value)
    capacity = found["RFC 9097 sections 5 and 8 (from a secondary source)"]
    assert (capacity.status, "0 of 1 streams" in capacity.value) == ("deviated", True)
    assert not transport(results(pvp_bridge=ENDPOINTS).transfers)


def test_transfers_of_several_sizes_and_clients_are_drawn_by_both() -> None:
    def stream(size: int, clients: int, mbps: float) -> Transfer:
        spec = TransferSpec(kind="TCP_STREAM", message_size=size, instances=clients, duration_s=1)
        return Transfer(spec=spec, bits_per_second=mbps * 1e6)

    many = [stream(s, c, s * c / 100) for s in (64, 1024, 65507) for c in (1, 4)]
    lone = Transfer(spec=many[0].spec.model_copy(update={"kind": "TCP_RR"}))  # nothing to draw by
    # A user's stream beside those of endpoints: its tool's own message size.
    unsized = Transfer(spec=many[0].spec.model_copy(update={"message_size": None}))
    names = {
        "p2c2p_dpdk,endpoints": (*many, lone, unsized),
        "v2c2v_bridge,endpoints": (many[0], many[4]),
    }
    run = results(**names)
    drawn = {p.caption: p for p in transfers.transfer_plots(transfers.transfers_by_scenario(run))}
    assert [*drawn] == [
        *("TCP_STREAM, 1 client", "TCP_STREAM, 4 clients"),
        *("TCP_STREAM, 64 octets", "TCP_STREAM, 65507 octets"),
    ]
    one, many_clients = drawn["TCP_STREAM, 1 client"], drawn["TCP_STREAM, 4 clients"]
    assert [s.name for s in one.series] == ["p2c2p_dpdk", "v2c2v_bridge"]
    assert [(p.x, p.y) for p in one.series[1].points] == [(0, 0.64), (2, 655.07)]
    assert [s.name for s in many_clients.series] == ["p2c2p_dpdk"]
    assert [p.x for p in drawn["TCP_STREAM, 64 octets"].series[0].points] == [0, 1]
    assert "TCP_STREAM, 4 clients" in html_report(run)
    assert not [*transfers.transfer_plots(transfers.transfers_by_scenario(results(a=ENDPOINTS)))]
    # A comparison by clients has a scenario for each number of them: one line.
    apart = {f"v2v_bridge,instances={c},endpoints": (stream(64, c, c),) for c in (1, 4)}
    compared = results(**apart, **{"v2v_xdp,endpoints": (stream(64, 1, 1),)})
    (plot,) = transfers.transfer_plots(transfers.transfers_by_scenario(compared))
    assert [(s.name, len(s.points)) for s in plot.series] == [("v2v_bridge", 2), ("v2v_xdp", 1)]


def test_what_does_not_fit_together_is_said_wherever_a_transfer_is_shown() -> None:
    odd = ENDPOINTS[0].model_copy(update={"notes": ("its loss differs",)})
    found = Transfers(scenario="p,endpoints", transfers=(odd,))
    (warning,) = transfer_warnings([found])
    assert "its loss differs" in warning
    identity = RunIdentity(tool="", git="", command="", started="")
    run = RunResults(run=identity, preset="", transfers=(found,))
    assert any("its loss differs." in note for note in transfers.transfers_table(run).notes)
    assert "its loss differs" in transfers_csv(run)


def test_what_others_disturbed_is_irregular_and_says_by_how_much() -> None:
    """In the table, on the terminal, and beside the number wherever it is compared."""
    disturbed = ENDPOINTS[0].model_copy(update={"disturbed": (WHY,)})
    both = Transfers(scenario="p,endpoints", transfers=(disturbed,), earlier=(ENDPOINTS[0],))
    identity = RunIdentity(tool="", git="", command="", started="")
    run = RunResults(run=identity, preset="", transfers=(both,))
    assert any(f"irregular, {WHY}." in note for note in transfers.transfers_table(run).notes)
    (line, *_) = transfers.transfer_sentences(run)
    assert line.endswith("irregular")
    (main, *_) = compared_metrics(run)
    assert main.marks == ("irregular",)
    calm = run.model_copy(
        update={"transfers": (both.model_copy(update={"transfers": ENDPOINTS[:1]}),)}
    )
    assert not any("irregular" in note for note in transfers.transfers_table(calm).notes)
