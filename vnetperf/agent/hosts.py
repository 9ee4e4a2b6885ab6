"""The agents of a testbed's hosts, one or several, driven as one.

The controller calls each agent; agents do not know each other. Hosts are taken in the order of
their names and given back in the opposite one, so that two runs never wait for each other.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

from vnetperf.agent import client as agent
from vnetperf.agent.client import AgentClient, Event
from vnetperf.agent.counts import merge_counts, merge_hosts
from vnetperf.deployment.endpoints import EndAddresses, addresses_apart
from vnetperf.deployment.events import check_event, locate_event
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
    LiveCounts,
    PartResult,
    TrialResult,
    TrialSpec,
    TrialWindow,
)
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import require_trial
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


@contextlib.contextmanager
def _name_host(host: str) -> Iterator[None]:
    """Add the host's name to errors raised in the block, where a testbed has several."""
    try:
        yield
    except VnetperfError as error:
        if host and f"host {host}" not in error.where:
            error.where = f"host {host}" + (f", {error.where}" if error.where else "")
        raise


def _with_host(host: str, text: str) -> str:
    """A text about a host, which is named where a testbed has several."""
    return f"host {host}: {text}" if host else text


class _Meeting:
    """Where the parts of a trial at several hosts wait for each other, each in its thread."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._present = self._number = 0
        self._ended = False
        self._changed = threading.Condition()
        self._gathered: dict[str, Any] = {}
        self._news: dict[str, Any] = {}

    def wait(self, news: Mapping[str, Any]) -> dict[str, Any] | None:
        """Wait until all are here: what they have told. None where the part of one has ended."""
        with self._changed:
            number = self._number
            self._gathered |= news
            self._present += 1
            if self._present == self._hosts:
                self._news, self._gathered, self._present = self._gathered, {}, 0
                self._number += 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended or self._number != number)
            return self._news if self._number != number else None

    def end(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class _TrialOfHosts:
    """One try of a trial at all hosts. All times are of this process, which hears from each."""

    def __init__(
        self,
        clients: Mapping[str, AgentClient],
        plan: Plan,
        spec: TrialSpec,
        window: TrialWindow | None,
        *,
        follow: bool,
    ) -> None:
        self._clients, self._plan, self._window = clients, plan, window
        self._follow = follow
        self._testers = [part.host for part in plan.testers]
        self._event_host = _find_event_host(plan, spec)
        if plan.hosts:
            # Frames are paced otherwise where the delays of successive ones are wanted.
            ipdv = spec.ipdv and plan.clock_bound_s is not None
            spec = spec.model_copy(update={"profile": False, "ipdv": ipdv})
        self._spec = spec
        self._meeting = _Meeting(len(plan.host_plans))
        self._ready: dict[str, float] = {}
        self._receives: dict[str, float] = {}
        self._counts: dict[str, dict[str, Any]] = {}

    def end(self) -> None:
        """Let no part wait for another any more."""
        self._meeting.end()

    def run_part(self, host: str) -> PartResult:
        """Run the part of one host to its end, which is that of all where it fails."""
        client, spec, scenario = self._clients[host], self._spec, self._plan.scenario
        length_s = scenario.set_up_s + spec.duration_s + spec.drain_s + spec.learning_wait_s
        # The event may begin a guest anew.
        length_s += EVENT_S + scenario.boots_s if spec.event is not None else 0.0
        length_s += 2 * self._window.lead_s if self._window is not None else 0.0
        spec, event_is_here = self._spec_at(host)
        is_split = self._window is not None and host in self._testers
        usual = client.on_event
        client.on_meet = partial(self._meet, host)
        if is_split:
            client.on_event = partial(self._hear, host, usual)
        try:
            answer = client.call(
                "run_trial",
                length_s=length_s,
                spec=spec.model_dump(mode="json"),
                follow=self._follow,
                together=bool(self._plan.hosts),
                event_is_here=event_is_here,
                window=self._window.model_dump(mode="json") if self._window and is_split else None,
            )
            part = PartResult.model_validate(answer)
        except BaseException:
            self.end()
            raise
        finally:
            client.on_event = usual
        if part.result.failed:
            self.end()
        return part

    def _spec_at(self, host: str) -> tuple[TrialSpec, bool]:
        """The trial as one host is told it, and whether its event is there."""
        if self._event_host is None:
            return self._spec, False
        if host == self._event_host:
            return self._spec, True
        if self._event_host in self._testers:  # whose own clock times it
            return self._spec.model_copy(update={"event": None}), False
        return self._spec, False

    def _meet(self, host: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
        news = self._meeting.wait(message["news"])
        if message["point"] == "ready":
            self._ready[host] = time.monotonic()
        return news

    def _hear(self, host: str, usual: Event, event: dict[str, Any]) -> None:
        """Hear a host of a tester that has the other port on another one."""
        if event["event"] == "receives":
            self._receives[host] = time.monotonic()
        elif event["event"] == "live":
            self._counts[host] = event["counts"]
            if host == self._testers[0] and len(self._counts) == len(self._testers):
                usual({"event": "live", "counts": _live_sum(self._counts)})
        else:
            usual(event)

    def describe_lateness(self, parts: Mapping[str, PartResult]) -> str:
        """Describe which of a tester's two hosts did not receive while the other sent, if one."""
        window = self._window
        if window is None or any(part.result.failed for part in parts.values()):
            return ""
        for receiver, sender in (self._testers, self._testers[::-1]):
            if self._receives[receiver] > self._ready[sender] + window.lead_s:
                late_s = self._receives[receiver] - self._ready[sender]
                return f"host {receiver} began to receive {late_s:.2f} s after {sender} was called"
            last_s = self._receives[sender] + parts[sender].sent_s + self._spec.drain_s
            over_s = last_s - self._ready[receiver] - parts[receiver].open_s
            if over_s > 0:
                return f"host {receiver} ended {over_s:.2f} s before frames of {sender} were due"
        return ""


