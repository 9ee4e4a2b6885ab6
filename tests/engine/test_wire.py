"""What is on the wire, octet by octet; and frames that come back altered, late or twice."""

from __future__ import annotations

import os
import signal
import socket
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scapy.all import IP, UDP, Ether, PcapReader, wrpcap  # type: ignore[attr-defined]  # scapy fills it as it runs

from tests.engine.conftest import OpenEngine
from tests.engine.frames import DST_IP, SRC_IP, stream
from vnetperf.host import links
from vnetperf.host.journal import Journal
from vnetperf.host.linux import run_in
from vnetperf.host.paths import HostRoots
from vnetperf.host.processes import ManagedProcess, Processes
from vnetperf.model.deployment import make_deployment
from vnetperf.model.errors import GeneratorError
from vnetperf.model.frames import OVERHEAD, TUNNELS, TunnelKind
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.plugin.compiled_frames import compile_frame
from vnetperf.traffic.loadgen.engine import (
    Engine,
    EngineConfig,
    EngineTrial,
    FieldSpec,
    StreamLoad,
    StreamSpec,
)
from vnetperf.traffic.loadgen.telemetry import EngineResult
from vnetperf.traffic.loadgen.trials import compile_parts

pytestmark = pytest.mark.real

OpenVeth = Callable[..., Engine]


def send(engine: Engine, count: int, *streams: StreamSpec, **settings: Any) -> EngineResult:
    engine.set_streams(streams)
    settings = {"epoch": 5, "drain_s": 0.01, "policy": "retry", **settings}
    loads = {s.id: StreamLoad(None, count) for s in streams}
    engine.start(EngineTrial(loads=loads, **settings))
    return engine.wait(30)


def captured(path: Path) -> list[bytes]:
    with PcapReader(str(path)) as packets:
        return [bytes(p) for p in packets]


@pytest.fixture
def capture(open_engine: OpenEngine, executable: Path, run_dir: Path) -> tuple[Engine, Path]:
    """An engine whose frames go to a file."""
    path = run_dir / "tx.pcap"
    return open_engine(executable, f"--vdev=net_pcap0,tx_pcap={path}", mtu=9198), path


def test_golden_octets(capture: tuple[Engine, Path]) -> None:
    engine, path = capture
    send(engine, 3, stream(9, 0, 0, size=80))
    engine.close()
    frames = captured(path)
    assert len(frames) == 3
    tsc = []
    for number, frame in enumerate(frames):
        assert len(frame) == 76
        assert frame[:14].hex() == "0200000000020200000000010800"
        assert frame[14:24].hex() == "4500003e000040004011"
        assert frame[26:42].hex() == "c6120001c613000104000800002a0000"
        assert frame[42:58] == bytes(16)
        assert frame[58:68] == b"VNP\x05" + b"\x09\x00" + number.to_bytes(4, "little")
        tsc.append(int.from_bytes(frame[68:76], "little"))
    assert 0 < tsc[0] <= tsc[1] <= tsc[2]


