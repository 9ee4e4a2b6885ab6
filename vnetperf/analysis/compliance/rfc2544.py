"""Clauses of RFC 2544 and of those that update it.

RFC 6201 (reset), RFC 6815 (isolation), RFC 9004 (back-to-back).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil, inf

from vnetperf.analysis.compliance.clause import (
    WHOLE_TRIAL_S,
    ClauseContext,
    Row,
    describe_throughput_doubt,
    entry,
    least_pause_s,
    longest_s,
    pauses_after,
    waits_for_turn,
)
from vnetperf.analysis.logged_tests import is_valid, trial_outcome
from vnetperf.analysis.sharing import sharing_of
from vnetperf.log.records import RunRecord, ScenarioRecord, TrialRecord
from vnetperf.model.frames import PLAIN, RFC2544_FRAME_SIZES
from vnetperf.model.outcomes import NEAR_LONGEST, BackToBack, Recovery
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.result import GoalResult, LedgerEntry, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import LoadStep, RoundTrip, TesterTurns, Verdict
from vnetperf.model.units import frames, time_s


def rfc6815_isolation(deployed: Sequence[ScenarioRecord], run: RunRecord) -> list[LedgerEntry]:
    """Hold a run against it: a statement alone is none that was checked."""
    clause, requirement = "RFC 6815", "an isolated test environment"
    statement = run.testbed.isolation_statement
    wires = [record.facts.plan["wire"] for record in deployed if record.facts.plan.get("wire")]
    if wires and all(
        _creates_all_wires(record, run) for record in deployed if not record.facts.error
    ):
        kinds = ", ".join(dict.fromkeys(wires))
        value = f"the run made every wire itself ({kinds}) and took no NIC"
        return [entry(clause, requirement, True, "; ".join(filter(None, (value, statement))))]
    if not statement:
        reason = "the testbed file has no isolation statement, and wires of NICs cannot be checked"
        return [entry(clause, requirement, False, "none stated", reason)]
    value = f"stated by the testbed file, not checked: {statement}"
    return [
        LedgerEntry(clause=clause, requirement=requirement, status="not looked at", value=value)
    ]


def _creates_all_wires(deployed: ScenarioRecord, run: RunRecord) -> bool:
    """Whether the run creates every wire, so that no frame leaves the machine; False if unknown."""
    plan, facts, testbed = deployed.facts.plan, deployed.facts.facts, run.testbed
    sharing = sharing_of(deployed.facts)
    far = [host for host in testbed.hosts.values() if host.transport.startswith("ssh=")]
    return (
        bool(plan.get("wire"))
        and not (testbed.nics or far or testbed.external_server(deployed.scenario.generator))
        and not any(part.get("nics") for part in (plan, *plan.get("hosts", ())))
        and (sharing is None or not sharing.elsewhere)
        and "cluster" not in facts.get("vswitch", {})
    )


def constant_load(
    trials: Iterable[TrialRecord], deployed: Sequence[ScenarioRecord]
) -> list[LedgerEntry]:
    """Hold traffic and the tester's gaps of sending against it; nothing where none are known."""
    sent_load = SentLoad()
    for trial in trials:
        sent_load.add(trial)
    return sent_load.entries(deployed)


class SentLoad:
    """What all trials of a run show of how constant their load was."""

    def __init__(self) -> None:
        self._measured = self._unsent = self._late = 0
        self._rings_known = self._bridged = True
        self._longest_s = self._grouped = 0.0
        self._valid, self._all_turns = _Turns(), _Turns()

    def add(self, trial: TrialRecord) -> None:
        """Look at a trial."""
        result = trial.result
        if result.turns is not None:
            self._all_turns.add(result.turns)
        if trial.spec.burst or trial.verdict is not Verdict.VALID:
            return
        if result.turns is not None:
            self._valid.add(result.turns)
            self._grouped = max(self._grouped, result.turns.group_frames or 0.0)
        if (gaps := result.gaps) is not None:
            self._measured += 1
            self._unsent += sum(counts.unsent for counts in result.directions)
            self._rings_known &= gaps.send.hold_s is not None and not gaps.send.assumed
            self._bridged &= gaps.send.over_s == 0
            self._longest_s = max(self._longest_s, gaps.send.max_s)
            self._late = max(self._late, gaps.catch_up_frames)

    def entries(self, deployed: Sequence[ScenarioRecord]) -> list[LedgerEntry]:
        """The clause, where gaps are known."""
        if not self._measured:
            return []
        unsent = self._unsent
        bridged = self._rings_known and self._bridged
        group = max((record.scenario.traffic.burst for record in deployed), default=1)
        turns = dict.fromkeys(
            f"{role}: {text}"
            for record in deployed
            if isinstance(slices := record.facts.facts.get("scheduler slices"), dict)
            for role, text in slices.items()
        )
        value = (
            f"longest gap of sending {time_s(self._longest_s)}; after a gap a queue sends at most "
            f"{self._late} overdue frames, at up to twice its load; {frames(unsent)} frames unsent "
            f"in {self._measured} VALID trials"
        )
        value += self._valid.summarize(self._all_turns)
        return [
            entry(
                "RFC 1242 section 3.4",
                "constant load: frames at a fixed interval",
                bridged and not unsent and group == 1 and self._grouped <= 1,
                f"{value}; slices and niceness of {'; '.join(turns)}" if turns else value,
                f"the traffic profile sends frames in groups of {group}"
                if group > 1
                else "how much the DUT's receive ring holds is not known"
                if not self._rings_known
                else "the tester stood still for longer than the DUT's receive ring holds at that "
                "load"
                if not bridged
                else "frames that were overdue too long were given up"
                if unsent
                else "the tester takes turns: what comes due in one leaves at once",
            )
        ]


