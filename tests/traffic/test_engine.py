"""What the engine's Python side requests, and how it takes replies, refusals and death."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vnetperf.host.processes import ManagedProcess
from vnetperf.model.errors import GeneratorError, HostError
from vnetperf.model.trial import LiveCounts
from vnetperf.plugin.compiled_frames import PCAP_HEADER, PCAP_RECORD
from vnetperf.traffic.loadgen import engine as module
from vnetperf.traffic.loadgen.engine import (
    PROTOCOL,
    Engine,
    EngineConfig,
    EngineTrial,
    FieldSpec,
    StreamLoad,
    StreamSpec,
)
from vnetperf.traffic.loadgen.telemetry import (
    FRAME_COUNTS,
    CapturedFrame,
    EngineStatus,
    PortResult,
    pcap_files,
)

COUNTS = dict.fromkeys((*FRAME_COUNTS, "bad_latency"), 0)
LATENCY = {f"latency_{name}": 0 for name in ("count", "sum_ns", "min_ns", "max_ns", "over")}


class Double:
    """The engine: its process and its socket in one."""

    def __init__(self, path: Path) -> None:
        self.path = path / "socket"
        self.pid = 1
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {"info": {"protocol": PROTOCOL, "ports": 2}}
        self.status: int | None = None
        self.closed = False
        self.stops = 0
        self.stopped = False

    def ask_rows(self, command: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        name = command.removeprefix("/loadgen/")
        self.said += [(name, dict(row)) for row in rows]
        answer = self.answers.get(name, {})
        if isinstance(answer, GeneratorError):
            raise answer
        return [answer for _ in rows]

    def alive(self) -> bool:
        return self.status is None

    def expect_alive(self) -> None:
        if self.status is not None:
            raise HostError(f"loadgen ended by {self.status}", cure="its last lines:\nout of luck")

    def stop(self, timeout_s: float = 0.0) -> int:
        self.stops += 1
        self.status = self.status or 0
        return self.status

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    double = Double(tmp_path)
    monkeypatch.setattr(module, "connect_engine", lambda *_: double)
    return double


@pytest.mark.parametrize(
    ("devices", "by_eal", "attached"),
    [
        (("-a0000:21:00.0", "--vdev=net_null1"), ["-a0000:21:00.0", "--vdev=net_null1"], []),
        (
            ("--vdev=net_null0,no-rx=1", "-a0000:21:00.0"),
            ["--vdev=net_null0,no-rx=1", "-affff:ff:1f.7"],
            ["--attach=0000:21:00.0"],
        ),
        (
            ("-a0000:22:00.0", "-a0000:21:00.0", "--vdev=net_null2"),
            ["-a0000:22:00.0"],
            ["--attach=0000:21:00.0", "--attach=net_null2"],
        ),
    ],
)
def test_ports_are_numbered_as_they_are_named(
    devices: tuple[str, ...], by_eal: list[str], attached: list[str]
) -> None:
    """EAL numbers PCI devices first, by address."""
    argv = EngineConfig(devices=devices, pci=True).argv("loadgen")
    end = argv.index("--")
    assert [word for word in argv[:end] if word.startswith(("-a", "--vdev"))] == by_eal
    assert [word for word in argv[end:] if word.startswith("--attach")] == attached


Open = Callable[[], Engine]


@pytest.fixture
def opened(double: Double, tmp_path: Path) -> Open:
    return lambda: Engine.open(
        EngineConfig(devices=()),
        run_dir=tmp_path,
        executable=tmp_path / "engine",
        spawn=lambda *_: cast("ManagedProcess", double),
    )


@pytest.fixture
def engine(opened: Open) -> Iterator[Engine]:
    with opened() as engine:
        yield engine


def said(double: Double, command: str) -> list[Mapping[str, Any]]:
    return [parameters for name, parameters in double.said if name == command]


def test_an_engine_of_another_version_is_ended(double: Double, opened: Open) -> None:
    double.answers["info"] = {"protocol": PROTOCOL + 1, "ports": 2}
    with pytest.raises(GeneratorError, match=f"accepted: protocol {PROTOCOL}"):
        opened()
    assert double.stops == 1
    assert double.closed


def test_an_engine_that_does_not_answer_is_ended(
    double: Double, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "connect_engine", silent)
    with pytest.raises(KeyboardInterrupt):
        opened()
    assert double.stops == 1


def test_listed_values_are_handed_over_in_files_that_go_again(
    double: Double, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, bytes] = {}
    asked = double.ask_rows

    def look(command: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        for row in rows:
            if name := row.get("file"):
                seen[f"{command} {name}"] = (double.path.parent / name).read_bytes()
        return asked(command, rows)

    monkeypatch.setattr(double, "ask_rows", look)  # what is on the disk at that moment
    ports, other = bytes(range(6)), bytes(range(6, 12))
    sent = FieldSpec(offset=34, width=2, base=0, count=3, mode="table", table=ports)
    back = FieldSpec(offset=36, width=2, base=0, count=3, mode="table", table=other)
    engine.set_streams(
        StreamSpec(
            id=n, tx_port=0, rx_port=1, frame_size=64, header=b"", fields=(sent,), expected=(back,)
        )
        for n in (0, 1)
    )
    assert seen == {
        "/loadgen/stream/field table0": ports,
        "/loadgen/stream/expect table0": other,
    }
    assert [row["stream"] for row in said(double, "stream/expect")] == [0, 1]
    assert not list(double.path.parent.glob("table*"))


def test_streams_and_loads_are_said_whole(double: Double, engine: Engine) -> None:
    field = FieldSpec(offset=26, width=4, base=10, count=5)
    stream = StreamSpec(
        id=3, tx_port=0, rx_port=1, frame_size=64, header=b"\x01\x02", l3_offset=14, fields=(field,)
    )
    engine.set_streams([stream])
    (added,), (varied,) = said(double, "stream/add"), said(double, "stream/field")
    assert added == {
        "id": 3,
        "tx_port": 0,
        "rx_port": 1,
        "size": 64,
        "rx_size": None,
        "header": "0102",
        "l3": 14,
        "udp": None,
        "tcp": None,
        "outer": None,
        "queue": None,
        "away": None,
    }
    assert varied == {
        "stream": 3,
        "offset": 26,
        "width": 4,
        "base": 10,
        "step": 1,
        "count": 5,
        "mode": "inc",
        "seed": None,
    }
    assert said(double, "stream/expect") == []
    engine.start(EngineTrial(loads={3: StreamLoad(rate=None, count=7)}))
    engine.start(EngineTrial(duration_s=2))
    assert said(double, "stream/load") == [
        {"stream": 3, "rate": "max", "count": 7},
        {"stream": 3, "rate": 0},
    ]
    assert [start["epoch"] for start in said(double, "trial/start")] == [1, 2]
    assert said(double, "trial/start")[1] == {
        "epoch": 2,
        "duration": 2.0,
        "delay": 0.0,
        "drain": 1.0,
        "burst": 32,
        "group": 1,
        "catch_up": None,
        "max_lag": 0.01,
        "policy": "drop",
        "steps": None,
        "bin": None,
        "tag": None,
        "event": None,
        "turn": None,
        "ipdv": None,
        "clock": None,
    }


def test_a_result_has_every_stream_and_port(double: Double, engine: Engine) -> None:
    engine.set_streams([StreamSpec(4, 0, 1, 64, b""), StreamSpec(9, 1, 0, 64, b"")])
    engine.start(EngineTrial(loads={4: StreamLoad(10.0)}, duration_s=1))
    port = dict.fromkeys(set(PortResult.__dataclass_fields__) - {"port"}, 1)
    double.answers |= {
        "trial/status": {"state": "done", "epoch": 1, "aborted": 0, "elapsed_ns": 2_000_000_000},
        "trial/port": port,
        "trial/result": {**COUNTS, "sent": 5, **LATENCY, "latency_max_ns": 8, "tx_first_ns": 3},
    }
    result = engine.result()
    assert [(s.stream, s.counts.direction) for s in result.streams] == [(4, 0), (9, 1)]
    assert [entry.port for entry in result.ports] == [0, 1]
    assert result.streams[0].counts.sent == 5
    assert result.streams[0].latency.max_ns == 8
    assert result.streams[0].tx_first_ns == 3
    assert result.streams[0].tx_last_ns is None
    assert engine.status() == EngineStatus("done", None)
    double.answers["trial/status"] |= COUNTS | {"sent": 5, "received": 3}
    live = LiveCounts(elapsed_s=2.0, sent=5, refused=0, received=3)
    assert engine.status() == EngineStatus("done", live)


def test_when_a_stream_is_refused_none_is_left(double: Double, engine: Engine) -> None:
    double.answers["stream/add"] = GeneratorError("too long", accepted="440")
    with pytest.raises(GeneratorError, match="too long"):
        engine.set_streams([StreamSpec(0, 0, 1, 64, b"")])
    assert double.said[-1][0] == "stream/clear"


def test_its_death_is_reported_with_its_last_lines(double: Double, engine: Engine) -> None:
    double.answers["trial/status"] = GeneratorError("connection lost")
    double.status = -11
    with pytest.raises(GeneratorError, match=r"ended by -11\n(.|\n)*out of luck"):
        engine.status()


def test_closing_twice_is_closing_once(double: Double, opened: Open) -> None:
    engine = opened()
    engine.close(timeout_s=0.0)
    engine.close()
    assert double.closed
    assert not double.alive()


def test_an_engine_that_is_stopped_is_named_and_not_waited_for(
    double: Double, tmp_path: Path
) -> None:
    engine = Engine(double, double)  # type: ignore[arg-type]  # a double
    double.stopped = True
    with pytest.raises(GeneratorError, match=r"the engine \(pid 1\) is stopped"):
        engine.status()
    assert not double.said
    with pytest.raises(GeneratorError, match="is stopped"):
        engine.expect_running()
    double.stopped = False
    engine.expect_running()


def test_a_trial_that_is_stopped_sends_no_more(double: Double, engine: Engine) -> None:
    """The engine has the order before its workers have followed it."""
    states = iter(["running", "draining", "done"])
    asked = double.ask_rows

    def changing(command: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        if command.endswith("trial/status"):
            double.answers["trial/status"] = {"state": next(states)}
        return asked(command, rows)

    double.ask_rows = changing  # type: ignore[method-assign]  # a double
    engine.stop()
    assert next(states, None) is None


def frames_in(pcap: bytes) -> int:
    """Frames of a pcap file, each of which is whole."""
    found, at = 0, PCAP_HEADER
    while at < len(pcap):
        kept, _ = struct.unpack_from("=II", pcap, at + 8)
        at += PCAP_RECORD + kept
        found += 1
    assert at == len(pcap)
    return found


CAPTURED = b"".join(
    struct.pack("=QIIHHI", 1_800_000_000_000_000_000 + n, 60, 60, n % 2, n, 1 + n % 3) + bytes(60)
    for n in range(4)
)

#: What replies about a recorded file have.
REPLY: tuple[str, ...] = (
    "bin_ns",
    "gap_ns",
    "gap_from_ns",
    "rising",
    "falling",
    "shared",
    "poll_ns",
)
REPLY += tuple(f"{way}_{which}_ns" for way in ("rising", "falling") for which in ("min", "max"))


@settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_crafted_file_of_the_engine_is_refused_or_read_and_never_a_traceback(
    double: Double, engine: Engine, data: st.DataObject
) -> None:
    octets = bytearray(CAPTURED)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(octets) - 1))
        octets[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    del octets[data.draw(st.integers(0, len(octets))) :]
    (double.path.parent / "file").write_bytes(octets)
    for command in ("capture", "histogram", "timeline", "ipdv"):
        lacks = data.draw(st.sampled_from(["", "", "", *REPLY]))
        answer = {"file": "file", **{key: 1 for key in REPLY if key != lacks}}
        double.answers[f"trial/{command}"] = answer
    frames: tuple[CapturedFrame, ...] = ()
    with contextlib.suppress(GeneratorError):
        frames = engine.captured()
    assert sum(map(frames_in, pcap_files(frames).values())) == len(frames)
    for read in (engine.histograms, engine.timelines, engine.differences):
        with contextlib.suppress(GeneratorError):
            read([0])


def test_a_reply_without_a_number_is_the_engines_fault(double: Double, engine: Engine) -> None:
    double.answers["trial/gaps"] = {"poll_max_ns": 1}
    with pytest.raises(GeneratorError, match="a reply without 'poll_p50_ns'"):
        engine.gaps()
