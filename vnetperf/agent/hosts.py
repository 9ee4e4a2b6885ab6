"""The agents of a testbed of several hosts, driven as one.

The controller calls each agent; agents do not know each other. Hosts are taken in the order of
their names and given back in the opposite one, so that two runs never wait for each other.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar, cast

from vnetperf.agent import client as agent
from vnetperf.agent.client import AgentClient, Event
from vnetperf.agent.counts import merge_counts, merge_parts
from vnetperf.deployment.capability_check import require_trial
from vnetperf.deployment.endpoints import EndAddresses, addresses_apart
from vnetperf.deployment.events import check_event, event_place
from vnetperf.deployment.others import MachineWatch
from vnetperf.deployment.path_check import (
    PATH_FRAMES,
    PATH_TIMEOUT_S,
    SILENT_S,
    counts_text,
    send_until_complete,
    silent_directions,
)
from vnetperf.deployment.transfers import Exchange
from vnetperf.deployment.trial import LEARNED_SHARE
from vnetperf.host.links import LinkStatistics
from vnetperf.log.records import OTHER_HOSTS
from vnetperf.model.calibration import Calibration
from vnetperf.model.errors import (
    CapabilityError,
    DutError,
    GeneratorError,
    HostError,
    VnetperfError,
)
from vnetperf.model.result import ScenarioFacts
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import NETNS, ClockOffset, MachineFacts, Testbed
from vnetperf.model.transfer import Transfer, TransferSpec
from vnetperf.model.trial import (
    EventSpec,
    EventTimes,
    LiveCounts,
    PartResult,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.plugin import registry
from vnetperf.virt.endpoint import CpuTime, Endpoint, EndpointPair, EndpointProgram

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

#: Longest time that a host needs to start its parts, seconds.
BRING_UP_S = 120.0
#: Longest time that what is reset at a host needs to come back, seconds.
EVENT_S = 60.0
#: Time for the second of two hosts to begin to receive before the first one sends, seconds; doubled
#: where it was not enough, and how often.
LEAD_S, WINDOW_TRIES = 0.2, 5
#: Numbers of windows begin again after this one.
LAST_WINDOW = 255


def connect(
    testbed: Testbed, on_event: Event | None = None, *, read_only: bool = False
) -> AgentClient | HostsClient:
    """The agents of a testbed: one client for one host, else one that drives a client for each."""
    if not testbed.hosts:
        return agent.AgentClient(testbed, on_event, read_only=read_only)
    return HostsClient(testbed, on_event, read_only=read_only)


@contextlib.contextmanager
def _name_host(host: str) -> Iterator[None]:
    """Add the host's name to errors raised in the block."""
    try:
        yield
    except VnetperfError as error:
        if f"host {host}" not in error.where:
            error.where = f"host {host}" + (f", {error.where}" if error.where else "")
        raise


