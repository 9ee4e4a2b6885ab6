"""Frames the engine keeps of a trial are those that were sent and received, octet by octet."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scapy.all import Ether, PcapReader, wrpcap  # type: ignore[attr-defined]  # scapy fills it as it runs

from tests.engine.conftest import OpenEngine
from tests.engine.frames import stream, udp_header
from tests.engine.test_wire import own
from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.loadgen.engine import Engine, EngineTrial, QueueMap, StreamLoad
from vnetperf.traffic.loadgen.telemetry import CapturedFrame, EngineResult, pcap_files

pytestmark = pytest.mark.real


def run(engine: Engine, loads: dict[int, StreamLoad], **settings: Any) -> EngineResult:
    engine.start(EngineTrial(loads=loads, max_lag_s=2.0, policy="retry", **settings))
    return engine.wait(30)


def sequence(frame: CapturedFrame) -> int:
    return int.from_bytes(frame.octets[-12:-8], "little")


@pytest.fixture
def loop(open_engine: OpenEngine, executable: Path, memif: tuple[str, str]) -> Engine:
    engine = open_engine(executable, *memif)
    engine.wait_links()
    engine.set_streams([stream(0, 0, 1), stream(3, 0, 1, size=128), stream(7, 1, 0, size=1518)])
    return engine


def test_the_first_of_each_port(loop: Engine, tmp_path: Path) -> None:
    loop.capture(50)
    before = time.time_ns()
    result = run(loop, {0: StreamLoad(5000.0), 7: StreamLoad(5000.0)}, duration_s=0.1)
    frames = loop.captured()
    assert [f.kind for f in frames].count("sent") == 100
    assert [f.kind for f in frames].count("received") == 100
    for port, number, size in ((0, 0, 64), (1, 7, 1518)):
        sent = [f for f in frames if (f.port, f.kind) == (port, "sent")]
        back = [f for f in frames if (f.port, f.kind) == (1 - port, "received")]
        assert [sequence(f) for f in sent] == [sequence(f) for f in back] == list(range(50))
        assert [f.octets for f in sent] == [f.octets for f in back]
        assert {f.stream for f in sent + back} == {number}
        assert all(f.length == len(f.octets) == size - 4 for f in sent)
        assert (
            sent[0].octets[:42]
            == udp_header(size)[:24] + sent[0].octets[24:26] + udp_header(size)[26:]
        )
        for out, came in zip(sent, back, strict=True):
            assert before < out.wall_ns <= came.wall_ns < time.time_ns()
        assert all(a.wall_ns <= b.wall_ns for a, b in pairwise(sent))
        # Frame 49 is due 49 periods after the first, and never earlier than a burst before that.
        late = result.ports[port].lag_max_ns
        assert sent[-1].wall_ns - sent[0].wall_ns >= 49 / 5000 * 1e9 - late - 1000
        assert any(frame.wall_ns % 1000 for frame in sent)
    assert result.stream(0).counts.received == 500  # capture changes no count
    for name, octets in pcap_files(frames).items():
        (tmp_path / name).write_bytes(octets)
        with PcapReader(str(tmp_path / name)) as packets:
            read = list(packets)
        port, way = int(name[4]), name[6:].removesuffix(".pcap")
        mine = [f for f in frames if f.port == port and (f.kind == "sent") == (way == "sent")]
        assert [bytes(p) for p in read] == [f.octets for f in mine]
        assert [round(p.time * 10**9) for p in read] == [f.wall_ns for f in mine]
    assert len(pcap_files(frames)) == 4


def test_the_first_of_each_stream(loop: Engine) -> None:
    loop.capture(5, "streams")
    run(loop, {0: StreamLoad(None, 300), 3: StreamLoad(None, 3), 7: StreamLoad(None, 40)})
    frames = loop.captured()
    for number, count in ((0, 5), (3, 3), (7, 5)):
        for kind in ("sent", "received"):
            got = [sequence(f) for f in frames if (f.stream, f.kind) == (number, kind)]
            assert got == list(range(count))
    run(loop, {3: StreamLoad(None, 2)})
    assert {f.stream for f in loop.captured()} == {3}  # of the last trial alone
    loop.learn(3)
    assert {f.stream for f in loop.captured()} == {3}  # learning frames are none of it
    loop.capture(0)
    run(loop, {0: StreamLoad(None, 10)})
    assert loop.captured() == ()


def test_two_workers_keep_together(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    mapping = tuple(QueueMap(d, p, q, q) for d in ("rx", "tx") for p in (0, 1) for q in (0, 1))
    engine = open_engine(
        executable, *memif, cpus=(0, 1), rx_queues=2, tx_queues=2, queue_map=mapping
    )
    engine.wait_links()
    main, other = engine.info().workers
    assert (main.clock_exchanges, main.clock_least_ns, main.clock_most_ns) == (0, 0, 0)
    least, most = other.clock_least_ns, other.clock_most_ns
    assert least is not None
    assert most is not None
    assert least <= 0 <= most  # this machine's processors share a clock
    engine.set_streams([stream(0, 0, 1)])
    engine.capture(200)
    run(engine, {0: StreamLoad(None, 1000)})
    frames = engine.captured()
    for kind in ("sent", "received"):
        numbers = [(f.octets[-13], sequence(f)) for f in frames if f.kind == kind]
        assert len(numbers) == len(set(numbers)) == 200


def test_gaps_and_strays(open_engine: OpenEngine, executable: Path, run_dir: Path) -> None:
    arrivals = [own(5, 0, n, 1000) for n in (0, 1, 4, 5, 3, 9)] + [own(4, 0, 6, 1), b"x" * 70]
    wrpcap(str(run_dir / "rx.pcap"), [Ether(frame) for frame in arrivals])
    device = f"--vdev=net_pcap0,rx_pcap={run_dir}/rx.pcap,infinite_rx=1,tx_pcap={run_dir}/t.pcap"
    engine = open_engine(executable, device)
    engine.set_streams([stream(0, 0, 0)])
    engine.capture(2, "gaps")
    run(engine, {0: StreamLoad(None, 10)}, epoch=5, drain_s=0.05)
    # The trial begins somewhere in the file, where a number above 0 is itself behind a gap.
    assert {sequence(f) for f in engine.captured()} <= {1, 4, 5, 3, 9}
    assert len(engine.captured()) == 2
    engine.capture(8, "foreign")
    run(engine, {0: StreamLoad(None, 10)}, epoch=6, drain_s=0.05)
    strays = engine.captured()
    assert len(strays) == 8
    assert {f.kind for f in strays} == {"stray"}
    assert {f.stream for f in strays} == {None}
    assert b"x" * 70 in {f.octets for f in strays}


def test_what_does_not_fit_is_refused_or_cut(loop: Engine) -> None:
    wrong: list[tuple[int, Any]] = [(10_001, "first"), (-1, "first"), (5, "every")]
    for frames, what in wrong:
        with pytest.raises(GeneratorError, match="accepted"):
            loop.capture(frames, what)
    loop.capture(10_000, "streams")  # of eight streams, each way
    run(loop, {7: StreamLoad(None, 50)})
    frames = loop.captured()
    assert {f.length for f in frames} == {1514}
    assert {len(f.octets) for f in frames} == {184}
    loop.set_streams([stream(n, 0, 1) for n in range(40)])
    with pytest.raises(GeneratorError, match="fewer frames"):
        loop.start(EngineTrial(loads={0: StreamLoad(None, 50)}))
    loop.capture(0)
    assert run(loop, {0: StreamLoad(None, 50)}).stream(0).counts.received == 50
