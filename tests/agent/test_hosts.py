"""Several agents driven as one: order, what becomes of the others when one fails, merged counts."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tests.fakes.machine import facts
from tests.planning.test_hosts import of_machines, plan_of_machines
from vnetperf import config
from vnetperf.agent import client as agent
from vnetperf.agent.counts import merge_counts, merge_parts
from vnetperf.agent.hosts import TestbedClient
from vnetperf.deployment import transfers
from vnetperf.deployment.trial import PartEndedError
from vnetperf.model.errors import CapabilityError, DutError, HostError, full_text
from vnetperf.model.machine_load import (
    EnergyUse,
    MachineLoad,
    OtherThreads,
    ProcessorLoad,
    ThreadLoad,
)
from vnetperf.model.result import ScenarioFacts
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import ClockOffset, ClockSync, MachineFacts, Program, Testbed
from vnetperf.model.transfer import Figures, TransferSpec
from vnetperf.model.trial import (
    DirectionCounts,
    EventSpec,
    EventTimes,
    Gaps,
    HopCounters,
    Latency,
    PartResult,
    PortCounts,
    TrialGaps,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.networks import kubernetes
from vnetperf.planning.planner import make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.endpoint_tool import EndpointTool, Sockets, ToolOutput
from vnetperf.procedures.cpu_load import cpu_by_role
from vnetperf.runner.scenarios import make_scenario

SPEC = TrialSpec(frame_size=64, load_fps=1000, duration_s=0.1, learning_frames=8)
#: Phases whose calls are made to all hosts at the same time.
TOGETHER = (
    "plug_nics",
    "bring_up",
    "facts",
    "inventory",
    "run_trial",
    "watch",
)


class FakeHost:
    """An agent's client; what all of them are called for stands in one list."""

    calls: ClassVar[list[tuple[str, str]]] = []
    answers: ClassVar[dict[tuple[str, str], Any]] = {}
    events: ClassVar[list[tuple[str, str]]] = []
    windows: ClassVar[list[tuple[str, TrialWindow]]] = []
    #: Host -> time until it receives, seconds, at its first trials.
    late_s: ClassVar[dict[str, list[float]]] = {}
    clocks_at_end: ClassVar[dict[str, ClockSync]] = {}
    echoes: ClassVar[dict[str, tuple[tuple[int, int, int], ...]]] = {}
    brought: ClassVar[dict[str, Any]] = {}
    sent: ClassVar[dict[str, TrialSpec]] = {}

    def __init__(self, testbed: Testbed, *_: Any, read_only: bool = False) -> None:
        self.testbed, self.read_only = testbed, read_only
        self.name = testbed.agent.netns_host or testbed.agent.transport.removeprefix("ssh=")
        self.given_up = False
        self.parts: list[str] = []
        self.on_meet: Callable[[dict[str, Any]], Any] = lambda event: {}
        self.restored: list[Any] = []
        self.troubles = ("a link",) if self.name == "west" else ()
        self.deployed = self.gone = False
        self.on_event: Callable[[dict[str, Any]], None] = lambda event: None

    def call(self, name: str, *, length_s: float = 0.0, **args: Any) -> Any:
        del length_s
        if self.gone and self.given_up:
            raise HostError("no agent is started: calls are being ended")
        if self.gone:
            self.calls.append((self.name, "a new agent"))
        self.gone = False
        self.calls.append((self.name, name))
        self.deployed |= name == "open"
        if name == "bring_up":
            self.brought[self.name] = args
        if name == "open":
            self.parts = args["plan"]["parts"]
        answer = self.answers.get((self.name, name))
        if isinstance(answer, BaseException):
            raise answer
        usual: dict[str, Callable[[], Any]] = {
            "open": lambda: f"/run/{self.name}/netns",
            "lay_cables": lambda: {n: f"{far}#{n}" for n, far in args["cables"].items()},
            "check_path": lambda: {"sent": [1, 1]},
            "facts": self.facts,
            "counters": lambda: {},
            "open_end": lambda: {
                "what": f"namespace at port {args['number']}",
                **{"netdev": "e", "processors": "1"},
            },
            "drive_end": lambda: self.drive_end(**args),  # type: ignore[attr-defined]  # of a fixture
            "watch": lambda: TrialResult(directions=()).model_dump(mode="json"),
        }
        if name == "run_trial":
            try:
                return self.run_part(answer, **args).model_dump(mode="json")
            except PartEndedError:
                return PartResult(result=TrialResult(directions=())).model_dump(mode="json")
        return answer if answer is not None else usual.get(name, lambda: None)()

    def facts(self) -> Any:
        own = {"vswitch": {"on": self.name}, "vnfs": [{"on": self.name}], "wire": "veth"}
        return ScenarioFacts(scenario="v2p2v_bridge", facts=own).model_dump(mode="json")

    def require_fit(self) -> None:
        answer = self.answers.get((self.name, "hello"))
        if isinstance(answer, BaseException):
            raise answer

    def clock_offset(self) -> ClockOffset | None:
        return ClockOffset(offset_s=2.0, bound_s=0.1) if self.name == "west" else None

    def clock_sync(self) -> ClockSync:
        self.calls.append((self.name, "clock_sync"))
        return ClockSync(why=f"no chronyc on {self.name}")

    def inventory(self) -> MachineFacts:
        self.calls.append((self.name, "inventory"))
        return facts().model_copy(update={"record": {"of": self.name}})

    def run_part(
        self, answer: PartResult | None, spec: Any, *, event_is_here: bool, **args: Any
    ) -> PartResult:
        """What `run_part` of an agent does, as far as others see it."""
        trial = self.sent[self.name] = TrialSpec.model_validate(spec)
        sends, nothing = "tester" in self.parts, TrialResult(directions=())
        if answer is not None and answer.result.failed:
            return answer
        here = trial.event if event_is_here else None
        times = None
        if here is not None:
            times = EventTimes(what=here.what, began_s=here.at_s, ended_s=here.at_s + 0.05)
        self.meet("learned")
        self.meet("ready")
        if args["window"] is not None:
            window = TrialWindow.model_validate(args["window"])
            self.windows.append((self.name, window))
            half_result = self.send_half(trial, window)
            return answer or half_result
        if trial.event is not None and not (sends and here):
            began = self.meet("sends", **({"elapsed_s": 0.1} if sends else {}))
            assert began == {"elapsed_s": 0.1}
        if here is not None:
            self.events.append((self.name, here.what))
        news = self.meet("sent", **({} if times is None else {"event": times}))
        time.sleep(self.late_s.get(self.name, [0.0])[0])
        self.meet("counted")
        if answer is not None:
            return answer
        if not sends:
            return PartResult(result=nothing, dut=nothing)
        return PartResult(result=nothing.model_copy(update={"event": news.get("event")}))

    def meet(self, point: str, **news: Any) -> Any:
        all_news = self.on_meet({"point": point, "news": news})
        if all_news is None:
            raise PartEndedError
        return all_news

    def send_half(self, spec: TrialSpec, window: TrialWindow) -> PartResult:
        """What a host with one of the tester's ports counts."""
        own, late_s = int(self.name == "west"), self.late_s.get(self.name, [])
        time.sleep(late_s.pop(0) if late_s else 0.0)
        self.on_event({"event": "receives"})
        frames = round(spec.load_fps * spec.duration_s)
        counts = {"elapsed_s": 0.01, "sent": frames, "refused": 0, "received": frames}
        self.on_event({"event": "live", "counts": counts})
        return PartResult(
            result=half(own, frames),
            dut=TrialResult(directions=()),
            sent_s=spec.duration_s,
            open_s=spec.duration_s + spec.drain_s + window.lead_s,
            drift_s=1e-8 if window.two_clocks else None,
            clock=self.clocks_at_end.get(self.name) if window.kept else None,
            marks=3 if window.two_clocks else 0,
            echoes=self.echoes[self.name] if window.two_clocks else (),
        )

    def teardown(self) -> list[str]:
        if self.deployed:
            self.calls.append((self.name, "teardown"))
        self.deployed = False
        answer = self.answers.get((self.name, "teardown"))
        if isinstance(answer, BaseException):
            raise answer
        return []

    def abort(self) -> None:
        self.gone = True
        self.calls.append((self.name, "abort"))

    def close(self) -> None:
        self.calls.append((self.name, "close"))


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> TestbedClient:
    monkeypatch.setattr(agent, "AgentClient", FakeHost)
    monkeypatch.setattr(FakeHost, "calls", [])
    monkeypatch.setattr(FakeHost, "answers", {})
    monkeypatch.setattr(FakeHost, "events", [])
    monkeypatch.setattr(FakeHost, "late_s", {})
    monkeypatch.setattr(FakeHost, "windows", [])
    monkeypatch.setattr(FakeHost, "echoes", {"east": (), "west": ()})
    monkeypatch.setattr(FakeHost, "clocks_at_end", {})
    return TestbedClient(config.load({"testbed": "two-hosts"}).testbed)


