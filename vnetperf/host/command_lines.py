"""Programs that a command line starts: its first, and those that a starter or a shell becomes.

Read are the starters that vnetperf itself puts before programs, and common ones. Who puts another
one there names the program behind it to `refuse_untrusted` (vnetperf/host/trust.py).
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

    def with_variable(self, assignment: str) -> StartPlace:
        """The place behind `NAME=VALUE`: another one behind PATH's."""
        name, _, value = assignment.partition("=")
        if name != "PATH":
            return self
        return replace(self, search=_UNKNOWN if "$" in value else value)


@dataclass(frozen=True)
class _Starter:
    """How a program that becomes another one reads its options.

    Args:
        valued: Options that take a value.
        attached: Short options that may have a value attached.
        ends: Options with which the program is in another root directory, or there is none.
        user: Options that name a user; another one's programs are not root's to refuse.
        directory: Options that name the directory which the program starts in.
        operands: How many words stand before the program.
    """

    valued: str = ""
    attached: str = ""
    ends: str = ""
    user: str = ""
    directory: str = ""
    operands: int = 0


_STARTERS: Mapping[str, _Starter] = {
    "env": _Starter("-u -C -S -a --unset --chdir --split-string --argv0", directory="-C --chdir"),
    "nice": _Starter("-n --adjustment"),
    "nsenter": _Starter(
        "-t -S -G -N --target --setuid --setgid --net-socket",
        attached="muinpCUTrwW",
        ends="-m --mount -r --root -a --all",
        user="-S --setuid",
    ),
    "setpriv": _Starter(
        "--ambient-caps --inh-caps --bounding-set --ruid --euid --rgid --egid --reuid --regid "
        "--groups --securebits --pdeathsig --ptracer --selinux-label --apparmor-profile "
        "--landlock-access --landlock-rule --seccomp-filter",
        user="--reuid",
    ),
    "setsid": _Starter(),
    "stdbuf": _Starter("-i -o -e --input --output --error"),
    "taskset": _Starter(ends="-p --pid", operands=1),
    "timeout": _Starter("-k -s --kill-after --signal", operands=1),
    "unshare": _Starter(
        "-S -G -R -w -l --setuid --setgid --root --wd --map-user --map-group --map-users "
        "--map-groups --propagation --setgroups --monotonic --boottime --load-interp",
        ends="-R --root",
        user="-S --setuid",
        directory="-w --wd",
    ),
}
_ROOT = ("0", "root")
_SHELLS = frozenset(("ash", "bash", "dash", "ksh", "sh", "zsh"))
#: Where no program is: for what cannot be told from a command line.
_UNKNOWN = "/dev/null"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
#: How code given to Python becomes a program that is in its arguments.
_BECOMES = re.compile(r"\bos\.execvp?e?\(\s*sys\.argv\[(\d+)\]")
#: What a shell does itself, although PATH has programs of these names.
_BUILTINS = frozenset(("[", "echo", "false", "kill", "printf", "pwd", "test", "true"))
#: Words of a shell behind which a command may stand.
_BEFORE_COMMANDS = frozenset(
    (
        *("!", "{", "builtin", "command", "do", "elif", "else", "exec", "if", "then", "time"),
        *("until", "while"),
    )
)


