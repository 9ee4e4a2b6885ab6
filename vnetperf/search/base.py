"""The protocol of every test, what a search returns, and the replay of a log.

A test is a generator: it yields a `TrialRequest`, is sent the `TrialOutcome`, and returns what it
found. It knows no clock, no randomness and no machine, so that a log replays to the same result. A
trial that is no answer is repeated, never sent in; `search.throw(StopSearch(reason))` ends a search
with what it knows so far.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from vnetperf.model.errors import LogError
from vnetperf.model.parameters import SearchGoal, StepInputs
from vnetperf.model.trial import TrialOutcome, TrialRequest

Found = TypeVar("Found")
#: Any test; `Found` is a `SearchOutcome`, one of model/outcomes.py, or a tuple of them.
Procedure: TypeAlias = Generator[TrialRequest, TrialOutcome, Found]


@dataclass(frozen=True, slots=True)
class Bound:
    """A load that has been classified, with the evidence."""

    load_fps: float  # Intended frames/s per interface
    #: Every trial at this load in the order run, the short ones included.
    trials: tuple[TrialOutcome, ...]


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """The answer to one goal (RFC 9971 "Goal Result").

    A result that is not `regular` must be marked wherever a value of it is shown.
    """

    goal: SearchGoal  # The question, all of whose attributes a report must print
    #: The largest load carried that is below every load found too much; None if there is none.
    relevant_lower_bound: Bound | None
    relevant_upper_bound: Bound | None  # The smallest load found too much; None if there is none
    #: Typical forwarding rate at the lower bound, frames/s per interface; None without one.
    conditional_throughput_fps: float | None
    regular: bool  # True if both bounds exist and are within the goal's width
    reason: str  # Why the search stopped here, as a sentence for the report
    #: True if the DUT's limit is at least the lower bound and not known: the maximum load itself is
    #: carried, or the generator offered no more than about this bound; `reason` says which.
    at_least: bool = False
    at_most: bool = False  # True if even the minimum load is too much: the DUT's limit is below it
    #: Inputs of "tst009", whose z may decide a load by one trial; None of other searches.
    steps: StepInputs | None = None

    @property
    def relative_width(self) -> float | None:
        """(upper - lower) / upper of the two bounds, or None if one is missing."""
        if self.relevant_lower_bound is None or self.relevant_upper_bound is None:
            return None
        upper = self.relevant_upper_bound.load_fps
        return (upper - self.relevant_lower_bound.load_fps) / upper


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search returns (RFC 9971 "Controller Output")."""

    algorithm: str  # Registered name of the algorithm, e.g. "mlr"
    results: tuple[GoalOutcome, ...]  # One per goal, in the order of the goals
    trial_count: int  # Trials that were run, without those that warm up
    trial_seconds: float  # Sum of their durations, seconds

    def result(self, name: str) -> GoalOutcome:
        """Look up the result of a goal.

        Args:
            name: The goal's name.

        Returns:
            Its result.

        Raises:
            KeyError: If no goal has this name.
        """
        for result in self.results:
            if result.goal.name == name:
                return result
        raise KeyError(name)


class StopSearch(Exception):  # noqa: N818 - a signal like StopIteration, not an error
    """Thrown into a search to end it now; it returns irregular results with this reason.

    Args:
        reason: A sentence for the report.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Search: TypeAlias = Procedure[SearchOutcome]  # Any search algorithm


class ReplayMismatchError(LogError):
    """The log is not that of this test: another algorithm, goal, limit, input or order.

    Args:
        index: Position among the test's trials, from 0, of the first one that differs.
        expected: What the test requests there; None if it has already ended.
        logged: What the log has there.
    """

    def __init__(self, index: int, expected: TrialRequest | None, logged: TrialOutcome) -> None:
        instead = "has ended" if expected is None else f"requests {expected}"
        number = logged.number or index + 1
        super().__init__(
            f"trial {number} of the log is {logged.request}, where the test {instead}",
            cure="replay with the version, goals, limits and inputs that the log was made with; if "
            "it was cut or edited, restore it from a copy",
        )
        self.index = index
        self.expected = expected
        self.logged = logged.request


@dataclass(frozen=True, slots=True)
class Replay(Generic[Found]):
    """Where a log leads to: exactly one of the two is set."""

    #: The trial the test waits for, if the log is truncated; send its outcome to go on.
    next_request: TrialRequest | None
    outcome: Found | None = None  # What the test returned, if the log is complete
    #: Trials of the log that answered nothing: those that were repeated, or ended the test.
    discarded: int = 0


def replay(procedure: Procedure[Found], outcomes: Iterable[TrialOutcome]) -> Replay[Found]:
    """Feed a fresh test the trials of a log.

    Args:
        procedure: A test not yet started; afterwards it waits at `Replay.next_request`.
        outcomes: All its trials in the order run, whatever their verdict.

    Returns:
        What it found, or the trial to go on with.

    Raises:
        ReplayMismatchError: If the log holds a trial the test does not request at that point.
    """
    trials = enumerate(outcomes)
    discarded = 0
    try:
        request = next(procedure)
        for index, outcome in trials:
            if not request.matches(outcome.request):
                raise ReplayMismatchError(index, request, outcome)
            if outcome.answers(request):
                request = procedure.send(outcome)
            else:
                discarded += 1
    except StopIteration as end:
        for index, outcome in trials:
            raise ReplayMismatchError(index, None, outcome) from None
        answer: Found = end.value
        return Replay(None, answer, discarded)
    return Replay(request, None, discarded)
