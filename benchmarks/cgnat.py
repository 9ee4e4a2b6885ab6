"""What the NAT on DPDK forwards, beside dpdk-testpmd that does nothing but send frames back.

Run as root: `python -m benchmarks.cgnat [--seconds 0.25] [--repeats 5] [--stages LIST]`.

One processor for the DUT, another for the tester, a memif wire between them for each side, frames
of 64 octets both ways, more of them than any DUT takes. Each repeat runs all DUTs in turn, each in
several short trials, so that a slow moment of the machine hits all; figures are medians with their
range, and ratios are of the best trials, too. Sessions are made first, and are counted as set up
when their frames come out; forwarded frames must have the addresses and ports that computation
gives (RFC 7422).

The buffers of the wires' rings stay in a cache of 1 MiB up to `--ring 512` or so; where tables of
a million sessions have driven those of 2048 out, the DUT waits for memory as it copies frames.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vnetperf.host import hugepages
from vnetperf.host.dpdk import MEMIF_RING_LOG2, DpdkPorts, memif_devargs
from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import ManagedProcess, Processes
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.model.nat import Nat
from vnetperf.model.trial import DirectionCounts
from vnetperf.plugin.frame_layers import internet_checksum
from vnetperf.traffic.loadgen.engine import (
    Engine,
    EngineConfig,
    EngineTrial,
    FieldSpec,
    StreamLoad,
    StreamSpec,
)
from vnetperf.vswitches.cgnat.dpdk import ENGINE, RUN_TO_COMPLETION

TESTER, DUT = 0, 1
SERVER, MTU, HUGE_MIB, TRIES = 0xC6130001, 1500, 1024, 3
#: Trials of a DUT that is up, in each repeat.
TRIALS = 8
ESTIMATES: dict[str, Callable[[Iterable[float]], float]] = {
    "medians": statistics.median,
    "the best": max,
}
OWN = ("02:00:00:00:00:10", "02:00:00:00:00:11")
NEXT_HOP = ("02:00:00:00:00:20", "02:00:00:00:00:21")
DENSITIES = {"64,512": Nat(), "1,032,192": Nat(subscribers=16384)}
#: More than any DUT forwards, frames/s each way, and the load at which sessions are made first.
OVERLOAD, GENTLE = 1e7, 2e5
#: Frames that a ring of a wire may hold.
RINGS = tuple(1 << log2 for log2 in range(6, 15))


@dataclass(frozen=True)
class Dut:
    """What is measured; a NAT when it has stages."""

    name: str
    nat: Nat
    stages: str = ""
    ring_log2: int = MEMIF_RING_LOG2

    def devices(self, directory: Path, role: str) -> list[str]:
        """Arguments of the wires' ends."""
        wire = partial(memif_devargs, role=role, identity=0, mtu=MTU, ring_log2=self.ring_log2)
        return [f"--vdev={wire(n, socket=path)}" for n, path in enumerate(sockets(directory))]

    def argv(self, directory: Path) -> list[str]:
        """Its command line."""
        devices = self.devices(directory, "server")
        threads = self.stages.count("/") + 1
        lcores = ",".join([f"0@{TESTER}", *(f"{n + 1}@{DUT}" for n in range(threads))])
        common = [f"--lcores={lcores}", "--main-lcore=0", "--no-pci", "--in-memory", *devices]
        common += ["--single-file-segments", f"--socket-mem={HUGE_MIB}", "--file-prefix=b", "--"]
        if not self.stages:
            own = ["--auto-start", "--forward-mode=macswap", "--port-topology=paired"]
            return ["dpdk-testpmd", *common, *own, "--nb-cores=1", "--total-num-mbufs=16384"]
        nat = self.nat
        own = [f"--inside={nat.first_inside}", f"--subscribers={nat.subscribers}"]
        own += [f"--pool={nat.pool.network_address}", f"--addresses={nat.addresses}"]
        own += [f"--block={nat.block_size}", f"--stages={self.stages}"]
        own += [f"--mappings={nat.sessions}", f"--sessions={nat.sessions}"]
        own += [f"--own={','.join(OWN)}", f"--next-hop={','.join(NEXT_HOP)}"]
        return [str(ENGINE.executable()), *common, *own]


def sockets(directory: Path) -> list[str]:
    """One for each wire."""
    return [f"{directory}/m{n}" for n in (0, 1)]


