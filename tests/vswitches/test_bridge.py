"""The parts of the Linux bridge backend that need no kernel."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.machine import facts
from vnetperf.model.deployment import (
    DEPLOYMENTS,
    Deployment,
    PhyPort,
    Port,
    VnfPort,
    make_deployment,
)
from vnetperf.model.frames import TUNNELS, TunnelKind, overhead
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import NicUse, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.backend import TUNNEL_MODULES
from vnetperf.vswitches import bridge
from vnetperf.vswitches.bridge import LinuxBridge
from vnetperf.vswitches.kernelports import tunnel_link
from vnetperf.vswitches.ovs import OvsKernel

PLAIN = sorted(set(DEPLOYMENTS) - {"encap", "decap", "op2p"})


def scenario(deployment: str, vnfs: int | None = None, **changes: Any) -> Scenario:
    traffic = changes.pop("traffic", TrafficProfile())
    graph = make_deployment(deployment, vnfs)
    return Scenario(deployment=graph, vswitch="bridge", traffic=traffic, **changes)


GRAPHS = [
    *(make_deployment(name) for name in PLAIN),
    *(make_deployment(name, vnfs) for name in ("pvvp", "pvpv") for vnfs in (1, 3, 4)),
]
every_deployment = pytest.mark.parametrize(
    "deployment", GRAPHS, ids=lambda g: f"{g.name}-{g.vnf_count}"
)


@every_deployment
def test_two_ports_that_learn_nothing_forward_everything(deployment: Deployment) -> None:
    for segment in deployment.segments():
        if len(segment) == 2:
            for port in segment:
                how = bridge.port_settings(deployment, port, learns=False)
                assert (how.learning, how.flood) == (False, True)


@every_deployment
def test_nothing_is_flooded_round_a_loop(deployment: Deployment) -> None:
    # Bridges are joined by VNFs. Take away the ports that flood nothing: what is left of the
    # joints must have no loop.
    joints = [
        tuple(
            next(n for n, s in enumerate(deployment.segments()) if VnfPort(vnf=v, index=i) in s)
            for i in (0, 1)
        )
        for v in range(deployment.vnf_count)
        if any(
            bridge.port_settings(deployment, VnfPort(vnf=v, index=i), learns=False).flood
            for i in (0, 1)
        )
    ]
    assert len(set(joints)) == len(joints)


@pytest.mark.parametrize("mode", ["io", "mac"])
@every_deployment
def test_frames_find_their_way_by_static_entries_where_ports_are_many(
    deployment: Deployment, mode: str
) -> None:
    by_port = "port" if mode == "mac" else "far"
    asked = Scenario(
        deployment=deployment,
        vswitch="bridge",
        traffic=TrafficProfile(),
        vnf_mode=mode,
        addressing=by_port,
    )
    entries = bridge.fdb_entries(asked)
    table = {(_segment(deployment, e.port), e.mac): e.port for e in entries}
    assert len(table) == len(entries)  # no address leads to two ports of one bridge
    for stream in asked.streams:
        at, mac = deployment.ends[stream.direction], stream.eth_dst
        path = [at]
        while True:
            segment = _segment(deployment, at)
            ports = deployment.segments()[segment]
            to = table.get((segment, mac)) or next(p for p in ports if p != at)
            path.append(to)
            if to in deployment.ends:
                break
            assert isinstance(to, VnfPort)
            at = VnfPort(vnf=to.vnf, index=1 - to.index)
            path.append(at)
            mac = asked.peer_mac(at) if mode == "mac" else mac
        assert tuple(path) == deployment.path(path[0], stream.chain)


def _segment(deployment: Deployment, port: Port) -> int:
    return next(n for n, segment in enumerate(deployment.segments()) if port in segment)


def test_a_bridge_that_learns_has_no_static_entries() -> None:
    asked = scenario("pvpv", rules="learning", vnf_mode="mac", addressing="port")
    assert bridge.fdb_entries(asked) == ()
    how = bridge.port_settings(asked.deployment, VnfPort(vnf=0, index=0), learns=True)
    assert how == bridge.PortSettings(learning=True, flood=True)


def test_two_ports_need_no_entries() -> None:
    for name in ("phy2phy", "pvp", "pvvp", "p2v", "v2p", "v2v"):
        asked = scenario(name)
        assert bridge.fdb_entries(asked) == ()


LEARNED: dict[str, Any] = {"rules": "learning", "vnf_mode": "mac", "addressing": "port"}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"vnf_mode": "macswap"}, "choose --vnf-mode io or mac"),
        (
            LEARNED | {"traffic": TrafficProfile(bidirectional=False)},
            "send both ways, or choose --rules port",
        ),
        ({"traffic": TrafficProfile(flows=4, vary=("eth_dst",))}, "another field than eth_dst"),
        ({"rules": "learning"}, "leave --vnf-mode out, or choose --rules port"),
        ({"rules": "learning", "vnf_mode": "bridge"}, "a loop to a bridge that learns"),
        (LEARNED, ""),
        ({"traffic": TrafficProfile(flows=4, vary=("eth_src",))}, ""),
    ],
)
def test_what_chains_cannot_be_told_apart_by_is_refused(asked: dict[str, Any], says: str) -> None:
    problem = LinuxBridge.missing(facts(), scenario("pvpv", **asked))
    assert (says in problem) if says else not problem
    assert LinuxBridge.missing(facts(), scenario("pvp", **asked)) == ""


def test_a_kernel_without_bridges_is_told() -> None:
    problem = LinuxBridge.missing(facts(modules={"bridge": "it is not loaded"}), scenario("pvp"))
    assert "the kernel has no module bridge" in problem


def test_the_plan_shows_bridges_ports_and_entries() -> None:
    asked = scenario("pvpv", options=SwitchOptions(mtu=9000), wire="veth")
    made = make_plan(asked, Testbed(), facts())
    assert (made.wire, "pmd" in made.placement.cores) == ("veth", False)
    assert set(made.commands) == {"bridge 0", "bridge 1", "static entries", "vnf0", "vnf1"}
    for words in ("vnf0.0 (", "learning off", "flooding off", "MTU 9000"):
        assert words in made.commands["bridge 0"]
    assert "-> vnf1.0" in made.commands["static entries"]
    assert str(PhyPort(index=1)) in made.commands["bridge 1"]


@pytest.mark.parametrize("kind", TUNNELS)
def test_a_tunnel_needs_its_module_and_only_then(kind: TunnelKind) -> None:
    module = TUNNEL_MODULES[kind].name
    machine = facts(modules={module: "it is neither loaded nor under /lib/modules/6.6.6"})
    problem = LinuxBridge.missing(machine, scenario("encap", tunnel=kind))
    assert f"no module {module}" in problem
    assert LinuxBridge.missing(machine, scenario("phy2phy", tunnel=kind)) == ""


@pytest.mark.parametrize("kind", TUNNELS)
@pytest.mark.parametrize("name", ["v2p2v", "pvp2pvp"])
def test_the_two_ends_of_a_tunnel_over_a_cable_fit_each_other(name: str, kind: TunnelKind) -> None:
    whole = make_deployment(name).in_tunnels()
    scenarios = [
        scenario("phy2phy", tunnel=kind).model_copy(update={"deployment": whole.site(number)})
        for number in (0, 1)
    ]
    assert all(one.largest_on_wire == 1518 + overhead(kind) for one in scenarios)
    ends = {end.port: end for one in scenarios for end in one.tunnel_ends}
    assert len(ends) == 2 * len(whole.cables)
    for near, far in (tuple(ends[port] for port in pair) for pair in whole.cables):
        assert (near.local, near.mac, near.vni) == (far.remote, far.peer_mac, far.vni)
        assert (near.remote, near.peer_mac, near.prefix) == (far.local, far.mac, far.prefix)
        network = ip_network(f"{near.local}/{near.prefix}", strict=False)
        assert ip_address(far.local) in {*network.hosts()}
    link, settings = tunnel_link(kind, ends[whole.cables[0][0]])
    assert link == {"vxlan": "vxlan", "geneve": "geneve", "gre": "gretap"}[kind]
    assert ends[whole.cables[0][0]].remote in settings.values()
    assert len({end.vni for end in ends.values()}) == len(whole.cables)
    assert len({end.local for end in ends.values()}) == len(ends)


def test_a_tunnel_has_its_neighbour_again_once_its_link_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[str, str]] = []
    monkeypatch.setattr(
        bridge, "give_underlay_address", lambda _, netdev, end: given.append((netdev, end.remote))
    )
    encap = scenario("encap", tunnel="vxlan")
    (end,) = encap.tunnel_ends
    switch = LinuxBridge(cast("Any", None), cast("Any", SimpleNamespace(scenario=encap)))
    switch.netdevs = {port: f"d{port}" for port in encap.deployment.phy_ports}
    switch.tunnels = {end.port: "tun0"}
    for port in encap.deployment.phy_ports:
        switch.link_came_up(port)
    assert given == [(f"d{end.port}", end.remote)]


THREADED = SwitchOptions(napi="threaded", rx_queues=2)


def test_threads_of_the_kernel_are_placed_as_pollers() -> None:
    asked = scenario("pvp", wire="veth", vnf="vloop:container", vnf_mode="bridge", options=THREADED)
    assert LinuxBridge.roles(scenario("pvp")) == ()
    (demand,) = LinuxBridge.roles(asked)
    assert (demand.role, demand.threads) == ("napi", 2 + 2 * 2)  # wires have one queue, pairs two
    placed = make_plan(asked, Testbed(), facts(12)).placement
    assert placed.mode == "dedicated"
    assert len(placed.cores["napi"]) == 6
    assert len(placed.cores["vnf0"]) == 2 * 2  # ends of pairs, each with two queues
    assert not set(placed.cores["napi"]) & set(placed.cores["vnf0"])
    shared = make_plan(asked, Testbed(), facts(2)).placement
    assert (shared.mode, set(shared.cores["napi"])) == ("shared", {0, 1})


def test_threads_are_refused_where_an_interface_has_no_such_work() -> None:
    guests = scenario("pvp", vnf="vloop:vm", options=THREADED)
    assert "a guest's tap has no NAPI" in LinuxBridge.missing(facts(), guests)
    nics = (NicUse(wire=0, side="dut", pci="0000:00:01.0", driver="igb", kernel=True),)
    assert "not to NICs" in LinuxBridge.nics_missing(nics, facts(), guests)
    assert LinuxBridge.nics_missing(nics, facts(), scenario("pvp")) == ""


@pytest.mark.parametrize("backend", [LinuxBridge, OvsKernel])
def test_queues_of_vnf_ports_are_refused_where_there_are_none(backend: Any) -> None:
    many = SwitchOptions(rx_queues=4)
    problem = backend.missing(facts(), scenario("phy2phy", options=many))
    assert "leave rx_queues out" in problem
    assert backend.missing(facts(), scenario("phy2phy")) == ""
    assert backend.missing(facts(), scenario("pvp", options=many)) == ""
