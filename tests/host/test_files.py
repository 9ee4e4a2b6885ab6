from __future__ import annotations

import os
from pathlib import Path

import pytest

from vnetperf.host import files
from vnetperf.host.files import create_file, create_tree, replace_file
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import RunDir
from vnetperf.model.errors import HostError


def test_a_replaced_file_comes_back_with_mode_and_time(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_000, 1_000_000_000))
    before = path.stat()
    replace_file(journal, path, "new")
    assert path.read_text() == "new"
    journal.undo()
    after = path.stat()
    assert path.read_text() == "old"
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_what_is_there_is_never_taken(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("precious")
    for create in (lambda p: create_file(journal, p, ""), lambda p: create_tree(journal, p)):
        with pytest.raises(HostError, match="not ours"):
            create(tmp_path / "users")
    journal.undo()
    assert (tmp_path / "users").read_text() == "precious"


def test_a_link_in_a_tree_is_not_followed(journal: Journal, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    create_tree(journal, tmp_path / "tree")
    (tmp_path / "tree/link").symlink_to(precious)
    journal.undo()
    assert (precious / "file").exists()


def test_run_directory(journal: Journal, roots: HostRoots) -> None:
    rundir = RunDir.create(journal, roots)
    assert rundir.path.stat().st_mode & 0o777 == 0o700
    (rundir.subdir("ovs") / "db").write_text("x")
    assert rundir.logs.is_dir()
    with pytest.raises(HostError, match="107 bytes"):
        rundir.socket("x" * 108)
    journal.undo()
    assert not roots.run.exists()


def test_a_run_root_that_others_use_stays(journal: Journal, roots: HostRoots) -> None:
    RunDir.create(journal, roots)
    (roots.run / "other").mkdir()
    journal.undo()
    assert (roots.run / "other").is_dir()


@pytest.mark.real
def test_a_mount_goes_before_its_directory(journal: Journal, roots: HostRoots) -> None:
    rundir = RunDir.create(journal, roots)
    target = rundir.subdir("huge")
    files.mount_hugetlbfs(journal, target, 2048)
    assert "hugetlbfs" in Path("/proc/self/mounts").read_text()
    assert f"{target} " in Path("/proc/self/mounts").read_text()
    with pytest.raises(HostError, match="not yet a mount point"):
        files.mount_hugetlbfs(journal, target, 2048)
    held = (target / "open").open("w")  # busy: it is detached
    assert journal.undo().complete
    held.close()
    assert f"{target} " not in Path("/proc/self/mounts").read_text()
    assert not roots.run.exists()
