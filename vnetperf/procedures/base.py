"""What the tests besides the search have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, zip_longest
from math import ceil
from operator import sub
from typing import TypeVar

from vnetperf.model.errors import NoResultError
from vnetperf.model.outcomes import Curve
from vnetperf.model.trial import Latency, RoundTrip, TrialOutcome, TrialRequest, TrialResult
from vnetperf.plugin.procedure import THROUGHPUT_TRIES, KnownThroughput, direction_name
from vnetperf.search import Procedure

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