def streams(dut: Dut) -> list[StreamSpec]:
    """Every session of the NAT, both ways, and what its frames must come back with."""
    bound = dut.nat.bindings()
    count = dut.nat.sessions
    server, port = SERVER.to_bytes(4), (53).to_bytes(2)
    near, far = (26, 34), (30, 36)  # source and destination: address, port

    def fields(at: tuple[int, int], ip: bytes, ports: bytes) -> tuple[FieldSpec, ...]:
        return tuple(
            FieldSpec(where, width, int.from_bytes(of[:width]), count, mode="table", table=of)
            for where, width, of in ((at[0], 4, ip), (at[1], 2, ports))
        )

    def header(side: int, src: bytes, dst: bytes) -> bytes:
        mac = bytes.fromhex((OWN[side] + NEXT_HOP[side]).replace(":", ""))
        ip = bytes.fromhex("4500002e000040004011") + bytes(2) + src + dst
        ip = ip[:10] + internet_checksum(ip).to_bytes(2) + ip[12:]
        return mac + b"\x08\x00" + ip + port + port + (26).to_bytes(2) + bytes(2)

    inside, public = bound.inside, bound.public
    nat = bool(dut.stages)
    return [
        StreamSpec(
            *(0, 0, 1, 64, header(0, inside[:4], server)),
            l3_offset=14,
            fields=fields(near, inside, bound.ports),
            expected=fields(near, public, bound.public_ports) if nat else (),
        ),
        StreamSpec(
            *(1, 1, 0, 64, header(1, server, public[:4])),
            l3_offset=14,
            fields=fields(far, public, bound.public_ports),
            expected=fields(far, inside, bound.ports) if nat else (),
        ),
    ]


