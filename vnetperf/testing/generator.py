"""Contract kit of traffic generators: each one looped to itself.

A plugin's tests name the backend once: `class TestMine(GeneratorContract): generator = "mine"`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import ClassVar

import pytest

from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment import calibrate, deploy
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.errors import CapabilityError, GeneratorError
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import make_streams
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.planning.planner import make_loop_plan
from vnetperf.plugin.generator import NUMBERED, TrafficGenerator
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.stage import TURN_S, configuration, kill, repeat_trial, skip_or_fail


@dataclass(frozen=True)
class Loop:
    """A generator in a loop.

    Attributes:
        generator: The generator, connected.
        ends: Both ends of the wire, the one that listens first.
    """

    generator: TrafficGenerator
    ends: tuple[WireEnd, WireEnd]

    def connect(self) -> None:
        """Connect the generator again; a socket that it left is not in its way."""
        for end in self.ends:
            if end.socket:
                Path(end.socket).unlink(missing_ok=True)
        self.generator.connect(self.ends)
        # Whatever else the machine does must not pass for the generator's limit.
        deploy.set_slices_and_nice(self.generator.pollers(), self.generator.plan.placement.slice_us)


@contextmanager
def looped(name: str, wire: str, testbed: Testbed | None = None) -> Iterator[Loop]:
    """Connect a generator to itself, as a calibration does; skips what cannot be had here.

    Args:
        name: Registered name of the generator.
        wire: Kind of wire.
        testbed: Testbed; None for that of whoever runs the tests.

    Yields:
        The loop.
    """
    if os.geteuid() != 0:
        skip_or_fail(name, "generators are looped for real, which needs root: run pytest with sudo")
    settings = configuration({"generator": name, "wire": wire, "preset": "smoke"})
    testbed = (testbed or settings.testbed).model_copy(update={"lock_timeout_s": TURN_S})
    facts = take_inventory(testbed)
    try:
        plan = make_loop_plan(make_scenario("phy2phy_dpdk", settings), testbed, facts)
    except CapabilityError as error:
        skip_or_fail(name, str(error).replace("\n", ";"))
    with calibrate.looped(plan, facts) as (generator, ends):
        yield Loop(generator, ends)


#: Slow enough for any generator on any machine; and what no virtual wire carries.
EASY_FPS, FLOOD_FPS = 2000.0, 40e6
TRIAL_S, DRAIN_S = 0.3, 0.2
LONG_S, KILL_AFTER_S = 4.0, 0.5
FLOWS = TrafficProfile(flows=100, vary=("udp_src", "ipv4_dst"))


def trial_spec(
    frame_size: int = 64, fps: float = EASY_FPS, duration_s: float = TRIAL_S
) -> TrialSpec:
    """A trial of the kit.

    Args:
        frame_size: Octets including FCS.
        fps: Load of each port, frames/s.
        duration_s: Seconds.

    Returns:
        The trial.
    """
    return TrialSpec(frame_size=frame_size, load_fps=fps, duration_s=duration_s, drain_s=DRAIN_S)


def prepare(
    generator: TrafficGenerator, frame_size: int = 64, profile: TrafficProfile | None = None
) -> None:
    """Have a generator ready to send both ways.

    Args:
        generator: The generator, connected.
        frame_size: Octets including FCS.
        profile: What is sent; None for one flow.
    """
    profile = profile or TrafficProfile()
    streams = make_streams(make_deployment("phy2phy"), profile)
    generator.prepare(streams, profile, frame_size)


class GeneratorContract:
    """What any generator must do, its two ports being the two ends of one wire.

    Attributes:
        generator: Registered name of the generator.
        wire: Kind of wire of the loop.
        tolerance: Accepted relative difference of the rate frames leave at to the load.
    """

    generator: ClassVar[str] = ""
    wire: ClassVar[str] = "memif"
    tolerance: ClassVar[float] = 0.02

    @classmethod
    @contextmanager
    def loop(cls) -> Iterator[Loop]:
        """Where the generator is connected to itself; a subclass may have another machine.

        Yields:
            The loop.
        """
        with looped(cls.generator, cls.wire) as loop:
            yield loop

    @pytest.fixture(scope="class")
    @classmethod
    def everyones(cls) -> Iterator[Loop]:
        """The loop of all tests: the machine is taken once."""
        with cls.loop() as loop:
            yield loop

    @pytest.fixture
    def shared(self, everyones: Loop) -> TrafficGenerator:
        """The generator of all tests, which leave it working."""
        return everyones.generator

    @pytest.mark.parametrize("frame_size", [64, 1518])
    def test_all_frames_come_back_and_are_counted(
        self, frame_size: int, shared: TrafficGenerator
    ) -> None:
        """As many as the load makes are sent, and all of them are received."""
        prepare(shared, frame_size)
        assert shared.links_down() == ()
        trial = _lossless(shared, trial_spec(frame_size))
        assert [d.direction for d in trial.directions] == [0, 1]
        for counts in trial.directions:
            assert counts.intended == counts.sent == counts.received == EASY_FPS * TRIAL_S

    @pytest.mark.parametrize("fps", [500.0, 20_000.0])
    def test_the_load_is_met(self, fps: float, shared: TrafficGenerator) -> None:
        """The rate that frames leave at is that of the trial."""
        prepare(shared)
        spec = trial_spec(fps=fps, duration_s=1.0)
        trial = _lossless(shared, spec)
        for counts in trial.directions:
            assert counts.sent / counts.tx_seconds == pytest.approx(fps, rel=self.tolerance)

    def test_missing_counts_have_a_reason(self, shared: TrafficGenerator) -> None:
        """None is a count that the generator cannot make, and there is a reason; 0 is a count."""
        prepare(shared)
        trial = _lossless(shared, trial_spec())
        for counts in trial.directions:
            for name in NUMBERED:
                value = getattr(counts, name)
                assert value == 0 or (value is None and trial.uncollected.get(name)), name

    def test_latency_counts_frames_that_came_back(self, shared: TrafficGenerator) -> None:
        """Shortest, mean and longest are in order; a histogram is there where it is promised."""
        prepare(shared)
        trial = _lossless(shared, trial_spec(duration_s=1.0))
        for counts in trial.directions:
            latency = counts.latency
            if latency is None:
                assert not shared.capabilities.latency_histogram
                continue
            assert 0 < latency.min_ns <= latency.mean_ns <= latency.max_ns < 1e9
            assert 0 < latency.count <= 1.05 * counts.received
            if shared.capabilities.latency_histogram:
                assert latency.percentiles
                assert latency.hdr

    def test_trials_do_not_mix(self, shared: TrafficGenerator) -> None:
        """A trial after another counts its own frames only, whatever the first one was."""
        prepare(shared)
        shared.run(trial_spec(fps=FLOOD_FPS, duration_s=0.1), _no_frames)
        trial = _lossless(shared, trial_spec())
        assert {d.sent for d in trial.directions} == {EASY_FPS * TRIAL_S}

    def test_overload_is_accounted_for(self, shared: TrafficGenerator) -> None:
        """Frames beyond its limit are unsent or refused; no frame is out of nothing."""
        prepare(shared)
        trial = shared.run(trial_spec(fps=FLOOD_FPS, duration_s=0.2), _no_frames)
        for counts in trial.directions:
            assert counts.intended == counts.sent + counts.refused + counts.unsent
            assert counts.unsent + counts.refused > 0
            assert 0 < counts.received <= counts.sent
            assert counts.sent / counts.tx_seconds < FLOOD_FPS

    def test_learning_frames_are_not_counted(self, shared: TrafficGenerator) -> None:
        """What is sent before a trial is not the trial's."""
        prepare(shared)
        shared.learn(200)
        trial = _lossless(shared, trial_spec())
        assert {d.received for d in trial.directions} == {EASY_FPS * TRIAL_S}

    def test_many_flows_come_back(self, shared: TrafficGenerator) -> None:
        """Varied fields and the checksums over them are no reason to lose frames."""
        prepare(shared, 128, FLOWS)
        _lossless(shared, trial_spec(128))

    def test_single_direction_can_be_sent(self, shared: TrafficGenerator) -> None:
        """The port that does not send counts as little as it sends."""
        prepare(shared, 64, TrafficProfile(bidirectional=False))
        trial = _lossless(shared, trial_spec())
        assert [d.direction for d in trial.directions] == [0]

    def test_a_watch_that_raises_ends_the_traffic(self, shared: TrafficGenerator) -> None:
        """What it raises is seen outside, soon, and no frame of the trial is under way then."""
        prepare(shared)

        def raises() -> None:
            raise KeyError("the DUT has died")

        began = time.monotonic()
        with pytest.raises(KeyError):
            shared.run(trial_spec(duration_s=LONG_S), raises)
        assert time.monotonic() - began < LONG_S
        trial = _lossless(shared, trial_spec())
        assert {d.sent for d in trial.directions} == {EASY_FPS * TRIAL_S}

    def test_bursts_are_exact_or_refused(self, shared: TrafficGenerator) -> None:
        """A generator that promises exact bursts sends exactly so many frames."""
        prepare(shared)
        spec = trial_spec().model_copy(update={"burst": 100})
        if not shared.capabilities.exact_bursts:
            assert shared.lacks(spec)
            return
        trial = shared.run(spec, _no_frames)
        assert {d.sent for d in trial.directions} == {100}

    def test_facts_name_version_and_threads(self, shared: TrafficGenerator) -> None:
        """Version and busy threads, for the result."""
        assert shared.facts()["version"]
        assert all(poller.role == "tester" for poller in shared.pollers())

    def test_its_death_in_a_trial_is_no_number(self, everyones: Loop) -> None:
        """A generator that is killed while it sends is an error, and it can be started again."""
        generator = everyones.generator
        prepare(generator)
        pids = {poller.pid for poller in generator.pollers()}
        assert pids, "no process to kill"
        timer = Timer(KILL_AFTER_S, kill, [pids])
        timer.start()
        try:
            with pytest.raises(GeneratorError) as caught:
                generator.run(trial_spec(duration_s=LONG_S), _no_frames)
        finally:
            timer.join()
            generator.close()
            everyones.connect()
        assert str(caught.value)
        prepare(generator)
        _lossless(generator, trial_spec())

    def test_closing_twice_is_closing_once(self, everyones: Loop) -> None:
        """`close` is idempotent; a closed generator has no busy threads and runs no trial."""
        generator = everyones.generator
        generator.close()
        generator.close()
        try:
            assert generator.pollers() == ()
            with pytest.raises(GeneratorError):
                generator.run(trial_spec(), _no_frames)
        finally:
            everyones.connect()


def _no_frames() -> None:
    return


def _lossless(generator: TrafficGenerator, spec: TrialSpec) -> TrialResult:
    """A trial in which every frame came back, of a few."""
    trial = repeat_trial(lambda: generator.run(spec, _no_frames), all_sent=True)
    for counts in trial.directions:
        assert counts.intended == counts.sent == counts.received > 0, f"{counts}"
    return trial
