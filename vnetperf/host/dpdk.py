"""DPDK: arguments of virtual devices, telemetry socket, forwarders' command lines and ports."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm
from pathlib import Path
from typing import Any, ClassVar

from vnetperf.host.linux import PAGE_OCTETS, parse_count, parse_json
from vnetperf.host.wait import patient, receive
from vnetperf.model.errors import HostError, VnetperfError
from vnetperf.model.scenario import Plan, Pollers
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.model.trial import HopCounters

#: Room of a buffer: for frames of an MTU up to STANDARD_MTU, and for jumbo frames. The larger one
#: is virtio's limit.
STANDARD_ROOM, JUMBO_ROOM = 2048, 9728
#: 2048 octets hold the frame, a VLAN tag and the 66 octets that the kernel puts before it.
STANDARD_ROOM_MTU, JUMBO_ROOM_MTU = 1900, 9600
#: What DPDK keeps before a frame in its buffer, and the buffer's own header with its pool's.
HEADROOM, MBUF_OVERHEAD = 128, 192
#: Ring of a memif device, as a power of two.
MEMIF_RING_LOG2 = 11
AF_PACKET_FRAMES = 2048
#: net_tap drops longer frames and has no option for it.
TAP_MTU = 1504


def mbuf_room(mtu: int) -> int:
    """Octets of frame that one buffer must hold."""
    if mtu > JUMBO_ROOM_MTU:
        raise HostError(
            f"an MTU of {mtu}", where="virtual devices", accepted=f"up to {JUMBO_ROOM_MTU}"
        )
    return STANDARD_ROOM if mtu <= STANDARD_ROOM_MTU else JUMBO_ROOM


def memif_devargs(
    number: int,
    *,
    role: str,
    identity: int,
    socket: str,
    mtu: int,
    mac: str = "",
    ring_log2: int = MEMIF_RING_LOG2,
) -> str:
    """A memif device."""
    return (
        f"net_memif{number},role={role},id={identity},socket={socket},"
        f"socket-abstract=no,bsize={mbuf_room(mtu)},rsize={ring_log2}" + (f",mac={mac}" * bool(mac))
    )


def af_packet_devargs(
    number: int,
    netdev: str,
    mtu: int,
    frames: int = AF_PACKET_FRAMES,
    page: int = PAGE_OCTETS,
) -> str:
    """A kernel interface with rings of so many frames; it takes the interface's own MAC address.

    `page`: octets of a page where the interface is, which may be in a guest.
    """
    ring = af_packet_ring(mbuf_room(mtu), frames, page)
    return f"net_af_packet{number},iface={netdev},{ring},qdisc_bypass=1"


def af_packet_ring(size: int, frames: int, page: int = PAGE_OCTETS) -> str:
    """The ring of a kernel interface: so many frames of a size, whole ones in whole pages.

    The kernel takes blocks of whole pages only, and DPDK blocks of whole frames; a ring is of whole
    blocks.
    """
    block = lcm(size, page)
    if frames % (block // size):
        raise HostError(
            f"a ring of {frames} frames of {size} octets",
            where="af_packet",
            accepted=f"a multiple of {block // size}, since pages here are of {page} octets",
            cure="set rx_descriptors and tx_descriptors to such a number",
        )
    return f"framesz={size},framecnt={frames},blocksz={block}"


def virtio_user_devargs(
    number: int, path: str, *, server: bool, queues: int, ring: int, mac: str = "", tap: str = ""
) -> str:
    """A virtio device: the guest's side of vhost-user, or of a tap by /dev/vhost-net."""
    parts = [f"net_virtio_user{number}", f"path={path}"]
    parts += ["server=1"] if server else []
    parts += [f"iface={tap}"] if tap else []
    parts += [f"queues={queues}", f"queue_size={ring}"]
    parts += [f"mac={mac}"] if mac else []
    return ",".join(parts)


