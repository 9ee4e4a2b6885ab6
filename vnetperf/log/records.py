"""The records of a trial log, one JSON object a line, in the order things happened."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.calibration import Calibration
from vnetperf.model.figures import Outcome
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.preset import Preset
from vnetperf.model.result import Profile, Redaction, RunIdentity, ScenarioFacts
from vnetperf.model.scenario import Comparison, Scenario
from vnetperf.model.testbed import ClockOffset, Testbed
from vnetperf.model.transfer import Transfers, TransferSpec
from vnetperf.model.trial import TrialResult, TrialSpec, Verdict

#: Counted up when a log of the version before would be read otherwise than its run wrote it. A log
#: of another version is refused.
LOG_VERSION = 1
#: Where the facts of a testbed's other hosts stand among those of the one with the DUT.
OTHER_HOSTS: Final = "other hosts"


class RunRecord(Frozen):
    """Opens a log, and opens it again when a run is resumed."""

    type: Literal["run"] = "run"
    version: int = LOG_VERSION
    identity: RunIdentity
    preset: Preset
    testbed: Testbed  # The testbed with all its values
    settings: dict[str, dict[str, Any]]  # Effective settings with their sources
    fingerprint: str  # What must be equal for a run to be continued
    resumed: bool = False  # True when this run continues the log
    #: Test cases that the session selected: "test_rfc2544.py::test_throughput[pvp_dpdk-64]".
    cases: tuple[str, ...]


class EnvironmentRecord(Frozen):
    """The machine's facts."""

    type: Literal["environment"] = "environment"
    facts: dict[str, Any]
    #: What must be equal for a run to be continued: name -> value.
    machine: dict[str, str] = Field(default_factory=dict)


class CalibrationRecord(Frozen):
    """The generator's calibration this run is limited by."""

    type: Literal["calibration"] = "calibration"
    calibration: Calibration
    #: True for one that was made after the last trial, to see whether it still holds.
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
    """A scenario is not measured, because the testbed cannot carry it."""

    type: Literal["skipped"] = "skipped"
    scenario: str  # "pvp_dpdk,rx_queues=2"
    why: str  # The reason, with its cure


class BeginRecord(Frozen):
    """What opens every test: a search, or another procedure."""

    type: str
    search: int  # Number of the test in the log, from 1; searches and others share the counter
    scenario: str
    test: str
    frame_size: int  # Octets including FCS; of a mix its mean, rounded
    directions: int  # Interfaces that send
    #: Ports of the DUT that the tester's ports 0 and 1 plug in at.
    ends: tuple[str, str] = ("phy0", "phy1")
    generator_max_fps: float | None = None  # Calibrated clean maximum, aggregate frames/s
    limit_reason: str = ""  # What the maximum load is limited by
    imix: str = ""  # The mix of frame sizes, a genome or "7x64 4x594 1x1518"; "" for a single size
    mean_size: float | None = None  # Mean of a mix, octets including FCS; None for a single size
    overhead: int  # Octets that a frame is longer in the scenario's tunnel
    #: Load of each interface that sends, as a share of a trial's; empty for 1 each.
    loads: tuple[float, ...] = ()

    @property
    def case(self) -> tuple[str, str, int]:
        """Scenario, test, frame size."""
        return self.scenario, self.test, self.frame_size

    @property
    def wire_size(self) -> float:
        """Mean size of a frame where it is longest, in its tunnel; octets including FCS."""
        size = self.frame_size if self.mean_size is None else self.mean_size
        return size + self.overhead

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of a trial's load."""
        return sum(self.loads) if self.loads else self.directions


class SearchRecord(BeginRecord):
    """A throughput search begins."""

    type: Literal["search"] = "search"
    algorithm: str
    goals: tuple[SearchGoal, ...]
    limits: SearchLimits
    round: int = 1  # Which search of this throughput in its deployment it is, from 1
    rounds: int = 1  # How many of them there were to be, at least


class ProcedureRecord(BeginRecord):
    """A test begins that is no throughput search."""

    type: Literal["procedure"] = "procedure"
    inputs: dict[str, Any]  # Everything it was given, as `Inputs` in procedures/base.py has it


