"""The compliance ledger.

Clause by clause, what a run and each of its results did, and why not.

Every entry is derived from results and from the trials behind them: `LoggedTrials`. Requirements
are given as secondary sources quote them; the standards' own texts were not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vnetperf.analysis.compliance import rfc2544, rfc2889, rfc4787, rfc8219, rfc9693, searches
from vnetperf.analysis.compliance.clause import (
    ClauseContext,
    LoggedTrials,
    inconsistent,
    not_applicable,
    scoped,
)
from vnetperf.analysis.compliance.rfc2544 import rfc6815_isolation, setup
from vnetperf.analysis.logged_tests import LoggedTest
from vnetperf.model.result import LedgerEntry, Result
from vnetperf.model.trial import Verdict
from vnetperf.results.records import RunRecord, ScenarioRecord

Clauses = Callable[[ClauseContext], Iterator[LedgerEntry]]

#: Test to the clauses that speak of it.
CLAUSES_OF_TEST: dict[str, tuple[Clauses, ...]] = {
    "throughput": (rfc2544.throughput, searches.tst009_throughput, searches.mlrsearch_throughput),
    "latency": (rfc2544.latency, rfc8219.rfc8219_latency),
    "latency_load": (rfc2544.latency_definition, rfc8219.rfc8219_latency),
    "frame_loss": (rfc2544.frame_loss,),
    "back_to_back": (rfc2544.rfc9004_back_to_back,),
    "recovery": (rfc2544.recovery,),
    "reset": (rfc2544.reset, rfc2544.rfc6201_reset),
    "soak": (rfc8219.soak,),
    "service": (rfc8219.y1564_service,),
    "forwarding_rate": (rfc2889.forwarding_rate,),
    "address_caching": (rfc2889.address_caching,),
    "address_learning": (rfc2889.address_learning,),
    "connection_rate": (rfc9693.connection_rate,),
    "session_capacity": (rfc9693.session_capacity,),
}


def ledger_of(
    run: RunRecord,
    deployed: Sequence[ScenarioRecord],
    results: Sequence[Result],
    tests: Sequence[LoggedTest],
) -> list[LedgerEntry]:
    """One entry for each clause that a run could meet; equal ones of several results as one."""
    measured = [r for r in results if r.status == "measured"]
    logged = LoggedTrials(tests)
    trials = {result.case: logged.of(result) for result in measured}
    findings = inconsistent(results, tests)
    entries = [*setup(deployed, results, trials, run, findings), *rfc6815_isolation(deployed, run)]
    entries += rfc4787.nat_behaviour(deployed)
    # Sessions are counted of trials, too, of which the generator left some frames out.
    if not any(r.verdicts.get(Verdict.VALID) or r.sessions is not None for r in measured):
        none = "no test with a tester's frames has a result"
        nothing = {"status": "not applicable", "value": none, "reason": ""}
        found = {"value": f"{none}; {findings}"} if findings else {}
        return [
            entry.model_copy(update=nothing | (found if entry.clause == rfc2544.VERIFIED else {}))
            for entry in entries
        ]
    held = (
        (result, entry)
        for result in measured
        for clauses in CLAUSES_OF_TEST.get(result.test, ())
        for entry in clauses(
            ClauseContext(
                preset=run.preset.name,
                result=result,
                trials=trials[result.case],
                inputs=logged.inputs_of(result),
                no_throughput=logged.why_no_throughput(result),
                nominal=run.testbed.media.nominal,
            )
        )
    )
    missing = (
        not_applicable(clause, name, "the run has no result of this test")
        for clause, name in rfc2544.not_run(measured)
    )
    return [*entries, *scoped(held), *missing, *rfc2544.not_looked_at_clauses()]
