"""Frames of every traffic profile as the engine puts them on the wire: those that were compiled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from tests.engine.conftest import OpenEngine
from tests.traffic.test_golden import CASES, SESSIONS, profile_of
from vnetperf.model.deployment import make_deployment
from vnetperf.model.frames import STAMP_OCTETS
from vnetperf.model.traffic import Stream, TrafficProfile, make_streams
from vnetperf.model.trial import TrialSpec
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic
from vnetperf.plugin.frame_layers import write_checksum
from vnetperf.traffic.loadgen.engine import Engine, EngineTrial, StreamLoad
from vnetperf.traffic.loadgen.trials import PreparedStreams, StreamPart, compile_parts

pytestmark = pytest.mark.real

FRAMES = 300
#: On a busy machine no frame is to be given up for lack of a processor.
LAG_S = 20.0
#: In the stamp: epoch, stream, sequence number.
EPOCH, STREAM, SEQUENCE = 3, 4, slice(6, 10)


def streams_of(case: str) -> tuple[TrafficProfile, tuple[Stream, ...]]:
    name, deployment, kind = CASES[case]
    profile = profile_of(name)
    streams = make_streams(make_deployment(deployment), profile, tunnel=kind)
    if deployment == "vepc":
        streams = tuple(s.model_copy(update={"bearers": SESSIONS}) for s in streams)
    return profile, streams


Kind = tuple[CompiledFrame, StreamPart]


def kinds_of(
    streams: Sequence[Stream], profile: TrafficProfile, size: int, parts: Sequence[StreamPart]
) -> dict[int, Kind]:
    """Part's number -> the kind of frame that it sends some of."""
    frames = compile_traffic(streams, profile, size)
    found = {}
    for part in parts:
        (kind,) = (
            frame
            for frame in frames
            if (frame.stream, frame.size, frame.broadcast)
            == (part.stream, part.spec.frame_size, part.broadcast)
        )
        found[part.spec.id] = kind, part
    return found


def paced(load_fps: float, duration_s: float) -> TrialSpec:
    return TrialSpec(frame_size=64, load_fps=load_fps, duration_s=duration_s)


def sent(engine: Engine, case: str, epoch: int) -> dict[int, Kind]:
    """Send a profile's frames out of the engine's one port; part's number -> what it is."""
    profile, streams = streams_of(case)
    size = profile.least_frame_size if epoch % 2 else 1518
    prepared = PreparedStreams(compile_parts(streams, profile, size, {}))
    engine.set_streams(replace(part.spec, tx_port=0, rx_port=0) for part in prepared.parts)
    burst = TrialSpec(frame_size=size, load_fps=1.0, duration_s=0.0, burst=FRAMES)
    loads = prepared.loads(burst)
    engine.start(EngineTrial(loads=loads, epoch=epoch, drain_s=0.01, policy="retry"))
    result = engine.wait(60)
    for part in prepared.parts:
        counts = result.stream(part.spec.id).counts
        assert counts.sent == counts.intended == round(FRAMES * part.share)
    return kinds_of(streams, profile, size, prepared.parts)


def captured(path: Path) -> Iterator[bytes]:
    with RawPcapReader(str(path)) as packets:
        for octets, _ in packets:
            yield octets


def unstamped(frame: bytes, kind: CompiledFrame) -> bytes:
    """The frame with zeros for the stamp, and checksums that cover it as they are then."""
    plain = bytearray(frame)
    plain[-STAMP_OCTETS:] = bytes(STAMP_OCTETS)
    for checksum in kind.checksums:
        if checksum.kind != "ipv4":
            write_checksum(plain, checksum.kind, checksum.offset, checksum.ip_offset)
    return bytes(plain)


def first_flow(frame: bytes, kind: CompiledFrame) -> bytes:
    """The frame with the first flow's values, which have to be among those it may have."""
    plain = bytearray(frame)
    for field in kind.fields:
        here = slice(field.offset, field.offset + field.width)
        steps = (int.from_bytes(plain[here], "big") - field.base) / field.step
        assert steps in range(field.count)
        plain[here] = field.base.to_bytes(field.width, "big")
    for checksum in reversed(kind.checksums):
        write_checksum(plain, checksum.kind, checksum.offset, checksum.ip_offset)
    return bytes(plain)


def assert_right_sums(frame: bytes, kind: CompiledFrame) -> None:
    again = bytearray(frame)
    for checksum in reversed(kind.checksums):
        write_checksum(again, checksum.kind, checksum.offset, checksum.ip_offset)
    assert bytes(again) == frame


@pytest.fixture
def capture(open_engine: OpenEngine, executable: Path, run_dir: Path) -> tuple[Engine, Path]:
    """An engine whose frames go to a file."""
    path = run_dir / "tx.pcap"
    return open_engine(executable, f"--vdev=net_pcap0,tx_pcap={path}", mtu=9198), path


