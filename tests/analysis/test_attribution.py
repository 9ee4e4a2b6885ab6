from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from vnetperf.analysis.attribution import locate_losses
from vnetperf.model.deployment import ALL_DEPLOYMENTS, Deployment, make_deployment
from vnetperf.model.trial import DirectionCounts, HopCounters, TrialResult


def drive(
    deployment: Deployment, losses: dict[tuple[int, int], list[int]], offered: int
) -> tuple[TrialResult, int]:
    """Send `offered` frames each way down each chain and lose some before every counter."""
    rx: dict[str, int] = {}
    tx: dict[str, int] = {}
    received = [0, 0]
    for (direction, chain), dropped in losses.items():
        path = deployment.path(deployment.ends[direction], chain)
        frames = offered
        for position, port in enumerate(path):
            frames -= min(frames, dropped[position])
            side = rx if position % 2 == 0 else tx
            side[str(port)] = side.get(str(port), 0) + frames
        received[direction] += frames - min(frames, dropped[len(path)])
    sent = offered * deployment.chains
    result = TrialResult(
        directions=tuple(
            DirectionCounts(
                direction=d, intended=sent, sent=sent, refused=0, unsent=0, received=received[d]
            )
            for d in deployment.directions
        ),
        hops=tuple(HopCounters(port=p, rx=rx.get(p, 0), tx=tx.get(p, 0)) for p in {*rx, *tx}),
    )
    return result, len(deployment.directions) * sent - sum(received)


@st.composite
def lossy(draw: st.DrawFn) -> tuple[Deployment, TrialResult, int]:
    deployment = make_deployment(
        draw(st.sampled_from(list(ALL_DEPLOYMENTS))), draw(st.integers(1, 5))
    )
    length = len(deployment.path(deployment.ends[0], 0)) + 1
    drops = st.lists(st.integers(0, 500), min_size=length, max_size=length)
    losses = {(d, c): draw(drops) for d in deployment.directions for c in range(deployment.chains)}
    result, lost = drive(deployment, losses, draw(st.integers(0, 2000)))
    return deployment, result, lost


@given(lossy())
def test_every_lost_frame_has_one_place(drawn: tuple[Deployment, TrialResult, int]) -> None:
    deployment, result, lost = drawn
    places = locate_losses(deployment, result)
    assert sum(places.values()) == lost
    assert all(frames > 0 for frames in places.values())


def test_what_a_vswitch_drops_has_its_cause() -> None:
    graph = make_deployment("phy2phy")
    result, lost = drive(graph, {(0, 0): [0, 9, 0], (1, 0): [0, 4, 0]}, 100)
    assert lost == 13
    told = {"phy0": {"no port left": 6, "filtered": 2}, "phy1": {"no mapping": 70}}
    hops = tuple(hop.model_copy(update={"causes": told[hop.port]}) for hop in result.hops)
    assert locate_losses(graph, result.model_copy(update={"hops": hops})) == {
        "vSwitch to phy1, no port left": 6,
        "vSwitch to phy1, filtered": 2,
        "vSwitch to phy1": 1,
        # Frames of others were dropped there, too: no more are of the streams than they lost.
        "vSwitch to phy0, no mapping": 4,
    }


def where(
    deployment: Deployment,
    position: int,
    direction: int = 0,
    hosts: Mapping[str, str] | None = None,
) -> dict[str, int]:
    length = len(deployment.path(deployment.ends[0], 0)) + 1
    none = [0] * length
    losses = {(d, c): list(none) for d in deployment.directions for c in range(deployment.chains)}
    losses[direction, 0][position] = 7
    return locate_losses(deployment, drive(deployment, losses, 100)[0], hosts)


def test_over_two_hosts_a_place_has_its_host() -> None:
    graph = make_deployment("v2p2v")
    hosts = {
        str(port): name
        for number, name in enumerate(("east", "west"))
        for port in graph.site(number).ports
    }
    assert [where(graph, position, hosts=hosts) for position in range(9)] == [
        {"tester to vnf1.0 on east": 7},
        {"vSwitch to phy0 on east": 7},
        {"cable to phy2 on west": 7},
        {"vSwitch to vnf0.0 on west": 7},
        {"inside vnf0 on west": 7},
        {"vSwitch to phy3 on west": 7},
        {"cable to phy1 on east": 7},
        {"vSwitch to vnf1.1 on east": 7},
        {"vnf1.1 to tester on east": 7},
    ]


def test_places_of_pvp_are_called_what_they_are() -> None:
    pvp = make_deployment("pvp")
    assert where(pvp, 0) == {"tester to phy0": 7}
    assert where(pvp, 1) == {"vSwitch to vnf0.0": 7}
    assert where(pvp, 2) == {"inside vnf0": 7}
    assert where(pvp, 3) == {"vSwitch to phy1": 7}
    assert where(pvp, 4) == {"phy1 to tester": 7}
    assert where(pvp, 1, direction=1) == {"vSwitch to vnf0.1": 7}
    assert where(pvp, 4, direction=1) == {"phy0 to tester": 7}


