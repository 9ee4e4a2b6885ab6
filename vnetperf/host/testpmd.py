"""dpdk-testpmd: its command line for any number of ports, its memory and its threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from vnetperf.host import vdev
from vnetperf.model.plan import Pollers

PROGRAM, PACKAGE = "dpdk-testpmd", "dpdk-dev"
#: RTE_MAX_LCORE of distributions' builds.
MAX_LCORE = 128
#: Names of its forwarding threads before DPDK 22.11, in it, and since 23.07.
THREADS = ("lcore-worker", "rte-worker", "dpdk-worker")
RING = 1024
#: Fewest buffers, and fewest of those for jumbo frames; and the ones in caches and other hands,
#: beside the ones in full rings.
MBUFS, JUMBO_MBUFS, SPARE_MBUFS = 16384, 8192, 4096
#: Memory beside the buffers, MiB: rings, EAL, testpmd itself.
BASE_MIB = 64
#: What a forwarding thread keeps on its own node, MiB: tables of GRO and GSO, even if unused.
FAR_MIB = 16
STANDARD_MTU = 1500
#: Octets beyond the MTU that drivers count into a frame: virtio's most, its own header among them.
FRAME_OVERHEAD = 30


@dataclass(frozen=True, kw_only=True)
class Command:
    """A launch of testpmd.

    Attributes:
        program: Path of testpmd.
        name: Prefix of its files, and of its telemetry socket's folder.
        devices: EAL arguments that make its ports, in order.
        forwarding: Numbers of ports in the order they are paired; empty forwards nothing.
        main: Processor of its main thread.
        workers: Processor of each forwarding thread.
        node: NUMA node of its memory.
        memory_mib: Memory, MiB.
        mode: Forwarding mode: "io", "mac", "macswap".
        mtu: MTU, octets.
        tells_mtu: Drivers are told of frames above 1518 octets; some refuse and take every size.
        queues: Queue pairs of each port.
        rx_descriptors: Descriptors of each receive ring.
        tx_descriptors: Descriptors of each transmit ring.
        peers: Port number -> destination address of what it sends, of mode "mac".
        anywhere: Processors among which forwarding threads may be moved; empty pins each.
        far_nodes: Nodes of forwarding threads that are not its memory's.
        hugepages: False where nobody else maps its memory: ordinary pages do then.
    """

    program: str
    name: str
    devices: tuple[str, ...]
    forwarding: tuple[int, ...]
    main: int
    workers: tuple[int, ...]
    node: int
    memory_mib: int
    mode: str = "io"
    mtu: int = STANDARD_MTU
    tells_mtu: bool = False
    queues: int = 1
    rx_descriptors: int = RING
    tx_descriptors: int = RING
    peers: dict[int, str] = field(default_factory=dict)
    anywhere: tuple[int, ...] = ()
    far_nodes: tuple[int, ...] = ()
    hugepages: bool = True

    def argv(self) -> list[str]:
        """The whole command line.

        Returns:
            Program and arguments.
        """
        pci = any(device.startswith("-a") for device in self.devices)
        return [
            self.program,
            *lcores(self.main, self.workers, self.anywhere),
            f"--file-prefix={self.name}",
            *([] if pci else ["--no-pci"]),
            *self._memory(),
            *self.devices,
            "--",
            "--auto-start",
            *self._topology(),
            f"--nb-cores={len(self.workers)}",
            f"--total-num-mbufs={self._buffers()}",
            f"--mbuf-size={vdev.room(self.mtu) + vdev.HEADROOM}",
            f"--rxq={self.queues}",
            f"--txq={self.queues}",
            f"--rxd={self.rx_descriptors}",
            f"--txd={self.tx_descriptors}",
            "--no-numa",
            f"--socket-num={self.node}",
            "--no-lsc-interrupt",
            "--disable-link-check",  # it would wait 9 s for links of VNFs that come later
            *([f"--max-pkt-len={self.mtu + FRAME_OVERHEAD}"] if self._says_mtu() else []),
            *self._peers(),
        ]

    def _memory(self) -> list[str]:
        if not self.hugepages:
            return ["--no-huge", "-m", str(self.memory_mib)]
        sizes = dict.fromkeys(self.far_nodes, FAR_MIB) | {self.node: self.memory_mib}
        nodes = ",".join(str(sizes.get(node, 0)) for node in range(max(sizes) + 1))
        return ["--in-memory", "--single-file-segments", "--socket-mem", nodes]

    def _peers(self) -> list[str]:
        if self.mode != "mac":
            return []
        return [f"--eth-peer={port},{mac}" for port, mac in sorted(self.peers.items())]

    def _topology(self) -> list[str]:
        if not self.forwarding:
            return ["--forward-mode=rxonly"]
        order = ",".join(map(str, self.forwarding))
        return [f"--forward-mode={self.mode}", "--port-topology=paired", f"--portlist={order}"]

    def _buffers(self) -> int:
        descriptors = self.rx_descriptors + self.tx_descriptors
        return buffers(len(self.devices), self.queues, self.mtu, descriptors)

    def _says_mtu(self) -> bool:
        return self.mtu > STANDARD_MTU and self.tells_mtu


def lcores(main: int, workers: Sequence[int], anywhere: Sequence[int] = ()) -> list[str]:
    """EAL's arguments for a main thread that sleeps and workers that poll.

    DPDK takes a thread's node from the processor that has its lcore's number, and testpmd accepts
    only nodes of its lcores; so an lcore has its processor's number, unless that is taken.

    Args:
        main: Processor of the main thread.
        workers: Processor of each worker; one may be named several times.
        anywhere: Processors among which workers may be moved; empty pins each to its own.

    Returns:
        Arguments.
    """
    free = [number for number in range(MAX_LCORE) if number not in {*workers, main}]
    taken: dict[int, int] = {}
    for cpu in (*workers, main):
        number = cpu if cpu < MAX_LCORE and cpu not in taken else free.pop(0)
        taken[number] = cpu
    *polling, sleeping = taken
    loose = f"({','.join(map(str, anywhere))})" if anywhere else ""
    pairs = [f"{sleeping}@{taken[sleeping]}"]
    pairs += [f"{number}@{loose or taken[number]}" for number in polling]
    return [f"--lcores={','.join(pairs)}", f"--main-lcore={sleeping}"]


def main_processor(
    node: int,
    node_of: Mapping[int, int],
    housekeeping: Sequence[int],
    workers: Sequence[int],
    others: Collection[int] = (),
) -> int:
    """A processor for the main thread on its memory's node: it allocates there and nowhere else.

    Args:
        node: NUMA node of its memory.
        node_of: Processor -> node, of all that are known.
        housekeeping: Processors left to the system, the best ones.
        workers: Processors of workers: they poll, it sleeps, but a number of its own is better.
        others: Processors that are none of its business: other pollers', or not allowed.

    Returns:
        The processor; one left to the system where none is known on the node.
    """
    here = [cpu for cpu in housekeeping if node_of.get(cpu, node) == node]
    taken = {*workers, *others}
    here += [cpu for cpu, its in node_of.items() if its == node and cpu not in taken]
    here += [cpu for cpu in workers if node_of.get(cpu) == node]
    return here[0] if here else housekeeping[0]


def buffers(ports: int, queues: int, mtu: int, descriptors: int = 2 * RING) -> int:
    """Buffers of its pool.

    Args:
        ports: Number of ports.
        queues: Queue pairs of each.
        mtu: MTU, octets.
        descriptors: Of a receive and a transmit ring together.

    Returns:
        Number of buffers; all rings can be full.
    """
    fewest = MBUFS if vdev.room(mtu) == vdev.STANDARD_ROOM else JUMBO_MBUFS
    return max(fewest, ports * queues * descriptors + SPARE_MBUFS)


def memory_mib(ports: int, queues: int, mtu: int, descriptors: int = 2 * RING) -> int:
    """Memory it needs.

    Args:
        ports: Number of ports.
        queues: Queue pairs of each.
        mtu: MTU, octets.
        descriptors: Of a receive and a transmit ring together.

    Returns:
        MiB, a multiple of 64.
    """
    needed = BASE_MIB + vdev.pool_mib(buffers(ports, queues, mtu, descriptors), mtu)
    return -(-needed // 64) * 64


def pollers(role: str, pid: int) -> tuple[Pollers, ...]:
    """Its forwarding threads, by the names that versions of DPDK give them.

    Args:
        role: Whose they are.
        pid: Its process id.

    Returns:
        One entry per name.
    """
    return tuple(Pollers(role=role, pid=pid, thread_prefix=prefix) for prefix in THREADS)
