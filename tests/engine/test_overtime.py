"""Trials over time: loads that change, timelines, delays of some frames only, their differences."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from tests.engine.conftest import OpenEngine
from tests.engine.frames import stream
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts
from vnetperf.traffic.loadgen.engine import Engine, EngineTrial, QueueMap, StreamLoad
from vnetperf.traffic.loadgen.telemetry import EngineQueue, EngineResult

pytestmark = pytest.mark.real

LAG_S = 10.0
MS = 1_000_000


def run(engine: Engine, loads: dict[int, StreamLoad], **settings: Any) -> EngineResult:
    settings.setdefault("max_lag_s", LAG_S)
    engine.start(EngineTrial(loads=loads, **settings))
    return engine.wait(30)


def assert_clean(result: EngineResult, stream_id: int, intended: int) -> None:
    stream = result.stream(stream_id)
    frames = {"intended": intended, "sent": intended, "received": intended}
    sender = stream.counts.direction
    assert stream.counts == DirectionCounts(
        direction=sender, refused=0, unsent=0, altered=0, **frames
    )
    assert stream.latency.before_departure == 0


@pytest.fixture
def loop(open_engine: OpenEngine, executable: Path, memif: tuple[str, str]) -> Engine:
    engine = open_engine(executable, *memif)
    engine.wait_links()
    return engine


def test_load_changes_without_a_gap_or_a_burst(loop: Engine) -> None:
    loop.set_streams([stream(0), stream(1, 1, 0)])
    loads = {0: StreamLoad(20_000.0), 1: StreamLoad(7_001.0)}
    steps = ((1.0, 0.1), (0.25, 0.2), (0.9, 0.1))
    result = run(loop, loads, steps=steps, bin_s=0.02)
    # 20000 * (0.1 + 0.05 + 0.09); rounding is of the sum, so that it does not pile up
    assert_clean(result, 0, 4800)
    assert_clean(result, 1, round(7001 * 0.24))
    lag_ns = max(port.lag_max_ns for port in result.ports)
    assert max(port.max_burst for port in result.ports) <= 32
    sent = loop.timelines([0])[0].sent
    if lag_ns < 2 * MS:  # else the machine was busy, and the bins say that
        due = [400] * 5 + [100] * 10 + [360] * 5
        off = [abs(a - b) for a, b in zip(sent, due, strict=False)]
        assert max(off) <= 2 + 20_000 * lag_ns / 1e9 * 2
    assert sum(sent) == 4800


@pytest.mark.parametrize(
    "mapping",
    [(), (QueueMap("rx", 1, 0, 0), QueueMap("rx", 1, 1, 1), QueueMap("tx", 0, 0, 1))],
    ids=["in-turn", "mapped"],
)
def test_steps_and_timelines_of_several_workers(
    open_engine: OpenEngine,
    executable: Path,
    memif: tuple[str, str],
    mapping: tuple[QueueMap, ...],
) -> None:
    settings = {"cpus": (0, 1), "rx_queues": 2, "tx_queues": 2, "queue_map": mapping}
    engine = open_engine(executable, *memif, turn_us=50, **settings)
    engine.wait_links()
    engine.set_streams([stream(0), stream(1, 1, 0)])
    loads = {0: StreamLoad(20_000.0), 1: StreamLoad(20_000.0)}
    result = run(engine, loads, steps=((0.5, 0.1), (1.0, 0.1)), bin_s=0.01, ipdv=True)
    for number in (0, 1):
        assert_clean(result, number, 3000)
        timeline = engine.timelines([number])[number]
        assert sum(timeline.sent) == sum(timeline.received) == sum(timeline.arrived) == 3000
        assert list(timeline.sent) == list(timeline.received)
        assert timeline.last_lost_ns(refusal_is_loss=True) is None
        differences = engine.differences([number])[number]
        assert sum(count for _, count in differences.pairs) == differences.count
        assert differences.count + differences.shared <= 2998


def test_many_streams_change_their_load_together(loop: Engine) -> None:
    loop.set_streams([stream(n, n % 2, 1 - n % 2) for n in range(40)])
    loads = {n: StreamLoad(100.0 * (n + 1)) for n in range(40)}
    result = run(loop, loads, steps=((1.0, 0.1), (0.0, 0.05), (0.5, 0.1)))
    for n in range(40):
        assert_clean(result, n, 15 * (n + 1))


def test_a_pause_in_the_middle(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    result = run(
        loop, {0: StreamLoad(10_000.0)}, steps=((1.0, 0.1), (0.0, 0.1), (1.0, 0.1)), bin_s=0.05
    )
    assert_clean(result, 0, 2000)
    timeline = loop.timelines([0])[0]
    lag_ns = result.ports[0].lag_max_ns  # what is late shortens the pause
    assert timeline.gap_ns > 0.09e9 - lag_ns
    if lag_ns < 2 * MS:
        assert timeline.gap_ns < 0.2e9
        assert timeline.gap_from_ns >= 0.098e9


def test_a_pause_that_ended_before_the_event_is_not_its(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    result = run(
        loop,
        {0: StreamLoad(10_000.0)},
        steps=((1.0, 0.1), (0.0, 0.1), (1.0, 0.2)),
        bin_s=0.05,
        event_at_s=0.3,
    )
    assert_clean(result, 0, 3000)
    timeline = loop.timelines([0])[0]
    if result.ports[0].lag_max_ns < 2 * MS:
        assert timeline.gap_ns < 0.05e9
    assert timeline.gap_from_ns + timeline.gap_ns >= 0.3e9


def test_stopped_in_the_first_step(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    loop.start(
        EngineTrial(loads={0: StreamLoad(1000.0)}, steps=((1.0, 50.0), (0.5, 50.0)), bin_s=0.1)
    )
    while (live := loop.status().live) is None or not live.received:
        pass
    loop.stop()
    counts = loop.wait(10).stream(0).counts
    assert counts.intended == 75_000
    assert counts.intended == counts.sent + counts.refused + counts.unsent


def test_lost_frames_are_in_the_bin_they_were_sent_in(loop: Engine) -> None:
    # Frames to a port that is not theirs never count as received: stream 0 is lost as a whole.
    loop.set_streams([stream(0, 0, 0), stream(1, 1, 0)])
    loads = {0: StreamLoad(1000.0), 1: StreamLoad(1000.0)}
    result = run(loop, loads, duration_s=0.1, drain_s=0.1, bin_s=0.01)
    lost, kept = loop.timelines([0])[0], loop.timelines([1])[1]
    assert sum(lost.sent) == 100
    assert sum(lost.received) == sum(lost.arrived) == 0
    assert lost.gap_ns == 0
    # The last frame was lost, and when it left is known exactly.
    assert lost.last_lost_ns(refusal_is_loss=True) == result.stream(0).tx_last_ns
    assert kept.last_lost_ns(refusal_is_loss=True) is None


def test_refused_frames_are_in_their_bins(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, memif[0])  # a server without a client
    engine.set_streams([stream(0, 0, 0)])
    run(engine, {0: StreamLoad(10_000.0)}, duration_s=0.05, drain_s=0.01, bin_s=0.01)
    timeline = engine.timelines([0])[0]
    assert sum(timeline.sent) == 0
    assert sum(timeline.refused) == 500
    assert timeline.last_lost_ns(refusal_is_loss=False) is None
    assert timeline.last_lost_ns(refusal_is_loss=True) is not None


def test_bursts_have_timelines(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    result = run(loop, {0: StreamLoad(None, 500)}, policy="retry", bin_s=0.001, ipdv=True)
    assert_clean(result, 0, 500)
    assert sum(loop.timelines([0])[0].sent) == 500
    # Frames of one call have one stamp: those between calls alone have differences.
    found = loop.differences([0])[0]
    calls = result.ports[0].tx_calls
    assert found.count + found.shared == 499
    assert found.count <= calls - 1 < 499
    assert found.poll_ns > 0


def test_successive_frames_have_stamps_of_their_own(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    """Though several are due at each look: the worker sleeps for four of their intervals."""
    engine = open_engine(executable, *memif, turn_us=8000)
    engine.wait_links()
    engine.set_streams([stream(0)])
    loads, most_ns = {0: StreamLoad(500.0)}, 8 / 500 * 1e9
    together = run(engine, loads, duration_s=0.4)
    assert together.ports[0].max_burst > 1
    for _ in range(10):  # a busy machine lets it stand still for longer than eight take
        result = run(engine, loads, duration_s=0.4, ipdv=True)
        found = engine.differences([0])[0]
        assert found.count + found.shared == 199
        if result.ports[0].lag_max_ns < most_ns:
            break
    assert result.ports[0].lag_max_ns < most_ns
    assert (result.ports[0].max_burst, result.ports[0].tx_calls) == (1, 200)
    assert found.shared == 0


def test_more_frames_than_single_calls_carry_leave_in_bursts(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    result = run(loop, {0: StreamLoad(200e6, 200_000)}, drain_s=1.0, max_lag_s=10.0, ipdv=True)
    assert result.stream(0).counts.unsent == 0
    assert result.ports[0].max_burst == 32
    assert loop.differences([0])[0].shared > 0


def test_latency_of_frames_sent_later_only(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    result = run(loop, {0: StreamLoad(10_000.0)}, duration_s=0.3, tag_at_s=0.1, ipdv=True)
    assert_clean(result, 0, 3000)
    tagged = result.stream(0).latency.count
    lag = result.ports[0].lag_max_ns / 1e9
    assert 2000 <= tagged <= 2000 + 10_000 * lag + 1
    assert sum(frames for _, frames in loop.histograms([0])[0]) == tagged
    differences = loop.differences([0])[0]
    assert differences.count + differences.shared == tagged - 1
    assert differences.min_ns <= 0 <= differences.max_ns
    values = [value for value, _ in differences.pairs]
    assert values == sorted(values)
    # A bucket's lowest value, and it is at most 1/1024 of its value wide.
    assert abs(differences.min_ns - values[0]) <= 1 + abs(values[0]) / 1024
    assert abs(differences.max_ns - values[-1]) <= 1 + abs(values[-1]) / 1024


def test_a_trial_without_them_has_none(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    run(loop, {0: StreamLoad(1000.0)}, duration_s=0.05, bin_s=0.01, ipdv=True)
    assert sum(loop.timelines([0])[0].sent) == 50
    loop.learn(10)
    assert sum(loop.timelines([0])[0].sent) == 50  # learning leaves the last result
    run(loop, {0: StreamLoad(1000.0)}, duration_s=0.05)
    with pytest.raises(GeneratorError, match="no timeline"):
        loop.timelines([0])
    with pytest.raises(GeneratorError, match="no differences"):
        loop.differences([0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": ((1.0, 0.1),), "duration_s": 0.1}, "duration and steps"),
        ({"steps": ((1.5, 0.1),)}, "steps=1.5@0.1"),
        ({"steps": ((1.0, 0.0),)}, "steps=1.0@0.0"),
        ({"steps": ((1.0, 1.0),) * 33}, "steps=1.0@1.0"),
        ({"duration_s": 10.0, "bin_s": 1e-6}, "bins of 1e-06 s"),
    ],
)
def test_what_cannot_be_is_refused(loop: Engine, settings: dict[str, Any], message: str) -> None:
    loop.set_streams([stream(0)])
    with pytest.raises(GeneratorError, match=message):
        loop.start(EngineTrial(loads={0: StreamLoad(1000.0)}, **settings))
    with pytest.raises(GeneratorError, match="has a count"):
        loop.start(EngineTrial(loads={0: StreamLoad(1000.0, 10)}, steps=((1.0, 0.1),)))
    assert_clean(run(loop, {0: StreamLoad(1000.0)}, duration_s=0.05), 0, 50)


def test_a_port_is_let_go_of_and_taken_up_in_the_middle_of_a_trial(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    """The far end is another process, which ends; a new one takes its place at the same socket."""
    far = "--vdev=net_memif0,role=server,id=0,socket={0}/m,socket-abstract=no,rsize=11"
    near = "--vdev=net_memif0,role=client,id=0,socket={0}/m,socket-abstract=no,rsize=11"
    first = open_engine(executable, far.format(run_dir), turn_us=20)
    engine = open_engine(executable, near.format(run_dir), turn_us=20)
    engine.wait_links()
    engine.set_streams([stream(0, 0, 0)])
    spec = EngineTrial(
        loads={0: StreamLoad(5000.0)}, duration_s=60.0, drain_s=0.1, max_lag_s=LAG_S, bin_s=0.05
    )
    engine.start(spec)
    sleep(0.5)
    engine.unplug(0)
    with pytest.raises(GeneratorError, match="port 0 is not"):
        engine.unplug(0)
    first.close()
    (run_dir / "m").unlink(missing_ok=True)
    with pytest.raises(GeneratorError, match="does not start"):
        engine.plug(0, 0.05)
    again = open_engine(executable, far.format(run_dir), turn_us=20)
    engine.plug(0)
    with pytest.raises(GeneratorError, match="port 0 was not"):
        engine.plug(0)
    sleep(0.5)
    engine.stop()
    result = engine.wait(10)
    counts = result.stream(0).counts
    assert counts.intended == 300_000 == counts.sent + counts.refused + counts.unsent
    timeline = engine.timelines([0])[0]
    assert sum(timeline.sent[:5]) > 0
    assert sum(timeline.refused) == counts.refused > 0
    away = [n for n, refused in enumerate(timeline.refused) if refused]
    assert sum(timeline.sent[away[0] + 1 : away[-1]]) == 0, "it was away in one piece"
    assert sum(timeline.sent[away[-1] + 1 :]) > 0
    assert again.xstats(0)["rx_good_packets"] > 0


def stalled(loop: Engine, rate: float, away_s: float, **settings: Any) -> EngineResult:
    """Half a second of traffic, in the middle of which the engine stands still."""
    loop.start(EngineTrial(loads={0: StreamLoad(rate)}, duration_s=0.5, drain_s=0.1, **settings))
    sleep(0.2)
    os.kill(loop.pid, signal.SIGSTOP)
    try:
        sleep(away_s)
    finally:
        os.kill(loop.pid, signal.SIGCONT)
    return loop.wait(30)


def test_the_time_that_the_engine_stood_still_is_known(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    stalled(loop, 50_000.0, 0.1, max_lag_s=LAG_S)
    poll, send = loop.gaps()
    for gaps in (poll, send):
        assert 0.095 < gaps.max_s < 0.2
        assert gaps.percentiles["99.9"] == pytest.approx(gaps.max_s, rel=0.01)
        assert gaps.percentiles["50"] < 0.05
    # A ring of 4500 frames holds 90 ms of this load.
    held = [EngineQueue("rx", 1, 0, 50_000.0, 4500), EngineQueue("tx", 0, 0, 50_000.0, 4500)]
    for queue in loop.queue_gaps(held):
        assert (queue.share, queue.hold_s) == (1.0, 0.09)
        assert queue.over_s >= 0.095
    (unknown,) = loop.queue_gaps([EngineQueue("rx", 1, 0, 50_000.0)])
    assert unknown.over_s == 0
    (still,) = loop.queue_gaps([EngineQueue("tx", 1, 0, 50_000.0, 4500)])
    assert still.over_s == 0, "this port has sent nothing"
    with pytest.raises(GeneratorError, match="queue"):
        loop.queue_gaps([EngineQueue("rx", 1, 1, 50_000.0)])


def test_a_stall_after_the_last_frame_has_come_is_no_gap(loop: Engine) -> None:
    # Frames to a port that is not theirs are lost, so that the trial drains for the whole time.
    loop.set_streams([stream(0, 0, 0)])
    loads = {0: StreamLoad(1000.0)}
    loop.start(EngineTrial(loads=loads, duration_s=0.05, drain_s=1.0, max_lag_s=LAG_S))
    while loop.status().state != "draining":
        sleep(0.01)
    sleep(0.1)
    os.kill(loop.pid, signal.SIGSTOP)
    try:
        sleep(0.3)
    finally:
        os.kill(loop.pid, signal.SIGCONT)
    assert loop.wait(30).stream(0).counts.received == 0
    poll, _ = loop.gaps()
    assert 0 < poll.max_s < 0.25


def test_catching_up_is_bounded_and_the_rest_is_unsent(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    result = stalled(loop, 50_000.0, 0.1, max_lag_s=LAG_S, catch_up=200, bin_s=0.01)
    counts = result.stream(0).counts
    _, send = loop.gaps()
    assert counts.intended == counts.sent + counts.refused + counts.unsent == 25_000
    assert counts.unsent >= 50_000 * 0.095 - 200
    # What was due in the last bin of the stall, and besides no more than what is stated.
    after = loop.timelines([0])[0].sent
    assert max(after) <= 500 + 200 + 50_000 * 0.001
    assert send.max_s > 0.095


def test_frames_that_come_between_trials_are_the_last_ones(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    # Drained for too short a time by a stalled engine: what it finds later is of that trial.
    result = run(loop, {0: StreamLoad(50_000.0)}, duration_s=0.1, drain_s=0.0)
    late = result.stream(0).counts.sent - result.stream(0).counts.received
    sleep(0.05)
    loop.learn(1)
    again = run(loop, {0: StreamLoad(1_000.0)}, duration_s=0.05)
    assert sum(port.stale for port in again.ports) == late
    third = run(loop, {0: StreamLoad(1_000.0)}, duration_s=0.05)
    assert sum(port.stale for port in third.ports) == 0
