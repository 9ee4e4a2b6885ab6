"""The parts of OVS-DPDK that need no OVS."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import VERSIONS, facts
from vnetperf.model.deployment import DEPLOYMENTS, PHY_PORTS, make_deployment
from vnetperf.model.errors import DutError
from vnetperf.model.plan import Placement, Plan
from vnetperf.model.ports import VnfPort, WireEnd
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.vswitches.dpdk import OvsDpdk
from vnetperf.vswitches.dpdk.counters import parse_dpctl_show
from vnetperf.vswitches.dpdk.flows import ofport, rules
from vnetperf.vswitches.dpdk.options import cpu_mask, devargs, other_config, parse_version
from vnetperf.vswitches.dpdk.unixctl import UnixCtl


def plan(node: int = 0, *, shared: bool = False, nodes: tuple[int, ...] = (0,)) -> Plan:
    return Plan(
        scenario=Scenario(
            deployment=make_deployment("pvp"), vswitch="dpdk", traffic=TrafficProfile()
        ),
        testbed=Testbed(),
        wire="memif",
        placement=Placement(
            mode="shared" if shared else "dedicated",
            reason="",
            cores={"pmd": (2, 5), "tester": (2,) if shared else (3,)},
            housekeeping=(0,),
            node=node,
            nodes=nodes,
        ),
        memory=(),
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ovs-vswitchd (Open vSwitch) 2.17.9\nDPDK 21.11.6", (2, 17)),
        ("ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.7", (3, 1)),
        ("ovs-vswitchd (Open vSwitch) 3.3.0-1ubuntu2\nDPDK 23.11.0\n", (3, 3)),
        ("ovs-vswitchd (Open vSwitch) 4.0.90", (4, 0)),
    ],
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "ovs-vswitchd: error while loading shared libraries", "3.1"])
def test_what_is_no_version_is_quoted(text: str) -> None:
    with pytest.raises(DutError, match="no version"):
        parse_version(text)


@pytest.mark.parametrize(("version", "runs"), [("2.16.7", 0), ("2.17.0", 1), ("4.0.0", 1)])
def test_versions_that_are_not_supported_are_told(version: str, runs: int) -> None:
    machine = facts(versions={**VERSIONS, "ovs-vswitchd-dpdk": f"x (Open vSwitch) {version}"})
    problem = OvsDpdk.missing(machine, plan().scenario)
    assert (problem == "") == bool(runs)
    assert runs or "accepted: 2.17" in problem


@pytest.mark.parametrize(
    ("version", "key"),
    [((2, 17), None), ((3, 0), None), ((3, 1), "pmd-maxsleep"), ((3, 2), "pmd-sleep-max")],
)
def test_an_idle_pmd_sleeps_on_shared_cores_by_the_versions_name(
    version: tuple[int, int], key: str | None
) -> None:
    found = {k for k in other_config(plan(shared=True), version) if "sleep" in k}
    assert found == ({key} if key else set())
    assert not {k for k in other_config(plan(), version) if "sleep" in k}


@pytest.mark.parametrize(
    ("node", "nodes", "memory", "limit"),
    [
        (0, (0,), "256", "256"),
        (0, (0, 1), "256", "256,1"),
        (1, (0, 1), "0,256", "1,256"),
        (2, (0, 2, 4), "0,0,256", "1,1,256,1,1"),
    ],
)
def test_memory_is_taken_on_the_pollers_node_and_nowhere_else(
    node: int, nodes: tuple[int, ...], memory: str, limit: str
) -> None:
    config = other_config(plan(node, nodes=nodes), (3, 1))
    assert config["dpdk-socket-mem"] == memory
    assert config["dpdk-socket-limit"] == limit  # a 0 would be no limit


def test_the_plan_shows_the_configuration_of_the_version_installed() -> None:
    for version, key in (("3.1.0", "pmd-maxsleep"), ("3.3.0", "pmd-sleep-max")):
        text = f"ovs-vswitchd (Open vSwitch) {version}\nDPDK"
        machine = facts(versions={"ovs-vswitchd-dpdk": text})
        assert key in OvsDpdk.launch_lines(plan(shared=True), machine)["ovs-vswitchd"]
    assert "pmd" in OvsDpdk.launch_lines(plan())["ovs-vswitchd"]


def test_masks_are_those_of_the_placement() -> None:
    config = other_config(plan(), (3, 1))
    assert config["pmd-cpu-mask"] == "0x24"
    assert config["dpdk-lcore-mask"] == "0x1"


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_mask_has_the_bit_of_each_processor(cpus: set[int]) -> None:
    mask = int(cpu_mask(tuple(cpus)), 16)
    assert {bit for bit in range(201) if mask >> bit & 1} == cpus


def test_devices_of_both_wires() -> None:
    memif = WireEnd(wire=1, kind="memif", side="dut", socket="/r/w.sock", role="server")
    assert devargs(memif).startswith("net_memif1,role=server,id=1,socket=/r/w.sock,")
    veth = WireEnd(wire=0, kind="veth", side="dut", netdev="vpd0")
    assert devargs(veth).startswith("net_af_packet0,iface=vpd0,")
    with pytest.raises(DutError, match="memif, veth"):
        devargs(WireEnd(wire=0, kind="nic", side="dut"))


def switch(flows: list[str], in_port: int, mac: str) -> int | None:
    """What OpenFlow would do with a frame: the port it leaves by; None when it is dropped."""
    out = []
    for flow in flows:
        match, _, action = flow.partition(",actions=output:")
        wanted = dict(part.split("=", 1) for part in match.split(","))
        if int(wanted["in_port"]) == in_port and wanted.get("dl_dst", mac) == mac:
            out.append(int(action))
    assert len(out) <= 1, "two rules of one priority take the same frame"
    return out[0] if out else None


@given(st.sampled_from(list(DEPLOYMENTS)), st.integers(1, 6), st.booleans())
def test_rules_carry_every_stream_along_its_path(name: str, vnfs: int, both: bool) -> None:
    deployment = make_deployment(name, vnfs)
    streams = make_streams(deployment, TrafficProfile(bidirectional=both))
    flows = rules(deployment, streams)
    for stream in streams:
        path = deployment.path(PHY_PORTS[stream.tx_port], stream.chain)
        for src, dst in zip(path[0::2], path[1::2], strict=True):
            assert switch(flows, ofport(src), stream.eth_dst) == ofport(dst)


def test_a_frame_of_no_chain_is_dropped_where_chains_are_told_apart() -> None:
    deployment = make_deployment("pvpv")
    flows = rules(deployment, make_streams(deployment, TrafficProfile()))
    assert switch(flows, ofport(PHY_PORTS[0]), "ff:ff:ff:ff:ff:ff") is None


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 1)), unique=True))
def test_ports_have_numbers_of_their_own(ports: list[tuple[int, int]]) -> None:
    numbers = [ofport(p) for p in PHY_PORTS]
    numbers += [ofport(VnfPort(vnf=v, index=i)) for v, i in ports]
    assert len(set(numbers)) == len(numbers)
    assert all(0 < n < 0xFF00 for n in numbers)


SHOW = """netdev@ovs-netdev:
  lookups: hit:72 missed:3 lost:0
  flows: 0
  port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:9 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 1: br0 (tap)
    RX packets:1 errors:0 dropped:1 overruns:0 frame:0
    TX packets:2 errors:0 dropped:2 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 2: phy0 (dpdk: configured_rx_queues=1, configured_tx_queues=2, mtu=1500)
    RX packets:38 errors:0 dropped:4 overruns:? frame:?
    TX packets:37 errors:0 dropped:0 aborted:? carrier:?
    collisions:?
    RX bytes:2280 (2.2 KiB)  TX bytes:2280 (2.2 KiB)
  port 3: vnf0.0 (dpdkvhostuserclient: configured_rx_queues=1, mtu=1500)
    RX packets:36 errors:0 dropped:? overruns:? frame:?
    TX packets:34 errors:0 dropped:5 aborted:? carrier:?
    collisions:?
    RX bytes:2280 (2.2 KiB)  TX bytes:2280 (2.2 KiB)
