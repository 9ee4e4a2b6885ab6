"""TRex's server: its configuration, its command line, its process.

It listens on 0.0.0.0 without asking who comes, so it runs in the run's own network namespace. The
program itself is started, never its wrapper `t-rex-64`, which changes hugepages and drivers of
NICs, and ends other programs by their names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetperf.host.machine import Machine
from vnetperf.host.process import ManagedProcess
from vnetperf.model.errors import GeneratorError
from vnetperf.model.plan import Placement
from vnetperf.traffic.trex.ports import Port

PROGRAM = "trex"
#: Lines of its log in a message.
LOG_LINES = 15
#: Memory without hugepages, MiB: with processors of its own it has pools for everything.
LOW_END_MIB, ROOMY_MIB = 512, 1024
STANDARD_MTU = 1500
#: Any unicast address: streams carry addresses of their own.
NOBODY = "02:00:00:00:00:01"


@dataclass(frozen=True)
class Threads:
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


def threads_of(
    placement: Placement, ports: Sequence[Port] = (), queues: int | None = None
) -> Threads:
    """Where the server's threads run.

    Args:
        placement: What it was given: as many processors as it asks for, or fewer in turns.
        ports: Its ports: one without several queues takes one worker.
        queues: Queues that the other end of a virtual port sends on: more workers are no use there,
            and cost the probes of latency; None for as many as there can be.

    Returns:
        The threads.
    """
    cores, main = placement.cores.get("tester", (0,)), placement.housekeeping[0]
    if len(cores) < 2 or placement.takes_turns("tester") or main in cores:
        return Threads(low_end=True, workers=cores[:1], receiver=cores[0], main=cores[0])
    workers = cores[:-1] if all(port.many_queues for port in ports) else cores[:1]
    if queues is not None and not all(port.pci for port in ports):
        workers = workers[:queues]
    return Threads(low_end=False, workers=workers, receiver=cores[-1], main=main)


def configuration(
    ports: Sequence[Port], threads: Threads, prefix: str, *, mtu: int, node: int
) -> str:
    """The server's configuration file.

    Args:
        ports: Its ports, an even number.
        threads: Its processors.
        prefix: Tells its files apart from those of other programs with DPDK.
        mtu: MTU, octets.
        node: NUMA node of its memory.

    Returns:
        YAML.
    """
    lines = [
        "- version: 2",
        f"  port_limit: {len(ports)}",
        f"  prefix: {prefix}",
        "  interfaces:",
        *(f"    - {json.dumps(port.interface)}" for port in ports),
    ]
    if not any(port.pci for port in ports):
        lines.append(f"  limit_memory: {LOW_END_MIB if threads.low_end else ROOMY_MIB}")
    if threads.low_end:
        lines += ["  low_end: true", f"  low_end_core: {threads.workers[0]}"]
    else:
        lines.append(f"  c: {len(threads.workers)}")
    if mtu != STANDARD_MTU and all(port.pci for port in ports):  # virtual ones refuse another
        lines.append(f"  port_mtu: {mtu}")
    lines.append("  port_info:")
    for port in ports:
        lines += [
            f'    - dest_mac: "{NOBODY}"',
            f'      src_mac: "{port.mac or NOBODY}"',
        ]
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


def command(program: str, configuration_file: Path, threads: Threads) -> list[str]:
    """The server's command line.

    Args:
        program: The binary; it looks for its libraries below the directory it is started in.
        configuration_file: Its configuration.
        threads: Its processors.

    Returns:
        Program and arguments.
    """
    argv = ["env", "--chdir", str(Path(program).parent), program]
    argv += ["-i", "--cfg", str(configuration_file), "-c", str(len(threads.workers))]
    # A frame that a ring does not take is dropped and counted, instead of tried again while
    # those that follow become late. Latencies come as whole histograms.
    argv += ["--queue-drop", "--hdrh"]
    # Its watchdog ends it when a thread had no processor for a second; a stall shows in the counts.
    argv += ["--no-watchdog", "--iom", "0", "--no-key", "--no-termio", "--no-scapy-server"]
    return argv


class TrexServer:
    """A server of the run.

    Args:
        machine: Where it runs.
        directory: Directory for its files.
        program: Path of `_t-rex-64`.
        threads: Its processors.

    Attributes:
        argv: How it was started.
        configuration: Its configuration.
    """

    def __init__(self, machine: Machine, directory: Path, program: str, threads: Threads) -> None:
        self.machine = machine
        self.directory = directory
        self.program = program
        self.threads = threads
        self.argv: list[str] = []
        self.configuration = ""
        self._process: ManagedProcess | None = None

    def start(self, ports: Sequence[Port], *, mtu: int, node: int) -> None:
        """Start it; whether it answers is for its client to see.

        Args:
            ports: Its ports.
            mtu: MTU, octets.
            node: NUMA node of its memory.
        """
        prefix = f"vnetperf-{self.machine.run_id}"[:40]
        self.configuration = configuration(ports, self.threads, prefix, mtu=mtu, node=node)
        file = self.directory / "trex_cfg.yaml"
        file.write_text(self.configuration)
        self.argv = command(self.program, file, self.threads)
        libraries = Path(self.program).parent / "so"
        env = {
            "LD_LIBRARY_PATH": f"{libraries}:{libraries / 'x86_64'}",
            "RUNTIME_DIRECTORY": str(self.directory),
        }
        self._process = self.machine.spawn("trex", self.argv, env=env, isolated=True)

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return self._process.pid if self._process else 0

    def check_alive(self) -> None:
        """Raise when it has ended.

        Raises:
            GeneratorError: With the log's tail.
        """
        if self._process is not None and not self._process.alive():
            raise GeneratorError(
                f"TRex's server has ended (status {self._process.returncode}); log ends with:\n"
                + self._process.log_tail(LOG_LINES),
                where="trex",
            )

    def stop(self) -> None:
        """End it, this one and no other; idempotent."""
        if self._process is not None:
            self._process.stop(timeout_s=3.0)
            self._process = None
