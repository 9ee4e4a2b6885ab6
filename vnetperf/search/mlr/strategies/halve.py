"""Start a target in the middle of what the one before it has left."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Situation, split


def halve(situation: Situation) -> int | None:
    """Choose the middle of the hints, if one halving makes them narrow enough.

    The target before stopped at twice this one's width. Doing the last halving with this target's
    trials saves classifying one of the two ends.

    Args:
        situation: The goal's search as it stands.

    Returns:
        A rung, or None if the hints are not one halving away or their middle is known.
    """
    low, high, width = situation.hint_low, situation.hint_high, situation.width
    if low is None or high is None or not width < high - low <= 2 * width:
        return None
    middle = split(low, high, width)
    return middle if situation.is_worth(middle) else None