def half(own: int, frames: int, ns: float = 1000.0) -> TrialResult:
    """What the host of a port counts: it sends frames of one direction, and gets the other's."""
    latency = Latency(count=frames, min_ns=ns, mean_ns=ns, max_ns=ns)

    def direction(number: int) -> DirectionCounts:
        sends = number == own
        return DirectionCounts(
            direction=number,
            **{"intended": frames * sends, "sent": frames * sends, "refused": 0, "unsent": 0},
            received=frames * (not sends),
            tx_seconds=0.1 * sends,
            latency=None if sends else latency,
        )

    port = PortCounts(port=own, missed=0, no_buffers=0, errors=0)
    return TrialResult(
        directions=(direction(0), direction(1)),
        **{"foreign": {"0": own, "1": 1 - own}, "tester": (port,), "corrupted": 0},
    )


def plan(
    hosts: TestbedClient,
    name: str = "v2p2v_bridge",
    *,
    sockets: bool = False,
    one_boot: bool = True,
    clock: ClockSync | None = None,
) -> Plan:
    loaded = config.load({"testbed": "two-hosts", "preset": "smoke"})
    found = hosts.inventory()
    boots = {
        h: f.model_copy(update={"boot": "1" if one_boot else h, "clock": clock})
        for h, f in found.hosts.items()
    }
    FakeHost.calls.clear()
    scenario = make_scenario(name, loaded).model_copy(update={"sockets": sockets})
    return make_plan(scenario, loaded.testbed, found.model_copy(update={"hosts": boots}))


def called() -> list[tuple[str, str]]:
    """Calls in their order; those made at the same time by name of the host."""
    found = FakeHost.calls
    return [call for _, call in sorted(enumerate(found), key=lambda at: _place(found, *at))]


def _place(calls: list[tuple[str, str]], number: int, call: tuple[str, str]) -> tuple[int, str]:
    if call[1] not in TOGETHER:
        return number, ""
    while number and calls[number - 1][1] == call[1]:
        number -= 1
    return number, call[0]


def test_one_host_has_one_agent_and_its_facts_are_those_of_the_testbed(
    hosts: TestbedClient,
) -> None:
    del hosts  # its doubles stand for one host too
    single = TestbedClient(Testbed())
    assert [*single.clients] == [""]
    assert single.inventory().record == {"of": "local"}
    loaded = config.load({"preset": "smoke"}, environment={})
    planned = make_plan(make_scenario("phy2phy_bridge", loaded), loaded.testbed, facts())
    FakeHost.calls.clear()
    deployed = single.deploy(planned)
    assert [call for _, call in called()] == ["open", "bring_up", "check_path", "facts"]
    assert deployed.facts == {"vswitch": {"on": "local"}, "vnfs": [{"on": "local"}], "wire": "veth"}
    FakeHost.answers["local", "check_path"] = DutError("no", where="a place")
    with pytest.raises(DutError) as failed:
        single.deploy(planned)
    assert failed.value.where == "a place"  # no host is named where there is one
    assert called()[-1] == ("local", "teardown")


