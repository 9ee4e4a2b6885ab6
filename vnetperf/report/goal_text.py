"""What a search found, in words: bounds with qualifier, trials, losses by hop, busy threads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vnetperf.model.result import DirectionBound, GoalResult, Result, ThreadUse, TrialPoint
from vnetperf.model.trial import Verdict
from vnetperf.report import text
from vnetperf.report.summary import Group

NO_LOAD_MET = "no load met the goal"
NO_LOAD_FAILED = "no load failed"
NOT_MEASURED = "not measured"
NOT_RECORDED = "unknown: not recorded"


def headline_fps(goal: GoalResult) -> float | None:
    """The number a goal is quoted by."""
    if goal.lower_bound_fps is None and goal.qualifier == "at most":
        return goal.upper_bound_fps
    return goal.lower_bound_fps


def qualified_rate(goal: GoalResult, *, short: bool = False) -> str:
    """The headline number with its qualifier, e.g. "at least 14.88 Mfps"."""
    value = headline_fps(goal)
    if value is None:
        return NO_LOAD_MET
    number = text.short_fps(value) if short else text.fps(value)
    return f"{goal.qualifier} {number}".strip()


def irregular_mark(goal: GoalResult) -> str:
    """The mark of an irregular result."""
    return "" if goal.regular else "irregular"


def flag_with_reason(goal: GoalResult) -> str:
    """The mark of an irregular result and why it is one."""
    if goal.regular:
        return "regular"
    return f"irregular: {goal.reason or 'no reason was recorded'}"


def headline(goal: GoalResult) -> str:
    """The number with qualifier and flag, e.g. "at least 14.88 Mfps (irregular)"."""
    mark = irregular_mark(goal)
    return qualified_rate(goal) + (f" ({mark})" if mark else "")


def hover_text(about: str, goal: GoalResult) -> str:
    """What the mark of a goal says when it is pointed at."""
    return (
        f"{about}, {goal.name}: {headline(goal)}\nupper bound: {upper_bound_text(goal)}\n"
        f"{flag_with_reason(goal)}"
    )


def upper_bound_text(bound: GoalResult | DirectionBound) -> str:
    """The upper bound."""
    return NO_LOAD_FAILED if bound.upper_bound_fps is None else text.fps(bound.upper_bound_fps)


def rate_text(value: float | None) -> str:
    """A rate that may be missing."""
    return NOT_MEASURED if value is None else text.fps(value)


def share_text(value: float | None, of: float | None) -> str:
    """A rate as a share of a limit."""
    return NOT_MEASURED if value is None or not of else text.percent(value / of, 3)


def width(goal: GoalResult) -> float | None:
    """How wide the bounds lie apart, as MLRsearch counts it."""
    if goal.lower_bound_fps is None or not goal.upper_bound_fps:
        return None
    return (goal.upper_bound_fps - goal.lower_bound_fps) / goal.upper_bound_fps


def verdict_counts(result: Result) -> str:
    """How many trials got which verdict."""
    counts = (f"{n} {v.value}" for v, n in result.verdicts.items() if n)
    return ", ".join(counts) or "none recorded"


def verdict_text(trial: TrialPoint) -> str:
    """A trial's verdict as a table shows it."""
    if trial.verdict is Verdict.GENERATOR_LIMITED and trial.offered_ratio is None:
        return f"{trial.verdict.value} (generator failed)"
    return trial.verdict.value


def goal_attributes(goal: GoalResult) -> str:
    """Every attribute of a search goal, as MLRsearch asks a report to give them."""
    seconds = goal.initial_trial_s
    initial = "" if seconds is None else f"initial trial {text.seconds(seconds)}, "
    return (
        f"loss ratio {text.percent(goal.loss_ratio)}, exceed ratio "
        f"{text.percent(goal.exceed_ratio)}, {initial}final trial "
        f"{text.seconds(goal.final_trial_s)}, duration sum {text.seconds(goal.duration_sum_s)}, "
        f"relative width {text.percent(goal.width)}"
    )


def search_attributes(result: Result) -> str:
    """How a search's loads relate to the rates of its goals."""
    return (
        f"search {result.algorithm or NOT_RECORDED}, {result.directions} sending interface(s): "
        f"a load is per interface, the rate of a goal their sum (factor {result.in_sum:g})"
    )


def load_range_text(result: Result, trials: Sequence[TrialPoint]) -> str:
    """Smallest and largest load of a test, frames/s per interface."""
    tried = [t.load_fps for t in trials]
    low = result.min_load_fps if result.min_load_fps is not None else min(tried, default=None)
    high = result.max_load_fps if result.max_load_fps is not None else max(tried, default=None)
    return rate_text(low) if low == high else f"{rate_text(low)} to {rate_text(high)}"


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """The trials of one search.

    Attributes:
        count: Trials.
        valid: VALID ones.
        clean: VALID ones without loss.
        clean_max_fps: Highest load per interface of those; None without one.
        lossy_min_fps: Lowest load per interface of a VALID trial that lost frames; None without.
        worst_loss: Largest loss ratio of a VALID trial; None without one.
        clean_burst: Longest burst without loss, frames; 0 where none was sent.
        lossy_burst: Shortest burst that lost frames.
    """

    count: int
    valid: int
    clean: int
    clean_max_fps: float | None
    lossy_min_fps: float | None
    worst_loss: float | None
    clean_burst: int = 0
    lossy_burst: int = 0

    @property
    def sentence(self) -> str:
        """The summary in words, derived from the counts."""
        if not self.count:
            return "no trial"
        said = [f"{self.clean} of {self.valid} VALID trials without loss"]
        if self.clean_burst or self.lossy_burst:
            return ", ".join([*said, *self._bursts()])
        if self.clean_max_fps is not None:
            said.append(f"highest load without loss {text.fps(self.clean_max_fps)}")
        if self.lossy_min_fps is not None:
            said.append(f"lowest load with loss {text.fps(self.lossy_min_fps)}")
        if self.worst_loss:
            said.append(f"largest loss {text.percent(self.worst_loss)}")
        return ", ".join(said)

    def _bursts(self) -> Iterator[str]:
        yield f"longest burst without loss {_burst_text(self.clean_burst)}"
        yield f"shortest with loss {_burst_text(self.lossy_burst)}"


