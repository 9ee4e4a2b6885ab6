"""What tests other than a throughput search find: the parts of a result in results.json."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vnetperf.model.base import Frozen
from vnetperf.model.trial import Latency


class Spread(Frozen):
    """A quantity measured several times.

    Attributes:
        n: Number of measurements.
        mean: Mean.
        median: Median.
        minimum: Smallest.
        maximum: Largest.
        stdev: Sample standard deviation; None for a single one.
        low: Lower end of the interval of the mean; None where n is too small for one.
        high: Upper end.
        next_low: Lower end of the interval in which one further measurement is to be expected
            (Student's t); wider than that of the mean, and no narrower with n. None for one.
        next_high: Upper end.
        confidence: Level of the intervals, 0..1.
        method: How the interval was found: "t", "bootstrap"; "" without one.
        modes: Centres of two modes where the values fall into two groups; then neither mean nor
            interval says much.
        outliers: Places (from 0) of values far from the others; they are in all of the above.
        values: The values in the order measured.
    """

    n: int
    mean: float
    median: float
    minimum: float
    maximum: float
    stdev: float | None = None
    low: float | None = None
    high: float | None = None
    next_low: float | None = None
    next_high: float | None = None
    confidence: float = 0.95
    method: Literal["", "t", "bootstrap"] = ""
    modes: tuple[float, ...] = ()
    outliers: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


class DelayVariation(Frozen):
    """Delay variation of one direction, nanoseconds.

    Attributes:
        pdv_ns: RFC 5481 section 4.2 at the 99.9th percentile: D(99.9) - Dmin (RFC 8219 7.3.1).
        ipdv_min_ns: Smallest difference of the delays of successive frames (RFC 8219 7.3.2).
        ipdv_median_ns: Median of them.
        ipdv_max_ns: Largest.
            These three are None where the generator does not tell: `why` says so.
        why: "not measured: ..." where something is None.
    """

    pdv_ns: float | None = None
    ipdv_min_ns: float | None = None
    ipdv_median_ns: float | None = None
    ipdv_max_ns: float | None = None
    why: str = ""


class LatencyAt(Frozen):
    """Latency at one load (RFC 2544 section 26.2).

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "throughput", "90 % of throughput", "1000000 frames/s".
        tag_at_s: Frames sent before this are not in it, seconds from the start of a trial.
        repeats: Trials.
        definition: RFC 1242 section 3.8: "store-and-forward" or "bit-forwarding".
        mean_ns: Direction -> means of the trials, nanoseconds.
        latency: Direction -> latency of all trials' frames together.
        variation: Direction -> delay variation, the largest of all trials.
        loss_ratio: Largest loss ratio of a trial, worse direction.
        trials: Numbers of the trials; none where the load cannot be offered.
        note: What a reader must know of the load; "".
    """

    load_fps: float
    of: str
    tag_at_s: float = 0.0
    repeats: int = 1
    definition: Literal["store-and-forward", "bit-forwarding"] = "store-and-forward"
    mean_ns: dict[str, Spread] = Field(default_factory=dict)
    latency: dict[str, Latency] = Field(default_factory=dict)
    variation: dict[str, DelayVariation] = Field(default_factory=dict)
    loss_ratio: float = 0.0
    trials: tuple[int, ...] = ()
    note: str = ""


class LossStep(Frozen):
    """Frame loss rate at one load (RFC 2544 section 26.3), or loss around the throughput.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        input_ratio: Load as a share of the largest load offered, 0..1.
        loss_ratio: Loss ratio of the worse direction, the mean of the trials there, 0..1.
        forwarded_fps: Frames forwarded, aggregate frames/s, mean.
        per_direction: Direction -> loss ratio.
        trials: Numbers of the trials.
    """

    load_fps: float
    input_ratio: float
    loss_ratio: float
    forwarded_fps: float
    per_direction: dict[str, float] = Field(default_factory=dict)
    trials: tuple[int, ...] = ()


class BackToBack(Frozen):
    """Back-to-back frames (RFC 9004, which updates RFC 2544 section 26.4).

    Attributes:
        frames: Longest burst without loss, frames per interface, one value for each search.
        step_frames: Resolution of the search, frames.
        max_burst_frames: Longest burst tried, frames.
        gap_ns: Mean time between frames of a burst as they were handed over, nanoseconds.
        throughput_fps: Throughput that the correction uses, aggregate frames/s.
        implied_s: Implied DUT buffer time: mean frames over the largest rate, seconds.
        corrected_s: Corrected DUT buffer time, seconds; None without a throughput.
        max_rate_fps: The largest theoretical rate, per interface; of a wire without a speed, the
            rate at which the generator sent the bursts.
        capped: True when every burst up to `max_burst_frames` came through: no result.
        note: What keeps it from being one; "".
        trials: Numbers of the trials.
    """

    frames: Spread
    step_frames: int
    max_burst_frames: int
    gap_ns: float | None = None
    throughput_fps: float | None = None
    implied_s: float | None = None
    corrected_s: float | None = None
    max_rate_fps: float
    capped: bool = False
    note: str = ""
    trials: tuple[int, ...] = ()


class Curve(Frozen):
    """How traffic went on over the time of one trial, all directions together.

    Attributes:
        trial: Number of the trial.
        bin_s: Width of a bin, seconds.
        offered: Frames offered in each bin.
        lost: Of the frames offered in each bin, those that never came back.
        arrived: Frames that came back in each bin.
        marks: What happened when: words -> seconds after the first frame.
    """

    trial: int
    bin_s: float
    offered: tuple[int, ...]
    lost: tuple[int, ...]
    arrived: tuple[int, ...]
    marks: dict[str, float] = Field(default_factory=dict)


class Recovery(Frozen):
    """System recovery (RFC 2544 section 26.5).

    Attributes:
        throughput_fps: Throughput that the loads are taken of, aggregate frames/s.
        overload_fps: Load before, aggregate frames/s: 110 % of it, or the most that can be offered.
        relaxed_fps: Load after: half of the overload.
        overload_s: Seconds of overload.
        seconds: Time from the drop of the load to the last lost frame, seconds.
        note: What keeps it from being a result, e.g. an overload that lost nothing; "".
        curves: One for each trial.
    """

    throughput_fps: float
    overload_fps: float
    relaxed_fps: float
    overload_s: float
    seconds: Spread
    note: str = ""
    curves: tuple[Curve, ...] = ()


class Reset(Frozen):
    """Reset (RFC 2544 section 26.6, RFC 6201).

    Attributes:
        what: What was reset: "vswitch", "vnf0", "link phy1".
        type: Type of reset as RFC 6201 names them: "software", "hardware: interface".
        load_fps: Load throughout, aggregate frames/s.
        by_loss_s: Frame-loss method: frames lost over the load, seconds.
        by_time_s: Time-stamp method: last frame before to first frame after, seconds.
        event_s: How long the event itself took, seconds.
        why: Why there is no number; "".
        note: What a reader must know of the number; "".
        curves: One for each trial.
    """

    what: str
    type: str
    load_fps: float
    by_loss_s: Spread | None = None
    by_time_s: Spread | None = None
    event_s: Spread | None = None
    why: str = ""
    note: str = ""
    curves: tuple[Curve, ...] = ()


class ForwardingRate(Frozen):
    """Rates at loads that were offered and not searched: MRR, RFC 2889 section 5.6.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "maximum offered load", "load with the largest forwarding rate".
        duration_s: Seconds of each trial.
        forwarded_fps: Aggregate forwarding rate of each trial, frames/s.
        loss_ratio: Loss ratio of the worse direction of each trial.
        trials: Numbers of the trials.
    """

    load_fps: float
    of: str
    duration_s: float
    forwarded_fps: Spread
    loss_ratio: Spread
    trials: tuple[int, ...] = ()


class Soak(Frozen):
    """A long run at one load.

    Attributes:
        load_fps: Intended load, aggregate frames/s.
        of: What the load is: "throughput", "95 % of throughput".
        seconds: Seconds of traffic.
        offered: Frames offered.
        lost: Frames lost.
        loss_ratio: Loss ratio, worse direction.
        loss_low: Lower end of its 95 % interval (Clopper-Pearson).
        loss_high: Upper end.
        goal: Loss ratio that it is held against.
        variation: Direction -> delay variation.
        curve: Over time; None without one.
        trials: Numbers of the trials.
        note: What a reader must know; "".
    """

    load_fps: float
    of: str
    seconds: float
    offered: int
    lost: int
    loss_ratio: float
    loss_low: float
    loss_high: float
    goal: float
    variation: dict[str, DelayVariation] = Field(default_factory=dict)
    curve: Curve | None = None
    trials: tuple[int, ...] = ()
    note: str = ""


class AddressTable(Frozen):
    """How a learning DUT deals with addresses (RFC 2889 sections 5.7 and 5.8).

    Attributes:
        addresses: Largest number of addresses that were all learned (5.7), or number used (5.8).
        learning_fps: Rate at which they were sent, or the highest at which all were learned.
        tried: Each number and rate tried, whether all were learned, and the trial.
        capped: True when the largest number or rate tried was no limit.
        note: What a reader must know; "".
    """

    addresses: int
    learning_fps: float
    tried: tuple[tuple[int, float, bool, int], ...] = ()
    capped: bool = False
    note: str = ""
