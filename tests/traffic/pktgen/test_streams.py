"""Files of frames: the octets, the shares, the order, the checksums."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import cycle, islice
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.traffic.pktgen.conftest import plan_of
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.traffic.pktgen.driver import Pktgen
from vnetperf.traffic.pktgen.streams import (
    compile_cycles,
    cycle_counts,
    generate_frames,
    group_by_port,
    learning_frames,
)


def compiled(profile: TrafficProfile, size: int = 64) -> tuple[CompiledFrame, ...]:
    streams = make_streams(make_deployment("phy2phy"), profile)
    return compile_traffic(streams, profile, size)


def records(pcap: bytes) -> list[bytes]:
    """Frames of a file, read as any program reads it."""
    magic, major, minor, *_, link = struct.unpack("<IHHiIII", pcap[:24])
    assert (magic, major, minor, link) == (0xA1B2C3D4, 2, 4, 1)
    found, at = [], 24
    while at < len(pcap):
        kept, length = struct.unpack("<II", pcap[at + 8 : at + 16])
        assert kept == length
        found.append(pcap[at + 16 : at + 16 + length])
        at += 16 + length
    return found


@pytest.mark.parametrize("size", [64, 65, 1518])
def test_one_flow_is_the_compiled_frame(size: int) -> None:
    kinds = compiled(TrafficProfile(), size)
    for port, traffic in compile_cycles(kinds).items():
        (kind,) = (k for k in kinds if k.stream.tx_port == port)
        assert records(traffic.pcap) == [kind.template]
        assert len(kind.template) == size - 4 == traffic.octets
        assert (traffic.frames, traffic.load, traffic.equal) == (1, 1.0, True)


def recomputed(frame: bytes) -> Packet:
    """The frame as scapy makes it when it has to compute checksums itself."""
    packet = Ether(frame)
    for layer in (IP, UDP, TCP):
        if packet.haslayer(layer) and packet[layer].chksum:
            del packet[layer].chksum
    return Ether(bytes(packet))


@pytest.mark.slow  # computes the checksums of thousands of frames in Python
@given(
    flows=st.integers(2, 100),
    vary=st.sets(st.sampled_from(["eth_src", "eth_dst", "ipv4_src", "ipv4_dst", "udp_src"])),
    size=st.integers(64, 200),
)
@settings(max_examples=15)
def test_flows_have_their_values_and_right_checksums(flows: int, vary: set[str], size: int) -> None:
    profile = TrafficProfile(flows=flows, vary=tuple(sorted(vary)) or ("udp_dst",))
    for kind in compiled(profile, size):
        for number, frame in enumerate(islice(generate_frames(kind), flows + 3)):
            for field in kind.fields:
                value = int.from_bytes(frame[field.offset : field.offset + field.width], "big")
                assert value == field.base + field.step * (number % field.count)
            assert bytes(recomputed(frame)) == frame
            assert len(frame) == size - 4


def test_a_cycle_has_every_flow_once_and_in_order() -> None:
    profile = TrafficProfile(flows=50, vary=("udp_src", "ipv4_dst"))
    for traffic in compile_cycles(compiled(profile)).values():
        frames = records(traffic.pcap)
        ports = [Ether(frame)[UDP].sport for frame in frames]
        assert ports == list(range(ports[0], ports[0] + 50))
        assert traffic.frames == len(set(frames)) == 50


def test_chains_share_a_port_evenly() -> None:
    kinds = compiled(TrafficProfile())
    doubled = (*kinds, *(k for k in kinds))
    for port, traffic in compile_cycles(doubled).items():
        assert traffic.frames == 2
        assert traffic.load == pytest.approx(2.0)
        assert port in (0, 1)


def test_shares_become_the_smallest_numbers() -> None:
    (kind, *_) = compiled(TrafficProfile())
    mix = [replace(kind, share=s) for s in (7 / 12, 4 / 12, 1 / 12)]
    assert cycle_counts(mix) == (7, 4, 1)
    assert cycle_counts([kind, kind]) == (1, 1)


@pytest.mark.parametrize("skipped", [0, 1, 500])
@pytest.mark.parametrize(
    ("traffic", "frames"),
    [({}, 1024), ({"imix": "aaaaaaaddddg"}, 147 * 12), ({"imix": "ag"}, 2048)],
)
def test_learning_frames_of_a_mix_are_of_every_flow(
    traffic: dict[str, Any], frames: int, skipped: int
) -> None:
    """Wherever in its cycle Pktgen goes on."""
    profile = TrafficProfile(flows=1024, vary=("ipv4_src",), **traffic)
    kinds = compiled(profile)
    for port, mine in group_by_port(kinds).items():
        assert learning_frames(mine, profile.learning_frames_per_stream) == frames
        file = records(compile_cycles(kinds)[port].pcap)
        sent = islice(cycle(file), skipped, skipped + frames)
        assert len({Ether(frame)[IP].src for frame in sent}) == 1024


def test_learning_frames_of_a_port_are_those_of_all_its_streams() -> None:
    kinds = group_by_port(compiled(TrafficProfile(flows=100, vary=("udp_src",))))[0]
    second = [replace(k, stream=k.stream.model_copy(update={"id": 7})) for k in kinds]
    assert learning_frames([*kinds, *second], 100) == 200
    assert learning_frames([*kinds, *second], 500) == 1000
    assert learning_frames(kinds, 1) == 1


def test_as_many_learning_frames_are_sent_as_a_mix_takes() -> None:
    generator = Pktgen(MagicMock(), plan_of())
    generator.learn(0)
    with pytest.raises(GeneratorError, match="no traffic is prepared"):
        generator.learn(64)
    kinds = compiled(TrafficProfile(imix="ag", flows=64, vary=("ipv4_src",)))
    assert [learning_frames(mine, 64) for mine in group_by_port(kinds).values()] == [128, 128]


def test_what_cannot_be_sent_is_refused() -> None:
    random = TrafficProfile(flows=10, vary=("udp_src",), vary_mode="random")
    with pytest.raises(GeneratorError, match="at random"):
        compile_cycles(compiled(random))
    many = TrafficProfile(flows=2_000_000, vary=("eth_src",))
    with pytest.raises(GeneratorError, match="different frames in a cycle"):
        compile_cycles(compiled(many))


@pytest.mark.parametrize(
    ("traffic", "server", "said"),
    [
        ({"flows": 1 << 20, "vary": ("eth_src",)}, "", ""),
        # Together, fields of different periods make a cycle that is longer than any of them.
        ({"imix": "aag", "flows": 1 << 20, "vary": ("eth_src",)}, "", "(at most 1048576)"),
        ({"flows": 10, "vary": ("udp_src",)}, "", ""),
        ({"flows": 10, "vary": ("udp_src",)}, "10.0.0.7", "cannot send several flows"),
        ({}, "10.0.0.7", ""),
    ],
)
def test_what_cannot_be_sent_is_said_before_anything_is_deployed(
    traffic: dict[str, Any], server: str, said: str
) -> None:
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="dpdk",
        traffic=TrafficProfile.model_validate(traffic),
        generator="pktgen",
    )
    why = Pktgen.cannot_send(scenario, Testbed(pktgen={"server": server}))
    assert bool(why) == bool(said)
    assert said in why
