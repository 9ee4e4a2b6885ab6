"""Which program a vloop is, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pytest

from tests.fakes.machine import facts
from tests.vnfs.test_vloop import PEERS, attachment
from vnetperf.host.build import DpdkProgram
from vnetperf.host.dpdk import TESTPMD, TestpmdCommand
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.plugin import registry
from vnetperf.vnfs.vloop import Vloop
from vnetperf.vnfs.vloop.container import ContainerVloop
from vnetperf.vnfs.vloop.process import ENGINE, PollingVloop, VloopCommand

OURS = "/cache/vloop"
SHARED = {"tester": (1,), "vnf0": (1,)}
APART = {"tester": (0,), "vnf0": (1,)}


def plan_of(cores: dict[str, tuple[int, ...]], **changes: Any) -> Plan:
    options = SwitchOptions(mtu=changes.pop("mtu", 1500), rx_queues=changes.pop("queues", None))
    return Plan(
        scenario=Scenario(
            deployment=make_deployment("pvp"),
            vswitch="any",
            traffic=TrafficProfile(),
            options=options,
            vnf_mode=changes.pop("mode", "io"),
        ),
        testbed=Testbed(),
        wire="memif",
        placement=Placement(
            mode="shared", reason="", cores=cores, housekeeping=(0,), turn_us=100, **changes
        ),
        memory=(),
    )


def launched(
    plan: Plan, what: type[Vloop] = Vloop, *, kind: str = "vhost-user", **machine: Any
) -> Vloop:
    vnf = what(MagicMock(facts=facts(**machine)), plan, 0)
    queues = plan.scenario.options.rx_queues or 1
    first, second = (attachment(n, kind, peer_mac=PEERS[n], queues=queues) for n in (0, 1))
    with (
        patch.object(DpdkProgram, "executable", return_value=OURS),
        patch.object(vnf, "_spawn"),
    ):
        vnf.launch((first, second))
    return vnf


@pytest.mark.parametrize(
    ("cores", "changes", "what", "ours"),
    [
        (SHARED, {}, Vloop, True),
        ({"vnf1": (1,), "vnf0": (1,)}, {}, Vloop, True),
        (SHARED, {}, PollingVloop, False),
        (APART, {}, Vloop, False),
        (SHARED, {"emulated": True}, Vloop, False),
        ({"tester": (1,)}, {"unpinned": {"vnf0": (0, 1)}}, Vloop, False),
    ],
)
def test_it_is_our_forwarder_where_it_shares_its_processor(
    cores: dict[str, tuple[int, ...]], changes: dict[str, Any], what: type[Vloop], ours: bool
) -> None:
    plan = plan_of(cores, **changes)
    vnf = launched(plan, what)
    assert isinstance(vnf.command, VloopCommand if ours else TestpmdCommand)
    assert vnf.why_testpmd == ""
    (line,) = what.launch_lines(plan, vnf.machine.facts, 0).values()
    assert line.startswith("vnetperf forwarder --lcores=" if ours else f"{TESTPMD} --lcores=")
    assert {*line.partition(" -- ")[2].split()} <= {*vnf.argv}
    assert ("--turn-us=100" in line) == ours
    assert line.partition(" -- ")[0].split()[-1] in vnf.argv  # the main lcore


@pytest.mark.parametrize("kind", ["vhost-user", "memif", "veth", "macvtap", "tap"])
@pytest.mark.parametrize("mode", Vloop.modes)
def test_both_have_the_same_ports_threads_and_memory(kind: str, mode: str) -> None:
    plan = plan_of(SHARED, mode=mode, queues=2, far_nodes=(1,))
    ours, testpmd = (launched(plan, what, kind=kind).argv for what in (Vloop, PollingVloop))
    assert ours[0] == OURS
    assert ours[1 : ours.index("--")] == testpmd[1 : testpmd.index("--")]
    assert {f"--mode={mode}", "--queues=2", "--rx-desc=1024", "--tx-desc=1024"} <= {*ours}
    placement = plan.placement
    assert {"--room=2048", "--node=0", f"--turn-us={placement.turn_us}"} <= {*ours}
    assert {f"--priority={placement.fifo_priority('vnf0')}", "--share=45"} <= {*ours}
    peers = {f"--peer{n}={mac}" for n, mac in enumerate(PEERS)}
    assert ({*ours} & peers == peers) == (mode == "mac")
    buffers = next(word for word in testpmd if word.startswith("--total-num-mbufs="))
    assert f"--buffers={buffers.partition('=')[2]}" in ours


@pytest.mark.parametrize(("kind", "told"), [("vhost-user", 9030), ("memif", 0)])
def test_jumbo_frames(kind: str, told: int) -> None:
    line = launched(plan_of(SHARED, mtu=9000), kind=kind).argv
    assert {"--room=9728", f"--max-frame={told}"} <= {*line}


def test_what_cannot_be_built_leaves_testpmd_and_the_reason() -> None:
    why = "DPDK's development files are missing, the engine cannot be built"
    seen = {"vloop": why}
    plan = plan_of(SHARED)
    vnf = launched(plan, seen=seen)
    assert isinstance(vnf.command, TestpmdCommand)
    assert vnf.facts()["why not our forwarder"] == why
    assert TESTPMD in Vloop.launch_lines(plan, facts(seen=seen), 0)["vnf0"]
    assert Vloop.missing(facts(seen=seen), plan.scenario) == ""
    never = launched(plan, PollingVloop, seen=seen)
    assert "why not our forwarder" not in never.facts()


def test_what_does_not_compile_leaves_testpmd_and_the_reason() -> None:
    vnf = Vloop(MagicMock(facts=facts()), plan_of(SHARED), 0)
    fails = HostError("the engine does not compile", where="make")
    with (
        patch.object(DpdkProgram, "executable", side_effect=fails),
        patch.object(vnf, "_spawn"),
    ):
        vnf.launch((attachment(0, "memif"), attachment(1, "memif")))
    found = vnf.facts()
    assert found["application"] == TESTPMD
    assert "does not compile" in found["why not our forwarder"]


def test_a_look_at_a_machine_says_what_the_build_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ContainerVloop.look(Testbed()) is None  # it has the same name
    monkeypatch.setenv("PATH", "/nowhere")
    assert "install the package make" in str(Vloop.look(Testbed()))


def test_facts_name_the_program_its_turn_and_its_priority() -> None:
    vnf = launched(plan_of(SHARED))
    info = {"turn_us": 100, "priority": "refused: EPERM"}
    with (
        patch.object(vnf.telemetry, "ask", return_value=info),
        patch.object(vnf.telemetry, "version", return_value="DPDK 22.11.7"),
    ):
        found = vnf.facts()
    assert found["application"] == "vnetperf forwarder"
    assert (found["turn, us"], found["priority"]) == (100, "refused: EPERM")
    assert found["launch line"].startswith(OURS)
    assert found["mode"] == "io"
    silent = launched(plan_of(SHARED)).facts()
    assert silent["priority"].startswith("unknown: ")
    assert "turn, us" not in launched(plan_of(APART)).facts()


@pytest.mark.parametrize(("cores", "threads"), [(SHARED, {"vloop-"}), (APART, None)])
def test_its_threads_are_found_by_their_names(
    cores: dict[str, tuple[int, ...]], threads: set[str] | None
) -> None:
    vnf = launched(plan_of(cores))
    found = vnf.pollers()
    assert {poller.thread_prefix for poller in found} == (threads or {*TestpmdCommand.threads})
    assert {poller.role for poller in found} == {"vnf0"}
    assert Vloop(vnf.machine, plan_of(cores), 0).pollers() == ()
    with pytest.raises(DutError, match="has not been launched"):
        Vloop(vnf.machine, plan_of(cores), 0).facts()


def test_frames_that_did_not_go_out_are_the_ports_that_did_not_take_them() -> None:
    vnf = launched(plan_of(SHARED))
    stats = {"imissed": 3, "rx_nombuf": 2, "oerrors": 0}
    answers = {
        "/ethdev/stats,0": {"ipackets": 100, "opackets": 50, **stats},
        "/ethdev/stats,1": {"ipackets": 50, "opackets": 93, **stats},
    }
    with patch.object(vnf.telemetry, "ask", side_effect=answers.get):
        first, second = vnf.counters()
    assert (first.port, first.rx, first.tx, first.tx_dropped) == ("vnf0.0 (inside)", 100, 50, 0)
    assert (second.rx_dropped, second.tx_dropped) == (5, 7)


def test_users_name_the_program() -> None:
    assert registry.load_vnf("vloop:testpmd") is PollingVloop
    assert registry.load_vnf("vloop:process") is Vloop
    assert (Path(ENGINE.sources) / "Makefile").exists()


def test_a_container_has_it_too(tmp_path: Path) -> None:
    vnf = ContainerVloop(MagicMock(facts=facts()), plan_of(SHARED), 0)
    with (
        patch.object(DpdkProgram, "executable", return_value=OURS),
        patch.multiple(vnf.container, create=MagicMock(), spawn=MagicMock()),
    ):
        vnf.launch((attachment(0, "memif"), attachment(1, "memif")))
    assert vnf.argv[0] == OURS
    assert "vnf0" in ContainerVloop.launch_lines(plan_of(SHARED), facts(), 0)
    assert ContainerVloop.launch_lines(plan_of(SHARED, mode="route"), facts(), 0) == {}
