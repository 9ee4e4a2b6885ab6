"""Runs the console script as `python -m vnetperf.cli`."""

import sys

from vnetperf.cli import main

sys.exit(main())
