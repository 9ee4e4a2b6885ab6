"""What others took of the processors of a deployment's pollers while it was measured.

It marks a result and discards nothing: trials of a disturbed machine count, since a choice among
them would be one among results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from vnetperf.log.records import TrialRecord
from vnetperf.model.machine_load import DISTURBING_LINE, DISTURBING_SHARE, TakenTime
from vnetperf.model.parameters import SearchGoal
from vnetperf.model.result import GoalResult
from vnetperf.model.units import percent, significant


def disturbing_share(goals: Iterable[SearchGoal]) -> float:
    """What matters when others take it, in processors: the smallest width of the goals."""
    return min((goal.width for goal in goals), default=DISTURBING_SHARE)


def collect_foreign_times(trials: Iterable[TrialRecord]) -> dict[str, list[TakenTime]]:
    """Collect the processor time that others took in each trial, by host; "" is the tester's."""
    times: dict[str, list[TakenTime]] = {}
    for trial in trials:
        for host, foreign_time in trial.result.taken.items():
            times.setdefault(host, []).append(foreign_time)
    return times


def describe_disturbance(trials: Sequence[TrialRecord], limit: float) -> str:
    """Describe the disturbance that makes a search irregular; "" if there is none."""
    disturbances = []
    for host, times in collect_foreign_times(trials).items():
        total, where = sum(times, TakenTime()), f"on host {host} " if host else ""
        if total.exceeds(limit):
            least = limit / 2
            above = [
                trial_time for trial_time in times if (trial_time.others(least) or 0.0) > limit
            ] or times
            disturbed_time = sum(above, TakenTime())
            took = significant(disturbed_time.others(least) or 0.0, 2)
            processes = f", {disturbed_time.most}" if disturbed_time.most else ""
            disturbances.append(
                f"{where}others took {took} processors on those of the pollers in "
                f"{percent(len(above) / len(times), 2)} of its trials{processes}"
            )
        if total.stolen is not None and total.stolen > limit:
            disturbances.append(
                f"{where}a hypervisor took {percent(total.stolen, 2)} of a processor"
            )
    return "; ".join(disturbances)


def moved_text(rounds: Mapping[int, Sequence[TrialRecord]]) -> str:
    """How a hypervisor moved the processors of DUT and tester between rounds, in words; "".

    A cache line that goes from one to the other takes several times as long where their cores have
    no cache in common, and with it each frame: it is what most of a virtual machine's rates
    wander by.
    """
    lines = {
        number: [max(line_ns) for t in trials if (line_ns := _cache_line_ns(t)) is not None]
        for number, trials in rounds.items()
    }
    middle = {number: median(times_ns) for number, times_ns in lines.items() if times_ns}
    if len(middle) < 2:
        return ""
    near, far = min(middle, key=middle.__getitem__), max(middle, key=middle.__getitem__)
    if middle[far] <= DISTURBING_LINE * middle[near]:
        return ""
    return (
        "the hypervisor moved the processors of DUT and tester in between: a cache line took "
        f"{middle[near]:.0f} ns there and back in round {near}, {middle[far]:.0f} ns in round {far}"
    )


def _cache_line_ns(trial: TrialRecord) -> tuple[float, float] | None:
    return None if trial.result.machine is None else trial.result.machine.line_ns


def marked(
    goals: Iterable[GoalResult], trials: Sequence[TrialRecord], limit: float
) -> tuple[GoalResult, ...]:
    """Results of a search, irregular where others took more than a limit of its processors."""
    disturbance = describe_disturbance(trials, limit)
    if not disturbance:
        return tuple(goals)
    return tuple(
        goal.model_copy(
            update={
                "regular": False,
                "reason": "; ".join(filter(None, (goal.reason.rstrip("."), disturbance))),
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
        self._foreign_times: dict[str, TakenTime] = {}

    def add(self, trial: TrialRecord) -> None:
        """Look at a trial."""
        self._count += 1
        if texts := trial.result.disturbed_by(self._limit):
            self._first = self._first or f"trial {trial.number}: {'; '.join(texts)}"
            self._disturbed += 1
        for host, foreign_time in trial.result.taken.items():
            self._foreign_times[host] = self._foreign_times.get(host, TakenTime()) + foreign_time

    def texts(self) -> list[str]:
        """Return the warnings about disturbed trials."""
        warnings = []
        if self._disturbed:
            warnings.append(
                f"{self._disturbed} of {self._count} trials were run on a disturbed machine "
                f"({self._first})"
            )
        for host, foreign_time in self._foreign_times.items():
            if foreign_time.stolen is not None and foreign_time.stolen > self._limit:
                where = f"host {host}: " if host else ""
                stolen = percent(foreign_time.stolen, 2)
                warnings.append(f"{where}a hypervisor took {stolen} of a processor in trials")
        return warnings
