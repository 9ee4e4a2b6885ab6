"""The picture of a deployment: every part, port and cable of the plan is in it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.planning.test_hosts import in_a_row, of_three, plan_of
from tests.texts import Texts
from vnetperf.model.deployment import make_deployment
from vnetperf.model.result import ScenarioFacts
from vnetperf.model.testbed import Testbed
from vnetperf.plugin import registry
from vnetperf.report.picture import MOST, WIDTH, Picture, picture


def drawn(name: str, vnfs: int | None = None, **changes: Any) -> Picture:
    graph = make_deployment(name, vnfs)
    cores = {"tester": [1], "pmd": [2, 3]} | {f"vnf{n}": [4 + n] for n in range(graph.vnf_count)}
    plan = {
        "scenario": {
            "deployment": graph.model_dump(mode="json"),
            **{"vswitch": "dpdk", "vnf": "vloop", "generator": "loadgen"},
        },
        "testbed": {"name": "lab1"},
        "wire": "memif",
        "placement": {"cores": cores},
        **changes,
    }
    found = picture(ScenarioFacts(scenario=f"{name}_dpdk", plan=plan), "host-7")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "vnfs"),
    [("phy2phy", 0), ("pvp", 1), ("pvvp", 3), ("pvpv", 2), ("pvvp", 64), ("p2v", 0), ("v2v", 0)],
)
def test_parts_are_in_their_host_and_ports_in_the_picture(name: str, vnfs: int) -> None:
    found = drawn(name, vnfs or None)
    (host,) = found.hosts
    assert host.name == "lab1 on host-7"
    for box in found.parts:
        assert host.x < box.x
        assert box.x + box.width < host.x + host.width
        assert host.y < box.y
        assert box.y + box.height < host.y + host.height < found.height
    assert len(found.parts) == 2 + min(vnfs, MOST)
    for pin in found.pins:
        assert 0 < pin.x < WIDTH
        assert 0 < pin.y < found.height


def test_cores_wires_and_names_are_told() -> None:
    found = drawn("pvp")
    assert {box.name: box.lines for box in found.parts} == {
        "tester: loadgen": ("core 1",),
        "vSwitch: dpdk": ("cores 2, 3",),
        "vnf0": ("vloop", "core 4"),
    }
    assert {pin.name for pin in found.pins} >= {"port 0", "port 1", "phy0", "phy1", "vnf0.0"}
    assert [join.label for join in found.joins if join.css == "cable"] == ["memif", "memif"]
    assert sum(join.css == "forwards" for join in found.joins) == 3  # two hops, and the VNF


@pytest.mark.parametrize(
    ("changes", "tester"),
    [
        ({}, ("tester: loadgen", ("core 1",))),
        (
            {"variant": "hosts=same,endpoints"},
            ("programs in two pods", ("network namespaces, core 1",)),
        ),
        (
            {"variant": "mpi", "pods": 4, "ranks": 2, "pod": "runc"},
            ("ranks of MPI in pods: 4 x 2", ("containers of runc, core 1",)),
        ),
    ],
)
def test_programs_in_pods_are_no_tester(changes: dict[str, Any], tester: object) -> None:
    graph = make_deployment("bmp2bmp").model_dump(mode="json")
    scenario = {"deployment": graph, "vswitch": "vxlan", "generator": "loadgen", **changes}
    found = drawn("bmp2bmp", scenario=scenario)
    assert (found.parts[0].name, found.parts[0].lines) == tester
    assert found.parts[1].name == "network: vxlan"
    assert {"pod0", "pod1"} <= {pin.name for pin in found.pins}
    assert [join.label for join in found.joins if join.css == "cable"] == ["", ""]
    assert not {pin.name for pin in found.pins} & {"port 0", "port 1"}  # no room beside the name


def test_pods_in_vms_are_drawn_as_such() -> None:
    for name, kind in (("bmp2vmp", "namespace and VM"), ("vmp2vmp", "VMs")):
        graph = make_deployment(name).model_dump(mode="json")
        found = drawn(
            name, scenario={"deployment": graph, "vswitch": "vxlan", "variant": "endpoints"}
        )
        assert found.parts[0].lines == (kind,)  # the tester's cores are not the guests'
        of_ports = [join.label for join in found.joins if join.css == "cable"]
        in_vm = ["in a VM" in label for label in of_ports]
        assert in_vm == [name == "vmp2vmp", True]


def test_programs_at_wires_are_no_tester(texts: Texts) -> None:
    graph = make_deployment("phy2phy").model_dump(mode="json")
    scenario = {"deployment": graph, "vswitch": "dpdk", "variant": "endpoints"}
    found = drawn("phy2phy", scenario=scenario)
    assert found.parts[0].name == "endpoints"
    texts.check(found.parts[0].lines)


def test_the_version_of_a_vswitch_has_room() -> None:
    graph = make_deployment("pvp").model_dump(mode="json")
    plan = {"scenario": {"deployment": graph, "vswitch": "dpdk"}, "testbed": {"name": "lab1"}}
    told = {"vswitch": {"version": "ovs-vswitchd-dpdk (Open vSwitch) 3.1.0\nDPDK 22.11.10"}}
    found = picture(ScenarioFacts(scenario="pvp_dpdk", plan=plan, facts=told), "host-7")
    assert found is not None
    assert ("Open vSwitch 3.1.0", "in the kernel") in [box.lines for box in found.parts]


def test_an_external_dut_has_a_box_of_its_own(texts: Texts) -> None:
    ports = [{"tester": "eth2", "dut": "port 7"}, {"tester": "eth3", "dut": ""}]
    testbed = {"name": "lab1", "external": {"name": "rack switch", "ports": ports}}
    found = drawn("phy2phy", testbed=testbed, wire="external")
    texts.check(box.name for box in found.hosts)
    assert [join.label for join in found.joins if join.css == "cable"] == ["eth2 - port 7", "eth3"]


def test_what_the_log_does_not_have_is_not_drawn() -> None:
    assert picture(ScenarioFacts(scenario="pvp_dpdk")) is None
    assert picture(ScenarioFacts(scenario="pvp_dpdk", plan={"scenario": {"vswitch": "x"}})) is None


def over_hosts(
    name: str, testbed: Testbed | None = None, *, sockets: bool = False, **settings: str
) -> Picture:
    plan = plan_of(name, testbed=testbed, sockets=sockets, **settings)
    told = {host: {"vswitch": {"version": f"{host} 1.0"}} for host in ("east", "west")}
    facts = ScenarioFacts(
        scenario=name,
        plan=plan.model_dump(mode="json"),
        facts={"hosts": told, "vswitch": told["east"]["vswitch"]},
    )
    found = picture(facts, "host-7")
    assert found is not None
    return found


def in_host(found: Picture, name: str) -> list[tuple[str, tuple[str, ...]]]:
    (host,) = (box for box in found.hosts if box.name == f"{name} on host-7")
    ends = host.y, host.y + host.height
    return [(b.name, b.lines) for b in found.parts if ends[0] < b.y and b.y + b.height < ends[1]]


def test_of_pods_on_two_hosts_the_one_in_a_vm_is_drawn_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.load_vnf("vloop:vm"), "missing", lambda *_: "")
    found = over_hosts("bmp2vmp_vxlan", sockets=True, hosts="other", vnf_mode="route")
    ends = {part.name: part.lines for part in found.parts if part.name.startswith("endpoint")}
    assert ends == {"endpoint 0": (), "endpoint 1": ("in a VM",)}


def test_parts_of_a_spanning_deployment_are_in_their_hosts() -> None:
    found = over_hosts("v2p2v_dpdk")
    assert in_host(found, "east") == [
        ("tester: loadgen", ("core 1",)),
        ("vSwitch: dpdk", ("east 1.0", "core 2")),
    ]
    assert in_host(found, "west") == [
        ("vSwitch: dpdk", ("west 1.0", "core 3")),
        ("vnf0", ("vloop", "core 4")),
    ]
    own = "in a VNF's place"
    assert [join.label for join in found.joins if join.css == "cable"] == [
        *(own, own),
        *("veth c0 - c0", "veth c1 - c1"),
    ]
    pins = {pin.name: pin for pin in found.pins}
    east, west = sorted(found.hosts, key=lambda box: -box.y)
    assert all(pins[port].y > east.y for port in ("vnf1.0", "vnf1.1", "phy0", "phy1"))
    assert all(pins[port].y < west.y + west.height for port in ("phy2", "phy3", "vnf0.0"))
    assert sum(join.css == "forwards" for join in found.joins) == 5  # two at each, and the VNF


def test_a_tester_apart_is_in_its_own_host() -> None:
    found = over_hosts("phy2phy_bridge")
    assert in_host(found, "east") == [("tester: loadgen", ("core 1",))]
    assert in_host(found, "west") == [("vSwitch: bridge", ("west 1.0", "in the kernel"))]
    assert [join.label for join in found.joins if join.css == "cable"] == [
        *("veth c0 - c0", "veth c1 - c1"),
    ]


@pytest.mark.parametrize(("name", "own"), [("p2c2p_dpdk", "veth"), ("v2c2v_bridge", "in a VNF's")])
@pytest.mark.parametrize("sockets", [True, False])
def test_ends_on_two_hosts_are_above_each_other(name: str, own: str, sockets: bool) -> None:
    found = over_hosts(name, sockets=sockets)
    east, west = (in_host(found, host) for host in ("east", "west"))
    ends = ["endpoint 0", "endpoint 1"]
    if not sockets:
        ends = ["tester: loadgen, port 0", "tester: loadgen, port 1"]
    assert ends[0] in [part for part, _ in east]
    assert ends[1] in [part for part, _ in west]
    assert len(east) == len(west) == 2
    cables = [join.label for join in found.joins if join.css == "cable"]
    assert cables[2] == "veth c0 - c0"
    assert all(label.startswith(own) for label in cables[:2])
    assert sum(join.css == "forwards" for join in found.joins) == 2
    parts = sorted(found.parts, key=lambda box: -box.y)
    assert [box.name for box in parts][::3] == ends


@pytest.mark.parametrize("name", ["phy2phy_bridge", "pvp_dpdk"])
def test_a_tester_on_both_sides_of_the_dut_has_a_host_for_each_port(name: str) -> None:
    roles = in_a_row(east="tester", north="tester")
    found = over_hosts(name, roles)
    assert [part for part, _ in in_host(found, "east")] == ["tester: loadgen, port 0"]
    assert [part for part, _ in in_host(found, "north")] == ["tester: loadgen, port 1"]
    cables = [join for join in found.joins if join.css == "cable"]
    assert [join.label for join in cables] == ["veth a - a", "veth b - b"]
    assert not [part for join in cables for part in crossed(found, join.path)]


def crossed(found: Picture, path: str) -> list[str]:
    """Parts that a line of a picture, made of M, L, H and V, passes through."""
    x = y = 0.0
    parts = []
    for step in re.findall(r"[MLHV][-\d. ]+", path):
        numbers = [float(number) for number in step[1:].split()]
        to = {"H": (numbers[0], y), "V": (x, numbers[0])}.get(step[0]) or (numbers[0], numbers[1])
        if step[0] != "M":
            parts += [
                box.name
                for box in found.parts
                if min(x, to[0]) < box.x + box.width - 1
                and max(x, to[0]) > box.x + 1
                and min(y, to[1]) < box.y + box.height - 1
                and max(y, to[1]) > box.y + 1
            ]
        x, y = to
    return parts


@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("name", ["pvp2pvp_dpdk", "v2p2v_dpdk"])
def test_cables_pass_by_the_parts_between_their_ends(name: str, three: bool) -> None:
    ring = of_three(
        ("east:c1", "west:c1"),
        ("west:c2", "north:c2"),
        ("east:c3", "north:c3"),
        ("east:c4", "west:c4"),
    )
    found = over_hosts(name, ring if three else None)
    cables = [join for join in found.joins if join.css == "cable"]
    assert len(cables) == (3 if name.startswith("pvp") else 4)
    assert all(join.label for join in cables)
    for join in cables:
        assert crossed(found, join.path) == []
    places = [(join.x, join.y) for join in cables]
    assert len({*places}) == len(places)
    if name.startswith("pvp"):
        ends = ("veth c1 - c1", "veth c3 - c3", "veth c2 - c2")
        wanted = {join.label for join in cables} - {"veth"}
        assert wanted == ({*ends} if three else {"veth c0 - c0", "veth c1 - c1"})
    assert {"vnf0", "tester: loadgen"} <= {box.name for box in found.parts}


def test_a_tunnel_stands_beside_its_cable() -> None:
    found = over_hosts("v2p2v_bridge", tunnel="vxlan")
    labels = [join.label for join in found.joins if join.label.startswith("veth")]
    assert labels == ["veth c0 - c0, vxlan", "veth c1 - c1, vxlan"]
