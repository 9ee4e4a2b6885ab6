"""`vnetperf compare A B`: what differs between two runs or scenarios, and how surely."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vnetperf.cli import add_output_options, add_results_dir, find_runs_folder, parse_share
from vnetperf.model.errors import ConfigError

if TYPE_CHECKING:
    from vnetperf.analysis.comparison import ComparisonRow, Side, SideComparison
    from vnetperf.cli.tables import Out

#: Where `--fail-if-worse` cannot say anything, and how it could.
_IN_TURN = "`pytest ... -k 'a or b' --repeat 5` measures both in turn: compare RUN:A RUN:B"
NO_GATE = (
    "--fail-if-worse judges nothing here: a gate needs 3 deployments or more of each side, in turn "
    f"or of several runs (RUN+RUN+RUN); {_IN_TURN}"
)
ONE_RUN = (
    "--fail-if-worse judges no difference here: of {}, one run, it is not known what differs "
    f"between runs, and unchanged machines would fail. {_IN_TURN}; or give 3 runs or more of each "
    "side, RUN+RUN+RUN; --single-run judges all the same"
)
OUT_OF_TURN = (
    "--fail-if-worse does not judge {}, and fails: pollers share processors there, and A and B "
    "were not measured in turn. What else such a machine does lasts from one deployment to the "
    f"next, so that up to 30 % of unchanged machines would fail. {_IN_TURN}; of two versions take "
    "turns by whole runs, old, new, old, new ..., and compare OLD+OLD+OLD NEW+NEW+NEW"
)
#: Differences of the environment that are shown without `--all`.
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    side_help = "RUN, RUN:SCENARIO, or several runs of one side as RUN+RUN+RUN"
    parser.add_argument("a", metavar="A", help=side_help)
    parser.add_argument("b", metavar="B", help=f"the other side: {side_help}")
    add_results_dir(parser)
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="level of intervals (default: 0.95)"
    )
    parser.add_argument(
        "--single-run",
        action="store_true",
        help="let --fail-if-worse take rounds of a side's only run for replicates, too: it then "
        "fails without a cause where runs differ",
    )
    add_output_options(
        parser,
        "secondary numbers and every difference of environment",
        "a main number is worse in 3 deployments or more of each side, in turn or of several runs, "
        "or deployments of B lack it more often, all numbers considered (Holm); and where pollers "
        "share processors and the sides were not measured in turn",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    from vnetperf.analysis.comparison import compare
    from vnetperf.cli.tables import Out

    if not 0 < arguments.confidence < 1:
        raise ConfigError(
            f"{arguments.confidence:g} is no level", where="--confidence", accepted="0.5 .. 0.999"
        )
    runs = [run for side in (arguments.a, arguments.b) for run in _parts(side)[0]]
    folder = find_runs_folder(runs, arguments.results_dir)
    comparison = compare(
        read_side(arguments.a, folder),
        read_side(arguments.b, folder),
        confidence=arguments.confidence,
        least=parse_share(arguments.least),
        across=arguments.across,
        single_run=arguments.single_run,
    )
    if arguments.json:
        print(json.dumps(_as_json(comparison), indent=2, allow_nan=False))
    else:
        print_comparison(comparison, Out(), everything=arguments.all)
    if arguments.fail_if_worse:
        if comparison.out_of_turn:
            names = ", ".join(comparison.out_of_turn)
            print(f"vnetperf: {OUT_OF_TURN.format(names)}", file=sys.stderr)
        elif not comparison.gated:
            enough = any(row.is_enough for row in comparison.rows)
            reason = ONE_RUN.format(comparison.unpaired_sides) if enough else NO_GATE
            print(f"vnetperf: {reason}", file=sys.stderr)
        for number in (number for number in comparison.ungated if comparison.gated or number.lost):
            judged = "fails" if number.lost else "does not judge"
            print(
                f"vnetperf: --fail-if-worse {judged}: {number.name}: {number.why}", file=sys.stderr
            )
    return int(arguments.fail_if_worse and comparison.fails_gate)


def _parts(text: str) -> tuple[list[str], str]:
    """The runs of a side, as they are typed, and its scenario."""
    runs, scenario = text, ""
    if not Path(text).exists() and ":" in text:
        runs, _, scenario = text.partition(":")
    return [runs] if Path(runs).exists() else runs.split("+"), scenario


def read_side(text: str, results_dir: Path) -> Side:
    """Read one side."""
    from vnetperf.analysis.comparison import Side
    from vnetperf.analysis.runs import find_run, load_run
    from vnetperf.log.trial_log import LOG_NAME

    parts, scenario = _parts(text)
    names_by_run: dict[Path, str] = {}
    for name in parts:
        path = find_run(name, results_dir).resolve()
        run = path.parent if path.name == LOG_NAME else path
        if run in names_by_run:
            raise ConfigError(
                f"{names_by_run[run]} and {name} are the same run, which is one observation",
                where=text,
                accepted="each run once: RUN+RUN+RUN",
            )
        names_by_run[run] = name
    return Side(
        text,
        tuple(load_run(find_run(name, results_dir)) for name in names_by_run.values()),
        scenario,
    )


def print_comparison(comparison: SideComparison, out: Out, *, everything: bool) -> None:
    """Print a comparison."""
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        for loaded in side.runs:
            run, rounds = loaded.first.run, len(loaded.rounds)
            repeated = f", {rounds} deployments" if rounds > 1 else ""
            scenario = f", {side.scenario}" if side.scenario else ""
            origin = f"preset {loaded.first.preset}, {run.tool} ({run.git})"
            out.line(f"{letter}: {loaded.name}{scenario}{repeated}, {origin}")
            if loaded.note:
                out.bullets([loaded.note])
    if comparison.across:
        out.line()
        out.line("Compared across", "bold")
        out.bullets(comparison.across)
    rows = [row for row in comparison.rows if everything or row.metric.main]
    for scenario in dict.fromkeys(row.scenario for row in rows):
        out.line()
        out.line(scenario, "bold")
        out.table(
            ("number", ">A", ">B", ">B \N{MINUS SIGN} A", "interval", ">n", "verdict"),
            [_cells(row) for row in rows if row.scenario == scenario],
        )
    out.line()
    out.bullets(_explained(comparison, hidden=len(comparison.rows) - len(rows)))
    marks = [f"{_describe_row(row)}: {'; '.join(row.marks)}" for row in rows if row.marks]
    if marks:
        out.line("Marks", "bold")
        out.bullets(marks)
    if comparison.not_compared:
        out.line("Not compared", "bold")
        out.bullets(comparison.not_compared)
    _print_environment(comparison, out, everything=everything)


def _describe_row(row: ComparisonRow) -> str:
    q = row.metric
    return f"{row.scenario}, {q.test}, {q.size}, {q.title}"


def _cells(row: ComparisonRow) -> tuple[str, ...]:
    from vnetperf.cli.tables import number

    q, difference = row.metric, row.found
    n = (
        f"{difference.n[0]}"
        if difference.n[0] == difference.n[1]
        else f"{difference.n[0]}, {difference.n[1]}"
    )
    mark = " *" if row.marks else ""
    return (
        f"{q.test} {q.size} {q.title}",
        number(_mean(row.a), q.unit) + mark,
        number(_mean(row.b), q.unit),
        _delta(row, 0),
        _interval(row),
        n,
        row.verdict,
    )


def _mean(side: tuple[Any, ...]) -> float | None:
    values = [m.value for m in side if m.value is not None]
    return sum(values) / len(values) if len(values) == len(side) else None


def _delta(row: ComparisonRow, end: int) -> str:
    """Value (0), low (1) or high (2) of a difference, as a share of A where that is defined."""
    from vnetperf.cli.tables import number, percent

    difference = row.found
    if difference.ratio is not None and row.metric.unit != "ratio":
        return percent(difference.ratio[end])
    value = (difference.value, difference.low, difference.high)[end]
    if value is None:
        return "-"
    base = _mean(row.a)
    if base and row.metric.unit != "ratio":
        return percent(value / abs(base))
    return ("+" if value > 0 else "") + number(value, row.metric.unit)


def _interval(row: ComparisonRow) -> str:
    difference = row.found
    if isinf(difference.low) and isinf(difference.high):
        return "none"
    return f"[{_delta(row, 1)}, {_delta(row, 2)}]"


def _explained(comparison: SideComparison, *, hidden: int) -> list[str]:
    """How the table is to be read, only as far as it needs to be."""
    methods = {row.found.method for row in comparison.rows}
    notes = []
    if "paired" in methods:
        observations = "Rounds of one run" if comparison.turns == "rounds" else "Runs"
        notes.append(
            f"{observations} took turns: the interval is that of their differences, pair by pair "
            "(t, of logarithms where all are positive)."
        )
    if comparison.out_of_turn:
        notes.append(
            "Cannot tell: pollers share processors, and what else the machine does lasts from one "
            "deployment to the next. Sides that did not take turns may differ by that alone. "
            f"{_IN_TURN}."
        )
    if "welch" in methods:
        notes.append(
            "The interval is that of the difference of two means (Welch, of logarithms where all "
            "are positive)."
        )
    if methods & {"paired", "welch"}:
        notes.append(
            "It is widened by what each search leaves open between its bounds. Verdicts hold for "
            "all main numbers together (Holm); intervals are of each alone."
        )
    if comparison.by_run:
        notes.append(f"Each run of {comparison.by_run} is one observation: the mean of its rounds.")
    if sides := comparison.unpaired_sides:
        notes.append(
            f"One run of {sides}: what changes between runs (a day, a boot, a build) is not known, "
            "and is in no interval. Several runs of each side, RUN+RUN+RUN, show it."
        )
    if "ranks" in methods:
        notes.append("Where results are open (at least, at most) there is no mean: ranks decide.")
    if "none" in methods:
        notes.append(
            "n = 1: how it repeats is not known; trials within a deployment are no replicates. "
            "`--repeat 5` deploys and measures both in turn."
        )
    if hidden:
        notes.append(
            f"{hidden} secondary numbers (percentiles ...) are left out: --all shows them."
        )
    return notes


def _print_environment(comparison: SideComparison, out: Out, *, everything: bool) -> None:
    differing = comparison.environment
    if not differing:
        out.line("Environment: no difference recorded.", "bold")
        return
    out.line(f"Environment: {len(differing)} differences", "bold")
    out.differences(differing, None if everything else _SHOWN)


def _finite(value: Any) -> Any:
    """Infinite ends of intervals as null: JSON has no other."""
    if isinstance(value, float):
        return None if isinf(value) else value
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _as_json(comparison: SideComparison) -> dict[str, Any]:
    from vnetperf.cli.tables import unit_name

    def side_json(side: Side) -> dict[str, Any]:
        return {
            "name": side.name,
            "scenario": side.scenario,
            "runs": [str(r.path) for r in side.runs],
            "notes": [r.note for r in side.runs if r.note],
        }

    def row_json(row: ComparisonRow) -> dict[str, Any]:
        q = row.metric
        return {
            **{"scenario": row.scenario, "test": q.test, "size": q.size, "number": q.title},
            **{"unit": unit_name(q.unit), "better": q.better, "main": q.main},
            "a": [asdict(m) for m in row.a],
            "b": [asdict(m) for m in row.b],
            "difference": asdict(row.found),
            **{"p_holm": row.p, "worse": row.is_worse, "verdict": row.verdict},
            "marks": row.marks,
        }

    document = {
        **{"a": side_json(comparison.a), "b": side_json(comparison.b), "paired": comparison.paired},
        "by_run": bool(comparison.by_run),
        "out_of_turn": comparison.out_of_turn,
        **{"gated": comparison.gated, "fails_gate": comparison.fails_gate},
        "rows": [row_json(row) for row in comparison.rows],
        "not_compared": comparison.not_compared,
        "not_gated": [asdict(number) for number in comparison.ungated],
        "across": comparison.across,
        "environment": [asdict(d) for d in comparison.environment],
    }
    plain: dict[str, Any] = _finite(document)
    return plain
