"""Users of a core: what keeps them away is known before anything is deployed."""

from __future__ import annotations

from typing import Any

import pytest

from vnetperf import config, registry
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.runner.scenarios import make_scenario


def scenario(**settings: Any) -> Scenario:
    return make_scenario("vepc_bridge", config.load(settings, environment={}))


def facts(**programs: str) -> MachineFacts:
    found = {"sgsnemu": "/usr/bin/sgsnemu", **programs}
    return MachineFacts.model_construct(programs=found, program_troubles={})


@pytest.mark.parametrize("vnf", ["vepc", "vepc:vm"])
def test_what_keeps_users_away_is_known_before_anything_is_deployed(vnf: str) -> None:
    here = scenario(vnf=vnf)
    plan = Plan.model_construct(scenario=here, wire="veth")
    loaded = registry.load_vnf(vnf)
    assert loaded.no_users(facts(), plan) == ""
    assert "install the package osmo-ggsn" in loaded.no_users(facts(sgsnemu=""), plan)
    assert "--wire veth" in loaded.no_users(facts(), plan.model_copy(update={"wire": "memif"}))
    assert here.stack is not None
    alone = here.model_copy(update={"stack": here.stack.model_copy(update={"ue": None})})
    assert "[ue]" in loaded.no_users(facts(), plan.model_copy(update={"scenario": alone}))
