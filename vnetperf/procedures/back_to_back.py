"""Back-to-back frames, RFC 9004: the longest burst without loss, and the buffer that implies.

Each search is a binary search over multiples of a step (TST009 section 12.3.2), or with loss
verification (12.3.3) where a burst that lost frames is tried again.

A burst that comes through counts only if it left as fast as a quarter of this test's own bursts
did: while a tester is kept from running, the DUT empties its buffer. Nor does one count that the
tester did not send whole, or whose loss may be the tester's own. Times are of the gap that these
bursts had, and of what the DUT forwarded while longer ones arrived. RFC 9004 takes the medium's
largest rate for the one, and the throughput for the other: its times stand beside them.

A search that reached the longest burst has a lower limit only. Without it the mean would be that
of the shorter bursts, so with one of them there is a limit and no mean; nor is there one near it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, inf, log2
from statistics import median
from typing import Any

from vnetperf.model.errors import NoResultError
from vnetperf.model.figures import Figure, count_value, figure
from vnetperf.model.outcomes import NEAR_LONGEST, BackToBack
from vnetperf.model.parameters import BackToBackTest
from vnetperf.model.result import Result
from vnetperf.model.trial import TrialOutcome, TrialRequest, Verdict
from vnetperf.model.units import percent
from vnetperf.plugin.procedure import DurationEstimate, FrameTest, ProcedureInputs
from vnetperf.search import Procedure
from vnetperf.statistics import spread

#: A throughput this near to the largest rate leaves nothing over that would fill a buffer.
_FULL_RATE = 0.999
#: Bursts that leave more slowly than this share of a medium's rate have no minimum gap.
_MINIMUM_GAP = 0.99


#: A burst whose mean gap is longer than this multiple of the usual one does not count.
SLOWEST = 1.05
#: Share of the bursts whose gaps are no longer than the usual one.
_QUICK_SHARE = 0.25
#: Most times that such a burst is sent: one of four is quick. Older logs have 5.
ATTEMPTS, _OLDER_ATTEMPTS = 10, 5
#: Rules by which bursts that are no faster than the DUT forwards end the test.
_FASTER_SINCE = 3
#: Searches without a value that end the test where none before them had one.
_HOPELESS = 3
#: Bursts that tell what is forwarded meanwhile take so many times as long as the shortest one that
#: lost frames. Much longer ones see turns of the DUT that a burst of its buffer does not.
_LEAST_LONGER, _MOST_LONGER = 2.0, 4.0
#: Share of a burst that the wire may refuse without its gap being much too short: a frame that is
#: refused leaves the generator faster than any other.
_FEW_REFUSED = SLOWEST - 1
#: Searches that make up for those without a value: as many again as are asked for, at most.
_MOST_SEARCHES = 2
#: Share of a burst that the DUT holds, from which on it tells of a buffer: the gaps of bursts that
#: count differ by as much.
_LEAST_HELD = SLOWEST - 1
#: A DUT that forwards less of its throughput than this while bursts arrive is pointed out.
_MUCH_LESS = 0.5


class _Burst(Enum):
    """What a burst shows, or is an upper limit for."""

    PASSED = "came through"
    LOST = "lost frames"
    UNCOUNTED = "left too slowly, or was disturbed by the tester"
    LONGEST = "would be longer than any"
    CUT = "was not tried: the time was over"


@dataclass(frozen=True)
class _SentBurst:
    """A burst that was sent."""

    number: int  # Of the trial
    search: int  # Number of the search, from 1
    frames: int  # Of each stream
    gap_s: float | None  # Mean time between its frames, slower direction; None: not timed
    timed: tuple[int, float]  # Frames of all directions that are timed, and their seconds
    refused: float  # Share of the frames that the wire refused, worse direction, 0..1
    came: float  # Of `frames`, those that came back in the worse direction
    valid: bool

    @property
    def came_through(self) -> bool:
        return self.valid and self.came >= self.frames

    @property
    def lossy(self) -> bool:
        return self.valid and self.came < self.frames


@dataclass(frozen=True)
class _Search:
    """What one search came to."""

    passed: int  # Longest burst that came through, frames of each stream
    limit: _Burst  # What is above it
    decisive: _SentBurst | None  # The burst that came through; None: not even the shortest did
    sent: tuple[_SentBurst, ...]  # Its bursts


@dataclass
class _Bursts:
    """All bursts of a test."""

    #: Longest gap that counts, of an older log, seconds; None: by the bursts' own.
    limit_s: float | None = None
    per_interface: float = 1.0  # Frames of an interface for each of a stream
    ring_frames: int | None = None  # Frames that the ring holds which they are sent into
    sent: list[_SentBurst] = field(default_factory=list)
    searches: int = 0  # Begun so far
    took_s: float = 0.0  # Seconds of all of them, with what is around a burst
    #: Bursts, and the usual gap of so many.
    _usual: tuple[int, float | None] = field(default=(0, None), init=False)

    def add(self, outcome: TrialOutcome) -> _Burst:
        """Take a burst; returns what it shows by what is known so far."""
        timed = [
            (counts.sent + counts.refused, counts.tx_seconds)
            for counts in outcome.result.directions
            # The gap of a single frame is none.
            if counts.intended > 1 and counts.tx_seconds > 0
        ]
        frames = outcome.request.burst
        for counts in outcome.result.directions:
            self.per_interface = max(self.per_interface, counts.intended / frames)
        self.took_s += outcome.result.wall_s + outcome.request.idle_s
        if outcome.result.gaps is not None:
            self.ring_frames = outcome.result.gaps.ring_frames
        burst = _SentBurst(
            number=outcome.number,
            search=self.searches,
            frames=frames,
            gap_s=max((seconds / count for count, seconds in timed if count), default=None),
            timed=(sum(count for count, _ in timed), sum(seconds for _, seconds in timed)),
            refused=max(
                (c.refused / c.intended for c in outcome.result.directions if c.intended),
                default=0.0,
            ),
            came=round(frames * (1.0 - outcome.result.worst_loss_ratio()), 6),
            valid=outcome.verdict is Verdict.VALID,
        )
        slow = self.is_slow(burst)
        self.sent.append(burst)
        if not burst.valid or slow:
            return _Burst.UNCOUNTED
        return _Burst.PASSED if burst.came_through else _Burst.LOST

    def are_over(self, test: BackToBackTest) -> bool:
        """Whether the time that bursts may take is used up."""
        return test.max_s is not None and self.took_s >= test.max_s

    @property
    def usual_gap_s(self) -> float | None:
        """The gap that a quarter of the bursts about as long as the result did not exceed."""
        if self._usual[0] != len(self.sent):
            self._usual = (len(self.sent), self._find_usual_gap())
        return self._usual[1]

    def _find_usual_gap(self) -> float | None:
        lengths = [burst.frames for burst in self.sent if burst.came_through]
        if not lengths:
            return None
        middle = median(lengths)
        # A slow burst is sent again, so only its quickest attempt counts: slow ones would be most.
        quickest: dict[tuple[int, int], float] = {}
        for burst in self.sent:
            if burst.gap_s and burst.refused <= _FEW_REFUSED:
                key = burst.search, burst.frames
                quickest[key] = min(burst.gap_s, quickest.get(key, inf))
        gaps = sorted(
            gap for (_, frames), gap in quickest.items() if middle <= 2 * frames <= 4 * middle
        )
        return gaps[int(_QUICK_SHARE * (len(gaps) - 1))] if gaps else None

    def is_slow(self, burst: _SentBurst) -> bool:
        """Whether a burst left too slowly to count: one that lost frames would lose more faster."""
        if burst.gap_s is None:
            return False
        if self.limit_s is not None:
            return burst.gap_s > self.limit_s
        usual = self.usual_gap_s
        return burst.came_through and usual is not None and burst.gap_s > SLOWEST * usual

    @property
    def slow(self) -> list[_SentBurst]:
        """Bursts that do not count by their gap."""
        return [burst for burst in self.sent if self.is_slow(burst)]

    def decide(self, search: _Search) -> bool:
        """Whether a search has a value: both bursts at it count."""
        if search.limit in (_Burst.UNCOUNTED, _Burst.CUT):
            return False
        return search.decisive is None or not self.is_slow(search.decisive)

    @property
    def disturbed(self) -> int:
        """Bursts that do not count by their verdict."""
        return sum(not burst.valid and not self.is_slow(burst) for burst in self.sent)

    @property
    def gap_s(self) -> float | None:
        """Mean time between frames of the bursts that came through and count, seconds.

        Where only single frames came through, that of the others.
        """
        slow = {burst.number for burst in self.slow}
        counted = [b.timed for b in self.sent if b.came_through and b.number not in slow]
        frames = sum(count for count, _ in counted)
        mean = sum(seconds for _, seconds in counted) / frames if frames else None
        return mean or self.usual_gap_s


def back_to_back(inputs: ProcedureInputs[BackToBackTest]) -> Procedure[BackToBack]:
    """Run the test."""
    test = inputs.parameters
    _require_room(inputs)
    rate = _largest_rate(inputs)
    steps = max(1, int(test.max_burst_s * rate / test.step_frames))
    bursts = _Bursts()
    if inputs.rules == 1:
        bursts.limit_s = SLOWEST * inputs.burst_gap_ns / 1e9 if inputs.burst_gap_ns else inf
    searches: list[_Search] = []
    most = test.searches * (_MOST_SEARCHES if bursts.limit_s is None else 1)
    counted_searches: list[_Search] = []
    while (
        len(counted_searches) < test.searches and len(searches) < most and not bursts.are_over(test)
    ):
        searches.append((yield from _search(test, steps, rate, bursts)))
        _require_faster(inputs, searches[-1], steps * test.step_frames, bursts)
        # With each search more is known of what gap is usual.
        counted_searches = [search for search in searches if bursts.decide(search)]
        if not counted_searches and len(searches) >= _HOPELESS:
            break
    if not counted_searches:
        raise _never_sent(inputs, bursts)
    ended = sum(search.limit is not _Burst.CUT for search in searches)
    return _outcome(inputs, counted_searches, ended, steps * test.step_frames, bursts)


def _largest_rate(inputs: ProcedureInputs[BackToBackTest]) -> float:
    """The medium's; without one that of the calibrated gap, or else the largest load."""
    if not inputs.nominal:
        return inputs.media_fps
    return 1e9 / inputs.burst_gap_ns if inputs.burst_gap_ns else inputs.ceiling_fps


