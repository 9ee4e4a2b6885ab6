"""A log outlives the search that made it: bounds are then those that its trials show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runner.support import Bench, configuration, with_medium
from vnetperf import search
from vnetperf.analysis import goals
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.parameters import SearchGoal, SearchLimits


def another_search(algorithm: str, asked: Sequence[SearchGoal], limits: SearchLimits) -> object:
    """The algorithm of a later version under the same name."""
    assert algorithm == "mlr"
    return search.binary_search(asked, limits)


def test_a_search_that_has_changed_leaves_the_numbers_of_old_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.throughput()
    bench.run.close()
    (then,) = bench.derived().results
    monkeypatch.setattr(goals, "make_search", another_search)
    now = bench.derived()
    assert now.results == (then,)
    (said,) = (w for w in now.warnings if "searched by other trials" in w)
    assert said.startswith("pvp_dpdk: vnetperf ")


def test_theoretical_maxima_are_those_of_the_frame_in_its_tunnel(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=with_medium(configuration()))
    found = bench.throughput(64, "op2p_dpdk")
    medium = LinkSpeed(bench.configuration.testbed.media.bits_per_second)
    assert found.media_max_fps == pytest.approx(2 * medium.max_frame_rate(64 + 50))
    (goal, _) = found.goals
    assert goal.throughput_l1_bps == pytest.approx((goal.lower_bound_fps or 0) * (64 + 50 + 20) * 8)
    virtual = Bench(tmp_path, name="virtual.jsonl").throughput(64)
    assert virtual.media_max_fps is None  # a wire without a speed of its own
    assert [goal.throughput_l1_bps for goal in virtual.goals] == [None, None]