class _Turns:
    """Groups that the DUT gets from a tester that takes turns, and what its turns lacked."""

    def __init__(self) -> None:
        self._count = self._grouped = self._throttled = self._held_back = self._refused = 0
        self._length_us = self._most_frames = 0
        self._means = [inf, 0.0]  # The least and the largest
        self._share = 0.0  # Of the first that was held back

    def add(self, turns: TesterTurns) -> None:
        self._count += 1
        if turns.group_frames is not None:
            self._grouped += 1
            self._length_us = max(self._length_us, turns.length_us)
            self._most_frames = max(self._most_frames, turns.most_frames)
            least, most = self._means
            self._means = [min(least, turns.group_frames), max(most, turns.group_frames)]
        if turns.held_back:
            self._share = self._share if self._throttled else turns.share
            self._throttled += 1
            self._held_back += turns.held_back
        self._refused += bool(turns.refused)

    def summarize(self, all_turns: _Turns) -> str:
        """Summarize the groups of frames in these trials, and all turns; "" without groups."""
        if not self._grouped:
            return ""
        between = " to ".join(dict.fromkeys(f"{mean:.0f}" for mean in self._means))
        text = (
            f"; the DUT gets groups of {between} frames in each turn of {self._length_us} us "
            f"(means of a trial, at most {self._most_frames} frames)"
        )
        if all_turns._throttled:
            text += (
                f"; held to {all_turns._share:.0%} of its processor, which the tester used up "
                f"{all_turns._held_back} times in {all_turns._throttled} of {all_turns._count} "
                "trials"
            )
        if all_turns._refused:
            text += f"; SCHED_FIFO was refused in {all_turns._refused} of {all_turns._count} trials"
        return text


def _apart(deployed: ScenarioRecord, run: RunRecord) -> bool:
    """Whether no part of the DUT is on a machine that the generator runs on."""
    if run.testbed.external_server(deployed.scenario.generator):
        return True
    testers, duts = set(), set()
    for name, of_host in deployed.facts.facts.get("hosts", {}).items():
        elsewhere = run.testbed.hosts[name].transport.startswith("ssh=")
        machine = of_host["machine of"] if elsewhere else ""  # namespaces have one together
        parts = of_host["parts"].split(" and ")
        testers |= {machine} if "tester" in parts else set()
        duts |= {machine} if "dut" in parts else set()
    return bool(testers) and not testers & duts


def setup(
    deployed: Sequence[ScenarioRecord],
    results: Sequence[Result],
    conditions: TrialConditions,
    run: RunRecord,
    findings: str = "",
) -> list[LedgerEntry]:
    """Hold a run against the clauses that every test of it has in common.

    Of its results what they measured is not needed.
    """
    scenarios = [record.scenario for record in deployed]
    measured = [r for r in results if r.status == "measured"]
    profiles = [scenario.traffic for scenario in scenarios]
    both_ways = all(len({s.direction for s in scenario.streams}) == 2 for scenario in scenarios)
    equal = all(p.loads == (1.0, 1.0) for p in profiles)
    broadcast = max((p.broadcast for p in profiles), default=0.0)
    routed = any(s.routed for s in scenarios)
    counted_only = sorted(conditions.counted_only)
    others = sorted({", ".join(p.headers) for p in profiles if p.headers != PLAIN})
    elsewhere = bool(deployed) and all(_apart(record, run) for record in deployed)
    placed = [sharing_of(record.facts) for record in deployed]
    dut_alone = bool(placed) and all(
        sharing is not None and sharing.dut_alone for sharing in placed
    )
    return [
        entry(
            "RFC 2544 section 6",
            "tester and DUT are separate equipment",
            elsewhere,
            "the generator runs on a machine of its own"
            if elsewhere
            else "one machine carries both",
            "the DUT's pollers share no processor, but caches and memory: a rate is that of both "
            "together"
            if dut_alone
            else "they share processors, caches and memory: a rate is that of both together",
        ),
        entry(
            "RFC 2544 section 8",
            "frames of UDP over IPv4 over Ethernet, as in appendix C",
            not others,
            "; ".join(others) or ", ".join(PLAIN),
            "the traffic profile has other headers",
        ),
        *_frame_sizes(measured),
        _verified(results, counted_only, findings),
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
            any(_networks(p) >= _NETWORKS and p.vary_mode == "random" for p in profiles)
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
        _learning(conditions, scenarios, f"preset {run.preset.name}"),
        *_phases(conditions, f"preset {run.preset.name}"),
    ]


