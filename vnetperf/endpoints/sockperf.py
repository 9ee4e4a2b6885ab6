"""sockperf: round trips of single messages, alone or under a load, and streams of messages."""

from __future__ import annotations

import re
import signal
from typing import ClassVar

from vnetperf.model.testbed import Program
from vnetperf.model.transfer import MAX_DATAGRAM, Figures, Kind, TransferSpec
from vnetperf.plugin.endpoint_tool import (
    COUNT,
    NUMBER,
    EndpointTool,
    Sockets,
    ToolOutput,
    consistent_times,
    figure_or_none,
    note_lockstep,
    note_surplus,
)

_COMMANDS = {"STREAM": "throughput", "RR": "ping-pong", "LOAD": "under-load"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_VERSION = re.compile(r"version #(\S+)")
#: Without warm-up and tail: what percentiles are of.
_VALID = re.compile(
    rf"\[Valid Duration\] RunTime={NUMBER} sec; SentMessages={COUNT}; ReceivedMessages={COUNT}"
)
_WHOLE = re.compile(rf"\[Total Run\] RunTime={NUMBER} sec; Warm up time={COUNT} msec")
#: Its tail, which is not valid either, seconds.
_TAIL_S = 0.05
#: Longest time without an answer at the end of what is valid: a part of it, and seconds, in which
#: processors that are shared may belong to others.
_STANDS, _STANDS_S = 0.25, 0.2
_DROPPED = re.compile(rf"# dropped messages = {COUNT}")
#: What its client saw of answers besides.
_ODD = re.compile(rf"# (duplicated|out-of-order) messages = {COUNT}")
_MEAN = re.compile(rf"avg-rtt=\s*{NUMBER}")
_EXTREME = re.compile(rf"<(MIN|MAX)> observation =\s*{NUMBER}")
_PERCENTILE = re.compile(rf"percentile {NUMBER} =\s*{NUMBER}")
#: How many times percentiles are of.
_OBSERVED = re.compile(rf"Total {COUNT} observations")
_SENT = re.compile(rf"Total of {COUNT} messages sent in {NUMBER} sec")
_HANDLED = re.compile(rf"Total {COUNT} messages received and handled")
_ERROR = re.compile(r"sockperf: (ERROR: .*|No messages were received.*)")
#: Of messages under load one in so many is answered; percentiles need enough of them.
_ANSWERED_PER_SECOND = 1000


class Sockperf(EndpointTool):
    """sockperf 3.5 and later."""

    name: ClassVar[str] = "sockperf"
    programs: ClassVar[tuple[Program, ...]] = (
        Program(name="sockperf", package="sockperf", version_args=("--version",), by_make=True),
    )
    kinds: ClassVar[tuple[Kind, ...]] = (
        *("TCP_RR", "UDP_RR", "TCP_LOAD", "UDP_LOAD"),
        *("TCP_STREAM", "UDP_STREAM"),
    )
    version_argv: ClassVar[tuple[str, ...]] = ("sockperf", "--version")
    #: Only then it reports how many messages came.
    end_server_by: ClassVar[signal.Signals] = signal.SIGINT

    def least_message(self, kind: Kind) -> int:
        """Each message has a header of its own."""
        return 14

    def most_message(self, spec: TransferSpec) -> int:
        """It sends the same over TCP as over UDP."""
        return MAX_DATAGRAM

    def listens_by_udp(self, spec: TransferSpec) -> bool:
        """It has no connection but the one that is measured."""
        return spec.is_udp

    def server(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A server of one protocol."""
        address = ("-i", sockets.server, "-p", str(sockets.port))
        return ("sockperf", "server", *address, *_protocol(spec))

    def client(self, sockets: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        """A client; times are those of round trips, not their halves."""
        command = _COMMANDS[spec.kind.partition("_")[2]]
        argv = ["sockperf", command, "-i", sockets.server, "-p", str(sockets.port)]
        argv += _protocol(spec)
        argv += ["--client_ip", sockets.client, "-t", str(spec.duration_s)]
        if spec.message_size is not None:
            argv += ["-m", str(spec.message_size)]
        if spec.is_stream:
            return (*argv, "--dontwarmup")  # the server counts those messages too
        if spec.kind.endswith("_LOAD"):
            reply_interval = max(1, spec.message_rate // _ANSWERED_PER_SECOND)
            argv += ["--mps", str(spec.message_rate), "--reply-every", str(reply_interval)]
        return (*argv, "--full-rtt")

    def read(self, output: ToolOutput, spec: TransferSpec) -> Figures:
        """The messages that the server handled, or the round trips."""
        text = _COLOURS.sub("", output.client)
        if match := _ERROR.search(text):  # its status is 0 all the same
            raise self.unreadable(output, f"it failed: {match[1]}")
        return (
            self._stream(output, spec, text) if spec.is_stream else self._trips(output, spec, text)
        )

    def _stream(self, output: ToolOutput, spec: TransferSpec, text: str) -> Figures:
        """The client reports what was sent, the server what came, when it ends."""
        sent, handled = _SENT.search(text), _HANDLED.search(_COLOURS.sub("", output.server))
        if sent is None:
            raise self.unreadable(output, "its output lacks 'Total of N messages sent'")
        if handled is None:
            raise self.unreadable(output, "its server's output lacks 'Total N messages received'")
        seconds, size = float(sent[2]), _size(spec)
        if not seconds or not int(sent[1]):
            raise self.unreadable(output, "it sent nothing")
        if not int(handled[1]):
            raise self.unreadable(output, "its server handled no message")
        per_message = size * 8 / seconds
        lost = max(0.0, 1 - int(handled[1]) / int(sent[1]))
        return Figures(
            bits_per_second=min(int(handled[1]), int(sent[1])) * per_message,
            sent_bits_per_second=int(sent[1]) * per_message,
            loss_ratio=lost if spec.is_udp else None,
            notes=note_surplus(int(sent[1]), int(handled[1]), "messages"),
        )

    def _trips(self, output: ToolOutput, spec: TransferSpec, text: str) -> Figures:
        valid, mean = _VALID.search(text), _MEAN.search(text)
        if valid is None or mean is None:
            lacks = "[Valid Duration]" if valid is None else "avg-rtt"
            raise self.unreadable(output, f"its output lacks {lacks}")
        seconds, answered = float(valid[1]), int(valid[3])
        if not seconds or not answered:
            raise self.unreadable(output, "no message was answered")
        times = {"mean": float(mean[1])}
        times |= {name.lower(): float(value) for name, value in _EXTREME.findall(text)}
        times |= {f"{float(name):g}": float(value) for name, value in _PERCENTILE.findall(text)}
        times, notes = consistent_times(times, "round trips")
        counted = _DROPPED.search(text)
        dropped = figure_or_none(counted[1]) if counted else None
        notes += note_surplus(int(valid[2]), answered, "answers")
        if not spec.kind.endswith("_LOAD"):
            self._expect_to_go_on(output, text, seconds)
            notes += note_lockstep(answered / seconds, float(mean[1]))
        observed = _OBSERVED.search(text)
        if observed and int(observed[1]) != answered:
            notes += (f"its percentiles are of {observed[1]} times, of {answered} answers",)
        notes += tuple(
            f"of its messages {count} were {outcome}"
            for outcome, count in _ODD.findall(text)
            if int(count)
        )
        requests = 0.0 if dropped is None else answered + dropped
        lost = 1 - answered / requests if requests else 0.0
        sent_bps = int(valid[2]) / seconds * _size(spec) * 8
        return Figures(
            transactions_per_second=answered / seconds,
            bits_per_second=sent_bps * (1 - lost),
            sent_bits_per_second=sent_bps,
            loss_ratio=lost if requests and spec.is_udp else None,
            round_trip_us=times,
            notes=notes,
        )

    def _expect_to_go_on(self, output: ToolOutput, text: str, valid_s: float) -> None:
        """It waits for ever for a lost answer, and reports the rate of the time before."""
        match = _WHOLE.search(text)
        if match is None:
            raise self.unreadable(output, "its output lacks [Total Run]")
        due_s = float(match[1]) - float(match[2]) / 1000 - _TAIL_S
        stands_s = due_s - valid_s
        if stands_s > _STANDS * due_s + _STANDS_S:
            raise self.unreadable(
                output,
                f"it stood still for the last {stands_s:.2f} s of {due_s:.2f} s: a message was "
                "lost on its way or back, and it sends none before the answer",
            )

    def version(self, output: ToolOutput) -> str:
        """The version in its first line."""
        match = _VERSION.search(_COLOURS.sub("", f"{output.client}\n{output.version}"))
        return f"sockperf {match[1]}" if match else ""


def _protocol(spec: TransferSpec) -> tuple[str, ...]:
    return () if spec.is_udp else ("--tcp",)


def _size(spec: TransferSpec) -> int:
    """Octets of a message; its own choice is the smallest."""
    return 14 if spec.message_size is None else spec.message_size
