"""The forwarder's parts without DPDK, under sanitizers: frames, its command line."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vnfs.forwarder.frames import MODES, PEERS, corpus, expected

UNIT = Path(__file__).with_name("unit")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built."""
    out = tmp_path_factory.mktemp("vloop")
    subprocess.run(["make", "-s", "-C", str(UNIT), f"OUT={out}"], check=True, timeout=600)
    return out / "unit"


def run(unit: Path, *argv: str, given: bytes = b"", code: int = 0) -> bytes:
    done = subprocess.run([unit, *argv], input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def changed(unit: Path, mode: str, frames: list[bytes]) -> list[bytes]:
    given = b"".join(struct.pack("<H", len(frame)) + frame for frame in frames)
    peers = [f"--peer{n}={mac.hex(':')}" for n, mac in enumerate(PEERS)]
    output, found = run(unit, "frames", f"--mode={mode}", *peers, given=given), []
    while output:
        (length,) = struct.unpack_from("<H", output)
        found.append(output[2 : 2 + length])
        output = output[2 + length :]
    return found


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_changes_what_it_says(unit: Path, mode: str) -> None:
    frames = corpus()
    assert changed(unit, mode, frames) == [expected(mode, frame, 0) for frame in frames]


def test_headers_that_end_early_are_left_alone(unit: Path) -> None:
    """AddressSanitizer ends the program that reads on."""
    frames = [frame[:octets] for frame in corpus() for octets in range(14, len(frame))]
    frames.append(b"short")
    made = changed(unit, "5tswap", frames)
    assert made[-1] == b"short"
    assert made[:-1] == [expected("5tswap", frame, 0) for frame in frames[:-1]]


@settings(max_examples=20)
@given(st.lists(st.binary(min_size=14, max_size=128), min_size=1, max_size=50))
def test_any_octets_are_swapped_alike(unit: Path, frames: list[bytes]) -> None:
    once = changed(unit, "5tswap", frames)
    assert once == [expected("5tswap", frame, 0) for frame in frames]


def test_its_command_line(unit: Path) -> None:
    told = run(unit, "args").decode().split()
    assert {"mode=io", "queues=1", "turn_us=0", "priority=0", "peer1=020000000001"} <= {*told}
    line = ("--mode=5tswap", "--queues", "4", "--turn-us=100", "--phase-us=99", "--priority=2")
    told = run(unit, "args", *line, "--peer0=02:AA:00:00:00:0f").decode().split()
    assert {"mode=5tswap", "queues=4", "phase_us=99", "priority=2", "peer0=02aa0000000f"} <= {*told}
    told = run(unit, "args", "--help")
    assert b"--turn-us N" in told
    assert b"--mode io|mac|macswap|5tswap" in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["--mode=mirror"], "--mode=mirror; accepted: io, mac, macswap, 5tswap"),
        (["--peer0=02:00:00:00:00"], "--peer0=02:00:00:00:00; accepted: as 02:"),
        (["--peer1=02:00:00:00:00:01:02"], "accepted: as 02:"),
        (["--queues=0"], "--queues=0; accepted: a whole number 1..128"),
        (["--priority=2"], "--priority=2; accepted: --turn-us above 0 with it"),
        (["--turn-us=100", "--phase-us=100"], "--phase-us=100; accepted: less than --turn-us"),
        (["--speed=1"], "unknown option '--speed'"),
        (["--mode"], "--mode without a value"),
    ],
)
def test_what_it_refuses(unit: Path, line: list[str], says: str) -> None:
    assert says in run(unit, "args", *line, code=1).decode()
