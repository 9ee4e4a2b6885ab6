"""Accounts for lost frames: at which hop the frames of a search died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from vnetperf.model.result import TrialPoint
from vnetperf.model.trial import Verdict


@dataclass(frozen=True, slots=True)
class LossAccount:
    """Frames lost in the VALID trials of one search.

    Attributes:
        trials: VALID trials.
        lossy: Those that lost frames.
        unattributed: Lossy ones that name no hop.
        by_hop: Hop or ring -> frames, the worst first.
    """

    trials: int
    lossy: int
    unattributed: int
    by_hop: dict[str, int]

    @property
    def total(self) -> int:
        """Frames over all hops."""
        return sum(self.by_hop.values())


def account(trials: Iterable[TrialPoint]) -> LossAccount:
    """Sum up where frames died.

    Args:
        trials: Trials of one search.

    Returns:
        The account over the VALID ones.
    """
    valid = [t for t in trials if t.verdict is Verdict.VALID]
    lossy = [t for t in valid if t.loss_ratio or t.lost_at]
    hops: Counter[str] = Counter()
    for trial in lossy:
        hops.update(trial.lost_at)
    return LossAccount(
        trials=len(valid),
        lossy=len(lossy),
        unattributed=sum(not any(t.lost_at.values()) for t in lossy),
        by_hop=dict(hops.most_common()),
    )
