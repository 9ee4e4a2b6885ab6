"""What searches report of DUTs that are not as searches take them to be, confirmed and not.

Run ``python -m benchmarks.confirmation [DUTs of each kind]`` for what searches report, and
``python -m benchmarks.confirmation constants [DUTs of each kind]`` for the same with each constant
of vnetperf/search/confirmation.py at other values: missed (wrong) of the DUTs that searches are
wrong about, false alarms (unstable) of the others. The DUTs have two modes, a history
(an overload leaves half the capacity for 60 s), loss below the bound, loss that begins after idle
and is less than the goal's width, or nothing of the kind, so that false alarms are seen too. Trial
seconds of the confirmation stand apart from the search's.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from vnetperf.model.parameters import ConfirmInputs, SearchGoal, SearchLimits
from vnetperf.search import confirmation, make_search
from vnetperf.testing.sim import SimulatedDut, run

LIMITS = SearchLimits(min_load_fps=10_000.0, max_load_fps=14_880_952.0)
STRICT = SearchGoal(name="mlr-strict")
GOALS = (
    STRICT,
    replace(STRICT, name="mlr-csit", exceed_ratio=0.5, final_trial_s=1.0, duration_sum_s=21.0),
    SearchGoal(
        name="quick",
        exceed_ratio=0.5,
        initial_trial_s=0.5,
        final_trial_s=1.0,
        duration_sum_s=4.0,
        width=0.05,
    ),
)
CAPACITY = 5e6
KINDS: dict[str, dict[str, Any]] = {
    "two modes, 30 % at 3 M": {"low_capacity_fps": 3e6, "low_probability": 0.3},
    "two modes, 50 % at 3 M": {"low_capacity_fps": 3e6, "low_probability": 0.5},
    "half for 60 s after overload": {"wedged_s": 60.0, "between_s": 7.0},
    "2 % loss at 1.0 to 1.2 M": {"lossy_loads_fps": (1.0e6, 1.2e6)},
    "after idle 0.45 % loss above 3.1 M": {
        "lossy_loads_fps": (3.1e6, 1e9),
        "lossy_ratio": 0.0045,
        "lossy_after_rest_s": 1.0,
    },
    "clean": {},
    "noise 0.3 %": {"noise": 0.003},
    "noise 1 %": {"noise": 0.01},
    "noise 2 %": {"noise": 0.02},
    "collapse under overload": {"noise": 0.001, "overload_cost": 0.5},
}


@dataclass(frozen=True)
class Row:
    """Searches of many DUTs of a kind."""

    wrong: float
    """Share that is regular and further from every mode than noise is, or has loss below, %."""

    unstable: float
    """Share that is reported as unstable, %."""

    seconds: float
    """Mean trial seconds of the search."""

    confirm_seconds: float
    """Mean trial seconds of the confirmation."""

    one_rate: float
    """Share without two modes in its result, %."""


def search_duts(kind: str, goal: SearchGoal, duts: int, *, confirmed: bool) -> Row:
    """Search DUTs of a kind with MLRsearch.

    Args:
        kind: One of `KINDS`.
        goal: What to search for.
        duts: How many, with seeds from 0 on.
        confirmed: Whether bounds are confirmed.

    Returns:
        What became of them.
    """
    limits = replace(LIMITS, confirm=ConfirmInputs() if confirmed else None)
    wrong = unstable = one_rate = 0
    seconds, after = [], []
    for seed in range(duts):
        dut = SimulatedDut(CAPACITY, seed=seed, **KINDS[kind])
        outcome, _ = run(make_search("mlr", [goal], limits), dut)
        [result] = outcome.results
        lower = result.relevant_lower_bound
        far = max(0.03, 2 * goal.width)
        modes = {CAPACITY, dut.low_capacity_fps or CAPACITY}
        off = lower is None or all(abs(lower.load_fps / mode - 1) > far for mode in modes)
        wrong += result.regular and (off or dut.lossy_loads_fps != (0.0, 0.0))
        held = result.confirmation
        unstable += held is not None and held.status == "unstable"
        one_rate += held is None or not held.modes
        seconds.append(outcome.trial_seconds)
        after.append(outcome.confirm_seconds)
    share = 100.0 / duts
    return Row(
        wrong * share,
        unstable * share,
        statistics.mean(seconds),
        statistics.mean(after),
        one_rate * share,
    )


#: Constant -> values that it is tried at: the one in use is among them.
CONSTANTS: dict[str, tuple[float, ...]] = {
    "AGREEING": (1, 3, 6),
    "CLIFF": (0.01, 0.03, 0.1),
    "CLIFF_WIDTHS": (1.0, 2.0, 4.0),
    "FURTHER_ROUNDS": (0, 1, 3, 6),
    "RATE_TRIALS": (0, 4, 12),
    "MODE_SHARE": (0.1, 0.2, 0.4),
    "NOISE_ERRORS": (1.0, 2.0, 3.0, 4.0),
}
#: DUTs that searches are right about: what is unstable there is a false alarm.
SOUND = ("clean", "noise 0.3 %", "noise 1 %", "noise 2 %", "collapse under overload")


@dataclass(frozen=True)
class Errors:
    """Error rates over kinds of DUTs and goals."""

    missed: float
    """Share of DUTs with two modes, a history or an inversion that is regular and wrong, %."""

    alarms: float
    """Share of the others that is unstable, %."""

    one_rate: float
    """Share of DUTs with two modes whose result does not show them, %."""

    seconds: float
    """Mean trial seconds of the confirmation, of the others."""


def errors_at(constant: str, value: float, duts: int) -> Errors:
    """Search DUTs of all kinds with one constant of the confirmation at another value.

    Args:
        constant: One of `CONSTANTS`.
        value: Its value.
        duts: How many of each kind.

    Returns:
        The error rates.
    """
    with patch.object(confirmation, constant, value):
        rows = {
            (kind, goal.name): search_duts(kind, goal, duts, confirmed=True)
            for kind in KINDS
            for goal in GOALS
        }
    sound = [row for (kind, _), row in rows.items() if kind in SOUND]
    others = [row for (kind, _), row in rows.items() if kind not in SOUND]
    two = [row for (kind, _), row in rows.items() if "modes" in kind]
    return Errors(
        missed=statistics.mean(row.wrong for row in others),
        alarms=statistics.mean(row.unstable for row in sound),
        one_rate=statistics.mean(row.one_rate for row in two),
        seconds=statistics.mean(row.confirm_seconds for row in sound),
    )


def print_constants(duts: int) -> None:
    """Print error rates against each constant; the others are as they are.

    Args:
        duts: DUTs of each kind.
    """
    print("| constant | value | missed | false alarms | two modes not shown | seconds |")
    print("|---|---|---|---|---|---|")
    for constant, values in CONSTANTS.items():
        for value in values:
            found = errors_at(constant, value, duts)
            mark = " (in use)" if value == getattr(confirmation, constant) else ""
            print(
                f"| `{constant}` | {value:g}{mark} | {found.missed:.1f} % | {found.alarms:.1f} % | "
                f"{found.one_rate:.0f} % | {found.seconds:.0f} s |",
                flush=True,
            )


def main(duts: int) -> None:
    """Print the table.

    Args:
        duts: DUTs of each kind.
    """
    columns = "goal | wrong before | wrong now | unstable | search | confirmation"
    print(f"| DUT of 5 M frames/s | {columns} |\n|{'---|' * 7}")
    for kind in KINDS:
        for goal in GOALS:
            before = search_duts(kind, goal, duts, confirmed=False)
            now = search_duts(kind, goal, duts, confirmed=True)
            print(
                f"| {kind} | {goal.name} | {before.wrong:.0f} % | {now.wrong:.1f} % | "
                f"{now.unstable:.0f} % | {now.seconds:.0f} s | {now.confirm_seconds:.0f} s |"
            )


if __name__ == "__main__":
    counts = [int(one) for one in sys.argv[1:] if one != "constants"]
    if "constants" in sys.argv[1:]:
        print_constants(*counts or [100])
    else:
        main(*counts or [200])
