"""The records of a trial log, one JSON object a line, in the order things happened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.outcomes import Transfers
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.preset import Preset
from vnetperf.model.result import Calibration, Profile, Redaction, RunIdentity, ScenarioFacts
from vnetperf.model.scenario import Comparison, Scenario
from vnetperf.model.testbed import ClockOffset, Testbed
from vnetperf.model.trial import TrialResult, TrialSpec, Verdict

#: Counted up when a record of before is read no more, or older tools cannot read what is new:
#: 2 has other `transfers`; 3 has checksums, rounds, and tests besides searches; 4 has `restored`.
LOG_VERSION = 4
#: The first version whose lines carry checksums.
SEALED_SINCE = 3


class RunRecord(Frozen):
    """Opens a log, and opens it again when a run is resumed.

    Attributes:
        version: Version of the log's layout.
        identity: Who and what.
        preset: The preset with all its values.
        testbed: The testbed with all its values.
        settings: Effective settings with their sources.
        fingerprint: What must be equal for a run to be continued.
        resumed: True when this run continues the log.
    """

    type: Literal["run"] = "run"
    version: int = LOG_VERSION
    identity: RunIdentity
    preset: Preset
    testbed: Testbed
    settings: dict[str, dict[str, Any]]
    fingerprint: str
    resumed: bool = False


class EnvironmentRecord(Frozen):
    """The machine's facts.

    Attributes:
        facts: Everything known of it.
        machine: What must be equal for a run to be continued: name -> value.
    """

    type: Literal["environment"] = "environment"
    facts: dict[str, Any]
    machine: dict[str, str] = Field(default_factory=dict)


class CalibrationRecord(Frozen):
    """The generator's calibration this run is limited by.

    Attributes:
        calibration: The calibration.
        at_end: True for one that was made after the last trial, to see whether it still holds.
    """

    type: Literal["calibration"] = "calibration"
    calibration: Calibration
    at_end: bool = False


class ScenarioRecord(Frozen):
    """A scenario was deployed, or could not be."""

    type: Literal["scenario"] = "scenario"
    scenario: Scenario
    facts: ScenarioFacts


class ComparisonRecord(Frozen):
    """Variants of a scenario are to be compared with each other."""

    type: Literal["comparison"] = "comparison"
    comparison: Comparison


class SkippedRecord(Frozen):
    """A scenario is not measured, because the testbed cannot carry it.

    Attributes:
        scenario: "pvp_dpdk,rx_queues=2".
        why: The reason, with its cure.
    """

    type: Literal["skipped"] = "skipped"
    scenario: str
    why: str


class BeginRecord(Frozen):
    """What opens every test: a search, or another procedure.

    Attributes:
        search: Number of the test in the log, from 1; searches and others share the counter.
        scenario: "pvp_dpdk".
        test: "throughput", "latency" ...
        frame_size: Octets including FCS; of a mix its mean, rounded.
        imix: The mix of frame sizes, a genome or "7x64 4x594 1x1518"; "" for a single size.
        mean_size: Mean of a mix, octets including FCS; None for a single size.
        overhead: Octets that a frame is longer in the scenario's tunnel; None: not recorded.
        loads: Load of each interface that sends, as a share of a trial's; empty for 1 each.
        directions: Interfaces that send.
        ends: Ports of the DUT that the tester's ports 0 and 1 plug in at.
        generator_max_fps: Calibrated clean maximum, aggregate frames/s.
        limit_reason: What the maximum load is limited by.
    """

    type: str
    search: int
    scenario: str
    test: str
    frame_size: int
    directions: int
    ends: tuple[str, str] = ("phy0", "phy1")
    generator_max_fps: float | None = None
    limit_reason: str = ""
    imix: str = ""
    mean_size: float | None = None
    overhead: int | None = None
    loads: tuple[float, ...] = ()

    @property
    def case(self) -> tuple[str, str, int]:
        """Scenario, test, frame size."""
        return self.scenario, self.test, self.frame_size

    @property
    def wire_size(self) -> float:
        """Mean size of a frame where it is longest, in its tunnel; octets including FCS."""
        size = self.frame_size if self.mean_size is None else self.mean_size
        return size + (self.overhead or 0)

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of a trial's load."""
        return sum(self.loads) if self.loads else self.directions

    def load_of(self, direction: int) -> float:
        """A direction's load as a share of a trial's."""
        return self.loads[direction] if self.loads else 1.0


class SearchRecord(BeginRecord):
    """A throughput search begins.

    Attributes:
        algorithm: Search algorithm.
        goals: Its goals.
        limits: Its limits.
    """

    type: Literal["search"] = "search"
    algorithm: str
    goals: tuple[SearchGoal, ...]
    limits: SearchLimits


class ProcedureRecord(BeginRecord):
    """A test begins that is no throughput search.

    Attributes:
        inputs: Everything it was given, as `Inputs` in procedures/base.py has it.
    """

    type: Literal["procedure"] = "procedure"
    inputs: dict[str, Any]


