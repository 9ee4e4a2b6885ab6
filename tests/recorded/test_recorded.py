"""A log gives the same results, tables and files as on the day it was recorded.

Numbers agree to nine digits: the last ones of an interval are those of the scipy that is installed.
A difference that is wanted is looked at first (`python -m tests.recorded.test_recorded` prints all
of them), then recorded with `--record`. `--add NAME=LOG` adds the log of a redacted run.
"""

from __future__ import annotations

import difflib
import io
import re
import sys
import tarfile
from pathlib import Path

import pytest

from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import read_run
from vnetperf.report import write_all

HERE = Path(__file__).parent
RUNS = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("*.tar.xz"))
LOG = "trials.jsonl"


def contents(name: str) -> dict[str, str]:
    """The files of a recorded run: name -> text."""
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {key: file.read().decode() for key, file in found.items() if file is not None}


def derived(recorded: dict[str, str], folder: Path) -> dict[str, str]:
    """The same files, made anew from the log alone."""
    (folder / LOG).write_text(recorded[LOG])
    write_all(derive(read_run(folder)), folder)
    return {name: (folder / name).read_text() for name in recorded}


#: Numbers with more digits than agree with every scipy.
LONG = re.compile(r"-?\d+\.\d{4,}(e[-+]?\d+)?")


def lines(text: str) -> list[str]:
    """Lines of a file, each long number cut to nine digits."""
    return LONG.sub(lambda number: f"{float(number[0]):.9g}", text).splitlines()


def differences(name: str, folder: Path) -> list[str]:
    """What is not as it was recorded, as a unified diff without context."""
    was = contents(name)
    now = derived(was, folder)
    return [
        line
        for file, text in was.items()
        for line in difflib.unified_diff(
            lines(text), lines(now[file]), f"{name}/{file}", f"{name}/{file}", n=0
        )
    ]


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_gives_what_it_gave(name: str, tmp_path: Path) -> None:
    found = differences(name, tmp_path)
    assert found == [], "\n".join(found[:20])


def record(name: str, recorded: dict[str, str], folder: Path) -> None:
    """Put what is derived today in the place of what was recorded."""
    files = derived(recorded, folder)
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
        for file, text in sorted(files.items()):
            member = tarfile.TarInfo(file)
            member.size = len(data := text.encode())
            archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    import tempfile

    for run in RUNS:
        with tempfile.TemporaryDirectory() as made:
            print("\n".join(differences(run, Path(made))))  # noqa: T201 - a tool for a terminal
        if "--record" in sys.argv:
            with tempfile.TemporaryDirectory() as made:
                record(run, contents(run), Path(made))
    for added in sys.argv[sys.argv.index("--add") + 1 :] if "--add" in sys.argv else ():
        new, _, log = added.partition("=")
        empty = dict.fromkeys(contents(RUNS[0]), "")
        with tempfile.TemporaryDirectory() as made:
            record(new, {**empty, LOG: Path(log).read_text()}, Path(made))
