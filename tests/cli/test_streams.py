"""Streams that end early, or were never open: a command keeps its exit status, without a word."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.test_answers import a_run
from vnetperf.cli import main

EXPECTED = '[[expect]]\nscenario = "pvp_dpdk"\ntest = "throughput"\nat_least = {}\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    a_run(folder / "run", 600e3)
    shutil.copytree(folder / "run", folder / "copy")
    for name, bound in (("met", 1), ("missed", '"9 Gfps"')):
        (folder / f"{name}.toml").write_text(EXPECTED.format(bound))
    return folder


COMMANDS = [
    (["why", "run", "pvp_dpdk", "throughput", "64"], 0),
    (["compare", "run", "copy"], 0),
    (["report", "run"], 0),
    (["expect", "met.toml", "run"], 0),
    (["expect", "missed.toml", "run"], 1),
]
IDS = [" ".join(command[:2]) for command, _ in COMMANDS]


def started(
    command: list[str], site: Path, redirection: str, stdin: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return python(["-m", "vnetperf.cli", *command], site, redirection, stdin, **more)


def ran(script: str, site: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    return python(["-c", script], site, redirection)


def python(
    arguments: list[str], site: Path, redirection: str, stdin: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "COLUMNS": "80",
    } | more
    return subprocess.run(
        [
            *("bash", "-c", f'set -o pipefail; "$@" {redirection}', "-"),
            *(sys.executable, *arguments),
        ],
        cwd=site,
        env=environment,
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(("command", "status"), COMMANDS, ids=IDS)
def test_a_reader_that_leaves_changes_no_verdict(
    command: list[str], status: int, site: Path
) -> None:
    done = started(command, site, "| true")
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize(("command", "status"), COMMANDS, ids=IDS)
def test_a_closed_output_changes_no_verdict(command: list[str], status: int, site: Path) -> None:
    done = started(command, site, ">&- <&-")
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii"])
def test_a_name_that_cannot_be_encoded_is_escaped(encoding: str, site: Path) -> None:
    folder = site / os.fsdecode(b"r\xff-\xc3\xa9")
    shutil.copytree(site / "run", folder, dirs_exist_ok=True)
    done = started(["report", folder.name], site, "", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\udcff" in done.stdout


def test_columns_of_none_hide_no_answer(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(site)
    monkeypatch.setenv("COLUMNS", "0")
    assert main(["why", "run", "pvp_dpdk", "throughput", "64"]) == 0
    assert "pvp_dpdk, throughput, 64 octets" in capsys.readouterr().out


def test_an_error_without_a_place_to_print_it_is_still_an_error(site: Path) -> None:
    assert started(["why", "nope"], site, "2>&-").returncode != 0


#: A command that prints more than a pipe holds, line by line, and fails: `doctor` and others do.
TALKS = """
import sys
from vnetperf.cli import doctor, main
def run(_):
    for number in range(20_000):
        print("line", number, file=sys.{stream})
    return 1
doctor.run = run
sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize(("stream", "redirection"), [("stdout", ""), ("stderr", "2>&1")])
def test_a_command_that_prints_much_keeps_its_status(
    stream: str, redirection: str, site: Path
) -> None:
    done = ran(TALKS.format(stream=stream), site, f"{redirection} | head -1")
    assert (done.returncode, done.stdout, done.stderr) == (1, "line 0\n", "")


#: A command that dies without a word after its last.
DIES = """
import os
from vnetperf.cli import doctor, main
def run(_):
    print("said", end="")
    os._exit(3)
doctor.run = run
main(["doctor"])
"""


@pytest.mark.parametrize(("unbuffered", "said"), [("1", "said"), ("", "")])
def test_streams_are_buffered_as_python_was_told(unbuffered: str, said: str, site: Path) -> None:
    done = python(["-c", DIES], site, "", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout) == (3, said)


#: As in older releases of rich, whose consoles know nothing of a reader that leaves.
OLD_RICH = """
import sys
from rich.console import Console
from vnetperf.cli import main
Console._check_buffer = Console._write_buffer
sys.exit(main({command!r}))
"""


@pytest.mark.skipif(
    not hasattr(Console, "_write_buffer"), reason="this rich is as old as the one that is meant"
)
@pytest.mark.parametrize(("command", "status"), COMMANDS, ids=IDS)
def test_no_verdict_depends_on_the_release_of_rich(
    command: list[str], status: int, site: Path
) -> None:
    done = ran(OLD_RICH.format(command=command), site, "| true")
    assert (done.returncode, done.stderr) == (status, "")


def test_what_is_paged_is_as_wide_as_the_terminal(site: Path) -> None:
    ours, theirs = pty.openpty()  # `report run | less`: a pipe, and a terminal to read keys of
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))
    try:
        done = started(["report", "run"], site, "", stdin=theirs, COLUMNS="", TERM="xterm")
    finally:
        os.close(theirs)
        os.close(ours)
    assert (done.returncode, done.stderr) == (0, "")
    assert 100 < max(map(len, done.stdout.splitlines())) <= 150
