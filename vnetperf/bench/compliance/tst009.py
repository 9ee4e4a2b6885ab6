"""ETSI GS NFV-TST 009 sections 12.3.2 and 12.3.3: searches and their inputs."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.bench.compliance.entry import Looked, entry, not_applicable
from vnetperf.model.result import LedgerEntry


def throughput(looked: Looked) -> Iterator[LedgerEntry]:
    """Hold a throughput result against them.

    Args:
        looked: The result; of another search nothing is said.

    Yields:
        Entries.
    """
    if looked.result.algorithm != "tst009":
        return
    told = looked.result.search_inputs
    doubtful = [g.name for g in looked.result.goals if not (g.regular or g.qualifier)]
    yield entry(
        "ETSI GS NFV-TST 009 section 12.3.2",
        "binary search over an array of offered loads, all its inputs reported",
        bool(told) and not doubtful,
        ", ".join(f"{name} = {value}" for name, value in told.items()),
        f"the search of {', '.join(doubtful)} did not come to its end"
        if doubtful
        else "its inputs were not recorded",
    )
    if told.get("max(r)") == "1":
        yield not_applicable(
            "ETSI GS NFV-TST 009 section 12.3.3",
            "loss verification: a lossy trial is repeated",
            "max(r) = 1: one lossy trial decides",
        )
        return
    yield entry(
        "ETSI GS NFV-TST 009 section 12.3.3",
        "loss verification: a lossy trial is repeated, max(r) and z reported",
        bool(told),
        f"max(r) = {told.get('max(r)')}, z = {told.get('z')}",
        "its inputs were not recorded",
    )
