"""What a search found, in words: bounds with qualifier, trials, losses by hop, busy threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from vnetperf.analysis.sharing import joined
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
from vnetperf.report.summary import Case, Group, identify_case, shown_trials
from vnetperf.report.table import (
    NONE,
    NOT_MEASURED,
    NOT_RECORDED,
    Cell,
    Column,
    Table,
    group_sentences,
    listed_sizes,
)
from vnetperf.report.text import by_spread, range_text, text_or_none

NO_LOAD_MET = "no load met the goal"
NO_LOAD_FAILED = "no load failed"


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
        if short:
            return range_text(least or 0.0, most, "fps", "-").replace(" ", "").replace("fps", "")
        return range_text(least or 0.0, most, "fps")
    number = shown(value)
    return f"{goal.qualifier} {number}".strip()


def in_words(low: float, high: float) -> str:
    """A rate, or a range of rates, as one says it: "1.11 million", "2.0 to 3.1 million"."""
    if low < high:
        text = range_text(low, high, "fps")
    else:
        rounded = float(f"{low:.2e}")
        number, unit = units.fps(rounded).split(" ")
        digits = max(0, 3 - len(number.partition(".")[0]))
        text = f"{float(number):.{digits}f} {unit}"
    for unit, word in (("Gfps", "billion"), ("Mfps", "million"), ("kfps", "thousand")):
        text = text.replace(unit, word)
    return text.removesuffix(" fps")


def rate_words(goal: GoalResult) -> str:
    """The headline number as one says it, without a unit: "at least 14.9 million"; "" for none."""
    value, least, most = headline_fps(goal), goal.least_fps, goal.most_fps
    if value is None:
        return ""
    if goal.repeatable is False and goal.rounds:
        low = least or 0.0
        return in_words(low, most) if most is not None else f"at least {in_words(low, low)}"
    return f"{goal.qualifier} {in_words(value, value)}".strip()


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
    rates = ", ".join(NO_LOAD_MET if rate is None else units.fps(rate) for rate in _lowers(goal))
    return f"{'yes' if goal.repeatable else 'no'}: {len(goal.rounds)} rounds found {rates}"


def _lowers(goal: GoalResult) -> list[float | None]:
    return [search.lower_bound_fps for search in goal.rounds]


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


def share_text(value: float | None, limit: float | None) -> str:
    """A rate as a share of a limit."""
    return NOT_MEASURED if value is None or not limit else units.percent(value / limit, 3)


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
    tried = list(trials)
    if not tried:
        return "no trial"
    valid = [t for t in tried if t.verdict is Verdict.VALID and t.loss_ratio is not None]
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
        ratios = [b.loss_ratio_at_lower_bound for b in bounds if isinstance(b, DirectionBound)]
        return max((loss for loss in ratios if loss is not None), default=None)


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


def shared_rows(group: Group) -> Iterator[tuple[RateRow, str]]:
    """Rows of a group with the goals that they are of: "ndr, pdr" where both found the same."""
    for result in group.measured:
        alike: dict[str, list[GoalResult]] = {}
        for goal in result.goals:
            attributes = {"name", "loss_ratio", "exceed_ratio"}
            alike.setdefault(goal.model_dump_json(exclude=attributes), []).append(goal)
        names = {goals[0].name: ", ".join(g.name for g in goals) for goals in alike.values()}
        for row in rate_rows(result, group):
            if row.goal.name in names:
                yield row, names[row.goal.name]


#: Words of a cell without a number -> the same on a terminal.
_SHORT_WORDS = {NOT_MEASURED: "?", NOT_RECORDED: "?", NO_LOAD_FAILED: "none"}


def _no_number(words: str) -> Cell:
    return Cell(words, _SHORT_WORDS.get(words, words))


def _rate_cell(value: float | None, missing: str = NOT_MEASURED) -> Cell:
    if value is None:
        return _no_number(missing)
    return Cell(units.fps(value), units.short_fps(value))


def _lower_cell(row: RateRow) -> Cell:
    if row.direction:
        return _rate_cell(row.bound.lower_bound_fps if row.bound else None)
    mark = (row.goal.mark, "warn") if row.goal.mark else None
    return Cell(qualified_rate(row.goal), short_rate(row.goal), mark, hint=row.goal.reason)


def _upper_cell(row: RateRow) -> Cell:
    missing = NO_LOAD_FAILED if row.bound else NOT_MEASURED
    return _rate_cell(row.bound.upper_bound_fps if row.bound else None, missing)


def _conditional_cell(row: RateRow) -> Cell:
    missing = NOT_MEASURED if row.direction else NONE  # there is no lower bound
    return _rate_cell(row.bound.conditional_throughput_fps if row.bound else None, missing)


def _loss_cell(row: RateRow) -> Cell:
    if row.loss is None:
        has_bound = row.bound is not None and row.bound.lower_bound_fps is not None
        return _no_number(NOT_RECORDED if has_bound else NONE)
    tiny = 0 < row.loss < _SMALLEST_SHOWN
    return Cell(units.percent(row.loss), "<.01" if tiny else units.significant(100 * row.loss, 2))


#: Smallest loss ratio that fits a column of a terminal.
_SMALLEST_SHOWN = 1e-4


def _l1_cell(row: RateRow) -> Cell | None:
    l1 = row.goal.throughput_l1_bps
    if l1 is None:
        return None
    return Cell(units.gigabits(l1), units.significant(l1 / 1e9, 3))


def _share_cell(row: RateRow, limit: float | None) -> Cell | None:
    value = headline_fps(row.goal)
    if value is None or not limit:
        return None
    return Cell(
        share_text(value, limit), units.significant(100 * value / limit, 3) if value else "0"
    )


def _percentile_cell(row: RateRow, level: str) -> Cell:
    value = row.latency.percentiles.get(level) if row.latency else None
    cell = _time_cell(value, NOT_MEASURED)
    ends = row.goal.latency_range_ns.get(row.direction) if level == "50" else None
    if value is not None and ends is not None and ends[0] < ends[1]:
        middle = by_spread(value, *ends, "ns")
        cell = replace(cell, text=f"{middle} ({range_text(*ends, 'ns')})")
    return _bound_by_tester(row, level, cell)


def _time_cell(value: float | None, missing: str) -> Cell:
    if value is None:
        return _no_number(missing)
    return Cell(units.nanoseconds(value), units.significant(value / 1000, 3 if value < 1e6 else 4))


def _largest_cell(row: RateRow) -> Cell:
    value = row.latency.max_ns if row.latency else None
    return _bound_by_tester(row, "max", _time_cell(value, NOT_MEASURED))


def _bound_by_tester(row: RateRow, level: str, cell: Cell) -> Cell:
    gaps = row.goal.gaps
    if gaps is None or row.latency is None or level not in gaps.bounds(row.latency, row.direction):
        return cell
    return replace(cell, mark=(TESTER_BOUND, "warn"), hint=f"poll gaps: {gaps_text(gaps)}")


#: The mark of a latency that the tester's own wait may explain.
TESTER_BOUND = "tester-bound"


def discarded_text(goal: GoalResult) -> str:
    """Trials discarded at each bound, of all that were run there."""
    bounds = (("lower", goal.at_lower_bound), ("upper", goal.at_upper_bound))
    counts = [
        f"{name} {trials.discarded} of {trials.valid + trials.discarded}"
        for name, trials in bounds
        if trials
    ]
    return ", ".join(counts) or NOT_RECORDED


def _discarded_share(goal: GoalResult) -> str:
    """Trials discarded at both bounds, of all there, where a note has the rest."""
    bounds = [bound for bound in (goal.at_lower_bound, goal.at_upper_bound) if bound]
    if not bounds:
        return "?"
    discarded = sum(bound.discarded for bound in bounds)
    return f"{discarded}/{discarded + sum(bound.valid for bound in bounds)}"


def gaps_text(gaps: TrialGaps | None) -> str:
    """The tester's gaps of polling, which are part of every latency."""
    if gaps is None:
        return NOT_RECORDED
    levels = ("50", "99", "99.9")
    parts = [f"p{x} {_gap(gaps.poll.percentiles[x])}" for x in levels if x in gaps.poll.percentiles]
    return ", ".join([*parts, f"max {_gap(gaps.poll.max_s)}"])


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
    return ", ".join(f"{units.frames(n)} {words}" for n, words in counts if n)


