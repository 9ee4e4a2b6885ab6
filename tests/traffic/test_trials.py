"""The built-in generator's trials: what the engine is told, and what it is left with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.errors import GeneratorError, TrialTimeoutError
from vnetperf.model.machine_load import DatapathWork
from vnetperf.model.nat import Nat
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import (
    CaptureSpec,
    DirectionCounts,
    Gaps,
    Latency,
    LoadStep,
    QueueGaps,
    TrialResult,
    TrialSpec,
    TrialWindow,
    Verdict,
)
from vnetperf.runner.verdict import judge
from vnetperf.traffic.loadgen import driver, trials
from vnetperf.traffic.loadgen.driver import Loadgen
from vnetperf.traffic.loadgen.engine import Engine
from vnetperf.traffic.loadgen.telemetry import (
    CapturedFrame,
    EngineQueue,
    EngineResult,
    StreamResult,
)
from vnetperf.traffic.loadgen.trials import PreparedStreams, compile_parts, run_part

PROFILE = TrafficProfile()
GRAPH = make_deployment("phy2phy")
STREAMS = make_streams(GRAPH, PROFILE)
BURST = TrialSpec(frame_size=64, load_fps=1.0, duration_s=0.0, burst=10)
PACED = TrialSpec(frame_size=64, load_fps=1e6, duration_s=1.0)
ENDS = tuple(
    WireEnd(wire=n, kind="memif", side="tester", socket=f"/run/w{n}", role="client") for n in (0, 1)
)
PREPARED = PreparedStreams(compile_parts(STREAMS, PROFILE, 64, {}))


@pytest.mark.parametrize(
    ("ring", "fps", "turn_us"),
    [(2048, 1e6, 100), (2048, 10e6, 51), (512, 1e6, 100), (512, 2e6, 64), (64, 1e6, 16)],
)
def test_frames_of_two_turns_take_half_of_a_ring_at_most(
    ring: int, fps: float, turn_us: int
) -> None:
    prepared = replace(PREPARED, rings=(trials.PortRings(ring, ring),) * 2, turn_us=100)
    loads = prepared.loads(PACED.model_copy(update={"load_fps": fps}))
    assert prepared.choose_turn_us(loads) == turn_us
    assert 2 * turn_us * fps / 1e6 <= ring / 2 or turn_us == trials.LEAST_TURN_US
    assert not replace(prepared, turn_us=0).choose_turn_us(loads)
    assert prepared.choose_turn_us(prepared.loads(BURST)) == 100


class Double:
    """An engine that takes everything, unless told otherwise."""

    def __init__(self) -> None:
        self.stopped = 0
        self.started: list[Any] = []
        self.raises: BaseException | None = None
        self.neighbours: list[int] = []
        self.learnt: list[float] = []
        self.sessions: list[int] = []
        self.streams = 0
        self.takes_fps = 1e9
        self.frames: tuple[CapturedFrame, ...] = ()

    def learn(self, frames: int, *, rate: float, **_: Any) -> int:
        self.sessions.append(frames)
        self.learnt.append(rate)
        return round(self.streams * frames * min(1.0, self.takes_fps / rate))

    def capture(self, frames: int, what: str) -> None:
        del frames, what
        self.frames = ()

    def captured(self) -> tuple[CapturedFrame, ...]:
        return self.frames

    def start(self, spec: Any) -> None:
        self.started.append(spec)
        raise self.raises or GeneratorError("far enough")

    def stop(self) -> None:
        self.stopped += 1
        raise GeneratorError("nothing to stop", accepted="a trial")

    def set_streams(self, specs: Any) -> None:
        self.streams = len([*specs])

    def set_neighbours(self, entries: Any, macs: Any) -> None:
        del macs
        self.neighbours.append(len(entries))
        if self.raises is not None:
            raise self.raises


class StoodStill:
    """An engine each of whose queues stood still for 5 ms, twice."""

    def __init__(self) -> None:
        self.queues: list[Any] = []

    def work(self, workers: int) -> tuple[DatapathWork, ...]:
        return ()

    def gaps(self) -> tuple[Gaps, Gaps]:
        longest = Gaps(max_s=0.005, percentiles={"50": 0.0, "99": 0.0, "99.9": 0.005})
        return longest, longest

    def queue_gaps(self, queues: Sequence[EngineQueue]) -> list[QueueGaps]:
        self.queues += queues
        gaps = []
        for queue in queues:
            hold_ns = 0 if queue.ring is None else round(1e9 * queue.ring / queue.rate)
            over_ns = 10_000_000 if 0 < hold_ns < 5_000_000 else 0
            reply = {"worker": 0, "share_ppm": 1_000_000, "max_ns": 5_000_000}
            gaps.append(queue.parse_gaps({**reply, "hold_ns": hold_ns, "over_ns": over_ns}))
        return gaps


def test_a_ring_of_unknown_size_is_taken_for_what_is_sent_after_a_stall() -> None:
    """Where a NIC or the kernel has it, a gap beyond that is judged by its own length."""
    counts = DirectionCounts(
        direction=0,
        intended=1_000_000,
        sent=1_000_000,
        refused=0,
        unsent=0,
        received=999_000,
        tx_seconds=1.0,
    )
    for dut, assumed, hold_s in ((None, True, 0.001024), (2048, False, 0.002048)):
        rings = (trials.PortRings(4096, dut), trials.PortRings(4096, dut))
        prepared = replace(PREPARED, rings=rings)
        gaps = trials.read_gaps(cast("Engine", StoodStill()), prepared, [counts], PACED)
        assert gaps.send.hold_s == pytest.approx(hold_s)
        assert (gaps.send.assumed, gaps.poll.assumed) == (assumed, False)
        assert [one.assumed for one in gaps.direction_queues(0) if one.kind == "send"] == [assumed]
        result = TrialResult(directions=(counts,), gaps=gaps)
        verdict, why = judge(result, 0.001, [0.0])
        assert verdict is Verdict.TESTER_STALLED
        assert ("is taken to hold 1.02 ms" in why) is assumed
        assert gaps.ring_frames == dut
    burst = trials.read_gaps(cast("Engine", StoodStill()), prepared, [counts], BURST)
    assert burst.ring_frames == 2048
    assert burst.send.over_s == 0  # it has no load to catch up with
    assert not any(one.kind == "send" for one in burst.queues)


@pytest.mark.parametrize(
    ("rings", "away", "frames"),
    [
        (((2048, 1), (2048, 1)), (), 2048),
        (((1024, 4), (2048, 1)), (), 2048),  # of the smaller port
        (((2048, 1), (None, 1)), (), None),
        (((2048, 1), (None, 1)), (1,), 2048),  # what another host's port sends into is its to know
        ((), (), None),
    ],
)
def test_the_rings_that_a_port_sends_into_are_known_together(
    rings: tuple[tuple[int | None, int], ...], away: tuple[int, ...], frames: int | None
) -> None:
    known = tuple(trials.PortRings(64, dut, tx_queues=queues) for dut, queues in rings)
    assert replace(PREPARED, rings=known, away=away).dut_ring == frames


def counted(prepared: PreparedStreams, fps: float, last_s: float) -> TrialResult:
    """A result of a trial of a second whose last frames left at `last_s`, with loss."""
    frames = {"intended": round(fps), "sent": round(fps), "received": 1, "altered": 0}
    times = {"tx_first_ns": 0, "tx_last_ns": round(last_s * 1e9)}
    none = Latency(count=0, min_ns=0, mean_ns=0, max_ns=0)
    streams = tuple(
        StreamResult(
            part.spec.id,
            DirectionCounts(direction=part.stream.direction, refused=0, unsent=0, **frames),
            none,
            **times,
            rx_first_ns=None,
            rx_last_ns=None,
        )
        for part in prepared.parts
    )
    result = EngineResult(1, False, 10**9, 10**9, streams, ports=())
    engine, trial = (
        cast("Engine", StoodStill()),
        PACED.model_copy(update={"load_fps": fps, "histogram_up_to_loss": 0.0}),
    )
    return trials.read_counts(engine, prepared, trial, result, refusal_is_loss=True)


def test_groups_leave_at_the_rate_of_the_load_and_not_of_their_starts() -> None:
    """The last of two groups of 65,536 leaves at 0.66 s of the trial's second, a sole one at 0."""
    groups = replace(PREPARED, group=65_536)
    for prepared, fps, last_s in (
        (groups, 100_000.0, 0.65536),
        (groups, 50_000.0, 0.0025),
        (PREPARED, 50_000.0, 1 - 1 / 50_000),
    ):
        for found in counted(prepared, fps, last_s).directions:
            assert found.sent / found.tx_seconds == pytest.approx(fps)


