"""Parametrises test cases over scenarios and frame sizes, and keeps a scenario together."""

from __future__ import annotations

import pytest

from vnetperf.bench.scenarios import scenario_ids
from vnetperf.config import Configuration


def parametrize(metafunc: pytest.Metafunc, configuration: Configuration | None) -> None:
    """Parametrise a test that asks for `bench` (and `frame_size`).

    The scenario is the outer parameter, so that cases of one scenario follow each other.

    Args:
        metafunc: The test function.
        configuration: Says which frame sizes; None when it is wrong, and nothing will be run.
    """
    if "bench" in metafunc.fixturenames:
        # pytest-xdist's loadgroup keeps a scenario's cases on one worker.
        params = [pytest.param(s, id=s, marks=pytest.mark.xdist_group(s)) for s in scenario_ids()]
        metafunc.parametrize("bench", params, indirect=True, scope="session")
    if "frame_size" in metafunc.fixturenames:
        sizes = configuration.preset.frame_sizes if configuration else ()
        metafunc.parametrize("frame_size", sizes, ids=[str(size) for size in sizes])


def scenario_in(nodeid: str) -> str | None:
    """The scenario a test measures, by its id.

    Args:
        nodeid: "test_rfc2544.py::test_throughput[pvp_dpdk-64]".

    Returns:
        "pvp_dpdk"; None for a test that measures none.
    """
    parameters = nodeid.rpartition("[")[2].rstrip("]").split("-")
    known = scenario_ids()
    return next((part for part in parameters if part in known), None)


def group_by_scenario(items: list[pytest.Item]) -> None:
    """Bring the cases of a scenario together, so that it is deployed once.

    Args:
        items: Collected tests, reordered in place; others keep their places at the front.
    """

    def scenario_of(item: pytest.Item) -> int:
        callspec = getattr(item, "callspec", None)
        bench = callspec.params.get("bench") if callspec is not None else None
        return order.get(bench, -1) if isinstance(bench, str) else -1

    order = {s: n for n, s in enumerate(scenario_ids())}
    items.sort(key=scenario_of)
