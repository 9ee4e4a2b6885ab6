"""What a log holds of each test, and what a search or another procedure is told of its trials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vnetperf.model.errors import LogError
from vnetperf.model.trial import Verdict
from vnetperf.procedures import Seen
from vnetperf.results.records import (
    BeginRecord,
    ProcedureRecord,
    Record,
    SearchEndRecord,
    SearchRecord,
    TrialRecord,
)
from vnetperf.search import Measurement, TrialRequest

Case = tuple[str, str, int]
Begin_co = TypeVar("Begin_co", bound=BeginRecord, covariant=True)


@dataclass
class Logged(Generic[Begin_co]):
    """One test as the log has it.

    Attributes:
        begin: How it was asked for.
        trials: Its trials in order, whatever their verdict.
        end: How it ended; None when the run was interrupted.
    """

    begin: Begin_co
    trials: list[TrialRecord] = field(default_factory=list)
    end: SearchEndRecord | None = None

    @property
    def case(self) -> Case:
        """Scenario, test, frame size."""
        return self.begin.scenario, self.begin.test, self.begin.frame_size

    @property
    def final(self) -> bool:
        """Whether this is not one that began anew, or failed."""
        return self.end is None or not self.end.superseded

    def seen(self) -> list[Seen]:
        """Every trial, as a procedure is told of it."""
        return [seen_of(trial) for trial in self.trials]

    def valid(self) -> list[tuple[TrialRequest, Measurement]]:
        """Trials that classify a load, as a search is sent them."""
        return [(request_of(t), measurement_of(t)) for t in self.trials if is_valid(t)]


LoggedTest = Logged[BeginRecord]
LoggedSearch = Logged[SearchRecord]
LoggedProcedure = Logged[ProcedureRecord]


def is_valid(trial: TrialRecord) -> bool:
    """Whether a trial may classify a load.

    Args:
        trial: The trial.

    Returns:
        True for a VALID verdict.
    """
    return trial.verdict is Verdict.VALID


def seen_of(trial: TrialRecord) -> Seen:
    """What a procedure is told of a trial.

    Args:
        trial: The trial.

    Returns:
        Number, what was asked, what was counted, verdict.
    """
    return Seen(trial.number, trial.spec, trial.result, trial.verdict)


def request_of(trial: TrialRecord) -> TrialRequest:
    """What the search asked for.

    Args:
        trial: The trial.

    Returns:
        Load and duration.
    """
    return TrialRequest(trial.spec.load_fps, trial.spec.duration_s)


def measurement_of(trial: TrialRecord | Seen) -> Measurement:
    """What a search is told of a valid trial: the loss of the worse direction.

    Args:
        trial: The trial.

    Returns:
        The measurement.
    """
    return Measurement(
        load_fps=trial.spec.load_fps,
        duration_s=trial.spec.duration_s,
        loss_ratio=trial.result.worst_loss_ratio(),
        effective_duration_s=trial.spec.duration_s,
    )


def tests_of(records: Iterable[Record]) -> list[LoggedTest]:
    """Group a log by test.

    Args:
        records: The log.

    Returns:
        Searches and other tests in the order they began.

    Raises:
        LogError: A trial of a test that never began.
    """
    found: dict[int, LoggedTest] = {}
    for record in records:
        if isinstance(record, BeginRecord):
            found[record.search] = Logged(record)
        elif isinstance(record, TrialRecord | SearchEndRecord):
            if record.search not in found:
                raise LogError(
                    f"test {record.search} has trials but no beginning",
                    where="trial log",
                    cure="the log was cut or edited; restore it from a copy",
                )
            if isinstance(record, TrialRecord):
                found[record.search].trials.append(record)
            else:
                found[record.search].end = record
    return list(found.values())


def searches_of(records: Iterable[Record]) -> list[LoggedSearch]:
    """The throughput searches of a log.

    Args:
        records: The log.

    Returns:
        Searches in the order they began.

    Raises:
        LogError: A trial of a test that never began.
    """
    return [
        Logged(logged.begin, logged.trials, logged.end)
        for logged in tests_of(records)
        if isinstance(logged.begin, SearchRecord)
    ]
