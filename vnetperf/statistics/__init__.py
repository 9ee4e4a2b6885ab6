"""What repeated measurements show and how surely: intervals, modes, outliers, changes. Pure."""

from vnetperf.statistics.samples import clopper_pearson, spread, trial_loss_interval

__all__ = ["clopper_pearson", "spread", "trial_loss_interval"]
