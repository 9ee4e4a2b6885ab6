"""Uses of an interface by others, made for real: for each a function that makes it and keeps it."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from vnetperf.host.linux import call_in_thread, unshare_network
from vnetperf.host.nic import pci, usage
from vnetperf.host.nic.usage import InterfaceUse, find_uses

#: What a kernel without the protocol, the option or the kind of program answers.
_UNKNOWN = (
    *(errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENOPROTOOPT, errno.EOPNOTSUPP),
    *(errno.EINVAL, errno.ENOSYS),
)
_AF_XDP, _AF_PPPOX = 44, 24
_SOL_XDP, _RX_RING, _FILL_RING, _COMPLETION_RING, _UMEM = 283, 2, 5, 6, 4
_COPY = 1 << 1
_MRT_INIT, _MRT_ADD_VIF, _MRT_TABLE, _BY_INDEX = 200, 202, 209, 8
_MRT6_INIT, _MRT6_ADD_MIF = 200, 202
_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351}
_LIBC = ctypes.CDLL(None, use_errno=True)


class UnknownToKernelError(Exception):
    """The kernel has not what a use is made with."""


@contextmanager
def _told_where_unknown(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        raise UnknownToKernelError(f"this kernel has no {what}: {error.strerror}") from error


def run_ip(*commands: str, program: str = "ip") -> None:
    """Run commands of `ip`, or of another program."""
    for command in commands:
        subprocess.run([program, *command.split()], check=True)


def uses_in_private_namespace(
    *commands: str, program: str = "ip", then: Callable[[], object] = lambda: None
) -> dict[str, InterfaceUse]:
    """Uses in a network namespace of its own, with eth0 and eth1, after commands of `ip`."""

    def look() -> dict[str, InterfaceUse]:
        unshare_network()
        run_ip("link set lo up", "address add 10.1.1.1/32 dev lo")
        for name in ("eth0", "eth1"):
            run_ip(f"link add {name} type veth peer name {name}p", f"link set {name}p up")
            run_ip(f"link set {name} addrgenmode none up", f"link set {name}p addrgenmode none")
        assert not {"eth0", "eth1"} & set(find_uses(usage.read_network(), ()))
        run_ip(*commands, program=program)
        then()
        return find_uses(usage.read_network(), ())

    return call_in_thread(look)


def open_xdp_socket(name: str) -> object:
    """An AF_XDP socket on queue 0 of an interface, with frames copied to it."""
    memory = mmap.mmap(-1, 16 << 12)
    with _told_where_unknown("AF_XDP"):
        heard = socket.socket(_AF_XDP, socket.SOCK_RAW, 0)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    heard.setsockopt(_SOL_XDP, _UMEM, struct.pack("=QQIIII", at, 16 << 12, 4096, 0, 0, 0))
    for ring in (_FILL_RING, _COMPLETION_RING, _RX_RING):
        heard.setsockopt(_SOL_XDP, ring, struct.pack("=I", 16))
    address = struct.pack("=HHIII", _AF_XDP, _COPY, socket.if_nametoindex(name), 0, 0)
    _call("bind", heard.fileno(), address)
    return heard, memory


def open_pppoe_session(name: str) -> object:
    """A PPPoE session over an interface, as pppd opens one after discovery."""
    with _told_where_unknown("PPPoE"):
        session = socket.socket(_AF_PPPOX, socket.SOCK_STREAM, 0)
    peer = bytes.fromhex("020000000009")
    address = struct.pack("=HI2s6s16s", _AF_PPPOX, 0, b"\x00\x07", peer, name.encode())
    _call("connect", session.fileno(), address)
    return session


def route_multicast(name: str) -> object:
    """A router of multicast groups, as pimd is one."""
    return _route_multicast(name, None)


def route_multicast_by_table(name: str) -> object:
    """A router of multicast groups with a table of its own, as of a VRF."""
    return _route_multicast(name, 77)


def _route_multicast(name: str, table: int | None) -> socket.socket:
    router = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
    with _told_where_unknown("multicast routing"):
        if table is not None:
            router.setsockopt(socket.IPPROTO_IP, _MRT_TABLE, table)
        router.setsockopt(socket.IPPROTO_IP, _MRT_INIT, 1)
    index = socket.if_nametoindex(name)
    interface = struct.pack("=HBBIi4s", 0, _BY_INDEX, 1, 0, index, bytes(4))
    router.setsockopt(socket.IPPROTO_IP, _MRT_ADD_VIF, interface)
    return router


def route_multicast6_by_table(name: str) -> object:
    """A router of multicast groups of IPv6 with a table of its own: no list of these names it."""
    return _route_multicast6(name, 77)


def route_multicast6(name: str) -> object:
    """A router of multicast groups of IPv6."""
    return _route_multicast6(name, None)


def _route_multicast6(name: str, table: int | None) -> socket.socket:
    router = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    with _told_where_unknown("multicast routing of IPv6"):
        if table is not None:
            router.setsockopt(socket.IPPROTO_IPV6, _MRT_TABLE, table)
        router.setsockopt(socket.IPPROTO_IPV6, _MRT6_INIT, 1)
    index = socket.if_nametoindex(name)
    interface = struct.pack("=HBBH2xI", 0, 0, 1, index, 0)
    router.setsockopt(socket.IPPROTO_IPV6, _MRT6_ADD_MIF, interface)
    return router


def attach_tcx_ingress(name: str) -> object:
    """A BPF program at the ingress of an interface, by tcx."""
    return _attach(name, 46)


def attach_tcx_egress(name: str) -> object:
    """A BPF program at the egress of an interface, by tcx."""
    return _attach(name, 47)


def _attach(name: str, where: int) -> object:
    """A program that lets each frame pass: r0 = -1 (TCX_NEXT), exit."""
    code = ctypes.create_string_buffer(
        struct.pack("=BBhi", 0xB7, 0, 0, -1) + struct.pack("=BBhi", 0x95, 0, 0, 0)
    )
    licence = ctypes.create_string_buffer(b"GPL")
    load = struct.pack("=IIQQ104x", 3, 2, ctypes.addressof(code), ctypes.addressof(licence))
    with _told_where_unknown("BPF"):
        program = _bpf(5, load)
    link = struct.pack("=IIII48x", program, socket.if_nametoindex(name), where, 0)
    with _told_where_unknown("tcx"):
        attached = _bpf(28, link)
    return os.fdopen(program, "rb"), os.fdopen(attached, "rb")


def send_by_pktgen(name: str) -> object:
    """An interface that the kernel's packet generator has."""
    thread = Path("/proc/thread-self/net/pktgen/kpktgend_0")
    if not thread.exists():
        raise UnknownToKernelError("this kernel has no pktgen")
    thread.write_text(f"add_device {name}\n")
    return None