def tap_devargs(number: int, netdev: str, mtu: int, mac: str = "") -> str:
    """A tap device opened as a file; when it is there already it is opened by its name.

    DPDK gives the interface a MAC address and an MTU of 1500: whoever made it must put its own
    back.
    """
    if mtu > TAP_MTU:
        raise HostError(
            f"an MTU of {mtu}",
            where="DPDK's net_tap",
            accepted=f"up to {TAP_MTU}",
            cure="load the module vhost_net, which makes the tap a virtio device, "
            "or leave larger frames out",
        )
    return f"net_tap{number},iface={netdev}" + (f",mac={mac}" * bool(mac))


def mbuf_pool_mib(buffers: int, mtu: int) -> int:
    """Memory of a pool of buffers."""
    return -(-buffers * (mbuf_room(mtu) + HEADROOM + MBUF_OVERHEAD) // (1 << 20))


#: DPDK's own limit of a request, octets; it cuts off what is longer without a word.
MAX_TELEMETRY_REQUEST = 1023
MAX_TELEMETRY_GREETING = 16384
#: Requests under way at most: the socket's buffers hold them and their answers.
REQUEST_WINDOW = 8


class DpdkTelemetry:
    """A connection to one program; `check` raises when no answer will come."""

    def __init__(self, path: Path, timeout_s: float = 5.0) -> None:
        self.path = path
        self.check: Callable[[], None] = lambda: None
        self._timeout_s = patient(timeout_s)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(patient(timeout_s))
            self._socket.connect(str(path))
            greeting = parse_json(self._socket.recv(MAX_TELEMETRY_GREETING))
            if not isinstance(greeting, dict):
                raise ValueError(f"this greeting is not DPDK's: {greeting!r}"[:200])
            self.greeting: dict[str, Any] = greeting
            self._max_answer = int(greeting.get("max_output_len", MAX_TELEMETRY_GREETING))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, command: str) -> Any:
        """Send one request and return its answer."""
        (answer,) = self.ask_all((command,))
        return answer

    def ask_all(self, commands: Sequence[str]) -> list[Any]:
        """Send several requests, the next before the last is answered: each answer costs a wait."""
        requests = [_encode_request(command) for command in commands]
        answers: list[Any] = []
        sent = 0
        try:
            while len(answers) < len(requests):
                while sent < min(len(requests), len(answers) + REQUEST_WINDOW):
                    self._send(requests[sent], _command_name(commands[sent]))
                    sent += 1
                answers.append(self._receive(_command_name(commands[len(answers)])))
        except VnetperfError as error:
            # Of several answers some are still to come; so is a late one of a program that stands
            # still: each would be taken for the next one's.
            if len(requests) > 1 or not isinstance(error, HostError):
                self.close()
            raise
        return answers

    def _send(self, request: bytes, name: str) -> None:
        try:
            self._socket.send(request)
        except OSError as error:
            raise HostError(f"no answer to {name}: {error}", where=str(self.path)) from error

    def _receive(self, name: str) -> Any:
        try:
            size = self._max_answer + 1024
            answer = receive(self._socket, size, self._timeout_s, self.check)
            if not answer:
                raise HostError("the program closed its telemetry socket", where=str(self.path))
            return parse_json(answer)[name]
        except TimeoutError as error:
            self.close()  # a late answer would be taken for the next one
            raise HostError(f"no answer to {name} in time", where=str(self.path)) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HostError(f"no answer to {name}: {error}", where=str(self.path)) from error

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()


def _command_name(command: str) -> str:
    return command.partition(",")[0]


def _encode_request(command: str) -> bytes:
    request = command.encode()
    if len(request) > MAX_TELEMETRY_REQUEST:
        raise HostError(
            f"request of {len(request)} octets",
            where=_command_name(command),
            accepted=f"at most {MAX_TELEMETRY_REQUEST} octets",
        )
    return request