class TrialConditions:
    """What the trials behind a run's results have in common.

    Attributes:
        counted_only: Why frames that came back twice were not told apart, where they were not.
        count: Trials that count.
        new_sessions: Whether one of them makes the DUT's sessions.
        learning_frames: The least of them; so are the waits, seconds.
        full_drain: Whether each waited for the whole of its time.
        pause_s: The least time between two trials of a test, seconds; None: not known.
    """

    def __init__(self) -> None:
        self.counted_only: set[str] = set()
        self.count = 0
        self.new_sessions = False
        self.full_drain = True
        self.learning_frames = self.learning_wait_s = self.drain_s = inf
        self.pause_s: float | None = None

    def add(self, result: Result, trials: Sequence[TrialRecord]) -> None:
        """Look at a result that was measured, and at the trials of its case."""
        # Goals have those of the trial at their bound; tests without goals have trials alone.
        reasons = [goal.uncollected for goal in result.goals]
        reasons += [trial.result.uncollected for trial in trials]
        self.counted_only.update(
            uncollected["duplicated"] for uncollected in reasons if "duplicated" in uncollected
        )
        # Sessions are counted of trials, too, of which the generator left some frames out.
        tried = result.sessions.tried if result.sessions is not None else ()
        counted = {attempt.trial for attempt in tried}
        for trial in trials:
            if is_valid(trial) or trial.number in counted:
                self._add(trial)
        pause_s = least_pause_s(trials)
        if pause_s is not None:
            self.pause_s = pause_s if self.pause_s is None else min(self.pause_s, pause_s)

    def _add(self, trial: TrialRecord) -> None:
        spec = trial.spec
        self.count += 1
        self.new_sessions |= bool(spec.new_sessions)
        self.full_drain &= spec.full_drain
        self.learning_frames = min(self.learning_frames, spec.learning_frames)
        self.learning_wait_s = min(self.learning_wait_s, spec.learning_wait_s)
        self.drain_s = min(self.drain_s, trial.result.drain_s)


#: Destination networks of section 12, and the addresses of each.
_NETWORKS, _OF_NETWORK = 256, 256


def _networks(profile: TrafficProfile) -> int:
    """Destination networks of 256 addresses that a profile's flows are in."""
    of_net, of_host = (
        min(profile.flows, profile.room(name)) if name in profile.vary else 1
        for name in ("ipv4_dst_net", "ipv4_dst")
    )
    return max(of_net, ceil(of_host / _OF_NETWORK))


#: Frame sizes of section 9.1 that a test needs at the least.
_LEAST_SIZES = 5
#: Section 26.6 has the smallest frames alone.
_ONE_SIZE = ("reset",)
#: Milliseconds of a start that the log may have rounded, seconds.
_START_ROUNDING_S = 0.002


#: What a ledger has of the verification of received frames.
VERIFIED = "RFC 2544 section 10"


def _verified(results: Sequence[Result], counted_only: Sequence[str], findings: str) -> LedgerEntry:
    """Section 10, by what was counted of the frames that came back."""
    clause = VERIFIED
    requirement = (
        "received frames are verified to be those sent, in number and length; those out of order "
        "and twice are reported"
    )
    if counted_only:
        reason = "frames that came back are counted and not told apart; another --generator can"
        return entry(clause, requirement, False, "; ".join(counted_only), reason)
    signed = "signature, stream and sequence of every frame"
    faults = [r.faults for r in results if r.status == "measured" or r.faults.is_counted]
    if not faults or any(result_faults.altered is None for result_faults in faults):
        reason = "lengths were not compared, or the log does not show it"
        return entry(clause, requirement, False, signed, reason)
    payloads = sum(result_faults.verified or 0 for result_faults in faults)
    counts = {
        name: sum(getattr(result_faults, name) or 0 for result_faults in faults)
        for name in ("reordered", "duplicated", "altered", "misrouted", "corrupted", "foreign")
    }
    summary = ", ".join(f"{n} {name}" for name, n in counts.items() if n) or "all as sent"
    if findings:
        summary += f"; among them {findings}"
    value = f"{signed}, its length, and the payload of {payloads}: {summary}"
    return entry(clause, requirement, True, value)


