"""The promise: whatever was changed, however the journal was cut, the machine is as before."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event as EventType
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vnetperf.host import files, kernel, session
from vnetperf.host import journal as journal_file
from vnetperf.host import journal as undoing
from vnetperf.host.journal import Change, Journal
from vnetperf.host.linux import ProcessId, boot_id, machine_id
from vnetperf.host.locks import try_lock
from vnetperf.host.paths import HostRoots, make_private
from vnetperf.host.session import HostRun, restore
from vnetperf.model.errors import HostError, TestbedBusyError

NAMES = st.sampled_from(["a", "b", "c"])
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["value", "directory", "tree", "undo"]),
        NAMES,
        st.integers(min_value=0, max_value=99),
    ),
    max_size=12,
)


class Place:
    """A made-up machine: some values, a file, and room for more."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="vnetperf-test-"))
        self.roots = HostRoots(self.base / "state", self.base / "run")
        self.machine = self.base / "machine"
        self.machine.mkdir()
        for name in "abc":
            (self.machine / f"value-{name}").write_text("1\n")
            (self.machine / f"file-{name}").write_text(f"content of {name}\n")
        self.before = self.picture()
        self.changes: list[Change] = []

    def picture(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.machine)): path.read_text() if path.is_file() else "dir"
            for path in sorted(self.machine.rglob("*"))
        }

    def act(self, journal: Journal, action: str, name: str, number: int) -> None:
        if action == "tree" and (self.machine / f"tree-{name}").exists():
            return
        if action == "value":
            path = self.machine / f"value-{name}"
            self.changes.append(kernel.write_value(journal, path, str(number)))
        elif action == "directory":
            if made := files.ensure_directory(journal, self.machine / f"shared-{name}"):
                self.changes.append(made)
        elif action == "tree":
            path = self.machine / f"tree-{name}"
            self.changes.append(files.create_tree(journal, path))
            (path / "inside").write_text("x")
        elif self.changes:
            # Undoing out of order is only meaningful for the latest change.
            self.changes.pop().undo()

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.base)


@pytest.mark.slow
@settings(max_examples=60)
@given(ACTIONS)
def test_any_changes_undone_leave_the_machine_as_before(
    actions: list[tuple[str, str, int]],
) -> None:
    with Place() as place:
        journal = Journal.create(place.roots, "r1")
        for action in actions:
            place.act(journal, *action)
        report = journal.undo()
        assert report.complete
        assert place.picture() == place.before
        assert not place.roots.state.exists()
        assert journal.undo().undone == ()


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.slow
@settings(max_examples=80)
@given(ACTIONS, st.integers(min_value=0, max_value=4000))
def test_killed_at_any_byte_of_the_journal(
    actions: list[tuple[str, str, int]], budget: int
) -> None:
    """The process is killed when the journal has so many bytes: what it announced is undone."""

    def append_until_killed(fd: int, record: journal_file.Record) -> None:
        nonlocal budget
        line = journal_file.encode_record(record)
        os.write(fd, line[: max(0, budget)])
        budget -= len(line)
        if budget < 0:
            raise Killed

    with Place() as place:
        journal = Journal.create(place.roots, "r1")
        with mock.patch.object(journal_file, "append_record", append_until_killed):
            try:
                for action in actions:
                    place.act(journal, *action)
            except Killed:
                pass
        journal.close()  # as the kernel does with the files of the dead
        assert restore(place.roots).complete
        assert place.picture() == place.before
        assert not place.roots.state.exists()


