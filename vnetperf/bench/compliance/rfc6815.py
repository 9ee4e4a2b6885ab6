"""RFC 6815: benchmarks belong into an isolated test environment."""

from __future__ import annotations

from vnetperf.bench.compliance.entry import entry
from vnetperf.model.result import LedgerEntry
from vnetperf.results.records import RunRecord


def isolation(run: RunRecord) -> list[LedgerEntry]:
    """Hold a run against it.

    Args:
        run: Its testbed.

    Returns:
        One entry.
    """
    return [
        entry(
            "RFC 6815",
            "an isolated test environment, stated",
            bool(run.testbed.isolation),
            run.testbed.isolation_statement or "none stated",
            "the testbed file has no isolation statement",
        )
    ]