class TrialRecord(Frozen):
    """A trial, whatever its verdict.

    Attributes:
        number: Number of the trial in the log, from 1.
        search: Number of the search or other test it belongs to.
        spec: What was requested.
        result: What was counted.
        verdict: Whether it may classify a load.
        reason: Why it is not VALID.
        started: UTC, ISO 8601.
        lost_at: Where lost frames died -> frames.
        captures: Files of captured frames, relative to the run's folder.
    """

    type: Literal["trial"] = "trial"
    number: int
    search: int
    spec: TrialSpec
    result: TrialResult
    verdict: Verdict
    reason: str = ""
    started: str
    lost_at: dict[str, int] = Field(default_factory=dict)
    captures: tuple[str, ...] = ()


class SearchEndRecord(Frozen):
    """A search or another test ended, other than by being interrupted.

    Of two for one search the second holds: none that began anew after it found more.

    Attributes:
        search: Its number.
        wall_s: Wall time, seconds.
        stopped: Why it was stopped before its own end; "".
        superseded: True when it is no result: it begins again with another limit, or failed.
        lowered_to_fps: Largest load of the tests of this case from here on in this round, frames/s
            per interface; None: as before, or not recorded.
        lowered_by: What it is limited by.
        start_fps: Load at which the search begins again, frames/s per interface; None: likewise.
    """

    type: Literal["search-end"] = "search-end"
    search: int
    wall_s: float
    stopped: str = ""
    superseded: bool = False
    lowered_to_fps: float | None = None
    lowered_by: str = ""
    start_fps: float | None = None


class NotMeasuredRecord(Frozen):
    """A case has no number.

    Attributes:
        scenario: "pvp_dpdk".
        test: "throughput".
        frame_size: Octets including FCS.
        why: The reason, with its cure.
        kind: "failed": something broke; "incapable": the testbed cannot carry it.
        imix: The mix of frame sizes; "" for a single size.
    """

    type: Literal["not-measured"] = "not-measured"
    scenario: str
    test: str
    frame_size: int
    why: str
    kind: Literal["failed", "incapable"] = "failed"
    imix: str = ""

    @property
    def case(self) -> tuple[str, str, int]:
        """Scenario, test, frame size."""
        return self.scenario, self.test, self.frame_size


class TransfersRecord(Frozen):
    """What users' own traffic came to.

    Attributes:
        result: The transfers of a scenario.
    """

    type: Literal["transfers"] = "transfers"
    result: Transfers


class ProfileRecord(Frozen):
    """Call stacks of the vSwitch's threads at a bound, taken in a trial that is no other record.

    Attributes:
        profile: What was found.
    """

    type: Literal["profile"] = "profile"
    profile: Profile


class RoundRecord(Frozen):
    """Cases begin again from the first, to see how their results repeat.

    What follows belongs to this round, what stands before the first such record to round 1.

    Attributes:
        number: Number of the round, from 1.
        rounds: How many there are to be.
    """

    type: Literal["round"] = "round"
    number: int
    rounds: int


class MergedRecord(Frozen):
    """The records of other logs stand above: those of pytest-xdist's workers.

    Attributes:
        logs: Names of the files; one that is still there holds nothing new.
    """

    type: Literal["merged"] = "merged"
    logs: tuple[str, ...]


class RedactedRecord(Frozen):
    """This log is a copy in which names, addresses or the like were replaced.

    Attributes:
        redaction: What was.
    """

    type: Literal["redacted"] = "redacted"
    redaction: Redaction


class RestoredRecord(Frozen):
    """What became of the machine: of its state before the run, or after a deployment.

    Attributes:
        scenario: What was taken away: "pvp_dpdk", or "calibration"; "" for what runs before this
            one had left.
        troubles: What could not be undone, one sentence each.
        differences: What differs from the machine before that deployment, whoever changed it; None
            where it was not compared.
    """

    type: Literal["restored"] = "restored"
    scenario: str = ""
    troubles: tuple[str, ...] = ()
    differences: tuple[str, ...] | None = None


class EndRecord(Frozen):
    """The run ended in order.

    Attributes:
        ended: UTC, ISO 8601.
        exit_status: pytest's exit status.
        overhead: Seconds by what they were spent on.
        lost: Why the testbed was given up, and its cases went to another; "".
        clocks: Host on another machine, "" for the only one -> its clock against the controller's
            at the end.
    """

    type: Literal["end"] = "end"
    ended: str
    exit_status: int = 0
    overhead: dict[str, float] = Field(default_factory=dict)
    lost: str = ""
    clocks: dict[str, ClockOffset] = Field(default_factory=dict)


Record = Annotated[
    RunRecord
    | EnvironmentRecord
    | CalibrationRecord
    | ScenarioRecord
    | ComparisonRecord
    | TransfersRecord
    | SkippedRecord
    | SearchRecord
    | ProcedureRecord
    | TrialRecord
    | SearchEndRecord
    | NotMeasuredRecord
    | ProfileRecord
    | RoundRecord
    | MergedRecord
    | RedactedRecord
    | RestoredRecord
    | EndRecord,
    Field(discriminator="type"),
]