TESTPMD = "dpdk-testpmd"
TESTPMD_PROGRAM = Program(
    name=TESTPMD,
    package="dpdk-dev",
    places=(TESTPMD, "testpmd"),
    key="testpmd",
    software="dpdk",
    debian=("dpdk", "libdpdk-dev"),
    by_make=True,
)
#: RTE_MAX_LCORE of distributions' builds.
MAX_LCORE = 128
#: Names of its forwarding threads before DPDK 22.11, in it, and since 23.07.
LCORE_THREAD_PREFIXES = ("lcore-worker", "rte-worker", "dpdk-worker")
RING_SIZE = 1024
#: Fewest buffers, and fewest of those for jumbo frames; and the ones in caches and other hands,
#: beside the ones in full rings.
MBUFS, JUMBO_MBUFS, SPARE_MBUFS = 16384, 8192, 4096
#: Memory beside the buffers, MiB: rings, EAL, testpmd itself.
BASE_MIB = 64
#: What a forwarding thread keeps on its own node, MiB: tables of GRO and GSO, even if unused.
FAR_MIB = 16
#: Where the memif driver keeps its table of sockets, and where ports belong that name no node.
MEMIF_NODE = 0
STANDARD_MTU = 1500
VHOST_NET = "/dev/vhost-net"
#: Octets beyond the MTU that drivers count into a frame: virtio's most, its own header among them.
FRAME_OVERHEAD = 30


@dataclass(frozen=True, kw_only=True)
class ForwarderCommand(ABC):
    """A launch of a program on DPDK that forwards between ports.

    Attributes:
        application: Name of such programs.
        threads: How names of its forwarding threads begin, in each version of DPDK.
        name: Prefix of its files, and of its telemetry socket's folder.
        devices: EAL arguments that make its ports, in order.
        tells_mtu: Drivers get the length of frames above 1518 octets; some refuse it and take every
            size.
        peers: Port number -> destination address of what it sends, of mode "mac".
        far_nodes: Nodes of forwarding threads that are not its memory's.
        hugepages: False where nobody else maps its memory: ordinary pages do then.
    """

    application: ClassVar[str]
    threads: ClassVar[tuple[str, ...]]
    program: str
    name: str
    devices: tuple[str, ...]
    main: int
    workers: tuple[int, ...]
    node: int
    memory_mib: int
    mode: str = "io"
    mtu: int = STANDARD_MTU
    tells_mtu: bool = False
    queues: int = 1
    rx_descriptors: int = RING_SIZE
    tx_descriptors: int = RING_SIZE
    peers: dict[int, str] = field(default_factory=dict)
    far_nodes: tuple[int, ...] = ()
    hugepages: bool = True

    def argv(self) -> list[str]:
        """The whole command line."""
        pci = any(device.startswith("-a") for device in self.devices)
        return [
            self.program,
            *lcore_arguments(self.main, self.workers),
            f"--file-prefix={self.name}",
            *([] if pci else ["--no-pci"]),
            *self._memory(),
            *self.devices,
            "--",
            *self.options(),
        ]

    @abstractmethod
    def options(self) -> list[str]:
        """The program's own options, which follow EAL's."""

    @property
    def buffers(self) -> int:
        """Buffers of its pool."""
        rings = self.rx_descriptors + self.tx_descriptors
        return mbuf_count(len(self.devices), self.queues, self.mtu, rings)

    @property
    def max_frame(self) -> int:
        """Length of a frame as drivers count it; 0 where they are not told."""
        jumbo = self.mtu > STANDARD_MTU and self.tells_mtu
        return self.mtu + FRAME_OVERHEAD if jumbo else 0

    @classmethod
    def pollers(cls, role: str, pid: int) -> tuple[Pollers, ...]:
        """The forwarding threads of such a program."""
        return tuple(Pollers(role=role, pid=pid, thread_prefix=name) for name in cls.threads)

    def _memory(self) -> list[str]:
        if not self.hugepages:
            return ["--no-huge", "-m", str(self.memory_mib)]
        return eal_memory(self.node, self.memory_mib, self.devices, self.far_nodes)


