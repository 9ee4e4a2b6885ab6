"""Frames through a NAT: what is sent, and what must come back, for each session both ways."""

from __future__ import annotations

from ipaddress import IPv4Address

import numpy as np
import pytest

from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import DutError
from vnetperf.model.nat import Nat
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.planning.capability_check import deployment_errors
from vnetperf.plugin.compiled_frames import (
    CompiledFrame,
    VariedField,
    compile_traffic,
    mapping_places,
)
from vnetperf.traffic.loadgen.driver import raise_unless_bound
from vnetperf.traffic.loadgen.engine import FieldSpec
from vnetperf.traffic.loadgen.trials import compile_parts

PROFILES = (
    TrafficProfile(),
    TrafficProfile(headers=("ethernet", "ipv4", "tcp")),
)
#: Two public addresses, the second with some of its blocks only; blocks larger than is used.
NAT = Nat(subscribers=5, ports=3, block=20_000, pool="198.18.4.0/24")


def scenario(nat: Nat = NAT, profile: TrafficProfile = PROFILES[0]) -> Scenario:
    return Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="cgnat",
        traffic=profile,
        forwarding="l3",
        change=nat,
    )


def compiled(nat: Nat, profile: TrafficProfile) -> tuple[CompiledFrame, ...]:
    made = scenario(nat, profile)
    return compile_traffic(made.streams, profile, profile.least_frame_size)


def ends(octets: bytes) -> tuple[str, int, str, int]:
    """Source and destination of a frame: addresses and ports."""
    source, destination = (str(IPv4Address(octets[at : at + 4])) for at in (26, 30))
    ports = [int.from_bytes(octets[at : at + 2]) for at in (34, 36)]
    return source, ports[0], destination, ports[1]


def returned(frame: CompiledFrame, number: int) -> bytes:
    """Octets that are looked at of a frame when it comes back."""
    octets = bytearray(60)
    for one in frame.expected:
        octets[one.offset : one.offset + one.width] = one.value(number).to_bytes(one.width, "big")
    return bytes(octets)


@pytest.mark.parametrize("profile", PROFILES)
def test_each_session_is_on_both_sides_what_its_block_says(profile: TrafficProfile) -> None:
    out, back = compiled(NAT, profile)
    seen = set()
    for number in range(NAT.sessions):
        subscriber, session = number % NAT.subscribers, number // NAT.subscribers
        block = NAT.subscriber_block(subscriber)
        inside = (str(NAT.first_inside + subscriber), block.first + session)
        public = (block.address, block.first + session)
        server = ("198.19.0.1", 7)
        assert ends(out.nth(number)) == (*inside, *server)
        assert ends(returned(out, number)) == (*public, *server)
        assert ends(back.nth(number)) == (*server, *public)
        assert ends(returned(back, number)) == (*server, *inside)
        seen.add(public)
        for frame in (out, back):
            kept = returned(frame, number)
            assert kept[12:15] == bytes.fromhex("080045")
            assert kept[23] == (6 if "tcp" in profile.headers else 17)
    assert len(seen) == NAT.sessions
    assert out.nth(NAT.sessions) == out.nth(0)


@pytest.mark.parametrize("queues", [1, 2, 3, 16])
def test_queues_share_the_sessions_and_expect_their_own(queues: int) -> None:
    made = scenario()
    frames = compile_traffic(made.streams, made.traffic, 64)
    parts = compile_parts(made.streams, made.traffic, 64, {0: queues, 1: queues})
    for way, frame in enumerate(frames):
        found = []
        for part in parts:
            if part.stream.direction != way:
                continue
            sessions = max(field.count for field in part.spec.fields)
            for number in range(sessions):
                sent = tuple(_value(field, number) for field in part.spec.fields)
                there = tuple(_value(field, number) for field in part.spec.expected)
                found.append((sent, there))
        assert sorted(found) == sorted(
            (_values(frame.fields, n), _values(frame.expected, n)) for n in range(NAT.sessions)
        )


def _value(field: FieldSpec, number: int) -> int:
    place = number % field.count
    if field.table:
        return int.from_bytes(field.table[place * field.width : (place + 1) * field.width])
    return field.base + field.step * place


def _values(fields: tuple[VariedField, ...], number: int) -> tuple[int, ...]:
    return tuple(field.value(number) for field in fields)


