"""Runs a command in the lab: starts QEMU, relays its input, output, signals and exit status."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from vnetperf.host.linux import TICKS_PER_S, read_process_times, try_read
from vnetperf.model.errors import HostError
from vnetperf.virt import lab_boot
from vnetperf.virt.kernel import Kernel, make_lab_dir
from vnetperf.virt.kvm import kvm_proof
from vnetperf.virt.lab_boot import LabMachine
from vnetperf.virt.tools import leashed

log = logging.getLogger(__name__)

CHUNK = 65536


class Relay:
    """The host's ends of the guest's ports."""

    def __init__(self, ends: Mapping[str, socket.socket], out: int = 1, err: int = 2) -> None:
        self._ends = ends
        self._selector = selectors.DefaultSelector()
        self._targets = {"out": out, "err": err}
        self._heard = b""
        self.closed = False
        for name in ("out", "err", "ctl"):
            self._selector.register(ends[name], selectors.EVENT_READ, name)

    def turn(self, timeout_s: float) -> Iterator[tuple[str, str]]:
        """Carry what is there; what the guest says of itself comes first.

        Who reads the command's output may send it a signal, for which it must be known to run.
        """
        ready_keys = [key for key, _ in self._selector.select(timeout_s)]
        for key in sorted(ready_keys, key=lambda channel: channel.data != "ctl"):
            end = self._ends[key.data]
            try:
                octets = end.recv(CHUNK)
            except ConnectionResetError:  # QEMU ended with something of ours unread
                octets = b""
            if not octets:
                self._selector.unregister(end)
                self.closed = self.closed or key.data == "ctl"
            elif key.data == "ctl":
                *lines, self._heard = (self._heard + octets).split(b"\n")
                for line in lines:
                    word, _, rest = line.decode(errors="replace").partition(" ")
                    yield word, rest
            else:
                _write_all(self._targets[key.data], octets)

    def drain(self) -> Iterator[tuple[str, str]]:
        """Carry what is still on its way, until nothing has come for a moment.

        Not a `wait_for`: each turn waits for the sockets, and none is worth a line of the log.
        """
        end = time.monotonic() + 10.0
        while self._selector.get_map() and time.monotonic() < end:
            if not self._selector.select(0.2):
                return
            yield from self.turn(0)

    def send(self, word: str) -> None:
        """Send a line to the guest on its control port."""
        with contextlib.suppress(OSError):
            self._ends["ctl"].sendall(word.encode() + b"\n")

    def feed(self, source: int) -> None:
        """Carry a file descriptor's content to the command's standard input, to its end."""
        try:
            while octets := os.read(source, CHUNK):
                self._ends["in"].sendall(octets)
            self._ends["in"].shutdown(socket.SHUT_WR)
        except OSError:
            return  # the lab has ended


def _write_all(target: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(target, octets) :]


#: Whoever uses a run's directory has its lock.
_LOCK = "lock"


@contextlib.contextmanager
def run_dir() -> Iterator[Path]:
    """A private directory for one run of the lab, removed at its end."""
    path = make_lab_dir() / "runs" / f"{os.getpid()}-{secrets.token_hex(3)}"
    with HostError.explain_os_error(
        "a directory for this run cannot be made",
        where=str(path),
        accepted="a disk with room that you may write to",
        cure="set XDG_CACHE_HOME to a directory on one",
    ):
        path.parent.mkdir(exist_ok=True)
        with contextlib.closing(_locked(path.parent.with_suffix(".lock"))):
            _remove_stale(path.parent)
            path.mkdir(mode=0o700)
            lock = _locked(path / _LOCK)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        lock.close()


def _remove_stale(folder: Path) -> None:
    """Remove what processes that were killed have left; others may be of another container."""
    for path in folder.iterdir():
        with (
            contextlib.suppress(OSError),  # somebody has it
            contextlib.closing(_locked(path / _LOCK, fcntl.LOCK_NB)),
        ):
            shutil.rmtree(path, ignore_errors=True)


def _locked(path: Path, flags: int = 0) -> IO[bytes]:
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | flags)
    except OSError:
        file.close()
        raise
    return file


#: Longest that a start may take; emulated on a very busy machine it takes two minutes.
BOOT_S = 300.0
#: A start takes 20 s of processor time, however busy the machine is: QEMU hangs that took so much.
BOOT_CPU_S = 120.0
#: After Ctrl-C the command has this long to end by itself.
GRACE_S = 30.0
TIMED_OUT = 124
#: QEMU's emulation with several processors crashes once in some thirty starts, while the firmware
#: moves devices (iotlb_to_section: Assertion failed).
STARTS = 3
#: QEMU's sockets close some time before it can be waited for, seconds.
END_S = 5.0


@dataclass(frozen=True, slots=True)
class Task:
    """What to run in the lab.

    Attributes:
        cwd: Where it starts; a directory of the host that the guest sees too.
        shares: Directories that it may write to for good.
        kept: Directories that are read once, and that it may not write to even below `shares`.
        terminal: Rows and columns when it gets a terminal, else None.
        raw: Whether every key goes to it, Ctrl-C too; else Ctrl-C interrupts it from here.
    """

    argv: Sequence[str]
    cwd: Path
    shares: Sequence[Path] = ()
    kept: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    terminal: tuple[int, int] | None = None
    raw: bool = False
    timeout_s: float | None = None


def choose_accelerator(machine: LabMachine, choice: str, qemu: str, kernel: Kernel) -> LabMachine:
    """The machine with the wanted accelerator; "auto" takes KVM where it is proved."""
    proof = kvm_proof(qemu, kernel.image) if choice != "tcg" else None
    if proof is not None and proof.works:
        return replace(machine, accelerator="kvm")
    if proof is not None and choice == "kvm":
        raise HostError(
            f"hardware acceleration does not work: {proof.why}",
            where="--accel kvm",
            cure="use --accel auto, or see `vnetperf lab doctor`",
        )
    return machine


def run(task: Task, kernel: Kernel, machine: LabMachine, tell: Callable[[str], None]) -> int:
    """Run a command in the lab."""
    for _ in range(STARTS - 1):
        try:
            return _start(task, kernel, machine, tell)
        except CrashedError as error:
            tell(f"QEMU {error.symptom} before the command started, once more: {error.last_line}")
    return _start(task, kernel, machine, tell)


class _LabError(HostError):
    """The lab's machine failed; the cure ends with what QEMU and the console printed last."""

    def __init__(self, message: str, directory: Path) -> None:
        logs = [_tail(directory / name) for name in ("qemu.log", "console.log")]
        last = "\n".join(text for text in logs if text)
        cure = "see `vnetperf lab doctor`" + (f"; its last lines:\n{last}" if last else "")
        super().__init__(message, where="vnetperf lab", cure=cure)