@dataclass(frozen=True, kw_only=True)
class TestpmdCommand(ForwarderCommand):
    """A launch of testpmd.

    Attributes:
        forwarding: Numbers of ports in the order they are paired; empty forwards nothing.
        auto_start: False: it forwards nothing before "start" is written to its input.
        counts_polls: True: its threads count their polls, and cycles of those with packets.
    """

    __test__ = False  # pytest would otherwise try to collect the name
    application: ClassVar[str] = TESTPMD
    threads: ClassVar[tuple[str, ...]] = LCORE_THREAD_PREFIXES
    forwarding: tuple[int, ...]
    auto_start: bool = True
    counts_polls: bool = False

    def options(self) -> list[str]:
        """Its own options."""
        return [
            "--auto-start" if self.auto_start else "--interactive",
            *(["--record-burst-stats", "--record-core-cycles"] if self.counts_polls else []),
            *self._topology(),
            f"--nb-cores={len(self.workers)}",
            f"--total-num-mbufs={self.buffers}",
            f"--mbuf-size={mbuf_room(self.mtu) + HEADROOM}",
            f"--rxq={self.queues}",
            f"--txq={self.queues}",
            f"--rxd={self.rx_descriptors}",
            f"--txd={self.tx_descriptors}",
            "--no-numa",
            f"--socket-num={self.node}",
            "--no-lsc-interrupt",
            "--disable-link-check",  # it would wait 9 s for links of VNFs that come later
            *([f"--max-pkt-len={self.max_frame}"] if self.max_frame else []),
            *self._peers(),
        ]

    def _peers(self) -> list[str]:
        if self.mode != "mac":
            return []
        return [f"--eth-peer={port},{mac}" for port, mac in sorted(self.peers.items())]

    def _topology(self) -> list[str]:
        if not self.forwarding:
            return ["--forward-mode=rxonly"]
        order = ",".join(map(str, self.forwarding))
        return [f"--forward-mode={self.mode}", "--port-topology=paired", f"--portlist={order}"]


def library_mib(kinds: Collection[str]) -> dict[int, int]:
    """Hugepages that DPDK takes on certain nodes for ports of these kinds, MiB by node.

    It takes them there wherever threads and other memory are, and cannot do without.
    """
    return {MEMIF_NODE: FAR_MIB} if "memif" in kinds else {}


def eal_memory(
    node: int, mib: int, devices: Iterable[str], far_nodes: Collection[int] = ()
) -> list[str]:
    """EAL's arguments for hugepages: its own on one node, and the little that others must have."""
    kinds = ["memif"] if any("net_memif" in device for device in devices) else []
    sizes = library_mib(kinds) | dict.fromkeys(far_nodes, FAR_MIB) | {node: mib}
    text = ",".join(str(sizes.get(number, 0)) for number in range(max(sizes) + 1))
    return ["--in-memory", "--single-file-segments", "--socket-mem", text]


def lcore_arguments(main: int, workers: Sequence[int]) -> list[str]:
    """EAL's arguments for a main thread that sleeps and workers that poll.

    DPDK takes a thread's node from the processor that has its lcore's number, and testpmd accepts
    only nodes of its lcores; so an lcore has its processor's number, unless that is taken. One with
    processors of several nodes has no node, and testpmd has no memory for it: who may be anywhere
    is let loose when it runs.
    """
    free = [number for number in range(MAX_LCORE) if number not in {*workers, main}]
    cpu_by_lcore: dict[int, int] = {}
    for cpu in (*workers, main):
        number = cpu if cpu < MAX_LCORE and cpu not in cpu_by_lcore else free.pop(0)
        cpu_by_lcore[number] = cpu
    *polling, sleeping = cpu_by_lcore
    pairs = [f"{number}@{cpu_by_lcore[number]}" for number in (sleeping, *polling)]
    return [f"--lcores={','.join(pairs)}", f"--main-lcore={sleeping}"]


def main_lcore_cpu(
    node: int,
    node_of: Mapping[int, int],
    housekeeping: Sequence[int],
    workers: Sequence[int],
    others: Collection[int] = (),
) -> int:
    """A processor for the main thread on its memory's node: it allocates there and nowhere else."""
    candidates = [cpu for cpu in housekeeping if node_of.get(cpu, node) == node]
    used = {*workers, *others}
    candidates += [cpu for cpu, its in node_of.items() if its == node and cpu not in used]
    candidates += [cpu for cpu in workers if node_of.get(cpu) == node]
    return candidates[0] if candidates else housekeeping[0]


