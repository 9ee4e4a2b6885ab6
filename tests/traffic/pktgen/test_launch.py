"""How Pktgen is started: its command line, and the terminal that it runs under."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.traffic.pktgen.conftest import ends_in, plan_of
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Placement, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.traffic.pktgen.driver import Pktgen, PktgenConfig
from vnetperf.traffic.pktgen.process import pktgen_command, pktgen_memory_mib
from vnetperf.traffic.pktgen.streams import PortTraffic
from vnetperf.traffic.trex.driver import TrexConfig

TTY = [sys.executable, "-m", "vnetperf.traffic.pktgen.tty"]


def line(queues: int = 1, *ends: WireEnd) -> list[str]:
    made = pktgen_command("pktgen", plan_of(queues=queues), ends or ends_in(Path("/r")), {}, "vnp")
    return list(made.argv)


def test_one_thread_serves_both_ports_and_the_main_one_is_elsewhere() -> None:
    argv = line()
    assert "--lcores=0@0,99@1" in argv
    assert "--main-lcore=0" in argv
    assert argv[argv.index("-m") + 1] == "99.0,99.1"
    assert "--no-huge" in argv


def test_more_queues_are_polled_by_more_logical_cores_of_the_same_processor() -> None:
    argv = line(3)
    assert "--lcores=0@0,99@1,98@1,97@1" in argv
    assert argv[argv.index("-m") + 1] == "[99/98/97:99].0,[99/98/97:99].1"


def test_a_listening_socket_is_removed_before_and_after() -> None:
    made = pktgen_command("pktgen", plan_of(), ends_in(Path("/r")), {}, "vnp")
    assert made.sockets == (Path("/r/w.sock"),)
    assert made.workers == (99,)


def test_kernel_interfaces_and_nics() -> None:
    veth = [WireEnd(wire=n, kind="veth", side="tester", netdev=f"t{n}") for n in (0, 1)]
    assert any(word.startswith("--vdev=net_af_packet1,iface=t1,") for word in line(1, *veth))
    nics = [
        WireEnd(wire=n, kind="nic", side="tester", pci=f"0000:0{n}:00.0", driver="vfio-pci")
        for n in (0, 1)
    ]
    argv = line(1, *nics)
    assert "-a0000:01:00.0" in argv
    assert "--no-huge" not in argv
    with pytest.raises(GeneratorError, match="cannot plug into a tap"):
        line(1, WireEnd(wire=0, kind="tap", side="tester"))


def test_a_kernel_interface_is_polled_by_one_logical_core() -> None:
    """It has one queue, and Pktgen aborts where it is to poll more."""
    veth = [WireEnd(wire=n, kind="veth", side="tester", netdev=f"t{n}") for n in (0, 1)]
    argv = line(2, *veth)
    assert argv[argv.index("-m") + 1] == "99.0,99.1"
    assert argv[1] == "--lcores=0@0,99@1"


def test_memory_grows_with_queues_and_frames() -> None:
    traffic = PortTraffic(load=1.0, frames=1_000_000, octets=60, equal=True, pcap=b"")
    plain = pktgen_memory_mib(2, 1)
    assert 2500 < plain < 3300
    assert pktgen_memory_mib(2, 2) - plain == 2 * 259
    assert 400 < pktgen_memory_mib(2, 1, [(Path("/f"), traffic)]) - plain < 600


def test_the_program_has_a_terminal_and_its_output_is_kept(tmp_path: Path) -> None:
    program = "import os; print('tty', os.isatty(0), os.isatty(1)); print('x' * 200_000)"
    log = tmp_path / "log"
    with log.open("wb") as output:
        done = subprocess.run(
            [*TTY, sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            timeout=20,
            check=False,
        )
    assert done.returncode == 0
    assert "tty True True" in log.read_text()
    assert log.stat().st_size > 200_000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_as_the_program_does(number: int) -> None:
    program = "import time; print('up', flush=True); time.sleep(60)"
    running = subprocess.Popen([*TTY, sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert b"up" in running.stdout.readline()
        (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        os.kill(running.pid if number == signal.SIGTERM else int(child), number)
        assert running.wait(10) == -number
        assert not Path(f"/proc/{child}").exists()
    finally:
        running.kill()
        running.wait()


def test_the_program_ends_when_its_terminal_goes() -> None:
    program = "import time; print('up', flush=True); time.sleep(60)"
    running = subprocess.Popen([*TTY, sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert b"up" in running.stdout.readline()
    (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    running.kill()
    running.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}/cmdline").exists() and time.monotonic() < deadline:
        if not Path(f"/proc/{child}/cmdline").read_bytes():
            break  # it has ended, and nobody has asked for its status
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{child}").exists()


def cannot_plug(program: Path, wire: str = "memif", **section: Any) -> str:
    return Pktgen.cannot_plug(
        wire,
        1,
        scenario=Scenario(
            deployment=make_deployment("phy2phy"), vswitch="dpdk", traffic=TrafficProfile()
        ),
        placement=Placement(mode="dedicated", reason="", cores={"tester": (1,)}, housekeeping=(0,)),
        testbed=Testbed(pktgen=section),
        facts=MachineFacts(cpus=(), programs={"pktgen": str(program)}),
    )


@pytest.mark.parametrize("server", ["h", "h:1", "10.0.0.7:22022", "h:65535"])
def test_a_server_has_a_port_that_there_is(server: str) -> None:
    assert PktgenConfig(server=server).server == server


@pytest.mark.parametrize(
    "server", ["h:0", "h:65536", "127.0.0.1:99999", "h:", "h:x", ":1", "h:1:2"]
)
def test_a_server_with_another_port_is_refused(server: str) -> None:
    """A socket would take it for a port: 99999 for 34463."""
    with pytest.raises(ValidationError, match=r'"HOST:PORT", a port 1 to 65535'):
        PktgenConfig(server=server)
    with pytest.raises(ValidationError, match='"HOST:SYNC-PORT:ASYNC-PORT", a port 1 to 65535'):
        TrexConfig(server=f"{server}:4501")


def test_a_memif_is_refused_where_the_program_would_end_at_it(tmp_path: Path) -> None:
    program, other = tmp_path / "sets", tmp_path / "does-not"
    program.write_bytes(b"\x7fELF\0Cannot set MTU %u on port %u, (%d)%s\0")
    other.write_bytes(b"\x7fELF\0")
    refused = cannot_plug(program)
    assert "--wire veth" in refused
    assert "memif = true" in refused
    assert cannot_plug(program, "veth") == cannot_plug(program, "nic") == ""
    assert cannot_plug(program, memif=True) == ""
    assert cannot_plug(program, server="10.0.0.7") == ""
    assert cannot_plug(other) == cannot_plug(tmp_path / "missing") == ""
