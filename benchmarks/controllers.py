"""A controller in a process of its own, the processes of its run, and what is left of them."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vnetperf.host import snapshot
from vnetperf.host.linux import RUN_ID_VARIABLE
from vnetperf.host.paths import HostRoots

TOP = Path(__file__).parents[1]
#: Part -> what its command line contains.
PARTS = {
    "switch": "ovs-vswitchd",
    "VNF": "dpdk-testpmd",
    "guest": "qemu-system",
    "engine": "--rx-burst=",
}
#: Longest wait until the machine is as it was: a guardian may be at work.
RESTORED_S = 25.0
#: Longest waits for a deployment, of guests too, and for the answer of a trial, seconds.
DEPLOY_S, ANSWER_S = 400.0, 60.0
#: What a fault may not change, besides processes of runs: those of others come and go.
AREAS = ("hugepages", "mounts", "links", "modules", "values")
#: Areas in which everything that a run makes has its mark.
MARKED = ("mounts: ", "links: ", "files: ", "cgroups: ", "processes of runs: ")
#: Space on the small tmpfs: DPDK keeps its tables in the run directory.
RUN_MIB, OTHER_MIB = 64, 2


@dataclass(frozen=True)
class RunProcess:
    """A process of a run: the run's id, its parent, and its command line."""

    run: str
    parent: int
    line: str


def run_processes() -> dict[int, RunProcess]:
    """Processes of runs, ours or not: by the mark in their environment, or their parent's.

    libvirt gives QEMU an environment of its own.
    """
    found = {}
    mark = f"{RUN_ID_VARIABLE}=".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
        run = next((one for one in environment if one.startswith(mark)), mark)
        found[int(entry.name)] = RunProcess(
            run.removeprefix(mark).decode(), parent, line.decode(errors="replace")
        )
    of_runs = {pid: one for pid, one in found.items() if one.run}
    for pid, one in found.items():
        if not one.run and one.parent in of_runs:
            of_runs[pid] = replace(one, run=of_runs[one.parent].run)
    return of_runs


def pids_of(part: str, run: str) -> list[int]:
    """Processes of a part of what is deployed: one at least."""
    found = [p for p, one in run_processes().items() if one.run == run and PARTS[part] in one.line]
    if not found:
        raise ProcessLookupError(f"no process of the {part}")
    return found


def on_small_tmpfs(command: Sequence[str], folder: str) -> list[str]:
    """A command in a mount namespace in which a folder, made where it is missing, is small."""
    Path(folder).mkdir(mode=0o700, exist_ok=True)
    size = RUN_MIB if folder == str(HostRoots().run) else OTHER_MIB
    script = f'mount -t tmpfs -o size={size}m,mode=700 tmpfs "$0" && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, folder, *command]


