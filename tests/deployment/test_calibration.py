"""How a generator's clean maximum is found: by trials of a second, several times."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf.deployment import calibrate
from vnetperf.deployment.calibrate import LONG_S, REPEATS, find_clean_maximum, unclean
from vnetperf.model.calibration import agree
from vnetperf.model.errors import GeneratorError
from vnetperf.model.trial import DirectionCounts, Gaps, TrialGaps, TrialResult


def standing_still(seconds: float, hold_s: float = 0.002) -> TrialGaps:
    """The gaps of a tester that stood still once."""
    over_s = seconds if seconds > hold_s else 0.0
    gaps = Gaps(max_s=seconds, hold_s=hold_s, over_s=over_s)
    return TrialGaps(poll=gaps, send=gaps, catch_up_frames=1024)


class Loop:
    """A generator on a loop: it can send so much, and the wire takes or carries so much.

    Args:
        tester_fps: Most it sends, frames/s of each port.
        wire_fps: Most the wire takes.
        carried_fps: Most that comes back.
        stall_share: Share of trials of a second in which it stands still for 20 ms.
        burst_s: For how long a faster rate comes through, seconds: short trials see more.
    """

    def __init__(
        self,
        tester_fps: float = 9e6,
        wire_fps: float = 9e6,
        carried_fps: float = 9e6,
        stall_share: float = 0.0,
        burst_s: float = 0.0,
    ) -> None:
        self.tester_fps, self.wire_fps, self.carried_fps = tester_fps, wire_fps, carried_fps
        self.stall_share, self.burst_s = stall_share, burst_s
        self.random = random.Random(1)
        self.trials: list[tuple[float, float]] = []

    def __call__(self, load_fps: float, duration_s: float = 0.15) -> TrialResult:
        self.trials.append((load_fps, duration_s))
        stalled = self.random.random() < self.stall_share * duration_s
        intended = round(load_fps * duration_s)
        due = min(intended, round(self.tester_fps * duration_s)) - (1000 if stalled else 0)
        sent = min(due, round(self.wire_fps * duration_s))
        room = self.carried_fps * (duration_s + self.burst_s)
        counts = DirectionCounts(
            direction=0,
            intended=intended,
            sent=sent,
            refused=due - sent,
            unsent=intended - due,
            received=min(sent, round(room)),
            tx_seconds=duration_s,
        )
        return TrialResult(directions=(counts,), gaps=standing_still(0.02 if stalled else 0.0))


@pytest.mark.parametrize(
    ("loop", "truth", "ended_by"),
    [
        (Loop(tester_fps=3e6), 3e6, "own stall"),
        (Loop(wire_fps=5e6), 5e6, "refusal"),
        (Loop(carried_fps=4e6), 4e6, "loss"),
        (Loop(carried_fps=4e6, burst_s=0.1), 4.4e6, "loss"),  # short trials promise 6.7e6
        (Loop(carried_fps=4e6, stall_share=0.3), 4e6, "loss"),
    ],
)
def test_the_maximum_is_found_by_several_trials_of_a_second(
    loop: Loop, truth: float, ended_by: str
) -> None:
    found = find_clean_maximum(loop, 64)
    assert len(found.rates) == REPEATS == 3
    assert found.middle == pytest.approx(truth, rel=0.04)
    assert max(found.rates) <= truth
    assert found.ended_by == ended_by
    assert LONG_S >= 1.0
    for rate in found.rates:
        assert (rate, LONG_S) in loop.trials


@pytest.mark.parametrize(
    ("values", "looked", "certain"),
    [
        ((7.5, 7.6, 7.7), 3, True),
        ((7.5, 2.4, 7.6, 7.7, 7.6, 7.5, 7.6, 7.7, 7.6), 9, True),  # one stray
        ((7.5, 2.4, 7.6, 7.7, 7.6, 7.5, 3.1, 7.7, 7.6), 7, False),  # two, both on one side
        ((2.4, 9.4, 7.6, 8.8, 5.0), 5, False),  # no further four could make them agree
    ],
)
def test_values_that_disagree_ask_for_more(
    values: tuple[float, ...], looked: int, certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(values)
    monkeypatch.setattr(calibrate, "find_edge", lambda *_, **__: (next(left), "loss"))
    found = find_clean_maximum(Loop(), 64)
    assert found.rates == values[:looked]
    assert agree(found.rates) is certain


def test_stalls_of_the_tester_do_not_lower_what_it_can_do() -> None:
    found = [find_clean_maximum(Loop(carried_fps=4e6, stall_share=0.2), 64) for _ in range(6)]
    assert min(one.middle for one in found) > 0.95 * 4e6


def test_loss_that_a_tester_that_stood_still_may_explain_is_its_own() -> None:
    """The rule of a verdict: what rings bridge explains nothing, and no gap more than it cost."""

    def lost(frames: int, stood_s: float) -> str:
        late = Loop()(1e6).model_copy(
            update={"gaps": standing_still(stood_s), "max_lag_s": stood_s}
        )
        assert unclean(late) == ""
        (counts,) = late.directions
        fewer = counts.model_copy(update={"received": counts.sent - frames})
        return unclean(late.model_copy(update={"directions": (fewer,)}))

    assert lost(5, 0.005) == "own stall"
    assert lost(5, 0.0019) == "loss"
    assert lost(5_000, 0.005) == "own stall"
    assert lost(5_100, 0.005) == "loss"  # a million frames/s: 5 ms are 5000


def test_what_the_testers_own_ring_refused_may_be_its_own() -> None:
    """In a loop the full ring is one that it did not empty itself; before a DUT it is the DUT's."""
    away = standing_still(0.005).model_copy(update={"send": Gaps(max_s=0.0)})  # from polling alone
    late = Loop()(1e6).model_copy(update={"gaps": away, "max_lag_s": 0.005})
    (counts,) = late.directions
    fewer = counts.sent - 3000
    update = {"sent": fewer, "received": fewer, "refused": 3000}
    refused = late.model_copy(update={"directions": (counts.model_copy(update=update),)})
    assert unclean(refused) == "own stall"
    assert refused.most_lost_by_tester(refused.directions[0]) == 0


