"""Latency: RFC 2544 section 26.2, repeated at several loads; RFC 8219; against absolute loads.

RFC 2544 has the mean of the trials; RFC 8219 the median and the 99.9th percentile of each trial,
and of these the median over the trials with the 1st and 99th percentile. It defines delay
variation as well (section 7.3).

The clause times one tagged frame; here every frame sent after that moment is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import fsum
from statistics import fmean, median
from typing import Any, TypeVar

from vnetperf.model.figures import Figure, figure
from vnetperf.model.outcomes import DelayVariation, LatencyAt, OverTrials
from vnetperf.model.parameters import LatencyLoadTest, LatencyTest
from vnetperf.model.result import Result, total_if_known
from vnetperf.model.trial import (
    SAME_RTOL,
    Latency,
    TrialGaps,
    TrialOutcome,
    TrialRequest,
    Verdict,
)
from vnetperf.model.units import percent
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs, equal_trials
from vnetperf.procedures.base import (
    collect_latencies,
    name_share,
    per_interface,
    shortfall_note,
)
from vnetperf.search import Procedure
from vnetperf.statistics import spread
from vnetperf.statistics.histogram import decode_hdr, read_percentiles
from vnetperf.statistics.samples import percentiles

#: Percentile whose distance to the smallest delay is the delay variation (RFC 8219 section 7.3.1).
PDV_PERCENTILE = "99.9"
#: Percentiles of each trial that RFC 8219 section 7.2 calls typical and worst-case latency.
TYPICAL, WORST_CASE = "50", "99.9"


def merge_latencies(latencies: Sequence[Latency]) -> Latency:
    """Latency of all frames of several trials."""
    first = latencies[0]
    if len(latencies) == 1:
        return first
    count = sum(latency.count for latency in latencies)
    percentiles, hdr = _merge_histograms(latencies)
    return Latency(
        count=count,
        min_ns=min(latency.min_ns for latency in latencies),
        mean_ns=fsum(latency.mean_ns * latency.count for latency in latencies) / count,
        max_ns=max(latency.max_ns for latency in latencies),
        percentiles=percentiles,
        hdr=hdr,
        before_departure=total_if_known(latency.before_departure for latency in latencies),
        above_range=total_if_known(latency.above_range for latency in latencies),
    )


def _merge_histograms(latencies: Sequence[Latency]) -> tuple[dict[str, float], str]:
    if not all(latency.hdr for latency in latencies):
        return {}, ""
    merged, *others = (decode_hdr(latency.hdr) for latency in latencies)
    for other in others:
        merged.add(other)
    # By the rank that generators take: the library's own is another where ranks are not whole.
    merged_percentiles = read_percentiles(merged, map(float, latencies[0].percentiles))
    return merged_percentiles, str(merged.encode().decode())


def over_trials(values: Sequence[float]) -> OverTrials | None:
    """A number of each trial, summed up as RFC 8219 does; None without one."""
    if not values:
        return None
    ends = percentiles(sorted((value, 1) for value in values), (1.0, 99.0))
    return OverTrials(n=len(values), median_ns=median(values), p1_ns=ends["1"], p99_ns=ends["99"])


def _percentile_over_trials(
    by_direction: Mapping[str, Sequence[Latency]], level: str
) -> dict[str, OverTrials]:
    summaries = {
        name: over_trials(
            [latency.percentiles[level] for latency in latencies if level in latency.percentiles]
        )
        for name, latencies in by_direction.items()
    }
    return {name: summary for name, summary in summaries.items() if summary is not None}


#: Largest share of successive frames without stamps of their own that differences stand for.
MOST_SHARED = 0.1


def _explain_no_ipdv(latencies: Sequence[Latency]) -> str:
    """Why differences of delays say nothing; "" where frames have stamps of their own."""
    differences = [latency.ipdv for latency in latencies if latency.ipdv]
    if not differences:
        return "the generator does not tell delays of successive frames"
    if any("shared" not in ipdv for ipdv in differences):
        return "the log does not say which frames have stamps of their own"
    shared = max(ipdv["shared"] for ipdv in differences)
    if shared > MOST_SHARED or not all("median" in ipdv for ipdv in differences):
        return f"over {MOST_SHARED:.0%} of successive frames left in one call and have one stamp"
    return ""


def delay_variation(latencies: Sequence[Latency]) -> DelayVariation:
    """Delay variation of one direction: the widest of all trials, the median of medians."""
    spans = [  # a percentile of whole buckets of a histogram may be below the shortest latency
        max(0.0, latency.percentiles[PDV_PERCENTILE] - latency.min_ns)
        for latency in latencies
        if PDV_PERCENTILE in latency.percentiles
    ]
    no_ipdv_reason = _explain_no_ipdv(latencies)
    differences = [] if no_ipdv_reason else [latency.ipdv for latency in latencies if latency.ipdv]
    stamped = [latency.ipdv for latency in latencies if "shared" in latency.ipdv]
    missing = []
    if not spans:
        missing.append(f"PDV: no {PDV_PERCENTILE}th percentile")
    if no_ipdv_reason:
        missing.append(f"IPDV: {no_ipdv_reason}")
    return DelayVariation(
        pdv_ns=max(spans, default=None),
        pdv=over_trials(spans),
        ipdv_min_ns=min((ipdv["min"] for ipdv in differences), default=None),
        ipdv_median_ns=median(ipdv["median"] for ipdv in differences) if differences else None,
        ipdv_max_ns=max((ipdv["max"] for ipdv in differences), default=None),
        ipdv_resolution_ns=max((ipdv.get("resolution", 0.0) for ipdv in stamped), default=None)
        or None,
        shared_stamps=max((ipdv["shared"] for ipdv in stamped), default=None),
        why=f"not measured: {'; '.join(missing)}" if missing else "",
    )


def _above_ceiling(inputs: ProcedureInputs[Any]) -> str:
    return (
        f"not measured: above the largest load, {inputs.ceiling_fps:.0f} frames/s per interface, "
        f"limited by {inputs.ceiling_reason}"
    )


def latency(inputs: ProcedureInputs[LatencyTest]) -> Procedure[tuple[LatencyAt, ...]]:
    """Run the test.

    A load is that of the clause or none: one that the generator did not offer in any try has no
    latency, and its note says how much of it was offered. The other loads are measured.
    """
    test, throughput = inputs.parameters, inputs.required_throughput
    loads = [
        (name_share(share), share * throughput.load_fps, throughput.note) for share in test.shares
    ]
    loads += [(f"{load:g} frames/s per interface", load, "") for load in test.loads_fps]
    latencies = []
    for load_name, load_fps, note in loads:
        if load_fps > inputs.ceiling_fps * (1 + SAME_RTOL):
            latencies.append(_merge_trials(inputs, load_name, load_fps, (), _above_ceiling(inputs)))
            continue
        good: list[TrialOutcome] = []
        bad: list[TrialOutcome] = []
        for _ in range(test.repeats):
            yield from _until_valid(_request(test, load_fps), inputs.tries, good, bad)
            if not good:
                break
        reason = f"trials discarded because of the tester: {len(bad)}" if bad else ""
        if not good:
            reason = f"not measured: {_explain_no_trial(bad)}"
        latency_at = _merge_trials(
            inputs, load_name, load_fps, good, "; ".join(filter(None, (note, reason)))
        )
        latencies.append(latency_at.model_copy(update={"discarded": len(bad)}))
    return tuple(latencies)


#: Times that a trial of the curve, with its many loads, is run until it is a measurement.
ATTEMPTS_OF_CURVE = 2


def _request(test: LatencyTest | LatencyLoadTest, load_fps: float) -> TrialRequest:
    return TrialRequest(
        load_fps=load_fps,
        duration_s=test.duration_s,
        tag_at_s=test.tag_at_s,
        ipdv=True,
        when_limited="count",
    )


def _until_valid(
    request: TrialRequest, attempts: int, good: list[TrialOutcome], bad: list[TrialOutcome]
) -> Procedure[None]:
    """Run a trial until it is a measurement, or as often as it may; adds to `good` and `bad`."""
    for _ in range(attempts):
        outcome = yield request
        if outcome.verdict is Verdict.VALID:
            good.append(outcome)
            return
        bad.append(outcome)


def latency_load(inputs: ProcedureInputs[LatencyLoadTest]) -> Procedure[tuple[LatencyAt, ...]]:
    """Run the test: all loads in turn, and again, so that a drift is in all of them alike.

    A load that the generator never offered in its first turn is in no further one. One that the DUT
    does not carry is: what it forwards then has a latency, too.
    """
    test = inputs.parameters
    loads = sorted(test.loads_fps)
    offerable = [load for load in loads if load <= inputs.ceiling_fps * (1 + SAME_RTOL)]
    good: dict[float, list[TrialOutcome]] = {load: [] for load in loads}
    bad: dict[float, list[TrialOutcome]] = {load: [] for load in loads}
    for _ in range(test.repeats):
        for load in list(offerable):
            request = _request(test, load)
            yield from _until_valid(request, ATTEMPTS_OF_CURVE, good[load], bad[load])
            if not good[load] and all(map(_is_limited, bad[load])):
                offerable.remove(load)
    return tuple(_merge_curve_trials(inputs, load, good[load], bad[load]) for load in loads)


def _is_limited(outcome: TrialOutcome) -> bool:
    return outcome.verdict is Verdict.GENERATOR_LIMITED


def _merge_curve_trials(
    inputs: ProcedureInputs[LatencyLoadTest],
    load_fps: float,
    good: Sequence[TrialOutcome],
    bad: Sequence[TrialOutcome],
) -> LatencyAt:
    """What trials at one load of the curve give."""
    note = ""
    if load_fps > inputs.ceiling_fps * (1 + SAME_RTOL):
        note = _above_ceiling(inputs)
    elif not good:
        note = f"not measured: {_explain_no_trial(bad)}"
    merged = _merge_trials(inputs, per_interface(load_fps), load_fps, good, note)
    forwarded = [trial.result.received / trial.duration_s for trial in good]
    return merged.model_copy(
        update={"forwarded_fps": fmean(forwarded) if good else None, "discarded": len(bad)}
    )


def _explain_no_trial(bad: Sequence[TrialOutcome]) -> str:
    """Why a load that was tried has no valid trial."""
    if not all(map(_is_limited, bad)):
        return "the tester stood still too long in every trial to tell whose the loss is"
    shares = [
        sum(map(trial.result.offered, trial.result.directions)) / intended
        for trial in bad
        if (intended := sum(counts.intended for counts in trial.result.directions))
    ]
    most = f", {100 * max(shares):.4g} % of it at most" if shares else ""
    return f"the generator could not offer this load beside the DUT{most}"


def latencies_by_direction(
    inputs: ProcedureInputs[Any], trials: Sequence[TrialOutcome]
) -> dict[str, list[Latency]]:
    """Latency of each direction, or of the round trip, in each trial where any frame came back."""
    latencies: dict[str, list[Latency]] = {}
    for outcome in trials:
        for name, latency in collect_latencies(outcome.result, inputs.ends).items():
            latencies.setdefault(name, []).append(latency)
    return latencies


def _merge_trials(
    inputs: ProcedureInputs[LatencyTest] | ProcedureInputs[LatencyLoadTest],
    load_name: str,
    load_fps: float,
    trials: Sequence[TrialOutcome],
    note: str,
) -> LatencyAt:
    by_direction = latencies_by_direction(inputs, trials)
    return LatencyAt(
        load_fps=load_fps * inputs.in_sum,
        of=load_name,
        tag_at_s=inputs.parameters.tag_at_s,
        repeats=len(trials),
        definition=inputs.definition,
        mean_ns={
            name: spread([latency.mean_ns for latency in latencies])
            for name, latencies in by_direction.items()
        },
        latency={name: merge_latencies(latencies) for name, latencies in by_direction.items()},
        typical=_percentile_over_trials(by_direction, TYPICAL),
        worst_case=_percentile_over_trials(by_direction, WORST_CASE),
        variation={name: delay_variation(latencies) for name, latencies in by_direction.items()},
        gaps=max(
            (gaps for outcome in trials if (gaps := outcome.result.gaps)),
            key=lambda gaps: gaps.poll.percentiles.get("99", gaps.poll.max_s),
            default=None,
        ),
        loss_ratio=max((outcome.result.worst_loss_ratio() for outcome in trials), default=0.0),
        trials=tuple(outcome.number for outcome in trials),
        note="; ".join(filter(None, (note, shortfall_note(trials)))),
    )


#: Percentiles of latency that are compared; others move with single frames.
COMPARED_PERCENTILES = ("50", "99")
#: Those of the latency curve, whose loads are the same in every run; the second is what it is for.
CURVE_PERCENTILES, _CURVE_MAIN = ("50", "99", "99.9"), "99"
Made = TypeVar("Made")


def list_gap_figures(make: Callable[..., Made], gaps: TrialGaps | None) -> Iterator[Made]:
    """The tester's own wait, which stands beside every latency."""
    if gaps is None:
        return
    for level, value in gaps.poll.percentiles.items():
        yield make(f"tester_poll_gap_p{level}", "s", value)
    yield make("tester_poll_gap_max", "s", gaps.poll.max_s)
    yield make("tester_send_gap_max", "s", gaps.send.max_s)


