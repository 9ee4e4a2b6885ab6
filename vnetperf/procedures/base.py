"""What every test besides the search is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, zip_longest
from math import ceil
from operator import sub
from typing import Generic, Literal, TypeVar

from vnetperf.model.base import Frozen
from vnetperf.model.errors import LogError, NoResultError
from vnetperf.model.outcomes import Curve
from vnetperf.model.parameters import ProcedureParameters as Parameters
from vnetperf.model.trial import Latency, RoundTrip, TrialOutcome, TrialRequest, TrialResult
from vnetperf.search import Procedure


class KnownThroughput(Frozen):
    """The throughput that a test takes its loads of."""

    # Largest load that met the goal, of several rounds the least, frames/s per interface
    load_fps: float
    # The largest bound that was found, of all rounds: the smallest load that was too much, or where
    # there is none the largest that was not; frames/s per interface; None: not recorded
    upper_fps: float | None = None
    search: int  # Number of the search that found it
    goal: str  # Its goal: the first one without loss, else the first one
    loss_ratio: float = 0.0  # Loss ratio of the goal, 0..1
    # "at least" when the largest load that was tried met the goal
    qualifier: Literal["", "at least"] = ""
    note: str = ""  # What a reader must know of it; ""
    # Seconds of the trials that try it before a test whose numbers need a load that is carried; 0
    # for none
    try_s: float = 0.0
    other_deployment: bool = False  # Whether it is that of another deployment than the test's own


P = TypeVar("P", bound=Parameters)


#: Rules by which tests ask for trials today. By those of 1 a recovery had no trial's beginning at
#: the relaxed load, and bursts counted by the gap of a calibration; by those of 2 processors were
#: looked at at shares of the throughput alone. Logs are read by their own.
RULES = 3


class ProcedureInputs(Frozen, Generic[P]):
    """Everything that a procedure is given; it stands in the log."""

    parameters: P  # The preset's
    frame_size: int  # Octets including FCS; of a mix its mean, rounded
    mean_size: float | None = None  # Mean of a mix, octets; None: all frames have `frame_size`
    directions: int = 2  # Interfaces that send
    # Ports of the DUT that the tester's ports 0 and 1 plug in at
    ends: tuple[str, str] = ("phy0", "phy1")
    # Load of each interface that sends, as a share of a trial's; empty for 1 each
    loads: tuple[float, ...] = ()
    min_load_fps: float = 1000.0  # Smallest load of the preset, frames/s per interface
    ceiling_fps: float  # Largest load that can be offered, frames/s per interface
    ceiling_reason: str = ""  # What sets it
    media_fps: float  # Largest rate of the reference medium, frames/s per interface
    # True when the wires have no speed of their own and that is for comparison only
    nominal: bool = True
    # What the generator's time stamps stand for (RFC 1242 section 3.8)
    definition: Literal["store-and-forward", "bit-forwarding"] = "store-and-forward"
    # Mean gap of the generator's bursts, as calibrated on this kind of wire, nanoseconds; None: not
    # recorded
    burst_gap_ns: float | None = None
    # Times that a trial which is no measurement because of the tester is run before a test that
    # repeats its trials itself gives them up; four in logs that do not say it
    tries: int = 4
    rules: int = 1  # `RULES` of the version that asked for the trials; 1 in logs without it
    timelines: bool = False  # Whether the generator counts frames over time within a trial
    sessions: int = 0  # Sessions of the traffic, where the DUT is a NAT; 0 where it is none
    # How long the NAT holds a session of which one frame came, seconds; None where time ends none
    session_timeout_s: float | None = None
    throughput: KnownThroughput | None = None  # The throughput; None for a test that needs none

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of a trial's load."""
        return sum(self.loads) if self.loads else self.directions

    @property
    def required_throughput(self) -> KnownThroughput:
        """The throughput, for a test that needs it; `LogError` where the log has none."""
        if self.throughput is None:
            raise LogError("a test that needs the throughput was logged without one", where="log")
        return self.throughput

    def direction(self, number: int) -> str:
        """Name in results of the direction from a tester's port: "phy0->phy1" ..."""
        return direction_name(number, self.ends)


#: Times that a load taken of a throughput is tried before a test is measured at it.
THROUGHPUT_TRIES = 3
Found = TypeVar("Found")


