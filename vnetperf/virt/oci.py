"""Pods by an OCI runtime: containers of runc with namespaces, a cgroup and files of their own.

There is no image: a pod has the machine's files, read-only, and what the run wrote for it. The
runtime's state is in the run's directory; what it has elsewhere, cgroups, is journaled. The
machine's own container engines are not used.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from vnetperf.host.cpu import format_cpus
from vnetperf.host.linux import PROC_MOUNTS, RUN_ID_VARIABLE, ProcessId, why_mounts_stay_writable
from vnetperf.host.machine import Machine
from vnetperf.host.paths import make_cache
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program
from vnetperf.virt.container import Container, ContainerProgram

#: Runs pods with `--pod runc`.
RUNC = Program(
    name="runc", package="runc", version_args=("--version",), by_make=True, optional=True
)
START_S = 10.0
#: The machine's directories that a pod sees, read-only.
_SHARED = ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The first process of a namespace takes no signal that it does not handle.
_FIRST = "trap 'exit 0' TERM; sleep infinity & wait"
_NAMESPACES = ("pid", "ipc", "uts", "mount")
#: What user 0 could read or write of the kernel's even without capabilities, as engines have it.
_MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/timer_list")
_NOT_WRITTEN = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
#: Directory of a run that pods write to: where ranks of MPI begin.
RANKS = "ranks"


class OciPod(Container):
    """A pod that runc keeps: its first process sleeps, programs are executed beside it."""

    def __init__(self, machine: Machine, name: str, cpus: Sequence[int]) -> None:
        super().__init__(machine, name, cpus)
        self._id = f"vnetperf-{machine.run_id}-{name}"
        self._first: ManagedProcess | None = None
        self._programs = 0

    def create(self, *, cpuset: bool = True) -> None:
        """Make its network namespace, then the container in it; processors are its cgroup's."""
        del cpuset
        super().create(cpuset=False)
        self._start_container()

    def enter(self, netns: Path) -> None:
        """A container in a network namespace that there is already."""
        super().enter(netns)
        self._start_container()

    def _runc(self, *arguments: str) -> list[str]:
        runc = self.machine.facts.programs["runc"]
        return [runc, "--root", str(self.machine.subdir("runc")), *arguments]

    def _start_container(self) -> None:
        bundle = self.directory / "bundle"
        rootfs = bundle / "rootfs"
        rootfs.mkdir(parents=True, exist_ok=True)
        config = self._config(rootfs)
        (bundle / "config.json").write_text(json.dumps(config))
        for group in _groups(self._id):
            text, data = f"cgroup {group} of runc", {"path": str(group)}
            self.machine.journal.intend("cgroup", text, data)
        started = self.directory / "pid"
        started.unlink(missing_ok=True)
        line = self._runc("run", "--bundle", str(bundle), "--pid-file", str(started), self._id)
        self._first = self.machine.spawn(self.name, line)
        self._first.wait_for(started.exists, START_S, "the container's first process", 0.01)

    def _config(self, rootfs: Path) -> dict[str, Any]:
        """The container as the OCI runtime specification has it."""
        mounts = [_mount("/proc", "proc"), _mount("/dev", "tmpfs", "mode=755")]
        mounts += [_mount(place, "tmpfs") for place in ("/dev/shm", "/tmp", "/run")]  # noqa: S108 - its own
        read_only = self._read_only()
        for place in map(Path, _SHARED):
            link = rootfs / place.relative_to("/")
            if place.is_symlink() and not link.is_symlink():
                link.symlink_to(place.readlink())
            elif place.is_dir() and not place.is_symlink():
                mounts.append(_bind(place, *read_only))
        # Programs of MPI may be built only when the pods are there.
        built = make_cache("mpi", "programs of MPI")
        mounts += [_bind(place, *read_only) for place in (built, self.directory)]
        mounts.append(_bind(self.machine.subdir(RANKS), "rw"))
        namespaces = [{"type": kind} for kind in _NAMESPACES]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["sh", "-c", _FIRST],
                "env": [_PATH, f"{RUN_ID_VARIABLE}={self.machine.run_id}"],
                "cwd": "/",
                "noNewPrivileges": True,
            },
            "root": {"path": str(rootfs), "readonly": True},
            "hostname": self.name,
            "mounts": mounts,
            "linux": {
                "namespaces": [*namespaces, {"type": "network", "path": str(self.netns)}],
                "cgroupsPath": f"/{self._id}",
                "resources": {"cpu": {"cpus": format_cpus(self.cpus)}},
                "maskedPaths": list(_MASKED),
                "readonlyPaths": list(_NOT_WRITTEN),
            },
        }

    def _read_only(self) -> tuple[str, ...]:
        """Options of a mount, with all that is mounted below where runc and the kernel can."""
        if not why_mounts_stay_writable():
            with suppress(HostError, ValueError):  # runc before 1.1 does not tell what it can
                can = json.loads(self.machine.run(self._runc("features")))
                if "rro" in can.get("mountOptions", ()):
                    return ("ro", "rro")
        return ("ro",)

    def entry(self, host: str) -> tuple[str, ...]:
        """As of every container; its host name is its own already."""
        del host
        return tuple(self._runc("exec", self._id))

    def start(self, name: str, argv: Sequence[str]) -> ContainerProgram:
        """Start a program of an endpoint in the container."""
        self._programs += 1
        pid_file = self.directory / f"program{self._programs}.pid"
        line = self._runc("exec", "--pid-file", str(pid_file), self._id, *self._with_path(argv))
        return _OciProgram(self.machine.spawn(name, line), pid_file)

    def facts(self) -> dict[str, Any]:
        """What it is made of, for the result."""
        return {
            "kind": "container of runc, the machine's files read-only",
            "processors": f"{self.processors}, by its cgroup",
        }

    def give_back(self) -> None:
        """End the container, then give the interfaces back."""
        if self._first is not None:
            with suppress(HostError):  # it has ended
                self.machine.run(self._runc("delete", "--force", self._id))
            self._first.stop()
            self._first = None
        super().give_back()


