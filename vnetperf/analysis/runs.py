"""Stored runs as commands read them: from the log, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from vnetperf.analysis.logged_tests import by_round
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import compressed_logs, holds_run, read_run
from vnetperf.log.trial_log import LOG_NAME, read_log
from vnetperf.model.errors import LogError, did_you_mean
from vnetperf.model.result import RunResults

RESULTS_NAME = "results.json"


@dataclass(frozen=True)
class StoredRun:
    """A run."""

    path: Path  # Its folder, or log
    #: Its results by the number of the round, in order; each is a deployment of its own.
    rounds: Mapping[int, RunResults]
    note: str = ""  # What a reader must know of where they come from; ""

    @property
    def name(self) -> str:
        """Name of the folder."""
        folder = self.path.parent if self.path.is_file() else self.path
        return folder.resolve().name

    @property
    def first(self) -> RunResults:
        """The first round: it has the environment too."""
        return next(iter(self.rounds.values()))


def is_run(path: Path) -> bool:
    """Whether it is a log, or a folder with one."""
    return path.is_file() or (path.is_dir() and holds_run(path))


def find_run(text: str, results_dir: Path = Path("results")) -> Path:
    """The folder, or log, that a user means."""
    for path in (Path(text), results_dir / text):
        if is_run(path):
            return path
    folder_exists = Path(text).is_dir() or (results_dir / text).is_dir()
    folders = (Path(text), results_dir / text)
    if packed := [log for folder in folders for log in compressed_logs(folder)]:
        raise LogError(
            "its log is compressed, and only plain ones are read",
            where=str(packed[0]),
            cure="uncompress it where it is, e.g. `gunzip --keep` of one that ends in .gz",
        )
    runs = [path.name for path in results_dir.glob("*") if holds_run(path)]
    by_time = sorted({*runs} - {"latest"})  # their names are times
    newest = f", the newest being {', '.join(by_time[:-4:-1])}" if by_time else ""
    raise LogError(
        f"there is no {LOG_NAME} in it"
        if folder_exists
        else f"there is no such run{did_you_mean(text, runs)}",
        where=text or "the name of a run",
        accepted=f"a folder with a {LOG_NAME}, or the name of one in {results_dir}/{newest}",
    )


def load_results(path: Path) -> RunResults:
    """Read a run with all its deployments as one."""
    run = load_run(path)
    if len(run.rounds) == 1:
        return run.first
    return derive(read_log(path) if path.is_file() else read_run(path))


def load_run(path: Path) -> StoredRun:
    """Read a run."""
    records = read_log(path) if path.is_file() else read_run(path)
    try:
        return StoredRun(path, {n: derive(part) for n, part in by_round(records).items()})
    except LogError as error:  # the lines are as they were written: another version's search
        stored = (path.parent if path.is_file() else path) / RESULTS_NAME
        try:
            results = RunResults.model_validate_json(stored.read_bytes())
        except (OSError, ValidationError, LogError):
            raise error from None
        note = (
            f"{stored}: read as {results.run.tool} ({results.run.git}) derived it: this vnetperf "
            f"would have searched otherwise, or the log was edited ({error.what})"
        )
        return StoredRun(path, {1: results}, note)
