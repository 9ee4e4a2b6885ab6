"""scapy is the judge of what the compiled headers say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from vnetperf.model.deployment import make_deployment
from vnetperf.model.frames import (
    CARRIERS,
    FIELD_NAMES,
    FOLLOWS,
    LAST,
    MAC_VALUES,
    RFC2544_FRAME_SIZES,
    HeaderKind,
    VaryField,
    index_of,
)
from vnetperf.model.profile import MOST_FLOWS, TrafficProfile
from vnetperf.model.traffic import Stream, make_streams
from vnetperf.plugin.compiled_frames import (
    HEADER_LEN,
    compile_fields,
    compile_header,
    compile_traffic,
)
from vnetperf.plugin.frame_layers import internet_checksum

STREAMS = st.sampled_from(
    [s for n in (1, 3) for s in make_streams(make_deployment("pvpv", n), TrafficProfile())]
)
SIZES = st.integers(64, 9216)
GRAPH = make_deployment("phy2phy")


def dissect(stream: Stream, size: int) -> Ether:
    header = compile_header(stream, size)
    assert len(header) == HEADER_LEN
    return Ether(header + bytes(size - 4 - len(header)))


@pytest.mark.parametrize("size", RFC2544_FRAME_SIZES)
@settings(max_examples=10)
@given(stream=STREAMS)
def test_headers_say_what_the_stream_is(size: int, stream: Stream) -> None:
    frame = dissect(stream, size)
    assert (frame.src, frame.dst, frame.type) == (stream.eth_src, stream.eth_dst, 0x0800)
    assert (frame[IP].src, frame[IP].dst) == (stream.ipv4_src, stream.ipv4_dst)
    assert (frame[UDP].sport, frame[UDP].dport) == (stream.udp_src, stream.udp_dst)
    assert frame[IP].ttl > 1
    assert frame[UDP].chksum == 0


@given(STREAMS, SIZES)
def test_lengths_cover_the_frame_without_its_fcs(stream: Stream, size: int) -> None:
    frame = dissect(stream, size)
    assert frame[IP].len == size - 4 - 14
    assert frame[UDP].len == frame[IP].len - 20
    assert len(frame) == size - 4


@given(STREAMS, SIZES)
def test_the_header_checksum_is_scapys(stream: Stream, size: int) -> None:
    frame = dissect(stream, size)
    ours = frame[IP].chksum
    del frame[IP].chksum
    assert Ether(bytes(frame))[IP].chksum == ours


@given(st.binary(max_size=64))
def test_data_with_its_checksum_appended_sums_up_to_nothing(data: bytes) -> None:
    even = data + b"\0" * (len(data) % 2)
    whole = even + internet_checksum(data).to_bytes(2, "big")
    assert internet_checksum(whole) == 0


SETTERS = {
    "eth_src": (Ether, "src"),
    "eth_dst": (Ether, "dst"),
    "ipv4_src": (IP, "src"),
    "ipv4_dst": (IP, "dst"),
    "udp_src": (UDP, "sport"),
    "udp_dst": (UDP, "dport"),
}


@pytest.mark.parametrize("name", list(SETTERS))
def test_a_varied_field_changes_that_field_and_no_other(name: VaryField) -> None:
    stream = make_streams(make_deployment("pvp"), TrafficProfile())[0]
    (field,) = compile_fields(stream, TrafficProfile(flows=2, vary=(name,)))
    header = bytearray(compile_header(stream, 64))
    before = Ether(bytes(header))
    here = slice(field.offset, field.offset + field.width)
    assert int.from_bytes(header[here], "big") == field.base
    header[here] = (field.base ^ 1).to_bytes(field.width, "big")
    after = Ether(bytes(header))
    changed = {
        other
        for other, (layer, attribute) in SETTERS.items()
        if getattr(before[layer], attribute) != getattr(after[layer], attribute)
    }
    assert changed == {name}


@given(
    STREAMS,
    st.integers(2, 64_000),
    st.lists(st.sampled_from(list(SETTERS)), min_size=1, max_size=6, unique=True),
    st.sampled_from(["inc", "random"]),
)
def test_varied_fields_lie_in_the_header_and_hold_all_their_values(
    stream: Stream, flows: int, vary: list[VaryField], mode: str
) -> None:
    profile = TrafficProfile.model_validate({"flows": flows, "vary": vary, "vary_mode": mode})
    fields = compile_fields(stream, profile)
    assert len(fields) == len(vary)
    for field in fields:
        assert field.offset + field.width <= HEADER_LEN
        assert 1 <= field.count <= min(flows, 1 << (8 * field.width))
        assert 0 <= field.base < 1 << (8 * field.width)
        assert field.random == (mode == "random")


def untagged(stack: tuple[HeaderKind, ...] = ("ethernet",)) -> list[tuple[HeaderKind, ...]]:
    """Every stack without tags, labels and octets of one's own, in a tunnel or in none."""
    no_tunnel = any(kind in CARRIERS for kind in stack) or "ipv6" in stack
    ends = [stack] if stack[-1] in LAST else []
    for kind in FOLLOWS[stack[-1]]:
        if kind not in ("qinq", "vlan", "mpls", "raw") and not (kind in CARRIERS and no_tunnel):
            ends += untagged((*stack, kind))
    return ends


