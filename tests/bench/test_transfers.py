"""Users' traffic: what keeps it away is noted, and what it ends is not measured again."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from vnetperf import config
from vnetperf.bench import transfers
from vnetperf.bench.scenarios import make_scenario
from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.plan import Plan
from vnetperf.model.scenario import Scenario
from vnetperf.model.transfer import Transfer, TransferSpec


def scenario(scenario_id: str = "vepc_bridge", **settings: str) -> Scenario:
    return make_scenario(scenario_id, config.load(settings, environment={}))


def run_of(scenario: Scenario, wire: str = "veth") -> MagicMock:
    run = MagicMock()
    run.configuration = config.load({}, environment={})
    run.plan.return_value = Plan.model_construct(scenario=scenario, wire=wire)
    programs = {"iperf3": "/usr/bin/iperf3", "sgsnemu": "/usr/bin/sgsnemu"}
    run.facts.return_value = MachineFacts.model_construct(programs=programs, program_troubles={})
    spec = TransferSpec(kind="TCP_STREAM", duration_s=1)
    run.client.call.return_value = [Transfer(spec=spec, bits_per_second=1e6).model_dump()]
    return run


@pytest.mark.parametrize(("vnf", "ends"), [("vepc", False), ("vepc:vm", True)])
def test_a_core_whose_sessions_end_is_deployed_again(vnf: str, ends: bool) -> None:
    wanted = scenario(vnf=vnf)
    run = run_of(wanted)
    assert transfers.measure(run, wanted).transfers[0].bits_per_second == 1e6
    assert run.forget_deployment.called == ends
    run.log.append.assert_called_once()


def test_what_failed_is_deployed_again() -> None:
    wanted = scenario()
    run = run_of(wanted)
    run.client.call.side_effect = DutError("gone")
    with pytest.raises(DutError):
        transfers.measure(run, wanted)
    run.forget_deployment.assert_called_once()


def test_what_keeps_users_away_is_noted() -> None:
    wanted = scenario()
    run = run_of(wanted)
    assert transfers.why_not(run, wanted) == ""
    run.note_skipped.assert_not_called()
    run = run_of(wanted, "memif")
    assert "--wire veth" in transfers.why_not(run, wanted)
    ((where, why), _) = run.note_skipped.call_args
    assert where == "vepc_bridge, traffic of users"
    assert "memif" in why
    run.deploy.assert_not_called()


def test_without_a_vnf_there_are_no_users() -> None:
    plain = scenario("phy2phy_bridge")
    assert "no VNF" in transfers.why_not(run_of(plain), plain)
