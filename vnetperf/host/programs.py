"""Programs of a machine: where they are, version, build id, Debian package."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, Final

from vnetperf.host.facts import is_unknown, unknown
from vnetperf.host.linux import read_file
from vnetperf.host.trust import explain_root_refusal, watch_starts
from vnetperf.model.testbed import Program

log = logging.getLogger(__name__)

_ELF_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_ELF_HEADER_SIZE: Final = 64
_PT_NOTE: Final = 4  # PT_NOTE
_NT_GNU_BUILD_ID: Final = 3  # NT_GNU_BUILD_ID
#: No table of segments and no note is larger in a program that somebody linked.
_MAX_READ: Final = 1 << 16


def build_id(path: Path) -> str:
    """The id that the linker gave a program."""
    with path.open("rb") as file:
        header = file.read(_ELF_HEADER_SIZE)
        if len(header) < _ELF_HEADER_SIZE or not header.startswith(_ELF_MAGIC):
            return ""
        (table,) = struct.unpack_from("<Q", header, 0x20)
        size, count = struct.unpack_from("<HH", header, 0x36)
        file.seek(table)
        segments = file.read(min(size * count, _MAX_READ))
        for start in range(0, len(segments) - 55, size or 56):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", segments, start)
            if kind == _PT_NOTE:
                file.seek(offset)
                if identifier := _build_id_in_notes(file.read(min(length, _MAX_READ))):
                    return identifier
    return ""


def _build_id_in_notes(notes: bytes) -> str:
    offset = 0
    while offset + 12 <= len(notes):
        name_length, length, kind = struct.unpack_from("<III", notes, offset)
        name = offset + 12
        content = name + -(-name_length // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[content : content + length].hex()
        offset = content + -(-length // 4) * 4
    return ""


LIBRARY_NAME = re.compile(rb"\0(lib[\w+.-]+)\.so(?:\.\d+)*(?=\0)")
CORRECT_PATH = "correct its path under [programs] of the testbed file"
EXTRA_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
#: Programs that are recorded whatever backends need: links are made by the kernel of its version.
COMMON_PROGRAMS = (Program(name="ip", package="iproute2", software="iproute2"),)


@dataclass(frozen=True, slots=True)
class FoundProgram:
    """What was found of a declared program; `problem` is what is wrong with it."""

    path: str = ""
    version: str = ""
    problem: str = ""


def find_programs(
    programs: Iterable[Program], paths: Mapping[str, str] | None = None
) -> dict[str, FoundProgram]:
    """Find programs, by name; `paths` are those of the testbed file, by `Program.setting`."""
    declared, paths_by_setting = tuple(programs), {k: v for k, v in (paths or {}).items() if v}
    settings = {program.name: program.setting for program in declared}

    def find(program: Program) -> FoundProgram:
        named = (paths_by_setting.get(settings.get(other, ""), "") for other in program.beside)
        # Tools of another version may not understand a daemon: take those built with it.
        prefixes = [Path(path).parent.parent for path in named if path]
        folders = [str(prefix / folder) for prefix in prefixes for folder in ("bin", "sbin")]
        return _find_program(program, paths_by_setting.get(program.setting, ""), folders)

    with ThreadPoolExecutor(8) as pool:
        located = pool.map(find, declared)
        return dict(zip(settings, located, strict=True))


def linked_libraries(path: str) -> tuple[str, ...]:
    """Libraries that a program is linked with."""
    with contextlib.suppress(OSError):
        return tuple(sorted({m.decode() for m in LIBRARY_NAME.findall(Path(path).read_bytes())}))
    return ()


def _find_program(program: Program, override: str, folders: Sequence[str]) -> FoundProgram:
    problem = ""
    search = os.pathsep.join([*folders, os.environ.get("PATH", ""), EXTRA_PATH])
    for place in (override,) if override else program.places or (program.name,):
        path, untrusted = find_trusted(place, search)
        problem = problem or untrusted
        if not path:
            if override and not problem:
                problem = f"{override} {_explain_not_executable(Path(override))}; {CORRECT_PATH}"
            continue
        text = _version(program, path)
        if program.version_contains in text:
            return FoundProgram(path, text)
        wrong = (
            "does not report its version"
            if is_unknown(text)
            else f"has no {program.version_contains}"
        )
        cure = CORRECT_PATH if override else "name another under [programs] of the testbed file"
        problem = problem or f"{path} {wrong} ({text.splitlines()[0]}); {cure}"
    return FoundProgram(problem=problem)


def find_trusted(name: str, search: str) -> tuple[str, str]:
    """The first program of a name that root may run, "" for none; and why not one before it.

    Root runs what others could have written as little as it reads it: its PATH may hold folders of
    other users (`su` without `-`). Who is not root runs what PATH has.
    """
    problem = ""
    for folder in dict.fromkeys(search.split(os.pathsep)):
        path = shutil.which(name, path=folder)
        if path is None:
            continue
        reason = explain_root_refusal(path)
        if not reason:
            return path, problem
        problem = problem or f"{path} is not run as root: {reason}; give it to root, or remove it"
        if "/" in name:
            break  # PATH is not searched for it
    return "", problem


_OBJECT: Final = re.compile(r"^\ufeff?([ \t]*)\{", re.MULTILINE)
#: Where an object may begin; what has more is no answer.
_MOST_OBJECTS: Final = 1000


def printed_object(text: str, keys: Collection[str] = ()) -> dict[str, Any] | None:
    """The first JSON object that begins a line of what a program has printed; None without one.

    Wrappers, plugins and warnings put lines of their own before and behind it, with braces too.
    What stands further in than the first brace is part of an object, also where that is damaged.

    Args:
        text: What it has printed.
        keys: The answer has one of them, and a line of a log has none; (): any object will do.
    """
    begins = list(islice(_OBJECT.finditer(text), _MOST_OBJECTS))
    for begin in begins:
        if len(begin[1]) > len(begins[0][1]):
            continue
        with contextlib.suppress(ValueError, RecursionError):
            document: dict[str, Any] = json.JSONDecoder().raw_decode(text, begin.end() - 1)[0]
            if not keys or any(key in document for key in keys):
                return document
    return None


def trust_programs() -> None:
    """Have this process, where it is root, start only programs that no other user could write.

    Folders into which others could put programs leave its PATH, for what its programs start too;
    a program in another folder that is another user's is refused when it is to be started.
    """
    watch_starts()
    folders = dict.fromkeys(os.environ.get("PATH", os.defpath).split(os.pathsep))
    reasons = {folder: explain_root_refusal(folder) for folder in folders}
    for folder, reason in reasons.items():
        if reason and Path(folder).exists():
            log.warning(
                "no program is run as root from %s: %s", folder or "PATH's empty folder", reason
            )
    os.environ["PATH"] = (
        os.pathsep.join(f for f, reason in reasons.items() if not reason) or EXTRA_PATH
    )


def _explain_not_executable(path: Path) -> str:
    try:
        if path.is_dir():
            return "is a directory"
        path.stat()
    except OSError as error:
        return "is not there" if isinstance(error, FileNotFoundError) else str(error.strerror)
    return "is not executable"


def _version(program: Program, path: str) -> str:
    """What a program prints as its version, or is linked with; "" when that is not read."""
    if program.version_library:
        return _linked_version(program.version_library, Path(path))
    if not program.version_args:
        return ""
    try:
        status, printed, warned = _run_briefly([path, *program.version_args])
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {error}"
    # What else it warns of is no version, and may differ each time: mpirun does, by its pid.
    text = printed if printed.strip() else warned
    lines = [line for line in map(_printable, text.splitlines()) if line]
    if status and not printed.strip() and lines:  # a reason, as ipvsadm's has one
        return f"unknown: {lines[0]}"
    return "\n".join(lines[:3]) or f"unknown: {Path(path).name} printed nothing"


#: Longest that a program may take to print its version, seconds, and the most that it may print.
VERSION_S, _MOST_PRINTED = 20.0, 1 << 20
#: Longest line of a version that is kept, in characters.
_VERSION_LINE = 300


def _run_briefly(argv: Sequence[str]) -> tuple[int, str, str]:
    """Exit status of a program, what it prints and what it warns of.

    It has no input to wait for, cannot fill the memory by what it prints, and a daemon that it
    leaves behind is not waited for.
    """
    # The limit is there before the program begins, for whatever it starts too.
    limited = ["/bin/sh", "-c", f'ulimit -f {_MOST_PRINTED // 512}; exec "$@"', "sh", *argv]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            limited, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            status = process.wait(VERSION_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(_MOST_PRINTED).decode(errors="replace"))
    return status, texts[0], texts[1]


def _printable(line: str) -> str:
    """A line without what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in line[:_VERSION_LINE]).strip()


