"""The NAT's decisions, without its I/O: the C code under sanitizers against a second one."""

from __future__ import annotations

import re
import resource
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.vswitches.cgnat.reference import (
    ACK,
    FIRST_PORT,
    ICMP,
    INSIDE,
    NEXT_HOP,
    OUTSIDE,
    OWN,
    SERVER,
    SYN,
    TCP,
    UDP,
    Config,
    DroppedError,
    Event,
    Fragment,
    HeldError,
    Packet,
    Reference,
    Traffic,
)

UNIT = Path(__file__).with_name("unit")
ENGINE = Path("vnetperf/vswitches/cgnat/engine")
TESTER = bytes.fromhex("020000000099")
BURST, END_ALL = 32, 255

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts without DPDK, built with sanitizers."""
    out = tmp_path_factory.mktemp("cgnat")
    subprocess.run(["make", "-s", "-C", str(UNIT), f"OUT={out}"], check=True, timeout=600)
    return out


def verdicts() -> list[str]:
    """Names of verdicts, in the engine's order."""
    text = (ENGINE / "types.h").read_text()
    return re.findall(r'X\(\w+, "([^"]+)"\)', text)


class Core:
    """The C code as a process."""

    def __init__(self, unit: Path, config: Config, *options: str) -> None:
        self.names = verdicts()
        self.released: list[tuple[str, int, bytes]] = []
        self.late = 0
        self.process = subprocess.Popen(
            [unit / "core", *config.argv(), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def burst(
        self, second: int, frames: list[tuple[int, bytes]], head: int = 1 << 16
    ) -> tuple[list[tuple[str, int, bytes]], list[Event]]:
        """Verdict, side and octets (of the first buffer) of each frame; what became of blocks.

        `released` has the same of fragments that waited, `late` counts those that did in vain.
        """
        assert self.process.stdin is not None
        parts = [struct.pack("<IB", second, len(frames))]
        parts += [
            struct.pack("<BHH", side, len(frame), min(len(frame), head)) + frame[:head]
            for side, frame in frames
        ]
        self.process.stdin.write(b"".join(parts))
        self.process.stdin.flush()
        found = [self._verdict() for _ in frames]
        return found, self._rest()

    def _verdict(self) -> tuple[str, int, bytes]:
        verdict, side, length = struct.unpack("<BBH", self._read(4))
        name = self.names[verdict] if verdict < len(self.names) else "waits"
        return name, side, self._read(length)

    def end_all(self, second: int, looked_at: int) -> list[Event]:
        """End all sessions and mappings, when the sweep has looked at so many mappings more."""
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("<IBI", second, END_ALL, looked_at))
        self.process.stdin.flush()
        return self._rest()

    def _rest(self) -> list[Event]:
        (n,) = struct.unpack("<H", self._read(2))
        self.released = [self._verdict() for _ in range(n)]
        (self.late,) = struct.unpack("<H", self._read(2))
        return self._events()

    def _events(self) -> list[Event]:
        (n,) = struct.unpack("<H", self._read(2))
        return [Event(*struct.unpack("<IIIHH?", self._read(17))) for _ in range(n)]

    def _read(self, n: int) -> bytes:
        assert self.process.stdout is not None
        got = self.process.stdout.read(n)
        assert len(got) == n, "the core has ended"
        return got

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        assert self.process.wait(60) == 0


def decided(
    decide: Callable[[], tuple[int, Packet | Fragment]], sent: tuple[int, bytes]
) -> tuple[str, int, bytes]:
    """What the reference does: verdict, side and octets."""
    try:
        to, out = decide()
    except DroppedError as error:
        return str(error), *sent
    except HeldError:
        return "waits", *sent
    return "passed", to, out.frame(NEXT_HOP[to], OWN[to])


def agree(unit: Path, config: Config, packets: int, seed: int) -> Counter[str]:
    """Send random packets through both; every octet and every cause of a drop must be equal."""
    reference = Reference(config)
    traffic = Traffic(reference, seed)
    causes: Counter[str] = Counter()
    second = 1
    with Core(unit, config) as core:
        done = 0
        while done < packets:
            second += traffic.random.choice((0, 0, 0, 1, 1, 30, 100, 400))
            reference.events.clear()
            reference.late = 0
            reference.advance(second)
            sent, wanted = [], []
            for _ in range(traffic.random.randint(1, BURST)):
                side, packet = traffic.piece()
                sent.append((side, packet.frame(OWN[side], TESTER)))
                wanted.append(decided(partial(reference.take, side, packet), sent[-1]))
                if isinstance(packet, Packet) and wanted[-1][0] == "passed":
                    traffic.came_out(*reference.passed)
            waited, reference.ready = reference.ready, []
            later = [
                decided(partial(reference.follow, side, one), (side, b"")) for side, one in waited
            ]
            found, events = core.burst(second, sent)
            for (verdict, to, octets), (name, side, frame) in zip(
                (*found, *core.released), (*wanted, *later), strict=True
            ):
                assert verdict == name, (second, frame)
                causes[name] += 1
                if name == "passed":
                    assert (to, octets) == (side, frame)
            assert core.late == reference.late
            causes["first fragment missing"] += core.late
            causes["waited"] += len(later)
            assert sorted(events) == sorted(reference.events)
            done += len(sent)
    return causes


CONFIGS = {
    "computed": Config(),
    "few ports": Config(block=4, subscribers=4, addresses=1),
    "filtering, strict, limits": Config(
        filtering="address-and-port", tcp="strict", session_limit=6, sessions=24, mappings=20
    ),
    "kept from outside": Config(inbound_refresh="yes", udp_timeout=120, tcp_timeout=500),
    "dynamic": Config(blocks="dynamic", block=8, subscribers=12, most_blocks=2),
    # One block for each address: subscribers go without, and blocks rest before they are used.
    "dynamic, few blocks": Config(
        blocks="dynamic", block=64512, subscribers=6, addresses=3, hold=300, udp_timeout=120
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_same_decisions_as_the_reference(unit: Path, name: str) -> None:
    causes = agree(unit, CONFIGS[name], 2000, seed=len(name))
    assert causes["passed"] > 500
    assert causes["waited"] > 10
    assert causes["first fragment missing"] > 5
    assert len(causes) > 8, causes


@pytest.mark.daily  # minutes: 10^6 packets
@pytest.mark.parametrize("name", CONFIGS)
def test_same_decisions_for_a_million_packets(unit: Path, name: str) -> None:
    agree(unit, CONFIGS[name], 170_000, seed=1)


@pytest.mark.parametrize("looked_at", [0, 1, 700])
@pytest.mark.parametrize("blocks", ["computed", "dynamic"])
def test_each_trial_finds_the_blocks_in_their_order(
    unit: Path, blocks: str, looked_at: int
) -> None:
    """The tester's frames are those of the first trial: of subscriber n, block n."""
    c = Config(blocks=blocks, subscribers=64, block=16, addresses=1)
    ends = [(n, c.block * n + FIRST_PORT + i) for i in range(c.block) for n in range(c.subscribers)]
    sent = [
        Packet(c.inside + n, SERVER, UDP, sport=port, dport=7).frame(OWN[INSIDE], TESTER)
        for n, port in ends
    ]
    with Core(unit, c) as core:
        for second in range(1, 5):
            ports = []
            for at in range(0, len(sent), BURST):
                found, _ = core.burst(second, [(INSIDE, one) for one in sent[at : at + BURST]])
                ports += [struct.unpack_from("!H", octets, 34)[0] for _, _, octets in found]
            assert ports == [port for _, port in ends]
            events = core.end_all(second, looked_at)
            assert len(events) == (c.subscribers if blocks == "dynamic" else 0)


def test_no_header_is_read_beyond_the_first_buffer(unit: Path) -> None:
    whole = Config().inside, SERVER
    packets = {
        14 + 20 + 8: Packet(*whole, UDP, sport=1024, dport=7),
        14 + 20 + 12: Packet(*whole, UDP, sport=1024, dport=7, payload=bytes(4)),
        14 + 20 + 20: Packet(*whole, TCP, sport=1024, dport=7, payload=bytes(100)),
        14 + 24 + 8: Packet(*whole, ICMP, sport=1024, options=b"\x01" * 4),
    }
    with Core(unit, Config()) as core:
        for needed, packet in packets.items():
            for head in range(62):  # AddressSanitizer ends the core that reads on
                [(verdict, _, _)], _ = core.burst(
                    1, [(INSIDE, packet.frame(OWN[INSIDE], TESTER))], head
                )
                assert (verdict == "passed") == (head >= needed), (packet, head)


INSIDE_END, STRANGER = (Config.inside, 1030), 0xCB007109
OUT = Packet(*(INSIDE_END[0], SERVER, UDP), sport=INSIDE_END[1], dport=7)


class Talk:
    """Packets one by one through the C code: from the first subscriber's port, and to it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.public = (0, 0)

    def out(self, second: int, flags: int = 0, **given: Any) -> str:
        return self._one(second, INSIDE, flags, replace(OUT, **given))

    def back(self, second: int, flags: int = 0, **given: Any) -> str:
        (address, port) = self.public
        p = replace(OUT, src=SERVER, dst=address, sport=7, dport=port)
        return self._one(second, OUTSIDE, flags, replace(p, **given))

    def _one(self, second: int, side: int, flags: int, p: Packet) -> str:
        p = replace(p, protocol=TCP, flags=flags) if flags else p
        [(verdict, _, octets)], _ = self.core.burst(second, [(side, p.frame(OWN[side], TESTER))])
        if side == INSIDE and verdict == "passed" and p.src == INSIDE_END[0]:
            self.public = struct.unpack_from("!I4xH", octets, 26)
        return verdict


@pytest.mark.parametrize(("refresh", "at_end"), [("no", "no mapping"), ("yes", "passed")])
def test_strangers_keep_a_mapping_only_where_they_may(
    unit: Path, refresh: str, at_end: str
) -> None:
    with Core(unit, Config(udp_timeout=10, inbound_refresh=refresh)) as core:
        talk = Talk(core)
        assert talk.out(1) == "passed"
        for second in range(2, 11):
            assert talk.back(second, src=STRANGER, sport=second) == "passed"
        assert talk.back(12, src=STRANGER) == at_end


def test_strangers_do_not_fill_the_limit_of_a_subscriber(unit: Path) -> None:
    with Core(unit, Config(session_limit=2)) as core:
        talk = Talk(core)
        assert talk.out(1) == "passed"
        for port in range(20):
            assert talk.back(1, src=STRANGER, sport=port) == "passed"
        assert talk.out(1, dport=8) == "passed"
        assert talk.out(1, dport=9) == "session limit of the subscriber"


def test_a_port_of_any_block_of_the_subscriber_is_kept(unit: Path) -> None:
    c = Config(blocks="dynamic", block=16, most_blocks=2, addresses=1, udp_timeout=10)
    with Core(unit, c) as core:
        talk = Talk(core)
        assert talk.out(1) == "passed"  # of the first block
        for port in range(2000, 2016):
            assert talk.out(5, sport=port) == "passed"
        second_block = FIRST_PORT + c.block
        assert talk.public[1] >= second_block
        talk.out(12, sport=second_block + 9)  # the first block has room again
        assert talk.public[1] == second_block + 9


def test_timers_end_never_early(unit: Path) -> None:
    with Core(unit, Config(udp_timeout=10)) as core:
        talk = Talk(core)
        assert talk.out(1) == "passed"  # at any time in this second
        assert talk.back(11) == "passed"
        assert talk.back(12) == "no mapping"
    one = Config(blocks="dynamic", block=64512, addresses=1, hold=5, udp_timeout=1)
    with Core(unit, one) as core:
        talk = Talk(core)
        assert talk.out(1) == "passed"
        assert talk.back(3) == "no mapping"  # the block came back in this second
        assert talk.out(8, src=INSIDE_END[0] + 1) == "no block of ports left"
        assert talk.out(9, src=INSIDE_END[0] + 1) == "passed"


HALF_OPEN = {
    "no answer of the inside": [("out", SYN), ("back", SYN | ACK), ("back", ACK)],
    "ACK before the answer": [("out", SYN), ("out", ACK), ("back", SYN | ACK)],
    "no answer of who opened": [("out", SYN), ("out", SYN | ACK), ("out", SYN | ACK)],
}
ESTABLISHED = {
    "opened from inside": [("out", SYN), ("back", SYN | ACK), ("out", ACK)],
    "both at once": [("out", SYN), ("back", SYN), ("out", SYN | ACK), ("back", ACK)],
    "here before": [("out", ACK), ("back", ACK)],
}


@pytest.mark.parametrize("name", [*HALF_OPEN, *ESTABLISHED])
def test_a_connection_is_established_by_its_handshake(unit: Path, name: str) -> None:
    config = Config(tcp_transitory_timeout=240, tcp_timeout=500)
    with Core(unit, config) as core:
        talk = Talk(core)
        for way, flags in {**HALF_OPEN, **ESTABLISHED}[name]:
            assert getattr(talk, way)(1, flags) == "passed"
        assert talk.back(242, ACK) == ("no mapping" if name in HALF_OPEN else "passed")


def test_a_connection_from_outside_is_established_by_its_handshake(unit: Path) -> None:
    config = Config(tcp_transitory_timeout=240, tcp_timeout=500)
    with Core(unit, config) as core:
        talk = Talk(core)
        far = {"src": STRANGER, "sport": 99}
        assert talk.out(1, SYN) == "passed"  # whose mapping it comes to
        assert talk.back(1, SYN, **far) == "passed"
        assert talk.out(1, SYN | ACK, dst=STRANGER, dport=99) == "passed"
        assert talk.back(1, ACK, **far) == "passed"
        assert talk.back(242, ACK, **far) == "passed"


#: What a block's assignment to the first subscriber in second 1, and its return in second 5, are
#: octet by octet: RFC 7011 section 3, elements of RFC 8158 section 5.1, no padding.
TEMPLATE = bytes.fromhex(
    "000a 0030 -------- 00000000 00000000"  # version, length, time, sequence, observation domain
    " 0002 0020 0100 0006"  # set of templates, its length; template 256 of 6 elements:
    " 0143 0008 00e6 0001 0008 0004 00e1 0004 0169 0002 016a 0002".replace("-", "0")
)
ASSIGNED = bytes.fromhex(
    "000a 0029 -------- 00000000 00000000 0100 0019"  # set of records of template 256
    " 00000000000003e8 10 64400001 c6120000 0400 040f".replace("-", "0")
)
RETURNED = bytes.fromhex(
    "000a 0029 -------- 00000001 00000000 0100 0019"
    " 0000000000001388 11 64400001 c6120000 0400 040f".replace("-", "0")
)
FIRST_BLOCKS = Config(blocks="dynamic", subscribers=150, block=16, addresses=1, udp_timeout=3)


def untimed(messages: bytes) -> bytes:
    """Messages of IPFIX without the times of their export."""
    done = bytearray()
    while messages:
        (length,) = struct.unpack_from("!H", messages, 2)
        done += messages[:4] + bytes(4) + messages[8:length]
        messages = messages[length:]
    return bytes(done)


def test_a_record_in_ipfix_octet_by_octet(unit: Path, tmp_path: Path) -> None:
    log = tmp_path / "blocks"
    with Core(unit, FIRST_BLOCKS, f"--log={log}", "--log-form=ipfix") as core:
        core.burst(1, [])
        assert untimed(log.read_bytes()) == TEMPLATE  # who reads along can begin
        talk = Talk(core)
        assert talk.out(1) == "passed"
        assert talk.back(5) == "no mapping"
    assert untimed(log.read_bytes()) == TEMPLATE + ASSIGNED + RETURNED


def test_another_decoder_finds_the_same_in_ipfix(unit: Path, tmp_path: Path) -> None:
    from scapy.layers import netflow  # noqa: PLC0415 - takes 0.5 s

    log = tmp_path / "blocks"
    frames = [(INSIDE, replace(OUT, src=OUT.src + n).frame(OWN[INSIDE], TESTER)) for n in range(80)]
    events, messages = [], []
    with Core(unit, FIRST_BLOCKS, f"--log={log}", "--log-form=ipfix") as core:
        for second, some in (1, frames[:32]), (2, frames[32:64]), (3, frames[64:]), (9, []):
            events += core.burst(second, some)[1]
    octets = log.read_bytes()
    while octets:
        (length,) = struct.unpack_from("!H", octets, 2)
        messages.append(netflow.NetflowHeader(octets[:length]))
        octets = octets[length:]
    _, *data = netflow.netflowv9_defragment(messages)
    numbers = [one[netflow.NetflowHeaderV10].flowSequence for one in data]
    assert numbers == [0, 32, 64, 80, 140]  # 80 returned at once: of a message's 60, and 20
    found = [
        Event(
            int(one.observationTimeMilliseconds) // 1000,
            int(IPv4Address(one.IPV4_SRC_ADDR)),
            int(IPv4Address(one.postNATSourceIPv4Address)),
            int.from_bytes(one.portRangeStart, "big"),
            int.from_bytes(one.portRangeEnd, "big"),
            {b"\x10": True, b"\x11": False}[one.natEvent],
        )
        for message in data
        for one in message[netflow.NetflowDataflowsetV9].records
    ]
    assert found == events


def test_a_record_that_cannot_be_written(unit: Path, tmp_path: Path) -> None:
    full = subprocess.run(
        [unit / "core", *FIRST_BLOCKS.argv(), "--log=/dev/full"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert full.returncode == 1
    assert "/dev/full: No space left on device" in full.stderr
    assert "accepted: " in full.stderr
    log = tmp_path / "blocks"
    with Core(unit, FIRST_BLOCKS, f"--log={log}", "--log-form=ipfix") as core:
        core.burst(1, [])
        talk = Talk(core)
        limits = resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE, (len(TEMPLATE), limits[1]))
        assert talk.out(1) == "passed"
        assert log.stat().st_size == len(TEMPLATE)
        resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE, limits)
        assert talk.back(5) == "no mapping"
    # The number of records that were exported before tells that one is missing.
    assert untimed(log.read_bytes()) == TEMPLATE + RETURNED


@pytest.mark.parametrize("seed", [1, 2])
def test_mappings_end_without_races_between_stages(unit: Path, seed: int) -> None:
    run = subprocess.run(
        [unit / "threads", str(seed)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_timer_of_the_programs_in_xdp(unit: Path) -> None:
    """It ends no mapping early, and none that another place's key is of."""
    run = subprocess.run([unit / "timer"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
