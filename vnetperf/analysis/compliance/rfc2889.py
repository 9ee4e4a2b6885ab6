"""RFC 2889 sections 5.6 to 5.8: forwarding rate and addresses of switches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vnetperf.analysis.compliance.clause import ClauseContext, entry
from vnetperf.model.result import LedgerEntry

_THREE_PORTS = (
    "frames to learned addresses are sent from the port they were learned at, where a switch drops "
    "them; what arrives at the other one is what was not learned"
)


def forwarding_rate(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a forwarding rate against section 5.6."""
    rates = looked.result.rates
    trials = looked.numbered(n for rate in rates for n in rate.trials)
    seconds = min((t.spec.duration_s for t in trials), default=0.0)
    searched = all(rate.searched for rate in rates)
    yield entry(
        "RFC 2889 section 5.6",
        "forwarding rate at the maximum offered load, and the maximum one of the loads from the "
        "throughput to it",
        len(rates) == 2 and searched,
        "; ".join(f"{r.forwarded_fps.mean:.0f} frames/s at {r.of}" for r in rates),
        "one of the two has no number" if searched else "the loads did not begin at the throughput",
    )
    yield entry(
        "RFC 2889 section 5.6, forward pressure",
        "what a DUT sends to a port that offers frames at less than the minimum gap",
        False,
        "not done",
        "no generator here sends below the minimum gap, and virtual wires have none",
    )
    row = ("trial duration", "30 s unless there is reason", seconds >= 30, f"{seconds:g} s")
    yield from looked.entries("RFC 2889", row)


def _addresses(section: str, looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a search for addresses against its section."""
    yield entry(
        f"RFC 2889 section {section}, ports",
        "a learning port, a test port and a monitoring port that must see no frame",
        False,
        "two ports",
        _THREE_PORTS,
    )
    outcome = looked.result.addresses
    if outcome is None:
        return
    requirement = "binary search for the largest number that is learned without flooding"
    value, complete = f"{outcome.addresses} addresses, {len(outcome.tried)} numbers tried", True
    if section == "5.8":
        requirement = "binary search for the highest rate at which all are learned"
        value = f"{outcome.learning_fps:.0f} frames/s of {outcome.addresses} addresses"
        complete = bool(outcome.learning_fps)
    clause, met = f"RFC 2889 section {section}, search", complete and not outcome.capped
    yield entry(clause, requirement, met, value, outcome.note)


address_caching = partial(_addresses, "5.7")
address_learning = partial(_addresses, "5.8")
