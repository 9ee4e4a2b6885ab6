"""TRex's server: its ports, its configuration, its command line, its process.

It listens on 0.0.0.0 without access control, so it runs in the run's own network namespace. The
program itself is started, never its wrapper `t-rex-64`, which changes hugepages and NIC drivers.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host import dpdk
from vnetperf.host.machine import Machine
from vnetperf.host.processes import ManagedProcess
from vnetperf.model.deployment import WireEnd
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Placement
from vnetperf.plugin.generator import server_address
from vnetperf.traffic.devices import MEMIF_FRAMES, dpdk_device

WIRES = ("nic", "memif", "veth")
ATTACHMENTS = ("memif", "veth")
#: Largest frame, octets including FCS; its buffers hold 9280, a tunnel's headers included.
MAX_FRAME = 9000
#: Octets of a jumbo frame in a ring, which fits its buffers.
JUMBO_FRAME = 9280


@dataclass(frozen=True)
class ServerPort:
    """A port of the server.

    Attributes:
        interface: As in `interfaces` of its configuration.
        mac: Address it has; "" for its own.
        many_queues: True when it has a receive queue for each of the server's workers.
        pci: True when it is a NIC that the server drives itself.
        netdev: Kernel interface behind it; "" for none.
    """

    interface: str
    mac: str = ""
    many_queues: bool = False
    pci: bool = False
    netdev: str = ""


def server_port(
    number: int,
    end: WireEnd,
    mtu: int,
    *,
    own_socket: bool = False,
    memif_frames: int = MEMIF_FRAMES,
) -> ServerPort:
    """The port that plugs into an end."""
    kinds = (*WIRES, *ATTACHMENTS)
    device = dpdk_device(number, end, mtu, kinds, own_socket=own_socket, memif_frames=memif_frames)
    argument = device.argument.removeprefix("-a")
    if device.netdev and mtu > dpdk.STANDARD_ROOM_MTU:
        ring = dpdk.af_packet_ring(JUMBO_FRAME, dpdk.AF_PACKET_FRAMES)
        argument = f"--vdev=net_af_packet{number},iface={device.netdev},{ring},qdisc_bypass=1"
    return ServerPort(
        argument,
        mac=end.mac or "",
        many_queues=not device.netdev,
        pci=device.pci,
        netdev=device.netdev,
    )


SYNC_PORT, ASYNC_PORT = 4501, 4500
#: Where the one listens that a run starts, in the run's network namespace.
OWN_ADDRESS = ("127.0.0.1", SYNC_PORT, ASYNC_PORT)
#: How often a connection is tried, and how long that may take, seconds.
CHECK_S = 1.0


def remote_address(server: str) -> tuple[str, int, int]:
    """Host, port of requests and port of messages of a server elsewhere."""
    host, ports = server_address(server, "HOST:SYNC-PORT:ASYNC-PORT", SYNC_PORT, ASYNC_PORT)
    return host, ports[0], ports[1]


class RemoteServer:
    """A server that another program has started."""

    def __init__(self, server: str) -> None:
        self.address = remote_address(server)
        self._next = 0.0

    def check_alive(self) -> None:
        """Connect, now and then: its client would take a quarter of a minute to miss it."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + CHECK_S
        host, port, _ = self.address
        try:
            socket.create_connection((host, port), timeout=CHECK_S).close()
        except ConnectionRefusedError:
            raise GeneratorError(
                f"the server does not answer: connection to {host}:{port} refused",
                where="trex",
                cure="see the server's log",
            ) from None
        except OSError:
            return  # slow, or not reachable for a moment: for the client to find out


PROGRAM = "trex"
#: Memory without hugepages, MiB: with processors of its own it has pools for everything.
LOW_END_MIB, ROOMY_MIB = 512, 1024
#: Hugepages that it takes for NICs, MiB.
NIC_MIB = 1024
#: Any unicast address: streams carry addresses of their own.
ANY_MAC = "02:00:00:00:00:01"


@dataclass(frozen=True)
class ServerThreads:
    """Processors of the server's threads.

    Attributes:
        low_end: True when all take turns on one processor, sleeping up to a millisecond between.
        workers: Processors that send and receive; the one of all in low_end.
        receiver: Processor that measures latency.
        main: Processor that answers requests.
    """

    low_end: bool
    workers: tuple[int, ...]
    receiver: int
    main: int


def server_threads(
    placement: Placement, ports: Sequence[ServerPort] = (), queues: int | None = None
) -> ServerThreads:
    """Where the server's threads run."""
    cores, main = placement.cores.get("tester", (0,)), placement.housekeeping[0]
    if len(cores) < 2 or placement.takes_turns("tester") or main in cores:
        return ServerThreads(low_end=True, workers=cores[:1], receiver=cores[0], main=cores[0])
    workers = cores[:-1] if all(port.many_queues for port in ports) else cores[:1]
    if queues is not None and not all(port.pci for port in ports):
        workers = workers[:queues]
    return ServerThreads(low_end=False, workers=workers, receiver=cores[-1], main=main)


