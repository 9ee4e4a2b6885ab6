from __future__ import annotations

from vnetperf.host.paths import HostRoots
from vnetperf.testing.snapshot import Snapshot, compare_snapshots, take_snapshot


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
