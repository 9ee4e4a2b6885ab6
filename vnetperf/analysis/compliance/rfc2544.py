"""Clauses of RFC 2544 and of those that update it.

RFC 6201 (reset), RFC 6815 (isolation), RFC 9004 (back-to-back).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetperf.analysis.compliance.clause import ClauseContext, entry
from vnetperf.model.frames import PLAIN, RFC2544_FRAME_SIZES
from vnetperf.model.result import LedgerEntry, Result
from vnetperf.model.scenario import Scenario
from vnetperf.results.records import RunRecord


def rfc6815_isolation(run: RunRecord) -> list[LedgerEntry]:
    """Hold a run against it."""
    return [
        entry(
            "RFC 6815",
            "an isolated test environment, stated",
            bool(run.testbed.isolation),
            run.testbed.isolation_statement or "none stated",
            "the testbed file has no isolation statement",
        )
    ]


def setup(
    run: RunRecord, scenarios: Sequence[Scenario], results: Sequence[Result]
) -> list[LedgerEntry]:
    """Hold a run against the clauses that every test of it has in common."""
    preset, trial = run.preset, run.preset.trial
    because = f"preset {preset.name}"
    sizes = sorted({r.frame_size for r in results if r.status == "measured" and not r.imix})
    profiles = [scenario.traffic for scenario in scenarios]
    both_ways = all(len({s.direction for s in scenario.streams}) == 2 for scenario in scenarios)
    equal = all(p.loads == (1.0, 1.0) for p in profiles)
    broadcast = max((p.broadcast for p in profiles), default=0.0)
    networks = {"ipv4_dst", "ipv4_dst_net"}
    learning = min((p.learning_frames_per_stream for p in profiles), default=0)
    mixed = any(r.imix for r in results)
    routed = any(s.routed for s in scenarios)
    told = [goal.uncollected for r in results for goal in r.goals]
    counted_only = sorted({why["duplicated"] for why in told if "duplicated" in why})
    others = sorted({", ".join(p.headers) for p in profiles if p.headers != PLAIN})
    # The agent's machine carries tester and DUT, wherever it is, unless a server is named.
    elsewhere = bool(scenarios) and all(run.testbed.external_server(s.generator) for s in scenarios)
    return [
        entry(
            "RFC 2544 section 6",
            "tester and DUT are separate equipment",
            elsewhere,
            "the generator runs on a machine of its own"
            if elsewhere
            else "one machine carries both",
            "they share processors, caches and memory: a rate is that of both together",
        ),
        entry(
            "RFC 2544 section 8",
            "frames of UDP over IPv4 over Ethernet, as in appendix C",
            not others,
            "; ".join(others) or ", ".join(PLAIN),
            "the traffic profile has other headers",
        ),
        entry(
            "RFC 2544 section 9.1",
            "frame sizes 64, 128, 256, 512, 1024, 1280, 1518, at least five of them",
            len(set(sizes) & set(RFC2544_FRAME_SIZES)) >= 5,
            ", ".join(map(str, sizes)) or ("a mix of sizes" if mixed else "none measured"),
            "a mix of sizes is in no clause" if mixed else "fewer sizes were asked for or measured",
        ),
        entry(
            "RFC 2544 section 10",
            "received frames are verified to be those sent",
            not counted_only,
            "; ".join(counted_only) or "signature, stream, sequence and time stamp in every frame",
            "frames that came back are counted and not told apart; another --generator can",
        ),
        LedgerEntry(
            clause="RFC 2544 section 11",
            requirement="tests without modifiers, then with each of them",
            status="deviated",
            value=f"broadcast frames only, {broadcast:.2%} of all"
            if broadcast
            else "without modifiers only",
            reason="management, routing and filter modifiers are not applied, and one traffic "
            "profile a run has no run without modifiers beside it"
            if broadcast
            else "broadcast, management, routing and filter modifiers are not applied",
        ),
        entry(
            "RFC 2544 section 12",
            "a single stream, then uniformly random over 256 destination networks",
            any(
                p.flows >= 256 and networks & {*p.vary} and p.vary_mode == "random"
                for p in profiles
            )
            and any(p.flows == 1 for p in profiles),
            ", ".join(sorted({f"{p.name}: {p.flows} flow(s)" for p in profiles})) or "none",
            "one traffic profile a run; repeat with another --traffic",
        ),
        entry(
            "RFC 2544 section 14",
            "same rate into both ports",
            both_ways and equal,
            "one direction" if not both_ways else "bidirectional" if equal else "unequal loads",
            "the traffic profile sends unequal loads"
            if both_ways
            else "the traffic profile or the deployment sends one way",
        ),
        LedgerEntry(
            clause="RFC 2544 section 23 a",
            requirement="routing update and 2 s pause",
            status="deviated" if routed else "not applicable",
            value="static routes" if routed else "layer 2 forwarding",
            reason="routes are set when the DUT is deployed, no update is sent" if routed else "",
        ),
        entry(
            "RFC 2544 section 23 b",
            "learning frames, then 2 s",
            learning > 0 and trial.learning_wait_s >= 2,
            f"{learning} frames per stream, then {trial.learning_wait_s:g} s",
            because,
        ),
        entry(
            "RFC 2544 section 23 d",
            "2 s for residual frames",
            trial.full_drain and trial.drain_s >= 2,
            f"{trial.drain_s:g} s"
            + ("" if trial.full_drain else " at most, less once all are back"),
            because,
        ),
        entry(
            "RFC 2544 section 23 e",
            "5 s for the DUT to restabilise",
            trial.settle_s >= 5,
            f"{trial.settle_s:g} s",
            because,
        ),
    ]


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


def throughput(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.1, and 24 for its trials."""
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


