"""How pytest-xdist shares cases out to its workers: a scenario's cases go to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdist.scheduler import (  # type: ignore[import-untyped]
    LoadGroupScheduling,
    LoadScheduling,
    LoadScopeScheduling,
)

from vnetperf.pytest_plugin.matrix import deployment_in, scenario_in


class ScenarioScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the cases of a scenario, or of a variant of it, on one worker: it is deployed once.

    It reads the scenario from the test id: xdist's own `loadgroup` marks ids in a way that
    pytest 9.2 no longer sees.
    """

    def _split_scope(self, nodeid: str) -> str:
        return deployment_in(nodeid) or nodeid


class LateScheduling:
    """xdist's own scheduler until the workers have collected a case that measures.

    Which cases there are is known only then, and a session without any is not ours to reorder.

    Args:
        config: pytest's configuration.
        log: xdist's log.
    """

    def __init__(self, config: Any, log: Any) -> None:
        self._config, self._log = config, log
        kind = LoadGroupScheduling if config.getoption("dist") == "loadgroup" else LoadScheduling
        self._chosen: Any = kind(config, log)
        self._collections: dict[Any, Sequence[str]] = {}
        self._decided = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chosen, name)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected.

        Args:
            node: The worker.
            collection: Ids of its tests.
        """
        self._collections[node] = collection
        self._chosen.add_node_collection(node, collection)

    def schedule(self) -> None:
        """Every worker has collected: choose, and hand out tests."""
        if not self._decided:
            self._decided = True
            if any(map(scenario_in, next(iter(self._collections.values()), ()))):
                self._replace()
        self._chosen.schedule()

    def _replace(self) -> None:
        nodes = list(self._chosen.nodes)
        self._chosen = ScenarioScheduling(self._config, self._log)
        for node in nodes:
            self._chosen.add_node(node)
        for node in nodes:
            self._chosen.add_node_collection(node, self._collections[node])
