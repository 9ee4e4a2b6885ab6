"""One guest: started, waited for, looked at, ended. Every error ends with its console's tail."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

from vnetperf.host.cpulist import format_cpus
from vnetperf.host.identity import ProcessId
from vnetperf.host.patience import patient
from vnetperf.host.threads import list_threads
from vnetperf.launchers.vm.agent import GuestAgent
from vnetperf.launchers.vm.domain import Domain
from vnetperf.launchers.vm.render import domain_xml
from vnetperf.launchers.vm.session import Session
from vnetperf.model.errors import DutError, HostError

PROC = Path("/proc")
#: What QEMU calls the threads of vCPUs: "CPU 1/KVM", "CPU 1/TCG".
VCPU_THREAD = re.compile(r"CPU (\d+)/")
#: What it calls those of I/O threads.
IO_THREAD = re.compile(r"IO iothread(\d+)")
CONSOLE_LINES, CONSOLE_BYTES = 15, 16384
#: A guest that is not up after this is on a slow machine, seconds.
QUICK_S = 10.0
PING_S = 2
TRIES = 3
#: What a kernel says when it gives up.
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
#: QEMU's own words in its log, apart from what it tells of its way.
WORDS = re.compile(r"qemu-system\S*: (?!.*\binfo: )")
#: What it says when it finds itself in a state that it holds to be impossible.
ABORT = re.compile(r"Assertion `.*' failed|^Bail out!", re.MULTILINE)
SHOWN = re.compile(r"[^\x20-\x7e\n]")


class Guest:
    """A guest of a session.

    Args:
        session: The session.
        domain: What it is made of.
    """

    def __init__(self, session: Session, domain: Domain) -> None:
        self.session = session
        self.domain = domain
        self.agent = GuestAgent(domain.name, self._ask)
        self.boot_s = 0.0
        self._process: ProcessId | None = None
        self._stopped = False

    def _ask(self, command: str, seconds: int) -> str:
        answer = self.session.call(
            "agent",
            timeout_s=seconds + 10,
            domain=self.domain.name,
            command=command,
            seconds=seconds,
        )
        return str(answer)

    def start(self) -> None:
        """Start it; it boots when this returns.

        Raises:
            DutError: libvirt or QEMU refuses, or it was stopped meanwhile.
        """
        try:
            self.session.call("start", xml=domain_xml(self.domain))
        except HostError as error:
            raise self.error(f"does not start: {error.what}") from error
        if self._stopped:
            self.stop()  # nobody else knows of it
            raise self.error("was stopped while it started")
        self._process = ProcessId.of(self._find_process())

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until its agent answers.

        Args:
            timeout_s: Longest wait, seconds.

        Raises:
            DutError: It panicked, ended, or its agent does not answer in time.
        """
        began = time.monotonic()
        while not self.agent.answers(PING_S):
            self.check_alive()
            if time.monotonic() - began > patient(timeout_s):
                raise self.error(
                    f"runs, but its agent does not answer within {timeout_s:g} s",
                    cure="see its console for how far it came; an image needs qemu-guest-agent, "
                    "and a slow machine more time: --guest boot_s=SECONDS",
                )
            # Asking takes processor time, which a slow machine needs for the guest itself.
            time.sleep(0.05 if time.monotonic() - began < QUICK_S else 1.0)
        self.boot_s = time.monotonic() - began

    def boot(self, timeout_s: float) -> None:
        """Start it and wait until its agent answers.

        QEMU's emulation with several processors aborts now and then while the firmware or the
        kernel moves devices. Nothing has been done by then, and it is started again.

        Args:
            timeout_s: Longest wait for the agent, seconds.

        Raises:
            DutError: As of `start` and `wait_ready`.
        """
        for attempt in range(TRIES):
            said_before = len(self._log())
            try:
                self.start()
                self.wait_ready(timeout_s)
                return
            except DutError:
                emulated = self.domain.accelerator == "tcg"
                again = emulated and not self._stopped and attempt < TRIES - 1
                aborted = ABORT.search(self._log()[said_before:]) or not self._console()
                if not again or self._alive() or not aborted:
                    raise

    def _alive(self) -> bool:
        if self._process is not None:
            return self._process.alive()
        return str(self.session.call("state", domain=self.domain.name)) == "running"

    @property
    def pid(self) -> int:
        """Process id of its QEMU on this machine; 0 when it is not a process of this run."""
        return self._process.pid if self._process is not None else 0

    def check_alive(self) -> None:
        """Raise when it has ended. Cheap for a guest of this run.

        Raises:
            DutError: It has ended, with its console's tail.
        """
        if not self._alive():
            panic = PANIC.search(self._console())
            raise self.error(f"panicked: {panic[1].strip()}" if panic else "has ended")

    def error(self, what: str, *, cure: str = "") -> DutError:
        """An error of this guest, with the tail of its console and of QEMU's log.

        Args:
            what: What is wrong.
            cure: What can be done.

        Returns:
            The error, to be raised.
        """
        # The first lines of QEMU's log are its command.
        said = [line for line in self._log().splitlines() if WORDS.search(line)]
        qemu = f"; QEMU said last: {said[-1]}" if said else ""
        lines = [line.rstrip() for line in self._console().splitlines() if line.strip()]
        tail = "\n    ".join(lines[-CONSOLE_LINES:]) or "(nothing)"
        return DutError(
            f"the guest {what}{qemu}; its console ends with:\n    {tail}",
            where=self.domain.name,
            cure=cure,
        )

    def _log(self) -> str:
        """All that QEMU wrote, of earlier starts too."""
        file = self.session.directory / "log/qemu" / f"{self.domain.name}.log"
        try:
            return SHOWN.sub("", file.read_text(errors="replace"))
        except OSError:
            return ""

    def _console(self) -> str:
        return _tail(self.domain.console)

    def _find_process(self) -> int:
        """Its QEMU among the processes of the session's namespace; 0 for a daemon's guest."""
        if not self.session.private:
            return 0
        wanted = f"guest={self.domain.name},".encode()
        try:
            # The same name may run in another run.
            home = (PROC / f"{self.session.process.pid}/ns/pid_for_children").readlink()
        except OSError:
            home = Path()
        for path in PROC.glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if wanted in path.read_bytes() and (path.parent / "ns/pid").readlink() == home:
                    return int(path.parent.name)
        raise self.error("started, but its process is not there")

    def interface(self, mac: str) -> str:
        """Name in the guest of a NIC.

        Args:
            mac: Its address.

        Returns:
            The name.

        Raises:
            DutError: There is no such NIC.
        """
        found = self.agent.interfaces()
        if mac not in found:
            raise self.error(f"has no NIC {mac}, it has {', '.join(sorted(found)) or 'none'}")
        return found[mac]

    def vcpu_threads(self) -> dict[int, int]:
        """Its vCPUs' threads.

        Returns:
            Number of the vCPU -> thread id.
        """
        found = {}
        for thread in list_threads(self.pid) if self.pid else ():
            if match := VCPU_THREAD.match(thread.name):
                found[int(match[1])] = thread.tid
        return found

    def placement(self) -> dict[str, Any]:
        """Where its threads and its memory really are, read back from the kernel.

        Returns:
            "vCPU 0" -> "processors 2", "emulator" -> ..., "memory by node, MiB" -> ...
        """
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
        return memory_by_node((PROC / f"{self.pid}/numa_maps").read_text(), self.domain.memory_mib)

    def check_pins(self) -> None:
        """Compare the pins that were asked for with those of the threads.

        Raises:
            DutError: A vCPU may run elsewhere.
        """
        threads = self.vcpu_threads()
        for number, cpus in enumerate(self.domain.vcpu_pins if self.pid else ()):
            taken = os.sched_getaffinity(threads[number]) if number in threads else set()
            if taken != set(cpus):
                raise self.error(
                    f"has vCPU {number} on processors {format_cpus(taken) or 'unknown'} "
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


def _tail(file: Path) -> str:
    """The end of a file, without what a terminal would take for commands."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - CONSOLE_BYTES))
            return SHOWN.sub("", opened.read().decode(errors="replace"))
    except OSError:
        return ""


def memory_by_node(numa_maps: str, memory_mib: int) -> dict[str, int]:
    """Memory of the largest mapping, which is the guest's, by node.

    Args:
        numa_maps: Text of /proc/PID/numa_maps.
        memory_mib: What the guest has, MiB.

    Returns:
        "node 0" -> MiB; empty when no mapping is as large as an eighth of it.
    """
    best: dict[str, int] = {}
    for line in numa_maps.splitlines():
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        pages = re.findall(r"\bN(\d+)=(\d+)", line)
        if size and pages:
            here = {f"node {node}": int(count) * int(size[1]) // 1024 for node, count in pages}
            if sum(here.values()) > sum(best.values()):
                best = here
    return best if sum(best.values()) * 8 >= memory_mib else {}
