"""The contract of every test that is no search: what it yields, what it is sent, what it returns.

A procedure is a generator, as a search is: it yields an `Ask`, is sent what came of it, `Seen`, and
returns what it found. It knows no clock and no machine, so that a log replays to the same outcome.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from vnetperf.model.base import Frozen
from vnetperf.model.errors import LogError
from vnetperf.model.parameters import ProcedureParameters as Parameters
from vnetperf.model.trial import EventSpec, LoadStep, TrialResult, TrialSpec, Verdict
from vnetperf.search.base import SAME_RTOL

#: What becomes of a trial whose load the generator could not offer, after it was repeated in vain:
#: "lower" begins the test anew with a lower ceiling, "fail" ends it, "count" takes it as it is,
#: without repeating it.
WhenLimited = Literal["lower", "fail", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A trial that a procedure wants; waits and learning frames are not its business.

    Attributes:
        load_fps: Intended load of each sending interface, frames/s.
        duration_s: Seconds of sending; of a burst, those it takes at the largest rate.
        burst: As in `TrialSpec`, like those that follow.
        steps: See there.
        event: See there.
        bin_s: See there.
        tag_at_s: See there.
        ipdv: See there.
        histogram_up_to_loss: See there.
        idle_s: Least wait after the trial, seconds.
        when_limited: What becomes of a load that the generator could not offer.
    """

    load_fps: float
    duration_s: float
    burst: int = 0
    steps: tuple[LoadStep, ...] = ()
    event: EventSpec | None = None
    bin_s: float = 0.0
    tag_at_s: float = 0.0
    ipdv: bool = False
    histogram_up_to_loss: float = 1.0
    idle_s: float = 0.0
    when_limited: WhenLimited = "fail"

    def is_that_of(self, spec: TrialSpec) -> bool:
        """Whether a trial is the one that is asked for, but for float rounding.

        Args:
            spec: The trial.

        Returns:
            True when it is.
        """
        asked = _loads(self.load_fps, self.duration_s, self.steps)
        had = _loads(spec.load_fps, spec.duration_s, spec.steps)
        return (
            (self.burst, self.event) == (spec.burst, spec.event)
            and len(asked) == len(had)
            and all(
                isclose(one, other, rel_tol=SAME_RTOL)
                for a, b in zip(asked, had, strict=True)
                for one, other in zip(a, b, strict=True)
            )
        )

    def __str__(self) -> str:
        return _text(self.load_fps, self.duration_s, self.burst)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a trial.

    Attributes:
        number: Its number in the log.
        spec: What was asked of the generator.
        result: What was counted.
        verdict: Whether that is a measurement.
    """

    number: int
    spec: TrialSpec
    result: TrialResult
    verdict: Verdict = Verdict.VALID


Found = TypeVar("Found")
Procedure: TypeAlias = Generator[Ask, Seen, Found]
"""Any test; `Found` is one of model/outcomes.py, or a tuple of them."""


class KnownThroughput(Frozen):
    """The throughput that a test takes its loads of.

    Attributes:
        load_fps: Largest load that met the goal, frames/s per interface.
        search: Number of the search that found it.
        goal: Its goal: the first one without loss, else the first one.
        loss_ratio: Loss ratio of the goal, 0..1.
        qualifier: "at least" when the largest load that was tried met the goal.
        note: What a reader must know of it; "".
    """

    load_fps: float
    search: int
    goal: str
    loss_ratio: float = 0.0
    qualifier: Literal["", "at least"] = ""
    note: str = ""


P = TypeVar("P", bound=Parameters)


class ProcedureInputs(Frozen, Generic[P]):
    """Everything that a procedure is given; it stands in the log.

    Attributes:
        parameters: The preset's.
        frame_size: Octets including FCS; of a mix its mean, rounded.
        directions: Interfaces that send.
        ends: Ports of the DUT that the tester's ports 0 and 1 plug in at.
        loads: Load of each interface that sends, as a share of a trial's; empty for 1 each.
        min_load_fps: Smallest load of the preset, frames/s per interface.
        ceiling_fps: Largest load that can be offered, frames/s per interface.
        ceiling_reason: What sets it.
        media_fps: Largest rate of the reference medium, frames/s per interface.
        nominal: True when the wires have no speed of their own and that is for comparison only.
        definition: What the generator's time stamps stand for (RFC 1242 section 3.8).
        throughput: The throughput; None for a test that needs none.
    """

    parameters: P
    frame_size: int
    directions: int = 2
    ends: tuple[str, str] = ("phy0", "phy1")
    loads: tuple[float, ...] = ()
    min_load_fps: float = 1000.0
    ceiling_fps: float
    ceiling_reason: str = ""
    media_fps: float
    nominal: bool = True
    definition: Literal["store-and-forward", "bit-forwarding"] = "store-and-forward"
    throughput: KnownThroughput | None = None

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of a trial's load."""
        return sum(self.loads) if self.loads else self.directions

    @property
    def known(self) -> KnownThroughput:
        """The throughput, for a test that needs it.

        Raises:
            LogError: There is none in the log.
        """
        if self.throughput is None:
            raise LogError("a test that needs the throughput was logged without one", where="log")
        return self.throughput

    def direction(self, number: int) -> str:
        """Name of a direction in results.

        Args:
            number: Number of the tester's sending port.

        Returns:
            "phy0->phy1" ...
        """
        return direction_name(number, self.ends)


