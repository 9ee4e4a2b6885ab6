"""The whole forwarder on virtual devices, beside dpdk-testpmd on the same frames."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import run_dir
from tests.realtime import real_time_allowed
from tests.vnfs.forwarder.frames import MODES, PEERS, corpus, expected
from tests.vswitches.cgnat.test_engine import read_pcap, write_pcap
from vnetperf.host.build import BuildVariant
from vnetperf.host.dpdk import DpdkPorts
from vnetperf.host.threads import list_threads
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.vnfs.vloop.process import ENGINE

__all__ = ["run_dir"]  # a fixture

pytestmark = pytest.mark.slow

#: Both pcap devices have this address, with the number of the interface at the end.
NULL = ("--vdev=net_null0,no-rx=1", "--vdev=net_null1,no-rx=1")
EAL = ("--lcores=0@(0-1),1@(0-1)", "--main-lcore=0", "--no-huge", "-m", "256", "--no-pci")
END_S = 60.0  # what looks for leaks takes seconds where others use the machine


class Running:
    """A program between two ports."""

    def __init__(self, directory: Path, argv: list[str], prefix: tuple[str, ...] = ()) -> None:
        self.log = directory / "log"
        self.process = subprocess.Popen(
            [*prefix, *argv],
            stdin=subprocess.PIPE,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            env={**os.environ, "RUNTIME_DIRECTORY": str(directory)},
        )
        self.telemetry = DpdkPorts(directory, "t")

    def ask(self, command: str) -> Any:
        return self.telemetry.ask(command)

    def answers(self, command: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with suppress(HostError):
            return self.ask(command) is not None
        return False

    def wait(self, done: Callable[[], bool], what: str) -> None:
        wait_for(done, END_S, what, poll_s=0.01)

    def end(self, how: Callable[[], object] | None = None) -> int:
        """Its status, ended by the end of its input or otherwise."""
        self.telemetry.close()
        assert self.process.stdin is not None
        (how or self.process.stdin.close)()
        return self.process.wait(END_S)


Start = Callable[..., Running]


@pytest.fixture
def start(run_dir: Path) -> Iterator[Start]:
    """Start a forwarder and wait until it answers; it polls its ports, unless told otherwise."""
    running: list[Running] = []

    def begin(*devices_and_options: str, forward: bool = True, **given: Any) -> Running:
        program = ENGINE.executable(given.pop("variant", BuildVariant.SANITIZED))
        devices = [word for word in devices_and_options if word.startswith("--vdev")]
        options = [word for word in devices_and_options if word not in devices]
        argv = [str(program), *EAL, "--file-prefix=t", *devices, "--", *options]
        running.append(Running(run_dir, argv, **given))
        one = running[-1]
        one.wait(lambda: one.answers("/forwarder/info"), "the forwarder")
        if forward:
            one.ask("/forwarder/forward")
        return one

    yield begin
    for one in running:
        one.process.kill()
        one.process.wait()


def pcaps(directory: Path, queues: int = 1) -> list[str]:
    """Devices that read files in0.0 ... and write files out0.0 ..., by port and queue."""
    return [
        f"--vdev=net_pcap{port},"
        + ",".join(f"rx_pcap={directory}/in{port}.{q}" for q in range(queues))
        + ","
        + ",".join(f"tx_pcap={directory}/out{port}.{q}" for q in range(queues))
        for port in (0, 1)
    ]


def sent_by_ours(start: Start, directory: Path, frames: int, *options: str) -> Running:
    one = start(*pcaps(directory), *options)
    one.wait(lambda: one.ask("/forwarder/turns")["frames"] == frames, "all frames")
    assert one.end() == 0, one.log.read_text()
    return one


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.skipif(not shutil.which("dpdk-testpmd"), reason="no dpdk-testpmd on PATH")
def test_it_sends_what_testpmd_sends(start: Start, run_dir: Path, mode: str) -> None:
    frames = (corpus(), corpus()[::-1])
    for port in (0, 1):
        write_pcap(run_dir / f"in{port}.0", frames[port])
    peers = [(n, mac.hex(":")) for n, mac in enumerate(PEERS)]
    argv = ["dpdk-testpmd", *EAL, "--file-prefix=t", *pcaps(run_dir), "--", "--auto-start"]
    argv += [f"--forward-mode={mode}", "--no-flush-rx", "--nb-cores=1", "--total-num-mbufs=8192"]
    argv += [f"--eth-peer={n},{mac}" for n, mac in peers if mode == "mac"]
    testpmd, total = Running(run_dir, argv), sum(map(len, frames))

    def forwarded() -> bool:
        if not testpmd.answers("/ethdev/stats,1"):
            return False
        return sum(testpmd.ask(f"/ethdev/stats,{n}")["opackets"] for n in (0, 1)) == total

    testpmd.wait(forwarded, "testpmd to forward")
    assert testpmd.end() == 0
    theirs = [read_pcap(run_dir / f"out{port}.0") for port in (0, 1)]

    sent_by_ours(start, run_dir, total, f"--mode={mode}", *(f"--peer{n}={mac}" for n, mac in peers))
    ours = [read_pcap(run_dir / f"out{port}.0") for port in (0, 1)]
    assert ours == theirs
    if mode != "mac":  # whose source is the device's own address
        assert ours == [[expected(mode, f, to) for f in frames[1 - to]] for to in (0, 1)]


def test_a_queue_is_forwarded_to_the_same_queue(start: Start, run_dir: Path) -> None:
    frames = {
        (port, queue): [bytes([port, queue, n]) * 20 for n in range(70 + queue)]
        for port in (0, 1)
        for queue in (0, 1)
    }
    for (port, queue), some in frames.items():
        write_pcap(run_dir / f"in{port}.{queue}", some)
    one = start(*pcaps(run_dir, 2), "--queues=2", "--turn-us=50")
    one.wait(lambda: one.ask("/forwarder/turns")["frames"] == 2 * (70 + 71), "all frames")
    assert one.end() == 0, one.log.read_text()
    for (port, queue), some in frames.items():
        assert read_pcap(run_dir / f"out{1 - port}.{queue}") == some


def test_jumbo_frames_fit_where_there_is_room(start: Start, run_dir: Path) -> None:
    frames = [bytes([n]) * 9000 for n in range(5)]
    write_pcap(run_dir / "in0.0", frames)
    write_pcap(run_dir / "in1.0", [])
    sent_by_ours(start, run_dir, 5, "--room=9728", "--buffers=8192", "--turn-us=100")
    assert read_pcap(run_dir / "out1.0") == frames


def test_nothing_is_polled_before_it_is_told_to(start: Start, run_dir: Path) -> None:
    for port in (0, 1):
        write_pcap(run_dir / f"in{port}.0", corpus())
    one = start(*pcaps(run_dir), "--turn-us=100", forward=False)
    time.sleep(0.1)
    turns = one.ask("/forwarder/turns")
    assert (turns["frames"], turns["sleeps"]) == (0, 0)
    one.ask("/forwarder/forward")
    one.wait(lambda: one.ask("/forwarder/turns")["frames"] == 2 * len(corpus()), "all frames")


def test_what_it_tells(start: Start) -> None:
    one = start(*NULL, "--turn-us=200", "--phase-us=7", "--mode=macswap")
    info = one.ask("/forwarder/info")
    assert info.pop("dpdk").startswith("DPDK ")
    assert info == {
        "mode": "macswap",
        "queues": 1,
        "turn_us": 200,
        "phase_us": 7,
        "priority": "none",
        "forwarding": info["forwarding"],
    }
    refused = {"error": "unknown parameter 'x'", "accepted": "no parameters"}
    assert one.ask("/forwarder/turns,x=1") == refused
    # Its worker takes a name when it begins, which may be after the first answer.
    wait_for(
        lambda: {"vloop", "vloop-0"} <= {t.name for t in list_threads(one.process.pid)},
        10.0,
        "its threads' names",
    )
    one.wait(lambda: one.ask("/forwarder/turns")["sleeps"] > 10, "it to sleep")
    turns = one.ask("/forwarder/turns")
    assert turns["forced"] == turns["frames"] == turns["calls"] == turns["busy_ns"] == 0
    assert turns["empty"] >= turns["sleeps"] - 1
    began, before = time.monotonic(), one.ask("/forwarder/turns")["sleeps"]
    time.sleep(0.3)
    slept = one.ask("/forwarder/turns")["sleeps"] - before
    assert 0 < slept <= (time.monotonic() - began) / 200e-6 + 1


def test_without_turns_it_polls(start: Start, run_dir: Path) -> None:
    for port in (0, 1):
        write_pcap(run_dir / f"in{port}.0", corpus())
    one = start(*pcaps(run_dir))
    one.wait(lambda: one.ask("/forwarder/turns")["frames"] == 2 * len(corpus()), "all frames")
    turns = one.ask("/forwarder/turns")
    assert (turns["sleeps"], turns["forced"], turns["refused_0"]) == (0, 0, 0)
    assert 0 < turns["longest_busy_ns"] <= turns["busy_ns"]
    assert turns["busy_cycles"] > 0


def test_frames_that_a_port_refuses_are_counted(start: Start, run_dir: Path) -> None:
    frames = [bytes([n % 256]) * 60 for n in range(400)]
    write_pcap(run_dir / "in0.0", frames)
    write_pcap(run_dir / "in1.0", [])
    alone = f"--vdev=net_memif1,role=server,id=0,socket={run_dir}/m,socket-abstract=no"
    one = start(pcaps(run_dir)[0], alone, "--turn-us=100")
    one.wait(lambda: one.ask("/forwarder/turns")["frames"] == len(frames), "all frames")
    turns = one.ask("/forwarder/turns")
    assert (turns["refused_0"], turns["refused_1"]) == (0, len(frames))
    assert one.end() == 0, one.log.read_text()  # no buffer is lost


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("forward", [False, True])
def test_it_ends_and_lets_go_of_everything(start: Start, how: str, forward: bool) -> None:
    one = start(*NULL, "--turn-us=100", forward=forward)
    assert one.process.stdin is not None
    one.process.stdin.write(b"what is written to it is passed over\n")
    one.process.stdin.flush()
    time.sleep(0.15)
    assert one.process.poll() is None
    number = getattr(signal, how) if how.startswith("SIG") else None
    assert one.end(number and (lambda: one.process.send_signal(number))) == 0, one.log.read_text()
    assert "Sanitizer" not in one.log.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*NULL, "--mode=mirror"), "--mode=mirror"),
        ((*NULL, "--priority=2"), "--turn-us above 0"),
        (NULL[:1], "1 ports; accepted: 2 ports"),
        ((*NULL, "--queues=2", "--room=16384", "--buffers=1000000"), "no memory for"),
    ],
)
def test_what_it_cannot_do_ends_it(run_dir: Path, words: tuple[str, ...], says: str) -> None:
    devices = [word for word in words if word.startswith("--vdev")]
    options = [word for word in words if word not in devices]
    program = str(ENGINE.executable(BuildVariant.SANITIZED))
    argv = [program, *EAL, "--file-prefix=t", *devices, "--", *options]
    one = Running(run_dir, argv)
    assert one.end() == 1
    assert says in one.log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be refused what root may do")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv on PATH")
def test_a_priority_that_is_refused_is_told(start: Start) -> None:
    without = ("setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice")
    one = start(*NULL, "--turn-us=100", "--priority=2", prefix=without)
    one.wait(lambda: one.ask("/forwarder/turns")["sleeps"] > 10, "it to go on")
    assert one.ask("/forwarder/info")["priority"] == "refused: EPERM"


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the suite with sudo")
def test_a_real_time_thread_sleeps_whatever_comes(start: Start) -> None:
    endless = ("--vdev=net_null0", "--vdev=net_null1")
    one = start(*endless, "--turn-us=100", "--priority=2", variant=BuildVariant.PLAIN)
    if not real_time_allowed():
        pytest.skip("this kernel gives root no real-time priority")
    assert one.ask("/forwarder/info")["priority"] == "fifo 2"
    one.wait(lambda: one.ask("/forwarder/turns")["forced"] > 20, "it to be forced to sleep")
    turns = one.ask("/forwarder/turns")
    assert turns["forced"] == turns["sleeps"]
    assert turns["empty"] == 0
    # It may go on for 2 ms first; from then on it has its share.
    assert turns["longest_busy_ns"] >= 1.9e6
    began = time.monotonic()
    time.sleep(0.2)
    more = one.ask("/forwarder/turns")["busy_ns"] - turns["busy_ns"]
    assert more < 0.9e9 * (time.monotonic() - began)
    assert one.end() == 0
