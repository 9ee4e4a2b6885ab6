"""What rounds of a search publish on DUTs whose capacity changes in time.

    python -m benchmarks.rounds [DUTS OF A KIND] [KIND ...]

Each DUT is searched as preset quick does (its first goal), once and in rounds, and what is
published is held against what the DUT carries in the five minutes after: *covered* is the share of
DUTs whose range holds that, *false* the share that is called repeatable (of one search: regular)
and is more than 10 % off. "OU 20 %" is how the rate of a switch wandered on two shared processors:
a standard deviation of 20 % and a memory of 8 s.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vnetperf import config
from vnetperf.analysis.goals import wavering_load
from vnetperf.analysis.rounds import over_rounds, start_loads, wants_round
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.preset import Preset
from vnetperf.model.result import GoalResult, Result
from vnetperf.model.trial import DirectionCounts, TrialOutcome, TrialRequest, TrialResult
from vnetperf.search import SearchOutcome, make_search

#: Frames/s per interface.
CAPACITY_FPS, MOST_FPS = 600e3, 3.8e6
STEP_S, QUEUE_FRAMES = 0.1, 2048
#: Seconds around each trial without its waits.
AROUND_S = 0.3
#: What is carried after the searches counts for so long, seconds.
AFTER_S = 300.0
FALSE = 0.10

Factor = Callable[["DutInTime", float], float]


def _dwelling(dut: DutInTime, at_s: float) -> float:
    if at_s >= dut.next_s:
        dut.is_fast = not dut.is_fast
        dut.next_s = at_s + dut.random.expovariate(0.1)
    return 1.0 if dut.is_fast else 0.6


def _wandering(deviation: float) -> Factor:
    def factor(dut: DutInTime, _: float) -> float:
        kept = math.exp(-STEP_S / 8.0)
        dut.place = kept * dut.place + math.sqrt(1 - kept * kept) * dut.random.gauss(0, 1)
        return math.exp(deviation * dut.place)

    return factor


#: Kind -> factor of its capacity at a time.
KINDS: dict[str, Factor] = {
    "steady, 1 %": lambda *_: 1.0,
    "drift -20 %/min": lambda _, t: max(0.5, 1 - 0.2 * t / 60),
    "drift +20 %/min": lambda _, t: min(1.5, 1 + 0.2 * t / 60),
    "fast 20 s, then 0.6": lambda _, t: 1.0 if t < 20 else 0.6,
    "slow 20 s, then 1": lambda _, t: 0.6 if t < 20 else 1.0,
    "two modes, each trial": lambda *_: 1.0,
    "two modes, dwell 10 s": _dwelling,
    "neighbour 20 s of 60 s": lambda d, t: 0.6 if (t + d.phase_s) % 60 < 20 else 1.0,
    "metastable": lambda *_: 1.0,
    "OU 5 %": _wandering(0.05),
    "OU 20 %": _wandering(0.20),
}


@dataclass
class DutInTime:
    """A DUT whose capacity is a function of test time.

    Args:
        kind: One of `KINDS`.
        seed: Of what is drawn.
    """

    kind: str
    seed: int
    clock_s: float = 0.0
    trials: int = 0
    is_fast: bool = False
    next_s: float = 0.0
    place: float = 0.0
    phase_s: float = 0.0
    outcomes: list[TrialOutcome] = field(default_factory=list)
    _steps: list[float] = field(default_factory=list)
    _noise: float = 1.0
    _overloaded_s: float = -math.inf

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - a simulation, not a secret
        self.phase_s = self.random.uniform(0, 60)
        self.place = self.random.gauss(0, 1)

    def _factor(self, step: int) -> float:
        while len(self._steps) <= step:
            self._steps.append(KINDS[self.kind](self, len(self._steps) * STEP_S))
        return self._steps[step]

    def carried(self, load_fps: float, seconds: float, at_s: float) -> float:
        """Frames of a load that come through from a time on."""
        queue = lost = 0.0
        begin = int(at_s / STEP_S)
        for step in range(begin, begin + max(1, round(seconds / STEP_S))):
            queue += (load_fps - CAPACITY_FPS * self._factor(step) * self._noise) * STEP_S
            lost += max(0.0, queue - QUEUE_FRAMES)
            queue = min(max(0.0, queue), QUEUE_FRAMES)
        return load_fps * seconds - lost

    def measure(self, request: TrialRequest) -> TrialOutcome:
        """Run a trial."""
        self.trials += 1
        self._noise = 1 + 0.01 * max(-3, min(3, self.random.gauss(0, 1)))
        if self.kind == "two modes, each trial" and self.random.random() < 0.3:
            self._noise *= 0.6
        if self.kind == "metastable":
            if self.clock_s - self._overloaded_s < 1 and request.load_fps > 0.5 * CAPACITY_FPS:
                self._noise *= 0.7
            if request.load_fps > CAPACITY_FPS * self._noise:
                self._overloaded_s = self.clock_s + request.duration_s + AROUND_S
        intended = max(1, round(request.load_fps * request.duration_s))
        got = self.carried(request.load_fps, request.duration_s, self.clock_s)
        received = max(0, min(intended, math.floor(got)))
        if intended - received < 2:  # rounding
            received = intended
        self.clock_s += request.duration_s + AROUND_S
        counts = DirectionCounts(
            direction=0,
            intended=intended,
            sent=intended,
            refused=0,
            unsent=0,
            received=received,
            tx_seconds=request.duration_s,
        )
        outcome = TrialOutcome(
            request=request,
            loss_ratio=1 - received / intended,
            number=self.trials,
            result=TrialResult(directions=(counts,)),
        )
        self.outcomes.append(outcome)
        return outcome

    def truth_fps(self, exceed_ratio: float, loss_ratio: float) -> float:
        """The load that so many of the trials of a second from now on would carry."""
        if self.kind == "metastable":
            return CAPACITY_FPS
        if self.kind == "two modes, each trial":
            return CAPACITY_FPS * (1.0 if exceed_ratio >= 0.3 else 0.6)
        self._noise, found, at_s = 1.0, [], self.clock_s
        while at_s < self.clock_s + AFTER_S:
            low, high = 0.2 * CAPACITY_FPS, 2.5 * CAPACITY_FPS
            for _ in range(11):
                middle = (low + high) / 2
                is_carried = self.carried(middle, 1.0, at_s) >= middle * (1 - loss_ratio) - 2
                low, high = (middle, high) if is_carried else (low, middle)
            found.append(low)
            at_s += 1.0 + AROUND_S
        return sorted(found)[min(len(found) - 1, int(exceed_ratio * len(found)))]


@dataclass(frozen=True)
class Published:
    """What a rule makes of a DUT."""

    fps: float
    low_fps: float
    high_fps: float
    is_sure: bool
    traffic_s: float


def _searched(goal: SearchGoal, limits: SearchLimits, dut: DutInTime) -> SearchOutcome:
    search = make_search("mlr", [goal], limits)
    dut.outcomes.clear()
    try:
        request = next(search)
        while True:
            request = search.send(dut.measure(request))
    except StopIteration as end:
        outcome: SearchOutcome = end.value
        return outcome


def _result(outcome: SearchOutcome, number: int, wavers_at_fps: float | None) -> Result:
    (one,) = outcome.results
    lower, upper = one.relevant_lower_bound, one.relevant_upper_bound
    loads = {
        "lower": lower.load_fps if lower else None,
        "upper": upper.load_fps if upper else None,
    }
    goal = GoalResult(
        **{
            name: getattr(one.goal, name)
            for name in ("name", "loss_ratio", "exceed_ratio", "final_trial_s", "duration_sum_s")
        },
        width=one.goal.width,
        **{f"{name}_bound{of}_fps": load for name, load in loads.items() for of in ("", "_load")},
        conditional_throughput_fps=None,
        regular=one.regular,
        qualifier="at least" if one.at_least else "at most" if one.at_most else "",
        reason=one.reason,
        wavers_at_fps=wavers_at_fps,
    )
    return Result(scenario="dut", test="throughput", frame_size=64, search=number, goals=(goal,))


def in_rounds(preset: Preset, dut: DutInTime) -> Published:
    """Search as a preset does, in as many rounds as it has."""
    goal, found, seconds = preset.goals[0], list[Result](), 0.0
    while wants_round(found, preset):
        if found:
            dut.clock_s += preset.round_gap_s
        limits = replace(preset.limits(MOST_FPS, start_loads(found, 1.0)), warm_up_s=0.0)
        outcome = _searched(goal, limits, dut)
        seconds += outcome.trial_seconds
        found.append(_result(outcome, len(found) + 1, wavering_load(dut.outcomes, goal)))
    (held,) = over_rounds(dict(enumerate(found, 1)))
    return Published(
        fps=held.lower_bound_fps or 0.0,
        low_fps=held.least_fps or 0.0,
        high_fps=held.most_fps or math.inf,
        is_sure=held.regular and held.repeatable is not False,
        traffic_s=seconds,
    )


def rules(preset: Preset) -> Iterator[tuple[str, Preset]]:
    """The preset with one round, three, five, and five where three do not agree."""
    for count in (1, 3, 5):
        name = "1 round" if count == 1 else f"{count} rounds"
        yield name, preset.model_copy(update={"rounds": count, "most_rounds": count})
    more = preset.model_copy(update={"rounds": 3, "most_rounds": 5})
    yield "3 to 5 rounds", more


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("duts", type=int, nargs="?", default=100)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    arguments = parser.parse_args(argv)
    preset = config.load({"preset": "quick"}, environment={}, directory=Path("/")).preset
    goal = preset.goals[0]
    print(f"goal {goal.name}: loss {goal.loss_ratio:g}, exceed {goal.exceed_ratio:g}")
    print("| DUT | rule | error p10, median, p90 | sure | false | covered | traffic s |")
    print("|---|---|---|---|---|---|---|")
    for kind in arguments.kinds:
        for name, rule in rules(preset):
            errors, found = [], []
            for seed in range(arguments.duts):
                dut = DutInTime(kind, seed)
                one = in_rounds(rule, dut)
                truth = dut.truth_fps(goal.exceed_ratio, goal.loss_ratio)
                errors.append(one.fps / truth - 1)
                is_covered = 0.99 * one.low_fps <= truth <= 1.01 * one.high_fps
                found.append((one, is_covered, one.is_sure and abs(errors[-1]) > FALSE))
            errors.sort()
            n = len(errors)
            ends = (errors[n // 10], errors[n // 2], errors[-1 - n // 10])
            print(
                f"| {kind} | {name} | {', '.join(f'{100 * e:+.0f} %' for e in ends)} | "
                f"{sum(one.is_sure for one, *_ in found) / n:.0%} | "
                f"{sum(wrong for *_, wrong in found) / n:.0%} | "
                f"{sum(covered for _, covered, _ in found) / n:.0%} | "
                f"{statistics.mean(one.traffic_s for one, *_ in found):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
