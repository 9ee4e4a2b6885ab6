"""What the built-in engine can do on this machine, beside dpdk-testpmd on the same devices.

    python -m benchmarks.engine [--seconds 1.0] [--repeats 5] [--cpu 0] [--json FILE]
    python -m benchmarks.engine --stamps        what a stamp of its own for each frame costs

One core, two memif ports that are each other's wire.  Engine and testpmd take turns in each repeat,
so that a slow moment of the machine hits both; figures are medians over repeats, with their range.

testpmd's modes: `flowgen` makes and ends flows as a generator does; `io` only hands received
buffers back, without making, reading or freeing a frame - the ceiling of the wire itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

from vnetperf.host.journal import Journal
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import ManagedProcess, Processes
from vnetperf.traffic.loadgen.engine import (
    Engine,
    EngineConfig,
    EngineTrial,
    FieldSpec,
    StreamLoad,
    StreamSpec,
)
from vnetperf.traffic.loadgen.telemetry import EngineResult

Figures = dict[str, list[float]]
#: Loads whose stamps are looked at, of the highest rate, and the turns of the engine on a core
#: that it shares.
SHARES, SLEEPING_SHARES, TURN_US = (0.02, 0.1, 0.25, 0.5, 0.8, 1.5), (0.005, 0.02, 0.1), 20


def devices(directory: Path) -> tuple[str, str]:
    """Both ends of the wire."""
    common = f"id=0,socket={directory}/m,socket-abstract=no,bsize=2048,rsize=11"
    return (
        f"--vdev=net_memif0,role=server,{common}",
        f"--vdev=net_memif1,role=client,{common}",
    )


def header(size: int) -> bytes:
    """Ethernet, IPv4, UDP."""
    octets = size - 4
    return (
        bytes.fromhex("02000000000202000000000108004500")
        + (octets - 14).to_bytes(2)
        + bytes.fromhex("0000400040110000c6120001c613000104000800")
        + (octets - 34).to_bytes(2)
        + bytes(2)
    )


def both_ways(size: int, flows: int = 1) -> list[StreamSpec]:
    """One stream each way; flows vary the source address and port."""
    fields: tuple[FieldSpec, ...] = ()
    if flows > 1:
        ports = min(flows, 1000)
        fields = (
            FieldSpec(offset=34, width=2, base=1024, count=ports),
            FieldSpec(offset=26, width=4, base=0xC6120001, count=flows // ports, mode="carry"),
        )
    return [
        StreamSpec(n, n, 1 - n, size, header(size), l3_offset=14, fields=fields, rx_size=size)
        for n in (0, 1)
    ]


@contextmanager
def engine(cpu: int, turn_us: int = 0) -> Iterator[Engine]:
    """The engine on one core."""
    with tempfile.TemporaryDirectory(prefix="lg") as name:
        directory = Path(name)
        config = EngineConfig(
            devices=devices(directory), cpus=(cpu,), hugepages=False, turn_us=turn_us
        )
        journal = Journal.create(HostRoots(directory / "state", directory / "run"), "benchmark")
        processes = Processes(journal, directory)
        spawn = partial(_spawn, processes)
        with Engine.open(config, run_dir=directory, spawn=spawn) as running:
            running.wait_links()
            yield running


def _spawn(processes: Processes, argv: list[str], env: dict[str, str]) -> ManagedProcess:
    return processes.spawn("loadgen", argv, env=env)


def span_s(result: EngineResult) -> float:
    """From the first frame offered to the last received, both directions."""
    first = min(s.tx_first_ns or 0 for s in result.streams)
    return (max(s.rx_last_ns or 0 for s in result.streams) - first) / 1e9


def full_rate(running: Engine, streams: Sequence[StreamSpec], frames: int, burst: int) -> float:
    """Frames/s in sum over both ports, every frame stamped, received and accounted for."""
    running.set_streams(streams)
    loads = {s.id: StreamLoad(None, frames) for s in streams}
    running.start(EngineTrial(loads=loads, policy="retry", burst=burst, max_lag_s=1.0))
    result = running.wait(120)
    received = sum(s.counts.received for s in result.streams)
    assert received == frames * len(result.streams), "the loop lost frames"
    return received / span_s(result)


def testpmd(cpu: int, size: int, burst: int, mode: str, seconds: float) -> float:
    """Frames/s in sum over both ports that dpdk-testpmd receives on a wire looped to itself."""
    with tempfile.TemporaryDirectory(prefix="tp") as name:
        return testpmd_on(devices(Path(name)), cpu, size, burst, mode=mode, seconds=seconds)


def testpmd_on(
    ports: Sequence[str], cpu: int, size: int, burst: int, *, mode: str, seconds: float
) -> float:
    """Frames/s in sum over both ports that dpdk-testpmd receives on two devices."""
    with tempfile.TemporaryDirectory(prefix="tp") as name:
        argv = ["dpdk-testpmd", f"--lcores=0@{1 - cpu if cpu < 2 else 0},1@{cpu}"]
        argv += ["--main-lcore=0", "--no-huge", "-m", "512", "--no-pci", *ports]
        argv += ["--", "-i", "--nb-cores=1", "--total-num-mbufs=20000", f"--burst={burst}"]
        argv += [f"--txpkts={size - 4}"]
        process = subprocess.Popen(
            argv,
            env={**os.environ, "RUNTIME_DIRECTORY": name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        try:
            # Its output comes in blocks, so nothing can be waited for: times are set.
            for line, pause in (
                ("", 2.0),
                (f"set fwd {mode}", 0.1),
                ("start tx_first 16" if mode == "io" else "start", 0.5),
                ("show port stats all", seconds),
                ("show port stats all", 0.1),
            ):
                process.stdin.write(line + "\n")
                process.stdin.flush()
                time.sleep(pause)
            output, _ = process.communicate("stop\nquit\n", timeout=30)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        # The second reading gives the rate since the first, by testpmd's own clock.
        rates = [int(rate) for rate in re.findall(r"Rx-pps:\s+(\d+)", output)]
        assert len(rates) == 4, f"testpmd failed:\n{output[-1000:]}"
        return float(sum(rates[2:]))


def throughput(args: argparse.Namespace, figures: Figures) -> None:
    """Full rate against testpmd, one flow against a million."""
    for size in (64, 1518):
        for _ in range(args.repeats):
            for mode in ("flowgen", "io") if size == 64 else ("io",):
                figures.setdefault(f"testpmd {mode} {size} [frames/s]", []).append(
                    testpmd(args.cpu, size, 32, mode, args.seconds)
                )
            frames = int((10e6 if size == 64 else 4e6) * args.seconds)
            with engine(args.cpu) as running:
                for flows in (1, 1_000_000):
                    for burst in (32, 64):
                        rate = full_rate(running, both_ways(size, flows), frames, burst)
                        name = f"engine {size} flows {flows} burst {burst} [frames/s]"
                        figures.setdefault(name, []).append(rate)


def pacing(args: argparse.Namespace, figures: Figures, top: float) -> None:
    """How near the offered rate comes to the intended one, and how late frames leave."""
    with engine(args.cpu) as running:
        running.set_streams(both_ways(64))
        for rate in (1e3, 1e4, 1e5, 1e6, 0.25 * top, 0.5 * top, 0.8 * top):
            for _ in range(args.repeats):
                loads = {0: StreamLoad(rate), 1: StreamLoad(rate)}
                running.start(EngineTrial(loads=loads, duration_s=args.seconds))
                result = running.wait(60 + args.seconds)
                for stream in result.streams:
                    counts = stream.counts
                    frames = counts.sent + counts.refused
                    span_ns = (stream.tx_last_ns or 0) - (stream.tx_first_ns or 0)
                    offered = (frames - 1) * 1e9 / span_ns
                    assert counts.sent + counts.refused + counts.unsent == counts.intended
                    assert counts.sent == counts.received, "the loop lost frames"
                    name = f"pacing {rate:.0f}/s"
                    figures.setdefault(f"{name} offered error [%]", []).append(
                        100 * (offered / rate - 1)
                    )
                    figures.setdefault(f"{name} unsent+refused [%]", []).append(
                        100 * (counts.unsent + counts.refused) / counts.intended
                    )
                port = result.ports[0]
                assert port.max_burst <= 32
                figures.setdefault(f"{name} mean lag [ns]", []).append(port.lag_mean_ns or 0)
                figures.setdefault(f"{name} largest burst [frames]", []).append(port.max_burst)
                latency = result.stream(0).latency
                figures.setdefault(f"{name} mean latency [ns]", []).append(latency.mean_ns or 0)


def stamps(args: argparse.Namespace, figures: Figures, top: float) -> None:
    """What a stamp of its own for each frame costs (trials with IPDV), and how many have one.

    Both kinds take turns, on a core of the engine's own and on one that it leaves when nothing is
    due. The last load is above what either carries.
    """
    for turn_us in (0, TURN_US):
        shares = SLEEPING_SHARES if turn_us else SHARES
        with engine(args.cpu, turn_us) as running:
            running.set_streams(both_ways(64))
            for share, ipdv in product(shares * args.repeats, (False, True)):
                loads = {n: StreamLoad(share * top) for n in (0, 1)}
                running.start(EngineTrial(loads=loads, duration_s=args.seconds, ipdv=ipdv))
                result = running.wait(60 + args.seconds)
                frames = sum(s.counts.sent for s in result.streams)
                calls = sum(port.tx_calls for port in result.ports)
                name = f"{'single' if ipdv else 'bursts'} at {share:.1%}, turns of {turn_us} us"
                figures.setdefault(f"{name}: frames in a call", []).append(frames / calls)
                carried = sum(s.counts.received for s in result.streams) / span_s(result)
                figures.setdefault(f"{name}: carried [frames/s]", []).append(carried)
                if ipdv:
                    found = running.differences([0])[0]
                    shared = 100 * found.shared / max(1, found.count + found.shared)
                    figures.setdefault(f"{name}: shared stamps [%]", []).append(shared)


def floor(args: argparse.Namespace, figures: Figures) -> None:
    """Latency of the wire to itself with next to no load: what is added to every latency measured.

    It is the time from the stamp to the receive call that finds the frame: both drivers' work, and
    half a round of the loop on average.
    """
    with engine(args.cpu) as running:
        running.set_streams(both_ways(64))
        for _ in range(args.repeats):
            loads = {0: StreamLoad(1000.0), 1: StreamLoad(1000.0)}
            running.start(EngineTrial(loads=loads, duration_s=args.seconds))
            result = running.wait(60 + args.seconds)
            pairs = running.histograms([0])[0]
            latency = result.stream(0).latency
            figures.setdefault("zero load latency min [ns]", []).append(latency.min_ns)
            for share in (50, 90, 99):
                name = f"zero load latency p{share} [ns]"
                figures.setdefault(name, []).append(_percentile(pairs, share))


def _percentile(pairs: Sequence[tuple[int, int]], share: float) -> float:
    left = sum(count for _, count in pairs) * share / 100
    for value, count in pairs:
        left -= count
        if left <= 0:
            return float(value)
    return 0.0


def show(figures: Figures) -> None:
    """Print medians, and from what to what."""
    for name, values in figures.items():
        middle = statistics.median(values)
        print(f"{name:50} {middle:15,.4g}   {min(values):,.4g} .. {max(values):,.4g}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", type=int, default=0, help="the one core")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--stamps", action="store_true", help="only the cost of stamps")
    args = parser.parse_args()
    figures: Figures = {}
    if args.stamps:
        with engine(args.cpu) as running:
            top = full_rate(running, both_ways(64), int(10e6 * args.seconds), 32)
        stamps(args, figures, top / 2)
        show(figures)
        return
    throughput(args, figures)
    best = statistics.median(figures["engine 64 flows 1 burst 32 [frames/s]"])
    pacing(args, figures, best / 2)
    floor(args, figures)
    print("zero load: the loop to itself, 1000 frames/s each way; the error of every latency")
    print("(p90 and p99 are the scheduler's where the core has other work to do)")
    show(figures)

    def ratio(a: str, b: str) -> str:
        each = [x / y for x, y in zip(figures[a], figures[b], strict=True)]
        return f"{statistics.median(each):.2f} ({min(each):.2f} .. {max(each):.2f})"

    one = "engine 64 flows 1 burst 32 [frames/s]"
    print("engine / testpmd flowgen, 64:", ratio(one, "testpmd flowgen 64 [frames/s]"))
    print("engine / testpmd io, 64:     ", ratio(one, "testpmd io 64 [frames/s]"))
    wide = "engine 1518 flows 1 burst 32 [frames/s]"
    print("engine / testpmd io, 1518:   ", ratio(wide, "testpmd io 1518 [frames/s]"))
    many = "engine 64 flows 1000000 burst 32 [frames/s]"
    print("million flows / one flow, 64:", ratio(many, one))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
