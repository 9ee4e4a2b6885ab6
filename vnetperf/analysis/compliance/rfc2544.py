"""Clauses of RFC 2544 and of those that update it.

RFC 6201 (reset), RFC 6815 (isolation), RFC 9004 (back-to-back).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetperf.analysis.compliance.clause import ClauseContext, entry
from vnetperf.model.frames import PLAIN, RFC2544_FRAME_SIZES
from vnetperf.model.result import LedgerEntry, Result, ScenarioFacts
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import Verdict
from vnetperf.model.units import frames, time_s
from vnetperf.results.records import RunRecord, TrialRecord


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


def constant_load(
    trials: Sequence[TrialRecord], facts: Sequence[ScenarioFacts]
) -> list[LedgerEntry]:
    """Hold the tester's gaps of sending against it; nothing where none were recorded."""
    paced = [t for t in trials if not t.spec.burst and t.verdict is Verdict.VALID]
    known = [(t.result.gaps, t.result.directions) for t in paced if t.result.gaps is not None]
    if not known:
        return []
    unsent = sum(counts.unsent for _, directions in known for counts in directions)
    bridged = all(gaps.send.over_s == 0 for gaps, _ in known)
    longest = max(gaps.send.max_s for gaps, _ in known)
    late = max(gaps.catch_up_frames for gaps, _ in known)
    turns = dict.fromkeys(
        f"{role}: {text}"
        for one in facts
        if isinstance(slices := one.facts.get("scheduler slices"), dict)
        for role, text in slices.items()
    )
    value = (
        f"longest gap of sending {time_s(longest)}; after a gap a queue sends at most {late} "
        f"overdue frames, at up to twice its load; {frames(unsent)} frames unsent in {len(known)} "
        "VALID trials"
    )
    return [
        entry(
            "RFC 1242 section 3.4",
            "constant load: frames at a fixed interval",
            bridged and not unsent,
            f"{value}; slices and niceness of {'; '.join(turns)}" if turns else value,
            "the tester stood still for longer than the DUT's receive ring holds at that load"
            if not bridged
            else "frames that were overdue too long were given up",
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
    reasons = [goal.uncollected for r in results for goal in r.goals]
    counted_only = sorted({why["duplicated"] for why in reasons if "duplicated" in why})
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
    yield from _duration(looked, min((g.final_trial_s for g in goals), default=0.0))
    zero = [g for g in goals if g.loss_ratio == 0 and g.exceed_ratio == 0]
    doubtful = [g for g in zero if not g.regular]
    tolerated = "; ".join(
        f"{g.name}: loss {g.loss_ratio:g}, exceed ratio {g.exceed_ratio:g}" for g in goals
    )
    names = ", ".join(f"{g.qualifier} {g.name}".strip() for g in zero)
    irregular = "; ".join(f"goal {g.name} is irregular: {g.reason}" for g in doubtful)
    yield entry(
        "RFC 2544 section 26.1",
        "throughput: the highest rate at which no frame is lost in any trial",
        bool(zero) and not doubtful,
        f"goal {names}" if zero else tolerated,
        irregular or "loss or exceeding trials are tolerated by every goal of the preset",
    )


def latency(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.2."""
    preset = looked.preset.latency
    loads = [at for at in looked.result.latency_at if at.trials]
    there = [at for at in loads if at.of == "throughput"]
    at_throughput = bool(there) and not any(at.note for at in there)
    notes = "; ".join(at.note for at in there if at.note)
    whole_stream = preset.duration_s >= 120 and preset.tag_at_s >= 60
    stream = f"{preset.duration_s:g} s, looked at after {preset.tag_at_s:g} s"
    every_frame = "every frame sent after that moment is timed"
    steadier = "a mean over all frames is steadier than one frame, which is among them"
    n = min((at.repeats for at in there or loads), default=0)
    loads_text = ", ".join(at.of for at in loads) or "none"
    yield from looked.entries(
        "RFC 2544 section 26.2",
        (
            "load",
            "at the throughput of the frame size",
            at_throughput,
            loads_text,
            notes or "the throughput is not among the loads",
        ),
        ("stream", "a stream of at least 120 s, tagged after 60 s", whole_stream, stream),
        ("tagged frame", "one frame of the stream is timed", False, every_frame, steadier),
        ("repeats", "at least 20 repeats, their mean reported", n >= 20, f"{n} repeats"),
    )
    kinds = sorted({at.definition for at in loads})
    stated = ("", "the definition of latency is stated", bool(kinds), ", ".join(kinds))
    yield from looked.entries("RFC 1242 section 3.8", (*stated, "nothing was timed"))


def frame_loss(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.3, and 24 for its trials."""
    preset, steps = looked.preset.frame_loss, looked.result.loss_steps
    yield from _duration(looked, preset.duration_s)
    media, first = looked.result.media_max_fps or 0.0, steps[0].load_fps if steps else 0.0
    at_media = bool(media) and first >= media * (1 - _ROUNDING) and not looked.nominal
    why_less = "the generator cannot offer more"
    if looked.nominal:
        why_less = "virtual wires have no rate of their own: the most that the generator can offer"
    small = preset.step <= 0.1 + _ROUNDING
    clean = [step.loss_ratio == 0 for step in steps[-2:]] == [True, True]
    lossy = "frames were lost down to the smallest load"
    yield from looked.entries(
        "RFC 2544 section 26.3",
        (
            "first load",
            "the first trial at the maximum rate of the medium",
            at_media,
            f"{first:.0f} frames/s, all directions",
            why_less,
        ),
        ("steps", "down in steps of 10 % of the maximum or less", small, f"{preset.step:.0%}"),
        ("end", "until two successive trials lose nothing", clean, f"{len(steps)} loads", lossy),
    )


def recovery(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.5."""
    found = looked.result.recovery
    if found is None:
        return
    share = found.overload_fps / found.throughput_fps if found.throughput_fps else 0.0
    enough = share >= 1.1 - _ROUNDING and found.overload_s >= 60
    drop = found.relaxed_fps / found.overload_fps if found.overload_fps else 0.0
    n = found.seconds.n
    yield from looked.entries(
        "RFC 2544 section 26.5",
        (
            "overload",
            "110 % of the throughput, or the medium's maximum, for at least 60 s",
            enough,
            f"{share:.1%} for {found.overload_s:g} s",
            found.note or looked.because,
        ),
        ("drop", "then half of that load", abs(drop - 0.5) <= 1e-3, f"{drop:.1%}"),
        ("repeats", "the average of several trials", n >= 2, f"{n} trials"),
    )


def reset(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.6."""
    share, size = looked.preset.reset.share, looked.result.frame_size
    smallest = min(looked.preset.frame_sizes)
    larger = f"the smallest of the preset is {smallest}"
    kinds = ", ".join(sorted({one.what for one in looked.result.resets if not one.why})) or "none"
    software = "a data plane in software has no power of its own; restarts and links stand for them"
    yield from looked.entries(
        "RFC 2544 section 26.6",
        ("load", "a stream at the throughput", share == 1, f"{share:.0%} of the throughput"),
        ("frame size", "frames of the smallest size", size == smallest, f"{size} octets", larger),
        (
            "kinds",
            "hardware reset, software reset and power interruption",
            False,
            kinds,
            software,
        ),
    )


def not_run(results: list[Result]) -> Iterator[tuple[str, str]]:
    """Tests of section 26 of which a run has no result."""
    there = {result.test for result in results}
    for test, number in TESTS.items():
        if test not in there:
            yield f"RFC 2544 section {number}", test.replace("_", " ")


def _duration(looked: ClauseContext, seconds: float) -> Iterator[LedgerEntry]:
    row = ("", "trials of at least 60 s", seconds >= 60, f"{seconds:g} s")
    return looked.entries("RFC 2544 section 24", row)


def rfc6201_reset(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a result against it."""
    resets = looked.result.resets
    found = [one for one in resets if not one.why]
    both = [one for one in found if one.by_loss_s is not None and one.by_time_s is not None]
    methods = "; ".join(f"{one.what} ({one.type}): both" for one in both) or "none"
    missing = "; ".join(f"{one.what}: {one.why}" for one in resets if one.why)
    least = min((one.by_time_s.n for one in both if one.by_time_s is not None), default=0)
    yield from looked.entries(
        "RFC 6201",
        (
            "methods",
            "reset time by lost frames or by time stamps, the method reported",
            bool(found) and len(both) == len(found),
            methods,
            missing or "one of the two has no number",
        ),
        (
            "repeats",
            "the number of trials is reported",
            least > 0,
            f"{least} for each",
            "nothing was reset",
        ),
    )


def rfc9004_back_to_back(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a result against it."""
    preset, found = looked.preset.back_to_back, looked.result.back_to_back
    if found is None:
        return
    zero = any(g.loss_ratio == 0 for g in looked.preset.goals)
    known = found.throughput_fps is not None
    throughput = f"{found.throughput_fps:.0f} frames/s, all directions" if known else "none"
    n, longest = found.frames.n, found.max_burst_frames
    repeats = preset.repeats_after_loss
    how = f"loss verification, max(r) = {1 + repeats}" if repeats else "binary search"
    corrected = "not known" if found.corrected_s is None else f"{found.corrected_s:.3g} s"
    yield from looked.entries(
        "RFC 9004",
        (
            "prerequisites",
            "the throughput without loss is known for the same size and directions",
            known and zero,
            throughput,
            "it tolerates loss" if known else "it was not measured",
        ),
        (
            "repeats",
            "N independent searches, N reported (50 in RFC 2544 section 26.4)",
            n >= 50,
            f"N = {n}",
        ),
        (
            "depletion",
            "each burst from idle, at least 2 s after the one before",
            preset.idle_s >= 2,
            f"{preset.idle_s:g} s",
        ),
        (
            "longest burst",
            "a burst near the longest that was tried is no result",
            not found.capped,
            f"up to {longest} frames",
            "all bursts came through: set back_to_back.max_burst_s higher",
        ),
        (
            "search",
            "TST009 binary search or loss verification, its inputs and step reported",
            True,
            f"{how}; step {found.step_frames} frames, 1 to {longest} frames",
        ),
        (
            "corrected buffer time",
            "the buffer time implied, corrected by the throughput",
            found.corrected_s is not None,
            corrected,
            found.note or "it needs the throughput",
        ),
    )