class TrialRecord(Frozen):
    """A trial, whatever its verdict."""

    type: Literal["trial"] = "trial"
    number: int  # Number of the trial in the log, from 1
    search: int  # Number of the search or other test it belongs to
    spec: TrialSpec  # What was requested
    result: TrialResult  # What was counted
    verdict: Verdict  # Whether it may classify a load
    reason: str = ""  # Why it is not VALID, or what of a valid one its reader has to know
    started: str  # UTC, ISO 8601
    lost_at: dict[str, int] = Field(default_factory=dict)  # Where lost frames died -> frames
    captures: tuple[str, ...] = ()  # Files of captured frames, relative to the run's folder


class SearchEndRecord(Frozen):
    """A search or another test ended, other than by being interrupted.

    Of two for one search the second holds: none that began anew after it found more.
    """

    type: Literal["search-end"] = "search-end"
    search: int  # Its number
    wall_s: float  # Wall time, seconds
    stopped: str = ""  # Why it was stopped before its own end; ""
    #: True when it is no result: it begins again with another limit, or failed.
    superseded: bool = False
    #: Largest load of this test when it begins again, frames/s per interface; None: as before.
    lowered_to_fps: float | None = None
    lowered_by: str = ""  # What it is limited by


class OutcomeRecord(Frozen):
    """A test ended with an outcome that a reader needs nothing else for, not even the test."""

    type: Literal["outcome"] = "outcome"
    search: int  # Number of the test
    outcome: Outcome


class NotMeasuredRecord(Frozen):
    """A case has no number."""

    type: Literal["not-measured"] = "not-measured"
    scenario: str
    test: str
    frame_size: int  # Octets including FCS
    why: str  # The reason, with its cure
    #: "failed": something broke; "incapable": the testbed cannot carry it.
    kind: Literal["failed", "incapable"] = "failed"
    imix: str = ""  # The mix of frame sizes; "" for a single size
    transfer: TransferSpec | None = None  # The transfer that it is about; None: of another test

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """Scenario, test, frame size, and which of several transfers of those it is about."""
        several = self.transfer.several if self.transfer else ""
        return self.scenario, self.test, self.frame_size, several


class TransfersRecord(Frozen):
    """What users' own traffic came to."""

    type: Literal["transfers"] = "transfers"
    result: Transfers


class ProfileRecord(Frozen):
    """Call stacks of the vSwitch's threads at a bound, taken in a trial that is no other record."""

    type: Literal["profile"] = "profile"
    profile: Profile


class RoundRecord(Frozen):
    """Cases begin again from the first, to see how their results repeat.

    What follows belongs to this round, what stands before the first such record to round 1.
    """

    type: Literal["round"] = "round"
    number: int  # Number of the round, from 1
    rounds: int  # How many there are to be


class MergedRecord(Frozen):
    """The records of other logs stand above: those of pytest-xdist's workers."""

    type: Literal["merged"] = "merged"
    logs: tuple[str, ...]  # Names of the files; one that is still there holds nothing new


class RedactedRecord(Frozen):
    """This log is a copy in which names, addresses or the like were replaced."""

    type: Literal["redacted"] = "redacted"
    redaction: Redaction


class RestoredRecord(Frozen):
    """What became of the machine: of its state before the run, or after a deployment."""

    type: Literal["restored"] = "restored"
    #: What was taken away: "pvp_dpdk", or "calibration"; "" for what runs before this one had left.
    scenario: str = ""
    troubles: tuple[str, ...] = ()  # What could not be undone, one sentence each
    #: What differs from the machine before that deployment, whoever changed it; None where it was
    #: not compared.
    differences: tuple[str, ...] | None = None


class EndRecord(Frozen):
    """The run ended in order."""

    type: Literal["end"] = "end"
    ended: str  # UTC, ISO 8601
    exit_status: int = 0  # pytest's exit status
    cut: bool = False  # True when -x or --maxfail left cases out
    #: Cases that the session selected and did not run; of a pytest-xdist worker, others' too.
    left: tuple[str, ...] = ()
    overhead: dict[str, float] = Field(default_factory=dict)  # Seconds by what they were spent on
    lost: str = ""  # Why the testbed was given up, and its cases went to another; ""
    #: Host on another machine, "" for the only one -> its clock against the controller's at the
    #: end.
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
    | OutcomeRecord
    | NotMeasuredRecord
    | ProfileRecord
    | RoundRecord
    | MergedRecord
    | RedactedRecord
    | RestoredRecord
    | EndRecord,
    Field(discriminator="type"),
]
