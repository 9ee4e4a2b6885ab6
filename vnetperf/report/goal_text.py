"""What a search found, in words: bounds with qualifier, trials, losses by hop, busy threads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from vnetperf.model import units
from vnetperf.model.result import (
    DatapathUse,
    DirectionBound,
    GoalResult,
    NodeUse,
    Profile,
    Result,
    RoleUse,
    ThreadUse,
    TrialPoint,
)
from vnetperf.model.trial import Latency, RoundTrip, TesterTurns, TrialGaps, Verdict
from vnetperf.report.summary import Case, Group, case_of, shown_trials
from vnetperf.report.table import NONE, Cell, Column, Table, group_sentences
from vnetperf.report.text import known

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
    shown = units.short_fps if short else units.fps
    least, most = goal.least_fps, goal.most_fps
    if goal.repeatable is False and goal.rounds:
        if most is None:
            return f"{shown(least or 0.0)}{'+' if short else ' or more'}"
        return f"{shown(least or 0.0)}{'-' if short else ' to '}{shown(most)}"
    number = shown(value)
    return f"{goal.qualifier} {number}".strip()


def short_rate(goal: GoalResult) -> str:
    """The same for a column of a terminal."""
    return "none met" if headline_fps(goal) is None else qualified_rate(goal, short=True)


def flag_with_reason(goal: GoalResult) -> str:
    """The mark of a result that is irregular, or not repeatable, and why it is one."""
    if not goal.mark:
        return "regular"
    return f"{goal.mark}: {goal.reason or 'no reason was recorded'}"


def repeatable_text(goal: GoalResult) -> str:
    """Whether rounds agree, and what each of them found."""
    if goal.repeatable is None:
        return "one search: not known"
    found = ", ".join(NO_LOAD_MET if one is None else units.fps(one) for one in _lowers(goal))
    return f"{'yes' if goal.repeatable else 'no'}: {len(goal.rounds)} rounds found {found}"


def _lowers(goal: GoalResult) -> list[float | None]:
    return [one.lower_bound_fps for one in goal.rounds]


def headline(goal: GoalResult, over_deployments: str = "") -> str:
    """The number with qualifier and flag, e.g. "at least 14.88 Mfps (irregular)".

    `over_deployments` stands for it where several deployments gave it.
    """
    number = over_deployments or qualified_rate(goal)
    marks = ", ".join(filter(None, (goal.mark, goal.caveat)))
    return f"{number} ({marks})" if marks else number


def loss_free_text(goal: GoalResult) -> str:
    """The largest load without loss, there and below."""
    return "none" if goal.loss_free_fps is None else units.fps(goal.loss_free_fps)


def upper_bound_text(bound: GoalResult | DirectionBound) -> str:
    """The upper bound."""
    return NO_LOAD_FAILED if bound.upper_bound_fps is None else units.fps(bound.upper_bound_fps)


def rate_text(value: float | None) -> str:
    """A rate that may be missing."""
    return NOT_MEASURED if value is None else units.fps(value)


def share_text(value: float | None, of: float | None) -> str:
    """A rate as a share of a limit."""
    return NOT_MEASURED if value is None or not of else units.percent(value / of, 3)


def verdict_counts(result: Result) -> str:
    """How many trials got which verdict."""
    counts = (f"{n} {v.value}" for v, n in result.verdicts.items() if n)
    return ", ".join(counts) or "none recorded"


def verdict_text(trial: TrialPoint) -> str:
    """A trial's verdict as a table shows it, with its phase where it found no bounds."""
    parts = [trial.verdict.value]
    if trial.verdict is Verdict.GENERATOR_LIMITED and trial.offered_ratio is None:
        parts[0] += " (generator failed)"
    return ", ".join([*parts, *filter(None, [trial.phase])])


def goal_attributes(goal: GoalResult) -> str:
    """Every attribute of a search goal, as MLRsearch requires of a report."""
    seconds = goal.initial_trial_s
    initial = "" if seconds is None else f"initial trial {units.seconds(seconds)}, "
    return (
        f"loss ratio {units.percent(goal.loss_ratio)}, exceed ratio "
        f"{units.percent(goal.exceed_ratio)}, {initial}final trial "
        f"{units.seconds(goal.final_trial_s)}, duration sum {units.seconds(goal.duration_sum_s)}, "
        f"relative width {units.percent(goal.width)}"
    )


def search_attributes(result: Result) -> str:
    """How a search's loads relate to the rates of its goals."""
    return (
        f"search {result.algorithm or NOT_RECORDED}, {result.directions} sending interface(s): "
        f"a load is per interface, the rate of a goal their sum (factor {result.in_sum:g}) as it "
        "was offered: at a lower bound the least in its trials, at an upper bound the most"
    )