def _burst_text(count: int) -> str:
    return f"{text.frames(count)} frames" if count else "none"


def summarise_trials(trials: Iterable[TrialPoint]) -> TrialSummary:
    """Summarise the trials of one search."""
    found = list(trials)
    valid = [t for t in found if t.verdict is Verdict.VALID and t.loss_ratio is not None]
    clean = [t.load_fps for t in valid if t.loss_ratio == 0]
    lossy = [t.load_fps for t in valid if t.loss_ratio]
    return TrialSummary(
        count=len(found),
        valid=len(valid),
        clean=len(clean),
        clean_max_fps=max(clean, default=None),
        lossy_min_fps=min(lossy, default=None),
        worst_loss=max((t.loss_ratio or 0.0 for t in valid), default=None),
        clean_burst=max((t.burst for t in valid if t.loss_ratio == 0), default=0),
        lossy_burst=min((t.burst for t in valid if t.loss_ratio and t.burst), default=0),
    )


@dataclass(frozen=True, slots=True)
class LossAccount:
    """Frames lost in the VALID trials of one search.

    Attributes:
        trials: VALID trials.
        lossy: Those that lost frames.
        unattributed: Lossy ones that name no hop.
        by_hop: Hop or ring -> frames, the worst first.
    """

    trials: int
    lossy: int
    unattributed: int
    by_hop: dict[str, int]

    @property
    def total(self) -> int:
        """Frames over all hops."""
        return sum(self.by_hop.values())


def account_losses(trials: Iterable[TrialPoint]) -> LossAccount:
    """Sum up where frames died."""
    valid = [t for t in trials if t.verdict is Verdict.VALID]
    lossy = [t for t in valid if t.loss_ratio or t.lost_at]
    hops: Counter[str] = Counter()
    for trial in lossy:
        hops.update(trial.lost_at)
    return LossAccount(
        trials=len(valid),
        lossy=len(lossy),
        unattributed=sum(not any(t.lost_at.values()) for t in lossy),
        by_hop=dict(hops.most_common()),
    )


THREADS_TITLE = "Busy threads at the lower bounds"
_THREADS_HEAD = (
    "octets",
    "goal",
    "role",
    "thread",
    "processor",
    "user",
    "system",
    "descheduled per s",
)
_EVENTS_NOTE = "Events: a second, and a frame that came through in brackets."


def thread_head(group: Group) -> tuple[str, ...]:
    """Names of the columns."""
    return (*_THREADS_HEAD, *_thread_events(group))


def thread_rows(group: Group) -> Iterator[tuple[str, ...]]:
    """A row for each thread of each goal that has a lower bound."""
    events = _thread_events(group)
    for result in group.measured:
        for goal in result.goals:
            for use in goal.threads:
                yield (
                    result.size_name,
                    goal.name,
                    use.role,
                    use.thread,
                    str(use.cpu),
                    text.percent(use.user, 3),
                    text.percent(use.system, 3),
                    text.significant(use.involuntary_switches_per_s, 3),
                    *(_thread_event(use, name) for name in events),
                )


def thread_notes(group: Group) -> tuple[str, ...]:
    """How to read the events, and what could not be told."""
    told = (goal.uncollected for result in group.measured for goal in result.goals)
    missing = dict.fromkeys(f"{name}: {why}" for said in told for name, why in said.items())
    return (*([_EVENTS_NOTE] if _thread_events(group) else []), *missing)


def _thread_events(group: Group) -> tuple[str, ...]:
    uses = (use for r in group.measured for goal in r.goals for use in goal.threads)
    return tuple(dict.fromkeys(name for use in uses for name in use.events_per_s))


def _thread_event(use: ThreadUse, name: str) -> str:
    if name not in use.events_per_s:
        return "not measured"
    each = use.events_per_frame.get(name)
    shown = text.significant(use.events_per_s[name], 3)
    return shown if each is None else f"{shown} ({text.significant(each, 3)})"


def group_notes(group: Group) -> Iterator[str]:
    """Every note of a group."""
    irregular: dict[str, list[str]] = defaultdict(list)
    for result in group.results:
        if result.status == "not measured":
            why = result.why or "no reason was recorded"
            yield f"{result.size_text}: not measured: {why}"
        for goal in result.goals:
            if not goal.regular:
                irregular[flag_with_reason(goal)].append(f"{result.size_name} {goal.name}")
        bad = {v: n for v, n in result.verdicts.items() if n and v is not Verdict.VALID}
        if bad:
            counts = ", ".join(f"{n} {v.value}" for v, n in bad.items())
            yield f"{result.size_text}: trials that classify nothing: {counts}"
    for said, where in irregular.items():
        yield f"{', '.join(where)}: {said}"