class Controller:
    """A process that deploys, runs a trial, and reports in lines of JSON.

    Attributes:
        before: The machine before it.
        pid: Its process.
        agent: Its agent's process, once it has deployed.
        run: The id of its run, once something of it runs.
        marks: What carries one of these is of its runs and agents.
        acted: When something was done to it, where that takes long.
    """

    def __init__(self, argv: Sequence[str], *, tmpfs: str = "", clock: Path | None = None) -> None:
        self.before = machine()
        command = [sys.executable, "-m", "benchmarks.faults", *argv]
        if tmpfs:
            command = on_small_tmpfs(command, tmpfs)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VNETPERF_")}
        if clock is not None:
            environment |= {"LD_PRELOAD": str(clock / "clock.so"), "FAULTS_CLOCK": str(clock / "s")}
        self._process = subprocess.Popen(
            command,
            cwd=TOP,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.agent = 0
        self.run = ""
        self.marks: set[str] = set()
        self.acted = 0.0
        self._ended: dict[str, Any] = {}
        self._waits = False
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # it is closed, by `end`
            for line in self._process.stdout:
                with suppress(ValueError):  # what a library printed
                    self._lines.put(json.loads(line))
        self._lines.put({"is": "end", "at": time.monotonic()})

    def next(self, kinds: str, timeout_s: float) -> dict[str, Any]:
        """Its next line of one of these kinds, or its end; without one its stacks are printed."""
        deadline = time.monotonic() + timeout_s
        while not self._ended:
            try:
                line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                os.kill(self.pid, signal.SIGUSR1)
                time.sleep(0.5)
                return {"is": "nothing", "at": time.monotonic()}
            if line["is"] == "wait" and not self._waits:
                print(f"  waits for the machine's lock: {line['holder']}", flush=True)
                self._waits = True
            if line["is"] == "end":
                self._ended = line
            elif line["is"] in kinds.split():
                return line
        return self._ended

    def deployed(self, deployment: str) -> bool:
        """Whether it has deployed; the id of its run is learned from what its agent has started."""
        line = self.next("deployed result", DEPLOY_S)
        self.agent = line.get("agent", self.agent)
        self.has_run(next((p.run for p in run_processes().values() if p.parent == self.agent), ""))
        if line["is"] != "deployed" or not self.run:
            print(f"  {deployment}: not deployed: {str(line)[:300]}", flush=True)
            return False
        return True

    def has_run(self, name: str) -> None:
        """Note its run's name, and with it what all that the run makes is called by."""
        self.run = name
        if name:
            self.marks |= {name, f"vp{name.rpartition('-')[2]}", f"vp{self.agent}"}

    def go_on(self, order: str = "") -> None:
        """Order a trial (`trial LOAD`), to `deploy`, to take all away (`teardown`), or to end."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()

    def inside(self, path: Path) -> Path:
        """A path as it is in its mount namespace."""
        return Path(f"/proc/{self.pid}/root") / path.relative_to("/")

    def end(self) -> int:
        """Wait for its end; it is killed when that does not come."""
        for _ in range(2):  # trials, and looking at what is left inside
            self.go_on()
        try:
            self._process.communicate(timeout=RESTORED_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        return self._process.returncode


def machine() -> snapshot.Snapshot:
    """The machine as far as a fault may not change it."""
    taken = snapshot.take_snapshot(HostRoots())
    areas = {name: dict(taken.areas.get(name, {})) for name in AREAS}
    areas["processes of runs"] = {str(p): f"{o.run} {o.line}" for p, o in run_processes().items()}
    files = taken.areas.get("files", {})
    ours = (str(HostRoots().run), str(HostRoots().state))
    areas["files"] = {name: value for name, value in files.items() if name.startswith(ours)}
    groups = Path("/sys/fs/cgroup").rglob("vnetperf-*")
    areas["cgroups"] = {str(group): "" for group in groups if group.is_dir()}
    return snapshot.Snapshot(areas)


def left_behind(controller: Controller, limit_s: float = RESTORED_S) -> tuple[str, ...]:
    """What differs from before the controller, once guardians have had their time.

    While others have runs on the machine only what carries the run's id, or the pid of its agent in
    the name of a link, is known to be of the fault.
    """
    deadline = time.monotonic() + limit_s
    while True:
        found = differences(controller.before, controller.marks if controller.run else ())
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def differences(before: snapshot.Snapshot, marks: Collection[str]) -> tuple[str, ...]:
    """What differs now; of what others may have done only lines with one of the marks.

    Whatever a run makes has its mark, where a path or a name is what is new.
    """
    now = machine()
    found = snapshot.compare_snapshots(before, now)
    both = {**before.areas["processes of runs"], **now.areas["processes of runs"]}
    others = any(text.split()[0] not in marks for text in both.values())
    if marks and (others or any(str(HostRoots().run) in line for line in found)):
        found = tuple(line for line in found if any(mark in line for mark in marks))
    # What others had there before is not left behind when it goes, and those are ip-netns(8)'s.
    return tuple(
        line
        for line in found
        if not (line.startswith("files: ") and " is gone" in line)
        and not line.startswith("mounts: /run/netns/")
        and not (
            marks
            and line.startswith(MARKED)
            and (" is new " in line or line.startswith("cgroups: "))
            and not any(mark in line for mark in marks)
        )
    )


def left_inside(controller: Controller, folder: str) -> tuple[str, ...]:
    """Journals and run directories in a folder of the controller's mount namespace."""
    inside = controller.inside(Path(folder))
    kept = ("lock", ".full")
    return tuple(
        str(path.relative_to(inside))
        for path in inside.rglob("*")
        if path.is_file() and not set(path.relative_to(inside).parts) & set(kept)
    )
