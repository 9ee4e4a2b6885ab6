"""Conducts a search: its trials on the agent, their verdicts, the log, and what goes wrong."""

from __future__ import annotations

import time

from vnetperf.bench.attribution import lost_at
from vnetperf.bench.captures import write_captures
from vnetperf.bench.derive import result_of
from vnetperf.bench.logged import LoggedSearch, measurement_of
from vnetperf.bench.run import Run, utc_now
from vnetperf.bench.verdict import OFFERED_MARGIN, judge, offerable_load
from vnetperf.model.errors import (
    CapabilityError,
    DutError,
    GeneratorError,
    HostError,
    VnetperfError,
)
from vnetperf.model.goal import SearchLimits
from vnetperf.model.result import Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import TrialSpec, Verdict
from vnetperf.model.units import LinkSpeed
from vnetperf.results.records import (
    NotMeasuredRecord,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.search import Search, TrialRequest, make_search, replay

#: Searches begun again with a lower maximum because the generator could not offer the load.
MAX_RESTARTS = 12
#: Loss ratio above which a load that could not be offered in full is not tried again.
HOPELESS = 0.05


class LimitedError(Exception):
    """The generator could not offer a load, repeatedly.

    Args:
        load_fps: What it could offer, frames/s per interface.
        reason: The last trial's reason.
    """

    def __init__(self, load_fps: float, reason: str) -> None:
        super().__init__(reason)
        self.load_fps = load_fps
        self.reason = reason


class Conductor:
    """Runs the searches of one scenario.

    Args:
        run: The run.
        scenario: The scenario.
    """

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.run = run
        self.scenario = scenario

    def throughput(self, frame_size: int) -> Result:
        """Search for all goals of the preset at a frame size.

        Args:
            frame_size: Octets including FCS.

        Returns:
            The result, recomputed from the log.

        Raises:
            VnetperfError: There is no number; the log says why.
        """
        case = (self.scenario.id, "throughput", frame_size)
        held = self.run.before.search(self.scenario, case)
        if held is not None and held.end is not None and not held.end.superseded:
            return self._result(held)  # measured before the run was interrupted
        try:
            self.run.deploy(self.scenario, frame_size)
            return self._search_until_offered(frame_size, held)
        except VnetperfError as error:
            if isinstance(error, HostError):  # the agent died, and what it had deployed with it
                self.run.forget_deployment()
            self.run.log.append(
                NotMeasuredRecord(
                    scenario=self.scenario.id,
                    test="throughput",
                    frame_size=frame_size,
                    why=str(error),
                    kind="incapable" if isinstance(error, CapabilityError) else "failed",
                    imix=mix.name if (mix := self.scenario.traffic.mix) is not None else "",
                )
            )
            raise

    def _result(self, logged: LoggedSearch) -> Result:
        media = LinkSpeed(self.run.configuration.testbed.media.bits_per_second)
        return result_of(logged, media)

    def _search_until_offered(self, frame_size: int, held: LoggedSearch | None) -> Result:
        """Search; when the generator cannot offer a load, search again below what it can."""
        for _ in range(MAX_RESTARTS):
            if held is not None and held.end is None:
                logged = held  # an interrupted search goes on with its own limits
            else:
                logged = LoggedSearch(self._begin(frame_size))
                self.run.log.append(logged.begin)
            held = None
            began = time.monotonic()
            self.run.progress.search_begins(logged.begin)
            try:
                self._conduct(logged)
            except LimitedError as limited:
                self.run.lower_ceiling(self.scenario, frame_size, limited.load_fps)
                self._end(logged, began, superseded=True, stopped=limited.reason)
                continue
            except VnetperfError as error:
                # Half a search is no result: the case has none, and a resumed run begins it anew.
                self._end(logged, began, superseded=True, stopped=str(error))
                raise
            self._end(logged, began)
            return self._result(logged)
        raise GeneratorError(
            f"the generator could not offer a steady load in {MAX_RESTARTS} searches",
            where=f"{self.scenario.id}, {frame_size} octets",
            cure="give the tester a core of its own, or free this machine of other work",
        )

    def _begin(self, frame_size: int) -> SearchRecord:
        preset = self.run.configuration.preset
        ceiling, reason = self.run.ceiling(self.scenario, frame_size)
        directions = len({stream.direction for stream in self.scenario.streams})
        profile = self.scenario.traffic
        mix, equal = profile.mix, profile.loads == (1.0, 1.0)
        loads = () if equal or directions < 2 else profile.loads
        first, second = self.scenario.deployment.ends
        if ceiling <= preset.min_load_fps:
            raise GeneratorError(
                f"the largest load that can be offered, {ceiling:.0f} frames/s, is not above the "
                f"preset's smallest, {preset.min_load_fps:.0f}",
                where=f"{self.scenario.id}, {frame_size} octets",
                cure="lower min_load_fps in the preset file",
            )
        point = self.run.calibrated(frame_size)
        return SearchRecord(
            search=self.run.log.next_search(),
            scenario=self.scenario.id,
            test="throughput",
            frame_size=frame_size,
            algorithm=preset.algorithm,
            goals=preset.goals,
            limits=SearchLimits(
                min_load_fps=preset.min_load_fps,
                max_load_fps=ceiling,
                max_trial_seconds=preset.max_trial_seconds,
            ),
            directions=directions,
            ends=(str(first), str(second)),
            # Both ports' sum; a search that sends one way can use half of it.
            generator_max_fps=point.max_clean_fps * (sum(loads) or directions) / 2
            if point
            else None,
            limit_reason=f"limited by {reason}",
            imix=mix.name if mix is not None else "",
            mean_size=mix.mean_size if mix is not None else None,
            loads=loads,
        )

    def _end(
        self, logged: LoggedSearch, began: float, *, stopped: str = "", superseded: bool = False
    ) -> None:
        logged.end = SearchEndRecord(
            search=logged.begin.search,
            wall_s=round(time.monotonic() - began, 3),
            stopped=stopped,
            superseded=superseded,
        )
        self.run.log.append(logged.end)

    def _conduct(self, logged: LoggedSearch) -> None:
        """Drive the search to its end."""
        begin = logged.begin
        search: Search = make_search(begin.algorithm, begin.goals, begin.limits)
        request = replay(search, logged.valid()).next_request
        while request is not None:
            trial = self._valid_trial(logged, request)
            try:
                request = search.send(measurement_of(trial))
            except StopIteration:
                request = None

    def _valid_trial(self, logged: LoggedSearch, request: TrialRequest) -> TrialRecord:
        """Run a trial until it is a measurement, or give up with the reason."""
        times = self.run.configuration.preset.trial
        for attempt in range(times.repeats_when_limited + 1):
            trial = self._trial(logged, request)
            if trial.verdict is Verdict.VALID:
                return trial
            where = f"{self.scenario.id}, {logged.begin.frame_size} octets, trial {trial.number}"
            if trial.verdict is Verdict.DUT_FAILED:
                self.run.forget_deployment()
                raise DutError(trial.reason, where=where)
            if trial.result.failed:  # the generator died or hung: never a number
                self.run.forget_deployment()
                raise GeneratorError(trial.reason, where=where)
            offerable = offerable_load(trial.result, logged.begin.loads)
            # Where the DUT drowns as well it was no noise: repeating would only cost time.
            if trial.result.worst_loss_ratio() > HOPELESS or attempt == times.repeats_when_limited:
                break
        if trial.verdict is Verdict.GENERATOR_LIMITED and offerable:
            raise LimitedError(min(offerable, request.load_fps * OFFERED_MARGIN), trial.reason)
        raise GeneratorError(
            f"{trial.verdict}: {trial.reason}",
            where=where,
            cure="counters that do not add up are never a number; see the trial in trials.jsonl",
        )

    @staticmethod
    def _histogram_up_to(logged: LoggedSearch, request: TrialRequest) -> float:
        """Short and lossy trials only steer the search; the time their histograms take is saved."""
        goals = [g for g in logged.begin.goals if request.duration_s >= g.final_trial_s]
        return max((goal.loss_ratio for goal in goals), default=-1.0)

    def _trial(self, logged: LoggedSearch, request: TrialRequest) -> TrialRecord:
        run, times = self.run, self.run.configuration.preset.trial
        spec = TrialSpec(
            frame_size=logged.begin.frame_size,
            load_fps=request.load_fps,
            duration_s=request.duration_s,
            drain_s=times.drain_s,
            full_drain=times.full_drain,
            learning_frames=self.scenario.traffic.learning_frames_per_stream,
            learning_wait_s=times.learning_wait_s,
            histogram_up_to_loss=self._histogram_up_to(logged, request),
            capture=run.configuration.capture,
        )
        run.progress.trial_begins(logged.begin, request.load_fps, request.duration_s)
        started, began = utc_now(), time.monotonic()
        result = run.client.run_trial(spec)
        wall = time.monotonic() - began
        verdict, reason = judge(result, times.offered_tolerance)
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
            lost_at=lost_at(self.scenario.deployment, result),
            captures=captures,
        )
        run.log.append(trial)
        logged.trials.append(trial)
        run.progress.trial_ends(logged.begin, trial)
        waits = times.learning_wait_s + result.drain_s
        run.spend("trial", request.duration_s)
        run.spend("wait", waits + times.settle_s)
        run.spend("around trials", max(0.0, wall - request.duration_s - waits))
        time.sleep(times.settle_s)
        return trial
