"""`vnetperf report DIR`: rebuilds every report from the trial log alone, or answers other goals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vnetperf.cli import read_records

if TYPE_CHECKING:
    from vnetperf.analysis.reanalysis import Reanalysis, WantedGoal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "folder",
        nargs="?",
        default="results/latest",
        help="a run's folder, its name, or its trials.jsonl (default: results/latest)",
    )
    parser.add_argument("--output", help="folder for the reports (default: the run's)")
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
    from vnetperf.model.errors import ConfigError
    from vnetperf.report import write_all
    from vnetperf.report.terminal import print_results

    of_goals = (arguments.trial_s, arguments.sum_s, arguments.width, arguments.exceed)
    if arguments.goals is None and any(value is not None for value in of_goals):
        raise ConfigError(
            "--trial-s, --sum-s, --width and --exceed describe a goal of --goals",
            where="report",
            cure="add --goals, e.g. --goals 0.001",
        )
    given, records = read_records(arguments.folder)
    folder = given.parent if given.is_file() else given
    if arguments.goals is not None:
        answered = answer_goals(records, goals_of(arguments))
        print_results(answered.results)
        _print_missing(answered)
        results = answered.results
        if arguments.output is None:
            return 0  # the run's own reports say what it was measured for
    else:
        results = derive(records)
        print_results(results)
    output = Path(arguments.output) if arguments.output else folder
    output.mkdir(parents=True, exist_ok=True)
    for path in write_all(results, output):
        print(path)
    return 0


def goals_of(arguments: argparse.Namespace) -> list[WantedGoal]:
    """The goals that options describe."""
    from vnetperf.analysis.reanalysis import WantedGoal
    from vnetperf.model.errors import ConfigError

    found = []
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
        found.append(
            WantedGoal(
                name=name.strip(),
                loss_ratio=ratio,
                exceed_ratio=arguments.exceed,
                final_trial_s=arguments.trial_s,
                duration_sum_s=arguments.sum_s,
                width=arguments.width,
            )
        )
    return found


def _print_missing(answered: Reanalysis) -> None:
    from vnetperf.cli.tables import Out

    out = Out()
    if not answered.missing:
        out.line("Every goal is answered by trials of the log.", "bold")
        return
    out.line("Missing trials", "bold")
    out.bullets(answered.missing)
