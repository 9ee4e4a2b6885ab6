"""What a reader of a run's results must know first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vnetperf.bench.logged import LoggedTest, is_valid
from vnetperf.model.tunnel import overhead
from vnetperf.results.records import (
    SEALED_SINCE,
    EndRecord,
    Record,
    RunRecord,
    ScenarioRecord,
)

#: pytest's exit statuses of a session that did not come to its end: Ctrl-C, a bug, wrong use.
_EXITS_EARLY = (2, 3, 4)


def is_interrupted(records: Sequence[Record]) -> bool:
    """Whether a session of the log, or one worker's of several, did not run to its end.

    Args:
        records: The log.

    Returns:
        True when results may be missing.
    """
    interrupted = is_open = False
    for record in records:
        if isinstance(record, RunRecord):
            interrupted = (interrupted or is_open) and not record.resumed
            is_open = True
        elif isinstance(record, EndRecord):
            interrupted |= record.exit_status in _EXITS_EARLY
            is_open = False
    return interrupted or is_open


def warnings_of(
    run: RunRecord,
    records: Sequence[Record],
    scenarios: Sequence[ScenarioRecord],
    tests: Sequence[LoggedTest],
) -> tuple[str, ...]:
    """Every warning of a run.

    Args:
        run: Preset and testbed.
        records: The log.
        scenarios: What was deployed.
        tests: The log's searches and other tests.

    Returns:
        Sentences, the weightiest first.
    """
    warnings = []
    if is_interrupted(records):
        warnings.append(
            "this run was interrupted or is still going on: some results may be missing"
        )
    said: dict[str, list[str]] = {}  # what holds for several scenarios is told once
    for look in (_of_placement, _of_scenario):
        for record in scenarios:
            for text in look(record):
                said.setdefault(text, []).append(record.facts.scenario)
    warnings += [f"{'; '.join(names)}: {text}" for text, names in said.items()]
    warnings += run.preset.warnings
    if run.testbed.media.nominal and scenarios:
        warnings.append(
            f"virtual wires have no speed of their own: the theoretical maximum is that of "
            f"{run.testbed.media.bits_per_second / 1e9:g} Gbit/s Ethernet, for comparison only"
        )
    invalid = Counter(t.verdict.value for test in tests for t in test.trials if not is_valid(t))
    if invalid:
        counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(invalid.items()))
        warnings.append(f"trials without a valid measurement, not used for any result: {counts}")
    commits = dict.fromkeys(r.identity.git for r in records if isinstance(r, RunRecord))
    if len(commits) > 1:
        warnings.append(
            f"this run was continued by another commit of {run.identity.tool}: "
            + ", then ".join(commits)
        )
    old = next((r for r in records if isinstance(r, RunRecord) and r.version < SEALED_SINCE), None)
    if old is not None:
        warnings.append(
            f"{old.identity.tool} wrote the trial log without checksums: a number that was changed "
            "by hand could not be told"
        )
    return tuple(warnings)


def _of_placement(record: ScenarioRecord) -> list[str]:
    placement = record.facts.plan.get("placement", {})
    if placement.get("mode") != "shared":
        return []
    return [
        f"shared processors ({placement.get('reason', '')}); "
        "rates say what this machine can do, not what the switch could on dedicated cores"
    ]


def _of_scenario(record: ScenarioRecord) -> list[str]:
    """What a number of this scenario stands for, where it is not what its name says at first."""
    scenario, said = record.scenario, []
    if scenario.conditions:
        said.append(", ".join(scenario.conditions))
    if scenario.traffic.mix is not None:
        said.append(
            "the generator's clean maximum is that of a single size, the mean of the mix; "
            "a mix of that mean may reach less or more"
        )
    if scenario.encapsulation:
        said.append(
            f"sizes and rates are those of the plain frame; "
            f"in the tunnel each is {overhead(scenario.encapsulation)} octets longer"
        )
    if scenario.deployment.tester_vnf_ports:
        places = ", ".join(str(port) for port in scenario.deployment.tester_vnf_ports)
        said.append(
            f"the tester is in a VNF's place at {places}; "
            "what it can do there was not calibrated, only what it can do on a wire"
        )
    if record.facts.facts.get("vswitch", {}).get("forwards in") == "the kernel":
        said.append(
            "the kernel forwards in the time of whoever hands it a frame, "
            "so that the processors of tester and VNFs carry the switch's work too"
        )
    return said
