"""Multi-goal search after draft-ietf-bmwg-mlrsearch-15."""

from __future__ import annotations

from vnetperf.search.mlr.controller import ALGORITHM, mlr_search

__all__ = ["ALGORITHM", "mlr_search"]
