"""From the trial log to numbers: results, comparisons, trends, thresholds; no machine."""
