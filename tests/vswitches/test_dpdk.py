"""The parts of OVS-DPDK that need no OVS."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import VERSIONS, cpus, facts
from vnetperf.model.deployment import PhyPort, VnfPort, WireEnd, make_deployment
from vnetperf.model.errors import CapabilityError, DutError
from vnetperf.model.options import QueuePin, SwitchOptions
from vnetperf.model.scenario import NicUse, Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.openvswitch.dpdk import LEAST_MIB, cpu_mask, main_lcore
from vnetperf.openvswitch.programs import parse_ovs_version
from vnetperf.vswitches.dpdk import (
    OvsDpdk,
    devargs,
    device_settings,
    pmd_rxq_affinity,
    slot_octets,
)

DAEMON = "ovs-vswitchd-dpdk"


def scenario(name: str = "pvp", **changes: Any) -> Scenario:
    traffic = changes.pop("traffic", TrafficProfile())
    return Scenario(deployment=make_deployment(name), vswitch="dpdk", traffic=traffic, **changes)


def plan(
    node: int = 0,
    *,
    shared: bool = False,
    nodes: tuple[int, ...] = (0,),
    wire: str = "memif",
    **options: Any,
) -> Plan:
    return Plan(
        scenario=scenario(options=SwitchOptions(**options)),
        testbed=Testbed(),
        wire=wire,
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


def of_version(version: str) -> dict[str, str]:
    return {**VERSIONS, DAEMON: f"ovs-vswitchd (Open vSwitch) {version}\nDPDK"}


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
    assert parse_ovs_version(text) == version


@pytest.mark.parametrize("text", ["", "ovs-vswitchd: error while loading shared libraries", "3.1"])
def test_what_is_no_version_is_quoted(text: str) -> None:
    with pytest.raises(DutError, match="no version"):
        parse_ovs_version(text)


@pytest.mark.parametrize(("version", "runs"), [("2.16.7", 0), ("2.17.0", 1), ("4.0.0", 1)])
def test_versions_that_are_not_supported_are_told(version: str, runs: int) -> None:
    problem = OvsDpdk.missing(facts(versions=of_version(version)), scenario())
    assert (problem == "") == bool(runs)
    assert runs or "accepted: 2.17" in problem
    assert runs or "[programs] ovs_vswitchd" in problem


@pytest.mark.parametrize(
    ("version", "key"),
    [("2.17.0", None), ("3.0.1", None), ("3.1.0", "pmd-maxsleep"), ("3.2.0", "pmd-sleep-max")],
)
def test_an_idle_pmd_sleeps_on_shared_cores_by_the_versions_name(
    version: str, key: str | None
) -> None:
    machine = facts(versions=of_version(version))
    found = {k for k in OvsDpdk.other_config(plan(shared=True), machine) if "sleep" in k}
    assert found == ({key} if key else set())
    assert not {k for k in OvsDpdk.other_config(plan(), machine) if "sleep" in k}


@pytest.mark.parametrize(
    ("node", "nodes", "memory", "limit"),
    [
        (0, (0,), "256", "256"),
        (0, (0, 1), "256,0", "256,1"),
        (1, (0, 1), "0,256", "1,256"),
        (2, (0, 2, 4), "0,0,256,0,0", "1,1,256,1,1"),
    ],
)
def test_memory_is_taken_on_the_pollers_node_and_nowhere_else(
    node: int, nodes: tuple[int, ...], memory: str, limit: str
) -> None:
    config = OvsDpdk.other_config(plan(node, nodes=nodes, wire="veth"), None)
    assert config["dpdk-socket-mem"] == memory
    assert config["dpdk-socket-limit"] == limit  # a 0 would be no limit


@pytest.mark.parametrize(
    ("node", "nodes", "memory"),
    [(0, (0, 1), "256,0"), (1, (0, 1), "256,256"), (2, (0, 2, 4), "256,0,256,0,0")],
)
def test_memif_ports_have_their_buffers_on_node_0(
    node: int, nodes: tuple[int, ...], memory: str
) -> None:
    """Their driver names no node and OVS takes this one, as does the driver for its table."""
    config = OvsDpdk.other_config(plan(node, nodes=nodes), None)
    assert config["dpdk-socket-mem"] == memory
    assert config["dpdk-socket-limit"].startswith("256,")


def test_memory_is_taken_where_the_scenario_says() -> None:
    config = OvsDpdk.other_config(plan(1, nodes=(0, 1), memory_mib=(512, 1024)), None)
    assert config["dpdk-socket-mem"] == config["dpdk-socket-limit"] == "512,1024"
    config = OvsDpdk.other_config(plan(1, nodes=(0, 1), memory_mib=(512,)), None)
    assert config["dpdk-socket-mem"] == "512,0"
    assert config["dpdk-socket-limit"] == "512,1"


def test_the_main_thread_is_on_the_pollers_node() -> None:
    """Virtual devices have their memory there, wherever the system's processor is."""
    two_nodes = facts(8, nodes=2)
    assert {c.cpu for c in cpus(8, nodes=2) if c.node == 1} == {4, 5, 6, 7}
    there = plan(1, nodes=(0, 1)).placement.model_copy(update={"cores": {"pmd": (6, 7)}})
    assert main_lcore(there, there.cores["pmd"], two_nodes) == 6
    here = there.model_copy(update={"housekeeping": (0, 5)})
    assert main_lcore(here, here.cores["pmd"], two_nodes) == 5
    assert main_lcore(plan().placement, (2, 5), two_nodes) == 0


