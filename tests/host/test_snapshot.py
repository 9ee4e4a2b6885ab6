from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from vnetperf.host import guardian, hugepages, kernel, snapshot
from vnetperf.host import journal as journal_file
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import HostRun, restore
from vnetperf.host.snapshot import (
    Snapshot,
    compare_snapshots,
    read_last,
    take_picture,
    take_snapshot,
    undo_and_compare,
)
from vnetperf.model.errors import HostError


def test_differences_are_told_in_words() -> None:
    before = Snapshot({"links": {"eth0": "up", "gone": "up"}, "files": {"/a": "3 bytes"}})
    after = Snapshot({"links": {"eth0": "down", "new": "up"}, "files": {"/a": "3 bytes"}})
    assert compare_snapshots(before, before) == ()
    assert compare_snapshots(before, after) == (
        "links: eth0 was up, is down",
        "links: gone is gone (was up)",
        "links: new is new (up)",
    )


def test_a_part_can_be_compared() -> None:
    whole = Snapshot({"links": {"mine-a": "up", "eth0": "up"}, "files": {"/mine": "x"}})
    assert whole.only(["links"], ["mine"]) == Snapshot({"links": {"mine-a": "up"}})
    assert whole.only(["files"]) == Snapshot({"files": {"/mine": "x"}})


def test_this_machine_has_all_areas(roots: HostRoots) -> None:
    areas = take_snapshot(roots).areas
    assert "lo" in areas["links"]
    assert areas["processes"]
    assert areas["mounts"]
    assert not any("(unreadable)" in area for area in areas.values())
    roots.state.mkdir()
    (roots.state / "left").write_text("x")
    assert f"{roots.state}/left" in take_snapshot(roots).areas["files"]


def test_shared_memory_is_told_from_a_disk_in_memory(
    roots: HostRoots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SHARED_MEMORY", tmp_path)
    (tmp_path / "pytest").mkdir()
    (tmp_path / "segment").write_text("x")
    files = take_snapshot(roots).areas["files"]
    assert [name for name in files if str(tmp_path) in name] == [f"{tmp_path}/segment"]


@pytest.mark.slow
def test_what_a_run_left_is_in_its_report_and_kept(roots: HostRoots, journal: Journal) -> None:
    take_picture(journal, roots.run)
    roots.run.mkdir()
    (roots.run / "left").touch()
    report = undo_and_compare(journal)
    assert report.complete
    assert report.differences is not None
    mine = [text for text in report.differences if str(roots.run) in text]
    assert mine == [
        f"files: {roots.run}/ is new (there)",
        f"files: {roots.run}/left is new (there)",
    ]
    last = read_last(roots)
    assert last["run"] == journal.run_id
    assert tuple(last["differences"]) == report.differences
    assert not roots.state.exists()
    assert stat.S_IMODE(roots.last.stat().st_mode) == 0o600  # it names processes and mounts


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"machine": "another", "boot": "another", "host": "lab7"}, "is of lab7"),
        ({"machine": "another"}, ""),  # a container of this machine
        ({"boot": "another"}, ""),  # before a reboot
        ({"machine": None, "boot": None, "host": None}, "is of another machine"),
        (None, "not as it was written"),
    ],
)
def test_what_was_kept_is_of_this_machine(
    roots: HostRoots, journal: Journal, found: dict[str, str | None] | None, why: str
) -> None:
    """Machines may share /var/lib; the last one to write is not this one."""
    take_picture(journal, roots.run)
    undo_and_compare(journal)
    kept = json.loads(roots.last.read_text())
    changed = {k: v for k, v in (kept | (found or {})).items() if v is not None}
    roots.last.write_text("[]" if found is None else json.dumps(changed))
    last = read_last(roots)
    if why:
        assert set(last) == {"unknown"}
        assert why in last["unknown"]
    else:
        assert last["run"] == journal.run_id


def test_what_cannot_be_read_is_not_taken_for_nothing(roots: HostRoots) -> None:
    """It is root's alone, and an agent that only looks is the user's own."""
    roots.last.mkdir()
    assert "Is a directory" in read_last(roots)["unknown"]


def test_a_run_that_left_nothing(roots: HostRoots, journal: Journal) -> None:
    take_picture(journal, roots.run)
    report = undo_and_compare(journal)
    assert report.differences is not None  # others may change things at this moment
    assert not any(str(roots.run) in text for text in report.differences)


