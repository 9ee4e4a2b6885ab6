"""The NAT's programs in XDP against a second one: the kernel runs them on single frames."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from tests.real.needs import program
from tests.real.switches import deployed, fails
from tests.vswitches.cgnat.reference import (
    ICMP,
    INSIDE,
    NEXT_HOP,
    OUTSIDE,
    OWN,
    Config,
    DroppedError,
    Mapping,
    Packet,
    Reference,
    Traffic,
)
from vnetperf.host import xdp
from vnetperf.host.wait import wait_for
from vnetperf.host.xdp import ATOMIC, BpfObject, compile_program
from vnetperf.model.deployment import PhyPort
from vnetperf.model.nat import Nat
from vnetperf.vswitches.cgnat.base import NatOptions
from vnetperf.vswitches.cgnat.xdp import (
    ENDED,
    KINDS,
    MADE,
    PROGRAMS,
    SHARED,
    XdpNat,
    counted_names,
    numbers,
)
from vnetperf.vswitches.xdp.switch import INDEX

WHY = xdp.explain_no_bpf() if program("clang") else "clang is not installed"
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
Unchanged = Callable[[], tuple[str, ...]]
TESTER = bytes.fromhex("020000000099")
LOOPBACK = 1
DROPPED, REDIRECTED = 1, 4  # enum xdp_action


class OfMappings(Reference):
    """Without sessions and fragments: who an endpoint outside is makes no difference."""

    def translate(self, side: int, p: Packet) -> tuple[int, Packet]:
        if p.ttl > 1 and p.fragment & 0x3FFF:
            raise DroppedError("fragment")
        return super().translate(side, p)

    def _from_inside(self, p: Packet, about: Packet) -> tuple[int, Packet]:
        """A packet to nobody's public port makes no mapping."""
        hairpin = self._is_subscriber(p.src) and self._in_pool(p.dst)
        if hairpin and p.protocol != ICMP and not p.quote:
            self._outside(p.protocol, p.dst, p.dport)
        return super()._from_inside(p, about)

    def _session(self, m: Mapping, end: tuple[int, int], p: Packet, *, out: bool) -> None:
        super()._session(m, (0, 0), p, out=out)


class Programs:
    """Those of both ports, at no interface, and a clock that the test sets."""

    def __init__(self, c: Config) -> None:
        pool = IPv4Network((c.pool, 16))
        self.nat = Nat(subscribers=c.subscribers, ports=1, block=c.block, pool=pool)
        options = NatOptions(
            udp_timeout=c.udp_timeout,
            tcp_timeout=c.tcp_timeout,
            tcp_transitory_timeout=c.tcp_transitory_timeout,
            icmp_timeout=c.icmp_timeout,
        )
        macs = {f"{name}_{n}": of[n].hex(":") for name, of in (("OWN", OWN), ("HOP", NEXT_HOP))
                for n in (INSIDE, OUTSIDE)}  # fmt: skip
        values = numbers(self.nat, options, c.mappings, macs)
        values["ADDRESSES"] = f"{c.addresses}u"
        self.tables = BpfObject(
            "tables", compile_program("clang", PROGRAMS / "sessions.c", ATOMIC, **values)
        )
        shared = {name: self.tables.map(name) for name in SHARED}
        source = PROGRAMS / "translate.c"
        self.ports = [
            BpfObject(f"{n}", compile_program("clang", source, ATOMIC, FROM=n, **values), shared)
            for n in (INSIDE, OUTSIDE)
        ]
        for n in (INSIDE, OUTSIDE):
            self.tables.map("target").update(INDEX.pack(n), INDEX.pack(LOOPBACK))

    def advance(self, second: int, *, everything: bool = False) -> None:
        self.tables.map("second").update(bytes(4), INDEX.pack(second))
        places = KINDS * self.nat.subscribers * self.nat.block_size
        self.tables.run("look", struct.pack("=4I", 0, places, second, everything))

    def counts(self, side: int) -> list[int]:
        table = self.ports[side].map("counts")
        return [table.sums(INDEX.pack(n))[0] for n in range(len(counted_names()))]

    def mappings(self) -> int:
        made, ended = (self.tables.map("tallies").sums(INDEX.pack(n))[0] for n in (MADE, ENDED))
        return made - ended

    def close(self) -> None:
        for one in (*self.ports, self.tables):
            one.close()


CONFIGS = {
    "blocks": Config(),
    "several addresses": Config(block=12_000, subscribers=7, addresses=2),
    "few ports": Config(block=4, subscribers=4, addresses=1),
    "short timers": Config(udp_timeout=25, tcp_transitory_timeout=90, tcp_timeout=350),
}