def _linked_version(pattern: str, path: Path) -> str:
    try:
        match = re.search(pattern.encode(), path.read_bytes())
    except OSError as error:
        return f"unknown: {error}"
    if match is None:
        return f"unknown: {path.name} is not linked with a library that has its version"
    return f"{path.name} {_printable(match[1].decode(errors='replace'))}"


DPKG_STATUS = Path("/var/lib/dpkg/status")
NOT_INSTALLED = "not installed"
_REQUIRED: Final = re.compile(r"[A-Za-z0-9._-]+")


def software_facts(
    programs: Iterable[Program], paths: Mapping[str, str], *, dpkg_status: Path = DPKG_STATUS
) -> dict[str, Any]:
    """Version of the software of each program that is recorded, or ``not installed``."""
    listed = {p.software: p for p in programs if p.software}
    candidates = {name: p.debian or (p.package,) for name, p in listed.items()}
    installed = _debian_packages(
        dpkg_status, {candidate for many in candidates.values() for candidate in many}
    )
    facts: dict[str, Any] = {"python": platform.python_version()}
    for name in sorted(listed):
        versions = [installed[package] for package in candidates[name] if package in installed]
        if versions:
            facts[name] = versions[0]
        elif paths.get(listed[name].name):
            origin = "but not by a Debian package" if dpkg_status.exists() else NO_DPKG
            facts[name] = unknown(f"installed, {origin}")
        else:
            facts[name] = NOT_INSTALLED
    return facts