def _require_faster(
    inputs: ProcedureInputs[BackToBackTest], search: _Search, longest: int, bursts: _Bursts
) -> None:
    """Refuse bursts that came through since the tester sends them as slowly as the DUT forwards."""
    throughput, gap_s = inputs.required_throughput, bursts.usual_gap_s
    if gap_s is None or search.passed < NEAR_LONGEST * longest or inputs.rules < _FASTER_SINCE:
        return
    rate, most = bursts.per_interface / gap_s, max(throughput.upper_fps or 0.0, throughput.load_fps)
    if rate <= SLOWEST * most:
        raise NoResultError(
            f"the tester's bursts leave at {rate:.0f} frames/s per interface, no faster than the "
            f"DUT forwards ({most:.0f}), so that no buffer fills (RFC 9004)",
            where=f"back-to-back frames of {inputs.frame_size} octets",
            cure="give the tester a core of its own",
        )


def _never_sent(inputs: ProcedureInputs[BackToBackTest], bursts: _Bursts) -> NoResultError:
    reasons = []
    cure = "give the tester a core of its own, or set back_to_back.max_burst_s lower"
    if bursts.are_over(inputs.parameters):
        reasons.append(
            f"none of the searches had come to its end after {inputs.parameters.max_s:g} s "
            "(back_to_back.max_s)"
        )
        cure = f"{cure}, or back_to_back.max_s higher"
    if slow := [burst.gap_s for burst in bursts.slow if burst.gap_s is not None]:
        limit_s = bursts.limit_s or SLOWEST * (bursts.usual_gap_s or 0.0)
        reasons.append(
            f"{len(slow)} left at {1e9 * min(slow):.4g} ns a frame or more (at most "
            f"{1e9 * limit_s:.4g} ns count), while the DUT can empty its buffer"
        )
    if bursts.disturbed:
        reasons.append(
            f"{bursts.disturbed} were not sent whole, or the tester itself may have lost what was "
            "lost"
        )
    return NoResultError(
        f"too few bursts counted of {len(bursts.sent)}: {'; '.join(reasons)}",
        where=f"back-to-back frames of {inputs.frame_size} octets",
        cure=cure,
    )


