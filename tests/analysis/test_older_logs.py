"""A log outlives the search that made it: bounds are then those that its trials show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import NDR, PRESET, Bench, configuration
from vnetperf import search
from vnetperf.analysis import goals
from vnetperf.analysis.logged_tests import searches_of
from vnetperf.analysis.results_from_log import derive
from vnetperf.model.frames import LinkSpeed
from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.preset import StepSearch
from vnetperf.results.log import read_log, unseal
from vnetperf.results.records import LOG_VERSION, BeginRecord
from vnetperf.search import ReplayMismatchError, tst009
from vnetperf.testing.sim import SimulatedDut


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


@pytest.mark.parametrize("seed", [15, 21])  # a visit below the lower bound, one above the upper one
def test_a_confirmation_of_an_older_tst009_is_that_of_its_visits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """It went the goal's width beyond a bound, which was less than a step."""

    def narrow(goal: SearchGoal, *rest: Any) -> search.GoalOutcome:
        return replace(of_today(goal, *rest), goal=goal)

    of_today = tst009._result
    steps = StepSearch(step_fps=50e3, max_r=2)
    preset = PRESET.model_copy(update={"algorithm": "tst009", "tst009": steps, "goals": (NDR,)})
    duts = tuple(SimulatedDut(690e3, noise=0.05, seed=seed) for seed in (seed, seed + 1))
    bench = Bench(tmp_path, FakeAgent(duts=duts), configuration(preset))
    with monkeypatch.context() as patch:
        patch.setattr(tst009, "_result", narrow)
        (then,) = bench.throughput().goals
    bench.run.close()
    records = read_log(bench.path)
    (logged,) = searches_of(records)
    roles = {"above" if seed == 21 else "below"}
    assert any(one.spec.visit and roles & {*one.spec.visit.roles.values()} for one in logged.trials)
    (now,) = derive(records).results[0].goals
    assert now.confirmation == then.confirmation
    assert now == then.model_copy(update={"width": now.width})
    assert now.width > then.width


def test_without_checksums_it_is_not_told_from_an_edited_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.throughput()
    bench.run.close()
    lines = [unseal(line)[0] for line in bench.path.read_bytes().splitlines()]
    lines[0] = lines[0].replace(b'"version":%d' % LOG_VERSION, b'"version":2')
    bench.path.write_bytes(b"\n".join([*lines, b""]))
    monkeypatch.setattr(goals, "make_search", another_search)
    with pytest.raises(ReplayMismatchError):
        derive(read_log(bench.path))


def test_theoretical_maxima_are_those_of_the_frame_in_its_tunnel(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    found = bench.throughput(64, "op2p_dpdk")
    medium = LinkSpeed(bench.configuration.testbed.media.bits_per_second)
    assert found.media_max_fps == pytest.approx(2 * medium.max_frame_rate(64 + 50))
    (goal, _) = found.goals
    assert goal.throughput_l1_bps == pytest.approx((goal.lower_bound_fps or 0) * (64 + 50 + 20) * 8)
    # A log from before does not have the overhead with each test, but the scenario.
    before = [
        record.model_copy(update={"overhead": None}) if isinstance(record, BeginRecord) else record
        for record in read_log(bench.path)
    ]
    assert derive(before).results == (found,)