@contextmanager
def running(dut: Dut) -> Iterator[tuple[Engine, DpdkPorts]]:
    """A DUT and a tester, wired; hugepages and processes go with them."""
    with tempfile.TemporaryDirectory(prefix="nb") as name:
        directory = Path(name)
        journal = Journal.create(HostRoots(directory / "state", directory / "run"), "benchmark")
        processes = Processes(journal, directory)
        try:
            hugepages.reserve(journal, 0, 2048, HUGE_MIB * 1024 // 2048)
            process = processes.spawn(
                "dut", dut.argv(directory), env={"RUNTIME_DIRECTORY": name}, stdin=True
            )
            telemetry = DpdkPorts(directory, "b")
            process.wait_for(partial(_replies, telemetry), timeout_s=30, description="ports")
            devices = tuple(dut.devices(directory, "client"))
            config = EngineConfig(devices=devices, cpus=(TESTER,), hugepages=False, memory_mb=512)
            tester = directory / "tester"
            tester.mkdir()
            with Engine.open(config, run_dir=tester, spawn=partial(_spawn, processes)) as engine:
                wait_for(lambda: telemetry.link_up(0) and telemetry.link_up(1), 10, "links")
                if dut.stages:
                    telemetry.ask("/cgnat/forward")
                engine.wait_links()
                yield engine, telemetry
            telemetry.close()
        finally:
            processes.stop_all(1.0)
            assert journal.undo().complete


def _replies(telemetry: DpdkPorts) -> bool:
    try:
        return bool(telemetry.info(1).get("dev_started"))
    except HostError:
        return False


def _spawn(processes: Processes, argv: list[str], env: dict[str, str]) -> ManagedProcess:
    return processes.spawn("loadgen", argv, env=env)


def trial(
    engine: Engine, loads: dict[int, StreamLoad], seconds: float | None = None
) -> tuple[dict[int, DirectionCounts], float]:
    """Counts by stream, and seconds of sending."""
    engine.start(EngineTrial(loads=loads, duration_s=seconds, drain_s=0.5, max_lag_s=0.002))
    result = engine.wait(300)
    spans = [((s.tx_last_ns or 0) - (s.tx_first_ns or 0)) / 1e9 for s in result.streams]
    counts = {s.stream: s.counts for s in result.streams}
    altered = sum(c.altered or 0 for c in counts.values())
    assert altered == 0, f"{altered} frames came back with other headers"
    return counts, max(spans)


def forwarded(dut: Dut, seconds: float) -> list[tuple[float, dict[str, float]]]:
    """Frames/s in sum over both ways with all sessions made, and cycles a packet by stage.

    Of several short trials: other work of the machine takes processors away for milliseconds, so
    that the best of them is what the DUT does with a processor of its own.
    """
    with running(dut) as (engine, telemetry):
        engine.set_streams(streams(dut))
        missing = dut.nat.sessions
        for _ in range(TRIES):  # until every session is there
            if missing and dut.stages:
                up = {0: StreamLoad(GENTLE, dut.nat.sessions)}
                counts, _ = trial(engine, up)
                missing = counts[0].intended - counts[0].received
        found = []
        for _ in range(TRIALS):
            before = stage_work(telemetry, dut)
            counts, span = trial(engine, {n: StreamLoad(OVERLOAD) for n in (0, 1)}, seconds)
            after = stage_work(telemetry, dut)
            work = {
                stage: (after[stage][1] - cycles) / max(1, after[stage][0] - packets)
                for stage, (packets, cycles) in before.items()
            }
            found.append((sum(c.received for c in counts.values()) / span, work))
        return found


def stage_work(telemetry: DpdkPorts, dut: Dut) -> dict[str, tuple[int, int]]:
    """Packets and cycles by stage."""
    found = {}
    for number, group in enumerate(dut.stages.split("/") if dut.stages else ()):
        told = telemetry.ask(f"/cgnat/worker,worker={number}")
        for stage in group.split("+"):
            found[stage] = (told[f"{stage}_packets"], told[f"{stage}_cycles"])
    return found


def set_up(dut: Dut, rate: float) -> tuple[dict[str, int], float]:
    """What became of the first frame of each session, and sessions/s of those that were made."""
    with running(dut) as (engine, telemetry):
        engine.set_streams(streams(dut))
        counts, span = trial(engine, {0: StreamLoad(rate, dut.nat.sessions)})
        up, made = counts[0], telemetry.ask("/cgnat/tables")["sessions_made"]
        fates = {
            "made": made,
            "left out by the tester": up.intended - up.sent - up.refused,
            "refused by the wire": up.refused,
            **{f"dropped: {cause}": n for cause, n in telemetry.ask("/cgnat/drops,port=0").items()},
        }
        return {fate: n for fate, n in fates.items() if n}, made / span


def shown(values: list[float]) -> str:
    """Median and range, millions."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle / 1e6:.2f} M ({low / 1e6:.2f} to {high / 1e6:.2f})"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.25, help="of a trial")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--stages", default=RUN_TO_COMPLETION)
    parser.add_argument("--set-up", type=float, default=5e5, help="sessions/s")
    parser.add_argument("--ring", type=int, default=1 << MEMIF_RING_LOG2, choices=RINGS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("hugepages and memif require root")
    log2 = options.ring.bit_length() - 1
    duts = [Dut("testpmd macswap", Nat(), ring_log2=log2)]
    duts += [
        Dut(f"cgnat, {name} sessions", nat, options.stages, log2) for name, nat in DENSITIES.items()
    ]
    rates: dict[str, list[float]] = {dut.name: [] for dut in duts}
    works: dict[str, list[dict[str, float]]] = {dut.name: [] for dut in duts}
    became: dict[str, list[dict[str, int]]] = {dut.name: [] for dut in duts[1:]}
    made: dict[str, list[float]] = {dut.name: [] for dut in duts[1:]}
    for _ in range(options.repeats):
        for dut in duts:
            for rate, work in forwarded(dut, options.seconds):
                rates[dut.name].append(rate)
                works[dut.name].append(work)
        for dut in duts[1:]:
            fates, speed = set_up(dut, options.set_up)
            became[dut.name].append(fates)
            made[dut.name].append(speed)
    for name, values in rates.items():
        print(f"{name}: {shown(values)} frames/s")
        for about, of in ESTIMATES.items():
            stages = {stage: of(-one[stage] for one in works[name]) for stage in works[name][0]}
            if stages:
                shares = ", ".join(f"{s} {-c:.0f}" for s, c in stages.items())
                print(f"  cycles a packet, {about}: {shares}; {-sum(stages.values()):.0f}")
    for about, of in ESTIMATES.items():
        base, few, many = (of(values) for values in rates.values())
        print(f"{about}: 64,512 sessions {few / base:.2f} of testpmd, 1,032,192 {many / few:.2f}")
    for name, speeds in made.items():
        print(f"{name}, made at {options.set_up:g}/s: {shown(speeds)}/s")
        for fates in became[name]:
            print("  " + ", ".join(f"{fate} {n}" for fate, n in fates.items()))
    if options.json:
        figures = {"rates": rates, "work": works, "became": became, "made": made}
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
