"""How often the interval of a soak's loss ratio covers the truth, on simulated DUTs that stall.

    python -m benchmarks.coverage [soaks of each kind]

A soak of half an hour at 1 Mfps, on DUTs that stand still for some milliseconds now and then, at
random. "frames" is the Clopper-Pearson interval, as if frames were lost independently; "trials" is
what a soak reports. An interval of 95 % must cover the truth in 90 % of the soaks or more; of two
soaks of the same DUT it must not set more than 10 % apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from vnetperf.model.outcomes import Soak
from vnetperf.model.parameters import SoakTest
from vnetperf.plugin.procedure import KnownThroughput, ProcedureInputs
from vnetperf.procedures.soak import soak
from vnetperf.statistics import clopper_pearson
from vnetperf.testing.sim import DutOverTime, run

LOAD_FPS = 1e6
LEAST, MOST_APART = 0.9, 0.1


@dataclass(frozen=True)
class Kind:
    """A DUT and how it is soaked.

    Attributes:
        stall_s: Length of a stall, seconds.
        every_s: Mean time between two, seconds.
        duration_s: Seconds of a soak.
        trial_s: Seconds of a trial.
    """

    stall_s: float
    every_s: float
    duration_s: float = 1800.0
    trial_s: float = 60.0

    @property
    def truth(self) -> float:
        """Its loss ratio in the long run."""
        return self.stall_s / (self.every_s + self.stall_s)

    def __str__(self) -> str:
        return (
            f"{1e3 * self.stall_s:g} ms each {self.every_s:g} s, "
            f"{self.duration_s:g} s in trials of {self.trial_s:g} s"
        )


KINDS = (
    Kind(0.005, 100.0),
    Kind(0.005, 100.0, trial_s=10.0),
    Kind(0.005, 100.0, duration_s=7200.0),
    Kind(0.005, 100.0, duration_s=600.0),
    Kind(0.05, 300.0),
    Kind(0.0005, 5.0),
)


def soaked(kind: Kind, seed: int) -> Soak:
    """Soak one DUT.

    Args:
        kind: What it is.
        seed: Of its stalls.

    Returns:
        What the soak found.
    """
    inputs = ProcedureInputs[SoakTest](
        parameters=SoakTest(duration_s=kind.duration_s, trial_s=kind.trial_s),
        frame_size=64,
        directions=1,
        ceiling_fps=2 * LOAD_FPS,
        media_fps=2 * LOAD_FPS,
        throughput=KnownThroughput(load_fps=LOAD_FPS, search=1, goal="ndr"),
    )
    dut = DutOverTime(2 * LOAD_FPS, stall_every_s=kind.every_s, stall_s=kind.stall_s, seed=seed)
    return run(soak(inputs), dut)[0]


def by_frames(found: Soak) -> tuple[float, float]:
    """The interval as if frames were lost independently."""
    return clopper_pearson(found.lost, found.offered)


def by_trials(found: Soak) -> tuple[float, float]:
    """The interval that a soak reports; without loss it has no upper end."""
    return found.loss_low, 1.0 if found.loss_high is None else found.loss_high


def main() -> int:
    """Soak and print.

    Returns:
        0; 1 when an interval does not cover as often as it must.
    """
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{count} soaks of each kind; covered, and of two of the same DUT set apart")
    print(f"{'':<48} {'by frames':>17} {'by trials':>17}")
    honest = True
    ways: tuple[Callable[[Soak], tuple[float, float]], ...] = (by_frames, by_trials)
    for kind in KINDS:
        found = [soaked(kind, seed) for seed in range(2 * count)]
        cells = []
        for interval in ways:
            ends = [interval(one) for one in found]
            covered = sum(low <= kind.truth <= high for low, high in ends) / len(ends)
            pairs = list(zip(ends[:count], ends[count:], strict=True))
            apart = sum(a[1] < b[0] or b[1] < a[0] for a, b in pairs) / count
            cells.append(f"{covered:>8.1%} {apart:>8.1%}")
            honest = honest and (
                interval is by_frames or (covered >= LEAST and apart <= MOST_APART)
            )
        print(f"{kind!s:<48} {' '.join(cells)}")
    return 0 if honest else 1


if __name__ == "__main__":
    sys.exit(main())
