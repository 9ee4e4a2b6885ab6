"""The latency curve of a direction: decoded from its HdrHistogram, or else its percentiles."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass

from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from hdrh.histogram import HdrHistogram

from vnetperf.model.trial import Latency

_STEPS_PER_DECADE = 12
_MOST_DECADES = 9
#: What decoding foreign or damaged base64 can raise.
_DAMAGED = (
    HdrCookieException,
    HdrHistogramSettingsException,
    HdrLengthException,
    LookupError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


@dataclass(frozen=True, slots=True)
class Curve:
    """Latency over 1/(1-p).

    Attributes:
        points: 1/(1-p) and nanoseconds.
        exact: True from a histogram, False from a few stored percentiles.
    """

    points: tuple[tuple[float, float], ...]
    exact: bool


def _from_histogram(latency: Latency) -> Curve | None:
    try:
        histogram = HdrHistogram.decode(latency.hdr)
        count = histogram.get_total_count()
        if not count:
            return None
        decades = min(_MOST_DECADES, math.log10(count))
        steps = math.ceil(decades * _STEPS_PER_DECADE) or 1
        levels = [10 ** (decades * i / steps) for i in range(steps + 1)]
        shares = [100 * (1 - 1 / level) for level in levels]
        values = histogram.get_percentile_to_value_dict(sorted(set(shares)))
        points = tuple((lv, float(values[s])) for lv, s in zip(levels, shares, strict=True))
    except _DAMAGED:
        return None
    return Curve(points, exact=True)


def _number(said: str) -> float | None:
    try:
        return float(said)
    except ValueError:
        return None


def curve(latency: Latency) -> Curve:
    """The curve of a latency, from its histogram or else from its percentiles.

    Args:
        latency: The latency.

    Returns:
        The curve; a histogram that cannot be decoded counts as none.
    """
    found = _from_histogram(latency) if latency.hdr else None
    if found is not None:
        return found
    pairs = ((_number(p), v) for p, v in latency.percentiles.items())
    points = sorted((100 / (100 - p), v) for p, v in pairs if p is not None and 0 <= p < 100)
    return Curve(tuple(points), exact=False)
