"""How surely a share of frames is known: the interval of Clopper and Pearson."""

from __future__ import annotations

from math import exp, expm1, log

from vnetperf.statistics.quantiles import beta_quantile


def clopper_pearson(lost: int, offered: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a loss ratio, for frames lost independently of each other.

    It never covers less often than it says. Losses in bursts are not independent: then it is
    narrower than the truth.

    Args:
        lost: Frames lost.
        offered: Frames offered.
        confidence: Level, above 0 and below 1.

    Returns:
        Lower and upper end, 0..1; 0 and 1 when nothing was offered.

    Raises:
        ValueError: More lost than offered, a negative number, or no level.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"{confidence:g} is no level of confidence between 0 and 1")
    if not 0 <= lost <= offered:
        raise ValueError(f"{lost} lost of {offered} offered is no share")
    if offered == 0:
        return 0.0, 1.0
    tail = (1.0 - confidence) / 2.0
    none_seen, all_seen = -expm1(log(tail) / offered), exp(log(tail) / offered)
    if lost == 0:
        return 0.0, none_seen
    if lost == offered:
        return all_seen, 1.0
    low = beta_quantile(tail, lost, offered - lost + 1)
    high = beta_quantile(1.0 - tail, lost + 1, offered - lost)
    return low, high
