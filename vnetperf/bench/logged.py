"""What a log holds of each search, and what a search is told of its trials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vnetperf.model.errors import LogError
from vnetperf.model.trial import Verdict
from vnetperf.results.records import Record, SearchEndRecord, SearchRecord, TrialRecord
from vnetperf.search import Measurement, TrialRequest

Case = tuple[str, str, int]


@dataclass
class LoggedSearch:
    """One search as the log has it.

    Attributes:
        begin: How it was asked for.
        trials: Its trials in order, whatever their verdict.
        end: How it ended; None when the run was interrupted.
    """

    begin: SearchRecord
    trials: list[TrialRecord] = field(default_factory=list)
    end: SearchEndRecord | None = None

    @property
    def case(self) -> Case:
        """Scenario, test, frame size."""
        return self.begin.scenario, self.begin.test, self.begin.frame_size

    def valid(self) -> list[tuple[TrialRequest, Measurement]]:
        """Trials that classify a load, as a search is sent them."""
        return [(request_of(t), measurement_of(t)) for t in self.trials if is_valid(t)]


def is_valid(trial: TrialRecord) -> bool:
    """Whether a trial may classify a load.

    Args:
        trial: The trial.

    Returns:
        True for a VALID verdict.
    """
    return trial.verdict is Verdict.VALID


def request_of(trial: TrialRecord) -> TrialRequest:
    """What the search asked for.

    Args:
        trial: The trial.

    Returns:
        Load and duration.
    """
    return TrialRequest(trial.spec.load_fps, trial.spec.duration_s)


def measurement_of(trial: TrialRecord) -> Measurement:
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


def searches_of(records: Iterable[Record]) -> list[LoggedSearch]:
    """Group a log by search.

    Args:
        records: The log.

    Returns:
        Searches in the order they began.

    Raises:
        LogError: A trial of a search that never began.
    """
    found: dict[int, LoggedSearch] = {}
    for record in records:
        if isinstance(record, SearchRecord):
            found[record.search] = LoggedSearch(record)
        elif isinstance(record, TrialRecord | SearchEndRecord):
            if record.search not in found:
                raise LogError(
                    f"search {record.search} has trials but no beginning",
                    where="trial log",
                    cure="the log was cut or edited; restore it from a copy",
                )
            if isinstance(record, TrialRecord):
                found[record.search].trials.append(record)
            else:
                found[record.search].end = record
    return list(found.values())