def _frame_sizes(measured: Sequence[Result]) -> Iterator[LedgerEntry]:
    """Section 9.1 of each test, by what it measured; tests of equal sizes as one."""
    sizes: dict[str, set[int]] = {}
    fewest: dict[tuple[str, str], set[int]] = {}
    mixed = False
    for result in measured:
        if result.imix:
            mixed = True
        elif result.test in TESTS and result.test not in _ONE_SIZE:
            fewest.setdefault((result.test, result.scenario), set()).add(result.frame_size)
    for (test, _), its in fewest.items():
        if test not in sizes or len(its) < len(sizes[test]):
            sizes[test] = its
    if not sizes:  # tests that are in no clause of section 26
        others = {r.frame_size for r in measured if not r.imix and r.frame_size}
        sizes[""] = others
    alike = len({frozenset(its) for its in sizes.values()}) == 1
    for test, its in list(sizes.items())[: 1 if alike else None]:
        clause_entry = entry(
            "RFC 2544 section 9.1",
            "frame sizes 64, 128, 256, 512, 1024, 1280, 1518, at least five of them",
            len(its & set(RFC2544_FRAME_SIZES)) >= _LEAST_SIZES,
            ", ".join(map(str, sorted(its))) or ("a mix of sizes" if mixed else "none measured"),
            "a mix of sizes is in no clause" if mixed and not its else "fewer sizes were measured",
        )
        yield clause_entry if alike else clause_entry.model_copy(update={"test": test})


#: What a phase has of a run without valid trials.
_NO_TRIAL = "no trial was run"


def _learning(
    conditions: TrialConditions, scenarios: Sequence[Scenario], because: str
) -> LedgerEntry:
    """Section 23 b: by what was sent before trials, which is less where a DUT has sessions."""
    clause, requirement = "RFC 2544 section 23 b", "learning frames, then 2 s"
    if conditions.new_sessions:
        frames_text = "none before trials that make the DUT's sessions"
        reason = "a learning frame would make the session whose first frame is measured"
        return entry(clause, requirement, False, frames_text, reason)
    learning, waited = conditions.learning_frames, conditions.learning_wait_s
    value = f"{learning} frames per stream, then {waited:g} s" if conditions.count else _NO_TRIAL
    if conditions.count and any(scenario.change is not None for scenario in scenarios):
        value += ", where the DUT does not hold all sessions already"
        reason = "frames of sessions that were just set up, and are held, are not sent again"
        return entry(clause, requirement, False, value, reason)
    met = bool(conditions.count) and learning > 0 and waited >= 2
    return entry(clause, requirement, met, value, because)


def _phases(conditions: TrialConditions, because: str) -> Iterator[LedgerEntry]:
    """Section 23 d and e by the trials that were run."""
    full = bool(conditions.count) and conditions.full_drain
    yield entry(
        "RFC 2544 section 23 d",
        "2 s for residual frames",
        full and conditions.drain_s >= 2,
        (
            f"{conditions.drain_s:.3g} s at the least"
            + ("" if full else ", less once all frames are back")
        )
        if conditions.count
        else _NO_TRIAL,
        because,
    )
    pause = conditions.pause_s
    yield entry(
        "RFC 2544 section 23 e",
        "5 s for the DUT to restabilise",
        pause is not None and pause >= 5 - _START_ROUNDING_S,
        "the log does not show it" if pause is None else f"{pause:.3g} s at the least",
        because if pause is not None else "no two trials of a test, or no wall times",
    )


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
    trials = [t for t in looked.trials if is_valid(t)]
    decisive = [
        [t for t in trials if t.number in g.trials_at_lower_bound]
        for g in goals
        if g.trials_at_lower_bound
    ]
    # Where no load met a goal, those that show it.
    yield from _duration(looked, min(map(longest_s, decisive or [trials]), default=0.0))
    whys = {g.name: describe_throughput_doubt(g, trials) for g in goals}
    met = [g.name for g in goals if not whys[g.name]]
    strict = [g for g in goals if g.loss_ratio == 0 and g.exceed_ratio == 0] or goals
    yield entry(
        "RFC 2544 section 26.1",
        "throughput: the highest rate at which no frame is lost in any trial of 60 s",
        bool(met),
        "goal " + ", ".join(f"{g.qualifier} {g.name}".strip() for g in goals if g.name in met)
        if met
        else "; ".join(_goal_text(g) for g in goals),
        "; ".join(whys[g.name] for g in strict),
    )


