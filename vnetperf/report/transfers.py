"""Traffic of users: the attach phase of a mobile core, and transfers between sockets."""

from __future__ import annotations

from typing import Any

from vnetperf.model.outcomes import EndFacts, Transfer
from vnetperf.model.result import RunResults
from vnetperf.report import text
from vnetperf.report.table import NONE, Table

ATTACH_TITLE = "Attach phase"
ATTACH_HEAD = (
    "scenario",
    "attached",
    "success",
    "ramp asked",
    "reached",
    "whole",
    "median",
    "99 %",
)
#: What a row takes from the facts of a VNF; a plugin's own facts may be called alike.
_ATTACH_KEYS = frozenset(
    (
        "attached",
        "sessions asked for",
        "success rate",
        "ramp, sessions/s",
        "reached, sessions/s",
        "whole, s",
    )
)
_ATTACH_NOTES = (
    "Sessions that were attached before the first trial; their packets are the flows.",
    "Median and 99 % of the time from a session's first request to its answer.",
)


def attach_rows(results: RunResults) -> list[tuple[str, ...]]:
    """One row for each core whose attach phase was timed."""
    return [
        _attach_row(scenario.scenario, vnf["attach"])
        for scenario in results.scenarios
        for vnf in scenario.facts.get("vnfs", ())
        if isinstance(vnf, dict)
        and isinstance(vnf.get("attach"), dict)
        and vnf["attach"].keys() >= _ATTACH_KEYS
    ]


def _attach_row(scenario: str, phase: dict[str, Any]) -> tuple[str, ...]:
    times = phase.get("time of an attach, ms", {})
    ramp = phase["ramp, sessions/s"]
    return (
        scenario,
        f"{phase['attached']} of {phase['sessions asked for']}",
        text.percent(phase["success rate"]),
        ramp if isinstance(ramp, str) else f"{text.significant(ramp)}/s",
        f"{text.significant(phase['reached, sessions/s'])}/s",
        text.seconds(phase["whole, s"]),
        *(text.nanoseconds(times[k] * 1e6) if k in times else NONE for k in ("median", "99 %")),
    )


def attach_sentences(results: RunResults) -> list[str]:
    """The same for a terminal."""
    return [
        f"{scenario}: {attached} sessions attached in {whole} ({reached}), median {median}"
        for scenario, attached, _, _, reached, whole, median, _ in attach_rows(results)
    ]


def attach_table(results: RunResults) -> Table:
    """The same for report.md and the page."""
    return Table(ATTACH_TITLE, ATTACH_HEAD, tuple(attach_rows(results)), _ATTACH_NOTES)


TRANSFERS_TITLE = "Traffic between sockets"
TRANSFERS_HEAD = (
    "scenario",
    "transfer",
    "arrived, Mbit/s",
    "round trips/s",
    "median",
    "99 %",
    "largest",
    "lost or sent again",
    "jitter",
    "processor time, client + server",
)
_ARROWS = {
    "forth": "0 \N{RIGHTWARDS ARROW} 1",
    "back": "1 \N{RIGHTWARDS ARROW} 0",
    "both": "both ways",
}
_OF_USERS = {"forth": "uplink", "back": "downlink", "both": "both ways"}
#: Of times of round trips: those that are shown.
_SHOWN = ("50", "99", "max")


def transfer_rows(results: RunResults) -> list[tuple[str, ...]]:
    """One row for each transfer."""
    return [
        (
            one.scenario,
            transfer_text(transfer),
            NONE
            if transfer.bits_per_second is None
            else text.significant(transfer.bits_per_second / 1e6),
            *_round_trips(transfer),
            _loss_text(transfer),
            NONE if transfer.jitter_ms is None else text.nanoseconds(transfer.jitter_ms * 1e6),
            _cpu_text(transfer),
        )
        for one in results.transfers
        for transfer in one.transfers
    ]


