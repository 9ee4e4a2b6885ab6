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


def run(pair: list[Engine], *, between_s: float = 0.0, **more: float | None) -> list[EngineResult]:
    loads = {n: StreamLoad(rate=20_000.0, count=2000) for n in (0, 1)}
    settings: dict[str, Any] = {"delay_s": 0.3, "drain_s": 0.4, "duration_s": 0.1, **more}
    for engine in pair:
        engine.start(EngineTrial(loads=loads, epoch=7, **settings))
        time.sleep(between_s)
    return [engine.wait(10) for engine in pair]


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
        assert not any(p.corrupted or p.stale or p.foreign for p in result.ports)


def test_stamps_by_the_time_of_day_give_the_latency_that_those_of_one_counter_give(
    pair: list[Engine],
) -> None:
    """Two engines of one machine: both clocks are one, so that both ways must agree."""
    by_counter = run(pair)
    for engine in pair:
        loads = {n: StreamLoad(rate=20_000.0, count=2000) for n in (0, 1)}
        engine.start(
            EngineTrial(
                loads=loads, epoch=8, delay_s=0.3, drain_s=0.4, duration_s=0.1, clock="wall"
            )
        )
    by_day = [engine.wait(10) for engine in pair]
    for own in (0, 1):
        assert by_counter[own].wall_error_ns is None
        error_ns = by_day[own].wall_error_ns
        assert error_ns is not None
        assert error_ns < 1e5  # the rate is not that of the rounded frequency
        came = by_day[own].stream(1 - own)
        # A frame is in no latency where the clocks err by more than its way takes.
        assert came.latency.count + came.counts.bad_latency == came.counts.received > 0
        least = by_counter[own].stream(1 - own).latency.min_ns
        errors = sum(one.wall_error_ns or 0 for one in by_day)
        assert came.latency.min_ns <= 20 * least + errors
