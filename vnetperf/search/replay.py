"""Drive a search from a log: recompute a result offline, or find where to resume."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vnetperf.model.errors import LogError
from vnetperf.search.base import Measurement, Search, SearchOutcome, TrialRequest


class ReplayMismatchError(LogError):
    """The log is not that of this search: another algorithm, goal, limit or order.

    Args:
        index: Position in the log, from 0, of the first trial that differs.
        expected: What the search asks for there; None if it has already ended.
        logged: What the log has there.
    """

    def __init__(self, index: int, expected: TrialRequest | None, logged: TrialRequest) -> None:
        asks = "has ended" if expected is None else f"asks for {_text(expected)}"
        super().__init__(
            f"trial {index + 1} of the log is {_text(logged)}, where the search {asks}",
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


def _text(request: TrialRequest) -> str:
    return f"{request.duration_s:g} s at {request.load_fps:.10g} frames/s"
