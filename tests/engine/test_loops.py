"""The engine on loops of virtual devices: exact counts, whatever happens to the frames."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import OpenEngine
from tests.engine.frames import SRC_IP, stream
from tests.realtime import real_time_allowed
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts
from vnetperf.traffic.loadgen.engine import Engine, EngineTrial, FieldSpec, QueueMap, StreamLoad
from vnetperf.traffic.loadgen.telemetry import EngineResult

pytestmark = pytest.mark.real

LAG_S = 2.0
"""Generous: on a busy two-core machine the engine must not give frames up for lack of CPU."""


def run(engine: Engine, loads: dict[int, StreamLoad], **settings: Any) -> EngineResult:
    settings.setdefault("max_lag_s", LAG_S)
    engine.start(EngineTrial(loads=loads, **settings))
    return engine.wait(30)


def assert_adds_up(counts: DirectionCounts) -> None:
    assert counts.intended == counts.sent + counts.refused + counts.unsent


def assert_clean(result: EngineResult, stream_id: int, intended: int) -> None:
    counts = result.stream(stream_id).counts
    assert_adds_up(counts)
    assert counts == DirectionCounts(
        direction=counts.direction,
        intended=intended,
        sent=intended,
        refused=0,
        unsent=0,
        received=intended,
        altered=0,
    )
    assert result.stream(stream_id).latency.before_departure == 0


@pytest.fixture
def loop(open_engine: OpenEngine, executable: Path, memif: tuple[str, str]) -> Engine:
    engine = open_engine(executable, *memif)
    engine.wait_links()
    return engine


def test_every_frame_of_two_streams_is_accounted_for(loop: Engine) -> None:
    loop.set_streams([stream(0, 0, 1), stream(7, 1, 0, size=1518)])
    result = run(loop, {0: StreamLoad(20_000.0), 7: StreamLoad(10_000.5)}, duration_s=0.5)
    assert_clean(result, 0, 10_000)
    assert_clean(result, 7, 5_000)  # round(5000.25)
    assert not result.aborted
    assert result.ports[1].rx_frames == 10_000
    assert result.ports[1].rx_octets == 640_000
    assert result.ports[0].rx_octets == 5_000 * 1518
    assert loop.status().state == "done"


def test_offered_time_is_the_intended_one(loop: Engine) -> None:
    loop.set_streams([stream()])
    result = run(loop, {0: StreamLoad(10_000.0)}, duration_s=0.5, delay_s=0.05)
    sent = result.stream(0)
    assert sent.tx_first_ns is not None
    assert sent.tx_last_ns is not None
    # Frame k is due at k / rate: the last at 499.9 ms, none earlier; lag bounds how late.
    lag = result.ports[0].lag_max_ns
    assert 0 <= sent.tx_first_ns <= lag + 1000
    assert 499_899_000 <= sent.tx_last_ns <= 499_900_000 + lag + 1000
    assert result.ports[0].lag_frames == 5_000
    assert (result.ports[0].lag_mean_ns or 0) <= lag
    assert result.ports[0].max_burst <= 32


def test_burst_limit_holds(loop: Engine) -> None:
    loop.set_streams([stream()])
    result = run(loop, {0: StreamLoad(200_000.0)}, duration_s=0.2, burst=3)
    assert_clean(result, 0, 40_000)
    assert result.ports[0].max_burst <= 3
    assert result.ports[0].tx_calls >= 40_000 / 3


def test_bursts_of_changing_size(loop: Engine) -> None:
    loop.set_streams([stream()])
    for burst in (256, 1, 64, 32):
        result = run(loop, {0: StreamLoad(None, 300)}, burst=burst, policy="retry")
        assert_clean(result, 0, 300)
        assert result.ports[0].max_burst == burst


def test_burst_at_full_rate_is_exact(loop: Engine) -> None:
    loop.set_streams([stream(0), stream(1)])
    loads = {0: StreamLoad(None, 1000), 1: StreamLoad(None, 24)}
    result = run(loop, loads, policy="retry")
    assert_clean(result, 0, 1000)
    assert_clean(result, 1, 24)
    assert result.ports[0].lag_mean_ns is None


def test_histogram_agrees_with_the_sums(loop: Engine) -> None:
    loop.set_streams([stream()])
    result = run(loop, {0: StreamLoad(20_000.0)}, duration_s=0.3)
    latency, received = result.stream(0).latency, result.stream(0).counts.received
    pairs = loop.histograms([0])[0]
    # On a busy machine frames may be given up, but those that came are all in it.
    assert latency.count == sum(count for _, count in pairs) == received > 0
    assert [value for value, _ in pairs] == sorted({value for value, _ in pairs})
    assert latency.above_range == 0
    # A bucket is at most 1/1024 of its value wide.
    assert pairs[0][0] <= latency.min_ns <= pairs[0][0] * (1 + 1 / 1024) + 1
    assert pairs[-1][0] <= latency.max_ns <= pairs[-1][0] * (1 + 1 / 1024) + 1
    from_buckets = sum(value * count for value, count in pairs)
    assert from_buckets <= round(latency.mean_ns * received)
    assert latency.mean_ns * received <= from_buckets * (1 + 1 / 1024) + received


def test_many_streams_share_a_port_evenly(loop: Engine) -> None:
    streams = [stream(n, n % 2, 1 - n % 2) for n in range(40)]
    loop.set_streams(streams)
    loads = {n: StreamLoad(500.0 if n % 2 else 100.0 * (n + 1)) for n in range(40)}
    result = run(loop, loads, duration_s=0.2)
    for n in range(40):
        assert_clean(result, n, 100 if n % 2 else 20 * (n + 1))


def test_a_stream_without_load_rests(loop: Engine) -> None:
    loop.set_streams([stream(0), stream(1)])
    run(loop, {0: StreamLoad(1000.0), 1: StreamLoad(1000.0)}, duration_s=0.05)
    result = run(loop, {1: StreamLoad(1000.0)}, duration_s=0.05)
    assert_clean(result, 0, 0)
    assert_clean(result, 1, 50)
    assert loop.histograms([0]) == {0: ()}


def test_frames_at_the_wrong_port_are_misrouted(loop: Engine) -> None:
    loop.set_streams([stream(0, 0, 0), stream(1, 1, 0)])  # the wire goes from 0 to 1
    result = run(loop, {0: StreamLoad(1000.0), 1: StreamLoad(1000.0)}, duration_s=0.1, drain_s=0.1)
    counts = result.stream(0).counts
    assert (counts.sent, counts.received, counts.misrouted) == (100, 0, 100)
    assert counts.sent - counts.received == 100
    assert_clean(result, 1, 100)


def test_learning_frames_count_for_nothing(loop: Engine) -> None:
    loop.set_streams([stream(0), stream(1, 1, 0)])
    before = run(loop, {0: StreamLoad(1000.0)}, duration_s=0.05)
    assert loop.learn(20, rate=5000.0) == 40  # of each stream, and none refused or unsent
    assert loop.learn(3, stream_id=1) == 3
    assert loop.result().streams == before.streams
    assert_clean(run(loop, {0: StreamLoad(1000.0)}, duration_s=0.05), 0, 50)


def test_bindings_are_those_that_come_out(loop: Engine) -> None:
    count = 300
    ports = FieldSpec(offset=34, width=2, base=5000, count=count)
    constant = FieldSpec(offset=36, width=2, base=2048, count=1)
    loop.set_streams([replace(stream(fields=(ports,)), expected=(constant,)), stream(1, 1, 0)])
    loop.learn_bindings(0, address=26, port=34, count=count)
    assert not any(loop.bindings(0))
    loop.learn(count - 1, stream_id=0, rate=50_000.0, drain_s=1.0)
    learnt = array("Q", loop.bindings(0))
    assert learnt.tolist() == [SRC_IP << 16 | 5000 + n for n in range(count - 1)] + [0]
    with pytest.raises(GeneratorError, match="stream 1 learns no bindings"):
        loop.bindings(1)
    loop.set_streams([replace(stream(), expected=(replace(constant, base=7),))])
    loop.learn_bindings(0, address=26, port=34, count=1)
    loop.learn(5, drain_s=0.2)  # they have another port, as if they quoted the stream's
    assert not any(loop.bindings(0))


def test_jumbo_frames(open_engine: OpenEngine, executable: Path, memif: tuple[str, str]) -> None:
    engine = open_engine(executable, *memif, mtu=9198)
    engine.wait_links()
    engine.set_streams([stream(0, size=9216), stream(1, 1, 0, size=2100)])
    result = run(engine, {0: StreamLoad(1000.0), 1: StreamLoad(1000.0)}, duration_s=0.1)
    assert_clean(result, 0, 100)
    assert_clean(result, 1, 100)
    assert result.ports[1].rx_octets == 100 * 9216


def test_more_receive_queues_than_are_used(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, *memif, rx_queues=4, tx_queues=4)
    engine.wait_links()
    engine.set_streams([stream(0), stream(1, 1, 0)])
    result = run(engine, {0: StreamLoad(10_001.0), 1: StreamLoad(None, 202)}, duration_s=0.1)
    assert_clean(result, 0, 1000)
    assert_clean(result, 1, 202)


@pytest.mark.parametrize(
    "mapping",
    [
        (),
        # Both receive queues of port 1 on different workers: they share what has been seen.
        (QueueMap("rx", 1, 0, 0), QueueMap("rx", 1, 1, 1), QueueMap("tx", 0, 0, 1)),
    ],
    ids=["in-turn", "mapped"],
)
def test_several_workers(
    open_engine: OpenEngine,
    executable: Path,
    memif: tuple[str, str],
    mapping: tuple[QueueMap, ...],
) -> None:
    settings = {"cpus": (0, 1), "rx_queues": 2, "tx_queues": 2, "queue_map": mapping}
    engine = open_engine(executable, *memif, turn_us=50, **settings)
    engine.wait_links()
    assert [w.cpu for w in engine.info().workers] == [0, 1]
    engine.set_streams([stream(0), stream(1, 1, 0)])
    result = run(engine, {0: StreamLoad(20_000.0), 1: StreamLoad(20_000.0)}, duration_s=0.2)
    assert_clean(result, 0, 4000)
    assert_clean(result, 1, 4000)


def test_sleeping_engine_keeps_its_rate(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, *memif, turn_us=20)
    engine.wait_links()
    engine.set_streams([stream(0)])
    # A busy machine may keep it from running for longer than it may lag; not every time, as a
    # sleep that is too long would. What it does send must arrive each time.
    sent = []
    while 15_000 not in sent and len(sent) < 5:
        result = run(engine, {0: StreamLoad(50_000.0)}, duration_s=0.3, drain_s=10.0)
        counts = result.stream(0).counts
        assert counts == DirectionCounts(
            direction=0,
            intended=15_000,
            sent=counts.sent,
            refused=0,
            unsent=counts.unsent,
            received=counts.sent,
            altered=0,
        )
        assert result.stream(0).latency.before_departure == 0
        assert_adds_up(counts)
        sent.append(counts.sent)
    assert 15_000 in sent


def test_frames_of_a_turn_leave_together_and_the_worker_sleeps_in_between(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, *memif, turn_us=1000, priority=1, share=60)
    engine.wait_links()
    engine.set_streams([stream(0)])
    result = run(engine, {0: StreamLoad(50_000.0)}, duration_s=0.3)
    (turns,) = engine.turns(1)
    assert turns.prompt or turns.refused
    assert 50 < turns.sleeps <= 0.001 * turns.time_ns / 1000 + 1
    assert turns.slept_ns > turns.time_ns / 2
    port = result.ports[0]
    assert port.tx_frames / port.turns == pytest.approx(50, rel=0.5)
    assert port.most_in_turn >= 50
    # Sleeps are in no round, and each frame was sent and found.
    (work,) = engine.work(1)
    assert work.packets == 2 * port.tx_frames
    assert work.polls is not None
    assert work.empty_polls is not None
    assert work.idle_cycles is not None
    assert 0 < work.polls - work.empty_polls <= work.packets
    assert work.busy_cycles > 0
    assert work.idle_cycles > 0
    # It looks several times before it sleeps.
    assert work.still_polls is not None
    assert work.still_cycles is not None
    assert turns.sleeps < work.still_polls < work.empty_polls
    assert 0 < work.still_cycles < work.idle_cycles
    hz = engine.info().tsc_hz
    assert (work.busy_cycles + work.idle_cycles) / hz * 1e9 <= turns.time_ns - turns.slept_ns
    # Nothing of it is left for what comes next.
    run(engine, {0: StreamLoad(None, count=1000)})
    assert engine.work(1)[0].packets == 2000
    (turns,) = engine.turns(1)
    assert (turns.prompt, turns.refused) == (0, "")  # full speed is nobody's priority


def test_a_worker_that_is_behind_keeps_to_its_share(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, *memif, turn_us=100, priority=1, share=50)
    engine.wait_links()
    engine.set_streams([stream(0), stream(1, 1, 0)])
    overload = {0: StreamLoad(30e6), 1: StreamLoad(30e6)}
    result = run(engine, overload, duration_s=0.5)
    (turns,) = engine.turns(1)
    if not real_time_allowed():
        assert turns.refused
        pytest.skip(f"the kernel gives no SCHED_FIFO here: {turns.refused}")
    assert turns.refused == ""
    assert turns.forced > 100
    assert turns.slept_ns > 0.4 * turns.time_ns
    for number in (0, 1):
        assert_adds_up(result.stream(number).counts)


# net_ring hands its own frames back: a port that is its own wire, with room for 1023 frames.
RING = "--vdev=net_ring0"


def test_refused_frames_are_counted_not_repeated(open_engine: OpenEngine, executable: Path) -> None:
    engine = open_engine(executable, RING)
    engine.set_streams([stream(0, 0, 0)])
    # One call of 256 frames after the other: the ring may or may not overflow, but must add up.
    result = run(engine, {0: StreamLoad(None, 100_000)}, burst=256, drain_s=0.2)
    counts = result.stream(0).counts
    assert_adds_up(counts)
    assert counts.unsent == 0
    assert counts.received == counts.sent
    assert counts.duplicated == counts.reordered == counts.late == 0


def test_nobody_at_the_other_end(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, memif[0])  # a server without a client
    engine.set_streams([stream(0, 0, 0)])
    with pytest.raises(GeneratorError, match="the link of port 0 did not come"):
        engine.wait_links(0.1)
    dropped = run(engine, {0: StreamLoad(10_000.0)}, duration_s=0.05, drain_s=0.01).stream(0).counts
    assert (dropped.intended, dropped.sent, dropped.refused, dropped.unsent) == (500, 0, 500, 0)
    loads = {0: StreamLoad(10_000.0)}
    kept = run(engine, loads, duration_s=0.05, drain_s=0.01, policy="retry", max_lag_s=0.02)
    counts = kept.stream(0).counts
    assert_adds_up(counts)
    assert (counts.sent, counts.refused, counts.unsent) == (0, 0, 500)
    burst = run(engine, {0: StreamLoad(None, 5_000)}, drain_s=0.01, policy="retry", max_lag_s=0.02)
    assert burst.stream(0).counts.unsent == 5_000


def test_no_mbufs_make_frames_unsent(open_engine: OpenEngine, executable: Path) -> None:
    # The null device takes and frees everything, but 16 buffers never make a burst of 32.
    engine = open_engine(executable, "--vdev=net_null0,no-rx=1", mbufs=16)
    engine.set_streams([stream(0, 0, 0)])
    result = run(engine, {0: StreamLoad(1000.0)}, duration_s=0.1, drain_s=0.01, max_lag_s=0.02)
    counts = result.stream(0).counts
    assert_adds_up(counts)
    assert counts.sent == 0
    assert counts.unsent == 100
    assert result.ports[0].no_mbufs > 0
    burst = run(engine, {0: StreamLoad(None, 1000)}, drain_s=0.01, max_lag_s=0.02).stream(0).counts
    assert (burst.sent, burst.refused, burst.unsent) == (0, 0, 1000)


def test_foreign_frames_are_set_apart(open_engine: OpenEngine, executable: Path) -> None:
    # The null device "receives" zeros of 100 octets (without FCS) as fast as it is asked.
    engine = open_engine(executable, "--vdev=net_null0,size=100")
    engine.set_streams([stream(0, 0, 0)])
    result = run(engine, {0: StreamLoad(1000.0)}, duration_s=0.05, drain_s=0.05)
    port = result.ports[0]
    assert port.foreign == port.rx_frames > 0
    assert port.foreign_octets == port.foreign * 104
    counts = result.stream(0).counts
    assert (counts.sent, counts.received) == (50, 0)


def test_stopped_trial_is_marked_and_adds_up(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    loop.start(EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=100, max_lag_s=LAG_S))
    with pytest.raises(GeneratorError, match=r"the engine is (armed|running)"):
        loop.set_streams([])
    while (live := loop.status().live) is None or not live.received:
        pass
    loop.stop()
    result = loop.wait(10)
    counts = result.stream(0).counts
    assert result.aborted
    assert_adds_up(counts)
    assert counts.intended == 100_000
    assert 0 < counts.sent < 100_000
    assert_clean(run(loop, {0: StreamLoad(1000.0)}, duration_s=0.05), 0, 50)


def test_wait_gives_up_and_aborts(loop: Engine) -> None:
    loop.set_streams([stream(0)])
    loop.start(EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=100))
    with pytest.raises(GeneratorError, match="still running after"):
        loop.wait(0.1)
    assert loop.wait(10).aborted


def test_an_engine_with_both_ends_of_a_wire_ends_in_order(loop: Engine) -> None:
    """Both ends hang up at once, and DPDK's interrupt thread looks at them meanwhile."""
    loop.set_streams([stream()])
    assert_clean(run(loop, {0: StreamLoad(10_000.0)}, duration_s=0.1), 0, 1000)
    loop.close()
    assert loop.process.returncode == 0
