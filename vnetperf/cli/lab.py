"""`vnetperf lab`: a virtual machine with SR-IOV NICs, IOMMU and NUMA nodes."""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import vnetperf
from vnetperf.cli import results_folder
from vnetperf.model.errors import ConfigError, HostError, VnetperfError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vnetperf.virt.lab_checks import Check

ACTIONS = {
    "run": "run a command in the lab, in this directory, and return its exit status",
    "shell": "a shell in the lab",
    "doctor": "what the lab needs, what is missing, how to get it",
}
#: Variables that a command in the lab gets from here, besides those of `--env`.
_KEPT = re.compile(
    r"(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|CI|EDITOR"
    r"|VIRTUAL_ENV|VNETPERF_\w+|PYTEST_\w+|PYTHON(?!HOME$)\w+|HYPOTHESIS_\w+)"
)
_UNITS = {"": 1, "M": 1, "G": 1024}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add actions and options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
        action.add_argument("--cpus", type=int, default=4, help="virtual processors (4)")
        action.add_argument(
            "--memory", help="of each machine, e.g. 2G or 2560M (2560M; with --machines 2G)"
        )
        action.add_argument(
            "--threads",
            choices=("single", "multi"),
            default="single",
            help="one thread for all emulated processors, or one for each, as guests of the lab's "
            "own kernel need it (single)",
        )
        if name == "doctor":
            continue
        action.add_argument(
            "--share",
            action="append",
            default=[],
            metavar="DIR",
            help="a directory that the lab may write to, besides this one; repeatable",
        )
        action.add_argument(
            "--env",
            action="append",
            default=[],
            metavar="NAME[=VALUE]",
            help="a variable for the command; repeatable",
        )
        if name == "run":
            action.add_argument(
                "--machines",
                type=int,
                default=1,
                metavar="N",
                help="2 or 3: machines cabled to each other, and the command runs outside, with "
                "them as its testbed (1: the command runs in the lab)",
            )
            action.add_argument(
                "--timeout", type=float, metavar="S", help="end the command after S seconds"
            )
            action.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(arguments: argparse.Namespace) -> int:
    """Run an action."""
    from vnetperf.virt import kernel, lab_boot, lab_checks, lab_guest, lab_machines, tools

    count = getattr(arguments, "machines", 1)
    memory = memory_mib(arguments.memory or ("2560M" if count == 1 else lab_machines.MEMORY))
    if arguments.action == "doctor":
        return _print(lab_checks.checks(arguments.accel, memory))
    timeout_s = getattr(arguments, "timeout", None)
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigError(f"{timeout_s:g} is no time", where="--timeout", accepted="seconds > 0")
    if count not in (1, *lab_machines.CABLES):
        raise ConfigError(f"no {count} machines are cabled", where="--machines", accepted="1 to 3")
    if count > 1 and arguments.share:
        raise ConfigError(
            "with several machines the command runs on this one, and writes where you may",
            where="--share",
            cure="leave it out",
        )
    raw, argv = arguments.action == "shell", _command(arguments)
    task = lab_guest.Task(
        argv=argv,
        cwd=Path.cwd(),
        shares=shares(argv, _named(arguments.env), arguments.share),
        kept=_python(),
        environment=_environment(arguments.env),
        terminal=lab_guest.terminal_size() if raw or os.isatty(1) else None,
        raw=raw,
        timeout_s=timeout_s,
    )
    machine = lab_boot.LabMachine(cpus=arguments.cpus, memory_mib=memory, threads=arguments.threads)
    qemu = tools.need_qemu()
    tools.need_virtme()
    lab_kernel = kernel.cached() or kernel.fetch(_print_progress)
    build_generators()
    machine = lab_guest.choose_accelerator(machine, arguments.accel, qemu, lab_kernel)
    if count == 1:
        return lab_guest.run(task, lab_kernel, machine, _print_progress)
    outer_environment = {**os.environ, "PATH": task.environment["PATH"], **_named(arguments.env)}
    command = lab_machines.Command(task.argv, outer_environment, timeout_s)
    return lab_machines.run(command, lab_kernel, machine, count, _print_progress)


def build_generators() -> None:
    """Build here what would take minutes in there; one that cannot be built says so in there."""
    from vnetperf.plugin import registry

    for name in registry.names("traffic"):
        try:
            registry.load("traffic", name).build_for_lab()
        except HostError as error:
            _print_progress(f"{name} cannot be built here: {error}")