def load_range_text(result: Result, trials: Sequence[TrialPoint]) -> str:
    """Smallest and largest load of a test, frames/s per interface."""
    tried = [t.load_fps for t in trials]
    low = result.min_load_fps if result.min_load_fps is not None else min(tried, default=None)
    high = result.max_load_fps if result.max_load_fps is not None else max(tried, default=None)
    return rate_text(low) if low == high else f"{rate_text(low)} to {rate_text(high)}"


def trials_text(trials: Iterable[TrialPoint]) -> str:
    """The trials of one search in a sentence; loads are those of an interface."""
    found = list(trials)
    if not found:
        return "no trial"
    valid = [t for t in found if t.verdict is Verdict.VALID and t.loss_ratio is not None]
    clean, lossy = [t for t in valid if not t.loss_ratio], [t for t in valid if t.loss_ratio]
    parts = [f"{len(clean)} of {len(valid)} VALID trials without loss"]
    longest = max((t.burst for t in clean), default=0)
    shortest = min((t.burst for t in lossy if t.burst), default=0)
    if longest or shortest:
        parts.append(f"longest burst without loss {_burst_text(longest)}")
        parts.append(f"shortest with loss {_burst_text(shortest)}")
        return ", ".join(parts)
    if clean:
        parts.append(f"highest load without loss {units.fps(max(t.load_fps for t in clean))}")
    if lossy:
        parts.append(f"lowest load with loss {units.fps(min(t.load_fps for t in lossy))}")
        parts.append(f"largest loss {units.percent(max(t.loss_ratio or 0.0 for t in lossy))}")
    return ", ".join(parts)


def _burst_text(count: int) -> str:
    return f"{units.frames(count)} frames" if count else "none"


@dataclass(frozen=True, slots=True)
class LossAccount:
    """Frames lost in the VALID trials of one search."""

    trials: int
    lossy: int
    unattributed: int  # Lossy ones that name no hop
    by_hop: dict[str, int]  # Hop or ring -> frames, the worst first

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


@dataclass(frozen=True, slots=True)
class RateRow:
    """What a search found: of a goal over all directions, or of one direction."""

    result: Result
    goal: GoalResult
    direction: str  # "phy0->phy1"; "" for their sum
    #: Its bounds; None of a direction of which only the latency is known.
    bound: GoalResult | DirectionBound | None
    latency: Latency | None = None
    #: The generator's clean maximum, aggregate frames/s; None where a rate is no share of it.
    generator_fps: float | None = None

    @property
    def loss(self) -> float | None:
        """Loss ratio at the lower bound over all trials there; of a direction the worst of them."""
        if not self.direction and self.goal.loss_at_lower_bound is not None:
            return self.goal.loss_at_lower_bound
        bounds = [self.bound] if self.direction else self.goal.per_direction
        known = [b.loss_ratio_at_lower_bound for b in bounds if isinstance(b, DirectionBound)]
        return max((loss for loss in known if loss is not None), default=None)


def rate_rows(result: Result, group: Group | None = None) -> Iterator[RateRow]:
    """Each goal, followed by its directions; of a group with shares of the generator."""
    alike = group is not None and result.frame_size not in group.unlike_generator
    for goal in result.goals:
        yield RateRow(
            result, goal, "", goal, generator_fps=result.generator_max_fps if alike else None
        )
        bounds = {b.direction: b for b in goal.per_direction}
        for name in dict.fromkeys([*bounds, *goal.latency]):
            yield RateRow(result, goal, name, bounds.get(name), goal.latency.get(name))


#: Stands on a terminal for what has no number.
_NO_NUMBER = "-"


def _rate_cell(value: float | None, missing: str | None = NOT_MEASURED) -> Cell:
    if value is None:
        return Cell(NONE if missing is None else missing, _NO_NUMBER)
    return Cell(units.fps(value), units.short_fps(value))


def _lower_cell(row: RateRow) -> Cell:
    if row.direction:
        return _rate_cell(row.bound.lower_bound_fps if row.bound else None)
    mark = (row.goal.mark, "warn") if row.goal.mark else None
    return Cell(qualified_rate(row.goal), short_rate(row.goal), mark, why=row.goal.reason)


def _upper_cell(row: RateRow) -> Cell:
    missing = NO_LOAD_FAILED if row.bound else NOT_MEASURED
    return _rate_cell(row.bound.upper_bound_fps if row.bound else None, missing)


