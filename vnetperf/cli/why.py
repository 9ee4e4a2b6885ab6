"""`vnetperf why RUN SCENARIO TEST SIZE`: the trials that led to a value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vnetperf.cli import add_results_dir, read_records
from vnetperf.model import units
from vnetperf.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vnetperf.analysis.explain import Attempt, Explanation, Step
    from vnetperf.cli.tables import Out
    from vnetperf.log.records import Record
    from vnetperf.model.trial import TrialSpec

#: Columns below which the table leaves out where frames were lost.
NARROW = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("run", help="a run's folder, its name, or its trials.jsonl")
    parser.add_argument("scenario", nargs="?", help="e.g. pvp_dpdk (default: the only one)")
    parser.add_argument("test", nargs="?", help="e.g. throughput (default: the only one)")
    parser.add_argument("size", nargs="?", help="frame size, e.g. 64 (default: the only one)")
    add_results_dir(parser)
    parser.add_argument(
        "--round",
        type=int,
        default=0,
        help="round of a run with --repeat (default: the one that its reports show)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Explain and print."""
    from vnetperf.analysis.explain import explain
    from vnetperf.cli.tables import Out

    _, records = read_records(arguments.run, arguments.results_dir)
    scenario, test, size = _chosen(records, arguments)
    explanation = explain(records, scenario, test, size, number=arguments.round)
    _print(explanation, Out())
    return 0


def _chosen(records: Sequence[Record], arguments: argparse.Namespace) -> tuple[str, str, str]:
    """The result that is selected; what is left out is the only one there is."""
    from vnetperf.analysis.results_from_log import derive

    if not (results := derive(records).results):
        raise ConfigError(
            "there is no result of frames to explain",
            where=f"why {arguments.run}",
            accepted="a run that has throughput or another test of frames",
            cure="transfers and sessions have no search: report.md of the run has their values",
        )
    selection = (arguments.scenario, arguments.test, arguments.size)
    names = [(r.scenario, r.test, r.full_size_name) for r in results]
    matching = [
        name for name in names if all(g in (None, o) for g, o in zip(selection, name, strict=True))
    ]
    if len(matching) == 1:
        return matching[0]
    if all(part is not None for part in selection):
        return selection[0], selection[1], selection[2]  # explain() says what is there instead
    raise ConfigError(
        f"{len(matching) or 'no'} results are "
        + (" ".join(part for part in selection if part) or "there"),
        where=f"why {arguments.run}",
        accepted="one of: " + "; ".join(" ".join(name) for name in matching or names),
    )


def _print(explanation: Explanation, out: Out) -> None:
    result = explanation.result
    parts = (result.scenario, result.test, result.size_text, explanation.which)
    out.line(", ".join(filter(None, parts)), "bold")
    for number, attempt in enumerate(explanation.attempts, 1):
        _print_attempt(attempt, number, len(explanation.attempts), out)
    out.line()
    out.line("Explanation", "bold")
    out.bullets(explanation.conclusions)


def _print_attempt(attempt: Attempt, number: int, count: int, out: Out) -> None:
    begin = attempt.begin
    which = f"Attempt {number} of {count}: " if count > 1 else ""
    out.line()
    limit = f", {begin.limit_reason}" if begin.limit_reason else ""
    out.line(f"{which}number {begin.search} in the log{limit}")
    parts = any(step.part for step in attempt.steps)
    # Names of places are long: in few columns they would leave none for the others.
    places = out.console.width >= NARROW
    out.table(
        (
            *(">trial", ">load per\ninterface", ">seconds", ">loss, worse\ndirection"),
            *("verdict", *(["lost at"] if places else []), *(["is"] if parts else [])),
        ),
        [_row(step, parts=parts, places=places) for step in attempt.steps],
    )
    if not places and any(_largest(step) for step in attempt.steps):
        out.bullets([f"where frames were lost is shown in {NARROW} columns or more, and in a pipe"])
    if attempt.ended:
        out.bullets([attempt.ended])
    reasons = [f"trial {step.trial.number}: {step.remark}" for step in attempt.steps if step.remark]
    out.bullets(reasons)


def _row(step: Step, *, parts: bool, places: bool) -> tuple[str, ...]:
    trial = step.trial
    counted = bool(trial.result.directions)
    loss = units.percent(trial.result.worst_loss_ratio()) if counted else "-"
    return (
        str(trial.number),
        _load(trial.spec),
        f"{trial.spec.duration_s:g}",
        loss,
        trial.verdict.value,
        *([_largest(step) or "-"] if places else []),
        *([step.part] if parts else []),
    )


def _largest(step: Step) -> str:
    """Where most frames of a trial were lost, and at how many other places some were."""
    lost = {where: frames for where, frames in step.trial.lost_at.items() if frames}
    if not lost:
        return ""
    where = max(lost, key=lambda place: lost[place])
    others = f", {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"{where} {lost[where]}{others}"


def _load(spec: TrialSpec) -> str:
    if spec.burst:
        return f"burst of {spec.burst}"
    if spec.steps:
        return " -> ".join(units.fps(step.load_fps) for step in spec.steps)
    event = f", {spec.event.what}" if spec.event is not None else ""
    return f"{units.fps(spec.load_fps)}{event}"
