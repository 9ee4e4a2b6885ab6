"""Pktgen-DPDK as a traffic generator."""

from vnetperf.traffic.pktgen.driver import Pktgen

__all__ = ["Pktgen"]
