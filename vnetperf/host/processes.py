"""Processes of a run: started with a death signal, logged, ended for certain.

They are found by the run's id in their environment, by pid, and by the run's scope: a cgroup of its
own, where cgroup v2 is writable, which no daemon leaves by forking or by clearing its environment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.cpu import undo_cgroup
from vnetperf.host.journal import Journal, UndoData
from vnetperf.host.linux import (
    PROC,
    PROC_MOUNTS,
    RUN_ID_VARIABLE,
    ProcessId,
    belongs_to_run,
    cgroup_root,
    is_ending,
    is_stopped,
    parse_number,
    read_file,
    set_namespace,
)
from vnetperf.host.paths import cache_directory, is_full
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError, UntrustedProgramError

log = logging.getLogger(__name__)
TERM_GRACE_S = 1.0
END_TIMEOUT_S = 8.0


def is_signal(code: int) -> bool:
    """Whether a signal ended a program; status 255 is a program's own, of exit(-1)."""
    return code < 0 or 128 < code <= 128 + signal.NSIG


def find_processes(run_id: str) -> list[int]:
    """Pids of all living processes of a run, without the caller (zombies are not living)."""
    me = os.getpid()
    pids = (int(entry) for entry in os.listdir(PROC) if entry.isdecimal())  # noqa: PTH208
    return [pid for pid in pids if pid != me and belongs_to_run(pid, run_id)]


def end_processes(
    run_id: str, identities: Iterable[ProcessId] = (), *, scope: Path | None = None
) -> list[int]:
    """End every process of a run: SIGTERM, a short wait, SIGKILL."""
    identities = tuple(identities)
    ended: set[int] = set()
    begin = time.monotonic()
    while True:
        targets = _open_pidfds(run_id, identities, scope)
        try:
            if not targets:
                return sorted(ended)
            waited = time.monotonic() - begin
            if waited > END_TIMEOUT_S:
                raise HostError(
                    f"processes {sorted(target.pid for target in targets)} do not end",
                    where=f"run {run_id}",
                    cure="see /proc/<pid>/stack for what in the kernel holds them",
                )
            ended.update(target.pid for target in targets)
            # Processes born between two looks get SIGKILL once the grace of all is over.
            gentle = waited < TERM_GRACE_S
            if scope is not None and not gentle:
                with contextlib.suppress(OSError):  # gone, or a kernel before 5.14
                    (scope / "cgroup.kill").write_text("1")  # what forks faster than we look too
            for target in targets:
                target.signal(signal.SIGTERM if gentle else signal.SIGKILL)
            _wait_ended(targets, TERM_GRACE_S - waited if gentle else 0.5)
        finally:
            for target in targets:
                os.close(target.fd)


def undo_processes(data: UndoData) -> str:
    """End the processes of a run."""
    identities = [ProcessId(pid, start) for pid, start in data.get("known", ())]
    scope = Path(data["scope"]) if data.get("scope") else None
    ended = end_processes(data["run_id"], identities, scope=scope)
    for group in reversed(_groups(scope)):
        undo_cgroup({"path": str(group)})
    return f"ended {len(ended)} processes" if ended else "none left"


def _groups(scope: Path | None) -> list[Path]:
    """The scope and all groups below it, each before those in it; none when it is gone."""
    if scope is None or not scope.is_dir():
        return []
    return [Path(where) for where, _, _ in os.walk(scope)]


def _pids_in(scope: Path | None) -> set[int]:
    """Processes of the scope and of groups below it."""
    pids: set[int] = set()
    for group in _groups(scope):
        with contextlib.suppress(OSError):  # removed meanwhile
            numbers = map(parse_number, read_file(group / "cgroup.procs").split())
            # 0 is a process of a pid namespace that is not ours.
            pids |= {pid for pid in numbers if pid is not None and pid > 0}
    return pids - {os.getpid()}


def _find_scope(run_id: str, mounts: Path, proc: Path) -> Path | None:
    """Where a run's scope can be: below our own group, so that no controller treats it otherwise.

    None without cgroup v2.
    """
    top = cgroup_root(mounts)
    with contextlib.suppress(OSError):
        for line in read_file(proc / "self/cgroup").splitlines():
            if top is not None and line.startswith("0::"):
                own_group = top / line.removeprefix("0::").lstrip("/")
                return own_group / f"vnetperf-{run_id}" if os.access(own_group, os.W_OK) else None
    return None


@dataclass(frozen=True, slots=True)
class _PidFd:
    pid: int
    fd: int

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.fd, number)


