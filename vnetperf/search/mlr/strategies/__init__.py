"""The strategies, in the order they are asked."""

from __future__ import annotations

from vnetperf.search.mlr.situation import Strategy
from vnetperf.search.mlr.strategies.bisect import bisect
from vnetperf.search.mlr.strategies.extend import extend
from vnetperf.search.mlr.strategies.halve import halve
from vnetperf.search.mlr.strategies.refine import refine

#: Each is asked only if those before it have nothing to say.
STRATEGIES: tuple[Strategy, ...] = (halve, refine, extend, bisect)

__all__ = ["STRATEGIES"]
