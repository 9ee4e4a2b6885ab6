"""What no space, a second writer, or a hand leaves of a log: every record before it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.agent import FakeAgent
from tests.runner.support import Bench, numbered_by_test
from vnetperf import cli
from vnetperf.analysis.results_from_log import derive
from vnetperf.host.log import RunLog
from vnetperf.log.folder import log_path, merge_worker_logs, read_up_to_damage
from vnetperf.log.records import Record, SkippedRecord, TrialRecord
from vnetperf.log.trial_log import LOG_NAME, TrialLog, digest_line, read_log, unseal
from vnetperf.model.errors import LogError, VnetperfError
from vnetperf.report import write_all
from vnetperf.testing.sim import SimulatedDut

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A finished run of two cases."""
    duts = (SimulatedDut(640e3), SimulatedDut(610e3))
    bench = Bench(tmp_path_factory.mktemp("run"), FakeAgent(duts=duts))
    for size in (64, 1518):
        bench.throughput(size)
    bench.run.close()
    return bench


@pytest.fixture
def records(run: Bench) -> list[Record]:
    return read_log(run.path)


class Disk:
    """Lets only so many octets of a file be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free: int | None = None
        self.written = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        if self.free is None:
            return self.written(fd, data)
        if not self.free and data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = self.written(fd, data[: self.free])
        self.free -= count
        return count


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("free", [0, 1, 200, 2000])
def test_a_full_disk_costs_the_record_that_did_not_fit_and_no_other(
    tmp_path: Path, records: list[Record], disk: Disk, free: int
) -> None:
    log = TrialLog(tmp_path / LOG_NAME)
    for record in records[:8]:
        log.append(record)
    disk.free = free
    big = SkippedRecord(scenario="x", why="w" * 5000)
    for _ in range(3):  # what was written in part is taken back, each time
        with pytest.raises(LogError, match="No space left on device") as caught:
            log.append(big)
        disk.free = min(free, 7)
    assert str(tmp_path) in caught.value.where
    assert "--resume" in caught.value.cure
    assert log.trouble
    assert read_log(log.path) == records[:8]
    disk.free = None
    log.append(records[8])  # somebody has made room
    assert not log.trouble
    log.close()
    assert read_log(log.path) == records[:9]


def test_a_write_that_is_cut_short_goes_on(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:100]))
    log = TrialLog(tmp_path / LOG_NAME)
    for record in records:
        log.append(record)
    log.close()
    assert read_log(log.path) == records


def test_a_trial_that_could_not_be_written_takes_no_number(
    tmp_path: Path, records: list[Record], disk: Disk
) -> None:
    log = TrialLog(tmp_path / LOG_NAME)
    trial = next(r for r in records if isinstance(r, TrialRecord))
    disk.free = 5
    with pytest.raises(LogError):
        log.append(trial.model_copy(update={"number": log.next_trial()}))
    assert log.next_trial() == 1
    log.close()


def test_a_run_on_a_full_disk_ends_with_the_cause_and_goes_on_where_it_was(
    tmp_path: Path, run: Bench, disk: Disk
) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=run.agent.duts), run.configuration)
    bench.throughput(64)
    before = read_log(bench.path)
    disk.free = 3000
    with pytest.raises(LogError, match="No space left on device"):
        bench.throughput(1518)
    held = read_log(bench.path)
    assert held[: len(before)] == before
    with pytest.raises(LogError, match="No space left on device"):
        bench.run.close()
    after = bench.agent.calls[max(n for n, c in enumerate(bench.agent.calls) if c[:5] == "trial") :]
    assert after[1:] == ["teardown", "close"]  # the machine is as it was
    disk.free = None
    again = Bench(tmp_path, FakeAgent(duts=run.agent.duts), run.configuration)
    again.throughput(1518)
    again.run.close()
    kept = sum(isinstance(r, TrialRecord) for r in before)  # of the test that has its end
    assert len(again.agent.trials) == len(run.agent.trials) - kept  # none is measured twice

    def numbers(bench: Bench) -> list[object]:
        return numbered_by_test(bench.derived().results, bench.path)

    assert numbers(again) == numbers(run)


IN_A_TINY_FILE_SYSTEM = """
import os, sys
from pathlib import Path
from vnetperf.model.errors import LogError
from vnetperf.log.trial_log import TrialLog, read_log
from vnetperf.runner.verdict import write_captures
source, folder = map(Path, sys.argv[1:])
records = read_log(source)
log = TrialLog(folder / "trials.jsonl")
written = []
for record in records[:20]:
    log.append(record)
    written.append(record)