def _open_pidfds(
    run_id: str, identities: tuple[ProcessId, ...], scope: Path | None = None
) -> list[_PidFd]:
    """Handles of the processes to end, each checked *after* its handle was opened.

    A pid could be reused between finding and signalling; a pidfd that was checked cannot.
    """
    me = os.getpid()
    candidates = set(find_processes(run_id)) | {
        identity.pid for identity in identities if identity.pid != me
    }
    candidates |= _pids_in(scope)
    targets = []
    for pid in candidates:
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            continue
        ours = belongs_to_run(pid, run_id) or ProcessId.read(pid) in identities
        if ours or pid in _pids_in(scope):
            targets.append(_PidFd(pid, fd))
        else:
            os.close(fd)
    return targets


def _wait_ended(targets: list[_PidFd], timeout_s: float) -> None:
    """Wait until all have ended (a pidfd is readable then) or the time is over.

    No `wait_at_most`: poll() returns at the very end of each, and the caller's own limits are not
    longer in the lab either.
    """
    poller = select.poll()
    for target in targets:
        poller.register(target.fd, select.POLLIN)
    running = len(targets)
    deadline = time.monotonic() + max(timeout_s, 0.01)
    while running and (rest := deadline - time.monotonic()) > 0:
        for fd, _ in poller.poll(rest * 1000):
            poller.unregister(fd)
            running -= 1


