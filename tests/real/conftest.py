"""What the tests of whole runs share: a run as a user starts it, and the machine before it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vnetperf.host import kernel, snapshot
from vnetperf.host.paths import HostRoots
from vnetperf.testing import others

TOP = Path(__file__).parents[2]
#: What a run may change, apart from processes: those of others come and go.
AREAS = ("hugepages", "mounts", "links", "netns", "modules", "files", "values")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is real; without root it says so instead of failing strangely."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root: run the suite with sudo"))


def machine() -> snapshot.Snapshot:
    """The machine as far as a run may change it."""
    beside = namespaces_of_other_tests()
    taken = snapshot.take_snapshot(HostRoots(), AREAS)
    beside |= namespaces_of_other_tests()  # some end while this looks, others begin
    areas = {name: dict(entries) for name, entries in taken.areas.items()}
    areas["mounts"] = others.drop_test_mounts(areas["mounts"])
    areas["netns"] = {name: "exists" for name in areas["netns"] if name not in beside}
    areas["processes"] = processes()
    # Processors of threads that a run may move away: this one's, and init's.
    for name, pid in (("these tests", 0), ("init", 1)):
        areas[f"processors of {name}"] = {"may use": str(sorted(os.sched_getaffinity(pid)))}
    return snapshot.Snapshot(areas)


def namespaces_of_other_tests() -> set[str]:
    """Network namespaces that only processes of tests beside are in."""
    found, ours = set(), {str(Path("/proc/self/ns/net").readlink())}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            space = str((entry / "ns/net").readlink())
            (found if others.is_other_test(entry) else ours).add(space)
    return found - ours


def processes() -> dict[str, str]:
    """Processes of runs, and guardians, but for those of tests beside: pid -> command."""
    found = others.run_processes()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if "vnetperf.host.guardian" in line and not others.is_other_test(entry):
                found[entry.name] = line
    return found


def differences(before: snapshot.Snapshot, patience_s: float = 20.0) -> tuple[str, ...]:
    """How the machine differs from before, after time for what comes and goes.

    A module that stays loaded lest others lose something is no difference: veth is one.
    """

    def found() -> tuple[str, ...]:
        now = machine()
        loaded = now.areas["modules"].keys() - before.areas["modules"].keys()
        stay = {module for module in loaded if kernel.explain_unload_risk(module)}
        return snapshot.compare_snapshots(before, snapshot.without_loaded(now, before, stay))

    deadline = time.monotonic() + patience_s
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.fixture
def unchanged() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Compare the machine with what it was; checked once more when the test ends."""
    before = machine()
    yield lambda: differences(before)
    assert differences(before) == ()


@dataclass
class UserRun:
    """pytest as a user runs it.

    Attributes:
        process: The running pytest.
        results: Folder of all its runs.
        left: How the machine differs after it from before, where several tests share a run.
    """

    process: subprocess.Popen[str]
    results: Path
    output: str = field(default="")
    left: tuple[str, ...] = ()
    _read: list[dict[str, Any]] = field(default_factory=list)
    _octets: int = 0

    def finish(self, timeout_s: float = 180.0) -> int:
        """Wait for its end; its output is kept."""
        self.output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode

    def json(self) -> dict[str, Any]:
        """Its results.json."""
        content: dict[str, Any] = json.loads((self.results / "latest/results.json").read_text())
        return content

    def records(self) -> list[dict[str, Any]]:
        """Its trial log so far. Only what is new is read: a test asks many times a second."""
        log = self.results / "latest/trials.jsonl"
        if not log.exists():
            return []
        with log.open("rb") as file:
            file.seek(self._octets)
            lines = file.read().rpartition(b"\n")[0]
        if lines:
            self._read += map(json.loads, lines.split(b"\n"))
            self._octets += len(lines) + 1
        return list(self._read)

    def wait_for(
        self, what: Callable[[list[dict[str, Any]]], bool], timeout_s: float = 180
    ) -> None:
        """Wait until its log shows something."""
        deadline = time.monotonic() + timeout_s
        while not what(self.records()):
            assert self.process.poll() is None, self.finish() and self.output
            assert time.monotonic() < deadline, "the run did not come that far"
            time.sleep(0.02)

    def wait_until_begun(self) -> None:
        """Wait until its first case has begun: what is killed then had collected something."""
        self.wait_for(bool)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., UserRun]]:
    """Start a run; what is left of it at the end of the test is killed."""
    with starting_in(tmp_path) as begin:
        yield begin


@contextmanager
def starting_in(folder: Path) -> Iterator[Callable[..., UserRun]]:
    """The same for a block, with results below a folder."""
    runs: list[UserRun] = []

    def begin(*options: str, preset: str = "smoke", path: str = "testcases") -> UserRun:
        results = folder / f"results{len(runs)}"
        argv = [sys.executable, "-m", "pytest", path, f"--preset={preset}"]
        argv += [f"--results-dir={results}", "-p", "no:cacheprovider", *options]
        # Settings of whoever runs the tests are not this user's.
        plain = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
        process = subprocess.Popen(
            argv,
            env=plain,
            cwd=TOP,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        runs.append(UserRun(process, results))
        return runs[-1]

    try:
        yield begin
    finally:
        for run in runs:
            if run.process.poll() is None:
                run.process.kill()
                run.finish()


def pids_of(word: str) -> list[int]:
    """Processes of a run whose command line contains a word."""
    return [int(pid) for pid, line in processes().items() if word in line]
