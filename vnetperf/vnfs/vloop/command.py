"""testpmd's command line: what forwards between two ports, wherever it is run."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.host import vdev
from vnetperf.vnfs.vloop.devices import FRAME_OVERHEAD, RING, Device

#: RTE_MAX_LCORE of distributions' builds.
MAX_LCORE = 128
#: Fewest buffers; more queues have more. They lie in rings, caches and the other side's hands.
MBUFS, JUMBO_MBUFS, SPARE_MBUFS = 16384, 8192, 4096
#: Memory beside the buffers: rings, EAL, testpmd itself.
BASE_MIB = 64
STANDARD_MTU = 1500


@dataclass(frozen=True)
class Command:
    """A launch of testpmd.

    Attributes:
        program: Path of testpmd.
        devices: Its two ports.
        main: Processor of its main thread.
        worker: Processor of its forwarding thread.
        node: NUMA node of its memory.
        name: Prefix of its files, and of its telemetry socket's folder.
        mode: Forwarding mode: "io", "mac", "macswap".
        queues: Queue pairs of each port.
        mtu: MTU, octets.
        peers: Destination addresses by port, of mode "mac"; None leaves testpmd's.
    """

    program: str
    devices: tuple[Device, Device]
    main: int
    worker: int
    node: int
    name: str
    mode: str
    queues: int
    mtu: int
    peers: tuple[str | None, str | None] = (None, None)

    @property
    def hugepages(self) -> bool:
        """Whether its memory must be hugepages."""
        return any(device.hugepages for device in self.devices)

    def argv(self) -> list[str]:
        """The whole command line.

        Returns:
            Program and arguments.
        """
        # DPDK takes a thread's node from the processor that has its lcore's number, and testpmd
        # accepts only nodes of its lcores.
        main, worker = self.main, self.worker
        lcore = worker if worker < MAX_LCORE else MAX_LCORE - 1
        main_lcore = main if main < MAX_LCORE and main != lcore else int(lcore == 0)
        return [
            self.program,
            f"--lcores={main_lcore}@{main},{lcore}@{worker}",
            f"--main-lcore={main_lcore}",
            f"--file-prefix={self.name}",
            *([] if any(device.pci for device in self.devices) else ["--no-pci"]),
            *self._memory(),
            *(device.argument for device in self.devices),
            "--",
            "--auto-start",
            f"--forward-mode={self.mode}",
            *self._buffers(),
            f"--rxd={RING}",
            f"--txd={RING}",
            f"--rxq={self.queues}",
            f"--txq={self.queues}",
            "--no-numa",
            f"--socket-num={self.node}",
            "--nb-cores=1",
            "--no-lsc-interrupt",
            *self._addresses(),
        ]

    def _memory(self) -> list[str]:
        mib = memory_mib(self.mtu, self.queues)
        if not self.hugepages:
            return ["--no-huge", "-m", str(mib)]
        nodes = ",".join(["0"] * self.node + [str(mib)])
        return ["--in-memory", "--single-file-segments", "--socket-mem", nodes]

    def _buffers(self) -> list[str]:
        arguments = [f"--total-num-mbufs={buffers(self.mtu, self.queues)}"]
        arguments.append(f"--mbuf-size={vdev.room(self.mtu) + vdev.HEADROOM}")
        if self.mtu > STANDARD_MTU and all(device.takes_mtu for device in self.devices):
            arguments.append(f"--max-pkt-len={self.mtu + FRAME_OVERHEAD}")
        return arguments

    def _addresses(self) -> list[str]:
        if self.mode != "mac":
            return []
        return [f"--eth-peer={port},{mac}" for port, mac in enumerate(self.peers) if mac]


def buffers(mtu: int, queues: int) -> int:
    """Buffers of its pool.

    Args:
        mtu: MTU, octets.
        queues: Queue pairs of each port.

    Returns:
        Number of buffers; all rings of both ports can be full.
    """
    fewest = MBUFS if vdev.room(mtu) == vdev.STANDARD_ROOM else JUMBO_MBUFS
    return max(fewest, 4 * queues * RING + SPARE_MBUFS)


def memory_mib(mtu: int, queues: int) -> int:
    """Memory it needs.

    Args:
        mtu: MTU, octets.
        queues: Queue pairs of each port.

    Returns:
        MiB, a multiple of 64.
    """
    needed = BASE_MIB + vdev.pool_mib(buffers(mtu, queues), mtu)
    return -(-needed // 64) * 64