_DEATH_SIGNAL_SCRIPT = (
    "import ctypes,os,sys\n"
    "ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"  # PR_SET_PDEATHSIG, SIGKILL
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """What to start.

    Attributes:
        argv: Program and arguments; never goes through a shell.
        cpus: CPUs it may run on; None leaves the caller's.
        netns: File of the network namespace to start in; None is the caller's.
        scope: The run's cgroup, which it joins before it is the program.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    stdin: int
    output: int
    cpus: frozenset[int] | None = None
    netns: Path | None = None
    scope: Path | None = None


class _SpawnThread:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[SpawnRequest, Future[subprocess.Popen[bytes]]]] = (
            queue.SimpleQueue()
        )
        # A daemon: it must outlive everything else in this process.
        threading.Thread(target=self._serve, name="vnetperf-spawner", daemon=True).start()

    def spawn(self, request: SpawnRequest) -> subprocess.Popen[bytes]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._queue.put((request, future))
        return future.result()

    def _serve(self) -> None:
        while True:
            request, future = self._queue.get()
            try:
                future.set_result(_popen(request))
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                future.set_exception(error)


_thread: _SpawnThread | None = None
_thread_owner = -1
_spawner_lock = threading.Lock()


def spawn_process(request: SpawnRequest) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when this process ends, however it ends."""
    global _thread, _thread_owner  # one spawner a process
    with _spawner_lock:
        if _thread is None or _thread_owner != os.getpid():  # a fork does not copy threads
            _thread, _thread_owner = _SpawnThread(), os.getpid()
    return _thread.spawn(request)


def _popen(request: SpawnRequest) -> subprocess.Popen[bytes]:
    home_cpus = os.sched_getaffinity(0)
    home_netns = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if request.netns is not None:
            set_namespace(request.netns)
        if request.cpus is not None:
            os.sched_setaffinity(0, request.cpus)
        return subprocess.Popen(
            [*_scope_prefix(request.scope), *_death_signal_prefix(), *request.argv],
            env=dict(request.env),
            stdin=request.stdin,
            stdout=request.output,
            stderr=request.output,
            start_new_session=True,
        )
    finally:
        if request.cpus is not None:
            os.sched_setaffinity(0, home_cpus)
        if request.netns is not None:
            set_namespace(home_netns)
        os.close(home_netns)


def _scope_prefix(scope: Path | None) -> list[str]:
    """A command that joins a scope, then becomes the program: nothing it starts is outside."""
    if scope is None:
        return []
    script = '{ echo 0 >"$0"; } 2>/dev/null; exec "$@"'
    return ["/bin/sh", "-c", script, str(scope / "cgroup.procs")]


def _death_signal_prefix() -> list[str]:
    """A command that requests the parent-death signal, then becomes the program."""
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if setpriv:
        return [setpriv, "--pdeathsig", "KILL", "--"]
    return [sys.executable, "-I", "-S", "-c", _DEATH_SIGNAL_SCRIPT]


READY_POLL_S = 0.02
#: Longest wait for the exit code of a process that has begun to end, seconds.
LAST_S = 0.2
TAIL_LINES = 20
#: What a program begins its usage with, which it prints when its command line is refused.
USAGE = "usage:"
TAIL_BYTES = 16384


class ManagedProcess:
    """One running program of a run."""

    def __init__(
        self, name: str, argv: tuple[str, ...], log: Path, popen: subprocess.Popen[bytes]
    ) -> None:
        self.name = name
        self.argv = argv
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        """Process id."""
        return self._popen.pid

    def write_line(self, line: str) -> None:
        """Write a line to its standard input; it was started with ``stdin=True``."""
        if self._popen.stdin is None:
            raise ValueError(f"{self.name} has no standard input")
        try:
            self._popen.stdin.write(f"{line}\n".encode())
            self._popen.stdin.flush()
        except (OSError, ValueError) as error:  # ended, or its input was closed
            raise HostError(f"does not take {line!r}: {error}", where=self.name) from error

    def alive(self) -> bool:
        """Whether it still runs; what has begun to end does not."""
        return self._popen.poll() is None and not is_ending(self.pid)

    @property
    def stopped(self) -> bool:
        """Whether it lives but is stopped, so that it does nothing."""
        return self.alive() and is_stopped(self.pid)

    @property
    def returncode(self) -> int | None:
        """Exit code, minus the signal's number when a signal ended it, None while it runs.

        None too while it is ending, and has not ended within `LAST_S`.
        """
        if not self.alive():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(LAST_S)
        return self._popen.returncode

    def log_text(self) -> str:
        """All that it has written so far."""
        try:
            return read_file(self.log)
        except OSError as error:
            return f"(no log: {error})"

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines that it wrote, for a message; without a usage, which hides its cause."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        tail = _without_usage(text.splitlines())[-lines:]
        # It can write no reason there, and what maps a file there ends by SIGBUS.
        if is_full(self.log.parent):
            tail.append(f"(the disk of {self.log.parent} is full: make room there)")
        return "\n".join(tail)

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended."""
        self._popen.send_signal(number)

    def stop(self, timeout_s: float = 5.0) -> int:
        """End it: SIGTERM, and SIGKILL when it has not ended in time. Its descendants stay."""
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        # What is stopped takes no other signal. One that ends may be held for a moment, as by what
        # looks for leaks in it: it is looked at before.
        end = self._popen.kill if self.stopped else self._popen.terminate
        end()  # nothing happens when it has ended already
        code = self._wait(timeout_s)
        if code is None:
            self._popen.kill()
            code = self._wait(timeout_s + 5)
        if code is None:
            raise HostError(
                f"{self.name} (pid {self.pid}) does not end, not even by SIGKILL",
                where=str(self.log),
                cure=f"see /proc/{self.pid}/stack for what in the kernel holds it",
            )
        log.info("%s (pid %d) has ended: exit code %d", self.name, self.pid, code)
        return code

    def _wait(self, limit_s: float) -> int | None:
        """Its exit code; None when it does not end in time."""
        try:
            return self._popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            log.warning("%s (pid %d) does not end within %g s", self.name, self.pid, limit_s)
            return None

    def wait_for(
        self,
        predicate: Callable[[], bool],
        timeout_s: float,
        description: str,
        poll_s: float = READY_POLL_S,
    ) -> None:
        """Wait until the predicate holds."""
        wait_for(
            predicate,
            timeout_s,
            f"{description} of {self.name}",
            poll_s=poll_s,
            check=lambda: self.expect_alive(f"while waiting for {description}"),
            error=lambda: HostError(
                f"{self.name} runs, but {description} did not come within {timeout_s:g} s",
                where=str(self.log),
                cure=f"its last lines:\n{self.log_tail()}",
            ),
        )

    def expect_alive(self, context: str = "") -> None:
        """Raise with its last lines when it has ended."""
        if self.alive():
            return
        code = self.returncode
        names = {number.value: number.name for number in signal.Signals}
        if code is None:
            ending = "has begun to end; how is not known yet"
        else:
            cause = f"exit code {code}" if code >= 0 else f"signal {names.get(-code, -code)}"
            ending = f"ended by {cause}"
        raise HostError(
            f"{self.name} {ending}{' ' + context if context else ''}",
            where=str(self.log),
            cure=f"its command: {' '.join(self.argv)}\nits last lines:\n{self.log_tail()}",
        )


class Processes:
    """The processes of one run."""

    def __init__(
        self, journal: Journal, log_dir: Path, *, mounts: Path = PROC_MOUNTS, proc: Path = PROC
    ) -> None:
        self._journal = journal
        self._log_dir = log_dir
        self._started: list[ManagedProcess] = []
        scope = _find_scope(journal.run_id, mounts, proc)
        self._undo = {"run_id": journal.run_id, "scope": str(scope) if scope else ""}
        # Once a run is enough: undoing ends all that carry its id, whoever started them.
        journal.intend("processes", "start processes", self._undo)
        self.scope = _make_scope(scope)

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a program of this run.

        Its home is a folder of the run's: programs have start files in their user's (those of Open
        MPI, perf, podman), of which a result says nothing.
        """
        home = self._log_dir.with_name("home")
        with contextlib.suppress(OSError):  # the disk is full, or the run ends: there is none then
            home.mkdir(mode=0o700, exist_ok=True)
        # Processes of our own find what was built where it is, whatever their home is.
        places = {"HOME": str(home), "XDG_CACHE_HOME": str(cache_directory().parent)}
        run_id = {RUN_ID_VARIABLE: self._journal.run_id}
        return {**os.environ, **places, **(env or {}), **run_id}

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cpus: Iterable[int] | None = None,
        netns: Path | None = None,
        stdin: bool = False,
    ) -> ManagedProcess:
        """Start a program of this run, from any thread.

        It leads a session of its own, gets SIGKILL when this process dies, and is found by its
        environment when the run is undone, as are all its descendants.
        """
        command = tuple(str(part) for part in argv)
        cpus = None if cpus is None else frozenset(cpus)
        environment = self.environment(env)
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise HostError(
                f"program {command[0]!r} is not installed",
                where=name,
                accepted="an executable file or a name found in PATH",
                cure="install its package, or give its path in the testbed's configuration",
            )
        output_file, output = self._new_log(name)
        try:
            popen = spawn_process(
                SpawnRequest(
                    argv=command,
                    env=environment,
                    stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                    output=output,
                    cpus=cpus,
                    netns=netns,
                    scope=self.scope,
                )
            )
        except UntrustedProgramError:  # which says all
            raise
        except OSError as error:
            raise HostError(
                f"{name} could not be started: {error}",
                where=" ".join(command),
                cure="check that the program, its CPUs and its network namespace exist",
            ) from error
        finally:
            os.close(output)
        process = ManagedProcess(name, command, output_file, popen)
        log.info("start %s (pid %d%s): %s", name, popen.pid, _place(cpus, netns), " ".join(command))
        self._started.append(process)
        self._remember(popen.pid)
        return process

    def stop_all(self, timeout_s: float = 3.0) -> list[HostError]:
        """Stop all that still run, the latest first."""
        errors = []
        for process in reversed(self._started):
            try:
                process.stop(timeout_s)
            except HostError as error:
                errors.append(error)
        return errors

    def _remember(self, pid: int) -> None:
        """Journal the pid too, for programs that overwrite their environment (setproctitle)."""
        identity = ProcessId.read(pid)
        if identity is not None:
            data = {**self._undo, "known": [[identity.pid, identity.start]]}
            self._journal.intend("processes", f"process {pid}", data)

    def _new_log(self, name: str) -> tuple[Path, int]:
        """A file that was not there, and is open for writing; nobody's link is followed."""
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        for number in range(1, 10000):
            log = self._log_dir / (f"{name}.log" if number == 1 else f"{name}-{number}.log")
            with contextlib.suppress(FileExistsError):
                return log, os.open(log, flags, 0o600)
        raise HostError(f"{name} was started too often in one run", where=str(self._log_dir))


