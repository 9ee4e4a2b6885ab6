"""RFC 8219 and RFC 5481: latency and delay variation, whatever the DUT is.

And services: ITU-T Y.1564, RFC 6349 and RFC 9097.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetperf.analysis.compliance.clause import ClauseContext, entry, waits_for_turn
from vnetperf.analysis.transport import ip_capacity, tcp_quality
from vnetperf.log.records import TrialRecord
from vnetperf.model.outcomes import DelayVariation, ServiceStep
from vnetperf.model.result import LedgerEntry
from vnetperf.model.transfer import Transfers
from vnetperf.model.units import nanoseconds

#: Sections 7.2 and 7.3.1: trials, seconds of a stream, seconds before frames count, frames.
_TRIALS, _STREAM_S, _TAG_S, _FRAMES = 20, 120.0, 60.0, 500
#: Why variation of one-way delays is not there.
_BOTH_WAYS = "of the round trip: the tester's ends have clocks of their own"
#: What there is of delay variation where a direction has none, and why.
_NOT_OF_EACH = "not of each direction"
_SILENT = "no frame of a direction was timed in some trial"
#: Section 7.3.1: seconds that delay variation is taken over.
_VARIATION_S = 60.0


def rfc8219_latency(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a latency result against them."""
    loads = [load for load in looked.result.latency_at if load.trials]
    trials = looked.numbered(n for load in loads for n in load.trials)
    summed = [
        summary
        for load in loads
        for summaries in (load.typical, load.worst_case)
        for summary in summaries.values()
    ]
    n = min((summary.n for summary in summed), default=0)
    seconds = min((t.spec.duration_s for t in trials), default=0.0)
    tag = min((t.spec.tag_at_s for t in trials), default=0.0)
    ways = [t.result.round_trip for t in trials]
    both_ways = [way.latency.count for way in ways if way is not None]
    counts = both_ways or [
        c.latency.count if c.latency else 0 for t in trials for c in t.result.directions
    ]
    least = min(counts, default=0)
    lossy = [str(t.number) for t in trials if t.result.worst_loss_ratio() > 0]
    whys = [f"frames without a latency were lost in trial {', '.join(lossy)}"] if lossy else []
    if both_ways:
        whys.append("they are of the round trip, both ways through the DUT")
    if not summed:
        whys.append("the generator reports no percentiles")
    elif n < _TRIALS or least < _FRAMES or seconds < _STREAM_S or tag < _TAG_S:
        whys.append(looked.because)
    yield entry(
        "RFC 8219, latency",
        "median and 99.9th percentile of 500 or more frames after 60 s of a stream of 120 s or "
        "more; of 20 trials or more the median, 1st and 99th percentile",
        not whys,
        f"{least} frames or more after {tag:g} s of {seconds:g} s, "
        + (f"of {n} trials" if summed else "the mean alone")
        + waits_for_turn(trials),
        "; ".join(whys),
    )
    variations = [v for load in loads for v in load.variation.values()]
    yield from _variation(looked, variations, trials)


