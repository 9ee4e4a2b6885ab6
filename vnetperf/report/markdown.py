"""report.md: everything a run holds, for a reader without a browser."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.model.result import Calibration, RunResults
from vnetperf.report import attach, bounds, opening, threads, transfers
from vnetperf.report import units_text as text
from vnetperf.report.cases import Group, case_of, goals_used, groups, trials_by_case
from vnetperf.report.facts import flatten, scalar
from vnetperf.report.losses import account
from vnetperf.report.markdown_comparison import comparisons
from vnetperf.report.markdown_text import code, escaped, table
from vnetperf.report.trialstats import summarise
from vnetperf.report.unknowns import gather

_NONE = "\N{EN DASH}"


def _identity(results: RunResults) -> Iterator[str]:
    run = results.run
    rows = [
        ("tool", escaped(run.tool)),
        ("commit", escaped(run.git)),
        ("command", code(run.command)),
        ("preset", escaped(results.preset)),
        ("testbed", escaped(run.testbed or bounds.NOT_RECORDED)),
        ("started (UTC)", escaped(run.started)),
        ("ended (UTC)", escaped(run.ended or "not ended: running or interrupted")),
        ("isolation statement (RFC 6815)", escaped(run.isolation or bounds.NOT_RECORDED)),
        ("operator's notes", escaped(run.notes or "none")),
        ("standards ledger", escaped(opening.ledger_count(results))),
    ]
    yield table(("identity", ""), rows)


def _result_rows(group: Group) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        for goal in result.goals:
            value = bounds.headline_fps(goal)
            l1 = goal.throughput_l1_bps
            conditional = goal.conditional_throughput_fps
            yield (
                result.size_name,
                escaped(goal.name),
                f"**{escaped(bounds.qualified(goal))}**",
                escaped(bounds.upper(goal)),
                _NONE if conditional is None else text.fps(conditional),
                _NONE if l1 is None else text.gigabits(l1),
                bounds.share(value, result.media_max_fps),
                bounds.share(value, result.generator_max_fps),
                str(result.trial_count),
                escaped(bounds.flag_with_reason(goal)),
            )


def _direction_rows(group: Group) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        for goal in result.goals:
            known = {b.direction: b for b in goal.per_direction}
            for name in dict.fromkeys([*known, *goal.latency]):
                bound, latency = known.get(name), goal.latency.get(name)
                percentiles = latency.percentiles if latency else {}
                yield (
                    result.size_name,
                    escaped(goal.name),
                    escaped(name),
                    bounds.rate(bound.lower_bound_fps if bound else None),
                    bounds.upper(bound) if bound else bounds.NOT_MEASURED,
                    bounds.rate(bound.conditional_throughput_fps if bound else None),
                    _NONE
                    if bound is None or bound.loss_ratio_at_lower_bound is None
                    else text.percent(bound.loss_ratio_at_lower_bound),
                    *(
                        text.nanoseconds(percentiles[p]) if p in percentiles else _NONE
                        for p in ("50", "99")
                    ),
                    text.nanoseconds(latency.max_ns) if latency else bounds.NOT_MEASURED,
                )


def _goals(group: Group) -> Iterator[str]:
    for goal in goals_used(group):
        yield f"- goal **{escaped(goal.name)}**: {bounds.goal_attributes(goal)}"
    for said in sorted({bounds.search_attributes(r) for r in group.measured}):
        yield f"- {escaped(said)}"


def _search_rows(group: Group, results: RunResults) -> Iterator[tuple[str, ...]]:
    trials = trials_by_case(results)
    for result in group.measured:
        yield (
            result.size_name,
            str(result.trial_count),
            escaped(bounds.verdicts(result)),
            escaped(summarise(trials.get(case_of(result), [])).sentence),
            f"{bounds.rate(result.min_load_fps)} to {bounds.rate(result.max_load_fps)}",
            text.seconds(result.trial_seconds),
            text.seconds(result.wall_seconds),
        )


def _loss_rows(group: Group, results: RunResults) -> Iterator[tuple[str, ...]]:
    trials = trials_by_case(results)
    for result in group.measured:
        lost = account(trials.get(case_of(result), []))
        where = "; ".join(
            f"{escaped(hop)}: {text.frames(n)} ({text.percent(n / lost.total, 3)})"
            for hop, n in lost.by_hop.items()
            if lost.total
        )
        yield (
            result.size_name,
            f"{lost.lossy} of {lost.trials}",
            where or "no hop was named",
            str(lost.unattributed),
        )


def _group(group: Group, results: RunResults) -> Iterator[str]:
    yield f"## {escaped(group.title)}"
    missing = [r for r in group.results if r.status == "not measured"]
    if missing:
        yield "\n".join(
            f"- {r.size_text}: **not measured**: {escaped(r.why or bounds.NOT_RECORDED)}"
            for r in missing
        )
    if not group.measured:
        return
    yield "\n".join(_goals(group))
    head: tuple[str, ...] = ("frame size (octets with FCS)", "goal", "lower bound, aggregate")
    head += ("upper bound, aggregate", "conditional throughput, aggregate", "L1 Gbit/s")
    head += ("of the medium", "of the generator", "trials", "regular?")
    yield table(head, _result_rows(group))
    yield "### Each direction"
    head = ("octets", "goal", "direction", "lower bound", "upper bound", "conditional throughput")
    head += ("loss at lower bound", "latency p50", "p99", "max")
    yield table(head, _direction_rows(group))
    yield "### Searches"
    head = ("octets", "trials", "verdicts", "loads and losses", "load range per interface")
    yield table((*head, "traffic", "wall time"), _search_rows(group, results))
    yield "### Where lost frames died"
    head = ("octets", "VALID trials that lost frames", "frames lost at", "lossy, no hop named")
    yield table(head, _loss_rows(group, results))
    if any(goal.threads for r in group.measured for goal in r.goals):
        yield f"### {threads.TITLE}"
        rows = (tuple(map(escaped, cells)) for cells in threads.rows(group))
        yield table(threads.head(group), rows)
    yield "\n".join(f"- {escaped(said)}" for said in threads.notes(group))


def _calibration(results: RunResults) -> Iterator[str]:
    yield "## Calibration of the generator"
    if not results.calibrations:
        yield "Not measured: the run holds no calibration."
    for found in results.calibrations:
        yield from _calibration_of(found)


def _calibration_of(found: Calibration) -> Iterator[str]:
    yield (
        f"{escaped(found.generator)} looped to itself over {escaped(found.wire)}, processors "
        f"{escaped(', '.join(map(str, found.cores)) or 'none')}, {escaped(found.when)}."
    )
    head: tuple[str, ...] = (
        "octets",
        "clean maximum, both ports",
        "median latency at 1 %",
        "smallest latency",
    )
    head += ("pacing error", "largest burst at 10 % (frames)", "burst gap")
    rows = (
        (
            str(p.frame_size),
            text.fps(p.max_clean_fps),
            text.nanoseconds(p.latency_ns),
            text.nanoseconds(p.latency_min_ns),
            text.percent(p.pacing_error),
            str(p.max_burst),
            bounds.NOT_MEASURED
            if p.smallest_burst_gap_ns is None
            else text.nanoseconds(p.smallest_burst_gap_ns),
        )
        for p in found.points
    )
    yield table(head, rows)


def _surroundings(results: RunResults) -> Iterator[str]:
    yield "## Standards ledger"
    entries = opening.ledger(results)
    rows = [
        tuple(escaped(v) for v in (e.clause, e.requirement, e.status, e.value, e.reason))
        for e in entries
    ]
    yield table(("clause", "requirement", "status", "done", "why"), rows)
    yield "## Environment"
    yield table(("fact", "value"), ((escaped(k), code(v)) for k, v in flatten(results.environment)))
    for facts in results.scenarios:
        yield f"## Deployed: {escaped(facts.scenario)}"
        if facts.error:
            yield f"**Not deployed**: {escaped(facts.error)}"
        else:
            yield f"Ready after {text.seconds(facts.deploy_s)}."
        tree = {"path_check": facts.path_check, "facts": facts.facts, "plan": facts.plan}
        known = {k: v for k, v in tree.items() if v}
        if known:
            yield table(("fact", "value"), ((escaped(k), code(v)) for k, v in flatten(known)))
    yield "## Settings"
    settings = (
        (escaped(k), code(_joined(v.get("value"))), escaped(scalar(v.get("source"))))
        for k, v in results.settings.items()
    )
    yield table(("setting", "value", "source"), settings)


def _joined(value: object) -> str:
    return "; ".join(f"{k} = {v}" if k else v for k, v in flatten(value))


def _unknowns(results: RunResults) -> Iterator[str]:
    yield "## Not measured, unknown"
    found = gather(results)
    yield table(("value", "why"), ((escaped(u.where), escaped(u.what)) for u in found))


def markdown_report(results: RunResults) -> str:
    """report.md.

    Args:
        results: The run.

    Returns:
        Markdown; its first line says so when the run is no benchmark.
    """
    parts: list[str] = []
    first = opening.first_line(results)
    if first:
        parts.append(f"**{escaped(first)}**")
    parts.append(f"# vnetperf report: {escaped(results.preset)}")
    parts += [f"> **Warning:** {escaped(w)}" for w in results.warnings]
    parts += _identity(results)
    parts += comparisons(results)
    for group in groups(results):
        parts += _group(group, results)
    parts += attach.markdown(results)
    parts += transfers.markdown(results)
    parts += _calibration(results)
    parts += _surroundings(results)
    parts += _unknowns(results)
    return "\n\n".join(part for part in parts if part) + "\n"
