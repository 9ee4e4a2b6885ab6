"""XDP programs, and those of traffic control: compiled by clang, loaded by libbpf, attached.

The mode that XDP has made of it is read back.

Nothing is pinned and nothing is journaled: a program, its maps and its attachment live as long as
the file descriptors of the process that made them, which the kernel closes however that ends.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import struct
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from vnetperf.host import ethtool
from vnetperf.host.linux import close_after, netlink
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import Program

log = logging.getLogger(__name__)

CLANG = Program(
    name="clang",
    package="clang",
    version_args=("--version",),
    software="clang",
    by_make=True,
    optional=True,
)
#: Where programs find bpf.h and bpf_counts.h; byteorder.h and checksum.h are shared with engines.
INCLUDE = Path(__file__).parent
_COMPILE_S = 60
_TAIL_LINES = 12


#: Flags of programs that swap atomically (Linux 5.12).
ATOMIC: Final = ("-mcpu=v3",)


def compile_program(
    clang: str, source: Path, flags: Sequence[str] = (), **numbers: int | str
) -> bytes:
    """Compile a program for the kernel's virtual machine; numbers become macros of the source."""
    # clang of a BPF target does not search the directory that Debian keeps <asm/types.h> in.
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    argv = [
        *(clang, "-O2", "-g", "-target", "bpf", "-ffreestanding", "-Wall", "-Wextra", "-Werror"),
        *flags,
        *(f"-D{name}={value}" for name, value in numbers.items()),
        *(f"-I{INCLUDE}", "-iquote", f"{INCLUDE / 'engine'}"),
        *("-idirafter", f"/usr/include/{multiarch}"),
        *("-c", str(source), "-o", "-"),
    ]
    try:
        done = subprocess.run(argv, capture_output=True, check=False, timeout=_COMPILE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"clang cannot be run: {error}", where=str(source)) from error
    if done.returncode or not done.stdout:
        raise HostError(
            f"the program does not compile:\n{_tail(done.stderr.decode(errors='replace'))}",
            where=" ".join(argv),
            cure="install the packages clang and linux-libc-dev (`make deps` in a checkout)",
        )
    return done.stdout


def _tail(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-_TAIL_LINES:])


LIBRARY = "libbpf.so.1"
KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")


def explain_no_bpf() -> str:
    """Why this machine loads no programs, with the cure; "" when nothing speaks against it."""
    try:
        _libbpf()
    except HostError as error:
        return f"{error.what}; {error.cure}"
    if not KERNEL_TYPES.exists():
        return (
            f"the kernel has no {KERNEL_TYPES}, by which XDP's drops are counted; boot a "
            "distribution's kernel (CONFIG_DEBUG_INFO_BTF)"
        )
    if _lacks_type("xdp_test_data"):
        return f"Linux {os.uname().release} lacks what our programs use; boot Linux 5.18 or later"
    return ""


def _lacks_type(name: str) -> bool:
    """Whether the kernel has no such type: versions do not tell, features are carried back."""
    try:
        return b"\0" + name.encode() + b"\0" not in KERNEL_TYPES.read_bytes()
    except OSError:
        return False


def explain_no_tcx() -> str:
    """Why no programs can be linked to traffic control here; "" when nothing speaks against it."""
    if _lacks_type("tcx_link"):
        cure = "boot Linux 6.6 or later (CONFIG_NET_XGRESS), or choose another mode"
        return f"Linux {os.uname().release} links no programs to traffic control; {cure}"
    return ""


_LEVEL_WARN: Final = 0
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_MESSAGE_OCTETS, _LOG_OCTETS = 4096, 1 << 20
_printed: list[str] = []


def _print(level: int, text: bytes, arguments: int) -> int:
    """Keep what libbpf would print; its arguments are a va_list, which vsnprintf takes."""
    if level == _LEVEL_WARN:
        buffer = ctypes.create_string_buffer(_MESSAGE_OCTETS)
        ctypes.CDLL(None).vsnprintf(
            buffer, ctypes.c_size_t(_MESSAGE_OCTETS), text, ctypes.c_void_p(arguments)
        )
        _printed.append(buffer.value.decode(errors="replace").strip())
    return 0


#: libbpf keeps its address: it lives as long as the process.
_PRINTER = _PRINT(_print)


