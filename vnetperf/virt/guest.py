"""Guests of a run: the libvirt session they belong to, their life, their threads and memory.

Every error of a guest ends with the tail of its console.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from vnetperf.host.cpu import format_cpus
from vnetperf.host.linux import (
    PROC,
    UNSHARE,
    ProcessId,
    is_stopped,
    parse_json,
    python_argv,
    read_file,
    try_read,
)
from vnetperf.host.machine import Machine
from vnetperf.host.paths import read_end
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.threads import Thread, list_threads, pin_thread
from vnetperf.host.wait import patient, receive, wait_at_most, wait_for
from vnetperf.model.errors import DutError, HostError
from vnetperf.virt.domain import Domain, NetdevBacking, VfBacking, domain_xml
from vnetperf.virt.guest_agent import GuestAgent
from vnetperf.virt.session_server import EMBEDDED, save_capabilities

log = logging.getLogger(__name__)

OPEN_S = 20.0
CALL_S = 60.0
#: A process namespace whose first process takes all others with it.


class LibvirtSession:
    """A connection to libvirt."""

    def __init__(self, machine: Machine, uri: str = "", *, in_netns: bool = False) -> None:
        self._uri = uri or EMBEDDED
        # Short: libvirt's sockets are deep below it. New: guests can write to a session's.
        directory = machine.new_subdir("lv")
        self.directory = directory
        self._socket = directory / "session.sock"
        self._learning, self._learned = threading.Lock(), not self.private
        python = python_argv("vnetperf.virt.session_server")
        self.process: ManagedProcess = machine.spawn(
            "libvirt",
            [*(UNSHARE if not uri else ()), *python, str(self._socket), self._uri, str(directory)],
            isolated=in_netns or not uri,  # QEMU has no way out but the guest's own NICs
            keep_stdin_open=True,  # closed when it is stopped: unshare keeps signals to itself
        )

    @property
    def private(self) -> bool:
        """True when its guests are children of this run."""
        return self._uri == EMBEDDED

    def learn(self, emulator: Path, accelerator: str) -> None:
        """Let libvirt ask QEMU what it can, and keep that for later runs.

        Before the first guest runs: one that took over QEMU could change it afterwards.
        """
        with self._learning:
            if not self._learned:
                self.call("capabilities", emulator=str(emulator), accelerator=accelerator)
                save_capabilities(self.directory)
                self._learned = True

    def call(
        self,
        name: str,
        *,
        timeout_s: float = CALL_S,
        check: Callable[[], None] = lambda: None,
        **arguments: Any,
    ) -> Any:
        """Make a call; any thread may.

        `check` is called while the answer is waited for, and raises when none will come.
        """
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(patient(timeout_s))
            try:
                self._connect(connection)
                connection.sendall(json.dumps({"call": name, **arguments}).encode() + b"\n")
                line = b""
                while not line.endswith(b"\n") and (
                    chunk := receive(connection, 65536, patient(timeout_s), check)
                ):
                    line += chunk
            except TimeoutError as error:
                raise HostError(f"no answer to {name} in time", where=self._uri) from error
            except OSError as error:
                raise HostError(f"libvirt is not there: {error}", where=self._uri) from error
        if not line:
            self.process.expect_alive(f"during the call {name}")
            raise HostError(f"libvirt gave no answer to {name}", where=self._uri)
        answer = parse_json(line)
        if "error" in answer:
            raise HostError(answer["error"], where=self._uri)
        return answer["ok"]

    def _connect(self, connection: socket.socket) -> None:
        def listens() -> bool:
            try:
                connection.connect(str(self._socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            return True

        self.process.wait_for(listens, OPEN_S, "its socket")

    def close(self) -> None:
        """End it and every guest of it. Idempotent."""
        self.process.stop(timeout_s=2.0)


_sessions: WeakKeyDictionary[Machine, LibvirtSession] = WeakKeyDictionary()
_sessions_lock = threading.Lock()


def open_session(machine: Machine, uri: str = "", *, in_netns: bool = False) -> LibvirtSession:
    """The run's session, started at the first call."""
    with _sessions_lock:
        session = _sessions.get(machine)
        if session is None or not session.process.alive():
            session = _sessions[machine] = LibvirtSession(machine, uri, in_netns=in_netns)
        return session


def vhost_threads(pid: int) -> tuple[Thread, ...]:
    """Threads that vhost-net runs for a guest.

    Since Linux 6.4 they are threads of QEMU, before they are threads of the kernel; both are
    called after QEMU's process.
    """
    inside = tuple(thread for thread in list_threads(pid) if thread.name.startswith("vhost-"))
    return inside or tuple(
        thread
        for path in PROC.glob("[0-9]*/comm")
        if try_read(path) == f"vhost-{pid}"[:15]
        for thread in list_threads(int(path.parent.name))
    )


def pin_vhost(pid: int, cpus: tuple[int, ...]) -> None:
    """Bind the threads of vhost-net to processors, and verify it."""
    for thread in vhost_threads(pid):
        pin_thread(thread.tid, cpus)


