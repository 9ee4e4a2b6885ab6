"""What transfers between sockets came to, alike in every report: users' and endpoints'."""

from __future__ import annotations

from vnetperf.model.result import RunResults
from vnetperf.model.transfer import EndFacts, Transfer
from vnetperf.report import units_text as text
from vnetperf.report.markdown_text import escaped
from vnetperf.report.markdown_text import table as markdown_table
from vnetperf.report.markup import Markup
from vnetperf.report.page_parts import section, table

TITLE = "Traffic between sockets"
HEAD = (
    "scenario",
    "transfer",
    "arrived, Mbit/s",
    "round trips",
    "lost or sent again",
    "jitter",
    "processor time, client + server",
)
_NONE = "\N{EN DASH}"
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
            _NONE
            if transfer.bits_per_second is None
            else text.significant(transfer.bits_per_second / 1e6),
            _round_trips(transfer),
            _lost(transfer),
            _NONE if transfer.jitter_ms is None else text.nanoseconds(transfer.jitter_ms * 1e6),
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


def _round_trips(transfer: Transfer) -> str:
    rate, times = transfer.transactions_per_second, transfer.round_trip_us
    if rate is None:
        return _NONE
    shown = [
        f"{name if name == 'max' else name + ' %'} {text.nanoseconds(times[name] * 1e3)}"
        for name in _SHOWN
        if name in times
    ]
    return ", ".join([f"{text.significant(rate)} /s", *shown])


def _lost(transfer: Transfer) -> str:
    if transfer.loss_ratio is not None:
        return f"{text.percent(transfer.loss_ratio)} lost"
    if transfer.retransmits is not None:
        return f"{transfer.retransmits} segments again"
    return _NONE


def _processors(transfer: Transfer) -> str:
    """Time of the tool's processes, in themselves and in the kernel, while the clients ran."""
    spent = [_spent(end) for end in (transfer.client, transfer.server)]
    if not any(spent):
        return _NONE
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
    for scenario, said, rate, trips, lost, jitter, processors in rows(results):
        parts = [f"{rate} Mbit/s arrived"] if trips == _NONE else [f"round trips {trips}"]
        parts += [lost] if lost != _NONE else []
        parts += [f"jitter {jitter}"] if jitter != _NONE else []
        parts += [f"processor time {processors}"] if processors != _NONE else []
        found.append(f"{scenario}: {said}: {', '.join(parts)}")
    return found


def markdown(results: RunResults) -> list[str]:
    """The part of report.md.

    Args:
        results: The run.

    Returns:
        Paragraphs; empty when nothing was transferred.
    """
    found = rows(results)
    if not found:
        return []
    cells = [tuple(escaped(cell) for cell in row) for row in found]
    return [f"## {TITLE}", markdown_table(HEAD, cells), escaped(_how(results))]


def transfers_section(results: RunResults, anchor: str) -> Markup | None:
    """The part of the page.

    Args:
        results: The run.
        anchor: Id of the section.

    Returns:
        HTML; None when nothing was transferred.
    """
    found = rows(results)
    if not found:
        return None
    css = ("name", "", "num", "num", "num", "num", "num")
    return section(anchor, TITLE, table(TITLE, HEAD, found, css=css), _how(results))


def _how(results: RunResults) -> str:
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
    said += [f"{where}." for where in dict.fromkeys(map(_between, every)) if where]
    return " ".join(said)


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
