"""Conducts tests: checks the generator, logs the record that opens a test.

Drives it to its end or begins it anew below what the generator can offer.
"""

from __future__ import annotations

import time
from typing import Any

from vnetperf import registry
from vnetperf.analysis.logged_tests import Case, Logged, LoggedTest, procedure_of
from vnetperf.analysis.results_from_log import result_of
from vnetperf.deployment.trial import why_no_event
from vnetperf.model.errors import (
    CapabilityError,
    GeneratorError,
    HostError,
    NoResultError,
    VnetperfError,
)
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import TrialSpec
from vnetperf.procedures import KnownThroughput, StandardTest, standard_test
from vnetperf.procedures.reset import ResetInputs, events_of
from vnetperf.results.records import (
    BeginRecord,
    NotMeasuredRecord,
    ProcedureRecord,
    SearchEndRecord,
    SearchRecord,
)
from vnetperf.runner.run import Run
from vnetperf.runner.trial_runner import LimitedError, TrialRunner
from vnetperf.search import replay

#: Figures that no test stumbles over: its first trial is looked at, and never run.
_ANY_RATE_FPS = 1e6
_ANY_THROUGHPUT = KnownThroughput(load_fps=_ANY_RATE_FPS / 2, search=0, goal="any")


def require_generator(run: Run, scenario: Scenario, test: str) -> None:
    """Refuse a test whose trials the generator cannot do."""
    kind = standard_test(test)
    procedure = kind.run(
        kind.inputs(
            parameters=kind.parameters(run.configuration.preset),
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
    trial = TrialSpec(frame_size=64, **request.model_dump())
    if why := registry.load("traffic", scenario.generator).lacks(trial):
        raise CapabilityError(
            f"{scenario.generator} cannot {why}",
            where=f"{scenario.id}, test {test}",
            cure="--generator loadgen can",
        )


def reset_inputs(
    run: Run, scenario: Scenario, kind: StandardTest, ends: tuple[str, str]
) -> dict[str, Any]:
    """What a test that resets something is given besides."""
    if kind.inputs is not ResetInputs:
        return {}
    plan = run.plan(scenario)
    whys = {
        what: why_no_event(plan, what) for what in events_of(run.configuration.preset.reset, ends)
    }
    return {"impossible": {what: why for what, why in whys.items() if why}}


def begin_search(run: Run, scenario: Scenario, frame_size: int) -> SearchRecord:
    """Open a throughput search."""
    preset = run.configuration.preset
    ceiling, _ = _max_load(run, scenario, frame_size)
    return SearchRecord(
        test="throughput",
        algorithm=preset.algorithm,
        goals=preset.goals,
        limits=preset.limits(ceiling),
        **_common_fields(run, scenario, frame_size),
    )


def begin_procedure(
    run: Run, scenario: Scenario, test: str, frame_size: int, known: KnownThroughput | None
) -> ProcedureRecord:
    """Open a test that is no throughput search."""
    kind, preset = standard_test(test), run.configuration.preset
    media = run.configuration.testbed.media
    ceiling, reason = _max_load(run, scenario, frame_size)
    common = _common_fields(run, scenario, frame_size)
    inputs = kind.inputs(
        parameters=kind.parameters(preset),
        frame_size=frame_size,
        directions=common["directions"],
        ends=common["ends"],
        loads=common["loads"],
        min_load_fps=preset.min_load_fps,
        ceiling_fps=ceiling,
        ceiling_reason=reason,
        media_fps=LinkSpeed(media.bits_per_second).max_frame_rate(
            common["mean_size"] or frame_size
        ),
        nominal=media.nominal,
        definition=registry.load("traffic", scenario.generator).capabilities.latency_definition,
        throughput=known,
        **reset_inputs(run, scenario, kind, common["ends"]),
    )
    return ProcedureRecord(test=test, inputs=inputs.model_dump(mode="json"), **common)


def _max_load(run: Run, scenario: Scenario, frame_size: int) -> tuple[float, str]:
    preset = run.configuration.preset
    ceiling, reason = run.ceiling(scenario, frame_size)
    if ceiling <= preset.min_load_fps:
        raise GeneratorError(
            f"the largest load that can be offered, {ceiling:.0f} frames/s, is not above the "
            f"preset's smallest, {preset.min_load_fps:.0f}",
            where=f"{scenario.id}, {frame_size} octets",
            cure="free this machine of other work, or give the tester a core of its own",
        )
    return ceiling, reason


def _common_fields(run: Run, scenario: Scenario, frame_size: int) -> dict[str, Any]:
    """Fields of `BeginRecord` that all tests have alike."""
    directions = len({stream.direction for stream in scenario.streams})
    profile = scenario.traffic
    mix, equal = profile.mix, profile.loads == (1.0, 1.0)
    loads = () if equal or directions < 2 else profile.loads
    first, second = scenario.deployment.ends
    point = run.calibrated(frame_size)
    _, reason = run.ceiling(scenario, frame_size)
    return {
        "search": run.log.next_search(),
        "scenario": scenario.id,
        "frame_size": frame_size,
        "directions": directions,
        "ends": (str(first), str(second)),
        # Both ports' sum; a test that sends one way can use half of it.
        "generator_max_fps": point.max_clean_fps * (sum(loads) or directions) / 2
        if point
        else None,
        "limit_reason": f"limited by {reason}",
        "imix": mix.name if mix is not None else "",
        "mean_size": mix.mean_size if mix is not None else None,
        "loads": loads,
    }


def throughput_of(result: Result, begin: BeginRecord) -> KnownThroughput:
    """The throughput that other tests take their loads of."""
    goal = _goal_of(result)
    if goal.lower_bound_fps is None:
        raise NoResultError(
            f"no load met goal {goal.name}, down to {result.min_load_fps or 0:.0f} frames/s per "
            f"interface ({goal.reason}), and this test takes its loads of that throughput",
            where=f"{result.scenario}, {result.size_text}",
        )
    notes = []
    if goal.loss_ratio:
        notes.append(f"the throughput is that of goal {goal.name}, loss {goal.loss_ratio:g}")
    if goal.qualifier == "at least":
        notes.append(f"the throughput is at least that: {goal.reason}")
    elif not goal.regular:
        notes.append(f"the throughput is the lower bound of an irregular result: {goal.reason}")
    return KnownThroughput(
        load_fps=goal.lower_bound_fps / begin.in_sum,
        search=begin.search,
        goal=goal.name,
        loss_ratio=goal.loss_ratio,
        qualifier="at least" if goal.qualifier == "at least" else "",
        note="; ".join(notes),
    )


def _goal_of(result: Result) -> GoalResult:
    zero = [g for g in result.goals if g.loss_ratio == 0 and g.exceed_ratio == 0]
    no_loss = [g for g in result.goals if g.loss_ratio == 0]
    return (zero or no_loss or list(result.goals))[0]


#: Tests begun again with a lower maximum because the generator could not offer the load.
MAX_RESTARTS = 12
THROUGHPUT = "throughput"


class Conductor:
    """Runs the tests of one scenario."""

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.run = run
        self.scenario = scenario
        self._trials = TrialRunner(run, scenario)

    def throughput(self, frame_size: int) -> Result:
        """Search for all goals of the preset at a frame size."""
        return self.measure(THROUGHPUT, frame_size)

    def measure(self, test: str, frame_size: int) -> Result:
        """Run a test at a frame size; the throughput is searched first where it needs one."""
        case = (self.scenario.id, test, frame_size)
        try:
            logged = self._done(case)
            result = self._result(logged)
        except VnetperfError as error:
            self.run.done.pop(case, None)
            self.run.failed[case] = error
            if isinstance(error, HostError):  # the agent died, and what it had deployed with it
                self.run.forget_deployment()
            self.run.log.append(self._not_measured(case, error))
            raise
        self.run.failed.pop(case, None)
        self.run.done[case] = logged
        return result

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

    def _done(self, case: Case) -> LoggedTest:
        """A test with its end: as this run or an earlier one left it, or driven there.

        What this run has measured is not measured again: the throughput that one test took its
        loads of is the one that is reported.
        """
        if case in self.run.done:
            return self.run.done[case]
        held = self.run.before.test(self.scenario, case)
        if held is not None and not held.final:
            held = None
        if held is not None and held.end is not None:
            return held  # measured before the run was interrupted
        known = None
        if case[1] != THROUGHPUT:
            require_generator(self.run, self.scenario, case[1])
        if case[1] != THROUGHPUT and standard_test(case[1]).needs_throughput and held is None:
            known = self._known_throughput(case[2])
        self.run.deploy(self.scenario, case[2])
        return self._until_offered(case, known, held)

    def _known_throughput(self, frame_size: int) -> KnownThroughput:
        """The throughput of this run, searched now if need be."""
        case = (self.scenario.id, THROUGHPUT, frame_size)
        if case in self.run.failed:
            raise NoResultError(
                f"this test needs the throughput, which was not measured: {self.run.failed[case]}",
                where=f"{self.scenario.id}, {frame_size} octets",
            )
        if case not in self.run.done:
            self.measure(THROUGHPUT, frame_size)
        logged = self.run.done[case]
        return throughput_of(self._result(logged), logged.begin)

    def _result(self, logged: LoggedTest) -> Result:
        media = LinkSpeed(self.run.configuration.testbed.media.bits_per_second)
        return result_of(logged, media)

    def _until_offered(
        self, case: Case, known: KnownThroughput | None, held: LoggedTest | None
    ) -> LoggedTest:
        """Run a test; when the generator cannot offer a load, again below what it can."""
        _, test, frame_size = case
        for _ in range(MAX_RESTARTS):
            if held is not None:
                logged = held  # an interrupted test goes on with its own limits
            else:
                begin = self._begin(test, frame_size, known)
                self.run.log.append(begin)
                logged = Logged(begin)
            held = None
            began = time.monotonic()
            self.run.progress.test_begins(logged.begin)
            try:
                self._drive(logged)
            except LimitedError as limited:
                self.run.lower_ceiling(self.scenario, frame_size, limited.load_fps)
                self._end(logged, began, superseded=True, stopped=limited.reason)
                continue
            except VnetperfError as error:
                # Half a test is no result: the case has none, and a resumed run begins it anew.
                self._end(logged, began, superseded=True, stopped=str(error))
                raise
            self._end(logged, began)
            return logged
        raise GeneratorError(
            f"the generator could not offer a steady load in {MAX_RESTARTS} attempts",
            where=f"{self.scenario.id}, {frame_size} octets",
            cure="give the tester a core of its own, or free this machine of other work",
        )

    def _begin(
        self, test: str, frame_size: int, known: KnownThroughput | None
    ) -> SearchRecord | ProcedureRecord:
        if test == THROUGHPUT:
            return begin_search(self.run, self.scenario, frame_size)
        return begin_procedure(self.run, self.scenario, test, frame_size, known)

    def _end(
        self, logged: LoggedTest, began: float, *, stopped: str = "", superseded: bool = False
    ) -> None:
        logged.end = SearchEndRecord(
            search=logged.begin.search,
            wall_s=round(time.monotonic() - began, 3),
            stopped=stopped,
            superseded=superseded,
        )
        self.run.log.append(logged.end)

    def _drive(self, logged: LoggedTest) -> None:
        """Drive a test to its end, from the first trial that the log does not have."""
        procedure = procedure_of(logged.begin)
        request = replay(procedure, logged.outcomes()).next_request
        while request is not None:
            outcome = self._trials.counted(logged, request)
            try:
                request = procedure.send(outcome)
            except StopIteration:
                request = None