"""


def test_counters_of_the_ports_asked_for() -> None:
    found = parse_dpctl_show(SHOW, {"phy0": "phy0", "vnf0.0": "vnf0.0", "phy1": "phy1"})
    assert [(c.port, c.rx, c.tx, c.rx_dropped, c.tx_dropped) for c in found] == [
        ("phy0", 38, 37, 4, 0),
        ("vnf0.0", 36, 34, 0, 5),
    ]


def test_nothing_to_count() -> None:
    assert parse_dpctl_show("", {"phy0": "phy0"}) == ()


# --- the control socket ----------------------------------------------------------------------

Script = Callable[[socket.socket, dict[str, object]], bool]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[[Script], UnixCtl]]:
    """A daemon that answers each request by a script; False closes the connection."""
    path = str(tmp_path / "ctl")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    opened: list[UnixCtl] = []

    def start(script: Script) -> UnixCtl:
        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while request := connection.recv(65536):
                        if not script(connection, json.loads(request)):
                            break

        threading.Thread(target=serve, daemon=True).start()
        opened.append(UnixCtl(path, timeout_s=2.0))
        return opened[-1]

    yield start
    for client in opened:
        client.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def answer(request: dict[str, object], **content: object) -> bytes:
    return json.dumps({"id": request["id"], "error": None, "result": None, **content}).encode()


def test_commands_and_parameters_arrive_and_texts_come_back(
    daemon: Callable[[Script], UnixCtl],
) -> None:
    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        connection.sendall(answer(request, result=f"{request['method']} {request['params']}\n"))
        return True

    client = daemon(script)
    assert client.call("dpctl/show", "-s") == "dpctl/show ['-s']\n"
    assert client.call("list-commands") == "list-commands []\n"


def test_an_answer_in_pieces_is_put_together(daemon: Callable[[Script], UnixCtl]) -> None:
    text = 'port ä {"} ' * 500

    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        whole = answer(request, result=text)
        for start in range(0, len(whole), 97):
            connection.sendall(whole[start : start + 97])
        return True

    assert daemon(script).call("x") == text


def test_a_refusal_is_an_error_with_its_text(daemon: Callable[[Script], UnixCtl]) -> None:
    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        connection.sendall(answer(request, error='"x" is not a valid command'))
        return True

    client = daemon(script)
    for _ in range(2):  # the connection is still good
        with pytest.raises(DutError, match="not a valid command"):
            client.call("x")


def test_a_daemon_that_dies_is_an_error_and_one_that_is_back_is_used_again(
    daemon: Callable[[Script], UnixCtl],
) -> None:
    seen = []

    def script(connection: socket.socket, request: dict[str, object]) -> bool:
        seen.append(request)
        if len(seen) == 1:
            connection.sendall(b'{"id": 1, "res')
            return False
        connection.sendall(answer(request, result="ok"))
        return True

    client = daemon(script)
    with pytest.raises(DutError, match="closed the connection"):
        client.call("x")
    assert client.call("x") == "ok"


def test_no_daemon_is_an_error_that_names_the_socket(tmp_path: Path) -> None:
    with pytest.raises(DutError) as caught:
        UnixCtl(str(tmp_path / "none")).call("x")
    assert caught.value.where == str(tmp_path / "none")


def test_a_daemon_that_hangs_is_given_up(daemon: Callable[[Script], UnixCtl]) -> None:
    client = daemon(lambda connection, request: True)
    client.timeout_s = 0.1
    with pytest.raises(DutError, match="no answer to x"):
        client.call("x")
