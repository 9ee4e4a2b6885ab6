"""Reset as the bench conducts it: what cannot happen, and what does not come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent import FakeAgent
from tests.runner.support import PRESET, Bench, configuration
from tests.texts import Texts
from vnetperf.model.errors import CapabilityError
from vnetperf.model.parameters import RecoveryTest, ResetTest
from vnetperf.model.trial import EventTimes, Timeline, TrialResult, TrialSpec

SHORT = PRESET.model_copy(
    update={
        "reset": ResetTest(what=("link", "vnf"), before_s=1, after_s=1, repeats=2, bin_s=0.1),
        "recovery": RecoveryTest(overload_s=1, relaxed_s=1, repeats=2, bin_s=0.1),
    }
)


class Restarting(FakeAgent):
    """An agent whose DUT is restarted in the middle, and forwards nothing for half a second.

    Attributes:
        failure: Why it does not come back.
    """

    failure = ""

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        result = super().run_trial(spec)
        if spec.bin_s:
            result = result.model_copy(update={"timelines": (_line(spec, 0), _line(spec, 1))})
        if spec.event is not None:
            event = EventTimes(what=spec.event.what, began_s=1.0, ended_s=1.4, failure=self.failure)
            result = result.model_copy(update={"event": event})
        return result


def _line(spec: TrialSpec, direction: int) -> Timeline:
    sent = (round(spec.load_fps * 0.1),) * round(spec.duration_s / 0.1)
    down = range(10, 15) if spec.event is not None else range(0)
    received = tuple(0 if n in down else frames for n, frames in enumerate(sent))
    return Timeline(
        direction=direction,
        bin_s=0.1,
        sent=sent,
        received=received,
        arrived=received,
        last_lost_s=1.5 if down else None,
        gap_s=0.5,
        gap_from_s=1.0,
    )


def bench(folder: Path, agent: FakeAgent, **more: Any) -> Bench:
    return Bench(folder, agent, configuration(SHORT.model_copy(update=more)))


def test_what_cannot_happen_is_said_and_nothing_sent_for_it(tmp_path: Path, texts: Texts) -> None:
    agent = Restarting()
    result = bench(tmp_path, agent).measure("reset")
    link, vnf = result.resets
    texts.check(link.why)
    asked = [spec.event.what for spec in agent.trials if spec.event is not None]
    assert asked == ["vnf0", "vnf0"]
    assert vnf.why == ""
    assert vnf.by_loss_s is not None
    assert vnf.by_time_s is not None
    assert (vnf.by_loss_s.mean, vnf.by_time_s.mean) == (0.5, 0.5)


def test_what_does_not_come_back_is_a_result_and_is_deployed_anew(tmp_path: Path) -> None:
    agent = Restarting()
    agent.failure = "vnf0 does not come back: it has ended"
    case = bench(tmp_path, agent)
    result = case.measure("reset")
    assert "vnf0 does not come back" in result.resets[1].why
    deployments = [call for call in agent.calls if call.startswith("deploy")]
    assert len(deployments) == 2
    assert agent.calls[-1] == deployments[-1]  # what comes next finds it whole
    assert case.derived().results[-1].resets == result.resets


def test_recovery_is_conducted_from_the_throughput(tmp_path: Path, texts: Texts) -> None:
    result = bench(tmp_path, Restarting()).measure("recovery")
    assert result.recovery is not None
    assert result.recovery.seconds is None
    texts.check(result.recovery.why)


@pytest.mark.parametrize("generator", ["trex", "pktgen"])
@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("recovery", "cannot change the load within a trial, nor count frames over time"),
        ("reset", "cannot count frames over time within a trial, nor go on while the DUT is"),
        ("latency", "cannot time only frames sent after a moment"),
    ],
)
def test_a_generator_that_cannot_is_said_before_anything_is_done(
    generator: str, test: str, said: str, tmp_path: Path
) -> None:
    agent = Restarting()
    case = Bench(tmp_path, agent, configuration(SHORT, generator=generator))
    with pytest.raises(CapabilityError, match=said):
        case.measure(test)
    assert [call for call in agent.calls if call.startswith(("deploy", "trial", "calib"))] == []
