"""iperf3: streams of TCP and UDP, by its JSON."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from vnetperf.endpoints.base import EndpointTool, Sockets, ToolOutput
from vnetperf.model.outcomes import Figures, Kind, TransferSpec
from vnetperf.model.testbed import Program

#: Longest wait for the server's answer, milliseconds. That nothing arrives is seen before.
CONNECT_MS = 10_000


class Iperf3(EndpointTool):
    """iperf3 3.1 and later; a process has one thread before 3.16."""

    name: ClassVar[str] = "iperf3"
    package: ClassVar[str] = "iperf3"
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
        """A server; clients come by TCP whatever they send then."""
        del spec
        return ("iperf3", "--server", "--bind", at.server, "--port", str(at.port))

    def client(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A client that sends."""
        argv = ["iperf3", "--client", at.server, "--bind", at.client, "--port", str(at.port)]
        argv += ["--json", "--time", str(spec.duration_s), "--connect-timeout", str(CONNECT_MS)]
        if spec.message_size is not None:
            argv += ["--length", str(spec.message_size)]
        if spec.is_udp:  # its own rate would be 1 Mbit/s; 0 is as fast as it can
            rate = f"{max(1.0, spec.rate_bps):.0f}" if spec.rate_bps else "0"
            argv += ["--udp", "--bitrate", rate]
        return tuple(argv)

    def read(self, said: ToolOutput, spec: TransferSpec) -> Figures:
        """What the receiver counted; what was sent, beside it."""
        told = self._json(said)
        if "error" in told:
            raise self.unreadable(said, f"it failed: {told['error']}")
        end = told.get("end")
        if not isinstance(end, dict) or not end:
            raise self.unreadable(said, "its output lacks 'end'")
        common = {
            "client_cpu_percent": self._told(said, end, "cpu_utilization_percent", "host_total"),
            "server_cpu_percent": self._told(said, end, "cpu_utilization_percent", "remote_total"),
        }
        figures = self._udp(said, end) if spec.is_udp else self._tcp(said, end)
        if not figures.bits_per_second:  # a server that has gone is no error to all versions
            raise self.unreadable(said, "its receiver counted nothing")
        return figures.model_copy(update=common)

    def _tcp(self, said: ToolOutput, end: dict[str, Any]) -> Figures:
        again = self._told(said, end, "sum_sent", "retransmits")
        return Figures(
            bits_per_second=self._must(said, end, "sum_received", "bits_per_second"),
            sent_bits_per_second=self._must(said, end, "sum_sent", "bits_per_second"),
            retransmits=None if again is None else int(again),
        )

    def _udp(self, said: ToolOutput, end: dict[str, Any]) -> Figures:
        # Before 3.12 `sum` has the receiver's loss and the sender's rate, and is all there is.
        lost = self._must(said, end, "sum", "lost_percent") / 100
        if "sum_received" in end:
            rate = self._must(said, end, "sum_received", "bits_per_second")
            offered = self._must(said, end, "sum_sent", "bits_per_second")
            # What is lost at the end the receiver never hears of.
            came = self._must(said, end, "sum_received", "packets") - self._must(
                said, end, "sum_received", "lost_packets"
            )
            if sent := self._must(said, end, "sum_sent", "packets"):
                lost = 1 - came / sent
        else:
            offered = self._must(said, end, "sum", "bits_per_second")
            rate = offered * (1 - lost)
        return Figures(
            bits_per_second=rate,
            sent_bits_per_second=offered,
            loss_ratio=min(1.0, max(0.0, lost)),
            jitter_ms=self._must(said, end, "sum", "jitter_ms"),
        )

    def _must(self, said: ToolOutput, end: dict[str, Any], part: str, key: str) -> float:
        """A figure of its summary that must be there."""
        return self.figure(said, f"{part}.{key}", lambda: end[part][key])

    def _told(self, said: ToolOutput, end: dict[str, Any], part: str, key: str) -> float | None:
        """A figure of its summary, None where it is not."""
        held = end.get(part)
        known = isinstance(held, dict) and held.get(key) is not None
        return self._must(said, end, part, key) if known else None

    def _json(self, said: ToolOutput) -> dict[str, Any]:
        """Its JSON, with warnings around it perhaps."""
        text = said.client
        try:
            told = json.loads(text[text.find("{") : text.rfind("}") + 1])
        except json.JSONDecodeError as error:
            raise self.unreadable(said, "it printed no JSON") from error
        if not isinstance(told, dict):
            raise self.unreadable(said, "its JSON is no object")
        return told

    def version(self, said: ToolOutput) -> str:
        """What its JSON says, which is what has sent; with TCP's congestion control."""
        try:
            told = self._json_quietly(said.client)
            version = str(told["start"]["version"])
        except (KeyError, TypeError, ValueError):
            return super().version(said)
        control = (told.get("end") or {}).get("sender_tcp_congestion")
        return f"{version}, TCP {control}" if control else version

    @staticmethod
    def _json_quietly(text: str) -> Any:
        return json.loads(text[text.find("{") : text.rfind("}") + 1])
