"""`vnetperf restore`: undoes what runs that died left on this machine, or on a testbed's hosts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from vnetperf.model.errors import HostError, VnetperfError

#: Longest wait for somebody else who undoes a run at this moment, seconds.
UNDO_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--testbed", default="", help="restore every host of this testbed, by its agents"
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore."""
    return _restore_hosts(arguments.testbed) if arguments.testbed else _restore_machine()


def _restore_machine() -> int:
    from vnetperf.host import linux
    from vnetperf.host.paths import HostRoots
    from vnetperf.host.session import restore_patiently

    if not linux.is_root():
        lacks = () if os.geteuid() else linux.missing_capabilities()
        raise HostError(
            "only root can undo changes to this machine"
            + (f", and this one lacks {', '.join(lacks)}" if lacks else ""),
            cure="give them to its container"
            if lacks
            else 'run it with sudo, by its full path: `sudo "$(command -v vnetperf)" restore`',
        )
    report = restore_patiently(
        HostRoots(),
        UNDO_S,
        lambda run: run.is_undone,
        on_run=lambda run_id: print(f"run {run_id}:"),
    )
    for live in report.live:
        print(f"left alone: {live.describe()}")
    outcome = {
        **asdict(report),
        "restored": [asdict(restored_run) for restored_run in report.restored],
    }
    _print_restored(outcome)
    return 0 if report.complete else 1


def _restore_hosts(name: str) -> int:
    """Restore each host of a testbed: an agent does it when it begins."""
    from vnetperf.agent.client import AgentClient
    from vnetperf.config.settings import read_testbed

    testbed = read_testbed(name)
    complete = True
    for host in testbed.host_names:
        client = AgentClient(testbed.of_host(host))
        transport = client.testbed.agent.transport
        print(f"host {host} ({transport}):" if host else f"{transport}:", flush=True)
        try:
            answer = client.hello()
            _print_restored(answer["restored"])
            for live in answer["restored"]["live"]:
                print(f"left alone: run {live['run_id']} of {live['user']} (pid {live['pid']})")
            complete = complete and not answer["troubles"]
        except VnetperfError as error:  # the other hosts all the same
            print(f"  NOT restored: {error}", file=sys.stderr, flush=True)
            complete = False
        finally:
            client.close()
    return 0 if complete else 1


def _print_restored(report: Mapping[str, Any]) -> None:
    for text in report["foreign"]:
        print(f"left alone: {text}")
    for undone in report["restored"]:
        for step in undone["undone"]:
            print(f"  undone: {step['what']} ({step['outcome']})")
        for step in undone["failed"]:
            print(f"  NOT undone: {step['what']}: {step['outcome']}", file=sys.stderr)
    for text in (*report["unreadable"], *report["damaged"]):
        print(f"  needs a human: {text}", file=sys.stderr)
    restoring = any(live["role"] != "agent" for live in report["live"])
    if not report["restored"] and not report["unreadable"] and not restoring:
        print("nothing to restore: no dead run has left anything")