def _print(checks: Iterable[Check]) -> int:
    """Print each check as it is made; 0 when the lab can start."""
    ready = True
    print("lab")
    for check in checks:
        ready = ready and not check.prevents
        print(f"  {check.name:<14} {'NO: ' if check.prevents else ''}{check.says}", flush=True)
        if check.cure:
            print(f"  {'':<14} cure: {check.cure}")
    print("the lab can start" if ready else "the lab cannot start")
    return 0 if ready else 1


def _command(arguments: argparse.Namespace) -> list[str]:
    if arguments.action == "shell":
        if not (os.isatty(0) and os.isatty(1)):
            raise ConfigError(
                "a shell needs a terminal",
                where="vnetperf lab shell",
                cure="use `vnetperf lab run -- sh -c '...'` without one",
            )
        return ["bash", "-l"] if Path("/bin/bash").exists() else ["sh"]
    argv = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    if not argv:
        raise ConfigError(
            "there is no command to run",
            where="vnetperf lab run",
            accepted="vnetperf lab run -- COMMAND ARGUMENT ...",
        )
    return list(argv)


def memory_mib(text: str) -> int:
    """Memory given by the user."""
    match = re.fullmatch(r"([0-9]{1,9})(?:([MG])(?:iB)?)?", text)
    if match is None:
        raise ConfigError(
            f"{text!r} is no amount of memory", where="--memory", accepted="e.g. 2G or 2560M"
        )
    return int(match[1]) * _UNITS[match[2] or ""]


def shares(argv: list[str], variables: Mapping[str, str], named: list[str]) -> tuple[Path, ...]:
    """The working directory, the folder of a command's results, and what the user names."""
    folders: list[Path] = []
    for path in [Path.cwd(), *_results_dirs(argv, variables), *map(Path, named)]:
        folder = path.resolve()
        if not folder.is_dir():
            raise ConfigError(f"{path} is no directory", where="--share")
        if folder == Path("/"):
            raise ConfigError(
                "the whole of this machine would be the lab's to change",
                where="/",
                accepted="a directory below it",
                cure="change to another working directory",
            )
        if not any(folder.is_relative_to(other) for other in folders):
            folders.append(folder)
    return tuple(folders)


def _python() -> tuple[Path, ...]:
    """What Python reads at every start: its environment and this package, compiled by now."""
    package = Path(vnetperf.__file__).resolve().parent
    compileall.compile_dir(package, quiet=2)  # an emulated machine takes long for it
    return Path(sys.prefix).resolve(), package


def _results_dirs(argv: list[str], variables: Mapping[str, str]) -> Iterator[Path]:
    """The folders that a run of a command is written into, made where they are not there yet."""
    if (resumed := _typed(argv, "--resume")) is not None:
        if Path(resumed).is_dir():  # else the command refuses it
            yield Path(resumed).resolve().parent  # with `latest`
        return
    # What is wrong with the configuration is told by the command, if it reads it.
    with contextlib.suppress(VnetperfError):
        path = results_folder(_typed(argv, "--results-dir"), {**os.environ, **variables})
        if not path.resolve().is_relative_to(Path.cwd()):  # which is shared anyway
            path.mkdir(parents=True, exist_ok=True)
            yield path


def _typed(argv: list[str], option: str) -> str | None:
    """The value of an option of a command, of several the last one's; None where it has none."""
    last_value = None
    for arg, following in pairwise([*argv, ""]):
        name, equals, value = arg.partition("=")
        if name == option:
            last_value = value if equals else following
    return last_value


def _environment(named: list[str]) -> dict[str, str]:
    """The command's environment: what is harmless to hand on, and what the user names."""
    environment = {key: value for key, value in os.environ.items() if _KEPT.fullmatch(key)}
    python_folder = str(Path(sys.executable).parent)  # `pytest` is the one of this Python
    environment["PATH"] = f"{python_folder}:{environment.get('PATH', os.defpath)}"
    environment.setdefault("HOME", "/root")
    environment["SHELL"] = "/bin/sh"
    if not _testbed_named():
        environment["VNETPERF_TESTBED"] = "lab"
    return environment | _named(named)


def _named(named: list[str]) -> dict[str, str]:
    """Variables that the user names, with a value or with the one they have here."""
    parts = (text.partition("=") for text in named)
    return {key: value if equals else os.environ.get(key, "") for key, equals, value in parts}


def _testbed_named() -> bool:
    from vnetperf import config

    try:
        return config.load().sources["testbed"] != "default"
    except VnetperfError:
        return True


def _print_progress(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)
