"""Flows are dealt out to transmit queues as a hash would: each stays on one, none is lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import isclose, lcm

from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.deployment import make_deployment
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.traffic.loadgen.engine import FieldSpec
from vnetperf.traffic.loadgen.trials import StreamPart, compile_parts, split_frames

QUEUES = st.integers(1, 16)


def parts(flows: int, queues: int, mode: str = "inc", chains: int = 1) -> tuple[StreamPart, ...]:
    profile = TrafficProfile.model_validate(
        {"flows": flows, "vary": ("ipv4_src", "udp_dst"), "vary_mode": mode}
    )
    streams = make_streams(make_deployment("pvpv", chains), profile)
    return compile_parts(streams, profile, 64, {0: queues, 1: queues})


def values(field: FieldSpec) -> list[int]:
    return [field.base + field.step * i for i in range(field.count)]


def flows_of(part: StreamPart) -> list[tuple[int, ...]]:
    """What `inc` fields walk through, one after another, until it begins again."""
    walks = [values(field) for field in part.spec.fields]
    length = lcm(*(len(walk) for walk in walks))
    return [tuple(walk[i % len(walk)] for walk in walks) for i in range(length)]


@given(st.integers(1, 500), QUEUES)
def test_every_flow_is_on_exactly_one_queue(flows: int, queues: int) -> None:
    plain = [p for p in parts(flows, 1) if p.stream.direction == 0]
    dealt = [p for p in parts(flows, queues) if p.stream.direction == 0]
    whole = Counter(flow for part in plain for flow in flows_of(part))
    spread = Counter(flow for part in dealt for flow in flows_of(part))
    assert spread == whole
    assert len(dealt) == min(flows, queues)
    assert len({part.spec.queue for part in dealt}) == len(dealt)


@given(st.integers(2, 500), st.integers(2, 16))
def test_a_queue_gets_frames_as_it_has_flows(flows: int, queues: int) -> None:
    dealt = [p for p in parts(flows, queues) if p.stream.direction == 0]
    assert isclose(sum(part.share for part in dealt), 1.0)
    for part in dealt:
        assert isclose(part.share, len(flows_of(part)) / flows)


@given(st.integers(2, 500), QUEUES)
def test_random_flows_are_of_the_same_values(flows: int, queues: int) -> None:
    dealt = [p for p in parts(flows, queues, "random") if p.stream.direction == 0]
    for number in (0, 1):
        fields = [part.spec.fields[number] for part in dealt]
        assert {f.mode for f in fields} == {"random"}
        assert sorted(v for f in fields for v in values(f)) == list(
            range(fields[0].base, fields[0].base + flows)
        )


@given(st.integers(0, 10**9), st.integers(1, 500), QUEUES)
def test_frames_are_split_to_the_last_one(count: int, flows: int, queues: int) -> None:
    dealt = [p for p in parts(flows, queues) if p.stream.direction == 0]
    frames = split_frames(count, dealt)
    assert sum(frames) == count
    for part, mine in zip(dealt, frames, strict=True):
        assert abs(mine - count * part.share) <= 1 + count * 1e-9


def test_single_flows_of_several_chains_are_on_different_queues() -> None:
    dealt = [p for p in parts(1, 2, chains=3) if p.stream.direction == 0]
    assert [part.spec.queue for part in dealt] == [0, 1, 0]
    assert [part.share for part in dealt] == [1.0, 1.0, 1.0]


def test_with_one_queue_nothing_is_bound() -> None:
    assert {part.spec.queue for part in parts(10, 1)} == {None}
    assert [part.spec.id for part in parts(10, 4)] == list(range(8))


@given(st.integers(1, 2000), st.sampled_from(["aag", "aaaaaaaddddg", "adg"]))
def test_flows_of_a_genome_come_equally_often(flows: int, genome: str) -> None:
    profile = TrafficProfile(imix=genome, flows=flows, vary=("ipv4_src",))
    (stream, _) = make_streams(make_deployment("phy2phy"), profile)
    made = compile_parts((stream,), profile, 64, {0: 1, 1: 1})
    assert isclose(sum(part.share for part in made), 1.0)
    for size in {part.spec.frame_size for part in made}:
        often: dict[int, float] = defaultdict(float)
        shares = [part.share for part in made if part.spec.frame_size == size]
        for part in (part for part in made if part.spec.frame_size == size):
            walk = values(part.spec.fields[0]) if part.spec.fields else [0]
            for value in walk:
                often[value] += part.share / len(walk)
        assert len(often) == flows
        even = sum(shares) / flows
        assert all(abs(got - even) <= even / 64 for got in often.values())


def test_a_genome_of_one_flow_or_many_keeps_its_order() -> None:
    for flows, kinds in ((1, 12), (28, 12), (1000, 12), (30, 3)):
        profile = TrafficProfile(imix="aaaaaaaddddg", flows=flows, vary=("ipv4_src",))
        (stream, _) = make_streams(make_deployment("phy2phy"), profile)
        made = compile_parts((stream,), profile, 64, {0: 1, 1: 1})
        assert len(made) == kinds
        if kinds == 12:
            assert [part.spec.frame_size for part in made] == [64] * 7 + [512] * 4 + [1518]
