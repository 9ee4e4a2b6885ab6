"""Parametrises test cases over scenarios and frame sizes, and keeps a scenario together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from vnetperf.bench.scenarios import scenario_ids
from vnetperf.config import Configuration
from vnetperf.model.imix import IMIX
from vnetperf.model.scenario import split_id
from vnetperf.model.units import MIN_FRAME_SIZE
from vnetperf.model.variant import Variant
from vnetperf.pytest_plugin.rounds import round_numbers
from vnetperf.pytest_plugin.variants import Selected, selected_of


def parametrize(
    metafunc: pytest.Metafunc,
    configuration: Configuration | None,
    variants: Sequence[tuple[Variant, tuple[Any, ...]]],
) -> None:
    """Parametrise a test that asks for `bench` (and `frame_size` or `message_size`).

    The scenario is the outer parameter, so that cases of one scenario follow each other.

    Args:
        metafunc: The test function.
        configuration: Says which frame sizes; None when it is wrong, and nothing will be run.
        variants: What it varies, with marks.
    """
    if "bench" in metafunc.fixturenames:
        params = []
        asked = metafunc.definition.get_closest_marker("deployments")
        for scenario in scenario_ids():
            if asked is not None and split_id(scenario)[0] not in asked.args:
                continue
            for variant, marks in variants:
                for number in round_numbers(metafunc.config):
                    one = Selected(scenario, variant, number)
                    # pytest-xdist's loadgroup keeps a scenario's cases on one worker.
                    together = (pytest.mark.xdist_group(one.id), *marks)
                    params.append(pytest.param(one, id=one.in_test_id, marks=together))
        metafunc.parametrize("bench", params, indirect=True, scope="session")
    if "frame_size" in metafunc.fixturenames:
        measured = metafunc.definition.get_closest_marker("measures")
        test = measured.args[0] if measured is not None and measured.args else ""
        sizes = configuration.preset.sizes_of(test) if configuration else ()
        mixed = configuration is not None and configuration.traffic.mix is not None
        ids = [IMIX] if mixed else [str(size) for size in sizes]
        metafunc.parametrize("frame_size", sizes, ids=ids)
    if "message_size" in metafunc.fixturenames:
        sizes = configuration.settings.message_sizes if configuration else ()
        metafunc.parametrize("message_size", sizes, ids=[str(size) for size in sizes])


def _parameters(nodeid: str) -> list[str]:
    return nodeid.rpartition("[")[2].rstrip("]").split("-")


def scenario_in(nodeid: str) -> str | None:
    """The scenario a test measures, by its id.

    Args:
        nodeid: "test_rfc2544.py::test_throughput[pvp_dpdk-64]".

    Returns:
        "pvp_dpdk"; None for a test that measures none.
    """
    known = scenario_ids()
    return next((part for part in _parameters(nodeid) if part in known), None)


def deployment_in(nodeid: str) -> str | None:
    """What is deployed once for tests that follow each other, by their ids.

    Args:
        nodeid: "test_multiqueue.py::test_queues[pvp_dpdk-rx_queues=2-64]".

    Returns:
        "pvp_dpdk-rx_queues=2"; None for a test that measures nothing. A parameter of the user's
        own, in a test without a frame size, counts as a variant: an id does not tell them apart.
    """
    scenario = scenario_in(nodeid)
    if scenario is None:
        return None
    parts = _parameters(nodeid)
    found = [scenario]
    for part in parts[parts.index(scenario) + 1 :]:
        if part == IMIX or (part.isdecimal() and int(part) >= MIN_FRAME_SIZE):
            break
        found.append(part)
    return "-".join(found)


def group_by_scenario(items: list[pytest.Item]) -> None:
    """Bring the cases of a scenario, and of each variant, together, so that it is deployed once.

    Where cases are repeated that holds within a round, and rounds follow each other: A B A B.

    Args:
        items: Collected tests, reordered in place; others keep their places at the front.
    """
    order = {scenario: number for number, scenario in enumerate(scenario_ids())}
    variants: dict[Selected, int] = {}

    def place_of(item: pytest.Item) -> tuple[int, int, int]:
        selected = selected_of(item)
        if selected is None:
            return 0, -1, 0
        seen = variants.setdefault(replace(selected, round=0), len(variants) + 1)
        place = order.get(selected.scenario, -1)
        return selected.round, place, seen if selected.variant else 0

    items.sort(key=place_of)