for size in (4096, 100, 1):
    with (folder / f"fill{size}").open("wb", buffering=0) as fill:
        try:
            while True:
                fill.write(bytes(size))
        except OSError:
            pass
failed = 0
for record in [*records[20:]] * 20:
    try:
        log.append(record)
        written.append(record)
    except LogError as error:
        assert "No space left on device" in error.what, error
        failed += 1
assert failed, "the file system is not full"
assert read_log(log.path) == written
try:
    write_captures(log.path, 1, {"port0-sent.pcap": bytes(9000)})
except LogError as error:
    assert "No space left on device" in error.what
assert not list((folder).glob("captures/*"))
for fill in folder.glob("fill*"):
    fill.unlink()
log.append(records[20])
log.close()
assert read_log(log.path) == [*written, records[20]]
print("kept", len(written), "refused", failed)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has mount namespaces")
def test_a_log_on_a_file_system_that_is_really_full(tmp_path: Path, run: Bench) -> None:
    size = run.path.stat().st_size + 40_000
    mounted = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'
    folder = tmp_path / "tiny"
    folder.mkdir()
    python = [sys.executable, "-c", IN_A_TINY_FILE_SYSTEM, str(run.path), str(folder)]
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounted]
    done = subprocess.run(
        [*argv, str(size), str(folder), *python],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())  # the mount has gone with its namespace


def log_record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text, "levelno": logging.INFO})


def test_the_text_log_of_a_run_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.touch()
    log = RunLog(path)
    log.setFormatter(logging.Formatter())
    files = Path("/proc/self/fd")
    (file,) = (int(n.name) for n in files.iterdir() if os.path.realpath(n) == str(path))
    good = os.dup(file)
    try:
        log.emit(log_record("before"))
        with Path("/dev/full").open("ab", buffering=0) as full:
            os.dup2(full.fileno(), file)
        log.emit(log_record("no room"))
        log.emit(log_record("nor here"))
        os.dup2(good, file)
        log.emit(log_record("after"))
    finally:
        log.close()
        os.close(good)
    assert path.read_text().splitlines() == [
        *("before", "", "(2 records before could not be written)", "after")
    ]


# --- a second writer -------------------------------------------------------------------------


def test_a_log_has_one_writer(tmp_path: Path, records: list[Record]) -> None:
    first = TrialLog(tmp_path / LOG_NAME)
    first.append(records[0])
    with pytest.raises(LogError, match="still going on"):
        TrialLog(tmp_path / LOG_NAME)
    first.append(records[1])
    first.close()
    second = TrialLog(tmp_path / LOG_NAME)
    second.append(records[2])
    second.close()
    assert read_log(first.path) == records[:3]


def test_a_live_run_is_not_resumed_and_not_changed(tmp_path: Path, run: Bench) -> None:
    bench = Bench(tmp_path, FakeAgent(duts=run.agent.duts), run.configuration)
    bench.throughput(64)
    before = bench.path.read_bytes()
    with pytest.raises(LogError, match="still going on") as caught:
        Bench(tmp_path, FakeAgent(duts=run.agent.duts), run.configuration)
    assert "--resume" in caught.value.cure
    assert bench.path.read_bytes() == before
    bench.throughput(1518)
    bench.run.close()
    assert not any("interrupted" in w for w in bench.derived().warnings)


def test_logs_of_workers_that_still_run_are_not_merged(tmp_path: Path, run: Bench) -> None:
    bench = Bench(tmp_path, name=log_path(tmp_path, "gw0").name)
    bench.throughput(64)
    with pytest.raises(LogError, match="still going on"):
        merge_worker_logs(tmp_path)
    bench.run.close()
    merge_worker_logs(tmp_path)
    assert [p.name for p in tmp_path.glob("*.jsonl")] == [LOG_NAME]


