"""The process that holds the connection to libvirt, the first of a process namespace of its own.

``python -m vnetperf.virt.session_server SOCKET URI DIRECTORY``. With the embedded driver QEMU is
a process of the same namespace: when this one ends, the kernel ends every guest. Requests and
answers are JSON, one a line: ``{"call": "start", "xml": ...}`` is answered by ``{"ok": value}``
or ``{"error": text}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import pwd
import shutil
import signal
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from socket import SO_PEERCRED, SOL_SOCKET, if_nametoindex
from types import FrameType
from typing import Any

from vnetperf.host.linux import (
    NO_DEVICES,
    PROC,
    READ_ONLY,
    bind_mount,
    change_mount,
    drop_from_bounds,
    parse_json,
    read_file,
    read_mounts,
)
from vnetperf.host.paths import make_cache
from vnetperf.model.errors import HostError

#: Where libvirt's embedded driver keeps them, below its root.
CAPABILITIES_DIR = "cache/qemu/capabilities"


def restore_capabilities(root: Path) -> None:
    """Give libvirt what was kept; it can do without."""
    place = root / CAPABILITIES_DIR
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError, HostError):
        for file in _saved().glob("*.xml"):
            shutil.copy2(file, place / file.name)


def save_capabilities(root: Path) -> None:
    """Keep what libvirt found out anew. To be called before any guest could have changed it."""
    with contextlib.suppress(OSError, HostError):
        kept = _saved()
        for file in (root / CAPABILITIES_DIR).glob("*.xml"):
            text = file.read_bytes()
            target = kept / file.name
            if not target.exists() or target.read_bytes() != text:
                with tempfile.NamedTemporaryFile(dir=kept, prefix=".", delete=False) as part:
                    part.write(text)
                Path(part.name).rename(target)


def _saved() -> Path:
    """Its directory. Machines that share a home directory, and the lab, have other kernels."""
    kernel = f"{platform.release()}-{platform.machine()}"
    return make_cache(f"vm/capabilities/{kernel}", "what libvirt found out")


EMBEDDED = "qemu:///embed"
#: The user that libvirt's QEMU driver looks up before it reads its configuration.
QEMU_USER = "libvirt-qemu"
QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""
#: Capabilities that QEMU keeps, by number (linux/capability.h): reading disks of users
#: (DAC_OVERRIDE) and pinning memory (IPC_LOCK). Without the others root cannot mount, trace, load
#: modules, change interfaces, make devices, or open a file by its handle instead of its path
#: (DAC_READ_SEARCH), which reaches what is hidden.
KEPT_CAPABILITIES = frozenset({1, 14})
#: Sockets of root's daemons are here.
RUN = Path("/run")
DEV = Path("/dev")
#: Devices of every guest, and of the QEMU that libvirt asks what it can.
COMMON_DEVICES = ("null", "zero", "full", "random", "urandom", "kvm")
PCI_DEVICES = Path("/sys/bus/pci/devices")


def list_devices(taps: Iterable[str], functions: Iterable[str]) -> tuple[str, ...]:
    """Devices below /dev that a guest's taps, macvtaps and functions bound to vfio-pci need."""
    devices: list[str] = []
    for name in taps:
        devices += ["net/tun", "vhost-net"]
        with contextlib.suppress(OSError):  # libvirt's error names what is missing
            devices.append(f"tap{if_nametoindex(name)}")
    for address in functions:
        with contextlib.suppress(OSError):
            group = (PCI_DEVICES / address / "iommu_group").readlink().name
            devices += ["vfio/vfio", f"vfio/{group}", f"vfio/noiommu-{group}"]
    return tuple(devices)