class TestbedClient:
    """The agents of a testbed's hosts, in the order they are locked, as one client.

    Attributes:
        clients: Host -> the client of its agent; "" for the host of a testbed that has one.
    """

    __test__ = False  # pytest collects classes of this name

    def __init__(
        self, testbed: Testbed, on_event: Event | None = None, *, read_only: bool = False
    ) -> None:
        self.testbed = testbed
        self._boots: dict[str, str] = {}
        self.clients = {
            name: agent.AgentClient(testbed.of_host(name), on_event, read_only=read_only)
            for name in testbed.host_names
        }
        self.follow = False  #: True requests events "live" with the counts of trials.
        self._plan: Plan | None = None
        self._trial: _TrialOfHosts | None = None
        #: Of the last trial of a tester on two hosts.
        self._window = TrialWindow(number=0, lead_s=LEAD_S)

    def name_testbed(self, name: str) -> None:
        """Set what a user calls the testbed, for commands that messages propose."""
        for client in self.clients.values():
            client.named = name

    @property
    def restored(self) -> list[dict[str, Any]]:
        """What was restored of runs that died, on all hosts."""
        return [report for client in self.clients.values() for report in client.restored]

    @property
    def troubles(self) -> tuple[str, ...]:
        """What of dead runs could not be undone, with the host."""
        return tuple(
            _with_host(name, text)
            for name, client in self.clients.items()
            for text in client.troubles
        )

    def _call_all(self, calls: Mapping[str, Callable[[], Answer]]) -> dict[str, Answer]:
        """Make a call to each of some hosts at the same time; the first failure once all ended.

        What ends the waiting, such as Ctrl-C, ends the calls first: no thread outlives it, which
        would take the end of its agent for a death and start another one.
        """

        def named(host: str, call: Callable[[], Answer]) -> Answer:
            with _name_host(host):
                return call()

        if len(calls) < 2:  # which needs no thread
            return {host: named(host, call) for host, call in calls.items()}
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
        if not self.testbed.hosts:
            return self.clients[""].inventory()
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
        clocks = self._call_all(
            {name: client.clock_offset for name, client in self.clients.items()}
        )
        return {host: clock for host, clock in clocks.items() if clock is not None}

    def calibrate(
        self, plan: Plan, frame_sizes: Sequence[int], *, brief: bool = False
    ) -> Calibration:
        """Loop the generator to itself, on the tester's host, and measure it.

        Args:
            plan: By `make_loop_plan`.
            frame_sizes: Octets including FCS.
            brief: True for what is no benchmark.
        """
        self.teardown()
        with _name_host(plan.host):
            return self.clients[plan.host].calibrate(plan, frame_sizes, brief=brief)

    def deploy(self, plan: Plan) -> ScenarioFacts:
        """Deploy a plan; when anything fails, every host is as it was."""
        self.teardown()
        began = time.monotonic()
        self._plan = plan
        spaces: dict[str, str] = {}  # of hosts on which something has begun
        try:
            with self._cleaned_up():
                facts = self._deploy_parts(plan, spaces)
        except VnetperfError:
            if spaces:
                log.error("undoing the deployment of %s", plan.scenario.id)
            self._take_away()
            raise
        return facts.model_copy(update={"deploy_s": round(time.monotonic() - began, 3)})

    def _deploy_parts(self, plan: Plan, spaces: dict[str, str]) -> ScenarioFacts:
        parts, starts_s = plan.host_plans, Backends(plan.scenario).vswitch.starts_s
        for part in parts:
            with _name_host(part.host):
                length_s = 60 + self.testbed.lock_timeout_s
                sent = part.model_dump(mode="json")
                spaces[part.host] = self.clients[part.host].call(
                    "open", length_s=length_s, plan=sent
                )
        with_nics = [part.host for part in parts if part.nics and part.cables]
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
                    length_s=BRING_UP_S + plan.scenario.boots_s + starts_s,
                    cables={
                        str(use.cable): netdevs[use.cable]
                        for use in part.cables
                        if use.cable in netdevs
                    },
                    rings={str(u.cable): rings.get(str(u.cable)) for u in part.cables},
                )
                for part in parts
            }
        )
        # Between endpoints nothing but they themselves can send.
        path_check = {} if plan.scenario.apart else self._path_check(plan)
        if path_check:
            log.info("frames come through: %s", path_check)
        answers = self._call_hosts((p.host for p in parts), "facts", path_check=path_check)
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
        tester = plan.testers[0].host
        apart = len(plan.testers) > 1
        others = [part.host for part in plan.host_plans if apart or part.host != tester]
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
        """Run a trial of the deployed scenario, with counters and collectors of all hosts.

        Raises:
            CapabilityError: The deployment cannot do it.
            HostError: A host is gone, or nothing is deployed.
        """
        plan = self._plan
        if plan is None:
            raise HostError("no scenario is deployed", where="run_trial")
        began = time.monotonic()
        try:
            with self._cleaned_up():
                result = self._run_parts(plan, spec)
                if len(plan.testers) > 1 and not result.failed:
                    result = self._require_way_through(plan, result)
        except HostError:  # a host is gone: the others have no use without it
            self._take_away()
            raise
        if not plan.hosts:
            return result
        # Learning frames, and a try that was repeated, are of the trial too: what follows its end
        # is the DUT's pause.
        update: dict[str, Any] = {"wall_s": round(time.monotonic() - began, 4)}
        if spec.profile:
            missing = "not measured: call stacks are not sampled over several hosts"
            update["uncollected"] = {**result.uncollected, "profile": missing}
        return result.model_copy(update=update)

    def watch(self, seconds: float) -> TrialResult:
        """What threads and machines of a deployment do while nothing is sent."""
        hosts = [part.host for part in self._plan.host_plans] if self._plan is not None else []
        with self._cleaned_up():
            answers = self._call_hosts(hosts, "watch", length_s=seconds, seconds=seconds)
        counted = {host: TrialResult.model_validate(answer) for host, answer in answers.items()}
        if len(counted) == 1:
            return next(iter(counted.values()))
        return merge_counts(TrialResult(directions=()), counted)

    def _run_parts(self, plan: Plan, spec: TrialSpec) -> TrialResult:
        """Run the parts of a trial at all hosts at the same time.

        With a tester on two hosts they are run again until each received all the while that the
        other sent.
        """
        testers = [part.host for part in plan.testers]
        if len(testers) > 1:
            self._begin_windows(plan, spec)
        for _ in range(WINDOW_TRIES):
            trial = self._trial = _TrialOfHosts(
                self.clients, plan, spec, self._next_window(plan), follow=self.follow
            )
            parts = self._call_all(
                {part.host: partial(trial.run_part, part.host) for part in plan.host_plans}
            )
            late = trial.describe_lateness(parts)
            if not late:
                result = merge_hosts(parts, testers, plan.clock_bound_s, self._boots)
                if result.event is None or spec.event is None:
                    return result
                event = result.event.model_copy(update={"what": spec.event.what})
                return result.model_copy(update={"event": event})
            log.warning("the trial is repeated: %s", late)
            lead_s = 2 * self._window.lead_s
            self._window = self._window.model_copy(update={"lead_s": lead_s})
        return TrialResult(directions=(), failed="generator", failure=f"{late}, repeatedly")

    def _begin_windows(self, plan: Plan, spec: TrialSpec) -> None:
        """Choose what windows of a trial of a tester on two hosts have in common."""
        scenario, bound_s = plan.scenario, plan.clock_bound_s
        generator = registry.load("traffic", scenario.generator)
        require_trial(scenario.generator, generator, spec, scenario.id, apart=True)
        update = {"lead_s": LEAD_S, "two_clocks": bound_s != 0, "kept": bool(bound_s)}
        self._window = self._window.model_copy(update=update)

    def _next_window(self, plan: Plan) -> TrialWindow | None:
        """The window of a try; None where the tester's ports are on one host."""
        if len(plan.testers) == 1:
            return None
        update = {"number": self._window.number % LAST_WINDOW + 1}
        self._window = self._window.model_copy(update=update)
        return self._window

    def _require_way_through(self, plan: Plan, result: TrialResult) -> TrialResult:
        """The result of a tester on two hosts; failed where a direction is always silent."""
        silent = silent_directions(result)
        if not silent:
            return result
        try:
            self._check_split_path(plan, SILENT_S, least=1)
        except DutError as error:
            ways = " and ".join(silent)
            failure = f"nothing came back in direction {ways}, nor at a low load: {error}"
            return TrialResult(directions=(), failed="dut", failure=failure)
        except GeneratorError as error:
            return TrialResult(directions=(), failed="generator", failure=str(error))
        return result

    def _check_split_path(
        self, plan: Plan, timeout_s: float, least: int = PATH_FRAMES
    ) -> dict[str, Any]:
        """Check that frames come through between the tester's ports on two hosts."""

        def attempt(check: TrialSpec) -> TrialResult:
            trial = self._run_parts(plan, check.model_copy(update={"learning_frames": 8}))
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
        """Have something else than a trial measured; over several hosts only transfers."""
        plan = self._plan
        if plan is None:
            raise HostError("no scenario is deployed", where=name)
        if plan.hosts and (name, args.get("server")) != ("transfer", "far"):
            raise HostError(
                "this measurement is not carried over several hosts",
                where=name,
                cure="choose a testbed of one host",
            )
        try:
            with self._cleaned_up():
                if plan.scenario.apart:
                    specs = [TransferSpec.model_validate(spec) for spec in args["specs"]]
                    transfers = self._transfer(plan, specs)
                    return [transfer.model_dump(mode="json") for transfer in transfers]
                tester = plan.testers[0].host  # which has both ends
                with _name_host(tester):
                    return self.clients[tester].call(name, length_s=length_s, **args)
        except (DutError, GeneratorError) as error:
            raise self._cause(plan, error) from None
        except HostError:  # a host is gone: the others have no use without it
            self._take_away()
            raise

    def _transfer(self, plan: Plan, specs: Sequence[TransferSpec]) -> list[Transfer]:
        """Transfers between an endpoint on one host and one on another."""
        looked = time.monotonic()

        def watch() -> None:
            nonlocal looked
            if time.monotonic() > looked + agent.LOOK_S:
                looked = time.monotonic()
                with self._block_starts_after_interrupt():
                    self._check_alive(plan)

        port_hosts = {number: part.host for part in plan.hosts for number in part.ends}
        try:
            with contextlib.ExitStack() as opened:
                first, second = (
                    opened.enter_context(self._end(port_hosts[number], number, addresses))
                    for number, addresses in enumerate(addresses_apart(plan.scenario))
                )
                hosts = [self.testbed.hosts[port_hosts[number]] for number in (0, 1)]
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
        duts = [part.host for part in plan.host_plans if part.has_dut]
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
                    troubles += [_with_host(name, text) for text in client.teardown()]
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
        if self._trial is not None:
            self._trial.end()
        for client in reversed(self.clients.values()):
            client.abort()

    def close(self) -> None:
        """Take everything away and end the agents. Idempotent."""
        with contextlib.ExitStack() as stack:
            for client in self.clients.values():  # the last one first
                stack.callback(client.close)


def _find_event_host(plan: Plan, spec: TrialSpec) -> str | None:
    """The host of a trial's event, which can happen there; None without an event."""
    if spec.event is None:
        return None
    if not plan.hosts:
        return plan.host
    part = locate_event(plan, spec.event.what)
    if part is None:
        raise CapabilityError(f"no host has {spec.event.what}", where=plan.scenario.id)
    check_event(part, spec.event, spec.duration_s)
    return part.host


def _merge_facts(
    plan: Plan, of_host: Mapping[str, dict[str, Any]], boots: Mapping[str, str]
) -> dict[str, Any]:
    """Merge the facts of all hosts into those of one host; each host's facts stay under "hosts"."""
    if len(of_host) == 1:
        return next(iter(of_host.values()))
    duts = [part.host for part in plan.hosts if part.has_dut]
    main = plan.testers[0].host if plan.testers else duts[0]
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