def test_a_loop_that_never_comes_back_whole_has_no_maximum() -> None:
    with pytest.raises(GeneratorError, match="do not come back whole at any rate"):
        find_clean_maximum(Loop(carried_fps=100.0), 64)


def test_what_short_trials_show_far_too_low_is_no_limit() -> None:
    """A wire that comes up while they run: its ring is all that they see of it."""

    class Late(Loop):
        def __call__(self, load_fps: float, duration_s: float = 0.15) -> TrialResult:
            self.wire_fps = 9e6 if len(self.trials) > 2 else 512 / duration_s
            return super().__call__(load_fps, duration_s)

    found = find_clean_maximum(Late(carried_fps=5e6), 64)
    assert found.middle == pytest.approx(5e6, rel=0.06)
    assert found.ended_by == "loss"


def test_a_loop_faster_than_the_flood_is_calibrated_too() -> None:
    fast = find_clean_maximum(Loop(tester_fps=60e6, wire_fps=60e6, carried_fps=60e6), 64)
    assert fast.middle == pytest.approx(60e6, rel=0.06)


def test_a_loop_without_a_link_is_not_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([("tester port 1",), ("tester port 1",), ()])
    late: Any = SimpleNamespace(links_down=lambda: next(looks))
    calibrate.wait_for_links(late)
    assert next(looks, None) is None
    monkeypatch.setattr(calibrate, "LINKS_S", 0.05)
    never: Any = SimpleNamespace(links_down=lambda: ("tester port 1",))
    with pytest.raises(GeneratorError, match="tester port 1: no link within"):
        calibrate.wait_for_links(never)


def test_a_brief_calibration_has_one_value_by_short_trials() -> None:
    loop = Loop(carried_fps=4e6)
    found = find_clean_maximum(loop, 64, brief=True)
    assert len(found.rates) == 1
    assert found.rates[0] == pytest.approx(4e6, rel=0.1)
    assert max(seconds for _, seconds in loop.trials) < 0.5


def burst_of(gap_ns: float, refused: int = 0) -> TrialResult:
    counts = DirectionCounts(
        direction=0,
        intended=1024,
        sent=1024 - refused,
        refused=refused,
        unsent=0,
        received=1024 - refused,
        tx_seconds=1024 * gap_ns / 1e9,
    )
    return TrialResult(directions=(counts,))


@pytest.mark.parametrize(
    ("bursts", "gap_ns"),
    [
        ([burst_of(100.0)], 100.0),
        ([burst_of(97.7, refused=512)], 97.7),  # the time is that of all that were offered
        ([burst_of(100.0), burst_of(900.0), burst_of(101.0)], 101.0),  # it stood still in one
        ([burst_of(60.0, refused=512), burst_of(100.0), burst_of(60.0, refused=9)], 100.0),
    ],
)
def test_the_gap_of_bursts_is_of_whole_ones_and_of_no_stall(
    bursts: list[TrialResult], gap_ns: float
) -> None:
    left = list(bursts)
    generator: Any = SimpleNamespace(lacks=lambda _: "", run=lambda *_: left.pop(0))
    assert calibrate.measure_burst_gap(generator, 64, lambda: None, len(bursts)) == gap_ns


def test_frames_that_a_ring_refused_were_paced_too() -> None:
    assert calibrate.compute_pacing_error(burst_of(100.0, refused=512), 1e7) == 0.0
