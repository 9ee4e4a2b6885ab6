"""The real Pktgen, where it is found: frames on the wire, its death in a run, a taken server."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import UserRun, pids_of
from tests.real.looped import Loop, looped
from vnetperf import config
from vnetperf.config.files import available
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.capability_check import generator_errors
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.frames import NetdevPort
from vnetperf.traffic.pktgen import process
from vnetperf.traffic.pktgen.driver import Pktgen

Unchanged = Callable[[], tuple[str, ...]]
#: Directory of the program, when it is not in PATH.
PKTGEN_DIR = "VNETPERF_PKTGEN_DIR"
if PKTGEN_DIR in os.environ:
    os.environ["PATH"] += f":{os.environ[PKTGEN_DIR]}"
pytestmark = [
    pytest.mark.daily,
    pytest.mark.skipif(
        shutil.which("pktgen") is None,
        reason=f"no pktgen in PATH, and no {PKTGEN_DIR} with its directory",
    ),
]
SLOW = TrialSpec(frame_size=64, load_fps=2000.0, duration_s=0.3, drain_s=0.2)
PROFILES = sorted(available("traffic"))
SENT = 50


@pytest.fixture(scope="module", params=["memif", "veth"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    """One at a time: pytest runs what wants the one before what wants the other."""
    changes = {"pktgen": {"memif": True}}  # the build that is tried runs there
    with looped("pktgen", request.param, testbed_changes=changes) as made:
        yield made


MEMIF = pytest.mark.parametrize("loop", ["memif"], indirect=True)
VETH = pytest.mark.parametrize("loop", ["veth"], indirect=True)


@VETH
@pytest.mark.parametrize("name", PROFILES)
def test_frames_on_the_wire_are_those_of_every_generator(name: str, loop: Loop) -> None:
    size = 512
    configuration = config.load({"traffic": name, "generator": "pktgen"}, environment={})
    profile = configuration.traffic
    for error in generator_errors(
        make_scenario("phy2phy_bridge", configuration), Pktgen.capabilities
    ):
        pytest.skip(str(error))  # refused before deployment, as users see it
    streams = loop.prepare(profile, size)
    kinds = [k for k in compile_traffic(streams, profile, size) if k.stream.direction == 0]
    port = NetdevPort(loop.machine, loop.ends[1].netdev or "")
    try:
        port.receive()
        loop.generator.learn(SENT)
        came = port.receive()
    finally:
        port.close()
    assert len(came) == SENT * len({kind.stream.id for kind in kinds})
    for kind in kinds:  # kinds of a profile have sizes of their own
        seen = [frame for frame in came if len(frame) == len(kind.template)]
        assert seen
        _is_in_order(seen, kind)
    assert {len(frame) for frame in came} == {len(kind.template) for kind in kinds}


def _is_in_order(seen: list[bytes], kind: CompiledFrame) -> None:
    """Octet by octet, from some frame on: what was sent before is not sent again at once."""
    period = max((field.count for field in kind.fields), default=1)
    first = next((i for i in range(min(period, 5 * SENT)) if kind.nth(i) == seen[0]), None)
    assert first is not None, seen[0].hex()
    expected = [kind.nth((first + i) % period).hex() for i in range(len(seen))]
    assert [frame.hex() for frame in seen] == expected


@MEMIF
def test_it_can_be_used_by_someone_who_did_not_start_it(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own frames, its own checksums, all counted; a second client is told that it is busy."""
    loop.prepare()
    other = _client_of(loop, monkeypatch)
    with pytest.raises(GeneratorError, match="one client at a time"):
        other.connect(loop.ends)
    loop.generator.lua_client.close()
    other.connect(loop.ends)
    try:
        Loop(loop.machine, loop.ends, other).prepare(size=128)
        result = other.run(SLOW.model_copy(update={"frame_size": 128}), lambda: None)
        assert [(d.sent, d.received) for d in result.directions] == [(600, 600)] * 2
    finally:
        other.close()
        loop.generator.close()
        for end in loop.ends:
            Path(str(end.socket)).unlink(missing_ok=True)
        loop.generator.connect(loop.ends)


def _client_of(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Another driver, which is told where the first one's Pktgen is."""
    testbed = loop.generator.plan.testbed.model_copy(update={"pktgen": {"server": "127.0.0.1"}})
    plan = loop.generator.plan.model_copy(update={"testbed": testbed})
    original = process.connect_server
    monkeypatch.setattr(
        "vnetperf.traffic.pktgen.driver.connect_server",
        lambda server: loop.machine.in_netns(lambda: original(server)),
    )
    return Pktgen(loop.machine, plan)


@pytest.mark.parametrize("scenario", ["phy2phy_dpdk", "phy2phy_bridge"])
def test_a_user_measures(
    scenario: str, start: Callable[..., UserRun], unchanged: Unchanged
) -> None:
    run = start("-k", scenario, "--frame-sizes=64", "--generator=pktgen")
    assert run.finish(400.0) == 0, run.output
    (result,) = run.json()["results"]
    assert result["status"] == "measured", run.output
    assert result["goals"][0]["lower_bound_fps"] > 0
    assert unchanged() == ()


def test_its_death_in_a_run_is_told(start: Callable[..., UserRun], unchanged: Unchanged) -> None:
    run = start("-k", "phy2phy_bridge", "--frame-sizes=64", "--generator=pktgen")
    run.wait_for(lambda records: any(r["type"] == "trial" for r in records), 200.0)
    for pid in pids_of("--main-lcore"):
        os.kill(pid, signal.SIGKILL)
    assert run.finish(200.0) != 0
    assert "Pktgen exited" in run.output, run.output
    assert unchanged() == ()
