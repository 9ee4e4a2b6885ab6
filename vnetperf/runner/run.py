"""One run: its log, its agent, what is deployed now, the largest loads.

And who follows its progress.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from vnetperf import __version__
from vnetperf.agent.client import restore_command
from vnetperf.agent.hosts import TestbedClient
from vnetperf.analysis.logged_tests import Case
from vnetperf.config import Configuration
from vnetperf.host.linux import run_program
from vnetperf.host.log import RunLog
from vnetperf.log.folder import point_latest, run_log
from vnetperf.log.records import (
    BeginRecord,
    CalibrationRecord,
    ComparisonRecord,
    EndRecord,
    EnvironmentRecord,
    Record,
    RestoredRecord,
    RoundRecord,
    RunRecord,
    ScenarioRecord,
    SkippedRecord,
    TrialRecord,
)
from vnetperf.log.trial_log import TrialLog
from vnetperf.model.calibration import Calibration, CalibrationPoint, detect_drift
from vnetperf.model.errors import (
    ConfigError,
    HostError,
    TestbedBusyError,
    VnetperfError,
    full_text,
)
from vnetperf.model.frames import LinkSpeed, overhead
from vnetperf.model.result import Result, RunIdentity, ScenarioFacts
from vnetperf.model.scenario import Comparison, Plan, Scenario
from vnetperf.model.testbed import ClockOffset, MachineFacts, Testbed
from vnetperf.model.trial import LiveCounts, TrialSpec
from vnetperf.planning.capability_check import require_frames, require_size
from vnetperf.planning.planner import largest_frame, make_loop_plan, make_plan
from vnetperf.runner.calibration_cache import CalibrationCache
from vnetperf.runner.resume import (
    NOT_OF_TRIALS,
    TESTBED_NOT_OF_TRIALS,
    ResumedRun,
    machine_identity,
    require_same_machine,
)

log = logging.getLogger(__name__)


class Progress(Protocol):
    """A listener; the plugin draws it, logs stay quiet."""

    @property
    def follows(self) -> bool:
        """Whether `trial_runs` is of use to anybody."""

    def say(self, text: str) -> None:
        """Something worth a line: deploying, waiting, calibrating."""

    def test_begins(self, test: BeginRecord) -> None:
        """A search or another test begins."""

    def round_ends(self, rounds: Sequence[Result]) -> None:
        """A search of a throughput has ended; those of its case so far."""

    def trial_begins(self, test: BeginRecord, spec: TrialSpec) -> None:
        """A trial begins."""

    def trial_runs(self, counts: LiveCounts) -> None:
        """A trial is going on."""

    def trial_ends(self, test: BeginRecord, trial: TrialRecord) -> None:
        """A trial has its verdict."""


#: pytest's exit statuses of a session that came to its end: all passed, some failed.
_CHECKED_EXITS = (0, 1)


class NoProgress:
    """Nobody listens."""

    follows = False

    def ignore(self, *_: object) -> None:
        """Report nothing."""

    say = test_begins = round_ends = trial_begins = trial_runs = trial_ends = ignore


class MaxLoads:
    """The largest loads of a run."""

    def __init__(self, testbed: Testbed) -> None:
        self._media = testbed.media
        #: Scenario and frame size -> number of the deployment, and the load.
        self._offered: dict[tuple[str, int], tuple[int, float]] = {}

    def find_limit(
        self, scenario: Scenario, frame_size: int, point: CalibrationPoint | None
    ) -> tuple[float, str]:
        """Largest load worth requesting, frames/s per interface, and what limits it."""
        limits = []
        if point is not None:
            briefly = ", calibrated briefly" if point.brief else ""
            reason = f"the generator's calibrated clean maximum{briefly}"
            limits.append((point.max_clean_fps / 2, reason))
        if not self._media.nominal:
            speed = LinkSpeed(self._media.bits_per_second)
            mix = scenario.traffic.mix
            size = frame_size if mix is None else mix.mean_size
            longest = size + overhead(scenario.encapsulation)
            limits.append((speed.max_frame_rate(longest), "the medium's maximum frame rate"))
        if not limits:
            raise ConfigError(f"frame size {frame_size} has no calibration", where="calibration")
        return min(limits)

    def note_offered(self, case: Case, deployment: int, load_fps: float) -> None:
        """Note a load that was offered whole in a valid trial."""
        place = (case[0], case[2])
        before = self.find_offered_load(case, deployment)
        self._offered[place] = (deployment, max(before, load_fps))

    def find_offered_load(self, case: Case, deployment: int) -> float:
        """The largest such load in a deployment, frames/s per interface; 0 for none."""
        last_deployment, load_fps = self._offered.get((case[0], case[2]), (deployment, 0.0))
        return load_fps if last_deployment == deployment else 0.0


def run_record(
    configuration: Configuration, command: str, *, resumed: bool, cases: Iterable[str] = ()
) -> RunRecord:
    """The record of a run that begins now."""
    c = configuration
    return RunRecord(
        identity=RunIdentity(
            tool=f"vnetperf {__version__}",
            git=git_commit(),
            command=command,
            started=utc_now(),
            isolation=c.testbed.isolation_statement,
            testbed=c.testbed.name,
            notes=c.settings.notes,
        ),
        preset=c.preset,
        testbed=c.testbed,
        settings=c.as_record(),
        fingerprint=compute_fingerprint(c),
        resumed=resumed,
        cases=tuple(cases),
    )


def compute_fingerprint(configuration: Configuration) -> str:
    """What must be equal for trials of two runs to be mixed."""
    c = configuration
    chosen = c.settings.model_dump_json(exclude=set(NOT_OF_TRIALS))
    preset = c.preset.model_dump_json(exclude={"frame_sizes", "tests", "repeat"})
    testbed = c.testbed.model_dump_json(exclude=set(TESTBED_NOT_OF_TRIALS))
    text = "\n".join(
        [
            *(__version__, preset, testbed, c.traffic.model_dump_json()),
            *(c.switch.model_dump_json(), chosen),
        ]
    )
    return sha256(text.encode()).hexdigest()[:16]


def utc_now() -> str:
    """The time."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def git_commit() -> str:
    """Commit of the tool when it runs from a checkout."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists():
        return "unknown: vnetperf is installed, not run from a checkout"
    argv = ["git", "-C", str(top), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = run_program(argv, 5)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    return done.stdout.strip() or f"unknown: {done.stderr.strip()[:80]}"


def _named(configuration: Configuration) -> str:
    """The testbed as it was named: by the path of its file, where that was typed."""
    name, typed = configuration.testbed.name, configuration.settings.testbeds
    return typed[0] if len(typed) == 1 else next((t for t in typed if Path(t).stem == name), name)


@dataclass(frozen=True, slots=True)
class Measured:
    """Where a test of this run that has a result is found again: nothing of it stays in memory.

    Attributes:
        searches: Its number in the log; of a throughput those of all its rounds.
        octets: Where the log has it, from an octet to another; None: it is of an earlier session.
        deployment: Number of the deployment of this session; None: one of an earlier session.
    """

    searches: tuple[int, ...]
    octets: tuple[int, int] | None = None
    deployment: int | None = None


class Run:
    """A run on one testbed, in one process."""

    def __init__(
        self,
        configuration: Configuration,
        log_path: Path,
        *,
        client: TestbedClient | None = None,
        progress: Progress | None = None,
        calibrations: CalibrationCache | None = None,
        argv: Sequence[str] | None = None,
        cases: Iterable[str] = (),
    ) -> None:
        self.configuration = configuration
        self.progress = progress or NoProgress()
        self.client = client or TestbedClient(configuration.testbed, self.on_event)
        self.client.follow = self.progress.follows
        self._named = _named(configuration)
        self.client.name_testbed(self._named)
        self.store = calibrations or CalibrationCache()
        self.resumed = ResumedRun(log_path)
        self.spent: dict[str, float] = {}
        self._facts: MachineFacts | None = None
        #: What a resumed session writes once its machine is known to be the one that it was.
        self._pending: list[Record] = []
        self._is_refused = False
        self._deployed: Scenario | None = None
        self._is_latest = False
        self._failed: dict[str, VnetperfError] = {}
        self._tried: set[str] = set()  # scenarios that failed to be deployed once
        self._calibration: Calibration | None = None
        #: This run's calibrations by what they depend on: not all of them are stored.
        self._calibrations: dict[str, Calibration] = {}
        #: Loops of this run's calibrations, and the last one of each: by wire.
        self._loops: dict[str, tuple[Plan, Calibration]] = {}
        self.max_loads = MaxLoads(configuration.testbed)
        #: What this run has measured, and what it could not, with why. What is measured is not
        #: measured again: the throughput that a test took its loads of is the one reported.
        self.done: dict[Case, Measured] = {}
        self.failed: dict[Case, str] = {}
        #: vSwitches whose call stacks could not be sampled: one try shows it.
        self.not_profiled: set[str] = set()
        self._round = 0  # none has begun
        self.deployment = 0  #: Number of the last one of this session.
        #: Why the testbed was given up: its cases go to another.
        self.lost = ""
        #: Frame sizes of the session's cases: calibrated together, before the first deployment.
        self.frame_sizes: frozenset[int] = frozenset()
        #: Scenario -> frame sizes of the session's cases of its throughput.
        self.sizes_of: Mapping[str, Sequence[int]] = {}
        #: Port of what is deployed -> its host, where there are several.
        self.port_hosts: dict[str, str] = {}
        #: Called with each result that a test case checks; raise AssertionError.
        self.checks: list[Callable[[Result], None]] = []
        resumed = log_path.exists() and log_path.stat().st_size > 0
        command = shlex.join(argv or sys.argv)
        record = run_record(configuration, command, resumed=resumed, cases=cases)
        self.log = TrialLog(log_path)  # first: from here on nobody else writes it
        try:
            if resumed:
                self.resumed = ResumedRun.read(log_path, record)
            if self.resumed.machine:
                self._pending.append(record)
            else:
                self.log.append(record)
            self.run_log = RunLog(run_log(log_path))
        except BaseException:
            self.log.close()
            raise
        log.info("vnetperf %s: %s", __version__, record.identity.command)

    def on_event(self, event: dict[str, object]) -> None:
        """Show and record what the agent tells on its own account, without a request."""
        if event.get("event") == "live":
            self.progress.trial_runs(LiveCounts.model_validate(event["counts"]))
        if event.get("event") == "wait":
            self.progress.say(f"waiting for the testbed: {event['holder']} holds it")
        if event.get("event") == "notice":
            self._say(str(event["text"]))
        if event.get("event") == "restored":
            fields = {key: value for key, value in event.items() if key != "event"}
            self._note_restored(RestoredRecord.model_validate(fields))

    def _note(self, record: Record) -> None:
        """Write a record, or hold it back with what opens a resumed session."""
        if self._pending:
            self._pending.append(record)
        else:
            self.log.append(record)

    def _write_pending(self) -> None:
        while self._pending:
            self.log.append(self._pending[0])
            del self._pending[0]

    def _note_restored(self, restored: RestoredRecord) -> None:
        """Log what became of the machine, and say what is not as it was."""
        self._note(restored)
        bed = self.configuration.testbed
        transports = [host.transport for host in bed.hosts.values()] or [bed.agent.transport]
        command = restore_command(transports, self._named)
        for trouble in restored.troubles if restored.scenario else ():
            self._say(f"could not be undone: {trouble}; run `{command}`")
        for text in restored.differences or ():
            self._say(f"not as before {restored.scenario}, by this run or others: {text}")

    def _say(self, text: str) -> None:
        log.info("%s", text)
        self.progress.say(text)

    def facts(self) -> MachineFacts:
        """The machine, looked at once."""
        if self._facts is None:
            inventory = self.client.inventory()
            machine = machine_identity(inventory)
            if self.resumed.machine:
                try:
                    require_same_machine(self.resumed.machine, machine, str(self.log.path))
                except ConfigError:
                    self._is_refused = True
                    raise
            self._write_pending()
            self._facts = inventory
            self.log.append(EnvironmentRecord(facts=inventory.record, machine=machine))
            for report in self.client.restored:
                runs = ", ".join(undone["run_id"] for undone in report["restored"])
                self._say(f"undid what a run that died had left: {runs}")
            if self.client.troubles:
                troubles = "; ".join(self.client.troubles)
                self._say(f"this machine is not restored after an earlier run: {troubles}")
                self._note_restored(RestoredRecord(troubles=self.client.troubles))
        return self._facts

    def still_answers(self) -> bool:
        """Whether the testbed can be reached; a run that it cannot be is `lost`."""
        try:
            self.client.inventory()
        except HostError as error:
            self.lost = str(error)
        return not self.lost

    def plan(self, scenario: Scenario) -> Plan:
        """Plan a scenario on this run's testbed."""
        return make_plan(scenario, self.configuration.testbed, self.facts())

    def note_comparisons(self, comparisons: Iterable[Comparison]) -> None:
        """Log which variants are to be compared with each other."""
        for comparison in comparisons:
            self._note(ComparisonRecord(comparison=comparison))

    def begin_round(self, number: int, rounds: int) -> None:
        """Begin the cases again from the first, deployed anew: nothing measured counts for them."""
        if number == self._round:
            return
        self._round = number
        self.resumed = self.resumed.select_round(number)
        self.done.clear()
        self.failed.clear()
        self._failed.clear()  # what could not be deployed may be now
        self._tried.clear()
        self.forget_deployment()  # a round in the deployment of the last one would be no repeat
        self._note(RoundRecord(number=number, rounds=rounds))

    def takes_profiles(self, scenario: Scenario) -> bool:
        """Whether call stacks are wanted at a scenario's bounds: in one round, and if it can."""
        profiles = self.configuration.settings.profile and self._round <= 1
        return profiles and scenario.vswitch not in self.not_profiled

    def note_skipped(self, scenario_id: str, reason: str) -> None:
        """Log that the testbed cannot carry a scenario."""
        self.log.append(SkippedRecord(scenario=scenario_id, why=reason))

    def deploy(self, scenario: Scenario, frame_size: int, *, calibrated: bool = True) -> None:
        """Deploy a scenario unless it is deployed already; the generator is calibrated first."""
        if scenario.id in self._failed:
            raise self._failed[scenario.id]
        require_frames(scenario)
        require_size(scenario, frame_size, largest_frame(scenario))
        if frame_size > scenario.max_frame_size:  # a size of the test case alone
            scenario = scenario.model_copy(update={"max_frame_size": frame_size})
        plan = self.plan(scenario)
        self.port_hosts = plan.port_hosts
        # On the wire it is deployed with: each has a limit of its own.
        if calibrated:
            self.calibrate(scenario.model_copy(update={"wire": plan.wire}), frame_size)
        if self._deployed == scenario:
            return
        self._point_latest()
        self._say(f"deploying {scenario.id}")
        self.run_log.forget_lines()
        began = time.monotonic()
        self._deployed = None
        try:
            facts = self.client.deploy(plan)
        except VnetperfError as error:
            # What the machine did may be over; what the DUT refuses, it refuses again.
            if scenario.id in self._tried or not isinstance(error, HostError | TestbedBusyError):
                self._failed[scenario.id] = error
            self._tried.add(scenario.id)
            if lines := self.run_log.last_lines():
                error.add_note(f"  last lines of {self.run_log.path.name}:\n{lines}")
            failed = ScenarioFacts(
                scenario=scenario.id, plan=plan.model_dump(mode="json"), error=full_text(error)
            )
            log.error("%s is not deployed: %s", scenario.id, error)
            self.log.append(ScenarioRecord(scenario=scenario, facts=failed))
            raise
        finally:
            self.spend("deploy", time.monotonic() - began)
        self._deployed = scenario
        self._tried.discard(scenario.id)
        self.deployment += 1
        log.info("%s is deployed: %.2f s", scenario.id, facts.deploy_s)
        self.log.append(ScenarioRecord(scenario=scenario, facts=facts))

    def _point_latest(self) -> None:
        folder = self.log.path.parent
        if not self._is_latest and (folder.parent / "latest").is_symlink():
            with contextlib.suppress(OSError):  # the run goes on, and its last line names it
                point_latest(folder)
        self._is_latest = True

    def forget_deployment(self) -> None:
        """Note that what was deployed is gone or broken, so that the next case deploys anew."""
        self._deployed = None

    def calibrate(self, scenario: Scenario, frame_size: int | None = None) -> Calibration:
        """Calibrate the generator for this run's frame sizes, or take a stored calibration.

        All at once: a size that is missing later costs what is deployed then. Briefly for what is
        no benchmark, and where the tester shares its processor with the DUT: what it can do alone
        is then a limit of loads, and no rate is compared with it.
        """
        requested_sizes = {*(self.frame_sizes or self.configuration.preset.frame_sizes)}
        requested_sizes |= {frame_size} if frame_size else set()
        least, largest = scenario.traffic.least_frame_size, largest_frame(scenario)
        sizes = {size for size in requested_sizes if least <= size <= largest}
        plan = make_loop_plan(scenario, self.configuration.testbed, self.facts())
        brief = not self.configuration.preset.benchmark or self._tester_shares(scenario)
        key = self.store.key(plan, self.facts(), brief=brief)
        calibration = self._calibrations.get(key)
        if (
            calibration is not None
            and calibration is self._calibration
            and all(map(calibration.at, sizes))
        ):
            return calibration
        calibration = calibration or self.store.load(key)
        missing = sorted(s for s in sizes if calibration is None or calibration.at(s) is None)
        if missing:
            self._say(
                f"calibrating {scenario.generator} over {plan.wire}: {len(missing)} frame sizes"
            )
            began = time.monotonic()
            self._deployed = None  # the generator cannot be in a loop and in a deployment
            measured = self.client.calibrate(plan, missing, brief=brief)
            if not (brief and self.configuration.preset.benchmark):  # one value of no weight
                measured = self.store.add(key, measured)
            calibration = measured if calibration is None else calibration.joined(measured)
            self.spend("calibrate", time.monotonic() - began)
        assert calibration is not None  # noqa: S101 - for the type checker: missing was not empty
        self._calibration = self._calibrations[key] = calibration
        self._loops[plan.wire] = plan, calibration
        self.log.append(CalibrationRecord(calibration=calibration))
        return calibration

    def _tester_shares(self, scenario: Scenario) -> bool:
        plan = self.plan(scenario)
        return any(part.placement.takes_turns("tester") for part in (plan, *plan.hosts))

    def check_calibrations(self) -> None:
        """Calibrate the smallest frame size of each wire again: what limits a run may drift.

        It shows whether the calibration held, and replaces none: what a run leaves behind may
        disturb it. One that is not seen to hold is not used again, at no frame size: what has
        changed is the machine. A brief one is not checked.
        """
        if not self.configuration.preset.benchmark or not self.done:
            return
        for wire, (plan, calibration) in self._loops.items():
            size = min(case[2] for case in self.done)
            before = calibration.at(size)
            if before is not None and before.brief:
                continue
            self._say(f"calibrating {plan.scenario.generator} over {wire} again: one frame size")
            began = time.monotonic()
            try:
                repeated = self.client.calibrate(plan, [size])
            except VnetperfError as error:
                self._say(f"the calibration could not be checked: {error}")
                continue
            finally:
                self.spend("calibrate", time.monotonic() - began)
            self.log.append(CalibrationRecord(calibration=repeated, at_end=True))
            now = repeated.at(size)
            if before is None or now is None:
                continue
            if detect_drift(before.max_clean_values, now.max_clean_values) != "held":
                self.store.drop(self.store.key(plan, self.facts()))

    def calibrated(self, frame_size: int) -> CalibrationPoint | None:
        """What the generator can do over the wire of what is deployed."""
        return self._calibration.at(frame_size) if self._calibration else None

    def spend(self, purpose: str, seconds: float) -> None:
        """Account wall time, for the overhead figures of the log."""
        self.spent[purpose] = self.spent.get(purpose, 0.0) + seconds

    def release(self) -> None:
        """Take what is deployed away; the agent stays."""
        began = time.monotonic()
        self._deployed = None
        self.client.teardown()
        self.spend("teardown", time.monotonic() - began)

    def close(
        self, exit_status: int = 0, *, cut: bool = False, not_run: Iterable[str] = ()
    ) -> None:
        """End the run in order; `cut` when -x left cases out, `not_run` those that did not run."""
        clocks: dict[str, ClockOffset] = {}
        try:
            self.release()
            if not self.lost:
                try:
                    clocks = self.client.clocks()
                except VnetperfError as error:  # every number is in the log
                    log.warning("clocks of hosts were not looked at again: %s", error)
            if exit_status in _CHECKED_EXITS and not self.log.trouble and not self.lost:
                self.check_calibrations()
        finally:
            with contextlib.ExitStack() as at_the_end:
                at_the_end.callback(self.run_log.close)
                at_the_end.callback(self.log.close)
                end = EndRecord(
                    ended="", exit_status=exit_status, cut=cut, left=tuple(not_run), clocks=clocks
                )
                at_the_end.callback(self._log_end, end)
                self.client.close()

    def _log_end(self, end: EndRecord) -> None:
        spent = {purpose: round(seconds, 3) for purpose, seconds in self.spent.items()}
        log.info("the run ends with status %d; seconds spent: %s", end.exit_status, spent)
        if self._is_refused:  # the log is left as it was
            return
        self._write_pending()
        fields = {"ended": utc_now(), "overhead": spent, "lost": self.lost}
        self.log.append(end.model_copy(update=fields))
