"""What the engine is asked for: its configuration, streams and trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

MAX_STREAMS = 256
MAX_HEADER = 440
MAX_WORKERS = 64
TRAILER_OCTETS = 18
#: RTE_MAX_LCORE of distributions' builds.
MAX_LCORE = 128


@dataclass(frozen=True)
class QueueMap:
    """One queue given to one worker, instead of the usual turn."""

    direction: Literal["rx", "tx"]
    port: int
    queue: int
    worker: int
    """Number of the worker: the place of its CPU in `EngineConfig.cpus`."""

    def render(self) -> str:
        """The item as ``--map`` takes it."""
        return f"{self.direction}{self.port}.{self.queue}@{self.worker}"


@dataclass(frozen=True)
class EngineConfig:
    """How the engine is started; renders its command line."""

    devices: tuple[str, ...]
    """EAL arguments that make the ports, in port order: ``--vdev=...``, ``-a 0000:...``."""
    cpus: tuple[int, ...] = (0,)
    """CPUs of the workers, one worker each; the same CPU twice makes two workers share it."""
    hugepages: bool = True
    """False: ordinary memory (``--no-huge``); memif and kernel interfaces lose nothing by it."""
    memory_mb: int = 512
    """Memory that DPDK takes, MiB."""
    node: int = 0
    """NUMA node of the hugepages."""
    pci: bool = False
    """Whether EAL looks for PCI devices; without it ``--no-pci``."""
    eal: tuple[str, ...] = ()
    """Further EAL arguments."""
    rx_queues: int | tuple[int, ...] = 1
    """Receive queues of every port, or by port; all are polled."""
    tx_queues: int | tuple[int, ...] = 1
    """Transmit queues of every port, or by port; each counts its own sequence numbers."""
    rx_descriptors: int = 1024
    tx_descriptors: int = 1024
    mbufs: int = 0
    """Buffers per pool; 0: enough for the rings."""
    mtu: int | None = None
    """Octets; None: 1500, left to the driver."""
    room: int = 0
    """Octets of frame that a buffer holds; 0: enough for the MTU."""
    rx_burst: int = 32
    """Frames per receive call."""
    sleep_us: int = 0
    """Sleep when idle, for CPUs that are shared; 0: poll without sleeping."""
    nic_time: bool = False
    """Arrivals by a NIC's own clock, where its driver gives it to each frame and lets it be read;
    else by the processor's (TSC), when the frame is found."""
    queue_map: tuple[QueueMap, ...] = ()

    def argv(self, executable: str) -> list[str]:
        """The whole command line.

        Args:
            executable: Path of the engine.

        Returns:
            Program and arguments.
        """
        argv = [executable, f"--lcores={self._lcores()}"]
        if self.hugepages:
            memory = ",".join(["0"] * self.node + [str(self.memory_mb)])
            argv += ["--in-memory", "--single-file-segments", "--socket-mem", memory]
        else:
            argv += ["--no-huge", "-m", str(self.memory_mb)]
        argv += [] if self.pci else ["--no-pci"]
        argv += [*self.devices, *self.eal, "--"]
        argv += [f"--rx-queues={_list(self.rx_queues)}", f"--tx-queues={_list(self.tx_queues)}"]
        argv += [f"--rx-desc={self.rx_descriptors}", f"--tx-desc={self.tx_descriptors}"]
        argv += [f"--mbufs={self.mbufs}", f"--rx-burst={self.rx_burst}"]
        argv += [f"--sleep-us={self.sleep_us}"]
        argv += [f"--room={self.room}"] if self.room else []
        argv += ["--nic-time=1"] if self.nic_time else []
        argv += [] if self.mtu is None else [f"--mtu={self.mtu}"]
        argv += [f"--map={','.join(m.render() for m in self.queue_map)}"] if self.queue_map else []
        return argv

    def _lcores(self) -> str:
        """One lcore for each worker.

        DPDK takes a thread's node from the processor that has its lcore's number, so a single one
        gets its own.
        """
        if len(self.cpus) == 1 and self.cpus[0] < MAX_LCORE:
            return f"{self.cpus[0]}@{self.cpus[0]}"
        return ",".join(f"{number}@{cpu}" for number, cpu in enumerate(self.cpus))


def _list(numbers: int | tuple[int, ...]) -> str:
    return str(numbers) if isinstance(numbers, int) else ",".join(map(str, numbers))


@dataclass(frozen=True)
class FieldSpec:
    """A header field that varies: ``base + step * i`` for i in 0..count-1, big endian."""

    offset: int
    """Octets from the start of the frame."""
    width: int
    """Octets, 1..8."""
    base: int
    count: int
    """Number of values."""
    step: int = 1
    mode: Literal["inc", "carry", "random"] = "inc"
    """inc: the next value with each frame; carry: each time the field before wraps around (so that
    the numbers of values multiply); random: evenly among the values."""
    seed: int | None = None
    """Of mode random; None: one that depends on stream and field only."""

    def parameters(self) -> dict[str, Any]:
        """What ``stream/field`` takes, besides the stream."""
        return asdict(self)