class CrashedError(_LabError):
    """QEMU ended by a signal, or hangs, before the command started; nothing has been done yet."""

    def __init__(self, message: str, directory: Path, symptom: str, file: str) -> None:
        super().__init__(message, directory)
        self.symptom, self.last_line = symptom, _tail(directory / file, 1) or "nothing printed"


@dataclass
class LabGuest:
    """A machine of the lab that starts or runs; its command has to start until `deadline`."""

    qemu: subprocess.Popen[bytes]
    relay: Relay
    directory: Path
    ready: bool = False
    deadline: float = field(default_factory=lambda: time.monotonic() + BOOT_S)

    def turn(self, timeout_s: float) -> Iterator[tuple[str, str]]:
        """Carry what is there, and give the guest's words; fails when the machine has failed."""
        for word, rest in self.relay.turn(timeout_s):
            if word == "failed":
                raise _LabError(f"the guest could not be prepared: {rest}", self.directory)
            self.ready = self.ready or word == "ready"
            yield word, rest
        if self.relay.closed or self.qemu.poll() is not None:
            # Where our output is read slowly, it may have said how the command ended long ago.
            yield from (notice for notice in self.relay.drain() if notice[0] == "exit")
            raise self._ended()
        if not self.ready and _cpu_seconds(self.qemu.pid) > BOOT_CPU_S:
            raise _hung(f"{BOOT_CPU_S:g} s of processor time", self.directory)
        if not self.ready and time.monotonic() > self.deadline:
            raise _hung(f"{BOOT_S:g} s", self.directory)

    def _ended(self) -> HostError:
        if self.ready:
            return _LabError("the lab's machine ended while the command ran", self.directory)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.qemu.wait(END_S)  # its sockets close before it can be waited for
        message = "the lab's machine ended before the command started"
        if self.qemu.returncode is None or self.qemu.returncode >= 0:
            return _LabError(message, self.directory)
        return CrashedError(message, self.directory, "crashed", "qemu.log")