#: A row, and the goals that it is of.
_Row: TypeAlias = tuple[RateRow, str]
RateColumns: TypeAlias = tuple[Column[_Row], ...]


def _rate_row(cell: Callable[[RateRow], Cell | str | None]) -> Callable[[_Row], Cell | str | None]:
    return lambda row: cell(row[0])


def _gap_cell(row: RateRow) -> Cell | None:
    gaps = row.goal.gaps
    return None if gaps is None else _time_cell(gaps.poll.max_s * 1e9, NONE)


def _discarded_cell(row: RateRow) -> Cell:
    return Cell(discarded_text(row.goal), _discarded_share(row.goal))


_GOAL: Column[_Row] = Column("goal", lambda row: row[1], words=True)
_FREE: Column[_Row] = Column(
    "loss-free load, aggregate", _rate_row(lambda r: loss_free_text(r.goal))
)
_LOSS: Column[_Row] = Column("loss at lower bound", _rate_row(_loss_cell))
_OF_MEDIUM: RateColumns = (
    Column("L1 Gbit/s, aggregate", _rate_row(_l1_cell), optional=True),
    Column(
        "theoretical maximum, aggregate",
        _rate_row(lambda r: text_or_none(r.result.media_max_fps, units.fps)),
        optional=True,
    ),
    Column("of it", _rate_row(lambda r: _share_cell(r, r.result.media_max_fps)), optional=True),
)
_OF_GENERATOR: Column[_Row] = Column(
    "of the generator", _rate_row(lambda r: _share_cell(r, r.generator_fps)), optional=True
)
#: Of all sending interfaces together.
_OF_GOALS: RateColumns = (
    Column("frame size (octets with FCS)", _rate_row(lambda r: r.result.size_name), words=True),
    _GOAL,
    Column("lower bound, aggregate", _rate_row(_lower_cell), bold=True),
    Column("upper bound, aggregate", _rate_row(_upper_cell)),
    Column("conditional throughput, aggregate", _rate_row(_conditional_cell)),
    _LOSS,
    _FREE,
    *_OF_MEDIUM,
    _OF_GENERATOR,
    Column("trials", _rate_row(lambda r: str(r.result.trial_count))),
    Column("discarded at the bounds", _rate_row(_discarded_cell), words=True),
)
#: What the page has in notes.
_WHYS: RateColumns = (
    Column("regular?", _rate_row(lambda r: flag_with_reason(r.goal)), words=True),
    Column("repeatable?", _rate_row(lambda r: repeatable_text(r.goal)), words=True),
)
_OF_DIRECTIONS: RateColumns = (
    Column("octets", _rate_row(lambda r: r.result.size_name), words=True),
    _GOAL,
    Column("direction", _rate_row(lambda r: r.direction), words=True),
    Column("lower bound, per interface", _rate_row(_lower_cell)),
    Column("upper bound, per interface", _rate_row(_upper_cell)),
    Column("conditional throughput, per interface", _rate_row(_conditional_cell)),
    _LOSS,
    Column("latency p50", _rate_row(lambda r: _percentile_cell(r, "50"))),
    Column("p99", _rate_row(lambda r: _percentile_cell(r, "99"))),
    Column("max", _rate_row(_largest_cell)),
    Column("tester's poll gaps", _rate_row(lambda r: gaps_text(r.goal.gaps)), words=True),
)
#: The gaps are a sentence, which needs the width of the whole page.
_PAGE_DIRECTIONS: RateColumns = (
    *_OF_DIRECTIONS[:-1],
    Column("longest poll gap", _rate_row(_gap_cell)),
)
_TERMINAL_GOALS: RateColumns = (
    Column("octets", _rate_row(lambda r: r.result.size_short.partition(" ")[0]), words=True),
    Column("goal", lambda row: row[1], words=True),
    Column("lower bound\nfps", _rate_row(_lower_cell), bold=True),
    Column(
        "", _rate_row(lambda r: Cell(SHORT_MARKS.get(r.goal.mark, ""), role="warn")), optional=True
    ),
    Column("loss\n%", _rate_row(_loss_cell)),
    Column("upper\nfps", _rate_row(_upper_cell)),
    Column("cond.\nfps", _rate_row(_conditional_cell)),
    Column("free\nfps", _rate_row(lambda r: _rate_cell(r.goal.loss_free_fps, "none"))),
    Column("L1\nGb/s", _rate_row(_l1_cell), optional=True),
    Column("% of\ngen.", _rate_row(lambda r: _share_cell(r, r.generator_fps)), optional=True),
)
_TERMINAL_DIRECTIONS: RateColumns = (
    *_TERMINAL_GOALS[:2],
    Column("direction", _rate_row(lambda r: r.direction), words=True),
    Column("lower\nfps", _rate_row(_lower_cell)),
    Column("loss\n%", _rate_row(_loss_cell)),
    Column("upper\nfps", _rate_row(_upper_cell)),
    Column("p50\nµs", _rate_row(lambda r: _percentile_cell(r, "50"))),
    Column("p99\nµs", _rate_row(lambda r: _percentile_cell(r, "99"))),
    Column("max\nµs", _rate_row(_largest_cell)),
    Column("poll gap\nmax µs", _rate_row(_gap_cell), optional=True),
)
#: The marks of results on a terminal; the legend below the table spells them out.
SHORT_MARKS: dict[str, str] = {"irregular": "irreg.", "not repeatable": "range"}