def test_places_of_pods_are_called_what_they_are() -> None:
    pods, into_vm = make_deployment("bmp2bmp"), make_deployment("bmp2vmp")
    assert where(pods, 0) == {"tester to pod0": 7}
    assert where(pods, 1) == {"network to pod1": 7}
    assert where(pods, 2) == {"pod1 to tester": 7}
    assert where(into_vm, 2) == {"inside the VM of pod1": 7}
    assert where(into_vm, 0, direction=1) == {"inside the VM of pod1": 7}
    own = HopCounters(port="vnf1.0 (inside)", rx_dropped=5)
    result, _ = drive(into_vm, {(0, 0): [0, 0, 7], (1, 0): [0, 0, 0]}, 1000)
    lost = locate_losses(into_vm, result.model_copy(update={"hops": (*result.hops, own)}))
    inside = "inside the VM of pod1"
    assert lost == {f"{inside}, dropped at vnf1.0": 5, inside: 2}


def test_parallel_chains_are_one_place() -> None:
    assert where(make_deployment("pvpv"), 2) == {"inside vnf0, vnf1": 7}


def test_a_serial_chain_names_the_vnf() -> None:
    assert where(make_deployment("pvvp"), 4) == {"inside vnf1": 7}


def test_refused_frames_died_between_the_tester_and_the_dut() -> None:
    d = DirectionCounts(direction=0, intended=100, sent=90, refused=10, unsent=0, received=90)
    hops = (HopCounters(port="phy0", rx=90), HopCounters(port="phy1", tx=90))
    result = TrialResult(directions=(d,), hops=hops)
    assert locate_losses(make_deployment("phy2phy"), result) == {"tester to phy0": 10}


def test_a_port_without_counters_makes_one_place_of_its_neighbours() -> None:
    result, _ = drive(make_deployment("pvp"), {(0, 0): [0, 0, 9, 0, 0], (1, 0): [0] * 5}, 100)
    known = tuple(hop for hop in result.hops if hop.port != "vnf0.1")
    places = locate_losses(make_deployment("pvp"), result.model_copy(update={"hops": known}))
    assert places == {"inside vnf0 or vSwitch to phy1": 9}


COUNTER = st.integers(0, 300)


@given(
    st.lists(st.builds(HopCounters, port=st.just("?"), rx=COUNTER, tx=COUNTER), min_size=4),
    st.integers(0, 200),
    st.integers(0, 200),
)
def test_whatever_the_ports_counted_besides_the_places_make_up_the_loss(
    counted: list[HopCounters], offered: int, received: int
) -> None:
    """Foreign frames, missing ports and counters that lag behind are all there is in the field."""
    ports = ("phy0", "vnf0.0", "vnf0.1", "phy1")
    hops = tuple(h.model_copy(update={"port": p}) for h, p in zip(counted, ports, strict=False))
    d = DirectionCounts(
        direction=0, intended=offered, sent=offered, refused=0, unsent=0, received=received
    )
    for some in (hops, hops[1:], hops[:2]):
        places = locate_losses(make_deployment("pvp"), TrialResult(directions=(d,), hops=some))
        assert sum(places.values()) == max(0, offered - received)


def test_nothing_lost_or_not_counted_is_no_place() -> None:
    d = DirectionCounts(direction=0, intended=9, sent=9, refused=0, unsent=0, received=9)
    hops = (HopCounters(port="phy0", rx=9), HopCounters(port="phy1", tx=9))
    deployment = make_deployment("phy2phy")
    assert locate_losses(deployment, TrialResult(directions=(d,), hops=hops)) == {}
    lossy_trial = TrialResult(directions=(d.model_copy(update={"received": 1}),))
    assert locate_losses(deployment, lossy_trial) == {}


@given(st.integers(1, 500), st.integers(0, 500), st.integers(0, 500))
def test_drops_that_a_vnf_counted_itself_are_named(lost: int, socket: int, tun: int) -> None:
    deployment = make_deployment("vepc")
    path = deployment.path(deployment.ends[0], 0)
    losses = {(d, 0): [0] * (len(path) + 1) for d in deployment.directions}
    losses[0, 0][2] = lost
    result, _ = drive(deployment, losses, 1000)
    inside = (
        HopCounters(port="vnf0.gtp-u (inside)", rx=0, tx=0, rx_dropped=socket),
        HopCounters(port="vnf0.tun (inside)", rx=0, tx=0, tx_dropped=tun),
        HopCounters(port="vnf1.tun (inside)", rx=0, tx=0, tx_dropped=7),
    )
    places = locate_losses(deployment, result.model_copy(update={"hops": (*result.hops, *inside)}))
    assert sum(places.values()) == lost
    assert places.get("inside vnf0, dropped at vnf0.gtp-u", 0) == min(lost, socket)
    assert places.get("inside vnf0, dropped at vnf0.tun", 0) == min(lost - min(lost, socket), tun)
    assert not any("vnf1" in place for place in places)


def test_broadcast_frames_hide_no_loss() -> None:
    deployment = make_deployment("pvp")
    length = len(deployment.path(deployment.ends[0], 0)) + 1
    losses = {(d, 0): [0, 7, *[0] * (length - 2)] for d in deployment.directions}
    result, lost = drive(deployment, losses, 1000)
    counts = tuple(
        d.model_copy(update={"broadcast_sent": 10, "broadcast_received": 10})
        for d in result.directions
    )
    # Ports count what goes to everybody as well.
    hops = tuple(
        hop.model_copy(update={"rx": hop.rx + 10, "tx": hop.tx + 10}) for hop in result.hops
    )
    told = locate_losses(deployment, result.model_copy(update={"directions": counts, "hops": hops}))
    assert told == locate_losses(deployment, result)
    assert sum(told.values()) == lost == 14