@pytest.mark.slow
@settings(max_examples=40)
@given(ACTIONS, st.data())
def test_killed_during_the_undo_then_undone_again(
    actions: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    """Marks of undone steps may be lost with the process: each step can be repeated."""
    with Place() as place:
        journal = Journal.create(place.roots, "r1")
        for action in actions:
            place.act(journal, *action)
        written = journal.path.read_bytes()
        steps = undoing.pending_changes(journal_file.read_journal(journal.path).records)
        journal.undo()
        marked = data.draw(st.integers(min_value=0, max_value=len(steps)))
        place.roots.journals.mkdir(parents=True)
        marks = [
            journal_file.encode_record({"t": "undone", "n": step["n"]}) for step in steps[:marked]
        ]
        journal.path.write_bytes(written + b"".join(marks))
        report = restore(place.roots)
        assert report.complete
        assert len(report.restored[0].undone) == len(steps) - marked
        assert place.picture() == place.before


def test_every_cut_of_a_real_journal_can_be_read(roots: HostRoots, tmp_path: Path) -> None:
    journal = Journal.create(roots, "r1")
    value = tmp_path / "value"
    value.write_text("1")
    kernel.write_value(journal, value, "2")
    whole = journal.path.read_bytes()
    for size in range(len(whole) + 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        content = journal_file.read_journal(tmp_path / "cut")
        assert content.damage == ()
        assert len(content.records) <= 2
    journal.undo()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_damaged_line_is_told_and_the_rest_undone(
    roots: HostRoots, tmp_path: Path, number: int
) -> None:
    paths = [tmp_path / name for name in "abc"]
    journal = Journal.create(roots, "r1")
    for path in paths:
        path.write_text("1\n")
        kernel.write_value(journal, path, "2")
    lines = journal.path.read_bytes().splitlines(keepends=True)
    damaged = lines[number].replace(b'"what"', b'"whet"')
    assert damaged != lines[number]
    lines[number] = damaged
    journal.path.write_bytes(b"".join(lines))
    report = journal.undo()
    assert not report.complete
    assert f"line {number + 1}" in report.damaged[0]
    expected = ["1\n", "1\n", "1\n"]
    expected[number - 1] = "2\n"
    assert [path.read_text() for path in paths] == expected
    assert journal.path.with_suffix(".damaged").exists()
    later = restore(roots)
    assert later.damaged == ("r1.damaged",)
    assert later.complete


@pytest.mark.parametrize("instead", [b"\x0b", b"\x00", b"\r", b" "], ids=repr)
def test_a_change_is_undone_whatever_became_of_the_end_of_its_line(
    roots: HostRoots, tmp_path: Path, instead: bytes
) -> None:
    written = written_journal(roots, HEADER, change(tmp_path / "left"))
    (tmp_path / "left").mkdir()
    written.write_bytes(written.read_bytes()[:-1] + instead)
    report = restore(roots)
    left = (tmp_path / "left").is_dir()
    assert left is not report.complete


def test_a_journal_cut_within_its_header_is_not_taken_for_an_empty_one(roots: HostRoots) -> None:
    written = written_journal(roots, HEADER)
    for size in (50, 1):
        written.write_bytes(written.read_bytes()[:size])
        assert not restore(roots).complete
        assert written.exists()


def test_after_a_reboot_only_files_are_undone(
    roots: HostRoots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")
    journal = Journal.create(roots, "r1")
    kernel.write_value(journal, value, "2")
    files.create_tree(journal, tmp_path / "file")
    journal.close()
    monkeypatch.setattr("vnetperf.host.journal.boot_id", lambda: "another boot")
    report = restore(roots)
    assert report.complete
    assert value.read_text() == "2\n"  # what the new boot made of it is not overwritten
    assert not (tmp_path / "file").exists()
    assert not roots.state.exists()


def test_an_error_stops_only_its_own_step(roots: HostRoots, tmp_path: Path) -> None:
    journal = Journal.create(roots, "r1")
    files.create_tree(journal, tmp_path / "first")
    files.create_tree(journal, tmp_path / "last")
    journal.append({"t": "change", "n": 50, "kind": "gone", "what": "?", "boot": "", "data": {}})
    report = journal.undo()
    assert [step.kind for step in report.failed] == ["gone"]
    assert "version of vnetperf" in report.failed[0].outcome
    assert not (tmp_path / "first").exists()
    assert not (tmp_path / "last").exists()
    assert journal.path.exists()
    with pytest.raises(HostError, match="vnetperf restore"):
        report.raise_if_incomplete()


def test_processes_of_a_run_are_ended_once_for_all_that_were_started(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not end would be waited for by each."""
    asked: list[dict[str, Any]] = []

    def undo(data: dict[str, Any]) -> str:
        asked.append(data)
        if len(asked) == 1:
            raise HostError("processes [7] do not end")
        return "ended 1 processes"

    monkeypatch.setattr("vnetperf.host.processes.undo_processes", undo)
    monkeypatch.setattr("vnetperf.host.journal.RETRY_AFTER_S", 0.0)
    journal = Journal.create(roots, "together")
    run = {"run_id": "together", "scope": ""}
    journal.intend("processes", "start processes", run)
    for pid in (7, 8):
        journal.intend("processes", f"process {pid}", {**run, "known": [[pid, 1]]})
    report = journal.undo()
    assert report.complete
    assert [step.what for step in report.undone] == ["start processes"]
    assert [sorted(data["known"]) for data in asked] == [[[7, 1], [8, 1]]] * 2
    assert not journal.path.exists()


@pytest.mark.parametrize("failures", [1, 2])
def test_what_a_second_try_undoes_is_no_alarm(
    failures: int,
    roots: HostRoots,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Udev may rename a link just then."""
    tried: list[object] = []

    def undo(data: dict[str, Any]) -> str:
        tried.append(data)
        if len(tried) <= failures:
            raise HostError("link eth0: No such device")
        return "already as before"

    monkeypatch.setattr("vnetperf.host.processes.undo_processes", undo)
    monkeypatch.setattr("vnetperf.host.journal.RETRY_AFTER_S", 0.0)
    journal = Journal.create(roots, "renamed")
    journal.intend("processes", "interface enp65s0", {"run_id": "renamed", "scope": ""})
    with caplog.at_level("INFO"):
        report = journal.undo()
    warned = [r for r in caplog.records if r.levelname == "WARNING" and "undo" in r.message]
    assert len(warned) == failures - 1
    assert report.complete == (failures == 1)


def test_a_change_that_fails_is_undone_at_once(journal: Journal, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")

    def change_and_fail() -> None:
        data = {"path": str(value), "previous": "1", "wanted": "5", "zero_first": False}
        with journal.changing("value", "x", data):
            value.write_text("5\n")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        change_and_fail()
    assert value.read_text() == "1\n"


def test_nothing_is_changed_when_the_journal_is_closed(roots: HostRoots, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")
    journal = Journal.create(roots, "r1")
    journal.undo()
    with pytest.raises(HostError, match="after the run's journal was closed"):
        kernel.write_value(journal, value, "2")
    assert value.read_text() == "1\n"


@pytest.mark.parametrize("bad", ["", "../x", "a b", "x" * 41])
def test_a_run_id_that_cannot_name_a_file_is_refused(roots: HostRoots, bad: str) -> None:
    with pytest.raises(HostError, match="accepted: 1 to 40"):
        Journal.create(roots, bad)


def test_a_journal_is_not_taken_over(roots: HostRoots) -> None:
    journal = Journal.create(roots, "r1")
    with pytest.raises(HostError, match="already has a journal"):
        Journal.create(roots, "r1")
    assert restore(roots).live[0].role == "agent"
    journal.undo()


#: Runs that begin and end, and restores beside them, that are enough to meet each other.
ROUNDS = 100


def _restore_all_the_time(
    roots: HostRoots, enough: EventType, stop: EventType, found: Queue[object]
) -> None:
    errors: list[str] = []
    rounds = 0
    while not stop.is_set():
        try:
            restore(roots)
        except Exception as error:  # noqa: BLE001 - each is a failure of the test, and is shown
            errors.append(repr(error))
        rounds += 1
        if rounds >= ROUNDS:
            enough.set()
    found.put(errors)


@pytest.mark.slow
def test_restore_beside_starting_runs_takes_no_journal_away(
    roots: HostRoots, tmp_path: Path
) -> None:
    """112 of 1,883 runs lost theirs while the header came after the name."""
    make_private(roots.journals)
    fork = multiprocessing.get_context("fork")
    enough, stop, found = fork.Event(), fork.Event(), fork.Queue()
    arguments = (roots, enough, stop, found)
    beside = fork.Process(target=_restore_all_the_time, args=arguments, daemon=True)
    beside.start()
    lost = []
    for number in itertools.count():
        with Journal.create(roots, f"r{number}") as journal:
            files.create_tree(journal, tmp_path / "change")
            gone = not journal.path.exists()
            report = journal.undo()
        if gone or not report.complete or len(report.undone) != 1 or (tmp_path / "change").exists():
            lost.append((number, report))
        if number >= ROUNDS and (enough.is_set() or not beside.is_alive()):
            break
    stop.set()
    errors = found.get(timeout=60)
    beside.join()
    assert (lost, errors) == ([], [])


def test_a_journal_has_header_and_lock_when_it_has_its_name(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever a restore looks at a run that is starting, it finds nothing, or a live run."""
    seen = []

    def look(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            seen.append((restore(roots), real(*args), restore(roots)))
            return seen[-1][1]

        return wrapper

    monkeypatch.setattr(journal_file, "append_record", look(journal_file.append_record))
    monkeypatch.setattr(os, "link", look(os.link))
    journal = Journal.create(roots, "r1")
    reports = [report for before, _, after in seen for report in (before, after)]
    assert len(reports) == 4
    assert all(report.restored == () for report in reports)
    assert [[run.role for run in report.live] for report in reports] == [[], [], [], ["agent"]]
    assert [path.name for path in roots.journals.iterdir()] == ["r1.jsonl"]
    assert journal.undo().complete


def test_what_died_before_its_journal_had_a_name_is_tidied_up(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(os, "link", die)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # the dead tidy nothing up
    with pytest.raises(Killed):
        Journal.create(roots, "r1")
    monkeypatch.undo()
    assert [path.suffix for path in roots.journals.iterdir()] == [".new"]
    assert restore(roots).complete
    assert not roots.state.exists()


def test_a_journal_that_lost_its_name_is_undone_and_reported(
    roots: HostRoots, tmp_path: Path
) -> None:
    journal = Journal.create(roots, "r1")
    files.create_tree(journal, tmp_path / "change")
    journal.path.unlink()
    report = journal.undo()
    assert not (tmp_path / "change").exists()
    assert not report.complete
    with pytest.raises(HostError, match="was removed or replaced"):
        report.raise_if_incomplete()


def test_the_lock_decides_and_no_process_id(roots: HostRoots, tmp_path: Path) -> None:
    journal = Journal.create(roots, "r1", guardian=ProcessId.me())
    files.create_tree(journal, tmp_path / "change")
    assert [run.role for run in restore(roots).live] == ["agent"]
    journal.close()  # the processes of its header live on
    report = restore(roots)
    assert report.live == ()
    assert [undone.complete for undone in report.restored] == [True]
    assert not (tmp_path / "change").exists()


HEADER = {
    "t": "header",
    "version": journal_file.FORMAT_VERSION,
    "tool": "vnetperf 0",
    "run_id": "r1",
    "machine": machine_id(),
    "host": "here",
    "boot": boot_id(),
    "owner": [999_999, 1],
    "guardian": None,
    "since": "",
    "testbed": "machine",
    "argv": [],
    "user": "u",
}


def written_journal(roots: HostRoots, *records: dict[str, Any]) -> Path:
    """A journal that nobody holds."""
    make_private(roots.journals)
    path = roots.journal("r1")
    path.write_bytes(b"".join(map(journal_file.encode_record, records)))
    return path


def change(path: Path, **fields: Any) -> dict[str, Any]:
    data = {"path": str(path)}
    known = {"t": "change", "n": 1, "kind": "tree", "what": "w", "boot": boot_id(), "data": data}
    return {**known, **fields}


@pytest.mark.parametrize(
    "header",
    [
        {**HEADER, "version": 99},
        {"t": "header", "version": 99, "agent": [1, 2]},
        {k: v for k, v in HEADER.items() if k not in ("machine", "tool")} | {"version": 1},
    ],
    ids=["newer", "newer, other fields", "older"],
)
def test_a_journal_of_another_version_is_left_alone_with_a_clear_error(
    roots: HostRoots, tmp_path: Path, header: dict[str, Any]
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    path = written_journal(roots, header, change(precious))
    report = restore(roots)
    assert not report.complete
    assert report.restored == ()
    (text,) = report.unreadable
    assert f"format {header['version']}" in text
    assert "of the version that wrote it" in text
    assert precious.exists()
    assert path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "records",
    [
        [change(Path("/nowhere"))],
        [HEADER, {"t": "change", "n": 1}, change(Path("/nowhere"), n=2)],
        [HEADER, {"t": "undone"}, change(Path("/nowhere"), n=2)],
        [HEADER, change(Path("/nowhere"), kind="rdma")],
        [HEADER, change(Path("/nowhere"), data={})],
    ],
    ids=["no header", "change without fields", "mark without number", "kind", "data"],
)
def test_a_journal_of_odd_records_is_no_traceback(
    roots: HostRoots, records: list[dict[str, Any]]
) -> None:
    written_journal(roots, *records)
    assert not restore(roots).complete


def test_a_line_that_is_nested_without_end_is_damage() -> None:
    whole = journal_file.encode_record({"t": "undone", "n": 1})
    content = journal_file.parse_journal(b"[" * 100_000 + b"\n" + whole, "x.jsonl")
    assert content.records == ({"t": "undone", "n": 1},)
    assert len(content.damage) == 1


def test_a_number_that_two_changes_have_is_damage() -> None:
    one = {"t": "change", "n": 1, "kind": "tree", "what": "a", "boot": "b", "data": {"path": "/a"}}
    other = one | {"data": {"path": "/b"}}
    lines = b"".join(map(journal_file.encode_record, (one, one, other)))
    content = journal_file.parse_journal(lines, "x.jsonl")
    assert content.records == (one, one)
    (damage,) = content.damage
    assert "line 3 of x.jsonl" in damage
    assert "change 1" in damage


def test_a_live_run_of_another_version_is_named(roots: HostRoots) -> None:
    path = written_journal(roots, {"t": "header", "version": 99, "owner": "pid 7"})
    with path.open() as held:
        assert try_lock(held.fileno())
        (live,) = restore(roots).live
    assert "run r1 of unknown" in live.describe()


def test_a_run_waits_for_who_still_undoes_an_earlier_one(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the half of what was undone for the machine as it was."""
    monkeypatch.setattr(session, "OTHERS_S", 0.2)
    path = written_journal(roots, {**HEADER, "testbed": "bed"})
    with path.open() as held:
        assert try_lock(held.fileno())
        with pytest.raises(TestbedBusyError, match="run r1 of u "):
            HostRun.open(roots=roots, testbed="bed")
        HostRun.open(roots=roots, testbed="another bed").close()
        assert not roots.lock("bed").exists()
    with HostRun.open(roots=roots, testbed="bed") as run:
        assert [one.run_id for one in run.restored.restored] == ["r1"]


def test_a_copy_of_the_state_is_not_undone(roots: HostRoots, tmp_path: Path) -> None:
    """Somebody kept it to look at: what it lists is, or was, undone where it is."""
    value = tmp_path / "value"
    value.write_text("1\n")
    with Journal.create(roots, "r1") as journal:
        kernel.write_value(journal, value, "2")
        copied = roots.host_roots("saved")
        shutil.copytree(roots.state, copied.state)
    report = restore(copied)
    assert "is a copy of" in report.foreign[0]
    assert not report.restored
    assert value.read_text() == "2\n"


def test_a_journal_of_another_machine_is_left_alone(roots: HostRoots, tmp_path: Path) -> None:
    """Two hosts that share /var/lib: what lives there is not dead here."""
    there = {**HEADER, "machine": "0" * 32, "host": "other", "boot": "1"}
    path = written_journal(roots, there, change(tmp_path, boot="1"))
    report = restore(roots)
    assert report.complete
    assert not report.restored
    assert not report.live
    assert "of another machine (other)" in report.foreign[0]
    assert path.exists()
    assert tmp_path.exists()


def test_a_container_of_this_machine_with_a_machine_id_of_its_own(
    roots: HostRoots, tmp_path: Path
) -> None:
    (tmp_path / "left").mkdir()
    written_journal(roots, {**HEADER, "machine": "0" * 32}, change(tmp_path / "left"))
    assert len(restore(roots).restored) == 1
    assert not (tmp_path / "left").exists()


def test_looking_again_and_again_leaves_no_file_open(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undoing, "RETRY_AFTER_S", 0)
    written_journal(roots, HEADER, change(Path("/x"), kind="rdma"))

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    for _ in range(10):
        assert not restore(roots).complete
    assert open_files() == before
