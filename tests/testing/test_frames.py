"""Frames that the contract kit sends, and what it says must become of them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.model.deployment import make_deployment
from vnetperf.model.frames import driver_length
from vnetperf.model.nat import Nat
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream, TrafficProfile
from vnetperf.plugin.compiled_frames import expected_fields
from vnetperf.plugin.frame_layers import internet_checksum
from vnetperf.plugin.vswitch import VSwitchCapabilities
from vnetperf.testing.cases import other_cases, plain_cases
from vnetperf.testing.frames import FrameTester, read_mark, stream_frame
from vnetperf.testing.single_frames import (
    STRANGERS,
    TAGS,
    addressed,
    contents,
    routed,
    send_frames,
    tagged,
)
from vnetperf.vswitches.cgnat.switch import Cgnat


def scenario(name: str = "phy2phy", **changes: object) -> Scenario:
    plain = {"deployment": make_deployment(name), "vswitch": "x", "traffic": TrafficProfile()}
    return Scenario.model_validate({**plain, **changes})


@given(st.integers(64, 9216), st.integers(0, 1 << 31), st.integers(0, 1))
def test_a_frame_has_its_size_and_says_whose_it_is(size: int, number: int, direction: int) -> None:
    stream = scenario().streams[direction]
    frame = stream_frame(stream, size, number)
    assert len(frame) == driver_length(size)
    assert read_mark(frame) == (stream.id, number)


def test_others_frames_have_no_mark() -> None:
    assert read_mark(b"\0" * 60) is None
    assert read_mark(b"") is None


def test_a_late_frame_of_the_other_way_has_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (stream_frame(stream, 64, 4) for stream in scenario().streams)
    tester = FrameTester.__new__(FrameTester)
    deployment: Any = SimpleNamespace(generator=tester)
    for sent in (one, b"\0" * 60):
        for came, back in ((other, []), (one, [one]), (b"\0" * 60, [b"\0" * 60])):
            kept = back if sent == one else [came]  # what has no mark may come back in any form
            monkeypatch.setattr(tester, "exchange", lambda *_, came=came, **__: ([came], [one]))
            assert send_frames(deployment, 0, [sent]) == (kept, [one])


def test_kinds_of_content_differ_and_keep_their_addresses() -> None:
    stream = scenario().streams[0]
    frames = contents(stream)
    assert len(set(frames.values())) == len(frames)
    assert {frame[:12] for frame in frames.values()} == {stream_frame(stream, 64, 0)[:12]}


@pytest.mark.parametrize("name", TAGS)
def test_tags_stand_behind_the_addresses(name: str) -> None:
    frame = stream_frame(scenario().streams[0], 64, 0)
    found = tagged(frame, TAGS[name])
    assert found[:12] + found[12 + len(TAGS[name]) :] == frame


def test_strangers_are_addressed_and_nothing_else_changes() -> None:
    frame = stream_frame(scenario().streams[0], 64, 0)
    for mac in STRANGERS.values():
        found = addressed(frame, mac)
        assert found[:6].hex(":") == mac
        assert found[6:] == frame[6:]


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("number", [0, 5, 63, 64, 99])
def test_a_nats_frames_are_of_its_sessions_and_come_out_as_the_other_side_has_them(
    number: int, direction: int
) -> None:
    nat = Nat(subscribers=16, ports=4)
    through = scenario(change=nat, forwarding="l3")
    stream, session = through.streams[direction], number % nat.sessions
    sent = stream_frame(stream, 64, number)
    out = routed(through, stream, sent)
    block, port = nat.subscriber_block(session % 16), 1024 + 4 * (session % 16) + session // 16
    inside, public = str(nat.first_inside + session % 16), block.address
    ends = [(ip_address(sent[at : at + 4]), ip_address(out[at : at + 4])) for at in (26, 30)]
    assert [tuple(map(str, pair)) for pair in ends] == (
        [(inside, public), ("198.19.0.1",) * 2]
        if direction == 0
        else [("198.19.0.1",) * 2, (public, inside)]
    )
    for frame in (sent, out):
        assert int.from_bytes(frame[34 + 2 * direction :][:2]) == port
        assert internet_checksum(frame[14:34]) == 0
        assert read_mark(frame) == (stream.id, number)
    for field in expected_fields(stream, TrafficProfile()):
        listed = field.table[field.width * session :] or field.base.to_bytes(field.width)
        assert out[field.offset :][: field.width] == listed[: field.width]


class Choosing(FrameTester):
    """A tester whose NAT gives port 7000 + n of 203.0.113.n to session n."""

    def exchange(
        self, port: int, frames: Sequence[bytes], **_: Any
    ) -> tuple[list[bytes], list[bytes]]:
        if port == 1:
            return list(frames), []
        chosen = []
        for frame in frames:
            mark = read_mark(frame)
            assert mark is not None
            source = bytes([203, 0, 113, mark[1]])
            ports = (7000 + mark[1]).to_bytes(2) + frame[36:]
            chosen.append(frame[:26] + source + frame[30:34] + ports)
        return [], chosen


def test_what_a_nat_chooses_is_learnt_from_what_comes_out() -> None:
    through = scenario(change=Nat(subscribers=5, ports=4, mapping="learnt"), forwarding="l3")
    tester = Choosing(cast("Any", None), cast("Any", None))
    tester.prepare(through.streams, through.traffic, 64)
    tester.learn(20)
    inward = tester.bound(through.streams[1])
    frame = stream_frame(inward, 64, 20 + 13)
    assert (str(ip_address(frame[30:34])), int.from_bytes(frame[36:38])) == ("203.0.113.13", 7013)
    out = routed(through, inward, frame)
    assert (out[30:34], out[36:38]) == stream_ends(through.streams[0], 13)
    plain = scenario().streams[0]
    assert tester.bound(plain) == plain


def stream_ends(stream: Stream, number: int) -> tuple[bytes, bytes]:
    """Source address and port of a frame."""
    frame = stream_frame(stream, 64, number)
    return frame[26:30], frame[34:36]


def test_each_wire_is_looked_at_in_a_mode_that_it_reaches() -> None:
    can = Cgnat.capabilities
    modes = {case.wire: case.mode for case in other_cases(can)[: len(can.wires) - 1]}
    assert modes == {"veth": "", "memif": "rtc"}


@pytest.mark.parametrize(("name", "hops"), [("phy2phy", 1), ("pvp", 2)])
def test_a_routed_frame_is_older_by_each_hop_and_still_right(name: str, hops: int) -> None:
    world = scenario(name, forwarding="l3")
    frame = stream_frame(world.streams[0], 64, 7)
    found = routed(world, world.streams[0], frame)
    assert found[22] == frame[22] - hops
    assert internet_checksum(found[14:34]) == 0
    assert found[:12] != frame[:12]
    assert found[34:] == frame[34:]


def test_cases_are_those_that_capabilities_promise() -> None:
    little = VSwitchCapabilities(wires=("veth",), attachments=(), chains=False)
    assert [case.id for case in plain_cases(little)] == ["phy2phy"]
    assert [case.id for case in other_cases(little)] == ["phy2phy_veth"]
    much = VSwitchCapabilities(
        wires=("memif", "veth", "nic"),
        attachments=("tap",),
        modes=("a", "b"),
        rules=("port", "learning"),
        forwarding=("l2", "l3"),
    )
    assert [c.id for c in plain_cases(much)] == [
        "phy2phy",
        "pvp",
        "pvvp",
        "pvpv",
        "p2v",
        "v2p",
        "v2v",
    ]
    assert [case.id for case in other_cases(much)] == [
        *("phy2phy_memif", "phy2phy_veth", "phy2phy_b"),
        *("phy2phy_learning", "phy2phy_l3"),
    ]
