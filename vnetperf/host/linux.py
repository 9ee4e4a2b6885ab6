"""What Python's `os` lacks: namespaces, mounts, raw system calls, process and boot identity."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import pwd
import re
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vnetperf.model.errors import HostError

T = TypeVar("T")
#: A route's next hop is on the link, whatever its address is (linux/rtnetlink.h).
RTNH_F_ONLINK = 4

CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x00020000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 0x4000, 1 << 18, 2

_libc = ctypes.CDLL(None, use_errno=True)
#: What keeps mounts and processes of a program from the host: with its end all of them end.
#: `--fork` keeps SIGTERM to itself, so the program has to end by something else.
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--")


def _checked(result: int, operation: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), operation)
    return result


#: Runs a module as `python -m` does, on the import path that it is given.
_RUN_MODULE = (
    "import runpy,sys\n"
    "sys.path += [p for p in sys.argv[1].split(':') if p not in sys.path]\n"
    "sys.argv[:] = sys.argv[2:]\n"
    "from vnetperf.host.trust import watch_starts; watch_starts()\n"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
)


def python_argv(module: str, *arguments: str) -> list[str]:
    """Command line of a module of ours in a process of its own, as whoever runs this process.

    `python -m` imports from the current directory first and from PYTHONPATH: for a process of root
    these are anybody's. The new one has this process's import path and nothing else, and as root it
    starts no program that others could have written.
    """
    path = ":".join(place for place in sys.path if place.startswith("/"))
    return [sys.executable, "-I", "-c", _RUN_MODULE, path, module, *arguments]


@contextlib.contextmanager
def close_after(fd: int) -> Iterator[int]:
    """An open file descriptor, which is closed at the end of the body."""
    try:
        yield fd
    finally:
        os.close(fd)


def set_namespace(namespace: int | Path) -> None:
    """Move the calling *thread* into a network namespace (an open file or its path)."""
    if isinstance(namespace, int):
        _checked(_libc.setns(namespace, CLONE_NEWNET), "setns")
        return
    with close_after(os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        _checked(_libc.setns(fd, CLONE_NEWNET), str(namespace))


def network_namespaces(proc: Path = Path("/proc")) -> dict[str, Path]:
    """Namespaces that a process is in, or that a mount keeps: name and a path of each."""
    namespaces: dict[str, Path] = {}
    for link in proc.glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            namespaces.setdefault(str(link.readlink()), link)
    with contextlib.suppress(OSError):
        for words in read_mounts(proc / "self/mountinfo"):
            if len(words) > 4 and words[3].startswith("net:["):
                namespaces.setdefault(words[3], Path(words[4]))
    return namespaces


def unshare_network() -> None:
    """Give the calling *thread* a new network namespace."""
    _checked(_libc.unshare(CLONE_NEWNET), "unshare")


def bind_mount(source: Path, target: Path, *, recursive: bool = False) -> None:
    """Make a file or directory appear at another path, which is there already.

    `recursive` takes what is mounted below it along.
    """
    _mount(source, target, MS_BIND | (MS_REC if recursive else 0))


def _mount(source: Path, target: Path, flags: int) -> None:
    names = os.fsencode(source), os.fsencode(target)
    _checked(_libc.mount(*names, None, ctypes.c_ulong(flags), None), str(target))


def run_in_sysfs(netns: Path, function: Callable[[], T]) -> T:
    """Run a function where /sys/class/net has the interfaces of a network namespace.

    It runs in a thread of its own, whose view of the file system is private and ends with it.
    """

    def body() -> T:
        set_namespace(netns)
        _checked(_libc.unshare(CLONE_NEWNS), "unshare")
        private = ctypes.c_ulong(MS_REC | MS_PRIVATE)
        _checked(_libc.mount(b"none", b"/", None, private, None), "/")
        _checked(_libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None), "/sys")
        return function()

    return call_in_thread(body)


#: Attributes of a mount (linux/mount.h), for `change_mount`.
READ_ONLY, NO_DEVICES = 1, 4
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000


def change_mount(place: Path, *, add: int = 0, clear: int = 0, recursive: bool = False) -> None:
    """Set and clear attributes of a mount, or of all below it (mount_setattr(2))."""
    attributes = struct.pack("=QQQQ", add, clear, 0, 0)
    raw_syscall(
        _MOUNT_SETATTR,
        *(ctypes.c_long(_AT_FDCWD), ctypes.c_char_p(os.fsencode(place))),
        *(ctypes.c_long(_AT_RECURSIVE if recursive else 0), ctypes.c_char_p(attributes)),
        ctypes.c_long(len(attributes)),
    )


#: The kernel's settings of the network, which are those of the namespace of whoever looks.
_NET_SETTINGS = Path("/proc/sys/net")


def keep_changes_in(state: Path, folders: Sequence[Path], *, visible: Path) -> None:
    """Give the calling *thread*, and what it starts, a view of the file system of its own.

    All is read-only there but settings of the network and `folders`: in their places are folders
    below `state`, which keep what is written until the next time; folders that are not there, or
    are links, are left out. `visible` stays where it is, with what is mounted below it. The view
    ends with the thread and the processes that it has started.
    """
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    _mount(Path("none"), Path("/"), MS_REC | MS_PRIVATE)
    present = [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]
    replacements = [state / folder.relative_to("/") for folder in present]
    for folder in replacements:
        folder.mkdir(parents=True, exist_ok=True)
    descriptors = [
        os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for place in (visible, *replacements)
    ]
    try:
        for folder, fd in zip(present, descriptors[1:], strict=True):
            bind_mount(Path(f"/proc/thread-self/fd/{fd}"), folder)
        visible.mkdir(parents=True, exist_ok=True)  # below one of the new ones
        bind_mount(Path(f"/proc/thread-self/fd/{descriptors[0]}"), visible, recursive=True)
    finally:
        for fd in descriptors:
            os.close(fd)
    bind_mount(_NET_SETTINGS, _NET_SETTINGS)
    change_mount(Path("/"), add=READ_ONLY, recursive=True)
    for place in (*present, _NET_SETTINGS):
        change_mount(place, clear=READ_ONLY)


def explain_writable_mounts() -> str:
    """Why a private view of the file system cannot be made read-only; "" when it can."""
    try:
        raw_syscall(_MOUNT_SETATTR, *(ctypes.c_long(0) for _ in range(5)))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return (
                f"Linux {os.uname().release} has no mount_setattr(2) here, by which QEMU is kept "
                "from the machine's files and devices: Linux 5.12 or newer has it, and a "
                "container's seccomp profile may forbid it; or name a libvirt of this machine's "
                "with --guest uri="
            )
    return ""


def unmount(target: Path) -> None:
    """Detach what is mounted; who has it open keeps it."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), str(target))


