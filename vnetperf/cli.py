"""The console script `vnetperf`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from vnetperf import __version__
from vnetperf.model.errors import VnetperfError

#: Subcommand -> what it does; each is a module of vnetperf.commands with `add_arguments` and `run`.
COMMANDS = {
    "doctor": "what this machine can run, what is missing, how to get it",
    "show-config": "effective configuration, and where each value came from",
    "calibrate": "loop the traffic generator to itself and store what it can do",
    "report": "rebuild every report of a run from its trial log alone",
    "compare": "say what differs between two runs or scenarios, and how surely",
    "expect": "hold a stored run against a file of expectations",
    "why": "print the trials that led to a value, and what each of them did",
    "trend": "follow numbers over many runs, and name the run at which they changed",
    "publish": "give results to a TestAPI-like endpoint, or as OpenMetrics text",
    "redact": "copy a run without names, addresses and serials, to be given away",
    "lab": "run anything in a virtual machine with SR-IOV NICs, IOMMU and NUMA nodes",
    "image": "build, list and check the images that guests boot",
    "restore": "undo what a run that died left on this machine",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        argv: Arguments; None for the process's own.

    Returns:
        Exit status: 0 done, 1 something is wrong, 2 wrong use.
    """
    parser = argparse.ArgumentParser(
        prog="vnetperf",
        description="Benchmarks virtual switches and NFV data planes. "
        "Measurements are test cases: run `pytest testcases/ -k pvp_dpdk`.",
    )
    parser.add_argument("--version", action="version", version=f"vnetperf {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = import_module(f"vnetperf.commands.{name.replace('-', '_')}")
        module.add_arguments(subparsers.add_parser(name, help=summary, description=summary))
    arguments = parser.parse_args(argv)
    command = import_module(f"vnetperf.commands.{arguments.command.replace('-', '_')}")
    try:
        return int(command.run(arguments))
    except VnetperfError as error:
        print(f"vnetperf: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `vnetperf show-config | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # after BrokenPipeError, which is one
        where = f"{error.filename}: " if error.filename else ""
        print(f"vnetperf: {where}{error.strerror or error}", file=sys.stderr)
        print("  cure: check the path, its permissions and the space left there", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vnetperf: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
