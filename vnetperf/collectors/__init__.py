"""Collectors: what is measured of a deployment's threads, and of its machine, over a trial."""
