"""Frozen values of the field: units, traffic, deployments, trials, goals. No I/O."""
