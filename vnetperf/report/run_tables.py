"""A run as a whole: headline, identity, calibration, standards ledger, facts, settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeAlias

from vnetperf.log.calibrations import range_text
from vnetperf.model import units
from vnetperf.model.calibration import Calibration, CalibrationPoint
from vnetperf.model.result import LedgerEntry, Result, RunResults
from vnetperf.model.transfer import TransferSpec
from vnetperf.model.trial import Verdict
from vnetperf.plugin.workload import find_workload_report, kind_name
from vnetperf.report import goal_text, outcomes, processors, summary, transfers, workloads
from vnetperf.report.summary import Group, MissingValue, flatten_facts, scalar_text, size_names
from vnetperf.report.table import (
    NOT_MEASURED,
    NOT_RECORDED,
    Cell,
    Column,
    Table,
    listed_sizes,
)
from vnetperf.report.text import text_or_none

Fact: TypeAlias = tuple[str, Cell | str]


def facts_as_table(title: str, facts: Iterable[Fact], head: tuple[str, str]) -> Table:
    """Names and values."""
    columns: tuple[Column[Fact], ...] = (
        Column(head[0], lambda fact: fact[0], words=True),
        Column(head[1], lambda fact: fact[1], words=True),
    )
    return Table.from_items(title, columns, facts)


def tree_as_table(title: str, tree: object) -> Table:
    """A tree of JSON values."""
    facts = ((name, Cell(value, code=True)) for name, value in flatten_facts(tree))
    return facts_as_table(title, facts, ("fact", "value"))


def identity(results: RunResults) -> Table:
    """What was run, when, by what."""
    run = results.run
    facts: list[Fact] = [
        ("tool", run.tool),
        ("commit", run.git),
        ("command", Cell(run.command, code=True)),
        ("preset", results.preset),
        ("testbed", run.testbed or NOT_RECORDED),
        ("started (UTC)", run.started),
        ("ended (UTC)", run.ended or "not ended: running or interrupted"),
        ("isolation statement (RFC 6815)", run.isolation or NOT_RECORDED),
        ("operator's notes", run.notes or "none"),
        ("standards ledger", summary.ledger_sentence(results)),
        *summary.redaction_rows(results),
    ]
    return facts_as_table("", facts, ("identity", ""))


#: Answers of a scenario that its headline gives.
_MOST_ANSWERS = 5


def _fact(tree: Any, *paths: str) -> str:
    """The first of several facts that is known."""
    for path in paths:
        node = tree
        for name in path.split("."):
            node = node.get(name) if isinstance(node, dict) else None
        if isinstance(node, str | int) and node != "" and not summary.is_missing(node):
            return str(node)
    return ""


def _listed(words: Sequence[str], most: int = 4) -> str:
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _measured_text(groups: Sequence[Group]) -> Iterator[str]:
    """Tests of the same scenarios and frame sizes in one line, as far as they have numbers."""
    groups = [replace(group, results=group.measured) for group in groups if group.measured]
    tests_by_cases: dict[str, list[str]] = {}
    for test in dict.fromkeys(g.test_words for g in groups):
        test_groups = [g for g in groups if g.test_words == test]
        sizes = list(size_names(test_groups).values())
        span = f"{len(sizes)} frame sizes, {sizes[0]} to {sizes[-1]}"
        octets = span if len(sizes) > 2 else _listed(sizes)
        cases = f"{_listed([g.scenario for g in test_groups])} at {octets} octets"
        tests_by_cases.setdefault(cases, []).append(test)
    yield from (f"{_listed(tests, 9)} of {cases}" for cases, tests in tests_by_cases.items())


def _machine_text(results: RunResults) -> str:
    is_single = len(results.machines) == 1
    return "; ".join(
        _single_machine_text(facts, results.run.testbed if is_single else name)
        for name, facts in results.machines.items()
    )


def _single_machine_text(facts: Mapping[str, Any], testbed: str) -> str:
    cores = _fact(facts, "cpu.topology.cores", "cpu.cores")
    kernel = _fact(facts, "kernel.release", "os.kernel")
    parts = [
        _fact(facts, "cpu.model") or "CPU unknown",
        f"{cores} core{'s' if cores != '1' else ''}" if cores else "",
        f"Linux {kernel}" if kernel else "",
        f"testbed {testbed}" if testbed else "",
    ]
    return ", ".join(filter(None, parts))


def _software_text(results: RunResults) -> Iterator[str]:
    yield results.run.tool
    for scenario in results.scenarios:
        vnfs = scenario.facts.get("vnfs") or []
        for part in (scenario.facts.get("vswitch"), *(vnfs if isinstance(vnfs, list) else [])):
            yield _fact(part, "version", "name")
    # How it was placed when it was calibrated is not how it measured.
    yield from (
        calibration.generator.partition(", alone on")[0] for calibration in results.calibrations
    )


def _dut_text(results: RunResults, scenario: str) -> str:
    """What was measured, and how it was deployed: "Open vSwitch 3.1.0 (dpdk), PVP"."""
    facts = next((s for s in results.scenarios if s.scenario == scenario), None)
    if facts is None:
        return scenario
    planned = facts.plan.get("scenario") or {}
    version, backend = _fact(facts.facts, "vswitch.version"), _fact(planned, "vswitch")
    # "ovs-vswitchd-dpdk (Open vSwitch) 3.1.0" is a program's name and a product's.
    if product := re.fullmatch(r"\S+ \(([^)]+)\) (\S+)", version):
        version = " ".join(product.groups())
    deployment = _fact(planned, "deployment.name") or scenario.partition("_")[0]
    if deployment.isalpha():
        deployment = deployment.upper()
    variant = scenario.partition(",")[2]
    dut = f"{version} ({backend})" if version and backend else version or backend or scenario
    return ", ".join(filter(None, (dut, deployment, variant)))


def title(results: RunResults, groups: Sequence[Group]) -> str:
    """What was measured, how it was deployed, and the first result in few words."""
    measured = [group for group in groups if group.measured]
    scenarios = list(dict.fromkeys(g.scenario for g in measured))
    if not scenarios:
        answers = [answer.partition(": ")[2] for answer in _transfer_answers(results)]
        answers += [
            answer.partition("; ")[0]
            for workload in workloads.list_workloads(results)
            for answer in workloads.workload_answers(results, workload).values()
        ]
        named = [_dut_text(results, part.scenario) for part in results.transfers[:1]]
        return f"{named[0]}: {answers[0]}" if answers else _run_name(results)
    if len(scenarios) > 1:
        duts = (_dut_text(results, scenario).partition(", ")[0] for scenario in scenarios)
        plain = list(dict.fromkeys(duts))
        tests = _listed(list(dict.fromkeys(g.test_words for g in measured)), 3)
        return f"{_listed(plain)}, {len(scenarios)} scenarios: {tests}"
    dut, first = _dut_text(results, scenarios[0]), measured[0].measured[0]
    if not first.goals:
        number = outcomes.headline(first)[0].partition("\n")[0]
        return f"{dut}: {measured[0].test_words} {number}, {first.size_text}"
    rates = [goal for r in measured[0].measured for goal in r.goals[:1]]
    mark = next((f", {goal.mark}" for goal in rates if goal.mark), "")
    return f"{dut}: {_rates_text(measured[0])}{mark}"


def _run_name(results: RunResults) -> str:
    return f"{results.preset} on {results.run.testbed}" if results.run.testbed else results.preset


def _rates_text(group: Group) -> str:
    """The main goal's rates at the smallest and the largest size, in words."""
    goal_rates = [(r, r.goals[0]) for r in group.measured if r.goals]
    ends = goal_rates if len(goal_rates) < _FEW_SIZES else [goal_rates[0], goal_rates[-1]]
    first, *others = [
        (_over_words(r, goal.name) or goal_text.rate_words(goal), r.size_text) for r, goal in ends
    ]
    texts = [f"{first[0] or 'no'} frames a second at {first[1]}"]
    texts += [f"{words or 'none'} at {size}" for words, size in others]
    between = f" ({len(goal_rates)} frame sizes)" if len(goal_rates) >= _FEW_SIZES else ""
    return " and ".join(texts) + between


