"""Open vSwitch with the DPDK (netdev) datapath, a private instance beside any system OVS."""

from vnetperf.vswitches.dpdk.switch import OvsDpdk

__all__ = ["OvsDpdk"]
