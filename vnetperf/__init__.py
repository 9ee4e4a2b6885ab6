"""Benchmarks virtual switches and NFV data planes with pytest."""

__version__ = "0.1.0"
