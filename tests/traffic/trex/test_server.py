"""What a server is told about its ports and processors, and what client goes with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Placement, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.traffic.trex.client import ClientInstall, find_client
from vnetperf.traffic.trex.driver import Trex
from vnetperf.traffic.trex.server import (
    ServerPort,
    server_command,
    server_configuration,
    server_port,
    server_threads,
)

MEMIF = WireEnd(wire=1, kind="memif", side="tester", socket="/run/w1.sock", role="client")
VETH = WireEnd(wire=0, kind="veth", side="tester", netdev="t0", mac="02:00:00:00:00:07")
NIC = WireEnd(wire=0, kind="nic", side="tester", pci="0000:3b:00.0", driver="vfio-pci")


def placement(*cores: int, others: tuple[int, ...] = (), main: int = 0) -> Placement:
    return Placement(
        mode="dedicated",
        reason="",
        cores={"tester": cores, "pmd": others},
        housekeeping=(main,),
    )


def test_with_processors_of_its_own_every_thread_has_one() -> None:
    threads = server_threads(placement(2, 3, 4, others=(5,)), [server_port(0, MEMIF, 1500)] * 2)
    assert (threads.low_end, threads.workers, threads.receiver, threads.main) == (
        False,
        (2, 3),
        4,
        0,
    )
    text = server_configuration([server_port(0, MEMIF, 1500)] * 2, threads, "p", mtu=1500, node=1)
    assert "  c: 2\n" in text
    assert "threads: [2, 3]" in text
    assert "- socket: 1" in text
    assert "low_end" not in text


def test_a_memif_has_a_worker_for_each_queue_of_its_other_end() -> None:
    ports = [server_port(0, MEMIF, 1500)] * 2
    assert server_threads(placement(2, 3, 4), ports, 1).workers == (2,)
    assert server_threads(placement(2, 3, 4), ports, 2).workers == (2, 3)
    assert server_threads(placement(2, 3, 4), [server_port(0, NIC, 1500)] * 2, 1).workers == (2, 3)


def test_a_port_with_one_queue_takes_one_worker() -> None:
    assert server_threads(placement(2, 3, 4), [server_port(0, VETH, 1500)] * 2).workers == (2,)


@pytest.mark.parametrize(
    "where",
    [placement(1), placement(0, 1), placement(2, 3, 4, others=(3,)), placement(2, 3, 4, main=3)],
)
def test_with_too_few_processors_it_takes_turns_and_sleeps(where: Placement) -> None:
    threads = server_threads(where)
    assert threads.low_end
    assert len(threads.workers) == 1
    text = server_configuration([server_port(0, MEMIF, 1500)] * 2, threads, "p", mtu=1500, node=0)
    assert f"low_end_core: {threads.workers[0]}" in text


@pytest.mark.parametrize(
    ("cores", "main", "node", "why"),
    [
        ((2, 3, 119), 0, 3, ""),
        ((2, 3, 120), 0, 0, "processors up to 119, and would be on 120"),
        ((257, 258, 259), 256, 0, "would be on 256, 257, 258, 259"),
        ((2, 3, 4), 0, 5, "NUMA nodes up to 3, and would be on 5"),
        ((300,), 300, 7, ""),  # taking turns, it names no threads
    ],
)
def test_what_the_servers_tables_have_no_room_for_is_refused(
    cores: tuple[int, ...], main: int, node: int, why: str
) -> None:
    """Threads have octets there: a processor 257 would have been 1 in silence."""
    where = placement(*cores, main=main).model_copy(update={"node": node})
    wanted = Scenario(
        deployment=make_deployment("phy2phy"), vswitch="ovs", traffic=TrafficProfile()
    )
    for wire in ("veth", "memif", "nic"):
        said = Trex.cannot_plug(
            wire,
            1,
            scenario=wanted,
            placement=where,
            testbed=Testbed(),
            facts=MachineFacts(cpus=()),
        )
        assert (why in said) if why else not said


def test_memif_is_told_by_wire_and_an_attachment_by_its_socket() -> None:
    assert "id=1," in server_port(0, MEMIF, 1500).interface
    assert "id=0," in server_port(0, MEMIF, 1500, own_socket=True).interface


def test_rings_of_kernel_interfaces_are_longer_than_the_servers_own() -> None:
    port = server_port(0, VETH, 1500)
    assert "iface=t0" in port.interface
    assert "framecnt=2048" in port.interface
    assert port.mac == VETH.mac


def test_a_nic_is_the_servers_own() -> None:
    port = server_port(0, NIC, 1500)
    assert (port.interface, port.pci) == ("0000:3b:00.0", True)
    text = server_configuration(
        [port] * 2, server_threads(placement(2, 3, 4), [port] * 2), "p", mtu=9000, node=0
    )
    assert "port_mtu: 9000" in text
    assert "limit_memory" not in text
    assert 'ext_dpdk_opt: ["--huge-unlink"]' in text  # a killed one leaves no files with its pages


def test_taking_turns_it_does_not_take_all_hugepages_for_nics() -> None:
    """It gives DPDK a limit by itself, of 1024 MiB, but not with low_end."""
    ports = [server_port(0, NIC, 1500)] * 2
    few = server_configuration(ports, server_threads(placement(1)), "p", mtu=1500, node=0)
    assert 'ext_dpdk_opt: ["--huge-unlink", "-m", "1024"]' in few
    assert "limit_memory" not in few


def test_what_it_has_no_driver_for_is_refused() -> None:
    end = WireEnd(wire=0, kind="vhost-user", side="tester", socket="/run/x", role="client")
    with pytest.raises(GeneratorError, match="cannot plug into a vhost-user"):
        server_port(0, end, 1500)


def test_the_program_is_started_and_never_its_wrapper() -> None:
    threads = server_threads(placement(2, 3, 4), [ServerPort("--vdev=a", many_queues=True)])
    argv = server_command("/opt/trex/_t-rex-64", Path("/run/cfg"), threads)
    assert argv[:4] == ["env", "--chdir", "/opt/trex", "/opt/trex/_t-rex-64"]
    assert argv[argv.index("-c") + 1] == "2"
    assert {"--queue-drop", "--hdrh", "--no-watchdog"} <= set(argv)


def api(directory: Path) -> Path:
    made = directory / "trex" / "stl" / "api.py"
    made.parent.mkdir(parents=True)
    made.touch()
    return directory


@pytest.mark.parametrize(
    "below",
    [
        ".",
        "automation/trex_control_plane/interactive",
        "scripts/automation/trex_control_plane/interactive",
    ],
)
def test_a_client_is_found_in_a_tree(tmp_path: Path, below: str) -> None:
    place = api(tmp_path / below)
    found = find_client(str(tmp_path), "")
    assert isinstance(found, ClientInstall)
    assert found.path.resolve() == place.resolve()
    assert found.python == Path(sys.executable)


def test_the_client_beside_the_server_is_taken(tmp_path: Path) -> None:
    place = api(tmp_path / "automation/trex_control_plane/interactive")
    found = find_client("", str(tmp_path / "_t-rex-64"))
    assert isinstance(found, ClientInstall)
    assert found.path == place


def test_an_environment_has_an_interpreter_of_its_own(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages/lbr_trex_client/interactive"
    (packages / "trex").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    found = find_client(str(tmp_path), "")
    assert isinstance(found, ClientInstall)
    assert (found.path, found.python) == (packages, tmp_path / "bin/python")
    (tmp_path / "lib/python3.11").rename(tmp_path / "lib/python3.12")
    refused = find_client(str(tmp_path), "")
    assert isinstance(refused, str)
    assert "Python 3.12" in refused
    assert "3.11 or older" in refused


def test_a_client_that_is_nowhere_is_said_with_its_cure(tmp_path: Path) -> None:
    named = find_client(str(tmp_path), "")
    assert isinstance(named, str)
    assert str(tmp_path) in named
    nowhere = find_client("", str(tmp_path / "_t-rex-64"))
    if isinstance(nowhere, str):
        assert "under [trex]" in nowhere


@pytest.mark.parametrize(
    ("wire", "queues", "flows", "cores", "why"),
    [
        ("memif", 1, 1, (0,), ""),
        ("memif", 2, 1, (0,), "sends on 2 queues, and TRex polls 1"),
        ("memif", 2, 1, (2, 3, 4), ""),
        ("memif", 3, 1, (2, 3, 4), "sends on 3 queues, and TRex polls 2"),
        ("memif", 1, 100, (2, 3, 4), "in pieces when flows differ"),
        ("veth", 4, 100, (0,), ""),
        ("nic", 4, 100, (0,), ""),
    ],
)
def test_a_memif_that_would_lose_frames_is_refused(
    wire: str, queues: int, flows: int, cores: tuple[int, ...], why: str
) -> None:
    profile = TrafficProfile(flows=flows, vary=("ipv4_dst",) if flows > 1 else ())
    scenario = Scenario(deployment=make_deployment("phy2phy"), vswitch="ovs", traffic=profile)
    said = Trex.cannot_plug(
        wire,
        queues,
        scenario=scenario,
        placement=placement(*cores),
        testbed=Testbed(),
        facts=MachineFacts(cpus=()),
    )
    assert (why in said) if why else not said
