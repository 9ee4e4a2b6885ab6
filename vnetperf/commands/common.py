"""Options that several subcommands share."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from vnetperf import config

_OPTIONS = {
    "testbed": "testbed file under conf/testbeds/, or a path",
    "preset": "preset under conf/presets/, or a path",
    "traffic": "traffic profile under conf/traffic/, or a path",
    "frame_sizes": "octets including FCS, e.g. 64,512,1518",
    "time_budget": "longest time of one throughput search, e.g. 5m",
    "vnf": "VNF loader",
    "vnf_mode": "forwarding mode of the VNF",
    "vnf_placement": "auto, local, remote or unpinned",
    "vnfs": "number of VNFs in pvvp and pvpv",
    "switch": "options of the vSwitch under conf/switch/, or a path",
    "set": "one option of the vSwitch, KEY=VALUE (may be repeated)",
    "core": "one option of a mobile core, KEY=VALUE, or a file under conf/stacks/ (repeatable)",
    "guest": "one option of guests, KEY=VALUE, or a file under conf/guest/ (may be repeated)",
    "forwarding": "l2 or l3",
    "rules": "port, stream or learning",
    "tunnel": "vxlan, gre or geneve, in overlays",
    "generator": "traffic generator",
    "wire": "kind of wire",
    "results_dir": "folder of all runs",
    "notes": "operator's notes, quoted in the report",
}


def add_settings(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options for settings.

    Args:
        parser: The subcommand's parser.
        *names: Settings; none for all.
    """
    for name in names or _OPTIONS:
        action = "append" if name in ("set", "guest", "core") else "store"
        parser.add_argument(f"--{name.replace('_', '-')}", action=action, help=_OPTIONS[name])


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings given on the command line.

    Args:
        arguments: Parsed arguments.

    Returns:
        Setting -> value, without those not given.
    """
    given = {key: getattr(arguments, key, None) for key in _OPTIONS}
    if given["frame_sizes"] is not None:
        given["frame_sizes"] = config.parse_frame_sizes(given["frame_sizes"])
    return {key: value for key, value in given.items() if value is not None}


def tell_event(event: dict[str, Any]) -> None:
    """Say on the terminal what the agent waits for.

    Args:
        event: The agent's event.
    """
    if event.get("event") == "wait":
        print(f"\rwaiting for the testbed: {event['holder']} holds it", end="", file=sys.stderr)
