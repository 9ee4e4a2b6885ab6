"""RFC 2544 sections 24 and 26: what each of its tests asks for."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.bench.compliance.entry import Looked, entry
from vnetperf.model.result import LedgerEntry, Result

#: The tests of section 26, in its order.
TESTS = {
    "throughput": "26.1",
    "latency": "26.2",
    "frame_loss": "26.3",
    "back_to_back": "26.4",
    "recovery": "26.5",
    "reset": "26.6",
}
#: A rounded load is what it was meant to be.
_ROUNDING = 1e-6


def throughput(looked: Looked) -> Iterator[LedgerEntry]:
    """Section 26.1, and 24 for its trials.

    Args:
        looked: A throughput result.

    Yields:
        Entries.
    """
    goals = looked.result.goals
    final = min((g.final_trial_s for g in goals), default=0.0)
    yield _duration(looked, final)
    zero = [g for g in goals if g.loss_ratio == 0 and g.exceed_ratio == 0]
    doubtful = [g for g in zero if not g.regular]
    tolerated = "; ".join(
        f"{g.name}: loss {g.loss_ratio:g}, exceed ratio {g.exceed_ratio:g}" for g in goals
    )
    names = ", ".join(f"{g.qualifier} {g.name}".strip() for g in zero)
    yield entry(
        "RFC 2544 section 26.1",
        "throughput: the highest rate at which no frame is lost in any trial",
        bool(zero) and not doubtful,
        f"goal {names}" if zero else tolerated,
        "; ".join(f"goal {g.name} is irregular: {g.reason}" for g in doubtful)
        or "loss or exceeding trials are tolerated by every goal of the preset",
    )


def latency(looked: Looked) -> Iterator[LedgerEntry]:
    """Section 26.2.

    Args:
        looked: A latency result.

    Yields:
        Entries.
    """
    asked = looked.preset.latency
    loads = [at for at in looked.result.latency_at if at.trials]
    there = [at for at in loads if at.of == "throughput"]
    yield entry(
        "RFC 2544 section 26.2, load",
        "at the throughput of the frame size",
        bool(there) and not any(at.note for at in there),
        ", ".join(at.of for at in loads) or "none",
        "; ".join(at.note for at in there if at.note) or "the throughput is not among the loads",
    )
    yield entry(
        "RFC 2544 section 26.2, stream",
        "a stream of at least 120 s, tagged after 60 s",
        asked.duration_s >= 120 and asked.tag_at_s >= 60,
        f"{asked.duration_s:g} s, looked at after {asked.tag_at_s:g} s",
        looked.because,
    )
    yield entry(
        "RFC 2544 section 26.2, tagged frame",
        "one frame of the stream is timed",
        False,
        "every frame sent after that moment is timed",
        "a mean over all frames is steadier than one frame, which is among them",
    )
    repeats = min((at.repeats for at in there or loads), default=0)
    yield entry(
        "RFC 2544 section 26.2, repeats",
        "at least 20 repeats, their mean reported",
        repeats >= 20,
        f"{repeats} repeats",
        looked.because,
    )
    kinds = sorted({at.definition for at in loads})
    yield entry(
        "RFC 1242 section 3.8",
        "the definition of latency is stated",
        bool(kinds),
        ", ".join(kinds),
        "nothing was timed",
    )


def frame_loss(looked: Looked) -> Iterator[LedgerEntry]:
    """Section 26.3, and 24 for its trials.

    Args:
        looked: A frame loss result.

    Yields:
        Entries.
    """
    asked, steps = looked.preset.frame_loss, looked.result.loss_steps
    yield _duration(looked, asked.duration_s)
    media, first = looked.result.media_max_fps or 0.0, steps[0].load_fps if steps else 0.0
    at_media = bool(media) and first >= media * (1 - _ROUNDING) and not looked.nominal
    yield entry(
        "RFC 2544 section 26.3, first load",
        "the first trial at the maximum rate of the medium",
        at_media,
        f"{first:.0f} frames/s, all directions",
        "virtual wires have no rate of their own: the most that the generator can offer"
        if looked.nominal
        else "the generator cannot offer more",
    )
    yield entry(
        "RFC 2544 section 26.3, steps",
        "down in steps of 10 % of the maximum or less",
        asked.step <= 0.1 + _ROUNDING,
        f"{asked.step:.0%}",
        looked.because,
    )
    clean = [step.loss_ratio == 0 for step in steps[-2:]]
    yield entry(
        "RFC 2544 section 26.3, end",
        "until two successive trials lose nothing",
        clean == [True, True],
        f"{len(steps)} loads",
        "frames were lost down to the smallest load",
    )


def recovery(looked: Looked) -> Iterator[LedgerEntry]:
    """Section 26.5.

    Args:
        looked: A system recovery result.

    Yields:
        Entries.
    """
    found = looked.result.recovery
    if found is None:
        return
    share = found.overload_fps / found.throughput_fps if found.throughput_fps else 0.0
    yield entry(
        "RFC 2544 section 26.5, overload",
        "110 % of the throughput, or the medium's maximum, for at least 60 s",
        share >= 1.1 - _ROUNDING and found.overload_s >= 60,
        f"{share:.1%} for {found.overload_s:g} s",
        found.note or looked.because,
    )
    drop = found.relaxed_fps / found.overload_fps if found.overload_fps else 0.0
    yield entry(
        "RFC 2544 section 26.5, drop",
        "then half of that load",
        abs(drop - 0.5) <= 1e-3,
        f"{drop:.1%}",
        looked.because,
    )
    yield entry(
        "RFC 2544 section 26.5, repeats",
        "the average of several trials",
        found.seconds.n >= 2,
        f"{found.seconds.n} trials",
        looked.because,
    )


def reset(looked: Looked) -> Iterator[LedgerEntry]:
    """Section 26.6.

    Args:
        looked: A reset result.

    Yields:
        Entries.
    """
    share = looked.preset.reset.share
    yield entry(
        "RFC 2544 section 26.6, load",
        "a stream at the throughput",
        share == 1,
        f"{share:.0%} of the throughput",
        looked.because,
    )
    smallest = min(looked.preset.frame_sizes)
    yield entry(
        "RFC 2544 section 26.6, frame size",
        "frames of the smallest size",
        looked.result.frame_size == smallest,
        f"{looked.result.frame_size} octets",
        f"the smallest of the preset is {smallest}",
    )
    kinds = sorted({one.what for one in looked.result.resets if not one.why})
    yield entry(
        "RFC 2544 section 26.6, kinds",
        "hardware reset, software reset and power interruption",
        False,
        ", ".join(kinds) or "none",
        "a data plane in software has no power of its own; restarts and links stand for them",
    )


def not_run(results: list[Result]) -> Iterator[tuple[str, str]]:
    """Tests of section 26 of which a run has no result.

    Args:
        results: What was measured.

    Yields:
        Clause and name of the test.
    """
    there = {result.test for result in results}
    for test, number in TESTS.items():
        if test not in there:
            yield f"RFC 2544 section {number}", test.replace("_", " ")


def _duration(looked: Looked, seconds: float) -> LedgerEntry:
    return entry(
        "RFC 2544 section 24",
        "trials of at least 60 s",
        seconds >= 60,
        f"{seconds:g} s",
        looked.because,
    )
