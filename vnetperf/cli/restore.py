"""`vnetperf restore`: undoes what a run that died left on this machine."""

from __future__ import annotations

import argparse
import sys

from vnetperf.model.errors import HostError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Restore."""
    from vnetperf.host.session import is_root, restore

    del arguments
    if not is_root():
        raise HostError(
            "only root can undo changes to this machine",
            cure='run it with sudo, by its full path: `sudo "$(command -v vnetperf)" restore`',
        )
    report = restore(on_run=lambda run_id: print(f"run {run_id}:"))
    for live in report.live:
        print(f"left alone: {live.describe()}")
    for text in report.foreign:
        print(f"left alone: {text}")
    for undone in report.restored:
        for step in undone.undone:
            print(f"  undone: {step.what} ({step.outcome})")
        for step in undone.failed:
            print(f"  NOT undone: {step.what}: {step.outcome}", file=sys.stderr)
    for text in (*report.unreadable, *report.damaged):
        print(f"  needs a human: {text}", file=sys.stderr)
    if not report.restored and report.complete:
        print("nothing to restore: no dead run has left anything")
    return 0 if report.complete else 1
