"""A plugin of pytest: two hosts of this machine are planned as if nothing compared their clocks."""

from vnetperf.planning import planner

planner._clock_bound_s = lambda *_: None