def _require_room(inputs: ProcedureInputs[BackToBackTest]) -> None:
    throughput = inputs.required_throughput
    where = f"back-to-back frames of {inputs.frame_size} octets"
    if not inputs.nominal and throughput.load_fps >= _FULL_RATE * inputs.media_fps:
        raise NoResultError(
            "the throughput is the medium's largest rate, so that no buffer can fill (RFC 9004)",
            where=where,
        )
    if throughput.qualifier == "at least":
        raise NoResultError(
            "the throughput is at least the largest load that can be offered, so that nothing "
            f"tells whether a buffer fills (RFC 9004); {throughput.note}",
            where=where,
        )


def _search(test: BackToBackTest, steps: int, rate: float, bursts: _Bursts) -> Procedure[_Search]:
    """One search."""
    passed, above, limit, decisive = 0, steps + 1, _Burst.LONGEST, None
    first = len(bursts.sent)
    bursts.searches += 1
    while above - passed > 1:
        if bursts.are_over(test):
            limit = _Burst.CUT
            break
        middle = (passed + above) // 2
        shown = yield from _shown(test, middle * test.step_frames, rate, bursts)
        if shown is _Burst.PASSED:
            passed, decisive = middle, bursts.sent[-1]
        else:
            above, limit = middle, shown
    return _Search(passed * test.step_frames, limit, decisive, tuple(bursts.sent[first:]))