def _conditional_cell(row: RateRow) -> Cell:
    missing = NOT_MEASURED if row.direction else None
    return _rate_cell(row.bound.conditional_throughput_fps if row.bound else None, missing)


def _loss_cell(row: RateRow) -> Cell:
    if row.loss is None:
        return Cell(NONE, _NO_NUMBER)
    tiny = 0 < row.loss < _SMALLEST_SHOWN
    return Cell(units.percent(row.loss), "<.01" if tiny else units.significant(100 * row.loss, 2))


#: Smallest loss ratio that fits a column of a terminal.
_SMALLEST_SHOWN = 1e-4


def _l1_cell(row: RateRow) -> Cell:
    l1 = row.goal.throughput_l1_bps
    if l1 is None:
        return Cell(NONE, _NO_NUMBER)
    return Cell(units.gigabits(l1), units.significant(l1 / 1e9, 3))


def _share_cell(row: RateRow, of: float | None) -> Cell:
    value = headline_fps(row.goal)
    known = value is not None and of
    short = units.significant(100 * value / of, 3) if known and value and of else _NO_NUMBER
    return Cell(share_text(value, of), short)


def _percentile_cell(row: RateRow, level: str) -> Cell:
    value = row.latency.percentiles.get(level) if row.latency else None
    cell = _time_cell(value, NONE)
    ends = row.goal.latency_range_ns.get(row.direction) if level == "50" else None
    if value is not None and ends is not None and ends[0] < ends[1]:
        low, high = map(units.nanoseconds, ends)
        cell = replace(cell, text=f"{cell.text} ({low} to {high})")
    return _bound_by_tester(row, level, cell)


def _time_cell(value: float | None, missing: str) -> Cell:
    if value is None:
        return Cell(missing, _NO_NUMBER)
    return Cell(units.nanoseconds(value), units.significant(value / 1000, 3 if value < 1e6 else 4))


def _largest_cell(row: RateRow) -> Cell:
    value = row.latency.max_ns if row.latency else None
    return _bound_by_tester(row, "max", _time_cell(value, NOT_MEASURED))


def _bound_by_tester(row: RateRow, level: str, cell: Cell) -> Cell:
    gaps = row.goal.gaps
    if gaps is None or row.latency is None or level not in gaps.bounds(row.latency, row.direction):
        return cell
    return replace(cell, mark=(TESTER_BOUND, "warn"), why=f"poll gaps: {gaps_text(gaps)}")


#: The mark of a latency that the tester's own wait may explain.
TESTER_BOUND = "tester-bound"


def discarded_text(goal: GoalResult) -> str:
    """Trials discarded at each bound, of all that were run there."""
    bounds = (("lower", goal.at_lower_bound), ("upper", goal.at_upper_bound))
    known = [f"{name} {at.discarded} of {at.valid + at.discarded}" for name, at in bounds if at]
    return ", ".join(known) or NOT_RECORDED


def _discarded_share(goal: GoalResult) -> str:
    """Trials discarded at both bounds, of all there, where a note has the rest."""
    known = [at for at in (goal.at_lower_bound, goal.at_upper_bound) if at]
    if not known:
        return NONE
    return f"{sum(at.discarded for at in known)}/{sum(at.valid + at.discarded for at in known)}"


def gaps_text(gaps: TrialGaps | None) -> str:
    """The tester's gaps of polling, which are part of every latency."""
    if gaps is None:
        return "not recorded"
    levels = ("50", "99", "99.9")
    known = [f"p{x} {_gap(gaps.poll.percentiles[x])}" for x in levels if x in gaps.poll.percentiles]
    return ", ".join([*known, f"max {_gap(gaps.poll.max_s)}"])


def _gap(gap_s: float) -> str:
    return units.nanoseconds(gap_s * 1e9)


def tester_bound_text(gaps: TrialGaps | None, latency: Latency | None, way: str) -> str:
    """The values of a latency that the tester's own wait may explain; "" for none."""
    if gaps is None or latency is None:
        return ""
    return ", ".join(x if x == "max" else f"p{x}" for x in gaps.bounds(latency, way))


def untimed_text(latency: Latency) -> str:
    """Frames whose latency is not, or not fully, among the values; "" for none."""
    counts = (
        (latency.before_departure, "frames arrived before they had left, and are in no latency"),
        (latency.above_range, "frames took over 10 s, and are in mean and maximum only"),
    )
    return ", ".join(f"{units.frames(n)} {what}" for n, what in counts if n)


