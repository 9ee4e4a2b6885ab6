"""The NAT for real: sessions both ways, their table, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address

import pytest

from tests.real.needs import program
from tests.real.switches import SLOW, deployed, forwards
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.path_check import PATH_SESSIONS, check_path
from vnetperf.deployment.trial import run_trial
from vnetperf.host import kernel, xdp
from vnetperf.model.frame_change import FIRST_PORT
from vnetperf.model.nat import Nat
from vnetperf.traffic.loadgen.driver import Loadgen
from vnetperf.vswitches.cgnat.base import NatOptions
from vnetperf.vswitches.cgnat.dpdk import DpdkNat
from vnetperf.vswitches.cgnat.kernel import KernelNat
from vnetperf.vswitches.cgnat.vpp import Det44Map, VppNat
from vnetperf.vswitches.conntrack import MAX, SETTINGS, count_all_sessions, timeout_settings

Unchanged = Callable[[], tuple[str, ...]]
NO_XDP = xdp.explain_no_bpf() if program("clang") else "clang is not installed"
NAT = ("subscribers=50,ports=4,block=30000",)


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(
            "nft",
            marks=[
                pytest.mark.daily,  # with ports at random below, with kept ones in the kit
                pytest.mark.skipif(not program("nft"), reason="nft is not installed"),
            ],
        ),
        pytest.param(
            "iptables",
            marks=[
                pytest.mark.daily,  # the same kernel and table, by other rules
                pytest.mark.skipif(not program("iptables-restore"), reason="it is not installed"),
            ],
        ),
        pytest.param("xdp", marks=pytest.mark.skipif(bool(NO_XDP), reason=NO_XDP)),
    ],
)
def test_frames_of_each_session_come_out_as_its_own(mode: str, unchanged: Unchanged) -> None:
    with deployed("phy2phy_cgnat", nat=NAT, set=(f"mode={mode}", "udp_timeout=97")) as deployment:
        nat = deployment.plan.scenario.change
        assert isinstance(nat, Nat)
        spec = SLOW.model_copy(update={"learning_frames": nat.sessions})
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        for counts in result.directions:
            assert counts.sent >= nat.sessions  # each session is seen
            assert (counts.received, counts.altered) == (counts.sent, 0)
        assert result.sessions is not None
        assert result.sessions.held == nat.sessions
        # A trial that makes the sessions.
        deployment.vswitch.end_sessions()
        assert deployment.vswitch.sessions() == 0
        anew = run_trial(deployment, spec.model_copy(update={"new_sessions": True}))
        assert not anew.failed, anew.failure
        assert anew.directions[0].received == anew.directions[0].sent
        assert anew.sessions is not None
        assert (anew.sessions.held, anew.sessions.ended) == (nat.sessions, 0)
        again = run_trial(deployment, spec.model_copy(update={"new_sessions": True}))
        assert again.sessions is not None
        assert (again.sessions.held, again.sessions.ended) == (nat.sessions, nat.sessions)
        facts, options = deployment.vswitch.facts(), NatOptions(udp_timeout=97)
        if isinstance(deployment.vswitch, KernelNat):  # as the kernel reads them back
            assert facts["timeouts"] == {
                name: str(s) for name, s in timeout_settings(options).items()
            }
        else:
            assert set(facts["modes as the kernel has them"].values()) == {"native"}
    assert unchanged() == ()


@pytest.mark.skipif(not program("nft"), reason="nft is not installed")
def test_ports_that_are_chosen_at_random_are_learnt(unchanged: Unchanged) -> None:
    nat = ("subscribers=550,ports=4,block=100", "mapping=learnt")
    assert PATH_SESSIONS < 550 * 4
    options = ("mode=nft", "random_ports=true")
    found = []
    with deployed("phy2phy_cgnat", nat=nat, set=options) as deployment:
        asked, generator = deployment.plan.scenario.change, deployment.generator
        assert asked is not None
        assert isinstance(generator, Loadgen)
        # Twice as many as there are sessions: where the tester stands still, some are not sent.
        changes = {"learning_frames": asked.sessions, "load_fps": 5000.0, "duration_s": 1.0}
        spec = SLOW.model_copy(update=changes)
        for _ in range(2):
            result = run_trial(deployment, spec)
            assert not result.failed, result.failure
            for counts in result.directions:
                assert counts.sent >= asked.sessions
                assert (counts.received, counts.altered) == (counts.sent, 0)
            assert isinstance(generator.learnt, Nat)
            bound = generator.learnt.bindings()
            assert bound.public_ports != bound.ports
            found.append(bound.public_ports)
            deployment.vswitch.end_sessions()
        # A path check goes through some of the sessions, and the next trial through all.
        assert not run_trial(deployment, spec).failed
        check_path(deployment)
        result = run_trial(deployment, spec)
        assert [counts.altered for counts in result.directions] == [0, 0]
        deployment.vswitch.end_sessions()
        # Sessions that a trial makes have mappings that nobody knows before.
        anew = run_trial(deployment, spec.model_copy(update={"new_sessions": True}))
        assert not anew.failed, anew.failure
        assert (anew.directions[0].received, anew.directions[0].altered) == (
            anew.directions[0].sent,
            0,
        )
    assert found[0] != found[1]  # chosen anew, and learnt anew
    assert unchanged() == ()


@pytest.mark.skipif(not program("nft"), reason="nft is not installed")
@pytest.mark.daily  # a setting of the machine's kernel is written, which others use too
def test_the_room_of_the_table_comes_back(unchanged: Unchanged) -> None:
    if held := count_all_sessions():
        pytest.skip(f"others hold {held} sessions: their table is not lowered")
    room = kernel.read_value(SETTINGS / MAX)
    options = ("mode=nft", "max_sessions=100")
    with deployed("phy2phy_cgnat", nat=("subscribers=50,ports=1",), set=options) as deployment:
        assert kernel.read_value(SETTINGS / MAX) == "100"
        forwards(deployment)
    assert kernel.read_value(SETTINGS / MAX) == room
    assert unchanged() == ()


@pytest.mark.parametrize(
    ("options", "wire"),
    [
        (("mode=rtc",), "memif"),
        # The same stages, on threads of their own and by another driver.
        pytest.param(
            ("mode=pipeline", "stages=rx+val/nat+ct/tx"), "memif", marks=pytest.mark.daily
        ),
        pytest.param(("mode=rtc", "blocks=dynamic"), "veth", marks=pytest.mark.daily),
    ],
    ids=["rtc", "pipeline", "veth, dynamic"],
)
def test_dpdk_translates_every_session(
    options: tuple[str, ...], wire: str, unchanged: Unchanged
) -> None:
    with deployed("phy2phy_cgnat", nat=NAT, set=options, wire=wire) as deployment:
        switch, nat = deployment.vswitch, deployment.plan.scenario.change
        assert isinstance(switch, DpdkNat)
        assert isinstance(nat, Nat)
        spec = SLOW.model_copy(update={"learning_frames": nat.sessions})
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        for counts in result.directions:
            assert (counts.received, counts.altered) == (counts.sent, 0)
        work = {name: node for each in switch.datapath_work() for name, node in each.nodes.items()}
        assert set(work) == {"rx", "val", "nat", "ct", "tx"}
        assert all(node.clocks > 0 for node in work.values())
        assert switch.sessions() == nat.sessions
        switch.end_sessions()
        assert switch.sessions() == 0
        # A trial that makes the sessions.
        anew = run_trial(deployment, spec.model_copy(update={"new_sessions": True}))
        assert not anew.failed, anew.failure
        assert anew.directions[0].received == anew.directions[0].sent
        assert anew.sessions is not None
        assert anew.sessions.held == nat.sessions
        assert set(switch.facts()["dropped until then, by cause"]) == {"phy0", "phy1"}
        if "blocks=dynamic" in options:
            # Of each subscriber, before and after its sessions were ended; in the same order.
            log = (deployment.machine.subdir(switch.name) / "blocks.log").read_text()
            events = [line.split()[1:] for line in log.splitlines() if not line.startswith("#")]
            given = [block for event, *block in events if event == "assigned"]
            assert len(given) == 2 * nat.subscribers
            assert given[nat.subscribers :] == given[: nat.subscribers]
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.skipif(
    not program("vpp"),
    reason="no vpp on PATH: install VPP (its project has package repositories)",
)
@pytest.mark.parametrize(
    ("mode", "wire"),
    [("vpp-det44", "memif"), ("vpp-nat44", "memif"), ("vpp-nat44", "veth")],
)
def test_vpp_translates_every_session(mode: str, wire: str, unchanged: Unchanged) -> None:
    asked = ("subscribers=550,ports=4,block=100",)
    options = (f"mode={mode}", "udp_timeout=97")
    with deployed("phy2phy_cgnat", nat=asked, set=options, wire=wire) as deployment:
        switch, nat = deployment.vswitch, deployment.plan.scenario.change
        assert isinstance(switch, VppNat)
        assert isinstance(nat, Nat)
        changes = {"learning_frames": nat.sessions, "load_fps": 5000.0, "duration_s": 1.0}
        spec = SLOW.model_copy(update=changes)
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        for counts in result.directions:
            assert counts.sent >= nat.sessions
            assert (counts.received, counts.altered) == (counts.sent, 0)
        assert result.sessions is not None
        assert result.sessions.held == nat.sessions
        _chosen_as_computed(deployment, mode)
        work = {name for each in switch.datapath_work() for name in each.nodes}
        assert any("in2out" in name for name in work)
        switch.end_sessions()
        assert switch.sessions() == 0
        # A trial that makes the sessions, and one that ends them before.
        strangers = 0
        for ended in (0, nat.sessions):
            anew = run_trial(deployment, spec.model_copy(update={"new_sessions": True}))
            assert not anew.failed, anew.failure
            assert (anew.directions[0].received, anew.directions[0].altered) == (
                anew.directions[0].sent,
                0,
            )
            assert anew.sessions is not None
            assert (anew.sessions.held, anew.sessions.ended) == (nat.sessions, ended)
            strangers += anew.directions[1].sent
        facts = switch.facts()
        times = {"udp": 97, "tcp_established": 7440, "tcp_transitory": 240, "icmp": 60}
        assert facts["timeouts"] == times
        # From outside nobody is reached by a session whose port the tester has not learnt yet.
        dropped = facts["dropped until then, by cause"]
        assert dropped["phy0"] == "none"
        assert {cause.lower(): n for cause, n in dropped["phy1"].items()} == {
            "no translation": strangers
        }
    assert unchanged() == ()


def _chosen_as_computed(deployment: LiveDeployment, mode: str) -> None:
    """Ports that were learnt are of the block that VPP computes, or those that were sent from."""
    generator, nat = deployment.generator, deployment.plan.scenario.change
    assert isinstance(generator, Loadgen)
    assert isinstance(generator.learnt, Nat)
    assert isinstance(nat, Nat)
    bound = generator.learnt.bindings()
    if mode == "vpp-nat44":
        assert bound.public_ports == bound.ports
        return
    found = Det44Map.fit(nat)
    sharing = found.inside.num_addresses // found.outside.num_addresses
    for session in range(nat.sessions):
        address = IPv4Address(bound.public[4 * session :][:4])
        port = int.from_bytes(bound.public_ports[2 * session :][:2])
        offset = session % nat.subscribers + 1
        assert address == found.outside.network_address + offset // sharing
        assert (port - FIRST_PORT) // found.ports == offset % sharing


@pytest.mark.daily
@pytest.mark.skipif(not program("vpp"), reason="no vpp on PATH")
def test_a_full_nat_of_vpp_drops_by_its_cause(unchanged: Unchanged) -> None:
    nat, options = ("subscribers=50,ports=50",), ("mode=vpp-nat44", "max_sessions=2200")
    assert PATH_SESSIONS < 2200 < 50 * 50
    with deployed("phy2phy_cgnat", nat=nat, set=options) as deployment:
        changes = {"new_sessions": True, "load_fps": 5000.0, "duration_s": 0.5}
        spec = SLOW.model_copy(update=changes)
        result = run_trial(deployment, spec)
        assert not result.failed, result.failure
        assert result.sessions is not None
        assert result.sessions.held == 2200
        inside = next(hop for hop in result.hops if hop.port == "phy0")
        lost = result.directions[0].sent - result.directions[0].received
        assert lost > 0
        assert sum(inside.causes.values()) == lost, inside
        assert set(inside.causes) == {"maximum sessions exceeded"}
    assert unchanged() == ()