def _over_words(result: Result, label: str) -> str:
    """What several deployments carried: from the least to the most; "" of one."""
    deployments = result.deployments
    number = (
        next((n for n in deployments.numbers if n.label == label), None) if deployments else None
    )
    if deployments is None or number is None:
        return ""
    ends = [
        x
        for observation in number.observations
        for x in (observation.value, observation.low, observation.high)
        if x
    ]
    if not ends:
        return ""
    limits = number.censored.get("at least", 0)
    if limits == len(number.observations):
        return f"at least {goal_text.in_words(min(ends), min(ends))}"
    or_more = " or more" * bool(limits)
    return f"{goal_text.in_words(min(ends), max(ends))}{or_more}"


#: Frame sizes from which on a sentence names the smallest and the largest.
_FEW_SIZES = 3
#: A mark of a result in the words of a reader who does not know it.
_MARK_WORDS = {
    "irregular": "irregular: these trials do not settle the rate",
    "not repeatable": "not repeatable: {n} rounds did not agree",
}


def _carries_text(group: Group, *, benchmark: bool) -> str:
    """What a DUT carries and what that is worth, for a reader who knows no goal's name."""
    goals = [goal for r in group.measured for goal in r.goals[:1]]
    words = [f"{goals[0].name}: {goals[0].caveat or 'no loss in trials of 60 s or more'}"]
    for mark in dict.fromkeys(goal.mark for goal in goals if goal.mark):
        n = max(len(goal.rounds) for goal in goals if goal.mark == mark)
        sizes = [r.size_text for r in group.measured if r.goals and r.goals[0].mark == mark]
        sizes_text = "" if len(sizes) == len(goals) else f"at {listed_sizes(sizes)} "
        words.append(sizes_text + _MARK_WORDS[mark].format(n=n))
    if not benchmark:
        words.append("no benchmark")
    over = max((r.deployments.measured for r in group.measured if r.deployments), default=1)
    deployed = f" in {over} deployments" if over > 1 else ""
    return f"carries {_rates_text(group)}, all directions together{deployed} ({'; '.join(words)})"


