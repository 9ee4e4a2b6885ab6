"""Pods by an OCI runtime: containers of runc with namespaces, a cgroup and files of their own.

There is no image: a pod has the machine's files, read-only, and what the run wrote for it. The
runtime's state is in the run's directory; what it has elsewhere, cgroups, is journaled. Podman, by
which such a container can be started, has all that it keeps in the run's directory too, in
namespaces of processes and mounts that end with the pod: the machine's own engines are not touched.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.cpu import format_cpus
from vnetperf.host.journal import Change
from vnetperf.host.linux import (
    PROC_MOUNTS,
    RUN_ID_VARIABLE,
    UNSHARE,
    ProcessId,
    explain_writable_mounts,
    read_file,
    read_mounts,
)
from vnetperf.host.machine import Machine
from vnetperf.host.paths import make_cache
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.programs import printed_object
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program
from vnetperf.virt.container import Container, ContainerProgram

#: Runs pods with `--pod runc`.
RUNC = Program(
    name="runc", package="runc", version_args=("--version",), by_make=True, optional=True
)
START_S = 10.0
#: Makes containers of runc with `--pod podman`.
PODMAN = Program(
    name="podman", package="podman", version_args=("--version",), by_make=True, optional=True
)
#: The machine's directories that a pod sees, read-only.
_SHARED = ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The first process of a namespace takes no signal that it does not handle.
FIRST = "trap 'exit 0' TERM; sleep infinity & wait"
_NAMESPACES = ("pid", "ipc", "uts", "mount")
#: What user 0 could read or write of the kernel's even without capabilities, as engines have it.
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/timer_list")
NOT_WRITTEN = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
#: Directory of a run with the state of its containers.
STATE = "runc"
#: Directory of a run that pods write to: where ranks of MPI begin.
RANKS = "ranks"


class OciPod(Container):
    """A pod that runc keeps: its first process sleeps, programs are executed beside it.

    `nested`: numbers of its processes are those of a namespace that it is in.
    """

    nested: ClassVar[bool] = False
    _awaited: ClassVar[str] = "the container's first process"

    def __init__(self, machine: Machine, name: str, cpus: Sequence[int]) -> None:
        super().__init__(machine, name, cpus)
        self._id = f"vnetperf-{machine.run_id}-{name}"
        self._first: ManagedProcess | None = None
        self._cgroups: Change | None = None
        self._programs = 0

    def create(self, *, cpuset: bool = True) -> None:
        """Make its network namespace, then the container in it; processors are its cgroup's."""
        super().create(cpuset=False)
        self._start_container()

    def enter(self, netns: Path) -> None:
        """A container in a network namespace that there is already."""
        super().enter(netns)
        self._start_container()

    def _runc(self, *arguments: str) -> list[str]:
        runc = self.machine.facts.programs["runc"]
        return [runc, "--root", str(self._runc_state()), *arguments]

    def _runc_state(self) -> Path:
        """Where runc has what it knows of the container."""
        return self.machine.subdir(STATE)

    def _start_container(self) -> None:
        rootfs = self.directory / "bundle" / "rootfs"
        rootfs.mkdir(parents=True, exist_ok=True)
        self._cgroups = journal_cgroups(self.machine, self._id)
        started = self.directory / "pid"
        started.unlink(missing_ok=True)
        line = self._first_line(rootfs, started)
        # Closed when it is stopped: what has a namespace of processes keeps signals to itself.
        netns = self._namespace()
        self._first = self.machine.spawn(self.name, line, keep_stdin_open=True, netns=netns)
        self._first.wait_for(started.exists, START_S, self._awaited, 0.01)

    def _first_line(self, rootfs: Path, started: Path) -> list[str]:
        """Starts the container, and ends with it; writes the number of its first process."""
        bundle, config = rootfs.parent, self._config(rootfs)
        (bundle / "config.json").write_text(json.dumps(config))
        return self._runc("run", "--bundle", str(bundle), "--pid-file", str(started), self._id)

    def _list_shared(self, rootfs: Path) -> tuple[list[Path], Path]:
        """What it sees of the machine's files and the run's, and what of these it may write to."""
        linked, paths = shared_directories()
        for place in linked:
            link = rootfs / place.relative_to("/")
            if not link.is_symlink():
                link.symlink_to(place.readlink())
        # Programs of MPI may be built only when the pods are there.
        paths += [make_cache("mpi", "programs of MPI"), self.directory]
        return paths, self.machine.subdir(RANKS)

    def _config(self, rootfs: Path) -> dict[str, Any]:
        """The container as the OCI runtime specification has it."""
        mounts = [_mount("/proc", "proc"), _mount("/dev", "tmpfs", "mode=755")]
        mounts += [_mount(place, "tmpfs") for place in ("/dev/shm", "/tmp", "/run")]  # noqa: S108 - its own
        read_only = _read_only(self.machine)
        paths, written = self._list_shared(rootfs)
        mounts += [*(_bind(place, *read_only) for place in paths), _bind(written, "rw")]
        namespaces = [{"type": kind} for kind in _NAMESPACES]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["sh", "-c", FIRST],
                "env": [PATH, f"{RUN_ID_VARIABLE}={self.machine.run_id}"],
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
                "maskedPaths": list(MASKED),
                "readonlyPaths": list(NOT_WRITTEN),
            },
        }

    def entry(self, host: str) -> tuple[str, ...]:
        """As of every container; its host name is its own already."""
        return tuple(self._runc("exec", self._container))

    def start(self, name: str, argv: Sequence[str]) -> ContainerProgram:
        """Start a program of an endpoint in the container."""
        self._programs += 1
        pid_file = self.directory / f"program{self._programs}.pid"
        line = self._runc("exec", "--pid-file", str(pid_file), self._container)
        process = self.machine.spawn(name, [*line, *self._with_path(argv)])
        return _OciProgram(process, pid_file, nested=self.nested)

    @property
    def _container(self) -> str:
        return self._id

    def facts(self) -> dict[str, Any]:
        """What it is made of, for the result."""
        return {
            "kind": "container of runc, the machine's files read-only",
            "processors": f"{self.processors}, by its cgroup",
        }

    def give_back(self) -> None:
        """End the container, then give the interfaces back."""
        if self._first is not None:
            with suppress(HostError, OSError, ValueError):  # it has ended, or never began
                self._remove()
            self._first.stop()
            self._first = None
        if self._cgroups is not None:
            self._cgroups.undo()
            self._cgroups = None
        super().give_back()

    def _remove(self) -> None:
        """Have the container ended."""
        self.machine.run(self._runc("delete", "--force", self._container))


