"""What tools print, as several versions really did, and what is no result."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.fakes import odd
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import Figures, Kind, TransferSpec
from vnetperf.plugin import registry
from vnetperf.plugin.endpoint_tool import (
    EndpointTool,
    Sockets,
    ToolOutput,
    UnreadableError,
    consistent_times,
    figure_or_none,
)
from vnetperf.plugin.tool_runs import sum_figures
from vnetperf.statistics.samples import contradiction

RECORDED = Path(__file__).with_name("recorded")
AT = Sockets(server="198.19.0.1", client="198.18.0.1", port=5201)


def tool(name: str) -> EndpointTool:
    found: EndpointTool = registry.load("endpoints", name)()
    return found


def said(client: str, server: str = "", version: str = "") -> ToolOutput:
    def text(name: str) -> str:
        return (RECORDED / name).read_text() if name else ""

    return ToolOutput(text(client), text(server), version)


def spec(kind: Kind, size: int | None = 1024, **more: int) -> TransferSpec:
    return TransferSpec(kind=kind, message_size=size, duration_s=1, **more)


@pytest.mark.parametrize(
    ("version", "arrived", "sent", "again"),
    [
        ("3.9", 1109931166.4873428, 1157342361.845072, 1097),
        ("3.12", 342420926.658915, 342455466.76905113, None),
        ("3.18", 1917873465.789652, 1919522523.6779451, 821),
        ("3.22", 2530613441.6102533, 2530934426.3604913, 5259),
    ],
)
def test_iperf3_tcp_counts_at_the_receiver(
    version: str, arrived: float, sent: float, again: int | None
) -> None:
    heard = said(f"iperf3_{version}_tcp.json")
    found = tool("iperf3").read(heard, spec("TCP_STREAM"))
    assert (found.bits_per_second, found.sent_bits_per_second) == (arrived, sent)
    assert again is None or found.retransmits == again
    assert found.client_cpu_percent is not None
    assert tool("iperf3").version(heard) == f"iperf {version}, TCP bbr"


@pytest.mark.parametrize(
    ("version", "arrived", "lost"),
    [
        ("3.9", 2482498712.545061 * (1 - 63704 / 606100), 63704 / 606100),
        ("3.12", 462313983.7929206, 459064 / 684830),
        ("3.18", 580907373.5784873, None),
        # The last datagram never arrived: only the sender knows of it.
        ("3.22", 2012387266.8134887, (23419 + 1) / 515544),
    ],
)
def test_iperf3_udp_counts_what_arrived(version: str, arrived: float, lost: float | None) -> None:
    found = tool("iperf3").read(said(f"iperf3_{version}_udp.json"), spec("UDP_STREAM", 512))
    assert found.bits_per_second == pytest.approx(arrived, rel=1e-9)
    assert found.loss_ratio is not None
    assert found.jitter_ms is not None
    if lost is not None:
        assert found.loss_ratio == pytest.approx(lost, abs=2e-6)
    assert found.sent_bits_per_second is not None
    assert found.sent_bits_per_second > arrived


@pytest.mark.parametrize("held", [{}, {"bits_per_second": "fast", "packets": []}, 7])
@pytest.mark.parametrize(
    ("kind", "part"),
    [
        *(("TCP_STREAM", part) for part in ("sum_sent", "sum_received")),
        *(("UDP_STREAM", part) for part in ("sum", "sum_sent", "sum_received")),
    ],
)
def test_iperf3_whose_summary_is_another_one_is_no_result(
    kind: Kind, part: str, held: object
) -> None:
    name = "iperf3_3.22_udp.json" if kind == "UDP_STREAM" else "iperf3_3.22_tcp.json"
    told = json.loads((RECORDED / name).read_text())
    told["end"][part] = held
    with pytest.raises(UnreadableError, match=rf"its output lacks {part}\."):
        tool("iperf3").read(ToolOutput(json.dumps(told), "", ""), spec(kind))


def test_iperf3_looks_at_round_trips_often_and_tells_how_often() -> None:
    """By itself it does so each second: of a stream of one second that is no mean."""
    told = json.loads((RECORDED / "iperf3_3.22_tcp.json").read_text())
    sender = {"min_rtt": 120, "mean_rtt": 300, "max_rtt": 900}
    told["end"]["streams"] = [{"sender": sender}]
    told["intervals"] = [{}] * 7
    found = tool("iperf3").read(ToolOutput(json.dumps(told), "", ""), spec("TCP_STREAM"))
    times = {"min": 120.0, "mean": 300.0, "max": 900.0}
    assert found.tcp_round_trip_us == times | {"samples": 7.0}
    assert sum_figures([found, found]).tcp_round_trip_us == times | {"samples": 14.0}
    for seconds, apart in ((1, "0.1"), (10, "0.5"), (60, "1")):
        line = tool("iperf3").client(AT, TransferSpec(kind="TCP_STREAM", duration_s=seconds))
        assert line[line.index("--interval") + 1] == apart
    assert "--interval" not in tool("iperf3").client(AT, spec("UDP_STREAM"))


def test_iperf3_that_tells_no_processors_is_a_result() -> None:
    told = json.loads((RECORDED / "iperf3_3.22_tcp.json").read_text())
    for held in ({}, {"host_total": None}, 7):
        told["end"]["cpu_utilization_percent"] = held
        found = tool("iperf3").read(ToolOutput(json.dumps(told), "", ""), spec("TCP_STREAM"))
        assert (found.client_cpu_percent, found.server_cpu_percent) == (None, None)


@pytest.mark.parametrize("version", ["2.7.0", "2.7.1"])
def test_netperf_streams_count_at_the_receiver(version: str) -> None:
    heard = said(f"netperf_{version}_UDP_STREAM.txt", version=f"Netperf version {version}\n")
    found = tool("netperf").read(heard, spec("UDP_STREAM"))
    assert found.bits_per_second is not None
    assert found.sent_bits_per_second is not None
    assert 0 < found.bits_per_second < found.sent_bits_per_second
    lost = 1 - found.bits_per_second / found.sent_bits_per_second
    assert found.loss_ratio == pytest.approx(lost, abs=1e-3)
    assert found.retransmits is None  # it writes -1
    tcp = tool("netperf").read(said(f"netperf_{version}_TCP_STREAM.txt"), spec("TCP_STREAM"))
    assert tcp.retransmits is not None
    assert tcp.loss_ratio is None
    assert tcp.round_trip_us == {}
    assert tool("netperf").version(heard) == f"Netperf version {version}"


@pytest.mark.parametrize("kind", ["TCP_RR", "UDP_RR"])
@pytest.mark.parametrize("version", ["2.7.0", "2.7.1"])
def test_netperf_tells_round_trips(version: str, kind: Kind) -> None:
    found = tool("netperf").read(said(f"netperf_{version}_{kind}.txt"), spec(kind, 64))
    rate, times = found.transactions_per_second, found.round_trip_us
    assert rate is not None
    assert 1e6 / times["mean"] == pytest.approx(rate, rel=0.01)
    assert times["min"] <= times["50"] <= times["90"] <= times["99"] <= times["max"]
    assert found.bits_per_second == pytest.approx(rate * 512)


def test_a_figure_that_netperf_has_not_is_not_told() -> None:
    text = (RECORDED / "netperf_2.7.0_TCP_RR.txt").read_text()
    text = re.sub(r"P50_LATENCY=.*", "P50_LATENCY=-2147483648", text)
    found = tool("netperf").read(ToolOutput(text, "", ""), spec("TCP_RR", 64))
    assert "50" not in found.round_trip_us
    assert "99" in found.round_trip_us


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sockperf_3.6_udp_pp.txt", "UDP_RR"),
        ("sockperf_3.7_udp_pp.txt", "UDP_RR"),
        ("sockperf_3.7_tcp_pp.txt", "TCP_RR"),
        ("sockperf_3.7_udp_ul.txt", "UDP_LOAD"),
    ],
)
def test_sockperf_tells_round_trips(name: str, kind: Kind) -> None:
    text = (RECORDED / name).read_text().replace("avg-latency", "avg-rtt")
    found = tool("sockperf").read(ToolOutput(text, "", ""), spec(kind, 64))
    times = found.round_trip_us
    order = ["min", "25", "50", "75", "90", "99", "99.9", "99.99", "99.999", "max"]
    assert [times[key] for key in order] == sorted(times[key] for key in order)
    assert found.transactions_per_second is not None
    assert found.transactions_per_second > 0
    assert found.loss_ratio == (0.0 if kind.startswith("UDP") else None)


def test_what_was_lost_under_load_has_not_arrived() -> None:
    text = (RECORDED / "sockperf_3.7_udp_ul.txt").read_text().replace("avg-latency", "avg-rtt")
    answered = int(re.findall(r"ReceivedMessages=(\d+)", text)[1])
    text = text.replace("# dropped messages = 0", f"# dropped messages = {answered}")
    found = tool("sockperf").read(ToolOutput(text, "", ""), spec("UDP_LOAD", 64))
    assert found.loss_ratio == 0.5
    assert found.sent_bits_per_second is not None
    assert found.bits_per_second == found.sent_bits_per_second / 2


def test_sockperf_streams_count_what_the_server_handled() -> None:
    udp = said("sockperf_3.7_udp_stream.txt", "sockperf_3.7_udp_stream_server.txt")
    found = tool("sockperf").read(udp, spec("UDP_STREAM", 512))
    assert found.sent_bits_per_second == pytest.approx(260984 * 512 * 8 / 1.001)
    assert found.bits_per_second == pytest.approx(131905 * 512 * 8 / 1.001)
    assert found.loss_ratio == pytest.approx(1 - 131905 / 260984)
    tcp = said("sockperf_3.7_tcp_stream.txt", "sockperf_3.7_tcp_stream_server.txt")
    found = tool("sockperf").read(tcp, spec("TCP_STREAM", 512))
    assert found.bits_per_second == found.sent_bits_per_second
    assert tool("sockperf").version(tcp) == "sockperf 3.7-no.git"


@pytest.mark.parametrize(
    ("name", "client", "kind", "message"),
    [
        ("iperf3", "iperf3_3.12_refused.json", "TCP_STREAM", "Connection refused"),
        ("iperf3", "iperf3_3.9_refused.json", "TCP_STREAM", "lacks 'end'"),
        ("iperf3", "iperf3_3.9_cut.json", "TCP_STREAM", "its receiver counted nothing"),
        ("iperf3", "iperf3_3.22_cut.json", "TCP_STREAM", "the server has terminated"),
        ("iperf3", "iperf3_3.12_tcp.json", "UDP_STREAM", r"lacks sum\.lost_percent"),
        ("iperf3", "netperf_2.7.0_refused.txt", "TCP_STREAM", "printed no JSON"),
        ("netperf", "netperf_2.7.1_refused.txt", "TCP_RR", "lacks THROUGHPUT.*are you sure"),
        ("netperf", "netperf_2.7.1_TCP_RR.txt", "TCP_STREAM", r"Trans/s instead of 10\^6bits/s"),
        ("sockperf", "sockperf_3.7_tcp_refused.txt", "TCP_RR", "Can`t connect socket"),
        ("sockperf", "sockperf_3.7_udp_refused.txt", "UDP_RR", "No messages were received"),
        ("sockperf", "sockperf_3.7_udp_stream.txt", "UDP_STREAM", "server's output lacks"),
        ("sockperf", "sockperf_3.7_udp_stream.txt", "UDP_RR", r"lacks \[Valid Duration\]"),
        ("sockperf", "sockperf_3.7_udp_ul.txt", "UDP_LOAD", "lacks avg-rtt"),
    ],
)
def test_what_is_no_result_names_tool_version_and_what_is_missing(
    name: str, client: str, kind: Kind, message: str
) -> None:
    with pytest.raises(UnreadableError, match=f"(?s)^{name} \\(.+\\): .*{message}"):
        tool(name).read(said(client, version="Netperf version 2.7.1"), spec(kind))


def changed(name: str, **figures: str) -> str:
    """A recorded output with other figures."""
    text = (RECORDED / name).read_text()
    for key, value in figures.items():
        text, times = re.subn(rf"{key}=[\d.]+", f"{key}={value}", text)
        assert times, key
    return text


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        (
            "netperf",
            changed("netperf_2.7.1_TCP_RR.txt", THROUGHPUT="0.00", MEAN_LATENCY="0.00"),
            "TCP_RR",
            "no message was answered",
        ),
        (
            "netperf",  # one lost after half of the time
            changed("netperf_2.7.1_UDP_RR.txt", THROUGHPUT="45000.0", MEAN_LATENCY="11.0"),
            "UDP_RR",
            "waited for an answer 50 % of its time only: a message was lost",
        ),
        (
            "netperf",
            changed("netperf_2.7.1_UDP_STREAM.txt", REMOTE_BYTES_RECVD="0"),
            "UDP_STREAM",
            "its receiver counted nothing",
        ),
        (
            "sockperf",  # it has 2.000 s in all, 0.45 s of them not valid
            (RECORDED / "sockperf_3.7_udp_pp.txt").read_text().replace("1.550 sec", "0.750 sec"),
            "UDP_RR",
            r"stood still for the last 0\.80 s of 1\.55 s: a message was lost",
        ),
    ],
)
def test_what_stood_still_or_moved_nothing_is_no_rate(
    name: str, text: str, kind: Kind, message: str
) -> None:
    with pytest.raises(UnreadableError, match=message):
        tool(name).read(ToolOutput(text, "", ""), spec(kind))


def test_a_stream_of_which_nothing_came_is_no_rate() -> None:
    client = (RECORDED / "sockperf_3.7_udp_stream.txt").read_text()
    server = (RECORDED / "sockperf_3.7_udp_stream_server.txt").read_text()
    server = server.replace("Total 131905 messages", "Total 0 messages")
    with pytest.raises(UnreadableError, match="its server handled no message"):
        tool("sockperf").read(ToolOutput(client, server, ""), spec("UDP_STREAM", 512))


@pytest.mark.parametrize("cut", [0, 1, 10, 60, 300])
@pytest.mark.parametrize(
    ("name", "client", "kind"),
    [
        ("iperf3", "iperf3_3.18_udp.json", "UDP_STREAM"),
        ("netperf", "netperf_2.7.1_TCP_RR.txt", "TCP_RR"),
        ("sockperf", "sockperf_3.7_tcp_pp.txt", "TCP_RR"),
    ],
)
def test_an_output_that_ends_early_is_no_number(
    name: str, client: str, kind: Kind, cut: int
) -> None:
    text = (RECORDED / client).read_text()[:cut]
    with pytest.raises(UnreadableError, match=name):
        tool(name).read(ToolOutput(text, "", ""), spec(kind))


def test_command_lines_say_what_is_asked() -> None:
    iperf3, netperf, sockperf = map(tool, ("iperf3", "netperf", "sockperf"))
    stream = spec("UDP_STREAM", 512)
    assert "--get-server-output" in iperf3.client(AT, stream)
    assert iperf3.server(AT, stream)[-1] == "--json"
    assert "--json" not in iperf3.server(AT, spec("TCP_STREAM"))
    assert iperf3.client(AT, stream)[-5:] == ("--length", "512", "--udp", "--bitrate", "0")
    crawling = stream.model_copy(update={"rate_bps": 0.2})
    assert iperf3.client(AT, crawling)[-1] == "1"  # 0 would be as fast as it can
    assert "--length" not in iperf3.client(AT, spec("TCP_STREAM", None))
    assert {"-R", "-m"} <= set(netperf.client(AT, stream))
    line = netperf.client(AT, spec("TCP_RR", 64))
    assert line[line.index("-r") + 1] == "64,64"
    assert line[line.index("-P") + 1] == f",{AT.port + 1}"
    load = spec("TCP_LOAD", 64, message_rate=20_000)
    line = sockperf.client(AT, load)
    assert line[line.index("--reply-every") + 1] == "20"
    assert "--tcp" in line
    assert "--full-rtt" in line
    for one in (iperf3, netperf, sockperf):
        assert AT.server in " ".join(one.server(AT, stream))
        assert str(AT.port) in one.server(AT, stream)


def test_what_a_tool_cannot_is_told_before() -> None:
    for words in ("TCP_RR", "it can do TCP_STREAM"):
        assert words in tool("iperf3").cannot(spec("TCP_RR"))
    assert "16 octets and more" in tool("iperf3").cannot(spec("UDP_STREAM", 8))
    assert "14 octets" in tool("sockperf").cannot(spec("TCP_RR", 1))
    assert "65507 octets at most" in tool("sockperf").cannot(spec("TCP_RR", 65536))
    assert "65507 octets at most" in tool("iperf3").cannot(spec("UDP_STREAM", 65536))
    assert not [t for t in ("iperf3", "netperf") if tool(t).cannot(spec("TCP_STREAM", 65536))]
    slow = spec("UDP_STREAM").model_copy(update={"rate_bps": 1e6})
    assert "at a rate" in tool("netperf").cannot(slow)
    assert tool("iperf3").cannot(slow) == ""
    assert tool("netperf").cannot(spec("UDP_RR", 1)) == ""


def test_what_is_not_installed_is_told_with_its_package() -> None:
    here = MachineFacts.model_construct(
        programs={"netperf": "/usr/bin/netperf"}, program_troubles={}
    )
    problem = tool("netperf").missing(here)
    for words in ("netserver is not", "the package netperf"):
        assert words in problem


def test_a_tool_that_names_a_program_by_a_text_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="programs"):
        type("Mine", (type(tool("iperf3")),), {"programs": ("x",)})


def test_sysbench_tells_what_all_threads_did() -> None:
    both = TransferSpec(kind="GUEST_CPU", duration_s=1, instances=2)
    found = tool("sysbench").read(said("sysbench_1.0.20_cpu.txt"), both)
    assert found.events_per_second == 2.53
    assert found.octets_per_second is None
    alone = TransferSpec(kind="GUEST_RANDOM_READ", duration_s=1)
    found = tool("sysbench").read(said("sysbench_1.0.20_random_read.txt"), alone)
    assert found.octets_per_second == pytest.approx(27.48 * 2**20)
    assert found.events_per_second is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("events per second:", "events:"), "lacks events per second"),
        (("Number of threads: 2", "Number of threads: 1"), "1 threads, not 2"),
        (("events per second:", "events per second: 0 #"), "not one unit of work"),
    ],
)
def test_sysbench_without_work_is_no_result(change: tuple[str, str], why: str) -> None:
    text = said("sysbench_1.0.20_cpu.txt").client.replace(*change)
    spec = TransferSpec(kind="GUEST_CPU", duration_s=1, instances=2)
    with pytest.raises(UnreadableError, match=why):
        tool("sysbench").read(ToolOutput(text, "", "sysbench 1.0.20"), spec)


def test_sysbench_measures_a_place_and_nothing_between_two() -> None:
    one = tool("sysbench")
    assert one.alone
    assert [name for name in registry.names("endpoints") if tool(name).alone] == ["sysbench"]
    for kind in one.kinds:
        argv = one.client(AT, TransferSpec(kind=kind, duration_s=3, instances=4))
        assert argv[:3] == ("sysbench", "--threads=4", "--time=3")
        assert argv[-1] == "run"
    assert "sysbench cannot do TCP_RR" in one.cannot(spec("TCP_RR"))


def udp_of_two_versions() -> dict[str, Any]:
    """What iperf3 3.21 prints of a server of 3.12 that lost 9379 of 417713 datagrams."""
    sent: dict[str, Any] = {"seconds": 2.0, "bytes": 501255600, "bits_per_second": 2005022400.0}
    sent |= {"lost_packets": 0, "packets": 417713, "lost_percent": 0, "jitter_ms": 0.0}
    arrived = sent | {"bytes": 490000800, "bits_per_second": 1960003200.0, "jitter_ms": 0.004}
    second: dict[str, Any] = {"seconds": 1.0, "bytes": 245000400, "jitter_ms": 0.004}
    second |= {"lost_packets": 4689, "packets": 208856}
    return {
        "start": {"version": "iperf 3.21"},
        "end": {"sum": sent | {"jitter_ms": 0.004}, "sum_sent": sent, "sum_received": arrived},
        "server_output_json": {
            "start": {"version": "iperf 3.12"},
            "intervals": [{"sum": second}, {"sum": second}],
        },
    }


def read_iperf3(told: object, kind: Kind) -> Figures:
    return tool("iperf3").read(ToolOutput(json.dumps(told), "", ""), spec(kind, 1200))


def test_a_loss_that_a_server_of_another_version_does_not_tell_is_found_in_the_octets() -> None:
    found = read_iperf3(udp_of_two_versions(), "UDP_STREAM")
    assert found.loss_ratio == pytest.approx(1 - 490000800 / 501255600)
    assert any("3.21" in note and "3.12" in note for note in found.notes)
    assert any("0.000% by its summary's datagrams" in note for note in found.notes)


def test_a_loss_that_only_the_intervals_tell_counts() -> None:
    told = udp_of_two_versions()
    told["end"]["sum_received"] = told["end"]["sum_sent"]
    found = read_iperf3(told, "UDP_STREAM")
    assert found.loss_ratio == pytest.approx(4689 / 208856)
    assert any("by the receiver's intervals" in note for note in found.notes)


def test_figures_that_agree_have_no_note() -> None:
    for version in ("3.9", "3.12", "3.18", "3.22"):
        for kind in ("tcp", "udp"):
            of: Kind = "UDP_STREAM" if kind == "udp" else "TCP_STREAM"
            found = tool("iperf3").read(said(f"iperf3_{version}_{kind}.json"), spec(of, 512))
            assert found.notes == (), (version, kind)


@pytest.mark.parametrize("by_end", [True, False])
def test_datagrams_that_came_twice_are_no_loss_and_no_error(by_end: bool) -> None:
    whole: dict[str, Any] = {
        "seconds": 2.0,
        "bytes": 2000000,
        "bits_per_second": 8e6,
        "jitter_ms": 0.1,
    }
    whole |= {"packets": 1389, "lost_packets": -3, "lost_percent": -0.2}
    end = {"sum": whole}
    if by_end:
        end |= {"sum_sent": whole | {"lost_packets": 0}, "sum_received": whole}
    found = read_iperf3({"start": {"version": "iperf 3.9"}, "end": end}, "UDP_STREAM")
    assert found.loss_ratio == 0
    assert found.bits_per_second == pytest.approx(8e6)
    assert any("-3 datagrams lost" in note for note in found.notes)


@pytest.mark.parametrize("nothing", [-1, float("nan"), None, "", 1e400])
def test_a_number_without_meaning_does_not_cost_the_others(nothing: object) -> None:
    sums = {"bytes": 250_000_000, "seconds": 2.0, "bits_per_second": 1e9}
    end: dict[str, object] = {
        "sum_sent": sums | {"retransmits": nothing},
        "sum_received": sums,
        "cpu_utilization_percent": {"host_total": nothing, "remote_total": 7.0},
        "streams": [{"sender": {"min_rtt": nothing, "mean_rtt": nothing, "max_rtt": nothing}}],
    }
    told = {"start": {"version": "iperf 3.17", "tcp_mss_default": 0}, "end": end}
    found = read_iperf3(told, "TCP_STREAM")
    assert (found.bits_per_second, found.retransmits, found.segment_octets) == (1e9, None, None)
    assert (found.client_cpu_percent, found.server_cpu_percent) == (None, 7.0)
    assert found.tcp_round_trip_us == {}
    if not isinstance(nothing, float | int):
        return
    udp = udp_of_two_versions()
    udp["end"]["sum"] = udp["end"]["sum_received"] = {
        **udp["end"]["sum_received"],
        "jitter_ms": nothing,
    }
    assert read_iperf3(udp, "UDP_STREAM").jitter_ms is None


def test_iperf3_whose_rate_is_not_that_of_its_octets_says_so() -> None:
    told = udp_of_two_versions()
    told["end"]["sum_sent"] = {**told["end"]["sum_sent"], "bits_per_second": 4e9}
    assert any("4e+09 bit/s" in n for n in read_iperf3(told, "UDP_STREAM").notes)
    plain = read_iperf3(udp_of_two_versions(), "UDP_STREAM")
    assert not any("bit/s" in n for n in plain.notes)


@pytest.mark.parametrize(
    ("times", "wrong"),
    [
        ({"min": 10.0, "mean": 0.0, "max": 20.0}, "mean 0 below min 10"),
        ({"min": 1.0, "50": 9.0, "99": 5.0, "max": 10.0}, "99 5 below 50 9"),
        ({"min": 1.0, "mean": 30.0, "max": 20.0}, "max 20 below mean 30"),
        ({"mean": float("nan")}, "mean nan"),
        ({"min": 1.0, "mean": 2.0, "50": 1.5, "99.9": 7.0, "max": 7.0}, ""),
        ({}, ""),
    ],
)
def test_times_of_one_distribution_are_held_against_each_other(
    times: dict[str, float], wrong: str
) -> None:
    assert contradiction(times) == wrong
    kept, notes = consistent_times(times, "round trips")
    assert kept == ({} if wrong else times)
    assert bool(notes) == bool(wrong)


def test_sockperf_and_netperf_whose_times_contradict_each_other_keep_their_rates() -> None:
    text = (RECORDED / "sockperf_3.7_udp_pp.txt").read_text()
    odd = re.sub(r"avg-rtt=7.396", "avg-rtt=1.5", text)
    found = tool("sockperf").read(ToolOutput(odd, "", ""), spec("UDP_RR", 64))
    whole = tool("sockperf").read(ToolOutput(text, "", ""), spec("UDP_RR", 64))
    assert found.transactions_per_second == whole.transactions_per_second
    assert (found.round_trip_us, whole.notes) == ({}, ())
    assert any("mean 1.5 below min 4.035" in note for note in found.notes)
    text = (RECORDED / "netperf_2.7.0_TCP_RR.txt").read_text()
    odd = re.sub("MIN_LATENCY=4", "MIN_LATENCY=4000", text)
    found = tool("netperf").read(ToolOutput(odd, "", ""), spec("TCP_RR", 64))
    assert (found.transactions_per_second, found.round_trip_us) == (185851.65, {})
    assert tool("netperf").read(ToolOutput(text, "", ""), spec("TCP_RR", 64)).notes == ()


def test_more_that_arrives_than_was_sent_is_said() -> None:
    text = (RECORDED / "netperf_2.7.0_TCP_STREAM.txt").read_text()
    odd = re.sub("REMOTE_BYTES_RECVD=.*", "REMOTE_BYTES_RECVD=528259328", text)
    assert tool("netperf").read(ToolOutput(odd, "", ""), spec("TCP_STREAM")).notes
    for version in ("2.7.0", "2.7.1"):
        heard = said(f"netperf_{version}_TCP_STREAM.txt")
        assert tool("netperf").read(heard, spec("TCP_STREAM")).notes == ()
    heard = said("sockperf_3.7_udp_stream.txt", "sockperf_3.7_udp_stream_server.txt")
    odd = re.sub("Total 131905", "Total 999999", heard.server)
    found = tool("sockperf").read(ToolOutput(heard.client, odd, ""), spec("UDP_STREAM"))
    assert found.loss_ratio == 0
    assert any("999999 messages" in note for note in found.notes)
    assert tool("sockperf").read(heard, spec("UDP_STREAM")).notes == ()


@pytest.mark.parametrize("name", ["cpu", "random_read"])
def test_sysbench_whose_rate_is_not_that_of_its_work_says_so(name: str) -> None:
    text = (RECORDED / f"sysbench_1.0.20_{name}.txt").read_text()
    kind: Kind = "GUEST_CPU" if name == "cpu" else "GUEST_RANDOM_READ"
    asked = spec(kind, None, instances=int(re.findall(r"threads: (\d+)", text)[0]))
    assert tool("sysbench").read(ToolOutput(text, "", ""), asked).notes == ()
    odd = re.sub(r"total number of events: +\d+", "total number of events: 900", text)
    (note,) = tool("sysbench").read(ToolOutput(odd, "", ""), asked).notes
    assert "900 events" in note


def test_a_loss_at_the_end_that_intervals_cannot_know_is_no_difference() -> None:
    told = udp_of_two_versions()
    told["server_output_json"]["intervals"] = [
        {"sum": {"seconds": 1.0, "bytes": 1, "packets": 99, "lost_packets": 0, "jitter_ms": 0.0}}
    ]
    told["end"]["sum_received"] = {**told["end"]["sum_received"], "lost_packets": 9379}
    found = read_iperf3(told, "UDP_STREAM")
    assert found.loss_ratio == pytest.approx(1 - 490000800 / 501255600)
    assert not any("differ" in note for note in found.notes)


@pytest.mark.parametrize("unsigned", [4294967295, 18446744073709551615])
def test_minus_one_without_its_sign_is_no_count(unsigned: int) -> None:
    assert figure_or_none(unsigned) is figure_or_none(str(unsigned)) is None
    assert figure_or_none(unsigned - 4096) == pytest.approx(unsigned)
    text = (RECORDED / "sockperf_3.7_udp_pp.txt").read_text()
    text = text.replace("# dropped messages = 0", f"# dropped messages = {unsigned}")
    found = tool("sockperf").read(ToolOutput(text, "", ""), spec("UDP_RR", 64))
    assert (found.loss_ratio, found.bits_per_second) == (None, found.sent_bits_per_second)


@pytest.mark.parametrize("place", ["sum", "interval"])
def test_a_jitter_that_is_none_costs_neither_the_transfer_nor_its_intervals(place: str) -> None:
    told = udp_of_two_versions()
    told["end"]["sum_received"] = told["end"]["sum_sent"]
    if place == "sum":
        told["end"]["sum"] = told["end"]["sum"] | {"jitter_ms": None, "lost_percent": None}
    else:
        first = told["server_output_json"]["intervals"][0]["sum"]
        told["server_output_json"]["intervals"][0] = {"sum": first | {"jitter_ms": None}}
    found = read_iperf3(told, "UDP_STREAM")
    assert found.loss_ratio == pytest.approx(4689 / 208856)
    assert len(found.intervals) == 2
    assert [one.jitter_ms for one in found.intervals][-1] == 0.004


def test_an_interval_that_is_left_out_of_the_sums_is_none_of_the_loss() -> None:
    told = udp_of_two_versions()
    told["end"]["sum_received"] = told["end"]["sum_sent"]
    whole = {"seconds": 1.0, "bytes": 250627800, "packets": 208856, "lost_packets": 0}
    warm_up = whole | {"lost_packets": 200000, "omitted": True}
    told["server_output_json"]["intervals"] = [{"sum": warm_up}, {"sum": whole}]
    found = read_iperf3(told, "UDP_STREAM")
    assert (found.loss_ratio, len(found.intervals)) == (0, 1)


@pytest.mark.parametrize(
    "wrapped",
    [
        "warning: {TCP_MAXSEG} cannot be set\n%s",
        "%s\niperf3: getsockopt {3}\n",
        "\ufeff%s\r\n",
        "%s%s",
    ],
)
def test_json_is_found_between_what_others_print(wrapped: str) -> None:
    told = json.dumps(udp_of_two_versions())
    text = wrapped.replace("%s", told)
    found = tool("iperf3").read(ToolOutput(text, "", ""), spec("UDP_STREAM", 1200))
    assert found == read_iperf3(udp_of_two_versions(), "UDP_STREAM")


def test_what_c_prints_for_no_number_is_none() -> None:
    told = json.dumps(udp_of_two_versions()).replace('"jitter_ms": 0.004', '"jitter_ms": -nan')
    found = tool("iperf3").read(ToolOutput(told, "", ""), spec("UDP_STREAM", 1200))
    assert found.jitter_ms is None
    assert found.loss_ratio == pytest.approx(1 - 490000800 / 501255600)


def test_a_receiver_that_has_more_in_a_second_than_was_sent_is_said() -> None:
    sums = {"bytes": 250_000_000, "seconds": 2.0, "bits_per_second": 1e9}
    faster = sums | {"seconds": 0.5, "bits_per_second": 4e9}
    told = {"start": {}, "end": {"sum_sent": sums, "sum_received": faster}}
    (note,) = read_iperf3(told, "TCP_STREAM").notes
    assert "more than was sent" in note
    told["end"]["sum_received"] = sums
    assert read_iperf3(told, "TCP_STREAM").notes == ()


def test_netperf_whose_rate_is_not_that_of_its_octets_says_so() -> None:
    text = (RECORDED / "netperf_2.7.0_TCP_STREAM.txt").read_text()
    longer = re.sub(r"ELAPSED_TIME=.*", "ELAPSED_TIME=10.00", text)
    assert longer != text
    found = tool("netperf").read(ToolOutput(longer, "", ""), spec("TCP_STREAM"))
    assert sum("octets in 10 s are" in note for note in found.notes) == 2
    assert tool("netperf").read(ToolOutput(text, "", ""), spec("TCP_STREAM")).notes == ()


def test_sockperf_whose_times_are_of_others_than_its_answers_says_so() -> None:
    text = (RECORDED / "sockperf_3.7_udp_pp.txt").read_text()
    fewer = text.replace("Total 208623 observations", "Total 77 observations")
    found = tool("sockperf").read(ToolOutput(fewer, "", ""), spec("UDP_RR", 64))
    assert any("are of 77 times, of 208623 answers" in note for note in found.notes)
    slower = text.replace("avg-rtt=7.396", "avg-rtt=70.96")
    found = tool("sockperf").read(ToolOutput(slower, "", ""), spec("UDP_RR", 64))
    assert any("take more than all the time" in note for note in found.notes)


def tcp_stream() -> dict[str, Any]:
    sums = {"bytes": 250_000_000, "seconds": 2.0, "bits_per_second": 1e9}
    trips = {"min_rtt": 10, "mean_rtt": 20, "max_rtt": 30}
    end = {"sum_sent": sums | {"retransmits": 3}, "sum_received": sums}
    end |= {"streams": [{"sender": trips}], "sender_tcp_congestion": "cubic"}
    end |= {"cpu_utilization_percent": {"host_total": 50.0, "remote_total": 4.0}}
    return {"start": {"version": "iperf 3.17", "tcp_mss_default": 1448}, "end": end}


@given(odd.changed(udp_of_two_versions()))
def test_whatever_iperf3_says_of_datagrams_is_a_result_or_why_it_is_none(told: Any) -> None:
    with contextlib.suppress(UnreadableError):
        found = read_iperf3(told, "UDP_STREAM")
        assert found.bits_per_second
        assert found.loss_ratio is None or 0 <= found.loss_ratio <= 1


@given(odd.changed(tcp_stream()))
def test_whatever_iperf3_says_of_a_stream_is_a_result_or_why_it_is_none(told: Any) -> None:
    with contextlib.suppress(UnreadableError):
        assert read_iperf3(told, "TCP_STREAM").bits_per_second
    heard = ToolOutput(json.dumps(told), "", "iperf 3.17 (cJSON)")
    assert tool("iperf3").version(heard)


@pytest.mark.parametrize("odd_number", ["7,396", "7.396e+03", "7.396.1"])
def test_a_number_is_read_whole_or_not_at_all(odd_number: str) -> None:
    """Of a decimal comma, or a power of ten, the digits before it are another number."""
    text = (RECORDED / "sockperf_3.7_udp_pp.txt").read_text()
    for name in ("avg-rtt=7.396", "avg-latency=7.396"):
        text = text.replace(name, f"avg-rtt={odd_number}")
    with pytest.raises(UnreadableError, match="lacks avg-rtt"):
        tool("sockperf").read(ToolOutput(text, "", ""), spec("UDP_RR", 64))
    events = (RECORDED / "sysbench_1.0.20_cpu.txt").read_text()
    events = re.sub(r"(events per second:\s*)[\d.]+", rf"\g<1>{odd_number}", events)
    with pytest.raises(UnreadableError, match="lacks events per second"):
        tool("sysbench").read(ToolOutput(events, "", ""), spec("GUEST_CPU", instances=2))
