"""iperf3: streams of TCP and UDP, by its JSON."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from vnetperf.host.programs import printed_object
from vnetperf.model.testbed import Program
from vnetperf.model.transfer import Figures, Kind, SubInterval, TransferSpec
from vnetperf.plugin.endpoint_tool import (
    EndpointTool,
    Sockets,
    ToolOutput,
    consistent_times,
    figure_or_none,
    note_rate,
    note_surplus,
)

#: Longest wait for the server's answer, milliseconds. That nothing arrives is seen before.
CONNECT_MS = 10_000
#: Samples of TCP's round-trip time that a stream is to have, as far as iperf3 looks so often.
SAMPLES = 20
#: By how much two of its counts of one loss may differ: what is under way between two intervals.
_LOSS_APART = 1e-3
_INTERVALS = "the receiver's intervals"
#: By how much two of its figures of one rate may differ, as a share of it.
_RATE_APART = 0.01
#: By how much more its receiver may have than its sender: the two measure their time by themselves.
_FASTER = 0.05
#: What C prints for what is no number, which is no JSON.
_NAN = re.compile(r"(?<=[:\[,])(\s*)-?(?:nan|inf)\b")
#: Segments of TCP that are none: where the kernel tells none, the option is 0 or the least allowed.
_LEAST_SEGMENT = 48


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

    def server(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A server; its control connection is TCP for every kind of stream."""
        argv = ("iperf3", "--server", "--bind", sockets.server, "--port", str(sockets.port))
        return (*argv, "--json") if spec.is_udp else argv

    def client(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A client that sends."""
        argv = ["iperf3", "--client", sockets.server]
        argv += ["--bind", sockets.client, "--port", str(sockets.port)]
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
        report = _json(output)
        if report is None:
            raise self.unreadable(output, "it printed no JSON")
        if "error" in report:
            raise self.unreadable(output, f"it failed: {report['error']}")
        end = report.get("end")
        if not isinstance(end, dict) or not end:
            raise self.unreadable(output, "its output lacks 'end'")

        def figure(part: str, key: str) -> float:
            return self.figure(output, f"{part}.{key}", lambda: end[part][key])

        def optional(part: str, key: str) -> float | None:
            section = end.get(part)
            return figure_or_none(section.get(key)) if isinstance(section, dict) else None

        if spec.is_udp:
            intervals = _intervals(report)
            for key in ("lost_percent", "jitter_ms"):
                self._expect_key(output, end, "sum", key)
            figures = (
                self._by_end(output, end, intervals)
                if "sum_received" in end
                else self._by_receiver(output, end, intervals)
            ).model_copy(update={"intervals": intervals, "jitter_ms": optional("sum", "jitter_ms")})
        else:
            retransmits = optional("sum_sent", "retransmits")
            looks = report.get("intervals")
            trips, notes = _round_trips(end, len(looks) if isinstance(looks, list) else 0)
            sent, arrived = optional("sum_sent", "bytes"), optional("sum_received", "bytes")
            if sent is not None and arrived is not None:
                notes += note_surplus(sent, arrived, "octets")
            figures = Figures(
                bits_per_second=figure("sum_received", "bits_per_second"),
                sent_bits_per_second=figure("sum_sent", "bits_per_second"),
                retransmits=None if retransmits is None else int(retransmits),
                sent_octets=sent,
                segment_octets=_segment(report),
                tcp_round_trip_us=trips,
                notes=notes,
            )
        if not figures.bits_per_second:  # not every version fails when the server has gone
            raise self.unreadable(output, "its receiver counted nothing")
        details = {
            "client_cpu_percent": optional("cpu_utilization_percent", "host_total"),
            "server_cpu_percent": optional("cpu_utilization_percent", "remote_total"),
            "notes": figures.notes + _notes_on_rates(end) + _notes_on_versions(report),
        }
        return figures.model_copy(update=details)

    def _by_end(
        self, output: ToolOutput, end: dict[str, Any], intervals: tuple[SubInterval, ...]
    ) -> Figures:
        """Figures of datagrams with a summary for each end, which versions from 3.12 have.

        Clients and servers of different versions fill in the receiver's count of lost datagrams
        differently, some with 0. The octets are those that each end counted itself.
        """

        def figure(part: str, key: str) -> float:
            return self.figure(output, f"{part}.{key}", lambda: end[part][key])

        rate, offered = (figure(part, "bits_per_second") for part in ("sum_received", "sum_sent"))
        sent = figure("sum_sent", "packets")
        # The receiver does not know of datagrams that are lost at the end.
        missing = self._count(output, end, "sum_received", "lost_packets")
        received = figure("sum_received", "packets") - missing
        losses: dict[str, float] = {}
        octets, arrived = figure("sum_sent", "bytes"), figure("sum_received", "bytes")
        if octets:
            losses["the octets of both ends"] = 1 - arrived / octets
        if sent:
            losses["its summary's datagrams"] = 1 - received / sent
        losses |= _compute_losses(intervals)
        if not losses:
            raise self.unreadable(output, "its sender counted nothing")
        loss, notes = _reconcile_losses(losses)
        if missing < 0 or arrived > octets:
            notes += (_describe_surplus(missing, arrived - octets),)
        return Figures(
            bits_per_second=rate, sent_bits_per_second=offered, loss_ratio=loss, notes=notes
        )

    def _by_receiver(
        self, output: ToolOutput, end: dict[str, Any], intervals: tuple[SubInterval, ...]
    ) -> Figures:
        """The same before 3.12: `sum` has the receiver's loss and the sender's rate."""
        offered = self.figure(output, "sum.bits_per_second", lambda: end["sum"]["bits_per_second"])
        percent = self._count(output, end, "sum", "lost_percent")
        loss, notes = _reconcile_losses(
            {"its summary's datagrams": percent / 100} | _compute_losses(intervals)
        )
        if percent < 0:
            notes += (_describe_surplus(self._count(output, end, "sum", "lost_packets"), 0),)
        return Figures(
            bits_per_second=offered * (1 - loss),
            sent_bits_per_second=offered,
            loss_ratio=loss,
            notes=notes,
        )

    def _expect_key(self, output: ToolOutput, end: dict[str, Any], part: str, key: str) -> None:
        """Refuse an output that lacks a number, but not one whose number has no meaning.

        It writes what is no number as null.
        """
        try:
            _ = None if end[part][key] is None else float(end[part][key])
        except (KeyError, TypeError, ValueError) as error:
            raise self.unreadable(output, f"its output lacks {part}.{key}") from error

    def _count(self, output: ToolOutput, end: dict[str, Any], part: str, key: str) -> float:
        """A count that is below 0 where datagrams came twice, or late into another's place."""
        self.figure(output, f"{part}.{key}", lambda: abs(float(end[part][key])))
        return float(end[part][key])

    def version(self, output: ToolOutput) -> str:
        """The version in its JSON, which is the sender's, with TCP's congestion control."""
        report = _json(output) or {}
        try:
            version = str(report["start"]["version"])
        except (KeyError, TypeError):
            return super().version(output)
        end = report.get("end")
        control = end.get("sender_tcp_congestion") if isinstance(end, dict) else None
        return f"{version}, TCP {control}" if control else version


def _json(output: ToolOutput) -> dict[str, Any] | None:
    """Its JSON, which may have warnings around it, with braces of their own."""
    return printed_object(_NAN.sub(r"\1null", output.client))


def _interval_s(duration_s: float) -> float:
    """How often the round trip of TCP is looked at, seconds: by itself iperf3 does so each second.

    It takes 0.1 to 60 s.
    """
    return min(1.0, max(0.1, round(duration_s / SAMPLES, 1)))


def _segment(report: dict[str, Any]) -> int | None:
    """The largest segment; None where the kernel told none."""
    start = report.get("start")
    octets = figure_or_none(start.get("tcp_mss_default") if isinstance(start, dict) else None)
    return int(octets) if octets is not None and octets >= _LEAST_SEGMENT else None


def _round_trips(end: dict[str, Any], samples: int) -> tuple[dict[str, float], tuple[str, ...]]:
    """The sender's round-trip time, of the only stream; versions without it say 0."""
    try:
        sender = end["streams"][0]["sender"]
        rtts_us = {name: float(sender[f"{name}_rtt"]) for name in ("min", "mean", "max")}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}, ()
    if not all(value > 0 for value in rtts_us.values()):
        return {}, ()
    times, notes = consistent_times(rtts_us, "round-trip times of TCP")
    return (times | {"samples": float(samples)} if times else {}), notes


