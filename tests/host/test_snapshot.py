from __future__ import annotations

import shutil
import subprocess

import pytest

from vnetperf.host import snapshot
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.snapshot import (
    Snapshot,
    compare_snapshots,
    read_last,
    take_picture,
    take_snapshot,
    undo_and_compare,
)


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
        assert f"processes: {daemon.pid} is new (sleep)" in snapshot.differences(before, roots.run)
        found = snapshot.differences(before, roots.run)
        assert not any(f"processes: {other.pid}" in text for text in found)
    finally:
        for process in (daemon, other):
            process.kill()
            process.wait()
    assert not any("processes:" in text for text in snapshot.differences(before, roots.run))
