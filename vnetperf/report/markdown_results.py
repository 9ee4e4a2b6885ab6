"""Results in report.md: what was found first, then each scenario and test with all its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetperf.model.result import RunResults, TrialPoint
from vnetperf.report import bounds, outcomes, threads
from vnetperf.report import units_text as text
from vnetperf.report.cases import Case, Group, case_of, goals_used, groups
from vnetperf.report.losses import account
from vnetperf.report.markdown_text import escaped, table
from vnetperf.report.tabular import markdown as table_markdown
from vnetperf.report.trialstats import summarise

_NONE = "\N{EN DASH}"
_BREAK = "\n"
_TRIALS_HEAD = (
    "octets",
    "trials",
    "verdicts",
    "loads and losses",
    "load range per interface",
    "traffic",
    "wall time",
)
#: Trials of each search.
Trials = Mapping[Case, Sequence[TrialPoint]]


def answers(results: RunResults) -> Iterator[str]:
    """What each test came to, before any detail.

    Args:
        results: The run.

    Yields:
        Markdown blocks; none for a run that measured throughput alone, whose table comes at once.
    """
    rows = []
    for group in groups(results):
        for result in group.results:
            number, more = outcomes.headline(result)
            if result.status == "measured" and number:
                cells = (group.scenario, group.test, result.size_name)
                rows.append(
                    (
                        *map(escaped, cells),
                        f"**{escaped(number.replace(_BREAK, '; '))}**",
                        escaped(more),
                    )
                )
    if rows:
        yield "## Tests besides throughput"
        yield table(("scenario", "test", "octets", "found", "with"), rows)


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
                bounds.rate(result.media_max_fps),
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


def _search_rows(group: Group, trials: Trials) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        yield (
            result.size_name,
            str(result.trial_count),
            escaped(bounds.verdicts(result)),
            escaped(summarise(trials.get(case_of(result), ())).sentence),
            bounds.load_range(result, trials.get(case_of(result), ())),
            text.seconds(result.trial_seconds),
            text.seconds(result.wall_seconds),
        )


def _loss_rows(group: Group, trials: Trials) -> Iterator[tuple[str, ...]]:
    for result in group.measured:
        lost = account(trials.get(case_of(result), ()))
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


def _searched(group: Group) -> Iterator[str]:
    yield "\n".join(_goals(group))
    head: tuple[str, ...] = ("frame size (octets with FCS)", "goal", "lower bound, aggregate")
    head += ("upper bound, aggregate", "conditional throughput, aggregate", "L1 Gbit/s")
    head += ("theoretical maximum, aggregate", "of it", "of the generator", "trials", "regular?")
    yield table(head, _result_rows(group))
    yield "### Each direction"
    head = ("octets", "goal", "direction", "lower bound", "upper bound", "conditional throughput")
    head += ("loss at lower bound", "latency p50", "p99", "max")
    yield table(head, _direction_rows(group))


def group_part(group: Group, trials: Trials) -> Iterator[str]:
    """One scenario and test.

    Args:
        group: Its results.
        trials: All trials of the run by search.

    Yields:
        Markdown blocks.
    """
    yield f"## {escaped(group.title)}"
    missing = [r for r in group.results if r.status == "not measured"]
    if missing:
        yield "\n".join(
            f"- {r.size_text}: **not measured**: {escaped(r.why or bounds.NOT_RECORDED)}"
            for r in missing
        )
    if not group.measured:
        return
    if group.goal_names:
        yield from _searched(group)
    for found in outcomes.tables(group):
        yield from table_markdown(found)
    yield "### Searches" if group.goal_names else "### Trials"
    yield table(_TRIALS_HEAD, _search_rows(group, trials))
    yield "### Where lost frames died"
    head = ("octets", "VALID trials that lost frames", "frames lost at", "lossy, no hop named")
    yield table(head, _loss_rows(group, trials))
    if any(goal.threads for r in group.measured for goal in r.goals):
        yield f"### {threads.TITLE}"
        rows = (tuple(map(escaped, cells)) for cells in threads.rows(group))
        yield table(threads.head(group), rows)
    yield "\n".join(f"- {escaped(said)}" for said in threads.notes(group))
