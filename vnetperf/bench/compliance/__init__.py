"""The compliance ledger: clause by clause, what a run and each of its results did, and why not.

Numbers are those of clauses that could be looked up; what could not is named by its title.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vnetperf.bench.compliance import (
    mlrsearch,
    rfc2544_tests,
    rfc2889,
    rfc6201,
    rfc8219,
    rfc9004,
    tst009,
)
from vnetperf.bench.compliance.entry import Looked, not_applicable, scoped
from vnetperf.bench.compliance.rfc2544_setup import setup
from vnetperf.bench.compliance.rfc6815 import isolation
from vnetperf.model.result import LedgerEntry, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import Verdict
from vnetperf.results.records import RunRecord

Clauses = Callable[[Looked], Iterator[LedgerEntry]]

#: Test to the clauses that speak of it.
OF_TEST: dict[str, tuple[Clauses, ...]] = {
    "throughput": (rfc2544_tests.throughput, tst009.throughput, mlrsearch.throughput),
    "latency": (rfc2544_tests.latency, rfc8219.latency),
    "frame_loss": (rfc2544_tests.frame_loss,),
    "back_to_back": (rfc9004.back_to_back,),
    "recovery": (rfc2544_tests.recovery,),
    "reset": (rfc2544_tests.reset, rfc6201.reset),
    "soak": (rfc8219.soak,),
    "forwarding_rate": (rfc2889.forwarding_rate,),
    "address_caching": (rfc2889.address_caching,),
    "address_learning": (rfc2889.address_learning,),
}


def ledger_of(
    run: RunRecord, scenarios: Sequence[Scenario], results: Sequence[Result]
) -> list[LedgerEntry]:
    """Hold a run against the clauses it could meet.

    Args:
        run: Preset and testbed.
        scenarios: What was deployed.
        results: What was measured.

    Returns:
        Entries of the whole run in the order of the clauses, then those of its tests; what holds
        of one scenario or size only names it. Without a valid trial nothing is met: whether a run
        would have met a clause is no fact.
    """
    measured = [r for r in results if r.status == "measured"]
    entries = [*setup(run, scenarios, results), *isolation(run)]
    if not any(r.verdicts.get(Verdict.VALID) for r in results):
        nothing = {"status": "not applicable", "value": "nothing was measured", "reason": ""}
        return [entry.model_copy(update=nothing) for entry in entries]
    nominal = run.testbed.media.nominal
    found = (
        (result, entry)
        for result in measured
        for clauses in OF_TEST.get(result.test, ())
        for entry in clauses(Looked(run.preset, result, nominal))
    )
    missing = (
        not_applicable(clause, name, "the run has no result of this test")
        for clause, name in rfc2544_tests.not_run(measured)
    )
    return [*entries, *scoped(found), *missing]


def of_result(ledger: Sequence[LedgerEntry], result: Result) -> list[LedgerEntry]:
    """The part of a run's ledger that speaks of one result.

    Args:
        ledger: The run's.
        result: One of its results.

    Returns:
        Entries of the whole run, and those of the result's test, scenario and size.
    """
    return [
        entry
        for entry in ledger
        if entry.test in ("", result.test)
        and entry.scenario in ("", result.scenario)
        and entry.frame_size in (0, result.frame_size)
    ]