def latency(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.2."""
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


def frame_loss(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.3, and 24 for its trials."""
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


def recovery(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.5."""
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


def reset(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.6."""
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
    """Tests of section 26 of which a run has no result."""
    there = {result.test for result in results}
    for test, number in TESTS.items():
        if test not in there:
            yield f"RFC 2544 section {number}", test.replace("_", " ")


def _duration(looked: ClauseContext, seconds: float) -> LedgerEntry:
    return entry(
        "RFC 2544 section 24",
        "trials of at least 60 s",
        seconds >= 60,
        f"{seconds:g} s",
        looked.because,
    )


def rfc6201_reset(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a result against it."""
    found = [one for one in looked.result.resets if not one.why]
    both = [one for one in found if one.by_loss_s is not None and one.by_time_s is not None]
    yield entry(
        "RFC 6201, methods",
        "reset time by lost frames or by time stamps, the method reported",
        bool(found) and len(both) == len(found),
        "; ".join(f"{one.what} ({one.type}): both" for one in both) or "none",
        "; ".join(f"{one.what}: {one.why}" for one in looked.result.resets if one.why)
        or "one of the two has no number",
    )
    least = min((one.by_time_s.n for one in both if one.by_time_s is not None), default=0)
    yield entry(
        "RFC 6201, repeats",
        "the number of trials is reported",
        least > 0,
        f"{least} for each",
        "nothing was reset",
    )


def rfc9004_back_to_back(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a result against it."""
    asked, found = looked.preset.back_to_back, looked.result.back_to_back
    if found is None:
        return
    zero = any(g.loss_ratio == 0 for g in looked.preset.goals)
    known = found.throughput_fps is not None
    yield entry(
        "RFC 9004, prerequisites",
        "the throughput without loss is known for the same size and directions",
        known and zero,
        f"{found.throughput_fps:.0f} frames/s, all directions" if known else "none",
        "it tolerates loss" if known else "it was not measured",
    )
    yield entry(
        "RFC 9004, repeats",
        "N independent searches, N reported (50 in RFC 2544 section 26.4)",
        found.frames.n >= 50,
        f"N = {found.frames.n}",
        looked.because,
    )
    yield entry(
        "RFC 9004, depletion",
        "each burst from idle, at least 2 s after the one before",
        asked.idle_s >= 2,
        f"{asked.idle_s:g} s",
        looked.because,
    )
    yield entry(
        "RFC 9004, longest burst",
        "a burst near the longest that was tried is no result",
        not found.capped,
        f"up to {found.max_burst_frames} frames",
        "all bursts came through: set back_to_back.max_burst_s higher",
    )
    repeats = asked.repeats_after_loss
    how = f"loss verification, max(r) = {1 + repeats}" if repeats else "binary search"
    yield entry(
        "RFC 9004, search",
        "TST009 binary search or loss verification, its inputs and step reported",
        True,
        f"{how}; step {found.step_frames} frames, 1 to {found.max_burst_frames} frames",
    )
    yield entry(
        "RFC 9004, corrected buffer time",
        "the buffer time implied, corrected by the throughput",
        found.corrected_s is not None,
        "not known" if found.corrected_s is None else f"{found.corrected_s:.3g} s",
        found.note or "it needs the throughput",
    )
