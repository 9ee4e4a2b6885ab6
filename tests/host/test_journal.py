"""The promise: whatever was changed, however the journal was cut, the machine is as before."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vnetperf.host import files, kernel
from vnetperf.host import journal as journal_file
from vnetperf.host import journal as undoing
from vnetperf.host.journal import Change, Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import restore
from vnetperf.model.errors import HostError

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


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=80, deadline=None)
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
        journal.close()
        _pretend_owner_died(journal.path)
        assert restore(place.roots).complete
        assert place.picture() == place.before
        assert not place.roots.state.exists()


@settings(max_examples=40, deadline=None)
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
        _pretend_owner_died(journal.path)
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


def test_damage_in_the_middle_is_told_and_the_rest_undone(roots: HostRoots, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    journal = Journal.create(roots, "r1")
    for path in paths:
        path.write_text("1\n")
        kernel.write_value(journal, path, "2")
    lines = journal.path.read_bytes().splitlines(keepends=True)
    lines[2] = (
        lines[2]
        .replace(b'"previous":"1"', b'"previous":"7"')
        .replace(b'"previous": "1"', b'"previous": "7"')
    )
    journal.path.write_bytes(b"".join(lines))
    report = journal.undo()
    assert not report.complete
    assert "line 3" in report.damaged[0]
    assert [path.read_text() for path in paths] == ["1\n", "2\n", "1\n"]
    assert journal.path.with_suffix(".damaged").exists()
    later = restore(roots)
    assert later.damaged == ("r1.damaged",)
    assert later.complete


def test_after_a_reboot_only_files_are_undone(
    roots: HostRoots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")
    journal = Journal.create(roots, "r1")
    kernel.write_value(journal, value, "2")
    files.create_tree(journal, tmp_path / "file")
    journal.close()
    for module in ("journal", "session"):
        monkeypatch.setattr(f"vnetperf.host.{module}.boot_id", lambda: "another boot")
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


def test_a_change_that_fails_is_undone_at_once(journal: Journal, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")

    def change_and_fail() -> None:
        data = {"path": str(value), "previous": "1", "zero_first": False}
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


def _pretend_owner_died(path: Path) -> None:
    first, _, rest = path.read_bytes().partition(b"\n")
    header = json.loads(first)["r"]
    header["owner"][1] += 1  # another start time is another process
    path.write_bytes(journal_file.encode_record(header) + rest)