def transfer_text(transfer: Transfer) -> str:
    """What a transfer was, in words."""
    spec = transfer.spec
    ways = _ARROWS if transfer.attach_s is None else _OF_USERS
    parts = [f"{spec.kind} {ways[spec.way]}"]
    if spec.message_size is not None:
        parts.append(f"{spec.message_size} octets")
    if spec.kind.endswith("_LOAD"):
        parts.append(f"{spec.message_rate} messages/s")
    if spec.instances > 1:
        parts.append(f"{spec.instances} instances")
    return ", ".join([*parts, f"{spec.duration_s} s"])


def _round_trips(transfer: Transfer) -> tuple[str, ...]:
    """How many a second, and what they took."""
    rate, times = transfer.transactions_per_second, transfer.round_trip_us
    shown = (text.nanoseconds(times[name] * 1e3) if name in times else NONE for name in _SHOWN)
    return (NONE if rate is None else text.short_fps(rate), *shown)


def _loss_text(transfer: Transfer) -> str:
    if transfer.loss_ratio is not None:
        return f"{text.percent(transfer.loss_ratio)} lost"
    if transfer.retransmits is not None:
        return f"{transfer.retransmits} segments again"
    return NONE


def _cpu_text(transfer: Transfer) -> str:
    """Time of the tool's processes, in themselves and in the kernel, while the clients ran."""
    spent = [_cpu_seconds(end) for end in (transfer.client, transfer.server)]
    if not any(spent):
        return NONE
    both = " + ".join(seconds or "not told" for seconds in spent)
    return f"{both} s of {transfer.elapsed_s:.2f} s"


def _cpu_seconds(end: EndFacts) -> str:
    return "" if end.user_s is None or end.system_s is None else f"{end.user_s + end.system_s:.2f}"


def transfer_sentences(results: RunResults) -> list[str]:
    """The same for a terminal."""
    found = []
    for scenario, said, rate, trips, median, tail, most, *rest in transfer_rows(results):
        lost, jitter, processors = rest
        times = f"{trips}/s, 50 % {median}, 99 % {tail}, max {most}"
        parts = [f"{rate} Mbit/s arrived"] if trips == NONE else [f"round trips {times}"]
        parts += [lost] if lost != NONE else []
        parts += [f"jitter {jitter}"] if jitter != NONE else []
        parts += [f"processor time {processors}"] if processors != NONE else []
        found.append(f"{scenario}: {said}: {', '.join(parts)}")
    return found


def transfers_table(results: RunResults) -> Table:
    """The same for report.md and the page."""
    found = tuple(transfer_rows(results))
    said = tuple(_transfer_notes(results)) if found else ()
    return Table(TRANSFERS_TITLE, TRANSFERS_HEAD, found, said, words=frozenset({0, 1}))


def _transfer_notes(results: RunResults) -> list[str]:
    every = [transfer for one in results.transfers for transfer in one.transfers]
    tools = dict.fromkeys(one.version for one in every if one.version)
    said = [f"Payload by what the receiver counted ({', '.join(tools)})."]
    if any(one.spec.rate_of_tcp and one.spec.is_udp for one in every):
        said.append("UDP of users was offered at the rate that TCP reached the same way.")
    if any(one.spec.is_udp and one.spec.is_stream and not one.spec.rate_bps for one in every):
        said.append("UDP of endpoints was sent as fast as the sender can: what is lost says so.")
    if any(one.round_trip_us for one in every):
        said.append("Times are those from a message to its answer.")
    if any(one.spec.instances > 1 for one in every):
        said.append("Of several instances rates are sums, percentiles the largest of them.")
    return said + [f"{where}." for where in dict.fromkeys(map(_transfer_ends, every)) if where]


def _transfer_ends(transfer: Transfer) -> str:
    """Both ends, where they run, and how long a UE took to be one."""
    client, server = transfer.client, transfer.server
    if not client.place or not server.place:
        return ""
    ends = f"{client.place} ({client.address}) and {server.place} ({server.address})"
    where = (
        f"share processors {client.cpus}"
        if client.cpus == server.cpus
        else f"are on processors {client.cpus} and {server.cpus}"
    )
    attach = transfer.attach_s
    attached = "" if attach is None else f"; the UE attached in {text.seconds(attach)}"
    return f"Programs of {ends} {where}{attached}"
