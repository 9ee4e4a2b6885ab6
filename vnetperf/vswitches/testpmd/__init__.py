"""A bare DPDK forwarder as a vSwitch: what poll mode and the ports cost without a switch."""

from vnetperf.vswitches.testpmd.switch import TestpmdSwitch

__all__ = ["TestpmdSwitch"]
