"""One trial of a deployment: learning frames, counters, collectors, traffic."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from vnetperf.deployment.events import EventInjector, check_after_event, check_event
from vnetperf.deployment.path_check import check_way_through, counts_text, silent_directions
from vnetperf.host.clock import read_sync, wider
from vnetperf.host.facts import describe_error
from vnetperf.host.machine_load import MachineSampler
from vnetperf.host.stacks import StackSampler
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import (
    DutError,
    GeneratorError,
    HostError,
    TrialTimeoutError,
    VnetperfError,
)
from vnetperf.model.machine_load import (
    DatapathWork,
    EnergyUse,
    MachineLoad,
    ThreadEvents,
    ThreadLoad,
)
from vnetperf.model.scenario import Pollers
from vnetperf.model.trial import (
    EventTimes,
    HopCounters,
    LiveCounts,
    PartResult,
    PortCounts,
    SessionCounts,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.planning.capability_check import require_trial
from vnetperf.plugin import registry
from vnetperf.plugin.collector import Collector
from vnetperf.plugin.generator import TrafficGenerator, sleep_watching
from vnetperf.plugin.vswitch import HasSessions

if TYPE_CHECKING:
    from vnetperf.deployment.deploy import LiveDeployment

log = logging.getLogger(__name__)
#: Times that the frames which set sessions up are sent, until a NAT has all of them.
SET_UPS = 5
#: So long after that they are not sent again while the NAT holds all of them, seconds: less than
#: any timer that RFC 4787, 5382 and 5508 allow.
SET_UP_HOLDS_S = 50.0
#: Longest wait for counters to stand still after learning frames, seconds.
SETTLE_S = 0.5
#: Counters that stay the same for this long stand still: a poller without a core of its own may be
#: away for some of it, seconds.
STILL_S = 0.02


def settled_counters(read: Callable[[], dict[str, HopCounters]]) -> dict[str, HopCounters]:
    """Counters once they have stopped moving: learning frames may still be on their way."""
    readings = [read()]

    def still() -> bool:
        time.sleep(STILL_S)
        readings.append(read())
        return readings[-1] == readings[-2]

    wait_at_most(still, SETTLE_S, "counters that stand still", poll_s=0.0)
    return readings[-1]


def counter_difference(before: HopCounters | None, after: HopCounters) -> HopCounters | None:
    """What a port counted in between; None where it counts less than before, and began anew.

    Drops may be fewer than they were: some are what came in and has not gone out yet.
    """
    if before is None:
        return after
    fields = ("rx", "tx", "rx_dropped", "tx_dropped")
    counted = {name: getattr(after, name) - getattr(before, name) for name in fields}
    if counted["rx"] < 0 or counted["tx"] < 0:
        return None
    causes = {name: n - before.causes.get(name, 0) for name, n in after.causes.items()}
    return HopCounters(
        port=after.port,
        causes={name: n for name, n in causes.items() if n > 0},
        **{name: max(0, number) for name, number in counted.items()},
    )


class CollectorSession:
    """Every registered collector, and the machine as a whole, for one trial."""

    def __init__(self, pollers: tuple[Pollers, ...], sampler: StackSampler | None = None) -> None:
        self._sampler = sampler
        self._collectors: list[Collector[Any]] = [
            registry.load("collectors", name)(pollers) for name in registry.names("collectors")
        ]
        self._machine = MachineSampler(pollers)
        self._failed: dict[str, str] = {}
        self._began = self._cpu_s = 0.0
        self._sampled: dict[str, Any] | None = None

    def gather(self) -> None:
        """Bring the processors of DUT and tester together, before any frame is sent."""
        self._machine.gather()

    def start(self) -> None:
        """Take the first samples."""
        if self._sampler is not None:
            self._sampler.start()
        before = time.thread_time()
        self._machine.prepare()
        for collector in self._collectors:
            try:
                collector.start()
            except Exception as error:  # noqa: BLE001 - a plugin's too, on files that hold anything
                self._fail(collector, error)
        # Last, and first at the end: what the collectors take themselves is in no processor's time.
        self._machine.begin()
        self._cpu_s = time.thread_time() - before
        self._began = time.monotonic()

    def sample(self) -> dict[str, Any]:
        """Take the second samples, unless they have been taken."""
        if self._sampled is not None:
            return self._sampled
        collected_s = time.monotonic() - self._began
        before = time.thread_time()
        samples: list[ThreadLoad | ThreadEvents | EnergyUse] = []
        self._machine.end()
        machine: MachineLoad | None = None
        for collector in sorted(self._collectors, key=lambda collector: collector.stops_last):
            if collector.stops_last and machine is None:
                machine = self._machine.stop()
            try:
                samples += collector.stop()
            except Exception as error:  # noqa: BLE001 - a plugin's too, on files that hold anything
                self._fail(collector, error)
        machine = machine or self._machine.stop()
        self._cpu_s += time.thread_time() - before
        reasons = {c.name: c.reason for c in self._collectors if c.reason}
        self._sampled = {
            "threads": tuple(sample for sample in samples if isinstance(sample, ThreadLoad)),
            "events": tuple(sample for sample in samples if isinstance(sample, ThreadEvents)),
            "energy": tuple(sample for sample in samples if isinstance(sample, EnergyUse)),
            "machine": machine,
            "watched_cpu_s": round(self._cpu_s, 6),
            "uncollected": reasons | self._failed,
            "collected_s": collected_s,
        }
        return self._sampled

    def stop(self) -> dict[str, Any]:
        """Take the second samples, and end the sampling of stacks."""
        sampled = self.sample()
        reasons = dict(sampled["uncollected"])
        stacks = self._sampler.stop() if self._sampler is not None else {}
        if self._sampler is not None and self._sampler.reason:
            reasons.setdefault("profile", self._sampler.reason)
        return {**sampled, "stacks": stacks, "uncollected": reasons}

    def _fail(self, collector: Collector[Any], error: Exception) -> None:
        self._failed.setdefault(collector.name, f"not measured: {describe_error(error)}")


#: Time between two looks at the tester's links in a trial, seconds.
LINKS_EVERY_S = 1.0


class LinkWatch:
    """Links of the tester that were seen down in a trial.

    Attributes:
        down: Their names, in the order in which they were seen; the keys count.
    """

    def __init__(self, generator: TrafficGenerator) -> None:
        self.down: dict[str, None] = {}
        self._generator = generator
        self._next = time.monotonic() + LINKS_EVERY_S

    def look(self, *, now: bool = False) -> None:
        """Look at the links, if it is time to."""
        if now or time.monotonic() >= self._next:
            self.down |= dict.fromkeys(self._generator.links_down())
            self._next = time.monotonic() + LINKS_EVERY_S


#: What a part of a trial tells the others where it has nothing to tell.
NO_NEWS: Mapping[str, Any] = MappingProxyType({})
#: Share of the wait after learning frames by which they have come through; counters are read in
#: the rest of it.
LEARNED_SHARE = 0.7


def run_trial(
    deployment: LiveDeployment, spec: TrialSpec, watch: Callable[[], None] = lambda: None
) -> TrialResult:
    """Run a trial of a deployment that is on one host and in this process."""
    return run_part(deployment, spec, watch).result


class Others(Protocol):
    """The other hosts of a trial, at whose parts this host's has to look."""

    def meet(
        self, point: str, watch: Callable[[], None], news: Mapping[str, Any] = NO_NEWS
    ) -> Mapping[str, Any]:
        """Wait until the parts at all hosts have come to a point.

        Args:
            point: "learned": learning frames have come through; "ready": counters are read;
                "sends": the first frame has left; "sent"; "counted".
            watch: Called now and then while this part waits.
            news: What the others are to know.

        Returns:
            What all parts have told.

        Raises:
            PartEndedError: The part at another host has failed.
        """

    def receives(self) -> None:
        """Tell that a tester with one of its two ports here counts frames from now on."""


