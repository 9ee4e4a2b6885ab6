from __future__ import annotations

from collections.abc import Callable

import pytest

from vnetperf.model.result import RunIdentity, RunResults, ScenarioFacts
from vnetperf.model.scenario import Plan
from vnetperf.plugin import registry


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has all that guests need."""
    monkeypatch.setattr(registry.load_vnf("vloop:vm"), "missing", lambda *_: "")


@pytest.fixture
def run_of() -> Callable[[Plan], RunResults]:
    """Results of a run in which a plan was deployed."""

    def make(plan: Plan) -> RunResults:
        identity = RunIdentity(
            tool="vnetperf 1", git="g", command="c", started="2026-01-01T00:00:00"
        )
        facts = ScenarioFacts(scenario=plan.scenario.id, plan=plan.model_dump(mode="json"))
        return RunResults(run=identity, preset="smoke", scenarios=(facts,))

    return make
