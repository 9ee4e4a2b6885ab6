"""Goal results: bounds, latency and thread usage from the trials of a search.

For its own goals and for others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum, inf, log, log1p, sqrt

from vnetperf.analysis.logged_tests import LoggedTest, is_valid, trial_outcome
from vnetperf.log.records import SearchRecord, TrialRecord
from vnetperf.model.errors import LogError
from vnetperf.model.frames import l1_bits_per_frame
from vnetperf.model.machine_load import DatapathWork, ThreadEvents
from vnetperf.model.parameters import SearchGoal
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
    same_load,
)
from vnetperf.plugin.procedure import direction_name
from vnetperf.procedures.base import collect_latencies
from vnetperf.procedures.cpu_load import vswitch_run_share
from vnetperf.search import (
    Bound,
    GoalOutcome,
    SearchOutcome,
    StopSearch,
    make_search,
    replay,
)
from vnetperf.search.classification import (
    Criterion,
    DurationSums,
    History,
    LoadClass,
    classify,
    conditional_throughput,
)

#: A trial that lost so much more than a goal allows is no close miss.
FAR_APART = 0.05
#: Why a search whose log has no end was stopped.
_INTERRUPTED = "the run was interrupted"


def _longest(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    longest = max((t.spec.duration_s for t in trials), default=0.0)
    return [t for t in trials if t.spec.duration_s == longest]


def middle_trial(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial that stands for those at a load: of the longest that with the middle latency.

    The last one would not do: at a lower bound it is the one that completed its class, and lost
    little by construction.
    """
    order = sorted(_longest(trials), key=_mean_latency_ns)
    return order[(len(order) - 1) // 2] if order else None


def _mean_latency_ns(trial: TrialRecord) -> tuple[float, float]:
    """Mean latency of all directions, where it is known; then the loss."""
    latencies = [c.latency for c in trial.result.directions if c.latency is not None]
    frames = sum(latency.count for latency in latencies)
    mean = sum(latency.mean_ns * latency.count for latency in latencies) / frames if frames else inf
    return mean, trial.result.worst_loss_ratio()


def thread_usage(trials: Sequence[TrialRecord]) -> tuple[ThreadUse, ...]:
    """What the busy threads did in that trial: the kernel's own are none, nor counted by event."""
    trial = middle_trial(trials)
    if trial is None:
        return ()
    result = trial.result
    frames = result.received
    # Threads of a role may have one name: every collector reports them in the same order.
    events: dict[tuple[str, str], list[ThreadEvents]] = defaultdict(list)
    for event_counts in result.events:
        events[event_counts.role, event_counts.thread].append(event_counts)
    usage = []
    for load in (load for load in result.threads if load.role.rpartition(":")[2] != KERNEL):
        same = events[load.role, load.thread]
        counts = same.pop(0).counts if same else {}
        # Threads are watched while the generator arms and waits for the last frames, too.
        seconds = load.watched_s or result.watch_time(load.role) or trial.spec.duration_s
        usage.append(
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
    return tuple(usage)


def tester_turns(trials: Sequence[TrialRecord]) -> TesterTurns | None:
    """Return how the tester shared its processor in the middle trial."""
    trial = middle_trial(trials)
    return None if trial is None else trial.result.turns


def datapath_usage(trials: Sequence[TrialRecord]) -> tuple[DatapathUse, ...]:
    """What the vSwitch's own counters show of that trial, and the range of its cycles over all."""
    trial = middle_trial(trials)
    if trial is None:
        return ()
    cycles: dict[str, list[float]] = defaultdict(list)
    for long_trial in _longest(trials):
        for work in long_trial.result.datapath:
            if work.packets:
                cycles[work.thread].append(work.busy_cycles / work.packets)
    usage = []
    for use in (_datapath_use(work, trial.result) for work in trial.result.datapath):
        thread_cycles = cycles[use.thread]
        ends = (min(thread_cycles), max(thread_cycles)) if len(thread_cycles) > 1 else None
        usage.append(use.model_copy(update={"cycles_range": ends}))
    return tuple(usage)


def _datapath_use(work: DatapathWork, result: TrialResult) -> DatapathUse:
    cycles = None if work.idle_cycles is None else work.busy_cycles + work.idle_cycles
    lookups = sum(work.lookups.values())
    nodes = sorted(work.nodes.items(), key=lambda named_node: -named_node[1].clocks)
    return DatapathUse(
        thread=work.thread,
        packets=work.packets,
        cycles_per_packet=work.busy_cycles / work.packets if work.packets else None,
        busy=work.busy_cycles / cycles if cycles else None,
        ran=vswitch_run_share(work.thread, result),
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


def uncollected_figures(trials: Sequence[TrialRecord]) -> dict[str, str]:
    """Return the figures that the middle trial lacks, and why."""
    trial = middle_trial(trials)
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


def _fully_offered_trials(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Select trials that offered their load; for all others the shortfall is in the loss."""
    return [trial for trial in trials if not trial_outcome(trial).is_short]


def _carried(trials: Sequence[TrialRecord], criterion: Criterion) -> list[TrialRecord]:
    """Those of a lower bound by which what was offered there is claimed to be carried."""
    numbers = {trial.number for trial in _fully_offered_trials(trials)}
    return [t for t in trials if t.number in numbers or criterion.is_low_loss(trial_outcome(t))]


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
    criterion = Criterion.from_goal(goal)
    bounds = []
    for direction, counted in sorted(_by_direction(trials).items()):
        outcomes = [
            replace(
                trial_outcome(trial),
                loss_ratio=trial.result.loss_ratio(counts),
                interval=trial.result.loss_interval(counts, trial.spec.offered_tolerance),
            )
            for trial, counts in counted
        ]
        share = begin.loads[direction] if begin.loads else 1.0
        least = share * _offered_ratio(_carried(trials, criterion), min, direction)
        most = share * _offered_ratio(above, max, direction)
        fully_offered = share * _offered_ratio(_fully_offered_trials(trials), min, direction)
        conditional = conditional_throughput(lower, outcomes, criterion)
        full = [o.loss_ratio for o in outcomes if criterion.is_full_length(o)]
        alone = classify(DurationSums.sum_trials(outcomes, criterion), criterion)
        bounds.append(
            DirectionBound(
                direction=direction_name(direction, begin.ends),
                lower_bound_fps=lower * least,
                upper_bound_fps=_times(upper, most),
                conditional_throughput_fps=_times(conditional, fully_offered),
                loss_ratio_at_lower_bound=max(full, default=None),
                exceeds_goal=alone is LoadClass.UPPER,
            )
        )
    return tuple(bounds)


def _by_direction(
    trials: Sequence[TrialRecord],
) -> dict[int, list[tuple[TrialRecord, DirectionCounts]]]:
    counts_by_direction: dict[int, list[tuple[TrialRecord, DirectionCounts]]] = {}
    for trial in trials:
        for counts in trial.result.directions:
            counts_by_direction.setdefault(counts.direction, []).append((trial, counts))
    return counts_by_direction


def middle_latency(trials: Sequence[TrialRecord], ends: Sequence[str]) -> dict[str, Latency]:
    """Return the latency of the middle trial by direction."""
    middle = middle_trial(trials)
    return {} if middle is None else collect_latencies(middle.result, ends)


def latency_range(
    trials: Sequence[TrialRecord], ends: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Least and largest median latency of all full-length trials, nanoseconds, by direction."""
    medians: dict[str, list[float]] = defaultdict(list)
    for trial in _longest(trials):
        for name, latency in collect_latencies(trial.result, ends).items():
            if "50" in latency.percentiles:
                medians[name].append(latency.percentiles["50"])
    return {name: (min(values_ns), max(values_ns)) for name, values_ns in medians.items()}


def loss_share(trials: Sequence[TrialRecord]) -> float | None:
    """Return the share of frames lost in all trials at a load; None without any frame."""
    counted = [(t.result, d) for t in trials for d in t.result.directions]
    offered = sum(result.offered(d) for result, d in counted)
    return sum(max(0, result.lost(d)) for result, d in counted) / offered if offered else None


def wavering_load(trials: Iterable[TrialOutcome], goal: SearchGoal) -> float | None:
    """The largest load that trials of one search carried and lost far of; None for none.

    What does both at a load is in one of two states, and a search that ended has seen one of them
    more often than the other.

    Returns:
        Frames/s per interface.
    """
    loads = [(trial.load_fps, trial.loss) for trial in trials]
    carried = {load for load, loss in loads if loss.is_low(goal.loss_ratio)}
    lost = {load for load, loss in loads if loss.is_high(goal.loss_ratio + FAR_APART)}
    return max((a for a in carried if any(same_load(a, b) for b in lost)), default=None)


def loss_free_load(trials: Sequence[TrialRecord], duration_sum_s: float) -> float | None:
    """The largest load with enough time of trials and no frame lost, there or at any lower load.

    Args:
        trials: All trials of the searches, those that classify nothing too.
        duration_sum_s: Seconds that are enough.

    Returns:
        Frames/s per interface; None for none.
    """
    largest_fps = None
    counted = [t for t in trials if t.result.directions and not t.result.failed]
    by_load: list[tuple[float, list[TrialRecord]]] = []
    for trial in sorted(counted, key=lambda t: t.spec.load_fps):
        if not by_load or not same_load(by_load[-1][0], trial.spec.load_fps):
            by_load.append((trial.spec.load_fps, []))
        by_load[-1][1].append(trial)
    for load, load_trials in by_load:
        if any(t.result.lost(d) > 0 for t in load_trials for d in t.result.directions):
            break
        seconds = sum(t.spec.duration_s for t in load_trials if not trial_outcome(t).is_short)
        if seconds >= duration_sum_s or same_load(seconds, duration_sum_s):
            largest_fps = load
    return largest_fps


def _outcome(begin: SearchRecord, logged: LoggedTest) -> SearchOutcome:
    """Replay a logged search; one that was not finished is stopped where its log ends."""
    search = make_search(begin.algorithm, begin.goals, begin.limits)
    replayed = replay(search, logged.outcomes())
    if replayed.outcome is not None:
        return replayed.outcome
    try:
        search.throw(StopSearch(_stop_reason(logged)))
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome
    raise LogError("the search went on after it was stopped", where=begin.algorithm)


def _stop_reason(logged: LoggedTest) -> str:
    return _INTERRUPTED if logged.end is None else logged.end.stopped


def derive_goals(begin: SearchRecord, logged: LoggedTest) -> tuple[GoalResult, ...]:
    """The result of a search."""
    return tuple(goal_result(outcome, begin, logged) for outcome in _outcome(begin, logged).results)


def goal_result(outcome: GoalOutcome, begin: SearchRecord, logged: LoggedTest) -> GoalResult:
    """A goal's result: summed over directions, with latency and threads at its bound."""
    goal, n, criterion = outcome.goal, begin.in_sum, Criterion.from_goal(outcome.goal)
    lower = outcome.relevant_lower_bound.load_fps if outcome.relevant_lower_bound else None
    upper = outcome.relevant_upper_bound.load_fps if outcome.relevant_upper_bound else None
    lower_trials, upper_trials = (
        [] if load is None else [t for t in select_trials(load, logged) if counts_for(t, goal)]
        for load in (lower, upper)
    )
    # What is claimed is what was offered: of a load that was carried the least, else the most.
    least = n * _offered_ratio(_carried(lower_trials, criterion), min)
    most = n * _offered_ratio(upper_trials, max)
    fully_offered = n * _offered_ratio(_fully_offered_trials(lower_trials), min)
    conditional, middle = outcome.conditional_throughput_fps, middle_trial(lower_trials)
    at_lower, at_upper = (bound_trials(load, logged, goal) for load in (lower, upper))
    selections = [
        f"{bound.discarded} of {bound.valid + bound.discarded} trials at the {name} bound were "
        "discarded"
        for name, bound in (("lower", at_lower), ("upper", at_upper))
        if bound is not None and bound.is_selection
    ]
    regular = outcome.regular and not selections
    reason = "" if outcome.regular else outcome.reason
    if selections:
        reason = "; ".join(filter(None, (reason.rstrip("."), *selections)))
    at_maximum = lower is not None and same_load(lower, begin.limits.max_load_fps)
    if outcome.at_least and at_maximum and begin.limit_reason:
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
        conditional_throughput_fps=_times(conditional, fully_offered),
        per_direction=per_direction(lower_trials, goal, lower, upper, begin, above=upper_trials),
        regular=regular,
        qualifier="at least" if outcome.at_least else "at most" if outcome.at_most else "",
        reason=reason,
        throughput_l1_bps=_times(lower, least * l1_bits_per_frame(begin.wire_size)),
        latency=middle_latency(lower_trials, begin.ends),
        latency_range_ns=latency_range(lower_trials, begin.ends),
        trial=middle.number if middle is not None else 0,
        search=begin.search,
        loss_at_lower_bound=loss_share(lower_trials),
        loss_free_fps=_times(loss_free_load(logged.trials, goal.duration_sum_s), n),
        wavers_at_fps=_times(wavering_load(_classifying(logged), goal), n),
        trials_at_lower_bound=tuple(t.number for t in lower_trials),
        at_lower_bound=at_lower,
        at_upper_bound=at_upper,
        gaps=middle.result.gaps if middle is not None else None,
        threads=thread_usage(lower_trials),
        turns=tester_turns(lower_trials),
        datapath=datapath_usage(lower_trials),
        uncollected=uncollected_figures(lower_trials),
    )


def _classifying(logged: LoggedTest) -> list[TrialOutcome]:
    return [logged.outcome(t) for t in logged.trials if is_valid(t) and t.spec.phase != "warm-up"]


def on_medium(goals: Iterable[GoalResult], media_max_fps: float | None) -> tuple[GoalResult, ...]:
    """Goals without L1 bit/s where no medium carries what is around a frame."""
    if media_max_fps is not None:
        return tuple(goals)
    return tuple(goal.model_copy(update={"throughput_l1_bps": None}) for goal in goals)


def counts_for(trial: TrialRecord, goal: SearchGoal) -> bool:
    """Whether a trial is low-loss or high-loss for a goal, and not a stall or a shortfall."""
    return is_valid(trial) and Criterion.from_goal(goal).decides(trial_outcome(trial))


def bound_trials(
    load_fps: float | None, logged: LoggedTest, goal: SearchGoal
) -> BoundTrials | None:
    """How many trials classified the load of a bound, and how many said nothing of it."""
    if load_fps is None:
        return None
    criterion, load_trials = Criterion.from_goal(goal), select_trials(load_fps, logged)
    counted = [trial_outcome(trial) for trial in load_trials if counts_for(trial, goal)]
    left_s = fsum(t.spec.duration_s for t in load_trials if not counts_for(t, goal))
    sums = DurationSums.sum_trials(counted, criterion)
    is_lower = classify(sums, criterion) is LoadClass.LOWER
    opposite = (
        replace(sums, full_high=sums.full_high + left_s)
        if is_lower
        else replace(sums, full_low=sums.full_low + left_s)
    )
    return BoundTrials(
        load_fps=load_fps,
        valid=len(counted),
        discarded=len(load_trials) - len(counted),
        could_differ=classify(opposite, criterion) is not classify(sums, criterion),
    )


def select_trials(load_fps: float, logged: LoggedTest) -> list[TrialRecord]:
    """Select the trials at a load, whatever their verdict, without those of the warm-up."""
    trials = (t for t in logged.trials if t.spec.phase != "warm-up")
    return [t for t in trials if same_load(t.spec.load_fps, load_fps)]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


@dataclass(frozen=True)
class MissingTrials:
    """Trials that would have to be run."""

    load_fps: float  # Load of each interface, frames/s
    duration_s: float  # Seconds of each
    count: int  # How many, at the least
    purpose: str  # What they would decide
    further: int = 0  # Most loads that would have to be tried after it, each in the same way

    def __str__(self) -> str:
        trials = "a trial" if self.count == 1 else f"{self.count} trials"
        text = f"{trials} of {self.duration_s:g} s at {self.load_fps:.0f} frames/s per interface"
        continuation = f", then up to {self.further} further loads" if self.further else ""
        return f"{text}: {self.purpose}{continuation}"


_ANSWERED = "answered from the log of other goals"
_BY_TRIALS = "all trials of the search together do not decide it"


@dataclass(frozen=True)
class Answer:
    """The answer of a log to a goal."""

    result: GoalResult  # The goal's bounds; irregular where trials are missing
    missing: MissingTrials | None  # The trials; None when none are


def answer_goal(begin: SearchRecord, logged: LoggedTest, goal: SearchGoal) -> Answer:
    """Answer a goal from the trials of a search."""
    criterion, limits = Criterion.from_goal(goal), begin.limits
    loads, history = _by_load(logged)
    bounds = history.bounds(criterion)
    lower, upper = (
        None if place is None else Bound(loads[place], history.trials(place))
        for place in (bounds.lower, bounds.upper)
    )
    outcome = GoalOutcome(
        goal=goal,
        relevant_lower_bound=lower,
        relevant_upper_bound=upper,
        conditional_throughput_fps=None
        if lower is None
        else conditional_throughput(lower.load_fps, lower.trials, criterion),
        regular=False,
        reason=_ANSWERED,
        at_least=upper is None and _equals_load(lower, limits.max_load_fps),
        at_most=lower is None and _equals_load(upper, limits.min_load_fps),
    )
    width, missing = outcome.relative_width, None
    if outcome.at_least:
        outcome = replace(outcome, reason="the maximum load is carried: the limit is not the DUT's")
    elif limits.sweep is not None and (
        doubtful := history.doubtful(bounds.lower or 0, criterion, limits.tries)
    ):
        load = loads[doubtful[-1]]
        count = ceil(goal.duration_sum_s / goal.final_trial_s)
        purpose = "a trial there, below the lower bound, lost more than the goal allows"
        missing = MissingTrials(load, goal.final_trial_s, count, purpose)
        outcome = replace(outcome, reason=f"{outcome.reason}; missing: {missing}")
    elif width is not None and width <= goal.width:
        outcome = replace(outcome, regular=True)
    elif not outcome.at_most:
        undecided = [
            Bound(load, history.trials(place))
            for place, load in enumerate(loads)
            if history.classify(place, criterion) is LoadClass.UNDECIDED
        ]
        missing = _missing_trials(begin, undecided, lower, upper, goal)
        outcome = replace(outcome, reason=f"{outcome.reason}; missing: {missing}")
    return Answer(goal_result(outcome, begin, logged), missing)


def goals_by_trials(begin: SearchRecord, logged: LoggedTest) -> tuple[GoalResult, ...]:
    """A search's own goals by its trials alone, whatever the search requests today."""
    answers = (answer_goal(begin, logged, goal).result for goal in begin.goals)
    return tuple(
        r.model_copy(
            update={"reason": "" if r.regular else r.reason.replace(_ANSWERED, _BY_TRIALS)}
        )
        for r in answers
    )


def _by_load(logged: LoggedTest) -> tuple[list[float], History]:
    """The loads of a search, ascending, and its valid trials by their place among them."""
    loads: list[float] = []
    history = History()
    trials = (t for t in logged.trials if is_valid(t) and t.spec.phase != "warm-up")
    for trial in sorted(trials, key=lambda t: t.spec.load_fps):
        if not loads or not same_load(loads[-1], trial.spec.load_fps):
            loads.append(trial.spec.load_fps)
        history.add(len(loads) - 1, logged.outcome(trial))
    return loads, history


def _equals_load(bound: Bound | None, load_fps: float) -> bool:
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
    open_ = [bound for bound in undecided if floor < bound.load_fps < top]
    if open_:
        middle = sqrt(floor * top)
        chosen = min(open_, key=lambda bound: abs(log(bound.load_fps / middle)))
        load, purpose = chosen.load_fps, "its trials so far decide nothing"
        criterion = Criterion.from_goal(goal)
        counted = (t for t in chosen.trials if criterion.decides(t))
        had = sum(t.duration_s for t in counted if criterion.is_full_length(t))
    elif upper is None and lower is not None:
        load, had, purpose = top, 0.0, "no load above the lower bound was too much"
    elif lower is None and upper is not None:
        load, had, purpose = sqrt(floor * top), 0.0, "no load met the goal for long enough"
    elif lower is None:
        load, had, purpose = top, 0.0, "no load was tried for long enough"
    else:
        load, had, purpose = sqrt(floor * top), 0.0, "the bounds are wider than the goal's width"
    seconds = max(goal.duration_sum_s - had, goal.final_trial_s)
    count = ceil(seconds / goal.final_trial_s - 1e-9)
    return MissingTrials(load, goal.final_trial_s, count, purpose, max(0, further - 1))
