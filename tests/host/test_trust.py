"""What others could have written is not trusted: programs, journals, locks."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vnetperf.host.files import create_tree
from vnetperf.host.journal import Journal
from vnetperf.host.linux import python_argv
from vnetperf.host.locks import TestbedLock
from vnetperf.host.paths import HostRoots, cache_directory, make_private
from vnetperf.host.session import restore
from vnetperf.host.trust import refuse_untrusted, why_untrusted, why_untrusted_below
from vnetperf.model.errors import HostError, UntrustedProgramError

# Whom POSIX ACLs let write (Linux, include/uapi/linux/posix_acl_xattr.h).

OWNER, USER, GROUP_OWNER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
READ, WRITE = 4, 6
NOBODY = 65534


def give_acl(path: Path, *named: tuple[int, int, int], mask: int = WRITE) -> None:
    entries = [(OWNER, 6, 0), (GROUP_OWNER, READ, 0), (MASK, mask, 0), (OTHER, 0, 0), *named]
    packed = b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
    try:
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            pytest.skip("no ACLs on this file system")
        raise


@pytest.mark.parametrize(
    ("entry", "mask", "is_trusted"),
    [
        ((USER, WRITE, NOBODY), WRITE, False),
        ((GROUP, WRITE, NOBODY), WRITE, False),
        ((USER, WRITE, NOBODY), READ, True),  # the mask takes it away
        ((USER, READ, NOBODY), WRITE, True),
        ((USER, WRITE, 0), WRITE, True),
    ],
)
def test_whom_an_acl_lets_write(
    tmp_path: Path, entry: tuple[int, int, int], mask: int, is_trusted: bool
) -> None:
    file = tmp_path / "file"
    file.touch(0o640)
    give_acl(file, entry, mask=mask)
    assert (why_untrusted(file) == "") is is_trusted
    if os.geteuid() == 0:
        assert (why_untrusted(file, only_root=True) == "") is is_trusted
        assert (why_untrusted_below(tmp_path) == "") is is_trusted


# Where journals and locks are, only this user may have written.


def link_state(state: Path) -> None:
    moved = state.with_name("moved")
    state.rename(moved)
    state.symlink_to(moved)


def open_above(state: Path) -> None:
    state.parent.chmod(0o777)


def give_away(name: str) -> Callable[[Path], None]:
    def give(state: Path) -> None:
        if os.geteuid():
            pytest.skip("only root can give files to another user")
        os.chown(state / name, NOBODY, -1)

    return give


def open_up(name: str, mode: int) -> Callable[[Path], None]:
    return lambda state: (state / name).chmod(mode)


def link_journal(state: Path) -> None:
    journal = state / "journal/dead.jsonl"
    journal.rename(state.with_name("elsewhere"))
    journal.symlink_to(state.with_name("elsewhere"))


def pipe_journal(state: Path) -> None:
    (state / "journal/dead.jsonl").unlink()
    os.mkfifo(state / "journal/dead.jsonl")


ABOVE_JOURNALS = {
    "the state is another user's": give_away("."),
    "the state is for anybody": open_up(".", 0o777),
    "the state is for anybody, sticky": open_up(".", 0o1777),
    "the state is for a group": open_up(".", 0o770),
    "the state has an ACL": lambda state: give_acl(state, (USER, 7, NOBODY), mask=7),
    "the state is a link": link_state,
    "what is above it is for anybody": open_above,
    "the journals are another user's": give_away("journal"),
    "the journals are for a group": open_up("journal", 0o770),
    "the locks are another user's": give_away("lock"),
    "the locks are for anybody": open_up("lock", 0o777),
}
OF_ONE_JOURNAL = {
    "the journal is another user's": give_away("journal/dead.jsonl"),
    "the journal is for anybody": open_up("journal/dead.jsonl", 0o666),
    "the journal is for a group": open_up("journal/dead.jsonl", 0o660),
    "the journal has an ACL": lambda s: give_acl(s / "journal/dead.jsonl", (USER, 6, NOBODY)),
    "the journal is a link": link_journal,
    "the journal is a pipe": pipe_journal,
}


@pytest.fixture
def dead_run(tmp_path: Path) -> tuple[HostRoots, Path]:
    """The state with what a dead run has left: a directory that `restore` removes."""
    above = tmp_path / "above"
    above.mkdir()
    roots = HostRoots(state=above / "state", run=tmp_path / "run")
    make_private(roots.locks)
    left = tmp_path / "left"
    with Journal.create(roots, "dead") as journal:
        create_tree(journal, left)
    return roots, left


def test_what_a_dead_run_left_is_undone(dead_run: tuple[HostRoots, Path]) -> None:
    roots, left = dead_run
    assert restore(roots).complete
    assert not left.exists()


@pytest.mark.parametrize(
    "spoil",
    [*ABOVE_JOURNALS.values(), *OF_ONE_JOURNAL.values()],
    ids=[*ABOVE_JOURNALS, *OF_ONE_JOURNAL],
)
def test_nothing_is_undone_that_others_could_have_written(
    dead_run: tuple[HostRoots, Path], spoil: Callable[[Path], None]
) -> None:
    roots, left = dead_run
    spoil(roots.state)
    report = restore(roots)
    assert left.is_dir()
    assert not report.restored
    assert len(report.unreadable) == 1
    assert not report.complete


@pytest.mark.parametrize("spoil", ABOVE_JOURNALS.values(), ids=ABOVE_JOURNALS)
def test_no_run_begins_where_others_could_write_its_journal(
    dead_run: tuple[HostRoots, Path], spoil: Callable[[Path], None]
) -> None:
    roots, left = dead_run
    spoil(roots.state)
    with pytest.raises(HostError):
        Journal.create(roots, "new")
    with pytest.raises(HostError):
        TestbedLock.acquire(roots, "testbed", "new")
    assert left.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda cache: os.chown(cache, NOBODY, -1),
        lambda cache: cache.chmod(0o777),
        lambda cache: os.chown(cache.parent, NOBODY, -1),
        lambda cache: give_acl(cache, (USER, 7, NOBODY), mask=7),
    ],
    ids=["owner", "mode", "owner above", "ACL"],
)
def test_root_builds_nothing_where_others_could_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    cache = tmp_path / "above/cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert cache_directory() == cache / "vnetperf"
    cache.mkdir(parents=True)
    assert cache_directory() == cache / "vnetperf"
    spoil(cache)
    assert cache_directory() == Path(pwd.getpwuid(0).pw_dir) / ".cache/vnetperf"


def test_a_lock_that_is_a_link_is_not_taken(tmp_path: Path, roots: HostRoots) -> None:
    make_private(roots.locks)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    roots.lock("testbed").symlink_to(precious)
    with pytest.raises(HostError, match="no regular file"):
        TestbedLock.acquire(roots, "testbed", "new")
    assert precious.read_text() == "mine"


# What root starts, however it is started. An interpreter's hooks stay, so each try has its own.

_START = """
import os, subprocess, sys
sys.path[:0] = sys.argv[1].split(":")
from vnetperf.host.programs import trust_programs
from vnetperf.model.errors import HostError
trust_programs()
try:
    {start}
