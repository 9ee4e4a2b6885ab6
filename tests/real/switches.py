"""What the tests of single backends share: one deployed scenario, and sums that must agree."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.analysis.attribution import locate_losses
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.deployment.trial import run_trial
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.stage import repeat_trial

#: Far below what anything here can forward: nothing may be lost.
SLOW = TrialSpec(frame_size=64, load_fps=2000.0, duration_s=0.3, drain_s=3.0, learning_frames=64)
#: Long enough for something to happen in the middle.
LONG = SLOW.model_copy(update={"duration_s": 4.0})
IN_THE_MIDDLE_S = 1.5


@contextlib.contextmanager
def deployed(scenario_id: str, **settings: Any) -> Iterator[LiveDeployment]:
    """Deploy a scenario in this process, and take it away.

    Args:
        scenario_id: "pvp_bridge".
        **settings: As on the command line: wire, rules, vnf_mode, set ...

    Yields:
        The deployment, its path checked.
    """
    configuration = config.load(settings, environment={})
    testbed = configuration.testbed.model_copy(update={"lock_timeout_s": 300.0})
    facts = take_inventory(testbed)
    plan = make_plan(make_scenario(scenario_id, configuration), testbed, facts)
    deployment = deploy_plan(plan, facts)
    try:
        yield deployment
    finally:
        assert deployment.teardown() == []


def forwards(deployment: LiveDeployment, size: int = 64) -> TrialResult:
    """Run a slow trial: nothing is lost, and the counters of every port agree with the tester's.

    Args:
        deployment: What is deployed.
        size: Frame size, octets.

    Returns:
        The trial.
    """
    trial = SLOW.model_copy(update={"frame_size": size})
    result = repeat_trial(lambda: run_trial(deployment, trial))
    assert not result.failed, result.failure
    assert result.directions
    for d in result.directions:
        assert d.sent > 0
        assert (d.received, d.duplicated, d.misrouted) == (d.sent, 0, 0), locate_losses(
            deployment.plan.scenario.deployment, result
        )
    adds_up(deployment, result)
    return result


def adds_up(deployment: LiveDeployment, result: TrialResult) -> None:
    """Follow the frames of a trial without loss: every port must have counted them, and no others.

    Args:
        deployment: What is deployed.
        result: A trial without loss.
    """
    graph = deployment.plan.scenario.deployment
    hops = {hop.port: hop for hop in result.hops}
    for d in result.directions:
        end = graph.ends[d.direction]
        paths = [graph.path(end, chain) for chain in range(graph.chains)]
        # Chains have paths of equal length; which of them a frame took is not told.
        for position, ports in enumerate(zip(*paths, strict=True)):
            side = "tx" if position % 2 else "rx"
            counted = {str(port): getattr(hops[str(port)], side) for port in ports}
            assert sum(counted.values()) == d.sent, (side, counted)
            assert min(counted.values()) * len(counted) >= d.sent - len(counted), counted
    for port in graph.ports:
        hop = hops[str(port)]
        assert (hop.rx_dropped, hop.tx_dropped) == (0, 0)


def fails(deployment: LiveDeployment, accident: Callable[[], None]) -> TrialResult:
    """Run a trial, let something happen in the middle, and see that there is no number.

    Args:
        deployment: What is deployed.
        accident: What happens.

    Returns:
        The failed trial.
    """
    timer = threading.Timer(IN_THE_MIDDLE_S, accident)
    timer.start()
    try:
        result = run_trial(deployment, LONG)
    finally:
        timer.join()
    assert (result.failed, result.directions) == ("dut", ()), result
    return result
