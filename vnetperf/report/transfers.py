"""What transfers between sockets came to, alike in every report: users' and endpoints'."""

from __future__ import annotations

from vnetperf.model.result import RunResults
from vnetperf.model.transfer import EndFacts, Transfer
from vnetperf.report import units_text as text
from vnetperf.report.tabular import NONE, Table

TITLE = "Traffic between sockets"
HEAD = (
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


def rows(results: RunResults) -> list[tuple[str, ...]]:
    """One row for each transfer.

    Args:
        results: The run.

    Returns:
        Cells as in HEAD; empty when none was run.
    """
    return [
        (
            one.scenario,
            what(transfer),
            NONE
            if transfer.bits_per_second is None
            else text.significant(transfer.bits_per_second / 1e6),
            *_round_trips(transfer),
            _lost(transfer),
            NONE if transfer.jitter_ms is None else text.nanoseconds(transfer.jitter_ms * 1e6),
            _processors(transfer),
        )
        for one in results.transfers
        for transfer in one.transfers
    ]


def what(transfer: Transfer) -> str:
    """What a transfer was, in words.

    Args:
        transfer: The transfer.

    Returns:
        "TCP_STREAM 0 -> 1, 1024 octets, 4 instances, 5 s".
    """
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


def _lost(transfer: Transfer) -> str:
    if transfer.loss_ratio is not None:
        return f"{text.percent(transfer.loss_ratio)} lost"
    if transfer.retransmits is not None:
        return f"{transfer.retransmits} segments again"
    return NONE


def _processors(transfer: Transfer) -> str:
    """Time of the tool's processes, in themselves and in the kernel, while the clients ran."""
    spent = [_spent(end) for end in (transfer.client, transfer.server)]
    if not any(spent):
        return NONE
    both = " + ".join(seconds or "not told" for seconds in spent)
    return f"{both} s of {transfer.elapsed_s:.2f} s"


def _spent(end: EndFacts) -> str:
    return "" if end.user_s is None or end.system_s is None else f"{end.user_s + end.system_s:.2f}"


def sentences(results: RunResults) -> list[str]:
    """The same for a terminal.

    Args:
        results: The run.

    Returns:
        One sentence for each transfer.
    """
    found = []
    for scenario, said, rate, trips, median, tail, most, *rest in rows(results):
        lost, jitter, processors = rest
        times = f"{trips}/s, 50 % {median}, 99 % {tail}, max {most}"
        parts = [f"{rate} Mbit/s arrived"] if trips == NONE else [f"round trips {times}"]
        parts += [lost] if lost != NONE else []
        parts += [f"jitter {jitter}"] if jitter != NONE else []
        parts += [f"processor time {processors}"] if processors != NONE else []
        found.append(f"{scenario}: {said}: {', '.join(parts)}")
    return found


def table(results: RunResults) -> Table:
    """The same for report.md and the page.

    Args:
        results: The run.

    Returns:
        The table; without rows when nothing was transferred.
    """
    found = tuple(rows(results))
    said = tuple(_how(results)) if found else ()
    return Table(TITLE, HEAD, found, said, words=frozenset({0, 1}))


def _how(results: RunResults) -> list[str]:
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
    return said + [f"{where}." for where in dict.fromkeys(map(_between, every)) if where]


def _between(transfer: Transfer) -> str:
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