def test_a_port_on_another_host_is_neither_sent_from_nor_polled() -> None:
    parts = compile_parts(STREAMS, PROFILE, 64, {}, away=(1,))
    assert [(part.spec.tx_port, part.spec.away) for part in parts] == [(0, False), (1, True)]
    prepared = PreparedStreams(parts, rings=(trials.PortRings(4096, 2048),) * 2, away=(1,))
    window = TrialWindow(number=9, lead_s=0.25)
    told = trials.engine_trial(prepared, PACED, refusal_is_loss=False, window=window)
    assert (told.epoch, told.delay_s, told.drain_s) == (9, 0.25, PACED.drain_s + 0.25)
    slow = trials.engine_trial(prepared, BURST, refusal_is_loss=False, window=window)
    assert slow.drain_s > BURST.drain_s + 0.25  # the other's burst may take its time
    none = {"refused": 0, "unsent": 0}
    sent = DirectionCounts(direction=0, intended=9, sent=9, received=0, tx_seconds=0.1, **none)
    came = DirectionCounts(direction=1, intended=0, sent=0, received=7, **none)
    engine = StoodStill()
    trials.read_gaps(cast("Engine", engine), prepared, [sent, came], PACED)
    queues = [(queue.way, queue.port, queue.rate) for queue in engine.queues]
    assert queues == [("tx", 0, 90.0), ("rx", 0, PACED.load_fps)]