def _goal_rows(group: Group, columns: RateColumns, title: str, notes: Iterable[str] = ()) -> Table:
    rows = [(row, names) for row, names in shared_rows(group) if not row.direction]
    return Table.from_items(title, columns, rows, notes)


def _direction_rows(
    group: Group, columns: RateColumns, title: str, notes: Iterable[str] = ()
) -> Table:
    rows = [(row, names) for row, names in shared_rows(group) if row.direction]
    return Table.from_items(title, columns, rows, notes)


def terminal_rates(group: Group) -> Iterator[Table]:
    """Each goal over all interfaces, then each direction, as narrow as a terminal is."""
    interfaces = " or ".join(str(n) for n in sorted({r.directions for r in group.measured}))
    title = f"{group.title}: sums of {interfaces} sending interface(s)"
    yield _goal_rows(group, _TERMINAL_GOALS, title)
    yield _direction_rows(group, _TERMINAL_DIRECTIONS, "Each direction, per interface")


def page_rates(group: Group) -> Table:
    """What was found of each goal, without what stands in the notes."""
    return _goal_rows(group, _OF_GOALS, "All directions together")


def goal_table(group: Group) -> Table:
    """What was found of each goal."""
    return _goal_rows(group, (*_OF_GOALS, *_WHYS), "", _unlike_generator(group))