def _result_text(results: RunResults, groups: Sequence[Group]) -> Iterator[str]:
    """Of each scenario what it carries, in a sentence, then the answers of its other tests."""
    benchmark = summary.is_benchmark(results)
    rated = [group for group in groups if group.measured and group.goal_names]
    if many := len(rated) > _MOST_ANSWERS:
        yield _range_text(results, rated)
    for scenario in dict.fromkeys(g.scenario for g in groups):
        scenario_groups = [g for g in groups if g.scenario == scenario and g.measured]
        for group in scenario_groups:
            if group.goal_names and not many:
                carries = _carries_text(group, benchmark=benchmark)
                yield f"{_dut_text(results, scenario)}: {carries}."
        answers: dict[str, list[str]] = {}
        for group in scenario_groups:
            if group.test == "cpu_load" and processors.cost_text(group.measured[0]):
                continue  # it has a line of its own
            first = group.measured[0]
            numbers = [] if first.goals else [outcomes.headline(first)[0].partition("\n")[0]]
            for number in filter(None, numbers):
                answers.setdefault(first.size_text, []).append(f"{group.test_words}: {number}")
        for size, numbers in answers.items():
            yield f"{scenario}, {size}: {'; '.join(numbers)}"


def _range_text(results: RunResults, rated: Sequence[Group]) -> str:
    """What many scenarios carry, from the least to the most; the overview has each of them."""
    sizes: dict[int, list[Result]] = {}
    for result in (r for group in rated for r in group.measured if r.goals):
        sizes.setdefault(result.frame_size, []).append(result)
    results_by_size = [same_size for _, same_size in sorted(sizes.items())]
    texts = [
        _ends_text(same_size)
        for same_size in (
            results_by_size
            if len(results_by_size) < _FEW_SIZES
            else results_by_size[:: len(results_by_size) - 1]
        )
    ]
    goals = [goal for same_size in results_by_size for r in same_size for goal in r.goals[:1]]
    words = [f"{goals[0].name}: {goals[0].caveat or 'no loss in trials of 60 s or more'}"]
    marks = Counter(goal.mark for goal in goals if goal.mark)
    words += [f"{count} of {len(goals)} {mark}" for mark, count in marks.items()]
    if not summary.is_benchmark(results):
        words.append("no benchmark")
    scenarios = len({group.scenario for group in rated})
    return (
        f"{scenarios} scenarios carry {' and '.join(texts)}, all directions together "
        f"({'; '.join(words)})."
    )