def route_labels(name: str) -> object:
    """A route of MPLS over an interface."""
    labels = Path("/proc/sys/net/mpls/platform_labels")
    if not labels.exists():
        raise UnknownToKernelError("this kernel has no MPLS")
    labels.write_text("1000")
    run_ip(f"-f mpls route add 100 dev {name}")
    run_ip(f"-f mpls route add 101 nexthop dev {name} nexthop dev lo")
    return None


def hook_filter(name: str) -> object:
    """A chain of nftables that each frame of an interface goes through first."""
    _run_nft("add table netdev t")
    _run_nft(f"add chain netdev t c {{ type filter hook ingress device {name} priority 0 ; }}")
    return None


def hook_filters_of_several(name: str) -> object:
    """A chain of several interfaces."""
    _run_nft("add table netdev t")
    at = f"devices = {{ {name}, {name}p }}"
    _run_nft(f"add chain netdev t c {{ type filter hook ingress {at} priority 0 ; }}")
    return None


def hook_flow_table(name: str) -> object:
    """A flow table of nftables, past which established connections go."""
    _run_nft("add table inet t")
    hook = f"hook ingress priority 0 ; devices = {{ {name} }} ;"
    _run_nft(f"add flowtable inet t f {{ {hook} }}")
    return None


def _run_nft(command: str) -> None:
    if shutil.which("nft") is None:
        raise UnknownToKernelError("there is no program nft")
    done = subprocess.run(["nft", *command.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnknownToKernelError(f"nft {command}: {done.stderr.splitlines()[0]}")


def _bpf(command: int, attributes: bytes) -> int:
    found: int = _LIBC.syscall(
        ctypes.c_long(_BPF[platform.machine()]),
        *(ctypes.c_long(command), attributes, ctypes.c_long(len(attributes))),
    )
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _call(function: str, file: int, address: bytes) -> None:
    """Bind or connect a socket of a family that Python does not know."""
    if getattr(_LIBC, function)(file, address, len(address)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


#: What makes a use -> a part of the sentence that says it, and whether the kernel drops it.
USES: Mapping[Callable[[str], object], tuple[str, bool]] = {
    open_xdp_socket: ("AF_XDP", True),
    open_pppoe_session: ("carries a PPPoE session", True),
    route_multicast: ("multicast routing", True),
    route_multicast_by_table: ("multicast routing", True),
    route_multicast6: ("multicast routing", True),
    route_multicast6_by_table: ("receives all multicast frames", True),
    send_by_pktgen: ("packet generator", True),
    route_labels: ("route of MPLS label 100", True),
    hook_filter: ("chain of nftables, of the table t", True),
    hook_filters_of_several: ("chain of nftables, of the table t", True),
    hook_flow_table: ("flow table of nftables, of the table t", True),
    attach_tcx_ingress: ("at tcx ingress", True),
    attach_tcx_egress: ("at tcx egress", True),
}


def _keep(kept: list[object], make: Callable[[str], object]) -> None:
    kept.append(make("eth1"))


def say_all() -> None:
    """Make each use, and print how it is told: `use NAME: REASON`."""
    for make in USES:
        kept: list[object] = []
        try:
            found = uses_in_private_namespace(then=partial(_keep, kept, make))
            use = found.get("eth1", InterfaceUse("nothing"))
            told = f"{use.reason}{', lost' if use.lost else ''}"
        except (OSError, UnknownToKernelError) as error:
            told = str(error)
        print(f"use {make.__name__}: {told}", flush=True)  # noqa: T201 - read by the lab's test


def say_clocks() -> None:
    """Open the clock of each NIC that has one, and print who uses it: `clock ADDRESS: WHO`."""
    for one in pci.nics():
        files = usage.device_files(one.address, one.iommu_group)
        for clock in (file for file in files if "ptp" in file):
            with Path(clock).open("rb"):
                told = usage.find_holder(files)
            left = usage.find_holder(files)
            print(f"clock {one.address}: {told}, then {left or 'nobody'}")  # noqa: T201 - as above


if __name__ == "__main__":
    say_all()
    say_clocks()