#: Where an engine has its files in its own view: podman takes no longer path than 50 characters, a
#: socket none than 107.
OWN = Path("/mnt")
#: Begins that view: what is mounted in directories that pods see is read-only, and the engine's
#: directory of the run, `$1`, is there.
OWN_VIEW = f"""set -e
while read -r _ _ _ _ at _; do
    at=$(printf %b "$at")  # a blank is \\040
    case $at in /usr/*|/etc/*|/opt/*) mount -o remount,bind,ro "$at" || true ;; esac
done </proc/self/mountinfo
mount --bind "$1" {OWN}"""
#: What podman and the machine's own have in common is its own. Then it starts the container, and
#: waits for its own end.
_PODMAN = f"""{OWN_VIEW}
mount --bind {OWN}/shm /dev/shm
if [ -d /var/lib/containers ]; then mount --bind {OWN}/var /var/lib/containers; fi
pid=$2
shift 2
"$@" >/dev/null
mv {OWN}/pid "$pid"
exec cat
"""


class EnginePod(OciPod):
    """A pod that an engine makes by runc; programs are executed in it as in others of runc.

    The engine is in namespaces of processes and mounts of its own. What it starts and what leaves
    its parent or clears its environment, as monitors of containers do, ends with these.
    """

    nested: ClassVar[bool] = True
    engine: ClassVar[Program]

    @property
    def _inner(self) -> int:
        """The first process in the engine's namespaces, by its number outside of them."""
        pid = self._first.pid if self._first else 0
        try:
            (inner,) = read_file(Path(f"/proc/{pid}/task/{pid}/children")).split()
        except (OSError, ValueError) as error:
            raise HostError(
                f"{self.engine.name} has ended, and the pod {self.name} with it",
                where=str(self._first.log) if self._first else self.name,
                cure="read its log; the next deployment makes the pod anew",
            ) from error
        return int(inner)

    def _runc(self, *arguments: str) -> list[str]:
        """Where the numbers of processes are those that runc has written down."""
        prefix = ["nsenter", "--target", str(self._inner), "--pid", "--mount", "--"]
        return [*prefix, *super()._runc(*arguments)]

    def facts(self) -> dict[str, Any]:
        """What it is made of, for the result."""
        name = self.engine.name
        version = self.machine.facts.versions.get(name, "").partition("\n")[0]
        kind = "container of runc, the machine's files read-only"
        return {**super().facts(), "kind": f"{kind}, made by {version or name}"}