@dataclass(frozen=True)
class StreamSpec:
    """Frames of one kind, sent by one port, expected at another."""

    id: int
    """0..255."""
    tx_port: int
    rx_port: int
    frame_size: int
    """Octets including FCS, 64..9216."""
    header: bytes
    """The frame's first octets, at most 440; zeros and the trailer follow."""
    l3_offset: int | None = None
    """Of an IPv4 header whose checksum is to be kept right (or an IPv6 header, for UDP)."""
    udp_offset: int | None = None
    """Of a UDP header whose checksum is to be kept right; None: left as in the template."""
    tcp_offset: int | None = None
    """The same of a TCP header; not both."""
    outer_offset: int | None = None
    """Of a further IPv4 header whose checksum is to be kept right, before that at `l3_offset`."""
    queue: int | None = None
    """Transmit queue of all its frames; None: shared out over all of the port's."""
    fields: tuple[FieldSpec, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """What ``stream/add`` takes."""
        return {
            "id": self.id,
            "tx_port": self.tx_port,
            "rx_port": self.rx_port,
            "size": self.frame_size,
            "header": self.header.hex(),
            "l3": self.l3_offset,
            "udp": self.udp_offset,
            "tcp": self.tcp_offset,
            "outer": self.outer_offset,
            "queue": self.queue,
        }


@dataclass(frozen=True)
class NeighbourSpec:
    """Addresses that a port answers ARP requests and neighbour solicitations for."""

    port: int
    address: bytes
    """The first: four octets of IPv4, or sixteen of IPv6."""
    mac: bytes
    """Six octets."""
    count: int = 1
    """Addresses from there on."""
    mac_steps: bool = False
    """True: the MAC address rises with the address, in its low three octets."""

    def parameters(self) -> dict[str, Any]:
        """What ``neighbour/add`` takes."""
        return {
            "port": self.port,
            "address": self.address.hex(),
            "mac": self.mac.hex(),
            "count": self.count,
            "mac_steps": int(self.mac_steps),
        }


@dataclass(frozen=True)
class Load:
    """What a trial sends of one stream."""

    rate: float | None
    """Frames/s; None: as fast as they go, then `count` is needed."""
    count: int | None = None
    """Exact number of frames; None: ``round(rate * duration)``."""

    def parameters(self) -> dict[str, Any]:
        """What ``stream/load`` takes, besides the stream."""
        return {"rate": "max" if self.rate is None else float(self.rate), "count": self.count}


@dataclass(frozen=True)
class TrialSpec:
    """One trial."""

    loads: Mapping[int, Load] = field(default_factory=dict)
    """By stream id; a stream that is not named rests."""
    duration_s: float | None = None
    """Seconds; None: every load has a count, or there are steps."""
    steps: tuple[tuple[float, float], ...] = ()
    """Loads one after the other: share of each stream's rate, 0..1, and seconds."""
    epoch: int | None = None
    """1..255, not the last trial's; None: the next one."""
    delay_s: float = 0.0
    """Seconds before the common start."""
    drain_s: float = 1.0
    """Seconds to wait for frames under way, at most."""
    burst: int = 32
    """Frames per transmit call at most, and back to back after a stall, 1..256."""
    group: int = 1
    """Frames of each queue that leave back to back, then none until the rate is met, 1..65536."""
    max_lag_s: float = 0.01
    """Seconds behind schedule (or of retrying) after which frames are given up as unsent."""
    policy: Literal["drop", "retry"] = "drop"
    """What happens to frames the driver does not take: counted as refused, or offered again."""
    bin_s: float = 0.0
    """Width of a timeline's bins; 0: no timelines."""
    tag_at_s: float = 0.0
    """Frames sent before are in no latency."""
    ipdv: bool = False
    """Whether differences of successive frames' delays are kept."""

    def parameters(self) -> dict[str, Any]:
        """What ``trial/start`` takes, besides the epoch and the loads."""
        return {
            "duration": None if self.duration_s is None else float(self.duration_s),
            "delay": float(self.delay_s),
            "drain": float(self.drain_s),
            "burst": self.burst,
            "group": self.group,
            "max_lag": float(self.max_lag_s),
            "policy": self.policy,
            "steps": "/".join(f"{share!r}@{seconds!r}" for share, seconds in self.steps) or None,
            "bin": self.bin_s or None,
            "tag": self.tag_at_s or None,
            "ipdv": 1 if self.ipdv else None,
        }
