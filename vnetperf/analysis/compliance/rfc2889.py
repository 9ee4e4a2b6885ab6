"""RFC 2889 sections 5.6 to 5.8: forwarding rate and addresses of switches."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.analysis.compliance.clause import ClauseContext, entry
from vnetperf.model.result import LedgerEntry

_THREE_PORTS = (
    "frames to learned addresses are sent from the port they were learned at, where a switch drops "
    "them; what arrives at the other one is what was not learned"
)


def forwarding_rate(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a forwarding rate against section 5.6."""
    rates = looked.result.rates
    yield entry(
        "RFC 2889 section 5.6",
        "forwarding rate at the maximum offered load and maximum forwarding rate",
        len(rates) == 2,
        "; ".join(f"{r.forwarded_fps.mean:.0f} frames/s at {r.of}" for r in rates),
        "one of the two has no number",
    )
    yield _duration(looked)


def address_caching(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold an address caching capacity against section 5.7."""
    yield _ports("RFC 2889 section 5.7, ports")
    found = looked.result.addresses
    if found is not None:
        yield entry(
            "RFC 2889 section 5.7, search",
            "binary search for the largest number that is learned without flooding",
            not found.capped,
            f"{found.addresses} addresses, {len(found.tried)} numbers tried",
            found.note,
        )


def address_learning(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold an address learning rate against section 5.8."""
    yield _ports("RFC 2889 section 5.8, ports")
    found = looked.result.addresses
    if found is not None:
        yield entry(
            "RFC 2889 section 5.8, search",
            "binary search for the highest rate at which all are learned",
            not found.capped and bool(found.learning_fps),
            f"{found.learning_fps:.0f} frames/s of {found.addresses} addresses",
            found.note,
        )


def _duration(looked: ClauseContext) -> LedgerEntry:
    seconds = looked.preset.rfc2889.duration_s
    return entry(
        "RFC 2889, trial duration",
        "30 s unless there is reason",
        seconds >= 30,
        f"{seconds:g} s",
        looked.because,
    )


def _ports(clause: str) -> LedgerEntry:
    return entry(
        clause,
        "a learning port, a test port and a monitoring port that must see no frame",
        False,
        "two ports",
        _THREE_PORTS,
    )