def list_untimed_figures(make: Callable[..., Made], latency: Latency) -> Iterator[Made]:
    """Frames that are received and not, or not fully, in a latency."""
    for name in ("before_departure", "above_range"):
        count = getattr(latency, name)
        if count is not None:
            yield make(f"frames_{name}", "frames", float(count))


def latency_directions(latency: LatencyAt) -> tuple[str, ...]:
    """The directions of which anything is known."""
    return tuple(dict.fromkeys([*latency.mean_ns, *latency.latency, *latency.variation]))


def _list_load_figures(latency: LatencyAt, *, curve: bool = False) -> Iterator[Figure]:
    """Latency at one load; curve: of loads that are the same for every DUT."""
    marks = _list_load_marks(latency) if curve else ()
    about: dict[str, Any] = {
        "conditions": {"definition": latency.definition, "tagged from, s": latency.tag_at_s},
        "load_fps": latency.load_fps,
        "qualifiers": marks,
    }
    yield figure("load", "fps", latency.load_fps, latency.of)
    lost = {"less": f"loss at {latency.of}", **about} if curve else {}
    if latency.trials:
        yield figure("loss_ratio", "ratio", latency.loss_ratio, latency.of, main=curve, **lost)
    elif curve:  # the tester cannot offer it: that is no failure of the DUT
        reason = latency.note.removeprefix("not measured: ")
        yield figure("loss_ratio", "ratio", None, latency.of, why=reason, **lost)
    if latency.forwarded_fps is not None:
        yield figure("forwarding_rate", "fps", latency.forwarded_fps, latency.of)
    if latency.discarded is not None:
        yield figure("discarded_at_load", "trials", float(latency.discarded), latency.of)
    yield from list_gap_figures(partial(figure, of=latency.of), latency.gaps)
    for direction in latency_directions(latency):
        place = (latency.of, direction)
        yield from _list_direction_figures(latency, direction, about, curve=curve)
        for name, trials_by_direction in (
            ("typical", latency.typical),
            ("worst_case", latency.worst_case),
        ):
            if direction in trials_by_direction:
                yield from _over_trials(
                    partial(figure, **about),
                    f"latency_{name}",
                    trials_by_direction[direction],
                    place,
                )
        varied = latency.variation.get(direction)
        if varied is not None:
            if varied.pdv is not None:
                yield from _over_trials(figure, "pdv", varied.pdv, place)
            for part in ("pdv", "ipdv_min", "ipdv_median", "ipdv_max"):
                number = getattr(varied, f"{part}_ns")
                yield figure(part, "ns", number, *place, note=varied.why if number is None else "")
            yield figure("ipdv_resolution", "ns", varied.ipdv_resolution_ns, *place)
            yield figure("shared_stamps", "ratio", varied.shared_stamps, *place)


