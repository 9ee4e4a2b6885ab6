"""The whole engine on frames from files: what goes in at one port comes out of the other.

DPDK's pcap driver stands for the wires, so that every octet is known and no root is needed.
"""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import run_dir, spawn
from tests.vswitches.cgnat import reference as ref
from vnetperf.host.build import BuildVariant
from vnetperf.host.dpdk import DpdkPorts
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import HostError
from vnetperf.traffic.loadgen.engine import Spawn
from vnetperf.vswitches.cgnat.dpdk import ENGINE, PIPELINE, RUN_TO_COMPLETION

__all__ = ["run_dir", "spawn"]  # fixtures

pytestmark = pytest.mark.slow

PCAP = struct.Struct("<IHHiIII")
RECORD = struct.Struct("<IIII")
STAGES = {"rtc": RUN_TO_COMPLETION, "pipeline": PIPELINE, "five threads": "rx/val/nat/ct/tx"}


def write_pcap(path: Path, frames: list[bytes]) -> None:
    records = (RECORD.pack(0, 0, len(f), len(f)) + f for f in frames)
    path.write_bytes(PCAP.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))


def read_pcap(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), PCAP.size, []
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at + RECORD.size : at + RECORD.size + length])
        at += RECORD.size + length
    return found


class Running:
    """An engine between four files."""

    def __init__(
        self, directory: Path, spawn: Spawn, config: ref.Config, stages: str, *options: str
    ) -> None:
        self.directory = directory
        threads = stages.count("/") + 1
        lcores = ",".join(f"{n}@(0-1)" for n in range(threads + 1))
        devices = [
            f"--vdev=net_pcap{n},rx_pcap={directory}/in{n},tx_pcap={directory}/out{n}"
            for n in (ref.INSIDE, ref.OUTSIDE)
        ]
        argv = [
            *(str(ENGINE.executable(BuildVariant.SANITIZED)), f"--lcores={lcores}"),
            *("--no-huge", "-m", "256", "--no-pci", "--file-prefix=t", *devices, "--"),
            *(*config.argv(), f"--stages={stages}", "--turn-us=100"),
            *(f"--log={directory}/blocks", *options),
        ]
        self.process = spawn(argv, {"RUNTIME_DIRECTORY": str(directory)})
        self.telemetry = DpdkPorts(directory, "t")
        self.process.wait_for(self._replies, timeout_s=60, description="the engine")

    def _replies(self) -> bool:
        try:
            return bool(self.telemetry.ask("/cgnat/info"))  # None: it does not know it yet
        except HostError:  # not there yet
            return False

    def ask(self, command: str) -> dict[str, Any]:
        answer = self.telemetry.ask(f"/cgnat/{command}")
        assert isinstance(answer, dict)
        return answer

    def forward(self, frames: int) -> None:
        """Poll, and wait until so many frames came out or were dropped."""
        self.ask("forward")

        def all_there() -> bool:
            out = sum(self.ask(f"port,port={n}")["tx"] for n in (ref.INSIDE, ref.OUTSIDE))
            return out + sum(sum(self.ask(f"drops,port={n}").values()) for n in (0, 1)) >= frames

        wait_for(all_there, 60, "frames")

    def stop(self) -> tuple[list[bytes], list[bytes]]:
        """What came out inside and outside."""
        self.telemetry.close()
        self.process.stop(60)  # what looks for leaks takes seconds where others use the machine
        assert self.process.returncode == 0, self.process.log_tail(40)
        return read_pcap(self.directory / "out0"), read_pcap(self.directory / "out1")


