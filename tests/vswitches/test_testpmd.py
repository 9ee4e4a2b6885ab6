"""The parts of the testpmd backend that need no DPDK."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import cpus, facts
from vnetperf.deployment.trial import DutWatch
from vnetperf.host import dpdk
from vnetperf.model.deployment import PHY_PORTS, Attachment, Port, VnfPort, WireEnd, make_deployment
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import CoresConfig, Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.planner import make_loop_plan, make_plan
from vnetperf.traffic.loadgen.driver import engine_port
from vnetperf.vswitches import testpmd as cabling
from vnetperf.vswitches.testpmd import TestpmdSwitch, phy_device, vnf_device

A, B = VnfPort(vnf=0, index=0), VnfPort(vnf=0, index=1)


def scenario(deployment: str, **changes: Any) -> Scenario:
    graph = make_deployment(deployment)
    return Scenario(deployment=graph, vswitch="testpmd", traffic=TrafficProfile(), **changes)


def command(**changes: Any) -> list[str]:
    asked: dict[str, Any] = {
        "program": "/usr/bin/dpdk-testpmd",
        "name": "switch",
        "devices": ("--vdev=net_memif0", "--vdev=net_memif1"),
        "forwarding": (0, 1),
        "main": 0,
        "workers": (2,),
        "node": 0,
        "memory_mib": 128,
        **changes,
    }
    return dpdk.TestpmdCommand(**asked).argv()


#: As DPDK 22.11 shows it, of two ports with a queue each; the second polled 5 times.
SHOWN = """show fwd stats all

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 320            RX-dropped: 0             RX-total: 320
  TX-packets: 320            TX-dropped: 0             TX-total: 320
  RX-bursts : 1000 [99% of 0 pkts + 1% of 32 pkts]
  TX-bursts : 10 [0% of 0 pkts + 100% of 32 pkts]
  ----------------------------------------------------------------------------

  ---------------------- Forward statistics for port 1  ----------------------
  RX-packets: 0              RX-dropped: 0             RX-total: 0
  TX-packets: 320            TX-dropped: 0             TX-total: 320
  RX-bursts : 5 [100% of 0 pkts]
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 320            RX-dropped: 0             RX-total: 320
  TX-packets: 320            TX-dropped: 0             TX-total: 320
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

  CPU cycles/packet=20.00 (total cycles=6400 / total RX packets=320) at 2450 MHz Clock
testpmd> """


@pytest.mark.parametrize("cycles", ["total", "busy"])
def test_what_its_threads_did_is_read_once_all_of_it_is_there(cycles: str) -> None:
    shown = SHOWN.replace("(total cycles", f"({cycles} cycles")
    work = cabling.parse_forward_stats(shown)
    assert work is not None
    assert (work.packets, work.polls, work.empty_polls) == (320, 1005, 995)
    assert (work.busy_cycles, work.idle_cycles) == (6400, None)
    assert cabling.parse_forward_stats(shown.removesuffix("testpmd> ")) is None
    assert cabling.parse_forward_stats("") is None


def shown_switch(tmp_path: Path, rx_queues: int = 1) -> TestpmdSwitch:
    """One that shows the same each time."""
    log = tmp_path / "log"
    log.write_text(SHOWN)  # of an earlier call

    def shows(line: str) -> None:
        with log.open("a") as file:
            file.write({cabling.SHOW: SHOWN, cabling.CLEAR: "\ntestpmd> "}[line])

    plan = MagicMock()
    plan.scenario.options.rx_queues = rx_queues
    switch = TestpmdSwitch(MagicMock(subdir=lambda name: tmp_path), plan)
    switch.process = MagicMock(log=log, write_line=MagicMock(side_effect=shows))
    return switch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds: its only element."""
    now = [1000.0]
    monkeypatch.setattr(cabling.time, "monotonic", lambda: now[0])
    return now


