"""Programs that a command line starts: its first, and those that a starter or a shell becomes.

Options of starters (env, timeout, sh ...) are read as these read them, so that what is only data of
a program is not taken for one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class StartPlace:
    """Where names and paths of programs are looked up.

    Args:
        search: Folders as PATH has them; relative ones and the empty one are below `directory`.
        directory: Directory that the program starts in, absolute.
    """

    search: str
    directory: str

    @property
    def folders(self) -> str:
        """PATH with absolute folders only."""
        parts = self.search.split(os.pathsep)
        return os.pathsep.join(os.path.join(self.directory, part) for part in parts)  # noqa: PTH118 - "" is one

    def find(self, word: str) -> str:
        """The file that would be executed; "" where there is none."""
        if "/" not in word:
            return shutil.which(word, path=self.folders) or "" if word else ""
        path = self.file(word)
        return path if path and os.access(path, os.X_OK) else ""

    def file(self, word: str) -> str:
        """The regular file of a path, which may be read without being executable; or ""."""
        path = os.path.join(self.directory, word)  # noqa: PTH118 - not every word is a path
        return os.path.abspath(path) if os.path.isfile(path) else ""  # noqa: PTH100, PTH113 - as above


@dataclass(frozen=True)
class _Starter:
    """How a program that becomes another one reads its options.

    Args:
        letters: Short options that take a value.
        names: Long options that take one as the next word.
        operands: How many words stand before the program.
        assigns: Whether variables may stand before the program.
        ends: Options with which the program is in another root directory, or there is none.
        attached: Short options that may have a value attached.
    """

    letters: str = ""
    names: str = ""
    operands: int = 0
    assigns: bool = False
    ends: str = ""
    attached: str = ""


_MPI = _Starter(
    names="np n N c x H host hostfile machinefile default-hostfile add-host map-by bind-to rank-by "
    "prefix wdir wd path npernode npersocket output output-filename timeout cpu-set cpu-list "
    "rankfile rf slot-list display personality stdin launch-agent tune am runtime-options dvm "
    "report-uri ompi-server preload-files set-cwd-to-session-dir app max-restarts"
)
_TWO_VALUES = frozenset(("mca", "gmca", "omca", "prtemca", "pmixmca"))
_STARTERS: Mapping[str, _Starter] = {
    "chrt": _Starter("TPD", "sched-runtime sched-period sched-deadline", 1, ends="-p --pid"),
    "env": _Starter("uCSa", "unset chdir split-string argv0", assigns=True),
    "ionice": _Starter("cnpPu", "class classdata pid pgid uid"),
    "mpirun": _MPI,
    "nice": _Starter("n", "adjustment"),
    "nohup": _Starter(),
    "nsenter": _Starter(
        "tSGN",
        "target setuid setgid net-socket",
        ends="-m --mount -r --root -a --all",
        attached="muinpCUTrwW",
    ),
    "numactl": _Starter(
        "icNmpPCwSfLoMI",
        "interleave weighted-interleave cpubind cpunodebind membind preferred preferred-many "
        "physcpubind shm file length offset shmmode shmid",
    ),
    "orterun": _MPI,
    "perf": _Starter(
        "eFcpturoCmGDjkIMx",
        "event filter freq count pid tid uid realtime output cpu mmap-pages cgroup delay "
        "call-graph branch-filter clockid buildid-dir user-regs intr-regs aio affinity mmap-flush "
        "switch-output control repeat interval-print interval-count field-separator metrics "
        "timeout input comm symfs sort pages duration expr max-stack min-stack",
    ),
    "prterun": _MPI,
    "setpriv": _Starter(
        "",
        "ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups securebits "
        "pdeathsig ptracer selinux-label apparmor-profile landlock-access landlock-rule "
        "seccomp-filter",
    ),
    "setsid": _Starter(),
    "stdbuf": _Starter("ioe", "input output error"),
    "strace": _Starter(
        "abeEIopPsSuUXO",
        "attach columns detach-on interruptible output string-limit trace-path user env summary",
    ),
    "sudo": _Starter(
        "ugpCDhrtTRU",
        "user group prompt close-from chdir host role type command-timeout chroot other-user",
        assigns=True,
        ends="-e --edit -l --list -v -R --chroot",
    ),
    "systemd-run": _Starter(
        "pHMuE",
        "property unit setenv host machine description slice service-type uid gid nice "
        "working-directory on-active on-boot on-startup on-unit-active on-unit-inactive "
        "on-calendar timer-property path-property socket-property background",
        ends="-H --host -M --machine",
    ),
    "taskset": _Starter(operands=1, ends="-p --pid"),
    "timeout": _Starter("ks", "kill-after signal", 1),
    "unshare": _Starter(
        "SGRwl",
        "setuid setgid root wd map-user map-group map-users map-groups propagation setgroups "
        "monotonic boottime load-interp",
        ends="-R --root",
    ),
    "xargs": _Starter(
        "adEILnPs",
        "arg-file delimiter max-lines max-args max-chars max-procs process-slot-var",
        attached="eil",
    ),
}
#: Options by which a starter becomes another user, whose programs are not root's to refuse.
_OTHER_USER = {"setpriv": ("--reuid",), "sudo": ("-u", "--user"), "systemd-run": ("--uid",)} | {
    "nsenter": ("-S", "--setuid"),
    "unshare": ("-S", "--setuid"),
    "strace": ("-u", "--user"),
}
_SHELLS = frozenset(("ash", "bash", "dash", "ksh", "sh", "zsh"))
#: Where no program is: for what cannot be told from a command line.
_UNKNOWN = "/dev/null"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
#: How code given to Python becomes a program that is in its arguments.
_BECOMES = re.compile(r"\bos\.execvp?e?\(\s*sys\.argv\[(\d+)\]")
#: Words that a shell does not look for on PATH, and those behind which a command may stand.
_BUILTINS = frozenset(
    (
        *(".", ":", "[", "[[", "alias", "bg", "bind", "break", "caller", "case", "cd", "compgen"),
        *("complete", "continue", "declare", "dirs", "disown", "echo", "enable", "esac", "eval"),
        *("exit", "export", "false", "fc", "fg", "fi", "for", "function", "getopts", "hash"),
        *("help", "history", "in", "jobs", "kill", "let", "local", "logout", "mapfile", "popd"),
        *("printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "select", "set"),
        *("shift", "shopt", "source", "suspend", "test", "times", "trap", "true", "type"),
        *("typeset", "ulimit", "umask", "unalias", "unset", "wait", "done", "}"),
    )
)
_BEFORE_COMMANDS = frozenset(
    (
        *("!", "{", "builtin", "command", "do", "elif", "else", "exec", "if", "then", "time"),
        *("until", "while"),
    )
)


def programs_of(argv: Sequence[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Absolute paths of the programs and scripts that a command line starts, as far as it says.

    Each comes with where its own names are looked up; its last words are no program of it.
    """
    if not argv or not (path := place.find(argv[0])):
        return
    is_ours = os.path.realpath(path) == os.path.realpath(sys.executable)
    # Under another name beside it, it is as little another's; a link elsewhere may be.
    if not is_ours or Path(path).parent != Path(sys.executable).parent:
        yield path, place
    if is_ours:
        yield from _by_python(list(argv[1:]), place)
    else:
        yield from _started_by(Path(path).name, list(argv[1:]), place)


