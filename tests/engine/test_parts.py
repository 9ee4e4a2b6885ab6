"""Two engines with a port of the tester each: one trial, counted at both."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import OpenEngine
from tests.engine.frames import stream
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import GeneratorError
from vnetperf.plugin.frame_layers import write_checksum
from vnetperf.traffic.loadgen.driver import away_port
from vnetperf.traffic.loadgen.engine import Engine, EngineTrial, StreamLoad
from vnetperf.traffic.loadgen.telemetry import EngineResult

pytestmark = pytest.mark.real

AWAY = [away_port(number, 1).argument for number in (0, 1)]


@pytest.fixture
def pair(open_engine: OpenEngine, executable: Path, memif: tuple[str, str]) -> list[Engine]:
    """Port 0 in one engine and port 1 in the other, joined."""
    pair_of = [
        open_engine(executable, memif[0], AWAY[1]),
        open_engine(executable, AWAY[0], memif[1]),
    ]
    for own, engine in enumerate(pair_of):
        engine.set_streams([replace(stream(n, n, 1 - n), away=n != own) for n in (0, 1)])
    wait_for(lambda: all(p.link_up for e in pair_of for p in e.ports(2)), 5.0, "links")
    return pair_of


#: Trials until both engines had a processor during one, each with an epoch of its own.
EPOCHS = 5


def run(
    pair: list[Engine], *, between_s: float = 0.0, epoch: int = 10, **more: Any
) -> list[EngineResult]:
    """A trial; once more where an engine stood still and gave most of its frames up.

    What may not be in a trial that was disturbed either is looked at in each.
    """
    loads = {n: StreamLoad(rate=20_000.0, count=2000) for n in (0, 1)}
    settings: dict[str, Any] = {"delay_s": 0.3, "drain_s": 0.4, "duration_s": 0.1, **more}
    for attempt in range(EPOCHS):
        for engine in pair:
            engine.start(EngineTrial(loads=loads, epoch=epoch + attempt, **settings))
            time.sleep(between_s)
        found = [engine.wait(10) for engine in pair]
        for own, result in enumerate(found):
            counts = result.stream(own).counts
            assert counts.intended == 2000 == counts.sent + counts.unsent
            assert not any(p.corrupted or p.foreign for p in result.ports)
            # What a disturbed trial sent late comes in the one after it, and is counted there.
            assert attempt or not any(p.stale for p in result.ports)
        if all(one.stream(own).counts.sent >= 1000 for own, one in enumerate(found)):
            return found
    raise AssertionError(f"an engine gave most of its frames up in each of {EPOCHS} trials")


@pytest.mark.parametrize("between_s", [0.0, 0.1])
def test_each_counts_what_it_sends_and_what_the_other_sends(
    pair: list[Engine], between_s: float
) -> None:
    found = run(pair, between_s=between_s)
    for own, result in enumerate(found):
        sent, came = result.stream(own), result.stream(1 - own)
        assert sent.counts.intended == 2000 == sent.counts.sent + sent.counts.unsent
        assert (sent.counts.received, came.counts.sent, came.counts.intended) == (0, 0, 0)
        offered = found[1 - own].stream(1 - own).counts.sent
        assert came.counts.received == came.latency.count == offered > 0


def test_stamps_by_the_time_of_day_give_the_latency_that_those_of_one_counter_give(
    pair: list[Engine],
) -> None:
    """Two engines of one machine: both clocks are one, so that both ways must agree."""
    by_counter = run(pair)
    by_day = run(pair, epoch=10 + EPOCHS, clock="wall")
    for own in (0, 1):
        assert by_counter[own].wall_error_ns is None
        error_ns = by_day[own].wall_error_ns
        assert error_ns is not None
        assert error_ns < 1e5  # the rate is not that of the rounded frequency
        came = by_day[own].stream(1 - own)
        # A frame is in no latency where the clocks err by more than its way takes.
        backwards = came.latency.before_departure
        assert backwards is not None
        assert came.latency.count + backwards == came.counts.received > 0
        least = by_counter[own].stream(1 - own).latency.min_ns
        errors = sum(one.wall_error_ns or 0 for one in by_day)
        assert came.latency.min_ns <= 20 * least + errors


#: Of frames each way; a thousandth of a second holds twenty.
RATE_FPS, FRAMES, EVERY_S = 20_000.0, 8000, 0.001


def test_a_round_trip_is_both_ways_without_the_time_between(pair: list[Engine]) -> None:
    """Two engines of one machine: its clock tells both ways, whose sum the round trip is."""
    for own, engine in enumerate(pair):
        streams = [stream(n, n, 1 - n, udp=True) for n in (0, 1)]
        engine.set_streams([replace(one, away=one.id != own) for one in streams])
        engine.capture(100)
    for engine, role in zip(pair, ("ask", "answer"), strict=True):
        loads = {n: StreamLoad(rate=RATE_FPS, count=FRAMES) for n in (0, 1)}
        trial = EngineTrial(
            loads=loads,
            epoch=9,
            delay_s=0.3,
            drain_s=0.4,
            duration_s=FRAMES / RATE_FPS,
            clock="wall",
            echo=role,
            echo_every_s=EVERY_S,
        )
        engine.start(trial)
    found = [engine.wait(10) for engine in pair]
    asks, answers = (engine.echoes() for engine in pair)
    for own, result in enumerate(found):  # nothing is added, and nothing counted twice
        sent = result.stream(own).counts
        came = found[1 - own].stream(own).counts
        assert (sent.sent + sent.unsent, came.received) == (FRAMES, sent.sent)
        assert not any(p.corrupted or p.stale or p.foreign for p in result.ports)
    # A worker that stood still has one frame ask for all that were due; the last ask in vain.
    assert 5 <= len(answers.rows) <= asks.marks <= FRAMES / RATE_FPS / EVERY_S + 1
    came_at = {left: at for _, left, at in asks.rows}
    assert len(came_at) == len(asks.rows)
    assert set(came_at) == {left for _, left, _ in answers.rows}
    assert all(asked & 1 and left & 1 for asked, left, _ in answers.rows)
    times = sorted(came_at[left] - asked - held for asked, left, held in answers.rows)
    ways = [found[1 - own].stream(own).latency for own in (0, 1)]
    errors = sum(one.wall_error_ns or 0 for one in found)
    assert sum(way.min_ns for way in ways) - errors <= times[0]
    assert times[-1] <= sum(way.max_ns for way in ways) + errors
    for place, engine in enumerate(pair):
        kept = [one.octets for one in engine.captured() if one.kind == "sent"]
        stamps = {int.from_bytes(octets[-8:], "little") for octets in kept if octets[-8] & 1}
        assert len(stamps) == sum(octets[-8] & 1 for octets in kept) < len(kept) / 2
        assert place == 0 or stamps <= {left for _, left, _ in answers.rows}
        for octets in kept:  # the mark is in the checksum
            again = bytearray(octets)
            write_checksum(again, "udp", 34, 14)
            assert again == octets


def test_round_trips_are_by_the_time_of_day_alone(pair: list[Engine]) -> None:
    trial = EngineTrial(loads={0: StreamLoad(rate=1e3, count=1)}, duration_s=0.1, echo="ask")
    with pytest.raises(GeneratorError, match="echo=ask by the counter") as refused:
        pair[0].start(trial)
    assert refused.value.accepted == "clock=wall"
    run(pair)
    with pytest.raises(GeneratorError, match="the last trial has no round trips"):
        pair[0].echoes()
