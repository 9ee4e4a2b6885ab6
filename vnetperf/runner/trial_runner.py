"""Runs the trials that a test requests.

On the agent, judged, attributed, logged, repeated where that helps.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from vnetperf.analysis.attribution import lost_at
from vnetperf.analysis.logged_tests import LoggedTest, outcome_of
from vnetperf.model.errors import DutError, GeneratorError, LogError
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import (
    DirectionCounts,
    TrialOutcome,
    TrialRequest,
    TrialResult,
    TrialSpec,
    Verdict,
)
from vnetperf.results.records import TrialRecord
from vnetperf.runner.run import Run, utc_now

log = logging.getLogger(__name__)
_VERDICT_OF_FAILURE = {
    "dut": Verdict.DUT_FAILED,
    "timeout": Verdict.TIMED_OUT,
    "generator": Verdict.GENERATOR_LIMITED,
}


def judge(result: TrialResult, tolerance: float) -> tuple[Verdict, str]:
    """Judge a trial, each direction by itself."""
    if result.failed:
        return _VERDICT_OF_FAILURE[result.failed], result.failure
    if not result.directions:
        return Verdict.INCONSISTENT, "no direction was counted"
    for counts in result.directions:
        if reason := _inconsistency(result, counts):
            return Verdict.INCONSISTENT, f"direction {counts.direction}: {reason}"
    for counts in result.directions:
        offered = result.offered(counts)
        if offered < counts.intended * (1 - tolerance):
            shortfall = 1 - offered / counts.intended
            return (
                Verdict.GENERATOR_LIMITED,
                f"direction {counts.direction}: offered {shortfall:.2%} less than intended "
                f"({counts.unsent} frames unsent, {counts.refused} refused)",
            )
    return Verdict.VALID, ""


def _inconsistency(result: TrialResult, counts: DirectionCounts) -> str:
    if counts.intended <= 0:
        return "no frame was intended"
    accounted = counts.sent + counts.refused + counts.unsent
    if accounted != counts.intended:
        return f"{counts.intended} frames intended but {accounted} accounted for"
    if counts.received > counts.sent:  # what the wire refused cannot have come back
        return f"{counts.received - counts.sent} more frames received than sent"
    if counts.misrouted:
        return f"{counts.misrouted} frames came back at the wrong port"
    return ""


#: A new maximum stays below what the generator was just seen to offer ...
OFFERED_MARGIN = 0.9
#: ... and need not be far above what the DUT forwarded: on shared cores an overload also takes the
#: DUT's processor away, so leave room for it to forward more at a lower load.
FORWARDED_ROOM = 2.5


def offerable_load(result: TrialResult, loads: tuple[float, ...] = ()) -> float | None:
    """A maximum load for the next search, after the generator could not offer one."""
    found = [
        min(
            OFFERED_MARGIN * result.offered(counts) / counts.tx_seconds,
            FORWARDED_ROOM * max(counts.received, 1) / counts.tx_seconds,
        )
        / (loads[counts.direction] if loads else 1.0)
        for counts in result.directions
        if counts.tx_seconds > 0
    ]
    return min(found) if found else None


CAPTURES_FOLDER = "captures"


def write_captures(log: Path, trial: int, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write what was captured in a trial; frames may be anybody's, so only the user reads them."""
    folder = log.parent / CAPTURES_FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        names = [f"{log.stem}-{trial:05d}-{name}" for name in files]
        for name, octets in zip(names, files.values(), strict=True):
            _write_private(folder / name, octets)
    except OSError as error:
        raise LogError(
            f"captured frames cannot be written: {error.strerror}",
            where=str(folder),
            cure="make room, or leave --pcap out",
        ) from error
    return tuple(f"{CAPTURES_FOLDER}/{name}" for name in names)


def _write_private(path: Path, octets: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(octets)


def captures_summary(folder: Path) -> str:
    """What to tell a user about a run's captures."""
    files = sorted((folder / CAPTURES_FOLDER).glob("*.pcap"))
    return f"captures: {len(files)} pcap files in {folder / CAPTURES_FOLDER}" if files else ""


#: Loss ratio above which a load that could not be offered in full is not tried again.
HOPELESS = 0.05


class LimitedError(Exception):
    """The generator could not offer a load, repeatedly."""

    def __init__(self, load_fps: float, reason: str) -> None:
        super().__init__(reason)
        self.load_fps = load_fps
        self.reason = reason


class TrialRunner:
    """Runs trials of one scenario, which is deployed."""

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.run = run
        self.scenario = scenario

    def counted(self, logged: LoggedTest, request: TrialRequest) -> TrialOutcome:
        """Run a trial until it is a measurement, or give up with the reason."""
        times = self.run.configuration.preset.trial
        for attempt in range(times.repeats_when_limited + 1):
            trial = self._trial(logged, request)
            outcome = outcome_of(trial)
            if outcome.answers(request):
                self._renew(logged, outcome)
                return outcome
            where = f"{self.scenario.id}, {logged.begin.frame_size} octets, trial {trial.number}"
            if trial.verdict is Verdict.DUT_FAILED:
                self.run.forget_deployment()
                raise DutError(trial.reason, where=where)
            if trial.result.failed:  # the generator died or hung: never a number
                self.run.forget_deployment()
                raise GeneratorError(trial.reason, where=where)
            if attempt == times.repeats_when_limited or _is_hopeless(request, trial):
                break
        if trial.verdict is Verdict.GENERATOR_LIMITED:
            offerable = offerable_load(trial.result, logged.begin.loads)
            if offerable and request.when_limited == "lower":
                raise LimitedError(min(offerable, request.load_fps * OFFERED_MARGIN), trial.reason)
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

    def _renew(self, logged: LoggedTest, outcome: TrialOutcome) -> None:
        """Deploy anew what did not come back after its reset: that was counted, and is broken."""
        event = outcome.result.event
        if event is not None and event.failure:
            self.run.forget_deployment()
            self.run.deploy(self.scenario, logged.begin.frame_size)

    def _trial(self, logged: LoggedTest, request: TrialRequest) -> TrialRecord:
        run, times = self.run, self.run.configuration.preset.trial
        spec = self._spec(logged, request)
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
        log.info("trial %d: %s %s", number, verdict, reason)
        run.progress.trial_ends(logged.begin, trial)
        waits, pause = times.learning_wait_s + result.drain_s, max(times.settle_s, request.idle_s)
        run.spend("trial", request.duration_s)
        run.spend("wait", waits + pause)
        run.spend("around trials", max(0.0, wall - request.duration_s - waits))
        time.sleep(pause)
        return trial

    def _spec(self, logged: LoggedTest, request: TrialRequest) -> TrialSpec:
        times = self.run.configuration.preset.trial
        return TrialSpec(
            **request.model_dump(),
            frame_size=logged.begin.frame_size,
            drain_s=times.drain_s,
            full_drain=times.full_drain,
            learning_frames=self.scenario.traffic.learning_frames_per_stream,
            learning_wait_s=times.learning_wait_s,
            capture=self.run.configuration.capture,
        )


def _is_hopeless(request: TrialRequest, trial: TrialRecord) -> bool:
    """Where the DUT drowns as well it was no noise: repeating would only cost time."""
    return request.when_limited == "lower" and trial.result.worst_loss_ratio() > HOPELESS
