"""The system's tools for guests and lab: finding and running them, apt, QEMU, virtme-ng."""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

from filelock import FileLock, Timeout

from vnetperf.host.linux import read_file, run_program
from vnetperf.host.programs import EXTRA_PATH, find_trusted
from vnetperf.model.errors import HostError

log = logging.getLogger(__name__)

QEMU = "qemu-system-x86_64"
QEMU_LEAST = (8, 0)
VIRTME_LEAST = (1, 33)
INSTALL_CURE = "run scripts/install-deps lab (as root)"
#: The very Python that runs this, so that a virtual environment's virtme-ng is found.
VIRTME_RUN = (sys.executable, "-P", "-m", "virtme.commands.run")


def which(name: str) -> str | None:
    """Path of a program that root may run, looked for where root's programs are too."""
    return find_trusted(name, f"{os.environ.get('PATH', '')}:{EXTRA_PATH}")[0] or None


def need_program(name: str, package: str) -> str:
    """Path of a program."""
    path = which(name)
    if path is None:
        raise HostError(
            f"program {name!r} is not installed",
            where="vnetperf lab",
            accepted=f"the one of package {package}",
            cure=INSTALL_CURE,
        )
    return path


def with_pdeathsig(argv: Sequence[str]) -> list[str]:
    """A command that the kernel kills when this process ends, however that comes about.

    It does not even begin when this process has ended before that.
    """
    leash = [need_program("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"]
    return [*leash, "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid()), *argv]


@contextmanager
def leashed(
    argv: Sequence[str], output: Path, *, pass_fds: Sequence[int] = (), end_s: float = 20.0
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that is killed at the end of the body, or of this process.

    Its output goes to a file, and Ctrl-C on the terminal is not for it. `end_s`: how long it is
    waited for at most, seconds.
    """
    with output.open("wb") as file:
        process = subprocess.Popen(
            with_pdeathsig(argv),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(end_s)


def qemu_version(path: str) -> tuple[int, ...]:
    """Version of a QEMU."""
    try:
        done = run_program([path, "--version"], 20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"does not run: {error}", where=path, cure=INSTALL_CURE) from error
    match = re.search(r"version ([0-9]{1,6}(?:\.[0-9]{1,6})*)", done.stdout)
    if match is None:
        raise HostError("reports no version", where=path, cure=INSTALL_CURE)
    return tuple(int(part) for part in match[1].split("."))


def need_qemu() -> str:
    """A QEMU whose igb has SR-IOV."""
    path = need_program(QEMU, "qemu-system-x86")
    version = qemu_version(path)
    if version < QEMU_LEAST:
        raise HostError(
            f"QEMU {format_version(version)} has no NIC with SR-IOV",
            where=path,
            accepted=f"QEMU {format_version(QEMU_LEAST)} or newer",
            cure=f"{INSTALL_CURE}: it takes a newer one from the distribution's backports",
        )
    return path


def virtme_version() -> tuple[int, ...] | None:
    """Version of virtme-ng in this Python, None when it is not there."""
    if find_spec("virtme") is None:
        return None
    try:
        text = version("virtme-ng")
    except PackageNotFoundError:
        return None
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def need_virtme() -> tuple[int, ...]:
    """virtme-ng."""
    version = virtme_version()
    if version is None or version < VIRTME_LEAST:
        raise HostError(
            f"virtme-ng {format_version(version)} is too old"
            if version
            else "virtme-ng is not installed",
            where=sys.executable,
            accepted=f"virtme-ng {format_version(VIRTME_LEAST)} or newer in this Python",
            cure="pip install 'vnetperf[lab]' with this Python",
        )
    return version


def format_version(numbers: tuple[int, ...]) -> str:
    """A version as text."""
    return ".".join(map(str, numbers))


#: Tool -> package that brings it.
TOOLS = {
    "apt-cache": "apt",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "depmod": "kmod",
    "mksquashfs": "squashfs-tools",
}
APT_CURE = "apt-get update, with a mirror of the distribution configured, then try again"


def run_tool(
    argv: list[str],
    *,
    cwd: Path | None = None,
    timeout_s: float = 300,
    without: tuple[str, ...] = (),
) -> str:
    """Run a tool to its end; it dies with this process."""
    command = [need_program(argv[0], TOOLS[argv[0]]), *argv[1:]]
    kept = {name: value for name, value in os.environ.items() if name not in without}
    shown = " ".join(argv[:8]) + (" ..." if len(argv) > 8 else "")
    log.debug("running %s", shown)
    try:
        done = run_program(
            with_pdeathsig(command),
            timeout_s,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            env={**kept, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(
            f"did not end within {timeout_s:g} s", where=shown, cure="try again"
        ) from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise HostError(
            f"failed: {' / '.join(last) or f'status {done.returncode}'}",
            where=shown,
            cure=APT_CURE if argv[0].startswith("apt-") else "see its output; is the disk full?",
        )
    return done.stdout


#: Another process that builds has this long, seconds.
LOCK_S = 1800.0


@contextmanager
def work_dir(root: Path) -> Iterator[Path]:
    """A private directory to build in; nobody else builds below `root` meanwhile.

    What builds that were killed have left is removed first.
    """
    try:
        with FileLock(root / "lock", timeout=LOCK_S):
            for leftover in root.glob(".*.part"):
                shutil.rmtree(leftover)  # its maker cannot live: it would hold the lock
            work = root / f".{os.getpid()}.part"
            work.mkdir(mode=0o700)
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except Timeout as error:
        raise HostError(
            f"another process has held the lock for {LOCK_S / 60:.0f} minutes",
            where=str(root / "lock"),
            cure="see which `vnetperf image` or `vnetperf lab` still runs",
        ) from error


DOWNLOAD_S = 1800
_URIS = ["--print-uris", "-qq", "-o", "Acquire::ForceHash=SHA256"]
#: Whatever the machine's own configuration of apt allows.
_AUTHENTICATED = ["-o", "APT::Get::AllowUnauthenticated=false"]
APT_SOURCES = Path("/etc/apt")
_TARGET = ("REPO_URI", "BASE_URI", "FILENAME", "TRUSTED", "ORIGIN", "CODENAME", "VERSION")
_LINE = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sum>[0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class Package:
    """One package of the distribution, of one version, as apt gets it."""

    name: str
    version: str
    file: str
    size: int
    sha256: str
    uri: str = ""


def resolve_packages(names: Sequence[str], unwanted: Sequence[str], work: Path) -> list[Package]:
    """Find a complete set of packages: what apt would install on an empty machine."""
    status = work / "status"  # nothing is installed on the machine that this is for
    status.touch()
    options = [f"Dir::State::status={status}", f"Dir::Cache::archives={work / 'none'}"]
    options = [word for option in [*options, "Debug::NoLocking=1"] for word in ("-o", option)]
    output = run_tool(
        ["apt-get", "install", "-y", "--no-install-recommends", *_URIS, *options, *names]
    )
    packages = _require_all(_packages(output), names)

    def kept(package: Package) -> bool:
        name = package.name
        return name in names or not any(fnmatch.fnmatchcase(name, p) for p in unwanted)

    return sorted((p for p in packages if kept(p)), key=lambda package: package.name)


def exact_packages(names: Sequence[str], work: Path) -> list[Package]:
    """Find packages without what they depend on."""
    return _require_all(
        _packages(run_tool(["apt-get", "download", *_URIS, *names], cwd=work)), names
    )


def signed_repositories(packages: Iterable[Package]) -> list[dict[str, str]]:
    """The repositories that packages come from; one whose signature apt did not check is refused.

    What they bring runs as root in guests. `trusted=yes` makes apt take a repository without one.
    """
    shown = "\t".join(f"$({field})" for field in _TARGET)
    lines = run_tool(["apt-get", "indextargets", "--format", shown, "Created-By: Packages"])
    targets = [dict(zip(_TARGET, line.split("\t"), strict=False)) for line in lines.splitlines()]
    repositories: dict[str, dict[str, str]] = {}
    for package in packages:
        package_targets = [
            t for t in targets if t.get("REPO_URI") and package.uri.startswith(t["REPO_URI"])
        ]
        wrong = "no repository that is configured has it" if not package_targets else ""
        for target in package_targets:
            signature = _signature(target)
            wrong = wrong or ("" if signature else "its repository has no signature")
            wrong = wrong or (
                "apt does not trust its repository" if target["TRUSTED"] != "yes" else ""
            )
            wrong = wrong or (
                "trusted=yes in the sources of apt stands for a signature"
                if _trusted_blindly(target["REPO_URI"])
                else ""
            )
            repositories[target["BASE_URI"]] = {
                "repository": target["BASE_URI"],
                **{
                    key.lower(): target[key]
                    for key in ("ORIGIN", "CODENAME", "VERSION")
                    if not target[key].startswith("$(")
                },
                "signature": signature,
            }
        if wrong:
            raise HostError(
                f"{package.name} is not used, for what it brings runs as root: {wrong}",
                where=package.uri,
                accepted="packages of repositories that are signed with a key of this machine's",
                cure="configure such a repository (Signed-By), then apt-get update",
            )
    return [repositories[key] for key in sorted(repositories)]


def _signature(target: dict[str, str]) -> str:
    """The signed index of a repository that apt keeps, and its hash; "" without one."""
    base = target["BASE_URI"].partition("://")[2] or target["BASE_URI"]
    stem = base.rstrip("/").replace("/", "_")
    for name in ("InRelease", "Release.gpg"):
        file = Path(target["FILENAME"]).parent / f"{stem}_{name}"
        with suppress(OSError):
            return f"{name} SHA256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    return ""


def _trusted_blindly(uri: str) -> bool:
    """Whether the sources of apt have a repository trusted without a signature."""
    files = [APT_SOURCES / "sources.list", *APT_SOURCES.glob("sources.list.d/*")]
    for file in files:
        with suppress(OSError):
            text = re.sub(r"(?m)^\s*#.*\n?", "", read_file(file))
            separator = "\n" if file.suffix == ".list" else "\n\n"
            for entry in text.split(separator):
                if uri.rstrip("/") in entry and re.search(r"(?i)\btrusted\s*[=:]\s*yes", entry):
                    return True
    return False


def download_packages(
    packages: Iterable[Package], folder: Path, tell: Callable[[str], None]
) -> None:
    """Get the packages that are not in a folder; apt checks what it gets."""
    needed = [package for package in packages if not _is_downloaded(folder, package)]
    if not needed:
        return
    size_mb = sum(package.size for package in needed) / 1e6
    tell(f"fetching {len(needed)} packages, {size_mb:.0f} MB (once)")
    for package in needed:
        (folder / package.file).unlink(missing_ok=True)
    names = [f"{package.name}={package.version}" for package in needed]
    run_tool(
        ["apt-get", "download", "-qq", *_AUTHENTICATED, *names], cwd=folder, timeout_s=DOWNLOAD_S
    )
    for package in needed:
        if not _is_downloaded(folder, package):
            raise HostError(
                "apt did not bring what it had promised", where=package.file, cure=APT_CURE
            )


def unpack_packages(packages: Iterable[Package], folder: Path, target: Path) -> Path:
    """Unpack packages of a folder into a directory, made for them."""
    target.mkdir()
    for package in packages:
        run_tool(["dpkg-deb", "-x", str(folder / package.file), str(target)])
    return target


def _is_downloaded(folder: Path, package: Package) -> bool:
    path = folder / package.file
    is_whole = path.is_file() and path.stat().st_size == package.size
    return is_whole and hash_file(path) == package.sha256


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_all(packages: list[Package], names: Sequence[str]) -> list[Package]:
    missing = set(names) - {package.name for package in packages}
    if missing:
        raise HostError(
            "apt does not know where to get what is required",
            where=" ".join(sorted(missing)),
            cure=APT_CURE,
        )
    return packages


def _packages(uris: str) -> list[Package]:
    packages = []
    for line in uris.splitlines():
        if match := _LINE.match(line):
            file = match["file"]
            name, version = file.split("_")[:2]
            packages.append(
                Package(
                    name, unquote(version), file, int(match["size"]), match["sum"], match["uri"]
                )
            )
    return packages
