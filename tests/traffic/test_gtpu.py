"""scapy is the judge of users' packets: in GTP-U towards the core, plain towards the UE."""

from __future__ import annotations

from ipaddress import IPv4Address
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.gtp import GTP_U_Header
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.trial import learn
from vnetperf.model.deployment import make_deployment
from vnetperf.model.options import Bearers
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams
from vnetperf.model.trial import TrialSpec
from vnetperf.plugin.compiled_frames import compile_fields, compile_frame, sent_size
from vnetperf.traffic.loadgen.trials import compile_parts

SIZES = st.integers(64, 9000)
PROFILE = TrafficProfile()
QUEUES = st.integers(1, 4)


def runs() -> st.SearchStrategy[tuple[Bearers, ...]]:
    one = st.builds(
        Bearers,
        teid=st.integers(1, 2**31),
        ue=st.integers(1, 60_000).map(lambda n: str(IPv4Address("198.18.0.0") + n)),
        count=st.integers(1, 500),
    )
    return st.lists(one, min_size=1, max_size=4).map(tuple)


def streams(bearers: tuple[Bearers, ...]) -> tuple[Stream, ...]:
    made = make_streams(make_deployment("vepc"), PROFILE, addressing="port")
    return tuple(stream.model_copy(update={"bearers": bearers}) for stream in made)


@given(SIZES, runs())
def test_uplink_is_a_packet_in_gtpu(size: int, bearers: tuple[Bearers, ...]) -> None:
    uplink, _ = streams(bearers)
    whole = Ether(
        compile_frame(compile_parts((uplink,), PROFILE, size, {})[0].stream, PROFILE, size)
    )
    assert len(whole) == sent_size(uplink, size) - 4
    assert sent_size(uplink, size) == size + 36
    assert (whole[IP].src, whole[IP].dst) == ("192.0.2.2", "192.0.2.1")
    assert (whole[UDP].dport, whole[UDP].len) == (2152, size + 36 - 4 - 14 - 20)
    assert whole[IP].len == size + 36 - 4 - 14
    gtp = whole[GTP_U_Header]
    assert (gtp.version, gtp.gtp_type, gtp.teid) == (1, 255, bearers[0].teid)
    inner = IP(bytes(gtp.payload))
    assert gtp.length == inner.len == size - 4 - 14
    assert (inner.src, inner.dst) == (bearers[0].ue, "198.19.0.1")
    for part in (whole[IP], inner):
        told, again = part.chksum, part.copy()
        del again.chksum
        assert IP(bytes(again)).chksum == told


@given(SIZES, runs())
def test_downlink_is_plain_and_for_the_ue(size: int, bearers: tuple[Bearers, ...]) -> None:
    _, downlink = streams(bearers)
    part = compile_parts((downlink,), PROFILE, size, {})[0]
    whole = Ether(part.spec.header + bytes(size - 4 - len(part.spec.header)))
    assert part.spec.frame_size == size
    assert (whole[IP].src, whole[IP].dst) == ("198.19.0.1", bearers[0].ue)
    assert whole[UDP].dport == 7


@given(runs(), QUEUES)
def test_every_session_has_its_share_and_its_own_addresses(
    bearers: tuple[Bearers, ...], queues: int
) -> None:
    for stream in streams(bearers):
        parts = compile_parts((stream,), PROFILE, 64, {0: queues, 1: queues})
        assert abs(sum(part.share for part in parts) - 1) < 1e-9
        sessions = []
        for part in parts:
            header = part.spec.header
            fields = {field.offset: field for field in part.spec.fields}
            uplink = stream.tunnel == "gtpu"
            ue_at = 62 if uplink else 30
            first = int.from_bytes(header[ue_at : ue_at + 4], "big")
            ues, teids = [first], [int.from_bytes(header[46:50], "big")]
            if ue_at in fields:
                f = fields[ue_at]
                ues = [f.base + f.step * n for n in range(f.count)]
            if 46 in fields:
                f = fields[46]
                teids = [f.base + f.step * n for n in range(f.count)]
            sessions += list(zip(teids, ues, strict=True)) if uplink else [(0, ue) for ue in ues]
        wanted = [
            (run.teid + n if stream.tunnel else 0, int(IPv4Address(run.ue)) + n)
            for run in bearers
            for n in range(run.count)
        ]
        assert sorted(sessions) == sorted(wanted)


def test_the_outer_ethernet_header_can_vary_and_the_inner_udp_port_too() -> None:
    profile = TrafficProfile(flows=4, vary=("eth_src", "udp_src"))
    uplink, downlink = streams((Bearers(teid=1, ue="198.18.0.1", count=1),))
    assert [field.offset for field in compile_fields(uplink, profile)] == [9, 34 + 36]
    assert [field.offset for field in compile_fields(downlink, profile)] == [9, 34]


@pytest.mark.parametrize(
    ("counts", "frames"), [((1000,), 2000), ((10, 990), 7920), ((3,), 64), ((), 64)]
)
def test_each_flow_of_sessions_is_learnt_before_a_trial(
    counts: tuple[int, ...], frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come after trials are planned, which know the profile's 16 flows alone."""
    bearers = tuple(Bearers(teid=1, ue="198.18.0.1", count=count) for count in counts)
    profile = TrafficProfile(flows=16, vary=("udp_src",))
    scenario = Scenario(deployment=make_deployment("vepc"), vswitch="bridge", traffic=profile)
    learnt: list[int] = []
    live = LiveDeployment.__new__(LiveDeployment)
    core = SimpleNamespace(streams=lambda _: streams(bearers))
    for name, value in {
        "plan": SimpleNamespace(
            scenario=scenario, for_tester=SimpleNamespace(scenario=scenario), has_dut=True
        ),
        "generator": SimpleNamespace(prepare=lambda *_: None, learn=learnt.append),
        "check_alive": lambda: None,
        "_mobile_cores": lambda: [core],
        "_prepared_size": 0,
    }.items():
        monkeypatch.setattr(live, name, value, raising=False)
    spec = TrialSpec(
        frame_size=128, load_fps=1.0, duration_s=1.0, learning_frames=scenario.learning_frames
    )
    learn(live, spec)
    assert learnt == [frames]
    learn(live, spec.model_copy(update={"learning_frames": 0}))
    assert learnt == [frames]


def test_streams_without_sessions_are_as_ever() -> None:
    for stream in make_streams(make_deployment("pvp"), PROFILE):
        (part,) = compile_parts((stream,), PROFILE, 64, {})
        assert (part.share, part.spec.fields, part.spec.frame_size) == (1.0, (), 64)