def test_a_file_system_without_locks_is_written_all_the_same(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(fd: int, what: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    log = TrialLog(tmp_path / LOG_NAME)
    log.append(records[0])
    log.close()
    assert read_log(log.path) == records[:1]


def test_without_locks_a_second_writer_cuts_nothing(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the first one's records for a line that was cut."""

    def none(fd: int, what: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    first, second = TrialLog(tmp_path / LOG_NAME), TrialLog(tmp_path / LOG_NAME)
    first.append(records[0])
    with pytest.raises(LogError, match="another process"):
        second.append(records[0])
    first.append(records[1])
    for log in (first, second):
        log.close()
    assert read_log(first.path) == records[:2]
    with first.path.open("ab") as file:
        file.write(b'{"type":"tri')  # what a killed run leaves is cut all the same
    third = TrialLog(first.path)
    third.append(records[2])
    third.close()
    assert read_log(first.path) == records[:3]


# --- a damaged log ---------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path, run: Bench) -> tuple[Path, int]:
    """A log with a changed digit in the tenth line from its end; and that line's number."""
    lines = run.path.read_bytes().splitlines(keepends=True)
    at = max(
        n for n, line in enumerate(lines) if n < len(lines) - 9 and line.startswith(b'{"type":"tri')
    )
    lines[at] = re.sub(rb'"received":\d', b'"received":1', lines[at], count=1)
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / LOG_NAME).write_bytes(b"".join(lines))
    return folder, at + 1


def test_a_report_up_to_damage_has_every_trial_before_it(
    damaged: tuple[Path, int], run: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, line = damaged
    assert cli.main(["report", str(folder)]) == 1
    refused = capsys.readouterr().err
    assert "--up-to-damage" in refused
    assert f"{LOG_NAME}:{line}" in refused
    assert cli.main(["report", "--up-to-damage", str(folder)]) == 0
    before = read_log(run.path)[: line - 1]
    kept, (damage,) = read_up_to_damage(folder)
    assert kept == before
    assert damage.where.endswith(f":{line}")
    results = json.loads((folder / "results.json").read_text())
    trials = [r.number for r in before if isinstance(r, TrialRecord)]
    assert [t["number"] for t in results["trials"]] == trials
    assert "before that line" in results["warnings"][0]
    assert "damaged" in capsys.readouterr().out
    assert "only the records before that line" in (folder / "report.html").read_text()


def test_without_damage_the_option_changes_nothing(
    tmp_path: Path, run: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, options in (("a", []), ("b", ["--up-to-damage"])):
        assert cli.main(["report", *options, str(run.path), "--output", str(tmp_path / name)]) == 0
    assert (tmp_path / "a/results.json").read_bytes() == (tmp_path / "b/results.json").read_bytes()
    capsys.readouterr()


#: `make fuzz` tries more.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "15"))
ODD = st.sampled_from(
    [None, True, -1, 0, 10**30, 1e308, -1e308, 0.5, "", "x", "\x00", "\u202e", [], {}, [[]], [0, 0]]
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_crafted_log_is_refused_or_read_and_never_a_traceback(
    run: Bench, tmp_path: Path, data: st.DataObject
) -> None:
    """One value of a record is another, and all checksums are right."""
    lines = run.path.read_bytes().splitlines()
    contents = [json.loads(unseal(line)[0]) for line in lines]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(contents))
        while True:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
            if not isinstance(place[key], dict | list) or not place[key]:
                break
            if data.draw(st.integers(0, 4)) == 0:
                break
            place = place[key]
        place[key] = data.draw(ODD)
    before, written = "", []
    for content in contents:
        body = json.dumps(content).encode()
        before = digest_line(body, before)
        written.append(b'%s,"digest":"%s"}\n' % (body[:-1], before.encode()))
    path = tmp_path / LOG_NAME
    path.write_bytes(b"".join(written))
    with contextlib.suppress(VnetperfError):
        write_all(derive(read_log(path)), tmp_path)
    with contextlib.suppress(VnetperfError):
        TrialLog(path).close()


DEEP, ENDLESS = b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"


@pytest.mark.parametrize(
    ("line", "last"),
    [
        *((line, last) for line in (DEEP, ENDLESS) for last in (True, False)),
        (b'{"type":"' + b"x" * 9999 + b'"}', False),
    ],
)
def test_deep_and_endless_values_are_damage(
    tmp_path: Path, run: Bench, line: bytes, last: bool
) -> None:
    path = tmp_path / LOG_NAME
    lines = run.path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + line + (b"" if last else b"\n" + lines[4]))
    if last:  # cut, for all that can be known
        assert len(read_log(path)) == 4
        TrialLog(path).close()
    else:
        with pytest.raises(LogError) as caught:
            read_log(path)
        assert len(str(caught.value)) < 1000
