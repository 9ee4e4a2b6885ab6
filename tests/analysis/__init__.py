"""From the log to numbers."""
