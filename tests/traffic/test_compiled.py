"""Any profile that is accepted compiles to frames that scapy reads as it says and builds alike."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.traffic.oracle import field_of, rebuilt
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import ConfigError
from vnetperf.model.frames import (
    CARRIERS,
    FIELD_NAMES,
    FOLLOWS,
    LAST,
    MOST_LABELS,
    NETWORKS,
    HeaderKind,
    field_place,
    index_of,
)
from vnetperf.model.traffic import TrafficProfile, header_stack, make_streams
from vnetperf.plugin.compiled_frames import compile_traffic

SIX = ["eth_src", "eth_dst", "ipv4_src", "ipv4_dst", "udp_src", "udp_dst"]


@st.composite
def stacks(draw: st.DrawFn) -> tuple[HeaderKind, ...]:
    """A walk along what may follow what, with one tunnel at most."""
    stack: list[HeaderKind] = ["ethernet"]
    while True:
        carried = any(kind in CARRIERS for kind in stack)
        over6 = "ipv6" in stack and not carried
        after = [
            kind
            for kind in FOLLOWS[stack[-1]]
            if not (kind in CARRIERS and (carried or over6))
            and not (kind == "mpls" and stack.count("mpls") >= MOST_LABELS)
        ]
        if stack[-1] in LAST and (not after or draw(st.booleans())):
            return tuple(stack)
        stack.append(draw(st.sampled_from(after)))


@st.composite
def profiles(draw: st.DrawFn) -> TrafficProfile:
    headers = draw(stacks())
    has = [name for name in FIELD_NAMES if index_of(name, headers) is not None]
    vary = draw(st.lists(st.sampled_from(has), unique=True, max_size=6))
    for net, whole in NETWORKS.items():
        if net in vary and whole in vary:
            vary.remove(net)
    asked: dict[str, Any] = {
        "headers": headers,
        "raw": draw(st.binary(min_size=1, max_size=20)).hex() if "raw" in headers else "",
        "vary": vary,
        "flows": draw(st.integers(1, 60_000)) if vary else 1,
        "broadcast": draw(st.sampled_from([0.0, 0.01, 0.5])),
        "loads": draw(st.sampled_from([(1.0, 1.0), (1.0, 0.25), (0.1, 1.0)])),
    }
    try:
        return TrafficProfile.model_validate(asked)
    except ValidationError as error:
        assume("make at most" not in str(error) and "which are one in" not in str(error))
        raise


@given(profiles(), st.integers(0, 9000), st.integers(0, 10**6), st.sampled_from([0, 1]))
def test_scapy_builds_the_same_octets(
    profile: TrafficProfile, more: int, number: int, direction: int
) -> None:
    raw = bytes.fromhex(profile.raw)
    size = min(9216, profile.least_frame_size + more)
    streams = make_streams(make_deployment("phy2phy"), profile)
    for frame in compile_traffic((streams[direction],), profile, size):
        stack = header_stack(frame.stream, profile)
        octets = frame.nth(number)
        assert len(octets) == size - 4
        assert not any(octets[frame.header_octets :])
        assert rebuilt(octets, stack, raw).hex() == octets.hex()
        for name in profile.vary if profile.flows > 1 else ():
            count = min(profile.flows, profile.room(name))
            place = field_place(name)
            if (place.bits >= 24 and place.width > 2) or (frame.broadcast and "eth_dst" in name):
                continue  # addresses are text; the field's own arithmetic is looked at below
            first = field_of(frame.nth(0), stack, name, raw)
            assert field_of(octets, stack, name, raw) == int(first) + number % count


@given(profiles(), st.integers(0, 10**6))
def test_fields_stay_in_their_octets_and_beside_each_other(
    profile: TrafficProfile, number: int
) -> None:
    for stream in make_streams(make_deployment("phy2phy"), profile):
        for frame in compile_traffic((stream,), profile, profile.least_frame_size):
            taken: set[int] = set()
            for field in frame.fields:
                octets = set(range(field.offset, field.offset + field.width))
                assert not octets & taken
                assert max(octets) < frame.header_octets
                assert field.base + field.step * (field.count - 1) < 1 << 8 * field.width
                taken |= octets
            first, other = frame.template, frame.nth(number)
            sums = {
                offset + at + more
                for kind, offset in ((c.kind, c.offset) for c in frame.checksums)
                for at in ({"ipv4": 10, "udp": 6, "tcp": 16}[kind],)
                for more in (0, 1)
            }
            changed = {n for n, (a, b) in enumerate(zip(first, other, strict=True)) if a != b}
            assert changed <= taken | sums


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"headers": ["ipv4", "udp"]}, "begin with"),
        ({"headers": ["ethernet", "udp"]}, "udp cannot follow ethernet; accepted: qinq, vlan"),
        ({"headers": ["ethernet", "vlan"]}, "cannot end with vlan"),
        ({"headers": ["ethernet", "ipv6", "udp", "gtpu", "ipv4"]}, "over ipv4 only"),
        ({"headers": ["ethernet", "raw"]}, 'raw = "..." is for'),
        ({"headers": ["ethernet", "raw"], "raw": "zz"}, "hexadecimal"),
        ({"vary": ["vlan_id"], "flows": 2}, "vary names vlan_id, which is in none of"),
        ({"values": {"tcp_src": 5}}, "values names tcp_src"),
        ({"vary": ["eth_src", "eth_src"], "flows": 2}, "a field twice"),
        (
            {
                "vary": [*SIX, "ipv4_ttl"],
                "flows": 2,
            },
            "7 fields, 6 at most",
        ),
        ({"values": {"udp_src": 70_000}}, "udp_src is 0..65535, not 70000"),
        ({"values": {"ipv4_src": 5}}, "is an address"),
        ({"values": {"ipv4_src": "198.18.0.300"}}, "198.18.0.300"),
        ({"values": {"ipv4_dst_net": 3}}, "set ipv4_dst"),
        ({"values": {"eth_src": "02:00:zz"}}, "eth_src: '02:00:zz' is no MAC address such as"),
        ({"vary": ["ipv4_src"], "flows": 65_535}, "at most 65534 flows, not 65535; vary eth_src"),
        ({"vary": ["eth_src"], "flows": 16_777_216}, "set the first value of a MAC address"),
        (
            {
                "headers": ["ethernet", "ipv4", "udp", "gtpu", "ipv6"],
                "vary": ["ipv4_src", "outer_ipv4_src"],
                "flows": 2,
            },
            "vary names ipv4_src and outer_ipv4_src, which are one in",
        ),
        (
            {
                "headers": ["ethernet", "ipv4", "udp", "gtpu", "ipv6"],
                "values": {"udp_src": 5, "outer_udp_src": 6},
            },
            "values names udp_src and outer_udp_src, which are one in",
        ),
        ({"vary": ["ipv4_dst", "ipv4_dst_net"], "flows": 2}, "which is a part of it"),
        (
            {"headers": ["ethernet", "vlan", "ipv4"], "values": {"vlan_id": 4095}},
            "4094",
        ),
        ({"loads": [0.5, 0.5]}, "the greater is 1.0"),
        ({"loads": [1.0, float("nan")]}, "the greater is 1.0"),
        ({"loads": [1.0, 0.0]}, "the other 0.001..1.0"),
        ({"loads": [1.0, 0.5], "bidirectional": False}, "bidirectional is false"),
        ({"imix": "aaq"}, "'q'; accepted: a=64, b=128"),
        ({"imix": "aj"}, "16000 octets"),
        ({"imix": "a" * 300}, "1..256 letters"),
        ({"imix": [{"size": 64}, {"size": 64}]}, "a size twice"),
        ({"imix": "a", "headers": ["ethernet", "ipv6", "udp"]}, "imix has frames of 64 octets"),
        ({"broadcast": 0.7}, "less than or equal to 0.5"),
        ({"burst": 0}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_profile_is_told_in_one_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        TrafficProfile.model_validate(wrong)


def test_headers_that_do_not_fit_are_named_with_what_they_need() -> None:
    profile = TrafficProfile(name="six", headers=("ethernet", "ipv6", "tcp"))
    (stream, _) = make_streams(make_deployment("phy2phy"), profile)
    with pytest.raises(ConfigError) as caught:
        compile_traffic((stream,), profile, 64)
    for part in ("traffic profile six", "64 octets", "ethernet, ipv6, tcp: 74 octets", "96"):
        assert part in str(caught.value)


def test_addresses_that_were_set_change_places_with_the_direction() -> None:
    values = {
        "ipv4_src": "10.0.0.1",
        "ipv4_dst": "11.0.0.1",
        "udp_dst": 99,
        "eth_src": "02:00:00:00:00:0a",
    }
    profile = TrafficProfile.model_validate(
        {"values": values, "flows": 1_000_000, "vary": ["ipv4_src"]}
    )
    for stream in make_streams(make_deployment("phy2phy"), profile):
        (frame,) = compile_traffic((stream,), profile, 64)
        stack = header_stack(stream, profile)
        ends = [field_of(frame.template, stack, name) for name in ("ipv4_src", "ipv4_dst")]
        wanted = ["10.0.0.1", "11.0.0.1"]
        assert ends == (wanted if stream.direction == 0 else wanted[::-1])
        assert field_of(frame.template, stack, "udp_dst") == 99
        mac = "eth_src" if stream.direction == 0 else "eth_dst"
        assert field_of(frame.template, stack, mac) == "02:00:00:00:00:0a"
        assert frame.fields[0].count == 1_000_000


def test_a_mix_has_its_sizes_by_weight() -> None:
    profile = TrafficProfile(imix="aaaaaaaddddg")
    (stream, _) = make_streams(make_deployment("phy2phy"), profile)
    frames = compile_traffic((stream,), profile, 334)
    assert [(f.size, round(f.weight * 12)) for f in frames] == [(64, 7), (512, 4), (1518, 1)]
    assert sum(f.weight for f in frames) == pytest.approx(1)
    assert profile.mix is not None
    assert profile.mix.mean_size == sum(f.size * f.weight for f in frames)


def test_outer_fields_vary_in_the_direction_that_has_a_tunnel() -> None:
    profile = TrafficProfile(flows=16_384, vary=("ipv4_src", "outer_udp_src"))
    streams = make_streams(make_deployment("op2p"), profile, tunnel="vxlan")
    counts = {s.tunnel: len(compile_traffic((s,), profile, 64)[0].fields) for s in streams}
    assert counts == {"": 1, "vxlan": 2}
    with pytest.raises(ValidationError, match="at most 16384 flows"):
        TrafficProfile(flows=16_385, vary=("outer_udp_src",))


@pytest.mark.parametrize(("deployment", "there", "back"), [("encap", 0, 50), ("decap", 50, 0)])
def test_a_frame_must_come_back_as_long_as_its_tunnel_makes_it(
    deployment: str, there: int, back: int
) -> None:
    profile = TrafficProfile(bidirectional=False)
    streams = make_streams(make_deployment(deployment), profile, tunnel="vxlan")
    (frame,) = compile_traffic(streams, profile, 128)
    assert (frame.size, frame.returned_size) == (128 + there, 128 + back)