@pytest.mark.parametrize("headers", [pytest.param(h, id="-".join(h)) for h in untagged()])
def test_as_many_flows_as_a_field_has_room_for_fit_in_its_octets(
    headers: tuple[HeaderKind, ...],
) -> None:
    """Outside a tunnel ports begin with the tunnel's, whichever name the field goes by."""
    for name in (one for one in FIELD_NAMES if index_of(one, headers) is not None):
        room = TrafficProfile(headers=headers).room(name)
        profile = TrafficProfile(headers=headers, flows=min(room, MAC_VALUES), vary=(name,))
        for frame in compile_traffic(make_streams(GRAPH, profile), profile, 256):
            (field,) = frame.fields
            assert field.base + field.step * (field.count - 1) < 256**field.width
            assert frame.nth(field.count - 1) != frame.nth(0)


@pytest.mark.parametrize(
    ("names", "room"),
    [(("udp_src", "outer_udp_src"), 5536), (("outer_vlan_id", "vlan_id"), 95)],
)
def test_a_field_begins_with_what_its_other_name_was_set_to(
    names: tuple[VaryField, VaryField], room: int
) -> None:
    name, other = names
    profile = TrafficProfile(
        headers=("ethernet", "vlan", "ipv4", "udp", "vxlan", "ethernet", "ipv4", "tcp"),
        values={other: 60_000 if "udp" in other else 4000},
    )
    assert profile.room(name) == room
    changed = profile.model_copy(update={"flows": room, "vary": (name,)})
    for frame in compile_traffic(make_streams(GRAPH, changed), changed, 256):
        frame.nth(room - 1)


@pytest.mark.parametrize(
    ("vary", "flows", "differ"),
    [
        (("ipv4_src", "ipv4_dscp"), 1000, 8000),
        (("ipv4_src", "ipv4_dscp"), 1024, 1024),  # which the fewer values divide
        (("ipv4_src", "ipv4_dscp"), 48, 64),  # so many are sent anyhow
        (("ipv4_src", "ipv4_ttl", "eth_src"), 5001, 5001 * 64),
    ],
)
def test_every_flow_has_a_learning_frame_where_fields_fall_out_of_step(
    vary: tuple[VaryField, ...], flows: int, differ: int
) -> None:
    profile = TrafficProfile(flows=flows, vary=vary)
    assert profile.learning_frames_per_stream == differ
    for frame in compile_traffic(make_streams(GRAPH, profile), profile, 64):
        assert max(64, frame.flows) == differ
    if differ <= 8000:
        assert len({frame.nth(number) for number in range(differ)}) == max(flows, frame.flows)


def test_more_flows_than_can_be_learnt_before_each_trial_are_learnt_as_far_as_asked() -> None:
    profile = TrafficProfile(flows=65_533, vary=("ipv4_src", "udp_src"))
    assert profile.flow_count > MOST_FLOWS
    assert profile.learning_frames_per_stream == 65_533
    many = TrafficProfile(flows=4_000_000, vary=("eth_src",))
    assert many.learning_frames_per_stream == 4_000_000
    at_random = profile.model_copy(update={"vary_mode": "random"})
    assert at_random.learning_frames_per_stream == 65_533


def test_a_single_flow_varies_nothing() -> None:
    stream = make_streams(make_deployment("pvp"), TrafficProfile())[0]
    assert compile_fields(stream, TrafficProfile(vary=("ipv4_src",))) == ()
