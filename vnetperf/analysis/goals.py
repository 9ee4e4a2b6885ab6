"""Goal results: bounds, latency and thread usage from the trials of a search.

For its own goals and for others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log, log1p, sqrt

from vnetperf.analysis.logged_tests import LoggedTest, is_valid, outcome_of
from vnetperf.model.errors import LogError
from vnetperf.model.frames import l1_bits_per_frame
from vnetperf.model.machine_load import DatapathWork, ThreadEvents
from vnetperf.model.outcomes import Confirmation
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.result import (
    KERNEL,
    BoundTrials,
    DatapathUse,
    DirectionBound,
    GoalResult,
    NodeUse,
    ThreadUse,
)
from vnetperf.model.trial import (
    DirectionCounts,
    Latency,
    TesterTurns,
    TrialOutcome,
    TrialResult,
    TrialSpec,
    Verdict,
    VisitRole,
    same_load,
)
from vnetperf.procedures.base import direction_name, latencies_of
from vnetperf.procedures.cpu_load import ran_of_switch
from vnetperf.results.records import SearchRecord, TrialRecord
from vnetperf.search import (
    Bound,
    GoalOutcome,
    ReplayMismatchError,
    SearchOutcome,
    StopSearch,
    make_search,
    replay,
)
from vnetperf.search.classification import (
    Criterion,
    History,
    LoadClass,
    conditional_throughput,
)
from vnetperf.search.confirmation import confirmed_by_trials
from vnetperf.search.tst009 import ALGORITHM as TST009

#: Why a search whose log has no end was stopped.
_INTERRUPTED = "the run was interrupted"


def _longest(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    longest = max((t.spec.duration_s for t in trials), default=0.0)
    return [t for t in trials if t.spec.duration_s == longest]


def last_of_longest(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial that stands for those at a load."""
    return next(reversed(_longest(trials)), None)


def thread_usage(trials: Sequence[TrialRecord]) -> tuple[ThreadUse, ...]:
    """What the busy threads did in that trial: the kernel's own are none, nor counted by event."""
    trial = last_of_longest(trials)
    if trial is None:
        return ()
    result = trial.result
    frames = result.received
    # Threads of a role may have one name: every collector reports them in the same order.
    events: dict[tuple[str, str], list[ThreadEvents]] = defaultdict(list)
    for one in result.events:
        events[one.role, one.thread].append(one)
    found = []
    for load in (one for one in result.threads if one.role.rpartition(":")[2] != KERNEL):
        same = events[load.role, load.thread]
        counts = same.pop(0).counts if same else {}
        # Threads are watched while the generator arms and waits for the last frames, too.
        seconds = load.watched_s or result.watched_at(load.role) or trial.spec.duration_s
        found.append(
            ThreadUse(
                role=load.role,
                thread=load.thread,
                cpu=load.cpu,
                user=load.user,
                system=load.system,
                involuntary_switches_per_s=load.involuntary_switches / seconds,
                voluntary_switches_per_s=_times(load.voluntary_switches, 1 / seconds),
                waited=None if load.wait_s is None else min(1.0, load.wait_s / seconds),
                events_per_s={name: count / seconds for name, count in counts.items()},
                events_per_frame={name: n / frames for name, n in counts.items() if frames},
            )
        )
    return tuple(found)


def turns_at(trials: Sequence[TrialRecord]) -> TesterTurns | None:
    """How the tester shared its processor in that trial."""
    trial = last_of_longest(trials)
    return None if trial is None else trial.result.turns


def datapath_usage(trials: Sequence[TrialRecord]) -> tuple[DatapathUse, ...]:
    """What the vSwitch's own counters show of that trial."""
    trial = last_of_longest(trials)
    if trial is None:
        return ()
    return tuple(_datapath_use(work, trial.result) for work in trial.result.datapath)


def _datapath_use(work: DatapathWork, result: TrialResult) -> DatapathUse:
    cycles = None if work.idle_cycles is None else work.busy_cycles + work.idle_cycles
    lookups = sum(work.lookups.values())
    nodes = sorted(work.nodes.items(), key=lambda each: -each[1].clocks)
    return DatapathUse(
        thread=work.thread,
        packets=work.packets,
        cycles_per_packet=work.busy_cycles / work.packets if work.packets else None,
        busy=work.busy_cycles / cycles if cycles else None,
        ran=ran_of_switch(work.thread, result),
        lookups={name: count / lookups for name, count in work.lookups.items() if count},
        nodes=tuple(
            NodeUse(
                name=name,
                packets=node.packets,
                clocks_per_packet=node.clocks / node.packets,
                packets_per_call=node.packets / node.calls if node.calls else None,
                input=node.input,
            )
            for name, node in nodes
            if node.packets
        ),
    )


