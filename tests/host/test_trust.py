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
from vnetperf.host.trust import explain_distrust, explain_distrust_below, refuse_untrusted
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
    assert (explain_distrust(file) == "") is is_trusted
    if os.geteuid() == 0:
        assert (explain_distrust(file, only_root=True) == "") is is_trusted
        assert (explain_distrust_below(tmp_path) == "") is is_trusted


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
    "a relative folder": "subprocess.run(['mine'], env={'PATH': 'folder'}, "
    "cwd=sys.argv[2] + '/..', check=False)",
    "the empty folder": "subprocess.run(['mine'], env={'PATH': ''}, cwd=sys.argv[2], check=False)",
    "a shell's text": "subprocess.run(sys.argv[2] + '/mine x', shell=True, check=False)",
    "system": "os.system('A=b ' + sys.argv[2] + '/mine')",
    "an open file": "file = os.open(sys.argv[2] + '/mine', 0); os.set_inheritable(file, True); "
    "os.execve(file, ['m'], {})",
    "a shell's script": "subprocess.run(['sh', sys.argv[2] + '/mine'], check=False)",
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


# What is looked at of a command line: refused once the program is another user's, not before.

STARTS = {
    "shell text": ["sh", "-c", "{mine} x"],
    "shell text, login": ["bash", "-lc", "A=b mine"],
    "exec in a text": ["sh", "-ec", "ulimit -n 64; exec mine"],
    "exec on another line": ["sh", "-c", "# it's\nulimit -n 64\nexec >log 2>&1\nexec mine"],
    "a starter in a text": ["sh", "-c", 'exec timeout 5 env A=b "$@"', "sh", "mine"],
    "an argument of a text": ["sh", "-ec", '"$0" -C; exec "$0" <"$1"', "mine", "file"],
    "a text that shifts": ["sh", "-c", 'x=$2\nshift 2\n"$@"', "sh", "a", "b", "mine"],
    "PATH of a text": ["env", "-i", "sh", "-c", "export PATH={folder}; exec mine"],
    "plain script": ["dash", "-e", "{plain}"],
    "split by env": ["env", "-S", "A=b mine a"],
    "split by env, attached": ["env", "-iSPATH={folder} mine a"],
    "directory of env": ["env", "--chdir", "{folder}", "./mine"],
    "starters behind each other": ["setsid", "-w", "nice", "-n", "5", "stdbuf", "-oL", "mine"],
    "timeout": ["timeout", "-k", "1", "--signal=INT", "5", "mine"],
    "taskset": ["taskset", "-c", "0", "mine"],
    "setpriv": ["setpriv", "--reuid", "0", "--clear-groups", "--pdeathsig", "KILL", "--", "mine"],
    "unshare": ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--", "mine"],
    "nsenter": ["nsenter", "-n/run/mine", "-t", "1", "mine"],
    "namespace": ["ip", "netns", "exec", "blue", "mine"],
    "all namespaces": ["ip", "-all", "net", "e", "mine"],
    "vrf": ["ip", "vrf", "exec", "blue", "mine"],
    "script": ["script", "-qec", "exec mine", "/dev/null"],
    "our Python's script": [sys.executable, "-X", "dev", "-I", "{plain}"],
    "becomes another": [
        *(sys.executable, "-I", "-S", "-c", "import os,sys\nos.execvp(sys.argv[2], sys.argv[2:])"),
        *("a", "mine"),
    ],
}
NO_STARTS = {
    "words of ip": ["ip", "mine", "show", "lo"],
    "namespace of a name": ["ip", "netns", "exec", "mine", "cat"],
    "data behind a name": ["timeout", "5", "cat", "{mine}"],
    "data behind starters": ["env", "A=b", "nice", "cat", "mine", "{mine}"],
    "value of an option": ["timeout", "-k", "mine", "5", "cat"],
    "directory of env": ["env", "-C", "mine", "cat"],
    "module's data": [sys.executable, "-m", "compileall", "{mine}"],
    "module's data, one word": [sys.executable, "-Imcompileall", "{mine}"],
    "code's data": [sys.executable, "-Ic", "pass", "{mine}", "mine"],
    "script's data": [sys.executable, "{ours}", "{mine}"],
    "shell script's data": ["sh", "{ours}", "{mine}", "mine"],
    "text's data": ["sh", "-c", 'for f in "$@"; do cat "$f"; done', "mine", "{mine}"],
    "words of a text": ["sh", "-c", "echo mine; cat {mine} 'mine' # mine"],
    "a function": ["sh", "-c", "mine() { echo; }; mine"],
    "another user's start": ["setpriv", "--reuid", "65534", "--clear-groups", "{mine}"],
    "another PATH": ["sh", "-c", "PATH=/none; exec mine"],
    "none in env -i": ["env", "-i", "mine"],
    "a file to write": ["script", "-qc", "echo", "{mine}"],
    "a process": ["taskset", "-cp", "0", "mine"],
    "nothing": ["sh"],
    "an open quote": ["sh", "-c", "echo 'mine"],
}


