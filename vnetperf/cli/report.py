"""`vnetperf report DIR`: rebuilds every report from the trial log alone, or answers other goals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vnetperf.cli import find_runs_folder, read_records
from vnetperf.model.errors import ConfigError

if TYPE_CHECKING:
    from vnetperf.analysis.reanalysis import Reanalysis, WantedGoal
    from vnetperf.log.records import Record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "folder",
        nargs="?",
        default="latest",
        help="a run's folder, its name, or its trials.jsonl (default: latest)",
    )
    parser.add_argument("--output", help="folder for the reports (default: the run's)")
    parser.add_argument(
        "--up-to-damage",
        action="store_true",
        help="of a log that was damaged or edited, use the records before the first such line",
    )
    goals = parser.add_argument_group(
        "other goals",
        "answered from the trials that are there; what a goal leaves out is as in "
        "the log. Reports with them are written with --output only.",
    )
    goals.add_argument(
        "--goals",
        metavar="LIST",
        help="loss ratios, with a name if you like: 0,0.001 or ndr=0,pdr=0.5%%",
    )
    goals.add_argument("--trial-s", type=float, help="seconds of a trial that counts")
    goals.add_argument("--sum-s", type=float, help="seconds of trials that classify a load")
    goals.add_argument("--width", type=float, help="relative width of the bounds, e.g. 0.01")
    goals.add_argument(
        "--exceed", type=float, help="share of trial seconds that may exceed the loss ratio"
    )


def run(arguments: argparse.Namespace) -> int:
    """Rebuild the reports."""
    from vnetperf.analysis.reanalysis import answer_goals
    from vnetperf.analysis.results_from_log import derive
    from vnetperf.report import write_all
    from vnetperf.report.terminal import print_results

    of_goals = (arguments.trial_s, arguments.sum_s, arguments.width, arguments.exceed)
    if arguments.goals is None and any(value is not None for value in of_goals):
        raise ConfigError(
            "--trial-s, --sum-s, --width and --exceed describe a goal of --goals",
            where="report",
            cure="add --goals, e.g. --goals 0.001",
        )
    source, records, notes = _read_records(arguments)
    folder = source.parent if source.is_file() else source
    if arguments.goals is not None:
        answered = answer_goals(records, parse_goals(arguments))
        results = answered.results
        results = results.model_copy(update={"warnings": (*notes, *results.warnings)})
        print_results(results)
        _print_missing(answered)
        if arguments.output is None:
            return 0  # the run's own reports say what it was measured for
    else:
        results = derive(records)
        results = results.model_copy(update={"warnings": (*notes, *results.warnings)})
        print_results(results)
    del records  # of a large log more than all reports need
    output = Path(arguments.output) if arguments.output else folder
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in write_all(results, output):
        print(path)
    return 0


def _read_records(arguments: argparse.Namespace) -> tuple[Path, list[Record], tuple[str, ...]]:
    """The run or log, its records, and what a reader must know of them."""
    if not arguments.up_to_damage:
        return *read_records(arguments.folder), ()
    from vnetperf.analysis.runs import find_run
    from vnetperf.log.folder import read_up_to_damage

    source = find_run(arguments.folder, find_runs_folder([arguments.folder]))
    records, damage = read_up_to_damage(source)
    notes = tuple(
        f"the log is damaged, and only the records before that line are used: {error.where}: "
        f"{error.what}"
        for error in damage
    )
    return source, records, notes


def parse_goals(arguments: argparse.Namespace) -> list[WantedGoal]:
    """The goals that options describe."""
    from vnetperf.analysis.reanalysis import WantedGoal

    goals = []
    for part in arguments.goals.split(","):
        name, equals, text = part.rpartition("=")
        number = text.strip().removesuffix("%").strip()
        try:
            ratio = float(number) / (100 if text.strip().endswith("%") else 1)
        except ValueError:
            raise ConfigError(
                f"{part.strip()!r} is no loss ratio",
                where="--goals",
                accepted="ratios such as 0, 0.001 or 0.5 %, each with a name: pdr=0.5 %",
            ) from None
        if equals and not name.strip():
            raise ConfigError(f"{part.strip()!r} has no name", where="--goals", accepted="pdr=0.01")
        goals.append(
            WantedGoal(
                name=name.strip(),
                loss_ratio=ratio,
                exceed_ratio=arguments.exceed,
                final_trial_s=arguments.trial_s,
                duration_sum_s=arguments.sum_s,
                width=arguments.width,
            )
        )
    return goals


def _print_missing(answered: Reanalysis) -> None:
    from vnetperf.cli.tables import Out

    out = Out()
    if not answered.missing:
        out.line("Every goal is answered by trials of the log.", "bold")
        return
    out.line("Missing trials", "bold")
    out.bullets(answered.missing)
