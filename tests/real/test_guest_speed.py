"""Speed of VNFs for real: a tool in a container, the same beside it, and what dies meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable

import pytest

from tests.real.conftest import pids_of
from tests.real.switches import deployed, forwards
from vnetperf.deployment.transfers import run_workload
from vnetperf.model.errors import CapabilityError, GeneratorError
from vnetperf.model.transfer import TransferSpec
from vnetperf.workloads.guest_speed import GuestSpeed

Unchanged = Callable[[], tuple[str, ...]]
CPU = TransferSpec(kind="GUEST_CPU", tool="sysbench", instances=2, duration_s=1)
READ = TransferSpec(kind="GUEST_RANDOM_READ", tool="sysbench", duration_s=1)

pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed"),
]


def test_a_vnf_is_measured_beside_the_host_and_a_killed_tool_is_no_number(
    unchanged: Unchanged,
) -> None:
    settings = {"vnf": "vloop:container", "vnf_mode": "route"}
    with deployed("pvp_bridge", **settings) as deployment:
        cpu, read = run_workload(deployment, GuestSpeed(), [CPU, READ])
        for one in (cpu, read):
            assert one.on_host is not None
            assert [flow.port for flow in one.flows] == [0]
            assert one.elapsed_s >= 1
            assert one.version == "sysbench 1.0.20" or one.version.startswith("sysbench 1.")
            assert one.steal is not None
            assert 0 <= one.steal <= 1
            counted = one.tlb_misses_per_second is not None
            assert counted != one.events_why.startswith("not measured")
            assert one.client.user_s is not None
            assert 0 < one.client.user_s < 2 * one.elapsed_s * os.cpu_count()
        assert cpu.events_per_second > 0 < cpu.on_host.events_per_second
        assert read.octets_per_second > 0 < read.on_host.octets_per_second

        def kill() -> None:
            for pid in pids_of("sysbench"):
                os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(1.5, kill)
        timer.start()
        with pytest.raises(GeneratorError, match=r"has ended with status -?\d+ in vnf0"):
            run_workload(deployment, GuestSpeed(), [CPU.model_copy(update={"duration_s": 8})])
        timer.join()
        assert pids_of("sysbench") == []
        forwards(deployment)  # the tester is back, and the VNF routes as before
    assert unchanged() == ()


def test_where_no_vnf_takes_programs_it_is_said() -> None:
    with deployed("phy2phy_bridge") as deployment, pytest.raises(CapabilityError, match="no VNFs"):
        run_workload(deployment, GuestSpeed(), [CPU])
