"""`vnetperf trend DIR`: how numbers went on over many runs, and at which run they changed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from vnetperf.cli import add_output_options, parse_share, results_folder
from vnetperf.model.errors import LogError

if TYPE_CHECKING:
    from vnetperf.analysis.trend import LevelChange, Trend
    from vnetperf.cli.tables import Out

#: Differences of the environment that are shown at a change without `--all`.
_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "folder", nargs="?", help="folder of all runs (default: where they are written to)"
    )
    parser.add_argument("--scenario", default="*", help="only these, e.g. pvp_*")
    parser.add_argument("--test", default="*", help="only these tests")
    parser.add_argument("--size", default="*", help="only this frame size")
    parser.add_argument("--preset", default="*", help="only runs with this preset")
    parser.add_argument(
        "--runs", type=int, default=2, metavar="N", help="only numbers of N runs or more"
    )
    add_output_options(
        parser,
        "secondary numbers, and every difference at a change",
        "the last level of a number is a worse one, or the newest 3 runs or more have no stable "
        "number and chance does not explain it, all numbers considered (Holm)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Follow and print."""
    from vnetperf.analysis.trend import lost_for_sure, read_runs, trends, worse_for_sure
    from vnetperf.cli.tables import Out
    from vnetperf.model.scenario import is_called

    folder = results_folder(arguments.folder)
    runs, unread = read_runs(folder)
    least = parse_share(arguments.least)
    selected = [loaded for loaded in runs if fnmatch(loaded.first.preset, arguments.preset)]
    selected_trends = [
        trend
        for trend in trends(
            selected, everything=arguments.all, least=least, across=arguments.across
        )
        if is_called(trend.metric.scenario, arguments.scenario)
        and fnmatch(trend.metric.test, arguments.test)
        and fnmatch(trend.metric.size, arguments.size)
        and len(trend.points) >= arguments.runs
    ]
    if not selected_trends:
        raise LogError(
            f"no number of {arguments.runs} runs or more matches the options",
            where=str(folder),
            accepted="--scenario, --test, --size and --preset of runs that are there",
        )
    if arguments.json:
        print(json.dumps([_as_json(trend) for trend in selected_trends], indent=2))
    else:
        out = Out()
        notes = [loaded.note for loaded in runs if loaded.note]
        for trend in selected_trends:
            _print(trend, out, everything=arguments.all)
        _print_sources(unread, notes, out, everything=arguments.all)
    if not arguments.fail_if_worse:
        return 0
    worse = [
        (trend, f"worse from {trend.changes[-1].after.run.name} on")
        for trend in worse_for_sure(selected_trends)
    ]
    worse += [
        (trend, f"no stable number in the newest {len(trend.newest_broken)} runs")
        for trend in lost_for_sure(selected_trends)
    ]
    for trend, reason in worse:
        print(f"vnetperf: --fail-if-worse fails: {trend.title}: {reason}", file=sys.stderr)
    return int(bool(worse))


def _print(trend: Trend, out: Out, *, everything: bool) -> None:
    out.line()
    metric = trend.metric
    size = f"{metric.size} octets" if metric.size.isdecimal() else metric.size
    parts = (metric.scenario, metric.test, size, trend.name)
    out.line(", ".join(filter(None, parts)), "bold")
    if trend.apart:
        out.line(f"  {trend.apart}")
    out.table(("", "run", ">number", ">of level", ">n", "tool", "marks"), _rows(trend))
    for change in trend.changes:
        _print_change(change, out, everything=everything)
    if trend.wandering is not None:
        alike, share = trend.wandering.autocorrelation, trend.wandering.share
        out.line(
            f"  cannot tell: runs are like those before them (autocorrelation {alike:.2f}), and "
            f"{share:.0%} of series that wander without a change show as large a one"
        )
    elif not trend.changes:
        n = sum(not point.is_open for point in trend.points)
        few = f"; {n} runs show none yet: a change needs about five on either side"
        out.line("  no change seen" + (few if n < 10 else ""))


def _rows(trend: Trend) -> list[Sequence[str]]:
    from vnetperf.cli.tables import number, percent

    rows: list[Sequence[str]] = []
    level_of = {n: level for level in trend.levels for n in range(level.begin, level.end)}
    begins = {level.begin for level in trend.levels[1:]}
    for n, point in enumerate(trend.points):
        level = level_of[n].median if n in level_of and not point.is_open else 0.0
        run, unit = point.results.run, trend.metric.unit
        marks = [*point.marks, *(["far from its level"] if n in trend.far else [])]
        rows.append(
            (
                ">" if n in begins else "",
                point.run.name,
                number(point.number, unit),
                percent((point.value - level) / abs(level)) if level else "-",
                str(len(point.rounds)),
                run.git.replace("-dirty", "+") if not run.git.startswith("unknown") else "unknown",
                "; ".join(marks),
            )
        )
    return rows


def _print_change(change: LevelChange, out: Out, *, everything: bool) -> None:
    from vnetperf.cli.tables import number, percent

    unit = change.after.metric.unit
    judged = "worse" if change.is_worse else "better" if change.after.metric.better else "changed"
    out.line(
        f"> {judged} from {change.after.run.name} on: {number(change.old, unit)} -> "
        f"{number(change.new, unit)} ({percent(change.ratio)})",
        "red" if change.is_worse else "green",
    )
    differing = change.environment
    if not differing:
        out.line("  no difference of the environment is recorded")
        return
    out.differences(differing, None if everything else _SHOWN)


def _print_sources(unread: list[str], notes: list[str], out: Out, *, everything: bool) -> None:
    if unread:
        out.line()
        out.line(f"{len(unread)} runs could not be read", "bold")
        out.bullets(unread if everything else unread[:_SHOWN])
    if notes:
        out.line()
        out.line(f"{len(notes)} runs are read from results.json, as their own vnetperf derived it:")
        out.line("  this one would have searched otherwise" + ("" if everything else " (--all)"))
        if everything:
            out.bullets(notes)


def _as_json(trend: Trend) -> dict[str, Any]:
    from vnetperf.cli.tables import unit_name

    return {
        **{"scenario": trend.metric.scenario, "test": trend.metric.test},
        **{"size": trend.metric.size, "number": trend.name},
        **{"apart": trend.apart, "unit": unit_name(trend.metric.unit)},
        "newest_broken": len(trend.newest_broken),
        "points": [
            {
                **{"run": str(p.run.path), "began": p.results.run.started},
                **{"tool": p.results.run.tool, "git": p.results.run.git},
                **{"value": p.number, "deployments": len(p.rounds), "marks": p.marks},
                **{"failures": p.failures, "broken": p.is_broken},
            }
            for p in trend.points
        ],
        "levels": [asdict(level) for level in trend.levels],
        "changes": [
            {
                **{"run": str(c.after.run.path), "old": c.old, "new": c.new},
                **{
                    "p": c.p,
                    "worse": c.is_worse,
                    "environment": [asdict(d) for d in c.environment],
                },
            }
            for c in trend.changes
        ],
        "far": trend.far,
        "wandering": None if trend.wandering is None else asdict(trend.wandering),
    }