def test_the_plan_shows_the_configuration_of_the_version_installed() -> None:
    for version, key in (("3.1.0", "pmd-maxsleep"), ("3.3.0", "pmd-sleep-max")):
        machine = facts(versions=of_version(version))
        assert key in OvsDpdk.launch_lines(plan(shared=True), machine)["ovs-vswitchd"]
    lines = OvsDpdk.launch_lines(plan())
    assert "pmd" in lines["ovs-vswitchd"]
    assert "in_port=1,actions=output:11" in lines["ovs-ofctl"]


def test_a_million_rules_are_not_shown() -> None:
    traffic = TrafficProfile(flows=1_000_000, vary=("eth_src",))
    wanted = plan().model_copy(update={"scenario": scenario(rules="stream", traffic=traffic)})
    line = OvsDpdk.launch_lines(wanted)["ovs-ofctl"]
    assert line.endswith("; ...")
    assert len(line) < 5000


def test_masks_are_those_of_the_placement() -> None:
    config = OvsDpdk.other_config(plan(), None)
    assert config["pmd-cpu-mask"] == "0x24"
    assert config["dpdk-lcore-mask"] == "0x1"


def test_nics_of_others_are_left_alone() -> None:
    assert OvsDpdk.other_config(plan(), None)["dpdk-extra"] == "--no-pci"
    assert OvsDpdk.other_config(plan(wire="nic"), None)["dpdk-extra"] == "-a 0000:00:00.0"


def test_pinned_queues_leave_workers_free_for_the_others() -> None:
    pinned = plan(workers=2, rxq_affinity=(QueuePin(port="phy1", queue=0, worker=1),))
    config = OvsDpdk.other_config(pinned, None)
    assert config["pmd-rxq-isolate"] == "false"
    assert pmd_rxq_affinity(PhyPort(index=1), pinned) == ('other_config:pmd-rxq-affinity="0:5"',)
    assert pmd_rxq_affinity(PhyPort(index=0), pinned) == ()
    assert "pmd-rxq-assign" not in OvsDpdk.other_config(plan(), None)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_mask_has_the_bit_of_each_processor(processors: set[int]) -> None:
    mask = int(cpu_mask(tuple(processors)), 16)
    assert {bit for bit in range(201) if mask >> bit & 1} == processors


MEMIF = WireEnd(wire=1, kind="memif", side="dut", socket="/r/w.sock", role="server")
VETH = WireEnd(wire=0, kind="veth", side="dut", netdev="vpd0")


def test_devices_of_all_wires() -> None:
    assert devargs(MEMIF, plan()) == (
        "net_memif1,role=server,id=1,socket=/r/w.sock,socket-abstract=no,bsize=2048,rsize=11"
    )
    assert devargs(VETH, plan()).startswith(
        "net_af_packet0,iface=vpd0,framesz=2048,framecnt=2048,blocksz=4096,qpairs=1,"
    )
    nic = WireEnd(wire=0, kind="nic", side="dut", pci="0000:3b:00.0", driver="vfio-pci")
    assert devargs(nic, plan()) == "0000:3b:00.0"
    kernel = nic.model_copy(update={"driver": "ice", "netdev": "eth2"})
    assert devargs(kernel, plan()).startswith("net_af_packet0,iface=eth2,")
    with pytest.raises(DutError, match="memif, veth, nic"):
        devargs(WireEnd(wire=0, kind="nic", side="dut"), plan())


def test_queues_and_rings_are_those_asked_for() -> None:
    asked = plan(rx_queues=2, rx_descriptors=1024, tx_descriptors=1024)
    columns = device_settings(MEMIF, asked)
    assert {"options:n_rxq=2", "options:n_rxq_desc=1024", "options:n_txq_desc=1024"} <= {*columns}
    assert "rsize=10" in columns[1]
    assert "framecnt=1024" in devargs(VETH, asked)
    assert "qpairs=2" in devargs(VETH, asked)
    assert len(device_settings(MEMIF, plan())) == 2


