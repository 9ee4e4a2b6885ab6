"""What XDP programs do with frames on veth, by mode, when the kernel itself is the source.

Run as root: `python -m benchmarks.xdp [--repeats 5] [--frames 500000]`; it takes seconds.

A packet socket costs more than all that XDP does, and hides the difference between its modes.
Here the switch's own programs stand between two veth pairs in a namespace of the benchmark. Frames
of 64 octets enter the far end of one from the kernel (Linux 5.18, BPF_F_TEST_XDP_LIVE_FRAMES) and
are dropped by a program at the far end of the other. Beside them stand two that forward nothing
there: `drop`, and `tx`, which sends every frame back to where it came from. All of it is done by
one thread, the source's part too: rates are frames by second of its processor time, which other
work on the machine disturbs little. Modes take turns.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from vnetperf.host import links, xdp
from vnetperf.host.journal import Journal
from vnetperf.host.linux import netlink, run_in
from vnetperf.host.paths import HostRoots
from vnetperf.host.xdp import BpfObject, compile_program
from vnetperf.plugin.frame_layers import internet_checksum
from vnetperf.vswitches.xdp.switch import COUNTS, SOURCES

MODES = ("native", "generic")
#: Program -> interface at which its frames are counted; None for the program's own count.
PROGRAMS = {"drop": None, "tx": "d0", "redirect": "d1", "fib": "d1"}
#: Verdicts of the kernel (linux/bpf.h).
VERDICTS = {"drop": 1, "tx": 3}
FIRST = struct.pack("=I", 0)
#: Addresses: the router's at its port, the tester's beyond its other one, and a way to there.
ROUTER, TESTER = "02:00:00:00:00:01", "02:00:00:00:00:02"
NEXT_HOP, NETWORK = "169.254.0.1", "198.18.0.0/15"


def send(number: int, frame: bytes, count: int) -> float:
    """Run a program on frames that go where it sends them; the processor time of it, seconds."""
    began = time.thread_time()
    xdp.run_live(number, frame, count)
    return time.thread_time() - began


def octets(mac: str) -> bytes:
    """A MAC address as it is in a frame."""
    return bytes.fromhex(mac.replace(":", ""))


def test_frame() -> bytes:
    """A frame of 64 octets without its FCS: UDP from one test network to the other."""
    addresses = bytes([198, 18, 0, 1, 198, 19, 0, 1])
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, 64, 17, 0) + addresses
    ip = ip[:10] + struct.pack("!H", internet_checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", 1024, 7, 26, 0)
    return octets(ROUTER) + octets(TESTER) + b"\x08\x00" + ip + udp + bytes(18)


def route(source: str, target: str) -> None:
    """Give the kernel's table of this namespace a way out by an interface."""
    Path(f"/proc/sys/net/ipv4/conf/{source}/forwarding").write_text("1\n")
    with netlink("install a route") as sockets:
        out = next(m["index"] for m in sockets.get_links() if m.get_attr("IFLA_IFNAME") == target)
        sockets.neigh("replace", ifindex=out, dst=NEXT_HOP, lladdr=TESTER, state="permanent")
        sockets.route("replace", dst=NETWORK, gateway=NEXT_HOP, oif=out, flags=4)  # onlink


def _compiled(name: str) -> bytes:
    if name not in VERDICTS:
        return compile_program("clang", SOURCES / f"{name}.c")
    source = Path(__file__).with_name("verdict.c")
    return compile_program("clang", source, [f"-I{SOURCES}"], VERDICT=VERDICTS[name])


class Stand:
    """Two veth pairs in a namespace: t0 - d0, d1 - t1; the programs are at d0."""

    def __init__(self, directory: Path) -> None:
        roots = HostRoots(directory / "state", directory / "run")
        self.journal = Journal.create(roots, f"xdp-{secrets.token_hex(4)}")
        self.netns = directory / "netns"
        links.create_netns(self.journal, self.netns)
        for number in (0, 1):
            ends = (f"t{number}", f"d{number}")
            links.create_veth(self.journal, ends, netns=(self.netns, self.netns))
        index = {link.name: link.index for link in links.links(self.netns)}
        self.target = struct.pack("=I", index["d1"])
        self.code = {name: _compiled(name) for name in PROGRAMS}
        source = Path(__file__).with_name("source.c")
        self.source = compile_program("clang", source, TARGET=index["t0"])
        run_in(self.netns, partial(route, "d0", "d1"))
        for end in ("t0", "d0", "d1"):  # the other end of each takes frames of XDP, by NAPI
            run_in(self.netns, partial(xdp.let_peer_receive, end))

    def rate(self, name: str, mode: str, frames: int) -> float:
        """Frames/s that a program is done with in a mode."""
        with ExitStack() as stack:
            loaded = [
                stack.enter_context(BpfObject(what, code))
                for what, code in (("dut", self.code[name]), ("source", self.source))
            ]
            return run_in(self.netns, self._measured(name, mode, frames, *loaded))

    def _measured(
        self, name: str, mode: str, frames: int, dut: BpfObject, source: BpfObject
    ) -> Callable[[], float]:
        def measure() -> float:
            frame = test_frame()
            source.map("headers").update(FIRST, frame[:42])
            # Who counts what comes out takes it as well.
            source.attach("take", "t0" if name == "tx" else "t1", "native")
            dut.attach("forward", "d0", mode)
            if name == "fib":
                dut.map("port").update(FIRST, octets(ROUTER))
            elif name == "redirect":
                dut.map("target").update(FIRST, self.target)
            out = PROGRAMS[name]
            before = links.statistics()[out].tx if out else 0
            spent = send(source.number("send"), frame, frames)
            time.sleep(0.05)
            counts = [dut.map("counts").sums(struct.pack("=I", n))[0] for n in range(len(COUNTS))]
            sent = links.statistics()[out].tx - before if out else counts[0]
            if counts != [frames] + [0] * (len(COUNTS) - 1) or sent != frames:
                raise SystemExit(f"{name}, {mode}: {sent} of {frames} seen, counts {counts}")
            return sent / spent

        return measure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--frames", type=int, default=500_000, help="of each measurement")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        stand = Stand(Path(directory))
        try:
            for name in PROGRAMS:
                compare(stand, name, args.repeats, args.frames)
        finally:
            stand.journal.undo().raise_if_incomplete()
            stand.journal.close()


def compare(stand: Stand, name: str, repeats: int, frames: int) -> None:
    """Measure a program in both modes in turn, and print rates and ratio."""
    seen = [[stand.rate(name, mode, frames) for mode in MODES] for _ in range(repeats)]
    for mode, rates in zip(MODES, zip(*seen, strict=True), strict=True):
        spread = f"({min(rates) / 1e6:.2f}..{max(rates) / 1e6:.2f})"
        print(f"{name:<9} {mode:<8} {statistics.median(rates) / 1e6:.2f} M frames/s {spread}")
    ratios = [native / generic for native, generic in seen]
    spread = f"({min(ratios):.2f}..{max(ratios):.2f})"
    print(f"{name:<9} native / generic {statistics.median(ratios):.2f} {spread}")


if __name__ == "__main__":
    main()