def vhost_placement(pid: int) -> dict[str, str]:
    """Where the threads of vhost-net are, read back from the kernel."""
    threads = vhost_threads(pid)
    return {f"vhost {number}": format_cpus(t.cpus) for number, t in enumerate(threads)}


#: What QEMU calls the threads of vCPUs: "CPU 1/KVM", "CPU 1/TCG".
VCPU_THREAD = re.compile(r"CPU (\d+)/")
#: What it calls those of I/O threads.
IO_THREAD = re.compile(r"IO iothread(\d+)")
CONSOLE_LINES, CONSOLE_BYTES, LOG_BYTES = 15, 16384, 1 << 24
#: A guest that is not up after this is on a slow machine, seconds.
QUICK_S = 10.0
PING_S = 2
START_TRIES = 3
#: Longest wait until libvirt has seen the end of one that aborted, seconds.
FORGET_S = 5.0
#: A kernel's last message.
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
#: QEMU's messages in its log, without those at level info.
QEMU_MESSAGE = re.compile(r"qemu-system\S*: (?!.*\binfo: )")
#: Its messages at a failed assertion.
QEMU_ABORT = re.compile(r"Assertion `.*' failed|^Bail out!", re.MULTILINE)
UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")


class Guest:
    """A guest of a session."""

    def __init__(self, session: LibvirtSession, domain: Domain) -> None:
        self.session = session
        self.domain = domain
        self.agent = GuestAgent(domain.name, self._send)
        self.boot_s = 0.0
        self.process: ProcessId | None = None
        self._stopped = False

    def _send(self, command: str, seconds: int) -> str:
        answer = self.session.call(
            "agent",
            timeout_s=seconds + 10,
            check=self._check_process,
            domain=self.domain.name,
            command=command,
            seconds=seconds,
        )
        return str(answer)

    def start(self) -> None:
        """Start it; it boots when this returns."""
        try:
            self.session.learn(self.domain.emulator, self.domain.accelerator)
            backings = [nic.backing for nic in self.domain.nics]
            self.session.call(
                "start",
                xml=domain_xml(self.domain),
                taps=[backing.netdev for backing in backings if isinstance(backing, NetdevBacking)],
                functions=[backing.pci for backing in backings if isinstance(backing, VfBacking)],
                directories=self.domain.written_directories,
            )
        except HostError as error:
            raise self.error(f"does not start: {error.what}") from error
        if self._stopped:
            self.stop()  # nobody else knows of it
            raise self.error("was stopped while it started")
        self.process = ProcessId.read(self._find_process())
        log.info("guest %s started, accelerator %s", self.domain.name, self.domain.accelerator)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until its agent answers."""
        began = time.monotonic()

        def pause() -> None:
            self.check_alive()
            # A ping takes CPU time, which a slow machine needs for the guest itself.
            if time.monotonic() - began > QUICK_S:
                time.sleep(1.0)

        wait_for(
            lambda: self.agent.answers(PING_S),
            timeout_s,
            f"the agent of guest {self.domain.name}",
            poll_s=0.05,
            check=pause,
            error=lambda: self.error(
                f"runs, but its agent does not answer within {timeout_s:g} s",
                cure="see its console for how far it came; an image needs qemu-guest-agent, "
                "and a slow machine more time: --guest boot_s=SECONDS",
            ),
        )
        self.boot_s = time.monotonic() - began
        log.info("guest %s: its agent answers after %.1f s", self.domain.name, self.boot_s)

    def boot(self, timeout_s: float) -> None:
        """Start it and wait until its agent answers.

        QEMU's emulation with several processors aborts now and then while the firmware or the
        kernel moves devices. Nothing has been done by then, and it is started again.
        """
        for attempt in range(START_TRIES):
            logged = len(self._log())
            try:
                self.start()
                self.wait_ready(timeout_s)
                return
            except DutError:
                emulated = self.domain.accelerator == "tcg"
                again = emulated and not self._stopped and attempt < START_TRIES - 1
                aborted = QEMU_ABORT.search(self._log()[logged:]) or not self._console()
                if not again or self._alive() or not aborted:
                    raise
                log.warning("guest %s: QEMU aborted, it is started again", self.domain.name)
                self._forget()

    def _forget(self) -> None:
        """See that libvirt has noticed its end: there is no other of its name until then."""
        name = self.domain.name
        with contextlib.suppress(HostError):  # it has just done so
            self.session.call("destroy", domain=name)
        wait_at_most(
            lambda: not self.session.call("has_guest", domain=name), FORGET_S, f"{name}'s end"
        )

    def _alive(self) -> bool:
        if self.process is not None:
            return self.process.alive()
        return bool(self.session.call("running", domain=self.domain.name))

    @property
    def pid(self) -> int:
        """Process id of its QEMU on this machine; 0 when it is not a process of this run."""
        return self.process.pid if self.process is not None else 0

    def check_alive(self) -> None:
        """Raise when it has ended, or is stopped. Cheap for a guest of this run."""
        if not self._alive():
            panic = PANIC.search(self._console())
            raise self.error(f"panicked: {panic[1].strip()}" if panic else "has ended")
        if self.pid and is_stopped(self.pid):
            raise self.error(f"does not run: QEMU (pid {self.pid}) is stopped by a signal")

    def _check_process(self) -> None:
        """Raise when its QEMU, where that is a process of this run, has ended or is stopped."""
        if self.process is not None:
            self.check_alive()

    def error(self, symptom: str, *, cure: str = "") -> DutError:
        """An error of this guest, with the tail of its console and of QEMU's log."""
        # The first lines of QEMU's log are its command.
        logged = [line for line in self._log().splitlines() if QEMU_MESSAGE.search(line)]
        qemu = f"; QEMU's last message: {logged[-1]}" if logged else ""
        lines = [line.rstrip() for line in self._console().splitlines() if line.strip()]
        tail = "\n    ".join(lines[-CONSOLE_LINES:]) or "(nothing)"
        return DutError(
            f"the guest {symptom}{qemu}; its console ends with:\n    {tail}",
            where=self.domain.name,
            cure=cure,
        )

    def _log(self) -> str:
        """All that QEMU wrote, of earlier starts too."""
        file = self.session.directory / "log/qemu" / f"{self.domain.name}.log"
        return read_output(file, LOG_BYTES)

    def _console(self) -> str:
        return read_output(self.domain.console, CONSOLE_BYTES)

    def _find_process(self) -> int:
        """Its QEMU among the processes of the session's namespace; 0 for a daemon's guest."""
        if not self.session.private:
            return 0
        argument = f"guest={self.domain.name},".encode()
        try:
            # The same name may run in another run.
            home = (PROC / f"{self.session.process.pid}/ns/pid_for_children").readlink()
        except OSError:
            home = Path()
        for path in PROC.glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if argument in path.read_bytes() and (path.parent / "ns/pid").readlink() == home:
                    return int(path.parent.name)
        raise self.error("started, but its process is not there")

    def interface(self, mac: str) -> str:
        """Name in the guest of a NIC."""
        names = self.agent.interfaces()
        if mac not in names:
            raise self.error(f"has no NIC {mac}, it has {', '.join(sorted(names)) or 'none'}")
        return names[mac]

    def vcpu_threads(self) -> dict[int, int]:
        """Its vCPUs' threads."""
        threads = {}
        for thread in list_threads(self.pid) if self.pid else ():
            if match := VCPU_THREAD.match(thread.name):
                threads[int(match[1])] = thread.tid
        return threads

    def placement(self) -> dict[str, Any]:
        """Where its threads and its memory really are, read back from the kernel."""
        if not self.pid:
            pins = self.session.call("pins", domain=self.domain.name)
            placed = {f"vCPU {n}": format_cpus(cpus) for n, cpus in enumerate(pins["vcpus"])}
            return {**placed, "emulator": format_cpus(pins["emulator"])}
        placed = {}
        others = set()
        for thread in list_threads(self.pid):
            cpus = format_cpus(thread.cpus)
            if match := VCPU_THREAD.match(thread.name):
                placed[f"vCPU {match[1]}"] = cpus
            elif match := IO_THREAD.match(thread.name):
                placed[f"I/O thread {match[1]}"] = cpus
            elif not thread.name.startswith("vhost-"):
                others.add(cpus)
        return {**placed, "emulator": " and ".join(sorted(others)), "memory, MiB": self._memory()}

    def _memory(self) -> dict[str, int]:
        """Its memory by node of the host; the kernel counts pages of each mapping."""
        return memory_by_node(read_file(PROC / f"{self.pid}/numa_maps"), self.domain.memory_mib)

    def check_pins(self) -> None:
        """Compare the requested pins with those of the threads."""
        threads = self.vcpu_threads()
        for number, cpus in enumerate(self.domain.vcpu_pins if self.pid else ()):
            affinity = os.sched_getaffinity(threads[number]) if number in threads else set()
            if affinity != set(cpus):
                raise self.error(
                    f"has vCPU {number} on processors {format_cpus(affinity) or 'unknown'} "
                    f"instead of {format_cpus(cpus)}"
                )

    def stop(self) -> None:
        """End it. Idempotent; it does not start again."""
        self._stopped = True
        try:
            self.session.call("destroy", timeout_s=5.0, domain=self.domain.name)
        except HostError:
            if self.session.process.alive():
                raise


def read_output(file: Path, most: int) -> str:
    """Read the end of what QEMU wrote, without what a terminal would take for commands."""
    return UNPRINTABLE.sub("", read_end(file, most))


def memory_by_node(numa_maps: str, memory_mib: int) -> dict[str, int]:
    """Memory of the largest mapping, which is the guest's, by node."""
    best: dict[str, int] = {}
    for line in numa_maps.splitlines():
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        pages = re.findall(r"\bN(\d+)=(\d+)", line)
        if size and pages:
            mapping_mib = {
                f"node {node}": int(count) * int(size[1]) // 1024 for node, count in pages
            }
            if sum(mapping_mib.values()) > sum(best.values()):
                best = mapping_mib
    return best if sum(best.values()) * 8 >= memory_mib else {}
