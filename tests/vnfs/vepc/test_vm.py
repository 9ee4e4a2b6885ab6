"""A mobile core in a VM: its sessions are those of the tester's address, which a UE takes."""

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
    vepc = VmVepc(machine, plan, 0)
    vepc.sessions = (Bearers(teid=1, ue="198.18.0.1", count=2),)
    (first, _) = vepc.streams(plan.scenario.streams)
    assert first.bearers == vepc.sessions
    with patch("vnetperf.vnfs.vepc.mobile_core.UeAndServer"), vepc.users(()):
        pass
    with pytest.raises(DutError, match="deploy it again"):
        vepc.streams(plan.scenario.streams)