class HostsClient:
    """The agents of a testbed's hosts, in the order they are locked, as one client."""

    def __init__(
        self, testbed: Testbed, on_event: Event | None = None, *, read_only: bool = False
    ) -> None:
        self.testbed = testbed
        self._boots: dict[str, str] = {}
        self.clients = {
            name: agent.AgentClient(testbed.of_host(name), on_event, read_only=read_only)
            for name in testbed.host_names
        }
        self._plan: Plan | None = None
        #: Of the last trial of a tester on two hosts.
        self._window = TrialWindow(number=0, lead_s=LEAD_S)

    @property
    def follow(self) -> bool:
        """True requests events "live" with the counts of trials that are going on."""
        return any(client.follow for client in self.clients.values())

    @follow.setter
    def follow(self, follow: bool) -> None:
        for client in self.clients.values():
            client.follow = follow

    @property
    def restored(self) -> list[dict[str, Any]]:
        """What was restored of runs that died, on all hosts."""
        return [report for client in self.clients.values() for report in client.restored]

    @property
    def troubles(self) -> tuple[str, ...]:
        """What of dead runs could not be undone, with the host."""
        return tuple(
            f"host {name}: {text}"
            for name, client in self.clients.items()
            for text in client.troubles
        )

    def _call_all(self, calls: Mapping[str, Callable[[], Answer]]) -> dict[str, Answer]:
        """Make a call to each of some hosts at the same time; the first failure once all ended.

        What ends the waiting, such as Ctrl-C, ends the calls first: no thread outlives it, which
        would take the end of its agent for a death and start another one.
        """
        if not calls:
            return {}

        def named(host: str, call: Callable[[], Answer]) -> Answer:
            with _name_host(host):
                return call()

        pool = ThreadPoolExecutor(len(calls), thread_name_prefix="host")
        futures: dict[str, Future[Answer]] = {}
        try:
            for host, call in calls.items():
                futures[host] = pool.submit(named, host, call)
            # In slices: a signal just before a wait for ever is not seen in it.
            while wait(futures.values(), timeout=agent.LOOK_S).not_done:
                pass
            failures = [future.exception() for future in futures.values()]
        except BaseException:
            with self._block_starts():
                self.abort()
                wait(futures.values())
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        raised = [failure for failure in failures if failure is not None]
        for failure in raised[1:]:
            raised[0].add_note(f"  and {failure}")
        if raised:
            raise raised[0]
        return {host: future.result() for host, future in futures.items()}

    @contextlib.contextmanager
    def _block_starts(self) -> Iterator[None]:
        """Keep all threads from starting an agent; a thread that just started one ends it."""
        for client in self.clients.values():
            client.given_up = True
        try:
            yield
        finally:
            self.abort()
            for client in self.clients.values():
                client.given_up = False

    def inventory(self) -> MachineFacts:
        """Look at all hosts: the facts of the one that has the DUT, with all hosts' beside them."""
        # All agents first: a host that is not there is one message before anything else is done.
        self._call_all({name: client.require_fit for name, client in self.clients.items()})
        facts_by_host = self._call_all(
            {name: client.inventory for name, client in self.clients.items()}
        )
        self._boots = {name: facts.boot for name, facts in facts_by_host.items()}
        if len({*self._boots.values()}) > 1:  # hosts of one kernel have one clock
            clocks = self._call_all(
                {name: client.clock_sync for name, client in self.clients.items()}
            )
            facts_by_host = {
                n: f.model_copy(update={"clock": clocks[n]}) for n, f in facts_by_host.items()
            }
        roles = {name: host.role for name, host in self.testbed.hosts.items()}
        main = next((n for n in reversed(facts_by_host) if roles[n] == "dut"), [*facts_by_host][-1])
        others = {name: facts.record for name, facts in facts_by_host.items() if name != main}
        record = {**facts_by_host[main].record, "host": main, OTHER_HOSTS: others}
        return facts_by_host[main].model_copy(update={"hosts": facts_by_host, "record": record})

    def clocks(self) -> dict[str, ClockOffset]:
        """Clocks of hosts on other machines against this one's, as they are now."""
        clocks_by_host = self._call_all(
            {name: client.clocks for name, client in self.clients.items()}
        )
        return {
            host: clock
            for host, host_clocks in clocks_by_host.items()
            for clock in host_clocks.values()
        }

    def calibrate(
        self, plan: Plan, frame_sizes: Sequence[int], *, brief: bool = False
    ) -> Calibration:
        """Loop the generator to itself, on the tester's host, and measure it."""
        self.teardown()
        with _name_host(plan.host):
            return self.clients[plan.host].calibrate(plan, frame_sizes, brief=brief)

    def deploy(self, plan: Plan) -> ScenarioFacts:
        """Deploy a plan; when anything fails, every host is as it was."""
        self.teardown()
        began = time.monotonic()
        self._plan = plan
        try:
            with self._cleaned_up():
                facts = self._deploy_parts(plan)
        except VnetperfError:
            self._take_away()
            raise
        return facts.model_copy(update={"deploy_s": round(time.monotonic() - began, 3)})

    def _deploy_parts(self, plan: Plan) -> ScenarioFacts:
        spaces: dict[str, str] = {}
        for part in plan.hosts:
            with _name_host(part.host):
                length_s = 60 + self.testbed.lock_timeout_s
                sent = part.model_dump(mode="json")
                self.clients[part.host].expect(plan.scenario)
                spaces[part.host] = self.clients[part.host].call(
                    "open", length_s=length_s, plan=sent
                )
        with_nics = [part.host for part in plan.hosts if part.nics]
        netdevs = self._lay_cables(plan, spaces) if not with_nics else {}
        answers = self._call_hosts(with_nics, "plug_nics", length_s=BRING_UP_S)
        rings = {
            cable: ring for host_rings in answers.values() for cable, ring in host_rings.items()
        }
        self._call_all(
            {
                part.host: partial(
                    self.clients[part.host].call,
                    "bring_up",
                    length_s=BRING_UP_S + plan.scenario.boots_s,
                    cables={
                        str(use.cable): netdevs[use.cable]
                        for use in part.cables
                        if use.cable in netdevs
                    },
                    rings={str(u.cable): rings.get(str(u.cable)) for u in part.cables},
                )
                for part in plan.hosts
            }
        )
        # Between endpoints nothing but they themselves can send.
        path_check = {} if plan.scenario.apart else self._path_check(plan)
        answers = self._call_hosts((p.host for p in plan.hosts), "facts", path_check=path_check)
        of_host = {
            host: ScenarioFacts.model_validate(answer).facts for host, answer in answers.items()
        }
        return ScenarioFacts(
            scenario=plan.scenario.id,
            plan=plan.model_dump(mode="json"),
            facts=_merge_facts(plan, of_host, self._boots),
            path_check=path_check,
        )

    def _lay_cables(self, plan: Plan, spaces: Mapping[str, str]) -> dict[int, str]:
        """Have each cable laid by the host that is locked last of its two; its interface there."""
        netdevs: dict[int, str] = {}
        for part in plan.hosts:
            far = {use.cable: spaces[use.far.partition(":")[0]] for use in part.cables}
            spaces_by_cable = {
                use.cable: far[use.cable]
                for use in part.cables
                if use.far.partition(":")[0] < part.host
            }
            if spaces_by_cable:
                with _name_host(part.host):
                    cables = {str(number): space for number, space in spaces_by_cable.items()}
                    laid = self.clients[part.host].call("lay_cables", cables=cables)
                netdevs |= {int(number): netdev for number, netdev in laid.items()}
        return netdevs

    def _path_check(self, plan: Plan) -> dict[str, Any]:
        tester = plan.of_tester().host
        apart = len(plan.testers) > 1
        others = [part.host for part in plan.hosts if apart or part.host != tester]
        before = self._call_hosts(others, "counters")
        try:
            if apart:
                return self._check_split_path(plan, PATH_TIMEOUT_S)
            with _name_host(tester):
                length_s = 60 + plan.scenario.boots_s
                checked: dict[str, Any] = self.clients[tester].call("check_path", length_s=length_s)
                return checked
        except DutError as error:
            for host, ports in self._call_hosts(others, "counters").items():
                earlier = before[host]
                hops = ", ".join(
                    f"{name} rx {now['rx'] - old['rx']} tx {now['tx'] - old['tx']}"
                    for name, now in ports.items()
                    if (old := earlier.get(name)) is not None
                )
                error.add_note(f"  counters of host {host} over all tries: {hops}")
            raise

    def _call_hosts(self, hosts: Iterable[str], name: str, **args: Any) -> dict[str, Any]:
        """Make the same call to several hosts; return host -> answer."""
        return self._call_all({h: partial(self.clients[h].call, name, **args) for h in hosts})

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        """Run a trial of the deployed scenario: counters and collectors of all hosts around it."""
        plan = self._plan
        if plan is None:
            raise HostError("no scenario is deployed", where="run_trial")
        began = time.monotonic()
        try:
            with self._cleaned_up():
                result = self._trial(plan, spec)
        except HostError:  # a host is gone: the others have no use without it
            self._take_away()
            raise
        # Learning frames, and a try that was repeated, are of the trial too: what follows its end
        # is the DUT's pause.
        return result.model_copy(update={"wall_s": round(time.monotonic() - began, 4)})

    def watch(self, seconds: float) -> TrialResult:
        """What threads and machines of a deployment do while nothing is sent."""
        hosts = [part.host for part in self._plan.hosts] if self._plan is not None else []
        with self._cleaned_up():
            if failure := self._begin_watch(hosts, 0.0):
                return TrialResult(directions=(), failed="dut", failure=failure)
            time.sleep(seconds)
            ended = self._call_hosts(hosts, "end_watch")
        counted = {host: TrialResult.model_validate(answer) for host, answer in ended.items()}
        return merge_counts(TrialResult(directions=()), counted)

    def _trial(self, plan: Plan, spec: TrialSpec) -> TrialResult:
        if len(plan.testers) > 1:
            return self._run_split_trial(plan, spec)
        event_at = _locate_event(plan, spec)
        tester = self.clients[plan.of_tester().host]
        watchers = [p.host for p in plan.hosts if p.has_dut and not p.has_tester]
        with _name_host(plan.of_tester().host):
            length_s = 30 + plan.scenario.set_up_s
            failed = tester.call("learn", length_s=length_s, spec=spec.model_dump(mode="json"))
        if failed:
            return TrialResult(directions=(), **failed)
        time.sleep(spec.learning_wait_s * LEARNED_SHARE)
        rest_s = spec.learning_wait_s * (1 - LEARNED_SHARE)
        if failure := self._begin_watch(watchers, rest_s):
            return TrialResult(directions=(), failed="dut", failure=failure)
        rest_s = 0.0 if watchers else rest_s
        update = {"learning_frames": 0, "learning_wait_s": rest_s, "profile": False}
        result = self._send_by_tester(plan, spec.model_copy(update=update), event_at)
        ended = self._call_hosts(watchers, "end_watch")
        counted = {host: TrialResult.model_validate(answer) for host, answer in ended.items()}
        merged = merge_counts(result, self._drop_repeated_energy(counted, plan.of_tester().host))
        if merged.event is not None and not merged.failed:
            event = self._check_event_path(plan, merged.event)
            merged = merged.model_copy(update={"event": event})
        if spec.event is None and (silent := silent_directions(merged)):
            merged = self._unless_dead(plan, merged, silent)
        return merged if not spec.profile else _note_missing_stacks(merged)

    def _drop_repeated_energy(
        self, counted: Mapping[str, TrialResult], *others: str
    ) -> dict[str, TrialResult]:
        """Drop energy that another host of the same machine has counted already."""
        boots = {self._boots.get(host, "") for host in others} - {""}
        results = {}
        for host, result in counted.items():
            boot = self._boots.get(host, "")
            results[host] = result.model_copy(update={"energy": ()}) if boot in boots else result
            boots |= {boot} - {""}
        return results

    def _begin_watch(self, hosts: Sequence[str], wait_s: float) -> str:
        """Have hosts read counters, and look at threads from `wait_s` on; what has died."""
        begun = self._call_hosts(hosts, "begin_watch", length_s=wait_s, wait_s=wait_s)
        return "; ".join(f"host {host}: {failure}" for host, failure in begun.items() if failure)

    def _run_split_trial(self, plan: Plan, spec: TrialSpec) -> TrialResult:
        """Run a trial of a tester whose ports are on two hosts."""
        scenario = plan.scenario
        generator = registry.load("traffic", scenario.generator)
        require_trial(scenario.generator, generator, spec, scenario.id, apart=True)
        result = self._repeat_until_in_time(plan, spec)
        silent = silent_directions(result)
        if silent and not result.failed:  # as of a tester on one host: at a low load too?
            try:
                self._check_split_path(plan, SILENT_S, least=1)
            except DutError as error:
                ways = " and ".join(silent)
                failure = f"nothing came back in direction {ways}, nor at a low load: {error}"
                return TrialResult(directions=(), failed="dut", failure=failure)
            except GeneratorError as error:
                return TrialResult(directions=(), failed="generator", failure=str(error))
        return result if not spec.profile else _note_missing_stacks(result)

    def _repeat_until_in_time(self, plan: Plan, spec: TrialSpec) -> TrialResult:
        """Run a trial of parts until each host received all the while that the other sent."""
        bound_s = plan.clock_bound_s
        update = {"lead_s": LEAD_S, "two_clocks": bound_s != 0, "kept": bool(bound_s)}
        self._window = self._window.model_copy(update=update)
        for _ in range(WINDOW_TRIES):
            result, late = self._run_parts(plan, spec)
            if not late:
                return result
            log.warning("the trial is repeated: %s", late)
            lead_s = 2 * self._window.lead_s
            self._window = self._window.model_copy(update={"lead_s": lead_s})
        return TrialResult(directions=(), failed="generator", failure=f"{late}, repeatedly")

    def _run_parts(self, plan: Plan, spec: TrialSpec) -> tuple[TrialResult, str]:
        """Run one attempt. Return the result and why it is incomplete ("" if complete)."""
        testers, hosts = [t.host for t in plan.testers], [part.host for part in plan.hosts]
        # Frames are paced otherwise where the delays of successive ones are wanted.
        one_way = plan.clock_bound_s is not None
        sent = spec.model_copy(update={"profile": False, "ipdv": spec.ipdv and one_way})
        spec_json = sent.model_dump(mode="json")
        most_s = 30 + plan.scenario.set_up_s
        learned = self._call_hosts(testers, "learn", length_s=most_s, spec=spec_json)
        if failed := [{**answer} for answer in learned.values() if answer]:
            return TrialResult(directions=(), **failed[0]), ""
        time.sleep(spec.learning_wait_s * LEARNED_SHARE)
        if failure := self._begin_watch(hosts, spec.learning_wait_s * (1 - LEARNED_SHARE)):
            return TrialResult(directions=(), failed="dut", failure=failure), ""
        parts, late = self._send_by_parts(testers, sent)
        ended = self._call_hosts(hosts, "end_watch")
        counted = {host: TrialResult.model_validate(answer) for host, answer in ended.items()}
        merged = merge_parts(parts, plan.clock_bound_s)
        if not merged.failed:
            machines = [counted[host].machine for host in testers]
            # One that changed its clock source underway has no valid trial, wherever it is.
            changed = (machine for machine in machines if machine and machine.clock_change)
            update = {
                "machine": next(changed, machines[0]),
                "collected_s": counted[testers[0]].collected_s,
            }
            merged = merged.model_copy(update=update)
        merged = merge_counts(merged, self._drop_repeated_energy(counted))
        return merged, "" if merged.failed else late

    def _send_by_parts(
        self, testers: Sequence[str], spec: TrialSpec
    ) -> tuple[dict[str, PartResult], str]:
        """Have both hosts of the tester send and receive; and which of them was late, if one was.

        All times are of this process, which calls both and hears when each receives.
        """
        update = {"number": self._window.number % LAST_WINDOW + 1}
        window = self._window = self._window.model_copy(update=update)
        called: dict[str, float] = {}
        receives: dict[str, float] = {}
        counts: dict[str, dict[str, Any]] = {}

        def send(host: str) -> PartResult:
            usual = self.clients[host].on_event

            def on_event(event: dict[str, Any]) -> None:
                if event["event"] == "receives":
                    receives[host] = time.monotonic()
                elif event["event"] == "live":
                    counts[host] = event["counts"]
                    if host == testers[0] and len(counts) == len(testers):
                        usual({"event": "live", "counts": _live_sum(counts)})
                else:
                    usual(event)

            called[host] = time.monotonic()
            return self.clients[host].run_part(spec, window, on_event)

        parts = self._call_all({host: partial(send, host) for host in testers})
        if any(part.result.failed for part in parts.values()):
            return parts, ""
        for receiver, sender in (testers, testers[::-1]):
            if receives[receiver] > called[sender] + window.lead_s:
                late_s = receives[receiver] - called[sender]
                late = f"host {receiver} began to receive {late_s:.2f} s after {sender} was called"
                return parts, late
            last_s = receives[sender] + parts[sender].sent_s + spec.drain_s
            if (over_s := last_s - called[receiver] - parts[receiver].open_s) > 0:
                late = f"host {receiver} ended {over_s:.2f} s before frames of {sender} were due"
                return parts, late
        return parts, ""

    def _check_split_path(
        self, plan: Plan, timeout_s: float, least: int = PATH_FRAMES
    ) -> dict[str, Any]:
        """Check that frames come through between the tester's ports on two hosts."""

        def attempt(check: TrialSpec) -> TrialResult:
            trial = self._repeat_until_in_time(
                plan, check.model_copy(update={"learning_frames": 8})
            )
            if trial.failed:
                raise (DutError if trial.failed == "dut" else GeneratorError)(trial.failure)
            return trial

        def lost(result: TrialResult) -> DutError:
            return DutError(
                f"the path check failed: frames that came through: {counts_text(result)}",
                where=plan.scenario.id,
                cure="the hop where frames stop shows which part does not forward; see its log",
            )

        return send_until_complete(plan.scenario, attempt, timeout_s, lost, least)

    def _send_by_tester(
        self, plan: Plan, spec: TrialSpec, event_at: tuple[str, EventSpec] | None
    ) -> TrialResult:
        """Let the tester send, with the trial's event at the host that has what is reset."""
        tester = plan.of_tester().host
        event = spec.event
        if event is None or event_at is None:
            with _name_host(tester):
                return self.clients[tester].run_trial(spec)
        host, local = event_at
        if host == tester:
            with _name_host(tester):
                result = self.clients[tester].run_trial(spec.model_copy(update={"event": local}))
            times = result.event
        else:
            boots_s = plan.scenario.boots_s
            result, times = self._run_with_event(tester, spec, host, local, boots_s)
        if times is None:
            return result
        return result.model_copy(update={"event": times.model_copy(update={"what": event.what})})

    def _run_with_event(
        self, tester: str, spec: TrialSpec, host: str, event: EventSpec, boots_s: float
    ) -> tuple[TrialResult, EventTimes | None]:
        """A trial with an event at another host than the tester's; None where it did not happen.

        Its times are by the clock of this process, which hears from both.
        """
        began: queue.SimpleQueue[float | None] = queue.SimpleQueue()  # None: it has ended

        def live(message: dict[str, Any]) -> None:
            began.put(time.monotonic() - float(message["counts"]["elapsed_s"]))

        def send() -> TrialResult:
            try:
                return self.clients[tester].run_trial(spec, live, elsewhere=True)
            finally:
                began.put(None)

        def reset() -> EventTimes | None:
            if (first := began.get()) is None:
                return None
            sent = time.monotonic()
            remaining_event = event.model_copy(
                update={"at_s": max(0.0, event.at_s - (sent - first))}
            )
            length_s = spec.duration_s + EVENT_S + boots_s
            answer = self.clients[host].call(
                "happen", length_s=length_s, event=remaining_event.model_dump(mode="json")
            )
            times = EventTimes.model_validate(answer)
            late = sent - first
            return times.model_copy(
                update={
                    "began_s": round(times.began_s + late, 6),
                    "ended_s": round(times.ended_s + late, 6),
                }
            )

        answers = self._call_all({tester: send, host: reset})
        return cast("TrialResult", answers[tester]), cast("EventTimes | None", answers[host])

    def _check_event_path(self, plan: Plan, event: EventTimes) -> EventTimes:
        """The event, with what is wrong where frames do not come through after the trial."""
        if event.failure:
            return event
        try:
            length_s = 60 + plan.scenario.boots_s
            self.clients[plan.of_tester().host].call("check_path", length_s=length_s)
        except (DutError, GeneratorError) as error:
            failure = f"after the trial still no way through: {error}"
            return event.model_copy(update={"failure": failure})
        return event

    def _unless_dead(self, plan: Plan, result: TrialResult, silent: list[str]) -> TrialResult:
        """A result with silent directions; failed where they are silent at a low load too."""
        host = plan.of_tester().host
        try:
            with _name_host(host):
                length_s = 60 + plan.scenario.boots_s
                self.clients[host].call("check_way_through", length_s=length_s, silent=silent)
        except DutError as error:
            failure = str(self._cause(plan, error))
            return TrialResult(directions=(), failed="dut", failure=failure)
        except GeneratorError as error:
            return TrialResult(directions=(), failed="generator", failure=str(error))
        return result

    @contextlib.contextmanager
    def _cleaned_up(self) -> Iterator[None]:
        """Have every agent clean up now when something else than an error ends a call: Ctrl-C."""
        try:
            yield
        except VnetperfError:
            raise
        except BaseException:
            self._plan = None
            self.abort()
            raise

    def captured(self) -> dict[str, bytes]:
        """Frames that the last trial kept."""
        if self._plan is None:
            return {}
        files: dict[str, bytes] = {}
        for part in self._plan.testers:
            files |= self.clients[part.host].captured()
        return files

    def call(self, name: str, *, length_s: float = 0.0, **args: Any) -> Any:
        """Transfers between endpoints; nothing else is carried over several hosts."""
        plan = self._plan
        if name == "transfer" and plan is not None and args["server"] == "far":
            specs = [TransferSpec.model_validate(spec) for spec in args["specs"]]
            try:
                with self._cleaned_up():
                    if plan.scenario.apart:
                        transfers = self._transfer(plan, specs)
                        return [transfer.model_dump(mode="json") for transfer in transfers]
                    with _name_host(plan.of_tester().host):  # which has both ends
                        of_tester = self.clients[plan.of_tester().host]
                        return of_tester.call(name, length_s=length_s, **args)
            except (DutError, GeneratorError) as error:
                raise self._cause(plan, error) from None
            except HostError:  # a host is gone: the others have no use without it
                self._take_away()
                raise
        raise HostError(
            "this measurement is not carried over several hosts",
            where=name,
            cure="choose a testbed of one host",
        )

    def _transfer(self, plan: Plan, specs: Sequence[TransferSpec]) -> list[Transfer]:
        """Transfers between an endpoint on one host and one on another."""
        looked = time.monotonic()

        def watch() -> None:
            nonlocal looked
            if time.monotonic() > looked + agent.LOOK_S:
                looked = time.monotonic()
                with self._block_starts_after_interrupt():
                    self._check_alive(plan)

        host_of = {number: part.host for part in plan.hosts for number in part.ends}
        try:
            with contextlib.ExitStack() as opened:
                first, second = (
                    opened.enter_context(self._end(host_of[number], number, addresses))
                    for number, addresses in enumerate(addresses_apart(plan.scenario))
                )
                hosts = [self.testbed.hosts[host_of[number]] for number in (0, 1)]
                all_local = all(host.transport in (NETNS, "local") for host in hosts)
                machine = MachineWatch(cpus=None) if all_local else None
                return Exchange(EndpointPair(first, second), watch, machine).run(specs)
        finally:
            for client in self.clients.values():
                client.given_up = False

    @contextlib.contextmanager
    def _end(self, host: str, number: int, addresses: EndAddresses) -> Iterator[Endpoint]:
        call = partial(self._call_end, host)
        end_facts = call("open_end", number=number, addresses=list(addresses))
        place = _RemotePlace(call, host, end_facts["processors"])
        try:
            yield Endpoint(
                f"{end_facts['what']} on {host}", place, addresses.address, end_facts["netdev"]
            )
        except VnetperfError:
            call("close_end")
            raise
        call("close_end")  # after Ctrl-C it ends with its agent

    def _call_end(self, host: str, name: str, **args: Any) -> Any:
        with self._block_starts_after_interrupt(), _name_host(host):
            return self.clients[host].call(name, length_s=30, **args)

    @contextlib.contextmanager
    def _block_starts_after_interrupt(self) -> Iterator[None]:
        """Start no agent after Ctrl-C, because the endpoints' programs end with their agents."""
        try:
            yield
        except VnetperfError:
            raise
        except BaseException:
            for client in self.clients.values():
                client.given_up = True
            self.abort()
            raise

    def _check_alive(self, plan: Plan) -> None:
        duts = [part.host for part in plan.hosts if part.has_dut]
        self._call_hosts(duts, "check_alive")

    def _cause(self, plan: Plan, error: VnetperfError) -> VnetperfError:
        """The error of a part that has died on any host, rather than what was seen of it."""
        try:
            self._check_alive(plan)
        except VnetperfError as cause:
            return cause
        return error

    def teardown(self) -> list[str]:
        """Take the deployment away on all hosts, the first one locked last."""
        self._plan = None
        troubles: list[str] = []
        failure: VnetperfError | None = None
        for name, client in reversed(self.clients.items()):
            try:
                with _name_host(name):
                    troubles += [f"host {name}: {text}" for text in client.teardown()]
            except VnetperfError as error:  # the others are restored all the same
                failure = failure or error
        if failure is not None:
            raise failure
        return troubles

    def _take_away(self) -> None:
        """Take away what is left of a deployment that failed; what fails here is logged."""
        try:
            self.teardown()
        except VnetperfError as error:
            log.error("%s", error)

    def abort(self) -> None:
        """Close all connections in the middle of a call."""
        for client in reversed(self.clients.values()):
            client.abort()

    def close(self) -> None:
        """Take everything away and end the agents. Idempotent."""
        with contextlib.ExitStack() as stack:
            for client in self.clients.values():  # the last one first
                stack.callback(client.close)


