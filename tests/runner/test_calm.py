"""Waiting for a calm machine before a search: for how long, and what it never does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, configuration
from vnetperf.model.errors import DutError
from vnetperf.model.trial import TrialResult
from vnetperf.runner import calm


class Watched(FakeAgent):
    """Each look at the machine takes as long as it was asked for."""

    def __init__(self, *others: float, **more: Any) -> None:
        super().__init__(**more)
        self.others = list(others)
        self.looks = 0
        self.now = 0.0

    def watch(self, seconds: float) -> TrialResult:
        self.looks += 1
        self.now += seconds
        assert not self.trials or self.deployed is not None
        return super().watch(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    """Time goes by while the machine is watched alone."""
    agents: list[Watched] = []
    monkeypatch.setattr(calm.time, "monotonic", lambda: sum(agent.now for agent in agents))
    return agents


def searched(folder: Path, agent: Watched, *sizes: int, **update: Any) -> Bench:
    bench = Bench(folder, agent, configuration(PRESET.model_copy(update=update)))
    for size in sizes:
        bench.throughput(size)
    bench.run.close()
    return bench


def test_a_search_begins_once_others_are_gone(tmp_path: Path, clock: list[Watched]) -> None:
    agent = Watched(0.4, 0.3, 0.001)
    clock.append(agent)
    bench = searched(tmp_path, agent, 64)
    assert agent.looks == 3
    assert bench.run.spent[calm.WAITED] == pytest.approx(2.0)
    assert agent.trials


def test_a_calm_machine_is_looked_at_once(tmp_path: Path, clock: list[Watched]) -> None:
    agent = Watched()
    clock.append(agent)
    bench = searched(tmp_path, agent, 64, 128)
    assert agent.looks == 2
    assert calm.WAITED not in bench.run.spent


def test_it_waits_no_longer_than_it_may(tmp_path: Path, clock: list[Watched]) -> None:
    agent = Watched(*[0.5] * 1000)
    clock.append(agent)
    bench = searched(tmp_path, agent, 64, 128, 256, 512, 1024)
    assert agent.looks == calm.LONGEST_IN_ALL_S
    assert bench.run.spent[calm.WAITED] == calm.LONGEST_IN_ALL_S
    assert len({spec.frame_size for spec in agent.trials}) == 5  # all was measured


def test_what_is_no_benchmark_does_not_wait(tmp_path: Path, clock: list[Watched]) -> None:
    agent = Watched(0.5, 0.5)
    clock.append(agent)
    searched(tmp_path, agent, 64, benchmark=False)
    assert agent.looks == 0


def test_a_machine_that_cannot_be_watched_is_measured(tmp_path: Path) -> None:
    class Blind(Watched):
        def watch(self, seconds: float) -> TrialResult:
            raise DutError("nothing answers")

    agent = Blind()
    searched(tmp_path, agent, 64)
    assert agent.trials
