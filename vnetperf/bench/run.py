"""One run: its log, its agent, what is deployed now, and what earlier runs left to continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from vnetperf.bench.calibration_store import CalibrationStore
from vnetperf.bench.ceilings import Ceilings
from vnetperf.bench.continued import Continued
from vnetperf.bench.logged import Case, LoggedTest
from vnetperf.bench.opening import opening, utc_now
from vnetperf.bench.progress import Progress, Quiet
from vnetperf.bench.sameness import identity_of, require_same
from vnetperf.config import Configuration
from vnetperf.model.errors import VnetperfError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.result import (
    Calibration,
    CalibrationPoint,
    Result,
    ScenarioFacts,
)
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import LiveCounts
from vnetperf.model.variant import Comparison
from vnetperf.results.log import TrialLog
from vnetperf.results.records import (
    CalibrationRecord,
    ComparisonRecord,
    EndRecord,
    EnvironmentRecord,
    RoundRecord,
    ScenarioRecord,
    SkippedRecord,
)
from vnetperf.testbed.client import AgentClient
from vnetperf.testbed.plan import largest_frame, make_loop_plan, make_plan
from vnetperf.testbed.traffic_demands import require_size


class Run:
    """A run on one testbed, in one process.

    Args:
        configuration: What to do.
        log_path: Its trial log; an existing one is continued.
        client: Connection to the agent.
        progress: Told what happens.
        calibrations: Where calibrations are kept between runs.

    Raises:
        ConfigError: The log was made with another configuration.
    """

    def __init__(
        self,
        configuration: Configuration,
        log_path: Path,
        *,
        client: AgentClient | None = None,
        progress: Progress | None = None,
        calibrations: CalibrationStore | None = None,
    ) -> None:
        self.configuration = configuration
        self.progress = progress or Quiet()
        self.client = client or AgentClient(configuration.testbed, self._on_event)
        self.client.follow = self.progress.follows
        self.store = calibrations or CalibrationStore()
        self.before = Continued(log_path)
        self.spent: dict[str, float] = {}
        self._facts: MachineFacts | None = None
        self._deployed: Scenario | None = None
        self._failed: dict[str, VnetperfError] = {}
        self._calibration: Calibration | None = None
        self._calibrated = ""  # what the calibration depends on
        self._ceilings = Ceilings(configuration.testbed)
        #: What this run has measured, and what it could not: each case's last test, or why not.
        self.done: dict[Case, LoggedTest] = {}
        self.failed: dict[Case, VnetperfError] = {}
        self._round = 0  # none has begun
        #: Called with each result that a test case checks; raise AssertionError.
        self.checks: list[Callable[[Result], None]] = []
        resumed = log_path.exists() and log_path.stat().st_size > 0
        if resumed:
            self.before = Continued.read(log_path, opening(configuration, resumed=True))
        self.log = TrialLog(log_path)
        self.log.append(opening(configuration, resumed=resumed))

    def _on_event(self, event: dict[str, object]) -> None:
        if event.get("event") == "live":
            self.progress.trial_runs(LiveCounts.model_validate(event["counts"]))
        if event.get("event") == "wait":
            self.progress.say(f"waiting for the testbed: {event['holder']} holds it")

    def facts(self) -> MachineFacts:
        """The machine, looked at once.

        Returns:
            Its facts.

        Raises:
            ConfigError: The run is continued, and the machine has changed.
        """
        if self._facts is None:
            found = self.client.inventory()
            machine = identity_of(found)
            if self.before.machine:
                require_same(self.before.machine, machine, str(self.log.path))
            self._facts = found
            self.log.append(EnvironmentRecord(facts=found.record, machine=machine))
            for report in self.client.restored:
                runs = ", ".join(undone["run_id"] for undone in report["restored"])
                self.progress.say(f"undid what a run that died had left: {runs}")
        return self._facts

    def plan(self, scenario: Scenario) -> Plan:
        """Plan a scenario on this run's testbed.

        Args:
            scenario: The scenario.

        Returns:
            The plan.

        Raises:
            CapabilityError: The testbed cannot carry it.
        """
        return make_plan(scenario, self.configuration.testbed, self.facts())

    def note_comparisons(self, comparisons: Iterable[Comparison]) -> None:
        """Log which variants are to be compared with each other.

        Args:
            comparisons: The comparisons.
        """
        for comparison in comparisons:
            self.log.append(ComparisonRecord(comparison=comparison))

    def begin_round(self, number: int, rounds: int) -> None:
        """Begin the cases again from the first: nothing that was measured counts for them.

        Args:
            number: Number of the round, from 1; nothing is done when it has begun already.
            rounds: How many there are to be.
        """
        if number == self._round:
            return
        self._round = number
        self.before = self.before.at_round(number)
        self.done.clear()
        self.failed.clear()
        self._failed.clear()  # what could not be deployed may be now: each round deploys anew
        self.log.append(RoundRecord(number=number, rounds=rounds))

    def note_skipped(self, scenario_id: str, why: str) -> None:
        """Log that the testbed cannot carry a scenario.

        Args:
            scenario_id: Its name.
            why: The reason, with its cure.
        """
        self.log.append(SkippedRecord(scenario=scenario_id, why=why))

    def deploy(self, scenario: Scenario, frame_size: int, *, calibrated: bool = True) -> None:
        """Deploy a scenario unless it is deployed already; the generator is calibrated first.

        Args:
            scenario: The scenario.
            frame_size: Octets including FCS that will be measured.
            calibrated: False where the generator does no more than check the path.

        Raises:
            VnetperfError: It cannot be deployed; asked again, the same error comes at once.
        """
        if scenario.id in self._failed:
            raise self._failed[scenario.id]
        require_size(scenario, frame_size, largest_frame(scenario))
        if frame_size > scenario.max_frame_size:  # asked for by the test case alone
            scenario = scenario.model_copy(update={"max_frame_size": frame_size})
        plan = self.plan(scenario)
        # On the wire it is deployed with: each has a limit of its own.
        if calibrated:
            self.calibrate(scenario.model_copy(update={"wire": plan.wire}), frame_size)
        if self._deployed == scenario:
            return
        self.progress.say(f"deploying {scenario.id}")
        began = time.monotonic()
        self._deployed = None
        try:
            facts = self.client.deploy(plan)
        except VnetperfError as error:
            self._failed[scenario.id] = error
            failed = ScenarioFacts(
                scenario=scenario.id, plan=plan.model_dump(mode="json"), error=str(error)
            )
            self.log.append(ScenarioRecord(scenario=scenario, facts=failed))
            raise
        finally:
            self._spend("deploy", time.monotonic() - began)
        self._deployed = scenario
        self.log.append(ScenarioRecord(scenario=scenario, facts=facts))

    def forget_deployment(self) -> None:
        """Note that what was deployed is gone or broken, so that the next case deploys anew."""
        self._deployed = None

    def calibrate(self, scenario: Scenario, frame_size: int | None = None) -> Calibration:
        """Calibrate the generator for this run's frame sizes, or take a stored calibration.

        Args:
            scenario: Says which generator and wire.
            frame_size: A frame size that is needed besides, octets including FCS.

        Returns:
            The calibration.
        """
        wanted = {*self.configuration.preset.frame_sizes, *([frame_size] if frame_size else [])}
        least, largest = scenario.traffic.least_frame_size, largest_frame(scenario)
        sizes = {size for size in wanted if least <= size <= largest}
        plan = make_loop_plan(scenario, self.configuration.testbed, self.facts())
        current, key = self._calibration, self.store.key(plan, self.facts())
        if current is not None and self._calibrated == key and all(map(current.at, sizes)):
            return current
        held = self.store.load(key)
        missing = sorted(s for s in sizes if held is None or held.at(s) is None)
        if missing:
            self.progress.say(
                f"calibrating {scenario.generator} over {plan.wire}: {len(missing)} frame sizes"
            )
            began = time.monotonic()
            self._deployed = None  # the generator cannot be in a loop and in a deployment
            held = self.store.add(key, self.client.calibrate(plan, missing))
            self._spend("calibrate", time.monotonic() - began)
        assert held is not None  # noqa: S101 - for the type checker: missing was not empty
        self._calibration, self._calibrated = held, key
        self.log.append(CalibrationRecord(calibration=held))
        return held

    def calibrated(self, frame_size: int) -> CalibrationPoint | None:
        """What the generator can do over the wire of what is deployed.

        Args:
            frame_size: Octets including FCS.

        Returns:
            The point; None when that size was not calibrated.
        """
        return self._calibration.at(frame_size) if self._calibration else None

    def ceiling(self, scenario: Scenario, frame_size: int) -> tuple[float, str]:
        """Largest load worth asking for, frames/s per interface, and what sets it.

        Args:
            scenario: The scenario.
            frame_size: Octets including FCS.

        Returns:
            Load and reason.
        """
        return self._ceilings.of(scenario, frame_size, self.calibrated(frame_size))

    def lower_ceiling(self, scenario: Scenario, frame_size: int, load_fps: float) -> None:
        """Note that the generator cannot offer more than a load in this scenario.

        Args:
            scenario: The scenario.
            frame_size: Octets including FCS.
            load_fps: Frames/s per interface.
        """
        self._ceilings.lower(scenario, frame_size, load_fps)

    def _spend(self, what: str, seconds: float) -> None:
        self.spent[what] = self.spent.get(what, 0.0) + seconds

    def spend(self, what: str, seconds: float) -> None:
        """Account wall time, for the overhead figures of the log.

        Args:
            what: "trial", "wait", "deploy", ...
            seconds: Seconds.
        """
        self._spend(what, seconds)

    def release(self) -> None:
        """Take what is deployed away; the agent stays."""
        began = time.monotonic()
        self._deployed = None
        troubles = self.client.teardown()
        self._spend("teardown", time.monotonic() - began)
        for trouble in troubles:
            self.progress.say(f"could not be undone: {trouble}; run `vnetperf restore`")

    def close(self, exit_status: int = 0) -> None:
        """End the run in order.

        Args:
            exit_status: pytest's exit status.
        """
        try:
            self.release()
        finally:
            self.client.close()
            spent = {what: round(seconds, 3) for what, seconds in self.spent.items()}
            self.log.append(EndRecord(ended=utc_now(), exit_status=exit_status, overhead=spent))
            self.log.close()
