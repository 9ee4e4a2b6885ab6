"""`vnetperf expect FILE RUN`: holds a stored run against a file of expectations."""

from __future__ import annotations

import argparse
from pathlib import Path

from vnetperf.cli import add_results_dir, read_records
from vnetperf.model.errors import LogError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("file", help="thresholds in TOML (docs/expectations.md)")
    parser.add_argument(
        "run", nargs="?", default="latest", help="a run's folder, name or log (default: latest)"
    )
    add_results_dir(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge and print."""
    from vnetperf.analysis.results_from_log import derive
    from vnetperf.analysis.thresholds import Expectations
    from vnetperf.cli.tables import Out
    from vnetperf.runner.scenarios import scenario_ids

    expectations = Expectations.load(Path(arguments.file), scenario_ids())
    path, records = read_records(arguments.run, arguments.results_dir)
    results = derive(records)
    judged = expectations.judge_run(results, cases_too=True)
    out = Out()
    for word, met, style in (
        ("met", True, "green"),
        ("not judged", None, "yellow"),
        ("FAILED", False, "red"),
    ):
        for verdict in judged:
            if verdict.met is met:
                out.line(f"{word}: {verdict}", style)
    if all(verdict.met is None for verdict in judged):
        raise LogError(
            "none of the file's expectations can be judged by it",
            where=str(path),
            accepted="a run with the numbers that the file names, of its scenarios, tests and "
            "frame sizes",
        )
    return int(any(verdict.met is False for verdict in judged))