def direction_name(direction: int, ends: Sequence[str]) -> str:
    """Name of a direction in results.

    Args:
        direction: Number of the tester's sending port.
        ends: Ports of the DUT that the tester's ports 0 and 1 plug in at.

    Returns:
        "phy0->phy1", "phy0->vnf0.0" ...
    """
    return f"{ends[direction]}->{ends[1 - direction]}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Where a log leads to.

    Attributes:
        ask: The trial that is waited for; None when the procedure has ended.
        found: What it returned when it has.
    """

    ask: Ask | None
    found: Any = None


def _loads(
    load_fps: float, duration_s: float, steps: tuple[LoadStep, ...]
) -> list[tuple[float, float]]:
    return [(load_fps, duration_s), *((s.load_fps, s.duration_s) for s in steps)]


def counts(ask: Ask, seen: Seen) -> bool:
    """Whether a trial is sent to the procedure that asked for it.

    Args:
        ask: What it asked for.
        seen: What came.

    Returns:
        True for a measurement, for one that it takes as it is, and where an event failed.
    """
    if seen.verdict is Verdict.VALID:
        return True
    event = seen.result.event
    if event is not None and event.failure and not seen.result.failed:
        return True  # what did not come back would not at the next try either; it has no number
    limited = seen.verdict is Verdict.GENERATOR_LIMITED and not seen.result.failed
    return limited and ask.when_limited == "count"


def replay(procedure: Procedure[Any], trials: Iterable[Seen]) -> Replayed:
    """Feed a fresh procedure the trials of a log.

    Args:
        procedure: Not yet started; afterwards it waits for what is sent to `Replayed.ask`.
        trials: All its trials in order, whatever their verdict.

    Returns:
        What it found, or the trial to go on with.

    Raises:
        LogError: The log has a trial that the procedure does not ask for.
    """
    waiting = iter(trials)
    try:
        ask = next(procedure)
        for seen in waiting:
            if not ask.is_that_of(seen.spec):
                raise _foreign(seen, f"asks for {ask}")
            if counts(ask, seen):
                ask = procedure.send(seen)
    except StopIteration as end:
        for seen in waiting:
            raise _foreign(seen, "has ended") from None
        return Replayed(None, end.value)
    return Replayed(ask)


def _foreign(seen: Seen, instead: str) -> LogError:
    text = _text(seen.spec.load_fps, seen.spec.duration_s, seen.spec.burst)
    return LogError(
        f"trial {seen.number} is {text}, where the test {instead}",
        where="trial log",
        cure="the log was cut or edited, or is of another version; restore it from a copy",
    )


def _text(load_fps: float, duration_s: float, burst: int) -> str:
    if burst:
        return f"a burst of {burst} frames"
    return f"{duration_s:g} s at {load_fps:.10g} frames/s"