@cache
def _libbpf() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise HostError(
            f"{LIBRARY} is not installed",
            cure="install the package libbpf1, or run `make deps` in a checkout",
        ) from error
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, *arguments in (
        ("bpf_object__open_mem", pointer, pointer, ctypes.c_size_t, pointer),
        ("bpf_object__load", number, pointer),
        ("bpf_object__close", None, pointer),
        ("bpf_object__find_program_by_name", pointer, pointer, text),
        ("bpf_object__find_map_fd_by_name", number, pointer, text),
        ("bpf_object__find_map_by_name", pointer, pointer, text),
        ("bpf_map__reuse_fd", number, pointer, number),
        ("bpf_program__fd", number, pointer),
        ("bpf_link_create", number, number, number, number, pointer),
        ("bpf_raw_tracepoint_open", number, text, number),
        ("bpf_obj_get_info_by_fd", number, number, pointer, pointer),
        ("bpf_prog_get_fd_by_id", number, ctypes.c_uint32),
        ("bpf_prog_test_run_opts", number, number, pointer),
        ("bpf_map_update_elem", number, number, pointer, pointer, ctypes.c_uint64),
        ("bpf_map_lookup_elem", number, number, pointer, pointer),
        ("bpf_map_delete_elem", number, number, pointer),
        ("bpf_map_lookup_batch", number, number, *(pointer,) * 6),
        ("bpf_map_lookup_and_delete_batch", number, number, *(pointer,) * 6),
        ("libbpf_num_possible_cpus", number),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.libbpf_set_print(_PRINTER)
    return library


_BATCH_ENTRIES: Final = 1 << 14


class _OpenOptions(ctypes.Structure):
    """struct bpf_object_open_opts of libbpf 1."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("object_name", ctypes.c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", ctypes.c_char_p),
        ("unused", ctypes.c_uint32),
        ("kconfig", ctypes.c_char_p),
        ("btf_custom_path", ctypes.c_char_p),
        ("log", ctypes.c_void_p),
        ("log_size", ctypes.c_size_t),
        ("log_level", ctypes.c_uint32),
    )


class _LinkOptions(ctypes.Structure):
    """The first fields of struct bpf_link_create_opts."""

    _fields_ = (("size", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("unused", ctypes.c_uint32))


class _LinkInfo(ctypes.Structure):
    """The first fields of struct bpf_link_info, of a link of XDP."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("link", ctypes.c_uint32),
        ("program", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("interface", ctypes.c_uint32),
        ("rest", ctypes.c_uint32),
    )


class _RunOptions(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf 1."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("context_in", ctypes.c_char_p),
        ("context_out", ctypes.c_void_p),
        ("context_size_in", ctypes.c_uint32),
        ("context_size_out", ctypes.c_uint32),
        ("verdict", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch", ctypes.c_uint32),
    )


_LIVE_FRAMES: Final = 1 << 1  # BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18
#: Frames that the kernel hands on together: as many as it takes from an interface at a time.
_LIVE_BATCH: Final = 64
MOST_LIVE: Final = (1 << 31) - 1


def run_live(number: int, frame: bytes, count: int = MOST_LIVE) -> None:
    """Run a program on frames that go where it sends them, until a signal comes or it has run.

    `frame` is what each begins as; later ones are as they were left by whoever had them.
    """
    library = _libbpf()
    fd = library.bpf_prog_get_fd_by_id(number)
    if fd < 0:
        raise HostError(f"there is no program {number}: {os.strerror(-fd)}")
    context = struct.pack("=6I", 0, len(frame), 0, 0, 0, 0)  # struct xdp_md
    run = _RunOptions(
        size=ctypes.sizeof(_RunOptions),
        data_in=frame,
        data_size_in=len(frame),
        context_in=context,
        context_size_in=len(context),
        repeat=count,
        flags=_LIVE_FRAMES,
        batch=_LIVE_BATCH,
    )
    with close_after(fd):
        code = library.bpf_prog_test_run_opts(fd, ctypes.byref(run))
    if code not in (0, -errno.EINTR):
        raise HostError(f"the kernel does not make live frames: {os.strerror(-code)}")


class _ProgramInfo(ctypes.Structure):
    """The first fields of struct bpf_prog_info."""

    _fields_ = (("kind", ctypes.c_uint32), ("number", ctypes.c_uint32))


class BpfObject:
    """A compiled file in the kernel: its programs, its maps, and what they are attached to.

    `shared` are maps of another object to use in place of its own, by name.
    """

    def __init__(self, name: str, code: bytes, shared: Mapping[str, BpfMap] | None = None) -> None:
        self.name = name
        self._code = code  # which libbpf may read until it is closed
        self._library = _libbpf()
        self._links: list[int] = []
        _printed.clear()
        verifier = ctypes.create_string_buffer(_LOG_OCTETS)
        options = _OpenOptions(
            size=ctypes.sizeof(_OpenOptions),
            object_name=name.encode(),
            log=ctypes.addressof(verifier),
            log_size=_LOG_OCTETS,
        )
        self._object = self._library.bpf_object__open_mem(code, len(code), ctypes.byref(options))
        if not self._object or self._share(shared or {}) or self._load():
            code_of_error = ctypes.get_errno()
            self.close()
            raise HostError(
                f"the kernel does not take the program: {os.strerror(code_of_error)}\n"
                + _tail(verifier.value.decode(errors="replace") or "\n".join(_printed)),
                where=name,
                cure="run as root; the last lines are those of the kernel's verifier or of libbpf",
            )

    def _share(self, maps: Mapping[str, BpfMap]) -> int:
        for name, bpf_map in maps.items():
            map_in_object = self._library.bpf_object__find_map_by_name(self._object, name.encode())
            if code := int(self._library.bpf_map__reuse_fd(map_in_object, bpf_map.fd)):
                return code
        return 0

    def _load(self) -> int:
        return int(self._library.bpf_object__load(self._object))

    def program(self, name: str) -> int:
        """File descriptor of a program; it is the object's."""
        handle = self._library.bpf_object__find_program_by_name(self._object, name.encode())
        return self._require_fd(self._library.bpf_program__fd(handle) if handle else -1, name)

    def number(self, name: str) -> int:
        """Number of a program in the kernel, by which other processes find it."""
        info = _ProgramInfo()
        size = ctypes.c_uint32(ctypes.sizeof(info))
        code = self._library.bpf_obj_get_info_by_fd(
            self.program(name), ctypes.byref(info), ctypes.byref(size)
        )
        return self._require_fd(info.number if code == 0 else -1, name)

    def map(self, name: str) -> BpfMap:
        """A map."""
        fd = self._library.bpf_object__find_map_fd_by_name(self._object, name.encode())
        return BpfMap(f"{self.name}, map {name}", self._require_fd(fd, name))

    def _require_fd(self, fd: int, name: str) -> int:
        if fd < 0:
            raise HostError(f"there is no {name}", where=self.name)
        return fd

    def run(self, program: str, context: bytes = b"", frame: bytes = b"") -> tuple[int, bytes]:
        """Run a program once: what it returns, and what became of the frame."""
        room = ctypes.create_string_buffer(len(frame)) if frame else None
        run = _RunOptions(
            size=ctypes.sizeof(_RunOptions),
            data_in=frame or None,
            data_size_in=len(frame),
            data_out=ctypes.addressof(room) if room else None,
            data_size_out=len(frame),
            context_in=context or None,
            context_size_in=len(context),
        )
        code = self._library.bpf_prog_test_run_opts(self.program(program), ctypes.byref(run))
        if code:
            message = f"the kernel does not run {program}: {os.strerror(-code)}"
            raise HostError(message, where=self.name)
        return run.verdict, room.raw if room else b""

    def attach(self, program: str, netdev: str, mode: str) -> Attached:
        """Attach a program to an interface of the calling thread's namespace, in one mode alone.

        What the kernel made of it is read back: a mode that it does not have there is an error.
        """
        index, previous = _interface(netdev)
        if previous is not None:
            raise HostError(
                f"another program is attached already, in mode {previous.mode}",
                where=f"link {netdev}",
                cure=f"ip link set dev {netdev} xdp off, if nobody needs it",
            )
        flags = _LinkOptions(size=ctypes.sizeof(_LinkOptions), flags=MODE_FLAGS[mode])
        fd = self._library.bpf_link_create(
            self.program(program), index, _BPF_XDP, ctypes.byref(flags)
        )
        if fd < 0:
            reason = os.strerror(-fd)
            raise HostError(
                f"the interface takes no XDP program in mode {mode}: {reason}",
                where=f"link {netdev}",
                cure=_CURES.get(-fd, "see dmesg; --set mode=generic works on every interface"),
            )
        self._links.append(fd)
        _, attachment = _interface(netdev)
        if attachment is None or attachment.mode != mode:
            raise HostError(
                f"mode {mode} was requested, and the kernel has attached "
                f"{'nothing' if attachment is None else f'it in mode {attachment.mode}'}",
                where=f"link {netdev}",
            )
        log.info(
            "XDP: %s at %s, mode %s, program %d",
            self.name,
            netdev,
            attachment.mode,
            attachment.program,
        )
        return attachment

    def attach_to_traffic_control(self, program: str, netdev: str) -> None:
        """Attach a program to what comes in by an interface of the calling thread's namespace."""
        index, _ = _interface(netdev)
        options = _LinkOptions(size=ctypes.sizeof(_LinkOptions))
        fd = self._library.bpf_link_create(
            self.program(program), index, _BPF_TCX_INGRESS, ctypes.byref(options)
        )
        if fd < 0:
            raise HostError(
                f"the interface takes no program of traffic control: {os.strerror(-fd)}",
                where=f"link {netdev}",
                cure="boot Linux 6.6 or later (CONFIG_NET_XGRESS)",
            )
        self._links.append(fd)
        log.info("traffic control: %s at %s", self.name, netdev)

    def is_attached(self) -> bool:
        """Whether it is still at the interface, in the mode that was read back.

        Others can neither replace it there nor change its mode: it can only be detached, as the
        kernel does when the interface is deleted.
        """
        if not self._links:
            return False
        info = _LinkInfo()
        size = ctypes.c_uint32(ctypes.sizeof(info))
        code = self._library.bpf_obj_get_info_by_fd(
            self._links[0], ctypes.byref(info), ctypes.byref(size)
        )
        return bool(code == 0 and info.interface)

    def trace(self, program: str) -> None:
        """Attach a program to the tracepoint that its section names."""
        fd = self._library.bpf_raw_tracepoint_open(None, self.program(program))
        if fd < 0:
            raise HostError(
                f"the kernel's tracepoint cannot be used: {os.strerror(-fd)}",
                where=f"{self.name}, {program}",
            )
        self._links.append(fd)

    def close(self) -> None:
        """Detach and unload everything. Idempotent."""
        for fd in self._links:
            os.close(fd)
        self._links = []
        if self._object:
            self._library.bpf_object__close(self._object)
        self._object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class BpfMap:
    """A map of an object that is loaded; keys and values are octets as the program has them."""

    def __init__(self, name: str, fd: int) -> None:
        self._name = name
        self.fd = fd

    def update(self, key: bytes, value: bytes) -> None:
        """Set the value of a key; an interface's index is of the calling thread's namespace."""
        self._call(_libbpf().bpf_map_update_elem(self.fd, key, value, 0), "written")

    def update_per_cpu(self, key: bytes, value: bytes) -> None:
        """Set the value of a key for every processor."""
        self.update(key, value * _libbpf().libbpf_num_possible_cpus())

    def delete(self, key: bytes) -> None:
        """Remove a key; that it is not there is not an error."""
        code = _libbpf().bpf_map_delete_elem(self.fd, key)
        if code != -errno.ENOENT:
            self._call(code, "deleted")

    def read(self, key: bytes, octets: int) -> bytes:
        """The value of a key, of a map that has one for all processors."""
        value = ctypes.create_string_buffer(octets)
        self._call(_libbpf().bpf_map_lookup_elem(self.fd, key, value), "read")
        return value.raw

    def read_per_cpu(self, key: bytes, octets: int) -> bytes:
        """The values of a key of every processor; their octets are a multiple of 8."""
        return self.read(key, octets * _libbpf().libbpf_num_possible_cpus())

    def sums(self, key: bytes, count: int = 1) -> tuple[int, ...]:
        """Numbers of 64 bits below a key, added up over the processors."""
        processors = _libbpf().libbpf_num_possible_cpus()
        values = (ctypes.c_uint64 * (count * processors))()
        self._call(_libbpf().bpf_map_lookup_elem(self.fd, key, values), "read")
        return tuple(sum(values[place::count]) for place in range(count))

    def entries(self, key: int, value: int, *, delete: bool = False) -> Iterator[bytes]:
        """Keys of a hash with so many octets each, many at a time; deleted with their values."""
        library = _libbpf()
        call = library.bpf_map_lookup_batch
        if delete:
            call = library.bpf_map_lookup_and_delete_batch
        keys = ctypes.create_string_buffer(key * _BATCH_ENTRIES)
        values = ctypes.create_string_buffer(value * _BATCH_ENTRIES)
        place, after = None, ctypes.create_string_buffer(max(key, ctypes.sizeof(ctypes.c_uint64)))
        code = 0
        while not code:
            count = ctypes.c_uint32(_BATCH_ENTRIES)
            code = call(self.fd, place, after, keys, values, ctypes.byref(count), None)
            if code not in (0, -errno.ENOENT):  # the second with the last of them
                self._call(code, "deleted" if delete else "read")
            yield keys.raw[: key * count.value]
            place = after

    def _call(self, code: int, operation: str) -> None:
        if code:
            raise HostError(f"cannot be {operation}: {os.strerror(-code)}", where=self._name)


_BPF_XDP: Final = 37  # enum bpf_attach_type
_BPF_TCX_INGRESS: Final = 46  # from Linux 6.6 on
#: What requests a mode (linux/if_link.h, XDP_FLAGS_*), and what is reported, in pyroute2's words.
MODE_FLAGS: Final[Mapping[str, int]] = {"generic": 1 << 1, "native": 1 << 2}
_REPORTED: Final[Mapping[str, str]] = {
    "xdp": "native",
    "xdpgeneric": "generic",
    "xdpoffload": "offload",
    "xdpmulti": "several",
}
_CURES: Final[Mapping[int, str]] = {
    errno.EOPNOTSUPP: "its driver has no native XDP: --set mode=generic",
    errno.EBUSY: "another program is attached already, see `ip link`",
    errno.EEXIST: "another program is attached already, see `ip link`",
    errno.EPERM: "run as root",
}


@dataclass(frozen=True, slots=True)
class Attached:
    """An interface's program; its mode is "native", "generic", "offload", or "several"."""

    mode: str
    program: int


def attached() -> dict[str, Attached]:
    """Interfaces of the calling thread's namespace that have a program."""
    with netlink("list programs of interfaces") as route:
        messages: list[Any] = list(route.get_links())
    programs = {message.get_attr("IFLA_IFNAME"): _parse_program(message) for message in messages}
    return {name: program for name, program in programs.items() if program is not None}


def _interface(netdev: str) -> tuple[int, Attached | None]:
    with netlink("find an interface", f"link {netdev}") as route:
        for message in route.get_links():
            if message.get_attr("IFLA_IFNAME") == netdev:
                return message["index"], _parse_program(message)
    raise HostError("there is no such interface", where=f"link {netdev}")


def _parse_program(message: Any) -> Attached | None:
    state = message.get_attr("IFLA_XDP")
    mode = state.get_attr("IFLA_XDP_ATTACHED") if state else None
    if mode is None:
        return None
    return Attached(_REPORTED.get(mode, str(mode)), state.get_attr("IFLA_XDP_PROG_ID") or 0)


def take_native_frames(netdev: str) -> None:
    """Let an end of a veth pair take frames that a native program sends by the other end.

    The kernel hands such frames to the end's NAPI, which it has with a program of its own or with
    GRO.
    """
    ethtool.set_features(netdev, {"rx-gro": 1})
    if ethtool.features(netdev, "active").get("rx-gro") != 1:
        raise HostError(
            "the other end of the pair takes no frames from native XDP: GRO stays off",
            where=f"link {netdev}",
            cure="see dmesg; --set mode=generic needs no GRO",
        )


def let_peer_receive(netdev: str) -> str:
    """Let the other end of a veth pair take native frames, and tell its name.

    Where the peer is not in the calling thread's namespace it is as it was left: "".
    """
    with netlink("find the other end of a pair", f"link {netdev}") as route:
        messages: list[Any] = list(route.get_links())
    link = next((m for m in messages if m.get_attr("IFLA_IFNAME") == netdev), None)
    if link is None or link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") != "veth":
        return ""
    if link.get_attr("IFLA_LINK_NETNSID") is not None:
        return ""
    index = link.get_attr("IFLA_LINK")
    peer = next((m.get_attr("IFLA_IFNAME") for m in messages if m["index"] == index), "")
    if not peer:
        return ""
    take_native_frames(peer)
    return str(peer)