def test_what_leaves_is_what_was_compiled(capture: tuple[Engine, Path]) -> None:
    engine, path = capture
    kinds = {n: sent(engine, case, n) for n, case in enumerate(CASES, start=1)}
    engine.close()
    names = dict(enumerate(CASES, start=1))
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for frame in captured(path):
        stamp = frame[-STAMP_OCTETS:]
        assert stamp[:3] == b"VNP"
        epoch, number = stamp[EPOCH], int.from_bytes(stamp[SEQUENCE], "little")
        kind, part = kinds[epoch][stamp[STREAM]]
        where = f"{names[epoch]}, kind {stamp[STREAM]}, frame {number}"
        found[epoch][stamp[STREAM]] += 1
        assert len(frame) == kind.size - 4, where
        assert_right_sums(frame, kind)
        plain = unstamped(frame, kind)
        if any(field.random for field in kind.fields):
            assert first_flow(plain, kind) == kind.nth(0), where
        else:
            assert plain == kind.nth(part.first + part.step * number), where
    for epoch, case in names.items():
        wanted = {n: round(FRAMES * part.share) for n, (_, part) in kinds[epoch].items()}
        assert found[epoch] == wanted, case


@pytest.mark.parametrize("flows", [1, 84])
def test_a_genomes_frames_leave_in_its_order(capture: tuple[Engine, Path], flows: int) -> None:
    engine, path = capture
    profile = TrafficProfile(imix="aaagbad", flows=flows, vary=("udp_src",), bidirectional=False)
    streams = make_streams(make_deployment("phy2phy"), profile)
    prepared = PreparedStreams(compile_parts(streams, profile, 64, {}))
    engine.set_streams(replace(part.spec, tx_port=0, rx_port=0) for part in prepared.parts)
    loads = prepared.loads(paced(10_000, 0.1))
    assert sum(load.count or 0 for load in loads.values()) == 1000
    engine.start(EngineTrial(loads=loads, duration_s=0.1, epoch=1, drain_s=0.01, max_lag_s=LAG_S))
    engine.wait(60)
    engine.close()
    frames = list(captured(path))
    sizes = [64, 64, 64, 1518, 128, 64, 512]
    assert [len(frame) + 4 for frame in frames] == (sizes * 143)[:1000]
    ports = [int.from_bytes(frame[34:36], "big") for frame in frames if len(frame) == 60]
    # Of each size all flows are sent in order; four of seven frames are of this one.
    assert ports == [1024 + number % flows for number in range(len(ports))]


def test_random_values_are_all_there_and_no_others(capture: tuple[Engine, Path]) -> None:
    engine, path = capture
    profile, streams = streams_of("rfc2544")
    (part, _) = compile_parts(streams, profile, 64, {})
    engine.set_streams([replace(part.spec, tx_port=0, rx_port=0)])
    engine.start(
        EngineTrial(loads={0: StreamLoad(None, 20_000)}, epoch=1, drain_s=0.01, policy="retry")
    )
    engine.wait(60)
    engine.close()
    networks = Counter(frame[30:34] for frame in captured(path))
    assert set(networks) == {bytes([198, 19, net, 1]) for net in range(256)}
    assert max(networks.values()) < 2 * 20_000 / 256


def test_bursts_leave_together_and_the_rate_is_met(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, *memif)
    engine.wait_links()
    profile = profile_of("bursts")
    streams = make_streams(make_deployment("phy2phy"), profile)
    prepared = PreparedStreams(compile_parts(streams, profile, 64, {}), group=profile.burst)
    engine.set_streams(part.spec for part in prepared.parts)
    trial = EngineTrial(
        loads=prepared.loads(paced(6400, 0.5)), duration_s=0.5, group=profile.burst, max_lag_s=LAG_S
    )
    engine.start(trial)
    result = engine.wait(30)
    for part in prepared.parts:
        one = result.stream(part.spec.id)
        assert one.counts.sent == one.counts.received == one.counts.intended == 3200
        # 50 bursts in half a second: the last begins at 490 ms.
        assert one.tx_last_ns is not None
        assert one.tx_last_ns >= 489_000_000
    for port in result.ports:
        # Two transmit calls of 32 each make one burst.
        assert port.tx_calls <= 3200 / 32 + 60
        assert port.max_burst == 32


def test_unequal_loads_and_broadcast_are_counted_apart(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    engine = open_engine(executable, *memif)
    engine.wait_links()
    profile = TrafficProfile(loads=(0.5, 1.0), broadcast=0.1, imix="aaab")
    streams = make_streams(make_deployment("phy2phy"), profile)
    prepared = PreparedStreams(compile_parts(streams, profile, 80, {}))
    engine.set_streams(part.spec for part in prepared.parts)
    engine.start(
        EngineTrial(loads=prepared.loads(paced(8000, 0.5)), duration_s=0.5, max_lag_s=LAG_S)
    )
    engine.wait(30)
    sent_of: Counter[tuple[int, int, bool]] = Counter()
    for part in prepared.parts:
        counts = engine.result().stream(part.spec.id).counts
        assert counts.received == counts.sent == counts.intended
        sent_of[part.stream.direction, part.spec.frame_size, part.broadcast] += counts.sent
    assert sent_of == {
        (0, 64, False): 1350,
        (0, 64, True): 150,
        (0, 128, False): 450,
        (0, 128, True): 50,
        (1, 64, False): 2700,
        (1, 64, True): 300,
        (1, 128, False): 900,
        (1, 128, True): 100,
    }