def require_carried_load(
    throughput: KnownThroughput | None, procedure: Procedure[Found]
) -> Procedure[Found]:
    """Try the throughput that a test takes its loads of, then run the test.

    Args:
        throughput: The throughput; None for a test that takes none.
        procedure: The test, not yet started.

    Returns:
        What the test found.

    Raises:
        NoResultError: No trial kept to the goal, so the test would not measure the DUT at its
            throughput.
    """
    losses = []
    for _ in range(THROUGHPUT_TRIES if throughput is not None and throughput.try_s else 0):
        assert throughput is not None  # noqa: S101 - for the type checker: there are no tries without
        outcome = yield TrialRequest(
            load_fps=throughput.load_fps,
            duration_s=throughput.try_s,
            histogram_up_to_loss=-1.0,
            phase="throughput",
            when_limited="count",
            classifies=(throughput.loss_ratio,),
        )
        if outcome.loss.is_low(throughput.loss_ratio):
            break
        losses.append(outcome.loss)
    else:
        if losses and throughput is not None:
            least = min(losses, key=lambda loss: (loss.most, loss.least))
            raise NoResultError(
                f"the DUT's loss was {least} at the load taken for the throughput, "
                f"{throughput.load_fps:.0f} frames/s per interface, in the best of {len(losses)} "
                f"trials of {throughput.try_s:g} s, where goal {throughput.goal} allows "
                f"{throughput.loss_ratio:.3%}",
                cure="what the DUT carries varies: see the rounds of its throughput",
            )
    return (yield from procedure)


def stood_still(outcome: TrialOutcome) -> bool:
    """Whether the tester did, for longer than the rings bridge; False where no gaps are known."""
    gaps = outcome.result.gaps
    return gaps is not None and (gaps.poll.over_s > 0 or gaps.send.over_s > 0)


def shortfall_note(trials: Iterable[TrialOutcome]) -> str:
    """What of the loads was not offered; "" where all was that a load is accurate to.

    A number of a trial that is VALID all the same is that of its load (`NUMBER_SHORTFALL`).
    """
    short = [outcome for outcome in trials if outcome.is_short]
    if not short:
        return ""
    most = max(outcome.missing for outcome in short)
    numbers = ", ".join(str(outcome.number) for outcome in short)
    plural = "s" if len(short) > 1 else ""
    by = f", by {most:.2%} at most" if most else ""
    return f"less than the load was offered in trial{plural} {numbers}{by}"


def repeat_trial(request: TrialRequest, times: int) -> Procedure[list[TrialOutcome]]:
    """Run a trial several times; returns their outcomes in order."""
    outcomes = []
    for _ in range(times):
        outcomes.append((yield request))
    return outcomes


def direction_name(direction: int, ends: Sequence[str]) -> str:
    """Name in results of the direction from a tester's port: "phy0->phy1", "pod0->pod1" ..."""
    return f"{ends[direction]}->{ends[1 - direction]}"


def collect_latencies(result: TrialResult, ends: Sequence[str]) -> dict[str, Latency]:
    """Latencies of a trial by direction, or that of the round trip by its name."""
    latencies = {
        direction_name(counts.direction, ends): counts.latency
        for counts in result.directions
        if counts.latency is not None
    }
    if result.round_trip is not None:
        latencies[RoundTrip.name(ends)] = result.round_trip.latency
    return latencies


def name_share(share: float) -> str:
    """What results call a load that is a share of the throughput."""
    return "throughput" if share == 1 else f"{100 * share:g} % of throughput"


def per_interface(load_fps: float) -> str:
    """What results call a load that is no share."""
    return f"{load_fps:.10g} frames/s per interface"


#: Most bins of a curve: more are merged.
MOST_BINS = 1000
#: Share of them that the sending fills: frames still come when it is over.
FILLED = 0.95


def bin_width(wanted_s: float, total_s: float) -> float:
    """Width of a trial's bins: no narrower than a curve of it can show."""
    return max(wanted_s, total_s / (MOST_BINS * FILLED))


def build_curve(outcome: TrialOutcome, marks: Mapping[str, float]) -> Curve | None:
    """Course of a trial over time, both directions together, in at most `MOST_BINS` bins."""
    timelines = outcome.result.timelines
    if not timelines:
        return None
    offered = _sums(timeline.sent for timeline in timelines)
    received = _sums(timeline.received for timeline in timelines)
    arrived = _sums(timeline.arrived for timeline in timelines)
    together = ceil(max(len(offered), len(arrived)) / MOST_BINS) or 1
    lost = [o - r for o, r in zip_longest(offered, received, fillvalue=0)]
    return Curve(
        trial=outcome.number,
        bin_s=timelines[0].bin_s * together,
        offered=_merged(offered, together),
        lost=_merged(lost, together),
        arrived=_merged(arrived, together),
        marks={name: round(time_s, 6) for name, time_s in marks.items()},
    )


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return list(map(sum, zip_longest(*rows, fillvalue=0)))


def _merged(bins: Sequence[int], together: int) -> tuple[int, ...]:
    upto = list(accumulate(bins, initial=0))
    ends = [*upto[:-1:together], upto[-1]]
    return tuple(map(sub, ends[1:], ends))
