"""The built-in generator engine: C on DPDK, compiled on first use."""

from vnetperf.traffic.loadgen.driver import Loadgen

__all__ = ["Loadgen"]
