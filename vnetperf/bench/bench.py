"""What a test case is given: `bench` measures, and its results check themselves."""

from __future__ import annotations

from dataclasses import dataclass

from vnetperf.bench.conductor import Conductor
from vnetperf.bench.run import Run
from vnetperf.bench.transfers import measure, why_not
from vnetperf.model.result import Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import Transfers


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


@dataclass(frozen=True)
class UsersTraffic:
    """What users' own traffic came to.

    Attributes:
        result: TCP and UDP, each both ways.
    """

    result: Transfers

    def check_expectations(self) -> None:
        """Fail the case when nothing arrived.

        Raises:
            AssertionError: A transfer moved nothing.
        """
        for transfer in self.result.transfers:
            if not transfer.bits_per_second:
                spec = transfer.spec
                raise AssertionError(
                    f"{self.result.scenario}: {spec.protocol} {spec.way}: nothing arrived"
                )


class Bench:
    """A scenario on a testbed, ready to be measured.

    Args:
        run: The run.
        scenario: The scenario.
    """

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.scenario = scenario
        self._run = run
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

    def no_users_traffic(self) -> str:
        """What keeps users' traffic from being measured here, before anything is deployed.

        Returns:
            "" when nothing does; otherwise what and the cure, in one sentence.
        """
        return why_not(self._run, self.scenario)

    def users_traffic(self) -> UsersTraffic:
        """TCP and UDP throughput between a UE of the VNF and a server, each both ways.

        Returns:
            The outcome.

        Raises:
            VnetperfError: There is no number: nothing has users here, or something failed.
        """
        return UsersTraffic(measure(self._run, self.scenario))
