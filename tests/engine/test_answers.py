"""The engine answers its neighbours; what it says is read by another implementation."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from scapy.all import (
    ARP,
    Dot1Q,
    Ether,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    IPv6,
    RawPcapReader,
    wrpcap,
)  # type: ignore[attr-defined]  # scapy fills it as it runs
from scapy.layers.inet6 import ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr

from tests.engine.conftest import OpenEngine
from tests.engine.frames import stream
from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.loadgen.engine import Engine, EngineTrial, NeighbourSpec, StreamLoad

pytestmark = pytest.mark.real

MAC, ASKER = "02:76:65:00:00:01", "02:76:64:00:00:00"
HERE, V6 = bytes([198, 18, 0, 1]), bytes.fromhex("20010200000000000000000000000001")
OWN = (
    NeighbourSpec(0, HERE, bytes.fromhex(MAC.replace(":", "")), count=10),
    NeighbourSpec(0, V6, bytes.fromhex(MAC.replace(":", "")), count=10),
)


def arp(target: str, sender: str = "198.18.0.254") -> Ether:
    request = ARP(op=1, hwsrc=ASKER, psrc=sender, pdst=target)
    return Ether(src=ASKER, dst="ff:ff:ff:ff:ff:ff") / request


def solicit(target: str) -> Ether:
    source = "fe80::1"
    packet = IPv6(src=source, dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt=target)
    return Ether(src=ASKER, dst="33:33:ff:00:00:01") / packet / ICMPv6NDOptSrcLLAddr(lladdr=ASKER)


def sent(path: Path) -> Counter[bytes]:
    """How often each frame was sent: answers are some hundred thousand times the same."""
    with RawPcapReader(str(path)) as frames:
        return Counter(octets for octets, _ in frames)


def asked(
    open_engine: OpenEngine, executable: Path, run_dir: Path, *requests: Ether
) -> tuple[Engine, Path]:
    """An engine that is asked again and again, from before it knows its addresses on."""
    wrpcap(str(run_dir / "rx.pcap"), list(requests))
    path = run_dir / "tx.pcap"
    device = f"--vdev=net_pcap0,rx_pcap={run_dir}/rx.pcap,infinite_rx=1,tx_pcap={path}"
    return open_engine(executable, device), path


def wait_answers(engine: Engine, more_than: int) -> int:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if (answers := engine.info().ports[0].answers) > more_than:
            return answers
        time.sleep(0.01)
    raise AssertionError("no answers")


def test_requests_for_its_addresses_are_answered(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    tagged = arp("198.18.0.3")
    tagged = Ether(src=ASKER, dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=7) / tagged[ARP]
    engine, path = asked(
        open_engine,
        executable,
        run_dir,
        *(arp("198.18.0.1"), arp("198.18.0.10"), arp("198.18.0.11"), tagged),
        *(solicit("2001:200::a"), solicit("2001:200::b"), arp("198.18.0.2", "198.18.0.2")),
    )
    assert engine.info().ports[0].answers == 0
    engine.set_neighbours(OWN)
    # From when it knows all of them on, each request at least once.
    wait_answers(engine, engine.info().ports[0].answers + 8)
    engine.set_neighbours(())
    time.sleep(0.1)
    before = engine.info().ports[0].answers
    time.sleep(0.1)
    assert engine.info().ports[0].answers == before  # silent again
    engine.close()
    times = sent(path)
    assert times.total() == before
    frames = [Ether(octets) for octets in times]
    replies = [f[ARP] for f in frames if ARP in f]
    assert {r.psrc for r in replies} == {"198.18.0.1", "198.18.0.10", "198.18.0.3"}
    for reply in replies:
        assert (reply.op, reply.hwsrc, reply.hwdst) == (2, MAC, ASKER)
        assert reply.pdst == "198.18.0.254"
    for frame in frames:
        assert (frame.src, frame.dst) == (MAC, ASKER)
        assert len(frame) >= 60
        assert (Dot1Q in frame) == (ARP in frame and frame[ARP].psrc == "198.18.0.3")
    advertisements = [f for f in frames if ICMPv6ND_NA in f]
    assert {f[ICMPv6ND_NA].tgt for f in advertisements} == {"2001:200::a"}
    for frame in advertisements:
        assert frame[ICMPv6ND_NA].S == 1
        assert frame[ICMPv6NDOptDstLLAddr].lladdr == MAC
        stated = frame[ICMPv6ND_NA].cksum
        del frame[ICMPv6ND_NA].cksum
        assert Ether(bytes(frame))[ICMPv6ND_NA].cksum == stated


def test_answers_count_for_no_trial(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    """Requests in the midst of traffic: own frames stay exact, requests are not foreign."""
    requests = [arp("198.18.0.1"), arp("198.18.0.77")]
    engine, path = asked(open_engine, executable, run_dir, *requests)
    engine.set_neighbours(OWN)
    engine.set_streams([stream(0, 0, 0)])
    loads = {0: StreamLoad(2000.0)}
    engine.start(EngineTrial(loads, duration_s=0.2, drain_s=0.05, max_lag_s=2.0))
    result = engine.wait(30)
    engine.close()
    port, counts = result.ports[0], result.stream(0).counts
    assert (counts.intended, counts.sent, counts.received) == (400, 400, 0)
    assert port.tx_frames == 400
    assert port.answered > 0
    assert abs(port.foreign - port.answered - port.unanswered) <= 1
    assert port.rx_frames == port.foreign + port.answered + port.unanswered
    own = [octets for octets in sent(path).elements() if octets[-18:-15] == b"VNP"]
    assert len(own) == 400
    assert all(len(octets) == 60 for octets in own)  # buffers that held answers hold frames again


def test_any_address_and_announcements(
    open_engine: OpenEngine, executable: Path, run_dir: Path
) -> None:
    engine, path = asked(open_engine, executable, run_dir, arp("10.1.2.3"))
    engine.set_neighbours(OWN)
    assert engine.announce() == 20
    assert wait_answers(engine, 19) == 20
    engine.set_neighbours(OWN, {0: bytes.fromhex("020000000009")})
    wait_answers(engine, 25)
    engine.close()
    times = sent(path)
    assert list(times.values()).count(1) == 20  # each announcement once; the others are answers
    frames = [Ether(octets) for octets in times]
    gratuitous = [f[ARP] for f in frames if ARP in f and f[ARP].op == 1]
    assert [a.pdst for a in gratuitous] == [f"198.18.0.{n}" for n in range(1, 11)]
    assert all(a.psrc == a.pdst and a.hwsrc == MAC for a in gratuitous)
    unsolicited = [f for f in frames if ICMPv6ND_NA in f]
    assert len(unsolicited) == 10
    assert {(f.dst, f[IPv6].dst, f[ICMPv6ND_NA].S) for f in unsolicited} == {
        ("33:33:00:00:00:01", "ff02::1", 0)
    }
    proxied = [f[ARP] for f in frames if ARP in f and f[ARP].op == 2]
    assert {(a.psrc, a.hwsrc) for a in proxied} == {("10.1.2.3", "02:00:00:00:00:09")}


def test_bad_entries_are_refused(open_engine: OpenEngine, executable: Path, run_dir: Path) -> None:
    engine, _ = asked(open_engine, executable, run_dir, arp("198.18.0.1"))
    for entry, message in (
        (NeighbourSpec(0, b"\1\2\3", bytes(6)), "8 or 32 hexadecimal digits"),
        (NeighbourSpec(0, HERE, bytes(5)), "12 hexadecimal digits"),
        (NeighbourSpec(1, HERE, bytes(6)), "port"),
        (NeighbourSpec(0, HERE, bytes([1, 0, 0, 0, 0, 0])), "group"),
        (NeighbourSpec(0, b"\xff" * 4, bytes(6), count=2), "last of their kind"),
    ):
        with pytest.raises(GeneratorError, match=message):
            engine.set_neighbours([entry])
