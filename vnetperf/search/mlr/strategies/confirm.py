"""Confirm with this target's trials what shorter ones have said."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Situation


def confirm_hints(situation: Situation) -> int | None:
    """Choose a hint itself, the lower one first.

    The lower one is the answer if it holds, so it is worth most; and a load that proves too much
    there makes the upper hint needless.

    Args:
        situation: The goal's search as it stands.

    Returns:
        A rung, or None if both hints are known or absent.
    """
    for hint in (situation.hint_low, situation.hint_high):
        if hint is not None and situation.is_worth(hint):
            return hint
    return None
