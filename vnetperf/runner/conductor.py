"""Conducts the tests of a scenario: opens each, runs its trials, and logs how it ended.

A trial that is no measurement is repeated where that helps; a test at chosen loads whose load the
generator cannot offer begins anew below what it can. A search is sent whatever was counted, and
gives up by itself a load that its trials do not decide.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from vnetperf.analysis.attribution import locate_losses
from vnetperf.analysis.logged_tests import (
    Case,
    Logged,
    LoggedSearch,
    LoggedTest,
    group_tests,
    is_valid,
    merge_rounds,
    start_procedure,
    trial_outcome,
)
from vnetperf.analysis.results_from_log import derive_result, merge_searches
from vnetperf.analysis.rounds import in_rounds, start_loads, wants_round
from vnetperf.deployment.events import find_event_problem
from vnetperf.log.records import (
    BeginRecord,
    NotMeasuredRecord,
    OutcomeRecord,
    ProcedureRecord,
    ProfileRecord,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.model.deployment import PhyPort
from vnetperf.model.errors import (
    CapabilityError,
    DutError,
    GeneratorError,
    HostError,
    NoResultError,
    VnetperfError,
)
from vnetperf.model.figures import Outcome
from vnetperf.model.frames import LinkSpeed, overhead
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.preset import Preset
from vnetperf.model.result import Profile, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import TrialOutcome, TrialRequest, TrialSpec, Verdict, same_load
from vnetperf.planning.backends import Backends
from vnetperf.planning.capability_check import require_trial
from vnetperf.plugin.procedure import RULES, FrameTest, KnownThroughput, load_test
from vnetperf.plugin.vswitch import HasSessions
from vnetperf.procedures.rates import preferred_below
from vnetperf.procedures.reset import ResetInputs, name_events
from vnetperf.report.flame import top_functions, write_flame_graph
from vnetperf.runner.calm import await_calm
from vnetperf.runner.run import Measured, Run, utc_now
from vnetperf.runner.transfers import Planning
from vnetperf.runner.verdict import (
    OFFERED_MARGIN,
    is_finding,
    judge,
    offerable_load,
    write_captures,
)
from vnetperf.search import replay

log = logging.getLogger(__name__)

#: What helps a generator that cannot offer a load.
FREE_THE_TESTER = "give the tester a core of its own, or free this machine of other work"
LOWER_THE_LEAST = f"{FREE_THE_TESTER}; or lower min_load_fps in the preset file"

#: Figures that no test stumbles over: its first trial is looked at, and never run.
_ANY_RATE_FPS = 1e6
_ANY_THROUGHPUT = KnownThroughput(load_fps=_ANY_RATE_FPS / 2, search=0, goal="any")


def require_generator(run: Planning, scenario: Scenario, test: str) -> None:
    """Refuse a test whose trials the generator cannot do."""
    kind, preset = load_test(test), run.configuration.preset
    procedure = kind.run(
        kind.inputs_model()(
            parameters=kind.parameters(preset),
            frame_size=64,
            ceiling_fps=_ANY_RATE_FPS,
            media_fps=_ANY_RATE_FPS,
            throughput=_ANY_THROUGHPUT,
        )
    )
    try:
        request = next(procedure)
    except (StopIteration, NoResultError):
        return  # it requests no trial
    generator = Backends(scenario).generator
    apart = bool(run.facts().hosts) and len(run.plan(scenario).testers) > 1
    where = f"{scenario.id}, test {test}"
    for trial_request in (request, *kind.later(kind.parameters(preset))):
        trial = TrialSpec(frame_size=64, **trial_request.model_dump())
        require_trial(scenario.generator, generator, trial, where, apart=apart)


def reset_inputs(
    run: Run, scenario: Scenario, kind: type[FrameTest], ends: tuple[str, str]
) -> dict[str, Any]:
    """What a test that resets something is given besides."""
    if kind.inputs_model() is not ResetInputs:
        return {}
    plan, graph = run.plan(scenario), scenario.deployment
    hosts = [part.host for part in plan.hosts if part.has_dut]
    between = graph.cables and not isinstance(graph.ends[0], PhyPort)
    places: dict[str, Any] = {
        "vswitches": tuple(hosts) if len(hosts) > 1 else (),
        "link": str(graph.cables[0][0]) if between else "",
    }
    events = name_events(run.configuration.preset.reset, ends, **places)
    problems = {event: find_event_problem(plan, event) for event in events}
    return {
        "impossible": {event: problem for event, problem in problems.items() if problem},
        **places,
    }


def begin_test(
    run: Run,
    scenario: Scenario,
    test: str,
    frame_size: int,
    throughput: KnownThroughput | None,
    *,
    lowered: tuple[float, str] | None = None,
    after: Sequence[Result] = (),
) -> SearchRecord | ProcedureRecord:
    """The record that opens a test: everything it is given.

    `after` are the results of the rounds before, of a search. `lowered` is the largest load of this
    test alone, frames/s per interface, and what it is limited by, where its trials were no
    measurement above it.
    """
    configuration, generator = run.configuration, Backends(scenario).generator
    preset, media = configuration.preset, configuration.testbed.media
    max_load, reason = _max_load(run, scenario, frame_size, lowered)
    directions = len({stream.direction for stream in scenario.streams})
    profile = scenario.traffic
    mix, equal = profile.mix, profile.loads == (1.0, 1.0)
    loads = () if equal or directions < 2 else profile.loads
    graph = scenario.deployment
    first, second = graph.ends
    point = run.calibrated(frame_size)
    common: dict[str, Any] = {
        "search": run.log.next_search(),
        "scenario": scenario.id,
        "test": test,
        "frame_size": frame_size,
        "directions": directions,
        "ends": (graph.port_name(first), graph.port_name(second)),
        # Both ports' sum; a test that sends one way can use half of it.
        "generator_max_fps": point.max_clean_fps * (sum(loads) or directions) / 2
        if point
        else None,
        "limit_reason": f"limited by {reason}",
        "imix": mix.name if mix is not None else "",
        "mean_size": mix.mean_size if mix is not None else None,
        "overhead": overhead(scenario.encapsulation),
        "loads": loads,
    }
    if test == THROUGHPUT:
        in_sum = sum(loads) if loads else directions
        return SearchRecord(
            algorithm=preset.algorithm,
            goals=preset.goals,
            limits=preset.limits(max_load, start_loads(after, in_sum)),
            round=len(after) + 1,
            rounds=preset.rounds,
            **common,
        )
    kind = load_test(test)
    media_fps = LinkSpeed(media.bits_per_second).max_frame_rate(
        (common["mean_size"] or frame_size) + common["overhead"]
    )
    if kind.on_grid and (media.nominal or max_load < media_fps):
        max_load = max(preset.min_load_fps, preferred_below(max_load))
        reason += ", rounded down to a preferred number (ISO 3, R20)"
        common["limit_reason"] = f"limited by {reason}"
    if throughput is not None and not kind.needs_carried:
        throughput = throughput.model_copy(update={"try_s": 0.0})
    inputs = kind.inputs_model()(
        parameters=kind.parameters(preset),
        frame_size=frame_size,
        mean_size=common["mean_size"],
        directions=directions,
        ends=common["ends"],
        loads=loads,
        min_load_fps=preset.min_load_fps,
        ceiling_fps=max_load,
        ceiling_reason=reason,
        media_fps=media_fps,
        nominal=media.nominal,
        definition=generator.capabilities.latency_definition,
        burst_gap_ns=point.smallest_burst_gap_ns if point else None,
        tries=preset.trial.repeats_when_limited + 1,
        rules=RULES,
        timelines=generator.capabilities.timelines and len(run.plan(scenario).testers) == 1,
        sessions=scenario.change.sessions if scenario.change is not None else 0,
        session_timeout_s=_find_session_timeout(scenario),
        throughput=throughput,
        **reset_inputs(run, scenario, kind, common["ends"]),
    )
    return ProcedureRecord(inputs=inputs.model_dump(mode="json"), **common)


def _find_session_timeout(scenario: Scenario) -> float | None:
    """Seconds that the vSwitch holds a session without frames; None where time ends none."""
    if scenario.change is None:
        return None
    vswitch = Backends(scenario).vswitch
    return vswitch.session_timeout_s(scenario) if issubclass(vswitch, HasSessions) else None


def _max_load(
    run: Run, scenario: Scenario, frame_size: int, lowered: tuple[float, str] | None
) -> tuple[float, str]:
    """The largest load worth requesting, frames/s per interface, and what it is limited by."""
    least = run.configuration.preset.min_load_fps
    of_all = run.max_loads.find_limit(scenario, frame_size, run.calibrated(frame_size))
    max_load, reason = min(of_all, lowered or of_all)
    if max_load <= least:
        raise GeneratorError(
            f"the largest load that can be offered, {max_load:.0f} frames/s (limited by {reason}), "
            f"is not above the preset's smallest, {least:.0f}",
            where=f"{scenario.id}, {frame_size} octets",
            cure=LOWER_THE_LEAST,
        )
    return max_load, reason


def derive_throughput(result: Result, begin: BeginRecord) -> KnownThroughput:
    """The throughput that other tests take their loads of: of several rounds the least."""
    goal = result.throughput_goal
    assert goal is not None  # noqa: S101 - for the type checker: a search has a goal or more
    rounds = goal.rounds or (goal,)
    lowers = [round_goal.lower_bound_load_fps for round_goal in rounds]
    uppers = [round_goal.upper_bound_load_fps for round_goal in rounds]
    loads = [load for load in lowers if load is not None]
    if len(loads) < len(lowers):
        raise NoResultError(
            f"{result.unmet(goal)}, and this test takes its loads of that throughput",
            where=f"{result.scenario}, {result.size_text}",
        )
    notes = []
    if goal.loss_ratio:
        notes.append(f"the throughput is that of goal {goal.name}, loss {goal.loss_ratio:g}")
    if goal.qualifier == "at least":
        notes.append("the throughput is at least that, as its own result says")
    elif goal.mark:
        which = "least of rounds that are" if goal.regular else "lower bound of a result that is"
        notes.append(f"the throughput is the {which} {goal.mark}, as it says itself")
    return KnownThroughput(
        load_fps=min(loads) / begin.in_sum,
        upper_fps=max(load for load in (*uppers, *loads) if load is not None) / begin.in_sum,
        search=goal.search,
        goal=goal.name,
        loss_ratio=goal.loss_ratio,
        qualifier="at least" if goal.qualifier == "at least" else "",
        note="; ".join(notes),
        try_s=goal.final_trial_s,
    )


#: Seconds of traffic of a trial in which call stacks are sampled.
PROFILE_S = 5.0


def profiled_loads(
    result: Result, begin: BeginRecord
) -> dict[tuple[Literal["lower", "upper"], float], tuple[str, ...]]:
    """Bound and its load, frames/s per interface -> the goals that have it."""
    goals_by_load: dict[tuple[Literal["lower", "upper"], float], tuple[str, ...]] = {}
    for goal in result.goals:
        bounds: tuple[tuple[Literal["lower", "upper"], float | None], ...] = (
            ("lower", goal.lower_bound_load_fps),
            ("upper", goal.upper_bound_load_fps),
        )
        for bound, load in bounds:
            if load:
                key = (bound, load / begin.in_sum)
                goals_by_load[key] = (*goals_by_load.get(key, ()), goal.name)
    return goals_by_load


class LimitedError(Exception):
    """Trials at a load were no measurement, because of the tester: the test begins anew below.

    Args:
        reason: Why.
        load_fps: Largest load of the test from here on, frames/s per interface.
        by: What that is limited by.
    """

    def __init__(self, reason: str, load_fps: float, by: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lowered = (load_fps, by)


#: Tests begun again because the generator could not offer the load, or the tester stood still.
MAX_RESTARTS = 12


#: Least wait before a round, but for a shorter gap: what an overload of another frame size left is
#: over by then, seconds.
IDLE_S = 1.0


@dataclass
class RoundsOfCase:
    """The rounds of one frame size so far."""

    case: Case
    searches: list[LoggedSearch] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    failed: bool = False  # Whether one of them had no result
    deployment: int = 0  # Number of the deployment that they are of
    ended: float | None = None  # When the last one ended, by the monotonic clock

    def wait_s(self, preset: Preset) -> float:
        """How long the next round has to wait, seconds."""
        if self.ended is None:
            return 0.0
        return max(
            min(IDLE_S, preset.round_gap_s), self.ended + preset.round_gap_s - time.monotonic()
        )


def in_turn(cases: Sequence[RoundsOfCase], preset: Preset) -> Iterator[RoundsOfCase]:
    """Whose round is next: each one's first, then whose last one is the longest ago."""
    yield from cases
    while waiting := [s for s in cases if not s.failed and wants_round(s.results, preset)]:
        yield min(waiting, key=lambda series: series.ended or 0.0)


