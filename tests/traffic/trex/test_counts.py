"""What the client's process answers becomes counts that add up, or no result at all."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from tests.traffic.trex.conftest import prepare
from tests.traffic.trex.test_streams import compiled
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import TrialSpec, Verdict
from vnetperf.runner.verdict import judge
from vnetperf.traffic.trex.driver import Trex, explain_lost_probes
from vnetperf.traffic.trex.trials import compute_latency, plan_trial, recorded, to_trial_result

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
    refusal_is_loss: bool, make: Callable[..., Trex]
) -> None:
    # 100 of 1000 frames of a direction were refused; all that were sent came back.
    said = answer((900, 900), (900, 900), dropped=200, latency=PROBED, drained=0.0)
    trex = make(connect=False)
    trex.plan = trex.plan.model_copy(update={"refusal_is_loss": refusal_is_loss})
    trex.client = cast("Any", SimpleNamespace(call=lambda *_, **__: said, close=lambda: None))
    prepare(trex)
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
    latency = compute_latency([{"hdrh": text}])
    assert latency is not None
    assert latency.count == len(values)
    assert latency.min_ns == pytest.approx(min(values) * 1000, rel=0.002)
    assert latency.max_ns == pytest.approx(max(values) * 1000, rel=0.002)
    assert latency.mean_ns == pytest.approx(sum(values) / len(values) * 1000, rel=0.002)


def test_a_coarse_histogram_is_better_than_none() -> None:
    latency = compute_latency([{"hdrh": "", "histogram": {"10": 3, "200": 1}}])
    assert latency is not None
    # No probe took longer than its bucket's end, which is what is known of it.
    assert (latency.count, latency.min_ns, latency.max_ns) == (4, 10_000, 300_000)
    assert latency.percentiles["50"] == pytest.approx(20_000, rel=0.002)
    assert compute_latency([{"hdrh": "", "histogram": {}}]) is None


@pytest.mark.parametrize(
    ("histogram", "said", "times"),
    [
        # The largest is known exactly; a smoothed average that these times cannot have is not used.
        (
            {"100000": 1, "400000": 2},
            {"average": 286555.0, "total_max": 407681},
            (100_000_000, (300 + (200 + 2 * 500) / 3) / 2 * 1e6, 407_681_000),
        ),
        (
            {"100000": 1},
            {"average": 156000.0, "total_max": 156000, "total_min": 156000},
            (156_000_000, 156_000_000, 156_000_000),
        ),
        # Of another probe than those in the histogram: the buckets hold.
        ({"100000": 1}, {"average": 7.0, "total_max": 7, "total_min": 7}, (1e8, 1.5e8, 2e8)),
        ({"0": 2}, {}, (0, 5_000, 10_000)),
    ],
)
def test_coarse_buckets_take_what_the_server_knows_better(
    histogram: dict[str, int], said: dict[str, float], times: tuple[float, float, float]
) -> None:
    latency = compute_latency([{"hdrh": "", "histogram": histogram, **said}])
    assert latency is not None
    assert (latency.min_ns, latency.max_ns) == (times[0], times[2])
    assert latency.mean_ns == pytest.approx(times[1])
    assert all(value <= latency.max_ns * 1.002 for value in latency.percentiles.values())


#: What a server v3.08 without --hdrh said of two of its trials, of 150 probes each.
STALE = {
    "histogram": {
        **{"0": 5, "10": 4, "20": 11, "30": 3, "40": 3, "70": 3, "80": 5, "90": 4, "100": 14},
        **{"200": 13, "300": 22, "400": 6, "500": 8, "600": 7, "700": 13, "800": 7, "900": 9},
        **{"1000": 16, "6000": 1},
    },
    "hdrh": "",
    "received": 150,
    "average": 497.0,
    "total_min": 6,
    "total_max": 0,
}


def test_quick_probes_are_those_of_this_trial() -> None:
    """Its first bucket kept four of trials before, and another time had not its one yet."""
    latency = compute_latency([STALE])
    assert latency is not None
    assert (latency.count, latency.min_ns, latency.max_ns) == (150, 6_000, 7_000_000)
    untold = {"hdrh": "", "histogram": {"10": 149}, "received": 150, "total_min": 17}
    latency = compute_latency([untold])
    assert latency is not None
    assert (latency.count, latency.min_ns, latency.max_ns) == (150, 0, 20_000)
    only_quick = compute_latency([{"hdrh": "", "histogram": {}, "received": 7}])
    assert only_quick is not None
    assert (only_quick.count, only_quick.max_ns) == (7, 10_000)
    none_back = compute_latency([{"hdrh": "", "histogram": {"0": 9}, "received": 0}])
    assert none_back is None


def test_a_resolution_that_is_worse_is_said() -> None:
    coarse = to_trial_result(PLAN, answer((1000, 1000), (1000, 1000), latency=PROBED), 1.0)
    assert any("--hdrh" in why for why in coarse.uncollected.values())
    histogram = HdrHistogram(1, 10_000_000, 3)
    histogram.record_value(50)
    fine = {str(n): {"hdrh": histogram.encode().decode()} for n in PLAN.probes()}
    exact = to_trial_result(PLAN, answer((1000, 1000), (1000, 1000), latency=fine), 1.0)
    assert not any("--hdrh" in why for why in exact.uncollected.values())


@pytest.mark.parametrize(
    ("kind", "workers", "says"),
    [
        ("memif", 2, "several workers"),
        ("memif", 1, ""),
        ("nic", 2, "the NIC's rules"),
        ("veth", 2, ""),
        ("veth", None, "the NIC's rules"),  # somebody else's server, on NICs
    ],
)
def test_why_no_probe_came_back_is_the_reason_that_holds(
    kind: str, workers: int | None, says: str
) -> None:
    reason = explain_lost_probes({kind}, workers)
    assert says in reason
    assert bool(says) is bool(reason)


def test_probes_that_nobody_saw_are_said() -> None:
    result = to_trial_result(PLAN, answer((1000, 1000), (1000, 1000)), 1.0)
    assert "no probe was seen" in result.uncollected["latency"]


def test_what_is_no_histogram_is_an_error() -> None:
    with pytest.raises(GeneratorError, match="histogram that cannot be read"):
        recorded("HISTFAAAA!")


@pytest.mark.parametrize(
    "histogram",
    [{"100": -1}, {"100": 2**64 - 1}, {"-5": 1}, {"x": 1}, {"9" * 20: 1}, {"10": None}, [1], "x"],
)
def test_a_histogram_that_cannot_be_is_no_latency(histogram: Any) -> None:
    """A server's counters go back, too; what the histogram's library makes of -1 ends a process."""
    with pytest.raises(GeneratorError, match="a latency histogram"):
        compute_latency([{"hdrh": "", "histogram": histogram}])


def test_probes_beyond_the_histograms_range_are_told_apart() -> None:
    latency = compute_latency([{"hdrh": "", "histogram": {"100": 3, "20000000": 2}}])
    assert latency is not None
    assert (latency.count, latency.above_range, latency.max_ns) == (5, 2, 30e9)
    assert latency.percentiles["50"] == pytest.approx(200_000, rel=0.002)
