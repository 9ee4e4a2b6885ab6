"""Conducts tests: begins them, drives them to their end, begins anew, and says what went wrong."""

from __future__ import annotations

import time

from vnetperf.bench.abilities import require_generator
from vnetperf.bench.begin import begin_procedure, begin_search, throughput_of
from vnetperf.bench.driven import procedure_of
from vnetperf.bench.found import result_of
from vnetperf.bench.logged import Case, Logged, LoggedTest
from vnetperf.bench.run import Run
from vnetperf.bench.trials import LimitedError, Trials
from vnetperf.model.errors import (
    CapabilityError,
    GeneratorError,
    HostError,
    NoResultError,
    VnetperfError,
)
from vnetperf.model.result import Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.units import LinkSpeed
from vnetperf.procedures import KnownThroughput, kind_of, replay
from vnetperf.results.records import (
    NotMeasuredRecord,
    ProcedureRecord,
    SearchEndRecord,
    SearchRecord,
)

#: Tests begun again with a lower maximum because the generator could not offer the load.
MAX_RESTARTS = 12
THROUGHPUT = "throughput"


class Conductor:
    """Runs the tests of one scenario.

    Args:
        run: The run.
        scenario: The scenario.
    """

    def __init__(self, run: Run, scenario: Scenario) -> None:
        self.run = run
        self.scenario = scenario
        self._trials = Trials(run, scenario)

    def throughput(self, frame_size: int) -> Result:
        """Search for all goals of the preset at a frame size.

        Args:
            frame_size: Octets including FCS.

        Returns:
            The result, recomputed from the log.

        Raises:
            VnetperfError: There is no number; the log says why.
        """
        return self.measure(THROUGHPUT, frame_size)

    def measure(self, test: str, frame_size: int) -> Result:
        """Run a test at a frame size; the throughput is searched first where it needs one.

        Args:
            test: Its name, "throughput" or one of the procedures.
            frame_size: Octets including FCS.

        Returns:
            The result, recomputed from the log.

        Raises:
            VnetperfError: There is no number; the log says why.
        """
        case = (self.scenario.id, test, frame_size)
        try:
            logged = self._done(case)
            result = self._result(logged)
        except VnetperfError as error:
            self.run.done.pop(case, None)
            self.run.failed[case] = error
            if isinstance(error, HostError):  # the agent died, and what it had deployed with it
                self.run.forget_deployment()
            self.run.log.append(self._not_measured(case, error))
            raise
        self.run.failed.pop(case, None)
        self.run.done[case] = logged
        return result

    def _not_measured(self, case: Case, error: VnetperfError) -> NotMeasuredRecord:
        mix = self.scenario.traffic.mix
        return NotMeasuredRecord(
            scenario=case[0],
            test=case[1],
            frame_size=case[2],
            why=str(error),
            kind="incapable" if isinstance(error, CapabilityError) else "failed",
            imix=mix.name if mix is not None else "",
        )

    def _done(self, case: Case) -> LoggedTest:
        """A test with its end: as this run or an earlier one left it, or driven there.

        What this run has measured is not measured again: the throughput that one test took its
        loads of is the one that is reported.
        """
        if case in self.run.done:
            return self.run.done[case]
        held = self.run.before.test(self.scenario, case)
        if held is not None and not held.final:
            held = None
        if held is not None and held.end is not None:
            return held  # measured before the run was interrupted
        known = None
        if case[1] != THROUGHPUT:
            require_generator(self.run, self.scenario, case[1])
        if case[1] != THROUGHPUT and kind_of(case[1]).needs_throughput and held is None:
            known = self._known_throughput(case[2])
        self.run.deploy(self.scenario, case[2])
        return self._until_offered(case, known, held)

    def _known_throughput(self, frame_size: int) -> KnownThroughput:
        """The throughput of this run, searched now if need be."""
        case = (self.scenario.id, THROUGHPUT, frame_size)
        if case in self.run.failed:
            raise NoResultError(
                f"this test needs the throughput, which was not measured: {self.run.failed[case]}",
                where=f"{self.scenario.id}, {frame_size} octets",
            )
        if case not in self.run.done:
            self.measure(THROUGHPUT, frame_size)
        logged = self.run.done[case]
        return throughput_of(self._result(logged), logged.begin)

    def _result(self, logged: LoggedTest) -> Result:
        media = LinkSpeed(self.run.configuration.testbed.media.bits_per_second)
        return result_of(logged, media)

    def _until_offered(
        self, case: Case, known: KnownThroughput | None, held: LoggedTest | None
    ) -> LoggedTest:
        """Run a test; when the generator cannot offer a load, again below what it can."""
        _, test, frame_size = case
        for _ in range(MAX_RESTARTS):
            if held is not None:
                logged = held  # an interrupted test goes on with its own limits
            else:
                begin = self._begin(test, frame_size, known)
                self.run.log.append(begin)
                logged = Logged(begin)
            held = None
            began = time.monotonic()
            self.run.progress.test_begins(logged.begin)
            try:
                self._drive(logged)
            except LimitedError as limited:
                self.run.lower_ceiling(self.scenario, frame_size, limited.load_fps)
                self._end(logged, began, superseded=True, stopped=limited.reason)
                continue
            except VnetperfError as error:
                # Half a test is no result: the case has none, and a resumed run begins it anew.
                self._end(logged, began, superseded=True, stopped=str(error))
                raise
            self._end(logged, began)
            return logged
        raise GeneratorError(
            f"the generator could not offer a steady load in {MAX_RESTARTS} attempts",
            where=f"{self.scenario.id}, {frame_size} octets",
            cure="give the tester a core of its own, or free this machine of other work",
        )

    def _begin(
        self, test: str, frame_size: int, known: KnownThroughput | None
    ) -> SearchRecord | ProcedureRecord:
        if test == THROUGHPUT:
            return begin_search(self.run, self.scenario, frame_size)
        return begin_procedure(self.run, self.scenario, test, frame_size, known)

    def _end(
        self, logged: LoggedTest, began: float, *, stopped: str = "", superseded: bool = False
    ) -> None:
        logged.end = SearchEndRecord(
            search=logged.begin.search,
            wall_s=round(time.monotonic() - began, 3),
            stopped=stopped,
            superseded=superseded,
        )
        self.run.log.append(logged.end)

    def _drive(self, logged: LoggedTest) -> None:
        """Drive a test to its end, from the first trial that the log does not have."""
        procedure = procedure_of(logged.begin)
        ask = replay(procedure, logged.seen()).ask
        while ask is not None:
            seen = self._trials.counted(logged, ask)
            try:
                ask = procedure.send(seen)
            except StopIteration:
                ask = None