RateColumns: TypeAlias = tuple[Column[RateRow], ...]
#: Columns of a goal's number that each report has.
_GOAL: Column[RateRow] = Column("goal", lambda row: row.goal.name, words=True)
_LOWER: Column[RateRow] = Column("lower bound", _lower_cell)
_LOSS: Column[RateRow] = Column("loss at lower bound", _loss_cell)
_BOUNDS: RateColumns = (
    _LOWER,
    Column("upper bound", _upper_cell),
    Column("conditional throughput", _conditional_cell),
    _LOSS,
)
_L1: Column[RateRow] = Column("L1 Gbit/s", _l1_cell)
_FREE: Column[RateRow] = Column("loss-free", lambda row: Cell(loss_free_text(row.goal)))
_LATENCIES: RateColumns = (
    Column("latency p50", lambda row: _percentile_cell(row, "50")),
    Column("p99", lambda row: _percentile_cell(row, "99")),
    Column("max", _largest_cell),
)
_OF_GOALS: RateColumns = (
    Column("frame size (octets with FCS)", lambda row: row.result.size_name, words=True),
    _GOAL,
    Column("lower bound, aggregate", _lower_cell, bold=True),
    Column("upper bound, aggregate", _upper_cell),
    Column("conditional throughput, aggregate", _conditional_cell),
    _LOSS,
    Column("loss-free load", lambda row: loss_free_text(row.goal)),
    _L1,
    Column("theoretical maximum, aggregate", lambda row: rate_text(row.result.media_max_fps)),
    Column("of it", lambda row: _share_cell(row, row.result.media_max_fps)),
    Column("of the generator", lambda row: _share_cell(row, row.generator_fps)),
    Column("trials", lambda row: str(row.result.trial_count)),
    Column("discarded at the bounds", lambda row: discarded_text(row.goal), words=True),
    Column("regular?", lambda row: flag_with_reason(row.goal), words=True),
    Column("repeatable?", lambda row: repeatable_text(row.goal), words=True),
)
_OF_DIRECTIONS: RateColumns = (
    Column("octets", lambda row: row.result.size_name, words=True),
    _GOAL,
    Column("direction", lambda row: row.direction, words=True),
    *_BOUNDS,
    *_LATENCIES,
    Column("tester's poll gaps", lambda row: gaps_text(row.goal.gaps), words=True),
)
#: The page has goals and their directions in one table; what is the goal's alone is first.
PAGE_COLUMNS: RateColumns = (
    *_BOUNDS,
    _FREE,
    _L1,
    Column("of medium", lambda row: _share_cell(row, row.result.media_max_fps)),
    Column("of generator", lambda row: _share_cell(row, row.generator_fps)),
    Column("discarded", lambda row: _discarded_share(row.goal)),
    *_LATENCIES,
    Column("poll gap", lambda row: known(row.goal.gaps, lambda gaps: _gap(gaps.poll.max_s))),
)
_TERMINAL_COLUMNS: RateColumns = (
    Column("lower bound\nfps", _lower_cell),
    Column(
        "",
        lambda row: Cell("" if row.direction else SHORT_MARKS.get(row.goal.mark, ""), role="warn"),
    ),
    Column("loss\n%", _loss_cell),
    Column("upper\nfps", _upper_cell),
    Column("cond.\nfps", _conditional_cell),
    Column("L1\nGb/s", _l1_cell),
    Column("% of\ngen.", lambda row: _share_cell(row, row.generator_fps)),
    Column("p50\nµs", lambda row: _percentile_cell(row, "50")),
    Column("p99\nµs", lambda row: _percentile_cell(row, "99")),
    Column("max\nµs", _largest_cell),
)
#: The marks of results on a terminal; the legend below the table spells them out.
SHORT_MARKS: dict[str, str] = {"irregular": "irreg.", "not repeatable": "range"}
#: Cells that only a goal has, and those that only a direction has.
_GOAL_ONLY = ("L1", "of ", "% of", "discarded", "loss-free")
_DIRECTION_ONLY = ("latency", "p50", "p99", "max", "poll gap")


def rate_cells(row: RateRow, columns: RateColumns) -> Iterator[Cell]:
    """Cells of a row that stands among rows of goals and directions."""
    without = _GOAL_ONLY if row.direction else _DIRECTION_ONLY
    for column in columns:
        yield Cell("") if column.name.startswith(without) else column.shown(row)


