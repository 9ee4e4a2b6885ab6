"""scapy is the judge of what a tester at a tunnel's end sends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import GRE, Ether
from scapy.layers.vxlan import VXLAN

from vnetperf.model import deployment
from vnetperf.model.deployment import PhyPort, make_deployment
from vnetperf.model.frames import (
    DUT_ADDRESS,
    OVERHEAD,
    TESTER_ADDRESS,
    TUNNELS,
    UDP_PORT,
    UDP_SOURCE,
    VNI,
    TunnelKind,
)
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams
from vnetperf.plugin.compiled_frames import (
    compile_frame,
    compile_header,
    sent_size,
)
from vnetperf.traffic.loadgen.trials import compile_parts

KINDS = st.sampled_from(TUNNELS)
SIZES = st.integers(64, 9018)
PROFILE = TrafficProfile()


def tunnelled(kind: TunnelKind) -> Stream:
    """The stream that an overlay's tester sends encapsulated."""
    (stream,) = make_streams(make_deployment("decap"), TrafficProfile(), tunnel=kind)
    assert stream.tunnel == kind
    return stream


def frame(stream: Stream, size: int) -> Ether:
    """As the driver gets it."""
    return Ether(compile_frame(stream, PROFILE, size))


@pytest.mark.parametrize("kind", TUNNELS)
@settings(max_examples=30)
@given(size=SIZES)
def test_scapy_finds_the_plain_frame_inside(kind: TunnelKind, size: int) -> None:
    stream = tunnelled(kind)
    whole = frame(stream, size)
    assert (whole.dst, whole.src) == (
        deployment.dut_mac(PhyPort(index=0)),
        deployment.tester_mac(0, 0),
    )
    assert (whole[IP].src, whole[IP].dst) == (TESTER_ADDRESS, DUT_ADDRESS)
    assert whole[IP].ttl == 64
    if kind == "gre":
        shim = whole[GRE]
        assert (shim.proto, shim.key_present, shim.chksum_present) == (0x6558, 0, 0)
    else:
        assert (whole[UDP].sport, whole[UDP].dport) == (UDP_SOURCE, UDP_PORT[kind])
        shim = whole[VXLAN] if kind == "vxlan" else whole[GENEVE]
        assert shim.vni == VNI
    if kind == "vxlan":
        assert int(shim.flags) == 0x08
    if kind == "geneve":
        assert (shim.proto, shim.optionlen) == (0x6558, 0)
    inner = bytes(shim.payload)
    # The plain frame, without its FCS: no tunnel carries one.
    assert len(inner) == size - 4
    assert inner[:42] == compile_header(stream, size)


@given(KINDS, SIZES)
def test_lengths_and_checksum_of_the_outer_headers_are_scapys(kind: TunnelKind, size: int) -> None:
    stream = tunnelled(kind)
    whole = frame(stream, size)
    stated = whole[IP].len, whole[IP].chksum
    del whole[IP].len, whole[IP].chksum
    again = Ether(bytes(whole))
    assert stated == (again[IP].len, again[IP].chksum)
    assert stated[0] == len(bytes(whole)) - 14
    if kind != "gre":
        assert whole[UDP].len == whole[IP].payload.len == stated[0] - 20
        assert whole[UDP].chksum == 0


@given(KINDS, SIZES)
def test_a_tunnel_costs_what_the_model_says(kind: TunnelKind, size: int) -> None:
    stream = tunnelled(kind)
    whole = compile_frame(stream, PROFILE, size)
    assert sent_size(stream, size) == size + OVERHEAD[kind] == len(whole) + 4
    plain = compile_header(stream, size).ljust(size - 4, b"\0")
    assert whole[OVERHEAD[kind] :] == plain


def test_a_plain_stream_has_no_outer_headers() -> None:
    (stream,) = make_streams(make_deployment("encap"), TrafficProfile(), tunnel="vxlan")
    assert stream.tunnel == ""
    assert compile_frame(stream, PROFILE, 64)[:42] == compile_header(stream, 64)
    assert sent_size(stream, 64) == 64


@pytest.mark.parametrize("kind", TUNNELS)
def test_flows_and_checksums_are_the_inner_frames(kind: TunnelKind) -> None:
    profile = TrafficProfile(flows=8, vary=("ipv4_src", "udp_src"))
    (part,) = compile_parts((tunnelled(kind),), profile, 64, {})
    assert part.spec.frame_size == 64 + OVERHEAD[kind]
    assert part.spec.l3_offset == OVERHEAD[kind] + 14
    assert [f.offset for f in part.spec.fields] == [OVERHEAD[kind] + 26, OVERHEAD[kind] + 34]
    for field in part.spec.fields:
        at = part.spec.header[field.offset : field.offset + field.width]
        assert int.from_bytes(at, "big") == field.base