def list_programs(argv: Sequence[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Absolute paths of the programs and scripts that a command line starts, as far as it says.

    Each comes with where its own names are looked up; its last words are no program of it.
    """
    if not argv or not (path := place.find(argv[0])):
        return
    is_ours = os.path.realpath(path) == os.path.realpath(sys.executable)
    # Under another name beside it, it is as little another's; a link elsewhere may be.
    if not is_ours or Path(path).parent != Path(sys.executable).parent:
        yield path, place
    name, words = Path(path).name, list(argv[1:])
    if is_ours:
        yield from _by_python(words, place)
    elif name in _SHELLS:
        yield from _by_shell(words, place)
    elif name == "ip":
        yield from list_programs(_behind_exec(words), place)
    elif name == "script":
        yield from _by_script(words, place)
    elif name in _STARTERS:
        yield from _by_starter(name, words, place)


def _by_python(words: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Its script; of code that becomes another program, that one."""
    while words and words[0].startswith("-") and words[0] != "-":
        if (word := words.pop(0)) == "--":
            break
        option = re.fullmatch(r"-[^cmWX-]*([cmWX]?)(.*)", word, re.DOTALL)
        kind, value = option.groups() if option else ("", "")
        if kind:
            value = value or (words.pop(0) if words else "")
        if kind == "c" and (becomes := _BECOMES.search(value)):
            yield from list_programs(words[int(becomes[1]) - 1 :], place)
        if kind in {"c", "m"}:
            return
    if words and (path := place.file(words[0])):
        yield path, place


def _by_starter(name: str, words: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    starter, is_env = _STARTERS[name], name == "env"
    for option, value in _options(starter, words):
        if option in starter.ends.split():
            return
        if option in starter.user.split() and value not in _ROOT:
            return
        if option in starter.directory.split() and value:
            # Not resolved: links are looked at later.
            place = replace(place, directory=os.path.join(place.directory, value))  # noqa: PTH118 - texts
        elif is_env and option in {"-S", "--split-string"}:
            words[:0] = _split(value)
        elif is_env and option in {"-", "-i", "--ignore-environment"}:
            place = replace(place, search=os.defpath)
    while is_env and words and _ASSIGNMENT.match(words[0]):
        place = place.with_variable(words.pop(0))
    yield from list_programs(words[starter.operands :], place)


def _options(starter: _Starter, words: list[str]) -> Iterator[tuple[str, str]]:
    """Options before a program, with their values, each taken from the words as it is read."""
    valued = starter.valued.split()
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            return
        if word == "-":
            yield word, ""
        elif word.startswith("--"):
            option, equals, value = word.partition("=")
            if option in valued and not equals and words:
                value = words.pop(0)
            yield option, value
        else:
            for number, letter in enumerate(word[1:], 2):
                value, has_value = word[number:], f"-{letter}" in valued
                if has_value and not value and words:
                    value = words.pop(0)
                yield f"-{letter}", value if has_value else ""
                if has_value or letter in starter.attached:
                    break


def _behind_exec(words: list[str]) -> list[str]:
    """What `ip netns exec NAME` and `ip vrf exec NAME` start; all words may be shortened."""
    is_everywhere = False
    while words and words[0].startswith("-"):
        option = words.pop(0).lstrip("-")
        is_everywhere = is_everywhere or option in {"a", "all"}
        valued = {"n", "netns", "b", "batch", "f", "family", "rc", "rcvbuf"}
        del words[: option in valued or option.startswith("l")]
    if len(words) < 3 or not "exec".startswith(words[1]):
        return []
    if len(words[0]) >= 3 and "netns".startswith(words[0]):
        return words[2 if is_everywhere else 3 :]
    return words[3:] if len(words[0]) >= 2 and "vrf".startswith(words[0]) else []


def _by_script(words: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Commands that `script` has a shell run."""
    while words:
        option = words.pop(0)
        if option == "--":
            yield from list_programs(words, place)
            return
        if option.startswith("--command"):
            text = option.partition("=")[2] or (words.pop(0) if words else "")
            yield from _by_text(text, [], place)
        elif re.match(r"-[^-cIOBmTEo]*c", option):
            text = option.partition("c")[2] or (words.pop(0) if words else "")
            yield from _by_text(text, [], place)


def _by_shell(words: list[str], place: StartPlace) -> Iterator[tuple[str, StartPlace]]:
    """Its script, or what the text of its -c starts."""
    has_text = from_input = False
    while words and words[0][:1] in {"-", "+"}:
        option = words.pop(0)
        if option in {"-", "--"}:
            break
        if option.startswith("--"):
            del words[: option in {"--rcfile", "--init-file"}]
            continue
        has_text = has_text or "c" in option[1:]
        from_input = from_input or "s" in option[1:]
        del words[: option[-1] in "oO"]
    if has_text:
        yield from _by_text(words[0] if words else "", words[1:], place)
    elif words and not from_input and (path := place.file(words[0]) or place.find(words[0])):
        yield path, place


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _by_text(
    text: str, arguments: list[str], place: StartPlace
) -> Iterator[tuple[str, StartPlace]]:
    """The first command of a shell's text, each behind `exec`, and each that is an argument's."""
    for number, command in enumerate(_commands(text)):
        words, is_looked_at, command_place = list(command), number == 0, place
        while words and (
            words[0] in _BEFORE_COMMANDS or words[0].startswith("-") or _ASSIGNMENT.match(words[0])
        ):
            word = words.pop(0)
            del words[: word == "-a"]  # exec -a NAME
            command_place = command_place.with_variable(word)
            is_looked_at = is_looked_at or word == "exec"
        if not words or words[0] == "export":
            for word in command:  # for all that follows
                place = place.with_variable(word)
        elif words[0] == "cd":
            place = replace(place, directory=_UNKNOWN)
        elif words[0] == "shift":
            count = int(words[1]) if words[1:] and words[1].isdecimal() else 1
            arguments = arguments[:1] + arguments[1 + count :]
        if not words:
            continue
        values = [_expand_word(word, arguments) for word in words]
        if is_looked_at or values[0]:
            line = [
                part for word, value in zip(words, values, strict=True) for part in value or [word]
            ]
            if line[0] not in _BUILTINS:
                yield from list_programs(line, command_place)


def _expand_word(word: str, arguments: list[str]) -> list[str]:
    """The arguments of a shell's text that a word stands for; none for any other word."""
    if word == "$@":
        return arguments[1:]
    if position := re.fullmatch(r"\$(\d)|\$\{(\d+)\}", word):
        number = int(position[1] or position[2])
        return arguments[number : number + 1]
    return []


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
    is_cut = False
    for word in words:
        if word and not word.strip("<>&") and word.strip("&"):
            is_cut = True
        elif word and not word.strip(";&|()<>\n"):
            if command and not word.startswith("("):  # a function has that behind its name
                yield command
            command, is_cut = [], False
        elif not is_cut:
            command.append(word)
    if command:
        yield command