def test_sending_is_over_before_the_wait_for_frames_in_flight() -> None:
    happened: list[str] = []

    class Sends:
        def start(self, spec: Any) -> None:
            happened.append("start")

        def wait(self, timeout_s: float) -> Any:
            happened.append("wait")
            raise GeneratorError("far enough")

        def stop(self) -> None:
            happened.append("stop")

    def run(spec: TrialSpec) -> None:
        with pytest.raises(GeneratorError, match="far enough"):
            run_part(
                *(cast("Engine", Sends()), PREPARED, spec, lambda: None),
                on_sent=lambda: happened.append("sent"),
                refusal_is_loss=True,
            )

    run(PACED.model_copy(update={"duration_s": 0.01}))
    assert happened == ["start", "sent", "wait", "stop"]
    happened.clear()
    run(BURST)  # whose end is not known before the engine has answered
    assert happened == ["start", "wait", "stop"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorError("no answer")])
def test_a_start_that_is_cut_short_leaves_no_traffic(error: BaseException) -> None:
    double = Double()
    double.raises = error
    with pytest.raises(type(error)):
        run_part(cast("Engine", double), PREPARED, BURST, lambda: None, refusal_is_loss=True)
    assert double.stopped == 1


def test_a_trial_that_did_not_end_has_been_stopped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Double()

    def late(_: float) -> None:  # which stops it
        raise TrialTimeoutError("the engine is still running after 9 s")

    monkeypatch.setattr(engine, "start", lambda _: None)
    monkeypatch.setattr(engine, "wait", late, raising=False)
    with pytest.raises(TrialTimeoutError):
        run_part(cast("Engine", engine), PREPARED, BURST, lambda: None, refusal_is_loss=True)
    assert engine.stopped == 0


def test_bursts_and_trials_are_given_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "patient", lambda seconds: seconds * 5)
    double = Double()
    engine = cast("Engine", double)
    for spec in (BURST, TrialSpec(frame_size=64, load_fps=100, duration_s=1)):
        with pytest.raises(GeneratorError, match="far enough"):
            run_part(engine, PREPARED, spec, lambda: None, refusal_is_loss=True)
    assert [told.max_lag_s for told in double.started] == [trials.MAX_LAG_S * 5] * 2


@pytest.fixture
def tester(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Loadgen, Double]:
    """A tester that is connected, and its engine."""
    plan = Plan(
        scenario=Scenario(deployment=GRAPH, vswitch="none", traffic=PROFILE),
        testbed=Testbed(),
        wire="memif",
        placement=Placement(mode="dedicated", reason="", cores={"tester": (0,)}, housekeeping=(0,)),
        memory=(),
    )
    generator = Loadgen(cast("Any", SimpleNamespace(subdir=lambda _: tmp_path)), plan)
    double = Double()
    monkeypatch.setattr(Engine, "open", lambda *_, **__: double)
    monkeypatch.setattr(driver, "ENGINE", SimpleNamespace(executable=lambda: Path("loadgen")))
    generator.connect(ENDS)
    return generator, double


def test_sessions_are_set_up_at_full_pace_where_streams_are_prepared_anew(
    tester: tuple[Loadgen, Double],
) -> None:
    generator, double = tester
    streams = tuple(one.through(Nat()) for one in STREAMS)
    for _ in range(2):
        generator.prepare(streams, PROFILE, 64)
        for _ in range(5):  # sessions are lost each time: no trial follows
            generator.learn(100_000)
    assert double.learnt == [
        *(rate for _ in range(2) for rate in (40e3, 40e3, 20e3, 20e3, 10e3, 10e3, *[5e3] * 4))
    ]


@pytest.mark.parametrize(
    ("takes_fps", "rates", "again"),
    [
        (1e9, [500e3], [500e3]),
        (200e3, [500e3, 160e3], [160e3]),  # and so at once before the next trial
        (1e3, [500e3, 125e3, 125e3], [125e3] * 3),  # no slower than takes 8 s
        (0.0, [500e3], [500e3]),  # no link: a path check will tell
    ],
)
def test_every_flow_has_been_seen_before_a_trial(
    takes_fps: float, rates: list[float], again: list[float], tester: tuple[Loadgen, Double]
) -> None:
    generator, double = tester
    generator.prepare(STREAMS, PROFILE, 64)
    double.takes_fps = takes_fps
    generator.learn(1_000_000)
    assert double.learnt == rates
    generator.learn(1_000_000)
    assert double.learnt[len(rates) :] == again