#: Numbers that the server has no room for in its tables (v3.08): processors from here on, which it
#: takes for others or ends at, and NUMA nodes.
PROCESSORS, NODES = 120, 4


def beyond_server(threads: ServerThreads, node: int) -> str:
    """Why the server cannot run on these processors and this node, "" when it can."""
    if threads.low_end:  # names one processor to DPDK, and no node
        return ""
    used = sorted({*threads.workers, threads.receiver, threads.main})
    if over := [cpu for cpu in used if cpu >= PROCESSORS]:
        limit = f"processors up to {PROCESSORS - 1}, and would be on {', '.join(map(str, over))}"
        return f"TRex takes {limit}; name others in `allowed` under [cores]"
    if node >= NODES:
        limit = f"NUMA nodes up to {NODES - 1}, and would be on {node}"
        return f"TRex takes {limit}; name processors of others in `allowed` under [cores]"
    return ""


def server_configuration(
    ports: Sequence[ServerPort], threads: ServerThreads, prefix: str, *, mtu: int, node: int
) -> str:
    """The server's configuration file."""
    lines = [
        "- version: 2",
        f"  port_limit: {len(ports)}",
        f"  prefix: {prefix}",
        "  interfaces:",
        *(f"    - {json.dumps(port.interface)}" for port in ports),
    ]
    if not any(port.pci for port in ports):
        lines.append(f"  limit_memory: {LOW_END_MIB if threads.low_end else ROOMY_MIB}")
    else:  # its hugepages have no files that would keep them when it is killed
        options = ["--huge-unlink"]
        if threads.low_end:  # else it has a limit by itself, and here all that are free
            options += ["-m", str(NIC_MIB)]
        lines.append(f"  ext_dpdk_opt: {json.dumps(options)}")
    if threads.low_end:
        lines += ["  low_end: true", f"  low_end_core: {threads.workers[0]}"]
    else:
        lines.append(f"  c: {len(threads.workers)}")
    if mtu != dpdk.STANDARD_MTU and all(port.pci for port in ports):  # virtual ones refuse another
        lines.append(f"  port_mtu: {mtu}")
    lines.append("  port_info:")
    for port in ports:
        lines += [f'    - dest_mac: "{ANY_MAC}"', f'      src_mac: "{port.mac or ANY_MAC}"']
    if not threads.low_end:
        lines += [
            "  platform:",
            f"    master_thread_id: {threads.main}",
            f"    latency_thread_id: {threads.receiver}",
            "    dual_if:",
        ]
        for _ in range(len(ports) // 2):
            workers = ", ".join(map(str, threads.workers))
            lines += [f"      - socket: {node}", f"        threads: [{workers}]"]
    return "\n".join(lines) + "\n"


def server_command(program: str, configuration_file: Path, threads: ServerThreads) -> list[str]:
    """The server's command line."""
    argv = ["env", "--chdir", str(Path(program).parent), program]
    argv += ["-i", "--cfg", str(configuration_file), "-c", str(len(threads.workers))]
    # A frame that a ring does not take is dropped and counted, instead of tried again while
    # those that follow become late. Latencies come as whole histograms.
    argv += ["--queue-drop", "--hdrh"]
    # Its watchdog ends it when a thread had no processor for a second; a stall shows in the counts.
    argv += ["--no-watchdog", "--iom", "0", "--no-key", "--no-termio", "--no-scapy-server"]
    return argv


@dataclass(frozen=True)
class TrexServer:
    """A server of the run."""

    process: ManagedProcess
    threads: ServerThreads
    configuration: str


def start_server(
    machine: Machine,
    directory: Path,
    program: str,
    ports: Sequence[ServerPort],
    threads: ServerThreads,
    *,
    mtu: int,
    node: int,
) -> TrexServer:
    """Start a server; its client waits until it replies."""
    prefix = f"vnetperf-{machine.run_id}"[:40]
    configuration = server_configuration(ports, threads, prefix, mtu=mtu, node=node)
    file = directory / "trex_cfg.yaml"
    file.write_text(configuration)
    libraries = Path(program).parent / "so"
    env = {
        "LD_LIBRARY_PATH": f"{libraries}:{libraries / 'x86_64'}",
        "RUNTIME_DIRECTORY": str(directory),
    }
    argv = server_command(program, file, threads)
    process = machine.spawn("trex", argv, env=env)
    return TrexServer(process, threads, configuration)
