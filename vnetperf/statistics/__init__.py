"""What repeated measurements say and how surely: intervals, modes, outliers, changes. Pure."""

from vnetperf.statistics.proportion import clopper_pearson
from vnetperf.statistics.spread import spread

__all__ = ["clopper_pearson", "spread"]