def _ends_text(results: Sequence[Result]) -> str:
    """The least and the most that results of one frame size carry, and how many carry nothing."""
    size = results[0].size_text
    rates = [(goal_text.headline_fps(r.goals[0]), r) for r in results]
    sorted_rates = sorted(((fps, r) for fps, r in rates if fps is not None), key=itemgetter(0))
    none = len({r.scenario for r in results} - {r.scenario for _, r in sorted_rates})
    if not sorted_rates:
        return f"nothing at {size}"
    (low, least), (high, most) = (
        (_over_words(r, r.goals[0].name) or goal_text.rate_words(r.goals[0]), r.scenario)
        for _, r in (sorted_rates[0], sorted_rates[-1])
    )
    nothing = f" ({none} of them nothing)" if none else ""
    return f"{low} ({least}) to {high} frames a second ({most}) at {size}{nothing}"


def _cost_text(groups: Sequence[Group]) -> Iterator[str]:
    """What a frame costs relative to the tester, at the smallest frame size of each scenario."""
    costs = {
        group.scenario: f"{group.scenario}, {result.size_text}: {cost}"
        for group in groups
        for result in reversed(group.measured)
        if (cost := processors.cost_text(result))
    }
    if costs:
        yield from costs.values()
        yield f"{processors.RELATIVE_MEANS}."


def _transfer_answers(results: RunResults) -> Iterator[str]:
    """Of each scenario the transfer that carried most."""
    for scenario in results.transfers:
        rates = (
            ([r.bits_per_second for r in scenario.list_rounds(t) if r.bits_per_second], t)
            for t in scenario.transfers
            if not kind_name(t.spec.kind)
        )
        means = [
            (sum(round_rates) / len(round_rates), transfer)
            for round_rates, transfer in rates
            if round_rates
        ]
        if means:
            rate, transfer = max(means, key=lambda pair: pair[0])
            words = transfers.transfer_text(transfer)
            yield f"{scenario.scenario}: up to {units.gigabits(rate)} Gbit/s of payload ({words})"


#: Shortest trial at a bound that RFC 2544 section 24 has, seconds.
_WHOLE_TRIAL_S = 60.0