@contextlib.contextmanager
def started(
    task: Task,
    kernel: Kernel,
    machine: LabMachine,
    directory: Path,
    outputs: tuple[int, int] = (1, 2),
) -> Iterator[LabGuest]:
    """A machine that starts, and is gone at the end."""
    with contextlib.ExitStack() as stack:
        ours, guest_ends = {}, {}
        for name in lab_boot.PORTS:
            ours[name], guest_ends[name] = socket.socketpair()
            stack.callback(ours[name].close)
            stack.callback(guest_ends[name].close)
        argv = _prepared(task, kernel, machine, directory, guest_ends)
        log.info("starting the lab: %s", shlex.join(argv))
        descriptors = [end.fileno() for end in guest_ends.values()]
        qemu = stack.enter_context(leashed(argv, directory / "qemu.log", pass_fds=descriptors))
        for end in guest_ends.values():
            end.close()  # so that the end of QEMU is the end of our sockets
        yield LabGuest(qemu, Relay(ours, *outputs), directory)


def _start(task: Task, kernel: Kernel, machine: LabMachine, tell: Callable[[str], None]) -> int:
    with contextlib.ExitStack() as stack:
        watch = _Watch(task, tell)
        stack.enter_context(signals(watch.interrupt))
        directory = stack.enter_context(run_dir())
        guest = stack.enter_context(started(task, kernel, machine, directory))
        if task.raw:
            stack.enter_context(_raw_terminal())
        return watch.wait(guest)


def _prepared(
    task: Task,
    kernel: Kernel,
    machine: LabMachine,
    directory: Path,
    ports: Mapping[str, socket.socket],
) -> list[str]:
    """The guest's scripts written, and QEMU's command line."""
    script = lab_boot.write_scripts(
        directory,
        modules=kernel.modules,
        shares=task.shares,
        kept=[path for path in task.kept if _below(path, task.shares)],
        cwd=task.cwd,
        environment=task.environment,
        argv=task.argv,
        terminal=task.terminal,
    )
    descriptors = {name: end.fileno() for name, end in ports.items()}
    return lab_boot.qemu_command(
        kernel, machine, directory, script=script, shares=task.shares, ports=descriptors
    )


class _Watch:
    """Waits for the command's end, whichever way it comes."""

    def __init__(self, task: Task, tell: Callable[[str], None]) -> None:
        self._task = task
        self._tell = tell
        self._deadline = float("inf")
        self._relay: Relay | None = None  # there is one once the command runs
        self._interrupted = 0

    def wait(self, guest: LabGuest) -> int:
        """Wait; see `run`.

        Not a `wait_for`: each turn relays what has come, and the deadline moves when the command
        starts and when it is interrupted.
        """
        while True:
            for word, rest in guest.turn(0.25):
                if word == "ready":
                    self._start(guest.relay)
                elif word == "exit":
                    for _ in guest.relay.drain():
                        pass
                    return int(rest)
            if time.monotonic() > self._deadline:
                return self._overdue()

    def interrupt(self) -> None:
        """Interrupt the command; before it runs, and the second time, the whole lab."""
        self._interrupted += 1
        if self._relay is None or self._interrupted > 1:
            raise KeyboardInterrupt
        self._tell("interrupting the command; once more ends the lab at once")
        self._relay.send("INT")
        self._deadline = min(self._deadline, time.monotonic() + GRACE_S)

    def _start(self, relay: Relay) -> None:
        self._relay = relay
        limit = self._task.timeout_s
        self._deadline = float("inf") if limit is None else time.monotonic() + limit
        # Reading may block for ever: a thread that nobody waits for.
        threading.Thread(target=relay.feed, args=(0,), daemon=True).start()

    def _overdue(self) -> int:
        if self._interrupted:
            raise KeyboardInterrupt
        self._tell(f"the command did not end within {self._task.timeout_s:g} s: ended")
        return TIMED_OUT


def _hung(limit: str, directory: Path) -> CrashedError:
    return CrashedError(f"the lab did not start within {limit}", directory, "hung", "console.log")


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has taken, seconds; 0 for one that is gone."""
    times = read_process_times(pid)
    return times.used / TICKS_PER_S if times else 0.0


def _below(path: Path, shares: Sequence[Path]) -> bool:
    return any(path.is_relative_to(share) for share in shares)


@contextlib.contextmanager
def signals(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """SIGINT calls; SIGTERM and SIGHUP end the lab by an exception. Ignored ones stay ignored."""

    def interrupt(number: int, frame: object) -> None:
        on_interrupt()

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def terminal_size() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    size = os.get_terminal_size(1)
    return size.lines, size.columns


def _tail(path: Path, lines: int = 12) -> str:
    return "\n".join(try_read(path).splitlines()[-lines:])