def delete_module(name: str) -> None:
    """Unload a kernel module, unless something uses it."""
    # asm-generic architectures (aarch64, riscv, loongarch) share one table.
    number = {"x86_64": 176, "ppc64le": 129, "s390x": 129}.get(os.uname().machine, 106)
    _checked(_libc.syscall(number, name.encode(), os.O_NONBLOCK), name)


def call_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread of its own, so that namespaces it enters end with it."""
    with ThreadPoolExecutor(1, "vnetperf-namespace") as pool:
        return pool.submit(function).result()


def run_in(netns: Path | None, function: Callable[[], T]) -> T:
    """Run a function in a network namespace; None is the caller's.

    It runs in a thread of its own. Processes it starts belong to no run: use `Processes.spawn`.
    """
    if netns is None:
        return function()

    def body() -> T:
        with HostError.explain_os_error(
            "cannot enter the network namespace", where=str(netns), cure="create it first, as root"
        ):
            set_namespace(netns)
        return function()

    return call_in_thread(body)


@contextlib.contextmanager
def netlink(operation: str, where: str = "", cure: str = "run as root; see dmesg") -> Iterator[Any]:
    """A netlink socket in the calling thread's namespace.

    What the kernel refuses is an error that states what was tried.
    """
    from pyroute2 import IPRoute  # noqa: PLC0415 - takes 0.2 s to import
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    try:
        with IPRoute() as route:
            yield route
    except (NetlinkError, OSError) as error:
        raise HostError(
            f"the kernel refused to {operation}: {error}", where=where, cure=cure
        ) from error


def raw_syscall(number: int, *arguments: Any) -> int:
    """syscall(2) by number, for calls without a C library function."""
    return _checked(int(_libc.syscall(number, *arguments)), f"system call {number}")


_PR_CAPBSET_DROP = 24  # linux/prctl.h


def drop_from_bounds(capability: int) -> None:
    """Take a capability from all that the calling *thread* will start, root or not."""
    _checked(_libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0), "prctl")


PROC = Path("/proc")
PROC_MOUNTS = PROC / "self/mounts"
#: What ordinary pages hold, octets: 4096 on x86, up to 65536 elsewhere.
PAGE_OCTETS = os.sysconf("SC_PAGE_SIZE")
MACHINE_ID = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
#: Environment variable of every process of a run.
RUN_ID_VARIABLE = "VNETPERF_RUN_ID"
RUN_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process for all of one boot: a pid alone is reused, with its start time it is not."""

    pid: int
    start: int

    @classmethod
    def read(cls, pid: int) -> ProcessId | None:
        """Identity of a living process, or None when there is none (a zombie counts as dead)."""
        stat = _proc_stat(pid)
        return None if stat is None or stat[0] in "ZX" else cls(pid, int(stat[19]))

    @classmethod
    def me(cls) -> ProcessId:
        """Identity of the calling process."""
        identity = cls.read(os.getpid())
        if identity is None:
            raise HostError("cannot read /proc/self/stat", cure="mount /proc")
        return identity

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessId.read(self.pid) == self


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal (SIGSTOP, SIGTSTP), or held by a debugger."""
    stat = _proc_stat(pid)
    return stat is not None and stat[0] in "Tt"


#: Flag of a task that is ending (linux/sched.h), and SIGKILL's bit among pending signals.
_PF_EXITING, _SIGKILL_PENDING = 0x4, 1 << (signal.SIGKILL - 1)


def is_ending(pid: int) -> bool:
    """Whether a process has begun to end: its first thread is ending, or was sent SIGKILL.

    It can be waited for only when all its memory and sockets have been given back, which takes
    seconds of a switch on hugepages. Fields of /proc/pid/stat: state, flags (9), signal (31).
    """
    stat = _proc_stat(pid)
    return stat is not None and (
        stat[0] in "ZX" or bool(int(stat[6]) & _PF_EXITING or int(stat[28]) & _SIGKILL_PENDING)
    )


def _proc_stat(pid: int) -> list[str] | None:
    try:
        text = read_file(PROC / str(pid) / "stat")
    except OSError:
        return None
    # The command name is in parentheses and may itself hold spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    # A process that ends while it is read, and what is no such file, have less.
    is_complete = len(fields) > _LAST_FIELD and all(map(_is_number, fields[1 : _LAST_FIELD + 1]))
    return fields if is_complete else None


#: The last field that is looked at here, counted from the state.
_LAST_FIELD = 28


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def list_open_files(process: Path) -> Iterator[str]:
    """What the descriptors of a process, by its folder in /proc, lead to: "socket:[7]", a path.

    Raises:
        OSError: It has ended, or is not ours to look at.
    """
    with os.scandir(process / "fd") as links:
        for link in links:
            with contextlib.suppress(OSError):  # closed meanwhile
                yield os.readlink(link.path)  # noqa: PTH115 - of all processes thousands


#: Unit of the times of processes, proc(5).
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """Processor time of a process, in ticks: its own, and that of children it has waited for."""

    parent: int
    used: int
    ended: int


def process_times() -> dict[int, ProcessTimes]:
    """Processor time of every process, by pid."""
    names = os.listdir(PROC)  # noqa: PTH208 - a path for each takes as long again
    read_times = {int(name): read_process_times(int(name)) for name in names if name.isdecimal()}
    return {pid: times for pid, times in read_times.items() if times is not None}


def read_process_times(pid: int) -> ProcessTimes | None:
    """Processor time of one process; None when it has ended."""
    stat = _proc_stat(pid)
    if stat is None:
        return None
    running, ended = (int(stat[column]) + int(stat[column + 1]) for column in (11, 13))
    return ProcessTimes(int(stat[1]), running, ended)


#: Most octets that are read of one file; the longest of the kernel's texts, kallsyms, has 15 MB.
MOST_OCTETS = 64 << 20
#: At once, since the kernel has memory for as much as is asked for, with a setting of 8 octets too.
_PIECE_OCTETS = 1 << 16


def run_program(
    argv: Sequence[str],
    timeout_s: float | None,
    *,
    check: bool = False,
    merge_streams: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its exit status and what it has printed, whatever its octets are.

    `check` raises `CalledProcessError` for a status that is not 0, `merge_streams` puts what it
    warns of into its output, and `options` are others of `subprocess.run`: `env`, `cwd`, `input`.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It has not ended after `timeout_s` seconds, and was killed.
    """
    return subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge_streams else subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=check,
        **options,
    )


