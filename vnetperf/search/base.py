"""Contract of a search: what it yields, is sent and returns; and its replay from a log.

A search knows no clock, no randomness and no machine. A trial without a valid verdict is never
sent in; `search.throw(StopSearch(reason))` ends it with what it knows so far.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from math import isclose, isfinite
from typing import TypeAlias

from vnetperf.model.errors import LogError
from vnetperf.model.parameters import SearchGoal

#: Loads and durations closer than this (relative) are the same trial inputs.
SAME_RTOL = 1e-9


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """The two Trial Inputs (draft section "Trial Input"); nothing else steers a trial."""

    load_fps: float
    """Trial Load: intended frames/s per interface."""

    duration_s: float
    """Trial Duration: intended seconds of traffic, RFC 2544 section 23 phase c."""

    def same_as(self, load_fps: float, duration_s: float) -> bool:
        """Tell whether these inputs are this request, but for float rounding.

        Args:
            load_fps: Intended frames/s per interface.
            duration_s: Intended seconds of traffic.

        Returns:
            True if both agree to a relative 1e-9.
        """
        return isclose(self.load_fps, load_fps, rel_tol=SAME_RTOL) and isclose(
            self.duration_s, duration_s, rel_tol=SAME_RTOL
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a search learns of one valid trial (draft section "Trial Output").

    Raises:
        ValueError: If the loss ratio is outside [0, 1] or the effective duration is not above 0;
            such a trial is inconsistent and must not reach a search.
    """

    load_fps: float
    """Intended frames/s per interface, as requested."""

    duration_s: float
    """Intended seconds of traffic, as requested. Decides whether the trial is full-length."""

    loss_ratio: float
    """Lost frames / frames expected to be forwarded, in [0, 1]."""

    effective_duration_s: float
    """Seconds this trial counts for in duration sums and in the time budget (draft section "Trial
    Effective Duration"). Equal to `duration_s` unless the measurer chooses to count more (waits
    included) or less (a rounded duration); a report must then say how it is computed."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.loss_ratio <= 1.0:
            raise ValueError(f"loss ratio {self.loss_ratio} is outside [0, 1]")
        if not (self.effective_duration_s > 0.0 and isfinite(self.effective_duration_s)):
            raise ValueError(f"effective duration {self.effective_duration_s} s is not above 0")

    @property
    def forwarding_rate_fps(self) -> float:
        """Trial Forwarding Rate: load x (1 - loss ratio), frames/s per interface."""
        return self.load_fps * (1.0 - self.loss_ratio)


@dataclass(frozen=True, slots=True)
class Bound:
    """A load that has been classified, with the evidence."""

    load_fps: float
    """Intended frames/s per interface."""

    trials: tuple[Measurement, ...]
    """Every trial at this load in the order run, the short ones included."""


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """The answer to one goal (draft section "Goal Result").

    A result that is not `regular` must be marked wherever a value of it is shown.
    """

    goal: SearchGoal
    """The question, all of whose attributes a report must print."""

    relevant_lower_bound: Bound | None
    """The largest load carried that is below every load found too much; None if there is none."""

    relevant_upper_bound: Bound | None
    """The smallest load found too much; None if there is none."""

    conditional_throughput_fps: float | None
    """Typical forwarding rate at the lower bound, frames/s per interface; None without one."""

    regular: bool
    """True if both bounds exist and are within the goal's width."""

    reason: str
    """Why the search stopped here, as a sentence for the report."""

    at_least: bool = False
    """True if the maximum load itself is carried: the limit is the generator's or the medium's,
    and the DUT's is at least this."""

    at_most: bool = False
    """True if even the minimum load is too much: the DUT's limit is below it."""

    @property
    def relative_width(self) -> float | None:
        """(upper - lower) / upper of the two bounds, or None if one is missing."""
        if self.relevant_lower_bound is None or self.relevant_upper_bound is None:
            return None
        upper = self.relevant_upper_bound.load_fps
        return (upper - self.relevant_lower_bound.load_fps) / upper


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search returns (draft section "Controller Output")."""

    algorithm: str
    """Registered name of the algorithm, e.g. ``"mlr"``."""

    results: tuple[GoalOutcome, ...]
    """One per goal, in the order of the goals."""

    trial_count: int
    """Trials that were run."""

    trial_seconds: float
    """Sum of their effective durations, seconds."""

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


Search: TypeAlias = Generator[TrialRequest, Measurement, SearchOutcome]
"""Any search algorithm."""


class ReplayMismatchError(LogError):
    """The log is not that of this search: another algorithm, goal, limit or order.

    Args:
        index: Position in the log, from 0, of the first trial that differs.
        expected: What the search asks for there; None if it has already ended.
        logged: What the log has there.
    """

    def __init__(self, index: int, expected: TrialRequest | None, logged: TrialRequest) -> None:
        asks = "has ended" if expected is None else f"asks for {_request_text(expected)}"
        super().__init__(
            f"trial {index + 1} of the log is {_request_text(logged)}, where the search {asks}",
            cure="replay with the goals, limits and algorithm that the log was made with",
        )
        self.index = index
        self.expected = expected
        self.logged = logged


@dataclass(frozen=True, slots=True)
class Replay:
    """Where a log leads to: exactly one of the two is set."""

    outcome: SearchOutcome | None
    """What the search returned, if the log is complete."""

    next_request: TrialRequest | None
    """The trial the search waits for, if the log is truncated; send its measurement to go on."""


def replay(search: Search, log: Iterable[tuple[TrialRequest, Measurement]]) -> Replay:
    """Feed a fresh search the trials of a log.

    Args:
        search: A search not yet started; afterwards it waits at `Replay.next_request`.
        log: The valid trials in the order run.

    Returns:
        The outcome, or the trial to go on with.

    Raises:
        ReplayMismatchError: If the log holds a trial the search does not ask for at that point.
    """
    try:
        expected = next(search)
    except StopIteration as end:
        return _ended(end.value, log, 0)
    trials = iter(log)
    for index, (logged, measurement) in enumerate(trials):
        if not expected.same_as(logged.load_fps, logged.duration_s):
            raise ReplayMismatchError(index, expected, logged)
        try:
            expected = search.send(measurement)
        except StopIteration as end:
            return _ended(end.value, trials, index + 1)
    return Replay(None, expected)


def _ended(
    outcome: SearchOutcome, rest: Iterable[tuple[TrialRequest, Measurement]], index: int
) -> Replay:
    for logged, _ in rest:
        raise ReplayMismatchError(index, None, logged)
    return Replay(outcome, None)


def _request_text(request: TrialRequest) -> str:
    return f"{request.duration_s:g} s at {request.load_fps:.10g} frames/s"