class PodmanPod(EnginePod):
    """A pod that podman makes.

    All that podman keeps is below the run's directory, and what it has fixed places for is its own
    there: locks in /dev/shm.
    """

    engine: ClassVar[Program] = PODMAN

    def _first_line(self, rootfs: Path, started: Path) -> list[str]:
        """Of the namespaces, in which podman starts the container."""
        home = self._state = self.machine.new_subdir(f"podman-{self.name}")
        for name in ("root", "runroot", "state", "home", "shm", "var"):
            (home / name).mkdir()
        (home / "containers.conf").touch()
        paths, written = self._list_shared(rootfs)
        programs = self.machine.facts.programs
        line = [
            *("env", f"HOME={OWN}/home", f"XDG_RUNTIME_DIR={OWN}/state"),
            *(f"CONTAINERS_CONF={OWN}/containers.conf", programs["podman"]),
            *("--root", f"{OWN}/root", "--runroot", f"{OWN}/runroot"),
            *("--tmpdir", f"{OWN}/state"),
            *("--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"),
            *("--events-backend", "none", "--runtime", programs["runc"]),
            *("--runtime-flag", f"root={self.machine.subdir(STATE)}"),
            *("run", "--detach", "--name", self.name, "--hostname", self.name, "--no-hosts"),
            *("--network", f"ns:{self.netns}", "--log-driver", "none"),
            *("--cgroups", "no-conmon", "--cgroup-parent", f"/{self._id}"),
            *("--cpuset-cpus", format_cpus(self.cpus)),
            *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--cidfile", f"{OWN}/id", "--pidfile", f"{OWN}/pid"),
            *("--env", PATH, "--env", f"{RUN_ID_VARIABLE}={self.machine.run_id}"),
            *(part for place in paths for part in ("--volume", f"{place}:{place}:ro")),
            *("--volume", f"{written}:{written}:rw", "--rootfs", str(rootfs)),
            *("sh", "-c", FIRST),
        ]
        return [*UNSHARE, "sh", "-c", _PODMAN, "podman", str(home), str(started), *line]

    @property
    def _container(self) -> str:
        """The identity that podman has given it."""
        return read_file(self._state / "id").strip()


class _OciProgram(ContainerProgram):
    """A program in a container: runc waits for it, and passes signals and its exit code on."""

    def __init__(self, process: ManagedProcess, pid_file: Path, *, nested: bool = False) -> None:
        super().__init__(process)
        self._pid_file = pid_file
        self._nested = nested
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
                self._identity = ProcessId.read(self._number())

    def _number(self) -> int:
        number = int(read_file(self._pid_file))
        return _outer(self._process.pid, number) if self._nested else number

    def read_stat(self) -> str:
        number = self._identity.pid if self._identity else self._number()
        return read_file(Path(f"/proc/{number}/stat"))

    def end(self, by: signal.Signals) -> None:
        """End it; runc cannot pass SIGKILL on."""
        super().end(by)
        program = self._identity
        if program is not None and program.alive():
            with suppress(ProcessLookupError):
                os.kill(program.pid, signal.SIGKILL)
            wait_for(lambda: not program.alive(), START_S, "the end of a program")


def _outer(ancestor: int, number: int) -> int:
    """Number of a descendant that has another one in the namespace below the machine's."""
    pending = [ancestor]
    while pending:
        pid = pending.pop()
        status = read_file(Path(f"/proc/{pid}/status"))
        numbers = status.partition("NSpid:")[2].partition("\n")[0].split()
        if pid != ancestor and len(numbers) > 1 and int(numbers[1]) == number:
            return pid
        for thread in Path(f"/proc/{pid}/task").iterdir():  # each has children of its own
            pending += map(int, read_file(thread / "children").split())
    raise ValueError(f"process {number} is none of those below {ancestor}")


def _mount(place: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": kind, "options": ["nosuid", *options]}


def _bind(place: Path, *way: str) -> dict[str, Any]:
    options = ["rbind", "nosuid", *way]
    return {"destination": str(place), "type": "bind", "source": str(place), "options": options}


def _read_only(machine: Machine) -> tuple[str, ...]:
    """Options of a mount, with all that is mounted below where runc and the kernel can."""
    runc = machine.facts.programs["runc"]
    if not explain_writable_mounts():
        with suppress(HostError, TypeError):  # runc before 1.1 does not tell what it can
            if runc not in _FEATURES:  # each pod of a run asks
                _FEATURES[runc] = machine.run([runc, "features"])
            features = printed_object(_FEATURES[runc]) or {}
            if "rro" in (features.get("mountOptions") or ()):
                return ("ro", "rro")
    return ("ro",)


#: What each runc has told of itself.
_FEATURES: dict[str, str] = {}


def shared_directories() -> tuple[list[Path], list[Path]]:
    """The machine's directories that pods see: those that are links, and the others."""
    directories = [place for place in map(Path, _SHARED) if place.is_dir()]
    linked = [place for place in directories if place.is_symlink()]
    return linked, [place for place in directories if place not in linked]


def journal_cgroups(machine: Machine, name: str) -> Change:
    """Journal a group of this name in every hierarchy, which an engine is about to make.

    It is one entry: each is waited for on disk.
    """
    mounted = read_mounts(PROC_MOUNTS)
    paths = [
        f"{mount_point}/{name}"
        for _, mount_point, kind, *_ in mounted
        if kind in ("cgroup", "cgroup2")
    ]
    return machine.journal.intend("cgroup", f"cgroups {name}", {"paths": paths})