def traffic(config: ref.Config, n: int) -> tuple[list[ref.Packet], list[ref.Packet], ref.Reference]:
    """Packets of subscribers, and the answers to what the reference makes of them."""
    reference = ref.Reference(config)
    up = [
        ref.Packet(
            config.inside + i % config.subscribers,
            ref.SERVER,
            (ref.UDP, ref.TCP)[i % 2],
            sport=1024 + i,
            dport=53,
            flags=ref.SYN,
            payload=bytes(18),
        )
        for i in range(n)
    ]
    sent = [reference.translate(ref.INSIDE, packet)[1] for packet in up]
    down = [
        replace(p, src=p.dst, dst=p.src, sport=p.dport, dport=p.sport, flags=ref.SYN | ref.ACK)
        for p in sent
    ]
    return up, down, reference


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_fragments_follow_their_first_one(run_dir: Path, spawn: Spawn, stages: str) -> None:
    config = ref.Config(subscribers=4, block=63, addresses=1)
    up = ref.Packet(config.inside, ref.SERVER, ref.UDP, 1030, 53, payload=bytes(range(200)))
    _, out = ref.Reference(config).translate(ref.INSIDE, up)
    first, *later = up.fragments(64, 128)
    alone = replace(up, number=7).fragments(64)[1]
    macs = ref.OWN[ref.INSIDE], ref.OWN[ref.OUTSIDE]
    write_pcap(run_dir / "in0", [one.frame(*macs) for one in (*later, alone, first)])
    write_pcap(run_dir / "in1", [])
    engine = Running(run_dir, spawn, config, stages)
    engine.forward(3)
    tables = engine.ask("tables")
    assert (tables["datagrams_in_fragments"], tables["fragments_that_wait"]) == (1, 1)
    _, outside = engine.stop()
    macs = ref.NEXT_HOP[ref.OUTSIDE], ref.OWN[ref.OUTSIDE]
    assert outside == [one.frame(*macs) for one in out.fragments(64, 128)]


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_every_octet_of_both_directions(run_dir: Path, spawn: Spawn, stages: str) -> None:
    config = ref.Config(subscribers=4, block=63, addresses=1)
    # One burst: what comes from outside is looked at after it.
    up, down, reference = traffic(config, 30)
    stray = replace(down[0], dport=60000)
    write_pcap(run_dir / "in0", [p.frame(ref.OWN[ref.INSIDE], ref.OWN[ref.OUTSIDE]) for p in up])
    write_pcap(
        run_dir / "in1",
        [p.frame(ref.OWN[ref.OUTSIDE], ref.OWN[ref.INSIDE]) for p in (*down, stray)],
    )
    engine = Running(run_dir, spawn, config, stages)
    engine.forward(61)
    assert engine.ask("drops,port=1")["no_mapping"] == 1
    assert engine.ask("port,port=0") == {"rx": 30, "tx": 30}
    assert engine.ask("port,port=1") == {"rx": 31, "tx": 30}
    assert engine.ask("port,port=2") == {"error": "port=2", "accepted": "a whole number 0..1"}
    tables = engine.ask("tables")
    assert (tables["sessions"], tables["mappings"], tables["blocks"]) == (30, 30, 4)
    numbers = range(stages.count("/") + 1)
    # The last packets' turn of each is followed by one without.

    def workers() -> list[dict[str, Any]]:
        return [engine.ask(f"worker,worker={n}") for n in numbers]

    wait_for(lambda: all(told["empty"] for told in workers()), 20, "empty turns")
    told = {k: v for worker in workers() for k, v in worker.items() if k.endswith("_packets")}
    # A packet without a mapping goes no further than nat.
    counts = {"rx": 61, "val": 61, "nat": 61, "ct": 60, "tx": 60}
    assert told == {f"{stage}_packets": n for stage, n in counts.items()}
    assert all(worker["turns"] > worker["empty"] > 0 for worker in workers())
    engine.ask("forget")
    wait_for(lambda: engine.ask("tables")["workers_that_forget"] == 0, 20, "sessions to end")
    tables = engine.ask("tables")
    assert tables["sessions"] == tables["mappings"] == tables["blocks"] == 0
    inside, outside = engine.stop()
    expected = [replace(p, ttl=63).frame(ref.NEXT_HOP[1], ref.OWN[1]) for p in _swapped(down)]
    assert sorted(outside) == sorted(expected)
    back = [reference.translate(ref.OUTSIDE, p)[1].frame(ref.NEXT_HOP[0], ref.OWN[0]) for p in down]
    assert sorted(inside) == sorted(back)


def test_time_asleep_is_no_time_with_packets(run_dir: Path, spawn: Spawn) -> None:
    config = ref.Config(subscribers=4, block=63, addresses=1)
    up, _, _ = traffic(config, 3)
    write_pcap(run_dir / "in0", [p.frame(ref.OWN[ref.INSIDE], ref.OWN[ref.OUTSIDE]) for p in up])
    write_pcap(run_dir / "in1", [])
    engine = Running(run_dir, spawn, config, PIPELINE, "--turn-us=1000000")
    engine.forward(3)

    def workers() -> list[dict[str, Any]]:
        return [engine.ask(f"worker,worker={n}") for n in range(PIPELINE.count("/") + 1)]

    wait_for(lambda: all(w["turns"] > w["empty"] for w in workers()), 20, "turns to be counted")
    second = engine.ask("info")["hz"]
    # Those after the first slept while it took the frames, and found them when they woke.
    assert all(worker["busy"] < second / 2 for worker in workers())
    engine.stop()


def _swapped(down: list[ref.Packet]) -> Iterator[ref.Packet]:
    """The packets that were answered."""
    for p in down:
        yield replace(p, src=p.dst, dst=p.src, sport=p.dport, dport=p.sport, flags=ref.SYN)


