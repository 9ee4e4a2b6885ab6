"""Golden frames of every profile that is shipped: octets that any generator has to send.

`python -m tests.traffic.test_golden` writes the files anew; what changed is to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.traffic.oracle import field_of, rebuilt
from vnetperf.config.files import available, find_file, load_model
from vnetperf.model.deployment import make_deployment
from vnetperf.model.frames import TUNNELS
from vnetperf.model.options import Bearers
from vnetperf.model.traffic import TrafficProfile, header_stack, make_streams
from vnetperf.plugin.compiled_frames import CompiledFrame, compile_traffic

GOLDEN = Path(__file__).with_name("golden")
#: Sessions of users, where a deployment has a mobile core.
SESSIONS = (Bearers(teid=1, ue="198.18.0.1", count=50), Bearers(teid=900, ue="198.18.9.7", count=1))
#: Name of a file -> profile, deployment and tunnel.
CASES = {
    name: (name, {"vepc": "vepc", "overlay-flows": "op2p"}.get(name, "phy2phy"), "vxlan")
    for name in available("traffic")
} | {f"overlay-{kind}": ("multi-flow", "decap", kind) for kind in TUNNELS}


def profile_of(name: str) -> TrafficProfile:
    return load_model(TrafficProfile, find_file("traffic", name))


def compiled(case: str, size: int) -> tuple[TrafficProfile, tuple[CompiledFrame, ...]]:
    name, deployment, kind = CASES[case]
    profile = profile_of(name)
    streams = make_streams(make_deployment(deployment), profile, tunnel=kind)
    if deployment == "vepc":
        streams = tuple(s.model_copy(update={"bearers": SESSIONS}) for s in streams)
    return profile, compile_traffic(streams, profile, size)


def generate_frames(case: str) -> Iterator[tuple[str, bytes, CompiledFrame, int, TrafficProfile]]:
    """Title, octets, and what they were made of: the smallest size and 1518, some flows."""
    least = profile_of(CASES[case][0]).least_frame_size
    mixed = profile_of(CASES[case][0]).mix is not None
    for size in (least,) if mixed else (least, 1518):
        profile, frames = compiled(case, size)
        for frame in frames:
            most = max((field.count for field in frame.fields), default=1)
            for number in sorted({0, min(5, most - 1), most - 1}):
                to_all = ", broadcast" if frame.broadcast else ""
                title = (
                    f"direction {frame.stream.direction}, {frame.size} octets, flow {number}"
                    f"{to_all}, share {frame.share:.6g}"
                )
                yield title, frame.nth(number), frame, number, profile


def written(case: str) -> str:
    """A golden file: each frame's headers in hexadecimal, then how many zeros follow."""
    lines = [f"# Frames of {case}, without FCS; compare all but the last 18 octets, the stamp."]
    for title, octets, frame, _, _ in generate_frames(case):
        head, rest = octets[: frame.header_octets], octets[frame.header_octets :]
        assert not any(rest)
        lines += [f"# {title}", f"{head.hex()} + {len(rest)} zeros"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CASES)
def test_frames_are_the_golden_ones(case: str) -> None:
    assert (GOLDEN / f"{case}.txt").read_text() == written(case)


def test_there_is_no_golden_file_of_nothing() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_scapy_builds_the_same_octets(case: str) -> None:
    for title, octets, frame, _, profile in generate_frames(case):
        stack = header_stack(frame.stream, profile)
        assert len(octets) == frame.size - 4, title
        again = rebuilt(octets, stack, bytes.fromhex(profile.raw))
        assert again.hex() == octets.hex(), title


@pytest.mark.parametrize("case", CASES)
def test_flows_differ_by_what_the_profile_says(case: str) -> None:
    for title, octets, frame, number, profile in generate_frames(case):
        stack = header_stack(frame.stream, profile)
        for name in profile.vary if profile.flows > 1 else ():
            if frame.stream.bearers and name == "ipv4_src":
                continue
            try:
                first = field_of(frame.nth(0), stack, name, bytes.fromhex(profile.raw))
            except AssertionError:
                continue  # another direction's tunnel
            now = field_of(octets, stack, name, bytes.fromhex(profile.raw))
            count = min(profile.flows, profile.room(name))
            assert _number(now) - _number(first) == number % count, (title, name)


def _number(value: int | str) -> int:
    if isinstance(value, int):
        return value
    return int(value.replace(":", ""), 16) if len(value) == 17 else int(ip_address(value))


@pytest.mark.parametrize("case", CASES)
def test_shares_are_each_directions_load(case: str) -> None:
    profile, frames = compiled(case, profile_of(CASES[case][0]).least_frame_size)
    for direction in {frame.stream.direction for frame in frames}:
        total = sum(frame.share for frame in frames if frame.stream.direction == direction)
        assert total == pytest.approx(profile.loads[direction])


def test_a_share_of_the_frames_goes_to_everybody() -> None:
    _, frames = compiled("broadcast", 64)
    to_all = [frame for frame in frames if frame.broadcast]
    assert [frame.share for frame in to_all] == [0.01, 0.01]
    assert all(frame.template[:6] == b"\xff" * 6 for frame in to_all)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.txt"):
        path.unlink()
    for case in CASES:
        (GOLDEN / f"{case}.txt").write_text(written(case))
