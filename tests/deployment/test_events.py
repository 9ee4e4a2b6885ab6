"""What happens to the DUT in the middle of a trial, and what cannot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from tests.planning.test_hosts import plan_of
from tests.planning.test_plan import plan, scenario
from vnetperf.deployment import events, path_check, trial
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.model.deployment import PhyPort, VnfPort
from vnetperf.model.errors import CapabilityError, DutError, GeneratorError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.nat import Nat
from vnetperf.model.scenario import NicUse, Plan
from vnetperf.model.trial import (
    DirectionCounts,
    EventSpec,
    HopCounters,
    LiveCounts,
    PartResult,
    TrialResult,
    TrialSpec,
)
from vnetperf.plugin.vswitch import HasSessions

pytestmark = pytest.mark.usefixtures("fakes")


def why_not(what: str, made: Plan | None = None, **changes: Any) -> str:
    return events.find_event_problem(made or plan(scenario(**changes)), what)


def test_switches_and_vnfs_are_restarted_on_any_wire() -> None:
    for wire in ("memif", "veth"):
        assert why_not("vswitch", wire=wire) == why_not("vnf0", wire=wire) == ""


def test_a_nat_whose_mappings_are_learnt_is_not_restarted_in_a_trial() -> None:
    made = plan(scenario(wire="memif"))
    for mapping, said in (("preserved", ""), ("learnt", "mappings are learnt between trials")):
        nat = {"change": Nat.model_validate({"mapping": mapping})}
        one = made.model_copy(update={"scenario": made.scenario.model_copy(update=nat)})
        assert said in why_not("vswitch", one)


def test_only_what_is_there_can_be_reset() -> None:
    assert "vswitch, vnf0, link phy0, link phy1" in why_not("vnf1")
    assert "phy2phy has no vnf0" in why_not("vnf0", deployment="phy2phy")
    assert "has no flux" in why_not("flux")
    assert "has no physical port phy7" in why_not("link phy7", wire="veth")
    assert "has no physical port vnf0.0" in why_not("link vnf0.0", wire="veth")


def test_links_that_have_an_interface_of_the_kernel_go_down() -> None:
    assert "a memif wire has no link" in why_not("link phy0")
    assert why_not("link phy1", wire="veth") == ""
    made = plan(scenario()).model_copy(update={"wire": "nic"})
    for kernel, said in ((False, "drives itself"), (True, "")):
        driver = "igb" if kernel else "vfio-pci"
        uses = (NicUse(wire=0, side="dut", pci="01:00.0", node=0, driver=driver, kernel=kernel),)
        assert said in why_not("link phy0", made.model_copy(update={"nics": uses}))


def test_an_uplink_outside_of_the_runs_namespace_does_not_go_down() -> None:
    made = plan(scenario()).model_copy(update={"wire": "nic"})
    uses = (NicUse(wire=0, side="dut", pci="01:00.0", node=0, driver="mlx5_core", kernel=True),)
    for mode, said in (("legacy", ""), ("switchdev", "--set mode=legacy")):
        options = made.scenario.options.model_copy(update={"mode": mode})
        one = made.scenario.model_copy(update={"vswitch": "sriov", "options": options})
        why = why_not("link phy0", made.model_copy(update={"nics": uses, "scenario": one}))
        assert (said in why) if said else not why


def test_sessions_of_a_core_end_with_it() -> None:
    made = plan(scenario())
    vepc = made.model_copy(update={"scenario": made.scenario.model_copy(update={"vnf": "vepc"})})
    assert "sessions of vepc end with it" in why_not("vnf0", vepc)


def test_one_of_vnfs_side_by_side_has_no_time_of_its_own() -> None:
    assert "pvpv has 2 VNFs side by side" in why_not("vnf0", deployment="pvpv")
    assert why_not("vswitch", deployment="pvpv") == why_not("vnf1", deployment="pvvp") == ""


def test_on_one_host_an_event_names_no_host() -> None:
    assert why_not("vswitch") == ""
    assert "vswitch on nowhere" in why_not("vswitch on nowhere")


def test_an_event_at_the_very_end_is_refused() -> None:
    made = plan(scenario(wire="veth"))
    events.check_event(made, EventSpec(what="vswitch", at_s=1.0), 2.0)
    with pytest.raises(CapabilityError, match=r"an event after 1.8 s of a trial of 2 s"):
        events.check_event(made, EventSpec(what="vswitch", at_s=1.8), 2.0)
    with pytest.raises(CapabilityError, match="has no vnf3"):
        events.check_event(made, EventSpec(what="vnf3", at_s=1.0), 2.0)


class Deployed:
    """As much of a deployment as an event sees."""

    plan: Any = SimpleNamespace(has_tester=True, host="")

    def __init__(self, trouble: Callable[[], None] = lambda: None) -> None:
        self.done: list[str] = []
        self.trouble = trouble
        self.began = time.monotonic()
        self.generator = self.machine = self.vswitch = self
        self.down: tuple[str, ...] = ("tester port 0",)

    def live(self) -> LiveCounts:
        elapsed = time.monotonic() - self.began
        return LiveCounts(elapsed_s=elapsed, sent=0, refused=0, received=0)

    def links_down(self) -> tuple[str, ...]:
        down, self.down = self.down, ()
        return down

    def restart_vswitch(self) -> None:
        self.done.append("vswitch")
        self.trouble()

    def restart_vnf(self, number: int) -> None:
        self.done.append(f"vnf{number}")

    def dut_netdev(self, port: str) -> str:
        return f"d{port}"

    def set_link(self, name: str, *, up: bool) -> None:
        self.done.append(f"{name} {'up' if up else 'down'}")

    def link_came_up(self, port: PhyPort) -> None:
        self.done.append(f"vswitch mends {port}")


def happening(
    deployed: Deployed, what: str, at_s: float, down_s: float = 0.0
) -> events.EventInjector:
    event = EventSpec(what=what, at_s=at_s, down_s=down_s)
    return events.EventInjector(cast("LiveDeployment", deployed), event)


def through(_: Any) -> dict[str, Any]:
    return {}


def test_it_happens_once_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "check_path", through)
    deployed = Deployed()
    soon = happening(deployed, "vswitch", 0.65)
    soon.poll()
    assert deployed.done == []  # it would keep others from looking for too long
    deployed.began -= 0.55
    soon.poll()
    soon.poll()
    assert deployed.done == ["vswitch"]
    assert deployed.down == ()  # the tester's links were waited for
    times = soon.result()
    assert (times.what, times.failure) == ("vswitch", "")
    assert 0.65 <= times.began_s <= times.ended_s < 30


def test_a_link_goes_down_and_up_and_keeps_the_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "check_path", through)
    deployed = Deployed()
    link = happening(deployed, "link phy1", 0.0, 0.05)
    link.poll()
    assert deployed.done == ["dphy1 down", "dphy1 up", "vswitch mends phy1"]
    times = link.result()
    assert times.ended_s - times.began_s >= 0.05
    assert not link.resets_counters
    assert happening(deployed, "vnf0", 0.0).resets_counters


def test_the_vnf_of_the_number_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = Deployed()
    happening(deployed, "vnf3", 0.0).poll()
    assert deployed.done == ["vnf3"]


def refuse() -> None:
    raise DutError("it does not start; log ends with: no memory", where="dpdk")


def test_what_does_not_come_back_is_told_and_not_looked_for() -> None:
    gone = happening(Deployed(refuse), "vswitch", 0.0)
    gone.poll()
    assert gone.failed
    assert "dpdk: it does not start" in gone.result().failure


def test_a_way_that_stays_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: Any) -> None:
        raise DutError("the path check failed", where="pvp_fake")

    monkeypatch.setattr(events, "check_path", closed)
    restarted = happening(Deployed(), "vswitch", 0.0)
    restarted.poll()
    assert not restarted.failed
    times = events.check_after_event(cast("LiveDeployment", Deployed()), restarted.result())
    assert "pvp_fake: the path check failed" in times.failure


class Counting(Deployed):
    """As much of a deployment as a trial sees."""

    frames = 0
    received = 10
    on_sent: Callable[[], None]

    def __init__(self, *, has_tester: bool = True) -> None:
        super().__init__()
        self.plan = SimpleNamespace(
            has_tester=has_tester,
            has_dut=False,
            own_ends=(0, 1),
            scenario=SimpleNamespace(generator="fakegen", id="pvp_fake"),
        )

    def check_alive(self) -> None: ...

    def cause(self, error: Exception) -> Exception:
        return error

    def prepare(self, size: int) -> None: ...

    def pollers(self) -> tuple[Any, ...]:
        return ()

    def port_counters(self) -> tuple[Any, ...]:
        return ()

    def refusal_is_loss(self, trial: TrialSpec) -> bool:
        return trial.event is not None

    def counters(self) -> dict[str, HopCounters]:
        return {"phy1": HopCounters(port="phy1", rx=self.frames)}

    def carrier_changes(self) -> dict[str, int]:
        return {}

    def run(self, spec: TrialSpec, watch: Callable[[], None]) -> TrialResult:
        del spec
        watch()
        self.frames += 10
        self.on_sent()
        time.sleep(0.3)  # for frames in flight
        return counted(self.received)


class OtherHosts:
    """The other hosts of a trial: the points at which they were met, and what they tell there."""

    def __init__(self, **told: dict[str, Any]) -> None:
        self.points: list[str] = []
        self.times: dict[str, float] = {}
        self.told: dict[str, Any] = {}
        self.tell = told

    def meet(
        self, point: str, watch: Callable[[], None], news: Mapping[str, Any] = trial.NO_NEWS
    ) -> Mapping[str, Any]:
        watch()
        self.points.append(point)
        self.times[point] = time.monotonic()
        self.told |= news
        if point == "ended":
            raise trial.PartEndedError
        return news or self.tell.get(point, {})

    def receives(self) -> None: ...


def run_part(deployed: Any, spec: TrialSpec, others: Any = None, **args: Any) -> PartResult:
    return trial.run_part(deployed, spec, others=others, **args)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubles of generators can do any trial, and doubles of plans any event."""
    monkeypatch.setattr(trial, "require_trial", lambda *_: None)
    monkeypatch.setattr(trial, "check_event", lambda *_: None)