class PartEndedError(Exception):
    """The part of a trial at another host has failed, which ends this one."""


class NoOthers:
    """A trial on one host waits for nobody."""

    def meet(
        self, point: str, watch: Callable[[], None], news: Mapping[str, Any] = NO_NEWS
    ) -> Mapping[str, Any]:
        """Go on."""
        del point, watch
        return news

    def receives(self) -> None:
        """Nobody else sends."""


def run_part(
    deployment: LiveDeployment,
    spec: TrialSpec,
    watch: Callable[[], None] = lambda: None,
    on_live: Callable[[LiveCounts], None] | None = None,
    *,
    others: Others | None = None,
    window: TrialWindow | None = None,
    event_is_here: bool = True,
) -> PartResult:
    """Run what this host has of a trial: learning frames, counters, traffic, drain, counters.

    A DUT or generator that dies gives a result without numbers that states the reason. A part that
    does not come back after the trial's event is reported in `TrialResult.event`: what was lost
    counts.

    Args:
        deployment: What is deployed here.
        spec: The trial, its event in the names of the host where it happens.
        watch: Called about every half second; what it raises ends the trial.
        on_live: Called with the tester's counts so far.
        others: The other hosts of the trial; None where there is one.
        window: Of a tester with one port here, and the other on another host.
        event_is_here: False where another host has the part that the event is of.
    """
    plan = deployment.plan
    if plan.has_tester:
        generator = type(deployment.generator)
        require_trial(plan.scenario.generator, generator, spec, plan.scenario.id)
    injector = None
    if spec.event is not None and event_is_here:
        check_event(plan, spec.event, spec.duration_s)
        injector = EventInjector(deployment, spec.event)
    began = time.monotonic()
    log.info(
        "trial: %d octets, %.0f frames/s per direction, %g s",
        *(spec.frame_size, spec.load_fps, spec.duration_s),
    )
    try:
        trial = _PartOfTrial(deployment, spec, others or NoOthers(), injector)
        part = trial.send(watch, on_live, window) if plan.has_tester else trial.accompany(watch)
    except PartEndedError:  # the other part tells why, unless the cause is here
        part = _check_after_end(deployment)
    except TrialTimeoutError as error:
        part = _failed("timeout", error)
    except GeneratorError as error:
        part = _failed("generator", error)
    except (DutError, HostError) as error:
        part = _failed("dut", deployment.cause(error))
    log.info("trial ends: %s", part.result.failure or counts_text(part.result))
    result = part.result.model_copy(update={"wall_s": round(time.monotonic() - began, 4)})
    return part.model_copy(update={"result": result})


