"""Benchmarks virtual switches and NFV data planes with pytest."""

import logging

# Without a handler of their user, records are not printed.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.1.0"
