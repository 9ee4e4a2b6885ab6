"""The strategies, in the order they are asked."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Strategy
from vnetperf.search.mlr.strategies.bisect import bisect_bounds
from vnetperf.search.mlr.strategies.confirm import confirm_hints
from vnetperf.search.mlr.strategies.extend import extend_hints

#: Each is asked only if those before it have nothing to say.
STRATEGIES: tuple[Strategy, ...] = (confirm_hints, extend_hints, bisect_bounds)

__all__ = ["STRATEGIES"]