QUIET = TrialSpec(frame_size=64, load_fps=1, duration_s=1, learning_frames=0)
LINK_DOWN = QUIET.model_copy(update={"event": EventSpec(what="link phy1", at_s=0.0)})
HAPPENED = {"event": {"what": "vnf0", "began_s": 0.1, "ended_s": 0.2}}


@pytest.mark.usefixtures("unchecked")
def test_frames_of_the_path_check_are_not_among_the_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(deployed: Any) -> None:
        deployed.frames += 30

    monkeypatch.setattr(events, "check_path", check)
    deployed = Counting()
    began = time.monotonic()
    result = run_part(deployed, LINK_DOWN).result
    assert result.collected_s < time.monotonic() - began - 0.3  # threads: while it was sent
    assert deployed.frames == 40
    assert [hop.rx for hop in result.hops] == [10]
    assert result.event is not None


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("fails", [False, True])
def test_over_hosts_the_path_is_checked_once_all_counters_are_read(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = OtherHosts(sent=HAPPENED)

    def check(deployed: Any) -> None:
        others.points.append("path check")
        if fails:
            raise DutError("vSwitch to phy2 forwards nothing")

    monkeypatch.setattr(events, "check_path", check)
    times = run_part(Counting(), LINK_DOWN, others, event_is_here=False).result.event
    assert others.points == ["learned", "ready", "sends", "sent", "counted", "path check"]
    assert others.told["elapsed_s"] >= 0  # by which another host times the event
    assert times is not None
    assert ("vSwitch to phy2 forwards nothing" in times.failure) == fails


@pytest.mark.usefixtures("unchecked")
def test_a_way_through_is_looked_for_when_all_hosts_have_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others, deployed = OtherHosts(), Counting()
    deployed.received = 0
    monkeypatch.setattr(
        path_check, "check_path", lambda *_, **__: others.points.append("path check")
    )
    assert run_part(deployed, QUIET, others).result.directions
    assert others.points == ["learned", "ready", "sent", "counted", "path check"]


@pytest.mark.usefixtures("unchecked")
def test_other_hosts_look_at_threads_from_right_before_the_traffic() -> None:
    """The rest of the wait after learning frames passes before threads are looked at, not after."""
    others = OtherHosts()
    spec = QUIET.model_copy(update={"learning_wait_s": 1.0})
    part = run_part(Counting(has_tester=False), spec, others)
    assert others.points == ["learned", "ready", "sent", "counted"]
    assert 0.3 <= others.times["ready"] - others.times["learned"] < 0.7
    assert part.dut is not None
    assert part.dut.collected_s < 0.3


@pytest.mark.usefixtures("unchecked")
def test_a_part_whose_others_have_ended_ends_without_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = OtherHosts()
    monkeypatch.setattr(others, "meet", lambda *_: OtherHosts.meet(others, "ended", lambda: None))
    for has_tester in (True, False):
        part = run_part(Counting(has_tester=has_tester), QUIET, others)
        assert (part.result.failed, part.result.directions, part.dut) == ("", (), None)


@pytest.mark.usefixtures("unchecked")
def test_a_dut_that_dies_while_another_host_sends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = Counting(has_tester=False)

    def ended() -> None:
        raise DutError("vnf0 has ended")

    others = OtherHosts()
    usual = others.meet

    def meet(point: str, *args: Any) -> Mapping[str, Any]:
        if point == "sent":
            monkeypatch.setattr(deployed, "check_alive", ended)
        return usual(point, *args)

    monkeypatch.setattr(others, "meet", meet)
    result = run_part(deployed, QUIET, others).result
    assert (result.failed, result.failure) == ("dut", "vnf0 has ended")


def test_links_that_stay_down_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unplugged(Deployed):
        def links_down(self) -> tuple[str, ...]:
            return ("tester port 1",)

    monkeypatch.setattr("vnetperf.events.vswitch.LINKS_S", 0.05)
    restarted = happening(Unplugged(), "vswitch", 0.0)
    restarted.poll()
    for words in ("links down", "0.05 s", "tester port 1"):
        assert words in restarted.result().failure


def test_an_event_that_did_not_happen_is_no_result() -> None:
    with pytest.raises(DutError, match="the trial ended before vswitch"):
        happening(Deployed(), "vswitch", 60.0).result()


def test_a_generator_that_cannot_is_said_before_the_trial() -> None:
    class Stub(LiveDeployment):
        def __init__(self, made: Plan) -> None:
            self.plan = made
            self.generator = type("Fake", (), {"lacks": classmethod(lambda c, t: "sing")})()

    spec = TrialSpec(frame_size=64, load_fps=1, duration_s=1, burst=3)
    with pytest.raises(CapabilityError, match="fakegen cannot sing"):
        trial.run_trial(Stub(plan(scenario())), spec)


# --- faults that nobody intended -------------------------------------------------------------


def counted(*received: int) -> TrialResult:
    return TrialResult(
        directions=tuple(
            DirectionCounts(direction=n, intended=10, sent=10, refused=0, unsent=0, received=came)
            for n, came in enumerate(received)
        )
    )


@pytest.mark.parametrize(("received", "looked"), [((10, 1), 0), ((10, 0), 1), ((0, 0), 1)])
def test_a_way_through_is_looked_for_where_nothing_came_back(
    received: tuple[int, ...], looked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(
        path_check, "check_path", lambda _, timeout_s, least: looks.append(timeout_s)
    )
    silent = path_check.silent_directions(counted(*received))
    path_check.check_way_through(cast("LiveDeployment", Deployed()), silent)
    assert len(looks) == looked  # an overload may well cost every frame: that is a measurement


class Offering:
    """As much of a deployment as its path check sees; each try sends and loses as it is given."""

    def __init__(self, *tries: tuple[int, int]) -> None:
        self.tries = list(tries)
        self.offered: list[int] = []
        self.generator = self.vswitch = self
        self.plan = plan(scenario())
        self.vnfs = self.guests = ()
        self.elsewhere = False

    def prepare(self, size: int) -> None: ...
    def learn(self, frames: int) -> None: ...
    def check_alive(self) -> None: ...

    def links_down(self) -> tuple[str, ...]:
        return ()

    def counters(self) -> dict[str, HopCounters]:
        return {}

    def run(self, spec: TrialSpec, _watch: Any) -> TrialResult:
        due = round(spec.load_fps * spec.duration_s)
        self.offered.append(due)
        most, lost = self.tries.pop(0) if len(self.tries) > 1 else self.tries[0]
        sent = min(most, due)
        counts = {"intended": due, "sent": sent, "unsent": due - sent, "received": sent - lost}
        return TrialResult(
            directions=tuple(DirectionCounts(direction=n, refused=0, **counts) for n in (0, 1))
        )


def checked_path(
    *tries: tuple[int, int], least: int = path_check.PATH_FRAMES, within_s: float = 60.0
) -> tuple[dict[str, Any], list[int]]:
    deployed = Offering(*tries)
    found = path_check.check_path(cast("LiveDeployment", deployed), within_s, least)
    return found, deployed.offered


def test_a_path_is_held_against_what_a_late_tester_sent() -> None:
    found, offered = checked_path((99, 0))
    assert (found["sent"], found["received"], offered) == ([30, 30], [30, 30], [30])
    found, offered = checked_path((4, 0), (0, 0), (8, 0), (18, 0))
    assert (found["sent"], found["tries"], offered) == ([30, 30], 4, [30, 60, 120, 240])


def test_a_frame_that_is_lost_begins_the_path_check_anew() -> None:
    found, offered = checked_path((29, 0), (9, 1), (29, 0), (99, 0))
    assert (found["sent"], offered) == ([128, 128], [30, 60, 60, 120])
    with pytest.raises(DutError, match="direction 0: 29 of 30"):
        checked_path((30, 1), within_s=0.2)


def test_one_frame_that_comes_back_shows_that_a_dut_lives() -> None:
    found, offered = checked_path((0, 0), (2, 0), least=1)
    assert (found["sent"], offered) == ([2, 2], [30, 60])


def test_a_tester_that_is_never_on_time_is_no_fault_of_the_dut() -> None:
    with pytest.raises(GeneratorError, match=r"not on time .* it gave others up"):
        checked_path((0, 0), within_s=0.2)


def test_a_dut_that_does_nothing_any_more_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: Any, timeout_s: float, least: int) -> None:
        assert timeout_s < 10
        assert least == 1
        raise DutError("the path check failed: 0 of 30", where="pvp", cure="see its log")

    monkeypatch.setattr(path_check, "check_path", silent)
    with pytest.raises(DutError, match="in direction 1, "):
        path_check.check_way_through(cast("LiveDeployment", Deployed()), ["1"])


@pytest.mark.parametrize("left", [(0,), (3, 0), (3, 3, 3)])
def test_a_trial_that_makes_sessions_begins_with_none(
    left: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is left is not made again, and counts as made; some NATs count with a delay."""
    monkeypatch.setattr(trial, "SESSIONS_END_S", 60.0 if 0 in left else 0.0)
    held = [64_512, *left]

    class Table(HasSessions):
        name = "cgnat"

        def sessions(self) -> int:
            return held.pop(0)

        def end_sessions(self) -> None:
            """What is left is in `held`."""

    deployed: Any = SimpleNamespace(vswitch=Table(), plan=SimpleNamespace(has_dut=True))
    if 0 in left:
        counts = trial.end_sessions(deployed)
        assert counts is not None
        assert counts.ended == 64_512
    else:
        with pytest.raises(DutError, match="3 of 64512 sessions are left"):
            trial.end_sessions(deployed)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("event", [None, LINK_DOWN.event])
def test_what_a_port_refuses_while_it_is_down_was_offered(
    event: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    none: Any = SimpleNamespace(
        stop=lambda: {"uncollected": {}}, gather=lambda: order.append("gathered")
    )
    dut = dict.fromkeys(("count", "start", "sent"), lambda *_: None)
    watch = SimpleNamespace(
        **dut,
        collectors=none,
        counted=lambda: {"uncollected": {}, "links_down": ("phy0",)},
        began_anew=False,
    )
    monkeypatch.setattr(trial, "DutWatch", lambda *_, **__: watch)
    monkeypatch.setattr(trial, "learn", lambda *_: order.append("learned"))
    counts = DirectionCounts(direction=0, intended=10, sent=7, refused=3, unsent=0, received=7)
    generator = SimpleNamespace(
        check_alive=lambda: None,
        links_down=tuple,
        port_counters=tuple,
        run=lambda *_: TrialResult(directions=(counts,), links_down=("tester port 1",)),
        # As generators have it on a wire of veth.
        refusal_is_loss=lambda spec: spec.event is not None,
    )
    deployed: Any = SimpleNamespace(
        generator=generator,
        plan=Counting().plan,
        check_alive=lambda: None,
    )
    spec = QUIET.model_copy(update={"event": event})
    found = run_part(deployed, spec, event_is_here=False).result
    assert found.lost(counts) == (0 if event is None else 3)
    assert found.links_down == ("tester port 1", "phy0")
    assert order == ["gathered", "learned"], "no frame is on its way while processors are gathered"


def test_links_that_were_down_for_a_while_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = Deployed()
    links = trial.LinkWatch(deployed)  # type: ignore[arg-type]  # as much of a generator as it sees
    links.look()
    assert not links.down  # it is not yet time
    monkeypatch.setattr(trial.time, "monotonic", lambda: deployed.began + 60)
    links.look()
    links.look(now=True)
    assert list(links.down) == ["tester port 0"]


def test_links_of_the_dut_that_went_down_between_two_looks_are_named() -> None:
    """Those of VNFs too: the tester's own links stay up then, and frames are lost."""
    links = dict.fromkeys(("t0", "d0", "s0a", "v0a", "d0 in host1"), 2) | {"t1": 3}
    deployed = SimpleNamespace(
        plan=SimpleNamespace(has_dut=True),
        machine=SimpleNamespace(
            links_by_place=lambda: {
                name: SimpleNamespace(carrier_changes=count) for name, count in links.items()
            }
        ),
        vswitch=SimpleNamespace(pollers=tuple),
        pollers=tuple,
        check_alive=lambda: None,
        counters=dict,
        dut_ends=[SimpleNamespace(netdev="d0", wire=0)],
        tester_ends=[SimpleNamespace(netdev="t0"), SimpleNamespace(netdev="t1")],
        _attachments=[SimpleNamespace(netdev="v0a", port=VnfPort(vnf=0, index=0))],
    )
    deployed.carrier_changes = lambda: LiveDeployment.carrier_changes(
        cast("LiveDeployment", deployed)
    )
    watch = trial.DutWatch(cast("LiveDeployment", deployed))
    watch.count()
    assert watch.links_down() == ()
    links.update(t0=4, d0=4)
    assert watch.links_down() == ("phy0",)
    links.update(s0a=4, v0a=4)
    assert watch.links_down() == ("phy0", "s0a", "vnf0.0")
    links["d0 in host1"] = 4  # another namespace's link of the same name
    assert watch.links_down() == ("phy0", "s0a", "vnf0.0", "d0 in host1")
    links["d0 in host1"] = 2
    del links["d0"]
    assert watch.links_down() == ("phy0", "s0a", "vnf0.0")
    deployed.plan.has_dut = False
    assert deployed.carrier_changes() == {}


def test_a_part_that_ends_in_the_wait_after_learning_frames_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "require_trial", lambda *_: None)

    class Learning(Deployed):
        """As much of a deployment as a trial sees before it sends."""

        plan = plan(scenario())
        looks = 0

        def check_alive(self) -> None:
            self.looks += 1
            if self.looks > 3:
                raise DutError("the switch has ended", where="switch")

        def prepare(self, size: int) -> None:
            del size

        def pollers(self) -> tuple[Any, ...]:
            return ()

        def cause(self, error: Exception) -> Exception:
            return error

    deployed = Learning()
    spec = TrialSpec(frame_size=64, load_fps=1, duration_s=1, learning_wait_s=60)
    result = trial.run_trial(cast("LiveDeployment", deployed), spec)
    assert "the switch has ended" in result.failure
    assert result.wall_s is not None
    assert result.wall_s < 30


def test_over_hosts_each_event_is_at_the_host_that_has_the_part() -> None:
    of_hosts = plan_of("pvp2pvp_bridge")
    for what, host in {
        "vswitch on east": "east",
        "vswitch on west": "west",
        "vnf0": "east",
        "vnf1": "west",
        "link phy1": "east",
        "link phy3": "west",
    }.items():
        part = events.locate_event(of_hosts, what)
        assert part is not None
        assert part.host == host
        assert str(events.parse_event(what)) == what.partition(" on ")[0]
        assert why_not(what, of_hosts) == ""
    assert "no host has vnf7" in why_not("vnf7", of_hosts)
    assert "no host has vswitch" in why_not("vswitch", of_hosts)  # which of the two?
    assert "no physical port vnf0.0" in why_not("link vnf0.0", of_hosts)
    apart = plan_of("phy2phy_bridge")
    assert why_not("vswitch", apart) == why_not("link phy0", apart) == ""


@pytest.mark.usefixtures("unchecked")
def test_an_event_of_another_hosts_trial_has_the_counters_begin_anew() -> None:
    deployed = Counting(has_tester=False)
    others = OtherHosts(sends={"elapsed_s": 0.2})
    spec = QUIET.model_copy(update={"event": EventSpec(what="vswitch", at_s=0.3)})
    part = run_part(deployed, spec, others)
    assert deployed.done == ["vswitch"]
    assert deployed.down  # of the tester at another host
    assert part.dut is not None
    assert "counters began anew" in part.dut.uncollected["hops"]
    assert 0.3 <= others.told["event"]["began_s"] <= others.told["event"]["ended_s"] < 30
    assert others.times["sent"] - others.times["sends"] >= 0.1  # the rest of the 0.3 s
    linked = run_part(Counting(has_tester=False), LINK_DOWN, OtherHosts(sends={"elapsed_s": 0.0}))
    assert linked.dut is not None
    assert "hops" not in linked.dut.uncollected
    none = run_part(Counting(has_tester=False), LINK_DOWN, unsent := OtherHosts())
    assert none.dut is not None
    assert "event" not in unsent.told  # the tester ended before anybody saw it send


@pytest.mark.parametrize(
    ("received", "words"),
    [
        ((1, 0), "nothing came back from the external DUT their bridge on the way t1 to t0"),
        ((0, 0), "on the way t0 to t1 and t1 to t0"),
        ((1, 1), "not all came back from the external DUT their bridge"),
    ],
)
def test_a_dut_without_counters_that_forwards_nothing_is_named_with_the_way(
    received: tuple[int, int], words: str
) -> None:
    directions = tuple(
        DirectionCounts(direction=n, intended=2, sent=2, refused=0, unsent=0, received=came)
        for n, came in enumerate(received)
    )
    deployment = SimpleNamespace(
        vswitch=SimpleNamespace(elsewhere=True, facts=lambda: {"name": "their bridge"}),
        tester_ends=[SimpleNamespace(netdev=f"t{n}", wire=n) for n in (0, 1)],
        generator=SimpleNamespace(links_down=lambda: ()),
        plan=plan(scenario()),
    )
    result = TrialResult(directions=directions)
    found = path_check.make_path_error(cast("LiveDeployment", deployment), result, {})
    assert words in str(found)
    assert "[[external.ports]]" in found.cure


def test_a_port_that_counts_less_than_before_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a driver that was reset: nothing is said of where frames were lost, and it is told."""
    monkeypatch.setattr("vnetperf.deployment.trial.CollectorSession", MagicMock())
    ports = {
        name: HopCounters(port=name, rx=1000, tx=1000, rx_dropped=7, causes={"full": 7})
        for name in ("phy0", "phy1")
    }
    deployed = MagicMock(counters=lambda: dict(ports), carrier_changes=dict)
    watch = trial.DutWatch(deployed)
    watch.count()
    ports["phy0"] = HopCounters(port="phy0", rx=90, tx=1000)
    # Frames that were under way have gone out since: fewer are missing than before.
    ports["phy1"] = HopCounters(port="phy1", rx=1100, tx=1100, rx_dropped=3, causes={"full": 3})
    counted = watch.counted()
    assert counted["hops"] == (HopCounters(port="phy1", rx=100, tx=100),)
    assert "phy0: it counts less than before" in counted["uncollected"]["hops"]
    ports["phy0"] = HopCounters(port="phy0", rx=1001, tx=1000, rx_dropped=7)
    counted = watch.counted()
    assert [hop.port for hop in counted["hops"]] == ["phy0", "phy1"]
    assert "hops" not in counted["uncollected"]


def test_a_thread_that_counts_less_than_before_has_done_nothing_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vnetperf.deployment.trial.CollectorSession", MagicMock())
    work = DatapathWork(thread="core 1", packets=500, busy_cycles=9000, idle_cycles=10)
    deployed = MagicMock(vswitch=MagicMock(datapath_work=lambda: (work,)))
    watch = trial.DutWatch(deployed)
    watch.start()
    work = work.model_copy(update={"packets": 20, "busy_cycles": 80})
    counted = watch.counted()
    assert counted["datapath"] == ()
    assert "counts less than before" in counted["uncollected"]["datapath"]
