from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.host.files import create_tree
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.session import RunDir
from vnetperf.model.errors import HostError


def test_what_is_there_is_never_taken(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("precious")
    with pytest.raises(HostError, match="not ours"):
        create_tree(journal, tmp_path / "users")
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
    journal.undo()
    assert not roots.run.exists()


def test_a_new_folder_of_the_run_is_none_that_others_left(
    journal: Journal, roots: HostRoots, tmp_path: Path
) -> None:
    rundir = RunDir.create(journal, roots)
    first = rundir.new_subdir("lv")
    (rundir.path / "lv2").symlink_to(tmp_path)
    assert first == rundir.path / "lv"
    assert rundir.new_subdir("lv") == rundir.path / "lv3"


def test_a_run_root_that_others_use_stays(journal: Journal, roots: HostRoots) -> None:
    RunDir.create(journal, roots)
    (roots.run / "other").mkdir()
    journal.undo()
    assert (roots.run / "other").is_dir()