def rate_table(group: Group) -> Table:
    """Each goal and its directions below the frame size, as narrow as a terminal is."""
    rows = []
    for result in group.measured:
        discarded = f", {result.discarded} discarded" if result.discarded else ""
        trials = Cell(f"{result.trial_count} trials{discarded}", role="faint")
        rest = [Cell("")] * (len(_TERMINAL_COLUMNS) - 1)
        rows.append((Cell(result.size_short, role="head"), trials, *rest))
        for row in rate_rows(result, group):
            name = Cell(
                f" {row.direction or row.goal.name}", role="faint" if row.direction else "strong"
            )
            lower, *cells = rate_cells(row, _TERMINAL_COLUMNS)
            bound = lower if row.direction else replace(lower, role="strong")
            rows.append((name, bound, *cells))
    names: Column[RateRow] = Column("size, goal,\ndirection", lambda row: row.goal.name, words=True)
    return Table(group.title, (names, *_TERMINAL_COLUMNS), tuple(rows))


def goal_table(group: Group) -> Table:
    """What was found of each goal."""
    rows = (row for r in group.measured for row in rate_rows(r, group) if not row.direction)
    return Table.of("", _OF_GOALS, rows, _unlike_generator(group))


def direction_table(group: Group) -> Table:
    """What was found of each direction."""
    rows = (row for r in group.measured for row in rate_rows(r) if row.direction)
    notes = [note for r in group.measured for goal in r.goals for note in _latency_notes(r, goal)]
    return Table.of("Each direction", _OF_DIRECTIONS, rows, notes)


#: Of rows that begin with a result, and then a goal of it.
_OCTETS: Column[Any] = Column("octets", lambda of: of[0].size_name, words=True)
_GOAL_NAME: Column[Any] = Column("goal", lambda of: of[1].name, words=True)
_SearchRow: TypeAlias = tuple[Result, Sequence[TrialPoint]]
_SEARCHES: tuple[Column[_SearchRow], ...] = (
    _OCTETS,
    Column("trials", lambda of: str(of[0].trial_count)),
    Column("verdicts", lambda of: verdict_counts(of[0]), words=True),
    Column("loads and losses", lambda of: trials_text(of[1]), words=True),
    Column("load range per interface", lambda of: load_range_text(*of)),
    Column("traffic", lambda of: units.seconds(of[0].trial_seconds)),
    Column("wall time", lambda of: units.seconds(of[0].wall_seconds)),
)