def _intervals(report: dict[str, Any]) -> tuple[SubInterval, ...]:
    """The receiver's intervals; none of a server that does not report in JSON."""
    try:
        sums = [interval["sum"] for interval in report["server_output_json"]["intervals"]]
        return tuple(
            SubInterval(
                seconds=interval["seconds"],
                octets=interval["bytes"],
                received=max(0, interval["packets"] - interval["lost_packets"]),
                lost=max(0, interval["lost_packets"]),
                jitter_ms=figure_or_none(interval.get("jitter_ms")),
            )
            for interval in sums
            if not interval.get("omitted")  # before its warm-up had ended
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()


def _compute_losses(intervals: tuple[SubInterval, ...]) -> dict[str, float]:
    """What the receiver's intervals lost."""
    due = sum(interval.received + interval.lost for interval in intervals)
    lost = sum(interval.lost for interval in intervals)
    return {_INTERVALS: lost / due} if due else {}


def _reconcile_losses(losses: dict[str, float]) -> tuple[float, tuple[str, ...]]:
    """One of several figures of one loss, and what to say where they differ.

    The first where they agree; otherwise the largest, so that no loss is hidden by a count that one
    of the two ends left at 0. Intervals may have less: they know of no loss at the end.
    """
    bounded = {name: min(1.0, max(0.0, loss)) for name, loss in losses.items()}
    (_, loss), *others = bounded.items()
    apart = _LOSS_APART + _RATE_APART * loss
    if all(
        other - loss <= apart and (loss - other <= apart or name == _INTERVALS)
        for name, other in others
    ):
        return loss, ()
    texts = ", ".join(f"{fraction:.3%} by {name}" for name, fraction in bounded.items())
    return max(bounded.values()), (
        f"it gives its loss in ways that differ, of which the largest counts: {texts}",
    )


def _describe_surplus(missing: float, octets: float) -> str:
    counted = f"{missing:.0f} datagrams lost" if missing < 0 else f"{octets:.0f} octets too many"
    return f"its receiver counted {counted}: datagrams came twice or out of order"


def _notes_on_rates(end: dict[str, Any]) -> tuple[str, ...]:
    """Where a rate is not that of its own octets and seconds."""
    notes: tuple[str, ...] = ()
    rates = {}
    for part in ("sum_sent", "sum_received"):
        section = end.get(part)
        if not isinstance(section, dict):
            continue
        octets, seconds, rate = (
            figure_or_none(section.get(key)) for key in ("bytes", "seconds", "bits_per_second")
        )
        if octets and seconds and rate is not None:
            notes += note_rate(part, rate, octets, seconds)
            rates[part] = rate
    sent, arrived = (rates.get(part) for part in ("sum_sent", "sum_received"))
    if sent and arrived and arrived > sent * (1 + _FASTER):
        notes += (f"its receiver has {arrived:g} bit/s, its sender {sent:g}: more than was sent",)
    return notes


def _notes_on_versions(report: dict[str, Any]) -> tuple[str, ...]:
    """Where the server that answered says of itself that it is another version."""
    try:
        client = str(report["start"]["version"])
        server = str(report["server_output_json"]["start"]["version"])
    except (KeyError, TypeError):
        return ()
    if client == server:
        return ()
    return (f"its client is {client}, its server {server}",)
