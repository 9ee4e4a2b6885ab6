"""The kernel as a generator: what it refuses, and what it makes of what its programs count."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from vnetperf import config
from vnetperf.analysis.results_from_log import count_faults
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.capability_check import generator_errors
from vnetperf.plugin.compiled_frames import compile_traffic
from vnetperf.runner.scenarios import make_scenario
from vnetperf.traffic.xdpgen import Xdpgen, driver
from vnetperf.traffic.xdpgen.driver import PACE, SOURCE, StreamPace


def refusals(scenario: str, **settings: Any) -> str:
    found = config.load({"generator": "xdpgen", **settings}, environment={})
    made = make_scenario(scenario, found)
    errors = [str(error) for error in generator_errors(made, Xdpgen.capabilities)]
    return "; ".join([*errors, Xdpgen.cannot_send(made, Testbed())])


def test_what_it_cannot_send_is_refused() -> None:
    assert refusals("phy2phy_xdp", traffic="single-flow").strip("; ") == ""
    assert "mix of frame sizes" in refusals("phy2phy_xdp", traffic="imix")
    assert "one stream from each port" in refusals("pvpv_bridge", traffic="single-flow")


def connected(directory: Path) -> Xdpgen:
    """A tester whose machine and process are doubles."""
    log = directory / "log"
    log.write_text(f"{driver.READY}\n")
    machine = SimpleNamespace(
        facts=SimpleNamespace(programs={}),
        link=lambda netdev: SimpleNamespace(index=int(netdev)),
        in_netns=lambda function: None,
        spawn=lambda *_, **__: SimpleNamespace(log=log, stopped=False, alive=lambda: True),
    )
    placement = Placement(mode="dedicated", reason="", cores={}, housekeeping=(0,))
    plan = Plan(
        scenario=scenario_of(TrafficProfile()),
        testbed=Testbed(),
        wire="veth",
        placement=placement,
        memory=(),
    )
    generator = Xdpgen(cast("Any", machine), plan)
    generator.connect(
        tuple(WireEnd(wire=n, kind="veth", side="tester", netdev=str(n + 1)) for n in (0, 1))
    )
    return generator


def test_all_flows_are_sent_where_fields_fall_out_of_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the headers of each, 8000 here, and repeats them from the first one on."""
    profile = TrafficProfile(flows=1000, vary=("ipv4_src", "ipv4_dscp"))
    streams = make_streams(make_deployment("phy2phy"), profile)
    held: dict[bytes, bytes] = {}
    told: dict[str, int] = {}
    generator = connected(tmp_path)
    monkeypatch.setattr(driver, "compile_program", lambda *_, **defined: told.update(defined))
    code = SimpleNamespace(map=lambda _: SimpleNamespace(update=held.__setitem__), attach=print)
    monkeypatch.setattr(driver, "BpfObject", lambda *_: code)
    generator.prepare(streams, profile, 64)
    assert told["FLOWS"] == 8000
    for place, frame in enumerate(compile_traffic(streams, profile, 64)):
        for number in (0, 999, 1000, 7999):
            key = (place * 8000 + number).to_bytes(4, sys.byteorder)
            assert held[key] == frame.nth(number)[: frame.header_octets]
    many = profile.model_copy(update={"flows": 9999})
    with pytest.raises(GeneratorError, match=r"639936 flows.* 65536 "):
        generator.prepare(streams, many, 64)
    assert "639936 flows" in Xdpgen.cannot_send(scenario_of(many), Testbed())


def scenario_of(profile: TrafficProfile) -> Scenario:
    return Scenario(deployment=make_deployment("phy2phy"), vswitch="xdp", traffic=profile)


def test_what_it_cannot_do_in_a_trial_is_refused() -> None:
    spec = TrialSpec(frame_size=64, load_fps=1000.0, duration_s=1.0)
    assert Xdpgen.lacks(spec) == ""
    assert Xdpgen.lacks(spec.model_copy(update={"burst": 10}))


@pytest.mark.parametrize(("made", "seconds"), [(0, 0.0), (1, 0.0), (5, 5.0)])
def test_the_time_of_frames_has_one_more_gap(made: int, seconds: float) -> None:
    pace = StreamPace(
        built=made, skipped=0, first_ns=10**9, last_ns=10**9 + max(0, made - 1) * 10**9
    )
    assert pace.seconds == seconds


def test_stale_and_foreign_frames_are_told_and_the_drain_that_was_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = connected(tmp_path)
    monkeypatch.setattr(driver, "compile_program", lambda *_, **__: None)
    monkeypatch.setattr(driver, "BpfObject", MagicMock())
    generator.prepare(generator.plan.scenario.streams, TrafficProfile(), 64)
    counted = [900, 937, 0, 0, 0, 0, 37, 63]
    for name, value in {
        "_send": None,
        "check_alive": None,
        "refusal_is_loss": False,
        "_refused": {0: 0, 1: 0},
        "_counted": counted,
        "_latency": None,
        "_pace": StreamPace(built=1000, skipped=0, first_ns=0, last_ns=10**9),
    }.items():
        monkeypatch.setattr(generator, name, lambda *_, value=value: value)
    spec = TrialSpec(frame_size=64, load_fps=1000.0, duration_s=1.0, drain_s=0.01)
    result = generator.run(spec, lambda: None)
    assert [d.received for d in result.directions] == [900, 937]
    assert (result.stale, result.foreign, result.drain_s) == (37, {"all": 63}, 0.01)
    assert not {"stale", "foreign"} & {*result.uncollected}
    assert count_faults([result]).foreign == sum(result.foreign.values())
    counted[-1] = 0
    assert generator.run(spec, lambda: None).foreign == {}


def test_the_maps_are_as_the_program_has_them() -> None:
    text = SOURCE.read_text().partition("struct pace {")[2].partition("};")[0]
    assert PACE.size == 8 * text.count("__u64")
    written = [name for name in ("made", "skipped", "first", "last") if f"__u64 {name};" in text]
    assert len(written) == len(dataclasses.fields(StreamPace))