def _goal_text(goal: GoalResult) -> str:
    name = f"{goal.qualifier} {goal.name}".strip()
    return f"{name}: loss {goal.loss_ratio:g}, exceed ratio {goal.exceed_ratio:g}"


def latency(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.2."""
    loads = [load for load in looked.result.latency_at if load.trials]
    at_throughput = [load for load in loads if load.of == "throughput"]
    trials = looked.numbered(n for load in at_throughput or loads for n in load.trials)
    seconds = min((t.spec.duration_s for t in trials), default=0.0)
    tag = min((t.spec.tag_at_s for t in trials), default=0.0)
    lossy = [
        t for t in looked.numbered(n for load in at_throughput for n in load.trials) if _lost(t)
    ]
    loads_text = ", ".join(f"{load.of}{_loss_text(load.loss_ratio)}" for load in loads) or "none"
    whys = [looked.no_throughput] if at_throughput else ["the throughput is not among the loads"]
    if lossy:
        numbers = ", ".join(str(t.number) for t in lossy)
        whys.append(f"frames were lost in trial {numbers}: it does not hold for that long")
    every_frame = "every frame sent after that moment is timed"
    steadier = "a mean over all frames is steadier than one frame, which is among them"
    n = min((len(load.trials) for load in at_throughput or loads), default=0)
    yield from looked.entries(
        "RFC 2544 section 26.2",
        (
            "load",
            "at the throughput of the frame size",
            not any(whys),
            loads_text,
            "; ".join(filter(None, whys)),
        ),
        (
            "stream",
            "a stream of at least 120 s, tagged after 60 s",
            seconds >= 120 and tag >= 60,
            f"{seconds:g} s, looked at after {tag:g} s",
        ),
        ("tagged frame", "one frame of the stream is timed", False, every_frame, steadier),
        ("repeats", "at least 20 repeats, their mean reported", n >= 20, f"{n} repeats"),
    )
    yield from latency_definition(looked)


def latency_definition(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """RFC 1242 section 3.8, of latency at any load."""
    loads = [load for load in looked.result.latency_at if load.trials]
    kinds = sorted({load.definition for load in loads})
    both_ways = any(RoundTrip.is_name(name) for load in loads for name in load.latency)
    value = ", ".join(kinds) + ", of the round trip" * both_ways if kinds else "none"
    value += waits_for_turn(looked.numbered(n for load in loads for n in load.trials))
    reason = "the tester's ends have clocks of their own" if both_ways else "nothing was timed"
    stated = "the definition of latency, which is one way, is stated"
    yield from looked.entries(
        "RFC 1242 section 3.8", ("", stated, bool(kinds) and not both_ways, value, reason)
    )


def _lost(trial: TrialRecord) -> bool:
    return trial.result.worst_loss_ratio() > 0


def _loss_text(ratio: float) -> str:
    return f" (loss up to {ratio:.3g})" if ratio > 0 else ""


def frame_loss(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.3, and 24 for its trials."""
    steps = looked.result.loss_steps
    trials = looked.numbered(n for step in steps for n in step.trials)
    yield from _duration(looked, min((t.spec.duration_s for t in trials), default=0.0))
    media, first = looked.result.media_max_fps or 0.0, steps[0].load_fps if steps else 0.0
    at_media = bool(media) and first >= media * (1 - _ROUNDING) and not looked.nominal
    why_less = "the generator cannot offer more"
    if looked.nominal:
        why_less = "virtual wires have no rate of their own: the largest load of the test"
    shares = [step.input_ratio for step in steps]
    widest = max((a - b for a, b in pairwise(shares)), default=None)
    small = widest is not None and widest <= 0.1 + _ROUNDING
    clean = [step.is_clean for step in steps[-2:]] == [True, True]
    why_on = "frames were lost down to the smallest load"
    if any(step.loss_ratio == 0 and not step.is_clean for step in steps[-2:]):
        why_on = "frames were lost, or not offered, down to the smallest load"
    if steps and steps[-1].is_clean:
        why_on = "no load was tried below the last, which lost nothing"
    yield from looked.entries(
        "RFC 2544 section 26.3",
        (
            "first load",
            "the first trial at the maximum rate of the medium",
            at_media,
            f"{first:.0f} frames/s, all directions"
            + (f": {first / media:.1%} of the medium's {media:.0f}" if media else ""),
            why_less,
        ),
        (
            "steps",
            "down in steps of 10 % of the maximum or less",
            small,
            "one load" if widest is None else f"{widest:.3%} at the most",
        ),
        ("end", "until two successive trials lose nothing", clean, f"{len(steps)} loads", why_on),
    )


def recovery(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.5."""
    outcome = looked.result.recovery
    if outcome is None:
        return
    trials = [t for t in looked.trials if t.number in {c.trial for c in outcome.curves}]
    trials = trials or [t for t in looked.trials if len(t.spec.steps) > 1]
    steps = [_split_overload(t) for t in trials if len(t.spec.steps) > 1]
    seconds = min((over.duration_s for _, over, _ in steps), default=0.0)
    share = outcome.overload_fps / outcome.throughput_fps if outcome.throughput_fps else 0.0
    whys = [looked.no_throughput, outcome.why, *_overload_doubts(looked, trials)]
    if not outcome.why and outcome.not_overloaded:
        numbers = ", ".join(map(str, outcome.not_overloaded))
        whys.append(f"the last bins show no overload in trial {numbers}")
    # In nothing that has a rate of its own there is a maximum that is less.
    most = None if looked.nominal else looked.result.media_max_fps
    reaches_medium = most is not None and outcome.overload_fps >= most * (1 - _ROUNDING)
    requested = looked.inputs.get("parameters", {}).get("overload", share)
    if seconds < WHOLE_TRIAL_S or (requested < _OVERLOAD - _ROUNDING and not reaches_medium):
        whys.append(looked.because)
    elif share < _OVERLOAD - _ROUNDING and not reaches_medium:
        limit = looked.inputs.get("ceiling_reason") or "the generator"
        whys.append(f"no more can be offered: limited by {limit}")
    drops = [after.load_fps / over.load_fps for _, over, after in steps]
    drop = max(drops, key=lambda d: abs(d - 0.5), default=0.0)
    n = 0 if outcome.seconds is None else outcome.seconds.n
    yield from looked.entries(
        "RFC 2544 section 26.5",
        (
            "overload",
            "110 % of the throughput, or the medium's maximum, for at least 60 s",
            not any(whys),
            f"{share:.1%} for {seconds:g} s",
            "; ".join(filter(None, whys)),
        ),
        ("drop", "then half of that load", abs(drop - 0.5) <= 1e-3, f"{drop:.1%}"),
        _recovery_end(outcome),
        (
            "repeats",
            "the average of several trials",
            n >= 2,
            f"{n} trials",
            outcome.why or looked.because,
        ),
    )


def _recovery_end(outcome: Recovery) -> Row:
    """What the time ends with: the last lost frame only where that is all that is known."""
    name, requirement = "end", "the time from the drop to the last frame lost"
    if outcome.seconds is None:
        return name, requirement, False, "none", outcome.why
    until = f"{time_s(outcome.seconds.mean)} until no more frames are lost than usual at that load"
    if outcome.last_lost_s is None:
        numbers = ", ".join(map(str, outcome.lost_at_end))
        loss_end = f"frames were lost when trial {numbers} ended" if numbers else "not recorded"
    else:
        loss_end = f"{time_s(outcome.last_lost_s.mean)} to the last frame lost"
    same = outcome.last_lost_s is not None and outcome.last_lost_s.values == outcome.seconds.values
    reason = (
        "the last lost frame may be one of another cause, and comes the later the longer a trial is"
    )
    return name, requirement, same, loss_end if same else f"{until}; {loss_end}", reason


def _split_overload(trial: TrialRecord) -> tuple[float, LoadStep, LoadStep]:
    """Split a trial's load: start of the overload in seconds, the overload, the step behind it."""
    *before, over, after = trial.spec.steps
    return sum(step.duration_s for step in before), over, after


#: Overload of section 26.5, as a share of the throughput.
_OVERLOAD = 1.1
#: Share of an intended overload that must have been offered.
_OFFERED = 0.999


def _overload_doubts(looked: ClauseContext, trials: Sequence[TrialRecord]) -> Iterator[str]:
    """Trials whose overload was not offered."""
    loads = looked.inputs.get("loads") or (1.0, 1.0)
    short = []
    for trial in trials:
        if len(trial.spec.steps) < 2:
            continue
        begin_s, over, _ = _split_overload(trial)
        overload_frames = over.load_fps * over.duration_s
        all_frames = sum(step.load_fps * step.duration_s for step in trial.spec.steps)
        # Frames to everybody are part of the load, and in no timeline.
        due = {d.direction: d.intended for d in trial.result.directions}
        for line in trial.result.timelines:
            first = int(begin_s / line.bin_s + 1e-9)
            end = ceil((begin_s + over.duration_s) / line.bin_s - 1e-9)
            full = all_frames * loads[line.direction]
            due_share = (
                min(1.0, due[line.direction] / full) if full and line.direction in due else 1.0
            )
            if (
                sum(line.sent[first:end])
                < _OFFERED * due_share * overload_frames * loads[line.direction]
            ):
                short.append(str(trial.number))
                break
    if short:
        yield f"less than the overload was offered in trial {', '.join(short)}"


#: Smallest frame of Ethernet, octets including FCS.
_SMALLEST = 64


def reset(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Section 26.6."""
    size, throughput_input = looked.result.frame_size, looked.inputs.get("throughput")
    # Those of other rounds are at the throughput of their own.
    shown = [t for t in looked.trials if t.search == looked.result.search]
    loads = {t.spec.load_fps for t in shown or looked.trials}
    share = min(loads) / throughput_input["load_fps"] if loads and throughput_input else 0.0
    whys = [looked.no_throughput]
    if share < 1 - _ROUNDING:
        whys.append(looked.because)
    left_out = {number for outcome in looked.result.resets for number in outcome.disturbed}
    limited = [t.number for t in shown if trial_outcome(t).is_short]
    if short := [str(number) for number in limited if number not in left_out]:
        whys.append(f"less than the load was offered in trial {', '.join(short)}")
    kinds = (
        ", ".join(sorted({outcome.what for outcome in looked.result.resets if not outcome.why}))
        or "none"
    )
    software = "a data plane in software has no power of its own; restarts and links stand for them"
    yield from looked.entries(
        "RFC 2544 section 26.6",
        (
            "load",
            "a stream at the throughput",
            not any(whys),
            f"{share:.0%} of the throughput",
            "; ".join(filter(None, whys)),
        ),
        (
            "frame size",
            "frames of the smallest size",
            size == _SMALLEST and not looked.result.imix,
            looked.result.size_text,
            f"the smallest of the medium is {_SMALLEST}",
        ),
        (
            "kinds",
            "hardware reset, software reset and power interruption",
            False,
            kinds,
            software,
        ),
    )


#: Clauses of which nothing is derived: number, title, what a run does of them all the same.
_NOT_LOOKED_AT = (
    (
        "section 7",
        "DUT set-up",
        "the configuration is recorded; that all protocols are enabled, "
        "and that it is the recommended one, is not judged",
    ),
    ("section 13", "route set-up", "static routes, where the vSwitch routes"),
    ("section 15", "single stream path", "a scenario's streams are fixed by its deployment"),
    ("section 16", "multi-port", "two ports at the most"),
    ("section 17", "multiple protocols", "one profile a run"),
    ("section 18", "multiple frame sizes", "a mix is measured with a profile that has one"),
    ("section 20", "maximum frame rate", "rates of the medium are stated and not verified"),
    ("section 21", "bursty traffic", "bursts are measured with a profile that has them"),
    ("section 25", "address resolution", "the tester answers as the profile sets it"),
    (
        "section 26, reporting formats",
        "graphs and tables of each test",
        "the report has its own, with what they require",
    ),
)


def unchecked_clauses() -> Iterator[LedgerEntry]:
    """List the clauses of RFC 2544 that the ledger does not check."""
    for number, title, remark in _NOT_LOOKED_AT:
        yield LedgerEntry(
            clause=f"RFC 2544 {number}", requirement=title, status="not looked at", value=remark
        )


def not_run(results: Iterable[Result]) -> Iterator[tuple[str, str]]:
    """Tests of section 26 of which a run has no result."""
    measured_tests = {result.test for result in results}
    for test, number in TESTS.items():
        if test not in measured_tests:
            yield f"RFC 2544 section {number}", test.replace("_", " ")


def _duration(looked: ClauseContext, seconds: float) -> Iterator[LedgerEntry]:
    row = ("", "trials of at least 60 s", seconds >= WHOLE_TRIAL_S, f"{seconds:g} s")
    return looked.entries("RFC 2544 section 24", row)


def rfc6201_reset(looked: ClauseContext) -> Iterator[LedgerEntry]:
    """Hold a result against it."""
    resets = looked.result.resets
    measured = [outcome for outcome in resets if not outcome.why]
    by_both_methods = [
        outcome
        for outcome in measured
        if outcome.by_loss_s is not None and outcome.by_time_s is not None
    ]
    methods = (
        "; ".join(f"{outcome.what} ({outcome.type}): both" for outcome in by_both_methods) or "none"
    )
    missing = "; ".join(f"{outcome.what}: {outcome.why}" for outcome in resets if outcome.why)
    lacking = f"; not of {missing}" if measured and missing else ""
    least = min(
        (outcome.by_time_s.n for outcome in by_both_methods if outcome.by_time_s is not None),
        default=0,
    )
    yield from looked.entries(
        "RFC 6201",
        (
            "methods",
            "reset time by lost frames or by time stamps, the method reported",
            bool(measured) and len(by_both_methods) == len(measured),
            methods + lacking,
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
    outcome = looked.result.back_to_back
    if outcome is None:
        return
    has_throughput = outcome.throughput_fps is not None
    throughput = (
        f"{outcome.throughput_fps:.0f} frames/s, all directions" if has_throughput else "none"
    )
    n, longest, step = outcome.frames.n, outcome.max_burst_frames, outcome.step_frames
    bursts = [t.spec.burst for t in looked.trials if t.spec.burst]
    on_steps = bool(bursts) and all(b % step == 0 and step <= b <= longest for b in bursts)
    tries = looked.inputs.get("parameters", {}).get("repeats_after_loss", 0)
    method = f"loss verification, max(r) = {1 + tries}" if tries else "binary search"
    pauses = pauses_after([t for t in looked.trials if t.spec.burst])
    idle = min((pause_s for _, pause_s in pauses), default=None)
    # What a burst has filled takes as long to empty as it took to fill.
    least_idle = max([2.0, *(t.spec.duration_s for t, _ in pauses)])
    short = [
        (pause_s, t.spec.duration_s)
        for t, pause_s in pauses
        if pause_s < max(2.0, t.spec.duration_s) - _START_ROUNDING_S
    ]
    why_short = [
        f"{pause_s:.3g} s after a burst of {burst_s:.3g} s: set back_to_back.idle_s to "
        f"{least_idle:.3g}"
        for pause_s, burst_s in short[:1]
    ]
    gap, least = outcome.gap_ns, 1e9 / outcome.max_rate_fps if outcome.max_rate_fps else 0.0
    at_gap = not looked.nominal and gap is not None and gap <= 1.05 * least
    why_slower = f"the medium's is {least:.4g} ns"
    if looked.nominal:
        why_slower = (
            "a virtual wire has no rate of its own: bursts count that left as fast as a quarter of "
            "this test's own"
        )
    yield from looked.entries(
        "RFC 9004",
        (
            "prerequisites",
            "the throughput without loss is known for the same size and directions",
            has_throughput and not looked.no_throughput,
            throughput,
            looked.no_throughput or "it was not measured",
        ),
        (
            "repeats",
            "N independent searches, N reported (50 in RFC 2544 section 26.4)",
            n >= 50,
            f"N = {n}",
        ),
        (
            "depletion",
            "each burst from idle, at least 2 s after the one before, and as long as that was",
            idle is not None and not short,
            "the log does not show it" if idle is None else f"{idle:.3g} s at the least",
            why_short[0] if why_short else looked.because,
        ),
        (
            "minimum gap",
            "bursts at the medium's minimum gap between frames",
            at_gap,
            "not measured" if gap is None else f"{gap:.4g} ns a frame",
            why_slower,
        ),
        (
            "longest burst",
            "a burst near the longest that was tried is no result",
            not outcome.is_limit,
            f"up to {longest} frames, the longest that came through {outcome.frames.maximum:g}",
            f"{outcome.full_bursts} of {n} searches reached it: set back_to_back.max_burst_s higher"
            if outcome.capped
            else f"within {1 - NEAR_LONGEST:.0%} of it: set back_to_back.max_burst_s higher",
        ),
        (
            "search",
            "TST009 binary search or loss verification, its inputs and step reported",
            on_steps,
            f"{method}; step {step} frames, 1 to {longest} frames; {len(bursts)} bursts",
            "the log has no bursts, or others than those of its steps",
        ),
        _buffer_time(looked, outcome),
    )


def _buffer_time(looked: ClauseContext, outcome: BackToBack) -> Row:
    """Check the buffer time of RFC 9004; the text also has the one for the gap of the bursts."""
    corrected_s, rfc9004_s = outcome.corrected_s, outcome.rfc9004_corrected_s
    value = "none" if rfc9004_s is None else time_s(rfc9004_s)
    if corrected_s is not None:
        value += (
            f"; by the bursts' own gap, and what was forwarded meanwhile, {time_s(corrected_s)}"
        )
    whys = [looked.no_throughput]
    if rfc9004_s is None:
        rate = outcome.max_rate_fps
        whys.append(
            "a burst came near the longest that was tried"
            if outcome.is_limit
            else "neither a medium nor a calibration tells the theoretical rate"
            if rate is None
            else "the throughput is no less than the theoretical rate"
        )
    elif looked.nominal:
        whys.append(
            "a virtual wire has no theoretical rate: that of the generator's calibrated gap stands "
            "for it"
        )
    return (
        "corrected buffer time",
        "the time that the mean burst takes at the largest theoretical rate, corrected by the "
        "throughput",
        not any(whys),
        value,
        "; ".join(filter(None, whys)),
    )
