"""What listens while a scenario is deployed: nothing that another user or machine could reach.

The equivalent of `ss -l`, by procfs: sockets of the run's processes, of its guardian and of the
agent, in every network namespace that one of them is in.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.real.needs import program
from tests.real.switches import deployed
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.transfers import transfer_endpoints
from vnetperf.host.processes import find_processes
from vnetperf.model.transfer import TransferSpec
from vnetperf.virt import images

PROC = Path("/proc")
TCP_LISTEN, UDP_UNCONNECTED = "0A", "07"
ACCEPTS = 0x10000  # __SO_ACCEPTCON of net/unix


@dataclass(frozen=True)
class Listener:
    """A socket that something can be sent to.

    Attributes:
        kind: "tcp", "udp", "unix" ...
        address: "127.0.0.1:22", a path, "@name" of an abstract one.
        namespace: Inode of its network namespace.
        program: Whose it is.
    """

    kind: str
    address: str
    namespace: int
    program: str


def listeners(pids: Iterable[int]) -> set[Listener]:
    """Listening sockets of processes; UDP sockets that are bound and not connected count."""
    owned: dict[int, str] = {}
    tables: dict[int, list[tuple[str, str, int]]] = {}
    for pid in pids:
        place = PROC / str(pid)
        with contextlib.suppress(OSError):  # it has ended
            name = (place / "comm").read_text().strip()
            for link in (place / "fd").iterdir():
                with contextlib.suppress(OSError):  # closed: of this process the look's own
                    target = str(link.readlink())
                    if target.startswith("socket:["):
                        owned[int(target[8:-1])] = name
            # After its own sockets, so that they are in it; others of the namespace are later ones.
            space, net = (place / "ns/net").stat().st_ino, place / "net"
            tables.setdefault(space, []).extend((*_internet(net), *_unix(net)))
    return {
        Listener(kind, address, space, owned[inode])
        for space, lines in tables.items()
        for kind, address, inode in lines
        if inode in owned
    }


def children(pid: int) -> set[int]:
    """Children of all threads of a process."""
    found: set[int] = set()
    for file in (PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found |= {int(child) for child in file.read_text().split()}
    return found


def _internet(net: Path) -> Iterable[tuple[str, str, int]]:
    for kind, listens in (("tcp", TCP_LISTEN), ("udp", UDP_UNCONNECTED)):
        for table in (kind, f"{kind}6"):
            for line in (net / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == listens:
                    yield kind, _address(words[1]), int(words[9])


def _address(text: str) -> str:
    digits, _, port = text.partition(":")
    words = (bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    return f"{ip_address(b''.join(words))}:{int(port, 16)}"


def _unix(net: Path) -> Iterable[tuple[str, str, int]]:
    for line in (net / "unix").read_text().splitlines()[1:]:
        words = line.split(maxsplit=7)
        if int(words[3], 16) & ACCEPTS:
            yield "unix", words[7] if len(words) > 7 else "", int(words[6])


def check(deployment: LiveDeployment, before: set[Listener]) -> set[Listener]:
    """Look at all that listens now, and what of it is out of order; the run's own, for more."""
    host = deployment.run
    return look(os.getpid(), host.run_id, host.rundir.path, before)


def look(agent: int, run_id: str, folder: Path, before: set[Listener]) -> set[Listener]:
    """The same for a run by its agent's process, its name and its directory."""
    programs = {*find_processes(run_id)} - {agent}
    pids = {agent, *programs}
    pids |= {child for pid in pids for child in children(pid)}  # the guardian, and QEMU
    new = listeners(pids) - before
    own = {(PROC / str(pid) / "ns/net").stat().st_ino for pid in ("self", agent)}
    for pid in programs:
        with contextlib.suppress(FileNotFoundError):  # it has ended
            assert (PROC / str(pid) / "ns/net").stat().st_ino not in own, PROC / f"{pid}/cmdline"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    for one in new:
        if one.namespace in own:
            assert one.kind == "unix", one  # no port of the machine's
        if one.kind == "unix" and not one.address.startswith("@"):
            assert Path(one.address).is_relative_to(folder), one
        if one.address.startswith("@"):  # anybody in its namespace can connect
            assert one.namespace not in own, one
    return new


