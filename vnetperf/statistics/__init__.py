"""What repeated measurements show and how surely: intervals, modes, outliers, changes. Pure."""

from vnetperf.statistics.samples import clopper_pearson, loss_of_trials, spread

__all__ = ["clopper_pearson", "loss_of_trials", "spread"]
