"""Files of a run: where they are and how they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vnetperf.host import files, guardian, linux
from vnetperf.host.files import create_tree, mounts_below
from vnetperf.host.journal import Journal
from vnetperf.host.nic import usage
from vnetperf.host.paths import HostRoots, list_files, make_private
from vnetperf.host.session import RunDir
from vnetperf.model.errors import HostError
from vnetperf.virt import session_server


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


def test_a_directory_is_made_private_and_accepted_again(tmp_path: Path) -> None:
    directory = tmp_path / "a/b"
    make_private(directory)
    make_private(directory)
    assert {p.stat().st_mode & 0o777 for p in (directory, directory.parent)} == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_directory_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(HostError, match="written to by others") as caught:
        make_private(tmp_path)
    assert "remove it" in caught.value.cure


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(HostError, match="no directory"):
            make_private(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(HostError, match="belongs to user 65534"):
        make_private(tmp_path)


def test_no_run_directory_below_what_others_can_write_to(
    journal: Journal, roots: HostRoots
) -> None:
    roots.run.mkdir()
    roots.run.chmod(0o777)
    with pytest.raises(HostError, match="cannot be trusted"):
        RunDir.create(journal, roots)


def test_a_directory_that_another_run_removes_while_it_is_listed_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to Python 3.12 glob() ends then; from 3.13 on it finds nothing."""

    def vanish(path: Path, _: str) -> None:
        raise FileNotFoundError(path)

    (tmp_path / "a.lock").touch()
    assert [path.name for path in list_files(tmp_path, "*.lock")] == ["a.lock"]
    monkeypatch.setattr(Path, "glob", vanish)
    assert list_files(tmp_path, "*.lock") == []


#: What any user may call a directory, and mount a file system at.
ODD = os.fsdecode(b"/home/u/\xff\x85\r") + "none\u2003{evil}\u2003cgroup2\u2003rw"


def test_a_mount_point_of_any_name_stops_nothing_and_passes_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    own, evil, netns = tmp_path / "own", tmp_path / "evil", tmp_path / "net \u20ac"
    for folder in (own, evil, netns):
        folder.mkdir()
    odd = ODD.format(evil=evil)
    blank = str(netns).replace(" ", "\\040")
    table = f"u {odd} fuse rw 0 0\ncgroup2 {own} cgroup2 rw 0 0\nnone {blank} hugetlbfs rw 0 0\n"
    (tmp_path / "self/mounts").write_bytes(os.fsencode(table))
    table = f"1 0 0:1 / {odd} rw - fuse u rw\n2 0 0:2 net:[7] {blank} rw - nsfs nsfs rw\n"
    (tmp_path / "self/mountinfo").write_bytes(os.fsencode(table))
    for module in (usage, session_server):
        monkeypatch.setattr(module, "PROC", tmp_path)
    monkeypatch.setattr(files, "PROC_MOUNTS", tmp_path / "self/mountinfo")
    assert linux.cgroup_root(tmp_path / "self/mounts") == own
    guardian.leave_groups(mounts=tmp_path / "self/mounts")
    assert (own / "cgroup.procs").read_text() == "0"
    assert not list(evil.iterdir())
    assert [*usage.find_other_namespaces(0)] == [netns]
    assert session_server.find_hugepage_mounts() == {netns: "rw"}
    assert mounts_below(Path("/home/u")) == [odd]
    assert mounts_below(tmp_path) == [str(netns)]


def test_a_process_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "12/fd").mkdir(parents=True)
    (tmp_path / "12/comm").write_bytes(b"\xff\n")
    (tmp_path / "12/fd/7").symlink_to("/dev/vfio/5")
    monkeypatch.setattr(usage, "PROC", tmp_path)
    assert usage.find_holder(["/dev/vfio/5"]) == "process 12 (\ufffd)"
    assert usage._find_sockets(["sshd"]) == set()
