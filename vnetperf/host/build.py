"""Builds programs in C on first use, as engines against the machine's DPDK; keeps what it built."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from filelock import FileLock, Timeout

from vnetperf.host.cpu import cpu_flags, cpu_models
from vnetperf.host.linux import read_file, run_program
from vnetperf.host.paths import cache_directory, make_private
from vnetperf.host.wait import virtual_lab
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program

#: What every engine is compiled from besides its own: its Makefile includes engine.mk.
COMMON = Path(__file__).with_name("engine")
_BUILD_TIMEOUT_S = 600
_COMPILE_TIMEOUT_S = 120
_TAIL_LINES = 20
#: DPDK requires at least this (SSE4.2).
_PORTABLE_ARCH = "x86-64-v2"

GCC = Program(
    name="gcc",
    package="gcc",
    places=("gcc", "cc"),
    version_args=("-dumpfullversion",),
    software="gcc",
    by_make=True,
)
#: What compiles: the inventory looks for them.
BUILD_PROGRAMS = (
    GCC,
    Program(
        name="pkg-config", package="pkg-config", places=("pkg-config", "pkgconf"), by_make=True
    ),
)


class BuildVariant(Enum):
    """How the engine is compiled."""

    PLAIN = "plain"
    """Optimised for this machine's CPU."""
    PORTABLE = "portable"
    """For any x86-64 processor since 2009: what the virtual lab runs, built outside it."""
    SANITIZED = "sanitized"
    """With AddressSanitizer and UBSan: slow, for tests."""


def default_variant() -> BuildVariant:
    """The build to run here."""
    return BuildVariant.PORTABLE if virtual_lab(proc=Path("/proc")) is True else BuildVariant.PLAIN


@dataclass(frozen=True)
class DpdkProgram:
    """A program in the package with a Makefile whose first target is the executable in `OUT`."""

    name: str
    sources: Path

    def identity(self, variant: BuildVariant | None = None) -> str:
        """What makes a build another one: DPDK, compiler, processor flags, sources."""
        self._need("make", "make")
        self._need("pkg-config", "pkg-config")
        compiler = os.environ.get("CC", "cc")
        self._need(compiler, "gcc")
        return self._key(compiler, variant or default_variant())

    def problem(self) -> str:
        """Why it cannot be built on this machine, with the cure; "" when nothing is missing."""
        try:
            self.identity()
        except HostError as error:
            return "; ".join(part for part in (error.what, error.cure) if part)
        return ""

    def executable(self, variant: BuildVariant | None = None, *, cache: Path | None = None) -> Path:
        """Return the executable, building it unless this very one has been built before.

        Several processes may call this at once: one builds, the others wait for it.
        """
        cache = cache or cache_directory()
        variant = variant or default_variant()
        target = cache / f"{self.name}-{self.identity(variant)}"
        executable = target / self.name
        make_private(cache)
        if executable.exists():
            return executable
        lock = cache / f"{self.name}.lock"
        try:
            with FileLock(lock, timeout=_BUILD_TIMEOUT_S):
                if not executable.exists():
                    self._build(os.environ.get("CC", "cc"), variant, cache, target)
        except Timeout as error:
            raise HostError(
                "another build of the engine does not come to an end", where=str(lock)
            ) from error
        return executable

    def _need(self, tool: str, package: str) -> None:
        if shutil.which(tool) is None:
            raise HostError(
                f"{tool} is missing, the engine cannot be built",
                where=f"{self.name} engine",
                cure=f"install the package {package}: apt-get install {package}",
            )

    def _key(self, compiler: str, variant: BuildVariant) -> str:
        version = run_program([compiler, "--version"], None)
        digest = hashlib.sha256()
        processor = _PORTABLE_ARCH if variant is BuildVariant.PORTABLE else _cpu_flags()
        for part in (_dpdk_version(), compiler, version.stdout, platform.machine(), processor):
            digest.update(part.encode() + b"\0")
        for file in (*sorted(self.sources.iterdir()), *sorted(COMMON.iterdir())):
            if file.suffix in {".c", ".h", ".mk"} or file.name == "Makefile":
                digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return f"{variant.value}-{digest.hexdigest()[:20]}"

    def _build(self, compiler: str, variant: BuildVariant, cache: Path, target: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as directory:
            out = Path(directory) / "out"
            command = ["make", "-C", str(self.sources), f"-j{os.cpu_count() or 1}", f"OUT={out}"]
            command.append(f"CC={compiler}")
            if variant is BuildVariant.PORTABLE:
                command.append(f"ARCH={_PORTABLE_ARCH}")
            if variant is BuildVariant.SANITIZED:
                command += ["SANITIZE=1", "WERROR=1"]  # only our own tests build this one
            try:
                environment = {
                    k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MAKELEVEL"}
                }
                completed = run_program(
                    command, _BUILD_TIMEOUT_S, env=environment, merge_streams=True
                )
            except subprocess.TimeoutExpired as error:
                raise HostError("the compiler does not end", where=f"{self.name} engine") from error
            if completed.returncode != 0:
                lines = completed.stdout.splitlines()
                errors = [
                    line for line in lines if "error" in line.lower() and " -c -o " not in line
                ]
                tail = "\n".join(errors[-_TAIL_LINES:] or lines[-_TAIL_LINES:])
                raise HostError(
                    f"the engine does not compile:\n{tail}",
                    where=" ".join(command),
                    accepted="DPDK 21.11 or newer with its headers, gcc or clang",
                )
            finished = Path(directory) / "finished"
            finished.mkdir(mode=0o700)
            shutil.copy2(out / self.name, finished / self.name)
            if target.exists():  # left without an executable by hand
                shutil.rmtree(target)
            finished.rename(target)


def compiled(
    source: Path, command: Sequence[str], cache: Path, *, identity: str = "", cure: str
) -> Path:
    """The executable of one file in C, compiled unless this very one has been compiled before.

    `command` is the compiler with its flags; `identity` is what else makes a build another one.
    """
    name = source.stem
    parts = (*command, identity, read_file(source, errors="strict"))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    executable, lock = cache / f"{name}-{digest}", cache / f"{name}.lock"
    try:
        with FileLock(lock, timeout=_COMPILE_TIMEOUT_S):
            if not executable.exists():
                _compile(source, command, executable, cure)
    except Timeout as error:
        raise HostError(
            f"another build of {source.name} does not come to an end", where=str(lock)
        ) from error
    return executable


def _compile(source: Path, command: Sequence[str], executable: Path, cure: str) -> None:
    with tempfile.TemporaryDirectory(prefix="build-", dir=executable.parent) as directory:
        output = Path(directory) / source.stem
        line = [*command, "-o", str(output), str(source)]
        try:
            done = run_program(line, _COMPILE_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"the compiler fails: {error}", where=" ".join(line)) from error
        if done.returncode:
            raise HostError(
                f"{source.name} does not compile:\n{done.stderr[-2000:]}",
                where=" ".join(line),
                cure=cure,
            )
        output.rename(executable)


def _dpdk_version() -> str:
    completed = run_program(["pkg-config", "--modversion", "libdpdk"], None)
    if completed.returncode != 0:
        raise HostError(
            "DPDK's development files are missing, the engine cannot be built",
            where="pkg-config libdpdk",
            accepted="DPDK 21.11 or newer",
            cure="install the package libdpdk-dev (or point PKG_CONFIG_PATH to your libdpdk.pc)",
        )
    return completed.stdout.strip()


def _cpu_flags() -> str:
    """What ``-march=native`` depends on."""
    return " ".join(sorted(cpu_flags())) or " ".join(sorted(set(cpu_models().values())))