def _started_by(name: str, rest: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    name = name.partition(".")[0]  # mpirun.openmpi
    if name == "busybox" and rest:
        yield from _started_by(rest[0], rest[1:], place)
    elif name in _SHELLS:
        yield from _by_shell(rest, place)
    elif name == "ip":
        yield from programs_of(_behind_exec(rest), place)
    elif name == "script":
        yield from _by_script(rest, place)
    elif name in _STARTERS:
        yield from _by_starter(name, rest, place)


def _by_python(rest: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Its script; of code that becomes another program, that one."""
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--":
            break
        if option.startswith("--"):
            del rest[: option == "--check-hash-based-pycs"]
            continue
        found = re.match(r"-[^cmWX]*([cmWX])(.*)", option, re.DOTALL)
        if found is None:
            continue
        kind, value = found.groups()
        if kind in "WX":
            del rest[: not value]
            continue
        code = value or (rest.pop(0) if rest else "")
        if kind == "c" and (becomes := _BECOMES.search(code)):
            yield from programs_of(rest[int(becomes[1]) - 1 :], place)
        return
    if rest and (path := place.file(rest[0])):
        yield path, place


def _by_starter(name: str, rest: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    starter = _STARTERS[name]
    if name == "perf":
        rest = rest[1:] if rest and rest[0] in {"record", "stat", "trace"} else []
    if starter is _MPI and ":" in rest:
        yield from _by_starter(name, rest[rest.index(":") + 1 :], place)
        rest = rest[: rest.index(":")]
    for option, value in (_mpi_options if starter is _MPI else _options)(starter, rest):
        is_other_user = option in _OTHER_USER.get(name, ()) and value not in {"0", "#0", "root"}
        if is_other_user or option in starter.ends.split():
            return
        if name == "env" and option in {"-S", "--split-string"}:
            rest[:0] = _words(value or "")
        place = _changed(name, option, value, place)
    while starter.assigns and rest and _ASSIGNMENT.match(rest[0]):
        key, _, value = rest.pop(0).partition("=")
        place = replace(place, search=value) if key == "PATH" else place
    yield from programs_of(rest[starter.operands :], place)


def _options(starter: _Starter, rest: list[str]) -> Iterator[tuple[str, str | None]]:
    """Options before a program, with their values, each taken from the words as it is read."""
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            return
        if word == "-":
            yield word, None
        elif word.startswith("--"):
            option, equals, given = word.partition("=")
            if equals:
                yield option, given
            else:
                takes = option[2:] in starter.names.split()
                yield option, rest.pop(0) if takes and rest else None
        else:
            for number, letter in enumerate(word[1:], 2):
                takes = letter in starter.letters
                value = word[number:] or (rest.pop(0) if rest else "") if takes else None
                yield f"-{letter}", value
                if takes or letter in starter.attached:
                    break


def _mpi_options(starter: _Starter, rest: list[str]) -> Iterator[tuple[str, str | None]]:
    """As `_options`, of Open MPI: long ones may have one dash, and some have two values."""
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        name = option.lstrip("-")
        del rest[: 2 if name in _TWO_VALUES else name in starter.names.split()]
        yield option, None


def _changed(name: str, option: str, value: str | None, place: StartPlace) -> StartPlace:
    """Where programs are looked up behind an option of a starter."""
    if name == "env" and (
        option in {"-", "-i", "--ignore-environment"}
        or (option in {"-u", "--unset"} and value == "PATH")
    ):
        return replace(place, search=os.defpath)
    directory = {"env": ("-C", "--chdir"), "sudo": ("-D", "--chdir"), "unshare": ("-w", "--wd")}
    if value and option in directory.get(name, ()):
        # Not resolved: links are looked at later.
        return replace(place, directory=os.path.join(place.directory, value))  # noqa: PTH118
    return place


def _behind_exec(rest: list[str]) -> list[str]:
    """What `ip netns exec NAME` and `ip vrf exec NAME` start; all words may be shortened."""
    every = False
    while rest and rest[0].startswith("-"):
        option = rest.pop(0).lstrip("-")
        every = every or option in {"a", "all"}
        valued = {"n", "netns", "b", "batch", "f", "family", "rc", "rcvbuf"}
        del rest[: option in valued or option.startswith("l")]
    if len(rest) < 3 or not "exec".startswith(rest[1]):
        return []
    if len(rest[0]) >= 3 and "netns".startswith(rest[0]):
        return rest[2 if every else 3 :]
    return rest[3:] if len(rest[0]) >= 2 and "vrf".startswith(rest[0]) else []


def _by_script(rest: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Commands that `script` has a shell run."""
    while rest:
        option = rest.pop(0)
        if option == "--":
            yield from programs_of(rest, place)
            return
        if option.startswith("--command"):
            value = option.partition("=")[2] or (rest.pop(0) if rest else "")
            yield from _by_text(value, [], place)
        elif re.match(r"-[^-cIOBmTEo]*c", option):
            value = option.partition("c")[2] or (rest.pop(0) if rest else "")
            yield from _by_text(value, [], place)


def _by_shell(rest: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Its script, or what the text of its -c starts."""
    has_text = from_input = False
    while rest and rest[0][:1] in {"-", "+"}:
        option = rest.pop(0)
        if option in {"-", "--"}:
            break
        if option.startswith("--"):
            del rest[: option in {"--rcfile", "--init-file"}]
            continue
        has_text = has_text or "c" in option[1:]
        from_input = from_input or "s" in option[1:]
        del rest[: option[-1] in "oO"]
    if has_text:
        yield from _by_text(rest[0] if rest else "", rest[1:], place)
    elif rest and not from_input and (path := place.file(rest[0]) or place.find(rest[0])):
        yield path, place


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _by_text(
    text: str, arguments: list[str], place: StartPlace
) -> Iterator[tuple[str, StartPlace]]:
    """The first command of a shell's text, each behind `exec`, and each that is an argument's."""
    for number, command in enumerate(_commands(text)):
        words, is_looked_at, here = list(command), number == 0, place
        while words and (words[0] in _BEFORE_COMMANDS or _ASSIGNMENT.match(words[0])):
            word = words.pop(0)
            here = _with_path(word, here)
            is_looked_at = is_looked_at or word == "exec"
            while word in {"exec", "command", "time"} and words and words[0].startswith("-"):
                del words[: 2 if words[0] == "-a" else 1]
        if not words or words[0] == "export":
            for word in command:  # for all that follows
                place = _with_path(word, place)
        elif words[0] in {"cd", "pushd"}:
            place = replace(place, directory=_UNKNOWN)
        elif words[0] == "shift":
            arguments = (
                arguments[:1]
                + arguments[1 + (int(words[1]) if words[1:] and words[1].isdecimal() else 1) :]
            )
        given = [_given(word, arguments) for word in words]
        is_looked_at = is_looked_at or given[:1] not in ([], [None])
        line = [w for word, are in zip(words, given, strict=True) for w in are or [word]]
        if is_looked_at and line and line[0] not in _BUILTINS and not set("$`*?") & set(line[0]):
            yield from programs_of(line, here)


def _with_path(word: str, place: StartPlace) -> StartPlace:
    """Where programs are looked up once a word of a shell's text has set PATH."""
    if not word.startswith("PATH="):
        return place
    return replace(place, search=_UNKNOWN if "$" in word else word.removeprefix("PATH="))


def _given(word: str, arguments: list[str]) -> list[str] | None:
    """What stands for a word that is an argument of a shell's text."""
    if word == "$@":
        return arguments[1:]
    if found := re.fullmatch(r"\$(\d)|\$\{(\d+)\}", word):
        return arguments[(number := int(found[1] or found[2])) : number + 1]
    return None


def _commands(text: str) -> Iterator[list[str]]:
    """Simple commands of a shell's text, as words without their quotes; redirections are cut."""
    text = re.sub(r"(?m)^\s*#.*$", "", text).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        words = list(lexer)
    except ValueError:  # quotes of a comment or a here-document
        lines = text.splitlines()
        words = [word.strip("\"'") for line in lines for word in [*line.split(), "\n"]]
    command: list[str] = []
    cut = False
    for word in words:
        if word and not word.strip("<>&") and word.strip("&"):
            cut = True
        elif word and not word.strip(";&|()<>\n"):
            if command and not word.startswith("("):  # a function has that behind its name
                yield command
            command, cut = [], False
        elif not cut:
            command.append(word)
    if command:
        yield command
