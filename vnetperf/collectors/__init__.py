"""Collectors: what is measured of a deployment's threads, and of its machine, over a trial."""

from vnetperf.collectors.cpu import CpuCollector as CpuCollector
from vnetperf.collectors.energy import EnergyCollector as EnergyCollector
from vnetperf.collectors.events import EventCollector as EventCollector