def _list_direction_figures(
    latency: LatencyAt, direction: str, about: Mapping[str, Any], *, curve: bool
) -> Iterator[Figure]:
    """The latency of one direction: a curve is compared by its percentiles."""
    place, label_end = (latency.of, direction), f"at {latency.of} {direction}"
    mean, times = latency.mean_ns.get(direction), latency.latency.get(direction)
    if mean is not None:
        label = "" if curve else f"mean {label_end}"
        yield figure("latency_mean", "ns", mean, *place, less=label, main=not curve, **about)
    if times is None:
        return
    compared = CURVE_PERCENTILES if curve else COMPARED_PERCENTILES
    bound = latency.gaps.bounds(times, direction) if curve and latency.gaps is not None else ()
    yield figure("latency_min", "ns", times.min_ns, *place)
    for level, value in times.percentiles.items():
        label = f"p{level} {label_end}" if level in compared else ""
        marks = (*about["qualifiers"], *(["tester-bound"] * (level in bound)))
        main = curve and level == _CURVE_MAIN
        shown = {**about, "qualifiers": marks, "main": main}
        yield figure(f"latency_p{level}", "ns", value, *place, less=label, **shown)
    yield figure("latency_max", "ns", times.max_ns, *place)
    yield from list_untimed_figures(partial(figure, of=latency.of, direction=direction), times)


