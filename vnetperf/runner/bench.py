"""The object of the `bench` fixture.

It measures, and its results check the expectations of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vnetperf.model.errors import NoResultError
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.result import Result
from vnetperf.model.scenario import Scenario, Variant
from vnetperf.model.transfer import Kind, Transfer, Transfers, Way
from vnetperf.plugin.workload import kind_name
from vnetperf.runner.conductor import Conductor
from vnetperf.runner.run import Run
from vnetperf.runner.scenarios import address_scenario, session_scenario
from vnetperf.runner.transfers import (
    Planner,
    find_endpoint_traffic_problem,
    find_users_problem,
    find_workload_problem,
    measure_endpoints,
    measure_users_traffic,
    measure_workload,
)

Check = Callable[[Result], None]
#: Settings that only transfers between sockets depend on.
OF_SOCKETS = ("instances", "endpoint_tool", "endpoint_server", "mpi_program")


@dataclass(frozen=True)
class CaseResult:
    """The outcome of a test.

    Attributes:
        result: What it found, in the field that is the test's own.
        checks: Expectations of the run, each raises AssertionError where they are not met.
    """

    result: Result
    checks: tuple[Check, ...] = ()

    def check_expectations(self) -> None:
        """Fail the case when the DUT did not carry what it must.

        Raises:
            AssertionError: No load met a goal of the search, or an expectation of the run is not
                met.
        """
        __tracebackhide__ = True  # pytest shows the case, and not this
        for goal in self.result.goals:
            if goal.lower_bound_fps is None:
                raise AssertionError(
                    f"{self.result.scenario}, {self.result.frame_size} octets, "
                    f"{self.result.unmet(goal)}"
                )
        for check in self.checks:
            check(self.result)


@dataclass(frozen=True)
class TransferResult:
    """What transfers between sockets came to.

    Attributes:
        result: The transfers.
    """

    result: Transfers

    def check_expectations(self) -> None:
        """Fail the case when nothing arrived.

        Raises:
            AssertionError: A transfer moved nothing.
        """
        for transfer in self.result.transfers:
            if not _moved(transfer):
                spec = transfer.spec
                raise AssertionError(
                    f"{self.result.scenario}: {spec.kind} {spec.way}: nothing arrived"
                )


def _moved(transfer: Transfer) -> bool:
    """Whether each instance moved something, each way; programs of a workload ended in order."""
    if kind_name(transfer.spec.kind):  # a tool without work is an error
        return True
    rates = [
        flow.figures.transactions_per_second or flow.figures.bits_per_second
        for flow in transfer.flows
    ]
    return bool(rates) and all(rates)


def _skip_for(problem: str) -> None:
    """Skip the case, where something keeps it from being measured."""
    if problem:
        raise NoResultError(problem)


class Bench:
    """A scenario on a testbed, ready to be measured.

    Args:
        run: The run.
        scenario: The scenario.
        variant: What it has besides, where it is one of a comparison.
    """

    def __init__(self, run: Run, scenario: Scenario, variant: Variant | None = None) -> None:
        self._variant = Variant() if variant is None else variant
        self.move(run, scenario)

    def move(self, run: Run, scenario: Scenario) -> None:
        """Go on with another run: another testbed takes the cases of one that is lost.

        Args:
            run: The run.
            scenario: The scenario on its testbed.
        """
        self.scenario = scenario
        self.run = run
        self._conductor = Conductor(run, scenario)

    @property
    def _planner(self) -> Planner:
        """What transfers are planned with: the run's configuration, with the variant's besides."""
        run = self.run
        configuration = run.configuration.varied(self._variant)
        return Planner(configuration, run.facts, run.plan, run.note_skipped)

    @property
    def testbed(self) -> str:
        """Name of the testbed."""
        return self.run.configuration.testbed.name

    def release(self) -> None:
        """Take what is deployed away."""
        self.run.release()

    def search_throughput(self, frame_size: int) -> CaseResult:
        """RFC 2544 section 26.1 throughput, and the preset's other goals, at one frame size.

        Args:
            frame_size: Octets including FCS.

        Returns:
            The outcome.

        Raises:
            VnetperfError: There is no number: the DUT or the generator failed.
        """
        return self.measure(THROUGHPUT, frame_size)

    def measure(self, test: str, frame_size: int) -> CaseResult:
        """Run a test at one frame size.

        Args:
            test: "throughput", or one of the procedures: "latency", "frame_loss" ...
            frame_size: Octets including FCS.

        Returns:
            The outcome.

        Raises:
            NoResultError: It has no result here by its own rules.
            VnetperfError: There is no number: the DUT or the generator failed.
        """
        for key, value in self._variant.settings:
            if key in OF_SOCKETS:
                raise NoResultError(
                    f"{key} = {value} changes nothing: {test} sends frames",
                    where=self.scenario.id,
                    cure="vary it in a test of sockets",
                )
        return CaseResult(self._conductor.measure(test, frame_size), tuple(self.run.checks))

    def with_addresses(self) -> Bench:
        """The same scenario with traffic of many addresses, for what a switch learns of them.

        Returns:
            A bench of a variant of the scenario.

        Raises:
            NoResultError: Its vSwitch learns none, or a VNF stands between the ports.
        """
        preset = self._planner.configuration.preset
        return Bench(self.run, address_scenario(self.scenario, preset), self._variant)

    def with_new_sessions(self) -> Bench:
        """The same scenario with frames from inside a NAT alone, for the sessions they make.

        Returns:
            A bench of a variant of the scenario.

        Raises:
            NoResultError: Its vSwitch is no NAT.
        """
        return Bench(self.run, session_scenario(self.scenario), self._variant)

    def users_traffic(self) -> TransferResult:
        """TCP and UDP throughput between a UE of the VNF and a server, each both ways.

        Returns:
            The outcome.

        Raises:
            NoResultError: It cannot be measured here, which is known before anything is deployed.
            VnetperfError: There is no number: something failed.
        """
        _skip_for(find_users_problem(self._planner, self.scenario))
        return TransferResult(measure_users_traffic(self.run, self._planner, self.scenario))

    def between_endpoints(
        self, kind: Kind, message_size: int, way: Way = "forth", clients: int | None = None
    ) -> TransferResult:
        """What a tool measures between two endpoints in place of the tester.

        Args:
            kind: What they do: "TCP_STREAM", "UDP_STREAM", "TCP_RR" ...
            message_size: Octets of a message.
            way: "forth" from port 0, "back" from the other end, "both" at once.
            clients: Parallel instances of the tool; None for `--instances`.

        Returns:
            The outcome.

        Raises:
            NoResultError: They cannot talk here, which is known before anything is deployed.
            VnetperfError: There is no number: a tool or the DUT failed.
        """
        planner, scenario = self._planner, self.scenario
        _skip_for(find_endpoint_traffic_problem(planner, scenario, kind, message_size, clients))
        return TransferResult(
            measure_endpoints(
                self.run, planner, scenario, kind, message_size, way=way, clients=clients
            )
        )

    def run_workload(self, kind: Kind, message_size: int | None = None) -> TransferResult:
        """What a workload's programs measure.

        Ranks of MPI are in `--pods` pods with `--ranks` ranks each; the speed of guests is that of
        `--instances` threads in each VNF at once, and of as many on the host.

        Args:
            kind: What they do: "MPI_LATENCY", "GUEST_CPU" ...
            message_size: Octets of a message; None for what has none.

        Returns:
            The outcome.

        Raises:
            NoResultError: None can run here, which is known before anything is deployed.
            VnetperfError: There is no number: a program was lost, or something failed.
        """
        _skip_for(find_workload_problem(self._planner, self.scenario, kind, message_size))
        return TransferResult(
            measure_workload(self.run, self._planner, self.scenario, kind, message_size)
        )
