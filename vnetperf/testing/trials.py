"""Contract kit: trials as they measure, in which every frame is found again or known to be lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vnetperf.bench.attribution import lost_at
from vnetperf.model.ports import Port
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.testbed.deploy import Deployment
from vnetperf.testing.cases import Case, varied
from vnetperf.testing.contract import Contract
from vnetperf.testing.options import OPTIONS
from vnetperf.testing.stage import Stage

#: Slow enough for any switch on any machine, and far too fast for all.
EASY = TrialSpec(
    frame_size=64,
    load_fps=1000,
    duration_s=0.3,
    drain_s=0.5,
    learning_frames=16,
    learning_wait_s=0.3,
)
HARD = EASY.model_copy(update={"load_fps": 20e6})
#: Trials until one loses nothing: on shared cores a frame may come too late now and then.
TRIES = 8


class Trials(Contract):
    """Counters add up, at a slow rate, under overload, and with every option it declares."""

    def test_every_frame_is_forwarded_and_counted(self, case: Case, stage: Stage) -> None:
        """All frames of a slow trial arrive, both ways, and each hop has counted each of them."""
        with stage.deployed(stage.scenario(case)) as deployment:
            result = without_loss(deployment)
            each_hop_counted_all(deployment, result)

    def test_counters_agree_with_the_tester_under_overload(
        self, simple: Case, stage: Stage
    ) -> None:
        """Along the way frames only become fewer, and every lost one is found somewhere."""
        with stage.deployed(stage.scenario(simple)) as deployment:
            result = deployment.run_trial(HARD)
            assert result.failure == ""
            graph = deployment.plan.scenario.deployment
            hops = {hop.port: hop for hop in result.hops}
            for counts in result.directions:
                assert counts.duplicated == counts.misrouted == 0
                at = counts.sent
                for ports, field in _way(deployment, counts.direction):
                    now = sum(getattr(hops[str(port)], field) for port in ports)
                    names = ", ".join(map(str, ports))
                    assert now <= at, f"{names} has {field} of {now}, after {at}"
                    at = now
                assert counts.received <= at
            lost = sum(max(0, result.lost(counts)) for counts in result.directions)
            assert sum(lost_at(graph, result).values()) == lost

    def test_it_takes_the_options_it_declares(self, stage: Stage) -> None:
        """All at once; it forwards, and its facts tell the values."""
        can = self.backend.capabilities
        settings = tuple(f"{name}={text}" for name, text in OPTIONS.items() if name in can.options)
        if not settings:
            pytest.skip(f"{self.vswitch} declares no options")
        with stage.deployed(stage.scenario(varied(can)[0], set=settings)) as deployment:
            without_loss(deployment)
            told = str(deployment.vswitch.facts())
            for name in {"rx_descriptors", "tx_descriptors", "mtu"} & set(can.options):
                assert OPTIONS[name] in told, f"facts() does not tell {name}"


def without_loss(deployment: Deployment) -> TrialResult:
    """A slow trial in which nothing is lost."""
    for attempt in range(TRIES):
        result = deployment.run_trial(EASY)
        assert result.failure == ""
        lost = {f"port {d.direction}": result.lost(d) for d in result.directions}
        assert all(frames >= 0 for frames in lost.values()), f"more came than was sent: {lost}"
        if not any(lost.values()):  # what was not sent on a busy machine is nobody's loss
            break
        assert attempt + 1 < TRIES, f"frames lost at {EASY.load_fps:g} frames/s: {lost}"
    for counts in result.directions:
        assert counts.received == counts.sent > 0
        assert (counts.duplicated, counts.misrouted) == (0, 0)
    return result


def _way(deployment: Deployment, direction: int) -> Iterator[tuple[set[Port], str]]:
    """Ports that a direction's frames pass, of all chains, and the counter that sees them."""
    graph = deployment.plan.scenario.deployment
    paths = [graph.path(graph.ends[direction], chain) for chain in range(graph.chains)]
    for position, ports in enumerate(zip(*paths, strict=True)):
        yield set(ports), "tx" if position % 2 else "rx"


def each_hop_counted_all(deployment: Deployment, result: TrialResult) -> None:
    """Assert that every port on a direction's way has counted each frame that was sent."""
    hops = {hop.port: hop for hop in result.hops}
    for port in deployment.plan.scenario.deployment.ports:
        assert str(port) in hops, f"counters() has no entry for {port}"
    for counts in result.directions:
        for ports, field in _way(deployment, counts.direction):
            counted = sum(getattr(hops[str(port)], field) for port in ports)
            names = ", ".join(sorted(map(str, ports)))
            assert counted == counts.sent, f"{field} of {names}, direction {counts.direction}"
