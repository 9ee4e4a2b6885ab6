"""A core in a VM: its sessions are those of the tester's address, which a UE takes."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

from vnetperf import config
from vnetperf.model.errors import DutError
from vnetperf.model.options import Bearers
from vnetperf.runner.scenarios import make_scenario
from vnetperf.vnfs.vepc.vm import VmVepc


def test_after_users_traffic_it_has_no_sessions(tmp_path: Path) -> None:
    machine, plan = MagicMock(), MagicMock()
    machine.subdir.return_value = tmp_path
    plan.scenario = make_scenario("vepc_bridge", config.load({"vnf": "vepc:vm"}, environment={}))
    core = VmVepc(machine, plan, 0)
    core.sessions = (Bearers(teid=1, ue="198.18.0.1", count=2),)
    (first, _) = core.streams(plan.scenario.streams)
    assert first.bearers == core.sessions
    with patch("vnetperf.vnfs.vepc.mobile_core.UeAndServer"), core.users(()):
        pass
    with pytest.raises(DutError, match="deploy it again"):
        core.streams(plan.scenario.streams)