def test_blocks_are_recorded(run_dir: Path, spawn: Spawn) -> None:
    config = ref.Config(subscribers=3, block=16, addresses=1, blocks="dynamic", most_blocks=2)
    earlier = "# time event inside public first-port last-port"
    (run_dir / "blocks").write_text(f"{earlier}\n")  # of the engine before a port was removed
    up, _, _ = traffic(config, 60)
    write_pcap(run_dir / "in0", [p.frame(ref.OWN[ref.INSIDE], ref.OWN[ref.OUTSIDE]) for p in up])
    write_pcap(run_dir / "in1", [])
    began = datetime.now(UTC).replace(microsecond=0)
    engine = Running(run_dir, spawn, config, RUN_TO_COMPLETION)
    engine.forward(60)
    tables = engine.ask("tables")
    assert tables["blocks"] == tables["blocks_given"] == 3
    engine.ask("forget")
    wait_for(lambda: engine.ask("tables")["blocks"] == 0, 20, "blocks to come back")
    engine.stop()
    head, *lines = (run_dir / "blocks").read_text().splitlines()
    assert head == earlier
    times = [datetime.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S%z") for line in lines]
    assert times == sorted(times)
    # In whole seconds of the engine's clock, which begins a moment before the record.
    latest = datetime.now(UTC) + timedelta(seconds=1)
    assert all(began <= one <= latest for one in times)
    events = [line.split()[1:] for line in lines]
    blocks = [
        [f"100.64.0.{n + 1}", "198.18.0.0", str(1024 + 16 * n), str(1039 + 16 * n)]
        for n in range(3)
    ]
    assert events[:3] == [["assigned", *block] for block in blocks]
    assert sorted(events[3:]) == [["released", *block] for block in blocks]


def test_an_idle_engine_sleeps_for_a_whole_second_too(run_dir: Path, spawn: Spawn) -> None:
    for name in ("in0", "in1"):
        write_pcap(run_dir / name, [])
    engine = Running(run_dir, spawn, ref.Config(), RUN_TO_COMPLETION, "--turn-us=1000000")
    engine.ask("forward")
    before = engine.ask("worker,worker=0")["turns"]
    time.sleep(0.5)
    assert engine.ask("worker,worker=0")["turns"] - before <= 2
    engine.stop()


#: Information elements: observationTimeMilliseconds, natEvent, sourceIPv4Address,
#: postNATSourceIPv4Address, portRangeStart, portRangeEnd (RFC 8158), and their octets.
ELEMENTS = [(323, 8), (230, 1), (8, 4), (225, 4), (361, 2), (362, 2)]
ALLOCATED, DEALLOCATED = 16, 17


def ipfix_records(data: bytes) -> list[tuple[int, ...]]:
    """Records of a file of IPFIX (RFC 7011) whose only template is that of ELEMENTS."""
    records: list[tuple[int, ...]] = []
    while data:
        version, length, _, sequence, _ = struct.unpack_from("!HHIII", data)
        kind, size = struct.unpack_from("!HH", data, 16)
        body, data = data[20:length], data[length:]
        assert (version, size, sequence) == (10, length - 16, len(records))
        if kind == 2:
            template = struct.unpack(f"!{len(body) // 2}H", body)
            assert template == (256, len(ELEMENTS), *(n for one in ELEMENTS for n in one))
        else:
            assert kind == 256
            records += struct.iter_unpack("!QBIIHH", body)
    return records


def test_blocks_are_recorded_as_ipfix(run_dir: Path, spawn: Spawn) -> None:
    config = ref.Config(subscribers=150, block=16, addresses=1, blocks="dynamic")
    up, _, _ = traffic(config, 150)  # more than a message has
    write_pcap(run_dir / "in0", [p.frame(ref.OWN[ref.INSIDE], ref.OWN[ref.OUTSIDE]) for p in up])
    write_pcap(run_dir / "in1", [])
    began = time.time()
    engine = Running(run_dir, spawn, config, RUN_TO_COMPLETION, "--log-form=ipfix")
    engine.forward(150)
    engine.ask("forget")
    wait_for(lambda: engine.ask("tables")["blocks"] == 0, 20, "blocks to come back")
    engine.stop()
    records = ipfix_records((run_dir / "blocks").read_bytes())
    assert all(began - 1 <= at / 1000 <= time.time() + 1 for at, *_ in records)
    pool = int(config.pool)
    blocks = [(config.inside + n, pool, 1024 + 16 * n, 1039 + 16 * n) for n in range(150)]
    assert [one[1:] for one in records[:150]] == [(ALLOCATED, *block) for block in blocks]
    assert sorted(one[1:] for one in records[150:]) == [(DEALLOCATED, *block) for block in blocks]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--subscribers=9000", "--block=63"], "9000 subscribers with blocks of 63 ports"),
        (["--stages=rx+nat+val+ct+tx"], "--stages does not go on with 'val'"),
        (["--block=many"], "--block=many; accepted: a whole number 1..64512"),
        (["--inside=198.18.0.0"], "subscribers have public addresses of the pool"),
        (["--own=02:00:00:00:00:01"], "--own is no pair of MAC addresses"),
        (["--unheard=1"], "unknown option '--unheard'"),
        (["--blocks=other"], "accepted: computed, dynamic"),
        (["--lcores-of-stages=1,b"], "--lcores-of-stages is no list of numbers"),
        (["--stages=rx/val/nat/ct/tx"], "lcores for 5 groups of stages"),
    ],
)
def test_refusals_say_what_is_accepted(run_dir: Path, options: list[str], message: str) -> None:
    argv = [str(ENGINE.executable(BuildVariant.SANITIZED)), "--no-huge", "-m", "64", "--no-pci"]
    run = subprocess.run(
        [*argv, "--file-prefix=t", "--", *options],
        capture_output=True,
        text=True,
        env={"RUNTIME_DIRECTORY": str(run_dir)},
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert message in run.stderr
