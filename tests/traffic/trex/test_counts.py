"""What the client's process answers becomes counts that add up, or no result at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from tests.traffic.trex.test_streams import compiled
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import TrialSpec, Verdict
from vnetperf.runner.verdict import judge
from vnetperf.traffic.trex.driver import Trex
from vnetperf.traffic.trex.trials import latency_of, plan_trial, recorded, to_trial_result

PLAN = plan_trial(compiled(), 1000.0, 1.0)


PROBED = {str(n): {"histogram": {"10": 90, "20": 10}} for n in PLAN.probes()}


def answer(sent: tuple[int, int], received: tuple[int, int], **more: Any) -> dict[str, Any]:
    ports = {
        str(n): {"sent": sent[n], "received": received[n], "samples": [(1.0, sent[n], 0.0)]}
        for n in (0, 1)
    }
    return {
        "ports": ports,
        "dropped": 0,
        "latency": {},
        "down": [],
        "started": 0.0,
        "stopped": 1.0,
        **more,
    }


@given(
    st.tuples(st.integers(1, 1000), st.integers(1, 1000)),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.integers(0, 3000),
)
def test_every_intended_frame_is_accounted_for(
    sent: tuple[int, int], kept: tuple[float, float], dropped: int
) -> None:
    received = (int(sent[1] * kept[1]), int(sent[0] * kept[0]))
    result = to_trial_result(PLAN, answer(sent, received, dropped=dropped), 1.0)
    for d in result.directions:
        assert d.sent + d.refused + d.unsent == d.intended == 1000
        assert min(d.refused, d.unsent) >= 0
        assert d.received == received[1 - d.direction]
    assert sum(d.refused for d in result.directions) == min(dropped, 2000 - sum(sent))
    assert judge(result, 0.001)[0] in (Verdict.VALID, Verdict.GENERATOR_LIMITED)


def test_each_direction_has_its_own_loss() -> None:
    result = to_trial_result(PLAN, answer((1000, 1000), (1000, 900)), 1.0)
    assert [result.loss_ratio(d) for d in result.directions] == [0.1, 0.0]


@pytest.mark.parametrize("refusal_is_loss", [True, False])
def test_refused_frames_drop_the_histogram_only_where_they_are_loss(
    refusal_is_loss: bool, make: Callable[..., Trex], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 100 of 1000 frames of a direction were refused; all that were sent came back.
    said = answer((900, 900), (900, 900), dropped=200, latency=PROBED, drained=0.0)
    trex = make(connect=False)
    trex.plan = trex.plan.model_copy(update={"refusal_is_loss": refusal_is_loss})
    trex._frames = compiled()
    monkeypatch.setattr(trex, "_send", lambda *_, **__: said)
    trial = TrialSpec(frame_size=64, load_fps=1000.0, duration_s=1.0, histogram_up_to_loss=0.05)
    result = trex.run(trial, lambda: None)
    assert result.refusal_is_loss is refusal_is_loss
    for d in result.directions:
        assert d.latency is not None
        assert bool(d.latency.percentiles) is not refusal_is_loss


def test_more_sent_than_asked_for_is_somebody_else() -> None:
    with pytest.raises(GeneratorError, match="port 1 sent 5 frames more"):
        to_trial_result(PLAN, answer((1000, 1005), (1005, 1000)), 1.0)


def test_counters_that_stand_still_are_no_result() -> None:
    with pytest.raises(GeneratorError, match="do not change"):
        to_trial_result(PLAN, answer((0, 0), (0, 0)), 1.0)


@given(st.lists(st.integers(1, 3_000_000), min_size=1, max_size=50))
def test_a_histogram_with_whole_microseconds_is_read(values: list[int]) -> None:
    histogram = HdrHistogram(1, 10_000_000, 3)
    for value in values:
        histogram.record_value(value)
    text = histogram.encode().decode()
    pairs = recorded(text)
    assert sum(frames for _, frames in pairs) == len(values)
    latency = latency_of([{"hdrh": text}])
    assert latency is not None
    assert latency.count == len(values)
    assert latency.min_ns == pytest.approx(min(values) * 1000, rel=0.002)
    assert latency.max_ns == pytest.approx(max(values) * 1000, rel=0.002)
    assert latency.mean_ns == pytest.approx(sum(values) / len(values) * 1000, rel=0.002)


def test_a_coarse_histogram_is_better_than_none() -> None:
    latency = latency_of([{"hdrh": "", "histogram": {"10": 3, "200": 1}}])
    assert latency is not None
    assert (latency.count, latency.min_ns, latency.max_ns) == (4, 10_000, 200_000)
    assert latency_of([{"hdrh": "", "histogram": {}}]) is None


def test_probes_that_nobody_saw_are_said() -> None:
    result = to_trial_result(PLAN, answer((1000, 1000), (1000, 1000)), 1.0)
    assert "no probe was seen" in result.uncollected["latency"]


def test_what_is_no_histogram_is_an_error() -> None:
    with pytest.raises(GeneratorError, match="histogram that cannot be read"):
        recorded("HISTFAAAA!")
