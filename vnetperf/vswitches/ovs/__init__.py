"""Open vSwitch with the kernel's datapath, a private instance beside any system OVS."""

from vnetperf.vswitches.ovs.switch import OvsKernel

__all__ = ["OvsKernel"]
