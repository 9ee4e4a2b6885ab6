"""What TRex is told to send is what every generator sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traffic.trex import engine
from tests.traffic.trex.conftest import prepare
from vnetperf.config.files import available, find_file, load_model
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.plugin.compiled_frames import (
    CompiledFrame,
    VariedField,
    compile_traffic,
    split_by_share,
)
from vnetperf.traffic.trex import driver
from vnetperf.traffic.trex.driver import Trex
from vnetperf.traffic.trex.trials import (
    FEWEST_PROBES,
    WHOLE,
    SentStream,
    TrialPlan,
    describe_stream,
    field_variables,
    plan_burst,
    plan_trial,
    refuse_segmented,
)

PLAIN = TrafficProfile()


def compiled(profile: TrafficProfile = PLAIN, size: int = 64) -> tuple[CompiledFrame, ...]:
    streams = make_streams(make_deployment("phy2phy"), profile)
    return compile_traffic(streams, profile, size)


@pytest.mark.parametrize("size", [256, 512, 1518])
@pytest.mark.parametrize("name", sorted(available("traffic")))
def test_every_profile_gives_the_frames_of_every_generator(name: str, size: int) -> None:
    profile = load_model(TrafficProfile, find_file("traffic", name))
    for frame in compiled(profile, size):
        told = describe_stream(SentStream(frame, 10, 1.0))
        if told["layer4"] or any(field.random for field in frame.fields):
            continue  # the server makes these; the real one is held to it in tests/real
        for number in (0, 1, 2, 255, 256, 257):
            assert engine.frame(told, number) == frame.nth(number), number


@st.composite
def fields(draw: st.DrawFn) -> VariedField:
    width = draw(st.integers(1, 4))
    step = draw(st.sampled_from([1, 1, 2, 16, 256, 4096]))
    room = (1 << (8 * width)) - 1
    base = draw(st.integers(0, room))
    most = (room - base) // step + 1
    count = draw(st.integers(1, min(most, 40)))
    return VariedField(draw(st.integers(6, 20)), width, base, count, random=False, step=step)


@given(fields(), st.integers(0, 100))
def test_a_field_takes_its_values_in_order_and_begins_again(
    field: VariedField, number: int
) -> None:
    template = bytes(range(64))
    told = {"template": "", "ipv4": []}
    made = field_variables([field])
    value = field.base + field.step * (number % field.count)
    want = bytearray(template)
    want[field.offset : field.offset + field.width] = value.to_bytes(field.width, "big")
    if field.count == 1:
        assert made == []
        return
    (one,) = made
    told = {
        "template": __import__("base64").b64encode(template).decode(),
        "ipv4": [],
        "variables": [{name: getattr(one, name) for name in one.__dataclass_fields__}],
    }
    assert engine.frame(told, number) == bytes(want)


@given(fields(), st.randoms())
def test_a_random_field_takes_no_other_values(field: VariedField, random: object) -> None:
    field = VariedField(
        field.offset, field.width, field.base, field.count, random=True, step=field.step
    )
    for one in field_variables([field]):
        assert one.random
        values = {field.base + field.step * n for n in range(field.count)}
        if one.mask is None or not one.shift:
            assert set(range(one.first, one.last + 1)) == values
            continue
        low = field.base & (field.step - 1)
        assert {(v << one.shift) | low for v in range(one.first, one.last + 1)} == values


def test_long_addresses_vary_in_their_last_octets() -> None:
    field = VariedField(22, 16, (0x20010DB8 << 96) + 5, 1000, random=False)
    (one,) = field_variables([field])
    assert (one.offset, one.size, one.first, one.last) == (34, 4, 5, 1004)
    with pytest.raises(GeneratorError, match="last four octets"):
        field_variables([VariedField(22, 16, (1 << 32) - 10, 1000, random=False)])


def test_a_checksum_is_kept_right_only_where_something_under_it_varies() -> None:
    by_mac = TrafficProfile(flows=8, vary=("eth_src",))
    by_address = TrafficProfile(flows=8, vary=("ipv4_dst",))
    assert describe_stream(SentStream(compiled(by_mac)[0], 1, 1.0))["ipv4"] == []
    assert describe_stream(SentStream(compiled(by_address)[0], 1, 1.0))["ipv4"] == [14]


@given(
    st.floats(1.0, 20e6),
    st.floats(0.01, 10.0),
    st.sampled_from(["single-flow", "imix", "asymmetric", "unidirectional"]),
)
def test_a_trial_sends_exactly_load_times_duration(load: float, duration: float, name: str) -> None:
    profile = load_model(TrafficProfile, find_file("traffic", name))
    frames = compiled(profile, 128)
    plan = plan_trial(frames, load, duration)
    for direction in {f.stream.direction for f in frames}:
        share = sum(f.share for f in frames if f.stream.direction == direction)
        assert plan.intended(direction) == round(load * share * duration)
        fps = sum(s.fps for s in plan.sent if s.frame.stream.direction == direction)
        assert fps <= load * share * (1 + 1e-9)
    assert len(set(plan.probes())) == len(plan.probes())


def test_probes_are_a_part_of_the_load() -> None:
    plan = plan_trial(compiled(), 100_000, 1.0)
    assert [plan.intended(0), plan.intended(1)] == [100_000, 100_000]
    probes = [s for s in plan.sent if s.probe is not None]
    assert [s.frames for s in probes] == [1000, 1000]
    assert not plan.unprobed


def test_too_few_frames_have_no_probes() -> None:
    plan = plan_trial(compiled(), 1000, (FEWEST_PROBES - 1) / 100)
    assert plan.probes() == ()
    assert "too few" in plan.unprobed


def test_tunnels_and_labels_have_no_probes_and_it_is_said() -> None:
    mpls = load_model(TrafficProfile, find_file("traffic", "mpls"))
    assert "one VLAN tag" in plan_trial(compiled(mpls, 128), 10_000, 1.0).unprobed


def test_frames_that_change_are_kept_in_one_piece_while_they_can() -> None:
    flows = TrafficProfile(flows=8, vary=("ipv4_dst",))
    for size, last in ((64, 30 + 4), (132, 30 + 4), (512, 508), (580, 512)):
        told = describe_stream(SentStream(compiled(flows, size)[0], 1, 1.0))
        assert max(v["offset"] + v["size"] for v in told["variables"]) == last
    refuse_segmented(compiled(flows, WHOLE + 4))
    refuse_segmented(compiled(size=1518))
    with pytest.raises(GeneratorError, match="1518 octets over memif"):
        refuse_segmented(compiled(flows, 1518))


def test_a_port_that_must_not_send_pieces_has_shorter_probes() -> None:
    short = {frame.stream.id: frame for frame in compiled(size=WHOLE + 4)}
    plan = plan_trial(compiled(size=1518), 10_000, 1.0, short)
    sizes = {s.frame.size for s in plan.sent if s.probe is not None}
    assert sizes == {WHOLE + 4}
    assert plan.intended(0) == 10_000


@given(st.integers(0, 10**6), st.lists(st.floats(0.01, 1.0), min_size=1, max_size=9))
def test_frames_are_dealt_out_whole(count: int, weights: list[float]) -> None:
    shares = [w / sum(weights) for w in weights]
    dealt = split_by_share(count, shares)
    assert sum(dealt) == count
    assert all(abs(n - count * share) <= 1.0 for n, share in zip(dealt, shares, strict=True))


def test_a_burst_sends_so_many_frames_of_each_stream() -> None:
    imix = load_model(TrafficProfile, find_file("traffic", "imix"))
    plan = plan_burst(compiled(imix), 120, 1000.0)
    assert [plan.intended(0), plan.intended(1)] == [120, 120]


@pytest.mark.parametrize("runs", [1, 2])
def test_learning_frames_of_a_mix_are_of_every_flow(
    runs: int, make: Callable[..., Trex], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each size begins with the first flow: what is dealt out to sizes is not of all flows."""
    mix = TrafficProfile(imix="aaaaaaaddddg", flows=1024, vary=("ipv4_src",))
    trex = make(connect=False)
    frames = tuple(replace(f, weight=f.weight / runs) for f in compiled(mix) * runs)
    monkeypatch.setattr(driver, "compile_traffic", lambda *_: frames)
    trex.client = cast("Any", SimpleNamespace(close=lambda: None))
    prepare(trex, mix)
    plans: list[TrialPlan] = []
    monkeypatch.setattr(trex, "_send", lambda plan, *_, **__: plans.append(plan))
    trex.learn(mix.learning_frames_per_stream)
    (plan,) = plans
    assert [plan.intended(0), plan.intended(1)] == [1024, 1024]
    assert {(sent.frame.size, sent.frames) for sent in plan.sent} == {(64, 1024 // runs)}
