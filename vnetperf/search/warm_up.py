"""Warms the DUT up before a search: RFC 9971 takes it that "the SUT is warm before the search"."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.model.parameters import SearchGoal, SearchLimits
from vnetperf.model.trial import TrialRequest
from vnetperf.search.base import Procedure

#: Seconds of each window.
WINDOW_S = 1.0


def warm_up(goals: Sequence[SearchGoal], limits: SearchLimits) -> Procedure[float | None]:
    """Send at the largest load until two successive windows agree within the smallest width.

    Nothing is classified by it. Returns the forwarding rate of the last window, frames/s per
    interface; None where there was none.
    """
    width = min(goal.width for goal in goals)
    before: float | None = None
    for _ in range(int(limits.warm_up_s / WINDOW_S) if not limits.starts_fps else 0):
        window = yield TrialRequest(
            load_fps=limits.max_load_fps,
            duration_s=WINDOW_S,
            histogram_up_to_loss=-1.0,
            phase="warm-up",
            when_limited="count",
            overload=True,
        )
        rate = window.forwarding_rate_fps
        if before is not None and min(rate, before) >= max(rate, before) * (1.0 - width):
            return rate
        before = rate
    return before