def read_file(path: Path | str, *, errors: str = "replace") -> str:
    """Content of a file of the kernel's or of somebody else's, whatever its octets are.

    All text that is not vnetperf's own is read here. A FIFO in a file's place is not waited for.
    With `errors` "strict", for what a user has written, octets that are no UTF-8 are refused.

    Raises:
        OSError: It cannot be read, or is longer than `MOST_OCTETS`.
    """
    return read_octets(path).decode(errors=errors)


def read_octets(path: Path | str) -> bytes:
    """What `read_file` reads, before it is taken for text."""
    octets = bytearray()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while piece := os.read(fd, _PIECE_OCTETS):
            octets += piece
            if len(octets) > MOST_OCTETS:
                raise OSError(errno.EFBIG, f"longer than {MOST_OCTETS >> 20} MiB", str(path))
    finally:
        os.close(fd)
    return bytes(octets)


def try_read(path: Path, *, errors: str = "replace") -> str:
    """What `read_file` reads, without white space around it; "" where it cannot be read."""
    try:
        return read_file(path, errors=errors).strip()
    except OSError:
        return ""


def parse_json(text: str | bytes) -> Any:
    """What a JSON text of a file, a program or a peer means.

    Raises:
        ValueError: It is no JSON, or is nested more deeply than Python reads.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


#: Longest number that is one: a counter of 64 bits has 20 digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")


def parse_number(text: str) -> int | None:
    """A whole decimal number; None where a text is none.

    `int` takes "1_0" too, and raises an error of its own for thousands of digits.
    """
    stripped = text.strip()
    return int(stripped) if _NUMBER.fullmatch(stripped) else None


#: What stands for a counter that is not kept, by -1 without its sign, besides what is negative.
_NOT_KEPT = 2**64 - 1


def parse_count(value: object) -> int | None:
    """A counter of a driver's or a program's; None where it keeps none."""
    number = parse_number(value) if isinstance(value, str) else value
    return number if isinstance(number, int) and 0 <= number < _NOT_KEPT else None


def numbered_entries(folder: Path, prefix: str = "") -> dict[int, Path]:
    """What a directory has with names of a prefix and a number (cpu0, node1, 27), by number.

    Nothing where it is not there or may not be read.
    """
    entries = {
        number: path
        for path in folder.glob(f"{prefix}[0-9]*")
        if (number := parse_number(path.name.removeprefix(prefix))) is not None
    }
    return dict(sorted(entries.items()))


def boot_id() -> str:
    """Identity of this boot of the kernel."""
    return read_file(PROC / "sys/kernel/random/boot_id").strip()


def machine_id() -> str:
    """Identity of this machine, for what outlives a boot: machine-id(5), else its host name."""
    for path in MACHINE_ID:
        with contextlib.suppress(OSError):
            if text := read_file(path).strip():
                return text
    return f"host {os.uname().nodename}"


def read_mounts(table: Path = PROC_MOUNTS) -> list[list[str]]:
    """The words of each line of /proc/self/mounts or mountinfo, mount points as paths.

    Any user can name a mount point (fusermount). The kernel escapes a blank, tab, newline,
    backslash and "#" of it: the rest may be no UTF-8, or what Python takes for a blank or an end
    of a line.
    """
    lines = os.fsdecode(read_octets(table)).split("\n")
    return [
        [_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), word) for word in line.split(" ")]
        for line in lines
        if line
    ]


_ESCAPED = re.compile(r"\\([0-7]{3})")


#: The first namespace of process numbers, which sees all processes, by its inode (linux/proc_ns.h).
_FIRST_PID_NAMESPACE = f"pid:[{0xEFFFFFFC}]"


def sees_all_processes(proc: Path = PROC) -> bool:
    """Whether all processes of the machine are shown here, and not a container's or a user's own.

    Process 1 is hidden from who may see no others (`hidepid`).
    """
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except FileNotFoundError:  # the kernel was built without such namespaces
        namespace = _FIRST_PID_NAMESPACE
    except OSError:
        return False
    return namespace == _FIRST_PID_NAMESPACE and (proc / "1").exists()


def counts_running_time(proc: Path = PROC) -> bool:
    """Whether the kernel tells how long threads ran and waited, in their `schedstat`.

    One without CONFIG_SCHEDSTATS and without delay accounting has zeros there, of this thread too.
    """
    try:
        return read_file(proc / "thread-self/schedstat").split() not in ([], ["0"] * 3)
    except OSError:
        return False


def cgroup_root(mounts: Path = PROC_MOUNTS) -> Path | None:
    """Where the machine's cgroup v2 hierarchy is mounted."""
    return next(
        (Path(where) for _, where, kind, *_ in read_mounts(mounts) if kind == "cgroup2"), None
    )


