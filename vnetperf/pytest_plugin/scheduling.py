"""How pytest-xdist shares cases out to its workers: a scenario's cases go to one."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from vnetperf.bench.scenarios import scenario_ids


class ScenarioScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the cases of a scenario on one worker, so that it is deployed once.

    It reads the scenario from the test id: xdist's own `loadgroup` marks ids in a way that
    pytest 9.2 no longer sees.
    """

    def _split_scope(self, nodeid: str) -> str:
        parameters = nodeid.rpartition("[")[2].rstrip("]").split("-")
        known = scenario_ids()
        return next((part for part in parameters if part in known), nodeid)