def _check_after_end(deployment: LiveDeployment) -> PartResult:
    """What is here of a trial that ended at another host: nothing, or why the DUT here failed."""
    try:
        deployment.check_alive()
    except (DutError, HostError) as error:
        return _failed("dut", deployment.cause(error))
    return PartResult(result=TrialResult(directions=()))


def _failed(failed: str, error: VnetperfError) -> PartResult:
    return PartResult(result=TrialResult(directions=(), failed=failed, failure=str(error)))


class _PartOfTrial:
    """What one host has of a trial: the tester, or one of its ports; parts of the DUT; or both."""

    def __init__(
        self,
        deployment: LiveDeployment,
        spec: TrialSpec,
        others: Others,
        injector: EventInjector | None,
    ) -> None:
        self.deployment, self.generator, self.spec = deployment, deployment.generator, spec
        self.sends = deployment.plan.has_tester
        self.others, self.injector = others, injector
        self.links = LinkWatch(deployment.generator)
        self.dut = DutWatch(deployment, profile=spec.profile)
        #: Whether another host waits for the first frame, to time the trial's event by it.
        self.is_awaited = spec.event is not None and not (self.sends and injector)

    def _check_alive(self) -> None:
        """Raise when a part here has ended, unless that is what the event could not mend."""
        if self.injector is None or not self.injector.failed:
            self.deployment.check_alive()
        if self.sends:
            self.generator.check_alive()

    def accompany(self, watch: Callable[[], None]) -> PartResult:
        """Count what the DUT's parts here do while the tester at another host sends."""

        def watch_all() -> None:
            watch()
            self._check_alive()

        self._check_alive()
        self.others.meet("learned", watch_all)
        began = time.monotonic()
        self.dut.count()
        rest_s = self.spec.learning_wait_s * (1 - LEARNED_SHARE)
        sleep_watching(began + rest_s, self._check_alive)
        self.dut.start()
        self.others.meet("ready", watch_all)
        if self.is_awaited:
            elapsed_s = self.others.meet("sends", watch_all).get("elapsed_s")
            if self.injector is not None and elapsed_s is not None:
                self.injector.happen(time.monotonic() - elapsed_s)
        times = self.injector.times if self.injector is not None else None
        news = {} if times is None else {"event": times.model_dump(mode="json")}
        self.others.meet("sent", watch_all, news)
        counts = self._count_dut(self.dut.collectors.stop())
        self.others.meet("counted", watch_all)
        nothing_sent = TrialResult(directions=())
        return PartResult(result=nothing_sent, dut=nothing_sent.model_copy(update=counts))

    def send(
        self,
        watch: Callable[[], None],
        on_live: Callable[[LiveCounts], None] | None,
        window: TrialWindow | None,
    ) -> PartResult:
        """Send and count, and count what the DUT's parts here do meanwhile."""
        generator = self.generator
        generator.check_alive()
        ended = self._learn(gathers=window is None)
        ports = {port.port: port for port in generator.port_counters()}
        sync = read_sync() if window is not None and window.kept else None
        look = partial(self._look, watch, on_live)
        self.dut.start()
        generator.on_sent = self.dut.sent
        try:
            if window is None:
                part = PartResult(result=generator.run(self.spec, look))
            else:
                part = generator.run_part(self.spec, window, look, self.others.receives)
        finally:
            generator.on_sent = TrafficGenerator.on_sent
            collected = self.dut.collectors.stop()
        if sync is not None:
            part = part.model_copy(update={"clock": wider(sync, read_sync())})
        tester = _tester_counted(part.result, ports, generator.port_counters())
        news = self._meet_sent()
        counts = self._count_dut(collected)  # before frames of a path check pass
        self.others.meet("counted", self._check_alive)
        if self.spec.event is None:
            self.links.look(now=True)
        update: dict[str, Any] = {
            "refusal_is_loss": generator.refusal_is_loss(self.spec),
            "tester": tester,
            # A tester may have looked at its own.
            "links_down": tuple(dict.fromkeys((*self.links.down, *part.result.links_down))),
        }
        if window is None:
            result = self._join(part.result.model_copy(update=update), counts, ended, news)
            return part.model_copy(update={"result": result})
        ends = self.deployment.plan.own_ends
        update["tester"] = tuple(port for port in tester if port.port in ends)
        dut = TrialResult(directions=()).model_copy(update=counts)
        result = part.result.model_copy(update=update)
        return part.model_copy(update={"result": result, "dut": dut})

    def _meet_sent(self) -> Mapping[str, Any]:
        """Let the other hosts know that all is sent: what happened there meanwhile."""
        if self.is_awaited:  # it has ended before anybody saw it begin
            self.others.meet("sends", self._check_alive)
        return self.others.meet("sent", self._check_alive)

    def _look(
        self, watch: Callable[[], None], on_live: Callable[[LiveCounts], None] | None
    ) -> None:
        """Look at all parts here while frames are sent, and let the event happen at its time."""
        watch()
        if self.spec.event is None:
            self.links.look()
        elif self.injector is not None:
            self.injector.poll()
        self._check_alive()
        counts = self.generator.live() if on_live is not None or self.is_awaited else None
        if counts is not None and self.is_awaited:
            self.others.meet("sends", self._check_alive, {"elapsed_s": counts.elapsed_s})
            self.is_awaited = False
        if counts is not None and on_live is not None:
            on_live(counts)

    def _learn(self, *, gathers: bool) -> SessionCounts | None:
        """Send learning frames and read counters: sessions of a NAT that were ended before."""
        wait_s, ended = self.spec.learning_wait_s, None
        if gathers:
            self.dut.collectors.gather()
        if self.spec.new_sessions:
            ended = end_sessions(self.deployment)
        learn(self.deployment, self.spec)
        learned = time.monotonic()
        sleep_watching(learned + wait_s * LEARNED_SHARE, self._check_alive)
        self.others.meet("learned", self._check_alive)
        self.dut.count()
        sleep_watching(learned + wait_s, self._check_alive)
        self.others.meet("ready", self._check_alive)
        return ended

    def _join(
        self,
        result: TrialResult,
        counts: dict[str, Any],
        ended: SessionCounts | None,
        news: Mapping[str, Any],
    ) -> TrialResult:
        """What tester and DUT have counted, once the path was checked where that is needed."""
        deployment = self.deployment
        update = {
            **counts,
            "links_down": (*result.links_down, *counts.get("links_down", ())),
            "uncollected": result.uncollected | counts["uncollected"],
        }
        if not self.dut.began_anew:
            update["sessions"] = _count_sessions(deployment, ended)
        times = self.injector.result() if self.injector is not None else None
        if "event" in news:
            times = EventTimes.model_validate(news["event"])
        if times is not None:
            update["event"] = check_after_event(deployment, times)
        if self.spec.event is None:
            check_way_through(deployment, silent_directions(result))
        return result.model_copy(update=update)

    def _count_dut(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of a result: what collectors and the DUT's parts here have counted."""
        if self.injector is not None and self.injector.times is not None:
            self.dut.began_anew = self.injector.resets_counters
        counted = self.dut.counted()
        uncollected = collected["uncollected"] | counted["uncollected"]
        return {**collected, **counted, "uncollected": uncollected}


class DutWatch:
    """What the parts of the DUT on a host count over a trial, and what its threads do meanwhile.

    Attributes:
        began_anew: Whether counters began anew in the middle of it.
    """

    def __init__(self, deployment: LiveDeployment, *, profile: bool = False) -> None:
        self._deployment = deployment
        pollers = deployment.vswitch.pollers() if profile else ()
        sampler = StackSampler(deployment.machine, pollers) if profile else None
        self.collectors = CollectorSession(deployment.pollers(), sampler)
        self._before: dict[str, HopCounters] = {}
        self._links: dict[str, int] = {}
        self._work: dict[str, DatapathWork] = {}
        self._vnf_work: dict[str, DatapathWork] = {}
        self._why_no_work = ""
        self.began_anew = False

    def count(self) -> None:
        """Read counters, once learning frames have come through."""
        self._before = settled_counters(self._deployment.counters)
        self._links = self._deployment.carrier_changes()

    def start(self) -> None:
        """Begin to look at threads; traffic follows."""
        if self._deployment.plan.has_dut:
            self._work, self._why_no_work = _datapath_work(self._deployment, begins=True)
            self._vnf_work = _vnf_work(self._deployment)
        self.collectors.start()

    def sent(self) -> None:
        """Look at threads once more: sending is over, and what follows is waiting."""
        self.collectors.sample()

    def counted(self) -> dict[str, Any]:
        """What ports, links and the vSwitch's threads counted since: fields of a result."""
        if self.began_anew:
            uncollected = ("hops", "datapath") if self._work else ("hops",)
            reason = "not measured: counters began anew in the middle of the trial"
            return {"uncollected": dict.fromkeys(uncollected, reason)}
        work, reason = self._work_since()
        self._deployment.check_alive()
        now = self._deployment.counters()
        hops = {name: counter_difference(self._before.get(name), hop) for name, hop in now.items()}
        fell = [name for name, hop in hops.items() if hop is None]
        why_fell = f"not measured of {', '.join(fell)}: it counts less than before the trial"
        return {
            "datapath": work,
            "vnf_work": self._vnf_work_since(),
            "uncollected": ({"datapath": reason} if reason else {})
            | ({"hops": why_fell} if fell else {}),
            "hops": tuple(hop for hop in hops.values() if hop is not None),
            "links_down": self.links_down(),
        }

    def links_down(self) -> tuple[str, ...]:
        """Links whose carrier has gone or come since, and those that are no longer there."""
        now = self._deployment.carrier_changes()
        return tuple(name for name, count in self._links.items() if now.get(name) != count)

    def _work_since(self) -> tuple[tuple[DatapathWork, ...], str]:
        """What the vSwitch's threads have counted since, or why that is not known."""
        if not self._deployment.plan.has_dut:
            return (), ""
        now, why_not = _datapath_work(self._deployment)
        reason = self._why_no_work or why_not
        if not reason and now.keys() != self._work.keys():
            reason = "not measured: other threads forward than at the start of the trial"
        works = () if reason else tuple(work.since(self._work[name]) for name, work in now.items())
        if any(work.packets < 0 or work.busy_cycles < 0 for work in works):
            reason = "not measured: a thread counts less than before the trial"
        return ((), reason) if reason else (works, "")

    def _vnf_work_since(self) -> tuple[DatapathWork, ...]:
        """What the VNFs' threads have counted since; of one that began anew nothing."""
        now = _vnf_work(self._deployment) if self._vnf_work else {}
        works = (now[name].since(before) for name, before in self._vnf_work.items() if name in now)
        return tuple(work for work in works if work.packets >= 0)


def watch_machine(
    deployment: LiveDeployment, seconds: float, watch: Callable[[], None]
) -> TrialResult:
    """What threads and machine do here for a while in which nothing is sent."""
    try:
        deployment.check_alive()
        dut = DutWatch(deployment)
        dut.count()
        dut.start()
        sleep_watching(time.monotonic() + seconds, watch)
        collected, counted = dut.collectors.stop(), dut.counted()
    except (DutError, HostError) as error:
        return _failed("dut", deployment.cause(error)).result
    uncollected = collected["uncollected"] | counted["uncollected"]
    return TrialResult(directions=(), **{**collected, **counted, "uncollected": uncollected})


def learn(deployment: LiveDeployment, spec: TrialSpec) -> None:
    """Send the learning frames of a trial alone: other hosts read their counters after them."""
    deployment.check_alive()
    deployment.prepare(spec.frame_size)
    if spec.new_sessions or not spec.learning_frames:
        return
    change = deployment.plan.scenario.change
    if change is None or not deployment.plan.has_dut:
        # Sessions of a mobile core are known since its UEs attached, and not to who plans trials.
        deployment.generator.learn(max(spec.learning_frames, deployment.session_flows))
        return
    sessions = _count_table(deployment)
    held_s = time.monotonic() - deployment.sessions_seen
    if sessions is not None and sessions >= change.sessions and held_s < SET_UP_HOLDS_S:
        return
    for _ in range(SET_UPS):
        deployment.generator.learn(max(spec.learning_frames, change.sessions))
        sessions = _count_table(deployment)
        if sessions is None or sessions >= change.sessions:
            deployment.sessions_seen = time.monotonic()
            return
    raise DutError(
        f"holds {sessions} of {change.sessions} sessions after a frame of each was sent "
        f"{SET_UPS} times",
        where=deployment.vswitch.name,
        cure="choose fewer sessions with --nat or --lb, or a larger table or longer timeouts with "
        "--set",
    )


#: Longest wait until a vSwitch that has ended its sessions counts none, seconds.
SESSIONS_END_S = 2.0


def end_sessions(deployment: LiveDeployment) -> SessionCounts | None:
    """Make the vSwitch forget all its sessions, and time that; None where it counts none."""
    if not deployment.plan.has_dut:
        raise DutError(
            "its sessions cannot be ended from the tester's host",
            where=deployment.plan.scenario.vswitch,
            cure="measure on a testbed with tester and NAT on one host",
        )
    vswitch = deployment.vswitch
    if not isinstance(vswitch, HasSessions):
        return None
    ended = vswitch.sessions()
    began = time.monotonic()
    vswitch.end_sessions()
    ended_s = round(time.monotonic() - began, 6)
    # A frame of one that is left makes no session, and would count as one that was made.
    none = "its sessions to have ended"
    if not wait_at_most(lambda: not vswitch.sessions(), SESSIONS_END_S, none):
        raise DutError(
            f"{vswitch.sessions()} of {ended} sessions are left after it was made to end them",
            where=vswitch.name,
        )
    return SessionCounts(held=0, ended=ended, ended_s=ended_s)


def _count_sessions(
    deployment: LiveDeployment, ended: SessionCounts | None
) -> SessionCounts | None:
    """Sessions that the vSwitch here holds now, with those that ended before."""
    count = _count_table(deployment) if deployment.plan.has_dut else None
    if count is None:
        return None
    return (ended or SessionCounts(held=0)).model_copy(update={"held": count})


def _count_table(deployment: LiveDeployment) -> int | None:
    """Sessions that the vSwitch's table holds now; None for one without such a table."""
    vswitch = deployment.vswitch
    return vswitch.sessions() if isinstance(vswitch, HasSessions) else None


def _tester_counted(
    result: TrialResult, before: Mapping[int, PortCounts], after: Iterable[PortCounts]
) -> tuple[PortCounts, ...]:
    """What the tester's ports counted over a trial, with what it has counted by itself."""
    counts = {port.port: port for port in result.tester}
    for now in after:
        counted = now.since(before[now.port]) if now.port in before else PortCounts(port=now.port)
        counts[now.port] = counts[now.port] + counted if now.port in counts else counted
    return tuple(counts[number] for number in sorted(counts))


def _vnf_work(deployment: LiveDeployment) -> dict[str, DatapathWork]:
    """What the VNFs' threads have counted, by thread; empty where one of them cannot be read."""
    try:
        return {work.thread: work for vnf in deployment.vnfs for work in vnf.datapath_work()}
    except VnetperfError as error:  # no reason to lose a trial
        log.info("VNFs' own counts: %s", error)
        return {}


def _datapath_work(
    deployment: LiveDeployment, *, begins: bool = False
) -> tuple[dict[str, DatapathWork], str]:
    """What the vSwitch's threads have counted, by thread; and why that is not known."""
    try:
        if begins:
            deployment.vswitch.before_trial()
        return {work.thread: work for work in deployment.vswitch.datapath_work()}, ""
    except VnetperfError as error:  # no reason to lose a trial
        return {}, f"not measured: {error}"
