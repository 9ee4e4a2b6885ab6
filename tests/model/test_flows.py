"""Flows one by one, against what the generator is told."""

from __future__ import annotations

import itertools
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.texts import Texts
from vnetperf.model.deployment import make_deployment
from vnetperf.model.frames import VaryField
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.traffic import FlowKey, Stream, explain_uncountable, flows, make_streams
from vnetperf.plugin.compiled_frames import VariedField, compile_fields, compile_header

FIELDS: tuple[VaryField, ...] = FlowKey._fields  # type: ignore[assignment]  # all of them are


def streams(name: str = "pvpv") -> tuple[Stream, ...]:
    return make_streams(make_deployment(name), TrafficProfile())


def octets(flow: FlowKey, stream: Stream) -> bytes:
    changed = stream.model_copy(update=flow._asdict())
    header = bytearray(compile_header(changed, 64))
    header[24:26] = b"\0\0"  # the checksum follows the addresses
    return bytes(header)


def sent(first: bytes, fields: tuple[VariedField, ...], number: int) -> bytes:
    """Header of an incrementing generator's frame, as the fields' description has it."""
    header = bytearray(first)
    for field in fields:
        value = (field.base + number % field.count) % (1 << 8 * field.width)
        header[field.offset : field.offset + field.width] = value.to_bytes(field.width, "big")
    return bytes(header)


@given(
    st.sampled_from(streams()),
    st.integers(1, 600),
    st.lists(st.sampled_from(FIELDS), min_size=1, unique=True),
)
def test_they_are_those_that_the_generator_sends(
    stream: Stream, count: int, vary: list[VaryField]
) -> None:
    profile = TrafficProfile(flows=count, vary=tuple(vary))
    fields = compile_fields(stream, profile)
    found = [octets(flow, stream) for flow in flows(stream, profile)]
    first = compile_header(stream, 64)
    first = first[:24] + b"\0\0" + first[26:]
    assert found == [sent(first, fields, number) for number in range(count)]
    assert len(set(found)) == count == profile.flow_count


@pytest.mark.slow
@pytest.mark.parametrize("name", FIELDS)
def test_one_random_field_has_its_values(name: VaryField) -> None:
    profile = TrafficProfile(flows=64_000, vary=(name,), vary_mode="random")
    (stream, *_) = streams()
    (field,) = compile_fields(stream, profile)
    last = next(itertools.islice(flows(stream, profile), 63_999, None))
    value = int.from_bytes(octets(last, stream)[field.offset : field.offset + field.width], "big")
    assert value == field.base + field.count - 1


def test_fields_that_fall_out_of_step_are_refused_with_the_cure() -> None:
    profile = TrafficProfile(flows=100_000, vary=("eth_src", "udp_src"))
    assert profile.flow_count > profile.flows
    assert "set flows to 64000 or fewer" in explain_uncountable(profile)
    with pytest.raises(ValueError, match="falls out of step"):
        next(flows(streams()[0], profile))


def test_random_fields_together_are_refused_with_the_cure() -> None:
    profile = TrafficProfile(flows=10, vary=("udp_src", "udp_dst"), vary_mode="random")
    assert profile.flow_count == 100
    assert 'vary_mode = "inc"' in explain_uncountable(profile)


@pytest.mark.slow  # walks to the last of 65,534 flows
def test_addresses_walk_within_the_test_network() -> None:
    profile = TrafficProfile(flows=65_534, vary=("ipv4_src",))
    for stream in streams():
        *_, last = flows(stream, profile)
        assert socket.inet_aton(last.ipv4_src)[:2] == socket.inet_aton(stream.ipv4_src)[:2]


@pytest.mark.slow  # of 200,000
def test_there_may_be_more_flows_than_ports() -> None:
    profile = TrafficProfile(flows=200_000, vary=("eth_src",))
    assert len({flow.eth_src for flow in flows(streams()[0], profile)}) == 200_000


def test_values_that_were_set_are_those_of_the_flows() -> None:
    profile = TrafficProfile.model_validate(
        {
            "values": {"ipv4_src": "10.0.0.1", "udp_src": 5000},
            "flows": 3,
            "vary": ["udp_src"],
            "bidirectional": False,
        }
    )
    stream = make_streams(make_deployment("phy2phy"), profile)[0]
    found = [(flow.ipv4_src, flow.ipv4_dst, flow.udp_src) for flow in flows(stream, profile)]
    assert found == [("10.0.0.1", "198.19.0.1", port) for port in (5000, 5001, 5002)]


def test_frames_of_other_headers_are_refused_with_the_cure(texts: Texts) -> None:
    tagged = TrafficProfile(headers=("ethernet", "vlan", "ipv4", "udp"))
    texts.check(explain_uncountable(tagged), "headers")
    ttl = TrafficProfile(flows=5, vary=("ipv4_ttl",))
    texts.check(explain_uncountable(ttl), "field")
