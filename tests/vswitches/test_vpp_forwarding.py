"""VPP's forwarding: the messages, carried out by a switch of a few lines."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.deployment import PhyPort, Port, dut_mac, make_deployment
from vnetperf.model.options import QueuePin, SwitchOptions
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import TrafficProfile
from vnetperf.vswitches.vpp import forwarding
from vnetperf.vswitches.vpp.forwarding import ApiMessage
from vnetperf.vswitches.vpp.interfaces import RxQueue, VppInterface, arrange_queues, place_queues


def scenario(deployment: str, vnfs: int | None = None, **changes: Any) -> Scenario:
    fields: dict[str, Any] = {"traffic": TrafficProfile(), **changes}
    return Scenario(deployment=make_deployment(deployment, vnfs), vswitch="vpp", **fields)


def index_of(of: Scenario) -> dict[Port, int]:
    return {port: 10 + n for n, port in enumerate(of.deployment.ports)}


class Switch:
    """Does what the messages say, as VPP documents them."""

    def __init__(self, operations: list[ApiMessage]) -> None:
        self.joined: dict[int, int] = {}
        self.patched = any(message == "l2_patch_add_del" for message, _ in operations)
        self.bridge: dict[int, int] = {}
        self.learns: dict[int, bool] = {}
        self.fib: dict[tuple[int, str], int] = {}
        for message, fields in operations:
            getattr(self, message)(**fields)

    def sw_interface_set_l2_xconnect(
        self, rx_sw_if_index: int, tx_sw_if_index: int, *, enable: bool
    ) -> None:
        if enable:
            self.joined[rx_sw_if_index] = tx_sw_if_index
        else:
            del self.joined[rx_sw_if_index]

    def l2_patch_add_del(self, rx_sw_if_index: int, tx_sw_if_index: int, *, is_add: bool) -> None:
        self.sw_interface_set_l2_xconnect(rx_sw_if_index, tx_sw_if_index, enable=is_add)

    def bridge_domain_add_del_v2(self, bd_id: int, *, learn: bool, **rest: Any) -> None:
        assert bd_id > 0
        assert rest["is_add"]
        self.learns[bd_id] = learn

    def sw_interface_set_l2_bridge(self, rx_sw_if_index: int, bd_id: int, *, enable: bool) -> None:
        assert enable
        assert bd_id in self.learns
        self.bridge[rx_sw_if_index] = bd_id

    def l2fib_add_del(self, mac: str, bd_id: int, sw_if_index: int, **rest: Any) -> None:
        assert rest["static_mac"]
        self.fib[bd_id, mac] = sw_if_index

    def forward(self, entered: int, eth_src: str, eth_dst: str) -> set[int]:
        if entered in self.joined:
            out = self.joined[entered]
            switches = out in self.joined or out in self.bridge
            return {out} if switches or self.patched else set()
        domain = self.bridge.get(entered)
        if domain is None:
            return set()
        if self.learns[domain]:
            self.fib[domain, eth_src] = entered
        known = self.fib.get((domain, eth_dst))
        members = {i for i, bd in self.bridge.items() if bd == domain}
        return (members if known is None else {known}) - {entered}


def check(of: Scenario) -> None:
    index = index_of(of)
    switch = Switch(forwarding.switch_messages(of, index))
    for _ in range(2):  # learning takes a round
        hops = list(of.hop_addresses())
        found = [(p, switch.forward(index[p.src], p.eth_src, p.eth_dst)) for p in hops]
    for passage, out in found:
        assert out == {index[passage.dst]}, passage


@given(
    st.sampled_from(["phy2phy", "pvp", "pvvp", "p2v", "v2p", "v2v"]),
    st.sampled_from(["", *forwarding.MODES]),
    st.sampled_from(["io", "mac", "macswap"]),
    st.booleans(),
)
def test_every_stream_leaves_where_it_must(name: str, mode: str, vnf: str, both: bool) -> None:
    traffic = TrafficProfile(bidirectional=both)
    check(scenario(name, options=SwitchOptions(mode=mode), vnf_mode=vnf, traffic=traffic))


@given(
    st.integers(1, 6),
    st.sampled_from([("far", "io"), ("far", "mac"), ("port", "mac"), ("port", "macswap")]),
    st.sampled_from(["port", "learning"]),
)
def test_parallel_chains_are_told_apart(vnfs: int, how: tuple[str, str], rules: str) -> None:
    addressing, mode = how
    of = scenario("pvpv", vnfs, addressing=addressing, vnf_mode=mode, rules=rules)
    if forwarding.forwarding_problem(of):  # said before anything is deployed
        return
    check(of)


def test_parallel_chains_as_they_come_are_carried() -> None:
    for rules, addressing, mode in (("port", "far", "io"), ("learning", "port", "mac")):
        of = scenario("pvpv", addressing=addressing, vnf_mode=mode, rules=rules)
        assert forwarding.forwarding_problem(of) == ""
        assert forwarding.forwarding_kind(of) == "bridge"
        check(of)


def test_nothing_but_the_hops_is_forwarded() -> None:
    of = scenario("p2v")
    index = index_of(of)
    switch = Switch(forwarding.switch_messages(of, index))
    (hop,) = of.deployment.hops
    assert switch.forward(index[hop.dst], "02:00:00:00:00:01", "02:00:00:00:00:02") == set()


@pytest.mark.parametrize("mode", ["xconnect", "l2patch"])
def test_a_port_that_goes_leaves_the_others_joined(mode: str) -> None:
    of = scenario("pvvp", options=SwitchOptions(mode=mode))
    index = index_of(of)
    gone = PhyPort(index=0)
    sent = forwarding.switch_messages(of, index) + forwarding.release_messages(of, index, gone)
    switch = Switch(sent)
    assert index[gone] not in switch.joined.values()
    joined = {(a, b) for a, b in switch.joined.items() if index[gone] not in (a, b)}
    hops = {(index[h.src], index[h.dst]) for h in of.deployment.hops}
    assert joined == {pair for pair in hops if index[gone] not in pair}


@pytest.mark.parametrize("kind", ["vxlan", "gre", "geneve"])
@pytest.mark.parametrize("name", ["encap", "decap", "op2p"])
def test_tunnels_take_the_place_of_their_port(name: str, kind: str) -> None:
    of = scenario(name, tunnel=kind)
    index = index_of(of)
    (outer,) = of.deployment.tunnelled
    index[outer] = 99
    switch = Switch(forwarding.switch_messages(of, index))
    for hop in of.deployment.hops:
        assert switch.joined[index[hop.src]] == index[hop.dst]
    (end,) = of.tunnel_ends
    message, fields = forwarding.tunnel_message(kind, end)
    assert kind in message
    text = str(fields)
    assert "192.0.2.1" in text
    assert "192.0.2.2" in text


@pytest.mark.parametrize("kind", ["vxlan", "gre", "geneve"])
@pytest.mark.parametrize("site", [0, 1])
def test_each_cable_between_vswitches_has_a_tunnel_of_its_own(kind: str, site: int) -> None:
    graph = make_deployment("v2p2v").in_tunnels().site(site)
    of = scenario("phy2phy", tunnel=kind).model_copy(update={"deployment": graph})
    index = index_of(of) | {end.port: 90 + end.number for end in of.tunnel_ends}
    switch = Switch(forwarding.switch_messages(of, index))
    for hop in graph.hops:
        assert switch.joined[index[hop.src]] == index[hop.dst]
    texts = [str(forwarding.tunnel_message(kind, end)[1]) for end in of.tunnel_ends]
    assert len({*texts}) == 2


# --- routes ----------------------------------------------------------------------------------


class Router:
    """One routing table per interface, as the messages make them."""

    def __init__(self, operations: list[ApiMessage]) -> None:
        self.tables: dict[int, list[tuple[Any, int, str]]] = {}
        self.table: dict[int, int] = {}
        self.neighbours: dict[tuple[int, str], str] = {}
        for message, fields in operations:
            if message == "ip_table_add_del":
                self.tables[fields["table"]["table_id"]] = []
            elif message == "sw_interface_set_table":
                assert fields["vrf_id"] in self.tables
                self.table[fields["sw_if_index"]] = fields["vrf_id"]
            elif message == "sw_interface_add_del_address":
                assert fields["sw_if_index"] in self.table  # a table is chosen before
            elif message == "ip_neighbor_add_del":
                n = fields["neighbor"]
                self.neighbours[n["sw_if_index"], n["ip_address"]] = n["mac_address"]
            else:
                route = fields["route"]
                (path,) = route["paths"]
                assert len(path["label_stack"]) == 16
                via = path["nh"]["address"]["ip4"]
                self.tables[route["table_id"]].append(
                    (ip_network(route["prefix"]), path["sw_if_index"], via)
                )

    def forward(self, entered: int, ipv4_dst: str) -> tuple[int, str]:
        (match,) = [
            (out, via)
            for net, out, via in self.tables[self.table[entered]]
            if ip_address(ipv4_dst) in net
        ]
        out, via = match
        return out, self.neighbours[out, via]


@pytest.mark.parametrize("name", ["phy2phy", "pvp", "pvvp", "v2v"])
def test_routes_lead_by_the_hop_of_the_port(name: str) -> None:
    of = scenario(name, forwarding="l3", vnf_mode="mac")
    index = index_of(of)
    router = Router(forwarding.route_messages(of, index))
    graph = of.deployment
    for stream in of.streams:
        path = graph.path(graph.ends[stream.direction], 0)
        assert stream.eth_dst == dut_mac(path[0])  # it is addressed to the router
        for src, dst in zip(path[0::2], path[1::2], strict=True):
            out, mac = router.forward(index[src], stream.ipv4_dst)
            assert out == index[dst]
            assert mac == next(n for (i, _), n in router.neighbours.items() if i == index[dst])


def test_one_route_per_flow() -> None:
    traffic = TrafficProfile(flows=1000, vary=("ipv4_dst",))
    of = scenario("phy2phy", forwarding="l3", rules="stream", traffic=traffic)
    index = index_of(of)
    assert all(m != "ip_route_add_del" for m, _ in forwarding.route_messages(of, index))
    commands = forwarding.flow_route_commands(of, {port: f"if{n}" for port, n in index.items()})
    assert len(commands) == 2
    for stream, command in zip(of.streams, commands, strict=True):
        words = command.split()
        assert words[:7] == [
            *["ip", "route", "add", "count", "1000"],
            f"{stream.ipv4_dst}/32",
            "table",
        ]


# --- queues ----------------------------------------------------------------------------------


def queue(port: Port, number: int, index: int) -> tuple[VppInterface, RxQueue]:
    return VppInterface(port, index, f"if{index}", "memif"), RxQueue(index, number, 0, 1)


def test_queues_go_to_the_workers_in_turn_and_pinned_ones_where_they_are_told() -> None:
    a, b = PhyPort(index=0), PhyPort(index=1)
    there = [queue(a, 0, 1), queue(a, 1, 1), queue(b, 0, 2), queue(b, 1, 2)]
    assert place_queues(there, 2, ()) == {(1, 0): 0, (1, 1): 1, (2, 0): 0, (2, 1): 1}
    pins = (QueuePin(port="phy0", queue=0, worker=1),)
    assert place_queues(there, 2, pins)[1, 0] == 1
    assert place_queues(there, 0, ()) == {}


class Interfaces:
    """A VPP with one receive queue for each interface, all in one mode."""

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.set: dict[int, int] = {}

    def call(self, message: str, *, sw_if_index: int, **fields: Any) -> Any:
        if message == "sw_interface_rx_placement_dump":
            queue = {"sw_if_index": sw_if_index, "queue_id": 0, "worker_id": 1, "mode": self.mode}
            return [SimpleNamespace(**queue)]
        assert message == "sw_interface_set_rx_mode"
        assert sw_if_index not in self.set
        self.set[sw_if_index] = fields["mode"]
        return None


def test_shared_memory_is_polled_where_kernel_interfaces_wait_for_interrupts() -> None:
    polling, interrupt = 1, 2
    kinds = ("memif", "vhost-user", "netdev", "xdp", "pci")
    there = [VppInterface(PhyPort(index=n), n, kind, kind) for n, kind in enumerate(kinds)]
    for before in (polling, interrupt):
        api = Interfaces(before)
        arrange_queues(api, there, workers=1, pins=(), mode="interrupt")  # type: ignore[arg-type]  # enough of an API
        wanted_modes = dict(enumerate((polling, polling, interrupt, interrupt, interrupt)))
        assert api.set == {n: mode for n, mode in wanted_modes.items() if mode != before}


@given(st.integers(1, 8), st.integers(1, 5))
def test_workers_have_as_many_queues_as_each_other(queues: int, workers: int) -> None:
    there = [queue(PhyPort(index=0), n, 1) for n in range(queues)]
    places = list(place_queues(there, workers, ()).values())
    counts = [places.count(worker) for worker in range(workers)]
    assert max(counts) - min(counts) <= 1
