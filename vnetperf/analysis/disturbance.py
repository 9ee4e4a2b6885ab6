"""What others took of the processors of a deployment's pollers while it was measured.

It marks a result and discards nothing: trials of a disturbed machine count, since a choice among
them would be one among results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from vnetperf.model.machine_load import DISTURBING_LINE, DISTURBING_SHARE, TakenTime
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.result import GoalResult
from vnetperf.model.units import percent, significant
from vnetperf.results.records import TrialRecord


def disturbing_share(goals: Iterable[SearchGoal]) -> float:
    """What matters when others take it, in processors: the smallest width of the goals."""
    return min((goal.width for goal in goals), default=DISTURBING_SHARE)


def taken_over(trials: Iterable[TrialRecord]) -> dict[str, list[TakenTime]]:
    """What others took in each trial, by host; "" for the tester's."""
    found: dict[str, list[TakenTime]] = {}
    for trial in trials:
        for host, taken in trial.result.taken.items():
            found.setdefault(host, []).append(taken)
    return found


def disturbance_of(trials: Sequence[TrialRecord], limit: float) -> str:
    """What of its trials together keeps a search from being regular, in words; ""."""
    found = []
    for host, each in taken_over(trials).items():
        whole, where = sum(each, TakenTime()), f"on host {host} " if host else ""
        if whole.exceeds(limit):
            least = limit / 2
            above = [one for one in each if (one.others(least) or 0.0) > limit] or each
            taken = sum(above, TakenTime())
            took = significant(taken.others(least) or 0.0, 2)
            who = f", {taken.most}" if taken.most else ""
            found.append(
                f"{where}others took {took} processors on those of the pollers in "
                f"{percent(len(above) / len(each), 2)} of its trials{who}"
            )
        if whole.stolen is not None and whole.stolen > limit:
            found.append(f"{where}a hypervisor took {percent(whole.stolen, 2)} of a processor")
    return "; ".join(found)


def moved_text(rounds: Mapping[int, Sequence[TrialRecord]]) -> str:
    """How a hypervisor moved the processors of DUT and tester between rounds, in words; "".

    A cache line that goes from one to the other takes several times as long where their cores have
    no cache in common, and with it each frame: it is what most of a virtual machine's rates
    wander by.
    """
    lines = {
        number: [max(one) for t in trials if (one := _line_of(t)) is not None]
        for number, trials in rounds.items()
    }
    middle = {number: median(each) for number, each in lines.items() if each}
    if len(middle) < 2:
        return ""
    near, far = min(middle, key=middle.__getitem__), max(middle, key=middle.__getitem__)
    if middle[far] <= DISTURBING_LINE * middle[near]:
        return ""
    return (
        "the hypervisor moved the processors of DUT and tester in between: a cache line took "
        f"{middle[near]:.0f} ns there and back in round {near}, {middle[far]:.0f} ns in round {far}"
    )


def _line_of(trial: TrialRecord) -> tuple[float, float] | None:
    return None if trial.result.machine is None else trial.result.machine.line_ns


def marked(
    goals: Iterable[GoalResult], trials: Sequence[TrialRecord], limit: float
) -> tuple[GoalResult, ...]:
    """Results of a search, irregular where others took more than a limit of its processors."""
    why = disturbance_of(trials, limit)
    if not why:
        return tuple(goals)
    return tuple(
        goal.model_copy(
            update={
                "regular": False,
                "reason": "; ".join(filter(None, (goal.reason.rstrip("."), why))),
            }
        )
        for goal in goals
    )


class DisturbedTrials:
    """How many trials of a run were disturbed, and what a hypervisor took over all of them.

    Args:
        limit: What matters when others take it, in processors.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._count = self._disturbed = 0
        self._first = ""
        self._taken: dict[str, TakenTime] = {}

    def add(self, trial: TrialRecord) -> None:
        """Look at a trial."""
        self._count += 1
        if texts := trial.result.disturbed_by(self._limit):
            self._first = self._first or f"trial {trial.number}: {'; '.join(texts)}"
            self._disturbed += 1
        for host, taken in trial.result.taken.items():
            self._taken[host] = self._taken.get(host, TakenTime()) + taken

    def texts(self) -> list[str]:
        """What a reader must know of them."""
        warnings = []
        if self._disturbed:
            warnings.append(
                f"{self._disturbed} of {self._count} trials were run on a disturbed machine "
                f"({self._first})"
            )
        for host, taken in self._taken.items():
            if taken.stolen is not None and taken.stolen > self._limit:
                where = f"host {host}: " if host else ""
                warnings.append(
                    f"{where}a hypervisor took {percent(taken.stolen, 2)} of a processor in trials"
                )
        return warnings