class PrivateDevices:
    """A /dev of this mount namespace, empty but for the devices that were given."""

    def __init__(self) -> None:
        self._machine = os.open(DEV, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        mount("-t", "tmpfs", "-o", "mode=755,size=64k", "none", str(DEV))

    def give(self, names: Iterable[str]) -> None:
        """Show devices of the machine, as far as it has them."""
        for name in names:
            private_path, machines = DEV / name, Path(f"/proc/self/fd/{self._machine}", name)
            if not private_path.exists() and machines.exists():
                private_path.parent.mkdir(exist_ok=True)
                private_path.touch()
                bind_mount(machines, private_path)
                change_mount(private_path, clear=NO_DEVICES | READ_ONLY)


def confine(directory: Path) -> PrivateDevices:
    """Leave to this process, and to QEMU below it, little of what root can do.

    To be called by the first process of a mount namespace. The file system becomes read-only, the
    run's directory too, but for `directory` and new, empty places of hugepages; no device can
    be opened but those of the /dev that is returned; sockets of other daemons vanish; and whatever
    is started from here on has few capabilities. `directory` is the one of libvirt's, below the
    run's.
    """
    run = directory.parent
    kept = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("-t", "tmpfs", "-o", "mode=755,size=16M", "none", str(RUN))  # libvirt has files there
    run.mkdir(parents=True, exist_ok=True)
    # Not by mount(8), which would resolve the link to the directory that is hidden now.
    bind_mount(Path(f"/proc/self/fd/{kept}"), run)
    os.close(kept)
    bind_mount(directory, directory)
    hugepages = find_hugepage_mounts()
    devices = PrivateDevices()
    for place, size in hugepages.items():
        if place.is_relative_to(DEV) or place.is_relative_to(RUN):
            place.mkdir(parents=True, exist_ok=True)
        mount("-t", "hugetlbfs", "-o", size, "none", str(place))
    # A device file may be anywhere: in the file system of a container, in a user's directory.
    change_mount(Path("/"), add=READ_ONLY | NO_DEVICES, recursive=True)
    for place in (RUN, directory, DEV, *hugepages):
        change_mount(place, clear=READ_ONLY)
    devices.give(COMMON_DEVICES)
    os.environ["TMPDIR"] = str(directory)
    last = int(read_file(PROC / "sys/kernel/cap_last_cap"))
    for number in set(range(last + 1)) - KEPT_CAPABILITIES:
        drop_from_bounds(number)
    return devices


def open_directory(place: Path) -> None:
    """Let QEMU write to a directory of the run."""
    bind_mount(place, place)
    change_mount(place, clear=READ_ONLY)


def find_hugepage_mounts() -> dict[Path, str]:
    """Where the machine's files of hugepages are, and the option with their size.

    Others' memory is in them, and libvirt wants to see, and write to, each that /proc/mounts lists.
    """
    mounts = {}
    for _, place, kind, options, *_ in read_mounts(PROC / "self/mounts"):
        if kind == "hugetlbfs":
            sizes = [option for option in options.split(",") if option.startswith("pagesize=")]
            mounts[Path(place)] = next(iter(sizes), "rw")
    return mounts


def mount(*arguments: str) -> None:
    """Mount a file system.

    Raises:
        HostError: It fails.
    """
    try:
        subprocess.run(["mount", *arguments], check=True, timeout=10, stderr=subprocess.PIPE)
    except (OSError, subprocess.SubprocessError) as error:
        message = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        raise HostError(f"mount fails: {message or error}", where=" ".join(arguments)) from error


class Libvirt:
    """A connection, and the calls that requests name."""

    def __init__(self, uri: str, directory: Path) -> None:
        self._embedded = uri == EMBEDDED
        self._devices: PrivateDevices | None = None
        self._open: set[Path] = set()
        if self._embedded:
            _prepare(directory)
            if os.getpid() == 1:
                self._devices = confine(directory)
            uri = f"{EMBEDDED}?root={directory}"
        import libvirt  # noqa: PLC0415 - looks users up, which were not there before
        import libvirt_qemu  # noqa: PLC0415

        self._libvirt, self._qemu = libvirt, libvirt_qemu
        libvirt.registerErrorHandler(lambda *_: None, None)
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=self._loop, name="libvirt-events", daemon=True).start()
        with _confine_thread():
            self._connection = libvirt.open(uri)

    def _loop(self) -> None:
        while True:
            self._libvirt.virEventRunDefaultImpl()

    def version(self) -> dict[str, str]:
        """Versions of libvirt and QEMU."""
        return {
            "libvirt": _dotted(self._connection.getLibVersion()),
            "QEMU": _dotted(self._connection.getVersion()),
        }

    def capabilities(self, emulator: str, accelerator: str) -> str:
        """What QEMU can, which libvirt asks it unless that was kept."""
        kind = "kvm" if accelerator == "kvm" else "qemu"
        return str(self._connection.getDomainCapabilities(emulator, "x86_64", "q35", kind))

    def start(self, xml: str, taps: list[str], functions: list[str], directories: list[str]) -> str:
        """Start a guest that ends with this process, for which a daemon requires a flag.

        QEMU writes to `directories`, of the run's.
        """
        if self._devices is not None:
            self._devices.give(list_devices(taps, functions))
            for place in {*map(Path, directories)} - self._open:
                open_directory(place)
                self._open.add(place)
        flags = 0 if self._embedded else self._libvirt.VIR_DOMAIN_START_AUTODESTROY
        return str(self._connection.createXML(xml, flags).name())

    def agent(self, domain: str, command: str, seconds: int) -> str:
        """Send a command to a guest's agent; its answer."""
        guest = self._connection.lookupByName(domain)
        return str(self._qemu.qemuAgentCommand(guest, command, seconds, 0))

    def _call_guest(self, domain: str, call: Callable[[Any], Any]) -> Any:
        """What a call of a guest returns; None where there is none of that name."""
        try:
            return call(self._connection.lookupByName(domain))
        except self._libvirt.libvirtError as error:
            if error.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def running(self, domain: str) -> bool:
        """Whether a guest runs; False when it is paused or has ended."""
        state = self._call_guest(domain, lambda guest: guest.state()[0])
        return bool(state == self._libvirt.VIR_DOMAIN_RUNNING)

    def has_guest(self, domain: str) -> bool:
        """Whether there is a guest of that name, or its end has yet to be seen."""
        return self._call_guest(domain, lambda guest: guest) is not None

    def pins(self, domain: str) -> dict[str, Any]:
        """Host processors of a guest's vCPUs and of its emulator, as libvirt reads them back."""
        guest = self._connection.lookupByName(domain)
        vcpus = guest.vcpuPinInfo()
        return {
            "vcpus": [_numbers(v) for v in vcpus],
            "emulator": _numbers(guest.emulatorPinInfo()),
        }

    def destroy(self, domain: str) -> bool:
        """End a guest; False when it had ended."""
        return self._call_guest(domain, lambda guest: guest.destroy()) is not None

    def answer(self, line: bytes) -> dict[str, Any]:
        """Answer a request."""
        request = parse_json(line)
        call = getattr(self, request.pop("call"))
        try:
            return {"ok": call(**request)}
        except self._libvirt.libvirtError as error:
            return {"error": str(error)}


