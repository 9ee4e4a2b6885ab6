"""Results folders: one for each run, private; `latest` is the newest that deployed anything."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vnetperf.log.records import (
    BeginRecord,
    MergedRecord,
    OutcomeRecord,
    ProcedureRecord,
    Record,
    SearchEndRecord,
    TrialRecord,
)
from vnetperf.log.trial_log import (
    COMPRESSED,
    LOG_NAME,
    encode_records,
    lock_log,
    open_log,
    read_log,
    read_undamaged,
)
from vnetperf.model.errors import LogError


def new_folder(results_dir: Path) -> Path:
    """Make the folder of a new run; `latest` is it where there is no other."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    try:
        results_dir.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            folder = results_dir / (stamp + suffix)
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            _point_first(folder)
            return folder
    except OSError as error:
        raise _cannot_make(results_dir, error) from error
    raise LogError("too many runs began in this second", where=str(results_dir))


def reserve_name() -> str:
    """Name the folder of a run whose processes make it when they first need it."""
    return f"{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def make_folder(folder: Path) -> Path:
    """Make a reserved folder unless another process of the run has."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        _point_first(folder)
    except FileExistsError:
        pass
    except OSError as error:
        raise _cannot_make(folder.parent, error) from error
    return folder


def _cannot_make(results_dir: Path, error: OSError) -> LogError:
    return LogError(
        f"the results folder cannot be made: {error.strerror}",
        where=str(results_dir),
        cure="choose another with --results-dir",
    )


def _point_first(folder: Path) -> None:
    if not (folder.parent / "latest").exists():
        point_latest(folder)


def point_latest(folder: Path) -> None:
    """Let `latest` be this run: it deploys something, and is not one of skipped cases alone."""
    temporary = folder.parent / f".latest.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.name)
    temporary.replace(folder.parent / "latest")


def log_path(folder: Path, worker: str = "", testbed: str = "") -> Path:
    """A log of a run: "trials.jsonl", "trials-gw0.jsonl", "trials-gw0@lab1.jsonl" ...

    A pytest-xdist worker's is merged at the end into that of its testbed, or the run's; of a run on
    several testbeds each has one.
    """
    name = LOG_NAME.removesuffix(".jsonl") + (f"-{worker}" if worker else "")
    suffix = f"@{re.sub(r'[^A-Za-z0-9._-]', '_', testbed)}" if testbed else ""
    return folder / f"{name}{suffix}.jsonl"


def testbed_logs(folder: Path) -> list[Path]:
    """The logs of a run that go on when it does: one for each testbed, where it has several."""
    run_file = log_path(folder)
    return [*([run_file] if run_file.is_file() else []), *sorted(folder.glob("trials@*.jsonl"))]


def list_logs(folder: Path) -> list[Path]:
    """The logs of a run, those of pytest-xdist workers that were never merged too."""
    return [*testbed_logs(folder), *_worker_logs(folder)]


def compressed_logs(folder: Path) -> list[Path]:
    """Logs in a folder that somebody has compressed."""
    return sorted(path for end in COMPRESSED for path in folder.glob(f"trials*.jsonl{end}"))


def holds_run(folder: Path) -> bool:
    """Whether a folder holds the log of a run."""
    return bool(list_logs(folder))


def _worker_logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("trials-*.jsonl"))


def run_log(log: Path) -> Path:
    """What was done in a run, in plain text, beside its trials."""
    return log.with_name(log.stem.replace("trials", "run") + ".log")


def read_run(folder: Path) -> list[Record]:
    """All records of a run, those of pytest-xdist workers that were never merged too."""
    return _read_logs(folder, read_log)


def read_up_to_damage(run: Path) -> tuple[list[Record], list[LogError]]:
    """The records of a run or log as far as each log is whole, and the damage of the others."""
    damage: list[LogError] = []

    def read(log: Path) -> list[Record]:
        records, error = read_undamaged(log)
        damage.extend([error] if error is not None else [])
        return records

    return (read(run) if run.is_file() else _read_logs(run, read)), damage


def _read_logs(folder: Path, read: Callable[[Path], list[Record]]) -> list[Record]:
    logs = testbed_logs(folder) or ([] if _worker_logs(folder) else [log_path(folder)])
    return _joined([*logs, *_worker_logs(folder)], read)


def _joined(logs: Iterable[Path], read: Callable[[Path], list[Record]]) -> list[Record]:
    """The records of several logs as those of one, which no number has twice."""
    records: list[Record] = []
    for log in logs:
        merged = {name for r in records if isinstance(r, MergedRecord) for name in r.logs}
        if log.name in merged:  # a merge was killed before it could take the log away
            continue
        trials = max((r.number for r in records if isinstance(r, TrialRecord)), default=0)
        searches = max((r.search for r in records if isinstance(r, BeginRecord)), default=0)
        log_records = read(log)
        renumbered = trials or searches
        records += (
            [_renumber(r, trials, searches) for r in log_records] if renumbered else log_records
        )
    return records


@contextlib.contextmanager
def _locked(logs: Iterable[Path]) -> Iterator[None]:
    """Keep others from writing logs; raises `LogError` where a run that goes on does."""
    with contextlib.ExitStack() as closing:
        for log in logs:
            fd = open_log(log, os.O_RDWR)
            closing.callback(os.close, fd)
            lock_log(fd, log)
        yield


def merge_worker_logs(folder: Path) -> None:
    """Make one log of those of pytest-xdist workers; killed at any moment, it can be done again.

    Of a run on several testbeds: one for each testbed.
    """
    targets: dict[Path, list[Path]] = {}
    for log in _worker_logs(folder):
        testbed = log.name.removesuffix(".jsonl").partition("@")[2]
        targets.setdefault(log_path(folder, testbed=testbed), []).append(log)
    for target, worker_logs in targets.items():
        with _locked(worker_logs):
            _merge(target, worker_logs)


def _merge(target: Path, worker_logs: list[Path]) -> None:
    # Which logs it holds is in the log itself: the two become true in one step.
    note = MergedRecord(logs=tuple(log.name for log in worker_logs))
    target_log = [target] if target.exists() else []
    records = [*_joined([*target_log, *worker_logs], read_log), note]
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:  # x: by no link that somebody has put there
            file.writelines(encode_records(records))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    for log in worker_logs:
        log.unlink()


def _renumber(record: Record, trials: int, searches: int) -> Record:
    if isinstance(record, TrialRecord):
        update = {"number": record.number + trials, "search": record.search + searches}
        return record.model_copy(update=update)
    if isinstance(record, ProcedureRecord) and searches:
        inputs, throughput = record.inputs, record.inputs.get("throughput")
        if throughput:  # names the search that found it
            throughput = {**throughput, "search": throughput["search"] + searches}
            record = record.model_copy(update={"inputs": {**inputs, "throughput": throughput}})
    if isinstance(record, BeginRecord | SearchEndRecord | OutcomeRecord):
        return record.model_copy(update={"search": record.search + searches})
    return record


def first_record(folder: Path) -> Mapping[str, Any]:
    """The record that opens a run's log, unchecked; empty where there is none."""
    try:
        log_file = next(iter(list_logs(folder)), folder / "trials.jsonl")
        with os.fdopen(open_log(log_file), encoding="utf-8") as log:
            record = json.loads(log.readline())
    except (OSError, ValueError, RecursionError):  # reported where the log is read
        return {}
    return record if _opens_run(record) else {}


def _opens_run(record: Any) -> bool:
    """Whether a record has what is looked at before the log is read and checked."""
    if not isinstance(record, dict) or record.get("type") != "run":
        return False
    identity, settings = record.get("identity"), record.get("settings", {})
    return (
        isinstance(record.get("version"), int)
        and isinstance(identity, dict)
        and isinstance(identity.get("command"), str)
        and isinstance(settings, dict)
        and all(isinstance(s, dict) and {"value", "source"} <= {*s} for s in settings.values())
    )


def read_user_settings(folder: Path) -> dict[str, Any]:
    """What a run was given by its user."""
    return {
        key: setting["value"]
        for key, setting in first_record(folder).get("settings", {}).items()
        if setting["source"] not in ("default", "test case")
    }