DPKG_INFO = Path("/var/lib/dpkg/info")
NO_DPKG = "by what is not known: this machine has no dpkg"


def no_package() -> str:
    """What a file that no Debian package has is said to be of."""
    return "of no Debian package" if DPKG_INFO.is_dir() else NO_DPKG


def owning_packages(
    paths: Iterable[str], *, info: Path = DPKG_INFO, status: Path = DPKG_STATUS
) -> dict[str, str]:
    """Debian package of each file that one has installed, with its version."""
    paths_by_listing: dict[str, list[str]] = {}
    for path in paths:
        real = os.path.realpath(path)
        # A package may list a file where it was before /bin became a link to /usr/bin.
        for listed in {path, real, path.removeprefix("/usr"), real.removeprefix("/usr")}:
            paths_by_listing.setdefault(listed, []).append(path)
    owners: dict[str, str] = {}
    for file in info.glob("*.list"):
        with contextlib.suppress(OSError):
            for line in paths_by_listing.keys() & set(read_file(file).splitlines()):
                owners |= dict.fromkeys(paths_by_listing[line], file.stem.partition(":")[0])
    versions = _debian_packages(status, set(owners.values()))
    return {path: f"{owner} {versions.get(owner, '')}".strip() for path, owner in owners.items()}


def python_distributions(*names: str) -> dict[str, str]:
    """Python distributions and those they require, directly or not, with their versions."""
    versions: dict[str, str] = {}
    queue, visited = list(names), set[str]()
    while queue:
        name = queue.pop()
        if name in visited:
            continue
        visited.add(name)
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed = metadata.distribution(name)
            fields = installed.metadata  # parsed anew by each attribute of a distribution
            versions[fields["Name"]] = fields["Version"]
            # Those of an egg, as Debian's packages have it, are in a file of their own.
            required = fields.get_all("Requires-Dist") or installed.requires or ()
            plain = (r for r in required if "extra ==" not in r)
            queue += [match[0] for r in plain if (match := _REQUIRED.match(r))]
    return dict(sorted(versions.items(), key=lambda item: item[0].casefold()))


def kvm_facts(*, dev: Path = Path("/dev")) -> dict[str, str]:
    """Whether KVM is there, and whether it is known to work.

    The device can be there and not work, so only booting something proves it. That takes
    seconds: who has done it puts the outcome in place of ``usable``.
    """
    device = dev / "kvm"
    if not device.exists():
        return {"present": "no", "usable": "no: there is no /dev/kvm"}
    if not os.access(device, os.R_OK | os.W_OK):
        return {"present": "yes", "usable": "no: this user may not open /dev/kvm"}
    return {"present": "yes", "usable": "not proved: nothing was booted with it"}


#: Third words of dpkg's status by which a package's files are there. The first one is what was
#: asked for ("hold" of a package that is kept at its version), the second whether it is whole.
_INSTALLED: Final = ("installed", "triggers-awaited", "triggers-pending")


def _debian_packages(status: Path, packages: Iterable[str]) -> dict[str, str]:
    """Installed packages of interest with version, read from dpkg's own list (it is fast).

    A package of several architectures has an entry for each; the first that is installed counts.
    """
    versions: dict[str, str] = {}
    names = set(packages)
    try:
        entries = read_file(status).split("\n\n")
    except OSError:
        return versions
    for entry in entries:
        name = entry.lstrip("\n").partition("\n")[0].removeprefix("Package:").strip()
        if name not in names or name in versions:
            continue
        fields = dict(line.partition(":")[::2] for line in entry.splitlines() if ":" in line)
        words, version = fields.get("Status", "").split(), fields.get("Version", "").strip()
        if words[2:] and words[2] in _INSTALLED and version:
            versions[name] = version
    return versions