def _worth_text(results: RunResults) -> Iterator[str]:
    goals = [goal for result in results.results for goal in result.goals]
    if results.virtual_lab:
        yield "nothing as a number: a virtual lab shows only that things work"
    elif not results.benchmark:
        yield "not a benchmark"
    else:
        shortest = min((goal.final_trial_s for goal in goals), default=_WHOLE_TRIAL_S)
        short = f"an estimate by trials of {units.seconds(shortest)} (RFC 2544 section 24: 60 s)"
        yield short if shortest < _WHOLE_TRIAL_S else "a benchmark"
    for mark in ("not repeatable", "irregular"):
        if marked := sum(goal.mark == mark for goal in goals):
            yield f"{marked} of {len(goals)} bounds {mark}"
    if bad := sum(t.verdict is not Verdict.VALID for t in results.trials):
        yield f"{bad} of {len(results.trials)} trials not {Verdict.VALID.value}"
    if missing := sum(r.status != "measured" for r in results.results):
        yield f"{missing} of {len(results.results)} cases not measured"
    clauses = summary.clause_counts(summary.ledger(results))
    if deviated := clauses["deviated"] + clauses[summary.IN_PART]:
        yield f"{deviated} of {sum(clauses.values())} clauses deviated from"
    if count := len(results.warnings):
        yield f"{count} warning{'s' if count > 1 else ''} below"


def _transfer_word(spec: TransferSpec) -> str:
    workload = find_workload_report(spec.kind)
    return workload.subject or workload.title if workload else _SOCKETS


_SOCKETS = "traffic between sockets"


def headline(results: RunResults, groups: Sequence[Group]) -> list[tuple[str, str]]:
    """What was measured, on what, and what it is worth, in plain words."""
    measured = list(_measured_text(groups))
    transfer_words = [
        (part.scenario, {_transfer_word(t.spec) for t in part.transfers})
        for part in results.transfers
    ]
    for kind in (_SOCKETS, *(w.subject or w.title for w in workloads.list_workloads(results))):
        if transferred := [scenario for scenario, words in transfer_words if kind in words]:
            measured.append(f"{kind} of {_listed(transferred)}")
    answers = [
        f"{workload.title} over {network}: {words}"
        for workload in workloads.list_workloads(results)
        for network, words in workloads.workload_answers(results, workload).items()
    ]
    rows = (
        ("Measured", "; ".join(measured) or "nothing"),
        ("Machine", _machine_text(results)),
        ("Software", "; ".join(filter(None, dict.fromkeys(_software_text(results))))),
        (
            "Result",
            "\n".join([*_result_text(results, groups), *_transfer_answers(results), *answers]),
        ),
        ("Cost", "\n".join(_cost_text(groups))),
        ("Worth", "; ".join(_worth_text(results))),
    )
    return [(name, words) for name, words in rows if words]


def headline_table(results: RunResults, groups: Sequence[Group]) -> Table:
    """The same as a table."""
    rows = ((name, words.replace("\n", " ")) for name, words in headline(results, groups))
    return facts_as_table("", rows, ("in short", ""))


_Headline: TypeAlias = tuple[Group, Result, tuple[str, str]]
_HEADLINES: tuple[Column[_Headline], ...] = (
    Column("scenario", lambda row: row[0].scenario, words=True),
    Column("test", lambda row: row[0].test, words=True),
    Column("octets", lambda row: row[1].size_name),
    Column("found", lambda row: row[2][0].replace("\n", "; "), bold=True),
    Column("with", lambda row: row[2][1], words=True),
)


def headlines(groups: Sequence[Group]) -> Table:
    """The answer of each test besides throughput, before any detail."""
    rows = [(group, r, outcomes.headline(r)) for group in groups for r in group.measured]
    return Table.from_items(
        "Tests besides throughput", _HEADLINES, [row for row in rows if row[2][0]]
    )


def _clean_maximum_text(point: CalibrationPoint) -> str:
    """The clean maximum as often as it was found."""
    if point.brief and point.max_clean_values:
        return f"{units.fps(point.max_clean_values[0])}, once, by trials of 0.15 s"
    return range_text(point.max_clean_values) if point.max_clean_values else NOT_RECORDED


def _checked_text(point: CalibrationPoint) -> str:
    if point.drift is None:
        return "not checked"
    return f"{range_text(point.checked_values)}, {point.drift:+.1%}: {point.drift_verdict}"


