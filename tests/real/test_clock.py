"""What real chrony and linuxptp state of a clock, over a veth pair; the machine's is not touched.

chronyd has `-x`, and ptp4l no capability to set a clock: it logs that it could not, and goes on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vnetperf.host import clock
from vnetperf.host.wait import wait_for
from vnetperf.model.testbed import ClockSync, clocks_apart_s

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    reason = f"no {program}: Debian's package {package} has it"
    return pytest.mark.skipif(shutil.which(program, path=PATH) is None, reason=reason)


needs_chrony, needs_ptp = needs("chronyd", "chrony"), needs("ptp4l", "linuxptp")
pytestmark = pytest.mark.daily
ADDRESSES = ("10.99.0.1", "10.99.0.2")
CHRONY = {
    0: "local stratum 3\nallow 10.99.0.0/24\n",
    1: f"server {ADDRESSES[0]} iburst minpoll -4 maxpoll -4\n",
}
#: With the constants that ptp4l has for stamps by software it watches for 16 s before it follows.
SERVO = ("--pi_proportional_const=0.5", "--pi_integral_const=0.1")
INTERVALS = ("--logSyncInterval=-3", "--logMinDelayReqInterval=-3", "--logAnnounceInterval=-2")
PTP = (*SERVO, *INTERVALS)
Read = Callable[[int], ClockSync]


class Ends:
    """Two namespaces joined by a veth pair, and what was started in them."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.names = [f"vnpclock{os.getpid()}{end}" for end in "ab"]
        for name in self.names:
            self.ip("netns", "add", name)
            stack.callback(self.ip, "netns", "del", name)
        peer = ("peer", "name", "c1", "netns", self.names[1])
        self.ip("link", "add", "c0", "netns", self.names[0], "type", "veth", *peer)
        for end, name in enumerate(self.names):
            self.ip("-n", name, "addr", "add", f"{ADDRESSES[end]}/24", "dev", f"c{end}")
            self.ip("-n", name, "link", "set", f"c{end}", "up")

    @staticmethod
    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def start(self, end: int, *argv: str) -> subprocess.Popen[bytes]:
        without = ("setpriv", "--bounding-set=-sys_time", "--inh-caps=-sys_time")
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.names[end], *without, *argv],
            env=os.environ | {"PATH": PATH},
            stdout=(self.folder / f"{argv[0]}{end}.log").open("ab"),
            stderr=subprocess.STDOUT,
        )
        self.stack.callback(self.stop, process)
        return process

    @staticmethod
    def stop(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        process.wait(10)

    def chronyd(self, end: int) -> subprocess.Popen[bytes]:
        own = self.folder / str(end)
        own.mkdir(mode=0o700, exist_ok=True)
        lines = f"bindcmdaddress {own}/sock\ncmdport 0\npidfile {own}/pid\n"
        (own / "conf").write_text(CHRONY[end] + lines)
        return self.start(end, "chronyd", "-x", "-u", "root", "-d", "-f", f"{own}/conf")

    def ptp4l(self, end: int, *options: str) -> subprocess.Popen[bytes]:
        socket = f"--uds_address={self.folder}/ptp{end}"
        role = ("-s",) if end else ()
        return self.start(end, "ptp4l", "-S", "-i", f"c{end}", "-m", socket, *PTP, *role, *options)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    with contextlib.ExitStack() as stack:
        yield Ends(tmp_path, stack)


@pytest.fixture
def read(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads one end's services as an agent there would, over sockets of the test."""
    chronyc, pmc = clock.CHRONYC, clock.PMC

    def look(end: int) -> ClockSync:
        own = ends.folder
        of_chronyd = ("-h", f"{own}/{end}/sock")
        of_ptp4l = ("-s", f"{own}/ptp{end}", "-i", f"{own}/pmc")
        monkeypatch.setattr(clock, "CHRONYC", (*chronyc[:1], *of_chronyd, *chronyc[1:]))
        monkeypatch.setattr(clock, "PMC", (*pmc[:1], *of_ptp4l, *pmc[1:]))
        return clock.read_sync()

    return look


def until(look: Callable[[], bool], what: str) -> None:
    wait_for(look, 20.0, what)


@needs_chrony
def test_a_client_of_chrony_is_bounded_and_one_without_source_is_not(
    ends: Ends, read: Read
) -> None:
    reasons = read(1).why.split("; ")
    assert [reason.partition(": ")[0] for reason in reasons] == ["chrony", "ptp4l"]
    ends.chronyd(1)
    until(lambda: "chrony: not synchronised" in read(1).why, "chronyd's first answer")
    ends.chronyd(0)
    until(lambda: read(1).bound_s is not None, "chronyd to follow its source")
    found = read(1)
    assert (found.service, found.reference) == ("chrony", "chrony's source 0A630001")
    # Both ends have one kernel's clock; the dispersion is large at first.
    until(lambda: 0 < (read(1).bound_s or 0.0) < 0.01, "chronyd's bound")
    assert read(0).why.startswith("chrony: not synchronised")  # it follows itself alone


@needs_ptp
def test_a_slave_is_bounded_while_its_master_is_there(ends: Ends, read: Read) -> None:
    master = ends.ptp4l(0)
    ends.ptp4l(1)
    until(lambda: read(1).bound_s is not None, "ptp4l to follow its master")
    grandmaster, slave = read(0), read(1)
    assert grandmaster.bound_s == 0
    assert slave.bound_s is not None
    assert 0 < slave.bound_s < 0.1
    assert clocks_apart_s([grandmaster, slave]) == slave.bound_s
    ends.stop(master)
    until(lambda: read(1).bound_s is None, "ptp4l to miss its master")
    for words in ("ptp4l: ", "(port state: "):
        assert words in read(1).why


@needs_ptp
def test_a_neighbours_delay_does_not_bound_a_path(ends: Ends, read: Read) -> None:
    ends.ptp4l(0, "-P")
    ends.ptp4l(1, "-P")
    until(lambda: "no master now" not in read(1).why and "P2P" in read(1).why, "ptp4l's slave")
    assert read(1).bound_s is None