def test_its_pollers_are_those_of_any_testpmd(tmp_path: Path) -> None:
    switch = shown_switch(tmp_path)
    switch.process = MagicMock(pid=7)
    assert switch.pollers() == dpdk.TestpmdCommand.pollers("pmd", 7)
    assert {one.pid for one in switch.pollers()} == {7}
    switch.process = None
    assert switch.pollers() == ()


@pytest.mark.usefixtures("clock")
def test_of_several_queues_polls_are_unknown(tmp_path: Path) -> None:
    """testpmd leaves out those that had no frame."""
    (work,) = shown_switch(tmp_path, rx_queues=4).datapath_work()
    assert (work.polls, work.empty_polls) == (None, None)
    assert work.packets


def test_polls_of_a_minute_are_unknown_and_those_after_it_are_not(
    tmp_path: Path, clock: list[float]
) -> None:
    """Counts of 32 bits overflow."""
    switch = shown_switch(tmp_path)
    switch.datapath_work()
    clock[0] += 60
    (late,) = switch.datapath_work()
    assert (late.polls, late.empty_polls) == (None, None)
    (before,), (after,) = switch.datapath_work(), switch.datapath_work()
    assert after.since(before).polls


def test_a_trial_has_polls_however_long_ago_the_last_one_was(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = MagicMock(vswitch=shown_switch(tmp_path))
    monkeypatch.setattr("vnetperf.deployment.trial.CollectorSession", MagicMock())
    for _ in range(2):  # the first one after the deployment, one after a pause
        watch = DutWatch(deployment)
        watch.start()
        clock[0] += 2
        counted = watch.counted()
        (work,) = counted["datapath"]
        assert (work.packets, work.polls, work.empty_polls) == (320, 1005, 995)
        assert counted["uncollected"] == {}
        clock[0] += 60
    watch = DutWatch(deployment)
    watch.start()
    clock[0] += 60
    (work,) = watch.counted()["datapath"]
    assert work.polls is None  # the trial itself was too long


def test_a_switch_that_tells_neither_polls_nor_idle_cycles_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vnetperf.deployment.trial.CollectorSession", MagicMock())
    work = DatapathWork(thread="vpp_wk_0", packets=1, busy_cycles=1, idle_cycles=None)
    switch = MagicMock(datapath_work=MagicMock(return_value=(work,)))
    DutWatch(MagicMock(vswitch=switch)).start()
    assert switch.datapath_work.call_count == 1


@pytest.mark.usefixtures("clock")
def test_what_its_threads_did_adds_up_over_calls(tmp_path: Path) -> None:
    switch = shown_switch(tmp_path)
    switch.datapath_work()
    (first,), (second,), (third,) = (switch.datapath_work() for _ in range(3))
    assert third.since(second) == second.since(first)
    assert [call.args[0] for call in switch.process.write_line.call_args_list] == (
        [cabling.SHOW, cabling.CLEAR] * 4
    )


@given(st.integers(0, 6))
def test_every_hop_of_a_chain_is_one_pair(vnfs: int) -> None:
    deployment = make_deployment("pvvp", vnfs) if vnfs else make_deployment("phy2phy")
    pairs = cabling.port_pairs(deployment)
    assert len(pairs) == vnfs + 1
    both = {*pairs, *((b, a) for a, b in pairs)}
    assert both == {(hop.src, hop.dst) for hop in deployment.hops}


def test_one_way_deployments_are_a_pair_too() -> None:
    assert cabling.port_pairs(make_deployment("p2v")) == ((PHY_PORTS[0], A),)


def test_a_port_that_leads_to_several_is_refused() -> None:
    with pytest.raises(DutError, match="to several ports"):
        cabling.port_pairs(make_deployment("pvpv"))
    with pytest.raises(CapabilityError, match="cannot distinguish parallel chains"):
        make_plan(scenario("pvpv"), Testbed(), facts())


def test_pci_devices_are_numbered_first_and_by_address() -> None:
    names: dict[Port, str] = {
        PHY_PORTS[0]: "0000:86:00.1",
        A: "net_vhost2",
        PHY_PORTS[1]: "0000:3b:00.0",
        B: "net_vhost3",
    }
    assert cabling.port_numbers(names) == {PHY_PORTS[1]: 0, PHY_PORTS[0]: 1, A: 2, B: 3}


def test_ports_are_listed_so_that_hops_are_pairs() -> None:
    deployment = make_deployment("pvp")
    number = {PHY_PORTS[0]: 1, PHY_PORTS[1]: 0, A: 2, B: 3}
    order = cabling.forwarding_order(deployment, number)
    pairs = {frozenset(order[i : i + 2]) for i in range(0, len(order), 2)}
    assert pairs == {frozenset({1, 2}), frozenset({0, 3})}
    assert cabling.forwarding_order(deployment, number, without={A}) in {(3, 0), (0, 3)}


@given(
    st.integers(0, 400),
    st.lists(st.integers(0, 400), min_size=1, max_size=8),
)
def test_each_thread_has_an_lcore_and_runs_where_it_is_to(main: int, workers: list[int]) -> None:
    lcores, main_lcore = dpdk.lcore_arguments(main, workers)
    pairs = [pair.split("@") for pair in lcores.removeprefix("--lcores=").split(",")]
    numbers = [int(number) for number, _ in pairs]
    assert len(set(numbers)) == len(workers) + 1
    assert max(numbers) < dpdk.MAX_LCORE
    assert sorted(int(cpu) for _, cpu in pairs) == sorted([main, *workers])
    assert dict(pairs)[main_lcore.removeprefix("--main-lcore=")] == str(main)


def test_the_tester_polls_as_many_queues_as_are_sent_on_and_no_more() -> None:
    asked = scenario("phy2phy", options=SwitchOptions(rx_queues=4))
    assert make_plan(asked, Testbed(), facts()).tester_rx_queues == 4
    # A memif does not connect to one that sends on fewer queues than it polls.
    ovs = asked.model_copy(update={"vswitch": "dpdk"})
    assert make_plan(ovs, Testbed(), facts()).tester_rx_queues == 2
    assert make_loop_plan(ovs, Testbed(), facts()).tester_rx_queues == 4
    end = WireEnd(wire=0, kind="memif", side="tester", socket="/run/x.sock")
    port = engine_port(0, end, ovs, 2, vhost_net=False)
    assert (port.rx_queues, port.tx_queues) == (2, 4)


@pytest.mark.parametrize(
    ("options", "log2"),
    [({}, 11), ({"rx_descriptors": 256}, 8), ({"tx_descriptors": 4096}, 12),
     ({"rx_descriptors": 32768, "tx_descriptors": 32768}, 14)],
)  # fmt: skip
def test_the_rings_of_a_memif_wire_are_those_of_the_testers_end(
    options: dict[str, int], log2: int
) -> None:
    """The client has the say; the tester must not think they are shorter than they are."""
    wanted = scenario("phy2phy", options=SwitchOptions(**options))
    end = WireEnd(wire=0, kind="memif", side="tester", socket="/run/x.sock")
    port = engine_port(0, end, wanted, 1, vhost_net=False)
    assert f"rsize={log2}" in port.argument
    assert (port.rings.tester, port.rings.dut) == (1 << log2, 1 << log2)


@pytest.mark.parametrize(
    ("node", "housekeeping", "workers", "main"),
    [
        (0, (1, 2), (0,), 1),
        (0, (2,), (1,), 0),  # what is left to the system is on the other node
        (1, (0,), (2,), 3),
        (1, (0,), (2, 3), 2),
        (0, (8,), (1,), 8),  # nothing is known of it
        (7, (0,), (1,), 0),
    ],
)
def test_the_main_thread_is_where_its_memory_is(
    node: int, housekeeping: tuple[int, ...], workers: tuple[int, ...], main: int
) -> None:
    node_of = {0: 0, 1: 0, 2: 1, 3: 1}
    assert dpdk.main_lcore_cpu(node, node_of, housekeeping, workers) == main


@pytest.mark.parametrize(
    ("housekeeping", "allowed", "main"),
    [((0,), (0, 1, 4, 5, 6, 7), 6), ((), (0, 1, 4, 5), 5), ((7,), (), 7)],
    ids=["kept free on the other node", "full: it is the worker's", "kept free on it"],
)
def test_the_switchs_main_thread_is_where_its_memory_is(
    housekeeping: tuple[int, ...], allowed: tuple[int, ...], main: int
) -> None:
    cores = CoresConfig(housekeeping=housekeeping, allowed=allowed)
    there = facts(nodes=2).model_copy(update={"cpus": cpus(8, nodes=2, isolated=(4, 5))})
    made = make_plan(scenario("phy2phy"), Testbed(cores=cores), there)
    assert (made.placement.node, made.placement.pollers) == (1, (4, 5))
    assert f"@{main} " in made.commands["dpdk-testpmd"].partition(",")[0] + " "
    switch = TestpmdSwitch(MagicMock(facts=there), made)
    switch.numbers = dict(zip(PHY_PORTS, (0, 1), strict=True))
    assert switch.make_command({}).main == main


@pytest.mark.parametrize(("others", "main"), [((0,), 1), ((0, 1), 4), ((1, 5), 0)])
def test_the_main_thread_keeps_off_other_pollers(others: tuple[int, ...], main: int) -> None:
    node_of = {0: 0, 1: 0, 2: 1, 4: 0, 5: 0}
    assert dpdk.main_lcore_cpu(0, node_of, (2,), (4,), (*others, 5)) == main


def test_the_command_line_says_what_was_asked_for() -> None:
    argv = command(queues=4, rx_descriptors=512, tx_descriptors=2048, workers=(2, 3), mode="mac")
    for argument in ("--rxq=4", "--txq=4", "--rxd=512", "--txd=2048", "--nb-cores=2"):
        assert argument in argv
    assert "--forward-mode=mac" in argv
    assert "--portlist=0,1" in argv
    assert argv.index("--no-pci") < argv.index("--")


def test_peers_are_named_for_the_mode_that_writes_addresses() -> None:
    peers = {1: "02:00:00:00:00:01"}
    assert "--eth-peer=1,02:00:00:00:00:01" in command(peers=peers, mode="mac")
    assert not any("--eth-peer" in argument for argument in command(peers=peers))


def test_nothing_to_forward_is_not_looped_back() -> None:
    argv = command(devices=("--vdev=net_memif0",), forwarding=())
    assert "--forward-mode=rxonly" in argv
    assert not any(a.startswith("--portlist") for a in argv)


def test_pci_devices_are_looked_for_only_where_there_are_some() -> None:
    assert "--no-pci" not in command(devices=("-a0000:3b:00.0", "--vdev=net_vhost1"))


def test_jumbo_frames_need_larger_buffers_and_some_drivers_are_told() -> None:
    assert "--mbuf-size=2176" in command()
    assert "--mbuf-size=9856" in command(mtu=9000)
    assert "--max-pkt-len=9030" in command(mtu=9000, tells_mtu=True)
    assert not any(a.startswith("--max-pkt-len") for a in command(mtu=9000))
    assert not any(a.startswith("--max-pkt-len") for a in command(tells_mtu=True))


def test_memory_is_on_the_pollers_node() -> None:
    argv = command(node=1, devices=("--vdev=net_af_packet0", "--vdev=net_af_packet1"))
    assert argv[argv.index("--socket-mem") + 1] == "0,128"
    assert "--socket-num=1" in argv


def test_memif_has_a_little_memory_on_node_0() -> None:
    argv = command(node=1, devices=("--vdev=net_memif0", "--vdev=net_memif1"))
    assert argv[argv.index("--socket-mem") + 1] == "16,128"
    assert "--socket-num=1" in argv


@given(st.integers(1, 20), st.integers(1, 8), st.sampled_from([1500, 9000]))
def test_memory_holds_every_ring(ports: int, queues: int, mtu: int) -> None:
    buffers = dpdk.mbuf_count(ports, queues, mtu)
    assert buffers >= ports * queues * 2 * dpdk.RING_SIZE
    assert dpdk.forwarder_memory_mib(ports, queues, mtu) * (1 << 20) >= buffers * mtu


def test_devices_of_wires() -> None:
    memif = WireEnd(wire=1, kind="memif", side="dut", socket="/run/w1.sock", role="server")
    device = phy_device(1, memif, 1500)
    assert device.name == "net_memif1"
    assert {"role=server", "id=1", "socket=/run/w1.sock"} <= {*device.argument.split(",")}
    veth = phy_device(0, WireEnd(wire=0, kind="veth", side="dut", netdev="vp1d0"), 1500)
    assert (veth.name, veth.netdev) == ("net_af_packet0", "vp1d0")
    nic = WireEnd(wire=0, kind="nic", side="dut", pci="0000:3b:00.0", driver="vfio-pci")
    assert phy_device(0, nic, 1500).argument == "-a0000:3b:00.0"
    kernel = nic.model_copy(update={"netdev": "eth1", "driver": "ice"})
    with pytest.raises(DutError, match=r"a nic wire under driver ice.*accepted: memif, veth"):
        phy_device(0, kernel, 1500)


def test_devices_of_vnf_ports() -> None:
    offer = Attachment(port=A, kind="vhost-user", socket="/run/a.sock", queues=2)
    assert vnf_device(2, offer, 1500).argument == (
        "--vdev=net_vhost2,iface=/run/a.sock,queues=2,client=1"
    )
    memif = vnf_device(3, offer.model_copy(update={"kind": "memif"}), 1500)
    assert "role=server,id=0" in memif.argument


def test_the_plan_has_threads_memory_and_pairs() -> None:
    asked = scenario("pvp", options=SwitchOptions(workers=2, mode="macswap"))
    made = make_plan(asked, Testbed(), facts())
    assert len(made.placement.cores["pmd"]) == 2
    assert made.memory[0].users["testpmd"] == TestpmdSwitch.hugepage_mib(asked)
    assert "--forward-mode=macswap" in made.commands["dpdk-testpmd"]
    assert "phy0 - vnf0.0" in made.commands["dpdk-testpmd"]


def test_a_veth_wire_has_the_queues_that_are_asked_for() -> None:
    veth = WireEnd(wire=0, kind="veth", side="dut", netdev="vp1d0")
    assert phy_device(0, veth, 1500, 2).argument.endswith(",qpairs=2")


@pytest.mark.parametrize(
    ("options", "frames"),
    [({}, 2048), ({"rx_descriptors": 512}, 512), ({"tx_descriptors": 4096}, 4096),
     ({"rx_descriptors": 1024, "tx_descriptors": 1024}, 1024)],
)  # fmt: skip
def test_a_veth_wire_has_the_rings_that_are_asked_for(
    tmp_path: Path, options: dict[str, int], frames: int
) -> None:
    asked = scenario("phy2phy", wire="veth", options=SwitchOptions(**options))
    machine = MagicMock(facts=facts(), subdir=lambda name: tmp_path)
    switch = TestpmdSwitch(machine, make_plan(asked, Testbed(), facts()))
    names = [{"name": f"net_af_packet{n}"} for n in (0, 1)]
    with (
        patch("vnetperf.vswitches.testpmd.DpdkPorts.info", side_effect=lambda n: names[n]),
        patch("vnetperf.vswitches.testpmd.DpdkPorts.describe", return_value=""),
        patch("vnetperf.vswitches.testpmd.DpdkPorts.version", return_value=""),
    ):
        switch.start()
        for n in (0, 1):
            switch.add_phy_port(WireEnd(wire=n, kind="veth", side="dut", netdev=f"vp1d{n}"))
        said = switch.facts()["rx/tx descriptors of NICs"]
    devices = [one for one in switch.argv if "af_packet" in one]
    assert [f",framecnt={frames}," in device for device in devices] == [True, True]
    assert f"{frames} frames" in said


@pytest.mark.parametrize("wire", ["memif", "veth"])
def test_two_sizes_of_rings_are_refused_where_there_is_one(wire: str) -> None:
    two = SwitchOptions(rx_descriptors=512, tx_descriptors=1024)
    with pytest.raises(CapabilityError, match="rings of one size"):
        make_plan(scenario("phy2phy", wire=wire, options=two), Testbed(), facts())


def test_sockets_of_a_killed_testpmd_go_before_the_next_listens(tmp_path: Path) -> None:
    left = {name: tmp_path / f"{name}.sock" for name in ("wire0", "wire1", str(A), str(B))}
    for path in left.values():
        path.touch()
    machine = MagicMock(facts=facts())
    machine.spawn.return_value.stopped = False
    machine.subdir.return_value = tmp_path
    machine.vnf_socket.side_effect = lambda name: str(left[name])
    switch = TestpmdSwitch(machine, make_plan(scenario("pvp"), Testbed(), facts()))
    switch.offer_vnf_port(A, "memif")
    switch.offer_vnf_port(B, "vhost-user")
    switch.start()
    ends = [
        WireEnd(wire=n, kind="memif", side="dut", socket=str(left[f"wire{n}"]), role="server")
        for n in (0, 1)
    ]
    with patch("vnetperf.vswitches.testpmd.DpdkPorts.info", return_value={}):
        switch.add_phy_port(ends[0])
        with pytest.raises(DutError, match="testpmd took None for phy0"):
            switch.add_phy_port(ends[1])
    machine.spawn.assert_called_once()
    # Of vhost-user the VNF is the server: its socket stays.
    assert {name for name, path in left.items() if path.exists()} == {str(B)}


@pytest.mark.parametrize("late", [0, 3])
def test_nothing_is_forwarded_before_memif_ports_are_connected(tmp_path: Path, late: int) -> None:
    machine = MagicMock(facts=facts())
    machine.spawn.return_value.stopped = False
    machine.subdir.return_value = tmp_path
    machine.spawn.return_value.alive.return_value = True
    start = machine.spawn.return_value.write_line
    switch = TestpmdSwitch(machine, make_plan(scenario("phy2phy"), Testbed(), facts()))
    switch.start()
    answers: list[bool] = []

    def link_up(_: object, number: int) -> bool:
        start.assert_not_called()
        answers.append(len(answers) >= late)
        return answers[-1]

    names = [{"name": f"net_memif{n}"} for n in (0, 1)]
    with (
        patch("vnetperf.vswitches.testpmd.DpdkPorts.info", side_effect=lambda n: names[n]),
        patch("vnetperf.vswitches.testpmd.DpdkPorts.link_up", link_up),
    ):
        for n in (0, 1):
            socket = str(tmp_path / f"{n}.sock")
            switch.add_phy_port(
                WireEnd(wire=n, kind="memif", side="dut", socket=socket, role="server")
            )
        start.assert_not_called()
        switch.connect(())
    start.assert_called_once_with("start")
    assert len(answers) >= late + 1
    assert "--interactive" in switch.argv
    assert "--auto-start" not in switch.argv


def test_a_missing_program_names_the_package() -> None:
    problem = TestpmdSwitch.missing(facts(programs={}), scenario("pvp"))
    for words in ("dpdk-testpmd", "the package dpdk-dev"):
        assert words in problem
