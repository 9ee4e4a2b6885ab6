"""netperf: streams and request/response over TCP and UDP, by its omni output."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from vnetperf.model.testbed import Program
from vnetperf.model.transfer import Figures, Kind, TransferSpec
from vnetperf.plugin.endpoint_tool import (
    EndpointTool,
    Sockets,
    ToolOutput,
    consistent_times,
    figure_or_none,
    note_lockstep,
    note_rate,
    note_surplus,
)

_LATENCY = {
    "min": "MIN_LATENCY",
    "mean": "MEAN_LATENCY",
    "50": "P50_LATENCY",
    "90": "P90_LATENCY",
    "99": "P99_LATENCY",
    "max": "MAX_LATENCY",
}
#: Requested output; a version leaves out what it does not know.
_KEYS = (
    *("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME"),
    *("LOCAL_SEND_THROUGHPUT", "REMOTE_RECV_THROUGHPUT", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"),
    *("LOCAL_TRANSPORT_RETRANS", "LOCAL_CPU_UTIL", "REMOTE_CPU_UTIL"),
    *_LATENCY.values(),
)
#: Units of throughput in streams and in request/response.
_BITS, _TRANSACTIONS = "10^6bits/s", "Trans/s"
#: Least share of its time that round trips take where none was lost: nearly all of it.
_BUSY = 0.75
#: By how much two of its figures for one thing may differ, as a share of it.
_APART = 0.05
#: Its percentiles are of buckets of its own; what they are held against is exact.
_BUCKETS = 0.5

#: Debian counts its licence as free since release 13.
_PACKAGE = "netperf (Debian has it in the section main, up to 12 in non-free)"


class Netperf(EndpointTool):
    """netperf 2.6 and later."""

    name: ClassVar[str] = "netperf"
    programs: ClassVar[tuple[Program, ...]] = (
        Program(name="netperf", package=_PACKAGE, version_args=("-V",), debian=("netperf",)),
        Program(name="netserver", package=_PACKAGE, debian=("netperf",)),
    )
    kinds: ClassVar[tuple[Kind, ...]] = ("TCP_STREAM", "UDP_STREAM", "TCP_RR", "UDP_RR")
    version_argv: ClassVar[tuple[str, ...]] = ("netperf", "-V")
    #: One for control, one for data.
    ports: ClassVar[int] = 2
    reports_machine_cpu: ClassVar[bool] = True

    def server(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A server in one process, which leaves no log under /tmp."""
        return ("netserver", "-D", "-f", "-N", "-L", f"{sockets.server},4", "-p", str(sockets.port))

    def client(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A client of one test; statistics of time between calls, processors of both machines."""
        addresses = ("-H", f"{sockets.server},4", "-L", f"{sockets.client},4")
        argv = ["netperf", *addresses, "-p", str(sockets.port)]
        argv += ["-t", spec.kind, "-l", str(spec.duration_s), "-c", "-C", "-j", "--"]
        argv += [*addresses, "-P", f",{sockets.port + 1}"]
        if spec.message_size is not None and spec.is_stream:
            argv += ["-m", str(spec.message_size)]
        elif spec.message_size is not None:
            argv += ["-r", f"{spec.message_size},{spec.message_size}"]
        if spec.kind == "UDP_STREAM":
            argv += ["-R", "1"]  # it would not be routed otherwise
        return (*argv, "-k", ",".join(_KEYS))

    def read(self, output: ToolOutput, spec: TransferSpec) -> Figures:
        """The receiver's counts, or the rate and times of round trips."""
        lines = (line.split("=", 1) for line in output.client.splitlines() if "=" in line)
        report = {key: value for key, value in lines if key in _KEYS}
        if "THROUGHPUT" not in report:
            raise self.unreadable(output, "its output lacks THROUGHPUT")
        unit = _BITS if spec.is_stream else _TRANSACTIONS
        if report.get("THROUGHPUT_UNITS") != unit:
            reported_unit = report.get("THROUGHPUT_UNITS", "no unit")
            raise self.unreadable(output, f"it reports {reported_unit} instead of {unit}")

        def value(key: str) -> float:
            return self.figure(output, key, lambda: float(report[key]))

        cpu = {
            "client_cpu_percent": figure_or_none(report.get("LOCAL_CPU_UTIL")),
            "server_cpu_percent": figure_or_none(report.get("REMOTE_CPU_UTIL")),
        }
        if spec.is_stream:
            sent, arrived = value("LOCAL_BYTES_SENT"), value("REMOTE_BYTES_RECVD")
            if not sent or not arrived:
                raise self.unreadable(output, "its receiver counted nothing")
            retransmits = figure_or_none(report.get("LOCAL_TRANSPORT_RETRANS"))
            # Both are of the whole time, so that a share of one is the same share of the other.
            by_rate = value("REMOTE_RECV_THROUGHPUT") / (value("LOCAL_SEND_THROUGHPUT") or inf)
            notes = note_surplus(sent, arrived, "octets")
            if abs(by_rate - arrived / sent) > _APART:
                notes += (
                    f"{arrived / sent:.2%} of the octets arrived, but the rates say {by_rate:.2%}",
                )
            for rate_key, octets in (
                ("LOCAL_SEND_THROUGHPUT", sent),
                ("REMOTE_RECV_THROUGHPUT", arrived),
            ):
                seconds = figure_or_none(report.get("ELAPSED_TIME")) or 0.0
                notes += note_rate(rate_key, value(rate_key) * 1e6, octets, seconds, digit_bps=1e4)
            return Figures(
                bits_per_second=value("REMOTE_RECV_THROUGHPUT") * 1e6,
                sent_bits_per_second=value("LOCAL_SEND_THROUGHPUT") * 1e6,
                retransmits=None if retransmits is None or spec.is_udp else int(retransmits),
                loss_ratio=max(0.0, 1 - arrived / sent) if spec.is_udp else None,
                notes=notes,
                **cpu,
            )
        rate, mean_us = value("THROUGHPUT"), value("MEAN_LATENCY")
        if not rate:
            raise self.unreadable(output, "no message was answered")
        if rate * mean_us / 1e6 < _BUSY:
            raise self.unreadable(
                output,
                f"it waited for an answer {rate * mean_us / 1e4:.0f} % of its time only: a message "
                "was lost on its way or back, and it sends none before the answer",
            )
        latencies = {name: figure_or_none(report.get(key)) for name, key in _LATENCY.items()}
        measured = {name: time for name, time in latencies.items() if time is not None}
        times, notes = consistent_times(measured, "round trips", _BUCKETS)
        notes += note_lockstep(rate, mean_us)
        return Figures(
            transactions_per_second=rate,
            bits_per_second=None if spec.message_size is None else rate * spec.message_size * 8,
            round_trip_us=times,
            notes=notes,
            **cpu,
        )