def _locate_event(plan: Plan, spec: TrialSpec) -> tuple[str, EventSpec] | None:
    """Locate the host of a trial's event; return it and the event in that host's names."""
    if spec.event is None:
        return None
    part, local_name = event_place(plan, spec.event.what)
    if part is None:
        raise CapabilityError(f"no host has {spec.event.what}", where=plan.scenario.id)
    local = spec.event.model_copy(update={"what": local_name})
    check_event(part, local, spec.duration_s)
    return part.host, local


def _merge_facts(
    plan: Plan, of_host: Mapping[str, dict[str, Any]], boots: Mapping[str, str]
) -> dict[str, Any]:
    """Merge the facts of all hosts into those of one host; each host's facts stay under "hosts"."""
    duts = [part.host for part in plan.hosts if part.has_dut]
    main = plan.of_tester().host or duts[0]
    facts: dict[str, Any] = {**of_host[main]}
    first = main if main in duts else duts[0]
    facts["vswitch"] = of_host[first]["vswitch"]
    if "pods" in facts["vswitch"]:  # each host has made its own
        ends = {n: end for host in duts for n, end in of_host[host]["vswitch"]["pods"].items()}
        facts["vswitch"] = {**facts["vswitch"], "pods": dict(sorted(ends.items()))}
    facts["vnfs"] = [vnf for host in duts for vnf in of_host[host]["vnfs"]]
    if len(plan.testers) > 1:
        facts["ports of the tester"] = plan.tester_text
    # Two entries of a testbed may lead to one machine: the first of them stands for it.
    first_of: dict[str, str] = {}
    facts["hosts"] = {
        part.host: {
            "machine of": first_of.setdefault(boots.get(part.host) or part.host, part.host),
            "parts": " and ".join(part.parts),
            "cables": [str(use) for use in part.cables],
            **of_host[part.host],
        }
        for part in plan.hosts
    }
    return facts