def _list_load_marks(latency: LatencyAt) -> tuple[str, ...]:
    """What must stand beside latencies at a load that not every DUT carries."""
    lost = (f"{percent(latency.loss_ratio, 2)} lost",) if latency.loss_ratio > 0 else ()
    return (*lost, *(["irregular"] if latency.is_selection else []))


def _over_trials(
    make: Callable[..., Figure], name: str, times: OverTrials, place: tuple[str, str]
) -> Iterator[Figure]:
    """A number of each trial as RFC 8219 sums it up."""
    for part in ("median", "p1", "p99"):
        yield make(f"{name}_{part}_of_trials", "ns", getattr(times, f"{part}_ns"), *place)


def _list_figures(result: Result, loads: tuple[LatencyAt, ...]) -> Iterator[Figure]:
    for load in loads:
        yield from _list_load_figures(load, curve=result.test == "latency_load")
    if result.test == "latency" and not any(load.mean_ns for load in loads):
        # Every load was above the largest one, or nothing came back.
        reasons = (load.note.removeprefix("not measured: ") for load in loads)
        reason = "; ".join(dict.fromkeys(filter(None, reasons))) or "no frame was timed"
        yield figure("", "ns", None, main=True, why=reason)


class LatencyProcedure(FrameTest):
    """Latency at shares of the throughput, RFC 2544 section 26.2."""

    name = "latency"
    run = staticmethod(latency)
    list_figures = staticmethod(_list_figures)
    section = "latency"
    fills = "latency_at"
    takes_shares = True
    needs_carried = True

    @staticmethod
    def estimate(parameters: LatencyTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        loads = len(parameters.shares) + len(parameters.loads_fps)
        return equal_trials(loads * parameters.repeats, parameters.duration_s)


class LatencyLoadProcedure(FrameTest):
    """Latency at loads that are the same for every DUT."""

    name = "latency_load"
    run = staticmethod(latency_load)
    list_figures = staticmethod(_list_figures)
    section = "latency_load"
    fills = "latency_at"

    @staticmethod
    def estimate(
        parameters: LatencyLoadTest, rate_fps: float, least_fps: float
    ) -> DurationEstimate:
        """The most that it requests at one frame size."""
        loads = sum(load <= rate_fps for load in parameters.loads_fps)
        return equal_trials(loads * parameters.repeats * ATTEMPTS_OF_CURVE, parameters.duration_s)
