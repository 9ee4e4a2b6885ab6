"""vloop where its VNFs share a processor: our forwarder beside real switches, restarts, deaths."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.real.switches import SLOW, deployed, fails, forwards
from tests.real.test_container import inside_adds_up
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.trial import run_trial
from vnetperf.vnfs.vloop.process import VloopCommand

Unchanged = Callable[[], tuple[str, ...]]


@contextmanager
def sharing(scenario: str, **settings: Any) -> Iterator[LiveDeployment]:
    """A deployment whose VNFs take turns."""
    with deployed(scenario, **settings) as deployment:
        if not deployment.plan.placement.takes_turns("vnf0"):
            pytest.skip("this machine has a processor for each VNF")
        assert all(isinstance(vnf.command, VloopCommand) for vnf in deployment.vnfs)
        yield deployment


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("pvvp_dpdk", {}),
        pytest.param("pvvp_testpmd", {}, marks=pytest.mark.daily),
        pytest.param("pvvp_bridge", {"vnf_mode": "io"}, marks=pytest.mark.daily),
        pytest.param("pvvp_bridge", {"vnf": "vloop:container", "vnf_mode": "io"}),
        pytest.param("pvvp_dpdk", {"set": ("rx_queues=2",)}, marks=pytest.mark.daily),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value or "plain"),
)
def test_every_port_counts_what_the_tester_sent(
    scenario: str, settings: dict[str, Any], unchanged: Unchanged
) -> None:
    with sharing(scenario, **settings) as deployment:
        inside_adds_up(deployment, forwards(deployment))
        facts = deployment.vnfs[0].facts()
        assert facts["application"] == "vnetperf forwarder"
        assert facts["turn, us"] > 0
        threads = {poller.thread_prefix for vnf in deployment.vnfs for poller in vnf.pollers()}
        assert threads == {"vloop-"}
    assert unchanged() == ()


@pytest.mark.daily
@pytest.mark.parametrize("scenario", ["pvvp_dpdk", "pvvp_testpmd"])
def test_either_side_comes_back(scenario: str, unchanged: Unchanged) -> None:
    with sharing(scenario) as deployment:
        deployment.restart_vswitch()
        run_trial(deployment, SLOW)  # what was sent into nothing meanwhile is over
        forwards(deployment)
        deployment.restart_vnf(0)
        run_trial(deployment, SLOW)
        forwards(deployment)
    assert unchanged() == ()


@pytest.mark.daily
def test_one_that_dies_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with sharing("pvvp_dpdk") as deployment:
        (poller,) = deployment.vnfs[1].pollers()
        result = fails(deployment, lambda: os.kill(poller.pid, signal.SIGKILL))
        assert "vnf1 (vnetperf forwarder) has ended" in result.failure
    assert unchanged() == ()