def _note_missing_stacks(result: TrialResult) -> TrialResult:
    reason = "not measured: call stacks are not sampled over several hosts"
    return result.model_copy(update={"uncollected": {**result.uncollected, "profile": reason}})


def _live_sum(counts: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    summed = {
        key: sum(host_counts[key] for host_counts in counts.values())
        for key in LiveCounts.model_fields
    }
    return summed | {"elapsed_s": max(host_counts["elapsed_s"] for host_counts in counts.values())}


#: Oldest knowledge of what became of an endpoint's programs, and of what has arrived, seconds: each
#: look takes processor time of a host where something is measured.
LOOK_AGAIN_S = 0.15


class _RemotePlace:
    """An endpoint on another host, as a place."""

    def __init__(self, call: Callable[..., Any], host: str, processors: str) -> None:
        self._call, self._host, self._processors = call, host, processors
        self._looked, self._codes, self._arrived = float("-inf"), list[int | None](), 0

    @property
    def processors(self) -> str:
        return f"{self._processors} of {self._host}"

    def do(self, action: str, **args: Any) -> Any:
        return self._call("drive_end", do=action, **args)

    def run(self, argv: Sequence[str]) -> str:
        return str(self.do("run", argv=list(argv)))

    def start(self, name: str, argv: Sequence[str]) -> EndpointProgram:
        number = int(self.do("start", argv=list(argv)))
        self._looked = float("-inf")
        return _RemoteProgram(self, number)

    def ended(self, number: int) -> int | None:
        """Exit code of a program; None while it runs, or ran a moment ago."""
        self._look()
        return self._codes[number]

    def received(self, netdev: str) -> int:
        self._look()
        return self._arrived

    def _look(self) -> None:
        if time.monotonic() > self._looked + LOOK_AGAIN_S:
            self._codes, self._arrived = self.do("look")
            self._looked = time.monotonic()

    def write(self, name: str, content: bytes) -> str:
        """Endpoints on other hosts are given no files."""
        raise HostError("no files are written there", where=f"host {self._host}, {name}")

    def statistics(self) -> dict[str, LinkStatistics]:
        """Only what arrives at an endpoint's own interface is read there."""
        raise HostError("statistics are not read there", where=f"host {self._host}")


class _RemoteProgram(EndpointProgram):
    """A program of an endpoint on another host."""

    def __init__(self, place: _RemotePlace, number: int) -> None:
        self._place, self._number = place, number

    def ended(self) -> int | None:
        return self._place.ended(self._number)

    def cpu(self) -> CpuTime | None:
        """Processor time until now, or as last read before its end; None where it is unknown."""
        times = self._place.do("cpu", program=self._number)
        return None if times is None else CpuTime(*times)

    def read_stat(self) -> str:
        """What it reads is read there."""
        raise HostError("its host reads it", where="stat")

    def output(self) -> str:
        return str(self._place.do("output", program=self._number))

    def end(self, by: signal.Signals) -> None:
        self._place.do("end", program=self._number, by=int(by))
