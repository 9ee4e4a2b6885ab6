from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from vnetperf.host import linux, snapshot
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
from vnetperf.host.wait import wait_for


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


def test_a_daemon_that_nobody_waits_for_is_seen(roots: HostRoots, tmp_path: Path) -> None:
    before = snapshot.picture(roots.run)
    pid_file = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ >{pid_file}; exec sleep 300' & exit"
    subprocess.run(["sh", "-c", script], check=True)
    wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), 10, "the daemon")
    pid = int(pid_file.read_text())
    try:
        if Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0] != "1":
            pytest.skip("a subreaper of this session takes daemons in")
        found = snapshot.differences(before, roots.run)
        assert any(f"processes: {pid}@" in text and "sleep 300" in text for text in found)
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not linux.ProcessId.of(pid), 10, "its end")
    assert not any(f"processes: {pid}@" in t for t in snapshot.differences(before, roots.run))


def test_the_end_of_others_processes_is_no_difference(roots: HostRoots) -> None:
    areas = {"processes": {"1@1": "a service that ended"}}
    assert not any("1@1" in text for text in snapshot.differences(Snapshot(areas), roots.run))