def test_a_million_sessions_are_listed() -> None:
    nat = Nat(subscribers=16_384)
    bound = nat.bindings()
    assert [len(one) for one in bound] == [n * nat.sessions for n in (4, 2, 4, 2)]
    last = nat.subscriber_block(nat.subscribers - 1)
    assert bound.public[-4:] == IPv4Address(last.address).packed
    assert int.from_bytes(bound.ports[-2:]) == last.last == 65_535


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (TrafficProfile(headers=("ethernet", "ipv6", "udp")), "these frames of ethernet, ipv6"),
        (TrafficProfile(flows=4, vary=("udp_dst",)), "has others; --flows 1"),
        (TrafficProfile(values={"udp_dst": 53}), "are the sessions of --nat"),
        (TrafficProfile(learning_frames=0), "set up by learning frames"),
        (TrafficProfile(broadcast=0.1), "no broadcast"),
    ],
)
def test_traffic_that_a_nat_cannot_carry_is_refused(profile: TrafficProfile, why: str) -> None:
    assert any(why in str(error) for error in deployment_errors(scenario(profile=profile)))
    assert not any("NAT" in str(error) for error in deployment_errors(scenario()))


def test_frames_without_a_nat_expect_nothing() -> None:
    plain = scenario().model_copy(update={"change": None})
    assert all(not f.expected for f in compile_traffic(plain.streams, plain.traffic, 64))


LEARNT = NAT.model_copy(update={"mapping": "learnt"})


@pytest.mark.parametrize("profile", PROFILES, ids=("udp", "tcp"))
def test_until_a_mapping_is_learnt_only_the_server_is_expected(profile: TrafficProfile) -> None:
    up, _ = compiled(LEARNT, profile)
    assert [(one.offset, one.count) for one in up.expected] == [(12, 1), (23, 1), (30, 1), (36, 1)]
    assert mapping_places(up.stream, profile) == (26, 34)


@pytest.mark.parametrize("profile", PROFILES, ids=("udp", "tcp"))
def test_answers_go_to_what_was_learnt(profile: TrafficProfile) -> None:
    addresses = [int(IPv4Address("203.0.113.9")) + n for n in range(LEARNT.sessions)]
    ports = [40_000 + 7 * n for n in range(LEARNT.sessions)]
    nat = LEARNT.with_learnt_clients(
        b"".join(one.to_bytes(4, "big") for one in addresses),
        b"".join(one.to_bytes(2, "big") for one in ports),
    )
    made = scenario(LEARNT, profile)
    streams = tuple(stream.through(nat) for stream in made.streams)
    up, down = compile_traffic(streams, profile, profile.least_frame_size)
    for n in range(LEARNT.sessions):
        sent, answer = ends(up.nth(n)), ends(down.nth(n))
        assert ends(returned(up, n))[:2] == (str(IPv4Address(addresses[n])), ports[n])
        assert answer[2:] == (str(IPv4Address(addresses[n])), ports[n])
        assert ends(returned(down, n))[2:] == sent[:2]
    assert str(nat) == str(LEARNT)


def test_one_session_is_learnt_too() -> None:
    nat = Nat(subscribers=1, ports=1, mapping="learnt")
    learnt = nat.with_learnt_clients(bytes([203, 0, 113, 9]), (4711).to_bytes(2, "big"))
    made = scenario(nat)
    streams = tuple(stream.through(learnt) for stream in made.streams)
    _, down = compile_traffic(streams, PROFILES[0], 64)
    assert ends(down.nth(0))[2:] == ("203.0.113.9", 4711)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([1, 0, 3], "1 of 3 sessions did not come out"),
        ([5, 6, 5, 5], "2 of 4 sessions have the public address and port of another"),
    ],
)
def test_what_cannot_be_answered_is_refused(found: list[int], message: str) -> None:
    with pytest.raises(DutError, match=message):
        raise_unless_bound(np.array(found, dtype=np.uint64), where="cgnat")


def test_frames_of_sessions_are_addressed_to_the_nat_of_the_testbed() -> None:
    macs = ("02:00:00:00:00:aa", "02:00:00:00:00:bb")
    made = scenario().model_copy(update={"dut_macs": macs})
    assert tuple(stream.eth_dst for stream in made.streams) == macs
    assert all(stream.change for stream in made.streams)
