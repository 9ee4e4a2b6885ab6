"""Contract kit: single frames through a vSwitch, with every header it must carry."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path
from typing import Any

import pytest

from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.host.linux import read_file
from vnetperf.host.wait import wait_for
from vnetperf.model.deployment import dut_mac, port_mac
from vnetperf.model.scenario import Scenario
from vnetperf.model.traffic import Stream
from vnetperf.plugin.compiled_frames import ETH_LEN, IPV4_LEN
from vnetperf.testing.cases import Case
from vnetperf.testing.frames import (
    BATCH,
    FrameTester,
    checksummed,
    read_mark,
    stream_frame,
    with_ends,
)
from vnetperf.testing.stage import Contract, Stage

#: Tags by the name of their standard: outermost first.
TAGS = {
    "802.1Q": struct.pack("!HH", 0x8100, 101),
    "802.1p": struct.pack("!HH", 0x8100, 7 << 13),
    "QinQ": struct.pack("!HHHH", 0x8100, 101, 0x8100, 102),
    "802.1ad": struct.pack("!HHHH", 0x88A8, 101, 0x8100, 102),
}
#: Destinations nobody has.
STRANGERS = {
    "broadcast": "ff:ff:ff:ff:ff:ff",
    "IPv4 multicast": "01:00:5e:01:02:03",
    "IPv6 multicast": "33:33:00:01:02:03",
    "unknown unicast": "02:00:00:00:be:ef",
}
IPV4_TTL, UDP_CHECKSUM = ETH_LEN + 8, ETH_LEN + IPV4_LEN + 6
ADDRESSES = 12


def tagged(frame: bytes, tags: bytes) -> bytes:
    """Put VLAN tags into a frame.

    Args:
        frame: Octets without FCS.
        tags: Outermost first.

    Returns:
        The frame with tags.
    """
    return frame[:ADDRESSES] + tags + frame[ADDRESSES:]


def addressed(frame: bytes, mac: str) -> bytes:
    """Give a frame another destination.

    Args:
        frame: Octets without FCS.
        mac: Destination.

    Returns:
        The frame.
    """
    return bytes.fromhex(mac.replace(":", "")) + frame[6:]


def contents(stream: Stream) -> dict[str, bytes]:
    """Frames between a stream's addresses, each of another protocol.

    Args:
        stream: The stream.

    Returns:
        Kind -> octets without FCS. What is not UDP has a body of chance.
    """
    plain = stream_frame(stream, 128, 1)

    def make_frame(number: int) -> bytes:
        return plain[:ADDRESSES] + struct.pack("!H", number) + stream_frame(stream, 128, 2)[42:]

    return {
        "IPv4": plain,
        "IPv4 with a wrong UDP checksum": _with(plain, UDP_CHECKSUM, 0xBEEF),
        "IPv6": make_frame(0x86DD),
        "ARP": make_frame(0x0806),
        "an unknown protocol": make_frame(0x88B5),
        "LLC, with a length": make_frame(64),
    }


def _with(frame: bytes, place: int, value: int) -> bytes:
    return frame[:place] + struct.pack("!H", value) + frame[place + 2 :]


def routed(scenario: Scenario, stream: Stream, frame: bytes, routers: int = 0) -> bytes:
    """What a router, or a NAT, makes of a stream's frame on its whole way.

    Args:
        scenario: What is deployed.
        stream: The stream.
        frame: As sent, octets without FCS.
        routers: How many routed it; 0 for the vSwitch alone, at each of its hops.

    Returns:
        As it must come out: a hop less to live for each time that it was routed, and from a NAT
        with the other side of its session.
    """
    deployment = scenario.deployment
    path = deployment.path(deployment.ends[stream.direction], stream.chain)
    out = path[-1]
    macs = port_mac(deployment, out, stream.chain) + dut_mac(out)
    frame = bytes.fromhex(macs.replace(":", "")) + frame[ADDRESSES:]
    ttl = frame[IPV4_TTL] - (routers or len(path) // 2)
    frame = frame[:IPV4_TTL] + bytes([ttl]) + frame[IPV4_TTL + 1 :]
    if stream.change is not None and (mark := read_mark(frame)):
        side = stream.change.sides()[1 - stream.direction]
        frame = with_ends(frame, mark[1] % stream.change.sessions, side, stream.direction)
    return checksummed(frame)


#: Longest wait for a stopped process to stand still, seconds.
STOP_S = 5.0
#: Where no frame can come out that was sent later: none comes when none has for so long, seconds.
SILENCE_S = 0.5
#: Number of a frame that is sent after those that are looked at.
AFTER = 99
RFC2544_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)


class Sighting(Contract):
    """Looks at single frames, for the tests of any part."""

    def _frame_scenario(self, case: Case, stage: Stage) -> Scenario:
        """The scenario of a case for single frames, up to the largest that everything carries."""
        largest = stage.largest_frame(case)
        return stage.scenario(case, FrameTester.name, frame_sizes=(64, largest))

    def _readdressed(self, scenario: Scenario) -> bool:
        """Whether a VNF, or the vSwitch in this mode, writes addresses of its own into frames."""
        by_vnf = scenario.deployment.vnf_count > 0 and scenario.vnf_mode != "io"
        return by_vnf or scenario.options.mode in self.backend.capabilities.rewriting_modes

    def _streams(self, deployment: LiveDeployment) -> tuple[Stream, ...]:
        """Streams with the mappings that a NAT was seen to have."""
        tester = deployment.generator
        assert isinstance(tester, FrameTester)
        return tuple(tester.bound(stream) for stream in deployment.plan.scenario.streams)

    def _passes(
        self, deployment: LiveDeployment, port: int, frames: list[bytes], description: str
    ) -> None:
        """Assert that frames sent into a port come out of the other, and nothing else anywhere."""
        scenario = deployment.plan.scenario
        stream = next(s for s in self._streams(deployment) if s.tx_port == port)
        back, out = send_frames(deployment, port, frames)
        assert back == [], f"{description}: {len(back)} frames came back to tester port {port}"
        if scenario.routed:
            due = [routed(scenario, stream, frame) for frame in frames]
        elif self._readdressed(scenario):
            due, out = [f[ADDRESSES:] for f in frames], [f[ADDRESSES:] for f in out]
        else:
            due = frames
        assert len(out) == len(due), f"{description}: {len(due)} frames in, {len(out)} out"
        for went, came in zip(sorted(due), sorted(out), strict=True):
            assert came.hex(" ") == went.hex(" "), f"{description}: not the frame that went in"

    def _until_the_next(
        self, deployment: LiveDeployment, port: int, frames: list[bytes], description: str
    ) -> tuple[list[bytes], list[bytes]]:
        """What came of frames by the time that an ordinary one, sent after them, came out."""
        stream = next(s for s in self._streams(deployment) if s.tx_port == port)
        after = (stream.id, AFTER)
        sent = [*frames, stream_frame(stream, 64, AFTER)]
        back, out = send_frames(deployment, port, sent, last=after)
        assert after in map(read_mark, out), f"{description}: an ordinary frame after it was lost"
        return back, [frame for frame in out if read_mark(frame) != after]


class SingleFrames(Sighting):
    """What goes in comes out, once, where it should, and nowhere else."""

    def test_frames_come_out_as_they_went_in(self, look: Case, stage: Stage) -> None:
        """Every octet, once, at the right port and nowhere else; a router ages and readdresses."""
        scenario = self._frame_scenario(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in self._streams(deployment):
                for kind, frame in contents(stream).items():
                    if (scenario.routed or scenario.rules == "stream") and kind != "IPv4":
                        continue  # only the streams' own frames are forwarded
                    self._passes(deployment, stream.tx_port, [frame], kind)

    def test_all_frame_sizes(self, look: Case, stage: Stage) -> None:
        """From 64 octets to the largest that it declares."""
        scenario = self._frame_scenario(look, stage)
        largest = scenario.max_frame_size
        sizes = [*range(64, 72), *RFC2544_SIZES, *range(1519, largest, 997), largest - 1, largest]
        with stage.deployed(scenario) as deployment:
            for stream in self._streams(deployment):
                frames = [stream_frame(stream, size, size) for size in dict.fromkeys(sizes)]
                for start in range(0, len(frames), BATCH):
                    some = frames[start : start + BATCH]
                    self._passes(deployment, stream.tx_port, some, f"sizes from {len(some[0]) + 4}")

    @pytest.mark.parametrize("standard", TAGS)
    def test_vlan_tags_pass(self, standard: str, untagged: Case, stage: Stage) -> None:
        """Tags are part of the frame: the vSwitch has no VLAN configuration.

        Without a VNF, whose driver may know VLANs, and where more than the streams' own frames,
        which have no tag, is forwarded.
        """
        scenario = self._frame_scenario(untagged, stage)
        with stage.deployed(scenario) as deployment:
            for stream in self._streams(deployment):
                frame = tagged(stream_frame(stream, 64, 3), TAGS[standard])
                self._passes(deployment, stream.tx_port, [frame], standard)

    @pytest.mark.parametrize("stranger", STRANGERS)
    def test_frames_for_nobody(self, stranger: str, look: Case, stage: Stage) -> None:
        """By port every frame goes on; one that learns floods; a router drops; none comes back."""
        scenario = self._frame_scenario(look, stage)
        only_streams = scenario.rules == "stream"
        with stage.deployed(scenario) as deployment:
            for stream in self._streams(deployment):
                frame = addressed(stream_frame(stream, 64, 4), STRANGERS[stranger])
                if not (scenario.routed or only_streams or scenario.addressing == "port"):
                    self._passes(deployment, stream.tx_port, [frame], stranger)
                    continue
                back, out = self._until_the_next(deployment, stream.tx_port, [frame], stranger)
                if scenario.routed and "multicast" not in stranger:
                    assert out == [], f"a router forwarded a frame for {stranger}"
                else:
                    assert back == [], f"a frame for {stranger} came back to its sender"

    def test_no_way_leads_round_a_vnf(self, with_vnf: Case, stage: Stage) -> None:
        """While the VNF stands still nothing arrives: ports without a hop are apart."""
        scenario = self._frame_scenario(with_vnf, stage)
        with stage.used_up(scenario) as deployment:
            pids = {poller.pid for vnf in deployment.vnfs for poller in vnf.pollers()}
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                _wait_stopped(pids)
                for stream in self._streams(deployment):
                    frames = [stream_frame(stream, 64, n) for n in range(BATCH)]
                    back, out = send_frames(
                        deployment, stream.tx_port, frames, expect=0, quiet_s=SILENCE_S
                    )
                    assert back == []
                    assert out == [], "frames got past a VNF that does not run"
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)


def _wait_stopped(pids: set[int]) -> None:
    """Wait until every thread stands still: a signal has not arrived when it has been sent."""
    wait_for(
        lambda: all(_state(task) in "Tt" for pid in pids for task in _tasks(pid)),
        STOP_S,
        "the VNF's threads to stop",
    )


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _state(task: Path) -> str:
    return read_file(task / "stat").rpartition(")")[2].split()[0]


def send_frames(
    deployment: LiveDeployment, port: int, frames: list[bytes], **until: Any
) -> tuple[list[bytes], list[bytes]]:
    """Send frames into a tester port: what came back there, what came out of the other.

    A late frame of the other way has not come back: the kernel's macvlan passes multicast on by a
    work queue, after frames that were sent later.
    """
    tester = deployment.generator
    assert isinstance(tester, FrameTester)
    caught = tester.exchange(port, frames, **until)
    sent = {mark[0] for frame in frames if (mark := read_mark(frame))}
    back = [
        f for f in caught[port] if not ((mark := read_mark(f)) and sent and mark[0] not in sent)
    ]
    return back, caught[1 - port]