@pytest.mark.parametrize("size", [64, 65, 127, 1518, 9216])
def test_checksums_are_right_in_every_frame(capture: tuple[Engine, Path], size: int) -> None:
    engine, path = capture
    fields = (
        FieldSpec(offset=26, width=4, base=SRC_IP, count=50),
        FieldSpec(offset=30, width=4, base=DST_IP, count=3, step=256, mode="carry"),
        FieldSpec(offset=34, width=2, base=1024, count=60000, mode="random", seed=1),
    )
    send(engine, 300, stream(0, 0, 0, size=size, udp=True, fields=fields))
    engine.close()
    frames = captured(path)
    assert len(frames) == 300
    for number, frame in enumerate(frames):
        assert len(frame) == size - 4
        packet = Ether(frame)
        assert int.from_bytes(frame[26:30]) == SRC_IP + number % 50
        assert int.from_bytes(frame[30:34]) == DST_IP + 256 * (number // 50 % 3)
        stated = (packet[IP].chksum, packet[UDP].chksum)
        del packet[IP].chksum, packet[UDP].chksum
        rebuilt = Ether(bytes(packet))
        assert stated == (rebuilt[IP].chksum, rebuilt[UDP].chksum)
    flows = {frame[26:34] for frame in frames}
    assert len(flows) == 150
    assert len({frame[34:36] for frame in frames}) > 250


def test_streams_interleave(capture: tuple[Engine, Path]) -> None:
    engine, path = capture
    send(engine, 50, *(stream(n, 0, 0, size=64 + 100 * n) for n in range(4)))
    engine.close()
    frames = captured(path)
    assert len(frames) == 200
    for number, frame in enumerate(frames):
        assert frame[-14] == number % 4
        assert len(frame) == 60 + 100 * (number % 4)
        assert int.from_bytes(frame[-12:-8], "little") == number // 4


def own(
    epoch: int, stream_id: int, sequence: int, tsc: int, queue: int = 0, *, room: int = 0
) -> bytes:
    """A frame as the engine would stamp it, with room between headers and trailer."""
    tail = b"VNP" + bytes([epoch, stream_id, queue]) + sequence.to_bytes(4, "little")
    return (
        bytes.fromhex("0200000000020200000000010800")
        + bytes(28 + room)
        + tail
        + tsc.to_bytes(8, "little")
    )


def test_altered_arrivals(open_engine: OpenEngine, executable: Path, run_dir: Path) -> None:
    """The port receives a file again and again, so each frame's place in its counter is known."""
    path = run_dir / "rx.pcap"
    arrivals = [
        own(5, 0, 3, 1000),  # new
        own(5, 0, 1, 1000),  # new, reordered
        own(5, 0, 1, 1000),  # duplicate
        own(5, 0, 10, 1000),  # never sent: only 10 frames are
        own(5, 1, 0, 1000),  # no such stream
        own(5, 0, 0, 1000, queue=1),  # no such transmit queue
        own(5, 0, 4, 1 << 62),  # from the future: received, no latency
        own(4, 0, 2, 1000),  # another trial's
        own(0, 0, 2, 1000),  # learning
        b"x" * 60,
        b"y" * 17,  # too short for a trailer
    ]
    wrpcap(str(path), [Ether(frame) for frame in arrivals])
    engine = open_engine(
        executable, f"--vdev=net_pcap0,rx_pcap={path},infinite_rx=1,tx_pcap={run_dir}/tx.pcap"
    )
    result = send(engine, 10, stream(0, 0, 0), drain_s=0.1)
    counts, port = result.stream(0).counts, result.ports[0]
    latency = result.stream(0).latency
    rounds = port.rx_frames / len(arrivals)
    assert rounds >= 2
    assert (counts.sent, counts.received, counts.late) == (10, 3, 0)
    # The trial starts somewhere in the file: 3 1 4, 1 4 3 or 4 3 1.
    assert counts.reordered in {1, 2}
    assert latency.before_departure == 1
    assert latency.count == counts.received - 1
    for counted, share in [
        (counts.duplicated + counts.received, 4),
        (port.corrupted, 3),
        (port.learning, 1),
        (port.foreign, 2),
    ]:
        assert abs(counted - rounds * share) <= share
    others = counts.received + counts.duplicated + port.corrupted + port.learning + port.foreign
    stale = port.rx_frames - others
    assert abs(stale - rounds) <= 1
    # The file is received between the trials too, and what came then is of the trial before.
    assert port.stale >= stale


@pytest.mark.parametrize("kind", TUNNELS)
def test_a_tunnelled_frame_is_whole_on_the_wire(
    kind: TunnelKind, capture: tuple[Engine, Path]
) -> None:
    engine, path = capture
    profile = TrafficProfile(flows=5, vary=("ipv4_src",))
    streams = make_streams(make_deployment("decap"), profile, tunnel=kind)
    (part,) = compile_parts(streams, profile, 128, {})
    result = send(engine, 10, replace(part.spec, rx_port=0))
    engine.close()
    frames = captured(path)
    assert [len(frame) for frame in frames] == [124 + OVERHEAD[kind]] * 10
    assert result.ports[0].tx_calls >= 1
    whole = compile_frame(streams[0], profile, 128)
    for frame in frames:
        assert frame[: OVERHEAD[kind]] == whole[: OVERHEAD[kind]]
        inner = Ether(frame[OVERHEAD[kind] :])  # the flow and its checksum are the inner ones
        stated = inner[IP].chksum
        del inner[IP].chksum
        assert Ether(bytes(inner))[IP].chksum == stated
        assert inner[UDP].len == 124 - 34
    assert len({frame[OVERHEAD[kind] + 26 : OVERHEAD[kind] + 30] for frame in frames}) == 5


def test_a_frame_is_known_with_and_without_a_tunnels_headers(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    path = run_dir / "rx.pcap"
    plain = own(5, 0, 0, 1000)
    arrivals = [plain, bytes(50) + own(5, 0, 1, 1000), bytes(38) + own(5, 0, 2, 1000)]
    wrpcap(str(path), [Ether(frame) for frame in arrivals])
    engine = open_engine(
        executable, f"--vdev=net_pcap0,rx_pcap={path},infinite_rx=1,tx_pcap={run_dir}/tx.pcap"
    )
    result = send(engine, 10, stream(0, 0, 0), drain_s=0.1)
    counts, port = result.stream(0).counts, result.ports[0]
    assert (counts.received, port.corrupted, port.foreign) == (3, 0, 0)
    rounds = port.rx_frames / 3
    octets = sum(len(frame) + 4 for frame in arrivals)  # as received, headers and FCS included
    assert abs(port.rx_octets - rounds * octets) <= 2 * octets


def test_a_frame_of_another_length_or_payload_is_not_the_frame(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    path = run_dir / "rx.pcap"
    whole = own(5, 0, 0, 1000, room=40)
    tagged = own(5, 0, 1, 1000, room=40)
    altered = bytearray(own(5, 0, 3, 1000, room=40))
    altered[60] ^= 1
    arrivals = [
        whole,
        tagged[:12] + bytes.fromhex("81000064") + tagged[12:],  # a VLAN tag still on it
        bytes(50) + own(5, 0, 2, 1000, room=40),  # still in its tunnel
        own(5, 0, 4, 1000, room=40)[:-1],  # one octet short: no trailer where it belongs
        bytes(altered),
        own(5, 7, 0, 1000),  # no such stream
    ]
    wrpcap(str(path), [Ether(frame) for frame in arrivals])
    device = f"--vdev=net_pcap0,rx_pcap={path},infinite_rx=1,tx_pcap={run_dir}/tx.pcap"
    # One frame a call: the payload of each is looked at.
    engine = open_engine(executable, device, rx_burst=1)
    result = send(engine, 10, replace(stream(0, 0, 0, size=104), rx_size=104), drain_s=0.1)
    counts, port = result.stream(0).counts, result.ports[0]
    rounds = port.rx_frames / len(arrivals)
    assert rounds >= 2
    assert counts.received == 1
    for counted, share in [
        (counts.altered, 3),
        (counts.duplicated + 1, 1),
        (port.foreign, 1),
        (port.corrupted, 1),
    ]:
        assert abs(counted - rounds * share) <= share
    assert port.verified >= counts.altered / 3
    # Whatever its length, where none is given.
    any_length = send(engine, 10, stream(0, 0, 0, size=104), drain_s=0.1, epoch=6)
    assert any_length.ports[0].verified == 0
    assert any_length.stream(0).counts.altered == 0


def test_a_frame_with_other_headers_than_expected_is_not_the_frame(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    """A NAT's frames: by its number each has its own port, once in a table, once by its step."""

    def arrival(number: int, port: int, address: str = "198.18.0.1") -> bytes:
        trailer = own(5, 0, number, 1000)[-18:]
        head = Ether() / IP(src=address, dst="198.19.0.1") / UDP(sport=port, dport=7)
        return bytes(head) + bytes(60 - len(bytes(head)) - len(trailer)) + trailer

    error = Ether() / IP(src="198.18.0.9", dst="100.64.0.1", proto=1)
    quoted = bytes(error) + bytes(8) + arrival(5, 5)[14:]  # ICMP quotes the whole frame
    arrivals = [
        arrival(0, 1024),
        arrival(1, 2000),
        arrival(2, 2000),  # not its port
        arrival(4, 2000),  # 3 is lost; the table begins anew
        arrival(3, 1024, "198.18.0.2"),
        quoted,
    ]
    path = run_dir / "rx.pcap"
    wrpcap(str(path), [Ether(frame) for frame in arrivals])
    engine = open_engine(
        executable, f"--vdev=net_pcap0,rx_pcap={path},infinite_rx=1,tx_pcap={run_dir}/tx.pcap"
    )
    expected = (
        FieldSpec(offset=23, width=1, base=17, count=1),
        FieldSpec(offset=26, width=4, base=int.from_bytes(bytes([198, 18, 0, 1])), count=1),
        FieldSpec(
            offset=34,
            width=2,
            base=0,
            count=3,
            mode="table",
            table=b"".join(port.to_bytes(2, "big") for port in (1024, 2000, 3000)),
        ),
    )
    result = send(engine, 10, replace(stream(0, 0, 0), expected=expected), drain_s=0.1)
    counts, port = result.stream(0).counts, result.ports[0]
    rounds = port.rx_frames / len(arrivals)
    assert rounds >= 2
    assert counts.received == 3
    for counted in (counts.altered, counts.duplicated + 3):
        assert abs(counted - 3 * rounds) <= 3
    at_random = replace(expected[0], mode="random", count=2)
    with pytest.raises(GeneratorError, match="at random"):
        engine.set_streams([replace(stream(0, 0, 0), expected=(at_random,))])


def test_a_stream_bound_to_a_queue_is_sent_by_it_alone(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    paths = [run_dir / f"q{n}.pcap" for n in (0, 1)]
    queues = ",".join(f"tx_pcap={path}" for path in paths)
    engine = open_engine(executable, f"--vdev=net_pcap0,{queues}", tx_queues=2)
    bound = [replace(stream(n, 0, 0), queue=n) for n in (0, 1)]
    send(engine, 30, *bound, stream(2, 0, 0))
    with pytest.raises(GeneratorError, match="port 0 has 2"):
        engine.set_streams([replace(stream(0, 0, 0), queue=2)])
    engine.close()
    for number, path in enumerate(paths):
        senders = Counter(frame[-14] for frame in captured(path))
        assert senders == {number: 30, 2: 15}


def test_frames_of_an_earlier_trial_are_stale(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    """What one trial sent is received in the next."""
    path = run_dir / "first.pcap"
    first = open_engine(executable, f"--vdev=net_pcap0,tx_pcap={path}")
    send(first, 20, stream(0, 0, 0), epoch=1)
    first.close()
    second = open_engine(
        executable, f"--vdev=net_pcap0,rx_pcap={path},infinite_rx=1,tx_pcap={run_dir}/b.pcap"
    )
    result = send(second, 20, stream(0, 0, 0), epoch=2, drain_s=0.05)
    assert result.stream(0).counts.received == 0
    # Those between the trials, which are in no trial's `rx_frames`, are stale as well.
    assert result.ports[0].stale >= result.ports[0].rx_frames > 0
    # The same epoch: these very sequence numbers count, once each.
    again = send(second, 20, stream(0, 0, 0), epoch=1, drain_s=0.5)
    assert again.stream(0).counts.received == 20
    assert again.stream(0).counts.duplicated > 0


def test_time_stamps_of_a_driver_without_a_clock_are_not_taken(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    """net_pcap stamps what it receives, but nothing tells its clock from the processor's."""
    path = run_dir / "rx.pcap"
    wrpcap(str(path), [Ether(own(5, 0, n, 1000)) for n in range(10)])
    engine = open_engine(
        executable,
        f"--vdev=net_pcap0,rx_pcap={path},infinite_rx=1,tx_pcap={run_dir}/tx.pcap",
        nic_time=True,
    )
    (port,) = engine.info().ports
    assert (port.nic_time, port.nic_time_error_ns) == (False, 0)
    result = send(engine, 10, stream(0, 0, 0), drain_s=0.1)
    assert result.stream(0).counts.received == 10
    assert result.ports[0].nic_timed == 0


@pytest.fixture
def veth(executable: Path, run_dir: Path) -> Iterator[tuple[OpenVeth, Path]]:
    """Engines on packet sockets of a pair of kernel interfaces, ring0 and ring1; its namespace."""
    journal = Journal.create(HostRoots(run_dir / "state", run_dir / "run"), f"w{os.getpid()}")
    processes, netns = Processes(journal, run_dir), run_dir / "netns"
    links.create_netns(journal, netns)
    links.create_veth(journal, ("ring0", "ring1"), netns=(netns, netns), mtu=1500)

    def spawn(argv: list[str], env: dict[str, str]) -> ManagedProcess:
        return processes.spawn("loadgen", argv, env=env, netns=netns)

    def opened(*names: str, frames: int = 512, **settings: Any) -> Engine:
        devices = (
            f"--vdev=net_af_packet{n},iface={name},blocksz=4096,framesz=2048,framecnt={frames},qpairs=1"
            for n, name in enumerate(names)
        )
        config = EngineConfig(devices=tuple(devices), hugepages=False, memory_mb=256, **settings)
        return Engine.open(config, run_dir=run_dir, executable=executable, spawn=spawn)

    try:
        yield opened, netns
    finally:
        processes.stop_all(0.5)
        assert journal.undo().complete


def test_frames_that_find_the_ring_of_a_kernel_interface_full_are_counted(
    veth: tuple[OpenVeth, Path],
) -> None:
    """DPDK's driver and the kernel's interface count none of them."""
    opened, netns = veth
    ring, sent = 512, 3000

    def flood() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("ring1", 0))
            for _ in range(sent):
                raw.send(bytes(60))

    with opened("ring0", frames=ring) as engine:
        assert engine.ports(1)[0].rx_missed == 0
        os.kill(engine.pid, signal.SIGSTOP)
        run_in(netns, flood)
        os.kill(engine.pid, signal.SIGCONT)
        missed = [engine.ports(1)[0].rx_missed for _ in range(2)]
    assert missed == [sent - ring] * 2


@pytest.mark.parametrize("turn_us", [0, 100], ids=["polls", "takes-turns"])
@pytest.mark.parametrize("load_fps", [1000.0, 10_000.0])
def test_no_direction_waits_for_what_the_other_sends(
    veth: tuple[OpenVeth, Path], turn_us: int, load_fps: float
) -> None:
    """The kernel delivers a frame within the call that sends it."""
    opened, _ = veth
    ratios = []
    with opened("ring0", "ring1", turn_us=turn_us) as engine:
        engine.wait_links()
        engine.set_streams((stream(0), stream(1, 1, 0)))
        loads = {0: StreamLoad(load_fps), 1: StreamLoad(load_fps)}
        for _ in range(7):  # other work makes one of them longer, now this one and now that
            engine.start(EngineTrial(loads=loads, duration_s=0.2))
            assert min(engine.wait(30).stream(n).counts.received for n in loads) > 0
            there, back = (middle(pairs) for pairs in engine.histograms([0, 1]).values())
            ratios.append(there / back)
    assert statistics.median(ratios) == pytest.approx(1.0, rel=0.4), ratios


def middle(pairs: Sequence[tuple[int, int]]) -> int:
    """The median of a histogram's values."""
    return statistics.median_low(value for value, count in pairs for _ in range(count))