def direction_table(group: Group, *, notes: bool = True) -> Table:
    """What was found of each direction; a page has the notes beside its other ones."""
    title = "Each direction, per interface"
    if not notes:
        return _direction_rows(group, _PAGE_DIRECTIONS, title)
    return _direction_rows(group, _OF_DIRECTIONS, title, merged_notes(_latency_notes(group)))


#: Of rows that begin with a result, and then a goal of it.
_OCTETS: Column[Any] = Column("octets", lambda row: row[0].size_name, words=True)
_GOAL_NAME: Column[Any] = Column("goal", lambda row: row[1].name, words=True)
_SearchRow: TypeAlias = tuple[Result, Sequence[TrialPoint]]
_SEARCHES: tuple[Column[_SearchRow], ...] = (
    _OCTETS,
    Column("trials", lambda row: str(row[0].trial_count)),
    Column("verdicts", lambda row: verdict_counts(row[0]), words=True),
    Column("loads and losses", lambda row: trials_text(row[1]), words=True),
    Column("load range per interface", lambda row: load_range_text(*row)),
    Column("traffic", lambda row: units.seconds(row[0].trial_seconds)),
    Column("wall time", lambda row: units.seconds(row[0].wall_seconds)),
)


def search_table(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Table:
    """What each search took."""
    rows = [(r, shown_trials(r, trials)) for r in group.measured]
    return Table.from_items("Searches" if group.goal_names else "Trials", _SEARCHES, rows)


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
    Column("VALID trials that lost frames", lambda row: f"{row[1].lossy} of {row[1].trials}"),
    Column("frames lost at", lambda row: _hops_text(row[1]), words=True),
    Column("lossy, no hop named", lambda row: str(row[1].unattributed)),
)


