"""Gives results to other systems: as OpenMetrics text, or to an HTTP endpoint like TestAPI."""