def test_what_a_wire_took_of_few_frames_is_no_rate_for_many(tester: tuple[Loadgen, Double]) -> None:
    generator, double = tester
    generator.prepare(STREAMS, PROFILE, 64)
    double.takes_fps = 5e3  # a path check before the wire is there
    generator.learn(8)
    assert double.learnt == [10e3] * 3
    double.takes_fps = 1e9
    generator.learn(1_000_000)
    assert double.learnt[3:] == [500e3]
    double.takes_fps = 400e3
    generator.learn(1_000_000)
    generator.prepare(STREAMS, PROFILE, 128)  # another size may be carried faster
    generator.learn(1_000_000)
    assert double.learnt[4:] == [500e3, 320e3, 500e3, 320e3]


def test_what_a_trial_kept_is_there_after_a_path_check(tester: tuple[Loadgen, Double]) -> None:
    generator, double = tester
    kept = CaptureSpec(frames=10)

    def begin(capture: CaptureSpec | None) -> None:
        with pytest.raises(GeneratorError, match="far enough"):
            generator.run(PACED.model_copy(update={"capture": capture}), lambda: None)

    begin(kept)
    double.frames = (CapturedFrame(0, 0, 0, "sent", b"\0" * 60, 60),)
    begin(None)
    assert double.frames == ()
    assert list(generator.captured()) == ["port0-sent.pcap"]
    begin(kept)
    assert generator.captured() == {}
    double.frames = (CapturedFrame(0, 1, 0, "received", b"\0" * 60, 60),)
    assert list(generator.captured()) == ["port1-received.pcap"]


def test_sessions_of_a_mix_are_each_set_up(tester: tuple[Loadgen, Double]) -> None:
    generator, double = tester
    streams = tuple(one.through(Nat()) for one in STREAMS)
    generator.prepare(streams, PROFILE.model_copy(update={"imix": "aaaaaaabbbbc"}), 0)
    of_mix = double.streams
    assert of_mix > 2
    generator.learn(1200)
    assert double.sessions == [1200, 1200]
    assert double.streams == of_mix


def test_neighbours_are_told_again_after_a_refusal(tester: tuple[Loadgen, Double]) -> None:
    generator, double = tester
    generator.prepare(STREAMS, PROFILE, 64)
    generator.prepare(STREAMS, PROFILE, 128)
    assert double.neighbours == [2]  # once for all sizes
    double.raises = GeneratorError("too many", accepted="1024")
    silent = PROFILE.model_copy(update={"answers": "none"})
    with pytest.raises(GeneratorError, match="too many"):
        generator.prepare(STREAMS, silent, 64)
    double.raises = None
    generator.prepare(STREAMS, PROFILE, 64)  # what it held before the refusal, it holds no more
    assert double.neighbours == [2, 0, 2]


def told_of(spec: TrialSpec, *, refusal_is_loss: bool) -> Any:
    double = Double()
    with pytest.raises(GeneratorError, match="far enough"):
        run_part(
            cast("Engine", double),
            PREPARED,
            spec,
            lambda: None,
            refusal_is_loss=refusal_is_loss,
        )
    return double.started[0]


def test_a_burst_gives_a_full_ring_no_time_where_it_is_the_switchs() -> None:
    spec = TrialSpec(frame_size=64, load_fps=1e6, duration_s=0.01, burst=100, drain_s=2.0)
    at_once, patient = told_of(spec, refusal_is_loss=True), told_of(spec, refusal_is_loss=False)
    assert (at_once.policy, patient.policy) == ("drop", "retry")
    for told in (at_once, patient):
        assert {(load.rate, load.count) for load in told.loads.values()} == {(None, 100)}
        assert (told.duration_s, told.drain_s) == (None, 2.0)


def test_a_load_that_changes_is_told_as_shares_of_the_largest() -> None:
    steps = (LoadStep(load_fps=500, duration_s=1), LoadStep(load_fps=1000, duration_s=2))
    spec = TrialSpec(
        frame_size=64, load_fps=1000, duration_s=3, steps=steps, bin_s=0.5, tag_at_s=1, ipdv=True
    )
    told = told_of(spec, refusal_is_loss=True)
    assert told.steps == ((0.5, 1), (1.0, 2))
    assert told.duration_s is None
    assert {(load.rate, load.count) for load in told.loads.values()} == {(1000.0, None)}
    assert (told.bin_s, told.tag_at_s, told.ipdv) == (0.5, 1, True)
    assert told.parameters()["steps"] == "0.5@1.0/1.0@2.0"