def _shown(test: BackToBackTest, frames: int, rate: float, bursts: _Bursts) -> Procedure[_Burst]:
    """What bursts of a length show: one that comes through decides, an uncounted is repeated."""
    lossy = uncounted = 0
    attempts = ATTEMPTS if bursts.limit_s is None else _OLDER_ATTEMPTS
    while lossy <= test.repeats_after_loss and uncounted < attempts:
        shown = bursts.add((yield _burst(test, frames, rate)))
        if shown is _Burst.PASSED:
            return shown
        lossy, uncounted = lossy + (shown is _Burst.LOST), uncounted + (shown is not _Burst.LOST)
    return _Burst.LOST if lossy > test.repeats_after_loss else _Burst.UNCOUNTED


def _burst(test: BackToBackTest, frames: int, rate: float) -> TrialRequest:
    seconds = frames / rate
    return TrialRequest(
        load_fps=rate,
        duration_s=seconds,
        burst=frames,
        histogram_up_to_loss=-1.0,
        when_limited="count",
        classifies=(0.0,),  # it comes through whole or not: how much it loses is no number
        # A longer burst may have filled a buffer that takes longer to drain (RFC 9004).
        idle_s=max(test.idle_s, seconds),
    )


def _forwarded_fps(searches: Sequence[_Search], times: float) -> float | None:
    """What the DUT forwards while a burst arrives, frames/s per interface; None: nothing tells.

    By bursts that lost frames: of one that took longer than the shortest of them as many more came
    back as were forwarded in that time. The median, as some of them are interrupted.
    """
    rates = []
    for search in searches:
        lossy = [
            (times * burst.frames * burst.gap_s, times * burst.came, burst.frames)
            for burst in search.sent
            if burst.lossy and burst.gap_s is not None and burst.frames > search.passed
        ]
        least_s, least_came, _ = min(lossy, key=lambda timing: timing[2], default=(0.0, 0.0, 0))
        rates += [
            (came - least_came) / (took_s - least_s)
            for took_s, came, _ in lossy
            if _LEAST_LONGER * least_s <= took_s <= _MOST_LONGER * least_s
        ]
    return max(0.0, median(rates)) if rates else None


def _outcome(
    inputs: ProcedureInputs[BackToBackTest],
    searches: Sequence[_Search],
    attempts: int,
    longest: int,
    bursts: _Bursts,
) -> BackToBack:
    test, throughput, times = inputs.parameters, inputs.required_throughput, bursts.per_interface
    frames = spread(
        [search.passed * times for search in searches], resolution=test.step_frames * times
    )
    gap_s, usual_s = bursts.gap_s, bursts.usual_gap_s
    # Without a medium and without a calibrated gap there is no theoretical rate.
    has_rate = not inputs.nominal or inputs.burst_gap_ns is not None
    result = BackToBack(
        frames=frames,
        step_frames=test.step_frames,
        max_burst_frames=round(longest * times),
        gap_ns=None if gap_s is None else 1e9 * gap_s,
        usual_gap_ns=None if usual_s is None else 1e9 * usual_s,
        calibrated_gap_ns=inputs.burst_gap_ns,
        slow_bursts=None if bursts.limit_s == inf else len(bursts.slow),
        undecided=max(0, test.searches - len(searches)),
        throughput_fps=throughput.load_fps * inputs.in_sum,
        max_rate_fps=_largest_rate(inputs) if has_rate else None,
        ring_frames=bursts.ring_frames,
        capped=any(search.limit is _Burst.LONGEST for search in searches),
        trials=tuple(burst.number for burst in bursts.sent),
    )
    if not result.is_limit:
        result = result.model_copy(update=_times(inputs, result, searches, bursts))
    notes = "; ".join(_notes(inputs, result, searches, attempts, bursts))
    return result.model_copy(update={"note": notes})


