"""Frames that must come through a deployment before it is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from vnetperf.deployment import trial
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.model.errors import DutError
from vnetperf.model.trial import DirectionCounts, TrialResult

DUE = 30


class Path:
    """A deployment whose tester gives frames up, and whose DUT loses some, try after try."""

    def __init__(self, *tries: tuple[int, int, int]) -> None:
        """Give (unsent, refused, received) of each try; the last one stays."""
        self.tries = [*tries]
        self.generator = self.vswitch = self
        self.vnfs = ()
        self.elsewhere = False
        scenario = SimpleNamespace(id="pvp_fake", traffic=SimpleNamespace(least_frame_size=64))
        self.plan = SimpleNamespace(sends_frames=True, scenario=scenario, has_dut=False, nics=())

    def run(self, *_: Any) -> TrialResult:
        unsent, refused, received = self.tries.pop(0) if len(self.tries) > 1 else self.tries[0]
        counts = DirectionCounts(
            direction=0,
            intended=DUE,
            sent=DUE - unsent - refused,
            refused=refused,
            unsent=unsent,
            received=received,
        )
        return TrialResult(directions=(counts,))

    def counters(self) -> dict[str, Any]:
        return {}

    def links_down(self) -> tuple[str, ...]:
        return ()

    def prepare(self, _: int) -> None: ...

    def learn(self, _: int) -> None: ...

    def check_alive(self) -> None: ...


def check(*tries: tuple[int, int, int]) -> dict[str, Any]:
    return trial.check_path(cast("LiveDeployment", Path(*tries)), 0.3)


def test_it_is_repeated_until_no_frame_is_lost() -> None:
    found = check((0, 0, 12), (0, 0, DUE))
    assert (found["sent"], found["received"], found["tries"]) == ([DUE], [DUE], 2)


def test_frames_that_a_busy_tester_gave_up_are_not_lost() -> None:
    found = check((26, 0, 4))
    assert (found["sent"], found["received"], found["tries"]) == ([4], [4], 1)


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ((0, 0, 12), "12 of 30"),
        ((DUE, 0, 0), "0 of 0 (30 more never left a tester that was too slow)"),
        ((0, 26, 4), "4 of 30"),  # on memif the DUT's own ring refused them
        ((20, 0, 9), "9 of 10 (20 more never left"),
    ],
)
def test_frames_that_left_and_were_lost_are_named(counts: tuple[int, int, int], named: str) -> None:
    with pytest.raises(DutError) as error:
        check(counts)
    assert f"direction 0: {named}" in error.value.what
