"""What a test case is given: `bench` measures, and its results check themselves."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.bench.conductor import Conductor
from vnetperf.bench.run import Run
from vnetperf.model.result import Result
from vnetperf.model.scenario import Scenario


@dataclass(frozen=True)
class Throughput:
    """The outcome of a throughput search.

    Attributes:
        result: Bounds, conditional throughput and latency for each goal.
    """

    result: Result

    def check_expectations(self) -> None:
        """Fail the case when the DUT did not carry what it must.

        Raises:
            AssertionError: No load met a goal, not even the smallest one searched.
        """
        for goal in self.result.goals:
            if goal.lower_bound_fps is None:
                raise AssertionError(
                    f"{self.result.scenario}, {self.result.frame_size} octets, goal {goal.name}: "
                    f"no load met a loss ratio of {goal.loss_ratio:g}, down to "
                    f"{self.result.min_load_fps:.0f} frames/s per interface ({goal.reason})"
                )


class Bench:
    """A scenario on a testbed, ready to be measured.

    Args:
        run: The run.
        scenario: The scenario.
    """

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.scenario = scenario
        self._conductor = Conductor(run, scenario)

    def search_throughput(self, frame_size: int) -> Throughput:
        """RFC 2544 section 26.1 throughput, and the preset's other goals, at one frame size.

        Args:
            frame_size: Octets including FCS.

        Returns:
            The outcome.

        Raises:
            VnetperfError: There is no number: the DUT or the generator failed.
        """
        return Throughput(self._conductor.throughput(frame_size))