def soak(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold the delay variation of a soak against them."""
    outcome = looked.result.soak
    if outcome is not None:
        trials = looked.numbered(outcome.trials)
        yield from _variation(looked, list(outcome.variation.values()), trials)


def _variation(
    looked: ClauseContext, variations: Sequence[DelayVariation], trials: Sequence[TrialRecord]
) -> Iterator[LedgerEntry]:
    both_ways = any(trial.result.round_trip is not None for trial in trials)
    has_percentiles = bool(variations) and all(
        variation.pdv_ns is not None for variation in variations
    )
    # A direction from which nothing came back has no variation, and so none to be told.
    complete = both_ways or all(d.latency is not None for t in trials for d in t.result.directions)
    # It is that of single trials: however many follow, each has its own smallest delay.
    seconds = min((t.spec.duration_s - t.spec.tag_at_s for t in trials), default=0.0)
    untold = "not measured" if not has_percentiles else _NOT_OF_EACH
    why_untold = "the generator tells no percentiles" if not has_percentiles else _SILENT
    yield entry(
        "RFC 5481, packet delay variation",
        "delay beyond the smallest, its 99.9th percentile over at least 60 s (RFC 8219)",
        has_percentiles and complete and not both_ways and seconds >= _VARIATION_S,
        f"over {seconds:g} s of each trial" + ", of the round trip" * both_ways
        if has_percentiles and complete
        else untold,
        (_BOTH_WAYS if both_ways else looked.because)
        if has_percentiles and complete
        else why_untold,
    )
    successive = bool(variations) and all(
        variation.ipdv_median_ns is not None for variation in variations
    )
    reason = next((variation.why for variation in variations if variation.why), "nothing was timed")
    coarsest = max((variation.ipdv_resolution_ns or 0.0 for variation in variations), default=0.0)
    reported = f"reported, at a resolution of {nanoseconds(coarsest)}" if coarsest else "reported"
    coarse = _describe_coarseness(trials)
    yield entry(
        "RFC 8219, inter packet delay variation",
        "smallest, median and largest difference of successive delays",
        successive and complete and not coarse,
        "not measured" if not successive else reported if complete else _NOT_OF_EACH,
        _BOTH_WAYS if both_ways else reason if not successive else coarse if complete else _SILENT,
    )


def _describe_coarseness(trials: Sequence[TrialRecord]) -> str:
    """Describe why arrival times are too coarse for differences of successive ones; or "".

    All frames that one receive call finds have its time. Where calls that find some are further
    apart than frames, most differences are those of departures alone; and where no difference is
    larger than what two such times are wrong by, all that is seen is the polling.
    """
    reasons: dict[float, str] = {}
    for trial in trials:
        for counts in trial.result.directions:
            ipdv = counts.latency.ipdv if counts.latency is not None else {}
            apart_ns = ipdv.get("resolution", 0.0)
            if not apart_ns or "median" not in ipdv:
                continue
            interval_ns = 1e9 / trial.spec.load_fps
            if apart_ns > interval_ns:
                reasons[apart_ns] = f"while a frame comes every {nanoseconds(interval_ns)}"
            elif max(abs(ipdv["min"]), abs(ipdv["max"])) <= 2 * apart_ns:
                reasons[apart_ns] = "and no difference is larger than that may make it"
    if not reasons:
        return ""
    apart_ns, reason = max(reasons.items())
    return (
        "arrivals are stamped per receive call, and calls that found frames were up to "
        f"{nanoseconds(apart_ns)} apart (mean of a trial), {reason}"
    )


#: Y.1564: seconds of a step at the most, and of a performance test at the least.
_STEP_S, _PERFORMANCE_S = 60.0, 900.0


def y1564_service(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a service against ITU-T Y.1564, whose text was not at hand: from secondary sources."""
    outcome = looked.result.service
    if outcome is None:
        return
    ramp = [step.share for step in outcome.steps]
    seconds = sorted({step.seconds for step in outcome.steps})
    full_ramp = ramp == sorted(ramp) and bool(ramp) and ramp[-1] == 1.0 and len(ramp) > 1
    stopped = next((f"{step.of}: {step.why}" for step in outcome.steps if not step.met), "")
    yield from looked.entries(
        "ITU-T Y.1564 (from a secondary source)",
        (
            "service configuration test",
            "steps up to the CIR of 1 to 60 s each, each held against limits of FLR, FTD, FDV",
            full_ramp and all(1.0 <= step_s <= _STEP_S for step_s in seconds),
            f"{', '.join(f'{share:.0%}' for share in ramp) or 'no step'}; "
            f"{', '.join(f'{step_s:g} s' for step_s in seconds)} each",
            stopped or looked.because,
        ),
        (
            "excess and overshoot",
            "loads above the CIR show the EIR and that traffic is policed",
            False,
            "not done",
            "a vSwitch here has no traffic contract",
        ),
        (
            "service performance test",
            "the CIR of all services at once for 15 min, 2 h or 24 h, with availability",
            False,
            "not done"
            if outcome.performance is None
            else f"one service for {outcome.performance.seconds:g} s",
            stopped
            or "one service a run, without availability"
            + ("" if _long(outcome.performance) else f", and {looked.because}"),
        ),
    )


def _long(performance: ServiceStep | None) -> bool:
    return performance is not None and performance.seconds >= _PERFORMANCE_S


def transport(transfers: Sequence[Transfers]) -> list[LedgerEntry]:
    """Hold streams against RFC 6349 and RFC 9097, whose texts were not at hand."""
    streams = [rounds[-1] for scenario in transfers for rounds in scenario.rounds]
    tcp = [tcp_quality(t, companions) for t, companions in streams if t.spec.kind == "TCP_STREAM"]
    udp = [
        ip_capacity(t, way)
        for t, _ in streams
        if t.spec.kind == "UDP_STREAM"
        for way in t.spec.ways
    ]
    idle = sum(t.spec.kind in ("TCP_RR", "UDP_RR") for t, _ in streams)
    bound = sum(capacity.bits_per_second is not None for capacity in udp)
    entries = []
    if tcp:
        metrics = {
            "TCP transfer time ratio": [quality.time_ratio for quality in tcp],
            "TCP efficiency": [quality.efficiency for quality in tcp],
            "buffer delay": [quality.buffer_delay for quality in tcp],
        }
        counts = {name: sum(v is not None for v in values) for name, values in metrics.items()}
        whys = dict.fromkeys(quality.why for quality in tcp if quality.why)
        lacking = "what the tool or transfers beside do not show is no number"
        entries += [
            entry(
                "RFC 6349 section 3 (from a secondary source)",
                "path MTU, baseline round-trip time and bottleneck bandwidth first, then TCP "
                "throughput by size of the window and number of connections",
                False,
                f"round trips without load of {idle} transfers, bandwidth of {bound} streams of "
                f"UDP; {len(tcp)} streams of TCP with the kernel's own windows",
                "path MTU and windows are left to the kernel",
            ),
            entry(
                "RFC 6349 section 4 (from a secondary source)",
                "TCP transfer time ratio, TCP efficiency and buffer delay of each",
                all(n == len(tcp) for n in counts.values()),
                ", ".join(f"{name} of {n} of {len(tcp)} streams" for name, n in counts.items()),
                "; ".join(whys) or lacking,
            ),
        ]
    if udp:
        entries.append(
            entry(
                "RFC 9097 sections 5 and 8 (from a secondary source)",
                "maximum IP-layer capacity in sub-intervals of 1 s, found by adjusting the rate",
                False,
                f"capacity of {bound} of {len(udp)} streams of UDP, in sub-intervals of 1 s",
                "each stream is sent at one rate, and none was searched",
            )
        )
    return entries
