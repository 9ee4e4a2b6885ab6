"""Latency histograms as results store them (HdrHistogram V2, base64), and their percentiles."""

from __future__ import annotations

import struct
import weakref
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from hdrh.histogram import HdrHistogram

from vnetperf.statistics.samples import nearest_rank
from vnetperf.statistics.samples import percentiles as ranked

#: Layout of stored histograms: 1 ns to 10 s, 3 significant digits.
LOWEST_NS, HIGHEST_NS, DIGITS = 1, 10_000_000_000, 3
#: Most frames that a histogram tells of one value.
MOST_FRAMES = 2**48
PERCENTILES = (1.0, 50.0, 90.0, 99.0, 99.9, 99.99)


def latency_percentiles(pairs: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Percentiles of a histogram."""
    return ranked(pairs, PERCENTILES)


def _without_cycle(histogram: HdrHistogram) -> HdrHistogram:
    """A histogram whose 200 KB are freed with it, and not when Python looks for cycles next."""
    histogram.encoder.histogram = weakref.proxy(histogram)
    return histogram


def encode_hdr(pairs: Iterable[tuple[int, int]]) -> str:
    """A histogram in the portable form of HdrHistogram.

    Its C code ends the process where a count is not one of 63 bits.

    Raises:
        ValueError: A value is not from 0 to `HIGHEST_NS`, or a count is none.
    """
    histogram = _without_cycle(HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))
    half = histogram.sub_bucket_half_count
    bits = histogram.sub_bucket_half_count_magnitude + 1
    total = 0
    for value, frames in pairs:
        if not 0 <= value <= HIGHEST_NS or not 0 <= frames <= MOST_FRAMES:
            raise ValueError(f"{frames} frames of {value} ns cannot be")
        # What record_value does for each value, without its checks: it takes 25 us a value.
        bucket = max(0, value.bit_length() - bits)
        histogram.counts[(bucket + 1) * half + (value >> bucket) - half] += frames
        total += frames
        histogram.min_value = min(histogram.min_value, value)
        histogram.max_value = max(histogram.max_value, value)
    histogram.total_count = total
    return str(histogram.encode().decode())


#: What decoding foreign or damaged base64 can raise.
_DAMAGED = (
    HdrCookieException,
    HdrHistogramSettingsException,
    HdrLengthException,
    LookupError,
    OverflowError,
    RuntimeError,
    TypeError,
    struct.error,
    zlib.error,
)


def decode_hdr(text: str) -> HdrHistogram:
    """The histogram in its portable form; `ValueError` where it cannot be read."""
    try:
        return _without_cycle(HdrHistogram.decode(text))
    except _DAMAGED as error:
        raise ValueError(str(error) or type(error).__name__) from None


def recorded(histogram: HdrHistogram) -> list[tuple[int, int]]:
    """Least value of each bucket that holds any, and how many; the library's iterator is slow."""
    values, counts = _recorded(histogram)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def _recorded(histogram: HdrHistogram) -> tuple[Any, Any]:
    import numpy as np

    counts = np.asarray(histogram.counts)
    places = np.flatnonzero(counts)
    # The library's `get_value_from_index`, of all at once.
    half = histogram.sub_bucket_half_count
    bucket = (places >> histogram.sub_bucket_half_count_magnitude) - 1
    sub_bucket = (places & (half - 1)) + np.where(bucket < 0, 0, half)
    return sub_bucket << (np.maximum(bucket, 0) + histogram.unit_magnitude), counts[places]


def read_percentiles(histogram: HdrHistogram, levels: Iterable[float]) -> dict[str, float]:
    """The nearest-rank percentiles of a histogram, as `samples.percentiles` has them of pairs."""
    values, counts = _recorded(histogram)
    if not len(values):
        return {}
    upto = counts.astype("int64").cumsum()
    total = int(upto[-1])
    ranks = {p: rank for p in sorted(levels) if (rank := nearest_rank(total, p)) <= total}
    places = upto.searchsorted(list(ranks.values()))
    return {f"{p:g}": float(values[place]) for p, place in zip(ranks, places.tolist(), strict=True)}


def percentile_values(histogram: HdrHistogram, percentiles: Sequence[float]) -> list[int]:
    """Values at percentiles, as the library's own `get_value_at_percentile`, which is slow."""
    import numpy as np

    counts = np.asarray(histogram.counts)
    totals = counts.cumsum(dtype=np.int64)
    ranks = [histogram.get_target_count_at_percentile(p) for p in percentiles]
    places = np.searchsorted(totals, ranks)
    values = [histogram.get_value_from_index(int(place)) for place in places]
    return [
        histogram.get_highest_equivalent_value(v) if p else histogram.get_lowest_equivalent_value(v)
        for p, v in zip(percentiles, values, strict=True)
    ]
