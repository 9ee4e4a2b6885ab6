"""RFC 6201, which updates RFC 2544 section 26.6: reset."""

from __future__ import annotations

from collections.abc import Iterator

from vnetperf.bench.compliance.entry import Looked, entry
from vnetperf.model.result import LedgerEntry


def reset(looked: Looked) -> Iterator[LedgerEntry]:
    """Hold a result against it.

    Args:
        looked: A reset result.

    Yields:
        Entries.
    """
    found = [one for one in looked.result.resets if not one.why]
    both = [one for one in found if one.by_loss_s is not None and one.by_time_s is not None]
    yield entry(
        "RFC 6201, methods",
        "reset time by lost frames or by time stamps, the method reported",
        bool(found) and len(both) == len(found),
        "; ".join(f"{one.what} ({one.type}): both" for one in both) or "none",
        "; ".join(f"{one.what}: {one.why}" for one in looked.result.resets if one.why)
        or "one of the two has no number",
    )
    least = min((one.by_time_s.n for one in both if one.by_time_s is not None), default=0)
    yield entry(
        "RFC 6201, repeats",
        "the number of trials is reported",
        least > 0,
        f"{least} for each",
        "nothing was reset",
    )
