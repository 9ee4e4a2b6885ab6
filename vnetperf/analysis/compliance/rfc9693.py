"""RFC 9693: connection establishment, tear-down and table capacity of a stateful NAT."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.analysis.compliance.clause import ClauseContext, entry
from vnetperf.model.outcomes import SessionTable
from vnetperf.model.result import LedgerEntry

_SOURCE = "(from a secondary source)"
#: Searches whose median and spread the RFC's examples report.
_SEARCHES = 10


def connection_rate(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a connection establishment rate against sections 4.4 to 4.8."""
    outcome = looked.result.sessions
    if outcome is None:
        return
    yield from _all_sessions(outcome)
    yield entry(
        f"RFC 9693 section 4.5 {_SOURCE}",
        "binary search for the highest rate at which all connections are established, each trial "
        "from an empty table",
        not outcome.note,
        f"{outcome.rate_per_s:.0f} connections/s of {outcome.sessions}",
        outcome.note,
    )
    count = len(outcome.rates)
    yield entry(
        f"RFC 9693 section 4.5, repetition {_SOURCE}",
        f"{_SEARCHES} searches or more, with their median",
        count >= _SEARCHES,
        f"{count} searches",
        "nat.searches of the preset is less",
    )
    yield entry(
        f"RFC 9693 section 4.8 {_SOURCE}",
        "rate at which a filled table is emptied",
        outcome.ended_per_s is not None,
        "not measured"
        if outcome.ended_per_s is None
        else f"{outcome.ended_per_s:.0f} connections/s",
        "no trial found a table that was half full before it",
    )


def session_capacity(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a capacity for sessions against sections 4.4, 4.6 and 4.9."""
    outcome = looked.result.sessions
    if outcome is None:
        return
    yield from _all_sessions(outcome)
    yield entry(
        f"RFC 9693 section 4.9 {_SOURCE}",
        "largest number of connections that the table holds: exponential, then binary search",
        not outcome.capped and bool(outcome.sessions),
        f"{outcome.sessions} connections, {len(outcome.tried)} numbers tried",
        outcome.note if outcome.sessions else "not even one session was held",
    )


def _all_sessions(outcome: SessionTable) -> Iterator[LedgerEntry]:
    established = [attempt for attempt in outcome.tried if attempt.made]
    yield entry(
        f"RFC 9693 section 4.4 {_SOURCE}",
        "each frame of the first phase makes one connection: all combinations of addresses and "
        "ports differ, and none is there before",
        True,
        "a frame of each session that the generator did not leave out, after the table was emptied",
    )
    yield entry(
        f"RFC 9693 section 4.6 {_SOURCE}",
        "all connections are validated",
        bool(established),
        f"in {len(established)} of {len(outcome.tried)} numbers or rates tried each frame came out "
        "with its session's address and port, and the table held as many",
        "all sessions were there in none",
    )
    yield entry(
        f"RFC 9693 section 4.1, RFC 4814 {_SOURCE}",
        "pseudorandom port numbers",
        False,
        "ports of the subscriber's block, in order",
        "ports inside the block are kept, so that both sides are known beforehand",
    )