def search_table(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Table:
    """What each search took."""
    rows = [(r, shown_trials(r, trials)) for r in group.measured]
    return Table.of("Searches" if group.goal_names else "Trials", _SEARCHES, rows)


def _hops_text(lost: LossAccount) -> str:
    where = "; ".join(
        f"{hop}: {units.frames(n)} ({units.percent(n / lost.total, 3)})"
        for hop, n in lost.by_hop.items()
        if lost.total
    )
    return where or "no hop was named"


LOSSES_TITLE = "Lost frames by hop"
_LOSSES: tuple[Column[tuple[Result, LossAccount]], ...] = (
    _OCTETS,
    Column("VALID trials that lost frames", lambda of: f"{of[1].lossy} of {of[1].trials}"),
    Column("frames lost at", lambda of: _hops_text(of[1]), words=True),
    Column("lossy, no hop named", lambda of: str(of[1].unattributed)),
)


def loss_table(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Table:
    """Where the frames of a group's trials were lost."""
    rows = [(r, account_losses(trials.get(case_of(r), ()))) for r in group.measured]
    return Table.of(LOSSES_TITLE, _LOSSES, rows)


_ThreadRow: TypeAlias = tuple[Result, GoalResult, ThreadUse]


def _switches(of: _ThreadRow) -> str:
    """Context switches of both kinds."""
    voluntary = of[2].voluntary_switches_per_s
    if voluntary is None:
        return "not recorded"
    return units.significant(voluntary + of[2].involuntary_switches_per_s, 3)


def _shares_with(of: _ThreadRow) -> str:
    """Other busy threads that were last on its processor."""
    _, goal, use = of
    host = use.role.rpartition(":")[0]
    others = (one for one in goal.threads if one is not use and one.cpu == use.cpu)
    roles = dict.fromkeys(one.role for one in others if one.role.rpartition(":")[0] == host)
    return ", ".join(roles) or "alone"


_THREADS: tuple[Column[_ThreadRow], ...] = (
    _OCTETS,
    _GOAL_NAME,
    Column("role", lambda of: of[2].role, words=True),
    Column("thread", lambda of: of[2].thread, words=True),
    Column("processor", lambda of: str(of[2].cpu)),
    Column("user", lambda of: units.percent(of[2].user, 3)),
    Column("system", lambda of: units.percent(of[2].system, 3)),
    Column("shares it with", _shares_with, words=True),
    Column("switches per s", _switches),
    Column("descheduled per s", lambda of: units.significant(of[2].involuntary_switches_per_s, 3)),
    Column("waited", lambda of: known(of[2].waited, _percent) or "not recorded"),
)
_THREADS_NOTE = (
    "Switches: times that a thread gave its processor up; descheduled: those against its will. "
    "Waited: share of the time in which it could run and had no processor. Shares it with: other "
    "busy threads that were last on that processor; the system may be there, too."
)
_EVENTS_NOTE = "Events: a second, and for each frame that passed in brackets."


def thread_table(group: Group) -> Table:
    """A row for each thread of each goal that has a lower bound; notes of what is missing."""
    rows = [(r, goal, use) for r in group.measured for goal in r.goals for use in goal.threads]
    events = dict.fromkeys(name for *_, use in rows for name in use.events_per_s)
    uncollected = (goal.uncollected for result in group.measured for goal in result.goals)
    missing = dict.fromkeys(f"{name}: {why}" for each in uncollected for name, why in each.items())
    table = Table.of(
        "Busy threads at the lower bounds", (*_THREADS, *map(_event_column, events)), rows
    )
    turns = [
        f"{r.size_text}, {goal.name}: {turns_text(goal.turns)}."
        for r in group.measured
        for goal in r.goals
        if goal.turns is not None
    ]
    notes = [_THREADS_NOTE, *turns, *([_EVENTS_NOTE] if events else []), *missing]
    return replace(table, notes=tuple(notes) if rows else tuple(missing))


def _percent(value: float) -> str:
    return units.percent(value, 3)


def turns_text(turns: TesterTurns) -> str:
    """How the tester shared its processor in the trial that stands for a bound."""
    texts = [
        f"the tester took turns of {turns.length_us} us and slept {units.percent(turns.asleep, 3)} "
        f"of the time, {units.significant(turns.per_s, 3)} times a second"
    ]
    if turns.group_frames is not None:
        texts.append(
            f"an interface sent {units.significant(turns.group_frames, 3)} frames in a turn "
            f"(mean), {turns.most_frames} at most"
        )
    if turns.share < 1:
        times = f"in {turns.held_back} turns" if turns.held_back else "in no turn"
        share = units.percent(turns.share, 2)
        texts.append(f"it was held to {share} of its processor, which it used up {times}")
    if turns.refused:
        texts.append(f"the kernel refused it SCHED_FIFO ({turns.refused})")
    elif turns.prompt:
        texts.append("it ran as soon as it woke (SCHED_FIFO)")
    return "; ".join(texts)


_CpuRow: TypeAlias = tuple[Result, str, RoleUse]


def _cores(of: _CpuRow, mode: str) -> str:
    value = getattr(of[2], mode)
    return "not recorded" if value is None else units.significant(value, 3)


_CPU: tuple[Column[_CpuRow], ...] = (
    _OCTETS,
    Column("at", lambda of: of[1], words=True),
    Column("role", lambda of: of[2].role, words=True),
    Column("processors", lambda of: _ranges(of[2].processors), words=True),
    *(
        Column(mode, partial(_cores, mode=mode))
        for mode in ("busy", "waiting", "user", "system", "softirq", "guest", "steal")
    ),
    Column("switches per s", partial(_cores, mode="switches_per_s")),
    Column("shared with", lambda of: ", ".join(of[2].shared_with) or None, words=True),
)
_BACKLOG: tuple[Column[_CpuRow], ...] = (
    Column("queue drops", lambda of: known(of[2].backlog_dropped, units.frames)),
    Column("queue stops", lambda of: known(of[2].backlog_squeezed, units.frames)),
)
_CPU_NOTE = (
    "In processors: 1 is all the time of one. Busy: a role's own work, which adds up to the "
    "machine's; waiting: its threads could run and had no processor; switches: times a second that "
    "they gave one up. Guests' time is in user, too. "
    "Soft interrupts and steal are those of the processors that a role's threads ran on last; "
    "machine is everything on all of them. cpu.csv has every trial."
)
_BACKLOG_NOTE = (
    "Queue drops: frames that found the kernel's queues between interfaces full; queue stops: "
    "times that it left frames in one for later."
)


def _ranges(numbers: Sequence[int]) -> str:
    """Whole numbers as ranges: "0-2, 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _decisive_trials(
    result: Result, trials: Sequence[TrialPoint]
) -> Iterator[tuple[str, TrialPoint]]:
    """The trial that stands for each goal; of another test the largest load without loss."""
    good = [t for t in trials if t.verdict is Verdict.VALID and t.cpu]
    if result.goals:
        for goal in result.goals:
            shown = next((t for t in good if t.number == goal.trial), None)
            if shown is not None:
                yield f"{goal.name}, trial {shown.number}", shown
        return
    clean = [t for t in good if not t.loss_ratio] or good[-1:]
    best = max(clean, key=lambda t: (t.burst, t.load_fps, t.number), default=None)
    if best is not None:
        load = f"{units.frames(best.burst)} frames" if best.burst else units.fps(best.load_fps)
        yield f"{load} per interface, trial {best.number}", best


def cpu_table(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Table:
    """Processor use by role in the trials that decide."""
    decisive = [
        (result, at, trial)
        for result in group.measured
        for at, trial in _decisive_trials(result, shown_trials(result, trials))
    ]
    rows = [(result, at, use) for result, at, trial in decisive for use in trial.cpu]
    counted = [column for column in _BACKLOG if any(map(column.cell, rows))]
    notes = [_CPU_NOTE, *([_BACKLOG_NOTE] if counted else [])]
    notes += [
        f"Power at {result.size_text}, {at}: "
        + ", ".join(f"{part} {units.significant(each, 3)} W" for part, each in trial.watts.items())
        + "."
        for result, at, trial in decisive
        if trial.watts
    ]
    return Table.of("Processor use by role", (*_CPU, *counted), rows, notes)


def _event_column(name: str) -> Column[_ThreadRow]:
    def cell(of: _ThreadRow) -> str:
        use = of[2]
        if name not in use.events_per_s:
            return NOT_MEASURED
        each = use.events_per_frame.get(name)
        shown = units.significant(use.events_per_s[name], 3)
        return shown if each is None else f"{shown} ({units.significant(each, 3)})"

    return Column(name, cell)


def _or_none(value: float | None, text: Callable[[float, int], str]) -> str:
    return NOT_MEASURED if value is None else text(value, 3)


_DatapathRow: TypeAlias = tuple[Result, GoalResult, DatapathUse]
_DATAPATH: tuple[Column[_DatapathRow], ...] = (
    _OCTETS,
    _GOAL_NAME,
    Column("thread", lambda of: of[2].thread, words=True),
    Column("packets", lambda of: f"{of[2].packets:,}"),
    Column("TSC cycles per packet", lambda of: _cycles_text(of[2])),
    Column("with packets", lambda of: _or_none(of[2].busy, units.percent)),
    Column("had a processor", lambda of: _or_none(of[2].ran, units.percent)),
    Column("rules found in", lambda of: _lookups_text(of[2].lookups), words=True),
)
_DATAPATH_NOTE = (
    "Counted by the vSwitch itself, in the trial with the middle latency of the longest at the "
    "bound; in parentheses the range over all of them. Cycles are those of rounds with packets, of "
    "VPP those of its graph without the input nodes; with packets is their share of all cycles. "
    "The TSC is a clock and goes on while a thread waits for its turn: had a processor is the "
    "share of the trial in which it had one. A frame counts once for each port that it came in by."
)


def datapath_table(group: Group) -> Table:
    """A row for each thread that the vSwitch keeps counters of, at each goal's lower bound."""
    rows = [(r, goal, use) for r in group.measured for goal in r.goals for use in goal.datapath]
    return Table.of(
        "The vSwitch's own counters at the lower bounds", _DATAPATH, rows, [_DATAPATH_NOTE]
    )


def _cycles_text(use: DatapathUse) -> str:
    if use.cycles_per_packet is None:
        return NOT_MEASURED
    shown = units.significant(use.cycles_per_packet, 3)
    if use.cycles_range is None:
        return shown
    low, high = (units.significant(one, 3) for one in use.cycles_range)
    return f"{shown} ({low} to {high})"


def _top_text(profile: Profile) -> str | None:
    return ", ".join(f"{name} {units.percent(share, 2)}" for name, share in profile.top) or None


_PROFILES: tuple[Column[Profile], ...] = (
    Column("octets", lambda p: str(p.frame_size), words=True),
    Column("bound", lambda p: f"{p.bound}, {', '.join(p.goals)}", words=True),
    Column("load per interface", lambda p: units.fps(p.load_fps)),
    Column("samples", lambda p: str(p.samples) if p.file else None),
    Column("most in", _top_text, words=True),
    Column("flame graph", lambda p: p.file or p.why, words=True),
)
_PROFILES_NOTE = (
    "Call stacks of the vSwitch's threads, in a trial besides, which perf disturbs and which is in "
    "no result."
)


def profile_table(group: Group, profiles: Sequence[Profile]) -> Table:
    """The flame graphs at the bounds of a search."""
    mine = [p for p in profiles if p.scenario == group.scenario and group.goal_names]
    return Table.of("Profiles", _PROFILES, mine, [_PROFILES_NOTE])


_NodeRow: TypeAlias = tuple[Result, GoalResult, DatapathUse, NodeUse]
_NODES: tuple[Column[_NodeRow], ...] = (
    _OCTETS,
    _GOAL_NAME,
    Column("thread", lambda of: of[2].thread, words=True),
    Column("node", lambda of: of[3].name, words=True),
    Column("packets", lambda of: f"{of[3].packets:,}"),
    Column(
        "TSC cycles per packet", lambda of: _or_none(of[3].clocks_per_packet, units.significant)
    ),
    Column("vector size", lambda of: _or_none(of[3].packets_per_call, units.significant)),
    Column("kind", lambda of: "input" if of[3].input else None, words=True),
)
_NODES_NOTE = (
    "Of the trial with the middle latency at the bound. Vector size: packets for each call of a "
    "node. An input node's cycles have those of its polls without packets; all of them are wall "
    "time, in which the thread may have had no processor."
)


def node_table(group: Group) -> Table:
    """A row for each node of the vSwitch's graph, at each goal's lower bound."""
    rows = [
        (r, goal, use, node)
        for r in group.measured
        for goal in r.goals
        for use in goal.datapath
        for node in use.nodes
    ]
    return Table.of("Nodes of the vSwitch's graph at the lower bounds", _NODES, rows, [_NODES_NOTE])


def _lookups_text(lookups: Mapping[str, float]) -> str:
    shown = sorted(lookups.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {units.percent(share, 3)}" for name, share in shown)


def _goal_notes(result: Result, goal: GoalResult) -> Iterator[str]:
    about = f"{result.size_name} {goal.name}"
    if any(at is not None and at.discarded for at in (goal.at_lower_bound, goal.at_upper_bound)):
        yield f"{about}: trials discarded at the bounds: {discarded_text(goal)}"
    worse = [one.direction for one in goal.per_direction if one.exceeds_goal]
    if worse:
        yield (
            f"{about}: {', '.join(worse)} alone loses more at the lower bound than the goal "
            "allows; loads are classified by all directions together (RFC 9971)"
        )
    yield from _latency_notes(result, goal)


def _latency_notes(result: Result, goal: GoalResult) -> Iterator[str]:
    about = f"{result.size_name} {goal.name}"
    for direction, latency in goal.latency.items():
        if RoundTrip.is_name(direction):
            yield f"{about} {direction}: the latency is that of the round trip, both ways"
        if bound := tester_bound_text(goal.gaps, latency, direction):
            yield (
                f"{about} {direction}: latency {TESTER_BOUND} at {bound}: the tester's own gaps of "
                f"polling are {gaps_text(goal.gaps)}"
            )
        if untimed := untimed_text(latency):
            yield f"{about} {direction}: {untimed}"


def _unlike_generator(group: Group) -> Iterator[str]:
    """Why rates are no shares of the generator's maximum."""
    return group_sentences(
        (r.size_text, f"no share of the generator's maximum: {why}")
        for r in group.measured
        if r.goals and (why := group.unlike_generator.get(r.frame_size))
    )


def group_notes(group: Group) -> Iterator[str]:
    """Every note of a group."""
    yield from _unlike_generator(group)
    irregular: dict[str, list[str]] = defaultdict(list)
    for result in group.results:
        if result.status == "not measured":
            why = result.why or "no reason was recorded"
            yield f"{result.size_text}: not measured: {why}"
        for goal in result.goals:
            about = f"{result.size_name} {goal.name}"
            if goal.caveat:
                irregular[
                    f"{goal.caveat}; a throughput without a footnote has no loss in trials of 60 s "
                    "(RFC 2544 sections 24 and 26.1)"
                ].append(about)
            if goal.mark:
                irregular[flag_with_reason(goal)].append(about)
            yield from _goal_notes(result, goal)
        bad = {v: n for v, n in result.verdicts.items() if n and v is not Verdict.VALID}
        if bad:
            counts = ", ".join(f"{n} {v.value}" for v, n in bad.items())
            yield f"{result.size_text}: trials that are not {Verdict.VALID.value}: {counts}"
        if result.irregular:
            yield f"{result.size_text}: irregular: {result.irregular}"
    free = [
        f"{result.size_name} {goal.name} {loss_free_text(goal)}"
        for result in group.measured
        for goal in result.goals
    ]
    if free:
        yield (
            f"loss-free load (trials of the goal's whole duration sum without a lost frame, and no "
            f"loss at any lower load): {', '.join(free)}"
        )
    for flag, where in irregular.items():
        yield f"{', '.join(where)}: {flag}"