class Conductor:
    """Runs the tests of one scenario."""

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.run = run
        self.scenario = scenario
        #: Octets of the log before the last case that was driven.
        self._from = 0

    def measure(self, test: str, frame_size: int) -> Result:
        """Run a test at a frame size; the throughput is searched first where it needs one."""
        case = (self.scenario.id, test, frame_size)
        try:
            _, result = self._measure_or_replay(case)
        except VnetperfError as error:
            self.run.failed[case] = str(error)
            if isinstance(error, HostError):  # the agent died, and what it had deployed with it
                self.run.forget_deployment()
            self.run.log.append(self._not_measured(case, error))
            raise
        self.run.failed.pop(case, None)
        return result

    def _measure_or_replay(self, case: Case) -> tuple[BeginRecord, Result]:
        """Run a test, or take it from the log. Trials stay in the log only."""
        run = self.run
        if case not in run.done:
            logged = (
                self._search_or_replay(case)
                if case[1] == THROUGHPUT
                else [self._run_or_replay(case)]
            )
            result = self._result(logged)
            run.done[case] = self._kept(logged)
            return logged[-1].begin, result
        kept = run.done[case]
        tests = (
            run.resumed.tests if kept.octets is None else group_tests(run.log.read(*kept.octets))
        )
        logged = [test for test in tests if test.begin.search in kept.searches]
        return logged[-1].begin, self._result(logged)

    def _kept(self, logged: Sequence[LoggedTest]) -> Measured:
        run, searches = self.run, tuple(test.begin.search for test in logged)
        if any(test.begin.search in searches for test in run.resumed.tests):
            return Measured(searches)
        return Measured(searches, (self._from, run.log.octets), run.deployment)

    def _not_measured(self, case: Case, error: VnetperfError) -> NotMeasuredRecord:
        mix = self.scenario.traffic.mix
        return NotMeasuredRecord(
            scenario=case[0],
            test=case[1],
            frame_size=case[2],
            why=str(error),
            kind="incapable" if isinstance(error, CapabilityError) else "failed",
            imix=mix.name if mix is not None else "",
        )

    def _search_or_replay(self, case: Case) -> Sequence[LoggedTest]:
        """Search a throughput in rounds, or take its searches from an earlier run.

        They are in turn with those of the scenario's other frame sizes: the longer there is between
        rounds, the less do they see the same weather. Rounds that an earlier run did not finish
        begin anew: what is deployed now is not what they were of.
        """
        run, preset = self.run, self.run.configuration.preset
        last = run.resumed.test(self.scenario, case)
        if last is not None and last.end is None:
            self._end_interrupted(last)
        searches = in_rounds([test for test in run.resumed.tests if test.case == case])
        if searches:
            if not wants_round([self._result([search]) for search in searches], preset):
                return searches
            for search in searches:
                reason = "the run was interrupted between rounds, and what was deployed is gone"
                self._end(search, search.seconds, stopped=reason, superseded=True)
        self._from = run.log.octets
        series = [RoundsOfCase(case), *map(RoundsOfCase, self._list_interleaved_cases(case))]
        try:
            for case_rounds in in_turn(series, preset):
                self._attempt(case_rounds, is_own=case_rounds is series[0])
        finally:
            for case_rounds in series[1:]:
                if (
                    case_rounds.failed
                    or not case_rounds.results
                    or wants_round(case_rounds.results, preset)
                ):
                    self._supersede(case_rounds, "it was not searched as often as it was to be")
                else:
                    run.done[case_rounds.case] = self._kept(case_rounds.searches)
        for case_rounds in (member for member in series if member.searches):
            if run.takes_profiles(self.scenario):
                self._profile(self._result(case_rounds.searches), case_rounds.searches[-1].begin)
        return series[0].searches

    def _supersede(self, series: RoundsOfCase, reason: str) -> None:
        """Take rounds back: the others without those that lack would be selected."""
        for search in series.searches:
            self._end(search, search.seconds, stopped=reason, superseded=True)
        series.searches.clear()
        series.results.clear()

    def _list_interleaved_cases(self, case: Case) -> list[Case]:
        """Cases of the session whose rounds are made between those of a case."""
        run = self.run
        if run.configuration.preset.rounds == 1:
            return []
        sizes = run.sizes_of.get(self.scenario.id, ())
        cases = [(self.scenario.id, THROUGHPUT, size) for size in sizes if size != case[2]]
        logged = {test.case for test in run.resumed.tests}
        return [c for c in cases if not (c in run.done or c in run.failed or c in logged)]

    def _attempt(self, series: RoundsOfCase, *, is_own: bool) -> None:
        """A round; what goes wrong in that of another case is told when that has its turn."""
        try:
            self._round(series)
        except VnetperfError as error:
            if is_own or isinstance(error, HostError):
                raise
            log.warning("%s, %d octets: %s", series.case[0], series.case[2], error)
            series.failed = True

    def _round(self, series: RoundsOfCase) -> None:
        """Search once, when it is time."""
        run, preset = self.run, self.run.configuration.preset
        wait_s = series.wait_s(preset)
        if wait_s:
            run.progress.say(f"waiting {wait_s:.0f} s for round {len(series.results) + 1}")
            run.spend("wait", wait_s)
            time.sleep(wait_s)
        run.deploy(self.scenario, series.case[2])
        if series.searches and series.deployment != run.deployment:
            self._supersede(series, "what it was of is gone: rounds are of one deployment")
        series.deployment = run.deployment
        await_calm(run)
        try:
            logged = self._run_with_restarts(series.case, None, after=series.results)
        except VnetperfError as error:
            self._supersede(series, str(error))
            raise
        series.searches.extend(in_rounds([logged]))
        series.results.append(self._result([logged]))
        series.ended = time.monotonic()
        run.progress.round_ends(series.results)

    def _run_or_replay(self, case: Case) -> LoggedTest:
        """Run a test to its end, or take it from an earlier run.

        A test that was interrupted begins again, because its trials were of another deployment.
        """
        _, test, frame_size = case
        logged = self.run.resumed.test(self.scenario, case)
        if logged is not None and logged.end is None:
            self._end_interrupted(logged)
        if logged is not None and logged.final:
            return logged  # measured before the run was interrupted
        throughput = None
        require_generator(self.run, self.scenario, test)
        if load_test(test).needs_throughput(self.run.configuration.preset):
            throughput = self._find_throughput(frame_size)
        self.run.deploy(self.scenario, frame_size)
        if throughput is not None:
            throughput = self._note_deployment(throughput, frame_size)
        self._from = self.run.log.octets
        return self._run_with_restarts(case, throughput)

    def _end_interrupted(self, logged: LoggedTest) -> None:
        """Note the end of a test that the log has no end of: superseded, unless only that lacks."""
        try:
            replayed = replay(start_procedure(logged.begin), logged.outcomes())
            is_complete = replayed.next_request is None
            self._log_outcome(logged, replayed.outcome)
        except VnetperfError:  # its trials give no result, or are those of another version
            is_complete = False
        reason = "" if is_complete else "the run was interrupted, and what was deployed is gone"
        self._end(logged, logged.seconds, stopped=reason, superseded=not is_complete)

    def _find_throughput(self, frame_size: int) -> KnownThroughput:
        """The throughput of this run, searched now if need be."""
        case = (self.scenario.id, THROUGHPUT, frame_size)
        if case in self.run.failed:
            raise NoResultError(
                f"this test needs the throughput, which was not measured: {self.run.failed[case]}",
                where=f"{self.scenario.id}, {frame_size} octets",
            )
        if case not in self.run.done:
            self.measure(THROUGHPUT, frame_size)
        begin, result = self._measure_or_replay(case)
        return derive_throughput(result, begin)

    def _note_deployment(self, throughput: KnownThroughput, frame_size: int) -> KnownThroughput:
        """The throughput, with a note where it is not that of what is deployed now."""
        measured = self.run.done[self.scenario.id, THROUGHPUT, frame_size]
        if measured.deployment == self.run.deployment:
            return throughput
        note = "the throughput is that of another deployment, which may carry more or less"
        notes = "; ".join(filter(None, (throughput.note, note)))
        return throughput.model_copy(update={"note": notes, "other_deployment": True})

    def _result(self, logged: Sequence[LoggedTest]) -> Result:
        """The result of a test; of a throughput, of all its rounds."""
        media = self.run.configuration.testbed.media.speed
        if searches := in_rounds(logged):
            rounds = {test.begin.round: derive_result(test, media) for test in searches}
            round_result = merge_searches(rounds, searches)
        else:
            round_result = derive_result(logged[-1], media)
        return merge_rounds({1: [round_result]})[0]

    def _run_with_restarts(
        self, case: Case, throughput: KnownThroughput | None, after: Sequence[Result] = ()
    ) -> LoggedTest:
        """Run a test; when the generator cannot offer a load, again below what it can."""
        _, test, frame_size = case
        lowered: tuple[float, str] | None = None
        reason = ""
        for _ in range(MAX_RESTARTS):
            begin = begin_test(
                self.run, self.scenario, test, frame_size, throughput, lowered=lowered, after=after
            )
            logged = Logged(begin)
            self.run.log.append(logged.begin)
            began = time.monotonic()
            self.run.progress.test_begins(logged.begin)
            log.info("%s, %d octets: %s begins", self.scenario.id, frame_size, test)
            try:
                self._drive(logged)
            except LimitedError as limited:
                lowered, reason = limited.lowered, limited.reason
                self._end(
                    logged,
                    time.monotonic() - began,
                    superseded=True,
                    stopped=reason,
                    lowered_to_fps=lowered[0],
                    lowered_by=lowered[1],
                )
                log.warning("%s begins anew: %s", test, reason)
                continue
            except VnetperfError as error:
                # Half a test is no result: the case has none, and a resumed run begins it anew.
                self._end(logged, time.monotonic() - began, superseded=True, stopped=str(error))
                raise
            self._end(logged, time.monotonic() - began)
            return logged
        raise GeneratorError(
            f"the generator could not offer a steady load in {MAX_RESTARTS} attempts; "
            f"last: {reason}",
            where=f"{self.scenario.id}, {frame_size} octets",
            cure=FREE_THE_TESTER,
        )

    def _profile(self, result: Result, begin: BeginRecord) -> None:
        """Sample call stacks at the bounds, in trials besides; nothing that fails here is fatal."""
        for (bound, load_fps), goals in profiled_loads(result, begin).items():
            profile = Profile(
                scenario=result.scenario,
                frame_size=result.frame_size,
                goals=goals,
                bound=bound,
                load_fps=load_fps,
            )
            try:
                profile = self._sample_stacks(profile)
            except (VnetperfError, OSError) as error:
                profile = profile.model_copy(update={"why": f"not measured: {error}"})
                self.run.forget_deployment()
            self.run.log.append(ProfileRecord(profile=profile))
            if profile.why:  # it would fail at the next bound, too
                log.warning("no flame graph of %s: %s", self.scenario.vswitch, profile.why)
                self.run.not_profiled.add(self.scenario.vswitch)
                return

    def _sample_stacks(self, profile: Profile) -> Profile:
        """Run one trial with `perf`, and write its flame graph."""
        run, times = self.run, self.run.configuration.preset.trial
        spec = TrialSpec(
            load_fps=profile.load_fps,
            duration_s=PROFILE_S,
            frame_size=profile.frame_size,
            learning_frames=self.scenario.learning_frames,
            learning_wait_s=times.learning_wait_s,
            histogram_up_to_loss=-1.0,
            profile=True,
        )
        result = run.client.run_trial(spec)
        run.spend("profile", spec.duration_s + spec.learning_wait_s + spec.drain_s)
        run.spend("wait", times.settle_s)
        time.sleep(times.settle_s)  # what follows is a trial like any other
        failure = f"not measured: {result.failure}" if result.failure else ""
        reason = failure or result.uncollected.get("profile", "")
        if result.failed:
            run.forget_deployment()
        if not result.stacks:
            return profile.model_copy(update={"why": reason or "not measured: no call stack"})
        measured = profile.model_copy(
            update={
                "samples": sum(result.stacks.values()),
                "top": top_functions(result.stacks),
                "loss_ratio": result.worst_loss_ratio() if result.directions else None,
            }
        )
        file = write_flame_graph(run.log.path.parent, measured, result.stacks)
        return measured.model_copy(update={"file": file})

    def _end(
        self,
        logged: LoggedTest,
        wall_s: float,
        *,
        stopped: str = "",
        superseded: bool = False,
        **limits: Any,
    ) -> SearchEndRecord:
        end = logged.end = SearchEndRecord(
            search=logged.begin.search,
            wall_s=round(wall_s, 3),
            stopped=stopped,
            superseded=superseded,
            **limits,
        )
        self.run.log.append(end)
        log.info("%s ended after %g s %s", logged.begin.test, end.wall_s, stopped)
        return end

    def _log_outcome(self, logged: LoggedTest, outcome: object) -> None:
        """Log an outcome that is not derived from the trials by everybody who reads them."""
        begin = logged.begin
        if isinstance(outcome, Outcome) and isinstance(begin, ProcedureRecord):
            conditions = load_test(begin.test).conditions(begin.inputs)
            logged.test_outcome = outcome.model_copy(update={"conditions": conditions})
            self.run.log.append(OutcomeRecord(search=begin.search, outcome=logged.test_outcome))

    def _drive(self, logged: LoggedTest) -> None:
        """Drive a test to its end."""
        procedure = start_procedure(logged.begin)
        replayed = replay(procedure, ())
        request, outcome = replayed.next_request, replayed.outcome
        while request is not None:
            trial = self._repeat_until_valid(logged, request)
            try:
                request = procedure.send(trial)
            except StopIteration as end:
                request, outcome = None, end.value
        self._log_outcome(logged, outcome)
        classified = (t for t in logged.trials if t.spec.phase != "warm-up" and is_valid(t))
        if isinstance(logged.begin, SearchRecord) and not any(classified):
            last = logged.trials[-1]
            raise GeneratorError(
                f"none of {len(logged.trials)} trials classified its load; the last, at "
                f"{last.spec.load_fps:.0f} frames/s per interface: {last.verdict}: {last.reason}",
                where=f"{self.scenario.id}, {logged.begin.frame_size} octets",
                cure=LOWER_THE_LEAST,
            )

    def _repeat_until_valid(self, logged: LoggedTest, request: TrialRequest) -> TrialOutcome:
        """Run a trial until it is a measurement, or give up with the reason."""
        times = self.run.configuration.preset.trial
        tried: list[TrialRecord] = []
        while len(tried) <= times.repeats_when_limited:
            trial = self._trial(logged, request)
            tried.append(trial)
            outcome = trial_outcome(trial)
            if outcome.answers(request):
                self._renew(logged, outcome)
                return outcome
            where = f"{self.scenario.id}, {logged.begin.frame_size} octets, trial {trial.number}"
            if trial.result.failed:  # DUT or generator died or hung: never a number
                self.run.forget_deployment()
                of_dut = trial.verdict is Verdict.DUT_FAILED
                raise (DutError if of_dut else GeneratorError)(trial.reason, where=where)
            if trial.verdict is Verdict.INCONSISTENT:
                raise _make_inconsistency_error(trial, where)
            log.warning("%s is no measurement: %s", where, trial.reason)
        if request.when_limited == "lower":
            raise self._make_limited_error(logged, tried)
        raise GeneratorError(f"{trial.verdict}: {trial.reason}", where=where, cure=FREE_THE_TESTER)

    def _make_limited_error(self, logged: LoggedTest, tried: Sequence[TrialRecord]) -> LimitedError:
        """Decide how a test goes on at a lower load after the tester missed its load.

        Most of the tries tell why. What the generator could not offer lowers the maximum to what
        it offered, but not below a load that it has offered whole in this deployment, unless that
        is the one that it could not offer again.
        """
        last, load_fps = tried[-1], tried[-1].spec.load_fps
        short = [trial for trial in tried if trial.verdict is Verdict.GENERATOR_LIMITED]
        if 2 * len(short) <= len(tried):
            cause = f"the tester, which stood still at {load_fps:.0f} frames/s per interface"
            return LimitedError(last.reason, load_fps * OFFERED_MARGIN, cause)
        limits = [offerable_load(trial.result, logged.begin.loads) for trial in short]
        offered = max((limit for limit in limits if limit is not None), default=load_fps)
        offered_before = self.run.max_loads.find_offered_load(logged.case, self.run.deployment)
        by = "what the generator offered on its core"
        lowered = min(offered, load_fps * OFFERED_MARGIN)
        if offered_before < load_fps and not same_load(offered_before, load_fps):
            lowered = max(offered_before, lowered)
        else:
            by += f", which is less than the {offered_before:.0f} frames/s that it offered before"
        return LimitedError(short[-1].reason, lowered, by)

    def _renew(self, logged: LoggedTest, outcome: TrialOutcome) -> None:
        """Deploy anew what did not come back after its reset: that was counted, and is broken."""
        event = outcome.result.event
        if event is not None and event.failure:
            self.run.forget_deployment()
            self.run.deploy(self.scenario, logged.begin.frame_size)

    def _trial(self, logged: LoggedTest, request: TrialRequest) -> TrialRecord:
        run, times = self.run, self.run.configuration.preset.trial
        spec = TrialSpec(
            **request.model_dump(),
            frame_size=logged.begin.frame_size,
            drain_s=times.drain_s,
            full_drain=times.full_drain,
            learning_frames=self.scenario.learning_frames,
            learning_wait_s=times.learning_wait_s,
            capture=run.configuration.capture,
            offered_tolerance=times.offered_tolerance,
        )
        run.progress.trial_begins(logged.begin, spec)
        run.spend("wait", spec.rest_s)
        time.sleep(spec.rest_s)
        started, began = utc_now(), time.monotonic()
        result = run.client.run_trial(spec)
        wall = time.monotonic() - began
        verdict, reason = judge(
            result,
            times.offered_tolerance,
            request.classifies,
            request.loss_limits,
            overload=request.overload,
        )
        number = run.log.next_trial()
        captures: tuple[str, ...] = ()
        if spec.capture is not None and not result.failed:
            captures = write_captures(run.log.path, number, run.client.captured())
        trial = TrialRecord(
            number=number,
            search=logged.begin.search,
            spec=spec,
            result=result,
            verdict=verdict,
            reason=reason,
            started=started,
            lost_at=locate_losses(self.scenario.deployment, result, run.port_hosts),
            captures=captures,
        )
        run.log.append(trial)
        logged.trials.append(trial)
        if is_valid(trial) and not trial_outcome(trial).is_short and not spec.burst:
            run.max_loads.note_offered(logged.case, run.deployment, spec.load_fps)
        log.info("trial %d, %s: %s %s", number, spec, verdict, reason)
        run.progress.trial_ends(logged.begin, trial)
        waits, pause = times.learning_wait_s + result.drain_s, max(times.settle_s, request.idle_s)
        run.spend("trial", request.duration_s)
        run.spend("wait", waits + pause)
        run.spend("around trials", max(0.0, wall - request.duration_s - waits))
        time.sleep(pause)
        return trial


def _make_inconsistency_error(trial: TrialRecord, where: str) -> VnetperfError:
    """What ends a test whose counts contradict each other.

    Another try that passes would only hide it: frames that a DUT sends to a wrong port, changes or
    invents are what it does at this load (RFC 2544 section 10 has them verified), and counts that
    do not add up discredit the others.
    """
    message = f"{trial.verdict}: {trial.reason}"
    if is_finding(trial.result):
        cure = (
            "this is what the DUT did with the frames, and no measurement of its capacity: see "
            f"trial {trial.number} in trials.jsonl, and the frames with --pcap 100:foreign"
        )
        return DutError(message, where=where, cure=cure)
    cure = "counters that do not add up are never a number; see the trial in trials.jsonl"
    return GeneratorError(message, where=where, cure=cure)