def uncollected_of(trials: Sequence[TrialRecord]) -> dict[str, str]:
    """What could not be measured in that trial."""
    trial = last_of_longest(trials)
    return {} if trial is None else dict(trial.result.uncollected)


def _offered_ratio(
    trials: Sequence[TrialRecord], which: Callable[[Iterable[float]], float], direction: int = -1
) -> float:
    """Offered over intended frames of the longest trials at a load: the least, or the most."""
    ratios = []
    for trial in _longest(trials):
        counted = [c for c in trial.result.directions if direction in (-1, c.direction)]
        if intended := sum(counts.intended for counts in counted):
            ratios.append(sum(map(trial.result.offered, counted)) / intended)
    return which(ratios) if ratios else 1.0


def _offered_whole(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Those that offered their load, as far as it is accurate; of others it is in the loss."""
    return [trial for trial in trials if not outcome_of(trial).is_short]


def _carried(trials: Sequence[TrialRecord], criterion: Criterion) -> list[TrialRecord]:
    """Those of a lower bound by which what was offered there is claimed to be carried."""
    whole = {trial.number for trial in _offered_whole(trials)}
    return [t for t in trials if t.number in whole or criterion.is_low_loss(outcome_of(t))]


def per_direction(
    trials: Sequence[TrialRecord],
    goal: SearchGoal,
    lower: float | None,
    upper: float | None,
    begin: SearchRecord,
    *,
    above: Sequence[TrialRecord] = (),
) -> tuple[DirectionBound, ...]:
    """A goal's result in each direction, by the rules of the search that found it."""
    if lower is None:
        return ()
    criterion = Criterion.of_goal(goal)
    bounds = []
    for direction, counted in sorted(_by_direction(trials).items()):
        outcomes = [
            replace(
                outcome_of(trial),
                loss_ratio=trial.result.loss_ratio(counts),
                interval=trial.result.loss_interval(counts, trial.spec.offered_tolerance),
            )
            for trial, counts in counted
        ]
        share = begin.loads[direction] if begin.loads else 1.0
        least = share * _offered_ratio(_carried(trials, criterion), min, direction)
        most = share * _offered_ratio(above, max, direction)
        whole = share * _offered_ratio(_offered_whole(trials), min, direction)
        conditional = conditional_throughput(lower, outcomes, criterion)
        full = [o.loss_ratio for o in outcomes if criterion.is_full_length(o)]
        bounds.append(
            DirectionBound(
                direction=direction_name(direction, begin.ends),
                lower_bound_fps=lower * least,
                upper_bound_fps=_times(upper, most),
                conditional_throughput_fps=_times(conditional, whole),
                loss_ratio_at_lower_bound=max(full, default=None),
            )
        )
    return tuple(bounds)


def _by_direction(
    trials: Sequence[TrialRecord],
) -> dict[int, list[tuple[TrialRecord, DirectionCounts]]]:
    found: dict[int, list[tuple[TrialRecord, DirectionCounts]]] = {}
    for trial in trials:
        for counts in trial.result.directions:
            found.setdefault(counts.direction, []).append((trial, counts))
    return found


def _timed(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial whose latency stands for those at a load: the last of the longest."""
    full = _longest(trials)
    whole = [
        t
        for t in full
        if t.result.round_trip is not None
        or all(c.latency is not None and c.latency.percentiles for c in t.result.directions)
    ]
    return next(reversed(whole or full), None)


def latency_of(trials: Sequence[TrialRecord], ends: Sequence[str]) -> dict[str, Latency]:
    """Latency at the lower bound."""
    last = _timed(trials)
    return {} if last is None else latencies_of(last.result, ends)


def _outcome(begin: SearchRecord, logged: LoggedTest) -> SearchOutcome:
    """Replay a logged search, and its confirmation."""
    try:
        return _replayed(begin, begin.limits, logged, logged.outcomes())
    except ReplayMismatchError:
        if begin.algorithm != TST009:
            raise
    # An older version went no more than the goal's own width beyond its bounds, and no trial ended
    # a visit by z. The search is to be the same; visits say what they were for.
    searched = [one for one in logged.outcomes() if not one.request.phase]
    found = _replayed(begin, replace(begin.limits, confirm=None), logged, searched)
    results = []
    for one, asked in zip(found.results, begin.goals, strict=True):
        as_then = replace(one, goal=replace(one.goal, width=asked.width))
        results.append(replace(_confirmed(as_then, begin, logged, own=True), goal=one.goal))
    return replace(found, results=tuple(results))


def _replayed(
    begin: SearchRecord, limits: SearchLimits, logged: LoggedTest, trials: Sequence[TrialOutcome]
) -> SearchOutcome:
    """Replay trials; a search that was not finished is stopped where its log ends."""
    search = make_search(begin.algorithm, begin.goals, limits)
    replayed = replay(search, trials)
    if replayed.found is not None:
        return replayed.found
    try:
        search.throw(StopSearch(_why_stopped(logged)))
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome
    raise LogError("the search went on after it was stopped", where=begin.algorithm)


def _why_stopped(logged: LoggedTest) -> str:
    return _INTERRUPTED if logged.end is None else logged.end.stopped


def _confirmed(
    found: GoalOutcome, begin: SearchRecord, logged: LoggedTest, *, own: bool
) -> GoalOutcome:
    """Bounds with the confirmation that the trials after a search give."""
    outcomes = [outcome_of(trial) for trial in filter(is_valid, logged.trials)]
    return confirmed_by_trials(
        found,
        [one for one in outcomes if not one.request.phase],
        [one for one in outcomes if one.request.phase],
        begin.limits,
        own=own,
        stopped=_why_stopped(logged),
    )


def goals_of(begin: SearchRecord, logged: LoggedTest) -> tuple[GoalResult, ...]:
    """The result of a search."""
    return tuple(goal_result(found, begin, logged) for found in _outcome(begin, logged).results)


def goal_result(found: GoalOutcome, begin: SearchRecord, logged: LoggedTest) -> GoalResult:
    """A goal's result: summed over directions, with latency and threads at its bound."""
    goal, n, criterion = found.goal, begin.in_sum, Criterion.of_goal(found.goal)
    lower = found.relevant_lower_bound.load_fps if found.relevant_lower_bound else None
    upper = found.relevant_upper_bound.load_fps if found.relevant_upper_bound else None
    there, above = (
        [] if load is None else [t for t in trials_at(load, logged) if counts_for(t, goal)]
        for load in (lower, upper)
    )
    # What is claimed is what was offered: of a load that was carried the least, else the most.
    least = n * _offered_ratio(_carried(there, criterion), min)
    most, whole = n * _offered_ratio(above, max), n * _offered_ratio(_offered_whole(there), min)
    conditional, timed = found.conditional_throughput_fps, _timed(there)
    at_lower, at_upper = (bound_trials(load, logged, goal) for load in (lower, upper))
    selections = [
        f"{at.discarded} of {at.valid + at.discarded} trials at the {name} bound were discarded"
        for name, at in (("lower", at_lower), ("upper", at_upper))
        if at is not None and at.is_selection
    ]
    confirmation = found.confirmation
    if confirmation is not None:
        confirmation = _counted_again(confirmation, goal, (lower, upper), logged).scaled(n)
    doubts = selections
    if len(logged.deployments) > 1:  # of an older log: a search that is interrupted begins anew
        doubts = [f"its trials are of {len(logged.deployments)} deployments", *selections]
        if confirmation is not None and confirmation.status == "confirmed":
            update = {"status": "not confirmed", "reason": doubts[0]}
            confirmation = confirmation.model_copy(update=update)
    regular = found.regular and not doubts
    reason = "" if found.regular else found.reason
    reason = "; ".join(filter(None, (reason.rstrip("."), *doubts))) if doubts else reason
    at_maximum = lower is not None and same_load(lower, begin.limits.max_load_fps)
    if found.at_least and at_maximum and begin.limit_reason:
        reason = f"{reason.rstrip('.')}; {begin.limit_reason}"
    return GoalResult(
        name=goal.name,
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        initial_trial_s=goal.initial_trial_s,
        final_trial_s=goal.final_trial_s,
        duration_sum_s=goal.duration_sum_s,
        width=goal.width,
        lower_bound_fps=_times(lower, least),
        upper_bound_fps=_times(upper, most),
        lower_bound_load_fps=_times(lower, n),
        upper_bound_load_fps=_times(upper, n),
        conditional_throughput_fps=_times(conditional, whole),
        per_direction=per_direction(there, goal, lower, upper, begin, above=above),
        regular=regular,
        qualifier="at least" if found.at_least else "at most" if found.at_most else "",
        reason=reason,
        throughput_l1_bps=_times(lower, least * l1_bits_per_frame(begin.wire_size)),
        latency=latency_of(there, begin.ends),
        trials_at_lower_bound=tuple(t.number for t in there),
        at_lower_bound=at_lower,
        at_upper_bound=at_upper,
        gaps=timed.result.gaps if timed is not None else None,
        threads=thread_usage(there),
        turns=turns_at(there),
        datapath=datapath_usage(there),
        uncollected=uncollected_of(there),
        confirmation=confirmation,
    )


def _counted_again(
    found: Confirmation, goal: SearchGoal, bounds: Sequence[float | None], logged: LoggedTest
) -> Confirmation:
    """A confirmation, which trials that were repeated until they agreed are none of."""
    if not found.trials:
        return found
    discarded, selections = 0, []
    for name, roles, load in zip(("lower", "upper"), _ROLES, bounds, strict=True):
        again = (t for t in logged.trials if _is_again(t.spec, goal, roles, load))
        there = [_counts_in_visit(trial, goal) for trial in again]
        at = BoundTrials(load_fps=load or 0.0, valid=sum(there), discarded=there.count(False))
        discarded += at.discarded
        if at.is_selection:
            selections.append(
                f"{at.discarded} of {len(there)} confirming trials at the {name} bound were "
                "discarded"
            )
    if selections and found.status == "confirmed":
        found = found.model_copy(
            update={"status": "not confirmed", "reason": "; ".join(selections)}
        )
    return found.model_copy(update={"discarded": discarded})


def _counts_in_visit(trial: TrialRecord, goal: SearchGoal) -> bool:
    """Whether a trial tells anything of a goal that its visit was for.

    One that another goal of the visit lacked is no measurement where it tells nothing of that one.
    """
    by_interval = trial.spec.offered_tolerance < 1.0  # as recorded; an older log has verdicts alone
    return counts_for(trial, goal) or (
        by_interval
        and trial.verdict in (Verdict.GENERATOR_LIMITED, Verdict.TESTER_STALLED)
        and not trial.result.failed
        and Criterion.of_goal(goal).decides(outcome_of(trial))
    )


#: What a goal takes loads for at, and one width beyond, each of its bounds.
_ROLES: tuple[tuple[VisitRole, ...], ...] = (("lower", "below"), ("upper", "above"))


def _is_again(
    spec: TrialSpec, goal: SearchGoal, roles: Sequence[VisitRole], load: float | None
) -> bool:
    """Whether a trial tried a bound again; by its load where the log does not name visits."""
    if spec.phase != "confirm":
        return False
    if spec.visit is not None and goal.name in spec.visit.roles:
        return spec.visit.roles[goal.name] in roles
    return load is not None and same_load(spec.load_fps, load)


def counts_for(trial: TrialRecord, goal: SearchGoal) -> bool:
    """Whether a trial is low-loss or high-loss for a goal, and not a stall or a shortfall."""
    return is_valid(trial) and Criterion.of_goal(goal).decides(outcome_of(trial))


def bound_trials(
    load_fps: float | None, logged: LoggedTest, goal: SearchGoal
) -> BoundTrials | None:
    """How many trials classified the load of a bound, and how many said nothing of it."""
    if load_fps is None:
        return None
    there = [counts_for(t, goal) for t in trials_at(load_fps, logged)]
    return BoundTrials(load_fps=load_fps, valid=sum(there), discarded=there.count(False))


def trials_at(load_fps: float, logged: LoggedTest) -> list[TrialRecord]:
    """The trials that found a bound at a load, with the tolerance of the search."""
    found = (t for t in logged.trials if not t.spec.phase)
    return [t for t in found if same_load(t.spec.load_fps, load_fps)]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


@dataclass(frozen=True)
class MissingTrials:
    """Trials that would have to be run."""

    load_fps: float  # Load of each interface, frames/s
    duration_s: float  # Seconds of each
    count: int  # How many, at the least
    why: str  # What they would decide
    further: int = 0  # Most loads that would have to be tried after it, each in the same way

    def __str__(self) -> str:
        trials = "a trial" if self.count == 1 else f"{self.count} trials"
        text = f"{trials} of {self.duration_s:g} s at {self.load_fps:.0f} frames/s per interface"
        more = f", then up to {self.further} further loads" if self.further else ""
        return f"{text}: {self.why}{more}"


@dataclass(frozen=True)
class Answer:
    """The answer of a log to a goal."""

    result: GoalResult  # The goal's bounds; irregular where trials are missing
    missing: MissingTrials | None  # The trials; None when none are


def answer_goal(begin: SearchRecord, logged: LoggedTest, goal: SearchGoal) -> Answer:
    """Answer a goal from the trials of a search."""
    criterion, limits = Criterion.of_goal(goal), begin.limits
    loads, history = _by_load(logged)
    bounds = history.bounds(criterion)
    lower, upper = (
        None if place is None else Bound(loads[place], history.trials(place))
        for place in (bounds.lower, bounds.upper)
    )
    found = GoalOutcome(
        goal=goal,
        relevant_lower_bound=lower,
        relevant_upper_bound=upper,
        conditional_throughput_fps=None
        if lower is None
        else conditional_throughput(lower.load_fps, lower.trials, criterion),
        regular=False,
        reason="answered from the log of other goals",
        at_least=upper is None and _is_at(lower, limits.max_load_fps),
        at_most=lower is None and _is_at(upper, limits.min_load_fps),
    )
    width, missing = found.relative_width, None
    if found.at_least:
        found = replace(found, reason="the maximum load is carried: the limit is not the DUT's")
    elif width is not None and width <= goal.width:
        found = replace(found, regular=True)
    elif not found.at_most:
        undecided = [
            Bound(load, history.trials(place))
            for place, load in enumerate(loads)
            if history.classify(place, criterion) is LoadClass.UNDECIDED
        ]
        missing = _missing_trials(begin, undecided, lower, upper, goal)
        found = replace(found, reason=f"{found.reason}; missing: {missing}")
    found = _confirmed(found, begin, logged, own=goal in begin.goals)
    return Answer(goal_result(found, begin, logged), missing)


def goals_by_trials(begin: SearchRecord, logged: LoggedTest) -> tuple[GoalResult, ...]:
    """A search's own goals by its trials alone, whatever the search requests today."""
    found = (answer_goal(begin, logged, goal).result for goal in begin.goals)
    return tuple(r.model_copy(update={"reason": ""}) if r.regular else r for r in found)


def _by_load(logged: LoggedTest) -> tuple[list[float], History]:
    """The loads of a search, ascending, and its valid trials by their place among them."""
    loads: list[float] = []
    history = History()
    found = (t for t in logged.trials if is_valid(t) and not t.spec.phase)
    for trial in sorted(found, key=lambda t: t.spec.load_fps):
        if not loads or not same_load(loads[-1], trial.spec.load_fps):
            loads.append(trial.spec.load_fps)
        history.add(len(loads) - 1, outcome_of(trial))
    return loads, history


def _is_at(bound: Bound | None, load_fps: float) -> bool:
    return bound is not None and same_load(bound.load_fps, load_fps)


def _missing_trials(
    begin: SearchRecord,
    undecided: Sequence[Bound],
    lower: Bound | None,
    upper: Bound | None,
    goal: SearchGoal,
) -> MissingTrials:
    """The load to try first, and how often."""
    floor = begin.limits.min_load_fps if lower is None else lower.load_fps
    top = begin.limits.max_load_fps if upper is None else upper.load_fps
    widths = log(top / floor) / -log1p(-goal.width)  # between the bounds; halved by each load
    further = ceil(log(max(widths, 1.0), 2))
    open_ = [one for one in undecided if floor < one.load_fps < top]
    if open_:
        middle = sqrt(floor * top)
        chosen = min(open_, key=lambda one: abs(log(one.load_fps / middle)))
        load, why = chosen.load_fps, "its trials so far decide nothing"
        criterion = Criterion.of_goal(goal)
        counted = (t for t in chosen.trials if criterion.decides(t))
        had = sum(t.duration_s for t in counted if criterion.is_full_length(t))
    elif upper is None and lower is not None:
        load, had, why = top, 0.0, "no load above the lower bound was too much"
    elif lower is None and upper is not None:
        load, had, why = sqrt(floor * top), 0.0, "no load met the goal for long enough"
    elif lower is None:
        load, had, why = top, 0.0, "no load was tried for long enough"
    else:
        load, had, why = sqrt(floor * top), 0.0, "the bounds are wider than the goal's width"
    seconds = max(goal.duration_sum_s - had, goal.final_trial_s)
    count = ceil(seconds / goal.final_trial_s - 1e-9)
    return MissingTrials(load, goal.final_trial_s, count, why, max(0, further - 1))
