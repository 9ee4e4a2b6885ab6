"""What every test besides the search is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from vnetperf.model.base import Frozen
from vnetperf.model.errors import LogError
from vnetperf.model.parameters import ProcedureParameters as Parameters
from vnetperf.model.trial import TrialOutcome, TrialRequest
from vnetperf.search import Procedure


class KnownThroughput(Frozen):
    """The throughput that a test takes its loads of.

    Attributes:
        load_fps: Largest load that met the goal, frames/s per interface.
        search: Number of the search that found it.
        goal: Its goal: the first one without loss, else the first one.
        loss_ratio: Loss ratio of the goal, 0..1.
        qualifier: "at least" when the largest load that was tried met the goal.
        note: What a reader must know of it; "".
        other_deployment: Whether it is that of another deployment than the test's own.
    """

    load_fps: float
    search: int
    goal: str
    loss_ratio: float = 0.0
    qualifier: Literal["", "at least"] = ""
    note: str = ""
    other_deployment: bool = False


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
        burst_gap_ns: Mean gap of the generator's bursts, as calibrated on this kind of wire,
            nanoseconds; None: not recorded.
        timelines: Whether the generator counts frames over time within a trial.
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
    burst_gap_ns: float | None = None
    timelines: bool = False
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


def stood_still(outcome: TrialOutcome) -> bool:
    """Whether the tester did, for longer than the rings bridge; when in the trial is not known.

    Args:
        outcome: The trial.

    Returns:
        True where it did; False also where no gaps were recorded.
    """
    gaps = outcome.result.gaps
    return gaps is not None and (gaps.poll.over_s > 0 or gaps.send.over_s > 0)


def repeat_trial(request: TrialRequest, times: int) -> Procedure[list[TrialOutcome]]:
    """Run a trial several times.

    Args:
        request: The trial.
        times: Number of trials.

    Returns:
        Their outcomes in order.
    """
    outcomes = []
    for _ in range(times):
        outcomes.append((yield request))
    return outcomes


def direction_name(direction: int, ends: Sequence[str]) -> str:
    """Name of a direction in results.

    Args:
        direction: Number of the tester's sending port.
        ends: Ports of the DUT that the tester's ports 0 and 1 plug in at.

    Returns:
        "phy0->phy1", "phy0->vnf0.0" ...
    """
    return f"{ends[direction]}->{ends[1 - direction]}"
