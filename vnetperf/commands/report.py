"""`vnetperf report DIR`: rebuilds every report from the trial log alone."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options.

    Args:
        parser: The subcommand's parser.
    """
    parser.add_argument(
        "folder",
        nargs="?",
        default="results/latest",
        help="a run's folder, or its trials.jsonl (default: results/latest)",
    )
    parser.add_argument("--output", help="folder for the reports (default: the run's)")


def run(arguments: argparse.Namespace) -> int:
    """Rebuild the reports.

    Args:
        arguments: Parsed arguments.

    Returns:
        0.
    """
    from vnetperf.bench.derive import derive
    from vnetperf.report import write_all
    from vnetperf.report.terminal import print_results
    from vnetperf.results.folder import read_run
    from vnetperf.results.log import read_log

    given = Path(arguments.folder)
    results = derive(read_log(given) if given.is_file() else read_run(given))
    folder = given.parent if given.is_file() else given
    output = Path(arguments.output) if arguments.output else folder
    output.mkdir(parents=True, exist_ok=True)
    print_results(results)
    for path in write_all(results, output):
        print(path)
    return 0
