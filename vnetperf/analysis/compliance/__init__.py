"""The compliance ledger.

Clause by clause, what a run and each of its results did, and why not.

Every entry is derived from results and from the trials behind them: `LoggedTrials`. Requirements
are given as secondary sources quote them; the standards' own texts were not at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from vnetperf.analysis.compliance import rfc2544, rfc2889, rfc4787, rfc8219, rfc9693, searches
from vnetperf.analysis.compliance.clause import (
    ClauseContext,
    LoggedTrials,
    inconsistent,
    not_applicable,
    scoped,
)
from vnetperf.analysis.compliance.rfc2544 import rfc6815_isolation, setup
from vnetperf.analysis.logged_tests import Case, LoggedTest
from vnetperf.log.records import RunRecord, ScenarioRecord
from vnetperf.model.result import LedgerEntry, Result
from vnetperf.model.trial import Verdict

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


def derive_ledger(
    run: RunRecord,
    deployed: Sequence[ScenarioRecord],
    results: Iterable[Result],
    tests: Sequence[LoggedTest],
    contradicted: Mapping[Case, int] | None = None,
) -> list[LedgerEntry]:
    """Derive one entry for each clause that a run could meet; equal entries are merged.

    Args:
        run: What the run was to do.
        deployed: Its scenarios, as they were deployed last.
        results: Its results; each is looked at once.
        tests: The tests of its log.
        contradicted: Trials of each case whose frames contradict the counts; counted where it is
            not given.
    """
    if contradicted is None:
        bad = (t.case for t in tests for trial in t.trials if trial.verdict is Verdict.INCONSISTENT)
        contradicted = Counter(bad)
    logged = LoggedTrials(tests)
    conditions = rfc2544.TrialConditions()
    briefs: list[Result] = []
    result_entries: list[tuple[Result, LedgerEntry]] = []
    unique_entries: dict[LedgerEntry, LedgerEntry] = {}  # Most are alike
    cases: set[Case] = set()
    counted = False
    for result in results:
        briefs.append(brief := result.without_outcomes)
        if result.status != "measured":
            continue
        trials = logged.case_trials(result)
        if result.case not in cases:
            cases.add(result.case)
            conditions.add(result, trials)
        # Sessions are counted of trials, too, of which the generator left some frames out.
        counted = counted or bool(result.verdicts.get(Verdict.VALID)) or result.sessions is not None
        for clauses in CLAUSES_OF_TEST.get(result.test, ()):
            context = ClauseContext(
                preset=run.preset.name,
                result=result,
                trials=trials,
                inputs=logged.shown_inputs(result),
                no_throughput=logged.throughput_doubt(result),
                nominal=run.testbed.media.nominal,
            )
            result_entries += [
                (brief, unique_entries.setdefault(clause_entry, clause_entry))
                for clause_entry in clauses(context)
            ]
    findings = inconsistent(briefs, contradicted)
    entries = [
        *setup(deployed, briefs, conditions, run, findings),
        *rfc6815_isolation(deployed, run),
    ]
    entries += rfc4787.check_behaviour(deployed)
    if not counted:
        none = "no test with a tester's frames has a result"
        nothing = {"status": "not applicable", "value": none, "reason": ""}
        verified_update = {"value": f"{none}; {findings}"} if findings else {}
        return [
            entry.model_copy(
                update=nothing | (verified_update if entry.clause == rfc2544.VERIFIED else {})
            )
            for entry in entries
        ]
    missing = (
        not_applicable(clause, name, "the run has no result of this test")
        for clause, name in rfc2544.not_run(r for r in briefs if r.status == "measured")
    )
    return [*entries, *scoped(result_entries), *missing, *rfc2544.unchecked_clauses()]
