"""What an interrupted run left to be continued."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vnetperf.bench.logged import Case, LoggedTest, tests_of
from vnetperf.bench.rounds import by_round
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.scenario import Scenario
from vnetperf.results.environment import tree_differences
from vnetperf.results.log import read_log
from vnetperf.results.records import EnvironmentRecord, RunRecord, ScenarioRecord

#: What a run that is continued may have otherwise: more cases, and where results go.
NOT_OF_TRIALS = frozenset({"pcap", "results_dir", "notes", "frame_sizes", "tests"})

#: Differences that are named; the first ones say which file or option it is.
_SHOWN = 5


@dataclass(frozen=True)
class Continued:
    """What a log holds of the run that is continued; of a new run, nothing.

    Attributes:
        path: The log.
        history: Each case's last test in a round: earlier ones were superseded by it.
        rounds: The history of each round, by its number.
        machine: What must be equal for the run to go on: name -> value.
        scenarios: What was deployed, by name.
    """

    path: Path
    history: dict[Case, LoggedTest] = field(default_factory=dict)
    rounds: dict[int, dict[Case, LoggedTest]] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, now: RunRecord) -> Continued:
        """Read what a log holds.

        Args:
            path: The log.
            now: What opens the log again.

        Returns:
            What it holds.

        Raises:
            ConfigError: The log was made with another configuration.
        """
        records = read_log(path)
        first = next((r for r in records if isinstance(r, RunRecord)), None)
        if first is None:
            raise LogError(
                "the log has no run record", where=str(path), cure="start a run without --resume"
            )
        if first.fingerprint != now.fingerprint:
            raise ConfigError(
                "this log was made with another version, preset, testbed or traffic; "
                f"its trials must not be mixed with new ones: {_what_differs(first, now)}",
                where=str(path),
                cure="give the options of that run again, or start a new one without --resume",
            )
        machines = [r.machine for r in records if isinstance(r, EnvironmentRecord)]
        rounds = {
            number: {test.case: test for test in tests_of(part)}
            for number, part in by_round(records).items()
        }
        return cls(
            path=path,
            history=rounds.get(1, {}),
            rounds=rounds,
            machine=machines[-1] if machines else {},
            scenarios={r.scenario.id: r.scenario for r in records if isinstance(r, ScenarioRecord)},
        )

    def at_round(self, number: int) -> Continued:
        """The same for another round.

        Args:
            number: Number of the round, from 1.

        Returns:
            What it holds of that round.
        """
        return replace(self, history=self.rounds.get(number, {}))

    def test(self, scenario: Scenario, case: Case) -> LoggedTest | None:
        """What it holds of a case.

        Args:
            scenario: The scenario as it is asked for now.
            case: The case.

        Returns:
            Its last test; None when there is none.

        Raises:
            ConfigError: The scenario of this name was another one then.
        """
        held, then = self.history.get(case), self.scenarios.get(scenario.id)
        if held is None or then is None:
            return held
        # The largest frame may differ: a test case can ask for sizes of its own.
        if then.model_copy(update={"max_frame_size": scenario.max_frame_size}) == scenario:
            return held
        raise ConfigError(
            f"{scenario.id} now stands for other settings than in this log; "
            "its trials must not be mixed with new ones",
            where=str(self.path),
            cure="give the variant another id, or start a new run without --resume",
        )


def _what_differs(then: RunRecord, now: RunRecord) -> str:
    """What a user would have to give again, as far as the log has it."""

    def tree(record: RunRecord) -> dict[str, Any]:
        return {
            "tool": record.identity.tool,
            "settings": {
                key: held["value"]
                for key, held in record.settings.items()
                if key not in NOT_OF_TRIALS
            },
            "preset": record.preset.model_dump(mode="json", exclude=set(NOT_OF_TRIALS)),
            "testbed": record.testbed.model_dump(mode="json"),
        }

    found = tree_differences(tree(then), tree(now))
    said = [f"{one.path} was {one.a!r}, is {one.b!r}" for one in found[:_SHOWN]]
    if len(found) > _SHOWN:
        said.append(f"and {len(found) - _SHOWN} more")
    return "; ".join(said) or "the content of a file of traffic or of the vSwitch's options"