def agree(config: Config, packets: int, seed: int) -> Counter[str]:
    """Every octet that is passed on, and the cause of every drop, are the reference's."""
    reference, programs = OfMappings(config), Programs(config)
    traffic = Traffic(reference, seed)
    causes: Counter[str] = Counter()
    second, errors, names = 1, 0, counted_names()
    try:
        for number in range(packets):
            later = traffic.random.choice((0,) * 30 + (1, 1, 30, 100, 400))
            second += later
            reference.advance(second)
            if later or not number:
                programs.advance(second)
            side, packet = traffic.next()
            if traffic.random.random() < 0.01:
                packet = replace(packet, fragment=traffic.random.choice((0x2000, 1)))
            frame = packet.frame(OWN[side], TESTER)
            verdict, octets = programs.ports[side].run("forward", frame=frame)
            cause, wanted = "passed", frame
            try:
                to, out = reference.translate(side, packet)
            except DroppedError as error:
                cause = str(error)
            else:
                wanted = out.frame(NEXT_HOP[to], OWN[to])
                traffic.came_out(to, out)
            causes[cause] += 1
            errors += cause == "passed" and packet.quote is not None
            assert verdict == (REDIRECTED if cause == "passed" else DROPPED), (cause, packet)
            assert octets == wanted, (number, cause, packet)
            assert programs.mappings() == len(reference.mappings), (number, packet)
        counted = Counter[str]()
        for side in (INSIDE, OUTSIDE):
            counted.update(dict(zip(names, programs.counts(side), strict=True)))
        assert counted.pop("taken") == packets
        assert +counted == Counter({k: n for k, n in causes.items() if k != "passed"})
        programs.advance(second, everything=True)
        assert programs.mappings() == 0
        causes["errors passed on"] = errors
    finally:
        programs.close()
    return causes


@pytest.mark.parametrize("name", ["blocks", "short timers"])
def test_same_decisions_as_the_reference(name: str) -> None:
    causes = agree(CONFIGS[name], 1500, seed=len(name))
    assert causes["passed"] > 400
    assert causes["errors passed on"] > 3, causes
    assert len(causes) > 6, causes


@pytest.mark.daily  # a minute: 10^6 packets
@pytest.mark.parametrize("name", CONFIGS)
def test_same_decisions_for_a_million_packets(name: str) -> None:
    agree(CONFIGS[name], 250_000, seed=1)


def test_a_full_table_refuses_and_counts() -> None:
    config = Config(mappings=5)
    programs = Programs(config)
    try:
        programs.advance(1)
        packet = Packet(config.inside, 0xC6130001, 17, sport=1024, dport=7)
        for n in range(8):
            frame = replace(packet, src=config.inside + n).frame(OWN[INSIDE], TESTER)
            verdict, _ = programs.ports[INSIDE].run("forward", frame=frame)
            assert verdict == (REDIRECTED if n < config.mappings else DROPPED)
        counts = dict(zip(counted_names(), programs.counts(INSIDE), strict=True))
        assert counts["no room for a mapping"] == 3
        assert programs.mappings() == config.mappings
    finally:
        programs.close()


@pytest.mark.daily
def test_a_program_that_vanishes_in_a_trial_is_no_number(unchanged: Unchanged) -> None:
    with deployed("phy2phy_cgnat", nat=("subscribers=9",), set=("mode=xdp",)) as deployment:
        switch = deployment.vswitch
        assert isinstance(switch, XdpNat)
        result = fails(deployment, switch.ports[PhyPort(index=1)].code.close)
        assert "gone: the program of port phy1" in result.failure
    assert unchanged() == ()


@pytest.mark.daily
def test_the_kernels_timer_ends_what_is_idle() -> None:
    config = Config(udp_timeout=1)
    programs = Programs(config)
    try:
        assert programs.tables.run("begin")[0] == 0
        wait_for(lambda: any(programs.tables.map("second").read(bytes(4), 4)), 5, "the clock")
        packet = Packet(config.inside, 0xC6130001, 17, sport=1024, dport=7)
        frame = packet.frame(OWN[INSIDE], TESTER)
        sent = time.monotonic()
        assert programs.ports[INSIDE].run("forward", frame=frame)[0] == REDIRECTED
        assert programs.mappings() == 1
        wait_for(lambda: not programs.mappings(), 10, "the mapping to end")
        assert 1 < time.monotonic() - sent < 5
    finally:
        programs.close()