def _make_scope(scope: Path | None) -> Path | None:
    """The scope, made; None where the kernel refuses it, or has no processes in such a group."""
    try:
        if scope is not None:
            scope.mkdir()
            if read_file(scope / "cgroup.type").strip() == "domain":
                return scope
            scope.rmdir()
    except OSError as error:
        log.info("no scope for the run's processes: %s", error)
    return None


def _place(cpus: Iterable[int] | None, netns: Path | None) -> str:
    on = f", CPUs {','.join(map(str, sorted(cpus)))}" if cpus is not None else ""
    return on + (f", namespace {netns.name}" if netns is not None else "")


def _without_usage(lines: list[str]) -> list[str]:
    """What a program wrote, less the options of its usage, if it has one, and their headings."""
    first = next((n for n, line in enumerate(lines) if line.lower().startswith(USAGE)), len(lines))
    kept: list[str] = []
    in_options = False
    for line in lines[first + 1 :]:
        is_option = line.lstrip().startswith("-")
        if is_option and kept and kept[-1].endswith(":"):
            del kept[-1]
        # What is indented below an option goes on with it.
        in_options = is_option or (in_options and line[:1] in {" ", "\t"})
        if line.strip() and not in_options:
            kept.append(line)
    return lines[: first + 1] + kept