def choose_main_cpu(
    plan: Plan, facts: MachineFacts | None, node: int, workers: Sequence[int]
) -> int:
    """The same by a plan: off pollers' processors, and off those that the testbed keeps back.

    Without a machine's facts every processor is taken to be of the node.
    """
    node_of = {cpu.cpu: cpu.node for cpu in facts.cpus} if facts is not None else {}
    back = {*node_of} - {*(plan.testbed.cores.allowed or node_of)}
    others = back.union(*plan.placement.cores.values())
    return main_lcore_cpu(node, node_of, plan.placement.housekeeping, workers, others)


def mbuf_count(ports: int, queues: int, mtu: int, descriptors: int = 2 * RING_SIZE) -> int:
    """Buffers of its pool."""
    fewest = MBUFS if mbuf_room(mtu) == STANDARD_ROOM else JUMBO_MBUFS
    return max(fewest, ports * queues * descriptors + SPARE_MBUFS)


def forwarder_memory_mib(
    ports: int, queues: int, mtu: int, descriptors: int = 2 * RING_SIZE
) -> int:
    """Memory it needs."""
    needed = BASE_MIB + mbuf_pool_mib(mbuf_count(ports, queues, mtu, descriptors), mtu)
    return -(-needed // 64) * 64


def with_lost(port: HopCounters, other: HopCounters) -> HopCounters:
    """Counters of a port to which a forwarder sends what comes in at the other one of a pair.

    It gives up what a port does not take at once, which no driver counts: it is what came in at the
    other port and did not go out.
    """
    return port.model_copy(update={"tx_dropped": max(0, other.rx - port.tx)})


class DpdkPorts:
    """Ports of a program on DPDK. A connection that broke, or answered too late, is made anew."""

    def __init__(self, runtime: Path, name: str) -> None:
        self._path = runtime / "dpdk" / name / "dpdk_telemetry.v2"
        self._telemetry: DpdkTelemetry | None = None
        self.check: Callable[[], None] = lambda: None

    def ask(self, command: str) -> Any:
        """Send one request and return its answer."""
        if self._telemetry is None:
            try:
                self._telemetry = DpdkTelemetry(self._path)
                self._telemetry.check = self.check
            except (OSError, ValueError) as error:
                raise HostError(f"no telemetry is there: {error}", where=str(self._path)) from error
        try:
            return self._telemetry.ask(command)
        except VnetperfError:
            self.close()
            raise

    def version(self) -> str:
        """Version of DPDK, or why it is not known."""
        with contextlib.suppress(HostError):
            self.info(0)
        if self._telemetry is None:
            return "unknown: it does not answer"
        return str(self._telemetry.greeting.get("version", "unknown: telemetry does not report it"))

    def info(self, number: int) -> dict[str, Any]:
        """Information about a port, as its driver reports it."""
        answer = self.ask(f"/ethdev/info,{number}")
        return answer if isinstance(answer, dict) else {}

    def describe(self, number: int) -> str:
        """A port as its driver has it, for the result."""
        try:
            info = self.info(number)
        except HostError as error:
            return f"unknown: {error}"
        return (
            f"{info.get('mac_addr', 'no address')}, MTU {info.get('mtu', 'unknown')}, "
            f"{info.get('nb_rx_queues', '?')}/{info.get('nb_tx_queues', '?')} rx/tx queues"
        )

    def link_up(self, number: int) -> bool:
        """Whether a port's link is up."""
        answer = self.ask(f"/ethdev/link_status,{number}")
        return isinstance(answer, dict) and answer.get("status") == "UP"

    def counters(self, number: int, name: str) -> HopCounters:
        """Counters of a port."""
        stats = self.ask(f"/ethdev/stats,{number}")
        if not isinstance(stats, dict):
            raise HostError(f"there are no statistics of port {number}", where=str(self._path))
        names = ("ipackets", "opackets", "imissed", "rx_nombuf", "oerrors")
        rx, tx, missed, without_buffer, errors = (parse_count(stats.get(k)) for k in names)
        if rx is None or tx is None:
            raise HostError(f"port {number} counts no packets", where=str(self._path))
        return HopCounters(
            port=name,
            rx=rx,
            tx=tx,
            rx_dropped=(missed or 0) + (without_buffer or 0),
            tx_dropped=errors or 0,
        )

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if self._telemetry is not None:
            self._telemetry.close()
            self._telemetry = None
