"""Contract kit: single frames of any kind, octet by octet, and where they come out."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from vnetperf.host.patience import patient
from vnetperf.model.scenario import Scenario
from vnetperf.testbed.deploy import Deployment
from vnetperf.testing.cases import Case
from vnetperf.testing.contract import Contract
from vnetperf.testing.frames import BATCH, FrameTester, stream_frame
from vnetperf.testing.headers import ADDRESSES, STRANGERS, TAGS, addressed, contents, routed, tagged
from vnetperf.testing.stage import Stage

#: Longest wait for a stopped process to stand still, seconds.
STOP_S = 5.0
RFC2544_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)


class Sight(Contract):
    """Looks at single frames, for the tests of any part."""

    def _seen(self, case: Case, stage: Stage) -> Scenario:
        """The scenario of a case for single frames, up to the largest that everything carries."""
        largest = stage.largest_frame(case)
        return stage.scenario(case, FrameTester.name, frame_sizes=(64, largest))

    def _readdressed(self, scenario: Scenario) -> bool:
        """Whether a VNF, or the vSwitch in this mode, writes addresses of its own into frames."""
        by_vnf = scenario.deployment.vnf_count > 0 and scenario.vnf_mode != "io"
        return by_vnf or scenario.options.mode in self.backend.capabilities.rewriting_modes

    def _passes(self, deployment: Deployment, port: int, frames: list[bytes], what: str) -> None:
        """Assert that frames sent into a port come out of the other, and nothing else anywhere."""
        scenario = deployment.plan.scenario
        stream = next(s for s in scenario.streams if s.tx_port == port)
        back, out = both(deployment, port, frames)
        assert back == [], f"{what}: {len(back)} frames came back to tester port {port}"
        if scenario.routed:
            due = [routed(scenario, stream, frame) for frame in frames]
        elif self._readdressed(scenario):
            due, out = [f[ADDRESSES:] for f in frames], [f[ADDRESSES:] for f in out]
        else:
            due = frames
        assert len(out) == len(due), f"{what}: {len(due)} frames in, {len(out)} out"
        for went, came in zip(sorted(due), sorted(out), strict=True):
            assert came.hex(" ") == went.hex(" "), f"{what}: not the frame that went in"


class SingleFrames(Sight):
    """What goes in comes out, once, where it should, and nowhere else."""

    def test_frames_come_out_as_they_went_in(self, look: Case, stage: Stage) -> None:
        """Every octet, once, at the right port and nowhere else; a router ages and readdresses."""
        scenario = self._seen(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                for kind, frame in contents(stream).items():
                    if (scenario.routed or scenario.rules == "stream") and kind != "IPv4":
                        continue  # only the streams' own frames are forwarded
                    self._passes(deployment, stream.tx_port, [frame], kind)

    def test_every_frame_size(self, look: Case, stage: Stage) -> None:
        """From 64 octets to the largest it says it carries."""
        scenario = self._seen(look, stage)
        largest = scenario.max_frame_size
        sizes = [*range(64, 72), *RFC2544_SIZES, *range(1519, largest, 997), largest - 1, largest]
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                frames = [stream_frame(stream, size, size) for size in dict.fromkeys(sizes)]
                for start in range(0, len(frames), BATCH):
                    some = frames[start : start + BATCH]
                    self._passes(deployment, stream.tx_port, some, f"sizes from {len(some[0]) + 4}")

    @pytest.mark.parametrize("standard", TAGS)
    def test_vlan_tags_pass(self, standard: str, look: Case, stage: Stage) -> None:
        """Tags are part of the frame: nobody asked the vSwitch to know VLANs."""
        if look.has_vnfs:
            pytest.skip("a VNF's driver may know VLANs; the vSwitch is looked at without one")
        if look.forwarding == "l3" or look.rules == "stream":
            pytest.skip("only the streams' own frames, which have no tag, are forwarded")
        scenario = self._seen(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                frame = tagged(stream_frame(stream, 64, 3), TAGS[standard])
                self._passes(deployment, stream.tx_port, [frame], standard)

    @pytest.mark.parametrize("who", STRANGERS)
    def test_frames_for_nobody(self, who: str, look: Case, stage: Stage) -> None:
        """By port every frame goes on; one that learns floods; a router drops; none comes back."""
        scenario = self._seen(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                frame = addressed(stream_frame(stream, 64, 4), STRANGERS[who])
                if scenario.routed and "multicast" not in who:
                    _, out = both(deployment, stream.tx_port, [frame])
                    assert out == [], f"a router forwarded a frame for {who}"
                elif scenario.routed or scenario.rules == "stream" or scenario.addressing == "port":
                    back, _ = both(deployment, stream.tx_port, [frame])
                    assert back == [], f"a frame for {who} came back to its sender"
                else:
                    self._passes(deployment, stream.tx_port, [frame], who)

    def test_no_way_leads_round_a_vnf(self, with_vnf: Case, stage: Stage) -> None:
        """While the VNF stands still nothing arrives: ports without a hop are apart."""
        scenario = self._seen(with_vnf, stage)
        with stage.used_up(scenario) as deployment:
            pids = {poller.pid for vnf in deployment.vnfs for poller in vnf.pollers()}
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                _wait_stopped(pids)
                for stream in scenario.streams:
                    frames = [stream_frame(stream, 64, n) for n in range(BATCH)]
                    back, out = both(deployment, stream.tx_port, frames)
                    assert back == []
                    assert out == [], "frames got past a VNF that does not run"
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)


def _wait_stopped(pids: set[int]) -> None:
    """Wait until every thread stands still: a signal has not arrived when it has been sent."""
    deadline = time.monotonic() + patient(STOP_S)
    while not all(_state(task) in "Tt" for pid in pids for task in _tasks(pid)):
        assert time.monotonic() < deadline, "the VNF cannot be stopped"
        time.sleep(0.01)


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def both(deployment: Deployment, port: int, frames: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Send frames into a tester port: what came back there, what came out of the other."""
    tester = deployment.generator
    assert isinstance(tester, FrameTester)
    caught = tester.exchange(port, frames)
    return caught[port], caught[1 - port]
