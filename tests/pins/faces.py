"""What users type: the ids of all cases, commands with their options, and what `list` prints.

python -m tests.pins.faces              what differs from what was recorded
python -m tests.pins.faces --record     record what is there today
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from vnetperf import cli

HERE = Path(__file__).parent
TOP = HERE.parents[1]


def case_ids() -> list[str]:
    """Ids of all cases of all tests, as `pytest --collect-only -q` prints them.

    There are thousands: cases that differ in the scenario alone are one line, and the scenarios
    that several of these have are listed once.
    """
    # Files that are named give their cases whether or not a preset has their tests.
    files = sorted(str(path.relative_to(TOP)) for path in TOP.glob("testcases/**/test_*.py"))
    command = [*(sys.executable, "-m", "pytest", *files, "--collect-only", "-q")]
    command += ["--preset", "quick", "--tests", "all", "-p", "no:cacheprovider"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("VNETPERF_", "PYTEST_"))}
    printed = subprocess.run(
        command, cwd=TOP, env=clean, capture_output=True, text=True, check=True
    ).stdout
    scenarios: dict[str, list[str]] = {}
    for test, case in re.findall(r"^(\S+::\w+)\[(.*)\]$", printed, re.MULTILINE):
        scenario, _, rest = case.partition("-")
        scenarios.setdefault(f"{test}[*-{rest}]", []).append(scenario)
    sets = {names: n for n, names in enumerate(dict.fromkeys(map(tuple, scenarios.values())))}
    return [
        *(f"{test}: scenarios {sets[tuple(names)]}" for test, names in scenarios.items()),
        *(f"scenarios {n}: {name}" for names, n in sets.items() for name in names),
    ]


def _options(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, sub in action.choices.items():
                yield from _options(sub, f"{name} {word}")
        else:
            words = "/".join(action.option_strings) or action.dest
            accepted = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
            yield f"{name} {words}{accepted}: {action.help}"


def commands() -> list[str]:
    """Every option of every command, with its help."""
    made = []
    for name in cli.COMMANDS:
        parser = argparse.ArgumentParser(prog=name)
        import_module(f"vnetperf.cli.{name.replace('-', '_')}").add_arguments(parser)
        made += [line for line in _options(parser, name) if not line.startswith(f"{name} -h/")]
    return made


def listed() -> list[str]:
    """What `vnetperf list` prints, and `vnetperf --help`, without widths."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        cli.main(["list"])
        cli.main([])
    return re.sub(r"\s*\n +", " ", out.getvalue()).splitlines()


FACES: dict[str, Callable[[], list[str]]] = {
    "cases.txt": case_ids,
    "commands.txt": commands,
    "listed.txt": listed,
}


def differences(name: str) -> list[str]:
    """What is not as it was recorded, as a unified diff without context."""
    was = (HERE / name).read_text().splitlines() if (HERE / name).exists() else []
    return list(difflib.unified_diff(was, FACES[name](), name, "now", n=0, lineterm=""))


if __name__ == "__main__":
    for each, made in FACES.items():
        print(*differences(each)[:100], sep="\n")
        if "--record" in sys.argv:
            (HERE / each).write_text("\n".join(made()) + "\n")