class _OciProgram(ContainerProgram):
    """A program in a container: runc waits for it, and passes signals and its exit code on."""

    def __init__(self, process: ManagedProcess, pid_file: Path) -> None:
        super().__init__(process)
        self._pid_file = pid_file
        self._identity: ProcessId | None = None

    def ended(self) -> int | None:
        """Its exit code; its processor time is gone with it, and read while it runs."""
        if super().ended() is None:
            self._identify()
            self.update_cpu()
        return super().ended()

    def _identify(self) -> None:
        """Remember the program while runc, which waits for it, still has its number taken."""
        if self._identity is None:
            with suppress(OSError, ValueError):  # runc has not written it yet
                self._identity = ProcessId.of(int(self._pid_file.read_text()))

    def read_stat(self) -> str:
        """The text of its stat file, by its number outside of the container."""
        return Path(f"/proc/{int(self._pid_file.read_text())}/stat").read_text()

    def end(self, by: signal.Signals) -> None:
        """End it; runc cannot pass SIGKILL on."""
        super().end(by)
        program = self._identity
        if program is not None and program.alive():
            with suppress(ProcessLookupError):
                os.kill(program.pid, signal.SIGKILL)
            wait_for(lambda: not program.alive(), START_S, "the end of a program")


def _mount(place: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": kind, "options": ["nosuid", *options]}


def _bind(place: Path, *way: str) -> dict[str, Any]:
    options = ["rbind", "nosuid", *way]
    return {"destination": str(place), "type": "bind", "source": str(place), "options": options}


def _groups(name: str) -> list[Path]:
    """A group of this name in every hierarchy of cgroups that is mounted."""
    lines = (line.split() for line in PROC_MOUNTS.read_text().splitlines())
    return [Path(at) / name for _, at, kind, *_ in lines if kind in ("cgroup", "cgroup2")]


def make_pod(
    kind: Literal["netns", "runc"], machine: Machine, name: str, cpus: Sequence[int]
) -> Container:
    """A place for the programs of a pod, of the kind that is chosen."""
    return (OciPod if kind == "runc" else Container)(machine, name, cpus)
