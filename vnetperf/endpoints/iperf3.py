"""iperf3: streams of TCP and UDP, by its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

from vnetperf.endpoints.base import EndpointTool, Sockets, ToolOutput
from vnetperf.model.testbed import Program
from vnetperf.model.transfer import Figures, Kind, SubInterval, TransferSpec

#: Longest wait for the server's answer, milliseconds. That nothing arrives is seen before.
CONNECT_MS = 10_000
#: Samples of TCP's round-trip time that a stream is to have, as far as iperf3 looks so often.
SAMPLES = 20


class Iperf3(EndpointTool):
    """iperf3 3.1 and later; a process has one thread before 3.16."""

    name: ClassVar[str] = "iperf3"
    programs: ClassVar[tuple[Program, ...]] = (
        Program(name="iperf3", package="iperf3", version_args=("--version",), by_make=True),
    )
    kinds: ClassVar[tuple[Kind, ...]] = ("TCP_STREAM", "UDP_STREAM")
    version_argv: ClassVar[tuple[str, ...]] = ("iperf3", "--version")

    def least_message(self, kind: Kind) -> int:
        """A datagram has a time and a number in it."""
        return 16 if kind == "UDP_STREAM" else 1

    def paces(self, spec: TransferSpec) -> bool:
        """UDP is sent by a clock."""
        return spec.is_udp

    def server(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A server; its control connection is TCP for every kind of stream."""
        argv = ("iperf3", "--server", "--bind", at.server, "--port", str(at.port))
        return (*argv, "--json") if spec.is_udp else argv

    def client(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A client that sends."""
        argv = ["iperf3", "--client", at.server, "--bind", at.client, "--port", str(at.port)]
        argv += ["--json", "--time", str(spec.duration_s), "--connect-timeout", str(CONNECT_MS)]
        if spec.is_udp:  # the receiver alone knows what arrived in each second
            argv += ["--get-server-output"]
        else:
            argv += ["--interval", f"{_interval_s(spec.duration_s):g}"]
        if spec.message_size is not None:
            argv += ["--length", str(spec.message_size)]
        if spec.is_udp:  # its own rate would be 1 Mbit/s; 0 is as fast as it can
            rate = f"{max(1.0, spec.rate_bps):.0f}" if spec.rate_bps else "0"
            argv += ["--udp", "--bitrate", rate]
        return tuple(argv)

    def read(self, output: ToolOutput, spec: TransferSpec) -> Figures:
        """The receiver's counts, and the rate of the sender."""
        try:
            report = _json(output)
        except json.JSONDecodeError as error:
            raise self.unreadable(output, "it printed no JSON") from error
        if not isinstance(report, dict):
            raise self.unreadable(output, "its JSON is no object")
        if "error" in report:
            raise self.unreadable(output, f"it failed: {report['error']}")
        end = report.get("end")
        if not isinstance(end, dict) or not end:
            raise self.unreadable(output, "its output lacks 'end'")

        def figure(part: str, key: str) -> float:
            return self.figure(output, f"{part}.{key}", lambda: end[part][key])

        def optional(part: str, key: str) -> float | None:
            held = end.get(part)
            there = isinstance(held, dict) and held.get(key) is not None
            return figure(part, key) if there else None

        if spec.is_udp:
            figures = _udp_figures(figure, by_end="sum_received" in end)
            figures = figures.model_copy(update={"intervals": _intervals(report)})
        else:
            retransmits = optional("sum_sent", "retransmits")
            figures = Figures(
                bits_per_second=figure("sum_received", "bits_per_second"),
                sent_bits_per_second=figure("sum_sent", "bits_per_second"),
                retransmits=None if retransmits is None else int(retransmits),
                sent_octets=optional("sum_sent", "bytes"),
                segment_octets=(report.get("start") or {}).get("tcp_mss_default"),
                tcp_round_trip_us=_round_trips(end, len(report.get("intervals") or ())),
            )
        if not figures.bits_per_second:  # not every version fails when the server has gone
            raise self.unreadable(output, "its receiver counted nothing")
        cpu = {
            "client_cpu_percent": optional("cpu_utilization_percent", "host_total"),
            "server_cpu_percent": optional("cpu_utilization_percent", "remote_total"),
        }
        return figures.model_copy(update=cpu)

    def version(self, output: ToolOutput) -> str:
        """The version in its JSON, which is the sender's, with TCP's congestion control."""
        try:
            report = _json(output)
            version = str(report["start"]["version"])
        except (KeyError, TypeError, ValueError):
            return super().version(output)
        control = (report.get("end") or {}).get("sender_tcp_congestion")
        return f"{version}, TCP {control}" if control else version


def _json(output: ToolOutput) -> Any:
    """Its JSON, which may have warnings around it."""
    text = output.client
    return json.loads(text[text.find("{") : text.rfind("}") + 1])


def _interval_s(duration_s: float) -> float:
    """How often the round trip of TCP is looked at, seconds: by itself iperf3 does so each second.

    It takes 0.1 to 60 s.
    """
    return min(1.0, max(0.1, round(duration_s / SAMPLES, 1)))


def _round_trips(end: dict[str, Any], samples: int) -> dict[str, float]:
    """The sender's round-trip time, of the only stream; versions without it say 0."""
    try:
        sender = end["streams"][0]["sender"]
        found = {name: float(sender[f"{name}_rtt"]) for name in ("min", "mean", "max")}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}
    return found | {"samples": float(samples)} if found["min"] > 0 else {}


def _intervals(report: dict[str, Any]) -> tuple[SubInterval, ...]:
    """The receiver's intervals; none of a server that does not report in JSON."""
    try:
        sums = [one["sum"] for one in report["server_output_json"]["intervals"]]
        return tuple(
            SubInterval(
                seconds=one["seconds"],
                octets=one["bytes"],
                received=max(0, one["packets"] - one["lost_packets"]),
                lost=max(0, one["lost_packets"]),
                jitter_ms=one["jitter_ms"],
            )
            for one in sums
        )
    except (KeyError, TypeError, ValueError):
        return ()


def _udp_figures(figure: Callable[[str, str], float], *, by_end: bool) -> Figures:
    """Figures of datagrams: `by_end` with a summary for each end, which versions from 3.12 have.

    Before, `sum` has the receiver's loss and the sender's rate.
    """
    lost = figure("sum", "lost_percent") / 100
    if by_end:
        rate = figure("sum_received", "bits_per_second")
        offered = figure("sum_sent", "bits_per_second")
        # The receiver does not know of datagrams that are lost at the end.
        received = figure("sum_received", "packets") - figure("sum_received", "lost_packets")
        if sent := figure("sum_sent", "packets"):
            lost = 1 - received / sent
    else:
        offered = figure("sum", "bits_per_second")
        rate = offered * (1 - lost)
    return Figures(
        bits_per_second=rate,
        sent_bits_per_second=offered,
        loss_ratio=min(1.0, max(0.0, lost)),
        jitter_ms=figure("sum", "jitter_ms"),
    )