def loss_table(group: Group, trials: Mapping[Case, Sequence[TrialPoint]]) -> Table:
    """Where the frames of a group's trials were lost."""
    rows = [(r, account_losses(trials.get(identify_case(r), ()))) for r in group.measured]
    return Table.from_items(LOSSES_TITLE, _LOSSES, rows)


_ThreadRow: TypeAlias = tuple[Result, GoalResult, ThreadUse]


def _by_bound(result: Result) -> list[GoalResult]:
    """The goals of a result, those with one lower bound joined: its trials tell the same of each.

    A goal without a trial that stands for its bound has nothing to join by.
    """
    goals_by_bound: dict[tuple[int, int, int], list[GoalResult]] = {}
    for place, goal in enumerate(result.goals):
        key = (goal.search, goal.trial, 0) if goal.trial else (0, 0, place)
        goals_by_bound.setdefault(key, []).append(goal)
    return [
        goals[0].model_copy(update={"name": ", ".join(goal.name for goal in goals)})
        for goals in goals_by_bound.values()
    ]


def _switches(row: _ThreadRow) -> str:
    """Context switches of both kinds."""
    voluntary = row[2].voluntary_switches_per_s
    if voluntary is None:
        return NOT_RECORDED
    return units.significant(voluntary + row[2].involuntary_switches_per_s, 3)


def _shares_with(row: _ThreadRow) -> str:
    """Other busy threads that were last on its processor."""
    _, goal, use = row
    host = use.role.rpartition(":")[0]
    others = (thread for thread in goal.threads if thread is not use and thread.cpu == use.cpu)
    roles = dict.fromkeys(
        thread.role for thread in others if thread.role.rpartition(":")[0] == host
    )
    return ", ".join(roles) or "alone"


_THREADS: tuple[Column[_ThreadRow], ...] = (
    _OCTETS,
    _GOAL_NAME,
    Column("role", lambda row: row[2].role, words=True),
    Column("thread", lambda row: row[2].thread, words=True),
    Column("processor", lambda row: str(row[2].cpu)),
    Column("user", lambda row: units.percent(row[2].user, 3)),
    Column("system", lambda row: units.percent(row[2].system, 3)),
    Column("shares it with", _shares_with, words=True),
    Column("switches per s", _switches),
    Column(
        "descheduled per s", lambda row: units.significant(row[2].involuntary_switches_per_s, 3)
    ),
    Column("waited", lambda row: text_or_none(row[2].waited, _percent) or NOT_RECORDED),
)
_THREADS_NOTE = (
    "Switches: times that a thread gave its processor up; descheduled: those against its will. "
    "Waited: share of the time in which it could run and had no processor. Shares it with: other "
    "busy threads that were last on that processor; the system may be there, too."
)
_EVENTS_NOTE = "Events: a second, and for each frame that passed in brackets."


