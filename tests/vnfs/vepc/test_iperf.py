"""What iperf3 prints, as versions before and since 3.13 have it, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vnetperf import config, registry
from vnetperf.bench.scenarios import make_scenario
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.result import RunIdentity, RunResults
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import Transfer, Transfers, TransferSpec
from vnetperf.report import transfers
from vnetperf.report.html import html_report
from vnetperf.report.markdown import markdown_report
from vnetperf.report.terminal import terminal_text
from vnetperf.vnfs.vepc import iperf, users

TCP = TransferSpec(protocol="tcp", way="uplink", duration_s=2)
UDP = TransferSpec(protocol="udp", way="downlink", duration_s=2, rate_bps=1e6)


def said(**end: Any) -> str:
    return json.dumps({"start": {"version": "iperf 3.12"}, "end": end})


def test_tcp_counts_at_the_receiver() -> None:
    text = said(
        sum_sent={"bits_per_second": 9e6, "retransmits": 7}, sum_received={"bits_per_second": 8e6}
    )
    found = iperf.read(f"warning: something\n{text}\n", TCP)
    assert (found.bits_per_second, found.retransmits, found.tool) == (8e6, 7, "iperf 3.12")
    assert found.loss_ratio is None


@pytest.mark.parametrize("newer", [False, True])
def test_udp_counts_what_arrived(newer: bool) -> None:
    total = {"bits_per_second": 1e6, "lost_percent": 25.0, "jitter_ms": 0.5}
    more = {"sum_received": {"bits_per_second": 750_000.0}} if newer else {}
    found = iperf.read(said(sum=total, **more), UDP)
    assert (found.bits_per_second, found.loss_ratio, found.jitter_ms) == (750_000, 0.25, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("iperf3: command", "no JSON"),
        (json.dumps({"error": "unable to connect"}), "failed: unable to connect"),
        (said(), "lacks"),
    ],
)
def test_what_is_no_result_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        iperf.read(text, TCP)


def test_command_lines_say_what_is_asked() -> None:
    assert "--reverse" not in iperf.client("198.19.0.1", "198.18.0.2", TCP)
    udp = iperf.client("198.19.0.1", "198.18.0.2", UDP)
    assert udp[-3:] == ("--udp", "--bitrate", "1000000")
    assert "--reverse" in udp


@pytest.mark.parametrize(
    ("reached", "rate"), [((), iperf.FALLBACK_BPS), ((0.0,), iperf.FALLBACK_BPS), ((5e6,), 5e6)]
)
def test_udp_is_offered_at_what_tcp_reached_and_never_without_a_limit(
    reached: tuple[float, ...], rate: float
) -> None:
    asked = TransferSpec(protocol="udp", way="uplink", duration_s=1)
    other_way = Transfer(spec=TCP.model_copy(update={"way": "downlink"}), bits_per_second=9e9)
    before = [*(Transfer(spec=TCP, bits_per_second=one) for one in reached), other_way]
    assert users.offered(asked, before).rate_bps == rate
    assert users.offered(TCP, before) == TCP
    assert users.offered(UDP, before).rate_bps == UDP.rate_bps
    crawling = asked.model_copy(update={"rate_bps": 0.2})
    assert iperf.client("198.19.0.1", "198.18.0.2", crawling)[-1] == "1"


def scenario(**settings: Any) -> Scenario:
    return make_scenario("vepc_bridge", config.load(settings, environment={}))


def facts(**programs: str) -> MachineFacts:
    found = {"iperf3": "/usr/bin/iperf3", "sgsnemu": "/usr/bin/sgsnemu", **programs}
    return MachineFacts.model_construct(programs=found, program_troubles={})


@pytest.mark.parametrize("vnf", ["vepc", "vepc:vm"])
def test_what_keeps_users_away_is_known_before_anything_is_deployed(vnf: str) -> None:
    here = scenario(vnf=vnf)
    plan = Plan.model_construct(scenario=here, wire="veth")
    loaded = registry.load_vnf(vnf)
    assert loaded.no_users(facts(), plan) == ""
    assert "install the package iperf3" in loaded.no_users(facts(iperf3=""), plan)
    assert "install the package osmo-ggsn" in loaded.no_users(facts(sgsnemu=""), plan)
    assert "--wire veth" in loaded.no_users(facts(), plan.model_copy(update={"wire": "memif"}))
    assert here.stack is not None
    alone = here.model_copy(update={"stack": here.stack.model_copy(update={"ue": None})})
    assert "[ue]" in loaded.no_users(facts(), plan.model_copy(update={"scenario": alone}))
    assert "-k vepc" in registry.load_vnf("vloop").no_users(facts(), plan)


def results(*found: Transfer) -> RunResults:
    identity = RunIdentity(tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00")
    one = (Transfers(scenario="vepc_bridge", transfers=found),) if found else ()
    return RunResults(run=identity, preset="quick", transfers=one)


def test_every_report_has_the_figures() -> None:
    tcp = Transfer(
        spec=TCP, bits_per_second=123_456_789.0, retransmits=3, tool="iperf 3.12", cpus="1"
    )
    udp = Transfer(spec=UDP, bits_per_second=1e6, loss_ratio=0.125, jitter_ms=0.25)
    run = results(tcp, udp)
    for text in (markdown_report(run), html_report(run), terminal_text(run, width=200)):
        assert transfers.TITLE in text
        for figure in ("123.5", "3 segments again", "12.5"):
            assert figure in text, figure
    for text in (markdown_report(run), html_report(run)):
        assert "UE, client and server share processors 1." in text
    for text in (markdown_report(results()), html_report(results()), terminal_text(results())):
        assert transfers.TITLE not in text
