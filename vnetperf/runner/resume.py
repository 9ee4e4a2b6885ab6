"""Continues an interrupted run.

What its log holds, and whether configuration and machine are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vnetperf.analysis.environment import tree_differences
from vnetperf.analysis.logged_tests import Case, LoggedTest, by_round, group_tests
from vnetperf.log.records import (
    EnvironmentRecord,
    Record,
    RunRecord,
    ScenarioRecord,
    TransfersRecord,
)
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import EXTRAS, MachineFacts
from vnetperf.model.transfer import Transfers, TransferSpec

_ABSENT = "none"
_VERSION, _OF_HOST = "version of ", " of host "
#: A variable that the testbed file lets through; logs before that was recorded have none.
_VARIABLE = "variable "


def machine_identity(facts: MachineFacts) -> dict[str, str]:
    """The facts of a machine that its rates depend on; of other hosts those that differ."""
    identity = {
        "kernel": _fact(facts.record.get("kernel"), "release"),
        "CPU model": _fact(facts.record.get("cpu"), "model"),
        # Also which were looked for and are missing: another plugin looks for other programs.
        **{
            f"{_VERSION}{name}": text
            for name, text in (
                dict.fromkeys((*facts.programs, *EXTRAS), _ABSENT) | facts.versions
            ).items()
        },
        **{f"{_VARIABLE}{name}": value for name, value in _variables(facts).items()},
    }
    others = {
        f"{name}{_OF_HOST}{host}": text
        for host, host_facts in facts.hosts.items()
        for name, text in machine_identity(host_facts).items()
        if identity.get(name) != text
    }
    return identity | others


def _variables(facts: MachineFacts) -> dict[str, str]:
    """Variables that programs get since the testbed file names them, with their values."""
    variables = facts.record.get("variables")
    named = variables.get("let through by the testbed") if isinstance(variables, Mapping) else None
    return {name: str(value) for name, value in named.items()} if named else {}


def _fact(fact: Any, key: str) -> str:
    """A value of a group of facts; the group is a text when it could not be read."""
    return str(fact.get(key, _ABSENT) if isinstance(fact, Mapping) else fact)


def require_same_machine(before: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """Refuse to go on with a run on a machine that has changed.

    Programs that one of them did not look for, as a plugin came or went, may be there or not.
    """
    compared = [
        (name, _read_fact(before, name), _read_fact(now, name))
        for name in dict.fromkeys([*before, *now])
    ]
    differing = [
        f"{name} was {_line(was or _ABSENT)}, is {_line(current or _ABSENT)}"
        for name, was, current in compared
        if was != current
        and not (name.startswith((_VERSION, _VARIABLE)) and None in (was, current))
    ]
    if differing:
        raise ConfigError(
            "the machine is not the one this run began on, and its trials must not be mixed with "
            "new ones: " + "; ".join(differing),
            where=where,
            cure="start a new run without --resume",
        )


def _read_fact(machine: Mapping[str, str], name: str) -> str | None:
    """A fact; of another host that is not listed, the one of the first host."""
    return machine.get(name, machine.get(name.partition(_OF_HOST)[0]))


def _line(text: str) -> str:
    return repr(" ".join(text.split()))


#: What a run that is continued may have otherwise: more cases, and where results go.
NOT_OF_TRIALS = frozenset(
    # Which testbeds there are besides: each has a log of its own, with all of its values.
    {"pcap", "results_dir", "notes", "frame_sizes", "tests", "repeat", "testbed"}
)
#: Nor do these of a testbed: a worker of pytest-xdist waits longer for it.
TESTBED_NOT_OF_TRIALS = frozenset({"lock_timeout_s"})

#: Differences that are named; the first ones show which file or option it is.
_SHOWN = 5


@dataclass(frozen=True)
class ResumedRun:
    """What a log holds of the run that is continued; of a new run, nothing.

    Attributes:
        tests: The tests of a round in order, those that were superseded too.
        rounds: The tests of each round, by its number.
        moved: The transfers of each round, by its number.
        number: The round.
        machine: What must be equal for the run to go on: name -> value.
    """

    path: Path
    tests: tuple[LoggedTest, ...] = ()
    rounds: dict[int, tuple[LoggedTest, ...]] = field(default_factory=dict)
    moved: dict[int, tuple[Transfers, ...]] = field(default_factory=dict)
    number: int = 1
    machine: dict[str, str] = field(default_factory=dict)
    scenarios: dict[str, list[Scenario]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, now: RunRecord) -> ResumedRun:
        """Read what a log holds."""
        records = read_log(path)
        first = next((r for r in records if isinstance(r, RunRecord)), None)
        if first is None:
            raise LogError(
                "the log has no run record", where=str(path), cure="start a run without --resume"
            )
        if first.fingerprint != now.fingerprint:
            raise ConfigError(
                "this log was made with another version, preset, testbed or traffic; "
                "its trials must not be mixed with new ones: "
                f"{_configuration_differences(first, now)}",
                where=str(path),
                cure="give the options of that run again, or start a new one without --resume",
            )
        machines = [r.machine for r in records if isinstance(r, EnvironmentRecord)]
        parts = by_round(records)
        rounds = {number: tuple(group_tests(part)) for number, part in parts.items()}
        moved = {
            number: tuple(r.result for r in part if isinstance(r, TransfersRecord))
            for number, part in parts.items()
        }
        return cls(
            path=path,
            tests=rounds.get(1, ()),
            rounds=rounds,
            moved=moved,
            machine=machines[-1] if machines else {},
            scenarios=_scenarios(records),
        )

    def select_round(self, number: int) -> ResumedRun:
        """The same for another round."""
        return replace(self, tests=self.rounds.get(number, ()), number=number)

    def test(self, scenario: Scenario, case: Case) -> LoggedTest | None:
        """What it holds of a case: its last test in the round that is a result, else its last."""
        same = [test for test in self.tests if test.case == case]
        logged = next((test for test in reversed(same) if test.final), same[-1] if same else None)
        if logged is not None:
            self._require_same(scenario)
        return logged

    def transfers(self, scenario: Scenario, specs: Sequence[TransferSpec]) -> Transfers | None:
        """What it holds of transfers that were measured together; None where it has not all."""
        requested = [spec.requested for spec in specs]
        for logged in reversed(self.moved.get(self.number, ())):
            by_request = {transfer.spec.requested: transfer for transfer in logged.transfers}
            if logged.scenario == scenario.id and all(spec in by_request for spec in requested):
                self._require_same(scenario)
                return Transfers(
                    scenario=logged.scenario,
                    transfers=tuple(by_request[spec] for spec in requested),
                )
        return None

    def _require_same(self, scenario: Scenario) -> None:
        """Refuse a scenario whose name stands for something else in the log."""
        # The largest frame may differ: a test case can ask for sizes of its own. Sockets at ports
        # and programs in VNFs have one name, and are deployed otherwise.
        size = {"max_frame_size": scenario.max_frame_size}
        scenarios = [
            logged.model_copy(update=size) for logged in self.scenarios.get(scenario.id, ())
        ]
        if not scenarios or scenario in scenarios:
            return
        raise ConfigError(
            f"{scenario.id} now stands for other settings than in this log; "
            "its trials must not be mixed with new ones",
            where=str(self.path),
            cure="give the variant another id, or start a new run without --resume",
        )


def _scenarios(records: Iterable[Record]) -> dict[str, list[Scenario]]:
    """All that were deployed under a name."""
    scenarios: dict[str, list[Scenario]] = {}
    for record in records:
        if isinstance(record, ScenarioRecord):
            scenarios.setdefault(record.scenario.id, []).append(record.scenario)
    return scenarios


def _configuration_differences(before: RunRecord, now: RunRecord) -> str:
    """What a user would have to give again, as far as the log has it."""

    def tree(record: RunRecord) -> dict[str, Any]:
        return {
            "tool": record.identity.tool,
            "settings": {
                key: setting["value"]
                for key, setting in record.settings.items()
                if key not in NOT_OF_TRIALS
            },
            "preset": record.preset.model_dump(mode="json", exclude=set(NOT_OF_TRIALS)),
            "testbed": record.testbed.model_dump(mode="json", exclude=set(TESTBED_NOT_OF_TRIALS)),
        }

    differences = tree_differences(tree(before), tree(now))
    texts = [
        f"{difference.path} was {difference.a!r}, is {difference.b!r}"
        for difference in differences[:_SHOWN]
    ]
    if len(differences) > _SHOWN:
        texts.append(f"and {len(differences) - _SHOWN} more")
    if not texts and before.identity.git != now.identity.git:
        return f"it was made by another commit of vnetperf: {before.identity.git}"
    return "; ".join(texts) or "the content of a file of traffic or of the vSwitch's options"