def test_nothing_is_compared_after_a_reboot_or_without_a_picture(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(roots, "r1")
    assert undo_and_compare(journal).differences is None
    journal = Journal.create(roots, "r2")
    take_picture(journal, roots.run)
    monkeypatch.setattr(snapshot, "boot_id", lambda: "another")
    assert undo_and_compare(journal).differences is None
    assert read_last(roots) == {}


@pytest.mark.slow
def test_a_daemon_with_a_log_of_the_run_is_seen_by_its_name(roots: HostRoots) -> None:
    """Even when the run's folder is gone; others' processes are nobody's business."""
    before = snapshot.picture(roots.run)
    folder = roots.run / "r1"
    folder.mkdir(parents=True)
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen(["sleep", "300"], stdout=log)
    other = subprocess.Popen(["sleep", "301"])
    shutil.rmtree(roots.run)
    try:
        found = snapshot.differences(before, roots.run)
        assert any(f" {daemon.pid} is new (sleep)" in text for text in found)
        assert not any(f"processes: {other.pid}" in text for text in found)
    finally:
        for process in (daemon, other):
            process.kill()
            process.wait()
    assert not any("processes:" in text for text in snapshot.differences(before, roots.run))


def test_a_pool_that_cannot_be_read_refuses_no_run(
    roots: HostRoots, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each deployment on a machine with a partial sysfs ended with it, before and after."""

    def partial() -> None:
        raise HostError("cannot be read: no such file", where="surplus_hugepages")

    monkeypatch.setattr(hugepages, "pools", partial)
    take_picture(journal, roots.run)
    before = journal.record("before")["areas"]
    assert "surplus_hugepages" in before["hugepages"]["(unreadable)"]
    report = undo_and_compare(journal)
    assert report.complete
    assert not any("hugepages:" in text for text in report.differences or ())


def test_an_error_of_the_comparison_ends_the_run_in_order(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lock, journal and guardian were left: nobody could use the machine until the agent ended."""

    def fail(*_: object) -> None:
        raise LookupError("of the test")

    with HostRun.open(roots=roots) as run:
        monkeypatch.setattr(snapshot, "picture", fail)
    report = run.close()
    assert report.complete
    (difference,) = report.differences
    assert difference.endswith(": of the test")
    assert not roots.state.exists()


@pytest.mark.slow
def test_a_journal_that_cannot_be_removed_ends_the_run_in_order(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def fail(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".jsonl":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        unlink(self, missing_ok)

    run = HostRun.open(roots=roots, testbed="bed")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fail)
        report = run.close()
    (trouble,) = report.troubles
    assert "all is undone, but" in trouble
    assert "Read-only file system" in trouble
    assert restore(roots).complete
    HostRun.open(roots=roots, testbed="bed").close()  # the testbed is free
    assert not roots.state.exists()


@pytest.mark.slow
def test_an_undo_that_fails_ends_the_run_and_leaves_its_journal(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(journal: Journal) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    run = HostRun.open(roots=roots, testbed="bed")
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "undo", fail)
        with pytest.raises(OSError, match="Input/output error"):
            run.close()
    HostRun.open(roots=roots, testbed="bed").close()
    assert not roots.state.exists()  # its guardian has undone it


def test_whatever_fails_in_the_guardian_is_an_outcome(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(journal: Journal) -> None:
        raise RuntimeError("of the test")

    journal = Journal.create(roots, "r1")
    journal.close()
    monkeypatch.setattr(guardian, "undo_and_compare", fail)
    assert not guardian.undo_journal(journal.path)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_modules_left_loaded_on_purpose_are_no_difference(
    roots: HostRoots, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A modular kernel: the first run after a boot loads them, and their links come with them."""
    there: dict[str, Mapping[str, str]] = {"modules": {"vhost": "loaded"}, "links": {"lo": "up"}}
    monkeypatch.setattr(snapshot, "picture", lambda run: Snapshot(there))

    def undo(data: journal_file.UndoData) -> str:
        if fails:
            raise HostError("cannot be unloaded")
        return "left loaded"

    monkeypatch.setattr(kernel, "undo_modules", undo)
    journal = Journal.create(roots, "r1")
    take_picture(journal, roots.run)
    journal.intend("modules", "load", {"modules": ["gre", "ip_gre", "veth"]})
    names = ("vhost", "gre", "ip_gre", "veth", "of_others")
    there["modules"] = dict.fromkeys(names, "loaded")
    there["links"] = dict.fromkeys(("lo", "gre0", "gretap0", "erspan0", "gre1"), "up")
    report = undo_and_compare(journal)
    journal.close()
    others = ("links: gre1 is new (up)", "modules: of_others is new (loaded)")
    if fails:
        assert set(others) < set(report.differences or ())
        assert "modules: veth is new (loaded)" in (report.differences or ())
    else:
        assert report.differences == others
