"""What XDP forwards on veth, by mode and program, when the kernel itself is the source.

Run as root: `python -m benchmarks.xdp [--repeats 3] [--frames 2000000] [--threaded]`.

A packet socket costs more than all that XDP does, and hides the difference between its modes.
Here frames of 64 octets enter the tester's end of wire 0 from the kernel (Linux 5.18,
BPF_F_TEST_XDP_LIVE_FRAMES) and are dropped by a program at the tester's end of wire 1. Source and
DUT are on one processor; with `--threaded` the DUT has threads of its own, and what finds its ring
full is lost.
Modes take turns, so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.planner import make_plan
from vnetperf.host.xdp import LIBRARY, BpfObject, compile_program, let_peer_receive
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.frames import stream_frame

LIVE_FRAMES, BATCH, HEADERS, FCS = 1 << 1, 64, 42, 4
CASES = (("native", "l2"), ("generic", "l2"), ("native", "l3"), ("generic", "l3"))
TITLES = {"l2": "redirect", "l3": "fib"}


class _Run(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf 1."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("context_in", ctypes.c_char_p),
        ("context_out", ctypes.c_void_p),
        ("context_size_in", ctypes.c_uint32),
        ("context_size_out", ctypes.c_uint32),
        ("verdict", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch", ctypes.c_uint32),
    )


def send(program: int, frame: bytes, count: int) -> float:
    """Run a program on frames that go where it sends them; the time that it took, seconds."""
    run = _Run(
        size=ctypes.sizeof(_Run),
        data_in=frame,
        data_size_in=len(frame),
        context_in=struct.pack("=6I", 0, len(frame), 0, 0, 0, 0),  # struct xdp_md
        context_size_in=24,
        repeat=count,
        flags=LIVE_FRAMES,
        batch=BATCH,
    )
    began = time.monotonic()
    code = ctypes.CDLL(LIBRARY).bpf_prog_test_run_opts(program, ctypes.byref(run))
    if code:
        raise OSError(-code, os.strerror(-code))
    return time.monotonic() - began


@contextmanager
def deployed(mode: str, layer: str, threaded: bool) -> Iterator[LiveDeployment]:
    """Deploy phy2phy_xdp, and take it away."""
    options = (f"mode={mode}", *(("napi=threaded",) if threaded else ()))
    settings = {"set": options, "forwarding": layer, "wire": "veth"}
    configuration = config.load(settings, environment={})
    facts = take_inventory(configuration.testbed)
    plan = make_plan(make_scenario("phy2phy_xdp", configuration), configuration.testbed, facts)
    deployment = LiveDeployment.deploy(plan, facts)
    try:
        yield deployment
    finally:
        deployment.teardown()


def rate(mode: str, layer: str, frames: int, *, threaded: bool) -> float:
    """Frames/s that leave the DUT."""
    with ExitStack() as stack:
        deployment = stack.enter_context(deployed(mode, layer, threaded))
        ends = [str(end.netdev) for end in stack.enter_context(deployment.without_tester())]
        frame = stream_frame(deployment.plan.scenario.streams[0], 64, 1)[: 64 - FCS]
        target = deployment.machine.link(ends[0]).index
        source = Path(__file__).with_name("source.c")
        program = BpfObject("source", compile_program("clang", source, TARGET=target))
        stack.callback(program.close)
        program.map("headers").update(struct.pack("=I", 0), frame[:HEADERS])
        machine = deployment.machine
        machine.in_netns(lambda: program.attach("take", ends[1], "native"))
        # In mode generic the DUT's end takes such frames, as buffers, only with NAPI.
        machine.in_netns(lambda: let_peer_receive(ends[0]))
        before = deployment.counters()["phy1"].tx
        spent = machine.in_netns(lambda: send(program.program("send"), frame, frames))
        time.sleep(0.2)
        return (deployment.counters()["phy1"].tx - before) / spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frames", type=int, default=2_000_000, help="of each measurement")
    parser.add_argument("--threaded", action="store_true", help="threads of its own for the DUT")
    args = parser.parse_args()
    seen: dict[tuple[str, str], list[float]] = {case: [] for case in CASES}
    for _ in range(args.repeats):
        for case in CASES:
            seen[case].append(rate(*case, args.frames, threaded=args.threaded))
    for (mode, layer), rates in seen.items():
        print(
            f"{TITLES[layer]:<9} {mode:<8} {statistics.median(rates) / 1e6:>5.2f} M frames/s "
            f"({min(rates) / 1e6:.2f}..{max(rates) / 1e6:.2f})"
        )
    for layer in ("l2", "l3"):
        pairs = zip(seen["native", layer], seen["generic", layer], strict=True)
        ratios = [native / generic for native, generic in pairs]
        spread = f"({min(ratios):.2f}..{max(ratios):.2f})"
        print(f"{TITLES[layer]}: native / generic {statistics.median(ratios):.2f} {spread}")


if __name__ == "__main__":
    main()