def _times(
    inputs: ProcedureInputs[BackToBackTest],
    result: BackToBack,
    searches: Sequence[_Search],
    bursts: _Bursts,
) -> dict[str, float | None]:
    """Buffer times by this test's own bursts, and by RFC 9004."""
    gap_s = bursts.gap_s
    times: dict[str, float | None] = {}
    if not result.frames.mean:
        times |= {"implied_s": 0.0, "corrected_s": 0.0}
    elif gap_s is not None:
        implied = times["implied_s"] = result.frames.mean * gap_s
        forwarded = _forwarded_fps(searches, bursts.per_interface)
        if forwarded is not None:
            times["forwarded_fps"] = forwarded
            if (held_share := 1.0 - forwarded * gap_s) > _LEAST_HELD:
                times["corrected_s"] = implied * held_share
    if (rate := result.max_rate_fps) is not None:
        implied = times["rfc9004_implied_s"] = result.frames.mean / rate
        if inputs.required_throughput.load_fps < rate:
            times["rfc9004_corrected_s"] = implied * (
                1.0 - inputs.required_throughput.load_fps / rate
            )
    return times


def _notes(
    inputs: ProcedureInputs[BackToBackTest],
    result: BackToBack,
    searches: Sequence[_Search],
    attempts: int,
    bursts: _Bursts,
) -> list[str]:
    test, throughput, gap_s = inputs.parameters, inputs.required_throughput, bursts.gap_s
    notes = [throughput.note] if throughput.note else []
    if capped := sum(search.limit is _Burst.LONGEST for search in searches):
        notes.append(
            f"no result: the longest burst that is tried came through in {capped} of "
            f"{len(searches)} searches; raise max_burst_s"
        )
    elif result.is_limit:
        notes.append(
            f"no result: bursts within {1 - NEAR_LONGEST:.0%} of the longest one that is tried "
            "came through (RFC 9004); raise max_burst_s"
        )
    if bursts.are_over(test) and len(searches) < test.searches:
        notes.append(
            f"the bursts' {test.max_s:g} s (back_to_back.max_s) were over after {len(searches)} of "
            f"{test.searches} searches"
        )
    if left_out := attempts - len(searches):
        notes.append(
            f"{left_out} of {attempts} searches are not in it: the longest burst that came "
            "through, or the one above it, did not count"
        )
    notes += _describe_ring(result, throughput.load_fps)
    if slow := len(bursts.slow):
        than = "calibrated" if bursts.limit_s is not None else "in a quarter of them"
        notes.append(
            f"{slow} of {len(bursts.sent)} bursts did not count: their frames left over "
            f"{SLOWEST - 1:.0%} further apart than {than}"
        )
    if bursts.disturbed:
        notes.append(
            f"{bursts.disturbed} of {len(bursts.sent)} bursts did not count: the tester did not "
            "send them whole, or may itself have lost what was lost"
        )
    if bursts.limit_s == inf:
        notes.append("no calibrated gap is recorded: every burst counted, however slowly it left")
    elif result.max_rate_fps is None:
        notes.append("no calibrated gap is recorded: there is no time by RFC 9004")
    if result.max_rate_fps is not None and throughput.load_fps >= result.max_rate_fps:
        notes.append(
            "no corrected buffer time by RFC 9004: its theoretical rate is no larger than the "
            "throughput"
        )
    if not inputs.nominal and gap_s is not None and gap_s * inputs.media_fps * _MINIMUM_GAP > 1:
        times = gap_s * inputs.media_fps
        notes.append(f"frames left {times:.2f} times as far apart as the medium allows")
    if result.frames.maximum == 0:
        notes.append(f"even bursts of {test.step_frames} frames lost some")
    return notes


def _describe_ring(result: BackToBack, throughput_fps: float) -> list[str]:
    """What was found, where it is a ring of the wire or nothing was forwarded meanwhile."""
    notes = []
    forwarded = result.forwarded_fps
    if result.is_ring:
        notes.append(
            f"what is found is the ring between tester and DUT, which holds {result.ring_frames} "
            "frames"
        )
    if forwarded is not None and result.corrected_s is None:
        notes.append(
            "no corrected buffer time: the DUT forwarded as much as bursts bring, so that nothing "
            "tells of its buffer"
        )
    if forwarded is not None and forwarded < _MUCH_LESS * throughput_fps:
        notes.append(
            f"while a burst arrived the DUT forwarded {percent(forwarded / throughput_fps, 2)} of "
            "its throughput: RFC 9004's correction by all of it does not apply"
        )
    return notes


