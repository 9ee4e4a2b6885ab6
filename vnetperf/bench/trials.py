"""Runs the trials that a test asks for: on the agent, judged, logged, repeated where that helps."""

from __future__ import annotations

import time

from vnetperf.bench.attribution import lost_at
from vnetperf.bench.captures import write_captures
from vnetperf.bench.logged import LoggedTest, seen_of
from vnetperf.bench.opening import utc_now
from vnetperf.bench.run import Run
from vnetperf.bench.verdict import OFFERED_MARGIN, judge, offerable_load
from vnetperf.model.errors import DutError, GeneratorError
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import TrialSpec, Verdict
from vnetperf.procedures import Ask, Seen, counts
from vnetperf.results.records import TrialRecord

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


class Trials:
    """Runs trials of one scenario, which is deployed.

    Args:
        run: The run.
        scenario: The scenario.
    """

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.run = run
        self.scenario = scenario

    def counted(self, logged: LoggedTest, ask: Ask) -> Seen:
        """Run a trial until it is a measurement, or give up with the reason.

        Args:
            logged: The test that asks; gets every trial.
            ask: What it asks for.

        Returns:
            A trial that counts.

        Raises:
            DutError: The DUT failed.
            GeneratorError: The generator failed, or its counts are no measurement.
            LimitedError: It could not offer the load, and the test can do with less.
        """
        times = self.run.configuration.preset.trial
        for attempt in range(times.repeats_when_limited + 1):
            trial = self._trial(logged, ask)
            seen = seen_of(trial)
            if counts(ask, seen):
                self._renew(logged, seen)
                return seen
            where = f"{self.scenario.id}, {logged.begin.frame_size} octets, trial {trial.number}"
            if trial.verdict is Verdict.DUT_FAILED:
                self.run.forget_deployment()
                raise DutError(trial.reason, where=where)
            if trial.result.failed:  # the generator died or hung: never a number
                self.run.forget_deployment()
                raise GeneratorError(trial.reason, where=where)
            if attempt == times.repeats_when_limited or _is_hopeless(ask, trial):
                break
        if trial.verdict is Verdict.GENERATOR_LIMITED:
            offerable = offerable_load(trial.result, logged.begin.loads)
            if offerable and ask.when_limited == "lower":
                raise LimitedError(min(offerable, ask.load_fps * OFFERED_MARGIN), trial.reason)
            raise GeneratorError(
                f"{trial.verdict}: {trial.reason}",
                where=where,
                cure="give the tester a core of its own, or free this machine of other work",
            )
        raise GeneratorError(
            f"{trial.verdict}: {trial.reason}",
            where=where,
            cure="counters that do not add up are never a number; see the trial in trials.jsonl",
        )

    def _renew(self, logged: LoggedTest, seen: Seen) -> None:
        """Deploy anew what did not come back after its reset: that was counted, and is broken."""
        event = seen.result.event
        if event is not None and event.failure:
            self.run.forget_deployment()
            self.run.deploy(self.scenario, logged.begin.frame_size)

    def _trial(self, logged: LoggedTest, ask: Ask) -> TrialRecord:
        run, times = self.run, self.run.configuration.preset.trial
        spec = self._spec(logged, ask)
        run.progress.trial_begins(logged.begin, spec)
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
        waits, pause = times.learning_wait_s + result.drain_s, max(times.settle_s, ask.idle_s)
        run.spend("trial", ask.duration_s)
        run.spend("wait", waits + pause)
        run.spend("around trials", max(0.0, wall - ask.duration_s - waits))
        time.sleep(pause)
        return trial

    def _spec(self, logged: LoggedTest, ask: Ask) -> TrialSpec:
        times = self.run.configuration.preset.trial
        return TrialSpec(
            frame_size=logged.begin.frame_size,
            load_fps=ask.load_fps,
            duration_s=ask.duration_s,
            drain_s=times.drain_s,
            full_drain=times.full_drain,
            learning_frames=self.scenario.traffic.learning_frames_per_stream,
            learning_wait_s=times.learning_wait_s,
            histogram_up_to_loss=ask.histogram_up_to_loss,
            capture=self.run.configuration.capture,
            burst=ask.burst,
            steps=ask.steps,
            event=ask.event,
            bin_s=ask.bin_s,
            tag_at_s=ask.tag_at_s,
            ipdv=ask.ipdv,
        )


def _is_hopeless(ask: Ask, trial: TrialRecord) -> bool:
    """Where the DUT drowns as well it was no noise: repeating would only cost time."""
    return ask.when_limited == "lower" and trial.result.worst_loss_ratio() > HOPELESS