@contextlib.contextmanager
def _confine_thread() -> Iterator[None]:
    """Keep the calling thread to the first of its processors, and what it starts meanwhile.

    What libvirt has kept about QEMU it throws away when CPUID differs from that time's, and CPUID
    has the number of the processor it is read on. Afterwards every thread may be anywhere.
    """
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        yield
    finally:
        for task in (PROC / "self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(task.name), processors)


def _dotted(number: int) -> str:
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"


def _numbers(flags: tuple[bool, ...]) -> list[int]:
    return [cpu for cpu, set_ in enumerate(flags) if set_]


def _prepare(directory: Path) -> None:
    """What the embedded driver wants to find before it opens, for this process alone."""
    etc = directory / "etc"
    etc.mkdir(parents=True, exist_ok=True)
    (etc / "qemu.conf").write_text(QEMU_CONF)
    restore_capabilities(directory)
    try:
        pwd.getpwnam(QEMU_USER)
    except KeyError:
        # Only in this process's own view of the machine: nothing is added to its users.
        for name, line in (
            ("passwd", f"{QEMU_USER}:x:64055:64055::/nonexistent:/usr/sbin/nologin\n"),
            ("group", f"{QEMU_USER}:x:64055:\n"),
        ):
            private_file = directory / name
            private_file.write_text(read_file(Path("/etc", name)) + line)
            private_file.chmod(0o644)
            mount("--bind", str(private_file), f"/etc/{name}")


def _reap() -> None:
    """Take the exit codes of guests that have ended.

    Their starters detached them, so they are this process's children, and libvirt, which would
    otherwise see them alive for ever, waits for none of them. Its own short-lived children are in
    this session, or lead one of their own.
    """
    server_session = os.getsid(0)
    while True:
        for path in PROC.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = read_file(path).rpartition(")")[2].split()
                pid, session = int(path.parent.name), int(fields[3])
                ours = fields[0] == "Z" and int(fields[1]) == os.getpid()
                if ours and session not in (server_session, pid):
                    os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)


def _end_with_input() -> None:
    """End when standard input does: whoever started this process closes it, or has ended."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    libvirt: Libvirt


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        if self._is_guest():
            return
        for line in self.rfile:
            answer = self.server.libvirt.answer(line)
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _is_guest(self) -> bool:
        """Whether a process of this process namespace is at the other end: QEMU, not the agent.

        The kernel gives 0 for the pid of one outside (SO_PEERCRED, unix(7)).
        """
        peer = self.request.getsockopt(SOL_SOCKET, SO_PEERCRED, struct.calcsize("3i"))
        return os.getpid() == 1 and struct.unpack("3i", peer)[0] != 0


def main(socket: str, uri: str, directory: str) -> None:
    """Serve until SIGTERM, or until standard input ends."""

    def end(signum: int, frame: FrameType | None) -> None:
        os._exit(0)  # the guests end with the namespace

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    if os.getpid() == 1:
        threading.Thread(target=_reap, name="reaper", daemon=True).start()
    try:
        connection = Libvirt(uri, Path(directory))
    except (HostError, OSError) as error:
        sys.exit(str(error))  # the last of its log, which the run's error ends with
    with _Server(socket, _Handler) as server:
        server.libvirt = connection
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