def test_a_wire_that_is_copied_has_rings_of_one_size() -> None:
    assert "rsize=12" in devargs(MEMIF, plan(tx_descriptors=4096))
    two: dict[str, Any] = {"rx_descriptors": 512, "tx_descriptors": 1024}
    for wire in ("memif", "veth"):  # told by the plan, before anything is deployed
        with pytest.raises(CapabilityError, match="rings of one size"):
            OvsDpdk.launch_lines(plan(wire=wire, **two))
    assert OvsDpdk.launch_lines(with_nic(plan(wire="nic", **two)))
    with pytest.raises(CapabilityError, match="rings of one size"):
        OvsDpdk.launch_lines(with_nic(plan(wire="nic", **two), driver="ice", kernel=True))


def with_nic(of: Plan, **changes: Any) -> Plan:
    nic = NicUse(wire=0, side="dut", pci="0000:41:00.0", driver="vfio-pci", kernel=False, node=1)
    return of.model_copy(update={"nics": (nic.model_copy(update=changes),)})


def test_a_nic_of_another_node_has_buffers_there() -> None:
    config = OvsDpdk.other_config(with_nic(plan(0, nodes=(0, 1), wire="nic")), None)
    assert config["dpdk-socket-mem"] == config["dpdk-socket-limit"] == "256,256"
    kernel = with_nic(plan(0, nodes=(0, 1), wire="nic"), driver="ice", kernel=True)
    assert OvsDpdk.other_config(kernel, None)["dpdk-socket-mem"] == "256,0"


def test_jumbo_frames_through_a_kernel_driver_are_refused() -> None:
    kernel = with_nic(plan(wire="nic"), driver="ice", kernel=True, note="not vfio-pci: no IOMMU")
    large = scenario(max_frame_size=9018)
    said = OvsDpdk.nics_missing(kernel.nics, facts(), large)
    assert "0000:41:00.0" in said
    assert "no IOMMU" in said
    assert OvsDpdk.nics_missing(kernel.nics, facts(), scenario()) == ""
    assert OvsDpdk.nics_missing(with_nic(plan()).nics, facts(), large) == ""


@given(st.integers(68, 9198))
def test_a_slot_holds_the_frame_and_fills_pages(mtu: int) -> None:
    slot = slot_octets(mtu)
    assert slot >= mtu + 18 + 4
    assert slot & (slot - 1) == 0


@given(
    st.sampled_from(["phy2phy", "pvp", "pvvp"]),
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([512, 2048, 4096]),
    st.sampled_from([1500, 9000]),
)
def test_memory_holds_the_rings_of_all_ports(
    name: str, queues: int, workers: int, ring: int, mtu: int
) -> None:
    options = SwitchOptions(
        rx_queues=queues, workers=workers, rx_descriptors=ring, tx_descriptors=ring, mtu=mtu
    )
    wanted = scenario(name, options=options)
    mbufs = len(wanted.deployment.ports) * ring * (queues + workers + 1)
    assert OvsDpdk.hugepage_mib(wanted) >= mbufs * (mtu + 18 + 128 + 128) / (1 << 20)
    assert OvsDpdk.hugepage_mib(wanted) % 64 == 0


def test_jumbo_frames_take_more_memory() -> None:
    assert OvsDpdk.hugepage_mib(scenario()) == LEAST_MIB
    assert OvsDpdk.hugepage_mib(scenario(options=SwitchOptions(mtu=9000))) > LEAST_MIB


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rx_descriptors": 8192}, "at most 4096 descriptors; set rx_descriptors"),
        (
            {"rxq_affinity": (QueuePin(port="phy2", queue=0, worker=0),)},
            "name one of phy0, phy1, vnf0.0, vnf0.1",
        ),
    ],
)
def test_what_a_port_cannot_be_is_told_before(options: dict[str, Any], says: str) -> None:
    assert says in OvsDpdk.missing(facts(), scenario(options=SwitchOptions(**options)))


def test_workers_are_demanded() -> None:
    (demand,) = OvsDpdk.roles(scenario(options=SwitchOptions(workers=3)))
    assert (demand.role, demand.threads) == ("pmd", 3)
    assert OvsDpdk.tx_queues(plan().scenario, plan().placement) == 3


def test_many_flows_have_room_in_the_datapath() -> None:
    traffic = TrafficProfile(flows=100_000, vary=("eth_src",))
    wanted = plan().model_copy(update={"scenario": scenario(rules="stream", traffic=traffic)})
    assert int(OvsDpdk.other_config(wanted, None)["flow-limit"]) >= 2 * 100_000 * 4
    assert "flow-limit" not in OvsDpdk.other_config(plan(), None)


def test_ports_of_vnfs_can_be_pinned_too() -> None:
    pinned = plan(workers=2, rxq_affinity=(QueuePin(port="vnf0.1", queue=0, worker=0),))
    assert pmd_rxq_affinity(VnfPort(vnf=0, index=1), pinned) == (
        'other_config:pmd-rxq-affinity="0:2"',
    )
