"""The console script `vnetperf`; each subcommand is a module of this package."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vnetperf import __version__
from vnetperf.host.trust import watch_starts
from vnetperf.model.errors import ConfigError, VnetperfError, did_you_mean, full_text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from vnetperf.log.records import Record

#: When -> subcommand -> what it does; each is a module with `add_arguments` and `run`.
GROUPS = {
    "before a run": {
        "doctor": "what this machine can run, what is missing, how to get it",
        "list": "names of scenarios, tests, presets, profiles ...: what options accept",
        "show-config": "effective configuration, and where each value came from",
        "calibrate": "loop the traffic generator to itself and store what it can do",
    },
    "after a run": {
        "report": "rebuild every report of a run from its trial log alone",
        "compare": "report what differs between two runs or scenarios, and how surely",
        "expect": "hold a stored run against a file of expectations",
        "why": "print the trials that led to a value, and what each of them did",
        "trend": "follow numbers over many runs, and name the run at which they changed",
        "publish": "post results to a TestAPI-like endpoint, or write OpenMetrics text",
        "redact": "copy a run without names, addresses and serials, to be given away",
    },
    "the machine": {
        "lab": "run anything in a virtual machine with SR-IOV NICs, IOMMU and NUMA nodes",
        "image": "build, list and check the images that guests boot",
        "launcher": "let users measure by sudo who may not become root",
        "restore": "undo what a run that died left on this machine",
    },
}
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}


_UNKNOWN = re.compile(r"(?:invalid choice: '|unrecognized arguments: )([^\s'=]+)")


class _Parser(argparse.ArgumentParser):
    """One that says which of its own names was meant."""

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse at the subcommand what it does not know: argparse leaves it to the whole."""
        arguments, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments, unknown

    def error(self, message: str) -> NoReturn:
        names = [n for a in self._actions for n in (*a.option_strings, *map(str, a.choices or ()))]
        wrong = _UNKNOWN.search(message)
        super().error(message + (did_you_mean(wrong[1], names) if wrong else ""))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand."""
    argv = [*(sys.argv[1:] if argv is None else argv)]
    _prepare_streams()
    watch_starts()
    parser = _Parser(
        prog="vnetperf",
        description="Benchmarks virtual switches and NFV data planes. "
        "Measurements are test cases: run `pytest testcases/ -k pvp_dpdk`.",
        epilog=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vnetperf {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    typed = next((word for word in argv if not word.startswith("-")), "")
    for name, summary in COMMANDS.items():
        command_parser = subparsers.add_parser(name, description=summary)
        if name == typed:  # the others need not be imported, which takes long
            import_module(f"vnetperf.cli.{name.replace('-', '_')}").add_arguments(command_parser)
    if not argv:
        parser.print_help()
        return 0
    arguments = parser.parse_args(argv)
    command = import_module(f"vnetperf.cli.{arguments.command.replace('-', '_')}")
    try:
        return int(command.run(arguments))
    except VnetperfError as error:
        print(f"vnetperf: {full_text(error)}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"vnetperf: {where}{error.strerror or error}", file=sys.stderr)
        print("  cure: check the path, its permissions and the space left there", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vnetperf: interrupted", file=sys.stderr)
        return 130


class _PatientFile(FileIO):
    """A stream whose reader may leave early (`| head`): what is still written goes nowhere.

    The command goes on to its end, since its exit status may be a verdict.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def _prepare_streams() -> None:
    """Have what nobody reads (`>&-`, `| head`) go nowhere; escape names that are no text."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if stream is getattr(sys, f"__{name}__"):  # it is no test's
                setattr(sys, name, _patient(stream))


def _patient(stream: TextIOWrapper) -> TextIOWrapper:
    """Another stream to the same place, patient and otherwise alike."""
    stream.flush()
    file = _PatientFile(stream.fileno(), "w", closefd=False)
    return TextIOWrapper(
        file if stream.write_through else BufferedWriter(file),  # PYTHONUNBUFFERED
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _overview() -> str:
    """The commands, by when they are needed, and where more is."""
    width = max(map(len, COMMANDS))
    lines = []
    for when, commands in GROUPS.items():
        lines.append(f"{when}:")
        lines += [f"  {name:<{width}}  {text}" for name, text in commands.items()]
    lines.append(
        "\n`vnetperf COMMAND --help` has its options, `pytest --help` those of a measurement"
    )
    return "\n".join(lines)


def add_results_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that take the name of a run."""
    parser.add_argument(
        "--results-dir",
        metavar="DIR",
        help="folder in which runs are looked for by name (default: where runs are written to)",
    )


def results_folder(typed: str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that runs are in: the one that is typed, else the one they are written to.

    Nothing else of the configuration is read: a testbed that it names may be another machine's.
    """
    if typed is not None:
        return Path(typed)
    from vnetperf import config
    from vnetperf.config.settings import variable_name

    key, user_file = "results_dir", Path.cwd() / config.USER_FILE
    file_settings = config.read_toml(user_file) if user_file.is_file() else {}
    if (name := variable_name(key)) in environment:
        file_settings[key] = environment[name]
    settings = {key: file_settings[key]} if key in file_settings else {}
    return Path(config.validate(config.Settings, settings, str(user_file)).results_dir)


def find_runs_folder(names: Sequence[str], typed: str | None = None) -> Path:
    """The folder that runs are in; where each name is a whole path, a broken file is a warning."""
    from vnetperf.analysis.runs import is_run

    try:
        return results_folder(typed)
    except ConfigError as error:
        if not all(is_run(Path(name)) for name in names):
            raise
        text = " ".join(str(error).split())
        print(f"vnetperf: warning, not needed here: {text}", file=sys.stderr)
        return Path("results")  # no run is looked for in it


def add_output_options(parser: argparse.ArgumentParser, everything: str, worse: str) -> None:
    """Add the options of commands that compare numbers."""
    parser.add_argument("--all", action="store_true", help=everything)
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--fail-if-worse", action="store_true", help=f"exit with 1 when {worse}")
    parser.add_argument(
        "--least",
        default="2%",
        metavar="SHARE",
        help="smallest change that counts, e.g. 2%% (default: 2%%)",
    )
    parser.add_argument(
        "--across",
        action="store_true",
        help="compare what differs in traffic, wire, generator, rules, options or machine, too",
    )


def parse_share(text: str) -> float:
    """The share of --least, "2%" or "0.02"."""
    number, percent = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
    try:
        share = float(number) / percent
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"{text!r} is no share", where="--least", accepted="0% .. 99%, or 0.02")
    return share


def read_records(name: str, results_dir: str | None = None) -> tuple[Path, list[Record]]:
    """Find a run's folder or log by its name, and read its records."""
    from vnetperf.analysis.runs import find_run
    from vnetperf.log.folder import read_run
    from vnetperf.log.trial_log import read_log

    path = find_run(name, find_runs_folder([name], results_dir))
    return path, read_log(path) if path.is_file() else read_run(path)


def print_event(event: dict[str, Any]) -> None:
    """Print what the agent waits for."""
    if event.get("event") == "wait":
        print(f"\rwaiting for the testbed: {event['holder']} holds it", end="", file=sys.stderr)