def refuses(argv: list[str], mine: Path) -> bool:
    line = list(argv)
    for name in ("mine", "plain", "ours", "folder"):
        path = mine.parent if name == "folder" else mine.with_name(name)
        line = [word.replace(f"{{{name}}}", str(path)) for word in line]
    environment = {"PATH": f"{mine.parent}:{os.environ['PATH']}"}
    try:
        refuse_untrusted(line, environment, str(mine.parent))
    except UntrustedProgramError:
        return True
    return False


@pytest.fixture
def theirs(mine: Path) -> Path:
    """A program, and a script that is not executable, of another user; beside them one of root."""
    for name in ("plain", "ours"):
        mine.with_name(name).write_text("")
    return mine


def give_both(mine: Path) -> None:
    os.chown(mine, NOBODY, -1)
    os.chown(mine.with_name("plain"), NOBODY, -1)


@pytest.mark.parametrize("argv", STARTS.values(), ids=STARTS)
def test_each_program_that_a_command_line_starts_is_looked_at(
    theirs: Path, argv: list[str]
) -> None:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]}")
    assert not refuses(argv, theirs)
    give_both(theirs)
    assert refuses(argv, theirs)


@pytest.mark.parametrize("argv", NO_STARTS.values(), ids=NO_STARTS)
def test_words_that_start_nothing_are_not_refused(theirs: Path, argv: list[str]) -> None:
    give_both(theirs)
    assert not refuses(argv, theirs)


def test_a_link_of_another_user_to_our_python_is_refused(mine: Path) -> None:
    mine.unlink()
    mine.symlink_to(os.path.realpath(sys.executable))
    refuse_untrusted([str(mine), "-c", "pass"])
    os.chown(mine, NOBODY, -1, follow_symlinks=False)
    with pytest.raises(UntrustedProgramError, match=str(mine)):
        refuse_untrusted([str(mine), "-c", "pass"])


def test_env_in_a_first_line_looks_where_the_child_does(mine: Path) -> None:
    mine.write_text("#!/usr/bin/env their-sh\n")
    other = mine.with_name("other")
    other.mkdir()
    shutil.copy("/bin/sh", other / "their-sh")
    environment = {"PATH": f"{other}:/usr/bin:/bin"}
    refuse_untrusted([str(mine)], environment)
    os.chown(other / "their-sh", NOBODY, -1)  # after it was found trusted
    with pytest.raises(UntrustedProgramError, match="their-sh"):
        refuse_untrusted([str(mine)], environment)
    refuse_untrusted([str(mine)], {"PATH": "/usr/bin:/bin"})


def test_an_interpreter_given_away_later_is_refused(mine: Path) -> None:
    sh = mine.with_name("their-sh")
    shutil.copy("/bin/sh", sh)
    mine.write_text(f"#!{sh}\necho started\n")
    refuse_untrusted([str(mine)])
    os.chown(sh, NOBODY, -1)
    with pytest.raises(UntrustedProgramError, match="their-sh"):
        refuse_untrusted([str(mine)])


@pytest.mark.parametrize("path", [None, ""])
def test_a_process_without_a_path_starts_programs(path: str | None) -> None:
    script = _START.format(
        start="subprocess.run(['/bin/echo', 'started'], env=os.environ, check=True); "
        "subprocess.run(['/bin/echo', 'started'], check=True); "
        "os.execve(os.open('/bin/echo', 0), ['echo', 'started'], {})"
    ).replace("trust_programs()", "__import__('vnetperf.host.trust').host.trust.watch_starts()")
    environment = {} if path is None else {"PATH": path}
    argv = [sys.executable, "-c", script, ":".join(sys.path)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("started\n" * 3, "")


def test_a_refusal_has_what_an_error_of_the_system_has(mine: Path) -> None:
    os.chown(mine, NOBODY, -1)
    with pytest.raises(OSError, match="not run as root") as refused:
        refuse_untrusted([str(mine)])
    error = refused.value
    assert (error.errno, error.filename) == (errno.EACCES, str(mine))
    assert f"{mine} belongs to user {NOBODY}" in str(error.strerror)


def test_who_reports_the_reason_of_the_system_reports_a_refusal(mine: Path, tmp_path: Path) -> None:
    os.chown(mine, NOBODY, -1)
    config = tmp_path / "config"
    config.touch(0o600)
    script = _START.format(
        start="from vnetperf.host.cluster import Cluster; "
        f"Cluster(sys.argv[2] + '/mine', {str(config)!r}, 'a', 'b').request('r', 'get', '/x')"
    ).replace("error.what", "error")
    argv = [sys.executable, "-c", script, ":".join(sys.path), str(mine.parent)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"refused {mine}: cannot be started: ")
    assert f"{mine} belongs to user {NOBODY}" in done.stdout
