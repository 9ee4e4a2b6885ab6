"""TRex for real, where its server is found: frames on the wire, counts, accidents, owners."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.real.looped import Loop, looped
from vnetperf import config
from vnetperf.config.files import available
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.capability_check import generator_errors
from vnetperf.plugin.compiled_frames import compile_traffic
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.frames import NetdevPort
from vnetperf.traffic.trex.driver import Trex

Unchanged = Callable[[], tuple[str, ...]]
#: Directory of the server, when it is not in PATH.
TREX_DIR = "VNETPERF_TREX_DIR"
if TREX_DIR in os.environ:
    os.environ["PATH"] += f":{os.environ[TREX_DIR]}"
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        shutil.which("_t-rex-64") is None,
        reason=f"no _t-rex-64 in PATH, and no {TREX_DIR} with its directory",
    ),
]
SLOW = TrialSpec(frame_size=64, load_fps=5000.0, duration_s=0.5, drain_s=1.0)
LONG = SLOW.model_copy(update={"duration_s": 6.0})
PROFILES = sorted(available("traffic"))


@pytest.fixture(scope="module", params=["memif", "veth"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    """One at a time: pytest runs what wants the one before what wants the other."""
    with looped("trex", request.param) as made:
        yield made


MEMIF = pytest.mark.parametrize("loop", ["memif"], indirect=True)
VETH = pytest.mark.parametrize("loop", ["veth"], indirect=True)


@pytest.mark.parametrize("size", [64, 512, 1518])
def test_every_frame_is_counted(loop: Loop, size: int) -> None:
    loop.prepare(size=size)
    loop.generator.learn(64)
    for _ in range(2):  # the second must not see the first
        result = loop.generator.run(SLOW.model_copy(update={"frame_size": size}), lambda: None)
        assert len(result.directions) == 2
        for d in result.directions:
            assert (d.intended, d.unsent, d.refused) == (2500, 0, 0)
            assert d.sent == d.received == 2500
            assert d.tx_seconds == pytest.approx(0.5, abs=0.1)
            assert d.duplicated is None
            assert d.latency is not None
            assert 200 <= d.latency.count <= 251
            assert 0 <= d.latency.min_ns <= d.latency.percentiles["50"] <= d.latency.max_ns < 1e9


@VETH
@pytest.mark.parametrize("name", PROFILES)
def test_frames_on_the_wire_are_those_of_every_generator(name: str, loop: Loop) -> None:
    size = 512
    configuration = config.load({"traffic": name, "generator": "trex"}, environment={})
    profile = configuration.traffic
    for error in generator_errors(
        make_scenario("phy2phy_bridge", configuration), Trex.capabilities
    ):
        pytest.skip(str(error))  # refused before deployment, as users see it
    streams = loop.prepare(profile, size)
    frames = [f for f in compile_traffic(streams, profile, size) if f.stream.direction == 0]
    port = NetdevPort(loop.machine, loop.ends[1].netdev or "")
    try:
        port.receive()
        loop.generator.learn(100)
        came = port.receive()
    finally:
        port.close()
    assert len(came) == 100 * len({f.stream.id for f in frames})
    learnt = {f.stream.id: f.size for f in reversed(frames)}  # of a mix its first size
    frames = [f for f in frames if f.size == learnt[f.stream.id]]
    by_length: dict[int, list[bytes]] = {}
    for frame in came:
        by_length.setdefault(len(frame), []).append(frame)
    for frame in frames:
        seen = by_length.pop(len(frame.template))
        if any(field.random for field in frame.fields):
            most = max(field.count for field in frame.fields)
            assert {f.hex() for f in seen} <= {frame.nth(i).hex() for i in range(most)}
            assert len(set(seen)) > 20
            continue
        assert [f.hex() for f in seen] == [frame.nth(i).hex() for i in range(len(seen))]
    assert not by_length


@MEMIF
def test_a_trial_that_cannot_be_sent_in_time_says_what_was_not(loop: Loop) -> None:
    loop.prepare()
    flood = SLOW.model_copy(update={"load_fps": 40e6, "duration_s": 0.3})
    result = loop.generator.run(flood, lambda: None)
    for d in result.directions:
        assert d.intended == 12_000_000
        assert d.sent + d.unsent + d.refused == d.intended
        assert d.unsent > 0
        assert d.received <= d.sent < d.intended
        assert 0.29 < d.tx_seconds < 0.5
    again = loop.generator.run(SLOW, lambda: None)
    assert [d.received for d in again.directions] == [2500, 2500]


@MEMIF
def test_many_flows_do_not_cost_frames(loop: Loop) -> None:
    profile = config.load({"traffic": "million-flows"}, environment={}).traffic
    loop.prepare(profile, 128)
    result = loop.generator.run(SLOW, lambda: None)
    assert [d.received for d in result.directions] == [2500, 2500]


@MEMIF
def test_what_watches_ends_the_trial(loop: Loop) -> None:
    loop.prepare()
    calls: list[int] = []

    def watch() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        loop.generator.run(LONG, watch)
    result = loop.generator.run(SLOW, lambda: None)
    assert [d.received for d in result.directions] == [2500, 2500]


@MEMIF
def test_facts_say_what_was_run(loop: Loop) -> None:
    facts = loop.generator.facts()
    assert facts["version"].startswith("TRex v")
    assert "net_memif0" in facts["configuration"]
    assert "--queue-drop" in facts["launch line"]
    assert loop.generator.links_down() == ()
