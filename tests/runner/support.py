"""Runs on the fake agent: everything real but the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.fakes.agent import FakeAgent
from vnetperf import config
from vnetperf.analysis.logged_tests import group_tests
from vnetperf.analysis.results_from_log import derive
from vnetperf.config import Configuration
from vnetperf.log.records import BeginRecord, ScenarioRecord, TrialRecord
from vnetperf.log.trial_log import LOG_NAME, read_log
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.preset import Preset, TrialTimes
from vnetperf.model.result import Result, RunResults
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import MediaConfig
from vnetperf.runner.calibration_cache import CalibrationCache
from vnetperf.runner.conductor import Conductor
from vnetperf.runner.run import NoProgress, Run
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.sim import SimulatedDut

NDR = SearchGoal(name="ndr", initial_trial_s=0.5, final_trial_s=1.0, duration_sum_s=1.0, width=0.02)
PDR = replace(NDR, name="pdr", loss_ratio=0.01)
PRESET = Preset(
    name="test",
    algorithm="mlr",
    goals=(NDR, PDR),
    frame_sizes=(64, 1518),
    trial=TrialTimes(learning_wait_s=0, drain_s=0.1, full_drain=False, settle_s=0),
    warm_up_s=0,
)


def configuration(preset: Preset = PRESET, **settings: object) -> Configuration:
    loaded = config.load(settings, environment={}, directory=Path("/nonexistent"))
    return replace(loaded, preset=preset)


def with_medium(loaded: Configuration) -> Configuration:
    """A configuration whose wires have a speed of their own, that of 10 Gbit/s Ethernet."""
    media = MediaConfig(nominal=False)
    return replace(loaded, testbed=loaded.testbed.model_copy(update={"media": media}))


def numbered_by_test(results: Iterable[Result], path: Path) -> list[object]:
    """Results without their wall time, trials numbered from 1 in each test of their log.

    Without the note that the throughput is of another deployment, which a run that was killed has.
    """
    own = {
        trial.number: number
        for test in group_tests(read_log(path))
        for number, trial in enumerate(test.trials, 1)
    }

    def renumbered(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            of_run = ("wall_seconds", "search", "of_other_deployment")
            return {k: renumbered(v, k) for k, v in value.items() if k not in of_run}
        if isinstance(value, list):
            is_numbers = key in ("trials", "trials_at_lower_bound")
            return [own[one] if is_numbers else renumbered(one) for one in value]
        if key == "trial" and value:
            return own[value]
        if key == "note" and isinstance(value, str):
            return "; ".join(one for one in value.split("; ") if "another deployment" not in one)
        return value

    return [renumbered(result.model_dump(mode="json")) for result in results]


class Bench:
    """A run in a folder, with its agent.

    Args:
        folder: The results folder.
        agent: The agent.
        settings: What to do.
        name: Name of the log.
    """

    def __init__(
        self,
        folder: Path,
        agent: FakeAgent | None = None,
        settings: Configuration | None = None,
        name: str = LOG_NAME,
    ) -> None:
        self.path = folder / name
        self.agent = agent or FakeAgent()
        self.configuration = settings or configuration()
        self.run = Run(
            self.configuration,
            self.path,
            client=self.agent,  # type: ignore[arg-type]  # a double
            calibrations=CalibrationCache(folder / "calibrations"),
        )

    def scenario(self, scenario_id: str = "pvp_dpdk") -> Scenario:
        return make_scenario(scenario_id, self.configuration)

    def throughput(self, size: int = 64, scenario_id: str = "pvp_dpdk") -> Result:
        return self.measure("throughput", size, scenario_id)

    def measure(self, test: str, size: int = 64, scenario_id: str = "pvp_dpdk") -> Result:
        return Conductor(self.run, self.scenario(scenario_id)).measure(test, size)

    def die(self) -> None:
        """End as a killed process does: the kernel closes its log, and nothing else happens."""
        self.run.log.close()

    def derived(self) -> RunResults:
        return derive(read_log(self.path))


def deployments_of(path: Path) -> dict[int, set[int]]:
    """Number of a test of a log -> the deployments of its scenario that its trials are of."""
    deployed: Counter[str] = Counter()
    scenarios: dict[int, str] = {}
    numbers: dict[int, set[int]] = {}
    for record in read_log(path):
        if isinstance(record, ScenarioRecord):
            deployed[record.facts.scenario] += 1
        elif isinstance(record, BeginRecord):
            scenarios[record.search] = record.scenario
            numbers[record.search] = set()
        elif isinstance(record, TrialRecord):
            numbers[record.search].add(deployed[scenarios[record.search]])
    return numbers


class Fading(NoProgress):
    """Gives the agent other DUTs once a search has ended.

    Args:
        agent: The agent.
        duts: The others.
    """

    def __init__(self, agent: FakeAgent, duts: tuple[SimulatedDut, ...]) -> None:
        self.agent, self.duts = agent, duts

    def round_ends(self, _: object) -> None:
        self.agent.duts = self.duts
