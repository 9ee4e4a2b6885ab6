"""From the trial log to numbers: results, metrics, comparisons, trends, thresholds; it reaches no machine."""
