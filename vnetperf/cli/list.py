"""`vnetperf list`: the names that options and -k accept."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from vnetperf import config
from vnetperf.model.deployment import ALL_DEPLOYMENTS
from vnetperf.model.errors import ConfigError, did_you_mean
from vnetperf.model.scenario import PodKind
from vnetperf.plugin import registry


def _scenarios() -> list[str]:
    from vnetperf.runner.scenarios import scenario_ids

    return scenario_ids()


#: Kind -> what it is for, and its names.
KINDS: dict[str, tuple[str, Callable[[], Iterable[str]]]] = {
    "scenarios": ("-k, as DEPLOYMENT_VSWITCH", _scenarios),
    "deployments": ("-k, as part of a scenario", lambda: ALL_DEPLOYMENTS),
    "vswitches": ("-k, as part of a scenario", lambda: registry.names("vswitches")),
    "networks": ("-k, as part of a scenario of pods", lambda: registry.names("networks")),
    "tests": ("--tests", registry.test_names),
    "presets": ("--preset", lambda: config.available("presets")),
    "profiles": ("--traffic", lambda: config.available("traffic")),
    "testbeds": ("--testbed", lambda: config.available("testbeds")),
    "switches": ("--switch", lambda: config.available("switch")),
    "guests": ("--guest", lambda: config.available("guest")),
    "stacks": ("--core", lambda: config.available("stacks")),
    "generators": ("--generator", lambda: registry.names("traffic")),
    "vnfs": ("--vnf", lambda: registry.names("vnfs")),
    "wires": ("--wire", lambda: registry.names("wires")),
    "endpoints": ("--endpoint-tool", lambda: registry.names("endpoints")),
    "pods": ("--pod", lambda: get_args(PodKind)),
    "mpi": ("--mpi-program", lambda: registry.names("mpi")),
}

#: Kinds that are files -> their folder below `conf/`.
_FOLDERS = {
    "presets": "presets",
    "profiles": "traffic",
    "testbeds": "testbeds",
    "switches": "switch",
    "guests": "guest",
    "stacks": "stacks",
}
#: Columns of a line of words, at most.
_WIDEST = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("kind", nargs="?", default="", metavar="KIND", help=", ".join(KINDS))


def run(arguments: argparse.Namespace) -> int:
    """Print the names of a kind, one a line, or a table of all kinds."""
    if arguments.kind:
        if arguments.kind not in KINDS:
            raise ConfigError(
                f"{arguments.kind!r} is not a kind of names{did_you_mean(arguments.kind, KINDS)}",
                where="vnetperf list",
                accepted=", ".join(KINDS),
            )
        print("\n".join(KINDS[arguments.kind][1]()))
        return 0
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for kind, (option, names) in KINDS.items():
        print(f"{kind} ({option})")
        if kind == "scenarios":  # hundreds
            print("  e.g. phy2phy_bridge, pvp_dpdk; `vnetperf list scenarios` prints all of them")
        elif kind in _FOLDERS:
            print("\n".join(_described(_FOLDERS[kind], [*names()], width)))
        else:
            print(_wrapped(", ".join(names()), "  ", "  ", width))
    return 0


def _described(folder: str, names: list[str], width: int) -> Iterator[str]:
    """Names of files with what each says of itself."""
    column = max(map(len, names), default=0)
    for name in names:
        try:
            content = config.read_toml(config.find_file(folder, name))
        except ConfigError as error:  # others can still be chosen
            content = {"description": " ".join(str(error).split())}
        text = str(content.get("description") or content.get("note") or "")
        text = text.removeprefix(f"{name} preset: ")
        yield _wrapped(text, f"  {name:<{column}}  ", " " * (column + 4), width).rstrip()


def _wrapped(text: str, first: str, others: str, width: int) -> str:
    """A text in lines that a terminal does not break itself."""
    return textwrap.fill(
        text or " ",
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
        drop_whitespace=bool(text),
    )