def _maximum_text(point: CalibrationPoint) -> str:
    return units.fps(point.max_clean_fps) + ", uncertain" * point.is_uncertain


_CALIBRATION: tuple[Column[CalibrationPoint], ...] = (
    Column("octets", lambda p: str(p.frame_size), words=True),
    Column("clean maximum, both ports", _maximum_text),
    Column("found by 1 s trials", _clean_maximum_text, words=True, brief=False),
    Column("ended by", lambda p: p.ended_by or NOT_RECORDED, words=True),
    Column("again after the run", _checked_text, words=True, brief=False),
    Column("median latency at 1 %", lambda p: units.nanoseconds(p.latency_ns)),
    Column("smallest latency", lambda p: units.nanoseconds(p.latency_min_ns), brief=False),
    Column("pacing error", lambda p: units.percent(p.pacing_error)),
    Column("largest burst at 10 % (frames)", lambda p: str(p.max_burst)),
    Column(
        "burst gap",
        lambda p: text_or_none(p.smallest_burst_gap_ns, units.nanoseconds) or NOT_MEASURED,
    ),
)


def calibration(loop: Calibration) -> tuple[str, Table]:
    """What the generator can do over one wire: a sentence, and a table by frame size."""
    cores = ", ".join(map(str, loop.cores)) or "none"
    where = f" on testbed {loop.testbed}" if loop.testbed else ""
    about = (
        f"{loop.generator} looped to itself over {loop.wire}{where}, processors {cores}, "
        f"{loop.when}."
    )
    return about, Table.from_items("", _CALIBRATION, loop.points)


_STATUS = {
    "met": "good",
    "deviated": "warn",
    "not applicable": "plain",
    "not looked at": "plain",
}
#: What the ledger is worth.
_SOURCES = (
    "Each entry is derived from the results and their trials. Requirements are given as secondary "
    "sources quote them."
)
_LEDGER: tuple[Column[LedgerEntry], ...] = (
    Column("clause", lambda e: e.clause, words=True),
    Column("requirement", lambda e: e.requirement, words=True),
    Column("status", lambda e: Cell(e.status, css=_STATUS[e.status]), words=True),
    Column("done", lambda e: e.value, words=True),
    Column("why", lambda e: e.reason, words=True),
)


def ledger(entries: Sequence[LedgerEntry]) -> Table:
    """How the run stands to the standards, clause by clause."""
    scope: Column[LedgerEntry] = Column("holds for", lambda e: e.scope or "all", words=True)
    return Table.from_items(
        "Standards ledger", (*_LEDGER, scope), entries, [_SOURCES] if entries else ()
    )


def clauses(entries: Sequence[LedgerEntry], title: str) -> Table:
    """The clauses of one scenario and test."""
    octets: Column[LedgerEntry] = Column("octets", lambda e: str(e.frame_size or "all"), words=True)
    sized = any(entry.frame_size for entry in entries)
    return Table.from_items(title, (*_LEDGER, octets) if sized else _LEDGER, entries)


_SETTINGS: tuple[Column[tuple[str, dict[str, object]]], ...] = (
    Column("setting", lambda row: row[0], words=True),
    Column("value", lambda row: Cell(_joined_facts(row[1].get("value")), code=True), words=True),
    Column("source", lambda row: scalar_text(row[1].get("source")), words=True),
)


def settings(results: RunResults) -> Table:
    """Effective settings and where each came from."""
    return Table.from_items("Settings", _SETTINGS, results.settings.items())


def _joined_facts(value: object) -> str:
    return "; ".join(f"{name} = {v}" if name else v for name, v in flatten_facts(value))


def missing(missing_values: Iterable[MissingValue]) -> Table:
    """What the run could not measure or find out."""
    facts = ((value.where, value.reason) for value in missing_values)
    return facts_as_table("Not measured, unknown", facts, ("value", "why"))