def cgroup_folders(controller: str, *, sys: Path, proc: Path) -> Iterator[Path]:
    """Folders of this process's group of a controller and of those above it, where mounted.

    Of both versions of control groups: of version 2 the one for all controllers, wherever it is.
    """
    root = sys / "fs/cgroup"
    try:
        lines = os.fsdecode(read_octets(proc / "self/cgroup")).split("\n")
    except OSError:
        return
    for line in lines:
        controllers, _, group = line.partition(":")[2].partition(":")
        if "\0" in group:  # no path has it
            continue
        if controller in controllers.split(","):
            bases = [root / controller, root / controllers]
        elif not controllers and group:
            bases = [root, root / "unified"]
        else:
            continue
        group_path = Path(group.lstrip("/"))
        for base in dict.fromkeys(bases):
            yield from (
                base / part for part in (group_path, *group_path.parents) if ".." not in part.parts
            )


#: Capabilities by their numbers (linux/capability.h).
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"),
    *("IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
    *("WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)
#: Those without which no run can change the machine: links and namespaces, frames, mounts.
_RUN_NEEDS = ("NET_ADMIN", "NET_RAW", "SYS_ADMIN")


def read_capabilities(*, proc: Path = PROC) -> frozenset[str] | None:
    """Capabilities of this process and of programs that it starts; None where they are not known.

    A program that root starts has what its bounding set leaves it, one that another user starts
    only the ambient ones (capabilities(7)).
    """
    try:
        lines = read_file(proc / "self/status").splitlines()
    except OSError:
        return None
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    passed_on = fields.get("CapAmb" if os.geteuid() else "CapBnd", "")
    try:
        bits = int(fields.get("CapEff", ""), 16) & int(passed_on, 16)
    except ValueError:
        return None
    return frozenset(name for number, name in enumerate(CAPABILITIES) if bits >> number & 1)


def missing_capabilities(*, proc: Path = PROC) -> tuple[str, ...]:
    """Capabilities that a run needs and this process lacks: "CAP_NET_ADMIN".

    Root of a container or of systemd-nspawn may lack some. Where they are not known, the user's
    number counts.
    """
    capabilities = read_capabilities(proc=proc)
    if capabilities is None:
        capabilities = frozenset(() if os.geteuid() else _RUN_NEEDS)
    return tuple(f"CAP_{name}" for name in _RUN_NEEDS if name not in capabilities)


def is_root() -> bool:
    """Whether this process can change the machine as a run has to.

    It is user 0, whom the files of a run's state belong to, and has the capabilities.
    """
    return os.geteuid() == 0 and not missing_capabilities()


#: Variable with the uid of the user who started the launcher.
CALLER = "VNETPERF_CALLER"


def caller_uid() -> int:
    """The user that this runs for: the launcher's, else the one behind sudo, else the own."""
    uid = os.environ.get(CALLER) or os.environ.get("SUDO_UID", "")
    return int(uid) if uid.isdecimal() else os.getuid()


def user_name() -> str:
    """Who runs this, for "who holds the testbed": the user behind sudo, else the account."""
    behind_sudo = os.environ.get("SUDO_USER")
    if behind_sudo:
        return behind_sudo
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def check_run_id(run_id: str) -> str:
    """Return the id when it can name files and be found in an environment, else refuse it."""
    if not RUN_ID_PATTERN.fullmatch(run_id):
        raise HostError(
            f"run id {run_id!r} cannot name a run",
            accepted="1 to 40 letters, digits, dots, dashes and underscores",
            cure="leave it out, one is made",
        )
    return run_id


def belongs_to_run(pid: int, run_id: str) -> bool:
    """Whether a living process was started for this run."""
    try:
        environment = read_octets(PROC / str(pid) / "environ")
    except OSError:
        return False
    return f"{RUN_ID_VARIABLE}={run_id}".encode() in environment.split(b"\0")


_UNLIMITED = resource.RLIM_INFINITY
#: Files that each process of a run may have open at least, where that can be raised.
LEAST_OPEN_FILES = 4096
#: What a process that changes the machine has at least, soft and hard. Files as systemd has them:
#: with more, programs are slow that close all they could have open.
_LEAST_LIMITS: dict[int, tuple[int, int]] = {
    resource.RLIMIT_NOFILE: (LEAST_OPEN_FILES, 524288),
    resource.RLIMIT_STACK: (8 << 20, _UNLIMITED),
    **dict.fromkeys(
        (
            *(resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA, resource.RLIMIT_AS),
            *(resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK, resource.RLIMIT_RSS),
            *(resource.RLIMIT_MSGQUEUE, resource.RLIMIT_SIGPENDING, resource.RLIMIT_RTTIME),
        ),
        (_UNLIMITED, _UNLIMITED),
    ),
}


def raise_limits() -> None:
    """Raise the limits that a shell has handed on (`ulimit`), for programs started later too.

    Without the right to do so (CAP_SYS_RESOURCE), to what the shell has left as the highest.
    """
    for limit, least in _LEAST_LIMITS.items():
        current = resource.getrlimit(limit)
        pairs = zip(current, least, strict=True)
        soft, hard = (_UNLIMITED if _UNLIMITED in pair else max(pair) for pair in pairs)
        highest = min((soft, current[1]), key=lambda number: number % (1 << 64))  # -1 is none
        for target in ((soft, hard), (highest, current[1])):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(limit, target)
                break


def require_time() -> None:
    """Raise where the kernel would end this process, and its guardian, after some seconds of work.

    Both have the same limit, so nobody would be left to restore the machine.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != _UNLIMITED:
        raise HostError(
            f"the kernel ends processes of this shell after {soft} s of processor time",
            where="ulimit -t",
            accepted="unlimited",
            cure="start it from a shell without that limit, or with the right to raise it "
            "(CAP_SYS_RESOURCE)",
        )
