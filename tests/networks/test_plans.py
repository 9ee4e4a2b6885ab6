"""Scenarios of pods: what is planned, addressed and refused, on no machine."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.analysis.environment import comparability
from vnetperf.deployment.endpoints import addresses_apart
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.host.probe import largest_packet, probe_frame, send_until_arrival
from vnetperf.model.deployment import (
    OF_NETWORKS,
    PhyPort,
    VnfPort,
    dut_mac,
    make_deployment,
    vnf_mac,
)
from vnetperf.model.errors import CapabilityError, FrameSizeError, NoResultError
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Plan, PodKind, Scenario, Variant
from vnetperf.model.testbed import KernelModule
from vnetperf.planning.capability_check import (
    check_variant_effect,
    require_frames,
    require_size,
)
from vnetperf.planning.planner import largest_frame, make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.backend import optional
from vnetperf.plugin.dut import load_dut
from vnetperf.plugin.network import Network, Pod
from vnetperf.runner.scenarios import make_scenario, scenario_ids
from vnetperf.runner.transfers import endpoint_scenario, workload_scenario
from vnetperf.virt.pod_host import FarHost, PodHost
from vnetperf.workloads.mpi import Mpi

FIRST, SECOND = VnfPort(vnf=0, index=0), VnfPort(vnf=1, index=0)
TUNNELLED = ("ethernet", "ipv4", "gre", "ethernet", "ipv4", "udp")


def configured(**wishes: Any) -> config.Configuration:
    return config.load({"preset": "smoke", **wishes}, environment={})


def scenario(network: str, **wishes: Any) -> Scenario:
    return make_scenario(f"bmp2bmp_{network}", configured(**wishes))


def planned(network: str, **wishes: Any) -> Plan:
    return make_plan(scenario(network, **wishes), configured(**wishes).testbed, facts())


def test_every_network_has_a_scenario_and_no_vswitch_has_pods() -> None:
    found = [one for one in scenario_ids() if one.startswith("bmp2bmp_")]
    assert found == [f"bmp2bmp_{name}" for name in registry.names("networks")]
    assert all(make_deployment(name).pods for name in OF_NETWORKS)
    assert not make_deployment("v2v").pods


def test_a_network_and_a_vswitch_may_have_one_name() -> None:
    network = load_dut(make_deployment("bmp2bmp"), "bridge")
    vswitch = load_dut(make_deployment("v2v"), "bridge")
    assert (network.name, vswitch.name) == ("bridge", "bridge")
    assert network is not vswitch
    assert network is load_dut(make_deployment("bmp2bmp"), "bridge")


@pytest.mark.parametrize(
    ("network", "place", "routed"),
    [
        ("bridge", "same", False),
        ("bridge", "other", True),
        ("ptp", "same", True),
        ("ptp", "other", True),
        ("macvlan", "same", False),
        ("macvlan", "other", False),
        ("vxlan", "other", False),
        ("vxlan_routed", "same", False),
        ("vxlan_routed", "other", True),
    ],
)
def test_frames_go_to_the_gateway_where_the_network_routes(
    network: str, place: str, routed: bool
) -> None:
    found = scenario(network, hosts=place)
    assert found.routed is routed
    forth, back = found.streams
    assert forth.eth_dst == (dut_mac(FIRST) if routed else vnf_mac(SECOND))
    assert back.eth_dst == (dut_mac(SECOND) if routed else vnf_mac(FIRST))
    assert (forth.eth_src, back.eth_src) == (vnf_mac(FIRST), vnf_mac(SECOND))


def test_the_plan_states_pods_hosts_and_path() -> None:
    commands = planned("vxlan").commands
    assert "on host0, address 198.18.0.1" in commands["pod0"]
    assert "on host1, address 198.19.0.1" in commands["pod1"]
    assert "MTU 1450" in commands["pod1"]
    for words in ("two hosts", "veth, bridge, VXLAN"):
        assert words in commands["network"]
    same = planned("vxlan", hosts="same")
    assert "on host0" in same.commands["pod1"]
    assert same.scenario.conditions[0] == "pods on one host"


def test_frames_longer_than_a_tunnel_carries_are_refused() -> None:
    found = scenario("vxlan")
    assert largest_frame(found) == 1468
    require_size(found, 1468, largest_frame(found))
    with pytest.raises(FrameSizeError, match="up to 1468"):
        require_size(found, 1518, largest_frame(found))
    assert largest_frame(scenario("macvlan")) >= 1518


@pytest.mark.parametrize(
    ("network", "largest"),
    [
        ("vxlan", 1568),
        ("vxlan_routed", 1568),
        ("ovs_gre", 1580),
        ("ovs_geneve", 1568),
        ("ptp", 1618),
    ],
)
def test_the_hosts_mtu_makes_room_for_longer_frames(network: str, largest: int) -> None:
    assert largest_frame(scenario(network, set=("mtu=1600",))) == largest


@pytest.mark.parametrize(
    ("network", "mtu"), [("ovs_flat", 1500), ("ovs_vlan", 1500), ("ovs_vxlan", 1450)]
)
def test_a_network_of_ovs_is_planned_on_the_daemon_s_own_datapath(network: str, mtu: int) -> None:
    for place in ("same", "other"):
        commands = planned(network, hosts=place).commands
        assert f"MTU {mtu}" in commands["pod1"]


@pytest.mark.parametrize(
    ("network", "module"),
    [("ovs_flat", "openvswitch"), ("ovs_geneve", "geneve"), ("ovs_gre", "ip_gre")],
)
def test_the_kernel_s_datapath_needs_its_modules(network: str, module: str) -> None:
    machine = facts().model_copy(update={"modules": {module: "not in this kernel"}})
    testbed = configured().testbed
    make_plan(scenario(network), testbed, machine)
    with pytest.raises(CapabilityError, match=f"no module {module}, .*vnetperf lab"):
        make_plan(scenario(network, set=("mode=kernel",)), testbed, machine)


def test_the_daemon_s_own_datapath_has_no_offloads() -> None:
    with pytest.raises(CapabilityError, match=r"offloads .*--set mode=kernel"):
        planned("ovs_vxlan", set=("offloads=true",))
    assert planned("ovs_vxlan", set=("mode=kernel", "offloads=true"))


def test_a_missing_ovs_is_one_message() -> None:
    machine = facts().model_copy(update={"programs": {}})
    with pytest.raises(CapabilityError, match="ovs-vswitchd is not installed"):
        make_plan(scenario("ovs_flat"), configured().testbed, machine)


@pytest.mark.parametrize(
    ("mode", "place", "says"),
    [
        ("l2", "same", "have one MAC address.*--hosts other"),
        ("l3", "same", "packet ring; choose --hosts other"),
        ("l3s", "same", "packet ring; choose --hosts other"),
        ("l3s", "other", "hands .* to a pod's sockets.*--set mode=l3"),
    ],
)
def test_where_ipvlan_passes_no_frames_it_has_sockets(mode: str, place: str, says: str) -> None:
    options = {"hosts": place, "set": (f"mode={mode}",)}
    with pytest.raises(CapabilityError, match=f"{says}, or testcases/test_endpoints.py"):
        planned("ipvlan", **options)
    wishes = configured(**options)
    sockets = endpoint_scenario(wishes, scenario("ipvlan", **options))
    assert make_plan(sockets, wishes.testbed, facts()).scenario.sockets


def test_pods_of_one_host_share_the_mac_address_of_ipvlan() -> None:
    one_host = scenario("ipvlan", hosts="same", set=("mode=l3",))
    assert {stream.eth_dst for stream in one_host.streams} == {vnf_mac(FIRST)}
    assert {s.eth_dst for s in scenario("ipvlan").streams} == {vnf_mac(FIRST), vnf_mac(SECOND)}


@pytest.mark.parametrize(
    ("mode", "place", "seen"),
    [("l3s", "other", False), ("l3s", "same", True), ("l3", "other", True)],
)
def test_packets_that_pass_no_interface_are_not_looked_for(
    mode: str, place: str, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"hosts": place, "set": (f"mode={mode}",)}
    wishes = configured(**options)
    sockets = endpoint_scenario(wishes, scenario("ipvlan", **options))
    plan = make_plan(sockets, wishes.testbed, facts())
    machine = MagicMock()
    machine.interface_name.side_effect = str
    made = load_dut(plan.scenario.deployment, "ipvlan")(machine, plan)
    assert isinstance(made, Network)
    for name in ("attach", "detach", "join"):
        monkeypatch.setattr(type(made), name, MagicMock())
    monkeypatch.setattr(type(made), "is_plugged", lambda *_: False)
    looked = MagicMock()
    monkeypatch.setattr(made, "require_packets_pass", looked)
    for port in (FIRST, SECOND):
        made.add_vnf_port(made.offer_vnf_port(port, "ipvlan"))
    assert [call.args[0] for call in looked.call_args_list] == ([SECOND] if seen else [])


@pytest.mark.parametrize(
    ("mode", "changes", "says"),
    [
        ("l2", {"flows": 9, "vary": ("ipv4_dst_net",)}, "varies no addresses"),
        ("l2", {"values": {"ipv4_dst": "198.18.9.9"}}, "sets and varies no addresses"),
        ("l2", {"headers": ("ethernet", "ipv6", "udp")}, "none in frames of ethernet, ipv6, udp"),
        ("l2", {"headers": ("ethernet", "mpls", "ipv4", "udp")}, "has IPv4 after Ethernet"),
        ("l2", {"headers": ("ethernet", "raw"), "raw": "00"}, "has IPv4 after Ethernet"),
        ("l2", {"headers": ("ethernet", "qinq", "vlan", "ipv4")}, "has IPv4 after Ethernet"),
        ("l2", {"headers": ("ethernet", "vlan", "ipv4", "udp")}, ""),
        (
            "l3",
            {"headers": ("ethernet", "vlan", "ipv4", "udp")},
            "mode l3 finds pods by",
        ),
        ("l2", {"headers": TUNNELLED, "flows": 9, "vary": ("outer_ipv4_dst",)}, "no addresses"),
        ("l2", {"headers": TUNNELLED, "flows": 9, "vary": ("ipv4_dst",)}, ""),
    ],
)
def test_ipvlan_carries_packets_of_pods_own_addresses_only(
    mode: str, changes: dict[str, Any], says: str
) -> None:
    wishes = configured(set=(f"mode={mode}",))
    plain = scenario("ipvlan", set=(f"mode={mode}",))
    asked = plain.model_copy(update={"traffic": TrafficProfile(**changes)})
    sockets = endpoint_scenario(wishes, asked)  # they have the pods' addresses in any case
    assert make_plan(sockets, wishes.testbed, facts()).scenario.sockets
    if not says:
        assert make_plan(asked, wishes.testbed, facts())
        return
    with pytest.raises(CapabilityError, match=says):
        make_plan(asked, wishes.testbed, facts())


@pytest.mark.parametrize("traffic", ["vlan", "qinq"])
def test_ports_in_a_vlan_take_no_frames_with_a_tag(traffic: str) -> None:
    with pytest.raises(CapabilityError, match=r"in VLAN 10, where OVS drops .* or network ovs_fl"):
        planned("ovs_vlan", traffic=traffic)
    assert planned("ovs_flat", traffic=traffic)
    wishes = configured(traffic=traffic)
    sockets = endpoint_scenario(wishes, scenario("ovs_vlan", traffic=traffic))
    assert make_plan(sockets, wishes.testbed, facts()).scenario.sockets


def test_a_probe_is_a_packet_that_a_router_takes() -> None:
    (forth, _) = scenario("ptp").streams
    for packet in (46, 1500):
        frame = probe_frame(forth, packet)
        header = frame[14:34]
        words = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
        assert (words & 0xFFFF) + (words >> 16) == 0xFFFF  # RFC 1071
        assert len(frame) == 14 + packet
        assert int.from_bytes(header[2:4], "big") == packet
        assert header[6] & 0x40, "it may be fragmented"


@pytest.mark.parametrize("largest", [46, 1400, 1450, 1499, 1500])
def test_the_largest_packet_is_found_by_halving(largest: int) -> None:
    seen: list[int] = []

    def passes(packet: int) -> bool:
        seen.append(packet)
        return packet <= largest

    assert largest_packet(passes, 1500) == largest
    assert len(seen) <= 12
    late = iter([False])
    assert largest_packet(lambda packet: next(late, True) and packet <= largest, 1500) == largest


def test_other_traffic_does_not_keep_the_look_for_a_packet_beyond_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, sent = [0.0], []

    def other_packet(size: int) -> tuple[bytes, tuple[str, int, int]]:
        now[0] += 1e-4
        assert now[0] < 10, "it looks on"
        return b"other".ljust(size), ("pod1", 3, 0)

    end = MagicMock()
    end.__enter__.return_value = end
    end.recvfrom = other_packet
    end.send = lambda frame: sent.append(now[0])
    monkeypatch.setattr("vnetperf.host.probe.socket.socket", lambda *kind: end)
    monkeypatch.setattr("vnetperf.host.probe.time.monotonic", lambda: now[0])
    assert not send_until_arrival(b"frame", "pod0", "pod1", 1.0)
    assert now[0] == pytest.approx(1, abs=0.01)
    assert len(sent) > 100  # the first may be sent before the way is there


def test_pods_of_one_host_on_its_own_network_have_sockets_and_no_frames() -> None:
    frames = planned("host", hosts="same")
    assert "no ports of their own" in frames.commands["frames"]
    with pytest.raises(NoResultError, match=r"no ports of their own.*--hosts other"):
        deploy_plan(frames, facts())
    wishes = configured(hosts="same")
    sockets = endpoint_scenario(wishes, scenario("host", hosts="same"))
    plan = make_plan(sockets, wishes.testbed, facts())
    assert plan.scenario.sockets
    assert not plan.sends_frames
    assert planned("host").sends_frames


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"forwarding": "l3"}, "cannot do forwarding = l3"),
        ({"rules": "learning"}, "cannot do rules = learning"),
        ({"set": ("mtu=1000",)}, "carries no frames of 1518"),
        ({"set": ("workers=2",)}, "has no option workers"),
    ],
)
def test_what_a_network_cannot_is_refused(wishes: dict[str, Any], says: str) -> None:
    with pytest.raises(CapabilityError, match=re.escape(says)):
        planned("macvlan", **wishes)


@pytest.mark.parametrize("mode", ["vepa", "private", "passthru"])
def test_modes_of_macvlan_that_part_pods_of_one_host_are_refused_there(mode: str) -> None:
    chosen = (f"mode={mode}",)
    conditions = planned("macvlan", set=chosen).scenario.conditions
    assert conditions[-1] == f"mode {mode}"
    with pytest.raises(CapabilityError, match=f"mode {mode} passes nothing"):
        planned("macvlan", hosts="same", set=chosen)


def test_a_vlan_has_one_pod_of_a_host() -> None:
    assert planned("vlan").scenario.pod_hosts == "other"
    with pytest.raises(CapabilityError, match=r"vlan .*; --hosts other"):
        planned("vlan", hosts="same")


@pytest.mark.parametrize(
    ("network", "module"),
    [
        ("macvlan", "macvlan"),
        ("ipvlan", "ipvlan"),
        ("vlan", "8021q"),
        ("vxlan", "vxlan"),
        ("bridge", "bridge"),
    ],
)
def test_a_missing_module_is_one_message(network: str, module: str) -> None:
    machine = facts().model_copy(update={"modules": {module: "not in this kernel"}})
    with pytest.raises(CapabilityError, match=module) as refusal:
        make_plan(scenario(network), configured().testbed, machine)
    assert "not in this kernel" in str(refusal.value)


def spread(network: str, *, sockets: bool = False, **wishes: Any) -> Plan:
    """A plan on the hosts of a testbed."""
    configuration = configured(testbed="two-hosts", **wishes)
    machine = facts().model_copy(update={"hosts": {"east": facts(), "west": facts()}})
    found = make_scenario(f"bmp2bmp_{network}", configuration)
    if sockets:
        found = endpoint_scenario(configuration, found)
    return make_plan(found, configuration.testbed, machine)


@pytest.mark.parametrize("sockets", [False, True])
def test_each_host_of_a_testbed_has_a_pod_and_its_part_of_the_network(sockets: bool) -> None:
    plan = spread("vxlan", sockets=sockets)
    east, west = plan.hosts
    assert [part.host for part in plan.hosts] == ["east", "west"]
    assert [part.ends for part in plan.hosts] == [(0,), (1,)]
    assert all(part.has_dut and part.has_tester is not sockets for part in plan.hosts)
    assert "on host0, address 198.18.0.1" in east.commands["pod0"]
    assert "on host1, address 198.19.0.1" in west.commands["pod1"]
    assert "pod1" not in east.commands
    assert [use.cable for part in plan.hosts for use in part.cables] == [0, 0]
    one = planned("vxlan")
    assert [(s.eth_dst, s.ipv4_src) for s in plan.scenario.streams] == [
        (s.eth_dst, s.ipv4_src) for s in one.scenario.streams
    ]


def test_a_host_of_a_testbed_knows_the_other_by_the_plan() -> None:
    for network, owner in (("vxlan", dut_mac(PhyPort(index=2))), ("ipvlan", vnf_mac(SECOND))):
        east, _ = spread(network).hosts
        made = load_dut(east.scenario.deployment, network)(MagicMock(), east)
        assert isinstance(made, Network)
        near, far = made.hosts
        assert type(near) is PodHost
        assert isinstance(far, FarHost)
        assert (far.number, far.address, far.uplink_mac) == (1, "192.0.2.2", owner)
        far.add_neighbour("u1", "192.0.2.1", "02:00:00:00:00:01")  # made there
        far.add_bridge("cni0", 1500, offloads=True)
        assert not far.has("cni0")


def test_endpoints_on_hosts_of_a_testbed_address_the_gateway_where_the_network_routes() -> None:
    for network, first in (("vxlan", vnf_mac(SECOND)), ("bridge", dut_mac(FIRST))):
        one, other = addresses_apart(spread(network, sockets=True).scenario)
        assert (one.mac, one.address, one.peer_mac) == (vnf_mac(FIRST), "198.18.0.1", first)
        assert (other.mac, other.peer) == (vnf_mac(SECOND), "198.18.0.1")


@pytest.mark.parametrize(
    ("network", "wishes", "says"),
    [
        ("vxlan", {"hosts": "same"}, "on the DUT's own host"),
        ("cni", {}, "made by one agent for both hosts of pods; choose a testbed of one host"),
        ("ovs_vxlan", {}, "made by one agent for both hosts of pods"),
        ("vhost_user", {}, "made by one agent for both hosts of pods"),
        ("kubernetes", {"sockets": True}, "are a cluster's; choose a testbed without hosts"),
    ],
)
def test_what_pods_on_hosts_of_a_testbed_cannot_is_one_message(
    network: str, wishes: dict[str, Any], says: str
) -> None:
    with pytest.raises(CapabilityError, match=says):
        spread(network, **wishes)


def test_routing_is_refused_where_the_network_switches() -> None:
    with pytest.raises(CapabilityError, match="does not route between pods"):
        planned("bridge", hosts="same", forwarding="l3")


def test_a_generator_without_interfaces_of_the_kernel_is_refused() -> None:
    with pytest.raises(CapabilityError, match="offers macvlan"):
        planned("macvlan", generator="trex")


def test_the_place_changes_nothing_without_pods() -> None:
    variant = Variant(id="hosts=same", settings=(("hosts", "same"),))
    plain = make_scenario("v2v_bridge", configured(hosts="same"))
    assert plain.pod_hosts == "same"
    assert plain == make_scenario("v2v_bridge", configured(hosts="other"))
    with pytest.raises(CapabilityError, match="v2v has no pods"):
        check_variant_effect(plain, variant, facts())


def test_numbers_of_one_host_and_of_two_are_not_compared(run_of: Any) -> None:
    one, two = (run_of(planned("macvlan", hosts=place)) for place in ("same", "other"))
    name = "bmp2bmp_macvlan"
    assert comparability(one, name)["hosts of pods"] == "same"
    assert comparability(two, name)["hosts of pods"] == "other"


def ranked(network: str, **wishes: Any) -> Plan:
    """A plan for ranks of MPI."""
    configuration = configured(**wishes)
    one = workload_scenario(Mpi(), make_scenario(f"bmp2bmp_{network}", configuration))
    return make_plan(one, configuration.testbed, facts())


def test_ranks_have_as_many_pods_as_they_need_and_frames_two() -> None:
    plan = ranked("bridge", pods=5, ranks=3)
    assert (plan.scenario.pods, plan.scenario.ranks) == (5, 3)
    assert plan.scenario.id == "bmp2bmp_bridge,mpi"
    assert not plan.sends_frames
    commands = plan.commands
    assert [name for name in commands if name.startswith("pod")] == [f"pod{n}" for n in range(5)]
    places = [commands[f"pod{n}"].partition(", MAC")[0] for n in range(5)]
    assert places == [
        "on host0, address 198.18.0.1",
        "on host1, address 198.19.0.1",
        "on host0, address 198.18.1.1",
        "on host1, address 198.19.1.1",
        "on host0, address 198.18.2.1",
    ]
    assert "pod2" not in planned("bridge", pods=5).commands
    wishes = configured(pods=5)
    assert endpoint_scenario(wishes, make_scenario("bmp2bmp_bridge", wishes)).pods == 2
    assert [n for n in ranked("bridge", pods=1).commands if n.startswith("pod")] == ["pod0", "pod1"]


def test_more_pods_have_networks_of_their_own_within_those_of_the_first_two() -> None:
    def network(number: int, address: str) -> str:
        port = VnfPort(vnf=number, index=0)
        pod = Pod(port=port, netdev="p", mac=vnf_mac(port), address=address, gateway_mac="")
        return pod.network

    assert network(0, "198.18.0.1") == "198.18.0.0/16"
    assert network(1, "198.19.0.1") == "198.19.0.0/16"
    assert network(3, "198.19.1.1") == "198.19.1.0/24"


def test_more_pods_than_a_host_can_have_are_refused() -> None:
    assert ranked("vlan", pods=2).scenario.pods == 2
    with pytest.raises(CapabilityError, match=r"vlan has 1 pod .*; choose --pods 2"):
        ranked("vlan", pods=3)
    with pytest.raises(CapabilityError, match="mode vepa passes nothing"):
        ranked("macvlan", pods=3, set=("mode=vepa",))
    assert ranked("macvlan", pods=2, set=("mode=vepa",)).scenario.pods == 2


@pytest.mark.parametrize("key", ["pods", "ranks"])
def test_pods_and_ranks_change_nothing_without_pods(key: str) -> None:
    variant = Variant(id=f"{key}=4", settings=((key, 4),))
    plain = make_scenario("v2v_bridge", configured(**{key: 4}))
    assert plain == make_scenario("v2v_bridge", configured())
    with pytest.raises(CapabilityError, match="v2v has no pods"):
        check_variant_effect(plain, variant, facts())


def test_numbers_of_other_pods_are_not_compared(run_of: Any) -> None:
    few, many = (run_of(ranked("macvlan", pods=pods)) for pods in (2, 8))
    name = "bmp2bmp_macvlan,mpi"
    assert comparability(few, name)["pods and ranks"] == "2 x 2"
    assert comparability(many, name)["pods and ranks"] == "8 x 2"


def test_pods_of_runc_have_programs_and_no_frames() -> None:
    machine = facts().model_copy(update={"programs": {**facts().programs, "runc": "/sbin/runc"}})
    wishes = configured(pod="runc")
    plain = make_scenario("bmp2bmp_bridge", wishes)
    frames = make_plan(plain, wishes.testbed, machine)
    assert "from no container" in frames.commands["frames"]
    with pytest.raises(NoResultError, match="from no container; leave --pod out"):
        deploy_plan(frames, machine)
    for one in (endpoint_scenario(wishes, plain), workload_scenario(Mpi(), plain)):
        plan = make_plan(one, wishes.testbed, machine)
        assert (plan.scenario.pod, plan.scenario.conditions[1]) == ("runc", "pods by runc")
    without = machine.model_copy(update={"programs": {"runc": ""}, "program_troubles": {}})
    with pytest.raises(CapabilityError, match="the package runc"):
        make_plan(workload_scenario(Mpi(), plain), wishes.testbed, without)


@pytest.mark.parametrize(
    ("pod", "lacks"),
    [("podman", "podman"), ("podman", "runc"), ("cri", "containerd"), ("cri", "ctr")],
)
def test_pods_of_engines_need_them_and_runc(pod: PodKind, lacks: str) -> None:
    wishes = configured(pod=pod)
    plain = make_scenario("bmp2bmp_bridge", wishes)
    there = dict.fromkeys(("runc", "podman", "containerd", "ctr"), "/bin/x") | {lacks: ""}
    machine = facts().model_copy(update={"programs": {**facts().programs, **there}})
    with pytest.raises(CapabilityError, match=f"{lacks} is not installed; install the package"):
        make_plan(endpoint_scenario(wishes, plain), wishes.testbed, machine)


def test_pods_by_cri_need_the_packages_of_an_extra() -> None:
    wishes = configured(pod="cri")
    plain = make_scenario("bmp2bmp_bridge", wishes)
    programs = facts().programs | dict.fromkeys(("runc", "containerd", "ctr"), "/bin/x")
    machine = facts().model_copy(update={"programs": programs})
    told = r"Python package grpcio is not installed; run `pip install 'vnetperf\[cri\]'`"
    with pytest.raises(CapabilityError, match=told):
        make_plan(endpoint_scenario(wishes, plain), wishes.testbed, machine)
    whole = machine.model_copy(update={"versions": {"grpcio": "1.60", "protobuf": "4.25"}})
    plan = make_plan(endpoint_scenario(wishes, plain), wishes.testbed, whole)
    assert (plan.scenario.pod, plan.scenario.conditions[1]) == ("cri", "pods by cri")


def test_pods_of_other_kinds_are_not_compared(run_of: Any) -> None:
    name = "bmp2bmp_macvlan,mpi"
    assert comparability(run_of(ranked("macvlan")), name)["pods by"] == "netns"


@pytest.mark.usefixtures("guests")
@pytest.mark.parametrize(
    ("name", "inside", "mtu"),
    [("bmp2vmp_macvlan", {1}, 1500), ("bmp2vmp_vlan", {1}, 1500), ("vmp2vmp_vxlan", {0, 1}, 1450)],
)
def test_pods_in_vms_have_a_guest_each(name: str, inside: set[int], mtu: int) -> None:
    wishes = configured(hosts="other")
    plain = make_scenario(name, wishes)
    assert plain.vnf == "vloop:vm"
    asked = endpoint_scenario(wishes, plain)
    assert (asked.guest.image, asked.vnf_mode) == ("endpoint", "route")
    plan = make_plan(asked, wishes.testbed, facts())
    assert {n: str(port) for n, port in plan.guest_ends.items()} == {n: f"vnf{n}.0" for n in inside}
    assert {*plan.placement.unpinned} == {f"vnf{n}" for n in inside}
    assert {user for memory in plan.memory for user in memory.users} >= {f"vnf{n}" for n in inside}
    assert f"MTU {mtu}" in plan.commands["pod1"]
    assert f"guest vnf{max(inside)}" in plan.commands
    assert "pod 1 in a VM" in asked.conditions


@pytest.mark.usefixtures("guests")
def test_a_pod_in_a_vm_on_a_host_of_its_own_boots_there_alone() -> None:
    wishes = configured(hosts="other", testbed="two-hosts")
    asked = endpoint_scenario(wishes, make_scenario("bmp2vmp_vxlan", wishes))
    machine = facts().model_copy(update={"hosts": {"east": facts(), "west": facts()}})
    east, west = make_plan(asked, wishes.testbed, machine).hosts
    assert (east.guest_ends, east.placement.unpinned) == ({}, {})
    assert [*west.guest_ends] == [1]
    assert [*west.placement.unpinned] == ["vnf1"]


@pytest.mark.usefixtures("guests")
def test_pods_that_cannot_be_in_vms_are_refused() -> None:
    wishes = configured()
    lacking = {"sch_ingress": "not built"}
    for name, machine, why in (
        ("bmp2vmp_host", facts(), "a pod in a VM has a port of its own, and network host"),
        ("bmp2vmp_ipvlan", facts(), "which a guest's NIC cannot have as well; choose macvlan"),
        ("bmp2vmp_bridge", facts(modules=lacking), "sch_ingress"),
    ):
        asked = endpoint_scenario(wishes, make_scenario(name, wishes))
        with pytest.raises(CapabilityError, match=why):
            make_plan(asked, wishes.testbed, machine)


@pytest.mark.usefixtures("guests")
def test_frames_to_a_pod_in_a_vm_pass_a_guest_that_forwards_them() -> None:
    wishes = configured(hosts="other")
    asked = make_scenario("bmp2vmp_bridge", wishes)
    assert {"pod 1 in a VM", "guests forward by io"} <= {*asked.conditions}
    plan = make_plan(asked, wishes.testbed, facts())
    assert {n: str(port) for n, port in plan.guest_ends.items()} == {1: "vnf1.0"}
    assert "vnf1" in plan.placement.cores  # as of any guest that polls
    assert plan.placement.unpinned == {}
    assert "guest vnf1" in plan.commands
    assert "frames" not in plan.commands


@pytest.mark.usefixtures("guests")
@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        (configured(vnf_mode="mac"), "mode mac changes their addresses; choose --vnf-mode io or"),
        (configured(hosts="other", testbed="two-hosts"), "on a testbed of one host only"),
    ],
)
def test_guests_that_cannot_pass_frames_on_are_refused(wishes: Any, why: str) -> None:
    asked = make_scenario("bmp2vmp_vxlan", wishes)
    with pytest.raises(NoResultError, match=why):
        require_frames(asked)


@pytest.mark.parametrize(
    ("network", "mtu", "offloads"), [("vxlan", 1450, True), ("ovs_gre", 1462, False)]
)
def test_a_pod_in_a_vm_is_offered_a_tap_of_its_network(
    network: str, mtu: int, *, offloads: bool
) -> None:
    machine = MagicMock()
    machine.interface_name.side_effect = lambda name: f"run-{name}"
    wishes = configured(hosts="other")
    asked = endpoint_scenario(wishes, make_scenario(f"bmp2vmp_{network}", wishes))
    found = load_dut(asked.deployment, network)
    switch = found(machine, Plan.model_construct(scenario=asked, host="", hosts=()))
    offer = switch.offer_vnf_port(SECOND, "tap")
    assert (offer.netdev, offer.mtu, offer.offloads) == ("run-t1", mtu, offloads)
    assert switch.offer_vnf_port(FIRST, "veth").netdev == "run-p0"
    without_vm = make_scenario(f"bmp2bmp_{network}", wishes)
    assert "tap" not in found.list_attachments(without_vm)


@pytest.mark.parametrize(
    ("place", "pmds", "mib", "masks"),
    [("same", 1, 256, ["0x4"]), ("other", 2, 512, ["0x4", "0x8"])],
)
def test_a_daemon_with_dpdk_on_each_host_has_a_thread_and_memory(
    place: str, pmds: int, mib: int, masks: list[str]
) -> None:
    plan = planned("vhost_user", hosts=place)
    assert len(plan.placement.cores["pmd"]) == pmds
    users = {user: mib for memory in plan.memory for user, mib in memory.users.items()}
    assert users["vhost_user"] == mib
    assert users["loadgen"] > 0  # the tester shares its memory with the daemons
    for number, mask in enumerate(masks):
        line = plan.commands[f"ovs-vswitchd of host{number}"]
        options = {f"pmd-cpu-mask={mask}", "dpdk-socket-mem=256", "dpdk-socket-limit=256"}
        assert options <= {*line.split()}
    assert f"ovs-vswitchd of host{pmds}" not in plan.commands


def test_two_daemons_share_a_processor_where_there_is_but_one() -> None:
    wishes = configured(hosts="other")
    plan = make_plan(make_scenario("bmp2bmp_vhost_user", wishes), wishes.testbed, facts(1))
    assert plan.placement.cores["pmd"] == plan.placement.cores["tester"] == (0,)
    for number in (0, 1):
        line = plan.commands[f"ovs-vswitchd of host{number}"]
        assert "pmd-cpu-mask=0x1 " in line
        assert line.endswith("=50")  # a thread that never sleeps would keep the processor


def test_the_tester_is_calibrated_over_memory_where_pods_have_sockets() -> None:
    can = load_dut(make_deployment("bmp2bmp"), "vhost_user").capabilities
    assert (can.attachments, can.wires[0]) == (("vhost-user",), "memif")
    assert load_dut(make_deployment("bmp2bmp"), "ovs_flat").capabilities.wires == ("veth",)


@pytest.mark.parametrize(
    ("network", "place", "largest"),
    [
        ("vhost_user", "other", 1518),
        ("vhost_user", "same", 9018),
        ("vhost_user_vxlan", "other", 1468),
    ],
)
def test_the_hosts_link_has_the_mtu_of_af_packet(network: str, place: str, largest: int) -> None:
    assert largest_frame(scenario(network, hosts=place)) == largest


@pytest.mark.parametrize(
    ("network", "wishes", "says"),
    [
        ("vhost_user", {"set": ("mtu=9000",)}, "whose MTU is 1500, not 9000; leave mtu out"),
        ("vhost_user_vxlan", {"set": ("mtu=1550",)}, "whose MTU is 1500, not 1550"),
        ("vhost_user", {"set": ("offloads=true",)}, "has no option offloads"),
        ("vhost_user", {"generator": "pktgen"}, "offers vhost-user; pktgen accepts"),
    ],
)
def test_what_a_network_of_sockets_cannot_is_refused(
    network: str, wishes: dict[str, Any], says: str
) -> None:
    with pytest.raises(CapabilityError, match=re.escape(says)):
        planned(network, **wishes)


def test_pods_with_sockets_for_dpdk_have_no_programs() -> None:
    wishes = configured()
    plain = make_scenario("bmp2bmp_vhost_user", wishes)
    for one in (endpoint_scenario(wishes, plain), workload_scenario(Mpi(), plain)):
        with pytest.raises(CapabilityError, match="for DPDK applications"):
            make_plan(one, wishes.testbed, facts())


@pytest.mark.usefixtures("guests")
def test_a_pod_in_a_vm_has_no_socket() -> None:
    wishes = configured()
    asked = make_scenario("bmp2vmp_memif", wishes)
    with pytest.raises(CapabilityError, match="memif sockets; -k pvp has guests at vhost-user"):
        make_plan(asked, wishes.testbed, facts())


def test_a_network_of_sockets_needs_a_daemon_with_dpdk() -> None:
    there = {name: path for name, path in facts().programs.items() if "dpdk" not in name}
    machine = facts().model_copy(update={"programs": there})
    assert make_plan(scenario("ovs_flat"), configured().testbed, machine)
    with pytest.raises(CapabilityError, match="ovs-vswitchd-dpdk is not installed"):
        make_plan(scenario("vhost_user"), configured().testbed, machine)


@pytest.mark.parametrize(
    ("network", "kind", "role"),
    [("vhost_user", "vhost-user", "server"), ("memif", "memif", "client")],
)
def test_a_pod_with_a_socket_is_offered_it(network: str, kind: str, role: str) -> None:
    machine = MagicMock()
    machine.vnf_socket.side_effect = lambda name: f"/run/{name}.sock"
    plan = planned(network)
    switch = load_dut(plan.scenario.deployment, network)(machine, plan)
    offer = switch.offer_vnf_port(SECOND, kind)
    assert (offer.socket, offer.netdev) == ("/run/vnf1.0.sock", None)
    assert offer.as_tester_end(1).role == role


def test_a_tester_at_memif_sockets_has_ordinary_memory_and_polls_all_queues() -> None:
    plan = planned("memif")
    users = {user: mib for memory in plan.memory for user, mib in memory.users.items()}
    assert users == {"memif": 512}
    assert plan.tester_rx_queues == 2  # OVS drops what it sends on queues that nobody polls
    assert planned("vhost_user").tester_rx_queues == 1


def test_a_network_loads_what_it_needs_in_every_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, machine = planned("macvlan"), MagicMock()
    network = registry.load("networks", "macvlan")
    needed, seldom = (KernelModule(name=name) for name in ("needed", "seldom"))
    monkeypatch.setattr(network, "kernel_modules", (needed, *optional(seldom)))
    network(machine, plan).prepare(MagicMock())
    machine.load_module.assert_called_once_with(needed)