def thread_table(group: Group) -> Table:
    """A row for each thread of each goal that has a lower bound; notes of what is missing."""
    rows = [(r, goal, use) for r in group.measured for goal in _by_bound(r) for use in goal.threads]
    events = dict.fromkeys(name for *_, use in rows for name in use.events_per_s)
    uncollected = (goal.uncollected for result in group.measured for goal in result.goals)
    missing = dict.fromkeys(
        f"{name}: {reason}" for reasons in uncollected for name, reason in reasons.items()
    )
    table = Table.from_items(
        "Busy threads at the lower bounds", (*_THREADS, *map(_event_column, events)), rows
    )
    turns = [
        f"{r.size_text}, {goal.name}: {turns_text(goal.turns)}."
        for r in group.measured
        for goal in _by_bound(r)
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


#: A result, what stands at it, the use of a role, and seconds over which that was counted.
_CpuRow: TypeAlias = tuple[Result, str, RoleUse, float]
#: What the kernel counts in ticks of 10 ms (/proc/stat): a few of them are no number.
_IN_TICKS = ("softirq", "guest", "steal")
_TICK_S = 0.01


def _cores(row: _CpuRow, mode: str) -> str:
    value, counted_s = getattr(row[2], mode), row[3]
    if value is None:
        return NOT_RECORDED
    tick = _TICK_S / counted_s if counted_s else 0.0
    if mode in _IN_TICKS and 0 < value < _FEW_TICKS * tick:
        return f"\N{LESS-THAN OR EQUAL TO} {units.significant(max(value, tick), 1)}"
    return units.significant(value, 3)


#: Ticks below which a count of them is an upper limit.
_FEW_TICKS = 2


_CPU: tuple[Column[_CpuRow], ...] = (
    _OCTETS,
    Column("at", lambda row: row[1], words=True),
    Column("role", lambda row: row[2].role, words=True),
    Column("processors", lambda row: _ranges(row[2].processors), words=True),
    *(
        Column(mode, partial(_cores, mode=mode))
        for mode in ("busy", "waiting", "user", "system", "softirq", "guest", "steal")
    ),
    Column("switches per s", partial(_cores, mode="switches_per_s")),
    Column("shared with", lambda row: ", ".join(row[2].shared_with) or None, words=True),
)
_BACKLOG: tuple[Column[_CpuRow], ...] = (
    Column("queue drops", lambda row: text_or_none(row[2].backlog_dropped, units.frames)),
    Column("queue stops", lambda row: text_or_none(row[2].backlog_squeezed, units.frames)),
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
        (result, label, trial)
        for result in group.measured
        for label, trial in _decisive_trials(result, shown_trials(result, trials))
    ]
    rows = [
        (result, label, use, trial.duration_s)
        for result, label, trial in decisive
        for use in trial.cpu
    ]
    counted = [column for column in _BACKLOG if any(map(column.cell, rows))]
    notes = [_CPU_NOTE, *([_BACKLOG_NOTE] if counted else [])]
    notes += [
        f"Power at {result.size_text}, {label}: "
        + ", ".join(
            f"{part} {units.significant(watts, 3)} W" for part, watts in trial.watts.items()
        )
        + "."
        for result, label, trial in decisive
        if trial.watts
    ]
    return Table.from_items("Processor use by role", (*_CPU, *counted), rows, notes)


def _event_column(name: str) -> Column[_ThreadRow]:
    def cell(row: _ThreadRow) -> str:
        use = row[2]
        if name not in use.events_per_s:
            return NOT_MEASURED
        per_frame = use.events_per_frame.get(name)
        shown = units.significant(use.events_per_s[name], 3)
        return shown if per_frame is None else f"{shown} ({units.significant(per_frame, 3)})"

    return Column(name, cell)


def _or_none(value: float | None, text: Callable[[float, int], str]) -> str:
    return NOT_MEASURED if value is None else text(value, 3)


_DatapathRow: TypeAlias = tuple[Result, GoalResult, DatapathUse]
_DATAPATH: tuple[Column[_DatapathRow], ...] = (
    _OCTETS,
    _GOAL_NAME,
    Column("thread", lambda row: row[2].thread, words=True),
    Column("packets", lambda row: f"{row[2].packets:,}"),
    Column("TSC cycles per packet", lambda row: _cycles_text(row[2])),
    Column("with packets", lambda row: _or_none(row[2].busy, units.percent)),
    Column("had a processor", lambda row: _or_none(row[2].ran, units.percent)),
    Column("rules found in", lambda row: _lookups_text(row[2].lookups), words=True),
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
    rows = [
        (r, goal, use) for r in group.measured for goal in _by_bound(r) for use in goal.datapath
    ]
    return Table.from_items(
        "The vSwitch's own counters at the lower bounds", _DATAPATH, rows, [_DATAPATH_NOTE]
    )


def _cycles_text(use: DatapathUse) -> str:
    if use.cycles_per_packet is None:
        return NOT_MEASURED
    shown = units.significant(use.cycles_per_packet, 3)
    if use.cycles_range is None:
        return shown
    low, high = (units.significant(cycles, 3) for cycles in use.cycles_range)
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
    group_profiles = [p for p in profiles if p.scenario == group.scenario and group.goal_names]
    return Table.from_items("Profiles", _PROFILES, group_profiles, [_PROFILES_NOTE])


_NodeRow: TypeAlias = tuple[Result, GoalResult, DatapathUse, NodeUse]
_NODES: tuple[Column[_NodeRow], ...] = (
    _OCTETS,
    _GOAL_NAME,
    Column("thread", lambda row: row[2].thread, words=True),
    Column("node", lambda row: row[3].name, words=True),
    Column("packets", lambda row: f"{row[3].packets:,}"),
    Column(
        "TSC cycles per packet", lambda row: _or_none(row[3].clocks_per_packet, units.significant)
    ),
    Column("vector size", lambda row: _or_none(row[3].packets_per_call, units.significant)),
    Column("kind", lambda row: "input" if row[3].input else None, words=True),
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
        for goal in _by_bound(r)
        for use in goal.datapath
        for node in use.nodes
    ]
    return Table.from_items(
        "Nodes of the vSwitch's graph at the lower bounds", _NODES, rows, [_NODES_NOTE]
    )


def _lookups_text(lookups: Mapping[str, float]) -> str:
    shown = sorted(lookups.items(), key=lambda lookup: -lookup[1])
    return ", ".join(f"{name} {units.percent(share, 3)}" for name, share in shown)


#: Frame size, goal, direction ("" for all together), and what is to be known of them.
_Note: TypeAlias = tuple[str, str, str, str]


def merged_notes(notes: Iterable[_Note]) -> Iterator[str]:
    """Each sentence once, before it the sizes, goals and directions that it is true of."""
    places_by_sentence: dict[str, dict[tuple[str, tuple[str, ...]], dict[str, None]]] = {}
    by_place: dict[tuple[str, str, str], dict[str, None]] = {}
    for size, goal, direction, sentence in notes:
        by_place.setdefault((sentence, size, goal), {})[direction] = None
    for (sentence, size, goal), named in by_place.items():
        places = places_by_sentence.setdefault(sentence, {})
        places.setdefault((size, tuple(named)), {})[goal] = None
    for sentence, places in places_by_sentence.items():
        sizes: dict[str, list[str]] = {}
        for (size, directions), goals in places.items():
            about = ", ".join(
                filter(None, (joined([g for g in goals if g]), _directions_text(directions)))
            )
            sizes.setdefault(about, []).append(size)
        texts = (
            ", ".join(filter(None, (listed_sizes(octets), subject)))
            for subject, octets in sizes.items()
        )
        yield f"{'; '.join(texts)}: {sentence}"


def _directions_text(directions: Sequence[str]) -> str:
    named = [direction for direction in directions if direction]
    return "both directions" if len(named) == 2 else joined(named)


def _goal_notes(group: Group) -> Iterator[_Note]:
    for result in group.measured:
        for goal in result.goals:
            bounds = (goal.at_lower_bound, goal.at_upper_bound)
            if any(bound is not None and bound.discarded for bound in bounds):
                text = f"trials discarded at the bounds: {discarded_text(goal)}"
                yield result.size_text, goal.name, "", text
            for direction in goal.per_direction:
                if direction.exceeds_goal:
                    yield (
                        *(result.size_text, goal.name, direction.direction),
                        "alone loses more at the lower bound than the goal allows; loads are "
                        "classified by all directions together (RFC 9971)",
                    )


def _latency_notes(group: Group) -> Iterator[_Note]:
    goals = [(r, goal) for r in group.measured for goal in r.goals]
    for result, goal in goals:
        for direction, latency in goal.latency.items():
            place = result.size_text, goal.name, direction
            if RoundTrip.is_name(direction):
                yield *place, "the latency is that of the round trip, both ways"
            if bound := tester_bound_text(goal.gaps, latency, direction):
                yield *place, tester_bound_note(bound)
            if untimed := untimed_text(latency):
                yield *place, untimed


def tester_bound_note(bound: str) -> str:
    """What a mark at a latency says; the tester's gaps stand in the same row."""
    return (
        f"latency {TESTER_BOUND} at {bound}: the tester's own gaps of polling are as long, and may "
        "explain it"
    )


def _unlike_generator(group: Group) -> Iterator[str]:
    """Why rates are no shares of the generator's maximum."""
    return group_sentences(
        (r.size_text, f"no share of the generator's maximum: {reason}")
        for r in group.measured
        if r.goals and (reason := group.unlike_generator.get(r.frame_size))
    )


#: What a footnote at a bound is about.
FOOTNOTE = (
    "A throughput without a footnote has no loss in trials of 60 s (RFC 2544 sections 24 and 26.1)."
)
LOSS_FREE = (
    "Loss-free load: trials of the goal's whole duration sum lost no frame there, and none was "
    "lost at any lower load."
)


def _marks(group: Group) -> Iterator[_Note]:
    goals = [(r, goal) for r in group.measured for goal in r.goals]
    yield from ((r.size_text, goal.name, "", goal.caveat) for r, goal in goals if goal.caveat)
    yield from (
        (r.size_text, goal.name, "", flag_with_reason(goal)) for r, goal in goals if goal.mark
    )


def group_notes(group: Group) -> Iterator[str]:
    """Every note of a group, what makes a number worth less first."""
    reasons = ((r.size_text, r.why or "no reason was recorded") for r in group.results)
    yield from group_sentences(
        (size, f"not measured: {reason}")
        for (size, reason), r in zip(reasons, group.results, strict=True)
        if r.status == "not measured"
    )
    yield from merged_notes(_marks(group))
    if any(goal.caveat for r in group.measured for goal in r.goals):
        yield FOOTNOTE
    yield from group_sentences(
        (r.size_text, f"irregular: {r.irregular}") for r in group.results if r.irregular
    )
    yield from group_sentences(
        (r.size_text, f"trials that are not {Verdict.VALID.value}: {_bad_text(r)}")
        for r in group.results
        if _bad_text(r)
    )
    yield from merged_notes((*_goal_notes(group), *_latency_notes(group)))
    yield from _unlike_generator(group)
    if any(r.goals for r in group.measured):
        yield LOSS_FREE


def _bad_text(result: Result) -> str:
    bad = {v: n for v, n in result.verdicts.items() if n and v is not Verdict.VALID}
    return ", ".join(f"{n} {v.value}" for v, n in bad.items())