def test_a_deployment_may_last_as_long_as_pods_of_a_cluster_take_to_start(
    hosts: TestbedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    del hosts
    lengths: list[float] = []
    call = FakeHost.call

    def timed(client: FakeHost, name: str, *, length_s: float = 0.0, **args: Any) -> Any:
        if name == "bring_up":
            lengths.append(length_s)
        return call(client, name, length_s=length_s, **args)

    monkeypatch.setattr(FakeHost, "call", timed)
    loaded = config.load({"preset": "smoke"}, environment={})
    single = TestbedClient(loaded.testbed)
    for name in ("bridge", "kubernetes"):
        made = make_scenario(f"bmp2bmp_{name}", loaded)
        single.deploy(Plan.model_construct(scenario=made, testbed=loaded.testbed))
    waits = kubernetes.START_S * 3  # pod 0, and pod 1 twice
    assert lengths[1] - lengths[0] >= waits + kubernetes.GONE_S


def test_facts_of_every_host_stand_beside_those_of_one(hosts: TestbedClient) -> None:
    found = hosts.inventory()
    assert set(found.hosts) == {"east", "west"}
    assert found.record == {"of": "west", "host": "west", "other hosts": {"east": {"of": "east"}}}
    assert hosts.troubles == ("host west: a link",)


def test_a_host_that_is_not_there_is_named_before_any_is_looked_at(hosts: TestbedClient) -> None:
    FakeHost.answers["west", "hello"] = HostError("cannot be reached", where="ssh=x")
    with pytest.raises(HostError) as failed:
        hosts.inventory()
    assert failed.value.where == "host west, ssh=x"
    assert called() == []


def test_all_hosts_that_cannot_be_had_are_named_at_once(hosts: TestbedClient) -> None:
    FakeHost.answers["east", "hello"] = HostError("its clock is 365 days behind", where="ssh=x")
    FakeHost.answers["west", "hello"] = HostError("no Python", where="ssh=y", cure="install it")
    with pytest.raises(HostError) as failed:
        hosts.inventory()
    text = full_text(failed.value)
    for words in ("host east, ssh=x", "365 days", "host west, ssh=y", "no Python", "install it"):
        assert words in text


def test_a_full_disk_of_one_host_has_the_others_restored(hosts: TestbedClient) -> None:
    planned = plan(hosts)
    FakeHost.answers["west", "open"] = HostError("a disk is full (/run/x)", cure="make room")
    with pytest.raises(HostError, match="a disk is full") as failed:
        hosts.deploy(planned)
    assert failed.value.where == "host west"
    assert ("east", "teardown") in called()


def test_clocks_are_those_of_hosts_on_other_machines(hosts: TestbedClient) -> None:
    assert hosts.clocks() == {"west": ClockOffset(offset_s=2.0, bound_s=0.1)}


def test_hosts_are_taken_in_the_order_of_their_names_and_given_back_in_the_other(
    hosts: TestbedClient,
) -> None:
    deployed = hosts.deploy(plan(hosts))
    assert called() == [
        ("east", "open"),
        ("west", "open"),
        ("west", "lay_cables"),
        ("east", "bring_up"),
        ("west", "bring_up"),
        ("west", "counters"),
        ("east", "check_path"),
        ("east", "facts"),
        ("west", "facts"),
    ]
    assert deployed.facts["vswitch"] == {"on": "east"}
    assert deployed.facts["vnfs"] == [{"on": "east"}, {"on": "west"}]
    assert deployed.facts["hosts"]["west"]["parts"] == "dut"
    FakeHost.calls.clear()
    hosts.teardown()
    assert called() == [("west", "teardown"), ("east", "teardown")]


@pytest.mark.parametrize("same", [True, False])
def test_facts_tell_which_hosts_are_one_machine(
    hosts: TestbedClient, monkeypatch: pytest.MonkeyPatch, *, same: bool
) -> None:
    seen = FakeHost.inventory
    monkeypatch.setattr(
        FakeHost,
        "inventory",
        lambda self: seen(self).model_copy(update={"boot": "one" if same else self.name}),
    )
    found = hosts.deploy(plan(hosts)).facts["hosts"]
    machines = {name: host["machine of"] for name, host in found.items()}
    assert machines == {"east": "east", "west": "east" if same else "west"}


def test_nics_of_cables_are_plugged_on_all_machines_before_anything_starts(
    hosts: TestbedClient,
) -> None:
    del hosts  # its doubles stand for machines too
    machines = TestbedClient(of_machines())
    FakeHost.answers["a", "plug_nics"] = {}
    FakeHost.answers["b", "plug_nics"] = {"0": 512, "1": None}
    machines.deploy(plan_of_machines("phy2phy_bridge"))
    names = [name for _, name in FakeHost.calls]
    assert "lay_cables" not in names
    assert max(n for n, name in enumerate(names) if name == "plug_nics") < names.index("bring_up")
    # The tester learns what the DUT's NICs hold from the agent of their host.
    assert FakeHost.brought["a"] == {"cables": {}, "rings": {"0": 512, "1": None}}


@pytest.mark.parametrize(
    "where",
    [("west", "open"), ("west", "lay_cables"), ("west", "bring_up"), ("east", "check_path")],
)
def test_when_one_host_fails_every_host_is_restored(
    hosts: TestbedClient, where: tuple[str, str]
) -> None:
    planned = plan(hosts)
    FakeHost.answers[where] = DutError("no", where="a place")
    with pytest.raises(DutError) as failed:
        hosts.deploy(planned)
    assert failed.value.where == f"host {where[0]}, a place"
    assert called()[-2:] == [("west", "teardown"), ("east", "teardown")]


def test_one_that_cannot_be_restored_keeps_no_other_from_being(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.answers["west", "teardown"] = HostError("gone")
    with pytest.raises(HostError, match="gone"):
        hosts.teardown()
    assert ("east", "teardown") in called()


def test_a_trial_has_the_counters_of_all_hosts_around_it(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.calls.clear()
    result = hosts.run_trial(SPEC.model_copy(update={"profile": True}))
    assert "several hosts" in result.uncollected["profile"]
    assert called() == [("east", "run_trial"), ("west", "run_trial")]


def test_a_tester_on_two_hosts_sends_and_receives_as_one(hosts: TestbedClient) -> None:
    deployed = hosts.deploy(plan(hosts, "p2c2p_bridge"))
    assert deployed.path_check["received"] == [30, 30]
    assert "port 0 on east, port 1 on west" in deployed.facts["ports of the tester"]
    FakeHost.calls.clear()
    live: list[dict[str, Any]] = []
    for client in hosts.clients.values():
        client.on_event = live.append
    result = hosts.run_trial(SPEC)
    assert called() == [("east", "run_trial"), ("west", "run_trial")]
    for direction in result.directions:
        assert (direction.intended, direction.sent, direction.received) == (100, 100, 100)
        assert direction.tx_seconds == 0.1
        assert direction.latency is not None
    assert result.worst_loss_ratio() == 0.0
    assert result.foreign == {"0": 1, "1": 1}
    assert [port.port for port in result.tester] == [0, 1]
    assert {one["counts"]["sent"] for one in live} <= {200}
    numbers = [window.number for _, window in FakeHost.windows]
    assert numbers == [1, 1, 2, 2]  # the path check's, and the trial's


def test_what_one_host_sent_before_the_other_received_is_no_loss(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge"))
    FakeHost.late_s["west"] = [0.3]
    FakeHost.calls.clear()
    result = hosts.run_trial(SPEC)
    assert not result.failed
    tries = [window.lead_s for host, window in FakeHost.windows if host == "west"]
    assert tries[-2:] == [0.2, 0.4]  # repeated with more time
    assert called().count(("west", "run_trial")) == 2
    hosts.run_trial(SPEC)
    assert FakeHost.windows[-1][1].lead_s == 0.2  # all trials drain alike


def test_a_host_that_stops_receiving_too_early_counts_no_loss(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge"))
    FakeHost.answers["west", "run_trial"] = PartResult(result=half(1, 100), sent_s=0.1, open_s=0.1)
    result = hosts.run_trial(SPEC)
    assert result.failed == "generator"
    assert "host west ended" in result.failure
    assert "frames of east" in result.failure


@pytest.mark.parametrize("side", ["east", "west"])
def test_a_part_of_the_tester_that_fails_is_named(hosts: TestbedClient, side: str) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge"))
    failed = TrialResult(directions=(), failed="generator", failure="the engine has ended")
    FakeHost.answers[side, "run_trial"] = PartResult(result=failed)
    result = hosts.run_trial(SPEC)
    assert (result.failed, result.failure) == ("generator", f"host {side}: the engine has ended")


DAY_NS = 86_400 * 10**9
#: West's clock is a day ahead: 10 us forth, 20 us back, and held for 1, 2 and 3 us between.
OF_EAST = tuple((0, DAY_NS + 11_000 + held, 31_000 + held) for held in (1_000, 2_000, 3_000))
OF_WEST = tuple((1_000, DAY_NS + 11_000 + held, held) for held in (1_000, 2_000, 3_000))


def test_between_two_clocks_the_round_trip_is_measured(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge", one_boot=False))
    # One answer was lost on its way, and one came that nobody here had sent.
    # One was held until the other host began to send.
    late = (1_000, DAY_NS + 7, 20_000_000)
    FakeHost.echoes = {
        "east": (*OF_EAST[:2], (0, 5, 10**9), (0, DAY_NS + 7, 21_000_000)),
        "west": (*OF_WEST, late),
    }
    result = hosts.run_trial(SPEC.model_copy(update={"ipdv": True}))
    assert all(window.two_clocks and not window.kept for _, window in FakeHost.windows[-2:])
    assert not any(sent.ipdv for sent in FakeHost.sent.values())
    assert [d.latency for d in result.directions] == [None, None]
    assert [d.received for d in result.directions] == [100, 100]
    assert "by the clock of its own machine" in result.uncollected["latency"]
    assert result.uncollected["latency"].endswith("; the round trip is")
    both_ways = result.round_trip
    assert both_ways is not None
    assert (both_ways.asked, both_ways.latency.count) == (3, 2)
    assert both_ways.latency.min_ns == both_ways.latency.max_ns == 30_000
    assert both_ways.latency.percentiles["50"] == 30_000
    assert both_ways.held_s == 2e-6
    assert both_ways.uncertainty_s == pytest.approx(32e-9)  # a thousandth of 30 us, and of 2


#: Times that west held frames for, each too long.
LATE_NS = (10_000_001, 20_000_000)


@pytest.mark.parametrize(
    "echoes",
    [
        {"east": (), "west": OF_WEST},
        {"east": OF_EAST, "west": ()},
        {
            "east": tuple((0, DAY_NS + 11_000 + held, 31_000 + held) for held in LATE_NS),
            "west": tuple((1_000, DAY_NS + 11_000 + held, held) for held in LATE_NS),
        },
    ],
)
def test_without_an_answer_in_time_there_is_no_round_trip(
    hosts: TestbedClient, echoes: dict[str, tuple[tuple[int, int, int], ...]]
) -> None:
    """As where frames go one way alone."""
    hosts.deploy(plan(hosts, "p2c2p_bridge", one_boot=False))
    FakeHost.echoes = echoes
    result = hosts.run_trial(SPEC)
    assert result.round_trip is None
    why = "nor is the round trip: no frame was answered within 10 ms whose answer came back"
    assert why in result.uncollected["latency"]


def test_one_clock_tells_each_way_and_nobody_asks(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge"))
    FakeHost.echoes = {"east": OF_EAST, "west": OF_WEST}
    result = hosts.run_trial(SPEC.model_copy(update={"ipdv": True}))
    assert not FakeHost.windows[-1][1].two_clocks
    assert all(sent.ipdv for sent in FakeHost.sent.values())
    assert result.round_trip is None
    assert all(d.latency is not None for d in result.directions)


def by_chrony(bound_s: float) -> ClockSync:
    return ClockSync(service="chrony", reference="UTC", bound_s=bound_s)


def test_latency_between_clocks_that_are_kept_together_has_their_bound(
    hosts: TestbedClient,
) -> None:
    """By what each host has read when the trial was over, with what its stamps drifted."""
    deployed = plan(hosts, "p2c2p_bridge", one_boot=False, clock=by_chrony(1e-4))
    assert deployed.clock_bound_s == 2e-4
    hosts.deploy(deployed)
    FakeHost.clocks_at_end |= {"east": by_chrony(2e-7), "west": by_chrony(1e-7)}
    result = hosts.run_trial(SPEC)
    assert FakeHost.windows[-1][1].two_clocks
    assert FakeHost.windows[-1][1].kept
    assert [d.latency is not None for d in result.directions] == [True, True]
    assert result.clock_bound_s == pytest.approx(3.2e-7)
    assert "latency" not in result.uncollected


@pytest.mark.parametrize(
    ("west", "why"),
    [
        (
            by_chrony(2e-6),
            "may be 2.22 us apart, and the shortest time of a frame between them is 1",
        ),
        (ClockSync(why="chrony: not synchronised"), "west: chrony: not synchronised"),
        (ClockSync(service="ptp4l", reference="another", bound_s=1e-9), "west: it follows another"),
        (None, "was not measured"),
    ],
)
def test_latency_that_clocks_cannot_tell_is_left_out(
    hosts: TestbedClient, west: ClockSync | None, why: str
) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge", one_boot=False, clock=by_chrony(1e-7)))
    FakeHost.clocks_at_end |= {"east": by_chrony(2e-7)} | ({"west": west} if west else {})
    result = hosts.run_trial(SPEC)
    assert [d.latency for d in result.directions] == [None, None]
    assert [d.received for d in result.directions] == [100, 100]
    assert result.clock_bound_s is None
    assert why in result.uncollected["latency"]


@pytest.mark.parametrize("before_departure", [3, None])  # some of them, all of them
def test_frames_that_arrive_before_they_leave_show_that_clocks_are_apart(
    before_departure: int | None,
) -> None:
    """One direction would be cut off below, or have none, and the other would stand."""
    east, west = half(0, 100), half(1, 100, ns=7000.0)
    cut = east.directions[1].latency
    if cut is not None and before_departure is not None:
        cut = cut.model_copy(update={"before_departure": before_departure})
    own, other = east.directions
    early = other.model_copy(update={"latency": None if before_departure is None else cut})
    east = east.model_copy(update={"directions": (own, early)})
    parts = {
        "east": PartResult(result=east, clock=by_chrony(1e-7), drift_s=0.0),
        "west": PartResult(result=west, clock=by_chrony(1e-7), drift_s=0.0),
    }
    found = merge_parts(parts, clock_bound_s=2e-7)
    assert [d.latency for d in found.directions] == [None, None]
    assert "arrived before they had left" in found.uncollected["latency"]


@pytest.mark.parametrize(
    ("rings", "frames"), [((2048, 512), 512), ((2048, None), None), ((None, None), None)]
)
def test_of_the_rings_that_two_hosts_send_into_the_smaller_is_known(
    rings: tuple[int | None, int | None], frames: int | None
) -> None:
    parts = {}
    for number, (host, ring) in enumerate(zip(("east", "west"), rings, strict=True)):
        gaps = Gaps(max_s=0.0)
        known = TrialGaps(poll=gaps, send=gaps, catch_up_frames=1024, ring_frames=ring)
        result = half(number, 100).model_copy(update={"gaps": known})
        parts[host] = PartResult(result=result, clock=by_chrony(1e-7), drift_s=0.0)
    found = merge_parts(parts, clock_bound_s=2e-7)
    assert found.gaps is not None
    assert found.gaps.ring_frames == frames


@pytest.mark.parametrize(
    "more", [{"bin_s": 0.01}, {"event": EventSpec(what="vswitch on west", at_s=1.0)}]
)
def test_what_needs_one_beginning_is_refused_of_a_tester_on_two_hosts(
    hosts: TestbedClient, more: dict[str, Any]
) -> None:
    hosts.deploy(plan(hosts, "p2c2p_bridge"))
    with pytest.raises(CapabilityError, match="count frames over time"):
        hosts.run_trial(SPEC.model_copy(update=more))


def test_a_host_that_is_gone_in_a_trial_has_the_others_restored(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.calls.clear()
    FakeHost.answers["west", "run_trial"] = HostError("the agent ended", where="netns=west")
    with pytest.raises(HostError, match="the agent ended") as failed:
        hosts.run_trial(SPEC)
    assert failed.value.where == "host west, netns=west"
    assert called()[-2:] == [("west", "teardown"), ("east", "teardown")]
    with pytest.raises(HostError, match="no scenario is deployed"):
        hosts.run_trial(SPEC)


def dead_part(failure: str) -> PartResult:
    return PartResult(result=TrialResult(directions=(), failed="dut", failure=failure))


def test_a_dead_dut_is_seen_before_traffic(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.answers["west", "run_trial"] = dead_part("vnf0 has ended")
    result = hosts.run_trial(SPEC)
    assert (result.failed, result.failure) == ("dut", "host west: vnf0 has ended")


def test_ctrl_c_has_every_agent_clean_up_now(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.calls.clear()
    FakeHost.answers["east", "run_trial"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        hosts.run_trial(SPEC)
    assert called()[-2:] == [("west", "abort"), ("east", "abort")]


def test_all_agents_are_ended(hosts: TestbedClient) -> None:
    hosts.close()
    assert called() == [("west", "close"), ("east", "close")]


def counts(port: str) -> TrialResult:
    thread = ThreadLoad(role="pmd", thread="pmd-c01", cpu=1, user=0.5, system=0.1)
    hop = HopCounters(port=port, rx=3)
    return TrialResult(
        directions=(), hops=(hop,), threads=(thread,), uncollected={"perf": "no right"}
    )


def test_counts_of_all_hosts_are_one_result() -> None:
    direction = DirectionCounts(direction=0, intended=3, sent=3, refused=0, unsent=0, received=3)
    tester = counts("phy0").model_copy(update={"directions": (direction,)})
    flapped = counts("phy2").model_copy(update={"links_down": ("phy2",)})
    merged = merge_counts(tester, {"west": flapped})
    assert merged.links_down == ("phy2 on west",)
    assert merged.directions == (direction,)
    assert [hop.port for hop in merged.hops] == ["phy0", "phy2"]
    assert [one.thread for one in merged.threads] == ["pmd-c01", "west: pmd-c01"]
    assert [(use.role, use.user) for use in cpu_by_role(merged)] == [
        *(("pmd", 0.5), ("west:pmd", 0.5)),
    ]
    assert merged.uncollected == {"perf": "no right", "west: perf": "no right"}


def test_a_dut_that_died_at_another_host_is_the_cause() -> None:
    dead = TrialResult(directions=(), failed="dut", failure="vnf0 has ended")
    merged = merge_counts(counts("phy0"), {"west": dead})
    assert (merged.failed, merged.failure) == ("dut", "host west: vnf0 has ended")


class FakeTool(EndpointTool):
    """A tool whose server listens at once, and whose client sends one octet a second."""

    name, programs, kinds = "fake", (Program(name="fake"),), ("TCP_STREAM",)
    version_argv = ("fake", "--version")

    def server(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        return ("fake", "--server", at.server)

    def client(self, at: Sockets, spec: TransferSpec) -> tuple[str, ...]:
        return ("fake", "--client", at.server, at.client)

    def read(self, output: ToolOutput, spec: TransferSpec) -> Figures:
        return Figures(bits_per_second=8.0)


@pytest.fixture
def ends(hosts: TestbedClient, monkeypatch: pytest.MonkeyPatch) -> TestbedClient:
    """Hosts with an endpoint each, where programs end at the second look."""
    monkeypatch.setattr(registry, "load", lambda family, name, load=registry.load: (
        FakeTool if name == "fake" else load(family, name)
    ))  # fmt: skip
    monkeypatch.setattr(transfers, "listening_ports", lambda place, *, udp: ports)
    monkeypatch.setattr("vnetperf.agent.hosts.LOOK_AGAIN_S", 0.0)
    hosts.deploy(plan(hosts, "p2c2p_bridge", sockets=True))
    FakeHost.calls.clear()
    ports: set[int] = set()

    def drive_end(host: FakeHost, do: str, **args: Any) -> Any:
        started = host.__dict__.setdefault("started", [])
        if do == "start":
            started.append(args["argv"])
            if "--server" in args["argv"]:
                ports.update(range(5000, 30_001))
            return len(started) - 1
        looks = host.__dict__.setdefault("looks", [])
        looks += ["look"] * (do == "look")
        ended = 0 if len(looks) > 3 else None
        codes = [None if "--server" in argv else ended for argv in started]
        usual = {"look": [codes, len(looks)], "cpu": [0.5, 0.25], "output": "text", "run": "1.0"}
        return usual.get(do)

    monkeypatch.setattr(FakeHost, "drive_end", drive_end, raising=False)
    return hosts


SPECS = [TransferSpec(tool="fake", kind="TCP_STREAM", duration_s=1).model_dump(mode="json")]


def test_endpoints_on_two_hosts_talk(ends: TestbedClient) -> None:
    (found,) = ends.call("transfer", specs=SPECS, server="far")
    assert found["bits_per_second"] == 8.0
    assert (found["client"]["place"], found["server"]["place"]) == (
        *("namespace at port 0 on east", "namespace at port 1 on west"),
    )
    assert (found["client"]["user_s"], found["server"]["user_s"]) == (0.5, 0.0)
    east, west = (client.__dict__["started"] for client in ends.clients.values())
    assert east == [["fake", "--client", "198.19.0.1", "198.18.0.1"]]
    assert west == [["fake", "--server", "198.19.0.1"]]
    assert found["machine_busy_s"] is not None  # both hosts are of this machine
    assert called()[:2] == [("east", "open_end"), ("west", "open_end")]
    assert called()[-2:] == [("west", "close_end"), ("east", "close_end")]


def test_processor_time_of_other_machines_is_not_this_ones(ends: TestbedClient) -> None:
    other = ends.testbed.hosts["west"].model_copy(update={"transport": "ssh=west"})
    hosts = {**ends.testbed.hosts, "west": other}
    ends.testbed = ends.testbed.model_copy(update={"hosts": hosts})
    (found,) = ends.call("transfer", specs=SPECS, server="far")
    assert found["machine_busy_s"] is found["machine_interrupts_s"] is None


def test_a_part_that_died_on_either_host_is_the_cause(ends: TestbedClient) -> None:
    FakeHost.answers["west", "check_alive"] = DutError("ovs-vswitchd has ended")
    FakeHost.answers["east", "open_end"] = DutError("nothing has arrived")
    with pytest.raises(DutError, match="ovs-vswitchd has ended") as failed:
        ends.call("transfer", specs=SPECS, server="far")
    assert failed.value.where == "host west"


@pytest.mark.parametrize("where", ["start", "look", "open_end", "check_alive", "between calls"])
def test_ctrl_c_while_endpoints_on_two_hosts_talk_starts_no_agent(
    where: str, ends: TestbedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    usual = FakeHost.__dict__["drive_end"]

    def drive_end(host: FakeHost, do: str, **args: Any) -> Any:
        if do == where and host.name == "east":
            interrupt()
        return usual(host, do, **args)

    monkeypatch.setattr(FakeHost, "drive_end", drive_end)
    monkeypatch.setattr(agent, "LOOK_S", 0.0)
    if where == "between calls":
        monkeypatch.setattr(FakeTool, "client", interrupt)
    FakeHost.answers["west", where] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ends.call("transfer", specs=SPECS, server="far")
    assert [call for call in called() if call[1] in ("a new agent", "close_end")] == []
    assert called()[-2:] == [("west", "abort"), ("east", "abort")]
    assert not any(client.given_up for client in ends.clients.values())


def test_endpoints_of_a_tester_on_its_own_host_are_there(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts, "phy2phy_bridge"))
    FakeHost.calls.clear()
    hosts.call("transfer", specs=SPECS, server="far")
    assert called() == [("east", "transfer")]
    with pytest.raises(HostError, match="not carried over several hosts"):
        hosts.call("transfer", specs=SPECS, server="vnf")


class FakeGateway:
    """What execnet makes of an agent, as far as the client uses it; it greets, and hangs then."""

    RemoteError = TimeoutError = TimeoutError

    def __init__(self, made: list[FakeGateway], slow: bool) -> None:
        self.made, self.slow = made, slow
        self.ended = threading.Event()
        self.hangs = threading.Event()
        self.answers: list[str] = []

    def makegateway(self, specification: str) -> FakeGateway:
        del specification
        self.made.append(self)
        if self.slow:
            self.hangs.set()
            time.sleep(0.5)
        return self

    def remote_exec(self, program: str) -> FakeGateway:
        del program
        return self

    def send(self, text: str) -> None:
        if self.ended.is_set():
            raise OSError("closed")
        if json.loads(text).get("call") == "hello":
            me = {"process": [], "troubles": [], "last": {}, "restored": {"restored": []}}
            self.answers.append(json.dumps({"ok": me}))

    def receive(self, timeout: float) -> str:
        if self.answers:
            return self.answers.pop()
        self.hangs.set()
        if self.ended.wait(timeout):
            raise EOFError
        raise TimeoutError

    def terminate(self, timeout: float) -> None:
        del timeout
        self.ended.set()


@pytest.mark.parametrize("slow", [False, True], ids=["in a call", "while agents start"])
def test_ctrl_c_in_a_call_to_all_hosts_starts_no_agent(
    slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FakeGateway] = []
    monkeypatch.setattr("execnet.Group", lambda: FakeGateway(made, slow))
    hosts = TestbedClient(config.load({"testbed": "two-hosts"}).testbed)

    def interrupt() -> None:
        while len(made) < 2:
            time.sleep(0.01)
        for gateway in list(made):
            gateway.hangs.wait(10)
        time.sleep(0.3)  # by then the main thread waits too
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            hosts.inventory()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert len(made) == 2
    assert all(gateway.ended.is_set() for gateway in made)
    assert all(client.channel is None for client in hosts.clients.values())
    assert not any(client.given_up for client in hosts.clients.values())


RESET_AT_S = 0.3
RESET = SPEC.model_copy(update={"duration_s": 2.0})


@pytest.mark.parametrize(
    ("what", "host"),
    [
        ("vswitch on west", "west"),
        ("vswitch on east", "east"),
        ("vnf0", "west"),
        ("link phy2", "west"),
        ("link phy1", "east"),
    ],
)
def test_what_is_reset_in_a_trial_is_reset_at_its_host(
    what: str, host: str, hosts: TestbedClient
) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.calls.clear()
    spec = RESET.model_copy(update={"event": EventSpec(what=what, at_s=RESET_AT_S)})
    result = hosts.run_trial(spec)
    assert result.event is not None
    assert result.event.what == what
    assert FakeHost.events == [(host, what)]
    assert result.event.began_s == RESET_AT_S
    assert called() == [("east", "run_trial"), ("west", "run_trial")]
    # A port that is down refuses frames: the tester has to know of it, wherever it is.
    assert FakeHost.sent["east"].event is not None
    assert (FakeHost.sent["west"].event is None) == (host == "east")


def test_a_trial_that_fails_before_its_event_waits_for_none(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    failed = TrialResult(directions=(), failed="generator")
    FakeHost.answers["east", "run_trial"] = PartResult(result=failed)
    spec = RESET.model_copy(update={"event": EventSpec(what="vswitch on west", at_s=0.2)})
    result = hosts.run_trial(spec)
    assert (result.failed, result.event) == ("generator", None)
    assert FakeHost.events == []


@pytest.mark.parametrize("what", ["vswitch on west", "vswitch on east", "link phy2"])
def test_an_event_too_late_for_its_trial_is_refused_wherever_it_is(
    what: str, hosts: TestbedClient
) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.calls.clear()
    spec = RESET.model_copy(update={"event": EventSpec(what=what, at_s=1.8)})
    with pytest.raises(CapabilityError, match=r"an event after 1.8 s of a trial of 2 s"):
        hosts.run_trial(spec)
    assert called() == []


def test_a_dut_over_hosts_that_does_nothing_any_more_has_failed(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    FakeHost.answers["east", "run_trial"] = dead_part("nothing does at a low load either")
    result = hosts.run_trial(SPEC)
    assert (result.failed, result.directions) == ("dut", ())
    assert result.failure == "host east: nothing does at a low load either"


def test_hosts_that_send_nothing_are_watched_together(hosts: TestbedClient) -> None:
    hosts.deploy(plan(hosts))
    busy = MachineLoad(throttled=1, boot="west's")
    for host, machine in (("east", MachineLoad(boot="east's")), ("west", busy)):
        watched = TrialResult(directions=(), machine=machine, collected_s=1.0)
        FakeHost.answers[host, "watch"] = watched.model_dump(mode="json")
    found = hosts.watch(0.0)
    assert {*found.taken} == {"east", "west"}
    (reason,) = found.disturbed_by(0.05)
    assert reason.startswith("host west: ")
    assert "throttled 1 times" in reason
    dead = TrialResult(directions=(), failed="dut", failure="its switch has ended")
    FakeHost.answers["west", "watch"] = dead.model_dump(mode="json")
    assert "host west: its switch has ended" in hosts.watch(0.0).failure


def test_hosts_on_one_machine_are_none_of_each_others_others() -> None:
    """Namespaces of one machine share its processors, and have one boot of its kernel."""

    def of(role: str, boot: str) -> TrialResult:
        load = ProcessorLoad(
            cpu=1, user=1.0, system=0.0, irq=0.0, softirq=0.0, guest=0.0, steal=0.0, idle=0.0
        )
        # Each agent takes the other host's threads for others, and those of nobody.
        ran_s = 0.5 if role == "pmd" else 0.4
        others = (OtherThreads(thread="w", cpu=1, run_s=ran_s),)
        machine = MachineLoad(by_processor=(load,), interrupts_apart=True, boot=boot, others=others)
        thread = ThreadLoad(
            role=role, thread="w", cpu=1, user=0.5, system=0.0, run_s=0.5, watched_s=1.0
        )
        more = {"machine": machine, "threads": (thread,), "collected_s": 1.0}
        return counts("phy0").model_copy(update=more)

    together = merge_counts(of("tester", "same"), {"west": of("pmd", "same")})
    assert {host: taken.others() for host, taken in together.taken.items()} == {"": 0.0}
    apart = merge_counts(of("tester", "one"), {"west": of("pmd", "other")})
    assert {host: taken.others() for host, taken in apart.taken.items()} == {"": 0.4, "west": 0.5}
    # Without its boot it is not known which of the two a machine is.
    unknown = merge_counts(of("tester", ""), {"west": of("pmd", "")})
    assert {taken.others() for taken in unknown.taken.values()} == {None}


def test_each_host_has_its_machine_and_its_meters() -> None:
    def of(steal: float) -> TrialResult:
        load = ProcessorLoad(
            cpu=1, user=0.5, system=0.1, irq=0.0, softirq=steal, guest=0.0, steal=steal
        )
        machine = MachineLoad(steal=steal, by_processor=(load,))
        meter = EnergyUse(part="package-0", joules=5.0, source="RAPL")
        more = {"machine": machine, "energy": (meter,), "watched_cpu_s": 0.5, "collected_s": 1.0}
        return counts("phy0").model_copy(update=more)

    merged = merge_counts(of(0.0), {"west": of(0.5)})
    assert [one.part for one in merged.energy] == ["package-0", "west: package-0"]
    assert merged.watched_cpu_s == 1.0
    (reason,) = merged.disturbed_by(0.05)
    assert reason.startswith("host west: ")
    assert "50.0%" in reason
    softirq = {use.role: use.softirq for use in cpu_by_role(merged)}
    assert softirq == {"pmd": 0.0, "machine": 0.0, "west:pmd": 0.5, "west:machine": 0.5}
    # Of a tester on several hosts one machine is the trial's own as well: it is told once.
    east = of(0.5).model_copy(update={"threads": ()})
    both = merge_counts(east, {"east": of(0.5)})
    (reason_of_both,) = both.disturbed_by(0.05)
    assert reason == f"host west: {reason_of_both}"
    assert [use.role for use in cpu_by_role(both)] == ["east:pmd", "east:machine"]


@pytest.mark.parametrize("same", [True, False])
def test_hosts_of_one_kernel_have_one_clock_and_one_meter(
    hosts: TestbedClient, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = FakeHost.inventory
    monkeypatch.setattr(
        FakeHost,
        "inventory",
        lambda self: seen(self).model_copy(update={"boot": "one" if same else self.name}),
    )
    hosts.deploy(plan(hosts))
    found = hosts.inventory()
    read = None if same else ClockSync(why="no chronyc on west")
    assert found.hosts["west"].clock == read  # hosts of one kernel have one clock
    meter = EnergyUse(part="package-0", joules=5.0, source="RAPL")
    of = TrialResult(directions=(), energy=(meter,))
    FakeHost.answers["east", "run_trial"] = PartResult(result=of)
    FakeHost.answers["west", "run_trial"] = PartResult(result=TrialResult(directions=()), dut=of)
    parts = [one.part for one in hosts.run_trial(SPEC).energy]
    assert parts == (["package-0"] if same else ["package-0", "west: package-0"])


def test_each_host_is_watched_over_a_time_of_its_own() -> None:
    def of(seconds: float) -> TrialResult:
        shares = {"user": 1.0, "system": 0.0, "irq": 0.0, "softirq": 0.0}
        load = ProcessorLoad(cpu=1, guest=0.0, steal=0.0, idle=0.0, **shares)
        poller = ThreadLoad(
            role="pmd", thread="pmd", cpu=1, user=1.0, system=0.0, run_s=seconds, wait_s=0.0
        )
        more = {"machine": MachineLoad(by_processor=(load,)), "collected_s": seconds}
        return TrialResult(directions=(), threads=(poller,)).model_copy(update=more)

    merged = merge_counts(of(1.0), {"west": of(1.6)})
    assert merged.watch_time("west:pmd") == 1.6
    busy = {use.role: use.busy for use in cpu_by_role(merged)}
    assert (busy["pmd"], busy["west:pmd"], busy["west:others"]) == (1.0, 1.0, 0.0)
    older = merged.model_copy(update={"collected_at": {}})  # its time is not known: nor its share
    busy = {use.role: use.busy for use in cpu_by_role(older)}
    assert (busy["pmd"], busy["west:pmd"]) == (1.0, None)
    # Samples of a thread are further apart than those of the last collector that starts.
    (poller,) = of(1.0).threads
    apart = poller.model_copy(update={"run_s": 1.004, "watched_s": 1.004})
    (pmd, *_) = cpu_by_role(of(1.0).model_copy(update={"threads": (apart,)}))
    assert pmd.busy == 1.0


def test_wall_time_of_a_trial_has_its_learning_frames_and_waits_in_it(hosts: TestbedClient) -> None:
    """What is between two trials is counted as the DUT's pause: RFC 2544 section 23, RFC 9004."""
    hosts.deploy(plan(hosts))
    FakeHost.answers["east", "run_trial"] = PartResult(
        result=TrialResult(directions=(), wall_s=0.01)
    )
    FakeHost.late_s["west"] = [0.3]
    began = time.monotonic()
    result = hosts.run_trial(SPEC)
    assert 0.3 < result.wall_s <= time.monotonic() - began + 1e-4