#: Each merge looks at poll-mode threads, a container and pods: other kernel ports are made alike.
KINDS = [
    pytest.param("phy2phy_bridge", {}, "", id="bridge", marks=pytest.mark.daily),
    pytest.param("pvp_dpdk", {}, "ovs-vswitchd-dpdk", id="OVS-DPDK, memif, vhost-user"),
    pytest.param("phy2phy_testpmd", {}, "dpdk-testpmd", id="testpmd", marks=pytest.mark.daily),
    pytest.param("pvp_vpp", {}, "vpp", id="VPP", marks=pytest.mark.daily),
    pytest.param("pvp_bridge", {"vnf": "vloop:container"}, "", id="container"),
    pytest.param("bmp2bmp_vxlan", {}, "", id="pods"),
    pytest.param(
        *("pvp_macvtap", {"vnf": "vloop:container"}, ""),
        id="macvtap",
        marks=pytest.mark.daily,
    ),
    pytest.param("vepc_bridge", {}, "osmo-ggsn", id="mobile core", marks=pytest.mark.daily),
    pytest.param(
        *("pvp_dpdk", {"vnf": "vloop:vm"}, "qemu-system-x86_64"),
        id="guest",
        marks=pytest.mark.daily,
    ),
    pytest.param(
        *("phy2phy_bridge", {"generator": "pktgen"}, "pktgen"),
        id="Pktgen",
        marks=pytest.mark.daily,
    ),
    pytest.param(
        *("phy2phy_bridge", {"generator": "trex"}, "_t-rex-64"),
        id="TRex",
        marks=pytest.mark.daily,
    ),
]


@pytest.mark.parametrize(("scenario", "settings", "needed"), KINDS)
def test_nothing_listens_but_sockets_of_the_run(
    scenario: str, settings: dict[str, str], needed: str
) -> None:
    if needed and not program(needed):
        pytest.skip(f"{needed} is not installed")
    if settings.get("vnf") == "vloop:vm" and images.find() is None:
        pytest.skip("no guest image is built here: `vnetperf image build vloop`")
    before = listeners([os.getpid()])
    with deployed(scenario, **settings) as deployment:
        during = check(deployment, before)
        if scenario == "pvp_dpdk":  # so that it is known that the look sees what there is
            assert {"unix"} <= {one.kind for one in during}
        if settings.get("vnf") == "vloop:vm":
            assert any(one.program.startswith("qemu") for one in during)
    assert listeners([os.getpid()]) <= before


@pytest.mark.daily
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
@pytest.mark.parametrize("scenario", ["phy2phy_bridge", "bmp2bmp_host"])
def test_servers_of_a_transfer_listen_in_namespaces_of_the_run(scenario: str) -> None:
    """Of endpoints at the wires' ends, and of pods, those of their hosts' own network too."""
    spec = TransferSpec(kind="TCP_STREAM", message_size=1024, duration_s=2)
    before = listeners([os.getpid()])
    seen: set[Listener] = set()
    with deployed(scenario, wire="veth") as deployment, ThreadPoolExecutor(1) as pool:
        transfer = pool.submit(transfer_endpoints, deployment, [spec])
        while not transfer.done():
            seen |= check(deployment, before)
            time.sleep(0.1)
        assert transfer.result()[0].flows
    assert any(one.kind == "tcp" and one.program == "iperf3" for one in seen)


def test_the_look_sees_what_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        with socket.socket(type=socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            found = {(one.kind, one.address) for one in listeners([os.getpid()])}
            assert {
                ("tcp", f"127.0.0.1:{tcp.getsockname()[1]}"),
                ("udp", f"127.0.0.1:{udp.getsockname()[1]}"),
                ("unix", str(tmp_path / "s")),
            } <= found
