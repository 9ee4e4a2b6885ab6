"""Under pytest-xdist: which worker runs which cases, and what a worker waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling, LoadScheduling, LoadScopeScheduling


class WorkerProgress:
    """Tells the controller of pytest-xdist what a worker waits for: it has a terminal."""

    follows = False

    def __init__(self, config: pytest.Config) -> None:
        self._channel = getattr(config, "workerinput", {}).get("vnetperf_cases")
        self._waited_for = ""

    def say(self, text: str) -> None:
        """Pass on a wait, once: it is reported ten times a second."""
        if self._channel is not None and text.startswith("waiting") and text != self._waited_for:
            self._waited_for = text
            with suppress(OSError, EOFError):  # the controller has gone
                self._channel.send(text)

    def ignore(self, *_: object) -> None:
        """Report nothing of trials: several workers' would mix."""

    test_begins = round_ends = trial_begins = trial_runs = trial_ends = ignore


class ScenarioScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the cases of a scenario, or of a variant of it, on one worker: it is deployed once.

    Where workers have testbeds of their own, a scenario stays with all its variants on one of them:
    they are compared. What a resumed run has measured of it is on its testbed.

    xdist's own `loadgroup` marks ids in a way that pytest 9.2 no longer sees.

    Attributes:
        cases: Id of each test that measures, and what is deployed for it.
        testbeds: Number of each worker's testbed; empty where there is one testbed.
        measured_on: Number of the testbed on which a resumed run has measured a scenario.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Any,
        *,
        cases: Mapping[str, str],
        testbeds: Mapping[Any, int],
        measured_on: Mapping[str, int],
    ) -> None:
        super().__init__(config, log)
        self.cases, self.testbeds, self.measured_on = cases, testbeds, measured_on

    def _split_scope(self, nodeid: str) -> str:
        case = self.cases.get(nodeid)
        if case is None:
            return nodeid
        return case.partition("-")[0] if self.testbeds else case

    def _may_take(self, node: Any, scope: str) -> bool:
        """Whether a scenario is no other running worker's, by what a resumed run has of it."""
        testbed = self.measured_on.get(scope)
        others = {
            number
            for other, number in self.testbeds.items()
            if other is not node and not other.shutting_down
        }
        return testbed is None or testbed not in others

    def _assign_work_unit(self, node: Any) -> None:
        scope = next((scope for scope in self.workqueue if self._may_take(node, scope)), None)
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        waiting = any(self._may_take(node, scope) for scope in self.workqueue)
        if self.workqueue and not waiting and not node.shutting_down:
            node.shutdown()  # what is left is for the others
            return
        super()._reschedule(node)


class LateScheduling:
    """xdist's own scheduler until the workers have collected a case that measures.

    Which cases there are is known only then, and a session without any is not ours to reorder.
    """

    def __init__(self, config: pytest.Config, log: Any, scheduling: ScenarioScheduling) -> None:
        self._scheduling = scheduling
        kind = LoadGroupScheduling if config.getoption("dist") == "loadgroup" else LoadScheduling
        self._chosen: Any = kind(config, log)
        self._collections: dict[Any, Sequence[str]] = {}
        self._decided = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chosen, name)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected."""
        self._collections[node] = collection
        self._chosen.add_node_collection(node, collection)

    def schedule(self) -> None:
        """Every worker has collected: choose, and hand out tests."""
        if not self._decided:
            self._decided = True
            if self._scheduling.cases:
                self._replace()
        self._chosen.schedule()

    def _replace(self) -> None:
        nodes = list(self._chosen.nodes)
        self._chosen = self._scheduling
        for node in nodes:
            self._chosen.add_node(node)
        for node in nodes:
            self._chosen.add_node_collection(node, self._collections[node])