except HostError as error:
    print("refused", error.what)
"""
_BY = {
    "a name": "subprocess.run(['mine'], check=False)",
    "a path": "subprocess.Popen([sys.argv[2] + '/mine']).wait()",
    "exec": "os.execvp('mine', ['mine'])",
    "posix_spawn": "os.waitpid(os.posix_spawn(sys.argv[2] + '/mine', ['m'], os.environ), 0)",
    "another PATH": "subprocess.run(['mine'], env={'PATH': '/none:' + sys.argv[2]}, check=False)",
    "env": "subprocess.run(['env', 'A=b', 'mine'], check=False)",
    "a shell": "subprocess.run(['sh', '-c', 'exec \"$@\"', 'sh', 'mine'], check=False)",
    "this Python": "subprocess.run([sys.executable, '-c', 'import os, sys; "
    "os.execvp(sys.argv[1], sys.argv[1:])', sys.argv[2] + '/mine'], check=False)",
}


def started_by_root(start: str, folder: Path) -> str:
    script = _START.format(start=start)
    path = f"{folder}:{os.environ['PATH']}"
    argv = [sys.executable, "-c", script, ":".join(sys.path), str(folder)]
    done = subprocess.run(
        argv, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    if os.geteuid():
        pytest.skip("only root can give files to another user")
    program = tmp_path / "folder/mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    return program


def give_away_behind_a_link(program: Path) -> None:
    theirs = program.parent.parent / "theirs"
    program.rename(theirs)
    os.chown(theirs, NOBODY, -1)
    program.symlink_to(theirs)


def give_interpreter_away(program: Path, line: str = "#!{}") -> None:
    theirs = program.with_name("their-sh")
    shutil.copy("/bin/sh", theirs)
    os.chown(theirs, NOBODY, -1)
    program.write_text(f"{line.format(theirs)}\necho started\n")


SPOILT: dict[str, Callable[[Path], object]] = {
    "owner": lambda program: os.chown(program, NOBODY, -1),
    "mode": lambda program: program.chmod(0o757),
    "behind a link": give_away_behind_a_link,
    "ACL": lambda program: give_acl(program, (USER, 7, NOBODY), mask=7),
    "interpreter": give_interpreter_away,
    "interpreter by env": lambda program: give_interpreter_away(program, "#!/usr/bin/env -S {} -u"),
}


@pytest.mark.slow
@pytest.mark.parametrize("start", _BY.values(), ids=_BY)
def test_root_starts_no_program_of_others_whoever_starts_it(mine: Path, start: str) -> None:
    assert started_by_root(start, mine.parent) == "started\n"
    os.chown(mine, NOBODY, -1)
    said = started_by_root(start, mine.parent)
    assert said.startswith(f"refused {mine} ")
    assert str(NOBODY) in said
    assert "started" not in said


def test_processes_of_ours_start_none_either(mine: Path) -> None:
    """Guardian, libvirt's and Pktgen's process: modules of ours, each in a Python of its own."""
    code = f"import subprocess; subprocess.run(['{mine}'])"
    argv = python_argv("timeit", "-n1", "-r1", code)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "started" in done.stdout
    os.chown(mine, NOBODY, -1)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "started" not in done.stdout
    assert f"{mine} is not run as root" in done.stderr + done.stdout


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_makes_a_program_one_of_others(mine: Path, spoil: Callable[[Path], object]) -> None:
    refuse_untrusted([str(mine)])
    spoil(mine)
    with pytest.raises(UntrustedProgramError) as refused:
        refuse_untrusted([str(mine)])
    assert str(mine) in refused.value.what
    with pytest.raises(OSError, match="not run as root"):  # as one that cannot be started
        refuse_untrusted(["setpriv", "--pdeathsig", "KILL", "--", str(mine), "-v"])


def test_a_program_is_looked_for_where_env_has_it_looked_for(mine: Path) -> None:
    line = ["setpriv", "--", "env", "-i", "A=b", f"PATH=/none:{mine.parent}", mine.name]
    refuse_untrusted(line)
    os.chown(mine, NOBODY, -1)
    with pytest.raises(UntrustedProgramError, match=str(mine)):
        refuse_untrusted(line)
    refuse_untrusted(["setpriv", "--", "env", "-i", "A=b", mine.name])  # not there


def test_what_a_program_is_given_is_not_taken_for_a_program(mine: Path) -> None:
    os.chown(mine, NOBODY, -1)
    image = str(mine)  # executable by its mode, as all is on some file systems
    refuse_untrusted(["/bin/cat", image])
    refuse_untrusted(["sh", "-c", 'exec "$@"', "sh", "/bin/cat", image])
    refuse_untrusted(["sh", "-c", "a/b\nc", "", "x" * 5000])
    refuse_untrusted(["there-is-no-such-program"])
