"""How Pktgen is started: devices, logical cores, memory, files of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from vnetperf.host import vdev
from vnetperf.model.errors import GeneratorError
from vnetperf.model.plan import Plan
from vnetperf.model.ports import WireEnd
from vnetperf.traffic.pktgen.repl import PORT
from vnetperf.traffic.pktgen.streams import PortTraffic

USER_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
#: Pktgen makes a pool of 24576 buffers of 10 KiB for each receive queue of a port, and for each of
#: its four ways of sending, whether they are used or not.
POOL_MIB, WAYS, BASE_MIB = 259, 4, 480
#: A frame from a file beside its octets: the buffer's header, headroom, the pool's own.
FRAME_OVERHEAD = 128 + 128 + 128
#: The last logical core; with two digits its number fits into the name of its thread.
MAX_LCORE = 99


@dataclass(frozen=True)
class Launch:
    """A launch of Pktgen.

    Attributes:
        argv: Program and arguments.
        sockets: Sockets that it listens on and leaves behind.
        workers: Logical cores that send and receive.
        port: TCP port of its Lua.
    """

    argv: tuple[str, ...]
    sockets: tuple[Path, ...]
    workers: tuple[int, ...]
    port: int


def launch(
    program: str,
    plan: Plan,
    ends: Sequence[WireEnd],
    files: Mapping[int, tuple[Path, PortTraffic]],
    prefix: str,
) -> Launch:
    """The command that starts Pktgen.

    Args:
        program: Path.
        plan: Says which processors and queues.
        ends: The tester's ends, by port.
        files: Port -> its file of frames; ports without one send Pktgen's own frame, or nothing.
        prefix: Name that sets it apart from other DPDK programs.

    Returns:
        The launch.
    """
    placement = plan.placement
    (core, *_) = placement.cores["tester"]
    others = [cpu for cpu in placement.housekeeping if cpu != core] or [core]
    # The statistics' thread is put on the processor that has the main logical core's number.
    main = others[0]
    queues = plan.tester_rx_queues
    workers = tuple(range(MAX_LCORE, MAX_LCORE - queues, -1))
    lcores = ",".join([f"{main}@{main}", *(f"{worker}@{core}" for worker in workers)])
    devices = [_device(number, end, plan) for number, end in enumerate(ends)]
    hugepages = any(device.startswith("-a") for device in devices)
    argv = [program, f"--lcores={lcores}", f"--main-lcore={main}", f"--file-prefix={prefix}"]
    argv += [f"-m{memory_mib(len(ends), queues, list(files.values()))}", "--no-telemetry"]
    argv += ["--in-memory"] if hugepages else ["--no-huge", "--no-pci"]
    argv += [*devices, "--", "-g", f"127.0.0.1:{PORT}", "-m", _matrix(len(ends), workers)]
    argv += [f"-s{port}:{path}" for port, (path, _) in sorted(files.items())]
    sockets = tuple(Path(end.socket) for end in ends if end.socket and end.role == "server")
    return Launch(tuple(argv), sockets, workers, PORT)


def memory_mib(ports: int, queues: int, files: Sequence[tuple[Path, PortTraffic]] = ()) -> int:
    """Memory to give Pktgen; without hugepages only what is used is taken.

    Args:
        ports: Number of ports.
        queues: Receive queues of each.
        files: Files of frames.

    Returns:
        MiB.
    """
    buffers = sum(t.frames * (t.octets + FRAME_OVERHEAD) for _, t in files) * 1.1
    return BASE_MIB + ports * POOL_MIB * (queues + WAYS) + ceil(buffers / (1 << 20))


def _matrix(ports: int, workers: Sequence[int]) -> str:
    """Which logical core serves which port: the first sends, all of them receive."""
    receive = "/".join(str(worker) for worker in workers)
    cores = f"{workers[0]}" if len(workers) == 1 else f"[{receive}:{workers[0]}]"
    return ",".join(f"{cores}.{port}" for port in range(ports))


def _device(number: int, end: WireEnd, plan: Plan) -> str:
    mtu = plan.scenario.mtu
    if end.kind == "memif" and end.socket:
        argument = vdev.memif(
            number,
            role=end.role or "client",
            identity=end.wire,
            socket=end.socket,
            mtu=mtu,
            mac=end.mac or "",
        )
        return f"--vdev={argument}"
    if end.pci and end.driver in USER_DRIVERS:
        return f"-a{end.pci}"
    if end.netdev:
        return f"--vdev={vdev.af_packet(number, end.netdev, mtu)}"
    raise GeneratorError(
        f"cannot plug into a {end.kind}", where="pktgen", accepted="memif, veth, nic"
    )