def _list_figures(_: Result, bursts: BackToBack) -> Iterator[Figure]:
    capped = ""
    if bursts.capped:
        share = f"{bursts.full_bursts} of {bursts.frames.n} searches"
        capped = f"every burst up to the longest one tried came through in {share}"
    note = "; ".join(filter(None, (capped, bursts.note)))
    rate = 1e9 / bursts.gap_ns if bursts.gap_ns else bursts.max_rate_fps
    about: dict[str, Any] = {"qualifiers": ("at least",) if bursts.is_limit else (), "note": note}
    burst: dict[str, Any] = {
        "more": "burst",
        "main": True,
        "conditions": {"step, frames": bursts.step_frames},
        "resolution": float(bursts.step_frames),
        # A longer gap fills a buffer later.
        "load_fps": rate,
    }
    if bursts.undecided:  # the mean of those that were decided is that of the shorter bursts
        reason = f"not compared: {bursts.undecided} searches were not decided; {bursts.note}"
        conditions = burst.pop("conditions")
        yield figure(
            "", "frames", None, more=burst.pop("more"), main=True, why=reason, conditions=conditions
        )
    # With a search that came near the longest burst the mean is that of no burst: a limit is left.
    frames = bursts.frames.minimum if bursts.is_limit else bursts.frames
    yield figure("back_to_back_frames", "frames", frames, **burst, **about)
    yield figure("searches_at_longest_burst", "", float(bursts.full_bursts))
    yield figure("searches_undecided", "", float(bursts.undecided))
    yield figure("slow_bursts", "", count_value(bursts.slow_bursts))
    yield figure("burst_gap_calibrated", "ns", bursts.calibrated_gap_ns)
    yield figure("burst_gap_usual", "ns", bursts.usual_gap_ns)
    yield figure("capped", "", bursts.capped)
    yield figure("step", "frames", float(bursts.step_frames))
    yield figure("longest_burst_tried", "frames", float(bursts.max_burst_frames))
    yield figure("implied_buffer_time", "s", bursts.implied_s, note=note)
    reason = bursts.note or "no burst tells what was forwarded meanwhile"
    label = "" if bursts.undecided else "corrected buffer time"
    yield figure(
        "corrected_buffer_time",
        "s",
        bursts.corrected_s,
        more=label,
        why=reason,
        load_fps=rate,
        **about,
    )
    yield figure("implied_buffer_time_rfc9004", "s", bursts.rfc9004_implied_s)
    yield figure("corrected_buffer_time_rfc9004", "s", bursts.rfc9004_corrected_s)
    yield figure("forwarded_in_bursts_per_interface", "fps", bursts.forwarded_fps)
    yield figure("ring", "frames", count_value(bursts.ring_frames))
    yield figure("throughput_used", "fps", bursts.throughput_fps)
    yield figure("theoretical_rate_per_interface", "fps", bursts.max_rate_fps)
    yield figure("burst_gap_mean", "ns", bursts.gap_ns)


def _count_discarded(_: BackToBack, unanswered: int, invalid: Collection[int]) -> int:
    """Each burst is taken, and none that is not valid counts: the outcome is of the others."""
    return len(invalid)


class BackToBackProcedure(FrameTest):
    """Back-to-back frames, RFC 9004."""

    name = "back_to_back"
    run = staticmethod(back_to_back)
    list_figures = staticmethod(_list_figures)
    count_discarded = staticmethod(_count_discarded)
    section = "back_to_back"
    fills = "back_to_back"
    takes_shares = True

    @staticmethod
    def estimate(parameters: BackToBackTest, rate_fps: float, least_fps: float) -> DurationEstimate:
        """The most that it requests at one frame size."""
        longest_s = parameters.max_burst_s
        steps = max(1, int(longest_s * rate_fps / parameters.step_frames))
        searches = parameters.searches * (1 + parameters.repeats_after_loss)
        trials = searches * ceil(log2(steps + 1))
        # Most bursts are far shorter than the longest one, with which no search begins.
        if parameters.max_s is not None:
            trials = min(trials, int(parameters.max_s / (longest_s / 2 + parameters.idle_s)))
        return DurationEstimate(trials, trials * longest_s / 2, parameters.idle_s)
